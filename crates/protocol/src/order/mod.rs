//! Orderers: broadcast payloads among sites, and deliver conflicting ones in the same order at each.
//!
//! A site is a node that has all the data. Sites certify transactions at delivery (`alvin.txt` §4.2); certification runs
//! over any [`Orderer`], so that only the ordering differs. An orderer is a pure state machine, as every protocol here:
//! input and time go in, an [`OrderOutbox`] comes out.
//!
//! * [`conflict`]: payloads and their conflict relation.
//! * [`frontier`]: sets of delivered batches.
//! * [`quorum`]: sites and quorum sizes.
//! * [`pob`]: ALVIN's partial order broadcast. [`epaxos`]: EPaxos. [`multipaxos`]: one leader, a total order.
//! * `gathering`, `reports`: what all of them do alike, batching and the reports between sites.

use std::fmt;

use anabranch_types::Ticks;
use serde::{Deserialize, Serialize};

use crate::contract::TimerId;

pub mod conflict;
pub mod epaxos;
pub mod frontier;
mod gathering;
pub mod multipaxos;
pub mod pob;
pub mod quorum;
mod reports;

pub use conflict::{Batch, ClassSide, ConflictClass, Payload};
pub use frontier::{Delivered, Prefix};
pub use quorum::{Ballot, GroupSizeError, Quorums, SITES_MAX, SiteId, SiteSet};

/// Names a batch: the site that broadcast it, and its number there, from 1. The paper's *T.tid*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BatchId {
    /// The site that broadcast it.
    pub site: SiteId,
    /// Its number among the site's batches. They have no gaps.
    pub sequence: u64,
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}@{}", self.sequence, self.site)
    }
}

/// A site of a group that broadcasts and delivers payloads.
///
/// Every orderer promises, of sites that have not lost their disks:
///
/// * *Validity*: a payload that a site broadcasts is delivered there, if the site does not restart meanwhile and a
///   majority of the sites can reach each other for long enough.
/// * *Integrity*: a payload is delivered at most once, and only if it was broadcast.
/// * *Uniform agreement*: what one site delivers, every site delivers that is up for long enough.
/// * *Strong uniform conflicting order* (the paper's P1): if a site delivers `a` before `b` and they conflict, each site
///   delivers `b` only after `a`.
/// * *Local dependency* (P2): then `a` is among the dependencies of `b` and not the other way round, unless all sites
///   had delivered `a` before `b` was proposed (in a total order: before `b` is delivered there).
pub trait Orderer {
    /// What is ordered.
    type Payload: Payload;
    /// Its messages: one enum, a struct variant for each.
    type Message: Clone + fmt::Debug + Send;
    /// Its log records.
    type Record: Clone + fmt::Debug + Send;
    /// Its state for a site that was away too long, without the application's.
    type Transfer: Clone + fmt::Debug + Send;

    /// Broadcasts a payload (the paper's POBROADCAST).
    fn broadcast(&mut self, now: Ticks, payload: Self::Payload, out: &mut OutboxOf<Self>);

    /// Takes a message of another site. Messages may be lost, duplicated and reordered.
    fn receive(
        &mut self,
        now: Ticks,
        from: SiteId,
        message: Self::Message,
        out: &mut OutboxOf<Self>,
    );

    /// Takes a timer that has run out. It may be late, never early.
    fn expire(&mut self, now: Ticks, timer: TimerId, out: &mut OutboxOf<Self>);

    /// Takes the word of a failure detector: the site may have crashed. If it has not, a batch of the site may be
    /// decided as a no-op, and the site broadcasts its payloads again.
    fn suspect(&mut self, now: Ticks, site: SiteId, out: &mut OutboxOf<Self>);

    /// Applies a record again, at a site made anew: all records in order, then [`Orderer::recover`]. `out` gets the
    /// deliveries that the site had made before, in the same order, and nothing else.
    ///
    /// # Errors
    /// When the record contradicts those before it.
    fn replay(
        &mut self,
        record: Self::Record,
        out: &mut OutboxOf<Self>,
    ) -> Result<(), crate::ReplayError>;

    /// All records have been replayed: goes on with what was under way.
    fn recover(&mut self, now: Ticks, out: &mut OutboxOf<Self>);

    /// Passes to `sink` records that rebuild the site as it is, in place of all so far. Their replay delivers nothing
    /// that is delivered: the application has a checkpoint of its own of the same moment.
    fn checkpoint(&self, sink: &mut dyn FnMut(Self::Record));

