//! Every figure, small enough for a test.

use super::load::System;
use super::*;
use crate::figure::Target;

fn tiny(figures: &[Figure]) -> Settings {
    Settings {
        figures: figures.to_vec(),
        effort: Effort {
            name: "tiny",
            regions: &[3],
            clients: &[4, 8],
            clients_of_readers: &[4],
            clients_of_latency: &[3, 6],
            clients_of_bank: &[5],
            warehouses: 1,
            items: 60,
            customers: 20,
            millis: [300, 700],
            millis_of_commit: [300, 1_500],
            certified: 600,
            clients_of_threads: 3,
            millis_of_threads: [300, 700],
            sampled: 60,
            ..Effort::QUICK
        },
        seed: 3,
        threads: NonZeroUsize::MIN,
    }
}

fn found(settings: &Settings) -> Report {
    reproduce(settings, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_seed_decides_simulated_figures() {
    let settings = tiny(&[
        Figure::WriteIntensive,
        Figure::ReadDominated,
        Figure::Clients,
        Figure::FastDecisions,
        Figure::Bank,
    ]);
    let first = found(&settings);
    let threads = NonZeroUsize::new(3).expect("it is not 0");
    let again = found(&Settings {
        threads,
        ..settings.clone()
    });
    assert_eq!(first.json(), again.json());
    let other = found(&Settings {
        seed: 4,
        figures: vec![Figure::Bank],
        ..settings
    });
    let rate = |report: &Report| report.sections[report.sections.len() - 2].runs[0].per_second;
    assert_ne!(rate(&first), rate(&other));
    for section in &first.sections {
        assert!(!section.comparisons.is_empty() && !section.text.is_empty());
        for chart in &section.charts {
            chart.svg().expect("it can be drawn");
        }
        for run in &section.runs {
            assert!(run.committed > 10, "{run:?}");
            assert!(run.guessed < Some(0.2), "{run:?}");
        }
    }
    // The last section says how many loads were checked at rest: each that has a line.
    let lines: usize = first.sections.iter().map(|it| it.runs.len()).sum();
    let checks = first.sections.last().expect("there are checks");
    let loads = checks.comparisons.last().expect("there is a number");
    assert_eq!(loads.ours, lines as f64);
    assert_eq!(checks.comparisons.len(), 2 * System::ALL.len() + 1);
}

#[test]
fn commits_without_conflicts_take_what_the_matrix_says() {
    let report = found(&tiny(&[Figure::Commit]));
    let judged = report.comparisons().filter(|it| it.target.is_some());
    let ratios: Vec<f64> = judged.map(|it| it.ours).collect();
    assert_eq!(ratios.len(), 4);
    assert!(
        ratios.iter().all(|ratio| (0.99..1.05).contains(ratio)),
        "{ratios:?}"
    );
}

#[test]
fn real_threads_do_about_what_the_simulator_says() {
    let report = found(&tiny(&[Figure::Threads]));
    let medians: Vec<f64> = report
        .comparisons()
        .filter(|it| it.what.contains(": median"))
        .map(|it| it.ours)
        .collect();
    assert_eq!(medians.len(), 10);
    // Threads are late on a loaded machine, and never early: no ordered commit is faster than the nearest round trip.
    let bound = medians.iter().enumerate().filter(|(at, _)| at % 2 == 0);
    for (_, median) in bound {
        assert!(*median > 75.0, "{medians:?}");
    }
}

#[test]
fn a_core_certifies_all_that_it_is_sent() {
    let report = found(&tiny(&[Figure::Certification]));
    for compared in report.comparisons().take(2) {
        assert!(
            compared.ours > 100.0,
            "{}: {}",
            compared.what,
            compared.ours
        );
        assert_eq!(compared.target, Some(Target::AtLeast(200_000.0)));
    }
}

#[test]
fn targets_are_those_of_the_paper_and_the_project() {
    let mut settings = tiny(&[Figure::ReadDominated, Figure::Bank]);
    settings.effort.regions = &[7];
    settings.effort.clients = &[2];
    settings.effort.clients_of_bank = &[2];
    let report = found(&settings);
    let aimed = |what: &str| {
        let mut all = report.comparisons();
        let found = all.find(|compared| compared.what == what);
        found.unwrap_or_else(|| panic!("{what}")).target
    };
    assert_eq!(
        aimed("90%, 7 sites: ALVIN EUS over EPaxos"),
        Some(Target::AtLeast(4.8))
    );
    assert_eq!(aimed("50%, 7 sites: ALVIN EUS over EPaxos"), None);
    assert_eq!(
        aimed("7 sites: ALVIN SR over EPaxos"),
        Some(Target::AtLeast(0.97))
    );
}

/// The schema names every protocol that a run can have.
#[test]
fn the_schema_has_each_protocol() {
    let schema = include_str!("../../../../../docs/schemas/reproduce.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).expect("it is JSON");
    let known = schema["$defs"]["run"]["properties"]["protocol"]["enum"].as_array();
    let known = known.expect("protocols are listed");
    for system in System::ALL {
        let name = system.protocol().name();
        assert!(known.iter().any(|one| one == name), "{name}");
    }
}
