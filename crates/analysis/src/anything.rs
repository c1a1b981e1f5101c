//! Transaction types that may do anything to every table, since they are not understood: one of them stands for
//! all.
//!
//! Whatever two of them may do to each other, two calls of one may, and whatever another type has to be ordered
//! against one of them for, it has to be against each. So the first alone takes part in the analysis. Of an
//! application of which hundreds are not understood, everything else that is found grows with those that are.

use std::borrow::Cow;

use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::anything;
use anabranch_sql::summary::{StatementId, TransactionSummary};

/// The types as the analysis looks at them: the first that may do anything to every table does, and the others of
/// its kind do nothing.
pub(crate) fn stood_for<'a>(
    catalog: &Catalog,
    summaries: &'a [TransactionSummary],
) -> Cow<'a, [TransactionSummary]> {
    let Some(first) = summaries.iter().position(|of| of.does_anything) else {
        return Cow::Borrowed(summaries);
    };
    let statements = summaries.iter().flat_map(|of| &of.statements);
    let next = statements.map(|of| of.id.0 + 1).max().unwrap_or(0);
    let mut seen = summaries.to_vec();
    for summary in seen.iter_mut().filter(|of| of.does_anything) {
        summary.statements.clear();
    }
    let first = &mut seen[first];
    let all = anything(catalog, first.span, StatementId(next));
    first.statements.push(all);
    Cow::Owned(seen)
}
