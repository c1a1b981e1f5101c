//! The rows of `anabranch.transactions`: what sessions and nodes say of open transactions, combined.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use anabranch_engine::{NodeTransactions, OpenTransaction, TransactionClient};
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
    /// The statement that runs.
    pub(crate) statement: Option<String>,
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

/// Says what has not ended at the nodes that run.
pub(crate) trait LookAtNodes: Send + Sync {
    /// What has not ended at each node; nothing while none run.
    fn open_transactions(&self) -> Vec<NodeTransactions>;
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
        let mut waits = nodes.iter().flat_map(|node| &node.waits);
        let wait = waits.find(|wait| Some(wait.transaction) == transaction);
        let is_prepared = transaction.is_some_and(|transaction| {
            let mut prepared = nodes.iter().flat_map(|node| &node.prepared);
            prepared.any(|of| *of == transaction)
        });
        let (waits_for, blocked_by) = match (&session.activity, wait) {
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
            (_, Some(wait)) => (Some(wait.what.clone()), pids(&wait.blockers)),
            (_, None) => (None, Vec::new()),
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
            statement: session.statement.clone(),
        }
    };
    let mut rows: Vec<TransactionRow> = sessions.iter().map(row).collect();
    rows.sort_by_key(|row| (row.since.unwrap_or(i64::MAX), row.process));
    rows
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
    use anabranch_engine::{CallId, NodeWait};

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
}
