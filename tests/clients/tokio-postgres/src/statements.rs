//! Statements as the driver runs them: time zones, calls, prepared statements, pipelines, cancelling, transactions.

use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, Utc};
use futures_util::future::{join, join_all};
use futures_util::{StreamExt, TryStreamExt, pin_mut};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

use crate::checks::{Checks, described};
use crate::types::{one, simple};
use crate::values::InText;

/// The connection's time zone: in text it shows, in binary it does not.
pub(crate) async fn zones(checks: &mut Checks, client: &Client) -> Result<(), Error> {
    client
        .batch_execute("SET TimeZone TO 'Europe/Berlin'")
        .await?;
    for (name, query, expected) in [
        ("shown", "SHOW TimeZone", "Europe/Berlin"),
        (
            "current_setting",
            "SELECT current_setting('TimeZone')",
            "Europe/Berlin",
        ),
        (
            "summer",
            "SELECT '2024-07-01 12:00:00+00'::timestamptz",
            "2024-07-01 14:00:00+02",
        ),
        (
            "winter",
            "SELECT '2024-01-01 12:00:00+00'::timestamptz",
            "2024-01-01 13:00:00+01",
        ),
        (
            "read as local",
            "SELECT '2024-07-01 12:00:00'::timestamptz",
            "2024-07-01 12:00:00+02",
        ),
        (
            "cast of a timestamp",
            "SELECT '2024-01-01 12:00:00'::timestamp::timestamptz",
            "2024-01-01 12:00:00+01",
        ),
        (
            "cast to a timestamp",
            "SELECT '2024-07-01 12:00:00+00'::timestamptz::timestamp",
            "2024-07-01 14:00:00",
        ),
        (
            "cast to a date",
            "SELECT '2024-07-01 23:00:00+00'::timestamptz::date",
            "2024-07-02",
        ),
    ] {
        let got = simple(client, query).await;
        checks.attempt(&format!("zone: {name}"), got, Some(expected));
    }
    let summer: DateTime<Utc> = "2024-07-01T12:00:00Z".parse().expect("the program's own");
    let got = one::<DateTime<Utc>>(client, "SELECT $1::timestamptz", &[&summer]).await;
    checks.attempt("zone: a binary value has none", got, summer);
    let local = InText(Some("2024-07-01 14:00:00"));
    let got = one::<DateTime<Utc>>(client, "SELECT $1::timestamptz", &[&local]).await;
    checks.attempt("zone: a text parameter is local", got, summer);
    let got = one::<NaiveDateTime>(client, "SELECT $1::timestamptz::timestamp", &[&summer]).await;
    let expected: NaiveDateTime = "2024-07-01T14:00:00".parse().expect("the program's own");
    checks.attempt("zone: cast to a timestamp, binary", got, expected);
    let insert = "INSERT INTO every_type (id, a_timestamptz) VALUES ($1, $2)";
    let written = client.execute(insert, &[&101i32, &summer]).await;
    checks.attempt("zone: written", written, 1);
    let got = simple(
        client,
        "SELECT a_timestamptz FROM every_type WHERE id = 101",
    )
    .await;
    checks.attempt(
        "zone: read back in text",
        got,
        Some("2024-07-01 14:00:00+02"),
    );

    // A statement that was prepared under one time zone is run under another.
    let prepared = client
        .prepare("SELECT $1::timestamptz::timestamp::text")
        .await?;
    let got = one_of(client, &prepared, &summer).await;
    checks.attempt("zone: prepared, in Berlin", got, "2024-07-01 14:00:00");
    client.batch_execute("SET TimeZone = 'Asia/Tokyo'").await?;
    let got = one_of(client, &prepared, &summer).await;
    checks.attempt("zone: prepared, in Tokyo", got, "2024-07-01 21:00:00");
    client.batch_execute("RESET TimeZone").await?;
    let got = one_of(client, &prepared, &summer).await;
    checks.attempt("zone: prepared, after RESET", got, "2024-07-01 12:00:00");
    let got = simple(client, "SHOW TimeZone").await;
    checks.attempt("zone: reset", got, Some("UTC"));
    Ok(())
}

async fn one_of(
    client: &Client,
    statement: &tokio_postgres::Statement,
    moment: &DateTime<Utc>,
) -> Result<String, Error> {
    let row = client.query_one(statement, &[moment]).await?;
    row.try_get(0)
}

