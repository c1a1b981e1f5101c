//! Sticky clusters (ramp.txt §6.1), step by step: each commits by itself, replicates to the other, and applies what the
//! other has committed.

use anabranch_protocol::ramp::{Metadata, RampNode, RampOptions};
use anabranch_protocol::{AbortReason, Durable, Reply, Request};
use anabranch_types::{NodeId, Ticks};

use crate::ramp::prepare_f::{
    AFTER, TOO_FAR, WINDOW, deliver_among, every, is_at_rest, look, look_counts, node, owner,
    prepared, write,
};
use crate::ramp::scenarios::{is_committed, set_both};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

const HERE: [NodeId; 2] = [NodeId(0), NodeId(2)];
const THERE: [NodeId; 2] = [NodeId(1), NodeId(3)];
const ALL: [NodeId; 4] = [NodeId(0), NodeId(1), NodeId(2), NodeId(3)];

fn options(metadata: Metadata) -> RampOptions {
    RampOptions {
        sticky: true,
        terminate_after: Some(AFTER),
        metadata,
        ..RampOptions::default()
    }
}

fn clusters(metadata: Metadata) -> Cluster<RampNode> {
    let options = options(metadata);
    Cluster::new((0..4).map(|n| node(n, 2, options, 8)).collect())
}

fn fresh(number: u16) -> RampNode {
    node(number, 2, options(Metadata::Fast), 0)
}

/// A client is answered when its own cluster has installed its write. The other cluster installs it later, and no
/// reader ever sees half of it.
#[test]
fn a_client_waits_for_its_own_cluster_alone() {
    for metadata in every() {
        let mut cluster = clusters(metadata);
        let (a, b) = (owner(0, 0, 2), owner(0, 1, 2));
        let writer = write(&mut cluster, a, 7);
        deliver_among(&mut cluster, &HERE);
        assert!(is_committed(cluster.take_reply(writer)), "{metadata:?}");
        for at in HERE {
            assert_eq!(look(&mut cluster, at, 2), [7, 7], "{metadata:?}");
        }
        for at in THERE {
            assert_eq!(look(&mut cluster, at, 2), [0, 0], "{metadata:?}");
        }
        // The counterpart of its coordinator prepares it with the other owner there, and installs it first.
        cluster.deliver(a, b);
        cluster.deliver(b, THERE[1]);
        assert_eq!(look(&mut cluster, b, 2), [0, 0], "{metadata:?}: prepared");
        cluster.deliver_all();
        assert_eq!(look(&mut cluster, b, 2), [7, 7], "{metadata:?}");
        assert_eq!(cluster.counters().applied_remote, 1);
        assert!(is_at_rest(&mut cluster), "{metadata:?}");
    }
}

/// A reader that meets a transaction on one partition while it is being applied finds it on the other.
#[test]
fn what_is_applied_remotely_is_seen_whole() {
    for metadata in every() {
        let mut cluster = clusters(metadata);
        let (a, b) = (owner(0, 0, 2), owner(0, 1, 2));
        write(&mut cluster, a, 7);
        deliver_among(&mut cluster, &HERE);
        cluster.deliver(a, b);
        cluster.deliver(b, THERE[1]);
        cluster.deliver(THERE[1], b);
        // Its coordinator there has installed it, and the Commit to the other owner is in flight.
        assert_eq!(prepared(&cluster), [0, 0, 0, 1], "{metadata:?}");
        let reader = cluster.begin(b);
        cluster.request(reader, Request::Read(crate::ramp::scenarios::read_both()));
        // This read is sent after the Commit on the same link; a read from the other owner is not.
        deliver_among(&mut cluster, &THERE);
        let seen = crate::ramp::scenarios::registers(cluster.take_reply(reader));
        assert_eq!(seen, [7, 7], "{metadata:?}");
        cluster.request(reader, Request::Abort);
        assert!(is_at_rest(&mut cluster), "{metadata:?}");
    }
}

/// Both clusters write the same registers, one of them by a clock that is ahead. They converge, in whatever order
/// writes arrive, and also long after the versions that decide have been collected.
#[test]
fn clusters_that_write_concurrently_converge() {
    for ahead in [HERE, THERE] {
        let mut cluster = clusters(Metadata::Fast);
        for node in ahead {
            cluster.skew[node.index()] = Ticks::from_millis(50);
        }
        let (a, b) = (owner(0, 0, 2), owner(0, 1, 2));
        for value in 1..=3 {
            write(&mut cluster, a, value);
            deliver_among(&mut cluster, &HERE);
            cluster.advance(Ticks::from_millis(100));
            deliver_among(&mut cluster, &HERE);
            write(&mut cluster, b, 10 + value);
            deliver_among(&mut cluster, &THERE);
            cluster.advance(Ticks(WINDOW.0 * 2));
            deliver_among(&mut cluster, &HERE);
            deliver_among(&mut cluster, &THERE);
        }
        assert_eq!(look(&mut cluster, a, 2), [3, 3]);
        assert_eq!(look(&mut cluster, b, 2), [13, 13]);
        assert!(is_at_rest(&mut cluster));
        // The second wrote later: 100 ms, and clocks differ by 50 ms.
        for at in ALL {
            assert_eq!(look(&mut cluster, at, 2), [13, 13]);
        }
    }
}

