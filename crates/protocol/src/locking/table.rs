//! The lock table of one partition: who holds what, and who waits for it.
//!
//! Locks are on keys and on spans of keys, of primary and of secondary indexes, shared or
//! exclusive. Each index has a *space* of its own. The places (space, key) are totally ordered, and
//! the order is what keeps waiting free of deadlock:
//!
//! * A transaction (an *owner* here) waits for one lock at a time, at one place.
//! * It may wait only where everything that it holds lies below: [`LockTable::acquire`] answers
//!   [`Outcome::Conflict`] instead of queueing a request that is out of order. So who waits at a
//!   place is blocked by owners that hold something there; these, if they wait at all, wait above.
//! * At each place there is one FIFO queue. A key is waited for at the key itself. A span is waited
//!   for at a key where something blocks it; when that has gone and something else blocks it, it
//!   moves on to that place's queue.
//!
//! Only the head of a queue is looked at when a lock is released, so a release costs the same
//! whether one or a thousand wait. What it cannot know from its own queue is that a *span* lock
//! elsewhere has gone; so the release of a span looks at the queues inside of it.

use std::collections::{BTreeMap, VecDeque};

use anabranch_types::{IndexId, Key, Schema, TableId};
use smallvec::SmallVec;

use super::record::{Extent, LockRecord};
use super::span::Span;

/// A transaction at this partition: an index into its table of those.
pub(super) type Owner = u32;

/// The number of an index's space. A table's secondary indexes come before its primary key: a scan
/// of a secondary index locks its span first and then the rows that it found there.
pub(super) type SpaceId = u32;

/// How much a lock keeps out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// Every exclusive lock of others.
    Shared,
    /// Every lock of others.
    Exclusive,
}

impl Mode {
    fn conflicts(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }
}

/// What became of a request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Outcome {
    /// It is held, now or already.
    Granted,
    /// It will be held: the owner is put among the woken when it is.
    Queued,
    /// Someone else holds something that conflicts, and waiting is not permitted.
    Conflict,
}

/// One key's lock and those who wait at its place. It exists only while there are any.
#[derive(Clone, Debug)]
struct Entry {
    /// What the holders hold; meaningless while there are none.
    mode: Mode,
    holders: SmallVec<[Owner; 2]>,
    queue: VecDeque<Waiter>,
}

#[derive(Clone, Debug)]
struct Waiter {
    owner: Owner,
    mode: Mode,
    /// What is wanted; `None` is the key of the place.
    span: Option<Span>,
}

#[derive(Clone, Debug)]
struct SpanLock {
    owner: Owner,
    mode: Mode,
    span: Span,
}

#[derive(Clone, Debug, Default)]
struct Space {
    entries: BTreeMap<Key, Entry>,
    spans: Vec<SpanLock>,
}

/// What one owner holds and waits for.
#[derive(Clone, Debug, Default)]
struct Held {
    keys: Vec<(SpaceId, Key)>,
    spans: Vec<SpaceId>,
    waiting: Option<(SpaceId, Key)>,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct LockTable {
    spaces: Vec<Space>,
    /// The first space of each table.
    tables: Vec<SpaceId>,
    /// The number of secondary indexes of each table.
    indexes: Vec<u32>,
    owners: Vec<Held>,
}

impl Entry {
    fn new() -> Entry {
        Entry {
            mode: Mode::Shared,
            holders: SmallVec::new(),
            queue: VecDeque::new(),
        }
    }

    /// Whether another owner's lock on this key keeps `mode` out.
    fn keeps_out(&self, owner: Owner, mode: Mode) -> bool {
        self.mode.conflicts(mode) && self.holders.iter().any(|&holder| holder != owner)
    }

    fn hold(&mut self, owner: Owner, mode: Mode) {
        debug_assert!(
            !self.keeps_out(owner, mode),
            "a lock is granted against another"
        );
        self.mode = mode;
        self.holders.push(owner);
    }
}

impl Space {
    /// Whether another owner's span lock keeps `mode` out of `key`; `None` when the owner itself
    /// has the key covered already.
    fn spans_keep_out(&self, owner: Owner, key: &Key, mode: Mode) -> Option<bool> {
        let mut kept_out = false;
        for lock in self.spans.iter().filter(|lock| lock.span.contains(key)) {
            if lock.owner != owner {
                kept_out |= lock.mode.conflicts(mode);
            } else if lock.mode >= mode {
                return None;
            }
        }
        Some(kept_out)
    }

