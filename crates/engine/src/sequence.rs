//! Sequences at a node. `docs/protocols/sequences.md` has the algorithm and the invariants SEQ-I1 to SEQ-I4.
//!
//! Nodes that share memory share one counter a sequence ([`SequenceCounters`]): their numbers are START, START +
//! INCREMENT and so on, whatever node draws. Of *n* nodes that do not, node *k* draws the positions *k*, *k* + *n*, *k* +
//! 2*n* and so on: numbers are small, and no two nodes draw the same. As in PostgreSQL, a number is not reused after an
//! abort. Unlike there, the sequence of a serial or identity column starts above the numbers in its table when the node
//! started, so that it does not collide with loaded rows. A number that a user chooses (`BY DEFAULT`) does not move the
//! sequence; a collision with it is a duplicate key.
//!
//! A node with a log records a bound ahead of the positions that it draws, and after a restart all continue behind the
//! highest bound of all nodes. Without a log, a restarted node starts above the highest number in the stores that it is
//! [given](SequenceStarts::of).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_sql::change::SequenceMove;
use anabranch_sql::sequence::ResolvedSequence;
use anabranch_sql::transaction::{SequenceError, Sequences};
use anabranch_storage::Store;
use anabranch_types::{Key, KeyRange, PartitionId, Read, SequenceId, SequencePoint};

use crate::application::PlannedApplication;

/// How far sequences have come. Positions are counted over all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceStarts {
    points: BTreeMap<SequenceId, SequencePoint>,
}

