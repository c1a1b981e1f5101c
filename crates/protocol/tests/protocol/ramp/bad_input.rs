//! Messages that no correct node sends. A message whose sender waits for an answer is refused with a reason; any other
//! is dropped. Neither changes the node's state.

use anabranch_protocol::ramp::core::message::{
    Decision, Got, Message, Prepare, ReadersKnow, Refusal, Stamped,
};
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{AbortReason, Reply, Request, TransactionId};
use anabranch_types::{NodeId, Ticks, Timestamp};

use crate::ramp::scenarios::{C1, C2, X, Y, is_committed, prepare, reason, registers, set_both};
use crate::ramp::{cluster, cluster_with};
use crate::support::cluster::Cluster;
use crate::support::fixture::{SET, on, read_item, update};

fn stamped(message: Message) -> Stamped {
    Stamped {
        stable: Timestamp::ZERO,
        exceptions: None,
        frontier: None,
        message,
    }
}

/// A Prepare from C1 to X that is in flight.
fn prepare_for_x(cluster: &mut Cluster<RampNode>) -> Box<Prepare> {
    let transaction = cluster.begin(C1);
    cluster.request(transaction, Request::Commit(set_both(1)));
    match cluster.peek(C1, X).expect("Prepare is in flight").message {
        Message::Prepare(prepare) => prepare,
        other => panic!("not a Prepare: {other:?}"),
    }
}

/// Sends a Prepare to X; returns the reason for which it is refused.
fn refused(cluster: &mut Cluster<RampNode>, from: NodeId, prepare: Box<Prepare>) -> AbortReason {
    let before = cluster.under_way(X, from);
    let prepared = cluster.nodes[X.index()].prepared();
    cluster.inject(from, X, stamped(Message::Prepare(prepare)));
    assert_eq!(
        cluster.nodes[X.index()].prepared(),
        prepared,
        "nothing stays prepared"
    );
    assert_eq!(cluster.under_way(X, from), before + 1, "it is answered");
    for _ in 0..before {
        cluster.deliver(X, from);
    }
    match cluster.peek(X, from).expect("it is answered").message {
        Message::Vote {
            vote: Err(reason), ..
        } => *reason,
        other => panic!("not refused: {other:?}"),
    }
}

fn is_at_rest(cluster: &mut Cluster<RampNode>) -> bool {
    cluster.deliver_all();
    cluster.advance(Ticks::from_millis(20));
    cluster.deliver_all();
    cluster.nodes.iter().all(RampNode::is_idle)
}

/// A name that is repeated, a name of another node, and a name from the far future are each refused. The next
/// transaction of a node with a correct clock commits.
#[test]
fn repeated_and_invented_names_are_refused() {
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
            panic!("{prepared} is refused with an error");
        };
        assert_eq!(error.code, "58000");
        assert!(error.message.contains(words), "{error:?}");
    }
    // A Prepare whose sender does not own its name is refused.
    assert!(matches!(
        refused(&mut cluster, Y, prepare.clone()),
        AbortReason::Failed(_)
    ));
    // An inquiry about such a name makes no participant promise anything.
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
    cluster.inject(Y, X, inquire(far));
    cluster.inject(Y, X, inquire(Timestamp::new(5, Y)));
    assert!(is_at_rest(&mut cluster));
    let next = cluster.begin(C1);
    assert!(is_committed(Some(
        cluster.ask(next, Request::Commit(set_both(2)))
    )));
    assert!(is_at_rest(&mut cluster));
}

/// Answers for transactions that do not exist, or do not wait for them, are dropped.
#[test]
fn messages_for_unknown_transactions_are_dropped() {
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
            vote: Err(Box::new(AbortReason::Conflict)),
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
                fetched: Vec::new(),
                metadata: None,
            }),
        },
        Message::Abort { prepared: name },
        Message::Commit {
            transaction: TransactionId {
                node: C1,
                sequence: 5,
            },
            decided: Decision {
                prepared: Timestamp::new(4, C1),
                commit: Timestamp::new(5, C1),
            },
        },
        Message::Stable,
        Message::Gossip {
            readers: ReadersKnow {
                all: Timestamp::new(1 << 40, X),
                but_exceptions: Timestamp::new(1 << 40, X),
                since: Timestamp::ZERO,
            },
            anywhere: Timestamp::new(1 << 40, Y),
            but: None,
        },
    ] {
        let what = format!("{message:?}");
        cluster.inject(Y, X, stamped(message));
        assert!(is_at_rest(&mut cluster), "{what}");
        assert_eq!(cluster.nodes[X.index()].prepared(), 0, "{what}");
    }
    let next = cluster.begin(X);
    assert!(is_committed(Some(
        cluster.ask(next, Request::Commit(set_both(2)))
    )));
}

