//! Sequences of identity and serial columns, local to each node.
//!
//! Of *n* nodes, node *k* draws *k* + 1, *k* + 1 + *n*, *k* + 1 + 2*n* and so on, for each column
//! separately. So numbers are small, as PostgreSQL's users expect, and no two nodes draw the same. They
//! ascend at one node, not in the cluster. As in PostgreSQL, a number is not reused after an abort.
//! Unlike there, a sequence starts above the numbers in its table when the node started, so that it does
//! not collide with loaded rows. A number that a user chooses (`BY DEFAULT`) does not move the sequence;
//! a collision with it is a duplicate key.
//!
//! A node with a log records a bound ahead of the numbers that it draws, and continues above the bound
//! after a restart. Without a log, a restarted node starts above the highest number in the stores that it
//! is [given](SequenceStarts::of).

use std::cell::RefCell;
use std::collections::BTreeMap;

use anabranch_sql::catalog::ColumnDefault;
use anabranch_sql::transaction::Sequences;
use anabranch_storage::Store;
use anabranch_types::{ColumnIndex, Key, KeyRange, PartitionId, Read, TableId};

use crate::application::PlannedApplication;

/// The highest number of each identity or serial column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceStarts {
    highest: BTreeMap<(TableId, ColumnIndex), i64>,
}

impl SequenceStarts {
    /// The columns with their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (TableId, ColumnIndex, i64)> + '_ {
        let all = self.highest.iter();
        all.map(|((table, column), highest)| (*table, *column, *highest))
    }

    /// Raises a column's number to at least this one.
    pub fn include(&mut self, table: TableId, column: ColumnIndex, number: i64) {
        let held = self.highest.entry((table, column)).or_insert(number);
        *held = number.max(*held);
    }

    /// Raises each column's number to at least that of `other`.
    pub fn include_all(&mut self, other: &SequenceStarts) {
        for (table, column, number) in other.all() {
            self.include(table, column, number);
        }
    }

    /// The same numbers after a change of the schema. `place` gives the new place of a column; one without a place is
    /// forgotten.
    #[must_use]
    pub fn moved(
        &self,
        place: impl Fn(TableId, ColumnIndex) -> Option<(TableId, ColumnIndex)>,
    ) -> SequenceStarts {
        let mut moved = SequenceStarts::default();
        for (table, column, number) in self.all() {
            if let Some((table, column)) = place(table, column) {
                moved.include(table, column, number);
            }
        }
        moved
    }

    /// The highest numbers in the newest rows of these stores. Reads only tables that have such a column.
    pub fn of<'s>(
        planned: &PlannedApplication,
        stores: impl IntoIterator<Item = &'s Store>,
    ) -> SequenceStarts {
        let mut highest = BTreeMap::new();
        let tables = &planned.application.catalog().tables;
        let generated: Vec<(TableId, ColumnIndex)> = tables
            .iter()
            .flat_map(|table| {
                let columns = table.defaults.iter().zip(0..);
                columns.filter_map(|(default, column)| match default {
                    ColumnDefault::Generated { .. } => Some((table.id, ColumnIndex(column))),
                    ColumnDefault::Null | ColumnDefault::Expression(..) => None,
                })
            })
            .collect();
        for store in stores {
            for (table, column) in &generated {
                let layout = &planned.schema().table(*table).layout;
                let all = Read::Range {
                    table: *table,
                    index: None,
                    range: KeyRange::prefix_of(Key::empty()),
                    reverse: false,
                    limit: None,
                };
                let read = store.read(&all, None, &mut |_, _, version| {
                    let row = version.and_then(|version| version.row());
                    if let Some(number) = row.and_then(|row| row.get_int(layout, *column)) {
                        let held = highest.entry((*table, *column)).or_insert(number);
                        *held = number.max(*held);
                    }
                });
                read.expect("the newest versions are always readable");
            }
        }
        SequenceStarts { highest }
    }
}

/// The sequences of one node.
#[derive(Debug)]
pub(crate) struct NodeSequences {
    first: i64,
    stride: i64,
    /// The next number of each sequence that has been used or started; `None` after its end.
    next: RefCell<BTreeMap<(TableId, ColumnIndex), Option<i64>>>,
    /// The logged bound of each sequence.
    bounds: RefCell<BTreeMap<(TableId, ColumnIndex), i64>>,
}

/// How many numbers ahead a sequence's bound is logged.
const AHEAD: i64 = 1_000;

impl NodeSequences {
    /// The sequences of the node that owns the partition `home` of `partitions`.
    pub(crate) fn new(home: PartitionId, partitions: u16) -> NodeSequences {
        NodeSequences {
            first: i64::from(home.0) + 1,
            stride: i64::from(partitions),
            next: RefCell::default(),
            bounds: RefCell::default(),
        }
    }

