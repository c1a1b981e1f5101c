//! Clusters with replicated nodes: under every fault profile, and with permanently lost servers.

use std::collections::BTreeMap;

use anabranch_history::record::{Operation, Outcome, PartitionSequence};
use anabranch_sim::fault::{Fault, FaultKind};
use anabranch_sim::{
    Case, CaseError, FaultPlan, FaultProfile, Network, Prepared, ProtocolName, Report, Verdict,
};

const CLIENTS: u32 = 6;
const TRANSACTIONS: u64 = 120;

fn case(
    protocol: ProtocolName,
    profile: FaultProfile,
    seed: u64,
    nodes: u16,
    replicas: u16,
) -> Case {
    let network = Network::lan();
    Case::new(
        protocol,
        seed,
        nodes,
        CLIENTS,
        TRANSACTIONS,
        network,
        profile,
    )
    .replicated(replicas)
}

/// Runs seeds under a fault profile; returns the situations that they reached.
fn sweep(
    workload: &str,
    protocol: ProtocolName,
    profile: FaultProfile,
    seeds: u64,
) -> BTreeMap<&'static str, u64> {
    let nodes = 3;
    let prepared = Prepared::new(workload, nodes).unwrap();
    let mut sometimes = BTreeMap::new();
    for seed in 0..seeds {
        let case = case(protocol, profile, seed, nodes, 3);
        let first = case.run(&prepared).unwrap();
        let what = format!("{workload} {} {} {seed}", protocol.name(), profile.name());
        assert_eq!(first.verdict, Verdict::Fine, "{what}");
        if seed % 4 == 0 {
            let second = case.run(&prepared).unwrap();
            assert_eq!(first, second, "{what}: two runs of one seed differ");
        }
        for (name, count) in first.statistics.sometimes {
            *sometimes.entry(name).or_insert(0) += count;
        }
    }
    eprintln!(
        "{workload} {} {}: {sometimes:#?}",
        protocol.name(),
        profile.name()
    );
    sometimes
}

fn outlives(workload: &str, protocol: ProtocolName, seeds: u64) {
    let mut sometimes = BTreeMap::new();
    for profile in FaultProfile::ALL {
        for (name, count) in sweep(workload, protocol, profile, seeds) {
            *sometimes.entry(name).or_insert(0) += count;
        }
    }
    if workload == "register" {
        assert!(sometimes.contains_key("a backup was restored from a checkpoint"));
    }
    for name in [
        "a backup took over as primary",
        "a primary was deposed",
        "a deposed primary kept running",
        "a backup forwarded a packet to the primary",
        "a node wrote a checkpoint",
        "a torn end of a log was truncated",
        "a crash lost a commit that was not acknowledged",
    ] {
        assert!(sometimes.contains_key(name), "{workload}: never {name}");
    }
}

#[test]
fn register_outlives_its_servers_under_ramp() {
    outlives("register", ProtocolName::RampFast, 25);
}
#[test]
fn counter_outlives_its_servers_under_ramp() {
    outlives("counter", ProtocolName::RampFast, 20);
}
#[test]
fn bank_outlives_its_servers_under_ramp_small() {
    outlives("bank", ProtocolName::RampSmall, 20);
}
#[test]
fn register_outlives_its_servers_under_ramp_hybrid() {
    outlives("register", ProtocolName::RampHybrid, 20);
}
#[test]
fn register_outlives_its_servers_under_locking() {
    outlives("register", ProtocolName::Locking, 20);
}
#[test]
fn bank_outlives_its_servers_under_locking() {
    outlives("bank", ProtocolName::Locking, 20);
}
#[test]
fn smallbank_outlives_its_servers_under_short_read_locks() {
    sweep(
        "smallbank",
        ProtocolName::LockingShort,
        FaultProfile::PermanentLoss,
        20,
    );
}

/// Without faults there are no elections.
#[test]
fn without_faults_no_primary_is_elected_or_deposed() {
    let seen = sweep("register", ProtocolName::RampFast, FaultProfile::None, 10);
    for name in ["a replica became the primary", "a primary was deposed"] {
        assert!(!seen.contains_key(name), "{name}");
    }
}

/// Two nodes start at about the same time, and each greets a deposed primary of the other, which has not learned of its
/// deposition. If that one answers, neither greets its true peer, and each waits for the other to notice its restart.
#[test]
fn seed_62_greets_the_latest_incarnation() {
    let prepared = Prepared::new("bank", 3).unwrap();
    let case = case(ProtocolName::Locking, FaultProfile::Storm, 62, 3, 3);
    assert_eq!(case.run(&prepared).unwrap().verdict, Verdict::Fine);
}

