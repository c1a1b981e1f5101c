//! Two databases with the same statements: PostgreSQL, and one node of ours.
//!
//! Answers are compared as text, as a person reads them. Our node runs one call after the other through
//! [`Node::step`]: one partition, no thread, no clock.

pub(crate) mod ours;

use std::fmt;

use anabranch_dbms::postgres::explain;
use anabranch_dbms::postgres::{Server, Settings};
use anabranch_engine::{Call, CallError, CallId, Node, NodeInput, NodeOutbox, Outcome, Work};
use anabranch_protocol::Protocol;
use anabranch_sql::application::ResultSet;
use anabranch_sql::expression::text::format_text;
use anabranch_storage::Store;
use anabranch_types::access::whole_table;
use anabranch_types::{DataType, Fetched, TableId, Ticks, Value};
use postgres::{Client, SimpleQueryMessage};

/// A row as text; NULL is `None`.
pub(crate) type TextRow = Vec<Option<String>>;

/// The answer of a database to a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It succeeded.
    Done {
        /// The rows of a result; none where there is no result.
        rows: Vec<TextRow>,
        /// The number of rows returned or changed, if reported.
        count: Option<u64>,
    },
    /// It failed, without effect.
    Failed {
        /// The SQLSTATE.
        code: String,
        /// The message.
        message: String,
        /// Statements to try that drop the violated constraint in PostgreSQL.
        relief: Vec<String>,
    },
}

impl Answer {
    /// The SQLSTATE; `None` if it succeeded.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Answer::Done { .. } => None,
            Answer::Failed { code, .. } => Some(code),
        }
    }
}

impl Answer {
    /// Whether a constraint was violated.
    pub(crate) fn is_violation(&self) -> bool {
        self.code().is_some_and(|code| code.starts_with("23"))
    }

    /// Whether both failed with the same SQLSTATE and, for violations, at the same constraint.
    pub(crate) fn is_same_failure(&self, other: &Answer) -> bool {
        match (self, other) {
            (
                Answer::Failed { code, message, .. },
                Answer::Failed {
                    code: their_code,
                    message: their_message,
                    ..
                },
            ) => {
                code == their_code
                    && (!self.is_violation() || violated(message) == violated(their_message))
            }
            _ => false,
        }
    }
}

/// The constraint that a message names; the whole message where it names none.
fn violated(message: &str) -> &str {
    let named = message
        .split_once(" constraint \"")
        .and_then(|(_, name)| name.split_once('"'));
    named.map_or(message, |(name, _)| name)
}

/// Statements to try that drop the violated constraint in PostgreSQL.
fn relief(error: &postgres::error::DbError) -> Vec<String> {
    let Some(table) = error.table() else {
        return Vec::new();
    };
    match (error.constraint(), error.column()) {
        (Some(name), _) => {
            let mut ways = vec![format!(
                "ALTER TABLE {table} DROP CONSTRAINT {name} CASCADE;"
            )];
            // Key (id)=(7) already exists.
            let key = error
                .detail()
                .and_then(|detail| detail.strip_prefix("Key "));
            if let Some(key) = key.and_then(|key| key.strip_suffix(" already exists.")) {
                ways.push(format!(
                    "SET LOCAL session_replication_role = replica; DELETE FROM {table} WHERE \
                     {key}; SET LOCAL session_replication_role = DEFAULT;"
                ));
            }
            ways
        }
        (None, Some(column)) => {
            vec![format!("ALTER TABLE {table} ALTER {column} DROP NOT NULL;"); 2]
        }
        (None, None) => Vec::new(),
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Failed { code, message, .. } => write!(f, "    {code}: {message}"),
            Answer::Done { rows, count } => {
                write!(f, "    {} rows", rows.len())?;
                if let Some(count) = count {
                    write!(f, ", count {count}")?;
                }
                for row in rows.iter().take(12) {
                    write!(f, "\n      {}", show(row))?;
                }
                if rows.len() > 12 {
                    write!(f, "\n      …")
                } else {
                    Ok(())
                }
            }
        }
    }
}

/// A row in a message.
pub(crate) fn show(row: &TextRow) -> String {
    let cells: Vec<&str> = row
        .iter()
        .map(|cell| cell.as_deref().unwrap_or("NULL"))
        .collect();
    cells.join(" | ")
}

/// A server of our own, and a connection to it.
pub(crate) struct Postgres {
    /// The connection.
    pub(crate) client: Client,
    server: Server,
}

impl Postgres {
    /// Starts it.
    ///
    /// # Panics
    /// When PostgreSQL is not installed; the message has the command to type.
    pub(crate) fn start() -> Postgres {
        let server = Server::start(Settings::default()).unwrap_or_else(|error| panic!("{error}"));
        let client = server.connect().unwrap_or_else(|error| panic!("{error}"));
        Postgres { client, server }
    }

