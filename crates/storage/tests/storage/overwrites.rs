//! A change that overwrites a whole row except its key does not depend on the row before.

use std::sync::Arc;

use anabranch_storage::{Commit, SlotValues, Store, StoreSettings};
use anabranch_types::{
    Applied, ColumnIndex, ColumnSchema, ColumnSet, DataType, Effect, EffectError, Key, Merging,
    NodeId, ProgramId, Row, RowLayout, RowPrograms, Schema, TableId, TableSchema, Ticks, Timestamp,
    Value,
};
use smallvec::smallvec;

const PAIR: TableId = TableId(0);

/// Sets both columns, or the left one.
const BOTH: ProgramId = ProgramId(0);
const LEFT: ProgramId = ProgramId(1);

/// `pair (id bigint primary key, left bigint, right bigint)`.
fn pair() -> Schema {
    let column = |name: &str| ColumnSchema {
        name: name.into(),
        data_type: DataType::Int8,
        nullable: false,
        is_hidden: false,
    };
    let columns = vec![column("id"), column("left"), column("right")];
    Schema {
        tables: vec![Arc::new(TableSchema {
            id: PAIR,
            name: "pair".into(),
            layout: RowLayout::new(columns.iter().map(|c| (&c.data_type, c.nullable))),
            columns,
            primary_key: vec![ColumnIndex(0)],
            indexes: Vec::new(),
        })],
    }
}

struct PairPrograms;

impl RowPrograms for PairPrograms {
    fn apply(
        &self,
        program: ProgramId,
        row: &Row,
        arguments: &[Value],
        skip: ColumnSet,
    ) -> Result<Applied, EffectError> {
        let columns = [ColumnIndex(1), ColumnIndex(2)].into_iter();
        let assigned = self.assigned(program);
        let changes: Vec<_> = columns
            .filter(|column| assigned.contains(*column) && !skip.contains(*column))
            .map(|column| (column, arguments[0].clone()))
            .collect();
        Ok(Applied {
            row: row.with(&pair().table(PAIR).layout, &changes).unwrap(),
            outputs: smallvec![],
        })
    }

    fn assigned(&self, program: ProgramId) -> ColumnSet {
        let left = ColumnSet::EMPTY.with(ColumnIndex(1));
        match program {
            LEFT => left,
            _ => left.with(ColumnIndex(2)),
        }
    }

    fn replaces(&self, program: ProgramId) -> Option<ColumnSet> {
        Some(self.assigned(program))
    }

    fn may_violate(&self, _: ProgramId) -> bool {
        false
    }

    fn merging(&self, _: ProgramId) -> Option<Merging> {
        None
    }

    fn are_compatible(&self, _: &Row, _: &[(ProgramId, &[Value])]) -> bool {
        true
    }
}

fn at(time: u64) -> Timestamp {
    Timestamp::new(time, NodeId(0))
}

fn key() -> Key {
    let mut key = Key::empty();
    key.push_value(&DataType::Int8, false, &Value::Int(1));
    key
}

fn update(program: ProgramId, value: i64) -> Effect {
    Effect::Update {
        table: PAIR,
        key: key(),
        program,
        arguments: Box::new([Value::Int(value)]),
        outputs: None,
    }
}

fn apply(store: &mut Store, time: u64, effect: Effect) {
    let commit = Commit {
        timestamp: at(time),
        effects: vec![effect],
    };
    let slots = &mut SlotValues::default();
    store
        .apply(Ticks(time), commit, slots, &PairPrograms)
        .unwrap();
}

/// An overwrite is current after other writes of the row, and in no other case.
#[test]
fn an_overwrite_is_current_whatever_came_before() {
    let delete = Effect::Delete {
        table: PAIR,
        key: key(),
    };
    for (program, before, is_current) in [
        (BOTH, vec![(20, update(BOTH, 1))], true),
        (BOTH, vec![(20, update(LEFT, 1))], true),
        (LEFT, vec![(20, update(BOTH, 1))], false),
        // Its timestamp is above the one of this installation.
        (BOTH, vec![(60, update(LEFT, 1))], false),
        (
            BOTH,
            vec![(60, update(BOTH, 1)), (20, update(LEFT, 2))],
            false,
        ),
        // The row is deleted.
        (BOTH, vec![(20, delete)], false),
    ] {
        let mut store = Store::new(&pair(), StoreSettings::default());
        let row = [1, 10, 20].map(Value::Int);
        let row = pair().table(PAIR).layout.encode(&row).unwrap();
        store.load(PAIR, key(), row).unwrap();
        let since = store.last();
        let effects = [update(program, 5)];
        let (staged, _) = store.prestage(at(50), &effects, &PairPrograms).unwrap();
        for (time, effect) in before.clone() {
            apply(&mut store, time, effect);
        }
        let found = store.is_current(&staged, since, Some(at(50)));
        assert_eq!(found, is_current, "{before:?}");
        assert!(!store.is_current(&staged, since, None));
        if is_current {
            let mut other = store.clone();
            store.install(Ticks(50), at(50), staged);
            apply(&mut other, 50, update(program, 5));
            let row = |store: &Store| store.item(PAIR, &key()).unwrap().latest().row().cloned();
            assert_eq!(row(&store), row(&other));
        }
    }
}

/// If no late writer is possible for an item, its superseded version is dropped at once; so is a version whose
/// columns its successor assigns. Otherwise the version that decides is kept, and a late write loses to it.
#[test]
fn what_decides_nothing_is_replaced() {
    for (first, late_writes_possible, kept) in [(LEFT, true, 1), (BOTH, true, 2), (BOTH, false, 1)]
    {
        let mut store = Store::new(&pair(), StoreSettings::default());
        let row = pair()
            .table(PAIR)
            .layout
            .encode(&[1, 10, 20].map(Value::Int));
        store.load(PAIR, key(), row.unwrap()).unwrap();
        for (time, program) in [(35, first), (40, first), (50, LEFT)] {
            let prestaged = store.prestage(at(time), &[update(program, 7)], &PairPrograms);
            let (mut staged, _) = prestaged.unwrap();
            staged.expect_late_writes(|_| late_writes_possible);
            store.discard_history(at(20));
            store.install(Ticks(time), at(time), staged);
        }
        let versions = store.item(PAIR, &key()).unwrap().versions().count();
        assert_eq!(versions, kept, "{first:?}, {late_writes_possible}");
        if !late_writes_possible {
            continue;
        }
        apply(&mut store, 30, update(BOTH, 3));
        let latest = store.item(PAIR, &key()).unwrap().latest();
        let row = latest.row().unwrap();
        let value = |column| row.get_int(&pair().table(PAIR).layout, ColumnIndex(column));
        let right = if first == BOTH { 7 } else { 3 };
        assert_eq!((value(1), value(2)), (Some(7), Some(right)));
    }
}
