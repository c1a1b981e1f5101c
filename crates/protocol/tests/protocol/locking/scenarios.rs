//! Small scenarios, message by message.

use std::sync::Arc;

use anabranch_protocol::locking::{LockingNode, LockingOptions, ReadLocks};
use anabranch_protocol::{
    AbortReason, PartitionRead, Protocol, Reply, Request, Topology, TransactionId,
};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{NodeId, Read, Schema, SlotId, TableSchema, Ticks, Value};

use crate::locking::{assert_idle, cluster};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

const N0: NodeId = NodeId(0);
const N1: NodeId = NodeId(1);

fn declare(reads: Vec<PartitionRead>) -> Request {
    Request::Declare(reads)
}

fn read(reads: Vec<PartitionRead>) -> Request {
    Request::Read(reads)
}

fn registers(reply: &Reply) -> Vec<i64> {
    let Reply::Fetched(rows) = reply else {
        panic!("{reply:?} instead of rows")
    };
    rows.iter()
        .map(|row| item(row).expect("there is such an item").0)
        .collect()
}

fn count(cluster: &Cluster<LockingNode>, part: u16, id: i64) -> i64 {
    let read = read_item(part, id).read;
    let fetched = cluster.nodes[usize::from(part)].store().fetch(&read, None);
    item(&fetched.expect("the newest is kept"))
        .expect("there is such an item")
        .1
}

fn assert_conflict(reply: Option<Reply>) {
    assert!(
        matches!(reply, Some(Reply::Aborted(AbortReason::Conflict))),
        "{reply:?} where a conflict was due"
    );
}

fn assert_committed(reply: Option<Reply>) {
    assert!(matches!(reply, Some(Reply::Committed { .. })), "{reply:?}");
}

/// The messages with sender and receiver, without their contents.
fn outline(cluster: &Cluster<LockingNode>) -> String {
    let brief = |line: &str| {
        let end = line.find([' ', '(']).filter(|_| !line.contains(": "));
        let name = line.find(": ").map(|at| at + 2);
        let cut = name
            .and_then(|from| line[from..].find([' ', '(']).map(|at| from + at))
            .or(end);
        format!("{}\n", &line[..cut.unwrap_or(line.len())])
    };
    cluster.transcript().lines().map(brief).collect()
}

#[test]
fn a_transaction_with_one_remote_writer_takes_two_rounds() {
    let mut cluster = cluster(2, 2, ReadLocks::Long);
    cluster.record();
    let t = cluster.begin_named(N0, "T");
    let items = || vec![for_write(read_item(0, 0)), for_write(read_item(1, 0))];
    cluster.ask(t, declare(items()));
    cluster.ask(t, read(items()));
    let effects = vec![
        on(0, vec![draw(0, 0, 0)]),
        on(1, vec![update(ADD, 1, 0, 5)]),
    ];
    let reply = cluster.ask(t, Request::Commit(effects));
    assert_eq!(
        outline(&cluster),
        "\
T at n0: Declare
n0 -> n1: Lock
n1 -> n0: Granted
n0 => T: Declared
T at n0: Read
n0 => T: Fetched
T at n0: Commit
n0 -> n1: Decide
n1 -> n0: Committed
n0 => T: Committed
"
    );
    let Reply::Committed { slots, .. } = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(slots, [(SlotId(0), Value::Int(101))]);
    assert_eq!((count(&cluster, 0, 0), count(&cluster, 1, 0)), (101, 105));
    assert_eq!(cluster.counters().messages, 4);
    assert_idle(&cluster);
}

#[test]
fn several_remote_writers_vote_and_readers_are_only_released() {
    let mut cluster = cluster(4, 2, ReadLocks::Long);
    cluster.record();
    let t = cluster.begin_named(N1, "T");
    let writes = [0, 1, 2].map(|part| for_write(read_item(part, 0)));
    let reads = writes.into_iter().chain([read_item(3, 0)]).collect();
    cluster.ask(t, declare(reads));
    let effects = vec![
        on(0, vec![draw(0, 0, 1)]),
        on(1, vec![update(ADD, 1, 0, 2)]),
        on(2, vec![draw(2, 0, 0)]),
    ];
    let reply = cluster.ask(t, Request::Commit(effects));
    assert_eq!(
        outline(&cluster),
        "\
T at n1: Declare
n1 -> n0: Lock
n0 -> n1: Granted
n1 -> n2: Lock
n2 -> n1: Granted
n1 -> n3: Lock
n3 -> n1: Granted
n1 => T: Declared
T at n1: Commit
n1 -> n0: Prepare
n0 -> n1: Prepared
n1 -> n2: Prepare
n2 -> n1: Prepared
n1 => T: Committed
n1 -> n0: Commit
n1 -> n2: Commit
n1 -> n3: Release
"
    );
    let Reply::Committed { mut slots, .. } = reply else {
        panic!("{reply:?}")
    };
    slots.sort_by_key(|(slot, _)| *slot);
    assert_eq!(
        slots,
        [(SlotId(0), Value::Int(101)), (SlotId(1), Value::Int(101))]
    );
    assert_idle(&cluster);
}

