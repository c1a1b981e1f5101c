//! One attempt of a transaction: the interface to its procedure.
//!
//! The procedure runs as a future that the node polls. When it awaits a read, it puts the requests into
//! a mailbox that it shares with the node; the node passes them to the protocol and puts the answers
//! back. Effects are collected here until commit, and applied to later reads ([`overlay`]). A procedure
//! that has computed for long pauses: its future waits without a request, and the node polls it again
//! after other input.

mod apart;
mod belt;
mod known;
mod verify;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use anabranch_protocol::{PartitionEffects, PartitionRead};
use anabranch_sql::deferred::{
    ConstraintSelection, ConstraintTiming, DeferredChecks, DeferredPosition,
};
use anabranch_sql::summary::StatementId;
use anabranch_sql::transaction::{Sequences, Transaction, TransactionError};
use anabranch_sql::{CompiledAssertion, StatementResult};
use anabranch_types::{
    Access, ColumnIndex, Effect, EffectError, Fetched, Key, LockPolicy, PartitionId, Patch, Read,
    SlotId, TableId, TimeZone, Value,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::application::{Check, PlannedApplication};
use crate::belt::BeltTables;
use crate::limits::{TransactionLimits, TransactionSize};
use crate::overlay::{self, OwnWrite};
use crate::range_cache::RangeCache;
use crate::routing::Target;
use crate::undeclared::StatementEntry;
use known::KnownRows;

/// The target of each of several reads.
type Targets = SmallVec<[Target; 8]>;

/// The state that an attempt shares with its node.
pub(crate) struct Mailbox {
    /// The reads that the procedure waits for.
    pub request: Option<Vec<PartitionRead>>,
    /// Their answers.
    pub response: Option<Vec<Fetched>>,
    /// Whether the procedure pauses. The node resets it when the procedure may go on.
    pub paused: bool,
    /// The effects so far, in order of execution.
    pub writes: Vec<OwnWrite>,
    /// Whether a deferral failed and the next attempt has to run without.
    pub deferral_failed: bool,
    /// The results of the procedure's statements; `None` if they are not recorded.
    pub results: Option<Vec<StatementResult>>,
    /// The transaction's size.
    size: TransactionSize,
}

impl Mailbox {
    pub(crate) fn new(limits: TransactionLimits) -> Rc<RefCell<Mailbox>> {
        Rc::new(RefCell::new(Mailbox {
            request: None,
            response: None,
            paused: false,
            writes: Vec::new(),
            deferral_failed: false,
            results: None,
            size: TransactionSize::new(limits),
        }))
    }

    /// The effects, one entry a partition in ascending order, each in order of execution.
    pub(crate) fn take_effects(&mut self) -> Vec<PartitionEffects> {
        let mut partitions: Vec<PartitionEffects> = Vec::with_capacity(1);
        for write in self.writes.drain(..) {
            for other in (0..write.copies.unwrap_or(0)).map(PartitionId) {
                if other != write.partition {
                    let own = effects_of(&mut partitions, other);
                    own.effects.push(write.effect.clone());
                }
            }
            let own = effects_of(&mut partitions, write.partition);
            if write.guard {
                own.guards.push(own.effects.len() as u32);
            }
            own.effects.push(write.effect);
        }
        partitions.sort_by_key(|p| p.partition);
        partitions
    }
}

/// The entry of a partition, which is new if there is none.
fn effects_of(
    partitions: &mut Vec<PartitionEffects>,
    partition: PartitionId,
) -> &mut PartitionEffects {
    let found = partitions.iter().position(|of| of.partition == partition);
    let at = found.unwrap_or(partitions.len());
    if found.is_none() {
        partitions.push(PartitionEffects {
            partition,
            effects: Vec::with_capacity(ROWS_EXPECTED),
            guards: Vec::new(),
        });
    }
    &mut partitions[at]
}

/// The constants of an attempt.
#[derive(Clone, Debug)]
pub(crate) struct AttemptIdentity {
    /// The partition of the node that runs it.
    pub home: PartitionId,
    /// Unique in the cluster: the high half of [`Transaction::unique`].
    pub unique: u64,
    /// [`Transaction::timestamp`].
    pub timestamp: i64,
    /// [`Transaction::time_zone`].
    pub time_zone: TimeZone,
    /// Whether the plan's deferrals are used.
    pub deferral: bool,
}

/// A place in a transaction's effects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    effects: usize,
    slots: usize,
    size: TransactionSize,
    deferred: DeferredPosition,
}

