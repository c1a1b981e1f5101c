//! Cooperative termination (ramp.txt §4.6), step by step: the outcome of prepared transactions whose coordinator stays
//! away.

use std::sync::Arc;

use anabranch_protocol::ramp::{Metadata, RampNode, RampOptions};
use anabranch_protocol::{AbortReason, Protocol, Reply, Request, Topology};
use anabranch_types::{NodeId, Ticks};

use crate::ramp::scenarios::{
    C1, C2, X, Y, is_committed, prepare, read_both, reason, registers, set_both,
};
use crate::ramp::{cluster_with, inexact};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

const AFTER: Ticks = Ticks::from_millis(100);
const WINDOW: Ticks = Ticks::from_millis(5_000);

fn options() -> RampOptions {
    RampOptions {
        terminate_after: Some(AFTER),
        ..RampOptions::default()
    }
}

fn cluster() -> Cluster<RampNode> {
    cluster_with(4, WINDOW, options())
}

/// A node without rows, as it is when a restart begins.
fn fresh(node: NodeId) -> RampNode {
    let topology = Arc::new(Topology::one_each(4));
    let store = store(node.0, 0, WINDOW).emptied();
    RampNode::new(node, topology, store, programs(), options())
}

/// Delivers everything but the messages from and to one node, which is away.
fn deliver_without(cluster: &mut Cluster<RampNode>, away: NodeId) {
    loop {
        let mut busy = cluster.busy_links().into_iter();
        let Some((from, to)) = busy.find(|(from, to)| ![*from, *to].contains(&away)) else {
            return;
        };
        cluster.deliver(from, to);
    }
}

/// Advances time, and then delivers everything but the messages of one node, which is away.
fn pass(cluster: &mut Cluster<RampNode>, time: Ticks, away: NodeId) {
    cluster.advance(time);
    deliver_without(cluster, away);
}

/// Reads both items at a node, and ends the reader.
fn look(cluster: &mut Cluster<RampNode>, node: NodeId, away: Option<NodeId>) -> Vec<i64> {
    loop {
        let reader = cluster.begin(node);
        cluster.request(reader, Request::Read(read_both()));
        match away {
            Some(away) => deliver_without(cluster, away),
            None => cluster.deliver_all(),
        }
        let reply = cluster.take_reply(reader);
        if matches!(reply, Some(Reply::Aborted(AbortReason::BelowFloor))) {
            // The node has been quiet for a long time: the reader restarts with the floor that the owner has reported.
            continue;
        }
        let seen = registers(reply);
        cluster.request(reader, Request::Abort);
        return seen;
    }
}

fn prepared(cluster: &Cluster<RampNode>) -> Vec<usize> {
    [X, Y]
        .map(|node| cluster.nodes[node.index()].prepared())
        .to_vec()
}

fn is_at_rest(cluster: &mut Cluster<RampNode>) -> bool {
    for _ in 0..4 {
        cluster.deliver_all();
        cluster.advance(AFTER);
    }
    cluster.deliver_all();
    cluster.nodes.iter().all(RampNode::is_idle)
}

/// Commit reaches one participant, and the coordinator is away: the other one inquires, and gets the Commit.
#[test]
fn a_participant_that_installed_it_answers_commit() {
    for (first, last) in [(X, Y), (Y, X)] {
        let mut cluster = cluster();
        let t1 = cluster.begin(C1);
        cluster.request(t1, Request::Commit(set_both(1)));
        prepare(&mut cluster, C1, &[X, Y]);
        cluster.deliver(C1, first);
        pass(&mut cluster, Ticks(AFTER.0 / 2), C1);
        assert_eq!(cluster.nodes[last.index()].prepared(), 1, "it is patient");
        pass(&mut cluster, AFTER, C1);
        assert_eq!(prepared(&cluster), [0, 0]);
        let counters = cluster.nodes[last.index()].counters();
        assert_eq!(counters.terminations, 1);
        for node in [X, Y, C2] {
            assert_eq!(look(&mut cluster, node, Some(C1)), [1, 1]);
        }
        assert_eq!(
            cluster.counters().second_rounds,
            0,
            "both have installed it"
        );
        // The coordinator returns, and finds nothing left to do.
        assert!(is_at_rest(&mut cluster));
        assert!(is_committed(cluster.take_reply(t1)));
    }
}

