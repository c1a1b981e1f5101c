//! What a call is known to access before it runs.

use anabranch_protocol::{PartitionRead, Protocol};
use anabranch_types::{Access, PartitionId, Read};

use super::Node;
use crate::call::{Call, Work};
use crate::routing::Target;

impl<P: Protocol> Node<P> {
    /// The accesses that are known before the procedure runs, sorted by partition and key, without
    /// duplicates.
    pub(super) fn declared(&self, call: &Call) -> Vec<PartitionRead> {
        let router = &self.planned.execution.router;
        let reads = match &call.work {
            Work::Procedure(number) => {
                let procedure = &self.planned.application.procedures[*number];
                procedure.declared_reads(&call.arguments)
            }
            Work::Statement { statement, .. } => statement.declared_reads(&call.arguments),
            Work::Step(_) | Work::Belt(_) => Vec::new(),
        };
        let mut declared: Vec<PartitionRead> = Vec::new();
        for (_, for_write, read) in reads {
            let partitions = match router.read(&read) {
                Target::One(partition) => partition.0..partition.0 + 1,
                Target::Anywhere => continue,
                Target::Everywhere => 0..router.partitions(),
            };
            let access = Access {
                for_write,
                ..Access::default()
            };
            declared.extend(partitions.map(|partition| PartitionRead {
                partition: PartitionId(partition),
                read: read.clone(),
                access,
            }));
        }
        declared.sort_by(|a, b| {
            a.partition
                .cmp(&b.partition)
                .then_with(|| declaration_order(&a.read).cmp(&declaration_order(&b.read)))
        });
        declared.dedup_by(|next, kept| {
            let same = next.partition == kept.partition && same_items(&next.read, &kept.read);
            if same {
                kept.access.for_write |= next.access.for_write;
            }
            same
        });
        declared
    }
}

/// A read's sort key in a declaration.
fn declaration_order(read: &Read) -> (u16, u32, Vec<u8>, Vec<u8>) {
    let index =
        |index: &Option<anabranch_types::IndexId>| index.map_or(0, |index| u32::from(index.0) + 1);
    match read {
        Read::Point { table, key } => (table.0, 0, key.as_bytes().to_vec(), Vec::new()),
        Read::Range {
            table,
            index: i,
            range,
            ..
        } => {
            let bytes = |key: Option<anabranch_types::Key>| {
                key.map_or_else(Vec::new, |key| key.as_bytes().to_vec())
            };
            (table.0, index(i), bytes(range.start()), bytes(range.end()))
        }
    }
}

/// Whether two reads have the same items, direction and limit.
fn same_items(a: &Read, b: &Read) -> bool {
    match (a, b) {
        (Read::Point { table: t, key: k }, Read::Point { table: u, key: l }) => t == u && k == l,
        (
            Read::Range {
                table: t,
                index: i,
                range: r,
                reverse: v,
                limit: n,
            },
            Read::Range {
                table: u,
                index: j,
                range: s,
                reverse: w,
                limit: m,
            },
        ) => t == u && i == j && r == s && v == w && n == m,
        _ => false,
    }
}
