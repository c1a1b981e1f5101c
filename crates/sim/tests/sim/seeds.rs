//! Seeds of every workload under every protocol and fault profile, some of them run twice.

use anabranch_history::{Model, check};
use anabranch_protocol::ramp::FilterSize;
use anabranch_sim::fault::FaultKind;
use anabranch_sim::run::Run;
use anabranch_sim::{
    Case, CaseFile, FaultProfile, Network, Prepared, ProtocolName, Termination, Verdict,
};

const NODES: u16 = 3;
const CLIENTS: u32 = 6;
const TRANSACTIONS: u64 = 120;
/// One seed of so many is run twice.
const REPEATED: u64 = 5;

const RAMPS: [ProtocolName; 3] = [
    ProtocolName::RampFast,
    ProtocolName::RampSmall,
    ProtocolName::RampHybrid,
];

fn case(protocol: ProtocolName, profile: FaultProfile, seed: u64) -> Case {
    let network = Network::lan();
    Case::new(
        protocol,
        seed,
        NODES,
        CLIENTS,
        TRANSACTIONS,
        network,
        profile,
    )
}

/// Runs seeds under all fault profiles, some of them twice.
fn sweep(workload: &str, protocol: ProtocolName, seeds: u64) {
    let prepared = Prepared::new(workload, NODES).unwrap();
    for profile in FaultProfile::ONE_REPLICA {
        let mut sometimes = std::collections::BTreeMap::new();
        for seed in 0..seeds {
            let case = case(protocol, profile, seed);
            let first = case.run(&prepared).unwrap();
            let what = format!("{workload} {} {} {seed}", protocol.name(), profile.name());
            assert_eq!(first.verdict, Verdict::Fine, "{what}");
            // What makes two runs differ, such as the order of a hash map, does so in one of a few seeds.
            if seed % REPEATED == 0 {
                let second = case.run(&prepared).unwrap();
                assert_eq!(first, second, "{what}: two runs of one seed differ");
            }
            for (name, count) in first.statistics.sometimes {
                *sometimes.entry(name).or_insert(0) += count;
            }
        }
        // A workload that cannot fracture shows no races.
        let race = [
            "a second round of reads repaired a race",
            "a fractured read was retried",
        ];
        let races = race.iter().any(|name| sometimes.contains_key(name));
        assert!(!races || prepared.workload.may_fracture(), "{workload}");
        eprintln!(
            "{workload} {} {}: {sometimes:#?}",
            protocol.name(),
            profile.name()
        );
    }
}

/// An owner looks for sibling metadata only near recent writes, and with more than a few nodes it finds these in
/// another way. Readers have to learn of their siblings in both ways, with and without a recorded history.
#[test]
fn readers_are_told_of_what_they_miss_by_few_nodes_and_by_many_under_the_ramps() {
    for (nodes, clients) in [(3, 16), (9, 48)] {
        let prepared = Prepared::new("register", nodes).unwrap();
        for (protocol, history) in RAMPS.into_iter().flat_map(|p| [(p, false), (p, true)]) {
            let mut races = 0;
            for (profile, seed) in [
                (FaultProfile::None, 0),
                (FaultProfile::None, 1),
                (FaultProfile::Storm, 2),
                (FaultProfile::Storm, 3),
            ] {
                let network = Network::lan();
                let mut case = Case::new(protocol, seed, nodes, clients, 1_000, network, profile);
                case.watch.history = history;
                let report = case.run(&prepared).unwrap();
                let (protocol, profile) = (protocol.name(), profile.name());
                let what =
                    format!("{nodes} nodes, {protocol}, {profile} {seed}, history {history}");
                assert_eq!(report.verdict, Verdict::Fine, "{what}");
                let repaired = "a second round of reads repaired a race";
                races += report.statistics.sometimes.get(repaired).unwrap_or(&0);
            }
            assert!(races > 0, "{nodes}, {}: no race", protocol.name());
        }
    }
}

