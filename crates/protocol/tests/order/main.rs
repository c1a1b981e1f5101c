//! The orderers' tests: what every orderer promises, in random storms; and partial order broadcast step by step.

mod group;
mod pob;
mod storm;
#[path = "../support/mod.rs"]
mod support;
