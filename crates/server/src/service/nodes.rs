//! The nodes of a server, whatever their protocol: how they start, and how they hand over to others when the schema
//! changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_engine::sequence::{SequenceCounters, SequenceStarts};
use anabranch_engine::{
    BlockId, Call, DetachedBlock, DurableNode, DurableOptions, Node, NodeOptions, NodeStart,
    Outcome, OutputRule, PlannedApplication, TransactionLimits, Work,
};
use anabranch_protocol::link::Incarnation;
use anabranch_protocol::locking::{LockingNode, LockingOptions};
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{Durable, Handover, Protocol, Topology};
use anabranch_storage::{DetachedTable, LogError, LogOptions, Store};
use anabranch_types::{NodeId, PartitionId, Placement, TableId, Value};
use mio::{Poll, Waker};

use super::connections::{Connections, WAKER};
use super::environment::{Environment, now_micros};
use super::options::Guarantee;
use super::{AHEAD_BYTES, RESERVE_BYTES, ServiceError};
use crate::backup::Backups;
use crate::client::Client;
use crate::cluster::{Cluster, ClusterError, FrontendOfNode, Frontends};
use crate::data::{DataFolder, Durability};
use crate::frontend::Post;
use crate::open_transactions::LookAtNodes;
use crate::options::ClusterOptions;
use crate::room::RoomGauge;

/// A running cluster of whatever protocol.
pub(crate) trait Nodes: Send {
    /// What they have room for.
    fn room(&self) -> Arc<RoomGauge>;
    /// Makes backups of them.
    fn backups(&self, data: &DataFolder) -> Arc<dyn Backups>;
    /// The way to their threads' connections.
    fn post(&self) -> Arc<dyn Post>;
    /// Why they have failed, if they have.
    fn failure(&self) -> Option<&str>;
    /// Gives connections to their threads. Once.
    fn own(&mut self, frontends: Frontends);
    /// Waits until nothing is under way, and ends them.
    fn stop(self: Box<Self>) -> Result<NodesLeft, ClusterError>;
    /// Takes a block out of its node, if it is there and at rest.
    fn take_block(
        &self,
        node: NodeId,
        block: BlockId,
    ) -> Result<Option<DetachedBlock>, ClusterError>;
    /// Puts a block into a node.
    fn put_block(&self, node: NodeId, block: DetachedBlock) -> Result<(), ClusterError>;
    /// A copy of the rows of a table as they are, of each node.
    fn table_rows(&self, table: TableId) -> Result<Vec<DetachedTable>, ClusterError>;
    /// Whether all of them run this application, with its plan.
    fn run(&self, planned: &Arc<PlannedApplication>) -> Result<bool, ClusterError>;
    /// Asks them what has not ended there, as long as they run.
    fn look(&self) -> Arc<dyn LookAtNodes>;
    /// A copy of all rows as they are, of each node.
    fn rows(&self) -> Result<Vec<Store>, ClusterError>;
    /// Makes calls, each of which waits for its outcome.
    fn caller(&self) -> Box<dyn Caller>;
    /// Makes one call and waits for its outcome.
    fn call(
        &self,
        node: NodeId,
        work: Work,
        arguments: Arc<[Value]>,
    ) -> Result<Outcome, ClusterError>;
}

/// Makes calls of nodes, from a thread of its own.
pub(crate) trait Caller: Send {
    /// Makes one call and waits for its outcome.
    fn call(
        &mut self,
        node: NodeId,
        work: Work,
        arguments: Arc<[Value]>,
    ) -> Result<Outcome, ClusterError>;
}

impl<P: Protocol + Send> Caller for Client<P>
where
    P::Message: 'static,
{
    fn call(
        &mut self,
        node: NodeId,
        work: Work,
        arguments: Arc<[Value]>,
    ) -> Result<Outcome, ClusterError> {
        let failed = |error: crate::SubmitError| ClusterError::Failed(error.to_string());
        self.begin(node, |id| {
            Call::new(id, work, arguments).with_timestamp(now_micros())
        });
        let mut taken = Vec::with_capacity(1);
        while taken.is_empty() {
            let until = Instant::now() + Duration::from_secs(1);
            self.take(until, &mut taken).map_err(failed)?;
        }
        Ok(taken.remove(0))
    }
}

/// What nodes leave to others.
pub(crate) struct NodesLeft {
    /// The partitions' rows.
    pub(crate) stores: Vec<Store>,
    /// What the others continue.
    pub(crate) past: Past,
    /// The connections of the nodes' threads.
    pub(crate) frontends: Frontends,
}

