//! E-PCI, message by message.

use std::sync::Arc;

use anabranch_protocol::epci::EPciNode;
use anabranch_protocol::{
    AbortReason, PartitionEffects, PartitionRead, Reply, Request, Topology, TransactionId,
};
use anabranch_types::{Effect, Fetched, NodeId, Ticks};

use crate::support::cluster::Cluster;
use crate::support::fixture::*;

const N0: NodeId = NodeId(0);
const N1: NodeId = NodeId(1);
const N2: NodeId = NodeId(2);
const N3: NodeId = NodeId(3);

/// How long superseded versions are kept.
const WINDOW: Ticks = Ticks::from_millis(500);

/// Four nodes with two items each.
fn cluster() -> Cluster<EPciNode> {
    let topology = Arc::new(Topology::one_each(4));
    let node = |part| {
        let store = store(part, 2, WINDOW);
        EPciNode::new(NodeId(part), Arc::clone(&topology), store, programs())
    };
    Cluster::new((0..4).map(node).collect())
}

fn read(reads: Vec<PartitionRead>) -> Request {
    Request::Read(reads)
}

fn both() -> Vec<PartitionRead> {
    vec![read_item(0, 0), read_item(1, 0)]
}

fn fetched(reply: Reply) -> Vec<Fetched> {
    match reply {
        Reply::Fetched(rows) => rows,
        other => panic!("{other:?} where rows were asked for"),
    }
}

fn registers(reply: Reply) -> Vec<i64> {
    let rows = fetched(reply);
    let register = |row| item(row).expect("there is such an item").0;
    rows.iter().map(register).collect()
}

fn assert_committed(reply: Option<Reply>) {
    assert!(matches!(reply, Some(Reply::Committed { .. })), "{reply:?}");
}

fn assert_idle(cluster: &mut Cluster<EPciNode>) {
    cluster.deliver_all();
    for (number, node) in cluster.nodes.iter().enumerate() {
        assert!(node.is_idle(), "node {number} is not idle");
    }
}

/// Starts a write of a register on each of two partitions.
fn write(cluster: &mut Cluster<EPciNode>, at: NodeId, to: i64) -> TransactionId {
    let effects = [0, 1].map(|part| on(part, vec![update(SET, part, 0, to)]));
    commit(cluster, at, effects.to_vec())
}

fn commit(
    cluster: &mut Cluster<EPciNode>,
    at: NodeId,
    effects: Vec<PartitionEffects>,
) -> TransactionId {
    let writer = cluster.begin(at);
    cluster.request(writer, Request::Commit(effects));
    writer
}

/// Ends a transaction that has read.
fn end(cluster: &mut Cluster<EPciNode>, reader: TransactionId) {
    cluster.request(reader, Request::Commit(Vec::new()));
    assert_committed(cluster.take_reply(reader));
}

/// ramp.txt §5.1: reads take one round during quiescence, writes two.
#[test]
fn in_quiescence_reads_take_one_round_and_send_no_checks() {
    let mut cluster = cluster();
    let writer = write(&mut cluster, N2, 7);
    cluster.deliver_all();
    assert_committed(cluster.take_reply(writer));
    assert_eq!(cluster.counters().messages, 6, "prepare, vote and commit");
    cluster.advance(Ticks::from_millis(1));
    let reader = cluster.begin(N3);
    assert_eq!(registers(cluster.ask(reader, read(both()))), [7, 7]);
    end(&mut cluster, reader);
    assert_eq!(cluster.counters().messages, 6 + 4);
    assert_eq!(cluster.counters().commit_checks, 0);
    assert_idle(&mut cluster);
}

/// Pending writes of other items need no commit check.
#[test]
fn only_what_is_pending_on_the_same_item_is_asked_about() {
    let mut cluster = cluster();
    write(&mut cluster, N2, 7);
    cluster.deliver(N2, N0);
    cluster.deliver(N2, N1);
    let reader = cluster.begin(N3);
    let others = vec![read_item(0, 1), read_item(1, 1), read_items(1, 1, 5)];
    cluster.request(reader, read(others));
    for (from, to) in [(N3, N0), (N3, N1), (N0, N3), (N1, N3)] {
        cluster.deliver(from, to);
    }
    assert!(cluster.take_reply(reader).is_some());
    assert_eq!(cluster.counters().commit_checks, 0);
    end(&mut cluster, reader);
    assert_idle(&mut cluster);
}

