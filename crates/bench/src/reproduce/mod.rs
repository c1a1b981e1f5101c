//! Reproduces the papers' figures beside the published ones.
//!
//! * [`coordination_avoidance`]: Figures 1, 2, 5 and 6 of coordination-avoidance.txt, and the table of
//!   its code paths.
//! * [`atomic_commit`]: the bound that atomic commitment sets (its Figure 2).
//! * [`ramp`]: Figures 4, 5 and 6 of ramp.txt, the table of blocked writes and §6.2.
//! * [`alvin`]: Figures 1 to 3 of alvin.txt, the latency of a commit, certification on one core, and real threads.
//! * [`operation_partitioning`]: Tables 1 and 3 and Figures 3 to 6 of operation-partitioning.txt.
//! * `simulation`: simulated runs, described by values and run on all cores by a `pool` of threads.

pub mod alvin;
pub mod atomic_commit;
pub mod coordination_avoidance;
pub mod operation_partitioning;
mod pool;
pub mod ramp;
mod simulation;
