//! Append-only lists: a read reveals its version and all earlier ones.
//!
//! The longest list read of a key is its version order, and every other read must be a prefix of it (Elle:
//! traceability). Appends that no transaction read come after the ones that were read, in no known order. Elements
//! must be unique for each key.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Call, Found, MicroOp, Notes, assemble, contradiction, item, keep_operations};
use crate::error::{HistoryError, Problem};
use crate::graph::Dependency;
use crate::history::{DirectAnomalyKind, History};
use crate::numbers::TransactionNumber;
use crate::record::{Operation, Outcome, Read, VersionName, Write, WriteKind};

/// The append of an element.
#[derive(Clone, Copy)]
struct Element {
    call: usize,
    /// The number among the call's appends to the key, from 1.
    ordinal: u32,
    last: bool,
}

/// Elements by key.
type Elements<'c> = FxHashMap<&'c str, FxHashMap<&'c str, Element>>;

/// A read of the state left by other transactions (an external read).
struct ExternalRead<'c> {
    call: usize,
    step: usize,
    key: &'c str,
    list: &'c [String],
}

/// Infers a history from lists.
pub(super) fn infer(calls: &[Call]) -> Result<History, HistoryError> {
    let elements = elements(calls)?;
    let mut notes = Notes::default();
    let mut reads = external_reads(calls, &elements, &mut notes)?;
    let longest = longest(&reads);
    reads.retain(|read| {
        let (other, list) = longest[read.key];
        let fits = list.starts_with(read.list);
        if !fits {
            notes.add(
                DirectAnomalyKind::IncompatibleOrder,
                read.call,
                read.key,
                Some(other),
            );
        }
        fits
    });
    let mut inference = Inference {
        calls,
        elements,
        longest,
        committed: Vec::new(),
    };
    inference.committed = inference.committed(&reads);
    let mut history = inference.history(&reads)?;
    inference.add_edges(&reads, &mut history);
    notes.into_history(&mut history);
    keep_operations(&mut history, calls);
    Ok(history)
}

fn elements(calls: &[Call]) -> Result<Elements<'_>, HistoryError> {
    let mut elements: Elements<'_> = FxHashMap::default();
    for (number, call) in calls.iter().enumerate() {
        let mut last: FxHashMap<&str, (&str, u32)> = FxHashMap::default();
        for step in &call.steps {
            let MicroOp::Append { key, element } = step else {
                continue;
            };
            let ordinal = last.get(key.as_str()).map_or(1, |(_, ordinal)| ordinal + 1);
            if let Some((before, _)) = last.insert(key, (element, ordinal)) {
                let known = elements
                    .get_mut(key.as_str())
                    .and_then(|of| of.get_mut(before));
                known.expect("it was appended").last = false;
            }
            let new = Element {
                call: number,
                ordinal,
                last: true,
            };
            if elements
                .entry(key)
                .or_default()
                .insert(element, new)
                .is_some()
            {
                return Err(contradiction(
                    call.line,
                    format!(
                        "{} appends {element} to {}, which has been appended before; nothing can \
                         be inferred from elements that are not unique",
                        call.name,
                        item(key)
                    ),
                ));
            }
        }
    }
    Ok(elements)
}

/// The external reads of committed transactions.
fn external_reads<'c>(
    calls: &'c [Call],
    elements: &Elements<'c>,
    notes: &mut Notes,
) -> Result<Vec<ExternalRead<'c>>, HistoryError> {
    let mut reads = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        if call.outcome != Outcome::Committed {
            continue;
        }
        let mut own: FxHashMap<&str, Vec<&str>> = FxHashMap::default();
        for (place, step) in call.steps.iter().enumerate() {
            let (key, list) = match step {
                MicroOp::Append { key, element } => {
                    own.entry(key).or_default().push(element);
                    continue;
                }
                MicroOp::Read { key, found: None } => (key, &[][..]),
                MicroOp::Read {
                    key,
                    found: Some(Found::List(list)),
                } => (key, &list[..]),
                _ => {
                    return Err(HistoryError {
                        line: call.line,
                        problem: Problem::Invalid(format!("\"{step}\" reads no list")),
                    });
                }
            };
            let own = own.get(key.as_str()).map_or(&[][..], Vec::as_slice);
            let Some(before) = without_end(list, own) else {
                notes.add(DirectAnomalyKind::Internal, number, key, None);
                continue;
            };
            let read = ExternalRead {
                call: number,
                step: place,
                key,
                list: before,
            };
            if check_element(&read, call, calls, elements, notes)? {
                reads.push(read);
            }
        }
    }
    Ok(reads)
}

/// The list without the reader's own elements at its end; `None` if they are missing.
fn without_end<'l>(list: &'l [String], own: &[&str]) -> Option<&'l [String]> {
    let before = list.len().checked_sub(own.len())?;
    let same = list[before..]
        .iter()
        .zip(own)
        .all(|(found, own)| found == own);
    same.then_some(&list[..before])
}

/// Checks each element of a list. Returns whether the list determines an order.
fn check_element(
    read: &ExternalRead<'_>,
    call: &Call,
    calls: &[Call],
    elements: &Elements<'_>,
    notes: &mut Notes,
) -> Result<bool, HistoryError> {
    let mut seen: FxHashSet<&str> = FxHashSet::default();
    let mut aborted = None;
    for element in read.list {
        let known = elements
            .get(read.key)
            .and_then(|of| of.get(element.as_str()));
        let Some(known) = known else {
            return Err(contradiction(
                call.line,
                format!(
                    "{} read {element} in {}, which no transaction appended",
                    call.name,
                    item(read.key)
                ),
            ));
        };
        if !seen.insert(element) {
            notes.add(
                DirectAnomalyKind::DuplicateElement,
                read.call,
                read.key,
                Some(known.call),
            );
            return Ok(false);
        }
        if known.call == read.call {
            notes.add(DirectAnomalyKind::Internal, read.call, read.key, None);
            return Ok(false);
        }
        if calls[known.call].is_aborted() && aborted.is_none() {
            aborted = Some(known.call);
            notes.add(
                DirectAnomalyKind::AbortedRead,
                read.call,
                read.key,
                Some(known.call),
            );
        }
    }
    Ok(true)
}

