//! SCORe and Bumper, message by message.

use std::sync::Arc;

use anabranch_protocol::score::{ScoreNode, ScoreOptions};
use anabranch_protocol::{
    AbortReason, Age, Durable, PartitionEffects, PartitionRead, Reply, Request, Topology,
    TransactionId,
};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{Fetched, NodeId, Ticks, Timestamp};

use crate::support::cluster::Cluster;
use crate::support::fixture::*;

const N0: NodeId = NodeId(0);
const N1: NodeId = NodeId(1);
const N2: NodeId = NodeId(2);

const NODES: u16 = 3;

fn node(id: NodeId, store: Store, time_warping: bool) -> ScoreNode {
    let topology = Arc::new(Topology::one_each(NODES));
    let options = ScoreOptions {
        time_warping,
        ..ScoreOptions::default()
    };
    ScoreNode::new(id, topology, schema(), store, programs(), options)
}

fn empty() -> Store {
    Store::new(&schema(), StoreSettings::default())
}

/// Three nodes with a partition each, which has items 0 to 3 with registers of 0.
fn cluster(time_warping: bool) -> Cluster<ScoreNode> {
    let made = (0..NODES).map(|part| {
        let mut store = empty();
        for id in 0..4 {
            store
                .load(ITEM, item_key(part, id), item_row(part, id, 0, 0))
                .expect("new keys");
        }
        node(NodeId(part), store, time_warping)
    });
    Cluster::new(made.collect())
}

fn score() -> Cluster<ScoreNode> {
    cluster(false)
}

fn bumper() -> Cluster<ScoreNode> {
    cluster(true)
}

/// The registers of items.
fn read(
    cluster: &mut Cluster<ScoreNode>,
    id: TransactionId,
    reads: &[PartitionRead],
) -> Vec<Option<i64>> {
    match cluster.ask(id, Request::Read(reads.to_vec())) {
        Reply::Fetched(rows) => rows.iter().map(register).collect(),
        other => panic!("{other:?} instead of rows"),
    }
}

fn register(fetched: &Fetched) -> Option<i64> {
    item(fetched).map(|(register, _)| register)
}

fn set(part: u16, id: i64, to: i64) -> PartitionEffects {
    on(part, vec![update(SET, part, id, to)])
}

fn commit(
    cluster: &mut Cluster<ScoreNode>,
    id: TransactionId,
    effects: Vec<PartitionEffects>,
) -> Reply {
    cluster.ask(id, Request::Commit(effects))
}

fn position(reply: &Reply) -> Timestamp {
    match reply {
        Reply::Committed { timestamp, .. } => *timestamp,
        other => panic!("{other:?} instead of a commit"),
    }
}

fn assert_conflict(reply: &Reply) {
    let conflict = matches!(reply, Reply::Aborted(AbortReason::Conflict));
    assert!(conflict, "{reply:?} instead of an abort for a conflict");
}

fn assert_idle(cluster: &Cluster<ScoreNode>) {
    for (number, node) in cluster.nodes.iter().enumerate() {
        assert!(node.is_idle(), "node {number} still knows of a transaction");
    }
}

/// Reads one item, writes another, and is overtaken by a transaction that writes what it has read (bumper.txt,
/// Figure 1). Returns both replies.
fn overtaken(cluster: &mut Cluster<ScoreNode>) -> (Reply, Reply) {
    let (late, early) = (cluster.begin(N0), cluster.begin(N1));
    read(cluster, late, &[read_item(1, 0), read_item(2, 0)]);
    read(cluster, early, &[read_item(1, 0)]);
    let early = commit(cluster, early, vec![set(1, 0, 1)]);
    let late = commit(cluster, late, vec![set(2, 0, 2)]);
    (early, late)
}

#[test]
fn what_has_read_stale_rows_aborts_without_time_warping() {
    let mut cluster = score();
    let (early, late) = overtaken(&mut cluster);
    position(&early);
    assert_conflict(&late);
    assert_idle(&cluster);
}

#[test]
fn what_has_read_stale_rows_commits_at_its_snapshot() {
    let mut cluster = bumper();
    let (early, late) = overtaken(&mut cluster);
    assert!(position(&late) < position(&early));
    assert_eq!(cluster.nodes[0].warped(), 1);
    assert_idle(&cluster);
}

