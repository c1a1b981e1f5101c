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

    /// Passes the payload's classes to `sink`. Two payloads that conflict meet in a class, so that an orderer finds
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

    /// The classes of all payloads, each once.
    fn classes(&self) -> BTreeSet<ConflictClass> {
        let mut classes = BTreeSet::new();
        for payload in &*self.0 {
            payload.classes(&mut |class| {
                classes.insert(class);
            });
        }
        classes
    }
}

/// Batches by class.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConflictIndex {
    batches: FxHashMap<ConflictClass, BTreeSet<BatchId>>,
}

impl ConflictIndex {
    /// Adds a batch.
    pub(crate) fn insert<P: Payload>(&mut self, id: BatchId, batch: &Batch<P>) {
        for class in batch.classes() {
            self.batches.entry(class).or_default().insert(id);
        }
    }

    /// Removes a batch.
    pub(crate) fn remove<P: Payload>(&mut self, id: BatchId, batch: &Batch<P>) {
        for class in batch.classes() {
            if let Some(batches) = self.batches.get_mut(&class) {
                batches.remove(&id);
                if batches.is_empty() {
                    self.batches.remove(&class);
                }
            }
        }
    }

    /// The batches that meet this one in a class, in order of their ids.
    pub(crate) fn candidates<P: Payload>(&self, batch: &Batch<P>) -> BTreeSet<BatchId> {
        let classes = batch.classes().into_iter();
        let met = classes.flat_map(|ConflictClass { number, side }| {
            let sides = side.meets().iter();
            sides.map(move |side| ConflictClass {
                number,
                side: *side,
            })
        });
        let found = met.filter_map(|class| self.batches.get(&class));
        found.flatten().copied().collect()
    }
}
