//! A transaction's state at its coordinator: its snapshot, what it has read, votes, and the decision.
//!
//! The coordinator's own partition is a participant like any other, reached by a function call.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use anabranch_types::{Fetched, PartitionId, Read, Ticks, Timestamp};
use smallvec::SmallVec;

use super::message::{Commitment, Message, Preparation, Vote};
use super::record::{DecidedRecord, ScoreRecord};
use super::{ScoreNode, just_after};
use crate::contract::{
    AbortReason, Age, Outbox, PartitionEffects, PartitionRead, Reply, Request, Session,
    SessionToken, Slots, TransactionId,
};

/// A transaction that this node coordinates, from its first request to its reply or abort.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    /// Kept through all attempts, if its engine says so.
    age: Age,
    /// What it reads from; `None` before the first read.
    snapshot: Option<Timestamp>,
    /// What it has read, by partition.
    reads: BTreeMap<PartitionId, Vec<Read>>,
    pub(super) stage: Stage,
}

/// A transaction's stage at its coordinator.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// No request is open. It holds nothing anywhere.
    Running,
    /// A Read is open.
    Reading {
        answers: Vec<Option<Fetched>>,
        /// The partitions without an answer, and the places of their answers.
        awaited: SmallVec<[(PartitionId, Range<usize>); 2]>,
    },
    /// A Commit is open: participants lock, validate and vote.
    Voting(Voting),
    /// It is committed, and its client has been answered. Only at nodes with a log.
    Committing {
        commit: Commitment,
        /// The participants that have not acknowledged it.
        awaited: SmallVec<[PartitionId; 2]>,
    },
}

/// The votes on a transaction.
#[derive(Clone, Debug)]
pub(super) struct Voting {
    /// All participants that have not refused.
    participants: SmallVec<[PartitionId; 2]>,
    /// Those that have not voted.
    awaited: SmallVec<[PartitionId; 2]>,
    /// The votes so far together.
    merged: Vote,
}

/// The reads of one batch at one partition.
struct ReadGroup {
    partition: PartitionId,
    /// Their places in the batch.
    places: Range<usize>,
    reads: Vec<Read>,
}

/// What a client has seen: its next transaction reads from a later snapshot.
#[derive(Clone, Copy, Debug)]
struct ScoreSession(Timestamp);

impl SessionToken for ScoreSession {}

impl Transaction {
    fn new(now: Ticks, id: TransactionId) -> Transaction {
        Transaction {
            age: Age {
                began: now,
                transaction: id,
            },
            snapshot: None,
            reads: BTreeMap::new(),
            stage: Stage::Running,
        }
    }

    /// A transaction that is decided.
    pub(super) fn decided(
        id: TransactionId,
        commit: Commitment,
        awaited: SmallVec<[PartitionId; 2]>,
    ) -> Transaction {
        Transaction {
            stage: Stage::Committing { commit, awaited },
            ..Transaction::new(Ticks::default(), id)
        }
    }

    /// Whether it awaits an answer of this partition that was not decided on.
    pub(super) fn awaits(&self, partition: PartitionId) -> bool {
        match &self.stage {
            Stage::Reading { awaited, .. } => awaited.iter().any(|(from, _)| *from == partition),
            Stage::Voting(voting) => voting.awaited.contains(&partition),
            Stage::Running | Stage::Committing { .. } => false,
        }
    }
}

/// Requests.
impl ScoreNode {
    pub(super) fn handle_request(
        &mut self,
        now: Ticks,
        id: TransactionId,
        request: Request,
        out: &mut Outbox<Message>,
    ) {
        let fresh = || Transaction::new(now, id);
        let transaction = self.transactions.entry(id).or_insert_with(fresh);
        assert!(
            matches!(transaction.stage, Stage::Running) || matches!(request, Request::Abort),
            "{id:?} sends a request while another is open"
        );
        match request {
            Request::Follow(session) => {
                if let Some(ScoreSession(seen)) = session.token() {
                    self.participant.clock.observe(*seen);
                }
            }
            Request::WaitByAge(age) => transaction.age = age,
            Request::Global => {}
            Request::Declare(_) => out.replies.push((id, Reply::Declared)),
            Request::Read(reads) => self.read(now, id, reads, out),
            Request::Commit(effects) => self.commit(now, id, effects, out),
            Request::CommitReads => self.commit_reader(now, id, out),
            Request::Abort => self.abort(id, None, out),
        }
    }

