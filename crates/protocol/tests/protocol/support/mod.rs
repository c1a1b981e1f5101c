//! Shared parts of the protocols' tests: a cluster in one thread with a seeded schedule, a small database, and
//! checkers of reads.
//!
//! * [`random`]: seeded random numbers.
//! * [`cluster`]: the nodes, the messages between them, and a transcript of both.
//! * [`describe`]: short texts for transcripts.
//! * [`fixture`]: a small schema, its row programs, and short names for reads and effects.
//! * [`mix`]: procedures whose reads reveal anomalies, and the checker.
//! * [`schedule`]: clients with procedures, run under a seeded schedule.

#![allow(unreachable_pub)]

pub mod cluster;
pub mod describe;
pub mod fixture;
pub mod mix;
pub mod random;
pub mod schedule;
