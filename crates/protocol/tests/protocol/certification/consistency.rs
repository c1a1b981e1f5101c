//! What readers see, and what waits for what.

use anabranch_protocol::certification::Consistency;
use anabranch_protocol::{AbortReason, Reply, Request, TransactionId};
use anabranch_types::{NodeId, Ticks, Timestamp};

use crate::certification::{
    ITEMS, Site, WINDOW, commit, fetch, item_at, outcomes, reads, settle, site_with, sites,
    sites_with,
};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

/// Delivers all messages between two sites.
pub(crate) fn between(cluster: &mut Cluster<Site>, one: u16, two: u16) {
    loop {
        let busy = [(one, two), (two, one)].map(|(from, to)| (NodeId(from), NodeId(to)));
        let busy = busy
            .into_iter()
            .find(|(from, to)| cluster.under_way(*from, *to) > 0);
        let Some((from, to)) = busy else { return };
        cluster.deliver(from, to);
    }
}

fn set(id: i64, to: i64) -> Request {
    Request::Commit(vec![on(0, vec![update(SET, 0, id, to)])])
}

fn register(cluster: &mut Cluster<Site>, reader: TransactionId, id: i64) -> i64 {
    let found = fetch(cluster, reader, vec![read_item(0, id)]);
    item(&found[0]).expect("the item exists").0
}

fn timestamp(reply: Option<Reply>) -> Timestamp {
    match reply {
        Some(Reply::Committed { timestamp, .. }) => timestamp,
        other => panic!("{other:?}"),
    }
}

/// Two writers without conflict commit at site 0 and site 1, and a reader at each sees only the own one.
fn fork(consistency: Consistency) -> (Cluster<Site>, [TransactionId; 2]) {
    let mut cluster = sites_with(&store(0, ITEMS, WINDOW), consistency);
    let (one, two) = (cluster.begin(NodeId(0)), cluster.begin(NodeId(1)));
    cluster.request(one, set(0, 1));
    cluster.request(two, set(1, 2));
    between(&mut cluster, 0, 2);
    between(&mut cluster, 1, 2);
    timestamp(cluster.take_reply(one));
    timestamp(cluster.take_reply(two));
    let readers = [NodeId(0), NodeId(1)].map(|site| cluster.begin(site));
    let seen = readers.map(|reader| [0, 1].map(|id| register(&mut cluster, reader, id)));
    assert_eq!(
        seen,
        [[1, 0], [0, 2]],
        "each site sees its own writer alone"
    );
    (cluster, readers)
}

#[test]
fn update_serializability_permits_a_long_fork() {
    let (mut cluster, readers) = fork(Consistency::UpdateSerializable);
    let sent = cluster.counters().messages;
    for reader in readers {
        cluster.request(reader, Request::Commit(Vec::new()));
        timestamp(cluster.take_reply(reader));
    }
    assert_eq!(
        cluster.counters().messages,
        sent,
        "readers commit at their site"
    );
}

#[test]
fn serializability_forbids_a_long_fork() {
    let (mut cluster, readers) = fork(Consistency::Serializable);
    for reader in readers {
        commit(&mut cluster, reader, Vec::new());
    }
    let committed = outcomes(&mut cluster, readers);
    assert_eq!(
        committed, [false; 2],
        "each has missed a writer that was decided before it"
    );
}

#[test]
fn a_snapshot_does_not_change() {
    let mut cluster = sites();
    let reader = reads(&mut cluster, 0, vec![read_item(0, 0)]);
    let writer = cluster.begin(NodeId(0));
    let both = vec![update(SET, 0, 0, 1), update(SET, 0, 1, 1)];
    cluster.request(writer, Request::Commit(vec![on(0, both)]));
    settle(&mut cluster);
    timestamp(cluster.take_reply(writer));
    assert_eq!(register(&mut cluster, reader, 1), 0);
    // It has lost already, and is not broadcast.
    let sent = cluster.counters().messages;
    commit(&mut cluster, reader, Vec::new());
    assert_eq!(cluster.counters().messages, sent);
    assert_eq!(outcomes(&mut cluster, [reader]), [false]);
}

/// A reader that begins after a writer was answered sees it, or aborts, wherever it runs.
#[test]
fn what_was_answered_is_seen_at_every_site() {
    let mut cluster = sites();
    let writer = cluster.begin(NodeId(0));
    cluster.request(writer, set(0, 1));
    between(&mut cluster, 0, 2);
    timestamp(cluster.take_reply(writer));
    let reader = reads(&mut cluster, 1, vec![read_item(0, 0)]);
    commit(&mut cluster, reader, Vec::new());
    assert_eq!(outcomes(&mut cluster, [reader]), [false]);
}

#[test]
fn a_transaction_does_not_wait_for_another_without_conflict() {
    let mut cluster = sites();
    // Nothing that site 0 sends arrives, but its proposal at site 2.
    let stuck = cluster.begin(NodeId(0));
    cluster.request(stuck, set(0, 1));
    cluster.deliver(NodeId(0), NodeId(2));
    let [free, waits] = [NodeId(1), NodeId(1)].map(|site| cluster.begin(site));
    cluster.request(free, set(1, 2));
    between(&mut cluster, 1, 2);
    assert!(cluster.has_reply(free));
    assert_eq!(item_at(&cluster, 2, 1), (2, 0));
    cluster.request(waits, set(0, 3));
    between(&mut cluster, 1, 2);
    assert!(
        !cluster.has_reply(waits),
        "the other may be decided before it"
    );
    settle(&mut cluster);
    let [first, second] = [stuck, waits].map(|id| timestamp(cluster.take_reply(id)));
    let last = if first < second { 3 } else { 1 };
    assert_eq!(item_at(&cluster, 1, 0), (last, 0));
}

/// Certificates of one batch are certified in order, each against those before it.
#[test]
fn a_batch_is_certified_in_its_order() {
    let window = Ticks::from_millis(5);
    let rows = store(0, ITEMS, WINDOW);
    let made =
        (0..3).map(|number| site_with(number, 3, rows.clone(), Consistency::Serializable, window));
    let mut cluster = Cluster::new(made.collect());
    let readers = [0, 0].map(|site| reads(&mut cluster, site, vec![read_item(0, 0)]));
    for (to, reader) in (1..).zip(readers) {
        cluster.request(reader, set(0, to));
    }
    let blind = cluster.begin(NodeId(0));
    cluster.request(blind, set(0, 3));
    cluster.advance(window);
    settle(&mut cluster);
    let first = timestamp(cluster.take_reply(readers[0]));
    let second = cluster.take_reply(readers[1]);
    assert!(
        matches!(second, Some(Reply::Aborted(AbortReason::Conflict))),
        "{second:?}"
    );
    let last = timestamp(cluster.take_reply(blind));
    assert!(first < last, "{first} {last}");
    assert_eq!(item_at(&cluster, 2, 0), (3, 0));
}

#[test]
fn transactions_that_neither_read_nor_write_end_at_once() {
    let mut cluster = sites();
    let id = cluster.begin(NodeId(0));
    cluster.request(id, Request::Commit(Vec::new()));
    timestamp(cluster.take_reply(id));
    let given_up = reads(&mut cluster, 0, vec![read_item(0, 0)]);
    cluster.request(given_up, Request::Abort);
    assert!(cluster.nodes.iter().all(Site::is_idle));
    assert_eq!(cluster.counters().messages, 0);
}
