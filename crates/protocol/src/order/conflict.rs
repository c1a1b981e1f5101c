//! The conflict relation between payloads, and an index of the batches that may conflict.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::BatchId;

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
    /// The number of sides.
    const COUNT: usize = 3;

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

/// Batches by class.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConflictIndex {
    classes: FxHashMap<u64, [Members; ClassSide::COUNT]>,
}

/// The batches of one side of a class. Most classes are of one row, and have one batch: it takes no memory of its own.
#[derive(Clone, Debug, Default)]
enum Members {
    #[default]
    None,
    One(BatchId),
    Several(BTreeSet<BatchId>),
}

impl Members {
    fn insert(&mut self, id: BatchId) {
        match self {
            Members::None => *self = Members::One(id),
            Members::One(known) if *known == id => {}
            Members::One(known) => *self = Members::Several(BTreeSet::from([*known, id])),
            Members::Several(known) => {
                known.insert(id);
            }
        }
    }

    fn remove(&mut self, id: BatchId) {
        match self {
            Members::One(known) if *known == id => *self = Members::None,
            Members::None | Members::One(_) => {}
            Members::Several(known) => {
                known.remove(&id);
                if known.is_empty() {
                    *self = Members::None;
                }
            }
        }
    }

    fn add_to(&self, found: &mut BTreeSet<BatchId>) {
        match self {
            Members::None => {}
            Members::One(id) => {
                found.insert(*id);
            }
            Members::Several(ids) => found.extend(ids),
        }
    }
}

impl ConflictIndex {
    /// Adds a batch.
    pub(crate) fn insert<P: Payload>(&mut self, id: BatchId, batch: &Batch<P>) {
        batch.classes(|ConflictClass { number, side }| {
            self.classes.entry(number).or_default()[side as usize].insert(id);
        });
    }

    /// Removes a batch.
    pub(crate) fn remove<P: Payload>(&mut self, id: BatchId, batch: &Batch<P>) {
        batch.classes(|ConflictClass { number, side }| {
            if let Some(sides) = self.classes.get_mut(&number) {
                sides[side as usize].remove(id);
                if sides.iter().all(|side| matches!(side, Members::None)) {
                    self.classes.remove(&number);
                }
            }
        });
    }

    /// The batches that meet this one in a class, in order of their ids.
    pub(crate) fn candidates<P: Payload>(&self, batch: &Batch<P>) -> BTreeSet<BatchId> {
        let mut found = BTreeSet::new();
        batch.classes(|ConflictClass { number, side }| {
            if let Some(sides) = self.classes.get(&number) {
                for met in side.meets() {
                    sides[*met as usize].add_to(&mut found);
                }
            }
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::SiteId;
    use super::*;

    /// Classes: each a number and a side, given several times.
    #[derive(Clone, Debug)]
    struct Classes(Vec<(u64, ClassSide)>);

    impl Payload for Classes {
        fn conflicts_with(&self, _: &Classes) -> bool {
            unreachable!("an index compares no payloads")
        }

        fn classes(&self, sink: &mut dyn FnMut(ConflictClass)) {
            for (number, side) in self.0.iter().chain(&self.0) {
                let (number, side) = (*number, *side);
                sink(ConflictClass { number, side });
            }
        }
    }

    fn id(sequence: u64) -> BatchId {
        let site = SiteId(0);
        BatchId { site, sequence }
    }

    fn batch(classes: &[(u64, ClassSide)]) -> Batch<Classes> {
        Batch::from(vec![Classes(classes.to_vec())])
    }

    #[test]
    fn batches_meet_in_classes_by_side() {
        use ClassSide::{Both, Left, Right};
        let batches = [
            batch(&[(1, Left), (2, Both)]),
            batch(&[(1, Left)]),
            batch(&[(1, Right), (3, Left)]),
            batch(&[(1, Both)]),
        ];
        let mut index = ConflictIndex::default();
        for (number, batch) in (0..).zip(&batches) {
            index.insert(id(number), batch);
        }
        let met = |index: &ConflictIndex, side| -> Vec<u64> {
            let found = index.candidates(&batch(&[(1, side)]));
            found.iter().map(|id| id.sequence).collect()
        };
        assert_eq!(met(&index, Both), [0, 1, 2, 3]);
        assert_eq!(met(&index, Left), [2, 3]);
        assert_eq!(met(&index, Right), [0, 1, 3]);
        index.remove(id(1), &batches[1]);
        assert_eq!(met(&index, Right), [0, 3]);
        index.remove(id(0), &batches[0]);
        index.remove(id(3), &batches[3]);
        assert_eq!(met(&index, Both), [2]);
        index.remove(id(2), &batches[2]);
        assert!(index.classes.is_empty());
    }
}
