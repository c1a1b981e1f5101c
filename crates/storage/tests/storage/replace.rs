//! All rows of a store replaced by those of another one's state.

use anabranch_storage::{
    CheckpointItem, Commit, CommitSequence, InstalledKind, SlotValues, SnapshotExport, StateOrigin,
    Store, StoreSettings,
};
use anabranch_types::{Effect, Fetched, Key, KeyRange, NodeId, Read, Ticks, Timestamp, Value};
use smallvec::smallvec;

use crate::support::*;

fn new() -> Store {
    Store::new(&schema(), StoreSettings::default())
}

fn install(store: &mut Store, at: u64, effects: Vec<Effect>) {
    let timestamp = Timestamp::new(at, NodeId(1));
    let (mut slots, now) = (SlotValues::default(), Ticks::from_millis(at));
    let commit = Commit { timestamp, effects };
    let applied = store.apply(now, commit, &mut slots, &Programs(schema()));
    applied.expect("the effects fit the rows");
}

fn insert(id: i32, number: i64) -> Effect {
    Effect::Insert {
        table: TABLE,
        key: key(id),
        row: row(&schema(), id, Some(1), None, number),
        patches: smallvec![],
    }
}

fn add(id: i32, number: i64) -> Effect {
    Effect::Update {
        table: TABLE,
        key: key(id),
        program: ADD,
        arguments: Box::new([Value::Int(number)]),
        outputs: None,
    }
}

fn delete(id: i32) -> Effect {
    Effect::Delete {
        table: TABLE,
        key: key(id),
    }
}

fn everything() -> Read {
    Read::Range {
        table: TABLE,
        index: Some(BY_GROUP),
        range: KeyRange::prefix_of(Key::empty()),
        reverse: false,
        limit: None,
    }
}

/// The newest rows through the index, and their writers.
fn rows(store: &Store) -> Vec<(Key, Timestamp)> {
    let mut all = Vec::new();
    let found = store.read(&everything(), None, &mut |key, _, version| {
        all.extend(version.map(|version| (key.clone(), version.timestamp())));
    });
    found.expect("the newest rows are kept");
    all
}

/// A store beside `own`, with the rows of a state of `sender`.
fn collected(own: &Store, sender: &mut Store) -> (Store, StateOrigin) {
    let mut export = sender.begin_export();
    let origin = StateOrigin {
        node: NodeId(1),
        sequence: export.snapshot(),
    };
    let mut beside = own.emptied();
    while let Some((table, items)) = sender.export_slice(&mut export, 1) {
        let items = items.into_iter().filter_map(CheckpointItem::into_loaded);
        beside.import(table, items.collect());
    }
    sender.end_export(export);
    (beside, origin)
}

/// A store with rows 1 and 2, and a sender's with other rows 2 and 3: row 1 is gone there, and 2 has changed.
fn two() -> (Store, Store) {
    let mut own = new();
    install(&mut own, 1, vec![insert(1, 10), insert(2, 20)]);
    let mut sender = own.clone();
    for at in 2..5 {
        install(&mut sender, at, vec![add(2, 1)]);
    }
    install(&mut sender, 5, vec![delete(1), insert(3, 30)]);
    (own, sender)
}

#[test]
fn rows_are_those_of_the_state_by_the_same_writers() {
    let (mut own, mut sender) = two();
    let old = own.last();
    let (beside, origin) = collected(&own, &mut sender);
    let at = own.replace(Ticks::from_millis(9), beside, origin);
    assert_eq!((at, own.last()), (CommitSequence(old.0 + 1), at));
    assert_eq!(rows(&own), rows(&sender));
    assert_eq!(own.versions(), own.rows(TABLE));
    assert_eq!(own.check_invariants(), Ok(()));
    assert!(
        own.fetch(&everything(), Some(old)).is_err(),
        "it is refused"
    );
    assert!(own.fetch(&everything(), Some(at)).is_ok());
    // Changes and deletions of such rows are collected as those of others.
    install(&mut own, 10, vec![add(2, 1), delete(3)]);
    own.drop_superseded();
    assert_eq!((own.versions(), own.rows(TABLE)), (1, 1));
    assert_eq!(own.check_invariants(), Ok(()));
}

#[test]
fn an_export_goes_on_with_the_rows_of_its_begin() {
    let slices = |store: &Store, mut export: SnapshotExport| {
        let mut back = new();
        while let Some((table, items)) = store.export_slice(&mut export, 1) {
            back.import(table, items);
        }
        back.finish_import(export.snapshot());
        format!("{:?}", rows(&back))
    };
    let (mut own, mut sender) = two();
    let before = format!("{:?}", rows(&own));
    let first = own.begin_export();
    let (beside, origin) = collected(&own, &mut sender);
    own.replace(Ticks(0), beside, origin);
    let between = format!("{:?}", rows(&own));
    let second = own.begin_export();
    install(&mut sender, 6, vec![delete(2)]);
    let (beside, origin) = collected(&own, &mut sender);
    own.replace(Ticks(0), beside, origin);
    assert_eq!(slices(&own, second.clone()), between);
    own.end_export(second);
    assert_eq!(slices(&own, first.clone()), before);
    own.end_export(first);
    assert_eq!(rows(&own), rows(&sender));
    assert_eq!(own.check_invariants(), Ok(()));
}

#[test]
fn a_replacement_is_recorded_with_what_it_changes() {
    let (mut own, mut sender) = two();
    own.record();
    let (beside, origin) = collected(&own, &mut sender);
    let at = own.replace(Ticks(0), beside, origin);
    install(&mut own, 10, vec![add(2, 1)]);
    let [replaced, installed] = own.installed() else {
        panic!("{:?}", own.installed());
    };
    assert_eq!((replaced.sequence, replaced.origin), (at, Some(origin)));
    assert_eq!(installed.origin, None);
    let mut changes: Vec<(Key, InstalledKind)> = (replaced.changes.iter())
        .map(|change| (change.key.clone(), change.kind))
        .collect();
    changes.sort_by(|one, two| one.0.cmp(&two.0));
    let expected = [
        (key(2), InstalledKind::Update),
        (key(1), InstalledKind::Delete),
        (key(3), InstalledKind::Insert),
    ];
    assert_eq!(changes, expected);
    let read = own.fetch(&everything(), None).expect("the newest rows");
    assert!(matches!(read.answer(), Fetched::Range(found) if found.len() == 2));
}
