//! Nodes crash and restart: acknowledged commits survive, and losses are detected.

use anabranch_sim::fault::{DiskFailure, Fault, FaultKind};
use anabranch_sim::{Case, CaseError, FaultPlan, FaultProfile, Network, Prepared, ProtocolName};
use anabranch_sim::{Report, Verdict};

const NODES: u16 = 3;
const CLIENTS: u32 = 6;
const TRANSACTIONS: u64 = 150;

/// A plan of crashes: each node crashes several times for a short time, some with a slow disk, so that many
/// transactions are running at a crash.
fn crashes(seed: u64) -> FaultPlan {
    let mut faults = Vec::new();
    for number in 0..9 {
        let node = ((seed + number) % u64::from(NODES)) as u16;
        let at_us = 300 + number * 900 + (seed * 37 + number * number * 53) % 700;
        let clock_us = (seed as i64 * 7_919 + number as i64 * 104_729) % 100_000 - 50_000;
        faults.push(Fault {
            at_us,
            for_us: 100 + (seed + number * 7) % 400,
            kind: FaultKind::Crash { node, clock_us },
        });
    }
    faults.push(Fault {
        at_us: 0,
        for_us: 9_000,
        kind: FaultKind::SlowDisk {
            node: (seed % 3) as u16,
            percent: 500,
        },
    });
    FaultPlan { faults }
}

fn run(workload: &str, protocol: ProtocolName, seed: u64, plan: FaultPlan) -> Report {
    let prepared = Prepared::new(workload, NODES).unwrap();
    let (network, none) = (Network::lan(), FaultProfile::None);
    let mut case = Case::new(protocol, seed, NODES, CLIENTS, TRANSACTIONS, network, none);
    case.plan = plan;
    case.run(&prepared).unwrap()
}

fn survive(workload: &str, protocol: ProtocolName, seeds: u64) {
    let mut sometimes = std::collections::BTreeMap::new();
    for seed in 0..seeds {
        let report = run(workload, protocol, seed, crashes(seed));
        let what = format!("{workload} under {}, seed {seed}", protocol.name());
        assert_eq!(report.verdict, Verdict::Fine, "{what}");
        for (name, count) in report.statistics.sometimes {
            *sometimes.entry(name).or_insert(0) += count;
        }
    }
    for name in [
        "a node restarted more than once",
        "a node crashed with calls running",
        "a node crashed with output held back",
        "a crash lost a commit that was not acknowledged",
        "a torn end of a log was truncated",
        "a node wrote a checkpoint",
    ] {
        assert!(
            sometimes.contains_key(name),
            "{workload}: never {name}: {sometimes:#?}"
        );
    }
}

/// Crashes far enough apart that every protocol gets to its next checkpoints in between, most of them on slow disks, so
/// that checkpoints take long.
fn rare_crashes(seed: u64) -> FaultPlan {
    let mut faults = Vec::new();
    for number in 0..8 {
        let node = ((seed + number) % u64::from(NODES)) as u16;
        faults.push(Fault {
            at_us: 2_000 + number * 2_500 + (seed * 37 + number * number * 53) % 2_000,
            for_us: 100,
            kind: FaultKind::Crash { node, clock_us: 0 },
        });
    }
    for node in 0..NODES {
        faults.push(Fault {
            at_us: 0,
            for_us: 25_000,
            kind: FaultKind::SlowDisk { node, percent: 300 },
        });
    }
    FaultPlan { faults }
}

fn survive_in_checkpoints(workload: &str, protocol: ProtocolName, seeds: u64) {
    let (mut between, mut waited) = (0, 0);
    for seed in 0..seeds {
        let report = run(workload, protocol, seed, rare_crashes(seed));
        let what = format!("{workload} under {}, seed {seed}", protocol.name());
        assert_eq!(report.verdict, Verdict::Fine, "{what}");
        let count = |name| report.statistics.sometimes.get(name).copied().unwrap_or(0);
        between += count("a node crashed between slices of a checkpoint");
        waited += count("a checkpoint waited for a sync");
    }
    assert!(between > seeds / 10 && waited > seeds, "{between} {waited}");
}

#[test]
fn bank_survives_crashes_in_checkpoints_under_ramp() {
    survive_in_checkpoints("bank", ProtocolName::RampFast, 200);
}
#[test]
fn counter_survives_crashes_in_checkpoints_under_ramp() {
    survive_in_checkpoints("counter", ProtocolName::RampFast, 100);
}
#[test]
fn bank_survives_crashes_in_checkpoints_under_locking() {
    survive_in_checkpoints("bank", ProtocolName::Locking, 200);
}
#[test]
fn counter_survives_crashes_in_checkpoints_under_locking() {
    survive_in_checkpoints("counter", ProtocolName::Locking, 100);
}

#[test]
fn register_survives_crashes_under_ramp() {
    survive("register", ProtocolName::RampFast, 60);
}
#[test]
fn counter_survives_crashes_under_ramp() {
    survive("counter", ProtocolName::RampFast, 60);
}
#[test]
fn bank_survives_crashes_under_ramp() {
    survive("bank", ProtocolName::RampFast, 60);
}

#[test]
fn register_survives_crashes_under_ramp_small() {
    survive("register", ProtocolName::RampSmall, 60);
}
#[test]
fn counter_survives_crashes_under_ramp_small() {
    survive("counter", ProtocolName::RampSmall, 60);
}
#[test]
fn register_survives_crashes_under_ramp_hybrid() {
    survive("register", ProtocolName::RampHybrid, 60);
}
#[test]
fn counter_survives_crashes_under_ramp_hybrid() {
    survive("counter", ProtocolName::RampHybrid, 60);
}

#[test]
fn register_survives_crashes_under_locking() {
    survive("register", ProtocolName::Locking, 60);
}
#[test]
fn counter_survives_crashes_under_locking() {
    survive("counter", ProtocolName::Locking, 60);
}
#[test]
fn bank_survives_crashes_under_locking() {
    survive("bank", ProtocolName::Locking, 60);
}
#[test]
fn smallbank_survives_crashes_under_short_read_locks() {
    survive("smallbank", ProtocolName::LockingShort, 60);
}

#[test]
fn a_disk_that_lies_is_detected() {
    let mut found = 0;
    for seed in 0..10 {
        let mut plan = crashes(seed);
        for node in 0..NODES {
            plan.faults.push(Fault {
                at_us: 0,
                for_us: 9_500,
                kind: FaultKind::Disk {
                    node,
                    failure: DiskFailure::SyncsLie,
                },
            });
        }
        let report = run("counter", ProtocolName::RampFast, seed, plan);
        found += u64::from(matches!(report.verdict, Verdict::Violated(_)));
    }
    assert!(found >= 5, "{found} of 10");
}

#[test]
fn crashes_of_protocols_without_log_records_are_refused() {
    let prepared = Prepared::new("bank", NODES).unwrap();
    let (network, none) = (Network::lan(), FaultProfile::None);
    let protocol = ProtocolName::Nwnr;
    let mut case = Case::new(protocol, 1, NODES, CLIENTS, TRANSACTIONS, network, none);
    case.plan = crashes(1);
    let refused = case.run(&prepared).unwrap_err();
    assert!(matches!(refused, CaseError::NotDurable(_)));
    assert!(
        refused.to_string().contains("keeps no records"),
        "{refused}"
    );
}
