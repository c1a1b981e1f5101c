//! The checks of a run at rest, and the situations that a good run reaches.

use std::num::NonZero;
use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_engine::view::{self, StoresView};
use anabranch_storage::Store;
use anabranch_types::{Placement, TableId, access::whole_table};

use crate::belt::replicated;
use crate::case::Case;
use crate::cluster::{Cluster, Watch};
use crate::constraints;
use crate::prepared::Prepared;
use crate::protocols::{ProtocolName, Simulated};
use crate::report::{Checked, RETRIED, RunStatistics};
use crate::rows::{rows_by_writers, rows_of};

/// The checks that were made during the run.
pub(crate) fn during_run<P: Simulated>(cluster: &Cluster<P>, watch: Watch) -> Checked {
    let mut checked = Checked::default();
    if let Some(every) = NonZero::new(watch.invariants_every) {
        let checks = cluster.hosts.iter().map(|host| host.steps / every);
        let checks = checks.map(u64::from).sum();
        checked.add("checks of a node's invariants after a step", checks);
    }
    checked.add("answers", cluster.statistics.answers);
    checked
}

/// Checks a cluster at rest. Adds what it finds to the cluster's violations, and counts the checks in `checked`.
pub(crate) fn at_rest<P: Simulated>(
    cluster: &mut Cluster<P>,
    planned: &Arc<PlannedApplication>,
    checked: &mut Checked,
) {
    let mut found = Vec::new();
    let nodes = u64::from(cluster.placement.nodes());
    match cluster.calls() {
        0 => {}
        1 => found.push("a call is still running at a node".to_owned()),
        count => found.push(format!("{count} calls are still running at nodes")),
    }
    match cluster.open_blocks() {
        0 => {}
        count => found.push(format!(
            "INT-I6: {count} transactions of clients are still open"
        )),
    }
    for (protocol, node) in cluster.protocols().zip(0..) {
        let node: u16 = node;
        let wrong = protocol.leftovers();
        found.extend(wrong.map(|left| format!("n{node} is not at rest: {left}")));
        let broken = protocol
            .check_invariants()
            .and_then(|()| protocol.store().check_invariants());
        found.extend(
            broken
                .err()
                .map(|broken| format!("n{node} at rest: {broken}")),
        );
    }
    if cluster.node_builder.is_durable() {
        found.extend(cluster.missing_commits());
        let acknowledged = cluster.acknowledged.len() as u64;
        checked.add("acknowledged commits looked for", acknowledged);
        checked.add("stores that were recovered", cluster.compared);
    }
    checked.add("nodes with nothing left prepared or locked", nodes);
    checked.add("stores' invariants", nodes);
    if cluster.placement.factor() > 1 {
        let (differ, compared) = cluster.replicas_that_differ();
        found.extend(differ);
        checked.add("replicas with their primary's rows", compared);
    }
    let clusters = (0..cluster.clusters).map(|one| stores_of(cluster, one));
    let Some(clusters) = clusters.collect::<Option<Vec<Vec<&Store>>>>() else {
        cluster.violations.extend(found);
        return;
    };
    if cluster.node_builder.shared.protocol.partitions_operations() {
        let servers: Vec<&Store> = clusters.into_iter().flatten().collect();
        let (differ, compared) = replicated::differences(planned, &servers);
        found.extend(differ);
        checked.add("rows whose replicated columns are equal", compared);
        cluster.violations.extend(found);
        return;
    }
    for stores in &clusters {
        found.extend(check_stores(planned, stores, checked));
    }
    if clusters.len() > 1 {
        let (differ, compared) = clusters_that_differ(cluster);
        found.extend(differ);
        checked.add("partitions with the same rows in other clusters", compared);
        let nodes = (0..cluster.placement.nodes()).filter_map(|node| cluster.node(node));
        let decisions: Vec<u64> = nodes.filter_map(|it| it.protocol().decisions()).collect();
        if decisions.windows(2).any(|two| two[0] != two[1]) {
            found.push("GRD-I4: sites have decided differently".to_owned());
        }
        checked.add(
            "sites with the same decisions",
            decisions.len().saturating_sub(1) as u64,
        );
    }
    cluster.violations.extend(found);
}

/// The stores of one cluster, by partition; `None` if a node of it is down.
fn stores_of<P: Simulated>(cluster: &Cluster<P>, number: u16) -> Option<Vec<&Store>> {
    let nodes = (number..cluster.placement.nodes()).step_by(usize::from(cluster.clusters));
    nodes
        .map(|node| Some(cluster.node(node)?.protocol().store()))
        .collect()
}

/// At rest: the partitions with different rows in different clusters, and how many were compared.
fn clusters_that_differ<P: Simulated>(cluster: &Cluster<P>) -> (Vec<String>, u64) {
    let (mut found, mut compared) = (Vec::new(), 0);
    let Some(first) = stores_of(cluster, 0) else {
        return (found, compared);
    };
    let extensions = cluster.node_builder.shared.extensions;
    let invariant = match (extensions.prepare_f, extensions.quorum) {
        _ if cluster.node_builder.shared.homes.is_some() => "GRD-I7",
        _ if cluster.node_builder.shared.protocol.has_sites() => "PCC-I5",
        (Some(_), _) => "PREPF-I3",
        (None, Some(_)) => "QUORUM-I5",
        (None, None) => "STICKY-I2",
    };
    // Certification compares writers.
    let with_writers = invariant == "PCC-I5";
    for number in 1..cluster.clusters {
        let others = stores_of(cluster, number).into_iter().flatten();
        for (partition, (one, other)) in first.iter().zip(others).enumerate() {
            compared += 1;
            let differ = match with_writers {
                true => rows_by_writers(one) != rows_by_writers(other),
                false => rows_of(one) != rows_of(other),
            };
            if differ {
                found.push(format!(
                    "{invariant}: partition {partition} has other rows in cluster {number} than in \
                     cluster 0"
                ));
            }
        }
    }
    (found, compared)
}

