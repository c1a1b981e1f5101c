//! Session guarantees (Terry et al. 1994; Bailis et al., HAT, appendix), item by item.
//!
//! Once the version order is known, each guarantee compares two positions: what a session reads or writes is ordered
//! no earlier than what it read or wrote before. Whether other sessions read a session's writes in order is
//! causality, not a session guarantee.

use rustc_hash::FxHashMap;

use crate::findings::Findings;
use crate::graph::{Dependency, Step};
use crate::history::History;
use crate::numbers::{ItemNumber, Position, TransactionNumber};
use crate::phenomenon::Phenomenon;
use crate::record::WriteKind;

/// A session's last read and write of one item.
#[derive(Clone, Copy, Default)]
struct Last {
    read: Option<(Position, TransactionNumber)>,
    wrote: Option<(Position, TransactionNumber)>,
}

/// Checks every session for these phenomena.
pub(crate) fn check(findings: &mut Findings<'_>, forbidden: &[Phenomenon]) {
    let history = findings.history;
    let mut sessions: Vec<Vec<TransactionNumber>> = vec![Vec::new(); history.sessions.len()];
    for number in history.committed_numbers() {
        if let Some(session) = history.facts(number).session {
            sessions[session as usize].push(number);
        }
    }
    for session in sessions {
        let mut last: FxHashMap<ItemNumber, Last> = FxHashMap::default();
        for number in session {
            reads(findings, forbidden, number, &mut last);
            writes(findings, forbidden, number, &mut last);
        }
    }
}

/// Reports a phenomenon if it is forbidden.
fn report(
    findings: &mut Findings<'_>,
    forbidden: &[Phenomenon],
    phenomenon: Phenomenon,
    cycle: &[Step],
) {
    if forbidden.contains(&phenomenon) {
        findings.add_cycle(phenomenon, cycle);
    }
}

fn reads(
    findings: &mut Findings<'_>,
    forbidden: &[Phenomenon],
    number: TransactionNumber,
    last: &mut FxHashMap<ItemNumber, Last>,
) {
    for read in findings.history.reads_of(number) {
        let before = last.get(&read.item).copied().unwrap_or_default();
        // For a row that a scan missed, only its absence is known, not the changes outside of the range.
        if let Some((position, earlier)) = before.wrote
            && position > read.position
        {
            let cycle = [session(earlier, number), anti(number, earlier, read.item)];
            report(findings, forbidden, Phenomenon::MissingYourWrites, &cycle);
        }
        if let Some((position, earlier)) = before.read
            && position > read.position
            && earlier != number
            && let Some(writer) = findings.history.writer(read.item, position)
        {
            let cycle = [
                Step {
                    from: writer,
                    to: earlier,
                    kind: Dependency::WriteRead,
                    item: read.item,
                },
                session(earlier, number),
                anti(number, writer, read.item),
            ];
            report(findings, forbidden, Phenomenon::NonMonotonicReads, &cycle);
        }
    }
    for read in findings.history.reads_of(number) {
        let last = last.entry(read.item).or_default();
        let seen = Some((read.position, number));
        if last.read.is_none_or(|before| before.0 < read.position) {
            last.read = seen;
        }
    }
}

fn writes(
    findings: &mut Findings<'_>,
    forbidden: &[Phenomenon],
    number: TransactionNumber,
    last: &mut FxHashMap<ItemNumber, Last>,
) {
    for write in findings.history.writes_of(number) {
        let last = last.entry(write.item).or_default();
        if let Some((position, earlier)) = last.wrote
            && position > write.position
            && !commute(findings.history, write.item, position, write.position)
        {
            let step = Step {
                from: number,
                to: earlier,
                kind: Dependency::WriteWrite,
                item: write.item,
            };
            let cycle = [session(earlier, number), step];
            report(findings, forbidden, Phenomenon::NonMonotonicWrites, &cycle);
        }
        if let Some((position, earlier)) = last.read
            && position > write.position
            && let Some(writer) = findings.history.writer(write.item, position)
        {
            let seen = Step {
                from: writer,
                to: earlier,
                kind: Dependency::WriteRead,
                item: write.item,
            };
            let step = Step {
                from: number,
                to: writer,
                kind: Dependency::WriteWrite,
                item: write.item,
            };
            let cycle = match earlier == number {
                true => vec![seen, step],
                false => vec![seen, session(earlier, number), step],
            };
            report(findings, forbidden, Phenomenon::WritesBeforeReads, &cycle);
        }
        if last.wrote.is_none_or(|before| before.0 < write.position) {
            last.wrote = Some((write.position, number));
        }
    }
}

/// Whether two writes of an item commute: increments and deferred effects.
fn commute(history: &History, item: ItemNumber, left: Position, right: Position) -> bool {
    let deferred = |position: Position| {
        let kind = history.versions_of(item)[position as usize - 1].kind;
        matches!(kind, WriteKind::Increment | WriteKind::Apply)
    };
    deferred(left) && deferred(right)
}

fn session(from: TransactionNumber, to: TransactionNumber) -> Step {
    Step {
        from,
        to,
        kind: Dependency::Session,
        item: 0,
    }
}

fn anti(from: TransactionNumber, to: TransactionNumber, item: ItemNumber) -> Step {
    Step {
        from,
        to,
        kind: Dependency::ReadWrite,
        item,
    }
}
