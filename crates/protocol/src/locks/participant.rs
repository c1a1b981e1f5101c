//! The participant of one partition: locks, reads under them, effects.
//!
//! It treats local and remote coordinators alike. Effects reach the store only when their transaction
//! commits. So the store holds committed rows only, and an abort has nothing to undo.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::sync::Arc;

use anabranch_storage::{LoggedChange, SlotValues, Staged, Store};
use anabranch_types::{
    Access, Activity, ActivityProbe, Effect, Fetched, HybridClock, IndexId, Key, LockPolicy,
    NodeId, Read, Row, RowPrograms, Schema, SlotId, TableId, TableSchema, Ticks, Timestamp, Value,
};
use smallvec::SmallVec;

use super::mode::{LockOwner, Mode, SpaceId};
use super::options::{LockingOptions, ReadLocks};
use super::record::PreparedRecord;
use super::table::{LockTable, Outcome, Signal};
use crate::contract::{AbortReason, Age, Counters, LockWait, OpenTransactions, TransactionId};
use crate::record::ReplayError;
use crate::span::{Span, just_above};

/// The result of a lock request so far.
#[derive(Debug)]
pub(crate) enum Progress {
    /// All locks are held; the rows, if they were requested.
    Granted(Vec<Fetched>),
    /// A lock is queued. When it is granted, the owner is in `woken`.
    Waiting,
    /// A lock is refused.
    Conflict,
}

/// An open lock request.
#[derive(Clone, Debug)]
struct LockRequest {
    reads: Vec<(Read, Access)>,
    /// Whether the request includes the rows, or only the locks.
    fetch: bool,
    wait: bool,
    /// Present if the rows were read before, from a snapshot: then what is locked are the rows of that snapshot.
    snapshot: Option<Timestamp>,
    /// The locks still to acquire, the greatest first.
    left: BinaryHeap<LockTarget>,
    /// The reads that take their locks if they are free, of which a lock was not.
    locked: SmallVec<[usize; 4]>,
    /// When the current wait began.
    waiting_since: Option<Ticks>,
    /// Whether it has waited at all: rows found before may have changed.
    has_waited: bool,
}

/// One lock of a request. Locks are acquired in sorted order.
#[derive(Clone, Debug)]
struct LockTarget {
    space: SpaceId,
    low: Key,
    mode: Mode,
    /// Whether the lock is held to the end of the transaction.
    kept: bool,
    /// The read whose range is locked; `None` for the key `low` alone.
    range: Option<usize>,
    /// The read that is given up if the lock is not free: it has [`LockPolicy::IfFree`].
    if_free: Option<usize>,
}

/// The lock order: the greatest is taken first. Of two locks at one key the stronger comes first, so that none is
/// upgraded.
impl Ord for LockTarget {
    fn cmp(&self, other: &LockTarget) -> Ordering {
        let place = (other.space, &other.low).cmp(&(self.space, &self.low));
        let strength = |target: &LockTarget| (target.mode, target.kept, target.range);
        place.then_with(|| strength(self).cmp(&strength(other)))
    }
}

impl PartialOrd for LockTarget {
    fn partial_cmp(&self, other: &LockTarget) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for LockTarget {
    fn eq(&self, other: &LockTarget) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for LockTarget {}

/// A transaction's state at this partition.
#[derive(Clone, Debug)]
struct LocalTransaction {
    transaction: TransactionId,
    request: Option<LockRequest>,
    /// Whether it has read a guard here: then all its locks are held to the end.
    has_read_guard: bool,
    /// Its staged changes, from its vote to the decision.
    staged: Option<Staged>,
}

/// The participant of one partition. See the module.
#[derive(Clone)]
pub(crate) struct Participant {
    schema: Arc<Schema>,
    pub(crate) store: Store,
    programs: Arc<dyn RowPrograms>,
    options: LockingOptions,
    /// Whether overwritten versions are kept for the store's window, for readers of snapshots.
    keeps_history: bool,
    pub(crate) clock: HybridClock,
    table: LockTable,
    locals: Vec<Option<LocalTransaction>>,
    free: Vec<LockOwner>,
    /// Owners whose lock was granted by a release and that have not been resumed yet.
    woken: VecDeque<LockOwner>,
    pub(crate) probe: ActivityProbe,
}

/// The state that a step may depend on, without constants.
impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant")
            .field("store", &self.store)
            .field("clock", &self.clock)
            .field("table", &self.table)
            .field("locals", &self.locals)
            .field("free", &self.free)
            .field("woken", &self.woken)
            .finish_non_exhaustive()
    }
}