/// No run is weak for a situation that its workload cannot reach.
#[test]
fn only_what_may_fracture_is_expected_to_be_repaired() {
    let race = "a reader met a race, which was repaired or retried";
    for (workload, expected) in [("register", true), ("smallbank", false)] {
        let prepared = Prepared::new(workload, NODES).unwrap();
        let mut case = case(ProtocolName::RampFast, FaultProfile::None, 1);
        // A single call has no races.
        (case.clients, case.transactions) = (1, 1);
        let report = case.run(&prepared).unwrap();
        assert_eq!(report.unseen.contains(&race), expected, "{workload}");
        assert_eq!(
            report.is_weak(),
            expected,
            "{workload}: {:?}",
            report.unseen
        );
    }
}

/// Range reads are not repaired; their transaction is retried. That counts as a race, too.
#[test]
fn some_seed_of_each_workload_that_may_fracture_has_a_race() {
    for workload in [
        "register",
        "counter",
        "bank",
        "departments",
        "payroll",
        "tpcc",
        "ycsb",
    ] {
        let prepared = Prepared::new(workload, NODES).unwrap();
        assert!(prepared.workload.may_fracture(), "{workload}");
        let has_seen = (0..60).any(|seed| {
            let mut case = case(ProtocolName::RampFast, FaultProfile::None, seed);
            case.transactions = 200;
            case.run(&prepared).unwrap().unseen.is_empty()
        });
        assert!(has_seen, "{workload}");
    }
}

/// A restarted node replays versions that look older than the retention window. If it drops versions that a prepared
/// transaction has to lose against, that transaction wins a register in only one of its partitions.
#[test]
fn seed_3134_keeps_what_decides_against_the_prepared_after_a_crash() {
    let prepared = Prepared::new("register", 4).unwrap();
    let (network, profile) = (Network::lan(), FaultProfile::Storm);
    let mut case = Case::new(ProtocolName::RampFast, 3134, 4, 6, 200, network, profile);
    case.termination = Termination::default(); // as when it was found
    assert_eq!(case.run(&prepared).unwrap().verdict, Verdict::Fine);
}

/// A node is paused while two others restart. Its links, which are not paused, learn of the new incarnations before the
/// node does. Messages that it sends in between must not reach them: the abort that follows is dropped when the node
/// learns of the restart, and one of them would stay prepared for ever.
#[test]
fn seed_3033_sends_nothing_to_an_incarnation_that_the_node_has_not_learned_of() {
    let prepared = Prepared::new("payroll", 4).unwrap();
    let (network, profile) = (Network::lan(), FaultProfile::Storm);
    let mut case = Case::new(ProtocolName::RampFast, 3033, 4, 6, 200, network, profile);
    case.termination = Termination::default(); // as when it was found
    // Its plan had a slow link from a node to itself, which has no effect.
    let mut slow = (case.plan.faults.iter_mut()).filter(|fault| {
        let extra_us = 53;
        fault.kind
            == FaultKind::SlowLink {
                from: 0,
                to: 1,
                extra_us,
            }
    });
    slow.next().expect("it is drawn").kind = FaultKind::LatencySpike { percent: 100 };
    assert_eq!(case.run(&prepared).unwrap().verdict, Verdict::Fine);
}

/// A restarted node inquires about a vote at a coordinator that had restarted before. A packet of the coordinator's
/// former incarnation was still in flight, so the inquiry went to that incarnation and was lost. The coordinator had
/// announced its restart long before, and the inquiry was not repeated.
#[test]
fn seed_15048_repeats_an_inquiry_to_a_former_incarnation() {
    let prepared = Prepared::new("register", 4).unwrap();
    let (network, profile) = (Network::lan(), FaultProfile::Storm);
    let case = Case::new(ProtocolName::Locking, 15048, 4, 6, 200, network, profile);
    assert_eq!(case.run(&prepared).unwrap().verdict, Verdict::Fine);
}

