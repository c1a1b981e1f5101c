//! Statements in several time zones answer what PostgreSQL 15 answers.
//!
//! `time_zones.txt` has its answers: after `zone NAME`, each statement behind `> ` and the answer in the next line.

use anabranch_sql::testing::ready;
use anabranch_types::{DataType, TimeZone, Value, text::format_value};

use crate::support::Database;

/// A statement's answer in a time zone: columns joined by `|`, rows by `;`, NULL as `-`.
fn ask(database: &mut Database, text: &str, zone: &TimeZone) -> String {
    let statement = match database.application.statement(text) {
        Ok(statement) => statement,
        Err(problems) => return format!("error {}", problems[0].code),
    };
    let mut transaction = database.store.begin();
    transaction.zone = zone.clone();
    let result = match ready(statement.execute(&mut transaction, &[])) {
        Ok(result) => result,
        Err(anabranch_sql::TransactionError::Failed(error)) => {
            transaction.rollback();
            return format!("error {}", error.code);
        }
        Err(other) => panic!("{other:?}"),
    };
    let cell = |(value, (_, data_type)): (&Value, &(String, DataType))| match value {
        Value::Null => "-".to_owned(),
        value => format_value(value, data_type, zone),
    };
    let row = |row: &Vec<Value>| {
        let cells: Vec<String> = row.iter().zip(result.columns.iter()).map(cell).collect();
        cells.join("|")
    };
    result.rows.iter().map(row).collect::<Vec<_>>().join(";")
}

#[test]
fn statements_answer_as_in_postgresql() {
    let mut database = Database::with("CREATE TABLE nothing (id int PRIMARY KEY);", &[]);
    let mut zone = TimeZone::UTC;
    let mut wrong = Vec::new();
    let mut asked = 0;
    let mut lines = include_str!("time_zones.txt").lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("zone ") {
            zone = TimeZone::named(name).unwrap();
            continue;
        }
        let statement = line.strip_prefix("> ").expect("a statement");
        let expected = lines.next().expect("an answer");
        let answer = ask(&mut database, statement, &zone);
        if answer != expected {
            wrong.push(format!(
                "{zone}: {statement}\n  PostgreSQL: {expected}\n  here:       {answer}"
            ));
        }
        asked += 1;
    }
    assert!(asked > 600, "only {asked} statements");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A table with a moment, its local time and day.
const MOMENTS: &str = "
    CREATE TABLE moment (
        id int PRIMARY KEY,
        at timestamptz NOT NULL DEFAULT '2024-07-01 12:00',
        local timestamp,
        day date DEFAULT current_date,
        CHECK (extract(hour FROM at) < 13)
    );
    CREATE PROCEDURE visit(moment timestamptz) LANGUAGE SQL BEGIN ATOMIC
        UPDATE moment SET local = local WHERE id = extract(day FROM moment)::int;
    END;
    CREATE PROCEDURE visit_of(number int) LANGUAGE SQL BEGIN ATOMIC
        UPDATE moment SET local = local WHERE id = number;
    END;";

fn zone(name: &str) -> TimeZone {
    TimeZone::named(name).unwrap()
}

/// The trap "a time zone taken at Parse instead of at Execute": a statement is compiled once for all sessions.
#[test]
fn a_constant_is_taken_when_the_statement_runs() {
    let mut database = Database::with(MOMENTS, &[]);
    let statement = database
        .application
        .statement(
            "SELECT '2024-07-01 12:00'::timestamptz, '2024-07-01 12:00' = '2024-07-01 12:00+02'::timestamptz, \
             '2024-07-01 12:00+02'::timestamptz, now()::date, localtimestamp",
        )
        .unwrap();
    for (name, expected) in [
        (
            "UTC",
            "2024-07-01 12:00:00+00|f|2024-07-01 10:00:00+00|2000-01-01|2000-01-01 00:00:00",
        ),
        (
            "Europe/Berlin",
            "2024-07-01 10:00:00+00|t|2024-07-01 10:00:00+00|2000-01-01|2000-01-01 01:00:00",
        ),
        (
            "America/New_York",
            "2024-07-01 16:00:00+00|f|2024-07-01 10:00:00+00|1999-12-31|1999-12-31 19:00:00",
        ),
    ] {
        let mut transaction = database.store.begin();
        transaction.zone = zone(name);
        let result = ready(statement.execute(&mut transaction, &[])).unwrap();
        let cells = result.rows[0].iter().zip(result.columns.iter());
        let cells: Vec<String> = cells
            .map(|(value, (_, data_type))| format_value(value, data_type, &TimeZone::UTC))
            .collect();
        assert_eq!(cells.join("|"), expected, "{name}");
    }
}

