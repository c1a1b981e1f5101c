//! Recorded histories, and checkers that explain what isolation they show.
//!
//! A run leaves a *history*: what each client invoked, when, with which result, which version each
//! read returned, and in which order the versions of each item were installed. So the checkers
//! need not guess: an anomaly is a cycle in a graph that the history draws itself (Adya 1999;
//! ramp.txt §3), found in time linear in the history for the common models.
//!
//! docs/histories.md defines the format, what "the version read" means for counters and deferred
//! effects, and every phenomenon with its source.

mod builder;
mod causal;
mod check;
mod dependency;
pub mod drawing;
pub mod error;
mod explain;
pub mod format;
mod fracture;
pub mod generate;
mod graph;
mod history;
mod inferred;
mod jepsen;
pub mod model;
mod order;
pub mod phenomenon;
mod reader;
pub mod record;
mod rsiw;
mod session;
mod unseen;
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
