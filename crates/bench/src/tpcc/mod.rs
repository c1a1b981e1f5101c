//! TPC-C: one experiment is a database, a load and one run for each protocol.

pub mod experiment;
pub mod fill;
pub mod postgres;

pub use experiment::Experiment;
