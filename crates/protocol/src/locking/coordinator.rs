//! A transaction's state at its coordinator: open requests, votes, and the next step.
//!
//! The coordinator's own partition is a participant like any other, reached by a function call.

use anabranch_types::{
    Access, Effect, Fetched, LockPolicy, PartitionId, Read, SlotId, Ticks, Timestamp, Value,
};
use smallvec::SmallVec;

use super::{LockingNode, Message, ReadLocks};
use crate::contract::{
    AbortReason, Age, Outbox, PartitionEffects, PartitionRead, Reply, Request, Session,
    TransactionId,
};
use crate::locks::{LockOwner, Progress};

/// A transaction that this node coordinates, from its first request to its reply or abort.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    id: TransactionId,
    /// Present if it waits by age. Boxed, since mostly it is absent, and transactions are moved about.
    undeclared: Option<Box<Undeclared>>,
    /// Its lock owner at the own partition, once it has one.
    pub(super) owner: Option<LockOwner>,
    /// The other partitions that know the transaction.
    remotes: SmallVec<[PartitionId; 2]>,
    /// Reads at other partitions under locks that are still held: repeated reads are answered from here.
    /// (Under short read locks: the declared reads.)
    cached: Vec<CachedRead>,
    /// The entry of `cached` after the last one used: reads come in the order of declaration.
    cached_next: usize,
    pub(super) stage: TransactionStage,
}

/// A transaction that waits by age: anywhere, so it requests locks at all partitions at once.
#[derive(Clone, Debug)]
struct Undeclared {
    age: Age,
    /// Whether a transaction that waits in the lock order waits for it: then it must not wait itself.
    yields: bool,
    /// The partitions whose rows may not be durable there: they confirm them before the decision.
    unconfirmed: SmallVec<[PartitionId; 2]>,
}

#[derive(Clone, Debug)]
struct CachedRead {
    partition: PartitionId,
    read: Read,
    for_write: bool,
    rows: Fetched,
}

/// A transaction's stage at its coordinator.
#[derive(Clone, Debug)]
pub(super) enum TransactionStage {
    /// No request is open. All granted locks are held.
    Running,
    /// A Declare or Read is open: some of its locks are held, some requested, and some are requested when
    /// those are held.
    Locking(Locking),
    /// The last agent decides. The effects on the own partition are staged.
    Deciding(PendingCommit),
    /// The remote writers vote, and others confirm what they have sent.
    Voting {
        /// The effects staged here.
        pending: PendingCommit,
        /// The writers that have not voted, and the partitions that have not confirmed.
        awaited: SmallVec<[PartitionId; 2]>,
    },
    /// It is committed, and its client has been answered. Only at nodes with a log.
    Committing {
        /// Its timestamp.
        timestamp: Timestamp,
        /// The writers that have not acknowledged it.
        awaited: SmallVec<[PartitionId; 2]>,
    },
    /// It was aborted while no request was open: a partition that had granted it a lock restarted without that
    /// lock, or another transaction needs its locks. It holds nothing anywhere; its next request is answered by
    /// an abort.
    Doomed(AbortReason),
}

/// An open Declare or Read.
#[derive(Clone, Debug)]
pub(super) struct Locking {
    is_declare: bool,
    reads: Vec<PartitionRead>,
    answers: Vec<Option<Fetched>>,
    /// Reads of partitions without a request yet, the next partition last.
    groups: Vec<PartitionReads>,
    /// Lock requests without an answer.
    locks_requested: SmallVec<[PartitionReads; 1]>,
    /// Requests for rows without locks, without an answer.
    rows_requested: SmallVec<[PartitionReads; 1]>,
}

#[derive(Clone, Debug)]
struct PartitionReads {
    partition: PartitionId,
    reads: Vec<usize>,
    /// Whether the partition holds nothing for the transaction once it has answered.
    is_transient: bool,
}

/// A commit that waits for votes or a decision.
#[derive(Clone, Debug)]
pub(super) struct PendingCommit {
    writers: SmallVec<[PartitionId; 2]>,
    slots: Vec<(SlotId, Value)>,
}

