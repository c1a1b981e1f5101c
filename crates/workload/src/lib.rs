//! Benchmark applications: their SQL, their initial rows and their operations, run through the same SQL that a user
//! writes.
//!
//! * [`workload`]: what an application declares so that a driver can run it.
//! * [`tpcc`]: the order-entry benchmark TPC-C.
//! * [`register`], [`counter`], [`bank`]: three small applications, each around one thing that a protocol may get
//!   wrong. Every answer can be checked by itself.
//! * [`departments`]: references beside the deletion of their targets, and a view maintained by its writers.
//! * [`tally`]: columns that merge in any order.
//! * [`replies`]: an anomaly that only a history reveals: a read of a reply without its comment.
//! * [`ycsb`]: reads and writes of single items, several at a time, as in the papers' benchmarks.
//! * [`tpcw`] and [`rubis`]: a bookstore and an auction site, the two of operation partitioning's paper.
//! * [`mix`]: how often each operation is called, in the mixes of benchmarks.
//! * [`smallbank`] and [`payroll`]: two examples from the literature.

pub mod bank;
mod catalogue;
pub mod counter;
pub mod departments;
mod group;
pub mod mix;
pub mod payroll;
pub mod register;
pub mod replies;
pub mod rubis;
pub mod smallbank;
pub mod tally;
pub mod tpcc;
pub mod tpcw;
pub mod workload;
pub mod ycsb;

pub use catalogue::{NAMES, by_name};
pub use workload::{Caller, ClientPlacement, Operation, Workload};