    /// What all sites have delivered: the application may discard what it keeps for batches of this prefix.
    fn stable_frontier(&self) -> &Prefix;

    /// What this site has delivered.
    fn delivered(&self) -> &Delivered;

    /// What another site is known to have delivered, at least.
    fn delivered_at(&self, site: SiteId) -> &Prefix;

    /// Passes to `visit` the payloads that this incarnation has broadcast, perhaps others of this site, too, and that
    /// may still be delivered here.
    fn undelivered(&self, visit: &mut dyn FnMut(&Self::Payload));

    /// After this time without an answer a message is sent again.
    fn retry(&self) -> Ticks;

    /// The number of this site's last batch; 0 if it has broadcast none. After a restart: of the last one that an earlier
    /// incarnation may have sent. What such an incarnation has broadcast is delivered under these numbers, or never.
    fn last_own(&self) -> u64;

    /// The state that a site of [`OrderOutbox::transfers`] needs. The application sends it with its own state of the
    /// same moment.
    fn transfer(&self) -> Self::Transfer;

    /// Takes another site's state in place of what this site has missed. Returns whether it is used: only if it
    /// includes all that this site has delivered. If so, the application replaces its state by the one of the same
    /// moment before it takes the deliveries in `out`.
    fn install(&mut self, now: Ticks, transfer: Self::Transfer, out: &mut OutboxOf<Self>) -> bool;

    /// Whether nothing is left to do here: all known batches are delivered, and each site knows what each has
    /// delivered.
    fn is_at_rest(&self) -> bool;

    /// What has been counted at this site so far.
    fn counters(&self) -> &OrderCounters;

    /// Checks every numbered invariant of the orderer's page that one site can see.
    ///
    /// # Errors
    /// The invariant's name, such as `POB-I2`, and what contradicts it.
    fn check_invariants(&self) -> Result<(), String>;
}

/// The outbox of an orderer.
pub type OutboxOf<O> =
    OrderOutbox<<O as Orderer>::Payload, <O as Orderer>::Message, <O as Orderer>::Record>;

/// All output of one or more steps. The driver empties it after each batch.
///
/// **Output commit**, as in [`Outbox`](crate::Outbox): messages leave the site, and clients learn of deliveries, only
/// when the records are durable.
#[derive(Clone, Debug)]
pub struct OrderOutbox<P, M, R> {
    /// To be appended to the site's log, in order.
    pub records: Vec<R>,
    /// To other sites, in order for each destination.
    pub messages: Vec<(SiteId, M)>,
    /// To the application above, in order.
    pub deliveries: Vec<Delivery<P>>,
    /// Timers to set: when, and which.
    pub timers: Vec<(Ticks, TimerId)>,
    /// Sites that need [`Orderer::transfer`] and the application's state.
    pub transfers: Vec<SiteId>,
}

impl<P, M, R> Default for OrderOutbox<P, M, R> {
    fn default() -> Self {
        OrderOutbox {
            records: Vec::new(),
            messages: Vec::new(),
            deliveries: Vec::new(),
            timers: Vec::new(),
            transfers: Vec::new(),
        }
    }
}

/// The delivery of a batch (the paper's PODELIVER).
#[derive(Clone, Debug)]
pub struct Delivery<P> {
    /// The batch.
    pub id: BatchId,
    /// Its payloads, in order.
    pub batch: Batch<P>,
    /// Its position in the order of conflicting batches, the same at all sites: they are delivered in ascending order of
    /// it. No two batches have the same.
    pub position: u64,
    /// The batches that conflict with it and precede it, all delivered here. Those that all sites had delivered when
    /// it was proposed may be missing.
    pub dependencies: Vec<BatchId>,
}

/// What a site counts. Sums over sites give the group's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderCounters {
    /// Messages sent to other sites.
    pub messages: u64,
    /// Batches proposed here.
    pub batches: u64,
    /// Payloads broadcast here.
    pub payloads: u64,
    /// Own batches decided after one round trip.
    pub fast_decisions: u64,
    /// Own batches decided after two round trips or more.
    pub classic_decisions: u64,
    /// Recoveries started here.
    pub recoveries: u64,
    /// Batches decided as no-ops, as seen here.
    pub no_ops: u64,
    /// Times that this site broadcast again what had been decided as a no-op.
    pub rebroadcasts: u64,
    /// State transfers that this site has installed.
    pub transfers: u64,
    /// Batches delivered here.
    pub deliveries: u64,
}
