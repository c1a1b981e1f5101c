//! Errors by class, with the fields that clients read; the connection goes on after each.

use tokio_postgres::Client;
use tokio_postgres::error::{DbError, ErrorPosition};
use tokio_postgres::types::ToSql;

use crate::checks::{Attempt, Checks, described};
use crate::types::one;
use crate::values::{InText, Numeric};

/// The error that a statement has to end with.
async fn refused(
    client: &Client,
    query: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<DbError, String> {
    error_of(client.query(query, parameters).await)
}

fn error_of<T>(result: Attempt<T>) -> Result<DbError, String> {
    match result {
        Ok(_) => Err("it did not fail".into()),
        Err(error) => match error.as_db_error() {
            Some(fields) => Ok(fields.clone()),
            None => Err(described(&error)),
        },
    }
}

/// What a constraint's error says of the constraint.
fn constraint(error: &DbError) -> (&str, &str, Option<&str>, Option<&str>, Option<&str>) {
    (
        error.code().code(),
        error.severity(),
        error.table(),
        error.column(),
        error.constraint(),
    )
}

fn position(error: &DbError) -> (&str, Option<u32>) {
    let position = match error.position() {
        Some(ErrorPosition::Original(position)) => Some(*position),
        _ => None,
    };
    (error.code().code(), position)
}

pub(crate) async fn failures(checks: &mut Checks, client: &Client) {
    let inserted = client
        .execute(
            "INSERT INTO customers (id, email, age) VALUES (1, 'a@example.org', 30)",
            &[],
        )
        .await;
    checks.attempt("errors: a first row", inserted, 1);
    let insert = "INSERT INTO customers VALUES ($1, $2, $3)";
    let order = "INSERT INTO orders VALUES (1, $1, 5)";
    let table = Some("customers");
    let cases: [(&str, &str, &[&(dyn ToSql + Sync)], _); 5] = [
        (
            "unique",
            insert,
            &[&2i32, &"a@example.org", &1i32],
            (
                "23505",
                "ERROR",
                table,
                None,
                Some("customers_email_is_unique"),
            ),
        ),
        (
            "primary key",
            insert,
            &[&1i32, &"b@example.org", &1i32],
            ("23505", "ERROR", table, None, Some("customers_pkey")),
        ),
        (
            "check",
            insert,
            &[&3i32, &"c@example.org", &-1i32],
            ("23514", "ERROR", table, None, Some("customers_are_born")),
        ),
        (
            "not null",
            insert,
            &[&4i32, &None::<&str>, &1i32],
            ("23502", "ERROR", table, Some("email"), None),
        ),
        (
            "foreign key",
            order,
            &[&99i32],
            (
                "23503",
                "ERROR",
                Some("orders"),
                None,
                Some("orders_have_a_customer"),
            ),
        ),
    ];
    for (name, query, parameters, expected) in cases {
        let error = refused(client, query, parameters).await;
        let got = error.as_ref().map(constraint);
        checks.equal(&format!("errors: {name}"), got, Ok::<_, String>(expected));
        let works = one::<i32>(client, "SELECT 1", &[]).await;
        checks.attempt(&format!("errors: works after {name}"), works, 1);
    }
    let schema = refused(client, insert, &[&1i32, &"b@example.org", &1i32]).await;
    let schema = schema.map(|error| error.schema().map(str::to_owned));
    checks.equal(
        "errors: the schema of a table",
        schema,
        Ok::<_, String>(Some("public")),
    );

    let cases: [(&str, &str, &[&(dyn ToSql + Sync)], _); 13] = [
        (
            "division by zero",
            "SELECT 1 / $1::int4",
            &[&0i32],
            ("22012", None),
        ),
        (
            "integer out of range",
            "SELECT $1::int4 + 1",
            &[&i32::MAX],
            ("22003", None),
        ),
        (
            "numeric out of its bounds",
            "SELECT $1::numeric(3, 1)",
            &[&Numeric("1000".into())],
            ("22003", None),
        ),
        (
            "text too long",
            "INSERT INTO every_type (id, a_varchar) VALUES (50, $1)",
            &[&"thirteen chars"],
            ("22001", None),
        ),
        (
            "not a number",
            "SELECT $1::int4",
            &[&InText(Some("x"))],
            ("22P02", None),
        ),
        ("not a uuid", "SELECT 'zzz'::uuid", &[], ("22P02", Some(8))),
        ("syntax", "SELEC 1", &[], ("42601", Some(1))),
        (
            "syntax in the middle",
            "SELECT 1 FROM FROM x",
            &[],
            ("42601", Some(15)),
        ),
        (
            "syntax after characters of several bytes",
            "SELECT 'äöü' FROM FROM x",
            &[],
            ("42601", Some(19)),
        ),
        (
            "undefined table",
            "SELECT * FROM no_such_table",
            &[],
            ("42P01", Some(15)),
        ),
        (
            "undefined column",
            "SELECT no_such_column FROM customers",
            &[],
            ("42703", Some(8)),
        ),
        (
            "undefined function",
            "SELECT no_such_function(1)",
            &[],
            ("42883", Some(8)),
        ),
        (
            "unknown setting",
            "SET no_such_setting = 1",
            &[],
            ("42704", None),
        ),
    ];
    for (name, query, parameters, expected) in cases {
        let error = refused(client, query, parameters).await;
        let got = error.as_ref().map(position);
        checks.equal(&format!("errors: {name}"), got, Ok::<_, String>(expected));
        let works = one::<i32>(client, "SELECT 1", &[]).await;
        checks.attempt(&format!("errors: works after {name}"), works, 1);
    }
    // A simple query's errors, and what comes after it in the same message.
    let error = error_of(
        client
            .simple_query("SELECT 1; SELECT 1 / 0; SELECT 2")
            .await,
    );
    let code = error.map(|error| error.code().code().to_owned());
    checks.equal("errors: in a simple query", code, Ok::<_, String>("22012"));
    let works = one::<i32>(client, "SELECT 1", &[]).await;
    checks.attempt("errors: works after that", works, 1);
    // A binary value that its type has not: the driver sends eight bytes for an int4.
    let error = client.query("SELECT $1::int4", &[&Misfit]).await;
    let code = error_of(error).map(|error| error.code().code().to_owned());
    checks.equal(
        "errors: a binary value of wrong length",
        code,
        Ok::<_, String>("22P03"),
    );
    let works = one::<i32>(client, "SELECT 1", &[]).await;
    checks.attempt("errors: works after a wrong length", works, 1);
}

/// Eight bytes, whatever the type.
#[derive(Debug)]
struct Misfit;

impl ToSql for Misfit {
    fn to_sql(
        &self,
        _: &tokio_postgres::types::Type,
        out: &mut bytes::BytesMut,
    ) -> Result<tokio_postgres::types::IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&[0; 8]);
        Ok(tokio_postgres::types::IsNull::No)
    }

    fn accepts(_: &tokio_postgres::types::Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}
