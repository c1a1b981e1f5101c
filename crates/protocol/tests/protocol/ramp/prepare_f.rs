//! Prepare-F (ramp.txt §6.1), step by step, in two or three clusters of two partitions: a transaction is prepared in
//! all clusters before it is installed in any.

use std::sync::Arc;

use anabranch_protocol::ramp::core::message::{Message, Stamped};
use anabranch_protocol::ramp::{Metadata, RampNode, RampOptions};
use anabranch_protocol::{
    AbortReason, Durable, PartitionEffects, Protocol, Reply, Request, Topology, TransactionId,
};
use anabranch_types::{NodeId, Ticks, Timestamp};

use crate::ramp::inexact;
use crate::ramp::scenarios::{counts, is_committed, read_both, reason, registers, set_both};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

pub(crate) const WINDOW: Ticks = Ticks::from_millis(500);
pub(crate) const AFTER: Ticks = Ticks::from_millis(100);

/// The owner of a partition in a cluster, of `clusters`.
pub(crate) fn owner(partition: u16, cluster: u16, clusters: u16) -> NodeId {
    NodeId(partition * clusters + cluster)
}

fn options(failures: u16, metadata: Metadata) -> RampOptions {
    RampOptions {
        prepare_f: Some(failures),
        terminate_after: Some(AFTER),
        metadata,
        ..RampOptions::default()
    }
}

pub(crate) fn node(number: u16, clusters: u16, options: RampOptions, rows: i64) -> RampNode {
    let topology = Arc::new(Topology::clusters(clusters, 2, number % clusters));
    let store = store(number / clusters, rows, WINDOW);
    RampNode::new(NodeId(number), topology, store, programs(), options)
}

/// The same, with a unique secondary index of `item` on the columns of its primary key.
pub(crate) fn node_with_unique_index(number: u16, clusters: u16, options: RampOptions) -> RampNode {
    let topology = Arc::new(Topology::clusters(clusters, 2, number % clusters));
    let store = store_with_unique_index(number / clusters, 8, WINDOW);
    RampNode::new(NodeId(number), topology, store, programs(), options)
}

fn clusters(count: u16, failures: u16, metadata: Metadata) -> Cluster<RampNode> {
    let nodes = 0..2 * count;
    let options = options(failures, metadata);
    Cluster::new(nodes.map(|n| node(n, count, options, 8)).collect())
}

pub(crate) fn every() -> impl Iterator<Item = Metadata> {
    std::iter::once(Metadata::Fast).chain(inexact())
}

pub(crate) fn write(cluster: &mut Cluster<RampNode>, at: NodeId, value: i64) -> TransactionId {
    let writer = cluster.begin(at);
    cluster.request(writer, Request::Commit(set_both(value)));
    writer
}

/// Delivers the messages between these nodes, and no others.
pub(crate) fn deliver_among(cluster: &mut Cluster<RampNode>, nodes: &[NodeId]) {
    loop {
        let mut busy = cluster.busy_links().into_iter();
        let Some((from, to)) = busy.find(|(from, to)| nodes.contains(from) && nodes.contains(to))
        else {
            return;
        };
        cluster.deliver(from, to);
    }
}

/// Delivers everything but the messages on these links.
pub(crate) fn deliver_but(cluster: &mut Cluster<RampNode>, slow: &[(NodeId, NodeId)]) {
    loop {
        let mut busy = cluster.busy_links().into_iter();
        let Some((from, to)) = busy.find(|link| !slow.contains(link)) else {
            return;
        };
        cluster.deliver(from, to);
    }
}

/// What a client of the node reads while only messages within its cluster are delivered.
pub(crate) fn look(cluster: &mut Cluster<RampNode>, at: NodeId, clusters: u16) -> Vec<i64> {
    registers(Some(looked(cluster, at, clusters)))
}

/// The same, for counters.
pub(crate) fn look_counts(cluster: &mut Cluster<RampNode>, at: NodeId, clusters: u16) -> Vec<i64> {
    counts(Some(looked(cluster, at, clusters)))
}

