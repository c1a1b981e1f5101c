//! YCSB's item generators (B. F. Cooper et al., *Benchmarking Cloud Serving Systems with YCSB*, SoCC 2010, §5.2),
//! with the same results on every machine.
//!
//! A Zipfian rank is drawn as by J. Gray et al., *Quickly Generating Billion-Record Synthetic Databases* (SIGMOD
//! 1994): one uniform number and one power, for any number of items. Mathematical libraries round powers of fractions
//! differently, so powers are computed by multiplications and square roots ([`power`]), which IEEE 754 rounds
//! identically everywhere.
//!
//! A departure: YCSB's scrambled generator draws one of ten thousand million ranks, whatever the number of items, and
//! scatters these; this one draws as many ranks as there are items. The most frequent of a million items gets 6.5% of
//! the accesses here, and 3.8% there.

use fastrand::Rng;

/// The distribution of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distribution {
    /// Uniform.
    Uniform,
    /// Zipf's law, with the frequent items scattered over the keys.
    Zipfian,
    /// Zipf's law, with the newest items drawn most often.
    Latest,
}

impl Distribution {
    /// All of them.
    pub const ALL: [Distribution; 3] = [
        Distribution::Uniform,
        Distribution::Zipfian,
        Distribution::Latest,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipfian => "zipfian",
            Distribution::Latest => "latest",
        }
    }

    /// The distribution of this name.
    pub fn by_name(name: &str) -> Option<Distribution> {
        Distribution::ALL.into_iter().find(|d| d.name() == name)
    }
}

/// Ranks by Zipf's law: rank *r*, from 0, with a frequency of (*r* + 1) to the power of minus *constant*.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Zipf {
    ranks: u64,
    constant: f64,
    /// The sum of all frequencies, those of the first two alone, and what Gray et al. call eta.
    zeta: f64,
    zeta_of_two: f64,
    eta: f64,
}

impl Zipf {
    /// A generator for this many ranks. The constant lies between 0 and 1, both excluded.
    pub(super) fn new(ranks: u64, constant: f64) -> Zipf {
        let mut zipf = Zipf {
            ranks: 0,
            constant,
            zeta: 0.0,
            zeta_of_two: 1.0 + frequency(1, constant),
            eta: 0.0,
        };
        zipf.grow_to(ranks.max(1));
        zipf
    }

    /// Raises the number of ranks to at least this many.
    pub(super) fn grow_to(&mut self, ranks: u64) {
        if ranks <= self.ranks {
            return;
        }
        let more = (self.ranks..ranks).map(|rank| frequency(rank, self.constant));
        self.zeta += more.sum::<f64>();
        self.ranks = ranks;
        let most = power((2.0 / ranks as f64).min(1.0), 1.0 - self.constant);
        let rest = 1.0 - self.zeta_of_two / self.zeta;
        self.eta = if rest > 0.0 { (1.0 - most) / rest } else { 0.0 };
    }

    pub(super) fn rank(&self, rng: &mut Rng) -> u64 {
        let drawn = rng.f64();
        let reached = drawn * self.zeta;
        if reached < 1.0 {
            return 0;
        }
        if reached < self.zeta_of_two {
            return 1.min(self.ranks - 1);
        }
        let base = self.eta * drawn - self.eta + 1.0;
        let share = power(base.clamp(0.0, 1.0), 1.0 / (1.0 - self.constant));
        ((self.ranks as f64 * share) as u64).min(self.ranks - 1)
    }

    /// The share of the most frequent rank.
    #[cfg(test)]
    fn most(&self) -> f64 {
        1.0 / self.zeta
    }
}

/// The frequency of a rank relative to the first.
fn frequency(rank: u64, constant: f64) -> f64 {
    1.0 / power((rank + 1) as f64, constant)
}

/// The number of fractional bits of an exponent.
const EXPONENT_BITS: u32 = 24;

