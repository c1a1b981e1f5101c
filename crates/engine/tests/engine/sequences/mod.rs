//! Sequences over nodes that share their counters, each with a log: the invariants SEQ-I1 to SEQ-I3 of
//! `docs/protocols/sequences.md` over random draws, `setval`s, checkpoints and crashes.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_engine::sequence::SequenceCounters;
use anabranch_engine::{
    Call, CallError, CallId, CheckpointProgress, DurableNode, Node, NodeInput, NodeOptions,
    NodeOutbox, NodeStart, PlannedApplication, Work,
};
use anabranch_protocol::Topology;
use anabranch_protocol::locking::{LockingNode, LockingOptions};
use anabranch_sql::sequence::SessionSequences;
use anabranch_storage::media::memory::MemoryDisk;
use anabranch_types::{NodeId, PartitionId, SplitMix64, Ticks, Value};

use crate::checkpoints::OPTIONS;
use crate::support::{fill, ints, plan};

const SQL: &str = "
CREATE SEQUENCE plain;
CREATE SEQUENCE turns INCREMENT BY 3 MINVALUE 2 MAXVALUE 1000 START WITH 5 CYCLE;
CREATE TABLE numbered (id serial PRIMARY KEY);
";

const NODES: u16 = 3;

type Message = <LockingNode as anabranch_protocol::Protocol>::Message;

struct Member {
    node: DurableNode<LockingNode, MemoryDisk>,
    out: NodeOutbox<Message>,
}

/// Nodes of one process.
struct World {
    planned: Arc<PlannedApplication>,
    members: Vec<Member>,
    now: u64,
    session: Arc<SessionSequences>,
}

impl World {
    fn new() -> World {
        World::open(plan(SQL, NODES), (0..NODES).map(|_| MemoryDisk::new()))
    }

    fn open(
        planned: Arc<PlannedApplication>,
        disks: impl IntoIterator<Item = MemoryDisk>,
    ) -> World {
        let counters = SequenceCounters::default();
        let members = (0..).map(NodeId).zip(disks).map(|(id, disk)| {
            let protocol = |start| {
                let loaded = fill(&planned, NODES, &[]).remove(id.index());
                let store = match start {
                    NodeStart::New => loaded,
                    NodeStart::Recovered => loaded.emptied(),
                };
                let topology = Arc::new(Topology::one_each(NODES));
                let schema = Arc::new(planned.schema().clone());
                let programs = planned.application.programs();
                LockingNode::new(
                    id,
                    topology,
                    schema,
                    store,
                    programs,
                    LockingOptions::default(),
                )
            };
            let node = |protocol, incarnation| {
                let options = NodeOptions {
                    incarnation,
                    declares: true,
                    ..NodeOptions::default()
                };
                let planned = Arc::clone(&planned);
                Node::new(id, PartitionId(id.0), planned, protocol, options)
                    .with_sequence_counters(counters.clone(), false)
            };
            let node = DurableNode::open(disk, OPTIONS, Ticks(1), protocol, node);
            let mut member = Member {
                node: node.expect("the disk has no faults"),
                out: NodeOutbox::default(),
            };
            member.node.flush(&mut member.out).expect("no faults");
            member
        });
        let mut world = World {
            members: members.collect(),
            now: 1,
            session: Arc::default(),
            planned,
        };
        world.settle();
        world
    }

    /// The result of a SELECT at a node, once what it rests on is durable.
    fn select(&mut self, node: usize, sql: &str) -> Result<Vec<Vec<Value>>, CallError> {
        self.now += 1_000_000;
        let statement = self.planned.application.statement(sql);
        let work = Work::statement(Arc::new(statement.expect("it compiles")));
        let call = Call::new(CallId(self.now), work, []).with_sequences(Arc::clone(&self.session));
        let now = Ticks(self.now);
        self.members[node].node.step(now, NodeInput::Call(call));
        self.settle();
        let outcome = self.members[node].out.outcomes.pop();
        let outcome = outcome.expect("nothing is waited for");
        outcome.result.map(|result| result.rows)
    }

    /// Lets the nodes write, answer each other, and sync what answers wait for, until nothing is under way.
    fn settle(&mut self) {
        loop {
            let mut sent = Vec::new();
            for (from, Member { node, out }) in self.members.iter_mut().enumerate() {
                node.step(Ticks(self.now), NodeInput::Tick);
                node.flush(out).expect("no faults");
                // What has been answered may be lost.
                if out.outcomes.is_empty()
                    && let Some(until) = node.begin_sync()
                {
                    node.end_sync(until, out).expect("no faults");
                }
                let messages = out.messages.drain(..);
                sent.extend(messages.map(|(to, message)| (NodeId(from as u16), to, message)));
            }
            if sent.is_empty() {
                return;
            }
            for (from, to, message) in sent {
                let node = &mut self.members[to.index()].node;
                node.step(Ticks(self.now), NodeInput::Message { from, message });
            }
        }
    }

    fn number(&mut self, node: usize, sql: &str) -> i64 {
        ints(&self.select(node, sql).expect("it succeeds"))[0][0]
    }