/// A backup with a slow disk and its primary answered each other without end, while the network duplicated packets:
/// millions of packets within no time.
#[test]
fn seed_31838_sends_a_limited_number_of_packets() {
    let prepared = Prepared::new("register", 3).unwrap();
    let (protocol, profile) = (ProtocolName::RampFast, FaultProfile::Storm);
    let case = Case::new(protocol, 31_838, 3, CLIENTS, 200, Network::lan(), profile).replicated(3);
    assert_eq!(case.run(&prepared).unwrap().verdict, Verdict::Fine);
}

fn permanent_loss(server: u16, at_us: u64) -> Fault {
    Fault {
        at_us,
        for_us: 0,
        kind: FaultKind::PermanentLoss { node: server },
    }
}

fn run(nodes: u16, replicas: u16, faults: Vec<Fault>) -> Result<Report, CaseError> {
    let prepared = Prepared::new("register", nodes).unwrap();
    let mut case = case(
        ProtocolName::RampFast,
        FaultProfile::None,
        7,
        nodes,
        replicas,
    );
    case.plan = FaultPlan { faults };
    case.run(&prepared)
}

#[test]
fn two_of_five_servers_may_be_lost() {
    let report = run(
        5,
        5,
        vec![permanent_loss(0, 1_000), permanent_loss(3, 2_500)],
    )
    .unwrap();
    assert_eq!(report.verdict, Verdict::Fine);
    assert!(report.statistics.committed > TRANSACTIONS);
}

#[test]
fn the_loss_of_a_majority_is_refused() {
    let refused = run(
        5,
        3,
        vec![permanent_loss(0, 1_000), permanent_loss(1, 1_000)],
    )
    .unwrap_err();
    assert!(
        matches!(
            refused,
            CaseError::NoMajority {
                left: 1,
                replicas: 3,
                ..
            }
        ),
        "{refused}"
    );
    assert!(matches!(
        run(3, 1, vec![permanent_loss(0, 1_000)]),
        Err(CaseError::NoMajority { left: 0, .. })
    ));
}

#[test]
fn a_factor_of_none_or_above_the_clusters_size_is_refused() {
    for replicas in [0, 4, 300] {
        let refused = run(3, replicas, Vec::new()).unwrap_err();
        assert!(matches!(refused, CaseError::Replicas(_)), "{refused}");
    }
}

#[test]
fn protocols_without_log_records_have_no_replicas() {
    let prepared = Prepared::new("register", 3).unwrap();
    for protocol in [ProtocolName::Nwnr, ProtocolName::EPci] {
        let refused = case(protocol, FaultProfile::None, 1, 3, 3).run(&prepared);
        assert!(matches!(refused, Err(CaseError::NotDurable(_))));
    }
}

/// Two of five servers are down, and with them the majority of two nodes and the primary of a third. A backup of the
/// third takes over. Under RAMP it serves at once. Under locking it waits until the two nodes are back: only they
/// know whether a transaction of theirs relies on a lock that was lost.
#[test]
fn a_new_primary_waits_for_nodes_without_a_majority_under_locking_alone() {
    let away = |node| Fault {
        at_us: 3_000,
        for_us: 400_000,
        kind: FaultKind::Crash { node, clock_us: 0 },
    };
    let prepared = Prepared::new("register", 5).unwrap();
    for (protocol, serves) in [
        (ProtocolName::RampFast, true),
        (ProtocolName::Locking, false),
    ] {
        let network = Network::lan();
        let (clients, profile) = (200, FaultProfile::None);
        let mut case = Case::new(protocol, 3, 5, clients, 2_000, network, profile).replicated(3);
        case.plan = FaultPlan {
            faults: vec![away(0), away(1)],
        };
        let run = case.run_recorded(&prepared, None).unwrap();
        assert_eq!(run.report.verdict, Verdict::Fine, "{}", protocol.name());
        let history = run.history.as_ref().expect("it is recorded");
        // Calls that were running at the crash have ended by then.
        let meanwhile = 6_000_000..400_000_000;
        let ended = history.transactions.iter().filter(|transaction| {
            let ended = transaction.completed.unwrap_or(u64::MAX);
            meanwhile.contains(&ended) && transaction.outcome == Outcome::Committed
        });
        let at =
            |place: &Option<PartitionSequence>| place.is_some_and(|place| place.partition == 1);
        let touches = |operation: &Operation| match operation {
            Operation::Read(read) => at(&read.at),
            Operation::Write(write) => at(&write.at),
            Operation::Scan(scan) => at(&scan.at),
        };
        let served = ended.filter(|transaction| transaction.operations.iter().any(touches));
        let served = served.count();
        eprintln!("{}: {served} served", protocol.name());
        assert_eq!(served > 0, serves, "{}: {served}", protocol.name());
    }
}
