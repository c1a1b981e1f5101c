//! A site: it executes transactions, broadcasts their certificates, and certifies what is delivered.

use std::fmt;
use std::sync::Arc;

use anabranch_storage::{BelowFloor, Commit, CommitSequence, SlotValues, Store};
use anabranch_types::{
    Activity, ActivityProbe, Effect, Fetched, Key, NodeId, Read, RowPrograms, TableId, Ticks,
    Timestamp, time,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::contract::{
    AbortReason, Counters, Input, Outbox, PartitionEffects, PartitionRead, Protocol, Reply,
    Request, Session, Slots, Topology, TransactionId,
};
use crate::order::{Delivery, Orderer, OutboxOf, SiteId};

use super::access_set::AccessSetBuilder;
use super::certificate::Certificate;
use super::message::SiteMessage;
use super::orderer::LoggedOrderer;
use super::outcomes::{CommittedOutcome, Outcomes};
use super::read_set::{PointRead, RangeRead, ReadSet};
use super::transfers::{PART_BYTES, Transfers};

/// What transactions that only read are promised. Transactions with effects are strictly serializable in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Consistency {
    /// Serializability: they are broadcast and certified like all others.
    #[default]
    Serializable,
    /// Extended update serializability (PL-3U): they commit at their site. Two of them may see transactions without
    /// conflict in different orders.
    UpdateSerializable,
}

/// The messages of sites over an orderer.
pub(super) type MessageOf<O> = SiteMessage<<O as Orderer>::Message, <O as Orderer>::Transfer>;

/// The end of a transaction: its timestamp and the values of its deferred effects, or why it has aborted.
pub(super) type Outcome = Result<(Timestamp, Slots), AbortReason>;

/// A transaction that has not asked to commit.
#[derive(Clone, Debug)]
struct Execution {
    /// What it reads from.
    snapshot: CommitSequence,
    reads: ReadSet,
    accesses: AccessSetBuilder,
}

impl Execution {
    fn begin(store: &Store) -> Execution {
        Execution {
            snapshot: store.last(),
            reads: ReadSet::default(),
            accesses: AccessSetBuilder::default(),
        }
    }
}

/// A site with all the data, over an orderer.
#[derive(Clone)]
pub struct CertificationSite<O: LoggedOrderer> {
    site: SiteId,
    /// The node of each site.
    pub(super) nodes: Vec<NodeId>,
    consistency: Consistency,
    pub(super) orderer: O,
    pub(super) store: Store,
    programs: Arc<dyn RowPrograms>,
    /// The transactions that run here.
    executing: FxHashMap<TransactionId, Execution>,
    /// The transactions that were broadcast here and are not delivered, in this incarnation.
    pub(super) committing: FxHashMap<TransactionId, ()>,
    /// The outcomes that other sites may need.
    pub(super) outcomes: Outcomes,
    pub(super) transfers: Transfers<O::Transfer>,
    /// While records are replayed: the rows of a state that is not complete.
    pub(super) collected: Option<Store>,
    pub(super) part_bytes: usize,
    pub(super) keeps_records: bool,
    /// The first violation of an invariant that a delivery has shown.
    violation: Option<String>,
    pub(super) counters: Counters,
    /// The transactions that were certified here, in this incarnation.
    certified: u64,
    probe: ActivityProbe,
}

/// What the next step depends on, without constants and counters.
impl<O: LoggedOrderer + fmt::Debug> fmt::Debug for CertificationSite<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificationSite")
            .field("orderer", &self.orderer)
            .field("store", &self.store)
            .field("executing", &self.executing)
            .field("committing", &self.committing)
            .field("transfers", &self.transfers)
            .finish_non_exhaustive()
    }
}

/// The bits of a timestamp's logical time for a transaction's number in its batch.
const NUMBER_BITS: u32 = 10;

/// The timestamp of a reader that was not broadcast has this node, which no site has.
const READER: NodeId = NodeId(time::NODES_MAX - 1);

