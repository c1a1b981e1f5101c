//! The protocols as pure state machines: one folder each, and one [`contract`].
//!
//! A protocol's node is both the coordinator of the transactions that run at it and the participant
//! for the partition that it owns. Nothing here reads a clock, draws a random number, starts a
//! thread or opens a socket; the same code runs in the simulator, in one process and across
//! machines. Each protocol has a page under `docs/protocols/`.
//!
//! * [`contract`]: the interface of all protocols, and its rules.
//! * [`link`]: the reliable links that the protocols assume, over an unreliable network.
//! * [`replication`]: replicas of a node: one primary, and backups that keep its log.
//! * [`ramp`], [`locking`], [`score`], [`epci`], [`nwnr`]: the protocols. [`locks`]: what locking and SCORe share.
//! * [`order`]: broadcast among sites with all the data, which orders what conflicts; [`certification`]: transactions over
//!   it.
//! * [`guards`]: sites with all the data that order transactions over guards alone.
//! * [`belt`]: servers that each have a whole database and run global operations in turn.
//! * [`record`]: log records.

pub mod belt;
pub mod certification;
pub mod contract;
pub mod epci;
pub mod guards;
pub mod link;
pub mod locking;
pub mod locks;
pub mod nwnr;
pub mod order;
pub mod ramp;
pub mod record;
pub mod replication;
pub mod score;
mod span;

pub use contract::{
    AbortReason, Age, Counters, Durable, Handover, Input, LockWait, OpenTransactions, Outbox,
    PartitionEffects, PartitionRead, Protocol, Reply, Request, Session, SessionToken, Slots,
    TimerId, Topology, TransactionId,
};
pub use record::{NoRecords, RECORD_FORMAT, Record, ReplayError};
