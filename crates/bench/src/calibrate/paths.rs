//! How the time of a New-Order divides over the code: the rows of coordination-avoidance.txt §6.2's
//! table that can be told apart by measuring.
//!
//! One node, one warehouse, no messages. The protocol is wrapped in one that looks at a clock, so
//! what the engine and the procedure take is the rest. The same reads and effects are then done once
//! more on a copy of the store alone: that is the store's share of the protocol's time.

use std::sync::Arc;

use anabranch_engine::{
    AttemptRecord, Call, CallId, Node, NodeInput, NodeOptions, NodeOutbox, Work,
};
use anabranch_protocol::ramp::message::Stamped;
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{Counters, Input, Outbox, PartitionEffects, Protocol, Topology};
use anabranch_sim::{Network, Prepared};
use anabranch_storage::{Commit, SlotValues, Store};
use anabranch_types::{ActivityProbe, Effect, NodeId, PartitionId, RowPrograms, Ticks, Timestamp};
use anabranch_workload::tpcc::{CallGenerator, Distribution, Mix, Scale, Tpcc};
use serde::{Deserialize, Serialize};

use super::meter::{lower_quartile, now, own_nanos};
use super::{CalibrationError, Effort};

/// Nanoseconds of one New-Order, by what they are spent on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodePaths {
    /// In the store: reading, checking, installing and collecting versions.
    pub storage: f64,
    /// In the protocol around it.
    pub protocol: f64,
    /// In the engine and the procedure's statements.
    pub procedure: f64,
    /// Of the store's time: incrementing the district's next order id, its guard. For so long another
    /// transaction of the district would have to wait.
    pub guard_nanos: f64,
}

/// Effects that are kept as samples.
const SAMPLES: usize = 256;

/// A protocol that looks at the clock.
struct Timed {
    inner: RampNode,
    nanos: u64,
    steps: u64,
}

impl Protocol for Timed {
    type Message = Stamped;

    fn step(&mut self, at: Ticks, input: Input<Stamped>, out: &mut Outbox<Stamped>) {
        let began = now();
        self.inner.step(at, input, out);
        self.nanos += now() - began;
        self.steps += 1;
    }

    fn counters(&self) -> &Counters {
        self.inner.counters()
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.inner.check_invariants()
    }

    fn observe(&mut self, probe: ActivityProbe) {
        self.inner.observe(probe);
    }
}

/// What a New-Order is spent on, and effects of some on single rows.
pub(super) fn measure(effort: Effort) -> Result<(CodePaths, Vec<Effect>), CalibrationError> {
    let scale = if effort.full_size {
        Scale::specified(1)
    } else {
        Scale::small(1)
    };
    let tpcc = Tpcc {
        scale,
        distribution: Distribution::Percent(0.0),
        mix: Mix::NEW_ORDER,
    };
    let prepared = Prepared::from_workload(Arc::new(tpcc), 1)?;
    let stores = prepared.stores(1, &Network::lan(), true)?;
    let store = stores.into_iter().next().expect("there is one node");
    let count = if effort.full_size { 20_000 } else { 300 };
    let mut rounds: [Vec<f64>; 4] = Default::default();
    let mut samples = Vec::new();
    for round in 0..effort.rounds {
        let found = once(&prepared, &store, scale, count, round as u64, &mut samples);
        for (all, one) in rounds.iter_mut().zip(found) {
            all.push(one);
        }
    }
    let [storage, protocol, procedure, guard_nanos] = rounds.map(|all| lower_quartile(all).round());
    let paths = CodePaths {
        storage,
        protocol,
        procedure,
        guard_nanos,
    };
    Ok((paths, samples))
}

