//! All rows of a store replaced at once by those of another node's state: a state transfer.
//!
//! The rows come from a store that was filled beside this one, so that readers meet either all of the old rows or all
//! of the new ones. They are as of the next commit: every earlier snapshot is refused. An export that has begun before
//! goes on with the old rows, which are kept until it ends.

use anabranch_types::{Ticks, Timestamp};

use crate::checkpoint::CheckpointItem;
use crate::installed::{Installed, StateOrigin};
use crate::store::Store;
use crate::version::CommitSequence;

impl CheckpointItem {
    /// The item without its earlier versions, as if it were loaded; `None` if its newest version is a deletion.
    #[must_use]
    pub fn into_loaded(mut self) -> Option<CheckpointItem> {
        let mut newest = self.versions.pop()?;
        newest.row.as_ref()?;
        newest.sequence = CommitSequence::LOADED;
        self.versions.clear();
        self.versions.push(newest);
        Some(self)
    }
}

impl Store {
    /// Replaces all rows by those of `state`, as of the next commit, which it returns. Into `state`, a store made by
    /// [`Store::emptied`], the [loaded](CheckpointItem::into_loaded) items of a state of another node were
    /// [imported](Store::import). Snapshots before that commit are refused.
    pub fn replace(&mut self, now: Ticks, mut state: Store, origin: StateOrigin) -> CommitSequence {
        let last = CommitSequence(self.last.0 + 1);
        state.finish_import(last);
        state.generation = self.generation + 1;
        for (table, before) in state.tables.iter_mut().zip(&self.tables) {
            table.retains_history = before.retains_history;
        }
        if let Some(mut recorded) = self.recording.take() {
            recorded.push(Installed {
                sequence: last,
                timestamp: Timestamp::ZERO,
                origin: Some(origin),
                now,
                changes: self.differences(&state),
            });
            state.recording = Some(recorded);
        }
        let replaced = std::mem::replace(self, state);
        self.replaced = Some(Box::new(replaced));
        self.drop_replaced();
        last
    }

    /// The rows of a generation: the newest, or earlier ones that an export still needs.
    pub(crate) fn of_generation(&self, generation: u64) -> &Store {
        let mut store = self;
        while store.generation != generation {
            let before = store.replaced.as_deref();
            store = before.expect("an export's rows are kept until it ends");
        }
        store
    }

    pub(crate) fn of_generation_mut(&mut self, generation: u64) -> &mut Store {
        let mut store = self;
        while store.generation != generation {
            let before = store.replaced.as_deref_mut();
            store = before.expect("an export's rows are kept until it ends");
        }
        store
    }

    /// Drops replaced rows that no export needs.
    pub(crate) fn drop_replaced(&mut self) {
        let Some(before) = &mut self.replaced else {
            return;
        };
        before.drop_replaced();
        if before.collector.trim.pinned.is_empty() {
            self.replaced = before.replaced.take();
        }
    }
}
