//! The rows of `anabranch.transactions`: what sessions and nodes say of open transactions, combined.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

use anabranch_engine::{NodeTransactions, NodeWait, OpenTransaction, TransactionClient};
use anabranch_protocol::TransactionId;
use anabranch_sql::client::TransactionColumn;
use anabranch_types::{NodeId, Value};

/// What a session has open.
#[derive(Clone, Debug)]
pub(crate) struct SessionTransaction {
    pub(crate) process: i32,
    pub(crate) user: String,
    pub(crate) application: String,
    /// What runs for it at a node.
    pub(crate) at_node: Option<(NodeId, TransactionClient)>,
    /// When it began, in microseconds since 2000-01-01 UTC, if that is known.
    pub(crate) since: Option<i64>,
    pub(crate) activity: SessionActivity,
    /// Whether the gate cannot be closed because of it.
    pub(crate) has_permit: bool,
    /// Whether it runs alone.
    pub(crate) is_alone: bool,
    /// The statement that runs or waits.
    pub(crate) statement: Option<Arc<str>>,
}

/// What a session does in its transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionActivity {
    /// Nothing: its client is to send something.
    Idle,
    /// It runs a statement, as far as it knows.
    Runs,
    /// It waits until it may begin, since another one is to run alone.
    AwaitsGate,
    /// It waits until all others have ended.
    AwaitsAll,
    /// It waits for an advisory lock, and for these connections.
    AwaitsLock { key: String, blockers: Vec<i32> },
}

/// A row of the relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TransactionRow {
    process: i32,
    user: String,
    application: String,
    node: Option<NodeId>,
    since: Option<i64>,
    state: &'static str,
    waits_for: Option<String>,
    blocked_by: Vec<i32>,
    replays: u32,
    statement: Option<String>,
}

/// Asks the nodes that run what has not ended there.
pub(crate) trait LookAtNodes: Send + Sync {
    /// Asks each of them, without waiting.
    fn begin(&self) -> Look;
}

/// The answers of nodes, which come one by one.
pub(crate) struct Look {
    answers: Receiver<(NodeId, NodeTransactions)>,
    nodes: usize,
}

impl Look {
    /// So many nodes will answer.
    pub(crate) fn new(nodes: usize) -> (Sender<(NodeId, NodeTransactions)>, Look) {
        let (sender, answers) = channel();
        (sender, Look { answers, nodes })
    }

    /// No nodes run.
    pub(crate) fn at_none() -> Look {
        Look::new(0).1
    }

    /// Waits for all of them until this time.
    ///
    /// # Errors
    /// When they have ended meanwhile, or do not answer in time.
    pub(crate) fn wait(self, until: Instant) -> Result<Vec<NodeTransactions>, NoAnswer> {
        let mut found: Vec<NodeTransactions> = (0..self.nodes)
            .map(|_| NodeTransactions::default())
            .collect();
        for _ in 0..self.nodes {
            let left = until.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left) {
                Ok((node, of_node)) => found[node.index()] = of_node,
                Err(RecvTimeoutError::Disconnected) => return Err(NoAnswer::Ended),
                Err(RecvTimeoutError::Timeout) => return Err(NoAnswer::Late),
            }
        }
        Ok(found)
    }
}

/// Why nodes have not said what is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// They have ended: others run by now, or will.
    Ended,
    /// A thread is busy for too long.
    Late,
}

