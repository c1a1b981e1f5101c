//! Drives nodes with real threads, clocks and files: the embedded cluster, whose nodes are threads of
//! one process, connected by queues. Everything below this crate is deterministic and has none of these.
//!
//! * [`cluster`]: starts the threads, makes clients, stops. [`options`]: its settings.
//! * [`client`]: submits calls and takes outcomes.
//! * `thread`: the loop of one node's thread. `on_disk`: a node with a log, `syncer` the threads that sync it. `room`:
//!   what the nodes have room for. `health`: whether all threads are alive.
//! * [`inbox`]: the queue on which a thread sleeps.
//! * [`service`]: the server for PostgreSQL's clients. `frontend`: what ties its connections to a node's thread.
//! * [`profile`]: samples of where nodes spend their time.
//! * [`files`], [`data`]: folders in which durable nodes keep their logs. `epochs`: where these logs
//!   can be cut. `identity`: which of these folders belong together. [`backup`]: their copies, while the nodes go on.

pub mod backup;
mod backup_step;
mod checksum;
pub mod client;
pub mod cluster;
pub mod data;
mod description;
mod epochs;
pub mod files;
mod frontend;
mod health;
mod identity;
pub mod inbox;
mod on_disk;
mod open_transactions;
pub mod options;
pub mod profile;
mod removal;
mod ring_look;
mod room;
pub mod service;
mod syncer;
mod thread;

pub use client::{Client, SubmitError};
pub use cluster::{Cluster, Stopped};
pub use data::{DataError, DataFolder, Durability};
pub use files::FileDisk;
pub use options::ClusterOptions;
pub use profile::{Profile, Profiler};
pub use thread::{Clock, EndedAttempt};
