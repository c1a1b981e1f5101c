//! Causal RAMP at the coordinator (ramp.txt §6.3): what a client brings, and what a transaction that
//! commits follows.

use std::sync::Arc;

use super::RampNode;
use super::attempt::Attempt;
use super::past::{Named, Past};
use crate::{Session, TransactionId};

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
        let mut attempt = self.take(transaction).unwrap_or_default();
        let known = self.context.stability.known().clone();
        attempt.seen.follow(past, &known);
        attempt.began = Some((self.context.now, known));
        self.participant.show_past(&mut self.context, past);
        self.keep(transaction, attempt);
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
