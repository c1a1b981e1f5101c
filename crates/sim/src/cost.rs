//! What processing costs: each node is a queue of inputs before a number of cores.
//!
//! Without costs a node takes an input at the moment it arrives, and a run tells latency and order.
//! With them an input waits until a core is free, occupies it for as long as the real code took on
//! average over a step of its kind ([`StepKind`]) when [`Costs`] were calibrated, and what follows
//! from it leaves when it is done. So a run tells throughput too. Every number that comes from it
//! is *simulated*, and names the calibration.
//!
//! What is modelled, and how:
//!
//! * A step's logic runs at once, at the moment when a core takes it; messages, answers and the core
//!   come free after its cost. Steps of one node overlap, as if its store could be shared by all its
//!   cores. (In the embedded cluster a thread owns its shards: there a node has one core.)
//! * Whoever sends or receives a message, a call or an answer pays for its transport.
//! * A *span*: what a step locks and releases within itself keeps other steps out for its whole
//!   duration under locking, and for the duration of the guarded increment under the others. Later
//!   steps that change the same rows in the same way wait. Under locking they wait as a blocked
//!   thread does, off the core; for a guard they spin. Locks that are held over several steps are
//!   the protocol's own and need no model.
//!
//! Not modelled: memory bandwidth and caches that cores share, so that they scale better than real
//! ones; a locked row that is only read; a transaction over several nodes that arrives during
//! another's span (it is let in at once, to the advantage of locking).

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::hash::Hasher;

use anabranch_engine::{AttemptOutcome, AttemptRecord, NodeInput, NodeOutbox, Outcome};
use anabranch_types::{Effect, PartitionId, Ticks};
use rustc_hash::{FxHashMap, FxHasher};
use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, Event, local};
use crate::host::Seat;
use crate::protocols::Simulated;

/// What a step was, as far as its cost depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepKind {
    /// What the node was given.
    pub input: InputKind,
    /// How many calls ended with it: what lets go of a lock may run whoever waited for it, too.
    pub answers: u16,
    /// Whether it sent messages.
    pub sends: bool,
}

/// What a node was given.
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

/// Looks at a clock around each step of a node. The clock is above this crate.
pub trait Meter {
    /// A step begins.
    fn begin(&mut self);
    /// It has ended, and was of this kind.
    fn end(&mut self, kind: StepKind);
}

/// What one kind of step costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepCost {
    /// [`StepKind::name`].
    pub step: String,
    /// Nanoseconds of one core.
    pub nanos: f64,
    /// Over how many steps that is the mean.
    pub steps: u64,
}

/// What the steps of one protocol cost in one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Names the calibration in everything that is printed from it.
    pub calibration: String,
    /// Nanoseconds to send, and again to receive, one message between nodes.
    pub message_nanos: f64,
    /// Nanoseconds to receive a client's call, and again to send its answer.
    pub client_nanos: f64,
    /// Nanoseconds for which a guard's row is held while it is incremented.
    pub guard_nanos: f64,
    /// By kind of step.
    pub steps: Vec<StepCost>,
}

/// A node's processor.
#[derive(Clone, Debug)]
pub struct Processor {
    /// How many steps may run at a time.
    pub cores: u16,
    /// What they cost.
    pub costs: Costs,
}

/// What costs amount to over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Nanoseconds of cores that were busy, in all nodes.
    pub busy: u64,
    /// Of them: for messages, calls and answers.
    pub transport: u64,
    /// Of them: spinning for a guard.
    pub spinning: u64,
    /// Nanoseconds for which blocked steps waited for others' locks.
    pub blocked: u64,
    /// Steps whose kind the calibration has not met, and for which the nearest was taken.
    pub guessed: u64,
    /// Steps.
    pub steps: u64,
}

impl Usage {
    /// What has come to an earlier count.
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
    /// Whether a step's locks are held for all of it, and not for the guard alone.
    whole_steps: bool,
    named: BTreeMap<String, u64>,
    known: FxHashMap<StepKind, (u64, bool)>,
    pub(crate) usage: Usage,
}

/// What a node's cores do.
#[derive(Debug)]
pub(crate) struct Cores<I> {
    /// How many run a step.
    pub(crate) busy: u16,
    /// What waits for one.
    pub(crate) waiting: VecDeque<I>,
    /// Whether a timer is among what waits.
    pub(crate) timer_waits: bool,
    /// Until when a row that a step changes within itself keeps others out; rows by their hashes,
    /// so that two of them wait for each other needlessly once in 2^64.
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

/// When a step is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// When its core is free.
    pub(crate) core: Ticks,
    /// When what follows from it leaves.
    pub(crate) results: Ticks,
}

/// A step as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) kind: StepKind,
    /// Messages that go with it.
    pub(crate) sent: usize,
}

