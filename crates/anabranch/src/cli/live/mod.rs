//! A live PostgreSQL database in the place of files: `anabranch analyze postgresql://user@host/database`.
//!
//! Its catalogs are written down as SQL (`schema`), and what clients run is taken from `pg_stat_statements`
//! (`statements`): then both go the way of files. All is read in one transaction, which can write nothing.
//!
//! Only the schema `public` is read: what lies in others is told as left out.

mod address;
mod schema;
mod statements;
mod tls;

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch_sql::SourceFile;
use anabranch_sql::diagnostic::Diagnostic;
use anabranch_sql::script::Skipped;
use postgres::{IsolationLevel, Transaction};

pub(crate) use address::{Address, is_address, without_password};

use super::traffic::Query;

/// The oldest server whose catalogs are known.
const VERSION_MIN: i32 = 120_000;

/// How long to wait for a database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// For a connection.
    pub(crate) connect: Duration,
    /// For the answer to each question.
    pub(crate) query: Duration,
}

/// What is there, as files are.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) files: Vec<SourceFile>,
    pub(crate) left_out: Vec<Skipped>,
    /// How often clients have run what.
    pub(crate) calls: Vec<Query>,
    /// Columns, by table, that are text here and that the database orders otherwise.
    pub(crate) ordered_otherwise: BTreeSet<(String, String)>,
}

/// Reads a database; `statements` says whether also what clients run.
///
/// # Errors
/// Why it cannot be read, and what to do.
pub(crate) fn read(address: &Address, statements: bool, waits: Waits) -> Result<Live, String> {
    let mut client = address.connect(waits.connect)?;
    let failed = |error: postgres::Error| {
        let text = address::explained(&error);
        let advice = match error.code().map(|code| code.code()) {
            Some("57014") => "; --query-seconds-max waits longer",
            Some("42501") => "; connect as a user that may read it",
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
            "error: {} is PostgreSQL {version}: from version 12 on it can be read; analyze what pg_dump \
             --schema-only writes",
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
            "error: {} has {} tables, constraints, routines and statements: up to {} are read; analyze a part of \
             what pg_dump --schema-only writes",
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
        // Others say what runs.
    } else if let Some(statistics) = statistics {
        statements::read(transaction, &statistics, &address.name, &schema, &mut live)?;
    } else {
        live.left_out.push(note(
            "there is no pg_stat_statements, which counts the statements that clients run (CREATE EXTENSION \
             pg_stat_statements, with shared_preload_libraries)",
            "only functions and procedures are transaction types: what clients run is not considered",
        ));
    }
    live.ordered_otherwise = schema.ordered_otherwise;
    Ok(live)
}

/// What is not read: other schemas, aggregates, extensions' routines.
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
            live.left_out.push(note(
                &format!(
                    "schema \"{name}\" is not read, with {tables} tables and views and {routines} routines: only \
                     \"public\" is"
                ),
                "they have no verdicts, and a statement that names a table of both is taken to mean the one of \
                 \"public\"",
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
        live.left_out.push(note(
            &format!("{aggregates} aggregates and window functions are not read"),
            "transactions that use them are unknown",
        ));
    }
    if of_extensions > 0 {
        live.left_out.push(note(
            &format!("{of_extensions} functions of extensions are not read"),
            "transactions that use them are unknown, and they are transaction types of nobody",
        ));
    }
    Ok(())
}

/// Something of a database that is left out, of which no line is to blame.
pub(crate) fn note(message: &str, meaning: &str) -> Skipped {
    Skipped {
        diagnostic: Diagnostic {
            code: "0A000",
            message: message.to_owned(),
            span: None,
            help: None,
        },
        meaning: meaning.to_owned(),
        transaction: None,
    }
}