impl Position {
    /// The number of effects.
    pub(crate) fn effects(&self) -> usize {
        self.effects
    }
}

/// The bits of a unique number's lower half below those of a block's step.
const STEP_SHIFT: u32 = 32;

/// A [`Transaction`] over a node.
pub struct NodeTransaction {
    planned: Arc<PlannedApplication>,
    identity: AttemptIdentity,
    mailbox: Rc<RefCell<Mailbox>>,
    known: KnownRows,
    /// Ranges that other partitions have returned.
    ranges: RangeCache,
    /// The partitions of rows whose keys do not tell them: where they were found, and where own ones were inserted.
    located: FxHashMap<(TableId, Key), PartitionId>,
    inserted: FxHashMap<(TableId, Key), PartitionId>,
    /// The partition that produces each slot; `None` until the effect is written.
    slots: Vec<Option<PartitionId>>,
    uniques: u64,
    sequences: Rc<dyn Sequences>,
    /// Whether all reads are guards, because an assertion is evaluated.
    guards_all: bool,
    /// Whether all reads and writes are guards, because a client sends one statement after the other.
    is_interactive: bool,
    /// Whether the protocol locks what is read for writing.
    locks: bool,
    /// The entry of a statement that is no declared type.
    entry: Option<Arc<StatementEntry>>,
    /// Whether its writes are refused.
    refuses_writes: bool,
    /// Foreign keys that are checked at its end.
    deferred: DeferredChecks,
    /// The tables of the ring that its database is in.
    belt: Option<Arc<BeltTables>>,
}

impl NodeTransaction {
    pub(crate) fn new(
        planned: Arc<PlannedApplication>,
        identity: AttemptIdentity,
        mailbox: Rc<RefCell<Mailbox>>,
        sequences: Rc<dyn Sequences>,
    ) -> NodeTransaction {
        NodeTransaction {
            planned,
            identity,
            mailbox,
            known: KnownRows::default(),
            ranges: RangeCache::default(),
            located: FxHashMap::default(),
            inserted: FxHashMap::default(),
            slots: Vec::new(),
            uniques: 0,
            sequences,
            guards_all: false,
            is_interactive: false,
            locks: false,
            entry: None,
            refuses_writes: false,
            deferred: DeferredChecks::default(),
            belt: None,
        }
    }

    /// Takes the plan entry of the statement that the transaction runs. `needs_entry`: whether it may not write
    /// without one.
    pub(crate) fn enter_statement(
        &mut self,
        entry: Option<Arc<StatementEntry>>,
        needs_entry: bool,
    ) {
        self.refuses_writes = needs_entry && entry.is_none();
        self.entry = entry;
    }

    /// Makes it the transaction of a block: everything that it reads and writes is a guard. `locks`: whether the
    /// protocol locks what is read for writing.
    #[must_use]
    pub(crate) fn interactive(self, locks: bool) -> NodeTransaction {
        NodeTransaction {
            is_interactive: true,
            locks,
            ..self
        }
    }

    /// Notes whether the protocol locks what is read for writing.
    #[must_use]
    pub(crate) fn locking(self, locks: bool) -> NodeTransaction {
        NodeTransaction { locks, ..self }
    }

    /// Begins the block's step with this number: unique numbers depend on it alone, so that a replay has the same.
    pub(crate) fn begin_step(&mut self, place: usize, time_zone: TimeZone) {
        self.uniques = (place as u64) << STEP_SHIFT;
        self.identity.time_zone = time_zone;
    }

