//! Causal RAMP at the coordinator (ramp.txt §6.3): what a client brings, and what a transaction that
//! commits follows.

use std::sync::Arc;

use anabranch_types::{NodeId, Timestamp};

use super::RampNode;
use super::attempt::Attempt;
use super::message::{Message, Stamped};
use super::past::{Named, Past};
use crate::{Outbox, Session, TimerId, TransactionId};

/// The timer that looks whether own transactions have waited for what they follow for too long.
pub(super) const AWAIT: TimerId = TimerId(3);

impl RampNode {
    /// The transaction comes after all that its client has seen. What of that is prepared here is shown at
    /// once: the client could not know of it if it had not committed.
    pub(super) fn follow(&mut self, transaction: TransactionId, session: &Session) {
        let Some(past) = &session.past else {
            return;
        };
        if !self.options.causal {
            return;
        }
        let mut attempt = self.take_or_begin(transaction);
        let known = self.context.stability.known().clone();
        attempt.seen.follow(past, &known);
        attempt.began = Some((self.context.now, known));
        self.participant.show_past(&mut self.context, past);
        self.keep(transaction, attempt);
    }

    /// Sets the timer if own transactions wait for what they follow, and its coordinators were not asked.
    pub(super) fn await_later(&mut self, out: &mut Outbox<Stamped>) {
        if self.awaiting.is_none() {
            self.awaiting = self.context.stability.waiting();
            if self.awaiting.is_some() {
                let due = self.context.now + self.options.await_after;
                out.timers.push((due, AWAIT));
            }
        }
    }

    /// Asks the coordinators of what own transactions have waited for too long. Watermarks come with what is
    /// said anyway; but who takes part in nothing of a node's, and hears from nobody who does, would never
    /// learn of its, and all that it did itself from then on would be kept for readers.
    pub(super) fn await_stable(&mut self, out: &mut Outbox<Stamped>) {
        let oldest = self.awaiting.take();
        if oldest.is_some() && oldest == self.context.stability.waiting() {
            for commit in self.context.stability.take_unasked() {
                self.send(commit.node(), Message::Await { commit }, out);
            }
        }
    }

    /// Another node waits for a transaction of this one.
    pub(super) fn handle_await(
        &mut self,
        from: NodeId,
        commit: Timestamp,
        out: &mut Outbox<Stamped>,
    ) {
        let own = self.owner(self.partition);
        if commit.node() == own && self.context.stability.awaited(from, commit) {
            self.send(from, Message::Stable, out);
        }
    }

    /// What an attempt follows that commits now; nothing if it has seen nothing.
    pub(super) fn past(&self, attempt: &Attempt) -> Option<Arc<Past>> {
        let frontier = self.context.stability.frontier()?;
        attempt.began.as_ref()?;
        let mut reach = attempt.seen.reach.clone();
        // What it saw that is known to be shown everywhere is not named.
        reach.merge(&frontier.reach);
        for view in &attempt.views {
            // Nor is what committed in one step.
            reach.raise(view.partition, view.snapshot);
        }
        let named = attempt.seen.named(&frontier.known).into_boxed_slice();
        Some(Arc::new(Past { reach, named }))
    }

    /// What a client has seen whose transaction has committed and followed this; `own` if not everybody
    /// shows it yet.
    pub(super) fn session(&self, past: Option<&Past>, own: Option<Named>) -> Session {
        let Some(frontier) = self.context.stability.frontier() else {
            return Session::default();
        };
        // Who has acknowledged the commit has said how far its owner had come.
        let mut reach = frontier.reach.clone();
        let mut named: Vec<Named> = Vec::new();
        if let Some(past) = past {
            reach.merge(&past.reach);
            let unknown = past.named.iter();
            let unknown = unknown.filter(|named| !frontier.known.includes(named.commit));
            named.extend(unknown.cloned());
        }
        named.extend(own);
        let named = named.into_boxed_slice();
        Session {
            past: Some(Arc::new(Past { reach, named })),
        }
    }
}
