//! Causal RAMP (ramp.txt §6.3): a reader of a reply sees the comment that it answers. Each scenario first runs under
//! plain RAMP, which permits what causal RAMP forbids.

use std::sync::Arc;

use anabranch_protocol::ramp::core::message::{Message, Stamped};
use anabranch_protocol::ramp::recovery::record::RampRecord;
use anabranch_protocol::ramp::{Metadata, RampNode, RampOptions};
use anabranch_protocol::{
    AbortReason, Durable, PartitionEffects, PartitionRead, Record, Reply, Request, Session,
    Topology, TransactionId,
};
use anabranch_types::{NodeId, Ticks, Timestamp};

use crate::ramp::scenarios::{C1, C2, X, Y, is_committed, prepare, reason, registers};
use crate::ramp::{cluster_with, inexact};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

/// Owns the item of Sam's reply.
const Z: NodeId = NodeId(4);

const WINDOW: Ticks = Ticks::from_millis(500);

fn cluster(metadata: Metadata, causal: bool) -> Cluster<RampNode> {
    let options = RampOptions {
        causal,
        metadata,
        ..RampOptions::default()
    };
    cluster_with(6, WINDOW, options)
}

fn every() -> impl Iterator<Item = Metadata> {
    std::iter::once(Metadata::Fast).chain(inexact())
}

fn set(part: u16, value: i64) -> PartitionEffects {
    on(part, vec![update(SET, part, 0, value)])
}

fn look(part: u16) -> Vec<PartitionRead> {
    vec![read_item(part, 0)]
}

fn session(reply: Option<Reply>) -> Session {
    match reply {
        Some(Reply::Committed { session, .. }) => session,
        other => panic!("not committed: {other:?}"),
    }
}

/// Delivers the messages between two nodes until none is in flight.
fn talk(cluster: &mut Cluster<RampNode>, a: NodeId, b: NodeId) {
    while cluster.under_way(a, b) + cluster.under_way(b, a) > 0 {
        for (from, to) in [(a, b), (b, a)] {
            while cluster.under_way(from, to) > 0 {
                cluster.deliver(from, to);
            }
        }
    }
}

/// Reads at a node; delivers its messages with the owners alone.
fn read(
    cluster: &mut Cluster<RampNode>,
    reader: TransactionId,
    reads: Vec<PartitionRead>,
) -> Option<Reply> {
    let owners: Vec<u16> = reads.iter().map(|read| read.partition.0).collect();
    cluster.request(reader, Request::Read(reads));
    for _ in 0..4 {
        for owner in [0, 1, 2, 3, 4, 5].map(NodeId) {
            // Of the other nodes, only those of earlier requests are served.
            if owner != reader.node && (owners.contains(&owner.0) || owner.0 < 2) {
                talk(cluster, reader.node, owner);
            }
        }
    }
    cluster.take_reply(reader)
}

/// X was recently read in an older snapshot, so its version history is retained.
fn retain_history_of_x(cluster: &mut Cluster<RampNode>) {
    let reader = cluster.begin(NodeId(5));
    assert_eq!(registers(read(cluster, reader, vec![read_item(0, 3)])), [0]);
    let writer = cluster.begin(C1);
    let effects = vec![on(0, vec![update(SET, 0, 4, 1)])];
    cluster.request(writer, Request::Commit(effects));
    talk(cluster, C1, X);
    assert!(is_committed(cluster.take_reply(writer)));
    let late = read(cluster, reader, vec![read_item(0, 5)]);
    assert_eq!(reason(late), AbortReason::BelowFloor);
}

/// Mary (at C1) writes on X and Y; only X has received the `Commit`.
fn mary_comments(cluster: &mut Cluster<RampNode>) -> TransactionId {
    let mary = cluster.begin(C1);
    cluster.request(mary, Request::Commit(vec![set(0, 1), set(1, 1)]));
    prepare(cluster, C1, &[X, Y]);
    cluster.deliver(C1, X);
    mary
}

/// Sam (at C2) reads Mary's comment on X, and replies on Z.
fn sam_replies(cluster: &mut Cluster<RampNode>) -> Session {
    let sam = cluster.begin(C2);
    assert_eq!(registers(read(cluster, sam, look(0))), [1]);
    cluster.request(sam, Request::Commit(vec![set(4, 2)]));
    talk(cluster, C2, Z);
    session(cluster.take_reply(sam))
}

