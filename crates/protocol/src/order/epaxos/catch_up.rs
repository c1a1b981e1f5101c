//! Progress and catching up: repeated messages, recoveries after a time without news, reports of what is delivered,
//! pruning, and what a site does that has missed decisions.

use std::collections::BTreeMap;

use anabranch_types::Ticks;

use crate::order::reports::{Progress, Report, patience};
use crate::order::{Ballot, BatchId, OutboxOf, Payload, Prefix, SiteId};

use super::EpaxosSite;
use super::entry::{Decision, Entry};
use super::leader::Phase;
use super::message::Message;
use super::record::{EpaxosRecord, Transfer};

/// The most missing batches of one site that are looked for at a time.
const MISSING_MAX: u64 = 64;

/// What a site reports: what it has delivered, and the number of its last batch at that moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reported {
    pub(super) delivered: Prefix,
    pub(super) sequence: u64,
}

impl Progress for Reported {
    fn agrees_with(&self, other: &Reported) -> bool {
        self.delivered == other.delivered
    }

    fn merge(&mut self, other: &Reported) {
        self.delivered.merge(&other.delivered);
        self.sequence = self.sequence.max(other.sequence);
    }
}

/// What this site may prune as far as one site is concerned: what that has delivered before each of its batches that this
/// site has not delivered.
#[derive(Clone, Debug, Hash)]
pub(super) struct Confirmed {
    pub(super) delivered: Prefix,
    /// A report that waits until the site's batches up to its number are delivered here.
    pub(super) waiting: Option<Reported>,
}

impl<P: Payload> EpaxosSite<P> {
    /// Whether the progress timer is needed.
    pub(super) fn has_work(&self) -> bool {
        !self.gathering.is_empty()
            || !self.held_up.is_empty()
            || !self.graph.undecided.is_empty()
            || self.others().any(|site| self.reports.differs(site))
            || self.quorums.all().any(|site| self.is_missing(site))
    }

    /// The last batch of a site that any site is known to know.
    fn last_known(&self, site: SiteId) -> u64 {
        let reported = self.reports.all().iter().map(|it| it.delivered.last(site));
        let known = self.graph.last_known(site);
        reported.fold(known.max(self.reports.of(site).sequence), u64::max)
    }

