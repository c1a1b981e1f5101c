//! What a transaction accesses, and the conflict relation: the table in `docs/protocols/alvin.md`, *Certification*.
//!
//! Certification and installation must look at nothing that is not in the access set: such a transaction would not be
//! ordered against those that change it, and sites would decide apart.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use anabranch_storage::{ItemTag, Store, index_prefix, recording::index_entry};
use anabranch_types::{
    ColumnIndex, ColumnSet, Effect, Fetched, IndexId, IndexSchema, Key, Patch, Read, Row,
    RowPrograms, TableId, TableSchema, key::KeyReader,
};
use serde::{Deserialize, Serialize};

use crate::order::{ClassSide, ConflictClass};
use crate::span::{Span, just_above};

use super::read_set::ReadSet;

/// Keys that are ordered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Space {
    pub(crate) table: TableId,
    part: Part,
}

/// The parts of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Part {
    /// Rows, by primary key.
    Rows,
    /// Entries of an index: indexed columns, then the primary key.
    Entries(IndexId),
    /// Values of a unique index: indexed columns.
    Values(IndexId),
}

impl Space {
    fn rows(table: TableId) -> Space {
        Space {
            table,
            part: Part::Rows,
        }
    }

    /// Tells the classes of a table's parts apart.
    fn mask(self) -> u64 {
        let part: u64 = match self.part {
            Part::Rows => 0,
            Part::Entries(index) => 1 + 2 * u64::from(index.0),
            Part::Values(index) => 2 + 2 * u64::from(index.0),
        };
        part.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// An access to one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct PointAccess {
    pub(crate) space: Space,
    pub(crate) key: Key,
    pub(crate) writes: bool,
}

impl PointAccess {
    fn place(&self) -> (Space, &Key) {
        (self.space, &self.key)
    }
}

/// An access to all keys of a span.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct SpanAccess {
    pub(crate) space: Space,
    pub(crate) span: Span,
    pub(crate) writes: bool,
}

/// What a transaction accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccessSet {
    /// In order of space and key, each once.
    pub(crate) points: Vec<PointAccess>,
    pub(crate) spans: Vec<SpanAccess>,
}

impl AccessSet {
    /// Whether both access a key that one of them writes.
    pub fn conflicts_with(&self, other: &AccessSet) -> bool {
        points_conflict(&self.points, &other.points)
            || spans_conflict_with_points(&self.spans, &other.points)
            || spans_conflict_with_points(&other.spans, &self.points)
            || self.spans.iter().any(|one| {
                other.spans.iter().any(|two| {
                    one.space == two.space
                        && (one.writes || two.writes)
                        && one.span.overlaps(&two.span)
                })
            })
    }

    /// Passes the classes to `sink`: each point's key, and for spans the space. In a space, spans that are read meet all
    /// writes, and spans that are written meet all accesses.
    pub fn classes(&self, sink: &mut dyn FnMut(ConflictClass)) {
        // What meets in a space may be apart in it.
        let of_space = |number, side| ConflictClass {
            number,
            side,
            is_exact: false,
        };
        let spaces = |space: Space| {
            let read = ItemTag::unknown(space.table).to_bits() ^ space.mask();
            (read, read ^ 1)
        };
        // Points of one space are next to each other: its classes are passed once.
        let mut last: Option<(Space, bool)> = None;
        for point in &self.points {
            let (read, written) = spaces(point.space);
            let known = last.filter(|(space, _)| *space == point.space);
            let has_written = known.is_some_and(|(_, writes)| writes);
            last = Some((point.space, has_written || point.writes));
            let tag = ItemTag::of(point.space.table, &point.key);
            let number = tag.to_bits() ^ point.space.mask();
            let side = match point.writes {
                true => ClassSide::Both,
                false => ClassSide::Left,
            };
            sink(ConflictClass {
                number,
                side,
                is_exact: true,
            });
            if point.writes && !has_written {
                sink(of_space(read, ClassSide::Right));
            }
            if known.is_none() {
                sink(of_space(written, ClassSide::Right));
            }
        }
        for span in &self.spans {
            let (read, written) = spaces(span.space);
            let sides = match span.writes {
                true => [ClassSide::Right, ClassSide::Both],
                false => [ClassSide::Left, ClassSide::Right],
            };
            for (number, side) in [read, written].into_iter().zip(sides) {
                sink(of_space(number, side));
            }
        }
    }
}

