//! Prepare-F (ramp.txt §6.1, Figure 7a): writes that survive the loss of F clusters, and are shown when
//! all clusters have them.
//!
//! Each cluster has all partitions. Who writes prepares at the owners of all of them, and its client is
//! answered when F + 1 clusters have prepared; when all have, it is shown everywhere. So writers wait
//! for the nearest F + 1 clusters alone, readers ask their own cluster and nobody else, and nobody is
//! promised to see what has been acknowledged before every cluster is there. The page
//! `docs/protocols/ramp-prepare-f.md` says what holds and why.
//!
//! The coordinator writes its *intent* down before it asks anybody, and finishes it in a later life: it
//! is the "asynchronous callback on the client" by which the paper lets servers know that all have
//! prepared. What has been acknowledged is never aborted, so no cluster may refuse what another has
//! accepted: what is written are assignments that depend on no row.

use std::sync::Arc;

use anabranch_types::{Effect, EffectError, Merging, NodeId, PartitionId, Timestamp};
use smallvec::SmallVec;

use super::RampNode;
use super::attempt::{Attempt, Deciding, Phase};
use super::message::{Message, Participants, Prepare, Required, Slots, Stamped, Work};
use super::record::{IntentRecord, RampRecord};
use super::siblings::Siblings;
use crate::{AbortReason, Outbox, Record, Session, TransactionId};

/// A transaction that is being prepared in every cluster. It is shown nowhere, and will be shown
/// everywhere, unless it is refused before its client has been answered.
#[derive(Clone, Debug)]
pub(super) struct Intent {
    /// Its only timestamp: under which it is prepared, and its place among the writers of a register.
    pub(super) name: Timestamp,
    /// What is to be done on each partition, in every cluster; sorted.
    pub(super) works: Vec<(PartitionId, Vec<Effect>)>,
    /// What it writes where, if that is on several partitions.
    pub(super) siblings: Option<Arc<Siblings>>,
    /// Who has prepared it, durably.
    pub(super) prepared: SmallVec<[NodeId; 8]>,
    /// Who has refused it since it was asked last.
    pub(super) refused: SmallVec<[NodeId; 2]>,
    /// The client has been answered, or there is none any more.
    pub(super) is_told: bool,
    /// In quorum operation: a majority of the copies of each partition has prepared it. It will be shown.
    pub(super) is_decided: bool,
    /// In quorum operation: the copies that show it, durably.
    pub(super) shown: SmallVec<[NodeId; 8]>,
}

impl RampNode {
    /// Writes down what a transaction is to do, and asks every cluster to prepare it.
    pub(super) fn intend(
        &mut self,
        transaction: TransactionId,
        mut attempt: Box<Attempt>,
        works: Vec<(PartitionId, Work)>,
        out: &mut Outbox<Stamped>,
    ) {
        if let Some(error) = self.refuses_across(&works) {
            return self.abort(transaction, AbortReason::Failed(error), out);
        }
        let name = self.context.clock.next(self.context.now);
        let intent = Intent {
            name,
            siblings: super::commits::siblings(&self.options, name, &works),
            works: works
                .into_iter()
                .map(|(at, work)| (at, work.effects))
                .collect(),
            prepared: SmallVec::new(),
            refused: SmallVec::new(),
            is_told: false,
            is_decided: false,
            shown: SmallVec::new(),
        };
        let others = self.others_of(&intent);
        self.context
            .stability
            .decided(name, None, others.into_iter());
        if let Some(journal) = &mut self.context.journal {
            let record = Box::new(intent.record(transaction));
            journal.write(Record::Ramp(RampRecord::Intent(record)));
        }
        attempt.phase = Phase::Intending(Box::new(intent));
        self.wait(transaction, attempt);
        self.offer(transaction, None, out);
    }

    /// What could be refused in one cluster when another has accepted it.
    pub(super) fn refuses_across(&self, works: &[(PartitionId, Work)]) -> Option<EffectError> {
        let refused = |what: &str| EffectError {
            code: "0A000",
            message: format!(
                "clients are answered before all clusters have it, so none of them may refuse: {what}"
            ),
            constraint: None,
        };
        for (_, work) in works {
            if !work.guard_reads.is_empty() || !work.guards.is_empty() {
                return Some(refused("guards would have to be ordered across clusters"));
            }
            for effect in &work.effects {
                let what = match effect {
                    Effect::Insert { .. } => "a row cannot be inserted",
                    Effect::Delete { .. } => "a row cannot be deleted",
                    Effect::Update {
                        outputs: Some(_), ..
                    } => "an update cannot return what it has made",
                    Effect::Update { program, .. } => match self.participant.merging(*program) {
                        Some(Merging::LastWriter) => continue,
                        // Copies that have added different things lag in ways that no page argues about.
                        Some(Merging::Commuting) if self.options.quorum.is_some() => {
                            "under quorums an update can only assign values that do not depend on the row"
                        }
                        Some(Merging::Commuting) => continue,
                        None => {
                            "an update can only assign values that do not depend on the row, add them, or \
                             keep the greatest or the least, where every update of the column does the \
                             same and no CHECK looks at it"
                        }
                    },
                };
                return Some(refused(what));
            }
        }
        None
    }

