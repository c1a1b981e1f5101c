//! Changes of the schema, and rows copied in and out.

use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, TryStreamExt, pin_mut};
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

use crate::checks::{Attempt, Checks};
use crate::types::one;

const COUNT: &str = "SELECT count(*) FROM parcels";

/// Creates tables, copies into and out of them, changes and drops them.
pub(crate) async fn schema(checks: &mut Checks, client: &mut Client) -> Result<(), Error> {
    let created = client
        .batch_execute("CREATE TABLE parcels (id bigint PRIMARY KEY, label text NOT NULL)")
        .await;
    checks.attempt("schema: CREATE TABLE", created, ());
    checks.attempt(
        "schema: COPY in, binary",
        copy_binary(client).await,
        3000u64,
    );
    checks.attempt(
        "schema: COPY in, text",
        copy_text(client, "9001\ta\\tb\n9002\tc\n").await,
        2u64,
    );
    let count = one::<i64>(client, COUNT, &[]).await;
    checks.attempt("schema: what was copied", count, 3002i64);
    let out = copy_out(
        client,
        "COPY (SELECT * FROM parcels WHERE id > 2998 ORDER BY id) TO STDOUT",
    )
    .await;
    checks.attempt(
        "schema: COPY out, text",
        out,
        "2999\tparcel 2999\n9001\ta\\tb\n9002\tc\n",
    );
    let refused = copy_text(client, "9003\td\n9001\tagain\n").await.err();
    let fields = refused.as_ref().and_then(|error| error.as_db_error());
    checks.equal(
        "schema: COPY of a duplicate",
        fields.map(|error| (error.code().code(), error.constraint())),
        Some(("23505", Some("parcels_pkey"))),
    );
    let count = one::<i64>(client, COUNT, &[]).await;
    checks.attempt("schema: nothing of it stays", count, 3002i64);

    let prepared = client
        .prepare("SELECT label FROM parcels WHERE id = $1")
        .await?;
    let changed = client
        .batch_execute("ALTER TABLE parcels ADD COLUMN fragile boolean NOT NULL DEFAULT false")
        .await;
    checks.attempt("schema: ADD COLUMN", changed, ());
    let got = client.query_one(&prepared, &[&7i64]).await;
    checks.attempt(
        "schema: a statement from before it",
        got.and_then(|row| row.try_get::<_, String>(0)),
        "parcel 7",
    );
    let got = one::<bool>(client, "SELECT fragile FROM parcels WHERE id = 7", &[]).await;
    checks.attempt("schema: the new column", got, false);

    let transaction = client.transaction().await?;
    transaction
        .batch_execute("CREATE TABLE gone (id integer PRIMARY KEY)")
        .await?;
    transaction.rollback().await?;
    let error = client.batch_execute("SELECT * FROM gone").await.err();
    let code = error.as_ref().and_then(|error| error.code());
    checks.equal(
        "schema: rolled back",
        code.map(|code| code.code()),
        Some("42P01"),
    );
    let dropped = client.batch_execute("DROP TABLE parcels").await;
    checks.attempt("schema: DROP TABLE", dropped, ());
    Ok(())
}

async fn copy_binary(client: &Client) -> Attempt<u64> {
    let sink = client
        .copy_in("COPY parcels FROM STDIN (FORMAT binary)")
        .await?;
    let writer = BinaryCopyInWriter::new(sink, &[Type::INT8, Type::TEXT]);
    pin_mut!(writer);
    for number in 0..3000i64 {
        let label = format!("parcel {number}");
        writer.as_mut().write(&[&number, &label]).await?;
    }
    writer.finish().await
}

async fn copy_text(client: &Client, rows: &'static str) -> Attempt<u64> {
    let sink = client.copy_in("COPY parcels FROM STDIN").await?;
    pin_mut!(sink);
    sink.send(Bytes::from_static(rows.as_bytes())).await?;
    sink.finish().await
}

async fn copy_out(client: &Client, query: &str) -> Attempt<String> {
    let rows = client.copy_out(query).await?;
    pin_mut!(rows);
    let mut all = BytesMut::new();
    while let Some(part) = rows.try_next().await? {
        all.extend_from_slice(&part);
    }
    Ok(String::from_utf8_lossy(&all).into_owned())
}
