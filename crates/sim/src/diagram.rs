//! Space-time diagrams of a window of a run: a line a site, an arrow a message.
//!
//! Drawn as the papers draw by hand (ramp.txt, Figure 2): time goes to the right, and what a message
//! says stands along its arrow. Transactions have short names, T1, T2 and so on in the order in which
//! the window meets them; a list below says what each was. Bars above a site's line are calls that
//! clients wait for, dots on it are transactions whose versions are shown there from then on. Faults
//! that are on have bars of their own: those of a site on its line, those of the network at the top.
//!
//! The window is where it is asked for. Where it is not: around what was found wrong first; else the first
//! race, from the first messages of both to the answer to the read that demands what the race would hide;
//! else the first calls.

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
use label::Sense;

/// Messages that are kept, and calls, and attempts; what comes later is not drawn.
const KEPT_MAX: usize = 200_000;

/// Messages that a window shows that was not asked for; of a race that is more crowded, its own alone.
const SHOWN_MAX: usize = 40;

/// Calls that are shown where nothing else says what to show.
const CALLS_SHOWN: usize = 8;

/// How much longer than from a demand to its answer the time before it is that is shown.
const BEFORE_MAX: u64 = 4;

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
    /// When something was found wrong first.
    wrong: Option<Ticks>,
}

/// The part of a run that a picture shows.
#[derive(Clone, Debug)]
struct View {
    from: Ticks,
    to: Ticks,
    /// Messages of these alone.
    only: Option<BTreeSet<TransactionId>>,
}

impl View {
    /// With some room on both sides.
    fn around(from: Ticks, to: Ticks) -> View {
        let margin = to.since(from).0 / 20 + 1_000;
        View {
            from: Ticks(from.0.saturating_sub(margin)),
            to: Ticks(to.0 + margin),
            only: None,
        }
    }

    /// Whether something that lasts so long is in it.
    fn has(&self, began: Ticks, ended: Option<Ticks>) -> bool {
        began <= self.to && ended.is_none_or(|ended| ended >= self.from)
    }
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
    /// From when to when, if that is asked for.
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

    /// Something was found wrong.
    pub(crate) fn found_wrong(&mut self, at: Ticks) {
        self.wrong.get_or_insert(at);
    }

    /// What to draw where nothing is asked for.
    fn view(&self) -> View {
        let demand = (self.messages.iter()).position(|m| m.label.sense == Sense::Demand);
        match (self.wrong, demand) {
            (Some(at), _) => self.before(at),
            (None, Some(demand)) => self.race(demand),
            (None, None) => self.beginning(),
        }
    }

    /// What led to something that is wrong.
    fn before(&self, at: Ticks) -> View {
        let sent = self.messages.partition_point(|message| message.sent <= at);
        let first = self.messages.get(sent.saturating_sub(SHOWN_MAX));
        View::around(first.map_or(Ticks(0), |message| message.sent.min(at)), at)
    }

    /// From the first messages of a read that demands a transaction, and of that one, to the answer.
    fn race(&self, demand: usize) -> View {
        let rest = &self.messages[demand..];
        let demand = &rest[0];
        let demanded = (demand.label.demands).and_then(|stamp| self.owners.get(&stamp).copied());
        let both: BTreeSet<TransactionId> = [self.whose(demand), demanded]
            .into_iter()
            .flatten()
            .collect();
        let is_answer = |m: &&Message| {
            (m.from, m.to) == (demand.to, demand.from)
                && demand.received.is_some_and(|received| m.sent >= received)
                && self.whose(m) == self.whose(demand)
        };
        let answer = rest.iter().find(is_answer).and_then(|m| m.received);
        let to = answer.or(demand.received).unwrap_or(demand.sent);
        let of_both = |m: &&Message| self.whose(m).is_some_and(|whose| both.contains(&whose));
        let first = self.messages.iter().find(of_both);
        let long = to.since(demand.sent).0.saturating_mul(BEFORE_MAX);
        let from = first.map_or(demand.sent, |m| m.sent.min(demand.sent));
        let from = from.max(Ticks(demand.sent.0.saturating_sub(long)));
        let mut view = View::around(from, to);
        let shown = (self.messages.iter()).filter(|m| view.has(m.sent, m.received));
        if shown.count() > SHOWN_MAX {
            view.only = Some(both);
        }
        view
    }

    /// The first calls, as many as can be shown well.
    fn beginning(&self) -> View {
        let mut calls: Vec<&Call> = self.calls.iter().collect();
        calls.sort_by_key(|call| call.began);
        let Some(first) = calls.first() else {
            let sent = |message: Option<&Message>| message.map_or(Ticks(0), |m| m.sent);
            let last = self.messages.get(SHOWN_MAX).or(self.messages.last());
            return View::around(sent(self.messages.first()), sent(last));
        };
        let views = (1..=calls.len().min(CALLS_SHOWN)).rev().map(|count| {
            let ends = calls[..count]
                .iter()
                .map(|call| call.ended.unwrap_or(call.began));
            View::around(first.began, ends.max().unwrap_or(first.began))
        });
        let mut views = views.peekable();
        let mut view = views.peek().cloned();
        for smaller in views {
            let shown = (self.messages.iter()).filter(|m| smaller.has(m.sent, m.received));
            let enough = shown.count() <= SHOWN_MAX;
            view = Some(smaller);
            if enough {
                break;
            }
        }
        view.unwrap_or_else(|| View::around(first.began, first.began))
    }

    /// The diagram.
    pub fn draw(&self, frame: &Frame<'_>) -> Diagram {
        let asked = frame.window.map(|(from, to)| View {
            from,
            to,
            only: None,
        });
        picture::draw(self, frame, &asked.unwrap_or_else(|| self.view()))
    }
}

/// A diagram that was drawn.
#[derive(Clone, Debug)]
pub struct Diagram {
    /// An SVG file's text.
    pub svg: String,
    /// From when to when.
    pub window: (Ticks, Ticks),
    /// Whether nothing at all happened then.
    pub is_empty: bool,
}

#[cfg(test)]
mod tests;
