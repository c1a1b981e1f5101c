//! Quorum operation under RAMP-Small and RAMP-Hybrid, step by step: metadata do not say what was written, so that a
//! copy which has not heard of a transaction cannot tell. As in `quorum`, copies 0, 1 and 2 are of partition 0, and
//! 3, 4 and 5 of partition 1; where there is a third one, 6, 7 and 8 are its copies.

use std::sync::Arc;

use anabranch_protocol::ramp::core::message::{Decision, Message, Refusal, Stamped};
use anabranch_protocol::ramp::{FilterSize, Metadata, RampNode, RampOptions};
use anabranch_protocol::{AbortReason, PartitionRead, Protocol, Request, Topology, TransactionId};
use anabranch_types::{NodeId, Ticks, Timestamp};

use crate::inexact;
use crate::prepare_f::{WINDOW, is_at_rest, write};
use crate::quorum::{PATIENCE, R, W, decided, prepare};
use crate::scenarios::{read_both, reason, registers, round};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

const COPIES: u16 = 3;

/// The near copy of partition 1 of R's clients. It has not heard of what the stories are about.
const NEAR: NodeId = NodeId(4);

/// Three replicas of so many partitions. Participants do not ask each other about the outcome: the coordinator sends
/// it to all of them.
fn replicas(partitions: u16, metadata: Metadata) -> Cluster<RampNode> {
    let options = RampOptions {
        quorum: Some(PATIENCE),
        terminate_after: None,
        metadata,
        ..RampOptions::default()
    };
    let node = |number: u16| {
        let topology = Topology::clusters(COPIES, partitions, number % COPIES);
        let store = store(number / COPIES, 8, WINDOW);
        RampNode::new(
            NodeId(number),
            Arc::new(topology),
            store,
            programs(),
            options,
        )
    };
    Cluster::new((0..COPIES * partitions).map(node).collect())
}

/// RAMP-Small, and RAMP-Hybrid with a filter that lets everything pass.
fn inexact_metadata() -> [Metadata; 2] {
    let [small, _, useless] = inexact();
    [small, useless]
}

fn begin_to_read(cluster: &mut Cluster<RampNode>, reads: Vec<PartitionRead>) -> TransactionId {
    let reader = cluster.begin(R);
    cluster.request(reader, Request::Read(reads));
    reader
}

fn stamped(message: Message) -> Stamped {
    Stamped {
        stable: Timestamp::ZERO,
        exceptions: None,
        frontier: None,
        message,
    }
}

fn ends(cluster: &mut Cluster<RampNode>, reader: TransactionId) {
    cluster.request(reader, Request::Commit(Vec::new()));
    assert!(is_at_rest(cluster));
    assert!(
        cluster
            .nodes
            .iter()
            .all(|node| node.check_invariants().is_ok())
    );
}

/// R has met W's transaction, which has nothing to do with the third partition. No copy of that has it, so two of
/// the three say so, and no more are asked; the rows of the first stand.
#[test]
fn what_a_majority_denies_was_never_written_there() {
    for metadata in inexact_metadata() {
        let mut cluster = replicas(3, metadata);
        write(&mut cluster, W, 7);
        prepare(&mut cluster, &[1, 3, 4]);
        cluster.deliver(W, R);
        let reader = begin_to_read(&mut cluster, vec![read_item(0, 0), read_item(2, 0)]);
        round(&mut cluster, R, NodeId(7));
        assert!(!cluster.has_reply(reader), "one of three cannot tell");
        assert_eq!(cluster.under_way(R, NodeId(8)), 0, "two of three can");
        cluster.deliver(R, NodeId(6));
        let told = cluster.peek(NodeId(6), R).map(|stamped| stamped.message);
        let denied = |message: &Message| {
            matches!(message, Message::LookedUp { result: Ok(told), .. }
                if told.not_prepared.len() == 1 && told.written.is_empty())
        };
        assert!(told.as_ref().is_some_and(denied), "{told:?}");
        cluster.deliver(NodeId(6), R);
        assert_eq!(registers(cluster.take_reply(reader)), [7, 0]);
        // Reading on there, it need not ask again.
        cluster.request(reader, Request::Read(vec![read_item(2, 1)]));
        round(&mut cluster, R, NodeId(7));
        assert_eq!(registers(cluster.take_reply(reader)), [0]);
        let in_vain = cluster.counters().false_positives;
        assert_eq!(in_vain, u64::from(metadata != Metadata::Small));
        ends(&mut cluster, reader);
    }
}

