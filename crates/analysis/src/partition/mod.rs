//! Operation partitioning: which parameter routes each transaction type, and how far its operations have
//! to be coordinated then ("Scaling Out ACID Applications with Operation Partitioning", §3).
//!
//! 1. `access`: the read set and the write set of each type: columns of a table, or which rows there are,
//!    with the condition under which a row is met.
//! 2. `conflict`: Algorithm 1, lines 1 to 10: for each pair of types the condition, in disjunctive
//!    normal form, under which two operations conflict; what cannot be satisfied (`condition`) goes.
//! 3. `search`: lines 11 to 20: parameters of the least cost. A conflict whose every clause demands that the
//!    two routing parameters are equal stays on one server and costs nothing.
//! 4. `class`: §3.2's classes, and several parameters for a type that one makes global.
//!
//! The conflicts are the paper's where everything is ordered (serializability). Under the weaker guarantee
//! they are those that confluence leaves: two types conflict where they hold the same guard. The search is one.
//!
//! Departures from the paper, each to the safe side:
//!
//! * *Read sets* have what is compared, joined, counted, sorted by, and looked up for keys, foreign keys,
//!   CHECK conditions and assertions, not what is returned alone; and which rows there are.
//! * *A row is recognised by columns that nobody updates.* If `x.g` changes, `x.g = p` and `x.g = p'` say
//!   nothing of `p` and `p'`: the row may have moved between.
//! * *Inequalities* do not keep a parameter from routing (the paper leaves such parameters out): what counts
//!   is whether the clause implies that two keys are equal.
//! * *Generated keys* (identity, UUIDs) are keys like parameters: the server on which an operation runs
//!   generates such as are routed to itself (§6, "server-specific unique ids").
//! * *Several parameters* (§3.1, told in four lines there): an operation whose parameters are all routed to
//!   one server is local to it. Any other is global and runs where its first parameter is routed to; so
//!   a conflict with it stays on one server only where the first parameter is equal.

pub(crate) mod access;
mod class;
pub(crate) mod condition;
pub(crate) mod conflict;
pub(crate) mod search;
mod sites;
mod weights;

pub(crate) use crate::plan::partitioning::keys;
pub use crate::plan::partitioning::{
    Clause, Conflict, ConflictKind, Held, Key, OperationClass, PartitionedType, Partitioning,
};
pub(crate) use class::{Chosen, classify};
pub use sites::Sites;
pub use weights::weights;
