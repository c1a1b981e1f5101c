//! Waits by age, message by message: who waits, who is aborted, and what an idle transaction learns.

use anabranch_protocol::locking::{LockingNode, Message, ReadLocks};
use anabranch_protocol::{AbortReason, Age, PartitionRead, Reply, Request, TransactionId};
use anabranch_types::{Fetched, LockPolicy, NodeId, Ticks};

use crate::locking::{assert_idle, cluster, empty, node};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

const N0: NodeId = NodeId(0);
const N1: NodeId = NodeId(1);

/// A transaction that waits by age; the lower `began` the older.
fn begin(cluster: &mut Cluster<LockingNode>, at: NodeId, began: u64) -> TransactionId {
    let transaction = cluster.begin(at);
    let age = Age {
        began: Ticks(began),
        transaction,
    };
    cluster.request(transaction, Request::WaitByAge(age));
    assert!(!cluster.has_reply(transaction), "it is not answered");
    transaction
}

fn write(part: u16, id: i64) -> PartitionRead {
    for_write(read_item(part, id))
}

fn lock(cluster: &mut Cluster<LockingNode>, id: TransactionId, read: PartitionRead) {
    let reply = cluster.ask(id, Request::Read(vec![read]));
    assert!(matches!(reply, Reply::Fetched(_)), "{reply:?}");
}

fn assert_conflict(reply: Option<Reply>) {
    let expected = matches!(reply, Some(Reply::Aborted(AbortReason::Conflict)));
    assert!(expected, "{reply:?} instead of an abort by a conflict");
}

fn assert_fetched(reply: Option<Reply>) {
    assert!(matches!(reply, Some(Reply::Fetched(_))), "{reply:?}");
}

/// Two transactions lock two items in opposite orders: the older gets both, the younger is aborted.
#[test]
fn of_two_that_wait_for_each_other_the_older_goes_on() {
    for begin_order in [[1, 2], [2, 1]] {
        let mut cluster = cluster(2, 1, ReadLocks::Long);
        let first = begin(&mut cluster, N0, begin_order[0]);
        let second = begin(&mut cluster, N1, begin_order[1]);
        lock(&mut cluster, first, write(0, 0));
        lock(&mut cluster, second, write(1, 0));
        cluster.request(first, Request::Read(vec![write(1, 0)]));
        cluster.request(second, Request::Read(vec![write(0, 0)]));
        cluster.deliver_all();
        let (older, younger) = match begin_order {
            [1, 2] => (first, second),
            _ => (second, first),
        };
        assert_fetched(cluster.take_reply(older));
        assert_conflict(cluster.take_reply(younger));
        assert!(matches!(
            cluster.ask(older, Request::Commit(Vec::new())),
            Reply::Committed { .. }
        ));
        assert_idle(&cluster);
    }
}

/// A transaction that is wounded while its client thinks holds nothing, and learns of it by its next request.
#[test]
fn an_idle_transaction_that_is_wounded_is_aborted_at_its_next_request() {
    let nexts = [
        Request::Read(vec![read_item(0, 1)]),
        Request::Commit(Vec::new()),
        Request::CommitReads,
        Request::Abort,
    ];
    for (at, next) in [N0, N1]
        .into_iter()
        .flat_map(|at| nexts.clone().map(|next| (at, next)))
    {
        let mut cluster = cluster(2, 2, ReadLocks::Long);
        let young = begin(&mut cluster, at, 2);
        lock(&mut cluster, young, read_item(0, 0));
        let old = begin(&mut cluster, N0, 1);
        cluster.request(old, Request::Read(vec![write(0, 0)]));
        cluster.deliver_all();
        assert_fetched(cluster.take_reply(old));
        assert!(!cluster.has_reply(young), "it has no open request");
        let gives_up = matches!(next, Request::Abort);
        cluster.request(young, next);
        match gives_up {
            true => assert!(!cluster.has_reply(young)),
            false => assert_conflict(cluster.take_reply(young)),
        }
        cluster.request(old, Request::Abort);
        cluster.deliver_all();
        assert_idle(&cluster);
    }
}

/// Both have read an item that both write then.
#[test]
fn of_two_that_write_what_both_have_read_the_older_goes_on() {
    let mut cluster = cluster(2, 1, ReadLocks::Long);
    let (old, young) = (begin(&mut cluster, N1, 1), begin(&mut cluster, N1, 2));
    for reader in [old, young] {
        lock(&mut cluster, reader, read_item(0, 0));
    }
    cluster.request(young, Request::Read(vec![write(0, 0)]));
    cluster.deliver_all();
    assert!(!cluster.has_reply(young), "it waits for the older");
    cluster.request(old, Request::Read(vec![write(0, 0)]));
    cluster.deliver_all();
    assert_conflict(cluster.take_reply(young));
    assert_fetched(cluster.take_reply(old));
    let effects = vec![on(0, vec![update(ADD, 0, 0, 1)])];
    let reply = cluster.ask(old, Request::Commit(effects));
    assert!(matches!(reply, Reply::Committed { .. }));
    assert_idle(&cluster);
}

