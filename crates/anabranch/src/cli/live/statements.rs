//! The statements that clients ran, from `pg_stat_statements`. Each is a transaction type of its own, since the view
//! does not record which of them ran in one transaction.
//!
//! The view replaces constants and parameters by `$n`. From PostgreSQL 18 on it writes a list of them as
//! `$1 /*, ... */`, which is read as two values: a single one would be an equation.

use std::collections::BTreeMap;

use anabranch_sql::SourceFile;
use anabranch_sql::script::{Skipped, SkippedExtent};
use postgres::Transaction;

use super::schema::{Schema, plain};
use super::{Live, note};
use crate::cli::traffic::{Query, called, normal};

/// At most this many statements are read: those that ran most often.
const STATEMENTS_MAX: usize = 5_000;

/// The text for the rest of a list of values since PostgreSQL 18.
const SQUASHED: &str = "/*, ... */";

/// The view of the extension.
pub(super) struct Statistics {
    name: String,
    /// Whether the view has the column `toplevel`.
    has_toplevel: bool,
}

/// The numbers of statements that are skipped, by reason.
#[derive(Default)]
struct SkippedCounts {
    utility: u64,
    copies: u64,
    of_catalogs: u64,
    duplicates: u64,
    unreadable: u64,
    beyond: u64,
}

/// Finds the view of the extension. A view of that name that does not belong to the extension is not used, since
/// reading it could run any code.
pub(super) fn find(
    transaction: &mut Transaction<'_>,
) -> Result<Option<Statistics>, postgres::Error> {
    let rows = transaction.query(
        "SELECT c.oid::regclass::text, EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid \
         AND a.attname = 'toplevel') FROM pg_class c JOIN pg_depend e ON e.objid = c.oid \
         AND e.classid = 'pg_class'::regclass AND e.deptype = 'e' JOIN pg_extension x ON x.oid = e.refobjid \
         AND x.extname = 'pg_stat_statements' WHERE c.relname = 'pg_stat_statements'",
        &[],
    )?;
    Ok(rows.first().map(|row| Statistics {
        name: row.get(0),
        has_toplevel: row.get(1),
    }))
}

/// Reads the statements of this database into `live`.
pub(super) fn read(
    transaction: &mut Transaction<'_>,
    statistics: &Statistics,
    place: &str,
    schema: &Schema,
    live: &mut Live,
) -> Result<(), postgres::Error> {
    let outermost = match statistics.has_toplevel {
        // Statements of routines and triggers belong to these.
        true => "AND s.toplevel",
        false => "",
    };
    let query = format!(
        "SELECT s.query, sum(s.calls)::bigint, count(*) FROM {} s WHERE s.dbid = (SELECT d.oid FROM pg_database d \
         WHERE d.datname = current_database()) {outermost} GROUP BY s.query ORDER BY 2 DESC, 1",
        statistics.name
    );
    let mut skipped = SkippedCounts::default();
    let mut found: BTreeMap<String, (String, u64)> = BTreeMap::new();
    for row in transaction.query(&query, &[])? {
        let (text, calls, rows): (Option<String>, i64, i64) = (row.get(0), row.get(1), row.get(2));
        let calls = u64::try_from(calls).unwrap_or(0);
        let rows = u64::try_from(rows).unwrap_or(0);
        let Some(text) = text.filter(|text| text != "<insufficient privilege>") else {
            skipped.unreadable += rows;
            continue;
        };
        skipped.duplicates += rows.saturating_sub(1);
        if let Some(routine) = called(&text)
            && schema.routines.contains(&routine)
        {
            let text = format!("CALL \"{routine}\"()");
            live.calls.push(Query { text, calls });
            continue;
        }
        match kind(&text, schema) {
            Kind::Utility => skipped.utility += 1,
            Kind::Copy => skipped.copies += 1,
            Kind::OfCatalogs => skipped.of_catalogs += 1,
            Kind::Data if found.len() >= STATEMENTS_MAX => skipped.beyond += 1,
            Kind::Data => {
                let text = several(&plain(&text));
                match found.get_mut(&normal(&text)) {
                    Some((_, known)) => {
                        skipped.duplicates += 1;
                        *known = known.saturating_add(calls);
                    }
                    None => {
                        found.insert(normal(&text), (text, calls));
                    }
                }
            }
        }
    }
    for (number, (text, calls)) in found.into_values().enumerate() {
        // A comment in sqlc's form before the statement has the client's name for it.
        let named = text.starts_with(['-', '/']) && text.contains("name:");
        let header = match named {
            true => String::new(),
            false => format!("-- name: {}\n", name(&text)),
        };
        let source = format!("{place}: statement {}", number + 1);
        let file = SourceFile::new(source, format!("{header}{};\n", text.trim_end_matches(';')));
        live.files.push(file);
        live.calls.push(Query { text, calls });
    }
    add_notes(&skipped, live);
    Ok(())
}

