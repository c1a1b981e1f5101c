//! Every run's history is checked, and the checks find the anomalies of weaker protocols.

use anabranch_history::{History, Model, Phenomenon, Rsiw, check};
use anabranch_sim::run::Run;
use anabranch_sim::{Case, FaultProfile, Network, Prepared, ProtocolName, Verdict, Watch};

const NODES: u16 = 3;
const WORKLOADS: [&str; 5] = ["register", "counter", "bank", "smallbank", "payroll"];

fn run(prepared: &Prepared, protocol: ProtocolName, profile: FaultProfile, seed: u64) -> Run {
    let case = Case::new(protocol, seed, NODES, 6, 120, Network::lan(), profile);
    case.run_recorded(prepared, None)
        .expect("the case can be run")
}

/// The phenomena in a run's history that a model forbids.
fn found(run: &Run, model: Model) -> Vec<Phenomenon> {
    let history = run.history.as_ref().expect("it was recorded");
    let history = history.history().unwrap_or_else(|error| panic!("{error}"));
    assert!(history.committed() >= 100, "{}", history.committed());
    let verdict = check(&history, model).expect("the history suits the model");
    verdict.counts.into_keys().collect()
}

/// The number of seeds, of ten, with histories that violate a model.
fn violating(prepared: &Prepared, protocol: ProtocolName, model: Model) -> usize {
    let seeds = 0..10;
    let violates = |seed: &u64| {
        let run = run(prepared, protocol, FaultProfile::None, *seed);
        !found(&run, model).is_empty()
    };
    seeds.filter(violates).count()
}

#[test]
fn the_history_of_every_run_is_checked() {
    let prepared = Prepared::new("register", NODES).unwrap();
    let run = run(&prepared, ProtocolName::Locking, FaultProfile::Mild, 1);
    let judged = run
        .report
        .checked
        .iter()
        .find(|(what, _)| what.contains("history"));
    let (judged, attempts) = judged.expect("it is reported");
    assert!(
        judged.ends_with("strict-serializable, sessions"),
        "{judged}"
    );
    let recorded = run.history.as_ref().map(|run| run.transactions.len());
    assert_eq!(recorded, Some(attempts as usize));
    let first = run.report.checked.iter().next();
    assert!(first.is_some_and(|(_, steps)| steps > 1_000), "{first:?}");
    let mut case = Case::new(
        ProtocolName::Locking,
        1,
        NODES,
        2,
        10,
        Network::lan(),
        FaultProfile::None,
    );
    case.watch = Watch::FAST;
    let fast = case.run_recorded(&prepared, None).unwrap();
    assert!(fast.history.is_none());
}