fn points_conflict(one: &[PointAccess], two: &[PointAccess]) -> bool {
    let (mut one, mut two) = (one.iter().peekable(), two.iter().peekable());
    while let (Some(left), Some(right)) = (one.peek(), two.peek()) {
        match left.place().cmp(&right.place()) {
            Ordering::Less => drop(one.next()),
            Ordering::Greater => drop(two.next()),
            Ordering::Equal if left.writes || right.writes => return true,
            Ordering::Equal => {
                one.next();
                two.next();
            }
        }
    }
    false
}

fn spans_conflict_with_points(spans: &[SpanAccess], points: &[PointAccess]) -> bool {
    spans.iter().any(|access| {
        let low = (access.space, &access.span.low);
        let from = points.partition_point(|point| point.place() < low);
        let within = points[from..]
            .iter()
            .take_while(|point| point.space == access.space && access.span.contains(&point.key));
        within
            .into_iter()
            .any(|point| access.writes || point.writes)
    })
}

/// Collects the accesses of a transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccessSetBuilder {
    points: BTreeMap<(Space, Key), bool>,
    spans: Vec<SpanAccess>,
}

impl AccessSetBuilder {
    fn point(&mut self, space: Space, key: Key, writes: bool) {
        *self.points.entry((space, key)).or_default() |= writes;
    }

    fn span(&mut self, space: Space, span: Span, writes: bool) {
        let access = SpanAccess {
            space,
            span,
            writes,
        };
        if !self.spans.contains(&access) {
            self.spans.push(access);
        }
    }

    /// Adds a read and what it found.
    pub(crate) fn add_read(&mut self, schema: &TableSchema, read: &Read, found: &Fetched) {
        let (index, range, reverse, limit) = match read {
            Read::Point { table, key } => {
                return self.point(Space::rows(*table), key.clone(), false);
            }
            Read::Range {
                index,
                range,
                reverse,
                limit,
                ..
            } => (*index, range, *reverse, *limit),
        };
        let Fetched::Range(rows) = found.answer() else {
            unreachable!("the answer to a range read is a range");
        };
        let table = schema.id;
        let mut span = Span::of(range);
        let is_full = limit.is_some_and(|limit| rows.len() >= limit as usize);
        if is_full && let Some((key, row)) = rows.last() {
            // Rows beyond the last one cannot change the answer.
            let last = match index {
                None => key.clone(),
                Some(index) => index_entry(schema, &schema.indexes[index.index()], row, key),
            };
            match reverse {
                true => span.low = last,
                false => span.high = Some(just_above(&last)),
            }
        }
        let part = index.map_or(Part::Rows, Part::Entries);
        self.span(Space { table, part }, span, false);
        if index.is_some() {
            for (key, _) in rows {
                self.point(Space::rows(table), key.clone(), false);
            }
        }
    }

    /// Adds effects. Rows of the read set are as in `store`, since the transaction is certified there.
    pub(crate) fn add_effects(
        &mut self,
        store: &Store,
        programs: &dyn RowPrograms,
        reads: &ReadSet,
        effects: &[Effect],
    ) {
        let mut rows: BTreeMap<(TableId, &Key), RowState> = BTreeMap::new();
        for effect in effects {
            let (table, key) = (effect.table(), effect.key());
            let schema = store.schema(table);
            if let Effect::Insert { row, patches, .. } = effect
                && !patches.is_empty()
            {
                self.add_patched(schema, key, row, patches);
                continue;
            }
            self.point(Space::rows(table), key.clone(), true);
            if schema.indexes.is_empty() {
                continue;
            }
            let known = rows.entry((table, key)).or_insert_with(|| {
                if !reads.has_row(table, key) {
                    return RowState::Unread;
                }
                let newest = store.item(table, key).map(|item| item.latest());
                RowState::Row(newest.and_then(|version| version.row().cloned()))
            });
            self.add_indexed(schema, programs, known, effect);
        }
    }

