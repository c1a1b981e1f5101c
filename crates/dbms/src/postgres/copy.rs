//! Rows of a table, read from one database, compared, and written to another, by COPY.
//!
//! A row is the line that COPY writes in its text format under the settings of [`EXACT`]. Every type reads its text back
//! exactly, and two databases that have the same row write the same line. Computed columns are not in it: each database
//! computes its own. Rows are never all in memory.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufRead, Write};

use postgres::Transaction;

use super::catalog::Table;
use super::{explain, quoted};

/// The settings of a transaction that reads and writes rows of other databases. In the role of a replica no trigger fires and no
/// foreign key is checked: the rows are as triggers and checks have left them where they come from.
pub const EXACT: &str = "SET LOCAL search_path = pg_catalog; SET LOCAL session_replication_role = replica; \
    SET LOCAL row_security = off; SET LOCAL DateStyle = ISO; SET LOCAL IntervalStyle = postgres; \
    SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = hex; SET LOCAL xmloption = content; \
    SET LOCAL lc_monetary = 'C'; SET LOCAL TimeZone = 'UTC'; SET LOCAL statement_timeout = 0; \
    SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = '10s'; \
    SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'";

/// A number of rows, and a digest of them that does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowDigest {
    /// How many rows.
    pub count: u64,
    digest: u64,
}

impl RowDigest {
    /// Adds a row.
    pub fn add(&mut self, line: &[u8]) {
        let mut hasher = DefaultHasher::new();
        hasher.write(line);
        self.count += 1;
        self.digest = self.digest.wrapping_add(hasher.finish());
    }
}

/// Reads all rows of a table. `heads` are expressions over the row `t`; `each` is given their values as text, and the row's
/// line.
///
/// # Errors
/// When the table cannot be read, or `each` fails.
pub fn read(
    from: &mut Transaction<'_>,
    table: &Table,
    heads: &[&str],
    mut each: impl FnMut(&[Option<String>], &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let columns = stored(table).map(|column| format!("t.{column}"));
    let selected: Vec<String> = heads
        .iter()
        .map(|head| (*head).to_owned())
        .chain(columns)
        .collect();
    let statement = format!(
        "COPY (SELECT {} FROM ONLY {} t) TO STDOUT",
        selected.join(", "),
        table.path()
    );
    let mut reader = from.copy_out(&statement).map_err(|error| explain(&error))?;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line);
        if read.map_err(|error| explain_io(&error))? == 0 {
            return Ok(());
        }
        let mut rest: &[u8] = &line;
        let mut values = Vec::with_capacity(heads.len());
        for _ in heads {
            let end = rest.iter().position(|byte| *byte == b'\t');
            let end = end.ok_or("a row of COPY has too few columns")?;
            values.push(value(&rest[..end])?);
            rest = &rest[end + 1..];
        }
        each(&values, rest)?;
    }
}

/// Writes rows into a table: `feed` is given what takes one line after the other.
///
/// # Errors
/// When a row is refused, or `feed` fails.
pub fn write(
    to: &mut Transaction<'_>,
    table: &Table,
    path: &str,
    feed: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), String>) -> Result<(), String>,
) -> Result<(), String> {
    let columns: Vec<String> = stored(table).collect();
    let statement = format!("COPY {path} ({}) FROM STDIN", columns.join(", "));
    let mut writer = to.copy_in(&statement).map_err(|error| explain(&error))?;
    feed(&mut |line| writer.write_all(line).map_err(|error| explain_io(&error)))?;
    writer.finish().map_err(|error| explain(&error))?;
    Ok(())
}

/// Copies all rows of a table into the same, empty table of another database, and compares them there. Returns their
/// number.
///
/// # Errors
/// When they cannot be copied, or are not the same there.
pub fn copy_all(
    from: &mut Transaction<'_>,
    to: &mut Transaction<'_>,
    table: &Table,
) -> Result<u64, String> {
    let mut copied = RowDigest::default();
    write(to, table, &table.path(), |put| {
        read(from, table, &[], |_, line| {
            copied.add(line);
            put(line)
        })
    })?;
    let there = digest(to, table)?;
    match there == copied {
        true => Ok(copied.count),
        false => Err(format!(
            "{}: {} rows were copied, and {} are there, or they are others: the two databases write values in different ways",
            table.title(),
            copied.count,
            there.count
        )),
    }
}

/// Counts and digests the rows of a table.
///
/// # Errors
/// When they cannot be read.
pub fn digest(of: &mut Transaction<'_>, table: &Table) -> Result<RowDigest, String> {
    let mut found = RowDigest::default();
    read(of, table, &[], |_, line| {
        found.add(line);
        Ok(())
    })?;
    Ok(found)
}

/// The names of the columns that are stored, quoted.
pub(super) fn stored(table: &Table) -> impl Iterator<Item = String> {
    let columns = table.columns.iter();
    columns
        .filter(|column| !column.is_generated)
        .map(|column| quoted(&column.name))
}

/// An error on the way between the driver and the database.
fn explain_io(error: &std::io::Error) -> String {
    let inner = error.get_ref();
    let inner = inner.and_then(|inner| inner.downcast_ref::<postgres::Error>());
    inner.map_or_else(|| error.to_string(), explain)
}

/// A value as COPY writes it; `None` is NULL.
fn value(field: &[u8]) -> Result<Option<String>, String> {
    if field == b"\\N" {
        return Ok(None);
    }
    let plain: Cow<'_, [u8]> = match field.contains(&b'\\') {
        false => Cow::Borrowed(field),
        true => {
            let mut plain = Vec::with_capacity(field.len());
            let mut bytes = field.iter().copied();
            while let Some(byte) = bytes.next() {
                plain.push(match byte {
                    b'\\' => match bytes.next() {
                        Some(b'b') => 8,
                        Some(b't') => b'\t',
                        Some(b'n') => b'\n',
                        Some(b'v') => 11,
                        Some(b'f') => 12,
                        Some(b'r') => b'\r',
                        Some(other) => other,
                        None => return Err("a value of COPY ends in a backslash".to_owned()),
                    },
                    other => other,
                });
            }
            Cow::Owned(plain)
        }
    };
    let text = String::from_utf8(plain.into_owned());
    text.map(Some)
        .map_err(|_| "a value of COPY is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_copy_writes_them() {
        for (written, read) in [
            ("17", Some("17")),
            ("", Some("")),
            ("\\N", None),
            ("\\\\N", Some("\\N")),
            ("a\\tb\\nc\\\\d", Some("a\tb\nc\\d")),
        ] {
            assert_eq!(value(written.as_bytes()), Ok(read.map(str::to_owned)));
        }
    }

    #[test]
    fn a_digest_counts_rows_in_any_order() {
        let of = |lines: &[&str]| {
            let mut digest = RowDigest::default();
            for line in lines {
                digest.add(line.as_bytes());
            }
            digest
        };
        assert_eq!(of(&["a", "b"]), of(&["b", "a"]));
        assert_ne!(of(&["a", "b"]), of(&["a", "a"]));
        assert_ne!(of(&["a"]), of(&["a", "a"]));
    }
}
