//! Errors and notices as clients get them.

use std::fmt;

use anabranch_types::EffectError;

/// How severe a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The statement failed.
    Error,
    /// The connection ends.
    Fatal,
    /// A notice: something is probably not as intended.
    Warning,
    /// A notice.
    Notice,
    /// A notice that a client did not ask for by a setting.
    Info,
    /// A message that is meant for the server's log.
    Log,
    /// A message for those who look for an error.
    Debug,
}

impl Severity {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Warning => "WARNING",
            Severity::Notice => "NOTICE",
            Severity::Info => "INFO",
            Severity::Log => "LOG",
            Severity::Debug => "DEBUG",
        }
    }
}

/// The fields of an ErrorResponse or a NoticeResponse.
///
/// Text with a NUL is sent up to it, and text of more than [`crate::TEXT_BYTES_MAX`] bytes is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorFields {
    /// S and V
    pub severity: Severity,
    /// C: the SQLSTATE
    pub code: &'static str,
    /// M
    pub message: String,
    /// D
    pub detail: Option<String>,
    /// H
    pub hint: Option<String>,
    /// W: the context of the error, such as the line of a COPY's data
    pub context: Option<String>,
    /// P: the place in the statement, in characters, from 1
    pub position: Option<u32>,
    /// s
    pub schema: Option<String>,
    /// t
    pub table: Option<String>,
    /// c
    pub column: Option<String>,
    /// d
    pub data_type: Option<String>,
    /// n
    pub constraint: Option<String>,
    /// R: the routine of PostgreSQL's that reports the same, where clients look at it
    pub routine: Option<&'static str>,
}

impl ErrorFields {
    /// An error with a SQLSTATE and a message, and nothing else.
    pub fn error(code: &'static str, message: impl Into<String>) -> ErrorFields {
        ErrorFields {
            severity: Severity::Error,
            code,
            message: message.into(),
            detail: None,
            hint: None,
            context: None,
            position: None,
            schema: None,
            table: None,
            column: None,
            data_type: None,
            constraint: None,
            routine: None,
        }
    }

    /// The same with a hint.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> ErrorFields {
        ErrorFields {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// The same with a detail.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> ErrorFields {
        ErrorFields {
            detail: Some(detail.into()),
            ..self
        }
    }
}

impl From<EffectError> for ErrorFields {
    fn from(error: EffectError) -> ErrorFields {
        ErrorFields {
            constraint: error.constraint,
            ..ErrorFields::error(error.code, error.message)
        }
    }
}

impl fmt::Display for ErrorFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}: {}",
            self.severity.name(),
            self.code,
            self.message
        )
    }
}
