//! A clock that measures each step.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use anabranch_sim::cost::{Meter, StepKind};
use rustix::time::{ClockId, clock_gettime};

/// The times of steps in nanoseconds, by kind.
pub(super) type Times = BTreeMap<StepKind, Vec<u32>>;

/// The most times kept of a kind.
const KEPT_MAX: usize = 400_000;

/// The processor time of this thread in nanoseconds. It does not advance while another thread has the core.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Measures the time of each step.
pub(super) struct Clock {
    began: u64,
    /// The time that reading the clock takes, in nanoseconds.
    own: u64,
    times: Rc<RefCell<Times>>,
}

impl Clock {
    /// Makes a clock that adds its times to `times`.
    pub(super) fn new(times: Rc<RefCell<Times>>) -> Clock {
        Clock {
            began: now(),
            own: own_nanos(),
            times,
        }
    }
}

/// The time between two readings of the clock, in nanoseconds.
pub(super) fn own_nanos() -> u64 {
    let mut least = u64::MAX;
    for _ in 0..1_000 {
        let began = now();
        least = least.min(now() - began);
    }
    least
}

impl Meter for Clock {
    fn begin(&mut self) {
        self.began = now();
    }

    fn end(&mut self, kind: StepKind) {
        let nanos = (now() - self.began).saturating_sub(self.own).max(1);
        let mut times = self.times.borrow_mut();
        let times = times.entry(kind).or_default();
        if times.len() < KEPT_MAX {
            times.push(u32::try_from(nanos).unwrap_or(u32::MAX));
        }
    }
}

/// The mean without the slowest hundredth, whose caches were cold after another thread had the core.
pub(super) fn trimmed_mean(times: &mut [u32]) -> f64 {
    times.sort_unstable();
    let kept = (times.len() * 99).div_ceil(100);
    let sum: u64 = times[..kept].iter().map(|nanos| u64::from(*nanos)).sum();
    sum as f64 / kept.max(1) as f64
}

/// The lower quartile: load by others only adds to a time.
pub(super) fn lower_quartile(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 4]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_was_interrupted_does_not_count() {
        let mut times = vec![100; 99];
        times.push(4_000_000);
        assert_eq!(trimmed_mean(&mut times), 100.0);
        assert_eq!(lower_quartile(vec![9.0, 2.0, 3.0, 1.0, 8.0]), 2.0);
    }
}
