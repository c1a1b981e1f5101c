//! Garbage collection by a time window.
//!
//! A version may be dropped once another has superseded it for longer than the window: no snapshot
//! younger than the window needs it. The collector always drops the tail of a chain. The sequence that
//! superseded it becomes the table's floor; a read below the floor is refused rather than answered
//! wrongly.
//!
//! If the protocol knows that no reader needs old versions ([`Store::discard_history`]), versions do not
//! wait for the window, and most are replaced in place and never get here. Tables whose version history
//! is retained ([`Store::retain_history`]) are the exception.
//!
//! Versions are dropped in two ways. A write shortens the chain of its item (amortised: the next attempt
//! comes when the chain has doubled). And [`Store::collect`] works through two queues of items with
//! superseded versions or tombstones. One queue is for tables whose history is retained, whose items wait
//! for the window; the other is for all other tables, whose items go as soon as the protocol permits. So
//! items that have to stay for a window are not examined again at every commit. An item is in one queue,
//! once.

use anabranch_types::{Key, Row, TableId, Ticks, Timestamp};

use crate::collector::{CHAIN_MIN, Queued, Trim};
use crate::index;
use crate::store::{Store, Table, row_bytes};
use crate::version::{CommitSequence, Item, Version};

impl Store {
    /// Declares that no reader needs a snapshot before the next commit (one [`Store::apply`] or
    /// [`Store::install`], whether it succeeds or not). Rows that this commit updates are replaced in
    /// place or dropped at once, instead of being kept for the window.
    ///
    /// `late`: every later transaction has a timestamp above this one.
    ///
    /// A read in an older snapshot is refused ([`crate::BelowFloor`]), never answered wrongly. If `late`
    /// is too high, an older write may overwrite a register.
    pub fn discard_history(&mut self, late: Timestamp) {
        let trim = &mut self.collector.trim;
        trim.decide(self.last);
        trim.history_discarded = Some(late);
    }

    /// Holds the collector's horizon at this commit (`None`: releases it). A transaction may still be
    /// installed with a timestamp below those of later commits. Whatever their age, the versions that
    /// decide between them are not dropped.
    pub fn hold_horizon(&mut self, after: Option<CommitSequence>) {
        self.collector.trim.held = after;
    }

    /// Sets whether a table's version history is retained for the window, even though
    /// [`Store::discard_history`] declares that no reader needs it.
    pub fn retain_history(&mut self, table: TableId, keep: bool) {
        self.tables[table.index()].retains_history = keep;
    }

    /// The newest commit whose item or secondary index entry has been removed without a trace. All changes
    /// after it are visible in the newest versions.
    #[inline]
    pub fn last_removal(&self) -> CommitSequence {
        self.collector.trim.last_removal
    }

    /// Drops versions that are due, examining at most `budget` items. Call it often with a small budget;
    /// it returns at once if nothing is due.
    ///
    /// Returns how many items it examined.
    pub fn collect(&mut self, now: Ticks, budget: usize) -> usize {
        self.collector.advance(now);
        let aged = self.collect_from(true, budget);
        aged + self.collect_from(false, budget - aged)
    }

    /// Works through one of the queues.
    fn collect_from(&mut self, retains_history: bool, budget: usize) -> usize {
        let horizon = self.collector.trim.horizon(retains_history);
        self.warm_queue(retains_history, horizon, budget);
        let mut examined = 0;
        while examined < budget
            && let queue = self.collector.queue_mut(retains_history)
            && queue.front().is_some_and(|next| next.sequence <= horizon)
            && let Some(mut queued) = queue.pop_front()
        {
            examined += 1;
            let table = &mut self.tables[queued.table.index()];
            if let Some(due) = table.sweep(&queued, &mut self.collector.trim) {
                queued.sequence = due;
                self.collector.put(table.retains_history, queued);
            }
        }
        examined
    }

    /// Loads the versions that the next items will drop into the processor's caches, with overlapping
    /// memory accesses.
    fn warm_queue(&self, retains_history: bool, horizon: CommitSequence, budget: usize) {
        let due = self.collector.queue(retains_history).iter();
        let due = due.take(budget.min(64));
        let mut sum = 0;
        for queued in due.take_while(|queued| queued.sequence <= horizon) {
            let items = &self.tables[queued.table.index()].items;
            let item = queued.position.and_then(|position| items.peek(position));
            if let Some(older) = item.and_then(|item| item.head.older()) {
                sum ^= older.row().map_or(0, |row| row.as_bytes()[0]);
            }
        }
        std::hint::black_box(sum);
    }
}

