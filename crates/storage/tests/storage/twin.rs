//! The store against a naive reference model that keeps every version: random transactions in random timestamp
//! order, snapshots, ranges of both kinds of index, garbage collection.

use std::collections::BTreeMap;
use std::ops::Bound;

use anabranch_storage::{Commit, CommitSequence, SlotValues, Store, StoreSettings};
use anabranch_types::{
    ColumnSet, DataType, Effect, Fetched, IndexId, Key, KeyRange, NodeId, Read, Row, Schema, Ticks,
    Timestamp, Value,
};
use proptest::prelude::*;

use crate::support::*;

const STEP: u64 = 1_000;
const WINDOW_STEPS: u64 = 20;
/// Timestamps are up to this many steps early, so that they are out of order.
const JITTER_END: u64 = 6;

#[derive(Clone, Debug)]
enum Change {
    Insert {
        id: i32,
        group: Option<i32>,
        name: Option<String>,
    },
    Add {
        id: i32,
        amount: i64,
    },
    Assign {
        id: i32,
        group: Option<i32>,
        name: Option<String>,
    },
    Refuse {
        id: i32,
    },
    Delete {
        id: i32,
    },
}

/// What is declared before a commit ([`Store::discard_history`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forget {
    /// Nothing.
    Nothing,
    /// No reader needs earlier snapshots, and later commits have later timestamps.
    History,
    /// No reader needs earlier snapshots; earlier timestamps may still come.
    Rows,
}

#[derive(Clone, Debug)]
enum Step {
    Commit {
        changes: Vec<Change>,
        jitter: u64,
        forget: Forget,
    },
    KeepPast {
        keep: bool,
    },
    Wait {
        steps: u64,
    },
    Collect {
        budget: usize,
    },
    Read {
        read: Read,
        age: u64,
    },
}

struct TwinVersion {
    sequence: u64,
    timestamp: Timestamp,
    row: Option<Row>,
    assigned: ColumnSet,
}

#[derive(Default)]
struct Twin {
    items: BTreeMap<Key, Vec<TwinVersion>>,
    last: u64,
}

impl Twin {
    fn visible(&self, key: &Key, snapshot: u64) -> Option<&Row> {
        let versions = self.items.get(key)?;
        versions
            .iter()
            .rev()
            .find(|version| version.sequence <= snapshot)?
            .row
            .as_ref()
    }

    fn later(&self, key: &Key, timestamp: Timestamp) -> ColumnSet {
        let versions = self.items.get(key).into_iter().flatten();
        versions
            .filter(|version| version.timestamp > timestamp && version.sequence <= self.last)
            .fold(ColumnSet::EMPTY, |columns, version| {
                columns.union(version.assigned)
            })
    }

    /// Applies the changes one after the other at the next sequence; false, and nothing has
    /// changed, when one fails.
    fn apply(&mut self, schema: &Schema, timestamp: Timestamp, changes: &[Change]) -> bool {
        let layout = &schema.table(TABLE).layout;
        let sequence = self.last + 1;
        let mut all = true;
        for change in changes {
            let (id, at) = match change {
                Change::Insert { id, .. }
                | Change::Add { id, .. }
                | Change::Assign { id, .. }
                | Change::Refuse { id }
                | Change::Delete { id } => (*id, key(*id)),
            };
            let skip = self.later(&at, timestamp);
            let current = self.visible(&at, sequence).cloned();
            let mut next = current.clone();
            let mut assigned = ColumnSet::EMPTY;
            match (change, &current) {
                (Change::Insert { group, name, .. }, None) => {
                    if skip != ColumnSet::ALL {
                        next = Some(row(schema, id, *group, name.as_deref(), 0));
                        assigned = ColumnSet::ALL;
                    }
                }
                (Change::Insert { .. }, Some(_)) => all = false,
                (_, None) => continue,
                (Change::Delete { .. }, Some(_)) => {
                    if skip != ColumnSet::ALL {
                        next = None;
                        assigned = ColumnSet::ALL;
                    }
                }
                (Change::Refuse { .. }, Some(_)) => all = false,
                (Change::Add { amount, .. }, Some(row)) => {
                    let amount = if skip.contains(TOTAL) { 0 } else { *amount };
                    let total = row.get_int(layout, TOTAL).unwrap() + amount;
                    next = Some(row.with(layout, &[(TOTAL, Value::Int(total))]).unwrap());
                }
                (Change::Assign { group, name, .. }, Some(row)) => {
                    let mut changes = vec![
                        (
                            GROUP,
                            group.map_or(Value::Null, |group| Value::Int(group.into())),
                        ),
                        (NAME, name.as_ref().map_or(Value::Null, Value::text)),
                    ];
                    assigned = ColumnSet::EMPTY.with(GROUP).with(NAME);
                    changes.retain(|(column, _)| !skip.contains(*column));
                    next = Some(row.with(layout, &changes).unwrap());
                }
            }
            let name = |row: &Row| row.text(layout, NAME).map(str::to_owned);
            if let Some(name_next) = next.as_ref().and_then(name) {
                all &= !self.items.keys().any(|other| {
                    let taken = self.visible(other, sequence).and_then(name);
                    *other != at && taken.as_ref() == Some(&name_next)
                });
            }
            let versions = self.items.entry(at).or_default();
            match versions
                .last_mut()
                .filter(|version| version.sequence == sequence)
            {
                Some(version) => {
                    version.row = next;
                    version.assigned = version.assigned.union(assigned);
                }
                None => versions.push(TwinVersion {
                    sequence,
                    timestamp,
                    row: next,
                    assigned,
                }),
            }
            if !all {
                break;
            }
        }
        if all {
            self.last = sequence;
        } else {
            self.items
                .values_mut()
                .for_each(|v| v.retain(|v| v.sequence < sequence));
            self.items.retain(|_, versions| !versions.is_empty());
        }
        all
    }

