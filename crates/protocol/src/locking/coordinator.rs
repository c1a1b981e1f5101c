//! A transaction as its coordinator sees it: what it has asked of whom, and what to do next.
//!
//! The coordinator's own partition is a participant like any other, reached by a function call.

use anabranch_types::{
    Access, Effect, Fetched, PartitionId, Read, SlotId, Ticks, Timestamp, Value,
};
use smallvec::SmallVec;

use super::participant::Progress;
use super::table::Owner;
use super::{LockingNode, Message, ReadLocks};
use crate::contract::{
    AbortReason, Outbox, PartitionEffects, PartitionRead, Reply, Request, Session, TransactionId,
};

/// A transaction that this node coordinates, from its first request to its reply or abort.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    id: TransactionId,
    /// Its part at the own partition, once it has one.
    pub(super) owner: Option<Owner>,
    /// The other partitions that know of it.
    remotes: SmallVec<[PartitionId; 2]>,
    /// What was read elsewhere, under locks that are still held: a later read of the same is
    /// answered from here. (Under short read locks: what was declared.)
    kept: Vec<Kept>,
    /// Where in `kept` the last answer was found: reads come in the order of declaration.
    kept_next: usize,
    pub(super) stage: Stage,
}

#[derive(Clone, Debug)]
struct Kept {
    partition: PartitionId,
    read: Read,
    for_write: bool,
    rows: Fetched,
}

/// How far a transaction has come, as its coordinator knows.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// No request is open. Everything that was granted is held.
    Running,
    /// A Declare or Read is open: some of its locks are held, some asked for, some to be asked for
    /// when those are held.
    Locking(Locking),
    /// The only remote writer has been asked to decide. All else is staged here.
    Deciding(Pending),
    /// Every remote writer has been asked to vote.
    Voting {
        /// What is staged here.
        pending: Pending,
        /// Those that have not voted.
        awaited: SmallVec<[PartitionId; 2]>,
    },
    /// It is decided, and its client has been answered. Only of nodes that keep records.
    Committing {
        /// Its timestamp.
        timestamp: Timestamp,
        /// The writers that have not acknowledged it.
        awaited: SmallVec<[PartitionId; 2]>,
    },
    /// A partition that had granted it something came back without that. Nothing of it is held
    /// anywhere, and it is told at its next request.
    Doomed,
}

/// A Declare or Read on its way.
#[derive(Clone, Debug)]
pub(super) struct Locking {
    is_declare: bool,
    reads: Vec<PartitionRead>,
    answers: Vec<Option<Fetched>>,
    /// Partitions still to ask, the next one last: the reads for each, by number.
    groups: Vec<Group>,
    /// Partitions that have been asked for locks and have not answered.
    asked: SmallVec<[Group; 1]>,
    /// Partitions that have been asked for rows alone and have not answered.
    reading: SmallVec<[Group; 1]>,
}

#[derive(Clone, Debug)]
struct Group {
    partition: PartitionId,
    reads: Vec<usize>,
    /// Nothing is held there once it has answered.
    passing: bool,
}

/// A commit on its way.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    writers: SmallVec<[PartitionId; 2]>,
    slots: Vec<(SlotId, Value)>,
}

impl Transaction {
    fn new(id: TransactionId) -> Transaction {
        Transaction {
            id,
            owner: None,
            remotes: SmallVec::new(),
            kept: Vec::new(),
            kept_next: 0,
            stage: Stage::Running,
        }
    }

    /// One that is decided.
    pub(super) fn decided(
        id: TransactionId,
        timestamp: Timestamp,
        awaited: SmallVec<[PartitionId; 2]>,
    ) -> Transaction {
        Transaction {
            stage: Stage::Committing { timestamp, awaited },
            ..Transaction::new(id)
        }
    }

    /// Whether it is lost when a partition comes back with nothing but what was durable: it holds or
    /// awaits something there that is not under a vote.
    pub(super) fn relies_on(&self, partition: PartitionId) -> bool {
        let has_vote = match &self.stage {
            Stage::Voting { pending, awaited } => {
                pending.writers.contains(&partition) && !awaited.contains(&partition)
            }
            _ => false,
        };
        (self.remotes.contains(&partition) && !has_vote) || self.reads_unlocked(partition)
    }

