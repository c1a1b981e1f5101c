//! Directed graphs in compact arrays, with strongly connected components and shortest cycles.
//!
//! The first vertices are transactions. The others are *states*: points between the commuting writes of an item,
//! which order readers against writers without ordering the writers among themselves. The length of a path counts
//! transactions only.

use std::collections::VecDeque;

use crate::numbers::ItemNumber;

/// A vertex.
pub(crate) type Vertex = u32;

/// Why one vertex precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Dependency {
    /// Write-depends: the item's next version (ramp.txt, Definition 3.4).
    WriteWrite,
    /// Read-depends: it read that version (Definition 3.2).
    WriteRead,
    /// Antidepends: it overwrote what was read (Definition 3.3).
    ReadWrite,
    /// Session order: the next transaction of the session.
    Session,
    /// Real time: it was invoked after the other completed.
    RealTime,
    /// Into or out of a state; no dependency by itself.
    Silent,
}

/// A set of dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    pub(crate) const fn of(kinds: &[Dependency]) -> Kinds {
        let mut set = 1 << Dependency::Silent as u8;
        let mut at = 0;
        while at < kinds.len() {
            set |= 1 << kinds[at] as u8;
            at += 1;
        }
        Kinds(set)
    }

    pub(crate) const fn has(self, kind: Dependency) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

/// The number of transactions in a component from which a short cycle is searched.
pub(crate) const TRIES: usize = 24;

pub(crate) const WRITES: Kinds = Kinds::of(&[Dependency::WriteWrite]);
pub(crate) const DEPENDENCIES: Kinds = Kinds::of(&[Dependency::WriteWrite, Dependency::WriteRead]);
pub(crate) const ALL: Kinds = Kinds::of(&[
    Dependency::WriteWrite,
    Dependency::WriteRead,
    Dependency::ReadWrite,
    Dependency::Session,
    Dependency::RealTime,
]);

/// One edge, without its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) to: Vertex,
    pub(crate) kind: Dependency,
    /// The item; meaningless for session order and real time.
    pub(crate) item: ItemNumber,
}

/// A graph under construction.
#[derive(Debug, Default)]
pub(crate) struct GraphBuilder {
    edges: Vec<(Vertex, Edge)>,
    transactions: u32,
    vertices: u32,
}

impl GraphBuilder {
    pub(crate) fn new(transactions: usize) -> GraphBuilder {
        GraphBuilder {
            edges: Vec::new(),
            transactions: transactions as u32,
            vertices: transactions as u32,
        }
    }

    /// A graph without edges over the same vertices.
    pub(crate) fn like(graph: &Graph) -> GraphBuilder {
        GraphBuilder {
            edges: Vec::new(),
            transactions: graph.transactions,
            vertices: graph.vertices() as u32,
        }
    }

    /// Adds a state.
    pub(crate) fn state(&mut self) -> Vertex {
        self.vertices += 1;
        self.vertices - 1
    }

    /// Adds an edge, unless it is a loop on one vertex.
    pub(crate) fn edge(&mut self, from: Vertex, to: Vertex, kind: Dependency, item: ItemNumber) {
        if from != to {
            self.edges.push((from, Edge { to, kind, item }));
        }
    }

