//! RAMP-Fast, -Small and -Hybrid (ramp.txt §4), for read-write transactions, ranges, counters and guards.
//!
//! A reader sees all of a transaction's effects or none, and no transaction waits for another. A transaction over
//! several partitions is *prepared* on each of them before it is *installed* on any, and each of them keeps its
//! *sibling metadata*. A reader that meets the transaction on one partition is given the metadata, so it knows what
//! to ask the other partitions for. What it misses there is at least prepared: the owner installs it on demand and
//! answers. The three algorithms differ in how much the metadata say of what was written where ([`Metadata`]), and in
//! nothing else.
//!
//! Departures from the paper, in short (the page `docs/protocols/ramp.md` has the reasons, the message table and the
//! numbered invariants):
//!
//! * An owner installs versions in one order, and a reader reads one *snapshot* of each partition, a prefix of that
//!   order. So whether a reader includes a transaction is one comparison of sequences. This holds for counters too,
//!   where a higher timestamp says nothing about inclusion.
//! * A reader that misses a transaction asks for a newer snapshot that *includes* it, instead of for one version by
//!   its timestamp. If the procedure has been given rows of the older snapshot, the transaction restarts.
//! * RAMP-Fast's metadata name items by 8-byte tags. Transactions on one partition carry none.
//! * RAMP-Small has no second round where all transactions that wrote what was read are known to be stable.
//! * Guards are validated at the vote, and write intents protect them until the commit. A conflict is a vote for no,
//!   never a wait.
//!
//! # Where everything is
//!
//! * `core`: Algorithms 1 to 3: [`core::message`], `core::coordinator` (reads, writes), `core::participant` (get,
//!   prepare, commit), [`core::metadata`] (fast, small, hybrid).
//! * Beside it a module for each extension. The core calls them at the points that `core::extension` lists:
//!   `collection` (when sibling metadata may go), `termination` (in-doubt transactions), [`recovery`] (log records),
//!   `replication` (sticky clusters, Prepare-F, quorums), [`causal`] (causal consistency).
//! * `node`: the state machine that ties them together; `options`, `timer`.

pub mod causal;
mod collection;
pub mod core;
mod node;
mod options;
pub mod recovery;
mod replication;
mod termination;
mod timer;

pub use self::core::metadata::Metadata;
pub use self::core::metadata::filter::{FilterSize, FilterSizeError};
pub use self::node::RampNode;
pub use self::options::RampOptions;