/// A third client, at node 5, sees the reply on Z, and reads the comment at Y, whose `Commit` is still in flight
/// (§4.7).
#[test]
fn a_reader_of_the_reply_sees_the_comment() {
    for metadata in every() {
        for causal in [false, true] {
            let mut cluster = cluster(metadata, causal);
            mary_comments(&mut cluster);
            sam_replies(&mut cluster);
            let reader = cluster.begin(NodeId(5));
            let both = vec![read_item(1, 0), read_item(4, 0)];
            let seen = registers(read(&mut cluster, reader, both));
            let comment = i64::from(causal);
            assert_eq!(seen, [comment, 2], "{metadata:?}, causal {causal}");
            cluster.request(reader, Request::Commit(Vec::new()));
            assert!(is_committed(cluster.take_reply(reader)));
            cluster.deliver_all();
            assert!(cluster.nodes.iter().all(RampNode::is_idle), "{metadata:?}");
        }
    }
}

/// The same for a reader that has read Y before the comment was there: it cannot be given both, and restarts. A reader
/// of another item of Y misses nothing.
#[test]
fn a_reader_from_before_the_comment_does_not_see_the_reply() {
    for metadata in every() {
        for (item, causal) in [(0, false), (0, true), (1, true)] {
            let mut cluster = cluster(metadata, causal);
            let reader = cluster.begin(NodeId(5));
            let before = registers(read(&mut cluster, reader, vec![read_item(1, item)]));
            assert_eq!(before, [0]);
            mary_comments(&mut cluster);
            sam_replies(&mut cluster);
            let reply = read(&mut cluster, reader, look(4));
            let what = format!("{metadata:?}, causal {causal}, item {item}");
            if causal && item == 0 {
                assert_eq!(reason(reply), AbortReason::Fractured, "{what}");
            } else {
                assert_eq!(registers(reply), [2], "{what}");
            }
        }
    }
}

/// The comment is on one partition alone, so no causal context names it; and it is stable when Sam replies. A reader
/// from before it restarts all the same.
#[test]
fn a_reader_from_before_a_comment_of_one_partition_does_not_see_the_reply() {
    for metadata in every() {
        for (item, causal) in [(0, false), (0, true), (1, true)] {
            let mut cluster = cluster(metadata, causal);
            let reader = cluster.begin(NodeId(5));
            retain_history_of_x(&mut cluster);
            let before = registers(read(&mut cluster, reader, vec![read_item(0, item)]));
            assert_eq!(before, [0]);
            let mary = cluster.begin(C1);
            cluster.request(mary, Request::Commit(vec![set(0, 1)]));
            talk(&mut cluster, C1, X);
            assert!(is_committed(cluster.take_reply(mary)));
            sam_replies(&mut cluster);
            // The reader also reads on in the comment's partition. It is not enough that the rows it reads there now
            // have not changed.
            let reads = vec![read_item(0, 2), read_item(4, 0)];
            let reply = read(&mut cluster, reader, reads);
            let what = format!("{metadata:?}, causal {causal}, item {item}");
            if causal && item == 0 {
                assert_eq!(reason(reply), AbortReason::Fractured, "{what}");
            } else {
                assert_eq!(registers(reply), [0, 2], "{what}");
            }
        }
    }
}

/// All participants have acknowledged Sam's reply, and not yet the comment that it depends on: a reader must learn of
/// the comment all the same. So no transaction counts as stable before its dependencies do.
#[test]
fn a_reply_is_not_stable_before_the_comment_is() {
    for metadata in every() {
        for causal in [false, true] {
            let mut cluster = cluster(metadata, causal);
            mary_comments(&mut cluster);
            // Sam replies on two partitions, Z and node 5's own, and both acknowledge it.
            let sam = cluster.begin(C2);
            assert_eq!(registers(read(&mut cluster, sam, look(0))), [1]);
            cluster.request(sam, Request::Commit(vec![set(4, 2), set(5, 2)]));
            for owner in [Z, NodeId(5), Z, NodeId(5)] {
                talk(&mut cluster, C2, owner);
            }
            assert!(is_committed(cluster.take_reply(sam)));
            // Node 5 learns that with the next message of Sam's node.
            let again = cluster.begin(C2);
            cluster.request(again, Request::Read(look(5)));
            talk(&mut cluster, C2, NodeId(5));
            let reader = cluster.begin(NodeId(5));
            let both = vec![read_item(1, 0), read_item(4, 0)];
            let seen = registers(read(&mut cluster, reader, both));
            let comment = i64::from(causal);
            assert_eq!(seen, [comment, 2], "{metadata:?}, causal {causal}");
        }
    }
}