/// What nodes continue of those before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    /// The highest logical time.
    pub(crate) time: u64,
    /// How far sequences have come.
    pub(crate) numbers: SequenceStarts,
    /// The incarnation and the last transaction of each node.
    pub(crate) nodes: Vec<(Incarnation, u64)>,
}

impl<P> Nodes for Cluster<P>
where
    P: Handover + Send + 'static,
    P::Message: 'static,
{
    fn room(&self) -> Arc<RoomGauge> {
        Cluster::room(self)
    }

    fn backups(&self, data: &DataFolder) -> Arc<dyn Backups> {
        Cluster::backups(self, data.path())
    }

    fn post(&self) -> Arc<dyn Post> {
        Cluster::post(self)
    }

    fn failure(&self) -> Option<&str> {
        Cluster::failure(self)
    }

    fn own(&mut self, frontends: Frontends) {
        Cluster::own(self, frontends);
    }

    fn stop(self: Box<Self>) -> Result<NodesLeft, ClusterError> {
        let (nodes, frontends) = Cluster::hand_over(*self)?;
        let mut left = NodesLeft {
            stores: Vec::with_capacity(nodes.len()),
            past: Past::default(),
            frontends,
        };
        for (node, _) in nodes {
            let past = &mut left.past;
            past.time = past.time.max(node.protocol.last_time());
            past.numbers.include_all(&node.numbers);
            past.nodes.push((node.incarnation, node.last_transaction));
            left.stores.push(node.protocol.into_items());
        }
        Ok(left)
    }

    fn take_block(
        &self,
        node: NodeId,
        block: BlockId,
    ) -> Result<Option<DetachedBlock>, ClusterError> {
        Cluster::take_block(self, node, block)
    }

    fn put_block(&self, node: NodeId, block: DetachedBlock) -> Result<(), ClusterError> {
        Cluster::put_block(self, node, block)
    }

    fn table_rows(&self, table: TableId) -> Result<Vec<DetachedTable>, ClusterError> {
        self.inspect(move |node| node.protocol().items().copy_of(table))
    }

    fn run(&self, planned: &Arc<PlannedApplication>) -> Result<bool, ClusterError> {
        let planned = Arc::clone(planned);
        let all = self.inspect(move |node| node.runs(&planned))?;
        Ok(all.into_iter().all(|runs| runs))
    }

    fn look(&self) -> Arc<dyn LookAtNodes> {
        Cluster::look(self)
    }

    fn rows(&self) -> Result<Vec<Store>, ClusterError> {
        self.inspect(|node| node.protocol().items().clone())
    }

    fn call(
        &self,
        node: NodeId,
        work: Work,
        arguments: Arc<[Value]>,
    ) -> Result<Outcome, ClusterError> {
        Caller::call(&mut self.client(), node, work, arguments)
    }

    fn caller(&self) -> Box<dyn Caller> {
        Box::new(self.client())
    }
}

/// Whether and where nodes keep logs.
pub(crate) enum Keeping<'d> {
    /// Nowhere.
    Memory,
    /// In a folder that has no logs yet, or those of these nodes.
    Folder(&'d DataFolder),
}

/// Starts nodes. `past` is that of the nodes before, if there were any in this process.
///
/// # Errors
/// When the operating system gives too little, or the folder cannot be used.
pub(crate) fn start(
    environment: &Arc<Environment>,
    stores: Vec<Store>,
    keeping: &Keeping<'_>,
    past: Option<Past>,
) -> Result<Box<dyn Nodes>, ServiceError> {
    let planned = &environment.planned;
    let topology = Arc::new(Topology::one_each(stores.len() as u16));
    let programs = planned.application.programs();
    match environment.guarantee {
        Guarantee::Invariants => {
            let make = move |id, store| {
                let (topology, programs) = (Arc::clone(&topology), Arc::clone(&programs));
                RampNode::new(id, topology, store, programs, RampOptions::default())
            };
            start_nodes(environment, stores, keeping, past, make)
        }
        Guarantee::Serializable => {
            let router = &planned.execution.router;
            let tables = (0..planned.schema().tables.len() as u16).map(TableId);
            let is_replicated =
                |table: &TableId| *router.placement(*table) == Placement::Replicated;
            let options = LockingOptions {
                unlocked_tables: tables.filter(is_replicated).collect(),
                ..LockingOptions::default()
            };
            let schema = Arc::new(planned.schema().clone());
            let make = move |id, store| {
                let (topology, programs) = (Arc::clone(&topology), Arc::clone(&programs));
                let schema = Arc::clone(&schema);
                LockingNode::new(id, topology, schema, store, programs, options.clone())
            };
            start_nodes(environment, stores, keeping, past, make)
        }
    }
}

