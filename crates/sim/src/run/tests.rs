//! Runs with nodes that get stuck or panic, and the frequency of invariant checks. They need a protocol with planted
//! bugs.

use std::cell::Cell;

use anabranch_protocol::{
    Counters, Durable, Input, NoRecords, Outbox, Protocol, Record, ReplayError,
};
use anabranch_storage::Store;
use anabranch_types::ActivityProbe;

use super::*;
use crate::diagram::Label;
use crate::fault::{Fault, FaultKind, FaultProfile};
use crate::latency::Network;

/// Kinds of [`Faulty`] nodes: drops one message in a hundred;
const DROPS: u8 = 0;
/// panics at it;
const PANICS: u8 = 1;
/// reports a violation if it is not checked after a step, or checked again without a step (once is permitted, at
/// rest).
const COUNTS_CHECKS: u8 = 2;

/// A RAMP node with a planted bug.
struct Faulty<const HOW: u8> {
    node: RampNode,
    messages: u32,
    /// The time of its last step.
    stepped: Ticks,
    /// Steps since its last check.
    unchecked: Cell<u32>,
    /// Whether a step was not checked.
    missed: bool,
    /// Checks without a step before them.
    repeated: Cell<u32>,
}

impl<const HOW: u8> Protocol for Faulty<HOW> {
    type Message = <RampNode as Protocol>::Message;

    fn step(&mut self, now: Ticks, input: Input<Self::Message>, out: &mut Outbox<Self::Message>) {
        self.missed |= self.unchecked.get() > 0 && now > self.stepped;
        self.unchecked.set(self.unchecked.get() + 1);
        self.stepped = now;
        if let Input::Message { .. } = &input {
            self.messages += 1;
            if HOW != COUNTS_CHECKS && self.messages.is_multiple_of(100) {
                assert!(HOW != PANICS, "planted panic");
                return;
            }
        }
        self.node.step(now, input, out);
    }

    fn observe(&mut self, probe: ActivityProbe) {
        self.node.observe(probe);
    }

    fn counters(&self) -> &Counters {
        self.node.counters()
    }

    fn check_invariants(&self) -> Result<(), String> {
        if self.missed {
            return Err("a step was not checked".to_owned());
        }
        if self.unchecked.replace(0) == 0 {
            self.repeated.set(self.repeated.get() + 1);
        }
        if HOW == COUNTS_CHECKS && self.repeated.get() > 1 {
            return Err("checked again without a step".to_owned());
        }
        Ok(())
    }
}

impl<const HOW: u8> Durable for Faulty<HOW> {
    fn keep_records(&mut self) -> Result<(), NoRecords> {
        self.node.keep_records()
    }

    fn replay(&mut self, record: Record) -> Result<(), ReplayError> {
        self.node.replay(record)
    }

    fn recover(&mut self, now: Ticks, out: &mut Outbox<Self::Message>) {
        self.unchecked.set(1);
        self.stepped = now;
        self.node.recover(now, out);
    }

    fn items(&self) -> &Store {
        self.node.items()
    }

    fn items_mut(&mut self) -> &mut Store {
        self.node.items_mut()
    }

    fn checkpoint_state(&self, sink: &mut dyn FnMut(Record)) {
        self.node.checkpoint_state(sink);
    }
}

impl<const HOW: u8> Simulated for Faulty<HOW> {
    fn make(node: NodeId, shared: &Shared, store: Store) -> Self {
        Faulty {
            node: RampNode::make(node, shared, store),
            messages: 0,
            // A check before the first step is permitted, and not required.
            stepped: Ticks(u64::MAX),
            unchecked: Cell::new(1),
            missed: false,
            repeated: Cell::new(0),
        }
    }

    fn store(&self) -> &Store {
        self.node.store()
    }

    fn leftovers(&self) -> Option<String> {
        self.node.leftovers()
    }

    fn kind(message: &Self::Message) -> &'static str {
        RampNode::kind(message)
    }

    fn label(message: &Self::Message) -> Label {
        RampNode::label(message)
    }
}

fn unreplicated(prepared: &Prepared) -> ReplicaPlacement {
    ReplicaPlacement::new(prepared.nodes, 1).unwrap()
}

/// A small case, with a pause that ends, so that the cluster heals.
fn case() -> Case {
    let (network, none) = (Network::lan(), FaultProfile::None);
    let mut case = Case::new(ProtocolName::RampFast, 1, 3, 6, 150, network, none);
    case.plan.faults.push(Fault {
        at_us: 100,
        for_us: 300,
        kind: FaultKind::Pause { node: 1 },
    });
    case
}

#[test]
fn a_cluster_that_drops_messages_is_stuck() {
    let prepared = Prepared::new("register", 3).unwrap();
    let run = case()
        .run_as::<Faulty<DROPS>>(&prepared, unreplicated(&prepared), None)
        .unwrap();
    let Verdict::Stuck(why) = &run.report.verdict else {
        panic!("{:?}", run.report.verdict)
    };
    assert!(why.contains("calls wait"), "{why}");
    assert_eq!(run.report.verdict.exit_code(), 3);
    assert!(run.report.elapsed > case().plan.healed_at());
    // The same case passes without the planted bug.
    let sound = case().run(&prepared).unwrap();
    assert_eq!(sound.verdict.exit_code(), 0);
}

#[test]
fn a_node_that_panics_ends_the_run_and_not_the_simulator() {
    let prepared = Prepared::new("register", 3).unwrap();
    let run = case()
        .run_as::<Faulty<PANICS>>(&prepared, unreplicated(&prepared), None)
        .unwrap();
    let crashed = Verdict::Crashed("planted panic".to_owned());
    assert_eq!(run.report.verdict, crashed);
    assert_eq!(run.report.verdict.exit_code(), 4);
    assert!(run.history.is_none(), "a broken run has no history");
}

#[test]
fn nodes_are_checked_after_each_step_and_not_again_until_the_next() {
    let prepared = Prepared::new("register", 3).unwrap();
    for (replicas, faults) in [
        (1, FaultProfile::None),
        (1, FaultProfile::Storm),
        (3, FaultProfile::Storm),
    ] {
        for seed in 0..4 {
            let network = Network::lan();
            let case = Case::new(ProtocolName::RampFast, seed, 3, 6, 150, network, faults)
                .replicated(replicas);
            let placement = ReplicaPlacement::new(prepared.nodes, replicas).unwrap();
            let run = case
                .run_as::<Faulty<COUNTS_CHECKS>>(&prepared, placement, None)
                .unwrap();
            let what = format!("{replicas} replicas, {}, seed {seed}", faults.name());
            assert_eq!(run.report.verdict, Verdict::Fine, "{what}");
            let checks = run
                .report
                .checked
                .iter()
                .find(|(what, _)| what.starts_with("checks of"));
            assert!(
                checks.is_some_and(|(_, count)| count > 1_000),
                "{what}: {checks:?}"
            );
        }
    }
}