    /// Adds the index entries and unique values that an effect changes.
    fn add_indexed(
        &mut self,
        schema: &TableSchema,
        programs: &dyn RowPrograms,
        known: &mut RowState,
        effect: &Effect,
    ) {
        let key = effect.key();
        match (effect, &*known) {
            // If there is a row, the insert fails, and changes no index.
            (Effect::Insert { row, .. }, _) => {
                for index in &schema.indexes {
                    self.entry(schema, index, key, row);
                }
                *known = RowState::Row(Some(row.clone()));
            }
            (Effect::Update { .. } | Effect::Delete { .. }, RowState::Row(None)) => {}
            (Effect::Delete { .. }, RowState::Row(Some(row))) => {
                for index in &schema.indexes {
                    self.entry(schema, index, key, row);
                }
                *known = RowState::Row(None);
            }
            (Effect::Delete { .. }, RowState::Unread) => {
                for index in &schema.indexes {
                    self.whole_index(schema.id, index);
                }
                *known = RowState::Row(None);
            }
            (
                Effect::Update {
                    program, arguments, ..
                },
                RowState::Row(Some(row)),
            ) => {
                // If the program fails, it fails at every site.
                if let Ok(applied) = programs.apply(*program, row, arguments, ColumnSet::EMPTY) {
                    for index in &schema.indexes {
                        let prefix = |row| index_prefix(schema, index, row);
                        if prefix(row) != prefix(&applied.row) {
                            self.entry(schema, index, key, row);
                            self.entry(schema, index, key, &applied.row);
                        }
                    }
                    *known = RowState::Row(Some(applied.row));
                }
            }
            (Effect::Update { program, .. }, RowState::Unread) => {
                let changed = programs.changed(*program);
                for index in &schema.indexes {
                    if index.columns.iter().any(|column| changed.contains(*column)) {
                        self.whole_index(schema.id, index);
                    }
                }
            }
        }
    }

    /// Adds an insert with columns that deferred effects of the transaction will give.
    fn add_patched(&mut self, schema: &TableSchema, key: &Key, row: &Row, patches: &[Patch]) {
        let is_patched = |column: &ColumnIndex| patches.iter().any(|patch| patch.column == *column);
        let rows = Space::rows(schema.id);
        let key_is_patched = schema.primary_key.iter().any(is_patched);
        match key_is_patched {
            false => self.point(rows, key.clone(), true),
            true => {
                let fixed = schema
                    .primary_key
                    .iter()
                    .take_while(|column| !is_patched(column));
                let prefix = leading_columns(schema, key, fixed);
                self.span(rows, Span::of_prefix(prefix), true);
            }
        }
        for index in &schema.indexes {
            if index.columns.iter().any(is_patched) {
                self.whole_index(schema.id, index);
            } else if key_is_patched {
                let prefix = index_prefix(schema, index, row);
                let entries = space(schema.id, Part::Entries(index.id));
                self.span(entries, Span::of_prefix(prefix.clone()), true);
                self.value(schema, index, row, prefix);
            } else {
                self.entry(schema, index, key, row);
            }
        }
    }

    /// Adds a row's entry in an index, and its value if the index is unique.
    fn entry(&mut self, schema: &TableSchema, index: &IndexSchema, key: &Key, row: &Row) {
        let entries = space(schema.id, Part::Entries(index.id));
        self.point(entries, index_entry(schema, index, row, key), true);
        self.value(schema, index, row, index_prefix(schema, index, row));
    }

    fn value(&mut self, schema: &TableSchema, index: &IndexSchema, row: &Row, value: Key) {
        let mut columns = index.columns.iter();
        let has_null = columns.any(|column| row.is_null(&schema.layout, *column));
        if index.unique && !has_null {
            self.point(space(schema.id, Part::Values(index.id)), value, true);
        }
    }

    /// Adds all entries of an index: which ones change is known at delivery.
    fn whole_index(&mut self, table: TableId, index: &IndexSchema) {
        let all = || Span::of_prefix(Key::empty());
        self.span(space(table, Part::Entries(index.id)), all(), true);
        if index.unique {
            self.span(space(table, Part::Values(index.id)), all(), true);
        }
    }

