//! The lock table of one partition: holders and queues.
//!
//! Locks are on keys and on spans of keys, of primary and of secondary indexes, shared or
//! exclusive. Each index has a *space* of its own. The places (space, key) are totally ordered, and
//! this lock order excludes deadlock:
//!
//! * A transaction (a *lock owner* here) waits for one lock at a time, at one place.
//! * It may wait only above all locks that it holds: [`LockTable::acquire`] returns
//!   [`Outcome::Conflict`] instead of queueing a request that is out of order. So a waiting owner is
//!   blocked by owners that hold a lock at its place, and those wait, if at all, above it.
//! * Each place has one queue. A request for a key waits at that key. A request for a span waits
//!   at a key where a lock blocks it; when that lock is released and another one blocks the span, the
//!   request moves to the queue of that place.
//!
//! An owner with an [`Age`] (an *undeclared* transaction) waits anywhere, by wound-wait: see
//! `docs/protocols/interactive.md`. In a queue, owners without an age come first, in the order of arrival, then
//! those with one, the oldest first. Whenever a wait begins, or a lock is granted in front of a wait, the table
//! notes a [`Signal`] for each holder with an age that must not stay in the way: [`LockTable::next_signal`].
//!
//! A release examines only the head of the place's queue, so its cost does not depend on the number of
//! waiters. A *span* lock may block queues at any place inside of it, so the release of a span examines
//! all of those.

use std::collections::{BTreeMap, VecDeque};

use anabranch_types::{IndexId, Key, Schema, TableId};
use smallvec::SmallVec;

use super::mode::{LockOwner, Mode, SpaceId};
use super::record::{LockRange, LockRecord};
use super::spans::Spans;
use crate::contract::Age;
use crate::span::Span;

/// The result of a request for one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Outcome {
    /// The lock is held.
    Granted,
    /// The request is queued; when it is granted, the owner is added to `woken`.
    Queued,
    /// Another owner holds a conflicting lock, and the request may not wait.
    Conflict,
}

/// What an owner with an age has to do because of another's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signal {
    /// An owner without an age waits for it: it must not wait any more.
    Yield,
    /// An older owner waits for it, or it waits and has to yield: it must end, unless it commits.
    Wound,
}

/// One key's lock, with the queue at its place. It exists only while one of them is not empty.
#[derive(Clone, Debug)]
struct Entry {
    /// The holders' mode; meaningless without holders.
    mode: Mode,
    holders: SmallVec<[LockOwner; 2]>,
    queue: VecDeque<Waiter>,
}

#[derive(Clone, Debug)]
struct Waiter {
    owner: LockOwner,
    /// The owner's age. Queues are sorted by it: `None` comes first.
    age: Option<Box<Age>>,
    mode: Mode,
    /// The requested span; `None` for the key of the place.
    span: Option<Span>,
}

/// An owner that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    owner: LockOwner,
    age: Option<Age>,
}

#[derive(Clone, Debug, Default)]
struct Space {
    entries: BTreeMap<Key, Entry>,
    spans: Spans,
}

/// The locks of one owner, and the place where it waits.
#[derive(Clone, Debug, Default)]
struct OwnerLocks {
    keys: Vec<(SpaceId, Key)>,
    /// The spaces in which it holds spans, each once.
    spans: Vec<SpaceId>,
    waiting: Option<(SpaceId, Key)>,
    /// Present if the owner waits by age. Boxed, since mostly it is absent, and owners come and go.
    undeclared: Option<Box<Undeclared>>,
}

/// What is known of an owner that waits by age.
#[derive(Clone, Debug)]
struct Undeclared {
    age: Age,
    /// The strongest signal to it.
    signal: Option<Signal>,
}

/// The lock table of one partition. See the module.
#[derive(Clone, Debug)]
pub(crate) struct LockTable {
    spaces: Vec<Space>,
    /// The first space of each table.
    tables: Vec<SpaceId>,
    /// The number of secondary indexes of each table.
    indexes: Vec<u32>,
    owners: Vec<OwnerLocks>,
    /// The number of owners with an age. Signals are considered only if there are any.
    with_age: usize,
    /// The owners whose signal has become stronger, in this order; some may have been released meanwhile.
    signalled: VecDeque<LockOwner>,
}

impl Entry {
    fn new() -> Entry {
        Entry {
            mode: Mode::Shared,
            holders: SmallVec::new(),
            queue: VecDeque::new(),
        }
    }

