//! What a node knows to be stable: a version vector with exceptions. For each coordinator there is a watermark, and
//! the transactions below it that are not known to be stable.
//!
//! Both halves of a coordinator's report stay true for ever: all up to the watermark is committed everywhere, except
//! for the exceptions. So what two nodes have learned can be joined.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use anabranch_types::Timestamp;

/// One coordinator's transactions below its watermark that are not known to be stable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceptions {
    /// When the coordinator made this list, by its clock: later lists have higher ones.
    pub since: Timestamp,
    /// Their commit timestamps, in ascending order.
    pub commits: Box<[Timestamp]>,
}

impl Exceptions {
    pub(crate) fn contain(&self, commit: Timestamp) -> bool {
        self.commits.binary_search(&commit).is_ok()
    }

    /// The exceptions that remain for a node that also knows all up to a watermark to be stable, except for `others`.
    fn left_by(&self, watermark: Timestamp, others: Option<&Exceptions>) -> Vec<Timestamp> {
        let (below, above) =
            (self.commits).split_at(self.commits.partition_point(|c| *c <= watermark));
        let mut others = others.map_or(&[][..], |others| &others.commits).iter();
        let mut next = others.next();
        let both = below.iter().filter(|commit| {
            while next.is_some_and(|other| other < *commit) {
                next = others.next();
            }
            next == Some(commit)
        });
        let mut left: Vec<Timestamp> = both.copied().collect();
        left.extend_from_slice(above);
        left
    }
}

/// The watermarks of up to so many nodes are stored in place.
const FEW: usize = 8;

/// Watermarks by node. Each reader keeps what was known when it began, and sends it with every Get. The watermarks of
/// few nodes are copied: a reference count would go back and forth between the caches of the cores, and cost more.
#[derive(Clone)]
enum Watermarks {
    Few(u8, [Timestamp; FEW]),
    Many(Arc<[Timestamp]>),
}

impl Watermarks {
    fn set(&mut self, node: usize, watermark: Timestamp) {
        match self {
            Watermarks::Few(_, all) => all[node] = watermark,
            Watermarks::Many(all) => Arc::make_mut(all)[node] = watermark,
        }
    }

    /// Whether both are the same, as far as a cheap comparison shows.
    fn is_same(&self, other: &Watermarks) -> bool {
        match (self, other) {
            (Watermarks::Many(own), Watermarks::Many(theirs)) => Arc::ptr_eq(own, theirs),
            (own, theirs) => own[..] == theirs[..],
        }
    }
}

impl From<Vec<Timestamp>> for Watermarks {
    fn from(watermarks: Vec<Timestamp>) -> Watermarks {
        if watermarks.len() > FEW {
            return Watermarks::Many(watermarks.into());
        }
        let mut few = [Timestamp::ZERO; FEW];
        few[..watermarks.len()].copy_from_slice(&watermarks);
        Watermarks::Few(watermarks.len() as u8, few)
    }
}

impl Deref for Watermarks {
    type Target = [Timestamp];

    #[inline]
    fn deref(&self) -> &[Timestamp] {
        match self {
            Watermarks::Few(count, all) => &all[..usize::from(*count)],
            Watermarks::Many(all) => all,
        }
    }
}

impl PartialEq for Watermarks {
    fn eq(&self, other: &Watermarks) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Watermarks {}

impl fmt::Debug for Watermarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

/// What is stable, by node, as it was known at some time: all up to a watermark, except for the exceptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StableVector {
    watermarks: Watermarks,
    /// By node; none as long as there never were any.
    exceptions: Option<Arc<Vec<Option<Arc<Exceptions>>>>>,
}

impl StableVector {
    /// Nothing is known to be stable.
    pub fn nothing(nodes: usize) -> StableVector {
        StableVector::up_to(vec![Timestamp::ZERO; nodes])
    }

    /// All is known to be stable up to here, by node.
    pub(crate) fn up_to(watermarks: Vec<Timestamp>) -> StableVector {
        StableVector {
            watermarks: watermarks.into(),
            exceptions: None,
        }
    }

    /// Whether the transaction was known to be committed on all its partitions.
    #[inline]
    pub fn includes(&self, commit: Timestamp) -> bool {
        let node = commit.node().index();
        commit <= self.watermarks[node]
            && (self.exceptions.is_none()
                || self.exceptions(node).is_none_or(|s| !s.contain(commit)))
    }

    /// The watermark of one node.
    #[inline]
    pub fn of(&self, node: usize) -> Timestamp {
        self.watermarks[node]
    }

    /// Whether any node ever had exceptions.
    #[inline]
    pub fn has_exceptions(&self) -> bool {
        self.exceptions.is_some()
    }

    /// Those of one node below its watermark that are not included; none if it never had any.
    #[inline]
    pub fn exceptions(&self, node: usize) -> Option<&Arc<Exceptions>> {
        self.exceptions.as_ref()?[node].as_ref()
    }

    /// Whether both are the same, as far as a cheap comparison shows.
    pub(crate) fn is_same(&self, other: &StableVector) -> bool {
        let same_exceptions = match (&self.exceptions, &other.exceptions) {
            (Some(own), Some(theirs)) => Arc::ptr_eq(own, theirs),
            (own, theirs) => own.is_none() && theirs.is_none(),
        };
        same_exceptions && self.watermarks.is_same(&other.watermarks)
    }

    /// By node.
    pub(crate) fn watermarks(&self) -> Vec<Timestamp> {
        self.watermarks.to_vec()
    }

