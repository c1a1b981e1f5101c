//! Nodes whose output does not wait for their logs, on disks that lose what was not synced: after a crash all logs are
//! cut at the end of one epoch, and what is left fits together.
//!
//! Clients transfer between accounts on several nodes, each the next transfer only after it was told of the one before.
//! The order of messages, turns, syncs, epochs and the crash is drawn from a seed. Afterwards each transfer has to be
//! there as a whole or not at all, and no transfer without those that its client has made before.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use anabranch_engine::{
    Call, CallId, CheckpointProgress, DurableNode, DurableOptions, Node, NodeInput, NodeOptions,
    NodeOutbox, NodeStart, OutputRule, PlannedApplication, Work,
};
use anabranch_protocol::locking::{LockingNode, LockingOptions};
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{Durable, Topology};
use anabranch_storage::log::epoch;
use anabranch_storage::media::memory::MemoryDisk;
use anabranch_storage::{LogOptions, LogPosition, Store};
use anabranch_types::{NodeId, PartitionId, SplitMix64, Ticks, Value};

use crate::support::{args, fill, ints, plan};

const TRANSFERS: &str = "
CREATE TABLE accounts (id integer PRIMARY KEY, balance integer NOT NULL);
CREATE TABLE transfers (
    client integer, number integer, source integer NOT NULL, target integer NOT NULL, amount integer NOT NULL,
    PRIMARY KEY (client, number)
);

CREATE PROCEDURE transfer(p_client integer, p_number integer, p_source integer, p_target integer, p_amount integer)
LANGUAGE SQL BEGIN ATOMIC
    UPDATE accounts SET balance = balance - p_amount WHERE id = p_source;
    UPDATE accounts SET balance = balance + p_amount WHERE id = p_target;
    INSERT INTO transfers VALUES (p_client, p_number, p_source, p_target, p_amount);
END;
";

const NODES: u16 = 3;
const CLIENTS: u64 = 4;
const ACCOUNTS: u64 = 9;
const OPENING: i64 = 100;

type Make<P> = fn(NodeId, &Arc<PlannedApplication>, Store) -> P;

fn ramp(id: NodeId, planned: &Arc<PlannedApplication>, store: Store) -> RampNode {
    let topology = Arc::new(Topology::one_each(NODES));
    let programs = planned.application.programs();
    RampNode::new(id, topology, store, programs, RampOptions::default())
}

fn locking(id: NodeId, planned: &Arc<PlannedApplication>, store: Store) -> LockingNode {
    let topology = Arc::new(Topology::one_each(NODES));
    let schema = Arc::new(planned.schema().clone());
    let programs = planned.application.programs();
    let options = LockingOptions::default();
    LockingNode::new(id, topology, schema, store, programs, options)
}

struct World<P: Durable> {
    planned: Arc<PlannedApplication>,
    nodes: Vec<DurableNode<P, MemoryDisk>>,
    /// Messages under way, from each node to each, in order.
    links: BTreeMap<(u16, u16), VecDeque<P::Message>>,
    /// Syncs that have begun at each node: of the log, of the checkpoint.
    syncs: Vec<(Option<LogPosition>, Option<u64>)>,
    /// The open epoch.
    epoch: u64,
    now: u64,
    /// What each client waits for, by call.
    calls: BTreeMap<CallId, u64>,
    next_call: u64,
    answers: BTreeMap<CallId, Vec<Vec<Value>>>,
    checkpoints: u64,
}

impl<P: Durable> World<P> {
    fn open(planned: Arc<PlannedApplication>, make: Make<P>, disks: Vec<MemoryDisk>) -> World<P> {
        let rows: Vec<(u16, Vec<Value>)> = (0..ACCOUNTS as i64)
            .map(|id| (0, args([id, OPENING]).to_vec()))
            .collect();
        let stores = fill(&planned, NODES, &rows);
        let nodes = (0..NODES).map(NodeId).zip(disks).zip(stores);
        let nodes = nodes.map(|((id, disk), store)| {
            let options = DurableOptions {
                log: LogOptions {
                    segment_bytes: 2 << 10,
                    reserve_bytes: 0,
                    ahead_bytes: 300,
                },
                checkpoint_bytes: 3 << 10,
                checkpoint_unsynced_max: 1 << 10,
                output: OutputRule::Epochs { first: 1 },
                incarnation: anabranch_protocol::link::Incarnation::FIRST,
            };
            let protocol = |start| {
                let store = match start {
                    NodeStart::New => store.clone(),
                    NodeStart::Recovered => store.emptied(),
                };
                make(id, &planned, store)
            };
            let node = DurableNode::open(
                disk,
                options,
                Ticks(1),
                protocol,
                |protocol, incarnation| {
                    let options = NodeOptions {
                        incarnation,
                        declares: true,
                        ..NodeOptions::default()
                    };
                    let planned = Arc::clone(&planned);
                    Node::new(id, PartitionId(id.0), planned, protocol, options)
                },
            );
            node.expect("the disk has no faults")
        });
        let nodes: Vec<_> = nodes.collect();
        let mut world = World {
            epoch: nodes.iter().map(DurableNode::epoch).max().unwrap_or(0),
            syncs: vec![(None, None); nodes.len()],
            nodes,
            planned,
            links: BTreeMap::new(),
            now: 1,
            calls: BTreeMap::new(),
            next_call: 0,
            answers: BTreeMap::new(),
            checkpoints: 0,
        };
        (0..NODES).for_each(|node| world.turn(node));
        world
    }

