//! Every run's history is judged, and a protocol that promises too little is found out by it.

use anabranch_history::{History, Model, Phenomenon, Rsiw, check};
use anabranch_sim::run::Run;
use anabranch_sim::{Case, FaultLevel, Network, Prepared, ProtocolName, Verdict, Watch};

const NODES: u16 = 3;
const WORKLOADS: [&str; 5] = ["register", "counter", "bank", "smallbank", "payroll"];

fn run(prepared: &Prepared, protocol: ProtocolName, level: FaultLevel, seed: u64) -> Run {
    let case = Case::new(protocol, seed, NODES, 6, 120, Network::lan(), level);
    case.run_recorded(prepared, None)
        .expect("the case can be run")
}

/// What a model finds in a run's history.
fn found(run: &Run, model: Model) -> Vec<Phenomenon> {
    let history = run.history.as_ref().expect("it was recorded");
    let history = history.history().unwrap_or_else(|error| panic!("{error}"));
    assert!(history.committed() >= 100, "{}", history.committed());
    let verdict = check(&history, model).expect("the history suits the model");
    verdict.counts.into_keys().collect()
}

/// How many of ten seeds a model finds something in.
fn violating(prepared: &Prepared, protocol: ProtocolName, model: Model) -> usize {
    let seeds = 0..10;
    let violates = |seed: &u64| {
        let run = run(prepared, protocol, FaultLevel::None, *seed);
        !found(&run, model).is_empty()
    };
    seeds.filter(violates).count()
}

#[test]
fn the_history_of_every_run_is_judged() {
    let prepared = Prepared::new("register", NODES).unwrap();
    let run = run(&prepared, ProtocolName::Locking, FaultLevel::Mild, 1);
    let judged = run
        .report
        .checked
        .iter()
        .find(|(what, _)| what.contains("history"));
    let (judged, attempts) = judged.expect("it is told");
    assert!(
        judged.ends_with("strict-serializable, sessions"),
        "{judged}"
    );
    let recorded = run.history.as_ref().map(|run| run.transactions.len());
    assert_eq!(recorded, Some(attempts as usize));
    let looks = run.report.checked.iter().next();
    assert!(looks.is_some_and(|(_, steps)| steps > 1_000), "{looks:?}");
    let mut case = Case::new(
        ProtocolName::Locking,
        1,
        NODES,
        2,
        10,
        Network::lan(),
        FaultLevel::None,
    );
    case.watch = Watch::FAST;
    let fast = case.run_recorded(&prepared, None).unwrap();
    assert!(fast.history.is_none());
}

/// ramp.txt's trap: no concurrency control must fail the checker.
#[test]
fn nwnr_fails_read_atomic() {
    for workload in ["register", "counter", "bank"] {
        let prepared = Prepared::new(workload, NODES).unwrap();
        let failing = violating(&prepared, ProtocolName::Nwnr, Model::ReadAtomic);
        assert!(failing >= 5, "{workload}: {failing} of 10");
        let run = run(&prepared, ProtocolName::Nwnr, FaultLevel::None, 0);
        let Verdict::Violated(wrong) = &run.report.verdict else {
            panic!("{workload}: {:?}", run.report.verdict);
        };
        let words = "not read-atomic: fractured reads: ";
        assert!(
            wrong.iter().any(|what| what.starts_with(words)),
            "{wrong:?}"
        );
    }
}

/// Without concurrency control somebody enters a department that is being closed, and stays behind.
#[test]
fn nwnr_lets_references_dangle() {
    let prepared = Prepared::new("departments", NODES).unwrap();
    let dangles = |seed: &u64| {
        let run = run(&prepared, ProtocolName::Nwnr, FaultLevel::None, *seed);
        let Verdict::Violated(wrong) = &run.report.verdict else {
            return false;
        };
        let told = |what: &&str| wrong.iter().any(|wrong| wrong.contains(*what));
        ["is not there", "refer to no department"].iter().any(told)
    };
    let dangling = (0..10).filter(dangles).count();
    assert!(dangling >= 5, "{dangling} of 10");
}

/// What read atomic isolation permits, and locking does not.
#[test]
fn ramp_is_read_atomic_and_not_serializable() {
    let prepared = Prepared::new("counter", NODES).unwrap();
    let (mut weaker, mut stronger) = (0, 0);
    for seed in 0..10 {
        let ramp = run(&prepared, ProtocolName::RampFast, FaultLevel::Storm, seed);
        assert_eq!(found(&ramp, Model::ReadAtomic), [], "{seed}");
        weaker += usize::from(!found(&ramp, Model::Serializable).is_empty());
        let locking = run(&prepared, ProtocolName::Locking, FaultLevel::Storm, seed);
        stronger += usize::from(!found(&locking, Model::StrictSerializable).is_empty());
    }
    assert!(weaker >= 5, "{weaker} of 10");
    assert_eq!(stronger, 0);
}

/// Read locks that are released early, and none at all, keep what is read committed, and no more.
#[test]
fn short_locks_and_none_are_read_committed_and_not_read_atomic() {
    let prepared = Prepared::new("register", NODES).unwrap();
    for protocol in [ProtocolName::LockingShort, ProtocolName::Lwnr] {
        let name = protocol.name();
        let failing = violating(&prepared, protocol, Model::ReadCommitted);
        assert_eq!(failing, 0, "{name}");
        let failing = violating(&prepared, protocol, Model::ReadAtomic);
        assert!(failing >= 5, "{name}: {failing} of 10");
    }
}

