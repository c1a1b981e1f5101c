//! The columns of `anabranch.transactions`, whose rows the server gathers when a statement reads it.

use anabranch_types::DataType;

/// A column of `anabranch.transactions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionColumn {
    /// The number of its connection, as `pg_backend_pid()` has it: integer.
    Pid,
    /// Its user: text.
    User,
    /// `application_name`: text.
    Application,
    /// The node that runs it: integer; NULL before its first statement.
    Node,
    /// When it began: timestamp with time zone.
    Since,
    /// What it does: text.
    State,
    /// What it waits for: text; NULL if it waits for nothing.
    WaitsFor,
    /// The connections that it waits for, as numbers with commas between: text; NULL if there are none.
    BlockedBy,
    /// How often it was run again: integer.
    Replays,
    /// The statement that runs: text; NULL if none does.
    Statement,
}

impl TransactionColumn {
    /// All columns with their names, in order.
    pub(crate) const ALL: [(TransactionColumn, &'static str); 10] = [
        (TransactionColumn::Pid, "pid"),
        (TransactionColumn::User, "usename"),
        (TransactionColumn::Application, "application_name"),
        (TransactionColumn::Node, "node"),
        (TransactionColumn::Since, "since"),
        (TransactionColumn::State, "state"),
        (TransactionColumn::WaitsFor, "waits_for"),
        (TransactionColumn::BlockedBy, "blocked_by"),
        (TransactionColumn::Replays, "replays"),
        (TransactionColumn::Statement, "statement"),
    ];

    /// The type of its values.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            TransactionColumn::Pid | TransactionColumn::Node | TransactionColumn::Replays => {
                DataType::Int4
            }
            TransactionColumn::Since => DataType::TimestampTz,
            TransactionColumn::User
            | TransactionColumn::Application
            | TransactionColumn::State
            | TransactionColumn::WaitsFor
            | TransactionColumn::BlockedBy
            | TransactionColumn::Statement => DataType::Text,
        }
    }
}
