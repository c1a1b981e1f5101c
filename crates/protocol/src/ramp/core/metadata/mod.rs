//! The sibling metadata in which the three RAMP algorithms differ (ramp.txt §4.1 to §4.3): what a transaction over
//! several partitions has written.
//!
//! RAMP-Fast names every item, RAMP-Hybrid has a Bloom filter of them, RAMP-Small has the transaction's timestamp
//! alone. The rest of the protocol asks them one question: *may* this transaction have written something of what was
//! read on that partition (`Siblings::may_touch`)? Where metadata leave that uncertain, the partition's owner
//! decides, since it knows what was written there.
//!
//! The paper keeps them beside each version. Here a participant keeps them once a transaction, for as long as a
//! reader may need them, and looks there for what it has read. So a version can be replaced in place, and a row may
//! be deleted, without losing the metadata.

pub mod filter;

use anabranch_storage::ItemTag;
use anabranch_types::random::{INCREMENT, mix};
use anabranch_types::{Effect, PartitionId, Read, Timestamp};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use crate::ramp::core::metadata::filter::{Filter, FilterSize};

/// What is written down of a write set: which RAMP it is. The same on all nodes of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metadata {
    /// RAMP-Fast: every item.
    #[default]
    Fast,
    /// RAMP-Small: nothing but the transaction's name.
    Small,
    /// RAMP-Hybrid: a Bloom filter of this size.
    Hybrid(FilterSize),
}

impl Metadata {
    /// Whether it knows of everything that a transaction has written, and of nothing else.
    pub(crate) fn is_exact(self) -> bool {
        self == Metadata::Fast
    }

    /// What is written down of a transaction that writes this on each partition, sorted by
    /// partition, the items of each sorted.
    pub(crate) fn of(
        self,
        timestamp: Timestamp,
        written: impl Iterator<Item = (PartitionId, Tags)>,
    ) -> Siblings {
        let written = match self {
            Metadata::Fast => WriteSet::Items(Items::of(written)),
            Metadata::Small => WriteSet::Unnamed,
            Metadata::Hybrid(size) => {
                let mut filter = Filter::new(size);
                let mut drawn = false;
                for (partition, tags) in written {
                    let mut table = None;
                    for tag in tags {
                        drawn |= tag.is_unknown();
                        filter.insert(entry(timestamp, partition, tag, Entry::Item));
                        if table.replace(tag.table()) != Some(tag.table()) {
                            let any = ItemTag::unknown(tag.table());
                            filter.insert(entry(timestamp, partition, any, Entry::Table));
                        }
                    }
                }
                WriteSet::Filter { filter, drawn }
            }
        };
        Siblings { timestamp, written }
    }
}

/// The write set of a transaction over several partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Siblings {
    /// The transaction.
    pub timestamp: Timestamp,
    /// What it wrote.
    pub written: WriteSet,
}

/// See [`Siblings`]. Of several [`Metadata`]s.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteSet {
    /// What it wrote on each partition.
    Items(Items),
    /// It may have written anything.
    Unnamed,
    /// Nothing but what passes the filter.
    Filter {
        /// Its items, and the tables that they are of.
        filter: Filter,
        /// Whether it wrote items whose keys were not known before it committed.
        drawn: bool,
    },
}

/// Items by partition, sorted; those of each partition sorted. Those of most transactions take no memory of
/// their own: owners remember thousands of these at a time, and what one looks at is in one piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Items {
    tags: SmallVec<[ItemTag; 4]>,
    /// Each partition, and where in `tags` its items end.
    ends: SmallVec<[(PartitionId, u32); 4]>,
}

impl Items {
    fn of<T: AsRef<[ItemTag]>>(written: impl IntoIterator<Item = (PartitionId, T)>) -> Items {
        let mut items = Items::default();
        for (partition, tags) in written {
            items.tags.extend_from_slice(tags.as_ref());
            items.ends.push((partition, items.tags.len() as u32));
        }
        items
    }

    /// Those of one partition.
    fn on(&self, partition: PartitionId) -> &[ItemTag] {
        match self.ends.binary_search_by_key(&partition, |(at, _)| *at) {
            Ok(found) => self.run(found),
            Err(_) => &[],
        }
    }

    fn run(&self, place: usize) -> &[ItemTag] {
        let from = place.checked_sub(1).map_or(0, |before| self.ends[before].1);
        &self.tags[from as usize..self.ends[place].1 as usize]
    }

    /// All partitions, with what was written there.
    pub fn iter(&self) -> impl Iterator<Item = (PartitionId, &[ItemTag])> {
        let ends = self.ends.iter().enumerate();
        ends.map(|(place, (partition, _))| (*partition, self.run(place)))
    }
}

