//! RAMP nodes in virtual time, with message delays from a seed, and two clients that each make one call after another.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use anabranch_analysis::explore::{ReplicaCall, StoredRow};
use anabranch_engine::load::Loader;
use anabranch_engine::sequence::SequenceStarts;
use anabranch_engine::{
    AttemptOutcome, AttemptRecord, Call, CallError, CallId, Node, NodeInput, NodeOptions,
    NodeOutbox, PlannedApplication, Work,
};
use anabranch_protocol::link::Incarnation;
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{Protocol, Topology};
use anabranch_sql::{ResultSet, StatementResult};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{Effect, NodeId, PartitionId, SplitMix64, TableId, Ticks, Value};

use super::ReplayError;
use crate::rows::rows_of;

/// The longest delay of a message; the shortest is a microsecond.
const DELAY_MAX: Ticks = Ticks::from_micros(1_000);

/// The largest difference between the clients' first calls.
const START_MAX: Ticks = Ticks::from_micros(2_000);

/// More events than any replay takes.
const EVENTS_MAX: u32 = 1_000_000;

/// The result of a call.
pub(super) type CallResult = Result<ResultSet, CallError>;

type Message = <RampNode as Protocol>::Message;

/// The initial state of the nodes.
pub(super) struct Start<'s> {
    /// The application.
    pub(super) planned: &'s Arc<PlannedApplication>,
    /// The initial rows.
    pub(super) rows: &'s [(TableId, Vec<Value>)],
    /// The starts of generated numbers.
    pub(super) numbers: &'s SequenceStarts,
    /// The nodes' incarnation: different incarnations generate different keys.
    pub(super) incarnation: Incarnation,
    /// The seed of the delays.
    pub(super) seed: u64,
}

/// The outcomes of some calls.
pub(super) struct Outcomes {
    /// The result of each call, in their order.
    pub(super) results: Vec<CallResult>,
    /// The committed effects of each call.
    pub(super) effects: Vec<Vec<Effect>>,
    /// The results of the statements of each call, in the attempt that committed.
    pub(super) statements: Vec<Vec<StatementResult>>,
    /// The final rows.
    pub(super) rows: Vec<StoredRow>,
}

/// The stores of all partitions with these rows.
fn stores(start: &Start<'_>) -> Result<Vec<Store>, ReplayError> {
    let partitions = start.planned.execution.router.partitions();
    let fill = |partition| {
        let planned = Arc::clone(start.planned);
        let mut loader = Loader::new(planned, PartitionId(partition), StoreSettings::default());
        for (table, values) in start.rows {
            loader.row(*table, values).map_err(ReplayError::Row)?;
        }
        Ok(loader.into_store())
    };
    (0..partitions).map(fill).collect()
}

/// The initial rows, as a store keeps them.
pub(super) fn stored(start: &Start<'_>) -> Result<Vec<StoredRow>, ReplayError> {
    Ok(all_rows(stores(start)?.iter()))
}

/// The highest number of each identity or serial column.
pub(super) fn numbers(start: &Start<'_>) -> Result<SequenceStarts, ReplayError> {
    Ok(SequenceStarts::of(start.planned, &stores(start)?))
}

fn all_rows<'s>(stores: impl Iterator<Item = &'s Store>) -> Vec<StoredRow> {
    let rows: BTreeMap<_, _> = stores.flat_map(rows_of).collect();
    let rows = rows.into_iter();
    rows.map(|((table, key), row)| (table, key, row)).collect()
}

/// Makes the calls of two replicas by two clients at the same time. Each makes one call after another.
///
/// # Errors
/// If rows do not load, a node violates an invariant of its protocol, or the calls do not end.
pub(super) fn concurrently(
    start: &Start<'_>,
    calls: &[ReplicaCall],
) -> Result<Outcomes, ReplayError> {
    let sides = [0, 1].map(|replica| {
        let of = |place: &usize| calls[*place].replica == replica;
        (0..calls.len()).filter(of).collect()
    });
    Nodes::new(start)?.run(calls, sides)
}

/// Makes calls by one client, one after another in this order.
///
/// # Errors
/// As [`concurrently`].
pub(super) fn sequentially(
    start: &Start<'_>,
    calls: &[ReplicaCall],
    order: &[usize],
) -> Result<Outcomes, ReplayError> {
    let sides = [order.iter().copied().collect(), VecDeque::new()];
    Nodes::new(start)?.run(calls, sides)
}

struct Nodes {
    nodes: Vec<Node<RampNode>>,
    random: SplitMix64,
    now: Ticks,
    sent: u64,
    /// Arrival times of messages, with the messages' numbers.
    due: BinaryHeap<Reverse<(Ticks, u64)>>,
    messages: BTreeMap<u64, (NodeId, NodeId, Message)>,
    /// The last arrival on each link: messages stay in order.
    last: BTreeMap<(NodeId, NodeId), Ticks>,
    results: BTreeMap<CallId, CallResult>,
    attempts: Vec<AttemptRecord>,
}

