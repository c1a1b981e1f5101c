//! Why a change of the schema is refused, and what a client is told beside its success.

use anabranch_types::EffectError;

use crate::{diagnostic::Diagnostic, source::Span};

/// A refusal of a change, as PostgreSQL words it. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeError {
    /// SQLSTATE, message, detail, hint, and the names of what is concerned. Boxed: a result stays small.
    pub error: Box<EffectError>,
    /// Its place in the statement's own text, if it has one.
    pub span: Option<Span>,
}

impl ChangeError {
    /// A refusal with this SQLSTATE and message, without a place.
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> ChangeError {
        ChangeError {
            error: Box::new(EffectError::new(code, message)),
            span: None,
        }
    }

    /// The same refusal, at a place.
    pub(super) fn at(mut self, span: Span) -> ChangeError {
        self.span = Some(span);
        self
    }

    /// The same refusal, with a detail.
    pub(super) fn detail(mut self, detail: impl Into<String>) -> ChangeError {
        self.error.fields_mut().detail = Some(detail.into());
        self
    }

    /// The same refusal, with a hint.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> ChangeError {
        self.error.fields_mut().hint = Some(hint.into());
        self
    }

    /// A refusal of what is SQL of PostgreSQL but not supported: `0A000`.
    pub(super) fn unsupported(construct: impl AsRef<str>) -> ChangeError {
        ChangeError::new("0A000", format!("{} is not supported", construct.as_ref()))
    }

    /// A problem of the application's text as it would be. Its place is in that text, which the client does not know.
    pub(super) fn of_text(problem: &Diagnostic) -> ChangeError {
        let mut error = ChangeError::new(problem.code, problem.message.clone());
        if let Some(detail) = &problem.detail {
            error = error.detail(detail.clone());
        }
        match &problem.help {
            Some(help) if problem.code == "0A000" => error.hint(help.clone()),
            // PostgreSQL has no other hint where it reports the problem of a declaration.
            _ if problem.message.starts_with("operator does not exist") => error.hint(
                "No operator matches the given name and argument types. You might need to add explicit type casts.",
            ),
            Some(help)
                if problem.message.contains("but default expression is of type")
                    || problem.message.starts_with("trigger functions cannot") =>
            {
                error.hint(help.clone())
            }
            _ => error,
        }
    }
}

impl From<Diagnostic> for ChangeError {
    /// A problem of the statement's own text.
    fn from(problem: Diagnostic) -> ChangeError {
        ChangeError {
            span: problem.span,
            ..ChangeError::of_text(&problem)
        }
    }
}

/// The result of a step of a change.
pub(super) type Change<T> = Result<T, ChangeError>;

/// What a client is told beside the success of its statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The SQLSTATE: `00000`, or that of the error that `IF EXISTS` or `IF NOT EXISTS` has avoided.
    pub code: &'static str,
    /// The message, in PostgreSQL's words.
    pub message: String,
    /// More about it.
    pub detail: Option<String>,
}

impl Notice {
    /// A notice without a detail.
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Notice {
        Notice {
            code,
            message: message.into(),
            detail: None,
        }
    }
}
