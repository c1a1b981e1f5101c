//! A whole cluster in virtual time: one seed, one run.
//!
//! The nodes are the engine's, unchanged. The network, the clocks, the clients and the faults around
//! them are simulated. A run takes only processor time, so a night has room for years of faults. And
//! it is deterministic: a seed that finds something can be repeated as often as needed.
//!
//! * [`case`]: all inputs of a run; [`run`]: the run; [`prepared`]: the workload; [`error`]: why a case
//!   cannot be run.
//! * [`cluster`]: nodes, hosts, network and clients, and the queue of events that drives them.
//! * [`fault`]: fault plans.
//! * [`mod@file`]: a case as a file.
//! * [`minimise`]: makes a failing case smaller.
//! * [`latency`]: the latencies of messages.
//! * [`cost`]: the cost model of processing, for simulated throughput.
//! * [`load`]: closed loops for a given time, and their throughput.
//! * `check`: the checks of a run at rest.
//! * `constraints`: the schema's constraints on the merged state.
//! * `clusters`: the cases that can run in several clusters.
//! * [`protocols`]: what the simulator needs to know of each protocol.
//! * `sites`, `site_options`, [`site_load`]: sites with all of the data, their options, and their throughput.
//! * [`report`]: the report of a run.
//! * [`history`]: the run's history, for the checkers.
//! * `stale`: stale reads of quorum operation.
//! * [`diagram`]: a window of a run as a picture.
//! * [`replay`]: runs a counterexample of the analyser on real nodes.
//! * [`queue`], `clock`, `rows`: the event queue, the nodes' clocks, and the rows of stores.

pub(crate) mod belt;
pub mod case;
mod check;
mod clock;
pub mod cluster;
mod clusters;
mod constraints;
pub mod cost;
pub mod diagram;
pub mod error;
pub mod fault;
pub mod file;
pub mod history;
mod homes;
pub mod latency;
pub mod load;
pub mod minimise;
pub mod prepared;
pub mod protocols;
pub mod queue;
pub mod replay;
pub mod report;
mod rows;
pub mod run;
pub mod site_load;
mod site_options;
mod sites;
mod stale;

pub use case::Case;
pub use cluster::Watch;
pub use error::CaseError;
pub use fault::{FaultPlan, FaultProfile};
pub use file::CaseFile;
pub use history::{Recording, RunHistory};
pub use latency::Network;
pub use load::{Load, Throughput};
pub use prepared::Prepared;
pub use protocols::{ProtocolName, RampExtensions, Termination};
pub use report::{Report, Verdict};
pub use rows::rows_of;
pub use site_load::{LatencyBound, SiteLatencies, SiteLoad, SiteThroughput};
pub use site_options::{ConsistencyName, OrderOver, SiteOptions};