/// A causal context does not name stable transactions. Nor does it name a comment on one partition that such a
/// transaction depends on, and that its writer brought along from another node. A reader that has read before all of
/// them, and then reads a reply, restarts all the same: reports of stable transactions carry the sequences of owners.
#[test]
fn stability_reports_carry_the_sequences_of_owners() {
    for metadata in every() {
        for causal in [false, true] {
            let mut cluster = cluster(metadata, causal);
            let reader = cluster.begin(NodeId(5));
            let before = registers(read(&mut cluster, reader, look(0)));
            assert_eq!(before, [0]);
            let mary = cluster.begin(C1);
            cluster.request(mary, Request::Commit(vec![set(0, 1)]));
            talk(&mut cluster, C1, X);
            let wrote = session(cluster.take_reply(mary));
            let next = cluster.begin(C2);
            cluster.request(next, Request::Follow(wrote));
            cluster.request(next, Request::Commit(vec![set(1, 2), set(4, 2)]));
            for owner in [Y, Z, Y, Z] {
                talk(&mut cluster, C2, owner);
            }
            assert!(is_committed(cluster.take_reply(next)));
            cluster.advance(RampOptions::default().announce_after);
            talk(&mut cluster, C2, Y);
            // Ann, at Y, reads it there, and replies on Z.
            let ann = cluster.begin(Y);
            assert_eq!(registers(read(&mut cluster, ann, look(1))), [2]);
            let reply = on(4, vec![update(SET, 4, 1, 3)]);
            cluster.request(ann, Request::Commit(vec![reply]));
            talk(&mut cluster, Y, Z);
            assert!(is_committed(cluster.take_reply(ann)));
            let reply = read(&mut cluster, reader, vec![read_item(4, 1)]);
            match causal {
                true => assert_eq!(reason(reply), AbortReason::Fractured, "{metadata:?}"),
                false => assert_eq!(registers(reply), [3], "{metadata:?}"),
            }
        }
    }
}

/// A node without rows, as it is when a restart begins.
fn fresh(node: NodeId, metadata: Metadata) -> RampNode {
    let topology = Arc::new(Topology::one_each(6));
    let store = store(node.0, 0, WINDOW).emptied();
    let options = RampOptions {
        causal: true,
        metadata,
        ..RampOptions::default()
    };
    RampNode::new(node, topology, store, programs(), options)
}

/// C2 restarts, from a checkpoint or from its log.
fn restart_c2(cluster: &mut Cluster<RampNode>, metadata: Metadata, checkpoint: bool) {
    if checkpoint {
        let log = &mut cluster.logs[C2.index()];
        log.clear();
        cluster.nodes[C2.index()].checkpoint(&mut |record| log.push(record));
    }
    cluster.restart(C2, fresh(C2, metadata));
}

/// Sam's node restarts, from a checkpoint or from its log, after all participants have acknowledged his reply. It does
/// not report the reply as stable, for the comment that it depends on is not.
#[test]
fn a_restarted_node_knows_its_dependencies() {
    for metadata in every() {
        for checkpoint in [false, true] {
            let mut cluster = cluster(metadata, true);
            cluster.keep_logs();
            mary_comments(&mut cluster);
            let sam = cluster.begin(C2);
            assert_eq!(registers(read(&mut cluster, sam, look(0))), [1]);
            cluster.request(sam, Request::Commit(vec![set(4, 2), set(5, 2)]));
            for owner in [Z, NodeId(5), Z, NodeId(5)] {
                talk(&mut cluster, C2, owner);
            }
            assert!(is_committed(cluster.take_reply(sam)));
            write_something(&mut cluster, C2);
            restart_c2(&mut cluster, metadata, checkpoint);
            talk(&mut cluster, C2, NodeId(5));
            let reader = cluster.begin(NodeId(5));
            let both = vec![read_item(1, 0), read_item(4, 0)];
            let seen = registers(read(&mut cluster, reader, both));
            assert_eq!(seen, [1, 2], "{metadata:?}, checkpoint {checkpoint}");
            cluster.deliver_all();
        }
    }
}

