//! A site that orders transactions over guards.

use std::fmt;
use std::sync::Arc;

use anabranch_storage::{CommitSequence, SlotValues, Store};
use anabranch_types::{
    Activity, ActivityProbe, Effect, EffectError, Fetched, HybridClock, Key, NodeId, Patch, Read,
    RowPrograms, Ticks, Timestamp, random::mix, time,
};
use rustc_hash::FxHashMap;

use crate::certification::access_set::AccessSetBuilder;
use crate::certification::read_set::PointRead;
use crate::certification::{AccessSet, Certificate, GuardedCommit, LoggedOrderer, ReadSet, Seen};
use crate::contract::{
    AbortReason, Counters, Input, Outbox, PartitionEffects, PartitionRead, Protocol, Reply,
    Request, Session, Slots, TimerId, Topology, TransactionId,
};
use crate::order::{Delivery, OutboxOf, Payload, SiteId};
use crate::record::Record;

use super::commit::StreamCommit;
use super::effects::EffectLogs;
use super::home::{GuardHome, GuardHomes};
use super::message::GuardMessage;
use super::record::{GuardRecord, Pending};
use super::stream::{Sent, Streams};
use super::versions::GuardVersions;

/// The options of a site.
#[derive(Clone)]
pub struct GuardOptions {
    /// The homes of guards.
    pub homes: Arc<dyn GuardHomes>,
    /// After this time, commits that were not acknowledged are sent again, and what is missing is requested.
    pub retry: Ticks,
    /// Commits that arrive within this time are acknowledged together.
    pub acknowledge_after: Ticks,
}

/// A transaction that has not asked to commit.
#[derive(Clone, Debug)]
struct Execution {
    snapshot: CommitSequence,
    /// The rows that were read for guards.
    reads: ReadSet,
    /// Guards that are read.
    accesses: AccessSetBuilder,
    homes: Vec<GuardHome>,
}

impl Execution {
    fn begin(store: &Store) -> Execution {
        Execution {
            snapshot: store.last(),
            reads: ReadSet::default(),
            accesses: AccessSetBuilder::default(),
            homes: Vec::new(),
        }
    }
}

/// The end of a transaction: its timestamp and the values of its deferred effects, or why it has aborted.
type Outcome = Result<(Timestamp, Slots), AbortReason>;

/// A site with all the data, over an orderer.
#[derive(Clone)]
pub struct GuardSite<O: LoggedOrderer> {
    site: SiteId,
    /// The node of each site.
    nodes: Vec<NodeId>,
    options: GuardOptions,
    pub(super) orderer: O,
    pub(super) store: Store,
    programs: Arc<dyn RowPrograms>,
    pub(super) clock: HybridClock,
    /// The bound of the last record of the clock.
    pub(super) clock_bound: u64,
    /// The transactions that run here.
    executing: FxHashMap<TransactionId, Execution>,
    /// The transactions that were broadcast here, in this incarnation, and have not ended: their timestamps, and the values
    /// of their deferred effects but those that are drawn.
    committing: FxHashMap<TransactionId, (Timestamp, SlotValues)>,
    pub(super) streams: Streams,
    pub(super) logs: EffectLogs,
    pub(super) versions: GuardVersions,
    /// What waits to be applied, in order of arrival.
    pub(super) pending: Vec<Pending>,
    /// By site: no transaction of it at or below this is still to come.
    pub(super) floors: Vec<Timestamp>,
    /// Transactions of others that were applied since the last own commit.
    applied_since_own: u32,
    /// Transactions that have ended in this step.
    pub(super) ended: Vec<(TransactionId, Outcome)>,
    /// Messages of this step.
    sent: Sent<O::Message>,
    /// After a restart, while an earlier incarnation's transactions may still be delivered: the number of its last batch.
    pub(super) earlier_batches: Option<u64>,
    pub(super) keeps_records: bool,
    repeats: bool,
    acknowledges: bool,
    /// What had been applied when the repetition last looked.
    applied_then: Vec<u64>,
    /// All decisions so far, whatever their order: the same at sites that have delivered the same (GRD-I4).
    pub(super) decisions: u64,
    /// The number of transactions, of all sites, that it has certified in this incarnation.
    pub(super) certified: u64,
    violation: Option<String>,
    counters: Counters,
    probe: ActivityProbe,
}