impl SequenceStarts {
    /// The sequences with their points.
    pub fn all(&self) -> impl Iterator<Item = (SequenceId, SequencePoint)> + '_ {
        self.points.iter().map(|(id, point)| (*id, *point))
    }

    /// Raises a sequence to at least this point.
    pub fn include_point(&mut self, sequence: SequenceId, point: SequencePoint) {
        let held = self.points.entry(sequence).or_insert(point);
        *held = point.max(*held);
    }

    /// Raises a sequence that was never set, so that its numbers follow this one.
    pub fn include(&mut self, sequence: &ResolvedSequence, number: i64) {
        let options = &sequence.options;
        let start = i128::from(options.start);
        let ahead = (i128::from(number) - start) * i128::from(options.increment.signum());
        let steps = match ahead >= 0 {
            true => ahead / i128::from(options.increment).abs() + 1,
            false => 0,
        };
        let point = SequencePoint {
            drawn: u64::try_from(steps).unwrap_or(u64::MAX),
            ..SequencePoint::first(options.start)
        };
        self.include_point(sequence.id, point);
    }

    /// Raises each sequence to at least the point that `other` has.
    pub fn include_all(&mut self, other: &SequenceStarts) {
        for (sequence, point) in other.all() {
            self.include_point(sequence, point);
        }
    }

    /// The points after a change of the schema. Sequences that it does not name are forgotten.
    #[must_use]
    pub fn moved(&self, moves: &[SequenceMove]) -> SequenceStarts {
        let moved = moves.iter().filter_map(|of| {
            let point = of.point(self.points.get(&of.from).copied())?;
            Some((of.to, point))
        });
        SequenceStarts {
            points: moved.collect(),
        }
    }

    /// The points before a change of the schema that is taken back: what `before` has, and what was drawn since of
    /// sequences that the change left as they were. As in PostgreSQL, a rollback takes no number back.
    #[must_use]
    pub fn taken_back(&self, moves: &[SequenceMove], before: &SequenceStarts) -> SequenceStarts {
        let mut back = before.clone();
        for of in moves.iter().filter(|of| of.is_plain()) {
            if let Some(point) = self.points.get(&of.to) {
                back.include_point(of.from, *point);
            }
        }
        back
    }

    /// The highest numbers in the newest rows of these stores. Reads only tables that have a serial or identity column.
    pub fn of<'s>(
        planned: &PlannedApplication,
        stores: impl IntoIterator<Item = &'s Store>,
    ) -> SequenceStarts {
        let mut starts = SequenceStarts::default();
        starts.include_rows(planned, stores);
        starts
    }

    /// Raises sequences above the numbers in the newest rows of these stores: those of serial and identity columns that
    /// were never set, and all that draw keys which do not tell the partitions of their rows. No partition would see that
    /// such a key comes again.
    pub fn include_rows<'s>(
        &mut self,
        planned: &PlannedApplication,
        stores: impl IntoIterator<Item = &'s Store>,
    ) {
        let mut highest: BTreeMap<SequenceId, i64> = BTreeMap::new();
        let sequences: Vec<ResolvedSequence> =
            planned.application.catalog().all_sequences().collect();
        for store in stores {
            for sequence in &sequences {
                let SequenceId::Column(table, column) = sequence.id else {
                    continue;
                };
                let layout = &planned.schema().table(table).layout;
                let all = Read::Range {
                    table,
                    index: None,
                    range: KeyRange::prefix_of(Key::empty()),
                    reverse: false,
                    limit: None,
                };
                let read = store.read(&all, None, &mut |_, _, version| {
                    let row = version.and_then(|version| version.row());
                    if let Some(number) = row.and_then(|row| row.get_int(layout, column)) {
                        let held = highest.entry(sequence.id).or_insert(number);
                        *held = number.max(*held);
                    }
                });
                read.expect("the newest versions are always readable");
            }
        }
        for sequence in &sequences {
            let Some(number) = highest.get(&sequence.id) else {
                continue;
            };
            self.include(sequence, *number);
            if let SequenceId::Column(table, column) = sequence.id
                && planned.execution.router.is_apart(table)
                && planned.schema().table(table).primary_key == [column]
            {
                self.pass(sequence, *number);
            }
        }
    }

    /// Sets a sequence that counts upwards to a number, unless its next one is higher.
    ///
    /// # Panics
    /// When it counts downwards or in a cycle: it would draw the numbers of all rows again.
    fn pass(&mut self, sequence: &ResolvedSequence, number: i64) {
        let options = &sequence.options;
        assert!(
            options.increment > 0 && !options.cycles,
            "PLACE-I2: a sequence of keys that do not place their rows counts upwards"
        );
        let point = point_of(&self.points, sequence);
        let next = sequence.options.number(point.base, point.drawn);
        if next.is_some_and(|next| next <= number) {
            let passed = SequencePoint {
                epoch: point.epoch + 1,
                drawn: 1,
                base: number,
            };
            self.points.insert(sequence.id, passed);
        }
    }
}

/// The counters of nodes that share memory. Positions are counted over all of them.
#[derive(Clone, Debug, Default)]
pub struct SequenceCounters(Arc<Mutex<BTreeMap<SequenceId, SequencePoint>>>);

impl SequenceCounters {
    fn points(&self) -> MutexGuard<'_, BTreeMap<SequenceId, SequencePoint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sequences of one node.
#[derive(Debug)]
pub(crate) struct NodeSequences {
    counters: SequenceCounters,
    /// Whether no other node counts by other counters.
    is_shared: bool,
    /// Whether `setval` may not take a sequence back.
    only_forward: bool,
    /// The node's first position, and the distance to its next one.
    first: u64,
    stride: u64,
    /// If numbers have this residue, modulo the stride: `first` depends on where a sequence starts then.
    residue: Option<u64>,
    /// The last point of each sequence that this node has drawn, set or started, and whether it has drawn.
    reached: RefCell<BTreeMap<SequenceId, (SequencePoint, bool)>>,
    /// The logged bound of each sequence.
    bounds: RefCell<BTreeMap<SequenceId, SequencePoint>>,
}

/// How many of its own positions ahead a node logs a sequence's bound: PostgreSQL's `SEQ_LOG_VALS`.
const AHEAD: u64 = 32;

impl NodeSequences {
    /// The sequences of the node that owns the partition `home` of `partitions`, which share no memory.
    pub(crate) fn new(home: PartitionId, partitions: u16) -> NodeSequences {
        NodeSequences {
            counters: SequenceCounters::default(),
            // A node that counts alone knows of all numbers.
            is_shared: partitions == 1,
            only_forward: false,
            first: u64::from(home.0),
            stride: u64::from(partitions),
            residue: None,
            reached: RefCell::default(),
            bounds: RefCell::default(),
        }
    }