impl Serialize for Items {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.ends.len()))?;
        for of_partition in self.iter() {
            list.serialize_element(&of_partition)?;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Items, D::Error> {
        let written: Vec<(PartitionId, Vec<ItemTag>)> = Vec::deserialize(deserializer)?;
        Ok(Items::of(written))
    }
}

/// What stands in a filter.
#[derive(Clone, Copy, Debug)]
enum Entry {
    /// An item, or some item of a table.
    Item,
    /// A table of which something was written, for readers of a range of it.
    Table,
}

/// An entry of a filter. The transaction's name is part of it: see [`Filter`].
fn entry(timestamp: Timestamp, partition: PartitionId, tag: ItemTag, kind: Entry) -> u64 {
    let place = u64::from(partition.0) << 1 | kind as u64;
    mix(timestamp.to_bits() ^ mix(tag.to_bits() ^ mix(place)))
}

impl Siblings {
    /// What the transaction is known to have written on one partition.
    pub fn on(&self, partition: PartitionId) -> &[ItemTag] {
        match &self.written {
            WriteSet::Items(items) => items.on(partition),
            _ => &[],
        }
    }

    /// Whether it may have written something of what was read on a partition; if not, it has not.
    pub(crate) fn may_touch(&self, partition: PartitionId, read: &[ItemTag]) -> bool {
        match &self.written {
            WriteSet::Items(_) => touches(self.on(partition), read),
            WriteSet::Unnamed => !read.is_empty(),
            WriteSet::Filter { filter, drawn } => read.iter().any(|tag| {
                let any = ItemTag::unknown(tag.table());
                let has =
                    |tag, kind| filter.may_contain(entry(self.timestamp, partition, tag, kind));
                match tag.is_unknown() {
                    true => has(any, Entry::Table),
                    false => has(*tag, Entry::Item) || (*drawn && has(any, Entry::Item)),
                }
            }),
        }
    }
}

/// The items that were read on a partition; a range counts as its whole table.
pub(crate) type ReadSet = SmallVec<[ItemTag; 8]>;

/// The tag under which a read is in a read set.
pub(crate) fn read_tag(read: &Read) -> ItemTag {
    match read {
        Read::Point { table, key } => ItemTag::of(*table, key),
        Read::Range { table, .. } => ItemTag::unknown(*table),
    }
}

/// Whether what a transaction wrote may be among what was read on the same partition.
pub(crate) fn touches(written: &[ItemTag], read: &[ItemTag]) -> bool {
    written.iter().any(|written| {
        read.iter().any(|read| {
            written == read
                || (written.table() == read.table() && (written.is_unknown() || read.is_unknown()))
        })
    })
}

/// What effects write, sorted, each item once.
pub(crate) fn tags(effects: &[Effect]) -> Tags {
    let mut tags: Tags = effects.iter().map(tag).collect();
    tags.sort_unstable();
    tags.dedup();
    tags
}

/// What was written on a partition.
pub(crate) type Tags = SmallVec<[ItemTag; 8]>;

/// The tag under which a reader finds what an effect writes.
pub(crate) fn tag(effect: &Effect) -> ItemTag {
    match effect {
        Effect::Insert { patches, table, .. } if !patches.is_empty() => ItemTag::unknown(*table),
        _ => ItemTag::of(effect.table(), effect.key()),
    }
}

/// Items in 16 bytes, so that most transactions that have nothing to do with a read are passed over
/// without a look at their write sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sketch(u128);

impl Sketch {
    /// Of what a transaction wrote on one partition.
    pub(crate) fn of_writes(tags: &[ItemTag]) -> Sketch {
        Sketch(entries_of_writes(tags).fold(0, |all, entry| all | bit(entry)))
    }

    /// Of what was read on one partition: ranges, and points with it, by their tags.
    pub(crate) fn of_reads(tags: &[ItemTag]) -> Sketch {
        Sketch(entries_of_reads(tags).fold(0, |all, entry| all | bit(entry)))
    }

    /// Whether what was written may be among what was read; if not, it is not.
    pub(crate) fn meets(self, other: Sketch) -> bool {
        self.0 & other.0 != 0
    }
}

/// One of 128 bits.
fn bit((tag, kind): (ItemTag, u64)) -> u128 {
    let mixed = (tag.to_bits() ^ kind).wrapping_mul(INCREMENT);
    1 << (mixed >> 57)
}

/// The entries of a write set, to be found among [`entries_of_reads`]. The second part separates tags of items (0)
/// from "anything of the table" (1).
pub(crate) fn entries_of_writes(tags: &[ItemTag]) -> impl Iterator<Item = (ItemTag, u64)> {
    let both = |tag: &ItemTag| [(*tag, 0), (ItemTag::unknown(tag.table()), 1)];
    tags.iter().flat_map(both)
}

