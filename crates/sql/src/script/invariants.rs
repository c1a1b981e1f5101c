//! Files of invariants: assertions, and check queries that must return no row.

use std::collections::BTreeSet;

use super::{
    group::{name_of, unique},
    scan::{Piece, pieces, words},
};
use crate::source::SourceFile;

/// Turns a file of invariants into declarations: each query becomes the assertion that it returns no row, named
/// after the comment above it. Line numbers stay the same.
pub fn invariants(file: &SourceFile) -> SourceFile {
    let text = &*file.text;
    let mut taken = BTreeSet::new();
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for piece in pieces(text) {
        let Piece::Statement { lead, range } = piece else {
            continue;
        };
        let statement = &text[range.clone()];
        let first = words(&statement[..super::scan::boundary(statement, 40)]).next();
        if !matches!(first.as_deref(), Some("select" | "with" | "values")) {
            continue;
        }
        let name = unique(name_of(file, &text[lead], range.start), &mut taken);
        out.push_str(&text[done..range.start]);
        let name = name.replace('"', "");
        out.push_str(&format!(
            "CREATE ASSERTION \"{name}\" CHECK (NOT EXISTS ({statement}))"
        ));
        done = range.end;
    }
    out.push_str(&text[done..]);
    SourceFile::new(file.name.clone(), out)
}