/// Checks assertions and constraints on the merged state of one cluster; returns the violations.
fn check_stores(
    planned: &Arc<PlannedApplication>,
    stores: &[&Store],
    checked: &mut Checked,
) -> Vec<String> {
    let mut found = Vec::new();
    for assertion in planned.application.assertions() {
        let mut view = StoresView::new(Arc::clone(planned), stores);
        match view::run(assertion.holds(&mut view)) {
            Ok(true) => {}
            Ok(false) => found.push(format!("assertion {} does not hold", assertion.name())),
            Err(error) => found.push(format!(
                "assertion {} cannot be evaluated: {error:?}",
                assertion.name()
            )),
        }
        checked.add(format!("assertion {}", assertion.name()), 1);
    }
    let (violated, constraints) = constraints::violated(planned, stores);
    found.extend(violated);
    checked.add(
        "declared constraints on the merged state",
        constraints as u64,
    );
    let (differ, copied) = copies_that_differ(planned, stores);
    found.extend(differ);
    checked.add("copied tables that agree on all nodes", copied);
    found
}

/// Replicated tables with copies that differ, and the number of replicated tables.
fn copies_that_differ(planned: &PlannedApplication, stores: &[&Store]) -> (Vec<String>, u64) {
    let router = &planned.execution.router;
    let tables = (0..planned.schema().tables.len() as u16).map(TableId);
    let copied = tables.filter(|t| *router.placement(*t) == Placement::Replicated);
    let copied: Vec<TableId> = copied.collect();
    let rows = |store: &Store, table| {
        let fetched = store.fetch(&whole_table(table), None);
        format!(
            "{:?}",
            fetched
                .expect("the newest state is above the floor")
                .into_answer()
        )
    };
    let differ = |table: &TableId| {
        let first = rows(stores[0], *table);
        stores[1..].iter().any(|store| rows(store, *table) != first)
    };
    let found = copied.iter().filter(|table| differ(table)).map(|table| {
        let name = &planned.schema().table(*table).name;
        format!("the copies of table \"{name}\" differ")
    });
    (found.collect(), copied.len() as u64)
}

/// Situations that this case's faults should have caused in a run, and did not.
pub(crate) fn missing(case: &Case, statistics: &RunStatistics) -> Vec<&'static str> {
    let mut expected = Vec::new();
    if case.replicas > 1 && case.plan.faults.iter().any(|f| f.kind.loses_server()) {
        expected.push("a replica became the primary");
    }
    for fault in &case.plan.faults {
        expected.extend(fault.kind.expects());
    }
    expected.sort_unstable();
    expected.dedup();
    expected.retain(|name| !statistics.sometimes.contains_key(name));
    expected
}

/// A reader met a race, and its protocol noticed. It repairs a point read by a request for the missing version; for
/// a range the transaction is retried.
const RACE: &str = "a reader met a race, which was repaired or retried";

/// RAMP's second round found a missing sibling.
pub(crate) const REPAIRED: &str = "a second round of reads repaired a race";

/// E-PCI's commit check.
pub(crate) const COMMIT_CHECK: &str = "an owner made a commit check";

/// Locking.
pub(crate) const LOCK_WAIT: &str = "a request waited for another transaction";

/// Sticky clusters.
pub(crate) const APPLIED_REMOTE: &str = "a cluster applied a transaction of another";

/// Prepare-F.
pub(crate) const PREPARED_EARLY: &str = "a client was answered before every cluster had prepared";

/// Quorum operation: an earlier answer.
pub(crate) const VISIBLE_EARLY: &str =
    "a client was answered before every copy had installed its commit";

/// Quorum operation: a read that did not wait for the nearest copy.
pub(crate) const OTHER_COPY: &str = "a read used another copy than the nearest";

/// Quorum operation: a stale read.
pub(crate) const STALE: &str = "a read missed an acknowledged write";

/// Situations that runs of this protocol and workload reach sometimes, and this run did not.
pub(crate) fn unseen(
    case: &Case,
    prepared: &Prepared,
    statistics: &RunStatistics,
) -> Vec<&'static str> {
    let has_seen = |name| statistics.sometimes.contains_key(name);
    let may_fracture = prepared.nodes > 1 && prepared.workload.may_fracture();
    let clusters = case.clusters;
    let early = |failures| failures + 1 < clusters;
    let expected = [
        (
            RACE,
            may_fracture && case.protocol.is_ramp(),
            has_seen(REPAIRED) || has_seen(RETRIED),
        ),
        (
            COMMIT_CHECK,
            may_fracture && case.protocol == ProtocolName::EPci,
            has_seen(COMMIT_CHECK),
        ),
        (
            LOCK_WAIT,
            case.protocol == ProtocolName::Locking,
            has_seen(LOCK_WAIT),
        ),
        (
            PREPARED_EARLY,
            case.extensions.prepare_f.is_some_and(early),
            has_seen(PREPARED_EARLY),
        ),
        (
            VISIBLE_EARLY,
            case.extensions.quorum.is_some(),
            has_seen(VISIBLE_EARLY),
        ),
        (
            APPLIED_REMOTE,
            clusters > 1
                && case.protocol.is_ramp()
                && case.extensions.prepare_f.is_none()
                && case.extensions.quorum.is_none(),
            has_seen(APPLIED_REMOTE),
        ),
    ];
    let unseen = expected.into_iter().filter(|(_, can, seen)| *can && !seen);
    unseen.map(|(name, ..)| name).collect()
}
