//! The papers' figures, found again and set beside the published ones.
//!
//! * [`atomic_commit`]: the bound that atomic commitment sets (coordination-avoidance.txt,
//!   Figure 2).

pub mod atomic_commit;
