//! What a node has said and may not leave yet, in the order in which it was said.
//!
//! A node with a log waits for its disk, one with replicas for a majority of them: what is waited for
//! is the driver's business ([`crate::durable`], [`crate::replica`]).

use std::collections::VecDeque;

use anabranch_types::NodeId;

use crate::node::NodeOutbox;

/// Outboxes, each with what it waits for.
#[derive(Debug)]
pub(crate) struct Withheld<U, M> {
    queue: VecDeque<(U, NodeOutbox<M>)>,
}

impl<U, M> Default for Withheld<U, M> {
    fn default() -> Self {
        Withheld {
            queue: VecDeque::new(),
        }
    }
}

impl<U, M> Withheld<U, M> {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Withholds what has been said, if anything was.
    pub(crate) fn push(&mut self, until: U, said: &mut NodeOutbox<M>) {
        if said.says_something() {
            let kept = NodeOutbox {
                records: Vec::new(),
                messages: std::mem::take(&mut said.messages),
                outcomes: std::mem::take(&mut said.outcomes),
                attempts: std::mem::take(&mut said.attempts),
            };
            self.queue.push_back((until, kept));
        }
    }

    /// Lets out what waits no more, up to the first that does.
    pub(crate) fn release(&mut self, free: impl Fn(&U) -> bool, out: &mut NodeOutbox<M>) {
        while self.queue.front().is_some_and(|(until, _)| free(until))
            && let Some((_, said)) = self.queue.pop_front()
        {
            out.messages.extend(said.messages);
            out.outcomes.extend(said.outcomes);
            out.attempts.extend(said.attempts);
        }
    }

    /// Drops messages to a node that has come back: they were meant for the dead.
    pub(crate) fn forget(&mut self, node: NodeId) {
        for (_, said) in &mut self.queue {
            said.messages.retain(|(to, _)| *to != node);
        }
    }
}