    /// Takes the plan entry of the block with the statement that runs next. It holds until the end, since it covers all
    /// statements before it. `needs_entry`: whether the statement may not write without one.
    pub(crate) fn enter_step(&mut self, entry: Option<Arc<StatementEntry>>, needs_entry: bool) {
        self.refuses_writes = needs_entry && entry.is_none();
        if entry.is_some() {
            self.entry = entry;
        }
    }

    /// Takes what SET CONSTRAINTS has said before the step that runs next.
    pub(crate) fn set_timing(&mut self, timing: Option<Arc<ConstraintTiming>>) {
        self.deferred.set_timing(timing);
    }

    /// Runs the checks of the selected foreign keys that wait.
    ///
    /// # Errors
    /// SQLSTATE `23503` if one is violated; a retry.
    pub(crate) async fn check_deferred(
        &mut self,
        selection: &ConstraintSelection,
    ) -> Result<(), TransactionError> {
        let planned = Arc::clone(&self.planned);
        planned.application.check_deferred(self, selection).await
    }

    /// Where the transaction is: what it has written so far.
    pub(crate) fn position(&self) -> Position {
        let mailbox = self.mailbox.borrow();
        Position {
            effects: mailbox.writes.len(),
            slots: self.slots.len(),
            size: mailbox.size,
            deferred: self.deferred.position(),
        }
    }

    /// Takes back everything written since.
    pub(crate) fn roll_back_to(&mut self, position: Position) {
        let mut mailbox = self.mailbox.borrow_mut();
        mailbox.writes.truncate(position.effects);
        mailbox.size = position.size;
        self.slots.truncate(position.slots);
        self.deferred.roll_back_to(position.deferred);
        drop(mailbox);
        // Some of these rows may have been own ones. What is not known is read.
        self.known = KnownRows::default();
        self.locate_own_again();
    }

    /// Whether the transaction has everything that it reads and writes as guards.
    fn is_guarded(&self) -> bool {
        self.is_interactive || self.entry.as_ref().is_some_and(|entry| entry.is_guarded())
    }

    /// Evaluates the assertions that the statement could violate alone: those of its entry, or else all on the
    /// tables that it has written.
    ///
    /// # Errors
    /// As [`NodeTransaction::check_assertions`].
    pub(crate) async fn check_statement(&mut self) -> Result<(), TransactionError> {
        let checks = match &self.entry {
            Some(entry) if !entry.is_alone() => entry.checks().to_vec(),
            _ => {
                let mailbox = self.mailbox.borrow();
                let assertions = self.planned.application.assertions().iter().enumerate();
                let concerns = |assertion: &CompiledAssertion| {
                    let mut written = mailbox.writes.iter().map(|write| write.effect.table());
                    written.any(|table| assertion.tables().contains(&table))
                };
                let concerned = assertions.filter(|(_, assertion)| concerns(assertion));
                let check = |(assertion, _)| Check {
                    assertion,
                    guarded: true,
                };
                concerned.map(check).collect()
            }
        };
        self.check_assertions(&checks).await
    }

    /// Evaluates assertions that the transaction could violate alone, with its own writes included.
    ///
    /// # Errors
    /// SQLSTATE `23514` with the assertion's name if one is violated; errors of the evaluation; a retry.
    pub(crate) async fn check_assertions(
        &mut self,
        checks: &[Check],
    ) -> Result<(), TransactionError> {
        {
            let mut mailbox = self.mailbox.borrow_mut();
            if mailbox.writes.is_empty() {
                return Ok(());
            }
            if mailbox.writes.iter().any(OwnWrite::is_pending) {
                mailbox.deferral_failed = true;
                return Err(TransactionError::Retry(
                    "an assertion depends on values that are known only at commit",
                ));
            }
        }
        let planned = Arc::clone(&self.planned);
        for check in checks {
            let assertion = &planned.application.assertions()[check.assertion];
            let changed = self.changed_rows(assertion);
            self.guards_all = check.guarded;
            let holds = match changed {
                Some(keys) => assertion.holds_for(self, keys).await,
                None => assertion.holds(self).await,
            };
            self.guards_all = false;
            if !holds? {
                let name = assertion.name();
                return Err(TransactionError::Failed(
                    EffectError::new(
                        "23514",
                        format!("the transaction violates assertion \"{name}\""),
                    )
                    .of_constraint(name),
                ));
            }
        }
        Ok(())
    }

