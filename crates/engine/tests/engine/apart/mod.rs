//! Tables that a column outside their primary key places, because their keys are drawn from a sequence: an operation that
//! names a row by its key looks for it at every partition.

mod made_up;

use std::sync::Arc;

use anabranch_analysis::plan::CoordinationClass::{Free, Local};
use anabranch_analysis::{Options, analyze_with};
use anabranch_engine::routing::Target;
use anabranch_engine::schema_change::{TableSource, change_stores};
use anabranch_engine::sequence::SequenceStarts;
use anabranch_engine::{
    BlockId, BlockOptions, Call, CallError, CallId, PlannedApplication, SavepointId, StatementCode,
    StatementEntry, StatementWork, Step, StepAction, UndeclaredTypes, Work,
};
use anabranch_sql::sequence::SequenceOptions;
use anabranch_sql::{Application, SourceFile};
use anabranch_types::{
    ColumnIndex, DataType, Key, PartitionId, Placement, Row, SequenceId, SequencePoint, TableId,
    Value,
};

use crate::support::{Answer, Cluster, args, fill, ints, plan, under_each};

/// Boats that are rented: no two rentals of a boat overlap.
const BOATS: &str = "
CREATE TABLE boat (id integer PRIMARY KEY, name text NOT NULL);
CREATE TABLE rental (
    id bigserial PRIMARY KEY,
    boat integer NOT NULL REFERENCES boat (id),
    low integer NOT NULL,
    high integer NOT NULL,
    note integer NOT NULL DEFAULT 0,
    CHECK (low < high)
);
CREATE TABLE payment (id integer PRIMARY KEY, rental bigint NOT NULL REFERENCES rental (id));

CREATE FUNCTION rent(p_boat integer, p_low integer, p_high integer, OUT rented bigint) LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM rental WHERE boat = p_boat AND low < p_high AND high > p_low) THEN
        RAISE EXCEPTION 'taken' USING ERRCODE = 'APP01';
    END IF;
    INSERT INTO rental (boat, low, high) VALUES (p_boat, p_low, p_high) RETURNING id INTO rented;
END;
$$;
CREATE PROCEDURE annotate(p_id bigint, p_note integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE rental SET note = p_note WHERE id = p_id;
END;
CREATE FUNCTION of_boat(p_boat integer) RETURNS TABLE (low integer, high integer, note integer)
LANGUAGE SQL STABLE BEGIN ATOMIC
    SELECT low, high, note FROM rental WHERE boat = p_boat ORDER BY low;
END;
CREATE FUNCTION of_id(p_id bigint) RETURNS TABLE (boat integer, note integer) LANGUAGE SQL STABLE BEGIN ATOMIC
    SELECT boat, note FROM rental WHERE id = p_id;
END;
";

const CANCEL: &str = "
CREATE PROCEDURE cancel(p_id bigint) LANGUAGE SQL BEGIN ATOMIC
    DELETE FROM rental WHERE id = p_id;
END;
";

const PAY: &str = "
CREATE PROCEDURE pay(p_id integer, p_rental bigint) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO payment (id, rental) VALUES (p_id, p_rental);
END;
";

fn boats() -> Vec<(u16, Vec<Value>)> {
    let boat = |id| (0, vec![Value::Int(id), Value::text("boat")]);
    (1..=6).map(boat).collect()
}

fn with_cancel() -> String {
    format!("{BOATS}{CANCEL}")
}

/// The table of rentals.
const RENTAL: TableId = TableId(1);

fn is_placed_by_boat(planned: &PlannedApplication) -> bool {
    planned.plan.placements[1] == Placement::Columns(vec![ColumnIndex(1)])
}

#[track_caller]
fn rented(answer: &Answer) -> i64 {
    ints(answer.as_ref().expect("it is free"))[0][0]
}

#[test]
fn rentals_live_where_their_boat_is_rented() {
    let planned = plan(&with_cancel(), 3);
    assert!(is_placed_by_boat(&planned));
    let class = |name| planned.plan.entry(name).expect("it is declared").class;
    assert_eq!(
        (class("rent"), class("cancel"), class("annotate")),
        (Local, Free, Free)
    );
    // The owner of a row that is found by its key alone is not known, so that no UPDATE is deferred to it.
    let annotate = planned.plan.entry("annotate").expect("it is declared");
    assert!(annotate.deferred.is_empty());
    assert!(planned.execution.router.is_apart(RENTAL));
}

#[test]
fn rows_are_found_by_key_at_any_node() {
    for partitions in 1..=3 {
        under_each(&with_cancel(), partitions, &boats(), |cluster| {
            let last = partitions - 1;
            let mut ids = Vec::new();
            for boat in 1..=6 {
                let node = boat as u16 % partitions;
                let rent = cluster.call(node, "rent", &args([boat, 10, 20]));
                ids.push(rented(&rent));
            }
            let mut distinct = ids.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), 6);
            for (boat, id) in (1..).zip(&ids) {
                for node in 0..partitions {
                    let found = cluster.call(node, "of_id", &args([*id])).unwrap();
                    assert_eq!(ints(&found), [[boat, 0]], "{id} at {node}");
                }
                cluster
                    .call(last, "annotate", &args([*id, boat * 7]))
                    .unwrap();
                let found = cluster.call(0, "of_boat", &args([boat])).unwrap();
                assert_eq!(ints(&found), [[10, 20, boat * 7]]);
            }
            for id in &ids[..5] {
                cluster.call(last, "cancel", &args([*id])).unwrap();
                // Nothing is there any more, anywhere.
                cluster.call(0, "cancel", &args([*id])).unwrap();
                cluster.call(0, "annotate", &args([*id, 1])).unwrap();
            }
            let left = cluster.ints(0, "SELECT boat, low, high, note FROM rental");
            assert_eq!(left, [[6, 10, 20, 42]]);
            cluster.assert_idle();
        });
    }
}

