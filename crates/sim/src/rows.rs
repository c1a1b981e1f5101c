//! The rows of a store, to compare stores.

use std::collections::BTreeMap;

use anabranch_storage::{CommitSequence, Installed, Store};
use anabranch_types::access::whole_table;
use anabranch_types::{Fetched, Key, Row, TableId, Timestamp};

/// The rows of a store after a commit, given the store at an earlier time and what it has installed since.
pub(crate) fn rows_at(
    base: &Store,
    installed: &[Installed],
    last: CommitSequence,
) -> BTreeMap<(TableId, Key), Row> {
    let mut rows = rows_of(base);
    let since = installed.iter().filter(|one| one.sequence > base.last());
    for change in since
        .filter(|one| one.sequence <= last)
        .flat_map(|one| &one.changes)
    {
        let item = (change.table, change.key.clone());
        match &change.row {
            Some(row) => rows.insert(item, row.clone()),
            None => rows.remove(&item),
        };
    }
    rows
}

/// A store's newest rows.
pub fn rows_of(store: &Store) -> BTreeMap<(TableId, Key), Row> {
    let mut rows = BTreeMap::new();
    for table in (0..store.tables()).map(TableId) {
        let fetched = store.fetch(&whole_table(table), None);
        let fetched = fetched.expect("the newest rows are kept");
        if let Fetched::Range(found) = fetched.into_answer() {
            rows.extend(found.into_iter().map(|(key, row)| ((table, key), row)));
        }
    }
    rows
}

/// A store's newest rows, each with the transaction that wrote it.
pub(crate) fn rows_by_writers(store: &Store) -> BTreeMap<(TableId, Key), (Timestamp, Row)> {
    let mut rows = BTreeMap::new();
    for table in (0..store.tables()).map(TableId) {
        let found = store.read(&whole_table(table), None, &mut |key, _, version| {
            if let Some((version, row)) = version.and_then(|it| Some((it, it.row()?))) {
                rows.insert((table, key.clone()), (version.timestamp(), row.clone()));
            }
        });
        found.expect("the newest rows are kept");
    }
    rows
}
