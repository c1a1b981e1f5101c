//! A node: sessions, running procedures, plan entries, protocol and store.
//!
//! Drivers (the embedded cluster, the simulator) are above this crate. Below it are SQL, the plan, a
//! protocol and a store, which do not know each other. A [`Node`] takes a [`NodeInput`] and the time,
//! and leaves messages and outcomes in a [`NodeOutbox`]. It has no socket, no clock and no thread.
//!
//! The steps of a call:
//!
//! 1. A [`Call`] names a procedure and its arguments. The node starts an attempt: a future that runs
//!    the compiled procedure over a [`transaction::NodeTransaction`].
//! 2. The node polls the future. When it awaits a read, the node [routes](routing) the reads to
//!    partitions and passes them to the protocol as one request. If the protocol replies within the
//!    step (all reads were local), the future goes on at once; else it waits for the reply.
//!    A procedure that computes for long pauses after each bounded amount of work: the node takes other
//!    input, and lets it go on at the next tick.
//! 3. When the procedure returns, the node passes its effects to the protocol to commit, and puts the
//!    values of deferred effects into the result.
//! 4. Conflicts and restarts are retried after a [backoff]; any other result is the [`Outcome`].

pub mod accepted;
pub mod admission;
pub mod application;
pub mod backoff;
pub mod belt;
pub mod call;
pub mod checkpoint;
pub mod code;
pub mod durable;
mod interactive;
pub mod limits;
pub mod load;
pub mod log_record;
pub mod node;
pub mod open_transactions;
mod output_commit;
pub mod over_guards;
mod overlay;
mod range_cache;
pub mod record;
pub mod replica;
pub mod routing;
pub mod schema_change;
pub mod sequence;
mod state;
pub mod step;
pub mod transaction;
pub mod undeclared;
pub mod view;

pub use admission::{Admission, Shortage};
pub use application::{ExecutionPlan, PlannedApplication};
pub use belt::{BELT_TABLES, BeltAnswer, BeltLook, BeltTables, BeltWork, TableDigest};
pub use call::{Call, CallError, CallId, Cost, Outcome, Work};
pub use checkpoint::CheckpointProgress;
pub use code::StatementCode;
pub use durable::{DurableError, DurableNode, DurableOptions, NodeStart, OutputRule};
pub use interactive::DetachedBlock;
pub use limits::TransactionLimits;
pub use node::{HandedOver, Node, NodeInput, NodeOptions, NodeOutbox};
pub use open_transactions::{NodeTransactions, NodeWait, OpenTransaction, TransactionClient};
pub use over_guards::{GuardTables, NotOverGuards};
pub use record::{AttemptOutcome, AttemptRecord, RecordedRead};
pub use replica::{
    Batch, GroupOptions, NodeFactory, ReplicaEvent, ReplicaInput, ReplicaNode, ReplicaOutbox,
};
pub use step::{BlockId, BlockOptions, SavepointId, StatementWork, Step, StepAction};
pub use undeclared::{Refusal, StatementEntry, UndeclaredTypes};
