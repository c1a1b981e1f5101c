//! A node with three replicas, message by message: output of a primary that was cut off never leaves.

use std::sync::Arc;

use anabranch_engine::routing::Target;
use anabranch_engine::{
    Batch, Call, CallId, DurableOptions, GroupOptions, Node, NodeFactory, NodeInput, NodeOptions,
    NodeOutbox, NodeStart, Outcome, PlannedApplication, ReplicaEvent, ReplicaInput, ReplicaNode,
    ReplicaOutbox, Work,
};
use anabranch_protocol::link::Incarnation;
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::replication::{Message, ReplicaId, ReplicaOptions};
use anabranch_protocol::{Protocol, Topology};
use anabranch_storage::Store;
use anabranch_storage::media::memory::MemoryDisk;
use anabranch_types::row::RowBuilder;
use anabranch_types::{NodeId, PartitionId, TableId, Ticks, Value};

use crate::support::{args, fill, ints, plan};

const CELLS: &str = "
CREATE TABLE cells (id integer PRIMARY KEY, value integer NOT NULL);

CREATE PROCEDURE add_to_both(p_here integer, p_there integer, p_by integer)
LANGUAGE SQL BEGIN ATOMIC
    UPDATE cells SET value = value + p_by WHERE id = p_here;
    UPDATE cells SET value = value + p_by WHERE id = p_there;
END;

CREATE PROCEDURE add_to_one(p_id integer, p_by integer)
LANGUAGE SQL BEGIN ATOMIC
    UPDATE cells SET value = value + p_by WHERE id = p_id;
END;

CREATE FUNCTION look(p_here integer, p_there integer, OUT here integer, OUT there integer)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT value INTO here FROM cells WHERE id = p_here;
    SELECT value INTO there FROM cells WHERE id = p_there;
END;
$$;
";

type Message1 = <RampNode as Protocol>::Message;

/// An unreplicated node, n0, and the three replicas of n1.
struct World {
    planned: Arc<PlannedApplication>,
    now: Ticks,
    alone: Node<RampNode>,
    outcomes: Vec<Outcome>,
    /// Messages from n0 to n1.
    sent: Vec<Message1>,
    replicas: Vec<ReplicaNode<RampNode, MemoryDisk>>,
    /// Messages between replicas.
    wire: Vec<(usize, usize, Message<Batch>)>,
    /// Replicas that are cut off.
    cut: [bool; 3],
    /// Replicas whose disk does not finish a sync.
    slow: [bool; 3],
    /// The number of messages and outcomes of each replica.
    output_count: [u32; 3],
    /// Outcomes of calls at n1.
    replica_outcomes: Vec<Outcome>,
    promoted: Vec<(usize, Incarnation)>,
    demoted: Vec<usize>,
    calls: u64,
    cells: [i64; 2],
}

impl World {
    fn new() -> World {
        let planned = plan(CELLS, 2);
        let row = |id: i64| vec![Value::Int(id), Value::Int(0)];
        let rows: Vec<(u16, Vec<Value>)> = (1..20).map(|id| (0, row(id))).collect();
        let stores = fill(&planned, 2, &rows);
        let layout = &planned.schema().table(TableId(0)).layout;
        let home = |id: &i64| {
            let built = RowBuilder::default().build(layout, &row(*id)).unwrap();
            planned.execution.router.row(TableId(0), &built)
        };
        let cell = |partition| {
            let target = Target::One(PartitionId(partition));
            (1..20).find(|id| home(id) == target).unwrap()
        };
        let cells = [cell(0), cell(1)];
        let alone = node(
            &planned,
            0,
            ramp(&planned, 0, stores[0].clone()),
            Incarnation(1),
        );
        let replica = |id| {
            let options = GroupOptions {
                id: ReplicaId(id),
                count: 3,
                durable: DurableOptions::default(),
                replica: ReplicaOptions {
                    seed: u64::from(id),
                    ..ReplicaOptions::default()
                },
                part_records: 8,
            };
            let mut loaded = Some(stores[1].clone());
            let (for_protocol, for_node) = (Arc::clone(&planned), Arc::clone(&planned));
            let empty = stores[1].emptied();
            let factory = NodeFactory {
                protocol: Box::new(move |beginning| {
                    let store = match beginning {
                        NodeStart::New => loaded.take().unwrap(),
                        NodeStart::Recovered => empty.clone(),
                    };
                    ramp(&for_protocol, 1, store)
                }),
                node: Box::new(move |protocol, incarnation| {
                    node(&for_node, 1, protocol, incarnation)
                }),
            };
            ReplicaNode::open(MemoryDisk::new(), options, Ticks::from_millis(1), factory).unwrap()
        };
        World {
            alone,
            replicas: (0..3).map(replica).collect(),
            planned,
            now: Ticks::from_millis(1),
            outcomes: Vec::new(),
            sent: Vec::new(),
            wire: Vec::new(),
            cut: [false; 3],
            slow: [false; 3],
            output_count: [0; 3],
            replica_outcomes: Vec::new(),
            promoted: Vec::new(),
            demoted: Vec::new(),
            calls: 0,
            cells,
        }
    }

