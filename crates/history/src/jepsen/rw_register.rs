//! Registers: a read tells its version, and nothing tells the order of versions but transactions
//! that read one before they wrote another.
//!
//! nil comes before every other version of a key. A version that its writer wrote after reading
//! another one comes after that one (Elle: writes follow reads). So versions form a forest,
//! and what lies in different branches is not ordered: [`crate::inferred`] draws the graph of it.
//! Values must be unique for each key.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Call, Found, MicroOp, Notes, assemble, contradiction, item, keep_words};
use crate::error::{HistoryError, Problem};
use crate::history::{DirectKind, History, Position};
use crate::inferred::Forest;
use crate::record::{Operation, Outcome, Read, VersionName, Write};

/// Who wrote a value.
#[derive(Clone, Copy)]
struct Written {
    call: usize,
    /// Counted from 1 among the call's writes of the key.
    ordinal: u32,
}

/// A read of what others left: nothing is nil.
struct Outside<'c> {
    call: usize,
    step: usize,
    key: &'c str,
    version: Option<Written>,
}

/// Infers a history from registers.
pub(super) fn infer(calls: &[Call]) -> Result<History, HistoryError> {
    let written = written(calls)?;
    let mut notes = Notes::default();
    let reads = outside_reads(calls, &written, &mut notes)?;
    let mut committed: Vec<bool> = calls
        .iter()
        .map(|call| call.outcome == Outcome::Committed)
        .collect();
    for version in reads.iter().filter_map(|read| read.version) {
        committed[version.call] |= !calls[version.call].is_aborted();
    }
    let branches = branches(calls, &committed, &reads);
    let mut reads = reads.iter().peekable();
    let operation = |(call, place): (usize, usize), step: &MicroOp| {
        if let Some(read) = reads.next_if(|read| (read.call, read.step) == (call, place)) {
            return Some(Operation::Read(Read {
                item: item(read.key),
                version: read.version.map(|version| VersionName {
                    writer: calls[version.call].name.clone(),
                    ordinal: Some(version.ordinal),
                }),
                ..Read::default()
            }));
        }
        let MicroOp::Write { key, .. } = step else {
            return None;
        };
        Some(Operation::Write(Write {
            item: item(key),
            ..Write::default()
        }))
    };
    let writers = |branch: &[(usize, Position)]| branch.iter().map(|(call, _)| *call).collect();
    let orders = branches.iter().map(|(key, branch)| (*key, writers(branch)));
    let mut history = assemble("rw-register", calls, &committed, operation, orders)?;
    let mut forest = Forest::default();
    for (key, branch) in branches {
        if let Some(number) = history.items.find(&item(key)) {
            let parents = branch.into_iter().map(|(_, parent)| parent).collect();
            forest.parents.insert(number, parents);
        }
    }
    history.forest = Some(forest);
    notes.into_history(&mut history);
    keep_words(&mut history, calls);
    Ok(history)
}

fn written(calls: &[Call]) -> Result<FxHashMap<(&str, &str), Written>, HistoryError> {
    let mut written = FxHashMap::default();
    for (number, call) in calls.iter().enumerate() {
        let mut ordinals: FxHashMap<&str, u32> = FxHashMap::default();
        for step in &call.steps {
            let MicroOp::Write { key, value } = step else {
                continue;
            };
            let ordinal = ordinals.entry(key).or_default();
            *ordinal += 1;
            let new = Written {
                call: number,
                ordinal: *ordinal,
            };
            if written
                .insert((key.as_str(), value.as_str()), new)
                .is_some()
            {
                return Err(contradiction(
                    call.line,
                    format!(
                        "{} writes {value} to {}, which has been written before; nothing can be \
                         inferred from values that are not unique",
                        call.name,
                        item(key)
                    ),
                ));
            }
        }
    }
    Ok(written)
}

/// What committed transactions read of others' writes.
fn outside_reads<'c>(
    calls: &'c [Call],
    written: &FxHashMap<(&str, &str), Written>,
    notes: &mut Notes,
) -> Result<Vec<Outside<'c>>, HistoryError> {
    let mut reads = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        if call.outcome != Outcome::Committed {
            continue;
        }
        let mut own: FxHashMap<&str, &str> = FxHashMap::default();
        for (place, step) in call.steps.iter().enumerate() {
            let (key, value) = match step {
                MicroOp::Write { key, value } => {
                    own.insert(key, value);
                    continue;
                }
                MicroOp::Read { key, found: None } => (key, None),
                MicroOp::Read {
                    key,
                    found: Some(Found::Value(value)),
                } => (key, Some(value)),
                _ => {
                    return Err(HistoryError {
                        line: call.line,
                        problem: Problem::Invalid(format!("\"{step}\" reads no register")),
                    });
                }
            };
            if let Some(own) = own.get(key.as_str()) {
                if value.is_none_or(|value| value != own) {
                    notes.add(DirectKind::Internal, number, key, None);
                }
                continue;
            }
            let version = match value {
                None => None,
                Some(value) => Some(written.get(&(key.as_str(), value.as_str())).ok_or_else(
                    || {
                        let (name, item) = (&call.name, item(key));
                        contradiction(
                            call.line,
                            format!("{name} read {value} in {item}, which nobody wrote"),
                        )
                    },
                )?),
            };
            if version.is_some_and(|version| version.call == number) {
                notes.add(DirectKind::Internal, number, key, None);
                continue;
            }
            reads.push(Outside {
                call: number,
                step: place,
                key,
                version: version.copied(),
            });
        }
    }
    Ok(reads)
}

/// For each key its committed writers, each behind the one whose version it had read: the writer,
/// and the position of that version; 0 is nil, and where nothing is known.
fn branches<'c>(
    calls: &'c [Call],
    committed: &[bool],
    reads: &[Outside<'c>],
) -> BTreeMap<&'c str, Vec<(usize, Position)>> {
    let mut before: FxHashMap<(&str, usize), usize> = FxHashMap::default();
    for read in reads {
        if let Some(version) = read.version.filter(|version| committed[version.call]) {
            before.entry((read.key, read.call)).or_insert(version.call);
        }
    }
    let mut writers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, call) in calls
        .iter()
        .enumerate()
        .filter(|(number, _)| committed[*number])
    {
        for step in &call.steps {
            if let MicroOp::Write { key, .. } = step {
                let writers = writers.entry(key).or_default();
                if writers.last() != Some(&number) {
                    writers.push(number);
                }
            }
        }
    }
    let sort = |(key, writers): (&'c str, Vec<usize>)| {
        let mut placed: FxHashMap<usize, Position> = FxHashMap::default();
        let mut branch = Vec::with_capacity(writers.len());
        for writer in writers {
            // From the writer back to the first that has a place; then forward again.
            let mut path = vec![writer];
            while let Some(last) = path.last()
                && !placed.contains_key(last)
                && let Some(earlier) = before.get(&(key, *last))
                && !path.contains(earlier)
            {
                path.push(*earlier);
            }
            for call in path.into_iter().rev() {
                if placed.contains_key(&call) {
                    continue;
                }
                let parent = before
                    .get(&(key, call))
                    .and_then(|earlier| placed.get(earlier));
                branch.push((call, parent.copied().unwrap_or(0)));
                placed.insert(call, branch.len() as Position);
            }
        }
        (key, branch)
    };
    writers.into_iter().map(sort).collect()
}
