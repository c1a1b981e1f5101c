//! Quorum operation (ramp.txt §6.2), step by step, with three replicas of two partitions. Nodes 0, 1 and 2 are the
//! replicas of partition 0, and 3, 4 and 5 those of partition 1. The near replicas of a client are those with its
//! node's number modulo 3.

use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{AbortReason, Reply, Request, TransactionId};
use anabranch_types::{NodeId, Ticks};

use crate::ramp::prepare_f::{
    AFTER, deliver_among, deliver_but, is_at_rest, node, node_with_unique_index, prepared, write,
};
use crate::ramp::scenarios::{is_committed, read_both, reason, registers, round};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

pub(crate) const PATIENCE: Ticks = Ticks::from_millis(20);

/// The coordinator of all that is written.
pub(crate) const W: NodeId = NodeId(0);
/// A reader's node; nodes 1 and 4 are its near replicas.
pub(crate) const R: NodeId = NodeId(1);

/// Further ahead than a clock may be.
const FAR: Ticks = Ticks::from_millis(2 * 3_600_000);

fn options() -> RampOptions {
    RampOptions {
        quorum: Some(PATIENCE),
        terminate_after: Some(Ticks::from_millis(100)),
        ..RampOptions::default()
    }
}

/// Participants do not ask each other about the outcome: the coordinator sends it to all of them.
fn without_termination() -> RampOptions {
    RampOptions {
        terminate_after: None,
        ..options()
    }
}

fn replicas() -> Cluster<RampNode> {
    replicas_with(options())
}

pub(crate) fn replicas_with(options: RampOptions) -> Cluster<RampNode> {
    Cluster::new((0..6).map(|n| node(n, 3, options, 8)).collect())
}

/// Lets these replicas prepare W's transaction, one after the other.
pub(crate) fn prepare(cluster: &mut Cluster<RampNode>, nodes: &[u16]) {
    for node in nodes {
        round(cluster, W, NodeId(*node));
    }
}

/// W writes 7 on both partitions. Replicas 0 and 1 of one partition and `others` of the other decide it; only 0 and 1
/// have installed it.
pub(crate) fn decided(cluster: &mut Cluster<RampNode>, others: [u16; 2]) {
    write(cluster, W, 7);
    prepare(cluster, &[1, others[0], others[1]]);
    cluster.deliver(W, R);
}

/// What a client of the node reads when everything is delivered.
fn look(cluster: &mut Cluster<RampNode>, at: NodeId) -> Vec<i64> {
    let reader = cluster.begin(at);
    registers(Some(cluster.ask(reader, Request::Read(read_both()))))
}

/// A majority of each partition's replicas decides, and no fewer. The client is answered when one replica of each has
/// installed it. A reader of other replicas gets the state before it, whole.
#[test]
fn a_majority_decides_and_one_replica_of_each_partition_answers() {
    let mut cluster = replicas_with(without_termination());
    let writer = write(&mut cluster, W, 7);
    prepare(&mut cluster, &[1, 3]);
    assert_eq!(
        prepared(&cluster),
        [1, 1, 0, 1, 0, 0],
        "one of three is none"
    );
    prepare(&mut cluster, &[4]);
    assert_eq!(prepared(&cluster), [0, 1, 0, 1, 1, 0], "W has installed it");
    assert!(
        !cluster.has_reply(writer),
        "no replica has installed the other partition's"
    );
    cluster.deliver(W, R);
    cluster.deliver(R, W);
    assert!(!cluster.has_reply(writer));
    cluster.deliver(W, NodeId(3));
    cluster.deliver(NodeId(3), W);
    assert!(is_committed(cluster.take_reply(writer)));
    assert_eq!(cluster.counters().early_answers, 1);
    let late = cluster.begin(NodeId(2));
    cluster.request(late, Request::Read(read_both()));
    deliver_among(&mut cluster, &[2, 5].map(NodeId));
    assert_eq!(
        registers(cluster.take_reply(late)),
        [0, 0],
        "not visible there yet"
    );
    cluster.request(late, Request::Commit(Vec::new()));
    assert!(is_at_rest(&mut cluster));
    for node in (0..6).map(NodeId) {
        assert_eq!(look(&mut cluster, node), [7, 7]);
    }
}