impl Nodes {
    fn new(start: &Start<'_>) -> Result<Nodes, ReplayError> {
        let planned = start.planned;
        let partitions = planned.execution.router.partitions();
        let topology = Arc::new(Topology::one_each(partitions));
        let node = |(number, store)| {
            let (id, home) = (NodeId(number), PartitionId(number));
            let topology = Arc::clone(&topology);
            let (programs, options) = (planned.application.programs(), RampOptions::default());
            let protocol = RampNode::new(id, topology, store, programs, options);
            let options = NodeOptions {
                incarnation: start.incarnation,
                records: true,
                ..NodeOptions::default()
            };
            let node = Node::new(id, home, Arc::clone(planned), protocol, options);
            node.with_sequence_starts(start.numbers)
        };
        Ok(Nodes {
            nodes: (0..).zip(stores(start)?).map(node).collect(),
            random: SplitMix64::stream(start.seed, "replay", 0),
            now: Ticks::from_millis(1),
            sent: 0,
            due: BinaryHeap::new(),
            messages: BTreeMap::new(),
            last: BTreeMap::new(),
            results: BTreeMap::new(),
            attempts: Vec::new(),
        })
    }

    /// Makes the calls of both clients, until all have ended and no message is in flight.
    fn run(
        mut self,
        calls: &[ReplicaCall],
        mut sides: [VecDeque<usize>; 2],
    ) -> Result<Outcomes, ReplayError> {
        let begins = [0, 1].map(|_| self.now + self.random_up_to(START_MAX));
        let nodes = self.nodes.len() as u64;
        let stands = [0, 1].map(|_| self.random.below(nodes) as usize);
        let mut under_way: [Option<CallId>; 2] = [None, None];
        for _ in 0..EVENTS_MAX {
            for (side, running) in under_way.iter_mut().enumerate() {
                if running.is_some_and(|id| self.results.contains_key(&id)) {
                    *running = None;
                }
                if running.is_none()
                    && self.now >= begins[side]
                    && let Some(place) = sides[side].pop_front()
                {
                    *running = Some(self.call(stands[side], place, &calls[place])?);
                }
            }
            let waiting = (0..2).filter(|side| !sides[*side].is_empty());
            let begin = waiting
                .filter(|side| under_way[*side].is_none())
                .map(|side| begins[side])
                .filter(|at| *at > self.now)
                .min();
            let arrival = self.due.peek().map(|next| next.0.0);
            let idle = self.nodes.iter().all(|node| node.calls() == 0);
            if idle && arrival.is_none() && begin.is_none() {
                if sides.iter().all(VecDeque::is_empty) {
                    return Ok(self.outcomes(calls.len()));
                }
                continue;
            }
            let alarms = self.nodes.iter().enumerate();
            let alarm = alarms
                .filter_map(|(at, node)| Some((node.next_alarm()?, at)))
                .min();
            let next = [arrival, begin].into_iter().flatten().min();
            match (next, alarm) {
                (Some(next), Some((rings, at))) if rings < next => {
                    self.now = self.now.max(rings);
                    self.step(at, NodeInput::Tick)?;
                }
                (None, Some((rings, at))) => {
                    self.now = self.now.max(rings);
                    self.step(at, NodeInput::Tick)?;
                }
                (Some(next), _) => {
                    self.now = self.now.max(next);
                    if arrival == Some(next) {
                        self.deliver()?;
                    }
                }
                (None, None) => return Err(ReplayError::NoEnd),
            }
        }
        Err(ReplayError::NoEnd)
    }

    fn random_up_to(&mut self, most: Ticks) -> Ticks {
        Ticks::from_micros(1 + self.random.below(most.as_micros()))
    }

    fn call(
        &mut self,
        node: usize,
        place: usize,
        call: &ReplicaCall,
    ) -> Result<CallId, ReplayError> {
        let id = CallId(place as u64);
        let work = Work::Procedure(call.procedure);
        let call = Call::new(id, work, call.arguments.clone());
        self.step(node, NodeInput::Call(call))?;
        Ok(id)
    }

    fn deliver(&mut self) -> Result<(), ReplayError> {
        let Some(Reverse((_, number))) = self.due.pop() else {
            return Ok(());
        };
        match self.messages.remove(&number) {
            Some((from, to, message)) => {
                self.step(to.index(), NodeInput::Message { from, message })
            }
            None => Ok(()),
        }
    }

    fn step(&mut self, at: usize, input: NodeInput<Message>) -> Result<(), ReplayError> {
        let mut out = NodeOutbox::default();
        let node = &mut self.nodes[at];
        node.step(self.now, input, &mut out);
        node.protocol()
            .check_invariants()
            .map_err(ReplayError::Protocol)?;
        for (to, message) in out.messages {
            self.sent += 1;
            let from = NodeId(at as u16);
            let travels = self.random_up_to(DELAY_MAX);
            let last = self.last.entry((from, to)).or_default();
            *last = (self.now + travels).max(*last);
            self.due.push(Reverse((*last, self.sent)));
            self.messages.insert(self.sent, (from, to, message));
        }
        self.attempts.append(&mut out.attempts);
        for outcome in out.outcomes {
            self.results.insert(outcome.id, outcome.result);
        }
        Ok(())
    }

    fn outcomes(mut self, calls: usize) -> Outcomes {
        let mut effects = vec![Vec::new(); calls];
        let mut statements = vec![Vec::new(); calls];
        for attempt in std::mem::take(&mut self.attempts) {
            if let AttemptOutcome::Committed(_) = attempt.outcome
                && let Some(place) = effects.get_mut(attempt.call.0 as usize)
            {
                let parts = attempt.effects.into_iter();
                *place = parts.flat_map(|part| part.effects).collect();
                statements[attempt.call.0 as usize] = attempt.results;
            }
        }
        let mut results = self.results;
        let places = (0..calls as u64).map(CallId);
        let stores = self.nodes.iter().map(|node| node.protocol().store());
        Outcomes {
            results: places.filter_map(|id| results.remove(&id)).collect(),
            effects,
            statements,
            rows: all_rows(stores),
        }
    }
}