impl Participant {
    pub(crate) fn new(
        node: NodeId,
        schema: Arc<Schema>,
        store: Store,
        programs: Arc<dyn RowPrograms>,
        options: LockingOptions,
    ) -> Participant {
        Participant {
            table: LockTable::new(&schema),
            clock: HybridClock::new(node),
            schema,
            store,
            programs,
            options,
            keeps_history: false,
            locals: Vec::new(),
            free: Vec::new(),
            woken: VecDeque::new(),
            probe: ActivityProbe::default(),
        }
    }

    /// Keeps overwritten versions for the store's window from now on, for readers of snapshots.
    pub(crate) fn keep_history(&mut self) {
        self.keeps_history = true;
    }

    /// Adds a transaction, which waits by age if it has one, and returns its lock owner.
    pub(crate) fn begin(&mut self, transaction: TransactionId, age: Option<Age>) -> LockOwner {
        let owner = self.add_local(transaction);
        if let Some(age) = age {
            self.table.set_age(owner, age);
        }
        owner
    }

    fn add_local(&mut self, transaction: TransactionId) -> LockOwner {
        let local = Some(LocalTransaction {
            transaction,
            request: None,
            has_read_guard: false,
            staged: None,
        });
        match self.free.pop() {
            Some(owner) => {
                self.locals[owner as usize] = local;
                owner
            }
            None => {
                self.locals.push(local);
                (self.locals.len() - 1) as LockOwner
            }
        }
    }

    /// Releases all locks of a transaction and forgets it.
    pub(crate) fn end(&mut self, owner: LockOwner) {
        let release = || self.table.release(owner, &mut self.woken);
        self.probe.within(Activity::Guard, release);
        let ended = self.locals[owner as usize].take();
        assert!(ended.is_some(), "a transaction ends once");
        self.free.push(owner);
    }

    /// The transaction that an owner stands for.
    pub(crate) fn transaction_of(&self, owner: LockOwner) -> Option<TransactionId> {
        let local = self.locals.get(owner as usize)?.as_ref()?;
        Some(local.transaction)
    }

    /// Whether the transaction waits by age.
    pub(crate) fn waits_by_age(&self, owner: LockOwner) -> bool {
        self.table.has_age(owner)
    }

    /// Whether the transaction holds no lock here.
    pub(crate) fn holds_nothing(&self, owner: LockOwner) -> bool {
        self.table.is_free(owner)
    }

    /// The next transaction whose queued lock a release has granted.
    pub(crate) fn next_woken(&mut self) -> Option<(LockOwner, TransactionId)> {
        while let Some(owner) = self.woken.pop_front() {
            // The input that woke it may also have ended it.
            if let Some(Some(local)) = self.locals.get(owner as usize)
                && local.request.is_some()
                && !self.table.is_waiting(owner)
            {
                return Some((owner, local.transaction));
            }
        }
        None
    }

    /// The next signal for a transaction that holds locks here, to a prepared one only where `prepared` is set: a protocol
    /// whose prepared transactions wait for nothing anywhere has no use for it.
    pub(crate) fn next_signal(&mut self, prepared: bool) -> Option<(TransactionId, Signal)> {
        loop {
            let (owner, signal) = self.table.next_signal()?;
            let local = self.locals.get(owner as usize).and_then(Option::as_ref);
            if let Some(local) = local.filter(|local| prepared || local.staged.is_none()) {
                return Some((local.transaction, signal));
            }
        }
    }

    /// The strongest signal that a transaction was given here.
    pub(crate) fn signal_of(&self, owner: LockOwner) -> Option<Signal> {
        self.table.signal_of(owner)
    }

    /// Acquires the locks for these reads in lock order, and reads when all are held.
    pub(crate) fn lock(
        &mut self,
        now: Ticks,
        owner: LockOwner,
        reads: Vec<(Read, Access)>,
        wait: bool,
        fetch: bool,
        counters: &mut Counters,
    ) -> Progress {
        if reads.iter().any(|(_, access)| access.guard) {
            let local = self.locals[owner as usize].as_mut();
            local
                .expect("a transaction requests locks before it ends")
                .has_read_guard = true;
        }
        let left = self.lock_targets(&reads, fetch);
        let request = LockRequest {
            reads,
            fetch,
            wait,
            snapshot: None,
            left,
            locked: SmallVec::new(),
            waiting_since: None,
            has_waited: false,
        };
        self.continue_request(now, owner, request, counters)
    }

