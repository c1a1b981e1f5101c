//! A run with a violation is still checked at rest, so that running transactions do not count as lost.

use anabranch_sim::fault::{DiskFailure, Fault, FaultKind};
use anabranch_sim::{Case, FaultProfile, Network, Prepared, ProtocolName, Report, Verdict};

fn is_checked_at_rest(report: &Report) -> bool {
    let mut checked = report.checked.iter();
    checked.any(|(what, count)| what == "nodes with nothing left prepared or locked" && count == 3)
}

/// Wrong answers occur while other calls run. The commits of these calls do not count as lost.
#[test]
fn a_wrong_answer_loses_no_commits_of_others() {
    let prepared = Prepared::new("bank", 3).unwrap();
    let mut wrong = 0;
    for seed in 0..6 {
        let (lan, death) = (Network::lan(), FaultProfile::PermanentLoss);
        let case = Case::new(ProtocolName::Lwnr, seed, 3, 6, 120, lan, death).replicated(3);
        let report = case.run(&prepared).unwrap();
        let found = match &report.verdict {
            Verdict::Fine => continue,
            Verdict::Violated(found) => found,
            other => panic!("seed {seed}: {other:?}"),
        };
        wrong += 1;
        assert!(report.at_rest, "seed {seed}: {found:?}");
        assert!(is_checked_at_rest(&report), "{:?}", report.checked);
        let lost = found.iter().find(|what| what.contains("never installed"));
        assert_eq!(lost, None, "seed {seed}");
    }
    assert!(wrong > 2, "{wrong} of 6");
}

/// After a violation clients make no further calls, and running calls are waited for.
#[test]
fn a_violation_is_judged_when_nothing_is_under_way() {
    let prepared = Prepared::new("counter", 3).unwrap();
    let mut calm = 0;
    for seed in 0..10 {
        let (lan, storm) = (Network::lan(), FaultProfile::Storm);
        let mut case = Case::new(ProtocolName::RampFast, seed, 3, 6, 150, lan, storm);
        for node in 0..3 {
            case.plan.faults.push(Fault {
                at_us: 0,
                for_us: 9_500,
                kind: FaultKind::Disk {
                    node,
                    failure: DiskFailure::SyncsLie,
                },
            });
        }
        let report = case.run(&prepared).unwrap();
        let Verdict::Violated(found) = &report.verdict else {
            continue;
        };
        assert_eq!(report.at_rest, is_checked_at_rest(&report), "seed {seed}");
        match report.at_rest {
            true => calm += 1,
            // A run that did not come to rest was not checked, and reports that.
            false => assert!(found.iter().all(|what| !what.contains("has committed as"))),
        }
    }
    assert!(calm > 2, "{calm} of 10");
}