    /// Whether another owner's lock on this key conflicts with `mode`.
    fn blocks(&self, owner: LockOwner, mode: Mode) -> bool {
        self.mode.conflicts(mode) && self.holders.iter().any(|&holder| holder != owner)
    }

    /// Whether a request of an owner with this age has its place behind another in the queue.
    fn is_queued_before(&self, age: Option<Age>) -> bool {
        let first = self.queue.front();
        first.is_some_and(|first| first.age.as_deref() <= age.as_ref())
    }

    /// Those of the queue whom a lock of this mode blocks.
    fn waiting_against(&self, mode: Mode) -> impl Iterator<Item = Waiting> {
        let waiters = self.queue.iter();
        waiters
            .filter(move |waiter| waiter.mode.conflicts(mode))
            .map(Waiter::waiting)
    }

    fn enqueue(&mut self, waiter: Waiter) {
        let last = self.queue.back();
        if last.is_none_or(|last| last.age <= waiter.age) {
            return self.queue.push_back(waiter);
        }
        let at = self.queue.partition_point(|other| other.age <= waiter.age);
        self.queue.insert(at, waiter);
    }

    fn hold(&mut self, owner: LockOwner, mode: Mode) {
        debug_assert!(
            !self.blocks(owner, mode),
            "a lock is granted against another"
        );
        self.mode = mode;
        self.holders.push(owner);
    }
}

impl Space {
    /// Whether another owner's span lock conflicts with `mode` at `key`; `None` when a span lock of the
    /// owner itself covers the key.
    fn blocked_by_spans(&self, owner: LockOwner, key: &Key, mode: Mode) -> Option<bool> {
        if self.spans.covers(owner, key, mode) {
            return None;
        }
        Some(
            self.spans
                .holders_against(owner, key, mode)
                .next()
                .is_some(),
        )
    }

    /// The lowest place at which a span lock is blocked: by a lock of another owner or, if `queues` is
    /// set, by a queue in which the request would not be the first (but not at `at`, where it is).
    fn blocker(
        &self,
        (owner, age): (LockOwner, Option<Age>),
        span: &Span,
        mode: Mode,
        queues: bool,
        at: Option<&Key>,
    ) -> Option<Key> {
        if span.is_empty() {
            return None;
        }
        let by_span = self.spans.blocker(owner, span, mode);
        let by_key = self
            .entries
            .range(span.bounds())
            .find(|(key, entry)| {
                entry.blocks(owner, mode)
                    || (queues && entry.is_queued_before(age) && at != Some(*key))
            })
            .map(|(key, _)| key);
        match (by_span, by_key) {
            (Some(a), Some(b)) => Some(a.min(b).clone()),
            (a, b) => a.or(b).cloned(),
        }
    }
}

impl Space {
    /// The other owners whose locks at a place conflict with `mode`.
    fn holders_against(
        &self,
        place: &Key,
        owner: LockOwner,
        mode: Mode,
    ) -> SmallVec<[LockOwner; 4]> {
        let entry = self.entries.get(place);
        let at_key = entry.filter(|entry| entry.mode.conflicts(mode));
        let at_key = at_key
            .into_iter()
            .flat_map(|entry| entry.holders.iter().copied());
        let in_spans = self.spans.holders_against(owner, place, mode);
        let all = at_key.chain(in_spans);
        all.filter(|holder| *holder != owner).collect()
    }
}

impl Waiter {
    fn waiting(&self) -> Waiting {
        Waiting {
            owner: self.owner,
            age: self.age.as_deref().copied(),
        }
    }
}