/// The wound of a transaction whose writers vote comes too late: it commits, and the older one waits for that.
#[test]
fn a_transaction_that_commits_is_not_wounded() {
    let mut cluster = cluster(3, 1, ReadLocks::Long);
    cluster.keep_logs();
    let young = begin(&mut cluster, N0, 2);
    lock(&mut cluster, young, write(1, 0));
    let effects = vec![on(1, vec![update(ADD, 1, 0, 1)])];
    cluster.request(young, Request::Commit(effects));
    let old = begin(&mut cluster, N1, 1);
    cluster.request(old, Request::Read(vec![write(1, 0)]));
    let wound = cluster.peek(N1, N0);
    assert!(matches!(wound, Some(Message::Wound { .. })), "{wound:?}");
    cluster.deliver(N1, N0);
    cluster.deliver_all();
    let reply = cluster.take_reply(young);
    assert!(matches!(reply, Some(Reply::Committed { .. })), "{reply:?}");
    assert_fetched(cluster.take_reply(old));
    cluster.request(old, Request::Abort);
    cluster.deliver_all();
    assert_idle(&cluster);
}

/// A declared transaction waits for an undeclared one, which must not wait from then on, wherever that is.
#[test]
fn an_undeclared_transaction_yields_to_a_declared_one() {
    for at in [N0, N1] {
        let mut cluster = cluster(2, 3, ReadLocks::Long);
        let undeclared = begin(&mut cluster, at, 1);
        lock(&mut cluster, undeclared, write(0, 0));
        let other = begin(&mut cluster, N1, 0);
        lock(&mut cluster, other, write(1, 1));
        let declared = cluster.begin(N0);
        cluster.request(declared, Request::Declare(vec![write(0, 0)]));
        cluster.deliver_all();
        assert!(!cluster.has_reply(declared), "it waits");
        lock(&mut cluster, undeclared, write(1, 2));
        let reply = cluster.ask(undeclared, Request::Read(vec![write(1, 1)]));
        assert_conflict(Some(reply));
        assert!(matches!(
            cluster.take_reply(declared),
            Some(Reply::Declared)
        ));
        for id in [declared, other] {
            cluster.request(id, Request::Abort);
        }
        cluster.deliver_all();
        assert_idle(&cluster);
    }
}

/// The undeclared transaction waits at another partition when the declared one begins to wait for it: without the
/// signal the two would wait for each other.
#[test]
fn an_undeclared_transaction_that_waits_elsewhere_is_aborted_for_a_declared_one() {
    let mut cluster = cluster(2, 1, ReadLocks::Long);
    let undeclared = begin(&mut cluster, N1, 1);
    lock(&mut cluster, undeclared, write(1, 0));
    let declared = cluster.begin(N0);
    let reply = cluster.ask(declared, Request::Declare(vec![write(0, 0)]));
    assert!(matches!(reply, Reply::Declared));
    cluster.request(undeclared, Request::Read(vec![write(0, 0)]));
    cluster.deliver_all();
    assert!(
        !cluster.has_reply(undeclared),
        "it waits for the declared one"
    );
    cluster.request(declared, Request::Read(vec![write(1, 0)]));
    cluster.deliver_all();
    assert_conflict(cluster.take_reply(undeclared));
    assert_fetched(cluster.take_reply(declared));
    cluster.request(declared, Request::Abort);
    cluster.deliver_all();
    assert_idle(&cluster);
}

/// Its locks are requested everywhere at once: one round for two partitions.
#[test]
fn an_undeclared_transaction_requests_all_locks_at_once() {
    let mut cluster = cluster(3, 1, ReadLocks::Long);
    let undeclared = begin(&mut cluster, N0, 1);
    let reads = vec![write(1, 0), write(2, 0)];
    cluster.request(undeclared, Request::Read(reads));
    assert_eq!(cluster.under_way(N0, N1), 1);
    assert_eq!(cluster.under_way(N0, NodeId(2)), 1);
    cluster.deliver_all();
    assert_fetched(cluster.take_reply(undeclared));
    cluster.request(undeclared, Request::Abort);
    cluster.deliver_all();
    assert_idle(&cluster);
}

/// A restarted participant has forgotten locks and signals, and a wound for an attempt that has ended means nothing.
#[test]
fn signals_outlive_no_restart() {
    let mut cluster = cluster(2, 1, ReadLocks::Long);
    cluster.keep_logs();
    let young = begin(&mut cluster, N0, 2);
    lock(&mut cluster, young, write(1, 0));
    let old = begin(&mut cluster, N1, 1);
    cluster.request(old, Request::Read(vec![write(1, 0)]));
    assert_eq!(cluster.under_way(N1, N0), 1, "the wound");
    cluster.restart(N1, node(N1, 2, empty(), ReadLocks::Long));
    cluster.deliver_all();
    cluster.request(young, Request::Read(vec![read_item(0, 0)]));
    let reply = cluster.take_reply(young);
    let restarted = matches!(reply, Some(Reply::Aborted(AbortReason::Restarted)));
    assert!(restarted, "{reply:?}");
    let wound = Message::Wound { transaction: young };
    cluster.inject(N1, N0, wound);
    assert_idle(&cluster);
}

