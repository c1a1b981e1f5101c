//! The protocols' nodes in models, and a RAMP node with a planted bug.

use std::fmt;

use anabranch_protocol::epci::{self, EPciNode};
use anabranch_protocol::locking::{self, LockingNode};
use anabranch_protocol::nwnr::NwnrNode;
use anabranch_protocol::ramp::RampNode;
use anabranch_protocol::ramp::core::message::{Got, Message, ReadPoint, Stamped};
use anabranch_protocol::score::{self, ScoreNode};
use anabranch_protocol::{Counters, Input, Outbox, Protocol};
use anabranch_storage::Store;
use anabranch_types::{ActivityProbe, Ticks};

use crate::cluster::{Subject, restarted};
use crate::support::describe;

impl Subject for RampNode {
    fn is_idle(&self) -> bool {
        RampNode::is_idle(self)
    }

    fn store(&self) -> &Store {
        RampNode::store(self)
    }

    fn prepared(&self) -> usize {
        RampNode::prepared(self)
    }

    fn describe(message: &Stamped) -> String {
        match &message.message {
            Message::Get {
                transaction,
                at,
                request,
            } => {
                let reads = describe::list(request.reads.iter().map(describe::read));
                let at = match at {
                    ReadPoint::Newest => String::new(),
                    ReadPoint::Revalidate(at) => format!(" unless snapshot {at} will do"),
                    ReadPoint::Fixed(at) => format!(" in snapshot {at}"),
                };
                let required = request.required().iter();
                let required = required.map(|required| required.commit.to_string());
                let required = match describe::list(required) {
                    none if none.is_empty() => none,
                    some => format!(", including {some}"),
                };
                format!("Get for {}: {reads}{at}{required}", name(transaction))
            }
            Message::Got {
                transaction,
                result: Ok(got),
            } => {
                let rows = describe::list(got.fetched.iter().map(describe::rows));
                let seen = got.siblings().iter().map(|seen| seen.commit.to_string());
                let siblings = match describe::list(seen) {
                    none if none.is_empty() => none,
                    some => format!(", with metadata of {some}"),
                };
                format!("Got for {}: {rows}{siblings}", name(transaction))
            }
            Message::Prepare(prepare) => {
                let effects = prepare.work.effects.iter().map(describe::effect);
                let effects = describe::list(effects);
                format!(
                    "Prepare {} as {}: {effects}",
                    name(&prepare.transaction),
                    prepare.prepared
                )
            }
            Message::Commit {
                transaction,
                decided,
            } => format!("Commit {} at {}", name(transaction), decided.commit),
            Message::Abort { prepared } => format!("Abort {prepared}"),
            other => variant(other),
        }
    }

    fn restart(&self, empty: &Self, now: Ticks, out: &mut Outbox<Self::Message>) -> Option<Self> {
        Some(restarted(self, empty, now, out))
    }
}

impl Subject for NwnrNode {
    fn is_idle(&self) -> bool {
        NwnrNode::is_idle(self)
    }

    fn store(&self) -> &Store {
        NwnrNode::store(self)
    }

    fn describe(message: &Self::Message) -> String {
        variant(message)
    }
}

impl Subject for EPciNode {
    fn is_idle(&self) -> bool {
        EPciNode::is_idle(self)
    }

    fn store(&self) -> &Store {
        EPciNode::store(self)
    }

    fn describe(message: &epci::Message) -> String {
        match message {
            epci::Message::Commit { timestamp, .. } => {
                format!("{} at {timestamp}", variant(message))
            }
            epci::Message::Check { at, .. } | epci::Message::Get { at, .. } => {
                format!("{} as of {at}", variant(message))
            }
            other => variant(other),
        }
    }
}

impl Subject for LockingNode {
    fn is_idle(&self) -> bool {
        LockingNode::is_idle(self)
    }

    fn store(&self) -> &Store {
        LockingNode::store(self)
    }

    fn describe(message: &locking::Message) -> String {
        variant(message)
    }

    fn restart(&self, empty: &Self, now: Ticks, out: &mut Outbox<Self::Message>) -> Option<Self> {
        Some(restarted(self, empty, now, out))
    }
}

impl Subject for ScoreNode {
    fn is_idle(&self) -> bool {
        ScoreNode::is_idle(self)
    }

    fn store(&self) -> &Store {
        ScoreNode::store(self)
    }

    fn describe(message: &score::Message) -> String {
        variant(message)
    }

    fn restart(&self, empty: &Self, now: Ticks, out: &mut Outbox<Self::Message>) -> Option<Self> {
        Some(restarted(self, empty, now, out))
    }
}

fn name(transaction: &anabranch_protocol::TransactionId) -> String {
    format!("client {}", transaction.sequence)
}

/// The name of an enum's variant, and the client of the message.
fn variant(message: &impl fmt::Debug) -> String {
    let text = format!("{message:?}");
    let end = text.find([' ', '(', '{']).unwrap_or(text.len());
    let client = text.split_once("sequence: ").map(|(_, rest)| {
        let digits = rest.find(|c: char| !c.is_ascii_digit());
        format!(" for client {}", &rest[..digits.unwrap_or(rest.len())])
    });
    format!("{}{}", &text[..end], client.unwrap_or_default())
}

/// A RAMP node with a planted bug: it receives no sibling metadata, so its reads have no second round. The models
/// have to find the violation.
#[derive(Clone, Debug)]
pub struct NoSecondRound(pub RampNode);

impl Protocol for NoSecondRound {
    type Message = Stamped;

    fn step(&mut self, now: Ticks, mut input: Input<Stamped>, out: &mut Outbox<Stamped>) {
        if let Input::Message { message, .. } = &mut input
            && let Message::Got {
                result:
                    Ok(Got {
                        metadata: Some(found),
                        ..
                    }),
                ..
            } = &mut message.message
        {
            found.siblings.clear();
        }
        self.0.step(now, input, out);
    }

    fn observe(&mut self, probe: ActivityProbe) {
        self.0.observe(probe);
    }

    fn counters(&self) -> &Counters {
        self.0.counters()
    }

    fn check_invariants(&self) -> Result<(), String> {
        self.0.check_invariants()
    }
}

impl Subject for NoSecondRound {
    fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    fn store(&self) -> &Store {
        self.0.store()
    }

    fn describe(message: &Stamped) -> String {
        RampNode::describe(message)
    }
}
