//! MultiPaxos (Lamport, *Paxos Made Simple*): one leader gives each batch a slot, and every site delivers all batches in
//! the order of their slots. The orderer that partial order broadcast is compared with (alvin.txt §5).
//!
//! The leader is stable: it runs the first phase once, for all open slots, and then one round trip to a majority for each
//! batch, many at a time. Other sites forward their batches to it. `docs/protocols/multipaxos.md` has the algorithm, the
//! messages, the states and the invariants (`MP-I1` …).
//!
//! * [`message`], [`record`]: messages and log records.
//! * `leader`: candidates and leaders. `learner`: chosen values, delivery, reports and pruning. `durable`: replay and
//!   checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anabranch_types::Ticks;

use super::conflict::ConflictIndex;
use super::gathering::{Batching, Gathered, Gathering};
use super::reports::Reports;
use super::{
    Ballot, Batch, BatchId, Delivered, GroupSizeError, OrderCounters, Orderer, OutboxOf, Payload,
    Prefix, Quorums, SiteId,
};
use crate::contract::TimerId;
use crate::record::ReplayError;

mod durable;
mod leader;
mod learner;
pub mod message;
pub mod record;

use leader::Role;
use learner::Reported;
use message::{AcceptedSlot, Message, Value};
use record::{MultiPaxosRecord, Transfer};

/// Looks for messages to repeat, leaders to replace and reports to send.
const TIMER_PROGRESS: TimerId = TimerId(0);
/// Ends the window of a batch.
const TIMER_BATCH: TimerId = TimerId(1);

/// A site's options, the same at all sites but for `site`.
#[derive(Clone, Copy, Debug)]
pub struct MultiPaxosOptions {
    /// This site.
    pub site: SiteId,
    /// The number of sites: 1 to 9.
    pub sites: u8,
    /// The site that leads at first.
    pub leader: SiteId,
    /// How long a site gathers payloads for a batch. Zero: each payload is a batch.
    pub batch_window: Ticks,
    /// The most payloads of a batch.
    pub batch_max: usize,
    /// After this time without an answer a message is sent again; also how often sites report what they have delivered.
    pub retry: Ticks,
    /// After this time without progress a site with something to order tries to lead: longer than a broadcast takes.
    pub patience: Ticks,
}

impl MultiPaxosOptions {
    /// A site of a group, led by site 0, without batches, and with times for a wide area network.
    pub fn new(site: SiteId, sites: u8) -> MultiPaxosOptions {
        MultiPaxosOptions {
            site,
            sites,
            leader: SiteId(0),
            batch_window: Ticks(0),
            batch_max: 256,
            retry: Ticks::from_millis(500),
            patience: Ticks::from_millis(2_000),
        }
    }

    fn batching(&self) -> Batching {
        Batching {
            window: self.batch_window,
            max: self.batch_max,
        }
    }
}

/// A slot at a site.
#[derive(Clone, Debug)]
struct Slot<P> {
    /// The value that was accepted last, and its ballot.
    accepted: Option<(Ballot, Value<P>)>,
    /// Whether that value is chosen.
    is_chosen: bool,
}

impl<P> Default for Slot<P> {
    fn default() -> Self {
        Slot {
            accepted: None,
            is_chosen: false,
        }
    }
}

/// A batch that this site has broadcast and not delivered.
#[derive(Clone, Debug)]
struct Own<P> {
    batch: Batch<P>,
    /// When it was last sent to the leader.
    sent: Ticks,
}

