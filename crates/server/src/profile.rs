//! Where nodes spend their time, sampled from another thread while they run at full speed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_types::{Activity, ActivityProbe};

/// How often nodes were sampled in each activity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Samples by activity, those of all nodes together.
    pub samples: BTreeMap<Activity, u64>,
}

impl Profile {
    /// The share (0 to 1) of this activity in the samples that are not idle; 0 if there are none.
    pub fn share(&self, activity: Activity) -> f64 {
        let count = |of: &Activity| self.samples.get(of).copied().unwrap_or(0);
        let busy: u64 = Activity::ALL
            .iter()
            .filter(|of| **of != Activity::Idle)
            .map(count)
            .sum();
        count(&activity) as f64 / busy.max(1) as f64
    }
}

/// A thread that takes samples.
#[derive(Debug)]
pub struct Profiler {
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<Profile>,
}

impl Profiler {
    /// Samples these probes at this interval, from a thread of its own.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn start(probes: Vec<ActivityProbe>, every: Duration) -> Result<Profiler, std::io::Error> {
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        let thread = std::thread::Builder::new()
            .name("profiler".to_owned())
            .spawn(move || {
                let mut profile = Profile::default();
                while !stop.load(Ordering::Relaxed) {
                    for probe in &probes {
                        *profile.samples.entry(probe.current()).or_default() += 1;
                    }
                    std::thread::sleep(every);
                }
                profile
            })?;
        Ok(Profiler { stopping, thread })
    }

    /// Ends the thread and returns its samples.
    pub fn stop(self) -> Profile {
        self.stopping.store(true, Ordering::Relaxed);
        // It does nothing that could panic.
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_the_time_that_is_not_idle() {
        let samples = [
            (Activity::Idle, 50),
            (Activity::Storage, 30),
            (Activity::Guard, 10),
        ];
        let profile = Profile {
            samples: samples.into_iter().collect(),
        };
        assert!((profile.share(Activity::Guard) - 0.25).abs() < 1e-9);
        assert_eq!(Profile::default().share(Activity::Guard), 0.0);
    }

    #[test]
    fn a_profiler_samples_what_a_probe_records() {
        let probe = ActivityProbe::enabled();
        probe.enter(Activity::Procedure);
        let profiler = Profiler::start(vec![probe], Duration::from_micros(50)).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let profile = profiler.stop();
        assert_eq!(profile.share(Activity::Procedure), 1.0);
        assert!(profile.samples[&Activity::Procedure] > 0);
    }
}