    /// The owners that take part, in all clusters; one cluster after the other.
    pub(super) fn owners_of<'a>(&'a self, intent: &'a Intent) -> impl Iterator<Item = NodeId> + 'a {
        let clusters = self.topology.everywhere();
        clusters.flat_map(|owners| intent.works.iter().map(|(at, _)| owners[at.index()]))
    }

    fn others_of(&self, intent: &Intent) -> Participants {
        let own = self.owner(self.partition);
        self.owners_of(intent).filter(|node| *node != own).collect()
    }

    /// Asks those to prepare that are not known to have, or one of them. Who is asked has not refused: it is asked
    /// no second time before it has answered, so what it answers last is the last that it is told.
    pub(super) fn offer(
        &mut self,
        transaction: TransactionId,
        only: Option<NodeId>,
        out: &mut Outbox<Stamped>,
    ) {
        if let Some(intent) = self.intent_mut(transaction) {
            let is_asked = |node: &NodeId| only.is_none_or(|only| only == *node);
            intent.refused.retain(|node| !is_asked(node));
        }
        let Some(Phase::Intending(intent)) = self.phase_of(transaction) else {
            return;
        };
        let own = self.owner(self.partition);
        let clusters: Vec<&[NodeId]> = self.topology.everywhere().collect();
        let mut prepares: Vec<(NodeId, Box<Prepare>)> = Vec::new();
        for owners in clusters {
            for (partition, effects) in &intent.works {
                let node = owners[partition.index()];
                if intent.prepared.contains(&node) || only.is_some_and(|only| only != node) {
                    continue;
                }
                let work = Work {
                    effects: effects.clone(),
                    ..Work::default()
                };
                let prepare = Prepare {
                    transaction,
                    prepared: intent.name,
                    work,
                    siblings: intent.siblings.clone(),
                    past: None,
                    participants: self.owners_of(intent).collect(),
                };
                prepares.push((node, Box::new(prepare)));
            }
        }
        for (node, prepare) in prepares {
            if node == own {
                let vote = self.participant.bind(&mut self.context, *prepare);
                self.handle_intent_vote(transaction, own, vote, out);
                if !matches!(self.phase_of(transaction), Some(Phase::Intending(_))) {
                    return; // Withdrawn: who is asked after that is not told.
                }
            } else {
                self.send(node, Message::Prepare(prepare), out);
            }
        }
    }

    /// Whether somebody has to be asked again.
    pub(super) fn has_refused_intents(&self) -> bool {
        let refused = |attempt: &Attempt| match &attempt.phase {
            Phase::Intending(intent) => !intent.refused.is_empty(),
            _ => false,
        };
        // tidy: order-free because only whether there is one is asked
        self.options.binds() && self.attempts.values().any(|attempt| refused(attempt))
    }

    /// Asks those again that have refused what is not withdrawn for it.
    pub(super) fn offer_what_was_refused(&mut self, out: &mut Outbox<Stamped>) {
        if !self.has_refused_intents() {
            return;
        }
        for transaction in self.attempts_in_order() {
            let attempt = self.attempts.get_mut(&transaction);
            let Some(Phase::Intending(intent)) = attempt.map(|attempt| &mut attempt.phase) else {
                continue;
            };
            for node in std::mem::take(&mut intent.refused) {
                self.offer(transaction, Some(node), out);
            }
        }
    }

    pub(super) fn phase_of(&self, transaction: TransactionId) -> Option<&Phase> {
        self.attempts
            .get(&transaction)
            .map(|attempt| &attempt.phase)
    }

    /// An owner has prepared it, or refuses to.
    pub(super) fn handle_intent_vote(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        vote: Result<Timestamp, AbortReason>,
        out: &mut Outbox<Stamped>,
    ) {
        let Some(attempt) = self.attempts.get_mut(&transaction) else {
            return;
        };
        let Phase::Intending(intent) = &mut attempt.phase else {
            return;
        };
        match vote {
            Ok(seen) => {
                self.context.follow_clock(seen);
                if !intent.prepared.contains(&from) {
                    intent.prepared.push(from);
                }
                match self.options.quorum {
                    Some(_) => self.decide_by_majority(transaction, from, out),
                    None => self.go_on(transaction, out),
                }
            }
            Err(reason) => {
                if !intent.refused.contains(&from) {
                    intent.refused.push(from);
                }
                let is_promised = intent.is_told || intent.is_decided;
                match is_promised || self.may_find_majorities(transaction) {
                    // Whoever refuses is asked again.
                    true => self.terminate_later(out),
                    false => self.withdraw(transaction, from, reason, out),
                }
            }
        }
    }