    fn call_of(&mut self, procedure: &str, arguments: &[Value]) -> Call {
        self.calls += 1;
        let procedures = &self.planned.application.procedures;
        let number = procedures.iter().position(|p| p.name() == procedure);
        let work = Work::Procedure(number.unwrap());
        Call::new(CallId(self.calls), work, arguments)
    }

    /// The unreplicated node takes an input.
    fn alone(&mut self, input: NodeInput<Message1>) {
        let mut out = NodeOutbox::default();
        self.alone.step(self.now, input, &mut out);
        self.sent.extend(out.messages.into_iter().map(|(_, m)| m));
        self.outcomes.extend(out.outcomes);
    }

    /// A replica takes an input, and its disk makes it durable at once.
    fn replica(&mut self, at: usize, input: ReplicaInput<Message1>) {
        let mut out = ReplicaOutbox::default();
        let now = self.now;
        let replica = &mut self.replicas[at];
        replica.step(now, input);
        replica.flush(now, &mut out).unwrap();
        while !self.slow[at]
            && let Some(until) = replica.begin_sync()
        {
            replica.end_sync(now, until, &mut out).unwrap();
        }
        replica.group().check_invariants().unwrap();
        let to = |id: ReplicaId| id.index();
        let messages = out.replicas.into_iter();
        self.wire.extend(messages.map(|(id, m)| (at, to(id), m)));
        for event in out.events {
            match event {
                ReplicaEvent::Promoted(incarnation) => self.promoted.push((at, incarnation)),
                ReplicaEvent::Demoted(_) => self.demoted.push(at),
                ReplicaEvent::Output(output) => {
                    self.output_count[at] += (output.messages.len() + output.outcomes.len()) as u32;
                    self.replica_outcomes.extend(output.outcomes);
                    for (_, message) in output.messages {
                        let from = NodeId(1);
                        self.alone(NodeInput::Message { from, message });
                    }
                }
            }
        }
    }

    /// Delivers between replicas until nothing is under way.
    fn settle(&mut self) {
        while let Some((from, to, message)) = self.wire.pop() {
            if !self.cut[from] && !self.cut[to] {
                let from = ReplicaId(from as u8);
                self.replica(to, ReplicaInput::Replica { from, message });
            }
        }
    }

    /// Time passes at replicas that are not paused.
    fn pass(&mut self, awake: &[usize]) {
        self.now = self.now + Ticks::from_millis(20);
        for &at in awake {
            self.replica(at, ReplicaInput::Tick);
        }
        self.settle();
    }

    /// Delivers n0's messages to a replica.
    fn deliver_to(&mut self, at: usize) {
        for message in std::mem::take(&mut self.sent) {
            let from = NodeId(0);
            let message = NodeInput::Message { from, message };
            self.replica(at, ReplicaInput::Node(message));
        }
        self.settle();
    }

    /// The outcome of a call at n0, with this replica as n1's primary.
    fn answered_by(&mut self, at: usize) -> Outcome {
        for _ in 0..1_000 {
            if let Some(outcome) = self.outcomes.pop() {
                return outcome;
            }
            if self.sent.is_empty() {
                self.now = self.alone.next_alarm().unwrap_or(self.now).max(self.now);
                self.alone(NodeInput::Tick);
            }
            self.deliver_to(at);
        }
        panic!("the call has no end");
    }
}

fn ramp(planned: &Arc<PlannedApplication>, number: u16, store: Store) -> RampNode {
    let programs = planned.application.programs();
    let topology = Arc::new(Topology::one_each(2));
    let options = RampOptions::default();
    RampNode::new(NodeId(number), topology, store, programs, options)
}

fn node(
    planned: &Arc<PlannedApplication>,
    number: u16,
    protocol: RampNode,
    incarnation: Incarnation,
) -> Node<RampNode> {
    let options = NodeOptions {
        incarnation,
        ..NodeOptions::default()
    };
    let home = PartitionId(number);
    Node::new(NodeId(number), home, Arc::clone(planned), protocol, options)
}

