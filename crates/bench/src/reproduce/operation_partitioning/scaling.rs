//! Figures 3 and 4: peak throughput by servers, at one site and at several.

use super::model::{Calls, Load, Outcome, System};
use super::network::Place;
use super::published;
use super::traffic::{Application, Frequencies};
use super::{Context, ReproduceError, periods, run_line, tone};
use crate::figure::{Axis, Chart, Comparison, Origin, Section, Series, Target};
use anabranch_types::Ticks;

/// A line of a chart at one number of servers.
#[derive(Clone, Copy)]
struct Point {
    application: Application,
    frequencies: Frequencies,
    system: System,
    servers: u16,
    place: Place,
}

/// The run with the highest throughput below the limit of latency.
struct Peak {
    load: Load,
    outcome: Outcome,
}

/// Adds clients until the mean latency reaches the limit.
fn peak(context: &Context<'_>, point: &Point) -> Result<Peak, ReproduceError> {
    let effort = &context.settings.effort;
    let (limit, millis) = match point.place {
        Place::OneSite => (published::PEAK_LATENCY_LAN_MS, effort.one_site),
        Place::Sites => (published::PEAK_LATENCY_WAN_MS, effort.sites),
    };
    let (warmup, measured) = periods(millis);
    // One server is driven by the clients of all sites.
    let groups = match point.place {
        Place::OneSite => u32::from(point.servers),
        Place::Sites => 5,
    };
    let mut best: Option<Peak> = None;
    let mut falling = 0;
    for clients in effort.clients {
        let load = Load {
            system: point.system,
            calls: Calls::Application(context.traffic(point.application, point.frequencies)),
            servers: point.servers,
            place: point.place,
            clients: clients * groups,
            think: Ticks(0),
            warmup,
            measured,
            seed: context.settings.seed,
        };
        let outcome = context.run(&load)?;
        let is_slow = outcome.is_slow(load.clients, limit);
        let rate = |of: &Peak| of.outcome.per_second;
        let is_better = best
            .as_ref()
            .is_none_or(|best| outcome.per_second > rate(best));
        falling = if is_better { 0 } else { falling + 1 };
        if best.is_none() || (is_better && !is_slow) {
            best = Some(Peak { load, outcome });
        }
        if is_slow || falling == 2 {
            break;
        }
    }
    Ok(best.expect("there is a number of clients"))
}

struct Found {
    points: Vec<(Point, Peak)>,
}

impl Found {
    fn run(
        context: &Context<'_>,
        figure: &str,
        points: Vec<Point>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Found, ReproduceError> {
        // The largest first, so that threads end together.
        let mut order: Vec<Point> = points;
        order.sort_by_key(|point| std::cmp::Reverse(point.servers));
        let found = context.each(figure, &order, progress, |point| peak(context, point))?;
        Ok(Found {
            points: order.into_iter().zip(found).collect(),
        })
    }

    fn rate(&self, of: (Application, Frequencies), system: System, servers: u16) -> f64 {
        let mut all = self.points.iter();
        let found = all.find(|(point, _)| {
            (point.application, point.frequencies) == of
                && (point.system, point.servers) == (system, servers)
        });
        found.map_or(0.0, |(_, peak)| peak.outcome.per_second)
    }

    fn series(&self, of: (Application, Frequencies), system: System, servers: &[u16]) -> Series {
        let points = servers.iter();
        Series {
            name: system.name().into(),
            origin: Origin::Simulated,
            tone: tone(system),
            points: points
                .map(|servers| (f64::from(*servers), self.rate(of, system, *servers)))
                .collect(),
        }
    }

    /// The number of servers with the highest throughput: fewer if more add less than 1%.
    fn grows_until(&self, of: (Application, Frequencies), system: System, servers: &[u16]) -> u16 {
        let mut until = servers[0];
        for next in servers {
            if self.rate(of, system, *next) > 1.01 * self.rate(of, system, until) {
                until = *next;
            }
        }
        until
    }

    fn peak_of(&self, of: (Application, Frequencies), system: System, servers: &[u16]) -> f64 {
        let rates = servers
            .iter()
            .map(|servers| self.rate(of, system, *servers));
        rates.fold(0.0, f64::max)
    }
}

const BOTH: [Frequencies; 2] = [Frequencies::Table1, Frequencies::Benchmark];

fn label(frequencies: Frequencies) -> &'static str {
    match frequencies {
        Frequencies::Table1 => "table1",
        Frequencies::Benchmark => "writes",
    }
}

