//! TPC-C: one experiment is a database, a load and one run for each protocol.

pub mod conditions;
pub mod embedded;
pub mod experiment;
pub mod fill;
pub mod postgres;
pub mod recorded;

pub use experiment::{Experiment, ExperimentError, ProtocolChoice};