/// The same in another workload.
#[test]
fn seed_20604_repeats_an_inquiry_to_a_former_incarnation() {
    let prepared = Prepared::new("bank", 4).unwrap();
    let (network, profile) = (Network::lan(), FaultProfile::Storm);
    let case = Case::new(ProtocolName::Locking, 20604, 4, 6, 200, network, profile);
    assert_eq!(case.run(&prepared).unwrap().verdict, Verdict::Fine);
}

#[test]
fn register_ramp() {
    sweep("register", ProtocolName::RampFast, 100);
}
#[test]
fn counter_ramp() {
    sweep("counter", ProtocolName::RampFast, 100);
}
#[test]
fn bank_ramp() {
    sweep("bank", ProtocolName::RampFast, 100);
}
#[test]
fn departments_ramp() {
    sweep("departments", ProtocolName::RampFast, 60);
}
#[test]
fn smallbank_ramp() {
    sweep("smallbank", ProtocolName::RampFast, 100);
}
#[test]
fn payroll_ramp() {
    sweep("payroll", ProtocolName::RampFast, 100);
}
#[test]
fn tpcc_ramp() {
    sweep("tpcc", ProtocolName::RampFast, 3);
}
#[test]
fn register_ramp_small() {
    sweep("register", ProtocolName::RampSmall, 60);
}
#[test]
fn counter_ramp_small() {
    sweep("counter", ProtocolName::RampSmall, 60);
}
#[test]
fn bank_ramp_small() {
    sweep("bank", ProtocolName::RampSmall, 60);
}
#[test]
fn departments_ramp_small() {
    sweep("departments", ProtocolName::RampSmall, 30);
}
#[test]
fn smallbank_ramp_small() {
    sweep("smallbank", ProtocolName::RampSmall, 60);
}
#[test]
fn payroll_ramp_small() {
    sweep("payroll", ProtocolName::RampSmall, 60);
}
#[test]
fn ycsb_ramp_small() {
    sweep("ycsb", ProtocolName::RampSmall, 10);
}
#[test]
fn tpcc_ramp_small() {
    sweep("tpcc", ProtocolName::RampSmall, 2);
}
#[test]
fn register_ramp_hybrid() {
    sweep("register", ProtocolName::RampHybrid, 60);
}
#[test]
fn counter_ramp_hybrid() {
    sweep("counter", ProtocolName::RampHybrid, 60);
}
#[test]
fn bank_ramp_hybrid() {
    sweep("bank", ProtocolName::RampHybrid, 60);
}
#[test]
fn departments_ramp_hybrid() {
    sweep("departments", ProtocolName::RampHybrid, 30);
}
#[test]
fn smallbank_ramp_hybrid() {
    sweep("smallbank", ProtocolName::RampHybrid, 60);
}
#[test]
fn payroll_ramp_hybrid() {
    sweep("payroll", ProtocolName::RampHybrid, 60);
}
#[test]
fn ycsb_ramp_hybrid() {
    sweep("ycsb", ProtocolName::RampHybrid, 10);
}
#[test]
fn tpcc_ramp_hybrid() {
    sweep("tpcc", ProtocolName::RampHybrid, 2);
}

/// Lost commits, under all metadata and fault profiles: participants settle each of them, nothing stays prepared, and
/// acknowledged commits are installed.
#[test]
fn commits_left_to_participants_are_found_out() {
    for protocol in RAMPS {
        let mut found_out = 0;
        for workload in ["register", "bank", "counter"] {
            let prepared = Prepared::new(workload, NODES).unwrap();
            for profile in FaultProfile::ONE_REPLICA {
                for seed in 0..5 {
                    let mut case = case(protocol, profile, seed);
                    case.termination.lost_commits = 300_000;
                    let report = case.run(&prepared).unwrap();
                    let what = format!("{workload} {} {} {seed}", protocol.name(), profile.name());
                    assert_eq!(report.verdict, Verdict::Fine, "{what}");
                    found_out += report.counters.terminations;
                }
            }
        }
        assert!(found_out > 400, "{}: {found_out}", protocol.name());
    }
}

