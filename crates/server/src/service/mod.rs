//! The server: a cluster whose nodes' threads own the connections of PostgreSQL's clients.
//!
//! The way of a statement:
//!
//! 1. `acceptor` accepts a connection and hands it to a node's thread in turn.
//! 2. `connections` reads bytes and gives them to the connection's `session`; [`anabranch_wire`] makes requests of them.
//! 3. The session compiles the statement, or finds it among those that all connections share (`environment`), and
//!    makes a call: at the node that the plan chooses for a procedure, else at the node of its own thread.
//! 4. The outcome comes back to the session's thread. The session writes the answer, and `connections` sends it with
//!    the others of the same turn.
//!
//! What takes longer than a thread of a node may be kept from its other work runs on a helper thread (`jobs`).
//! `options` has all settings.

mod acceptor;
mod connections;
mod copy_form;
mod environment;
mod errors;
pub mod folder;
mod jobs;
pub mod memory;
pub mod options;
mod prepared;
mod session;
mod settings;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anabranch_engine::sequence::SequenceStarts;
use anabranch_engine::undeclared::UndeclaredTypes;
use anabranch_engine::{
    DurableNode, DurableOptions, Node, NodeOptions, NodeStart, OutputRule, PlannedApplication,
    TransactionLimits,
};
use anabranch_protocol::link::Incarnation;
use anabranch_protocol::locking::{LockingNode, LockingOptions};
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{Durable, Protocol, Topology};
use anabranch_storage::{LogError, LogOptions, Store};
use anabranch_types::{NodeId, PartitionId, Placement, TableId};
use mio::{Poll, Waker};

use crate::backup::Backups;
use crate::cluster::{Cluster, ClusterError, FrontendOfNode};
use crate::data::{DataError, DataFolder, Durability};
use crate::frontend::{Note, Post};
use crate::options::ClusterOptions;
use crate::room::RoomGauge;
use acceptor::Acceptor;
use connections::{Connections, WAKER};
use environment::{BlockEntries, Environment, StatementCache, now_micros};
use jobs::Jobs;
use memory::MemoryWatch;

pub use options::{DATABASE, Guarantee, ServiceOptions};

/// The room that each node keeps on its disk for what has begun when the disk is full, in bytes.
const RESERVE_BYTES: u64 = 8 << 20;

/// The room that each node makes ahead of its log's end, in bytes: some thousand transactions.
const AHEAD_BYTES: u64 = 1 << 20;

/// What a server serves.
pub struct Served {
    /// The application, planned for as many partitions as there are stores.
    pub planned: Arc<PlannedApplication>,
    /// What is promised of transactions.
    pub guarantee: Guarantee,
    /// The options of the analysis that made the plan.
    pub analysis: anabranch_analysis::Options,
    /// The rows to begin with, a store for each partition; empty ones if a folder holds the rows.
    pub stores: Vec<Store>,
    /// Where the nodes keep their logs; `None` for data in memory.
    pub data: Option<DataFolder>,
}

/// Why a server did not start, or did not stop cleanly.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServiceError {
    /// The address is none of this machine's own, and others may not enter yet.
    NotLoopback(SocketAddr),
    /// The address cannot be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The operating system gave no poll or thread.
    System(std::io::Error),
    /// The data folder cannot be used.
    Data(DataError),
    /// The cluster failed.
    Cluster(ClusterError),
}

impl std::fmt::Display for ServiceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServiceError::NotLoopback(address) => write!(
                f,
                "cannot listen on {address}: there are no passwords yet, so only this machine's own \
                 addresses are served; use 127.0.0.1:{} or [::1]:{}",
                address.port(),
                address.port()
            ),
            ServiceError::Listen { address, error } => match error.kind() {
                std::io::ErrorKind::AddrInUse => write!(
                    f,
                    "cannot listen on {address}: another program does; stop it, or choose another \
                     port"
                ),
                _ => write!(f, "cannot listen on {address}: {error}"),
            },
            ServiceError::System(error) => write!(f, "cannot start the server: {error}"),
            ServiceError::Data(error) => error.fmt(f),
            ServiceError::Cluster(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServiceError {}

/// A running server.
pub struct Service {
    cluster: Box<dyn Running + Send>,
    environment: Arc<Environment>,
    acceptor: Option<Acceptor>,
    address: SocketAddr,
    _memory: Option<MemoryWatch>,
}

/// A cluster of whatever protocol.
trait Running {
    fn room(&self) -> Arc<RoomGauge>;
    fn backups(&self, data: &Path) -> Arc<dyn Backups>;
    fn post(&self) -> Arc<dyn Post>;
    fn failure(&self) -> Option<&str>;
    fn stop(self: Box<Self>) -> Result<(), ClusterError>;
}

impl<P> Running for Cluster<P>
where
    P: Protocol + Send + 'static,
    P::Message: 'static,
{
    fn room(&self) -> Arc<RoomGauge> {
        Cluster::room(self)
    }

    fn backups(&self, data: &Path) -> Arc<dyn Backups> {
        Cluster::backups(self, data)
    }

    fn post(&self) -> Arc<dyn Post> {
        Cluster::post(self)
    }

    fn failure(&self) -> Option<&str> {
        Cluster::failure(self)
    }

    fn stop(self: Box<Self>) -> Result<(), ClusterError> {
        Cluster::stop(*self).map(drop)
    }
}

impl Service {
    /// Starts a server. It answers when this returns.
    ///
    /// # Errors
    /// When the address cannot be listened on, or the operating system gives too little.
    pub fn start(served: Served, options: ServiceOptions) -> Result<Service, ServiceError> {
        let Served {
            planned,
            guarantee,
            analysis,
            stores,
            data,
        } = served;
        if !options.listen.ip().is_loopback() {
            return Err(ServiceError::NotLoopback(options.listen));
        }
        let refused = |error| ServiceError::Listen {
            address: options.listen,
            error,
        };
        let listener = TcpListener::bind(options.listen).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let undeclared = match guarantee {
            Guarantee::Serializable => None,
            Guarantee::Invariants => Some(UndeclaredTypes::new(Arc::clone(&planned), analysis)),
        };
        let environment = Arc::new(Environment {
            options: ServiceOptions {
                listen: address,
                ..options
            },
            guarantee,
            undeclared,
            statements: StatementCache::default(),
            block_entries: BlockEntries::default(),
            jobs: Jobs::start().map_err(ServiceError::System)?,
            connections: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            backups: OnceLock::new(),
            started_micros: now_micros(),
            planned,
        });
        let cluster = start_cluster(&environment, stores, data.as_ref())?;
        if let Some(data) = &data {
            // Nothing was set before.
            let _ = environment.backups.set(cluster.backups(data.path()));
        }
        let watch = |max| MemoryWatch::start(max, cluster.room());
        let memory = options.memory_max.map(watch).transpose();
        let memory = memory.map_err(ServiceError::System)?;
        let acceptor = Acceptor::start(listener, Arc::clone(&environment), cluster.post())
            .map_err(ServiceError::System)?;
        Ok(Service {
            cluster,
            environment,
            acceptor: Some(acceptor),
            address,
            _memory: memory,
        })
    }

    /// Where it listens: with the port that the operating system chose, if it was asked for any.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Why it has failed, if it has.
    pub fn failure(&self) -> Option<&str> {
        self.cluster.failure()
    }

    /// Takes no more connections, cancels what runs, tells all clients, and ends.
    ///
    /// # Errors
    /// When a node's thread has failed.
    pub fn stop(mut self) -> Result<(), ServiceError> {
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.stop();
        }
        let post = self.cluster.post();
        for node in 0..self.environment.nodes() as u16 {
            post.post(NodeId(node), Note::ShutDown);
        }
        let until = Instant::now() + self.environment.options.shut_down_timeout;
        while self.environment.connections.load(Ordering::Relaxed) > 0
            && Instant::now() < until
            && self.cluster.failure().is_none()
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.cluster.stop().map_err(ServiceError::Cluster)
    }
}