/// R's own replica has installed it, and the near replica of the other partition has not received it. Another replica
/// has it prepared, and installs it.
#[test]
fn a_reader_asks_another_replica_for_what_the_near_one_lacks() {
    let mut cluster = replicas();
    decided(&mut cluster, [3, 5]);
    let reader = cluster.begin(R);
    cluster.request(reader, Request::Read(read_both()));
    round(&mut cluster, R, NodeId(4));
    assert!(!cluster.has_reply(reader), "half of it is not enough");
    assert_eq!(cluster.counters().other_replicas, 1);
    round(&mut cluster, R, NodeId(3));
    assert_eq!(registers(cluster.take_reply(reader)), [7, 7]);
    cluster.request(reader, Request::Commit(Vec::new()));
    assert!(is_at_rest(&mut cluster));
}

/// No replica that R may ask has it yet: one that lacked it is asked again.
#[test]
fn a_replica_that_lacked_it_is_asked_again() {
    let mut cluster = replicas();
    decided(&mut cluster, [3, 5]);
    let reader = cluster.begin(R);
    cluster.request(reader, Request::Read(read_both()));
    round(&mut cluster, R, NodeId(4));
    // Nodes 3 and 5 stay silent. W's Prepare reaches node 4.
    cluster.advance(PATIENCE);
    cluster.deliver(W, NodeId(4));
    cluster.advance(PATIENCE);
    round(&mut cluster, R, NodeId(4));
    assert_eq!(registers(cluster.take_reply(reader)), [7, 7]);
    cluster.request(reader, Request::Commit(Vec::new()));
    assert!(is_at_rest(&mut cluster));
}

/// Of two replicas that lack something required, each is asked again: the first one may never get it.
#[test]
fn the_replica_asked_longest_ago_is_asked_first() {
    const V: NodeId = NodeId(2);
    let mut cluster = replicas();
    decided(&mut cluster, [3, 5]);
    write(&mut cluster, V, 8);
    for node in [1, 4, 5] {
        round(&mut cluster, V, NodeId(node));
    }
    cluster.deliver(V, R);
    // Node 4 never receives the first transaction, 3 not yet the second, and 5 is silent.
    let slow = [
        (NodeId(0), NodeId(4)),
        (NodeId(2), NodeId(3)),
        (NodeId(1), NodeId(5)),
    ];
    let reader = cluster.begin(R);
    cluster.request(reader, Request::Read(read_both()));
    deliver_but(&mut cluster, &slow);
    assert!(!cluster.has_reply(reader), "no replica has both");
    let slow = [(NodeId(0), NodeId(4)), (NodeId(1), NodeId(5))];
    for _ in 0..4 {
        cluster.advance(PATIENCE);
        deliver_but(&mut cluster, &slow);
    }
    assert_eq!(registers(cluster.take_reply(reader)), [8, 8]);
    cluster.request(reader, Request::Commit(Vec::new()));
    assert!(is_at_rest(&mut cluster));
}

/// The near replica of the other partition never receives what R's own replica has installed. A reader that has got
/// rows of the near one cannot go on, and begins with another replica the next time.
#[test]
fn a_reader_gets_past_a_replica_that_lags() {
    let mut cluster = replicas();
    decided(&mut cluster, [3, 5]);
    let slow = [(NodeId(0), NodeId(4))];
    let mut attempts = 0;
    loop {
        attempts += 1;
        let reader = cluster.begin(R);
        let [here, there]: [_; 2] = read_both().try_into().expect("two reads");
        cluster.request(reader, Request::Read(vec![there]));
        deliver_but(&mut cluster, &slow);
        let mut seen = registers(cluster.take_reply(reader));
        cluster.request(reader, Request::Read(vec![here]));
        deliver_but(&mut cluster, &slow);
        let reply = cluster.take_reply(reader);
        if let Some(Reply::Aborted(reason)) = &reply {
            assert_eq!(*reason, AbortReason::Fractured);
            assert!(attempts < 6, "no message brings it to node 4");
            continue;
        }
        seen.extend(registers(reply));
        assert_eq!(seen, [7, 7]);
        cluster.request(reader, Request::Commit(Vec::new()));
        break;
    }
    assert!(attempts > 1, "the near replica is asked first");
    assert!(is_at_rest(&mut cluster));
}

