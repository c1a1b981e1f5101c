//! Replicas of a node: one primary, backups that keep its log, and elections among them.
//!
//! The protocols define what must be durable before output leaves a node
//! (`docs/protocols/durability.md`). Here durable means: on a majority of the node's replicas. The
//! *primary* runs the node and sends its log records to the *backups* as entries of one log. Its output
//! leaves when a majority has the entries before it and has confirmed that it is still the primary.
//! When the primary falls silent, the backups elect one of themselves. The elected log has every entry
//! that any output depends on, and the new primary recovers from it as a restarted node does. The
//! protocols above see only a new incarnation of the node. `docs/protocols/replication.md` has the
//! messages, the states, the numbered invariants and why they hold.
//!
//! The rules are Raft's (Ongaro, Ousterhout: *In Search of an Understandable Consensus Algorithm*,
//! USENIX ATC 2014, and Ongaro's dissertation, 2014: pre-votes §9.6, reads confirmed by a majority
//! §6.4); *view*, *primary* and *backup* are the words of Viewstamped Replication (Liskov, Cowling:
//! *Viewstamped Replication Revisited*, MIT-CSAIL-TR-2012-021).
//!
//! * [`message`]: messages between replicas of one node, and log entries.
//! * [`Replica`]: the state machine.
//! * [`ReplicaPlacement`]: which server has which replicas.
//! * [`PrimaryCache`]: a server's cache of other nodes' primaries.
//!
//! Not supported: replicas that join or leave. A replica that has lost its disk must not return under
//! its number.

mod entries;
pub mod message;
mod placement;
mod primary;
mod primary_cache;
mod primary_state;
mod replica;

pub use self::message::{Entry, LogId, Message, ReplicaId, View};
pub use self::placement::{PlacementError, ReplicaPlacement};
pub use self::primary_cache::PrimaryCache;
pub use self::replica::{
    Event, GroupOutbox, LogWrite, PersistedState, Replica, ReplicaCounters, ReplicaOptions,
};
