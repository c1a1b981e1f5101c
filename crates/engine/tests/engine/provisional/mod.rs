//! An open block is answered before the log is durable; its COMMIT waits for everything that it rests on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use anabranch_engine::routing::Target;
use anabranch_engine::{
    BlockId, BlockOptions, Call, CallId, DurableNode, DurableOptions, Node, NodeInput, NodeOptions,
    NodeOutbox, NodeStart, Outcome, PlannedApplication, StatementCode, StatementWork, Step,
    StepAction, Work,
};
use anabranch_protocol::Topology;
use anabranch_protocol::locking::{LockingNode, LockingOptions, Message};
use anabranch_storage::Store;
use anabranch_storage::media::memory::MemoryDisk;
use anabranch_types::{NodeId, PartitionId, Ticks, Value};

use crate::support::{args, fill, ints, plan};

const ACCOUNTS: &str = "
CREATE TABLE accounts (id integer PRIMARY KEY, balance integer NOT NULL);
CREATE PROCEDURE put(p_id integer, p_balance integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE accounts SET balance = p_balance WHERE id = p_id;
END;
";
const ROWS: i64 = 16;

/// Nodes with logs, whose messages and syncs a test delivers and ends.
struct World {
    planned: Arc<PlannedApplication>,
    nodes: Vec<DurableNode<LockingNode, MemoryDisk>>,
    links: BTreeMap<(u16, u16), VecDeque<Message>>,
    outcomes: BTreeMap<CallId, Outcome>,
    next_call: u64,
    now: u64,
}

fn open(
    planned: &Arc<PlannedApplication>,
    id: u16,
    store: &Store,
    disk: MemoryDisk,
    count: u16,
) -> DurableNode<LockingNode, MemoryDisk> {
    let protocol = |start| {
        let store = match start {
            NodeStart::New => store.clone(),
            NodeStart::Recovered => store.emptied(),
        };
        LockingNode::new(
            NodeId(id),
            Arc::new(Topology::one_each(count)),
            Arc::new(planned.schema().clone()),
            store,
            planned.application.programs(),
            LockingOptions::default(),
        )
    };
    let options = DurableOptions::default();
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
            let planned = Arc::clone(planned);
            Node::new(NodeId(id), PartitionId(id), planned, protocol, options)
        },
    );
    node.expect("the disk has no faults")
}

impl World {
    /// Nodes with a partition each, and accounts whose balance is 0.
    fn new(count: u16) -> World {
        let planned = plan(ACCOUNTS, count);
        let stores = World::stores(&planned, count);
        let nodes = (0..count).zip(&stores);
        let nodes = nodes.map(|(id, store)| open(&planned, id, store, MemoryDisk::new(), count));
        let mut world = World {
            nodes: nodes.collect(),
            planned,
            links: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            next_call: 0,
            now: 1_000,
        };
        // The first step of a node extends the bound of its clock.
        for node in 0..count {
            let id = world.account_at(node, 0);
            let warm = world.statement(
                node,
                &format!("UPDATE accounts SET balance = 0 WHERE id = {id}"),
            );
            world.sync(node);
            assert_eq!(
                world.take(warm).map(|outcome| outcome.result.is_ok()),
                Some(true)
            );
        }
        world
    }

    fn stores(planned: &Arc<PlannedApplication>, count: u16) -> Vec<Store> {
        let rows: Vec<(u16, Vec<Value>)> =
            (0..ROWS).map(|id| (0, args([id, 0]).to_vec())).collect();
        fill(planned, count, &rows)
    }

    /// The account with this number among those of a node.
    fn account_at(&self, node: u16, number: usize) -> i64 {
        let router = &self.planned.execution.router;
        let mut found = (0..ROWS).filter(|id| {
            let read = self.compiled(&format!("SELECT balance FROM accounts WHERE id = {id}"));
            let reads = read.declared_reads(&[]);
            let mut at = reads.iter().map(|(_, _, read)| router.read(read));
            matches!(at.next(), Some(Target::One(partition)) if partition.0 == node)
        });
        found.nth(number).expect("each node has some accounts")
    }