    pub(crate) fn build(self) -> Graph {
        let mut starts = vec![0u32; self.vertices as usize + 1];
        for (from, _) in &self.edges {
            starts[*from as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let nowhere = Edge {
            to: 0,
            kind: Dependency::Silent,
            item: 0,
        };
        let mut edges = vec![nowhere; self.edges.len()];
        for (from, edge) in self.edges {
            let place = &mut next[from as usize];
            edges[*place as usize] = edge;
            *place += 1;
        }
        Graph {
            starts,
            edges,
            transactions: self.transactions,
        }
    }
}

/// A graph: each vertex's edges lie together.
#[derive(Debug)]
pub(crate) struct Graph {
    starts: Vec<u32>,
    edges: Vec<Edge>,
    transactions: u32,
}

/// One step of a path between transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) from: Vertex,
    pub(crate) to: Vertex,
    pub(crate) kind: Dependency,
    pub(crate) item: ItemNumber,
}

impl Graph {
    pub(crate) fn vertices(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn is_transaction(&self, vertex: Vertex) -> bool {
        vertex < self.transactions
    }

    pub(crate) fn edges(&self, from: Vertex) -> &[Edge] {
        let from = from as usize;
        &self.edges[self.starts[from] as usize..self.starts[from + 1] as usize]
    }

    /// The graph with every edge reversed.
    pub(crate) fn reversed(&self) -> Graph {
        let mut builder = GraphBuilder {
            edges: Vec::with_capacity(self.edges.len()),
            transactions: self.transactions,
            vertices: self.vertices() as u32,
        };
        for from in 0..self.vertices() as Vertex {
            for edge in self.edges(from) {
                builder.edge(edge.to, from, edge.kind, edge.item);
            }
        }
        builder.build()
    }

    /// Strongly connected components with more than one transaction, each sorted, over edges of
    /// these kinds (Tarjan 1972, without recursion).
    pub(crate) fn components(&self, kinds: Kinds) -> Vec<Vec<Vertex>> {
        strongly_connected(self.vertices(), |vertex, at| {
            self.edges(vertex)[at..]
                .iter()
                .enumerate()
                .find(|(_, edge)| kinds.has(edge.kind))
                .map(|(skipped, edge)| (edge.to, at + skipped + 1))
        })
        .into_iter()
        .filter(|component| {
            let real = component
                .iter()
                .filter(|vertex| self.is_transaction(**vertex));
            real.count() > 1
        })
        .collect()
    }

    /// A shortest path from `from` to `to` through vertices that `within` allows, by number of
    /// transactions; the two may be the same: then a shortest cycle.
    pub(crate) fn path(
        &self,
        from: Vertex,
        to: Vertex,
        kinds: Kinds,
        within: &dyn Fn(Vertex) -> bool,
        scratch: &mut Scratch,
    ) -> Option<Vec<Step>> {
        scratch.begin(self.vertices());
        scratch.queue.push_back((from, 0));
        while let Some((vertex, length)) = scratch.queue.pop_front() {
            if scratch.length(vertex).is_some_and(|known| known < length) {
                continue;
            }
            for edge in self.edges(vertex) {
                if !kinds.has(edge.kind) || !(edge.to == to || within(edge.to)) {
                    continue;
                }
                // What leads into a state is free; the step counts when it reaches a transaction.
                let free = !self.is_transaction(edge.to);
                let length = length + u32::from(!free);
                if scratch.length(edge.to).is_some_and(|known| known <= length) {
                    continue;
                }
                scratch.visit(edge.to, length, vertex, *edge);
                if edge.to == to {
                    // Reached by the cheapest way, since states are taken first.
                    return Some(self.walk_back(from, to, scratch));
                }
                if free {
                    scratch.queue.push_front((edge.to, length));
                } else {
                    scratch.queue.push_back((edge.to, length));
                }
            }
        }
        None
    }

    /// The steps between transactions on the way that was found.
    fn walk_back(&self, from: Vertex, to: Vertex, scratch: &Scratch) -> Vec<Step> {
        let mut edges: Vec<(Vertex, Edge)> = Vec::new();
        let mut at = to;
        loop {
            let (before, edge) = scratch.came_from[at as usize];
            edges.push((before, edge));
            at = before;
            if at == from {
                break;
            }
        }
        edges.reverse();
        let mut steps: Vec<Step> = Vec::new();
        let mut start = from;
        let mut kind = Dependency::Silent;
        let mut item = 0;
        for (_, edge) in edges {
            if edge.kind != Dependency::Silent {
                (kind, item) = (edge.kind, edge.item);
            }
            if self.is_transaction(edge.to) {
                steps.push(Step {
                    from: start,
                    to: edge.to,
                    kind,
                    item,
                });
                start = edge.to;
                kind = Dependency::Silent;
            }
        }
        steps
    }

    /// A shortest cycle of a component, looking from `tries` of its transactions.
    pub(crate) fn shortest_cycle(
        &self,
        component: &[Vertex],
        kinds: Kinds,
        tries: usize,
        scratch: &mut Scratch,
    ) -> Option<Vec<Step>> {
        let real: Vec<Vertex> = component
            .iter()
            .copied()
            .filter(|vertex| self.is_transaction(*vertex))
            .collect();
        let within = |vertex: Vertex| component.binary_search(&vertex).is_ok();
        let stride = real.len().div_ceil(tries.max(1)).max(1);
        let mut best: Option<Vec<Step>> = None;
        for start in real.into_iter().step_by(stride) {
            if let Some(cycle) = self.path(start, start, kinds, &within, scratch)
                && best.as_ref().is_none_or(|best| cycle.len() < best.len())
            {
                let shortest = cycle.len() == 2;
                best = Some(cycle);
                if shortest {
                    break;
                }
            }
        }
        best
    }
}

/// Reusable memory for searches.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    round: u32,
    seen: Vec<u32>,
    lengths: Vec<u32>,
    came_from: Vec<(Vertex, Edge)>,
    queue: VecDeque<(Vertex, u32)>,
}

impl Scratch {
    fn begin(&mut self, vertices: usize) {
        if self.seen.len() < vertices {
            let nowhere = Edge {
                to: 0,
                kind: Dependency::Silent,
                item: 0,
            };
            self.seen = vec![0; vertices];
            self.lengths = vec![0; vertices];
            self.came_from = vec![(0, nowhere); vertices];
            self.round = 0;
        }
        self.round += 1;
        self.queue.clear();
    }

