//! The cost model of processing: each node is a queue of inputs before a number of cores.
//!
//! Without costs a node processes an input when it arrives, and a run gives latencies and order. With
//! costs an input waits for a free core. It occupies the core for the mean time that the real code took
//! for a step of its kind ([`StepKind`]) when [`Costs`] were calibrated, and its output leaves at the
//! end of that time. So a run also gives throughput. Every number that comes from it is *simulated*,
//! and names the calibration.
//!
//! The model:
//!
//! * A step's logic runs when a core takes it. Messages, answers and the core follow after its cost.
//!   Steps of one node overlap, as if all its cores shared its store. (In the embedded cluster a thread
//!   owns its shards: there a node has one core.)
//! * The sender and the receiver of a message, a call or an answer each pay for its transport.
//! * A *span*: rows that a step locks and releases are closed to other steps for the whole step under
//!   locking, and for the guarded increment under the other protocols. Later steps that change the same
//!   rows in the same way wait: under locking off the core, as a blocked thread does; for a guard they
//!   spin. Locks over several steps belong to the protocol and need no model.
//!
//! Not modelled: memory bandwidth and shared caches, so cores scale better than real ones; a locked row
//! that is only read; a transaction over several nodes that arrives during another's span (it is
//! admitted at once, which favours locking).

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hasher;

use anabranch_engine::{AttemptOutcome, AttemptRecord};
use anabranch_types::{Effect, PartitionId, Ticks};
use rustc_hash::{FxHashMap, FxHasher};
use serde::{Deserialize, Serialize};

/// A kind of step: the properties on which its cost depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepKind {
    /// What the node was given.
    pub input: InputKind,
    /// The number of calls that it answered. A step that releases a lock also runs the transactions that waited for it.
    pub answers: u16,
    /// Whether it sent messages.
    pub sends: bool,
    /// The number of transactions that a site certified in it, which the cost grows with. Then `answers` is at most 1.
    pub certified: u16,
}

/// A kind of input to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InputKind {
    /// A call of the workload's procedure of this name.
    Call(&'static str),
    /// A message of this name.
    Message(&'static str),
    /// A timer.
    Tick,
}

impl StepKind {
    /// A step that sent messages or did not, answered so many calls, and certified so many transactions. The calls that
    /// a site answers are among those that it certifies.
    pub(crate) fn new(input: InputKind, sends: bool, answers: usize, certified: u64) -> StepKind {
        let answers = if certified > 0 {
            answers.min(1)
        } else {
            answers
        };
        StepKind {
            input,
            answers: answers as u16,
            sends,
            certified: certified.min(u16::MAX.into()) as u16,
        }
    }

    /// Its name in a calibration: `call new_order, answers`, or `message Committed, answers 3`.
    pub fn name(&self) -> String {
        let mut name = match self.input {
            InputKind::Call(procedure) => format!("call {procedure}"),
            InputKind::Message(message) => format!("message {message}"),
            InputKind::Tick => "timer".to_owned(),
        };
        if self.sends {
            name.push_str(", sends");
        }
        match self.answers {
            0 => {}
            1 => name.push_str(", answers"),
            more => name.push_str(&format!(", answers {more}")),
        }
        name
    }
}

/// Measures each step of a node with a clock, which the caller provides.
pub trait Meter {
    /// A step begins.
    fn begin(&mut self);
    /// The step has ended, and was of this kind.
    fn end(&mut self, kind: StepKind);
}

/// The cost of one kind of step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepCost {
    /// [`StepKind::name`].
    pub step: String,
    /// Nanoseconds of one core.
    pub nanos: f64,
    /// Nanoseconds more for each transaction that a site certifies in the step.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub certified_nanos: f64,
    /// The number of measured steps, of which that is the mean.
    pub steps: u64,
}

fn is_zero(nanos: &f64) -> bool {
    *nanos == 0.0
}

/// The costs of one protocol's steps in one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// The name of the calibration, for all reports that use it.
    pub calibration: String,
    /// Nanoseconds to send, and again to receive, one message between nodes.
    pub message_nanos: f64,
    /// Nanoseconds to receive a client's call, and again to send its answer.
    pub client_nanos: f64,
    /// Nanoseconds that the guarded increment of a row takes.
    pub guard_nanos: f64,
    /// By kind of step.
    pub steps: Vec<StepCost>,
}