/// A CHECK means the same for every session, and where a row's owner tests it without one. So does the constant of a
/// DEFAULT. What a DEFAULT computes is the session's.
#[test]
fn the_schema_is_in_utc() {
    let mut database = Database::with(MOMENTS, &[]);
    let tokyo = zone("Asia/Tokyo");
    for (statement, answer) in [
        ("INSERT INTO moment (id) VALUES (1)", ""),
        // 21:30 in Tokyo, and 03:30 on the next day.
        (
            "INSERT INTO moment (id, at) VALUES (2, '2024-07-01 12:30+00')",
            "",
        ),
        (
            "INSERT INTO moment (id, at) VALUES (3, '2024-07-01 18:30+00')",
            "error 23514",
        ),
        (
            "UPDATE moment SET at = at + interval '1 hour' WHERE id = 2",
            "error 23514",
        ),
        (
            "UPDATE moment SET at = '2024-07-02 03:30' WHERE id = 2",
            "error 23514",
        ),
        ("UPDATE moment SET at = '2024-07-02 21:59' WHERE id = 2", ""),
        (
            "SELECT id, at, day FROM moment WHERE id = 1",
            "1|2024-07-01 21:00:00+09|2000-01-01",
        ),
        (
            "SELECT id, at FROM moment WHERE id = 2",
            "2|2024-07-02 21:59:00+09",
        ),
    ] {
        assert_eq!(ask(&mut database, statement, &tokyo), answer, "{statement}");
    }
    assert_eq!(
        ask(
            &mut database,
            "INSERT INTO moment (id) VALUES (4)",
            &zone("-1")
        ),
        ""
    );
    let day = ask(
        &mut database,
        "SELECT day FROM moment WHERE id = 4",
        &TimeZone::UTC,
    );
    assert_eq!(day, "1999-12-31");
}

/// The owner of a row runs an UPDATE that it is left without a session. What depends on the time zone is computed
/// before.
#[test]
fn what_is_left_to_the_owner_does_not_depend_on_the_zone() {
    for defer in [false, true] {
        let mut database = Database::with(
            MOMENTS,
            &["INSERT INTO moment (id, at) VALUES (1, '2024-07-01 12:30+00')"],
        );
        for (text, expected) in [
            (
                "UPDATE moment SET local = at WHERE id = 1",
                "2024-07-01 14:30:00",
            ),
            (
                "UPDATE moment SET local = now() WHERE id = 1",
                "2000-01-01 01:00:00",
            ),
            (
                "UPDATE moment SET local = date_trunc('day', at) WHERE id = 1",
                "2024-07-01 00:00:00",
            ),
            (
                "UPDATE moment SET local = CASE WHEN day > '1999-01-01' THEN now() ELSE at END WHERE id = 1",
                "2000-01-01 01:00:00",
            ),
        ] {
            let statement = database.application.statement(text).unwrap();
            let mut transaction = database.store.begin();
            transaction.zone = zone("Europe/Berlin");
            transaction.defer = defer;
            ready(statement.execute(&mut transaction, &[])).unwrap();
            drop(transaction);
            let local = ask(&mut database, "SELECT local FROM moment", &TimeZone::UTC);
            assert_eq!(local, expected, "{text}, deferred: {defer}");
        }
    }
}

/// Reads that are declared before a call runs are those of no session.
#[test]
fn a_key_that_depends_on_the_zone_is_not_declared() {
    let database = Database::with(MOMENTS, &[]);
    let declared = |name: &str, argument: Value| {
        let procedure = database.application.find(name).unwrap();
        let reads = procedure.declared_reads(&[argument]);
        let is_point =
            |read: &anabranch_types::Read| matches!(read, anabranch_types::Read::Point { .. });
        reads.iter().any(|(_, _, read)| is_point(read))
    };
    assert!(declared("visit_of", Value::Int(1)));
    assert!(!declared("visit", Value::Timestamp(0)));
}
