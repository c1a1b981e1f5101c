//! Garbage collection by a time window.
//!
//! A version may go once another has superseded it for longer than the window, so that no snapshot
//! younger than the window needs it. What goes is always the tail of a chain; the sequence that
//! superseded it becomes the table's floor, below which every read is refused rather than answered
//! wrongly.
//!
//! Where the protocol knows that nobody asks for the past ([`Store::discard_history`]), nothing waits
//! for the window, and most versions are replaced in place and never get here; except in tables
//! that somebody does ask for the past of ([`Store::retain_history`]).
//!
//! Two ways lead here: a write shortens the chain of the item that it writes (amortised: the next
//! attempt comes when the chain has doubled), and [`Store::collect`] works through two queues of
//! items that have something to drop: superseded versions, tombstones. One is for items that wait for
//! the window alone, since their table's past is kept; the other for the rest, which go as soon as the
//! protocol has spoken of them. So nobody looks again and again, from commit to commit, at what has to
//! stay for a window. An item is in one queue, once.

use std::collections::VecDeque;

use anabranch_types::{Key, Row, TableId, Ticks, Timestamp};

use crate::index;
use crate::store::{Store, Table, row_bytes};
use crate::tree::Position;
use crate::version::{CommitSequence, Item, Version};

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

/// What a store knows about age.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    pub(crate) window: Ticks,
    /// When commits were installed: (time, the newest commit of that time), both ascending.
    marks: VecDeque<(Ticks, CommitSequence)>,
    pub(crate) trim: Trim,
    /// Items of tables whose past is not kept.
    queue: VecDeque<Queued>,
    /// Items that wait for the window alone.
    aging: VecDeque<Queued>,
}

/// Where chains are cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trim {
    /// The newest commit that is older than the window: what it superseded may go.
    window: CommitSequence,
    /// The newest commit that the protocol has spoken of in the same sense, for tables whose past
    /// is not kept.
    decided: CommitSequence,
    /// What was superseded by later commits than this one stays: see [`Store::hold_horizon`].
    held: Option<CommitSequence>,
    /// The newest commit of which something has gone that a look at the newest versions would have
    /// shown: an item, or an entry of a secondary index.
    last_removal: CommitSequence,
    /// What the next commit supersedes is read by nobody, and no transaction comes after it with a
    /// timestamp at or below this one: see [`Store::discard_history`].
    pub(crate) history_discarded: Option<Timestamp>,
    /// Memory of dropped versions, for the next ones.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    spare: Vec<Box<Version>>,
}

/// Spare versions beyond this many go back to the allocator.
const SPARE_MAX: usize = 1 << 14;

impl Trim {
    /// What was superseded up to here may go, of such a table.
    fn horizon(&self, retains_history: bool) -> CommitSequence {
        let old_enough = if retains_history {
            self.window
        } else {
            self.window.max(self.decided)
        };
        self.held.map_or(old_enough, |held| old_enough.min(held))
    }

    /// Nobody reads in a snapshot before this commit: what it and earlier ones superseded may go.
    pub(crate) fn decide(&mut self, last: CommitSequence) {
        let decided = self.held.map_or(last, |held| held.min(last));
        self.decided = self.decided.max(decided);
    }

    /// See [`Store::invalidate_snapshots`].
    pub(crate) fn invalidate_snapshots(&mut self, last: CommitSequence) {
        self.last_removal = last;
    }

    /// Puts a version into memory of its own.
    pub(crate) fn boxed(&mut self, version: Version) -> Box<Version> {
        match self.spare.pop() {
            Some(mut spare) => {
                *spare = version;
                spare
            }
            None => Box::new(version),
        }
    }