impl Transaction {
    fn new(id: TransactionId) -> Transaction {
        Transaction {
            id,
            undeclared: None,
            owner: None,
            remotes: SmallVec::new(),
            cached: Vec::new(),
            cached_next: 0,
            stage: TransactionStage::Running,
        }
    }

    /// A transaction that is decided.
    pub(super) fn decided(
        id: TransactionId,
        timestamp: Timestamp,
        awaited: SmallVec<[PartitionId; 2]>,
    ) -> Transaction {
        Transaction {
            stage: TransactionStage::Committing { timestamp, awaited },
            ..Transaction::new(id)
        }
    }

    /// Whether the transaction is lost when a partition restarts with its durable state: it holds or
    /// awaits something there without a vote.
    pub(super) fn relies_on(&self, partition: PartitionId) -> bool {
        let has_vote = match &self.stage {
            TransactionStage::Voting { pending, awaited } => {
                pending.writers.contains(&partition) && !awaited.contains(&partition)
            }
            _ => false,
        };
        (self.remotes.contains(&partition) && !has_vote) || self.reads_unlocked(partition)
    }

    /// Whether its commit was requested.
    pub(super) fn is_committing(&self) -> bool {
        matches!(
            self.stage,
            TransactionStage::Deciding(_)
                | TransactionStage::Voting { .. }
                | TransactionStage::Committing { .. }
        )
    }

    /// Whether it must not wait although it waits by age.
    pub(super) fn yields(&self) -> bool {
        self.undeclared.as_ref().is_some_and(|own| own.yields)
    }

    fn age(&self) -> Option<Age> {
        self.undeclared.as_ref().map(|own| own.age)
    }

    /// Whether a read without locks is open at a partition.
    fn reads_unlocked(&self, partition: PartitionId) -> bool {
        match &self.stage {
            TransactionStage::Locking(locking) => {
                let mut awaited = locking.rows_requested.iter();
                awaited.any(|group| group.partition == partition)
            }
            _ => false,
        }
    }

    /// The partition has forgotten the transaction.
    pub(super) fn forget_remote(&mut self, partition: PartitionId) {
        self.remotes.retain(|remote| *remote != partition);
    }

    /// The rows of an equal earlier read at the same partition under a sufficient lock.
    fn cached_rows(&mut self, asked: &PartitionRead) -> Option<Fetched> {
        let count = self.cached.len();
        let found = (0..count)
            .map(|n| (self.cached_next + n) % count)
            .find(|&at| {
                let cached = &self.cached[at];
                (cached.for_write || !asked.access.for_write)
                    && cached.partition == asked.partition
                    && is_same_read(&cached.read, &asked.read)
            })?;
        self.cached_next = found + 1;
        Some(self.cached[found].rows.clone())
    }

    fn add_remote(&mut self, partition: PartitionId) {
        if !self.remotes.contains(&partition) {
            self.remotes.push(partition);
        }
    }
}

fn is_same_read(a: &Read, b: &Read) -> bool {
    match (a, b) {
        (Read::Point { table, key }, Read::Point { table: t, key: k }) => table == t && key == k,
        (
            Read::Range {
                table,
                index,
                range,
                reverse,
                limit,
            },
            Read::Range {
                table: t,
                index: i,
                range: r,
                reverse: v,
                limit: l,
            },
        ) => table == t && index == i && range == r && reverse == v && limit == l,
        _ => false,
    }
}

/// Requests.
impl LockingNode {
    pub(super) fn handle_request(
        &mut self,
        now: Ticks,
        id: TransactionId,
        request: Request,
        out: &mut Outbox<Message>,
    ) {
        let transaction = self
            .transactions
            .remove(&id)
            .unwrap_or_else(|| Transaction::new(id));
        if let TransactionStage::Doomed(reason) = transaction.stage {
            if !matches!(request, Request::Abort) {
                out.replies.push((id, Reply::Aborted(reason)));
            }
            return;
        }
        assert!(
            matches!(transaction.stage, TransactionStage::Running)
                || matches!(request, Request::Abort),
            "{id:?} sends a request while another is open"
        );
        match request {
            Request::Follow(_) | Request::Global => {
                self.transactions.insert(id, transaction);
            }
            Request::WaitByAge(age) => {
                let undeclared = Some(Box::new(Undeclared {
                    age,
                    yields: false,
                    unconfirmed: SmallVec::new(),
                }));
                let transaction = Transaction {
                    undeclared,
                    ..transaction
                };
                self.transactions.insert(id, transaction);
            }
            Request::Declare(reads) => self.begin_locking(now, transaction, reads, true, out),
            Request::Read(reads) => self.begin_locking(now, transaction, reads, false, out),
            Request::Commit(effects) => self.commit(now, transaction, effects, out),
            Request::CommitReads => self.commit(now, transaction, Vec::new(), out),
            Request::Abort => self.abort(transaction, None, out),
        }
    }

