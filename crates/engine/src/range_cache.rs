//! A transaction's cache of the ranges that it has read at other partitions.
//!
//! Procedures often read a range first (how many customers have this name?) and one of its rows next.
//! At another partition the second read would cost a round for rows that are known already. Its snapshot
//! would also be older by then, so the owner would have to retain the version history of the whole table
//! (`docs/protocols/ramp.md`). All reads in one snapshot return the same rows, so each range is
//! requested once.
//!
//! Not cached: reads at the own partition, which are function calls; point reads, which procedures
//! rarely repeat; guards and reads that lock for a write, because the protocol has to see them.

use anabranch_types::{Fetched, Key, Read, Row};

/// Ranges with more rows are not cached.
const ROWS_MAX: usize = 16;

/// Cached ranges, without the transaction's own writes.
#[derive(Debug, Default)]
pub(crate) struct RangeCache {
    ranges: Vec<CachedRange>,
}

#[derive(Debug)]
struct CachedRange {
    /// The read, without its limit.
    read: Read,
    /// The read's limit, in rows.
    limit: Option<u32>,
    rows: Vec<(Key, Row)>,
}

impl RangeCache {
    /// Caches the answer to a range read, unless it has more than [`ROWS_MAX`] rows.
    pub(crate) fn insert(&mut self, read: Read, answer: &Fetched) {
        if let (Some((read, limit)), Fetched::Range(rows)) = (without_limit(read), answer)
            && rows.len() <= ROWS_MAX
        {
            let rows = rows.clone();
            self.ranges.push(CachedRange { read, limit, rows });
        }
    }

    /// The answers to all of these reads; `None` unless every one is cached.
    pub(crate) fn get_all(&self, reads: &[Read]) -> Option<Vec<Fetched>> {
        if self.ranges.is_empty() {
            return None;
        }
        reads.iter().map(|read| self.get(read)).collect()
    }

    fn get(&self, read: &Read) -> Option<Fetched> {
        match read {
            Read::Point { table, key } => {
                let of_table = self
                    .ranges
                    .iter()
                    .filter(|cached| cached.read.table() == *table);
                let mut rows = of_table.flat_map(|cached| &cached.rows);
                let (_, row) = rows.find(|(of, _)| of == key)?;
                Some(Fetched::Point(Some(row.clone())))
            }
            Read::Range { .. } => {
                let (read, limit) = without_limit(read.clone())?;
                let mut ranges = self.ranges.iter();
                let cached =
                    ranges.find(|cached| cached.read == read && cached.covers_limit(limit))?;
                let most = limit.map_or(usize::MAX, |limit| limit as usize);
                Some(Fetched::Range(
                    cached.rows.iter().take(most).cloned().collect(),
                ))
            }
        }
    }
}

/// A range read without its limit, and the limit; `None` for a point.
fn without_limit(mut read: Read) -> Option<(Read, Option<u32>)> {
    match &mut read {
        Read::Point { .. } => None,
        Read::Range { limit, .. } => {
            let limit = limit.take();
            Some((read, limit))
        }
    }
}

impl CachedRange {
    /// Whether the cached rows answer a read with this limit.
    fn covers_limit(&self, limit: Option<u32>) -> bool {
        match (self.limit, limit) {
            (None, _) => true,
            (Some(cached), Some(requested)) => requested <= cached,
            (Some(_), None) => false,
        }
    }
}
