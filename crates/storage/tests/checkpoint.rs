//! A store is rebuilt from its log and its checkpoints.

#[allow(dead_code, reason = "each test binary uses a part")]
mod support;

use anabranch_storage::{CommitSequence, LoggedChange, SlotValues, Store, StoreSettings};
use anabranch_types::{
    Effect, Fetched, IndexId, Key, KeyRange, NodeId, Read, TableId, Ticks, Timestamp, Value,
};
use proptest::prelude::*;
use smallvec::smallvec;
use support::*;

#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    id: i32,
    number: i64,
    late: u64,
    forget: bool,
}

fn step() -> impl Strategy<Value = Step> {
    (0u8..4, 0i32..8, 0i64..5, 0u64..4, any::<bool>()).prop_map(
        |(kind, id, number, late, forget)| Step {
            kind,
            id,
            number,
            late,
            forget,
        },
    )
}

fn effect(step: &Step) -> Effect {
    let (table, key) = (TABLE, key(step.id));
    match step.kind {
        0 => Effect::Insert {
            table,
            key,
            row: row(&schema(), step.id, Some(1), None, step.number),
            patches: smallvec![],
        },
        1 => Effect::Delete { table, key },
        2 => Effect::Update {
            table,
            key,
            program: ADD,
            arguments: Box::new([Value::Int(step.number)]),
            outputs: None,
        },
        _ => Effect::Update {
            table,
            key,
            program: ASSIGN,
            arguments: Box::new([Value::Int(step.number), Value::Null]),
            outputs: None,
        },
    }
}

/// All rows, by the primary key and by the index on `grp`.
fn rows(store: &Store) -> Vec<Fetched> {
    [None, Some(BY_GROUP)]
        .map(|index| everything(store, index))
        .into()
}

fn everything(store: &Store, index: Option<IndexId>) -> Fetched {
    let range = KeyRange::prefix_of(Key::empty());
    let read = Read::Range {
        table: TABLE,
        index,
        range,
        reverse: false,
        limit: None,
    };
    store.fetch(&read, None).expect("the newest rows are kept")
}

fn imported(store: &Store) -> Store {
    let mut other = Store::new(&schema(), StoreSettings::default());
    for table in (0..store.tables()).map(TableId) {
        let mut after: Option<Key> = None;
        loop {
            let items = store.export(table, after.as_ref(), 3);
            let Some(last) = items.last() else { break };
            after = Some(last.key.clone());
            other.import(table, items);
        }
    }
    other.finish_import(store.last());
    other
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_store_is_rebuilt_from_its_checkpoint_and_its_log(
        steps in prop::collection::vec(step(), 1..40),
        checkpoint_at in 0usize..40,
    ) {
        let mut store = Store::new(&schema(), StoreSettings::default());
        let mut back = imported(&store);
        let mut logged: Vec<(Timestamp, Vec<LoggedChange>)> = Vec::new();
        for (at, step) in (0u64..).zip(&steps) {
            if at as usize == checkpoint_at {
                back = imported(&store);
                logged.clear();
                prop_assert_eq!(format!("{:?}", rows(&back)), format!("{:?}", rows(&store)));
            }
            let now = Ticks::from_millis(at * 100);
            let timestamp = Timestamp::new(100 + at * 10 - step.late * 12, NodeId(0));
            let mut slots = SlotValues::default();
            let staged = store.stage(timestamp, vec![effect(step)], &mut slots, &Programs(schema()));
            let Ok(staged) = staged else { continue };
            logged.push((timestamp, staged.logged_changes()));
            if step.forget {
                store.hold_horizon(Some(CommitSequence::LOADED));
                store.discard_history(Timestamp::ZERO);
            }
            store.install(now, timestamp, staged);
            store.collect(now, 2);
        }
        for (timestamp, images) in logged {
            back.redo(timestamp, images, Timestamp::ZERO);
        }
        // The horizon is not held, so only the newest versions are kept, including those of the checkpoint.
        back.drop_superseded();
        prop_assert_eq!(back.versions(), back.rows(TABLE));
        back.invalidate_snapshots();
        prop_assert_eq!(back.last(), store.last());
        prop_assert_eq!(format!("{:?}", rows(&back)), format!("{:?}", rows(&store)));
        prop_assert_eq!(back.rows(TABLE), store.rows(TABLE));
        prop_assert_eq!(back.check_invariants(), Ok(()));
    }
}
