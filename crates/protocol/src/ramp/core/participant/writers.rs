//! The writers of an item among the transactions over several partitions that an owner remembers.
//!
//! A reader of an item needs the sibling metadata of those whose writes it may see. A transaction that only assigned
//! columns of a row is not seen any more once another one with a higher timestamp has assigned all of these columns
//! as well: the row would be the same without it. Then a read of this row does not find it. That is the paper's rule
//! for registers, where a reader is given the metadata of the version that it reads and of no other (ramp.txt,
//! Algorithm 1).

use std::collections::{BTreeMap, VecDeque};

use anabranch_storage::{CommitSequence, Item, ItemTag, Staged};
use anabranch_types::{ColumnSet, TableId, Timestamp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::ramp::core::participant::Participant;

/// So many writers of one item are looked at one by one.
const FEW: usize = 64;

/// What is known of one row that a transaction only assigns columns of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Assigned {
    pub(crate) tag: ItemTag,
    /// Of the key. Two rows may share a tag; they do not share this as well.
    key: u64,
    columns: ColumnSet,
    /// Whether it replaces the newest version: there is a row, and what wrote it has a lower timestamp.
    is_newest: bool,
}

/// One transaction's.
pub(crate) type AssignedRows = SmallVec<[Assigned; 4]>;

#[derive(Clone, Debug)]
struct Writer {
    sequence: CommitSequence,
    commit: Timestamp,
    /// If it only assigns columns.
    assigned: Option<(u64, ColumnSet)>,
}

/// The writers of one item that can be seen in some snapshot from one on.
#[derive(Clone, Debug, Default)]
struct WritersOf {
    /// From here on these are all.
    since: CommitSequence,
    /// In the order in which they were installed: mostly there is one.
    first: Option<Writer>,
    others: VecDeque<Writer>,
}

impl WritersOf {
    fn push(&mut self, writer: Writer) {
        match self.first {
            None => self.first = Some(writer),
            Some(_) => self.others.push_back(writer),
        }
    }

    /// Drops the last few to which this applies; whether there are some.
    fn drop_among_last(&mut self, is_dropped: impl Fn(&Writer) -> bool) -> bool {
        let before = self.len();
        for place in (0..self.others.len()).rev().take(FEW) {
            if is_dropped(&self.others[place]) {
                self.others.remove(place);
            }
        }
        if self.others.len() < FEW && self.first.as_ref().is_some_and(is_dropped) {
            self.first = self.others.pop_front();
        }
        self.len() < before
    }

    fn remove(&mut self, sequence: CommitSequence) {
        if (self.first.as_ref()).is_some_and(|first| first.sequence == sequence) {
            self.first = self.others.pop_front();
        } else if let Ok(place) = self.others.binary_search_by_key(&sequence, |w| w.sequence) {
            self.others.remove(place);
        }
    }

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    fn iter(&self) -> impl Iterator<Item = &Writer> {
        self.first.iter().chain(&self.others)
    }
}

/// By item.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writers {
    of_items: FxHashMap<ItemTag, WritersOf>,
    /// By table: how many have written items with keys drawn at commit.
    drawn: BTreeMap<TableId, usize>,
}

impl Writers {
    /// One more, that was installed last.
    pub(crate) fn add(
        &mut self,
        tag: ItemTag,
        sequence: CommitSequence,
        commit: Timestamp,
        assigned: Option<&Assigned>,
    ) {
        if tag.is_unknown() {
            *self.drawn.entry(tag.table()).or_default() += 1;
            return;
        }
        let of_item = self.of_items.entry(tag).or_default();
        if let Some(new) = assigned.filter(|new| new.is_newest) {
            let is_replaced = |old: &Writer| {
                old.commit < commit
                    && (old.assigned)
                        .is_some_and(|(key, columns)| key == new.key && new.columns.covers(columns))
            };
            if of_item.drop_among_last(is_replaced) {
                of_item.since = sequence;
            }
        }
        of_item.push(Writer {
            sequence,
            commit,
            assigned: assigned.map(|assigned| (assigned.key, assigned.columns)),
        });
    }

    /// One is forgotten.
    pub(crate) fn remove(&mut self, tag: ItemTag, sequence: CommitSequence) {
        if tag.is_unknown() {
            if let Some(count) = self.drawn.get_mut(&tag.table()) {
                *count -= 1;
                if *count == 0 {
                    self.drawn.remove(&tag.table());
                }
            }
            return;
        }
        if let Some(of_item) = self.of_items.get_mut(&tag) {
            of_item.remove(sequence);
            if of_item.first.is_none() {
                self.of_items.remove(&tag);
            }
        }
    }

