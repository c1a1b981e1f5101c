//! A RAMP node: the owner of one partition and the coordinator of the transactions that run at it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use anabranch_storage::Store;
use anabranch_types::{
    ActivityProbe, EffectError, HybridClock, NodeId, PartitionId, RowPrograms, Ticks, Timestamp,
};
use rustc_hash::FxHashMap;

use crate::ramp::collection::stability::Stability;
use crate::ramp::core::context::{Context, misnamed};
use crate::ramp::core::coordinator::attempt::Attempt;
use crate::ramp::core::message::{Message, Stamped};
use crate::ramp::core::participant::Participant;
use crate::ramp::options::RampOptions;
use crate::ramp::replication::sticky::state::Sticky;
use crate::ramp::timer::{AWAIT, GOSSIP, RETRY, RETRY_REMOTE, TERMINATE};
use crate::{Counters, Input, Outbox, Protocol, Request, Topology, TransactionId};

/// A node: the owner of one partition, and the coordinator of the transactions that run at it.
#[derive(Clone)]
pub struct RampNode {
    pub(crate) partition: PartitionId,
    pub(crate) topology: Arc<Topology>,
    pub(crate) options: RampOptions,
    pub(crate) context: Context,
    pub(crate) participant: Participant,
    /// The attempt that was answered last within its step. A transaction that stays on this
    /// partition is found here and never enters the map.
    pub(crate) current: Option<(TransactionId, Box<Attempt>)>,
    pub(crate) attempts: FxHashMap<TransactionId, Box<Attempt>>,
    /// Some that are over, and cleared: the next ones are in the processor's caches already.
    #[expect(clippy::vec_box, reason = "a box goes to the next attempt as it is")]
    pub(crate) spare: Vec<Box<Attempt>>,
    pub(crate) announcing: bool,
    /// Whether the timer for the next gossip is set.
    pub(crate) gossiping: bool,
    /// Whether the timer is set that looks for what has been prepared for too long.
    pub(crate) terminating: bool,
    /// When owners that refused what must be may be asked again.
    pub(crate) prepare_again: Ticks,
    /// The oldest own transaction that waited for its dependencies when the timer for that was set.
    pub(crate) awaiting: Option<Timestamp>,
    /// Whether the timer is set that looks for reads that were not answered in time.
    pub(crate) retrying: bool,
    /// Replicas at which quorum reads could not go on or were not answered, and since when. Others are asked first.
    pub(crate) avoided: Vec<(NodeId, Ticks)>,
    /// Decisions that were sent to no participant, and until when the participants have time to find out.
    pub(crate) lost: VecDeque<(Ticks, TransactionId)>,
    /// How far the next one is, in millionths.
    pub(crate) lost_share: u32,
    /// What is between this node and other clusters, if these are sticky.
    pub(crate) sticky: Option<Box<Sticky>>,
    pub(crate) counters: Counters,
}

/// What a step may depend on, without what never changes and what is only counted. Two nodes that print the same go
/// on alike; exhaustive exploration tells states apart by it.
impl fmt::Debug for RampNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RampNode")
            .field("context", &self.context)
            .field("participant", &self.participant)
            .field("current", &self.current)
            .field("attempts", &self.attempts)
            .field("announcing", &self.announcing)
            .field("gossiping", &self.gossiping)
            .field("terminating", &(self.terminating, self.prepare_again))
            .field("awaiting", &self.awaiting)
            .field("retrying", &self.retrying)
            .field("avoided", &self.avoided)
            .field("lost", &(&self.lost, self.lost_share))
            .field("sticky", &self.sticky)
            .finish_non_exhaustive()
    }
}