/// `base` to the power of `exponent`, both not negative; the exponent is rounded up to a multiple of 2^-24. Uses
/// multiplications and square roots only.
fn power(base: f64, exponent: f64) -> f64 {
    let parts = (exponent * f64::from(1u32 << EXPONENT_BITS)).round() as u64;
    let mut result = 1.0;
    let (mut whole, mut square) = (parts >> EXPONENT_BITS, base);
    while whole > 0 {
        if whole & 1 == 1 {
            result *= square;
        }
        square *= square;
        whole >>= 1;
    }
    let mut fraction = parts & ((1 << EXPONENT_BITS) - 1);
    let (mut bit, mut root) = (1 << EXPONENT_BITS, base);
    while fraction > 0 {
        bit >>= 1;
        root = root.sqrt();
        if fraction & bit > 0 {
            result *= root;
            fraction -= bit;
        }
    }
    result
}

/// Scatters ranks over `items` keys as YCSB does, by a hash (FNV-1a of 64 bits), so that two ranks may share a key.
pub(super) fn scattered(rank: u64, items: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in rank.to_le_bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    hash % items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_powers() {
        let cases: [(f64, f64); 6] = [
            (7.0, 0.0),
            (7.0, 0.99),
            (0.3, 100.0),
            (1_000_000.0, 0.99),
            (0.001, 0.75),
            (1.0, 0.5),
        ];
        for (base, exponent) in cases {
            let (found, right) = (power(base, exponent), base.powf(exponent));
            assert!(
                (found / right - 1.0).abs() < 1e-6,
                "{base}^{exponent}: {found}"
            );
        }
    }

    /// Each rank comes as often as the law says; the first two are exact, the others nearly so, which is
    /// all that Gray et al. promise.
    #[test]
    fn ranks_follow_zipfs_law() {
        let (ranks, draws) = (1_000, 400_000);
        for constant in [0.5, 0.8, 0.99] {
            let zipf = Zipf::new(ranks, constant);
            let mut rng = Rng::with_seed(1);
            let mut drawn = vec![0_u32; ranks as usize];
            for _ in 0..draws {
                drawn[zipf.rank(&mut rng) as usize] += 1;
            }
            for rank in [0, 1, 9, 99] {
                let right = f64::from(draws) * frequency(rank, constant) * zipf.most();
                let found = f64::from(drawn[rank as usize]);
                let off = found / right - 1.0;
                assert!(
                    off.abs() < 0.15,
                    "{constant}, rank {rank}: {found}, not {right}"
                );
            }
            assert!(drawn[990..].iter().sum::<u32>() > 0, "{constant}");
        }
    }

    #[test]
    fn what_grows_is_what_was_made_large() {
        let mut grown = Zipf::new(10, 0.99);
        grown.grow_to(1_000);
        let made = Zipf::new(1_000, 0.99);
        assert!((grown.zeta / made.zeta - 1.0).abs() < 1e-12);
        assert!((grown.eta / made.eta - 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_item_can_be_drawn_from() {
        let zipf = Zipf::new(1, 0.99);
        let mut rng = Rng::with_seed(1);
        assert!((0..100).all(|_| zipf.rank(&mut rng) == 0));
        assert_eq!(scattered(77, 1), 0);
    }

    /// By FNV-1a of the rank's eight bytes, the lowest first.
    #[test]
    fn frequent_items_lie_apart() {
        let keys = [0, 1, 2, 3].map(|rank| scattered(rank, 1_000_000));
        assert_eq!(keys, [174_405, 584_996, 353_223, 763_814]);
    }

    /// Guards reproducibility: if this fails on some machine, its floating-point arithmetic differs.
    #[test]
    fn draws_are_the_same_on_every_machine() {
        let zipf = Zipf::new(1_000_000, 0.99);
        let mut rng = Rng::with_seed(7);
        let ranks: Vec<u64> = (0..8).map(|_| zipf.rank(&mut rng)).collect();
        assert_eq!(ranks, [43_399, 13, 19_938, 652, 2, 5, 56_077, 1]);
        assert_eq!((zipf.most() * 1e6).round(), 64_969.0);
    }
}
