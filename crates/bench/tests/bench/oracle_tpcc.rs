//! TPC-C's five procedures, on PostgreSQL and on ours: with the same files, rows and calls, results and tables are
//! the same.
//!
//! `ANABRANCH_TPCC_SEED` and `ANABRANCH_TPCC_CALLS` choose another run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anabranch_bench::application;
use anabranch_bench::conditions;
use anabranch_bench::tpcc::{fill, postgres};
use anabranch_engine::{Node, NodeOptions, PlannedApplication};
use anabranch_protocol::locking::{LockingNode, LockingOptions};
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{Protocol, Topology};
use anabranch_sql::expression::text::format_text;
use anabranch_sql::source::SourceFile;
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{NodeId, PartitionId, Ticks};
use anabranch_workload::tpcc::{
    CallGenerator, Distribution, FILES, Invocation, Mix, Scale, TransactionType,
};

use crate::oracle::{Answer, Postgres, answer, call, contents, difference, run, setting};

const SCALE: Scale = Scale {
    warehouses: 2,
    items: 300,
    customers: 60,
};

fn planned() -> Arc<PlannedApplication> {
    let files = FILES
        .map(|(name, text)| SourceFile::new(name, text))
        .to_vec();
    application::plan(files, 1).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn ramp_fast_answers_as_postgresql_does() {
    let planned = planned();
    let programs = planned.application.programs();
    let make = |id, store| {
        let topology = Arc::new(Topology::one_each(1));
        RampNode::new(id, topology, store, programs, RampOptions::default())
    };
    compare(&planned, false, make, RampNode::into_store);
}

#[test]
fn locking_answers_as_postgresql_does() {
    let planned = planned();
    let programs = planned.application.programs();
    let make = |id, store| {
        let topology = Arc::new(Topology::one_each(1));
        let schema = Arc::new(planned.schema().clone());
        LockingNode::new(
            id,
            topology,
            schema,
            store,
            programs,
            LockingOptions::default(),
        )
    };
    compare(&planned, true, make, LockingNode::into_store);
}

/// Runs the same calls through both, and compares every answer and, at the end, every table.
fn compare<P: Protocol>(
    planned: &Arc<PlannedApplication>,
    declares: bool,
    make: impl FnOnce(NodeId, Store) -> P,
    into_store: impl FnOnce(P) -> Store,
) {
    let seed = setting("ANABRANCH_TPCC_SEED", 1);
    let calls = setting("ANABRANCH_TPCC_CALLS", 2_500);
    let catalog = planned.application.catalog();
    let mut theirs = Postgres::start();
    postgres::declare(&mut theirs.client, catalog).unwrap_or_else(|error| panic!("{error}"));
    postgres::fill(&mut theirs.client, &SCALE, seed).unwrap_or_else(|error| panic!("{error}"));
    let loaded = AtomicU64::new(0);
    let mut stores = fill::fill(planned, &SCALE, seed, StoreSettings::default(), &loaded)
        .unwrap_or_else(|error| panic!("{error}"));
    let store = stores.pop().expect("one partition, one store");
    let tables = compare_tables(planned, &store, &mut theirs);
    assert_eq!(tables, "", "already as loaded");
    let options = NodeOptions {
        declares,
        ..NodeOptions::default()
    };
    let id = NodeId(0);
    let mut node = Node::new(
        id,
        PartitionId(0),
        Arc::clone(planned),
        make(id, store),
        options,
    );
    let mut generator =
        CallGenerator::new(SCALE, Mix::FULL, Distribution::Specified, vec![0; 2], seed);
    let mut seen: BTreeMap<(&str, Option<String>), u64> = BTreeMap::new();
    let mut now = Ticks::default();
    for number in 1..=calls {
        let invocation = generator.next_call();
        let name = invocation.transaction.procedure();
        let place = planned
            .application
            .procedures
            .iter()
            .position(|p| p.name() == name);
        let place = place.unwrap_or_else(|| panic!("there is no procedure {name}"));
        let text = call_text(planned, place, &invocation);
        let outcome = run(&mut node, &mut now, call(place, &invocation.arguments));
        let (ours, theirs) = (answer(&outcome), theirs.ask(&text));
        assert!(
            same(&ours, &theirs),
            "call {number} of seed {seed} differs:\n  {text}\n  ours\n{ours}\n  PostgreSQL's\n\
             {theirs}\n  again: ANABRANCH_TPCC_SEED={seed} ANABRANCH_TPCC_CALLS={number} cargo \
             test -p anabranch-bench --test bench oracle_tpcc::"
        );
        *seen
            .entry((name, theirs.code().map(str::to_owned)))
            .or_default() += 1;
    }
    let store = into_store(node.into_protocol());
    let tables = compare_tables(planned, &store, &mut theirs);
    assert_eq!(tables, "", "after {calls} calls of seed {seed}");
    let ours = conditions::check(planned, &[&store], |_| {}).expect("the conditions have values");
    let theirs = postgres::check(&mut theirs.client, catalog).expect("there too");
    assert_eq!(ours, theirs);
    assert!(
        ours.len() == 12 && ours.values().all(|held| *held),
        "{ours:?}"
    );
    // A run proves nothing about events that it does not have.
    for transaction in TransactionType::ALL {
        assert!(
            seen.contains_key(&(transaction.procedure(), None)),
            "{seen:?}"
        );
    }
    assert!(
        seen.contains_key(&("new_order", Some("TPCC1".to_owned()))),
        "{seen:?}"
    );
}

/// The call as PostgreSQL takes it.
fn call_text(planned: &PlannedApplication, place: usize, invocation: &Invocation) -> String {
    let parameters = planned.application.procedures[place].parameters();
    let arguments: Vec<String> = parameters
        .iter()
        .zip(invocation.arguments.iter())
        .map(|((_, data_type), value)| match value.is_null() {
            true => "NULL".to_owned(),
            false => format!("'{}'", format_text(value, data_type).replace('\'', "''")),
        })
        .collect();
    format!(
        "SELECT * FROM {}({})",
        invocation.transaction.procedure(),
        arguments.join(", ")
    )
}

/// Whether the answers are the same: rows in their order, or the SQLSTATE.
fn same(ours: &Answer, theirs: &Answer) -> bool {
    match (ours, theirs) {
        (Answer::Done { rows: a, .. }, Answer::Done { rows: b, .. }) => a == b,
        _ => ours.code() == theirs.code(),
    }
}

/// The differences between the tables; empty if there are none.
fn compare_tables(planned: &PlannedApplication, store: &Store, theirs: &mut Postgres) -> String {
    let mut found = String::new();
    for table in &planned.schema().tables {
        let (ours, theirs) = (contents(store, table.id), theirs.contents(&table.name));
        assert!(!theirs.is_empty(), "{} is empty", table.name);
        if let Some(difference) = difference(&ours, &theirs) {
            found.push_str(&format!("\n  table {}:\n{difference}", table.name));
        }
    }
    found
}
