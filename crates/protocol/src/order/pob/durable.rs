//! Log records: replay after a restart, and checkpoints.

use anabranch_types::Ticks;

use crate::order::{Batch, BatchId, Delivery, Payload};
use crate::record::ReplayError;

use super::PobSite;
use super::cut::Cuts;
use super::entry::{Decision, Entry, Position, Status};
use super::record::{Base, PobRecord};

impl<P: Payload> PobSite<P> {
    /// The state beside the entries.
    pub(super) fn base(&self) -> Base {
        Base {
            delivered: self.queue.delivered.clone(),
            pruned: self.queue.pruned.clone(),
            discarded: self.queue.discarded.clone(),
            floor: self.queue.floor,
            highest: self.highest,
            used: self.used,
            sequence: self.sequence,
            cuts: self.cuts.state.clone(),
        }
    }

    /// Applies a record again.
    pub(super) fn replay_record(
        &mut self,
        record: PobRecord<P>,
        deliveries: &mut Vec<Delivery<P>>,
    ) -> Result<(), ReplayError> {
        match record {
            PobRecord::Pending { id, pending, batch } => {
                self.replay_batch(id, Some(&batch))?;
                self.replay_position(id, pending.proposed.position);
                self.note(pending.answered.position);
                let entry = self.replay_entry(id)?;
                if entry.status != Status::Unknown {
                    return Err(ReplayError(format!("{id} is answered twice")));
                }
                entry.status = Status::Pending(pending);
            }
            PobRecord::Promised { id, epoch } => {
                let entry = self.replay_entry(id)?;
                if epoch < entry.promised {
                    let promised = entry.promised;
                    return Err(ReplayError(format!("{id}: {epoch} after {promised}")));
                }
                entry.promised = epoch;
            }
            PobRecord::Accepted {
                id,
                epoch,
                decision,
                batch,
            } => {
                self.replay_batch(id, batch.as_ref())?;
                if let Decision::Deliver(slot) = &decision {
                    self.replay_position(id, slot.position);
                }
                let entry = self.replay_entry(id)?;
                if epoch < entry.promised {
                    let promised = entry.promised;
                    return Err(ReplayError(format!(
                        "{id}: accepted in {epoch} after {promised}"
                    )));
                }
                entry.promised = epoch;
                entry.status = Status::Accepted {
                    pending: entry.pending().cloned(),
                    epoch,
                    decision,
                };
            }
            PobRecord::Stable {
                id,
                decision,
                batch: _,
            } if self.queue.is_pruned(id) => {
                // It came with a state that this site has taken, after a cut that covers it: with the state's `Base` alone
                // the site had delivered all of the cut, and has pruned here what it pruned last then.
                if let Decision::Deliver(slot) = &decision {
                    self.replay_position(id, slot.position);
                    self.queue.floor = self.queue.floor.max(slot.position);
                }
                if id.site == self.site {
                    self.sequence = self.sequence.max(id.sequence);
                }
            }
            PobRecord::Stable {
                id,
                decision,
                batch,
            } => {
                self.replay_batch(id, batch.as_ref())?;
                if let Decision::Deliver(slot) = &decision {
                    self.replay_position(id, slot.position);
                }
                if self.replay_entry(id)?.stable().is_some() {
                    return Err(ReplayError(format!("{id} is decided twice")));
                }
                self.queue.make_stable(id, decision, Ticks(0), deliveries);
                self.after_delivery();
            }
            PobRecord::Cut(state) => {
                if state.number < self.cuts.state.number {
                    let last = self.cuts.state.number;
                    return Err(ReplayError(format!(
                        "cut {} after cut {last}",
                        state.number
                    )));
                }
                self.cuts = Cuts::of(state);
                self.prune();
            }
            PobRecord::Base(base) => {
                self.queue.prune(&base.pruned);
                self.queue.delivered = base.delivered;
                self.queue.discarded = base.discarded;
                self.queue.floor = base.floor;
                self.highest = self.highest.max(base.highest);
                self.used = self.used.max(base.used);
                self.sequence = self.sequence.max(base.sequence);
                self.cuts = Cuts::of(base.cuts);
                self.queue.deliver_all(deliveries);
                self.after_delivery();
            }
        }
        Ok(())
    }

    /// The entry that a record is about.
    fn replay_entry(&mut self, id: BatchId) -> Result<&mut Entry<P>, ReplayError> {
        if self.queue.is_pruned(id) {
            return Err(ReplayError(format!("{id} is pruned")));
        }
        Ok(self.queue.entry(id, Ticks(0)))
    }

    /// Keeps the payloads that a record has, and counts the batch as used if it is an own one.
    fn replay_batch(&mut self, id: BatchId, batch: Option<&Batch<P>>) -> Result<(), ReplayError> {
        self.replay_entry(id)?;
        if let Some(batch) = batch {
            self.queue.set_batch(id, batch);
        }
        if id.site == self.site {
            self.sequence = self.sequence.max(id.sequence);
        }
        Ok(())
    }

    /// Raises the positions that this site has seen, and used if the batch is its own.
    fn replay_position(&mut self, id: BatchId, position: Position) {
        self.note(position);
        if id.site == self.site {
            self.used = self.used.max(position);
        }
    }

    /// Passes to `sink` the records that rebuild the site as it is.
    pub(super) fn write_checkpoint(&self, sink: &mut dyn FnMut(PobRecord<P>)) {
        sink(PobRecord::Base(self.base()));
        for (id, entry) in &self.queue.entries {
            let id = *id;
            let batch = entry.batch.clone();
            if let (Some(pending), Some(batch)) = (entry.pending(), &batch) {
                let pending = pending.clone();
                let batch = batch.clone();
                sink(PobRecord::Pending { id, pending, batch });
            }
            match &entry.status {
                Status::Unknown | Status::Pending(_) => {}
                Status::Accepted {
                    epoch, decision, ..
                } => sink(PobRecord::Accepted {
                    id,
                    epoch: *epoch,
                    decision: decision.clone(),
                    batch: batch.clone(),
                }),
                Status::Stable { decision } => sink(PobRecord::Stable {
                    id,
                    decision: decision.clone(),
                    batch: batch.clone(),
                }),
            }
            if entry.stable().is_none() {
                let epoch = entry.promised;
                sink(PobRecord::Promised { id, epoch });
            }
        }
    }
}
