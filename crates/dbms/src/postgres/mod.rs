//! PostgreSQL: connections, servers started for tests and experiments, and the belt's part in a database.
//!
//! * [`address`]: the address of a database, with libpq's parameters, and TLS.
//! * [`programs`], [`server`]: finds PostgreSQL's programs, and starts a server in a folder of its own.
//! * [`catalog`]: tables, sequences and the shape of a schema.
//! * [`capture`], [`apply`], [`numbers`], [`install`]: what the belt installs, as SQL; [`inspect`]: what does not fit;
//!   [`ring`]: its transactions, [`batch`]: what they apply together.
//! * [`install_all`]: installs it on all servers, or on none; [`gather`]: takes it away, with all rows on one server;
//!   [`share`]: a server joins a ring, or leaves it. Both move rows by [`relocate`], while the ring is [`closed`].
//!   [`migrate`]: its schema changes, and no row moves.
//!   [`mod@copy`]: rows between databases; [`dump`]: a schema between databases.

pub mod address;
pub mod apply;
mod batch;
pub mod capture;
pub mod catalog;
pub mod closed;
pub mod copy;
pub mod dump;
pub mod gather;
pub mod inspect;
pub mod install;
pub mod install_all;
pub mod lost;
pub mod migrate;
pub mod numbers;
pub mod programs;
pub mod relocate;
pub mod ring;
pub mod server;
pub mod share;
mod tls;

pub use address::{Address, is_address, without_password};
pub use programs::{Installation, NotInstalled};
pub use server::{Server, ServerError, Settings};

/// Describes an error of the driver by PostgreSQL's message, context and SQLSTATE, or else by its causes.
pub fn explain(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => {
            let context = error
                .where_()
                .map(|place| format!(" ({place})"))
                .unwrap_or_default();
            format!(
                "{} (SQLSTATE {}){context}",
                error.message(),
                error.code().code()
            )
        }
        None => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(error) = cause {
                let words = error.to_string();
                // Some errors only repeat their cause's message.
                if !text.ends_with(&words) {
                    text += &format!(": {words}");
                }
                cause = error.source();
            }
            text
        }
    }
}

/// A name as an identifier in SQL.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as a string literal in SQL, under any setting of `standard_conforming_strings`.
pub fn literal(text: &str) -> String {
    match text.contains('\\') {
        false => format!("'{}'", text.replace('\'', "''")),
        true => format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''")),
    }
}
