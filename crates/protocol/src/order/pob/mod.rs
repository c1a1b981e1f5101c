//! Partial order broadcast (POB), the ordering half of ALVIN (`alvin.txt` §4.1): each site leads its own batches, and
//! only conflicting batches are ordered.
//!
//! `docs/protocols/alvin.md` has the algorithm, its invariants (`POB-I1` …) and why they hold, and its departures from
//! the paper.
//!
//! * [`entry`]: what a site knows of one batch. [`message`], [`record`]: messages and log records.
//! * `queue`: the delivery queue, conflicts and the removal rule.
//! * `leader`: the phases of a batch at its leader. `acceptor`: its phases at every site. `recovery`: epochs after the
//!   first. `catch_up`: reports, pruning, missed decisions and state transfer. `cut`: what is discarded although a site has
//!   not delivered it. `durable`: replay and checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};

use anabranch_types::Ticks;

use super::gathering::{Batching, Gathering};
use super::reports::Reports;
use super::{
    Batch, Delivered, GroupSizeError, OrderCounters, Orderer, OutboxOf, Payload, Prefix, Quorums,
    SiteId,
};
use crate::contract::TimerId;
use crate::record::ReplayError;

mod acceptor;
mod catch_up;
mod cut;
mod durable;
pub mod entry;
mod leader;
pub mod message;
mod queue;
pub mod record;
mod recovery;

use cut::Cuts;
use entry::Position;
use leader::Led;
use message::Message;
use queue::DeliveryQueue;
use record::{PobRecord, Transfer};

pub use super::BatchId;

/// Looks for messages to repeat, batches to recover and reports to send.
const TIMER_PROGRESS: TimerId = TimerId(0);
/// Ends the window of a batch.
const TIMER_BATCH: TimerId = TimerId(1);
/// Ends the wait for a fast decision.
const TIMER_FAST: TimerId = TimerId(2);

/// Whether a leader decides after one round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FastDecisions {
    /// Never: each decision takes two round trips to a classic quorum.
    #[default]
    Off,
    /// If all sites answer with the proposed position and dependencies. A recovery finds such a decision by counting.
    AllSites,
}

/// A site's options, the same at all sites but for `site`.
#[derive(Clone, Copy, Debug)]
pub struct PobOptions {
    /// This site.
    pub site: SiteId,
    /// The number of sites: 1 to 9.
    pub sites: u8,
    /// Whether a leader decides after one round trip.
    pub fast: FastDecisions,
    /// How long a leader with agreeing answers from a classic quorum waits for the other sites.
    pub fast_wait: Ticks,
    /// How long a site gathers payloads for a batch. Zero: each payload is a batch.
    pub batch_window: Ticks,
    /// The most payloads of a batch.
    pub batch_max: usize,
    /// After this time without an answer a message is sent again; also how often sites report what they have delivered.
    pub retry: Ticks,
    /// After this time without news of an undecided batch a site recovers it: longer than a broadcast takes.
    pub patience: Ticks,
    /// The most delivered batches that a site keeps for sites that have not delivered them. Above it, the sites choose a
    /// cut: they discard what a majority has delivered, and the others need a state transfer.
    pub retained_max: usize,
}

impl PobOptions {
    /// A site of a group, with classic decisions, without batches, and with times for a wide area network.
    pub fn new(site: SiteId, sites: u8) -> PobOptions {
        PobOptions {
            site,
            sites,
            fast: FastDecisions::Off,
            fast_wait: Ticks::from_millis(300),
            batch_window: Ticks(0),
            batch_max: 256,
            retry: Ticks::from_millis(500),
            patience: Ticks::from_millis(2_000),
            retained_max: 100_000,
        }
    }

    fn batching(&self) -> Batching {
        Batching {
            window: self.batch_window,
            max: self.batch_max,
        }
    }
}

/// A site of a group that runs partial order broadcast.
#[derive(Clone)]
pub struct PobSite<P> {
    options: PobOptions,
    quorums: Quorums,
    site: SiteId,
    queue: DeliveryQueue<P>,
    /// The batches that this site leads.
    led: BTreeMap<BatchId, Led<P>>,
    /// The highest position that this site has seen.
    highest: Position,
    /// The highest position that this site has given to a batch of its own.
    used: Position,
    /// The number of this site's last batch.
    sequence: u64,
    /// The own batches that were proposed since the last restart and are not decided.
    own: BTreeSet<BatchId>,
    gathering: Gathering<P>,
    /// What each site has delivered.
    reports: Reports<Prefix>,
    /// What all sites have delivered.
    stable_frontier: Prefix,
    /// What is discarded although not all have delivered it.
    cuts: Cuts,
    /// When the progress timer runs out, if it is set.
    progress_due: Option<Ticks>,
    /// The first violation of an invariant that a message has shown.
    violation: Option<String>,
    counters: OrderCounters,
}

