//! Writes in quorum operation: a majority of replicas decides.

use anabranch_types::NodeId;

use crate::ramp::core::coordinator::attempt::{Attempt, Phase};
use crate::ramp::core::message::{Message, Stamped};
use crate::ramp::node::RampNode;
use crate::ramp::recovery::record::RampRecord;
use crate::ramp::replication::replicated_write::ReplicatedWrite;
use crate::{Outbox, Record, Session, Slots, TransactionId};

/// Writes.
impl RampNode {
    /// A replica has prepared it. It is decided when a majority of each partition's has, and installed at each that
    /// has.
    pub(crate) fn decide_by_majority(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        out: &mut Outbox<Stamped>,
    ) {
        let Some(Phase::Replicating(replicated)) = self.phase_of(transaction) else {
            return;
        };
        if replicated.is_decided {
            return self.install_at(transaction, from, out);
        }
        if !self.has_majorities(replicated, &replicated.prepared) {
            return;
        }
        let prepared = replicated.prepared.clone();
        if let Some(replicated) = self.replicated_mut(transaction) {
            replicated.is_decided = true;
        }
        for node in prepared {
            self.install_at(transaction, node, out);
        }
    }

    /// Whether a transaction that some replicas have refused may still be prepared by a majority of each partition's.
    pub(crate) fn may_find_majorities(&self, transaction: TransactionId) -> bool {
        let Some(Phase::Replicating(replicated)) = self.phase_of(transaction) else {
            return false;
        };
        let all = self.owners_of(replicated);
        let left = all.filter(|node| !replicated.refused.contains(node));
        self.options.quorum.is_some() && self.has_majorities(replicated, &left.collect::<Vec<_>>())
    }

    /// Whether these are a majority of the replicas of each partition that a transaction writes.
    fn has_majorities(&self, replicated: &ReplicatedWrite, nodes: &[NodeId]) -> bool {
        let replicas = self.topology.elsewhere.len() + 1;
        let mut works = replicated.works.iter();
        works.all(|(at, _)| {
            let clusters = self.topology.everywhere();
            let has = clusters.filter(|owners| nodes.contains(&owners[at.index()]));
            has.count() > replicas / 2
        })
    }

    pub(crate) fn replicated_mut(
        &mut self,
        transaction: TransactionId,
    ) -> Option<&mut ReplicatedWrite> {
        match &mut self.attempts.get_mut(&transaction)?.phase {
            Phase::Replicating(replicated) => Some(replicated),
            _ => None,
        }
    }

    /// Sends a replica the decision, if it has prepared the transaction and is not known to have installed it.
    pub(crate) fn install_at(
        &mut self,
        transaction: TransactionId,
        node: NodeId,
        out: &mut Outbox<Stamped>,
    ) {
        let Some(Phase::Replicating(replicated)) = self.phase_of(transaction) else {
            return;
        };
        let has = replicated.prepared.contains(&node) && !replicated.installed.contains(&node);
        if !replicated.is_decided || !has {
            return;
        }
        let decided = replicated.decided();
        if node == self.owner(self.partition) {
            let installed = self.participant.commit(&mut self.context, decided);
            return self.replica_installed(transaction, node, installed.is_ok(), out);
        }
        let commit = Message::Commit {
            transaction,
            decided,
        };
        self.send(node, commit, out);
    }

    /// A replica has installed it. The client is answered when one of each partition has, and the transaction ends
    /// when all have. A replica that cannot install it breaks RAMP-I1, and reports that.
    pub(crate) fn replica_installed(
        &mut self,
        transaction: TransactionId,
        from: NodeId,
        remote_installed: bool,
        out: &mut Outbox<Stamped>,
    ) {
        if self.options.quorum.is_none() || !remote_installed {
            return;
        }
        let Some(replicated) = self.replicated_mut(transaction) else {
            return;
        };
        if !replicated.installed.contains(&from) {
            replicated.installed.push(from);
        }
        let Some(Phase::Replicating(replicated)) = self.phase_of(transaction) else {
            return;
        };
        let (name, is_acknowledged) = (replicated.name, replicated.is_acknowledged);
        let everywhere = self
            .owners_of(replicated)
            .all(|node| replicated.installed.contains(&node));
        let mut works = replicated.works.iter();
        let once = works.all(|(at, _)| {
            let mut clusters = self.topology.everywhere();
            clusters.any(|owners| replicated.installed.contains(&owners[at.index()]))
        });
        if once && !is_acknowledged {
            self.counters.early_answers += u64::from(!everywhere);
            self.committed(transaction, name, Slots::new(), Session::default(), out);
            if let Some(replicated) = self.replicated_mut(transaction) {
                replicated.is_acknowledged = true;
            }
        }
        if !everywhere {
            return;
        }
        self.attempts.remove(&transaction);
        self.context.stability.done(name);
        self.schedule_announce(out);
        if let Some(journal) = &mut self.context.journal {
            journal.write(Record::Ramp(RampRecord::Ended {
                transaction,
                commit: name,
                covered: None,
            }));
        }
    }

    /// QUORUM-I1, as its coordinator sees it.
    pub(crate) fn check_decided(&self, attempt: &Attempt) -> Result<(), String> {
        match &attempt.phase {
            Phase::Replicating(replicated)
                if replicated.is_decided
                    && !self.has_majorities(replicated, &replicated.prepared) =>
            {
                let ReplicatedWrite { name, prepared, .. } = &**replicated;
                Err(format!(
                    "QUORUM-I1: {name} is decided, and prepared at {prepared:?} alone"
                ))
            }
            _ => Ok(()),
        }
    }
}
