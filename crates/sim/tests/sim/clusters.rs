//! Several clusters, each with all of the data: under every fault profile, and the guarantees that clients lose.

use std::collections::BTreeMap;

use anabranch_history::{Model, check};
use anabranch_sim::error::ClustersError;
use anabranch_sim::fault::{Fault, FaultKind};
use anabranch_sim::run::Run;
use anabranch_sim::{
    Case, CaseError, FaultPlan, FaultProfile, Network, Prepared, ProtocolName, Verdict,
};

const NODES: u16 = 2;
const CLIENTS: u32 = 6;
const TRANSACTIONS: u64 = 120;

/// A case with Prepare-F over so many clusters of two nodes.
fn prepare_f(
    protocol: ProtocolName,
    profile: FaultProfile,
    seed: u64,
    clusters: u16,
    failures: u16,
) -> Case {
    let (network, nodes) = (Network::lan(), NODES * clusters);
    let mut case = Case::new(
        protocol,
        seed,
        nodes,
        CLIENTS,
        TRANSACTIONS,
        network,
        profile,
    );
    case.clusters = clusters;
    case.extensions.prepare_f = Some(failures);
    case
}

/// Whether a run's history violates a model.
fn violates(run: &Run, model: Model) -> bool {
    let history = run.history.as_ref().expect("it is recorded").history();
    let history = history.expect("it does not contradict itself");
    let verdict = check(&history, model).expect("the model can be checked");
    !verdict.anomalies.is_empty()
}

/// A case with so many sticky clusters of two nodes.
fn sticky(protocol: ProtocolName, profile: FaultProfile, seed: u64, clusters: u16) -> Case {
    let mut case = prepare_f(protocol, profile, seed, clusters, 0);
    case.extensions.prepare_f = None;
    case
}

/// Runs seeds under all fault profiles, some of them twice.
fn sweep(workload: &str, protocol: ProtocolName, seeds: u64, is_sticky: bool) {
    let prepared = Prepared::new(workload, NODES).unwrap();
    let mut sometimes: BTreeMap<&'static str, u64> = BTreeMap::new();
    for profile in FaultProfile::ONE_REPLICA {
        for seed in 0..seeds {
            let clusters = 2 + (seed % 2) as u16;
            let failures = (seed / 2 % u64::from(clusters)) as u16;
            let mut case = prepare_f(protocol, profile, seed, clusters, failures);
            if is_sticky {
                case = sticky(protocol, profile, seed, clusters);
            }
            case.clients_switch_nodes = seed % 3 == 0;
            let first = case.run(&prepared).unwrap();
            let what = format!("{workload} {} {} {seed}", protocol.name(), profile.name());
            assert_eq!(first.verdict, Verdict::Fine, "{what}");
            let compared = "partitions with the same rows in other clusters";
            assert!(first.checked.iter().any(|(name, _)| name == compared));
            if seed % 4 == 0 {
                let second = case.run(&prepared).unwrap();
                assert_eq!(first, second, "{what}: two runs of one seed differ");
            }
            for (name, count) in first.statistics.sometimes {
                *sometimes.entry(name).or_insert(0) += count;
            }
        }
    }
    eprintln!("{workload} {}: {sometimes:#?}", protocol.name());
    let of_mode = match is_sticky {
        true => "a cluster applied a transaction of another",
        false => "a client was answered before every cluster had prepared",
    };
    for name in [
        of_mode,
        "a second round of reads repaired a race",
        "a node restarted",
        "a node wrote a checkpoint",
        "a participant's inquiry ended a prepared transaction",
    ] {
        assert!(
            sometimes.contains_key(name) || workload == "ycsb",
            "{workload}: never {name}"
        );
    }
}

#[test]
fn register_under_prepare_f_fast() {
    sweep("register", ProtocolName::RampFast, 40, false);
}
#[test]
fn register_under_prepare_f_small() {
    sweep("register", ProtocolName::RampSmall, 30, false);
}
#[test]
fn register_under_prepare_f_hybrid() {
    sweep("register", ProtocolName::RampHybrid, 30, false);
}
#[test]
fn ycsb_under_prepare_f() {
    sweep("ycsb", ProtocolName::RampFast, 12, false);
}

#[test]
fn tally_under_prepare_f() {
    sweep("tally", ProtocolName::RampFast, 24, false);
}

#[test]
fn tally_under_sticky_clusters_fast() {
    sweep("tally", ProtocolName::RampFast, 40, true);
}
#[test]
fn tally_under_sticky_clusters_small() {
    sweep("tally", ProtocolName::RampSmall, 20, true);
}
#[test]
fn tally_under_sticky_clusters_hybrid() {
    sweep("tally", ProtocolName::RampHybrid, 20, true);
}