/// Two hours: twice as far ahead as is permitted.
const FAR: Ticks = Ticks::from_millis(2 * 3_600_000);

fn far_ahead(reply: Option<Reply>, words: &str) {
    let AbortReason::Failed(error) = reason(reply) else {
        panic!("not refused because of a clock");
    };
    assert_eq!(error.code, "58000");
    assert!(error.message.contains(words), "{error:?}");
}

/// The highest commit timestamp of the next transaction of each of these nodes.
fn clocks(cluster: &mut Cluster<RampNode>, nodes: &[NodeId]) -> u64 {
    let commits = nodes.iter().map(|node| {
        let next = cluster.begin(*node);
        let effects = vec![on(node.0, vec![update(SET, node.0, 1, 1)])];
        match cluster.ask(next, Request::Commit(effects)) {
            Reply::Committed { timestamp, .. } => timestamp.logical(),
            other => panic!("not committed: {other:?}"),
        }
    });
    commits.max().expect("there is a node")
}

/// A vote from a clock that is far ahead counts as a no. A clock that jumps far ahead between the votes and the
/// decision decides nothing. Neither advances the other clocks, and nothing stays prepared.
#[test]
fn votes_and_decisions_from_a_clock_far_ahead_are_refused() {
    let before_the_vote = |cluster: &mut Cluster<RampNode>| {
        cluster.skew[X.index()] = FAR;
        prepare(cluster, C1, &[X, Y]);
    };
    let before_the_decision = |cluster: &mut Cluster<RampNode>| {
        cluster.deliver(C1, X);
        cluster.deliver(C1, Y);
        cluster.deliver(X, C1);
        cluster.skew[C1.index()] = FAR;
        cluster.deliver(Y, C1);
    };
    type Jump = fn(&mut Cluster<RampNode>);
    let jumps: [(Jump, &str, &[NodeId]); 2] = [
        (before_the_vote, "set n0's clock right", &[Y, C1]),
        (before_the_decision, "ahead of n0's clock", &[X, Y]),
    ];
    for (jump, words, others) in jumps {
        let mut cluster = cluster(4);
        let transaction = cluster.begin(C1);
        cluster.request(transaction, Request::Commit(set_both(1)));
        jump(&mut cluster);
        far_ahead(cluster.take_reply(transaction), words);
        cluster.deliver_all();
        assert!(cluster.nodes.iter().all(RampNode::is_idle), "{words}");
        let clock = clocks(&mut cluster, others);
        assert!(clock < FAR.as_micros() / 2, "{words}: {clock} us");
    }
}

/// A transaction that has committed at its only owner is reported as committed, whatever the owner's clock is. The
/// coordinator's own clock does not advance to it.
#[test]
fn a_commit_at_an_owner_far_ahead_advances_no_other_clock() {
    let mut cluster = cluster(4);
    cluster.skew[X.index()] = FAR;
    let alone = cluster.begin(C1);
    let effects = vec![on(0, vec![update(SET, 0, 0, 1)])];
    let reply = cluster.ask(alone, Request::Commit(effects));
    assert!(is_committed(Some(reply)));
    let clock = clocks(&mut cluster, &[C1]);
    assert!(clock < FAR.as_micros() / 2, "{clock} us");
}

/// A transaction that would depend on a commit far ahead of its coordinator's clock is refused; one that only reads it
/// is not. Each clock may be near enough to the next one, and the first still too far from the last.
#[test]
fn a_dependency_far_ahead_is_refused() {
    let options = RampOptions {
        causal: true,
        ..RampOptions::default()
    };
    let mut cluster = cluster_with(4, Ticks::from_millis(500), options);
    let minutes = |minutes: u64| Ticks::from_millis(minutes * 60_000);
    cluster.skew[C1.index()] = minutes(50);
    for owner in [X, Y] {
        cluster.skew[owner.index()] = minutes(100);
    }
    let writer = cluster.begin(C1);
    cluster.request(writer, Request::Commit(set_both(1)));
    prepare(&mut cluster, C1, &[X, Y]);
    let reader = cluster.begin(C2);
    cluster.deliver(C1, X);
    cluster.request(reader, Request::Read(vec![read_item(0, 0)]));
    cluster.deliver(C2, X);
    while cluster.under_way(X, C2) > 0 {
        cluster.deliver(X, C2);
    }
    assert_eq!(registers(cluster.take_reply(reader)), [1]);
    let writes = vec![on(C2.0, vec![update(SET, C2.0, 0, 2)])];
    cluster.request(reader, Request::Commit(writes));
    far_ahead(cluster.take_reply(reader), "set n2's clock right");
    cluster.deliver_all();
    let clock = clocks(&mut cluster, &[C2]);
    assert!(clock < minutes(50).as_micros(), "{clock} us");
}

