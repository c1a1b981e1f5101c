//! Tries a statement's effects before its client is answered.
//!
//! Effects reach their owners at COMMIT, where a duplicate key or a violated CHECK shows. The client of a block has its
//! statement's error at the statement. So the rows that the statement wrote are read for writing, and its effects run on
//! them here, by the same code. Where the protocol locks what is read for writing, the transaction then holds every lock
//! that its commit needs: the rows' keys, and the new entries of secondary indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_protocol::PartitionRead;
use anabranch_sql::transaction::TransactionError;
use anabranch_storage::{ApplyError, Store, StoreSettings, index_prefix};
use anabranch_types::{
    Access, Effect, EffectError, Fetched, Key, KeyRange, LockPolicy, PartitionId, Read, Row,
    TableId, TableSchema, Timestamp,
};

use super::NodeTransaction;
use crate::limits::TransactionSize;
use crate::overlay::{self, Overlay, OwnWrite};
use crate::routing::Target;

/// A row by its partition, table and key.
type Place = (PartitionId, TableId, Key);

/// How many keys are looked for at all partitions at once.
const KEYS_AT_ONCE: usize = 1_000;

/// Where rows are, and where index entries of theirs would be.
#[derive(Default)]
pub(super) struct Entries {
    /// Ranges of unique indexes in which a new row's key may stand already.
    unique: Vec<(PartitionId, Read)>,
    /// The new entries of other indexes.
    others: Vec<(PartitionId, Read)>,
}

impl NodeTransaction {
    /// Checks the effects from this place on.
    ///
    /// # Errors
    /// [`TransactionError::Failed`] if an effect cannot be applied (duplicate key, CHECK, domain); a retry.
    pub(crate) async fn verify_writes(&mut self, from: usize) -> Result<(), TransactionError> {
        // Reads see the writes before the statement alone.
        let new = self.mailbox.borrow_mut().writes.split_off(from);
        let verified = match new.is_empty() {
            true => Ok(()),
            false => self.verify(&new).await,
        };
        self.mailbox.borrow_mut().writes.extend(new);
        verified
    }

    async fn verify(&mut self, new: &[OwnWrite]) -> Result<(), TransactionError> {
        let planned = Arc::clone(&self.planned);
        let schema = planned.application.schema();
        let mut places: Vec<Place> = new
            .iter()
            // A drawn key is no other row's.
            .filter(|write| !(is_insert(write) && self.has_hidden_keys(write.effect.table())))
            .map(|write| {
                (
                    write.partition,
                    write.effect.table(),
                    write.effect.key().clone(),
                )
            })
            .collect();
        places.sort_unstable();
        places.dedup();
        let points = places.iter().map(|(partition, table, key)| {
            let point = Read::Point {
                table: *table,
                key: key.clone(),
            };
            (*partition, point)
        });
        let before = self.read_at(points.collect()).await?;
        let before = before.into_iter().map(|fetched| match fetched {
            Fetched::Point(row) => row,
            Fetched::Range(_) | Fetched::Locked | Fetched::Recorded(_) => None,
        });
        let before: BTreeMap<Place, Option<Row>> = places.into_iter().zip(before).collect();
        let after = self.try_effects(new, &before)?;
        self.check_places(&after)?;
        self.check_given_keys(new).await?;
        let mut entries = Entries::default();
        for ((partition, table, key), row) in &after {
            let before = before.get(&(*partition, *table, key.clone()));
            if let Some(row) = row {
                let table = schema.table(*table);
                self.note_entries(*partition, table, key, (row, before), &mut entries);
            }
        }
        if !entries.others.is_empty() {
            entries
                .others
                .sort_unstable_by_key(|(partition, _)| *partition);
            self.read_at(entries.others).await?;
        }
        if entries.unique.is_empty() {
            return Ok(());
        }
        entries
            .unique
            .sort_unstable_by_key(|(partition, _)| *partition);
        let tables: Vec<TableId> = entries
            .unique
            .iter()
            .map(|(_, read)| read.table())
            .collect();
        let found = self.read_at(entries.unique).await?;
        self.try_on_copy(new, before, tables.into_iter().zip(found))
    }