fn looked(cluster: &mut Cluster<RampNode>, at: NodeId, clusters: u16) -> Reply {
    let reader = cluster.begin(at);
    cluster.request(reader, Request::Read(read_both()));
    let own = [0, 1].map(|partition| owner(partition, at.0 % clusters, clusters));
    deliver_among(cluster, &own);
    let seen = cluster.take_reply(reader);
    cluster.request(reader, Request::Commit(Vec::new()));
    assert!(is_committed(cluster.take_reply(reader)));
    seen.expect("its cluster answers")
}

pub(crate) fn prepared(cluster: &Cluster<RampNode>) -> Vec<usize> {
    cluster.nodes.iter().map(RampNode::prepared).collect()
}

pub(crate) fn is_at_rest(cluster: &mut Cluster<RampNode>) -> bool {
    for _ in 0..4 {
        cluster.deliver_all();
        cluster.advance(AFTER);
    }
    cluster.deliver_all();
    cluster.nodes.iter().all(RampNode::is_idle)
}

/// F = 1 of three clusters: the client is answered when the second has prepared. No reader sees the write before the
/// third has, not even the client's own (ramp.txt §6.1). Then all readers see all of it.
#[test]
fn a_client_is_answered_by_enough_clusters_and_no_reader_sees_it_before_all() {
    for metadata in every() {
        let mut cluster = clusters(3, 1, metadata);
        let at = owner(0, 0, 3);
        let (near, far) = ([0, 1, 3, 4].map(NodeId), [2, 5].map(NodeId));
        let writer = write(&mut cluster, at, 7);
        assert_eq!(
            prepared(&cluster),
            [1, 0, 0, 0, 0, 0],
            "its own partition has prepared"
        );
        // One partition of the second cluster alone is not a cluster.
        for node in [3, 1].map(NodeId) {
            cluster.deliver(at, node);
            cluster.deliver(node, at);
            assert!(!cluster.has_reply(writer), "{metadata:?}: not enough");
        }
        deliver_among(&mut cluster, &near);
        assert!(is_committed(cluster.take_reply(writer)), "{metadata:?}");
        assert_eq!(cluster.counters().early_answers, 1);
        for node in near {
            assert_eq!(
                look(&mut cluster, node, 3),
                [0, 0],
                "{metadata:?}: not visible yet"
            );
        }
        // The last cluster prepares, and one node installs it: a reader that meets it there sees all of it.
        for node in far {
            cluster.deliver(at, node);
            cluster.deliver(node, at);
        }
        assert_eq!(look(&mut cluster, NodeId(3), 3), [7, 7], "{metadata:?}");
        assert_eq!(look(&mut cluster, NodeId(1), 3), [0, 0], "{metadata:?}");
        cluster.deliver(at, NodeId(1));
        assert_eq!(look(&mut cluster, NodeId(4), 3), [7, 7], "{metadata:?}");
        assert_eq!(
            cluster.nodes[4].prepared(),
            0,
            "the reader had it installed there"
        );
        assert!(is_at_rest(&mut cluster), "{metadata:?}");
        for node in (0..6).map(NodeId) {
            assert_eq!(look(&mut cluster, node, 3), [7, 7], "{metadata:?}");
        }
    }
}

