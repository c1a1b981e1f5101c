//! Chosen values and their delivery; reports, pruning and catching up; when a site tries to lead.

use std::collections::BTreeMap;

use anabranch_types::Ticks;

use crate::order::reports::{Progress, Report, patience};
use crate::order::{Ballot, Delivery, OutboxOf, Payload, Prefix, SiteId};

use super::leader::Role;
use super::message::{Message, Value};
use super::record::{MultiPaxosRecord, Transfer};
use super::{BatchId, MultiPaxosSite};

/// The most slots of one answer to a site that has missed some.
const LEARN_MAX: usize = 64;

/// What a site reports: what it has delivered, and its first slot that it has not.
#[derive(Clone, Debug)]
pub(super) struct Reported {
    pub(super) delivered: Prefix,
    pub(super) next: u64,
}

/// All sites deliver the same slots in the same order.
impl PartialEq for Reported {
    fn eq(&self, other: &Reported) -> bool {
        self.next == other.next
    }
}

impl Progress for Reported {
    fn agrees_with(&self, other: &Reported) -> bool {
        self == other
    }

    fn merge(&mut self, other: &Reported) {
        self.delivered.merge(&other.delivered);
        self.next = self.next.max(other.next);
    }
}

impl<P: Payload> MultiPaxosSite<P> {
    pub(super) fn handle_chosen(
        &mut self,
        now: Ticks,
        ballot: Ballot,
        slot: u64,
        out: &mut OutboxOf<Self>,
    ) {
        self.hear_of(now, ballot);
        let entry = self.log.get(&slot);
        let accepted = entry.and_then(|entry| entry.accepted.as_ref());
        // In a later ballot it has the same value. A site that has not accepted it learns it from reports.
        if accepted.is_some_and(|(of, _)| *of >= ballot) {
            self.choose(now, slot, None, out);
        }
    }

    /// A value is chosen: the given one, or what was accepted last.
    pub(super) fn choose(
        &mut self,
        now: Ticks,
        slot: u64,
        value: Option<Value<P>>,
        out: &mut OutboxOf<Self>,
    ) {
        let is_known = self.log.get(&slot).is_some_and(|entry| entry.is_chosen);
        if slot < self.next || is_known {
            return;
        }
        out.records.push(MultiPaxosRecord::Chosen {
            slot,
            value: value.clone(),
        });
        self.mark_chosen(slot, value);
        if let Role::Leader { pending, .. } = &mut self.role {
            pending.remove(&slot);
        }
        let before = self.next;
        self.deliver(&mut out.deliveries);
        if self.next > before {
            self.progress = now;
        }
    }

    /// Notes that a value is chosen.
    pub(super) fn mark_chosen(&mut self, slot: u64, value: Option<Value<P>>) {
        let entry = self.log.entry(slot).or_default();
        if let Some(value) = value {
            let ballot = entry
                .accepted
                .as_ref()
                .map_or(Ballot::default(), |(of, _)| *of);
            entry.accepted = Some((ballot, value));
        }
        entry.is_chosen = true;
    }

    /// Delivers the chosen values that follow each other.
    pub(super) fn deliver(&mut self, deliveries: &mut Vec<Delivery<P>>) {
        while let Some(entry) = self.log.get(&self.next).filter(|entry| entry.is_chosen) {
            let (_, value) = entry.accepted.as_ref().expect("a chosen slot has a value");
            let slot = self.next;
            self.next += 1;
            let Value::Batch { id, batch } = value else {
                self.counters.no_ops += 1;
                continue;
            };
            let (id, batch) = (*id, batch.clone());
            // A batch may have been proposed in two slots, by two leaders: the first one counts.
            if !self.delivered.insert(id) {
                continue;
            }
            self.index.insert(id, &batch);
            let dependencies = self.index.conflicts(id).collect();
            self.kept.insert(id, slot);
            self.own.remove(&id);
            if let Role::Leader { proposed, .. } = &mut self.role {
                proposed.remove(&id);
            }
            self.counters.deliveries += 1;
            deliveries.push(Delivery {
                id,
                batch,
                position: slot,
                dependencies,
            });
        }
        self.reports.set_own(Reported {
            delivered: self.delivered.prefix().clone(),
            next: self.next,
        });
        self.prune();
    }

