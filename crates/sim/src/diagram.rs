//! Space-time diagrams of a window of a run: a line a site, an arrow a message.
//!
//! Drawn as the papers draw by hand (ramp.txt, Figure 2): time goes to the right, and what a message
//! says stands along its arrow. Transactions have short names, T1, T2 and so on in the order in which
//! the window meets them; a list below says what each was. Bars above a site's line are calls that
//! clients wait for, dots on it are transactions whose versions are shown there from then on. Faults
//! that are on have bars of their own: those of a site on its line, those of the network at the top.
//!
//! The window is around the first read that demands a transaction which a race would hide, in whichever
//! round it is asked, where there is one; or where it is asked for.

mod label;
mod layout;
mod picture;

use std::collections::{BTreeMap, VecDeque};

use anabranch_engine::{AttemptOutcome, AttemptRecord, CallId};
use anabranch_protocol::TransactionId;
use anabranch_sql::expression::text::literal;
use anabranch_storage::Installed;
use anabranch_types::{Fetched, Schema, Ticks, Timestamp};

use crate::fault::Fault;
pub use label::Label;
use label::Sense;

/// Messages that are kept, and calls, and attempts; what comes later is not drawn.
const KEPT_MAX: usize = 200_000;

/// Messages that a window shows that was not asked for.
const SHOWN_MAX: usize = 28;

/// Looks on while a run goes, for a diagram.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    messages: Vec<Message>,
    /// By link: messages that have not arrived, oldest first.
    travelling: BTreeMap<(u16, u16), VecDeque<usize>>,
    calls: Vec<Call>,
    attempts: BTreeMap<TransactionId, Attempt>,
    /// Which transaction a timestamp stands for: of those that were prepared, and of those that have
    /// committed.
    owners: BTreeMap<Timestamp, TransactionId>,
    shown: Vec<Shown>,
    /// By host: how much of what its store has installed was seen.
    seen: BTreeMap<u16, usize>,
}

#[derive(Clone, Debug)]
struct Message {
    from: u16,
    to: u16,
    sent: Ticks,
    received: Option<Ticks>,
    /// Whether its sender or receiver has died meanwhile.
    lost: bool,
    label: Label,
}

#[derive(Clone, Debug)]
struct Call {
    node: u16,
    id: CallId,
    began: Ticks,
    ended: Option<Ticks>,
    committed: bool,
    name: &'static str,
}

/// What is known of an attempt that has ended.
#[derive(Clone, Debug)]
struct Attempt {
    call: CallId,
    number: u32,
    /// Its commit timestamp, or why it has none.
    outcome: Result<Timestamp, String>,
    /// The versions that it has read, oldest first.
    read: Vec<Timestamp>,
}

/// A transaction's versions at a site, from when they are shown.
#[derive(Clone, Debug)]
struct Shown {
    node: u16,
    at: Ticks,
    timestamp: Timestamp,
    items: Vec<String>,
}

/// What a diagram is to show, beside what a recorder has seen.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What stands above it.
    pub title: &'a str,
    /// How many sites there are.
    pub nodes: u16,
    /// The run's faults.
    pub faults: &'a [Fault],
    /// From when to when; around the first race if nothing is said.
    pub window: Option<(Ticks, Ticks)>,
}

impl Recorder {
    pub(crate) fn sent(&mut self, from: u16, to: u16, sent: Ticks, label: Label) {
        if self.messages.len() >= KEPT_MAX {
            return;
        }
        if let (Some(prepared), Some(transaction)) = (label.prepared, label.transaction) {
            self.owners.entry(prepared).or_insert(transaction);
        }
        let waiting = self.travelling.entry((from, to)).or_default();
        waiting.push_back(self.messages.len());
        self.messages.push(Message {
            from,
            to,
            sent,
            received: None,
            lost: false,
            label,
        });
    }

    pub(crate) fn received(&mut self, from: u16, to: u16, at: Ticks) {
        let waiting = self.travelling.get_mut(&(from, to));
        if let Some(oldest) = waiting.and_then(VecDeque::pop_front) {
            self.messages[oldest].received = Some(at);
        }
    }