/// A cluster is away. Writers go on, and none of their writes is visible. When the cluster is back all of them are, in
/// the same order everywhere: by timestamp, and not by arrival.
#[test]
fn a_cluster_that_is_away_delays_no_client_and_makes_nothing_visible() {
    let mut cluster = clusters(2, 0, Metadata::Fast);
    let (a, b) = (owner(0, 0, 2), owner(0, 1, 2));
    let one = [0, 2].map(NodeId);
    let other = [1, 3].map(NodeId);
    // The second cluster's clocks are ahead: its writes win, in whatever order they arrive.
    for node in other {
        cluster.skew[node.index()] = Ticks::from_millis(50);
    }
    let mut writers = Vec::new();
    for value in 1..=3 {
        writers.push(write(&mut cluster, a, value));
        deliver_among(&mut cluster, &one);
        writers.push(write(&mut cluster, b, 10 + value));
        deliver_among(&mut cluster, &other);
        cluster.advance(Ticks::from_millis(1));
    }
    for writer in writers {
        assert!(is_committed(cluster.take_reply(writer)));
    }
    for at in [a, b] {
        assert_eq!(look(&mut cluster, at, 2), [0, 0]);
    }
    assert_eq!(prepared(&cluster), [3, 3, 3, 3]);
    // The second cluster's writes are installed everywhere and collected before the first's arrive.
    for (from, to) in [(b, 0), (b, 2)].map(|(from, to)| (from, NodeId(to))) {
        while cluster.under_way(from, to) > 0 {
            cluster.deliver(from, to);
        }
        while cluster.under_way(to, from) > 0 {
            cluster.deliver(to, from);
        }
    }
    let all = [0, 1, 2, 3].map(NodeId);
    deliver_among(&mut cluster, &[b, NodeId(0), NodeId(3)]);
    cluster.advance(Ticks(WINDOW.0 * 3));
    deliver_among(&mut cluster, &all);
    assert!(is_at_rest(&mut cluster));
    for node in all {
        assert_eq!(
            look(&mut cluster, node, 2),
            [13, 13],
            "the last writer wins"
        );
    }
}

/// Three clients write a register, the last of them long before the others' Prepares reach the second cluster, one
/// after the other. When the second write is installed there, the third has been superseded and collected, and wins all
/// the same.
#[test]
fn what_decides_between_writers_outlives_its_version() {
    let mut cluster = clusters(2, 1, Metadata::Fast);
    let [n0, n1, n2, n3] = [0, 1, 2, 3].map(NodeId);
    let set = |cluster: &mut Cluster<RampNode>, at, item, value| {
        let writer = cluster.begin(at);
        let effects = vec![on(0, vec![update(SET, 0, item, value)])];
        cluster.request(writer, Request::Commit(effects));
    };
    set(&mut cluster, n0, 0, 1);
    cluster.advance(Ticks::from_millis(1));
    set(&mut cluster, n2, 0, 2);
    cluster.deliver(n2, n0);
    cluster.advance(Ticks::from_millis(1));
    set(&mut cluster, n3, 0, 13);
    deliver_but(&mut cluster, &[(n0, n1), (n2, n1)]);
    assert_eq!(look(&mut cluster, n3, 2), [13, 0]);
    deliver_but(&mut cluster, &[(n2, n1)]);
    cluster.advance(Ticks(WINDOW.0 * 3));
    set(&mut cluster, n3, 1, 5);
    deliver_but(&mut cluster, &[(n2, n1)]);
    assert!(is_at_rest(&mut cluster));
    for at in [n0, n1, n2, n3] {
        assert_eq!(look(&mut cluster, at, 2), [13, 0], "{at}");
    }
}

fn restarted_coordinator_finishes(checkpoint: bool) {
    let mut cluster = clusters(2, 0, Metadata::Fast);
    cluster.keep_logs();
    let (a, far) = (owner(0, 0, 2), [1, 3].map(NodeId));
    let writer = write(&mut cluster, a, 7);
    deliver_among(&mut cluster, &[0, 2].map(NodeId));
    assert!(is_committed(cluster.take_reply(writer)));
    if checkpoint {
        let mut log = Vec::new();
        cluster.nodes[a.index()].checkpoint(&mut |record| log.push(record));
        cluster.logs[a.index()] = log;
    }
    // One of the others has received its Prepare, and one has not.
    cluster.deliver(a, far[0]);
    let fresh = node(a.0, 2, options(0, Metadata::Fast), 0);
    cluster.restart(a, fresh);
    assert!(is_at_rest(&mut cluster), "checkpoint {checkpoint}");
    for node in (0..4).map(NodeId) {
        assert_eq!(
            look(&mut cluster, node, 2),
            [7, 7],
            "checkpoint {checkpoint}"
        );
    }
    // Another restart, after everything is over, applies nothing twice.
    let fresh = node(a.0, 2, options(0, Metadata::Fast), 0);
    cluster.restart(a, fresh);
    assert!(is_at_rest(&mut cluster), "checkpoint {checkpoint}");
}