impl LockTable {
    /// An empty table for a schema's indexes.
    pub(crate) fn new(schema: &Schema) -> LockTable {
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
            with_age: 0,
            signalled: VecDeque::new(),
        }
    }

    /// Whether the owner waits by age.
    pub(crate) fn has_age(&self, owner: LockOwner) -> bool {
        let held = self.owners.get(owner as usize);
        held.is_some_and(|held| held.age().is_some())
    }

    /// Makes the owner wait by age, until it is released. To be called before its first request.
    pub(crate) fn set_age(&mut self, owner: LockOwner, age: Age) {
        self.ensure_owner(owner);
        let undeclared = Box::new(Undeclared { age, signal: None });
        let before = self.owners[owner as usize].undeclared.replace(undeclared);
        self.with_age += usize::from(before.is_none());
    }

    /// The next signal that was noted and not taken yet.
    pub(crate) fn next_signal(&mut self) -> Option<(LockOwner, Signal)> {
        loop {
            let owner = self.signalled.pop_front()?;
            if let Some(signal) = self.owners[owner as usize].signal() {
                return Some((owner, signal));
            }
        }
    }

    /// The strongest signal that the owner was given.
    pub(crate) fn signal_of(&self, owner: LockOwner) -> Option<Signal> {
        self.owners.get(owner as usize).and_then(OwnerLocks::signal)
    }

    /// The space of an index (`None`: the primary key).
    pub(crate) fn space(&self, table: TableId, index: Option<IndexId>) -> SpaceId {
        let within = index.map_or(self.indexes[table.index()], |index| u32::from(index.0));
        self.tables[table.index()] + within
    }

    /// Adds the owners of exclusive locks on keys in a span to `found`.
    pub(crate) fn exclusive_holders(
        &self,
        space: SpaceId,
        span: &Span,
        found: &mut SmallVec<[LockOwner; 4]>,
    ) {
        if span.is_empty() {
            return;
        }
        let entries = self.spaces[space as usize].entries.range(span.bounds());
        let exclusive = entries.filter(|(_, entry)| entry.mode == Mode::Exclusive);
        for (_, entry) in exclusive {
            found.extend(entry.holders.iter().copied());
        }
    }

    /// Requests the lock on one key. Queues only if `wait` is set, and the lock order permits it or the owner
    /// waits by age.
    ///
    /// An owner that holds a sufficient lock is granted at once. A shared lock becomes exclusive only
    /// for its sole holder. Without an age, an upgrade never waits: two owners that waited to upgrade the same lock
    /// would wait for each other. With an age, the older of the two wounds the younger.
    pub(crate) fn acquire(
        &mut self,
        owner: LockOwner,
        space_id: SpaceId,
        key: &Key,
        mode: Mode,
        wait: bool,
    ) -> Outcome {
        self.ensure_owner(owner);
        let age = self.owners[owner as usize].age();
        let space = &mut self.spaces[space_id as usize];
        let Some(is_blocked) = space.blocked_by_spans(owner, key, mode) else {
            return Outcome::Granted;
        };
        let entry = space.entries.entry(key.clone()).or_insert_with(Entry::new);
        let upgrades = entry.holders.contains(&owner);
        if upgrades && entry.mode >= mode {
            return Outcome::Granted;
        }
        let conflict = is_blocked || entry.blocks(owner, mode);
        if !conflict && (upgrades || !entry.is_queued_before(age)) {
            self.owners[owner as usize].hold_key(owner, (space_id, key), entry, mode);
            if age.is_some() {
                self.signal_key_holder(owner, space_id, key, mode);
            }
            return Outcome::Granted;
        }
        if wait && self.may_wait(owner, space_id, key) {
            let waiter = Waiter {
                owner,
                age: age.map(Box::new),
                mode,
                span: None,
            };
            self.enqueue(space_id, key.clone(), waiter);
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
        // A request that must not wait does not respect the queue either.
        self.owners[owner as usize].hold_key(owner, (space_id, key), entry, mode);
        if age.is_some() {
            self.signal_key_holder(owner, space_id, key, mode);
        }
        Outcome::Granted
    }

    /// Grants a lock on a span.
    fn hold_span(&mut self, owner: LockOwner, space_id: SpaceId, mode: Mode, span: Span) {
        if self.owners[owner as usize].undeclared.is_some() {
            self.signal_span_holder(owner, space_id, mode, &span);
        }
        let spans = &mut self.spaces[space_id as usize].spans;
        if spans.hold(owner, mode, span) {
            self.owners[owner as usize].spans.push(space_id);
        }
    }

    /// Notes the signal to the new holder of a key, if others wait at it.
    fn signal_key_holder(&mut self, owner: LockOwner, space: SpaceId, key: &Key, mode: Mode) {
        let entry = self.entry(space, key);
        let waiting: SmallVec<[Waiting; 4]> = entry.waiting_against(mode).collect();
        self.signal_holder(owner, &waiting);
    }

    /// Notes the signal to the new holder of a span, if others wait in it.
    fn signal_span_holder(&mut self, owner: LockOwner, space: SpaceId, mode: Mode, span: &Span) {
        if span.is_empty() {
            return;
        }
        let entries = self.spaces[space as usize].entries.range(span.bounds());
        let waiting = entries.flat_map(|(_, entry)| entry.waiting_against(mode));
        let waiting: SmallVec<[Waiting; 4]> = waiting.collect();
        self.signal_holder(owner, &waiting);
    }

    /// Requests the lock on a span of keys. Queues as [`LockTable::acquire`] does.
    pub(crate) fn acquire_span(
        &mut self,
        owner: LockOwner,
        space_id: SpaceId,
        span: Span,
        mode: Mode,
        wait: bool,
    ) -> Outcome {
        self.ensure_owner(owner);
        let space = &self.spaces[space_id as usize];
        let Some(span) = space.spans.uncovered(owner, span, mode) else {
            return Outcome::Granted;
        };
        let age = self.owners[owner as usize].age();
        let wait = wait && self.may_wait(owner, space_id, &span.low);
        match space.blocker((owner, age), &span, mode, wait, None) {
            None => {
                self.hold_span(owner, space_id, mode, span);
                Outcome::Granted
            }
            Some(at) if wait => {
                let waiter = Waiter {
                    owner,
                    age: age.map(Box::new),
                    mode,
                    span: Some(span),
                };
                self.enqueue(space_id, at, waiter);
                Outcome::Queued
            }
            Some(_) => Outcome::Conflict,
        }
    }

    /// Whether a lock of another owner conflicts with `mode` at this key: the check of
    /// [`LockTable::acquire`] for a lock that would be released in the same step.
    pub(crate) fn is_blocked(
        &self,
        owner: LockOwner,
        space: SpaceId,
        key: &Key,
        mode: Mode,
    ) -> bool {
        let space = &self.spaces[space as usize];
        match space.blocked_by_spans(owner, key, mode) {
            None => false,
            Some(true) => true,
            Some(false) => space
                .entries
                .get(key)
                .is_some_and(|entry| entry.blocks(owner, mode)),
        }
    }

    /// Whether another owner holds a key that begins with `prefix`: then both insert a row with the same
    /// key of a unique index, and neither row is in the store yet.
    pub(crate) fn is_prefix_held(&self, owner: LockOwner, space: SpaceId, prefix: Key) -> bool {
        let span = Span::of_prefix(prefix);
        let mut entries = self.spaces[space as usize].entries.range(span.bounds());
        entries.any(|(_, entry)| entry.holders.iter().any(|&holder| holder != owner))
    }

    /// Whether the owner holds a lock on the key, or on a span that contains it.
    pub(crate) fn holds(&self, owner: LockOwner, space: SpaceId, key: &Key, mode: Mode) -> bool {
        let space = &self.spaces[space as usize];
        space.blocked_by_spans(owner, key, mode).is_none()
            || space
                .entries
                .get(key)
                .is_some_and(|entry| entry.mode >= mode && entry.holders.contains(&owner))
    }

    /// All locks of the owner, keys first.
    pub(crate) fn held(&self, owner: LockOwner) -> Vec<LockRecord> {
        let Some(held) = self.owners.get(owner as usize) else {
            return Vec::new();
        };
        let lock = |space, mode, range| LockRecord {
            space,
            exclusive: mode == Mode::Exclusive,
            range,
        };
        let keys = held.keys.iter().map(|(space, key)| {
            let entry = &self.spaces[*space as usize].entries[key];
            lock(*space, entry.mode, LockRange::Key(key.clone()))
        });
        let mut spaces: Vec<SpaceId> = held.spans.clone();
        spaces.sort_unstable();
        let spans = spaces.into_iter().flat_map(|space| {
            let own = self.spaces[space as usize].spans.held(owner);
            own.map(move |(mode, span)| lock(space, mode, LockRange::Span(span.low, span.high)))
        });
        keys.chain(spans).collect()
    }

    /// Acquires a lock that was held before a crash.
    pub(crate) fn restore_lock(&mut self, owner: LockOwner, lock: LockRecord) -> Outcome {
        let mode = match lock.exclusive {
            true => Mode::Exclusive,
            false => Mode::Shared,
        };
        match lock.range {
            LockRange::Key(key) => self.acquire(owner, lock.space, &key, mode, false),
            LockRange::Span(low, high) => {
                self.acquire_span(owner, lock.space, Span { low, high }, mode, false)
            }
        }
    }

    /// Whether the owner has no lock and does not wait.
    pub(crate) fn is_free(&self, owner: LockOwner) -> bool {
        self.owners
            .get(owner as usize)
            .is_none_or(OwnerLocks::is_empty)
    }

    /// Whether the owner waits for a lock.
    pub(crate) fn is_waiting(&self, owner: LockOwner) -> bool {
        self.owners
            .get(owner as usize)
            .is_some_and(|held| held.waiting.is_some())
    }

    /// Where an owner waits, and for whom: those that hold a conflicting lock there, then those before it in the queue.
    pub(crate) fn wait_of(
        &self,
        owner: LockOwner,
    ) -> Option<(TableId, Option<IndexId>, &Key, Vec<LockOwner>)> {
        let (space_id, place) = self.owners.get(owner as usize)?.waiting.as_ref()?;
        let space = &self.spaces[*space_id as usize];
        let queue = &space.entries.get(place)?.queue;
        let at = queue.iter().position(|waiter| waiter.owner == owner)?;
        let mode = queue[at].mode;
        let mut blockers: Vec<LockOwner> = Vec::new();
        let before = queue.iter().take(at).filter(|of| of.mode.conflicts(mode));
        let before = before.map(|waiter| waiter.owner);
        for of in space
            .holders_against(place, owner, mode)
            .into_iter()
            .chain(before)
        {
            if of != owner && !blockers.contains(&of) {
                blockers.push(of);
            }
        }
        let table = self.tables.partition_point(|first| first <= space_id) - 1;
        let within = space_id - self.tables[table];
        let index = (within != self.indexes[table]).then_some(IndexId(within as u16));
        Some((TableId(table as u16), index, place, blockers))
    }

    /// The owners that hold a lock or wait for one.
    pub(crate) fn owners(&self) -> impl Iterator<Item = LockOwner> {
        (0..self.owners.len() as LockOwner).filter(|&owner| !self.is_free(owner))
    }

    /// Releases all locks of the owner and removes it from the queue that it waits in. Owners that are
    /// granted a lock thereby are added to `woken`, in the order of the grants.
    pub(crate) fn release(&mut self, owner: LockOwner, woken: &mut VecDeque<LockOwner>) {
        let Some(held) = self.owners.get_mut(owner as usize) else {
            return;
        };
        let mut held = std::mem::take(held);
        if let Some((space, place)) = held.waiting.take() {
            let entry = self.entry(space, &place);
            entry.queue.retain(|waiter| waiter.owner != owner);
            self.grant_waiters(space, &place, woken);
        }
        for (space, key) in held.keys.drain(..) {
            self.release_key(owner, space, &key, woken);
        }
        for space in held.spans.drain(..) {
            self.release_spans(owner, space, Mode::Exclusive, woken);
        }
        self.with_age -= usize::from(held.undeclared.take().is_some());
        self.owners[owner as usize] = held;
    }

    /// Releases the shared locks that the owner holds.
    pub(crate) fn release_shared(&mut self, owner: LockOwner, woken: &mut VecDeque<LockOwner>) {
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
        owner: LockOwner,
        space: SpaceId,
        key: &Key,
        woken: &mut VecDeque<LockOwner>,
    ) {
        let entry = self.entry(space, key);
        let position = entry.holders.iter().position(|&holder| holder == owner);
        entry
            .holders
            .swap_remove(position.expect("a listed lock has its owner among the holders"));
        self.grant_waiters(space, key, woken);
    }

    /// Releases the owner's span locks of at most `mode` in a space; returns whether any is left.
    fn release_spans(
        &mut self,
        owner: LockOwner,
        space_id: SpaceId,
        mode: Mode,
        woken: &mut VecDeque<LockOwner>,
    ) -> bool {
        let spans = &mut self.spaces[space_id as usize].spans;
        let (released, is_left) = spans.release(owner, mode);
        for span in released {
            let waited_for: Vec<Key> = self.spaces[space_id as usize]
                .entries
                .range(span.bounds())
                .filter(|(_, entry)| !entry.queue.is_empty())
                .map(|(key, _)| key.clone())
                .collect();
            for place in waited_for {
                self.grant_waiters(space_id, &place, woken);
            }
        }
        is_left
    }

    /// Grants locks to the head of a place's queue while nothing blocks it, and removes the place if it
    /// is empty.
    fn grant_waiters(&mut self, space_id: SpaceId, place: &Key, woken: &mut VecDeque<LockOwner>) {
        loop {
            let space = &mut self.spaces[space_id as usize];
            // An earlier grant of this release may have removed the place.
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
                Some(span) => space.blocker(
                    (owner, head.age.as_deref().copied()),
                    span,
                    mode,
                    true,
                    Some(place),
                ),
                None => {
                    let is_blocked = entry.blocks(owner, mode)
                        || space.blocked_by_spans(owner, place, mode) == Some(true);
                    is_blocked.then(|| place.clone())
                }
            };
            if blocker.as_ref() == Some(place) {
                return;
            }
            let entry = space.entries.get_mut(place).expect("looked up above");
            let waiter = entry.queue.pop_front().expect("looked at above");
            self.owners[owner as usize].waiting = None;
            match (blocker, waiter.span) {
                (Some(elsewhere), span) => {
                    self.enqueue(space_id, elsewhere, Waiter { span, ..waiter });
                    continue;
                }
                (None, Some(span)) => self.hold_span(owner, space_id, mode, span),
                (None, None) => {
                    let held = &mut self.owners[owner as usize];
                    held.hold_key(owner, (space_id, place), entry, mode);
                    if held.undeclared.is_some() {
                        self.signal_key_holder(owner, space_id, place, mode);
                    }
                }
            }
            woken.push_back(owner);
        }
    }

    fn enqueue(&mut self, space_id: SpaceId, place: Key, waiter: Waiter) {
        let held = &mut self.owners[waiter.owner as usize];
        assert!(
            held.waiting.is_none(),
            "an owner waits for one lock at a time"
        );
        held.waiting = Some((space_id, place.clone()));
        if self.with_age > 0 {
            let space = &self.spaces[space_id as usize];
            let blockers = space.holders_against(&place, waiter.owner, waiter.mode);
            for holder in blockers {
                self.signal_holder(holder, &[waiter.waiting()]);
            }
        }
        let entries = &mut self.spaces[space_id as usize].entries;
        let entry = entries.entry(place).or_insert_with(Entry::new);
        entry.enqueue(waiter);
    }

    /// Notes the signal for a holder that others wait for, if it has an age.
    fn signal_holder(&mut self, holder: LockOwner, waiting: &[Waiting]) {
        for waiter in waiting.iter().filter(|waiter| waiter.owner != holder) {
            let held = &mut self.owners[holder as usize];
            let Some(undeclared) = &mut held.undeclared else {
                return;
            };
            let signal = match waiter.age {
                Some(waiter) if waiter < undeclared.age => Signal::Wound,
                Some(_) => continue,
                None if held.waiting.is_some() => Signal::Wound,
                None => Signal::Yield,
            };
            if undeclared.signal < Some(signal) {
                undeclared.signal = Some(signal);
                self.signalled.push_back(holder);
            }
        }
    }

    /// Whether the owner may wait at a place: with an age, until it was given a signal; without, if all its locks
    /// are below the place.
    fn may_wait(&self, owner: LockOwner, space: SpaceId, place: &Key) -> bool {
        let held = &self.owners[owner as usize];
        match &held.undeclared {
            Some(undeclared) => undeclared.signal.is_none(),
            None => self.holds_only_below(owner, space, place),
        }
    }

    /// Whether all locks of the owner are below a place: LOCK-I2's condition for waiting.
    fn holds_only_below(&self, owner: LockOwner, space_id: SpaceId, place: &Key) -> bool {
        let held = &self.owners[owner as usize];
        held.spans.iter().all(|&space| {
            let spans = &self.spaces[space as usize].spans;
            space < space_id || (space == space_id && spans.are_below(owner, place))
        }) && held
            .keys
            .iter()
            .all(|(space, key)| (*space, key) < (space_id, place))
    }

    fn ensure_owner(&mut self, owner: LockOwner) {
        if self.owners.len() <= owner as usize {
            self.owners
                .resize_with(owner as usize + 1, OwnerLocks::default);
        }
    }

    fn entry(&mut self, space: SpaceId, key: &Key) -> &mut Entry {
        let entry = self.spaces[space as usize].entries.get_mut(key);
        entry.expect("a place exists while it has holders or a queue")
    }
}