/// The coordinator of a comment restarts after all participants have acknowledged it, and reports it as stable. It
/// still knows the owners' sequences: a client reads the comment on Z and replies, and a reader that has read Y before
/// the comment does not see the reply.
#[test]
fn a_restarted_node_knows_the_sequences_of_owners() {
    for metadata in every() {
        for checkpoint in [false, true] {
            let mut cluster = cluster(metadata, true);
            cluster.keep_logs();
            let reader = cluster.begin(C1);
            assert_eq!(registers(read(&mut cluster, reader, look(1))), [0]);
            let mary = cluster.begin(C2);
            cluster.request(mary, Request::Commit(vec![set(1, 2), set(4, 2)]));
            for owner in [Y, Z, Y, Z] {
                talk(&mut cluster, C2, owner);
            }
            assert!(is_committed(cluster.take_reply(mary)));
            write_something(&mut cluster, C2);
            restart_c2(&mut cluster, metadata, checkpoint);
            talk(&mut cluster, C2, NodeId(5));
            let ann = cluster.begin(NodeId(5));
            assert_eq!(registers(read(&mut cluster, ann, look(4))), [2]);
            cluster.request(ann, Request::Commit(vec![set(5, 3)]));
            assert!(is_committed(cluster.take_reply(ann)));
            let reply = read(&mut cluster, reader, look(5));
            let what = format!("{metadata:?}, checkpoint {checkpoint}");
            assert_eq!(reason(reply), AbortReason::Fractured, "{what}");
        }
    }
}

/// Writes on the node's own partition, so that all earlier records of its log are durable.
fn write_something(cluster: &mut Cluster<RampNode>, node: NodeId) {
    let writer = cluster.begin(node);
    cluster.request(writer, Request::Commit(vec![set(node.0, 9)]));
    assert!(is_committed(cluster.take_reply(writer)));
}

/// A client that takes its session to another node finds there what it has seen; a client without a session may not.
#[test]
fn a_client_takes_its_causal_context_to_another_node() {
    for metadata in every() {
        for brings in [false, true] {
            let mut cluster = cluster(metadata, true);
            mary_comments(&mut cluster);
            let sam = cluster.begin(C2);
            assert_eq!(registers(read(&mut cluster, sam, look(0))), [1]);
            cluster.request(sam, Request::Commit(Vec::new()));
            let seen = session(cluster.take_reply(sam));
            assert!(!seen.is_empty());
            let next = cluster.begin(NodeId(5));
            if brings {
                cluster.request(next, Request::Follow(seen));
            }
            let found = registers(read(&mut cluster, next, look(1)));
            assert_eq!(found, [i64::from(brings)], "{metadata:?}");
        }
    }
}

/// The same, where the other node owns an item of the comment: it has the comment prepared, and installs it.
#[test]
fn a_node_installs_what_a_client_has_seen_elsewhere() {
    let mut cluster = cluster(Metadata::Fast, true);
    mary_comments(&mut cluster);
    let sam = cluster.begin(C2);
    assert_eq!(registers(read(&mut cluster, sam, look(0))), [1]);
    cluster.request(sam, Request::Commit(Vec::new()));
    let seen = session(cluster.take_reply(sam));
    let next = cluster.begin(Y);
    cluster.request(next, Request::Follow(seen));
    cluster.request(next, Request::Read(look(1)));
    assert_eq!(registers(cluster.take_reply(next)), [1]);
    cluster.deliver_all();
}

/// With one-phase writes a client that changes nodes with its session reads what it wrote. Its next write commits above
/// the first, whatever the clocks show.
#[test]
fn one_phase_writes_are_read_by_a_client_that_brings_them() {
    for metadata in every() {
        let options = RampOptions {
            causal: true,
            one_phase: true,
            metadata,
            ..RampOptions::default()
        };
        let mut cluster = cluster_with(6, WINDOW, options);
        cluster.skew[C1.index()] = Ticks::from_millis(10);
        let writer = cluster.begin(C1);
        cluster.request(writer, Request::Commit(vec![set(0, 7), set(1, 7)]));
        prepare(&mut cluster, C1, &[X, Y]);
        let wrote = session(cluster.take_reply(writer));
        let next = cluster.begin(C2);
        cluster.request(next, Request::Follow(wrote.clone()));
        let seen = registers(read(&mut cluster, next, look(0)));
        assert_eq!(seen, [7], "{metadata:?}");
        // Y has it prepared, with a timestamp below that of its commit.
        let over = cluster.begin(C2);
        cluster.request(over, Request::Follow(wrote));
        cluster.request(over, Request::Commit(vec![set(1, 8)]));
        talk(&mut cluster, C2, Y);
        assert!(is_committed(cluster.take_reply(over)));
        cluster.deliver_all();
        let last = cluster.begin(C2);
        let seen = registers(read(&mut cluster, last, look(1)));
        assert_eq!(seen, [8], "{metadata:?}");
    }
}

