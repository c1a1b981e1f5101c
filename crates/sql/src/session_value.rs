//! Values that a statement takes from the connection that runs it.

use std::fmt;

use anabranch_types::DataType;

use crate::argument::ArgumentList;
use crate::ring_relation::RingRelation;
use crate::transaction_column::TransactionColumn;

/// A value of the connection, bound as a parameter behind the client's own.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SessionValue {
    /// `current_setting(name, missing_ok)`: text.
    Setting {
        /// The setting's name.
        name: String,
        /// An unknown setting is NULL, and no error.
        missing_ok: bool,
    },
    /// `set_config(name, value, is_local)`: the three arguments. The setting's new value, as text. It changes the
    /// setting when the value is taken, once an execution.
    SetConfig(ArgumentList),
    /// A function of advisory locks, with one argument of type bigint, two of type integer, or none. The lock is taken or
    /// released when the value is taken, once an execution.
    Advisory {
        /// The function.
        function: AdvisoryFunction,
        /// Its arguments.
        arguments: ArgumentList,
    },
    /// `pg_notify(channel, payload)`: the two arguments. The notification is sent when the transaction commits that takes
    /// the value, once an execution.
    Notify(ArgumentList),
    /// `pg_listening_channels()`: an array of the names of the channels, in the order in which they were listened to.
    ListeningChannels,
    /// `version()`: text.
    Version,
    /// `current_user`, `user`, `current_role`: text.
    CurrentUser,
    /// `session_user`: text.
    SessionUser,
    /// `current_database()`, `current_catalog`: text.
    Database,
    /// `current_schema`, `current_schema()`: text; NULL if no schema of the search path exists.
    CurrentSchema,
    /// `current_schemas(implicit)`: an array of text.
    CurrentSchemas {
        /// Whether schemas that are searched without being named are among them.
        implicit: bool,
    },
    /// `pg_backend_pid()`: integer.
    BackendPid,
    /// `inet_server_addr()`: text.
    ServerAddress,
    /// `inet_server_port()`: integer.
    ServerPort,
    /// `inet_client_addr()`: text.
    ClientAddress,
    /// `inet_client_port()`: integer.
    ClientPort,
    /// `pg_postmaster_start_time()`: timestamp with time zone.
    StartTime,
    /// `current_query()`: text.
    CurrentQuery,
    /// A column of `pg_cursors`: an array with an element for each open cursor, in the order of their declarations.
    Cursors(CursorColumn),
    /// A column of `anabranch.transactions`: an array with an element for each open transaction of the server.
    Transactions(TransactionColumn),
    /// A column of a relation of the ring that the database is in: an array with an element for each of its rows.
    Ring {
        /// The relation.
        relation: RingRelation,
        /// The place of the column among [`RingRelation::columns`].
        column: usize,
    },
}

/// A column of `pg_cursors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorColumn {
    /// Its name: text.
    Name,
    /// The statement that declares it: text.
    Statement,
    /// Whether it outlives its transaction.
    IsHoldable,
    /// Whether its rows are sent in binary form.
    IsBinary,
    /// Whether it may go back.
    IsScrollable,
    /// When it was declared: timestamp with time zone.
    CreationTime,
}

impl CursorColumn {
    /// All columns, in order.
    pub(crate) const ALL: [CursorColumn; 6] = [
        CursorColumn::Name,
        CursorColumn::Statement,
        CursorColumn::IsHoldable,
        CursorColumn::IsBinary,
        CursorColumn::IsScrollable,
        CursorColumn::CreationTime,
    ];
}

/// A function of advisory locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvisoryFunction {
    /// `pg_advisory_lock`, `pg_advisory_xact_lock`, and their shared forms: wait until the lock is granted.
    Lock {
        /// Whether other connections may have it shared at the same time.
        shared: bool,
        /// Whether it is released at the end of the transaction.
        transaction: bool,
    },
    /// `pg_try_advisory_lock` and its kin: whether the lock is granted at once.
    Try {
        /// As in `Lock`.
        shared: bool,
        /// As in `Lock`.
        transaction: bool,
    },
    /// `pg_advisory_unlock`, `pg_advisory_unlock_shared`: whether the connection had the lock.
    Unlock {
        /// Which of the two.
        shared: bool,
    },
    /// `pg_advisory_unlock_all`
    UnlockAll,
}

impl AdvisoryFunction {
    /// The function with this name.
    pub(crate) fn named(name: &str) -> Option<AdvisoryFunction> {
        if name == "pg_advisory_unlock_all" {
            return Some(AdvisoryFunction::UnlockAll);
        }
        let (name, shared) = match name.strip_suffix("_shared") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let transaction = name.ends_with("_xact_lock");
        Some(match name {
            "pg_advisory_lock" | "pg_advisory_xact_lock" => AdvisoryFunction::Lock {
                shared,
                transaction,
            },
            "pg_try_advisory_lock" | "pg_try_advisory_xact_lock" => AdvisoryFunction::Try {
                shared,
                transaction,
            },
            "pg_advisory_unlock" => AdvisoryFunction::Unlock { shared },
            _ => return None,
        })
    }

