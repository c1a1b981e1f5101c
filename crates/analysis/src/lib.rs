//! Catalog in, plan out: which transaction types need coordination, on what, and why.
//!
//! The paper followed is "Coordination Avoidance in Database Systems" (§4 to §6), with routing
//! after "operation partitioning" §3.1. The result is a [`Plan`]: what the engine needs to run each
//! transaction type, and what a person needs to believe it.

pub mod plan;

pub use plan::Plan;
