//! §6.2: the gain of waiting for one replica of three instead of two.
//!
//! The paper computes it from a study of Dynamo-style databases, P. Bailis et al., *Probabilistically Bounded
//! Staleness for Practical Partial Quorums* (VLDB 2012, extended in VLDB Journal 23, 2014). That study fits
//! distributions to the latencies of requests and replies at LinkedIn and Yammer (its Table 3). This module
//! draws from the same fits, with the same arithmetic. No replica of ours is in it: it shows what first-round
//! reads and commits on any replica would save.

use fastrand::Rng;

use super::published;
use crate::figure::{Axis, Chart, Comparison, Origin, Section, Series, Tone};

/// The one-way latency of a message in milliseconds: a mixture of a Pareto and an exponential distribution.
#[derive(Clone, Copy)]
struct Fit {
    /// The share (0 to 1) of the Pareto distribution.
    body: f64,
    /// The minimum and the exponent of the Pareto distribution.
    least: f64,
    exponent: f64,
    /// The rate of the exponential distribution.
    rate: f64,
}

impl Fit {
    fn draw(self, rng: &mut Rng) -> f64 {
        let part = rng.f64();
        // Above 0, so that it has a logarithm.
        let chance = 1.0 - rng.f64();
        if part < self.body {
            self.least * chance.powf(-1.0 / self.exponent)
        } else {
            -chance.ln() / self.rate
        }
    }
}

/// LinkedIn on flash disks, and all messages but writes on spinning disks.
const FLASH: Fit = Fit {
    body: 0.9122,
    least: 0.235,
    exponent: 10.0,
    rate: 1.66,
};
/// LinkedIn, writes to spinning disks.
const DISK: Fit = Fit {
    body: 0.38,
    least: 1.05,
    exponent: 1.51,
    rate: 0.183,
};
/// Yammer, writes.
const YAMMER_WRITES: Fit = Fit {
    body: 0.939,
    least: 3.0,
    exponent: 3.35,
    rate: 0.0028,
};
/// Yammer, all other messages.
const YAMMER: Fit = Fit {
    body: 0.982,
    least: 1.5,
    exponent: 3.8,
    rate: 0.0217,
};

/// A request and its reply. `far` milliseconds are added each way, except for one replica.
struct RoundTrip {
    there: Fit,
    back: Fit,
    far: f64,
}

/// The number of replicas.
const REPLICAS: usize = 3;

/// The quantile of the time until `needed` of three replicas have replied.
fn waited(round_trip: &RoundTrip, needed: usize, quantile: f64, draws: u32, rng: &mut Rng) -> f64 {
    let mut times: Vec<f64> = (0..draws)
        .map(|_| {
            let mut answers: [f64; REPLICAS] = std::array::from_fn(|replica| {
                let distance = if replica == 0 {
                    0.0
                } else {
                    2.0 * round_trip.far
                };
                round_trip.there.draw(rng) + round_trip.back.draw(rng) + distance
            });
            answers.sort_by(f64::total_cmp);
            answers[needed - 1]
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let at = (f64::from(draws) * quantile) as usize;
    times[at.min(times.len() - 1)]
}

/// The section of the report.
pub(super) fn section(draws: u32, seed: u64) -> Section {
    let mut rng = Rng::with_seed(seed);
    let near = |there, back| RoundTrip {
        there,
        back,
        far: 0.0,
    };
    let databases = [
        (
            "LinkedIn, spinning disks",
            [near(DISK, FLASH), near(FLASH, FLASH)],
            published::LINKEDIN,
        ),
        (
            "Yammer",
            [near(YAMMER_WRITES, YAMMER), near(YAMMER, YAMMER)],
            published::YAMMER,
        ),
    ];
    let mut comparisons = Vec::new();
    let mut series = Vec::new();
    for (name, round_trips, printed) in databases {
        for ((round_trip, (two, one)), what) in
            round_trips.iter().zip(printed).zip(["writes", "reads"])
        {
            for (needed, published) in [(2, two), (1, one)] {
                let found = waited(round_trip, needed, 0.999, draws, &mut rng);
                let what = format!("{name}, {what}: waiting for {needed} of three, 99.9%");
                comparisons
                    .push(Comparison::new(what, "ms", found, Origin::Drawn).beside(published));
            }
        }
        let tones = match name {
            "Yammer" => [(2, Tone::LockingShort), (1, Tone::Locking)],
            _ => [(2, Tone::AvoidingHybrid), (1, Tone::Avoiding)],
        };
        for (needed, tone) in tones {
            let quantiles = [0.5, 0.9, 0.99, 0.999];
            let points = quantiles.map(|quantile| {
                let tail = 1.0 / (1.0 - quantile);
                (
                    tail,
                    waited(&round_trips[0], needed, quantile, draws, &mut rng),
                )
            });
            series.push(Series {
                name: format!("{name}, {needed} of three"),
                origin: Origin::Drawn,
                tone,
                points: points.to_vec(),
            });
        }
    }
    let wide = RoundTrip {
        there: DISK,
        back: FLASH,
        far: 75.0,
    };
    let mut gained = |quantile| {
        let mut of = |needed| waited(&wide, needed, quantile, draws, &mut rng);
        of(2) - of(1)
    };
    let most = [0.5, 0.99].map(&mut gained).into_iter().fold(0.0, f64::max);
    comparisons.push(
        Comparison::new(
            "75 ms one way: gain of waiting for the near replica only",
            "ms",
            most,
            Origin::Drawn,
        )
        .beside(published::WIDE),
    );
    Section {
        title: "§6.2: quorums".into(),
        text: vec![
            "The gain of first-round reads and commits on any one replica of three over waiting for two, \
             drawn from the distributions that Bailis et al. (Probabilistically Bounded Staleness, VLDB \
             2012) fit to latencies of LinkedIn's and Yammer's databases. The paper computes the same; no \
             replica of ours is in it."
                .into(),
        ],
        parameters: vec![("draws of each".into(), draws.to_string())],
        charts: vec![Chart {
            name: "quorums".into(),
            title: "A write waits for one replica of three, or two (§6.2)".into(),
            x: Axis::logarithmic("one in so many takes longer"),
            y: Axis::logarithmic("milliseconds"),
            series,
            levels: Vec::new(),
        }],
        comparisons,
        runs: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fits are those behind the paper's numbers: within a twentieth, except for the heavy tails.
    #[test]
    fn the_papers_latencies_are_reproduced() {
        let found = section(400_000, 1);
        for comparison in &found.comparisons {
            let ratio = comparison.ratio().expect("all are published");
            let heavy = comparison.what.starts_with("Yammer") && comparison.what.contains("for 2");
            let within = if heavy { 0.25 } else { 0.06 };
            assert!((ratio - 1.0).abs() < within, "{}: {ratio}", comparison.what);
        }
    }
}