    /// The rows of which an assertion about each row by itself is evaluated: those that the transaction has inserted or
    /// updated. `None` for any other assertion.
    fn changed_rows(&self, assertion: &CompiledAssertion) -> Option<Vec<Key>> {
        let table = assertion.row_table()?;
        let mailbox = self.mailbox.borrow();
        let changed = mailbox
            .writes
            .iter()
            .filter_map(|write| match &write.effect {
                Effect::Insert { table: of, key, .. } | Effect::Update { table: of, key, .. }
                    if *of == table =>
                {
                    Some(key.clone())
                }
                _ => None,
            });
        let keys: BTreeSet<Key> = changed.collect();
        Some(keys.into_iter().collect())
    }

    /// Remembers a row that was read, if its table's rows are permanent.
    fn remember(&mut self, table: TableId, key: &Key) {
        if self.planned.execution.is_permanent(table) {
            self.known.note(table, key, &[]);
        }
    }

    /// Remembers whether the row of an own effect exists.
    fn note_own(&mut self, effect: &Effect) {
        match effect {
            Effect::Insert {
                table,
                key,
                patches,
                ..
            } if self.planned.execution.is_parent(*table) => {
                let keys = &self.planned.schema().table(*table).primary_key;
                let of_key = patches.iter().filter(|patch| keys.contains(&patch.column));
                let pending: SmallVec<[Patch; 1]> = of_key.copied().collect();
                self.known.note(*table, key, &pending);
            }
            Effect::Delete { table, key } => {
                self.known.forget(*table, key);
            }
            Effect::Insert { .. } | Effect::Update { .. } => {}
        }
    }

    /// Whether own writes may change the answer to any of these reads.
    fn overlaps(&self, reads: &[Read]) -> bool {
        let writes = &self.mailbox.borrow().writes;
        !writes.is_empty()
            && reads
                .iter()
                .any(|read| overlay::may_change_answer(read, writes))
    }

    fn partitions(&self, target: Target) -> std::ops::Range<u16> {
        match target {
            Target::One(partition) => partition.0..partition.0 + 1,
            Target::Anywhere => self.identity.home.0..self.identity.home.0 + 1,
            Target::Everywhere => 0..self.planned.execution.router.partitions(),
        }
    }