    /// A node has died: what travelled from it and to it may never arrive.
    pub(crate) fn died(&mut self, node: u16) {
        let of_it = |(from, to): &(u16, u16)| *from == node || *to == node;
        for (_, lost) in self.travelling.iter().filter(|(link, _)| of_it(link)) {
            for message in lost {
                self.messages[*message].lost = true;
            }
        }
        self.travelling.retain(|link, _| !of_it(link));
    }

    pub(crate) fn called(&mut self, node: u16, began: Ticks, id: CallId, name: &'static str) {
        if self.calls.len() < KEPT_MAX {
            self.calls.push(Call {
                node,
                id,
                began,
                ended: None,
                committed: false,
                name,
            });
        }
    }

    pub(crate) fn answered(&mut self, node: u16, at: Ticks, id: CallId, committed: bool) {
        let mut open = self.calls.iter_mut().rev();
        if let Some(call) = open.find(|call| call.node == node && call.id == id) {
            (call.ended, call.committed) = (Some(at), committed);
        }
    }

    /// An attempt has ended.
    pub(crate) fn ended(&mut self, record: &AttemptRecord) {
        if self.attempts.len() >= KEPT_MAX {
            return;
        }
        let outcome = match &record.outcome {
            AttemptOutcome::Committed(timestamp) => {
                self.owners.insert(*timestamp, record.transaction);
                Ok(*timestamp)
            }
            AttemptOutcome::Aborted(reason) => Err(format!("aborted: {}", reason.name())),
            AttemptOutcome::Open => Err("not ended".to_owned()),
        };
        let mut read: Vec<Timestamp> = (record.reads.iter())
            .filter_map(|read| match &read.fetched {
                Fetched::Recorded(recorded) => Some(&recorded.versions),
                _ => None,
            })
            .flatten()
            .copied()
            .collect();
        read.sort();
        read.dedup();
        let attempt = Attempt {
            call: record.call,
            number: record.attempt,
            outcome,
            read,
        };
        self.attempts.insert(record.transaction, attempt);
    }

    /// What a host's store has installed so far, in this life of its node.
    pub(crate) fn installed(
        &mut self,
        host: u16,
        node: u16,
        at: Ticks,
        installed: &[Installed],
        schema: &Schema,
    ) {
        let seen = self.seen.entry(host).or_insert(0);
        // What a node that has come back begins with was shown before.
        let new = installed.get(*seen..).unwrap_or_default();
        *seen = installed.len();
        if self.shown.len() >= KEPT_MAX {
            return;
        }
        self.shown.extend(new.iter().map(|one| {
            Shown {
                node,
                at,
                timestamp: one.timestamp,
                items: (one.changes.iter())
                    .map(|change| {
                        let table = schema.table(change.table);
                        match &change.row {
                            Some(row) => {
                                let key = table.primary_key.iter();
                                let key: Vec<String> = key
                                    .map(|column| literal(&row.get(&table.layout, *column)))
                                    .collect();
                                match key.is_empty() {
                                    true => table.name.clone(),
                                    false => format!("{}({})", table.name, key.join(", ")),
                                }
                            }
                            None => format!("{} (a row deleted)", table.name),
                        }
                    })
                    .collect(),
            }
        }));
    }

    /// Which transaction a message is of, if that can be told.
    fn whose(&self, message: &Message) -> Option<TransactionId> {
        let prepared = message.label.prepared;
        let owner = prepared.and_then(|prepared| self.owners.get(&prepared).copied());
        message.label.transaction.or(owner)
    }

    /// The window to draw where none is asked for: from and to.
    fn window(&self) -> (Ticks, Ticks) {
        let demanding = (self.messages.iter()).position(|m| m.label.sense == Sense::Demand);
        let first = demanding.unwrap_or(0).saturating_sub(SHOWN_MAX * 2 / 3);
        let last = (first + SHOWN_MAX).min(self.messages.len()).max(first + 1) - 1;
        match (self.messages.get(first), self.messages.get(last)) {
            (Some(first), Some(last)) => {
                let end = last.received.unwrap_or(last.sent);
                (first.sent, end.max(Ticks(first.sent.0 + 1_000)))
            }
            _ => (Ticks(0), Ticks::from_micros(1)),
        }
    }

    /// The diagram, as an SVG file's text.
    pub fn svg(&self, frame: &Frame<'_>) -> String {
        picture::svg(self, frame, frame.window.unwrap_or_else(|| self.window()))
    }
}

#[cfg(test)]
mod tests;
