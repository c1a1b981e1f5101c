//! Prepare-F (ramp.txt §6.1, Figure 7a): writes that survive the loss of F clusters, and become visible when all
//! clusters have them.
//!
//! Each cluster has all partitions. A transaction is prepared at the owners of all of them. Its client is answered
//! when F + 1 clusters have prepared it, and it is installed everywhere when all have. So a write waits for the
//! nearest F + 1 clusters alone, and a read asks its own cluster alone. What has been acknowledged need not be
//! visible before every cluster has it. The page `docs/protocols/ramp-prepare-f.md` says what holds and why.
//!
//! The coordinator writes the transaction to its log before it asks any owner, and finishes it in a later
//! incarnation: that is the "asynchronous callback on the client" by which the paper lets servers know that all have
//! prepared. What has been acknowledged is never aborted, so no cluster may refuse what another has accepted.
//! Therefore writes are assignments that depend on no row.

use anabranch_types::{Effect, EffectError, Merging, NodeId, PartitionId, Timestamp};
use smallvec::SmallVec;

use crate::ramp::core::coordinator::attempt::{Attempt, Deciding, Phase};
use crate::ramp::core::coordinator::write::siblings_of;
use crate::ramp::core::message::{Message, Participants, Prepare, Stamped, Work};
use crate::ramp::node::RampNode;
use crate::ramp::recovery::record::{RampRecord, ReplicatedWriteRecord};
use crate::ramp::replication::replicated_write::ReplicatedWrite;
use crate::{AbortReason, Outbox, Record, Session, Slots, TransactionId};

impl RampNode {
    /// Writes down what a transaction is to do, and asks every cluster to prepare it.
    pub(crate) fn begin_replicated(
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
        let replicated = ReplicatedWrite {
            name,
            siblings: siblings_of(&self.options, name, &works),
            works: works
                .into_iter()
                .map(|(at, work)| (at, work.effects))
                .collect(),
            prepared: SmallVec::new(),
            refused: SmallVec::new(),
            is_acknowledged: false,
            is_decided: false,
            installed: SmallVec::new(),
        };
        let others = self.others_of(&replicated);
        self.context
            .stability
            .decided(name, None, others.into_iter());
        if let Some(journal) = &mut self.context.journal {
            let record = Box::new(replicated.record(transaction));
            journal.write(Record::Ramp(RampRecord::ReplicatedWrite(record)));
        }
        attempt.phase = Phase::Replicating(Box::new(replicated));
        self.keep_waiting(transaction, attempt);
        self.send_prepares(transaction, None, out);
    }

    /// What could be refused in one cluster when another has accepted it.
    pub(crate) fn refuses_across(&self, works: &[(PartitionId, Work)]) -> Option<EffectError> {
        let refused = |what: &str| {
            EffectError::new(
                "0A000",
                format!(
                    "clients are answered before all clusters have it, so none of them may refuse: {what}"
                ),
            )
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
                        // Replicas that have added different things would lag in ways that the page's argument does
                        // not cover.
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
    pub(crate) fn owners_of<'a>(
        &'a self,
        replicated: &'a ReplicatedWrite,
    ) -> impl Iterator<Item = NodeId> + 'a {
        let clusters = self.topology.everywhere();
        clusters.flat_map(|owners| replicated.works.iter().map(|(at, _)| owners[at.index()]))
    }

    fn others_of(&self, replicated: &ReplicatedWrite) -> Participants {
        let own = self.owner(self.partition);
        self.owners_of(replicated)
            .filter(|node| *node != own)
            .collect()
    }

    /// Sends Prepare to the owners that are not known to have prepared, or to one of them. An owner is asked again
    /// only after it has answered, so its last answer is about the last question.
    pub(crate) fn send_prepares(
        &mut self,
        transaction: TransactionId,
        only: Option<NodeId>,
        out: &mut Outbox<Stamped>,
    ) {
        if let Some(replicated) = self.replicated_mut(transaction) {
            let is_asked = |node: &NodeId| only.is_none_or(|only| only == *node);
            replicated.refused.retain(|node| !is_asked(node));
        }
        let Some(Phase::Replicating(replicated)) = self.phase_of(transaction) else {
            return;
        };
        let own = self.owner(self.partition);
        let clusters: Vec<&[NodeId]> = self.topology.everywhere().collect();
        let mut prepares: Vec<(NodeId, Box<Prepare>)> = Vec::new();
        for owners in clusters {
            for (partition, effects) in &replicated.works {
                let node = owners[partition.index()];
                if replicated.prepared.contains(&node) || only.is_some_and(|only| only != node) {
                    continue;
                }
                let work = Work {
                    effects: effects.clone(),
                    ..Work::default()
                };
                let prepare = Prepare {
                    transaction,
                    prepared: replicated.name,
                    work,
                    siblings: replicated.siblings.clone(),
                    causal_context: None,
                    participants: self.owners_of(replicated).collect(),
                };
                prepares.push((node, Box::new(prepare)));
            }
        }
        for (node, prepare) in prepares {
            if node == own {
                let vote = self
                    .participant
                    .prepare_replicated(&mut self.context, *prepare);
                self.handle_replicated_vote(transaction, own, vote, out);
                if !matches!(self.phase_of(transaction), Some(Phase::Replicating(_))) {
                    return; // Withdrawn: an owner asked after that would get no Abort.
                }
            } else {
                self.send(node, Message::Prepare(prepare), out);
            }
        }
    }

    /// Whether an owner has to be asked again.
    pub(crate) fn has_refused(&self) -> bool {
        let refused = |attempt: &Attempt| match &attempt.phase {
            Phase::Replicating(replicated) => !replicated.refused.is_empty(),
            _ => false,
        };
        // tidy: order-free because only whether there is one is asked
        self.options.prepares_in_all_clusters()
            && self.attempts.values().any(|attempt| refused(attempt))
    }

