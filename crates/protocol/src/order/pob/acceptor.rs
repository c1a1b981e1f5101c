//! Every site's side: answers to proposals and decisions, and delivery.

use anabranch_types::Ticks;

use crate::order::{Batch, BatchId, OutboxOf, Payload, SiteId};

use super::PobSite;
use super::entry::{Decision, Dependencies, Epoch, Slot, Status};
use super::message::Message;
use super::record::PobRecord;

impl<P: Payload> PobSite<P> {
    /// Answers a proposal with a position above all conflicting batches known here.
    pub(super) fn handle_propose(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        slot: Slot,
        batch: &Batch<P>,
        out: &mut OutboxOf<Self>,
    ) {
        debug_assert_eq!(from, id.site, "only the sender proposes");
        self.note(slot.position);
        let entry = self.queue.entry(id, now);
        entry.touched = now;
        let promised = entry.promised;
        let answered = match &entry.status {
            Status::Stable { .. } => return self.answer_stable(now, from, id, out),
            _ if promised > Epoch::INITIAL => {
                return self.answer(now, from, Message::Refuse { id, promised }, out);
            }
            // A repeated proposal gets the same answer.
            Status::Pending(pending) => pending.answered.clone(),
            // The leader has decided without this answer.
            Status::Accepted { .. } => return,
            Status::Unknown => {
                self.queue.set_batch(id, batch);
                let pending = self.queue.answer(id, slot);
                let entry = self.queue.entry(id, now);
                entry.status = Status::Pending(pending.clone());
                let answered = pending.answered.clone();
                out.records.push(PobRecord::Pending {
                    id,
                    pending,
                    batch: batch.clone(),
                });
                answered
            }
        };
        self.note(answered.position);
        let ack = Message::AckPropose { id, slot: answered };
        self.answer(now, from, ack, out);
    }

    /// Accepts a decision, unless the site has promised a later epoch. Answers with dependencies that it lacks.
    #[expect(clippy::too_many_arguments, reason = "the fields of the message")]
    pub(super) fn handle_accept(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        epoch: Epoch,
        decision: Decision,
        batch: Option<Batch<P>>,
        out: &mut OutboxOf<Self>,
    ) {
        let entry = self.queue.entry(id, now);
        entry.touched = now;
        if entry.stable().is_some() {
            return self.answer_stable(now, from, id, out);
        }
        if epoch < entry.promised {
            let promised = entry.promised;
            return self.answer(now, from, Message::Refuse { id, promised }, out);
        }
        let is_new = entry.batch.is_none();
        if let Some(batch) = &batch {
            self.queue.set_batch(id, batch);
        }
        let entry = self.queue.entry(id, now);
        if decision.slot().is_some() && entry.batch.is_none() {
            // The payloads come with the repeated message.
            return;
        }
        entry.promised = epoch;
        let pending = entry.pending().cloned();
        entry.status = Status::Accepted {
            pending,
            epoch,
            decision: decision.clone(),
        };
        self.leave_earlier(id, epoch);
        let delta = match &decision {
            Decision::Deliver(slot) => {
                self.note(slot.position);
                self.queue.before(id, slot.position)
            }
            Decision::NoOp => Dependencies {
                discarded: self.queue.discarded.clone(),
                ..Dependencies::default()
            },
        };
        out.records.push(PobRecord::Accepted {
            id,
            epoch,
            decision,
            batch: batch.filter(|_| is_new),
        });
        let ack = Message::AckAccept { id, epoch, delta };
        self.answer(now, from, ack, out);
    }

    /// Answers with the decision of a batch that is STABLE here.
    pub(super) fn answer_stable(
        &mut self,
        now: Ticks,
        to: SiteId,
        id: BatchId,
        out: &mut OutboxOf<Self>,
    ) {
        let entry = self.queue.get(id).expect("a STABLE batch has an entry");
        let decision = entry.stable().expect("the batch is STABLE").clone();
        let batch = entry.batch.clone();
        let stable = Message::Stable {
            id,
            decision,
            batch,
        };
        self.answer(now, to, stable, out);
    }

    /// The decision is final: delivers the batch once its dependencies are delivered.
    pub(super) fn handle_stable(
        &mut self,
        now: Ticks,
        id: BatchId,
        decision: Decision,
        batch: Option<Batch<P>>,
        out: &mut OutboxOf<Self>,
    ) {
        self.settle(now, id, decision, batch, out);
        self.after_delivery();
    }

    /// The same without pruning.
    pub(super) fn settle(
        &mut self,
        now: Ticks,
        id: BatchId,
        decision: Decision,
        batch: Option<Batch<P>>,
        out: &mut OutboxOf<Self>,
    ) {
        let entry = self.queue.entry(id, now);
        if let Some(known) = entry.stable() {
            if !known.agrees_with(&decision) {
                let found = format!("POB-I2: {id} is decided as {known:?} and as {decision:?}");
                self.violation.get_or_insert(found);
            }
            return;
        }
        let is_new = entry.batch.is_none();
        if let Some(batch) = &batch {
            self.queue.set_batch(id, batch);
        }
        let entry = self.queue.entry(id, now);
        if decision.slot().is_some() && entry.batch.is_none() {
            // A later recovery or request brings the payloads.
            return;
        }
        let lost = match &decision {
            Decision::NoOp => entry.batch.clone(),
            Decision::Deliver(_) => None,
        };
        self.led.remove(&id);
        if let Decision::Deliver(slot) = &decision {
            self.note(slot.position);
            if id.site == self.site {
                self.used = self.used.max(slot.position);
            }
        }
        out.records.push(PobRecord::Stable {
            id,
            decision: decision.clone(),
            batch: batch.filter(|_| is_new),
        });
        let is_no_op = decision == Decision::NoOp;
        let before = out.deliveries.len();
        self.queue
            .make_stable(id, decision, now, &mut out.deliveries);
        self.counters.no_ops += u64::from(is_no_op);
        self.counters.deliveries += (out.deliveries.len() - before) as u64;
        if self.own.remove(&id)
            && let Some(batch) = lost
        {
            // Validity: this site has not failed, so what it has broadcast is delivered.
            self.counters.rebroadcasts += 1;
            self.propose(now, batch, out);
        }
    }

    /// Stops leading a batch in an earlier epoch than this.
    pub(super) fn leave_earlier(&mut self, id: BatchId, epoch: Epoch) {
        if self
            .led
            .get(&id)
            .is_some_and(|led| led.phase.epoch() < epoch)
        {
            self.led.remove(&id);
        }
    }
}
