//! Fractured reads (ramp.txt, Definition 3.1), with counters and ranges.
//!
//! Transaction *Tj* reads a version of *x* that shows *Ti*, and a version of *y* before the one that *Ti* wrote. A
//! version shows its writer and, if the write changed the item instead of replacing it (an increment, a deferred
//! effect), everything that the previous version showed. A range without a row shows the transaction that removed the
//! row, and precedes the transaction that inserts it.
//!
//! The writer of a version read is compared with the reader's other reads directly. A counter's version shows many
//! more writers; these are looked up by pairs of items that are read together, prepared once from the item with fewer
//! versions. The check is linear in the history as long as few pairs of frequently written counters are read
//! together.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::findings::Findings;
use crate::graph::{Dependency, Step};
use crate::history::{History, ReadFact};
use crate::numbers::{ItemNumber, Position, TransactionNumber};
use crate::phenomenon::Phenomenon;
use crate::record::WriteKind;

/// The number of shown writers from which they are looked up instead of visited.
const WALK_MAX: u32 = 16;

/// Checks every committed reader, and reports one case for each.
pub(crate) fn check(findings: &mut Findings<'_>) {
    let history = findings.history;
    let mut pairs = Pairs::default();
    let starts = shown_starts(history);
    let mut reads: Vec<ReadFact> = Vec::new();
    for reader in history.committed_numbers() {
        reads.clear();
        reads.extend_from_slice(history.reads_of(reader));
        if reads.len() < 2 {
            continue;
        }
        reads.sort_by_key(|read| (read.item, read.position));
        let search = Search {
            history,
            starts: &starts,
            reader,
            reads: &reads,
        };
        if let Some(fracture) = search.find(&mut pairs) {
            fracture.report(findings, reader);
        }
    }
}

/// A fracture: `seen` shows the writer, `missed` does not.
struct Fracture {
    writer: TransactionNumber,
    seen: ReadFact,
    missed: ReadFact,
}

impl Fracture {
    fn report(&self, findings: &mut Findings<'_>, reader: TransactionNumber) {
        let phenomenon = if self.seen.item == self.missed.item {
            match (self.seen.scan, self.missed.scan) {
                (None, None) => Phenomenon::ItemManyPreceders,
                _ => Phenomenon::PredicateManyPreceders,
            }
        } else if self.missed.absent || self.seen.absent {
            Phenomenon::PredicateManyPreceders
        } else if self.seen.step < self.missed.step {
            Phenomenon::ObservedTransactionVanishes
        } else {
            Phenomenon::FracturedReads
        };
        let cycle = [
            Step {
                from: self.writer,
                to: reader,
                kind: Dependency::WriteRead,
                item: self.seen.item,
            },
            Step {
                from: reader,
                to: self.writer,
                kind: Dependency::ReadWrite,
                item: self.missed.item,
            },
        ];
        findings.add_cycle(phenomenon, &cycle);
    }
}

struct Search<'s> {
    history: &'s History,
    starts: &'s [Position],
    reader: TransactionNumber,
    /// Sorted by item and position.
    reads: &'s [ReadFact],
}

