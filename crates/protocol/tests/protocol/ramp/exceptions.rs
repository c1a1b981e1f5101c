//! Exceptions whose coordinators, owners and readers restart, are slow, or have clocks that jump: no reader gets a
//! fractured view, and none is refused or kept waiting for ever.

use std::sync::Arc;

use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{AbortReason, Durable, Reply, Request, Topology, TransactionId};
use anabranch_types::{NodeId, Ticks};

use crate::ramp::cluster_with;
use crate::ramp::scenarios::{C1, C2, X, Y, is_committed, prepare, reason, registers, set_both};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

/// Sender and receiver of a message.
pub(crate) type Link = (NodeId, NodeId);

const WINDOW: Ticks = Ticks::from_millis(500);

/// Messages from C1 to X are slow.
const SLOW: [Link; 1] = [(C1, X)];

fn options(gossip: bool, retain_millis: u64) -> RampOptions {
    RampOptions {
        except_after: Ticks::from_millis(1),
        except_behind: 1,
        exceptions_max: 16,
        retain: Ticks::from_millis(retain_millis),
        gossip_after: gossip.then_some(Ticks::from_millis(1)),
        ..RampOptions::default()
    }
}

/// A node that restarts, before it has read its log.
fn fresh(node: NodeId, options: RampOptions) -> RampNode {
    let topology = Arc::new(Topology::one_each(4));
    let store = store(node.0, 0, WINDOW);
    RampNode::new(node, topology, store, programs(), options)
}

fn deliver_but(cluster: &mut Cluster<RampNode>, slow: &[Link]) {
    let arrives = |link: &Link| !slow.contains(link);
    while let Some((from, to)) = cluster.busy_links().into_iter().find(arrives) {
        cluster.deliver(from, to);
    }
}

/// Advances time in steps of a millisecond, and delivers everything but the messages on these links.
pub(crate) fn wait(cluster: &mut Cluster<RampNode>, millis: u64, slow: &[Link]) {
    for _ in 0..millis {
        cluster.advance(Ticks::from_millis(1));
        deliver_but(cluster, slow);
    }
}

fn ask(
    cluster: &mut Cluster<RampNode>,
    transaction: TransactionId,
    request: Request,
    slow: &[Link],
) -> Reply {
    cluster.request(transaction, request);
    deliver_but(cluster, slow);
    cluster.take_reply(transaction).expect("an answer")
}

/// The first item of a partition.
fn first_of(part: u16) -> Request {
    Request::Read(vec![read_item(part, 0)])
}

/// Writes an item of C1's partition and one of C2's.
fn write_behind(cluster: &mut Cluster<RampNode>, value: i64, slow: &[Link]) {
    let writer = cluster.begin(C1);
    let effects = [2, 3].map(|part| on(part, vec![update(SET, part, 1, value)]));
    let reply = ask(cluster, writer, Request::Commit(effects.into()), slow);
    assert!(is_committed(Some(reply)));
}

/// Writes on the node's own partition alone, so that all earlier records of its log are durable.
fn write_alone(cluster: &mut Cluster<RampNode>, node: NodeId, value: i64, slow: &[Link]) {
    let writer = cluster.begin(node);
    let effects = vec![on(node.0, vec![update(SET, node.0, 2, value)])];
    let reply = ask(cluster, writer, Request::Commit(effects), slow);
    assert!(is_committed(Some(reply)));
}

/// C1 sets both first items to 1. Y installs it, X does not receive the `Commit`, and C1 commits later transactions, so
/// that this one becomes an exception.
fn make_exceptions(cluster: &mut Cluster<RampNode>) {
    let exception = cluster.begin(C1);
    cluster.request(exception, Request::Commit(set_both(1)));
    prepare(cluster, C1, &[X, Y]);
    deliver_but(cluster, &SLOW);
    assert!(!cluster.has_reply(exception));
    for value in 0..6 {
        wait(cluster, 2, &SLOW);
        write_behind(cluster, value, &SLOW);
    }
    wait(cluster, 30, &SLOW);
    assert!(cluster.counters().exceptions > 0);
}

/// A restarted coordinator knows a lower watermark than it has reported. Its first list of exceptions names all
/// transactions that are not acknowledged. Otherwise a reader that knows an older list would be taken to know
/// transactions that have ended since.
#[test]
fn a_restarted_coordinator_lists_all_unacknowledged_transactions() {
    for restarts in [false, true] {
        let options = options(true, 20_000);
        let mut cluster = cluster_with(4, WINDOW, options);
        cluster.keep_logs();
        make_exceptions(&mut cluster);
        write_alone(&mut cluster, C1, 9, &SLOW);
        wait(&mut cluster, 30, &SLOW);
        if restarts {
            cluster.restart(C1, fresh(C1, options));
        }
        deliver_but(&mut cluster, &SLOW);
        let reader = cluster.begin(C2);
        let first = ask(&mut cluster, reader, first_of(0), &SLOW);
        assert_eq!(registers(Some(first)), [0]);
        wait(&mut cluster, 300, &[]);
        let second = ask(&mut cluster, reader, first_of(1), &[]);
        assert_eq!(reason(Some(second)), AbortReason::Fractured, "{restarts}");
    }
}