/// The session guarantees hold for clients that switch nodes: an owner has the only copy of its partition, and a commit
/// is acknowledged when it is visible at all participants.
#[test]
fn sessions_hold_for_clients_that_switch_nodes() {
    for protocol in [
        ProtocolName::RampFast,
        ProtocolName::RampSmall,
        ProtocolName::RampHybrid,
        ProtocolName::Locking,
    ] {
        for workload in ["register", "bank", "counter"] {
            let prepared = Prepared::new(workload, NODES).unwrap();
            for profile in FaultProfile::ONE_REPLICA {
                for seed in 0..4 {
                    let mut case = case(protocol, profile, seed);
                    case.clients_switch_nodes = true;
                    let report = case.run(&prepared).unwrap();
                    let what = format!("{workload} {} {} {seed}", protocol.name(), profile.name());
                    assert_eq!(report.verdict, Verdict::Fine, "{what}");
                }
            }
        }
    }
}

/// A client that is answered before its commit is visible everywhere may miss its own writes. The checks find that.
#[test]
fn a_client_that_is_answered_early_may_miss_its_writes() {
    let prepared = Prepared::new("register", NODES).unwrap();
    let missed = (0..10).filter(|seed| {
        let mut case = case(ProtocolName::RampFast, FaultProfile::None, *seed);
        case.termination.lost_commits = 500_000;
        let run = case.run_recorded(&prepared, None).unwrap();
        assert_eq!(run.report.verdict, Verdict::Fine, "{seed}");
        violates(&run, Model::Sessions)
    });
    assert!(missed.count() > 0);
}

/// One-phase writes (ramp.txt §4.8): a client that stays at its node keeps all session guarantees, since its requests
/// follow its commits on the same links. A client that switches nodes keeps those that owners alone provide, and may
/// miss its own writes.
#[test]
fn one_phase_clients_read_their_writes_at_the_same_node() {
    for protocol in RAMPS {
        let (mut missed, mut overtaken) = (0, 0);
        for workload in ["register", "bank", "counter"] {
            let prepared = Prepared::new(workload, NODES).unwrap();
            for profile in FaultProfile::ONE_REPLICA {
                for seed in 0..6 {
                    let mut case = case(protocol, profile, seed);
                    case.extensions.one_phase = true;
                    let what = format!("{workload} {} {} {seed}", protocol.name(), profile.name());
                    let stays = case.run(&prepared).unwrap();
                    assert_eq!(stays.verdict, Verdict::Fine, "{what}");
                    case.clients_switch_nodes = true;
                    let run = case.run_recorded(&prepared, None).unwrap();
                    assert_eq!(run.report.verdict, Verdict::Fine, "{what}");
                    missed += u32::from(violates(&run, Model::ReadYourWrites));
                    overtaken += u32::from(violates(&run, Model::MonotonicWrites));
                }
            }
        }
        assert!(missed > 0, "{}: {missed}, {overtaken}", protocol.name());
        eprintln!(
            "{}: {missed} of 72 miss a write, {overtaken} overtake one",
            protocol.name()
        );
    }
}

/// Whether a run's history violates a model.
fn violates(run: &Run, model: Model) -> bool {
    let history = run.history.as_ref().expect("it is recorded").history();
    let history = history.expect("it does not contradict itself");
    let verdict = check(&history, model).expect("the model can be checked");
    !verdict.anomalies.is_empty()
}

/// Runs show the permitted anomaly (ramp.txt §3.3): a reader sees a transaction, and not all of its dependencies.
#[test]
fn a_transactions_dependencies_may_be_invisible() {
    let prepared = Prepared::new("ycsb", NODES).unwrap();
    let missed = (0..100).filter(|seed| {
        let mut case = case(ProtocolName::RampFast, FaultProfile::Mild, *seed);
        (case.clients, case.transactions) = (12, 600);
        let run = case.run_recorded(&prepared, None).unwrap();
        assert_eq!(run.report.verdict, Verdict::Fine, "{seed}");
        violates(&run, Model::Causal)
    });
    let missed = missed.count();
    assert!(missed > 0, "{missed}");
    eprintln!("{missed} of 100");
}

