//! Costs against numbers that can be computed by hand.

use std::sync::Arc;

use anabranch_workload::register::Writers;

use super::*;
use crate::latency::Network;
use crate::load::{Load, Throughput};
use crate::prepared::Prepared;
use crate::protocols::{ProtocolName, Termination};

const STEP: f64 = 10_000.0;

fn costs(names: &[&str]) -> Costs {
    let step = |name: &&str| StepCost {
        step: (*name).to_owned(),
        nanos: STEP,
        certified_nanos: 0.0,
        steps: 1,
    };
    Costs {
        calibration: "made up".to_owned(),
        message_nanos: 0.0,
        client_nanos: 0.0,
        guard_nanos: 0.0,
        steps: names.iter().map(step).collect(),
    }
}

/// Twenty milliseconds of writes to one register of each of `nodes` nodes, each a step of 10
/// microseconds.
fn writes(protocol: ProtocolName, nodes: u16, cores: u16, change: fn(&mut Costs)) -> Throughput {
    let workload = Writers {
        registers: i64::from(nodes),
        span: 1,
    };
    let prepared = Prepared::from_workload(Arc::new(workload), nodes).unwrap();
    let mut costs = costs(&["call write_group, answers"]);
    change(&mut costs);
    let load = Load {
        termination: Termination::default(),
        protocol,
        seed: 1,
        clients: 64 * u32::from(nodes),
        think: Ticks::from_micros(50),
        network: Network::lan(),
        processor: Some(Processor { cores, costs }),
        warmup: Ticks::from_millis(2),
        measured: Ticks::from_millis(20),
        transactions_max: u64::MAX,
    };
    let stores = prepared.stores(1, &load.network, true).unwrap();
    load.run(&prepared, stores, None).unwrap()
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!(
        (found / expected - 1.0).abs() < 0.02,
        "{found} of {expected}"
    );
}

#[test]
fn a_node_does_as_much_as_its_cores_can() {
    for cores in [1, 2, 4] {
        let found = writes(ProtocolName::RampFast, 2, cores, |_| ());
        near(found.per_second, 2.0 * 100_000.0 * f64::from(cores));
        near(found.utilization.unwrap(), 1.0);
        assert_eq!(found.usage.guessed, 0);
    }
}

#[test]
fn a_locked_row_lets_one_step_at_a_time_do_its_work() {
    let found = writes(ProtocolName::Locking, 2, 4, |_| ());
    near(found.per_second, 2.0 * 100_000.0);
    assert!(found.usage.blocked > 0 && found.usage.spinning == 0);
}

#[test]
fn calls_and_answers_are_paid_for() {
    let found = writes(ProtocolName::RampFast, 1, 1, |costs| {
        costs.client_nanos = 2_500.0;
    });
    // The call and its answer.
    near(found.per_second, 1e9 / (STEP + 2.0 * 2_500.0));
    near(
        found.usage.transport as f64 / found.usage.busy as f64,
        1.0 / 3.0,
    );
}

#[test]
fn messages_are_paid_for_on_both_sides() {
    let mut model = Model::new(
        &Processor {
            cores: 1,
            costs: Costs {
                message_nanos: 1_000.0,
                ..costs(&["message Get, sends"])
            },
        },
        true,
    );
    let step = Step {
        kind: StepKind {
            input: InputKind::Message("Get"),
            answers: 0,
            sends: true,
            certified: 0,
        },
        sent: 3,
        answered: 0,
    };
    let end = model.end(
        Ticks(0),
        PartitionId(0),
        step,
        &[],
        &mut Cores::<()>::default(),
    );
    assert_eq!(end.core, Ticks(14_000));
}

#[test]
fn a_kind_that_was_never_measured_takes_the_nearest_and_is_counted() {
    let found = writes(ProtocolName::RampFast, 1, 1, |costs| {
        costs.steps[0].step = "call write_group, sends".to_owned();
    });
    near(found.per_second, 100_000.0);
    assert_eq!(found.usage.guessed, found.usage.steps);
}

