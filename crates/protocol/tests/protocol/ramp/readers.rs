//! Readers that read on, pause, or are slower than sibling metadata are kept.

use anabranch_protocol::ramp::{Metadata, RampNode, RampOptions};
use anabranch_protocol::{AbortReason, Reply, Request};
use anabranch_types::Ticks;

use crate::ramp::scenarios::{
    C1, C2, X, Y, is_committed, prepare, read, read_both, reason, registers, round, set_both,
};
use crate::ramp::{cluster, cluster_with, inexact};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

/// Rows given to an interactive reader cannot be taken back: it is restarted.
#[test]
fn a_reader_that_has_seen_too_little_is_restarted() {
    let mut cluster = cluster(4);
    let reader = cluster.begin(C2);
    let [x, y]: [_; 2] = read_both().try_into().expect("two reads");
    assert!(matches!(
        cluster.ask(reader, Request::Read(vec![x])),
        Reply::Fetched(_)
    ));
    let t1 = cluster.begin(C1);
    assert!(is_committed(Some(
        cluster.ask(t1, Request::Commit(set_both(1)))
    )));
    let reply = cluster.ask(reader, Request::Read(vec![y]));
    assert_eq!(reason(Some(reply)), AbortReason::Fractured);
    assert_eq!(registers(read(&mut cluster, C2, read_both())), [1, 1]);
}

/// The read set of a partition grows: a second transaction is compared with all of it, and not with the read set as it
/// was when a first one was compared.
#[test]
fn a_transaction_is_compared_with_all_that_was_read() {
    let mut cluster = cluster(4);
    let t1 = cluster.begin(C1);
    let both = Request::Commit(set_both(1));
    assert!(is_committed(Some(cluster.ask(t1, both))));
    let reader = cluster.begin(C2);
    let first = vec![read_item(0, 0), read_item(1, 2)];
    assert_eq!(
        registers(Some(cluster.ask(reader, Request::Read(first)))),
        [1, 0]
    );
    let more = Request::Read(vec![read_item(1, 1)]);
    assert_eq!(registers(Some(cluster.ask(reader, more))), [0]);
    let t2 = cluster.begin(C1);
    let elsewhere = vec![
        on(1, vec![update(SET, 1, 1, 2)]),
        on(2, vec![update(SET, 2, 1, 2)]),
    ];
    assert!(is_committed(Some(
        cluster.ask(t2, Request::Commit(elsewhere))
    )));
    let last = cluster.ask(reader, Request::Read(vec![read_item(2, 1)]));
    assert_eq!(reason(Some(last)), AbortReason::Fractured);
}

/// Trap 1: a reader that pauses for longer than versions are kept restarts.
#[test]
fn a_reader_slower_than_the_window_is_restarted() {
    let mut cluster = cluster_with(4, Ticks::from_millis(5), RampOptions::default());
    let reader = cluster.begin(C2);
    cluster.ask(reader, Request::Read(vec![read_item(0, 0)]));
    for value in 1..40 {
        let writer = cluster.begin(C1);
        cluster.ask(writer, Request::Commit(set_both(value)));
        cluster.advance(Ticks::from_millis(20));
    }
    let again = cluster.ask(reader, Request::Read(vec![read_item(0, 0)]));
    assert_eq!(reason(Some(again)), AbortReason::BelowFloor);
}