    fn begin_locking(
        &mut self,
        now: Ticks,
        mut transaction: Transaction,
        reads: Vec<PartitionRead>,
        is_declare: bool,
        out: &mut Outbox<Message>,
    ) {
        if reads.iter().all(|read| read.partition == self.own) {
            return self.lock_own_only(now, transaction, reads, is_declare, out);
        }
        let mut answers = vec![None; reads.len()];
        let mut groups: Vec<PartitionReads> = Vec::new();
        for (number, read) in reads.iter().enumerate() {
            if read.partition != self.own {
                answers[number] = transaction.cached_rows(read);
            }
            if answers[number].is_some() {
                continue;
            }
            match groups
                .last_mut()
                .filter(|group| group.partition == read.partition)
            {
                Some(group) => group.reads.push(number),
                None => {
                    groups.push(PartitionReads {
                        partition: read.partition,
                        reads: vec![number],
                        is_transient: false,
                    });
                }
            }
        }
        assert!(
            groups.is_sorted_by(|a, b| a.partition < b.partition),
            "reads come sorted by partition"
        );
        groups.reverse();
        let mut locking = Locking {
            is_declare,
            reads,
            answers,
            groups,
            locks_requested: SmallVec::new(),
            rows_requested: SmallVec::new(),
        };
        self.read_unlocked(transaction.id, &mut locking, out);
        // Locks below a held one are refused rather than waited for, so they can be requested all at
        // once. So can all locks of a transaction that waits by age.
        let highest = self.highest_held(&transaction);
        let by_age = transaction.undeclared.is_some();
        let wait = by_age && !transaction.yields();
        while let Some(group) = locking
            .groups
            .pop_if(|group| by_age || Some(group.partition) < highest)
        {
            if let Err(reason) =
                self.request_locks(now, &mut transaction, &mut locking, group, wait, out)
            {
                return self.abort(transaction, Some(reason), out);
            }
        }
        self.continue_locking(now, transaction, locking, out);
    }

    /// The common case: all reads are at the own partition, and mostly no lock has to wait.
    fn lock_own_only(
        &mut self,
        now: Ticks,
        mut transaction: Transaction,
        reads: Vec<PartitionRead>,
        is_declare: bool,
        out: &mut Outbox<Message>,
    ) {
        let wait = match &transaction.undeclared {
            Some(undeclared) => !undeclared.yields,
            None => self
                .highest_held(&transaction)
                .is_none_or(|highest| highest <= self.own),
        };
        let owner = self.local_owner(&mut transaction);
        let items = reads
            .into_iter()
            .map(|read| (read.read, read.access))
            .collect();
        let progress =
            self.participant
                .lock(now, owner, items, wait, !is_declare, &mut self.counters);
        match progress {
            Progress::Granted(rows) => {
                let reply = if is_declare {
                    Reply::Declared
                } else {
                    Reply::Fetched(rows)
                };
                out.replies.push((transaction.id, reply));
                self.transactions.insert(transaction.id, transaction);
            }
            Progress::Waiting => {
                // Its rows come back complete, in the order of the request.
                let locking = Locking {
                    is_declare,
                    reads: Vec::new(),
                    answers: Vec::new(),
                    groups: Vec::new(),
                    locks_requested: SmallVec::new(),
                    rows_requested: SmallVec::new(),
                };
                transaction.stage = TransactionStage::Locking(locking);
                self.transactions.insert(transaction.id, transaction);
            }
            Progress::Conflict => self.abort(transaction, Some(AbortReason::Conflict), out),
        }
    }

