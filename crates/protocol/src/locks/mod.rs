//! One partition's locks, and the reads and effects of transactions under them: shared by the protocols that lock.
//!
//! [`locking`](crate::locking) locks what a transaction reads as it reads it. [`score`](crate::score) reads from a snapshot,
//! and locks what a transaction has read and writes when it asks to commit.
//!
//! * `mode`: who locks, where, and how. `spans`: locks on intervals of keys.
//! * `table`: the lock table, its order and its queues.
//! * `participant`: one partition for all transactions. `options`: what it locks, and for how long.
//! * `record`: what the log has of a prepared transaction.

mod mode;
mod options;
mod participant;
#[cfg(test)]
#[allow(dead_code, unreachable_pub)]
#[path = "../../tests/protocol/support/random.rs"]
mod random;
mod record;
mod spans;
mod table;

pub(crate) use mode::LockOwner;
pub use options::{LockingOptions, ReadLocks};
pub(crate) use participant::{Participant, Progress};
pub use record::{LockRange, LockRecord, PreparedRecord};
pub(crate) use table::Signal;
