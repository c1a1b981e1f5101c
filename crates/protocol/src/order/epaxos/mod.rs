//! EPaxos (Moraru, Andersen, Kaminsky: *There Is More Consensus in Egalitarian Parliaments*, SOSP 2013), with the recovery
//! of EPaxos\* (Ryabinin, Gotsman, Sutra: *Making Democracy Work: Fixing and Simplifying Egalitarian Paxos*, OPODIS 2025):
//! each site leads its own batches; sites agree on the dependencies of each batch, and deliver the strongly connected
//! components of the dependency graph one after the other. An orderer that partial order broadcast is compared with
//! (alvin.txt §5).
//!
//! `docs/protocols/epaxos.md` has the algorithm, its invariants (`EP-I1` …) and why they hold, and its departures from
//! the papers.
//!
//! * [`entry`]: what a site knows of one batch. [`message`], [`record`]: messages and log records.
//! * `graph`: conflicts, the dependency graph and delivery.
//! * `leader`: the phases of a batch at its leader. `acceptor`: its phases at every site. `recovery`: ballots after the
//!   first. `catch_up`: reports, pruning, missed decisions and state transfer. `durable`: replay and checkpoints.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};

use anabranch_types::Ticks;

use super::gathering::{Batching, Gathering};
use super::reports::Reports;
use super::{
    Batch, BatchId, Delivered, GroupSizeError, OrderCounters, Orderer, OutboxOf, Payload, Prefix,
    Quorums, SiteId,
};
use crate::contract::TimerId;
use crate::record::ReplayError;

mod acceptor;
mod catch_up;
mod durable;
pub mod entry;
mod graph;
mod leader;
pub mod message;
pub mod record;
mod recovery;

use catch_up::{Confirmed, Reported};
use graph::Graph;
use leader::{Led, Phase};
use message::Message;
use record::{EpaxosRecord, Transfer};

/// Looks for messages to repeat, batches to recover and reports to send.
const TIMER_PROGRESS: TimerId = TimerId(0);
/// Ends the window of a batch.
const TIMER_BATCH: TimerId = TimerId(1);
/// Ends the wait for a fast decision.
const TIMER_FAST: TimerId = TimerId(2);

/// A site's options, the same at all sites but for `site`.
#[derive(Clone, Copy, Debug)]
pub struct EpaxosOptions {
    /// This site.
    pub site: SiteId,
    /// The number of sites: 1 to 9.
    pub sites: u8,
    /// How long a leader with agreeing answers from a classic quorum waits for those of a fast one. The two differ
    /// with 7 and 9 sites.
    pub fast_wait: Ticks,
    /// How long a site gathers payloads for a batch. Zero: each payload is a batch.
    pub batch_window: Ticks,
    /// The most payloads of a batch.
    pub batch_max: usize,
    /// After this time without an answer a message is sent again; also how often sites report what they have delivered.
    pub retry: Ticks,
    /// After this time without news of an undecided batch a site recovers it: longer than a broadcast takes.
    pub patience: Ticks,
}