    /// The lowest place at which something keeps a span lock out: a lock of another owner or, when
    /// `queues` count, somebody who waits there already (but not at `at`, where the asker itself
    /// is the head).
    fn blocker(
        &self,
        owner: Owner,
        span: &Span,
        mode: Mode,
        queues: bool,
        at: Option<&Key>,
    ) -> Option<Key> {
        if span.is_empty() {
            return None;
        }
        let by_span = self
            .spans
            .iter()
            .filter(|lock| lock.owner != owner && lock.mode.conflicts(mode))
            .filter(|lock| lock.span.overlaps(span))
            .map(|lock| (&lock.span.low).max(&span.low))
            .min();
        let by_key = self
            .entries
            .range(span.bounds())
            .find(|(key, entry)| {
                entry.keeps_out(owner, mode)
                    || (queues && !entry.queue.is_empty() && at != Some(*key))
            })
            .map(|(key, _)| key);
        match (by_span, by_key) {
            (Some(a), Some(b)) => Some(a.min(b).clone()),
            (a, b) => a.or(b).cloned(),
        }
    }
}

impl LockTable {
    /// An empty table for a schema's indexes.
    pub(super) fn new(schema: &Schema) -> LockTable {
        let mut spaces = Vec::new();
        let mut tables = Vec::new();
        for table in &schema.tables {
            tables.push(spaces.len() as SpaceId);
            spaces.extend((0..=table.indexes.len()).map(|_| Space::default()));
        }
        let indexes = schema
            .tables
            .iter()
            .map(|table| table.indexes.len() as u32)
            .collect();
        LockTable {
            spaces,
            tables,
            indexes,
            owners: Vec::new(),
        }
    }

    /// The space of an index (`None`: the primary key).
    pub(super) fn space(&self, table: TableId, index: Option<IndexId>) -> SpaceId {
        let within = index.map_or(self.indexes[table.index()], |index| u32::from(index.0));
        self.tables[table.index()] + within
    }

    /// Asks for the lock on one key. Queues only if `wait` is set and the order permits it.
    ///
    /// Whoever already holds a lock that is strong enough is granted it; a shared lock becomes
    /// exclusive only for its sole holder, and nobody waits for that: two who wait to upgrade the
    /// same lock would wait for each other.
    pub(super) fn acquire(
        &mut self,
        owner: Owner,
        space_id: SpaceId,
        key: &Key,
        mode: Mode,
        wait: bool,
    ) -> Outcome {
        self.admit(owner);
        let space = &mut self.spaces[space_id as usize];
        let Some(kept_out) = space.spans_keep_out(owner, key, mode) else {
            return Outcome::Granted;
        };
        let entry = space.entries.entry(key.clone()).or_insert_with(Entry::new);
        if entry.holders.contains(&owner) {
            if entry.mode >= mode {
                return Outcome::Granted;
            }
            if kept_out || entry.holders.len() > 1 {
                return Outcome::Conflict;
            }
            entry.mode = mode;
            return Outcome::Granted;
        }
        let conflict = kept_out || entry.keeps_out(owner, mode);
        if !conflict && entry.queue.is_empty() {
            entry.hold(owner, mode);
            self.owners[owner as usize]
                .keys
                .push((space_id, key.clone()));
            return Outcome::Granted;
        }
        if wait && self.holds_only_below(owner, space_id, key) {
            self.enqueue(
                space_id,
                key.clone(),
                Waiter {
                    owner,
                    mode,
                    span: None,
                },
            );
            return Outcome::Queued;
        }
        let space = &mut self.spaces[space_id as usize];
        let entry = space.entries.get_mut(key).expect("looked up or made above");
        if conflict {
            if entry.holders.is_empty() && entry.queue.is_empty() {
                space.entries.remove(key);
            }
            return Outcome::Conflict;
        }
        // Who must not wait does not stand in the queue either.
        entry.hold(owner, mode);
        self.owners[owner as usize]
            .keys
            .push((space_id, key.clone()));
        Outcome::Granted
    }

