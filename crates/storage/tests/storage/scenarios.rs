//! One scenario a test: the guarantees that users of the store rely on.

use anabranch_storage::{
    ApplyError, Commit, CommitSequence, ItemTag, LoadError, SlotValues, Store, StoreSettings,
};
use anabranch_types::{
    Effect, Fetched, Key, KeyRange, NodeId, Patch, Read, SlotId, TableId, Ticks, Timestamp, Value,
};
use smallvec::{SmallVec, smallvec};

use crate::support::*;

fn loaded(ids: &[i32]) -> Store {
    let mut store = Store::new(&schema(), StoreSettings::default());
    for id in ids {
        let row = row(&schema(), *id, Some(0), Some(&format!("n{id}")), 10);
        store.load(TABLE, key(*id), row).unwrap();
    }
    store
}

fn at(time: u64) -> Timestamp {
    Timestamp::new(time, NodeId(0))
}

fn add(id: i32, amount: i64, outputs: Option<SlotId>) -> Effect {
    let arguments = Box::new([Value::Int(amount)]);
    Effect::Update {
        table: TABLE,
        key: key(id),
        program: ADD,
        arguments,
        outputs,
    }
}

fn insert(id: i32, name: &str) -> Effect {
    let row = row(&schema(), id, None, Some(name), 0);
    Effect::Insert {
        table: TABLE,
        key: key(id),
        row,
        patches: smallvec![],
    }
}

fn commit(
    store: &mut Store,
    now: Ticks,
    time: u64,
    effects: Vec<Effect>,
) -> Result<CommitSequence, ApplyError> {
    let commit = Commit {
        timestamp: at(time),
        effects,
    };
    store.apply(now, commit, &mut SlotValues::default(), &Programs(schema()))
}

fn total(store: &Store, id: i32, snapshot: Option<CommitSequence>) -> Option<i64> {
    let read = Read::Point {
        table: TABLE,
        key: key(id),
    };
    match store.fetch(&read, snapshot).unwrap() {
        Fetched::Point(row) => row?.get_int(&schema().table(TABLE).layout, TOTAL),
        Fetched::Range(_) | Fetched::Locked | Fetched::Recorded(_) => {
            unreachable!("a point is answered by a point")
        }
    }
}

#[test]
fn a_failing_effect_last_leaves_no_trace() {
    let mut store = loaded(&[1, 2]);
    let before = store.memory();
    let refused = Effect::Update {
        table: TABLE,
        key: key(2),
        program: REFUSE,
        arguments: Box::new([]),
        outputs: None,
    };
    let mut slots = SlotValues::default();
    let effects = vec![
        add(1, 5, Some(SlotId(0))),
        insert(3, "n3"),
        Effect::Delete {
            table: TABLE,
            key: key(2),
        },
        insert(2, "again"),
        refused,
    ];
    let commit = Commit {
        timestamp: at(1),
        effects,
    };
    let applied = store.apply(Ticks(1), commit, &mut slots, &Programs(schema()));
    assert!(matches!(applied, Err(ApplyError::Effect(ref error)) if error.code == "23514"));
    assert_eq!(
        (store.last(), store.memory(), slots.get(SlotId(0))),
        (CommitSequence(0), before, None)
    );
    assert_eq!(
        (total(&store, 1, None), total(&store, 3, None)),
        (Some(10), None)
    );
    store.check_invariants().unwrap();
}

#[test]
fn a_deferred_id_reaches_rows_and_keys() {
    let mut store = loaded(&[1]);
    let slot = SlotId(3);
    let patches = smallvec![Patch {
        slot,
        offset: 90,
        column: ID
    }];
    let inserted = Effect::Insert {
        table: TABLE,
        // Shard 1, id 0: the id is 101 when it is known.
        key: Key::from_bytes(&[0x80, 0, 0, 1, 0x80, 0, 0, 0]),
        row: row(&schema(), 1, None, None, 7)
            .with(&schema().table(TABLE).layout, &[(ID, Value::Int(0))])
            .unwrap(),
        patches,
    };
    let effects = vec![add(1, 1, Some(slot)), inserted];
    let checked = store.check(at(1), &effects, &Programs(schema()));
    assert!(checked.is_ok());
    let mut slots = SlotValues::default();
    let commit = Commit {
        timestamp: at(1),
        effects,
    };
    store
        .apply(Ticks(1), commit, &mut slots, &Programs(schema()))
        .unwrap();
    assert_eq!(slots.get(slot), Some(&Value::Int(11)));
    assert_eq!(total(&store, 101, None), Some(7));
}

