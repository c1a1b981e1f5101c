//! The owner of a partition: answers reads, prepares, commits, and knows what is unstable.

mod handler;

mod commit;
mod compatibility;
mod get;
pub(crate) mod installed;
pub(crate) mod intents;
mod invariants;
mod prepare;
mod sibling_metadata;
mod uncertain;
pub(crate) mod writers;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use anabranch_storage::{CommitSequence, ItemTag, SlotValues, Staged, Store};
use anabranch_types::{Effect, PartitionId, RowPrograms, TableId, Ticks, Timestamp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::ramp::core::extension::CausalContext;
use crate::ramp::core::extension::ExceptionsBy;
use crate::ramp::core::message::Participants;
use crate::ramp::core::metadata::{Metadata, Siblings};
use crate::ramp::core::participant::installed::InstalledBy;
use crate::ramp::core::participant::intents::{Intents, Mode, RequestedIntents};
use crate::ramp::core::participant::writers::Writers;
use crate::ramp::options::RampOptions;
use crate::{Slots, TransactionId};

/// A prepared transaction: checked, protected by write intents, not installed. All that is known here is that this
/// participant voted yes; the transaction may be committed elsewhere already.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) transaction: TransactionId,
    /// All nodes that were sent Prepare.
    pub(crate) participants: Participants,
    /// The commit timestamp of its origin cluster, if another cluster has committed it.
    pub(crate) origin_commit: Option<Timestamp>,
    /// When this participant voted yes (time zero for a vote of an earlier incarnation), or when it asked last.
    pub(crate) since: Ticks,
    /// How often this one has asked the others what has become of it.
    pub(crate) asked: u32,
    pub(crate) effects: Vec<Effect>,
    /// What the effects came to at the vote, and after which commit that was.
    pub(crate) prestaged: Option<(Staged, SlotValues, CommitSequence)>,
    pub(crate) siblings: Option<Arc<Siblings>>,
    pub(crate) causal_context: Option<Arc<CausalContext>>,
    pub(crate) intents: SmallVec<[(ItemTag, Mode); 8]>,
    /// In a node that keeps records: what a checkpoint writes of it.
    pub(crate) kept: Option<Box<Kept>>,
}

/// What a checkpoint writes of a prepared transaction beside its effects.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) promise: Promise,
    pub(crate) requested: RequestedIntents,
}

/// A vote for yes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) prepared: Timestamp,
    /// The transaction commits above it.
    pub(crate) vote: Timestamp,
    /// The newest commit at the vote, which is above all that was installed by then.
    pub(crate) after: CommitSequence,
}

/// Committed here, and perhaps not everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    pub(crate) sequence: CommitSequence,
    /// What its deferred effects produced, until Commit asks for it.
    pub(crate) slots: Slots,
}

/// The committed part of a transaction that wrote nothing here, or nothing elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct CommitReply {
    pub(crate) prepared: Timestamp,
    /// What its deferred effects produced.
    pub(crate) slots: Slots,
}

