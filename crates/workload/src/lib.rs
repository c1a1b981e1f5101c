//! Benchmark applications, driven through the same SQL that a user writes.
//!
//! An application stands in `examples/` as plain SQL. What is here fills its tables and draws its
//! calls, from a seed: the same seed gives the same rows and the same calls on every machine.

pub mod tpcc;
