//! Two-phase locking, driven message by message and under seeded schedules.

mod support;

#[path = "locking/history.rs"]
mod history;
#[path = "locking/scenarios.rs"]
mod scenarios;
#[path = "locking/schedules.rs"]
mod schedules;

use std::sync::Arc;

use anabranch_protocol::Topology;
use anabranch_protocol::locking::{LockingNode, LockingOptions, ReadLocks};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::NodeId;
use support::cluster::Cluster;
use support::fixture::{ITEM, item_key, item_row, programs, schema};

/// What an item's counter holds at the start.
const START: i64 = 100;

/// A cluster with a node a partition, each with items 0 up to `items`.
fn cluster(nodes: u16, items: i64, read_locks: ReadLocks) -> Cluster<LockingNode> {
    let topology = Arc::new(Topology::one_each(nodes));
    let node = |part: u16| {
        let mut store = Store::new(&schema(), StoreSettings::default());
        for id in 0..items {
            store
                .load(ITEM, item_key(part, id), item_row(part, id, 0, START))
                .expect("new keys");
        }
        let options = LockingOptions {
            read_locks,
            unlocked_tables: Vec::new(),
        };
        let topology = Arc::clone(&topology);
        LockingNode::new(NodeId(part), topology, schema(), store, programs(), options)
    };
    Cluster::new((0..nodes).map(node).collect())
}

/// Nothing is left of any transaction.
fn assert_idle(cluster: &Cluster<LockingNode>) {
    for (number, node) in cluster.nodes.iter().enumerate() {
        assert!(node.is_idle(), "node {number} still knows of a transaction");
    }
}