#[test]
fn register_under_sticky_clusters_fast() {
    sweep("register", ProtocolName::RampFast, 40, true);
}
#[test]
fn register_under_sticky_clusters_small() {
    sweep("register", ProtocolName::RampSmall, 30, true);
}
#[test]
fn register_under_sticky_clusters_hybrid() {
    sweep("register", ProtocolName::RampHybrid, 30, true);
}
#[test]
fn ycsb_under_sticky_clusters() {
    sweep("ycsb", ProtocolName::RampFast, 12, true);
}

/// A client that stays in its cluster keeps all four session guarantees (`sweep` checks them). A client that switches
/// clusters loses each of them, and never has a fractured read.
#[test]
fn a_client_that_switches_clusters_loses_its_session_and_nothing_else() {
    let prepared = Prepared::new("register", NODES).unwrap();
    let loses = |seed: u64, clients_switch_nodes: bool, model: Model| {
        let mut case = sticky(ProtocolName::RampFast, FaultProfile::Storm, seed, 2);
        case.clients_switch_nodes = clients_switch_nodes;
        if clients_switch_nodes {
            case.plan = FaultPlan {
                faults: vec![cut_off(), ahead(0), ahead(2)],
            };
        }
        let run = case.run_recorded(&prepared, None).unwrap();
        assert_eq!(run.report.verdict, Verdict::Fine, "{seed}");
        violates(&run, model)
    };
    for model in [
        Model::ReadYourWrites,
        Model::MonotonicReads,
        Model::MonotonicWrites,
        Model::WritesFollowReads,
    ] {
        assert!(!(0..6).any(|seed| loses(seed, false, model)), "{model}");
        let first = (0..20).find(|seed| loses(*seed, true, model));
        assert!(first.is_some(), "{model}: no run shows it");
        eprintln!("{model}: seed {first:?} loses it");
    }
}

/// A partition that cuts off the second of two clusters, for longer than all calls take.
fn cut_off() -> Fault {
    Fault {
        at_us: 0,
        for_us: 1_000_000,
        kind: FaultKind::Partition {
            from: vec![0, 2],
            to: vec![1, 3],
            one_way: false,
        },
    }
}

/// A clock that is ahead for as long.
fn ahead(node: u16) -> Fault {
    Fault {
        at_us: 0,
        for_us: 1_000_000,
        kind: FaultKind::ClockSkew {
            node,
            by_us: 1_000_000,
        },
    }
}

/// A cluster is cut off for longer than all calls take. All clients continue in their clusters and read their writes.
/// After the partition both clusters have the same rows, which every run checks.
#[test]
fn a_cluster_that_is_cut_off_stops_no_client() {
    let prepared = Prepared::new("register", NODES).unwrap();
    for failures in [None, Some(0), Some(1)] {
        let mut case = sticky(ProtocolName::RampFast, FaultProfile::None, 3, 2);
        case.extensions.prepare_f = failures;
        case.termination.after_us = 5_000;
        case.plan = FaultPlan {
            faults: vec![cut_off()],
        };
        let run = case.run_recorded(&prepared, None).unwrap();
        assert_eq!(run.report.verdict, Verdict::Fine, "{failures:?}");
        let (wrote, seen) = during(&run);
        let expected = match failures {
            None => wrote > TRANSACTIONS / 4 && seen > TRANSACTIONS / 4,
            Some(0) => wrote > TRANSACTIONS / 4 && seen == 0,
            Some(_) => (wrote, seen) == (0, 0),
        };
        assert!(
            expected,
            "{failures:?}: {wrote} wrote, {seen} reads saw something"
        );
    }
}

/// Of the first second: writing transactions that were acknowledged, and reads of their writes.
fn during(run: &Run) -> (u64, u64) {
    let history = run.history.as_ref().expect("it is recorded");
    let during = history.transactions.iter().filter(|transaction| {
        let ended = transaction.completed.unwrap_or(u64::MAX);
        ended < 1_000_000_000
    });
    let (mut wrote, mut seen) = (0, 0);
    for transaction in during {
        wrote += u64::from(transaction.version.is_some());
        for operation in &transaction.operations {
            if let anabranch_history::record::Operation::Read(read) = operation {
                seen += u64::from(read.version.is_some());
            }
        }
    }
    (wrote, seen)
}

