//! The garbage collector's state: the horizon, and queues of items that have something to drop.

use std::collections::VecDeque;

use anabranch_types::{Key, TableId, Ticks, Timestamp};

use crate::tree::Position;
use crate::version::{CommitSequence, Version};

/// Chains up to this many versions are left to the sweep.
pub(crate) const CHAIN_MIN: u32 = 8;

/// An item that has, or will have, something to drop.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(crate) sequence: CommitSequence,
    pub(crate) table: TableId,
    pub(crate) key: Key,
    /// Where the item was when it was queued.
    pub(crate) position: Option<Position>,
}

/// The collector's state.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    pub(crate) window: Ticks,
    /// When commits were installed: (time, the newest commit of that time), both ascending.
    marks: VecDeque<(Ticks, CommitSequence)>,
    pub(crate) trim: Trim,
    /// Items of tables whose version history is not retained.
    pub(crate) queue: VecDeque<Queued>,
    /// Items of tables whose version history is retained: they wait for the window.
    aging: VecDeque<Queued>,
}

/// The horizons at which chains are cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trim {
    /// The newest commit older than the window: versions that it superseded may be dropped.
    window: CommitSequence,
    /// The newest commit of which the protocol permits the same, for tables without retained history.
    decided: CommitSequence,
    /// Versions superseded after this commit stay: see [`Store::hold_horizon`](crate::Store::hold_horizon).
    pub(crate) held: Option<CommitSequence>,
    /// The snapshots whose versions stay: see [`Store::begin_export`](crate::Store::begin_export).
    pub(crate) pinned: Vec<CommitSequence>,
    /// See [`Store::last_removal`](crate::Store::last_removal).
    pub(crate) last_removal: CommitSequence,
    /// Set if no reader needs the versions that the next commit supersedes; no transaction with a
    /// timestamp at or below this one comes later: see
    /// [`Store::discard_history`](crate::Store::discard_history).
    pub(crate) history_discarded: Option<Timestamp>,
    /// The boxes of dropped versions, for reuse.
    #[expect(clippy::vec_box, reason = "the boxes are reused")]
    spare: Vec<Box<Version>>,
}

/// Spare versions beyond this many go back to the allocator.
const SPARE_MAX: usize = 1 << 14;

impl Trim {
    /// The horizon of a table with or without retained history: versions superseded up to here may be
    /// dropped.
    pub(crate) fn horizon(&self, retains_history: bool) -> CommitSequence {
        let old_enough = if retains_history {
            self.window
        } else {
            self.window.max(self.decided)
        };
        let held = self.held.iter().chain(&self.pinned).copied();
        held.fold(old_enough, CommitSequence::min)
    }

    /// Whether a version may be replaced in place: no pinned snapshot sees it.
    #[inline]
    pub(crate) fn is_unpinned(&self, version: &Version) -> bool {
        self.pinned.iter().all(|pinned| version.sequence > *pinned)
    }

    /// Permits dropping the versions superseded up to this commit: no reader needs a snapshot before it.
    pub(crate) fn decide(&mut self, last: CommitSequence) {
        let decided = self.held.map_or(last, |held| held.min(last));
        self.decided = self.decided.max(decided);
    }

    /// See [`Store::invalidate_snapshots`](crate::Store::invalidate_snapshots).
    pub(crate) fn invalidate_snapshots(&mut self, last: CommitSequence) {
        self.last_removal = last;
    }

    /// Boxes a version, in a reused box if there is one.
    pub(crate) fn boxed(&mut self, version: Version) -> Box<Version> {
        match self.spare.pop() {
            Some(mut spare) => {
                *spare = version;
                spare
            }
            None => Box::new(version),
        }
    }

    /// Drops a chain and keeps its boxes for reuse.
    pub(crate) fn recycle(&mut self, dropped: Box<Version>) {
        let mut link = Some(dropped);
        while let Some(mut version) = link {
            link = version.older.take();
            if self.spare.len() < SPARE_MAX {
                version.row = None;
                self.spare.push(version);
            }
        }
    }
}

impl Collector {
    pub(crate) fn new(window: Ticks) -> Collector {
        Collector {
            window,
            marks: VecDeque::new(),
            trim: Trim::default(),
            queue: VecDeque::new(),
            aging: VecDeque::new(),
        }
    }

    /// Queues an item of a table with or without retained history.
    pub(crate) fn put(&mut self, retains_history: bool, queued: Queued) {
        self.queue_mut(retains_history).push_back(queued);
    }

    pub(crate) fn queue_mut(&mut self, retains_history: bool) -> &mut VecDeque<Queued> {
        match retains_history {
            true => &mut self.aging,
            false => &mut self.queue,
        }
    }

    pub(crate) fn queue(&self, retains_history: bool) -> &VecDeque<Queued> {
        match retains_history {
            true => &self.aging,
            false => &self.queue,
        }
    }

    /// All queued items.
    pub(crate) fn queued(&self) -> impl Iterator<Item = &Queued> {
        self.queue.iter().chain(&self.aging)
    }

    /// Sorts the queues, after items were queued in any order.
    pub(crate) fn sort(&mut self) {
        for queue in [&mut self.queue, &mut self.aging] {
            queue
                .make_contiguous()
                .sort_by_key(|queued| queued.sequence);
        }
    }

    /// Notes that a commit was installed at this time.
    pub(crate) fn mark(&mut self, now: Ticks, sequence: CommitSequence) {
        // One mark for each 1/64 of a window is enough. A commit that counts as younger than it is does
        // no harm, so later commits move the last mark.
        match self.marks.back_mut() {
            Some((at, last)) if now.0 < at.0.saturating_add(self.window.0 / 64) => *last = sequence,
            _ => self.marks.push_back((now, sequence)),
        }
        self.advance(now);
    }

    /// Moves the window's horizon to `now`.
    pub(crate) fn advance(&mut self, now: Ticks) {
        let slack = self.window.0 / 64;
        while let Some((at, sequence)) = self.marks.front()
            && at.0.saturating_add(slack).saturating_add(self.window.0) < now.0
        {
            self.trim.window = self.trim.window.max(*sequence);
            self.marks.pop_front();
        }
    }

    pub(crate) fn approximate_bytes(&self) -> usize {
        (self.queue.capacity() + self.aging.capacity()) * size_of::<Queued>()
            + self.trim.spare.len() * size_of::<Version>()
    }
}
