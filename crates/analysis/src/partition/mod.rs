//! Operation partitioning: which parameter routes each transaction type, and how far its operations then have to be
//! coordinated ("Scaling Out ACID Applications with Operation Partitioning", §3).
//!
//! 1. `access`: the read set and the write set of each type: columns of a table, or which rows exist, with the
//!    condition under which a row is accessed.
//! 2. `conflict`: Algorithm 1, lines 1 to 10: for each pair of types the condition, in disjunctive normal form,
//!    under which two operations conflict; drops clauses that cannot be satisfied (`condition`).
//! 3. `search`: lines 11 to 20: the parameters of least cost. A conflict stays on one server, and costs nothing, if
//!    its every clause requires that the two routing parameters are equal.
//! 4. `class`: §3.2's classes, and several parameters for a type that one makes global.
//! 5. `route`: the server of an operation by its arguments, and whether it is global.
//!
//! Where everything is ordered (serializability), the conflicts are the paper's. Under the weaker guarantee they
//! are those that confluence leaves: two types conflict if they hold the same guard. The search is the same.
//!
//! Departures from the paper, each to the safe side:
//!
//! * *Read sets* contain what is compared, joined, counted, sorted by, and looked up for keys, foreign keys, CHECK
//!   conditions and assertions, and which rows exist; but not what is only returned.
//! * *Columns that no type updates identify a row.* If `x.g` changes, `x.g = p` and `x.g = p'` say nothing of `p`
//!   and `p'`: the row may have moved in between.
//! * *Inequalities* do not keep a parameter from routing (the paper excludes such parameters): what counts is
//!   whether the clause implies that two keys are equal.
//! * *Generated numbers* (identity, sequences) are keys like parameters: the server on which an operation runs generates
//!   numbers that are routed to itself (§6, "server-specific unique ids"). UUIDs are not: they are routed anywhere.
//! * *Several parameters* (§3.1, in four lines): an operation whose parameters are all routed to one server is
//!   local to it. Any other is global and runs where its first parameter is routed to; so a conflict with it stays
//!   on one server only if the first parameter is equal.

pub(crate) mod access;
mod class;
pub(crate) mod condition;
pub(crate) mod conflict;
mod route;
pub(crate) mod search;
mod sites;
mod weights;

pub(crate) use crate::plan::partitioning::keys;
pub use crate::plan::partitioning::{
    Clause, Conflict, ConflictKind, Distribution, Key, OperationClass, PartitionedType,
    Partitioning, Spread, WrittenParts,
};
pub use class::Writes;
pub(crate) use class::{ChosenParameters, classify};
pub use route::{KeyPlacement, OperationRoute, OperationRouter};
pub use sites::Sites;
pub use weights::weights;
