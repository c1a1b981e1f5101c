//! A topological order of a graph's vertices, close to the order of the file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::graph::{Graph, Kinds, Vertex};

/// The position of each vertex in a topological order over edges of these kinds between vertices that `within`
/// allows. `None` for vertices on or after a cycle, and for excluded ones. Among the vertices that may come next, the
/// one whose transaction is first in the file is taken (Kahn 1962, with a heap), so that positions stay close to
/// times.
pub(crate) fn places(
    graph: &Graph,
    kinds: Kinds,
    within: &dyn Fn(Vertex) -> bool,
) -> Vec<Option<u32>> {
    let vertices = graph.vertices();
    let mut incoming = vec![0u32; vertices];
    let allowed = |vertex: Vertex| within(vertex);
    for from in (0..vertices as Vertex).filter(|from| allowed(*from)) {
        for edge in graph.edges(from) {
            if kinds.has(edge.kind) && allowed(edge.to) {
                incoming[edge.to as usize] += 1;
            }
        }
    }
    let mut ready: BinaryHeap<Reverse<(Vertex, Vertex)>> = (0..vertices as Vertex)
        .filter(|vertex| allowed(*vertex) && incoming[*vertex as usize] == 0)
        .map(|vertex| Reverse((key(graph, vertex), vertex)))
        .collect();
    let mut places = vec![None; vertices];
    let mut next = 0;
    while let Some(Reverse((_, vertex))) = ready.pop() {
        places[vertex as usize] = Some(next);
        next += 1;
        for edge in graph.edges(vertex) {
            if !kinds.has(edge.kind) || !allowed(edge.to) {
                continue;
            }
            let left = &mut incoming[edge.to as usize];
            *left -= 1;
            if *left == 0 {
                ready.push(Reverse((key(graph, edge.to), edge.to)));
            }
        }
    }
    places
}

/// States come as early as possible.
fn key(graph: &Graph, vertex: Vertex) -> Vertex {
    if graph.is_transaction(vertex) {
        vertex
    } else {
        0
    }
}
