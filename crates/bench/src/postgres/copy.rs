//! Loads rows into PostgreSQL's tables, by COPY in its binary format.

use std::error::Error;
use std::io::Write;

use anabranch_types::Value;
use bytes::{BufMut, BytesMut};
use postgres::Client;
use postgres::types::Type;

/// Rows are sent once they have this many bytes.
const PENDING_MAX: usize = 4 << 20;

/// Collects rows of one table at a time and sends them in large batches.
///
/// Foreign keys are not checked on the connection meanwhile: rows are trusted, as by the loader of our own
/// store.
pub struct Copier<'c> {
    client: &'c mut Client,
    table: Option<Table>,
    pending: BytesMut,
}

/// The table that pending rows belong to.
struct Table {
    statement: String,
    name: String,
    types: Vec<Type>,
}

/// Why rows were not copied.
#[derive(Debug)]
#[non_exhaustive]
pub enum CopyError {
    /// PostgreSQL refused them.
    Refused(postgres::Error),
    /// The connection failed.
    Broken(std::io::Error),
    /// A value is not of its column's type.
    Value {
        /// The table.
        table: String,
        /// The error.
        error: Box<dyn Error + Sync + Send>,
    },
}

impl std::fmt::Display for CopyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CopyError::Refused(error) => {
                write!(
                    f,
                    "PostgreSQL refused rows: {}",
                    anabranch_dbms::postgres::explain(error)
                )
            }
            CopyError::Broken(error) => write!(f, "rows could not be sent to PostgreSQL: {error}"),
            CopyError::Value { table, error } => {
                write!(
                    f,
                    "a row of table \"{table}\" cannot be sent to PostgreSQL: {error}"
                )
            }
        }
    }
}

impl std::error::Error for CopyError {}

impl<'c> Copier<'c> {
    /// Begins to copy over this connection.
    ///
    /// # Errors
    /// When the connection's user is no superuser.
    pub fn new(client: &'c mut Client) -> Result<Copier<'c>, CopyError> {
        client
            .batch_execute("SET session_replication_role = replica")
            .map_err(CopyError::Refused)?;
        Ok(Copier {
            client,
            table: None,
            pending: BytesMut::new(),
        })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When this row, or one before it, is refused.
    pub fn row(
        &mut self,
        table: &str,
        columns: &[&str],
        values: &[Value],
    ) -> Result<(), CopyError> {
        if self
            .table
            .as_ref()
            .is_none_or(|current| current.name != table)
        {
            self.send()?;
            self.table = Some(self.look_up(table, columns)?);
        } else if self.pending.len() > PENDING_MAX {
            self.send()?;
        }
        let Some(current) = &self.table else {
            unreachable!("it was looked up")
        };
        if self.pending.is_empty() {
            // Signature, flags, and the length of a header extension.
            self.pending.put_slice(b"PGCOPY\n\xff\r\n\0");
            self.pending.put_u64(0);
        }
        self.pending.put_i16(values.len() as i16);
        for (value, ty) in values.iter().zip(&current.types) {
            super::value::write_field(value, ty, &mut self.pending).map_err(|error| {
                CopyError::Value {
                    table: table.to_owned(),
                    error,
                }
            })?;
        }
        Ok(())
    }

    fn look_up(&mut self, table: &str, columns: &[&str]) -> Result<Table, CopyError> {
        let columns = columns.join(", ");
        let query = format!("SELECT {columns} FROM {table}");
        let prepared = self.client.prepare(&query).map_err(CopyError::Refused)?;
        Ok(Table {
            statement: format!("COPY {table} ({columns}) FROM STDIN (FORMAT binary)"),
            name: table.to_owned(),
            types: prepared
                .columns()
                .iter()
                .map(|column| column.type_().clone())
                .collect(),
        })
    }

    fn send(&mut self) -> Result<(), CopyError> {
        let Some(table) = &self.table else {
            return Ok(());
        };
        if self.pending.is_empty() {
            return Ok(());
        }
        self.pending.put_i16(-1);
        let mut writer = self
            .client
            .copy_in(&table.statement)
            .map_err(CopyError::Refused)?;
        writer.write_all(&self.pending).map_err(CopyError::Broken)?;
        writer.finish().map_err(CopyError::Refused)?;
        self.pending.clear();
        Ok(())
    }

    /// Sends the remaining rows, and turns the checks of foreign keys on again.
    ///
    /// # Errors
    /// When a row is refused.
    pub fn finish(mut self) -> Result<(), CopyError> {
        self.send()?;
        self.client
            .batch_execute("SET session_replication_role = DEFAULT")
            .map_err(CopyError::Refused)
    }
}
