//! A store is rebuilt from its log and its checkpoints.

use anabranch_storage::{
    Commit, CommitSequence, LoggedChange, SlotValues, SnapshotExport, Store, StoreSettings,
};
use anabranch_types::{
    Effect, Fetched, IndexId, Key, KeyRange, NodeId, Read, TableId, Ticks, Timestamp, Value,
};
use proptest::prelude::*;
use smallvec::smallvec;

use crate::support::*;

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

/// The slices of an export of some bytes each, imported.
fn finish_export(store: &Store, mut export: SnapshotExport, bytes: usize, other: &mut Store) {
    while let Some((table, items)) = store.export_slice(&mut export, bytes) {
        other.import(table, items);
    }
    other.finish_import(export.snapshot());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Commits and collections come between the slices of an export: it is the store at its begin.
    #[test]
    fn an_export_in_slices_is_the_store_at_its_begin(
        before in prop::collection::vec(step(), 0..30),
        meanwhile in prop::collection::vec(step(), 0..30),
        bytes in 1usize..300,
        keeps_writers in any::<bool>(),
    ) {
        let new = || {
            let mut store = Store::new(&schema(), StoreSettings { window: Ticks::from_millis(150) });
            if keeps_writers {
                store.keep_writers();
            }
            store
        };
        let mut store = new();
        let mut at = 0;
        let mut commit = |store: &mut Store, step: &Step| {
            at += 1;
            let now = Ticks::from_millis(at * 100);
            let timestamp = Timestamp::new(100 + at * 10 - step.late * 12, NodeId(0));
            let mut slots = SlotValues::default();
            let staged = store.stage(timestamp, vec![effect(step)], &mut slots, &Programs(schema()));
            if let Ok(staged) = staged {
                // Superseded rows are replaced in place, or dropped at once.
                if step.forget {
                    store.discard_history(Timestamp::MAX);
                }
                store.install(now, timestamp, staged);
            }
            store.collect(now, 8);
        };
        for step in &before {
            commit(&mut store, step);
        }
        let mut export = store.begin_export();
        let (expected, last) = (format!("{:?}", rows(&store)), store.last());
        let mut back = new();
        for step in &meanwhile {
            if let Some((table, items)) = store.export_slice(&mut export, bytes) {
                back.import(table, items);
            }
            commit(&mut store, step);
        }
        finish_export(&store, export.clone(), bytes, &mut back);
        prop_assert_eq!(format!("{:?}", rows(&back)), expected);
        prop_assert_eq!((back.last(), back.check_invariants()), (last, Ok(())));
        // Afterwards nothing is kept for the export.
        store.end_export(export);
        store.drop_superseded();
        prop_assert_eq!(store.versions(), store.rows(TABLE));
        prop_assert_eq!(store.check_invariants(), Ok(()));
    }
}

/// The work of a slice is bounded, whether the snapshot sees the items or not.
#[test]
fn a_slice_is_bounded() {
    let mut store = Store::new(&schema(), StoreSettings::default());
    let insert = |store: &mut Store, at: u64, ids: std::ops::Range<i32>| {
        let effects = ids.map(|id| Effect::Insert {
            table: TABLE,
            key: key(id),
            row: row(&schema(), id, None, None, 0),
            patches: smallvec![],
        });
        let commit = Commit {
            timestamp: Timestamp::new(at, NodeId(0)),
            effects: effects.collect(),
        };
        let applied = store.apply(
            Ticks(at),
            commit,
            &mut SlotValues::default(),
            &Programs(schema()),
        );
        applied.expect("the rows are new");
    };
    insert(&mut store, 1, 0..500);
    let mut export = store.begin_export();
    insert(&mut store, 2, 500..2_000);
    let (mut slices, mut exported) = (0, 0);
    while let Some((_, items)) = store.export_slice(&mut export, 4_000) {
        assert!(items.len() <= 84, "{} items", items.len());
        exported += items.len();
        slices += 1;
    }
    assert_eq!(exported, 500);
    // 1,500 items that the snapshot does not see, of 48 bytes each, take 18 slices of their own.
    assert!((20..40).contains(&slices), "{slices}");
}
