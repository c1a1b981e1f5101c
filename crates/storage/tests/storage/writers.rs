//! Stores that keep the last writer of each register end with the same rows in any order.

use anabranch_storage::{Commit, SlotValues, Store, StoreSettings};
use anabranch_types::{
    Effect, Fetched, Key, KeyRange, NodeId, Read, SplitMix64, TableId, Ticks, Timestamp, Value,
};

use crate::support::*;

const WINDOW: Ticks = Ticks::from_millis(1);
const ROWS: i32 = 3;

fn empty() -> Store {
    let mut store = Store::new(&schema(), StoreSettings { window: WINDOW });
    store.keep_writers();
    store
}

fn loaded() -> Store {
    let mut store = empty();
    for id in 0..ROWS {
        let row = row(&schema(), id, None, None, 0);
        store
            .load(TABLE, key(id), row)
            .expect("each is loaded once");
    }
    store
}

fn rows(store: &Store) -> Fetched {
    let read = Read::Range {
        table: TABLE,
        index: None,
        range: KeyRange::prefix_of(Key::empty()),
        reverse: false,
        limit: None,
    };
    store.fetch(&read, None).expect("the newest rows are kept")
}

/// The store restored from a checkpoint.
fn back(store: &Store) -> Store {
    let mut other = empty();
    for table in (0..store.tables()).map(TableId) {
        other.import(table, store.export(table, None, usize::MAX));
    }
    other.finish_import(store.last());
    other
}

/// Assigns in this order, each long after the one before, so that all superseded versions are dropped.
fn run(writes: &[(u64, i32)], checkpoints: bool) -> Store {
    let (mut store, programs) = (loaded(), Programs(schema()));
    for (step, (stamp, id)) in (1..).zip(writes) {
        let now = Ticks(step * WINDOW.0 * 4);
        store.collect(now, 100);
        let assign = Effect::Update {
            table: TABLE,
            key: key(*id),
            program: ASSIGN,
            arguments: Box::new([Value::Int(*stamp as i64), Value::Null]),
            outputs: None,
        };
        let commit = Commit {
            timestamp: Timestamp::new(*stamp, NodeId(0)),
            effects: vec![assign],
        };
        // No reader needs old versions.
        store.discard_history(Timestamp::MAX);
        let applied = store.apply(now, commit, &mut SlotValues::default(), &programs);
        applied.expect("an assignment fits");
        if checkpoints && step % 3 == 0 {
            store = back(&store);
        }
    }
    store
}

#[test]
fn the_same_assignments_give_the_same_rows_in_any_order() {
    let mut random = SplitMix64::stream(7, "orders", 0);
    for _ in 0..300 {
        let mut writes: Vec<(u64, i32)> = (1..=12)
            .map(|stamp| (stamp, random.below(ROWS as u64) as i32))
            .collect();
        let in_order = format!("{:?}", rows(&run(&writes, false)));
        for at in (1..writes.len()).rev() {
            writes.swap(at, random.below(at as u64 + 1) as usize);
        }
        for checkpoints in [false, true] {
            let shuffled = format!("{:?}", rows(&run(&writes, checkpoints)));
            assert_eq!(shuffled, in_order, "{writes:?}, checkpoints: {checkpoints}");
        }
    }
}