    /// Asks for the lock on a span of keys. Queues only if `wait` is set and the order permits it.
    pub(super) fn acquire_span(
        &mut self,
        owner: Owner,
        space_id: SpaceId,
        span: Span,
        mode: Mode,
        wait: bool,
    ) -> Outcome {
        self.admit(owner);
        let Some(span) = self.uncovered(owner, space_id, span, mode) else {
            return Outcome::Granted;
        };
        let space = &self.spaces[space_id as usize];
        let wait = wait && self.holds_only_below(owner, space_id, &span.low);
        match space.blocker(owner, &span, mode, wait, None) {
            None => {
                self.spaces[space_id as usize]
                    .spans
                    .push(SpanLock { owner, mode, span });
                self.owners[owner as usize].spans.push(space_id);
                Outcome::Granted
            }
            Some(at) if wait => {
                self.enqueue(
                    space_id,
                    at,
                    Waiter {
                        owner,
                        mode,
                        span: Some(span),
                    },
                );
                Outcome::Queued
            }
            Some(_) => Outcome::Conflict,
        }
    }

    /// What is left of a span without the ends that the owner's own span locks cover.
    fn uncovered(&self, owner: Owner, space: SpaceId, mut span: Span, mode: Mode) -> Option<Span> {
        for lock in &self.spaces[space as usize].spans {
            if lock.owner == owner && lock.mode >= mode && lock.span.overlaps(&span) {
                let ends_inside = lock.span.high.clone().filter(|high| span.contains(high));
                match (lock.span.low <= span.low, ends_inside) {
                    (true, Some(high)) => span.low = high,
                    (true, None) => return None,
                    (false, None) => span.high = Some(lock.span.low.clone()),
                    (false, Some(_)) => {}
                }
            }
        }
        (!span.is_empty()).then_some(span)
    }

    /// Whether a lock of another owner keeps `mode` out of this key: what [`LockTable::acquire`]
    /// without waiting would find, for a lock that would be released in the same step.
    pub(super) fn is_kept_out(&self, owner: Owner, space: SpaceId, key: &Key, mode: Mode) -> bool {
        let space = &self.spaces[space as usize];
        match space.spans_keep_out(owner, key, mode) {
            None => false,
            Some(true) => true,
            Some(false) => space
                .entries
                .get(key)
                .is_some_and(|entry| entry.keeps_out(owner, mode)),
        }
    }

    /// Whether another owner holds a key that begins with `prefix`: two rows with one key of a
    /// unique index, of which neither is in the store yet.
    pub(super) fn is_prefix_held(&self, owner: Owner, space: SpaceId, prefix: Key) -> bool {
        let span = Span::of_prefix(prefix);
        let mut entries = self.spaces[space as usize].entries.range(span.bounds());
        entries.any(|(_, entry)| entry.holders.iter().any(|&holder| holder != owner))
    }

    /// Whether the owner holds the row's key, or a span that it is in.
    pub(super) fn holds(&self, owner: Owner, space: SpaceId, key: &Key, mode: Mode) -> bool {
        let space = &self.spaces[space as usize];
        space.spans_keep_out(owner, key, mode).is_none()
            || space
                .entries
                .get(key)
                .is_some_and(|entry| entry.mode >= mode && entry.holders.contains(&owner))
    }