    /// The sequences of a node that counts by these counters. `only_forward`: whether `setval` may not take a sequence
    /// back.
    pub(crate) fn sharing(counters: SequenceCounters, only_forward: bool) -> NodeSequences {
        NodeSequences {
            counters,
            is_shared: true,
            only_forward,
            ..NodeSequences::new(PartitionId(0), 1)
        }
    }

    /// The sequences of a server of a ring, in steps of 1: numbers have the residue `place` modulo `slots`, so that a number
    /// tells its server. The node shares no memory with another one.
    pub(crate) fn of_server(place: u16, slots: u16) -> NodeSequences {
        NodeSequences {
            is_shared: true,
            stride: u64::from(slots),
            residue: Some(u64::from(place)),
            ..NodeSequences::new(PartitionId(0), 1)
        }
    }

    /// The sequences that have passed their bounds since the last call, with the new bounds.
    pub(crate) fn passed_bounds(&self) -> Vec<(SequenceId, SequencePoint)> {
        let mut bounds = self.bounds.borrow_mut();
        let mut passed = Vec::new();
        for (sequence, (point, has_drawn)) in self.reached.borrow().iter() {
            let bound = bounds.get(sequence);
            if bound.is_some_and(|bound| bound >= point) {
                continue;
            }
            // What `setval` has set is logged as it is: a recovery continues just there (SEQ-I3).
            let ahead = match has_drawn {
                true => self.stride.saturating_mul(AHEAD),
                false => 0,
            };
            let bound = SequencePoint {
                drawn: point.drawn.saturating_add(ahead),
                ..*point
            };
            bounds.insert(*sequence, bound);
            passed.push((*sequence, bound));
        }
        passed
    }

    /// How far each sequence has come that was used or started: here, or at all nodes that share its counter.
    pub(crate) fn drawn(&self) -> SequenceStarts {
        SequenceStarts {
            points: self.counters.points().clone(),
        }
    }

    /// Moves each sequence to at least these points.
    pub(crate) fn start_after(&self, starts: &SequenceStarts) {
        let mut points = self.counters.points();
        let mut reached = self.reached.borrow_mut();
        for (sequence, point) in starts.all() {
            let held = points.entry(sequence).or_insert(point);
            *held = point.max(*held);
            let own = reached.entry(sequence).or_insert((point, false));
            if point > own.0 {
                *own = (point, false);
            }
        }
    }

    /// The node's next position at or behind that of `point`, which is counted over all nodes.
    fn position(&self, point: SequencePoint) -> Option<u64> {
        let first = match self.residue {
            None => self.first,
            Some(residue) => {
                let ahead = i128::from(residue) - i128::from(point.base);
                u64::try_from(ahead.rem_euclid(i128::from(self.stride))).ok()?
            }
        };
        let behind = point.drawn.saturating_sub(first);
        let steps = behind.div_ceil(self.stride);
        first.checked_add(steps.checked_mul(self.stride)?)
    }

    /// Checks SEQ-I1 as far as one node can see: what it has drawn is drawn for all that count by the same counters.
    ///
    /// # Errors
    /// The invariant's name, and what contradicts it.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let points = self.counters.points();
        for (sequence, (reached, _)) in self.reached.borrow().iter() {
            let counted = points.get(sequence);
            if counted.is_none_or(|counted| counted < reached) {
                return Err(format!(
                    "SEQ-I1: {sequence} was drawn up to {reached:?}, and its counter is at {counted:?}"
                ));
            }
        }
        Ok(())
    }