    /// Asks those again that have refused what is not withdrawn for it.
    pub(crate) fn resend_refused(&mut self, out: &mut Outbox<Stamped>) {
        if !self.has_refused() {
            return;
        }
        for transaction in self.attempts_in_order() {
            let attempt = self.attempts.get_mut(&transaction);
            let Some(Phase::Replicating(replicated)) = attempt.map(|attempt| &mut attempt.phase)
            else {
                continue;
            };
            for node in std::mem::take(&mut replicated.refused) {
                self.send_prepares(transaction, Some(node), out);
            }
        }
    }

    pub(crate) fn phase_of(&self, transaction: TransactionId) -> Option<&Phase> {
        self.attempts
            .get(&transaction)
            .map(|attempt| &attempt.phase)
    }

    /// An owner has prepared it, or refuses to.
    pub(crate) fn handle_replicated_vote(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        vote: Result<Timestamp, AbortReason>,
        out: &mut Outbox<Stamped>,
    ) {
        let Some(attempt) = self.attempts.get_mut(&transaction) else {
            return;
        };
        let Phase::Replicating(replicated) = &mut attempt.phase else {
            return;
        };
        match vote {
            Ok(seen) => {
                self.context.follow_clock(seen);
                if !replicated.prepared.contains(&from) {
                    replicated.prepared.push(from);
                }
                match self.options.quorum {
                    Some(_) => self.decide_by_majority(transaction, from, out),
                    None => self.count_clusters(transaction, out),
                }
            }
            Err(reason) => {
                if !replicated.refused.contains(&from) {
                    replicated.refused.push(from);
                }
                let is_promised = replicated.is_acknowledged || replicated.is_decided;
                match is_promised || self.may_find_majorities(transaction) {
                    // An owner that refuses is asked again.
                    true => self.schedule_termination(out),
                    false => self.withdraw(transaction, from, reason, out),
                }
            }
        }
    }

    /// Answers the client when enough clusters have prepared the transaction, and installs it when all have.
    fn count_clusters(&mut self, transaction: TransactionId, out: &mut Outbox<Stamped>) {
        let Some(Phase::Replicating(replicated)) = self.phase_of(transaction) else {
            return;
        };
        let has = |owners: &&[NodeId]| {
            let mut works = replicated.works.iter();
            works.all(|(at, _)| replicated.prepared.contains(&owners[at.index()]))
        };
        let clusters = self.topology.everywhere().filter(has).count();
        let all = clusters == self.topology.elsewhere.len() + 1;
        let enough = self
            .options
            .prepare_f
            .is_some_and(|failures| clusters > usize::from(failures));
        let (name, is_acknowledged) = (replicated.name, replicated.is_acknowledged);
        if enough && !is_acknowledged {
            self.counters.early_answers += u64::from(!all);
            self.committed(transaction, name, Slots::new(), Session::default(), out);
            if let Some(attempt) = self.attempts.get_mut(&transaction)
                && let Phase::Replicating(replicated) = &mut attempt.phase
            {
                replicated.is_acknowledged = true;
            }
        }
        if all {
            self.install_everywhere(transaction, out);
        }
    }

    /// Every cluster has prepared it: from here on it is as any other that is decided.
    fn install_everywhere(&mut self, transaction: TransactionId, out: &mut Outbox<Stamped>) {
        let Some(attempt) = self.attempts.get_mut(&transaction) else {
            return;
        };
        let Phase::Replicating(replicated) = std::mem::take(&mut attempt.phase) else {
            return;
        };
        let decided = replicated.decided();
        let (own, others) = (self.owner(self.partition), self.others_of(&replicated));
        if self.owners_of(&replicated).any(|node| node == own) {
            // An error is recorded as a broken invariant.
            let _ = self.participant.commit(&mut self.context, decided);
        }
        let deciding = Deciding {
            siblings: replicated.siblings,
            ..Deciding::unanswered(decided, others)
        };
        if let Some(attempt) = self.attempts.get_mut(&transaction) {
            attempt.phase = Phase::Committing(Box::new(deciding));
        }
        self.resend_commit(transaction, None, out);
    }

    /// Too many owners refuse it, and its client has not been answered: it is forgotten everywhere.
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
        let Phase::Replicating(replicated) = std::mem::take(&mut attempt.phase) else {
            return;
        };
        let name = replicated.name;
        if let Some(journal) = &mut self.context.journal {
            journal.write(Record::Ramp(RampRecord::Withdrawn { transaction, name }));
        }
        self.context.stability.done(name);
        self.participant.abort(&mut self.context, name);
        for node in self.others_of(&replicated) {
            if node != refused {
                self.send(node, Message::Abort { prepared: name }, out);
            }
        }
        self.schedule_announce(out);
        self.abort(transaction, reason, out);
    }

    /// A transaction of an earlier incarnation, as it stands in the log: no client waits for an answer.
    pub(crate) fn replay_replicated_write(&mut self, record: ReplicatedWriteRecord) {
        let ReplicatedWriteRecord {
            transaction,
            name,
            works,
            siblings,
        } = record;
        let replicated = ReplicatedWrite {
            name,
            works,
            siblings,
            prepared: SmallVec::new(),
            refused: SmallVec::new(),
            is_acknowledged: true,
            is_decided: false,
            installed: SmallVec::new(),
        };
        let others = self.others_of(&replicated);
        self.context
            .stability
            .decided(name, None, others.into_iter());
        let attempt = Box::new(Attempt {
            phase: Phase::Replicating(Box::new(replicated)),
            ..Attempt::default()
        });
        self.attempts.insert(transaction, attempt);
    }
}