impl OwnerLocks {
    /// Adds the lock on a key, whose entry this is, or makes it exclusive. The owner is the one with these locks.
    #[inline]
    fn hold_key(
        &mut self,
        owner: LockOwner,
        (space, key): (SpaceId, &Key),
        entry: &mut Entry,
        mode: Mode,
    ) {
        if entry.holders.contains(&owner) {
            entry.mode = mode;
        } else {
            entry.hold(owner, mode);
            self.keys.push((space, key.clone()));
        }
    }

    fn age(&self) -> Option<Age> {
        self.undeclared.as_ref().map(|undeclared| undeclared.age)
    }

    fn signal(&self) -> Option<Signal> {
        self.undeclared.as_ref()?.signal
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.spans.is_empty() && self.waiting.is_none()
    }
}

impl LockTable {
    /// Checks LOCK-I1 to LOCK-I3 from the table's data alone, and that owners and places agree.
    ///
    /// # Errors
    /// The invariant's name and what contradicts it.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let mut holds = 0;
        for (id, space) in self.spaces.iter().enumerate() {
            for (key, entry) in &space.entries {
                self.check_entry(id as SpaceId, space, key, entry)?;
                holds += entry.holders.len();
            }
            if let Some((owner, other, place)) = space.spans.conflict() {
                return Err(format!(
                    "LOCK-I1: space {id} {place}: spans of {owner} and {other} conflict"
                ));
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
                        .filter(|waiter| waiter.owner == owner as LockOwner)
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
            return Err(format!("LOCK-I3: space {id} keeps the empty place {key}"));
        }
        if entry.mode == Mode::Exclusive && entry.holders.len() > 1 {
            return Err(format!(
                "LOCK-I1: space {id} {key}: {:?} all hold it",
                entry.holders
            ));
        }
        for &owner in &entry.holders {
            if space.blocked_by_spans(owner, key, entry.mode) == Some(true) {
                return Err(format!(
                    "LOCK-I1: space {id} {key}: held by {owner} inside a span"
                ));
            }
        }
        for waiter in &entry.queue {
            let low = waiter.span.as_ref().map_or(key, |span| &span.low);
            if waiter.age.is_none() && !self.holds_only_below(waiter.owner, id, low) {
                return Err(format!(
                    "LOCK-I2: {} waits at {key} out of order",
                    waiter.owner
                ));
            }
            self.check_signals(space, key, waiter)?;
        }
        if !entry.queue.iter().is_sorted_by_key(|waiter| &waiter.age) {
            return Err(format!("INT-I7: the queue at {key} is not by age"));
        }
        if let Some(head) = entry.queue.front() {
            let (owner, mode) = (head.owner, head.mode);
            let in_spans = space.spans.holders_against(owner, key, mode).next();
            if !entry.blocks(owner, mode) && in_spans.is_none() {
                return Err(format!(
                    "LOCK-I3: {} waits at {key} and nothing blocks it",
                    head.owner
                ));
            }
        }
        Ok(())
    }