impl RampNode {
    /// A node that owns the partition whose items `store` holds.
    ///
    /// # Panics
    /// When the topology does not give the node exactly one partition; when more than a million of a million
    /// commits are to be lost, or some are and termination is off; when transactions may have no dependency.
    pub fn new(
        node: NodeId,
        topology: Arc<Topology>,
        mut store: Store,
        programs: Arc<dyn RowPrograms>,
        options: RampOptions,
    ) -> RampNode {
        let partition = topology.owned_by(node);
        options.check(&topology);
        if options.has_clusters() {
            store.keep_writers();
        }
        let nodes = nodes(&topology);
        RampNode {
            partition,
            topology,
            options,
            context: Context {
                now: Ticks::default(),
                clock: HybridClock::new(node),
                ahead_max: options.ahead_max,
                stability: Stability::new(
                    node,
                    nodes,
                    options.retain,
                    options.causal,
                    options.exception_policy(),
                ),
                journal: None,
                probe: ActivityProbe::default(),
            },
            participant: Participant::new(partition, &options, store, programs, nodes),
            current: None,
            attempts: FxHashMap::default(),
            spare: Vec::new(),
            announcing: false,
            gossiping: false,
            terminating: false,
            prepare_again: Ticks::default(),
            awaiting: None,
            retrying: false,
            avoided: Vec::new(),
            lost: VecDeque::new(),
            lost_share: 0,
            sticky: options.sticky.then(Box::default),
            counters: Counters::default(),
        }
    }

    /// The partition's items.
    pub fn store(&self) -> &Store {
        &self.participant.store
    }

    /// The partition's items, to load them. Not to be written while transactions run.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.participant.store
    }

    /// Gives up the node for its partition's items.
    pub fn into_store(self) -> Store {
        self.participant.store
    }

    /// How many transactions are prepared here and neither committed nor aborted.
    pub fn prepared(&self) -> usize {
        self.participant.prepared()
    }

    /// How many transactions over several partitions this node keeps sibling metadata of.
    pub fn metadata_kept(&self) -> usize {
        self.participant.metadata_kept()
    }

    /// Whether no transaction runs, is prepared, or waits for an acknowledgement here.
    pub fn is_idle(&self) -> bool {
        self.current.is_none()
            && self.attempts.is_empty()
            && self.prepared() == 0
            && self.context.stability.is_idle()
            && self.sticky.as_ref().is_none_or(|sticky| sticky.is_idle())
    }

    pub(crate) fn send(&mut self, to: NodeId, message: Message, out: &mut Outbox<Stamped>) {
        let (stable, exceptions) = self.context.stability.report(to);
        let frontier = self.context.stability.frontier().cloned();
        self.counters.messages += 1;
        let stamped = Stamped {
            stable,
            exceptions,
            frontier,
            message,
        };
        out.messages.push((to, stamped));
    }

    pub(crate) fn owner(&self, partition: PartitionId) -> NodeId {
        self.topology.owner(partition)
    }

    fn handle_message(&mut self, from: NodeId, stamped: Stamped, out: &mut Outbox<Stamped>) {
        let (stable, frontier) = (stamped.stable, stamped.frontier.as_ref());
        let exceptions = stamped.exceptions.as_ref();
        self.context
            .stability
            .learn(from, stable, exceptions, frontier);
        if self.options.causal {
            // Transactions that waited for their dependencies may have become stable.
            self.schedule_announce(out);
        }
        match stamped.message {
            Message::Get {
                transaction,
                at,
                request,
            } => self.handle_get(from, transaction, (at, *request), out),
            Message::Got {
                transaction,
                result,
            } => {
                self.handle_got(transaction, from, stamped.stable, result, out);
            }
            Message::LookUp {
                transaction,
                required,
            } => self.handle_look_up(from, transaction, &required, out),
            Message::LookedUp {
                transaction,
                result,
            } => self.handle_looked_up(transaction, from, result, out),
            Message::Prepare(prepare) => self.handle_prepare(from, *prepare, out),
            Message::Vote { transaction, vote } => {
                let vote = vote.map_err(|reason| *reason);
                self.handle_vote(transaction, from, vote, out);
            }
            Message::Commit {
                transaction,
                decided,
            } => self.handle_commit(from, transaction, decided, out),
            Message::Committed { transaction, slots } => {
                let slots = slots.map_err(|error| *error);
                self.handle_committed(transaction, from, slots, out);
            }
            Message::Abort { prepared } => self.participant.abort(&mut self.context, prepared),
            Message::CommitAlone(alone) => self.handle_commit_alone(from, *alone, out),
            Message::CommittedAlone {
                transaction,
                result,
            } => {
                let result = result.map_err(|reason| *reason);
                self.handle_committed_alone(transaction, result, out);
            }
            Message::Stable => {}
            Message::Gossip {
                readers,
                anywhere,
                but,
            } => {
                let stability = &mut self.context.stability;
                stability.learn_unneeded(from, readers, anywhere, but.as_ref());
            }
            Message::Await { commit } => self.handle_await(from, commit, out),
            Message::Replicate { replicate, lowest } => {
                self.handle_replicate(from, *replicate, lowest, out)
            }
            Message::Replicated { origin_commit } => self.handle_replicated(from, origin_commit),
            Message::Inquire {
                transaction,
                prepared,
            } => self.handle_inquire(from, transaction, prepared, out),
        }
    }

    /// Why a transaction cannot have this name: it names another coordinator, or its time is too far ahead. A
    /// repeated name is refused by the participant.
    pub(crate) fn misnamed(
        &self,
        coordinator: NodeId,
        transaction: TransactionId,
        prepared: Timestamp,
    ) -> Option<EffectError> {
        if transaction.node != coordinator || prepared.node() != coordinator {
            return Some(misnamed(format!(
                "{prepared} names a transaction of another node than {coordinator}"
            )));
        }
        self.context.refuses_clock(prepared, coordinator)
    }

    /// Adds what the participant has counted.
    pub(crate) fn count_false_positives(&mut self) {
        self.counters.false_positives += self.participant.take_false_positives();
    }
}