    /// Whether rows are awaited from a partition that are read without locks.
    fn reads_unlocked(&self, partition: PartitionId) -> bool {
        match &self.stage {
            Stage::Locking(locking) => {
                let mut awaited = locking.reading.iter();
                awaited.any(|group| group.partition == partition)
            }
            _ => false,
        }
    }

    /// A partition knows nothing of it any more.
    pub(super) fn forget_remote(&mut self, partition: PartitionId) {
        self.remotes.retain(|remote| *remote != partition);
    }

    /// The rows of an earlier read that was the same, of the same partition, under a lock that is
    /// strong enough.
    fn kept(&mut self, asked: &PartitionRead) -> Option<Fetched> {
        let count = self.kept.len();
        let found = (0..count)
            .map(|n| (self.kept_next + n) % count)
            .find(|&at| {
                let kept = &self.kept[at];
                (kept.for_write || !asked.access.for_write)
                    && kept.partition == asked.partition
                    && is_same_read(&kept.read, &asked.read)
            })?;
        self.kept_next = found + 1;
        Some(self.kept[found].rows.clone())
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
        if let Stage::Doomed = transaction.stage {
            if !matches!(request, Request::Abort) {
                let restarted = Reply::Aborted(AbortReason::Restarted);
                out.replies.push((id, restarted));
            }
            return;
        }
        assert!(
            matches!(transaction.stage, Stage::Running) || matches!(request, Request::Abort),
            "{id:?} asks while a request is open"
        );
        match request {
            Request::Follow(_) => {
                self.transactions.insert(id, transaction);
            }
            Request::Declare(reads) => self.begin_locking(now, transaction, reads, true, out),
            Request::Read(reads) => self.begin_locking(now, transaction, reads, false, out),
            Request::Commit(effects) => self.commit(now, transaction, effects, out),
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
        let mut groups: Vec<Group> = Vec::new();
        for (number, read) in reads.iter().enumerate() {
            if read.partition != self.own {
                answers[number] = transaction.kept(read);
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
                    groups.push(Group {
                        partition: read.partition,
                        reads: vec![number],
                        passing: false,
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
            asked: SmallVec::new(),
            reading: SmallVec::new(),
        };
        if self.read_locks == ReadLocks::None {
            self.read_unlocked(transaction.id, &mut locking, out);
        }
        // What lies below something held is refused rather than waited for, so it can be asked
        // for all at once.
        let highest = self.highest_held(&transaction);
        while let Some(group) = locking
            .groups
            .pop_if(|group| Some(group.partition) < highest)
        {
            if let Err(reason) = self.ask(now, &mut transaction, &mut locking, group, false, out) {
                return self.abort(transaction, Some(reason), out);
            }
        }
        self.go_on_locking(now, transaction, locking, out);
    }

    /// The common case: nothing leaves this node, and mostly nothing is waited for.
    fn lock_own_only(
        &mut self,
        now: Ticks,
        mut transaction: Transaction,
        reads: Vec<PartitionRead>,
        is_declare: bool,
        out: &mut Outbox<Message>,
    ) {
        let wait = self
            .highest_held(&transaction)
            .is_none_or(|highest| highest <= self.own);
        let owner = self.own_part(&mut transaction);
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
                // Its rows come back in the order asked, whole.
                let locking = Locking {
                    is_declare,
                    reads: Vec::new(),
                    answers: Vec::new(),
                    groups: Vec::new(),
                    asked: SmallVec::new(),
                    reading: SmallVec::new(),
                };
                transaction.stage = Stage::Locking(locking);
                self.transactions.insert(transaction.id, transaction);
            }
            Progress::Conflict => self.abort(transaction, Some(AbortReason::Conflict), out),
        }
    }

    /// Asks other partitions for the rows that need no lock, all at once.
    fn read_unlocked(
        &mut self,
        transaction: TransactionId,
        locking: &mut Locking,
        out: &mut Outbox<Message>,
    ) {
        let (own, read_locks) = (self.own, self.read_locks);
        let (reads, groups) = (&locking.reads, &mut locking.groups);
        let is_free = |group: &mut Group| {
            let mut accesses = group.reads.iter().map(|number| reads[*number].access);
            group.partition != own && accesses.all(|access| !read_locks.keeps(access))
        };
        let free: SmallVec<[Group; 1]> = groups.extract_if(.., is_free).collect();
        for group in free {
            let wanted = group.reads.iter();
            let get = Message::Get {
                transaction,
                reads: wanted.map(|number| reads[*number].read.clone()).collect(),
            };
            self.send(group.partition, get, out);
            locking.reading.push(group);
        }
    }

    /// The highest partition at which the transaction holds or has asked for a lock.
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

    /// Asks one partition after the other, each when the one before it has granted everything, and
    /// answers the request when the last one has.
    fn go_on_locking(
        &mut self,
        now: Ticks,
        mut transaction: Transaction,
        mut locking: Locking,
        out: &mut Outbox<Message>,
    ) {
        while locking.asked.is_empty()
            && let Some(group) = locking.groups.pop()
        {
            if let Err(reason) = self.ask(now, &mut transaction, &mut locking, group, true, out) {
                return self.abort(transaction, Some(reason), out);
            }
        }
        if locking.asked.is_empty() && locking.reading.is_empty() {
            self.answer(&mut transaction, locking, out);
        } else {
            transaction.stage = Stage::Locking(locking);
        }
        self.transactions.insert(transaction.id, transaction);
    }

    fn answer(
        &mut self,
        transaction: &mut Transaction,
        locking: Locking,
        out: &mut Outbox<Message>,
    ) {
        transaction.stage = Stage::Running;
        let Locking {
            is_declare,
            reads,
            answers,
            ..
        } = locking;
        if is_declare || self.read_locks == ReadLocks::Long {
            for (read, rows) in reads.iter().zip(&answers) {
                if let Some(rows) = rows.as_ref().filter(|_| read.partition != self.own) {
                    let for_write = read.access.for_write;
                    let kept = Kept {
                        partition: read.partition,
                        read: read.read.clone(),
                        for_write,
                        rows: rows.clone(),
                    };
                    transaction.kept.push(kept);
                }
            }
        }
        let reply = match is_declare {
            true => Reply::Declared,
            false => {
                let rows = answers
                    .into_iter()
                    .map(|row| row.expect("all have answered"));
                Reply::Fetched(rows.collect())
            }
        };
        out.replies.push((transaction.id, reply));
    }

    fn own_part(&mut self, transaction: &mut Transaction) -> Owner {
        let participant = &mut self.participant;
        *transaction
            .owner
            .get_or_insert_with(|| participant.begin(transaction.id))
    }

    /// Asks one partition for its part of the reads.
    fn ask(
        &mut self,
        now: Ticks,
        transaction: &mut Transaction,
        locking: &mut Locking,
        mut group: Group,
        wait: bool,
        out: &mut Outbox<Message>,
    ) -> Result<(), AbortReason> {
        let item = |&number: &usize| {
            let read: &PartitionRead = &locking.reads[number];
            (read.read.clone(), read.access)
        };
        let items: Vec<(Read, Access)> = group.reads.iter().map(item).collect();
        if group.partition != self.own {
            group.passing = !transaction.remotes.contains(&group.partition)
                && items
                    .iter()
                    .all(|(_, access)| !self.read_locks.keeps(*access));
            transaction.add_remote(group.partition);
            let lock = Message::Lock {
                transaction: transaction.id,
                reads: items,
                wait,
            };
            self.send(group.partition, lock, out);
            locking.asked.push(group);
            return Ok(());
        }
        let owner = self.own_part(transaction);
        let fetch = !locking.is_declare;
        match self
            .participant
            .lock(now, owner, items, wait, fetch, &mut self.counters)
        {
            Progress::Granted(rows) => locking.file(&group, rows),
            Progress::Waiting => locking.asked.push(group),
            Progress::Conflict => return Err(AbortReason::Conflict),
        }
        Ok(())
    }

    /// A partition (perhaps the own one) has granted what it was asked for.
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
        let stage = std::mem::replace(&mut transaction.stage, Stage::Running);
        let Stage::Locking(mut locking) = stage else {
            panic!("{id:?} is granted locks that it does not ask for");
        };
        match locking.take_awaited(partition) {
            Some(group) => {
                if group.passing {
                    transaction.forget_remote(partition);
                }
                locking.file(&group, rows);
            }
            None => {
                assert!(
                    locking.reads.is_empty(),
                    "{partition} grants what it was not asked"
                );
                locking.answers = rows.into_iter().map(Some).collect();
            }
        }
        self.go_on_locking(now, transaction, locking, out);
    }

    /// A partition (perhaps the own one) has refused and forgotten the transaction.
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

impl Locking {
    /// The group of reads that this partition was asked for.
    fn take_awaited(&mut self, partition: PartitionId) -> Option<Group> {
        [&mut self.asked, &mut self.reading]
            .into_iter()
            .find_map(|groups| {
                let at = groups.iter().position(|g| g.partition == partition)?;
                Some(groups.remove(at))
            })
    }

    fn file(&mut self, group: &Group, rows: Vec<Fetched>) {
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
        let mut slots = Vec::new();
        if !own.is_empty() {
            let owner = self.own_part(&mut transaction);
            match self.participant.stage(owner, own, !remote.is_empty()) {
                Ok(drawn) => slots = drawn,
                Err(reason) => return self.abort(transaction, Some(reason), out),
            }
        }
        let writers = remote.iter().map(|part| part.partition).collect();
        let pending = Pending { writers, slots };
        if remote.is_empty() {
            let timestamp = self.participant.tick(now);
            return self.finish(now, transaction, pending, timestamp, out);
        }
        let id = transaction.id;
        // Who may be dead when it is asked again must not be the only one who knows.
        let last_agent = remote.len() == 1 && !self.keeps_records();
        let above = last_agent.then(|| self.participant.tick(now));
        let awaited = SmallVec::clone(&pending.writers);
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
            Some(_) => Stage::Deciding(pending),
            None => Stage::Voting { pending, awaited },
        };
        self.transactions.insert(id, transaction);
    }

    /// A remote writer votes for the transaction.
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
            Stage::Voting { pending, awaited } => {
                pending.slots.extend(slots);
                awaited.retain(|writer| *writer != partition);
                if !awaited.is_empty() {
                    self.transactions.insert(id, transaction);
                    return;
                }
            }
            stage => panic!("a vote for {id:?}, which is {stage:?}"),
        }
        let Stage::Voting { pending, .. } =
            std::mem::replace(&mut transaction.stage, Stage::Running)
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

