//! The dialect of PostgreSQL: from SQL text to a catalog, compiled procedures, and summaries of their effects.
//!
//! 1. [`source`]: files and places in them; [`diagnostic`]: what is wrong, where, and what to do.
//! 2. `parse`: statements through `sqlparser`; PL/pgSQL bodies, `BEGIN ATOMIC` bodies and `CREATE ASSERTION` through a
//!    thin parser of our own around it.
//! 3. [`catalog`]: tables, indexes, views, assertions, procedures.
//! 4. `bind`, `plan`: names resolved and typed, access paths chosen, expressions compiled.
//! 5. `execute`: a compiled statement runs over a [`Transaction`], set at a time: each step issues all the reads that
//!    it can know at once.
//!    [`deferred`]: checks that wait for the end of the transaction.
//! 6. [`summary`]: what each statement reads, writes and depends on, for the analyser.
//! 7. [`client`]: statements as PostgreSQL clients send them, parsed and compiled.
//! 8. [`change`]: statements that change the schema while it is served.
//! 9. `system`: `pg_catalog` and `information_schema`, as relations that statements read.
//! 10. [`script`]: SQL files as applications keep them, with named queries and loose statements, parts of which may
//!     not be analysed: for the analyser alone.
//!
//! This crate knows no protocol, no partition, and no plan of where transactions coordinate.

pub mod application;
mod argument;
mod bind;
pub mod catalog;
pub mod change;
pub mod client;
mod constraint;
pub mod deferred;
pub mod diagnostic;
pub mod every_row;
mod execute;
mod explain;
pub mod expression;
mod hidden;
pub mod parse;
mod plan;
mod procedure;
mod program;
mod result;
mod ring_relation;
pub mod script;
pub mod sequence;
mod session_value;
pub mod source;
pub mod summary;
mod system;
pub mod testing;
pub mod transaction;
mod transaction_column;

pub use application::{Application, CompiledAssertion, CompiledStatement, ResultSet};
pub use catalog::{Catalog, load};
pub use diagnostic::{Diagnostic, render};
pub use procedure::CompiledProcedure;
pub use program::merging;
pub use result::{Message, StatementResult};
pub use source::{SourceFile, Span};
pub use transaction::{Transaction, TransactionError};