/// Trap 3: Prepare reaches one participant only. The other one promises never to prepare it, and keeps the promise
/// through a crash, however late the Prepare arrives.
#[test]
fn one_that_has_not_prepared_it_promises_never_to() {
    for crashes in [false, true] {
        let mut cluster = cluster();
        cluster.keep_logs();
        let t1 = cluster.begin(C1);
        cluster.request(t1, Request::Commit(set_both(1)));
        cluster.deliver(C1, X);
        assert_eq!(prepared(&cluster), [1, 0]);
        cluster.advance(AFTER);
        cluster.deliver(X, Y);
        if crashes {
            // The answer may be in flight when Y crashes: Y sends it when the promise is durable.
            cluster.deliver(Y, X);
            cluster.restart(Y, fresh(Y));
            cluster.deliver(Y, X);
        }
        deliver_without(&mut cluster, C1);
        assert_eq!(prepared(&cluster), [0, 0]);
        assert_eq!(cluster.nodes[X.index()].counters().terminations, 1);
        if crashes {
            // What C1 sent to the crashed incarnation is lost, and C1 learns of the restart. A message that it sends by
            // mistake to the new incarnation is refused all the same: see the random schedules.
            assert!(is_at_rest(&mut cluster));
            assert_eq!(reason(cluster.take_reply(t1)), AbortReason::Restarted);
        } else {
            // Much later, after all that has been committed meanwhile.
            for _ in 0..3 {
                cluster.advance(WINDOW);
                let t2 = cluster.begin(C2);
                cluster.request(t2, Request::Commit(set_both(2)));
                deliver_without(&mut cluster, C1);
                assert!(is_committed(cluster.take_reply(t2)));
            }
            cluster.deliver(C1, Y); // The Prepare.
            assert_eq!(prepared(&cluster), [0, 0]);
            assert!(is_at_rest(&mut cluster));
            assert_eq!(reason(cluster.take_reply(t1)), AbortReason::Conflict);
        }
        let expected = if crashes { [0, 0] } else { [2, 2] };
        assert_eq!(look(&mut cluster, C2, None), expected);
    }
}

/// The promise is durable before it is sent: a coordinator that does not know of it sends its Prepare again to the next
/// incarnation, which refuses.
#[test]
fn a_promise_survives_a_restart() {
    let mut cluster = cluster();
    cluster.keep_logs();
    let t1 = cluster.begin(C1);
    cluster.request(t1, Request::Commit(set_both(1)));
    let prepare = cluster.peek(C1, Y).expect("Prepare is under way");
    cluster.deliver(C1, X);
    cluster.advance(AFTER);
    cluster.deliver(X, Y);
    cluster.deliver(Y, X);
    assert_eq!(prepared(&cluster), [0, 0]);
    cluster.restart(Y, fresh(Y));
    cluster.inject(C1, Y, prepare);
    assert_eq!(prepared(&cluster), [0, 0]);
}

/// All have prepared it and none has installed it: they wait, as in the paper, and no other transaction waits for them.
#[test]
fn participants_that_have_all_prepared_it_wait_and_no_others() {
    let mut cluster = cluster();
    let t1 = cluster.begin(C1);
    cluster.request(t1, Request::Commit(set_both(1)));
    prepare(&mut cluster, C1, &[X, Y]);
    for value in 2..5 {
        pass(&mut cluster, AFTER, C1);
        assert_eq!(prepared(&cluster), [1, 1]);
        let t2 = cluster.begin(C2);
        cluster.request(t2, Request::Commit(set_both(value)));
        deliver_without(&mut cluster, C1);
        assert!(is_committed(cluster.take_reply(t2)));
        assert_eq!(look(&mut cluster, C2, Some(C1)), [value, value]);
    }
    assert!(is_at_rest(&mut cluster));
    assert!(is_committed(cluster.take_reply(t1)));
    assert_eq!(look(&mut cluster, C2, None), [4, 4]);
}