    /// Drops the slots that all sites have delivered.
    fn prune(&mut self) {
        let first = self.reports.all().iter().map(|it| it.next).min();
        let first = first.unwrap_or(1).max(self.first);
        let rest = self.log.split_off(&first);
        for (slot, entry) in std::mem::replace(&mut self.log, rest) {
            if let Some((_, Value::Batch { id, .. })) = &entry.accepted
                && self.kept.get(id) == Some(&slot)
            {
                self.kept.remove(id);
                self.index.remove(*id);
            }
        }
        self.first = first;
        let all = self.reports.all()[0].delivered.clone();
        let others = self.reports.all()[1..].iter();
        self.stable_frontier = others.fold(all, |all, it| all.intersection(&it.delivered));
    }

    /// Whether something is to be ordered, as far as this site knows.
    pub(super) fn has_open(&self) -> bool {
        !self.own.is_empty() || self.log.range(self.next..).next().is_some()
    }

    /// Whether the progress timer is needed.
    pub(super) fn has_work(&self) -> bool {
        !self.gathering.is_empty()
            || self.has_open()
            || matches!(self.role, Role::Candidate { .. })
            || self.others().any(|site| self.reports.differs(site))
    }

    /// Repeats messages, requests values, tries to lead after a time without progress, and reports.
    pub(super) fn make_progress(&mut self, now: Ticks, out: &mut OutboxOf<Self>) {
        let retry = self.options.retry.0;
        self.lead_on(now, out);
        let own = self.own.iter();
        let silent = own.filter(|(_, own)| now.0 >= own.sent.0 + retry);
        let silent: Vec<BatchId> = silent.map(|(id, _)| *id).collect();
        for id in silent {
            self.forward(now, id, out);
        }
        let waited = now.since(self.progress).0;
        if matches!(self.role, Role::Follower) && self.has_open() && waited >= self.patience() {
            self.stand(now, out);
        }
        let ahead = self
            .others()
            .filter(|site| self.reports.of(*site).next > self.next);
        let ahead: Vec<SiteId> = ahead.collect();
        if !ahead.is_empty() {
            // Another one each time: some may be down.
            let turn = (now.0 / retry.max(1)) as usize % ahead.len();
            self.send(ahead[turn], Message::Fetch { from: self.next }, out);
        }
        for site in self.others() {
            if self.reports.differs(site) {
                self.report_to(site, out);
            }
        }
    }

    /// How long this site waits for a leader.
    fn patience(&self) -> u64 {
        let (base, leader) = (self.options.patience.0, self.leader());
        patience(base, leader, self.site, self.quorums.sites(), self.attempts)
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
            next: own.next,
            received: received.next,
            needs_answer,
        };
        self.send(site, report, out);
    }

    pub(super) fn handle_report(
        &mut self,
        from: SiteId,
        reported: &Reported,
        received: u64,
        needs_answer: bool,
        out: &mut OutboxOf<Self>,
    ) {
        let received = Reported {
            delivered: Prefix::empty(self.quorums.sites()),
            next: received,
        };
        self.reports.take(from, reported, &received);
        self.prune();
        // If the two differ, this site reports anyway. The answer needs none.
        if needs_answer && !self.reports.differs(from) {
            self.report_to(from, out);
        }
    }

    /// Answers a site that has missed chosen values. What is pruned here it has delivered.
    pub(super) fn handle_fetch(&mut self, from: SiteId, slot: u64, out: &mut OutboxOf<Self>) {
        let chosen = self.log.range(slot..).filter(|(_, entry)| entry.is_chosen);
        let values = chosen.filter_map(|(slot, entry)| {
            let (_, value) = entry.accepted.as_ref()?;
            Some((*slot, value.clone()))
        });
        let values: Vec<(u64, Value<P>)> = values.take(LEARN_MAX).collect();
        if !values.is_empty() {
            self.send(from, Message::Learn { values }, out);
        }
    }

    /// Takes another site's state in place of what this site has missed.
    pub(super) fn install_transfer(
        &mut self,
        now: Ticks,
        transfer: Transfer<P>,
        out: &mut OutboxOf<Self>,
    ) {
        self.counters.transfers += 1;
        self.skip_to(transfer.next, transfer.delivered);
        let base = self.base();
        out.records.push(base);
        self.deliver(&mut out.deliveries);
        for (slot, value) in transfer.chosen {
            self.choose(now, slot, Some(value), out);
        }
        self.progress = now;
    }

    /// Takes all slots before `next` as delivered.
    pub(super) fn skip_to(&mut self, next: u64, delivered: super::Delivered) {
        self.log = self.log.split_off(&next);
        self.kept = BTreeMap::new();
        self.index = super::ConflictIndex::default();
        self.first = next;
        self.next = next;
        self.own.retain(|id, _| !delivered.contains(*id));
        self.delivered = delivered;
        if let Role::Leader { .. } = self.role {
            self.role = Role::Follower;
        }
    }
}
