//! Clusters that each have all partitions (ramp.txt §6).

mod participant;
mod prepare_f;
pub(crate) mod quorum;
pub(crate) mod replicated_write;
pub(crate) mod sticky;
