//! Uncertain reads: quorum operation under RAMP-Small and RAMP-Hybrid, step by step. Metadata do not say what was
//! written, so a replica that has not received a transaction cannot rule out that it wrote there. As in `quorum`, nodes
//! 0, 1 and 2 are the replicas of partition 0, and 3, 4 and 5 those of partition 1; where there is a third partition,
//! 6, 7 and 8 are its replicas.

use std::sync::Arc;

use anabranch_protocol::ramp::core::message::{Decision, Message, Refusal, Stamped};
use anabranch_protocol::ramp::{FilterSize, Metadata, RampNode, RampOptions};
use anabranch_protocol::{AbortReason, PartitionRead, Protocol, Request, Topology, TransactionId};
use anabranch_types::{NodeId, Ticks, Timestamp};

use crate::ramp::inexact;
use crate::ramp::prepare_f::{WINDOW, is_at_rest, write};
use crate::ramp::quorum::{PATIENCE, R, W, decided, prepare};
use crate::ramp::scenarios::{read_both, reason, registers, round};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

const REPLICAS: u16 = 3;

/// The near replica of partition 1 for R's clients. It has not received the transactions of these scenarios.
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
        let topology = Topology::clusters(REPLICAS, partitions, number % REPLICAS);
        let store = store(number / REPLICAS, 8, WINDOW);
        RampNode::new(
            NodeId(number),
            Arc::new(topology),
            store,
            programs(),
            options,
        )
    };
    Cluster::new((0..REPLICAS * partitions).map(node).collect())
}

/// RAMP-Small, and RAMP-Hybrid with a filter that excludes next to nothing.
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

fn commit_and_rest(cluster: &mut Cluster<RampNode>, reader: TransactionId) {
    cluster.request(reader, Request::Commit(Vec::new()));
    assert!(is_at_rest(cluster));
    assert!(
        cluster
            .nodes
            .iter()
            .all(|node| node.check_invariants().is_ok())
    );
}

/// R has met W's transaction, which wrote nothing on the third partition. No replica of that has it. When two of the
/// three have reported so, no more are asked, and the rows of the first stand.
#[test]
fn what_a_majority_lacks_was_never_written_there() {
    for metadata in inexact_metadata() {
        let mut cluster = replicas(3, metadata);
        write(&mut cluster, W, 7);
        prepare(&mut cluster, &[1, 3, 4]);
        cluster.deliver(W, R);
        let reader = begin_to_read(&mut cluster, vec![read_item(0, 0), read_item(2, 0)]);
        round(&mut cluster, R, NodeId(7));
        assert!(!cluster.has_reply(reader), "one of three is not enough");
        assert_eq!(
            cluster.under_way(R, NodeId(8)),
            0,
            "two of three are enough"
        );
        cluster.deliver(R, NodeId(6));
        let answer = cluster.peek(NodeId(6), R).map(|stamped| stamped.message);
        let lacks_it = |message: &Message| {
            matches!(message, Message::LookedUp { result: Ok(answer), .. }
                if answer.not_prepared.len() == 1 && answer.written.is_empty())
        };
        assert!(answer.as_ref().is_some_and(lacks_it), "{answer:?}");
        cluster.deliver(NodeId(6), R);
        assert_eq!(registers(cluster.take_reply(reader)), [7, 0]);
        // The reader reads on there without another request.
        cluster.request(reader, Request::Read(vec![read_item(2, 1)]));
        round(&mut cluster, R, NodeId(7));
        assert_eq!(registers(cluster.take_reply(reader)), [0]);
        let in_vain = cluster.counters().false_positives;
        assert_eq!(in_vain, u64::from(metadata != Metadata::Small));
        commit_and_rest(&mut cluster, reader);
    }
}

/// A filter that excludes the item leaves no uncertainty: no replica is asked again.
#[test]
fn a_filter_that_excludes_the_item_is_enough() {
    let hybrid = Metadata::Hybrid(FilterSize::default());
    let mut cluster = replicas(3, hybrid);
    write(&mut cluster, W, 7);
    prepare(&mut cluster, &[1, 3, 4]);
    cluster.deliver(W, R);
    let reader = begin_to_read(&mut cluster, vec![read_item(0, 0), read_item(2, 0)]);
    round(&mut cluster, R, NodeId(7));
    assert_eq!(registers(cluster.take_reply(reader)), [7, 0]);
    commit_and_rest(&mut cluster, reader);
}

