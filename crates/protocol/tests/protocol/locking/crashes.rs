//! Crashes and recoveries, message by message. Each scenario runs twice: the node recovers from its log, and from
//! a checkpoint that it has written just before.

use anabranch_protocol::locking::{LockingNode, ReadLocks};
use anabranch_protocol::{AbortReason, Durable, PartitionRead, Reply, Request, TransactionId};
use anabranch_types::NodeId;

use crate::locking::{START, assert_idle, cluster, empty, node};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

const N0: NodeId = NodeId(0);
const N1: NodeId = NodeId(1);
const N2: NodeId = NodeId(2);

const NODES: u16 = 3;

/// What a node recovers from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Log,
    Checkpoint,
}

fn durable() -> Cluster<LockingNode> {
    let mut cluster = cluster(NODES, 3, ReadLocks::Long);
    cluster.keep_logs();
    cluster
}

/// Runs a scenario twice, with recovery from logs and from checkpoints; in the end no transaction is open.
fn both(story: impl Fn(&mut Cluster<LockingNode>, Memory)) {
    for from in [Memory::Log, Memory::Checkpoint] {
        let mut cluster = durable();
        story(&mut cluster, from);
        assert_idle(&cluster);
    }
}

/// A node crashes and recovers.
fn crash(cluster: &mut Cluster<LockingNode>, id: NodeId, from: Memory) {
    if from == Memory::Checkpoint {
        let mut records = Vec::new();
        cluster.nodes[id.index()].checkpoint(&mut |record| records.push(record));
        cluster.logs[id.index()] = records;
    }
    cluster.restart(id, node(id, NODES, empty(), ReadLocks::Long));
}

fn declare(cluster: &mut Cluster<LockingNode>, id: TransactionId, reads: Vec<PartitionRead>) {
    let reply = cluster.ask(id, Request::Declare(reads));
    assert!(matches!(reply, Reply::Declared), "{reply:?}");
}

/// The sums added to item 0 of these partitions.
fn counts<const N: usize>(cluster: &Cluster<LockingNode>, parts: [u16; N]) -> [i64; N] {
    parts.map(|part| {
        let read = read_item(part, 0).read;
        let fetched = cluster.nodes[usize::from(part)].store().fetch(&read, None);
        item(&fetched.unwrap()).unwrap().1 - START
    })
}

fn assert_restarted(reply: Option<Reply>) {
    let expected = matches!(reply, Some(Reply::Aborted(AbortReason::Restarted)));
    assert!(expected, "{reply:?} instead of an abort by a restart");
}

fn assert_committed(reply: Option<Reply>) {
    assert!(matches!(reply, Some(Reply::Committed { .. })), "{reply:?}");
}

/// Adds to an item on each of two partitions.
fn add(parts: [u16; 2], id: i64) -> Request {
    let each = parts.map(|part| on(part, vec![update(ADD, part, id, 5)]));
    Request::Commit(each.into())
}

/// A transaction of n0 that writes item 0 of partitions 1 and 2 and has read item 1 and a range of
/// partition 1, up to the `Prepare` of both.
fn to_the_votes(cluster: &mut Cluster<LockingNode>) -> TransactionId {
    let t = cluster.begin(N0);
    let locks = vec![
        for_write(read_item(1, 0)),
        read_item(1, 1),
        read_items(1, 2, 9),
        for_write(read_item(2, 0)),
    ];
    declare(cluster, t, locks);
    cluster.request(t, add([1, 2], 0));
    cluster.deliver(N0, N1);
    cluster.deliver(N0, N2);
    t
}

#[test]
fn all_locks_of_the_prepared_are_held_after_a_crash() {
    both(|cluster, from| {
        let t = to_the_votes(cluster);
        cluster.deliver(N1, N0);
        crash(cluster, N1, from);
        // All peers learn of it and answer; the other vote stays under way.
        for peer in [N0, N2] {
            cluster.deliver(N1, peer);
            cluster.deliver(N1, peer);
        }
        while cluster.under_way(N0, N1) > 0 {
            cluster.deliver(N0, N1);
        }
        while cluster.under_way(N2, N1) > 0 {
            cluster.deliver(N2, N1);
        }
        let others = [for_write(read_item(1, 0)), for_write(read_item(1, 1))];
        let waiting = others.map(|lock| {
            let id = cluster.begin(N1);
            cluster.request(id, Request::Declare(vec![lock]));
            id
        });
        let inserting = cluster.begin(N1);
        let insert = on(1, vec![insert_item(1, 5, 0, 0)]);
        cluster.request(inserting, Request::Commit(vec![insert]));
        let told = cluster.take_reply(inserting);
        assert!(
            matches!(told, Some(Reply::Aborted(AbortReason::Conflict))),
            "{told:?}: the span is held"
        );
        for id in waiting {
            assert!(!cluster.has_reply(id), "the locks of the prepared are held");
        }
        cluster.deliver_all();
        assert_committed(cluster.take_reply(t));
        assert_eq!(counts(cluster, [1, 2]), [5, 5]);
        for id in waiting {
            assert!(matches!(cluster.take_reply(id), Some(Reply::Declared)));
            cluster.request(id, Request::Abort);
        }
    });
}

#[test]
fn a_transaction_without_a_vote_aborts_when_the_participant_restarts() {
    both(|cluster, from| {
        let t = to_the_votes(cluster);
        // n1 has prepared, and its vote is lost.
        crash(cluster, N1, from);
        cluster.deliver_all();
        assert_restarted(cluster.take_reply(t));
        assert_eq!(counts(cluster, [1, 2]), [0, 0]);
    });
}

