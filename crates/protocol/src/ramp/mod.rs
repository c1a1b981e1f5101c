//! RAMP-Fast, -Small and -Hybrid (ramp.txt §4), for read-write transactions, ranges, counters and
//! guards.
//!
//! Readers see all of a transaction's effects or none, and nobody waits for anybody. A transaction
//! over several partitions is *prepared* on each of them before it is shown on any, and each of them
//! keeps metadata of it. So a reader that meets it on one partition knows what to ask the others, and
//! what it misses there is prepared at least: the owner shows it on demand. The three differ in how
//! much the metadata say of what was written where ([`Metadata`]), and in nothing else.
//!
//! What differs from the paper, in short (the page `docs/protocols/ramp.md` has the reasons, the
//! message table and the numbered invariants):
//!
//! * An owner installs versions in one order, and a reader reads one *snapshot* of each partition,
//!   a prefix of that order. So whether a reader includes a transaction is one comparison of
//!   sequences, also for counters, where a higher timestamp says nothing about inclusion.
//! * A reader that lacks a transaction asks for a newer snapshot that *includes* it, instead of for
//!   one version by its timestamp. If it has shown rows of the older snapshot to the procedure
//!   already, it is restarted.
//! * RAMP-Fast's metadata name items by 8-byte tags; transactions on one partition carry none.
//! * RAMP-Small has no second round where no transaction is in evidence: all that wrote what was read
//!   are known to be committed everywhere.
//! * Guards are validated and held from the vote to the commit; a conflict is a no, never a wait.
//!
//! * [`message`]: what nodes say to each other.
//! * `attempt`: what a coordinator knows of a transaction.
//! * `reads`, `commits`: the rounds of the transactions that run at a node.
//! * `participant`: the owner of a partition: snapshots, evidence, prepared transactions.
//! * `holds`: what prepared transactions hold.
//! * `durable`, [`record`]: what is made durable, and how a node comes back.
//! * [`siblings`]: what a transaction over several partitions has written; [`filter`]: in few bits.
//! * `termination`: what becomes of a transaction whose coordinator stays away.
//! * `prepare_f`: writes that are prepared in several clusters, and shown when all have them.
//! * `sticky`: clusters that take over what others have committed.
//! * `quorum`: majorities of copies that prepare, and any copy that is read.
//! * [`past`], `causal`: what transactions follow, for causal consistency.
//! * `stability`: which transactions need no metadata any more; `gossip`: before their time is over.
//! * [`nwnr`]: the same contract without any concurrency control, as the upper bound.

mod attempt;
mod causal;
mod commits;
mod durable;
pub mod filter;
mod gossip;
mod holds;
mod known;
pub mod message;
pub mod nwnr;
mod participant;
pub mod past;
mod prepare_f;
mod quorum;
mod reads;
pub mod record;
pub mod siblings;
mod stability;
mod sticky;
mod termination;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use anabranch_storage::Store;
use anabranch_types::{
    ActivityProbe, EffectError, HybridClock, NodeId, PartitionId, RowPrograms, Ticks, Timestamp,
};
use rustc_hash::FxHashMap;

use self::attempt::{Attempt, Phase};
use self::causal::AWAIT;
use self::gossip::GOSSIP;
use self::message::{Message, Stamped};
use self::participant::{Context, Participant};
use self::quorum::RETRY;
use self::stability::{Aside, Stability};
use self::sticky::{AGAIN, Sticky};
use self::termination::{MILLION, TERMINATE};
use crate::{
    AbortReason, Counters, Input, Outbox, Protocol, Request, TimerId, Topology, TransactionId,
};

pub use self::filter::{FilterSize, FilterSizeError};
pub use self::nwnr::NwnrNode;
pub use self::siblings::Metadata;

