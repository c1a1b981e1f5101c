//! What a site has delivered: a prefix of each site's batches, and exceptions above it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{BatchId, SiteId};

/// A prefix of each site's batches: all whose sequence numbers are at most these.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Prefix(Vec<u64>);

impl Prefix {
    /// The empty prefix of a group.
    pub fn empty(sites: u8) -> Prefix {
        Prefix(vec![0; usize::from(sites)])
    }

    /// The last sequence number of a site.
    pub fn last(&self, site: SiteId) -> u64 {
        self.0[site.index()]
    }

    /// Whether the batch is in the prefix.
    pub fn contains(&self, id: BatchId) -> bool {
        id.sequence <= self.last(id.site)
    }

    /// Extends one site's prefix up to `last`.
    pub fn extend(&mut self, site: SiteId, last: u64) {
        let own = &mut self.0[site.index()];
        *own = (*own).max(last);
    }

    /// Extends the prefix by another: their union.
    pub fn merge(&mut self, other: &Prefix) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    /// The intersection with another prefix.
    pub fn intersection(&self, other: &Prefix) -> Prefix {
        let pairs = self.0.iter().zip(&other.0);
        Prefix(pairs.map(|(own, other)| *own.min(other)).collect())
    }

    /// Whether the other prefix is a part of this one.
    pub fn covers(&self, other: &Prefix) -> bool {
        self.0.iter().zip(&other.0).all(|(own, other)| own >= other)
    }

    /// Whether no batch is in the prefix.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|last| *last == 0)
    }

    /// Each site and its last sequence number.
    pub fn iter(&self) -> impl Iterator<Item = (SiteId, u64)> {
        (0..).map(SiteId).zip(self.0.iter().copied())
    }
}

/// The batches that a site has delivered: a version vector with exceptions. A no-op counts as delivered once it is
/// decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Delivered {
    /// All of these are delivered.
    prefix: Prefix,
    /// Delivered batches after the prefix.
    exceptions: BTreeSet<BatchId>,
}

impl Delivered {
    /// No batch.
    pub fn none(sites: u8) -> Delivered {
        Delivered {
            prefix: Prefix::empty(sites),
            exceptions: BTreeSet::new(),
        }
    }

    /// The prefix.
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Whether the batch is delivered.
    pub fn contains(&self, id: BatchId) -> bool {
        self.prefix.contains(id) || self.exceptions.contains(&id)
    }

    /// Adds a batch. Returns whether it was new.
    pub fn insert(&mut self, id: BatchId) -> bool {
        if self.prefix.contains(id) || !self.exceptions.insert(id) {
            return false;
        }
        let mut next = self.first_missing(id.site);
        while self.exceptions.remove(&next) {
            self.prefix.extend(next.site, next.sequence);
            next = self.first_missing(id.site);
        }
        true
    }

    /// The first batch of a site that is not in the prefix.
    pub fn first_missing(&self, site: SiteId) -> BatchId {
        BatchId {
            site,
            sequence: self.prefix.last(site) + 1,
        }
    }

    /// Whether all batches of the other set are in this one.
    pub fn covers(&self, other: &Delivered) -> bool {
        other.exceptions.iter().all(|id| self.contains(*id))
            && other.prefix.iter().all(|(site, last)| {
                let missing = self.prefix.last(site) + 1..=last;
                missing
                    .map(|sequence| BatchId { site, sequence })
                    .all(|id| self.exceptions.contains(&id))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(site: u8, sequence: u64) -> BatchId {
        BatchId {
            site: SiteId(site),
            sequence,
        }
    }

    #[test]
    fn the_prefix_takes_in_exceptions_that_touch_it() {
        let mut delivered = Delivered::none(3);
        assert!(delivered.insert(id(1, 2)));
        assert!(delivered.insert(id(1, 3)));
        assert_eq!(delivered.prefix().last(SiteId(1)), 0);
        assert!(delivered.insert(id(1, 1)));
        assert_eq!(delivered.prefix().last(SiteId(1)), 3);
        assert!(!delivered.insert(id(1, 2)));
        assert_eq!(delivered.first_missing(SiteId(1)), id(1, 4));
    }

    #[test]
    fn a_set_covers_another_through_its_exceptions() {
        let mut more = Delivered::none(2);
        more.insert(id(0, 1));
        more.insert(id(0, 3));
        let mut less = Delivered::none(2);
        less.insert(id(0, 1));
        assert!(more.covers(&less) && !less.covers(&more));
        less.insert(id(0, 2));
        assert!(!more.covers(&less));
    }
}
