//! Two-phase locking, driven message by message and under seeded schedules.

mod by_age;
mod crashes;
mod history;
mod reads;
mod scenarios;
mod schedules;

use std::sync::Arc;

use anabranch_protocol::Topology;
use anabranch_protocol::locking::{LockingNode, LockingOptions, ReadLocks};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::NodeId;

use crate::support::cluster::Cluster;
use crate::support::fixture::{ITEM, item_key, item_row, programs, schema};

/// What an item's counter holds at the start.
const START: i64 = 100;

/// A cluster with a node a partition, each with items 0 up to `items`.
fn cluster(nodes: u16, items: i64, read_locks: ReadLocks) -> Cluster<LockingNode> {
    let made = (0..nodes).map(|part| {
        let mut store = empty();
        for id in 0..items {
            store
                .load(ITEM, item_key(part, id), item_row(part, id, 0, START))
                .expect("new keys");
        }
        node(NodeId(part), nodes, store, read_locks)
    });
    Cluster::new(made.collect())
}

fn empty() -> Store {
    Store::new(&schema(), StoreSettings::default())
}

/// One of `nodes` nodes.
fn node(id: NodeId, nodes: u16, store: Store, read_locks: ReadLocks) -> LockingNode {
    let topology = Arc::new(Topology::one_each(nodes));
    let options = LockingOptions {
        read_locks,
        unlocked_tables: Vec::new(),
    };
    LockingNode::new(id, topology, schema(), store, programs(), options)
}

/// Nothing is left of any transaction.
fn assert_idle(cluster: &Cluster<LockingNode>) {
    for (number, node) in cluster.nodes.iter().enumerate() {
        assert!(node.is_idle(), "node {number} still knows of a transaction");
    }
}