    /// By node: up to where everything is included.
    pub(crate) fn floors(&self) -> Vec<Timestamp> {
        let nodes = 0..self.watermarks.len();
        nodes.map(|node| self.floor(node)).collect()
    }

    /// Up to where everything of a node's is included.
    #[inline]
    pub(crate) fn floor(&self, node: usize) -> Timestamp {
        let first = self
            .exceptions(node)
            .and_then(|exceptions| exceptions.commits.first());
        let all = self.of(node);
        first.map_or(all, |first| below(*first).min(all))
    }

    /// Whether it includes at least this of a node.
    fn covers(
        &self,
        node: usize,
        watermark: Timestamp,
        exceptions: Option<&Arc<Exceptions>>,
    ) -> bool {
        if watermark > self.of(node) {
            return false;
        }
        let Some(own) = self.exceptions(node) else {
            return true;
        };
        match exceptions {
            None => own.commits.is_empty(),
            // A newer list means more even where it is the same: it implies that all that has left older lists is
            // stable.
            Some(exceptions) if own.commits.is_empty() => exceptions.since <= own.since,
            Some(exceptions) => Arc::ptr_eq(own, exceptions),
        }
    }

    /// Includes what another node has reported of a node, too: both are true. True if that is more.
    ///
    /// A list implies that all that has left an older one is stable. The join of two lists keeps the newer one's
    /// time, since no list has a lower watermark than an older one, not in a later incarnation of its coordinator
    /// either.
    pub(crate) fn join(
        &mut self,
        node: usize,
        watermark: Timestamp,
        exceptions: Option<&Arc<Exceptions>>,
    ) -> bool {
        if self.covers(node, watermark, exceptions) {
            return false;
        }
        let own = (self.of(node), self.exceptions(node).cloned());
        let theirs = (watermark, exceptions.cloned());
        if let (Some(own), Some(theirs)) = (&own.1, &theirs.1)
            && Arc::ptr_eq(own, theirs)
        {
            return self.set(node, watermark, exceptions.cloned());
        }
        let (higher, lower) = match own.0 > theirs.0 {
            true => (own, theirs),
            false => (theirs, own),
        };
        let joined = higher.1.as_ref().map(|exceptions| {
            let left = exceptions.left_by(lower.0, lower.1.as_deref());
            let since =
                (lower.1.as_ref()).map_or(exceptions.since, |s| s.since.max(exceptions.since));
            match left.len() == exceptions.commits.len() && since == exceptions.since {
                true => Arc::clone(exceptions),
                false => Arc::new(Exceptions {
                    since,
                    commits: left.into(),
                }),
            }
        });
        self.set(node, higher.0, joined)
    }

    /// Replaces what is known of a node. True if it is something else.
    pub(crate) fn set(
        &mut self,
        node: usize,
        watermark: Timestamp,
        exceptions: Option<Arc<Exceptions>>,
    ) -> bool {
        let mut news = false;
        if self.of(node) != watermark {
            self.watermarks.set(node, watermark);
            news = true;
        }
        if self.exceptions(node) != exceptions.as_ref() {
            let nodes = self.watermarks.len();
            let all = self
                .exceptions
                .get_or_insert_with(|| Arc::new(vec![None; nodes]));
            Arc::make_mut(all)[node] = exceptions;
            news = true;
        }
        news
    }
}

/// The one before.
pub(crate) fn below(commit: Timestamp) -> Timestamp {
    Timestamp::from_bits(commit.to_bits() - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use anabranch_types::NodeId;
    use anabranch_types::random::SplitMix64;

    use super::*;

    /// The join of two nodes' vectors includes what either does and no more, in either order.
    #[test]
    fn a_join_includes_what_either_side_does() {
        let mut random = SplitMix64::new(3);
        let at = |number| Timestamp::new(number, NodeId(0));
        let mut shared = 0;
        for _ in 0..20_000 {
            let mut sides = Vec::new();
            for _ in 0..2 {
                let watermark = random.below(24);
                let exceptions: BTreeSet<u64> = (0..random.below(6))
                    .map(|_| random.below(24))
                    .filter(|exception| *exception <= watermark)
                    .collect();
                let reported = (random.below(3) > 0).then(|| {
                    Arc::new(Exceptions {
                        since: at(100 + random.below(9)),
                        commits: exceptions.iter().map(|exception| at(*exception)).collect(),
                    })
                });
                sides.push((at(watermark), reported));
            }
            let known = |(watermark, exceptions): &(Timestamp, Option<Arc<Exceptions>>)| {
                let mut known = StableVector::nothing(1);
                known.join(0, *watermark, exceptions.as_ref());
                known
            };
            for (first, second) in [(0, 1), (1, 0)] {
                let (first, second) = (&sides[first], &sides[second]);
                let mut both = known(first);
                let news = both.join(0, second.0, second.1.as_ref());
                let includes =
                    |commit| known(first).includes(commit) || known(second).includes(commit);
                for number in 0..26 {
                    let commit = at(number);
                    let either = includes(commit);
                    assert_eq!(both.includes(commit), either, "{sides:?}: {commit}");
                    shared += u32::from(either);
                }
                assert!(
                    !both.join(0, second.0, second.1.as_ref()),
                    "{sides:?}: no news"
                );
                assert!(news || both == known(first), "{sides:?}");
                // Everything up to the floor is included.
                let floor = both.floors()[0];
                assert!((0..26).map(at).all(|c| c > floor || both.includes(c)));
            }
        }
        assert!(shared > 100_000, "{shared}");
    }
}