impl EpaxosOptions {
    /// A site of a group, without batches, and with times for a wide area network.
    pub fn new(site: SiteId, sites: u8) -> EpaxosOptions {
        EpaxosOptions {
            site,
            sites,
            fast_wait: Ticks::from_millis(300),
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

/// A site of a group that runs EPaxos.
#[derive(Clone)]
pub struct EpaxosSite<P> {
    options: EpaxosOptions,
    quorums: Quorums,
    site: SiteId,
    graph: Graph<P>,
    /// The batches that this site leads.
    led: BTreeMap<BatchId, Led<P>>,
    /// The number of this site's last batch.
    sequence: u64,
    /// The own batches that were proposed since the last restart and are not decided.
    own: BTreeSet<BatchId>,
    gathering: Gathering<P>,
    /// Batches that wait to be proposed, since too many of this site are not delivered.
    held_up: VecDeque<Batch<P>>,
    reports: Reports<Reported>,
    /// What may be pruned, as far as each site is concerned.
    confirmed: Vec<Confirmed>,
    /// What all sites have delivered, and no batch that is not delivered here may miss.
    stable_frontier: Prefix,
    /// When the progress timer runs out, if it is set.
    progress_due: Option<Ticks>,
    /// The first violation of an invariant that a message has shown.
    violation: Option<String>,
    counters: OrderCounters,
}

/// Everything on which the next step depends, but for times and counters.
impl<P: fmt::Debug> fmt::Debug for EpaxosSite<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpaxosSite")
            .field("site", &self.site)
            .field("graph", &self.graph)
            .field("led", &self.led)
            .field("sequence", &self.sequence)
            .field("own", &self.own)
            .field("gathering", &(&self.gathering, &self.held_up))
            .field("reports", &(&self.reports, &self.confirmed))
            .finish_non_exhaustive()
    }
}

/// The same: models recognise states by it.
impl<P: Hash> Hash for EpaxosSite<P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.graph.hash(state);
        self.led.hash(state);
        self.sequence.hash(state);
        self.own.hash(state);
        (&self.gathering, &self.held_up).hash(state);
        (&self.reports, &self.confirmed).hash(state);
    }
}

impl<P: Payload> EpaxosSite<P> {
    /// A site that has delivered nothing.
    ///
    /// # Errors
    /// If the group's size is not supported.
    ///
    /// # Panics
    /// If the site is not one of the group, or a batch may have no payload.
    pub fn new(options: EpaxosOptions) -> Result<EpaxosSite<P>, GroupSizeError> {
        let quorums = Quorums::of(options.sites)?;
        assert!(options.site.0 < options.sites, "a site of the group");
        assert!(options.batch_max > 0, "a batch has a payload");
        let nothing = Prefix::empty(options.sites);
        let reported = Reported {
            delivered: nothing.clone(),
            sequence: 0,
        };
        let confirmed = Confirmed {
            delivered: nothing.clone(),
            waiting: None,
        };
        Ok(EpaxosSite {
            options,
            quorums,
            site: options.site,
            graph: Graph::new(options.sites),
            led: BTreeMap::new(),
            sequence: 0,
            own: BTreeSet::new(),
            gathering: Gathering::default(),
            held_up: VecDeque::new(),
            reports: Reports::new(options.site, options.sites, reported),
            confirmed: vec![confirmed; usize::from(options.sites)],
            stable_frontier: nothing,
            progress_due: None,
            violation: None,
            counters: OrderCounters::default(),
        })
    }

    /// What the site knows of a batch that is not pruned.
    pub fn entry(&self, id: BatchId) -> Option<&entry::Entry<P>> {
        self.graph.get(id)
    }

    /// The batches that the site knows and that are not pruned.
    pub fn known(&self) -> impl Iterator<Item = BatchId> {
        self.graph.entries.keys().copied()
    }

    /// The batches that the site knows and that are neither committed nor pruned.
    pub fn undecided(&self) -> impl Iterator<Item = BatchId> {
        self.graph.undecided.iter().copied()
    }

