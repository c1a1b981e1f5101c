//! A database that behaves like PostgreSQL's serializable snapshot isolation (Cahill, Röhm, Fekete 2008; Ports,
//! Grittner 2012), with the belt's tables in it.
//!
//! * A transaction reads from the snapshot of its first statement.
//! * A writer locks a row and waits for its holder. If another transaction has changed the row since its snapshot, it is
//!   aborted (40001). A transaction that would close a circle of waits is aborted (40P01).
//! * Two transactions are connected by an anti-dependency if one has read what the other overwrites, and both ran at the
//!   same time. COMMIT aborts a transaction that would complete a *dangerous structure*: two adjacent anti-dependencies
//!   whose last transaction committed first.
//! * So the order of commits is not the serial order, and COMMIT itself may fail. The transaction that receives a token
//!   is aborted like any other. Beyond that some COMMITs fail for no reason, as with PostgreSQL's coarse predicate locks.
//!
//! A transaction's changes are staged at its end, since the engine hands them over then; it takes its row locks one after
//! the other, with pauses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_protocol::belt::rows::Refused;
use anabranch_protocol::belt::{
    BeltRecord, Epoch, Hop, RowImages, Rows, Sequence, ServerId, Standing, Token,
};
use anabranch_protocol::{AbortReason, ReplayError, Slots, TransactionId};
use anabranch_storage::recording::index_entry;
use anabranch_storage::{CommitSequence, LoggedChange, SlotValues, Store};
use anabranch_types::{
    Effect, Fetched, Key, NodeId, Read, Row, RowPrograms, SplitMix64, TableId, Ticks, Timestamp,
    time,
};

/// Of how many COMMITs one fails for no reason.
const FAILS_ONE_IN: u64 = 24;

/// The timestamp of a transaction without changes has this node, which no server has.
const READER: NodeId = NodeId(time::NODES_MAX - 1);

/// A transaction of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DatabaseTransaction {
    /// That of an operation.
    Operation(TransactionId),
    /// The one that receives a token.
    Receive,
}

/// What a transaction does at its end.
#[derive(Clone, Debug)]
enum Work {
    Operation {
        effects: Vec<Effect>,
        /// The hold of a global operation.
        hold: Option<Hop>,
        /// The number that it has drawn.
        drawn: Option<Sequence>,
    },
    Receive(Token<RowImages>),
}

/// A transaction that has not ended.
#[derive(Clone, Debug)]
struct Active {
    snapshot: CommitSequence,
    /// When it began, by the database's counter.
    began: u64,
    reads: Vec<Read>,
    work: Option<Work>,
    /// The rows that it still has to lock.
    to_lock: Vec<(TableId, Key)>,
    waits_for: Option<DatabaseTransaction>,
}

/// A change of a row.
#[derive(Clone, Debug)]
struct Changed {
    table: TableId,
    key: Key,
    before: Option<Row>,
    after: Option<Row>,
}

/// A committed transaction that ran at the same time as one that has not ended.
#[derive(Clone, Debug)]
struct Past {
    ended: u64,
    reads: Vec<Read>,
    changes: Vec<Changed>,
    /// When the first of the transactions ended that overwrote what it had read.
    first_out: Option<u64>,
}

/// How far a transaction has got.
#[derive(Debug)]
pub(crate) enum Progress {
    /// It goes on after a pause.
    More,
    /// It waits for a row. It goes on when the holder ends.
    Waits,
    /// It has committed.
    Committed {
        timestamp: Timestamp,
        slots: Slots,
        /// Whether an update is in the outbox.
        has_update: bool,
    },
    /// It has received the token.
    Received(Result<(), Refused>),
    /// It was aborted.
    Aborted(AbortReason),
}

/// The database of one server.
pub(crate) struct Database {
    node: NodeId,
    pub(super) store: Store,
    pub(super) rows: Rows<RowImages>,
    programs: Arc<dyn RowPrograms>,
    active: BTreeMap<DatabaseTransaction, Active>,
    past: Vec<Past>,
    locks: BTreeMap<(TableId, Key), DatabaseTransaction>,
    /// Counts begins and ends.
    counter: u64,
    /// The timestamp at its origin of what was applied here, by its timestamp here.
    pub(super) origins: BTreeMap<Timestamp, Timestamp>,
    random: SplitMix64,
    /// Of how many COMMITs one fails for no reason.
    fails_one_in: u64,
    /// The records of transactions that have ended since they were last taken.
    pub(super) records: Vec<BeltRecord>,
    /// How often the transaction that receives a token was aborted.
    pub(super) receives_aborted: u64,
    /// How many updates of other servers were applied.
    pub(super) updates_applied: u64,
    /// How many COMMITs would have completed a dangerous structure.
    pub(super) dangerous: u64,
}

