//! Seeds of every workload under every protocol and level of faults, each run twice.

use anabranch_history::{Model, check};
use anabranch_protocol::ramp::FilterSize;
use anabranch_sim::fault::FaultKind;
use anabranch_sim::run::Run;
use anabranch_sim::{
    Case, CaseFile, FaultLevel, Network, Prepared, ProtocolName, Termination, Verdict,
};

const NODES: u16 = 3;
const CLIENTS: u32 = 6;
const TRANSACTIONS: u64 = 120;

const RAMPS: [ProtocolName; 3] = [
    ProtocolName::RampFast,
    ProtocolName::RampSmall,
    ProtocolName::RampHybrid,
];

fn case(protocol: ProtocolName, level: FaultLevel, seed: u64) -> Case {
    let network = Network::lan();
    Case::new(protocol, seed, NODES, CLIENTS, TRANSACTIONS, network, level)
}

/// Runs seeds of all levels of faults, each twice.
fn sweep(workload: &str, protocol: ProtocolName, seeds: u64) {
    let prepared = Prepared::new(workload, NODES).unwrap();
    for level in FaultLevel::ONE_REPLICA {
        let mut sometimes = std::collections::BTreeMap::new();
        for seed in 0..seeds {
            let case = case(protocol, level, seed);
            let first = case.run(&prepared).unwrap();
            let what = format!("{workload} {} {} {seed}", protocol.name(), level.name());
            assert_eq!(first.verdict, Verdict::Fine, "{what}");
            let second = case.run(&prepared).unwrap();
            assert_eq!(first, second, "{what}: two runs of one seed differ");
            for (name, count) in first.statistics.sometimes {
                *sometimes.entry(name).or_insert(0) += count;
            }
        }
        // What a workload is excused from, it never shows.
        let race = [
            "a second round of reads repaired a race",
            "a fractured read was retried",
        ];
        let races = race.iter().any(|name| sometimes.contains_key(name));
        assert!(!races || prepared.workload.may_fracture(), "{workload}");
        eprintln!(
            "{workload} {} {}: {sometimes:#?}",
            protocol.name(),
            level.name()
        );
    }
}

/// An owner looks for evidence only beside what was written lately, and of more than a few nodes it finds that out in
/// another way. So it does while a history is recorded, and while there are answers alone to tell by.
#[test]
fn readers_are_told_of_what_they_miss_by_few_nodes_and_by_many_under_the_ramps() {
    for (nodes, clients) in [(3, 16), (9, 48)] {
        let prepared = Prepared::new("register", nodes).unwrap();
        for (protocol, history) in RAMPS.into_iter().flat_map(|p| [(p, false), (p, true)]) {
            let mut races = 0;
            for (level, seed) in [
                (FaultLevel::None, 0),
                (FaultLevel::None, 1),
                (FaultLevel::Storm, 2),
                (FaultLevel::Storm, 3),
            ] {
                let network = Network::lan();
                let mut case = Case::new(protocol, seed, nodes, clients, 1_000, network, level);
                case.watch.history = history;
                let report = case.run(&prepared).unwrap();
                let (protocol, level) = (protocol.name(), level.name());
                let what = format!("{nodes} nodes, {protocol}, {level} {seed}, history {history}");
                assert_eq!(report.verdict, Verdict::Fine, "{what}");
                let repaired = "a second round of reads repaired a race";
                races += report.statistics.sometimes.get(repaired).unwrap_or(&0);
            }
            assert!(races > 0, "{nodes}, {}: no race", protocol.name());
        }
    }
}