/// What the next step depends on, without constants and counters.
impl<O: LoggedOrderer + fmt::Debug> fmt::Debug for GuardSite<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardSite")
            .field("orderer", &self.orderer)
            .field("store", &self.store)
            .field("executing", &self.executing)
            .field("streams", &self.streams)
            .field("versions", &self.versions)
            .field("pending", &self.pending)
            .finish_non_exhaustive()
    }
}

/// How far ahead of its clock a site reserves timestamps, in microseconds.
const CLOCK_AHEAD: u64 = 1_000_000;

/// A site that has applied so many transactions of others without a commit of its own says how far its clock is.
const APPLIED_MAX: u32 = 128;

/// The timer of repetitions. The orderers' timers have lower numbers.
const TIMER_REPEAT: TimerId = TimerId(1 << 32);

/// The timer of acknowledgements.
const TIMER_ACKNOWLEDGE: TimerId = TimerId((1 << 32) + 1);

/// The timestamp of a reader has this node, which no site has.
const READER: NodeId = NodeId(time::NODES_MAX - 1);

impl<O: LoggedOrderer> GuardSite<O> {
    /// A site that has applied nothing, with the initial rows in `store`.
    ///
    /// # Panics
    /// If a cluster of the topology has several partitions, or `node` is no site.
    pub fn new(
        node: NodeId,
        topology: &Topology,
        orderer: O,
        store: Store,
        programs: Arc<dyn RowPrograms>,
        options: GuardOptions,
    ) -> GuardSite<O> {
        let nodes = topology.sites();
        let site = nodes.iter().position(|one| *one == node);
        let site = SiteId(site.expect("the node is a site") as u8);
        let sites = nodes.len();
        GuardSite {
            site,
            nodes,
            options,
            orderer,
            store,
            programs,
            clock: HybridClock::new(NodeId(site.0.into())),
            clock_bound: 0,
            executing: FxHashMap::default(),
            committing: FxHashMap::default(),
            streams: Streams::new(site, sites),
            logs: EffectLogs::default(),
            versions: GuardVersions::default(),
            pending: Vec::new(),
            floors: vec![Timestamp::ZERO; sites],
            applied_since_own: 0,
            ended: Vec::new(),
            sent: Vec::new(),
            earlier_batches: None,
            keeps_records: false,
            repeats: false,
            acknowledges: false,
            applied_then: Vec::new(),
            decisions: 0,
            certified: 0,
            violation: None,
            counters: Counters::default(),
            probe: ActivityProbe::default(),
        }
    }

    /// The rows.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The rows, for loading. They must not be changed while transactions run.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    /// The orderer.
    pub fn orderer(&self) -> &O {
        &self.orderer
    }

    /// Whether no transaction runs here, none is awaited, and every site is known to have everything.
    pub fn is_idle(&self) -> bool {
        self.executing.is_empty()
            && self.committing.is_empty()
            && self.is_at_rest()
            && self.orderer.is_at_rest()
    }

    /// The number of transactions, of all sites, that this site has certified in this incarnation.
    pub fn certified(&self) -> u64 {
        self.certified
    }

    /// A digest of all decisions so far, whatever their order: equal at all sites at rest (GRD-I4).
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    fn is_at_rest(&self) -> bool {
        self.pending.is_empty() && self.streams.is_at_rest()
    }

    /// Answers reads from the transaction's snapshot.
    fn read(&mut self, id: TransactionId, reads: &[PartitionRead]) -> Option<Vec<Fetched>> {
        let execution = self
            .executing
            .entry(id)
            .or_insert_with(|| Execution::begin(&self.store));
        let before = self.probe.enter(Activity::Storage);
        let mut fetched = Vec::with_capacity(reads.len());
        for PartitionRead { read, access, .. } in reads {
            let Ok(found) = self.store.fetch(read, Some(execution.snapshot)) else {
                break;
            };
            if access.guard {
                let schema = self.store.schema(read.table());
                execution.accesses.add_read(schema, read, &found);
                execution.homes.push(self.options.homes.of_read(read));
                let point = |key: &Key| PointRead {
                    table: read.table(),
                    key: key.clone(),
                    writer: None,
                };
                match (read, found.answer()) {
                    (Read::Point { key, .. }, _) => execution.reads.points.push(point(key)),
                    (_, Fetched::Range(rows)) => {
                        let rows = rows.iter().map(|(key, _)| point(key));
                        execution.reads.points.extend(rows);
                    }
                    _ => {}
                }
            }
            fetched.push(found);
        }
        self.probe.enter(before);
        (fetched.len() == reads.len()).then_some(fetched)
    }

