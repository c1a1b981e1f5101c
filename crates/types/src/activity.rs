//! The current activity of a node, for a profiler on another thread.
//!
//! A node publishes its activity in one byte that other threads may read at any time. That costs one or two stores at
//! each change, so a run can be profiled at full speed. No result depends on it: no crate below `server` reads it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A kind of work in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Activity {
    /// No work.
    Idle,
    /// Taking messages and calls out of queues, and putting messages and outcomes into others.
    Transport,
    /// Running procedures: statements, expressions, routing, retries.
    Procedure,
    /// The protocol's own bookkeeping.
    Protocol,
    /// The store: looking rows up, row programs, installing versions, collecting old ones.
    Storage,
    /// Guards, write intents and locks: taking, checking and releasing them.
    Guard,
}

impl Activity {
    /// All activities.
    pub const ALL: [Activity; 6] = [
        Activity::Idle,
        Activity::Transport,
        Activity::Procedure,
        Activity::Protocol,
        Activity::Storage,
        Activity::Guard,
    ];

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Idle => "idle",
            Activity::Transport => "transport",
            Activity::Procedure => "procedure",
            Activity::Protocol => "protocol",
            Activity::Storage => "storage",
            Activity::Guard => "guard",
        }
    }
}

/// The published activity of a node. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ActivityProbe(Option<Arc<AtomicU8>>);

impl ActivityProbe {
    /// A probe that records. The default probe records nothing.
    pub fn enabled() -> ActivityProbe {
        ActivityProbe(Some(Arc::new(AtomicU8::new(Activity::Idle as u8))))
    }

    /// Sets the current activity. Returns the previous one, to be restored.
    #[inline]
    pub fn enter(&self, activity: Activity) -> Activity {
        match &self.0 {
            // There is one writer, and a reader takes samples: no order is needed.
            Some(cell) => {
                let before = cell.load(Ordering::Relaxed);
                cell.store(activity as u8, Ordering::Relaxed);
                Activity::ALL[usize::from(before)]
            }
            None => Activity::Idle,
        }
    }

    /// Sets the activity during `work`.
    #[inline]
    pub fn within<T>(&self, activity: Activity, work: impl FnOnce() -> T) -> T {
        let before = self.enter(activity);
        let result = work();
        self.enter(before);
        result
    }

    /// The current activity.
    pub fn current(&self) -> Activity {
        let code = self
            .0
            .as_ref()
            .map_or(0, |cell| cell.load(Ordering::Relaxed));
        Activity::ALL[usize::from(code)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_within_work_goes_back_to_what_was_before() {
        let probe = ActivityProbe::enabled();
        probe.enter(Activity::Protocol);
        let seen = probe.within(Activity::Guard, || {
            let inner = probe.within(Activity::Storage, || probe.current());
            [inner, probe.current()]
        });
        assert_eq!(seen, [Activity::Storage, Activity::Guard]);
        assert_eq!(probe.current(), Activity::Protocol);
    }

    #[test]
    fn clones_share_what_was_said_and_a_deaf_one_forgets() {
        let probe = ActivityProbe::enabled();
        let other = probe.clone();
        let before = probe.enter(Activity::Storage);
        assert_eq!(
            (before, other.current()),
            (Activity::Idle, Activity::Storage)
        );
        assert_eq!(other.enter(before), Activity::Storage);
        assert_eq!(probe.current(), Activity::Idle);
        let deaf = ActivityProbe::default();
        deaf.enter(Activity::Guard);
        assert_eq!(deaf.current(), Activity::Idle);
        deaf.within(Activity::Guard, || {
            assert_eq!(deaf.current(), Activity::Idle)
        });
        for (code, activity) in Activity::ALL.into_iter().enumerate() {
            assert_eq!(activity as usize, code);
        }
    }
}
