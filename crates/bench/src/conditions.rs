//! The consistency conditions, checked when no transaction is in flight.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_engine::view::StoresView;
use anabranch_sql::transaction::TransactionError;
use anabranch_storage::Store;

/// Evaluates every assertion of the application on the latest committed state. The result names each by
/// the part of its name after the last underscore: `condition_7` becomes `7`.
///
/// # Errors
/// When an assertion cannot be evaluated: it is then neither true nor false.
pub fn check(
    planned: &Arc<PlannedApplication>,
    stores: &[&Store],
    mut checked: impl FnMut(&str),
) -> Result<BTreeMap<String, bool>, TransactionError> {
    let mut conditions = BTreeMap::new();
    for assertion in planned.application.assertions() {
        let mut view = StoresView::new(Arc::clone(planned), stores);
        let held = anabranch_engine::view::run(assertion.holds(&mut view))?;
        let name = assertion.name();
        let short = name.rsplit_once('_').map_or(name, |(_, number)| number);
        conditions.insert(short.to_owned(), held);
        checked(name);
    }
    Ok(conditions)
}