/// No run is named weak for what its workload cannot show.
#[test]
fn only_what_may_fracture_is_expected_to_be_repaired() {
    let race = "a reader met a race, which was repaired or retried";
    for (workload, expected) in [("register", true), ("smallbank", false)] {
        let prepared = Prepared::new(workload, NODES).unwrap();
        let mut case = case(ProtocolName::RampFast, FaultLevel::None, 1);
        // Nothing races with a single call.
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

/// What is read by ranges is not repaired, but read again as a whole: that is a race that was met.
#[test]
fn each_workload_that_may_fracture_is_seen_to_by_some_seed() {
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
            let mut case = case(ProtocolName::RampFast, FaultLevel::None, seed);
            case.transactions = 200;
            case.run(&prepared).unwrap().unseen.is_empty()
        });
        assert!(has_seen, "{workload}");
    }
}

/// A node comes back, and what it replays looks older than the window: versions that decide against
/// a transaction that is still prepared were dropped, and the transaction won a register in one of
/// its partitions alone.
#[test]
fn seed_3134_keeps_what_decides_against_the_prepared_after_a_crash() {
    let prepared = Prepared::new("register", 4).unwrap();
    let (network, level) = (Network::lan(), FaultLevel::Storm);
    let mut case = Case::new(ProtocolName::RampFast, 3134, 4, 6, 200, network, level);
    case.termination = Termination::default(); // as when it was found
    assert_eq!(case.run(&prepared).unwrap().verdict, Verdict::Fine);
}