impl Table {
    /// Drops the due versions of one item. Returns the sequence to wait for if some are left.
    fn sweep(&mut self, queued: &Queued, trim: &mut Trim) -> Option<CommitSequence> {
        let horizon = trim.horizon(self.retains_history);
        let key = &queued.key;
        let item = match queued.position {
            Some(position) => self.items.get_mut_at(position, key)?,
            None => self.items.get_mut(key)?,
        };
        let dropped = cut(item, horizon);
        let rests = item.head.older.is_none() && item.head.sequence <= horizon;
        let due = (!rests).then_some(item.head.sequence);
        item.queued = !rests;
        let gone = rests && item.head.row.is_none();
        let head = (item.head.sequence, item.head.timestamp);
        if let Some((dropped, above)) = dropped {
            self.raise_floor(above);
            if self.forget(key, &dropped) {
                trim.last_removal = trim.last_removal.max(above.0);
            }
            trim.recycle(dropped);
        }
        if gone {
            trim.last_removal = trim.last_removal.max(head.0);
            self.floor_time = self.floor_time.max(head.1);
            // The floor is no lower than the tombstone: the versions that it superseded were dropped before.
            self.items.remove(key);
            self.bytes -= index::heap_bytes(key.len());
        }
        due
    }

    /// Shortens an item's chain to what a snapshot at or above the horizon can see.
    pub(crate) fn truncate(&mut self, key: &Key, trim: &mut Trim) {
        let horizon = trim.horizon(self.retains_history);
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        if let Some((dropped, above)) = cut(item, horizon) {
            self.raise_floor(above);
            if self.forget(key, &dropped) {
                trim.last_removal = trim.last_removal.max(above.0);
            }
            trim.recycle(dropped);
        }
    }

    /// Raises the floor to a version whose predecessors are dropped.
    pub(crate) fn raise_floor(&mut self, (sequence, timestamp): (CommitSequence, Timestamp)) {
        self.floor = self.floor.max(sequence);
        self.floor_time = self.floor_time.max(timestamp);
    }

    /// Subtracts dropped versions from the sizes and removes their index entries. Returns whether there
    /// were such entries.
    fn forget(&mut self, key: &Key, dropped: &Version) -> bool {
        let mut link = Some(dropped);
        while let Some(version) = link {
            self.bytes -= row_bytes(version) + size_of::<Version>();
            link = version.older();
        }
        !self.indexes.is_empty() && self.remove_entries(key, dropped)
    }

    /// Removes the index entries that only dropped versions had. Returns whether there were any.
    fn remove_entries(&mut self, key: &Key, dropped: &Version) -> bool {
        let mut removed = false;
        let Some(item) = self.items.get(key) else {
            return removed;
        };
        for (described, index) in self.schema.indexes.iter().zip(&mut self.indexes) {
            let rows = |from| std::iter::successors(from, |v: &&Version| v.older());
            let mut last: Option<&Row> = None;
            for row in rows(Some(dropped)).filter_map(Version::row) {
                let same = |other: &Row| index::same_entry(&self.schema, described, other, row);
                if last.is_some_and(same) || item.versions().filter_map(Version::row).any(same) {
                    continue;
                }
                let (entry, _) = index::entry_key(&self.schema, described, row, key);
                // Equal values may differ in their bytes, so entries are compared.
                let kept = item
                    .versions()
                    .filter_map(Version::row)
                    .any(|kept| index::entry_key(&self.schema, described, kept, key).0 == entry);
                if !kept {
                    index.remove(&entry);
                    removed = true;
                }
                last = Some(row);
            }
        }
        removed
    }
}

/// Cuts the due tail off a chain, and returns it with the sequence and timestamp of the version above it.
fn cut(
    item: &mut Item,
    horizon: CommitSequence,
) -> Option<(Box<Version>, (CommitSequence, Timestamp))> {
    let mut kept = 1;
    let mut version = &mut item.head;
    // The oldest snapshot that is needed sees the newest version at or below the horizon.
    while version.sequence > horizon && version.older.is_some() {
        version = version.older.as_deref_mut().expect("it was just there");
        kept += 1;
    }
    item.until_truncation = CHAIN_MIN.max(kept);
    let dropped = version.older.take()?;
    Some((dropped, (version.sequence, version.timestamp)))
}