    /// Acquires the locks for what was read from a snapshot, and for rows that will be written. The transaction waits by
    /// age. What has changed since is for the caller to find, once all locks are held.
    pub(crate) fn lock_snapshot(
        &mut self,
        now: Ticks,
        owner: LockOwner,
        reads: Vec<(Read, Access)>,
        snapshot: Timestamp,
        counters: &mut Counters,
    ) -> Progress {
        let left = self.lock_targets(&reads, false);
        let request = LockRequest {
            reads,
            fetch: false,
            wait: true,
            snapshot: Some(snapshot),
            left,
            locked: SmallVec::new(),
            waiting_since: None,
            has_waited: false,
        };
        self.continue_request(now, owner, request, counters)
    }

    fn lock_targets(&self, reads: &[(Read, Access)], fetch: bool) -> BinaryHeap<LockTarget> {
        let mut left = Vec::with_capacity(reads.len());
        for (number, (read, access)) in reads.iter().enumerate() {
            if self.needs_lock(read, *access, fetch) {
                left.push(self.lock_target(number, read, *access));
            }
        }
        left.into()
    }

    /// Continues a request after the lock that it waited for was granted.
    pub(crate) fn resume(
        &mut self,
        now: Ticks,
        owner: LockOwner,
        counters: &mut Counters,
    ) -> Progress {
        let local = self.locals[owner as usize]
            .as_mut()
            .expect("an ended transaction is not resumed");
        let mut request = local
            .request
            .take()
            .expect("a woken transaction has a request");
        if let Some(since) = request.waiting_since.take() {
            counters.blocked_ticks += now.since(since).0;
        }
        self.continue_request(now, owner, request, counters)
    }

    fn continue_request(
        &mut self,
        now: Ticks,
        owner: LockOwner,
        request: LockRequest,
        counters: &mut Counters,
    ) -> Progress {
        let before = self.probe.enter(Activity::Guard);
        let progress = self.acquire_and_fetch(now, owner, request, counters);
        self.probe.enter(before);
        progress
    }

    fn acquire_and_fetch(
        &mut self,
        now: Ticks,
        owner: LockOwner,
        mut request: LockRequest,
        counters: &mut Counters,
    ) -> Progress {
        loop {
            while let Some(next) = request.left.peek() {
                if next
                    .if_free
                    .is_some_and(|read| request.locked.contains(&read))
                {
                    request.left.pop();
                    continue;
                }
                match self.acquire(owner, next, &request) {
                    Outcome::Granted => {
                        let taken = request.left.pop().expect("looked at above");
                        self.add_rows_found(owner, &taken, &mut request);
                    }
                    Outcome::Conflict => match next.if_free {
                        Some(read) => {
                            request.locked.push(read);
                            request.left.pop();
                        }
                        None if !next.kept => {
                            request.left.pop();
                        }
                        None => return Progress::Conflict,
                    },
                    Outcome::Queued => {
                        counters.waits += 1;
                        request.waiting_since = Some(now);
                        request.has_waited = true;
                        let local = self.locals[owner as usize].as_mut();
                        local
                            .expect("a transaction requests locks before it ends")
                            .request = Some(request);
                        return Progress::Waiting;
                    }
                }
            }
            let fetch = || self.fetch(&request);
            let rows = self.probe.within(Activity::Storage, fetch);
            if request.has_waited && self.add_rows_moved_up(owner, &mut request, &rows) {
                continue;
            }
            if self.options.read_locks == ReadLocks::Short && !self.has_read_guard(owner) {
                self.table.release_shared(owner, &mut self.woken);
            }
            return Progress::Granted(rows.into_iter().flatten().collect());
        }
    }

    /// Whether a read takes a lock at all. No transaction writes replicated tables, and a short lock
    /// without a read would be released at once.
    fn needs_lock(&self, read: &Read, access: Access, fetch: bool) -> bool {
        let locks = self.options.read_locks;
        access.lock != LockPolicy::Unlocked
            && !self.options.is_unlocked(read.table())
            && (locks.keeps(access) || (fetch && locks == ReadLocks::Short))
    }