/// The near replica is silent: another one is asked as well, and the first answer counts. The reader reads on at the
/// replica whose rows it has, and the late answer of the other one is dropped.
#[test]
fn a_silent_replica_is_not_waited_for() {
    let mut cluster = replicas();
    let reader = cluster.begin(R);
    cluster.request(reader, Request::Read(vec![read_item(1, 0)]));
    cluster.advance(PATIENCE);
    assert_eq!(cluster.counters().other_replicas, 1);
    round(&mut cluster, R, NodeId(3));
    assert_eq!(registers(cluster.take_reply(reader)), [0]);
    cluster.request(
        reader,
        Request::Read(vec![read_item(1, 1), read_item(1, 2)]),
    );
    assert_eq!(
        cluster.under_way(R, NodeId(3)),
        1,
        "the replica that it has read"
    );
    round(&mut cluster, R, NodeId(4));
    assert!(
        !cluster.has_reply(reader),
        "an answer to the earlier request"
    );
    round(&mut cluster, R, NodeId(3));
    assert_eq!(registers(cluster.take_reply(reader)), [0, 0]);
    cluster.request(reader, Request::Commit(Vec::new()));
    assert!(is_at_rest(&mut cluster));
}

/// A near replica that has been silent is not asked first for a while: one read waits for it, and not every read.
#[test]
fn a_silent_replica_is_waited_for_once_in_a_while() {
    let mut cluster = replicas();
    let read = |cluster: &mut Cluster<RampNode>| {
        let reader = cluster.begin(R);
        cluster.request(reader, Request::Read(vec![read_item(1, 0)]));
        (reader, cluster.under_way(R, NodeId(4)))
    };
    let (first, _) = read(&mut cluster);
    cluster.advance(PATIENCE);
    round(&mut cluster, R, NodeId(3));
    assert_eq!(registers(cluster.take_reply(first)), [0]);
    // Node 4 has not yet received the first request.
    for _ in 0..3 {
        let (next, at_the_silent) = read(&mut cluster);
        assert_eq!(at_the_silent, 1, "nothing more is asked of it");
        let answered = [NodeId(3), NodeId(5)].map(|replica| {
            let asked = cluster.under_way(R, replica) > 0;
            if asked {
                round(&mut cluster, R, replica);
            }
            asked
        });
        assert!(answered.contains(&true));
        assert_eq!(registers(cluster.take_reply(next)), [0]);
        cluster.request(next, Request::Commit(Vec::new()));
    }
    assert_eq!(cluster.counters().other_replicas, 1, "one read has waited");
    // After a while it is asked again.
    cluster.advance(Ticks(PATIENCE.0 * 64));
    let (later, at_the_near) = read(&mut cluster);
    assert_eq!(at_the_near, 2);
    cluster.deliver_all();
    assert_eq!(registers(cluster.take_reply(later)), [0]);
    for transaction in [first, later] {
        cluster.request(transaction, Request::Commit(Vec::new()));
    }
    assert!(is_at_rest(&mut cluster));
}

/// The silent replica answers in the middle of the reader's second round: its answer includes nothing that the reader
/// has required since.
#[test]
fn a_late_answer_of_the_first_round_does_not_count_in_the_second() {
    let mut cluster = replicas();
    let writer = write(&mut cluster, W, 7);
    let reader = cluster.begin(NodeId(2));
    cluster.request(reader, Request::Read(read_both()));
    // Its near replicas are 2, which has installed nothing, and 5, which is silent: 3 is asked as well.
    prepare(&mut cluster, &[1, 3, 4]);
    cluster.deliver(W, NodeId(3));
    cluster.deliver(NodeId(3), W);
    assert!(is_committed(cluster.take_reply(writer)));
    cluster.advance(PATIENCE);
    round(&mut cluster, NodeId(2), NodeId(3));
    // Node 2 lacks the write on partition 0, and W has it. Node 5 now answers the first round.
    assert!(!cluster.has_reply(reader));
    round(&mut cluster, NodeId(2), NodeId(5));
    assert!(!cluster.has_reply(reader));
    cluster.deliver(NodeId(2), W);
    while cluster.under_way(W, NodeId(2)) > 0 {
        cluster.deliver(W, NodeId(2));
    }
    assert_eq!(registers(cluster.take_reply(reader)), [7, 7]);
    cluster.request(reader, Request::Commit(Vec::new()));
    assert!(is_at_rest(&mut cluster));
}