#[test]
fn a_missing_row_matters_only_where_its_result_is_needed() {
    let mut store = loaded(&[]);
    assert_eq!(
        commit(&mut store, Ticks(1), 1, vec![add(1, 1, None)]),
        Ok(CommitSequence(1))
    );
    let needed = commit(&mut store, Ticks(1), 2, vec![add(1, 1, Some(SlotId(0)))]);
    assert!(matches!(needed, Err(ApplyError::MissingRow { .. })));
}

#[test]
fn duplicates_are_named() {
    let mut store = loaded(&[1, 2]);
    let message = |applied: Result<CommitSequence, ApplyError>| {
        let error = applied.unwrap_err().into_effect_error().unwrap();
        let detail = error.detail().expect("it names the key").to_owned();
        (error.code, error.constraint.unwrap(), detail)
    };
    let primary = message(commit(&mut store, Ticks(1), 1, vec![insert(1, "x")]));
    assert_eq!((primary.0, &*primary.1), ("23505", "item_pkey"));
    assert_eq!(primary.2, "Key (shard, id)=(1, 1) already exists.");
    let unique = message(commit(&mut store, Ticks(1), 1, vec![insert(3, "n2")]));
    assert_eq!(&*unique.1, "item_name_key");
    assert_eq!(unique.2, "Key (name)=(n2) already exists.");
    let within = commit(
        &mut store,
        Ticks(1),
        1,
        vec![insert(3, "y"), insert(4, "y")],
    );
    assert_eq!(&*message(within).1, "item_name_key");
    let row = row(&schema(), 1, None, None, 0);
    assert!(matches!(
        store.load(TABLE, key(1), row),
        Err(LoadError::Duplicate { .. })
    ));
}

/// RAMP trap 1: a reader that paused for longer than the window is refused rather than given a mixture.
#[test]
fn a_reader_paused_beyond_the_window_is_refused() {
    let mut store = loaded(&[1, 2]);
    let window = StoreSettings::default().window;
    let snapshot = commit(
        &mut store,
        Ticks(1),
        1,
        vec![add(1, 1, None), add(2, 1, None)],
    )
    .unwrap();
    commit(&mut store, Ticks(2), 2, vec![add(1, 1, None)]).unwrap();
    store.collect(Ticks(2) + window, 100);
    assert_eq!(
        total(&store, 1, Some(snapshot)),
        Some(11),
        "within the window it is readable"
    );
    store.collect(window + window, 100);
    let read = Read::Point {
        table: TABLE,
        key: key(2),
    };
    let refused = store.fetch(&read, Some(snapshot)).unwrap_err();
    assert_eq!((refused.snapshot, refused.floor), (snapshot, store.last()));
    assert_eq!(total(&store, 1, None), Some(12));
}

/// One table's version history can be retained without that of others: a reader in an older snapshot finds the
/// rows that it saw there, and is refused at other tables.
#[test]
fn the_version_history_of_one_table_is_retained_alone() {
    let mut store = loaded(&[1]);
    let snapshot = store.last();
    let read = Read::Point {
        table: TABLE,
        key: key(1),
    };
    store.retain_history(TABLE, true);
    for time in 2..20 {
        store.discard_history(Timestamp::MAX);
        commit(&mut store, Ticks(time), time, vec![add(1, 1, None)]).unwrap();
        // Only time makes it due: the collector does not examine it before.
        assert_eq!(store.collect(Ticks(time), 100), 0);
    }
    assert_eq!(total(&store, 1, Some(snapshot)), Some(10));
    store.retain_history(TABLE, false);
    store.discard_history(Timestamp::MAX);
    commit(&mut store, Ticks(20), 20, vec![add(1, 1, None)]).unwrap();
    assert!(store.fetch(&read, Some(snapshot)).is_err());
    store.check_invariants().unwrap();
}

/// `touched` lists the answers that may depend on a later commit, and those whose row one may have deleted.
#[test]
fn answers_that_a_later_commit_may_have_touched_are_named() {
    let mut store = loaded(&[1, 2]);
    commit(&mut store, Ticks(1), 1, vec![add(1, 1, None)]).unwrap();
    let since = store.last();
    commit(&mut store, Ticks(2), 2, vec![add(2, 1, None)]).unwrap();
    let point = |id| Read::Point {
        table: TABLE,
        key: key(id),
    };
    let range = Read::Range {
        table: TABLE,
        index: None,
        range: KeyRange::prefix_of(Key::empty()),
        reverse: false,
        limit: None,
    };
    let reads = [point(1), point(2), point(3), range];
    // A recording store lists the same.
    for recorded in [false, true] {
        if recorded {
            store.record();
        }
        let touched = |since| {
            let (mut fetched, mut touched) = (Vec::new(), SmallVec::new());
            store
                .fetch_all(reads.iter(), None, since, &mut fetched, &mut touched)
                .unwrap();
            assert_eq!(fetched.len(), 4);
            touched.into_vec()
        };
        assert_eq!(touched(None), Vec::<usize>::new());
        assert_eq!(touched(Some(since)), [0, 1, 2, 3]);
        assert_eq!(touched(Some(store.last())), [1, 2, 3]);
    }
}