    /// Commits a transaction here, or broadcasts it.
    fn commit(
        &mut self,
        now: Ticks,
        id: TransactionId,
        partitions: Vec<PartitionEffects>,
        out: &mut Outbox<GuardMessage<O::Message>>,
    ) {
        let execution = self.executing.remove(&id);
        let execution = execution.unwrap_or_else(|| Execution::begin(&self.store));
        let Execution {
            snapshot,
            reads,
            accesses: mut compared,
            mut homes,
        } = execution;
        let (mut effects, mut guarded) = (Vec::new(), Vec::new());
        for on in partitions {
            let first = effects.len() as u32;
            guarded.extend(on.guards.iter().map(|at| at + first));
            effects.extend(on.effects);
        }
        if effects.is_empty() {
            return self.commit_reader(id);
        }
        let timestamp = self.clock.next(now);
        let before = self.probe.enter(Activity::Storage);
        let staged = self.store.prestage(timestamp, &effects, &*self.programs);
        self.probe.enter(before);
        let slots = match staged {
            Ok((_, slots)) => slots,
            Err(error) => return self.end(id, Err(error.into())),
        };
        // Under a plan for guards, a guard's effect with a result draws a number.
        let draws = |effect: &Effect| {
            matches!(
                effect,
                Effect::Update {
                    outputs: Some(_),
                    ..
                }
            )
        };
        let of_guards = guarded.iter().map(|at| &effects[*at as usize]);
        homes.extend(of_guards.clone().map(|effect| {
            let (table, key) = (effect.table(), effect.key());
            self.options.homes.of_row(table, key)
        }));
        let mut all = compared.clone();
        let (drawing, others): (Vec<Effect>, Vec<Effect>) = of_guards.cloned().partition(draws);
        for effects in [&drawing, &others] {
            all.add_effects(&self.store, &*self.programs, &reads, effects);
        }
        let read = compared.clone().finish();
        compared.add_effects(&self.store, &*self.programs, &reads, &others);
        let (all, compared) = (all.finish(), compared.finish());
        // What is read is as in the snapshot; what is written was evaluated just now.
        let newest = self.store.last();
        let seen =
            || self.versions.are_seen(&read, snapshot) && self.versions.are_seen(&compared, newest);
        if !self.probe.within(Activity::Guard, seen) {
            return self.end(id, Err(AbortReason::Conflict));
        }
        let is_free = all == AccessSet::default();
        match self.place(&homes, is_free) {
            Ok(Place::Here) => {
                self.commit_alone(now, id, timestamp, effects, slots, all, out);
            }
            Ok(Place::Ordered) => {
                let draws = guarded
                    .into_iter()
                    .filter(|at| draws(&effects[*at as usize]))
                    .collect();
                let guarded = Box::new(GuardedCommit {
                    timestamp,
                    seen: self.seen(),
                    versions: self.versions.of(&compared),
                    compared,
                    draws,
                    carried: self.streams.at_few(),
                });
                self.broadcast(now, id, effects, slots, all, guarded, out);
            }
            Err(error) => self.end(id, Err(AbortReason::Failed(error))),
        }
    }

    /// Where a transaction with guards of these homes commits.
    fn place(&self, homes: &[GuardHome], is_free: bool) -> Result<Place, EffectError> {
        if is_free {
            return Ok(Place::Here);
        }
        let homed: Vec<&GuardHome> = homes
            .iter()
            .filter(|home| matches!(home, GuardHome::At(_) | GuardHome::Several))
            .collect();
        let is_ordered = homes.contains(&GuardHome::Ordered);
        if homed.is_empty() {
            return Ok(Place::Ordered);
        }
        let own = GuardHome::At(self.site);
        // A range may be open where its rows are, and then the other guards say so.
        let elsewhere = |home: &&&GuardHome| ***home != own && ***home != GuardHome::Several;
        let refused = match homed.iter().find(elsewhere) {
            None if is_ordered => "have their home here and are ordered".to_owned(),
            None if homed.contains(&&own) => return Ok(Place::Here),
            Some(GuardHome::At(site)) => format!("have their home at site {}", site.0),
            _ => "have their home at several sites".to_owned(),
        };
        let message = format!(
            "the guards of this transaction {refused}, and it runs at site {}",
            self.site.0
        );
        Err(EffectError::new("0A000", message)
            .with_hint("Send the call to the site where the plan routes it."))
    }

