//! The phenomena that models forbid, by name, each with where it is defined.
//!
//! *Adya* is A. Adya, *Weak Consistency* (MIT, 1999); *Cerone and Gotsman* is *Analysing Snapshot
//! Isolation* (JACM 65(2), 2018); *HAT* is Bailis et al., *Highly Available Transactions* (VLDB
//! 2014), whose appendix defines session guarantees; *Elle* is Kingsbury and Alvaro, *Elle: Inferring
//! Isolation Anomalies from Experimental Observations* (VLDB 2020); the other definitions are
//! ramp.txt's.

use std::fmt;

use crate::graph::{Dependency, Step};

/// What went wrong, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Phenomenon {
    /// A committed write that was never installed: durability, the ground of every model.
    LostWrite,
    /// An answer that is not what was installed up to the sequence that it claims.
    WrongVersion,
    /// Two reads that no single order of versions explains (Elle: inconsistent
    /// observations).
    IncompatibleOrder,
    /// What was appended once was read twice (Elle: duplicates).
    DuplicateElements,
    /// A read that does not agree with the transaction's own operations (Elle; Cerone et
    /// al., *A Framework for Transactional Consistency Models*, CONCUR 2015: INT).
    Internal,
    /// Write cycle (Definition 3.6).
    G0,
    /// Aborted read (Definition 3.7).
    G1a,
    /// Intermediate read (Definition 3.8).
    G1b,
    /// Circular information flow (Definition 3.9).
    G1c,
    /// A transaction saw some of another's writes and not others (Definition 3.1).
    FracturedReads,
    /// The same, and what it missed it read after what it saw: the transaction that it had observed
    /// vanished (Definition 3.15; Adya §4.2.3).
    ObservedTransactionVanishes,
    /// It saw two versions of one item (Definition 3.23).
    ItemManyPreceders,
    /// Two of its ranges, or a range and a read, show two versions of what lies in both, or a range
    /// lacks a row of a transaction that it otherwise saw (Definitions 3.14 and 3.25).
    PredicateManyPreceders,
    /// A cycle with an antidependency, all by one item (Definition 3.12), of transactions that all write it.
    LostUpdate,
    /// A cycle with exactly one antidependency (Adya §4.2.2, G-single).
    GSingle,
    /// A cycle with several antidependencies, no two of them next to each other (Cerone and
    /// Gotsman, Theorem 4.1): a long fork (ramp.txt, History 7).
    LongFork,
    /// Two transactions that each antidepend on the other (Definition 3.19).
    WriteSkew,
    /// A cycle with several antidependencies (Adya §3.2.3, G2).
    G2,
    /// A reader's cycle with those who write (Adya §4.2.4, G-update).
    GUpdate,
    /// A cycle that real time closes.
    RealTime,
    /// A cycle of reads and session order: an effect before its cause.
    CausalCycle,
    /// It missed an effect of a transaction that it depends on through others (Definitions 3.21
    /// and 3.22).
    MissingDependency,
    /// A session saw an older version than before (HAT, N-MR).
    NonMonotonicReads,
    /// A session's later write stands before an earlier one (HAT, N-MW).
    NonMonotonicWrites,
    /// A session did not see its own write (HAT, MYR).
    MissingYourWrites,
    /// A session's write stands before what it had read (HAT, MRWD).
    WritesBeforeReads,
}

