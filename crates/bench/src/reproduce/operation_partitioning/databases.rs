//! The applications in PostgreSQL databases.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_analysis::Plan;
use anabranch_analysis::partition::{Distribution, Spread};
use anabranch_dbms::postgres::{Server, ServerError, explain, quoted};
use anabranch_engine::PlannedApplication;
use anabranch_sql::SourceFile;
use anabranch_sql::expression::text::literal;
use anabranch_sql::script::read;
use anabranch_types::Value;
use anabranch_workload::Workload;
use postgres::Client;

use super::traffic::Application;
use crate::postgres::copy::{Copier, CopyError};

/// The operations of §7.3.
pub(super) const FIXED: &str = include_str!("fixed.sql");

/// Their rows.
pub(super) const FIXED_ROWS: &str = "INSERT INTO own SELECT i, 0 FROM generate_series(0, 999) i; \
    INSERT INTO shared SELECT i, 0 FROM generate_series(0, 999) i";

/// Why something with databases failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// The server did not start, or refused a connection.
    #[error("error: {0}")]
    Server(#[from] ServerError),
    /// It refused a statement.
    #[error("error: PostgreSQL: {}", explain(.0))]
    Statement(#[from] postgres::Error),
    /// It refused rows.
    #[error("error: {0}")]
    Copy(#[from] CopyError),
    /// Something else, as a whole message.
    #[error("{0}")]
    Other(String),
}

/// Creates an empty database.
pub(super) fn create(server: &Server, name: &str) -> Result<(), DatabaseError> {
    let mut client = server.connect()?;
    Ok(client.batch_execute(&format!("CREATE DATABASE {}", quoted(name)))?)
}

/// Loads an application's schema, rows and procedures.
pub(super) fn fill(client: &mut Client, workload: &dyn Workload) -> Result<(), DatabaseError> {
    for (_, text) in workload.files() {
        client.batch_execute(text)?;
    }
    let mut copier = Copier::new(client)?;
    let mut failed = None;
    workload.rows(1, &mut |table, columns, values| {
        if failed.is_none() {
            failed = copier.row(table, columns, values).err();
        }
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    copier.finish()?;
    // Sequences go on behind the rows, at a multiple of the slots.
    let sequences = client.query(
        "SELECT format('SELECT setval(%L, (SELECT coalesce(max(%I), 0) / 16 * 16 + 16 FROM %I))', \
         pg_get_serial_sequence(quote_ident(table_name), column_name), column_name, table_name) \
         FROM information_schema.columns WHERE table_schema = 'public' AND is_identity = 'YES'",
        &[],
    )?;
    for row in sequences {
        client.batch_execute(row.get(0))?;
    }
    Ok(())
}

/// A call of a procedure, as a client writes it.
pub(super) fn call_text(files: &[(&str, &str)], name: &str, arguments: &[Value]) -> String {
    let arguments: Vec<String> = arguments.iter().map(literal).collect();
    let head = format!("CREATE PROCEDURE {name}(");
    let is_procedure = files.iter().any(|(_, text)| text.contains(&head));
    match is_procedure {
        true => format!("CALL {name}({})", arguments.join(", ")),
        false => format!("SELECT {name}({})", arguments.join(", ")),
    }
}

/// The tables whose changes the belt captures, and whether only global operations write them.
pub(super) fn replicated(
    workload: &dyn Workload,
    plan: &Plan,
) -> Result<BTreeMap<String, bool>, DatabaseError> {
    let files = workload.files().iter();
    let files = files.map(|(name, text)| SourceFile::new(*name, *text));
    let script = read(files.collect());
    let script = script.map_err(|error| DatabaseError::Other(format!("error: {error:?}")))?;
    let Some(partitioning) = &plan.partitioning else {
        return Ok(BTreeMap::new());
    };
    let tables = &script.application.catalog().schema.tables;
    let spread = partitioning.tables.iter().zip(&partitioning.written);
    let mut found = BTreeMap::new();
    for (table, (distribution, written)) in tables.iter().zip(spread) {
        let stays = matches!(
            distribution,
            Distribution::Anywhere
                | Distribution::By(_)
                | Distribution::Scattered
                | Distribution::Immutable
        );
        if !stays {
            let mut parts = std::iter::once(&written.rows).chain(&written.columns);
            let is_whole = parts.all(|spread| *spread != Spread::OwnServer);
            found.insert(table.name.clone(), is_whole);
        }
    }
    Ok(found)
}

/// The application, planned: callers ask for it.
pub(super) fn planned(application: Application) -> Result<Arc<PlannedApplication>, DatabaseError> {
    let workload = application.workload();
    let files = workload.files().iter();
    let files = files.map(|(name, text)| SourceFile::new(*name, *text));
    let planned = crate::application::plan(files.collect(), 1);
    planned.map_err(|error| DatabaseError::Other(error.to_string()))
}