/// One partition's owner.
#[derive(Clone)]
pub(crate) struct Participant {
    pub(crate) partition: PartitionId,
    pub(crate) metadata: Metadata,
    /// Whether transactions have dependencies.
    pub(crate) causal: bool,
    /// Whether this is one of several replicas, some of which may lack what has committed.
    pub(crate) is_replica: bool,
    pub(crate) store: Store,
    pub(crate) programs: Arc<dyn RowPrograms>,
    pub(crate) intents: Intents,
    /// By the timestamp of Prepare.
    pub(crate) prepared: FxHashMap<Timestamp, Prepared>,
    /// By commit timestamp: transactions over several partitions.
    pub(crate) recent: FxHashMap<Timestamp, Recent>,
    /// By commit timestamp: committed parts of other transactions in two phases, in case that Commit
    /// comes again, or another participant asks.
    pub(crate) commit_replies: BTreeMap<Timestamp, CommitReply>,
    /// By coordinator: the keys of `recent` in order of installation.
    pub(crate) installed: Vec<InstalledBy>,
    /// By coordinator: the highest commit timestamp ever in `installed`. Most readers know more of most
    /// coordinators than that, and so pass over them at a glance.
    pub(crate) installed_max: Vec<Timestamp>,
    /// None of `installed` was installed before this.
    pub(crate) installed_since: CommitSequence,
    /// By item: the keys of `recent` that wrote it, and can be seen in some snapshot.
    pub(crate) writers: Writers,
    /// Whether a replaced writer is never asked for: there is no causal context, and there are no other clusters.
    pub(crate) replaces: bool,
    /// By coordinator: exceptions among `recent` that have left `installed`.
    pub(crate) exceptions_by: Vec<ExceptionsBy>,
    /// Whether there are any.
    pub(crate) has_exceptions: bool,
    /// Every transaction that has left `recent` was installed here at or before this.
    pub(crate) settled: CommitSequence,
    /// By coordinator: the highest commit timestamp that has left `installed`. Its sibling metadata are gone.
    pub(crate) forgotten: Vec<Timestamp>,
    /// By node: the highest timestamp of Prepare seen, or refused for ever.
    pub(crate) prepared_max: Vec<Timestamp>,
    /// By order of vote: the votes of what is prepared, and of some that is no more.
    pub(crate) votes: VecDeque<Promise>,
    /// The tables of which a reader has lately read on in a snapshot that was not the newest any
    /// more, and when it last did.
    pub(crate) history_read: Vec<(TableId, Ticks)>,
    /// An invariant that was found broken.
    pub(crate) broken: Option<String>,
    /// How often a filter let a reader ask for what was not written here. Only counted.
    pub(crate) false_positives: u64,
    /// How many transactions have ended here after this owner had asked about them. Only counted.
    pub(crate) terminations: u64,
}

/// What a step may depend on; not the programs, which are the same for ever.
impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant")
            .field("store", &self.store)
            .field("intents", &self.intents)
            .field("prepared", &self.prepared)
            .field("recent", &self.recent)
            .field("commit_replies", &self.commit_replies)
            .field("installed", &self.installed)
            .field("exceptions_by", &self.exceptions_by)
            .field("writers", &self.writers)
            .field("settled", &self.settled)
            .field("prepared_max", &self.prepared_max)
            .field("votes", &self.votes)
            .field("history_read", &self.history_read)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

/// Commit timestamps of transactions.
pub(crate) type Commits = SmallVec<[Timestamp; 16]>;

impl Participant {
    pub(crate) fn new(
        partition: PartitionId,
        options: &RampOptions,
        store: Store,
        programs: Arc<dyn RowPrograms>,
        nodes: usize,
    ) -> Participant {
        Participant {
            partition,
            metadata: options.metadata,
            causal: options.causal,
            is_replica: options.quorum.is_some(),
            store,
            programs,
            intents: Intents::default(),
            prepared: FxHashMap::default(),
            recent: FxHashMap::default(),
            commit_replies: BTreeMap::new(),
            installed: vec![InstalledBy::default(); nodes],
            installed_max: vec![Timestamp::ZERO; nodes],
            installed_since: CommitSequence::LOADED,
            writers: Writers::default(),
            replaces: !options.causal && !options.sticky && !options.prepares_in_all_clusters(),
            exceptions_by: vec![ExceptionsBy::default(); nodes],
            has_exceptions: false,
            settled: CommitSequence::LOADED,
            forgotten: vec![Timestamp::ZERO; nodes],
            prepared_max: vec![Timestamp::ZERO; nodes],
            votes: VecDeque::new(),
            history_read: Vec::new(),
            broken: None,
            false_positives: 0,
            terminations: 0,
        }
    }

    /// Whether a transaction is prepared here under this name.
    pub(crate) fn is_prepared(&self, prepared: Timestamp) -> bool {
        self.prepared.contains_key(&prepared)
    }

    /// How many transactions are prepared.
    pub(crate) fn prepared(&self) -> usize {
        self.prepared.len()
    }

    /// How many transactions have ended here after this owner had asked about them, since this was
    /// last asked.
    #[inline]
    pub(crate) fn take_terminations(&mut self) -> u64 {
        std::mem::take(&mut self.terminations)
    }

    /// How often a filter let a reader ask for what was not written here, since the last call.
    #[inline]
    pub(crate) fn take_false_positives(&mut self) -> u64 {
        std::mem::take(&mut self.false_positives)
    }
}
