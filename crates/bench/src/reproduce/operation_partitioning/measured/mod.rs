//! Table 3 and Figure 5 on real servers: a PostgreSQL server with a database for each site, a middleware for each, and the
//! latencies of Table 2 between middlewares, and between clients and their nearest one.
//!
//! * `delay`: connections that take that long. `ring`: the processes. `clients`: what they call. `checks`: what has to hold
//!   afterwards. `two_phase`: the baseline.

mod checks;
mod clients;
mod delay;
mod ring;
mod two_phase;

use std::path::Path;

use anabranch_analysis::partition::Writes;
use anabranch_workload::ClientPlacement;
use postgres::IsolationLevel;

pub use self::clients::Pace;
use self::clients::{Calls, CommitPath, Fixed, Found, Mix};
use self::ring::Ring;
use super::databases::{self, DatabaseError};
use super::network::{Links, Place};
use super::published::{self, SITES};
use super::traffic::{self, Application};
use super::{Context, ReproduceError, System};
use crate::figure::{Axis, Chart, Comparison, Origin, RunLine, Section, Series, Target, Tone};

fn line(what: String, system: System, servers: u16, clients: u32, found: &Found) -> RunLine {
    let calls = found.all.len();
    RunLine {
        what,
        origin: Origin::Measured,
        protocol: system.protocol(),
        servers,
        clients,
        committed: calls,
        per_second: found.per_second(),
        mean_ms: found.all.mean() / 1e3,
        p99_ms: found.all.value_at_quantile(0.99) as f64 / 1e3,
        utilization: None,
        messages: 0.0,
        retries: found.retries as f64 / calls.max(1) as f64,
        lock_wait_ms: 0.0,
        guessed: None,
    }
}

/// A run of an application's mix.
struct Run {
    found: Found,
    checked: checks::Checked,
}

fn application_run(
    context: &Context<'_>,
    program: &Path,
    application: Application,
    system: System,
    servers: u16,
) -> Result<Run, ReproduceError> {
    let pace = context.settings.effort.measured_light;
    let workload = application.workload();
    let fill = |client: &mut postgres::Client| databases::fill(client, &*workload);
    let of = ring::Application {
        files: workload.files(),
        fill: &fill,
        synchronous_commit: false,
    };
    let clients = 5 * pace.clients;
    let (writes, named) = match system {
        System::ReadOnly => (Writes::Everywhere, "everywhere"),
        _ => (Writes::Partitioned, "partitioned"),
    };
    let ring = match servers {
        1 => Ring::without_belt(&of, 1, clients)?,
        _ => Ring::start(program, &of, servers, clients, named)?,
    };
    let plan = traffic::plan(application, &application.benchmark_mix(), writes)?;
    let plan = (servers > 1).then_some(&plan);
    let seed = context.settings.seed;
    let calls = |place: ClientPlacement| -> Result<Box<dyn Calls>, DatabaseError> {
        Ok(Box::new(Mix::new(application, plan, place, seed)?))
    };
    let found = clients::run(&ring, CommitPath::Sent, pace, seed, &calls)?;
    if servers > 1 {
        ring.rest()?;
    }
    let checked = checks::check(&ring, application, plan, &found)?;
    Ok(Run { found, checked })
}