    /// Answers the client when enough clusters have prepared it, and shows it when all have.
    fn go_on(&mut self, transaction: TransactionId, out: &mut Outbox<Stamped>) {
        let Some(Phase::Intending(intent)) = self.phase_of(transaction) else {
            return;
        };
        let has = |owners: &&[NodeId]| {
            let mut works = intent.works.iter();
            works.all(|(at, _)| intent.prepared.contains(&owners[at.index()]))
        };
        let clusters = self.topology.everywhere().filter(has).count();
        let all = clusters == self.topology.elsewhere.len() + 1;
        let enough = self
            .options
            .prepare_f
            .is_some_and(|failures| clusters > usize::from(failures));
        let (name, is_told) = (intent.name, intent.is_told);
        if enough && !is_told {
            self.counters.early_answers += u64::from(!all);
            self.committed(transaction, name, Slots::new(), Session::default(), out);
            if let Some(attempt) = self.attempts.get_mut(&transaction)
                && let Phase::Intending(intent) = &mut attempt.phase
            {
                intent.is_told = true;
            }
        }
        if all {
            self.show_everywhere(transaction, out);
        }
    }

    /// Every cluster has prepared it: from here on it is as any other that is decided.
    fn show_everywhere(&mut self, transaction: TransactionId, out: &mut Outbox<Stamped>) {
        let Some(attempt) = self.attempts.get_mut(&transaction) else {
            return;
        };
        let Phase::Intending(intent) = std::mem::take(&mut attempt.phase) else {
            return;
        };
        let decided = intent.decided();
        let (own, others) = (self.owner(self.partition), self.others_of(&intent));
        if self.owners_of(&intent).any(|node| node == own) {
            // An error is recorded as a broken invariant.
            let _ = self.participant.commit(&mut self.context, decided);
        }
        let deciding = Deciding {
            siblings: intent.siblings,
            ..Deciding::unanswered(decided, others)
        };
        if let Some(attempt) = self.attempts.get_mut(&transaction) {
            attempt.phase = Phase::Committing(Box::new(deciding));
        }
        self.commit_again(transaction, None, out);
    }

    /// Too many owners refuse it, and nobody has been told that it is there: it is forgotten everywhere.
    fn withdraw(
        &mut self,
        transaction: TransactionId,
        refused: NodeId,
        reason: AbortReason,
        out: &mut Outbox<Stamped>,
    ) {
        let Some(mut attempt) = self.attempts.remove(&transaction) else {
            return;
        };
        let Phase::Intending(intent) = std::mem::take(&mut attempt.phase) else {
            return;
        };
        let name = intent.name;
        if let Some(journal) = &mut self.context.journal {
            journal.write(Record::Ramp(RampRecord::Withdrawn { transaction, name }));
        }
        self.context.stability.done(name);
        self.participant.abort(&mut self.context, name);
        for node in self.others_of(&intent) {
            if node != refused {
                self.send(node, Message::Abort { prepared: name }, out);
            }
        }
        self.announce_later(out);
        self.abort(transaction, reason, out);
    }

    /// An intent of an earlier life, as it was written down: nobody waits for an answer.
    pub(super) fn replay_intent(&mut self, record: IntentRecord) {
        let IntentRecord {
            transaction,
            name,
            works,
            siblings,
        } = record;
        let intent = Intent {
            name,
            works,
            siblings,
            prepared: SmallVec::new(),
            refused: SmallVec::new(),
            is_told: true,
            is_decided: false,
            shown: SmallVec::new(),
        };
        let others = self.others_of(&intent);
        self.context
            .stability
            .decided(name, None, others.into_iter());
        let attempt = Box::new(Attempt {
            phase: Phase::Intending(Box::new(intent)),
            ..Attempt::default()
        });
        self.attempts.insert(transaction, attempt);
    }
}

impl Intent {
    pub(super) fn decided(&self) -> Required {
        Required {
            prepared: self.name,
            commit: self.name,
        }
    }

    pub(super) fn record(&self, transaction: TransactionId) -> IntentRecord {
        IntentRecord {
            transaction,
            name: self.name,
            works: self.works.clone(),
            siblings: self.siblings.clone(),
        }
    }
}
