//! Every figure, small enough for a test.

use super::model::Calls;
use super::network::Place;
use super::*;
use crate::figure::Target;

fn tiny(figures: &[Figure]) -> Settings {
    Settings {
        figures: figures.to_vec(),
        effort: Effort {
            name: "tiny",
            servers: &[1, 3],
            clients: &[8, 64],
            one_site: [500, 1_000],
            sites: [1_000, 2_000],
            light: [2_000, 5_000],
            light_clients: 20,
            shares: &[0, 70],
            ..Effort::QUICK
        },
        seed: 3,
        threads: NonZeroUsize::MIN,
        // Real middlewares are the tests of the program.
        program: PathBuf::new(),
    }
}

/// All figures that need no PostgreSQL.
fn simulated() -> Vec<Figure> {
    let all = Figure::ALL.into_iter();
    all.filter(|figure| !figure.is_measured()).collect()
}

fn found(settings: &Settings) -> Report {
    reproduce(settings, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_seed_decides_the_report() {
    let settings = tiny(&simulated());
    let first = found(&settings);
    let threads = NonZeroUsize::new(3).expect("it is not 0");
    let again = found(&Settings {
        threads,
        ..settings.clone()
    });
    assert_eq!(first.json(), again.json());
    let other = found(&Settings {
        seed: 4,
        ..settings
    });
    // Table 1 is computed.
    for (one, other) in first.sections.iter().zip(&other.sections).skip(1) {
        let (one, other) = (&one.comparisons, &other.comparisons);
        let alike = one.iter().zip(other).all(|(a, b)| a.ours == b.ours);
        assert!(!alike, "{}", one[0].what);
    }
    for section in &first.sections {
        assert!(!section.comparisons.is_empty() && !section.text.is_empty());
        for chart in &section.charts {
            chart.svg().expect("it can be drawn");
        }
        let simulated = section.runs.iter();
        assert!(
            simulated
                .into_iter()
                .all(|run| run.origin == Origin::Simulated)
        );
    }
}

/// The bound of the arithmetic: half a lap of 474 ms for 39% and 8% of the operations, and 20 ms inside the site.
#[test]
fn bounds_follow_from_matrix_tour_and_frequencies() {
    let report = found(&tiny(&[Figure::Latency]));
    let bound = |what: &str| {
        let what =
            format!("{what}, Conveyor Belt at 5 sites (Table 1's classes): bound of the mean");
        let mut all = report.comparisons();
        let found = all.find(|compared| compared.what == what);
        found.unwrap_or_else(|| panic!("{what}")).ours
    };
    assert!((bound("TPC-W") - (20.0 + 0.39 * 237.0)).abs() < 0.01);
    assert!((bound("RUBiS") - (20.0 + 0.08 * 237.0)).abs() < 0.01);
}

/// No mean is below what the network permits, and every simulated end passes the belt's checks (`Context::run`).
#[test]
fn latencies_are_not_below_their_bounds() {
    let report = found(&tiny(&[Figure::Latency]));
    let over = report
        .comparisons()
        .filter(|compared| compared.what.ends_with("mean over the bound"));
    let mut count = 0;
    for compared in over {
        // Few calls in a short run: a little below by chance.
        assert!(compared.ours > 0.8, "{}: {}", compared.what, compared.ours);
        count += 1;
    }
    assert_eq!(count, 2 * 2 * 7);
}

fn one(system: System, servers: u16, place: Place, frequencies: Frequencies) -> Load {
    Load {
        system,
        calls: Calls::Application(
            Traffic::new(Application::Tpcw, frequencies).expect("it is analysed"),
        ),
        servers,
        place,
        clients: 60,
        think: Ticks(0),
        warmup: Ticks::from_millis(1_000),
        measured: Ticks::from_millis(3_000),
        seed: 1,
    }
}

#[test]
fn local_operations_wait_for_no_other_server() {
    let costs = Costs::built_in();
    let found = one(System::Belt, 5, Place::Sites, Frequencies::Table1).run(&costs);
    assert_eq!(found.violations, Vec::<String>::new());
    assert!(found.local.count() > 100 && found.global.count() > 100);
    assert!(found.local.quantile_ms(0.5) < 25.0, "{found:?}");
    assert!(found.global.quantile_ms(0.5) > 100.0, "{found:?}");
    let share = found.global.count() as f64 / found.all.count() as f64;
    assert!((0.33..0.45).contains(&share), "{share}");
}

/// One server of each system has the same throughput, but for what the belt costs.
#[test]
fn one_server_is_one_server() {
    let costs = Costs::built_in();
    let rate = |system| {
        let load = one(system, 1, Place::OneSite, Frequencies::Benchmark);
        let found = load.run(&costs);
        assert_eq!(found.violations, Vec::<String>::new(), "{system:?}");
        found.per_second
    };
    let centralised = rate(System::Centralised);
    for system in [System::Belt, System::ReadOnly, System::TwoPhase] {
        let ratio = rate(system) / centralised;
        assert!((0.5..1.05).contains(&ratio), "{system:?}: {ratio}");
    }
}

#[test]
fn distributed_writes_lock_until_all_have_committed() {
    let costs = Costs::built_in();
    let mut load = one(System::TwoPhase, 4, Place::OneSite, Frequencies::Table1);
    load.clients = 2_000;
    let found = load.run(&costs);
    assert_eq!(found.violations, Vec::<String>::new());
    assert!(found.global.count() > 100, "{found:?}");
    assert!(found.lock_wait_ms > 0.0, "{found:?}");
    // Execution, three rows one after the other, prepare: at least a round trip each on the average.
    assert!(found.global.quantile_ms(0.5) > 60.0, "{found:?}");
}

#[test]
fn targets_are_those_of_the_paper() {
    let report = found(&tiny(&[Figure::OneSite, Figure::Sites, Figure::LocalShare]));
    let aimed = |what: &str| {
        let mut all = report.comparisons();
        let found = all.find(|compared| compared.what == what);
        found.unwrap_or_else(|| panic!("{what}")).target
    };
    assert_eq!(
        aimed("TPC-W (Table 1's classes): peak over two-phase commit"),
        Some(Target::AtLeast(4.2))
    );
    assert_eq!(
        aimed("RUBiS (§7's share of writes): five sites over read-only"),
        Some(Target::AtLeast(1.81))
    );
}

/// The schema names every system that a run can have.
#[test]
fn the_schema_has_each_system() {
    let schema = include_str!("../../../../../docs/schemas/reproduce.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).expect("it is JSON");
    let known = schema["$defs"]["run"]["properties"]["protocol"]["enum"].as_array();
    let known = known.expect("protocols are listed");
    for system in [
        System::Centralised,
        System::Belt,
        System::ReadOnly,
        System::TwoPhase,
    ] {
        let name = system.protocol();
        assert!(known.iter().any(|one| one == name), "{name}");
    }
}

/// Clients whose calls do not end within the run wait all the same.
#[test]
fn calls_that_have_not_ended_count_as_slow() {
    let costs = Costs::built_in();
    let mut load = one(System::Belt, 3, Place::OneSite, Frequencies::Table1);
    let few = load.run(&costs);
    assert!(!few.is_slow(load.clients, 2_000.0), "{few:?}");
    load.clients = 20_000;
    let many = load.run(&costs);
    assert!(many.is_slow(load.clients, 2_000.0), "{many:?}");
    // However fast the others' calls are, as long as more and more of them come to wait for the token.
    assert!(!few.is_slow(load.clients, f64::INFINITY), "{few:?}");
    assert!(many.is_slow(load.clients, f64::INFINITY), "{many:?}");
}
