//! Updates as after-images of changed columns.

use anabranch_protocol::belt::{RowImage, RowImages};
use anabranch_storage::{LoggedChange, SlotValues, Store};
use anabranch_types::{ColumnIndex, Effect, Key, NodeId, Ticks, Timestamp};

use crate::support::fixture::{
    ADD, ITEM, SET, delete_item, insert_item, item_key, programs, store, update,
};

fn database() -> Store {
    store(0, 1, Ticks::from_millis(500))
}

fn at(time: u64) -> Timestamp {
    Timestamp::new(time, NodeId(0))
}

/// Runs an operation, and returns its update.
fn run(store: &mut Store, time: u64, effects: Vec<Effect>) -> RowImages {
    let mut slots = SlotValues::default();
    let staged = store
        .stage(at(time), effects, &mut slots, &*programs())
        .expect("it fits");
    let images = RowImages::of(store, at(time), &staged.logged_changes());
    store.install(Ticks(0), at(time), staged);
    images
}

fn apply(store: &mut Store, time: u64, images: &RowImages) {
    let changes: Vec<LoggedChange> = images.merged(store);
    let staged = store.restage(changes);
    store.install(Ticks(0), at(time), staged);
}

fn columns(store: &Store, key: &Key) -> Option<(i64, i64)> {
    let row = store.item(ITEM, key)?.latest().row()?;
    let layout = &store.schema(ITEM).layout;
    let column = |index: u16| row.get_int(layout, ColumnIndex(index)).unwrap_or(-1);
    Some((column(2), column(3)))
}

/// A whole row would overwrite a column that the receiver's local operations own.
#[test]
fn an_update_leaves_other_columns_as_the_receiver_has_them() {
    let (mut origin, mut receiver) = (database(), database());
    let global = run(&mut origin, 1, vec![update(SET, 0, 0, 7)]);
    run(&mut receiver, 1, vec![update(ADD, 0, 0, 5)]);
    apply(&mut receiver, 2, &global);
    assert_eq!(columns(&receiver, &item_key(0, 0)), Some((7, 5)));
}

#[test]
fn an_update_without_a_change_carries_nothing() {
    let mut origin = database();
    let global = run(&mut origin, 1, vec![update(SET, 0, 0, 0)]);
    assert!(global.images.is_empty());
}

#[test]
fn updates_and_deletions_of_rows_that_the_receiver_does_not_have_do_nothing() {
    let mut origin = database();
    let inserted = run(&mut origin, 1, vec![insert_item(0, 9, 1, 1)]);
    let updated = run(&mut origin, 2, vec![update(SET, 0, 9, 3)]);
    let deleted = run(&mut origin, 3, vec![delete_item(0, 9)]);
    assert!(matches!(deleted.images[..], [RowImage::Delete { .. }]));

    let mut local = database();
    apply(&mut local, 1, &updated);
    apply(&mut local, 2, &deleted);
    assert_eq!(columns(&local, &item_key(0, 9)), None);
    let mut receiver = database();
    apply(&mut receiver, 1, &inserted);
    apply(&mut receiver, 2, &updated);
    assert_eq!(columns(&receiver, &item_key(0, 9)), Some((3, 1)));
    apply(&mut receiver, 3, &deleted);
    assert_eq!(columns(&receiver, &item_key(0, 9)), None);
}