/// One round: storage, protocol, procedure, guard.
fn once(
    prepared: &Prepared,
    store: &Store,
    scale: Scale,
    count: u64,
    seed: u64,
    samples: &mut Vec<Effect>,
) -> [f64; 4] {
    let programs = prepared.planned.application.programs();
    let make = |records| {
        let topology = Arc::new(Topology::one_each(1));
        let inner = RampNode::new(
            NodeId(0),
            topology,
            store.clone(),
            Arc::clone(&programs),
            RampOptions::default(),
        );
        let timed = Timed {
            inner,
            nanos: 0,
            steps: 0,
        };
        let options = NodeOptions {
            records,
            ..NodeOptions::default()
        };
        let planned = Arc::clone(&prepared.planned);
        Node::new(NodeId(0), PartitionId(0), planned, timed, options)
    };
    let procedures = &prepared.planned.application.procedures;
    let number = procedures.iter().position(|p| p.name() == "new_order");
    let number = number.expect("TPC-C has its New-Order");
    let calls = || {
        let mut calls =
            CallGenerator::new(scale, Mix::NEW_ORDER, Distribution::Percent(0.0), 1, seed);
        (0..count).map(move |id| Call {
            id: CallId(id),
            work: Work::Procedure(number),
            arguments: calls.next_call().arguments,
        })
    };
    // What is measured first warms up what comes after: so everything is done twice, and the second
    // time counts.
    let mut node = make(false);
    drive(&mut node, calls(), &mut |_| ());
    let mut node = make(false);
    let own = own_nanos() as f64;
    let began = now();
    drive(&mut node, calls(), &mut |_| ());
    let total = (now() - began) as f64;
    let timed = node.protocol();
    let clock = own * timed.steps as f64;
    let in_protocol = (timed.nanos as f64 - clock / 2.0).max(1.0);
    let mut attempts: Vec<AttemptRecord> = Vec::new();
    drive(&mut make(true), calls(), &mut |attempt| {
        attempts.push(attempt)
    });
    let parts = attempts.iter().flat_map(|attempt| &attempt.effects);
    let updates = parts.flat_map(|part| &part.effects);
    let updates = updates.filter(|effect| matches!(effect, Effect::Update { .. }));
    *samples = updates.take(SAMPLES).cloned().collect();
    let mut replay = store.clone();
    let storage = again(&mut replay, &attempts, &*programs, false);
    let mut replay = store.clone();
    let guard = again(&mut replay, &attempts, &*programs, true);
    let each = |nanos: f64| nanos.max(1.0) / count as f64;
    [
        each(storage),
        each(in_protocol - storage),
        each(total - clock - in_protocol),
        each(guard),
    ]
}

/// Makes calls one after the other; what they leave goes to `taken`.
fn drive(
    node: &mut Node<Timed>,
    calls: impl Iterator<Item = Call>,
    taken: &mut dyn FnMut(AttemptRecord),
) {
    let mut out = NodeOutbox::default();
    for (call, turn) in calls.zip(1..) {
        let at = Ticks::from_micros(turn * 20);
        node.step(at, NodeInput::Call(call), &mut out);
        while node.next_alarm().is_some_and(|due| due <= at) {
            node.step(at, NodeInput::Tick, &mut out);
        }
        out.outcomes.clear();
        for attempt in out.attempts.drain(..) {
            taken(attempt);
        }
    }
}

/// Nanoseconds of doing the reads and effects of attempts on a store alone; of the guarded effects
/// only, where `guards`.
fn again(
    store: &mut Store,
    attempts: &[AttemptRecord],
    programs: &dyn RowPrograms,
    guards: bool,
) -> f64 {
    let chosen = |part: &PartitionEffects| -> Vec<Effect> {
        let effects = part.effects.iter().zip(0..);
        effects
            .filter(|(_, at)| !guards || part.guards.contains(at))
            .map(|(effect, _)| effect.clone())
            .collect()
    };
    let mut failed = 0;
    let mut nanos = 0;
    for attempt in attempts {
        let at = attempt.began;
        // Fresh, as the procedure hands them over.
        let effects: Vec<Effect> = attempt.effects.iter().flat_map(chosen).collect();
        let timestamp = match attempt.outcome {
            anabranch_engine::AttemptOutcome::Committed(timestamp) => timestamp,
            _ => Timestamp::ZERO,
        };
        let began = now();
        if !guards {
            let mut fetched = Vec::with_capacity(attempt.reads.len());
            let reads = attempt.reads.iter().map(|read| &read.read);
            let touched = &mut Default::default();
            let done = store.fetch_all(reads, None, None, &mut fetched, touched);
            failed += u64::from(done.is_err());
        }
        if timestamp > Timestamp::ZERO {
            let commit = Commit { timestamp, effects };
            let mut slots = SlotValues::default();
            let done = store.apply(at, commit, &mut slots, programs);
            failed += u64::from(done.is_err());
        }
        nanos += now() - began;
    }
    assert_eq!(failed, 0, "what was done once can be done again");
    (nanos as f64 - own_nanos() as f64 * attempts.len() as f64).max(1.0)
}
