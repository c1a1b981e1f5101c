//! Space-time diagrams of a window of a run: a line for each site, an arrow for each message.
//!
//! They look like the diagrams of the papers (ramp.txt, Figure 2): time goes to the right, and an arrow
//! has its message's label. Transactions have short names, T1, T2 and so on in the order in which they
//! occur in the window; a list below describes them. Bars above a site's line are running calls. Dots on
//! it are installations: the transaction is visible there from then on. Bars of another colour are
//! faults: those of a site on its line, those of the network at the top.
//!
//! Without an explicit window the diagram shows the first violation; else the first race, from the first
//! messages of both transactions to the answer to the second-round read; else the first calls.

mod label;
mod layout;
mod picture;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_engine::{AttemptOutcome, AttemptRecord, CallId};
use anabranch_protocol::TransactionId;
use anabranch_sql::expression::text::literal;
use anabranch_storage::Installed;
use anabranch_types::{Fetched, Schema, Ticks, Timestamp};

use crate::fault::Fault;
pub use label::Label;
use label::MessageKind;

/// The number of messages, of calls and of attempts that are recorded. Later ones are not drawn.
const KEPT_MAX: usize = 200_000;

/// The number of messages in a window that is not explicit. If a race has more in its window, only its own messages are
/// drawn.
const MESSAGES_MAX: usize = 40;

/// The number of calls in a window without a violation or a race.
const CALLS_SHOWN: usize = 8;

/// The time before a race's second-round read is at most so many times the time to its answer.
const BEFORE_MAX: u64 = 4;

/// Records a run for a diagram.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    messages: Vec<Message>,
    /// The messages in flight of each link, oldest first.
    in_flight: BTreeMap<(u16, u16), VecDeque<usize>>,
    calls: Vec<Call>,
    attempts: BTreeMap<TransactionId, Attempt>,
    /// The transactions of prepare and commit timestamps.
    transactions: BTreeMap<Timestamp, TransactionId>,
    installations: Vec<Installation>,
    /// The number of installations that were recorded of each host's store.
    recorded: BTreeMap<u16, usize>,
    /// The time of the first violation.
    violation: Option<Ticks>,
}

/// The part of a run that a diagram shows.
#[derive(Clone, Debug)]
struct Window {
    from: Ticks,
    to: Ticks,
    /// If present: only messages of these transactions.
    only: Option<BTreeSet<TransactionId>>,
}

impl Window {
    /// A window with a margin on both sides.
    fn around(from: Ticks, to: Ticks) -> Window {
        let margin = to.since(from).0 / 20 + 1_000;
        Window {
            from: Ticks(from.0.saturating_sub(margin)),
            to: Ticks(to.0 + margin),
            only: None,
        }
    }

    /// Whether it contains a part of this time.
    fn overlaps(&self, began: Ticks, ended: Option<Ticks>) -> bool {
        began <= self.to && ended.is_none_or(|ended| ended >= self.from)
    }
}

#[derive(Clone, Debug)]
struct Message {
    from: u16,
    to: u16,
    sent: Ticks,
    received: Option<Ticks>,
    /// Whether its sender or receiver crashed meanwhile.
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

/// An attempt that has ended.
#[derive(Clone, Debug)]
struct Attempt {
    call: CallId,
    number: u32,
    /// Its commit timestamp, or the reason why it has none.
    outcome: Result<Timestamp, String>,
    /// The versions that it has read, oldest first.
    read: Vec<Timestamp>,
}

/// The installation of a transaction's versions at a site.
#[derive(Clone, Debug)]
struct Installation {
    node: u16,
    at: Ticks,
    timestamp: Timestamp,
    items: Vec<String>,
}

/// The settings of a diagram.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its title.
    pub title: &'a str,
    /// The number of sites.
    pub nodes: u16,
    /// The run's faults.
    pub faults: &'a [Fault],
    /// The window, if it is explicit.
    pub window: Option<(Ticks, Ticks)>,
}

impl Recorder {
    pub(crate) fn sent(&mut self, from: u16, to: u16, sent: Ticks, label: Label) {
        if self.messages.len() >= KEPT_MAX {
            return;
        }
        if let (Some(prepared), Some(transaction)) = (label.prepared, label.transaction) {
            self.transactions.entry(prepared).or_insert(transaction);
        }
        let waiting = self.in_flight.entry((from, to)).or_default();
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
        let waiting = self.in_flight.get_mut(&(from, to));
        if let Some(oldest) = waiting.and_then(VecDeque::pop_front) {
            self.messages[oldest].received = Some(at);
        }
    }

    /// A node has crashed: messages in flight from it and to it are lost.
    pub(crate) fn crashed(&mut self, node: u16) {
        let of_it = |(from, to): &(u16, u16)| *from == node || *to == node;
        for (_, lost) in self.in_flight.iter().filter(|(link, _)| of_it(link)) {
            for message in lost {
                self.messages[*message].lost = true;
            }
        }
        self.in_flight.retain(|link, _| !of_it(link));
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
                self.transactions.insert(*timestamp, record.transaction);
                Ok(*timestamp)
            }
            AttemptOutcome::Aborted(reason) => {
                Err(format!("aborted: {}", reason.name().replace('_', " ")))
            }
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

