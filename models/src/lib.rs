//! Small clusters of every protocol, explored exhaustively: all orders in which messages arrive,
//! clients send requests, timers fire, time jumps and nodes crash.
//!
//! Random schedules never cover a protocol completely. Here clusters are so small that the search is
//! complete: a few transactions, two partitions. The nodes are the protocols' own state machines. A model
//! adds a cluster as a value ([`cluster`]), clients ([`client`]), properties ([`property`]) and the search
//! ([`mod@explore`]). The page `docs/models.md` lists what was explored, and why the explorer is our own.
//!
//! * [`model`]: the models by name, and their sizes.
//! * [`mod@order`]: orderers, with a search of their own.
//! * [`mod@belt`]: the Conveyor Belt, with a search of its own.
//! * [`subject`]: the protocols' nodes in models.
//! * [`digest`]: how visited states are recognised.

pub mod belt;
pub mod client;
pub mod cluster;
pub mod digest;
pub mod explore;
pub mod model;
pub mod order;
pub mod property;
pub mod subject;
mod support;