/// A step that releases a lock also runs the transactions that waited for it.
#[test]
fn a_step_that_answers_more_calls_costs_what_that_has_cost() {
    let nanos = [
        ("call a, answers", 100.0),
        ("call a, answers 2", 900.0),
        ("message Go", 1.0),
        ("message Go, answers 2", 30.0),
        ("message Stop, sends, answers 3", 500.0),
    ];
    let mut named = costs(&nanos.map(|(name, _)| name));
    for (cost, (_, nanos)) in named.steps.iter_mut().zip(nanos) {
        cost.nanos = nanos;
    }
    let processor = Processor {
        cores: 1,
        costs: named,
    };
    let mut model = Model::new(&processor, true);
    let mut step = |message, answers| {
        model.step(StepKind {
            input: InputKind::Message(message),
            answers,
            sends: false,
            certified: 0,
        })
    };
    for (message, answers, expected) in [
        ("Go", 0, 1),
        ("Go", 2, 30),
        // An additional answer costs as much as a call alone.
        ("Go", 3, 130),
        ("Go", 5, 330),
        // The message's own call is the only one that was answered.
        ("Go", 1, 1),
        ("Stop", 2, 500),
        ("Stop", 4, 600),
    ] {
        assert_eq!(step(message, answers), expected, "{message} {answers}");
    }
    assert_eq!(model.usage.guessed, 5);
}

#[test]
fn a_load_is_the_same_each_time() {
    let run = || writes(ProtocolName::RampFast, 3, 2, |_| ());
    assert_eq!(run(), run());
}

#[test]
fn a_guard_makes_later_steps_spin_for_their_turn() {
    let processor = Processor {
        cores: 2,
        costs: Costs {
            guard_nanos: 4_000.0,
            ..costs(&["call a, answers"])
        },
    };
    let mut model = Model::new(&processor, false);
    let mut cores = Cores::<()>::default();
    let step = Step {
        kind: StepKind {
            input: InputKind::Call("a"),
            answers: 1,
            sends: false,
            certified: 0,
        },
        sent: 0,
        answered: 1,
    };
    let attempt = guarded();
    let mut end = |at, attempts: &[AttemptRecord]| {
        model.end(Ticks(at), PartitionId(0), step, attempts, &mut cores)
    };
    let first = end(0, std::slice::from_ref(&attempt));
    assert_eq!((first.core, first.results), (Ticks(10_000), Ticks(10_000)));
    // It reaches the guard at 7,000, and the guard is free at 10,000.
    let second = end(1_000, std::slice::from_ref(&attempt));
    assert_eq!(
        (second.core, second.results),
        (Ticks(14_000), Ticks(14_000))
    );
    let elsewhere = end(1_000, &[]);
    assert_eq!(elsewhere.core, Ticks(11_000));
    assert_eq!(model.usage.spinning, 3_000);
}

/// An attempt that has committed an update of one guarded row.
fn guarded() -> AttemptRecord {
    use anabranch_engine::{CallId, Work};
    use anabranch_protocol::{PartitionEffects, TransactionId};
    use anabranch_types::{Key, NodeId, ProgramId, TableId, Timestamp};
    let effect = Effect::Update {
        table: TableId(0),
        key: Key::empty(),
        program: ProgramId(0),
        arguments: Box::new([]),
        outputs: None,
    };
    AttemptRecord {
        transaction: TransactionId {
            node: NodeId(0),
            sequence: 1,
        },
        call: CallId(1),
        work: Work::Procedure(0),
        arguments: Arc::new([]),
        attempt: 1,
        began: Ticks(0),
        ended: None,
        reads: Vec::new(),
        results: Vec::new(),
        effects: vec![PartitionEffects {
            partition: PartitionId(0),
            effects: vec![effect],
            guards: vec![0],
        }],
        outcome: AttemptOutcome::Committed(Timestamp::ZERO),
    }
}

/// A step that delivers a batch takes longer with each transaction that it certifies, and answers them all.
#[test]
fn certified_transactions_are_paid_for_one_by_one() {
    let mut costs = costs(&["message Stable, answers"]);
    costs.steps[0].certified_nanos = 500.0;
    costs.client_nanos = 100.0;
    let processor = Processor { cores: 1, costs };
    let mut model = Model::new(&processor, false);
    let kind = StepKind::new(InputKind::Message("Stable"), false, 7, 20);
    assert_eq!((kind.answers, kind.certified), (1, 20));
    let step = Step {
        kind,
        sent: 0,
        answered: 7,
    };
    let mut cores = Cores::<()>::default();
    let end = model.end(Ticks(0), PartitionId(0), step, &[], &mut cores);
    assert_eq!(end.core, Ticks(STEP as u64 + 20 * 500 + 7 * 100));
    assert_eq!(model.usage.guessed, 0);
}