#[test]
fn a_boat_is_rented_once_whatever_nodes_are_asked() {
    under_each(&with_cancel(), 3, &boats(), |cluster| {
        for round in 0..20 {
            let (boat, low) = (1 + round % 6, round * 10);
            let calls: Vec<CallId> = (0..3)
                .map(|node| {
                    cluster.begin(node, "rent", &args([boat, low, low + 5 + i64::from(node)]))
                })
                .collect();
            let outcomes = cluster.run();
            let successes = calls.iter().filter(|call| outcomes[*call].result.is_ok());
            assert_eq!(successes.count(), 1, "round {round}");
            for call in &calls {
                match &outcomes[call].result {
                    Ok(_) => {}
                    Err(CallError::Failed(error)) => assert_eq!(error.code, "APP01"),
                    Err(other) => panic!("{other:?}"),
                }
            }
        }
        let all = cluster.ints(1, "SELECT count(*), count(DISTINCT id) FROM rental");
        assert_eq!(all, [[20, 20]]);
    });
}

/// A check that is local reads one partition alone, although no index helps it to find its rows.
#[test]
fn a_local_check_asks_no_other_partition() {
    let options = anabranch_engine::NodeOptions {
        records: true,
        ..anabranch_engine::NodeOptions::default()
    };
    crate::support::under_each_with(&with_cancel(), 3, &boats(), options, |cluster| {
        // Boat 4 and its rentals are at partition 1.
        cluster.call(1, "rent", &args([4, 1, 2])).unwrap();
        let attempt = cluster.attempts().last().expect("it is recorded");
        let partitions: Vec<u16> = (attempt.reads.iter())
            .filter(|recorded| recorded.read.table() == RENTAL)
            .map(|recorded| recorded.partition.0)
            .collect();
        assert_eq!(partitions, [1]);
    });
}

#[test]
fn foreign_keys_find_rows_by_key_at_any_partition() {
    let sql = format!("{BOATS}{PAY}");
    assert!(is_placed_by_boat(&plan(&sql, 3)));
    under_each(&sql, 3, &boats(), |cluster| {
        for boat in 1..=3 {
            let id = rented(&cluster.call(0, "rent", &args([boat, 1, 2])));
            cluster.call(1, "pay", &args([boat, id])).unwrap();
        }
        let error = cluster.call(2, "pay", &args([9, 999])).unwrap_err();
        assert!(matches!(error, CallError::Failed(error) if error.code == "23503"));
    });
}

