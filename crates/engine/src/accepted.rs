//! Transactions that clients have accepted into the plan ([`crate::undeclared::acceptance`]): what is kept of each.

use std::collections::BTreeSet;
use std::sync::Arc;

use anabranch_sql::summary::TransactionSummary;
use anabranch_types::DataType;

/// What a client has accepted: a transaction of these statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedShape {
    /// Its statements, each once.
    pub statements: Vec<AcceptedStatement>,
    /// Whether it is a transaction of any number of them, in any order; otherwise it is one statement by itself.
    pub is_block: bool,
}

/// A statement of an accepted shape, as its client has sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedStatement {
    /// Its text.
    pub text: Arc<str>,
    /// The types of its parameters; `None` for one that follows from its use.
    pub parameters: Vec<Option<DataType>>,
}

/// An accepted shape as a transaction type of the plan.
#[derive(Clone, Debug)]
pub struct AcceptedType {
    pub(crate) shape: AcceptedShape,
    pub(crate) summary: TransactionSummary,
    /// The shapes of its statements.
    pub(crate) parts: BTreeSet<String>,
}
