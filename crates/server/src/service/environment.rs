//! What all connections of a server share.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anabranch_engine::PlannedApplication;
use anabranch_engine::undeclared::{StatementEntry, UndeclaredTypes};
use anabranch_types::NodeId;
use anabranch_wire::BackendKey;
use rustc_hash::FxHashMap;

use super::advisory::AdvisoryLocks;
use super::changes::ChangeQueue;
use super::gate::Gate;
use super::jobs::Jobs;
use super::lookers::Lookers;
use super::notifications::{Notification, Notifications};
use super::options::{Guarantee, RingPlace, ServiceOptions};
use super::prepared::Prepared;
use super::relay::Relay;
use crate::backup::Backups;
use crate::frontend::{ConnectionId, Note, Post};
use crate::open_transactions::LookAtNodes;
use crate::ring_look::LookAtRing;

/// What all connections of a server share, under one version of the schema.
pub(crate) struct Environment {
    pub(crate) options: ServiceOptions,
    pub(crate) guarantee: Guarantee,
    /// The version, from 1.
    pub(crate) version: u64,
    pub(crate) planned: Arc<PlannedApplication>,
    /// The transaction types that clients have brought, under [`Guarantee::Invariants`].
    pub(crate) undeclared: Option<UndeclaredTypes>,
    pub(crate) statements: StatementCache,
    /// The plan entries of clients' own transactions.
    pub(crate) block_entries: BlockEntries,
    /// The place of the database in a ring, if it is in one.
    pub(crate) ring: Option<RingPlace>,
    /// What stays when the schema changes.
    pub(crate) shared: Arc<SharedState>,
}

/// What all connections of a server share, whatever the schema is.
pub(crate) struct SharedState {
    pub(crate) jobs: Jobs,
    /// The number of open connections.
    pub(crate) connections: AtomicUsize,
    /// Chooses among nodes for calls that any may run.
    pub(crate) turn: AtomicUsize,
    /// Makes backups; not set before the nodes run, and where data is in memory.
    pub(crate) backups: Mutex<Option<Arc<dyn Backups>>>,
    /// When the server was started, in microseconds since 2000-01-01 UTC.
    pub(crate) started_micros: i64,
    /// The way to the connections of the nodes' threads.
    pub(crate) post: Arc<Relay>,
    /// What every transaction passes.
    pub(crate) gate: Arc<Gate>,
    /// The thread that changes the schema.
    pub(crate) changes: ChangeQueue,
    pub(crate) advisory: AdvisoryLocks,
    pub(crate) notifications: Notifications,
    /// The nodes that run, to look at.
    pub(crate) slot: Arc<dyn LookAtNodes>,
    /// The sessions that wait for what all have open.
    pub(crate) lookers: Lookers,
    /// The ring that the database is in, to look at.
    pub(crate) at_ring: Arc<dyn LookAtRing>,
    /// The sessions that wait for what is there of it.
    pub(crate) ring_lookers: Lookers,
    current: Mutex<Current>,
    /// The version of the environment of all.
    version: AtomicU64,
}

/// The environments under which connections go on.
#[derive(Default)]
struct Current {
    /// That of all; `None` when the server has ended.
    common: Option<Arc<Environment>>,
    /// That of the connection that changes the schema.
    exclusive: Option<(ConnectionId, Arc<Environment>)>,
}

impl SharedState {
    /// Nothing is open yet.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub(crate) fn new(
        options: &ServiceOptions,
        nodes: usize,
        changes: ChangeQueue,
        (slot, at_ring): (Arc<dyn LookAtNodes>, Arc<dyn LookAtRing>),
    ) -> std::io::Result<SharedState> {
        Ok(SharedState {
            jobs: Jobs::start()?,
            connections: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            backups: Mutex::new(None),
            started_micros: now_micros(),
            post: Arc::new(Relay::default()),
            gate: Arc::new(Gate::new(nodes)),
            changes,
            advisory: AdvisoryLocks::default(),
            notifications: Notifications::new(options.notifications_bytes_max),
            slot,
            lookers: Lookers::default(),
            at_ring,
            ring_lookers: Lookers::default(),
            current: Mutex::default(),
            version: AtomicU64::new(0),
        })
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        // Each change of the state is complete before anything can panic.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the notifications of a transaction that has committed to their listeners. `process`: the number of its
    /// connection for clients.
    pub(crate) fn publish(&self, process: i32, notifications: &[Arc<Notification>]) {
        for of in self.notifications.publish(process, notifications) {
            let note = Note::Notified {
                connection: of.connection,
                place: of.place,
            };
            self.post.post(of.node, note);
        }
    }

    /// The environment under which all connections go on but that which changes the schema.
    pub(crate) fn common(&self) -> Option<Arc<Environment>> {
        self.current().common.clone()
    }

    /// The environment of the connection that changes the schema, if one does.
    pub(crate) fn exclusive(&self) -> Option<(ConnectionId, Arc<Environment>)> {
        self.current().exclusive.clone()
    }

    /// Lets all connections go on under this one, when the nodes' threads begin.
    pub(crate) fn set_current(&self, environment: Option<Arc<Environment>>) {
        if let Some(environment) = &environment {
            self.version.store(environment.version, Ordering::SeqCst);
        }
        self.current().common = environment;
    }

    /// The version of the environment under which all connections go on but that which changes the schema.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// Lets one connection go on under another.
    pub(crate) fn set_exclusive(&self, exclusive: Option<(ConnectionId, Arc<Environment>)>) {
        self.current().exclusive = exclusive;
    }

    /// Makes backups, if the data is on disk.
    pub(crate) fn backups(&self) -> Option<Arc<dyn Backups>> {
        let backups = self.backups.lock().unwrap_or_else(PoisonError::into_inner);
        backups.clone()
    }

    /// Sets what makes backups.
    pub(crate) fn set_backups(&self, backups: Option<Arc<dyn Backups>>) {
        *self.backups.lock().unwrap_or_else(PoisonError::into_inner) = backups;
    }
}