/// The trap: the check is answered "not committed" as of the reader's timestamp, and then the transaction
/// commits. The reader's clock is far ahead, so that only the check can have advanced the writer's.
#[test]
fn a_check_races_a_commit() {
    let mut cluster = cluster();
    cluster.skew[N3.index()] = Ticks::from_millis(50);
    let writer = write(&mut cluster, N2, 7);
    cluster.deliver(N2, N0);
    cluster.deliver(N2, N1);
    let reader = cluster.begin(N3);
    cluster.request(reader, read(both()));
    // One owner sends a check; the answer is "not yet".
    cluster.deliver(N3, N0);
    assert!(!cluster.has_reply(reader));
    cluster.deliver(N0, N2);
    assert_eq!(cluster.under_way(N0, N2), 1, "the check follows the vote");
    cluster.deliver(N0, N2);
    cluster.deliver(N2, N0);
    cluster.deliver(N0, N3);
    // Now it commits at both, and the reader reads at the other.
    cluster.deliver(N1, N2);
    assert_committed(cluster.take_reply(writer));
    cluster.deliver(N2, N1);
    cluster.deliver(N2, N0);
    cluster.deliver(N3, N1);
    cluster.deliver_all();
    let seen = cluster.take_reply(reader).expect("both have answered");
    assert_eq!(registers(seen), [0, 0], "none of it, here as there");
    end(&mut cluster, reader);
    assert_idle(&mut cluster);
}

/// A reader reads a transaction at one partition; the other owner's commit check finds that it has committed.
#[test]
fn a_committed_write_is_visible_before_its_commit_arrives() {
    let mut cluster = cluster();
    let writer = write(&mut cluster, N2, 7);
    for (from, to) in [(N2, N0), (N2, N1), (N0, N2), (N1, N2), (N2, N0)] {
        cluster.deliver(from, to);
    }
    assert_committed(cluster.take_reply(writer));
    cluster.advance(Ticks::from_millis(1));
    let reader = cluster.begin(N0);
    cluster.request(reader, read(both()));
    cluster.deliver(N0, N1);
    assert_eq!(cluster.counters().commit_checks, 1);
    cluster.deliver(N1, N2);
    assert_eq!(cluster.under_way(N2, N1), 2, "the commit, then the answer");
    cluster.deliver_all();
    let seen = cluster.take_reply(reader).expect("both have answered");
    assert_eq!(registers(seen), [7, 7]);
    end(&mut cluster, reader);
    assert_idle(&mut cluster);
}

/// A transaction that votes after a read commits above the reader, however slow its clock is.
#[test]
fn a_vote_is_above_every_reader_that_has_been_there() {
    let mut cluster = cluster();
    cluster.skew[N3.index()] = Ticks::from_millis(50);
    let reader = cluster.begin(N3);
    cluster.request(reader, read(both()));
    cluster.deliver(N3, N0);
    let writer = write(&mut cluster, N2, 7);
    for (from, to) in [(N2, N0), (N2, N1), (N0, N2)] {
        cluster.deliver(from, to);
    }
    for (from, to) in [(N0, N3), (N1, N2), (N2, N1)] {
        while cluster.under_way(from, to) > 0 {
            cluster.deliver(from, to);
        }
    }
    cluster.deliver_all();
    assert_committed(cluster.take_reply(writer));
    let seen = cluster.take_reply(reader).expect("both have answered");
    assert_eq!(registers(seen), [0, 0]);
    end(&mut cluster, reader);
    assert_idle(&mut cluster);
}

/// Two writers of one item commit in one order, and their commits arrive in the other: versions are in the order
/// of their timestamps.
#[test]
fn a_later_commit_is_installed_later() {
    let mut cluster = cluster();
    let first = write(&mut cluster, N2, 7);
    cluster.deliver(N2, N0);
    cluster.deliver(N2, N1);
    cluster.deliver(N1, N2);
    cluster.advance(Ticks::from_millis(1));
    let second = write(&mut cluster, N3, 8);
    for (from, to) in [(N3, N0), (N3, N1), (N0, N3), (N1, N3)] {
        cluster.deliver(from, to);
    }
    assert_committed(cluster.take_reply(second));
    cluster.deliver(N3, N0);
    // The second is decided, and the first may commit before it.
    cluster.advance(Ticks::from_millis(1));
    let reader = cluster.begin(N1);
    cluster.request(reader, read(vec![read_item(0, 0)]));
    cluster.deliver(N1, N0);
    assert!(!cluster.has_reply(reader));
    assert_eq!(cluster.counters().commit_checks, 1, "about the first");
    cluster.deliver_all();
    let seen = cluster.take_reply(reader).expect("it is answered");
    assert_eq!(registers(seen), [8]);
    end(&mut cluster, reader);
    assert_committed(cluster.take_reply(first));
    // The check makes the first commit above the reader, and so above the second.
    cluster.advance(Ticks::from_millis(5));
    let after = cluster.begin(N1);
    assert_eq!(registers(cluster.ask(after, read(both()))), [7, 7]);
    end(&mut cluster, after);
    assert_idle(&mut cluster);
}

