//! What identifies a statement's shape, and how statements are named.

use anabranch_sql::source::Span;
use anabranch_sql::summary::{StatementId, Term, TransactionSummary, WriteClass};
use anabranch_types::DataType;

/// A title has at most this many characters.
const TITLE_MAX: usize = 60;

/// A statement's text on one line, cut.
pub(super) fn title(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    cut(line.trim_end_matches(';'), TITLE_MAX)
}

/// A text of at most so many characters, and a mark if it goes on.
pub(super) fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The same type with unknown values in place of constants: all statements that differ in them alone.
pub(super) fn without_constants(summary: &TransactionSummary) -> TransactionSummary {
    let mut general = summary.clone();
    let statements = general.statements.iter_mut();
    for access in statements.flat_map(|statement| &mut statement.accesses) {
        for condition in &mut access.conditions {
            forget(&mut condition.term);
        }
        for write in &mut access.writes {
            match &mut write.class {
                WriteClass::Assign(term) | WriteClass::Add { term, .. } => forget(term),
                WriteClass::FromRow | WriteClass::FromData => {}
            }
        }
    }
    general
}

fn forget(term: &mut Term) {
    if let Term::Constant(value) = term
        && !value.is_null()
    {
        *term = Term::Pure;
    }
}

/// Equal for statements that the analysis cannot distinguish.
pub(super) fn shape(summary: &TransactionSummary) -> String {
    let nowhere = Span {
        file: 0,
        start: 0,
        end: 0,
    };
    let mut plain = summary.clone();
    plain.name.clear();
    plain.span = nowhere;
    for statement in &mut plain.statements {
        statement.span = nowhere;
        for access in &mut statement.accesses {
            access.span = nowhere;
        }
    }
    // Terms name their own statement, which has another number each time.
    let text = format!("{plain:?}");
    let numbers = plain.statements.iter().map(|statement| statement.id);
    numbers.fold(text, |text, id| {
        text.replace(&format!("{id:?}"), &format!("{:?}", StatementId(0)))
    })
}

/// A procedure that runs the statement, as SQL.
pub(super) fn as_procedure(text: &str, parameters: &[DataType]) -> String {
    let parameters: Vec<String> = (1..)
        .zip(parameters)
        .map(|(number, data_type)| format!("p{number} {data_type}"))
        .collect();
    let text = text.trim().trim_end_matches(';');
    format!(
        "CREATE PROCEDURE this_statement({}) LANGUAGE SQL BEGIN ATOMIC {text}; END;",
        parameters.join(", ")
    )
}
