//! Log records: replay after a restart, and checkpoints.

use anabranch_types::Ticks;

use crate::order::{BatchId, Delivery, Payload};
use crate::record::ReplayError;

use super::EpaxosSite;
use super::entry::{Entry, Proposal, Status};
use super::record::{Base, EpaxosRecord};

impl<P: Payload> EpaxosSite<P> {
    /// The state beside the entries.
    pub(super) fn base(&self) -> Base {
        Base {
            delivered: self.graph.delivered.clone(),
            pruned: self.graph.pruned.clone(),
            depths: self
                .graph
                .depths
                .iter()
                .map(|(id, it)| (*id, *it))
                .collect(),
            deepest: self.graph.deepest,
            sequence: self.sequence,
        }
    }

    /// Applies a record again.
    pub(super) fn replay_record(
        &mut self,
        record: EpaxosRecord<P>,
        deliveries: &mut Vec<Delivery<P>>,
    ) -> Result<(), ReplayError> {
        match record {
            EpaxosRecord::PreAccepted {
                id,
                proposal,
                dependencies,
            } => {
                self.replay_proposal(id, Some(&proposal))?;
                let entry = self.replay_entry(id)?;
                if entry.status != Status::Unknown {
                    return Err(ReplayError(format!("{id} is answered twice")));
                }
                entry.status = Status::PreAccepted { dependencies };
            }
            EpaxosRecord::Proposed { id, proposal } => self.replay_proposal(id, Some(&proposal))?,
            EpaxosRecord::Promised { id, ballot } => {
                let entry = self.replay_entry(id)?;
                if ballot < entry.promised {
                    let promised = entry.promised;
                    return Err(ReplayError(format!("{id}: {ballot} after {promised}")));
                }
                entry.promised = ballot;
            }
            EpaxosRecord::Accepted {
                id,
                ballot,
                decision,
                proposal,
            } => {
                self.replay_proposal(id, proposal.as_ref())?;
                let entry = self.replay_entry(id)?;
                if ballot < entry.promised {
                    let promised = entry.promised;
                    return Err(ReplayError(format!(
                        "{id}: accepted in {ballot} after {promised}"
                    )));
                }
                entry.promised = ballot;
                entry.status = Status::Accepted { ballot, decision };
            }
            EpaxosRecord::Committed {
                id,
                decision,
                proposal,
            } => {
                self.replay_proposal(id, proposal.as_ref())?;
                let entry = self.replay_entry(id)?;
                if entry.committed().is_some() {
                    return Err(ReplayError(format!("{id} is decided twice")));
                }
                if decision.dependencies().is_some() && entry.proposal.is_none() {
                    return Err(ReplayError(format!("{id} is decided without its proposal")));
                }
                self.graph.commit(id, decision, Ticks(0), deliveries);
                self.after_delivery();
            }
            EpaxosRecord::Base(base) => {
                self.graph.prune(&base.pruned);
                self.graph.delivered = base.delivered;
                self.graph.depths = base.depths.into_iter().collect();
                self.graph.deepest = base.deepest;
                self.sequence = self.sequence.max(base.sequence);
                self.graph.execute_all(deliveries);
                self.after_delivery();
            }
        }
        Ok(())
    }

    /// The entry that a record is about.
    fn replay_entry(&mut self, id: BatchId) -> Result<&mut Entry<P>, ReplayError> {
        if self.graph.pruned.contains(id) {
            return Err(ReplayError(format!("{id} is pruned")));
        }
        Ok(self.graph.entry(id, Ticks(0)))
    }

    /// Keeps the proposal that a record has, and counts the batch as used if it is an own one.
    fn replay_proposal(
        &mut self,
        id: BatchId,
        proposal: Option<&Proposal<P>>,
    ) -> Result<(), ReplayError> {
        self.replay_entry(id)?;
        if let Some(proposal) = proposal {
            self.graph.set_proposal(id, proposal);
        }
        if id.site == self.site {
            self.sequence = self.sequence.max(id.sequence);
        }
        Ok(())
    }

    /// Passes to `sink` the records that rebuild the site as it is.
    pub(super) fn write_checkpoint(&self, sink: &mut dyn FnMut(EpaxosRecord<P>)) {
        sink(EpaxosRecord::Base(self.base()));
        for (id, entry) in &self.graph.entries {
            let id = *id;
            let proposal = entry.proposal.clone();
            match &entry.status {
                Status::Unknown => {
                    if let Some(proposal) = proposal {
                        sink(EpaxosRecord::Proposed { id, proposal });
                    }
                }
                Status::PreAccepted { dependencies } => sink(EpaxosRecord::PreAccepted {
                    id,
                    proposal: proposal.expect("a batch that was answered has a proposal"),
                    dependencies: dependencies.clone(),
                }),
                Status::Accepted { ballot, decision } => sink(EpaxosRecord::Accepted {
                    id,
                    ballot: *ballot,
                    decision: decision.clone(),
                    proposal,
                }),
                Status::Committed { decision } => sink(EpaxosRecord::Committed {
                    id,
                    decision: decision.clone(),
                    proposal,
                }),
            }
            if entry.committed().is_none() {
                let ballot = entry.promised;
                sink(EpaxosRecord::Promised { id, ballot });
            }
        }
    }
}