/// How a RAMP node behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RampOptions {
    /// For how long a node may keep to itself what has become stable when it has nothing else to
    /// say to a participant.
    pub announce_after: Ticks,
    /// For how long evidence of a transaction is kept after it has become stable everywhere. A
    /// transaction that reads from several partitions for longer is restarted.
    pub retain: Ticks,
    /// How often a node tells another one what evidence no reader needs any more, so that it goes before
    /// [`RampOptions::retain`] is over (ramp.txt §4.5): all others once in so many times this. Never, if there is none, nor under causal RAMP or where
    /// several clusters have all partitions.
    pub gossip_after: Option<Ticks>,
    /// After how many repairs of one batch of reads the transaction is restarted.
    pub rounds_max: u32,
    /// Which RAMP it is. The same on all nodes.
    pub metadata: Metadata,
    /// For how long a participant waits for the end of what it has prepared before it asks the
    /// coordinator and the other participants (ramp.txt §4.6); it asks again after twice as long, and
    /// so on. Never, if there is none: then nobody asks a copy again that has refused, under Prepare-F
    /// and quorums, and what it refused may stay undecided.
    pub terminate_after: Option<Ticks>,
    /// How far ahead of this node's clock another node's may be. The name of a transaction that is further
    /// ahead is refused, and so is a vote, and a decision that would be as far ahead of a participant's
    /// vote: it would take the clock along, and every timestamp after it.
    pub ahead_max: Ticks,
    /// One-phase writes (ramp.txt §4.8): a client is answered when its transaction is decided, before
    /// the participants show it. It gives up reading its writes at other nodes for one round less;
    /// what a transaction writes is shown whole all the same. Transactions whose answers have to carry
    /// values from other partitions are answered as ever.
    pub one_phase: bool,
    /// Causal RAMP (ramp.txt §6.3): whoever sees a transaction also sees what its writer had seen, and a
    /// client goes on from what it has seen at whichever node. The same on all nodes.
    pub causal: bool,
    /// For how long a node's oldest transaction may wait for what it follows to be known to be everywhere
    /// before those who know are asked. Of causal RAMP.
    pub await_after: Ticks,
    /// How many transactions that are not known to be shown everywhere one that writes may follow. One
    /// that would follow more is aborted with `conflict`, and tried again when fewer are in flight. At
    /// least 1. Of causal RAMP.
    pub past_max: u32,
    /// A transaction over several partitions that some participant has not acknowledged for so long, and for
    /// four times as long as the faster quarter takes, and that [`RampOptions::aside_behind`] later ones wait for, no longer holds up what is known to be stable:
    /// it is set aside, and told by name. After an eighth of this, if all others that take part have acknowledged later
    /// ones, and there are no hundreds of such. Not under causal RAMP, nor where several clusters have all partitions.
    pub aside_after: Ticks,
    /// How many later ones have to wait for it.
    pub aside_behind: u32,
    /// How many a coordinator sets aside at a time, at most; 0 for none.
    pub aside_max: u32,
    /// For experiments with blocked writes (ramp.txt §5.3), of a million: how many transactions over
    /// several partitions, spread evenly, a coordinator decides without telling the other
    /// participants; their clients are answered at once, and participants learn by asking. Those
    /// whose answers have to carry values from other partitions are never chosen. Nobody who is not
    /// after that measurement wants anything but 0.
    pub unsent_commits: u32,
    /// Prepare-F (ramp.txt §6.1), where several clusters have all partitions: a client is answered when
    /// what it writes is durable in so many clusters and one more, and it is shown when it is in all.
    /// None: there is one cluster.
    pub prepare_f: Option<u16>,
    /// Sticky clusters (ramp.txt §6.1), where several clusters have all partitions: each commits by itself,
    /// and takes over what the others have committed.
    pub sticky: bool,
    /// Quorum operation (ramp.txt §6.2), where several clusters have a copy of each partition: a transaction is
    /// decided when a majority of the copies of each partition has it. A copy that has not answered a read
    /// for so long is left to itself, and another one asked as well.
    pub quorum: Option<Ticks>,
}

impl RampOptions {
    /// Whether what is written is bound under one timestamp in several clusters, whose coordinator writes
    /// its intent down before it asks anybody.
    fn binds(&self) -> bool {
        self.prepare_f.is_some() || self.quorum.is_some()
    }
}

impl RampOptions {
    /// Whether one number a coordinator says all that is to be known of stability: nobody follows anything, and
    /// there is one cluster.
    fn is_plain(&self) -> bool {
        !self.causal && !self.sticky && !self.binds()
    }

    /// How often nodes gossip, if they do.
    fn gossips_after(&self) -> Option<Ticks> {
        self.gossip_after.filter(|_| self.is_plain())
    }

    /// When transactions are set aside.
    fn aside(&self) -> Option<Aside> {
        let may = self.aside_max > 0 && self.is_plain();
        may.then_some(Aside {
            after: self.aside_after,
            behind: self.aside_behind as usize,
            most: self.aside_max as usize,
            parted: self.gossips_after().map_or(0, |_| self.aside_max as usize),
        })
    }
}

