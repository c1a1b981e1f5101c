//! What is checked when a run has come to rest, and what a good run has seen.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_engine::view::{self, StoresView};
use anabranch_storage::Store;
use anabranch_types::{Placement, TableId, access::whole_table};

use crate::case::Case;
use crate::cluster::{Cluster, Watch};
use crate::constraints;
use crate::protocols::{ProtocolName, Simulated};
use crate::report::Happenings;

/// Checks a cluster at rest; what is wrong joins its violations. The names of what was checked.
pub(crate) fn after<P: Simulated>(
    cluster: &mut Cluster<P>,
    planned: &Arc<PlannedApplication>,
    watch: Watch,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut checked = Vec::new();
    if watch.invariants_every > 0 {
        checked.push("the protocol's invariants after each step".to_owned());
    }
    checked.push("every answer".to_owned());
    if cluster.calls() > 0 {
        found.push(format!(
            "{} calls are still running at a node",
            cluster.calls()
        ));
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
        checked.push("every acknowledged commit, and every store that came back".to_owned());
    }
    checked.push("nothing is left prepared or locked".to_owned());
    checked.push("the stores' invariants".to_owned());
    let stores: Vec<&Store> = cluster.protocols().map(Simulated::store).collect();
    for assertion in planned.application.assertions() {
        let mut view = StoresView::new(Arc::clone(planned), &stores);
        match view::run(assertion.holds(&mut view)) {
            Ok(true) => {}
            Ok(false) => found.push(format!("assertion {} does not hold", assertion.name())),
            Err(error) => found.push(format!(
                "assertion {} cannot be evaluated: {error:?}",
                assertion.name()
            )),
        }
        checked.push(format!("assertion {}", assertion.name()));
    }
    let (violated, constraints) = constraints::violated(planned, &stores);
    found.extend(violated);
    checked.push(format!(
        "{constraints} declared constraints on the merged state"
    ));
    found.extend(copies_that_differ(planned, &stores));
    checked.push("copies are alike".to_owned());
    cluster.violations.extend(found);
    checked
}

/// Tables that are on every partition and differ.
fn copies_that_differ(planned: &PlannedApplication, stores: &[&Store]) -> Vec<String> {
    let router = &planned.execution.router;
    let tables = (0..planned.schema().tables.len() as u16).map(TableId);
    let copied = tables.filter(|t| *router.placement(*t) == Placement::Replicated);
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
    copied
        .filter(differ)
        .map(|table| {
            let name = &planned.schema().table(table).name;
            format!("the copies of table \"{name}\" differ")
        })
        .collect()
}

/// What a run of this case should have seen, and has not.
pub(crate) fn missing(case: &Case, nodes: u16, happened: &Happenings) -> Vec<&'static str> {
    let mut expected = Vec::new();
    if nodes > 1 && case.protocol == ProtocolName::RampFast {
        expected.push("a second round of reads repaired a race");
    }
    if matches!(case.protocol, ProtocolName::Locking) {
        expected.push("a request waited for another transaction");
    }
    for fault in &case.plan.faults {
        expected.extend(fault.kind.expects());
    }
    expected.sort_unstable();
    expected.dedup();
    expected.retain(|name| !happened.sometimes.contains_key(name));
    expected
}
