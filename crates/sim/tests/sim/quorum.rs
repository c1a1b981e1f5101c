//! Quorum operation over several copies: under every fault profile, with copies down, and the anomalies that it
//! permits.

use std::collections::BTreeMap;

use anabranch_history::record::Outcome;
use anabranch_history::{Model, check};
use anabranch_sim::error::ClustersError;
use anabranch_sim::fault::{Fault, FaultKind};
use anabranch_sim::run::Run;
use anabranch_sim::{
    Case, CaseError, FaultPlan, FaultProfile, Network, Prepared, ProtocolName, Verdict,
};

const NODES: u16 = 2;
const TRANSACTIONS: u64 = 120;

const STALE: &str = "a read missed an acknowledged write";
const OTHER_COPY: &str = "a read used another copy than the nearest";
const VISIBLE_EARLY: &str = "a client was answered before every copy had installed its commit";

/// A case with so many copies of two partitions.
fn quorum(protocol: ProtocolName, profile: FaultProfile, seed: u64, copies: u16) -> Case {
    let (network, nodes, clients) = (Network::lan(), NODES * copies, 6);
    let mut case = Case::new(
        protocol,
        seed,
        nodes,
        clients,
        TRANSACTIONS,
        network,
        profile,
    );
    case.clusters = copies;
    case.extensions.quorum = Some(5_000);
    case
}

