//! A cluster of nodes stepped by hand: one queue of messages, one clock that only the test moves.
//! The same test runs over each protocol.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use anabranch_analysis::{Options, analyze_with};
use anabranch_engine::load::Loader;
use anabranch_engine::sequence::SequenceStarts;
use anabranch_engine::{
    Admission, AttemptRecord, BELT_TABLES, BeltTables, Call, CallError, CallId, Node, NodeInput,
    NodeOptions, NodeOutbox, Outcome, PlannedApplication, Refusal, TransactionLimits,
    UndeclaredTypes, Work,
};
use anabranch_protocol::locking::{LockingNode, LockingOptions};
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{Protocol, Topology};
use anabranch_sql::application::Application;
use anabranch_sql::source::SourceFile;
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{
    Activity, ActivityProbe, NodeId, PartitionId, Placement, TableId, Ticks, Value,
};

/// How long a message travels.
pub(crate) const DELAY: Ticks = Ticks::from_micros(100);

/// A cluster under any protocol.
pub(crate) trait Cluster {
    /// The application that it runs.
    fn planned(&self) -> &Arc<PlannedApplication>;
    /// Begins a call at a node. The cluster chooses its id.
    fn submit_call(&mut self, node: u16, call: Call) -> CallId;
    /// Cancels a call at a node.
    fn cancel(&mut self, node: u16, call: CallId);
    /// Lets the next message arrive or the next timer run, whichever is first; `false` when no message is under way, and
    /// no call runs or none can go on.
    fn advance(&mut self) -> bool;
    /// Which transactions a node lets commit from now on.
    fn admit(&mut self, node: u16, admission: Admission);
    /// The number of calls that have not ended.
    fn open_calls(&self) -> usize;
    /// The outcomes since the last time.
    fn take_outcomes(&mut self) -> BTreeMap<CallId, Outcome>;
    /// Asserts that no node keeps anything of a transaction that has ended.
    fn assert_idle(&self);
    /// The attempts recorded so far, if the nodes record them.
    fn attempts(&self) -> &[AttemptRecord];
}

/// What a call gave: its rows, or why it failed.
pub(crate) type Answer = Result<Vec<Vec<Value>>, CallError>;

impl dyn Cluster + '_ {
    /// Begins a call of a procedure or statement at a node.
    pub(crate) fn submit(&mut self, node: u16, work: Work, arguments: &[Value]) -> CallId {
        self.submit_call(node, Call::new(CallId(0), work, arguments))
    }

    /// Lets time pass until no call runs and no message is under way; returns all outcomes since.
    pub(crate) fn run(&mut self) -> BTreeMap<CallId, Outcome> {
        for _ in 0..1_000_000 {
            if !self.advance() {
                let open = self.open_calls();
                assert_eq!(open, 0, "calls wait that no message or timer will resume");
                return self.take_outcomes();
            }
        }
        panic!("no end is in sight")
    }

    /// Begins a call of a procedure.
    pub(crate) fn begin(&mut self, node: u16, procedure: &str, arguments: &[Value]) -> CallId {
        let procedures = &self.planned().application.procedures;
        let number = procedures.iter().position(|p| p.name() == procedure);
        let number = number.unwrap_or_else(|| panic!("no procedure {procedure}"));
        self.submit(node, Work::Procedure(number), arguments)
    }

    /// One call of a procedure, without concurrent calls; its whole outcome.
    pub(crate) fn outcome(&mut self, node: u16, procedure: &str, arguments: &[Value]) -> Outcome {
        let id = self.begin(node, procedure, arguments);
        self.run().remove(&id).expect("it has ended")
    }

    /// One call of a procedure, without concurrent calls.
    pub(crate) fn call(&mut self, node: u16, procedure: &str, arguments: &[Value]) -> Answer {
        self.outcome(node, procedure, arguments)
            .result
            .map(|result| result.rows)
    }

    /// One statement outside any procedure.
    pub(crate) fn statement(&mut self, node: u16, sql: &str) -> Answer {
        let statement = self.planned().application.statement(sql);
        let statement = statement.unwrap_or_else(|problems| panic!("{sql}: {problems:?}"));
        let id = self.submit(node, Work::statement(Arc::new(statement)), &[]);
        let outcome = self.run().remove(&id).expect("it has ended");
        outcome.result.map(|result| result.rows)
    }

    /// Begins a client's statement, with its entry among the undeclared types.
    pub(crate) fn begin_admitted(
        &mut self,
        node: u16,
        types: &UndeclaredTypes,
        sql: &str,
        arguments: &[Value],
    ) -> Result<CallId, Box<Refusal>> {
        let statement = self.planned().application.statement(sql);
        let statement = statement.unwrap_or_else(|problems| panic!("{sql}: {problems:?}"));
        let entry = Some(types.admit(sql, &statement)?);
        let statement = Arc::new(statement);
        Ok(self.submit(node, Work::Statement { statement, entry }, arguments))
    }

    /// A query's rows of integers.
    #[track_caller]
    pub(crate) fn ints(&mut self, node: u16, sql: &str) -> Vec<Vec<i64>> {
        ints(&self.statement(node, sql).expect("a query succeeds"))
    }
}

