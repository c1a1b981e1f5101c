//! What a node is at, for a profiler that looks from outside.
//!
//! A node says what it is at as it goes, by one byte that another thread may read at any time. That
//! costs a store or two where it changes, so that a run can be profiled at full speed, and no
//! result depends on it: nobody reads it below `server`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What a node spends its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Activity {
    /// It has nothing to do.
    Idle,
    /// Taking messages and calls out of queues, and putting messages and outcomes into others.
    Transport,
    /// Running procedures: statements, expressions, routing, retries.
    Procedure,
    /// The protocol's own bookkeeping.
    Protocol,
    /// The store: looking rows up, row programs, installing versions, collecting old ones.
    Storage,
    /// Guards, holds and locks: taking, checking and releasing them.
    Guard,
}

impl Activity {
    /// All of them.
    pub const ALL: [Activity; 6] = [
        Activity::Idle,
        Activity::Transport,
        Activity::Procedure,
        Activity::Protocol,
        Activity::Storage,
        Activity::Guard,
    ];

    /// Its name in JSON.
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

/// Where a node says what it is at. All clones are one.
#[derive(Clone, Debug, Default)]
pub struct ActivityProbe(Option<Arc<AtomicU8>>);

impl ActivityProbe {
    /// One that can be read. The default one is deaf.
    pub fn listening() -> ActivityProbe {
        ActivityProbe(Some(Arc::new(AtomicU8::new(Activity::Idle as u8))))
    }

    /// Says what the node is at from now on; returns what it was at, to go back to.
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

    /// Says what the node is at while it does this.
    #[inline]
    pub fn within<T>(&self, activity: Activity, work: impl FnOnce() -> T) -> T {
        let before = self.enter(activity);
        let result = work();
        self.enter(before);
        result
    }

    /// What the node is at.
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
        let probe = ActivityProbe::listening();
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
        let probe = ActivityProbe::listening();
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