    /// Writes a part of a checkpoint.
    fn checkpoint(&mut self, node: usize) -> CheckpointProgress {
        let node = &mut self.members[node].node;
        let progress = node.checkpoint_slice(300).expect("no faults");
        if let Some(bytes) = node.begin_checkpoint_sync() {
            node.end_checkpoint_sync(bytes).expect("no faults");
        }
        progress
    }

    /// What a crash of all nodes leaves, opened.
    fn crashed(&mut self, random: &mut SplitMix64) -> World {
        let disks: Vec<MemoryDisk> = self
            .members
            .iter_mut()
            .map(|member| {
                let mut disk = member.node.media_mut().clone();
                disk.crash(&mut |below| random.below(below));
                disk
            })
            .collect();
        World::open(Arc::clone(&self.planned), disks)
    }
}

/// One client, whatever node it is at, is given one number after the other.
#[test]
fn a_client_of_several_nodes_is_given_one_series() {
    let mut world = World::new();
    for round in 0..20 {
        let number = world.number(round % 3, "SELECT nextval('plain')");
        assert_eq!(number, round as i64 + 1);
        let turns = world.number(2 - round % 3, "SELECT nextval('turns'::regclass)");
        assert_eq!(turns, 5 + 3 * round as i64);
        assert_eq!(world.number(0, "SELECT currval('plain')"), number);
        assert_eq!(world.number(1, "SELECT lastval()"), turns);
    }
    assert_eq!(world.number(0, "SELECT setval('plain', 7, false)"), 7);
    assert_eq!(world.number(2, "SELECT nextval('plain')"), 7);
    assert_eq!(world.number(1, "SELECT last_value FROM plain"), 7);
}

/// What one client did to a sequence since it was set last.
#[derive(Default)]
struct Expected {
    /// The first number of the epoch.
    base: i64,
    given: Vec<i64>,
}

/// A model that knows acknowledged numbers alone: after a crash a number may be skipped, and none is given twice.
fn survives(seed: u64) {
    let mut random = SplitMix64::new(seed);
    let mut world = World::new();
    let mut expected: BTreeMap<&str, Expected> = BTreeMap::new();
    for sequence in ["plain", "numbered_id_seq"] {
        let base = 1;
        expected.insert(
            sequence,
            Expected {
                base,
                ..Expected::default()
            },
        );
    }
    for step in 0..150 {
        let node = random.below(NODES.into()) as usize;
        let sequence = match random.below(2) {
            0 => "plain",
            _ => "numbered_id_seq",
        };
        let of = expected.get_mut(sequence).expect("it is there");
        match random.below(20) {
            0 => {
                let base = random.below(500) as i64 + 1;
                let sql = format!("SELECT setval('{sequence}', {base}, false)");
                assert_eq!(world.number(node, &sql), base);
                *of = Expected {
                    base,
                    ..Expected::default()
                };
            }
            1 | 2 => {
                world.checkpoint(node);
            }
            3 => world = world.crashed(&mut random),
            _ => {
                let number = world.number(node, &format!("SELECT nextval('{sequence}')"));
                let last = of.given.last().copied();
                let least = last.map_or(of.base, |last| last + 1);
                assert!(
                    number >= least,
                    "seed {seed}, step {step}: {sequence} gives {number} after {:?} from {}",
                    of.given,
                    of.base
                );
                // A crash skips at most what each node has logged ahead.
                assert!(
                    number <= least + 40 * i64::from(NODES) * 2,
                    "seed {seed}, step {step}: {sequence} gives {number}, {least} was due"
                );
                of.given.push(number);
            }
        }
    }
}

#[test]
fn no_number_is_given_twice_whatever_crashes() {
    for seed in 0..60 {
        survives(seed);
    }
}

/// `setval` is there after a crash at any moment after its answer, exactly: the next number is the one that it says.
#[test]
fn a_sequence_that_was_set_is_set_after_a_crash() {
    for seed in 0..8 {
        let mut random = SplitMix64::new(seed);
        let mut world = World::new();
        for _ in 0..70 {
            world.number(0, "SELECT nextval('plain')");
        }
        world.number(1, "SELECT setval('plain', 10)");
        let mut back = world.crashed(&mut random);
        assert_eq!(back.number(2, "SELECT nextval('plain')"), 11);
        let mut again = back.crashed(&mut random);
        let number = again.number(0, "SELECT nextval('plain')");
        assert!((12..60).contains(&number), "{number}");
    }
}

#[test]
fn errors_of_sequences_are_those_of_postgresql() {
    let mut world = World::new();
    let mut error = |sql: &str| match world.select(0, sql) {
        Err(CallError::Failed(error)) => (error.code, error.message.clone()),
        other => panic!("{sql}: {other:?}"),
    };
    let current = "currval of sequence \"plain\" is not yet defined in this session";
    assert_eq!(
        error("SELECT currval('plain')"),
        ("55000", current.to_owned())
    );
    let last = "lastval is not yet defined in this session";
    assert_eq!(error("SELECT lastval()"), ("55000", last.to_owned()));
    let bounds = "setval: value 1001 is out of bounds for sequence \"turns\" (2..1000)";
    assert_eq!(
        error("SELECT setval('turns', 1001)"),
        ("22003", bounds.to_owned())
    );
}