/// Runs seeds under all fault profiles, some of them twice.
fn sweep(protocol: ProtocolName, workload: &str, seeds: u64) {
    let prepared = Prepared::new(workload, NODES).unwrap();
    let mut sometimes: BTreeMap<&'static str, u64> = BTreeMap::new();
    for profile in FaultProfile::ONE_REPLICA {
        for seed in 0..seeds {
            let copies = [3, 2, 5][(seed % 3) as usize];
            let mut case = quorum(protocol, profile, seed, copies);
            case.clients_switch_nodes = seed % 4 == 0;
            let first = case.run(&prepared).unwrap();
            let what = format!("{} {workload} {} {seed}", protocol.name(), profile.name());
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
    eprintln!("{workload}: {sometimes:#?}");
    for name in [
        STALE,
        OTHER_COPY,
        VISIBLE_EARLY,
        "a second round of reads repaired a race",
        "a node restarted",
        "a participant's inquiry ended a prepared transaction",
    ] {
        assert!(
            sometimes.contains_key(name) || workload == "ycsb",
            "{workload}: never {name}"
        );
    }
}

#[test]
fn register_by_quorums() {
    sweep(ProtocolName::RampFast, "register", 40);
}
#[test]
fn register_by_quorums_of_ramp_small() {
    sweep(ProtocolName::RampSmall, "register", 40);
}
#[test]
fn register_by_quorums_of_ramp_hybrid() {
    sweep(ProtocolName::RampHybrid, "register", 40);
}
#[test]
fn ycsb_by_quorums() {
    for protocol in [
        ProtocolName::RampFast,
        ProtocolName::RampSmall,
        ProtocolName::RampHybrid,
    ] {
        sweep(protocol, "ycsb", 12);
    }
}

/// The nodes of one of three clusters are down for a second, and with them a copy of each partition. Clients of other
/// nodes continue to write and read. With a second copy down no write commits.
#[test]
fn no_client_waits_for_a_copy_that_is_down() {
    let prepared = Prepared::new("register", NODES).unwrap();
    let down_for_a_second = |node| Fault {
        at_us: 2_000,
        for_us: 1_000_000,
        kind: FaultKind::Crash { node, clock_us: 0 },
    };
    // The near copies of node 4's clients are 1 and 4.
    for (down, of, continues) in [
        (vec![0, 3], vec![1, 2, 4, 5], true),
        (vec![1], vec![4], true),
        (vec![0, 1, 3, 4], vec![2, 5], false),
    ] {
        let mut case = quorum(ProtocolName::RampFast, FaultProfile::None, 5, 3);
        case.transactions = 400;
        case.plan = FaultPlan {
            faults: down.iter().copied().map(down_for_a_second).collect(),
        };
        let run = case.run_recorded(&prepared, None).unwrap();
        assert_eq!(run.report.verdict, Verdict::Fine, "{down:?}");
        let (wrote, read) = during(&run, &of);
        eprintln!(
            "{down:?}: {wrote} wrote and {read} read; {:?}",
            run.report.statistics.sometimes
        );
        // If its nearest copy is down a client reads another copy.
        let other = run.report.statistics.sometimes.contains_key(OTHER_COPY);
        assert!(other || down != [1], "{down:?}");
        match continues {
            true => assert!(wrote > 10 && read > 10, "{down:?}: {wrote} and {read}"),
            false => assert_eq!(wrote, 0, "{down:?}: {wrote} and {read}"),
        }
    }
}

/// Committed transactions of these nodes while others were down: those that wrote, and those that only read.
fn during(run: &Run, of: &[u16]) -> (u64, u64) {
    let history = run.history.as_ref().expect("it is recorded");
    let (mut wrote, mut read) = (0, 0);
    for transaction in &history.transactions {
        let ended = transaction.completed.unwrap_or(u64::MAX);
        let node = transaction.node.unwrap_or_default();
        // Calls that were running at the crash have ended by then.
        let counts = (10_000_000..900_000_000).contains(&ended)
            && transaction.outcome == Outcome::Committed
            && of.contains(&node);
        let writes = transaction.stamp.is_some();
        wrote += u64::from(counts && writes);
        read += u64::from(counts && !writes);
    }
    (wrote, read)
}

/// Runs show the anomalies that quorum operation permits. A client that stays at its node misses its own writes, and
/// reads older versions than before. A client that switches nodes overwrites a later write of its own with an earlier
/// one.
#[test]
fn reads_lag() {
    let prepared = Prepared::new("register", NODES).unwrap();
    let loses = |model, clients_switch_nodes| {
        (0..2_000).find(|seed| {
            let mut case = quorum(
                ProtocolName::RampFast,
                FaultProfile::Storm,
                *seed,
                3 + 2 * (seed % 2) as u16,
            );
            case.extensions.quorum = Some(300);
            case.clients_switch_nodes = clients_switch_nodes;
            let run = case.run_recorded(&prepared, None).unwrap();
            assert_eq!(run.report.verdict, Verdict::Fine, "{seed}");
            let history = run.history.as_ref().expect("it is recorded").history();
            let history = history.expect("it does not contradict itself");
            let verdict = check(&history, model).expect("the model can be checked");
            !verdict.anomalies.is_empty()
        })
    };
    for (model, clients_switch_nodes) in [
        (Model::ReadYourWrites, false),
        (Model::MonotonicReads, false),
        (Model::MonotonicWrites, true),
    ] {
        let lost = loses(model, clients_switch_nodes);
        assert!(lost.is_some(), "{model}: no run shows it");
        eprintln!("{model}: seed {lost:?} loses it, clients_switch_nodes {clients_switch_nodes}");
    }
}

#[test]
fn what_quorums_cannot_do_is_refused() {
    let prepared = Prepared::new("register", NODES).unwrap();
    let refused = |change: fn(&mut Case)| {
        let mut case = quorum(ProtocolName::RampFast, FaultProfile::None, 1, 3);
        change(&mut case);
        case.run(&prepared).unwrap_err()
    };
    let one = refused(|case| case.clusters = 1);
    assert!(
        matches!(one, CaseError::Clusters(ClustersError::Alone)),
        "{one}"
    );
    let locking = refused(|case| case.protocol = ProtocolName::Locking);
    assert!(matches!(locking, CaseError::NoRamp { .. }), "{locking}");
    let patience: [fn(&mut Case); 2] = [
        |case| case.extensions.quorum = Some(0),
        |case| case.extensions.quorum = Some(u64::MAX),
    ];
    for change in patience {
        let error = refused(change);
        let is_told = matches!(error, CaseError::Clusters(ClustersError::QuorumWait));
        assert!(is_told, "{error}");
    }
    let both = refused(|case| case.extensions.prepare_f = Some(1));
    assert!(
        matches!(both, CaseError::Clusters(ClustersError::Both)),
        "{both}"
    );
    let beside: [fn(&mut Case); 3] = [
        |case| case.extensions.causal = true,
        |case| case.extensions.one_phase = true,
        |case| {
            case.plan.faults = vec![Fault {
                at_us: 0,
                for_us: 0,
                kind: FaultKind::PermanentLoss { node: 0 },
            }];
        },
    ];
    for change in beside {
        let error = refused(change);
        let is_beside = matches!(&error, CaseError::Clusters(ClustersError::Excluded { .. }));
        assert!(is_beside, "{error}");
    }
    let bank = Prepared::new("bank", NODES).unwrap();
    let ordered = quorum(ProtocolName::RampFast, FaultProfile::None, 1, 3)
        .run(&bank)
        .unwrap_err();
    let is_ordered = matches!(&ordered, CaseError::Clusters(ClustersError::Ordered { .. }));
    assert!(is_ordered, "{ordered}");
}