/// The table of docs/protocols/baselines.md: what is found in none of ten seeds, and what in half of them.
#[test]
fn each_baseline_promises_and_shows_what_its_page_says() {
    use Model::*;
    let table: [(ProtocolName, &[Model], &[Model]); 6] = [
        (ProtocolName::Nwnr, &[], &[ReadAtomic, Causal, Serializable]),
        (
            ProtocolName::Lwnr,
            &[ReadCommitted],
            &[ReadAtomic, Causal, Serializable],
        ),
        (
            ProtocolName::LockingShort,
            &[ReadCommitted],
            &[ReadAtomic, Causal, Serializable],
        ),
        (
            ProtocolName::EPci,
            &[ReadCommitted, ReadAtomic, Causal],
            &[],
        ),
        (ProtocolName::RampFast, &[ReadCommitted, ReadAtomic], &[]),
        (
            ProtocolName::Locking,
            &[ReadCommitted, ReadAtomic, Causal, StrictSerializable],
            &[],
        ),
    ];
    let prepared = Prepared::new("register", NODES).unwrap();
    for (protocol, none, shown) in table {
        let name = protocol.name();
        let runs: Vec<Run> = (0..10)
            .map(|seed| run(&prepared, protocol, FaultLevel::None, seed))
            .collect();
        let failing = |model| {
            let violates = |run: &&Run| !found(run, model).is_empty();
            runs.iter().filter(violates).count()
        };
        for model in none {
            assert_eq!(failing(*model), 0, "{name} is {model}");
        }
        for model in shown {
            let count = failing(*model);
            assert!(count >= 5, "{name} is not {model}: {count} of 10");
        }
    }
}

/// Theorem 3.29: whoever reads in `register` reads a subset of what was written together, so that
/// atomic visibility makes the history serializable, storms and all; and nothing less does.
#[test]
fn readers_of_what_is_written_together_are_serializable_under_ramp() {
    let prepared = Prepared::new("register", NODES).unwrap();
    let runs = |protocol, level, model| {
        let violates = |seed: &u64| {
            let run = run(&prepared, protocol, level, *seed);
            let history = run.history.as_ref().expect("it was recorded");
            let history = history.history().expect("it fits together");
            let subset = Rsiw::of(&history);
            assert!(subset.holds(), "{} {seed}: {subset:?}", protocol.name());
            assert!(subset.write_only > 20 && subset.subset > 20, "{subset:?}");
            !found(&run, model).is_empty()
        };
        (0..20).filter(violates).count()
    };
    for protocol in [
        ProtocolName::RampFast,
        ProtocolName::RampSmall,
        ProtocolName::RampHybrid,
    ] {
        let failing = runs(protocol, FaultLevel::Storm, Model::Serializable);
        assert_eq!(failing, 0, "{}", protocol.name());
    }
    let failing = runs(ProtocolName::EPci, FaultLevel::Storm, Model::Serializable);
    assert_eq!(failing, 0, "e-pci");
    for protocol in [ProtocolName::Nwnr, ProtocolName::Lwnr] {
        let failing = runs(protocol, FaultLevel::None, Model::Serializable);
        assert!(failing >= 10, "{}: {failing} of 20", protocol.name());
    }
}

/// Links that lose, reorder and partition, clocks that jump, clients that die.
#[test]
fn e_pci_weathers_storms() {
    for workload in ["register", "ycsb"] {
        let prepared = Prepared::new(workload, NODES).unwrap();
        for seed in 0..20 {
            let run = run(&prepared, ProtocolName::EPci, FaultLevel::Storm, seed);
            let verdict = &run.report.verdict;
            assert!(
                matches!(verdict, Verdict::Fine),
                "{workload} {seed}: {verdict:?}"
            );
            let checks = run.report.checked.iter();
            assert!(checks.count() > 3, "{workload} {seed}");
        }
    }
}

/// A plan with guards is refused before anything runs, with the procedure's name.
#[test]
fn e_pci_refuses_a_plan_with_guards() {
    for workload in ["counter", "bank", "smallbank", "payroll", "tpcc"] {
        let prepared = Prepared::new(workload, NODES).unwrap();
        let level = FaultLevel::None;
        let case = Case::new(ProtocolName::EPci, 1, NODES, 6, 120, Network::lan(), level);
        let refused = case.run(&prepared).expect_err(workload).to_string();
        assert!(refused.contains("e-pci takes no guards"), "{refused}");
        assert!(refused.contains("another protocol"), "{refused}");
    }
}

/// Scans, index entries, deletions, deferred effects: all that the workloads do fits together.
#[test]
fn histories_of_all_workloads_agree_with_themselves_and_what_was_promised() {
    for workload in WORKLOADS {
        let prepared = Prepared::new(workload, NODES).unwrap();
        for protocol in [
            ProtocolName::RampFast,
            ProtocolName::Locking,
            ProtocolName::LockingShort,
            ProtocolName::Lwnr,
        ] {
            for seed in 0..4 {
                let run = run(&prepared, protocol, FaultLevel::Mild, seed);
                let history = run.history.as_ref().expect("it was recorded");
                assert_eq!(
                    history.judge(),
                    [""; 0],
                    "{workload} {} {seed}",
                    protocol.name()
                );
            }
        }
    }
}

#[test]
fn a_written_history_is_judged_alike() {
    let prepared = Prepared::new("bank", NODES).unwrap();
    let run = run(&prepared, ProtocolName::Nwnr, FaultLevel::None, 3);
    let kept = run.history.as_ref().expect("it was recorded");
    let text = kept.write(Vec::new()).expect("memory takes it");
    let history = History::read(text.as_slice()).expect("it is valid");
    assert_eq!(history.header(), &kept.header);
    let verdict = check(&history, Model::ReadAtomic).expect("it can be judged");
    let known: Vec<Phenomenon> = verdict.counts.into_keys().collect();
    assert_eq!(known, found(&run, Model::ReadAtomic));
    assert!(known.contains(&Phenomenon::FracturedReads), "{known:?}");
}
