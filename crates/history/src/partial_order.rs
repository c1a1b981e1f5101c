//! Edges of the serialization graph for a partial order of versions.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::forest::Forest;
use crate::graph::{Dependency, GraphBuilder, Vertex};
use crate::history::History;
use crate::numbers::{ItemNumber, Position, TransactionNumber};

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