impl Database {
    pub(crate) fn new(
        node: NodeId,
        servers: u16,
        store: Store,
        programs: Arc<dyn RowPrograms>,
    ) -> Database {
        Database {
            node,
            store,
            rows: Rows::new(ServerId(node.0), (0..servers).map(ServerId).collect()),
            programs,
            active: BTreeMap::new(),
            past: Vec::new(),
            locks: BTreeMap::new(),
            counter: 0,
            origins: BTreeMap::new(),
            random: SplitMix64::stream(u64::from(node.0), "database", 0),
            fails_one_in: FAILS_ONE_IN,
            records: Vec::new(),
            receives_aborted: 0,
            updates_applied: 0,
            dangerous: 0,
        }
    }

    fn count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Whether no transaction is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.active.is_empty()
    }

    fn begin(&mut self, id: DatabaseTransaction) {
        if !self.active.contains_key(&id) {
            let began = self.count();
            let begun = Active {
                snapshot: self.store.last(),
                began,
                reads: Vec::new(),
                work: None,
                to_lock: Vec::new(),
                waits_for: None,
            };
            self.active.insert(id, begun);
        }
    }

    /// One statement's reads.
    pub(crate) fn read(
        &mut self,
        id: TransactionId,
        reads: Vec<Read>,
    ) -> Result<Vec<Fetched>, AbortReason> {
        let id = DatabaseTransaction::Operation(id);
        self.begin(id);
        let active = self.active.get_mut(&id).expect("it has begun");
        let mut fetched = Vec::with_capacity(reads.len());
        for read in &reads {
            match self.store.fetch(read, Some(active.snapshot)) {
                Ok(found) => fetched.push(found),
                Err(_) => return Err(AbortReason::BelowFloor),
            }
        }
        active.reads.extend(reads);
        Ok(fetched)
    }

    /// An operation has run its last statement: from here on [`Database::advance`] ends it.
    pub(crate) fn end_operation(
        &mut self,
        id: TransactionId,
        effects: Vec<Effect>,
        hold: Option<Hop>,
    ) {
        let id = DatabaseTransaction::Operation(id);
        self.begin(id);
        let active = self.active.get_mut(&id).expect("it has begun");
        let mut to_lock: Vec<(TableId, Key)> = Vec::new();
        for effect in &effects {
            let (table, key) = (effect.table(), effect.key().clone());
            active.reads.push(Read::Point {
                table,
                key: key.clone(),
            });
            if !to_lock.contains(&(table, key.clone())) {
                to_lock.push((table, key));
            }
        }
        to_lock.reverse();
        active.to_lock = to_lock;
        active.work = Some(Work::Operation {
            effects,
            hold,
            drawn: None,
        });
    }

    /// Begins the transaction that receives a token: from here on [`Database::advance`] ends it.
    pub(crate) fn begin_receive(&mut self, token: Token<RowImages>) {
        let id = DatabaseTransaction::Receive;
        self.begin(id);
        let updates = token.updates.iter().filter(|update| {
            let position = self.rows.applied.get(&update.origin);
            let is_new = position.is_none_or(|at| *at < update.sequence);
            update.origin != self.rows.server && is_new
        });
        let items = updates.flat_map(|update| &update.payload.images);
        let mut to_lock: Vec<(TableId, Key)> = Vec::new();
        for (table, key) in items.map(|image| image.item()) {
            if !to_lock.contains(&(table, key.clone())) {
                to_lock.push((table, key.clone()));
            }
        }
        to_lock.reverse();
        let active = self.active.get_mut(&id).expect("it has begun");
        let reads = to_lock.iter().map(|(table, key)| Read::Point {
            table: *table,
            key: key.clone(),
        });
        active.reads = reads.collect();
        active.to_lock = to_lock;
        active.work = Some(Work::Receive(token));
    }

    /// Gives up a transaction.
    pub(crate) fn roll_back(&mut self, id: DatabaseTransaction) {
        self.active.remove(&id);
        self.locks.retain(|_, holder| *holder != id);
        self.prune();
    }

    /// The transactions that can go on now, since the one that they waited for has ended.
    pub(crate) fn woken(&mut self) -> Vec<DatabaseTransaction> {
        let mut woken = Vec::new();
        let ended: Vec<DatabaseTransaction> = self
            .active
            .iter()
            .filter(|(_, active)| {
                active
                    .waits_for
                    .is_some_and(|holder| !self.active.contains_key(&holder))
            })
            .map(|(id, _)| *id)
            .collect();
        for id in ended {
            if let Some(active) = self.active.get_mut(&id) {
                active.waits_for = None;
                woken.push(id);
            }
        }
        woken
    }

    /// Forgets committed transactions that no other one can be connected with.
    fn prune(&mut self) {
        let oldest = self.active.values().map(|active| active.began).min();
        let oldest = oldest.unwrap_or(u64::MAX);
        self.past.retain(|past| past.ended > oldest);
    }

    /// Takes the next step of a transaction's end.
    pub(crate) fn advance(&mut self, now: Ticks, id: DatabaseTransaction) -> Progress {
        let Some(active) = self.active.get(&id) else {
            return Progress::Waits;
        };
        if let Some(item) = active.to_lock.last().cloned() {
            return self.lock(id, item);
        }
        if let Some(Work::Operation {
            hold: Some(_),
            drawn: None,
            effects,
        }) = &active.work
            && !effects.is_empty()
        {
            let sequence = self.rows.draw();
            let active = self.active.get_mut(&id).expect("it is active");
            if let Some(Work::Operation { drawn, .. }) = &mut active.work {
                *drawn = Some(sequence);
            }
            return Progress::More;
        }
        self.commit(now, id)
    }

    fn abort(&mut self, id: DatabaseTransaction, reason: AbortReason) -> Progress {
        self.roll_back(id);
        if id == DatabaseTransaction::Receive {
            self.receives_aborted += 1;
        }
        Progress::Aborted(reason)
    }

    /// Locks a row, or waits for its holder. First updater wins.
    fn lock(&mut self, id: DatabaseTransaction, item: (TableId, Key)) -> Progress {
        if let Some(holder) = self.locks.get(&item).copied()
            && holder != id
        {
            let mut at = holder;
            while let Some(next) = self.active.get(&at).and_then(|active| active.waits_for) {
                if next == id {
                    return self.abort(id, AbortReason::Conflict);
                }
                at = next;
            }
            let active = self.active.get_mut(&id).expect("it is active");
            active.waits_for = Some(holder);
            return Progress::Waits;
        }
        let active = self.active.get_mut(&id).expect("it is active");
        let newest = self.store.item(item.0, &item.1);
        if newest.is_some_and(|newest| newest.latest().sequence() > active.snapshot) {
            return self.abort(id, AbortReason::Conflict);
        }
        active.to_lock.pop();
        self.locks.insert(item, id);
        Progress::More
    }

    fn commit(&mut self, now: Ticks, id: DatabaseTransaction) -> Progress {
        if self.random.below(self.fails_one_in) == 0 {
            return self.abort(id, AbortReason::Conflict);
        }
        let active = self.active.get(&id).expect("it is active").clone();
        match active.work.clone() {
            Some(Work::Operation {
                effects,
                hold,
                drawn,
            }) => self.commit_operation(now, id, &active, effects, hold.zip(drawn)),
            Some(Work::Receive(token)) => self.commit_receive(now, id, &active, token),
            None => Progress::Waits,
        }
    }

    fn commit_operation(
        &mut self,
        now: Ticks,
        id: DatabaseTransaction,
        active: &Active,
        effects: Vec<Effect>,
        global: Option<(Hop, Sequence)>,
    ) -> Progress {
        let timestamp = self.next_timestamp();
        let has_effects = !effects.is_empty();
        let mut slots = SlotValues::default();
        let staged = self
            .store
            .stage(timestamp, effects, &mut slots, &*self.programs);
        let staged = match staged {
            Ok(staged) => staged,
            // A row that it did not see may be the reason: PostgreSQL's clients run such a transaction again.
            Err(_) if self.store.last() > active.snapshot => {
                return self.abort(id, AbortReason::Conflict);
            }
            Err(error) => return self.abort(id, AbortReason::from(error)),
        };
        let changes = staged.logged_changes();
        let changed: Vec<Changed> = changes.iter().map(|it| self.changed(it)).collect();
        // An insert whose key is drawn at the end has not locked it.
        let is_late = |it: &Changed| {
            let newest = self.store.item(it.table, &it.key);
            newest.is_some_and(|newest| newest.latest().sequence() > active.snapshot)
        };
        if changed.iter().any(is_late) {
            return self.abort(id, AbortReason::Conflict);
        }
        if self.is_dangerous(id, active, &changed) {
            self.dangerous += 1;
            return self.abort(id, AbortReason::Conflict);
        }
        let mut update = None;
        if let Some((hold, sequence)) = global {
            let images = RowImages::of(&self.store, timestamp, &changes);
            if self
                .rows
                .commit_operation(hold, sequence, images.clone())
                .is_err()
            {
                return self.abort(id, AbortReason::Conflict);
            }
            update = Some((hold, sequence, images));
        }
        let has_update = update.is_some();
        let mut at = Timestamp::new(self.store.last().0, READER);
        if has_effects {
            at = timestamp;
            self.store.install(now, timestamp, staged);
            self.store.collect(now, changes.len() + 1);
            self.records.push(BeltRecord::Committed {
                timestamp,
                changes,
                update,
            });
        }
        self.end(id, active, changed);
        Progress::Committed {
            timestamp: at,
            slots: slots.into_vec(),
            has_update,
        }
    }

    fn commit_receive(
        &mut self,
        now: Ticks,
        id: DatabaseTransaction,
        active: &Active,
        token: Token<RowImages>,
    ) -> Progress {
        // What is new was computed when the transaction began; only this transaction changes the positions.
        let mut rows = self.rows.clone();
        let updates = match rows.receive(token.clone()) {
            Ok(updates) => updates,
            Err(refused) => {
                self.roll_back(id);
                return Progress::Received(Err(refused));
            }
        };
        let images = updates.iter().flat_map(|update| &update.payload.images);
        let changed: Vec<Changed> = images
            .map(|image| {
                let (table, key) = image.item();
                let before = self.store.item(table, key);
                Changed {
                    table,
                    key: key.clone(),
                    before: before.and_then(|item| item.latest().row().cloned()),
                    after: None,
                }
            })
            .collect();
        if self.is_dangerous(id, active, &changed) {
            return self.abort(id, AbortReason::Conflict);
        }
        self.rows = rows;
        let mut applied = Vec::new();
        let mut done = Vec::new();
        for update in updates {
            let changes = update.payload.merged(&self.store);
            self.updates_applied += 1;
            done.extend(changes.iter().map(|it| self.changed(it)));
            let timestamp = self.next_timestamp();
            let staged = self.store.restage(changes.clone());
            self.store.install(now, timestamp, staged);
            self.store.collect(now, changes.len() + 1);
            self.origins.insert(timestamp, update.payload.timestamp);
            applied.push((timestamp, update.payload.timestamp, changes));
        }
        self.records.push(BeltRecord::Received { token, applied });
        self.end(id, active, done);
        Progress::Received(Ok(()))
    }

    /// The timestamp of the next installation.
    fn next_timestamp(&self) -> Timestamp {
        Timestamp::new(self.store.last().0 + 1, self.node)
    }

    fn changed(&self, change: &LoggedChange) -> Changed {
        let before = self.store.item(change.table, &change.key);
        Changed {
            table: change.table,
            key: change.key.clone(),
            before: before.and_then(|item| item.latest().row().cloned()),
            after: change.row.clone(),
        }
    }

    /// A transaction has committed.
    fn end(&mut self, id: DatabaseTransaction, active: &Active, changes: Vec<Changed>) {
        let ended = self.count();
        self.past.push(Past {
            ended,
            reads: active.reads.clone(),
            changes,
            first_out: self.first_out(active),
        });
        self.roll_back(id);
    }

    /// The committed transactions that overwrote what this one has read: when the first of them ended.
    fn first_out(&self, active: &Active) -> Option<u64> {
        let out = self
            .past
            .iter()
            .filter(|past| self.overwrites(past, active));
        out.map(|past| past.ended).min()
    }

    fn overwrites(&self, past: &Past, active: &Active) -> bool {
        past.ended > active.began && self.touch(&active.reads, &past.changes)
    }

    /// Whether COMMIT would complete a dangerous structure.
    fn is_dangerous(&self, id: DatabaseTransaction, active: &Active, changes: &[Changed]) -> bool {
        // As its first transaction: it has read what a committed one overwrote, which in turn had been overwritten.
        let out = self
            .past
            .iter()
            .filter(|past| self.overwrites(past, active));
        if out.clone().any(|past| past.first_out.is_some()) {
            return true;
        }
        // As its middle transaction.
        let Some(first_out) = self.first_out(active) else {
            return false;
        };
        let reads_before = |reads: &[Read]| self.touch(reads, changes);
        let past_in = self.past.iter().any(|past| {
            past.ended > active.began && past.ended >= first_out && reads_before(&past.reads)
        });
        let active_in = self.active.iter();
        past_in
            || active_in
                .filter(|(other, _)| **other != id)
                .any(|(_, other)| reads_before(&other.reads))
    }

    /// Whether some of these reads would find a row that has changed, before or after the change.
    fn touch(&self, reads: &[Read], changes: &[Changed]) -> bool {
        let touches = |read: &Read, change: &Changed| match read {
            Read::Point { table, key } => *table == change.table && *key == change.key,
            Read::Range {
                table,
                index,
                range,
                ..
            } => {
                *table == change.table
                    && match index {
                        None => range.contains(&change.key),
                        Some(index) => {
                            let schema = self.store.schema(*table);
                            let of = &schema.indexes[index.index()];
                            let rows = [&change.before, &change.after];
                            let mut rows = rows.into_iter().flatten();
                            rows.any(|row| {
                                range.contains(&index_entry(schema, of, row, &change.key))
                            })
                        }
                    }
            }
        };
        reads
            .iter()
            .any(|read| changes.iter().any(|change| touches(read, change)))
    }

    /// Closes a hold.
    pub(crate) fn pass(
        &mut self,
        hold: Hop,
        wishes: BTreeSet<ServerId>,
    ) -> Result<Token<RowImages>, Refused> {
        let token = self.rows.pass(hold, wishes.clone())?.clone();
        self.records.push(BeltRecord::Passed { hold, wishes });
        Ok(token)
    }

    /// Promises an epoch.
    pub(crate) fn promise(&mut self, epoch: Epoch) -> Option<Box<Standing<RowImages>>> {
        let promised = self.rows.promise(epoch);
        self.records.push(BeltRecord::Promised(epoch));
        promised.then(|| Box::new(self.rows.standing()))
    }

    /// Takes part in an epoch.
    pub(crate) fn install(&mut self, epoch: Epoch, members: Vec<ServerId>) -> bool {
        self.records
            .push(BeltRecord::Installed(epoch, members.clone()));
        self.rows.install(epoch, members)
    }

    /// Takes part in a recovery: applies a record again.
    pub(crate) fn replay(&mut self, record: BeltRecord) -> Result<(), ReplayError> {
        let failed = |refused: Refused| ReplayError(refused.to_string());
        match record {
            BeltRecord::Committed {
                timestamp,
                changes,
                update,
            } => {
                if let Some((hold, sequence, images)) = update {
                    self.rows.drawn = self.rows.drawn.max(sequence);
                    self.rows
                        .commit_operation(hold, sequence, images)
                        .map_err(failed)?;
                }
                self.redo(timestamp, changes);
            }
            BeltRecord::Received { token, applied } => {
                self.rows.receive(token).map_err(failed)?;
                for (timestamp, origin, changes) in applied {
                    self.redo(timestamp, changes);
                    self.origins.insert(timestamp, origin);
                }
            }
            BeltRecord::Passed { hold, wishes } => {
                self.rows.pass(hold, wishes).map_err(failed)?;
            }
            BeltRecord::Promised(epoch) => {
                self.rows.promise(epoch);
            }
            BeltRecord::Installed(epoch, members) => {
                self.rows.install(epoch, members);
            }
            BeltRecord::State(rows, origins) => {
                self.rows = *rows;
                self.origins = origins.into_iter().collect();
            }
        }
        Ok(())
    }

    fn redo(&mut self, timestamp: Timestamp, changes: Vec<LoggedChange>) {
        let staged = self.store.restage(changes);
        self.store.install(Ticks(0), timestamp, staged);
    }

    /// The record of its whole state beside the application's rows.
    pub(crate) fn state(&self) -> BeltRecord {
        let origins = self.origins.iter().map(|(here, there)| (*here, *there));
        BeltRecord::State(Box::new(self.rows.clone()), origins.collect())
    }
}

#[cfg(test)]
mod tests;