    fn read(
        &mut self,
        now: Ticks,
        id: TransactionId,
        reads: Vec<PartitionRead>,
        out: &mut Outbox<Message>,
    ) {
        let count = reads.len();
        let mut groups: SmallVec<[ReadGroup; 2]> = SmallVec::new();
        for (place, asked) in reads.into_iter().enumerate() {
            let partition = asked.partition;
            match groups.last_mut().filter(|last| last.partition == partition) {
                Some(last) => {
                    last.places.end = place + 1;
                    last.reads.push(asked.read);
                }
                None => groups.push(ReadGroup {
                    partition,
                    places: place..place + 1,
                    reads: vec![asked.read],
                }),
            }
        }
        let drawn = self.draw(now);
        let options = &self.options;
        let transaction = self.transactions.get_mut(&id).expect("it was just there");
        let is_first = transaction.snapshot.is_none() && groups.len() == 1;
        let snapshot = match is_first {
            true => drawn,
            false => *transaction.snapshot.get_or_insert(drawn),
        };
        for group in &groups {
            let reads = group.reads.iter();
            let validated = reads.filter(|read| !options.unlocked_tables.contains(&read.table()));
            let known = transaction.reads.entry(group.partition).or_default();
            known.extend(validated.cloned());
        }
        let awaited = groups
            .iter()
            .map(|group| (group.partition, group.places.clone()));
        transaction.stage = Stage::Reading {
            answers: vec![None; count],
            awaited: awaited.collect(),
        };
        if groups.is_empty() {
            return self.answer_reads(id, out);
        }
        for ReadGroup {
            partition, reads, ..
        } in groups
        {
            if !self.transactions.contains_key(&id) {
                return; // The own partition has refused.
            }
            if partition == self.own {
                self.read_here(now, id, (snapshot, is_first), reads, out);
            } else {
                let read = Message::Read {
                    transaction: id,
                    snapshot,
                    is_first,
                    reads,
                };
                self.send(partition, read, out);
            }
        }
    }

    /// Handles a partition's answer to a read.
    pub(super) fn handle_fetched(
        &mut self,
        id: TransactionId,
        partition: PartitionId,
        snapshot: Timestamp,
        rows: Vec<Fetched>,
        out: &mut Outbox<Message>,
    ) {
        // The answer may have crossed the transaction's abort.
        let Some(transaction) = self.transactions.get_mut(&id) else {
            return;
        };
        let Stage::Reading { answers, awaited } = &mut transaction.stage else {
            panic!("{id:?} is sent rows that it has not asked for");
        };
        transaction.snapshot = Some(snapshot);
        let at = awaited.iter().position(|(from, _)| *from == partition);
        let (_, places) = awaited.remove(at.expect("a partition answers once"));
        for (place, rows) in places.zip(rows) {
            answers[place] = Some(rows);
        }
        if awaited.is_empty() {
            self.answer_reads(id, out);
        }
    }

    fn answer_reads(&mut self, id: TransactionId, out: &mut Outbox<Message>) {
        let transaction = self.transactions.get_mut(&id).expect("it reads");
        let stage = std::mem::replace(&mut transaction.stage, Stage::Running);
        let Stage::Reading { answers, .. } = stage else {
            unreachable!("only a transaction that reads is answered");
        };
        let rows = answers.into_iter().map(|row| row.expect("all answered"));
        out.replies.push((id, Reply::Fetched(rows.collect())));
    }