/// Functions and procedures, each by its ways to be called.
pub(crate) async fn calls(checks: &mut Checks, client: &Client) {
    let got = one::<i32>(client, "SELECT add($1, $2)", &[&2i32, &3i32]).await;
    checks.attempt("calls: SELECT f()", got, 5);
    let got = one::<i32>(client, "SELECT * FROM add($1, 3)", &[&2i32]).await;
    checks.attempt("calls: SELECT * FROM f()", got, 5);
    let got = one::<i32>(client, "SELECT add(p_b => $1, p_a => $2)", &[&3i32, &2i32]).await;
    checks.attempt("calls: arguments by name", got, 5);
    let row = client
        .query_one("SELECT * FROM divide($1, $2)", &[&17i32, &5i32])
        .await;
    let got = row.map(|row| {
        let names: Vec<String> = row.columns().iter().map(|c| c.name().to_owned()).collect();
        (names, row.get::<_, i32>(0), row.get::<_, i32>(1))
    });
    checks.attempt(
        "calls: OUT parameters",
        got,
        (["quotient", "remainder"], 3, 2),
    );
    for id in 1..=3i32 {
        let got = client
            .execute("CALL write_note($1, $2)", &[&id, &"a note"])
            .await;
        checks.attempt(&format!("calls: CALL, {id}"), got, 0);
    }
    let got = client.simple_query("CALL write_note(4, 'the last')").await;
    let got = got.map(|messages| messages.len());
    checks.attempt("calls: CALL by a simple query", got, 1);
    let rows = client.query("SELECT * FROM notes_from($1)", &[&3i32]).await;
    let got = rows.map(|rows| {
        let pairs = rows.iter().map(|row| (row.get(0), row.get(1)));
        pairs.collect::<Vec<(i32, String)>>()
    });
    checks.attempt(
        "calls: a set of rows",
        got,
        [(3, "a note"), (4, "the last")],
    );
    let error = client.query("SELECT refuse($1)", &[&"no"]).await.err();
    let got = error.as_ref().and_then(Error::as_db_error);
    let got = got.map(|error| (error.code().code(), error.message()));
    checks.equal(
        "calls: an error of the application",
        got,
        Some(("AB123", "refused: no")),
    );
    let error = client
        .execute("CALL write_note(1, 'again')", &[])
        .await
        .err();
    let got = error.as_ref().and_then(Error::as_db_error);
    let got = got.map(|error| (error.code().code(), error.constraint()));
    checks.equal(
        "calls: the procedure keeps the key",
        got,
        Some(("23505", Some("notes_pkey"))),
    );
}

