//! Causal RAMP (ramp.txt §6.3): the histories of storms are causally consistent. Those of the same runs without it are
//! not.

use anabranch_history::{Model, check};
use anabranch_sim::run::Run;
use anabranch_sim::{Case, FaultProfile, Network, Prepared, ProtocolName, Verdict};

const RAMPS: [ProtocolName; 3] = [
    ProtocolName::RampFast,
    ProtocolName::RampSmall,
    ProtocolName::RampHybrid,
];

const NODES: u16 = 4;

/// Three sites near each other, and one far away. A commit at the three is read and answered there before the fourth
/// learns of it.
const FAR: &str = "sites a b c d\na 0.5 1 1 60\nb 1 0.5 1 60\nc 1 1 0.5 60\nd 60 60 60 0.5\n";

fn case(protocol: ProtocolName, profile: FaultProfile, seed: u64, transactions: u64) -> Case {
    let network = match seed % 2 {
        0 => Network::matrix("three near, one far", FAR).unwrap(),
        _ => Network::lan(),
    };
    Case::new(protocol, seed, NODES, 12, transactions, network, profile)
}

/// Whether a run's history violates causal consistency.
fn violates_causality(run: &Run) -> bool {
    let history = run.history.as_ref().expect("it is recorded").history();
    let history = history.expect("it does not contradict itself");
    let verdict = check(&history, Model::Causal).expect("the model can be checked");
    !verdict.is_satisfied()
}

/// Runs all fault profiles, with clients that stay and clients that switch nodes, with one-phase and two-phase writes.
/// All runs are causally consistent. Returns how many are not without `causal`.
fn storms(workload: &str, protocol: ProtocolName, seeds: u64, transactions: u64) -> u32 {
    let prepared = Prepared::new(workload, NODES).unwrap();
    let mut found_out = 0;
    for profile in FaultProfile::ONE_REPLICA {
        for seed in 0..seeds {
            for (clients_switch_nodes, one_phase) in [(false, false), (true, false), (true, true)] {
                let mut case = case(protocol, profile, seed, transactions);
                (case.clients_switch_nodes, case.extensions.one_phase) =
                    (clients_switch_nodes, one_phase);
                case.extensions.causal = true;
                let what = format!(
                    "{workload} {} {} {seed}, clients_switch_nodes {clients_switch_nodes}, one phase {one_phase}",
                    protocol.name(),
                    profile.name()
                );
                let first = case.run(&prepared).unwrap();
                assert_eq!(first.verdict, Verdict::Fine, "{what}");
                if one_phase {
                    // Without it the session guarantees fail, too.
                    let second = case.run(&prepared).unwrap();
                    assert_eq!(first, second, "{what}: two runs of one seed differ");
                    continue;
                }
                case.extensions.causal = false;
                let plain = case.run_recorded(&prepared, None).unwrap();
                assert_eq!(plain.report.verdict, Verdict::Fine, "{what}, not causal");
                found_out += u32::from(violates_causality(&plain));
            }
        }
    }
    eprintln!(
        "{workload} {}: {found_out} of {} violate causality without",
        protocol.name(),
        seeds * 8
    );
    found_out
}

/// Sam's replies to Mary (§4.7): plain RAMP violates causality in most runs.
#[test]
fn replies_are_causal() {
    for ramp in RAMPS {
        let found = storms("replies", ramp, 4, 200);
        assert!(found > 3, "{}: {found} of 32 miss something", ramp.name());
    }
}

#[test]
fn bank_and_register_are_causal() {
    for ramp in RAMPS {
        storms("bank", ramp, 2, 120);
        storms("register", ramp, 2, 120);
    }
}

#[test]
fn what_is_counted_paid_and_read_four_at_a_time_is_causal() {
    for workload in ["counter", "smallbank", "payroll", "ycsb"] {
        storms(workload, ProtocolName::RampFast, 2, 150);
    }
}

/// Clients with lost commits carry their causal context: they read their own writes, and a reply is not visible without
/// the comment that it answers.
#[test]
fn commits_left_to_participants_are_causal() {
    for ramp in RAMPS {
        for workload in ["register", "replies"] {
            let prepared = Prepared::new(workload, NODES).unwrap();
            for seed in 0..6 {
                let mut case = case(ramp, FaultProfile::Storm, seed, 120);
                (case.clients_switch_nodes, case.extensions.causal) = (true, true);
                case.termination.lost_commits = 300_000;
                let report = case.run(&prepared).unwrap();
                assert_eq!(
                    report.verdict,
                    Verdict::Fine,
                    "{workload} {} {seed}",
                    ramp.name()
                );
            }
        }
    }
}
