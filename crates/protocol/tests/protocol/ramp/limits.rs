//! Increments that are prepared concurrently never exceed a type's domain together: each promise can be kept, and an
//! increment that would not fit is refused before it is promised.

use anabranch_protocol::ramp::RampNode;
use anabranch_protocol::{AbortReason, PartitionEffects, Protocol, Reply, Request, TransactionId};
use anabranch_types::NodeId;

use crate::ramp::cluster;
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

const X: NodeId = NodeId(0);
const Y: NodeId = NodeId(1);
const C1: NodeId = NodeId(2);
const C2: NodeId = NodeId(3);

/// Adds to the same counter on y, and sets a register of its own on x.
fn adding(amount: i64, register: i64) -> Vec<PartitionEffects> {
    vec![
        on(0, vec![update(SET, 0, register, 1)]),
        on(1, vec![update(ADD, 1, 0, amount)]),
    ]
}

/// Runs a transaction up to the vote of y; x has not been asked yet.
fn prepare_on_y(
    cluster: &mut Cluster<RampNode>,
    node: NodeId,
    effects: Vec<PartitionEffects>,
) -> TransactionId {
    let transaction = cluster.begin(node);
    cluster.request(transaction, Request::Commit(effects));
    cluster.deliver(node, Y);
    cluster.deliver(Y, node);
    transaction
}

fn count(cluster: &mut Cluster<RampNode>) -> i64 {
    let reader = cluster.begin(Y);
    match cluster.ask(reader, Request::Read(vec![read_item(1, 0)])) {
        Reply::Fetched(rows) => item(&rows[0]).expect("items stay").1,
        other => panic!("no rows: {other:?}"),
    }
}

fn add_alone(cluster: &mut Cluster<RampNode>, amount: i64) -> Reply {
    let alone = cluster.begin(Y);
    let add = on(1, vec![update(ADD, 1, 0, amount)]);
    cluster.request(alone, Request::Commit(vec![add]));
    cluster
        .take_reply(alone)
        .expect("it is decided here, at once")
}

fn check_invariants(cluster: &Cluster<RampNode>) {
    for node in &cluster.nodes {
        node.check_invariants().expect("every invariant holds");
    }
}

/// Each of three increments fits alone, and two fit together. The third aborts with a conflict while the two are
/// prepared; once they have committed, it fails as out of range.
#[test]
fn increments_that_fit_alone_never_overflow_together() {
    for sign in [1, -1] {
        let mut cluster = cluster(4);
        let half = sign * COUNT_MAX / 2;
        let t1 = prepare_on_y(&mut cluster, C1, adding(half, 1));
        let t2 = prepare_on_y(&mut cluster, C2, adding(half, 2));
        let t3 = prepare_on_y(&mut cluster, C1, adding(half, 3));
        let refused = cluster.take_reply(t3);
        assert!(
            matches!(refused, Some(Reply::Aborted(AbortReason::Conflict))),
            "{refused:?}"
        );
        let refused = add_alone(&mut cluster, sign);
        assert!(matches!(refused, Reply::Aborted(AbortReason::Conflict)));
        // In the other direction there is room, whether or not the two commit.
        assert!(matches!(
            add_alone(&mut cluster, -sign),
            Reply::Committed { .. }
        ));
        cluster.deliver_all();
        for promised in [t1, t2] {
            let reply = cluster.take_reply(promised);
            assert!(matches!(reply, Some(Reply::Committed { .. })), "{reply:?}");
        }
        assert_eq!(count(&mut cluster), 2 * half - sign, "no increment is lost");
        let Reply::Aborted(AbortReason::Failed(error)) = add_alone(&mut cluster, 2 * sign) else {
            panic!("there is room for only one more");
        };
        assert_eq!(error.code, "22003");
        check_invariants(&cluster);
    }
}

/// Room that a prepared decrement will make is not used before it commits: the sums of every order and every subset
/// must fit.
#[test]
fn room_that_a_prepared_decrement_may_make_is_not_used() {
    let mut cluster = cluster(4);
    assert!(matches!(
        add_alone(&mut cluster, COUNT_MAX),
        Reply::Committed { .. }
    ));
    let t1 = prepare_on_y(&mut cluster, C1, adding(-10, 1));
    let refused = add_alone(&mut cluster, 5);
    assert!(matches!(refused, Reply::Aborted(_)), "t1 may yet abort");
    cluster.deliver_all();
    let reply = cluster.take_reply(t1);
    assert!(matches!(reply, Some(Reply::Committed { .. })), "{reply:?}");
    assert!(matches!(
        add_alone(&mut cluster, 5),
        Reply::Committed { .. }
    ));
    assert_eq!(count(&mut cluster), COUNT_MAX - 5);
    check_invariants(&cluster);
}

/// An increment whose `Commit` arrives late, with a timestamp below what was installed since, still has the room that
/// it was promised.
#[test]
fn a_late_increment_has_its_room() {
    let mut cluster = cluster(4);
    let late = prepare_on_y(&mut cluster, C1, adding(COUNT_MAX - 100, 1));
    cluster.deliver(C1, X);
    cluster.deliver(X, C1); // decided; the Commit to y is in flight
    for _ in 0..100 {
        assert!(matches!(
            add_alone(&mut cluster, 1),
            Reply::Committed { .. }
        ));
    }
    let refused = add_alone(&mut cluster, 1);
    assert!(matches!(refused, Reply::Aborted(AbortReason::Conflict)));
    cluster.deliver_all();
    let reply = cluster.take_reply(late);
    assert!(matches!(reply, Some(Reply::Committed { .. })), "{reply:?}");
    assert_eq!(count(&mut cluster), COUNT_MAX);
    check_invariants(&cluster);
}

/// An update that has found no row is promised to do nothing. No insert creates that row before it commits, not even
/// with a key that is drawn at commit.
#[test]
fn no_insert_creates_a_row_that_a_prepared_update_has_not_found() {
    let mut cluster = cluster(4);
    let nowhere = vec![
        on(0, vec![update(SET, 0, 1, 1)]),
        on(1, vec![update(ADD, 1, 99, 1), draw(1, 1, 0)]),
    ];
    let t1 = prepare_on_y(&mut cluster, C1, nowhere);
    let insert = |cluster: &mut Cluster<RampNode>| {
        let inserting = cluster.begin(Y);
        let row = on(1, vec![insert_item(1, 99, 0, COUNT_MAX)]);
        cluster.request(inserting, Request::Commit(vec![row]));
        cluster
            .take_reply(inserting)
            .expect("it is decided here, at once")
    };
    let refused = insert(&mut cluster);
    assert!(matches!(refused, Reply::Aborted(AbortReason::Conflict)));
    cluster.deliver_all();
    assert!(matches!(
        cluster.take_reply(t1),
        Some(Reply::Committed { .. })
    ));
    assert!(matches!(insert(&mut cluster), Reply::Committed { .. }));
    check_invariants(&cluster);
}