/// A site of a group that runs MultiPaxos.
#[derive(Clone)]
pub struct MultiPaxosSite<P> {
    options: MultiPaxosOptions,
    quorums: Quorums,
    site: SiteId,
    /// The highest ballot in which the site takes part. Durable.
    promised: Ballot,
    /// The highest ballot that the site has heard of. Not durable.
    seen: Ballot,
    role: Role<P>,
    /// The slots that are not pruned.
    log: BTreeMap<u64, Slot<P>>,
    /// The first slot that is not pruned.
    first: u64,
    /// The first slot that is not delivered.
    next: u64,
    delivered: Delivered,
    /// The delivered batches that are not pruned, with their slots.
    kept: BTreeMap<BatchId, u64>,
    index: ConflictIndex<P>,
    own: BTreeMap<BatchId, Own<P>>,
    /// The number of this site's last batch.
    sequence: u64,
    gathering: Gathering<P>,
    /// What each site has delivered.
    reports: Reports<Reported>,
    stable_frontier: Prefix,
    /// When a leader last showed that it leads, or something was delivered.
    progress: Ticks,
    /// How often this site has tried to lead in vain.
    attempts: u32,
    progress_due: Option<Ticks>,
    violation: Option<String>,
    counters: OrderCounters,
}

impl<P: fmt::Debug> fmt::Debug for MultiPaxosSite<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiPaxosSite")
            .field("site", &self.site)
            .field("ballots", &(self.promised, self.seen))
            .field("role", &self.role)
            .field("log", &self.log)
            .field("slots", &(self.first, self.next))
            .field("own", &self.own)
            .field("reports", &self.reports)
            .finish_non_exhaustive()
    }
}

impl<P: Payload> MultiPaxosSite<P> {
    /// A site that has delivered nothing. The initial leader leads at once, without a first phase: nothing can have been
    /// accepted before ballot 0.
    ///
    /// # Errors
    /// If the group's size is not supported.
    ///
    /// # Panics
    /// If the site or the leader is not one of the group, or a batch may have no payload.
    pub fn new(options: MultiPaxosOptions) -> Result<MultiPaxosSite<P>, GroupSizeError> {
        let quorums = Quorums::of(options.sites)?;
        let of_group = |site: SiteId| site.0 < options.sites;
        assert!(
            of_group(options.site) && of_group(options.leader),
            "sites of the group"
        );
        assert!(options.batch_max > 0, "a batch has a payload");
        let role = match options.site == options.leader {
            true => Role::Leader {
                ballot: Ballot::default(),
                next: 1,
                pending: BTreeMap::new(),
                proposed: BTreeSet::new(),
            },
            false => Role::Follower,
        };
        let reported = Reported {
            delivered: Prefix::empty(options.sites),
            next: 1,
        };
        Ok(MultiPaxosSite {
            options,
            quorums,
            site: options.site,
            promised: Ballot::default(),
            seen: Ballot::default(),
            role,
            log: BTreeMap::new(),
            first: 1,
            next: 1,
            delivered: Delivered::none(options.sites),
            kept: BTreeMap::new(),
            index: ConflictIndex::default(),
            own: BTreeMap::new(),
            sequence: 0,
            gathering: Gathering::default(),
            reports: Reports::new(options.site, options.sites, reported),
            stable_frontier: Prefix::empty(options.sites),
            progress: Ticks(0),
            attempts: 0,
            progress_due: None,
            violation: None,
            counters: OrderCounters::default(),
        })
    }

    /// The site that leads in the highest ballot known here.
    pub fn leader(&self) -> SiteId {
        match self.seen.max(self.promised) {
            Ballot(0) => self.options.leader,
            Ballot(ballot) => SiteId((ballot % u64::from(self.quorums.sites())) as u8),
        }
    }

    /// Whether this site leads.
    pub fn leads(&self) -> bool {
        matches!(self.role, Role::Leader { .. })
    }

    fn others(&self) -> impl Iterator<Item = SiteId> + use<P> {
        let own = self.site;
        self.quorums.all().filter(move |site| *site != own)
    }

    fn send(&mut self, to: SiteId, message: Message<P>, out: &mut OutboxOf<Self>) {
        self.counters.messages += 1;
        out.messages.push((to, message));
    }