    /// Handles a refusal: the partition has forgotten the transaction.
    pub(super) fn handle_refused(
        &mut self,
        id: TransactionId,
        partition: PartitionId,
        reason: AbortReason,
        out: &mut Outbox<Message>,
    ) {
        let Some(transaction) = self.transactions.get_mut(&id) else {
            return;
        };
        if let Stage::Voting(voting) = &mut transaction.stage {
            voting.participants.retain(|one| *one != partition);
        }
        self.abort(id, Some(reason), out);
    }
}

/// Commit and abort.
impl ScoreNode {
    /// Commits a transaction without effects: its snapshot is consistent, so nothing is validated and nothing is sent
    /// (SCORe's read-only transactions never abort for a conflict).
    fn commit_reader(&mut self, now: Ticks, id: TransactionId, out: &mut Outbox<Message>) {
        let transaction = self.transactions.remove(&id).expect("it was just there");
        let timestamp = transaction.snapshot.unwrap_or_else(|| self.draw(now));
        self.counters.commits += 1;
        answer_commit(id, timestamp, Slots::new(), out);
    }

    fn commit(
        &mut self,
        now: Ticks,
        id: TransactionId,
        effects: Vec<PartitionEffects>,
        out: &mut Outbox<Message>,
    ) {
        if effects.iter().all(|part| part.effects.is_empty()) {
            return self.commit_reader(now, id, out);
        }
        let transaction = self.transactions.get_mut(&id).expect("it was just there");
        let (age, snapshot) = (transaction.age, transaction.snapshot);
        let mut parts = std::mem::take(&mut transaction.reads)
            .into_iter()
            .filter(|(_, reads)| !reads.is_empty())
            .map(|(partition, reads)| (partition, (reads, Vec::new())))
            .collect::<BTreeMap<_, _>>();
        for part in effects.into_iter().filter(|part| !part.effects.is_empty()) {
            parts.entry(part.partition).or_default().1 = part.effects;
        }
        let participants: SmallVec<[PartitionId; 2]> = parts.keys().copied().collect();
        // Its client's next transaction reads above it, and this one comes after what its client has seen.
        let above = self.draw(now);
        let transaction = self.transactions.get_mut(&id).expect("it was just there");
        transaction.stage = Stage::Voting(Voting {
            awaited: participants.clone(),
            participants,
            merged: Vote {
                timestamp: above,
                slots: Slots::new(),
                is_stale: false,
                is_late: false,
            },
        });
        // The own partition comes last: until then nothing here can have ended the transaction.
        let mut own = None;
        for (partition, (reads, effects)) in parts {
            let preparation = Preparation {
                transaction: id,
                age,
                snapshot,
                reads,
                effects,
            };
            match partition == self.own {
                true => own = Some(preparation),
                false => self.send(partition, Message::Prepare(Box::new(preparation)), out),
            }
        }
        if let Some(preparation) = own {
            self.prepare_here(now, preparation, out);
        }
    }

    /// Handles a participant's yes vote.
    pub(super) fn handle_voted(
        &mut self,
        now: Ticks,
        id: TransactionId,
        partition: PartitionId,
        vote: Vote,
        out: &mut Outbox<Message>,
    ) {
        // The vote may have crossed the transaction's abort.
        let Some(transaction) = self.transactions.get_mut(&id) else {
            return;
        };
        let Stage::Voting(voting) = &mut transaction.stage else {
            panic!("{id:?} gets a vote that it has not asked for");
        };
        let merged = &mut voting.merged;
        merged.timestamp = merged.timestamp.max(vote.timestamp);
        merged.slots.extend(vote.slots);
        merged.is_stale |= vote.is_stale;
        merged.is_late |= vote.is_late;
        voting.awaited.retain(|one| *one != partition);
        if merged.is_stale && merged.is_late {
            return self.abort(id, Some(AbortReason::Conflict), out);
        }
        if voting.awaited.is_empty() {
            self.decide(now, id, out);
        }
    }