impl Protocol for RampNode {
    type Message = Stamped;

    fn collect_versions(&mut self, now: Ticks, budget: usize) {
        self.participant.hold_horizon();
        self.participant.store.collect(now, budget);
    }

    fn step(&mut self, now: Ticks, input: Input<Stamped>, out: &mut Outbox<Stamped>) {
        self.context.now = now;
        if self.context.stability.age(now) {
            self.participant.settle(&self.context.stability);
            self.record_settled();
        }
        match input {
            Input::Request {
                transaction,
                request,
            } => match request {
                Request::Follow(session) => self.follow(transaction, &session),
                Request::WaitByAge(_) | Request::Global => {}
                Request::Declare(_) => out.replies.push((transaction, crate::Reply::Declared)),
                Request::Read(reads) => self.read(transaction, reads, out),
                Request::Commit(effects) => self.commit(transaction, effects, out),
                Request::CommitReads => self.commit_reads(transaction, out),
                Request::Abort => self.forget(transaction),
            },
            Input::Message { from, message } => self.handle_message(from, message, out),
            Input::Timer(TERMINATE) => self.terminate(out),
            Input::Timer(RETRY_REMOTE) => self.retry_remote(out),
            Input::Timer(AWAIT) => self.await_stable(out),
            Input::Timer(RETRY) => self.retry(out),
            Input::Timer(GOSSIP) => self.gossip(out),
            Input::Timer(_) => self.announce(out),
            Input::Restarted { node } => self.handle_restarted(node, out),
        }
        self.counters.terminations += self.participant.take_terminations();
        if self.options.causal {
            self.schedule_await(out);
        }
        self.schedule_gossip(out);
        self.context.write_records(out);
    }

    fn observe(&mut self, probe: ActivityProbe) {
        self.context.probe = probe;
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.context.stability.check_invariants()?;
        if let Some(journal) = &self.context.journal {
            journal.check_invariants(&self.context.clock)?;
        }
        self.participant.check_invariants(&self.context.stability)?;
        self.check_attempts()
    }
}

/// How many nodes there are, counted to the highest.
pub(crate) fn nodes(topology: &Topology) -> usize {
    let all = topology.everywhere().flatten();
    all.map(|owner| owner.index() + 1).max().unwrap_or(0)
}
