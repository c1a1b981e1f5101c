//! Small clusters of every protocol, explored exhaustively: each order in which messages can
//! arrive, clients ask, timers fire, time jumps and a node crashes.
//!
//! Random schedules run a protocol for long, and never all of it. Here clusters are so small that
//! nothing is left out: a few transactions, two partitions. The nodes are the protocols' own state
//! machines, not copies of them; what a model adds is a cluster around them that is a value
//! ([`cluster`]), clients ([`client`]), what must hold ([`property`]), and the search
//! ([`mod@explore`]). The page `docs/models.md` says what has been explored, and why with an own
//! explorer.
//!
//! * [`model`]: the models by name, and their sizes.
//! * [`subject`]: the protocols' nodes as models take them.
//! * [`digest`]: how a state that was met before is known again.

pub mod client;
pub mod cluster;
pub mod digest;
pub mod explore;
pub mod model;
pub mod property;
pub mod subject;
mod support;