    /// Whether the site still counts answers of this kind for a batch that it leads: models drop messages that have no
    /// effect any more.
    pub fn awaits(&self, message: &Message<P>) -> bool {
        let Some(led) = message.id().and_then(|id| self.led.get(&id)) else {
            return false;
        };
        match (&led.phase, message) {
            (Phase::PreAccepting { .. }, Message::PreAccepted { .. }) => true,
            (Phase::Accepting { ballot: own, .. }, Message::Accepted { ballot, .. })
            | (Phase::Preparing { ballot: own, .. }, Message::Promise { ballot, .. })
            | (Phase::Validating { ballot: own, .. }, Message::Validated { ballot, .. }) => {
                own == ballot
            }
            (phase, Message::Refuse { promised, .. }) => phase.ballot() < *promised,
            _ => false,
        }
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
        if message
            .id()
            .is_some_and(|id| self.graph.pruned.contains(id))
        {
            // All sites have delivered the batch.
            return;
        }
        match message {
            Message::PreAccept { id, proposal } => {
                self.handle_pre_accept(now, from, id, &proposal, out);
            }
            Message::PreAccepted { id, dependencies } => {
                self.handle_pre_accepted(now, from, id, dependencies, out);
            }
            Message::Accept {
                id,
                ballot,
                decision,
                proposal,
            } => self.handle_accept(now, from, id, ballot, decision, proposal, out),
            Message::Accepted { id, ballot } => self.handle_accepted(now, from, id, ballot, out),
            Message::Commit {
                id,
                decision,
                proposal,
            } => self.handle_commit(now, id, decision, proposal, out),
            Message::Prepare { id, ballot } => self.handle_prepare(now, from, id, ballot, out),
            Message::Promise { id, ballot, known } => {
                self.handle_promise(now, from, id, ballot, known, out);
            }
            Message::Validate {
                id,
                ballot,
                proposal,
            } => self.handle_validate(now, from, id, ballot, &proposal, out),
            Message::Validated {
                id,
                ballot,
                conflicts,
            } => self.handle_validated(now, from, id, ballot, &conflicts, out),
            Message::Waiting { id, agreeing } => self.handle_waiting(now, id, agreeing, out),
            Message::Refuse { id, promised } => self.handle_refuse(now, id, promised),
            Message::Report {
                delivered,
                sequence,
                received: (prefix, last),
                needs_answer,
            } => {
                let reported = Reported {
                    delivered,
                    sequence,
                };
                let received = Reported {
                    delivered: prefix,
                    sequence: last,
                };
                self.handle_report(from, &reported, &received, needs_answer, out);
            }
            Message::Fetch { ids } => self.handle_fetch(from, &ids, out),
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

impl<P: Payload> Orderer for EpaxosSite<P> {
    type Payload = P;
    type Message = Message<P>;
    type Record = EpaxosRecord<P>;
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
            TimerId(other) => unreachable!("EPaxos sets no timer {other}"),
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
        record: EpaxosRecord<P>,
        out: &mut OutboxOf<Self>,
    ) -> Result<(), ReplayError> {
        self.replay_record(record, &mut out.deliveries)
    }

    fn recover(&mut self, now: Ticks, out: &mut OutboxOf<Self>) {
        for id in &self.graph.undecided {
            let entry = self.graph.entries.get_mut(id);
            entry.expect("an undecided batch has an entry").touched = now;
        }
        self.report_own();
        self.set_progress_timer(now, out);
    }

    fn checkpoint(&self, sink: &mut dyn FnMut(EpaxosRecord<P>)) {
        self.write_checkpoint(sink);
    }

    fn stable_frontier(&self) -> &Prefix {
        &self.stable_frontier
    }

    fn delivered(&self) -> &Delivered {
        &self.graph.delivered
    }

    fn delivered_at(&self, site: SiteId) -> &Prefix {
        &self.reports.of(site).delivered
    }

    fn undelivered(&self, visit: &mut dyn FnMut(&P)) {
        self.gathering.payloads().iter().for_each(&mut *visit);
        let held_up = self.held_up.iter().flat_map(Batch::payloads);
        held_up.for_each(&mut *visit);
        let own = self.graph.entries.iter();
        let own =
            own.filter(|(id, _)| id.site == self.site && !self.graph.delivered.contains(**id));
        let proposals = own.filter_map(|(_, entry)| entry.proposal.as_ref());
        let batches = proposals.map(|proposal| &proposal.batch);
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
        match &self.violation {
            Some(violation) => Err(violation.clone()),
            None => self.graph.check_invariants(),
        }
    }
}
