//! Table 3 and Figure 5 on real servers: a PostgreSQL server with a database for each site, a middleware for each, and the
//! latencies of Table 2 between middlewares, and between clients and their nearest one.
//!
//! * `delay`: connections that take that long. `ring`: the processes. `clients`: what they call. `checks`: what has to hold
//!   afterwards.

mod checks;
mod clients;
mod delay;
mod ring;

use std::path::Path;

use anabranch_workload::ClientPlacement;

pub use self::clients::Pace;
use self::clients::{Calls, Fixed, Found, Mix};
use self::ring::Ring;
use super::databases::{self, DatabaseError};
use super::network::{Links, Place};
use super::published::{self, SITES};
use super::traffic::{self, Application};
use super::{Context, ReproduceError, System, tone};
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
    servers: u16,
) -> Result<Run, ReproduceError> {
    let pace = context.settings.effort.measured_light;
    let workload = application.workload();
    let fill = |client: &mut postgres::Client| databases::fill(client, &*workload);
    let of = ring::Application {
        files: workload.files(),
        fill: &fill,
    };
    let clients = 5 * pace.clients;
    let ring = match servers {
        1 => Ring::centralised(&of, clients)?,
        _ => Ring::start(program, &of, servers, clients)?,
    };
    let plan = traffic::plan(application, &application.benchmark_mix())?;
    let plan = (servers > 1).then_some(&plan);
    let seed = context.settings.seed;
    let calls = |place: ClientPlacement| -> Result<Box<dyn Calls>, DatabaseError> {
        Ok(Box::new(Mix::new(application, plan, place, seed)?))
    };
    let found = clients::run(&ring, pace, seed, &calls)?;
    if servers > 1 {
        ring.rest()?;
    }
    let checked = checks::check(&ring, application, &found)?;
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
             bound is computed from the measured shares of global and of forwarded calls."
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
        for servers in context.settings.effort.measured_sites {
            progress(&format!(
                "measuring {} on {servers} servers",
                application.name()
            ));
            let Run { found, checked } = application_run(context, program, application, *servers)?;
            let what = match servers {
                1 => format!("{}, one server", application.name()),
                _ => format!("{}, Conveyor Belt at {servers} sites", application.name()),
            };
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
            let place = SITES.iter().position(|sites| sites == servers);
            let beside = place.map_or(printed.centralised, |place| printed.belt[place]);
            let mean = found.all.mean() / 1e3;
            section.comparisons.push(
                Comparison::new(format!("{what}: mean"), "ms", mean, Origin::Measured)
                    .beside(beside),
            );
            let links = Links::new(Place::Sites, *servers);
            let global = found.global.len() as f64 / found.all.len().max(1) as f64;
            let forwarded = found.elsewhere as f64 / found.all.len().max(1) as f64;
            let bound = links.mean_round_trip_ms()
                + forwarded * links.mean_between_ms()
                + global * links.lap_ms() / 2.0;
            let over = format!("{what}: mean over the bound");
            let over = Comparison::new(over, "x", mean / bound, Origin::Measured);
            section.comparisons.push(match servers {
                1 => over,
                _ => over.aimed_at(Target::AtMost(1.15)),
            });
            if *servers > 1 {
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
            let system = if *servers == 1 {
                System::Centralised
            } else {
                System::Belt
            };
            section
                .runs
                .push(line(what, system, *servers, 5 * pace.clients, &found));
        }
    }
    section
        .text
        .push(format!("{conditions} conditions were checked, and hold."));
    Ok(section)
}

/// Figure 5.
pub(super) fn local_share(
    context: &Context<'_>,
    program: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    let effort = &context.settings.effort;
    let files = [("fixed.sql", databases::FIXED)];
    let fill = |client: &mut postgres::Client| -> Result<(), DatabaseError> {
        client.batch_execute(databases::FIXED)?;
        Ok(client.batch_execute(databases::FIXED_ROWS)?)
    };
    let application = ring::Application {
        files: &files,
        fill: &fill,
    };
    let most = effort.measured_clients.iter().max().copied().unwrap_or(1);
    progress("starting a ring of three");
    let ring = Ring::start(program, &application, 3, 5 * most)?;
    let mut section = Section {
        title: "Figure 5: throughput by the share of local operations, three sites, on real servers".into(),
        text: vec![
            "Three PostgreSQL databases, three middlewares and all clients share the processors of this machine, which \
             saturate before the ring does: the simulated figure tells what three servers would do. Each operation sleeps \
             5 ms (pg_sleep) and changes a row."
                .into(),
        ],
        ..Section::default()
    };
    let seed = context.settings.seed;
    let mut points = Vec::new();
    let mut called = [0; 2];
    for local in effort.measured_shares {
        let mut best: f64 = 0.0;
        for clients in effort.measured_clients {
            progress(&format!(
                "measuring {local}% local, {} clients",
                5 * clients
            ));
            let pace = Pace {
                clients: *clients,
                think_millis: 0,
                warmup_millis: effort.measured_fixed[0],
                millis: effort.measured_fixed[1],
            };
            let found = clients::run(&ring, pace, seed, &|place| {
                Ok(Box::new(Fixed::new(*local, place, seed)))
            })?;
            let what = format!("{local}% local");
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
            section
                .runs
                .push(line(what, System::Belt, 3, 5 * clients, &found));
        }
        points.push((f64::from(*local), best));
        let compared = Comparison::new(format!("{local}% local"), "/s", best, Origin::Measured);
        let printed = published::SATURATION
            .iter()
            .find(|(share, _)| share == local);
        section
            .comparisons
            .push(compared.beside(printed.map(|(_, rate)| *rate)));
    }
    ring.rest()?;
    // Every acknowledged operation is there once; a local one on one server, a global one on all.
    let shared = ring.on_each("SELECT sum(n)::text FROM shared")?;
    let own = ring.on_each("SELECT sum(n)::text FROM own")?;
    let own: u64 = own
        .iter()
        .flatten()
        .filter_map(|n| n.parse::<u64>().ok())
        .sum();
    let wanted = called[1].to_string();
    if own != called[0] || shared.iter().flatten().any(|sum| *sum != wanted) {
        return Err(ReproduceError::Wrong {
            what: "Figure 5 on real servers".into(),
            violation: format!(
                "{called:?} operations are acknowledged, and the databases have {own} and {shared:?}"
            ),
        });
    }
    section.text.push(format!(
        "Afterwards the databases have each of {} acknowledged operations once, and global ones on all servers.",
        called[0] + called[1]
    ));
    section.charts.push(Chart {
        name: "figure-5-measured".into(),
        title: "Operations of 5 ms, three sites on one machine (Figure 5)".into(),
        x: Axis::linear("local operations, percent"),
        y: Axis::linear("operations a second"),
        series: vec![
            Series {
                name: System::Belt.name().into(),
                origin: Origin::Measured,
                tone: tone(System::Belt),
                points,
            },
            Series {
                name: "where saturation begins".into(),
                origin: Origin::Published,
                tone: Tone::Neutral,
                points: published::SATURATION
                    .map(|(local, rate)| (f64::from(local), rate))
                    .to_vec(),
            },
        ],
        levels: Vec::new(),
    });
    Ok(section)
}