    /// Refuses a change of the column that places a row, where the key does not: the row would have to move.
    fn check_places(&self, after: &BTreeMap<Place, Option<Row>>) -> Result<(), TransactionError> {
        let router = &self.planned.execution.router;
        for ((partition, table, _), row) in after {
            let Some(row) = row else { continue };
            if !router.is_apart(*table) || router.row(*table, row) == Target::One(*partition) {
                continue;
            }
            let schema = self.planned.schema().table(*table);
            let column = router.placing_column(*table);
            let column = column.map_or("", |column| &schema.columns[column.index()].name);
            return Err(TransactionError::Failed(EffectError::new(
                "0A000",
                format!(
                    "column \"{column}\" of table \"{}\" cannot be changed, because it determines the partition \
                     of the row: delete the row and insert another",
                    schema.name
                ),
            )));
        }
        Ok(())
    }

    /// Looks for the primary keys of new rows at all partitions, where a key does not tell the partition. Other transactions
    /// than those that run alone draw such keys, so that they are new.
    async fn check_given_keys(&mut self, new: &[OwnWrite]) -> Result<(), TransactionError> {
        if !self.entry.as_ref().is_some_and(|entry| entry.is_alone()) {
            return Ok(());
        }
        let planned = Arc::clone(&self.planned);
        let router = &planned.execution.router;
        let mut rows: BTreeMap<(TableId, &Key), &Row> = BTreeMap::new();
        for write in new {
            if let Effect::Insert {
                table, key, row, ..
            } = &write.effect
                && router.is_apart(*table)
                && !self.has_hidden_keys(*table)
                && rows.insert((*table, key), row).is_some()
            {
                let schema = planned.schema().table(*table);
                return Err(failed(ApplyError::duplicate_key(schema, row)));
            }
        }
        let rows: Vec<((TableId, &Key), &Row)> = rows.into_iter().collect();
        for rows in rows.chunks(KEYS_AT_ONCE) {
            let mut points = Vec::new();
            for partition in (0..router.partitions()).map(PartitionId) {
                for ((table, key), _) in rows {
                    let (table, key) = (*table, (*key).clone());
                    points.push((partition, Read::Point { table, key }));
                }
            }
            // The transaction's size has the writes, and not how many partitions are asked for their keys.
            let size = self.mailbox.borrow().size;
            self.mailbox.borrow_mut().size = TransactionSize::new(size.limits);
            let found = self.read_at(points).await;
            self.mailbox.borrow_mut().size = size;
            for (at, answer) in found?.into_iter().enumerate() {
                if let Fetched::Point(Some(_)) = answer {
                    let ((table, _), row) = &rows[at % rows.len()];
                    let schema = planned.schema().table(*table);
                    return Err(failed(ApplyError::duplicate_key(schema, row)));
                }
            }
        }
        Ok(())
    }

    /// Runs the effects on the rows before them, and returns the rows after.
    fn try_effects(
        &self,
        new: &[OwnWrite],
        before: &BTreeMap<Place, Option<Row>>,
    ) -> Result<BTreeMap<Place, Option<Row>>, TransactionError> {
        let schema = self.planned.application.schema();
        let programs = self.planned.application.programs();
        let mut after: BTreeMap<Place, Option<Row>> = BTreeMap::new();
        for write in new {
            let (table, key) = (write.effect.table(), write.effect.key());
            let place = (write.partition, table, key.clone());
            let row = match after.remove(&place) {
                Some(row) => row,
                None => before.get(&place).cloned().flatten(),
            };
            if let (Effect::Insert { row: new, .. }, Some(_)) = (&write.effect, &row) {
                let duplicate = ApplyError::duplicate_key(schema.table(table), new);
                return Err(failed(duplicate));
            }
            let one = std::slice::from_ref(write);
            let overlay = Overlay::new(schema, &*programs, one, Vec::new(), Vec::new());
            let point = Read::Point {
                table,
                key: key.clone(),
            };
            let row = match overlay.fold(&point, Fetched::Point(row))? {
                Fetched::Point(row) => row,
                Fetched::Range(_) | Fetched::Locked | Fetched::Recorded(_) => None,
            };
            after.insert(place, row);
        }
        Ok(after)
    }

    /// Locks index entries that are to come: waits for those who hold them.
    pub(super) async fn lock_entries(&mut self, entries: Entries) -> Result<(), TransactionError> {
        self.read_at(entries.others).await?;
        self.read_at(entries.unique).await?;
        Ok(())
    }

