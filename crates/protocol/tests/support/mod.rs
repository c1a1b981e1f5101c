//! What the protocols' tests share: a cluster in one thread whose schedule a seed decides, a small
//! database to run on it, and checkers of what was read.
//!
//! * [`random`]: seeded random numbers.
//! * [`cluster`]: the nodes, the messages between them, and a transcript of both.
//! * [`describe`]: all of it in few words.
//! * [`fixture`]: a small schema, its row programs, and short names for reads and effects.
//! * [`mix`]: procedures whose reads give anomalies away, and the checker.
//! * [`schedule`]: clients with procedures, run under a seeded schedule.

#![allow(dead_code, unreachable_pub)] // each test binary uses its own part of this

pub mod cluster;
pub mod describe;
pub mod fixture;
pub mod mix;
pub mod random;
pub mod schedule;