fn admitted(
    cluster: &mut dyn Cluster,
    types: &UndeclaredTypes,
    node: u16,
    sql: &str,
) -> Result<Answer, &'static str> {
    let id = cluster.begin_admitted(node, types, sql, &[]);
    let id = id.map_err(|refusal| refusal.code)?;
    let outcome = cluster.run().remove(&id).expect("it has ended");
    Ok(outcome.result.map(|result| result.rows))
}

/// Statements of clients run unless they would give a key or move a row.
#[test]
fn undeclared_statements_keep_keys_and_places() {
    under_each(&with_cancel(), 3, &boats(), |cluster| {
        let types = UndeclaredTypes::new(Arc::clone(cluster.planned()), Options::default());
        for boat in 1..=4 {
            cluster.call(0, "rent", &args([boat, 1, 2])).unwrap();
        }
        let refused = [
            "INSERT INTO rental (id, boat, low, high) VALUES (77, 1, 5, 6)",
            "INSERT INTO rental (id, boat, low, high) SELECT id + 100, boat, 5, 6 FROM rental",
            "UPDATE rental SET boat = 5 WHERE id = 1",
            "UPDATE rental SET id = 99 WHERE id = 1",
        ];
        for sql in refused {
            assert_eq!(
                admitted(cluster, &types, 1, sql).unwrap_err(),
                "55000",
                "{sql}"
            );
        }
        let id = cluster.ints(0, "SELECT id FROM rental WHERE boat = 3")[0][0];
        let note = format!("UPDATE rental SET note = note + 5 WHERE id = {id}");
        admitted(cluster, &types, 1, &note).unwrap().unwrap();
        let delete = "DELETE FROM rental WHERE boat = 2";
        admitted(cluster, &types, 0, delete).unwrap().unwrap();
        let left = "SELECT boat, note FROM rental ORDER BY boat";
        assert_eq!(cluster.ints(2, left), [[1, 0], [3, 5], [4, 0]]);
        // Without an entry, nothing says that the key is new.
        let error = cluster.statement(0, refused[0]).unwrap_err();
        let CallError::Failed(error) = error else {
            panic!("{error:?}")
        };
        assert_eq!(error.code, "0A000");
        assert!(error.message.contains("have to be drawn"), "{error:?}");
    });
}

/// Runs a statement in a transaction that runs alone, and commits it.
fn alone(cluster: &mut dyn Cluster, number: u64, sql: &str) -> Result<(), String> {
    alone_all(cluster, number, &[sql])
}

/// The same for several.
fn alone_all(cluster: &mut dyn Cluster, number: u64, texts: &[&str]) -> Result<(), String> {
    let planned = Arc::clone(cluster.planned());
    let mut step = |action| {
        let step = Step {
            block: BlockId(number),
            options: BlockOptions::default(),
            action,
        };
        let id = cluster.submit_call(0, Call::new(CallId(0), Work::Step(step), &[][..]));
        let outcome = cluster.run().remove(&id).expect("it has ended");
        match outcome.result {
            Ok(_) => Ok(()),
            Err(CallError::Failed(error)) => Err(error.code.to_owned()),
            Err(other) => panic!("{texts:?}: {other:?}"),
        }
    };
    for sql in texts {
        let back = match *sql {
            "SAVEPOINT" => Some(StepAction::Savepoint(SavepointId(1))),
            "ROLLBACK TO" => Some(StepAction::RollbackTo(SavepointId(1))),
            _ => None,
        };
        if let Some(action) = back {
            step(action)?;
            continue;
        }
        let statement = planned.application.statement(sql);
        let statement = statement.unwrap_or_else(|problems| panic!("{sql}: {problems:?}"));
        let work = StatementWork {
            code: StatementCode::Statement(Arc::new(statement)),
            entry: Some(Arc::new(StatementEntry::alone())),
            timing: None,
        };
        if let Err(code) = step(StepAction::Statement(work)) {
            step(StepAction::Rollback).expect("it is rolled back");
            return Err(code);
        }
    }
    step(StepAction::Commit)
}

