//! Registers: a read reveals its version; only a transaction that reads one version and writes another orders the
//! two.
//!
//! nil precedes every other version of a key. A version follows the one that its writer had read (Elle: writes follow
//! reads). The versions form a forest, and different branches are unordered: [`crate::inferred`] builds its graph.
//! Values must be unique for each key.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Call, Found, MicroOp, Notes, assemble, contradiction, item, keep_operations};
use crate::error::{HistoryError, Problem};
use crate::forest::Forest;
use crate::history::{DirectAnomalyKind, History};
use crate::numbers::Position;
use crate::record::{Operation, Outcome, Read, VersionName, Write};

/// The write of a value.
#[derive(Clone, Copy)]
struct WrittenValue {
    call: usize,
    /// The number among the call's writes of the key, from 1.
    ordinal: u32,
}

/// A read of the state left by other transactions (an external read); `None` is nil.
struct ExternalRead<'c> {
    call: usize,
    step: usize,
    key: &'c str,
    version: Option<WrittenValue>,
}

/// Infers a history from registers.
pub(super) fn infer(calls: &[Call]) -> Result<History, HistoryError> {
    let written = written(calls)?;
    let mut notes = Notes::default();
    let reads = external_reads(calls, &written, &mut notes)?;
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
    keep_operations(&mut history, calls);
    Ok(history)
}

fn written(calls: &[Call]) -> Result<FxHashMap<(&str, &str), WrittenValue>, HistoryError> {
    let mut written = FxHashMap::default();
    for (number, call) in calls.iter().enumerate() {
        let mut ordinals: FxHashMap<&str, u32> = FxHashMap::default();
        for step in &call.steps {
            let MicroOp::Write { key, value } = step else {
                continue;
            };
            let ordinal = ordinals.entry(key).or_default();
            *ordinal += 1;
            let new = WrittenValue {
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

/// The external reads of committed transactions.
fn external_reads<'c>(
    calls: &'c [Call],
    written: &FxHashMap<(&str, &str), WrittenValue>,
    notes: &mut Notes,
) -> Result<Vec<ExternalRead<'c>>, HistoryError> {
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
                    notes.add(DirectAnomalyKind::Internal, number, key, None);
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
                            format!("{name} read {value} in {item}, which no transaction wrote"),
                        )
                    },
                )?),
            };
            if version.is_some_and(|version| version.call == number) {
                notes.add(DirectAnomalyKind::Internal, number, key, None);
                continue;
            }
            reads.push(ExternalRead {
                call: number,
                step: place,
                key,
                version: version.copied(),
            });
        }
    }
    Ok(reads)
}

/// The committed writers of each key, each after the writer of the version that it had read, with the position of
/// that version; 0 is nil, or unknown.
fn branches<'c>(
    calls: &'c [Call],
    committed: &[bool],
    reads: &[ExternalRead<'c>],
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
            // From the writer back to the first placed one, then forward again.
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