/// Table 3.
pub(super) fn latency(
    context: &Context<'_>,
    program: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    let pace = context.settings.effort.measured_light;
    let mut section = Section {
        title: "Table 3: latency at light load, on real servers".into(),
        text: vec![
            "A PostgreSQL database and a middleware for each site on this machine; Table 2's latencies are between \
             middlewares, and between clients and their nearest server. Calls are those of the benchmark's pages, whose \
             writes are not scaled, and of which fewer are global than in Table 1. The middleware sends a call to the server of \
             its key, also if every server has its rows; the simulated table has those run at the client's own server. The \
             bound is computed from the measured calls: their clients' round trips, and the shares of global and of forwarded ones. Read-only local is a ring with writes = \
             \"everywhere\": each operation that writes is global."
                .into(),
            "After each run: tables that all servers have are equal on all; each acknowledged order, payment, customer, bid, \
             sale and comment is there once; stocks are what orders took, and never below 0; best bids, numbers of bids, \
             sold numbers and ratings are those of their rows. A condition that does not hold ends the command."
                .into(),
        ],
        parameters: vec![
            ("clients of each site".into(), pace.clients.to_string()),
            ("mean pause of a client".into(), format!("{} ms", pace.think_millis)),
            ("measured".into(), format!("{} s", pace.millis / 1_000)),
        ],
        ..Section::default()
    };
    let mut conditions = 0;
    for application in Application::ALL {
        let printed = match application {
            Application::Tpcw => published::TPCW_MS,
            Application::Rubis => published::RUBIS_MS,
        };
        let systems = context
            .settings
            .effort
            .measured_sites
            .iter()
            .flat_map(|servers| {
                let systems: &[System] = match servers {
                    1 => &[System::Centralised],
                    _ => &[System::Belt, System::ReadOnly],
                };
                systems.iter().map(move |system| (*system, *servers))
            });
        for (system, servers) in systems {
            let what = match system {
                System::Belt => format!("{}, Conveyor Belt at {servers} sites", application.name()),
                System::Centralised => format!("{}, one server", application.name()),
                _ => format!(
                    "{}, {} at {servers} sites",
                    application.name(),
                    system.name()
                ),
            };
            progress(&format!("measuring {what}"));
            let Run { found, checked } =
                application_run(context, program, application, system, servers)?;
            if let Some(violation) = checked.wrong.first() {
                return Err(ReproduceError::Wrong {
                    what,
                    violation: violation.clone(),
                });
            }
            if let Some((text, count)) = found.failed.iter().next() {
                return Err(ReproduceError::Wrong {
                    what,
                    violation: format!("{count} calls failed: {text}"),
                });
            }
            conditions += checked.count;
            let beside = match SITES.iter().position(|sites| *sites == servers) {
                None => printed.centralised,
                Some(place) if system == System::Belt => printed.belt[place],
                Some(place) => printed.read_only[place],
            };
            let mean = found.all.mean() / 1e3;
            section.comparisons.push(
                Comparison::new(format!("{what}: mean"), "ms", mean, Origin::Measured)
                    .beside(beside),
            );
            let links = Links::new(Place::Sites, servers);
            let global = found.global.len() as f64 / found.all.len().max(1) as f64;
            let forwarded = found.elsewhere as f64 / found.all.len().max(1) as f64;
            let bound = found.network.mean() / 1e3
                + forwarded * links.mean_between_ms()
                + global * links.lap_ms() / 2.0;
            let over = format!("{what}: mean over the bound");
            let over = Comparison::new(over, "x", mean / bound, Origin::Measured);
            section.comparisons.push(match system {
                System::Belt => over.aimed_at(Target::AtMost(1.15)),
                _ => over,
            });
            if servers > 1 {
                let share = format!("{what}: global calls");
                section.comparisons.push(Comparison::new(
                    share,
                    "%",
                    100.0 * global,
                    Origin::Measured,
                ));
                let share = format!("{what}: calls that another server runs");
                section.comparisons.push(Comparison::new(
                    share,
                    "%",
                    100.0 * forwarded,
                    Origin::Measured,
                ));
                for (class, of) in [
                    ("local", &found.local),
                    ("forwarded", &found.forwarded),
                    ("global", &found.global),
                ] {
                    if of.is_empty() {
                        continue;
                    }
                    for (which, value) in [
                        ("mean", of.mean()),
                        ("median", of.value_at_quantile(0.5) as f64),
                        ("95th percentile", of.value_at_quantile(0.95) as f64),
                    ] {
                        let what = format!("{what}: {class}, {which}");
                        section.comparisons.push(Comparison::new(
                            what,
                            "ms",
                            value / 1e3,
                            Origin::Measured,
                        ));
                    }
                }
            }
            section
                .runs
                .push(line(what, system, servers, 5 * pace.clients, &found));
        }
    }
    section
        .text
        .push(format!("{conditions} conditions were checked, and hold."));
    Ok(section)
}

