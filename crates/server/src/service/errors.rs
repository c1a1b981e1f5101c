//! Errors as clients see them: with SQLSTATE, and the fields that PostgreSQL sends.

use anabranch_engine::CallError;
use anabranch_engine::undeclared::Refusal;
use anabranch_sql::change::ChangeError;
use anabranch_sql::diagnostic::Diagnostic;
use anabranch_types::{EffectError, EffectErrorFields};
use anabranch_wire::ErrorFields;

/// An error with this SQLSTATE.
pub(crate) fn error(code: &'static str, message: impl Into<String>) -> Box<ErrorFields> {
    Box::new(ErrorFields::error(code, message))
}

/// An error with a hint.
pub(crate) fn error_with_hint(
    code: &'static str,
    message: impl Into<String>,
    hint: impl Into<String>,
) -> Box<ErrorFields> {
    let mut fields = error(code, message);
    fields.hint = Some(hint.into());
    fields
}

/// The error of a text that cannot be run. `text` is what its place counts in, `start` where the statement
/// begins in the client's message `whole`.
pub(crate) fn of_diagnostic(
    diagnostic: &Diagnostic,
    start: usize,
    whole: &str,
) -> Box<ErrorFields> {
    let mut fields = error(diagnostic.code, diagnostic.message.clone());
    fields.detail.clone_from(&diagnostic.detail);
    fields.hint.clone_from(&diagnostic.help);
    fields.position = diagnostic.span.and_then(|span| {
        let before = whole.get(..start + span.start as usize)?;
        u32::try_from(before.chars().count() + 1).ok()
    });
    fields
}

/// The error of a change of the schema that is refused. `start`: where the statement begins in the client's message
/// `whole`.
pub(crate) fn of_change(refusal: &ChangeError, whole: &str, start: usize) -> Box<ErrorFields> {
    let mut fields = of_effect(&refusal.error);
    fields.position = refusal.span.and_then(|span| {
        let before = whole.get(..start + span.start as usize)?;
        u32::try_from(before.chars().count() + 1).ok()
    });
    fields
}

/// The error of a text with problems: the first of them.
pub(crate) fn of_diagnostics(
    problems: &[Diagnostic],
    start: usize,
    whole: &str,
) -> Box<ErrorFields> {
    match problems.first() {
        Some(problem) => of_diagnostic(problem, start, whole),
        None => error("XX000", "the statement was refused without a reason"),
    }
}

/// The error of a call.
pub(crate) fn of_call(failure: &CallError) -> Box<ErrorFields> {
    match failure {
        CallError::Failed(effect) => of_effect(effect),
        other => error(other.code(), other.to_string()),
    }
}

/// The error of an effect or an expression.
pub(crate) fn of_effect(effect: &EffectError) -> Box<ErrorFields> {
    let mut fields = error(effect.code, effect.message.clone());
    fields.constraint.clone_from(&effect.constraint);
    if let Some(more) = effect.fields.as_deref() {
        let EffectErrorFields {
            detail,
            hint,
            schema,
            table,
            column,
            data_type,
        } = more.clone();
        *fields = ErrorFields {
            detail,
            hint,
            schema,
            table,
            column,
            data_type,
            ..*fields
        };
    }
    fields
}

/// The error of a transaction that the plan has no room for.
pub(crate) fn of_refusal(refusal: &Refusal) -> Box<ErrorFields> {
    let mut fields = error(refusal.code, refusal.message.clone());
    fields.detail.clone_from(&refusal.detail);
    fields.hint = Some(refusal.hint.clone());
    fields.constraint.clone_from(&refusal.invariant);
    fields
}