/// Late effects: registers keep the highest timestamp, counters take every effect.
#[test]
fn a_late_assignment_loses_and_a_late_increment_counts() {
    let mut store = loaded(&[1]);
    let assign = |group: i64| Effect::Update {
        table: TABLE,
        key: key(1),
        program: ASSIGN,
        arguments: Box::new([Value::Int(group), Value::Null]),
        outputs: None,
    };
    commit(&mut store, Ticks(1), 50, vec![assign(5), add(1, 1, None)]).unwrap();
    commit(&mut store, Ticks(2), 30, vec![assign(3), add(1, 1, None)]).unwrap();
    // The version at 30, installed after the one at 50, does not hide it.
    commit(&mut store, Ticks(3), 40, vec![assign(4), add(1, 1, None)]).unwrap();
    let row = store
        .item(TABLE, &key(1))
        .unwrap()
        .latest()
        .row()
        .unwrap()
        .clone();
    assert_eq!(row.get_int(&schema().table(TABLE).layout, GROUP), Some(5));
    assert_eq!(total(&store, 1, None), Some(13));
    // The row is deleted at 60; a late update at 55 finds no row and restores none.
    commit(
        &mut store,
        Ticks(4),
        60,
        vec![Effect::Delete {
            table: TABLE,
            key: key(1),
        }],
    )
    .unwrap();
    commit(&mut store, Ticks(5), 55, vec![insert(1, "late")]).unwrap();
    assert_eq!(total(&store, 1, None), None);
    assert!(
        store
            .item(TABLE, &key(1))
            .unwrap()
            .versions()
            .any(|version| version.timestamp() == at(55))
    );
}

/// An assignment of a counter supersedes all earlier increments, also if other columns were written since.
#[test]
fn a_late_increment_is_superseded_by_a_later_assignment() {
    let update = |program, arguments: [Value; 2]| Effect::Update {
        table: TABLE,
        key: key(1),
        program,
        arguments: Box::new(arguments),
        outputs: None,
    };
    let mut store = loaded(&[1]);
    let reset = update(RESET, [Value::Int(7), Value::Null]);
    commit(&mut store, Ticks(1), 50, vec![reset]).unwrap();
    let assign = update(ASSIGN, [Value::Int(5), Value::Null]);
    commit(&mut store, Ticks(2), 60, vec![assign]).unwrap();
    commit(&mut store, Ticks(3), 40, vec![add(1, 1, None)]).unwrap();
    assert_eq!(total(&store, 1, None), Some(7));
    commit(&mut store, Ticks(4), 55, vec![add(1, 1, None)]).unwrap();
    assert_eq!(total(&store, 1, None), Some(8));
}

/// Staged changes may be installed while their items are unchanged, wherever these are in the tree.
#[test]
fn what_was_staged_is_current_until_its_items_change() {
    let mut store = loaded(&[2, 4]);
    let since = store.last();
    let prestage = |store: &Store| {
        let prestaged = store.prestage(at(50), &[add(4, 1, None)], &Programs(schema()));
        prestaged.unwrap().0
    };
    let staged = prestage(&store);
    commit(
        &mut store,
        Ticks(1),
        10,
        vec![insert(0, "a"), insert(1, "b")],
    )
    .unwrap();
    assert!(store.is_current(&staged, since, Some(at(50))));
    let of = |item: Option<&anabranch_storage::Item>| item.unwrap().latest().timestamp();
    assert_eq!(of(store.item_of(&staged.changes()[0])), Timestamp::ZERO);
    commit(&mut store, Ticks(2), 20, vec![add(4, 1, None)]).unwrap();
    assert!(!store.is_current(&staged, since, Some(at(50))));
    let staged = prestage(&store);
    assert!(store.is_current(&staged, store.last(), Some(at(50))));
}

