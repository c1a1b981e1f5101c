//! Short and missing read locks (ramp.txt's LWSR and LWNR): what reads may see, what they cost, and which locks
//! are held to the end nevertheless.

use anabranch_protocol::locking::{LockingNode, ReadLocks};
use anabranch_protocol::{AbortReason, PartitionRead, Reply, Request, TransactionId};
use anabranch_types::NodeId;

use crate::locking::{assert_idle, cluster, empty, node};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

const N0: NodeId = NodeId(0);
const N1: NodeId = NodeId(1);
const N2: NodeId = NodeId(2);

fn read(reads: Vec<PartitionRead>) -> Request {
    Request::Read(reads)
}

fn both() -> Vec<PartitionRead> {
    vec![read_item(0, 0), read_item(1, 0)]
}

fn registers(reply: &Reply) -> Vec<i64> {
    let Reply::Fetched(rows) = reply else {
        panic!("{reply:?} instead of rows")
    };
    rows.iter()
        .map(|row| item(row).expect("there is such an item").0)
        .collect()
}

/// Starts a write of both registers; its requests to the two partitions are under way.
fn write_both(cluster: &mut Cluster<LockingNode>, at: NodeId, to: i64) -> TransactionId {
    let writer = cluster.begin(at);
    let effects = [0, 1].map(|part| on(part, vec![update(SET, part, 0, to)]));
    cluster.request(writer, Request::Commit(effects.to_vec()));
    writer
}

#[test]
fn unlocked_reads_take_one_round_wherever_they_go() {
    let mut cluster = cluster(3, 1, ReadLocks::None);
    let reader = cluster.begin(N2);
    let before = cluster.counters().messages;
    cluster.request(reader, read(both()));
    assert_eq!(
        cluster.busy_links(),
        [(N2, N0), (N2, N1)],
        "both are sent at once"
    );
    cluster.deliver_all();
    let reply = cluster.take_reply(reader).expect("both have answered");
    assert_eq!(registers(&reply), [0, 0]);
    cluster.ask(reader, Request::Commit(Vec::new()));
    cluster.deliver_all();
    assert_eq!(cluster.counters().messages - before, 4);
    assert_idle(&cluster);
}

/// A partition that was only read keeps no state, and gets no `Release`.
#[test]
fn short_locks_are_gone_when_the_rows_leave() {
    let mut cluster = cluster(3, 1, ReadLocks::Short);
    let reader = cluster.begin(N2);
    let before = cluster.counters().messages;
    let reply = cluster.ask(reader, read(both()));
    assert_eq!(registers(&reply), [0, 0]);
    assert!(cluster.nodes[0].is_idle() && cluster.nodes[1].is_idle());
    cluster.ask(reader, Request::Commit(Vec::new()));
    assert_eq!(cluster.counters().messages - before, 4);
    assert_idle(&cluster);
}

#[test]
fn a_request_for_short_locks_is_taken_back_by_an_abort() {
    let mut cluster = cluster(3, 1, ReadLocks::Short);
    let writer = cluster.begin(N0);
    cluster.ask(writer, read(vec![for_write(read_item(0, 0))]));
    let reader = cluster.begin(N2);
    cluster.request(reader, read(both()));
    cluster.deliver_all();
    assert!(!cluster.has_reply(reader), "it waits for the writer");
    cluster.request(reader, Request::Abort);
    cluster.deliver_all();
    cluster.request(writer, Request::Abort);
    assert_idle(&cluster);
}

#[test]
fn unlocked_reads_pass_a_writer_and_see_what_is_committed() {
    let mut cluster = cluster(3, 1, ReadLocks::None);
    let writer = write_both(&mut cluster, N2, 7);
    cluster.deliver(N2, N0);
    cluster.deliver(N2, N1);
    // Both are prepared and undecided.
    let reader = cluster.begin(N0);
    assert_eq!(registers(&cluster.ask(reader, read(both()))), [0, 0]);
    cluster.request(reader, Request::Commit(Vec::new()));
    cluster.deliver_all();
    assert!(matches!(
        cluster.take_reply(writer),
        Some(Reply::Committed { .. })
    ));
    let reader = cluster.begin(N0);
    assert_eq!(registers(&cluster.ask(reader, read(both()))), [7, 7]);
    cluster.request(reader, Request::Commit(Vec::new()));
    assert_idle(&cluster);
}