/// The longest list read of each key, and its first reader.
fn longest<'c>(reads: &[ExternalRead<'c>]) -> BTreeMap<&'c str, (usize, &'c [String])> {
    let mut longest: BTreeMap<&str, (usize, &[String])> = BTreeMap::new();
    for read in reads {
        let known = longest.entry(read.key).or_insert((read.call, read.list));
        if known.1.len() < read.list.len() {
            *known = (read.call, read.list);
        }
    }
    longest
}

struct Inference<'c> {
    calls: &'c [Call],
    elements: Elements<'c>,
    longest: BTreeMap<&'c str, (usize, &'c [String])>,
    /// By call.
    committed: Vec<bool>,
}

impl<'c> Inference<'c> {
    fn element(&self, key: &str, element: &str) -> Element {
        self.elements[key][element]
    }

    /// Marks calls as committed: `:ok`, or unknown and read.
    fn committed(&self, reads: &[ExternalRead<'c>]) -> Vec<bool> {
        let is_ok = |call: &Call| call.outcome == Outcome::Committed;
        let mut committed: Vec<bool> = self.calls.iter().map(is_ok).collect();
        for read in reads {
            for element in read.list {
                let writer = self.element(read.key, element).call;
                committed[writer] |= !self.calls[writer].is_aborted();
            }
        }
        committed
    }

    /// A key's elements in the order read, without those of aborted transactions.
    fn trace(&self, key: &str) -> Vec<Element> {
        let list = self.longest.get(key).map_or(&[][..], |(_, list)| list);
        let elements = list.iter().map(|element| self.element(key, element));
        elements
            .filter(|element| self.committed[element.call])
            .collect()
    }

    fn history(&self, reads: &[ExternalRead<'c>]) -> Result<History, HistoryError> {
        let mut orders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut unread: FxHashMap<(&str, usize), bool> = FxHashMap::default();
        for key in self
            .calls
            .iter()
            .flat_map(|call| &call.steps)
            .map(MicroOp::key)
        {
            if orders.contains_key(key) {
                continue;
            }
            let trace = self.trace(key);
            let finals = trace.iter().filter(|element| element.last);
            let mut order: Vec<usize> = finals.map(|element| element.call).collect();
            let known: FxHashSet<usize> = order.iter().copied().collect();
            // tidy: order-free because it is sorted below.
            let all = self
                .elements
                .get(key)
                .into_iter()
                .flat_map(FxHashMap::values);
            let mut others: Vec<usize> = all
                .filter(|e| e.last && self.committed[e.call] && !known.contains(&e.call))
                .map(|element| element.call)
                .collect();
            others.sort_unstable();
            for call in &others {
                unread.insert((key, *call), others.len() > 1);
            }
            order.extend(others);
            orders.insert(key, order);
        }
        let mut reads = reads.iter().peekable();
        let operation = |(call, place): (usize, usize), step: &'c MicroOp| {
            if let Some(read) = reads.next_if(|read| (read.call, read.step) == (call, place)) {
                return Some(self.read(read));
            }
            let MicroOp::Append { key, .. } = step else {
                return None;
            };
            let several = unread.get(&(key.as_str(), call)) == Some(&true);
            Some(Operation::Write(Write {
                item: item(key),
                // The order of unread appends is not known: they commute.
                kind: match several {
                    true => WriteKind::Increment,
                    false => WriteKind::Append,
                },
                ..Write::default()
            }))
        };
        let (calls, committed) = (self.calls, &self.committed);
        assemble("list-append", calls, committed, operation, orders)
    }

    /// The version is that of the last element by a committed transaction.
    fn read(&self, read: &ExternalRead<'c>) -> Operation {
        let elements = read.list.iter().rev().map(|e| self.element(read.key, e));
        let mut committed = elements.filter(|element| self.committed[element.call]);
        Operation::Read(Read {
            item: item(read.key),
            version: committed.next().map(|element| VersionName {
                writer: self.calls[element.call].name.clone(),
                ordinal: Some(element.ordinal),
            }),
            ..Read::default()
        })
    }

    /// Adds the dependencies of elements that are not their writer's last: writes between which other transactions
    /// wrote.
    fn add_edges(&self, reads: &[ExternalRead<'c>], history: &mut History) {
        for key in self.longest.keys() {
            let Some(item) = history.items.find(&item(key)) else {
                continue;
            };
            for pair in self.trace(key).windows(2) {
                if pair[0].call != pair[1].call && !(pair[0].last && pair[1].last) {
                    let (from, to) = (pair[0].call, pair[1].call);
                    let edge = (from as u32, to as u32, Dependency::WriteWrite, item);
                    history.inferred.push(edge);
                }
            }
        }
        for read in reads {
            let (_, list) = self.longest[read.key];
            let elements = list[read.list.len()..]
                .iter()
                .map(|e| self.element(read.key, e));
            let next = elements
                .take_while(|element| element.call != read.call)
                .find(|element| self.committed[element.call]);
            if let (Some(next), Some(item)) = (next, history.items.find(&item(read.key)))
                && !next.last
            {
                let (from, to) = (
                    read.call as TransactionNumber,
                    next.call as TransactionNumber,
                );
                history
                    .inferred
                    .push((from, to, Dependency::ReadWrite, item));
            }
        }
    }
}