    fn has_read_guard(&self, owner: LockOwner) -> bool {
        let local = self.locals[owner as usize].as_ref();
        local.is_some_and(|local| local.has_read_guard)
    }

    fn lock_target(&self, number: usize, read: &Read, access: Access) -> LockTarget {
        let (index, low, range) = match read {
            Read::Point { key, .. } => (None, key.clone(), None),
            Read::Range { index, range, .. } => (
                *index,
                range.start().unwrap_or_else(|| range.prefix.clone()),
                Some(number),
            ),
        };
        let space = self.table.space(read.table(), index);
        LockTarget {
            space,
            low,
            mode: mode(access),
            kept: self.options.read_locks.keeps(access),
            range,
            if_free: (access.lock == LockPolicy::IfFree).then_some(number),
        }
    }

    fn acquire(&mut self, owner: LockOwner, target: &LockTarget, request: &LockRequest) -> Outcome {
        let wait = request.wait && target.if_free.is_none();
        match target.range {
            None => self
                .table
                .acquire(owner, target.space, &target.low, target.mode, wait),
            Some(number) => {
                let span = self.span_to_lock(&request.reads[number].0, request.snapshot);
                self.table
                    .acquire_span(owner, target.space, span, target.mode, wait)
            }
        }
    }

    /// The span that a range read locks: its range, or the part up to its limit.
    fn span_to_lock(&self, read: &Read, snapshot: Option<Timestamp>) -> Span {
        let Read::Range {
            index,
            range,
            limit,
            ..
        } = read
        else {
            unreachable!("only range reads lock spans");
        };
        match (index, limit) {
            (None, Some(_)) => visited_span(read, self.read_at(read, snapshot).answer()),
            _ => Span::of(range),
        }
    }

    /// After the span of a secondary index, the rows found in it are locked: a writer that changes a row
    /// without moving it in the index locks only the row.
    fn add_rows_found(&self, owner: LockOwner, taken: &LockTarget, request: &mut LockRequest) {
        let Some(number) = taken.range else { return };
        let (read, _) = &request.reads[number];
        if let Read::Range { index: Some(_), .. } = read {
            let rows = self.read_at(read, request.snapshot);
            self.add_rows(owner, read.table(), taken, &rows, &mut request.left);
        }
    }

    fn add_rows(
        &self,
        owner: LockOwner,
        table: TableId,
        like: &LockTarget,
        rows: &Fetched,
        left: &mut BinaryHeap<LockTarget>,
    ) {
        let Fetched::Range(rows) = rows.answer() else {
            return;
        };
        let space = self.table.space(table, None);
        let not_held = rows
            .iter()
            .map(|(key, _)| key)
            .filter(|key| !self.table.holds(owner, space, key, like.mode));
        left.extend(not_held.map(|low| LockTarget {
            space,
            low: low.clone(),
            range: None,
            ..*like
        }));
    }

    /// Once its span is held, no row enters a range any more. But a row that the request waited for may
    /// have left the range, and with a limit another row takes its place in the answer. Adds the locks
    /// on such rows, and returns whether there are any.
    fn add_rows_moved_up(
        &self,
        owner: LockOwner,
        request: &mut LockRequest,
        rows: &[Option<Fetched>],
    ) -> bool {
        let mut left = BinaryHeap::new();
        for (number, ((read, access), rows)) in request.reads.iter().zip(rows).enumerate() {
            if let Read::Range {
                table,
                index: Some(_),
                limit: Some(_),
                ..
            } = read
                && let Some(rows) = rows
                && !self.options.is_unlocked(*table)
                && access.lock != LockPolicy::Unlocked
                && self.options.read_locks.keeps(*access)
            {
                let like = self.lock_target(number, read, *access);
                self.add_rows(owner, *table, &like, rows, &mut left);
            }
        }
        request.left = left;
        !request.left.is_empty()
    }