/// Microseconds from 1970-01-01 to 2000-01-01.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// The wall clock, in microseconds since 2000-01-01 UTC, as PostgreSQL counts.
pub(crate) fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64) - EPOCH_MICROS
}

impl Environment {
    /// A key for a new connection at this place among those of a node's thread.
    ///
    /// # Errors
    /// When the operating system gives no random bytes.
    pub(crate) fn new_key(
        &self,
        node: NodeId,
        place: usize,
    ) -> Result<BackendKey, getrandom::Error> {
        let mut secret = [0; BackendKey::SECRET_BYTES];
        getrandom::fill(&mut secret)?;
        let process = place * self.nodes() + node.index() + 1;
        Ok(BackendKey::new(
            i32::try_from(process).unwrap_or(i32::MAX),
            secret,
        ))
    }

    /// The node whose thread has the connection with this key.
    pub(crate) fn owner(&self, key: &BackendKey) -> Option<NodeId> {
        let process = usize::try_from(key.process()).ok()?.checked_sub(1)?;
        Some(NodeId((process % self.nodes()) as u16))
    }

    /// The place of the connection with this key among those of its thread.
    pub(crate) fn place(&self, key: &BackendKey) -> usize {
        let process = usize::try_from(key.process()).unwrap_or(0);
        process.saturating_sub(1) / self.nodes()
    }

    /// The number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        usize::from(self.planned.execution.router.partitions())
    }

    /// A number that is another one each time.
    pub(crate) fn next_turn(&self) -> u64 {
        self.shared.turn.fetch_add(1, Ordering::Relaxed) as u64
    }
}

/// Compiled statements, shared by all connections, by text and parameter types.
///
/// It keeps two generations: when the younger one is full, the older one is dropped. So a statement stays as long as
/// it is used again before as many others have come as a generation holds.
#[derive(Default)]
pub(crate) struct StatementCache {
    generations: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    young: FxHashMap<StatementKey, Arc<Prepared>>,
    old: FxHashMap<StatementKey, Arc<Prepared>>,
    /// The bytes of the young generation's texts.
    young_bytes: usize,
}

/// The text of a statement, and the types that its client has named for its parameters.
type StatementKey = (Arc<str>, Box<[u32]>);

/// The most statements of a generation.
const GENERATION_STATEMENTS: usize = 2_048;
/// The most bytes of text in a generation.
const GENERATION_BYTES: usize = 8 << 20;

impl StatementCache {
    /// The statement, if it is kept.
    pub(crate) fn get(&self, text: &str, types: &[u32]) -> Option<Arc<Prepared>> {
        let mut generations = self
            .generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let key: StatementKey = (text.into(), types.into());
        if let Some(found) = generations.young.get(&key) {
            return Some(Arc::clone(found));
        }
        let found = generations.old.remove(&key)?;
        generations.insert(key, Arc::clone(&found));
        Some(found)
    }

    /// Keeps a statement.
    pub(crate) fn insert(&self, text: &str, types: &[u32], prepared: &Arc<Prepared>) {
        let mut generations = self
            .generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        generations.insert((text.into(), types.into()), Arc::clone(prepared));
    }
}

impl Generations {
    fn insert(&mut self, key: StatementKey, prepared: Arc<Prepared>) {
        let bytes = key.0.len();
        if self.young.len() >= GENERATION_STATEMENTS || self.young_bytes + bytes > GENERATION_BYTES
        {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        self.young.insert(key, prepared);
    }
}

/// The plan entries of blocks, by the statements that they have run. Shared by all connections.
#[derive(Default)]
pub(crate) struct BlockEntries {
    entries: Mutex<FxHashMap<Box<[u64]>, Arc<StatementEntry>>>,
}

/// The most blocks of which the entries are kept; those that are not are asked for again.
const BLOCK_ENTRIES_MAX: usize = 4_096;

impl BlockEntries {
    /// The entry of a block that has run these statements, sorted by number.
    pub(crate) fn get(&self, statements: &[Arc<Prepared>]) -> Option<Arc<StatementEntry>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(&numbers(statements)).cloned()
    }

    /// Keeps an entry.
    pub(crate) fn insert(&self, statements: &[Arc<Prepared>], entry: &Arc<StatementEntry>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= BLOCK_ENTRIES_MAX {
            entries.clear();
        }
        entries.insert(numbers(statements), Arc::clone(entry));
    }
}

fn numbers(statements: &[Arc<Prepared>]) -> Box<[u64]> {
    statements.iter().map(|statement| statement.id).collect()
}
