//! Settings of a server, with their defaults.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_engine::BeltTables;

use crate::data::Durability;

/// The name of the database.
pub const DATABASE: &str = "anabranch";

/// What a server promises of its transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// Every transaction is serializable: two-phase locking.
    Serializable,
    /// Every invariant holds and every read is read atomic: transactions run under the plan, by RAMP-Fast.
    Invariants,
}

impl Guarantee {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Guarantee::Serializable => "serializable",
            Guarantee::Invariants => "invariants",
        }
    }
}

/// Settings of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServiceOptions {
    /// Where it listens: an address of the loopback interface.
    pub listen: SocketAddr,
    /// The most connections at a time.
    pub connections_max: usize,
    /// How long a client may take from connecting to the end of its start-up.
    pub startup_timeout: Duration,
    /// The most bytes of a message before the client is let in.
    pub startup_message_bytes_max: usize,
    /// The most bytes of a message after that.
    pub message_bytes_max: usize,
    /// The most prepared statements of a connection.
    pub prepared_statements_max: usize,
    /// The most portals of a connection.
    pub portals_max: usize,
    /// The most bytes of a statement's result.
    pub result_bytes_max: usize,
    /// The most bytes of rows and values that a running statement holds at once.
    pub statement_bytes_max: usize,
    /// The most bytes of a transaction's statements that are kept to be run again after a conflict.
    pub transaction_log_bytes_max: u64,
    /// A client that has so many bytes of answers waiting for it is not read from.
    pub output_bytes_max: usize,
    /// The most bytes of notifications that wait for listeners. A transaction sends a quarter of it at most.
    pub notifications_bytes_max: usize,
    /// When the records of data on disk are made durable.
    pub durability: Durability,
    /// Above so many bytes of the process's memory, writes that make the database grow are refused. `None`: no limit.
    pub memory_max: Option<u64>,
    /// How long running statements may take to end when the server shuts down.
    pub shut_down_timeout: Duration,
}

impl ServiceOptions {
    /// The default settings at an address.
    pub fn new(listen: SocketAddr) -> ServiceOptions {
        ServiceOptions {
            listen,
            connections_max: 500,
            startup_timeout: Duration::from_secs(10),
            startup_message_bytes_max: 10_000,
            message_bytes_max: 64 << 20,
            prepared_statements_max: 1_000,
            portals_max: 64,
            result_bytes_max: 64 << 20,
            statement_bytes_max: 256 << 20,
            transaction_log_bytes_max: 16 << 20,
            output_bytes_max: 1 << 20,
            notifications_bytes_max: 64 << 20,
            durability: Durability::Sync,
            memory_max: super::memory::default_max(),
            shut_down_timeout: Duration::from_secs(3),
        }
    }
}

/// The place of a database in a ring.
#[derive(Clone, Debug)]
pub struct RingPlace {
    /// The belt's tables, and those whose changes all servers get.
    pub tables: Arc<BeltTables>,
    /// The server's place among the servers, from 0.
    pub place: u16,
    /// How many residues generated keys have: numbers of sequences have the residue `place`.
    pub slots: u16,
    /// What people are told of the ring.
    pub description: Arc<RingDescription>,
}

/// What people are told of a ring, and does not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingDescription {
    /// The names of the servers, by place.
    pub servers: Vec<String>,
    /// The transaction types of the application.
    pub types: Vec<RingType>,
}

/// A transaction type that a ring is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingType {
    /// Its name.
    pub name: String,
    /// How its operations are coordinated.
    pub class: String,
    /// The names of the parameters that route them.
    pub parameters: Vec<String>,
}
