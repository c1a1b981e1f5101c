//! The database's isolation, and the transaction that receives a token.

use anabranch_protocol::belt::{RowImage, Update};
use anabranch_types::Fetched;

use super::*;
use crate::latency::Network;
use crate::prepared::Prepared;
use crate::rows::rows_of;

/// A database of a ring of two, and the rows of its largest table.
fn database() -> (Database, Vec<(TableId, Key)>) {
    let prepared = Prepared::for_ring("bank", 2).expect("a workload");
    let stores = prepared.stores(1, &Network::lan(), true);
    let store = stores.expect("its rows load").remove(0);
    let rows: Vec<(TableId, Key)> = rows_of(&store).into_keys().collect();
    let programs = prepared.planned.application.programs();
    let mut database = Database::new(NodeId(1), 2, store, programs);
    database.fails_one_in = u64::MAX;
    (database, rows)
}

fn named(sequence: u64) -> TransactionId {
    TransactionId {
        node: NodeId(1),
        sequence,
    }
}

fn reads(rows: &[(TableId, Key)]) -> Vec<Read> {
    let each = rows.iter().map(|(table, key)| Read::Point {
        table: *table,
        key: key.clone(),
    });
    each.collect()
}

fn delete((table, key): &(TableId, Key)) -> Effect {
    Effect::Delete {
        table: *table,
        key: key.clone(),
    }
}

/// Runs a transaction's end.
fn finish(database: &mut Database, id: DatabaseTransaction) -> Progress {
    loop {
        match database.advance(Ticks(0), id) {
            Progress::More => {}
            ended => return ended,
        }
    }
}

/// Which of these rows a new transaction sees.
fn seen(database: &mut Database, name: u64, rows: &[(TableId, Key)]) -> Vec<bool> {
    let found = database.read(named(name), reads(rows));
    let found = found.expect("the snapshot is kept");
    database.roll_back(DatabaseTransaction::Operation(named(name)));
    let is_there = |it: Fetched| matches!(it.into_answer(), Fetched::Point(Some(_)));
    found.into_iter().map(is_there).collect()
}

/// Two operations of one hold: a local reader that sees one without the other would see a state of no serial order,
/// since PostgreSQL may order the two against their numbers.
#[test]
fn a_token_is_received_in_one_transaction() {
    let (mut database, rows) = database();
    let updates = rows[..2]
        .iter()
        .zip(1..)
        .map(|((table, key), number)| Update {
            origin: ServerId(0),
            hop: Hop(1),
            sequence: Sequence(number),
            payload: RowImages {
                timestamp: Timestamp::new(number, NodeId(0)),
                images: vec![RowImage::Delete {
                    table: *table,
                    key: key.clone(),
                }],
            },
        });
    let token = Token {
        hop: Hop(2),
        updates: updates.collect(),
        epoch: Epoch::default(),
        applied: BTreeMap::new(),
        wishes: BTreeSet::new(),
    };
    database.begin_receive(token);
    let mut states = vec![seen(&mut database, 1, &rows[..2])];
    let mut name = 2;
    while let Progress::More = database.advance(Ticks(0), DatabaseTransaction::Receive) {
        states.push(seen(&mut database, name, &rows[..2]));
        name += 1;
    }
    states.push(seen(&mut database, name, &rows[..2]));
    assert_eq!(states.first(), Some(&vec![true, true]));
    assert_eq!(states.last(), Some(&vec![false, false]));
    let is_whole = |state: &Vec<bool>| state[0] == state[1];
    assert!(states.iter().all(is_whole), "{states:?}");
}

/// Each reads what the other removes.
#[test]
fn write_skew_is_aborted_at_commit() {
    let (mut database, rows) = database();
    for name in [1, 2] {
        let found = database.read(named(name), reads(&rows[..2]));
        found.expect("the snapshot is kept");
    }
    database.end_operation(named(1), vec![delete(&rows[0])], None);
    database.end_operation(named(2), vec![delete(&rows[1])], None);
    let first = finish(&mut database, DatabaseTransaction::Operation(named(1)));
    assert!(matches!(first, Progress::Committed { .. }), "{first:?}");
    let second = finish(&mut database, DatabaseTransaction::Operation(named(2)));
    assert!(
        matches!(second, Progress::Aborted(AbortReason::Conflict)),
        "{second:?}"
    );
}

/// The order of commits is not the serial order: the second to commit has read what the first removed.
#[test]
fn an_anti_dependency_alone_goes_against_the_order_of_commits() {
    let (mut database, rows) = database();
    let found = database.read(named(1), reads(&rows[..1]));
    found.expect("the snapshot is kept");
    database.end_operation(named(2), vec![delete(&rows[0])], None);
    let first = finish(&mut database, DatabaseTransaction::Operation(named(2)));
    assert!(matches!(first, Progress::Committed { .. }), "{first:?}");
    database.end_operation(named(1), vec![delete(&rows[1])], None);
    let second = finish(&mut database, DatabaseTransaction::Operation(named(1)));
    assert!(matches!(second, Progress::Committed { .. }), "{second:?}");
}

/// The second has its snapshot from before the first's change of the row.
#[test]
fn the_first_updater_wins() {
    let (mut database, rows) = database();
    let found = database.read(named(2), reads(&rows[1..2]));
    found.expect("the snapshot is kept");
    database.end_operation(named(1), vec![delete(&rows[0])], None);
    let first = finish(&mut database, DatabaseTransaction::Operation(named(1)));
    assert!(matches!(first, Progress::Committed { .. }), "{first:?}");
    database.end_operation(named(2), vec![delete(&rows[0])], None);
    let second = finish(&mut database, DatabaseTransaction::Operation(named(2)));
    assert!(matches!(second, Progress::Aborted(_)), "{second:?}");
}

/// Two transactions lock two rows in opposite orders.
#[test]
fn a_circle_of_waits_is_broken() {
    let (mut database, rows) = database();
    let (one, two) = (delete(&rows[0]), delete(&rows[1]));
    database.end_operation(named(1), vec![one.clone(), two.clone()], None);
    database.end_operation(named(2), vec![two, one], None);
    let [first, second] = [1, 2].map(|name| DatabaseTransaction::Operation(named(name)));
    assert!(matches!(database.advance(Ticks(0), first), Progress::More));
    assert!(matches!(database.advance(Ticks(0), second), Progress::More));
    assert!(matches!(database.advance(Ticks(0), first), Progress::Waits));
    assert!(matches!(
        database.advance(Ticks(0), second),
        Progress::Aborted(_)
    ));
    assert_eq!(database.woken(), [first]);
    let ended = finish(&mut database, first);
    assert!(matches!(ended, Progress::Committed { .. }), "{ended:?}");
}