impl Phenomenon {
    /// Its name in the literature, or as near as can be.
    pub fn name(self) -> &'static str {
        match self {
            Phenomenon::LostWrite => "lost write",
            Phenomenon::WrongVersion => "wrong version",
            Phenomenon::IncompatibleOrder => "incompatible order",
            Phenomenon::DuplicateElements => "duplicate elements",
            Phenomenon::Internal => "internal inconsistency",
            Phenomenon::G0 => "G0",
            Phenomenon::G1a => "G1a",
            Phenomenon::G1b => "G1b",
            Phenomenon::G1c => "G1c",
            Phenomenon::FracturedReads => "fractured reads",
            Phenomenon::ObservedTransactionVanishes => "OTV",
            Phenomenon::ItemManyPreceders => "IMP",
            Phenomenon::PredicateManyPreceders => "PMP",
            Phenomenon::LostUpdate => "lost update",
            Phenomenon::GSingle => "G-single",
            Phenomenon::LongFork => "long fork",
            Phenomenon::WriteSkew => "write skew",
            Phenomenon::G2 => "G2",
            Phenomenon::GUpdate => "G-update",
            Phenomenon::RealTime => "real-time violation",
            Phenomenon::CausalCycle => "causal cycle",
            Phenomenon::MissingDependency => "missing dependency",
            Phenomenon::NonMonotonicReads => "non-monotonic reads",
            Phenomenon::NonMonotonicWrites => "non-monotonic writes",
            Phenomenon::MissingYourWrites => "missing your writes",
            Phenomenon::WritesBeforeReads => "writes before reads",
        }
    }

    /// What it is, in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Phenomenon::LostWrite => "a committed write was never installed",
            Phenomenon::WrongVersion => "a read is not what was installed up to its sequence",
            Phenomenon::IncompatibleOrder => "no order of versions explains two reads",
            Phenomenon::DuplicateElements => "what was appended once was read twice",
            Phenomenon::Internal => "a transaction did not see what it had done itself",
            Phenomenon::G0 => "transactions overwrite each other in a circle",
            Phenomenon::G1a => "a read of what an aborted transaction wrote",
            Phenomenon::G1b => "a read of a version that its writer replaced itself",
            Phenomenon::G1c => "transactions depend on each other's writes in a circle",
            Phenomenon::FracturedReads => "some of a transaction's writes were seen, others not",
            Phenomenon::ObservedTransactionVanishes => {
                "a transaction that had been observed was not there any more"
            }
            Phenomenon::ItemManyPreceders => "two versions of one item were seen",
            Phenomenon::PredicateManyPreceders => {
                "a range and another read saw different versions of what lies in both, or the range \
                 lacks a row of a transaction that was seen"
            }
            Phenomenon::LostUpdate => "an update was made from a version that had been overwritten",
            Phenomenon::GSingle => "a transaction saw one state here and an older one there",
            Phenomenon::LongFork => "readers saw independent writers in different orders",
            Phenomenon::WriteSkew => "each overwrote what the other had read",
            Phenomenon::G2 => "no serial order: a circle with antidependencies",
            Phenomenon::GUpdate => "a reader saw a state that no order of the writers has",
            Phenomenon::RealTime => "no serial order agrees with real time",
            Phenomenon::CausalCycle => "an effect comes before its cause",
            Phenomenon::MissingDependency => {
                "what a transaction had seen depends on what it did not see"
            }
            Phenomenon::NonMonotonicReads => "a session saw an older version than before",
            Phenomenon::NonMonotonicWrites => {
                "a session's writes are in another order than its own"
            }
            Phenomenon::MissingYourWrites => "a session did not see its own write",
            Phenomenon::WritesBeforeReads => "a session's write stands before what it had read",
        }
    }

    /// The name of a cycle in the serialization graph.
    pub(crate) fn of_cycle(cycle: &[Step]) -> Phenomenon {
        let count = |kind| cycle.iter().filter(|step| step.kind == kind).count();
        let antidependencies = count(Dependency::ReadWrite);
        if count(Dependency::RealTime) > 0 {
            return Phenomenon::RealTime;
        }
        if antidependencies == 0 {
            return match count(Dependency::WriteRead) {
                0 => Phenomenon::G0,
                _ => Phenomenon::G1c,
            };
        }
        // Who has only read has lost nobody's update, even if all was about one item: that is IMP.
        let updates = antidependencies > 1 || count(Dependency::WriteWrite) > 0;
        if updates && cycle.iter().all(|step| step.item == cycle[0].item) {
            return Phenomenon::LostUpdate;
        }
        if antidependencies == 1 {
            return Phenomenon::GSingle;
        }
        let is_anti = |at: usize| cycle[at % cycle.len()].kind == Dependency::ReadWrite;
        if (0..cycle.len()).all(|at| !(is_anti(at) && is_anti(at + 1))) {
            return Phenomenon::LongFork;
        }
        if cycle.len() == 2 {
            return Phenomenon::WriteSkew;
        }
        Phenomenon::G2
    }
}

impl fmt::Display for Phenomenon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
