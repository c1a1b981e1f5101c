//! The counts of a report are exact.

use anabranch_history::record::{Outcome, Transaction};
use anabranch_sim::fault::{Fault, FaultKind};
use anabranch_sim::{Case, FaultProfile, Network, Prepared, ProtocolName, Report, Verdict};

const NODES: u16 = 3;

fn case(protocol: ProtocolName, seed: u64) -> Case {
    let (network, profile) = (Network::lan(), FaultProfile::None);
    Case::new(protocol, seed, NODES, 6, 120, network, profile)
}

/// Without faults every attempt is answered, so the history and the report agree.
#[test]
fn attempts_are_counted_as_they_are_recorded() {
    let mut again = 0;
    for workload in ["register", "counter", "bank", "smallbank", "payroll"] {
        let prepared = Prepared::new(workload, NODES).unwrap();
        for protocol in [ProtocolName::RampFast, ProtocolName::Locking] {
            for seed in 0..4 {
                let what = format!("{workload} under {}, {seed}", protocol.name());
                let run = case(protocol, seed).run_recorded(&prepared, None).unwrap();
                let attempts = run.history.expect("it is recorded").transactions;
                let of = |is_it: fn(&Transaction) -> bool| {
                    attempts.iter().filter(|attempt| is_it(attempt)).count() as u64
                };
                let statistics = run.report.statistics;
                let committed = of(|attempt| attempt.outcome == Outcome::Committed);
                assert_eq!(statistics.committed, committed, "{what}");
                let aborted = of(|attempt| matches!(attempt.outcome, Outcome::Aborted(_)));
                let counted: u64 = statistics.aborts.values().sum();
                assert_eq!(counted, aborted, "{what}: {:?}", statistics.aborts);
                assert_eq!(committed + aborted, attempts.len() as u64, "{what}");
                again += counted;
                // Runs without faults use no packets.
                assert!(statistics.messages > 0, "{what}");
                assert_eq!((statistics.packets, statistics.resent), (0, 0), "{what}");
                assert!(statistics.faults.is_empty(), "{what}");
            }
        }
    }
    assert!(again > 100, "{again} aborts");
}

fn with(faults: &[(u64, u64, FaultKind)]) -> Report {
    let prepared = Prepared::new("counter", NODES).unwrap();
    let mut case = case(ProtocolName::RampFast, 3);
    for (at_us, for_us, kind) in faults {
        case.plan.faults.push(Fault {
            at_us: *at_us,
            for_us: *for_us,
            kind: kind.clone(),
        });
    }
    let report = case.run(&prepared).unwrap();
    assert_eq!(report.verdict, Verdict::Fine);
    report
}

#[test]
fn faults_are_counted_by_kind_and_packets_as_they_are_sent() {
    let pause = |node| FaultKind::Pause { node };
    let quiet = with(&[(500, 200, pause(0)), (900, 300, pause(1))]);
    let counted: Vec<_> = quiet.statistics.faults.into_iter().collect();
    assert_eq!(counted, [("pause", 2)]);
    // A packet carries several messages and acknowledgements.
    assert!(quiet.statistics.packets > 0);
    let loss = FaultKind::Loss { percent: 60 };
    let noisy = with(&[(0, 5_000, loss), (500, 200, pause(0))]);
    let counted: Vec<_> = noisy.statistics.faults.into_iter().collect();
    assert_eq!(counted, [("loss", 1), ("pause", 1)]);
    assert!(
        noisy.statistics.resent > quiet.statistics.resent,
        "{} of {}",
        noisy.statistics.resent,
        noisy.statistics.messages
    );
}
