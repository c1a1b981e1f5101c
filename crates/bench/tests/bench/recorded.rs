//! Histories of real runs of an embedded cluster, judged by the checkers.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anabranch_bench::experiment::{Experiment, ProtocolChoice, Settings};
use anabranch_bench::{application, embedded, tpcc, ycsb};
use anabranch_engine::PlannedApplication;
use anabranch_history::{History, Model, check};
use anabranch_protocol::ramp::FilterSize;
use anabranch_sql::source::SourceFile;
use anabranch_storage::StoreSettings;
use anabranch_workload::tpcc::{Distribution, Mix, Scale, Tpcc};
use anabranch_workload::ycsb::{Form, Parameters};

const PARTITIONS: u16 = 2;

fn planned(experiment: &dyn Experiment) -> Arc<PlannedApplication> {
    let sources = experiment.workload().files().iter();
    let sources = sources.map(|(name, text)| SourceFile::new(*name, *text));
    application::plan(sources.collect(), PARTITIONS).unwrap()
}

fn settings(seed: u64) -> Settings {
    Settings {
        partitions: PARTITIONS,
        clients: 32,
        duration: Duration::from_millis(300),
        warmup: Duration::from_millis(50),
        delay: Duration::ZERO,
        seed,
        code_path: false,
        recorded: true,
        reserved: 0,
        filter: FilterSize::default(),
        lost_commits: 0,
        terminate_after: None,
        one_phase: false,
        causal: false,
    }
}

/// The full mix, every New-Order distributed.
fn orders(seed: u64) -> tpcc::Experiment {
    tpcc::Experiment {
        tpcc: Tpcc {
            scale: Scale::small(2),
            distribution: Distribution::Percent(100.0),
            mix: Mix::FULL,
        },
        settings: settings(seed),
    }
}

/// Few items, and half of the transactions write.
fn items(seed: u64) -> ycsb::Experiment {
    let parameters = Parameters {
        items: 100,
        form: Form::Transactions {
            length: 4,
            reads_percent: 50.0,
        },
        ..Parameters::RAMP
    };
    let settings = Settings {
        duration: Duration::from_millis(100),
        ..settings(seed)
    };
    ycsb::Experiment::new(parameters, settings).unwrap()
}

/// The history of a run, as written to a file.
fn recorded(
    planned: &Arc<PlannedApplication>,
    experiment: &dyn Experiment,
    protocol: ProtocolChoice,
) -> Vec<u8> {
    let stores = experiment.fill(planned, StoreSettings::default(), &AtomicU64::new(0));
    let stores = stores.unwrap();
    let ran = embedded::run(planned, experiment, protocol, stores, None, &mut |_| {}).unwrap();
    assert!(ran.run.is_consistent(), "{:?}", ran.run.conditions);
    let mut file = Vec::new();
    let misfits = ran.recorded.unwrap().write(planned, &mut file).unwrap();
    assert_eq!(misfits, [""; 0]);
    file
}

/// The models of its protocol that the history violates.
fn violations(file: &[u8], protocol: ProtocolChoice) -> Vec<String> {
    let history = History::read(file).unwrap();
    let committed = history.committed();
    assert!(committed > 50, "{committed} transactions tell nothing");
    let verdicts = protocol
        .models()
        .iter()
        .map(|model| check(&history, *model));
    let found = verdicts.flat_map(|verdict| verdict.unwrap().anomalies);
    found.map(|anomaly| format!("{anomaly:?}")).collect()
}

#[test]
fn what_a_protocol_promises_holds_on_an_embedded_cluster() {
    let (orders, items) = (orders(1), items(1));
    for experiment in [&orders as &dyn Experiment, &items] {
        let planned = planned(experiment);
        for protocol in [
            ProtocolChoice::RampFast,
            ProtocolChoice::RampSmall,
            ProtocolChoice::RampHybrid,
            ProtocolChoice::Locking,
        ] {
            let file = recorded(&planned, experiment, protocol);
            let name = protocol.name();
            assert_eq!(violations(&file, protocol), [""; 0], "{name}");
        }
    }
}

/// Violations of a protocol without guarantees are found: the records suffice.
#[test]
fn no_concurrency_control_is_found_out_on_an_embedded_cluster() {
    let planned = planned(&orders(1));
    let protocol = ProtocolChoice::Nwnr;
    assert_eq!(protocol.models(), [Model::ReadAtomic]);
    let found = (1..=50).find(|seed| {
        let file = recorded(&planned, &orders(*seed), protocol);
        !violations(&file, protocol).is_empty()
    });
    assert!(found.is_some(), "fifty runs, and not one fractured read");
}