/// Only the replica whose rows a reader has got can give it more of that snapshot: when that one falls silent, the
/// reader restarts.
#[test]
fn a_reader_at_a_replica_that_falls_silent_restarts() {
    let mut cluster = replicas();
    let reader = cluster.begin(R);
    cluster.request(reader, Request::Read(vec![read_item(1, 0)]));
    round(&mut cluster, R, NodeId(4));
    assert_eq!(registers(cluster.take_reply(reader)), [0]);
    cluster.request(reader, Request::Read(vec![read_item(1, 1)]));
    for _ in 0..7 {
        cluster.advance(PATIENCE);
        assert!(!cluster.has_reply(reader));
    }
    for _ in 0..2 {
        cluster.advance(PATIENCE);
    }
    assert_eq!(reason(cluster.take_reply(reader)), AbortReason::Restarted);
    assert_eq!(cluster.under_way(R, NodeId(3)), 0);
    assert!(is_at_rest(&mut cluster));
}

/// A replica whose first answer took long is waited for four times as long: it is slow, and not silent.
#[test]
fn a_reader_at_a_slow_replica_waits_longer() {
    let mut cluster = replicas();
    let reader = cluster.begin(R);
    cluster.request(reader, Request::Read(vec![read_item(1, 0)]));
    for _ in 0..5 {
        cluster.advance(PATIENCE);
    }
    round(&mut cluster, R, NodeId(4));
    assert_eq!(registers(cluster.take_reply(reader)), [0]);
    cluster.request(reader, Request::Read(vec![read_item(1, 1)]));
    for time in 1..20 {
        cluster.advance(PATIENCE);
        assert!(!cluster.has_reply(reader), "{time} times as long");
    }
    for _ in 0..2 {
        cluster.advance(PATIENCE);
    }
    assert_eq!(reason(cluster.take_reply(reader)), AbortReason::Restarted);
    assert!(is_at_rest(&mut cluster));
}

/// A replica whose clock is far behind refuses. As long as a majority may accept, that stops no writer: the replica is
/// asked again until its clock is right, before the decision and after it.
#[test]
fn a_minority_that_refuses_stops_no_writer() {
    let mut cluster = replicas();
    for node in [0, 1, 3, 4] {
        cluster.skew[node] = FAR;
    }
    for (value, first) in [(7, [1, 2, 5]), (8, [5, 1, 3])] {
        let writer = write(&mut cluster, W, value);
        prepare(&mut cluster, &first);
        assert!(!cluster.has_reply(writer));
        deliver_among(&mut cluster, &[0, 1, 3, 4].map(NodeId));
        assert!(is_committed(cluster.take_reply(writer)), "{value}");
    }
    cluster.deliver_all();
    assert!(
        !cluster.nodes[0].is_idle(),
        "two replicas have refused both"
    );
    for node in [2, 5] {
        cluster.skew[node] = FAR;
    }
    assert!(is_at_rest(&mut cluster));
    for node in (0..6).map(NodeId) {
        assert_eq!(look(&mut cluster, node), [8, 8]);
    }
}

/// A majority of one partition's replicas refuses, whatever those of the other do: the transaction aborts everywhere.
#[test]
fn a_majority_that_refuses_aborts_the_transaction() {
    let mut cluster = replicas();
    for node in [0, 1, 3] {
        cluster.skew[node] = FAR;
    }
    let writer = write(&mut cluster, W, 7);
    prepare(&mut cluster, &[1, 3, 5]);
    assert!(!cluster.has_reply(writer), "one of three has refused");
    prepare(&mut cluster, &[2]);
    assert!(
        !cluster.has_reply(writer),
        "one of three, and one of the other three"
    );
    prepare(&mut cluster, &[4]);
    let refused = reason(cluster.take_reply(writer));
    assert!(matches!(refused, AbortReason::Failed(_)), "{refused:?}");
    cluster.deliver_all();
    assert_eq!(prepared(&cluster), [0; 6]);
    assert!(cluster.nodes.iter().all(RampNode::is_idle));
}

/// Two clients write to a table with a unique index that neither write touches, each at its own replica first, and the
/// third replica is away. If they excluded each other, neither could have a majority before that one returns.
#[test]
fn writers_beside_a_unique_index_do_not_wait_for_an_absent_replica() {
    let node = |number| node_with_unique_index(number, 3, options());
    let mut cluster = Cluster::new((0..6).map(node).collect());
    let writers = [(W, 7), (R, 8)].map(|(at, value)| write(&mut cluster, at, value));
    deliver_among(&mut cluster, &[0, 1, 3, 4].map(NodeId));
    for writer in writers {
        assert!(is_committed(cluster.take_reply(writer)));
    }
    assert!(is_at_rest(&mut cluster));
    for node in (0..6).map(NodeId) {
        assert_eq!(look(&mut cluster, node), [8, 8], "{node}");
    }
}