    /// Records the new installations of a host's store. `installed` has all of this incarnation.
    pub(crate) fn installed(
        &mut self,
        host: u16,
        node: u16,
        at: Ticks,
        installed: &[Installed],
        schema: &Schema,
    ) {
        let recorded = self.recorded.entry(host).or_insert(0);
        // A restarted node begins with installations that were recorded before.
        let new = installed.get(*recorded..).unwrap_or_default();
        *recorded = installed.len();
        if self.installations.len() >= KEPT_MAX {
            return;
        }
        self.installations.extend(new.iter().map(|one| {
            Installation {
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

    /// A message's transaction, if it is known.
    fn transaction_of(&self, message: &Message) -> Option<TransactionId> {
        let prepared = message.label.prepared;
        let owner = prepared.and_then(|prepared| self.transactions.get(&prepared).copied());
        message.label.transaction.or(owner)
    }

    /// A violation was found.
    pub(crate) fn violated(&mut self, at: Ticks) {
        self.violation.get_or_insert(at);
    }

    /// The window of a diagram without an explicit one.
    fn default_window(&self) -> Window {
        let demand = (self.messages.iter()).position(|m| m.label.kind == MessageKind::Demand);
        match (self.violation, demand) {
            (Some(at), _) => self.before_violation(at),
            (None, Some(demand)) => self.race(demand),
            (None, None) => self.first_calls(),
        }
    }

    /// The messages before a violation.
    fn before_violation(&self, at: Ticks) -> Window {
        let sent = self.messages.partition_point(|message| message.sent <= at);
        let first = self.messages.get(sent.saturating_sub(MESSAGES_MAX));
        Window::around(first.map_or(Ticks(0), |message| message.sent.min(at)), at)
    }

    /// A race: from the first message of the reader and of the transaction that it demands, to the answer.
    fn race(&self, demand: usize) -> Window {
        let rest = &self.messages[demand..];
        let demand = &rest[0];
        let demanded =
            (demand.label.demands).and_then(|stamp| self.transactions.get(&stamp).copied());
        let both: BTreeSet<TransactionId> = [self.transaction_of(demand), demanded]
            .into_iter()
            .flatten()
            .collect();
        let is_answer = |m: &&Message| {
            (m.from, m.to) == (demand.to, demand.from)
                && demand.received.is_some_and(|received| m.sent >= received)
                && self.transaction_of(m) == self.transaction_of(demand)
        };
        let answer = rest.iter().find(is_answer).and_then(|m| m.received);
        let to = answer.or(demand.received).unwrap_or(demand.sent);
        let of_both = |m: &&Message| self.transaction_of(m).is_some_and(|of| both.contains(&of));
        let first = self.messages.iter().find(of_both);
        let long = to.since(demand.sent).0.saturating_mul(BEFORE_MAX);
        let from = first.map_or(demand.sent, |m| m.sent.min(demand.sent));
        let from = from.max(Ticks(demand.sent.0.saturating_sub(long)));
        let mut window = Window::around(from, to);
        let inside = (self.messages.iter()).filter(|m| window.overlaps(m.sent, m.received));
        if inside.count() > MESSAGES_MAX {
            window.only = Some(both);
        }
        window
    }

    /// The first calls, with not too many messages.
    fn first_calls(&self) -> Window {
        let mut calls: Vec<&Call> = self.calls.iter().collect();
        calls.sort_by_key(|call| call.began);
        let Some(first) = calls.first() else {
            let sent = |message: Option<&Message>| message.map_or(Ticks(0), |m| m.sent);
            let last = self.messages.get(MESSAGES_MAX).or(self.messages.last());
            return Window::around(sent(self.messages.first()), sent(last));
        };
        let views = (1..=calls.len().min(CALLS_SHOWN)).rev().map(|count| {
            let ends = calls[..count]
                .iter()
                .map(|call| call.ended.unwrap_or(call.began));
            Window::around(first.began, ends.max().unwrap_or(first.began))
        });
        let mut views = views.peekable();
        let mut view = views.peek().cloned();
        for smaller in views {
            let inside = (self.messages.iter()).filter(|m| smaller.overlaps(m.sent, m.received));
            let enough = inside.count() <= MESSAGES_MAX;
            view = Some(smaller);
            if enough {
                break;
            }
        }
        view.unwrap_or_else(|| Window::around(first.began, first.began))
    }

    /// Draws the diagram.
    pub fn draw(&self, frame: &Frame<'_>) -> Diagram {
        let explicit = frame.window.map(|(from, to)| Window {
            from,
            to,
            only: None,
        });
        picture::draw(
            self,
            frame,
            &explicit.unwrap_or_else(|| self.default_window()),
        )
    }
}

/// A drawn diagram.
#[derive(Clone, Debug)]
pub struct Diagram {
    /// An SVG file's text.
    pub svg: String,
    /// Its window.
    pub window: (Ticks, Ticks),
    /// Whether nothing happened in the window.
    pub is_empty: bool,
}

#[cfg(test)]
mod tests;