/// Prepared writes that abort are visible to no read.
#[test]
fn unlocked_reads_see_no_aborted_writes() {
    let mut cluster = cluster(3, 1, ReadLocks::None);
    let (holder, writer) = (cluster.begin(N1), cluster.begin(N2));
    cluster.ask(holder, read(vec![for_write(read_item(1, 0))]));
    let effects = [0, 1].map(|part| on(part, vec![update(SET, part, 0, 7)]));
    cluster.request(writer, Request::Commit(effects.to_vec()));
    cluster.deliver(N2, N0);
    let reader = cluster.begin(N0);
    assert_eq!(registers(&cluster.ask(reader, read(both()))), [0, 0]);
    cluster.deliver_all();
    let refused = cluster.take_reply(writer);
    assert!(
        matches!(refused, Some(Reply::Aborted(AbortReason::Conflict))),
        "{refused:?}"
    );
    assert_eq!(registers(&cluster.ask(reader, read(both()))), [0, 0]);
    for open in [holder, reader] {
        cluster.request(open, Request::Abort);
    }
    cluster.deliver_all();
    assert_idle(&cluster);
}

/// The anomaly that read committed permits and read atomic isolation does not.
#[test]
fn unlocked_reads_may_see_half_of_a_transaction() {
    let mut cluster = cluster(3, 1, ReadLocks::None);
    write_both(&mut cluster, N2, 7);
    for (from, to) in [(N2, N0), (N2, N1), (N0, N2), (N1, N2)] {
        cluster.deliver(from, to);
    }
    // Decided; `Commit` has reached one of the two.
    cluster.deliver(N2, N0);
    let reader = cluster.begin(N0);
    cluster.request(reader, read(both()));
    cluster.deliver(N0, N1);
    cluster.deliver(N1, N0);
    let half = cluster.take_reply(reader).expect("the read does not wait");
    assert_eq!(registers(&half), [7, 0]);
    cluster.request(reader, Request::Commit(Vec::new()));
    cluster.deliver_all();
    assert_idle(&cluster);
}

/// The same under short locks, for a reader that reads one before and the other after.
#[test]
fn short_locks_may_show_half_of_a_transaction() {
    let mut cluster = cluster(3, 1, ReadLocks::Short);
    let reader = cluster.begin(N0);
    assert_eq!(
        registers(&cluster.ask(reader, read(vec![read_item(0, 0)]))),
        [0]
    );
    let writer = write_both(&mut cluster, N2, 7);
    cluster.deliver_all();
    assert!(cluster.has_reply(writer));
    assert_eq!(
        registers(&cluster.ask(reader, read(vec![read_item(1, 0)]))),
        [7]
    );
    cluster.request(reader, Request::Commit(Vec::new()));
    assert_idle(&cluster);
}

/// Two transactions that read both registers and each write one.
fn skew(cluster: &mut Cluster<LockingNode>, reads: Vec<PartitionRead>) -> Vec<Option<Reply>> {
    let (a, b) = (cluster.begin(N0), cluster.begin(N1));
    cluster.ask(a, read(reads.clone()));
    cluster.ask(b, read(reads));
    cluster.request(a, Request::Commit(vec![on(0, vec![update(SET, 0, 0, 1)])]));
    cluster.deliver_all();
    cluster.request(b, Request::Commit(vec![on(1, vec![update(SET, 1, 0, 1)])]));
    cluster.deliver_all();
    vec![cluster.take_reply(a), cluster.take_reply(b)]
}

