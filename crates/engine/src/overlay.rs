//! Read your own writes: a transaction's effects, applied to the answers of its reads.
//!
//! Effects stay with the transaction until commit. A later read of the same table sees them: inserted
//! rows appear, deleted rows disappear, and row programs run on the rows that they update. Values that
//! are pending until commit do not occur here: `sql` defers no UPDATE whose result or row the procedure
//! reads again.

use std::collections::BTreeMap;

use anabranch_sql::transaction::TransactionError;
use anabranch_storage::index_prefix;
use anabranch_types::{
    ColumnSet, Effect, EffectError, Fetched, IndexId, Key, PartitionId, Read, Row, RowPrograms,
    Schema, TableId,
};

/// One effect of the transaction, with its partition.
#[derive(Clone, Debug)]
pub(crate) struct OwnWrite {
    pub partition: PartitionId,
    /// The number of partitions, if each has a copy of the row: the effect is for all of them then.
    pub copies: Option<u16>,
    pub effect: Effect,
    /// Whether the row is one of the transaction's guards.
    pub guard: bool,
}

impl OwnWrite {
    /// Whether a part of the effect is known only at commit.
    pub(crate) fn is_pending(&self) -> bool {
        is_pending(&self.effect)
    }
}

fn is_pending(effect: &Effect) -> bool {
    matches!(effect, Effect::Insert { patches, .. } if !patches.is_empty())
}

/// Whether an own effect may change the answer to a read.
///
/// A key that is known only at commit may be anywhere in its table.
fn may_affect(effect: &Effect, read: &Read) -> bool {
    if effect.table() != read.table() {
        return false;
    }
    match read {
        Read::Point { key, .. } => effect.key() == key,
        Read::Range {
            index: None, range, ..
        } => is_pending(effect) || range.contains(effect.key()),
        Read::Range { index: Some(_), .. } => true,
    }
}

/// Whether any own write may change the answer to a read.
pub(crate) fn may_change_answer(read: &Read, writes: &[OwnWrite]) -> bool {
    writes.iter().any(|write| may_affect(&write.effect, read))
}

/// The read to send in place of `read`, so that own writes can be applied to the answer: its limit is
/// higher by the number of rows that own writes may remove.
pub(crate) fn widen(read: &Read, writes: &[OwnWrite]) -> Read {
    let mut wide = read.clone();
    if let Read::Range {
        limit: Some(limit), ..
    } = &mut wide
    {
        let own = writes
            .iter()
            .filter(|write| may_affect(&write.effect, read))
            .count();
        *limit = limit.saturating_add(u32::try_from(own).unwrap_or(u32::MAX));
    }
    wide
}

/// The rows that own updates change, if a read uses a secondary index of their table: an update may move a
/// row into the read's range.
pub(crate) fn bases(reads: &[Read], writes: &[OwnWrite]) -> Vec<(TableId, Key)> {
    let by_index = |read: &Read, of: TableId| matches!(read, Read::Range { table, index: Some(_), .. } if *table == of);
    let mut bases: Vec<(TableId, Key)> = writes
        .iter()
        .filter_map(|write| match &write.effect {
            Effect::Update { table, key, .. } => Some((*table, key.clone())),
            Effect::Insert { .. } | Effect::Delete { .. } => None,
        })
        .filter(|(table, _)| reads.iter().any(|read| by_index(read, *table)))
        .collect();
    bases.sort();
    bases.dedup();
    bases
}

/// The own writes of one transaction, ready to be applied to answers.
pub(crate) struct Overlay<'t> {
    schema: &'t Schema,
    programs: &'t dyn RowPrograms,
    writes: &'t [OwnWrite],
    bases: BTreeMap<(TableId, Key), Option<Row>>,
}