#[test]
fn a_transaction_of_one_partition_sends_nothing_and_is_answered_at_once() {
    let mut cluster = cluster(2, 2, ReadLocks::Long);
    let t = cluster.begin(N0);
    cluster.request(
        t,
        declare(vec![for_write(read_item(0, 0)), read_item(0, 1)]),
    );
    assert!(matches!(cluster.take_reply(t), Some(Reply::Declared)));
    cluster.request(t, read(vec![read_item(0, 0), read_item(0, 1)]));
    assert_eq!(registers(&cluster.take_reply(t).expect("at once")), [0, 0]);
    cluster.request(t, Request::Commit(vec![on(0, vec![update(SET, 0, 0, 7)])]));
    assert_committed(cluster.take_reply(t));
    assert_eq!(cluster.counters().messages, 0);
    assert_idle(&cluster);
}

#[test]
fn what_is_declared_is_read_in_the_same_round() {
    let mut cluster = cluster(2, 3, ReadLocks::Long);
    let t = cluster.begin(N0);
    cluster.ask(
        t,
        declare(vec![
            read_item(1, 0),
            for_write(read_item(1, 1)),
            read_items(1, 0, 1),
        ]),
    );
    let messages = cluster.counters().messages;
    cluster.request(
        t,
        read(vec![read_item(1, 1), read_items(1, 0, 1), read_item(1, 0)]),
    );
    assert!(
        matches!(cluster.take_reply(t), Some(Reply::Fetched(_))),
        "answered without a round"
    );
    assert_eq!(cluster.counters().messages, messages);
    let reply = cluster.ask(t, read(vec![for_write(read_item(1, 0))]));
    assert_eq!(registers(&reply), [0], "a stronger lock needs a request");
    assert_eq!(cluster.counters().messages, messages + 2);
}

/// Two transactions read both registers, and each sets one depending on them.
fn skew(cluster: &mut Cluster<LockingNode>) -> Vec<Option<Reply>> {
    let both = || vec![read_item(0, 0), read_item(1, 0)];
    let (a, b) = (cluster.begin(N0), cluster.begin(N1));
    assert_eq!(registers(&cluster.ask(a, read(both()))), [0, 0]);
    assert_eq!(registers(&cluster.ask(b, read(both()))), [0, 0]);
    cluster.request(a, Request::Commit(vec![on(0, vec![update(SET, 0, 0, 1)])]));
    cluster.deliver_all();
    cluster.request(b, Request::Commit(vec![on(1, vec![update(SET, 1, 0, 1)])]));
    cluster.deliver_all();
    vec![cluster.take_reply(a), cluster.take_reply(b)]
}

#[test]
fn write_skew_is_prevented() {
    let mut cluster = cluster(2, 1, ReadLocks::Long);
    let mut replies = skew(&mut cluster);
    assert_committed(replies.pop().expect("two replies"));
    assert_conflict(replies.pop().expect("two replies"));
    assert_idle(&cluster);
}

#[test]
fn write_skew_is_permitted_under_short_read_locks() {
    let mut cluster = cluster(2, 1, ReadLocks::Short);
    skew(&mut cluster).into_iter().for_each(assert_committed);
    assert_idle(&cluster);
}

#[test]
fn short_read_locks_still_wait_for_a_writer() {
    let mut cluster = cluster(2, 1, ReadLocks::Short);
    let (writer, reader) = (cluster.begin(N0), cluster.begin(N1));
    cluster.ask(writer, read(vec![for_write(read_item(0, 0))]));
    cluster.request(reader, read(vec![read_item(0, 0)]));
    cluster.deliver_all();
    assert!(!cluster.has_reply(reader));
    cluster.ask(
        writer,
        Request::Commit(vec![on(0, vec![update(SET, 0, 0, 9)])]),
    );
    assert_eq!(registers(&cluster.take_reply(reader).expect("let in")), [9]);
}

