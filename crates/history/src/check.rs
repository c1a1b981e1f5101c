//! The checks of each model, as lists of phenomena.
//!
//! Cycles are found in strongly connected components over growing sets of edges: write dependencies (G0), read
//! dependencies (G1c), antidependencies (the others). For each component, one short cycle is explained.

use crate::Model;
use crate::dependency::{Commuting, OptionalEdges, serialization_graph};
use crate::findings::Findings;
use crate::graph::{
    ALL, DEPENDENCIES, Dependency, Graph, GraphBuilder, Scratch, Step, TRIES, Vertex, WRITES,
};
use crate::history::{DirectAnomalyKind, History};
use crate::phenomenon::Phenomenon;
use crate::verdict::Verdict;
use crate::{causal, fracture, inferred, session, update_serializability};

/// The history lacks information that the model requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsuitable {
    /// The history has no sessions.
    #[error("the history has no sessions, which {0} requires")]
    NoSessions(Model),
    /// The history does not determine the order of versions.
    #[error(
        "values alone do not tell the order of a register's versions, and {0} is about it; \
         list-append tells it"
    )]
    NoOrder(Model),
    /// The history has no times.
    #[error("the history has no invocation and completion times, which {0} requires")]
    NoTimes(Model),
}

/// Checks a history against a model.
///
/// # Errors
/// [`Unsuitable`] if the history lacks information that the model requires.
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
            let graph =
                serialization_graph(history, Commuting::Increments, OptionalEdges::default());
            committed_cycles(&graph, &mut findings);
            if let Some(forest) = &history.forest {
                inferred::lost_updates(forest, &mut findings);
            }
            snapshot(&graph, &mut findings);
        }
        Model::UpdateSerializable => {
            fractures(&mut findings);
            let graph =
                serialization_graph(history, Commuting::Increments, OptionalEdges::default());
            committed_cycles(&graph, &mut findings);
            update_serializability::check(&graph, &mut findings);
        }
        Model::Serializable | Model::StrictSerializable => {
            fractures(&mut findings);
            let additions = OptionalEdges {
                real_time: model == Model::StrictSerializable,
                sessions: false,
            };
            let graph = serialization_graph(history, Commuting::Increments, additions);
            committed_cycles(&graph, &mut findings);
            serializable(&graph, &mut findings);
        }
    }
    Ok(findings.into_verdict(model))
}

/// Reports phenomena of single reads and writes.
fn direct(findings: &mut Findings<'_>, model: Model) {
    let history = findings.history;
    for found in &history.direct {
        let phenomenon = match found.what {
            DirectAnomalyKind::LostWrite => Phenomenon::LostWrite,
            DirectAnomalyKind::WrongVersion => Phenomenon::WrongVersion,
            // Session guarantees do not restrict reads of other transactions.
            DirectAnomalyKind::AbortedRead | DirectAnomalyKind::IntermediateRead
                if model.of_sessions().is_some() =>
            {
                continue;
            }
            // Read committed does not restrict a transaction's reads of its own effects.
            DirectAnomalyKind::Internal
                if model == Model::ReadCommitted || model.of_sessions().is_some() =>
            {
                continue;
            }
            DirectAnomalyKind::IncompatibleOrder => Phenomenon::IncompatibleOrder,
            DirectAnomalyKind::DuplicateElement => Phenomenon::DuplicateElements,
            DirectAnomalyKind::Internal => Phenomenon::Internal,
            DirectAnomalyKind::AbortedRead => Phenomenon::G1a,
            DirectAnomalyKind::IntermediateRead => Phenomenon::G1b,
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

/// G0 and G1c for models of visibility, in which deferred effects are unordered.
fn visibility(findings: &mut Findings<'_>) {
    let graph = serialization_graph(
        findings.history,
        Commuting::Deferred,
        OptionalEdges::default(),
    );
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

/// Reports a cycle, unless its kind has been searched already.
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

/// Reports any cycle.
fn serializable(graph: &Graph, findings: &mut Findings<'_>) {
    let mut scratch = Scratch::default();
    for component in graph.components(ALL) {
        if let Some(cycle) = graph.shortest_cycle(&component, ALL, TRIES, &mut scratch) {
            let phenomenon = Phenomenon::of_cycle(&cycle);
            // Cycles over fewer kinds of edges have been reported.
            if !matches!(phenomenon, Phenomenon::G0 | Phenomenon::G1c) {
                findings.add_cycle(phenomenon, &cycle);
            }
        }
    }
}

/// Cycles without two adjacent antidependencies (Cerone and Gotsman, Theorem 4.1). Each transaction is two vertices,
/// one entered by an antidependency and one entered otherwise; no antidependency leaves the first.
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
