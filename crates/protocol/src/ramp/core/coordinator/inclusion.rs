//! Which transactions a snapshot is known to include, and which it is known to lack.

use std::collections::BTreeSet;

use anabranch_storage::{CommitSequence, ItemTag};
use anabranch_types::{NodeId, Timestamp};

use crate::ramp::core::message::MissingWrites;

/// The transactions that a snapshot is known to include: all that they wrote there, which may be
/// nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inclusion {
    /// The owner's watermark when it took the snapshot: of its own transactions, all up to here.
    pub(crate) stable: Timestamp,
    /// For what was read, the snapshot is as good as one of this sequence. Of causal RAMP.
    pub(crate) unchanged_until: CommitSequence,
    /// What is known by name; most readers meet nothing of which they have to.
    pub(crate) by_name: Option<Box<ByName>>,
}

/// What a snapshot is known to include, and not to.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByName {
    /// By commit timestamp.
    included: BTreeSet<Timestamp>,
    /// What it does not include, and what that wrote there, as the owner has reported where metadata leave it open.
    missing: Vec<MissingWrites>,
}

impl Inclusion {
    pub(crate) fn contains(&self, commit: Timestamp, owner: NodeId) -> bool {
        (commit.node() == owner && commit <= self.stable)
            || (self.by_name.as_ref()).is_some_and(|known| known.included.contains(&commit))
    }

    /// What a transaction wrote there, if the snapshot is known to lack it.
    pub(crate) fn lacks(&self, commit: Timestamp) -> Option<&[ItemTag]> {
        let mut missing = self.by_name.as_ref()?.missing.iter();
        let missing = missing.find(|missing| missing.commit == commit);
        missing.map(|missing| &*missing.written)
    }

    /// It includes this one.
    pub(crate) fn include(&mut self, commit: Timestamp) {
        self.by_name.get_or_insert_default().included.insert(commit);
    }

    /// The owner has answered what was required of the snapshot.
    pub(crate) fn learn(
        &mut self,
        required: impl IntoIterator<Item = Timestamp>,
        missing: Vec<MissingWrites>,
    ) {
        let mut required = required.into_iter().peekable();
        if required.peek().is_none() && missing.is_empty() {
            return;
        }
        let known = self.by_name.get_or_insert_default();
        if missing.is_empty() {
            // So the snapshot has all that was required.
            known.included.extend(required);
            return;
        }
        let lacks = |commit: &Timestamp| missing.iter().any(|missing| missing.commit == *commit);
        known
            .included
            .extend(required.filter(|commit| !lacks(commit)));
        let new = |old: &MissingWrites| !missing.iter().any(|new| new.commit == old.commit);
        known.missing.retain(new);
        known.missing.extend(missing);
    }

    /// The snapshot was replaced by a newer one, which may include what it lacked.
    pub(crate) fn renew(&mut self) {
        if let Some(known) = &mut self.by_name {
            known.missing.clear();
        }
    }

    /// What was read is known to be unchanged until this sequence, too.
    pub(crate) fn extend_unchanged(&mut self, until: CommitSequence) {
        self.unchanged_until = self.unchanged_until.max(until);
    }

    /// What is known of the same snapshot from reading on in it.
    pub(crate) fn merge(&mut self, more: Inclusion) {
        self.unchanged_until = self.unchanged_until.min(more.unchanged_until);
        if let Some(more) = more.by_name {
            let known = self.by_name.get_or_insert_default();
            known.included.extend(more.included);
            known.missing.extend(more.missing);
        }
    }
}
