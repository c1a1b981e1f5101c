//! Replicas of a node: one primary, backups that keep its log, and elections among them.
//!
//! The protocols say what must be durable before something leaves a node
//! (`docs/protocols/durability.md`). Here durable means: on a majority of the node's replicas. A
//! *primary* runs the node; its records go to its *backups* as entries of one log, and what it says
//! leaves when the entries that it rests on are on a majority, and a majority has confirmed that it
//! is still the primary. When it falls silent the others elect one of themselves, whose log has all
//! that was ever told, and who goes on from it as a restarted node does. The protocols above notice
//! a new life of the node and nothing else. The page `docs/protocols/replication.md` has messages,
//! states, the numbered invariants and why they hold.
//!
//! The rules are Raft's (Ongaro, Ousterhout: *In Search of an Understandable Consensus Algorithm*,
//! USENIX ATC 2014, and Ongaro's dissertation, 2014: pre-votes §9.6, reads confirmed by a majority
//! §6.4); *view*, *primary* and *backup* are the words of Viewstamped Replication (Liskov, Cowling:
//! *Viewstamped Replication Revisited*, MIT-CSAIL-TR-2012-021).
//!
//! * [`message`]: what replicas of one node say to each other, and what an entry is.
//! * [`Replica`]: the state machine.
//! * [`ReplicaPlacement`]: which server has which replicas.
//! * [`Whereabouts`]: where a server believes other nodes' primaries to be.
//!
//! What it does not do: replicas do not join or leave, and one that has lost its disk must not come
//! back under its number.

mod entries;
mod lead;
pub mod message;
mod placement;
mod replica;
mod whereabouts;

pub use self::message::{Entry, Message, Place, ReplicaId, View};
pub use self::placement::{PlacementError, ReplicaPlacement};
pub use self::replica::{Event, Out, Replica, ReplicaCounters, ReplicaOptions, Restored, Write};
pub use self::whereabouts::Whereabouts;
