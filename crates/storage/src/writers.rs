//! The last writer of each register.
//!
//! A transaction may be installed long after others with higher timestamps. Then the versions that are
//! kept do not show which of its columns a later transaction has assigned. A store with
//! [`keep_writers`](crate::Store::keep_writers) keeps, for each column of a row that was ever assigned,
//! the highest timestamp. So the last writer wins whatever has been collected, and stores that install
//! the same assignments in different orders end with the same rows. It takes memory for each row ever
//! written; other stores pay nothing.

use anabranch_types::{ColumnSet, Key, Timestamp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Timestamps, each with the columns that it was the last to assign; no column is in two sets.
pub(crate) type Writers = SmallVec<[(Timestamp, ColumnSet); 1]>;

/// The last writers of a table's rows, by primary key.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastWriters(FxHashMap<Key, Writers>);

impl LastWriters {
    /// Records that a transaction has assigned these columns.
    pub(crate) fn wrote(&mut self, key: &Key, timestamp: Timestamp, assigned: ColumnSet) {
        if assigned.is_empty() {
            return;
        }
        let Some(writers) = self.0.get_mut(key) else {
            let first = std::iter::once((timestamp, assigned));
            self.0.insert(key.clone(), first.collect());
            return;
        };
        let mut last = assigned;
        for (other, columns) in writers.iter_mut() {
            match *other < timestamp {
                true => columns.0 &= !assigned.0,
                false => last.0 &= !columns.0,
            }
        }
        writers.retain(|(_, columns)| !columns.is_empty());
        if !last.is_empty() {
            writers.push((timestamp, last));
        }
    }

    /// The columns of a row that transactions above `timestamp` have assigned.
    pub(crate) fn after(&self, key: &Key, timestamp: Timestamp) -> ColumnSet {
        let all = self.of(key).iter();
        let later = all.filter(|(other, _)| *other > timestamp);
        later.fold(ColumnSet::EMPTY, |sum, (_, columns)| sum.union(*columns))
    }

    /// The last writers of one row.
    pub(crate) fn of(&self, key: &Key) -> &[(Timestamp, ColumnSet)] {
        self.0.get(key).map_or(&[], |writers| writers)
    }

    /// Restores exported writers.
    pub(crate) fn restore(&mut self, key: &Key, writers: Writers) {
        if !writers.is_empty() {
            self.0.insert(key.clone(), writers);
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_types::{HybridClock, NodeId, SplitMix64, Ticks};

    use super::*;

    /// In any order of assignments, the last writer of each column is the one with the highest timestamp:
    /// compared with a reference model that keeps all assignments.
    #[test]
    fn the_last_writer_of_each_column_is_known_in_any_order() {
        let mut clock = HybridClock::new(NodeId(0));
        let stamps: Vec<Timestamp> = (1..=12).map(|at| clock.next(Ticks(at * 1_000))).collect();
        let key = Key::from_bytes(&[7]);
        let mut random = SplitMix64::stream(1, "writers", 0);
        for _ in 0..500 {
            let mut writers = LastWriters::default();
            let mut all: Vec<(Timestamp, ColumnSet)> = Vec::new();
            for _ in 0..10 {
                let stamp = stamps[random.below(12) as usize];
                if all.iter().any(|(other, _)| *other == stamp) {
                    continue;
                }
                let columns = ColumnSet(random.below(16));
                writers.wrote(&key, stamp, columns);
                all.push((stamp, columns));
                for at in &stamps {
                    let later = all.iter().filter(|(other, _)| other > at);
                    let twin = later.fold(ColumnSet::EMPTY, |sum, (_, set)| sum.union(*set));
                    assert_eq!(writers.after(&key, *at), twin, "{all:?} after {at}");
                }
                let kept: u32 = (writers.of(&key).iter())
                    .map(|(_, set)| set.0.count_ones())
                    .sum();
                assert!(kept <= 4, "a column is kept once: {:?}", writers.of(&key));
            }
        }
    }
}