    /// Whether batches of a site are known to exist and are not delivered here.
    fn is_missing(&self, site: SiteId) -> bool {
        self.last_known(site) > self.graph.delivered.prefix().last(site)
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
        for id in &self.graph.undecided {
            let entry = &self.graph.entries[id];
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
                let entry = self.graph.entry(*id, now);
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
    }

    /// Reports to another site what this site has delivered.
    fn report_to(&mut self, site: SiteId, out: &mut OutboxOf<Self>) {
        let Report {
            own,
            received,
            needs_answer,
        } = self.reports.report_to(site);
        let report = Message::Report {
            delivered: own.delivered,
            sequence: own.sequence,
            received: (received.delivered, received.sequence),
            needs_answer,
        };
        self.send(site, report, out);
    }

    /// Makes entries for batches that must exist, since later ones of their sites do.
    fn find_missing(&mut self, now: Ticks) {
        for site in self.quorums.all() {
            let first = self.graph.delivered.first_missing(site).sequence;
            let last = self.last_known(site).min(first + MISSING_MAX);
            for sequence in first..=last {
                let id = BatchId { site, sequence };
                if !self.graph.delivered.contains(id) {
                    self.graph.entry(id, now);
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
        let delivered = |site: &SiteId| self.reports.of(*site).delivered.contains(id);
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

    /// Whether a recovery may help: not while this site still leads the batch in ballot 0.
    fn may_recover(&self, id: BatchId) -> bool {
        let led = self.led.get(&id);
        led.is_none_or(|led| led.phase.ballot() > Ballot::default())
    }

    pub(super) fn handle_report(
        &mut self,
        from: SiteId,
        reported: &Reported,
        received: &Reported,
        needs_answer: bool,
        out: &mut OutboxOf<Self>,
    ) {
        self.reports.take(from, reported, received);
        self.prune();
        // If the two differ, this site reports anyway. The answer needs none.
        if needs_answer && !self.reports.differs(from) {
            self.report_to(from, out);
        }
    }

    /// Requests of a site that has missed decisions. What is pruned here it has delivered.
    pub(super) fn handle_fetch(&mut self, from: SiteId, ids: &[BatchId], out: &mut OutboxOf<Self>) {
        for id in ids {
            if let Some(entry) = self.graph.get(*id)
                && let Some(decision) = entry.committed()
            {
                let commit = Message::Commit {
                    id: *id,
                    decision: decision.clone(),
                    proposal: entry.proposal.clone(),
                };
                self.send(from, commit, out);
            }
        }
    }

    /// This site reports from now on what it has delivered and proposed.
    pub(super) fn report_own(&mut self) {
        self.reports.set_own(Reported {
            delivered: self.graph.delivered.prefix().clone(),
            sequence: self.sequence,
        });
    }

    /// What this site has delivered has changed.
    pub(super) fn after_delivery(&mut self) {
        self.report_own();
        self.prune();
    }

    /// Drops what all sites have delivered, once each site has delivered it before it proposed any batch that is not
    /// delivered here: the proposals of such batches name it, or say that it is pruned (EP-I4).
    fn prune(&mut self) {
        for site in self.quorums.all() {
            let confirmed = &mut self.confirmed[site.index()];
            let latest = self.reports.of(site);
            let is_over = |reported: &Reported| {
                let delivered = self.graph.delivered.prefix().last(site);
                reported.sequence <= delivered
            };
            if confirmed.waiting.as_ref().is_some_and(is_over)
                && let Some(reported) = confirmed.waiting.take()
            {
                confirmed.delivered = reported.delivered;
            }
            if confirmed.waiting.is_none() && latest.delivered != confirmed.delivered {
                match is_over(latest) {
                    true => confirmed.delivered = latest.delivered.clone(),
                    false => confirmed.waiting = Some(latest.clone()),
                }
            }
        }
        let own = self.graph.delivered.prefix().clone();
        let all = self.confirmed.iter();
        let all = all.fold(own, |all, it| all.intersection(&it.delivered));
        if !self.stable_frontier.covers(&all) {
            self.graph.prune(&all);
            self.stable_frontier.merge(&all);
        }
    }

    /// The state for a site that has missed what is pruned here.
    pub(super) fn make_transfer(&self) -> Transfer<P> {
        let committed = self.graph.entries.iter().filter_map(|(id, entry)| {
            let decision = entry.committed()?.clone();
            Some((*id, decision, entry.proposal.clone()))
        });
        Transfer {
            base: self.base(),
            committed: committed.collect(),
        }
    }

    /// Takes another site's state in place of what this site has missed.
    pub(super) fn install_transfer(
        &mut self,
        now: Ticks,
        transfer: Transfer<P>,
        out: &mut OutboxOf<Self>,
    ) -> bool {
        let theirs = transfer.base;
        if !theirs.delivered.covers(&self.graph.delivered)
            || self.graph.delivered.covers(&theirs.delivered)
        {
            return false;
        }
        self.counters.transfers += 1;
        self.graph.prune(&theirs.pruned);
        self.graph.delivered = theirs.delivered;
        self.graph.depths.extend(theirs.depths);
        self.graph.deepest = self.graph.deepest.max(theirs.deepest);
        let delivered = &self.graph.delivered;
        self.led.retain(|id, _| !delivered.contains(*id));
        self.own.retain(|id| !delivered.contains(*id));
        out.records.push(EpaxosRecord::Base(self.base()));
        let before = out.deliveries.len();
        self.graph.execute_all(&mut out.deliveries);
        self.counters.deliveries += (out.deliveries.len() - before) as u64;
        for (id, decision, proposal) in transfer.committed {
            if !self.graph.pruned.contains(id) {
                self.settle(now, id, decision, proposal, out);
            }
        }
        self.after_delivery();
        true
    }

    /// Whether the batch is led in its accept phase.
    pub fn is_accepting(&self, id: BatchId) -> bool {
        let led = self.led.get(&id);
        led.is_some_and(|led| matches!(led.phase, Phase::Accepting { .. }))
    }

    /// The decision of a batch that is not pruned.
    pub fn decision(&self, id: BatchId) -> Option<&Decision> {
        self.graph.get(id).and_then(Entry::committed)
    }
}