    fn fetch(&self, schema: &Schema, read: &Read, snapshot: u64) -> Vec<(Key, Row)> {
        let rows = self
            .items
            .keys()
            .filter_map(|key| Some((key, self.visible(key, snapshot)?)));
        let rows = rows.map(|(key, row)| (key.clone(), row.clone()));
        match read {
            Read::Point { key, .. } => rows.filter(|(at, _)| at == key).collect(),
            Read::Range {
                index,
                range,
                reverse,
                limit,
                ..
            } => {
                let mut found: Vec<(Key, Key, Row)> = rows
                    .map(|(key, row)| (order_key(schema, *index, &key, &row), key, row))
                    .filter(|(order, _, _)| range.contains(order))
                    .collect();
                found.sort_by(|left, right| left.0.cmp(&right.0));
                if *reverse {
                    found.reverse();
                }
                found.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
                found.into_iter().map(|(_, key, row)| (key, row)).collect()
            }
        }
    }
}

fn order_key(schema: &Schema, index: Option<IndexId>, key: &Key, row: &Row) -> Key {
    let Some(index) = index else {
        return key.clone();
    };
    let table = schema.table(TABLE);
    let mut order = Key::empty();
    for column in table.key_columns(Some(index)) {
        let declared = &table.columns[column.index()];
        let value = row.get(&table.layout, *column);
        order.push_value(&declared.data_type, declared.nullable, &value);
    }
    order.push_bytes(key.as_bytes());
    order
}

fn effect(schema: &Schema, change: &Change) -> Effect {
    let update = |id: i32, program, arguments: Vec<Value>| Effect::Update {
        table: TABLE,
        key: key(id),
        program,
        arguments: arguments.into(),
        outputs: None,
    };
    match change {
        Change::Insert { id, group, name } => Effect::Insert {
            table: TABLE,
            key: key(*id),
            row: row(schema, *id, *group, name.as_deref(), 0),
            patches: Default::default(),
        },
        Change::Add { id, amount } => update(*id, ADD, vec![Value::Int(*amount)]),
        Change::Assign { id, group, name } => update(
            *id,
            ASSIGN,
            vec![
                group.map_or(Value::Null, |group| Value::Int(group.into())),
                name.as_ref().map_or(Value::Null, Value::text),
            ],
        ),
        Change::Refuse { id } => update(*id, REFUSE, vec![]),
        Change::Delete { id } => Effect::Delete {
            table: TABLE,
            key: key(*id),
        },
    }
}

struct Run {
    schema: Schema,
    programs: Programs,
    store: Store,
    twin: Twin,
    now: Ticks,
    commits: Vec<(Ticks, CommitSequence)>,
    /// No reader needs a snapshot below this one.
    forgotten: CommitSequence,
    /// Whether the table's version history is retained.
    retains_history: bool,
}

