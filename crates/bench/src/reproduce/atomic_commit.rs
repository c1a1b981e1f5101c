//! Atomic commitment bounds the throughput of transactions that conflict
//! (coordination-avoidance.txt §2, Figure 2).
//!
//! Transactions that conflict on an item follow each other, and each holds the item until its servers have
//! agreed to commit. So under any protocol they commit at most `1 / E[delay of atomic commitment]` times a
//! second.
//!
//! * **Classic two-phase commit** (C-2PC): the coordinator sends prepare to each server, then commit; two
//!   exchanges with each server, with all servers in parallel. The delay is the largest, over the N servers,
//!   of the sum of two exchanges.
//! * **Decentralized two-phase commit** (D-2PC): every server sends its vote to every other one, one exchange
//!   each. The delay is the largest of N (N − 1) of them.
//!
//! Both readings follow from the paper's printed numbers: 83 ms a commit for D-2PC between Virginia
//! and Oregon is one round trip; and one lognormal ([`LAN`]) fitted to the two D-2PC bounds of
//! Figure 2a predicts its two C-2PC bounds within 12%.
//!
//! Each bound is computed in two ways that share only the distributions: from the closed form,
//! `E[max] = ∫ 1 − Π Fᵢ(t) dt`, integrated numerically; and by drawing every message of many commits.

use fastrand::Rng;

/// The time of one exchange between two servers: a lognormal distribution, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// The median, in milliseconds.
    pub median: f64,
    /// The standard deviation of the logarithm.
    pub sigma: f64,
}

/// The exchange between two servers of one datacenter that explains Figure 2a. The paper does not print the
/// trace behind that figure; this is the one lognormal whose D-2PC bounds are 1,125/s for two servers and
/// 173/s for eight. Its tail is as long as that of clouds of the time.
pub const LAN: Exchange = Exchange {
    median: 0.2237,
    sigma: 1.3257,
};

/// The spread of exchanges over a wide-area network. The paper gives means only; 5% is common for such links.
pub const WAN_SIGMA: f64 = 0.05;

/// A protocol of atomic commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commitment {
    /// Over a coordinator.
    Classic,
    /// Every server with every other one.
    Decentralized,
}

impl Exchange {
    /// The probability that an exchange takes at most `millis`.
    fn distribution(&self, millis: f64) -> f64 {
        if millis <= 0.0 {
            return 0.0;
        }
        standard_normal((millis / self.median).ln() / self.sigma)
    }

    /// The probability that two exchanges in a row take at most `millis`.
    fn distribution_twice(&self, millis: f64) -> f64 {
        // Integrates over the first exchange in units of sigma: the density is negligible beyond ±6.
        const STEPS: i32 = 120;
        let width = 12.0 / f64::from(STEPS);
        let term = |step: i32| {
            let z = -6.0 + width * (f64::from(step) + 0.5);
            let first = self.median * (self.sigma * z).exp();
            let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
            density * width * self.distribution(millis - first)
        };
        (0..STEPS).map(term).sum()
    }

    fn draw(&self, random: &mut Rng) -> f64 {
        // Box and Muller: two uniform numbers give a normal one.
        let (u, v) = (1.0 - random.f64(), random.f64());
        let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        self.median * (self.sigma * normal).exp()
    }
}

/// The exchanges that one commit waits for: `exchanges` in parallel (for C-2PC each twice in a row).
#[derive(Clone, Debug)]
pub struct Commit {
    /// The protocol.
    pub commitment: Commitment,
    /// The exchanges: for C-2PC one for each server, for D-2PC one for each ordered pair.
    pub exchanges: Vec<Exchange>,
}

impl Commit {
    /// A commit among `servers` servers with equal exchanges.
    pub fn among(commitment: Commitment, servers: usize, exchange: Exchange) -> Commit {
        let count = match commitment {
            Commitment::Classic => servers,
            Commitment::Decentralized => servers * servers.saturating_sub(1),
        };
        Commit {
            commitment,
            exchanges: vec![exchange; count],
        }
    }

    /// A commit among the given sites, the first of which coordinates; `round_trip` gives the
    /// milliseconds between two of them.
    pub fn over(
        commitment: Commitment,
        sites: &[usize],
        round_trip: impl Fn(usize, usize) -> f64,
    ) -> Commit {
        let exchange = |a: usize, b: usize| Exchange {
            median: round_trip(a, b),
            sigma: WAN_SIGMA,
        };
        let exchanges = match commitment {
            Commitment::Classic => {
                let others = sites[1..].iter();
                others.map(|&other| exchange(sites[0], other)).collect()
            }
            Commitment::Decentralized => {
                let pairs = sites
                    .iter()
                    .flat_map(|&a| sites.iter().map(move |&b| (a, b)));
                let distinct = pairs.filter(|(a, b)| a != b);
                distinct.map(|(a, b)| exchange(a, b)).collect()
            }
        };
        Commit {
            commitment,
            exchanges,
        }
    }