    /// Whether what it takes is released at the end of the transaction.
    pub fn is_of_transaction(self) -> bool {
        matches!(
            self,
            AdvisoryFunction::Lock {
                transaction: true,
                ..
            } | AdvisoryFunction::Try {
                transaction: true,
                ..
            }
        )
    }
}

impl SessionValue {
    /// The type of its values.
    pub fn data_type(&self) -> DataType {
        match self {
            SessionValue::Setting { .. }
            | SessionValue::SetConfig(_)
            | SessionValue::Version
            | SessionValue::CurrentUser
            | SessionValue::SessionUser
            | SessionValue::Database
            | SessionValue::CurrentSchema
            | SessionValue::ServerAddress
            | SessionValue::ClientAddress
            | SessionValue::CurrentQuery => DataType::Text,
            SessionValue::CurrentSchemas { .. } | SessionValue::ListeningChannels => {
                DataType::Array(Box::new(DataType::Text))
            }
            SessionValue::Notify(_) => DataType::Void,
            SessionValue::Cursors(column) => DataType::Array(Box::new(match column {
                CursorColumn::Name | CursorColumn::Statement => DataType::Text,
                CursorColumn::IsHoldable | CursorColumn::IsBinary | CursorColumn::IsScrollable => {
                    DataType::Bool
                }
                CursorColumn::CreationTime => DataType::TimestampTz,
            })),
            SessionValue::Transactions(column) => DataType::Array(Box::new(column.data_type())),
            SessionValue::Ring { relation, column } => {
                let (_, data_type) = relation.columns().swap_remove(*column);
                DataType::Array(Box::new(data_type))
            }
            SessionValue::BackendPid | SessionValue::ServerPort | SessionValue::ClientPort => {
                DataType::Int4
            }
            SessionValue::StartTime => DataType::TimestampTz,
            SessionValue::Advisory { function, .. } => match function {
                AdvisoryFunction::Lock { .. } | AdvisoryFunction::UnlockAll => DataType::Void,
                AdvisoryFunction::Try { .. } | AdvisoryFunction::Unlock { .. } => DataType::Bool,
            },
        }
    }

    /// The value that a function without parentheses names.
    pub(crate) fn bare(name: &str) -> Option<SessionValue> {
        Some(match name {
            "current_user" | "user" | "current_role" => SessionValue::CurrentUser,
            "session_user" => SessionValue::SessionUser,
            "current_catalog" => SessionValue::Database,
            "current_schema" => SessionValue::CurrentSchema,
            _ => return None,
        })
    }

    /// The value of a call without arguments.
    pub(crate) fn called(name: &str) -> Option<SessionValue> {
        Some(match name {
            "version" => SessionValue::Version,
            "current_database" => SessionValue::Database,
            "current_schema" => SessionValue::CurrentSchema,
            "pg_backend_pid" => SessionValue::BackendPid,
            "inet_server_addr" => SessionValue::ServerAddress,
            "inet_server_port" => SessionValue::ServerPort,
            "inet_client_addr" => SessionValue::ClientAddress,
            "inet_client_port" => SessionValue::ClientPort,
            "pg_postmaster_start_time" => SessionValue::StartTime,
            "current_query" => SessionValue::CurrentQuery,
            _ => return None,
        })
    }
}

impl fmt::Display for SessionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SessionValue::Setting { name, .. } => {
                return write!(f, "current_setting('{}')", name.replace('\'', "''"));
            }
            SessionValue::CurrentSchemas { implicit } => {
                return write!(f, "current_schemas({implicit})");
            }
            SessionValue::SetConfig(_) => "set_config(…)",
            SessionValue::Advisory { .. } => "pg_advisory_lock(…)",
            SessionValue::Notify(_) => "pg_notify(…)",
            SessionValue::ListeningChannels => "pg_listening_channels()",
            SessionValue::Version => "version()",
            SessionValue::CurrentUser => "CURRENT_USER",
            SessionValue::SessionUser => "SESSION_USER",
            SessionValue::Database => "current_database()",
            SessionValue::CurrentSchema => "current_schema()",
            SessionValue::BackendPid => "pg_backend_pid()",
            SessionValue::ServerAddress => "inet_server_addr()",
            SessionValue::ServerPort => "inet_server_port()",
            SessionValue::ClientAddress => "inet_client_addr()",
            SessionValue::ClientPort => "inet_client_port()",
            SessionValue::StartTime => "pg_postmaster_start_time()",
            SessionValue::CurrentQuery => "current_query()",
            SessionValue::Cursors(_) => "pg_cursor()",
            SessionValue::Transactions(_) => "anabranch.transactions",
            SessionValue::Ring { relation, .. } => {
                return write!(f, "anabranch.{}", relation.name());
            }
        })
    }
}