/// A participant that gets no answer waits twice as long before it asks again, so that a node that was away finds few
/// inquiries when it returns.
#[test]
fn a_participant_without_an_answer_asks_ever_more_seldom() {
    let mut cluster = cluster();
    let writer = cluster.begin(C1);
    cluster.request(writer, Request::Commit(set_both(1)));
    prepare(&mut cluster, C1, &[X, Y]);
    let mut asked = Vec::new();
    for _ in 0..16 {
        pass(&mut cluster, AFTER, C1);
        asked.push(cluster.under_way(X, C1));
    }
    assert_eq!(asked, [1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4]);
    assert!(is_at_rest(&mut cluster));
    assert!(is_committed(cluster.take_reply(writer)));
}

/// Inquiries about transactions that were prepared at different times are sent at different times: the nodes that get
/// them have other work, too.
#[test]
fn inquiries_are_spread_over_time() {
    let half = Ticks(AFTER.0 / 2);
    let mut cluster = cluster();
    let mut asked = Vec::new();
    for value in 0..5 {
        if value < 2 {
            let writer = cluster.begin(C1);
            cluster.request(writer, Request::Commit(set_both(value)));
            cluster.deliver(C1, X);
            cluster.deliver(C1, Y);
        }
        pass(&mut cluster, half, C1);
        asked.push(cluster.under_way(X, C1));
    }
    // The votes are in flight as well.
    assert_eq!(asked, [1, 3, 4, 4, 4]);
    assert!(is_at_rest(&mut cluster));
}

/// The coordinator's own partition has installed it, and is lost with its coordinator: no other node knows the outcome.
/// When the coordinator returns, all install it.
#[test]
fn participants_wait_for_the_only_partition_that_has_installed_it() {
    let mut cluster = cluster();
    cluster.keep_logs();
    let t1 = cluster.begin(X);
    let mut effects = set_both(1);
    effects.push(on(2, vec![update(SET, 2, 0, 1)]));
    cluster.request(t1, Request::Commit(effects));
    for node in [Y, C1] {
        cluster.deliver(X, node);
        cluster.deliver(node, X);
    }
    for _ in 0..3 {
        pass(&mut cluster, AFTER, X);
        assert_eq!(cluster.nodes[Y.index()].prepared(), 1);
        assert_eq!(cluster.nodes[C1.index()].prepared(), 1);
    }
    cluster.restart(X, fresh(X));
    assert!(is_at_rest(&mut cluster));
    assert_eq!(look(&mut cluster, C2, None), [1, 1]);
}

/// A participant with guards and no writes learns the outcome, too; and it answers the inquiry of the only participant
/// that writes.
#[test]
fn a_participant_without_writes_answers_too() {
    for (first, last) in [(X, Y), (Y, X)] {
        let mut cluster = cluster();
        let t1 = cluster.begin(C1);
        let read = guarded(read_item(1, 0));
        let reply = cluster.ask(t1, Request::Read(vec![read]));
        assert!(matches!(reply, Reply::Fetched(_)));
        let effects = vec![on(0, vec![update(SET, 0, 0, 1)])];
        cluster.request(t1, Request::Commit(effects));
        prepare(&mut cluster, C1, &[X, Y]);
        cluster.deliver(C1, first);
        // Longer than stable transactions are remembered.
        for _ in 0..3 {
            pass(&mut cluster, AFTER, C1);
        }
        assert_eq!(prepared(&cluster), [0, 0], "{last} has learned it");
        let written = cluster.begin(X);
        let rows = cluster.ask(written, Request::Read(vec![read_item(0, 0)]));
        assert_eq!(registers(Some(rows)), [1]);
        cluster.request(written, Request::Abort);
        assert!(is_at_rest(&mut cluster));
    }
}