impl Default for RampOptions {
    /// RAMP-Fast; 10 ms, 500 ms, gossip every millisecond, 8 rounds; termination after the paper's 5 s; clocks at most
    /// an hour ahead; two-phase writes, nothing causal (50 ms to wait, 1,024 to follow), up to 16,384
    /// transactions set aside after 10 ms that 128 wait for, and every commit sent.
    fn default() -> Self {
        RampOptions {
            announce_after: Ticks::from_millis(10),
            retain: Ticks::from_millis(500),
            gossip_after: Some(Ticks::from_millis(1)),
            rounds_max: 8,
            metadata: Metadata::Fast,
            terminate_after: Some(Ticks::from_millis(5_000)),
            ahead_max: Ticks::from_millis(3_600_000),
            one_phase: false,
            causal: false,
            await_after: Ticks::from_millis(50),
            past_max: 1_024,
            aside_after: Ticks::from_millis(10),
            aside_behind: 128,
            aside_max: 16_384,
            unsent_commits: 0,
            prepare_f: None,
            sticky: false,
            quorum: None,
        }
    }
}

/// A node: the owner of one partition, and the coordinator of the transactions that run at it.
#[derive(Clone)]
pub struct RampNode {
    partition: PartitionId,
    topology: Arc<Topology>,
    options: RampOptions,
    context: Context,
    participant: Participant,
    /// The attempt that was answered last within its step. A transaction that stays on this
    /// partition is found here and never enters the map.
    current: Option<(TransactionId, Box<Attempt>)>,
    attempts: FxHashMap<TransactionId, Box<Attempt>>,
    /// Some that are over, and cleared: the next ones are in the processor's caches already.
    #[expect(clippy::vec_box, reason = "a box goes to the next attempt as it is")]
    spare: Vec<Box<Attempt>>,
    announcing: bool,
    /// Whether the timer is set that lets the node tell how far its readers are.
    gossiping: bool,
    /// Whether the timer is set that looks for what has been prepared for too long.
    terminating: bool,
    /// When owners that refused what must be may be asked again.
    offer_again: Ticks,
    /// The oldest own transaction that waited for what it follows when the timer was set that looks for such.
    awaiting: Option<Timestamp>,
    /// Whether the timer is set that looks for reads that were not answered in time.
    retrying: bool,
    /// Copies with which reads of quorums could not go on, or that were silent, and since when: others come first.
    avoided: Vec<(NodeId, Ticks)>,
    /// Decisions that no participant was told of, and until when these may find out themselves.
    unsent: VecDeque<(Ticks, TransactionId)>,
    /// How far the next one is, in millionths.
    unsent_share: u32,
    /// What is between this node and other clusters, if these are sticky.
    sticky: Option<Box<Sticky>>,
    counters: Counters,
}

/// What a step may depend on: neither what is the same for ever nor what is only counted. So two
/// nodes that show the same go on alike; exhaustive exploration tells states apart by it.
impl fmt::Debug for RampNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RampNode")
            .field("context", &self.context)
            .field("participant", &self.participant)
            .field("current", &self.current)
            .field("attempts", &self.attempts)
            .field("announcing", &self.announcing)
            .field("gossiping", &self.gossiping)
            .field("terminating", &(self.terminating, self.offer_again))
            .field("awaiting", &self.awaiting)
            .field("retrying", &self.retrying)
            .field("avoided", &self.avoided)
            .field("unsent", &(&self.unsent, self.unsent_share))
            .field("sticky", &self.sticky)
            .finish_non_exhaustive()
    }
}

/// How many attempts that are over a node keeps, to use them again.
const SPARE: usize = 64;

/// The timer that lets a node tell participants what is stable.
const ANNOUNCE: TimerId = TimerId(0);