/// Combines what sessions and nodes have said.
pub(crate) fn rows(
    sessions: &[SessionTransaction],
    nodes: &[NodeTransactions],
) -> Vec<TransactionRow> {
    let own: Vec<(NodeId, &OpenTransaction)> = (0..)
        .map(NodeId)
        .zip(nodes)
        .flat_map(|(node, of)| of.own.iter().map(move |of| (node, of)))
        .collect();
    let at_node = |session: &SessionTransaction| {
        let (node, client) = session.at_node?;
        let mut own = own.iter();
        own.find(|(at, of)| (*at, of.client) == (node, client))
            .map(|(_, of)| *of)
    };
    let processes: BTreeMap<TransactionId, i32> = sessions
        .iter()
        .filter_map(|session| Some((at_node(session)?.transaction?, session.process)))
        .collect();
    let pids = |transactions: &[TransactionId]| {
        let known = transactions.iter().filter_map(|of| processes.get(of));
        known.copied().collect::<Vec<i32>>()
    };
    let others = |session: &SessionTransaction, of: fn(&SessionTransaction) -> bool| {
        let others = sessions.iter().filter(|other| of(other));
        let others = others.map(|other| other.process);
        others.filter(|other| *other != session.process).collect()
    };
    let row = |session: &SessionTransaction| {
        let open = at_node(session);
        let transaction = open.and_then(|open| open.transaction);
        // At several nodes, if the statement locks rows at each of them.
        let waits = nodes.iter().flat_map(|node| &node.waits);
        let waits: Vec<&NodeWait> = waits
            .filter(|wait| Some(wait.transaction) == transaction)
            .collect();
        let is_prepared = transaction.is_some_and(|transaction| {
            let mut prepared = nodes.iter().flat_map(|node| &node.prepared);
            prepared.any(|of| *of == transaction)
        });
        let (waits_for, blocked_by) = match (&session.activity, &waits[..]) {
            (SessionActivity::AwaitsGate, _) => (
                Some("the end of what runs alone".to_owned()),
                others(session, |other| {
                    other.is_alone || other.activity == SessionActivity::AwaitsAll
                }),
            ),
            (SessionActivity::AwaitsAll, _) => (
                Some("the end of all other transactions".to_owned()),
                others(session, |other| other.has_permit || other.is_alone),
            ),
            (SessionActivity::AwaitsLock { key, blockers }, _) => {
                (Some(format!("advisory lock {key}")), blockers.clone())
            }
            (_, []) => (None, Vec::new()),
            (_, waits) => {
                let what: BTreeSet<&str> = waits.iter().map(|wait| &*wait.what).collect();
                let what: Vec<&str> = what.into_iter().collect();
                let blockers: BTreeSet<i32> =
                    waits.iter().flat_map(|wait| pids(&wait.blockers)).collect();
                (Some(what.join("; ")), blockers.into_iter().collect())
            }
        };
        TransactionRow {
            process: session.process,
            user: session.user.clone(),
            application: session.application.clone(),
            node: session.at_node.map(|(node, _)| node),
            since: session.since,
            state: match &session.activity {
                _ if waits_for.is_some() => "waits",
                _ if is_prepared => "in doubt",
                _ if open.is_some_and(|open| open.is_committing) => "committing",
                _ if session.is_alone => "alone",
                SessionActivity::Idle => "idle",
                _ => "running",
            },
            waits_for,
            blocked_by,
            replays: open.map_or(0, |open| open.attempts.saturating_sub(1)),
            statement: session.statement.as_deref().map(begin_of),
        }
    };
    let mut rows: Vec<TransactionRow> = sessions.iter().map(row).collect();
    rows.sort_by_key(|row| (row.since.unwrap_or(i64::MAX), row.process));
    rows
}

/// As much of a statement as is shown, in bytes; as in PostgreSQL.
const STATEMENT_BYTES_MAX: usize = 1_023;