    fn fetch(&self, request: &LockRequest) -> Vec<Option<Fetched>> {
        if request.fetch {
            let reads = request.reads.iter().map(|(read, _)| read);
            let (mut fetched, mut touched) = (Vec::new(), SmallVec::new());
            let found = self
                .store
                .fetch_all(reads, None, None, &mut fetched, &mut touched);
            found.expect("the newest versions are always kept");
            for read in &request.locked {
                fetched[*read] = Fetched::Locked;
            }
            return fetched.into_iter().map(Some).collect();
        }
        if !request.has_waited || request.snapshot.is_some() {
            return Vec::new();
        }
        let needed = |read: &Read| matches!(read, Read::Range { .. });
        request
            .reads
            .iter()
            .map(|(read, _)| needed(read).then(|| self.read(read)))
            .collect()
    }

    /// The newest committed rows, without regard to locks.
    pub(crate) fn read_unlocked(&self, reads: &[Read]) -> Vec<Fetched> {
        let (mut fetched, mut touched) = (Vec::new(), SmallVec::new());
        let newest = || {
            self.store
                .fetch_all(reads.iter(), None, None, &mut fetched, &mut touched)
        };
        let found = self.probe.within(Activity::Storage, newest);
        found.expect("the newest versions are always kept");
        fetched
    }

    fn read(&self, read: &Read) -> Fetched {
        self.store
            .fetch(read, None)
            .expect("the newest versions are always kept")
    }

    /// The rows of a snapshot (`None`: the newest). If the store has dropped versions of that snapshot, the newest: then
    /// the transaction is refused once it has its locks.
    fn read_at(&self, read: &Read, snapshot: Option<Timestamp>) -> Fetched {
        let mut rows = Vec::new();
        let found = snapshot.map(|at| self.store.fetch_up_to([read].into_iter(), at, &mut rows));
        match (found, rows.pop()) {
            (Some(Ok(())), Some(rows)) => rows,
            _ => self.read(read),
        }
    }

    /// The prepared transactions that write what this read of a snapshot finds, or would find.
    pub(crate) fn prepared_writers(
        &self,
        read: &Read,
        snapshot: Timestamp,
    ) -> SmallVec<[LockOwner; 4]> {
        let mut writers = SmallVec::new();
        let rows = self.table.space(read.table(), None);
        let key_span = |key: &Key| Span {
            low: key.clone(),
            high: Some(just_above(key)),
        };
        match read {
            Read::Point { key, .. } => {
                self.table
                    .exclusive_holders(rows, &key_span(key), &mut writers);
            }
            Read::Range { index, .. } => {
                let space = self.table.space(read.table(), *index);
                let span = self.span_to_lock(read, Some(snapshot));
                self.table.exclusive_holders(space, &span, &mut writers);
                if index.is_some()
                    && let Fetched::Range(found) = self.read_at(read, Some(snapshot)).answer()
                {
                    for (key, _) in found {
                        self.table
                            .exclusive_holders(rows, &key_span(key), &mut writers);
                    }
                }
            }
        }
        writers.retain(|owner| self.is_prepared(*owner));
        writers
    }
}

/// Effects.
impl Participant {
    /// Stages the effects, and checks that no lock of another transaction conflicts with them. Never
    /// waits. With `hold`, it acquires the locks: from then on nothing can prevent the commit. Without,
    /// the caller installs or ends the transaction in this step. Returns the values of deferred effects,
    /// which are final, since no other transaction can write their rows.
    pub(crate) fn stage(
        &mut self,
        owner: LockOwner,
        effects: Vec<Effect>,
        hold: bool,
    ) -> Result<Vec<(SlotId, Value)>, AbortReason> {
        let mut has_patches = false;
        for effect in &effects {
            match effect {
                // Its key is known once it is staged.
                Effect::Insert { patches, .. } if !patches.is_empty() => has_patches = true,
                _ => {
                    let space = self.table.space(effect.table(), None);
                    self.acquire_without_waiting(owner, space, effect.key(), hold)?;
                }
            }
        }
        let mut slots = SlotValues::default();
        // No version that it meets is above its timestamp: LOCK-I6.
        let last = Timestamp::from_bits(u64::MAX);
        let stage = || self.store.stage(last, effects, &mut slots, &*self.programs);
        let staged = self.probe.within(Activity::Storage, stage);
        let staged = staged?;
        for change in staged.changes() {
            if has_patches {
                let space = self.table.space(change.table(), None);
                self.acquire_without_waiting(owner, space, change.key(), hold)?;
            }
            if let Some(row) = change.row()
                && !self.schema.table(change.table()).indexes.is_empty()
            {
                self.lock_new_entries(owner, change.table(), change.key(), row, hold)?;
            }
        }
        let local = self.locals[owner as usize]
            .as_mut()
            .expect("an ended transaction does not commit");
        local.staged = Some(staged);
        Ok(slots.into_vec())
    }