/// A client's write is not hidden behind what it has read before, although that came from a cluster whose clock is far
/// ahead.
#[test]
fn a_write_overwrites_what_its_client_has_read() {
    let mut cluster = clusters(Metadata::Fast);
    let (a, b) = (owner(0, 0, 2), owner(0, 1, 2));
    for node in HERE {
        cluster.skew[node.index()] = Ticks::from_millis(60_000);
    }
    write(&mut cluster, a, 7);
    assert!(is_at_rest(&mut cluster));
    for at in THERE {
        assert_eq!(look(&mut cluster, at, 2), [7, 7]);
    }
    write(&mut cluster, b, 8);
    assert!(is_at_rest(&mut cluster));
    // The same for writes on one partition, from every node.
    for (at, part) in [(b, 1), (THERE[1], 1), (b, 0)] {
        let writer = cluster.begin(at);
        let effects = vec![on(part, vec![update(SET, part, 1, 9)])];
        cluster.request(writer, Request::Commit(effects));
        assert!(is_at_rest(&mut cluster));
    }
    for at in ALL {
        assert_eq!(look(&mut cluster, at, 2), [8, 8]);
    }
}

/// A transaction on one partition is replicated by its owner: only the owner is certain that it has committed.
#[test]
fn a_write_on_one_partition_is_replicated_by_its_owner() {
    let mut cluster = clusters(Metadata::Fast);
    cluster.keep_logs();
    let writer = cluster.begin(HERE[0]);
    let effects = vec![on(1, vec![update(SET, 1, 0, 7)])];
    cluster.request(writer, Request::Commit(effects));
    cluster.deliver(HERE[0], HERE[1]);
    // The sender crashes, and never gets the answer.
    cluster.restart(HERE[0], fresh(0));
    assert!(is_at_rest(&mut cluster));
    for at in ALL {
        assert_eq!(look(&mut cluster, at, 2), [0, 7]);
    }
}

/// The next incarnation of a coordinator replicates what it has decided, from its log or a checkpoint. It is applied
/// once, whichever node crashes in between.
#[test]
fn the_other_cluster_gets_it_whichever_node_crashes() {
    for (checkpoint, crashed) in [(false, 0), (true, 0), (false, 1), (true, 1)] {
        let mut cluster = clusters(Metadata::Fast);
        cluster.keep_logs();
        let (a, b) = (owner(0, 0, 2), owner(0, 1, 2));
        let writer = write(&mut cluster, a, 7);
        deliver_among(&mut cluster, &HERE);
        assert!(is_committed(cluster.take_reply(writer)));
        if crashed == 1 {
            // It has applied it remotely, and its answer has not been sent.
            cluster.deliver(a, b);
            deliver_among(&mut cluster, &THERE);
            assert_eq!(look(&mut cluster, b, 2), [7, 7]);
        }
        if checkpoint {
            let mut log = Vec::new();
            cluster.nodes[crashed].checkpoint(&mut |record| log.push(record));
            cluster.logs[crashed] = log;
        }
        cluster.restart(NodeId(crashed as u16), fresh(crashed as u16));
        let what = format!("checkpoint {checkpoint}, n{crashed}");
        assert!(is_at_rest(&mut cluster), "{what}");
        for at in ALL {
            assert_eq!(look(&mut cluster, at, 2), [7, 7], "{what}");
        }
        // When all nodes know that all have it, it is not applied again.
        cluster.restart(a, fresh(0));
        let before = cluster.counters().applied_remote;
        assert!(is_at_rest(&mut cluster), "{what}");
        assert_eq!(cluster.counters().applied_remote, before, "{what}");
    }
}

/// An increment counts once in each cluster, whichever node crashes after whichever message and restarts, from its log
/// or from a checkpoint.
#[test]
fn an_increment_counts_once_in_each_cluster() {
    let mut restarts = 0;
    for (checkpoint, crashed, parts) in [false, true].iter().flat_map(|checkpoint| {
        let each = ALL
            .iter()
            .flat_map(|crashed| [vec![0], vec![0, 1]].map(|parts| (*crashed, parts)));
        each.map(|(crashed, parts)| (*checkpoint, crashed, parts))
    }) {
        for after in 0..40 {
            let mut cluster = clusters(Metadata::Fast);
            cluster.keep_logs();
            let a = owner(0, 0, 2);
            let adds = parts
                .iter()
                .map(|part| on(*part, vec![update(ADD, *part, 0, 3)]));
            let writer = cluster.begin(a);
            cluster.request(writer, Request::Commit(adds.collect()));
            let mut delivered = 0;
            while delivered < after
                && let Some((from, to)) = cluster.busy_links().first().copied()
            {
                cluster.deliver(from, to);
                delivered += 1;
            }
            if checkpoint {
                let mut log = Vec::new();
                cluster.nodes[crashed.index()].checkpoint(&mut |record| log.push(record));
                cluster.logs[crashed.index()] = log;
            }
            cluster.restart(crashed, fresh(crashed.0));
            let what =
                format!("{crashed} after {delivered}, checkpoint {checkpoint}, of {parts:?}");
            assert!(is_at_rest(&mut cluster), "{what}");
            let added = look_counts(&mut cluster, HERE[0], 2);
            assert!(added[0] == 0 || added[0] == 3, "{what}: {added:?}");
            for at in ALL {
                assert_eq!(look_counts(&mut cluster, at, 2), added, "{what}");
            }
            restarts += 1;
            if delivered < after {
                break;
            }
        }
    }
    assert!(restarts > 100, "{restarts}");
}