/// A read lock is lost with the incarnation that granted it. A transaction that relies on it must not be decided
/// after another transaction has got the lock.
#[test]
fn no_lock_is_granted_before_all_peers_have_answered() {
    both(|cluster, from| {
        let reader = cluster.begin(N0);
        declare(cluster, reader, vec![read_item(1, 0)]);
        crash(cluster, N1, from);
        let writers = [N1, N2].map(|at| {
            let id = cluster.begin(at);
            cluster.request(id, Request::Declare(vec![for_write(read_item(1, 0))]));
            id
        });
        // n2 learns of the restart, answers and sends a request; n0 has not learned of it.
        while let Some((from, to)) = cluster
            .busy_links()
            .into_iter()
            .find(|link| link.0 != N0 && link.1 != N0)
        {
            cluster.deliver(from, to);
        }
        for writer in writers {
            let told = cluster.take_reply(writer);
            let restarted = matches!(told, Some(Reply::Aborted(AbortReason::Restarted)));
            // Requests that n2 sent before went to the former incarnation.
            assert!(told.is_none() || restarted && writer.node == N2, "{told:?}");
        }
        cluster.deliver_all();
        assert!(matches!(
            cluster.take_reply(writers[0]),
            Some(Reply::Declared)
        ));
        cluster.request(writers[0], Request::Abort);
        cluster.request(reader, Request::Commit(Vec::new()));
        assert_restarted(cluster.take_reply(reader));
    });
}

#[test]
fn a_restarted_coordinator_presumes_abort() {
    both(|cluster, from| {
        let reader = cluster.begin(N0);
        declare(cluster, reader, vec![read_item(2, 2)]);
        to_the_votes(cluster);
        crash(cluster, N0, from);
        cluster.deliver_all();
        assert_idle(cluster);
        assert_eq!(counts(cluster, [1, 2]), [0, 0]);
        // All locks are released.
        let u = cluster.begin(N2);
        let reply = cluster.ask(u, add([1, 2], 0));
        assert_committed(Some(reply));
    });
}

#[test]
fn a_restarted_coordinator_sends_its_decisions_again() {
    both(|cluster, from| {
        let t = to_the_votes(cluster);
        cluster.deliver(N1, N0);
        cluster.deliver(N2, N0);
        assert_committed(cluster.take_reply(t));
        // n1 has committed, n2 does not know the decision, and n0 has no acknowledgement.
        cluster.deliver(N0, N1);
        crash(cluster, N0, from);
        cluster.deliver_all();
        assert_eq!(counts(cluster, [1, 2]), [5, 5]);
        assert_idle(cluster);
        crash(cluster, N0, from);
        // Its end was in a record that is not forced.
        let said = match from {
            Memory::Log => 2,
            Memory::Checkpoint => 1,
        };
        assert_eq!(cluster.under_way(N0, N1), said, "Returned, and Commit");
        cluster.deliver_all();
    });
}

/// The coordinator's own after-images are in the record of the decision.
#[test]
fn a_decision_and_its_own_part_are_durable_together() {
    both(|cluster, from| {
        let t = cluster.begin(N0);
        let reply = cluster.ask(t, add([0, 1], 0));
        assert_committed(Some(reply));
        let alone = cluster.begin(N0);
        let effects = on(0, vec![update(ADD, 0, 0, 2)]);
        let reply = cluster.ask(alone, Request::Commit(vec![effects]));
        assert_committed(Some(reply));
        for id in [N0, N1] {
            crash(cluster, id, from);
            cluster.deliver_all();
        }
        assert_eq!(counts(cluster, [0, 1]), [7, 5]);
    });
}

/// A record that is not forced may be lost: then the participant inquires again.
#[test]
fn an_abort_that_was_not_durable_is_inquired_again() {
    let mut cluster = durable();
    let t = to_the_votes(&mut cluster);
    crash(&mut cluster, N2, Memory::Log);
    cluster.deliver(N2, N0);
    assert_restarted(cluster.take_reply(t));
    cluster.deliver(N0, N1);
    crash(&mut cluster, N1, Memory::Log);
    assert_eq!(
        cluster.under_way(N1, N0),
        2,
        "it is prepared again: Returned and Inquire"
    );
    cluster.deliver_all();
    assert_idle(&cluster);
    assert_eq!(counts(&cluster, [1]), [0]);
}

/// Recovering nodes do not wait for each other in a cycle: `Noticed` needs no lock.
#[test]
fn all_nodes_may_restart_at_once() {
    both(|cluster, from| {
        let t = to_the_votes(cluster);
        cluster.deliver(N1, N0);
        cluster.deliver(N2, N0);
        assert_committed(cluster.take_reply(t));
        crash(cluster, N0, from);
        crash(cluster, N1, from);
        crash(cluster, N2, from);
        cluster.deliver_all();
        assert_eq!(counts(cluster, [1, 2]), [5, 5]);
    });
}

/// The simulator's seed 15048, message by message.
#[test]
fn an_inquiry_to_a_former_incarnation_is_repeated() {
    both(|cluster, from| {
        to_the_votes(cluster);
        crash(cluster, N0, from);
        // n1 learns of it, inquires, and answers `Noticed`; the reply is lost when n1 restarts.
        cluster.deliver(N0, N1);
        cluster.deliver(N0, N1);
        cluster.deliver(N1, N0);
        cluster.deliver(N1, N0);
        crash(cluster, N1, from);
        cluster.mistake_incarnation(N1, N0);
        cluster.deliver_all();
        assert_idle(cluster);
        assert_eq!(counts(cluster, [1, 2]), [0, 0]);
    });
}