/// A writer with more dependencies than a message may name is aborted until fewer are in flight; a reader is not.
#[test]
fn too_many_dependencies_abort_a_writer() {
    let options = RampOptions {
        causal: true,
        dependencies_max: 1,
        ..RampOptions::default()
    };
    let mut cluster = cluster_with(6, WINDOW, options);
    mary_comments(&mut cluster);
    // A second transaction in flight, on another item.
    let other = cluster.begin(NodeId(5));
    let of = |part| on(part, vec![update(SET, part, 1, 1)]);
    cluster.request(other, Request::Commit(vec![of(0), of(1)]));
    prepare(&mut cluster, NodeId(5), &[X, Y]);
    cluster.deliver(NodeId(5), X);
    let sam = cluster.begin(C2);
    let both = vec![read_item(0, 0), read_item(0, 1)];
    assert_eq!(registers(read(&mut cluster, sam, both.clone())), [1, 1]);
    cluster.request(sam, Request::Commit(vec![set(4, 2)]));
    assert_eq!(reason(cluster.take_reply(sam)), AbortReason::Conflict);
    let only = cluster.begin(C2);
    assert_eq!(registers(read(&mut cluster, only, both.clone())), [1, 1]);
    cluster.request(only, Request::Commit(Vec::new()));
    assert!(is_committed(cluster.take_reply(only)));
    cluster.deliver_all();
    // The owners learn that both are stable. C2 is no participant, and learns it from the owners.
    cluster.advance(RampOptions::default().announce_after);
    cluster.deliver_all();
    let again = cluster.begin(C2);
    assert_eq!(registers(read(&mut cluster, again, both)), [1, 1]);
    cluster.request(again, Request::Commit(vec![set(4, 2)]));
    cluster.deliver_all();
    assert!(is_committed(cluster.take_reply(again)));
}

/// How many transactions a node remembers: for readers, and until their dependencies are stable.
fn kept(cluster: &Cluster<RampNode>, node: NodeId) -> (usize, usize) {
    let mut kept = (0, 0);
    cluster.nodes[node.index()].checkpoint(&mut |record| {
        if let Record::Ramp(RampRecord::Stability(known)) = record {
            kept = (known.recent.len(), known.waiting.len());
        }
    });
    kept
}

/// A transaction that reads and writes on its node's own partition.
fn commit_locally(cluster: &mut Cluster<RampNode>, node: NodeId, value: i64) {
    let local = cluster.begin(node);
    cluster.request(local, Request::Read(look(node.0)));
    registers(cluster.take_reply(local));
    cluster.request(local, Request::Commit(vec![set(node.0, value)]));
    assert!(is_committed(cluster.take_reply(local)));
}

/// Sam's node has seen Mary's comment once, and from then on works by itself. It participates in no transaction of her
/// node, and no message reports that the comment is stable: it asks. Its own transactions are remembered for as long as
/// readers may need them, and no longer.
#[test]
fn a_node_asks_about_dependencies_that_no_message_reports() {
    for metadata in every() {
        let mut cluster = cluster(metadata, true);
        cluster.keep_logs();
        mary_comments(&mut cluster);
        let sam = cluster.begin(C2);
        assert_eq!(registers(read(&mut cluster, sam, look(0))), [1]);
        cluster.request(sam, Request::Commit(vec![set(C2.0, 2)]));
        assert!(is_committed(cluster.take_reply(sam)));
        for owner in [Y, X] {
            talk(&mut cluster, C1, owner);
        }
        let mut most = (0, 0);
        for n in 0..2_000 {
            commit_locally(&mut cluster, C2, n);
            cluster.advance(Ticks::from_millis(1));
            cluster.deliver_all();
            let (recent, waiting) = kept(&cluster, C2);
            most = (most.0.max(recent), most.1.max(waiting));
        }
        // One a millisecond, kept for `retain` of 500 ms; they wait 50 ms for their dependency.
        assert!(most.0 < 700 && most.1 < 70, "{metadata:?}: {most:?}");
        assert!(most.0 > 400 && most.1 > 40, "{metadata:?}: {most:?}");
        assert_eq!(kept(&cluster, C2).1, 0, "{metadata:?}");
    }
}

