//! What runs for a statement of a client's own transaction.

use std::sync::Arc;

use anabranch_sql::application::CompiledStatement;
use anabranch_sql::deferred::ConstraintSelection;

/// What a statement of a block runs.
#[derive(Clone, Debug)]
pub enum StatementCode {
    /// A compiled statement.
    Statement(Arc<CompiledStatement>),
    /// The declared procedure with this index.
    Procedure(usize),
    /// The deferred checks of these constraints, now: SET CONSTRAINTS … IMMEDIATE.
    CheckConstraints(Arc<ConstraintSelection>),
}
