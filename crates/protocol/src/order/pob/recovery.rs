//! Recovery of a batch: a Paxos epoch after the first, by any site (`alvin.txt` §4.1, *Failure Recovery*).
//!
//! Departs from the paper where no site of the quorum has accepted anything: it proposes nothing anew, and counts the
//! answers to the first proposal. `docs/protocols/alvin.md` says why.

use std::collections::BTreeMap;

use anabranch_types::Ticks;

use crate::order::{BatchId, OutboxOf, Payload, SiteId, SiteSet};

use super::PobSite;
use super::entry::{Decision, Epoch, Status};
use super::leader::Phase;
use super::message::{Message, Promised};
use super::record::PobRecord;

impl<P: Payload> PobSite<P> {
    /// Begins a new epoch of a batch that is not STABLE here, to decide it.
    pub fn recover_batch(&mut self, now: Ticks, id: BatchId, out: &mut OutboxOf<Self>) {
        if self.queue.is_pruned(id) {
            return;
        }
        let sites = self.quorums.sites();
        let site = self.site;
        let entry = self.queue.entry(id, now);
        if entry.stable().is_some() {
            return;
        }
        entry.attempts += 1;
        entry.touched = now;
        let epoch = entry.promised.max(entry.refused).next_of(site, sites);
        self.counters.recoveries += 1;
        let phase = Phase::Recovering {
            epoch,
            promises: BTreeMap::new(),
        };
        self.lead(now, id, phase, SiteSet::default());
        for to in self.others() {
            self.send(to, Message::Prepare { id, epoch }, out);
        }
        self.handle_prepare(now, site, id, epoch, out);
    }

    /// Promises to take part in no earlier epoch, and answers with what is known here.
    pub(super) fn handle_prepare(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        epoch: Epoch,
        out: &mut OutboxOf<Self>,
    ) {
        let entry = self.queue.entry(id, now);
        if entry.stable().is_some() {
            return self.answer_stable(now, from, id, out);
        }
        if epoch <= entry.promised {
            let promised = entry.promised;
            return self.answer(now, from, Message::Refuse { id, promised }, out);
        }
        entry.promised = epoch;
        entry.touched = now;
        let known = match &entry.status {
            Status::Unknown => Promised::Nothing,
            Status::Pending(pending) => Promised::Pending {
                pending: pending.clone(),
                batch: entry.batch.clone().expect("a pending batch has payloads"),
            },
            Status::Accepted {
                epoch, decision, ..
            } => Promised::Accepted {
                epoch: *epoch,
                decision: decision.clone(),
                batch: decision.slot().and(entry.batch.clone()),
            },
            Status::Stable { .. } => unreachable!("answered above"),
        };
        self.leave_earlier(id, epoch);
        out.records.push(PobRecord::Promised { id, epoch });
        let promise = Message::Promise { id, epoch, known };
        self.answer(now, from, promise, out);
    }

    /// Collects promises; with those of a classic quorum, chooses the decision that the epoch accepts.
    pub(super) fn handle_promise(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        epoch: Epoch,
        known: Promised<P>,
        out: &mut OutboxOf<Self>,
    ) {
        let Some(led) = self.led.get_mut(&id) else {
            return;
        };
        let Phase::Recovering {
            epoch: current,
            promises,
        } = &mut led.phase
        else {
            return;
        };
        if *current != epoch {
            return;
        }
        if known.batch().is_some() {
            led.holders.insert(from);
        }
        promises.insert(from, known);
        if promises.len() < self.quorums.classic() {
            return;
        }
        let decision = chosen(promises);
        let batch = decision
            .slot()
            .and_then(|_| promises.values().find_map(Promised::batch).cloned());
        let holders = led.holders;
        self.start_accept(now, id, epoch, decision, batch, holders, out);
    }

    /// Another site has promised a later epoch than one in which this site leads, or led.
    pub(super) fn handle_refuse(&mut self, now: Ticks, id: BatchId, promised: Epoch) {
        let leads = self.led.get(&id);
        if leads.is_some_and(|led| led.phase.epoch() < promised)
            && let Some(entry) = self.queue.entries.get_mut(&id)
        {
            entry.refused = entry.refused.max(promised);
            entry.touched = now;
        }
        self.leave_earlier(id, promised);
    }
}

/// The decision that a classic quorum of promises permits.
///
/// 1. What was accepted in the highest *accepted* epoch: an earlier epoch may have decided it.
/// 2. Otherwise, if all have answered the proposal with the proposed slot, that slot: the leader may have decided it
///    fast. If it has not, these answers permit the slot as well as they would have permitted it to the leader.
/// 3. Otherwise a no-op: no earlier epoch has decided anything.
fn chosen<P>(promises: &BTreeMap<SiteId, Promised<P>>) -> Decision {
    let accepted = promises.values().filter_map(|known| match known {
        Promised::Accepted {
            epoch, decision, ..
        } => Some((*epoch, decision)),
        Promised::Nothing | Promised::Pending { .. } => None,
    });
    if let Some((_, decision)) = accepted.max_by_key(|(epoch, _)| *epoch) {
        return decision.clone();
    }
    let agreed = |known: &Promised<P>| match known {
        Promised::Pending { pending, .. } if pending.agrees() => Some(pending.proposed.clone()),
        _ => None,
    };
    let slots: Option<Vec<_>> = promises.values().map(agreed).collect();
    match slots.and_then(|slots| slots.into_iter().next()) {
        Some(slot) => Decision::Deliver(slot),
        None => Decision::NoOp,
    }
}