/// A restarted coordinator finishes the transactions that it has acknowledged, from its log or a checkpoint.
#[test]
fn a_restarted_coordinator_finishes_what_it_has_acknowledged() {
    restarted_coordinator_finishes(false);
    restarted_coordinator_finishes(true);
}

/// The same where the coordinator has no write of its own: its log has only the intent.
#[test]
fn a_write_is_durable_before_any_owner_is_asked() {
    let mut cluster = clusters(2, 0, Metadata::Fast);
    cluster.keep_logs();
    let (a, near) = (owner(0, 0, 2), owner(1, 0, 2));
    let writer = cluster.begin(a);
    let effects = vec![on(1, vec![update(SET, 1, 0, 7)])];
    cluster.request(writer, Request::Commit(effects));
    deliver_among(&mut cluster, &[a, near]);
    assert!(is_committed(cluster.take_reply(writer)));
    cluster.restart(a, node(a.0, 2, options(0, Metadata::Fast), 0));
    assert!(is_at_rest(&mut cluster));
    for node in (0..4).map(NodeId) {
        assert_eq!(look(&mut cluster, node, 2), [0, 7]);
    }
}

/// A participant in doubt inquires; no other one promises never to prepare a transaction that may have been
/// acknowledged.
#[test]
fn what_has_been_acknowledged_is_never_given_up() {
    let mut cluster = clusters(2, 0, Metadata::Fast);
    let a = owner(0, 0, 2);
    let writer = write(&mut cluster, a, 7);
    deliver_among(&mut cluster, &[0, 2].map(NodeId));
    assert!(is_committed(cluster.take_reply(writer)));
    cluster.deliver(a, NodeId(1));
    // Each inquires of all others, but the coordinator's Prepare to the last has not arrived.
    for _ in 0..4 {
        cluster.advance(AFTER);
        deliver_but(&mut cluster, &[(a, NodeId(3))]);
    }
    assert_eq!(prepared(&cluster), [1, 1, 1, 0]);
    assert!(is_at_rest(&mut cluster));
    assert_eq!(look(&mut cluster, NodeId(3), 2), [7, 7]);
}

/// A participant that misses the Commit learns the outcome from another one that has installed it.
#[test]
fn an_owner_that_installed_it_answers_inquiries() {
    let mut cluster = clusters(2, 1, Metadata::Fast);
    let a = owner(0, 0, 2);
    write(&mut cluster, a, 7);
    for node in [1, 2, 3].map(NodeId) {
        cluster.deliver(a, node);
        cluster.deliver(node, a);
    }
    cluster.deliver(a, NodeId(1));
    let others = [1, 2, 3].map(NodeId);
    for _ in 0..2 {
        cluster.advance(AFTER);
        deliver_among(&mut cluster, &others);
    }
    assert_eq!(
        prepared(&cluster),
        [0, 0, 0, 0],
        "without a message of the coordinator"
    );
    assert!(is_at_rest(&mut cluster));
}

/// Two hours: twice as far ahead as a clock may be.
pub(crate) const TOO_FAR: Ticks = Ticks::from_millis(2 * 3_600_000);

