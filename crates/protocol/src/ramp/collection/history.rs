//! The version history that an owner retains, and when it goes (ramp.txt §4.5).
//!
//! Rows are replaced in place, except in tables that were read lately in an older snapshot, and except where a prepared
//! transaction may still commit with a lower timestamp.

use anabranch_types::{Activity, Read, Ticks, Timestamp};

use crate::ramp::core::context::Context;
use crate::ramp::core::participant::Participant;

/// How many items are looked at when versions are dropped on a timer.
const COLLECT_BUDGET: usize = 256;

impl Participant {
    /// Lets the next commit replace rows in place, except in tables that were read lately in an older snapshot. Most
    /// readers never do that: they read a partition once, or before anything else commits there. One that does, after
    /// a time in which none did, may restart (`below_floor`), and finds the version history retained from then on.
    pub(crate) fn discard_history(&mut self, context: &Context) {
        let window = self.store.window();
        let store = &mut self.store;
        self.history_read.retain(|(table, at)| {
            let lately = context.now.since(*at) <= window;
            if !lately {
                store.retain_history(*table, false);
            }
            lately
        });
        let late = self.hold_horizon();
        self.store.discard_history(late);
    }

    /// Keeps what decides between what is installed and what is prepared, which commits above its
    /// vote, and so above all that was installed by then. Whatever comes to be prepared commits
    /// above all that is installed by now. Returns the timestamp that all to come will exceed.
    pub(crate) fn hold_horizon(&mut self) -> Timestamp {
        while let Some(promise) = self.votes.front()
            && !self.prepared.contains_key(&promise.prepared)
        {
            self.votes.pop_front();
        }
        let oldest = self.votes.front();
        self.store.hold_horizon(oldest.map(|promise| promise.after));
        oldest.map_or(Timestamp::MAX, |promise| promise.vote)
    }

    /// Drops versions that no reader can ask for any more, as far as they are due.
    pub(crate) fn collect_versions(&mut self, context: &Context) {
        self.hold_horizon();
        context.probe.within(Activity::Storage, || {
            self.store.collect(context.now, COLLECT_BUDGET);
        });
    }

    /// A reader reads on in an older snapshot: from now on the version history of these tables is retained.
    pub(crate) fn retain_history<'r>(&mut self, now: Ticks, reads: impl Iterator<Item = &'r Read>) {
        for table in reads.map(Read::table) {
            match self.history_read.iter_mut().find(|(of, _)| *of == table) {
                Some((_, at)) => *at = now,
                None => {
                    self.history_read.push((table, now));
                    self.store.retain_history(table, true);
                }
            }
        }
    }
}
