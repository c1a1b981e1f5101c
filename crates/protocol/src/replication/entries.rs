//! The log of one replica: the id of its checkpointed state, and the entries after it.

use std::collections::VecDeque;

use super::message::{Entry, LogId};

/// The entries after a state. See the module.
#[derive(Clone, Debug)]
pub(super) struct Entries<T> {
    /// The last entry that the state includes.
    base: LogId,
    entries: VecDeque<Entry<T>>,
}

impl<T: Clone> Entries<T> {
    /// The entries that follow a state, in order.
    ///
    /// # Panics
    /// When the entries leave a gap.
    pub(super) fn new(base: LogId, entries: Vec<Entry<T>>) -> Entries<T> {
        let consecutive = (base.index + 1..)
            .zip(&entries)
            .all(|(index, entry)| entry.id.index == index);
        assert!(consecutive, "entries follow each other");
        Entries {
            base,
            entries: entries.into(),
        }
    }

    /// The last entry that the state includes.
    pub(super) fn base(&self) -> LogId {
        self.base
    }

    /// The id of the last entry.
    pub(super) fn last(&self) -> LogId {
        self.entries.back().map_or(self.base, |entry| entry.id)
    }

    /// The id at an index, if it is the base's or an entry's.
    pub(super) fn id(&self, index: u64) -> Option<LogId> {
        if index == self.base.index {
            return Some(self.base);
        }
        self.get(index).map(|entry| entry.id)
    }

    /// The entry at an index, if the log holds it.
    pub(super) fn get(&self, index: u64) -> Option<&Entry<T>> {
        let after = index.checked_sub(self.base.index + 1)?;
        self.entries.get(usize::try_from(after).ok()?)
    }

    /// At most `count` entries from an index on.
    pub(super) fn from(&self, index: u64, count: usize) -> Vec<Entry<T>> {
        let skipped = index.saturating_sub(self.base.index + 1) as usize;
        let entries = self.entries.iter().skip(skipped);
        entries.take(count).cloned().collect()
    }

    /// Adds the next entry.
    pub(super) fn push(&mut self, entry: Entry<T>) {
        debug_assert_eq!(entry.id.index, self.last().index + 1);
        self.entries.push_back(entry);
    }

    /// Drops every entry above an index.
    pub(super) fn cut_above(&mut self, index: u64) {
        let kept = index.saturating_sub(self.base.index) as usize;
        self.entries.truncate(kept);
    }

    /// Drops the entries that a later state includes.
    pub(super) fn compact(&mut self, base: LogId) {
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.id.index <= base.index)
        {
            self.entries.pop_front();
        }
        self.base = base;
    }

    /// Whether indexes are consecutive and views ascend.
    pub(super) fn ascends(&self) -> bool {
        let mut before = self.base;
        self.entries.iter().all(|entry| {
            let follows = entry.id.index == before.index + 1 && entry.id.view >= before.view;
            before = entry.id;
            follows
        })
    }
}