/// What runs alone may give keys. It looks for them everywhere.
#[test]
fn given_keys_are_looked_for_at_every_partition() {
    under_each(&with_cancel(), 3, &boats(), |cluster| {
        let id = rented(&cluster.call(0, "rent", &args([1, 1, 2])));
        // Another boat, whose rentals are elsewhere.
        let insert = |boat: i64, key: i64| {
            format!("INSERT INTO rental (id, boat, low, high) VALUES ({key}, {boat}, 1, 2)")
        };
        for boat in 1..=3 {
            let twice = alone(cluster, boat as u64, &insert(boat, id));
            assert_eq!(twice.unwrap_err(), "23505", "boat {boat}");
        }
        let both = "INSERT INTO rental (id, boat, low, high) VALUES (500, 2, 1, 2), (500, 3, 1, 2)";
        assert_eq!(alone(cluster, 11, both).unwrap_err(), "23505");
        alone(cluster, 12, &insert(2, 501)).unwrap();
        let moved = format!("UPDATE rental SET boat = 3 WHERE id = {id}");
        assert_eq!(alone(cluster, 13, &moved).unwrap_err(), "0A000");
        let all = cluster.ints(1, "SELECT id, boat FROM rental ORDER BY boat");
        assert_eq!(all, [[id, 1], [501, 2]]);
    });
}

/// Numbers that draw such keys begin above those in rows, also if the sequence was set.
#[test]
fn sequences_pass_the_keys_of_rows() {
    let planned = plan(&with_cancel(), 3);
    let rental = |id: i64| (1, args([id, 1, id, id + 1, 0]).to_vec());
    let rows: Vec<_> = boats().into_iter().chain([rental(40), rental(7)]).collect();
    let stores = fill(&planned, 3, &rows);
    let id = SequenceId::Column(RENTAL, ColumnIndex(0));
    let options = SequenceOptions::of_type(&DataType::Int8);
    for (base, drawn, first) in [
        (1, 0, 41),
        (39, 1, 41),
        (40, 0, 41),
        (40, 1, 41),
        (90, 1, 91),
    ] {
        let mut starts = SequenceStarts::default();
        let epoch = 3;
        starts.include_point(id, SequencePoint { epoch, drawn, base });
        starts.include_rows(&planned, &stores);
        let points: Vec<_> = starts.all().filter(|(of, _)| *of == id).collect();
        let [(_, point)] = points[..] else {
            panic!("{points:?}")
        };
        let next = options.number(point.base, point.drawn);
        assert_eq!(next, Some(first), "set to {base}, {drawn} drawn");
    }
}

/// A change of the schema that makes a drawn key of a column compares the keys of all partitions.
#[test]
fn a_changed_table_has_no_key_twice() {
    const ROWS: &str = "boat integer NOT NULL, low integer NOT NULL, high integer NOT NULL";
    let before = format!(
        "CREATE TABLE rental (id bigint NOT NULL, {ROWS});
         CREATE PROCEDURE put(p bigint, q integer) LANGUAGE SQL BEGIN ATOMIC INSERT INTO rental VALUES (p, q, 1, 2); END;"
    );
    let after = format!(
        "CREATE TABLE rental (id bigserial PRIMARY KEY, {ROWS});
         CREATE PROCEDURE rent(b integer, l integer) LANGUAGE plpgsql AS $$ BEGIN
             IF EXISTS (SELECT 1 FROM rental WHERE boat = b AND low = l) THEN RAISE EXCEPTION 'taken'; END IF;
             INSERT INTO rental (boat, low, high) VALUES (b, l, l + 1);
         END; $$;"
    );
    let (before, after) = (plan(&before, 3), plan(&after, 3));
    let rental = TableId(0);
    assert!(after.execution.router.is_apart(rental));
    let map = |_: &Key, row: &Row| {
        let mut key = Key::empty();
        let layout = &after.schema().table(rental).layout;
        key.push_value(&DataType::Int8, false, &row.get(layout, ColumnIndex(0)));
        Ok((key, row.clone()))
    };
    let changed = |ids: [i64; 3]| {
        let row = |(boat, id)| (0, args([id, boat, 1, 2]).to_vec());
        let rows: Vec<_> = (1..).zip(ids).map(row).collect();
        let stores = fill(&before, 3, &rows);
        change_stores(
            stores,
            &before,
            &after,
            &[TableSource::Mapped(rental, &map)],
        )
    };
    let Err(refused) = changed([4, 5, 4]) else {
        panic!("two rows have the key 4")
    };
    assert_eq!(refused.error.code, "23505");
    let stores = changed([4, 5, 6]).map(|changed| changed.stores);
    let stores = stores.unwrap_or_else(|refused| panic!("{refused:?}"));
    for (partition, store) in (0..).map(PartitionId).zip(&stores) {
        let visited = store.try_for_each(rental, |_, row| {
            let place = after.execution.router.row(rental, row);
            assert_eq!(place, Target::One(partition));
            Ok::<(), ()>(())
        });
        visited.expect("each row is visited");
    }
}

