//! What a site broadcasts to commit a transaction.

use anabranch_types::Effect;
use serde::{Deserialize, Serialize};

use crate::contract::TransactionId;
use crate::order::{ConflictClass, Payload};

use super::access_set::AccessSet;
use super::guarded::GuardedCommit;
use super::read_set::ReadSet;

/// A transaction that asks to commit: the paper's *T* with *T.RS* and *T.WS*.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Certificate {
    /// The transaction.
    pub transaction: TransactionId,
    /// The versions that it has read.
    pub reads: ReadSet,
    /// What it changes, in order of execution.
    pub effects: Vec<Effect>,
    /// What certification and installation access: computed by the site that executed the transaction. Over guards, its
    /// guard accesses.
    pub accesses: AccessSet,
    /// Over guards, what is certified; the read set is empty.
    pub guarded: Option<Box<GuardedCommit>>,
}

impl Payload for Certificate {
    fn conflicts_with(&self, other: &Certificate) -> bool {
        self.accesses.conflicts_with(&other.accesses)
    }

    fn classes(&self, sink: &mut dyn FnMut(ConflictClass)) {
        self.accesses.classes(sink);
    }
}
