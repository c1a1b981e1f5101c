//! The conflict relation between payloads, and an index of the batches that conflict.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{BatchId, SiteId};

/// What an orderer delivers, and its conflict relation.
///
/// The relation is symmetric. Payloads that do not conflict may be delivered in different orders at different sites.
pub trait Payload: Clone + fmt::Debug + Send + Sync {
    /// Whether the two are delivered in the same order at all sites.
    fn conflicts_with(&self, other: &Self) -> bool;

    /// Passes the payload's classes to `sink`, some perhaps several times. Two payloads that conflict meet in a class, so that an orderer finds
    /// conflicts by class; payloads that meet need not conflict. For example a hash of each row that is accessed, and
    /// the table of each range.
    fn classes(&self, sink: &mut dyn FnMut(ConflictClass));
}

/// A set of payloads that may conflict with each other, and the side of one payload in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConflictClass {
    /// The class.
    pub number: u64,
    /// The side: payloads of sides that do not meet are not compared.
    pub side: ClassSide,
    /// Whether payloads that meet here conflict, so that they need not be compared: the class stands for one row, for
    /// example. All payloads say the same of a class. By a hash of the row, a few that do not conflict are ordered, too.
    pub is_exact: bool,
}

/// A payload's side in a class, so that the readers of a class need not be compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ClassSide {
    /// Meets all.
    Both,
    /// Meets all but `Left`.
    Left,
    /// Meets all but `Right`.
    Right,
}

impl ClassSide {
    /// The sides that this one meets.
    fn meets(self) -> &'static [ClassSide] {
        match self {
            ClassSide::Both => &[ClassSide::Both, ClassSide::Left, ClassSide::Right],
            ClassSide::Left => &[ClassSide::Both, ClassSide::Right],
            ClassSide::Right => &[ClassSide::Both, ClassSide::Left],
        }
    }
}

impl ConflictClass {
    /// A class whose payloads all meet.
    pub fn of(number: u64) -> ConflictClass {
        ConflictClass {
            number,
            side: ClassSide::Both,
            is_exact: false,
        }
    }
}

/// Payloads that are ordered as one, in the order in which their site broadcast them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Batch<P>(Arc<[P]>);

impl<P: fmt::Debug> fmt::Debug for Batch<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<P> Batch<P> {
    /// The payloads, in order.
    pub fn payloads(&self) -> &[P] {
        &self.0
    }
}

impl<P> From<Vec<P>> for Batch<P> {
    fn from(payloads: Vec<P>) -> Batch<P> {
        Batch(payloads.into())
    }
}

impl<P: Serialize> Serialize for Batch<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0[..].serialize(serializer)
    }
}

impl<'de, P: Deserialize<'de>> Deserialize<'de> for Batch<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Batch<P>, D::Error> {
        Vec::deserialize(deserializer).map(Batch::from)
    }
}

impl<P: Payload> Batch<P> {
    /// Whether a payload of this batch conflicts with one of the other.
    pub fn conflicts_with(&self, other: &Batch<P>) -> bool {
        let mut own = self.0.iter();
        own.any(|payload| other.0.iter().any(|it| payload.conflicts_with(it)))
    }

    /// Passes the classes of all payloads to `sink`, some several times.
    fn classes(&self, mut sink: impl FnMut(ConflictClass)) {
        for payload in &*self.0 {
            payload.classes(&mut sink);
        }
    }
}

/// Batches, by the classes of their payloads, and which of them conflict.
///
/// A batch's conflicts are found once, when it or the other one is added: an orderer asks for them in each of its phases.
#[derive(Clone, Debug)]
pub(crate) struct ConflictIndex<P> {
    classes: FxHashMap<u64, Members>,
    batches: BTreeMap<BatchId, Indexed<P>>,
}

/// A batch of an index.
#[derive(Clone, Debug)]
struct Indexed<P> {
    batch: Batch<P>,
    /// Those of the other batches that conflict with it.
    conflicting: BTreeSet<BatchId>,
}

/// The batches of a class. Most classes are of one row, and have one batch: it takes no memory of its own.
#[derive(Clone, Debug)]
enum Members {
    One(Member),
    Several(BTreeSet<Member>),
}

