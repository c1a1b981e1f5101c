//! Whole clusters in virtual time: seeds of every workload under every fault profile.

mod alvin;
mod at_rest;
mod belt;
mod causal;
mod clusters;
mod counts;
mod durability;
mod guards;
mod history;
mod interactive;
mod plans;
mod quorum;
mod recording;
mod replay;
mod replicas;
mod score;
mod seeds;
mod site_load;