    /// All that the owner holds, keys first.
    pub(super) fn held(&self, owner: Owner) -> Vec<LockRecord> {
        let Some(held) = self.owners.get(owner as usize) else {
            return Vec::new();
        };
        let lock = |space, mode, extent| LockRecord {
            space,
            exclusive: mode == Mode::Exclusive,
            extent,
        };
        let keys = held.keys.iter().map(|(space, key)| {
            let entry = &self.spaces[*space as usize].entries[key];
            lock(*space, entry.mode, Extent::Key(key.clone()))
        });
        let mut spaces: Vec<SpaceId> = held.spans.clone();
        spaces.sort_unstable();
        spaces.dedup();
        let spans = spaces.into_iter().flat_map(|space| {
            let all = self.spaces[space as usize].spans.iter();
            let own = all.filter(|span| span.owner == owner);
            own.map(move |SpanLock { mode, span, .. }| {
                let extent = Extent::Span(span.low.clone(), span.high.clone());
                lock(space, *mode, extent)
            })
        });
        keys.chain(spans).collect()
    }

    /// Takes a lock that was held before a crash.
    pub(super) fn hold_again(&mut self, owner: Owner, lock: LockRecord) -> Outcome {
        let mode = match lock.exclusive {
            true => Mode::Exclusive,
            false => Mode::Shared,
        };
        match lock.extent {
            Extent::Key(key) => self.acquire(owner, lock.space, &key, mode, false),
            Extent::Span(low, high) => {
                self.acquire_span(owner, lock.space, Span { low, high }, mode, false)
            }
        }
    }

    /// Whether the owner holds nothing and waits for nothing.
    pub(super) fn is_free(&self, owner: Owner) -> bool {
        self.owners.get(owner as usize).is_none_or(Held::is_empty)
    }

    /// Whether the owner waits for a lock.
    pub(super) fn is_waiting(&self, owner: Owner) -> bool {
        self.owners
            .get(owner as usize)
            .is_some_and(|held| held.waiting.is_some())
    }

    /// The owners that hold something or wait for something.
    pub(super) fn owners(&self) -> impl Iterator<Item = Owner> {
        (0..self.owners.len() as Owner).filter(|&owner| !self.is_free(owner))
    }

    /// Releases all that the owner holds and takes it out of the queue that it waits in. Those who
    /// are granted their lock by that are added to `woken`, in the order of their grants.
    pub(super) fn release(&mut self, owner: Owner, woken: &mut VecDeque<Owner>) {
        let Some(held) = self.owners.get_mut(owner as usize) else {
            return;
        };
        let mut held = std::mem::take(held);
        if let Some((space, place)) = held.waiting.take() {
            let entry = self.entry(space, &place);
            entry.queue.retain(|waiter| waiter.owner != owner);
            self.settle(space, &place, woken);
        }
        for (space, key) in held.keys.drain(..) {
            self.release_key(owner, space, &key, woken);
        }
        for space in held.spans.drain(..) {
            self.release_spans(owner, space, Mode::Exclusive, woken);
        }
        self.owners[owner as usize] = held;
    }

    /// Releases the shared locks that the owner holds.
    pub(super) fn release_shared(&mut self, owner: Owner, woken: &mut VecDeque<Owner>) {
        let Some(held) = self.owners.get_mut(owner as usize) else {
            return;
        };
        let keys = std::mem::take(&mut held.keys);
        let spans = std::mem::take(&mut held.spans);
        for (space, key) in keys {
            if self.entry(space, &key).mode == Mode::Exclusive {
                self.owners[owner as usize].keys.push((space, key));
            } else {
                self.release_key(owner, space, &key, woken);
            }
        }
        for space in spans {
            if self.release_spans(owner, space, Mode::Shared, woken) {
                self.owners[owner as usize].spans.push(space);
            }
        }
    }

    fn release_key(
        &mut self,
        owner: Owner,
        space: SpaceId,
        key: &Key,
        woken: &mut VecDeque<Owner>,
    ) {
        let entry = self.entry(space, key);
        let position = entry.holders.iter().position(|&holder| holder == owner);
        entry
            .holders
            .swap_remove(position.expect("what is held has its holder"));
        self.settle(space, key, woken);
    }