/// C and D of Figure 1: they miss each other's write of one item.
#[test]
fn of_two_that_read_and_write_one_item_the_second_aborts() {
    for mut cluster in [score(), bumper()] {
        let (one, two) = (cluster.begin(N0), cluster.begin(N1));
        for id in [one, two] {
            read(&mut cluster, id, &[read_item(2, 0)]);
        }
        position(&commit(&mut cluster, one, vec![set(2, 0, 1)]));
        assert_conflict(&commit(&mut cluster, two, vec![set(2, 0, 2)]));
        assert_idle(&cluster);
    }
}

/// A triad: a reader has seen the state in which the transaction is not.
#[test]
fn no_transaction_commits_before_one_that_has_read_what_it_overwrites() {
    let mut cluster = bumper();
    let late = cluster.begin(N0);
    read(&mut cluster, late, &[read_item(1, 0), read_item(2, 0)]);
    let early = cluster.begin(N1);
    read(&mut cluster, early, &[read_item(1, 0)]);
    position(&commit(&mut cluster, early, vec![set(1, 0, 1)]));
    let reader = cluster.begin(N2);
    assert_eq!(read(&mut cluster, reader, &[read_item(1, 0)]), [Some(1)]);
    assert_eq!(read(&mut cluster, reader, &[read_item(2, 0)]), [Some(0)]);
    assert_conflict(&commit(&mut cluster, late, vec![set(2, 0, 2)]));
}

/// The paper's stamps name one reader: a transaction that reads an item again hides the other one.
#[test]
fn a_transaction_that_reads_an_item_again_does_not_hide_another_reader() {
    let mut cluster = bumper();
    let late = cluster.begin(N0);
    read(&mut cluster, late, &[read_item(1, 0), read_item(2, 0)]);
    let early = cluster.begin(N1);
    read(&mut cluster, early, &[read_item(1, 0)]);
    position(&commit(&mut cluster, early, vec![set(1, 0, 1)]));
    let reader = cluster.begin(N2);
    read(&mut cluster, reader, &[read_item(1, 0)]);
    read(&mut cluster, reader, &[read_item(2, 0)]);
    read(&mut cluster, late, &[read_item(2, 0)]);
    assert_conflict(&commit(&mut cluster, late, vec![set(2, 0, 2)]));
}

/// A reader's position is above its snapshot once it has committed.
#[test]
fn a_reader_that_commits_later_counts_where_it_commits() {
    let mut cluster = bumper();
    // Its snapshot is below the next one's.
    let reader = cluster.begin(N2);
    read(&mut cluster, reader, &[read_item(2, 0), read_item(2, 3)]);
    let late = cluster.begin(N0);
    read(&mut cluster, late, &[read_item(2, 0)]);
    read(&mut cluster, late, &[read_item(1, 0)]);
    let early = cluster.begin(N1);
    read(&mut cluster, early, &[read_item(1, 0)]);
    position(&commit(&mut cluster, early, vec![set(1, 0, 1)]));
    // It has read the item that `late` writes, sees nothing of it, and comes after `early`.
    position(&commit(&mut cluster, reader, vec![set(2, 3, 7)]));
    assert_conflict(&commit(&mut cluster, late, vec![set(2, 0, 2)]));
}

/// An insert into a range that was read is a change of it.
#[test]
fn a_range_is_stale_once_a_row_has_entered_it() {
    for mut cluster in [score(), bumper()] {
        let reader = cluster.begin(N0);
        cluster.ask(reader, Request::Read(vec![read_items(1, 0, 9)]));
        read(&mut cluster, reader, &[read_item(1, 0)]);
        let writer = cluster.begin(N1);
        let insert = on(1, vec![insert_item(1, 5, 0, 0)]);
        position(&commit(&mut cluster, writer, vec![insert]));
        let reply = commit(&mut cluster, reader, vec![set(1, 0, 1)]);
        match cluster.nodes[0].warped() {
            0 => assert_conflict(&reply),
            _ => drop(position(&reply)),
        }
    }
}