/// All reads of a transaction are as of one timestamp.
#[test]
fn a_transaction_reads_as_of_one_timestamp() {
    let mut cluster = cluster();
    let reader = cluster.begin(N3);
    let first = cluster.ask(reader, read(vec![read_item(0, 0)]));
    assert_eq!(registers(first), [0]);
    cluster.advance(Ticks::from_millis(1));
    let writer = write(&mut cluster, N2, 7);
    cluster.deliver_all();
    assert_committed(cluster.take_reply(writer));
    let second = cluster.ask(reader, read(vec![read_item(1, 0)]));
    assert_eq!(registers(second), [0]);
    end(&mut cluster, reader);
    assert_idle(&mut cluster);
}

#[test]
fn a_reader_older_than_the_window_restarts() {
    let mut cluster = cluster();
    let reader = cluster.begin(N3);
    cluster.ask(reader, read(vec![read_item(0, 0)]));
    for to in 1..30 {
        cluster.advance(Ticks::from_millis(100));
        write(&mut cluster, N2, to);
        cluster.deliver_all();
    }
    let late = cluster.ask(reader, read(vec![read_item(1, 0)]));
    assert!(
        matches!(late, Reply::Aborted(AbortReason::BelowFloor)),
        "{late:?}"
    );
    assert_idle(&mut cluster);
}

/// A range includes pending rows whose transaction has committed.
#[test]
fn a_range_asks_about_what_may_come_into_it() {
    for scan in [read_entries(1), read_entries_of(1, 5)] {
        let mut cluster = cluster();
        let entries = [0, 1].map(|part| on(part, vec![insert(part, 10, 5, 1)]));
        let writer = commit(&mut cluster, N2, entries.to_vec());
        for (from, to) in [(N2, N0), (N2, N1), (N0, N2), (N1, N2), (N2, N0)] {
            cluster.deliver(from, to);
        }
        assert_committed(cluster.take_reply(writer));
        cluster.advance(Ticks::from_millis(1));
        let reader = cluster.begin(N3);
        let both = vec![read_entry(0, 10), scan];
        cluster.request(reader, read(both));
        cluster.deliver(N3, N1);
        cluster.deliver_all();
        let seen = fetched(cluster.take_reply(reader).expect("both have answered"));
        assert_eq!(rows(ENTRY, &seen[1]), [[1, 10, 5, 1]]);
        assert_eq!(cluster.counters().commit_checks, 1);
        end(&mut cluster, reader);
        assert_idle(&mut cluster);
    }
}

/// Read atomic isolation permits a lost update, and serializability does not: both transactions read the old
/// value.
#[test]
fn an_update_may_be_lost() {
    let mut cluster = cluster();
    let writers = [N2, N3].map(|at| cluster.begin(at));
    for writer in writers {
        assert_eq!(registers(cluster.ask(writer, read(both()))), [0, 0]);
    }
    for (writer, to) in writers.into_iter().zip([1, 2]) {
        let effects = [0, 1].map(|part| on(part, vec![update(SET, part, 0, to)]));
        cluster.request(writer, Request::Commit(effects.to_vec()));
    }
    cluster.deliver_all();
    for writer in writers {
        assert_committed(cluster.take_reply(writer));
    }
    assert_idle(&mut cluster);
}

/// Increments are pending together, and all are counted.
#[test]
fn increments_do_not_exclude_each_other() {
    let mut cluster = cluster();
    let add = |cluster: &mut Cluster<EPciNode>, at| {
        let effects = [0, 1].map(|part| on(part, vec![update(ADD, part, 0, 1)]));
        commit(cluster, at, effects.to_vec())
    };
    let writers = [N2, N3, N0].map(|at| add(&mut cluster, at));
    cluster.deliver_all();
    for writer in writers {
        assert_committed(cluster.take_reply(writer));
    }
    cluster.advance(Ticks::from_millis(1));
    let reader = cluster.begin(N3);
    let rows = fetched(cluster.ask(reader, read(both())));
    let counts: Vec<i64> = rows.iter().map(|row| item(row).expect("a row").1).collect();
    assert_eq!(counts, [3, 3]);
    end(&mut cluster, reader);
    assert_idle(&mut cluster);
}