impl Search<'_> {
    fn find(&self, pairs: &mut Pairs) -> Option<Fracture> {
        for seen in self.reads {
            if seen.shown == 0 {
                continue;
            }
            let shown = self.shown(seen);
            let walked = shown.end.saturating_sub(WALK_MAX).max(shown.start);
            let walk = if shown.end - shown.start <= WALK_MAX {
                walked..shown.end
            } else {
                shown.end - 1..shown.end
            };
            for position in walk.clone() {
                let writer = self.history.writer(seen.item, position)?;
                if writer != self.reader
                    && let Some(missed) = self.missed(writer)
                {
                    let seen = *seen;
                    return Some(Fracture {
                        writer,
                        seen,
                        missed,
                    });
                }
            }
            if walk.start > shown.start {
                for missed in self.reads.iter().filter(|read| read.item != seen.item) {
                    if let Some(writer) =
                        pairs.find(self.history, self.starts, seen, missed, &shown)
                        && writer != self.reader
                        && self.misses(missed, writer)
                    {
                        return Some(Fracture {
                            writer,
                            seen: *seen,
                            missed: *missed,
                        });
                    }
                }
            }
        }
        None
    }

    /// The positions of the writers that a read shows.
    fn shown(&self, read: &ReadFact) -> Range<Position> {
        if read.absent {
            return read.shown..read.shown + 1;
        }
        let first = self.history.version_starts[read.item as usize];
        let start = self.starts[(first + read.shown) as usize - 1];
        start..read.shown + 1
    }

    /// A read that misses a write of this transaction.
    fn missed(&self, writer: TransactionNumber) -> Option<ReadFact> {
        let writes = self.history.writes_of(writer);
        if writes.len() <= self.reads.len() {
            writes.iter().find_map(|write| {
                let from = self.reads.partition_point(|read| read.item < write.item);
                self.reads[from..]
                    .iter()
                    .take_while(|read| read.item == write.item)
                    .find(|read| self.misses(read, writer))
                    .copied()
            })
        } else {
            self.reads
                .iter()
                .find(|read| self.misses(read, writer))
                .copied()
        }
    }

    /// Whether this read misses the version that this transaction wrote.
    fn misses(&self, read: &ReadFact, writer: TransactionNumber) -> bool {
        let Some(written) = self.history.position(writer, read.item) else {
            return false;
        };
        if written <= read.position {
            return false;
        }
        match read.scan {
            // A missing row counts if the writer left it in the range.
            Some(scan) if read.absent => self.history.matches(scan, read.item, written),
            _ => true,
        }
    }
}

/// For each version (by its index in [`History::versions`]) the first position that it shows: back to the last write
/// that replaced the item.
fn shown_starts(history: &History) -> Vec<Position> {
    let mut starts = Vec::with_capacity(history.versions.len());
    for item in 0..history.items.len() as ItemNumber {
        let mut start = 1;
        for (before, version) in history.versions_of(item).iter().enumerate() {
            if !matches!(
                version.kind,
                WriteKind::Increment | WriteKind::Apply | WriteKind::Append
            ) {
                start = before as Position + 1;
            }
            starts.push(start);
        }
    }
    starts
}

/// The transactions that wrote both of two items read together.
#[derive(Default)]
struct Pairs {
    known: FxHashMap<(ItemNumber, ItemNumber), Vec<Common>>,
}

/// A writer of both, in the order of the first item's versions.
#[derive(Clone, Copy)]
struct Common {
    position: Position,
    /// Among this writer and those before it that are shown together: the latest version of the second item, and its
    /// writer.
    latest: Position,
    writer: TransactionNumber,
}

impl Pairs {
    /// A writer that `seen` shows and that wrote a later version of `missed`'s item than the one read, if any.
    fn find(
        &mut self,
        history: &History,
        starts: &[Position],
        seen: &ReadFact,
        missed: &ReadFact,
        shown: &Range<Position>,
    ) -> Option<TransactionNumber> {
        missed.next?;
        let common = self
            .known
            .entry((seen.item, missed.item))
            .or_insert_with(|| common(history, starts, seen.item, missed.item));
        let behind = common.partition_point(|common| common.position < shown.end);
        let last = common[..behind].last()?;
        (last.position >= shown.start && last.latest > missed.position).then_some(last.writer)
    }
}

fn common(
    history: &History,
    starts: &[Position],
    first: ItemNumber,
    second: ItemNumber,
) -> Vec<Common> {
    let (fewer, more) = if history.versions_of(first).len() <= history.versions_of(second).len() {
        (first, second)
    } else {
        (second, first)
    };
    let mut found: Vec<Common> = history
        .versions_of(fewer)
        .iter()
        .filter(|version| history.position(version.writer, more).is_some())
        .map(|version| Common {
            position: history
                .position(version.writer, first)
                .expect("it wrote both"),
            latest: history
                .position(version.writer, second)
                .expect("it wrote both"),
            writer: version.writer,
        })
        .collect();
    found.sort_unstable_by_key(|common| common.position);
    let offset = history.version_starts[first as usize];
    for at in 1..found.len() {
        let before = found[at - 1];
        let start = starts[(offset + found[at].position) as usize - 1];
        if before.position >= start && before.latest > found[at].latest {
            found[at].latest = before.latest;
            found[at].writer = before.writer;
        }
    }
    found
}