    /// Calls `found` for each writer of an item in a snapshot that may be seen there. False if they have to be
    /// looked for among all: the item is a range, some are not known here, or there are many, of which most are
    /// long stable.
    pub(crate) fn find(
        &self,
        tag: ItemTag,
        snapshot: CommitSequence,
        mut found: impl FnMut(Timestamp),
    ) -> bool {
        if tag.is_unknown() || self.drawn.contains_key(&tag.table()) {
            return false;
        }
        let Some(of_item) = self.of_items.get(&tag) else {
            return true;
        };
        if snapshot < of_item.since || of_item.len() > FEW {
            return false;
        }
        let within = of_item.iter().filter(|writer| writer.sequence <= snapshot);
        within.for_each(|writer| found(writer.commit));
        true
    }
}

impl Participant {
    /// The rows of which effects only assign columns, before they are installed at a timestamp. None where clusters
    /// replicate to each other or where reads are causal: there readers ask for more than what they see.
    pub(crate) fn assigned_rows(&self, at: Timestamp, staged: &Staged) -> AssignedRows {
        if !self.replaces {
            return AssignedRows::new();
        }
        let changes = staged.changes().iter();
        let assigned = changes.filter_map(|change| {
            // What is done to one row twice, or in another way, too, is not looked into.
            let columns = change.replaces()?;
            let newest = self.store.item_of(change).map(Item::latest);
            Some(Assigned {
                tag: ItemTag::of(change.table(), change.key()),
                key: other_hash(change.key().as_bytes()),
                columns,
                is_newest: newest.is_some_and(|v| v.row().is_some() && v.timestamp() < at),
            })
        });
        assigned.collect()
    }
}

/// A hash of a key that has nothing to do with its tag's.
fn other_hash(key: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(key);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use anabranch_types::{ColumnIndex, Key, NodeId};

    use super::*;

    fn row(key: u64, columns: &[u16], is_newest: bool) -> Assigned {
        let columns = columns.iter().fold(ColumnSet::EMPTY, |set, column| {
            set.with(ColumnIndex(*column))
        });
        let tag = ItemTag::of(TableId(0), &Key::from_bytes(b"row"));
        Assigned {
            tag,
            key,
            columns,
            is_newest,
        }
    }

    /// The writers that a reader of the row finds in the snapshot of so many commits; `None` if all have to be
    /// searched. Each commit has a timestamp, and may report what it assigned.
    fn seen(commits: &[(u64, Option<Assigned>)], snapshot: u64) -> Option<Vec<u64>> {
        let tag = row(0, &[], true).tag;
        let mut writers = Writers::default();
        for (sequence, (commit, assigned)) in (1..).zip(commits) {
            let commit = Timestamp::new(*commit, NodeId(0));
            writers.add(tag, CommitSequence(sequence), commit, assigned.as_ref());
        }
        let mut seen = Vec::new();
        let known = writers.find(tag, CommitSequence(snapshot), |c| seen.push(c.logical()));
        for sequence in 1..=commits.len() as u64 {
            writers.remove(tag, CommitSequence(sequence));
        }
        assert!(writers.of_items.is_empty() && writers.drawn.is_empty());
        known.then_some(seen)
    }

    #[test]
    fn a_replaced_writer_is_not_found() {
        let (a, both) = (row(7, &[1], true), row(7, &[1, 2], true));
        for (commits, found) in [
            // The same columns assigned again.
            (vec![(1, Some(a)), (2, Some(a))], vec![2]),
            (vec![(1, Some(a)), (2, Some(both))], vec![2]),
            // Not all of the columns assigned again.
            (vec![(1, Some(both)), (2, Some(a))], vec![1, 2]),
            // By a writer with a lower timestamp.
            (
                vec![(5, Some(a)), (2, Some(row(7, &[1], false)))],
                vec![5, 2],
            ),
            (vec![(5, Some(a)), (2, Some(a))], vec![5, 2]),
            // By a writer that has found no row, or is late.
            (
                vec![(1, Some(a)), (2, Some(row(7, &[1], false)))],
                vec![1, 2],
            ),
            // Writers that moved a column, inserted the row or deleted it remain visible.
            (vec![(1, None), (2, Some(both))], vec![1, 2]),
            (vec![(1, Some(a)), (2, None)], vec![1, 2]),
            // Another row of the same tag.
            (
                vec![(1, Some(a)), (2, Some(row(8, &[1], true)))],
                vec![1, 2],
            ),
        ] {
            let last = commits.len() as u64;
            assert_eq!(seen(&commits, last), Some(found), "{commits:?}");
        }
        // In an older snapshot it was not replaced yet.
        let commits = [(1, Some(a)), (2, Some(a)), (3, None)];
        assert_eq!(seen(&commits, 1), None);
        assert_eq!(seen(&commits, 2), Some(vec![2]));
        assert_eq!(seen(&commits, 3), Some(vec![2, 3]));
    }
}