impl<O: LoggedOrderer> CertificationSite<O> {
    /// A site that has delivered nothing, with the initial rows in `store`.
    ///
    /// The sites are the nodes of a topology of clusters with one partition each ([`Topology::clusters`]), in the order
    /// of their numbers.
    ///
    /// # Panics
    /// If a cluster has several partitions, or `node` is no site.
    pub fn new(
        node: NodeId,
        topology: &Topology,
        orderer: O,
        store: Store,
        programs: Arc<dyn RowPrograms>,
        consistency: Consistency,
    ) -> CertificationSite<O> {
        let nodes = topology.sites();
        let site = nodes.iter().position(|one| *one == node);
        CertificationSite {
            site: SiteId(site.expect("the node is a site") as u8),
            nodes,
            consistency,
            orderer,
            store,
            programs,
            executing: FxHashMap::default(),
            committing: FxHashMap::default(),
            outcomes: Outcomes::default(),
            transfers: Transfers::default(),
            collected: None,
            part_bytes: PART_BYTES,
            keeps_records: false,
            violation: None,
            counters: Counters::default(),
            certified: 0,
            probe: ActivityProbe::default(),
        }
    }

    /// Sends states to others in parts of about this size.
    #[must_use]
    pub fn with_part_bytes(mut self, bytes: usize) -> CertificationSite<O> {
        self.part_bytes = bytes;
        self
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

    /// The number of transactions, of all sites, that this site has certified in this incarnation.
    pub fn certified(&self) -> u64 {
        self.certified
    }

    /// Whether no transaction runs here, none is awaited, and the orderer has nothing left to do.
    pub fn is_idle(&self) -> bool {
        self.executing.is_empty() && self.committing.is_empty() && self.orderer.is_at_rest()
    }

    /// Answers reads from the transaction's snapshot.
    fn read(&mut self, id: TransactionId, reads: &[PartitionRead], out: &mut Outbox<MessageOf<O>>) {
        let execution = self
            .executing
            .entry(id)
            .or_insert_with(|| Execution::begin(&self.store));
        let before = self.probe.enter(Activity::Storage);
        let mut fetched = Vec::with_capacity(reads.len());
        let mut below_floor = false;
        for PartitionRead { read, .. } in reads {
            match fetch(&self.store, execution, read) {
                Ok(found) => fetched.push(found),
                Err(BelowFloor { .. }) => {
                    below_floor = true;
                    break;
                }
            }
        }
        self.probe.enter(before);
        let reply = match below_floor {
            false => Reply::Fetched(fetched),
            true => {
                self.executing.remove(&id);
                self.counters.aborts += 1;
                Reply::Aborted(AbortReason::BelowFloor)
            }
        };
        out.replies.push((id, reply));
    }

    /// Broadcasts a transaction, or ends it here.
    fn commit(
        &mut self,
        now: Ticks,
        id: TransactionId,
        effects: Vec<PartitionEffects>,
        out: &mut Outbox<MessageOf<O>>,
    ) {
        let execution = self.executing.remove(&id);
        let Execution {
            reads,
            mut accesses,
            ..
        } = execution.unwrap_or_else(|| Execution::begin(&self.store));
        let effects: Vec<Effect> = effects.into_iter().flat_map(|on| on.effects).collect();
        let commits_here = self.consistency == Consistency::UpdateSerializable;
        if effects.is_empty() && (reads.is_empty() || commits_here) {
            return self.commit_reader(id, out);
        }
        let certify = || reads.is_current(&self.store);
        if !self.probe.within(Activity::Guard, certify) {
            // It would be certified against these versions or later ones.
            return self.end(id, Err(AbortReason::Conflict), out);
        }
        accesses.add_effects(&self.store, &*self.programs, &reads, &effects);
        let certificate = Certificate {
            transaction: id,
            reads,
            effects,
            accesses: accesses.finish(),
            guarded: None,
        };
        self.committing.insert(id, ());
        self.order(now, out, |orderer, ordered| {
            orderer.broadcast(now, certificate, ordered);
        });
    }

    /// Commits a transaction without effects at this site alone.
    fn commit_reader(&mut self, id: TransactionId, out: &mut Outbox<MessageOf<O>>) {
        let timestamp = Timestamp::new(self.store.last().0, READER);
        self.end(id, Ok((timestamp, Slots::new())), out);
    }

    /// Answers the engine.
    pub(super) fn end(
        &mut self,
        id: TransactionId,
        result: Outcome,
        out: &mut Outbox<MessageOf<O>>,
    ) {
        let reply = match result {
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

    /// Steps the orderer, and takes all its output.
    pub(super) fn order(
        &mut self,
        now: Ticks,
        out: &mut Outbox<MessageOf<O>>,
        step: impl FnOnce(&mut O, &mut OutboxOf<O>),
    ) {
        let mut ordered = OutboxOf::<O>::default();
        step(&mut self.orderer, &mut ordered);
        self.take_output(now, ordered, out);
    }

    /// Takes the orderer's output.
    pub(super) fn take_output(
        &mut self,
        now: Ticks,
        ordered: OutboxOf<O>,
        out: &mut Outbox<MessageOf<O>>,
    ) {
        if self.keeps_records {
            let records = ordered.records.into_iter();
            out.records.extend(records.map(O::into_record));
        }
        for (to, message) in ordered.messages {
            self.send(to, SiteMessage::Order(message), out);
        }
        out.timers.extend(ordered.timers);
        for delivery in &ordered.deliveries {
            for (id, result) in self.deliver(now, delivery) {
                self.counters.ordered += u64::from(result.is_ok());
                self.end(id, result, out);
            }
        }
        self.outcomes.prune(&self.orderer);
        // A state has all deliveries that the orderer's part of it includes.
        for to in ordered.transfers {
            self.send_state(now, to, out);
        }
    }

    fn site_of(&self, node: NodeId) -> SiteId {
        let site = self.nodes.iter().position(|one| *one == node);
        SiteId(site.expect("the node of a site") as u8)
    }

    /// Sends a message to another site.
    pub(super) fn send(
        &mut self,
        to: SiteId,
        message: MessageOf<O>,
        out: &mut Outbox<MessageOf<O>>,
    ) {
        self.counters.messages += 1;
        out.messages.push((self.nodes[to.index()], message));
    }

    /// Certifies the transactions of a batch, and installs those that commit. Returns the results of those that this
    /// site has broadcast, in this incarnation.
    pub(super) fn deliver(
        &mut self,
        now: Ticks,
        delivery: &Delivery<Certificate>,
    ) -> Vec<(TransactionId, Outcome)> {
        let certificates = delivery.batch.payloads();
        assert!(
            certificates.len() <= 1 << NUMBER_BITS,
            "a batch's numbers fit a timestamp"
        );
        let mut results = Vec::new();
        for (number, certificate) in (0..).zip(certificates) {
            let logical = delivery.position << NUMBER_BITS | number;
            let timestamp = Timestamp::new(logical, NodeId(delivery.id.site.0.into()));
            let result = self.certify(now, timestamp, certificate);
            let id = certificate.transaction;
            if delivery.id.site != self.site
                && let Ok(slots) = &result
            {
                self.outcomes.add(CommittedOutcome {
                    batch: delivery.id,
                    transaction: id,
                    timestamp,
                    slots: slots.clone(),
                });
            }
            if self.committing.remove(&id).is_some() {
                results.push((id, result.map(|slots| (timestamp, slots))));
            }
        }
        results
    }

    /// Decides on a transaction, and installs it if it commits.
    fn certify(
        &mut self,
        now: Ticks,
        timestamp: Timestamp,
        certificate: &Certificate,
    ) -> Result<Slots, AbortReason> {
        self.certified += 1;
        self.check_order(timestamp, certificate);
        // One look at a row that was read by its key serves PCC-I3, too.
        let mut later = None;
        let certify = || {
            certificate
                .reads
                .compare(&self.store, &mut |point, writer| {
                    if writer >= timestamp {
                        later = Some((point.table, point.key.clone()));
                    }
                })
        };
        let is_current = self.probe.within(Activity::Guard, certify);
        if let Some((table, key)) = later {
            self.violates_order(timestamp, certificate, table, &key);
        }
        if !is_current {
            return Err(AbortReason::Conflict);
        }
        if certificate.effects.is_empty() {
            return Ok(Slots::new());
        }
        let budget = certificate.effects.len() + 1;
        let commit = Commit {
            timestamp,
            effects: certificate.effects.clone(),
        };
        let mut slots = SlotValues::default();
        let before = self.probe.enter(Activity::Storage);
        let applied = self.store.apply(now, commit, &mut slots, &*self.programs);
        self.store.collect(now, budget);
        self.probe.enter(before);
        applied?;
        Ok(slots.into_vec())
    }

    /// PCC-I3: the writers of all versions that a delivered transaction reads or replaces precede it. Those that it reads
    /// by key are checked where they are certified.
    fn check_order(&mut self, timestamp: Timestamp, certificate: &Certificate) {
        let ranges = certificate.reads.ranges.iter().flat_map(|range| {
            let table = range.read.table();
            range.rows.iter().map(move |(key, _)| (table, key))
        });
        let effects = certificate.effects.iter();
        let mut accessed = ranges.chain(effects.map(|effect| (effect.table(), effect.key())));
        let later = |(table, key): &(TableId, &Key)| {
            let item = self.store.item(*table, key);
            item.is_some_and(|item| item.latest().timestamp() >= timestamp)
        };
        if let Some((table, key)) = accessed.find(later) {
            self.violates_order(timestamp, certificate, table, key);
        }
    }

    fn violates_order(
        &mut self,
        timestamp: Timestamp,
        certificate: &Certificate,
        table: TableId,
        key: &Key,
    ) {
        let schema = self.store.schema(table);
        self.violation.get_or_insert(format!(
            "PCC-I3: {:?} is delivered as {timestamp}, and {} has a later version of {key} in \"{}\"",
            certificate.transaction, self.site, schema.name
        ));
    }
}

/// Answers one read from a transaction's snapshot, and adds it to the read set and the access set.
fn fetch(store: &Store, execution: &mut Execution, read: &Read) -> Result<Fetched, BelowFloor> {
    let mut rows = Vec::new();
    let mut writers = Vec::new();
    store.read(read, Some(execution.snapshot), &mut |key, _, version| {
        if let Some((version, row)) = version.and_then(|it| it.row().map(|row| (it, row))) {
            writers.push((key.clone(), version.timestamp()));
            rows.push((key.clone(), row.clone()));
        }
    })?;
    let found = match read {
        Read::Point { table, key } => {
            execution.reads.points.push(PointRead {
                table: *table,
                key: key.clone(),
                writer: writers.pop().map(|(_, writer)| writer),
            });
            Fetched::Point(rows.pop().map(|(_, row)| row))
        }
        Read::Range { .. } => {
            execution.reads.ranges.push(RangeRead {
                read: read.clone(),
                rows: writers,
            });
            Fetched::Range(rows)
        }
    };
    let schema = store.schema(read.table());
    execution.accesses.add_read(schema, read, &found);
    match store.is_recording() {
        true => store.fetch(read, Some(execution.snapshot)),
        false => Ok(found),
    }
}

impl<O: LoggedOrderer> Protocol for CertificationSite<O> {
    type Message = MessageOf<O>;

    fn step(&mut self, now: Ticks, input: Input<MessageOf<O>>, out: &mut Outbox<MessageOf<O>>) {
        match input {
            Input::Request {
                transaction,
                request,
            } => match request {
                Request::Follow(_) | Request::WaitByAge(_) | Request::Global => {}
                Request::Declare(_) => out.replies.push((transaction, Reply::Declared)),
                Request::Read(reads) => self.read(transaction, &reads, out),
                Request::Commit(effects) => self.commit(now, transaction, effects, out),
                // Under SR what was read is certified in every case: a client may go on at a site that is behind.
                Request::CommitReads => self.commit(now, transaction, Vec::new(), out),
                Request::Abort => {
                    self.executing.remove(&transaction);
                    self.counters.aborts += 1;
                }
            },
            Input::Message { from, message } => {
                let site = self.site_of(from);
                match message {
                    SiteMessage::Order(message) => self.order(now, out, |orderer, ordered| {
                        orderer.receive(now, site, message, ordered);
                    }),
                    message => self.handle_transfer(now, site, message, out),
                }
            }
            Input::Timer(timer) => self.order(now, out, |orderer, ordered| {
                orderer.expire(now, timer, ordered);
            }),
            // It recovers what it had under way by its own records.
            Input::Restarted { node } => self.end_transfers_with(self.site_of(node)),
        }
        self.end_silent_transfers(now);
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
        if !self.committing.is_empty() {
            let mut open = FxHashSet::default();
            self.orderer.undelivered(&mut |certificate| {
                open.insert(certificate.transaction);
            });
            // tidy: order-free because only whether there is one counts
            if !self.committing.keys().all(|id| open.contains(id)) {
                let what = "PCC-I8: a transaction waits, and its orderer will not deliver it";
                return Err(what.to_owned());
            }
        }
        let last = self.store.last();
        // tidy: order-free because only whether there is one counts
        let mut snapshots = self.executing.values().map(|it| it.snapshot);
        match snapshots.any(|snapshot| snapshot > last) {
            true => Err(format!(
                "PCC-I1: a snapshot is after {last}, the last installation"
            )),
            false => Ok(()),
        }
    }
}
