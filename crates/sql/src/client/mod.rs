//! Statements as PostgreSQL clients send them: what their text means, and their compilation.
//!
//! 1. [`parse()`] cuts the text of a Query or Parse message into [`ClientStatement`]s and says what each is: rows to read
//!    or write ([`Runnable`]), or a matter of the connection (settings, prepared statements, transactions).
//! 2. [`crate::Application::client_statement`] compiles a [`Runnable`] to a [`ClientPlan`]: a compiled statement, or a
//!    call of a declared procedure.
//!
//! A plan belongs to the application that compiled it, and to no connection: what differs from connection to
//! connection ([`SessionValue`]: `current_user`, `current_setting(…)`) is bound as hidden parameters behind the
//! client's `$n`. So plans can be shared by all connections, by text and parameter types.
//!
//! This module keeps no state: it knows no connection, no setting's value and no prepared statement.

mod call;
mod command;
mod connection_calls;
mod constant;
mod copy;
mod copy_syntax;
mod cursor;
mod explain;
mod parse;
mod plan;
mod runnable;
mod statement;
mod transaction;
mod variables;

pub use call::CallShape;
pub use command::CommandTag;
pub use constant::ConstantStatement;
pub use copy::CopyPlan;
pub use copy_syntax::{CopyColumns, CopyKind, CopySource, CopyStatement, CopySyntax};
pub use cursor::{CursorDeclaration, FetchDirection};
pub use explain::{ExplainFormat, ExplainOptions};
pub use parse::parse;
pub use plan::{ClientPlan, ClientWork};
pub use runnable::{CLIENT_TEXT, Runnable};
pub use statement::{ClientStatement, ClientStatementKind, DiscardKind, SetValue};
pub use transaction::{IsolationLevel, TransactionModes, TransactionStatement};

pub use crate::{
    argument::{ArgumentList, ArgumentSyntax, ClientContext},
    ring_relation::RingRelation,
    session_value::{AdvisoryFunction, CursorColumn, SessionValue},
    transaction_column::TransactionColumn,
};
