//! Clients' statements, parsed.

use std::sync::Arc;

use anabranch_types::DataType;

use super::{
    copy_syntax::CopyStatement,
    cursor::{CursorDeclaration, FetchDirection},
    explain::ExplainOptions,
    runnable::Runnable,
    transaction::{TransactionModes, TransactionStatement},
};
use crate::{
    argument::ArgumentSyntax, change::ChangeStatement, deferred::ConstraintSelection,
    diagnostic::Diagnostic,
};

/// One statement of a message.
#[derive(Clone, Debug)]
pub struct ClientStatement {
    /// Its meaning.
    pub kind: ClientStatementKind,
    /// Its own text, without what stands before and behind it.
    pub text: Arc<str>,
    /// The first byte of its text in the message.
    pub start: usize,
}

/// The meaning of a client's statement.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientStatementKind {
    /// A statement over data: SELECT, VALUES, TABLE, WITH, INSERT, UPDATE, DELETE, CALL.
    Run(Runnable),
    /// `SET [LOCAL] name TO value`, and its special forms (`SET TIME ZONE`, `SET NAMES`, `SET ROLE`, …).
    Set {
        /// Until the transaction ends.
        local: bool,
        /// The setting, in lower case unless quoted.
        name: String,
        /// Its new value.
        value: SetValue,
    },
    /// `SET TRANSACTION …`, or `SET SESSION CHARACTERISTICS AS TRANSACTION …` (`session`: for the transactions after).
    SetTransaction {
        /// Whether the modes are defaults for later transactions.
        session: bool,
        /// The modes that are named.
        modes: TransactionModes,
    },
    /// `SET CONSTRAINTS … DEFERRED` or `IMMEDIATE`
    SetConstraints {
        /// The constraints.
        selection: ConstraintSelection,
        /// Whether they are checked at the end of the transaction.
        deferred: bool,
    },
    /// `RESET name`; `None` is ALL.
    Reset(Option<String>),
    /// `ALTER SYSTEM RESET name`; `None` is ALL.
    ResetSystem(Option<String>),
    /// `SHOW name`; `None` is ALL.
    Show(Option<String>),
    /// `DISCARD …`
    Discard(DiscardKind),
    /// `COPY …`: [`crate::Application::copy`] compiles it.
    Copy(Box<CopyStatement>),
    /// `EXPLAIN …`
    Explain {
        /// Its options.
        options: ExplainOptions,
        /// The statement to be explained.
        statement: Runnable,
    },
    /// `PREPARE name (types) AS statement`
    Prepare {
        /// The prepared statement's name.
        name: String,
        /// The types that it names, in order; `None` is `unknown`.
        parameter_types: Vec<Option<DataType>>,
        /// The statement.
        statement: Runnable,
    },
    /// `EXECUTE name (arguments)`: [`crate::Application::execute_arguments`] compiles the arguments.
    Execute {
        /// The prepared statement's name.
        name: String,
        /// Its arguments.
        arguments: ArgumentSyntax,
    },
    /// `DEALLOCATE name`; `None` is ALL.
    Deallocate(Option<String>),
    /// BEGIN, COMMIT, ROLLBACK, savepoints.
    Transaction(TransactionStatement),
    /// `BACKUP TO 'folder'`, which PostgreSQL has not.
    Backup {
        /// The folder, as the server sees it.
        folder: String,
    },
    /// `DECLARE name CURSOR FOR query`
    DeclareCursor(Box<CursorDeclaration>),
    /// `FETCH … name`, or `MOVE … name`
    Fetch {
        /// Which rows.
        direction: FetchDirection,
        /// The cursor.
        name: String,
        /// Whether it is MOVE, which returns no rows.
        moves: bool,
    },
    /// `CLOSE name`; `None` is ALL.
    CloseCursor(Option<String>),
    /// `LISTEN channel`
    Listen(String),
    /// `UNLISTEN channel`; `None` is `*`, all channels.
    Unlisten(Option<String>),
    /// `NOTIFY channel, 'payload'`
    Notify {
        /// The channel.
        channel: String,
        /// What its listeners are told; empty if the statement has none.
        payload: String,
    },
    /// A statement that has nothing to do here (VACUUM, ANALYZE, CHECKPOINT, …): its tag is the answer.
    Maintenance {
        /// The command tag.
        tag: &'static str,
    },
    /// DDL or TRUNCATE: [`crate::Application::change`] applies it.
    Change(Box<ChangeStatement>),
    /// A statement of PostgreSQL that is not supported: the error to answer with when its turn comes. The place is
    /// relative to its own text.
    Unsupported(Diagnostic),
}

/// The value of a SET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetValue {
    /// DEFAULT: the value that RESET gives.
    Default,
    /// The values in a list, as text; most settings take one. Numbers have their sign; names are in lower case unless
    /// quoted.
    Values(Vec<String>),
}

/// What DISCARD discards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardKind {
    /// Everything of the session.
    All,
    /// Cached plans.
    Plans,
    /// What sequences have cached.
    Sequences,
    /// Temporary tables.
    Temp,
}

impl DiscardKind {
    /// The command tag.
    pub fn tag(self) -> &'static str {
        match self {
            DiscardKind::All => "DISCARD ALL",
            DiscardKind::Plans => "DISCARD PLANS",
            DiscardKind::Sequences => "DISCARD SEQUENCES",
            DiscardKind::Temp => "DISCARD TEMP",
        }
    }
}
