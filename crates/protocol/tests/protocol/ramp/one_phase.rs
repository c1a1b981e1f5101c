//! One-phase writes (ramp.txt §4.8): which guarantees a client loses that is answered early, and which it keeps.

use anabranch_protocol::ramp::{Metadata, RampNode, RampOptions};
use anabranch_protocol::{Reply, Request, TransactionId};
use anabranch_types::{NodeId, Ticks, Value};

use crate::ramp::scenarios::{C1, C2, X, Y, is_committed, prepare, read_both, registers, set_both};
use crate::ramp::{cluster_with, inexact};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

const WINDOW: Ticks = Ticks::from_millis(500);

fn cluster(metadata: Metadata) -> Cluster<RampNode> {
    let options = RampOptions {
        one_phase: true,
        metadata,
        ..RampOptions::default()
    };
    cluster_with(4, WINDOW, options)
}

fn every() -> impl Iterator<Item = Metadata> {
    std::iter::once(Metadata::Fast).chain(inexact())
}

fn write(cluster: &mut Cluster<RampNode>) -> TransactionId {
    let writer = cluster.begin(C1);
    cluster.request(writer, Request::Commit(set_both(7)));
    writer
}

/// The result of a read at this node while only the messages of its own are delivered.
fn look(cluster: &mut Cluster<RampNode>, at: NodeId) -> Vec<i64> {
    let reader = cluster.begin(at);
    cluster.request(reader, Request::Read(read_both()));
    for _ in 0..3 {
        for owner in [X, Y] {
            for (from, to) in [(at, owner), (owner, at)] {
                while cluster.under_way(from, to) > 0 {
                    cluster.deliver(from, to);
                }
            }
        }
    }
    let seen = registers(cluster.take_reply(reader));
    cluster.request(reader, Request::Commit(Vec::new()));
    assert!(is_committed(cluster.take_reply(reader)));
    seen
}

/// The client is answered after one round. Another client may still read the state before the transaction, but never
/// half of it.
#[test]
fn an_answer_does_not_wait_for_participants() {
    for metadata in every() {
        let mut cluster = cluster(metadata);
        let writer = write(&mut cluster);
        prepare(&mut cluster, C1, &[X, Y]);
        assert!(is_committed(cluster.take_reply(writer)), "{metadata:?}");
        assert_eq!(
            look(&mut cluster, C2),
            [0, 0],
            "{metadata:?}: no read-your-writes"
        );
        cluster.deliver(C1, X);
        assert_eq!(look(&mut cluster, C2), [7, 7], "{metadata:?}: all of it");
        cluster.deliver_all();
        assert!(cluster.nodes.iter().all(RampNode::is_idle), "{metadata:?}");
    }
}

/// A later transaction at the writer's node sends its `Get` after the `Commit` on the same link.
#[test]
fn a_client_of_one_node_reads_its_writes() {
    for metadata in every() {
        let mut cluster = cluster(metadata);
        let writer = write(&mut cluster);
        prepare(&mut cluster, C1, &[X, Y]);
        assert!(is_committed(cluster.take_reply(writer)));
        assert_eq!(look(&mut cluster, C1), [7, 7], "{metadata:?}");
        cluster.deliver_all();
        assert!(cluster.nodes.iter().all(RampNode::is_idle));
    }
}

/// An answer that contains a deferred value of another partition waits for that value.
#[test]
fn a_client_that_needs_a_value_waits_for_it() {
    let mut cluster = cluster(Metadata::Fast);
    let writer = cluster.begin(C1);
    let effects = vec![
        on(0, vec![draw(0, 0, 0)]),
        on(1, vec![update(ADD, 1, 0, 1)]),
    ];
    cluster.request(writer, Request::Commit(effects));
    prepare(&mut cluster, C1, &[X, Y]);
    assert!(!cluster.has_reply(writer));
    cluster.deliver_all();
    let Some(Reply::Committed { slots, .. }) = cluster.take_reply(writer) else {
        panic!("not committed");
    };
    assert_eq!(slots.len(), 1);
    assert_eq!(slots[0].1, Value::Int(1));
    assert!(cluster.nodes.iter().all(RampNode::is_idle));
}

/// No client is answered twice, and a refusal is reported as in a two-phase commit.
#[test]
fn a_refusal_is_reported() {
    let mut cluster = cluster(Metadata::Fast);
    let (first, second) = (cluster.begin(C1), cluster.begin(C2));
    let take = |cluster: &mut Cluster<RampNode>, writer| {
        let effects = vec![
            on(0, vec![update(TAKE, 0, 0, 0)]),
            on(1, vec![update(ADD, 1, 0, 1)]),
        ];
        cluster.request(writer, Request::Commit(effects));
    };
    take(&mut cluster, first);
    take(&mut cluster, second);
    cluster.deliver(C1, X);
    cluster.deliver(C2, X);
    cluster.deliver_all();
    assert!(is_committed(cluster.take_reply(first)));
    let refused = cluster.take_reply(second);
    assert!(matches!(refused, Some(Reply::Aborted(_))), "{refused:?}");
    assert!(cluster.nodes.iter().all(RampNode::is_idle));
}