/// Rows of integers.
#[track_caller]
pub(crate) fn ints(rows: &[Vec<Value>]) -> Vec<Vec<i64>> {
    let int = |value: &Value| match value {
        Value::Int(int) => *int,
        other => panic!("{other:?} is no integer"),
    };
    rows.iter()
        .map(|row| row.iter().map(int).collect())
        .collect()
}

/// Integers as arguments.
pub(crate) fn args<const N: usize>(ints: [i64; N]) -> [Value; N] {
    ints.map(Value::Int)
}

/// Runs a test over `partitions` nodes under each protocol. Rows are loaded first: a table's
/// number, and its values.
pub(crate) fn under_each(
    sql: &str,
    partitions: u16,
    rows: &[(u16, Vec<Value>)],
    test: impl Fn(&mut dyn Cluster),
) {
    under_each_with(sql, partitions, rows, NodeOptions::default(), test);
}

/// The same, with settings.
pub(crate) fn under_each_with(
    sql: &str,
    partitions: u16,
    rows: &[(u16, Vec<Value>)],
    options: NodeOptions,
    test: impl Fn(&mut dyn Cluster),
) {
    under_each_planned(&plan(sql, partitions), rows, options, test);
}

/// The same, for an application with its plan.
pub(crate) fn under_each_planned(
    planned: &Arc<PlannedApplication>,
    rows: &[(u16, Vec<Value>)],
    options: NodeOptions,
    test: impl Fn(&mut dyn Cluster),
) {
    let partitions = planned.execution.router.partitions();
    let topology = Arc::new(Topology::one_each(partitions));
    let numbers = SequenceStarts::of(planned, &fill(planned, partitions, rows));
    let stores = || {
        let mut stores = fill(planned, partitions, rows);
        if options.records {
            stores.iter_mut().for_each(Store::record);
        }
        stores.into_iter().enumerate()
    };
    let programs = planned.application.programs();

    let ramp = stores().map(|(number, store)| {
        let id = NodeId(number as u16);
        let options = RampOptions::default();
        RampNode::new(
            id,
            Arc::clone(&topology),
            store,
            Arc::clone(&programs),
            options,
        )
    });
    test(&mut Nodes::new(planned, &numbers, ramp.collect(), options));
    under_locking(planned, rows, options, test);
}

/// Runs a test over nodes under locking.
pub(crate) fn under_locking(
    planned: &Arc<PlannedApplication>,
    rows: &[(u16, Vec<Value>)],
    options: NodeOptions,
    test: impl Fn(&mut dyn Cluster),
) {
    let partitions = planned.execution.router.partitions();
    let topology = Arc::new(Topology::one_each(partitions));
    let numbers = SequenceStarts::of(planned, &fill(planned, partitions, rows));
    let mut stores = fill(planned, partitions, rows);
    if options.records {
        stores.iter_mut().for_each(Store::record);
    }
    let programs = planned.application.programs();
    let replicated = (0..planned.schema().tables.len() as u16)
        .map(TableId)
        .filter(|id| *planned.execution.router.placement(*id) == Placement::Replicated);
    let locks = LockingOptions {
        unlocked_tables: replicated.collect(),
        ..LockingOptions::default()
    };
    let schema = Arc::new(planned.schema().clone());
    let locking = stores.into_iter().enumerate().map(|(number, store)| {
        LockingNode::new(
            NodeId(number as u16),
            Arc::clone(&topology),
            Arc::clone(&schema),
            store,
            Arc::clone(&programs),
            locks.clone(),
        )
    });
    let declares = true;
    let options = NodeOptions {
        declares,
        ..options
    };
    test(&mut Nodes::new(
        planned,
        &numbers,
        locking.collect(),
        options,
    ));
}

