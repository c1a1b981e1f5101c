//! What a session has open, for other clients to read (`anabranch.transactions`).

use std::sync::Arc;

use anabranch_engine::TransactionClient;
use anabranch_wire::ErrorFields;

use super::change::Waiting;
use super::run::Run;
use super::{Awaited, Scope, Session, State};
use crate::frontend::{JobDone, Note};
use crate::open_transactions::{SessionActivity, SessionTransaction};
use crate::service::errors::error;
use crate::service::transactions;

impl Session {
    /// What the session has open, if it has something.
    pub(crate) fn open_transaction(&self) -> Option<SessionTransaction> {
        let call = match &self.state {
            State::Calling { call, .. } => Some(call),
            _ => None,
        };
        let (block, mut since) = match self.described_block() {
            Some((at_node, since)) => (at_node, Some(since)),
            None => (None, None),
        };
        let at_node = block.or(call.map(|call| (call.node, TransactionClient::Call(call.id))));
        let statement = match &self.state {
            State::Calling {
                awaited: Awaited::Statement(run),
                ..
            }
            | State::Working { run } => Some(run),
            _ => None,
        };
        let mut statement = statement.map(|run| run.prepared.text.to_string());
        let lock = self.environment.shared.advisory.wait_of(self.connection);
        let activity = match (&self.state, lock) {
            (_, Some((key, blockers))) => SessionActivity::AwaitsLock {
                key: key.to_string(),
                blockers,
            },
            (State::Working { .. }, None) if self.change.is_some() && !self.is_exclusive() => {
                SessionActivity::AwaitsAll
            }
            (State::Waiting(waiting), None) => {
                if let Waiting::Statement(run) = &**waiting {
                    statement = Some(run.prepared.text.to_string());
                }
                SessionActivity::AwaitsGate
            }
            // It only looks at this.
            (State::Working { run }, None) if self.block.is_none() && Session::only_looks(run) => {
                return None;
            }
            (State::Calling { .. } | State::Working { .. }, None) => SessionActivity::Runs,
            (State::Sending(_) | State::CopyingIn(_), None) if self.block.is_some() => {
                SessionActivity::Runs
            }
            _ if self.block.is_some() => SessionActivity::Idle,
            _ => return None,
        };
        since = since.or(call.map(|call| call.since));
        let setting = |name: &str| self.settings.get(name).unwrap_or_default();
        Some(SessionTransaction {
            process: self.key.process(),
            user: self.settings.identity().user.clone(),
            application: setting("application_name"),
            at_node,
            since,
            activity,
            has_permit: self.permit.is_some(),
            is_alone: self.is_exclusive(),
            statement,
        })
    }

    /// Has a helper thread gather what all sessions have open, for the statement that runs.
    pub(super) fn gather_transactions(&self, scope: &Scope<'_>) -> Result<(), Box<ErrorFields>> {
        let Some(post) = scope.post.map(Arc::clone) else {
            return Err(error("57P03", "the server is starting up"));
        };
        let shared = Arc::clone(&self.environment.shared);
        let nodes = self.environment.nodes() as u16;
        let (node, connection, place) = (scope.node, scope.connection, scope.place);
        let work = move || {
            let result = transactions::gather(&shared, nodes).map(JobDone::Gathered);
            let note = Note::Done {
                connection,
                place,
                result,
            };
            post.post(node, note);
        };
        // Not on the thread that analyses statements: the wait for it may be what is looked for.
        let spawned = std::thread::Builder::new()
            .name("transactions".to_owned())
            .spawn(work);
        spawned.map_err(|failure| error("53000", format!("cannot start a thread: {failure}")))?;
        Ok(())
    }

    /// Whether a statement reads what sessions have open and nothing else: it waits for nothing.
    pub(super) fn only_looks(run: &Run) -> bool {
        let plan = run.prepared.run_plan();
        plan.is_some_and(|planned| {
            let mut wanted = planned.plan.session_values.iter();
            let looks =
                wanted.any(|of| matches!(of, anabranch_sql::client::SessionValue::Transactions(_)));
            looks && !planned.touches_tables()
        })
    }
}