    fn reach(&self, sequence: SequenceId, point: SequencePoint, has_drawn: bool) {
        let mut reached = self.reached.borrow_mut();
        let held = reached.entry(sequence).or_insert((point, has_drawn));
        if point >= held.0 {
            *held = (point, has_drawn);
        }
    }
}

fn point_of(
    points: &BTreeMap<SequenceId, SequencePoint>,
    sequence: &ResolvedSequence,
) -> SequencePoint {
    let first = SequencePoint::first(sequence.options.start);
    points.get(&sequence.id).copied().unwrap_or(first)
}

impl Sequences for NodeSequences {
    fn next(&self, sequence: &ResolvedSequence) -> Option<i64> {
        let mut points = self.counters.points();
        let mut point = point_of(&points, sequence);
        let position = self.position(point)?;
        let number = sequence.options.number(point.base, position)?;
        point.drawn = position.checked_add(1)?;
        points.insert(sequence.id, point);
        drop(points);
        self.reach(sequence.id, point, true);
        Some(number)
    }

    fn set(
        &self,
        sequence: &ResolvedSequence,
        number: i64,
        is_called: bool,
    ) -> Result<(), SequenceError> {
        if !self.is_shared {
            return Err(SequenceError::Unsupported);
        }
        let mut points = self.counters.points();
        let before = point_of(&points, sequence);
        let (last, was_called) = sequence.options.last(before);
        if self.only_forward {
            let steps = i128::from(number) - i128::from(last);
            let ahead = steps * i128::from(sequence.options.increment.signum());
            if ahead < 0 || ahead == 0 && was_called && !is_called {
                return Err(SequenceError::Backward);
            }
        }
        let point = SequencePoint {
            epoch: before.epoch + 1,
            drawn: u64::from(is_called),
            base: number,
        };
        points.insert(sequence.id, point);
        drop(points);
        self.reach(sequence.id, point, false);
        Ok(())
    }

    fn state(&self, sequence: &ResolvedSequence) -> (i64, bool) {
        let point = point_of(&self.counters.points(), sequence);
        sequence.options.last(point)
    }
}

/// Sequences for a change of the schema, which runs alone: each continues after the last number of all nodes.
#[derive(Debug)]
pub struct ChangeSequences(RefCell<SequenceStarts>);

impl ChangeSequences {
    /// Sequences after these points.
    pub fn new(last: SequenceStarts) -> ChangeSequences {
        ChangeSequences(RefCell::new(last))
    }

    /// The last points.
    pub fn numbers(&self) -> SequenceStarts {
        self.0.borrow().clone()
    }
}

impl Sequences for ChangeSequences {
    fn next(&self, sequence: &ResolvedSequence) -> Option<i64> {
        let points = &mut self.0.borrow_mut().points;
        let mut point = point_of(points, sequence);
        let number = sequence.options.number(point.base, point.drawn)?;
        point.drawn += 1;
        points.insert(sequence.id, point);
        Some(number)
    }

