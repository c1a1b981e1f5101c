//! How long to wait before an aborted attempt is made again.

use anabranch_types::Ticks;
use anabranch_types::random::mix;

/// Exponential backoff with jitter. The jitter is a hash of what is retried, so that a run is
/// repeatable and two transactions that met do not meet again in step.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The longest first wait.
    pub first: Ticks,
    /// No wait is longer.
    pub longest: Ticks,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            first: Ticks::from_micros(50),
            longest: Ticks::from_millis(20),
        }
    }
}

impl Backoff {
    /// The wait before attempt number `attempt` (the first retry is 1) of what `identity` names:
    /// at least half of the doubled bound, at most all of it.
    pub fn wait(&self, identity: u64, attempt: u32) -> Ticks {
        let bound = self
            .first
            .0
            .saturating_mul(1u64 << attempt.saturating_sub(1).min(30))
            .min(self.longest.0);
        let spread = mix(identity ^ (u64::from(attempt) << 48));
        Ticks(bound / 2 + spread % (bound / 2 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_differ_between_transactions() {
        let backoff = Backoff::default();
        for attempt in 1..40 {
            let bound = (50_000u64 << (attempt - 1).min(30)).min(20_000_000);
            for identity in 0..100 {
                let wait = backoff.wait(identity, attempt).0;
                assert!(wait >= bound / 2 && wait <= bound, "{wait} of {bound}");
            }
        }
        assert_ne!(backoff.wait(1, 5), backoff.wait(2, 5));
    }
}