    /// Releases the owner's span locks of at most `mode` in a space; tells whether any is left.
    fn release_spans(
        &mut self,
        owner: Owner,
        space_id: SpaceId,
        mode: Mode,
        woken: &mut VecDeque<Owner>,
    ) -> bool {
        let mut left = false;
        let mut released: SmallVec<[Span; 1]> = SmallVec::new();
        let space = &mut self.spaces[space_id as usize];
        space.spans.retain(|lock| {
            let goes = lock.owner == owner && lock.mode <= mode;
            if goes {
                released.push(lock.span.clone());
            }
            left |= lock.owner == owner && !goes;
            !goes
        });
        for span in released {
            let waited_for: Vec<Key> = self.spaces[space_id as usize]
                .entries
                .range(span.bounds())
                .filter(|(_, entry)| !entry.queue.is_empty())
                .map(|(key, _)| key.clone())
                .collect();
            for place in waited_for {
                self.settle(space_id, &place, woken);
            }
        }
        left
    }

    /// Grants the heads of a place's queue what nothing keeps out any more, and forgets the place
    /// if nobody is left there.
    fn settle(&mut self, space_id: SpaceId, place: &Key, woken: &mut VecDeque<Owner>) {
        loop {
            let space = &mut self.spaces[space_id as usize];
            // A span that moved on may have met this place's last waiter on another's behalf.
            let Some(entry) = space.entries.get(place) else {
                return;
            };
            let Some(head) = entry.queue.front() else {
                if entry.holders.is_empty() {
                    space.entries.remove(place);
                }
                return;
            };
            let (owner, mode) = (head.owner, head.mode);
            let blocker = match &head.span {
                Some(span) => space.blocker(owner, span, mode, true, Some(place)),
                None => {
                    let kept_out = entry.keeps_out(owner, mode)
                        || space.spans_keep_out(owner, place, mode) == Some(true);
                    kept_out.then(|| place.clone())
                }
            };
            if blocker.as_ref() == Some(place) {
                return;
            }
            let entry = space.entries.get_mut(place).expect("looked up above");
            let waiter = entry.queue.pop_front().expect("looked at above");
            let held = &mut self.owners[owner as usize];
            held.waiting = None;
            match (blocker, waiter.span) {
                (Some(elsewhere), span) => {
                    self.enqueue(space_id, elsewhere, Waiter { owner, mode, span });
                    continue;
                }
                (None, Some(span)) => {
                    held.spans.push(space_id);
                    space.spans.push(SpanLock { owner, mode, span });
                }
                (None, None) => {
                    held.keys.push((space_id, place.clone()));
                    entry.hold(owner, mode);
                }
            }
            woken.push_back(owner);
        }
    }

    fn enqueue(&mut self, space: SpaceId, place: Key, waiter: Waiter) {
        let held = &mut self.owners[waiter.owner as usize];
        assert!(
            held.waiting.is_none(),
            "an owner waits for one lock at a time"
        );
        held.waiting = Some((space, place.clone()));
        let entries = &mut self.spaces[space as usize].entries;
        entries
            .entry(place)
            .or_insert_with(Entry::new)
            .queue
            .push_back(waiter);
    }

    /// Whether everything that the owner holds lies below a place: LOCK-I2's condition for waiting.
    fn holds_only_below(&self, owner: Owner, space_id: SpaceId, place: &Key) -> bool {
        let held = &self.owners[owner as usize];
        let below = |span: &Span| span.high.as_ref().is_some_and(|high| high <= place);
        held.keys
            .iter()
            .all(|(space, key)| (*space, key) < (space_id, place))
            && held.spans.iter().all(|&space| {
                space < space_id
                    || (space == space_id
                        && self.spaces[space as usize]
                            .spans
                            .iter()
                            .all(|lock| lock.owner != owner || below(&lock.span)))
            })
    }

    fn admit(&mut self, owner: Owner) {
        if self.owners.len() <= owner as usize {
            self.owners.resize_with(owner as usize + 1, Held::default);
        }
    }

    fn entry(&mut self, space: SpaceId, key: &Key) -> &mut Entry {
        let entry = self.spaces[space as usize].entries.get_mut(key);
        entry.expect("a place exists while somebody holds it or waits there")
    }
}

impl Held {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.spans.is_empty() && self.waiting.is_none()
    }
}