    fn length(&self, vertex: Vertex) -> Option<u32> {
        (self.seen[vertex as usize] == self.round).then(|| self.lengths[vertex as usize])
    }

    fn visit(&mut self, vertex: Vertex, length: u32, from: Vertex, edge: Edge) {
        self.seen[vertex as usize] = self.round;
        self.lengths[vertex as usize] = length;
        self.came_from[vertex as usize] = (from, edge);
    }
}

/// Strongly connected components of more than one vertex, each sorted. `next` gives the successor
/// that comes at or after a place among a vertex's edges, and the place behind it.
pub(crate) fn strongly_connected(
    vertices: usize,
    next: impl Fn(Vertex, usize) -> Option<(Vertex, usize)>,
) -> Vec<Vec<Vertex>> {
    const UNSEEN: u32 = 0;
    let mut index = vec![UNSEEN; vertices];
    let mut low = vec![0u32; vertices];
    let mut on_stack = vec![false; vertices];
    let mut stack: Vec<Vertex> = Vec::new();
    let mut calls: Vec<(Vertex, usize)> = Vec::new();
    let mut counter = 0;
    let mut components = Vec::new();
    for root in 0..vertices as Vertex {
        if index[root as usize] != UNSEEN {
            continue;
        }
        calls.push((root, 0));
        while let Some((vertex, at)) = calls.pop() {
            let v = vertex as usize;
            if at == 0 && index[v] == UNSEEN {
                counter += 1;
                index[v] = counter;
                low[v] = counter;
                stack.push(vertex);
                on_stack[v] = true;
            }
            match next(vertex, at) {
                Some((to, after)) => {
                    calls.push((vertex, after));
                    let t = to as usize;
                    if index[t] == UNSEEN {
                        calls.push((to, 0));
                    } else if on_stack[t] {
                        low[v] = low[v].min(index[t]);
                    }
                }
                None => {
                    if let Some((caller, _)) = calls.last() {
                        let caller = *caller as usize;
                        low[caller] = low[caller].min(low[v]);
                    }
                    if low[v] == index[v] {
                        let start = stack
                            .iter()
                            .rposition(|on| *on == vertex)
                            .expect("it is on the stack");
                        for member in &stack[start..] {
                            on_stack[*member as usize] = false;
                        }
                        if stack.len() - start > 1 {
                            let mut component = stack[start..].to_vec();
                            component.sort_unstable();
                            components.push(component);
                        }
                        stack.truncate(start);
                    }
                }
            }
        }
    }
    components
}
