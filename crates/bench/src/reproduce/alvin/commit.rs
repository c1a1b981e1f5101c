//! The latency of a commit without conflicts, beside what the network permits.

use anabranch_protocol::order::Quorums;
use anabranch_sim::latency::sample;
use anabranch_sim::{ProtocolName, SiteLoad};
use anabranch_types::{SplitMix64, Ticks};

use super::load::{Found, Point, Series, Spread, System, Task, Traffic, millis, run_all};
use super::{Context, ReproduceError};
use crate::figure::{Comparison, Section, Target};

/// Clients of each site.
const CLIENTS: u32 = 4;

/// The median may be above the bound by this factor.
const OVER_MAX: f64 = 1.05;

/// Draws for the median of a bound.
const DRAWS: usize = 4_001;

const SYSTEMS: [System; 4] = [
    System::AlvinSr,
    System::AlvinFast,
    System::Epaxos,
    System::PaxosLow,
];

/// The site whose median is the farthest above a bound: the ratio, the median and the bound in milliseconds.
fn worst(run: &Found, bound: impl Fn(u16) -> Ticks) -> (f64, f64, f64) {
    let sites = (0..).zip(&run.result.by_site);
    let each = sites.map(|(site, at)| {
        let bound = bound(site);
        (at.p50.0 as f64 / bound.0.max(1) as f64, at.p50, bound)
    });
    let worst = each.max_by(|a, b| a.0.total_cmp(&b.0));
    let (ratio, p50, bound) = worst.expect("there is a site");
    (ratio, millis(p50), millis(bound))
}

/// The median of a site's bound where each message draws its latency.
fn drawn(load: &SiteLoad, site: u16, random: &mut SplitMix64) -> Ticks {
    let quorums = Quorums::of(load.sites as u8).expect("the number of sites was checked");
    let answered_by = |site: u16, count: usize, random: &mut SplitMix64| {
        let mut all: Vec<Ticks> = (0..load.sites)
            .map(|other| match other == site {
                true => Ticks(0),
                false => {
                    sample(load.network.median(site, other), random)
                        + sample(load.network.median(other, site), random)
                }
            })
            .collect();
        all.sort_unstable();
        all[count - 1]
    };
    let (classic, fast) = (quorums.classic(), quorums.fast());
    let mut one = || match load.protocol {
        ProtocolName::Epaxos => answered_by(site, fast, random),
        ProtocolName::Multipaxos => {
            let leader = load.options.leader;
            let there_and_back = match leader == site {
                true => Ticks(0),
                false => {
                    sample(load.network.median(site, leader), random)
                        + sample(load.network.median(leader, site), random)
                }
            };
            there_and_back + answered_by(leader, classic, random)
        }
        _ if load.options.fast_decisions => answered_by(site, usize::from(load.sites), random),
        _ => answered_by(site, classic, random) + answered_by(site, classic, random),
    };
    let mut all: Vec<Ticks> = (0..DRAWS).map(|_| one()).collect();
    all.sort_unstable();
    all[DRAWS / 2]
}

/// Medians over bounds, without and with a spread of latencies.
pub(super) fn section(
    context: &Context<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    progress("simulating commits without conflicts");
    let regions = context.settings.effort.regions.iter();
    let tasks = regions.flat_map(|regions| {
        SYSTEMS.iter().flat_map(move |system| {
            [Spread::None, Spread::Messages].map(|spread| Task {
                point: Point {
                    traffic: Traffic::Calm,
                    system: *system,
                    regions: *regions,
                    nodes: 1,
                },
                clients: vec![CLIENTS],
                all: true,
                batches: false,
                spread,
                millis: context.settings.effort.millis_of_commit,
            })
        })
    });
    let found = run_all(context, tasks.collect(), progress)?;
    let mut section = Section {
        title: "A commit without conflicts, beside what the network permits".into(),
        text: vec![
            "Transfers between 60,000 accounts, four clients a site, no batches. The bound is the time until the nearest \
             sufficient quorum has answered: one round trip to a fast quorum under EPaxos, two to a majority under ALVIN, one to \
             all sites with fast decisions, to the leader and its majority under MultiPaxos. The site with the highest ratio \
             counts."
                .into(),
            "Where every message takes the median of its link, the bound is exact. With a spread the nearest quorum is another \
             one each time, so the bound is drawn; a message also waits for an earlier and slower one of its link."
                .into(),
        ],
        ..Section::default()
    };
    let mut random = SplitMix64::stream(context.settings.seed, "bounds", 0);
    for pair in found.chunks_exact(2) {
        let [steady, spread] = pair else {
            unreachable!("they come in pairs")
        };
        let name = |series: &Series| {
            let Point {
                system, regions, ..
            } = series.point;
            format!("{regions} sites, {}", system.name())
        };
        let run = steady.peak();
        let (ratio, p50, bound) = worst(run, |site| run.load.bound(site).commit);
        let what = format!(
            "{}: median over the matrix's bound ({p50:.1} of {bound:.1} ms)",
            name(steady)
        );
        section
            .comparisons
            .push(Comparison::simulated(what, "x", ratio).aimed_at(Target::AtMost(OVER_MAX)));
        let run = spread.peak();
        let bounds: Vec<Ticks> = (0..run.load.sites)
            .map(|site| drawn(&run.load, site, &mut random))
            .collect();
        let (ratio, p50, bound) = worst(run, |site| bounds[usize::from(site)]);
        let what = format!(
            "{}: with a spread, over the drawn bound ({p50:.1} of {bound:.1} ms)",
            name(spread)
        );
        section
            .comparisons
            .push(Comparison::simulated(what, "x", ratio));
    }
    section.runs = found.iter().flat_map(Series::lines).collect();
    Ok(section)
}
