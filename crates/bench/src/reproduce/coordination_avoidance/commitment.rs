//! Figure 2: atomic commitment bounds the throughput of transactions that conflict.
//!
//! No simulated cluster: the bounds follow from the network alone ([`super::super::atomic_commit`]).

use anabranch_sim::Network;

use super::super::atomic_commit::{Commit, Commitment, LAN};
use super::{Effort, published};
use crate::figure::{Axis, Chart, Comparison, Origin, Section, Series, Target, Tone};

/// The regions in the order in which the paper's Figure 2b adds them; Virginia coordinates.
const REGIONS: [&str; 8] = [
    "virginia",
    "oregon",
    "california",
    "ireland",
    "sao-paulo",
    "tokyo",
    "singapore",
    "sydney",
];

/// Both protocols, their names and their colours.
const WAYS: [(Commitment, &str, Tone); 2] = [
    (Commitment::Decentralized, "D-2PC", Tone::Avoiding),
    (Commitment::Classic, "C-2PC", Tone::Locking),
];

/// A bound, from the closed form and from draws.
struct Bound {
    servers: usize,
    computed: f64,
    drawn: f64,
}

fn bounds(effort: &Effort, seed: u64, commit: impl Fn(usize) -> Commit) -> Vec<Bound> {
    let bound = |servers: usize| {
        let commit = commit(servers);
        Bound {
            servers,
            computed: commit.bound(),
            drawn: commit.simulated(effort.commits, seed + servers as u64),
        }
    };
    (2..=8).map(bound).collect()
}

/// The figure.
pub(super) fn section(effort: &Effort, seed: u64) -> Section {
    let text = include_str!("../../../../../examples/networks/ec2-regions.txt");
    let regions = Network::matrix("ec2-regions", text).expect("a test of it reads it");
    let sites: Vec<usize> = REGIONS
        .iter()
        .map(|name| {
            let mut all = regions.sites().iter();
            all.position(|site| site == name)
                .expect("the file has the paper's regions")
        })
        .collect();
    let far = |a: usize, b: usize| 2.0 * regions.median(a as u16, b as u16).0 as f64 / 1e6;
    let local =
        WAYS.map(|(way, ..)| bounds(effort, seed, |servers| Commit::among(way, servers, LAN)));
    let wide = WAYS.map(|(way, ..)| {
        bounds(effort, seed, |servers| {
            Commit::over(way, &sites[..servers], far)
        })
    });
    let mut comparisons = Vec::new();
    for (servers, decentralized, classic) in published::COMMITS_LAN {
        for ((_, name, _), (found, published)) in
            WAYS.iter().zip(local.iter().zip([decentralized, classic]))
        {
            comparisons.push(
                Comparison::computed(
                    format!("{name}, {servers} servers of one datacenter"),
                    "/s",
                    at(found, servers),
                )
                .beside(published),
            );
        }
    }
    comparisons.push(
        Comparison::computed("D-2PC, Virginia and Oregon", "/s", at(&wide[0], 2))
            .beside(published::COMMITS_OREGON),
    );
    for ((_, name, _), found) in WAYS.iter().zip(&wide) {
        comparisons.push(
            Comparison::computed(format!("{name}, eight regions"), "/s", at(found, 8))
                .beside(published::COMMITS_ALL),
        );
    }
    let all = local.iter().chain(&wide).flatten();
    let off = all.map(|bound| (bound.drawn / bound.computed - 1.0).abs());
    let largest = Comparison::new(
        "drawn bounds beside their closed forms: largest difference",
        "%",
        100.0 * off.fold(0.0, f64::max),
        Origin::Drawn,
    );
    comparisons.push(largest.aimed_at(Target::AtMost(10.0)));
    Section {
        title: "Figure 2: atomic commitment bounds throughput".into(),
        text: vec![
            "Transactions that conflict follow each other, and each holds its items until its servers have \
             agreed: at most 1 / E[delay] commit a second. Classic two-phase commit (C-2PC) waits for two \
             round trips to the slowest server, the decentralized one (D-2PC) for the slowest of all pairs."
                .into(),
            "The paper does not print the trace behind Figure 2a. One lognormal explains its two D-2PC bounds, \
             and predicts the C-2PC ones. Figure 2b has its round trips from examples/networks/\
             ec2-regions.txt. Lines are the closed form, E[max] integrated; points are commits drawn message \
             by message."
                .into(),
        ],
        parameters: vec![
            ("commits drawn for each bound".into(), effort.commits.to_string()),
            (
                "exchange in one datacenter".into(),
                format!("lognormal, median {} ms, sigma {}", LAN.median, LAN.sigma),
            ),
        ],
        charts: vec![
            chart(
                "figure-2a",
                "Bounds within one datacenter (Figure 2a)",
                "servers",
                &local,
                [
                    published::COMMITS_LAN.map(|(servers, d, _)| (servers as f64, d)).to_vec(),
                    published::COMMITS_LAN.map(|(servers, _, c)| (servers as f64, c)).to_vec(),
                ],
            ),
            chart(
                "figure-2b",
                "Bounds between regions of EC2 (Figure 2b)",
                "regions: Virginia, then OR, CA, IR, SP, TO, SI, SY",
                &wide,
                [
                    vec![(2.0, published::COMMITS_OREGON), (8.0, published::COMMITS_ALL)],
                    vec![(8.0, published::COMMITS_ALL)],
                ],
            ),
        ],
        comparisons,
        runs: Vec::new(),
    }
}

fn at(bounds: &[Bound], servers: usize) -> f64 {
    let mut all = bounds.iter();
    let found = all.find(|bound| bound.servers == servers);
    found.expect("there is one from two to eight").computed
}

fn chart(
    name: &str,
    title: &str,
    axis: &str,
    found: &[Vec<Bound>; 2],
    published: [Vec<(f64, f64)>; 2],
) -> Chart {
    let points = |bounds: &[Bound], value: fn(&Bound) -> f64| -> Vec<(f64, f64)> {
        let each = bounds.iter().map(|b| (b.servers as f64, value(b)));
        each.collect()
    };
    // The legend has two columns: one for each protocol.
    let mut series = Vec::new();
    for origin in [Origin::Computed, Origin::Drawn, Origin::Published] {
        for ((_, way, tone), (bounds, published)) in WAYS.iter().zip(found.iter().zip(&published)) {
            series.push(Series {
                name: (*way).into(),
                origin,
                tone: *tone,
                points: match origin {
                    Origin::Computed => points(bounds, |b| b.computed),
                    Origin::Drawn => points(bounds, |b| b.drawn),
                    _ => published.clone(),
                },
            });
        }
    }
    Chart {
        name: name.into(),
        title: title.into(),
        x: Axis::linear(axis),
        y: Axis::logarithmic("commits a second, at most"),
        series,
        levels: Vec::new(),
    }
}