#[test]
fn a_range_that_was_read_stays_as_it_was() {
    for by_index in [false, true] {
        let mut cluster = cluster(2, 1, ReadLocks::Long);
        let fill = cluster.begin(N0);
        let entries = vec![insert(0, 10, 5, 1), insert(0, 20, 6, 1)];
        cluster.ask(fill, Request::Commit(vec![on(0, entries)]));
        let scan = if by_index {
            read_entries_of(0, 5)
        } else {
            read_entries(0)
        };
        let reader = cluster.begin(N1);
        let before = format!("{:?}", cluster.ask(reader, read(vec![scan.clone()])));
        for effect in [insert(0, 15, 5, 1), delete(0, 10)] {
            let phantom = cluster.begin(N0);
            cluster.request(phantom, Request::Commit(vec![on(0, vec![effect])]));
            assert_conflict(cluster.take_reply(phantom));
        }
        let again = format!("{:?}", cluster.ask(reader, read(vec![scan.clone()])));
        assert_eq!(before, again);
        let elsewhere = cluster.begin(N0);
        let effects = Request::Commit(vec![on(0, vec![insert(0, 30, 7, 1)])]);
        cluster.request(elsewhere, effects);
        match by_index {
            true => assert_committed(cluster.take_reply(elsewhere)),
            false => assert_conflict(cluster.take_reply(elsewhere)),
        }
        cluster.request(reader, Request::Commit(Vec::new()));
        cluster.deliver_all();
        assert_idle(&cluster);
    }
}

#[test]
fn a_range_waits_for_what_is_prepared_to_appear_in_it() {
    for by_index in [false, true] {
        let mut cluster = cluster(3, 1, ReadLocks::Long);
        let t = cluster.begin(N0);
        let parts = [1, 2].map(|part| on(part, vec![insert(part, 10, 5, 1)]));
        cluster.request(t, Request::Commit(parts.to_vec()));
        cluster.deliver(N0, N1);
        let scan = if by_index {
            read_entries_of(1, 5)
        } else {
            read_entries(1)
        };
        let reader = cluster.begin(N1);
        cluster.request(reader, read(vec![scan]));
        assert!(!cluster.has_reply(reader), "the row is undecided");
        cluster.deliver_all();
        assert_committed(cluster.take_reply(t));
        let Some(Reply::Fetched(found)) = cluster.take_reply(reader) else {
            panic!("let in")
        };
        assert_eq!(rows(ENTRY, &found[0]).len(), 1);
        cluster.request(reader, Request::Commit(Vec::new()));
        assert_idle(&cluster);
    }
}

/// The same range for writing, only its first row.
fn first(range: PartitionRead) -> PartitionRead {
    let mut first = for_write(range);
    if let Read::Range { limit, .. } = &mut first.read {
        *limit = Some(1);
    }
    first
}

#[test]
fn a_row_that_moves_up_while_an_index_scan_waits_is_locked_too() {
    let mut cluster = cluster(1, 1, ReadLocks::Long);
    let fill = cluster.begin(N0);
    let entries = (1..=3).map(|n| insert(0, 10 * n, 5, 1)).collect();
    cluster.ask(fill, Request::Commit(vec![on(0, entries)]));
    let (holder, scan) = (cluster.begin(N0), cluster.begin(N0));
    cluster.ask(holder, read(vec![for_write(read_entry(0, 10))]));
    cluster.request(scan, read(vec![first(read_entries_of(0, 5))]));
    assert!(!cluster.has_reply(scan));
    cluster.request(holder, Request::Commit(vec![on(0, vec![delete(0, 10)])]));
    let Some(Reply::Fetched(found)) = cluster.take_reply(scan) else {
        panic!("let in")
    };
    assert_eq!(rows(ENTRY, &found[0]), [[0, 20, 5, 1]]);
    let other = cluster.begin(N0);
    cluster.request(other, Request::Commit(vec![on(0, vec![delete(0, 20)])]));
    assert_conflict(cluster.take_reply(other));
}

#[test]
fn a_limited_range_locks_as_far_as_it_has_read() {
    let mut cluster = cluster(1, 1, ReadLocks::Long);
    let fill = cluster.begin(N0);
    let entries = (1..=3).map(|n| insert(0, 10 * n, 5, 1)).collect();
    cluster.ask(fill, Request::Commit(vec![on(0, entries)]));
    let first = || vec![first(read_entries(0))];
    let (a, b) = (cluster.begin(N0), cluster.begin(N0));
    cluster.request(a, read(first()));
    assert!(cluster.take_reply(a).is_some());
    let behind = cluster.begin(N0);
    cluster.request(
        behind,
        Request::Commit(vec![on(0, vec![insert(0, 40, 5, 1)])]),
    );
    assert_committed(cluster.take_reply(behind));
    cluster.request(b, read(first()));
    assert!(!cluster.has_reply(b), "it wants the same first row");
    cluster.request(a, Request::Commit(vec![on(0, vec![delete(0, 10)])]));
    let Some(Reply::Fetched(found)) = cluster.take_reply(b) else {
        panic!("let in")
    };
    assert_eq!(
        rows(ENTRY, &found[0]),
        [[0, 20, 5, 1]],
        "not the row that is gone"
    );
    let c = cluster.begin(N0);
    cluster.request(c, Request::Commit(vec![on(0, vec![delete(0, 20)])]));
    assert_conflict(cluster.take_reply(c));
}