    /// Drops a chain, keeping its memory.
    fn recycle(&mut self, dropped: Box<Version>) {
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

    /// Puts an item into the queue of those that wait for the same, of such a table.
    pub(crate) fn put(&mut self, retains_history: bool, queued: Queued) {
        self.queue_mut(retains_history).push_back(queued);
    }

    fn queue_mut(&mut self, retains_history: bool) -> &mut VecDeque<Queued> {
        match retains_history {
            true => &mut self.aging,
            false => &mut self.queue,
        }
    }

    fn queue(&self, retains_history: bool) -> &VecDeque<Queued> {
        match retains_history {
            true => &self.aging,
            false => &self.queue,
        }
    }

    /// All items that are in a queue.
    pub(crate) fn queued(&self) -> impl Iterator<Item = &Queued> {
        self.queue.iter().chain(&self.aging)
    }

    /// Sorts what has been put in any order.
    pub(crate) fn sort(&mut self) {
        for queue in [&mut self.queue, &mut self.aging] {
            queue
                .make_contiguous()
                .sort_by_key(|queued| queued.sequence);
        }
    }

    /// Notes that a commit was installed at this time.
    pub(crate) fn mark(&mut self, now: Ticks, sequence: CommitSequence) {
        // A mark each 1/64 of a window is fine enough; a commit counted younger than it is does no
        // harm, so the last mark is moved on instead.
        match self.marks.back_mut() {
            Some((at, last)) if now.0 < at.0.saturating_add(self.window.0 / 64) => *last = sequence,
            _ => self.marks.push_back((now, sequence)),
        }
        self.advance(now);
    }

    /// Moves the horizon to where the window begins at this time.
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

impl Store {
    /// Says of the commit that comes next (one [`Store::apply`] or [`Store::install`], whether it
    /// succeeds or not) that nobody will read in a snapshot before it. So rows that it updates are
    /// replaced where they are, or dropped at once, instead of being kept until the window has
    /// passed.
    ///
    /// `late`: every transaction that is still to come has a timestamp above this one.
    ///
    /// Who reads in an older snapshot nevertheless is refused ([`crate::BelowFloor`]), never
    /// answered wrongly. A `late` that is too high may make registers lose to what is older.
    pub fn discard_history(&mut self, late: Timestamp) {
        let trim = &mut self.collector.trim;
        trim.decide(self.last);
        trim.history_discarded = Some(late);
    }

    /// From now on, a transaction may come with a timestamp below those of what was installed after
    /// this commit (`None`: none may). Whatever its age, no version is dropped that decides between
    /// them.
    pub fn hold_horizon(&mut self, after: Option<CommitSequence>) {
        self.collector.trim.held = after;
    }

    /// Whether what a table's rows have been is kept for the window, although
    /// [`Store::discard_history`] says that nobody reads it.
    pub fn retain_history(&mut self, table: TableId, keep: bool) {
        self.tables[table.index()].retains_history = keep;
    }

    /// No item, and no entry of a secondary index, has gone without a trace after this commit: what
    /// has changed since shows in the newest versions.
    #[inline]
    pub fn last_removal(&self) -> CommitSequence {
        self.collector.trim.last_removal
    }

    /// Drops what may go: at most `budget` items are looked at. Call it often with a small budget;
    /// it returns at once while nothing is due.
    ///
    /// Returns how many items it looked at.
    pub fn collect(&mut self, now: Ticks, budget: usize) -> usize {
        self.collector.advance(now);
        let aged = self.collect_from(true, budget);
        aged + self.collect_from(false, budget - aged)
    }

    /// Works through one of the queues.
    fn collect_from(&mut self, retains_history: bool, budget: usize) -> usize {
        let horizon = self.collector.trim.horizon(retains_history);
        self.warm_queue(retains_history, horizon, budget);
        let mut looked_at = 0;
        while looked_at < budget
            && let queue = self.collector.queue_mut(retains_history)
            && queue.front().is_some_and(|next| next.sequence <= horizon)
            && let Some(mut queued) = queue.pop_front()
        {
            looked_at += 1;
            let table = &mut self.tables[queued.table.index()];
            if let Some(due) = table.sweep(&queued, &mut self.collector.trim) {
                queued.sequence = due;
                self.collector.put(table.retains_history, queued);
            }
        }
        looked_at
    }

    /// Brings what the next items will drop into the processor's caches, the memory accesses of
    /// all of them under way together.
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
    /// Drops what may go of one item. Returns the sequence to wait for if something is left.
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
            // The floor is no lower than the tombstone: what it superseded went before it.
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

    /// What is older than this version of some item has gone.
    pub(crate) fn raise_floor(&mut self, (sequence, timestamp): (CommitSequence, Timestamp)) {
        self.floor = self.floor.max(sequence);
        self.floor_time = self.floor_time.max(timestamp);
    }

    /// Takes dropped versions out of the books. Whether index entries have gone with them.
    fn forget(&mut self, key: &Key, dropped: &Version) -> bool {
        let mut link = Some(dropped);
        while let Some(version) = link {
            self.bytes -= row_bytes(version) + size_of::<Version>();
            link = version.older();
        }
        !self.indexes.is_empty() && self.remove_entries(key, dropped)
    }

    /// Removes the index entries that only dropped versions had. Whether there were any.
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
                // Equal values may differ in their bytes: the entry is what counts.
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

/// Takes the tail that may go off the chain; with the sequence and timestamp of what stays above it.
fn cut(
    item: &mut Item,
    horizon: CommitSequence,
) -> Option<(Box<Version>, (CommitSequence, Timestamp))> {
    let mut kept = 1;
    let mut version = &mut item.head;
    // The newest version at or below the horizon is what the oldest snapshot sees that counts.
    while version.sequence > horizon && version.older.is_some() {
        version = version.older.as_deref_mut().expect("it was just there");
        kept += 1;
    }
    item.until_truncation = CHAIN_MIN.max(kept);
    let dropped = version.older.take()?;
    Some((dropped, (version.sequence, version.timestamp)))
}