/// Bloom filters of four bits give mostly false positives, which are harmless.
#[test]
fn false_positives_are_harmless() {
    let mut in_vain = 0;
    for workload in ["register", "counter", "payroll"] {
        let prepared = Prepared::new(workload, NODES).unwrap();
        for seed in 0..40 {
            let mut case = case(ProtocolName::RampHybrid, FaultProfile::Storm, seed);
            case.filter = FilterSize::try_from(4).unwrap();
            let report = case.run(&prepared).unwrap();
            assert_eq!(report.verdict, Verdict::Fine, "{workload} {seed}");
            in_vain += report.counters.false_positives;
        }
    }
    assert!(in_vain > 100, "{in_vain}");
}

#[test]
fn register_locking() {
    sweep("register", ProtocolName::Locking, 100);
}
#[test]
fn counter_locking() {
    sweep("counter", ProtocolName::Locking, 100);
}
#[test]
fn bank_locking() {
    sweep("bank", ProtocolName::Locking, 100);
}
#[test]
fn departments_locking() {
    sweep("departments", ProtocolName::Locking, 60);
}
#[test]
fn smallbank_locking() {
    sweep("smallbank", ProtocolName::Locking, 100);
}
#[test]
fn payroll_locking() {
    sweep("payroll", ProtocolName::Locking, 100);
}
#[test]
fn tpcc_locking() {
    sweep("tpcc", ProtocolName::Locking, 3);
}

#[test]
fn nwnr_is_found_out() {
    for workload in ["register", "counter", "bank"] {
        let prepared = Prepared::new(workload, NODES).unwrap();
        let found = (0..10).filter(|seed| {
            let case = case(ProtocolName::Nwnr, FaultProfile::None, *seed);
            matches!(case.run(&prepared).unwrap().verdict, Verdict::Violated(_))
        });
        let found = found.count();
        assert!(found >= 3, "{workload}: {found} of 10");
    }
}

/// Retention of sibling metadata is measured by the owner's clock, and a reader's time by its coordinator's. After a
/// jump of its clock an owner may have collected metadata that a slow reader needs: it reports that, and the reader
/// restarts.
#[test]
fn an_owner_whose_clock_jumps_does_not_fracture_a_slow_reader() {
    let register = r#"{"anabranch_case":3,"workload":"register","protocol":"ramp-fast","nodes":3,"seed":0,"clients":9,"transactions":896}
{"at_us":100,"for_us":14062,"kind":"slow_link","from":0,"to":2,"extra_us":20000}
{"at_us":29000,"for_us":1,"kind":"clock_skew","node":2,"by_us":40000}
{"at_us":31000,"for_us":3402,"kind":"clock_skew","node":2,"by_us":900000}
{"end":{"faults":3}}
"#;
    let causal = r#"{"anabranch_case":3,"workload":"ycsb","protocol":"ramp-fast","extensions":{"one_phase":false,"causal":true},"nodes":3,"seed":0,"clients":2,"transactions":288}
{"at_us":100,"for_us":109,"kind":"slow_link","from":0,"to":2,"extra_us":20000}
{"at_us":7000,"for_us":13984,"kind":"clock_skew","node":2,"by_us":900000}
{"at_us":19000,"for_us":431,"kind":"clock_skew","node":2,"by_us":900000}
{"end":{"faults":3}}
"#;
    for text in [register, causal] {
        let file = CaseFile::from_text(text).unwrap();
        let prepared = Prepared::new(&file.workload, file.nodes).unwrap();
        for protocol in RAMPS {
            let case = Case {
                protocol,
                ..file.case.clone()
            };
            let verdict = case.run(&prepared).unwrap().verdict;
            assert_eq!(
                verdict,
                Verdict::Fine,
                "{} {}",
                file.workload,
                protocol.name()
            );
        }
    }
}
