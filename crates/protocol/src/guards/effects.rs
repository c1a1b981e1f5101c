//! The effects of each row, by timestamp: what a row is does not depend on the order in which they arrive.
//!
//! A row that has been changed has its effects since a *base*, and the row after each. A late effect is entered where its
//! timestamp belongs, and what follows is computed again. Effects that no other one can precede any more become the base,
//! and a row with no other effects has none here: its base is the row in the store.

use std::collections::BTreeMap;

use anabranch_storage::{LoggedChange, Store};
use anabranch_types::{
    ColumnSet, Effect, Key, ProgramId, Row, RowPrograms, TableId, Timestamp, Value,
};
use serde::{Deserialize, Serialize};

/// The effects of all rows that have been changed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EffectLogs {
    rows: BTreeMap<TableId, BTreeMap<Key, RowLog>>,
    /// The rows that each transaction has changed, while an earlier effect may come.
    unsettled: BTreeMap<Timestamp, Vec<(TableId, Key)>>,
}

/// The effects of a row.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RowLog {
    /// The row before them.
    base: Option<Row>,
    /// The last transaction that the base includes.
    base_timestamp: Timestamp,
    /// In order of timestamps.
    entries: Vec<Entry>,
}

/// What a transaction does to a row.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    timestamp: Timestamp,
    /// In order of execution.
    changes: Vec<RowChange>,
    /// The row after them.
    after: Option<Row>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum RowChange {
    Insert(Row),
    Update {
        program: ProgramId,
        arguments: Box<[Value]>,
    },
    Delete,
}

impl EffectLogs {
    /// Enters a transaction's effects. Returns the rows that it changes, as they are now, and the first effect that
    /// contradicts GRD-I8, if any. `floor`: all later transactions have timestamps above it.
    pub(crate) fn enter(
        &mut self,
        store: &Store,
        programs: &dyn RowPrograms,
        timestamp: Timestamp,
        effects: &[Effect],
        floor: Timestamp,
    ) -> (Vec<LoggedChange>, Option<String>) {
        let mut by_row: BTreeMap<(TableId, &Key), Vec<RowChange>> = BTreeMap::new();
        for effect in effects {
            let change = match effect {
                Effect::Insert { row, .. } => RowChange::Insert(row.clone()),
                Effect::Update {
                    program, arguments, ..
                } => RowChange::Update {
                    program: *program,
                    arguments: arguments.clone(),
                },
                Effect::Delete { .. } => RowChange::Delete,
            };
            let changes = by_row.entry((effect.table(), effect.key())).or_default();
            changes.push(change);
        }
        let mut violation = None;
        let mut images = Vec::with_capacity(by_row.len());
        for ((table, key), changes) in by_row {
            let item = store.item(table, key);
            let rows = self.rows.entry(table).or_default();
            let log = rows.entry(key.clone()).or_insert_with(|| RowLog {
                base: item.and_then(|item| item.latest().row().cloned()),
                base_timestamp: floor,
                entries: Vec::new(),
            });
            let entered = log.enter(timestamp, changes, programs);
            if let Err(what) = entered {
                let name = &store.schema(table).name;
                violation.get_or_insert(format!("{what} at {timestamp}, row {key} of \"{name}\""));
            }
            let row = log.entries.last().and_then(|entry| entry.after.clone());
            let changed = self.unsettled.entry(timestamp).or_default();
            changed.push((table, key.clone()));
            if row.is_some() || item.is_some() {
                images.push(LoggedChange {
                    table,
                    key: key.clone(),
                    row,
                    assigned: ColumnSet::EMPTY,
                });
            }
        }
        (images, violation)
    }

    /// Makes the effects up to `floor` the base of their rows. Call it once the rows that [`EffectLogs::enter`] has
    /// returned are installed: a row without later effects is in the store alone.
    pub(crate) fn settle(&mut self, floor: Timestamp) {
        while let Some(first) = self.unsettled.first_entry()
            && *first.key() <= floor
        {
            for (table, key) in first.remove() {
                let Some(rows) = self.rows.get_mut(&table) else {
                    continue;
                };
                if let Some(log) = rows.get_mut(&key) {
                    log.settle(floor);
                    if log.entries.is_empty() {
                        rows.remove(&key);
                    }
                }
            }
        }
    }
}

impl RowLog {
    fn enter(
        &mut self,
        timestamp: Timestamp,
        changes: Vec<RowChange>,
        programs: &dyn RowPrograms,
    ) -> Result<(), String> {
        let mut result = match timestamp > self.base_timestamp {
            true => Ok(()),
            false => {
                Err("GRD-I7: an effect arrives below what all later ones are above".to_owned())
            }
        };
        let at = self
            .entries
            .partition_point(|entry| entry.timestamp < timestamp);
        if self
            .entries
            .get(at)
            .is_some_and(|entry| entry.timestamp == timestamp)
        {
            result = Err("GRD-I3: a transaction is applied twice".to_owned());
        }
        let entry = Entry {
            timestamp,
            changes,
            after: None,
        };
        self.entries.insert(at, entry);
        let mut row = match at {
            0 => self.base.clone(),
            at => self.entries[at - 1].after.clone(),
        };
        for entry in &mut self.entries[at..] {
            for change in &entry.changes {
                match changed(row.take(), change, programs) {
                    Ok(after) => row = after,
                    Err((before, what)) => {
                        row = before;
                        result = result.and(Err(what));
                    }
                }
            }
            entry.after.clone_from(&row);
        }
        result
    }

    /// Makes the effects up to `floor` the base.
    fn settle(&mut self, floor: Timestamp) {
        let settled = self
            .entries
            .partition_point(|entry| entry.timestamp <= floor);
        if let Some(last) = settled.checked_sub(1) {
            let entry = &self.entries[last];
            self.base.clone_from(&entry.after);
            self.base_timestamp = entry.timestamp;
            self.entries.drain(..settled);
        }
    }
}

/// The row after a change; if it fails, the row before and why.
fn changed(
    row: Option<Row>,
    change: &RowChange,
    programs: &dyn RowPrograms,
) -> Result<Option<Row>, (Option<Row>, String)> {
    match (row, change) {
        (None, RowChange::Insert(new)) => Ok(Some(new.clone())),
        (Some(row), RowChange::Insert(_)) => Err((
            Some(row),
            "GRD-I8: an insert finds a row with its key".to_owned(),
        )),
        (_, RowChange::Delete) | (None, RowChange::Update { .. }) => Ok(None),
        (Some(row), RowChange::Update { program, arguments }) => {
            match programs.apply(*program, &row, arguments, ColumnSet::EMPTY) {
                Ok(applied) => Ok(Some(applied.row)),
                Err(error) => Err((Some(row), format!("GRD-I8: {}", error.message))),
            }
        }
    }
}