/// Runs without concurrency control have to fail the checker (ramp.txt).
#[test]
fn nwnr_fails_read_atomic() {
    for workload in ["register", "counter", "bank"] {
        let prepared = Prepared::new(workload, NODES).unwrap();
        let failing = violating(&prepared, ProtocolName::Nwnr, Model::ReadAtomic);
        assert!(failing >= 5, "{workload}: {failing} of 10");
        let run = run(&prepared, ProtocolName::Nwnr, FaultProfile::None, 0);
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

/// Without concurrency control an employee is added to a department that is being closed.
#[test]
fn nwnr_lets_references_dangle() {
    let prepared = Prepared::new("departments", NODES).unwrap();
    let dangles = |seed: &u64| {
        let run = run(&prepared, ProtocolName::Nwnr, FaultProfile::None, *seed);
        let Verdict::Violated(wrong) = &run.report.verdict else {
            return false;
        };
        let reported = |what: &&str| wrong.iter().any(|wrong| wrong.contains(*what));
        ["is not there", "refer to no department"]
            .iter()
            .any(reported)
    };
    let dangling = (0..10).filter(dangles).count();
    assert!(dangling >= 5, "{dangling} of 10");
}

/// Read atomic isolation permits histories that are not serializable; locking does not.
#[test]
fn ramp_is_read_atomic_and_not_serializable() {
    let prepared = Prepared::new("counter", NODES).unwrap();
    let (mut weaker, mut stronger) = (0, 0);
    for seed in 0..10 {
        let ramp = run(&prepared, ProtocolName::RampFast, FaultProfile::Storm, seed);
        assert_eq!(found(&ramp, Model::ReadAtomic), [], "{seed}");
        weaker += usize::from(!found(&ramp, Model::Serializable).is_empty());
        let locking = run(&prepared, ProtocolName::Locking, FaultProfile::Storm, seed);
        stronger += usize::from(!found(&locking, Model::StrictSerializable).is_empty());
    }
    assert!(weaker >= 5, "{weaker} of 10");
    assert_eq!(stronger, 0);
}

/// Short read locks and no read locks give read committed, and no more.
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

/// The table of docs/protocols/baselines.md: guarantees hold in all of ten seeds, and permitted anomalies occur in half
/// of them.
#[test]
fn each_baseline_has_the_guarantees_and_anomalies_of_its_page() {
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
    for (protocol, guaranteed, permitted) in table {
        let name = protocol.name();
        let runs: Vec<Run> = (0..10)
            .map(|seed| run(&prepared, protocol, FaultProfile::None, seed))
            .collect();
        let failing = |model| {
            let violates = |run: &&Run| !found(run, model).is_empty();
            runs.iter().filter(violates).count()
        };
        for model in guaranteed {
            assert_eq!(failing(*model), 0, "{name} is {model}");
        }
        for model in permitted {
            let count = failing(*model);
            assert!(count >= 5, "{name} is not {model}: {count} of 10");
        }
    }
}

/// Theorem 3.29: readers in `register` read a subset of the items that are written together. So atomic visibility makes
/// the history serializable, also in storms; weaker isolation does not.
#[test]
fn readers_of_what_is_written_together_are_serializable_under_ramp() {
    let prepared = Prepared::new("register", NODES).unwrap();
    let runs = |protocol, profile, model| {
        let violates = |seed: &u64| {
            let run = run(&prepared, protocol, profile, *seed);
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
        let failing = runs(protocol, FaultProfile::Storm, Model::Serializable);
        assert_eq!(failing, 0, "{}", protocol.name());
    }
    let failing = runs(ProtocolName::EPci, FaultProfile::Storm, Model::Serializable);
    assert_eq!(failing, 0, "e-pci");
    for protocol in [ProtocolName::Nwnr, ProtocolName::Lwnr] {
        let failing = runs(protocol, FaultProfile::None, Model::Serializable);
        assert!(failing >= 10, "{}: {failing} of 20", protocol.name());
    }
}

/// Storms: links that lose, reorder and partition, clocks that jump, clients that crash.
#[test]
fn e_pci_passes_storms() {
    for workload in ["register", "ycsb"] {
        let prepared = Prepared::new(workload, NODES).unwrap();
        for seed in 0..20 {
            let run = run(&prepared, ProtocolName::EPci, FaultProfile::Storm, seed);
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

/// A plan with guards is refused before the run, with the procedure's name.
#[test]
fn e_pci_refuses_a_plan_with_guards() {
    for workload in ["counter", "bank", "smallbank", "payroll", "tpcc"] {
        let prepared = Prepared::new(workload, NODES).unwrap();
        let profile = FaultProfile::None;
        let case = Case::new(
            ProtocolName::EPci,
            1,
            NODES,
            6,
            120,
            Network::lan(),
            profile,
        );
        let refused = case.run(&prepared).expect_err(workload).to_string();
        assert!(refused.contains("e-pci supports no guards"), "{refused}");
        assert!(refused.contains("another protocol"), "{refused}");
    }
}

/// Histories with scans, index entries, deletions and deferred effects are consistent.
#[test]
fn histories_of_all_workloads_are_consistent_and_satisfy_their_models() {
    for workload in WORKLOADS {
        let prepared = Prepared::new(workload, NODES).unwrap();
        for protocol in [
            ProtocolName::RampFast,
            ProtocolName::Locking,
            ProtocolName::LockingShort,
            ProtocolName::Lwnr,
        ] {
            for seed in 0..4 {
                let run = run(&prepared, protocol, FaultProfile::Mild, seed);
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
fn a_written_history_gives_the_same_verdict() {
    let prepared = Prepared::new("bank", NODES).unwrap();
    let run = run(&prepared, ProtocolName::Nwnr, FaultProfile::None, 3);
    let kept = run.history.as_ref().expect("it was recorded");
    let text = kept.write(Vec::new()).expect("memory takes it");
    let history = History::read(text.as_slice()).expect("it is valid");
    assert_eq!(history.header(), &kept.header);
    let verdict = check(&history, Model::ReadAtomic).expect("it can be judged");
    let known: Vec<Phenomenon> = verdict.counts.into_keys().collect();
    assert_eq!(known, found(&run, Model::ReadAtomic));
    assert!(known.contains(&Phenomenon::FracturedReads), "{known:?}");
}