/// A reader that has met the transaction at another participant ends it before the inquiry is answered.
#[test]
fn a_reader_ends_a_transaction_in_doubt() {
    let mut cluster = cluster();
    let t1 = cluster.begin(C1);
    cluster.request(t1, Request::Commit(set_both(1)));
    prepare(&mut cluster, C1, &[X, Y]);
    cluster.deliver(C1, X);
    cluster.advance(AFTER); // Both inquiries are in flight.
    let reader = cluster.begin(C2);
    cluster.request(reader, Request::Read(read_both()));
    for node in [X, Y, Y] {
        cluster.deliver(C2, node);
        cluster.deliver(node, C2);
    }
    assert_eq!(registers(cluster.take_reply(reader)), [1, 1]);
    cluster.request(reader, Request::Abort);
    assert_eq!(prepared(&cluster), [0, 0]);
    assert!(is_at_rest(&mut cluster));
    assert!(is_committed(cluster.take_reply(t1)));
}

/// The answer of a participant that has installed it may arrive after all have forgotten it.
#[test]
fn a_late_answer_to_an_inquiry_is_dropped() {
    for metadata in [Metadata::Fast].into_iter().chain(inexact()) {
        let options = RampOptions {
            retain: Ticks::from_millis(20),
            metadata,
            ..options()
        };
        let mut cluster = cluster_with(4, WINDOW, options);
        let t1 = cluster.begin(C1);
        cluster.request(t1, Request::Commit(set_both(1)));
        prepare(&mut cluster, C1, &[X, Y]);
        cluster.deliver(C1, X);
        cluster.advance(AFTER);
        cluster.deliver(Y, X); // Y asks X …
        cluster.deliver(C1, Y); // … and gets C1's Commit before X's answer arrives.
        cluster.deliver(X, C1);
        cluster.deliver(Y, C1);
        cluster.deliver(Y, C1);
        for _ in 0..6 {
            cluster.advance(Ticks::from_millis(30));
            while cluster.under_way(C1, Y) > 0 {
                cluster.deliver(C1, Y);
            }
        }
        assert!(is_committed(cluster.take_reply(t1)));
        cluster.deliver(X, Y);
        assert!(is_at_rest(&mut cluster));
        assert_eq!(look(&mut cluster, C2, None), [1, 1]);
    }
}

/// §5.3: participants end every transaction whose Commit is lost, without a needless message, and its client has been
/// answered before.
#[test]
fn participants_end_transactions_whose_commit_is_lost() {
    for metadata in [Metadata::Fast].into_iter().chain(inexact()) {
        let options = RampOptions {
            lost_commits: 250_000,
            metadata,
            ..options()
        };
        let mut cluster = cluster_with(4, WINDOW, options);
        let mut left = 0;
        for value in 1..=20 {
            let before = cluster.nodes[Y.index()].prepared();
            let t1 = cluster.begin([X, C1][value as usize % 2]);
            let reply = cluster.ask(t1, Request::Commit(set_both(value)));
            assert!(is_committed(Some(reply)));
            let waiting = cluster.nodes[Y.index()].prepared();
            left += usize::from(waiting > before);
            // A reader of one partition may see it or not; a reader of both sees all of it or nothing.
            let seen = look(&mut cluster, C2, None);
            assert_eq!(seen[0], seen[1]);
        }
        assert_eq!(left, 4, "two coordinators, ten each, a quarter of them");
        assert!(is_at_rest(&mut cluster));
        assert!(cluster.counters().terminations >= 1);
        assert_eq!(look(&mut cluster, C2, None), [20, 20]);
    }
}

/// Where the answer contains a value that another partition draws, the commit is sent.
#[test]
fn a_commit_whose_values_are_needed_is_sent() {
    let options = RampOptions {
        lost_commits: 1_000_000,
        ..options()
    };
    let mut cluster = cluster_with(4, WINDOW, options);
    let drawing = vec![
        on(0, vec![update(SET, 0, 0, 1)]),
        on(1, vec![draw(1, 0, 0), insert_drawn(1, 0, 0, 1, 5)]),
    ];
    let t1 = cluster.begin(C1);
    let Reply::Committed { slots, .. } = cluster.ask(t1, Request::Commit(drawing)) else {
        panic!("it does not commit");
    };
    assert_eq!(slots.len(), 1);
    assert_eq!(prepared(&cluster), [0, 0]);
}