/// How the operations of Figure 5 are run.
#[derive(Clone, Copy)]
struct Configuration {
    name: &'static str,
    system: System,
    servers: u16,
    path: CommitPath,
    tone: Tone,
}

const CONFIGURATIONS: [Configuration; 4] = [
    Configuration {
        name: "Conveyor Belt",
        system: System::Belt,
        servers: 3,
        path: CommitPath::Sent,
        tone: Tone::Avoiding,
    },
    Configuration {
        name: "one server",
        system: System::Centralised,
        servers: 1,
        path: CommitPath::Sent,
        tone: Tone::Checking,
    },
    Configuration {
        name: "two-phase commit, READ COMMITTED",
        system: System::TwoPhase,
        servers: 3,
        path: CommitPath::TwoPhase(IsolationLevel::ReadCommitted),
        tone: Tone::LockingShort,
    },
    Configuration {
        name: "two-phase commit, SERIALIZABLE on each server",
        system: System::TwoPhase,
        servers: 3,
        path: CommitPath::TwoPhase(IsolationLevel::Serializable),
        tone: Tone::Locking,
    },
];

/// Figure 5.
pub(super) fn local_share(
    context: &Context<'_>,
    program: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    let mut section = Section {
        title: "Figure 5: throughput by the share of local operations, three sites, on real servers".into(),
        text: vec![
            "Three PostgreSQL databases, three middlewares and all clients share the processors of this machine, which \
             saturate before the ring does: the simulated figure tells what three servers would do. Each operation sleeps \
             5 ms (pg_sleep) and changes a row. Commits wait for the disk (synchronous_commit = on), those of prepared \
             transactions always do."
                .into(),
            "One server: all clients call it. Two-phase commit, on three databases of the same kind: the client's server runs \
             the operation and coordinates; a row that all have is changed on all, by PREPARE TRANSACTION in the message \
             that changes it, and the client is answered when all have prepared and its own server has committed. The \
             coordinator keeps no record of its own, which is in favour of this baseline; SERIALIZABLE on each server is not \
             serializable between them."
                .into(),
        ],
        ..Section::default()
    };
    let mut series = Vec::new();
    let mut called = 0;
    let mut belt: Vec<f64> = Vec::new();
    for of in CONFIGURATIONS {
        let measured = throughput_of(context, program, of, &mut section, progress)?;
        called += measured.called;
        let printed = |local: u8| {
            let all = &mut published::SATURATION.iter();
            all.find(|(share, _)| *share == local)
                .map(|(_, rate)| *rate)
        };
        for (place, (local, rate)) in measured.points.iter().enumerate() {
            let what = match of.system {
                System::Belt => format!("{local}% local"),
                _ => format!("{local}% local, {}", of.name),
            };
            let compared = Comparison::new(what, "/s", *rate, Origin::Measured);
            section.comparisons.push(match of.system {
                System::Belt => compared.beside(printed(*local)),
                _ => compared,
            });
            if of.system != System::Belt {
                let over = format!("{local}% local, Conveyor Belt over {}", of.name);
                let over = Comparison::new(over, "x", belt[place] / rate, Origin::Measured);
                section.comparisons.push(over);
            }
        }
        if of.system == System::Belt {
            belt = measured.points.iter().map(|(_, rate)| *rate).collect();
        }
        let points = measured.points.into_iter();
        series.push(Series {
            name: of.name.into(),
            origin: Origin::Measured,
            tone: of.tone,
            points: points
                .map(|(local, rate)| (f64::from(local), rate))
                .collect(),
        });
    }
    section.text.push(format!(
        "After each the databases had each of the acknowledged operations once, {called} in all, and global ones on all servers."
    ));
    series.push(Series {
        name: "where saturation begins".into(),
        origin: Origin::Published,
        tone: Tone::Neutral,
        points: published::SATURATION
            .map(|(local, rate)| (f64::from(local), rate))
            .to_vec(),
    });
    section.charts.push(Chart {
        name: "figure-5-measured".into(),
        title: "Operations of 5 ms, three sites on one machine (Figure 5)".into(),
        x: Axis::linear("local operations, percent"),
        y: Axis::linear("operations a second"),
        series,
        levels: Vec::new(),
    });
    Ok(section)
}

