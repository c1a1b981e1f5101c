//! Accepts applications' connections, and knows those that are open.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anabranch_dbms::postgres::address::Endpoint;
use anabranch_dbms::servers::ServerEntry;
use anabranch_protocol::belt::ServerId;
use anabranch_wire::BackendKey;

use crate::backend::CancelKey;
use crate::recognise::Recogniser;
use crate::ring::Ring;
use crate::session;

/// How often it is looked whether transactions of clients block what other servers have done.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// How long statements may run on when the middleware ends.
const ENDS_AFTER: Duration = Duration::from_secs(5);

/// The settings of a middleware for its clients.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// The own server.
    pub own: ServerId,
    /// The role that may remove servers from the ring.
    pub operator: Option<String>,
    /// The most connections of clients.
    pub connections_max: usize,
    /// The longest message of a client, in bytes.
    pub message_bytes_max: usize,
    /// The longest answer that is kept until its transaction has committed, in bytes.
    pub answer_bytes_max: usize,
    /// How often an operation runs that is the victim of others each time.
    pub attempts_max: u32,
}

impl ServiceOptions {
    /// Of this server: 500 connections, messages and answers of 64 MiB, 10 attempts.
    pub fn of(own: ServerId) -> ServiceOptions {
        ServiceOptions {
            own,
            operator: None,
            connections_max: 500,
            message_bytes_max: 64 << 20,
            answer_bytes_max: 64 << 20,
            attempts_max: 10,
        }
    }
}

/// A server of the ring, as clients' connections need it.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// Where its middleware accepts connections, as `host:port`.
    pub address: String,
    /// The name of its database.
    pub database_name: String,
}

impl Site {
    /// The site of an entry of the list of servers.
    ///
    /// # Errors
    /// When its database has no single address.
    pub fn new(entry: &ServerEntry) -> Result<Site, String> {
        let database = anabranch_dbms::postgres::Address::parse(&entry.database)?;
        Ok(Site {
            name: entry.name.clone(),
            address: entry.reached_at(),
            database_name: database.endpoint()?.database,
        })
    }
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) options: ServiceOptions,
    /// The own database.
    pub(crate) home: Endpoint,
    /// The role of the middleware, which may remove servers.
    pub(crate) operator: Option<String>,
    sites: Vec<Site>,
    pub(crate) ring: Ring,
    pub(crate) recogniser: Recogniser,
    handles: Mutex<HashMap<u64, Arc<Handle>>>,
    next: AtomicU64,
    connections: AtomicUsize,
    is_stopping: AtomicBool,
}

/// A connection, as others see it.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) number: u64,
    /// The key of its connection to the own database, which is the client's key as well.
    home: CancelKey,
    /// The client's connection. It ends when the middleware does.
    client: Option<TcpStream>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What a cancel request cancels.
    runs_on: Option<CancelKey>,
    /// Whether it waits for its turn.
    waits: bool,
    is_cancelled: bool,
    /// Whether it runs an operation inside a hold, and the number of the last one.
    is_in_hold: bool,
    operation: u64,
    /// Whether it runs something on the own database that can run again. An operation inside a hold is not displaced: the
    /// hold ends when it has ended.
    can_give_way: bool,
    /// Whether its transaction has to give way.
    is_displaced: bool,
}

impl State {
    /// Cancels what runs. The state stays locked until the server has done it, so that it does not meet a later statement.
    fn cancel(&self) {
        if let Some(key) = &self.runs_on {
            // Nothing is told whether a cancel request was done.
            let _ = key.cancel();
        }
    }
}

impl Handle {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes where a statement of it runs, or that none does.
    pub(crate) fn runs_on(&self, key: Option<CancelKey>) {
        self.state().runs_on = key;
    }

    /// Notes that it waits for its turn, or that it does not any more.
    pub(crate) fn waits(&self, waits: bool) {
        let mut state = self.state();
        state.waits = waits;
        state.is_cancelled = false;
    }

    /// Whether it was cancelled while it waits.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    /// Whether its transaction has to give way. Asked again, it has not.
    pub(crate) fn take_displaced(&self) -> bool {
        std::mem::take(&mut self.state().is_displaced)
    }

    fn cancel(&self) {
        let mut state = self.state();
        if state.waits {
            state.is_cancelled = true;
        } else {
            state.cancel();
        }
    }

    /// Notes that an operation inside a hold begins, or that it has ended. Returns its number.
    pub(crate) fn in_hold(&self, begins: bool) -> u64 {
        let mut state = self.state();
        state.operation += 1;
        state.is_in_hold = begins;
        state.operation
    }

    /// Cancels the operation inside a hold with this number, if it still runs.
    pub(crate) fn cancel_operation(&self, number: u64) {
        let state = self.state();
        if state.is_in_hold && state.operation == number {
            state.cancel();
        }
    }

    /// Notes whether what it runs on the own database can give way.
    pub(crate) fn can_give_way(&self, can: bool) {
        let mut state = self.state();
        state.can_give_way = can;
        state.is_displaced = false;
    }

