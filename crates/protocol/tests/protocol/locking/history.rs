//! Checks that committed transactions are serializable.
//!
//! LOCK-I7 gives the order: that of their timestamps. The check runs the history again in that order against a
//! model without versions, locks or indexes; every read must return the same.

use std::collections::BTreeMap;

use anabranch_protocol::{PartitionRead, Request};
use anabranch_types::{ColumnSet, Effect, Fetched, Key, Read, Row, TableId, Timestamp, Value};

use crate::support::fixture::{
    BY_OWNER, ENTRY, ITEM, columns, entry_key, item_key, item_row, programs, schema,
};
use crate::support::schedule::{Outcome, Run};

/// A database as a reference model.
#[derive(Default)]
pub(crate) struct Model {
    rows: BTreeMap<(TableId, Key), Row>,
}

impl Model {
    /// The rows that the nodes are loaded with.
    pub(crate) fn loaded(parts: u16, items: i64) -> Model {
        let mut model = Model::default();
        for part in 0..parts {
            for id in 0..items {
                let row = item_row(part, id, 0, crate::locking::START);
                model.rows.insert((ITEM, item_key(part, id)), row);
            }
        }
        model
    }

    /// The sum of all counters.
    pub(crate) fn total(&self) -> i64 {
        let items = self.rows.iter().filter(|((table, _), _)| *table == ITEM);
        items.map(|(_, row)| columns(ITEM, row)[3]).sum()
    }

    fn read(&self, read: &Read) -> Fetched {
        match read {
            Read::Point { table, key } => {
                Fetched::Point(self.rows.get(&(*table, key.clone())).cloned())
            }
            Read::Range {
                table,
                index,
                range,
                reverse,
                limit,
            } => {
                let mut found: Vec<(Key, Key, Row)> = self
                    .rows
                    .iter()
                    .filter(|((of, _), _)| of == table)
                    .map(|((_, key), row)| {
                        let place = match index {
                            None => key.clone(),
                            Some(index) => {
                                assert_eq!((*table, *index), (ENTRY, BY_OWNER));
                                let [part, _, owner, _] = columns(ENTRY, row);
                                // `(part, owner)` is encoded as `(part, id)` is.
                                let mut place = entry_key(part as u16, owner);
                                place.push_bytes(key.as_bytes());
                                place
                            }
                        };
                        (place, key.clone(), row.clone())
                    })
                    .filter(|(place, _, _)| range.contains(place))
                    .collect();
                found.sort_by(|a, b| a.0.cmp(&b.0));
                if *reverse {
                    found.reverse();
                }
                found.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
                Fetched::Range(found.into_iter().map(|(_, key, row)| (key, row)).collect())
            }
        }
    }

    fn apply(&mut self, effect: &Effect, slots: &mut BTreeMap<u16, i64>) {
        match effect {
            Effect::Insert {
                table,
                key,
                row,
                patches,
            } => {
                let (mut key, mut row) = (key.clone(), row.clone());
                for patch in patches {
                    let id = slots[&patch.slot.0] + patch.offset;
                    assert!(row.patch_int(&schema().table(*table).layout, patch.column, id));
                    key.truncate(4);
                    key.push_int(8, id).expect("8 bytes hold it");
                }
                let before = self.rows.insert((*table, key), row);
                assert!(before.is_none(), "an insert has found its key taken");
            }
            Effect::Update {
                table,
                key,
                program,
                arguments,
                outputs,
            } => {
                let Some(row) = self.rows.get_mut(&(*table, key.clone())) else {
                    return;
                };
                let applied = programs().apply(*program, row, arguments, ColumnSet::EMPTY);
                let applied = applied.expect("what has committed can be applied");
                if let (Some(slot), [Value::Int(int)]) = (outputs, &applied.outputs[..]) {
                    slots.insert(slot.0, *int);
                }
                *row = applied.row;
            }
            Effect::Delete { table, key } => {
                self.rows.remove(&(*table, key.clone()));
            }
        }
    }

    /// Compares a committed transaction's reads with the model's and applies its effects. Returns the first
    /// contradiction.
    fn replay(&mut self, run: &Run) -> Result<(), String> {
        let Outcome::Committed(timestamp, drawn) = &run.outcome else {
            panic!("only what has committed is replayed");
        };
        for count in 0..=run.answers.len() {
            match run.procedure.next(&run.answers[..count]) {
                Request::Read(reads) => self.compare(*timestamp, &reads, &run.answers[count])?,
                Request::Commit(parts) => {
                    let mut slots = BTreeMap::new();
                    for effect in parts.iter().flat_map(|part| &part.effects) {
                        self.apply(effect, &mut slots);
                    }
                    for (slot, value) in drawn {
                        let expected = Value::Int(slots[&slot.0]);
                        if *value != expected {
                            return Err(format!("{timestamp} drew {value:?}, not {expected:?}"));
                        }
                    }
                }
                Request::CommitReads => {}
                other => panic!("a committed transaction has the read {other:?}"),
            }
        }
        Ok(())
    }

    fn compare(
        &self,
        timestamp: Timestamp,
        reads: &[PartitionRead],
        answers: &[Fetched],
    ) -> Result<(), String> {
        for (read, answer) in reads.iter().zip(answers) {
            let expected = self.read(&read.read);
            if !is_same(&expected, answer) {
                return Err(format!(
                    "{timestamp} reads {:?}\nand finds {answer:?}\nnot {expected:?}",
                    read.read
                ));
            }
        }
        Ok(())
    }
}

fn is_same(a: &Fetched, b: &Fetched) -> bool {
    match (a, b) {
        (Fetched::Point(a), Fetched::Point(b)) => a == b,
        (Fetched::Range(a), Fetched::Range(b)) => a == b,
        _ => false,
    }
}

/// Runs the committed transactions again in the order of their timestamps.
pub(crate) fn check_serializable(model: &mut Model, runs: &[Run]) -> Result<(), String> {
    let timestamp = |run: &Run| match run.outcome {
        Outcome::Committed(timestamp, _) => Some(timestamp),
        _ => None,
    };
    let mut committed: Vec<&Run> = runs.iter().filter(|run| run.committed()).collect();
    committed.sort_by_key(|run| timestamp(run));
    committed.iter().try_for_each(|run| model.replay(run))
}