/// Her node is asked before the comment is stable, and answers when it is. If it crashes meanwhile, it is asked again.
#[test]
fn a_node_asked_too_early_answers_later() {
    for crashes in [false, true] {
        let mut cluster = cluster(Metadata::Fast, true);
        cluster.keep_logs();
        mary_comments(&mut cluster);
        let sam = cluster.begin(C2);
        assert_eq!(registers(read(&mut cluster, sam, look(0))), [1]);
        cluster.request(sam, Request::Commit(vec![set(C2.0, 2)]));
        assert!(is_committed(cluster.take_reply(sam)));
        let patience = RampOptions::default().await_after;
        cluster.advance(patience);
        talk(&mut cluster, C1, C2);
        assert_eq!(kept(&cluster, C2).1, 1, "Y has not acknowledged");
        if crashes {
            cluster.restart(C1, fresh(C1, Metadata::Fast));
            while cluster.busy_links().contains(&(C1, C2)) {
                cluster.deliver(C1, C2);
            }
            assert_eq!(kept(&cluster, C2).1, 1, "its answer is lost");
            cluster.advance(patience);
        }
        for other in [Y, X, Y, X] {
            while cluster.busy_links().contains(&(C1, other))
                || cluster.busy_links().contains(&(other, C1))
            {
                match cluster.busy_links().contains(&(C1, other)) {
                    true => cluster.deliver(C1, other),
                    false => cluster.deliver(other, C1),
                }
            }
        }
        talk(&mut cluster, C2, C1);
        cluster.advance(RampOptions::default().announce_after);
        talk(&mut cluster, C1, C2);
        assert_eq!(kept(&cluster, C2).1, 0, "crashes {crashes}");
    }
}

/// An `Await` for a transaction of another node, or for one that was never issued, is dropped.
#[test]
fn no_node_waits_for_a_transaction_that_never_was() {
    let mut cluster = cluster(Metadata::Fast, true);
    let never = [
        Timestamp::new(1, C2),
        Timestamp::new(u64::MAX >> 20, C1),
        Timestamp::new(1, C1),
    ];
    for commit in never {
        let stamped = Stamped {
            stable: Timestamp::ZERO,
            exceptions: None,
            frontier: None,
            message: Message::Await { commit },
        };
        cluster.inject(C2, C1, stamped);
    }
    assert!(cluster.busy_links().is_empty());
    write_something(&mut cluster, C1);
    cluster.advance(Ticks::from_millis(1_000));
    assert!(cluster.busy_links().is_empty(), "no message is sent");
}

/// A participant of the comment has known it to be stable for so long that it has forgotten it, and restarts. It still
/// reports the comment as stable, and the sequences of its owners. A reader by a slow clock, which has read Y before
/// the comment, restarts when it meets a reply to it.
#[test]
fn a_restarted_node_knows_the_sequences_of_owners_of_forgotten_transactions() {
    for metadata in every() {
        let mut cluster = cluster(metadata, true);
        cluster.keep_logs();
        let reader = cluster.begin(NodeId(5));
        assert_eq!(registers(read(&mut cluster, reader, look(1))), [0]);
        let mary = cluster.begin(C1);
        let comment = vec![set(1, 1), set(C2.0, 1)];
        cluster.request(mary, Request::Commit(comment));
        for owner in [Y, C2, Y, C2] {
            talk(&mut cluster, C1, owner);
        }
        assert!(is_committed(cluster.take_reply(mary)));
        cluster.advance(RampOptions::default().announce_after);
        talk(&mut cluster, C1, C2);
        write_something(&mut cluster, C2);
        cluster.skew[C2.index()] = Ticks::from_millis(600);
        let forced = cluster.begin(C2);
        let other = on(C2.0, vec![update(SET, C2.0, 5, 9)]);
        cluster.request(forced, Request::Commit(vec![other]));
        assert!(is_committed(cluster.take_reply(forced)));
        let settled = |record: &Record| matches!(record, Record::Ramp(RampRecord::Settled { .. }));
        assert!(cluster.logs[C2.index()].iter().any(settled));
        restart_c2(&mut cluster, metadata, false);
        let ann = cluster.begin(C2);
        cluster.request(ann, Request::Read(look(C2.0)));
        assert_eq!(registers(cluster.take_reply(ann)), [9]);
        while cluster.busy_links().contains(&(C2, Z)) {
            cluster.deliver(C2, Z);
        }
        cluster.request(ann, Request::Commit(vec![set(Z.0, 3)]));
        talk(&mut cluster, C2, Z);
        assert!(is_committed(cluster.take_reply(ann)));
        let seen = read(&mut cluster, reader, look(Z.0));
        assert_eq!(reason(seen), AbortReason::Fractured, "{metadata:?}");
    }
}