    fn state(&self, sequence: &ResolvedSequence) -> (i64, bool) {
        let point = point_of(&self.0.borrow().points, sequence);
        sequence.options.last(point)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_sql::sequence::SequenceOptions;
    use anabranch_types::{ColumnIndex, DataType, TableId};

    use super::*;

    fn sequence(table: u16) -> ResolvedSequence {
        ResolvedSequence {
            id: SequenceId::Column(TableId(table), ColumnIndex(1)),
            name: "s".into(),
            options: SequenceOptions::of_type(&DataType::Int8),
        }
    }

    fn drawn(sequences: &NodeSequences, count: usize) -> Vec<Option<i64>> {
        (0..count).map(|_| sequences.next(&sequence(3))).collect()
    }

    fn starting_after(highest: i64) -> SequenceStarts {
        let mut starts = SequenceStarts::default();
        starts.include(&sequence(3), highest);
        starts
    }

    #[test]
    fn nodes_draw_small_numbers_and_never_the_same() {
        let nodes = [0, 1, 2].map(|home| NodeSequences::new(PartitionId(home), 3));
        let mut all: Vec<i64> = Vec::new();
        for node in &nodes {
            all.extend(drawn(node, 4).into_iter().flatten());
        }
        assert_eq!(all, [1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12]);
        assert_eq!(nodes[0].next(&sequence(4)), Some(1), "each by itself");
    }

    #[test]
    fn a_sequence_starts_above_the_loaded_numbers() {
        for highest in [-5, 0, 1, 6, 7, 8, 1_000] {
            let nodes = [0, 1, 2].map(|home| NodeSequences::new(PartitionId(home), 3));
            let mut first: Vec<i64> = nodes
                .iter()
                .map(|node| {
                    node.start_after(&starting_after(highest));
                    node.next(&sequence(3)).expect("there are more")
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

    #[test]
    fn nodes_that_share_counters_draw_one_series() {
        let counters = SequenceCounters::default();
        let nodes = [0, 1].map(|_| NodeSequences::sharing(counters.clone(), false));
        let next = |node: usize| nodes[node].next(&sequence(3));
        assert_eq!([next(0), next(1), next(1)], [Some(1), Some(2), Some(3)]);
        assert_eq!(nodes[1].set(&sequence(3), 10, true), Ok(()));
        assert_eq!([next(0), next(1)], [Some(11), Some(12)]);
    }

    /// What the logs of the nodes have, after each of them has logged.
    fn recovered(nodes: &[NodeSequences]) -> NodeSequences {
        let back = NodeSequences::sharing(SequenceCounters::default(), false);
        for node in nodes {
            let mut logged = SequenceStarts::default();
            for (sequence, bound) in node.bounds.borrow().iter() {
                logged.include_point(*sequence, *bound);
            }
            back.start_after(&logged);
        }
        back
    }

    #[test]
    fn the_bounds_of_all_nodes_count_after_a_crash() {
        let counters = SequenceCounters::default();
        let nodes = [0, 1].map(|_| NodeSequences::sharing(counters.clone(), false));
        for node in [0, 1, 1, 0, 1] {
            nodes[node].next(&sequence(3));
            nodes[node].passed_bounds();
        }
        let next = recovered(&nodes).next(&sequence(3));
        assert!(
            next > Some(5) && next <= Some(5 + 1 + AHEAD as i64),
            "{next:?}"
        );
    }

    #[test]
    fn a_sequence_that_was_set_back_stays_there_after_a_crash() {
        let counters = SequenceCounters::default();
        let nodes = [0, 1].map(|_| NodeSequences::sharing(counters.clone(), false));
        for _ in 0..100 {
            nodes[0].next(&sequence(3));
            nodes[0].passed_bounds();
        }
        nodes[1].set(&sequence(3), 5, true).expect("it may go back");
        nodes[1].passed_bounds();
        assert_eq!(recovered(&nodes).next(&sequence(3)), Some(6), "just there");
        assert_eq!(nodes[0].next(&sequence(3)), Some(6));
        nodes[0].passed_bounds();
        let next = recovered(&nodes).next(&sequence(3));
        assert!(next > Some(6) && next < Some(100), "{next:?}");
    }

    #[test]
    fn only_forward_refuses_numbers_that_were_given() {
        let node = NodeSequences::sharing(SequenceCounters::default(), true);
        assert_eq!(node.set(&sequence(3), 1, false), Ok(()), "nothing is given");
        assert_eq!(drawn(&node, 2), [Some(1), Some(2)]);
        let back = Err(SequenceError::Backward);
        assert_eq!(node.set(&sequence(3), 1, true), back);
        assert_eq!(node.set(&sequence(3), 2, false), back);
        assert_eq!(node.set(&sequence(3), 2, true), Ok(()));
        assert_eq!(drawn(&node, 1), [Some(3)]);
    }
}