    /// Fetches `reads`, without regard to own writes, and returns one answer a read.
    async fn fetch(
        &mut self,
        access: Access,
        reads: Vec<Read>,
    ) -> Result<Vec<Fetched>, TransactionError> {
        if reads.is_empty() {
            return Ok(Vec::new());
        }
        // What was read without a lock is no answer to another read, and no read without a lock has an earlier answer.
        let is_kept = access.lock == LockPolicy::Wait;
        let is_plain = is_kept && !access.guard && !access.for_write;
        if is_plain && let Some(known) = self.ranges.get_all(&reads) {
            return Ok(known);
        }
        let router = &self.planned.execution.router;
        let target = |read: &Read| match (router.read(read), read) {
            // The candidates of SKIP LOCKED have been read before.
            (Target::Everywhere, Read::Point { table, key }) if !is_kept => {
                self.place_of(*table, key)
            }
            (target, _) => target,
        };
        let targets: Targets = reads.iter().map(target).collect();
        let first = targets[0];
        let together =
            first != Target::Everywhere && targets[1..].iter().all(|target| *target == first);
        if together {
            let partition = PartitionId(self.partitions(first).start);
            let kept = match &reads[..] {
                [range @ Read::Range { .. }] if is_kept && partition != self.identity.home => {
                    Some(range.clone())
                }
                _ => None,
            };
            if reads.iter().any(|read| router.is_apart(read.table())) {
                let answers = self.fetch_located(access, reads, partition).await?;
                if let Some(range) = kept {
                    self.ranges.insert(range, &answers[0]);
                }
                return Ok(answers);
            }
            let requests = reads
                .into_iter()
                .map(|read| PartitionRead {
                    partition,
                    read,
                    access,
                })
                .collect();
            let answers = self.request(requests).await?;
            if let Some(range) = kept {
                self.ranges.insert(range, &answers[0]);
            }
            return Ok(answers);
        }
        if !targets.contains(&Target::Everywhere)
            && (access.lock == LockPolicy::IfFree
                || !reads.iter().any(|read| router.is_apart(read.table())))
        {
            return self.fetch_from_several(access, reads, &targets).await;
        }
        let mut requests: Vec<(PartitionId, usize)> = Vec::with_capacity(reads.len());
        for (place, target) in targets.into_iter().enumerate() {
            let partitions = self.partitions(target);
            requests.extend(partitions.map(|partition| (PartitionId(partition), place)));
        }
        requests.sort_by_key(|(partition, _)| *partition);
        let asked = requests
            .iter()
            .map(|(partition, place)| PartitionRead {
                partition: *partition,
                read: reads[*place].clone(),
                access,
            })
            .collect();
        let answers = self.request(asked).await?;
        let planned = Arc::clone(&self.planned);
        let schema = planned.application.schema();
        let mut gathered: Vec<Option<Fetched>> = vec![None; reads.len()];
        for ((partition, place), answer) in requests.into_iter().zip(answers) {
            self.locate(&reads[place], partition, &answer);
            let slot = &mut gathered[place];
            *slot = Some(match slot.take() {
                None => answer,
                Some(before) => overlay::merge(schema, &reads[place], before, answer),
            });
        }
        Ok(gathered
            .into_iter()
            .map(|answer| answer.expect("one answer a read"))
            .collect())
    }

    /// Fetches `reads` from several partitions, each read from one of them.
    async fn fetch_from_several(
        &mut self,
        access: Access,
        mut reads: Vec<Read>,
        targets: &Targets,
    ) -> Result<Vec<Fetched>, TransactionError> {
        let mut order: SmallVec<[(PartitionId, u32); 8]> = SmallVec::new();
        for (place, target) in (0u32..).zip(targets) {
            order.push((PartitionId(self.partitions(*target).start), place));
        }
        order.sort_unstable();
        let asked = order.iter().map(|(partition, place)| {
            let read = &mut reads[*place as usize];
            let nothing = Read::Point {
                table: read.table(),
                key: Key::empty(),
            };
            PartitionRead {
                partition: *partition,
                read: std::mem::replace(read, nothing),
                access,
            }
        });
        let asked = asked.collect();
        let answers = self.request(asked).await?;
        let mut gathered = Vec::new();
        gathered.resize_with(answers.len(), || Fetched::Point(None));
        for ((_, place), answer) in order.into_iter().zip(answers) {
            gathered[place as usize] = answer;
        }
        Ok(gathered)
    }

    /// Whether a table has no primary key, so that its rows have hidden keys.
    fn has_hidden_keys(&self, table: TableId) -> bool {
        let schema = self.planned.application.schema();
        schema.table(table).primary_key.is_empty()
    }

    async fn request(
        &self,
        requests: Vec<PartitionRead>,
    ) -> Result<Vec<Fetched>, TransactionError> {
        {
            let mut mailbox = self.mailbox.borrow_mut();
            let added = mailbox.size.add_reads(&requests);
            added.map_err(TransactionError::Failed)?;
            mailbox.request = Some(requests);
        }
        Ok(ResponseFuture(&self.mailbox).await)
    }

