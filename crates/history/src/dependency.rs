//! A history's serialization graph: which transaction must precede which, and why.
//!
//! This is the direct serialization graph of ramp.txt, Definition 3.5 (Adya 1999, §3.1), with two additions. Session
//! order and real time add edges where a model requires them. And writes that commute are not ordered among
//! themselves: adjacent increments in an item's version order form a *bag*. A reader sees the prefix of the bag up to
//! the version that it read: it follows the writers in that prefix and precedes the others. To keep the number of
//! edges linear, a bag has states: one after each version, and one before each version.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::graph::{Dependency, Graph, GraphBuilder, Vertex};
use crate::history::{History, VersionFact};
use crate::numbers::{ItemNumber, Position, TransactionNumber};
use crate::partial_order::add_version_orders;
use crate::record::WriteKind;

/// Which writes of one item are unordered among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commuting {
    /// Increments: for models in which all other orders must agree between items.
    Increments,
    /// Also deferred effects, which their owner orders: for models of visibility.
    Deferred,
}

impl Commuting {
    fn includes(self, kind: WriteKind) -> bool {
        match kind {
            WriteKind::Increment => true,
            WriteKind::Apply => self == Commuting::Deferred,
            WriteKind::Assign | WriteKind::Append | WriteKind::Insert | WriteKind::Delete => false,
        }
    }

    /// The bag around a version: the positions of adjacent writes that commute.
    fn bag(self, versions: &[VersionFact], position: Position) -> Range<Position> {
        let at = position as usize - 1;
        if !self.includes(versions[at].kind) {
            return position..position + 1;
        }
        let apart = |version: &VersionFact| !self.includes(version.kind);
        let start = versions[..at]
            .iter()
            .rposition(apart)
            .map_or(0, |at| at + 1);
        let end = versions[at..]
            .iter()
            .position(apart)
            .map_or(versions.len(), |found| at + found);
        start as Position + 1..end as Position + 1
    }
}

/// Edges beyond those of reads and writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OptionalEdges {
    pub(crate) sessions: bool,
    pub(crate) real_time: bool,
}

/// Builds the graph of the committed transactions.
pub(crate) fn serialization_graph(
    history: &History,
    commuting: Commuting,
    additions: OptionalEdges,
) -> Graph {
    let mut drawing = DependencyGraphBuilder {
        history,
        builder: GraphBuilder::new(history.transactions.len()),
        bags: FxHashMap::default(),
    };
    match &history.forest {
        Some(forest) => add_version_orders(history, forest, &mut drawing.builder),
        None => {
            for item in 0..history.items.len() as ItemNumber {
                drawing.versions(item, commuting);
            }
        }
    }
    for (from, to, kind, item) in &history.inferred {
        drawing.builder.edge(*from, *to, *kind, *item);
    }
    for reader in history.committed_numbers() {
        drawing.reads(reader);
    }
    if additions.sessions {
        drawing.sessions();
    }
    if additions.real_time {
        drawing.real_time();
    }
    drawing.builder.build()
}

/// The states of one bag.
#[derive(Clone, Debug)]
struct Bag {
    /// The positions in it.
    positions: Range<Position>,
    /// The first of the states after each version and those before it.
    behind: Vertex,
    /// The first of the states before each version and those after it.
    before: Vertex,
}

struct DependencyGraphBuilder<'h> {
    history: &'h History,
    builder: GraphBuilder,
    /// An item's bags of more than one version, in order.
    bags: FxHashMap<ItemNumber, Vec<Bag>>,
}

