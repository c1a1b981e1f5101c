//! Gossip about transactions that no reader needs (ramp.txt §4.5): how long they are remembered.

use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{AbortReason, Request};
use anabranch_types::{NodeId, Ticks};

use crate::ramp::exceptions::wait;
use crate::ramp::scenarios::{C1, C2, X, Y, is_committed, reason, registers, set_both};
use crate::ramp::{cluster, cluster_with};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

const NODES: [NodeId; 4] = [X, Y, C1, C2];

fn kept(cluster: &Cluster<RampNode>) -> [usize; 4] {
    NODES.map(|node| cluster.nodes[node.index()].metadata_kept())
}

fn write_both(cluster: &mut Cluster<RampNode>, value: i64) {
    let writer = cluster.begin(C1);
    let reply = cluster.ask(writer, Request::Commit(set_both(value)));
    assert!(is_committed(Some(reply)));
}

/// Owners forget a transaction when all nodes have reported that their readers do not need it, long before the window
/// is over; and then gossip stops.
#[test]
fn metadata_that_no_reader_needs_are_dropped_at_once() {
    for (gossip_after, left) in [(Some(Ticks::from_millis(3)), 0), (None, 1)] {
        let options = RampOptions {
            gossip_after,
            ..RampOptions::default()
        };
        let mut cluster = cluster_with(4, Ticks::from_millis(500), options);
        write_both(&mut cluster, 1);
        assert_eq!(kept(&cluster), [1, 1, 0, 0]);
        wait(&mut cluster, 100, &[]);
        assert_eq!(kept(&cluster), [left, left, 0, 0], "{gossip_after:?}");
        let sent = cluster.counters().messages;
        wait(&mut cluster, 100, &[]);
        assert_eq!(cluster.counters().messages, sent, "{gossip_after:?}");
    }
}

/// A reader that has read at one owner before a transaction, and reads at another after it, gets its metadata, although
/// readers that began later do not need them.
#[test]
fn a_running_reader_keeps_the_metadata_it_may_need() {
    let mut cluster = cluster(4);
    let reader = cluster.begin(C2);
    let first = cluster.ask(reader, Request::Read(vec![read_item(0, 0)]));
    assert_eq!(registers(Some(first)), [0]);
    write_both(&mut cluster, 1);
    wait(&mut cluster, 100, &[]);
    let later = cluster.begin(C2);
    cluster.ask(later, Request::Read(vec![read_item(0, 3)]));
    wait(&mut cluster, 200, &[]);
    assert_eq!(kept(&cluster), [1, 1, 0, 0]);
    let second = cluster.ask(reader, Request::Read(vec![read_item(1, 0)]));
    assert_eq!(reason(Some(second)), AbortReason::Fractured);
    // The later reader knows it to be stable.
    wait(&mut cluster, 100, &[]);
    assert_eq!(kept(&cluster), [0, 0, 0, 0]);
}

/// The readers of a silent node may need any metadata: these are kept until the window is over, and no longer.
#[test]
fn a_silent_node_is_waited_for_as_long_as_the_window() {
    let silent = [X, Y, C1].map(|to| (C2, to));
    let mut cluster = cluster(4);
    write_both(&mut cluster, 1);
    wait(&mut cluster, 300, &silent);
    assert_eq!(kept(&cluster), [1, 1, 0, 0]);
    wait(&mut cluster, 300, &silent);
    assert_eq!(kept(&cluster), [0, 0, 0, 0]);
}

/// An exception that is not settled is given to readers by an owner that has installed it, although nothing else is
/// remembered there.
#[test]
fn exceptions_are_given_to_readers() {
    let options = RampOptions {
        except_after: Ticks::from_millis(1),
        except_behind: 0,
        gossip_after: Some(Ticks::from_millis(3)),
        terminate_after: Some(Ticks::from_millis(60_000)),
        lost_commits: 500_000,
        ..RampOptions::default()
    };
    let mut cluster = cluster_with(4, Ticks::from_millis(500), options);
    for value in 1..=41 {
        // Every other one is installed at its coordinator, and only prepared elsewhere.
        let writer = cluster.begin(X);
        let id = value % 2;
        let effects = [0, 1].map(|part| on(part, vec![update(SET, part, id, value)]));
        let reply = cluster.ask(writer, Request::Commit(effects.into()));
        assert!(is_committed(Some(reply)));
        wait(&mut cluster, 2, &[]);
    }
    wait(&mut cluster, 100, &[]);
    assert_eq!(kept(&cluster), [20, 0, 0, 0], "the others are settled");
    let reader = cluster.begin(C2);
    for (id, newest) in [(0, 40), (1, 41)] {
        for part in [0, 1] {
            let reply = cluster.ask(reader, Request::Read(vec![read_item(part, id)]));
            assert_eq!(registers(Some(reply)), [newest], "{id} of {part}");
        }
    }
}
