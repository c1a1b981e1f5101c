//! Progress and catching up: repeated messages, recoveries after a time without news, reports of what is delivered,
//! pruning, and what a site does that has missed decisions.

use std::collections::BTreeMap;

use anabranch_types::Ticks;

use crate::order::reports::{Report, patience};
use crate::order::{BatchId, OutboxOf, Payload, Prefix, SiteId};

use super::PobSite;
use super::cut::Cuts;
use super::entry::{Decision, Entry, Epoch};
use super::leader::Phase;
use super::message::Message;
use super::record::{CutState, PobRecord, Transfer};

/// The most missing batches of one site that are looked for at a time.
const MISSING_MAX: u64 = 64;

impl<P: Payload> PobSite<P> {
    /// Whether the progress timer is needed.
    pub(super) fn has_work(&self) -> bool {
        !self.gathering.is_empty()
            || !self.queue.undecided.is_empty()
            || self.cuts.is_proposing()
            || self.others().any(|site| self.reports.differs(site))
            || self.quorums.all().any(|site| self.is_missing(site))
    }

    /// The last batch of a site that any site is known to know.
    fn last_known(&self, site: SiteId) -> u64 {
        let reports = self.reports.all().iter();
        let reported = reports.map(|report| report.last(site)).max();
        self.queue.last_known(site).max(reported.unwrap_or(0))
    }

    /// Whether batches of a site are known to exist and are not delivered here.
    fn is_missing(&self, site: SiteId) -> bool {
        self.last_known(site) > self.queue.delivered.prefix().last(site)
    }

    /// Repeats messages, requests decisions, recovers batches without news, and reports.
    pub(super) fn make_progress(&mut self, now: Ticks, out: &mut OutboxOf<Self>) {
        let retry = self.options.retry.0;
        let due = |since: Ticks, wait: u64| now.0 >= since.0 + wait;
        self.end_fast_waits(now, out);
        let led = self.led.iter().filter(|(_, led)| due(led.sent, retry));
        let repeated: Vec<BatchId> = led.map(|(id, _)| *id).collect();
        for id in repeated {
            self.send_again(now, id, out);
        }
        self.find_missing(now);
        let mut requests: BTreeMap<SiteId, Vec<BatchId>> = BTreeMap::new();
        let mut silent = Vec::new();
        for id in &self.queue.undecided {
            let entry = &self.queue.entries[id];
            if due(entry.touched, retry)
                && let Some(site) = self.site_that_delivered(*id, entry)
            {
                let ids = requests.entry(site).or_default();
                if ids.len() < MISSING_MAX as usize {
                    ids.push(*id);
                }
            } else if due(entry.touched, self.patience(*id, entry)) && self.may_recover(*id) {
                silent.push(*id);
            }
        }
        for (site, ids) in requests {
            for id in &ids {
                let entry = self.queue.entry(*id, now);
                entry.touched = now;
                entry.attempts += 1;
            }
            self.send(site, Message::Fetch { ids }, out);
        }
        for id in silent {
            self.recover_batch(now, id, out);
        }
        for site in self.others() {
            if self.reports.differs(site) {
                self.report_to(site, out);
            }
        }
        self.propose_cut(now, out);
    }

    /// Reports to another site what this site has delivered.
    fn report_to(&mut self, site: SiteId, out: &mut OutboxOf<Self>) {
        let Report {
            own,
            received,
            needs_answer,
        } = self.reports.report_to(site);
        let report = Message::Report {
            delivered: own,
            received,
            needs_answer,
        };
        self.send(site, report, out);
    }

    /// Makes entries for batches that must exist, since later ones of their sites do.
    fn find_missing(&mut self, now: Ticks) {
        for site in self.quorums.all() {
            let first = self.queue.delivered.first_missing(site).sequence;
            let last = self.last_known(site).min(first + MISSING_MAX);
            for sequence in first..=last {
                let id = BatchId { site, sequence };
                if !self.queue.delivered.contains(id) {
                    self.queue.entry(id, now);
                }
            }
        }
    }

    /// A site that has reported a batch as delivered, for every other attempt; a different one each time. The attempts
    /// between are recoveries, since the sites that have delivered it may be down.
    fn site_that_delivered(&self, id: BatchId, entry: &Entry<P>) -> Option<SiteId> {
        if !entry.attempts.is_multiple_of(2) {
            return None;
        }
        let delivered = |site: &SiteId| self.reports.of(*site).contains(id);
        let sites: Vec<SiteId> = self.others().filter(delivered).collect();
        let choice = entry.attempts as usize / 2 % sites.len().max(1);
        sites.get(choice).copied()
    }

    /// How long this site waits for news of a batch before it recovers it: the batch's site first.
    fn patience(&self, id: BatchId, entry: &Entry<P>) -> u64 {
        let base = self.options.patience.0;
        patience(
            base,
            id.site,
            self.site,
            self.quorums.sites(),
            entry.attempts,
        )
    }

    /// Whether a recovery may help: not while this site still leads the batch as its sender.
    fn may_recover(&self, id: BatchId) -> bool {
        let led = self.led.get(&id);
        led.is_none_or(|led| led.phase.epoch() > Epoch::INITIAL)
    }