/// Where sites order transactions over guards, a guard on such rows has no home: a row's key does not tell it.
#[test]
fn rows_apart_from_their_keys_have_no_home() {
    let files = vec![SourceFile::new("boats.sql", with_cancel())];
    let application = anabranch_sql::load(files).and_then(Application::compile);
    let application = application.expect("it loads");
    let plan = analyze_with(
        application.catalog(),
        application.summaries(),
        &Options::default(),
    );
    let planned = PlannedApplication::over_guards(application, plan, 3).expect("it fits");
    let tables = planned.guard_tables();
    assert!(tables.is_contended(RENTAL));
    assert!(!tables.is_homed(RENTAL));
    assert!((0..5).all(|procedure| !tables.runs_at_home(procedure)));
}

/// A number that is known only at commit may determine where a row belongs: then it is not left to commit.
#[test]
fn a_carried_number_places_no_row_at_another_partition() {
    const FLEET: &str = "
        CREATE TABLE fleet (id integer PRIMARY KEY, next integer NOT NULL);
        CREATE TABLE rental (id bigserial PRIMARY KEY, boat integer NOT NULL, low integer NOT NULL);
        CREATE TABLE ticket (no integer PRIMARY KEY, holder integer NOT NULL);
        CREATE FUNCTION rent(b integer, l integer, OUT rented integer) LANGUAGE plpgsql AS $$ BEGIN
            IF EXISTS (SELECT 1 FROM rental WHERE boat = b AND low < l + 1 AND low > l - 1) THEN RETURN; END IF;
            INSERT INTO rental (boat, low) VALUES (b, l);
            rented := b;
        END; $$;
        CREATE PROCEDURE buy(f integer, l integer) LANGUAGE plpgsql AS $$ DECLARE v integer; BEGIN
            UPDATE fleet SET next = next + 1 WHERE id = f RETURNING next INTO v;
            INSERT INTO rental (boat, low) VALUES (v, l);
        END; $$;
        CREATE PROCEDURE sell(f integer, h integer) LANGUAGE plpgsql AS $$ DECLARE v integer; BEGIN
            UPDATE fleet SET next = next + 1 WHERE id = f RETURNING next INTO v;
            INSERT INTO ticket VALUES (v, h);
        END; $$;";
    let rows = [(0, args([3, 10]).to_vec()), (0, args([1, 20]).to_vec())];
    let planned = plan(FLEET, 3);
    assert!(is_placed_by_boat(&planned));
    let buy = planned.plan.entry("buy").expect("it is declared");
    assert_eq!(buy.deferred.len(), 1, "the number is known at commit only");
    under_each(FLEET, 3, &rows, |cluster| {
        for (fleet, boat) in [(3, 11), (3, 12), (3, 13), (1, 21), (1, 22)] {
            cluster.call(0, "buy", &args([fleet, 5])).unwrap();
            for node in 0..3 {
                let by_boat = format!("SELECT low FROM rental WHERE boat = {boat}");
                assert_eq!(cluster.ints(node, &by_boat), [[5]], "boat {boat} at {node}");
            }
            // It is rented already.
            cluster.call(1, "rent", &args([boat, 5])).unwrap();
        }
        assert_eq!(cluster.ints(2, "SELECT count(*) FROM rental"), [[5]]);
        // The same for a key that places its row.
        for (fleet, ticket) in [(3, 14), (3, 15), (3, 16), (1, 23)] {
            cluster.call(2, "sell", &args([fleet, 7])).unwrap();
            let held = format!("SELECT holder FROM ticket WHERE no = {ticket}");
            assert_eq!(cluster.ints(0, &held), [[7]], "ticket {ticket}");
        }
    });
}