/// A node's processor.
#[derive(Clone, Debug)]
pub struct Processor {
    /// The number of steps that run at a time.
    pub cores: u16,
    /// The costs of steps.
    pub costs: Costs,
}

/// The usage of all cores in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Busy time of all nodes' cores, in nanoseconds.
    pub busy: u64,
    /// The part of it for messages, calls and answers.
    pub transport: u64,
    /// The part of it that spun for guards.
    pub spinning: u64,
    /// Nanoseconds that blocked steps waited for locks of others.
    pub blocked: u64,
    /// Steps of kinds that the calibration lacks, charged as the nearest kind.
    pub guessed: u64,
    /// The number of steps.
    pub steps: u64,
}

impl Usage {
    /// The usage since an earlier one.
    #[must_use]
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            busy: self.busy - earlier.busy,
            transport: self.transport - earlier.transport,
            spinning: self.spinning - earlier.spinning,
            blocked: self.blocked - earlier.blocked,
            guessed: self.guessed - earlier.guessed,
            steps: self.steps - earlier.steps,
        }
    }
}

/// The costs of a run, looked up quickly.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) cores: u16,
    message: u64,
    client: u64,
    guard: u64,
    /// Whether a span is the whole step (locking), or the guarded increment only.
    whole_steps: bool,
    /// By name: nanoseconds, and more for each certified transaction.
    named: BTreeMap<String, (u64, u64)>,
    known: FxHashMap<StepKind, (u64, bool)>,
    pub(crate) usage: Usage,
}

/// The state of a node's cores.
#[derive(Debug)]
pub(crate) struct Cores<I> {
    /// The number of busy cores.
    pub(crate) busy: u16,
    /// Inputs that wait for a core.
    pub(crate) waiting: VecDeque<I>,
    /// Whether a timer is among them.
    pub(crate) timer_waits: bool,
    /// The end of the last span of each row, by the row's hash. Two rows share a hash once in 2^64; then steps wait
    /// needlessly.
    held: FxHashMap<u64, Ticks>,
}

impl<I> Default for Cores<I> {
    fn default() -> Self {
        Cores {
            busy: 0,
            waiting: VecDeque::new(),
            timer_waits: false,
            held: FxHashMap::default(),
        }
    }
}

/// The end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// When its core becomes free.
    pub(crate) core: Ticks,
    /// When its output leaves.
    pub(crate) results: Ticks,
}

/// A step in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) kind: StepKind,
    /// The number of messages that it sends.
    pub(crate) sent: usize,
    /// The number of calls that it answers.
    pub(crate) answered: usize,
}

/// Spans that have ended are removed when there are more than this.
const HELD_MAX: usize = 1 << 14;

impl Model {
    pub(crate) fn new(processor: &Processor, whole_steps: bool) -> Model {
        let costs = &processor.costs;
        let named = costs.steps.iter();
        Model {
            cores: processor.cores.max(1),
            message: costs.message_nanos as u64,
            client: costs.client_nanos as u64,
            guard: costs.guard_nanos as u64,
            whole_steps,
            named: named
                .map(|cost| {
                    let nanos = (cost.nanos as u64, cost.certified_nanos as u64);
                    (cost.step.clone(), nanos)
                })
                .collect(),
            known: FxHashMap::default(),
            usage: Usage::default(),
        }
    }

    /// The cost of a step of this kind, without transport.
    fn step(&mut self, kind: StepKind) -> u64 {
        let (nanos, exact) = match self.known.get(&kind) {
            Some(known) => *known,
            None => {
                let found = self.look_up(kind);
                self.known.insert(kind, found);
                found
            }
        };
        self.usage.guessed += u64::from(!exact);
        nanos
    }

