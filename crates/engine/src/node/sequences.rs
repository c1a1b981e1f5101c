//! The sequences of a node: how they start, and what has to be logged of them.

use std::rc::Rc;

use anabranch_protocol::Protocol;
use anabranch_types::{SequenceId, SequencePoint};

use super::Node;
use crate::sequence::{NodeSequences, SequenceCounters, SequenceStarts};

impl<P: Protocol> Node<P> {
    /// Lets the node count by these counters, which other nodes of the process share. `only_forward`: whether `setval` may
    /// not take a sequence back, because the plan relies on that its numbers are new.
    #[must_use]
    pub fn with_sequence_counters(self, counters: SequenceCounters, only_forward: bool) -> Node<P> {
        Node {
            sequences: Rc::new(NodeSequences::sharing(counters, only_forward)),
            ..self
        }
    }

    /// Lets the node draw numbers with the residue `place` modulo `slots`, as a server of a ring does. Its sequences count in
    /// steps of 1.
    #[must_use]
    pub fn with_sequence_residue(self, place: u16, slots: u16) -> Node<P> {
        Node {
            sequences: Rc::new(NodeSequences::of_server(place, slots)),
            ..self
        }
    }

    /// Starts the node's sequences at these points.
    #[must_use]
    pub fn with_sequence_starts(self, starts: &SequenceStarts) -> Node<P> {
        self.sequences.start_after(starts);
        self
    }

    /// The sequences that have passed their logged bounds, with the new bounds.
    pub(crate) fn passed_bounds(&self) -> Vec<(SequenceId, SequencePoint)> {
        self.sequences.passed_bounds()
    }
}