    /// Has its transaction give way, also if a statement of it runs.
    fn displace(&self) {
        let mut state = self.state();
        if !state.can_give_way {
            return;
        }
        state.is_displaced = true;
        state.cancel();
    }
}

impl Shared {
    pub(crate) fn name_of(&self, server: ServerId) -> &str {
        let site = self.sites.get(usize::from(server.0));
        site.map_or("an unknown server", |site| &site.name)
    }

    pub(crate) fn server_named(&self, name: &str) -> Option<ServerId> {
        let place = self.sites.iter().position(|site| site.name == name)?;
        Some(ServerId(u16::try_from(place).ok()?))
    }

    pub(crate) fn site(&self, server: ServerId) -> Option<&Site> {
        self.sites.get(usize::from(server.0))
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.connections.load(Ordering::Relaxed) > self.options.connections_max
    }

    pub(crate) fn register(&self, home: CancelKey, client: Option<TcpStream>) -> Arc<Handle> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let handle = Arc::new(Handle {
            number,
            home,
            client,
            state: Mutex::default(),
        });
        self.handles().insert(number, Arc::clone(&handle));
        handle
    }

    pub(crate) fn forget(&self, number: u64) {
        self.handles().remove(&number);
    }

    fn handles(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Handle>>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels what the connection with this key runs.
    pub(crate) fn cancel(&self, key: &BackendKey) {
        let found = self
            .handles()
            .values()
            .find(|handle| {
                let (process, secret) = handle.home.key;
                let mut bytes = [0; BackendKey::SECRET_BYTES];
                bytes[..4].copy_from_slice(&secret.to_be_bytes());
                BackendKey::new(process, bytes).matches(key, 0)
            })
            .cloned();
        if let Some(handle) = found {
            handle.cancel();
        }
    }
}

/// A middleware that accepts applications' connections.
pub struct Service {
    shared: Arc<Shared>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

/// Says which processes of the own database keep what other servers have done from being applied, or block one of the given
/// processes. It blocks until it knows.
pub type Blockers = Box<dyn FnMut(&[i32]) -> Vec<i32> + Send>;

impl Service {
    /// Begins to accept connections.
    ///
    /// `blockers` is asked while clients have connections.
    ///
    /// # Errors
    /// When the listener has no address, or no thread can begin.
    pub fn start(
        listener: TcpListener,
        home: Endpoint,
        sites: Vec<Site>,
        ring: Ring,
        recogniser: Recogniser,
        blockers: Blockers,
        options: ServiceOptions,
    ) -> io::Result<Service> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            operator: options.operator.clone(),
            options,
            home,
            sites,
            ring,
            recogniser,
            handles: Mutex::default(),
            next: AtomicU64::new(1),
            connections: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
        });
        let mut threads = Vec::new();
        let of = Arc::clone(&shared);
        let accepting = thread::Builder::new().name("accept".to_owned());
        threads.push(accepting.spawn(move || accept(&of, &listener))?);
        let of = Arc::clone(&shared);
        let watching = thread::Builder::new().name("right-of-way".to_owned());
        threads.push(watching.spawn(move || keep_right_of_way(&of, blockers))?);
        Ok(Service {
            shared,
            address,
            threads,
        })
    }

    /// Where it accepts connections.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its part in the ring.
    pub fn ring(&self) -> &Ring {
        &self.shared.ring
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        for handle in self.shared.handles().values() {
            if let Some(client) = &handle.client {
                // Its session wakes, and tells the client that the middleware ends.
                let _ = client.shutdown(Shutdown::Read);
            }
        }
        let begun = Instant::now();
        while self.shared.connections.load(Ordering::Relaxed) > 0 && begun.elapsed() < ENDS_AFTER {
            thread::sleep(Duration::from_millis(10));
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for stream in listener.incoming() {
        if shared.is_stopping() {
            return;
        }
        let Ok(stream) = stream else {
            // Too many open files, for example.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        let of = Arc::clone(shared);
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let begun = thread::Builder::new()
            .name("client".to_owned())
            .spawn(move || {
                session::serve(&of, stream);
                of.connections.fetch_sub(1, Ordering::Relaxed);
            });
        if begun.is_err() {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Has clients' transactions give way to what other servers have done, and to operations inside a hold.
fn keep_right_of_way(shared: &Arc<Shared>, mut blockers: Blockers) {
    while !shared.is_stopping() {
        thread::sleep(LOOKS_EVERY);
        if shared.connections.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let handles: Vec<Arc<Handle>> = shared.handles().values().cloned().collect();
        // The ring waits for operations inside a hold. Only transactions of clients are in their way, if any.
        let is_needed = handles.iter().any(|handle| handle.state().can_give_way);
        if !is_needed {
            continue;
        }
        let held = handles.iter().filter(|handle| handle.state().is_in_hold);
        let held: Vec<i32> = held.map(|handle| handle.home.key.0).collect();
        for process in blockers(&held) {
            let found = handles.iter().find(|handle| handle.home.key.0 == process);
            if let Some(handle) = found {
                handle.displace();
            }
        }
    }
}
