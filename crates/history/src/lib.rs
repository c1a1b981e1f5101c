//! Recorded histories, and checkers that explain which isolation they satisfy.
//!
//! A *history* records a run: what each client invoked, when, with which result, which version each read returned,
//! and in which order the versions of each item were installed. The checkers do not guess: an anomaly is a cycle in
//! the serialization graph of the history (Adya 1999; ramp.txt §3). The common models are checked in time linear in
//! the history.
//!
//! docs/histories.md defines the format, the meaning of "the version read" for counters and deferred effects, and
//! every phenomenon with its source.

mod absences;
mod builder;
mod causal;
mod check;
mod dependency;
pub mod drawing;
pub mod error;
mod explain;
mod findings;
mod forest;
pub mod format;
mod fracture;
pub mod generate;
mod graph;
mod history;
mod inferred;
mod item_order;
mod jepsen;
pub mod model;
mod numbers;
mod partial_order;
pub mod phenomenon;
mod read;
pub mod record;
mod rsiw;
mod session;
mod topological_order;
mod update_serializability;
pub mod verdict;

pub use builder::HistoryBuilder;
pub use check::{Unsuitable, check};
pub use error::{HistoryError, Problem};
pub use format::{HistoryReader, HistoryWriter, Record};
pub use graph::Dependency;
pub use history::History;
pub use model::Model;
pub use phenomenon::Phenomenon;
pub use rsiw::Rsiw;
pub use verdict::{Anomaly, Verdict};