/// Runs show the anomaly that Prepare-F permits: a client misses its own writes, even at the same node, unless every
/// cluster has to prepare before it is answered.
#[test]
fn clients_do_not_read_their_writes_under_prepare_f() {
    let prepared = Prepared::new("register", NODES).unwrap();
    let missed = |failures, profile| {
        let runs = (0..12).filter(|seed| {
            let case = prepare_f(ProtocolName::RampFast, profile, *seed, 2, failures);
            let run = case.run_recorded(&prepared, None).unwrap();
            assert_eq!(run.report.verdict, Verdict::Fine, "{failures} {seed}");
            violates(&run, Model::ReadYourWrites)
        });
        runs.count()
    };
    for profile in [FaultProfile::None, FaultProfile::Storm] {
        assert!(missed(0, profile) > 0, "{}", profile.name());
    }
}

/// One server of six is down for a second, a hundred times as long as all calls take. With F = 1 and three clusters all
/// clients of the others continue, and their writes stay invisible. With F = 2 no write is acknowledged.
#[test]
fn a_server_that_is_down_stops_no_writer_and_hides_all_writes() {
    let prepared = Prepared::new("register", NODES).unwrap();
    let away = Fault {
        at_us: 0,
        for_us: 1_000_000,
        kind: FaultKind::Crash {
            node: 2,
            clock_us: 0,
        },
    };
    let run = |failures| {
        let mut case = prepare_f(ProtocolName::RampFast, FaultProfile::None, 5, 3, failures);
        case.termination.after_us = 5_000;
        case.plan = FaultPlan {
            faults: vec![away.clone()],
        };
        let run = case.run_recorded(&prepared, None).unwrap();
        assert_eq!(run.report.verdict, Verdict::Fine, "F = {failures}");
        during(&run)
    };
    let (wrote, seen) = run(1);
    assert!(wrote > TRANSACTIONS / 4, "{wrote} writers were answered");
    assert_eq!(seen, 0, "no write is visible yet");
    assert_eq!(run(2), (0, 0));
}

#[test]
fn cases_that_several_clusters_cannot_run_are_refused() {
    let refused = |workload: &str, change: fn(&mut Case)| {
        let prepared = Prepared::new(workload, NODES).unwrap();
        let mut case = prepare_f(ProtocolName::RampFast, FaultProfile::None, 1, 2, 1);
        change(&mut case);
        match case.run(&prepared) {
            Err(CaseError::Clusters(error)) => error,
            other => panic!("{workload}: {other:?}"),
        }
    };
    for (workload, procedure) in [
        ("counter", "add_entry"),
        ("replies", "comment"),
        ("bank", "transfer"),
        ("smallbank", "deposit_checking"),
    ] {
        let error = refused(workload, |_| {});
        match &error {
            ClustersError::Ordered { .. } => {
                eprintln!("{workload} ({procedure}): {error}");
            }
            other => panic!("{workload}: {other:?}"),
        }
    }
    let by_quorum = refused("tally", |case| {
        case.extensions.prepare_f = None;
        case.extensions.quorum = Some(20_000);
    });
    assert!(matches!(by_quorum, ClustersError::Ordered { .. }));
    let beside = |change| matches!(refused("register", change), ClustersError::Excluded { .. });
    assert!(beside(|case| case.replicas = 2));
    assert!(beside(|case| case.extensions.causal = true));
    assert!(beside(|case| case.extensions.one_phase = true));
    assert!(beside(|case| case.termination.lost_commits = 1));
    let too_few = refused("register", |case| case.extensions.prepare_f = Some(2));
    let expected = ClustersError::TooFew {
        failures: 2,
        clusters: 2,
    };
    assert_eq!(too_few, expected);
    let alone = refused("register", |case| case.clusters = 1);
    assert_eq!(alone, ClustersError::Alone);
    let sticky = refused("bank", |case| case.extensions.prepare_f = None);
    assert!(matches!(sticky, ClustersError::Ordered { .. }));
}

#[test]
fn other_protocols_have_no_prepare_f_and_clusters_have_a_limit() {
    let prepared = Prepared::new("register", NODES).unwrap();
    for failures in [None, Some(1)] {
        let mut case = prepare_f(ProtocolName::Locking, FaultProfile::None, 1, 2, 1);
        case.extensions.prepare_f = failures;
        assert!(matches!(case.run(&prepared), Err(CaseError::NoRamp { .. })));
    }
    for clusters in [0, 251] {
        let mut case = prepare_f(ProtocolName::RampFast, FaultProfile::None, 1, 2, 1);
        case.clusters = clusters;
        let refused = case.run(&prepared);
        assert!(matches!(refused, Err(CaseError::OutOfRange { .. })));
    }
}