/// A `Replicate` that arrives long after its transaction has ended and is forgotten adds nothing. What is remembered to
/// recognise it does not grow.
#[test]
fn what_was_applied_long_ago_is_recognised() {
    let mut cluster = clusters(Metadata::Fast);
    let (a, b) = (owner(0, 0, 2), owner(0, 1, 2));
    let mut first = None;
    for _ in 0..20 {
        let writer = cluster.begin(a);
        let add = on(0, vec![update(ADD, 0, 0, 1)]);
        cluster.request(writer, Request::Commit(vec![add]));
        first = first.or_else(|| cluster.peek(a, b));
        assert!(is_at_rest(&mut cluster));
        assert!(cluster.nodes[b.index()].remembered() <= 2);
    }
    let before = cluster.counters().applied_remote;
    cluster.inject(a, b, first.expect("it was replicated"));
    assert!(is_at_rest(&mut cluster));
    assert_eq!(look_counts(&mut cluster, b, 2), [20, 0]);
    assert_eq!(cluster.counters().applied_remote, before);
}

/// A write that the other cluster has not installed is applied after later ones that it has, also if the first attempt
/// at it fails meanwhile.
#[test]
fn a_late_write_is_applied_after_later_ones() {
    let mut cluster = clusters(Metadata::Fast);
    cluster.keep_logs();
    let (a, b) = (owner(0, 0, 2), owner(0, 1, 2));
    let add = |cluster: &mut Cluster<RampNode>, parts: &[u16]| {
        let writer = cluster.begin(a);
        let adds = parts
            .iter()
            .map(|part| on(*part, vec![update(ADD, *part, 0, 1)]));
        cluster.request(writer, Request::Commit(adds.collect()));
        deliver_among(cluster, &HERE);
        assert!(is_committed(cluster.take_reply(writer)));
    };
    // The first waits for another owner there, the second does not.
    add(&mut cluster, &[0, 1]);
    cluster.deliver(a, b);
    add(&mut cluster, &[0]);
    cluster.deliver(a, b);
    cluster.deliver(b, a);
    add(&mut cluster, &[0]);
    cluster.deliver(a, b);
    cluster.restart(THERE[1], fresh(3));
    assert!(is_at_rest(&mut cluster));
    for at in ALL {
        assert_eq!(look_counts(&mut cluster, at, 2), [3, 1]);
    }
}

/// Writes by a clock that is hours ahead stay in their own cluster until the clocks of the other have caught up.
#[test]
fn writes_by_a_clock_too_far_ahead_wait() {
    let mut cluster = clusters(Metadata::Fast);
    let a = owner(0, 0, 2);
    for node in HERE {
        cluster.skew[node.index()] = TOO_FAR;
    }
    let writer = write(&mut cluster, a, 7);
    deliver_among(&mut cluster, &HERE);
    assert!(is_committed(cluster.take_reply(writer)));
    for _ in 0..3 {
        cluster.deliver_all();
        cluster.advance(AFTER);
    }
    assert_eq!(look(&mut cluster, THERE[0], 2), [0, 0]);
    // Nor has it advanced the receiver's clock; otherwise others would refuse the receiver's transactions.
    let writer = write(&mut cluster, THERE[0], 5);
    deliver_among(&mut cluster, &THERE);
    assert!(is_committed(cluster.take_reply(writer)));
    for clock in &mut cluster.skew {
        *clock = Ticks(0);
    }
    cluster.advance(TOO_FAR);
    assert!(is_at_rest(&mut cluster));
    assert_eq!(look(&mut cluster, THERE[0], 2), [7, 7]);
}

/// Effects that another cluster could refuse are refused at once, with an error that names them, and leave nothing.
#[test]
fn effects_that_another_cluster_could_refuse_are_refused_by_name() {
    let mut cluster = clusters(Metadata::Fast);
    for (effect, words) in [
        (insert(0, 1, 1, 1), "inserted"),
        (delete(0, 1), "deleted"),
        (update(TAKE, 0, 0, 1), "assign"),
    ] {
        let writer = cluster.begin(NodeId(0));
        let mut effects = set_both(1);
        effects[0].effects.push(effect);
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