/// A filter that excludes leaves no uncertainty: no replica is asked again.
#[test]
fn a_filter_that_denies_it_is_enough() {
    let hybrid = Metadata::Hybrid(FilterSize::default());
    let mut cluster = replicas(3, hybrid);
    write(&mut cluster, W, 7);
    prepare(&mut cluster, &[1, 3, 4]);
    cluster.deliver(W, R);
    let reader = begin_to_read(&mut cluster, vec![read_item(0, 0), read_item(2, 0)]);
    round(&mut cluster, R, NodeId(7));
    assert_eq!(registers(cluster.take_reply(reader)), [7, 0]);
    ends(&mut cluster, reader);
}

/// The near copy has not got it, and another one tells what it wrote there: something else than what is read.
#[test]
fn a_replica_that_has_it_reports_what_it_wrote() {
    for metadata in inexact_metadata() {
        let mut cluster = replicas(2, metadata);
        decided(&mut cluster, [3, 5]);
        let reader = begin_to_read(&mut cluster, vec![read_item(0, 0), read_item(1, 5)]);
        round(&mut cluster, R, NEAR);
        round(&mut cluster, R, NodeId(3));
        assert_eq!(registers(cluster.take_reply(reader)), [7, 0]);
        assert_eq!(cluster.under_way(R, NodeId(3)), 0);
        ends(&mut cluster, reader);
    }
}

/// The race: the near copy has not got it, and another one has what was read of it. That one is asked for rows; the
/// near one, which has denied it, is not.
#[test]
fn one_that_has_what_was_read_is_asked_for_it() {
    for metadata in inexact() {
        let mut cluster = replicas(2, metadata);
        decided(&mut cluster, [3, 5]);
        let reader = begin_to_read(&mut cluster, read_both());
        round(&mut cluster, R, NEAR);
        assert!(!cluster.has_reply(reader), "half of it is nothing");
        round(&mut cluster, R, NodeId(3));
        assert!(!cluster.has_reply(reader), "and so it is still");
        assert_eq!(cluster.under_way(R, NEAR), 0);
        round(&mut cluster, R, NodeId(3));
        assert_eq!(registers(cluster.take_reply(reader)), [7, 7]);
        ends(&mut cluster, reader);
    }
}

/// A client of the third partition's node asks two replicas; the second of them installs the transaction when the
/// first has answered. By the time the first is asked again it has got it: two rounds, as with one replica, and the
/// others that were asked are not waited for.
#[test]
fn the_replica_that_was_read_repairs_it_itself() {
    for metadata in inexact() {
        let mut cluster = replicas(3, metadata);
        write(&mut cluster, W, 7);
        prepare(&mut cluster, &[1, 3, 5]);
        let apart = NodeId(7);
        let reader = cluster.begin(apart);
        cluster.request(reader, Request::Read(read_both()));
        round(&mut cluster, apart, NEAR);
        cluster.deliver(W, R);
        round(&mut cluster, apart, R);
        assert!(!cluster.has_reply(reader), "half of it is nothing");
        cluster.deliver(W, NEAR);
        round(&mut cluster, apart, NEAR);
        assert_eq!(registers(cluster.take_reply(reader)), [7, 7]);
        assert_eq!(cluster.counters().repairs, 1);
        ends(&mut cluster, reader);
    }
}

/// R reads all three partitions. That a majority of one's copies denies it says nothing of another one's.
#[test]
fn a_denial_is_of_one_partition() {
    for metadata in inexact_metadata() {
        let mut cluster = replicas(3, metadata);
        decided(&mut cluster, [3, 5]);
        let all = vec![read_item(0, 0), read_item(1, 0), read_item(2, 0)];
        let reader = begin_to_read(&mut cluster, all);
        round(&mut cluster, R, NodeId(7));
        round(&mut cluster, R, NEAR);
        round(&mut cluster, R, NodeId(6));
        assert!(
            !cluster.has_reply(reader),
            "the second partition's is missing"
        );
        for _ in 0..2 {
            round(&mut cluster, R, NodeId(3));
        }
        assert_eq!(registers(cluster.take_reply(reader)), [7, 7, 0]);
        ends(&mut cluster, reader);
    }
}

