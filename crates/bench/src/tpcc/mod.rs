//! TPC-C as an experiment: its settings, its initial database, and its run on PostgreSQL.

pub mod experiment;
pub mod fill;
pub mod postgres;

pub use experiment::Experiment;