/// A batch on its side of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    side: ClassSide,
    id: BatchId,
}

impl Members {
    fn insert(&mut self, member: Member) {
        match self {
            Members::One(known) if *known == member => {}
            Members::One(known) => *self = Members::Several(BTreeSet::from([*known, member])),
            Members::Several(known) => {
                known.insert(member);
            }
        }
    }

    /// Removes a member. Returns whether none is left.
    fn remove(&mut self, member: Member) -> bool {
        match self {
            Members::One(known) => *known == member,
            Members::Several(known) => {
                known.remove(&member);
                known.is_empty()
            }
        }
    }

    /// Passes the batches that one on this side meets to `met`.
    fn met_by(&self, side: ClassSide, mut met: impl FnMut(BatchId)) {
        match self {
            Members::One(known) if side.meets().contains(&known.side) => met(known.id),
            Members::One(_) => {}
            Members::Several(known) => {
                for side in side.meets() {
                    let at = |site, sequence| Member {
                        side: *side,
                        id: BatchId { site, sequence },
                    };
                    let all = at(SiteId(0), 0)..=at(SiteId(u8::MAX), u64::MAX);
                    known.range(all).for_each(|member| met(member.id));
                }
            }
        }
    }
}

/// The batches that a batch meets.
#[derive(Default)]
struct Met {
    /// In an exact class.
    conflicting: BTreeSet<BatchId>,
    /// In another class: to be compared.
    possible: BTreeSet<BatchId>,
}

impl Met {
    fn add(&mut self, members: &Members, class: ConflictClass) {
        let ids = match class.is_exact {
            true => &mut self.conflicting,
            false => &mut self.possible,
        };
        members.met_by(class.side, |id| {
            ids.insert(id);
        });
    }
}

impl<P> Default for ConflictIndex<P> {
    fn default() -> ConflictIndex<P> {
        ConflictIndex {
            classes: FxHashMap::default(),
            batches: BTreeMap::new(),
        }
    }
}

impl<P: Payload> ConflictIndex<P> {
    /// Adds a batch, unless the index has it.
    pub(crate) fn insert(&mut self, id: BatchId, batch: &Batch<P>) {
        if self.batches.contains_key(&id) {
            return;
        }
        let mut met = Met::default();
        batch.classes(|class| {
            let side = class.side;
            let member = Member { side, id };
            match self.classes.entry(class.number) {
                Entry::Vacant(free) => {
                    free.insert(Members::One(member));
                }
                Entry::Occupied(mut known) => {
                    met.add(known.get(), class);
                    known.get_mut().insert(member);
                }
            }
        });
        // Its own payloads meet, too.
        met.conflicting.remove(&id);
        met.possible.remove(&id);
        let conflicting = self.conflicting(batch, met);
        for other in &conflicting {
            let other = self.batches.get_mut(other);
            let other = other.expect("only batches of the index are met");
            other.conflicting.insert(id);
        }
        let indexed = Indexed {
            batch: batch.clone(),
            conflicting,
        };
        self.batches.insert(id, indexed);
    }

    /// Removes a batch, if the index has it.
    pub(crate) fn remove(&mut self, id: BatchId) {
        let Some(Indexed { batch, conflicting }) = self.batches.remove(&id) else {
            return;
        };
        batch.classes(|ConflictClass { number, side, .. }| {
            // A class that is passed again may be gone.
            if let Entry::Occupied(mut members) = self.classes.entry(number)
                && members.get_mut().remove(Member { side, id })
            {
                members.remove();
            }
        });
        for other in conflicting {
            let other = self.batches.get_mut(&other);
            let other = other.expect("conflicts are removed with their batch");
            other.conflicting.remove(&id);
        }
    }

    /// The batches of the index that conflict with one of them, in order of their ids.
    pub(crate) fn conflicts(&self, id: BatchId) -> impl Iterator<Item = BatchId> {
        let indexed = self.batches.get(&id).into_iter();
        indexed.flat_map(|indexed| indexed.conflicting.iter().copied())
    }

    /// The batches of the index that conflict with another batch.
    pub(crate) fn find(&self, batch: &Batch<P>) -> BTreeSet<BatchId> {
        let mut met = Met::default();
        batch.classes(|class| {
            if let Some(members) = self.classes.get(&class.number) {
                met.add(members, class);
            }
        });
        self.conflicting(batch, met)
    }

