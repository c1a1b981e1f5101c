//! Checks with a partial order of versions: registers from other programs.
//!
//! The versions of an item form a forest ([`Forest`]): each follows its parent, and versions in different branches
//! are unordered. A reader of a version precedes the writers of its children. Every conclusion holds for all possible
//! orders. A phenomenon that depends on the whole order is not found, or the model is refused (session guarantees).

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::check::TRIES;
use crate::dependency::{Commuting, OptionalEdges, serialization_graph};
use crate::graph::{Dependency, Graph, GraphBuilder, Kinds, Scratch, Step, Vertex};
use crate::history::{History, ItemNumber, Position, ReadFact, TransactionNumber};
use crate::phenomenon::Phenomenon;
use crate::verdict::Findings;

/// The parent of each version, by item; 0 is the initial version, or an unknown parent. A parent's position is
/// smaller than its children's.
#[derive(Debug, Default)]
pub(crate) struct Forest {
    pub(crate) parents: BTreeMap<ItemNumber, Vec<Position>>,
}

impl Forest {
    /// Whether one version certainly comes before another.
    fn is_before(&self, item: ItemNumber, earlier: Position, later: Position) -> bool {
        let Some(parents) = self.parents.get(&item) else {
            return false;
        };
        let mut at = later;
        while at > earlier {
            at = parents[at as usize - 1];
        }
        at == earlier && earlier != later
    }
}

/// Adds write dependencies and antidependencies.
pub(crate) fn add_version_orders(history: &History, forest: &Forest, builder: &mut GraphBuilder) {
    let mut readers: FxHashMap<(ItemNumber, Position), Vec<TransactionNumber>> =
        FxHashMap::default();
    for reader in history.committed_numbers() {
        for read in history.reads_of(reader) {
            readers
                .entry((read.item, read.position))
                .or_default()
                .push(reader);
        }
    }
    for (item, parents) in &forest.parents {
        let writer = |position: Position| history.writer(*item, position).expect("it is placed");
        let mut children: BTreeMap<Position, Vec<TransactionNumber>> = BTreeMap::new();
        for (before, parent) in parents.iter().enumerate() {
            let child = writer(before as Position + 1);
            children.entry(*parent).or_default().push(child);
            if *parent > 0 {
                builder.edge(writer(*parent), child, Dependency::WriteWrite, *item);
            }
        }
        for (parent, children) in &children {
            if let Some(readers) = readers.get(&(*item, *parent)) {
                add_antidependencies(builder, *item, readers, children);
            }
        }
    }
}

/// Orders each reader before each writer except itself. States before the first writers and before the last ones keep
/// the number of edges linear.
fn add_antidependencies(
    builder: &mut GraphBuilder,
    item: ItemNumber,
    readers: &[TransactionNumber],
    writers: &[TransactionNumber],
) {
    let kind = Dependency::ReadWrite;
    if readers.len() * writers.len() <= 4 * (readers.len() + writers.len()) {
        for reader in readers {
            for writer in writers {
                builder.edge(*reader, *writer, kind, item);
            }
        }
        return;
    }
    let up_to: Vec<Vertex> = writers.iter().map(|_| builder.state()).collect();
    let from: Vec<Vertex> = writers.iter().map(|_| builder.state()).collect();
    let mut places: FxHashMap<TransactionNumber, usize> = FxHashMap::default();
    for (at, writer) in writers.iter().enumerate() {
        places.insert(*writer, at);
        builder.edge(up_to[at], *writer, kind, item);
        builder.edge(from[at], *writer, kind, item);
        if at > 0 {
            builder.edge(up_to[at], up_to[at - 1], Dependency::Silent, item);
            builder.edge(from[at - 1], from[at], Dependency::Silent, item);
        }
    }
    for reader in readers {
        match places.get(reader) {
            None => builder.edge(*reader, from[0], Dependency::Silent, item),
            Some(own) => {
                if *own > 0 {
                    builder.edge(*reader, up_to[own - 1], Dependency::Silent, item);
                }
                if own + 1 < writers.len() {
                    builder.edge(*reader, from[own + 1], Dependency::Silent, item);
                }
            }
        }
    }
}

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