/// Rows are forgotten, when so many are held, if their time is over.
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
                .map(|cost| (cost.step.clone(), cost.nanos as u64))
                .collect(),
            known: FxHashMap::default(),
            usage: Usage::default(),
        }
    }

    /// What a step of this kind costs by itself.
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

    /// The kind's own cost; else that of the nearest kind with the same input, with what a call costs
    /// for each call that it has answered less; else the mean.
    fn look_up(&self, kind: StepKind) -> (u64, bool) {
        if let Some(nanos) = self.named.get(&kind.name()) {
            return (*nanos, true);
        }
        for answers in (0..=kind.answers).rev() {
            for sends in [kind.sends, !kind.sends] {
                let near = StepKind {
                    input: kind.input,
                    sends,
                    answers,
                };
                if let Some(nanos) = self.named.get(&near.name()) {
                    let more = u64::from(kind.answers - answers.max(1).min(kind.answers));
                    return (nanos + more * self.call_nanos(), false);
                }
            }
        }
        for sends in [kind.sends, !kind.sends] {
            let more = StepKind {
                sends,
                answers: kind.answers + 1,
                ..kind
            };
            if let Some(nanos) = self.named.get(&more.name()) {
                return (*nanos, false);
            }
        }
        let count = self.named.len().max(1) as u64;
        (self.named.values().sum::<u64>() / count, false)
    }

    /// When a step is over that began `now` at the node that owns `home`; `attempts` are what it has
    /// brought to an end.
    pub(crate) fn end<I>(
        &mut self,
        now: Ticks,
        home: PartitionId,
        step: Step,
        attempts: &[AttemptRecord],
        cores: &mut Cores<I>,
    ) -> End {
        let Step { kind, sent } = step;
        let mut cost = self.step(kind);
        let (came, called) = match kind.input {
            InputKind::Call(_) => (0, 1),
            InputKind::Message(_) => (1, 0),
            InputKind::Tick => (0, 0),
        };
        let transport =
            self.message * (sent as u64 + came) + self.client * (u64::from(kind.answers) + called);
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
            // tidy: order-free because each is judged by itself.
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

    /// What a call costs that runs by itself: the dearest of those that a step took and answered.
    fn call_nanos(&self) -> u64 {
        let alone = |name: &str| {
            name.starts_with("call ") && name.ends_with(", answers") && !name.contains(", sends")
        };
        let calls = self.named.iter().filter(|(name, _)| alone(name));
        calls.map(|(_, nanos)| *nanos).max().unwrap_or_default()
    }
}

/// The rows at home that committed attempts have changed: all updates, or guards alone.
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

impl<P: Simulated> Cluster<P> {
    /// Whether an input has to wait for a core; then it does.
    pub(crate) fn waits_for_core(
        &mut self,
        node: u16,
        input: NodeInput<P::Message>,
    ) -> Option<NodeInput<P::Message>> {
        let cores = &mut self.hosts[usize::from(node)].cores;
        match &self.model {
            Some(model) if cores.busy >= model.cores => {
                cores.timer_waits |= matches!(input, NodeInput::Tick);
                cores.waiting.push_back(input);
                None
            }
            _ => Some(input),
        }
    }

    /// What a step is given, as costs know it.
    pub(crate) fn input_kind(&self, input: &NodeInput<P::Message>) -> InputKind {
        match input {
            NodeInput::Call(call) => InputKind::Call(self.clients.procedure_name(&call.work)),
            NodeInput::Message { message, .. } => InputKind::Message(P::kind(message)),
            _ => InputKind::Tick,
        }
    }

    /// Lets a node without a log take an input, under the eyes of a meter and at the costs of the
    /// model; then messages have left, and answers will.
    pub(crate) fn drive_timed(
        &mut self,
        node: u16,
        input: NodeInput<P::Message>,
        out: &mut NodeOutbox<P::Message>,
    ) {
        let kind = self.input_kind(&input);
        if let Some(meter) = &mut self.meter {
            meter.begin();
        }
        let host = &mut self.hosts[usize::from(node)];
        let local = local(self.now, host.skew);
        if let Seat::Plain(plain) = &mut host.seat {
            plain.step(local, input, out);
        }
        if let Some(meter) = &mut self.meter {
            meter.end(StepKind {
                input: kind,
                answers: out.outcomes.len() as u16,
                sends: !out.messages.is_empty(),
            });
        }
        // Messages leave when the step is done.
        let now = self.now;
        self.now = self.charge(node, kind, out);
        for (to, message) in out.messages.drain(..) {
            self.send(node, to.0, message);
        }
        self.now = now;
    }

    /// Charges a step that has run, and says when what follows from it leaves. Without costs that
    /// is now.
    pub(crate) fn charge(
        &mut self,
        node: u16,
        input: InputKind,
        out: &mut NodeOutbox<P::Message>,
    ) -> Ticks {
        let Some(model) = &mut self.model else {
            return self.now;
        };
        let kind = StepKind {
            input,
            answers: out.outcomes.len() as u16,
            sends: !out.messages.is_empty(),
        };
        let step = Step {
            kind,
            sent: out.messages.len(),
        };
        let cores = &mut self.hosts[usize::from(node)].cores;
        let end = model.end(self.now, PartitionId(node), step, &out.attempts, cores);
        out.attempts.clear();
        cores.busy += 1;
        let outcomes = std::mem::take(&mut out.outcomes);
        if end.core < end.results || outcomes.is_empty() {
            self.queue.push(end.core, Event::CoreFree { node });
        }
        if !outcomes.is_empty() {
            let frees = end.core == end.results;
            let answers = Event::Answers {
                node,
                outcomes,
                frees,
            };
            self.queue.push(end.results, answers);
        }
        end.results
    }

    /// Answers leave a node, and perhaps the core that has made them is free.
    pub(crate) fn answers_leave(&mut self, node: u16, outcomes: Vec<Outcome>, frees: bool) {
        for outcome in outcomes {
            self.client_answered(node, outcome);
        }
        if frees {
            self.core_is_free(node);
        }
    }

    /// A core takes the next input that waits for one.
    pub(crate) fn core_is_free(&mut self, node: u16) {
        let cores = &mut self.hosts[usize::from(node)].cores;
        cores.busy -= 1;
        if let Some(input) = cores.waiting.pop_front() {
            if matches!(input, NodeInput::Tick) {
                cores.timer_waits = false;
            }
            self.step(node, input);
        }
    }
}

#[cfg(test)]
mod tests;
