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
mod advisory;
mod changes;
mod connections;
mod copy_form;
mod environment;
mod errors;
mod exclusive;
pub mod folder;
mod gate;
mod jobs;
mod lookers;
pub mod memory;
mod nodes;
mod notifications;
pub mod options;
mod prepared;
mod relay;
pub mod ring;
mod ring_rows;
mod session;
mod settings;
mod transactions;

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use anabranch_engine::PlannedApplication;
use anabranch_engine::undeclared::UndeclaredTypes;
use anabranch_storage::Store;
use anabranch_types::NodeId;

use crate::cluster::{ClusterError, STACK_BYTES};
use crate::data::{DataError, DataFolder};
use crate::frontend::{Note, Post};
use crate::open_transactions::LookAtNodes;
use crate::ring_look::LookAtRing;
use acceptor::Acceptor;
use changes::{ChangeQueue, ChangeRequest};
use environment::{BlockEntries, Environment, SharedState, StatementCache};
use exclusive::{Changer, NodesSlot};
use memory::MemoryWatch;
use nodes::Keeping;
use options::RingPlace;

pub use exclusive::{plan_accepting, plan_application};
pub use options::{DATABASE, Guarantee, ServiceOptions};

/// The room that each node keeps on its disk for what has begun when the disk is full, in bytes.
const RESERVE_BYTES: u64 = 8 << 20;

// A full disk has the room of the reserve as soon as it is removed.
const _: () = assert!(RESERVE_BYTES <= crate::removal::STEP);

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
    slot: Arc<NodesSlot>,
    environment: Arc<Environment>,
    acceptor: Option<Acceptor>,
    address: SocketAddr,
}

impl Service {
    /// Starts a server. It answers when this returns.
    ///
    /// # Errors
    /// When the address cannot be listened on, or the operating system gives too little.
    pub fn start(served: Served, options: ServiceOptions) -> Result<Service, ServiceError> {
        Service::start_at(served, None, options)
    }

    fn start_at(
        served: Served,
        ring: Option<RingPlace>,
        options: ServiceOptions,
    ) -> Result<Service, ServiceError> {
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
            Guarantee::Invariants => {
                let undeclared = UndeclaredTypes::new(Arc::clone(&planned), analysis.clone());
                Some(undeclared)
            }
        };
        let (changes, requests) = ChangeQueue::new();
        let count = stores.len();
        let slot = Arc::new(NodesSlot::default());
        let looks: (Arc<dyn LookAtNodes>, Arc<dyn LookAtRing>) =
            (Arc::clone(&slot) as _, Arc::clone(&slot) as _);
        let shared =
            SharedState::new(&options, count, changes, looks).map_err(ServiceError::System)?;
        let shared = Arc::new(shared);
        let environment = Arc::new(Environment {
            options: ServiceOptions {
                listen: address,
                ..options
            },
            guarantee,
            version: 1,
            undeclared,
            statements: StatementCache::default(),
            block_entries: BlockEntries::default(),
            ring,
            shared: Arc::clone(&shared),
            planned,
        });
        shared.set_current(Some(Arc::clone(&environment)));
        let keeping = match &data {
            Some(data) => Keeping::Folder(data),
            None => Keeping::Memory,
        };
        let mut nodes = nodes::start(&environment, stores, &keeping, None)?;
        if let Some(data) = &data {
            data.claim().map_err(ServiceError::Data)?;
            shared.set_backups(Some(nodes.backups(data)));
        }
        nodes.own(nodes::new_frontends(&environment, count as u16)?);
        let watch = |max| MemoryWatch::start(max, nodes.room());
        let memory = options.memory_max.map(watch).transpose();
        let memory = memory.map_err(ServiceError::System)?;
        shared.post.connect(nodes.post());
        slot.put(nodes);
        let changer = Changer {
            shared: Arc::clone(&shared),
            slot: Arc::clone(&slot),
            requests,
            waiting: VecDeque::new(),
            data: data.map(DataFolder::claimed),
            analysis,
            environment: Arc::clone(&environment),
            last_version: 1,
            memory,
            exclusive: None,
        };
        std::thread::Builder::new()
            .name("schema".to_owned())
            .stack_size(STACK_BYTES)
            .spawn({
                let slot = Arc::clone(&slot);
                move || {
                    let run = std::panic::AssertUnwindSafe(|| changer.run());
                    if std::panic::catch_unwind(run).is_err() {
                        // The gate may be closed: no client could go on.
                        slot.fail("the thread that changes the schema has panicked");
                    }
                }
            })
            .map_err(ServiceError::System)?;
        let post: Arc<dyn Post> = Arc::clone(&shared.post) as Arc<dyn Post>;
        let acceptor = Acceptor::start(listener, Arc::clone(&environment), post)
            .map_err(ServiceError::System)?;
        Ok(Service {
            slot,
            environment,
            acceptor: Some(acceptor),
            address,
        })
    }

    /// Where it listens: with the port that the operating system chose, if it was asked for any.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Why it has failed, if it has.
    pub fn failure(&self) -> Option<String> {
        self.slot.failure()
    }

    /// The number of transactions that nodes have open, for whichever clients; `None` if a node does not answer within five
    /// seconds. Connections that have ended have none.
    pub fn open_transactions(&self) -> Option<usize> {
        let until = Instant::now() + Duration::from_secs(5);
        let found = transactions::at_nodes(&*self.slot, until)?;
        Some(found.iter().map(|node| node.own.len()).sum())
    }

    /// Takes no more connections, cancels what runs, tells all clients, and ends.
    ///
    /// # Errors
    /// When a node's thread has failed.
    pub fn stop(mut self) -> Result<(), ServiceError> {
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.stop();
        }
        let shared = &self.environment.shared;
        for node in 0..self.environment.nodes() as u16 {
            shared.post.post(NodeId(node), Note::ShutDown);
        }
        let until = Instant::now() + self.environment.options.shut_down_timeout;
        while shared.connections.load(Ordering::Relaxed) > 0
            && Instant::now() < until
            && self.slot.failure().is_none()
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        // A transaction that changes the schema is rolled back before.
        let (sender, ended) = sync_channel(1);
        if shared
            .changes
            .push(&shared.gate, ChangeRequest::End(sender))
        {
            // The thread has ended if it does not answer.
            let _ = ended.recv();
        }
        shared.set_current(None);
        let Some(nodes) = self.slot.take() else {
            let reason = self.slot.failure();
            let reason = reason.unwrap_or_else(|| "no nodes run".to_owned());
            return Err(ServiceError::Cluster(ClusterError::Failed(reason)));
        };
        nodes.stop().map(drop).map_err(ServiceError::Cluster)
    }
}
