//! What all connections of a middleware share: its settings, the ring, and what each connection runs.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anabranch_dbms::belt::Statements;
use anabranch_dbms::postgres::address::Endpoint;
use anabranch_dbms::postgres::ring;
use anabranch_dbms::servers::ServerEntry;
use anabranch_protocol::belt::ServerId;
use anabranch_wire::BackendKey;

use crate::backend::CancelKey;
use crate::recognise::Recogniser;
use crate::ring::Ring;

/// How long a transaction that has to give way may take until its client's connection is ended.
const GIVES_WAY_WITHIN: Duration = Duration::from_secs(2);

/// The settings of a middleware for its clients.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// The own server.
    pub own: ServerId,
    /// What is sent to the own database around the statements of clients.
    pub statements: Statements,
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
    /// Whether an operation of a connection waits for what that connection has written at another server.
    pub reads_own_writes: bool,
}

impl ServiceOptions {
    /// Of this server, whose database is PostgreSQL: 500 connections, messages and answers of 64 MiB, 10 attempts, and
    /// connections that read what they have written.
    pub fn of(own: ServerId) -> ServiceOptions {
        ServiceOptions {
            own,
            statements: ring::STATEMENTS,
            operator: None,
            connections_max: 500,
            message_bytes_max: 64 << 20,
            answer_bytes_max: 64 << 20,
            attempts_max: 10,
            reads_own_writes: true,
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
    /// The connections that are open.
    pub(crate) connections: AtomicUsize,
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
    /// Since when its transaction has to give way.
    displaced: Option<Instant>,
    /// The operation inside a hold that is past its deadline.
    expired: Option<u64>,
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

    /// The process of its connection to the own database.
    pub(crate) fn process(&self) -> i32 {
        self.home.key.0
    }

    /// The client's connection.
    pub(crate) fn client(&self) -> Option<&TcpStream> {
        self.client.as_ref()
    }

    /// Whether what it runs on the own database can give way.
    pub(crate) fn may_give_way(&self) -> bool {
        self.state().can_give_way
    }

    /// Whether it runs an operation inside a hold.
    pub(crate) fn is_in_hold(&self) -> bool {
        self.state().is_in_hold
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
        self.state().displaced.take().is_some()
    }

    /// Whether its transaction has to give way. Asked again, it still has.
    pub(crate) fn is_displaced(&self) -> bool {
        self.state().displaced.is_some()
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

    /// Cancels the operation inside a hold with this number, if it still runs: its statement, and what would follow.
    pub(crate) fn cancel_operation(&self, number: u64) {
        let mut state = self.state();
        if state.is_in_hold && state.operation == number {
            state.expired = Some(number);
            state.cancel();
        }
    }

    /// Whether the operation inside a hold is past its deadline.
    pub(crate) fn has_expired(&self) -> bool {
        let state = self.state();
        state.is_in_hold && state.expired == Some(state.operation)
    }

    /// Notes whether what it runs on the own database can give way.
    pub(crate) fn can_give_way(&self, can: bool) {
        let mut state = self.state();
        state.can_give_way = can;
        state.displaced = None;
    }

    /// Has its transaction give way, also if a statement of it runs.
    pub(crate) fn displace(&self) {
        let mut state = self.state();
        if !state.can_give_way {
            return;
        }
        match state.displaced {
            // It does not: its client does not read what its statement returns.
            Some(since) if since.elapsed() > GIVES_WAY_WITHIN => {
                if let Some(client) = &self.client {
                    // With its client, its connection to the database ends.
                    let _ = client.shutdown(Shutdown::Both);
                }
            }
            Some(_) => state.cancel(),
            None => {
                state.displaced = Some(Instant::now());
                state.cancel();
            }
        }
    }
}

impl Shared {
    pub(crate) fn new(
        home: Endpoint,
        sites: Vec<Site>,
        ring: Ring,
        recogniser: Recogniser,
        options: ServiceOptions,
    ) -> Shared {
        Shared {
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
        }
    }

    /// Notes that the middleware ends.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

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

    pub(crate) fn handles(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Handle>>> {
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