    fn acquire_without_waiting(
        &mut self,
        owner: LockOwner,
        space: SpaceId,
        key: &Key,
        hold: bool,
    ) -> Result<(), AbortReason> {
        let taken = match hold {
            true => {
                let outcome = self
                    .table
                    .acquire(owner, space, key, Mode::Exclusive, false);
                outcome == Outcome::Granted
            }
            false => !self.table.is_blocked(owner, space, key, Mode::Exclusive),
        };
        if taken {
            Ok(())
        } else {
            Err(AbortReason::Conflict)
        }
    }

    /// Locks the secondary index entries that a row gains. Entries that it loses need no lock of their
    /// own: a reader that has found the row by them holds a lock on the row.
    fn lock_new_entries(
        &mut self,
        owner: LockOwner,
        table: TableId,
        key: &Key,
        row: &Row,
        hold: bool,
    ) -> Result<(), AbortReason> {
        let schema = Arc::clone(&self.schema);
        let schema = schema.table(table);
        let before = self
            .store
            .item(table, key)
            .and_then(|item| item.latest().row())
            .cloned();
        for index in &schema.indexes {
            let mut entry = entry_prefix(schema, index.id, row);
            let before = before
                .as_ref()
                .map(|before| entry_prefix(schema, index.id, before));
            if before.is_some_and(|before| before == entry) {
                continue;
            }
            let space = self.table.space(table, Some(index.id));
            let has_null = index
                .columns
                .iter()
                .any(|column| row.is_null(&schema.layout, *column));
            if index.unique && !has_null && self.table.is_prefix_held(owner, space, entry.clone()) {
                return Err(AbortReason::Conflict);
            }
            entry.push_bytes(key.as_bytes());
            self.acquire_without_waiting(owner, space, &entry, hold)?;
        }
        Ok(())
    }

    /// Installs the staged changes in the store.
    pub(crate) fn install(&mut self, now: Ticks, owner: LockOwner, timestamp: Timestamp) {
        self.clock.observe(timestamp);
        let local = self.locals[owner as usize]
            .as_mut()
            .expect("an ended transaction does not commit");
        // What was only read here has nothing to install: it is no commit of the store, and leaves no record.
        let staged = local.staged.take();
        let Some(staged) = staged.filter(|staged| !staged.changes().is_empty()) else {
            return;
        };
        for change in staged.changes() {
            let newest = self.store.item(change.table(), change.key());
            let newest = newest.map_or(Timestamp::ZERO, |item| item.latest().timestamp());
            assert!(
                newest < timestamp,
                "LOCK-I6: {} {} has {newest} when {timestamp} commits",
                change.table(),
                change.key(),
            );
        }
        let budget = staged.changes().len() + 1;
        // Readers hold locks and so read the newest versions; LOCK-I6 excludes late writes.
        if !self.keeps_history {
            self.store.discard_history(Timestamp::MAX);
        }
        self.probe.within(Activity::Storage, || {
            self.store.install(now, timestamp, staged);
            self.store.collect(now, budget);
        });
    }

    /// Whether the transaction has this partition's vote.
    pub(crate) fn is_prepared(&self, owner: LockOwner) -> bool {
        self.staged(owner).is_some()
    }

    /// The after-images of the staged changes, for the log.
    pub(crate) fn staged_changes(&self, owner: LockOwner) -> Option<Vec<LoggedChange>> {
        self.staged(owner).map(Staged::logged_changes)
    }

    fn staged(&self, owner: LockOwner) -> Option<&Staged> {
        let local = self.locals[owner as usize].as_ref();
        local.and_then(|local| local.staged.as_ref())
    }

    /// The record that restores a prepared transaction after a crash.
    pub(crate) fn prepared_record(&self, owner: LockOwner) -> Option<PreparedRecord> {
        let local = self.locals[owner as usize].as_ref()?;
        Some(PreparedRecord {
            transaction: local.transaction,
            changes: local.staged.as_ref()?.logged_changes(),
            locks: self.table.held(owner),
        })
    }