    /// Another site has delivered this.
    pub(super) fn handle_report(
        &mut self,
        from: SiteId,
        delivered: &Prefix,
        received: &Prefix,
        needs_answer: bool,
        out: &mut OutboxOf<Self>,
    ) {
        self.reports.take(from, delivered, received);
        self.prune();
        // If the two differ, this site reports anyway. The answer needs none.
        if needs_answer && !self.reports.differs(from) {
            self.report_to(from, out);
        }
    }

    /// Requests of a site that has missed decisions.
    pub(super) fn handle_fetch(&mut self, from: SiteId, ids: &[BatchId], out: &mut OutboxOf<Self>) {
        let mut needs_transfer = false;
        for id in ids {
            if self.queue.is_pruned(*id) {
                // A request may be late: the site may have it by now.
                needs_transfer |= !self.reports.of(from).contains(*id);
            } else if let Some(entry) = self.queue.get(*id)
                && let Some(decision) = entry.stable()
            {
                let stable = Message::Stable {
                    id: *id,
                    decision: decision.clone(),
                    batch: entry.batch.clone(),
                };
                self.send(from, stable, out);
            }
        }
        if needs_transfer && !out.transfers.contains(&from) {
            out.transfers.push(from);
        }
    }

    /// What this site has delivered has changed.
    pub(super) fn after_delivery(&mut self) {
        self.reports.set_own(self.queue.delivered.prefix().clone());
        self.prune();
    }

    /// Drops what all sites have delivered; and the last cut, once all of it is delivered here.
    pub(super) fn prune(&mut self) {
        let first = self.reports.all()[0].clone();
        let all = self.reports.all()[1..].iter();
        let all = all.fold(first, |all, report| all.intersection(report));
        if all != self.stable_frontier {
            self.queue.prune(&all);
            self.stable_frontier = all;
            if self.stable_frontier.covers(&self.queue.discarded) {
                self.queue.discarded = Prefix::empty(self.quorums.sites());
            }
        }
        let cut = &self.cuts.state.chosen;
        if !self.queue.pruned.covers(cut) && self.queue.delivered.prefix().covers(cut) {
            let cut = cut.clone();
            self.queue.prune(&cut);
            self.queue.discarded.merge(&cut);
        }
    }

    /// What a classic quorum has delivered.
    pub(super) fn delivered_by_majority(&self) -> Prefix {
        let mut majority = Prefix::empty(self.quorums.sites());
        for site in self.quorums.all() {
            let reports = self.reports.all().iter();
            let mut last: Vec<u64> = reports.map(|it| it.last(site)).collect();
            last.sort_unstable_by(|a, b| b.cmp(a));
            majority.extend(site, last[self.quorums.classic() - 1]);
        }
        majority
    }

    /// The state for a site that has missed what is pruned here.
    pub(super) fn make_transfer(&self) -> Transfer<P> {
        let stable = self.queue.entries.iter().filter_map(|(id, entry)| {
            let decision = entry.stable()?.clone();
            Some((*id, decision, entry.batch.clone()))
        });
        Transfer {
            base: self.base(),
            stable: stable.collect(),
        }
    }

    /// Takes another site's state in place of what this site has missed.
    pub(super) fn install_transfer(
        &mut self,
        now: Ticks,
        transfer: Transfer<P>,
        out: &mut OutboxOf<Self>,
    ) -> bool {
        let theirs = &transfer.base;
        if !theirs.delivered.covers(&self.queue.delivered)
            || self.queue.delivered.covers(&theirs.delivered)
        {
            return false;
        }
        self.queue.prune(&theirs.pruned);
        self.queue.discarded.merge(&theirs.discarded);
        self.queue.floor = self.queue.floor.max(theirs.floor);
        self.queue.delivered = theirs.delivered.clone();
        self.note(theirs.highest);
        if theirs.cuts.number > self.cuts.state.number {
            let (number, chosen) = (theirs.cuts.number, theirs.cuts.chosen.clone());
            self.cuts = Cuts::of(CutState::after(number, chosen));
        }
        self.counters.transfers += 1;
        let pruned = &self.queue.pruned;
        self.led.retain(|id, _| !pruned.contains(*id));
        self.own.retain(|id| !pruned.contains(*id));
        out.records.push(PobRecord::Base(self.base()));
        let before = out.deliveries.len();
        self.queue.deliver_all(&mut out.deliveries);
        self.counters.deliveries += (out.deliveries.len() - before) as u64;
        for (id, decision, batch) in transfer.stable {
            if !self.queue.is_pruned(id) {
                self.settle(now, id, decision, batch, out);
            }
        }
        self.after_delivery();
        true
    }

    /// Whether the batch is led in its accept phase.
    pub fn is_accepting(&self, id: BatchId) -> bool {
        self.led
            .get(&id)
            .is_some_and(|led| matches!(led.phase, Phase::Accepting { .. }))
    }

    /// The decision of a batch that is not pruned.
    pub fn decision(&self, id: BatchId) -> Option<&Decision> {
        self.queue.get(id).and_then(Entry::stable)
    }
}
