//! The log of one replica, as far as it is kept: from a state on, the entries that follow it.

use std::collections::VecDeque;

use super::message::{Entry, Place};

/// Entries after a state. See the module.
#[derive(Clone, Debug)]
pub(super) struct Entries<T> {
    /// What comes before the first entry: the last one that the state includes.
    base: Place,
    entries: VecDeque<Entry<T>>,
}

impl<T: Clone> Entries<T> {
    /// The entries that follow a state, in order.
    ///
    /// # Panics
    /// When one is missing between them.
    pub(super) fn new(base: Place, entries: Vec<Entry<T>>) -> Entries<T> {
        let consecutive = (base.index + 1..)
            .zip(&entries)
            .all(|(index, entry)| entry.place.index == index);
        assert!(consecutive, "entries follow each other");
        Entries {
            base,
            entries: entries.into(),
        }
    }

    /// The last place that the state includes.
    pub(super) fn base(&self) -> Place {
        self.base
    }

    /// Where the log ends.
    pub(super) fn last(&self) -> Place {
        self.entries.back().map_or(self.base, |entry| entry.place)
    }

    /// The place of an index, if it is the base's or an entry's.
    pub(super) fn place(&self, index: u64) -> Option<Place> {
        if index == self.base.index {
            return Some(self.base);
        }
        self.get(index).map(|entry| entry.place)
    }

    /// The entry at an index, if it is here.
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
        debug_assert_eq!(entry.place.index, self.last().index + 1);
        self.entries.push_back(entry);
    }

    /// Drops every entry above an index.
    pub(super) fn cut_above(&mut self, index: u64) {
        let kept = index.saturating_sub(self.base.index) as usize;
        self.entries.truncate(kept);
    }

    /// A later state stands for all entries up to here.
    pub(super) fn compact(&mut self, base: Place) {
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.place.index <= base.index)
        {
            self.entries.pop_front();
        }
        self.base = base;
    }

    /// Views ascend along the log.
    pub(super) fn ascends(&self) -> bool {
        let mut before = self.base;
        self.entries.iter().all(|entry| {
            let follows = entry.place.index == before.index + 1 && entry.place.view >= before.view;
            before = entry.place;
            follows
        })
    }
}
