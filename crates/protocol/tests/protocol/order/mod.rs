//! The orderers' tests: what every orderer promises, in random storms; and each of them step by step.

mod epaxos;
mod group;
mod multipaxos;
mod pob;
mod storm;