    /// The kind's own cost, and whether it is exact. If the calibration lacks the kind: the cost of the nearest kind
    /// with the same input, plus a call's cost for each answer that it lacks. If there is none: the mean.
    fn look_up(&self, kind: StepKind) -> (u64, bool) {
        let of = |(nanos, each): &(u64, u64)| nanos + each * u64::from(kind.certified);
        if let Some(cost) = self.named.get(&kind.name()) {
            return (of(cost), true);
        }
        for answers in (0..=kind.answers).rev() {
            for sends in [kind.sends, !kind.sends] {
                let near = StepKind {
                    input: kind.input,
                    sends,
                    answers,
                    ..kind
                };
                if let Some(cost) = self.named.get(&near.name()) {
                    let more = u64::from(kind.answers - answers.max(1).min(kind.answers));
                    // A site's answers are among what it certifies.
                    let more = if kind.certified > 0 { 0 } else { more };
                    return (of(cost) + more * self.call_nanos(), false);
                }
            }
        }
        for sends in [kind.sends, !kind.sends] {
            let more = StepKind {
                sends,
                answers: kind.answers + 1,
                ..kind
            };
            if let Some(cost) = self.named.get(&more.name()) {
                return (of(cost), false);
            }
        }
        let count = self.named.len().max(1) as u64;
        (self.named.values().map(of).sum::<u64>() / count, false)
    }

    /// The end of a step that begins `now` at the owner of `home`. `attempts` are the attempts that it ended.
    pub(crate) fn end<I>(
        &mut self,
        now: Ticks,
        home: PartitionId,
        step: Step,
        attempts: &[AttemptRecord],
        cores: &mut Cores<I>,
    ) -> End {
        let Step {
            kind,
            sent,
            answered,
        } = step;
        let mut cost = self.step(kind);
        let (came, called) = match kind.input {
            InputKind::Call(_) => (0, 1),
            InputKind::Message(_) => (1, 0),
            InputKind::Tick => (0, 0),
        };
        let transport =
            self.message * (sent as u64 + came) + self.client * (answered as u64 + called);
        cost += transport;
        self.usage.steps += 1;
        self.usage.transport += transport;
        self.usage.busy += cost;
        let done = now + Ticks(cost);
        let span = if self.whole_steps { cost } else { self.guard };
        let free = keys(home, attempts, self.whole_steps)
            .filter_map(|key| cores.held.get(&key).copied())
            .max()
            .unwrap_or_default();
        // The span is the last part of the step.
        let results = done.max(free + Ticks(span));
        for key in keys(home, attempts, self.whole_steps) {
            cores.held.insert(key, results);
        }
        if cores.held.len() > HELD_MAX {
            // tidy: order-free because each entry is tested by itself.
            cores.held.retain(|_, until| *until > now);
        }
        let waited = results.since(done).0;
        if self.whole_steps {
            self.usage.blocked += waited;
            return End {
                core: done,
                results,
            };
        }
        self.usage.spinning += waited;
        self.usage.busy += waited;
        End {
            core: results,
            results,
        }
    }

    /// The cost of a call alone: the most expensive kind of step that takes a call and answers it.
    fn call_nanos(&self) -> u64 {
        let alone = |name: &str| {
            name.starts_with("call ") && name.ends_with(", answers") && !name.contains(", sends")
        };
        let calls = self.named.iter().filter(|(name, _)| alone(name));
        calls
            .map(|(_, (nanos, _))| *nanos)
            .max()
            .unwrap_or_default()
    }
}

/// The hashes of rows of `home` that committed attempts changed: by any update, or by guards only.
fn keys(
    home: PartitionId,
    attempts: &[AttemptRecord],
    all: bool,
) -> impl Iterator<Item = u64> + '_ {
    let committed = attempts
        .iter()
        .filter(|attempt| matches!(attempt.outcome, AttemptOutcome::Committed(_)));
    let parts = committed
        .flat_map(|attempt| &attempt.effects)
        .filter(move |part| part.partition == home);
    parts.flat_map(move |part| {
        let effects = part.effects.iter().zip(0..);
        let chosen = effects.filter(move |(effect, at)| match effect {
            Effect::Insert { .. } => false,
            _ => all || part.guards.contains(at),
        });
        chosen.map(|(effect, _)| {
            let mut hash = FxHasher::default();
            hash.write_u16(effect.table().0);
            hash.write(effect.key().as_bytes());
            hash.finish()
        })
    })
}

#[cfg(test)]
mod tests;
