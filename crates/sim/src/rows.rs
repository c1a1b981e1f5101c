//! The rows of a store, to compare stores.

use std::collections::BTreeMap;

use anabranch_storage::Store;
use anabranch_types::access::whole_table;
use anabranch_types::{Fetched, Key, Row, TableId};

/// A store's newest rows.
pub(crate) fn rows_of(store: &Store) -> BTreeMap<(TableId, Key), Row> {
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