/// Polls for the connections of so many nodes' threads, which have none yet.
pub(super) fn new_frontends(
    environment: &Arc<Environment>,
    nodes: u16,
) -> Result<Frontends, ServiceError> {
    let ids = (0..nodes).map(NodeId);
    ids.map(|id| {
        let poll = Poll::new().map_err(ServiceError::System)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(ServiceError::System)?;
        Ok(FrontendOfNode {
            frontend: Box::new(Connections::new(id, Arc::clone(environment), poll)),
            waker: Arc::new(waker),
        })
    })
    .collect()
}

fn start_nodes<P>(
    environment: &Arc<Environment>,
    stores: Vec<Store>,
    keeping: &Keeping<'_>,
    past: Option<Past>,
    make: impl Fn(NodeId, Store) -> P + Clone + Send + 'static,
) -> Result<Box<dyn Nodes>, ServiceError>
where
    P: Handover + Durable + Send + 'static,
    P::Message: 'static,
{
    let planned = &environment.planned;
    let mut past = past.unwrap_or_default();
    // Rows that were loaded or copied may have higher numbers than the sequences have drawn.
    past.numbers.include_rows(planned, &stores);
    let count = stores.len() as u16;
    let before = |id: NodeId| past.nodes.get(id.index()).copied();
    let time = past.time;
    let make = move |id, store| {
        let mut protocol = make(id, store);
        protocol.continue_after(time);
        protocol
    };
    let counters = SequenceCounters::default();
    let node = |id: NodeId| {
        let (planned, numbers) = (Arc::clone(planned), past.numbers.clone());
        let counters = counters.clone();
        let ring = environment.ring.clone();
        // The plan relies on that numbers are new.
        let only_forward = environment.guarantee == Guarantee::Invariants;
        let options = NodeOptions {
            declares: environment.guarantee == Guarantee::Serializable,
            needs_entries: environment.guarantee == Guarantee::Invariants,
            epoch_micros: now_micros(),
            last_transaction: before(id).map_or(0, |(_, last)| last),
            limits: TransactionLimits {
                result_bytes_max: environment.options.result_bytes_max as u64,
                statement_bytes_max: environment.options.statement_bytes_max as u64,
                ..TransactionLimits::default()
            },
            ..NodeOptions::default()
        };
        move |protocol: P, incarnation| {
            let options = NodeOptions {
                incarnation,
                ..options
            };
            let node = Node::new(id, PartitionId(id.0), planned, protocol, options);
            let node = match ring {
                None => node.with_sequence_counters(counters, only_forward),
                Some(ring) => node
                    .with_belt(ring.tables)
                    .with_sequence_residue(ring.place, ring.slots),
            };
            node.with_sequence_starts(&numbers)
        }
    };
    let incarnation = |id: NodeId| before(id).map_or(Incarnation::FIRST, |(number, _)| number);
    let ids = (0..count).map(NodeId);
    let durability = environment.options.durability;
    let options = ClusterOptions {
        durability: match keeping {
            Keeping::Folder(_) => durability,
            Keeping::Memory => Durability::Sync,
        },
        ..ClusterOptions::default()
    };
    let Keeping::Folder(data) = keeping else {
        let factories = ids.zip(stores).map(|(id, store)| {
            let (make, node, incarnation) = (make.clone(), node(id), incarnation(id));
            move || node(make(id, store), incarnation)
        });
        let cluster = Cluster::start(factories.collect(), options);
        return Ok(Box::new(cluster.map_err(ServiceError::Cluster)?));
    };
    let first = data.prepare_epochs(count, durability);
    let first = first.map_err(ServiceError::Data)?;
    let output = match durability {
        Durability::Sync => OutputRule::Durable,
        Durability::Batch(_) | Durability::Never => OutputRule::Epochs { first },
    };
    let factories = ids.zip(stores).map(|(id, store)| {
        let (make, node, data) = (make.clone(), node(id), DataFolder::clone(data));
        let incarnation = incarnation(id);
        move |now| {
            let disk = data.disk(id).map_err(LogError::Media)?;
            let mut loaded = Some(store);
            let empty = loaded.as_ref().map(Store::emptied);
            let protocol = |start| {
                let store = match start {
                    NodeStart::New => loaded.take(),
                    NodeStart::Recovered => empty.clone(),
                };
                make(id, store.expect("a store is taken once"))
            };
            let options = DurableOptions {
                log: LogOptions {
                    reserve_bytes: RESERVE_BYTES,
                    ahead_bytes: AHEAD_BYTES,
                    ..LogOptions::default()
                },
                output,
                incarnation,
                ..DurableOptions::default()
            };
            DurableNode::open(disk, options, now, protocol, node)
        }
    });
    let cluster = Cluster::start_durable(factories.collect(), options);
    Ok(Box::new(cluster.map_err(ServiceError::Cluster)?))
}