#[test]
fn what_would_be_a_deadlock_is_refused_at_once() {
    let mut cluster = cluster(2, 2, ReadLocks::Long);
    let (a, b) = (cluster.begin(N0), cluster.begin(N1));
    cluster.ask(a, read(vec![for_write(read_item(0, 0))]));
    cluster.ask(b, read(vec![for_write(read_item(1, 0))]));
    cluster.request(a, read(vec![for_write(read_item(1, 0))]));
    cluster.deliver_all();
    assert!(
        !cluster.has_reply(a),
        "a request above all held locks may wait"
    );
    cluster.request(b, read(vec![for_write(read_item(0, 0))]));
    cluster.deliver_all();
    assert_conflict(cluster.take_reply(b));
    assert_eq!(registers(&cluster.take_reply(a).expect("let in")), [0]);
    let free = cluster.begin(N1);
    cluster.ask(free, read(vec![for_write(read_item(1, 1))]));
    let reply = cluster.ask(free, read(vec![for_write(read_item(0, 1))]));
    assert_eq!(
        registers(&reply),
        [0],
        "downwards one may not wait, and need not"
    );
}

#[test]
fn waiting_is_counted_from_the_queue_to_the_grant() {
    let mut cluster = cluster(1, 1, ReadLocks::Long);
    let waiters: Vec<TransactionId> = (0..4).map(|_| cluster.begin(N0)).collect();
    for &waiter in &waiters {
        cluster.request(waiter, declare(vec![for_write(read_item(0, 0))]));
    }
    for (position, &waiter) in waiters.iter().enumerate() {
        assert!(
            matches!(cluster.take_reply(waiter), Some(Reply::Declared)),
            "in order of arrival"
        );
        assert!(
            waiters[position + 1..]
                .iter()
                .all(|&later| !cluster.has_reply(later))
        );
        cluster.advance(Ticks(100));
        cluster.request(
            waiter,
            Request::Commit(vec![on(0, vec![update(ADD, 0, 0, 1)])]),
        );
        assert_committed(cluster.take_reply(waiter));
    }
    assert_eq!(count(&cluster, 0, 0), 104);
    assert_eq!(cluster.counters().waits, 3);
    assert_eq!(cluster.counters().blocked_ticks, 100 + 200 + 300);
    assert_idle(&cluster);
}

#[test]
fn an_abort_takes_its_request_out_of_the_queue() {
    let mut cluster = cluster(2, 1, ReadLocks::Long);
    let (holder, quitter, last) = (cluster.begin(N1), cluster.begin(N0), cluster.begin(N1));
    let wanted = || vec![for_write(read_item(1, 0))];
    cluster.ask(holder, read(wanted()));
    cluster.request(quitter, read(wanted()));
    cluster.deliver_all();
    cluster.request(last, read(wanted()));
    cluster.request(quitter, Request::Abort);
    cluster.deliver_all();
    cluster.request(holder, Request::Abort);
    assert_eq!(registers(&cluster.take_reply(last).expect("let in")), [0]);
    cluster.request(last, Request::Abort);
    assert_idle(&cluster);
    assert_eq!(cluster.counters().aborts, 3);
}

#[test]
fn a_grant_may_cross_an_abort() {
    let mut cluster = cluster(2, 1, ReadLocks::Long);
    let t = cluster.begin(N0);
    cluster.request(t, read(vec![read_item(1, 0)]));
    cluster.deliver(N0, N1);
    cluster.request(t, Request::Abort);
    cluster.deliver_all();
    assert!(cluster.take_reply(t).is_none());
    assert_idle(&cluster);
}