/// The clocks of W and of these replicas are further ahead than the others accept. R has refused, restarts, and is
/// asked again.
fn refused_and_asked_again(ahead: &[usize]) -> (Cluster<RampNode>, TransactionId) {
    let mut cluster = replicas();
    cluster.keep_logs();
    for node in ahead {
        cluster.skew[*node] = FAR;
    }
    let writer = write(&mut cluster, W, 7);
    prepare(&mut cluster, &[1]);
    cluster.restart(R, node(1, 3, options(), 0));
    cluster.deliver(R, W);
    assert!(!cluster.has_reply(writer), "one of three has refused");
    (cluster, writer)
}

/// A replica that has refused restarts with its clock set right, and accepts. From then on it counts as accepting: if
/// another one refuses, there is a majority all the same.
#[test]
fn a_replica_that_accepts_after_a_refusal_counts_as_accepting() {
    let (mut cluster, writer) = refused_and_asked_again(&[0, 3, 4]);
    cluster.skew[R.index()] = FAR;
    deliver_among(&mut cluster, &[W, R]);
    prepare(&mut cluster, &[2]);
    assert!(!cluster.has_reply(writer), "two of three have accepted");
    deliver_among(&mut cluster, &[0, 1, 3, 4].map(NodeId));
    assert!(is_committed(cluster.take_reply(writer)));
    for node in [2, 5] {
        cluster.skew[node] = FAR;
    }
    assert!(is_at_rest(&mut cluster));
    for node in (0..6).map(NodeId) {
        assert_eq!(look(&mut cluster, node), [7, 7]);
    }
}

/// The restarted replica refuses again, and the transaction aborts. It is not asked a second time for having refused
/// before its restart: by then its clock might be right, and no Abort would follow.
#[test]
fn a_replica_asked_at_its_restart_is_asked_once() {
    let (mut cluster, writer) = refused_and_asked_again(&[0, 3]);
    cluster.advance(AFTER);
    prepare(&mut cluster, &[2]);
    cluster.deliver(W, R);
    while cluster.under_way(R, W) > 0 {
        cluster.deliver(R, W);
    }
    let refused = reason(cluster.take_reply(writer));
    assert!(matches!(refused, AbortReason::Failed(_)), "{refused:?}");
    cluster.skew[R.index()] = FAR;
    cluster.deliver_all();
    assert_eq!(prepared(&cluster), [0; 6]);
    assert!(cluster.nodes.iter().all(RampNode::is_idle));
}

/// The coordinator crashes before its transaction is decided, or after its client was answered, and restarts: it goes
/// on, and in the end each replica has installed it.
#[test]
fn a_restarted_coordinator_finishes_its_intents() {
    for is_answered in [false, true] {
        let mut cluster = replicas();
        cluster.keep_logs();
        let writer = write(&mut cluster, W, 7);
        match is_answered {
            true => {
                let slow = [2, 5].map(|replica| (W, NodeId(replica)));
                deliver_but(&mut cluster, &slow);
                assert!(is_committed(cluster.take_reply(writer)));
            }
            false => prepare(&mut cluster, &[1]),
        }
        cluster.restart(W, node(0, 3, options(), 0));
        assert!(is_at_rest(&mut cluster), "answered {is_answered}");
        for node in (0..6).map(NodeId) {
            assert_eq!(look(&mut cluster, node), [7, 7], "answered {is_answered}");
        }
    }
}

/// A replica that crashes with a prepared transaction and restarts gets its Commit again.
#[test]
fn a_restarted_replica_gets_the_commit_again() {
    let mut cluster = replicas_with(without_termination());
    cluster.keep_logs();
    let writer = write(&mut cluster, W, 7);
    prepare(&mut cluster, &[1, 3, 4]);
    // Its Commit is in flight when it crashes, and the Prepare of node 5 was never delivered.
    cluster.restart(NodeId(3), node(3, 3, without_termination(), 0));
    cluster.restart(NodeId(5), node(5, 3, without_termination(), 0));
    assert!(is_at_rest(&mut cluster));
    assert!(is_committed(cluster.take_reply(writer)));
    for node in (0..6).map(NodeId) {
        assert_eq!(look(&mut cluster, node), [7, 7]);
    }
}