/// Trap 1, for a reader that pauses between its rounds: the transaction that its second round asks for has been
/// followed by others, of which nothing is remembered. The reader restarts, and is not given a later one here and an
/// earlier one there.
#[test]
fn a_reader_that_pauses_between_its_rounds_is_restarted() {
    for metadata in std::iter::once(Metadata::Fast).chain(inexact()) {
        let options = RampOptions {
            metadata,
            ..RampOptions::default()
        };
        let mut cluster = cluster_with(4, Ticks::from_millis(5), options);
        let (first, reader) = (cluster.begin(C1), cluster.begin(C2));
        cluster.request(first, Request::Commit(set_both(1)));
        prepare(&mut cluster, C1, &[X, Y]);
        cluster.deliver(C1, X);
        cluster.request(reader, Request::Read(read_both()));
        round(&mut cluster, C2, X);
        round(&mut cluster, C2, Y);
        assert_eq!(cluster.under_way(C2, Y), 1, "{metadata:?}: a second round");
        // All but that request is delivered, for longer than sibling metadata are kept.
        let others = |cluster: &mut Cluster<RampNode>| {
            while let Some((from, to)) =
                (cluster.busy_links().into_iter()).find(|link| *link != (C2, Y))
            {
                cluster.deliver(from, to);
            }
        };
        others(&mut cluster);
        for value in 2..60 {
            let writer = cluster.begin(C1);
            cluster.request(writer, Request::Commit(set_both(value)));
            others(&mut cluster);
            assert!(is_committed(cluster.take_reply(writer)), "{metadata:?}");
            cluster.advance(Ticks::from_millis(20));
            others(&mut cluster);
        }
        cluster.deliver_all();
        let reply = cluster.take_reply(reader);
        assert_eq!(reason(reply), AbortReason::BelowFloor, "{metadata:?}");
    }
}

/// An owner has forgotten a transaction since a reader at its own node began: that reader restarts, too, also if the
/// clock by which the transaction was forgotten has gone back since.
#[test]
fn a_reader_restarts_when_its_own_node_has_forgotten_too_much() {
    let mut cluster = cluster(4);
    let reader = cluster.begin(X);
    let there = cluster.ask(reader, Request::Read(vec![read_item(1, 0)]));
    assert_eq!(registers(Some(there)), [0]);
    let commit = |cluster: &mut Cluster<RampNode>, value| {
        let writer = cluster.begin(C1);
        let reply = cluster.ask(writer, Request::Commit(set_both(value)));
        assert!(is_committed(Some(reply)));
    };
    commit(&mut cluster, 1);
    commit(&mut cluster, 1);
    // By its clock, X has known for a long time that the first one is stable.
    cluster.skew[X.index()] = Ticks::from_millis(60_000);
    commit(&mut cluster, 1);
    cluster.advance(Ticks::from_millis(1));
    commit(&mut cluster, 1);
    cluster.skew[X.index()] = Ticks(0);
    let here = cluster.ask(reader, Request::Read(vec![read_item(0, 0)]));
    assert_eq!(reason(Some(here)), AbortReason::BelowFloor);
    assert_eq!(registers(read(&mut cluster, X, read_both())), [1, 1]);
}

/// Rows are replaced in place while no reader reads on in an older snapshot. The first one that does restarts and never
/// gets a mixture; from then on the version history is retained for others like it.
#[test]
fn the_history_is_retained_after_a_read_in_an_older_snapshot() {
    for node in [X, C2] {
        let mut cluster = cluster(4);
        let mut value = 0;
        let mut reads = |cluster: &mut Cluster<RampNode>| {
            let reader = cluster.begin(node);
            cluster.ask(reader, Request::Read(vec![read_item(0, 0)]));
            let before = value;
            for _ in 0..3 {
                value += 1;
                let writer = cluster.begin(X);
                let set = vec![on(0, vec![update(SET, 0, 1, value)])];
                assert!(is_committed(Some(
                    cluster.ask(writer, Request::Commit(set))
                )));
            }
            let reply = cluster.ask(reader, Request::Read(vec![read_item(0, 1)]));
            (reply, before, value)
        };
        let (reply, _, newest) = reads(&mut cluster);
        assert_eq!(reason(Some(reply)), AbortReason::BelowFloor, "from {node}");
        let seen = read(&mut cluster, node, vec![read_item(0, 1)]);
        assert_eq!(registers(seen), [newest]);
        let (reply, before, _) = reads(&mut cluster);
        assert_eq!(registers(Some(reply)), [before], "read from {node}");
        cluster.advance(Ticks::from_millis(600));
        let (reply, _, _) = reads(&mut cluster);
        assert_eq!(reason(Some(reply)), AbortReason::BelowFloor, "from {node}");
    }
}