impl DependencyGraphBuilder<'_> {
    /// Adds the write dependencies and the states of bags.
    fn versions(&mut self, item: ItemNumber, commuting: Commuting) {
        let history = self.history;
        let versions = history.versions_of(item);
        let mut start = 1;
        let mut earlier: Option<Range<Position>> = None;
        while start as usize <= versions.len() {
            let bag = commuting.bag(versions, start);
            start = bag.end;
            if let Some(earlier) = &earlier {
                // One of the two is a single version: bags are never adjacent.
                for from in earlier.clone() {
                    for to in bag.clone() {
                        let writer = |position: Position| versions[position as usize - 1].writer;
                        let (from, to) = (writer(from), writer(to));
                        self.builder.edge(from, to, Dependency::WriteWrite, item);
                    }
                }
            }
            if bag.len() > 1 {
                self.states(item, versions, &bag);
            }
            earlier = Some(bag);
        }
    }

    fn states(&mut self, item: ItemNumber, versions: &[VersionFact], bag: &Range<Position>) {
        let writers = &versions[bag.start as usize - 1..bag.end as usize - 1];
        let behind: Vec<Vertex> = writers.iter().map(|_| self.builder.state()).collect();
        let before: Vec<Vertex> = writers.iter().map(|_| self.builder.state()).collect();
        for (at, version) in writers.iter().enumerate() {
            let writer = version.writer;
            self.builder
                .edge(writer, behind[at], Dependency::WriteRead, item);
            self.builder
                .edge(before[at], writer, Dependency::ReadWrite, item);
            if at + 1 < writers.len() {
                self.builder
                    .edge(behind[at], behind[at + 1], Dependency::Silent, item);
                self.builder
                    .edge(before[at], before[at + 1], Dependency::Silent, item);
            }
        }
        self.bags.entry(item).or_default().push(Bag {
            positions: bag.clone(),
            behind: behind[0],
            before: before[0],
        });
    }

    fn bag_of(&self, item: ItemNumber, position: Position) -> Option<Bag> {
        let bags = self.bags.get(&item)?;
        let at = bags.partition_point(|bag| bag.positions.end <= position);
        bags.get(at)
            .filter(|bag| bag.positions.contains(&position))
            .cloned()
    }

    /// Adds the read dependencies and antidependencies of one transaction.
    fn reads(&mut self, reader: TransactionNumber) {
        let history = self.history;
        for read in history.reads_of(reader) {
            if read.shown > 0 {
                self.depends(reader, read.item, read.shown);
            }
            if let Some(next) = read.next
                && history.forest.is_none()
            {
                self.antidepends(reader, read.item, next);
            }
        }
    }

    /// Orders the reader after this version and those before it in its bag.
    fn depends(&mut self, reader: Vertex, item: ItemNumber, shown: Position) {
        let history = self.history;
        let writer = |position| history.writer(item, position).expect("it was read");
        let Some(bag) = self.bag_of(item, shown) else {
            let from = writer(shown);
            return self.builder.edge(from, reader, Dependency::WriteRead, item);
        };
        // The reader's own write in the bag must not lead back to it.
        let own = history.position(reader, item);
        let own = own.filter(|own| (bag.positions.start..=shown).contains(own));
        let direct = own.map_or(shown + 1, |own| own + 1)..=shown;
        for position in direct {
            let from = writer(position);
            self.builder.edge(from, reader, Dependency::WriteRead, item);
        }
        let through = own.map_or(shown, |own| own - 1);
        if bag.positions.contains(&through) {
            let state = bag.behind + (through - bag.positions.start);
            self.builder.edge(state, reader, Dependency::Silent, item);
        }
    }

    /// Orders the reader before this version and those after it in its bag.
    fn antidepends(&mut self, reader: Vertex, item: ItemNumber, next: Position) {
        let history = self.history;
        let writer = |position| history.writer(item, position).expect("it comes next");
        let Some(bag) = self.bag_of(item, next) else {
            let to = writer(next);
            return self.builder.edge(reader, to, Dependency::ReadWrite, item);
        };
        let own = history.position(reader, item);
        let own = own.filter(|own| (next..bag.positions.end).contains(own));
        for position in next..own.unwrap_or(next) {
            let to = writer(position);
            self.builder.edge(reader, to, Dependency::ReadWrite, item);
        }
        let through = own.map_or(next, |own| own + 1);
        if bag.positions.contains(&through) {
            let state = bag.before + (through - bag.positions.start);
            self.builder.edge(reader, state, Dependency::Silent, item);
        }
    }

    fn sessions(&mut self) {
        let mut last: FxHashMap<u32, TransactionNumber> = FxHashMap::default();
        for number in self.history.committed_numbers() {
            if let Some(session) = self.history.facts(number).session
                && let Some(before) = last.insert(session, number)
            {
                self.builder.edge(before, number, Dependency::Session, 0);
            }
        }
    }

    /// Adds a state after each completion, in time order. A transaction follows the last completion before its
    /// invocation.
    fn real_time(&mut self) {
        let history = self.history;
        let mut answers: Vec<(u64, TransactionNumber)> = history
            .committed_numbers()
            .filter_map(|number| Some((history.facts(number).completed?, number)))
            .collect();
        answers.sort_unstable();
        let states: Vec<Vertex> = answers.iter().map(|_| self.builder.state()).collect();
        for (at, (_, number)) in answers.iter().enumerate() {
            self.builder
                .edge(*number, states[at], Dependency::RealTime, 0);
            if at > 0 {
                self.builder
                    .edge(states[at - 1], states[at], Dependency::Silent, 0);
            }
        }
        for number in history.committed_numbers() {
            let Some(invoked) = history.facts(number).invoked else {
                continue;
            };
            let before = answers.partition_point(|(answered, _)| *answered < invoked);
            if let Some(last) = before.checked_sub(1) {
                self.builder
                    .edge(states[last], number, Dependency::Silent, 0);
            }
        }
    }
}
