//! What a session has open, for other clients to read (`anabranch.transactions`).

use std::sync::Arc;

use anabranch_engine::TransactionClient;
use anabranch_sql::client::{RingRelation, SessionValue};
use anabranch_wire::{ErrorFields, Request};

use super::change::Waiting;
use super::run::Run;
use super::{Awaited, Scope, Session, State};
use crate::open_transactions::{SessionActivity, SessionTransaction};
use crate::service::errors::error;
use crate::service::{ring_rows, transactions};

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
            | State::Working { run } => Some(Arc::clone(&run.prepared.text)),
            State::CopyingIn(copying) => Some(copying.text()),
            State::Waiting(waiting) => self.waiting_text(waiting),
            _ => None,
        };
        let lock = self.environment.shared.advisory.wait_of(self.connection);
        let has_permit = self.permit.is_some() || self.backs_up;
        let activity = match (&self.state, lock) {
            (_, Some((key, blockers))) => SessionActivity::AwaitsLock {
                key: key.to_string(),
                blockers,
            },
            (State::Working { .. }, None) if self.change.is_some() && !self.is_exclusive() => {
                SessionActivity::AwaitsAll
            }
            (State::Waiting(_), None) => SessionActivity::AwaitsGate,
            // It only looks at this.
            (State::Working { run }, None) if self.block.is_none() && Session::only_looks(run) => {
                return None;
            }
            (State::Calling { .. } | State::Working { .. }, None) => SessionActivity::Runs,
            (State::Sending(_), None) if self.block.is_some() => SessionActivity::Runs,
            // Its client is to send something: data of a COPY, too.
            _ if self.block.is_some() || has_permit => SessionActivity::Idle,
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
            has_permit,
            is_alone: self.is_exclusive(),
            statement,
        })
    }

    /// Has a helper thread gather what all sessions have open, for the statement that runs.
    pub(super) fn gather_transactions(&self, scope: &Scope<'_>) -> Result<(), Box<ErrorFields>> {
        if scope.post.is_none() {
            return Err(error("57P03", "the server is starting up"));
        }
        let nodes = self.environment.nodes() as u16;
        transactions::ask(&self.environment.shared, nodes, scope.id())
    }

    /// Has a helper thread read the ring that the database is in, for the statement that runs.
    pub(super) fn gather_ring(
        &self,
        relation: RingRelation,
        scope: &Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let Some(ring) = &self.environment.ring else {
            return Err(ring_rows::in_no_ring(relation));
        };
        ring_rows::ask(&self.environment.shared, &ring.description, scope.id())
    }

    /// The text of what waits, as far as it has one.
    fn waiting_text(&self, waiting: &Waiting) -> Option<Arc<str>> {
        match waiting {
            Waiting::Statement(run) => Some(Arc::clone(&run.prepared.text)),
            Waiting::Request(Request::Query { text } | Request::Parse { text, .. }) => {
                Some(text.as_str().into())
            }
            Waiting::Request(Request::Bind { statement, .. }) => {
                let prepared = self.statements.get(statement).ok()?;
                Some(Arc::clone(&prepared.text))
            }
            Waiting::Request(_) => None,
        }
    }

    /// Whether a statement reads what sessions have open, or the ring, and nothing else: it waits for nothing.
    pub(super) fn only_looks(run: &Run) -> bool {
        let plan = run.prepared.run_plan();
        plan.is_some_and(|planned| {
            let mut wanted = planned.plan.session_values.iter();
            let looks = wanted.any(|of| {
                matches!(
                    of,
                    SessionValue::Transactions(_) | SessionValue::Ring { .. }
                )
            });
            looks && !planned.touches_tables()
        })
    }
}