/// Statements of one transaction that runs alone: a row that is deleted and inserted elsewhere is changed there.
#[test]
fn a_row_that_is_inserted_again_is_changed_where_it_is() {
    under_each(&with_cancel(), 3, &boats(), |cluster| {
        let id = rented(&cluster.call(0, "rent", &args([1, 1, 2])));
        let delete = format!("DELETE FROM rental WHERE id = {id}");
        let again = format!("INSERT INTO rental (id, boat, low, high) VALUES ({id}, 2, 1, 2)");
        let note = format!("UPDATE rental SET note = 4 WHERE id = {id}");
        let all = "SELECT id, boat, note FROM rental";
        alone_all(cluster, 1, &[&delete, &again, &note]).unwrap();
        assert_eq!(cluster.ints(0, all), [[id, 2, 4]]);
        let third = again.replace(", 2, 1, 2)", ", 3, 1, 2)");
        alone_all(cluster, 2, &[&delete, &third, &note, &delete]).unwrap();
        assert!(cluster.ints(1, all).is_empty());
        alone_all(cluster, 3, &[&third, &delete, &again, &note]).unwrap();
        assert_eq!(cluster.ints(2, all), [[id, 2, 4]]);
        // A deletion that is taken back leaves the row where it was inserted.
        let back = ["SAVEPOINT", &delete, "ROLLBACK TO"];
        let moved = [&[delete.as_str(), &third][..], &back[..]].concat();
        alone_all(cluster, 4, &[&moved[..], &[&note]].concat()).unwrap();
        assert_eq!(cluster.ints(0, all), [[id, 3, 4]]);
        alone_all(
            cluster,
            5,
            &[
                delete.as_str(),
                &again,
                "SAVEPOINT",
                &delete,
                "ROLLBACK TO",
                &delete,
            ],
        )
        .unwrap();
        assert!(cluster.ints(1, all).is_empty());
    });
}

/// Room for six new rows, and not for what is asked of three partitions besides.
const ITEMS: u64 = 30;

/// Keys that are looked for at every partition count once, as the rows that have them.
#[test]
fn what_gives_keys_is_as_large_as_its_rows() {
    let mut options = anabranch_engine::NodeOptions::default();
    options.limits.items_max = ITEMS;
    crate::support::under_each_with(&with_cancel(), 3, &boats(), options, |cluster| {
        let rows = |from: i64, count: i64| {
            let rows: Vec<String> = (from..from + count)
                .map(|id| format!("({id}, {}, 1, 2)", 1 + id % 3))
                .collect();
            format!(
                "INSERT INTO rental (id, boat, low, high) VALUES {}",
                rows.join(", ")
            )
        };
        alone(cluster, 1, &rows(600, 6)).unwrap();
        assert_eq!(alone(cluster, 2, &rows(700, 60)).unwrap_err(), "54000");
    });
}

/// Whatever is not at a partition, the partition takes no part in its change.
#[test]
fn a_change_by_key_is_committed_where_the_row_is() {
    let options = anabranch_engine::NodeOptions {
        records: true,
        ..anabranch_engine::NodeOptions::default()
    };
    crate::support::under_each_with(&with_cancel(), 3, &boats(), options, |cluster| {
        let guarded = |cluster: &mut dyn Cluster| -> Vec<u16> {
            let attempt = cluster.attempts().last().expect("it is recorded");
            let mut partitions: Vec<u16> = (attempt.reads.iter())
                .filter(|recorded| recorded.guard)
                .map(|recorded| recorded.partition.0)
                .collect();
            partitions.dedup();
            partitions
        };
        // Boat 4 and its rentals are at partition 1.
        let id = rented(&cluster.call(1, "rent", &args([4, 1, 2])));
        for node in 0..3 {
            cluster.call(node, "annotate", &args([id, 6])).unwrap();
            assert_eq!(guarded(cluster), [1], "from {node}");
        }
        cluster.call(2, "cancel", &args([id])).unwrap();
        assert_eq!(guarded(cluster), [1]);
        cluster.call(2, "cancel", &args([id])).unwrap();
        assert_eq!(guarded(cluster), [0; 0], "nothing is there");
        assert!(cluster.ints(0, "SELECT id FROM rental").is_empty());
    });
}
