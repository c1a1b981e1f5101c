//! The coordinator: the transactions that run at a node.
//!
//! * `attempt`: what is known of one; `observed`: what it has to see in every snapshot.
//! * `read`: GET_ALL; `write`: PUT_ALL (ramp.txt, Algorithm 1).

pub(crate) mod attempt;
pub(crate) mod inclusion;
pub(crate) mod observed;
mod read;
pub(crate) mod write;

use std::borrow::Cow;

use crate::ramp::core::coordinator::attempt::{Attempt, Phase};
use crate::ramp::core::extension::is_remote;
use crate::ramp::core::message::Stamped;
use crate::ramp::node::RampNode;
use crate::{AbortReason, Outbox, Reply, TransactionId};

/// How many attempts that are over a node keeps, to use them again.
const SPARE: usize = 64;

impl RampNode {
    pub(crate) fn take(&mut self, transaction: TransactionId) -> Option<Box<Attempt>> {
        match &self.current {
            Some((current, _)) if *current == transaction => self.current.take().map(|(_, a)| a),
            _ if self.attempts.is_empty() => None,
            _ => self.attempts.remove(&transaction),
        }
    }

    /// The attempt of a transaction, or a new one.
    pub(crate) fn take_or_begin(&mut self, transaction: TransactionId) -> Box<Attempt> {
        let begun = self.take(transaction);
        begun.unwrap_or_else(|| self.spare.pop().unwrap_or_default())
    }

    /// An attempt is over.
    pub(crate) fn recycle(&mut self, mut attempt: Box<Attempt>) {
        if self.spare.len() < SPARE && attempt.is_small() {
            attempt.clear();
            self.spare.push(attempt);
        }
    }

    /// Keeps an attempt that waits for its procedure.
    pub(crate) fn keep_idle(&mut self, transaction: TransactionId, attempt: Box<Attempt>) {
        if let Some((other, idle)) = self.current.replace((transaction, attempt)) {
            self.attempts.insert(other, idle);
        }
    }

    /// Keeps an attempt that waits for other nodes.
    pub(crate) fn keep_waiting(&mut self, transaction: TransactionId, attempt: Box<Attempt>) {
        self.attempts.insert(transaction, attempt);
    }

    /// The procedure gave up. Answers that are under way are dropped when they arrive.
    pub(crate) fn forget(&mut self, transaction: TransactionId) {
        if let Some(attempt) = self.take(transaction) {
            self.recycle(attempt);
        }
        self.counters.aborts += 1;
    }

    pub(crate) fn abort(
        &mut self,
        transaction: TransactionId,
        reason: AbortReason,
        out: &mut Outbox<Stamped>,
    ) {
        self.counters.aborts += 1;
        if is_remote(transaction) {
            return self.remote_aborted(transaction, out);
        }
        out.replies.push((transaction, Reply::Aborted(reason)));
    }

    /// The invariants that a coordinator can see.
    pub(crate) fn check_attempts(&self) -> Result<(), String> {
        let mut attempts: Vec<_> = self
            .attempts
            .iter()
            .map(|(id, attempt)| (*id, attempt))
            .collect();
        attempts.extend(self.current.as_ref().map(|(id, attempt)| (*id, attempt)));
        attempts.sort_unstable_by_key(|(id, _)| *id);
        for (id, attempt) in attempts {
            self.check_decided(attempt)?;
            let mut attempt = Cow::Borrowed(&**attempt);
            if matches!(attempt.phase, Phase::Idle) {
                if !attempt.batch.parts.is_empty() {
                    attempt.to_mut().fold_batch();
                }
                if !self.missing(&attempt).is_empty() && attempt.views.len() > 1 {
                    return Err(format!("RAMP-I4: {id:?} has been given a fractured view"));
                }
            }
            let mut partitions: Vec<_> = attempt.views.iter().map(|view| view.partition).collect();
            partitions.sort_unstable();
            partitions.dedup();
            if partitions.len() != attempt.views.len() {
                return Err(format!(
                    "RAMP-I3: {id:?} reads a partition in two snapshots"
                ));
            }
        }
        Ok(())
    }
}