/// Prepared statements, used again and at once.
pub(crate) async fn prepared(checks: &mut Checks, client: &Client) {
    let statement = client.prepare("SELECT $1::int4 * 2").await;
    let statement = match statement {
        Ok(statement) => statement,
        Err(error) => return checks.equal("statements: prepare", described(&error), ""),
    };
    let mut got = Vec::new();
    for number in 0..50i32 {
        let row = client.query_one(&statement, &[&number]).await;
        got.push(row.map(|row| row.get::<_, i32>(0)).unwrap_or(-1));
    }
    let expected: Vec<i32> = (0..50).map(|number| number * 2).collect();
    checks.equal("statements: prepared, used again", got, &expected);

    // The driver sends these without waiting: a pipeline, each with a Sync of its own.
    let numbers: Vec<i32> = (0..200).collect();
    let queries = numbers.iter().map(|number| async {
        let row = client.query_one(&statement, &[number]).await?;
        row.try_get::<_, i32>(0)
    });
    let got: Result<Vec<i32>, Error> = join_all(queries).await.into_iter().collect();
    let expected: Vec<i32> = numbers.iter().map(|number| number * 2).collect();
    checks.attempt("statements: a pipeline", got, expected);

    let divide = client.prepare("SELECT 6 / $1::int4").await;
    if let Ok(divide) = &divide {
        let divisors = [2, 0, 1];
        let queries = divisors.iter().map(|divisor| async {
            let row = client.query_one(divide, &[divisor]).await;
            row.map(|row| row.get::<_, i32>(0))
                .map_err(|error| error.code().map(|code| code.code().to_owned()))
        });
        let expected = [Ok(3), Err(Some("22012")), Ok(6)];
        let got = join_all(queries).await;
        checks.equal("statements: an error within a pipeline", got, expected);
    } else {
        checks.attempt("statements: prepare a division", divide.map(|_| ()), ());
    }
    let writes = (0..20i32).map(|number| async move {
        client
            .execute(
                "INSERT INTO notes VALUES ($1, $2)",
                &[&(1000 + number), &"piped"],
            )
            .await
    });
    let got: Result<Vec<u64>, Error> = join_all(writes).await.into_iter().collect();
    checks.attempt("statements: writes in a pipeline", got, [1; 20]);
    let got = one::<i64>(
        client,
        "SELECT count(*) FROM notes WHERE body = 'piped'",
        &[],
    )
    .await;
    checks.attempt("statements: all were written", got, 20i64);

    let typed = client.prepare_typed("SELECT $1", &[Type::INT8]).await;
    let types = typed
        .as_ref()
        .map(|typed| (typed.params().to_vec(), typed.columns()[0].type_().clone()));
    checks.equal(
        "statements: the client's type wins",
        types.map_err(described),
        Ok::<_, String>(([Type::INT8], Type::INT8)),
    );
    let row = client
        .query_typed(
            "SELECT $1 + $2",
            &[(&1i32, Type::INT4), (&2i64, Type::INT8)],
        )
        .await;
    let got = row.map(|rows| rows[0].get::<_, i64>(0));
    checks.attempt("statements: types in the same message", got, 3);
    for (name, query, expected) in [
        (
            "of a comparison",
            "SELECT id FROM customers WHERE email = $1",
            Type::TEXT,
        ),
        (
            "of an insert",
            "INSERT INTO orders VALUES (7, 1, $1)",
            Type::NUMERIC,
        ),
        (
            "of an array",
            "SELECT id FROM customers WHERE id = ANY ($1)",
            Type::INT4_ARRAY,
        ),
        (
            "of an argument",
            "SELECT same_timestamptz($1)",
            Type::TIMESTAMPTZ,
        ),
        ("of LIMIT", "SELECT id FROM customers LIMIT $1", Type::INT8),
    ] {
        let statement = client.prepare(query).await;
        let got = statement.map(|statement| statement.params().to_vec());
        checks.attempt(&format!("statements: a parameter {name}"), got, [expected]);
    }
    let columns = client
        .prepare("SELECT *, 'words' AS words, NULL AS nothing FROM notes")
        .await;
    let got = columns.map(|columns| {
        let described = columns.columns().iter();
        described
            .map(|column| (column.name().to_owned(), column.type_().clone()))
            .collect::<Vec<_>>()
    });
    let expected = [
        ("id", Type::INT4),
        ("body", Type::TEXT),
        ("words", Type::TEXT),
        ("nothing", Type::TEXT),
    ];
    checks.attempt("statements: columns described", got, expected);
    let columns = client.prepare("INSERT INTO notes VALUES (9, 'x')").await;
    let got = columns.map(|columns| columns.columns().len());
    checks.attempt("statements: none described", got, 0);

    let rows = client
        .query_raw("SELECT n FROM generate_series(1, $1::int4) AS n", [1000i32])
        .await;
    let got = match rows {
        Ok(rows) => {
            rows.map_ok(|row| row.get::<_, i32>(0))
                .try_collect::<Vec<i32>>()
                .await
        }
        Err(error) => Err(error),
    };
    checks.attempt(
        "statements: rows as they come",
        got,
        (1..=1000).collect::<Vec<i32>>(),
    );
    // A result that is dropped early: the driver reads on and throws away.
    if let Ok(rows) = client
        .query_raw(
            "SELECT n FROM generate_series(1, $1::int4) AS n",
            [100_000i32],
        )
        .await
    {
        pin_mut!(rows);
        let first = rows
            .next()
            .await
            .map(|row| row.map(|row| row.get::<_, i32>(0)).ok());
        checks.equal("statements: a result dropped early", first, Some(Some(1)));
    }
    let got = one::<i32>(client, "SELECT 1", &[]).await;
    checks.attempt("statements: works after that", got, 1);

    let large = "x".repeat(1 << 20);
    let got = one::<String>(client, "SELECT $1::text", &[&large]).await;
    checks.attempt(
        "statements: a large value",
        got.map(|text| text == large),
        true,
    );
    let messages = client
        .simple_query("SELECT 'first'; ; SELECT 'second'")
        .await;
    let got = messages.map(|messages| {
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        rows.collect::<Vec<String>>()
    });
    checks.attempt(
        "statements: several in one simple query",
        got,
        ["first", "second"],
    );
    let got = client.batch_execute("").await;
    checks.attempt("statements: an empty one", got, ());
}