/// A row that enters a range which another transaction has read is not put into the past of that one.
#[test]
fn no_row_enters_a_range_before_one_that_has_read_it() {
    let mut cluster = bumper();
    let late = cluster.begin(N0);
    read(&mut cluster, late, &[read_item(1, 0)]);
    let early = cluster.begin(N1);
    read(&mut cluster, early, &[read_item(1, 0)]);
    position(&commit(&mut cluster, early, vec![set(1, 0, 1)]));
    let reader = cluster.begin(N2);
    read(&mut cluster, reader, &[read_item(1, 0)]);
    cluster.ask(reader, Request::Read(vec![read_items(2, 0, 9)]));
    let insert = on(2, vec![insert_item(2, 5, 0, 0)]);
    assert_conflict(&commit(&mut cluster, late, vec![insert]));
}

/// A row that was overwritten since the snapshot, and was not read.
#[test]
fn what_replaces_a_later_row_unread_does_not_commit_in_the_past() {
    let mut cluster = bumper();
    let late = cluster.begin(N0);
    read(&mut cluster, late, &[read_item(1, 0)]);
    let early = cluster.begin(N1);
    read(&mut cluster, early, &[read_item(1, 0)]);
    let both = vec![set(1, 0, 1), set(2, 0, 1)];
    position(&commit(&mut cluster, early, both));
    assert_conflict(&commit(&mut cluster, late, vec![set(2, 0, 2)]));
}

/// An UPDATE that found no row has read that there is none: no row is put before it.
#[test]
fn no_row_is_put_before_an_update_that_did_not_find_it() {
    let mut cluster = bumper();
    let late = cluster.begin(N0);
    read(&mut cluster, late, &[read_item(1, 0)]);
    let early = cluster.begin(N1);
    let effects = vec![update(SET, 1, 0, 1), update(SET, 1, 7, 1)];
    position(&commit(&mut cluster, early, vec![on(1, effects)]));
    let insert = on(1, vec![insert_item(1, 7, 0, 0)]);
    assert_conflict(&commit(&mut cluster, late, vec![insert]));
}

/// Between a snapshot and the position just after it there are positions of other nodes, at the same time.
#[test]
fn what_changes_at_the_time_of_a_snapshot_is_too_close_to_commit_before_it() {
    let mut cluster = bumper();
    let early = cluster.begin(N1);
    cluster.request(early, Request::Commit(vec![set(1, 0, 1), set(2, 3, 1)]));
    // Its snapshot has the time of the vote.
    let late = cluster.begin(N0);
    read_now(&mut cluster, late, read_item(0, 0));
    cluster.request(late, Request::Read(vec![read_item(1, 0)]));
    cluster.deliver(N0, N1);
    cluster.deliver(N1, N0);
    let Some(Reply::Fetched(rows)) = cluster.take_reply(late) else {
        panic!("the vote is above the snapshot");
    };
    assert_eq!(register(&rows[0]), Some(0));
    cluster.deliver_all();
    let early = position(&cluster.take_reply(early).expect("it is decided"));
    let reply = commit(&mut cluster, late, vec![set(2, 0, 2)]);
    assert_eq!((early.logical(), early.node()), (4, N1));
    assert_conflict(&reply);
}

/// What a client has seen precedes what it writes next, wherever that is.
#[test]
fn a_transaction_without_reads_comes_after_what_its_client_has_seen() {
    let mut cluster = score();
    let mut seen = None;
    for _ in 0..20 {
        let ahead = cluster.begin(N1);
        seen = Some(commit(&mut cluster, ahead, vec![set(1, 3, 1)]));
    }
    let Some(Reply::Committed {
        timestamp, session, ..
    }) = seen
    else {
        panic!("nothing conflicts");
    };
    let next = cluster.begin(N0);
    cluster.request(next, Request::Follow(session));
    let next = commit(&mut cluster, next, vec![set(2, 0, 1)]);
    assert!(position(&next) > timestamp);
}

/// A participant whose clock is behind takes the snapshot's time: what it votes for later is not in the snapshot.
#[test]
fn a_participant_that_lags_votes_above_the_snapshots_that_it_has_answered() {
    let mut cluster = score();
    let reader = cluster.begin(N0);
    // The clock of node 0 goes ahead.
    for _ in 0..50 {
        let ahead = cluster.begin(N0);
        position(&commit(&mut cluster, ahead, vec![set(0, 3, 1)]));
    }
    read(&mut cluster, reader, &[read_item(0, 0)]);
    assert_eq!(read(&mut cluster, reader, &[read_item(1, 0)]), [Some(0)]);
    let writer = cluster.begin(N1);
    position(&commit(
        &mut cluster,
        writer,
        vec![set(1, 0, 9), set(2, 0, 9)],
    ));
    assert_eq!(read(&mut cluster, reader, &[read_item(2, 0)]), [Some(0)]);
    assert_eq!(read(&mut cluster, reader, &[read_item(1, 0)]), [Some(0)]);
}

