//! Counts stale reads: reads that miss a write that was acknowledged before the reader began. Quorum operation permits
//! them (ramp.txt §6.2).

use std::collections::BTreeMap;

use anabranch_history::record::{Operation, Outcome, Read, Transaction};

/// The number of reads of one item that missed an acknowledged version: they returned an older version than one with a
/// commit that was acknowledged before the reader's call began.
pub(crate) fn stale_reads(transactions: &[Transaction]) -> u64 {
    let mut stamps: BTreeMap<&str, u64> = BTreeMap::new();
    let mut acknowledged: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for transaction in transactions {
        let Some(stamp) = transaction.stamp else {
            continue;
        };
        let version = transaction.version.as_ref().unwrap_or(&transaction.id);
        stamps.insert(version, stamp);
        if let (Some(completed), Outcome::Committed) = (transaction.completed, &transaction.outcome)
        {
            for operation in &transaction.operations {
                if let Operation::Write(write) = operation {
                    let writes = acknowledged.entry(&write.item).or_default();
                    writes.push((completed, stamp));
                }
            }
        }
    }
    for writes in acknowledged.values_mut() {
        writes.sort_unstable();
        let mut newest = 0;
        for (_, stamp) in writes {
            newest = newest.max(*stamp);
            *stamp = newest;
        }
    }
    let is_stale = |invoked: u64, read: &Read| {
        let returned = read.version.as_ref();
        let returned = returned.and_then(|version| stamps.get(version.writer.as_str()));
        let Some(writes) = acknowledged.get(read.item.as_str()) else {
            return false;
        };
        let before = writes.partition_point(|(completed, _)| *completed < invoked);
        let newest = writes[..before].last();
        newest.is_some_and(|(_, newest)| returned.is_none_or(|returned| returned < newest))
    };
    let mut stale = 0;
    for transaction in transactions {
        let Some(invoked) = transaction.invoked else {
            continue;
        };
        for operation in &transaction.operations {
            if let Operation::Read(read) = operation {
                stale += u64::from(is_stale(invoked, read));
            }
        }
    }
    stale
}

#[cfg(test)]
mod tests {
    use anabranch_history::record::{VersionName, Write};

    use super::*;

    fn write(id: &str, stamp: u64, completed: u64) -> Transaction {
        let item = "t:01".to_owned();
        Transaction {
            id: id.to_owned(),
            stamp: Some(stamp),
            invoked: Some(0),
            completed: Some(completed),
            operations: vec![Operation::Write(Write {
                item,
                ..Write::default()
            })],
            ..Transaction::default()
        }
    }

    fn read(invoked: u64, writer: Option<&str>) -> Transaction {
        Transaction {
            id: format!("reader {invoked} {writer:?}"),
            invoked: Some(invoked),
            operations: vec![Operation::Read(Read {
                item: "t:01".to_owned(),
                version: writer.map(VersionName::of),
                ..Read::default()
            })],
            ..Transaction::default()
        }
    }

    #[test]
    fn what_had_been_acknowledged_counts_and_nothing_else() {
        // The later writer is acknowledged first.
        let writers = [write("a", 10, 100), write("b", 20, 50)];
        for (invoked, writer, stale) in [
            (50, None, 0),
            (51, None, 1),
            (51, Some("a"), 1),
            (51, Some("b"), 0),
            (200, Some("b"), 0),
            (200, Some("a"), 1),
        ] {
            let mut all = writers.to_vec();
            all.push(read(invoked, writer));
            assert_eq!(stale_reads(&all), stale, "{writer:?} at {invoked}");
        }
    }
}
