//! Backoff: the pause before an aborted attempt is retried.

use anabranch_types::Ticks;
use anabranch_types::random::mix;

/// Exponential backoff with jitter. The jitter is a hash of the call, so that a run is repeatable and two
/// transactions that conflicted do not retry in step.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The upper bound of the first pause.
    pub first: Ticks,
    /// The upper bound of all pauses.
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
    /// The pause before retry number `attempt` (from 1) of the call `identity`: between half of the doubled
    /// bound and all of it.
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
