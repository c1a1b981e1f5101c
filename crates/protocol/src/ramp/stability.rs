//! Which transactions are known to be committed everywhere (ramp.txt §4.8, metadata collection).
//!
//! A coordinator issues commit timestamps in ascending order, so one number says of all its
//! transactions what is stable: the watermark below its oldest one that some participant has not
//! acknowledged. It rides on every message; a participant that would not hear of it otherwise gets
//! a message of its own when a timer runs out.

use std::collections::VecDeque;

use anabranch_types::{NodeId, Timestamp};

/// What one node knows of stability.
#[derive(Debug)]
pub(super) struct Stability {
    node: NodeId,
    /// Own transactions between decision and last acknowledgement, in order; true once done.
    deciding: VecDeque<(Timestamp, bool)>,
    /// The highest commit timestamp issued to a transaction over several partitions.
    issued: Timestamp,
    /// By node: the highest watermark heard of. The own entry is the own watermark.
    known: Vec<Timestamp>,
    /// By node: the watermark told last, and the highest timestamp that it took part in.
    told: Vec<(Timestamp, Timestamp)>,
}

impl Stability {
    pub(super) fn new(node: NodeId, nodes: usize) -> Stability {
        Stability {
            node,
            deciding: VecDeque::new(),
            issued: Timestamp::ZERO,
            known: vec![Timestamp::ZERO; nodes],
            told: vec![(Timestamp::ZERO, Timestamp::ZERO); nodes],
        }
    }

    /// Whether the transaction is known to be committed on all its partitions.
    #[inline]
    pub(super) fn is_stable(&self, commit: Timestamp) -> bool {
        commit <= self.known[commit.node().index()]
    }

    /// The own watermark.
    #[inline]
    pub(super) fn own(&self) -> Timestamp {
        self.known[self.node.index()]
    }

    /// An own transaction has been decided, with these other nodes taking part.
    pub(super) fn decided(&mut self, commit: Timestamp, others: impl Iterator<Item = NodeId>) {
        debug_assert!(commit > self.issued, "commit timestamps ascend");
        self.issued = commit;
        self.deciding.push_back((commit, false));
        for node in others {
            self.told[node.index()].1 = commit;
        }
    }

    /// An own transaction has been acknowledged by all its participants.
    pub(super) fn done(&mut self, commit: Timestamp) {
        let at = self
            .deciding
            .binary_search_by_key(&commit, |(timestamp, _)| *timestamp);
        self.deciding[at.expect("a transaction is decided before it is done")].1 = true;
        while let Some((_, true)) = self.deciding.front() {
            self.deciding.pop_front();
        }
        self.known[self.node.index()] = match self.deciding.front() {
            Some((oldest, _)) => Timestamp::from_bits(oldest.to_bits() - 1),
            None => self.issued,
        };
    }

    /// A node has told its watermark. True if it is news.
    pub(super) fn heard(&mut self, from: NodeId, watermark: Timestamp) -> bool {
        let known = &mut self.known[from.index()];
        let news = watermark > *known;
        *known = watermark.max(*known);
        news
    }

    /// The watermark to put on a message to this node.
    #[inline]
    pub(super) fn tell(&mut self, to: NodeId) -> Timestamp {
        let own = self.own();
        self.told[to.index()].0 = own;
        own
    }

    /// The nodes that wait to be told of something that is stable by now.
    pub(super) fn untold(&self) -> impl Iterator<Item = NodeId> + '_ {
        let own = self.own();
        let waits =
            move |(told, took_part): &(Timestamp, Timestamp)| told < took_part && *told < own;
        (0u16..)
            .zip(&self.told)
            .filter(move |(_, told)| waits(told))
            .map(|(node, _)| NodeId(node))
    }

    /// Whether every own transaction that was decided is done.
    pub(super) fn is_idle(&self) -> bool {
        self.deciding.is_empty()
    }

    /// RAMP-I6, as far as one node sees it.
    pub(super) fn check_invariants(&self) -> Result<(), String> {
        let mut before = self.own();
        for (commit, _) in &self.deciding {
            if *commit <= before {
                return Err(format!(
                    "RAMP-I6: {commit} is decided, yet {before} is not below it"
                ));
            }
            before = *commit;
        }
        match self.deciding.front() {
            Some((oldest, true)) => Err(format!("RAMP-I6: {oldest} is done and still oldest")),
            _ => Ok(()),
        }
    }
}
