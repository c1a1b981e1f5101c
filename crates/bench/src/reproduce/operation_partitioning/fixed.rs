//! Figures 5 and 6: operations of 5 ms, of which more and more are local, at three sites.
//!
//! As the operations sleep, processors are not what saturates first.

use super::model::{Calls, Load, Outcome, System};
use super::network::Place;
use super::published;
use super::{Context, ReproduceError, periods, run_line, tone};
use crate::figure::{Axis, Chart, Comparison, Origin, Section, Series, Target, Tone};
use anabranch_types::Ticks;

const SERVERS: u16 = 3;
/// Clients of each of the five sites at light load (Figure 6a).
const LIGHT: u32 = 10;
/// The same at higher load (Figure 6b).
const HEAVY: u32 = 400;

fn load(context: &Context<'_>, local: u8, clients: u32, think: Ticks) -> Load {
    let (warmup, measured) = periods(context.settings.effort.sites);
    Load {
        system: System::Belt,
        calls: Calls::Fixed { local },
        servers: SERVERS,
        place: Place::Sites,
        clients,
        think,
        warmup,
        measured,
        seed: context.settings.seed,
    }
}

/// Figure 5.
pub(super) fn throughput(
    context: &Context<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    let effort = &context.settings.effort;
    let found = context.each("Figure 5", effort.shares, progress, |local| {
        let mut runs: Vec<(Load, Outcome)> = Vec::new();
        for clients in effort.clients {
            let load = load(context, *local, 5 * clients, Ticks(0));
            let outcome = context.run(&load)?;
            if outcome.is_slow(load.clients, published::PEAK_LATENCY_WAN_MS) {
                break;
            }
            runs.push((load, outcome));
        }
        Ok(runs)
    })?;
    let peak = |runs: &[(Load, Outcome)]| {
        let rates = runs.iter().map(|(_, outcome)| outcome.per_second);
        rates.fold(0.0, f64::max)
    };
    let shares = effort.shares.iter().zip(&found);
    let points: Vec<(f64, f64)> = shares
        .clone()
        .map(|(local, runs)| (f64::from(*local), peak(runs)))
        .collect();
    let mut section = Section {
        title: "Figure 5: throughput by the share of local operations, three sites, simulated".into(),
        text: vec![
            "Each operation sleeps 5 ms and changes a row; what that and the belt cost the processors is included. Clients are \
             added until the mean latency reaches 5 s; the highest throughput counts. The paper tells where saturation \
             begins."
                .into(),
        ],
        charts: vec![Chart {
            name: "figure-5".into(),
            title: "Operations of 5 ms, three sites (Figure 5)".into(),
            x: Axis::linear("local operations, percent"),
            y: Axis::linear("operations a second"),
            series: vec![
                Series {
                    name: System::Belt.name().into(),
                    origin: Origin::Simulated,
                    tone: tone(System::Belt),
                    points,
                },
                Series {
                    name: "where saturation begins".into(),
                    origin: Origin::Published,
                    tone: Tone::Neutral,
                    points: published::SATURATION.map(|(local, rate)| (f64::from(local), rate)).to_vec(),
                },
            ],
            levels: Vec::new(),
        }],
        ..Section::default()
    };
    for (local, runs) in shares {
        let what = format!("{local}% local");
        let compared = Comparison::simulated(what.clone(), "/s", peak(runs));
        let printed = published::SATURATION
            .iter()
            .find(|(share, _)| share == local);
        section.comparisons.push(match printed {
            Some((_, rate)) => compared.beside(*rate).aimed_at(Target::AtLeast(*rate)),
            None => compared,
        });
        for (load, outcome) in runs {
            section.runs.push(run_line(what.clone(), load, outcome));
        }
    }
    Ok(section)
}

/// Figure 6.
pub(super) fn latencies(
    context: &Context<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    let effort = &context.settings.effort;
    let mut section = Section {
        title: "Figure 6: latency by the share of local operations, three sites, simulated".into(),
        text: vec![format!(
            "Operations of 5 ms. At light load (6a) {LIGHT} clients of each of five sites wait a second in the mean between \
             calls; at higher load (6b) {HEAVY}. The paper's ratio of global to local latency includes clients whose \
             nearest server is far away, as ours does."
        )],
        ..Section::default()
    };
    for (panel, clients) in [('a', LIGHT), ('b', HEAVY)] {
        let found = context.each("Figure 6", effort.shares, progress, |local| {
            let load = load(context, *local, 5 * clients, Ticks::from_millis(1_000));
            Ok((context.run(&load)?, load))
        })?;
        let line = |name: &str, tone, of: &dyn Fn(&Outcome) -> f64| Series {
            name: name.into(),
            origin: Origin::Simulated,
            tone,
            points: effort
                .shares
                .iter()
                .zip(&found)
                .map(|(local, (outcome, _))| (f64::from(*local), of(outcome)))
                .filter(|(_, ms)| *ms > 0.0)
                .collect(),
        };
        section.charts.push(Chart {
            name: format!("figure-6{panel}"),
            title: format!("Mean latency, {clients} clients a site (Figure 6{panel})"),
            x: Axis::linear("local operations, percent"),
            y: Axis::linear("milliseconds"),
            series: vec![
                line("global", Tone::Locking, &|of| of.global.mean_ms()),
                line("local", Tone::Avoiding, &|of| of.local.mean_ms()),
                line("all", Tone::Neutral, &|of| of.all.mean_ms()),
            ],
            levels: Vec::new(),
        });
        for (local, (outcome, load)) in effort.shares.iter().zip(&found) {
            let what = format!("6{panel}, {local}% local");
            let printed = (panel == 'a' && *local == 70).then_some(published::LIGHT_70);
            for (class, latencies, printed) in [
                ("local", &outcome.local, printed.map(|(local, _)| local)),
                ("global", &outcome.global, printed.map(|(_, global)| global)),
            ] {
                if latencies.count() > 0 {
                    section.comparisons.push(
                        Comparison::simulated(
                            format!("{what}: {class}, mean"),
                            "ms",
                            latencies.mean_ms(),
                        )
                        .beside(printed),
                    );
                }
            }
            section.runs.push(run_line(what, load, outcome));
        }
    }
    let (least, most) = published::GLOBAL_OVER_LOCAL;
    section.text.push(format!(
        "The paper has global latencies {least} to {most} times local ones."
    ));
    Ok(section)
}
