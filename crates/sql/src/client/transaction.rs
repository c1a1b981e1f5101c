//! BEGIN, COMMIT, ROLLBACK, savepoints, and transaction modes.

/// A statement that begins or ends a transaction, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransactionStatement {
    /// BEGIN or START TRANSACTION.
    Begin {
        /// Its modes.
        modes: TransactionModes,
        /// Written as START TRANSACTION, which is then its tag.
        start: bool,
    },
    /// COMMIT or END; `chain` begins another transaction with the same modes.
    Commit {
        /// AND CHAIN.
        chain: bool,
    },
    /// ROLLBACK or ABORT; `chain` begins another transaction with the same modes.
    Rollback {
        /// AND CHAIN.
        chain: bool,
    },
    /// SAVEPOINT name
    Savepoint(String),
    /// RELEASE name
    Release(String),
    /// ROLLBACK TO name
    RollbackTo(String),
}

impl TransactionStatement {
    /// The command tag.
    pub fn tag(&self) -> &'static str {
        match self {
            TransactionStatement::Begin { start: false, .. } => "BEGIN",
            TransactionStatement::Begin { start: true, .. } => "START TRANSACTION",
            TransactionStatement::Commit { .. } => "COMMIT",
            TransactionStatement::Rollback { .. } | TransactionStatement::RollbackTo(_) => {
                "ROLLBACK"
            }
            TransactionStatement::Savepoint(_) => "SAVEPOINT",
            TransactionStatement::Release(_) => "RELEASE",
        }
    }
}

/// The modes that a statement names; `None` where it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// ISOLATION LEVEL
    pub isolation: Option<IsolationLevel>,
    /// READ ONLY (`true`) or READ WRITE
    pub read_only: Option<bool>,
    /// DEFERRABLE or NOT DEFERRABLE
    pub deferrable: Option<bool>,
}

/// An isolation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    /// `read uncommitted`
    ReadUncommitted,
    /// `read committed`
    ReadCommitted,
    /// `repeatable read`
    RepeatableRead,
    /// `serializable`
    Serializable,
}

impl IsolationLevel {
    /// The level with this name, as SHOW writes it.
    pub fn named(name: &str) -> Option<IsolationLevel> {
        use IsolationLevel::*;
        let levels = [ReadUncommitted, ReadCommitted, RepeatableRead, Serializable];
        levels.into_iter().find(|level| level.name() == name)
    }

    /// Its name as SHOW writes it.
    pub fn name(self) -> &'static str {
        match self {
            IsolationLevel::ReadUncommitted => "read uncommitted",
            IsolationLevel::ReadCommitted => "read committed",
            IsolationLevel::RepeatableRead => "repeatable read",
            IsolationLevel::Serializable => "serializable",
        }
    }
}
