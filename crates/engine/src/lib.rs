//! A node: sessions, running procedures, plan entries, protocol and store.
//!
//! The waist of the hourglass. Above it are drivers (the embedded cluster, the simulator), below
//! it SQL, the plan, a protocol and a store, none of which knows the others. A [`Node`] takes a
//! [`NodeInput`] and the time, and leaves messages and outcomes in a [`NodeOutbox`]. It has no
//! socket, no clock and no thread.
//!
//! The way of a call:
//!
//! 1. [`Call`] names a procedure and its arguments. The node makes an attempt: a future that runs
//!    the compiled procedure over a [`transaction::NodeTransaction`].
//! 2. The node polls it. When it awaits a read, the reads are [routed](routing) to partitions and
//!    handed to the protocol as one request. If the protocol answers within the step (everything
//!    was local), the future goes on at once; else it sleeps until the reply.
//! 3. When the procedure returns, its effects are handed to the protocol to commit, and the values
//!    that deferred effects produced are put into the result.
//! 4. An abort that is nobody's fault is retried after a [backoff]; anything else is the
//!    [`Outcome`].

mod answers;
pub mod application;
pub mod backoff;
pub mod call;
pub mod durable;
mod image;
pub mod limits;
pub mod load;
pub mod node;
mod overlay;
pub mod record;
pub mod replica;
pub mod routing;
pub mod sequence;
pub mod transaction;
pub mod view;
mod withheld;

pub use application::{ExecutionPlan, PlannedApplication};
pub use call::{Call, CallError, CallId, Outcome, Work};
pub use durable::{Beginning, DurableError, DurableNode, DurableOptions};
pub use limits::TransactionLimits;
pub use node::{Node, NodeInput, NodeOptions, NodeOutbox};
pub use record::{AttemptOutcome, AttemptRecord, RecordedRead};
pub use replica::{
    Batch, GroupOptions, Maker, ReplicaEvent, ReplicaInput, ReplicaNode, ReplicaOutbox,
};
