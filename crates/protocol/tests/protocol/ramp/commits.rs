//! Transactions one after the other: writes are read back, guards and write intents exclude conflicting transactions.

use anabranch_protocol::ramp::RampNode;
use anabranch_protocol::{AbortReason, PartitionEffects, PartitionRead, Reply, Request};
use anabranch_types::{Fetched, NodeId, SlotId, Ticks, Value};

use crate::ramp::cluster;
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);

fn read(cluster: &mut Cluster<RampNode>, node: NodeId, reads: Vec<PartitionRead>) -> Vec<Fetched> {
    let transaction = cluster.begin(node);
    let Reply::Fetched(rows) = cluster.ask(transaction, Request::Read(reads)) else {
        panic!("a read is answered with rows");
    };
    let reply = cluster.ask(transaction, Request::Commit(vec![]));
    assert!(matches!(reply, Reply::Committed { .. }), "{reply:?}");
    rows
}

fn write(cluster: &mut Cluster<RampNode>, node: NodeId, effects: Vec<PartitionEffects>) -> Reply {
    let transaction = cluster.begin(node);
    cluster.ask(transaction, Request::Commit(effects))
}

fn committed(reply: Reply) -> Vec<(SlotId, Value)> {
    match reply {
        Reply::Committed { slots, .. } => slots,
        other => panic!("not committed: {other:?}"),
    }
}

fn aborted(reply: Reply) -> AbortReason {
    match reply {
        Reply::Aborted(reason) => reason,
        other => panic!("not aborted: {other:?}"),
    }
}

fn is_quiet(cluster: &mut Cluster<RampNode>) -> bool {
    cluster.advance(Ticks::from_millis(50));
    cluster.deliver_all();
    cluster.nodes.iter().all(RampNode::is_idle)
}

#[test]
fn a_transaction_of_the_own_partition_needs_no_message() {
    let mut cluster = cluster(2);
    committed(write(
        &mut cluster,
        A,
        vec![on(0, vec![update(SET, 0, 1, 7)])],
    ));
    let rows = read(&mut cluster, A, vec![read_item(0, 1)]);
    assert_eq!(item(&rows[0]), Some((7, 0)));
    assert_eq!(cluster.counters().messages, 0);
    assert_eq!(cluster.counters().commits, 2);
}

#[test]
fn one_remote_partition_takes_one_round() {
    let mut cluster = cluster(2);
    committed(write(
        &mut cluster,
        A,
        vec![on(1, vec![update(ADD, 1, 1, 7)])],
    ));
    assert_eq!(cluster.counters().messages, 2);
    let rows = read(&mut cluster, A, vec![read_item(1, 1)]);
    assert_eq!(item(&rows[0]), Some((0, 7)));
    assert_eq!(cluster.counters().messages, 4);
    assert!(is_quiet(&mut cluster));
}

#[test]
fn two_partitions_take_two_rounds_and_are_read_back_everywhere() {
    let mut cluster = cluster(3);
    let effects = || {
        vec![
            on(0, vec![update(SET, 0, 1, 7)]),
            on(1, vec![update(SET, 1, 1, 7)]),
        ]
    };
    committed(write(&mut cluster, A, effects()));
    assert_eq!(
        cluster.counters().messages,
        4,
        "prepare, vote, commit, acknowledgement"
    );
    for node in [A, B, NodeId(2)] {
        let rows = read(&mut cluster, node, vec![read_item(0, 1), read_item(1, 1)]);
        assert_eq!(
            rows.iter().map(item).collect::<Vec<_>>(),
            [Some((7, 0)), Some((7, 0))]
        );
    }
    assert_eq!(cluster.counters().second_rounds, 0);
    assert!(is_quiet(&mut cluster));
}