    /// Ends a node's turn, as a driver does: the epoch is read after the inputs were taken.
    fn turn(&mut self, node: u16) {
        let durable = &mut self.nodes[usize::from(node)];
        let mut out = NodeOutbox::default();
        durable.open_epoch(self.epoch);
        durable.flush(&mut out).expect("no faults");
        for (to, message) in out.messages.drain(..) {
            let link = self.links.entry((node, to.0)).or_default();
            link.push_back(message);
        }
        for outcome in out.outcomes.drain(..) {
            if let Ok(result) = outcome.result {
                self.answers.insert(outcome.id, result.rows);
            } else if let Some(client) = self.calls.remove(&outcome.id) {
                panic!(
                    "the call of client {client} has failed: {:?}",
                    outcome.result
                );
            }
        }
    }

    fn step(&mut self, node: u16, input: NodeInput<P::Message>) {
        self.now += 20_000;
        self.nodes[usize::from(node)].step(Ticks(self.now), input);
    }

    fn submit(&mut self, node: u16, work: Work, arguments: &[Value]) -> CallId {
        self.next_call += 1;
        let id = CallId(self.next_call);
        self.step(node, NodeInput::Call(Call::new(id, work, arguments)));
        self.turn(node);
        id
    }

    /// Delivers a message, or lets timers run where none is under way. Returns whether there was anything.
    fn advance(&mut self, random: &mut SplitMix64) -> bool {
        let ready: Vec<(u16, u16)> = self
            .links
            .iter()
            .filter(|(_, messages)| !messages.is_empty())
            .map(|(link, _)| *link)
            .collect();
        if ready.is_empty() {
            let alarms = (0..NODES).filter_map(|node| {
                let at = self.nodes[usize::from(node)].node().next_alarm()?;
                Some((at, node))
            });
            let Some((at, node)) = alarms.min() else {
                return false;
            };
            self.now = self.now.max(at.0);
            self.step(node, NodeInput::Tick);
            self.turn(node);
            return true;
        }
        let (from, to) = ready[random.below(ready.len() as u64) as usize];
        // A turn takes one message or several.
        for _ in 0..1 + random.below(3) {
            let link = self.links.get_mut(&(from, to));
            if let Some(message) = link.and_then(VecDeque::pop_front) {
                let from = NodeId(from);
                self.step(to, NodeInput::Message { from, message });
            }
        }
        self.turn(to);
        true
    }

    /// Begins or ends a sync of a node, or writes a slice of its checkpoint.
    fn work_on_disk(&mut self, node: u16, random: &mut SplitMix64) {
        let durable_everywhere = self.nodes.iter().map(DurableNode::durable_epoch).min();
        let at = usize::from(node);
        let durable = &mut self.nodes[at];
        durable.note_durable_everywhere(durable_everywhere.unwrap_or(0));
        let mut out = NodeOutbox::default();
        match random.below(4) {
            0 => {
                if let Some(until) = self.syncs[at].0.take() {
                    durable.end_sync(until, &mut out).expect("no faults");
                }
                if let Some(bytes) = self.syncs[at].1.take() {
                    durable.end_checkpoint_sync(bytes).expect("no faults");
                }
            }
            1 => {
                self.syncs[at].0 = durable.begin_sync().or(self.syncs[at].0);
                self.syncs[at].1 = durable.begin_checkpoint_sync().or(self.syncs[at].1);
            }
            _ => {
                let progress = durable.checkpoint_slice(200).expect("no faults");
                self.checkpoints += u64::from(progress == CheckpointProgress::Adopted);
            }
        }
        assert!(!out.has_output(), "no output waits for a sync");
    }

    /// Crashes all nodes; returns what is left on their disks, cut.
    fn crash(self, random: &mut SplitMix64) -> (Vec<MemoryDisk>, u64) {
        let mut disks: Vec<MemoryDisk> = self
            .nodes
            .into_iter()
            .map(DurableNode::into_media)
            .collect();
        for disk in &mut disks {
            disk.crash(&mut |below| random.below(below));
        }
        let last = disks
            .iter_mut()
            .map(|disk| epoch::last_epoch(disk).expect("no faults"));
        let last: Vec<u64> = last.map(|last| last.expect("a marker stays")).collect();
        let whole = last.iter().min().expect("there are nodes") - 1;
        for disk in &mut disks {
            epoch::cut_after_epoch(disk, whole).expect("no faults");
            // Cut again, it is the same: a crash may have come in between.
            let before = disk.clone().used();
            epoch::cut_after_epoch(disk, whole).expect("no faults");
            assert_eq!(disk.used(), before);
        }
        let first = last.iter().max().expect("there are nodes") + 1;
        for disk in &mut disks {
            epoch::mark_epoch(disk, first).expect("no faults");
        }
        (disks, whole)
    }

