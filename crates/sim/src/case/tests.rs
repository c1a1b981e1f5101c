//! What becomes of a run whose nodes do not go on, or panic, and how closely nodes are watched. No protocol of the
//! house tells, so one is spoilt for it.

use std::cell::Cell;

use anabranch_protocol::{
    Counters, Durable, Input, NoRecords, Outbox, Protocol, Record, ReplayError,
};
use anabranch_types::{ActivityProbe, NodeId};

use super::*;
use crate::diagram::Label;
use crate::fault::{Fault, FaultKind};

/// How a node is [`Spoilt`]: it swallows one message in a hundred,
const SWALLOWS: u8 = 0;
/// or panics at it,
const PANICS: u8 = 1;
/// or minds not being looked at after a step, and being looked at again before the next, but for once, at rest.
const MINDS: u8 = 2;

/// A RAMP node with something wrong.
struct Spoilt<const HOW: u8> {
    node: RampNode,
    messages: u32,
    /// When its last step was.
    stepped: Ticks,
    /// How many steps there were since it was looked at.
    unseen: Cell<u32>,
    /// Whether there was a step that nobody looked at.
    missed: bool,
    /// How often it was looked at with nothing new to see.
    again: Cell<u32>,
}

impl<const HOW: u8> Protocol for Spoilt<HOW> {
    type Message = <RampNode as Protocol>::Message;

    fn step(&mut self, now: Ticks, input: Input<Self::Message>, out: &mut Outbox<Self::Message>) {
        self.missed |= self.unseen.get() > 0 && now > self.stepped;
        self.unseen.set(self.unseen.get() + 1);
        self.stepped = now;
        if let Input::Message { .. } = &input {
            self.messages += 1;
            if HOW != MINDS && self.messages.is_multiple_of(100) {
                assert!(HOW != PANICS, "spoilt on purpose");
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
            return Err("nobody looked after a step".to_owned());
        }
        if self.unseen.replace(0) == 0 {
            self.again.set(self.again.get() + 1);
        }
        if HOW == MINDS && self.again.get() > 1 {
            return Err("looked at again with nothing new to see".to_owned());
        }
        Ok(())
    }
}

impl<const HOW: u8> Durable for Spoilt<HOW> {
    fn keep_records(&mut self) -> Result<(), NoRecords> {
        self.node.keep_records()
    }

    fn replay(&mut self, record: Record) -> Result<(), ReplayError> {
        self.node.replay(record)
    }

    fn recover(&mut self, now: Ticks, out: &mut Outbox<Self::Message>) {
        self.unseen.set(1);
        self.stepped = now;
        self.node.recover(now, out);
    }

    fn checkpoint(&self, sink: &mut dyn FnMut(Record)) {
        self.node.checkpoint(sink);
    }
}

impl<const HOW: u8> Simulated for Spoilt<HOW> {
    fn make(node: NodeId, shared: &Shared, store: Store) -> Self {
        Spoilt {
            node: RampNode::make(node, shared, store),
            messages: 0,
            // It may be looked at before its first step, and need not be.
            stepped: Ticks(u64::MAX),
            unseen: Cell::new(1),
            missed: false,
            again: Cell::new(0),
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

/// A small case, with a pause that ends, so that it is healed.
fn one_each(prepared: &Prepared) -> ReplicaPlacement {
    ReplicaPlacement::new(prepared.nodes, 1).unwrap()
}

fn case() -> Case {
    let (network, none) = (Network::lan(), FaultLevel::None);
    let mut case = Case::new(ProtocolName::RampFast, 1, 3, 6, 150, network, none);
    case.plan.faults.push(Fault {
        at_us: 100,
        for_us: 300,
        kind: FaultKind::Pause { node: 1 },
    });
    case
}

#[test]
fn a_cluster_that_swallows_messages_makes_no_progress_and_says_so() {
    let prepared = Prepared::new("register", 3).unwrap();
    let run = case()
        .run_as::<Spoilt<SWALLOWS>>(&prepared, one_each(&prepared), None)
        .unwrap();
    let Verdict::Stuck(why) = &run.report.verdict else {
        panic!("{:?}", run.report.verdict)
    };
    assert!(why.contains("calls wait"), "{why}");
    assert_eq!(run.report.verdict.exit_code(), 3);
    assert!(run.report.elapsed > case().plan.healed_at());
    // It is not the case that is at fault.
    let sound = case().run(&prepared).unwrap();
    assert_eq!(sound.verdict.exit_code(), 0);
}

#[test]
fn a_node_that_panics_ends_the_run_and_not_the_simulator() {
    let prepared = Prepared::new("register", 3).unwrap();
    let run = case()
        .run_as::<Spoilt<PANICS>>(&prepared, one_each(&prepared), None)
        .unwrap();
    let crashed = Verdict::Crashed("spoilt on purpose".to_owned());
    assert_eq!(run.report.verdict, crashed);
    assert_eq!(run.report.verdict.exit_code(), 4);
    assert!(run.history.is_none(), "a broken run has no history");
}

#[test]
fn nodes_are_looked_at_after_each_step_and_not_again_until_the_next() {
    let prepared = Prepared::new("register", 3).unwrap();
    for (replicas, faults) in [
        (1, FaultLevel::None),
        (1, FaultLevel::Storm),
        (3, FaultLevel::Storm),
    ] {
        for seed in 0..4 {
            let network = Network::lan();
            let case = Case::new(ProtocolName::RampFast, seed, 3, 6, 150, network, faults)
                .replicated(replicas);
            let placement = ReplicaPlacement::new(prepared.nodes, replicas).unwrap();
            let run = case
                .run_as::<Spoilt<MINDS>>(&prepared, placement, None)
                .unwrap();
            let what = format!("{replicas} replicas, {}, seed {seed}", faults.name());
            assert_eq!(run.report.verdict, Verdict::Fine, "{what}");
            let looks = run
                .report
                .checked
                .iter()
                .find(|(what, _)| what.starts_with("looks"));
            assert!(
                looks.is_some_and(|(_, count)| count > 1_000),
                "{what}: {looks:?}"
            );
        }
    }
}