/// A refusal that arrives before the client is answered aborts the transaction, durably: nothing stays prepared
/// although the coordinator crashes before it has sent any Abort.
#[test]
fn a_refusal_before_the_answer_aborts_everywhere() {
    for crashes in [false, true] {
        let mut cluster = clusters(2, 1, Metadata::Fast);
        cluster.keep_logs();
        let a = owner(0, 0, 2);
        // The other node of its cluster accepts the coordinator's clock, the other cluster does not.
        for node in [0, 2] {
            cluster.skew[node] = TOO_FAR;
        }
        let writer = write(&mut cluster, a, 7);
        cluster.deliver(a, NodeId(2));
        cluster.deliver(a, NodeId(1));
        assert_eq!(prepared(&cluster), [1, 0, 1, 0]);
        cluster.deliver(NodeId(1), a);
        let why = reason(cluster.take_reply(writer));
        assert!(matches!(why, AbortReason::Failed(error) if error.code == "58000"));
        if crashes {
            cluster.restart(a, node(a.0, 2, options(1, Metadata::Fast), 0));
        }
        assert!(is_at_rest(&mut cluster), "crashes {crashes}");
        assert_eq!(prepared(&cluster), [0, 0, 0, 0], "crashes {crashes}");
        assert_eq!(look(&mut cluster, NodeId(2), 2), [0, 0]);
    }
}

/// The coordinator's own partition refuses while Prepares are being sent: none is sent after that, since no Abort would
/// follow it.
#[test]
fn no_owner_is_asked_after_the_own_partition_has_refused() {
    for (own, valid) in [(0, 1), (1, 0)] {
        let mut cluster = clusters(2, 1, Metadata::Fast);
        let mut effects = [(own, REGISTER_MAX + 1), (valid, 7)];
        effects.sort_unstable();
        let effects = effects.map(|(part, value)| on(part, vec![update(SET, part, 0, value)]));
        let writer = cluster.begin(owner(own, 0, 2));
        cluster.request(writer, Request::Commit(effects.to_vec()));
        let why = reason(cluster.take_reply(writer));
        assert!(matches!(why, AbortReason::Failed(error) if error.code == "22003"));
        cluster.deliver_all();
        assert_eq!(prepared(&cluster), [0; 4], "partition {own} refuses");
        assert!(
            cluster.nodes.iter().all(RampNode::is_idle),
            "partition {own} refuses"
        );
    }
}

/// A refusal that arrives after the client is answered changes nothing: that owner is asked until it accepts.
#[test]
fn a_refusal_after_the_answer_is_retried() {
    let mut cluster = clusters(2, 0, Metadata::Fast);
    let a = owner(0, 0, 2);
    for node in [0, 2] {
        cluster.skew[node] = TOO_FAR;
    }
    let writer = write(&mut cluster, a, 7);
    deliver_among(&mut cluster, &[0, 2].map(NodeId));
    assert!(is_committed(cluster.take_reply(writer)));
    cluster.deliver_all();
    assert_eq!(
        prepared(&cluster),
        [1, 0, 1, 0],
        "the other cluster refuses"
    );
    cluster.advance(AFTER);
    cluster.deliver_all();
    assert_eq!(prepared(&cluster), [1, 0, 1, 0], "and again");
    // Its clock catches up, and it is asked again.
    for clock in &mut cluster.skew {
        *clock = Ticks(0);
    }
    cluster.advance(TOO_FAR);
    assert!(is_at_rest(&mut cluster));
    assert_eq!(look(&mut cluster, NodeId(1), 2), [7, 7]);
}

/// Each of two clusters has prepared what it has acknowledged, on a table with a unique index that neither write
/// touches. If such writers excluded each other, each cluster would refuse the other's write for ever.
#[test]
fn clusters_that_write_beside_a_unique_index_do_not_wait_for_each_other() {
    let node = |number| node_with_unique_index(number, 2, options(0, Metadata::Fast));
    let mut cluster = Cluster::new((0..4).map(node).collect());
    let writers = [(0, 7), (1, 8)].map(|(at, value)| write(&mut cluster, NodeId(at), value));
    for own in [[0, 2], [1, 3]] {
        deliver_among(&mut cluster, &own.map(NodeId));
    }
    for writer in writers {
        assert!(is_committed(cluster.take_reply(writer)));
    }
    assert!(is_at_rest(&mut cluster));
    for node in (0..4).map(NodeId) {
        assert_eq!(look(&mut cluster, node, 2), [8, 8], "{node}");
    }
}

