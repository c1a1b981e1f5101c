//! The labels of messages in a diagram.

use anabranch_protocol::TransactionId;
use anabranch_types::Timestamp;

/// The text of a message, and its transaction.
#[derive(Clone, Debug)]
pub struct Label {
    pub(super) text: String,
    pub(super) kind: MessageKind,
    pub(super) transaction: Option<TransactionId>,
    /// The transaction's prepare timestamp, if the message has it.
    pub(super) prepared: Option<Timestamp>,
    /// The prepare timestamp of a sibling transaction that a second-round read demands.
    pub(super) demands: Option<Timestamp>,
}

/// The kind of a message, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MessageKind {
    Read,
    /// A second-round read, for a version that a race has hidden.
    Demand,
    Write,
    Refusal,
}

impl Label {
    fn new(
        text: impl Into<String>,
        kind: MessageKind,
        transaction: Option<TransactionId>,
    ) -> Label {
        Label {
            text: text.into(),
            kind,
            transaction,
            prepared: None,
            demands: None,
        }
    }

    /// A read or a lock, or its answer.
    pub fn read(text: impl Into<String>, transaction: TransactionId) -> Label {
        Label::new(text, MessageKind::Read, Some(transaction))
    }

    /// A step of a commit.
    pub fn write(text: impl Into<String>, transaction: TransactionId) -> Label {
        Label::new(text, MessageKind::Write, Some(transaction))
    }

    /// A refusal or an abort.
    pub fn refusal(text: impl Into<String>, transaction: Option<TransactionId>) -> Label {
        Label::new(text, MessageKind::Refusal, transaction)
    }

    /// A message without a transaction.
    pub fn other(text: impl Into<String>) -> Label {
        Label::new(text, MessageKind::Write, None)
    }

    /// The label of a read that demands the transaction with this prepare timestamp.
    pub fn demanding(mut self, prepared: Timestamp) -> Label {
        self.kind = MessageKind::Demand;
        self.demands = Some(prepared);
        self
    }

    /// The label with the transaction's prepare timestamp.
    pub fn prepared(mut self, prepared: Timestamp) -> Label {
        self.prepared = Some(prepared);
        self
    }
}

impl MessageKind {
    pub(super) const ALL: [MessageKind; 4] = [
        MessageKind::Read,
        MessageKind::Demand,
        MessageKind::Write,
        MessageKind::Refusal,
    ];

    pub(super) fn colour(self) -> &'static str {
        match self {
            MessageKind::Read => "#1f5fa8",
            MessageKind::Demand => "#c62828",
            MessageKind::Write => "#2e7d32",
            MessageKind::Refusal => "#d07000",
        }
    }

    /// The description in the legend.
    pub(super) fn description(self) -> &'static str {
        match self {
            MessageKind::Read => "a read or lock, and its answer",
            MessageKind::Demand => "a second-round read: repairs a race",
            MessageKind::Write => "a step of a commit",
            MessageKind::Refusal => "a refusal",
        }
    }
}