impl Run {
    fn new() -> Run {
        let settings = StoreSettings {
            window: Ticks(STEP * WINDOW_STEPS),
        };
        Run {
            schema: schema(),
            programs: Programs(schema()),
            store: Store::new(&schema(), settings),
            twin: Twin::default(),
            now: Ticks(STEP * 100),
            commits: vec![(Ticks(0), CommitSequence::LOADED)],
            forgotten: CommitSequence::LOADED,
            retains_history: false,
        }
    }

    fn step(&mut self, number: u64, step: &Step) -> Result<(), TestCaseError> {
        self.now = self.now + Ticks(STEP);
        match step {
            Step::Commit {
                changes,
                jitter,
                forget,
            } => {
                match forget {
                    Forget::Nothing => {}
                    Forget::History => self.discard_history(),
                    Forget::Rows => {
                        let late = Timestamp::new(self.now.0 / STEP * 10 - 1, NodeId(0));
                        self.store.hold_horizon(Some(CommitSequence::LOADED));
                        self.store.discard_history(late);
                    }
                }
                self.commit(number, changes, *jitter)?;
                self.store.hold_horizon(None);
                if *forget == Forget::History {
                    // All later timestamps are above this one, too.
                    self.now = self.now + Ticks(STEP * JITTER_END);
                }
                if *forget != Forget::Nothing && !self.retains_history {
                    self.forgotten = self.store.last();
                }
            }
            Step::KeepPast { keep } => {
                self.store.retain_history(TABLE, *keep);
                self.retains_history = *keep;
                if !keep {
                    // Declarations made while the history was retained apply from now on.
                    self.forgotten = self.store.last();
                }
            }
            Step::Wait { steps } => self.now = self.now + Ticks(STEP * steps),
            Step::Collect { budget } => {
                self.store.collect(self.now, *budget);
            }
            Step::Read { read, age } => self.read(read, *age)?,
        }
        self.store.check_invariants().map_err(TestCaseError::fail)
    }

    /// Every later timestamp is above those installed, and no reader needs a snapshot.
    fn discard_history(&mut self) {
        self.now = self.now + Ticks(STEP * JITTER_END);
        self.store.discard_history(Timestamp::MAX);
    }

    fn commit(
        &mut self,
        number: u64,
        changes: &[Change],
        jitter: u64,
    ) -> Result<(), TestCaseError> {
        let timestamp = Timestamp::new(self.now.0 / STEP * 10 + jitter * 10, NodeId(number as u16));
        let effects: Vec<Effect> = changes.iter().map(|c| effect(&self.schema, c)).collect();
        let checked = self.store.check(timestamp, &effects, &self.programs);
        let applied = self.store.apply(
            self.now,
            Commit { timestamp, effects },
            &mut SlotValues::default(),
            &self.programs,
        );
        let expected = self.twin.apply(&self.schema, timestamp, changes);
        prop_assert_eq!(applied.is_ok(), expected, "{:?}", applied);
        prop_assert_eq!(checked.is_ok(), expected, "{:?}", checked);
        prop_assert_eq!(self.store.last().0, self.twin.last);
        if let Ok(sequence) = applied {
            self.commits.push((self.now, sequence));
        }
        Ok(())
    }

    fn read(&self, read: &Read, age: u64) -> Result<(), TestCaseError> {
        let snapshot = CommitSequence(self.twin.last.saturating_sub(age));
        let rows = |fetched| match fetched {
            Fetched::Range(rows) => rows,
            Fetched::Locked | Fetched::Recorded(_) => unreachable!("the store does not record"),
            Fetched::Point(row) => match read {
                Read::Point { key, .. } => row.map(|row| (key.clone(), row)).into_iter().collect(),
                Read::Range { .. } => unreachable!("a range is answered by a range"),
            },
        };
        let latest = rows(
            self.store
                .fetch(read, None)
                .expect("the newest is above the floor"),
        );
        prop_assert_eq!(latest, self.twin.fetch(&self.schema, read, self.twin.last));
        match self.store.fetch(read, Some(snapshot)) {
            Ok(fetched) => {
                let expected = self.twin.fetch(&self.schema, read, snapshot.0);
                prop_assert_eq!(rows(fetched), expected, "in snapshot {}", snapshot);
            }
            Err(_) => {
                // The next commit superseded the snapshot; that must be longer ago than the window.
                let next = self
                    .commits
                    .iter()
                    .find(|(_, sequence)| *sequence > snapshot);
                let at = next.expect("the newest snapshot is never refused").0;
                prop_assert!(
                    snapshot < self.forgotten || self.now.since(at) > Ticks(STEP * WINDOW_STEPS),
                    "refused too early"
                );
            }
        }
        Ok(())
    }
}