/// A server of a ring, with a place among the residues of generated keys: one node under locking, whose tables clients may
/// all write. `is_whole`: see [`BeltTables::new`].
pub(crate) fn server_of_ring(
    sql: &str,
    rows: &[(u16, Vec<Value>)],
    is_whole: impl Fn(&str) -> Option<bool>,
    (place, slots): (u16, u16),
    limits: TransactionLimits,
) -> Box<dyn Cluster> {
    let sql = format!("{sql}\n{BELT_TABLES}");
    let catalog = anabranch_sql::catalog::load(vec![SourceFile::new("application.sql", sql)]);
    let application = Application::compile(catalog.unwrap_or_else(|p| panic!("{p:?}")));
    let application = application.unwrap_or_else(|p| panic!("{p:?}"));
    let options = Options::default();
    let mut plan = analyze_with(application.catalog(), application.summaries(), &options);
    plan.placements.fill(Placement::Whole);
    let planned = PlannedApplication::new(application, plan, 1);
    let belt = BeltTables::new(planned.schema(), is_whole).unwrap_or_else(|e| panic!("{e}"));
    let mut stores = fill(&planned, 1, rows);
    let numbers = SequenceStarts::of(&planned, &stores);
    let locking = LockingNode::new(
        NodeId(0),
        Arc::new(Topology::one_each(1)),
        Arc::new(planned.schema().clone()),
        stores.remove(0),
        planned.application.programs(),
        LockingOptions::default(),
    );
    let options = NodeOptions {
        declares: true,
        limits,
        ..NodeOptions::default()
    };
    let mut nodes = Nodes::new(&planned, &SequenceStarts::default(), vec![locking], options);
    let node = nodes.nodes.remove(0).with_belt(Arc::new(belt));
    let node = node.with_sequence_residue(place, slots);
    nodes.nodes.push(node.with_sequence_starts(&numbers));
    Box::new(nodes)
}

/// SQL to a planned application.
pub(crate) fn plan(sql: &str, partitions: u16) -> Arc<PlannedApplication> {
    plan_with(sql, partitions, &Options::default())
}

/// The same, with options of the analysis.
pub(crate) fn plan_with(sql: &str, partitions: u16, options: &Options) -> Arc<PlannedApplication> {
    let files = vec![SourceFile::new("application.sql", sql)];
    let catalog = anabranch_sql::catalog::load(files).unwrap_or_else(|p| panic!("{sql}\n{p:?}"));
    let application = Application::compile(catalog).unwrap_or_else(|p| panic!("{sql}\n{p:?}"));
    let plan = analyze_with(application.catalog(), application.summaries(), options);
    PlannedApplication::new(application, plan, partitions)
}

/// One filled store for each partition.
pub(crate) fn fill(
    planned: &Arc<PlannedApplication>,
    partitions: u16,
    rows: &[(u16, Vec<Value>)],
) -> Vec<Store> {
    let fill_one = |partition| {
        let settings = StoreSettings::default();
        let mut loader = Loader::new(Arc::clone(planned), PartitionId(partition), settings);
        for (table, values) in rows {
            loader.row(TableId(*table), values).expect("it loads");
        }
        loader.into_store()
    };
    (0..partitions).map(fill_one).collect()
}

struct Nodes<P: Protocol> {
    planned: Arc<PlannedApplication>,
    nodes: Vec<Node<P>>,
    now: Ticks,
    sent: u64,
    travelling: BinaryHeap<Reverse<(Ticks, u64)>>,
    messages: BTreeMap<u64, (NodeId, NodeId, P::Message)>,
    outcomes: BTreeMap<CallId, Outcome>,
    attempts: Vec<AttemptRecord>,
    calls: u64,
    /// The activity of the node that takes a step.
    probe: ActivityProbe,
}