    /// What this site has applied.
    fn seen(&self) -> Seen {
        let waiting = self.pending.iter().filter_map(|pending| match pending {
            Pending::Ordered { certificate, .. } => Some(certificate.transaction),
            Pending::Stream { .. } => None,
        });
        Seen {
            streams: self.streams.applied().to_vec(),
            delivered: self.orderer.delivered().clone(),
            except: waiting.collect(),
        }
    }

    /// Commits a transaction at this site, and sends it to the others.
    #[expect(
        clippy::too_many_arguments,
        reason = "it passes on the parts of one transaction"
    )]
    fn commit_alone(
        &mut self,
        now: Ticks,
        id: TransactionId,
        timestamp: Timestamp,
        effects: Vec<Effect>,
        slots: SlotValues,
        accesses: AccessSet,
        out: &mut Outbox<GuardMessage<O::Message>>,
    ) {
        match self.settled(effects, &slots, &SlotValues::default(), &[]) {
            Ok(effects) => {
                self.publish(now, Some(id), timestamp, effects, accesses, out);
                self.end(id, Ok((timestamp, slots.into_vec())));
            }
            Err(reason) => self.end(id, Err(reason)),
        }
    }

    /// Adds a commit to this site's stream, durably, applies it and sends it.
    fn publish(
        &mut self,
        now: Ticks,
        transaction: Option<TransactionId>,
        timestamp: Timestamp,
        effects: Vec<Effect>,
        accesses: AccessSet,
        out: &mut Outbox<GuardMessage<O::Message>>,
    ) {
        let commit = StreamCommit {
            number: self.streams.next_number(),
            transaction,
            timestamp,
            seen: self.seen(),
            floor: self.floor(timestamp),
            effects,
        };
        let commit = Arc::new(commit);
        if self.keeps_records {
            let record = GuardRecord::Own {
                commit: (*commit).clone(),
                accesses: accesses.clone(),
            };
            out.records.push(Record::Guards(Box::new(record)));
        }
        self.install_own(now, Arc::clone(&commit), &accesses);
        self.streams.publish(now, &commit, &mut self.sent);
    }

    /// No transaction of this site at or below the result is still to come, once this one is applied.
    fn floor(&mut self, timestamp: Timestamp) -> Timestamp {
        if let Some(last) = self.earlier_batches {
            if self.orderer.delivered().prefix().last(self.site) < last {
                return self.floors[self.site.index()];
            }
            self.earlier_batches = None;
        }
        // tidy: order-free because only the least one counts
        let broadcast = self.committing.values().map(|(at, _)| *at).min();
        let own = NodeId(self.site.0.into());
        let pending = self.pending.iter().filter_map(|pending| match pending {
            Pending::Ordered { certificate, .. } => certificate.guarded.as_ref(),
            Pending::Stream { .. } => None,
        });
        let pending = pending.map(|guarded| guarded.timestamp);
        let delivered = pending.filter(|at| at.node() == own).min();
        let waiting = broadcast.into_iter().chain(delivered).min();
        let below = waiting.map_or(timestamp, |at| Timestamp::from_bits(at.to_bits() - 1));
        below.min(timestamp)
    }

    /// Installs a commit of this site.
    pub(super) fn install_own(
        &mut self,
        now: Ticks,
        commit: Arc<StreamCommit>,
        accesses: &AccessSet,
    ) {
        let own = self.site.index();
        if commit.transaction.is_some() {
            let sequence = self.install(now, commit.timestamp, &commit.effects);
            self.versions
                .write(accesses, commit.timestamp, Some(sequence));
        }
        self.clock.observe(commit.timestamp);
        self.floors[own] = self.floors[own].max(commit.floor);
        self.applied_since_own = 0;
        self.streams.add_own(commit);
    }

    /// Enters a transaction's effects into the rows, and installs these in one step.
    fn install(&mut self, now: Ticks, timestamp: Timestamp, effects: &[Effect]) -> CommitSequence {
        self.clock.observe(timestamp);
        let floor = self.floors.iter().copied().min().unwrap_or_default();
        let before = self.probe.enter(Activity::Storage);
        let (images, violation) =
            self.logs
                .enter(&self.store, &*self.programs, timestamp, effects, floor);
        let budget = images.len() + 1;
        let staged = self.store.restage(images);
        let sequence = self.store.install(now, timestamp, staged);
        self.logs.settle(floor);
        self.store.collect(now, budget);
        self.probe.enter(before);
        if let Some(violation) = violation {
            self.violation.get_or_insert(violation);
        }
        sequence
    }

    /// Effects with the values of slots entered, but for inserts that wait for a number that is `drawn` later. Effects
    /// that are no draws (`draws`: indexes, ascending) have no outputs.
    fn settled(
        &self,
        effects: Vec<Effect>,
        slots: &SlotValues,
        drawn: &SlotValues,
        draws: &[u32],
    ) -> Result<Vec<Effect>, AbortReason> {
        let settle = |(at, effect): (usize, Effect)| {
            Ok(match effect {
                Effect::Insert {
                    table,
                    mut key,
                    mut row,
                    mut patches,
                } => {
                    let (later, now): (Vec<Patch>, Vec<Patch>) = patches
                        .drain(..)
                        .partition(|patch| drawn.get(patch.slot).is_some());
                    self.store
                        .resolve(table, &now, slots, &mut key, &mut row)
                        .map_err(AbortReason::from)?;
                    Effect::Insert {
                        table,
                        key,
                        row,
                        patches: later.into(),
                    }
                }
                Effect::Update {
                    table,
                    key,
                    program,
                    arguments,
                    outputs,
                } => Effect::Update {
                    table,
                    key,
                    program,
                    arguments,
                    outputs: outputs.filter(|_| draws.binary_search(&(at as u32)).is_ok()),
                },
                deleted @ Effect::Delete { .. } => deleted,
            })
        };
        effects.into_iter().enumerate().map(settle).collect()
    }

    /// Broadcasts a transaction with ordered guards.
    #[expect(
        clippy::too_many_arguments,
        reason = "it passes on the parts of one transaction"
    )]
    fn broadcast(
        &mut self,
        now: Ticks,
        id: TransactionId,
        effects: Vec<Effect>,
        slots: SlotValues,
        accesses: AccessSet,
        guarded: Box<GuardedCommit>,
        out: &mut Outbox<GuardMessage<O::Message>>,
    ) {
        let drawn = self.draw(&effects, &guarded.draws);
        let settled = drawn.and_then(|drawn| self.settled(effects, &slots, &drawn, &guarded.draws));
        let effects = match settled {
            Ok(effects) => effects,
            Err(reason) => return self.end(id, Err(reason)),
        };
        self.committing.insert(id, (guarded.timestamp, slots));
        let certificate = Certificate {
            transaction: id,
            reads: ReadSet::default(),
            effects,
            accesses,
            guarded: Some(guarded),
        };
        self.order(now, out, |orderer, ordered| {
            orderer.broadcast(now, certificate, ordered);
        });
    }

    /// The numbers that a transaction draws from the rows as they are.
    fn draw(&self, effects: &[Effect], draws: &[u32]) -> Result<SlotValues, AbortReason> {
        let drawing = draws.iter().map(|at| effects[*at as usize].clone());
        let drawing: Vec<Effect> = drawing.collect();
        let staged = self
            .store
            .prestage(Timestamp::MAX, &drawing, &*self.programs);
        let (_, slots) = staged.map_err(AbortReason::from)?;
        Ok(slots)
    }

    /// Commits a transaction without effects.
    fn commit_reader(&mut self, id: TransactionId) {
        let timestamp = Timestamp::new(self.store.last().0, READER);
        self.end(id, Ok((timestamp, Slots::new())));
    }

    fn end(&mut self, id: TransactionId, outcome: Outcome) {
        self.ended.push((id, outcome));
    }

    /// Steps the orderer, and takes all its output.
    pub(super) fn order(
        &mut self,
        now: Ticks,
        out: &mut Outbox<GuardMessage<O::Message>>,
        step: impl FnOnce(&mut O, &mut OutboxOf<O>),
    ) {
        let mut ordered = OutboxOf::<O>::default();
        step(&mut self.orderer, &mut ordered);
        debug_assert!(
            ordered.transfers.is_empty(),
            "an orderer under guards discards nothing that a site has not delivered"
        );
        if self.keeps_records {
            let records = ordered.records.into_iter();
            out.records.extend(records.map(O::into_record));
        }
        let messages = ordered.messages.into_iter();
        self.sent
            .extend(messages.map(|(to, message)| (to, GuardMessage::Order(message))));
        out.timers.extend(ordered.timers);
        for delivery in &ordered.deliveries {
            self.decide(delivery);
        }
        self.drain(now);
        self.accept_early(now, out);
    }

    /// Certifies the transactions of a batch. Those that have committed wait to be applied.
    pub(super) fn decide(&mut self, delivery: &Delivery<Certificate>) {
        for certificate in delivery.batch.payloads() {
            let Some(guarded) = &certificate.guarded else {
                let what = format!("{} is not ordered over guards", delivery.id);
                self.violation.get_or_insert(what);
                continue;
            };
            // Replay of the delivery takes them again: they need no records of their own.
            self.take_carried(&guarded.carried);
            self.certified += 1;
            let certify = || self.versions.of(&guarded.compared) == guarded.versions;
            let commits = self.probe.within(Activity::Guard, certify);
            let TransactionId { node, sequence } = certificate.transaction;
            let decided = mix(u64::from(node.0)) ^ sequence;
            self.decisions ^= mix(mix(decided) ^ u64::from(commits));
            if !commits {
                if self.committing.remove(&certificate.transaction).is_some() {
                    self.end(certificate.transaction, Err(AbortReason::Conflict));
                }
                continue;
            }
            let mut compared = guarded.versions.iter().flatten();
            if compared.any(|(_, writer)| *writer >= guarded.timestamp) {
                self.violation.get_or_insert(format!(
                    "GRD-I5: {} is not after a guard's version that it has read",
                    guarded.timestamp
                ));
            }
            self.versions
                .write(&certificate.accesses, guarded.timestamp, None);
            self.pending.push(Pending::Ordered {
                batch: delivery.id,
                certificate: certificate.clone(),
            });
        }
    }

    /// Takes commits that came with a delivered transaction.
    pub(super) fn take_carried(&mut self, carried: &[(SiteId, Arc<StreamCommit>)]) {
        for (origin, commit) in carried {
            if self.streams.accepts(*origin, commit) {
                self.add_received(*origin, Arc::clone(commit));
            }
        }
    }

    /// Accepts commits that came before others of their stream, as far as these have come now.
    fn accept_early(&mut self, now: Ticks, out: &mut Outbox<GuardMessage<O::Message>>) {
        while let Some((origin, commit)) = self.streams.next_early() {
            self.accept(now, origin, commit, out);
        }
    }

    /// Accepts the next commit of another site's stream, durably.
    fn accept(
        &mut self,
        now: Ticks,
        origin: SiteId,
        commit: Arc<StreamCommit>,
        out: &mut Outbox<GuardMessage<O::Message>>,
    ) {
        if self.keeps_records {
            let record = GuardRecord::Received {
                origin,
                commit: (*commit).clone(),
            };
            out.records.push(Record::Guards(Box::new(record)));
        }
        self.add_received(origin, commit);
        self.drain(now);
    }

    /// A commit of another site has arrived.
    pub(super) fn add_received(&mut self, origin: SiteId, commit: Arc<StreamCommit>) {
        self.pending.push(Pending::Stream {
            origin,
            commit: (*commit).clone(),
        });
        self.streams.add_received(origin, commit);
    }

    /// Applies everything that waits for nothing more.
    pub(super) fn drain(&mut self, now: Ticks) {
        let mut places = 0..self.pending.len();
        while let Some(at) = places.find(|at| self.is_due(*at)) {
            let due = self.pending.remove(at);
            self.apply(now, due);
            places = 0..self.pending.len();
        }
    }

    /// Whether all that was seen in a pending transaction is applied, and all that conflicts with it and precedes it.
    fn is_due(&self, at: usize) -> bool {
        let (seen, conflicting) = match &self.pending[at] {
            Pending::Stream { origin, commit } => {
                if commit.number != self.streams.applied()[origin.index()] + 1 {
                    return false;
                }
                (&commit.seen, None)
            }
            Pending::Ordered { certificate, .. } => match &certificate.guarded {
                Some(guarded) => (&guarded.seen, Some(certificate)),
                None => return true,
            },
        };
        let mut streams = self.streams.applied().iter().zip(&seen.streams);
        let earlier = &self.pending[..at];
        streams.all(|(applied, seen)| applied >= seen)
            && self.orderer.delivered().covers(&seen.delivered)
            && !self.pending.iter().any(|pending| match pending {
                Pending::Ordered { batch, certificate } => {
                    seen.has_ordered(*batch, certificate.transaction)
                }
                Pending::Stream { .. } => false,
            })
            && !earlier.iter().any(|pending| match (pending, conflicting) {
                (Pending::Ordered { certificate, .. }, Some(own)) => {
                    certificate.conflicts_with(own)
                }
                _ => false,
            })
    }

    /// Applies a transaction of another site, or one that was ordered.
    fn apply(&mut self, now: Ticks, due: Pending) {
        match due {
            Pending::Stream { origin, commit } => {
                if commit.transaction.is_some() {
                    self.install(now, commit.timestamp, &commit.effects);
                    self.counters.applied_remote += 1;
                    self.applied_since_own += 1;
                }
                self.clock.observe(commit.timestamp);
                let floor = &mut self.floors[origin.index()];
                *floor = (*floor).max(commit.floor);
                self.streams.add_applied(origin, commit.number);
            }
            Pending::Ordered { certificate, .. } => self.apply_ordered(now, certificate),
        }
    }

    fn apply_ordered(&mut self, now: Ticks, certificate: Certificate) {
        let Certificate {
            transaction,
            effects,
            accesses,
            guarded,
            ..
        } = certificate;
        let Some(guarded) = guarded else { return };
        let timestamp = guarded.timestamp;
        let drawn = self.draw(&effects, &guarded.draws);
        let settled = drawn.and_then(|drawn| {
            let none = SlotValues::default();
            let effects = self.settled(effects, &drawn, &none, &[])?;
            Ok((effects, drawn))
        });
        let (effects, drawn) = match settled {
            Ok(settled) => settled,
            Err(reason) => {
                // The counter is the same at every site (GRD-I6), so that all abort it. Its guards' writer is there.
                let last = self.store.last();
                self.versions.installed(&accesses, timestamp, last);
                if self.committing.remove(&transaction).is_some() {
                    self.end(transaction, Err(reason));
                }
                return;
            }
        };
        let sequence = self.install(now, timestamp, &effects);
        self.applied_since_own += 1;
        self.versions.installed(&accesses, timestamp, sequence);
        if let Some((_, mut slots)) = self.committing.remove(&transaction) {
            for (slot, value) in drawn.into_vec() {
                slots.set(slot, value);
            }
            self.counters.ordered += 1;
            self.end(transaction, Ok((timestamp, slots.into_vec())));
        }
    }

    fn receive(
        &mut self,
        now: Ticks,
        from: SiteId,
        message: GuardMessage<O::Message>,
        out: &mut Outbox<GuardMessage<O::Message>>,
    ) {
        match message {
            GuardMessage::Order(message) => self.order(now, out, |orderer, ordered| {
                orderer.receive(now, from, message, ordered);
            }),
            GuardMessage::Commit { origin, commit } => {
                if self.streams.accepts(origin, &commit) {
                    self.accept(now, origin, commit, out);
                }
                self.accept_early(now, out);
                if !std::mem::replace(&mut self.acknowledges, true) {
                    let at = now + self.options.acknowledge_after;
                    out.timers.push((at, TIMER_ACKNOWLEDGE));
                }
            }
            GuardMessage::Received { received, known } => {
                if self.streams.learn(from, &received, &known) {
                    let report = self.streams.report(from);
                    self.sent.push((from, report));
                }
            }
            GuardMessage::Fetch { received } => {
                self.streams.answer(from, &received, &mut self.sent);
            }
        }
    }

    fn expire(&mut self, now: Ticks, timer: TimerId, out: &mut Outbox<GuardMessage<O::Message>>) {
        match timer {
            TIMER_ACKNOWLEDGE => {
                self.acknowledges = false;
                self.streams.report_to_all(&mut self.sent);
            }
            TIMER_REPEAT => {
                self.repeats = false;
                self.streams.repeat(now, self.options.retry, &mut self.sent);
                let applied = self.streams.applied().to_vec();
                // The site of a commit that others have may be lost.
                let waits =
                    !self.pending.is_empty() || self.streams.has_early() || self.streams.lacks();
                if waits && applied == self.applied_then {
                    self.streams.fetch(&mut self.sent);
                }
                self.applied_then = applied;
            }
            other => self.order(now, out, |orderer, ordered| {
                orderer.expire(now, other, ordered);
            }),
        }
    }

    /// Ends a step: answers, messages, timers, and the bound of the clock.
    pub(super) fn finish(&mut self, now: Ticks, out: &mut Outbox<GuardMessage<O::Message>>) {
        if self.applied_since_own >= APPLIED_MAX {
            let timestamp = self.clock.next(now);
            self.publish(now, None, timestamp, Vec::new(), AccessSet::default(), out);
        }
        for (id, outcome) in self.ended.drain(..) {
            let reply = match outcome {
                Ok((timestamp, slots)) => {
                    self.counters.commits += 1;
                    Reply::Committed {
                        timestamp,
                        slots,
                        session: Session::default(),
                    }
                }
                Err(reason) => {
                    self.counters.aborts += 1;
                    Reply::Aborted(reason)
                }
            };
            out.replies.push((id, reply));
        }
        for (to, message) in self.sent.drain(..) {
            self.counters.messages += 1;
            out.messages.push((self.nodes[to.index()], message));
        }
        if !self.repeats && !self.is_at_rest() {
            self.repeats = true;
            out.timers.push((now + self.options.retry, TIMER_REPEAT));
        }
        if self.keeps_records && self.clock.last() > self.clock_bound {
            self.clock_bound = self.clock.last() + CLOCK_AHEAD;
            out.records.push(Record::Clock(self.clock_bound));
        }
    }
}