#[test]
fn an_effect_that_fails_anywhere_leaves_no_trace() {
    for parts in [vec![0, 1], vec![0, 1, 2], vec![1], vec![0]] {
        let mut cluster = cluster(3, 1, ReadLocks::Long);
        let t = cluster.begin(N0);
        let effects = |part: u16| match *parts.last().expect("some part") {
            last if last == part => on(part, vec![update(TAKE, part, 0, 1_000)]),
            _ => on(part, vec![update(ADD, part, 0, 1)]),
        };
        let effects = parts.iter().map(|&part| effects(part)).collect();
        let reply = cluster.ask(t, Request::Commit(effects));
        match reply {
            Reply::Aborted(AbortReason::Failed(error)) => assert_eq!(error.code, "23514"),
            other => panic!("{other:?}"),
        }
        (0..3).for_each(|part| assert_eq!(count(&cluster, part, 0), 100));
        assert_idle(&cluster);
    }
}

#[test]
fn a_missing_row_is_distinguished_from_a_failure() {
    let mut cluster = cluster(2, 1, ReadLocks::Long);
    for part in [0, 1] {
        let t = cluster.begin(N0);
        let reply = cluster.ask(t, Request::Commit(vec![on(part, vec![draw(part, 9, 0)])]));
        assert!(
            matches!(reply, Reply::Aborted(AbortReason::RowMissing)),
            "{reply:?}"
        );
    }
}

#[test]
fn of_two_inserts_of_one_key_the_second_fails() {
    let mut cluster = cluster(3, 1, ReadLocks::Long);
    let t = cluster.begin(N0);
    let parts = [1, 2].map(|part| on(part, vec![insert(part, 10, 5, 1)]));
    cluster.request(t, Request::Commit(parts.to_vec()));
    cluster.deliver(N0, N1);
    let again = |cluster: &mut Cluster<LockingNode>| {
        let second = cluster.begin(N1);
        cluster.request(
            second,
            Request::Commit(vec![on(1, vec![insert(1, 10, 5, 1)])]),
        );
        cluster.take_reply(second)
    };
    assert_conflict(again(&mut cluster));
    cluster.deliver_all();
    assert_committed(cluster.take_reply(t));
    match again(&mut cluster) {
        Some(Reply::Aborted(AbortReason::Failed(error))) => assert_eq!(error.code, "23505"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_two_rows_with_one_unique_key_the_second_comes_to_nothing() {
    let mut schema = Schema::clone(&schema());
    let mut entry = TableSchema::clone(&schema.tables[ENTRY.index()]);
    entry.indexes[BY_OWNER.index()].unique = true;
    schema.tables[ENTRY.index()] = Arc::new(entry);
    let schema = Arc::new(schema);
    let topology = Arc::new(Topology::one_each(3));
    let node = |part| {
        let store = Store::new(&schema, StoreSettings::default());
        let (topology, schema) = (Arc::clone(&topology), Arc::clone(&schema));
        let options = LockingOptions::default();
        LockingNode::new(NodeId(part), topology, schema, store, programs(), options)
    };
    let mut cluster = Cluster::new((0..3).map(node).collect());
    let t = cluster.begin(N0);
    let parts = [1, 2].map(|part| on(part, vec![insert(part, 10, 5, 1)]));
    cluster.request(t, Request::Commit(parts.to_vec()));
    cluster.deliver(N0, N1);
    let same = |cluster: &mut Cluster<LockingNode>, owner| {
        let second = cluster.begin(N1);
        cluster.request(
            second,
            Request::Commit(vec![on(1, vec![insert(1, 11, owner, 1)])]),
        );
        cluster.take_reply(second)
    };
    assert_conflict(same(&mut cluster, 5));
    cluster.deliver_all();
    assert_committed(cluster.take_reply(t));
    assert!(matches!(
        same(&mut cluster, 5),
        Some(Reply::Aborted(AbortReason::Failed(_)))
    ));
    assert_committed(same(&mut cluster, 6));
    assert_idle(&cluster);
}

#[test]
fn unlocked_tables_are_read_past_every_lock() {
    let mut store = Store::new(&schema(), StoreSettings::default());
    store
        .load(ITEM, item_key(0, 0), item_row(0, 0, 3, 0))
        .expect("a new key");
    let options = LockingOptions {
        unlocked_tables: vec![ITEM],
        ..LockingOptions::default()
    };
    let topology = Arc::new(Topology::one_each(1));
    let node = LockingNode::new(N0, topology, schema(), store, programs(), options);
    let mut cluster = Cluster::new(vec![node]);
    for _ in 0..2 {
        let t = cluster.begin(N0);
        assert_eq!(
            registers(&cluster.ask(t, read(vec![for_write(read_item(0, 0))]))),
            [3]
        );
    }
    assert!(cluster.nodes[0].check_invariants().is_ok());
}