    /// Sends a message to all sites; to the own one by a function call.
    fn send_all(&mut self, now: Ticks, message: &Message<P>, out: &mut OutboxOf<Self>) {
        for site in self.others() {
            self.send(site, message.clone(), out);
        }
        self.take(now, self.site, message.clone(), out);
    }

    fn answer(&mut self, now: Ticks, to: SiteId, message: Message<P>, out: &mut OutboxOf<Self>) {
        match to == self.site {
            true => self.take(now, to, message, out),
            false => self.send(to, message, out),
        }
    }

    /// Takes a message, from another site or the own one.
    fn take(&mut self, now: Ticks, from: SiteId, message: Message<P>, out: &mut OutboxOf<Self>) {
        match message {
            Message::Forward { id, batch } => self.handle_forward(now, from, id, batch, out),
            Message::Accept {
                ballot,
                slot,
                value,
            } => self.handle_accept(now, from, ballot, slot, value, out),
            Message::Accepted { ballot, slot } => {
                self.handle_accepted(now, from, ballot, slot, out);
            }
            Message::Chosen { ballot, slot } => self.handle_chosen(now, ballot, slot, out),
            Message::Prepare { ballot, from: slot } => {
                self.handle_prepare(now, from, ballot, slot, out);
            }
            Message::Promise { ballot, accepted } => {
                self.handle_promise(now, from, ballot, accepted, out);
            }
            Message::Refuse { promised } => self.hear_of(now, promised),
            Message::Report {
                delivered,
                next,
                received,
                needs_answer,
            } => {
                let reported = Reported { delivered, next };
                self.handle_report(from, &reported, received, needs_answer, out);
            }
            Message::Fetch { from: slot } => self.handle_fetch(from, slot, out),
            Message::Learn { values } => {
                for (slot, value) in values {
                    self.choose(now, slot, Some(value), out);
                }
            }
        }
    }

    /// Learns of a ballot. A site that leads or stands in an earlier one no longer does.
    fn hear_of(&mut self, now: Ticks, ballot: Ballot) {
        self.seen = self.seen.max(ballot);
        if self.role.ballot().is_some_and(|own| own < ballot) {
            self.role = Role::Follower;
            self.progress = now;
        }
    }

    /// Takes part in no earlier ballot. The record of it may be one of what the site accepts in the ballot.
    fn promise(&mut self, now: Ticks, ballot: Ballot) {
        self.promised = ballot;
        self.hear_of(now, ballot);
    }

    fn handle_forward(
        &mut self,
        now: Ticks,
        from: SiteId,
        id: BatchId,
        batch: Batch<P>,
        out: &mut OutboxOf<Self>,
    ) {
        match self.role {
            Role::Leader { .. } => self.lead_batch(now, id, batch, out),
            Role::Candidate { .. } => {}
            Role::Follower if self.leader() == self.site => self.stand(now, out),
            Role::Follower => {
                let promised = self.seen.max(self.promised);
                self.send(from, Message::Refuse { promised }, out);
            }
        }
    }

    fn handle_accept(
        &mut self,
        now: Ticks,
        from: SiteId,
        ballot: Ballot,
        slot: u64,
        value: Value<P>,
        out: &mut OutboxOf<Self>,
    ) {
        if ballot < self.promised {
            let promised = self.promised;
            return self.answer(now, from, Message::Refuse { promised }, out);
        }
        self.promise(now, ballot);
        self.progress = now;
        if slot < self.first {
            return; // All sites have delivered it.
        }
        let entry = self.log.entry(slot).or_default();
        if let Some((_, held)) = &entry.accepted
            && entry.is_chosen
            && !same(held, &value)
        {
            let broken = format!("MP-I1: slot {slot} is chosen, and {ballot:?} has another value");
            self.violation.get_or_insert(broken);
            return;
        }
        if entry.accepted.as_ref().is_none_or(|(of, _)| *of < ballot) {
            entry.accepted = Some((ballot, value.clone()));
            out.records.push(MultiPaxosRecord::Accepted {
                slot,
                ballot,
                value,
            });
        }
        self.answer(now, from, Message::Accepted { ballot, slot }, out);
    }

