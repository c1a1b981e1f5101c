//! The only threads, clocks and sockets of the house.
//!
//! So far it has the embedded cluster: nodes as threads of one process, joined by queues.
//!
//! * [`cluster`]: starts the threads, hands out clients, stops.
//! * [`inbox`]: the queue that a thread sleeps on.
//! * [`profile`]: where nodes spend their time.
//! * `thread`: the loop of one node's thread.
//! * [`files`], [`data`]: where durable nodes keep their logs.

pub mod client;
pub mod cluster;
pub mod data;
pub mod files;
pub mod inbox;
pub mod profile;
mod thread;

pub use client::{Client, SubmitError};
pub use cluster::{Cluster, ClusterOptions, Stopped};
pub use data::{DataError, DataFolder};
pub use files::FileDisk;
pub use profile::{Profile, Profiler};
pub use thread::{Clock, EndedAttempt};