    fn step(&mut self, node: u16, input: NodeInput<Message>) {
        self.now += 1_000;
        self.nodes[usize::from(node)].step(Ticks(self.now), input);
        let mut out = NodeOutbox::default();
        let flushed = self.nodes[usize::from(node)].flush(&mut out);
        flushed.expect("no faults");
        self.send(node, out);
    }

    fn send(&mut self, node: u16, out: NodeOutbox<Message>) {
        for (to, message) in out.messages {
            let link = self.links.entry((node, to.0)).or_default();
            link.push_back(message);
        }
        for outcome in out.outcomes {
            self.outcomes.insert(outcome.id, outcome);
        }
    }

    /// Delivers messages until none is under way; no sync ends meanwhile.
    fn deliver(&mut self) {
        while let Some((link, message)) = self
            .links
            .iter_mut()
            .find_map(|(link, queue)| Some((*link, queue.pop_front()?)))
        {
            let from = NodeId(link.0);
            self.step(link.1, NodeInput::Message { from, message });
        }
    }

    /// Syncs a node's log, and delivers what was held.
    fn sync(&mut self, node: u16) {
        let mut out = NodeOutbox::default();
        let durable = &mut self.nodes[usize::from(node)];
        if let Some(until) = durable.begin_sync() {
            durable.end_sync(until, &mut out).expect("no faults");
        }
        self.send(node, out);
        self.deliver();
    }

    /// A node crashes without what was not synced, and recovers.
    fn crash(&mut self, node: u16) {
        let count = self.nodes.len() as u16;
        let stores = World::stores(&self.planned, count);
        let at = usize::from(node);
        let mut disk = self.nodes[at].media_mut().clone();
        disk.crash(&mut |_| 0);
        self.links
            .retain(|(from, to), _| *from != node && *to != node);
        self.nodes[at] = open(&self.planned, node, &stores[at], disk, count);
        for peer in (0..count).filter(|peer| *peer != node) {
            self.step(peer, NodeInput::Restarted { node: NodeId(node) });
        }
        let mut out = NodeOutbox::default();
        self.nodes[at].flush(&mut out).expect("no faults");
        self.send(node, out);
        self.deliver();
    }

    /// Lets pauses between attempts pass.
    fn pass(&mut self) {
        self.now += 1_000_000_000;
        for node in 0..self.nodes.len() as u16 {
            self.step(node, NodeInput::Tick);
        }
        self.deliver();
    }

    fn call(&mut self, node: u16, work: Work) -> CallId {
        self.next_call += 1;
        let id = CallId(self.next_call);
        self.step(node, NodeInput::Call(Call::new(id, work, [])));
        self.deliver();
        id
    }

    fn compiled(&self, sql: &str) -> Arc<anabranch_sql::application::CompiledStatement> {
        Arc::new(
            self.planned
                .application
                .statement(sql)
                .expect("it compiles"),
        )
    }

    fn statement(&mut self, node: u16, sql: &str) -> CallId {
        let work = Work::statement(self.compiled(sql));
        self.call(node, work)
    }

    fn block(&mut self, node: u16, action: StepAction) -> CallId {
        let step = Step {
            block: BlockId(1),
            options: BlockOptions::default(),
            action,
        };
        self.call(node, Work::Step(step))
    }

    fn in_block(&mut self, node: u16, sql: &str) -> CallId {
        let work = StatementWork {
            code: StatementCode::Statement(self.compiled(sql)),
            entry: None,
            timing: None,
        };
        self.block(node, StepAction::Statement(work))
    }

    fn take(&mut self, call: CallId) -> Option<Outcome> {
        self.outcomes.remove(&call)
    }

    #[track_caller]
    fn rows(&mut self, call: CallId) -> Vec<Vec<i64>> {
        let outcome = self.take(call).expect("it is answered");
        ints(&outcome.result.expect("it succeeds").rows)
    }
}

