//! Each model as a list of phenomena to look for.
//!
//! Cycles are looked for in strongly connected components, over more and more kinds of edges: write
//! dependencies (G0), read dependencies (G1c), antidependencies (the others). Of each component one
//! short cycle is explained.

use crate::Model;
use crate::dependency::{Additions, Commuting, draw};
use crate::graph::{Dependency, Graph, GraphBuilder, Kinds, Scratch, Step, Vertex};
use crate::history::{DirectKind, History};
use crate::phenomenon::Phenomenon;
use crate::verdict::{Findings, Verdict};
use crate::{causal, fracture, inferred, reader, session};

/// The history does not say what the model is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsuitable {
    /// No sessions.
    #[error("the history names no sessions, and {0} is about them")]
    NoSessions(Model),
    /// No order of versions.
    #[error(
        "values alone do not tell the order of a register's versions, and {0} is about it; \
         list-append tells it"
    )]
    NoOrder(Model),
    /// No times.
    #[error("the history does not say when transactions were invoked and completed, and {0} asks")]
    NoTimes(Model),
}

/// How many transactions of a component a short cycle is sought from.
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

/// Holds a history against a model.
///
/// # Errors
/// [`Unsuitable`] when the history lacks what the model is about.
pub fn check(history: &History, model: Model) -> Result<Verdict, Unsuitable> {
    let committed = || {
        history
            .committed_numbers()
            .map(|number| history.facts(number))
    };
    let of_sessions = model.of_sessions();
    match model {
        _ if of_sessions.is_some() && committed().all(|facts| facts.session.is_none()) => {
            return Err(Unsuitable::NoSessions(model));
        }
        _ if of_sessions.is_some() && history.forest.is_some() => {
            return Err(Unsuitable::NoOrder(model));
        }
        Model::StrictSerializable
            if history.committed() > 1
                && !committed()
                    .any(|facts| facts.invoked.is_some() && facts.completed.is_some()) =>
        {
            return Err(Unsuitable::NoTimes(model));
        }
        _ => {}
    }
    let mut findings = Findings::new(history);
    direct(&mut findings, model);
    match model {
        Model::ReadCommitted => visibility(&mut findings),
        Model::ReadAtomic => {
            visibility(&mut findings);
            fractures(&mut findings);
        }
        Model::MonotonicReads
        | Model::MonotonicWrites
        | Model::ReadYourWrites
        | Model::WritesFollowReads
        | Model::Sessions => session::check(&mut findings, of_sessions.unwrap_or_default()),
        Model::Causal => {
            visibility(&mut findings);
            fractures(&mut findings);
            match &history.forest {
                Some(_) => inferred::causal(&mut findings),
                None => causal::check(&mut findings),
            }
        }
        Model::Snapshot => {
            fractures(&mut findings);
            let graph = draw(history, Commuting::Increments, Additions::default());
            committed_cycles(&graph, &mut findings);
            if let Some(forest) = &history.forest {
                inferred::lost_updates(forest, &mut findings);
            }
            snapshot(&graph, &mut findings);
        }
        Model::UpdateSerializable => {
            fractures(&mut findings);
            let graph = draw(history, Commuting::Increments, Additions::default());
            committed_cycles(&graph, &mut findings);
            reader::check(&graph, &mut findings);
        }
        Model::Serializable | Model::StrictSerializable => {
            fractures(&mut findings);
            let additions = Additions {
                real_time: model == Model::StrictSerializable,
                sessions: false,
            };
            let graph = draw(history, Commuting::Increments, additions);
            committed_cycles(&graph, &mut findings);
            serializable(&graph, &mut findings);
        }
    }
    Ok(findings.into_verdict(model))
}

/// What single reads and writes show.
fn direct(findings: &mut Findings<'_>, model: Model) {
    let history = findings.history;
    for found in &history.direct {
        let phenomenon = match found.what {
            DirectKind::LostWrite => Phenomenon::LostWrite,
            DirectKind::WrongVersion => Phenomenon::WrongVersion,
            // Sessions say nothing of who else is seen.
            DirectKind::AbortedRead | DirectKind::IntermediateRead
                if model.of_sessions().is_some() =>
            {
                continue;
            }
            // Read committed says nothing of what a transaction sees of itself.
            DirectKind::Internal
                if model == Model::ReadCommitted || model.of_sessions().is_some() =>
            {
                continue;
            }
            DirectKind::IncompatibleOrder => Phenomenon::IncompatibleOrder,
            DirectKind::DuplicateElement => Phenomenon::DuplicateElements,
            DirectKind::Internal => Phenomenon::Internal,
            DirectKind::AbortedRead => Phenomenon::G1a,
            DirectKind::IntermediateRead => Phenomenon::G1b,
        };
        findings.add_direct(phenomenon, found.transaction, found.item, found.other);
    }
}

