//! Causal consistency: the reads of a transaction include everything that it depends on.
//!
//! A transaction depends on its session's earlier transactions, the transactions that they or it read from, and so on
//! (ramp.txt, Definition 3.22, over reads and sessions). No cycle may consist of reads, session order and exactly one
//! antidependency. With a known version order this is a question of reachability. Transactions are sorted in an order
//! that agrees with causality. A read can only miss a version with a writer before the reader in that order; only
//! then are the reader's ancestors searched, back to that writer's position.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::dependency::{Commuting, OptionalEdges, serialization_graph};
use crate::findings::Findings;
use crate::graph::{Dependency, Graph, Kinds, Scratch, Step, Vertex};
use crate::history::History;
use crate::numbers::{ItemNumber, Position, TransactionNumber};
use crate::phenomenon::Phenomenon;
use crate::topological_order::places;

const CAUSES: Kinds = Kinds::of(&[Dependency::WriteRead, Dependency::Session]);

/// Checks for effects before their causes, and for missed dependencies.
pub(crate) fn check(findings: &mut Findings<'_>) {
    let history = findings.history;
    let sessions = OptionalEdges {
        sessions: true,
        real_time: false,
    };
    let graph = serialization_graph(history, Commuting::Deferred, sessions);
    let mut scratch = Scratch::default();
    for component in graph.components(CAUSES) {
        if let Some(cycle) = graph.shortest_cycle(&component, CAUSES, 24, &mut scratch) {
            findings.add_cycle(Phenomenon::CausalCycle, &cycle);
        }
    }
    let places = places(&graph, CAUSES, &|_| true);
    let earliest = earliest_writers(history, &places);
    let reversed = graph.reversed();
    let mut past = AncestorSearch {
        history,
        reversed: &reversed,
        places: &places,
        seen: FxHashSet::default(),
        queue: Vec::new(),
    };
    let mut missable: FxHashMap<ItemNumber, Position> = FxHashMap::default();
    for reader in history.committed_numbers() {
        let Some(own) = places[reader as usize] else {
            continue;
        };
        missable.clear();
        let mut back_to = own;
        for read in history.reads_of(reader) {
            let Some(next) = read.next else { continue };
            let place = (history.version_starts[read.item as usize] + next - 1) as usize;
            if earliest[place] < own {
                back_to = back_to.min(earliest[place]);
                let least = missable.entry(read.item).or_insert(next);
                *least = (*least).min(next);
            }
        }
        if missable.is_empty() {
            continue;
        }
        if let Some((writer, item)) = past.find(reader, back_to, &missable) {
            report(findings, &graph, reader, writer, item, &mut scratch);
        }
    }
}

fn report(
    findings: &mut Findings<'_>,
    graph: &Graph,
    reader: TransactionNumber,
    writer: TransactionNumber,
    item: ItemNumber,
    scratch: &mut Scratch,
) {
    let Some(mut cycle) = graph.path(writer, reader, CAUSES, &|_| true, scratch) else {
        return;
    };
    cycle.push(Step {
        from: reader,
        to: writer,
        kind: Dependency::ReadWrite,
        item,
    });
    // With a single dependency it is a fractured read, and is reported as such.
    let fractured = cycle.len() == 2 && cycle[0].kind == Dependency::WriteRead;
    if !fractured {
        findings.add_cycle(Phenomenon::MissingDependency, &cycle);
    }
}

/// For each version, the earliest position of its writer and the later versions' writers.
fn earliest_writers(history: &History, places: &[Option<u32>]) -> Vec<u32> {
    let mut earliest = vec![u32::MAX; history.versions.len()];
    for item in 0..history.items.len() {
        let (start, end) = (
            history.version_starts[item] as usize,
            history.version_starts[item + 1] as usize,
        );
        let mut least = u32::MAX;
        for at in (start..end).rev() {
            let writer = history.versions[at].writer as usize;
            least = least.min(places[writer].unwrap_or(u32::MAX));
            earliest[at] = least;
        }
    }
    earliest
}

/// Searches the transactions that a transaction depends on.
struct AncestorSearch<'p> {
    history: &'p History,
    reversed: &'p Graph,
    places: &'p [Option<u32>],
    seen: FxHashSet<Vertex>,
    queue: Vec<Vertex>,
}

impl AncestorSearch<'_> {
    /// A transaction that the reader depends on and that wrote one of these items at or after the position.
    fn find(
        &mut self,
        reader: TransactionNumber,
        back_to: u32,
        missable: &FxHashMap<ItemNumber, Position>,
    ) -> Option<(TransactionNumber, ItemNumber)> {
        self.seen.clear();
        self.queue.clear();
        self.queue.push(reader);
        while let Some(vertex) = self.queue.pop() {
            if vertex != reader && self.reversed.is_transaction(vertex) {
                let missed = self.history.writes_of(vertex).iter().find(|write| {
                    missable
                        .get(&write.item)
                        .is_some_and(|least| write.position >= *least)
                });
                if let Some(missed) = missed {
                    return Some((vertex, missed.item));
                }
            }
            for edge in self.reversed.edges(vertex) {
                let place = self.places[edge.to as usize];
                if CAUSES.has(edge.kind)
                    && place.is_some_and(|place| place >= back_to)
                    && self.seen.insert(edge.to)
                {
                    self.queue.push(edge.to);
                }
            }
        }
        None
    }
}
