//! The cases that can run in several clusters, each with all of the data (ramp.txt §6.1).

use anabranch_sql::merging::ColumnPolicy;
use anabranch_sql::summary::{ColumnWrite, Role, TableAccess, WriteClass};

use crate::case::Case;
use crate::error::{CaseError, ClustersError};
use crate::prepared::{NODES_MAX, Prepared};

/// The longest time that a read may wait for one copy before it is sent to another, in microseconds: an hour.
const QUORUM_US_MAX: u64 = 3_600_000_000;

/// Refuses cases that several clusters cannot run.
pub(crate) fn check(case: &Case, prepared: &Prepared) -> Result<(), CaseError> {
    let refuse = |error| Err(CaseError::Clusters(error));
    let nodes = u32::from(prepared.nodes) * u32::from(case.clusters);
    if case.clusters == 0 || nodes > u32::from(NODES_MAX) {
        return Err(CaseError::OutOfRange {
            what: "clusters, and that of their nodes,",
            permitted: format!("at least 1, and at most {NODES_MAX} nodes"),
        });
    }
    match (case.clusters, case.extensions.prepare_f) {
        (1, None) if case.extensions.quorum.is_none() => return Ok(()),
        (1, _) => return refuse(ClustersError::Alone),
        (clusters, Some(failures)) if failures >= clusters => {
            return refuse(ClustersError::TooFew { failures, clusters });
        }
        _ => {}
    }
    if !case.protocol.is_ramp() {
        return Err(CaseError::NoRamp {
            option: "several clusters (--clusters)",
            protocol: case.protocol.name(),
        });
    }
    let permitted = 1..=QUORUM_US_MAX;
    if (case.extensions.quorum).is_some_and(|wait_us| !permitted.contains(&wait_us)) {
        return refuse(ClustersError::QuorumWait);
    }
    if case.extensions.prepare_f.is_some() && case.extensions.quorum.is_some() {
        return refuse(ClustersError::Both);
    }
    let beside: [(&'static str, bool); 5] = [
        ("--replicas", case.replicas > 1),
        ("--causal", case.extensions.causal),
        ("--one-phase", case.extensions.one_phase),
        ("--lost-commits", case.termination.lost_commits > 0),
        (
            "the permanent loss of a server",
            !case.plan.permanent_losses().is_empty(),
        ),
    ];
    if let Some((option, _)) = beside.into_iter().find(|(_, on)| *on) {
        return refuse(ClustersError::Excluded { option });
    }
    match ordered(prepared, case.extensions.quorum.is_none()) {
        Some(error) => refuse(error),
        None => Ok(()),
    }
}

/// The first procedure of the workload that has to be ordered across clusters. `merges` is whether clusters merge
/// each other's updates of a row.
fn ordered(prepared: &Prepared, merges: bool) -> Option<ClustersError> {
    let planned = &prepared.planned;
    let names = prepared.workload.procedures();
    let refuse = |procedure: &str, what| {
        Some(ClustersError::Ordered {
            procedure: procedure.to_owned(),
            what,
        })
    };
    for name in names {
        let guarded = planned.plan.entry(name).is_some_and(|entry| {
            let guards = !entry.guarded_reads.is_empty() || !entry.guarded_writes.is_empty();
            guards || !entry.checks.is_empty()
        });
        if guarded {
            return refuse(name, "has guards");
        }
        let summaries = planned.application.summaries();
        let summary = summaries.iter().find(|summary| summary.name == *name);
        let statements = summary.into_iter().flat_map(|summary| &summary.statements);
        for access in statements.flat_map(|statement| &statement.accesses) {
            if let Some(what) = orders(prepared, access, merges) {
                return refuse(name, what);
            }
        }
    }
    None
}

fn orders(prepared: &Prepared, access: &TableAccess, merges: bool) -> Option<&'static str> {
    let application = &prepared.planned.application;
    let merged = |write: &ColumnWrite| match application.policy(access.table, write.column) {
        Some(ColumnPolicy::LastWriter) => matches!(write.class, WriteClass::Assign(_)),
        Some(_) => merges,
        None => false,
    };
    match access.role {
        Role::Read => None,
        Role::Insert => Some("inserts rows"),
        Role::Delete => Some("deletes rows"),
        Role::Update if access.writes.iter().all(merged) => None,
        Role::Update => Some("computes columns from the row"),
    }
}

/// Whether some procedure of the workload updates columns other than by assignment.
pub(crate) fn commutes(prepared: &Prepared) -> bool {
    let application = &prepared.planned.application;
    let names = prepared.workload.procedures();
    let summaries = application.summaries().iter();
    let summaries = summaries.filter(|summary| names.contains(&summary.name.as_str()));
    let accesses = summaries
        .flat_map(|summary| &summary.statements)
        .flat_map(|s| &s.accesses);
    accesses
        .filter(|access| access.role == Role::Update)
        .any(|access| {
            let policy = |write: &ColumnWrite| application.policy(access.table, write.column);
            access
                .writes
                .iter()
                .any(|write| policy(write) != Some(ColumnPolicy::LastWriter))
        })
}