/// A node sleeps while two others die and come back. Its links, which are awake, hear of their new
/// lives before it does: what it says in between must not reach them, for what it says next to take
/// that back is dropped when it hears of their restart, and one of them kept it prepared for ever.
#[test]
fn seed_3033_says_nothing_to_a_life_that_the_node_has_not_heard_of() {
    let prepared = Prepared::new("payroll", 4).unwrap();
    let (network, level) = (Network::lan(), FaultLevel::Storm);
    let mut case = Case::new(ProtocolName::RampFast, 3033, 4, 6, 200, network, level);
    case.termination = Termination::default(); // as when it was found
    // It had a slow link from a node to itself, which is none.
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

/// A node comes back and asks a coordinator, which has come back before, what has become of a vote. A
/// packet of the coordinator's former life was still under way: the question went to that life and was
/// lost with it. The coordinator had said long ago that it has returned, and nobody asked again.
#[test]
fn seed_15048_asks_again_when_the_question_went_to_the_dead() {
    let prepared = Prepared::new("register", 4).unwrap();
    let (network, level) = (Network::lan(), FaultLevel::Storm);
    let case = Case::new(ProtocolName::Locking, 15048, 4, 6, 200, network, level);
    assert_eq!(case.run(&prepared).unwrap().verdict, Verdict::Fine);
}

/// The same, of another workload.
#[test]
fn seed_20604_asks_again_when_the_question_went_to_the_dead() {
    let prepared = Prepared::new("bank", 4).unwrap();
    let (network, level) = (Network::lan(), FaultLevel::Storm);
    let case = Case::new(ProtocolName::Locking, 20604, 4, 6, 200, network, level);
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

/// Commits that are left to participants, under every metadata and every level of faults: each is found
/// out, nothing is left prepared, and what the clients were told is there.
#[test]
fn commits_left_to_participants_are_found_out() {
    for protocol in RAMPS {
        let mut found_out = 0;
        for workload in ["register", "bank", "counter"] {
            let prepared = Prepared::new(workload, NODES).unwrap();
            for level in FaultLevel::ONE_REPLICA {
                for seed in 0..5 {
                    let mut case = case(protocol, level, seed);
                    case.termination.lost_commits = 300_000;
                    let report = case.run(&prepared).unwrap();
                    let what = format!("{workload} {} {} {seed}", protocol.name(), level.name());
                    assert_eq!(report.verdict, Verdict::Fine, "{what}");
                    found_out += report.counters.terminations;
                }
            }
        }
        assert!(found_out > 400, "{}: {found_out}", protocol.name());
    }
}

/// The guarantees of a session hold for a client that goes to another node with each call: an owner is
/// the only copy of its partition, and a commit is answered when all of them show it.
#[test]
fn sessions_hold_for_clients_that_change_nodes() {
    for protocol in [
        ProtocolName::RampFast,
        ProtocolName::RampSmall,
        ProtocolName::RampHybrid,
        ProtocolName::Locking,
    ] {
        for workload in ["register", "bank", "counter"] {
            let prepared = Prepared::new(workload, NODES).unwrap();
            for level in FaultLevel::ONE_REPLICA {
                for seed in 0..4 {
                    let mut case = case(protocol, level, seed);
                    case.clients_switch_nodes = true;
                    let report = case.run(&prepared).unwrap();
                    let what = format!("{workload} {} {} {seed}", protocol.name(), level.name());
                    assert_eq!(report.verdict, Verdict::Fine, "{what}");
                }
            }
        }
    }
}

/// A client that is answered before all participants show its commit does not read its own writes, and
/// is found out.
#[test]
fn who_is_answered_early_does_not_read_what_he_wrote() {
    let prepared = Prepared::new("register", NODES).unwrap();
    let missed = (0..10).filter(|seed| {
        let mut case = case(ProtocolName::RampFast, FaultLevel::None, *seed);
        case.termination.lost_commits = 500_000;
        let run = case.run_recorded(&prepared, None).unwrap();
        assert_eq!(run.report.verdict, Verdict::Fine, "{seed}");
        violates(&run, Model::Sessions)
    });
    assert!(missed.count() > 0);
}

/// One-phase writes (ramp.txt §4.8): a client that stays at its node keeps all guarantees of its session,
/// since what it asks comes behind the commits on the same links. One that changes nodes keeps those that
/// it can be told of by the owners alone, and does not always read what it wrote.
#[test]
fn who_is_answered_in_one_phase_reads_his_writes_where_he_wrote_them() {
    for protocol in RAMPS {
        let (mut missed, mut overtaken) = (0, 0);
        for workload in ["register", "bank", "counter"] {
            let prepared = Prepared::new(workload, NODES).unwrap();
            for level in FaultLevel::ONE_REPLICA {
                for seed in 0..6 {
                    let mut case = case(protocol, level, seed);
                    case.extensions.one_phase = true;
                    let what = format!("{workload} {} {} {seed}", protocol.name(), level.name());
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

/// What is permitted has a run that shows it (ramp.txt §3.3): a reader sees a transaction, and not all
/// that its writer had seen.
#[test]
fn what_a_transaction_has_read_is_not_seen_with_it() {
    let prepared = Prepared::new("ycsb", NODES).unwrap();
    let missed = (0..100).filter(|seed| {
        let mut case = case(ProtocolName::RampFast, FaultLevel::Mild, *seed);
        (case.clients, case.transactions) = (12, 600);
        let run = case.run_recorded(&prepared, None).unwrap();
        assert_eq!(run.report.verdict, Verdict::Fine, "{seed}");
        violates(&run, Model::Causal)
    });
    let missed = missed.count();
    assert!(missed > 0, "{missed}");
    eprintln!("{missed} of 100");
}

/// Filters of four bits say yes to nearly everything: readers ask in vain, and are told the truth.
#[test]
fn filters_that_err_make_nothing_wrong() {
    let mut in_vain = 0;
    for workload in ["register", "counter", "payroll"] {
        let prepared = Prepared::new(workload, NODES).unwrap();
        for seed in 0..40 {
            let mut case = case(ProtocolName::RampHybrid, FaultLevel::Storm, seed);
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
            let case = case(ProtocolName::Nwnr, FaultLevel::None, *seed);
            matches!(case.run(&prepared).unwrap().verdict, Verdict::Violated(_))
        });
        let found = found.count();
        assert!(found >= 3, "{workload}: {found} of 10");
    }
}

/// How long evidence is kept is told by an owner's clock, how long a reader takes by its coordinator's. An
/// owner whose clock jumps has forgotten what a slow reader has to be told: it says so, and the reader
/// begins again.
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