    /// Those of the batches met that conflict.
    fn conflicting(&self, batch: &Batch<P>, met: Met) -> BTreeSet<BatchId> {
        let Met {
            mut conflicting,
            possible,
        } = met;
        for id in possible {
            if !conflicting.contains(&id) && self.batches[&id].batch.conflicts_with(batch) {
                conflicting.insert(id);
            }
        }
        conflicting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Classes, given several times, and whether the payload conflicts with those that it meets.
    #[derive(Clone, Debug)]
    struct Classes(Vec<(u64, ClassSide)>, bool);

    /// From this number on classes are exact.
    const EXACT: u64 = 10;

    impl Payload for Classes {
        fn conflicts_with(&self, other: &Classes) -> bool {
            self.1 && other.1
        }

        fn classes(&self, sink: &mut dyn FnMut(ConflictClass)) {
            for (number, side) in self.0.iter().chain(&self.0) {
                sink(ConflictClass {
                    number: *number,
                    side: *side,
                    is_exact: *number >= EXACT,
                });
            }
        }
    }

    fn id(sequence: u64) -> BatchId {
        let site = SiteId(0);
        BatchId { site, sequence }
    }

    fn batch(classes: &[(u64, ClassSide)]) -> Batch<Classes> {
        Batch::from(vec![Classes(classes.to_vec(), true)])
    }

    fn of(batches: &[Batch<Classes>]) -> ConflictIndex<Classes> {
        let mut index = ConflictIndex::default();
        for (number, batch) in (0..).zip(batches) {
            index.insert(id(number), batch);
        }
        index
    }

    fn numbers(ids: impl IntoIterator<Item = BatchId>) -> Vec<u64> {
        ids.into_iter().map(|id| id.sequence).collect()
    }

    #[test]
    fn batches_meet_in_classes_by_side() {
        use ClassSide::{Both, Left, Right};
        let mut index = of(&[
            batch(&[(1, Left), (2, Both)]),
            batch(&[(1, Left)]),
            batch(&[(1, Right), (3, Left)]),
            batch(&[(1, Both)]),
        ]);
        let met = |index: &ConflictIndex<Classes>, side| numbers(index.find(&batch(&[(1, side)])));
        assert_eq!(met(&index, Both), [0, 1, 2, 3]);
        assert_eq!(met(&index, Left), [2, 3]);
        assert_eq!(met(&index, Right), [0, 1, 3]);
        let conflicts = |index: &ConflictIndex<_>, of| numbers(index.conflicts(id(of)));
        assert_eq!(conflicts(&index, 0), [2, 3]);
        assert_eq!(conflicts(&index, 2), [0, 1, 3]);
        assert_eq!(conflicts(&index, 3), [0, 1, 2]);
        index.remove(id(1));
        assert_eq!(met(&index, Right), [0, 3]);
        assert_eq!(conflicts(&index, 2), [0, 3]);
        index.remove(id(0));
        index.remove(id(3));
        assert_eq!(met(&index, Both), [2]);
        assert_eq!(conflicts(&index, 2), []);
        index.remove(id(2));
        assert!(index.classes.is_empty() && index.batches.is_empty());
    }

    /// Payloads that meet in an exact class are not compared, others are.
    #[test]
    fn only_what_meets_in_an_exact_class_need_not_be_compared() {
        use ClassSide::{Both, Left};
        let unlike =
            |classes: &[(u64, ClassSide)]| Batch::from(vec![Classes(classes.to_vec(), false)]);
        let index = of(&[
            unlike(&[(1, Both), (EXACT, Both)]),
            unlike(&[(1, Both), (EXACT + 1, Left)]),
            batch(&[(1, Both)]),
        ]);
        let found = |classes| numbers(index.find(&batch(classes)));
        assert_eq!(found(&[(1, Both)]), [2]);
        assert_eq!(found(&[(1, Both), (EXACT, Left)]), [0, 2]);
        assert_eq!(found(&[(EXACT + 1, Left)]), []);
        assert_eq!(found(&[(EXACT, Both), (EXACT + 1, Both)]), [0, 1]);
    }
}
