//! Histories assembled from hand-made records of nodes and stores.

use std::sync::Arc;

use anabranch_engine::call::Work;
use anabranch_engine::record::RecordedRead;
use anabranch_engine::{AttemptOutcome, AttemptRecord, CallId};
use anabranch_history::record::{Header, Operation, Transaction};
use anabranch_protocol::{AbortReason, PartitionEffects, TransactionId};
use anabranch_sim::{Prepared, Recording, RunHistory};
use anabranch_storage::{CommitSequence, Installed, InstalledChange, InstalledKind};
use anabranch_types::{
    Effect, Fetched, Key, NodeId, PartitionId, Read, Recorded, RecordedState, TableId, Ticks,
    Timestamp,
};

const TABLE: TableId = TableId(0);
const CALL: CallId = CallId(1);
const P0: PartitionId = PartitionId(0);
const P1: PartitionId = PartitionId(1);

fn at(logical: u64) -> Timestamp {
    Timestamp::new(logical, NodeId(0))
}

fn key() -> Key {
    Key::from_bytes(&[7])
}

/// An attempt without reads that deletes a row of each of these partitions.
fn attempt(sequence: u64, outcome: AttemptOutcome, partitions: &[PartitionId]) -> AttemptRecord {
    let effects = |partition: &PartitionId| PartitionEffects {
        partition: *partition,
        effects: vec![Effect::Delete {
            table: TABLE,
            key: key(),
        }],
        guards: Vec::new(),
    };
    AttemptRecord {
        transaction: TransactionId {
            node: NodeId(0),
            sequence,
        },
        call: CALL,
        work: Work::Procedure(0),
        arguments: Arc::new([]),
        attempt: 1,
        began: Ticks(0),
        ended: None,
        reads: Vec::new(),
        results: Vec::new(),
        effects: partitions.iter().map(effects).collect(),
        outcome,
    }
}

/// The installation of a deletion, with this commit sequence.
fn deletion(sequence: u64, timestamp: Timestamp) -> Installed {
    Installed {
        sequence: CommitSequence(sequence),
        timestamp,
        origin: None,
        now: Ticks(0),
        changes: vec![InstalledChange {
            table: TABLE,
            key: key(),
            kind: InstalledKind::Delete,
            row: None,
            entries: Vec::new(),
        }],
    }
}

fn finish(recording: Recording) -> RunHistory {
    let prepared = Prepared::new("register", 2).unwrap();
    recording.finish(&prepared.planned, Header::default())
}

/// The real time of an attempt begins with the client's call, or with the retry.
#[test]
fn a_retry_begins_when_the_attempt_before_it_ends() {
    let mut recording = Recording::default();
    recording.called(CALL, 3, Ticks(10));
    let aborted = AttemptOutcome::Aborted(AbortReason::Conflict);
    recording.ended(attempt(1, aborted, &[]), Ticks(20));
    recording.ended(attempt(2, AttemptOutcome::Committed(at(5)), &[]), Ticks(30));
    let times = |of: &Transaction| (of.session.clone(), of.invoked, of.completed);
    let recorded: Vec<_> = finish(recording).transactions.iter().map(times).collect();
    let c3 = || Some("c3".to_owned());
    assert_eq!(
        recorded,
        [(c3(), Some(10), Some(20)), (c3(), Some(20), Some(30)),]
    );
}

#[test]
fn a_committed_transaction_is_installed_at_all_its_partitions() {
    let violations = |partitions: &[PartitionId]| {
        let mut recording = Recording::default();
        recording.ended(
            attempt(1, AttemptOutcome::Committed(at(5)), &[P0, P1]),
            Ticks(20),
        );
        for partition in partitions {
            recording.installed(*partition, vec![deletion(1, at(5))]);
        }
        finish(recording).violations
    };
    assert_eq!(violations(&[P0, P1]), [""; 0]);
    let missing = violations(&[P0]);
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(
        missing[0].ends_with("p1 has never installed it"),
        "{missing:?}"
    );
    assert_eq!(violations(&[]).len(), 2);
}

#[test]
fn an_installed_transaction_has_committed_unless_a_node_was_lost() {
    let mut recording = Recording::default();
    recording.installed(P0, vec![deletion(1, at(5))]);
    let history = finish(recording);
    assert_eq!(history.violations.len(), 1, "{:?}", history.violations);
    assert_eq!(history.transactions.len(), 1, "it is in the history");
    let mut recording = Recording::default();
    recording.lost(Vec::new(), Ticks(20));
    recording.installed(P0, vec![deletion(1, at(5))]);
    let history = finish(recording);
    assert_eq!(history.violations, [""; 0]);
    assert_eq!(history.transactions.len(), 1, "it is in the history");
}

/// A deleted row may be collected. A read without a row has read the version of the last deletion that was installed.
#[test]
fn no_row_is_the_version_of_its_last_deletion() {
    let mut recording = Recording::default();
    let sequences = [1, 3, 4, 9];
    for sequence in sequences {
        let mut reader = attempt(
            sequence,
            AttemptOutcome::Aborted(AbortReason::Conflict),
            &[],
        );
        reader.reads.push(RecordedRead {
            partition: P0,
            read: Read::Point {
                table: TABLE,
                key: key(),
            },
            guard: false,
            fetched: Fetched::Recorded(Box::new(Recorded {
                answer: Fetched::Point(None),
                versions: Vec::new(),
                state: RecordedState::Sequence(sequence),
            })),
        });
        recording.ended(reader, Ticks(sequence));
    }
    recording.installed(P0, vec![deletion(3, at(5)), deletion(8, at(6))]);
    let history = finish(recording);
    let version = |of: &Transaction| match &of.operations[..] {
        [Operation::Read(read)] => read.version.as_ref().map(|version| version.writer.clone()),
        other => panic!("{other:?}"),
    };
    let readers = history.transactions[..sequences.len()].iter();
    let (first, second) = (at(5).to_string(), at(6).to_string());
    let expected = [None, Some(first.clone()), Some(first), Some(second)];
    assert_eq!(readers.map(version).collect::<Vec<_>>(), expected);
}
