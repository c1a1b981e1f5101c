//! Nodes that replay another's log: a backup, or the node itself when it restarts.

use std::sync::Arc;

use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{Durable, PartitionEffects, Request, Topology};
use anabranch_types::{NodeId, Ticks};

use crate::ramp::cluster;
use crate::ramp::scenarios::{C1, C2, X, Y, fetched, is_committed, prepare, read_both, set_both};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

/// A new node without rows.
fn fresh(node: NodeId, nodes: u16) -> RampNode {
    let mut fresh = RampNode::new(
        node,
        Arc::new(Topology::one_each(nodes)),
        store(node.0, 0, Ticks::from_millis(500)).emptied(),
        programs(),
        RampOptions::default(),
    );
    fresh.keep_records().expect("RAMP keeps records");
    fresh
}

/// A node that has replayed another's log to its end.
fn follower(cluster: &Cluster<RampNode>, node: NodeId) -> RampNode {
    let mut follower = fresh(node, cluster.nodes.len() as u16);
    for record in &cluster.logs[node.index()] {
        let replayed = follower.replay(record.clone());
        replayed.expect("a log can be replayed");
    }
    follower
}

fn commit(cluster: &mut Cluster<RampNode>, at: NodeId, effects: Vec<PartitionEffects>) {
    let writer = cluster.begin(at);
    let reply = cluster.ask(writer, Request::Commit(effects));
    assert!(is_committed(Some(reply)));
}

/// A backup has the rows of its primary, and no more versions.
#[test]
fn a_backup_keeps_no_more_than_its_primary() {
    let mut cluster = cluster(4);
    cluster.keep_logs();
    for n in 0..1_000 {
        let own = [
            update(SET, 0, n % 8, n),
            update(ADD, 0, n % 3, 1),
            insert(0, n, n % 5, 1),
        ];
        commit(&mut cluster, X, vec![on(0, own.into())]);
        commit(&mut cluster, X, vec![on(0, vec![delete(0, n)])]);
        if n % 10 == 0 {
            commit(&mut cluster, C1, set_both(n));
        }
        cluster.now = cluster.now + Ticks::from_millis(1);
    }
    cluster.advance(Ticks::from_millis(1_000));
    cluster.deliver_all();
    let node = cluster.nodes[X.index()].store();
    let follower = follower(&cluster, X);
    let follower = follower.store();
    assert_eq!(follower.last(), node.last());
    assert_eq!(follower.rows(ITEM), 8);
    let (kept, versions) = (follower.versions(), node.versions());
    assert!(kept <= versions && kept == 8, "{kept} of {versions}");
}

/// Replay keeps the versions that decide between a late writer and others, too: the node crashes while it has prepared
/// a transaction that will commit below what it has installed since, and restarts.
#[test]
fn a_late_writer_loses_at_a_restarted_node_too() {
    let mut cluster = cluster(4);
    cluster.keep_logs();
    let late = cluster.begin(C1);
    cluster.request(late, Request::Commit(set_both(1)));
    prepare(&mut cluster, C1, &[X, Y]);
    cluster.skew[X.index()] = Ticks::from_millis(50);
    for effect in [
        update(SET, 0, 0, 2),
        update(ADD, 0, 0, 10),
        update(ADD, 0, 1, 1),
        update(ADD, 0, 1, 1),
    ] {
        let writer = cluster.begin(X);
        cluster.request(writer, Request::Commit(vec![on(0, vec![effect])]));
        assert!(is_committed(cluster.take_reply(writer)));
    }
    let held = follower(&cluster, X).store().versions();
    cluster.restart(X, fresh(X, 4));
    cluster.deliver_all();
    assert!(is_committed(cluster.take_reply(late)));
    let reader = cluster.begin(C2);
    let seen = fetched(Some(cluster.ask(reader, Request::Read(read_both()))));
    assert_eq!(
        item(&seen[0]),
        Some((2, 10)),
        "the later register, and the sum"
    );
    // The versions were kept for the late writer, and are dropped after it.
    let kept = follower(&cluster, X).store().versions();
    assert!(held > 8 && kept == 8, "{held}, then {kept}");
}