/// Everything on which the next step depends, but for times and counters.
impl<P: fmt::Debug> fmt::Debug for PobSite<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PobSite")
            .field("site", &self.site)
            .field("queue", &self.queue)
            .field("led", &self.led)
            .field("positions", &(self.highest, self.used, self.sequence))
            .field("own", &self.own)
            .field("gathering", &self.gathering)
            .field("reports", &self.reports)
            .field("cuts", &self.cuts)
            .finish_non_exhaustive()
    }
}

/// The same: models recognise states by it.
impl<P: Hash> Hash for PobSite<P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.queue.hash(state);
        self.led.hash(state);
        (self.highest, self.used, self.sequence).hash(state);
        self.own.hash(state);
        self.gathering.hash(state);
        self.reports.hash(state);
        self.cuts.hash(state);
    }
}

impl<P: Payload> PobSite<P> {
    /// A site that has delivered nothing.
    ///
    /// # Errors
    /// If the group's size is not supported.
    ///
    /// # Panics
    /// If the site is not one of the group, or a batch may have no payload.
    pub fn new(options: PobOptions) -> Result<PobSite<P>, GroupSizeError> {
        let quorums = Quorums::of(options.sites)?;
        assert!(options.site.0 < options.sites, "a site of the group");
        assert!(options.batch_max > 0, "a batch has a payload");
        let nothing = Prefix::empty(options.sites);
        Ok(PobSite {
            options,
            quorums,
            site: options.site,
            queue: DeliveryQueue::new(options.sites),
            led: BTreeMap::new(),
            highest: Position::default(),
            used: Position::default(),
            sequence: 0,
            own: BTreeSet::new(),
            gathering: Gathering::default(),
            reports: Reports::new(options.site, options.sites, nothing.clone()),
            stable_frontier: nothing,
            cuts: Cuts::new(options.sites),
            progress_due: None,
            violation: None,
            counters: OrderCounters::default(),
        })
    }

    /// What the site knows of a batch that is not pruned.
    pub fn entry(&self, id: BatchId) -> Option<&entry::Entry<P>> {
        self.queue.get(id)
    }

    /// The batches that the site knows and that are not pruned.
    pub fn known(&self) -> impl Iterator<Item = BatchId> {
        self.queue.entries.keys().copied()
    }

    /// The batches that the site knows and that are neither STABLE nor pruned.
    pub fn undecided(&self) -> impl Iterator<Item = BatchId> {
        self.queue.undecided.iter().copied()
    }

    /// Whether the site still counts answers of this kind for a batch that it leads: models drop messages that have no
    /// effect any more.
    pub fn awaits(&self, message: &Message<P>) -> bool {
        let Some(led) = message.id().and_then(|id| self.led.get(&id)) else {
            return false;
        };
        match (&led.phase, message) {
            (leader::Phase::Proposing { .. }, Message::AckPropose { .. }) => true,
            (leader::Phase::Accepting { epoch: own, .. }, Message::AckAccept { epoch, .. })
            | (leader::Phase::Recovering { epoch: own, .. }, Message::Promise { epoch, .. }) => {
                own == epoch
            }
            (phase, Message::Refuse { promised, .. }) => phase.epoch() < *promised,
            _ => false,
        }
    }

    /// Raises the highest position that this site has seen.
    fn note(&mut self, position: Position) {
        self.highest = self.highest.max(position);
    }

    /// All sites but this one.
    fn others(&self) -> impl Iterator<Item = SiteId> + use<P> {
        let own = self.site;
        self.quorums.all().filter(move |site| *site != own)
    }

    /// Sends a message to another site.
    fn send(&mut self, to: SiteId, message: Message<P>, out: &mut OutboxOf<Self>) {
        debug_assert_ne!(
            to, self.site,
            "a message to the own site is a function call"
        );
        self.counters.messages += 1;
        out.messages.push((to, message));
    }

    /// Answers a message: to the own site by a function call.
    fn answer(&mut self, now: Ticks, to: SiteId, message: Message<P>, out: &mut OutboxOf<Self>) {
        if to == self.site {
            self.take(now, to, message, out);
        } else {
            self.send(to, message, out);
        }
    }

