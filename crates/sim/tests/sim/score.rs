//! SCORe, with time-warping and without: seeds of every workload under every fault profile.

use anabranch_sim::{Case, FaultProfile, Network, Prepared, ProtocolName, Verdict};

const NODES: u16 = 3;

fn case(protocol: ProtocolName, profile: FaultProfile, seed: u64) -> Case {
    Case::new(protocol, seed, NODES, 6, 120, Network::lan(), profile)
}

/// Runs seeds under all fault profiles; the first of each twice.
fn sweep(workload: &str, seeds: u64) {
    let prepared = Prepared::new(workload, NODES).unwrap();
    for protocol in [ProtocolName::Score, ProtocolName::Bumper] {
        for profile in FaultProfile::ONE_REPLICA {
            for seed in 0..seeds {
                let case = case(protocol, profile, seed);
                let first = case.run(&prepared).unwrap();
                let what = format!("{workload} {} {} {seed}", protocol.name(), profile.name());
                assert_eq!(first.verdict, Verdict::Fine, "{what}");
                if seed == 0 {
                    let second = case.run(&prepared).unwrap();
                    assert_eq!(first, second, "{what}: two runs of one seed differ");
                }
            }
        }
    }
}

#[test]
fn register_is_serializable() {
    sweep("register", 12);
}

#[test]
fn bank_is_serializable() {
    sweep("bank", 12);
}

#[test]
fn counter_is_serializable() {
    sweep("counter", 12);
}

#[test]
fn departments_is_serializable() {
    sweep("departments", 6);
}

#[test]
fn smallbank_is_serializable() {
    sweep("smallbank", 12);
}

#[test]
fn payroll_is_serializable() {
    sweep("payroll", 12);
}

#[test]
fn tpcc_is_serializable() {
    sweep("tpcc", 1);
}