    /// Sends the reads that need no lock to other partitions, all at once.
    fn read_unlocked(
        &mut self,
        transaction: TransactionId,
        locking: &mut Locking,
        out: &mut Outbox<Message>,
    ) {
        let (own, read_locks) = (self.own, self.read_locks);
        let (reads, groups) = (&locking.reads, &mut locking.groups);
        let needs_none = |access: Access| {
            access.lock == LockPolicy::Unlocked
                || (read_locks == ReadLocks::None && !read_locks.keeps(access))
        };
        let is_free = |group: &mut PartitionReads| {
            let mut accesses = group.reads.iter().map(|number| reads[*number].access);
            group.partition != own && accesses.all(needs_none)
        };
        let free: SmallVec<[PartitionReads; 1]> = groups.extract_if(.., is_free).collect();
        for group in free {
            let wanted = group.reads.iter();
            let get = Message::Get {
                transaction,
                reads: wanted.map(|number| reads[*number].read.clone()).collect(),
            };
            self.send(group.partition, get, out);
            locking.rows_requested.push(group);
        }
    }

    /// The highest partition at which the transaction holds or has requested a lock.
    fn highest_held(&self, transaction: &Transaction) -> Option<PartitionId> {
        let own = transaction
            .owner
            .filter(|&owner| !self.participant.holds_nothing(owner));
        transaction
            .remotes
            .iter()
            .copied()
            .chain(own.map(|_| self.own))
            .max()
    }

    /// Requests locks at one partition after the other, each when the one before has granted all, and
    /// replies when the last one has.
    fn continue_locking(
        &mut self,
        now: Ticks,
        mut transaction: Transaction,
        mut locking: Locking,
        out: &mut Outbox<Message>,
    ) {
        while locking.locks_requested.is_empty()
            && let Some(group) = locking.groups.pop()
        {
            if let Err(reason) =
                self.request_locks(now, &mut transaction, &mut locking, group, true, out)
            {
                return self.abort(transaction, Some(reason), out);
            }
        }
        if locking.locks_requested.is_empty() && locking.rows_requested.is_empty() {
            self.answer(&mut transaction, locking, out);
        } else {
            transaction.stage = TransactionStage::Locking(locking);
        }
        self.transactions.insert(transaction.id, transaction);
    }

    fn answer(
        &mut self,
        transaction: &mut Transaction,
        locking: Locking,
        out: &mut Outbox<Message>,
    ) {
        transaction.stage = TransactionStage::Running;
        let Locking {
            is_declare,
            reads,
            answers,
            ..
        } = locking;
        if is_declare || self.read_locks == ReadLocks::Long {
            for (read, rows) in reads.iter().zip(&answers) {
                let is_locked = read.access.lock != LockPolicy::Unlocked
                    && !matches!(rows, Some(Fetched::Locked));
                if let Some(rows) = rows
                    .as_ref()
                    .filter(|_| is_locked && read.partition != self.own)
                {
                    let for_write = read.access.for_write;
                    let cached = CachedRead {
                        partition: read.partition,
                        read: read.read.clone(),
                        for_write,
                        rows: rows.clone(),
                    };
                    transaction.cached.push(cached);
                }
            }
        }
        let reply = match is_declare {
            true => Reply::Declared,
            false => {
                let rows = answers
                    .into_iter()
                    .map(|row| row.expect("every partition has answered"));
                Reply::Fetched(rows.collect())
            }
        };
        out.replies.push((transaction.id, reply));
    }

    fn local_owner(&mut self, transaction: &mut Transaction) -> LockOwner {
        let age = transaction.age();
        let participant = &mut self.participant;
        *transaction
            .owner
            .get_or_insert_with(|| participant.begin(transaction.id, age))
    }