fn forgets() -> impl Strategy<Value = Forget> {
    prop_oneof![6 => Just(Forget::Nothing), 1 => Just(Forget::History), 2 => Just(Forget::Rows)]
}

fn ids() -> impl Strategy<Value = i32> {
    0..8i32
}

fn groups() -> impl Strategy<Value = Option<i32>> {
    prop::option::weighted(0.8, 0..3i32)
}

fn names() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(0.7, "[a-f]")
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (ids(), groups(), names())
            .prop_map(|(id, group, name)| Change::Insert { id, group, name }),
        3 => (ids(), 1..9i64).prop_map(|(id, amount)| Change::Add { id, amount }),
        4 => (ids(), groups(), names())
            .prop_map(|(id, group, name)| Change::Assign { id, group, name }),
        1 => ids().prop_map(|id| Change::Refuse { id }),
        2 => ids().prop_map(|id| Change::Delete { id }),
    ]
}

fn int_suffix() -> impl Strategy<Value = Key> {
    (0..9i64).prop_map(|int| {
        let mut key = Key::empty();
        key.push_value(&DataType::Int4, false, &Value::Int(int));
        key
    })
}

fn bounds() -> impl Strategy<Value = Bound<Key>> {
    prop_oneof![
        int_suffix().prop_map(Bound::Included),
        int_suffix().prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ]
}

fn reads() -> impl Strategy<Value = Read> {
    let prefix = prop_oneof![
        Just((None, Key::empty())),
        (0..2i64).prop_map(|shard| {
            let mut key = Key::empty();
            key.push_value(&DataType::Int4, false, &Value::Int(shard));
            (None, key)
        }),
        Just((Some(BY_GROUP), Key::empty())),
        Just((Some(BY_GROUP), Key::from_bytes(&[0]))),
        prop::option::of(0..3i64).prop_map(|group| {
            let mut key = Key::empty();
            key.push_value(
                &DataType::Int4,
                true,
                &group.map_or(Value::Null, Value::Int),
            );
            (Some(BY_GROUP), key)
        }),
        names().prop_map(|name| {
            let mut key = Key::empty();
            key.push_value(
                &DataType::Text,
                true,
                &name.map_or(Value::Null, Value::text),
            );
            (Some(BY_NAME), key)
        }),
    ];
    let range = (
        prefix,
        bounds(),
        bounds(),
        any::<bool>(),
        prop::option::of(0..6u32),
    )
        .prop_map(|((index, prefix), lower, upper, reverse, limit)| {
            let range = KeyRange {
                prefix,
                lower,
                upper,
            };
            Read::Range {
                table: TABLE,
                index,
                range,
                reverse,
                limit,
            }
        });
    prop_oneof![1 => ids().prop_map(|id| Read::Point { table: TABLE, key: key(id) }), 4 => range]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (prop::collection::vec(changes(), 0..5), 0..JITTER_END, forgets())
            .prop_map(|(changes, jitter, forget)| Step::Commit { changes, jitter, forget }),
        1 => any::<bool>().prop_map(|keep| Step::KeepPast { keep }),
        1 => (1..30u64).prop_map(|steps| Step::Wait { steps }),
        2 => (1..6usize).prop_map(|budget| Step::Collect { budget }),
        8 => (reads(), prop_oneof![0..6u64, 0..60u64]).prop_map(|(read, age)| Step::Read { read, age }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_store_answers_as_its_twin(steps in prop::collection::vec(steps(), 1..120)) {
        let mut run = Run::new();
        for (number, step) in steps.iter().enumerate() {
            run.step(number as u64, step)?;
        }
        // In the end all versions are due: one version of each row remains.
        run.now = run.now + Ticks(STEP * 1_000);
        run.store.collect(run.now, usize::MAX);
        run.store.check_invariants().map_err(TestCaseError::fail)?;
        for key in run.twin.items.keys() {
            let versions = run.store.item(TABLE, key).map_or(0, |item| item.versions().count());
            let live = run.twin.visible(key, run.twin.last).is_some();
            prop_assert_eq!(versions, usize::from(live));
        }
    }
}