    /// Adds the index entries that a row gains.
    pub(super) fn note_entries(
        &self,
        partition: PartitionId,
        table: &TableSchema,
        key: &Key,
        (row, before): (&Row, Option<&Option<Row>>),
        entries: &mut Entries,
    ) {
        for index in &table.indexes {
            let prefix = index_prefix(table, index, row);
            let is_unique = index.unique
                && !index
                    .columns
                    .iter()
                    .any(|column| row.is_null(&table.layout, *column));
            if !is_unique && !self.locks {
                continue;
            }
            let was = before.and_then(Option::as_ref);
            if was.is_some_and(|was| index_prefix(table, index, was) == prefix) {
                continue;
            }
            let mut entry = prefix;
            if !is_unique {
                entry.push_bytes(key.as_bytes());
            }
            let read = Read::Range {
                table: table.id,
                index: Some(index.id),
                range: KeyRange::prefix_of(entry),
                reverse: false,
                limit: None,
            };
            match is_unique {
                true => entries.unique.push((partition, read)),
                false => entries.others.push((partition, read)),
            }
        }
    }

    /// Runs the effects on a copy of the rows that they could meet.
    fn try_on_copy(
        &self,
        new: &[OwnWrite],
        before: BTreeMap<Place, Option<Row>>,
        found: impl Iterator<Item = (TableId, Fetched)>,
    ) -> Result<(), TransactionError> {
        let mut rows: BTreeMap<(TableId, Key), Row> = BTreeMap::new();
        for (table, fetched) in found {
            if let Fetched::Range(found) = fetched {
                rows.extend(found.into_iter().map(|(key, row)| ((table, key), row)));
            }
        }
        let before = before.into_iter();
        rows.extend(before.filter_map(|((_, table, key), row)| Some(((table, key), row?))));
        let mut copy = Store::new(self.planned.schema(), StoreSettings::default());
        for ((table, key), row) in rows {
            // The map has each key once.
            let _ = copy.load(table, key, row);
        }
        let effects: Vec<Effect> = new.iter().map(|write| write.effect.clone()).collect();
        let programs = self.planned.application.programs();
        copy.check(Timestamp::MAX, &effects, &*programs)
            .map_err(failed)
    }

    /// Reads at these partitions, sorted by partition, for writing. The answers have the own writes so far.
    async fn read_at(
        &mut self,
        reads: Vec<(PartitionId, Read)>,
    ) -> Result<Vec<Fetched>, TransactionError> {
        if reads.is_empty() {
            return Ok(Vec::new());
        }
        let access = Access {
            for_write: true,
            guard: true,
            lock: LockPolicy::Wait,
        };
        let asked = reads.iter().map(|(partition, read)| PartitionRead {
            partition: *partition,
            read: read.clone(),
            access,
        });
        let answers = self.request(asked.collect()).await?;
        if self.mailbox.borrow().writes.is_empty() {
            return Ok(answers);
        }
        let reads: Vec<Read> = reads.into_iter().map(|(_, read)| read).collect();
        // An own update may have moved a row into a range of an index.
        let bases = overlay::bases(&reads, &self.mailbox.borrow().writes);
        let rows = self.base_rows(&bases).await?;
        let mailbox = self.mailbox.borrow();
        let schema = self.planned.application.schema();
        let programs = self.planned.application.programs();
        let overlay = Overlay::new(schema, &*programs, &mailbox.writes, bases, rows);
        let answers = reads.iter().zip(answers);
        answers
            .map(|(read, answer)| overlay.fold(read, answer))
            .collect()
    }

    /// The rows, without own writes, that own updates change.
    async fn base_rows(
        &mut self,
        bases: &[(TableId, Key)],
    ) -> Result<Vec<Fetched>, TransactionError> {
        let reads = bases.iter().map(|(table, key)| Read::Point {
            table: *table,
            key: key.clone(),
        });
        let access = Access {
            for_write: true,
            guard: true,
            lock: LockPolicy::Wait,
        };
        self.fetch(access, reads.collect()).await
    }
}

fn is_insert(write: &OwnWrite) -> bool {
    matches!(write.effect, Effect::Insert { .. })
}

fn failed(error: ApplyError) -> TransactionError {
    match error.into_effect_error() {
        Some(error) => TransactionError::Failed(error),
        None => TransactionError::Retry("a row has gone"),
    }
}