    /// Requests the locks of one partition's reads.
    fn request_locks(
        &mut self,
        now: Ticks,
        transaction: &mut Transaction,
        locking: &mut Locking,
        mut group: PartitionReads,
        wait: bool,
        out: &mut Outbox<Message>,
    ) -> Result<(), AbortReason> {
        let item = |&number: &usize| {
            let read: &PartitionRead = &locking.reads[number];
            (read.read.clone(), read.access)
        };
        let items: Vec<(Read, Access)> = group.reads.iter().map(item).collect();
        if group.partition != self.own {
            group.is_transient = !transaction.remotes.contains(&group.partition)
                && items
                    .iter()
                    .all(|(_, access)| !self.read_locks.keeps(*access));
            transaction.add_remote(group.partition);
            let lock = Message::Lock {
                transaction: transaction.id,
                reads: items,
                age: transaction.age(),
                wait,
            };
            self.send(group.partition, lock, out);
            locking.locks_requested.push(group);
            return Ok(());
        }
        let owner = self.local_owner(transaction);
        let fetch = !locking.is_declare;
        match self
            .participant
            .lock(now, owner, items, wait, fetch, &mut self.counters)
        {
            Progress::Granted(rows) => locking.store_rows(&group, rows),
            Progress::Waiting => locking.locks_requested.push(group),
            Progress::Conflict => return Err(AbortReason::Conflict),
        }
        Ok(())
    }

    /// Notes that a partition has sent rows that may not be durable there.
    pub(super) fn note_provisional(&mut self, id: TransactionId, partition: PartitionId) {
        let transaction = self.transactions.get_mut(&id);
        if let Some(undeclared) = transaction.and_then(|known| known.undeclared.as_mut())
            && !undeclared.unconfirmed.contains(&partition)
        {
            undeclared.unconfirmed.push(partition);
        }
    }

    /// Handles the rows of a partition (perhaps the own one) that has granted a request.
    pub(super) fn handle_granted(
        &mut self,
        now: Ticks,
        id: TransactionId,
        partition: PartitionId,
        rows: Vec<Fetched>,
        out: &mut Outbox<Message>,
    ) {
        // The answer may have crossed the transaction's abort.
        let Some(mut transaction) = self.transactions.remove(&id) else {
            return;
        };
        let stage = std::mem::replace(&mut transaction.stage, TransactionStage::Running);
        let TransactionStage::Locking(mut locking) = stage else {
            panic!("{id:?} is granted locks that it has not requested");
        };
        match locking.take_awaited(partition) {
            Some(group) => {
                if group.is_transient {
                    transaction.forget_remote(partition);
                }
                locking.store_rows(&group, rows);
            }
            None => {
                assert!(
                    locking.reads.is_empty(),
                    "{partition} grants locks that were not requested"
                );
                locking.answers = rows.into_iter().map(Some).collect();
            }
        }
        self.continue_locking(now, transaction, locking, out);
    }

    /// Handles a refusal: the partition (perhaps the own one) has forgotten the transaction.
    pub(super) fn handle_refused(
        &mut self,
        id: TransactionId,
        partition: PartitionId,
        reason: AbortReason,
        out: &mut Outbox<Message>,
    ) {
        let Some(mut transaction) = self.transactions.remove(&id) else {
            return;
        };
        transaction.forget_remote(partition);
        self.abort(transaction, Some(reason), out);
    }
}

/// Signals: see [`Message::Wound`] and [`Message::Yield`].
impl LockingNode {
    /// Aborts a transaction that others wait for, unless its commit was requested or it has ended.
    pub(super) fn handle_wound(&mut self, id: TransactionId, out: &mut Outbox<Message>) {
        let Some(transaction) = self.transactions.get(&id) else {
            return;
        };
        let is_idle = match transaction.stage {
            TransactionStage::Running => true,
            TransactionStage::Locking(_) => false,
            _ => return,
        };
        let transaction = self.transactions.remove(&id).expect("looked up above");
        match is_idle {
            true => self.doom(transaction, AbortReason::Conflict, out),
            false => self.abort(transaction, Some(AbortReason::Conflict), out),
        }
    }

    /// Makes a transaction wait no more. An open lock request may be waiting at another partition.
    pub(super) fn handle_yield(&mut self, id: TransactionId, out: &mut Outbox<Message>) {
        let Some(transaction) = self.transactions.get_mut(&id) else {
            return;
        };
        let Some(undeclared) = &mut transaction.undeclared else {
            return;
        };
        // Requests that were sent before may wait.
        let had_to_yield = std::mem::replace(&mut undeclared.yields, true);
        let may_wait = match &transaction.stage {
            TransactionStage::Locking(locking) => !had_to_yield && locking.awaits_locks(),
            _ => false,
        };
        if may_wait {
            self.handle_wound(id, out);
        }
    }
}