/// Where a transaction commits.
enum Place {
    Here,
    Ordered,
}

impl<O: LoggedOrderer> Protocol for GuardSite<O> {
    type Message = GuardMessage<O::Message>;

    fn step(&mut self, now: Ticks, input: Input<Self::Message>, out: &mut Outbox<Self::Message>) {
        match input {
            Input::Request {
                transaction,
                request,
            } => match request {
                Request::Follow(_) | Request::WaitByAge(_) | Request::Global => {}
                Request::Declare(_) => out.replies.push((transaction, Reply::Declared)),
                Request::Read(reads) => match self.read(transaction, &reads) {
                    Some(fetched) => out.replies.push((transaction, Reply::Fetched(fetched))),
                    None => {
                        self.executing.remove(&transaction);
                        self.end(transaction, Err(AbortReason::BelowFloor));
                    }
                },
                Request::Commit(effects) => self.commit(now, transaction, effects, out),
                Request::CommitReads => {
                    self.executing.remove(&transaction);
                    self.commit_reader(transaction);
                }
                Request::Abort => {
                    self.executing.remove(&transaction);
                    self.counters.aborts += 1;
                }
            },
            Input::Message { from, message } => {
                let site = self.nodes.iter().position(|node| *node == from);
                let site = SiteId(site.expect("a message of a site") as u8);
                self.receive(now, site, message, out);
            }
            Input::Timer(timer) => self.expire(now, timer, out),
            Input::Restarted { .. } => self.streams.restarted(),
        }
        self.finish(now, out);
    }

    fn observe(&mut self, probe: ActivityProbe) {
        self.probe = probe;
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.orderer.check_invariants()?;
        if let Some(violation) = &self.violation {
            return Err(violation.clone());
        }
        let mut streams = self.streams.applied().iter().zip(self.streams.received());
        if streams.any(|(applied, received)| applied > received) {
            return Err("GRD-I3: a commit is applied that has not arrived".to_owned());
        }
        if let Some(due) = (0..self.pending.len()).find(|at| self.is_due(*at)) {
            let name = self.pending[due].name();
            return Err(format!(
                "GRD-I2: {name} waits for nothing, and is not applied"
            ));
        }
        let last = self.store.last();
        // tidy: order-free because only whether there is one counts
        let mut snapshots = self.executing.values().map(|it| it.snapshot);
        match snapshots.any(|snapshot| snapshot > last) {
            true => Err(format!(
                "GRD-I1: a snapshot is after {last}, the last installation"
            )),
            false => Ok(()),
        }
    }
}
