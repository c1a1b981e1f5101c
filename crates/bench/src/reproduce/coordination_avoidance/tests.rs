//! Every figure, on a cluster small enough for a test.

use super::*;
use crate::figure::Origin;
use crate::reproduce::atomic_commit::LAN;

fn tiny() -> Settings {
    Settings {
        figures: Figure::ALL.to_vec(),
        effort: Effort {
            name: "tiny",
            orders: [150, 100],
            calls_each: 2,
            items: 200,
            loads: &[1, 4],
            clients: [&[4], &[2, 4], &[3]],
            clients_waiting: &[6],
            warehouses: &[(1, 200), (2, 100)],
            distributed: &[0, 100],
            round_trips: &[100, MEDIAN_ROUND_TRIP_MICROS],
            servers: &[2, 3],
            cores: 2,
            cores_each: 1,
            clients_each: 4,
            orders_each: 40,
            items_each: 100,
            writes: 400,
            writers: 8,
            writers_distributed: [&[4], &[2, 4]],
            spans: &[1, 8],
            commits: 20_000,
        },
        calibration: Calibration::built_in(),
        seed: 3,
        threads: NonZeroUsize::MIN,
    }
}

fn found(settings: &Settings) -> Report {
    reproduce(settings, &mut |_| ()).expect("it can be simulated")
}

/// On one thread or on several.
#[test]
fn the_seed_decides_the_report() {
    let settings = tiny();
    let first = found(&settings);
    for threads in [2, 5] {
        let again = found(&Settings {
            threads: NonZeroUsize::new(threads).expect("it is not 0"),
            ..settings.clone()
        });
        assert_eq!(first.json(), again.json(), "{threads} threads");
        assert_eq!(first.text(), again.text(), "{threads} threads");
    }
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
fn a_figure_alone_is_the_same_as_among_all() {
    let settings = tiny();
    let all = found(&settings);
    let alone = found(&Settings {
        figures: vec![Figure::Scaling],
        ..settings
    });
    assert_eq!(alone.json()["sections"][0], all.json()["sections"][4]);
}

#[test]
fn simulated_numbers_are_marked_and_name_their_costs() {
    let settings = tiny();
    let report = found(&settings);
    assert!(
        report
            .preface
            .concat()
            .contains(&settings.calibration.name())
    );
    for (figure, section) in Figure::ALL.into_iter().zip(&report.sections) {
        let origins = section.comparisons.iter().map(|found| found.origin);
        let simulated = origins
            .filter(|origin| *origin == Origin::Simulated)
            .count();
        assert_eq!(simulated == 0, figure == Figure::Commitment, "{figure:?}");
        assert!(!section.comparisons.is_empty());
        for chart in &section.charts {
            chart.svg().expect("it can be drawn");
        }
    }
    let shares = report.sections[3]
        .comparisons
        .iter()
        .map(|found| found.ours);
    assert!((shares.sum::<f64>() - 100.0).abs() < 1e-6);
    let drawn = report.sections[1]
        .comparisons
        .last()
        .expect("there are some");
    assert!(drawn.origin == Origin::Drawn && drawn.is_met() == Some(true));
}

/// The published numbers of Figure 2, each beside its bound.
#[test]
fn bounds_are_near_the_published_ones() {
    let report = found(&Settings {
        figures: vec![Figure::Commitment],
        ..tiny()
    });
    let mut published = 0;
    for compared in &report.sections[0].comparisons {
        if let Some(ratio) = compared.ratio() {
            // The paper has slightly over 2 for all regions, with both protocols.
            let near = match compared.what.ends_with("eight regions") {
                true => 1.0..1.5,
                false => 0.8..1.25,
            };
            assert!(near.contains(&ratio), "{}: {ratio}", compared.what);
            published += 1;
        }
    }
    assert_eq!(published, 7);
}

#[test]
fn locking_waits_and_coordination_avoidance_does_not() {
    let report = found(&tiny());
    let runs = report.sections.iter().flat_map(|section| &section.runs);
    let (locking, avoiding): (Vec<_>, Vec<_>) = runs
        .filter(|run| run.what == "distribution: 100%")
        .partition(|run| run.protocol == "locking");
    assert!(locking.iter().any(|run| run.lock_wait_ms > 0.0));
    assert!(avoiding.iter().all(|run| run.lock_wait_ms == 0.0));
}

/// The schema names exactly the fields that are written.
#[test]
fn the_schema_has_each_field() {
    use std::collections::BTreeSet;
    let schema = include_str!("../../../../../docs/schemas/reproduce.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).expect("it is JSON");
    let report = found(&tiny()).json();
    let first = &report["sections"][0];
    for (name, value) in [
        ("section", first),
        ("comparison", &first["comparisons"][0]),
        ("chart", &first["charts"][0]),
        ("run", &first["runs"][0]),
    ] {
        let written = value.as_object().expect("it is an object");
        let written: BTreeSet<&str> = written.keys().map(String::as_str).collect();
        let known = schema["$defs"][name]["required"].as_array();
        let known = known.expect("its fields are required").iter();
        let known: BTreeSet<&str> = known.filter_map(|field| field.as_str()).collect();
        assert_eq!(written, known, "{name}");
    }
}

/// The network's median follows from the paper's trace and from the spread of latencies.
#[test]
fn the_network_has_the_mean_round_trip_of_the_paper() {
    use anabranch_sim::latency;
    use anabranch_types::{SplitMix64, Ticks};
    let mean = LAN.median * (LAN.sigma * LAN.sigma / 2.0).exp();
    let mut random = SplitMix64::new(1);
    let one_way = Ticks::from_micros(u64::from(MEDIAN_ROUND_TRIP_MICROS)).0 / 2;
    let drawn: u64 = (0..400_000)
        .map(|_| latency::sample(Ticks(one_way), &mut random).0)
        .sum();
    let there_and_back = 2.0 * drawn as f64 / 400_000.0 / 1e6;
    assert!(
        (there_and_back / mean - 1.0).abs() < 0.01,
        "{there_and_back} of {mean}"
    );
}