    fn query(&mut self, sql: &str, random: &mut SplitMix64) -> Vec<Vec<i64>> {
        let statement = self.planned.application.statement(sql);
        let statement = Arc::new(statement.expect("it compiles"));
        let id = self.submit(0, Work::statement(statement), &[]);
        for _ in 0..100_000 {
            if let Some(rows) = self.answers.remove(&id) {
                return ints(&rows);
            }
            assert!(self.advance(random), "{sql} is not answered");
        }
        panic!("{sql} has no end")
    }
}

/// What clients do in one life of the cluster: how many transfers each was told of.
fn transfer<P: Durable>(
    world: &mut World<P>,
    told: &mut BTreeMap<u64, i64>,
    random: &mut SplitMix64,
) {
    let steps = 200 + random.below(1_500);
    for _ in 0..steps {
        match random.below(12) {
            0 => {
                let client = random.below(CLIENTS);
                if !world.calls.values().any(|waits| *waits == client) {
                    let number = told.get(&client).copied().unwrap_or(0) + 1;
                    let source = random.below(ACCOUNTS) as i64;
                    let target = random.below(ACCOUNTS) as i64;
                    let arguments = args([
                        client as i64,
                        number,
                        source,
                        target,
                        1 + random.below(5) as i64,
                    ]);
                    let node = random.below(u64::from(NODES)) as u16;
                    let id = world.submit(node, Work::Procedure(0), &arguments);
                    world.calls.insert(id, client);
                }
            }
            1 => {
                let node = random.below(u64::from(NODES)) as u16;
                world.work_on_disk(node, random);
            }
            2 => world.epoch += random.below(2),
            // An idle node takes a turn.
            3 => world.turn(random.below(u64::from(NODES)) as u16),
            _ => {
                world.advance(random);
            }
        }
        let answered: Vec<CallId> = world.answers.keys().copied().collect();
        for id in answered {
            world.answers.remove(&id);
            if let Some(client) = world.calls.remove(&id) {
                *told.entry(client).or_insert(0) += 1;
            }
        }
    }
}

/// Compares what is there with itself, and with what clients were told; returns how many transfers are lost.
fn check<P: Durable>(
    world: &mut World<P>,
    told: &mut BTreeMap<u64, i64>,
    random: &mut SplitMix64,
) -> Result<i64, String> {
    let transfers = world.query(
        "SELECT client, number, source, target, amount FROM transfers ORDER BY client, number",
        random,
    );
    let mut balances = vec![OPENING; ACCOUNTS as usize];
    let mut found: BTreeMap<u64, i64> = BTreeMap::new();
    for row in &transfers {
        let last = found.entry(row[0] as u64).or_insert(0);
        if row[1] != *last + 1 {
            return Err(format!("client {}: {} follows {last}", row[0], row[1]));
        }
        *last = row[1];
        balances[row[2] as usize] -= row[4];
        balances[row[3] as usize] += row[4];
    }
    let rows = world.query("SELECT id, balance FROM accounts ORDER BY id", random);
    let rows: Vec<i64> = rows.iter().map(|row| row[1]).collect();
    if rows != balances {
        return Err(format!(
            "balances are {rows:?}, and the transfers make {balances:?}"
        ));
    }
    let mut lost = 0;
    for (client, told) in told.iter() {
        let found = found.get(client).copied().unwrap_or(0);
        if found > told + 1 {
            return Err(format!("client {client} has {found} transfers of {told}"));
        }
        lost += (told - found).max(0);
    }
    *told = found;
    Ok(lost)
}

fn survives<P: Durable>(make: Make<P>) {
    let (mut lost, mut kept, mut checkpoints) = (0, 0, 0);
    for seed in 0..60 {
        let mut random = SplitMix64::stream(seed, "epochs", 0);
        let random = &mut random;
        let planned = plan(TRANSFERS, NODES);
        let disks = (0..NODES).map(|_| MemoryDisk::new()).collect();
        let mut world = World::open(Arc::clone(&planned), make, disks);
        let mut told = BTreeMap::new();
        for life in 0..4 {
            transfer(&mut world, &mut told, random);
            checkpoints += world.checkpoints;
            let (disks, whole) = world.crash(random);
            world = World::open(Arc::clone(&planned), make, disks);
            // What was prepared is decided first.
            for _ in 0..3_000 {
                world.advance(random);
            }
            lost += check(&mut world, &mut told, random)
                .unwrap_or_else(|wrong| panic!("seed {seed}, life {life}, epoch {whole}: {wrong}"));
        }
        kept += told.values().sum::<i64>();
    }
    // The runs have what they are about.
    assert!(
        lost > 50 && kept > 500 && checkpoints > 20,
        "{lost} lost, {kept} kept, {checkpoints} checkpoints"
    );
}

#[test]
fn what_ramp_nodes_keep_after_a_crash_is_a_consistent_cut() {
    survives(ramp);
}

#[test]
fn what_locking_nodes_keep_after_a_crash_is_a_consistent_cut() {
    survives(locking);
}