/// Starts the nodes, each with its connections.
fn start_cluster(
    environment: &Arc<Environment>,
    stores: Vec<Store>,
    data: Option<&DataFolder>,
) -> Result<Box<dyn Running + Send>, ServiceError> {
    let planned = &environment.planned;
    let topology = Arc::new(Topology::one_each(stores.len() as u16));
    let programs = planned.application.programs();
    match environment.guarantee {
        Guarantee::Invariants => {
            let make = move |id, store| {
                let (topology, programs) = (Arc::clone(&topology), Arc::clone(&programs));
                RampNode::new(id, topology, store, programs, RampOptions::default())
            };
            start_nodes(environment, stores, data, make)
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
            start_nodes(environment, stores, data, make)
        }
    }
}

fn start_nodes<P>(
    environment: &Arc<Environment>,
    stores: Vec<Store>,
    data: Option<&DataFolder>,
    make: impl Fn(NodeId, Store) -> P + Clone + Send + 'static,
) -> Result<Box<dyn Running + Send>, ServiceError>
where
    P: Durable + Send + 'static,
    P::Message: 'static,
{
    let planned = &environment.planned;
    let numbers = SequenceStarts::of(planned, &stores);
    let node = |id: NodeId| {
        let (planned, numbers) = (Arc::clone(planned), numbers.clone());
        let options = NodeOptions {
            declares: environment.guarantee == Guarantee::Serializable,
            needs_entries: environment.guarantee == Guarantee::Invariants,
            epoch_micros: now_micros(),
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
            Node::new(id, PartitionId(id.0), planned, protocol, options)
                .with_sequence_starts(&numbers)
        }
    };
    let ids = (0..stores.len() as u16).map(NodeId);
    let mut frontends = Vec::with_capacity(stores.len());
    for id in ids.clone() {
        let poll = Poll::new().map_err(ServiceError::System)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(ServiceError::System)?;
        frontends.push(FrontendOfNode {
            frontend: Box::new(Connections::new(id, Arc::clone(environment), poll)),
            waker: Arc::new(waker),
        });
    }
    let durability = environment.options.durability;
    let options = ClusterOptions {
        durability: match data {
            Some(_) => durability,
            None => Durability::Sync,
        },
        ..ClusterOptions::default()
    };
    let Some(data) = data else {
        let factories = ids.zip(stores).map(|(id, store)| {
            let (make, node) = (make.clone(), node(id));
            move || node(make(id, store), Incarnation::FIRST)
        });
        let cluster = Cluster::start_with(factories.collect(), options, frontends);
        return Ok(Box::new(cluster.map_err(ServiceError::Cluster)?));
    };
    let first = data.prepare_epochs(stores.len() as u16, durability);
    let first = first.map_err(ServiceError::Data)?;
    let output = match durability {
        Durability::Sync => OutputRule::Durable,
        Durability::Batch(_) | Durability::Never => OutputRule::Epochs { first },
    };
    let factories = ids.zip(stores).map(|(id, store)| {
        let (make, node, data) = (make.clone(), node(id), data.clone());
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
                ..DurableOptions::default()
            };
            DurableNode::open(disk, options, now, protocol, node)
        }
    });
    let cluster = Cluster::start_durable_with(factories.collect(), options, frontends);
    let cluster = cluster.map_err(ServiceError::Cluster)?;
    data.claim().map_err(ServiceError::Data)?;
    Ok(Box::new(cluster))
}
