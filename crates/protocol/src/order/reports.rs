//! What sites have reported to each other, under every orderer: how far each has delivered, and what each knows of the
//! others. A site reports until it knows that the receiver knows.

use super::{Prefix, SiteId};

/// How far a site has come.
pub(crate) trait Progress: Clone + PartialEq {
    /// Whether a site that has come so far has delivered the same as one that has come as far as the other.
    fn agrees_with(&self, other: &Self) -> bool;

    /// Takes in a report that may be older or newer than this one.
    fn merge(&mut self, other: &Self);
}

impl Progress for Prefix {
    fn agrees_with(&self, other: &Prefix) -> bool {
        self == other
    }

    fn merge(&mut self, other: &Prefix) {
        Prefix::merge(self, other);
    }
}

/// The reports of a group, as far as one site knows.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Reports<R> {
    site: SiteId,
    /// How far each site has come.
    of: Vec<R>,
    /// How far this site had come, as far as each site knows.
    received: Vec<R>,
}

/// The contents of a report to another site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report<R> {
    /// How far the sender has come.
    pub(crate) own: R,
    /// How far the receiver had come, as far as the sender knows.
    pub(crate) received: R,
    /// Whether the sender does not know that the receiver knows `own`.
    pub(crate) needs_answer: bool,
}

impl<R: Progress> Reports<R> {
    /// A site of a group of `sites` none of which has come further than `begin`.
    pub(crate) fn new(site: SiteId, sites: u8, begin: R) -> Reports<R> {
        let of = vec![begin; usize::from(sites)];
        Reports {
            site,
            received: of.clone(),
            of,
        }
    }

    /// How far a site has come.
    pub(crate) fn of(&self, site: SiteId) -> &R {
        &self.of[site.index()]
    }

    /// How far each site has come, in order.
    pub(crate) fn all(&self) -> &[R] {
        &self.of
    }

    /// This site has come so far.
    pub(crate) fn set_own(&mut self, own: R) {
        self.of[self.site.index()] = own;
    }

    /// Whether another site has delivered something else, or does not know how far this site has come.
    pub(crate) fn differs(&self, site: SiteId) -> bool {
        let own = self.of(self.site);
        !self.of(site).agrees_with(own) || self.received[site.index()] != *own
    }

    /// The report to another site.
    pub(crate) fn report_to(&self, site: SiteId) -> Report<R> {
        let own = self.of(self.site).clone();
        Report {
            needs_answer: self.received[site.index()] != own,
            own,
            received: self.of(site).clone(),
        }
    }

    /// Takes another site's report.
    pub(crate) fn take(&mut self, from: SiteId, own: &R, received: &R) {
        self.of[from.index()].merge(own);
        self.received[from.index()].merge(received);
    }
}

/// How much longer a site waits after so many attempts, as a power of two.
const DOUBLINGS_MAX: u32 = 5;

/// How long a site waits before it takes over from another, in the unit of `base`: the sites after the `first` one in
/// turn, so that they do not compete; and longer after each attempt.
pub(crate) fn patience(base: u64, first: SiteId, site: SiteId, sites: u8, attempts: u32) -> u64 {
    let sites = u64::from(sites);
    let rank = (u64::from(site.0) + sites - u64::from(first.0)) % sites;
    (base + base * rank / 2) << attempts.min(DOUBLINGS_MAX)
}
