//! What a client requests.

use bytes::Bytes;

use crate::format::Format;
use crate::key::BackendKey;

/// A message of the client that its owner has to answer. The next one is given once the answer is complete.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Request {
    /// The client wants in: [`crate::Connection::accept`] or [`crate::Connection::fatal`].
    Start(Startup),
    /// Cancel what another connection runs. The client expects no answer, and the connection closes.
    Cancel(BackendKey),
    /// Run the statements of a text. Answered for each by `row_description`, rows and `command_complete`, or once by
    /// `empty_query` for a text without statements, or by `error`, which ends it; then by `ready`.
    Query {
        /// The text.
        text: String,
    },
    /// Prepare a statement. Answered by `parse_complete`.
    Parse {
        /// Its name; empty for the unnamed one.
        statement: String,
        /// Its text.
        text: String,
        /// The OIDs of its parameters' types, as far as the client names them; 0 for one that it does not.
        parameter_types: Vec<u32>,
    },
    /// Make a portal of a prepared statement. Answered by `bind_complete`.
    Bind {
        /// The portal's name; empty for the unnamed one.
        portal: String,
        /// The statement's name.
        statement: String,
        /// The formats of the parameters.
        parameter_formats: Formats,
        /// The parameters; `None` is NULL.
        parameters: Vec<Option<Bytes>>,
        /// The formats of the result's columns.
        result_formats: Formats,
    },
    /// Describe a statement or a portal. Answered by `row_description` or `no_data`, and for a statement by
    /// `parameter_description` before that.
    Describe(Target),
    /// Run a portal. Answered by rows and then `command_complete` or `portal_suspended`, or by `empty_query`.
    Execute {
        /// Its name.
        portal: String,
        /// The most rows to return now; 0 for all.
        rows_max: u32,
    },
    /// Forget a statement or a portal. One that does not exist is no error. Answered by `close_complete`.
    Close(Target),
    /// Send what has been answered. Not answered.
    Flush,
    /// End of a pipeline. Answered by `ready`, and by `error` before that if what it commits fails.
    Sync,
    /// Data of the COPY under way, which `copy_in` has asked for. Not answered.
    CopyData(Bytes),
    /// The data of the COPY is complete. Answered by `command_complete`.
    CopyDone,
    /// The client gives the COPY up. Answered by `error`.
    CopyFail {
        /// Why.
        message: String,
    },
    /// The client has ended the connection, which closes.
    Terminate,
}

impl Request {
    /// The message's name in PostgreSQL's documentation.
    pub fn name(&self) -> &'static str {
        match self {
            Request::Start(_) => "StartupMessage",
            Request::Cancel(_) => "CancelRequest",
            Request::Query { .. } => "Query",
            Request::Parse { .. } => "Parse",
            Request::Bind { .. } => "Bind",
            Request::Describe(_) => "Describe",
            Request::Execute { .. } => "Execute",
            Request::Close(_) => "Close",
            Request::Flush => "Flush",
            Request::Sync => "Sync",
            Request::CopyData(_) => "CopyData",
            Request::CopyDone => "CopyDone",
            Request::CopyFail { .. } => "CopyFail",
            Request::Terminate => "Terminate",
        }
    }
}

/// What a client says of itself when it connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Startup {
    /// The user's name, never empty.
    pub user: String,
    /// The database's name; the user's, if the client names none.
    pub database: String,
    /// All other parameters, in order.
    pub parameters: Vec<(String, String)>,
}

/// A statement or a portal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The prepared statement with this name.
    Statement(String),
    /// The portal with this name.
    Portal(String),
}

/// The formats of parameters or columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Formats {
    /// The same for all.
    All(Format),
    /// One each.
    Each(Vec<Format>),
}

impl Formats {
    /// The format of each of `count` values.
    ///
    /// # Errors
    /// The number of formats, if it is another.
    pub fn for_columns(&self, count: usize) -> Result<Vec<Format>, usize> {
        match self {
            Formats::All(format) => Ok(vec![*format; count]),
            Formats::Each(formats) if formats.len() == count => Ok(formats.clone()),
            Formats::Each(formats) => Err(formats.len()),
        }
    }
}
