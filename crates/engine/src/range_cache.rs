//! What other partitions have answered to a transaction's reads of ranges.
//!
//! Procedures look among rows first (how many customers bear this name?) and then again at one of
//! them. To another partition that would be a round more for what is known; and in the meantime the
//! snapshot there has grown old, so that the owner would have to keep the past of the whole table
//! (`docs/protocols/ramp.md`, *Whose past is kept*). What is read in one snapshot is the same each
//! time: so it is asked for once.
//!
//! Not here: the own partition, to which a read is a function call; reads of points, which hardly
//! anybody repeats; reads that are guards or take locks for a write, which the protocol has to see.

use anabranch_types::{Fetched, Key, Read, Row};

/// Ranges with more rows are not kept.
const ROWS_MAX: usize = 16;

/// Answers, without the transaction's own writes.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    ranges: Vec<Range>,
}

#[derive(Debug)]
struct Range {
    /// What was asked, but for how many rows.
    asked: Read,
    /// How many rows at most.
    limit: Option<u32>,
    rows: Vec<(Key, Row)>,
}

impl Answers {
    /// Keeps an answer, if it is worth that.
    pub(crate) fn keep(&mut self, read: Read, answer: &Fetched) {
        if let (Some((asked, limit)), Fetched::Range(rows)) = (unlimited(read), answer)
            && rows.len() <= ROWS_MAX
        {
            let rows = rows.clone();
            self.ranges.push(Range { asked, limit, rows });
        }
    }

    /// The answers to all of these reads, if they are known.
    pub(crate) fn to_all(&self, reads: &[Read]) -> Option<Vec<Fetched>> {
        if self.ranges.is_empty() {
            return None;
        }
        reads.iter().map(|read| self.to(read)).collect()
    }

    fn to(&self, read: &Read) -> Option<Fetched> {
        match read {
            Read::Point { table, key } => {
                let of_table = self
                    .ranges
                    .iter()
                    .filter(|kept| kept.asked.table() == *table);
                let mut rows = of_table.flat_map(|kept| &kept.rows);
                let (_, row) = rows.find(|(of, _)| of == key)?;
                Some(Fetched::Point(Some(row.clone())))
            }
            Read::Range { .. } => {
                let (asked, limit) = unlimited(read.clone())?;
                let mut known = self.ranges.iter();
                let kept = known.find(|kept| kept.asked == asked && kept.reaches(limit))?;
                let most = limit.map_or(usize::MAX, |limit| limit as usize);
                Some(Fetched::Range(
                    kept.rows.iter().take(most).cloned().collect(),
                ))
            }
        }
    }
}

/// The read of a range without its limit, and the limit; `None` for a point.
fn unlimited(mut read: Read) -> Option<(Read, Option<u32>)> {
    match &mut read {
        Read::Point { .. } => None,
        Read::Range { limit, .. } => {
            let limit = limit.take();
            Some((read, limit))
        }
    }
}

impl Range {
    /// Whether it has so many rows, or all that there are.
    fn reaches(&self, limit: Option<u32>) -> bool {
        match (self.limit, limit) {
            (None, _) => true,
            (Some(kept), Some(wanted)) => wanted <= kept,
            (Some(_), None) => false,
        }
    }
}
