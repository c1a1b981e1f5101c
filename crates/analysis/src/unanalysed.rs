//! Transaction types that were not analysed: each may do anything to every table, and one of them stands for all.
//!
//! Two calls of one such type may do to each other whatever two of these types may do, and every type that has to
//! be ordered against one has to be ordered against all. So only the first takes part in the analysis. In an
//! application with hundreds of such types, findings then grow only with the types that were analysed.

use std::borrow::Cow;

use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::anything;
use anabranch_sql::summary::{StatementId, TransactionSummary};

/// Returns the summaries as the analysis uses them: the first type that may do anything accesses every table, and
/// the others of its kind do nothing.
pub(crate) fn with_representative<'a>(
    catalog: &Catalog,
    summaries: &'a [TransactionSummary],
) -> Cow<'a, [TransactionSummary]> {
    let Some(first) = summaries.iter().position(|of| of.may_change_any_table) else {
        return Cow::Borrowed(summaries);
    };
    let statements = summaries.iter().flat_map(|of| &of.statements);
    let next = statements.map(|of| of.id.0 + 1).max().unwrap_or(0);
    let mut seen = summaries.to_vec();
    for summary in seen.iter_mut().filter(|of| of.may_change_any_table) {
        summary.statements.clear();
    }
    let first = &mut seen[first];
    let all = anything(catalog, first.span, StatementId(next));
    first.statements.push(all);
    Cow::Owned(seen)
}
