//! The Conveyor Belt over databases that behave like PostgreSQL's: workloads under every fault profile.

use std::collections::BTreeMap;

use anabranch_sim::{
    Case, CaseError, CaseFile, FaultProfile, Network, Prepared, ProtocolName, Verdict,
};

const CLIENTS: u32 = 6;
const TRANSACTIONS: u64 = 60;

/// A case with so many servers.
fn case(profile: FaultProfile, seed: u64, servers: u16) -> Case {
    let mut case = Case::new(
        ProtocolName::Belt,
        seed,
        servers,
        CLIENTS,
        TRANSACTIONS,
        Network::lan(),
        profile,
    );
    case.clusters = servers;
    case
}

/// Runs seeds under these fault profiles, some of them twice.
fn sweep(workload: &str, profiles: &[FaultProfile], seeds: u64) {
    let prepared: BTreeMap<u16, Prepared> = [2, 3, 5]
        .map(|servers| (servers, Prepared::for_ring(workload, servers).unwrap()))
        .into();
    let (mut committed, mut seen) = (0, BTreeMap::new());
    for profile in profiles {
        for seed in 0..seeds {
            let servers = [3, 2, 5][(seed % 3) as usize];
            let mut case = case(*profile, seed, servers);
            case.clients_switch_nodes = seed % 2 == 0;
            let what = format!("{workload} {} {seed}", profile.name());
            let first = case.run(&prepared[&servers]).unwrap();
            assert_eq!(first.verdict, Verdict::Fine, "{what}");
            let compared = "rows whose replicated columns are equal";
            assert!(first.checked.iter().any(|(name, _)| name == compared));
            committed += first.statistics.committed;
            for (name, count) in &first.statistics.sometimes {
                *seen.entry(*name).or_insert(0) += count;
            }
            if seed % 8 == 0 {
                let second = case.run(&prepared[&servers]).unwrap();
                assert_eq!(first, second, "{what}: two runs of one seed differ");
            }
        }
    }
    println!("{workload}: {committed} committed, {seen:#?}");
    for name in [
        "a global operation committed",
        "a server applied an update of another",
    ] {
        assert!(seen.contains_key(name), "{workload}: never: {name}");
    }
}

#[test]
fn register_is_serializable() {
    sweep("register", &FaultProfile::ONE_REPLICA, 6);
}

#[test]
fn bank_is_serializable() {
    sweep("bank", &FaultProfile::ONE_REPLICA, 6);
}

#[test]
fn smallbank_is_serializable() {
    sweep("smallbank", &[FaultProfile::None, FaultProfile::Storm], 8);
}

#[test]
fn a_bookstore_is_serializable() {
    sweep("tpcw", &[FaultProfile::None, FaultProfile::Storm], 4);
}

#[test]
fn an_auction_site_is_serializable() {
    sweep("rubis", &[FaultProfile::None, FaultProfile::Storm], 4);
}

/// For a long run: `cargo test -p anabranch-sim --test sim -- --ignored belt::`.
#[test]
#[ignore = "takes minutes: 1,000 storms"]
fn storms_of_every_workload() {
    for workload in ["register", "bank", "smallbank", "tpcw", "rubis"] {
        sweep(workload, &[FaultProfile::Storm], 200);
    }
}

#[test]
fn what_servers_of_a_ring_cannot_run_is_refused() {
    let prepared = Prepared::for_ring("bank", 3).unwrap();
    let mut replicated = case(FaultProfile::None, 0, 3);
    replicated.replicas = 3;
    let mut interactive = case(FaultProfile::None, 0, 3);
    interactive.interactive = true;
    for refused in [replicated, interactive] {
        let error = refused.run(&prepared).unwrap_err();
        assert!(matches!(error, CaseError::Sites { .. }), "{error}");
    }
}

/// A server's disk fails, with a commit that is not durable and was read by an attempt that aborted. After the restart another
/// operation draws the number of that commit.
#[test]
fn an_attempt_that_read_a_lost_commit_is_not_of_the_history() {
    let text = r#"{"anabranch_case":3,"workload":"bank","protocol":"belt","termination":{"after_us":400,"lost_commits":0},"nodes":1,"seed":1022467,"clients":5,"clusters":3,"transactions":22}
{"at_us":318,"for_us":749,"kind":"pause","node":0}
{"at_us":525,"for_us":504,"kind":"slow_disk","node":2,"percent":6879}
{"at_us":6557,"for_us":168,"kind":"disk","node":2,"failure":"syncs_fail"}
{"end":{"faults":3}}
"#;
    let file = CaseFile::from_text(text).unwrap();
    let prepared = Prepared::for_ring(&file.workload, file.case.clusters).unwrap();
    let verdict = file.case.run(&prepared).unwrap().verdict;
    assert_eq!(verdict, Verdict::Fine);
}