fn section_of(
    context: &Context<'_>,
    found: &Found,
    systems: &[System],
    servers: &[u16],
    (number, title): (u8, &str),
) -> Section {
    let mut section = Section {
        title: title.into(),
        parameters: vec![(
            "clients of each server or site".into(),
            context
                .settings
                .effort
                .clients
                .iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        )],
        ..Section::default()
    };
    for application in Application::ALL {
        let panel = if application == Application::Tpcw {
            'a'
        } else {
            'b'
        };
        for frequencies in BOTH {
            let of = (application, frequencies);
            let lines = systems
                .iter()
                .map(|system| found.series(of, *system, servers));
            section.charts.push(Chart {
                name: format!("figure-{number}{panel}-{}", label(frequencies)),
                title: format!(
                    "{}, {} (Figure {number}{panel})",
                    application.name(),
                    frequencies.name()
                ),
                x: Axis::linear(if number == 3 { "servers" } else { "sites" }),
                y: Axis::linear("operations a second"),
                series: lines.collect(),
                levels: Vec::new(),
            });
        }
    }
    for (point, peak) in &found.points {
        let what = format!(
            "{}, {}, {} servers ({})",
            point.application.name(),
            point.system.name(),
            point.servers,
            point.frequencies.name()
        );
        section.runs.push(run_line(what, &peak.load, &peak.outcome));
    }
    section
}

/// Figure 3: all servers at one site.
pub(super) fn one_site(
    context: &Context<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    let servers = context.settings.effort.servers;
    let systems = [System::Belt, System::TwoPhase];
    let mut points = Vec::new();
    for application in Application::ALL {
        for frequencies in BOTH {
            for system in systems {
                points.extend(servers.iter().map(|servers| Point {
                    application,
                    frequencies,
                    system,
                    servers: *servers,
                    place: Place::OneSite,
                }));
            }
        }
    }
    let found = Found::run(context, "Figure 3", points, progress)?;
    let title = "Figure 3: peak throughput by servers, one site";
    let mut section = section_of(context, &found, &systems, servers, (3, title));
    section.text.push(
        "Peak throughput is the highest with a mean latency below 2 s. A message takes 10 ms, also between servers of the \
         site: the 20 ms of Table 2 are read as a round trip. Two-phase commit has the same servers, network and costs. It \
         reads without locks; what it writes on several partitions it locks until these have committed."
            .into(),
    );
    for application in Application::ALL {
        for frequencies in BOTH {
            let of = (application, frequencies);
            let name = format!("{} ({})", application.name(), frequencies.name());
            let place = application.place();
            let over = found.peak_of(of, System::Belt, servers)
                / found.peak_of(of, System::TwoPhase, servers);
            section.comparisons.push(
                Comparison::simulated(format!("{name}: peak over two-phase commit"), "x", over)
                    .beside(published::OVER_TWO_PHASE[place])
                    .aimed_at(Target::AtLeast(published::OVER_TWO_PHASE[place])),
            );
            for (system, printed) in [
                (System::Belt, published::GROWS_UNTIL[place]),
                (System::TwoPhase, published::CLUSTER_GROWS_UNTIL[place]),
            ] {
                let until = f64::from(found.grows_until(of, system, servers));
                let what = format!("{name}: {} grows until, servers", system.name());
                let compared = Comparison::simulated(what, "", until).beside(f64::from(printed));
                section.comparisons.push(match system {
                    System::Belt => compared.aimed_at(Target::AtLeast(f64::from(printed))),
                    _ => compared,
                });
                let what = format!("{name}: {}, peak", system.name());
                let most = found.peak_of(of, system, servers);
                section
                    .comparisons
                    .push(Comparison::simulated(what, "/s", most));
            }
        }
    }
    Ok(section)
}

/// Figure 4: a server at each of several sites.
pub(super) fn sites(
    context: &Context<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    let servers = &published::SITES;
    let mut points = Vec::new();
    for application in Application::ALL {
        for frequencies in BOTH {
            let point = |system, servers| Point {
                application,
                frequencies,
                system,
                servers,
                place: Place::Sites,
            };
            points.push(point(System::Centralised, 1));
            for system in [System::Belt, System::ReadOnly] {
                points.extend(servers.map(|servers| point(system, servers)));
            }
        }
    }
    let found = Found::run(context, "Figure 4", points, progress)?;
    let title = "Figure 4: peak throughput by sites";
    let systems = [System::Belt, System::ReadOnly];
    let mut section = section_of(context, &found, &systems, servers, (4, title));
    section.text.push(
        "Peak throughput is the highest with a mean latency below 5 s. Clients are at all five sites. Read-only runs \
         operations that only read at once, and all others by the same belt, as global ones."
            .into(),
    );
    for application in Application::ALL {
        for frequencies in BOTH {
            let of = (application, frequencies);
            let name = format!("{} ({})", application.name(), frequencies.name());
            let printed = published::OVER_READ_ONLY[application.place()];
            let belt = found.rate(of, System::Belt, 5);
            let over = belt / found.rate(of, System::ReadOnly, 5);
            section.comparisons.push(
                Comparison::simulated(format!("{name}: five sites over read-only"), "x", over)
                    .beside(printed)
                    .aimed_at(Target::AtLeast(printed)),
            );
            let over = belt / found.rate(of, System::Centralised, 1);
            let what = format!("{name}: five sites over one server");
            section
                .comparisons
                .push(Comparison::simulated(what, "x", over));
            for system in systems {
                for sites in servers {
                    let what = format!("{name}: {} at {sites} sites, peak", system.name());
                    let rate = found.rate(of, system, *sites);
                    section
                        .comparisons
                        .push(Comparison::simulated(what, "/s", rate));
                }
            }
        }
    }
    Ok(section)
}
