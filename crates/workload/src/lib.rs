//! Benchmark applications: their SQL, their initial rows and their stream of operations, driven
//! through the same SQL that a user writes.
//!
//! * [`workload`]: what an application has to say about itself so that a driver can run it.
//! * [`tpcc`]: the order-entry benchmark TPC-C.
//! * [`register`], [`counter`], [`bank`]: three small applications, each around one thing that a
//!   protocol may get wrong, whose every answer can be judged by itself.
//! * [`departments`]: references beside the deletion of what they refer to, and a view that its writers keep.
//! * [`tally`]: columns that merge in any order.
//! * [`replies`]: one more, about what only a history tells: that a reply was seen and its comment missed.
//! * [`ycsb`]: reads and writes of single items, several at a time, as the papers' benchmarks have them.
//! * [`smallbank`] and [`payroll`]: two examples from the literature.

pub mod bank;
pub mod counter;
pub mod departments;
mod group;
pub mod payroll;
pub mod register;
pub mod replies;
pub mod smallbank;
pub mod tally;
pub mod tpcc;
pub mod workload;
pub mod ycsb;

pub use workload::{Caller, NAMES, Operation, Place, Workload, by_name};