fn fractures(findings: &mut Findings<'_>) {
    match &findings.history.forest {
        Some(forest) => inferred::fractures(forest, findings),
        None => fracture::check(findings),
    }
}

/// G0 and G1c for models of visibility, in which deferred effects have no order.
fn visibility(findings: &mut Findings<'_>) {
    let graph = draw(findings.history, Commuting::Deferred, Additions::default());
    committed_cycles(&graph, findings);
}

/// G0 and G1c.
fn committed_cycles(graph: &Graph, findings: &mut Findings<'_>) {
    let mut scratch = Scratch::default();
    for component in graph.components(WRITES) {
        if let Some(cycle) = graph.shortest_cycle(&component, WRITES, TRIES, &mut scratch) {
            findings.add_cycle(Phenomenon::G0, &cycle);
        }
    }
    for component in graph.components(DEPENDENCIES) {
        if let Some(cycle) = graph.shortest_cycle(&component, DEPENDENCIES, TRIES, &mut scratch) {
            report_new(findings, &cycle);
        }
    }
}

/// Reports a cycle, unless it is of a kind that has been looked for already.
fn report_new(findings: &mut Findings<'_>, cycle: &[Step]) {
    let phenomenon = Phenomenon::of_cycle(cycle);
    let looked_for = match phenomenon {
        Phenomenon::G0 => true,
        Phenomenon::G1c => cycle_count(cycle, Dependency::WriteRead) == 0,
        _ => false,
    };
    if !looked_for || !findings.has(phenomenon) {
        findings.add_cycle(phenomenon, cycle);
    }
}

fn cycle_count(cycle: &[Step], kind: Dependency) -> usize {
    cycle.iter().filter(|step| step.kind == kind).count()
}

/// Any cycle at all.
fn serializable(graph: &Graph, findings: &mut Findings<'_>) {
    let mut scratch = Scratch::default();
    for component in graph.components(ALL) {
        if let Some(cycle) = graph.shortest_cycle(&component, ALL, TRIES, &mut scratch) {
            let phenomenon = Phenomenon::of_cycle(&cycle);
            // What has fewer kinds of edges has been reported.
            if !matches!(phenomenon, Phenomenon::G0 | Phenomenon::G1c) {
                findings.add_cycle(phenomenon, &cycle);
            }
        }
    }
}

/// Cycles without two antidependencies next to each other (Cerone and Gotsman, Theorem 4.1): each
/// transaction is two vertices, one reached by an antidependency and one otherwise, and from the
/// first no antidependency leads on.
fn snapshot(graph: &Graph, findings: &mut Findings<'_>) {
    let transactions = findings.history.transactions.len() as Vertex;
    let vertices = graph.vertices() as Vertex;
    let twin = |vertex: Vertex, after_anti: bool| match (vertex < transactions, after_anti) {
        (true, false) => vertex,
        (true, true) => vertex + transactions,
        (false, false) => vertex + transactions,
        (false, true) => vertex + vertices,
    };
    let mut builder = GraphBuilder::new(2 * transactions as usize);
    for _ in 0..2 * (vertices - transactions) {
        builder.state();
    }
    for from in 0..vertices {
        for edge in graph.edges(from) {
            let (to, kind, item) = (edge.to, edge.kind, edge.item);
            match kind {
                Dependency::ReadWrite => {
                    builder.edge(twin(from, false), twin(to, true), kind, item);
                }
                Dependency::Silent => {
                    builder.edge(twin(from, false), twin(to, false), kind, item);
                    builder.edge(twin(from, true), twin(to, true), kind, item);
                }
                _ => {
                    builder.edge(twin(from, false), twin(to, false), kind, item);
                    builder.edge(twin(from, true), twin(to, false), kind, item);
                }
            }
        }
    }
    let doubled = builder.build();
    let mut scratch = Scratch::default();
    for component in doubled.components(ALL) {
        let Some(mut cycle) = doubled.shortest_cycle(&component, ALL, TRIES, &mut scratch) else {
            continue;
        };
        for step in &mut cycle {
            step.from %= transactions;
            step.to %= transactions;
        }
        let phenomenon = Phenomenon::of_cycle(&cycle);
        if !matches!(phenomenon, Phenomenon::G0 | Phenomenon::G1c) {
            findings.add_cycle(phenomenon, &cycle);
        }
    }
}