#[test]
fn a_block_is_answered_before_the_log_is_durable_and_its_commit_after() {
    let mut world = World::new(1);
    let put = world.statement(0, "UPDATE accounts SET balance = 7 WHERE id = 1");
    let sql = "SELECT balance FROM accounts WHERE id = 1";
    let step = world.in_block(0, sql);
    let alone = world.statement(0, sql);
    assert_eq!(world.rows(step), [[7]], "a step does not wait");
    let commit = world.block(0, StepAction::Commit);
    for call in [put, alone, commit] {
        assert!(world.take(call).is_none(), "{call:?} waits for the log");
    }
    world.sync(0);
    assert_eq!(world.rows(alone), [[7]]);
    assert!(world.take(put).is_some() && world.take(commit).is_some());
}

#[test]
fn a_rollback_waits_for_nothing() {
    let mut world = World::new(1);
    let put = world.statement(0, "UPDATE accounts SET balance = 7 WHERE id = 1");
    let step = world.in_block(0, "SELECT balance FROM accounts WHERE id = 1");
    let end = world.block(0, StepAction::Rollback);
    assert!(world.take(step).is_some() && world.take(end).is_some());
    assert!(world.take(put).is_none());
}

/// A block reads at another node what is not durable there. It is answered, and no decision is logged before that node
/// has confirmed it.
#[test]
fn what_a_block_was_sent_is_durable_before_it_commits() {
    for writes in [false, true] {
        let mut world = World::new(2);
        let (here, there) = (world.account_at(0, 1), world.account_at(1, 1));
        let put = format!("UPDATE accounts SET balance = 7 WHERE id = {there}");
        let put = world.statement(1, &put);
        let read = format!("SELECT balance FROM accounts WHERE id = {there}");
        let read = world.in_block(0, &read);
        assert_eq!(world.rows(read), [[7]], "no message waits");
        if writes {
            let own = format!("UPDATE accounts SET balance = 8 WHERE id = {here}");
            let own = world.in_block(0, &own);
            assert!(world.take(own).is_some());
        }
        let logged = world.nodes[0].counters().records;
        let commit = world.block(0, StepAction::Commit);
        world.sync(0);
        assert_eq!(
            world.nodes[0].counters().records,
            logged,
            "nothing is decided"
        );
        assert!(world.take(commit).is_none() && world.take(put).is_none());
        world.sync(1);
        world.sync(0);
        assert!(
            world
                .take(commit)
                .is_some_and(|outcome| outcome.result.is_ok())
        );
        assert!(world.take(put).is_some());
    }
}

/// The other node loses in a crash what the block has read.
#[test]
fn a_block_that_was_sent_what_is_lost_fails() {
    for asks_before in [false, true] {
        let mut world = World::new(2);
        let (here, there) = (world.account_at(0, 1), world.account_at(1, 1));
        world.statement(
            1,
            &format!("UPDATE accounts SET balance = 7 WHERE id = {there}"),
        );
        let read = format!("SELECT balance FROM accounts WHERE id = {there}");
        let read = world.in_block(0, &read);
        assert_eq!(world.rows(read), [[7]]);
        let own = format!("UPDATE accounts SET balance = 8 WHERE id = {here}");
        world.in_block(0, &own);
        let asked = asks_before.then(|| world.block(0, StepAction::Commit));
        world.crash(1);
        let commit = asked.unwrap_or_else(|| world.block(0, StepAction::Commit));
        for _ in 0..4 {
            world.sync(0);
            world.sync(1);
            world.pass();
        }
        let outcome = world.take(commit).expect("it ends");
        let error = outcome.result.expect_err("what it was told is not so");
        assert_eq!(error.code(), "40001");
        let own = format!("SELECT balance FROM accounts WHERE id = {here}");
        let own = world.statement(0, &own);
        world.sync(0);
        assert_eq!(world.rows(own), [[0]], "nothing of it is left");
    }
}