impl<P: Protocol> Nodes<P> {
    fn new(
        planned: &Arc<PlannedApplication>,
        numbers: &SequenceStarts,
        made: Vec<P>,
        options: NodeOptions,
    ) -> Nodes<P> {
        let probe = ActivityProbe::enabled();
        let node = |(number, protocol)| {
            let number = number as u16;
            let planned = Arc::clone(planned);
            let mut node = Node::new(
                NodeId(number),
                PartitionId(number),
                planned,
                protocol,
                options,
            );
            node.observe(probe.clone());
            node.with_sequence_starts(numbers)
        };
        Nodes {
            planned: Arc::clone(planned),
            nodes: made.into_iter().enumerate().map(node).collect(),
            now: Ticks::from_millis(1),
            sent: 0,
            travelling: BinaryHeap::new(),
            messages: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            attempts: Vec::new(),
            calls: 0,
            probe: probe.clone(),
        }
    }

    fn step(&mut self, at: usize, input: NodeInput<P::Message>) {
        let mut out = NodeOutbox::default();
        let node = &mut self.nodes[at];
        self.probe.enter(Activity::Transport);
        node.step(self.now, input, &mut out);
        let left = self.probe.current();
        assert_eq!(left, Activity::Transport, "a step restores the activity");
        if let Err(broken) = node.protocol().check_invariants() {
            panic!("node {at}: {broken}");
        }
        if let Err(broken) = node.check_blocks() {
            panic!("node {at}: {broken}");
        }
        for (to, message) in out.messages {
            self.sent += 1;
            self.travelling.push(Reverse((self.now + DELAY, self.sent)));
            let from = NodeId(at as u16);
            self.messages.insert(self.sent, (from, to, message));
        }
        self.attempts.append(&mut out.attempts);
        for outcome in out.outcomes {
            let again = self.outcomes.insert(outcome.id, outcome);
            assert!(again.is_none(), "a call ends once");
        }
    }
}

impl<P: Idle> Cluster for Nodes<P> {
    fn planned(&self) -> &Arc<PlannedApplication> {
        &self.planned
    }

    fn submit_call(&mut self, node: u16, call: Call) -> CallId {
        self.calls += 1;
        let id = CallId(self.calls);
        let mut call = call;
        call.id = id;
        self.step(usize::from(node), NodeInput::Call(call));
        id
    }

    fn cancel(&mut self, node: u16, call: CallId) {
        self.step(usize::from(node), NodeInput::Cancel(call));
    }

    fn attempts(&self) -> &[AttemptRecord] {
        &self.attempts
    }

    fn take_outcomes(&mut self) -> BTreeMap<CallId, Outcome> {
        std::mem::take(&mut self.outcomes)
    }

    fn admit(&mut self, node: u16, admission: Admission) {
        self.nodes[usize::from(node)].admit(admission);
    }

    fn advance(&mut self) -> bool {
        if self.open_calls() == 0 && self.travelling.is_empty() {
            return false;
        }
        let arrival = self.travelling.peek().map(|next| next.0.0);
        let alarms = self.nodes.iter().enumerate();
        let alarm = alarms
            .filter_map(|(at, node)| Some((node.next_alarm()?, at)))
            .min();
        match (arrival, alarm) {
            (Some(due), alarm) if alarm.is_none_or(|(rings, _)| due <= rings) => {
                self.now = self.now.max(due);
                let Reverse((_, number)) = self.travelling.pop().expect("it was seen");
                let sent = self.messages.remove(&number);
                let (from, to, message) = sent.expect("it was sent");
                self.step(to.index(), NodeInput::Message { from, message });
            }
            (_, Some((rings, at))) => {
                self.now = self.now.max(rings);
                self.step(at, NodeInput::Tick);
            }
            (_, None) => return false,
        }
        true
    }

    fn open_calls(&self) -> usize {
        self.nodes.iter().map(Node::calls).sum()
    }

    fn assert_idle(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            assert_eq!(node.calls(), 0, "node {at} has open calls");
            let idle = node.protocol().is_idle();
            assert!(idle, "node {at} keeps something of what has ended");
        }
    }
}

/// A protocol whose nodes say whether anything is open.
pub(crate) trait Idle: Protocol {
    /// Whether no transaction is known.
    fn is_idle(&self) -> bool;
}

impl Idle for RampNode {
    fn is_idle(&self) -> bool {
        self.is_idle()
    }
}

impl Idle for LockingNode {
    fn is_idle(&self) -> bool {
        self.is_idle()
    }
}
