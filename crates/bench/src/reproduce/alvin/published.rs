//! The numbers in the text of alvin.txt. None is read off the curves of its figures.

/// Figures 1, 2(b) and 3: numbers of sites.
pub(super) const SITES: [u16; 3] = [3, 5, 7];

/// Figure 1(b) and §1: ALVIN under EUS over EPaxos, 7 sites, 90% read-only.
pub(super) const EUS_OVER_EPAXOS: f64 = 4.8;

/// Figure 1(a) and §5: ALVIN under SR over EPaxos, write-intensive TPC-C, at most.
pub(super) const SR_OVER_EPAXOS: f64 = 1.26;

/// Figure 2(a): how many times slower MultiPaxos is than the others, 5 sites.
pub(super) const OVER_MULTIPAXOS: f64 = 3.0;

/// Figure 2(a): application threads of a site at which EPaxos stops scaling, and at which ALVIN does.
pub(super) const SATURATE: (u32, u32) = (85, 125);

/// Figure 2(b): what ALVIN without fast decisions saves, at most, in milliseconds.
pub(super) const SAVED_MS: f64 = 30.0;

/// Figure 3: the average abort rate, in percent.
pub(super) const ABORTS: (f64, f64) = (10.0, 20.0);

/// The share of transactions that only read in write-intensive TPC-C, in percent: below this.
pub(super) const READS: u8 = 3;