/// Of two increments that fit alone and overflow together, one gets a vote.
#[test]
fn updates_that_overflow_together_conflict() {
    let mut cluster = cluster();
    let add = |cluster: &mut Cluster<EPciNode>, at| {
        let effects = [0, 1].map(|part| on(part, vec![update(ADD, part, 0, COUNT_MAX)]));
        commit(cluster, at, effects.to_vec())
    };
    let (first, second) = (add(&mut cluster, N2), add(&mut cluster, N3));
    for (from, to) in [(N2, N0), (N3, N0)] {
        cluster.deliver(from, to);
    }
    cluster.deliver_all();
    assert_committed(cluster.take_reply(first));
    let refused = cluster.take_reply(second);
    assert!(
        matches!(refused, Some(Reply::Aborted(AbortReason::Conflict))),
        "{refused:?}"
    );
    assert_idle(&mut cluster);
}

/// Inserts, deletes and programs that may violate a constraint exclude other pending writes.
#[test]
fn what_may_fail_is_pending_alone() {
    let pairs: [[Effect; 2]; 3] = [
        [insert(0, 10, 5, 1), insert(0, 10, 6, 1)],
        [update(ADD, 0, 0, 1), delete_item(0, 0)],
        [update(ADD, 0, 0, 1), update(TAKE, 0, 0, 0)],
    ];
    for pair in pairs {
        for pair in [pair.clone(), [pair[1].clone(), pair[0].clone()]] {
            let mut cluster = cluster();
            let told = format!("{pair:?}");
            let [a, b] = pair;
            let also = |effect, id| vec![on(0, vec![effect]), on(1, vec![update(ADD, 1, id, 1)])];
            let first = commit(&mut cluster, N2, also(a, 0));
            let second = commit(&mut cluster, N3, also(b, 1));
            cluster.deliver(N2, N0);
            cluster.deliver(N3, N0);
            cluster.deliver_all();
            assert_committed(cluster.take_reply(first));
            let refused = cluster.take_reply(second);
            assert!(
                matches!(refused, Some(Reply::Aborted(AbortReason::Conflict))),
                "{told}: {refused:?}"
            );
            assert_idle(&mut cluster);
        }
    }
}

/// A refusal aborts the prepared writes of the others, and releases the readers that wait for them.
#[test]
fn a_refusal_leaves_nothing() {
    let mut cluster = cluster();
    let entry = on(0, vec![insert(0, 10, 5, 1)]);
    let taken = commit(&mut cluster, N0, vec![entry.clone()]);
    assert_committed(cluster.take_reply(taken));
    let effects = vec![entry, on(1, vec![update(SET, 1, 0, 7)])];
    let writer = commit(&mut cluster, N2, effects);
    cluster.deliver(N2, N1);
    cluster.advance(Ticks::from_millis(1));
    let reader = cluster.begin(N3);
    cluster.request(reader, read(vec![read_item(1, 0)]));
    cluster.deliver(N3, N1);
    assert!(!cluster.has_reply(reader));
    // The refusal comes before the commit check, and answers it.
    for (from, to) in [(N2, N0), (N0, N2), (N2, N1), (N1, N3)] {
        cluster.deliver(from, to);
    }
    assert!(
        cluster.has_reply(reader),
        "no transaction is pending any more"
    );
    cluster.deliver_all();
    let refused = cluster.take_reply(writer);
    let Some(Reply::Aborted(AbortReason::Failed(error))) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error.code, "23505");
    let seen = cluster.take_reply(reader).expect("nothing is in its way");
    assert_eq!(registers(seen), [0]);
    end(&mut cluster, reader);
    assert_idle(&mut cluster);
}

#[test]
fn what_it_cannot_do_is_refused_by_name() {
    let guard = read(vec![guarded(read_item(0, 0))]);
    let guard_write = Request::Commit(vec![guarding(0, vec![update(ADD, 0, 0, 1)])]);
    let output = Request::Commit(vec![on(0, vec![draw(0, 0, 0)])]);
    let drawn = Request::Commit(vec![on(0, vec![insert_drawn(0, 0, 0, 5, 1)])]);
    let cases = [
        (guard, "read a guard"),
        (guard_write, "write a guard"),
        (output, "deferred effect"),
        (drawn, "drawn at commit"),
    ];
    for (request, what) in cases {
        let mut cluster = cluster();
        let transaction = cluster.begin(N0);
        let Reply::Aborted(AbortReason::Failed(error)) = cluster.ask(transaction, request) else {
            panic!("{what} is not refused");
        };
        assert_eq!(error.code, "0A000");
        assert!(error.message.contains(what), "{}", error.message);
        assert!(error.message.contains("use ramp-fast"), "{}", error.message);
        assert_idle(&mut cluster);
    }
}