    /// Commits a transaction on which all participants have voted: in the present, or, if what it has read has changed
    /// since, at its snapshot.
    fn decide(&mut self, now: Ticks, id: TransactionId, out: &mut Outbox<Message>) {
        let transaction = self.transactions.remove(&id).expect("it has just voted");
        let Stage::Voting(Voting {
            mut participants,
            merged,
            ..
        }) = transaction.stage
        else {
            unreachable!("only a transaction with votes is decided");
        };
        let position = match (merged.is_stale, transaction.snapshot) {
            (true, Some(snapshot)) => just_after(snapshot),
            _ => merged.timestamp,
        };
        let commit = Commitment {
            timestamp: merged.timestamp,
            position,
        };
        self.warped += u64::from(commit.position < commit.timestamp);
        self.participant.clock.observe(commit.timestamp);
        participants.retain(|partition| *partition != self.own);
        let changes = self.commit_here(now, id, commit);
        for &partition in &participants {
            let message = Message::Commit {
                transaction: id,
                commit,
            };
            self.send(partition, message, out);
        }
        self.counters.commits += 1;
        answer_commit(id, position, merged.slots, out);
        if self.keeps_records() {
            self.record_decision(id, commit, participants, changes);
        }
    }

    fn record_decision(
        &mut self,
        id: TransactionId,
        commit: Commitment,
        others: SmallVec<[PartitionId; 2]>,
        changes: Option<Vec<anabranch_storage::LoggedChange>>,
    ) {
        match (others.is_empty(), changes) {
            (true, Some(changes)) => self.record(|| ScoreRecord::Alone {
                position: commit.position,
                changes,
            }),
            (true, None) => {}
            (false, changes) => {
                self.record(|| {
                    ScoreRecord::Decided(Box::new(DecidedRecord {
                        transaction: id,
                        commit,
                        others: others.to_vec(),
                        changes,
                    }))
                });
                let decided = Transaction::decided(id, commit, others);
                self.transactions.insert(id, decided);
            }
        }
    }

    /// Aborts a transaction, and replies with the reason; none if its client requested the abort.
    pub(super) fn abort(
        &mut self,
        id: TransactionId,
        reason: Option<AbortReason>,
        out: &mut Outbox<Message>,
    ) {
        let Some(transaction) = self.transactions.remove(&id) else {
            return;
        };
        match transaction.stage {
            Stage::Running => {}
            // Answers that are still to come find no transaction.
            Stage::Reading { awaited, .. } => {
                for (partition, _) in awaited {
                    match partition == self.own {
                        true => self.drop_blocked(id),
                        false => self.send(partition, Message::Release { transaction: id }, out),
                    }
                }
            }
            Stage::Voting(voting) => {
                for partition in voting.participants {
                    match partition == self.own {
                        true => drop(self.end_guest(id)),
                        false => self.send(partition, Message::Release { transaction: id }, out),
                    }
                }
            }
            Stage::Committing { .. } => unreachable!("{id:?} is aborted after its decision"),
        }
        self.counters.aborts += 1;
        if let Some(reason) = reason {
            out.replies.push((id, Reply::Aborted(reason)));
        }
    }

    /// Handles [`Message::Wound`]: an older transaction waits for this one.
    pub(super) fn handle_wound(&mut self, id: TransactionId, out: &mut Outbox<Message>) {
        let transaction = self.transactions.get(&id);
        if transaction.is_some_and(|known| matches!(known.stage, Stage::Voting(_))) {
            self.abort(id, Some(AbortReason::Conflict), out);
        }
    }
}

fn answer_commit(id: TransactionId, timestamp: Timestamp, slots: Slots, out: &mut Outbox<Message>) {
    let reply = Reply::Committed {
        timestamp,
        slots,
        session: Session::of(Arc::new(ScoreSession(timestamp))),
    };
    out.replies.push((id, reply));
}