    /// The most commits a second of transactions that conflict, by the closed form.
    pub fn bound(&self) -> f64 {
        // Beyond `end` every distribution is negligible. Steps are equal factors, since the tail is long.
        const STEPS: u32 = 4_000;
        let longest = self.exchanges.iter().map(|e| e.median);
        let longest = longest.fold(0.0, f64::max);
        let sigma = self.exchanges.iter().map(|e| e.sigma).fold(0.0, f64::max);
        let (start, end) = (longest * 1e-3, 2.0 * longest * (8.0 * sigma).exp());
        let factor = (end / start).powf(1.0 / f64::from(STEPS));
        let mut expected = start;
        let mut at = start;
        for _ in 0..STEPS {
            let next = at * factor;
            expected += (next - at) * (1.0 - self.distribution((at + next) / 2.0));
            at = next;
        }
        1_000.0 / expected
    }

    /// The probability that the commit takes at most `millis`.
    fn distribution(&self, millis: f64) -> f64 {
        let each = |exchange: &Exchange| match self.commitment {
            Commitment::Classic => exchange.distribution_twice(millis),
            Commitment::Decentralized => exchange.distribution(millis),
        };
        // Servers of one datacenter have equal exchanges: one factor, to the power of their number.
        let first = self.exchanges[0];
        if self.exchanges.iter().all(|exchange| *exchange == first) {
            return each(&first).powi(self.exchanges.len() as i32);
        }
        self.exchanges.iter().map(each).product()
    }

    /// The same bound by drawing each exchange of `commits` commits.
    pub fn simulated(&self, commits: u32, seed: u64) -> f64 {
        let mut random = Rng::with_seed(seed);
        let mut millis = 0.0;
        for _ in 0..commits {
            let mut longest: f64 = 0.0;
            for exchange in &self.exchanges {
                let mut taken = exchange.draw(&mut random);
                if self.commitment == Commitment::Classic {
                    taken += exchange.draw(&mut random);
                }
                longest = longest.max(taken);
            }
            millis += longest;
        }
        f64::from(commits) * 1_000.0 / millis
    }
}

/// The standard normal distribution, to seven digits (Abramowitz and Stegun, 26.2.17).
fn standard_normal(z: f64) -> f64 {
    let x = z.abs();
    let t = 1.0 / (1.0 + 0.231_641_9 * x);
    let series = t
        * (0.319_381_530
            + t * (-0.356_563_782
                + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * series;
    if z >= 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, share: f64) -> bool {
        (value / expected - 1.0).abs() <= share
    }

    /// Figure 2a's printed numbers: the fit to two of them, and its predictions of the others.
    #[test]
    fn one_distribution_explains_the_local_bounds() {
        use Commitment::{Classic, Decentralized};
        let bound = |commitment, servers| Commit::among(commitment, servers, LAN).bound();
        assert!(near(bound(Decentralized, 2), 1_125.0, 0.01));
        assert!(near(bound(Decentralized, 8), 173.0, 0.01));
        assert!(near(bound(Classic, 2), 668.0, 0.12));
        assert!(near(bound(Classic, 8), 321.0, 0.12));
    }

    #[test]
    fn drawing_each_message_gives_the_closed_form() {
        for commitment in [Commitment::Classic, Commitment::Decentralized] {
            for servers in [2, 5, 8] {
                let commit = Commit::among(commitment, servers, LAN);
                let (bound, drawn) = (commit.bound(), commit.simulated(100_000, 1));
                assert!(near(drawn, bound, 0.03), "{commit:?}: {drawn} of {bound}");
            }
        }
    }

    #[test]
    fn far_sites_wait_for_the_farthest() {
        // Round trips of 80, 100 and 300 ms; the first site coordinates.
        let round_trip = |a: usize, b: usize| match (a.min(b), a.max(b)) {
            (0, 1) => 80.0,
            (0, 2) => 100.0,
            _ => 300.0,
        };
        let over = |commitment| Commit::over(commitment, &[0, 1, 2], round_trip).bound();
        assert!(near(over(Commitment::Classic), 1_000.0 / 200.0, 0.02));
        assert!(near(over(Commitment::Decentralized), 1_000.0 / 308.0, 0.02));
    }

    #[test]
    fn the_normal_distribution_has_its_known_values() {
        for (z, expected) in [(0.0, 0.5), (1.0, 0.841_344_7), (-1.96, 0.024_997_9)] {
            assert!((standard_normal(z) - expected).abs() < 1e-6, "{z}");
        }
    }
}