#[test]
fn a_reply_collects_the_deferred_values_of_all_partitions() {
    let mut cluster = cluster(2);
    let effects = |slot| {
        vec![
            on(0, vec![draw(0, 0, slot), insert_drawn(0, slot, 100, 1, 5)]),
            on(
                1,
                vec![draw(1, 0, slot + 1), insert_drawn(1, slot + 1, 0, 1, 5)],
            ),
        ]
    };
    let slots = committed(write(&mut cluster, A, effects(0)));
    assert_eq!(
        slots,
        [(SlotId(0), Value::Int(1)), (SlotId(1), Value::Int(1))]
    );
    let slots = committed(write(&mut cluster, B, effects(0)));
    assert_eq!(
        slots,
        [(SlotId(1), Value::Int(2)), (SlotId(0), Value::Int(2))]
    );
    let read = read(
        &mut cluster,
        A,
        vec![read_entries(0), read_entries_of(1, 1)],
    );
    assert_eq!(rows(ENTRY, &read[0]), [[0, 101, 1, 5], [0, 102, 1, 5]]);
    assert_eq!(rows(ENTRY, &read[1]), [[1, 1, 1, 5], [1, 2, 1, 5]]);
}

#[test]
fn a_violated_constraint_aborts_all_partitions_and_is_named() {
    let mut cluster = cluster(2);
    for (node, taken) in [(A, 0), (A, 1), (B, 0), (B, 1)] {
        let take = update(TAKE, taken, 1, 1);
        let set = update(SET, 1 - taken, 1, 9);
        let mut effects = vec![on(taken, vec![take]), on(1 - taken, vec![set])];
        effects.sort_by_key(|on| on.partition);
        let AbortReason::Failed(error) = aborted(write(&mut cluster, node, effects)) else {
            panic!("a violated check is no conflict");
        };
        assert_eq!(
            (error.code, error.constraint.as_deref()),
            ("23514", Some("count"))
        );
    }
    let rows = read(&mut cluster, A, vec![read_item(0, 1), read_item(1, 1)]);
    assert_eq!(
        rows.iter().map(item).collect::<Vec<_>>(),
        [Some((0, 0)), Some((0, 0))]
    );
    assert!(is_quiet(&mut cluster));
}

#[test]
fn a_duplicate_key_fails_and_a_missing_row_is_reported_as_such() {
    let mut cluster = cluster(2);
    let insert = || {
        vec![
            on(0, vec![update(ADD, 0, 0, 1)]),
            on(1, vec![insert(1, 3, 0, 0)]),
        ]
    };
    committed(write(&mut cluster, A, insert()));
    let AbortReason::Failed(error) = aborted(write(&mut cluster, A, insert())) else {
        panic!("a duplicate is no conflict");
    };
    assert_eq!(error.code, "23505");
    let draw = vec![
        on(0, vec![update(ADD, 0, 0, 1)]),
        on(1, vec![draw(1, 99, 0)]),
    ];
    assert_eq!(
        aborted(write(&mut cluster, A, draw)),
        AbortReason::RowMissing
    );
    let rows = read(&mut cluster, A, vec![read_item(0, 0)]);
    assert_eq!(item(&rows[0]), Some((0, 1)));
}

/// A key drawn at commit on the coordinator's own partition is the only thing that can fail after the votes.
#[test]
fn a_drawn_key_that_is_taken_aborts_before_anything_is_installed() {
    let mut cluster = cluster(2);
    committed(write(
        &mut cluster,
        A,
        vec![on(0, vec![insert(0, 1, 0, 0)])],
    ));
    let effects = vec![
        on(0, vec![draw(0, 0, 0), insert_drawn(0, 0, 0, 1, 1)]),
        on(1, vec![update(ADD, 1, 0, 1)]),
    ];
    let transaction = cluster.begin(A);
    let AbortReason::Failed(error) = aborted(cluster.ask(transaction, Request::Commit(effects)))
    else {
        panic!("a duplicate is no conflict");
    };
    assert_eq!(error.code, "23505");
    let rows = read(&mut cluster, B, vec![read_item(0, 0), read_item(1, 0)]);
    assert_eq!(
        rows.iter().map(item).collect::<Vec<_>>(),
        [Some((0, 0)), Some((0, 0))]
    );
    assert!(is_quiet(&mut cluster));
}