/// The same where the dependency is near enough to the coordinator's clock, but too far ahead of the clock of the only
/// owner that gets the write: the owner would commit the write below its dependencies (CAUSAL-I5).
#[test]
fn an_owner_refuses_a_dependency_far_ahead() {
    const Z: NodeId = NodeId(4);
    let options = RampOptions {
        causal: true,
        ..RampOptions::default()
    };
    let mut cluster = cluster_with(5, Ticks::from_millis(500), options);
    let minutes = |minutes: u64| Ticks::from_millis(minutes * 60_000);
    cluster.skew[C1.index()] = minutes(100);
    for node in [X, Y, C2] {
        cluster.skew[node.index()] = minutes(50);
    }
    let writer = cluster.begin(C1);
    cluster.request(writer, Request::Commit(set_both(1)));
    prepare(&mut cluster, C1, &[X, Y]);
    let reader = cluster.begin(C2);
    cluster.deliver(C1, X);
    cluster.request(reader, Request::Read(vec![read_item(0, 0)]));
    cluster.deliver(C2, X);
    while cluster.under_way(X, C2) > 0 {
        cluster.deliver(X, C2);
    }
    assert_eq!(registers(cluster.take_reply(reader)), [1]);
    let writes = vec![on(Z.0, vec![update(SET, Z.0, 0, 2)])];
    cluster.request(reader, Request::Commit(writes));
    while cluster.under_way(C2, Z) > 0 {
        cluster.deliver(C2, Z);
    }
    while cluster.under_way(Z, C2) > 0 {
        cluster.deliver(Z, C2);
    }
    far_ahead(cluster.take_reply(reader), "set n2's clock right");
    cluster.deliver_all();
    assert!(cluster.nodes.iter().all(RampNode::is_idle));
    let clock = clocks(&mut cluster, &[Z]);
    assert!(clock < minutes(50).as_micros(), "{clock} us");
}

/// The owner has prepared one of the dependencies. Installing it advances the owner's clock, and only then is the other
/// dependency near enough. The write commits above both (CAUSAL-I5).
#[test]
fn installing_one_dependency_lets_the_clock_reach_the_next() {
    const Z: NodeId = NodeId(4);
    const V: NodeId = NodeId(5);
    let options = RampOptions {
        causal: true,
        ..RampOptions::default()
    };
    let mut cluster = cluster_with(6, Ticks::from_millis(500), options);
    let minutes = |minutes: u64| Ticks::from_millis(minutes * 60_000);
    cluster.skew[C1.index()] = minutes(100);
    for node in [X, Y, C2] {
        cluster.skew[node.index()] = minutes(50);
    }
    // Z has prepared it by a clock that is 50 minutes behind its commit timestamp.
    let first = cluster.begin(V);
    let effects = [0, Z.0].map(|part| on(part, vec![update(SET, part, 1, 1)]));
    cluster.request(first, Request::Commit(effects.to_vec()));
    prepare(&mut cluster, V, &[X, Z]);
    let newest = cluster.begin(C1);
    cluster.request(newest, Request::Commit(set_both(2)));
    prepare(&mut cluster, C1, &[X, Y]);
    for coordinator in [V, C1] {
        cluster.deliver(coordinator, X);
    }
    let dependent = cluster.begin(C2);
    let reads = vec![read_item(0, 0), read_item(0, 1)];
    cluster.request(dependent, Request::Read(reads));
    cluster.deliver(C2, X);
    while cluster.under_way(X, C2) > 0 {
        cluster.deliver(X, C2);
    }
    assert_eq!(registers(cluster.take_reply(dependent)), [2, 1]);
    let writes = vec![on(Z.0, vec![update(SET, Z.0, 0, 3)])];
    cluster.request(dependent, Request::Commit(writes));
    cluster.deliver(C2, Z);
    cluster.deliver_all();
    let at = |reply| match reply {
        Some(Reply::Committed { timestamp, .. }) => timestamp,
        other => panic!("not committed: {other:?}"),
    };
    let dependency = at(cluster.take_reply(newest));
    assert!(dependency < at(cluster.take_reply(dependent)));
    assert!(is_at_rest(&mut cluster));
}
