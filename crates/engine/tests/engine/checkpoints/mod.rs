//! A durable node writes checkpoints in slices between its batches, and recovers from a crash after any of them.

use std::sync::Arc;

use anabranch_engine::durable::verify;
use anabranch_engine::{
    Call, CallId, CheckpointProgress, DurableNode, DurableOptions, Node, NodeInput, NodeOptions,
    NodeOutbox, NodeStart, Outcome, OutputRule, PlannedApplication, Work,
};
use anabranch_protocol::locking::{LockingNode, LockingOptions};
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{Durable, Topology};
use anabranch_storage::media::memory::{DiskFaults, MemoryDisk};
use anabranch_storage::{LogError, LogOptions, Media, Store};
use anabranch_types::{NodeId, PartitionId, Ticks, Value};

use crate::support::{args, fill, ints, plan};

const ENTRIES: &str = "
CREATE TABLE entries (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, value integer NOT NULL);
CREATE TABLE counters (id integer PRIMARY KEY, value integer NOT NULL);
CREATE INDEX entries_by_value ON entries (value);

CREATE PROCEDURE enter(p_value integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO entries (value) VALUES (p_value);
    UPDATE counters SET value = value + 1 WHERE id = p_value % 8;
END;
";

pub(crate) const OPTIONS: DurableOptions = DurableOptions {
    log: LogOptions {
        segment_bytes: 2 << 10,
        reserve_bytes: 1 << 10,
        ahead_bytes: 300,
    },
    checkpoint_bytes: 4 << 10,
    checkpoint_unsynced_max: 1 << 10,
    output: OutputRule::Durable,
    incarnation: anabranch_protocol::link::Incarnation::FIRST,
};

/// Makes a protocol's node.
pub(crate) type Make<P> = fn(&Arc<PlannedApplication>, Store) -> P;

pub(crate) fn ramp(planned: &Arc<PlannedApplication>, store: Store) -> RampNode {
    let topology = Arc::new(Topology::one_each(1));
    let programs = planned.application.programs();
    RampNode::new(NodeId(0), topology, store, programs, RampOptions::default())
}

pub(crate) fn locking(planned: &Arc<PlannedApplication>, store: Store) -> LockingNode {
    let topology = Arc::new(Topology::one_each(1));
    let schema = Arc::new(planned.schema().clone());
    let programs = planned.application.programs();
    let options = LockingOptions::default();
    LockingNode::new(NodeId(0), topology, schema, store, programs, options)
}

/// One node on a simulated disk.
pub(crate) struct World<P: Durable> {
    planned: Arc<PlannedApplication>,
    make: Make<P>,
    pub(crate) node: DurableNode<P, MemoryDisk>,
    pub(crate) out: NodeOutbox<P::Message>,
    now: u64,
}

impl<P: Durable> World<P> {
    pub(crate) fn new(make: Make<P>) -> World<P> {
        let planned = plan(ENTRIES, 1);
        World::open(planned, make, MemoryDisk::new())
    }

    fn open(planned: Arc<PlannedApplication>, make: Make<P>, disk: MemoryDisk) -> World<P> {
        let rows: Vec<(u16, Vec<Value>)> = (0..8).map(|id| (1, args([id, 0]).to_vec())).collect();
        let store = |start| {
            let loaded = fill(&planned, 1, &rows).remove(0);
            match start {
                NodeStart::New => loaded,
                NodeStart::Recovered => loaded.emptied(),
            }
        };
        let protocol = |start| make(&planned, store(start));
        let node = DurableNode::open(
            disk,
            OPTIONS,
            Ticks(1),
            protocol,
            |protocol, incarnation| {
                let options = NodeOptions {
                    incarnation,
                    declares: true,
                    ..NodeOptions::default()
                };
                let planned = Arc::clone(&planned);
                Node::new(NodeId(0), PartitionId(0), planned, protocol, options)
            },
        );
        let mut world = World {
            node: node.expect("the disk has no faults"),
            planned,
            make,
            out: NodeOutbox::default(),
            now: 1,
        };
        world.node.flush(&mut world.out).expect("no faults");
        world
    }

    /// Runs a call, and syncs. `None` if its outcome waits for room.
    pub(crate) fn outcome(&mut self, work: Work, arguments: &[Value]) -> Option<Outcome> {
        self.now += 1_000_000;
        let call = Call::new(CallId(self.now), work, arguments);
        self.node.step(Ticks(self.now), NodeInput::Call(call));
        self.node.flush(&mut self.out).expect("no faults");
        self.sync();
        self.out.outcomes.pop()
    }

    fn call(&mut self, work: Work, arguments: &[Value]) -> Vec<Vec<Value>> {
        let outcome = self.outcome(work, arguments);
        let outcome = outcome.expect("nothing is waited for");
        outcome.result.expect("it commits").rows
    }

    /// Runs a statement.
    pub(crate) fn statement(&mut self, sql: &str) -> Option<Outcome> {
        let statement = self.planned.application.statement(sql);
        let statement = statement.expect("it compiles");
        self.outcome(Work::statement(Arc::new(statement)), &[])
    }

    fn enter(&mut self, value: i64) {
        self.call(Work::Procedure(0), &args([value]));
    }

    pub(crate) fn query(&mut self, sql: &str) -> Vec<Vec<i64>> {
        let statement = self.planned.application.statement(sql);
        let statement = statement.expect("it compiles");
        ints(&self.call(Work::statement(Arc::new(statement)), &[]))
    }

    /// Everything that a client can see, through the primary key and through the index.
    fn contents(&mut self) -> [Vec<Vec<i64>>; 3] {
        [
            "SELECT id, value FROM entries ORDER BY id",
            "SELECT id, value FROM entries WHERE value >= 0 ORDER BY value, id",
            "SELECT id, value FROM counters ORDER BY id",
        ]
        .map(|sql| self.query(sql))
    }

    pub(crate) fn sync(&mut self) {
        if let Some(until) = self.node.begin_sync() {
            self.node.end_sync(until, &mut self.out).expect("no faults");
        }
    }

    /// Writes a slice, and ends the sync that the checkpoint waits for.
    fn slice(&mut self) -> CheckpointProgress {
        let progress = self.node.checkpoint_slice(300).expect("no faults");
        if let Some(bytes) = self.node.begin_checkpoint_sync() {
            self.node.end_checkpoint_sync(bytes).expect("no faults");
        }
        progress
    }

    /// What a crash now leaves, opened. `draw` chooses what is lost of what was not synced.
    pub(crate) fn crashed(&mut self, draw: u64) -> World<P> {
        let mut disk = self.node.media_mut().clone();
        disk.set_faults(DiskFaults::default());
        disk.crash(&mut |below| draw % below);
        World::open(Arc::clone(&self.planned), self.make, disk)
    }
}

/// Crashes after each slice; commits between the slices.
fn survives_a_crash_after_each_slice<P: Durable>(make: Make<P>) {
    let mut world = World::new(make);
    let (mut value, mut slices, mut adopted) = (0, 0, 0);
    while adopted < 4 {
        world.enter(value);
        value += 1;
        match world.slice() {
            CheckpointProgress::NotDue | CheckpointProgress::Abandoned => continue,
            CheckpointProgress::Adopted => adopted += 1,
            CheckpointProgress::Written | CheckpointProgress::Waits => slices += 1,
        }
        let contents = world.contents();
        assert_eq!(contents[0].len() as i64, value);
        for draw in [0, 1, 7] {
            let mut back = world.crashed(draw);
            assert_eq!(back.contents(), contents, "after slice {slices}, {draw}");
            // Numbers go on, and none is drawn twice.
            back.enter(1_000_000);
            let drawn = back.query("SELECT max(id), count(*) FROM entries");
            assert_eq!(drawn[0][1], value + 1);
            assert!(
                drawn[0][0] > contents[0][value as usize - 1][0],
                "{drawn:?}"
            );
        }
    }
    assert!(slices > 40, "{slices} slices");
}

#[test]
fn a_ramp_node_survives_a_crash_after_each_slice_of_a_checkpoint() {
    survives_a_crash_after_each_slice(ramp);
}

#[test]
fn a_locking_node_survives_a_crash_after_each_slice_of_a_checkpoint() {
    survives_a_crash_after_each_slice(locking);
}

#[test]
fn a_checkpoint_is_due_after_as_much_log_as_the_last_one_has() {
    let mut world = World::new(locking);
    let (mut value, mut due, mut replays) = (0, Vec::new(), Vec::new());
    while due.len() < 8 {
        while world.slice() == CheckpointProgress::NotDue {
            world.enter(value);
            value += 1;
        }
        due.push(world.node.counters().replay_bytes);
        assert!(world.node.is_writing_checkpoint());
        while world.node.is_writing_checkpoint() {
            world.slice();
            world.sync();
        }
        replays.push(world.node.counters().replay_bytes);
        assert!(world.node.checkpoint_if_due(&mut world.out) == Ok(false));
    }
    assert_eq!(world.node.counters().checkpoints, 8);
    // Nothing was logged while the checkpoints were written.
    assert_eq!(replays, [0; 8]);
    assert!((4 << 10..5 << 10).contains(&due[0]), "{due:?}");
    // Once a checkpoint has more bytes than that, the intervals grow with it.
    assert!(due[1..].is_sorted() && due[7] > 2 * due[0], "{due:?}");
}

/// A checkpoint may depend on what was logged while it was written.
#[test]
fn a_complete_checkpoint_waits_for_the_log() {
    let mut world = World::new(ramp);
    let mut value = 0;
    while world.slice() == CheckpointProgress::NotDue {
        world.enter(value);
        value += 1;
    }
    // The next entry is not the first of a segment, which is synced with the one before.
    world.enter(value);
    value += 1;
    // Logged, and not synced.
    world.now += 1_000_000;
    let call = Call::new(CallId(world.now), Work::Procedure(0), args([value]));
    world.node.step(Ticks(world.now), NodeInput::Call(call));
    world.node.flush(&mut world.out).expect("no faults");
    while world.slice() == CheckpointProgress::Written {}
    assert_eq!(world.slice(), CheckpointProgress::Waits);
    let contents = world.crashed(0).contents();
    assert_eq!(
        contents[0].len() as i64,
        value,
        "the last call is lost, nothing else"
    );
    world.sync();
    assert_eq!(world.slice(), CheckpointProgress::Adopted);
    assert!(
        world.node.counters().replay_bytes > 0,
        "the log goes on from the begin"
    );
    let contents = world.crashed(0).contents();
    assert_eq!(contents[0].len() as i64, value + 1);
}

#[test]
fn what_is_left_of_a_checkpoint_can_be_written_at_once() {
    let mut world = World::new(ramp);
    let mut value = 0;
    while world.slice() == CheckpointProgress::NotDue {
        world.enter(value);
        value += 1;
    }
    world.slice();
    world.enter(value);
    assert_eq!(world.node.checkpoint_if_due(&mut world.out), Ok(true));
    assert!(!world.node.is_writing_checkpoint());
    let contents = world.contents();
    assert_eq!(world.crashed(3).contents(), contents);
}

#[test]
fn verification_reads_every_record_of_a_node_and_tells_damage() {
    let mut world = World::new(ramp);
    let mut value = 0;
    while world.node.counters().checkpoints == 0 || world.node.counters().replay_bytes < 500 {
        world.enter(value);
        world.slice();
        value += 1;
    }
    let mut disk = world.node.media_mut().clone();
    let verified = verify(&mut disk).expect("nothing is damaged");
    assert!(
        verified.checkpointed > 3 && verified.logged > 3,
        "{verified:?}"
    );
    assert_eq!(verified.torn, None);
    let files = disk.files().expect("no faults");
    let checkpoint = files.iter().find(|file| file.starts_with("checkpoint-0"));
    let checkpoint = checkpoint.expect("it was written");
    assert!(disk.damage(checkpoint, 700));
    match verify(&mut disk) {
        Err(LogError::Damaged { file, offset, .. }) => {
            assert_eq!(&file, checkpoint);
            assert!((300..=700).contains(&offset), "the frame at {offset}");
        }
        other => panic!("{other:?}"),
    }
}
