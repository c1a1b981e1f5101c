//! What no well-behaved node says: refused with a reason where somebody waits for an answer, passed over
//! otherwise, and nothing of it stays behind.

use anabranch_protocol::ramp::RampNode;
use anabranch_protocol::ramp::message::{Got, Message, Prepare, Refusal, Required, Stamped};
use anabranch_protocol::{AbortReason, Request, TransactionId};
use anabranch_types::{NodeId, Ticks, Timestamp};

use crate::cluster;
use crate::stories::{C1, X, Y, is_committed, set_both};
use crate::support::cluster::Cluster;

fn stamped(message: Message) -> Stamped {
    Stamped {
        stable: Timestamp::ZERO,
        frontier: None,
        message,
    }
}

/// A Prepare that C1 has sent to X, as it is under way.
fn prepare_for_x(cluster: &mut Cluster<RampNode>) -> Box<Prepare> {
    let transaction = cluster.begin(C1);
    cluster.request(transaction, Request::Commit(set_both(1)));
    match cluster.peek(C1, X).expect("it is under way").message {
        Message::Prepare(prepare) => prepare,
        other => panic!("not a Prepare: {other:?}"),
    }
}

/// Says a Prepare to X; the reason for which it is refused.
fn refused(cluster: &mut Cluster<RampNode>, from: NodeId, prepare: Box<Prepare>) -> AbortReason {
    let before = cluster.under_way(X, from);
    let prepared = cluster.nodes[X.index()].prepared();
    cluster.say(from, X, stamped(Message::Prepare(prepare)));
    assert_eq!(
        cluster.nodes[X.index()].prepared(),
        prepared,
        "nothing stays"
    );
    assert_eq!(cluster.under_way(X, from), before + 1, "it is answered");
    for _ in 0..before {
        cluster.deliver(X, from);
    }
    match cluster.peek(X, from).expect("it is answered").message {
        Message::Vote {
            vote: Err(reason), ..
        } => reason,
        other => panic!("not refused: {other:?}"),
    }
}

fn is_at_rest(cluster: &mut Cluster<RampNode>) -> bool {
    cluster.deliver_all();
    cluster.advance(Ticks::from_millis(20));
    cluster.deliver_all();
    cluster.nodes.iter().all(RampNode::is_idle)
}

/// One that is repeated, one of another node, one from the far future: each is refused, and the next
/// transaction of an honest clock is not.
#[test]
fn names_that_are_repeated_or_invented_are_refused() {
    let mut cluster = cluster(4);
    let prepare = prepare_for_x(&mut cluster);
    let invented = |prepared| {
        Box::new(Prepare {
            prepared,
            ..(*prepare).clone()
        })
    };
    cluster.deliver(C1, X);
    assert_eq!(
        refused(&mut cluster, C1, prepare.clone()),
        AbortReason::Conflict
    );
    let far = Timestamp::new(1 << 53, C1);
    for (prepared, words) in [
        (far, "ahead of this node's clock"),
        (
            Timestamp::new(prepare.prepared.logical(), Y),
            "another node",
        ),
    ] {
        let AbortReason::Failed(error) = refused(&mut cluster, C1, invented(prepared)) else {
            panic!("{prepared} is refused for what it is");
        };
        assert_eq!(error.code, "58000");
        assert!(error.message.contains(words), "{error:?}");
    }
    // In another node's name it comes from nowhere, however it is called.
    assert!(matches!(
        refused(&mut cluster, Y, prepare.clone()),
        AbortReason::Failed(_)
    ));
    // A question about such a name is no reason to promise anything.
    let transaction = TransactionId {
        node: C1,
        sequence: 77,
    };
    let inquire = |prepared| {
        stamped(Message::Inquire {
            transaction,
            prepared,
        })
    };
    cluster.say(Y, X, inquire(far));
    cluster.say(Y, X, inquire(Timestamp::new(5, Y)));
    assert!(is_at_rest(&mut cluster));
    let next = cluster.begin(C1);
    assert!(is_committed(Some(
        cluster.ask(next, Request::Commit(set_both(2)))
    )));
    assert!(is_at_rest(&mut cluster));
}

/// Answers for transactions that are not there, or are not waiting for them, are passed over.
#[test]
fn messages_for_unknown_transactions_leave_nothing() {
    let mut cluster = cluster(4);
    let of = |sequence| TransactionId { node: X, sequence };
    let name = Timestamp::new(9, X);
    for message in [
        Message::Vote {
            transaction: of(1),
            vote: Ok(name),
        },
        Message::Vote {
            transaction: of(1),
            vote: Err(AbortReason::Conflict),
        },
        Message::Committed {
            transaction: of(2),
            slots: Ok(Vec::new()),
        },
        Message::Got {
            transaction: of(3),
            result: Err(Refusal::Fractured),
        },
        Message::Got {
            transaction: of(3),
            result: Ok(Got {
                snapshot: cluster.nodes[X.index()].store().last(),
                reach: cluster.nodes[X.index()].store().last(),
                fetched: Vec::new(),
                lacking: Vec::new(),
                evidence: Vec::new(),
            }),
        },
        Message::Abort { prepared: name },
        Message::Commit {
            transaction: TransactionId {
                node: C1,
                sequence: 5,
            },
            decided: Required {
                prepared: Timestamp::new(4, C1),
                commit: Timestamp::new(5, C1),
            },
        },
        Message::Stable,
    ] {
        let what = format!("{message:?}");
        cluster.say(Y, X, stamped(message));
        assert!(is_at_rest(&mut cluster), "{what}");
        assert_eq!(cluster.nodes[X.index()].prepared(), 0, "{what}");
    }
    let next = cluster.begin(X);
    assert!(is_committed(Some(
        cluster.ask(next, Request::Commit(set_both(2)))
    )));
}
