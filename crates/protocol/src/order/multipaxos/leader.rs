//! The leader's side: the first phase for all open slots at once, the second phase slot by slot, pipelined.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_types::Ticks;

use crate::order::{Ballot, Batch, BatchId, OutboxOf, Payload, SiteId, SiteSet};

use super::MultiPaxosSite;
use super::message::{AcceptedSlot, Message, Value};

/// What a site does beside accepting and learning.
#[derive(Clone, Debug)]
pub(super) enum Role<P> {
    /// It forwards its batches to the leader.
    Follower,
    /// It waits for promises of a majority.
    Candidate {
        ballot: Ballot,
        /// The first slot that it asked for.
        from: u64,
        promises: BTreeMap<SiteId, Vec<AcceptedSlot<P>>>,
        sent: Ticks,
    },
    /// It assigns slots.
    Leader {
        ballot: Ballot,
        /// The first slot that it has not assigned.
        next: u64,
        /// The slots that are assigned and not chosen.
        pending: BTreeMap<u64, Proposal>,
        /// The batches in these slots.
        proposed: BTreeSet<BatchId>,
    },
}

/// A slot that its leader waits for.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    answers: SiteSet,
    sent: Ticks,
}

impl<P> Role<P> {
    /// The ballot in which the site leads, or wants to.
    pub(super) fn ballot(&self) -> Option<Ballot> {
        match self {
            Role::Follower => None,
            Role::Candidate { ballot, .. } | Role::Leader { ballot, .. } => Some(*ballot),
        }
    }
}

impl<P: Payload> MultiPaxosSite<P> {
    /// Makes this site lead, or try to lead, from the next slot on.
    pub(super) fn stand(&mut self, now: Ticks, out: &mut OutboxOf<Self>) {
        let highest = self.promised.max(self.seen);
        let ballot = highest.next_of(self.site, self.quorums.sites());
        self.counters.recoveries += 1;
        self.progress = now;
        self.attempts += 1;
        let from = self.next;
        self.role = Role::Candidate {
            ballot,
            from,
            promises: BTreeMap::new(),
            sent: now,
        };
        self.send_all(now, &Message::Prepare { ballot, from }, out);
    }

    pub(super) fn handle_promise(
        &mut self,
        now: Ticks,
        from: SiteId,
        of: Ballot,
        accepted: Vec<AcceptedSlot<P>>,
        out: &mut OutboxOf<Self>,
    ) {
        let majority = self.quorums.classic();
        let Role::Candidate {
            ballot,
            promises,
            from: first,
            ..
        } = &mut self.role
        else {
            return;
        };
        if *ballot != of {
            return;
        }
        promises.insert(from, accepted);
        if promises.len() < majority {
            return;
        }
        // Of each slot, what was accepted in the highest ballot.
        let mut values: BTreeMap<u64, AcceptedSlot<P>> = BTreeMap::new();
        for slot in std::mem::take(promises).into_values().flatten() {
            match values.get(&slot.slot) {
                Some(other) if (other.is_chosen, other.ballot) >= (slot.is_chosen, slot.ballot) => {
                }
                _ => drop(values.insert(slot.slot, slot)),
            }
        }
        let first = (*first).max(self.next);
        let next = values
            .keys()
            .next_back()
            .map_or(first, |last| last + 1)
            .max(first);
        self.role = Role::Leader {
            ballot: of,
            next,
            pending: BTreeMap::new(),
            proposed: BTreeSet::new(),
        };
        self.attempts = 0;
        for slot in first..next {
            let value = values.remove(&slot).map_or(Value::NoOp, |it| it.value);
            self.propose_in(now, slot, value, out);
        }
        let own: Vec<(BatchId, Batch<P>)> = (self.own.iter())
            .map(|(id, own)| (*id, own.batch.clone()))
            .collect();
        for (id, batch) in own {
            self.lead_batch(now, id, batch, out);
        }
    }

    /// Assigns the next slot to a batch, unless it has one.
    pub(super) fn lead_batch(
        &mut self,
        now: Ticks,
        id: BatchId,
        batch: Batch<P>,
        out: &mut OutboxOf<Self>,
    ) {
        let Role::Leader { next, proposed, .. } = &mut self.role else {
            return;
        };
        if self.delivered.contains(id) || proposed.contains(&id) {
            return;
        }
        let slot = *next;
        *next += 1;
        self.counters.batches += 1;
        self.propose_in(now, slot, Value::Batch { id, batch }, out);
    }

    fn propose_in(&mut self, now: Ticks, slot: u64, value: Value<P>, out: &mut OutboxOf<Self>) {
        let Role::Leader {
            ballot,
            pending,
            proposed,
            ..
        } = &mut self.role
        else {
            return;
        };
        if let Value::Batch { id, .. } = &value {
            proposed.insert(*id);
        }
        let proposal = Proposal {
            answers: SiteSet::default(),
            sent: now,
        };
        pending.insert(slot, proposal);
        let accept = Message::Accept {
            ballot: *ballot,
            slot,
            value,
        };
        self.send_all(now, &accept, out);
    }

    pub(super) fn handle_accepted(
        &mut self,
        now: Ticks,
        from: SiteId,
        of: Ballot,
        slot: u64,
        out: &mut OutboxOf<Self>,
    ) {
        let majority = self.quorums.classic();
        let Role::Leader {
            ballot, pending, ..
        } = &mut self.role
        else {
            return;
        };
        let Some(proposal) = pending.get_mut(&slot).filter(|_| *ballot == of) else {
            return;
        };
        proposal.answers.insert(from);
        // The leader has accepted it itself: what it announces it can deliver.
        if proposal.answers.len() < majority || !proposal.answers.contains(self.site) {
            return;
        }
        pending.remove(&slot);
        self.counters.classic_decisions += 1;
        for site in self.others() {
            self.send(site, Message::Chosen { ballot: of, slot }, out);
        }
        self.choose(now, slot, None, out);
    }

    /// Sends again what was not answered.
    pub(super) fn lead_on(&mut self, now: Ticks, out: &mut OutboxOf<Self>) {
        let retry = self.options.retry.0;
        let due = |sent: Ticks| now.0 >= sent.0 + retry;
        match &mut self.role {
            Role::Follower => {}
            Role::Candidate {
                ballot, from, sent, ..
            } if due(*sent) => {
                *sent = now;
                let prepare = Message::Prepare {
                    ballot: *ballot,
                    from: *from,
                };
                self.send_all(now, &prepare, out);
            }
            Role::Candidate { .. } => {}
            Role::Leader {
                ballot, pending, ..
            } => {
                let ballot = *ballot;
                let mut again = Vec::new();
                for (slot, proposal) in pending.iter_mut().filter(|(_, it)| due(it.sent)) {
                    proposal.sent = now;
                    again.push((*slot, proposal.answers));
                }
                for (slot, answers) in again {
                    let entry = self.log.get(&slot);
                    let value = entry.and_then(|entry| Some(entry.accepted.as_ref()?.1.clone()));
                    let Some(value) = value else { continue };
                    for site in self.others().filter(|site| !answers.contains(*site)) {
                        let value = value.clone();
                        let accept = Message::Accept {
                            ballot,
                            slot,
                            value,
                        };
                        self.send(site, accept, out);
                    }
                }
            }
        }
    }
}
