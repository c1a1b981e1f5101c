//! The papers' figures, found again and set beside the published ones.
//!
//! * [`coordination_avoidance`]: Figures 1, 2, 5 and 6 of coordination-avoidance.txt, and the table of
//!   its code paths.
//! * [`atomic_commit`]: the bound that atomic commitment sets (its Figure 2).
//! * `simulation`: simulated runs as they are described, shared and run on all cores, by a `pool` of
//!   threads.

pub mod atomic_commit;
pub mod coordination_avoidance;
mod pool;
mod simulation;
