//! Directives for anabranch in the comments above a routine, which PostgreSQL ignores.
//!
//! `-- anabranch: keeps NAME, …` declares that a call of the routine that runs alone keeps these assertions, although
//! its statements do not show it. The analyser trusts the author: it repeats the declaration in its report, and does
//! not evaluate the assertions.

use super::Assertion;
use crate::{
    diagnostic::Diagnostic,
    source::{SourceFile, Span},
};

/// The beginning of a directive, after the dashes.
const MARK: &str = "anabranch:";

/// The assertions that the comments above a statement declare as kept. Unknown assertions and malformed directives are
/// added to `errors`.
pub(super) fn kept(
    file: &SourceFile,
    statement: Span,
    assertions: &[Assertion],
    errors: &mut Vec<Diagnostic>,
) -> Vec<String> {
    let mut kept = Vec::new();
    let mut end = file.line_start(file.character_start(statement.start));
    while end > 0 {
        let start = file.line_start(end - 1);
        let line = file.text[start..end].trim();
        let Some(comment) = line.strip_prefix("--") else {
            break;
        };
        if let Some(directive) = comment.trim().strip_prefix(MARK) {
            let place = |text: &str| {
                let offset = text.as_ptr() as usize - file.text.as_ptr() as usize;
                Span {
                    file: statement.file,
                    start: u32::try_from(offset).unwrap_or(u32::MAX),
                    end: u32::try_from(offset + text.len()).unwrap_or(u32::MAX),
                }
            };
            let directive = directive.trim();
            let names = directive
                .strip_prefix("keeps")
                .filter(|names| names.starts_with(char::is_whitespace));
            match names {
                Some(names) => {
                    for name in names.split(',').map(str::trim).rev() {
                        if assertions.iter().any(|of| of.name == name) {
                            kept.push(name.to_owned());
                        } else {
                            let message = format!("assertion \"{name}\" does not exist");
                            errors.push(Diagnostic::new("42704", message, place(name)));
                        }
                    }
                }
                None => errors.push(
                    Diagnostic::new("42601", "no such directive", place(directive))
                        .help("there is one: anabranch: keeps ASSERTION, …"),
                ),
            }
        }
        end = start;
    }
    kept.reverse();
    kept
}