#[test]
fn guards_are_locked_to_the_end_whatever_becomes_of_other_reads() {
    for read_locks in [ReadLocks::Short, ReadLocks::None] {
        let is_committed = |reply: &Option<Reply>| matches!(reply, Some(Reply::Committed { .. }));
        let mut free = cluster(2, 1, read_locks);
        let replies = skew(&mut free, both());
        assert!(replies.iter().all(is_committed), "{replies:?}");
        assert_idle(&free);

        let mut kept = cluster(2, 1, read_locks);
        let replies = skew(&mut kept, both().into_iter().map(guarded).collect());
        let conflict =
            |reply: &Option<Reply>| matches!(reply, Some(Reply::Aborted(AbortReason::Conflict)));
        assert!(conflict(&replies[0]), "{replies:?}");
        assert!(is_committed(&replies[1]), "{replies:?}");
        kept.deliver_all();
        assert_idle(&kept);
    }
}

/// A range that is a guard excludes new rows, also after further reads of the transaction.
#[test]
fn a_guarded_range_lets_nothing_in() {
    for read_locks in [ReadLocks::Short, ReadLocks::None] {
        let mut cluster = cluster(2, 1, read_locks);
        let reader = cluster.begin(N1);
        cluster.ask(reader, read(vec![guarded(read_entries(0))]));
        cluster.ask(reader, read(vec![read_item(0, 0)]));
        let insertion = || Request::Commit(vec![on(0, vec![insert(0, 10, 5, 1)])]);
        let phantom = cluster.begin(N0);
        cluster.request(phantom, insertion());
        let refused = cluster.take_reply(phantom);
        assert!(
            matches!(refused, Some(Reply::Aborted(AbortReason::Conflict))),
            "{read_locks:?}: {refused:?}"
        );
        cluster.request(reader, Request::Commit(Vec::new()));
        cluster.deliver_all();
        let later = cluster.begin(N0);
        assert!(matches!(
            cluster.ask(later, insertion()),
            Reply::Committed { .. }
        ));
        assert_idle(&cluster);
    }
}

/// Write locks are acquired in order, one partition after the other; rows without locks are read meanwhile.
#[test]
fn what_needs_no_lock_is_not_asked_for_in_turn() {
    let mut cluster = cluster(4, 1, ReadLocks::None);
    let writer = cluster.begin(NodeId(3));
    let reads = vec![
        for_write(read_item(0, 0)),
        for_write(read_item(1, 0)),
        read_item(2, 0),
    ];
    cluster.request(writer, Request::Declare(reads.clone()));
    let asked: Vec<NodeId> = cluster.busy_links().iter().map(|(_, to)| *to).collect();
    assert_eq!(asked, [N0, N2], "the second lock comes after the first");
    cluster.deliver_all();
    assert!(matches!(cluster.take_reply(writer), Some(Reply::Declared)));
    let other = cluster.begin(N0);
    cluster.request(
        other,
        Request::Commit(vec![on(0, vec![update(SET, 0, 0, 9)])]),
    );
    let refused = cluster.take_reply(other);
    assert!(
        matches!(refused, Some(Reply::Aborted(AbortReason::Conflict))),
        "{refused:?}"
    );
    assert_eq!(registers(&cluster.ask(writer, read(reads))), [0, 0, 0]);
    cluster.request(writer, Request::Abort);
    cluster.deliver_all();
    assert_idle(&cluster);
}

/// A read without locks at a node that crashes is aborted.
#[test]
fn an_unlocked_read_of_a_crashed_node_aborts() {
    let mut cluster = cluster(3, 1, ReadLocks::None);
    cluster.keep_logs();
    let reader = cluster.begin(N2);
    cluster.request(reader, read(both()));
    cluster.deliver(N2, N0);
    cluster.deliver(N0, N2);
    cluster.restart(N1, node(N1, 3, empty(), ReadLocks::None));
    cluster.deliver_all();
    let reply = cluster.take_reply(reader);
    assert!(
        matches!(reply, Some(Reply::Aborted(AbortReason::Restarted))),
        "{reply:?}"
    );
    assert_idle(&cluster);
}