/// A reader waits for a transaction with votes, and sees all of it.
#[test]
fn a_reader_waits_for_the_decision_on_what_it_reads() {
    for mut cluster in [score(), bumper()] {
        let writer = cluster.begin(N0);
        cluster.request(writer, Request::Commit(vec![set(1, 0, 5), set(2, 0, 5)]));
        cluster.deliver(N0, N1);
        cluster.deliver(N0, N2);
        let reader = cluster.begin(N1);
        cluster.request(reader, Request::Read(vec![read_item(1, 0)]));
        assert!(!cluster.has_reply(reader));
        // What is not written does not wait.
        let other = cluster.begin(N1);
        assert_eq!(read_now(&mut cluster, other, read_item(1, 1)), Some(0));
        cluster.deliver_all();
        let Some(Reply::Fetched(rows)) = cluster.take_reply(reader) else {
            panic!("the decision is known");
        };
        assert_eq!(register(&rows[0]), Some(5));
        assert_eq!(read(&mut cluster, reader, &[read_item(2, 0)]), [Some(5)]);
        position(&cluster.ask(reader, Request::CommitReads));
        cluster.ask(other, Request::CommitReads);
        assert_idle(&cluster);
    }
}

/// A read that is answered within its step.
fn read_now(
    cluster: &mut Cluster<ScoreNode>,
    id: TransactionId,
    read: PartitionRead,
) -> Option<i64> {
    cluster.request(id, Request::Read(vec![read]));
    match cluster.take_reply(id) {
        Some(Reply::Fetched(rows)) => register(&rows[0]),
        other => panic!("{other:?} instead of rows"),
    }
}

/// Two transactions that lock at two partitions in opposite order: the older one wounds the younger.
#[test]
fn voted_transactions_are_wounded_rather_than_waited_for_in_a_cycle() {
    let mut cluster = score();
    let (older, younger) = (cluster.begin(N0), cluster.begin(N2));
    let both = || vec![set(0, 0, 1), set(2, 0, 1)];
    // Each has the vote of its own partition before the other's request arrives.
    cluster.request(older, Request::Commit(both()));
    cluster.request(younger, Request::Commit(both()));
    cluster.deliver_all();
    let replies = [older, younger].map(|id| cluster.take_reply(id).expect("both end"));
    position(&replies[0]);
    assert_conflict(&replies[1]);
    assert_idle(&cluster);
}

/// A late `Release` of one attempt does not end what came after it.
#[test]
fn an_aborted_transaction_leaves_nothing() {
    let mut cluster = score();
    let writer = cluster.begin(N0);
    cluster.request(writer, Request::Commit(vec![set(1, 0, 5), set(2, 0, 5)]));
    cluster.deliver(N0, N1);
    cluster.request(writer, Request::Abort);
    cluster.deliver_all();
    assert_idle(&cluster);
    let reader = cluster.begin(N1);
    let seen = read(&mut cluster, reader, &[read_item(1, 0), read_item(2, 0)]);
    assert_eq!(seen, [Some(0), Some(0)]);
}

/// What a node recovers from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Log,
    Checkpoint,
}

fn crash(cluster: &mut Cluster<ScoreNode>, id: NodeId, from: Memory) {
    if from == Memory::Checkpoint {
        let mut records = Vec::new();
        cluster.nodes[id.index()].checkpoint(&mut |record| records.push(record));
        cluster.logs[id.index()] = records;
    }
    cluster.restart(id, node(id, empty(), true));
}

#[test]
fn a_vote_survives_a_crash_and_the_decision_is_asked_for() {
    for from in [Memory::Log, Memory::Checkpoint] {
        let mut cluster = bumper();
        cluster.keep_logs();
        let writer = cluster.begin(N0);
        cluster.request(writer, Request::Commit(vec![set(1, 0, 5), set(2, 0, 5)]));
        cluster.deliver(N0, N1);
        cluster.deliver(N0, N2);
        cluster.deliver(N1, N0);
        cluster.deliver(N2, N0);
        position(&cluster.take_reply(writer).expect("it is decided"));
        crash(&mut cluster, N1, from);
        cluster.deliver_all();
        let reader = cluster.begin(N1);
        let seen = read(&mut cluster, reader, &[read_item(1, 0), read_item(2, 0)]);
        assert_eq!(seen, [Some(5), Some(5)]);
        cluster.ask(reader, Request::CommitReads);
        assert_idle(&cluster);
    }
}

