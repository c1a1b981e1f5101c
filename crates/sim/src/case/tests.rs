//! What becomes of a run whose nodes do not go on, or panic. No protocol of the house does either,
//! so one is spoilt for it.

use anabranch_protocol::{
    Counters, Durable, Input, NoRecords, Outbox, Protocol, Record, ReplayError,
};
use anabranch_types::{ActivityProbe, NodeId};

use super::*;
use crate::diagram::Label;
use crate::fault::{Fault, FaultKind};

/// A RAMP node that does something wrong with one message in a hundred.
struct Spoilt<const PANICS: bool> {
    node: RampNode,
    messages: u32,
}

impl<const PANICS: bool> Protocol for Spoilt<PANICS> {
    type Message = <RampNode as Protocol>::Message;

    fn step(&mut self, now: Ticks, input: Input<Self::Message>, out: &mut Outbox<Self::Message>) {
        if let Input::Message { .. } = &input {
            self.messages += 1;
            if self.messages.is_multiple_of(100) {
                assert!(!PANICS, "spoilt on purpose");
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
        Ok(())
    }
}

impl<const PANICS: bool> Durable for Spoilt<PANICS> {
    fn keep_records(&mut self) -> Result<(), NoRecords> {
        self.node.keep_records()
    }

    fn replay(&mut self, record: Record) -> Result<(), ReplayError> {
        self.node.replay(record)
    }

    fn recover(&mut self, now: Ticks, out: &mut Outbox<Self::Message>) {
        self.node.recover(now, out);
    }

    fn checkpoint(&self, sink: &mut dyn FnMut(Record)) {
        self.node.checkpoint(sink);
    }
}

impl<const PANICS: bool> Simulated for Spoilt<PANICS> {
    fn make(node: NodeId, shared: &Shared, store: Store) -> Self {
        Spoilt {
            node: RampNode::make(node, shared, store),
            messages: 0,
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
        .run_as::<Spoilt<false>>(&prepared, one_each(&prepared), None)
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
        .run_as::<Spoilt<true>>(&prepared, one_each(&prepared), None)
        .unwrap();
    let crashed = Verdict::Crashed("spoilt on purpose".to_owned());
    assert_eq!(run.report.verdict, crashed);
    assert_eq!(run.report.verdict.exit_code(), 4);
    assert!(run.history.is_none(), "a broken run has no history");
}
