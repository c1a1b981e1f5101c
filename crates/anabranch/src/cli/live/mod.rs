//! A live PostgreSQL database instead of files: `anabranch analyze postgresql://user@host/database`.
//!
//! Its catalogs are converted to SQL (`schema`), and the statements that clients run come from `pg_stat_statements`
//! (`statements`); both are then read as files are. Everything is read in one read-only transaction.
//!
//! Only the schema `public` is read; the report lists the contents of others as skipped.

mod schema;
mod statements;

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch_sql::SourceFile;
use anabranch_sql::diagnostic::Diagnostic;
use anabranch_sql::script::Skipped;
use postgres::{IsolationLevel, Transaction};

pub(crate) use anabranch_dbms::postgres::{Address, is_address, without_password};

use super::traffic::Query;

/// The oldest supported server version.
const VERSION_MIN: i32 = 120_000;

/// How long to wait for a database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// For a connection.
    pub(crate) connect: Duration,
    /// For the answer to each query.
    pub(crate) query: Duration,
}

/// The contents of a database, as source files.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) files: Vec<SourceFile>,
    pub(crate) skipped: Vec<Skipped>,
    /// The queries that clients ran, with the number of calls.
    pub(crate) calls: Vec<Query>,
    /// Columns, by table and name, that the analyser treats as text and whose collation is not bytewise.
    pub(crate) ordered_otherwise: BTreeSet<(String, String)>,
}

/// Reads a database; with `statements`, also the statements that clients run.
///
/// # Errors
/// Why it cannot be read, and what to do.
pub(crate) fn read(address: &Address, statements: bool, waits: Waits) -> Result<Live, String> {
    let mut client = address.connect(waits.connect)?;
    let failed = |error: postgres::Error| {
        let text = anabranch_dbms::postgres::explain(&error);
        let advice = match error.code().map(|code| code.code()) {
            Some("57014") => "; give it more time with --query-seconds-max",
            Some("42501") => "; connect as a user with the right to read it",
            _ => "",
        };
        format!("error: cannot read {}: {text}{advice}", address.typed)
    };
    let version: String = client
        .query_one("SELECT current_setting('server_version_num')", &[])
        .map_err(failed)?
        .get(0);
    if version.parse::<i32>().unwrap_or(0) < VERSION_MIN {
        return Err(format!(
            "error: {} is PostgreSQL {version}, but version 12 or newer is needed; analyze the output of pg_dump \
             --schema-only instead",
            address.typed
        ));
    }
    let settings = format!(
        "SET default_transaction_read_only = on; SET search_path = pg_catalog; SET quote_all_identifiers = off; \
         SET statement_timeout = {0}; SET lock_timeout = {0}",
        waits.query.as_millis()
    );
    client.batch_execute(&settings).map_err(failed)?;
    let begun = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start();
    let mut transaction = begun.map_err(failed)?;
    let live = read_in(&mut transaction, address, statements).map_err(failed)?;
    transaction.rollback().map_err(failed)?;
    if live.files.len() >= usize::from(u16::MAX) {
        return Err(format!(
            "error: {} has {} tables, constraints, routines and statements, more than the limit of {}; analyze a part \
             of the output of pg_dump --schema-only instead",
            address.typed,
            live.files.len(),
            u16::MAX - 1
        ));
    }
    Ok(live)
}

fn read_in(
    transaction: &mut Transaction<'_>,
    address: &Address,
    statements: bool,
) -> Result<Live, postgres::Error> {
    let mut live = Live::default();
    let statistics = statements::find(transaction)?;
    let mut schema = schema::read(transaction, &address.name)?;
    live.files.append(&mut schema.files);
    elsewhere(transaction, &mut live)?;
    if !statements {
        // The other sources give the statements.
    } else if let Some(statistics) = statistics {
        statements::read(transaction, &statistics, &address.name, &schema, &mut live)?;
    } else {
        live.skipped.push(note(
            "the extension pg_stat_statements, which counts the statements that clients run, is not installed (CREATE \
             EXTENSION pg_stat_statements, with shared_preload_libraries)",
            "only functions and procedures are transaction types; statements of clients are not considered",
        ));
    }
    live.ordered_otherwise = schema.ordered_otherwise;
    Ok(live)
}

/// Adds notes on what is not read: other schemas, aggregates, routines of extensions.
fn elsewhere(transaction: &mut Transaction<'_>, live: &mut Live) -> Result<(), postgres::Error> {
    let schemas = transaction.query(
        "SELECT n.nspname::text, (SELECT count(*) FROM pg_class c WHERE c.relnamespace = n.oid \
         AND c.relkind IN ('r', 'p', 'v', 'm', 'f')), \
         (SELECT count(*) FROM pg_proc p WHERE p.pronamespace = n.oid AND p.prokind IN ('f', 'p')) \
         FROM pg_namespace n WHERE n.nspname NOT IN ('public', 'information_schema') \
         AND n.nspname NOT LIKE 'pg\\_%' AND NOT EXISTS (SELECT 1 FROM pg_depend e WHERE e.objid = n.oid \
         AND e.classid = 'pg_namespace'::regclass AND e.deptype = 'e') ORDER BY 1",
        &[],
    )?;
    for row in schemas {
        let (name, tables, routines): (String, i64, i64) = (row.get(0), row.get(1), row.get(2));
        if tables + routines > 0 {
            live.skipped.push(note(
                &format!(
                    "schema \"{name}\" is not read, with {tables} tables and views and {routines} routines; only \
                     \"public\" is"
                ),
                "they have no verdicts, and a table name in a statement always means the table in \"public\"",
            ));
        }
    }
    let counts = transaction.query_one(
        "SELECT count(*) FILTER (WHERE p.prokind IN ('a', 'w') AND d.objid IS NULL), \
         count(*) FILTER (WHERE d.objid IS NOT NULL) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
         LEFT JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e' \
         WHERE n.nspname = 'public'",
        &[],
    )?;
    let (aggregates, of_extensions): (i64, i64) = (counts.get(0), counts.get(1));
    if aggregates > 0 {
        let left = note(
            &format!("{aggregates} aggregates and window functions are not read"),
            "transactions that use them are not analysed",
        );
        live.skipped.push(left.approximated());
    }
    if of_extensions > 0 {
        let left = note(
            &format!("{of_extensions} functions of extensions are not read"),
            "they are not transaction types themselves, and transactions that use them are not analysed",
        );
        live.skipped.push(left.approximated());
    }
    Ok(())
}

/// A note on something that is skipped and that has no line.
pub(crate) fn note(message: &str, meaning: &str) -> Skipped {
    Skipped::new(
        Diagnostic {
            code: "0A000",
            message: message.to_owned(),
            span: None,
            detail: None,
            help: None,
        },
        meaning,
    )
}