/// The begin of a statement.
fn begin_of(text: &str) -> String {
    let mut end = text.len().min(STATEMENT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// A column of rows, as an array.
pub(crate) fn column_of(rows: &[TransactionRow], column: TransactionColumn) -> Value {
    let text = |text: &Option<String>| text.as_ref().map_or(Value::Null, Value::text);
    let value = |row: &TransactionRow| match column {
        TransactionColumn::Pid => Value::Int(row.process.into()),
        TransactionColumn::User => Value::text(&row.user),
        TransactionColumn::Application => Value::text(&row.application),
        TransactionColumn::Node => row
            .node
            .map_or(Value::Null, |node| Value::Int(node.0.into())),
        TransactionColumn::Since => row.since.map_or(Value::Null, Value::Timestamp),
        TransactionColumn::State => Value::text(row.state),
        TransactionColumn::WaitsFor => text(&row.waits_for),
        TransactionColumn::BlockedBy if row.blocked_by.is_empty() => Value::Null,
        TransactionColumn::BlockedBy => {
            let pids = row.blocked_by.iter().map(ToString::to_string);
            Value::text(pids.collect::<Vec<_>>().join(", "))
        }
        TransactionColumn::Replays => Value::Int(row.replays.into()),
        TransactionColumn::Statement => text(&row.statement),
    };
    Value::Array(rows.iter().map(value).collect())
}

/// Where a thread's connections send what their sessions have open.
pub(crate) type Describe = Sender<Vec<SessionTransaction>>;

#[cfg(test)]
mod tests {
    use anabranch_engine::CallId;

    use super::*;

    fn session(process: i32, call: u64, activity: SessionActivity) -> SessionTransaction {
        SessionTransaction {
            process,
            user: "ann".to_owned(),
            application: String::new(),
            at_node: Some((NodeId(0), TransactionClient::Call(CallId(call)))),
            since: Some(process.into()),
            activity,
            has_permit: true,
            is_alone: false,
            statement: None,
        }
    }

    fn transaction(sequence: u64) -> TransactionId {
        TransactionId {
            node: NodeId(0),
            sequence,
        }
    }

    fn open(call: u64) -> OpenTransaction {
        OpenTransaction {
            client: TransactionClient::Call(CallId(call)),
            transaction: Some(transaction(call)),
            is_committing: true,
            attempts: 3,
        }
    }

    #[test]
    fn waits_are_told_by_the_connections_of_both_ends() {
        let sessions = [
            session(6, 4, SessionActivity::Runs),
            session(7, 1, SessionActivity::Runs),
            session(8, 2, SessionActivity::Idle),
            session(9, 3, SessionActivity::AwaitsAll),
        ];
        let nodes = [
            NodeTransactions {
                own: vec![open(1), open(2), open(4)],
                ..NodeTransactions::default()
            },
            NodeTransactions {
                waits: vec![NodeWait {
                    transaction: transaction(1),
                    what: "items (id = 5)".to_owned(),
                    blockers: vec![transaction(2), transaction(77)],
                }],
                prepared: vec![transaction(2)],
                ..NodeTransactions::default()
            },
        ];
        let rows = rows(&sessions, &nodes);
        let said: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.process,
                    row.state,
                    row.waits_for.as_deref(),
                    &row.blocked_by[..],
                )
            })
            .collect();
        assert_eq!(
            said,
            [
                (6, "committing", None, &[][..]),
                (7, "waits", Some("items (id = 5)"), &[8]),
                (8, "in doubt", None, &[]),
                (
                    9,
                    "waits",
                    Some("the end of all other transactions"),
                    &[6, 7, 8]
                ),
            ]
        );
        assert_eq!(rows[1].replays, 2);
    }

    #[test]
    fn waits_at_several_nodes_are_told_together() {
        let sessions = [
            session(7, 1, SessionActivity::Runs),
            session(8, 2, SessionActivity::Idle),
            session(9, 3, SessionActivity::Idle),
        ];
        let waits = |what: &str, blockers: Vec<TransactionId>| {
            let wait = NodeWait {
                transaction: transaction(1),
                what: what.to_owned(),
                blockers,
            };
            vec![wait]
        };
        let nodes = [
            NodeTransactions {
                own: vec![open(1), open(2), open(3)],
                waits: waits("items (id = 5)", vec![transaction(3)]),
                ..NodeTransactions::default()
            },
            NodeTransactions {
                waits: waits("items (id = 6)", vec![transaction(3), transaction(2)]),
                ..NodeTransactions::default()
            },
        ];
        let row = &rows(&sessions, &nodes)[0];
        assert_eq!(
            row.waits_for.as_deref(),
            Some("items (id = 5); items (id = 6)")
        );
        assert_eq!(row.blocked_by, [8, 9]);
    }

    #[test]
    fn a_long_statement_is_shown_as_far_as_postgresql_shows_it() {
        let mut one = session(7, 1, SessionActivity::Runs);
        one.statement = Some(format!("SELECT '{}'", "ä".repeat(2_000)).into());
        let shown = rows(&[one], &[])[0].statement.clone();
        let shown = shown.expect("it is shown");
        assert_eq!((shown.len(), shown.chars().last()), (1_022, Some('ä')));
    }
}