    /// Fetches reads whose answers own writes may change: with wider limits and the rows that own updates
    /// change. Applies the own writes to the answers.
    async fn read_through_writes(
        &mut self,
        access: Access,
        reads: Vec<Read>,
        place: Option<PartitionId>,
    ) -> Result<Vec<Fetched>, TransactionError> {
        let asked: Vec<Read> = {
            let writes = &self.mailbox.borrow().writes;
            reads
                .iter()
                .map(|read| overlay::widen(read, writes))
                .collect()
        };
        let bases = overlay::bases(&reads, &self.mailbox.borrow().writes);
        let of_bases = bases.iter().map(|(table, key)| Read::Point {
            table: *table,
            key: key.clone(),
        });
        let (answers, base_rows) = match place {
            Some(partition) => {
                let of_bases = of_bases.collect();
                let answers = self.fetch_located(access, asked, partition).await?;
                (answers, self.fetch(access, of_bases).await?)
            }
            None => {
                let asked = asked.into_iter().chain(of_bases).collect();
                let mut answers = self.fetch(access, asked).await?;
                let base_rows = answers.split_off(reads.len());
                (answers, base_rows)
            }
        };
        let mailbox = self.mailbox.borrow();
        let programs = self.planned.application.programs();
        let overlay = overlay::Overlay::new(
            self.planned.application.schema(),
            &*programs,
            &mailbox.writes,
            bases,
            base_rows,
        );
        reads
            .iter()
            .zip(answers)
            .map(|(read, answer)| overlay.fold(read, answer))
            .collect()
    }

    fn target_of(&self, effect: &Effect) -> Target {
        let router = &self.planned.execution.router;
        match effect {
            Effect::Insert { table, row, .. } => router.row(*table, row),
            Effect::Update { table, key, .. } | Effect::Delete { table, key } => {
                match router.key(*table, key) {
                    Target::Everywhere => self.place_of(*table, key),
                    known => known,
                }
            }
        }
    }

    /// Checks that deferred values are used only on the partition that produces them.
    fn check_slots(
        &mut self,
        partition: PartitionId,
        effect: &Effect,
    ) -> Result<(), TransactionError> {
        match effect {
            Effect::Update {
                outputs: Some(first),
                ..
            } => {
                // Slots after this effect's own belong to effects that are written later.
                self.slots[first.index()..].fill(Some(partition));
            }
            Effect::Insert { patches, .. } => {
                let elsewhere = |slot: SlotId| self.slots[slot.index()] != Some(partition);
                if patches.iter().any(|patch| elsewhere(patch.slot)) {
                    self.mailbox.borrow_mut().deferral_failed = true;
                    return Err(TransactionError::Retry(
                        "a deferred value crosses partitions",
                    ));
                }
            }
            Effect::Update { .. } | Effect::Delete { .. } => {}
        }
        Ok(())
    }
}