impl Locking {
    /// Whether a lock request has no answer.
    fn awaits_locks(&self) -> bool {
        // A request at the own partition alone has no list.
        !self.locks_requested.is_empty() || self.reads.is_empty()
    }

    /// Takes the open request of a partition.
    fn take_awaited(&mut self, partition: PartitionId) -> Option<PartitionReads> {
        [&mut self.locks_requested, &mut self.rows_requested]
            .into_iter()
            .find_map(|groups| {
                let at = groups.iter().position(|g| g.partition == partition)?;
                Some(groups.remove(at))
            })
    }

    fn store_rows(&mut self, group: &PartitionReads, rows: Vec<Fetched>) {
        for (&number, rows) in group.reads.iter().zip(rows) {
            self.answers[number] = Some(rows);
        }
    }
}

/// Commit and abort.
impl LockingNode {
    fn commit(
        &mut self,
        now: Ticks,
        mut transaction: Transaction,
        effects: Vec<PartitionEffects>,
        out: &mut Outbox<Message>,
    ) {
        let mut own: Vec<Effect> = Vec::new();
        let mut remote: SmallVec<[PartitionEffects; 2]> = SmallVec::new();
        for part in effects.into_iter().filter(|part| !part.effects.is_empty()) {
            if part.partition == self.own {
                own = part.effects;
            } else {
                remote.push(part);
            }
        }
        let writers: SmallVec<[PartitionId; 2]> =
            remote.iter().map(|part| part.partition).collect();
        let mut unconfirmed = match &mut transaction.undeclared {
            Some(undeclared) => std::mem::take(&mut undeclared.unconfirmed),
            None => SmallVec::new(),
        };
        // A writer's vote confirms what it has sent.
        unconfirmed.retain(|partition| !writers.contains(partition));
        let is_alone = remote.is_empty() && unconfirmed.is_empty();
        let mut slots = Vec::new();
        if !own.is_empty() {
            let owner = self.local_owner(&mut transaction);
            match self.participant.stage(owner, own, !is_alone) {
                Ok(drawn) => slots = drawn,
                Err(reason) => return self.abort(transaction, Some(reason), out),
            }
        }
        let pending = PendingCommit { writers, slots };
        if is_alone {
            let timestamp = self.participant.tick(now);
            return self.finish(now, transaction, pending, timestamp, out);
        }
        let id = transaction.id;
        // With a log, the coordinator decides: a last agent that crashed could not answer inquiries about
        // a decision that it alone knew.
        let last_agent = remote.len() == 1 && !self.keeps_records();
        let above = last_agent.then(|| self.participant.tick(now));
        let mut awaited = SmallVec::clone(&pending.writers);
        for partition in unconfirmed {
            self.send(partition, Message::Confirm { transaction: id }, out);
            awaited.push(partition);
        }
        for PartitionEffects {
            partition, effects, ..
        } in remote
        {
            transaction.add_remote(partition);
            let message = match above {
                Some(above) => Message::Decide {
                    transaction: id,
                    effects,
                    above,
                },
                None => Message::Prepare {
                    transaction: id,
                    effects,
                },
            };
            self.send(partition, message, out);
        }
        transaction.stage = match above {
            Some(_) => TransactionStage::Deciding(pending),
            None => TransactionStage::Voting { pending, awaited },
        };
        self.transactions.insert(id, transaction);
    }

