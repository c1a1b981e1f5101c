//! Results of calls and statements.

use std::sync::Arc;

use anabranch_types::{DataType, EffectError, Value};

use crate::catalog::RaiseLevel;
use crate::summary::StatementId;

/// The result of a call or a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultSet {
    /// Names and types of the columns.
    pub columns: Arc<[(String, DataType)]>,
    /// The rows. Values may be [`Value::Pending`] until the transaction has committed.
    pub rows: Vec<Vec<Value>>,
    /// The number of returned, inserted, updated or deleted rows.
    pub count: u64,
    /// What procedures have said by `RAISE`, in order.
    pub messages: Vec<Message>,
}

/// What a procedure says by `RAISE`, other than that it fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its level: never [`RaiseLevel::Exception`].
    pub level: RaiseLevel,
    /// SQLSTATE, text and the other fields.
    pub content: EffectError,
}

impl Message {
    /// Its approximate size in memory.
    pub fn bytes(&self) -> usize {
        let fields = self.content.fields.as_deref();
        let texts = fields.into_iter().flat_map(|it| [&it.detail, &it.hint]);
        let more: usize = texts.flatten().map(String::len).sum();
        size_of::<Message>() + self.content.message.len() + more
    }
}

/// The result of one statement that a procedure has run.
#[derive(Clone, Debug, PartialEq)]
pub struct StatementResult {
    /// The statement.
    pub statement: StatementId,
    /// Its rows, if it returns any.
    pub rows: Vec<Vec<Value>>,
    /// The number of returned, inserted, updated or deleted rows.
    pub count: u64,
}

impl ResultSet {
    /// Replaces the pending values by those known at commit; `slots` are the transaction's, in order.
    pub fn resolve(&mut self, slots: &[Value]) {
        for value in self.rows.iter_mut().flatten() {
            if let Value::Pending(pending) = value {
                let resolved = match slots.get(pending.slot.index()) {
                    Some(Value::Int(i)) => Value::Int(i + pending.offset),
                    Some(other) => other.clone(),
                    None => Value::Null,
                };
                *value = resolved;
            }
        }
    }
}