/// RAMP's trap of a COMMIT without a PREPARE: the primary gets a `Prepare` and is cut off before a backup has
/// it. Its vote must not leave. Instead the coordinator learns of the new incarnation, and prepares again
/// there.
#[test]
fn failover_before_the_prepare_is_replicated() {
    let mut world = World::new();
    let [here, there] = world.cells;
    let add = world.call_of("add_to_both", &args([here, there, 5]));
    world.alone(NodeInput::Call(add));
    world.cut[0] = true;
    world.deliver_to(0);
    assert_eq!(world.replicas[0].protocol().prepared(), 1, "it has it");
    assert!(world.replicas[0].holds_output());
    assert_eq!(
        world.output_count[0], 0,
        "the vote of a record that only one replica has is held"
    );

    // The primary is paused, and another is elected.
    for _ in 0..60 {
        world.pass(&[1, 2]);
    }
    let &[(new, incarnation)] = world.promoted.as_slice() else {
        panic!("{:?}", world.promoted);
    };
    assert_eq!(incarnation, Incarnation(2));
    assert_eq!(world.replicas[new].protocol().prepared(), 0);
    world.alone(NodeInput::Restarted { node: NodeId(1) });
    let outcome = world.answered_by(new);
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    assert_eq!(outcome.retries.restarted, 1);

    let look = world.call_of("look", &args([here, there]));
    world.alone(NodeInput::Call(look));
    let seen = world.answered_by(new).result.unwrap().rows;
    assert_eq!(ints(&seen), vec![vec![5, 5]], "once, in both");

    // The old primary resumes, learns of it, and drops the vote.
    world.cut[0] = false;
    for _ in 0..4 {
        world.pass(&[0, 1, 2]);
    }
    assert_eq!(
        (world.output_count[0], world.demoted.as_slice()),
        (0, &[0][..])
    );
    assert_eq!(world.replicas[0].protocol().prepared(), 0);
    let ends = world.replicas.iter().map(|r| r.applied());
    let ends: Vec<u64> = ends.collect();
    assert_eq!(ends, vec![ends[new]; 3], "all have the same");
}

/// A deposed primary that does not know it reads an old row. The answer never leaves.
#[test]
fn a_deposed_primary_sends_no_stale_read() {
    let mut world = World::new();
    let [here, there] = world.cells;
    let add = world.call_of("add_to_one", &args([there, 1]));
    world.replica(0, ReplicaInput::Node(NodeInput::Call(add)));
    world.settle();
    assert_eq!(
        (world.output_count[0], world.replica_outcomes.len()),
        (1, 1)
    );
    world.cut[0] = true;
    while world.promoted.is_empty() {
        world.pass(&[1, 2]);
    }
    let (new, _) = world.promoted[0];
    let add = world.call_of("add_to_one", &args([there, 7]));
    world.replica(new, ReplicaInput::Node(NodeInput::Call(add)));
    world.settle();
    assert_eq!(world.replica_outcomes.len(), 2, "a client got the answer 8");

    let look = world.call_of("look", &args([there, there]));
    world.replica(0, ReplicaInput::Node(NodeInput::Call(look)));
    let look = world.call_of("look", &args([here, there]));
    world.alone(NodeInput::Call(look));
    world.deliver_to(0);
    assert!(world.replicas[0].holds_output(), "it has read, and waits");
    let (last, committed) = (
        world.replicas[0].group().last(),
        world.replicas[0].group().committed(),
    );
    assert_eq!(last.index, committed, "not for a record");
    world.cut[0] = false;
    for _ in 0..4 {
        world.pass(&[0, 1, 2]);
    }
    assert_eq!(
        (world.output_count[0], world.demoted.as_slice()),
        (1, &[0][..])
    );
    assert_eq!(world.replica_outcomes.len(), 2);

    world.alone(NodeInput::Restarted { node: NodeId(1) });
    let seen = world.answered_by(new).result.unwrap().rows;
    assert_eq!(ints(&seen), vec![vec![0, 8]]);
}

/// The backups have a vote's records and confirm their primary, but their disks have not synced them, and two
/// crashes would lose them. The vote is held.
#[test]
fn a_vote_waits_for_the_disks_of_a_majority() {
    let mut world = World::new();
    let [here, there] = world.cells;
    world.slow = [false, true, true];
    let add = world.call_of("add_to_both", &args([here, there, 5]));
    world.alone(NodeInput::Call(add));
    world.deliver_to(0);
    for _ in 0..10 {
        world.pass(&[0, 1, 2]);
    }
    let group = world.replicas[0].group();
    assert!(group.confirmed() > Some(3), "it is the primary");
    assert_eq!((world.output_count[0], group.committed()), (0, 0));
    world.slow = [false, true, false];
    world.pass(&[0, 1, 2]);
    let outcome = world.answered_by(0);
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
}