    fn handle_prepare(
        &mut self,
        now: Ticks,
        from: SiteId,
        ballot: Ballot,
        slot: u64,
        out: &mut OutboxOf<Self>,
    ) {
        if ballot < self.promised {
            let promised = self.promised;
            return self.answer(now, from, Message::Refuse { promised }, out);
        }
        if ballot > self.promised {
            out.records.push(MultiPaxosRecord::Promised(ballot));
        }
        self.promise(now, ballot);
        self.progress = now;
        let open = self.log.range(slot..).filter_map(|(slot, entry)| {
            let (ballot, value) = entry.accepted.clone()?;
            Some(AcceptedSlot {
                slot: *slot,
                ballot,
                value,
                is_chosen: entry.is_chosen,
            })
        });
        let accepted = open.collect();
        self.answer(now, from, Message::Promise { ballot, accepted }, out);
    }

    /// Adds a payload to the next batch, and sends that once it is full or its window is over.
    fn gather(&mut self, now: Ticks, payload: P, out: &mut OutboxOf<Self>) {
        self.counters.payloads += 1;
        match self.gathering.add(now, payload, self.options.batching()) {
            Gathered::Complete => self.send_gathered(now, out),
            Gathered::Begins(due) => out.timers.push((due, TIMER_BATCH)),
            Gathered::Waits => {}
        }
    }

    fn send_gathered(&mut self, now: Ticks, out: &mut OutboxOf<Self>) {
        let batch = self.gathering.take();
        self.sequence += 1;
        let id = BatchId {
            site: self.site,
            sequence: self.sequence,
        };
        out.records.push(MultiPaxosRecord::Own {
            id,
            batch: batch.clone(),
        });
        if self.own.is_empty() {
            // The leader is given its time from now on.
            self.progress = self.progress.max(now);
        }
        self.own.insert(id, Own { batch, sent: now });
        self.forward(now, id, out);
    }

    /// Gives an own batch to the leader.
    fn forward(&mut self, now: Ticks, id: BatchId, out: &mut OutboxOf<Self>) {
        let Some(own) = self.own.get_mut(&id) else {
            return;
        };
        own.sent = now;
        let batch = own.batch.clone();
        let leader = self.leader();
        match self.role {
            Role::Leader { .. } => self.lead_batch(now, id, batch, out),
            Role::Candidate { .. } => {}
            Role::Follower if leader == self.site => self.stand(now, out),
            Role::Follower => self.send(leader, Message::Forward { id, batch }, out),
        }
    }

    /// Keeps the progress timer set while there is something to do.
    fn set_progress_timer(&mut self, now: Ticks, out: &mut OutboxOf<Self>) {
        if self.progress_due.is_none() && self.has_work() {
            let due = Ticks(now.0 + self.options.retry.0);
            self.progress_due = Some(due);
            out.timers.push((due, TIMER_PROGRESS));
        }
    }
}

/// Whether two values of one slot are the same.
fn same<P>(one: &Value<P>, two: &Value<P>) -> bool {
    match (one, two) {
        (Value::Batch { id: one, .. }, Value::Batch { id: two, .. }) => one == two,
        (Value::NoOp, Value::NoOp) => true,
        _ => false,
    }
}

impl<P: Payload> Orderer for MultiPaxosSite<P> {
    type Payload = P;
    type Message = Message<P>;
    type Record = MultiPaxosRecord<P>;
    type Transfer = Transfer<P>;

    fn broadcast(&mut self, now: Ticks, payload: P, out: &mut OutboxOf<Self>) {
        self.gather(now, payload, out);
        self.set_progress_timer(now, out);
    }

    fn receive(&mut self, now: Ticks, from: SiteId, message: Message<P>, out: &mut OutboxOf<Self>) {
        self.take(now, from, message, out);
        self.set_progress_timer(now, out);
    }

