//! Output commit: a node's output is held until the log records before it are durable.
//!
//! The queue keeps the order of the output. The driver decides what "durable" means: a node with a log
//! waits for its disk ([`crate::durable`]), a replicated node for a majority ([`crate::replica`]).

use std::collections::VecDeque;

use anabranch_types::NodeId;

use crate::node::NodeOutbox;
use crate::record::{AttemptOutcome, AttemptRecord};

/// Held outboxes in order, each with the condition `C` that releases it.
#[derive(Debug)]
pub(crate) struct HeldOutput<C, M> {
    queue: VecDeque<(C, NodeOutbox<M>)>,
}

impl<C, M> Default for HeldOutput<C, M> {
    fn default() -> Self {
        HeldOutput {
            queue: VecDeque::new(),
        }
    }
}

impl<C, M> HeldOutput<C, M> {
    /// Whether no output is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes messages, outcomes and attempts out of `output` and holds them, if there are any.
    pub(crate) fn push(&mut self, condition: C, output: &mut NodeOutbox<M>) {
        if output.has_output() {
            let held = NodeOutbox {
                records: Vec::new(),
                messages: std::mem::take(&mut output.messages),
                outcomes: std::mem::take(&mut output.outcomes),
                attempts: std::mem::take(&mut output.attempts),
            };
            self.queue.push_back((condition, held));
        }
    }

    /// As [`HeldOutput::push`], but leaves in `output` what need not wait: provisional outcomes, attempts without a
    /// commit, and the messages of which `waits` says so.
    pub(crate) fn push_waiting(
        &mut self,
        condition: C,
        output: &mut NodeOutbox<M>,
        waits: impl Fn(&M) -> bool,
    ) {
        let messages = std::mem::take(&mut output.messages);
        let (held, free) = messages
            .into_iter()
            .partition(|(_, message)| waits(message));
        let outcomes = std::mem::take(&mut output.outcomes);
        let (provisional, outcomes) = outcomes.into_iter().partition(|it| it.provisional);
        let is_commit =
            |attempt: &AttemptRecord| matches!(attempt.outcome, AttemptOutcome::Committed(_));
        let attempts = std::mem::take(&mut output.attempts);
        let (attempts, ended) = attempts.into_iter().partition(is_commit);
        let mut waiting = NodeOutbox {
            records: Vec::new(),
            messages: held,
            outcomes,
            attempts,
        };
        self.push(condition, &mut waiting);
        output.messages = free;
        output.outcomes = provisional;
        output.attempts = ended;
    }

    /// Moves output to `out`, in order, up to the first entry whose condition is not met.
    pub(crate) fn release(&mut self, is_met: impl Fn(&C) -> bool, out: &mut NodeOutbox<M>) {
        while self
            .queue
            .front()
            .is_some_and(|(condition, _)| is_met(condition))
            && let Some((_, held)) = self.queue.pop_front()
        {
            out.messages.extend(held.messages);
            out.outcomes.extend(held.outcomes);
            out.attempts.extend(held.attempts);
        }
    }

    /// Drops held messages to a restarted node: they are addressed to its former incarnation.
    pub(crate) fn forget(&mut self, node: NodeId) {
        for (_, held) in &mut self.queue {
            held.messages.retain(|(to, _)| *to != node);
        }
    }
}
