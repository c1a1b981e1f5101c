//! Histories of real runs: threads, queues and clocks of an embedded cluster, judged by the checkers.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anabranch_bench::application;
use anabranch_bench::tpcc::{Experiment, ProtocolChoice, embedded, fill};
use anabranch_engine::PlannedApplication;
use anabranch_history::{History, Model, check};
use anabranch_protocol::ramp::FilterSize;
use anabranch_sql::source::SourceFile;
use anabranch_storage::StoreSettings;
use anabranch_workload::tpcc::{Distribution, FILES, Mix, Scale};

const PARTITIONS: u16 = 2;

fn planned() -> Arc<PlannedApplication> {
    let sources = FILES.map(|(name, text)| SourceFile::new(name, text));
    application::plan(sources.to_vec(), PARTITIONS).unwrap()
}

/// A history of the full mix, every New-Order distributed, as a file has it.
fn recorded(planned: &Arc<PlannedApplication>, protocol: ProtocolChoice, seed: u64) -> Vec<u8> {
    let experiment = Experiment {
        scale: Scale::small(2),
        partitions: PARTITIONS,
        clients: 32,
        duration: Duration::from_millis(300),
        warmup: Duration::from_millis(50),
        distribution: Distribution::Percent(100.0),
        mix: Mix::FULL,
        delay: Duration::ZERO,
        seed,
        code_path: false,
        recorded: true,
        reserved: 0,
        filter: FilterSize::default(),
    };
    let (scale, settings) = (&experiment.scale, StoreSettings::default());
    let stores = fill::fill(planned, scale, seed, settings, &AtomicU64::new(0)).unwrap();
    let ran = embedded::run(planned, &experiment, protocol, stores, None, &mut |_| {}).unwrap();
    assert!(ran.run.is_consistent());
    let mut file = Vec::new();
    let misfits = ran.recorded.unwrap().write(planned, &mut file).unwrap();
    assert_eq!(misfits, [""; 0]);
    file
}

/// What the file's history violates of what its protocol promises.
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
    let planned = planned();
    for protocol in [
        ProtocolChoice::RampFast,
        ProtocolChoice::RampSmall,
        ProtocolChoice::RampHybrid,
        ProtocolChoice::Locking,
    ] {
        let file = recorded(&planned, protocol, 1);
        assert_eq!(violations(&file, protocol), [""; 0], "{}", protocol.name());
    }
}

/// What promises nothing is found out: the records tell enough.
#[test]
fn no_concurrency_control_is_found_out_on_an_embedded_cluster() {
    let planned = planned();
    let protocol = ProtocolChoice::Nwnr;
    assert_eq!(protocol.models(), [Model::ReadAtomic]);
    let found = (1..=50).find(|seed| {
        let file = recorded(&planned, protocol, *seed);
        !violations(&file, protocol).is_empty()
    });
    assert!(found.is_some(), "fifty runs, and not one fractured read");
}