    /// Another connection.
    pub(crate) fn connect(&self) -> Client {
        let client = self.server.connect();
        client.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Sends one statement.
    pub(crate) fn ask(&mut self, statement: &str) -> Answer {
        match self.client.simple_query(statement) {
            Ok(messages) => {
                let mut rows = Vec::new();
                let mut count = None;
                for message in messages {
                    match message {
                        SimpleQueryMessage::Row(row) => {
                            let cells =
                                (0..row.len()).map(|place| row.get(place).map(str::to_owned));
                            rows.push(cells.collect());
                        }
                        SimpleQueryMessage::CommandComplete(rows) => count = Some(rows),
                        _ => {}
                    }
                }
                Answer::Done { rows, count }
            }
            Err(error) => {
                let Some(known) = error.as_db_error() else {
                    panic!("PostgreSQL is gone: {}, at: {statement}", explain(&error))
                };
                Answer::Failed {
                    code: known.code().code().to_owned(),
                    message: known.message().to_owned(),
                    relief: relief(known),
                }
            }
        }
    }

    /// Whether a statement that violates a constraint violates that of `claim` as well. Other constraints are
    /// dropped one by one as they are reported, or the rows with their keys are deleted, in a transaction that is
    /// rolled back.
    pub(crate) fn also_violates(&mut self, statement: &str, claim: &Answer) -> bool {
        (0..2).any(|way| {
            let mut answer = self.ask(statement);
            let mut reliefs = String::new();
            let mut tries = 0;
            while answer.is_violation() && !answer.is_same_failure(claim) && tries < 8 {
                let Answer::Failed { relief, .. } = &answer else {
                    return false;
                };
                let Some(relief) = relief.get(way) else {
                    return false;
                };
                reliefs.push_str(relief);
                tries += 1;
                self.client
                    .batch_execute("BEGIN")
                    .expect("no transaction is open");
                self.client
                    .batch_execute(&reliefs)
                    .expect("constraints can be dropped");
                answer = self.ask(statement);
                self.client
                    .batch_execute("ROLLBACK")
                    .expect("a transaction is open");
            }
            answer.is_same_failure(claim)
        })
    }

    /// All rows of a table, sorted as text.
    pub(crate) fn contents(&mut self, table: &str) -> Vec<TextRow> {
        match self.ask(&format!("SELECT * FROM {table}")) {
            Answer::Done { mut rows, .. } => {
                rows.sort();
                rows
            }
            failed => panic!("table {table} cannot be read:\n{failed}"),
        }
    }
}

/// Runs one call to its end, alone on its node.
pub(crate) fn run<P: Protocol>(node: &mut Node<P>, now: &mut Ticks, call: Call) -> Outcome {
    let mut out = NodeOutbox::default();
    node.step(*now, NodeInput::Call(call), &mut out);
    loop {
        assert!(
            out.messages.is_empty(),
            "a cluster of one node sends no message"
        );
        if let Some(outcome) = out.outcomes.pop() {
            return outcome;
        }
        let alarm = node.next_alarm().expect("a call waits for a timer or ends");
        *now = alarm.max(*now);
        node.step(*now, NodeInput::Tick, &mut out);
    }
}

/// A call of the procedure with this index.
pub(crate) fn call(procedure: usize, arguments: &[Value]) -> Call {
    Call::new(CallId(1), Work::Procedure(procedure), arguments)
}

/// The outcome of a call, in the form of PostgreSQL's answer.
pub(crate) fn answer(outcome: &Outcome) -> Answer {
    match &outcome.result {
        Ok(result) => Answer::Done {
            rows: text_rows(result),
            count: Some(result.count),
        },
        Err(CallError::Failed(error)) => {
            let (code, message) = (error.code.to_owned(), error.message.clone());
            Answer::Failed {
                code,
                message,
                relief: Vec::new(),
            }
        }
        Err(error) => panic!("a call that runs alone cannot conflict: {error}"),
    }
}

/// A result's rows as text.
pub(crate) fn text_rows(result: &ResultSet) -> Vec<TextRow> {
    let types: Vec<&DataType> = result
        .columns
        .iter()
        .map(|(_, data_type)| data_type)
        .collect();
    result
        .rows
        .iter()
        .map(|row| text_row(row, &types))
        .collect()
}

fn text_row(values: &[Value], types: &[&DataType]) -> TextRow {
    let text = |(value, data_type): (&Value, &&DataType)| {
        (!value.is_null()).then(|| format_text(value, data_type))
    };
    values.iter().zip(types).map(text).collect()
}

/// All rows of a table as they are stored, sorted as text. No statement is run for it.
pub(crate) fn contents(store: &Store, table: TableId) -> Vec<TextRow> {
    let schema = store.schema(table);
    let types: Vec<&DataType> = schema
        .columns
        .iter()
        .map(|column| &column.data_type)
        .collect();
    let Ok(Fetched::Range(rows)) = store.fetch(&whole_table(table), None) else {
        panic!("the latest state is always there")
    };
    let mut rows: Vec<TextRow> = rows
        .iter()
        .map(|(_, row)| text_row(&row.values(&schema.layout), &types))
        .collect();
    rows.sort();
    rows
}

/// The first rows that only one of the tables has; `None` if they are equal.
pub(crate) fn difference(ours: &[TextRow], theirs: &[TextRow]) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let only = |one: &[TextRow], other: &[TextRow]| -> Vec<String> {
        let rows = one.iter().filter(|row| other.binary_search(row).is_err());
        rows.take(5)
            .map(|row| format!("      {}", show(row)))
            .collect()
    };
    Some(format!(
        "    ours ({} rows) alone has\n{}\n    PostgreSQL's ({} rows) alone has\n{}",
        ours.len(),
        only(ours, theirs).join("\n"),
        theirs.len(),
        only(theirs, ours).join("\n")
    ))
}

/// A number from the environment.
///
/// # Panics
/// When the variable is set to something else.
pub(crate) fn setting(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}")),
        Err(_) => otherwise,
    }
}
