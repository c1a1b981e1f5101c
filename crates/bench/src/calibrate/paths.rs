//! How the time of a New-Order divides over the code: the rows of coordination-avoidance.txt §6.2's
//! table that can be told apart by measuring.
//!
//! One node, one warehouse, no messages. The node says what it is at, and a thread beside it looks
//! every so often, as `bench tpcc --code-path` does with the embedded cluster.

use std::sync::Arc;
use std::time::Duration;

use anabranch_engine::{
    AttemptOutcome, AttemptRecord, Call, CallId, Node, NodeInput, NodeOptions, NodeOutbox, Work,
};
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{Session, Topology};
use anabranch_server::Profiler;
use anabranch_sim::{Network, Prepared};
use anabranch_storage::{Commit, SlotValues, Store};
use anabranch_types::{Activity, ActivityProbe, Effect, NodeId, PartitionId, RowPrograms, Ticks};
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
    /// In the protocol around it, guards included.
    pub protocol: f64,
    /// In the engine and the procedure's statements.
    pub procedure: f64,
    /// Of the store's time: incrementing the district's next order id, its guard. For so long another
    /// transaction of the district would have to wait.
    pub guard_nanos: f64,
}

/// Effects that are kept as samples.
const SAMPLES: usize = 256;

/// How often the node is looked at.
const SAMPLE_EVERY: Duration = Duration::from_micros(100);

/// How often it is tried again at most: on a busy machine a short round may be over before whoever takes samples has
/// come to its turn.
const TURNS: usize = 100;

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
        let found = once(&prepared, &store, scale, count, round as u64, &mut samples)?;
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
) -> Result<[f64; 4], CalibrationError> {
    let programs = prepared.planned.application.programs();
    let make = |records| {
        let topology = Arc::new(Topology::one_each(1));
        let protocol = RampNode::new(
            NodeId(0),
            topology,
            store.clone(),
            Arc::clone(&programs),
            RampOptions::default(),
        );
        let options = NodeOptions {
            records,
            ..NodeOptions::default()
        };
        let planned = Arc::clone(&prepared.planned);
        Node::new(NodeId(0), PartitionId(0), planned, protocol, options)
    };
    let procedures = &prepared.planned.application.procedures;
    let number = procedures.iter().position(|p| p.name() == "new_order");
    let number = number.expect("TPC-C has its New-Order");
    let calls = || {
        let homes = vec![0; scale.warehouses as usize];
        let mut calls = CallGenerator::new(
            scale,
            Mix::NEW_ORDER,
            Distribution::Percent(0.0),
            homes,
            seed,
        );
        (0..count).map(move |id| Call {
            id: CallId(id),
            work: Work::Procedure(number),
            arguments: calls.next_call().arguments,
            session: Session::default(),
        })
    };
    // The first orders warm up what comes after; the same again counts.
    let mut node = make(false);
    drive(&mut node, calls(), &mut |_| ());
    let probe = ActivityProbe::enabled();
    node.observe(probe.clone());
    let mut seen = None;
    for _ in 0..TURNS {
        let again: Vec<Call> = calls().collect();
        let probes = vec![probe.clone()];
        let profiler = Profiler::start(probes, SAMPLE_EVERY).map_err(CalibrationError::Sampler)?;
        let began = now();
        drive(&mut node, again.into_iter(), &mut |_| ());
        let total = (now() - began) as f64 / count as f64;
        let (_, profile) = seen.insert((total, profiler.stop()));
        let sampled = |activity| profile.share(activity) > 0.0;
        if sampled(Activity::Storage) && sampled(Activity::Procedure) {
            break;
        }
    }
    let (total, profile) = seen.expect("there is a turn");
    let mut attempts: Vec<AttemptRecord> = Vec::new();
    drive(&mut make(true), calls(), &mut |attempt| {
        attempts.push(attempt)
    });
    let parts = attempts.iter().flat_map(|attempt| &attempt.effects);
    let updates = parts.flat_map(|part| &part.effects);
    let updates = updates.filter(|effect| matches!(effect, Effect::Update { .. }));
    *samples = updates.take(SAMPLES).cloned().collect();
    let guards = guarded_again(&mut store.clone(), &attempts, &*programs);
    let spent = |activities: &[Activity]| {
        let shares = activities.iter().map(|activity| profile.share(*activity));
        total * shares.sum::<f64>()
    };
    Ok([
        spent(&[Activity::Storage]),
        spent(&[Activity::Protocol, Activity::Guard]),
        spent(&[Activity::Procedure]),
        guards / count as f64,
    ])
}

/// Makes calls one after the other; what they leave goes to `taken`.
fn drive(
    node: &mut Node<RampNode>,
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

/// Nanoseconds of doing the guarded effects of attempts on a store alone.
fn guarded_again(store: &mut Store, attempts: &[AttemptRecord], programs: &dyn RowPrograms) -> f64 {
    let mut nanos = 0;
    for attempt in attempts {
        let AttemptOutcome::Committed(timestamp) = attempt.outcome else {
            continue;
        };
        let parts = attempt.effects.iter().flat_map(|part| {
            let effects = part.effects.iter().zip(0..);
            effects.filter(|(_, at)| part.guards.contains(at))
        });
        // Fresh, as the procedure hands them over.
        let effects: Vec<Effect> = parts.map(|(effect, _)| effect.clone()).collect();
        let commit = Commit { timestamp, effects };
        let mut slots = SlotValues::default();
        let began = now();
        let done = store.apply(attempt.began, commit, &mut slots, programs);
        nanos += now() - began;
        assert!(done.is_ok(), "what was done once can be done again");
    }
    (nanos as f64 - own_nanos() as f64 * attempts.len() as f64).max(1.0)
}
