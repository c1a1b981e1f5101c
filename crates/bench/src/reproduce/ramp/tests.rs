//! Every figure, small enough for a test.

use super::*;

fn tiny(figures: &[Figure]) -> Settings {
    let pace = Pace {
        millis: 20,
        warmup_millis: 2,
        rounds: 1,
    };
    Settings {
        figures: figures.to_vec(),
        effort: Effort {
            name: "tiny",
            long: pace,
            short: pace,
            reads: &[0, 100],
            lengths: &[2, 8],
            values: &[1, 1_000],
            items: &[1_000, 2_000],
            skews: &[0, 99],
            clients: &[10, 40],
            items_all: 1_000,
            transactions: 200,
            millis_max: 100,
            servers: &[2, 100],
            transactions_each: 4,
            draws: 20_000,
        },
        calibration: Calibration::built_in(),
        seed: 3,
        threads: NonZeroUsize::MIN,
    }
}

fn found(settings: &Settings) -> Report {
    reproduce(settings, &mut |_| ()).expect("it can be found")
}

#[test]
fn the_seed_decides_simulated_and_drawn_figures() {
    let settings = tiny(&[Figure::Clients, Figure::Scaling, Figure::Quorum]);
    let first = found(&settings);
    assert_eq!(first.json(), found(&settings).json());
    let other = found(&Settings {
        seed: 4,
        ..settings
    });
    for (one, other) in first.sections.iter().zip(&other.sections) {
        let (one, other) = (&one.comparisons, &other.comparisons);
        let alike = one.iter().zip(other).all(|(a, b)| a.ours == b.ours);
        assert!(!alike, "{}", one[0].what);
    }
}

#[test]
fn every_number_has_its_origin() {
    let settings = tiny(&Figure::ALL);
    // Measured figures load a million items, which takes too long for a test.
    let figures = [Figure::Clients, Figure::Scaling, Figure::Quorum];
    let report = found(&Settings {
        figures: figures.to_vec(),
        ..settings
    });
    let name = Calibration::built_in().name_of(ExperimentName::Items);
    assert!(report.preface.concat().contains(&name));
    for (figure, section) in figures.into_iter().zip(&report.sections) {
        let origin = match figure {
            Figure::Clients | Figure::Scaling => Origin::Simulated,
            Figure::Default | Figure::Conditions | Figure::Blocked => Origin::Measured,
            Figure::Quorum => Origin::Drawn,
        };
        assert!(!section.comparisons.is_empty());
        assert!(
            section
                .comparisons
                .iter()
                .all(|found| found.origin == origin)
        );
        assert!(section.runs.iter().all(|run| run.origin == origin));
        for chart in &section.charts {
            chart.svg().expect("it can be drawn");
        }
    }
}

/// Locks that are held over a network lose throughput.
#[test]
fn locking_falls_behind_under_contention() {
    let mut settings = tiny(&[Figure::Clients]);
    settings.effort = Effort {
        clients: &[20, 2_000],
        transactions: 4_000,
        millis_max: 200,
        ..settings.effort
    };
    let report = found(&settings);
    let rate = |protocol: &str| {
        let mut runs = report.sections[0].runs.iter();
        let run = runs.find(|run| run.protocol == protocol && run.clients == 2_000);
        run.expect("it was run").per_second
    };
    assert!(rate("ramp-fast") > 5.0 * rate("locking"));
}
