//! The core of RAMP (ramp.txt §4, Algorithms 1 to 3), without what extends it.

pub(crate) mod context;
pub(crate) mod coordinator;
mod extension;
pub mod message;
pub mod metadata;
pub(crate) mod participant;
pub mod trace;