    fn expire(&mut self, now: Ticks, timer: TimerId, out: &mut OutboxOf<Self>) {
        match timer {
            TIMER_BATCH => {
                if self.gathering.is_due(now) {
                    self.send_gathered(now, out);
                }
            }
            TIMER_PROGRESS => {
                if self.progress_due.is_some_and(|due| now >= due) {
                    self.progress_due = None;
                    self.make_progress(now, out);
                }
            }
            TimerId(other) => unreachable!("MultiPaxos sets no timer {other}"),
        }
        self.set_progress_timer(now, out);
    }

    fn suspect(&mut self, now: Ticks, site: SiteId, out: &mut OutboxOf<Self>) {
        if site == self.leader() && site != self.site && self.has_open() {
            self.stand(now, out);
        }
        self.set_progress_timer(now, out);
    }

    fn replay(
        &mut self,
        record: MultiPaxosRecord<P>,
        out: &mut OutboxOf<Self>,
    ) -> Result<(), ReplayError> {
        self.replay_record(record, &mut out.deliveries)
    }

    /// A site that led does not lead any more: it does not know what it had proposed in its ballot.
    fn recover(&mut self, now: Ticks, out: &mut OutboxOf<Self>) {
        self.role = Role::Follower;
        self.progress = now;
        self.set_progress_timer(now, out);
    }

    fn checkpoint(&self, sink: &mut dyn FnMut(MultiPaxosRecord<P>)) {
        self.write_checkpoint(sink);
    }

    fn stable_frontier(&self) -> &Prefix {
        &self.stable_frontier
    }

    fn delivered(&self) -> &Delivered {
        &self.delivered
    }

    fn delivered_at(&self, site: SiteId) -> &Prefix {
        &self.reports.of(site).delivered
    }

    fn undelivered(&self, visit: &mut dyn FnMut(&P)) {
        self.gathering.payloads().iter().for_each(&mut *visit);
        let own = self.own.values().map(|own| &own.batch);
        own.flat_map(Batch::payloads).for_each(visit);
    }

    fn retry(&self) -> Ticks {
        self.options.retry
    }

    fn last_own(&self) -> u64 {
        self.sequence
    }

    fn transfer(&self) -> Transfer<P> {
        let chosen = self
            .log
            .range(self.next..)
            .filter(|(_, entry)| entry.is_chosen);
        Transfer {
            delivered: self.delivered.clone(),
            next: self.next,
            chosen: chosen
                .filter_map(|(slot, entry)| Some((*slot, entry.accepted.as_ref()?.1.clone())))
                .collect(),
        }
    }

    fn install(&mut self, now: Ticks, transfer: Transfer<P>, out: &mut OutboxOf<Self>) -> bool {
        let is_used = transfer.next > self.next && transfer.delivered.covers(&self.delivered);
        if is_used {
            self.install_transfer(now, transfer, out);
        }
        self.set_progress_timer(now, out);
        is_used
    }

    fn is_at_rest(&self) -> bool {
        !self.has_work()
    }

    fn counters(&self) -> &OrderCounters {
        &self.counters
    }

    fn check_invariants(&self) -> Result<(), String> {
        if let Some(violation) = &self.violation {
            return Err(violation.clone());
        }
        for (slot, entry) in &self.log {
            if *slot < self.next && !entry.is_chosen {
                return Err(format!("MP-I3: slot {slot} is delivered and not chosen"));
            }
            if let Some((ballot, _)) = &entry.accepted
                && *ballot > self.promised
                && !entry.is_chosen
            {
                let promised = self.promised;
                return Err(format!(
                    "MP-I2: slot {slot} is accepted in {ballot:?} and {promised:?} is promised"
                ));
            }
        }
        match self.role.ballot() {
            Some(ballot) if self.leads() && ballot != self.promised => Err(format!(
                "MP-I2: the site leads in {ballot:?} and has promised {:?}",
                self.promised
            )),
            _ => Ok(()),
        }
    }
}
