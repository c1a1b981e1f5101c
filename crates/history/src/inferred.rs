//! Checks with a partial order of versions: registers from other programs.
//!
//! The versions of an item form a forest ([`Forest`]): each follows its parent, and versions in different branches
//! are unordered. A reader of a version precedes the writers of its children. Every conclusion holds for all possible
//! orders. A phenomenon that depends on the whole order is not found, or the model is refused (session guarantees).

use std::collections::{BTreeMap, BTreeSet};

use crate::dependency::{Commuting, OptionalEdges, serialization_graph};
use crate::findings::Findings;
use crate::forest::Forest;
use crate::graph::{Dependency, Graph, GraphBuilder, Kinds, Scratch, Step, TRIES, Vertex};
use crate::history::{History, ReadFact};
use crate::numbers::{Position, TransactionNumber};
use crate::phenomenon::Phenomenon;

/// Fractured reads (ramp.txt, Definition 3.1), and two versions of one item.
pub(crate) fn fractures(forest: &Forest, findings: &mut Findings<'_>) {
    let history = findings.history;
    for reader in history.committed_numbers() {
        let reads = history.reads_of(reader);
        if let Some((phenomenon, seen, missed)) = fracture(history, forest, reads) {
            let Some(writer) = history.writer(seen.item, seen.position) else {
                continue;
            };
            let step = |from, to, kind, item| Step {
                from,
                to,
                kind,
                item,
            };
            let cycle = [
                step(writer, reader, Dependency::WriteRead, seen.item),
                step(reader, writer, Dependency::ReadWrite, missed.item),
            ];
            findings.add_cycle(phenomenon, &cycle);
        }
    }
}

fn fracture<'r>(
    history: &History,
    forest: &Forest,
    reads: &'r [ReadFact],
) -> Option<(Phenomenon, &'r ReadFact, &'r ReadFact)> {
    for seen in reads {
        let Some(writer) = history.writer(seen.item, seen.position) else {
            continue;
        };
        for missed in reads {
            if missed.item == seen.item {
                if missed.position < seen.position {
                    return Some((Phenomenon::ItemManyPreceders, seen, missed));
                }
                continue;
            }
            let Some(written) = history.position(writer, missed.item) else {
                continue;
            };
            if forest.is_before(missed.item, missed.position, written) {
                let phenomenon = match seen.step < missed.step {
                    true => Phenomenon::ObservedTransactionVanishes,
                    false => Phenomenon::FracturedReads,
                };
                return Some((phenomenon, seen, missed));
            }
        }
    }
    None
}

/// Two transactions that read one version and overwrote it: the later one lost the other's update (ramp.txt,
/// Definition 3.12). One case is reported for each version.
pub(crate) fn lost_updates(forest: &Forest, findings: &mut Findings<'_>) {
    let history = findings.history;
    for (item, parents) in &forest.parents {
        let mut first: BTreeMap<Position, TransactionNumber> = BTreeMap::new();
        let mut reported: BTreeSet<Position> = BTreeSet::new();
        for (before, parent) in parents.iter().enumerate() {
            let Some(writer) = history.writer(*item, before as Position + 1) else {
                continue;
            };
            let read = |read: &ReadFact| (read.item, read.position) == (*item, *parent);
            if !history.reads_of(writer).iter().any(read) {
                continue;
            }
            let other = *first.entry(*parent).or_insert(writer);
            if other != writer && reported.insert(*parent) {
                let kind = Dependency::ReadWrite;
                let step = |from, to| Step {
                    from,
                    to,
                    kind,
                    item: *item,
                };
                let cycle = [step(other, writer), step(writer, other)];
                findings.add_cycle(Phenomenon::LostUpdate, &cycle);
            }
        }
    }
}

/// Cycles of reads, session order and exactly one antidependency (ramp.txt, Definition 3.22). Each transaction is two
/// vertices, one before the antidependency and one after it.
pub(crate) fn causal(findings: &mut Findings<'_>) {
    let additions = OptionalEdges {
        sessions: true,
        real_time: false,
    };
    let history = findings.history;
    let graph = serialization_graph(history, Commuting::Deferred, additions);
    let causes = Kinds::of(&[Dependency::WriteRead, Dependency::Session]);
    let all = Kinds::of(&[
        Dependency::WriteRead,
        Dependency::Session,
        Dependency::ReadWrite,
    ]);
    let mut scratch = Scratch::default();
    for component in graph.components(causes) {
        if let Some(cycle) = graph.shortest_cycle(&component, causes, TRIES, &mut scratch) {
            findings.add_cycle(Phenomenon::CausalCycle, &cycle);
        }
    }
    let transactions = history.transactions.len() as Vertex;
    let doubled = doubled(&graph, transactions);
    for component in graph.components(all) {
        let within = |vertex: Vertex| {
            let single = match vertex < 2 * transactions {
                true => vertex % transactions,
                false => transactions + (vertex - 2 * transactions) / 2,
            };
            component.binary_search(&single).is_ok()
        };
        let readers = component.iter().filter(|vertex| **vertex < transactions);
        let cycle = readers.into_iter().find_map(|reader| {
            doubled.path(*reader, reader + transactions, all, &within, &mut scratch)
        });
        let Some(mut cycle) = cycle else { continue };
        for step in &mut cycle {
            step.from %= transactions;
            step.to %= transactions;
        }
        // With a single dependency it is a fractured read, and is reported as such.
        let fractured =
            cycle.len() == 2 && cycle.iter().all(|step| step.kind != Dependency::Session);
        if !fractured {
            findings.add_cycle(Phenomenon::MissingDependency, &cycle);
        }
    }
}

/// Antidependencies lead from the first layer to the second; all other edges stay in the second.
fn doubled(graph: &Graph, transactions: Vertex) -> Graph {
    let states = graph.vertices() as Vertex - transactions;
    let layer = |vertex: Vertex, second: bool| match vertex.checked_sub(transactions) {
        None => vertex + if second { transactions } else { 0 },
        Some(state) => 2 * transactions + 2 * state + u32::from(second),
    };
    let mut builder = GraphBuilder::new(2 * transactions as usize);
    for _ in 0..2 * states {
        builder.state();
    }
    for from in 0..graph.vertices() as Vertex {
        for edge in graph.edges(from) {
            let (to, kind, item) = (edge.to, edge.kind, edge.item);
            match kind {
                Dependency::ReadWrite => {
                    builder.edge(layer(from, false), layer(to, true), kind, item);
                }
                Dependency::Silent => {
                    builder.edge(layer(from, false), layer(to, false), kind, item);
                    builder.edge(layer(from, true), layer(to, true), kind, item);
                }
                _ => builder.edge(layer(from, true), layer(to, true), kind, item),
            }
        }
    }
    builder.build()
}
