//! A whole cluster in virtual time: one seed, one run.
//!
//! The nodes are the engine's, unchanged. What surrounds them is simulated: the network, the
//! clocks, the clients and what goes wrong. A run needs no time but the processor's, so that years
//! of faults fit into a night; and it can be repeated, so that what a seed finds can be looked at
//! as often as one likes.
//!
//! * [`case`]: everything that decides a run, and the run.
//! * [`cluster`]: nodes, and the queue of events that drives them.
//! * `host`: a node's machine: disk, crashes, return.
//! * `replicas`: nodes that have several, and which of them is the primary.
//! * `network`: wires that lose, double and overtake, and the links above them.
//! * [`clients`]: closed loops that make calls and look at the answers.
//! * [`fault`]: the plan of what goes wrong.
//! * [`mod@file`]: a case as a file.
//! * [`minimise`]: a failing case made smaller.
//! * [`cost`]: what processing costs, so that a run tells throughput.
//! * [`load`]: closed loops for a given time, and the throughput that comes of it.
//! * [`latency`]: how long messages travel.
//! * `check`: what is checked when all is quiet again.
//! * `constraints`: what the schema declares, looked at on the merged state.
//! * [`protocols`]: what the simulator must know of a protocol.
//! * [`report`]: what a run has been.
//! * [`history`]: what nodes and stores tell of each attempt, as the checkers want it.
//! * [`diagram`]: a window of a run as a picture.
//! * [`replay`]: a counterexample of the analyser, run by nodes.

pub mod case;
mod check;
pub mod clients;
pub mod cluster;
pub mod clusters;
mod constraints;
pub mod cost;
pub mod diagram;
pub mod fault;
pub mod file;
pub mod history;
mod host;
pub mod latency;
pub mod load;
pub mod minimise;
mod network;
pub mod protocols;
pub mod queue;
pub mod replay;
mod replicas;
pub mod report;
mod stale;

pub use case::{Case, CaseError, Prepared};
pub use cluster::Watch;
pub use fault::{FaultLevel, FaultPlan};
pub use file::CaseFile;
pub use history::{Recording, RunHistory};
pub use latency::Network;
pub use load::{Load, Throughput};
pub use protocols::{Extras, ProtocolName, Termination};
pub use report::{Report, Verdict};
