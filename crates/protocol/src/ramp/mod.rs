//! RAMP-Fast, -Small and -Hybrid (ramp.txt §4), for read-write transactions, ranges, counters and
//! guards.
//!
//! Readers see all of a transaction's effects or none, and nobody waits for anybody. A transaction
//! over several partitions is *prepared* on each of them before it is shown on any, and each of them
//! keeps metadata of it. So a reader that meets it on one partition knows what to ask the others, and
//! what it misses there is prepared at least: the owner shows it on demand. The three differ in how
//! much the metadata say of what was written where ([`Metadata`]), and in nothing else.
//!
//! What differs from the paper, in short (the page `docs/protocols/ramp.md` has the reasons, the
//! message table and the numbered invariants):
//!
//! * An owner installs versions in one order, and a reader reads one *snapshot* of each partition,
//!   a prefix of that order. So whether a reader includes a transaction is one comparison of
//!   sequences, also for counters, where a higher timestamp says nothing about inclusion.
//! * A reader that lacks a transaction asks for a newer snapshot that *includes* it, instead of for
//!   one version by its timestamp. If it has shown rows of the older snapshot to the procedure
//!   already, it is restarted.
//! * RAMP-Fast's metadata name items by 8-byte tags; transactions on one partition carry none.
//! * RAMP-Small has no second round where no transaction is in evidence: all that wrote what was read
//!   are known to be committed everywhere.
//! * Guards are validated and held from the vote to the commit; a conflict is a no, never a wait.
//!
//! * `core`: Algorithms 1 to 3: [`core::message`], `core::coordinator` (reads, writes), `core::participant`
//!   (get, prepare, commit), [`core::metadata`] (fast, small, hybrid).
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