impl LockTable {
    /// Checks LOCK-I1 to LOCK-I3 from the table's data alone, and that what owners and places say
    /// of each other agrees.
    ///
    /// # Errors
    /// The invariant's name and what contradicts it.
    pub(super) fn check_invariants(&self) -> Result<(), String> {
        let mut holds = 0;
        for (id, space) in self.spaces.iter().enumerate() {
            for (key, entry) in &space.entries {
                self.check_entry(id as SpaceId, space, key, entry)?;
                holds += entry.holders.len();
            }
            for (index, a) in space.spans.iter().enumerate() {
                let against = |b: &SpanLock| b.owner != a.owner && a.mode.conflicts(b.mode);
                if let Some(b) = space.spans[..index]
                    .iter()
                    .find(|b| against(b) && a.span.overlaps(&b.span))
                {
                    return Err(format!("LOCK-I1: space {id}: {a:?} is held beside {b:?}"));
                }
            }
        }
        let listed: usize = self.owners.iter().map(|held| held.keys.len()).sum();
        if listed != holds {
            return Err(format!(
                "LOCK-I1: owners list {listed} keys, places have {holds}"
            ));
        }
        for (owner, held) in self.owners.iter().enumerate() {
            if let Some((space, place)) = &held.waiting {
                let queue = self.spaces[*space as usize]
                    .entries
                    .get(place)
                    .map(|e| &e.queue);
                let count = queue.map_or(0, |queue| {
                    queue
                        .iter()
                        .filter(|waiter| waiter.owner == owner as Owner)
                        .count()
                });
                if count != 1 {
                    return Err(format!(
                        "LOCK-I3: {owner} is {count} times in its queue {place}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_entry(
        &self,
        id: SpaceId,
        space: &Space,
        key: &Key,
        entry: &Entry,
    ) -> Result<(), String> {
        if entry.holders.is_empty() && entry.queue.is_empty() {
            return Err(format!(
                "LOCK-I3: space {id} keeps the forgotten place {key}"
            ));
        }
        if entry.mode == Mode::Exclusive && entry.holders.len() > 1 {
            return Err(format!(
                "LOCK-I1: space {id} {key}: {:?} all hold it",
                entry.holders
            ));
        }
        for &owner in &entry.holders {
            if space.spans_keep_out(owner, key, entry.mode) == Some(true) {
                return Err(format!(
                    "LOCK-I1: space {id} {key}: held by {owner} inside a span"
                ));
            }
        }
        for waiter in &entry.queue {
            let low = waiter.span.as_ref().map_or(key, |span| &span.low);
            if !self.holds_only_below(waiter.owner, id, low) {
                return Err(format!(
                    "LOCK-I2: {} waits at {key} out of order",
                    waiter.owner
                ));
            }
        }
        if let Some(head) = entry.queue.front() {
            let against = |lock: &SpanLock| {
                lock.owner != head.owner
                    && lock.mode.conflicts(head.mode)
                    && lock.span.contains(key)
            };
            if !entry.keeps_out(head.owner, head.mode) && !space.spans.iter().any(against) {
                return Err(format!("LOCK-I3: {} waits at {key} for nobody", head.owner));
            }
        }
        Ok(())
    }

    /// Who waits at this partition, and for whom: for those whose locks keep it out of its place,
    /// and for those who stand before it in the queue.
    #[cfg(test)]
    fn waits_for(&self) -> Vec<(Owner, Owner)> {
        let mut edges = Vec::new();
        for space in &self.spaces {
            for (key, entry) in &space.entries {
                for (position, waiter) in entry.queue.iter().enumerate() {
                    let ahead = entry.queue.iter().take(position).map(|before| before.owner);
                    let holders = entry.holders.iter().copied();
                    let holders = holders.filter(|_| entry.mode.conflicts(waiter.mode));
                    let covering = |lock: &&SpanLock| {
                        lock.mode.conflicts(waiter.mode) && lock.span.contains(key)
                    };
                    let spans = space.spans.iter().filter(covering).map(|lock| lock.owner);
                    let others = ahead.chain(holders).chain(spans);
                    edges.extend(
                        others
                            .filter(|&o| o != waiter.owner)
                            .map(|o| (waiter.owner, o)),
                    );
                }
            }
        }
        edges
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