/// An owner that has forgotten an exception by its own clock, which has jumped, refuses readers that know an older
/// list; also after it has restarted from its log or from a checkpoint.
#[test]
fn a_restarted_owner_refuses_a_reader_that_knows_an_older_list() {
    for (restarts, checkpoint) in [(false, false), (true, false), (true, true)] {
        let options = options(false, 500);
        let mut cluster = cluster_with(4, WINDOW, options);
        cluster.keep_logs();
        make_exceptions(&mut cluster);
        let reader = cluster.begin(C2);
        let first = ask(&mut cluster, reader, first_of(0), &SLOW);
        assert_eq!(registers(Some(first)), [0]);
        wait(&mut cluster, 40, &[]);
        for jump in 1..=3 {
            cluster.skew[Y.index()] = Ticks::from_millis(10_000 * jump);
            let other = cluster.begin(Y);
            let reply = ask(&mut cluster, other, first_of(1), &[]);
            assert_eq!(registers(Some(reply)), [1]);
            cluster.request(other, Request::Abort);
        }
        write_alone(&mut cluster, Y, 5, &[]);
        assert_eq!(cluster.nodes[Y.index()].metadata_kept(), 0);
        if checkpoint {
            let log = &mut cluster.logs[Y.index()];
            log.clear();
            cluster.nodes[Y.index()].checkpoint(&mut |record| log.push(record));
        }
        if restarts {
            cluster.restart(Y, fresh(Y, options));
        }
        deliver_but(&mut cluster, &[]);
        let second = ask(&mut cluster, reader, first_of(1), &[]);
        assert!(
            matches!(second, Reply::Aborted { .. }),
            "{restarts}, {checkpoint}: {second:?}"
        );
    }
}

/// A list that equals an older one is newer all the same: an owner that knows it refuses readers that know the older
/// one, and they must be able to learn the newer one.
#[test]
fn a_reader_that_knows_all_is_not_refused_for_ever() {
    for gossip in [false, true] {
        let options = RampOptions {
            retain: Ticks::from_millis(500),
            gossip_after: gossip.then_some(Ticks::from_millis(1)),
            ..RampOptions::default()
        };
        // With gossip, C1 gets no message from X, and does not know what X's readers need.
        let silent: &[Link] = if gossip { &[(X, C1)] } else { &[] };
        let before = [silent, &[(C1, Y)]].concat();
        let mut cluster = cluster_with(4, WINDOW, options);
        cluster.keep_logs();
        cluster.advance(Ticks::from_millis(1));
        cluster.restart(C1, fresh(C1, options));
        deliver_but(&mut cluster, &[]);
        write_behind(&mut cluster, 7, &before);
        wait(&mut cluster, 40, &before);
        write_alone(&mut cluster, C1, 1, &before);
        cluster.restart(C1, fresh(C1, options));
        deliver_but(&mut cluster, silent);
        for value in 0..2 {
            wait(&mut cluster, 700, silent);
            write_alone(&mut cluster, Y, value, silent);
        }
        let is_answered = (0..50).any(|_| {
            let reader = cluster.begin(C2);
            let reply = ask(&mut cluster, reader, first_of(1), silent);
            wait(&mut cluster, 100, silent);
            matches!(reply, Reply::Fetched(_))
        });
        assert!(is_answered, "refused for five seconds, gossip {gossip}");
    }
}

/// Gossip lets owners forget a former exception as soon as its last reader has ended, also if nothing else happens.
#[test]
fn an_exception_is_forgotten_when_its_reader_has_ended() {
    let mut cluster = cluster_with(4, WINDOW, options(true, 20_000));
    make_exceptions(&mut cluster);
    let reader = cluster.begin(C2);
    ask(&mut cluster, reader, first_of(0), &SLOW);
    wait(&mut cluster, 300, &[]);
    let kept = |cluster: &Cluster<RampNode>| {
        [X, Y].map(|node| cluster.nodes[node.index()].metadata_kept())
    };
    assert_eq!(kept(&cluster), [1, 1]);
    cluster.request(reader, Request::Abort);
    wait(&mut cluster, 1_000, &[]);
    assert_eq!(kept(&cluster), [0, 0]);
}

/// A transaction that waits for acknowledgements reads no more: it needs none of the metadata of when it began.
#[test]
fn a_transaction_that_waits_for_acknowledgements_needs_no_metadata() {
    let kept = [false, true].map(|reads_first| {
        let options = RampOptions {
            lost_commits: 100_000,
            except_behind: 4,
            ..options(true, 20_000)
        };
        let mut cluster = cluster_with(4, WINDOW, options);
        for value in 0..100 {
            let writer = cluster.begin(C1);
            if reads_first {
                ask(&mut cluster, writer, first_of(2), &[]);
            }
            let effects = [2, 3].map(|part| on(part, vec![update(SET, part, 1, value)]));
            let reply = ask(&mut cluster, writer, Request::Commit(effects.into()), &[]);
            assert!(is_committed(Some(reply)));
            wait(&mut cluster, 4, &[]);
        }
        wait(&mut cluster, 100, &[]);
        cluster.nodes[C1.index()].metadata_kept()
    });
    assert_eq!(kept, [10, 10]);
}