/// The near replica lacks it, and another one reports what it wrote there: something else than what is read.
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
        commit_and_rest(&mut cluster, reader);
    }
}

/// The race: the near replica lacks it, and another one reports that it wrote what was read. That one is asked for
/// rows; the near one, which lacks it, is not.
#[test]
fn a_replica_that_has_what_was_read_is_asked_for_rows() {
    for metadata in inexact() {
        let mut cluster = replicas(2, metadata);
        decided(&mut cluster, [3, 5]);
        let reader = begin_to_read(&mut cluster, read_both());
        round(&mut cluster, R, NEAR);
        assert!(!cluster.has_reply(reader), "half of it is not enough");
        round(&mut cluster, R, NodeId(3));
        assert!(!cluster.has_reply(reader), "still half of it");
        assert_eq!(cluster.under_way(R, NEAR), 0);
        round(&mut cluster, R, NodeId(3));
        assert_eq!(registers(cluster.take_reply(reader)), [7, 7]);
        commit_and_rest(&mut cluster, reader);
    }
}

/// A client at a node of the third partition asks two replicas; the second of them installs the transaction after the
/// first has answered. By the time the first is asked again it has received it. So the read takes two rounds, as with
/// one replica, and does not wait for the others that were asked.
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
        assert!(!cluster.has_reply(reader), "half of it is not enough");
        cluster.deliver(W, NEAR);
        round(&mut cluster, apart, NEAR);
        assert_eq!(registers(cluster.take_reply(reader)), [7, 7]);
        assert_eq!(cluster.counters().repairs, 1);
        commit_and_rest(&mut cluster, reader);
    }
}

/// R reads all three partitions. That a majority of one partition's replicas lacks the transaction says nothing about
/// another partition.
#[test]
fn a_majority_counts_for_its_own_partition_alone() {
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
        commit_and_rest(&mut cluster, reader);
    }
}

/// Node 3 stays silent: another replica is asked as well, and reports what was written. Node 3 is asked for rows, too.
/// When it does not answer that either, the others are asked. The near one answers without the transaction, and that
/// answer does not count.
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
        assert!(!cluster.has_reply(reader), "the near replica lacks it");
        round(&mut cluster, R, NodeId(5));
        assert_eq!(registers(cluster.take_reply(reader)), [7, 7]);
        assert_eq!(cluster.counters().second_rounds, 2);
        commit_and_rest(&mut cluster, reader);
    }
}

/// The procedure has got rows of the near replica. A transaction that it then meets elsewhere wrote them: it restarts.
/// If that wrote something else there, it goes on.
#[test]
fn a_reader_restarts_only_if_its_view_lacks_a_write_of_what_it_read() {
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
            assert!(!cluster.has_reply(reader), "the near replica lacks it");
            round(&mut cluster, R, NodeId(3));
            let reply = cluster.take_reply(reader);
            if goes_on {
                assert_eq!(registers(reply), [7]);
                commit_and_rest(&mut cluster, reader);
            } else {
                assert_eq!(reason(reply), AbortReason::Fractured);
                assert!(is_at_rest(&mut cluster));
            }
        }
    }
}

/// A replica that has forgotten a transaction, since it is stable, does not report it as missing: it can no longer
/// know.
#[test]
fn what_is_forgotten_is_not_reported_as_missing() {
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
        // A node forgets only when an event reaches it.
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
        let answer = cluster.peek(NodeId(3), R).map(|stamped| stamped.message);
        let cannot_tell = |message: &Message| {
            let Message::LookedUp { result, .. } = message else {
                return false;
            };
            matches!(result, Err(Refusal::Forgotten(known)) if known.includes(named.commit))
        };
        assert!(answer.as_ref().is_some_and(cannot_tell), "{answer:?}");
        // No reader at R waits for that answer.
        cluster.deliver_all();
        assert!(cluster.nodes.iter().all(RampNode::is_idle));
    }
}