/// Two nodes may draw the same time: then the higher node wins, in either order.
#[test]
fn two_writers_of_one_moment_end_alike_in_either_order() {
    let assign = |group: i64| Effect::Update {
        table: TABLE,
        key: key(1),
        program: ASSIGN,
        arguments: Box::new([Value::Int(group), Value::Null]),
        outputs: None,
    };
    for order in [[0, 1], [1, 0]] {
        let mut store = loaded(&[1]);
        for node in order {
            let commit = Commit {
                timestamp: Timestamp::new(50, NodeId(node)),
                effects: vec![assign(i64::from(node) + 5)],
            };
            let slots = &mut SlotValues::default();
            let applied = store.apply(Ticks(1), commit, slots, &Programs(schema()));
            applied.unwrap();
        }
        let item = store.item(TABLE, &key(1)).unwrap();
        let row = item.latest().row().unwrap();
        let schema = schema();
        let layout = &schema.table(TABLE).layout;
        assert_eq!(row.get_int(layout, GROUP), Some(6), "{order:?}");
    }
}

#[test]
fn a_long_chain_is_dropped_without_recursion() {
    let mut store = loaded(&[1]);
    for time in 1..300_000 {
        commit(&mut store, Ticks(1), time, vec![add(1, 1, None)]).unwrap();
    }
    store.collect(Ticks::from_millis(10_000), 10);
    assert_eq!(store.item(TABLE, &key(1)).unwrap().versions().count(), 1);
}

#[test]
fn tags_tell_items_apart() {
    let tag = ItemTag::of(TABLE, &key(1));
    assert_eq!((tag.table(), tag.is_unknown()), (TABLE, false));
    assert_ne!(tag, ItemTag::of(TABLE, &key(3)));
    assert_ne!(tag, ItemTag::of(TableId(1), &key(1)));
    assert!(ItemTag::unknown(TableId(7)).is_unknown());
    assert_eq!(ItemTag::unknown(TableId(7)).table(), TableId(7));
    assert_eq!(ItemTag::from_bits(tag.to_bits()), tag);
}

/// A transaction with many changes finds its own by an index: it does what the same effects do in a transaction with few.
#[test]
fn many_changes_are_found_as_few_are() {
    let assign = |id: i32, name: Option<&str>| Effect::Update {
        table: TABLE,
        key: key(id),
        program: ASSIGN,
        arguments: Box::new([
            Value::Null,
            name.map_or(Value::Null, |name| Value::Text(name.into())),
        ]),
        outputs: None,
    };
    let delete = |id: i32| Effect::Delete {
        table: TABLE,
        key: key(id),
    };
    // Each list of effects, and whether it is refused.
    let lists: Vec<(Vec<Effect>, bool)> = vec![
        (vec![insert(1000, "a"), insert(1000, "b")], true),
        (vec![insert(1000, "a"), insert(1001, "a")], true),
        (
            vec![insert(1000, "a"), delete(1000), insert(1001, "a")],
            false,
        ),
        (
            vec![
                insert(1000, "a"),
                assign(1000, Some("b")),
                insert(1001, "a"),
            ],
            false,
        ),
        (
            vec![
                insert(1000, "a"),
                assign(1000, Some("b")),
                insert(1001, "b"),
            ],
            true,
        ),
        (
            vec![insert(1000, "a"), assign(1000, None), insert(1001, "a")],
            false,
        ),
        (
            vec![
                insert(1000, "a"),
                assign(1000, Some("b")),
                assign(1000, Some("a")),
                insert(1001, "a"),
            ],
            true,
        ),
        (
            vec![
                insert(1000, "a"),
                delete(1000),
                insert(1000, "c"),
                insert(1001, "c"),
            ],
            true,
        ),
        (vec![insert(1000, "n1")], true),
        (vec![delete(1), insert(1000, "n1")], false),
        (
            vec![
                assign(1, Some("x")),
                insert(1000, "n1"),
                assign(1000, Some("n2")),
            ],
            true,
        ),
        (vec![assign(1, Some("n2")), assign(2, Some("n1"))], true),
    ];
    // As many as make it large at once, midway, or never.
    for others in [0, 61, 62, 63, 64, 300] {
        for (list, is_refused) in &lists {
            let mut store = loaded(&[1, 2]);
            let padding = (0..others).map(|id| insert(10 + id, &format!("other{id}")));
            let effects: Vec<Effect> = padding.chain(list.iter().cloned()).collect();
            let committed = commit(&mut store, Ticks(1), 10, effects);
            assert_eq!(
                committed.is_err(),
                *is_refused,
                "{others} others and {list:?}: {committed:?}"
            );
        }
        // The first ones are found, too.
        let mut store = loaded(&[]);
        let padding = (0..others).map(|id| insert(10 + id, &format!("other{id}")));
        let effects: Vec<Effect> = padding.chain([insert(1000, "other0")]).collect();
        let committed = commit(&mut store, Ticks(1), 10, effects);
        assert_eq!(
            committed.is_err(),
            others > 0,
            "{others} others: {committed:?}"
        );
    }
}
