//! What is between a node and other clusters under sticky clusters: what they have to apply, and what is applied here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_types::{NodeId, Ticks, Timestamp};
use smallvec::SmallVec;

use crate::TransactionId;
use crate::ramp::core::message::Replicate;
use crate::ramp::recovery::record::AppliedRecord;

/// Marks the transactions of other clusters among those of the engine above.
pub(crate) const REMOTE: u64 = 1 << 63;

/// What is between this node and other clusters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sticky {
    /// By origin commit timestamp: what other clusters are not known to have installed.
    pub(crate) outgoing: BTreeMap<Timestamp, Outgoing>,
    /// By number of the attempt, which no incarnation uses twice: what is on its way into this cluster.
    pub(crate) incoming: BTreeMap<u64, Incoming>,
    /// What could not be applied at once, and when it is tried again.
    pub(crate) again: VecDeque<(Ticks, Incoming)>,
    /// By sending node: what this cluster has of it.
    pub(crate) applied: BTreeMap<NodeId, Applied>,
}

/// What has been applied of what a node of another cluster has decided.
#[derive(Clone, Debug, Default)]
pub(crate) struct Applied {
    /// Everything below this that was sent here is installed here.
    pub(crate) below: Timestamp,
    /// Decided here, and not installed everywhere.
    pub(crate) decided: BTreeSet<Timestamp>,
    /// Installed.
    pub(crate) installed: BTreeSet<Timestamp>,
}

impl Applied {
    pub(crate) fn remote_installed(&self, origin_commit: Timestamp) -> bool {
        origin_commit < self.below || self.installed.contains(&origin_commit)
    }

    /// What lies below will not be sent again, except by a node that does not know that it is installed.
    pub(crate) fn forget_below(&mut self, lowest: Timestamp) {
        if lowest > self.below {
            self.below = lowest;
            self.installed = self.installed.split_off(&lowest);
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) replicate: Replicate,
    /// The nodes whose clusters are not known to have installed it.
    pub(crate) waiting: SmallVec<[NodeId; 4]>,
}

#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub(crate) from: NodeId,
    pub(crate) replicate: Replicate,
}

impl Sticky {
    /// Whether every cluster has everything, as far as this node has to do with it.
    pub(crate) fn is_idle(&self) -> bool {
        self.outgoing.is_empty() && self.incoming.is_empty() && self.again.is_empty()
    }

    /// What other clusters still have to apply, for a checkpoint.
    pub(crate) fn outgoing(&self) -> impl Iterator<Item = &Replicate> {
        self.outgoing.values().map(|outgoing| &outgoing.replicate)
    }

    /// Every cluster has installed it, as it stands in the log.
    pub(crate) fn replay_replicated(&mut self, origin_commit: Timestamp) {
        self.outgoing.remove(&origin_commit);
    }

    pub(crate) fn knows(&self, from: NodeId, origin_commit: Timestamp) -> bool {
        let again = self.again.iter().map(|(_, incoming)| incoming);
        let mut known = self.incoming.values().chain(again);
        known.any(|incoming| {
            incoming.from == from && incoming.replicate.origin_commit == origin_commit
        }) || self.has_decided(origin_commit)
    }

    /// Whether this cluster has installed what has this origin commit timestamp, or will.
    pub(crate) fn has_decided(&self, origin_commit: Timestamp) -> bool {
        let applied = self.applied.get(&origin_commit.node());
        applied.is_some_and(|applied| {
            applied.decided.contains(&origin_commit) || applied.remote_installed(origin_commit)
        })
    }

    /// This cluster will install it, whatever happens.
    pub(crate) fn decided(&mut self, origin_commit: Timestamp) {
        self.applied
            .entry(origin_commit.node())
            .or_default()
            .decided
            .insert(origin_commit);
    }

    /// This cluster has installed it.
    pub(crate) fn installed(&mut self, origin_commit: Timestamp) {
        let applied = self.applied.entry(origin_commit.node()).or_default();
        applied.decided.remove(&origin_commit);
        if !applied.remote_installed(origin_commit) {
            applied.installed.insert(origin_commit);
        }
    }

    /// What has been applied, for a checkpoint.
    pub(crate) fn applied(&self) -> impl Iterator<Item = AppliedRecord> {
        self.applied.iter().map(|(from, applied)| AppliedRecord {
            from: *from,
            below: applied.below,
            decided: applied.decided.iter().copied().collect(),
            installed: applied.installed.iter().copied().collect(),
        })
    }

    /// The same, as it was written down.
    pub(crate) fn replay_applied(&mut self, record: AppliedRecord) {
        let applied = self.applied.entry(record.from).or_default();
        applied.forget_below(record.below);
        applied.decided.extend(record.decided);
        applied.installed.extend(record.installed);
    }

    /// How many origin commit timestamps of applied transactions are remembered.
    pub(crate) fn remembered(&self) -> usize {
        let each = self.applied.values();
        each.map(|applied| applied.decided.len() + applied.installed.len())
            .sum()
    }

    /// Up to where, exclusively, a node has installed everything that is sent to it. It stays so: what is decided
    /// later has a commit timestamp above all that the clock has shown.
    pub(crate) fn lowest_for(&self, node: NodeId) -> Timestamp {
        let mut waiting = self
            .outgoing
            .iter()
            .filter(|(_, out)| out.waiting.contains(&node));
        waiting
            .next()
            .map_or(Timestamp::ZERO, |(origin_commit, _)| *origin_commit)
    }
}

/// Whether a transaction is another cluster's, applied by this node.
pub(crate) fn is_remote(transaction: TransactionId) -> bool {
    transaction.sequence & REMOTE != 0
}