/// Effects that another cluster could refuse are refused at once, with an error that names them, and leave nothing.
#[test]
fn effects_that_a_cluster_could_refuse_are_refused_by_name() {
    let alone = |effect| vec![on(0, vec![effect])];
    let guard = vec![PartitionEffects {
        guards: vec![0],
        ..on(0, vec![update(SET, 0, 0, 1)])
    }];
    let cases: [(Vec<PartitionEffects>, &str); 5] = [
        (alone(insert(0, 1, 1, 1)), "inserted"),
        (alone(delete(0, 1)), "deleted"),
        (alone(draw(0, 0, 0)), "return"),
        (alone(update(TAKE, 0, 0, 1)), "assign"),
        (guard, "guards"),
    ];
    let mut cluster = clusters(2, 0, Metadata::Fast);
    for (effects, words) in cases {
        let writer = cluster.begin(NodeId(0));
        match cluster.ask(writer, Request::Commit(effects)) {
            Reply::Aborted(AbortReason::Failed(error)) => {
                assert_eq!(error.code, "0A000");
                assert!(error.message.contains(words), "{words}: {}", error.message);
            }
            other => panic!("{words}: {other:?}"),
        }
    }
    assert_eq!(cluster.counters().messages, 0);
    assert!(cluster.nodes.iter().all(RampNode::is_idle));
}

/// Increments have the same sum in every cluster, and count once, also if a restarted coordinator sends all its
/// Prepares again.
#[test]
fn sums_are_the_same_everywhere() {
    for metadata in every() {
        let mut cluster = clusters(2, 0, metadata);
        cluster.keep_logs();
        let add = |amount| {
            [0, 1]
                .map(|part| on(part, vec![update(ADD, part, 0, amount)]))
                .to_vec()
        };
        for (at, amount) in [(0, 3), (1, 5), (0, -1)] {
            let writer = cluster.begin(owner(0, at, 2));
            cluster.request(writer, Request::Commit(add(amount)));
        }
        cluster.deliver_all();
        cluster.restart(NodeId(0), node(0, 2, options(0, metadata), 0));
        assert!(is_at_rest(&mut cluster), "{metadata:?}");
        for at in 0..4 {
            assert_eq!(
                look_counts(&mut cluster, NodeId(at), 2),
                [7, 7],
                "{metadata:?}"
            );
        }
    }
}

/// A Prepare that arrives again, long after the transaction has ended, is answered and leaves nothing.
#[test]
fn a_repeated_prepare_leaves_nothing() {
    let mut cluster = clusters(2, 0, Metadata::Fast);
    let (a, far) = (owner(0, 0, 2), NodeId(1));
    write(&mut cluster, a, 7);
    let Some(Stamped { message, .. }) = cluster.peek(a, far) else {
        panic!("no Prepare in flight");
    };
    assert!(matches!(message, Message::Prepare(_)));
    let again = |cluster: &mut Cluster<RampNode>| {
        let stamped = Stamped {
            stable: Timestamp::ZERO,
            exceptions: None,
            frontier: None,
            message: message.clone(),
        };
        cluster.inject(a, far, stamped);
    };
    cluster.deliver(a, far);
    again(&mut cluster);
    assert_eq!(cluster.nodes[far.index()].prepared(), 1, "once");
    assert!(is_at_rest(&mut cluster));
    again(&mut cluster);
    assert!(is_at_rest(&mut cluster), "while it is remembered");
    for _ in 0..3 {
        cluster.advance(Ticks(WINDOW.0 * 2));
        cluster.deliver_all();
        look(&mut cluster, far, 2);
    }
    again(&mut cluster);
    assert!(is_at_rest(&mut cluster), "when it is forgotten");
    assert_eq!(look(&mut cluster, far, 2), [7, 7]);
    assert_eq!(cluster.nodes[far.index()].counters().aborts, 0);
}
