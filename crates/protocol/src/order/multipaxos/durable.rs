//! Replay after a restart, and checkpoints.

use anabranch_types::Ticks;

use crate::order::{Delivery, Payload};
use crate::record::ReplayError;

use super::message::Value;
use super::record::MultiPaxosRecord;
use super::{MultiPaxosSite, Own};

impl<P: Payload> MultiPaxosSite<P> {
    /// The state beside the slots.
    pub(super) fn base(&self) -> MultiPaxosRecord<P> {
        MultiPaxosRecord::Base {
            delivered: self.delivered.clone(),
            next: self.next,
            first: self.first,
            sequence: self.sequence,
        }
    }

    /// Applies a record again.
    pub(super) fn replay_record(
        &mut self,
        record: MultiPaxosRecord<P>,
        deliveries: &mut Vec<Delivery<P>>,
    ) -> Result<(), ReplayError> {
        match record {
            MultiPaxosRecord::Own { id, batch } => {
                self.sequence = self.sequence.max(id.sequence);
                if !self.delivered.contains(id) {
                    let sent = Ticks(0);
                    self.own.insert(id, Own { batch, sent });
                }
            }
            MultiPaxosRecord::Promised(ballot) => {
                if ballot < self.promised {
                    let promised = self.promised;
                    return Err(ReplayError(format!("{ballot:?} after {promised:?}")));
                }
                self.promised = ballot;
            }
            MultiPaxosRecord::Accepted {
                slot,
                ballot,
                value,
            } => {
                self.promised = self.promised.max(ballot);
                self.log.entry(slot).or_default().accepted = Some((ballot, value));
            }
            MultiPaxosRecord::Chosen { slot, value } => {
                let has_value = self.log.get(&slot).is_some_and(|it| it.accepted.is_some());
                if value.is_none() && !has_value {
                    return Err(ReplayError(format!(
                        "slot {slot} is chosen without a value"
                    )));
                }
                self.mark_chosen(slot, value);
                if slot < self.next {
                    // In a checkpoint: delivered before, and still a dependency.
                    let value = self.log[&slot].accepted.clone();
                    if let Some((_, Value::Batch { id, batch })) = value
                        && self.kept.get(&id).is_none_or(|other| slot < *other)
                    {
                        self.kept.insert(id, slot);
                        self.index.insert(id, &batch);
                    }
                } else {
                    self.deliver(deliveries);
                }
            }
            MultiPaxosRecord::Base {
                delivered,
                next,
                first,
                sequence,
            } => {
                self.skip_to(next, delivered);
                self.first = first;
                self.sequence = self.sequence.max(sequence);
                self.deliver(deliveries);
            }
        }
        Ok(())
    }

    /// Passes to `sink` the records that rebuild the site as it is.
    pub(super) fn write_checkpoint(&self, sink: &mut dyn FnMut(MultiPaxosRecord<P>)) {
        sink(self.base());
        for (id, own) in &self.own {
            let batch = own.batch.clone();
            sink(MultiPaxosRecord::Own { id: *id, batch });
        }
        for (slot, entry) in &self.log {
            let slot = *slot;
            if let Some((ballot, value)) = entry.accepted.clone() {
                sink(MultiPaxosRecord::Accepted {
                    slot,
                    ballot,
                    value,
                });
            }
            if entry.is_chosen {
                sink(MultiPaxosRecord::Chosen { slot, value: None });
            }
        }
        sink(MultiPaxosRecord::Promised(self.promised));
    }
}