/// Entries of a read set: one of them is among [`entries_of_writes`] of each write set that touches it.
pub(crate) fn entries_of_reads(tags: &[ItemTag]) -> impl Iterator<Item = (ItemTag, u64)> {
    tags.iter().flat_map(|tag| match tag.is_unknown() {
        // Whatever was written in the table may be in the range.
        true => [(*tag, 1); 2],
        // The item, or some item of the table.
        false => [(*tag, 0), (ItemTag::unknown(tag.table()), 0)],
    })
}

#[cfg(test)]
mod tests {
    use anabranch_types::{Key, NodeId, TableId};

    use super::*;

    fn tag(table: u16, id: u8) -> ItemTag {
        let mut key = Key::empty();
        key.push_bytes(&[id]);
        ItemTag::of(TableId(table), &key)
    }

    /// Compares what one transaction wrote on partitions 0 and 1 with what another reads there, in all combinations.
    #[test]
    fn metadata_miss_nothing_that_was_written() {
        let some = |table, id: u8| match id {
            0 => ItemTag::unknown(TableId(table)),
            id => tag(table, id),
        };
        let mut in_vain = [0, 0, 0];
        let (mut touching, mut asked) = (0, 0);
        let kinds = [
            Metadata::Fast,
            Metadata::Small,
            Metadata::Hybrid(FilterSize::default()),
        ];
        for number in 0..200u16 {
            let timestamp = Timestamp::new(u64::from(number) + 1, NodeId(number % 3));
            let mut here = [some(number % 4, (number % 7) as u8), some(9, 3)];
            here.sort_unstable();
            let written = |part: u16| -> Tags {
                match part {
                    0 => Tags::from_slice(&here),
                    _ => Tags::from_slice(&[some(2, 5)]),
                }
            };
            for (at, kind) in kinds.into_iter().enumerate() {
                let both = [0, 1].map(|part| (PartitionId(part), written(part)));
                let siblings = kind.of(timestamp, both.into_iter());
                for (part, table, id) in
                    (0..2).flat_map(|p| (0..5).flat_map(move |t| (0..8).map(move |i| (p, t, i))))
                {
                    let read = [some(table, id)];
                    let may = siblings.may_touch(PartitionId(part), &read);
                    let touch = touches(&written(part), &read);
                    assert!(may || !touch, "{kind:?}: {siblings:?} has written {read:?}");
                    in_vain[at] += u32::from(may && !touch);
                    touching += u32::from(touch);
                    asked += 1;
                }
            }
        }
        // Reachability; and a filter of 256 bits is nearly as good as a list.
        assert!(touching > 1_000, "{touching} of {asked}");
        assert_eq!(in_vain[0], 0);
        assert!(in_vain[1] > 10_000, "{in_vain:?}");
        assert!(in_vain[2] < 30, "{in_vain:?}");
    }

    /// Two items that one transaction's filter confuses are distinct in the filters of other transactions.
    #[test]
    fn items_that_collide_in_one_filter_differ_in_the_next() {
        let size = FilterSize::try_from(16).expect("a size");
        let (written, read) = (tag(1, 1), tag(1, 2));
        let wrong = (1..=400u64).filter(|number| {
            let timestamp = Timestamp::new(*number, NodeId(0));
            let on = [(PartitionId(0), Tags::from_slice(&[written]))];
            let siblings = Metadata::Hybrid(size).of(timestamp, on.into_iter());
            siblings.may_touch(PartitionId(0), &[read])
        });
        let wrong = wrong.count();
        assert!((1..200).contains(&wrong), "{wrong} of 400");
    }

    #[test]
    fn a_sketch_matches_everything_that_its_items_touch() {
        let some = |table, id: u8| match id {
            0 => ItemTag::unknown(TableId(table)),
            id => tag(table, id),
        };
        let (mut missed, mut touching) = (0, 0);
        for table in 0..4 {
            for id in 0..8 {
                for others in 0..64u8 {
                    let written = [some(u16::from(others % 4), others % 8), some(7, others)];
                    let read = [some(table, id)];
                    let meets = Sketch::of_reads(&read).meets(Sketch::of_writes(&written));
                    let touch = touches(&written, &read);
                    assert!(meets || !touch, "{written:?} touches {read:?}");
                    touching += u32::from(touch);
                    missed += u32::from(!meets);
                }
            }
        }
        // Reachability: it matches where it must, and excludes where it may.
        assert!(touching > 100 && missed > 1_000, "{touching} {missed}");
    }
}
