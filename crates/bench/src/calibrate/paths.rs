//! Measures how the time of a New-Order divides over the code: the rows of coordination-avoidance.txt §6.2's
//! table that can be measured.
//!
//! One node, one warehouse, no messages. The node records its current activity, and a thread beside it samples
//! that, as `bench tpcc --code-path` does with the embedded cluster.

use std::sync::Arc;
use std::time::Duration;

use anabranch_engine::{
    AttemptOutcome, AttemptRecord, Call, CallId, Node, NodeInput, NodeOptions, NodeOutbox, Work,
};
use anabranch_protocol::Topology;
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_server::Profiler;
use anabranch_sim::{Network, Prepared};
use anabranch_storage::{Commit, SlotValues, Store};
use anabranch_types::{Activity, ActivityProbe, Effect, NodeId, PartitionId, RowPrograms, Ticks};
use anabranch_workload::tpcc::{CallGenerator, Distribution, Mix, Scale, Tpcc};
use serde::{Deserialize, Serialize};

use super::meter::{lower_quartile, now, own_nanos};
use super::{CalibrationError, Effort};

/// Nanoseconds of one New-Order, by activity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodePaths {
    /// In the store: reading, checking, installing and collecting versions.
    pub storage: f64,
    /// In the protocol, guards included.
    pub protocol: f64,
    /// In the engine and the procedure's statements.
    pub procedure: f64,
    /// Of the store's time: incrementing the district's next order id, which is its guard. Another transaction of
    /// the district would have to wait for so long.
    pub guard_nanos: f64,
}

/// The most effects kept as samples.
const SAMPLES: usize = 256;

/// The interval at which the node's activity is sampled.
const SAMPLE_EVERY: Duration = Duration::from_micros(100);

/// The most attempts at a round: on a busy machine a short round may end before the sampling thread runs.
const ATTEMPTS_MAX: usize = 100;

/// Measures a New-Order's time by activity; also returns effects of some New-Orders on single rows.
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
        let found = self::round(&prepared, &store, scale, count, round as u64, &mut samples)?;
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

/// Measures one round: nanoseconds of storage, protocol, procedure and guard for each New-Order.
fn round(
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
        (0..count).map(move |id| {
            let arguments = calls.next_call().arguments;
            Call::new(CallId(id), Work::Procedure(number), arguments)
        })
    };
    // The first run of the orders fills the caches; the second counts.
    let mut node = make(false);
    drive(&mut node, calls(), &mut |_| ());
    let probe = ActivityProbe::enabled();
    node.observe(probe.clone());
    let mut seen = None;
    for _ in 0..ATTEMPTS_MAX {
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
    let (total, profile) = seen.expect("there is at least one attempt");
    let mut attempts: Vec<AttemptRecord> = Vec::new();
    drive(&mut make(true), calls(), &mut |attempt| {
        attempts.push(attempt)
    });
    let parts = attempts.iter().flat_map(|attempt| &attempt.effects);
    let updates = parts.flat_map(|part| &part.effects);
    let updates = updates.filter(|effect| matches!(effect, Effect::Update { .. }));
    *samples = updates.take(SAMPLES).cloned().collect();
    let guards = guarded_nanos(&mut store.clone(), &attempts, &*programs);
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

/// Makes calls one after the other; passes the records of their attempts to `taken`.
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

/// Nanoseconds of applying the guarded effects of attempts to a store.
fn guarded_nanos(store: &mut Store, attempts: &[AttemptRecord], programs: &dyn RowPrograms) -> f64 {
    let mut nanos = 0;
    for attempt in attempts {
        let AttemptOutcome::Committed(timestamp) = attempt.outcome else {
            continue;
        };
        let parts = attempt.effects.iter().flat_map(|part| {
            let effects = part.effects.iter().zip(0..);
            effects.filter(|(_, at)| part.guards.contains(at))
        });
        // Cloned first, as the procedure passes them.
        let effects: Vec<Effect> = parts.map(|(effect, _)| effect.clone()).collect();
        let commit = Commit { timestamp, effects };
        let mut slots = SlotValues::default();
        let began = now();
        let done = store.apply(attempt.began, commit, &mut slots, programs);
        nanos += now() - began;
        assert!(
            done.is_ok(),
            "effects that were applied once can be applied again"
        );
    }
    (nanos as f64 - own_nanos() as f64 * attempts.len() as f64).max(1.0)
}
