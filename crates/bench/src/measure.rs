//! Counts and latencies of a closed loop of clients.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Counts of one run, without its warm-up.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Latencies of committed transactions, in microseconds, as their clients saw them.
    latencies: Histogram<u64>,
    /// Committed transactions, by procedure.
    commits: BTreeMap<&'static str, u64>,
    /// Transactions or attempts that did not commit, by reason.
    aborts: BTreeMap<String, u64>,
    /// How long the run was measured.
    elapsed: Duration,
}

impl Default for Measurement {
    fn default() -> Self {
        Measurement {
            latencies: Histogram::new(3).expect("three significant digits are supported"),
            commits: BTreeMap::new(),
            aborts: BTreeMap::new(),
            elapsed: Duration::ZERO,
        }
    }
}

impl Measurement {
    /// Counts a committed transaction.
    pub fn commit(&mut self, procedure: &'static str, latency: Duration) {
        *self.commits.entry(procedure).or_default() += 1;
        // The histogram grows, so every value is in its range.
        self.latencies
            .record(latency.as_micros() as u64)
            .expect("a growing histogram takes all");
    }

    /// Counts `count` transactions or attempts that did not commit.
    pub fn abort(&mut self, reason: &str, count: u64) {
        if count > 0 {
            *self.aborts.entry(reason.to_owned()).or_default() += count;
        }
    }

    /// Sets how long the run was measured.
    pub fn measured_for(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
    }

    /// Adds what another thread measured at the same time.
    pub fn add(&mut self, other: &Measurement) {
        // Both histograms grow, so every value is in their range.
        self.latencies
            .add(&other.latencies)
            .expect("histograms of one precision add up");
        for (procedure, count) in &other.commits {
            *self.commits.entry(procedure).or_default() += count;
        }
        for (reason, count) in &other.aborts {
            *self.aborts.entry(reason.clone()).or_default() += count;
        }
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    /// Committed transactions in all.
    pub fn committed(&self) -> u64 {
        self.commits.values().sum()
    }

    /// Committed transactions of one procedure.
    pub fn committed_of(&self, procedure: &str) -> u64 {
        self.commits.get(procedure).copied().unwrap_or(0)
    }

    /// How long the run was measured.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Transactions or attempts that did not commit, by reason.
    pub fn aborts(&self) -> &BTreeMap<String, u64> {
        &self.aborts
    }

    /// Mean, median and 99th percentile of the latency, in milliseconds.
    pub fn latency_ms(&self) -> (f64, f64, f64) {
        let quantile = |q| self.latencies.value_at_quantile(q) as f64 / 1_000.0;
        (
            self.latencies.mean() / 1_000.0,
            quantile(0.5),
            quantile(0.99),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_of_any_length_are_kept_whole() {
        let mut measurement = Measurement::default();
        for millis in [1, 40, 5_000] {
            measurement.commit("p", Duration::from_millis(millis));
        }
        let (mean, p50, p99) = measurement.latency_ms();
        assert!((mean - 5_041.0 / 3.0).abs() < 5.0, "{mean}");
        assert!((p50 - 40.0).abs() < 0.1, "{p50}");
        assert!((p99 - 5_000.0).abs() < 5.0, "{p99}");
    }
}