    /// Checks INT-I7 and INT-I8 for one waiter.
    fn check_signals(&self, space: &Space, key: &Key, waiter: &Waiter) -> Result<(), String> {
        let held = &self.owners[waiter.owner as usize];
        let age = waiter.waiting().age;
        if held.age() != age {
            return Err(format!(
                "INT-I7: {} waits with the age {:?} of another",
                waiter.owner, waiter.age
            ));
        }
        if held.signal() == Some(Signal::Yield) {
            return Err(format!(
                "INT-I8: {} has to yield and waits at {key}",
                waiter.owner
            ));
        }
        for holder in space.holders_against(key, waiter.owner, waiter.mode) {
            let held = &self.owners[holder as usize];
            let Some(its_age) = held.age() else { continue };
            let needed = match age {
                None => Some(Signal::Yield),
                Some(age) => (age < its_age).then_some(Signal::Wound),
            };
            if held.signal() < needed {
                return Err(format!(
                    "INT-I7: {} waits at {key} for {holder}, which has the signal {:?} and needs {needed:?}",
                    waiter.owner,
                    held.signal()
                ));
            }
        }
        Ok(())
    }

    /// The wait-for edges of this partition: from a waiter to the owners whose locks block it and to the
    /// owners before it in the queue.
    #[cfg(test)]
    fn waits_for(&self) -> Vec<(LockOwner, LockOwner)> {
        let mut edges = Vec::new();
        for space in &self.spaces {
            for (key, entry) in &space.entries {
                for (position, waiter) in entry.queue.iter().enumerate() {
                    let ahead = entry.queue.iter().take(position).map(|before| before.owner);
                    let holders = space.holders_against(key, waiter.owner, waiter.mode);
                    edges.extend(ahead.chain(holders).map(|other| (waiter.owner, other)));
                }
            }
        }
        edges
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