/// A statement that runs for minutes unless it is cancelled.
const HEAVY: &str = "SELECT count(*) FROM generate_series(1, 2000) AS a, generate_series(1, 2000) AS b, \
                     generate_series(1, 2000) AS c";

pub(crate) async fn cancelled(checks: &mut Checks, client: &Client) {
    let token = client.cancel_token();
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        token.cancel_query(NoTls).await
    };
    let (outcome, sent) = join(client.query(HEAVY, &[]), cancel).await;
    checks.attempt("statements: a cancel is sent", sent, ());
    let error = outcome.err();
    let got = error.as_ref().and_then(Error::as_db_error);
    let got = got.map(|error| (error.code().code(), error.message()));
    let expected = Some(("57014", "canceling statement due to user request"));
    checks.equal("statements: cancelled", got, expected);
    let got = one::<i32>(client, "SELECT 1", &[]).await;
    checks.attempt("statements: works after a cancel", got, 1);

    // A cancel that finds nothing to cancel does nothing to later statements.
    let sent = client.cancel_token().cancel_query(NoTls).await;
    checks.attempt("statements: a late cancel", sent, ());
    tokio::time::sleep(Duration::from_millis(100)).await;
    let got = one::<i32>(client, "SELECT 1", &[]).await;
    checks.attempt("statements: works after a late cancel", got, 1);

    let set = client
        .batch_execute("SET statement_timeout = '300ms'")
        .await;
    checks.attempt("statements: statement_timeout", set, ());
    let error = client.query(HEAVY, &[]).await.err();
    let got = error.as_ref().and_then(Error::as_db_error);
    let got = got.map(|error| (error.code().code(), error.message()));
    let expected = Some(("57014", "canceling statement due to statement timeout"));
    checks.equal("statements: timed out", got, expected);
    let reset = client.batch_execute("RESET statement_timeout").await;
    checks.attempt("statements: works after a timeout", reset, ());
}

/// BEGIN, savepoints, portals. The server has to keep a transaction between statements.
pub(crate) async fn transactions(
    checks: &mut Checks,
    client: &mut Client,
    other: &Client,
) -> Result<(), Error> {
    const COUNT: &str = "SELECT count(*) FROM notes WHERE id >= 2000";
    let mut transaction = client.transaction().await?;
    transaction
        .execute("INSERT INTO notes VALUES (2001, 'kept')", &[])
        .await?;
    checks.attempt(
        "transactions: not seen before commit",
        one::<i64>(other, COUNT, &[]).await,
        0i64,
    );
    let savepoint = transaction.transaction().await?;
    savepoint
        .execute("INSERT INTO notes VALUES (2002, 'dropped')", &[])
        .await?;
    savepoint.rollback().await?;
    transaction.commit().await?;
    checks.attempt(
        "transactions: seen after commit",
        one::<i64>(other, COUNT, &[]).await,
        1i64,
    );

    let transaction = client.transaction().await?;
    let error = transaction.query("SELECT 1 / 0", &[]).await.err();
    checks.equal(
        "transactions: an error",
        error.map(|error| described(&error)),
        Some("22012 db error: ERROR: division by zero"),
    );
    let error = transaction.query("SELECT 1", &[]).await.err();
    let code = error
        .as_ref()
        .and_then(|error| error.code())
        .map(|code| code.code());
    checks.equal("transactions: refused until it ends", code, Some("25P02"));
    transaction.rollback().await?;

    let transaction = client.transaction().await?;
    let portal = transaction
        .bind("SELECT n FROM generate_series(1, 250) AS n", &[])
        .await?;
    let mut counts = Vec::new();
    for _ in 0..4 {
        counts.push(transaction.query_portal(&portal, 100).await?.len());
    }
    checks.equal(
        "transactions: a portal in portions",
        counts,
        [100, 100, 50, 0],
    );
    transaction.commit().await
}
