//! Several clusters, each with all of the data (ramp.txt §6.1): which cases there can be, and whether
//! the clusters have come to the same rows.

use anabranch_sql::merging::ColumnPolicy;
use anabranch_sql::summary::{ColumnWrite, Role, TableAccess, WriteClass};
use anabranch_storage::Store;

use crate::case::{Case, CaseError, NODES_MAX, Prepared};
use crate::cluster::Cluster;
use crate::host::rows_of;
use crate::protocols::Simulated;

/// Why a case with clusters cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClustersError {
    /// Prepare-F or quorums, and no other cluster to prepare in.
    Alone,
    /// Quorums, and another copy would be asked at once, or never.
    Impatient,
    /// No write could be acknowledged.
    TooFew {
        /// How many clusters may be lost.
        failures: u16,
        /// How many there are.
        clusters: u16,
    },
    /// Prepare-F and quorums.
    Both,
    /// What does not go together with several clusters.
    Beside {
        /// The option.
        option: &'static str,
    },
    /// A procedure does what one cluster could refuse when another has accepted it, or what would have
    /// to be ordered across clusters.
    Ordered {
        /// The procedure.
        procedure: String,
        /// What it does.
        what: &'static str,
    },
}

impl std::fmt::Display for ClustersError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClustersError::Alone => f.write_str(
                "Prepare-F and quorums prepare in several clusters, and there is one: give --clusters \
                 as well",
            ),
            ClustersError::Impatient => f.write_str(
                "a copy has to be given some time to answer before another one is asked: let \
                 --quorum be at least 1 microsecond, and at most an hour (3600000000)",
            ),
            ClustersError::TooFew { failures, clusters } => write!(
                f,
                "what is to survive the loss of {failures} clusters has to be in {}, and there are \
                 {clusters}: let fewer be lost, or give more clusters",
                u32::from(*failures) + 1
            ),
            ClustersError::Both => f.write_str(
                "Prepare-F shows what all clusters have, quorums what a majority of the copies has: give \
                 --prepare-f or --quorum",
            ),
            ClustersError::Beside { option } => {
                write!(f, "{option} does not go together with several clusters")
            }
            ClustersError::Ordered { procedure, what } => write!(
                f,
                "\"{procedure}\" {what}, which would have to be ordered across clusters: run this \
                 workload in one cluster (its nodes may have --replicas), or one that only assigns \
                 columns of rows that are there (register, ycsb), or merges them (tally; not with --quorum)"
            ),
        }
    }
}

/// The longest that a copy may be waited for before another one is asked, in microseconds: an hour.
const PATIENCE_US_MAX: u64 = 3_600_000_000;

/// Refuses what several clusters cannot do, before anything runs.
pub(crate) fn check(case: &Case, prepared: &Prepared) -> Result<(), CaseError> {
    let refuse = |error| Err(CaseError::Clusters(error));
    let nodes = u32::from(prepared.nodes) * u32::from(case.clusters);
    if case.clusters == 0 || nodes > u32::from(NODES_MAX) {
        return Err(CaseError::OutOfRange {
            what: "clusters, and that of their nodes,",
            permitted: format!("at least 1, and at most {NODES_MAX} nodes"),
        });
    }
    match (case.clusters, case.extras.prepare_f) {
        (1, None) if case.extras.quorum.is_none() => return Ok(()),
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
    let bearable = |patience: u64| (1..=PATIENCE_US_MAX).contains(&patience);
    if case
        .extras
        .quorum
        .is_some_and(|patience| !bearable(patience))
    {
        return refuse(ClustersError::Impatient);
    }
    if case.extras.prepare_f.is_some() && case.extras.quorum.is_some() {
        return refuse(ClustersError::Both);
    }
    let beside: [(&'static str, bool); 5] = [
        ("--replicas", case.replicas > 1),
        ("--causal", case.extras.causal),
        ("--one-phase", case.extras.one_phase),
        ("--unsent-commits", case.termination.lost_commits > 0),
        (
            "a server that never comes back",
            !case.plan.deaths().is_empty(),
        ),
    ];
    if let Some((option, _)) = beside.into_iter().find(|(_, on)| *on) {
        return refuse(ClustersError::Beside { option });
    }
    match ordered(prepared, case.extras.quorum.is_none()) {
        Some(error) => refuse(error),
        None => Ok(()),
    }
}

/// A procedure of the workload that needs an order, if there is one. `merges` is whether clusters add up, or
/// compare, what others have done to a row.
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

/// Whether procedures of the workload do more to columns than assign them.
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

impl<P: Simulated> Cluster<P> {
    /// The stores of one cluster, by partition, if all its nodes live.
    pub(crate) fn stores_of(&self, cluster: u16) -> Option<Vec<&Store>> {
        let nodes = (cluster..self.placement.nodes()).step_by(usize::from(self.clusters));
        nodes
            .map(|node| Some(self.node(node)?.protocol().store()))
            .collect()
    }

    /// At rest: partitions whose rows are not the same in all clusters, and how many were compared.
    pub(crate) fn clusters_that_differ(&self) -> (Vec<String>, u64) {
        let (mut found, mut compared) = (Vec::new(), 0);
        let Some(first) = self.stores_of(0) else {
            return (found, compared);
        };
        let extras = self.revival.shared.extras;
        let invariant = match (extras.prepare_f, extras.quorum) {
            (Some(_), _) => "PREPF-I3",
            (None, Some(_)) => "QUORUM-I5",
            (None, None) => "STICKY-I2",
        };
        for cluster in 1..self.clusters {
            let others = self.stores_of(cluster).into_iter().flatten();
            for (partition, (one, other)) in first.iter().zip(others).enumerate() {
                compared += 1;
                if rows_of(one) != rows_of(other) {
                    found.push(format!(
                        "{invariant}: partition {partition} has other rows in cluster {cluster} than \
                         in cluster 0"
                    ));
                }
            }
        }
        (found, compared)
    }
}