    /// The access set.
    pub(crate) fn finish(self) -> AccessSet {
        let points = self.points.into_iter();
        AccessSet {
            points: points
                .map(|((space, key), writes)| PointAccess { space, key, writes })
                .collect(),
            spans: self.spans,
        }
    }
}

/// What is known of a row before an effect.
enum RowState {
    /// The transaction has not read it.
    Unread,
    /// The row, or that there is none.
    Row(Option<Row>),
}

fn space(table: TableId, part: Part) -> Space {
    Space { table, part }
}

/// The encoding of a key's first columns.
fn leading_columns<'c>(
    schema: &TableSchema,
    key: &Key,
    columns: impl Iterator<Item = &'c ColumnIndex>,
) -> Key {
    let mut reader = KeyReader::new(key.as_bytes());
    for column in columns {
        let column = &schema.columns[column.index()];
        let skipped = reader.skip(&column.data_type, column.nullable);
        skipped.expect("the key has all its columns");
    }
    Key::from_bytes(&key.as_bytes()[..reader.position()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: &[u8]) -> Key {
        Key::from_bytes(bytes)
    }

    fn accesses(points: &[(u8, bool)], spans: &[(u8, Option<u8>, bool)]) -> AccessSet {
        let mut builder = AccessSetBuilder::default();
        let rows = Space::rows(TableId(0));
        for (at, writes) in points {
            builder.point(rows, key(&[*at]), *writes);
        }
        for (low, high, writes) in spans {
            let span = Span {
                low: key(&[*low]),
                high: high.map(|high| key(&[high])),
            };
            builder.span(rows, span, *writes);
        }
        builder.finish()
    }

    /// Whether the two meet in a class of this kind.
    fn meet(one: &AccessSet, two: &AccessSet, exact: bool) -> bool {
        let classes = |of: &AccessSet| {
            let mut all = Vec::new();
            of.classes(&mut |class| all.push(class));
            all.retain(|class| class.is_exact == exact);
            all
        };
        let (one, two) = (classes(one), classes(two));
        one.iter().any(|a| {
            let mut others = two.iter();
            others.any(|b| {
                let apart = a.side == b.side && a.side != ClassSide::Both;
                a.number == b.number && !apart
            })
        })
    }

    /// Over all small access sets: a conflict is a common key that one side writes; what conflicts meets in a class; and
    /// what meets in an exact class conflicts.
    #[test]
    fn access_sets_conflict_where_a_common_key_is_written() {
        let mut all = Vec::new();
        for writes in [false, true] {
            for at in 0..4 {
                all.push((accesses(&[(at, writes)], &[]), vec![(at, writes)]));
                for high in at..4 {
                    let covered = (at..high).map(|at| (at, writes)).collect();
                    all.push((accesses(&[], &[(at, Some(high), writes)]), covered));
                }
                let covered = (at..8).map(|at| (at, writes)).collect();
                all.push((accesses(&[], &[(at, None, writes)]), covered));
            }
        }
        let mixed = accesses(&[(1, true), (3, false)], &[(5, Some(7), false)]);
        let covered = vec![(1, true), (3, false), (5, false), (6, false)];
        all.push((mixed, covered));
        for (one, of_one) in &all {
            for (two, of_two) in &all {
                let conflict = of_one.iter().any(|(at, writes)| {
                    let mut others = of_two.iter();
                    others.any(|(other, others_write)| at == other && (*writes || *others_write))
                });
                assert_eq!(one.conflicts_with(two), conflict, "{one:?} {two:?}");
                let meet = [true, false].map(|exact| meet(one, two, exact));
                assert!(!conflict || meet.contains(&true), "{one:?} {two:?}");
                assert!(conflict || !meet[0], "{one:?} {two:?}");
            }
        }
    }

    #[test]
    fn spaces_are_apart() {
        let mut rows = AccessSetBuilder::default();
        rows.point(Space::rows(TableId(0)), key(&[1]), true);
        let mut entries = AccessSetBuilder::default();
        entries.point(
            space(TableId(0), Part::Entries(IndexId(0))),
            key(&[1]),
            true,
        );
        entries.point(space(TableId(0), Part::Values(IndexId(0))), key(&[1]), true);
        entries.point(Space::rows(TableId(1)), key(&[1]), true);
        assert!(!rows.finish().conflicts_with(&entries.finish()));
    }
}
