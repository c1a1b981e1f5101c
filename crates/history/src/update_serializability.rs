//! Update serializability (PL-3U, Adya §4.2.4): the writers are serializable, and each reader is serializable with
//! them. Two readers may disagree on the order of independent writers.
//!
//! Writers are sorted in an order that agrees with their graph. A reader is on no cycle if every antidependency leads
//! to a writer after all those that it read from. For the other readers a path between those two positions is
//! searched.

use crate::findings::Findings;
use crate::graph::{ALL, Dependency, Graph, GraphBuilder, Scratch, Vertex};
use crate::phenomenon::Phenomenon;
use crate::topological_order::places;

/// Checks the writers together, then each reader.
pub(crate) fn check(graph: &Graph, findings: &mut Findings<'_>) {
    let history = findings.history;
    let is_reader =
        |vertex: Vertex| graph.is_transaction(vertex) && history.writes_of(vertex).is_empty();
    let writers = without(graph, &is_reader);
    let mut scratch = Scratch::default();
    for component in writers.components(ALL) {
        if let Some(cycle) = writers.shortest_cycle(&component, ALL, 24, &mut scratch) {
            let phenomenon = Phenomenon::of_cycle(&cycle);
            if !matches!(phenomenon, Phenomenon::G0 | Phenomenon::G1c) {
                findings.add_cycle(phenomenon, &cycle);
            }
        }
    }
    let places = places(&writers, ALL, &|vertex| !is_reader(vertex));
    let mut sources: Vec<Option<u32>> = vec![None; graph.vertices()];
    for from in 0..graph.vertices() as Vertex {
        if is_reader(from) {
            continue;
        }
        // Vertices on or after a cycle have no position; they count as latest.
        let place = places[from as usize].unwrap_or(u32::MAX);
        for edge in graph.edges(from).iter().filter(|edge| is_reader(edge.to)) {
            let latest = &mut sources[edge.to as usize];
            *latest = (*latest).max(Some(place));
        }
    }
    for reader in history
        .committed_numbers()
        .filter(|reader| is_reader(*reader))
    {
        let targets = graph.edges(reader).iter();
        let first = targets
            .filter(|edge| !is_reader(edge.to))
            .map(|edge| places[edge.to as usize].unwrap_or(0))
            .min();
        let (Some(first), Some(last)) = (first, sources[reader as usize]) else {
            continue;
        };
        if first > last {
            continue;
        }
        let within = |vertex: Vertex| {
            !is_reader(vertex)
                && places[vertex as usize].is_none_or(|place| (first..=last).contains(&place))
        };
        if let Some(cycle) = graph.path(reader, reader, ALL, &within, &mut scratch) {
            let all = [Dependency::ReadWrite];
            let one = cycle.iter().filter(|step| all.contains(&step.kind)).count() == 1;
            let phenomenon = match one {
                true => Phenomenon::of_cycle(&cycle),
                false => Phenomenon::GUpdate,
            };
            findings.add_cycle(phenomenon, &cycle);
        }
    }
}

/// The graph without the excluded vertices.
fn without(graph: &Graph, excluded: &dyn Fn(Vertex) -> bool) -> Graph {
    let mut builder = GraphBuilder::like(graph);
    for from in (0..graph.vertices() as Vertex).filter(|from| !excluded(*from)) {
        for edge in graph.edges(from).iter().filter(|edge| !excluded(edge.to)) {
            builder.edge(from, edge.to, edge.kind, edge.item);
        }
    }
    builder.build()
}
