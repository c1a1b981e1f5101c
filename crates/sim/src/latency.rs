//! The latencies of messages.
//!
//! A latency is the median of a pair of sites times a random spread. The spread has the shape of measured
//! networks, a lognormal with a heavier tail. It is a table of quantiles, which gives the same numbers
//! on every machine; `exp` and `ln` need not.

use std::collections::BTreeSet;

use anabranch_types::{SplitMix64, Ticks};

/// Thousandths of the median at the quantiles 0/32, 1/32, …, 32/32: a lognormal with sigma 0.25 up
/// to the last sixteenth, and a tail to six times the median beyond it.
const SPREAD: [u32; 33] = [
    540, 628, 682, 720, 750, 777, 801, 823, 845, 865, 885, 904, 924, 943, 962, 981, 1_000, 1_020,
    1_040, 1_061, 1_083, 1_106, 1_130, 1_156, 1_184, 1_215, 1_249, 1_288, 1_334, 1_390, 1_467,
    1_800, 6_000,
];

/// The median one-way latency within a local network, in nanoseconds.
///
/// Source: about 100 microseconds there and back between two machines of one zone over kernel
/// TCP, as `ping` and common benchmarks of cloud networks show. The spread is [`SPREAD`].
const LAN_NANOS: u64 = 50_000;

/// A network: the median one-way latency between each pair of nodes.
#[derive(Clone, Debug)]
pub struct Network {
    /// Its name in reports.
    name: String,
    /// The sites' names. Node `n` is at site `n` mod their number.
    sites: Vec<String>,
    /// In nanoseconds, from site to site.
    one_way: Vec<Vec<u64>>,
    /// The text of the matrix, if there is one.
    source: Option<String>,
    /// How long a link keeps its latency; `None`: each message draws its own.
    latency_period: Option<Ticks>,
    /// Whether every message takes the median.
    steady: bool,
}

/// The reason why a matrix of latencies is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

impl std::fmt::Display for MatrixError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for MatrixError {}

impl Network {
    /// One local network.
    pub fn lan() -> Network {
        Network {
            name: "lan".to_owned(),
            sites: vec!["lan".to_owned()],
            one_way: vec![vec![LAN_NANOS]],
            source: None,
            latency_period: None,
            steady: false,
        }
    }

    /// Sites far from each other, from a matrix of round-trip times in milliseconds:
    ///
    /// ```text
    /// # a comment
    /// sites     virginia  oregon
    /// virginia  0.5       70
    /// oregon    70        0.5
    /// ```
    ///
    /// A message takes half of the round-trip time in its sender's row. Where two measurements of a pair differ, each
    /// direction has its own.
    ///
    /// # Errors
    /// The first malformed line.
    pub fn matrix(name: &str, text: &str) -> Result<Network, MatrixError> {
        let mut sites: Vec<String> = Vec::new();
        let mut one_way: Vec<Vec<u64>> = Vec::new();
        let mut last = 1;
        for (index, line) in text.lines().enumerate() {
            last = index + 1;
            let fail = |reason: String| MatrixError { line: last, reason };
            let mut words = line
                .split('#')
                .next()
                .unwrap_or_default()
                .split_whitespace();
            let Some(head) = words.next() else { continue };
            if sites.is_empty() {
                if head != "sites" {
                    return Err(fail(format!(
                        "`sites` and their names come first, not `{head}`"
                    )));
                }
                sites = words.map(str::to_owned).collect();
                if sites.is_empty() {
                    return Err(fail("there is no site".to_owned()));
                }
                let mut known = BTreeSet::new();
                if let Some(twice) = sites.iter().find(|site| !known.insert(*site)) {
                    return Err(fail(format!("`{twice}` is there twice")));
                }
                continue;
            }
            let Some(expected) = sites.get(one_way.len()) else {
                return Err(fail(format!("there is no site `{head}` in the first line")));
            };
            if head != expected {
                return Err(fail(format!(
                    "the row of `{expected}` comes here, not `{head}`"
                )));
            }
            let row = words
                .map(|word| {
                    round_trip(word).ok_or_else(|| {
                        fail(format!(
                            "`{word}` is no round-trip time in milliseconds (above 0, below 100000)"
                        ))
                    })
                })
                .collect::<Result<Vec<u64>, MatrixError>>()?;
            if row.len() != sites.len() {
                return Err(fail(format!(
                    "{} sites, and {} times",
                    sites.len(),
                    row.len()
                )));
            }
            one_way.push(row);
        }
        if sites.is_empty() || one_way.len() < sites.len() {
            return Err(MatrixError {
                line: last,
                reason: "it ends before every site has its row".to_owned(),
            });
        }
        Ok(Network {
            name: name.to_owned(),
            sites,
            one_way,
            source: Some(text.to_owned()),
            latency_period: None,
            steady: false,
        })
    }

    /// The same network with latencies that stay constant on each link for a period of this length.
    ///
    /// Without periods each message draws its own latency. That is the harder test of a protocol, but it is not a
    /// network under load: a link keeps the order, so on a busy link every message is as late as the latest before it.
    ///
    /// In a cloud's network the causes of high latency last: a queue in a switch, or a virtual machine that waits for
    /// its processor. A hypervisor runs another virtual machine for at least a millisecond (Xen's
    /// `sched_ratelimit_us`, 1,000 by default).
    pub fn with_latency_periods(mut self, latency_period: Ticks) -> Network {
        self.latency_period = (latency_period > Ticks(0)).then_some(latency_period);
        self
    }