impl<'t> Overlay<'t> {
    /// `rows` answer point reads of `bases`.
    pub(crate) fn new(
        schema: &'t Schema,
        programs: &'t dyn RowPrograms,
        writes: &'t [OwnWrite],
        bases: Vec<(TableId, Key)>,
        rows: Vec<Fetched>,
    ) -> Overlay<'t> {
        let rows = rows.into_iter().map(|fetched| match fetched {
            Fetched::Point(row) => row,
            Fetched::Range(_) | Fetched::Locked | Fetched::Recorded(_) => None,
        });
        Overlay {
            schema,
            programs,
            writes,
            bases: bases.into_iter().zip(rows).collect(),
        }
    }

    /// The answer to `read` with own writes applied. `answer` is the answer to the [widened](widen) read;
    /// the range's own limit is applied here.
    pub(crate) fn fold(&self, read: &Read, answer: Fetched) -> Result<Fetched, TransactionError> {
        let mut own: Vec<&Effect> = self
            .writes
            .iter()
            .map(|write| &write.effect)
            .filter(|effect| may_affect(effect, read))
            .collect();
        match (read, answer) {
            (_, answer) if own.is_empty() => Ok(answer),
            (Read::Point { table, .. }, Fetched::Point(row)) => {
                Ok(Fetched::Point(self.row(*table, &own, row)?))
            }
            (
                Read::Range {
                    table,
                    index,
                    range,
                    reverse,
                    limit,
                },
                Fetched::Range(rows),
            ) => {
                let mut found: BTreeMap<Key, (Key, Row)> = rows
                    .into_iter()
                    .map(|(key, row)| (self.order_key(*table, *index, &key, &row), (key, row)))
                    .collect();
                // Stable: the effects on one row stay in order of execution.
                own.sort_by(|a, b| a.key().cmp(b.key()));
                for on_row in own.chunk_by(|a, b| a.key() == b.key()) {
                    let key = on_row[0].key();
                    let before = match index {
                        None => found.remove(key),
                        Some(_) => self.take(&mut found, key),
                    };
                    let before = match before {
                        Some((_, row)) => Some(row),
                        None => self.bases.get(&(*table, key.clone())).cloned().flatten(),
                    };
                    if let Some(row) = self.row(*table, on_row, before)? {
                        let place = self.order_key(*table, *index, key, &row);
                        if range.contains(&place) {
                            found.insert(place, (key.clone(), row));
                        }
                    }
                }
                let limit = limit.map_or(usize::MAX, |limit| limit as usize);
                let rows = found.into_values();
                Ok(Fetched::Range(if *reverse {
                    rows.rev().take(limit).collect()
                } else {
                    rows.take(limit).collect()
                }))
            }
            (_, answer) => Ok(answer),
        }
    }

    /// Removes the row with this primary key from rows in the order of an index.
    fn take(&self, found: &mut BTreeMap<Key, (Key, Row)>, key: &Key) -> Option<(Key, Row)> {
        let place = found
            .iter()
            .find(|(_, (k, _))| k == key)
            .map(|(place, _)| place.clone())?;
        found.remove(&place)
    }

    /// A row after the own effects on it, in order.
    fn row(
        &self,
        table: TableId,
        effects: &[&Effect],
        mut row: Option<Row>,
    ) -> Result<Option<Row>, TransactionError> {
        for effect in effects {
            row = match effect {
                Effect::Insert { row, patches, .. } => {
                    if !patches.is_empty() {
                        return Err(TransactionError::Failed(EffectError::new(
                            "XX000",
                            format!(
                                "a row of table \"{}\" is read before its key is known",
                                self.schema.table(table).name
                            ),
                        )));
                    }
                    Some(row.clone())
                }
                Effect::Delete { .. } => None,
                Effect::Update {
                    program, arguments, ..
                } => match row {
                    None => None,
                    Some(row) => Some(
                        self.programs
                            .apply(*program, &row, arguments, ColumnSet::EMPTY)
                            .map_err(TransactionError::Failed)?
                            .row,
                    ),
                },
            };
        }
        Ok(row)
    }

    fn order_key(&self, table: TableId, index: Option<IndexId>, key: &Key, row: &Row) -> Key {
        order_key(self.schema, table, index, key, row)
    }
}

/// A row's sort key in an index: its primary key, or the indexed columns' values followed by it.
fn order_key(schema: &Schema, table: TableId, index: Option<IndexId>, key: &Key, row: &Row) -> Key {
    let Some(index) = index else {
        return key.clone();
    };
    let table = schema.table(table);
    let mut order = index_prefix(table, &table.indexes[index.index()], row);
    order.push_bytes(key.as_bytes());
    order
}

/// Merges two partitions' answers to one range, in the range's order.
pub(crate) fn merge(schema: &Schema, read: &Read, one: Fetched, other: Fetched) -> Fetched {
    match (read, one, other) {
        (
            Read::Range {
                table,
                index,
                reverse,
                limit,
                ..
            },
            Fetched::Range(a),
            Fetched::Range(b),
        ) => {
            let mut rows: Vec<(Key, (Key, Row))> = a
                .into_iter()
                .chain(b)
                .map(|(key, row)| (order_key(schema, *table, *index, &key, &row), (key, row)))
                .collect();
            rows.sort_by(|(x, _), (y, _)| if *reverse { y.cmp(x) } else { x.cmp(y) });
            rows.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
            Fetched::Range(rows.into_iter().map(|(_, row)| row).collect())
        }
        // A row is at one partition. A lock elsewhere is on the absence of one with this key.
        (
            Read::Point { .. },
            Fetched::Point(None) | Fetched::Locked,
            other @ Fetched::Point(Some(_)),
        ) => other,
        (Read::Range { .. }, _, Fetched::Locked) | (_, Fetched::Point(None), Fetched::Locked) => {
            Fetched::Locked
        }
        (_, Fetched::Point(None), other) => other,
        (_, one, _) => one,
    }
}
