//! Cuts: what sites discard although one of them has not delivered it.
//!
//! Cut *n* is a prefix of each site's batches, an instance of Paxos like a batch, and includes cut *n* − 1. A site
//! discards the last cut that it knows to be chosen once it has delivered all of it. So of two sites that have discarded
//! what not all have delivered, one has delivered all that the other has discarded (POB-I7), and catches up with it.
//! The paper discards nothing.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_types::Ticks;

use crate::order::reports::patience;
use crate::order::{OutboxOf, Payload, Prefix, SiteId};

use super::PobSite;
use super::entry::Epoch;
use super::message::{CutMessage, Message};
use super::record::{CutState, PobRecord};

/// A site's part in the choice of cuts.
#[derive(Clone, Debug, Hash)]
pub(super) struct Cuts {
    pub(super) state: CutState,
    /// The epoch of the next cut that this site leads.
    proposal: Option<Proposal>,
    /// The highest epoch of the next cut that another site is known to have promised.
    refused: Epoch,
    /// Epochs of the next cut that this site has begun.
    attempts: u32,
    /// Since when the site needs the next cut and has not begun an epoch.
    needed: Option<Ticks>,
}

/// An epoch of a cut at the site that leads it.
#[derive(Clone, Debug, Hash)]
struct Proposal {
    epoch: Epoch,
    began: Ticks,
    phase: Phase,
}

#[derive(Clone, Debug, Hash)]
enum Phase {
    /// Waits for promises of a classic quorum: what each site has accepted.
    Preparing(BTreeMap<SiteId, Option<(Epoch, Prefix)>>),
    /// Waits until a classic quorum has accepted the cut.
    Accepting(Prefix, BTreeSet<SiteId>),
}

impl Cuts {
    pub(super) fn new(sites: u8) -> Cuts {
        Cuts::of(CutState::after(0, Prefix::empty(sites)))
    }

    pub(super) fn of(state: CutState) -> Cuts {
        Cuts {
            state,
            proposal: None,
            refused: Epoch::INITIAL,
            attempts: 0,
            needed: None,
        }
    }

    /// Whether this site leads an epoch.
    pub(super) fn is_proposing(&self) -> bool {
        self.proposal.is_some()
    }

    /// Leads no epoch below this one.
    fn leave_earlier(&mut self, epoch: Epoch) {
        let is_earlier = |proposal: &Proposal| proposal.epoch < epoch;
        if self.proposal.as_ref().is_some_and(is_earlier) {
            self.proposal = None;
        }
    }
}

/// An epoch without an end is given up after so many times of repetition.
const EPOCH_RETRIES: u64 = 4;

impl<P: Payload> PobSite<P> {
    /// Begins an epoch of the next cut, if the site keeps too much and a cut would change that. The sites wait in turn.
    pub(super) fn propose_cut(&mut self, now: Ticks, out: &mut OutboxOf<Self>) {
        let retry = self.options.retry.0;
        let is_old = |it: &Proposal| now.0 >= it.began.0 + EPOCH_RETRIES * retry;
        if self.cuts.proposal.as_ref().is_some_and(is_old) {
            self.cuts.proposal = None;
        }
        let is_needed = self.queue.retained() > self.options.retained_max
            && self.queue.pruned.covers(&self.cuts.state.chosen)
            && !self.queue.pruned.covers(&self.next_cut());
        if !is_needed || self.cuts.is_proposing() {
            self.cuts.needed = None;
            return;
        }
        let (site, sites) = (self.site, self.quorums.sites());
        let first = SiteId((self.cuts.state.number % u64::from(sites)) as u8);
        let since = *self.cuts.needed.get_or_insert(now);
        if now.0 < since.0 + patience(retry, first, site, sites, self.cuts.attempts) - retry {
            return;
        }
        self.cuts.needed = None;
        self.cuts.attempts += 1;
        let promised = self.cuts.state.promised.max(self.cuts.refused);
        let epoch = promised.next_of(site, sites);
        self.cuts.proposal = Some(Proposal {
            epoch,
            began: now,
            phase: Phase::Preparing(BTreeMap::new()),
        });
        self.send_cut_to_all(now, &CutMessage::Prepare { epoch }, out);
    }

    /// What this site would choose: what a majority has delivered, and this site too.
    fn next_cut(&self) -> Prefix {
        let majority = self.delivered_by_majority();
        let mut cut = majority.intersection(self.queue.delivered.prefix());
        cut.merge(&self.cuts.state.chosen);
        cut
    }

    fn send_cut_to_all(&mut self, now: Ticks, part: &CutMessage, out: &mut OutboxOf<Self>) {
        for to in self.others() {
            self.send_cut(now, to, part.clone(), out);
        }
        self.send_cut(now, self.site, part.clone(), out);
    }

    /// Sends a message about the next cut, with the last one that this site knows.
    fn send_cut(&mut self, now: Ticks, to: SiteId, part: CutMessage, out: &mut OutboxOf<Self>) {
        let CutState { number, chosen, .. } = self.cuts.state.clone();
        let message = Message::Cut {
            number,
            chosen,
            part,
        };
        self.answer(now, to, message, out);
    }