impl RampNode {
    /// A node that owns the partition whose items `store` holds.
    ///
    /// # Panics
    /// When the topology does not give the node exactly one partition, or more than a million of a
    /// million commits are to stay unsent, or some are and nobody would ask for them; or when nothing may
    /// be followed.
    pub fn new(
        node: NodeId,
        topology: Arc<Topology>,
        store: Store,
        programs: Arc<dyn RowPrograms>,
        options: RampOptions,
    ) -> RampNode {
        let partition = topology.owned_by(node);
        let unsent = options.unsent_commits;
        assert!(
            unsent <= MILLION && (unsent == 0 || options.terminate_after.is_some()),
            "{unsent} unsent commits of a million, and termination after {:?}",
            options.terminate_after
        );
        assert!(options.past_max > 0, "somebody may follow nothing");
        let mut store = store;
        if let Some(failures) = options.prepare_f {
            assert!(
                usize::from(failures) <= topology.elsewhere.len() && !topology.elsewhere.is_empty(),
                "the loss of {failures} of {} clusters is outlived by nobody",
                topology.elsewhere.len() + 1
            );
            assert!(
                !options.causal && !options.one_phase && unsent == 0,
                "Prepare-F has one timestamp and one answer"
            );
            store.keep_writers();
        }
        if options.sticky {
            assert!(
                options.prepare_f.is_none() && !options.causal && !options.one_phase && unsent == 0,
                "clusters follow each other in one way, and clients are answered in one"
            );
            store.keep_writers();
        }
        if options.quorum.is_some() {
            assert!(
                !topology.elsewhere.is_empty(),
                "quorums are of several copies"
            );
            assert!(
                options.prepare_f.is_none() && !options.sticky && !options.causal,
                "clusters are copies in one way"
            );
            assert!(
                !options.one_phase && unsent == 0,
                "clients are answered in one way"
            );
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
                    options.aside(),
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
            offer_again: Ticks::default(),
            awaiting: None,
            retrying: false,
            avoided: Vec::new(),
            unsent: VecDeque::new(),
            unsent_share: 0,
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

    /// How many transactions over several partitions this node remembers so that readers can be told of them.
    pub fn evidence_kept(&self) -> usize {
        self.participant.evidence_kept()
    }

    /// Whether no transaction runs, is prepared, or waits for an acknowledgement here.
    pub fn is_idle(&self) -> bool {
        self.current.is_none()
            && self.attempts.is_empty()
            && self.prepared() == 0
            && self.context.stability.is_idle()
            && self.sticky.as_ref().is_none_or(|sticky| sticky.is_idle())
    }

    fn send(&mut self, to: NodeId, message: Message, out: &mut Outbox<Stamped>) {
        let (stable, strays) = self.context.stability.tell(to);
        let frontier = self.context.stability.frontier().cloned();
        self.counters.messages += 1;
        let stamped = Stamped {
            stable,
            strays,
            frontier,
            message,
        };
        out.messages.push((to, stamped));
    }

    fn owner(&self, partition: PartitionId) -> NodeId {
        self.topology.owner(partition)
    }

    fn handle_message(&mut self, from: NodeId, stamped: Stamped, out: &mut Outbox<Stamped>) {
        let (stable, frontier) = (stamped.stable, stamped.frontier.as_ref());
        let strays = stamped.strays.as_ref();
        self.context.stability.heard(from, stable, strays, frontier);
        if self.options.causal {
            // What waited for what it follows may have become stable.
            self.announce_later(out);
        }
        match stamped.message {
            Message::Get {
                transaction,
                at,
                question,
            } => {
                let (reads, require) = (question.reads.iter(), question.require());
                let up_to = question.demands.as_ref();
                let up_to = up_to.and_then(|demands| demands.up_to.as_ref());
                let (context, known) = (&mut self.context, &question.known);
                let result = (self.participant).get(context, at, reads, require, known, up_to);
                self.count_false_positives();
                self.send(
                    from,
                    Message::Got {
                        transaction,
                        result,
                    },
                    out,
                );
            }
            Message::Got {
                transaction,
                result,
            } => {
                self.handle_got(transaction, from, stamped.stable, result, out);
            }
            Message::LookUp {
                transaction,
                require,
            } => {
                let result = self.participant.look_up(&self.context, &require);
                let told = Message::LookedUp {
                    transaction,
                    result,
                };
                self.send(from, told, out);
            }
            Message::LookedUp {
                transaction,
                result,
            } => self.handle_looked_up(transaction, from, result, out),
            Message::Prepare(prepare) => {
                let transaction = prepare.transaction;
                let vote = match self.misnamed(from, transaction, prepare.prepared) {
                    Some(error) => Err(AbortReason::Failed(error)),
                    None => {
                        self.context.clock.observe(prepare.prepared);
                        match self.options.binds() {
                            true => self.participant.bind(&mut self.context, *prepare),
                            false => self.participant.prepare(&mut self.context, *prepare),
                        }
                    }
                };
                let vote = vote.map_err(Box::new);
                self.send(from, Message::Vote { transaction, vote }, out);
                self.terminate_later(out);
            }
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
            Message::CommitAlone(alone) => {
                let result = self.commit_alone(alone.work, alone.past, out);
                let result = result.map_err(Box::new);
                let transaction = alone.transaction;
                self.send(
                    from,
                    Message::CommittedAlone {
                        transaction,
                        result,
                    },
                    out,
                );
            }
            Message::CommittedAlone {
                transaction,
                result,
            } => {
                let past = match self.take(transaction).map(|attempt| attempt.phase) {
                    Some(Phase::Alone { past, .. }) => past,
                    _ => None,
                };
                let result = result.map_err(|reason| *reason);
                self.handle_committed_alone(transaction, past.as_deref(), result, out);
            }
            Message::Stable => {}
            Message::Gossip {
                readers,
                anywhere,
                but,
            } => {
                let stability = &mut self.context.stability;
                stability.heard_unneeded(from, readers, anywhere, but.as_ref());
            }
            Message::Await { commit } => self.handle_await(from, commit, out),
            Message::Forward { forward, lowest } => {
                self.handle_forward(from, *forward, lowest, out)
            }
            Message::Forwarded { place } => self.handle_forwarded(from, place),
            Message::Inquire {
                transaction,
                prepared,
            } => self.handle_inquire(from, transaction, prepared, out),
        }
    }

    /// Why a transaction cannot have this name: it has another coordinator, or is from a time that is
    /// not to come for long. Who repeats a name is told so by the participant.
    pub(super) fn misnamed(
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

    /// Takes over what the participant has counted.
    fn count_false_positives(&mut self) {
        self.counters.false_positives += self.participant.take_false_positives();
    }

    /// Sets aside what has held up for long what is known to be stable.
    fn set_aside(&mut self) {
        if self.context.stability.is_held_up() {
            let since = self.context.clock.next(self.context.now);
            self.counters.set_aside += self.context.stability.set_aside(since);
        }
    }

    /// Sets the timer if somebody waits to be told what is stable.
    fn announce_later(&mut self, out: &mut Outbox<Stamped>) {
        let stability = &self.context.stability;
        if !self.announcing && (stability.has_fewer() || stability.untold().next().is_some()) {
            self.announcing = true;
            let longer = stability.longer_between_lists();
            let after = self.options.announce_after.0.saturating_mul(longer);
            out.timers.push((self.context.now + Ticks(after), ANNOUNCE));
        }
    }

    fn announce(&mut self, out: &mut Outbox<Stamped>) {
        self.announcing = false;
        if self.context.stability.has_fewer() {
            let since = self.context.clock.next(self.context.now);
            self.context.stability.say(since);
        }
        let untold: Vec<NodeId> = self.context.stability.untold().collect();
        for node in untold {
            self.send(node, Message::Stable, out);
        }
        self.participant.collect(&self.context);
    }
}

impl Protocol for RampNode {
    type Message = Stamped;

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
                Request::Declare(_) => out.replies.push((transaction, crate::Reply::Declared)),
                Request::Read(reads) => self.read(transaction, reads, out),
                Request::Commit(effects) => self.commit(transaction, effects, out),
                Request::Abort => self.forget(transaction),
            },
            Input::Message { from, message } => self.handle_message(from, message, out),
            Input::Timer(TERMINATE) => self.terminate(out),
            Input::Timer(AGAIN) => self.take_over_again(out),
            Input::Timer(AWAIT) => self.await_stable(out),
            Input::Timer(RETRY) => self.retry(out),
            Input::Timer(GOSSIP) => self.gossip(out),
            Input::Timer(_) => self.announce(out),
            Input::Restarted { node } => self.handle_restarted(node, out),
        }
        self.counters.terminations += self.participant.take_terminations();
        if self.options.causal {
            self.await_later(out);
        }
        self.gossip_later(out);
        self.context.write_down(out);
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

/// What a transaction's name, or the clock that it is from, is refused with.
fn misnamed(message: String) -> EffectError {
    EffectError {
        code: "58000",
        message,
        constraint: None,
    }
}

/// How many nodes there are, counted to the highest.
fn nodes(topology: &Topology) -> usize {
    let all = topology.everywhere().flatten();
    all.map(|owner| owner.index() + 1).max().unwrap_or(0)
}