    /// Restores a transaction that was prepared before a crash.
    pub(crate) fn restore_prepared(
        &mut self,
        owner: LockOwner,
        record: PreparedRecord,
    ) -> Result<(), ReplayError> {
        for lock in record.locks {
            if self.table.restore_lock(owner, lock) != Outcome::Granted {
                return Err(ReplayError(format!(
                    "{:?} was prepared, and another transaction holds its locks",
                    record.transaction
                )));
            }
        }
        let staged = self.store.restage(record.changes);
        let local = self.locals[owner as usize].as_mut();
        local.expect("the transaction has just begun").staged = Some(staged);
        Ok(())
    }

    /// Installs a commit of before a crash again.
    pub(crate) fn redo(&mut self, timestamp: Timestamp, changes: Vec<LoggedChange>) {
        self.store.redo(timestamp, changes, Timestamp::MAX);
    }

    /// A new timestamp above all seen here.
    pub(crate) fn tick(&mut self, now: Ticks) -> Timestamp {
        self.clock.next(now)
    }
}

/// Invariants.
impl Participant {
    /// Checks what one partition can see of LOCK-I1 to LOCK-I5, INT-I7 and INT-I8.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        self.table.check_invariants()?;
        for owner in self.table.owners() {
            let local = self.locals.get(owner as usize).and_then(Option::as_ref);
            let Some(local) = local else {
                return Err(format!("LOCK-I4: {owner} has locks and no transaction"));
            };
            if self.table.is_waiting(owner) != local.request.is_some() {
                return Err(format!(
                    "LOCK-I4: {:?} waits without a request",
                    local.transaction
                ));
            }
            if local.staged.is_some() && local.request.is_some() {
                return Err(format!(
                    "LOCK-I5: {:?} prepared while it waits",
                    local.transaction
                ));
            }
        }
        if !self.woken.is_empty() {
            return Err("LOCK-I3: a granted request was not resumed".to_string());
        }
        Ok(())
    }

    /// The transactions that wait here, and those that are prepared.
    pub(crate) fn open_transactions(&self) -> OpenTransactions {
        let named = |owner: LockOwner| {
            let local = self.locals.get(owner as usize)?.as_ref()?;
            Some(local.transaction)
        };
        let waits = self.transactions().filter_map(|(owner, transaction)| {
            let (table, index, key, blockers) = self.table.wait_of(owner)?;
            Some(LockWait {
                transaction,
                table,
                index,
                key: key.clone(),
                blockers: blockers.into_iter().filter_map(named).collect(),
            })
        });
        let prepared = self
            .transactions()
            .filter(|(owner, _)| self.is_prepared(*owner));
        OpenTransactions {
            waits: waits.collect(),
            prepared: prepared.map(|(_, transaction)| transaction).collect(),
        }
    }

    /// The transactions that have not ended here.
    pub(crate) fn transactions(&self) -> impl Iterator<Item = (LockOwner, TransactionId)> {
        self.locals.iter().enumerate().filter_map(|(owner, local)| {
            local
                .as_ref()
                .map(|local| (owner as LockOwner, local.transaction))
        })
    }
}

fn mode(access: Access) -> Mode {
    match access.for_write {
        true => Mode::Exclusive,
        false => Mode::Shared,
    }
}

/// The span that a range read of the primary key has visited: its range, or the part up to the row
/// that reached its limit.
fn visited_span(read: &Read, rows: &Fetched) -> Span {
    let (
        Read::Range {
            range,
            reverse,
            limit,
            ..
        },
        Fetched::Range(rows),
    ) = (read, rows)
    else {
        unreachable!("the answer to a range read is a range");
    };
    let mut span = Span::of(range);
    if limit.is_some_and(|limit| rows.len() >= limit as usize) {
        match rows.last() {
            Some((last, _)) if *reverse => span.low = last.clone(),
            Some((last, _)) => span.high = Some(just_above(last)),
            None => span.high = Some(span.low.clone()),
        }
    }
    span
}

/// The indexed columns of a row as its index encodes them.
fn entry_prefix(schema: &TableSchema, index: IndexId, row: &Row) -> Key {
    let mut prefix = Key::empty();
    for column in schema.key_columns(Some(index)) {
        let declared = &schema.columns[column.index()];
        let value = row.get(&schema.layout, *column);
        prefix.push_value(&declared.data_type, declared.nullable, &value);
    }
    prefix
}