/// Node 3, which was asked, stays silent: another one is asked as well, and tells what was written. Node 3 is asked
/// for rows, too; when it says nothing to that either the others are asked, and the near one's answer is passed over.
#[test]
fn a_silent_replica_is_not_waited_for_in_uncertain_reads() {
    for metadata in inexact() {
        let mut cluster = replicas(2, metadata);
        decided(&mut cluster, [3, 5]);
        let reader = begin_to_read(&mut cluster, read_both());
        round(&mut cluster, R, NEAR);
        assert_eq!(cluster.under_way(R, NodeId(5)), 0);
        cluster.advance(PATIENCE);
        round(&mut cluster, R, NodeId(5));
        assert!(!cluster.has_reply(reader));
        assert_eq!(cluster.under_way(R, NodeId(3)), 2);
        cluster.advance(PATIENCE);
        round(&mut cluster, R, NEAR);
        assert!(!cluster.has_reply(reader), "it has not got it");
        round(&mut cluster, R, NodeId(5));
        assert_eq!(registers(cluster.take_reply(reader)), [7, 7]);
        assert_eq!(cluster.counters().second_rounds, 2);
        ends(&mut cluster, reader);
    }
}

/// Rows of the near copy have been given to the procedure. What it then meets elsewhere wrote them: it is restarted.
/// If it wrote something else there, it goes on.
#[test]
fn a_view_that_lacks_what_was_written_is_given_up_and_no_other() {
    for (id, goes_on) in [(0, false), (5, true)] {
        for metadata in inexact_metadata() {
            let mut cluster = replicas(2, metadata);
            decided(&mut cluster, [3, 5]);
            let reader = begin_to_read(&mut cluster, vec![read_item(1, id)]);
            round(&mut cluster, R, NEAR);
            assert_eq!(registers(cluster.take_reply(reader)), [0]);
            cluster.request(reader, Request::Read(vec![read_item(0, 0)]));
            assert!(!cluster.has_reply(reader));
            round(&mut cluster, R, NEAR);
            assert!(!cluster.has_reply(reader), "it has not heard of it");
            round(&mut cluster, R, NodeId(3));
            let reply = cluster.take_reply(reader);
            if goes_on {
                assert_eq!(registers(reply), [7]);
                ends(&mut cluster, reader);
            } else {
                assert_eq!(reason(reply), AbortReason::Fractured);
                assert!(is_at_rest(&mut cluster));
            }
        }
    }
}

/// A copy that has forgotten a transaction, since all show it, does not deny it: it cannot tell any more.
#[test]
fn what_is_forgotten_is_not_denied() {
    for metadata in inexact_metadata() {
        let mut cluster = replicas(2, metadata);
        write(&mut cluster, W, 7);
        let prepare = cluster.peek(W, R).map(|stamped| stamped.message);
        let Some(Message::Prepare(prepare)) = prepare else {
            panic!("{prepare:?}")
        };
        let named = Decision {
            prepared: prepare.prepared,
            commit: prepare.prepared,
        };
        // A node ages when something happens at it.
        for _ in 0..30 {
            cluster.deliver_all();
            cluster.advance(Ticks::from_millis(50));
            cluster.inject(R, NodeId(3), stamped(Message::Stable));
        }
        let transaction = cluster.begin(R);
        let request = Message::LookUp {
            transaction,
            required: vec![named],
        };
        cluster.inject(R, NodeId(3), stamped(request));
        let told = cluster.peek(NodeId(3), R).map(|stamped| stamped.message);
        let cannot_tell = |message: &Message| {
            let Message::LookedUp { result, .. } = message else {
                return false;
            };
            matches!(result, Err(Refusal::Forgotten(known)) if known.includes(named.commit))
        };
        assert!(told.as_ref().is_some_and(cannot_tell), "{told:?}");
        // R has no reader that waits for that.
        cluster.deliver_all();
        assert!(cluster.nodes.iter().all(RampNode::is_idle));
    }
}