    /// Handles [`Message::Prepared`], a remote writer's yes vote, and [`Message::Confirmed`].
    pub(super) fn handle_prepared(
        &mut self,
        now: Ticks,
        id: TransactionId,
        partition: PartitionId,
        slots: Vec<(SlotId, Value)>,
        out: &mut Outbox<Message>,
    ) {
        let Some(mut transaction) = self.transactions.remove(&id) else {
            return;
        };
        match &mut transaction.stage {
            TransactionStage::Voting { pending, awaited } => {
                pending.slots.extend(slots);
                awaited.retain(|writer| *writer != partition);
                if !awaited.is_empty() {
                    self.transactions.insert(id, transaction);
                    return;
                }
            }
            stage => panic!("{id:?} gets a vote in stage {stage:?}"),
        }
        let TransactionStage::Voting { pending, .. } =
            std::mem::replace(&mut transaction.stage, TransactionStage::Running)
        else {
            unreachable!()
        };
        let timestamp = self.participant.tick(now);
        for &partition in &pending.writers {
            transaction.forget_remote(partition);
            let message = Message::Commit {
                transaction: id,
                timestamp,
            };
            self.send(partition, message, out);
        }
        self.finish(now, transaction, pending, timestamp, out);
    }

    /// Handles [`Message::Committed`]: the last agent has committed.
    pub(super) fn handle_committed(
        &mut self,
        now: Ticks,
        id: TransactionId,
        timestamp: Timestamp,
        slots: Vec<(SlotId, Value)>,
        out: &mut Outbox<Message>,
    ) {
        let transaction = self.transactions.remove(&id);
        let mut transaction =
            transaction.expect("a transaction stays known until the last agent has decided");
        match std::mem::replace(&mut transaction.stage, TransactionStage::Running) {
            TransactionStage::Deciding(mut pending) => {
                pending.slots.extend(slots);
                transaction
                    .remotes
                    .retain(|remote| !pending.writers.contains(remote));
                self.finish(now, transaction, pending, timestamp, out);
            }
            stage => panic!("{id:?} gets a decision in stage {stage:?}"),
        }
    }

    /// Commits a decided transaction: installs its effects here, releases its locks elsewhere, replies.
    fn finish(
        &mut self,
        now: Ticks,
        transaction: Transaction,
        pending: PendingCommit,
        timestamp: Timestamp,
        out: &mut Outbox<Message>,
    ) {
        let mut changes = None;
        if let Some(owner) = transaction.owner {
            if self.keeps_records() {
                changes = self.participant.staged_changes(owner);
            }
            self.participant.install(now, owner, timestamp);
            self.participant.end(owner);
        }
        self.release_remotes(&transaction, Some(timestamp), out);
        self.counters.commits += 1;
        let reply = Reply::Committed {
            timestamp,
            slots: pending.slots,
            session: Session::default(),
        };
        out.replies.push((transaction.id, reply));
        if self.keeps_records() {
            self.record_decision(transaction.id, timestamp, &pending.writers, changes);
            if !pending.writers.is_empty() {
                let decided = Transaction::decided(transaction.id, timestamp, pending.writers);
                self.transactions.insert(transaction.id, decided);
            }
        }
    }

    /// Aborts a transaction without an open request; its next request is answered by the abort.
    pub(super) fn doom(
        &mut self,
        mut transaction: Transaction,
        reason: AbortReason,
        out: &mut Outbox<Message>,
    ) {
        let id = transaction.id;
        transaction.stage = TransactionStage::Running;
        self.abort(transaction, None, out);
        let doomed = Transaction {
            stage: TransactionStage::Doomed(reason),
            ..Transaction::new(id)
        };
        self.transactions.insert(id, doomed);
    }

    /// Aborts a transaction, and replies with the reason; none if its client requested the abort.
    pub(super) fn abort(
        &mut self,
        transaction: Transaction,
        reason: Option<AbortReason>,
        out: &mut Outbox<Message>,
    ) {
        assert!(
            reason.is_some() || !matches!(transaction.stage, TransactionStage::Deciding(_)),
            "{:?} is aborted while the last agent decides",
            transaction.id
        );
        if let Some(owner) = transaction.owner {
            self.participant.end(owner);
        }
        self.release_remotes(&transaction, None, out);
        self.counters.aborts += 1;
        if let Some(reason) = reason {
            out.replies.push((transaction.id, Reply::Aborted(reason)));
        }
    }

    fn release_remotes(
        &mut self,
        transaction: &Transaction,
        committed: Option<Timestamp>,
        out: &mut Outbox<Message>,
    ) {
        for &partition in &transaction.remotes {
            let release = Message::Release {
                transaction: transaction.id,
                committed,
            };
            self.send(partition, release, out);
        }
    }
}