    /// The last agent has committed.
    pub(super) fn handle_committed(
        &mut self,
        now: Ticks,
        id: TransactionId,
        timestamp: Timestamp,
        slots: Vec<(SlotId, Value)>,
        out: &mut Outbox<Message>,
    ) {
        let transaction = self.transactions.remove(&id);
        let mut transaction = transaction.expect("who asked for a decision awaits it");
        match std::mem::replace(&mut transaction.stage, Stage::Running) {
            Stage::Deciding(mut pending) => {
                pending.slots.extend(slots);
                transaction
                    .remotes
                    .retain(|remote| !pending.writers.contains(remote));
                self.finish(now, transaction, pending, timestamp, out);
            }
            stage => panic!("a decision on {id:?}, which is {stage:?}"),
        }
    }

    /// It is decided: installs the own part, lets everybody else go, and answers.
    fn finish(
        &mut self,
        now: Ticks,
        transaction: Transaction,
        pending: Pending,
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

    /// Ends a transaction that has no request open, without a trace. It is told when it asks again.
    pub(super) fn doom(&mut self, mut transaction: Transaction, out: &mut Outbox<Message>) {
        let id = transaction.id;
        transaction.stage = Stage::Running;
        self.abort(transaction, None, out);
        let doomed = Transaction {
            stage: Stage::Doomed,
            ..Transaction::new(id)
        };
        self.transactions.insert(id, doomed);
    }

    /// Ends a transaction without a trace, and says why unless it was asked for.
    pub(super) fn abort(
        &mut self,
        transaction: Transaction,
        reason: Option<AbortReason>,
        out: &mut Outbox<Message>,
    ) {
        assert!(
            reason.is_some() || !matches!(transaction.stage, Stage::Deciding(_)),
            "{:?} is aborted while another decides",
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
