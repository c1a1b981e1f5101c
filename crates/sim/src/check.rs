//! What is checked when a run has come to rest, and what a good run has seen.

use std::num::NonZero;
use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_engine::view::{self, StoresView};
use anabranch_storage::Store;
use anabranch_types::{Placement, TableId, access::whole_table};

use crate::case::{Case, Prepared};
use crate::cluster::{Cluster, Watch};
use crate::constraints;
use crate::protocols::{ProtocolName, Simulated};
use crate::report::{Checked, Happenings, TRIED_AGAIN};

/// What has been checked while a cluster ran.
pub(crate) fn on_the_way<P: Simulated>(cluster: &Cluster<P>, watch: Watch) -> Checked {
    let mut checked = Checked::default();
    if let Some(every) = NonZero::new(watch.invariants_every) {
        let looks = cluster.hosts.iter().map(|host| host.steps / every);
        let looks = looks.map(u64::from).sum();
        checked.add("looks at a node's invariants after a step", looks);
    }
    checked.add("answers", cluster.happened.answers);
    checked
}

/// Checks a cluster at rest; what is wrong joins its violations, and what was checked the rest of it.
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
    if cluster.revival.is_durable() {
        found.extend(cluster.missing_commits());
        let acknowledged = cluster.acknowledged.len() as u64;
        checked.add("acknowledged commits looked for", acknowledged);
        checked.add("stores that came back", cluster.compared);
    }
    checked.add("nodes with nothing left prepared or locked", nodes);
    checked.add("stores' invariants", nodes);
    if cluster.placement.factor() > 1 {
        let (differ, compared) = cluster.replicas_that_differ();
        found.extend(differ);
        checked.add("replicas with their primary's rows", compared);
    }
    let clusters = (0..cluster.clusters).map(|one| cluster.stores_of(one));
    let Some(clusters) = clusters.collect::<Option<Vec<Vec<&Store>>>>() else {
        cluster.violations.extend(found);
        return;
    };
    for stores in &clusters {
        found.extend(check_stores(planned, stores, checked));
    }
    if clusters.len() > 1 {
        let (differ, compared) = cluster.clusters_that_differ();
        found.extend(differ);
        checked.add("partitions with the same rows in other clusters", compared);
    }
    cluster.violations.extend(found);
}

/// Checks what is declared of the merged state of one cluster; what is wrong with it.
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
    checked.add("tables with copies alike on all nodes", copied);
    found
}

/// Tables that are on every partition and differ, and how many are on every partition.
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

/// What this case's faults should have made a run see, and have not.
pub(crate) fn missing(case: &Case, happened: &Happenings) -> Vec<&'static str> {
    let mut expected = Vec::new();
    if case.replicas > 1 && case.plan.faults.iter().any(|f| f.kind.takes_server()) {
        expected.push("a replica became the primary");
    }
    for fault in &case.plan.faults {
        expected.extend(fault.kind.expects());
    }
    expected.sort_unstable();
    expected.dedup();
    expected.retain(|name| !happened.sometimes.contains_key(name));
    expected
}

/// A reader met a race, and its protocol saw it, in one of two ways: a version of a row is asked for by
/// its name, and what ranges cover is read again as a whole.
const RACE: &str = "a reader met a race, which was repaired or tried again";

/// Of Prepare-F.
pub(crate) const PREPARED_EARLY: &str = "a client was answered before every cluster had prepared";

/// Of quorum operation: what is gained, and what is given up.
pub(crate) const SHOWN_EARLY: &str = "a client was answered before every copy showed its commit";
pub(crate) const OTHER_COPY: &str = "a read went to another copy than the near one";
pub(crate) const STALE: &str = "a read missed what had been acknowledged";

/// What runs of this case's protocol and workload see now and then, and this one has not.
pub(crate) fn unseen(case: &Case, prepared: &Prepared, happened: &Happenings) -> Vec<&'static str> {
    let has_seen = |name| happened.sometimes.contains_key(name);
    let may_fracture = prepared.nodes > 1 && prepared.workload.may_fracture();
    let clusters = case.clusters;
    let early = |failures| failures + 1 < clusters;
    let expected = [
        (
            RACE,
            may_fracture && case.protocol.is_ramp(),
            has_seen("a second round of reads repaired a race") || has_seen(TRIED_AGAIN),
        ),
        (
            "an owner made a commit check",
            may_fracture && case.protocol == ProtocolName::EPci,
            has_seen("an owner made a commit check"),
        ),
        (
            "a request waited for another transaction",
            case.protocol == ProtocolName::Locking,
            has_seen("a request waited for another transaction"),
        ),
        (
            PREPARED_EARLY,
            case.extras.prepare_f.is_some_and(early),
            has_seen(PREPARED_EARLY),
        ),
        (
            SHOWN_EARLY,
            case.extras.quorum.is_some(),
            has_seen(SHOWN_EARLY),
        ),
        (
            "a cluster took over what another had committed",
            clusters > 1 && case.extras.prepare_f.is_none() && case.extras.quorum.is_none(),
            has_seen("a cluster took over what another had committed"),
        ),
    ];
    let unseen = expected.into_iter().filter(|(_, can, seen)| *can && !seen);
    unseen.map(|(name, ..)| name).collect()
}