    /// The sequences that have passed their bounds since the last call, with the new bounds.
    pub(crate) fn passed_bounds(&self) -> Vec<(TableId, ColumnIndex, i64)> {
        let (next, mut bounds) = (self.next.borrow(), self.bounds.borrow_mut());
        let mut passed = Vec::new();
        for ((table, column), due) in next.iter() {
            // A sequence at its end draws no number.
            let due = due.unwrap_or(i64::MAX);
            let bound = bounds.entry((*table, *column)).or_insert(i64::MIN);
            if due > *bound {
                let ahead = self.stride.saturating_mul(AHEAD);
                *bound = due.saturating_add(ahead);
                passed.push((*table, *column, *bound));
            }
        }
        passed
    }

    /// The last number of each sequence that has been used or started.
    pub(crate) fn drawn(&self) -> SequenceStarts {
        let next = self.next.borrow();
        let last = next.iter().map(|(column, due)| {
            let last = due.map_or(i64::MAX, |due| due.saturating_sub(self.stride));
            (*column, last)
        });
        SequenceStarts {
            highest: last.collect(),
        }
    }

    /// Moves each sequence above these numbers.
    pub(crate) fn start_after(&self, starts: &SequenceStarts) {
        let mut next = self.next.borrow_mut();
        for (sequence, highest) in &starts.highest {
            let due = next.entry(*sequence).or_insert(Some(self.first));
            *due = due.and_then(|due| self.at_least(due, highest.checked_add(1)?));
        }
    }

    /// The first number of a sequence from `due` on that is not below `least`.
    fn at_least(&self, due: i64, least: i64) -> Option<i64> {
        let behind = least.saturating_sub(due).max(0);
        let steps = behind / self.stride + i64::from(behind % self.stride > 0);
        due.checked_add(steps.checked_mul(self.stride)?)
    }
}

/// Sequences for a change of the schema, which runs alone: each continues after the last number of all nodes.
#[derive(Debug)]
pub struct ChangeSequences(RefCell<SequenceStarts>);

impl ChangeSequences {
    /// Sequences after these numbers.
    pub fn new(last: SequenceStarts) -> ChangeSequences {
        ChangeSequences(RefCell::new(last))
    }

    /// The last numbers.
    pub fn numbers(&self) -> SequenceStarts {
        self.0.borrow().clone()
    }
}

impl Sequences for ChangeSequences {
    fn next(&self, table: TableId, column: ColumnIndex) -> Option<i64> {
        let mut last = self.0.borrow_mut();
        let held = last.highest.entry((table, column)).or_insert(0);
        *held = held.checked_add(1)?;
        Some(*held)
    }
}

impl Sequences for NodeSequences {
    fn next(&self, table: TableId, column: ColumnIndex) -> Option<i64> {
        let mut next = self.next.borrow_mut();
        let due = next.entry((table, column)).or_insert(Some(self.first));
        let given = *due;
        *due = given.and_then(|given| given.checked_add(self.stride));
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: (TableId, ColumnIndex) = (TableId(3), ColumnIndex(1));

    fn drawn(sequences: &NodeSequences, count: usize) -> Vec<Option<i64>> {
        (0..count).map(|_| sequences.next(ID.0, ID.1)).collect()
    }

    fn starting_after(highest: i64) -> SequenceStarts {
        SequenceStarts {
            highest: BTreeMap::from([(ID, highest)]),
        }
    }

    #[test]
    fn nodes_draw_small_numbers_and_never_the_same() {
        let nodes = [0, 1, 2].map(|home| NodeSequences::new(PartitionId(home), 3));
        let mut all: Vec<i64> = Vec::new();
        for node in &nodes {
            all.extend(drawn(node, 4).into_iter().flatten());
        }
        assert_eq!(all, [1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12]);
        assert_eq!(nodes[0].next(TableId(4), ID.1), Some(1), "each by itself");
    }

    #[test]
    fn a_sequence_starts_above_the_loaded_numbers() {
        for highest in [-5, 0, 1, 6, 7, 8, 1_000] {
            let nodes = [0, 1, 2].map(|home| NodeSequences::new(PartitionId(home), 3));
            let mut first: Vec<i64> = nodes
                .iter()
                .map(|node| {
                    node.start_after(&starting_after(highest));
                    node.next(ID.0, ID.1).expect("there are more")
                })
                .collect();
            first.sort_unstable();
            let from = highest.max(0) + 1;
            assert_eq!(first, [from, from + 1, from + 2], "after {highest}");
        }
    }

    #[test]
    fn a_sequence_ends_and_does_not_start_again() {
        let sequences = NodeSequences::new(PartitionId(0), 1);
        sequences.start_after(&starting_after(i64::MAX - 2));
        assert_eq!(
            drawn(&sequences, 4),
            [Some(i64::MAX - 1), Some(i64::MAX), None, None]
        );
        sequences.start_after(&starting_after(0));
        assert_eq!(drawn(&sequences, 1), [None]);
        let full = NodeSequences::new(PartitionId(0), 1);
        full.start_after(&starting_after(i64::MAX));
        assert_eq!(drawn(&full, 1), [None]);
    }
}