    /// Takes a message, from another site or the own one.
    fn take(&mut self, now: Ticks, from: SiteId, message: Message<P>, out: &mut OutboxOf<Self>) {
        if message.id().is_some_and(|id| self.queue.is_pruned(id)) {
            // The batch is delivered here. A sender that has missed it learns so from reports.
            return;
        }
        match message {
            Message::Propose { id, slot, batch } => {
                self.handle_propose(now, from, id, slot, &batch, out);
            }
            Message::AckPropose { id, slot } => self.handle_ack_propose(now, from, id, slot, out),
            Message::Accept {
                id,
                epoch,
                decision,
                batch,
            } => self.handle_accept(now, from, id, epoch, decision, batch, out),
            Message::AckAccept { id, epoch, delta } => {
                self.handle_ack_accept(now, from, id, epoch, &delta, out);
            }
            Message::Stable {
                id,
                decision,
                batch,
            } => self.handle_stable(now, id, decision, batch, out),
            Message::Prepare { id, epoch } => self.handle_prepare(now, from, id, epoch, out),
            Message::Promise { id, epoch, known } => {
                self.handle_promise(now, from, id, epoch, known, out);
            }
            Message::Refuse { id, promised } => self.handle_refuse(now, id, promised),
            Message::Report {
                delivered,
                received,
                needs_answer,
            } => self.handle_report(from, &delivered, &received, needs_answer, out),
            Message::Fetch { ids } => self.handle_fetch(from, &ids, out),
            Message::Cut {
                number,
                chosen,
                part,
            } => self.handle_cut(now, from, (number, chosen), part, out),
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

impl<P: Payload> Orderer for PobSite<P> {
    type Payload = P;
    type Message = Message<P>;
    type Record = PobRecord<P>;
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
                    self.propose_gathered(now, out);
                }
            }
            TIMER_FAST => self.end_fast_waits(now, out),
            TIMER_PROGRESS => {
                if self.progress_due.is_some_and(|due| now >= due) {
                    self.progress_due = None;
                    self.make_progress(now, out);
                }
            }
            TimerId(other) => unreachable!("partial order broadcast sets no timer {other}"),
        }
        self.set_progress_timer(now, out);
    }

    fn suspect(&mut self, now: Ticks, site: SiteId, out: &mut OutboxOf<Self>) {
        let of_site = |id: &BatchId| id.site == site && !self.led.contains_key(id);
        let ids: Vec<BatchId> = self.undecided().filter(of_site).collect();
        for id in ids {
            self.recover_batch(now, id, out);
        }
        self.set_progress_timer(now, out);
    }

    fn replay(
        &mut self,
        record: PobRecord<P>,
        out: &mut OutboxOf<Self>,
    ) -> Result<(), ReplayError> {
        self.replay_record(record, &mut out.deliveries)
    }

    fn recover(&mut self, now: Ticks, out: &mut OutboxOf<Self>) {
        for id in &self.queue.undecided {
            let entry = self.queue.entries.get_mut(id);
            entry.expect("an undecided batch has an entry").touched = now;
        }
        self.set_progress_timer(now, out);
    }

    fn checkpoint(&self, sink: &mut dyn FnMut(PobRecord<P>)) {
        self.write_checkpoint(sink);
    }

    fn stable_frontier(&self) -> &Prefix {
        &self.stable_frontier
    }

    fn delivered(&self) -> &Delivered {
        &self.queue.delivered
    }

    fn delivered_at(&self, site: SiteId) -> &Prefix {
        self.reports.of(site)
    }

    fn undelivered(&self, visit: &mut dyn FnMut(&P)) {
        self.gathering.payloads().iter().for_each(&mut *visit);
        let own = self.queue.entries.iter();
        let own =
            own.filter(|(id, _)| id.site == self.site && !self.queue.delivered.contains(**id));
        let batches = own.filter_map(|(_, entry)| entry.batch.as_ref());
        batches.flat_map(Batch::payloads).for_each(visit);
    }

    fn retry(&self) -> Ticks {
        self.options.retry
    }

    fn last_own(&self) -> u64 {
        self.sequence
    }

    fn transfer(&self) -> Transfer<P> {
        self.make_transfer()
    }

    fn install(&mut self, now: Ticks, transfer: Transfer<P>, out: &mut OutboxOf<Self>) -> bool {
        let is_used = self.install_transfer(now, transfer, out);
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
        self.queue.check_invariants()?;
        let cut = &self.cuts.state;
        if !cut.chosen.covers(&self.queue.discarded) {
            let discarded = &self.queue.discarded;
            let found = format!(
                "POB-I7: {discarded:?} is discarded, and the cut is {:?}",
                cut.chosen
            );
            return Err(found);
        }
        if let Some((epoch, _)) = &cut.accepted
            && *epoch > cut.promised
        {
            return Err(format!(
                "POB-I7: accepted in {epoch} and promised {}",
                cut.promised
            ));
        }
        let mut used = BTreeSet::new();
        let own = self.queue.entries.iter();
        for (id, entry) in own.filter(|(id, _)| id.site == self.site) {
            if let Some(slot) = entry.stable().and_then(entry::Decision::slot)
                && !used.insert(slot.position)
            {
                return Err(format!(
                    "POB-I3: {id} has position {}, which another batch has",
                    slot.position
                ));
            }
            if let Some((_, position)) = entry.positions()
                && position > self.used
            {
                return Err(format!(
                    "POB-I3: {id} has position {position} and {} is the highest used",
                    self.used
                ));
            }
        }
        Ok(())
    }
}
