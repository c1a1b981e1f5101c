//! The plan as text, for people.

use anabranch_sql::catalog::Catalog;
use anabranch_sql::source::Span;

/// The text of a statement on one line.
pub(super) fn excerpt(catalog: &Catalog, span: Span) -> String {
    let Some(file) = catalog.files.get(usize::from(span.file)) else {
        return String::new();
    };
    let text = file
        .text
        .get(span.start as usize..span.end as usize)
        .unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