impl NodeTransaction {
    /// Reads for a statement; `place`: the partition of all rows that are wanted, if it is known otherwise than by the
    /// reads.
    async fn read_for(
        &mut self,
        statement: StatementId,
        for_write: bool,
        reads: Vec<Read>,
        place: Option<PartitionId>,
        lock: LockPolicy,
    ) -> Result<Vec<Fetched>, TransactionError> {
        // A write that is not deferred is computed from the row read. The row must not have changed when
        // the transaction commits, or an update in between would be lost.
        // Where the change itself is written, none is lost; but a guard's row must be as it was read.
        let execution = &self.planned.execution;
        let is_update_base = for_write
            && !self.defers(statement)
            && (!execution.writes_programs() || execution.guards_writes(statement));
        let is_locked = lock != LockPolicy::Unlocked;
        let access = Access {
            for_write: is_locked && for_write,
            guard: is_locked
                && (self.guards_all
                    || self.is_guarded()
                    || is_update_base
                    || self.planned.execution.guards_reads(statement)),
            lock,
        };
        // The keys of points are needed after the reads have been passed to the protocol. What was seen without a lock may be
        // gone by now.
        let execution = &self.planned.execution;
        let watched: Vec<(TableId, Option<Key>)> = if is_locked
            && reads
                .iter()
                .any(|read| execution.is_permanent(read.table()))
        {
            reads.iter().map(table_and_key).collect()
        } else {
            Vec::new()
        };
        // Rows that are not there are no base of a write.
        let is_absence_guarded = self.guards_all
            || self.is_guarded()
            || execution.guards_reads(statement)
            || execution.guards_writes(statement);
        let answers = match place {
            _ if self.overlaps(&reads) => self.read_through_writes(access, reads, place).await?,
            Some(partition) => self.fetch_located(access, reads, partition).await?,
            None if lock == LockPolicy::Wait && access.guard && self.are_keys_apart(&reads) => {
                self.fetch_by_key(access, reads, is_absence_guarded).await?
            }
            None => self.fetch(access, reads).await?,
        };
        for ((table, key), answer) in watched.into_iter().zip(&answers) {
            match (key, answer) {
                (Some(key), Fetched::Point(Some(_))) => self.remember(table, &key),
                (None, Fetched::Range(rows)) if rows.len() <= REMEMBERED_ROWS_MAX => {
                    for (key, _) in rows {
                        self.remember(table, key);
                    }
                }
                _ => {}
            }
        }
        Ok(answers)
    }
}

impl Transaction for NodeTransaction {
    async fn read(
        &mut self,
        statement: StatementId,
        for_write: bool,
        reads: Vec<Read>,
    ) -> Result<Vec<Fetched>, TransactionError> {
        self.read_for(statement, for_write, reads, None, LockPolicy::Wait)
            .await
    }

    fn locks_rows(&self) -> bool {
        self.locks
    }

    async fn read_with_policy(
        &mut self,
        statement: StatementId,
        for_write: bool,
        reads: Vec<Read>,
        policy: LockPolicy,
    ) -> Result<Vec<Fetched>, TransactionError> {
        self.read_for(statement, for_write, reads, None, policy)
            .await
    }

    fn placed_by(&self, table: TableId) -> Option<ColumnIndex> {
        self.planned.execution.router.placing_column(table)
    }

    async fn read_placed(
        &mut self,
        statement: StatementId,
        for_write: bool,
        reads: Vec<Read>,
        placing: Key,
    ) -> Result<Vec<Fetched>, TransactionError> {
        let router = &self.planned.execution.router;
        let place = match reads
            .first()
            .map(|read| router.placed_key(read.table(), &placing))
        {
            Some(Target::One(partition)) => Some(partition),
            _ => None,
        };
        self.read_for(statement, for_write, reads, place, LockPolicy::Wait)
            .await
    }

    fn write(&mut self, statement: StatementId, effect: Effect) -> Result<(), TransactionError> {
        if self.refuses_writes {
            return Err(TransactionError::Failed(EffectError::new(
                "55000",
                "a statement that writes needs an entry in the plan",
            )));
        }
        let mut copies = None;
        let partition = match self.target_of(&effect) {
            Target::One(partition) => partition,
            Target::Anywhere if self.entry.as_ref().is_some_and(|entry| entry.is_alone()) => {
                copies = Some(self.planned.execution.router.partitions());
                self.identity.home
            }
            Target::Anywhere => return Err(refuse(self.replicated(effect.table()))),
            Target::Everywhere => {
                let schema = self.planned.application.schema();
                let table = &schema.table(effect.table()).name;
                return Err(refuse(format!(
                    "a row of table \"{table}\" can be changed only after this transaction has \
                     read it, because its key does not determine its partition: read it first"
                )));
            }
        };
        self.check_placing_value(&effect)?;
        self.check_slots(partition, &effect)?;
        self.note_own(&effect);
        if self.planned.execution.router.is_apart(effect.table()) {
            if matches!(effect, Effect::Insert { .. }) {
                self.check_drawn(statement, effect.table())?;
            }
            self.locate_own(&effect, partition);
        }
        let guard = self.is_guarded() || self.planned.execution.guards_writes(statement);
        let mut mailbox = self.mailbox.borrow_mut();
        let added = mailbox.size.add_write(&effect);
        added.map_err(TransactionError::Failed)?;
        let writes = &mut mailbox.writes;
        if writes.is_empty() {
            writes.reserve(ROWS_EXPECTED);
        }
        writes.push(OwnWrite {
            partition,
            copies,
            effect,
            guard,
        });
        Ok(())
    }

