//! What a diagram says of a message.

use anabranch_protocol::TransactionId;
use anabranch_types::Timestamp;

/// A message's words, and whose it is.
#[derive(Clone, Debug)]
pub struct Label {
    pub(super) words: String,
    pub(super) sense: Sense,
    pub(super) transaction: Option<TransactionId>,
    /// The timestamp that others know the transaction by before it commits, if the message tells it.
    pub(super) prepared: Option<Timestamp>,
    /// A transaction that a race would hide, and that the reader demands by its timestamp.
    pub(super) demands: Option<Timestamp>,
}

/// What a message is about; messages of one sense share a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sense {
    Read,
    /// A read that demands what a race would hide.
    Demand,
    Write,
    Refusal,
}

impl Label {
    fn new(words: impl Into<String>, sense: Sense, transaction: Option<TransactionId>) -> Label {
        Label {
            words: words.into(),
            sense,
            transaction,
            prepared: None,
            demands: None,
        }
    }

    /// A read, a lock, or an answer to one.
    pub fn read(words: impl Into<String>, transaction: TransactionId) -> Label {
        Label::new(words, Sense::Read, Some(transaction))
    }

    /// A step of a commit.
    pub fn write(words: impl Into<String>, transaction: TransactionId) -> Label {
        Label::new(words, Sense::Write, Some(transaction))
    }

    /// A refusal, or its consequence.
    pub fn refusal(words: impl Into<String>, transaction: Option<TransactionId>) -> Label {
        Label::new(words, Sense::Refusal, transaction)
    }

    /// What belongs to no transaction.
    pub fn other(words: impl Into<String>) -> Label {
        Label::new(words, Sense::Write, None)
    }

    /// The same of a read that demands the transaction that was prepared with this timestamp.
    pub fn demanding(mut self, prepared: Timestamp) -> Label {
        self.sense = Sense::Demand;
        self.demands = Some(prepared);
        self
    }

    /// The same of a message that tells which timestamp its transaction was prepared with.
    pub fn prepared(mut self, prepared: Timestamp) -> Label {
        self.prepared = Some(prepared);
        self
    }
}

impl Sense {
    pub(super) const ALL: [Sense; 4] = [Sense::Read, Sense::Demand, Sense::Write, Sense::Refusal];

    pub(super) fn colour(self) -> &'static str {
        match self {
            Sense::Read => "#1f5fa8",
            Sense::Demand => "#c62828",
            Sense::Write => "#2e7d32",
            Sense::Refusal => "#d07000",
        }
    }

    /// For the legend.
    pub(super) fn words(self) -> &'static str {
        match self {
            Sense::Read => "a read or lock, and its answer",
            Sense::Demand => "a read that demands what a race would hide",
            Sense::Write => "a step of a commit",
            Sense::Refusal => "a refusal",
        }
    }
}