    /// A message of a site whose last cut has this number.
    pub(super) fn handle_cut(
        &mut self,
        now: Ticks,
        from: SiteId,
        (number, chosen): (u64, Prefix),
        part: CutMessage,
        out: &mut OutboxOf<Self>,
    ) {
        self.adopt_cut(number, chosen, out);
        if number < self.cuts.state.number {
            if part != CutMessage::Chosen {
                self.send_cut(now, from, CutMessage::Chosen, out);
            }
            return;
        }
        match part {
            CutMessage::Prepare { epoch } => self.handle_cut_prepare(now, from, epoch, out),
            CutMessage::Promise { epoch, accepted } => {
                self.handle_cut_promise(now, from, epoch, accepted, out);
            }
            CutMessage::Accept { epoch, cut } => {
                self.handle_cut_accept(now, from, epoch, cut, out);
            }
            CutMessage::Accepted { epoch } => self.handle_cut_accepted(now, from, epoch, out),
            CutMessage::Refuse { promised } => {
                self.cuts.refused = self.cuts.refused.max(promised);
                self.cuts.leave_earlier(promised);
            }
            CutMessage::Chosen => {}
        }
    }

    fn handle_cut_prepare(
        &mut self,
        now: Ticks,
        from: SiteId,
        epoch: Epoch,
        out: &mut OutboxOf<Self>,
    ) {
        let promised = self.cuts.state.promised;
        if epoch <= promised {
            return self.send_cut(now, from, CutMessage::Refuse { promised }, out);
        }
        self.cuts.leave_earlier(epoch);
        self.cuts.state.promised = epoch;
        out.records.push(PobRecord::Cut(self.cuts.state.clone()));
        let accepted = self.cuts.state.accepted.clone();
        self.send_cut(now, from, CutMessage::Promise { epoch, accepted }, out);
    }

    /// With the promises of a classic quorum: the cut of the highest accepted epoch, or this site's own.
    fn handle_cut_promise(
        &mut self,
        now: Ticks,
        from: SiteId,
        epoch: Epoch,
        accepted: Option<(Epoch, Prefix)>,
        out: &mut OutboxOf<Self>,
    ) {
        let own = self.next_cut();
        let Some(proposal) = self.cuts.proposal.as_mut().filter(|it| it.epoch == epoch) else {
            return;
        };
        let Phase::Preparing(promises) = &mut proposal.phase else {
            return;
        };
        promises.insert(from, accepted);
        if promises.len() < self.quorums.classic() {
            return;
        }
        let accepted = promises.values().flatten();
        let highest = accepted.max_by_key(|(epoch, _)| *epoch);
        let cut = highest.map_or(own, |(_, cut)| cut.clone());
        proposal.phase = Phase::Accepting(cut.clone(), BTreeSet::new());
        self.send_cut_to_all(now, &CutMessage::Accept { epoch, cut }, out);
    }

    fn handle_cut_accept(
        &mut self,
        now: Ticks,
        from: SiteId,
        epoch: Epoch,
        cut: Prefix,
        out: &mut OutboxOf<Self>,
    ) {
        let promised = self.cuts.state.promised;
        if epoch < promised {
            return self.send_cut(now, from, CutMessage::Refuse { promised }, out);
        }
        self.cuts.leave_earlier(epoch);
        self.cuts.state.promised = epoch;
        self.cuts.state.accepted = Some((epoch, cut));
        out.records.push(PobRecord::Cut(self.cuts.state.clone()));
        self.send_cut(now, from, CutMessage::Accepted { epoch }, out);
    }

    fn handle_cut_accepted(
        &mut self,
        now: Ticks,
        from: SiteId,
        epoch: Epoch,
        out: &mut OutboxOf<Self>,
    ) {
        let Some(proposal) = self.cuts.proposal.as_mut().filter(|it| it.epoch == epoch) else {
            return;
        };
        let Phase::Accepting(cut, sites) = &mut proposal.phase else {
            return;
        };
        sites.insert(from);
        if sites.len() < self.quorums.classic() {
            return;
        }
        let cut = cut.clone();
        self.adopt_cut(self.cuts.state.number + 1, cut, out);
        for to in self.others() {
            self.send_cut(now, to, CutMessage::Chosen, out);
        }
    }

    /// This cut is chosen. Discards it, if all of it is delivered here.
    fn adopt_cut(&mut self, number: u64, chosen: Prefix, out: &mut OutboxOf<Self>) {
        let own = &self.cuts.state;
        if number == own.number && chosen != own.chosen {
            let found = format!("POB-I7: cut {number} is {:?} and {chosen:?}", own.chosen);
            self.violation.get_or_insert(found);
        }
        if number <= own.number {
            return;
        }
        if !chosen.covers(&own.chosen) {
            let found = format!("POB-I7: cut {number} is {chosen:?} after {:?}", own.chosen);
            self.violation.get_or_insert(found);
        }
        self.cuts = Cuts::of(CutState::after(number, chosen));
        out.records.push(PobRecord::Cut(self.cuts.state.clone()));
        self.prune();
    }
}