    fn defers(&self, statement: StatementId) -> bool {
        self.identity.deferral && self.planned.execution.is_deferred(statement)
    }

    fn writes_programs(&self) -> bool {
        self.planned.execution.writes_programs()
    }

    fn is_known(&mut self, table: TableId, key: &Key, pending: &[Patch]) -> bool {
        let known = self.known.has(table, key, pending);
        if !known && !pending.is_empty() {
            // It cannot be read either: the next attempt has to run without deferral.
            self.mailbox.borrow_mut().deferral_failed = true;
        }
        known
    }

    fn slots(&mut self, count: u16) -> SlotId {
        let first = SlotId(self.slots.len() as u16);
        self.slots
            .resize(self.slots.len() + usize::from(count), None);
        first
    }

    fn unique(&mut self) -> u128 {
        self.uniques += 1;
        u128::from(self.identity.unique) << 64 | u128::from(self.uniques)
    }

    fn sequences(&self) -> Rc<dyn Sequences> {
        Rc::clone(&self.sequences)
    }

    fn deferred_checks(&mut self) -> Option<&mut DeferredChecks> {
        Some(&mut self.deferred)
    }

    fn pause(&mut self) -> impl Future<Output = Result<(), TransactionError>> {
        self.mailbox.borrow_mut().paused = true;
        PauseFuture(&self.mailbox)
    }

    fn statement_bytes_max(&self) -> u64 {
        self.mailbox.borrow().size.limits.statement_bytes_max
    }

    fn note_result(&mut self, statement: StatementId, rows: &[Vec<Value>], count: u64) {
        if let Some(results) = &mut self.mailbox.borrow_mut().results {
            results.push(StatementResult {
                statement,
                rows: rows.to_vec(),
                count,
            });
        }
    }

    fn timestamp(&self) -> i64 {
        self.identity.timestamp
    }

    fn time_zone(&self) -> TimeZone {
        self.identity.time_zone.clone()
    }
}

impl NodeTransaction {
    fn replicated(&self, table: TableId) -> String {
        let name = &self.planned.application.schema().table(table).name;
        format!(
            "table \"{name}\" is on every partition because no transaction type of the plan writes \
             it; declare the transaction type that does, and plan again"
        )
    }
}

fn refuse(message: String) -> TransactionError {
    TransactionError::Failed(EffectError::new("0A000", message))
}

/// The initial capacity of a transaction's lists of rows.
const ROWS_EXPECTED: usize = 32;

/// Rows of larger answers are not remembered: a search of the known rows has to stay cheaper than a read
/// at the own partition.
const REMEMBERED_ROWS_MAX: usize = 16;

fn table_and_key(read: &Read) -> (TableId, Option<Key>) {
    match read {
        Read::Point { table, key } => (*table, Some(key.clone())),
        Read::Range { table, .. } => (*table, None),
    }
}

/// A future that is ready once the node has put answers into the mailbox.
struct ResponseFuture<'m>(&'m RefCell<Mailbox>);

impl Future for ResponseFuture<'_> {
    type Output = Vec<Fetched>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Vec<Fetched>> {
        match self.0.borrow_mut().response.take() {
            Some(response) => Poll::Ready(response),
            None => Poll::Pending,
        }
    }
}

/// A future that is ready once the node has ended the pause.
struct PauseFuture<'m>(&'m RefCell<Mailbox>);

impl Future for PauseFuture<'_> {
    type Output = Result<(), TransactionError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), TransactionError>> {
        match self.0.borrow().paused {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }
}