    /// The same network without a spread: every message takes the median of its link.
    pub fn without_spread(mut self) -> Network {
        self.steady = true;
        self
    }

    /// Whether every message takes the median of its link.
    pub(crate) fn is_steady(&self) -> bool {
        self.steady
    }

    /// The length of the periods with constant latency, if there are any.
    pub(crate) fn latency_period(&self) -> Option<Ticks> {
        self.latency_period
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text of the matrix; `None` for a local network.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// The names of its sites.
    pub fn sites(&self) -> &[String] {
        &self.sites
    }

    /// A node's site.
    pub fn site(&self, node: u16) -> &str {
        &self.sites[usize::from(node) % self.sites.len()]
    }

    /// The median one-way latency between two nodes.
    pub fn median(&self, from: u16, to: u16) -> Ticks {
        let sites = self.sites.len();
        Ticks(self.one_way[usize::from(from) % sites][usize::from(to) % sites])
    }

    /// The longest median one-way latency among `nodes` nodes.
    pub fn longest(&self, nodes: u16) -> Ticks {
        let each = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
        let longest = each.filter(|(from, to)| from != to || nodes == 1);
        longest
            .map(|(from, to)| self.median(from, to))
            .max()
            .unwrap_or_default()
    }
}

/// Parses a round-trip time in milliseconds as a one-way latency in nanoseconds.
fn round_trip(word: &str) -> Option<u64> {
    let millis: f64 = word.parse().ok()?;
    (millis > 0.0 && millis < 100_000.0).then_some((millis * 500_000.0) as u64)
}

/// Draws a latency, given the median.
#[inline]
pub fn sample(median: Ticks, random: &mut SplitMix64) -> Ticks {
    let drawn = random.bits();
    let at = (drawn >> 59) as usize;
    let within = (drawn >> 32) & 0x7ff_ffff;
    let (low, high) = (u64::from(SPREAD[at]), u64::from(SPREAD[at + 1]));
    let thousandths = low + (((high - low) * within) >> 27);
    Ticks(median.0 * thousandths / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_their_median_and_their_tail() {
        let mut random = SplitMix64::new(7);
        let mut drawn: Vec<u64> = (0..10_000)
            .map(|_| sample(Ticks(50_000), &mut random).0)
            .collect();
        drawn.sort_unstable();
        assert!((48_500..51_500).contains(&drawn[5_000]), "{}", drawn[5_000]);
        assert!(drawn[0] >= 27_000 && drawn[9_999] <= 300_000);
        assert!(drawn[9_900] > 120_000, "{}", drawn[9_900]);
    }

    /// Some numbers of each file; and both directions of a pair are equal.
    #[test]
    fn the_examples_agree_with_their_sources() {
        for (name, text, sites, some) in [
            (
                "conveyor-belt",
                include_str!("../../../examples/networks/conveyor-belt.txt"),
                5,
                &[
                    (0, 1, 253.0),
                    (0, 2, 92.0),
                    (0, 3, 193.0),
                    (0, 4, 314.0),
                    (1, 2, 153.0),
                    (1, 3, 282.0),
                    (1, 4, 188.0),
                    (2, 3, 145.0),
                    (2, 4, 229.0),
                    (3, 4, 322.0),
                    (4, 4, 20.0),
                ][..],
            ),
            (
                "ec2-regions",
                include_str!("../../../examples/networks/ec2-regions.txt"),
                8,
                &[(0, 2, 87.0), (5, 7, 328.1), (0, 6, 230.0)],
            ),
        ] {
            let network = Network::matrix(name, text).unwrap();
            assert_eq!(network.sites().len(), sites, "{name}");
            for (a, b) in (0..sites as u16).flat_map(|a| (0..a).map(move |b| (a, b))) {
                assert_eq!(network.median(a, b), network.median(b, a), "{name} {a} {b}");
                assert!(
                    network.median(a, b) > network.median(a, a),
                    "{name} {a} {b}"
                );
            }
            for &(a, b, millis) in some {
                let one_way = Ticks((millis * 500_000.0) as u64);
                assert_eq!(network.median(a, b), one_way, "{name} {a} {b}");
            }
        }
    }

    #[test]
    fn a_matrix_is_parsed_and_errors_name_the_line() {
        let text = "# rtt\nsites a b\na 1 80\nb 80 0.5\n";
        let network = Network::matrix("two", text).unwrap();
        assert_eq!(network.median(0, 1), Ticks::from_millis(40));
        assert_eq!(network.median(3, 1), Ticks::from_micros(250));
        assert_eq!(network.site(2), "a");
        for (text, line) in [
            ("", 1),
            ("a 1 2", 1),
            ("sites a b\na 1 2\n", 2),
            ("sites a b\na 1 2\nc 1 2", 3),
            ("sites a b\na 1\nb 1 2", 2),
            ("sites a b\na 1 0\nb 1 2", 2),
            ("sites a b\na 1 x\nb 1 2", 2),
            ("sites a\na 1\nb 1", 3),
            ("sites a b a\na 1 2 3\nb 1 2 3\na 1 2 3", 1),
        ] {
            assert_eq!(
                Network::matrix("bad", text).unwrap_err().line,
                line,
                "{text}"
            );
        }
    }
}