/// What a configuration reached: by percentage of local operations, operations a second; and the operations that were
/// acknowledged.
struct MeasuredThroughput {
    points: Vec<(u8, f64)>,
    called: u64,
}

fn throughput_of(
    context: &Context<'_>,
    program: &Path,
    of: Configuration,
    section: &mut Section,
    progress: &mut dyn FnMut(&str),
) -> Result<MeasuredThroughput, ReproduceError> {
    let effort = &context.settings.effort;
    let files = [("fixed.sql", databases::FIXED)];
    let fill = |client: &mut postgres::Client| -> Result<(), DatabaseError> {
        client.batch_execute(databases::FIXED)?;
        Ok(client.batch_execute(databases::FIXED_ROWS)?)
    };
    let application = ring::Application {
        files: &files,
        fill: &fill,
        synchronous_commit: true,
    };
    let most = effort.measured_clients.iter().max().copied().unwrap_or(1);
    progress(&format!("starting: {}", of.name));
    let ring = match of.system {
        System::Belt => Ring::start(program, &application, of.servers, 5 * most, "partitioned")?,
        _ => Ring::without_belt(&application, of.servers, 5 * most)?,
    };
    let seed = context.settings.seed;
    let mut points = Vec::new();
    let mut called = [0; 2];
    for local in effort.measured_shares {
        let what = format!("{}, {local}% local", of.name);
        let mut best: f64 = 0.0;
        for clients in effort.measured_clients {
            progress(&format!("measuring {what}, {} clients", 5 * clients));
            let pace = Pace {
                clients: *clients,
                think_millis: 0,
                warmup_millis: effort.measured_fixed[0],
                millis: effort.measured_fixed[1],
            };
            let found = clients::run(&ring, of.path, pace, seed, &|place| {
                Ok(Box::new(Fixed::new(*local, place, seed)))
            })?;
            if let Some((text, count)) = found.failed.iter().next() {
                return Err(ReproduceError::Wrong {
                    what,
                    violation: format!("{count} calls failed: {text}"),
                });
            }
            for (sum, name) in called.iter_mut().zip(["run_local", "run_global"]) {
                *sum += found.done.get(name).copied().unwrap_or(0);
            }
            best = best.max(found.per_second());
            let line = line(what.clone(), of.system, of.servers, 5 * clients, &found);
            section.runs.push(line);
        }
        points.push((*local, best));
    }
    if of.system == System::Belt {
        ring.rest()?;
    }
    // Every acknowledged operation is there once; a local one on one server, a global one on all.
    let shared = ring.on_each("SELECT sum(n)::text FROM shared")?;
    let rows = ring.on_each("SELECT string_agg(n::text, ',' ORDER BY id) FROM shared")?;
    let prepared = ring.on_each("SELECT count(*)::text FROM pg_prepared_xacts")?;
    let own = ring.on_each("SELECT sum(n)::text FROM own")?;
    let own: u64 = own
        .iter()
        .flatten()
        .filter_map(|n| n.parse::<u64>().ok())
        .sum();
    let wanted = called[1].to_string();
    let is_equal = rows.windows(2).all(|pair| pair[0] == pair[1]);
    let is_decided = prepared.iter().flatten().all(|count| count == "0");
    let is_wanted = shared.iter().flatten().all(|sum| *sum == wanted);
    if own != called[0] || !is_wanted || !is_equal || !is_decided {
        return Err(ReproduceError::Wrong {
            what: format!("Figure 5 on real servers, {}", of.name),
            violation: format!(
                "{called:?} operations are acknowledged; the databases have {own} and {shared:?}, and {prepared:?} prepared; \
                 their rows are equal: {is_equal}"
            ),
        });
    }
    Ok(MeasuredThroughput {
        points,
        called: called[0] + called[1],
    })
}