/// The same read under a policy about locks.
fn under(lock: LockPolicy, mut read: PartitionRead) -> PartitionRead {
    read.access.lock = lock;
    read
}

fn fetched(reply: Reply) -> Vec<Fetched> {
    match reply {
        Reply::Fetched(rows) => rows,
        other => panic!("{other:?} instead of rows"),
    }
}

/// SKIP LOCKED and NOWAIT: a lock that another transaction holds is refused by itself, also to an older transaction, and
/// its holder goes on. An own lock is free.
#[test]
fn a_lock_that_is_taken_only_if_free_neither_waits_nor_wounds() {
    for at in [N0, N1] {
        let mut cluster = cluster(2, 3, ReadLocks::Long);
        let young = begin(&mut cluster, N0, 2);
        lock(&mut cluster, young, write(0, 0));
        let old = begin(&mut cluster, at, 1);
        lock(&mut cluster, old, write(0, 2));
        let reads: Vec<PartitionRead> = (0..3)
            .map(|id| under(LockPolicy::IfFree, write(0, id)))
            .collect();
        let rows = fetched(cluster.ask(old, Request::Read(reads.clone())));
        assert!(matches!(rows[0], Fetched::Locked), "{rows:?}");
        assert_eq!(item(&rows[1]), Some((0, 100)), "it is free");
        assert_eq!(item(&rows[2]), Some((0, 100)), "it is its own");
        let later = begin(&mut cluster, N0, 3);
        let rows = fetched(cluster.ask(later, Request::Read(reads.clone())));
        let locked = |row: &Fetched| matches!(row, Fetched::Locked);
        assert!(rows.iter().all(locked), "all are taken: {rows:?}");
        cluster.request(later, Request::Abort);
        let effects = vec![on(0, vec![update(SET, 0, 0, 7)])];
        let reply = cluster.ask(young, Request::Commit(effects));
        assert!(matches!(reply, Reply::Committed { .. }), "not wounded");
        let rows = fetched(cluster.ask(old, Request::Read(reads)));
        assert_eq!(item(&rows[0]), Some((7, 100)), "it is free now");
        cluster.request(old, Request::Abort);
        cluster.deliver_all();
        assert_idle(&cluster);
    }
}

/// The lock of a range, too, is refused at once, as a whole.
#[test]
fn a_range_that_is_locked_only_if_free_is_refused_as_a_whole() {
    for at in [N0, N1] {
        let mut cluster = cluster(2, 3, ReadLocks::Long);
        let young = begin(&mut cluster, N0, 2);
        lock(&mut cluster, young, write(0, 1));
        let old = begin(&mut cluster, at, 1);
        let range = under(LockPolicy::IfFree, read_items(0, 0, 2));
        let rows = fetched(cluster.ask(old, Request::Read(vec![range.clone()])));
        assert!(matches!(rows[..], [Fetched::Locked]), "{rows:?}");
        cluster.request(young, Request::Abort);
        let rows = fetched(cluster.ask(old, Request::Read(vec![range])));
        assert!(matches!(rows[..], [Fetched::Range(_)]), "{rows:?}");
        cluster.request(old, Request::Abort);
        cluster.deliver_all();
        assert_idle(&cluster);
    }
}

/// What SKIP LOCKED looks at is not locked: others write it, and the next look sees that.
#[test]
fn a_read_without_a_lock_keeps_none() {
    for at in [N0, N1] {
        let mut cluster = cluster(2, 3, ReadLocks::Long);
        let reader = begin(&mut cluster, at, 1);
        let look = || vec![under(LockPolicy::Unlocked, read_items(0, 0, 2))];
        let before = fetched(cluster.ask(reader, Request::Read(look())));
        let writer = begin(&mut cluster, N0, 2);
        lock(&mut cluster, writer, write(0, 1));
        let during = fetched(cluster.ask(reader, Request::Read(look())));
        assert_eq!(rows(ITEM, &before[0]), rows(ITEM, &during[0]));
        let effects = vec![on(0, vec![update(SET, 0, 1, 7)])];
        let reply = cluster.ask(writer, Request::Commit(effects));
        assert!(matches!(reply, Reply::Committed { .. }), "{reply:?}");
        let after = fetched(cluster.ask(reader, Request::Read(look())));
        assert_ne!(rows(ITEM, &before[0]), rows(ITEM, &after[0]));
        cluster.request(reader, Request::CommitReads);
        cluster.deliver_all();
        assert_idle(&cluster);
    }
}