/// A vote that was restored gives way to an older transaction like any other.
#[test]
fn a_vote_from_before_a_crash_is_wounded() {
    for from in [Memory::Log, Memory::Checkpoint] {
        let mut cluster = bumper();
        cluster.keep_logs();
        let young = cluster.begin(N0);
        let age = |transaction, micros| Age {
            began: Ticks::from_micros(micros),
            transaction,
        };
        cluster.request(young, Request::WaitByAge(age(young, 9)));
        cluster.request(young, Request::Commit(vec![set(1, 0, 5), set(2, 0, 5)]));
        cluster.deliver(N0, N1);
        cluster.deliver(N1, N0);
        // Its request to node 2 is still under way.
        crash(&mut cluster, N1, from);
        cluster.deliver(N1, N0);
        let old = cluster.begin(N1);
        cluster.request(old, Request::WaitByAge(age(old, 3)));
        cluster.request(old, Request::Commit(vec![set(1, 0, 7)]));
        assert!(!cluster.has_reply(old));
        // An inquiry, and the wound.
        cluster.deliver(N1, N0);
        cluster.deliver(N1, N0);
        assert_conflict(&cluster.take_reply(young).expect("it is wounded"));
        cluster.deliver_all();
        position(&cluster.take_reply(old).expect("its lock is free"));
        assert_idle(&cluster);
    }
}

#[test]
fn what_a_coordinator_had_not_decided_before_its_crash_has_aborted() {
    for from in [Memory::Log, Memory::Checkpoint] {
        let mut cluster = bumper();
        cluster.keep_logs();
        let writer = cluster.begin(N0);
        cluster.request(writer, Request::Commit(vec![set(1, 0, 5), set(2, 0, 5)]));
        cluster.deliver(N0, N1);
        let reader = cluster.begin(N1);
        cluster.request(reader, Request::Read(vec![read_item(1, 0)]));
        assert!(!cluster.has_reply(reader));
        crash(&mut cluster, N0, from);
        cluster.deliver_all();
        let Some(Reply::Fetched(rows)) = cluster.take_reply(reader) else {
            panic!("the writer has aborted");
        };
        assert_eq!(register(&rows[0]), Some(0));
        cluster.ask(reader, Request::CommitReads);
        assert_idle(&cluster);
    }
}

/// Who had read what before the crash is not known: nothing from before commits in the past.
#[test]
fn nothing_commits_before_a_restart_of_its_participant() {
    let mut cluster = bumper();
    cluster.keep_logs();
    let late = cluster.begin(N0);
    read(&mut cluster, late, &[read_item(1, 0)]);
    let early = cluster.begin(N1);
    read(&mut cluster, early, &[read_item(1, 0)]);
    position(&commit(&mut cluster, early, vec![set(1, 0, 1)]));
    let reader = cluster.begin(N0);
    read(&mut cluster, reader, &[read_item(1, 0)]);
    read(&mut cluster, reader, &[read_item(2, 1), read_item(2, 0)]);
    crash(&mut cluster, N2, Memory::Log);
    cluster.deliver_all();
    // It has read nothing at the restarted node, and would otherwise commit at its snapshot.
    let reply = commit(&mut cluster, late, vec![set(2, 0, 2)]);
    assert!(matches!(reply, Reply::Aborted(_)), "{reply:?}");
}

/// A snapshot from before a restart is refused: versions that it needs may be gone.
#[test]
fn a_snapshot_from_before_a_restart_is_refused() {
    let mut cluster = bumper();
    cluster.keep_logs();
    let reader = cluster.begin(N0);
    read(&mut cluster, reader, &[read_item(2, 1)]);
    crash(&mut cluster, N2, Memory::Log);
    cluster.deliver_all();
    let reply = cluster.ask(reader, Request::Read(vec![read_item(2, 0)]));
    let refused = matches!(reply, Reply::Aborted(AbortReason::BelowFloor));
    assert!(refused, "{reply:?}");
}