/// Adds notes on the skipped statements.
fn add_notes(skipped: &SkippedCounts, live: &mut Live) {
    let left = note(
        "pg_stat_statements does not record which statements run in one transaction",
        "each statement is a transaction type of its own. A check in one statement before a change in another of the \
         same transaction is not considered; analyze the application's source as well for that",
    );
    live.skipped.push(left.approximated());
    let SkippedCounts {
        utility,
        copies,
        of_catalogs,
        duplicates,
        unreadable,
        beyond,
    } = skipped;
    let counted = [
        (
            *utility,
            "in pg_stat_statements are utility statements (BEGIN, SET, CREATE and the like)",
            "they are ignored",
            SkippedExtent::OutsideApplication,
        ),
        (
            *copies,
            "in pg_stat_statements are COPY",
            "the rows that they load are not considered",
            SkippedExtent::Missing,
        ),
        (
            *of_catalogs,
            "in pg_stat_statements read only the system's catalogs",
            "they are ignored",
            SkippedExtent::OutsideApplication,
        ),
        (
            *duplicates,
            "in pg_stat_statements are duplicates (for several users, or written differently)",
            "duplicates count as one statement, with the calls of all",
            SkippedExtent::OutsideApplication,
        ),
        (
            *unreadable,
            "in pg_stat_statements cannot be read by this user",
            "they are not considered; GRANT pg_read_all_stats, or connect as the user that runs them",
            SkippedExtent::Missing,
        ),
        (
            *beyond,
            "in pg_stat_statements ran less often than the 5000 that are read",
            "they are not considered",
            SkippedExtent::Missing,
        ),
    ];
    for (number, what, meaning, extent) in counted {
        if number > 0 {
            let number = match number {
                1 => "1 statement".to_owned(),
                more => format!("{more} statements"),
            };
            live.skipped.push(Skipped {
                extent,
                ..note(&format!("{number} {what}"), meaning)
            });
        }
    }
}

enum Kind {
    Data,
    Utility,
    Copy,
    OfCatalogs,
}

fn kind(text: &str, schema: &Schema) -> Kind {
    // Everything that may read or write rows is read.
    const DATA: [&str; 15] = [
        "select", "insert", "update", "delete", "with", "values", "merge", "truncate", "call",
        "execute", "do", "replace", "table", "refresh", "declare",
    ];
    let normal = normal(text);
    let words: Vec<&str> = normal
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .collect();
    let first = words.first().copied().unwrap_or_default();
    if first == "copy" {
        return Kind::Copy;
    }
    if !DATA.contains(&first) {
        return Kind::Utility;
    }
    let own = |word: &&str| schema.relations.contains(*word) || schema.routines.contains(*word);
    let only_reads = ["select", "with", "values", "table"].contains(&first)
        && !["insert", "update", "delete", "merge", "nextval", "setval"]
            .iter()
            .any(|word| words.contains(word));
    let of_catalogs = words
        .iter()
        .any(|word| word.starts_with("pg_") || *word == "information_schema");
    match only_reads && of_catalogs && !words.iter().any(own) {
        true => Kind::OfCatalogs,
        false => Kind::Data,
    }
}

/// Writes a list of any number of values as two values; a single one would be an equation.
fn several(text: &str) -> String {
    let mut text = text.to_owned();
    let mut next = 1;
    for (at, _) in text.match_indices('$') {
        let digits: String = text[at + 1..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        next = next.max(digits.parse::<u32>().unwrap_or(0).saturating_add(1));
    }
    while let Some(at) = text.find(SQUASHED) {
        text.replace_range(at..at + SQUASHED.len(), &format!(", ${next}"));
        next += 1;
    }
    text
}

/// The name of a statement without one: its verb and its table.
fn name(text: &str) -> String {
    let normal = normal(text);
    let words: Vec<&str> = normal
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty() && *word != "public" && *word != "only")
        .collect();
    let first = words.first().copied().unwrap_or("statement");
    let before = ["from", "into", "update", "truncate", "call"];
    let table = words
        .windows(2)
        .find(|pair| before.contains(&pair[0]))
        .map(|pair| pair[1]);
    match table {
        Some(table) => format!("{first}_{table}"),
        None => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_values_is_read_as_two() {
        assert_eq!(
            several(
                "SELECT a FROM t WHERE b IN ($1 /*, ... */) AND c = $2 AND d IN ($3 /*, ... */)"
            ),
            "SELECT a FROM t WHERE b IN ($1 , $4) AND c = $2 AND d IN ($3 , $5)"
        );
    }

    #[test]
    fn statements_are_named_by_verb_and_table() {
        assert_eq!(name("SELECT a, b FROM public.t WHERE c = $1"), "select_t");
        assert_eq!(name("/* by hand */ UPDATE \"T\" SET a = $1"), "update_t");
        assert_eq!(name("INSERT INTO t VALUES ($1)"), "insert_t");
    }

    #[test]
    fn statements_that_may_write_are_read() {
        let mut schema = Schema::default();
        schema.relations.insert("t".into());
        let of = |text: &str| match kind(text, &schema) {
            Kind::Data => "data",
            Kind::Utility => "utility",
            Kind::Copy => "copy",
            Kind::OfCatalogs => "catalogs",
        };
        assert_eq!(of("SELECT relname FROM pg_class"), "catalogs");
        assert_eq!(of("SELECT 1 FROM pg_class, t"), "data");
        assert_eq!(
            of("WITH d AS (DELETE FROM x RETURNING 1) SELECT 1 FROM d, pg_class"),
            "data"
        );
        assert_eq!(of("TRUNCATE t"), "data");
        assert_eq!(of("DO $$ BEGIN DELETE FROM t; END $$"), "data");
        assert_eq!(of("BEGIN"), "utility");
        assert_eq!(of("COPY t FROM STDIN"), "copy");
    }
}
