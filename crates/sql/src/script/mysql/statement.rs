//! Translates statements in forms that only MySQL has.
//!
//! | MySQL | here |
//! |---|---|
//! | `INSERT IGNORE INTO t …` | `INSERT INTO t … ON CONFLICT DO NOTHING` |
//! | `… ON DUPLICATE KEY UPDATE n = n + VALUES(n)` | `… ON CONFLICT (key) DO UPDATE SET n = t.n + excluded.n` |
//! | `REPLACE INTO t …` | the same, of all columns, if no foreign key refers to `t` |
//! | `LIMIT a, b` | `LIMIT b OFFSET a` |
//! | `LOCK IN SHARE MODE`, `IFNULL(…)` | `FOR SHARE`, `coalesce(…)` |
//!
//! MySQL looks at every unique key of the table. If the conflict could be on more than one, nothing determines which
//! row changes, and the statement is skipped.

use anabranch_types::{ColumnIndex, TableSchema};

use crate::{
    catalog::{Catalog, ColumnDefault},
    diagnostic::Diagnostic,
    script::{
        scan::Part,
        tokens::{Token, Writer, begin, closing, tokens},
    },
    source::{Span, Translated},
};

/// Translates a statement to PostgreSQL's SQL; `None` if it is that already. `places` are the positions in the file of
/// the bytes of `text`.
///
/// # Errors
/// Why it cannot be translated.
pub(in crate::script) fn statement(
    text: &str,
    places: &[u32],
    catalog: &Catalog,
    span: Span,
) -> Result<Option<Translated>, Diagnostic> {
    let all = tokens(text);
    let ignores = begin(&all, &["insert", "ignore"]);
    let replaces = begin(&all, &["replace", "into"]);
    let duplicate = duplicate(&all);
    let mut writer = Writer::new(text, 0);
    let mut changed = ignores || replaces || duplicate.is_some();
    let body = match (ignores, replaces) {
        (true, _) => {
            writer.write("INSERT ", 0);
            &all[2..]
        }
        (_, true) => {
            writer.write("INSERT ", 0);
            &all[1..]
        }
        _ => &all[..],
    };
    let end = duplicate.map_or(body.len(), |at| at - (all.len() - body.len()));
    let mut at = 0;
    while at < end {
        let rest = &body[at..end];
        let used = only_mysqls(rest, &mut writer);
        changed |= used > 0;
        if used == 0 {
            writer.copy_one(body, at);
        }
        at += used.max(1);
    }
    if !changed {
        return Ok(None);
    }
    let last = all.last().map_or(0, |t| t.end);
    if let Some(at) = duplicate {
        let target = target(&all, catalog, span)?;
        let key = target.key(span)?;
        writer.write(
            &format!(" ON CONFLICT ({key}) DO UPDATE SET "),
            all[at].start,
        );
        target.assignments(&all[at + 4..], &mut writer);
    } else if replaces {
        let target = target(&all, catalog, span)?;
        let key = target.key(span)?;
        let referred = catalog.tables.iter().flat_map(|t| &t.foreign_keys);
        if referred.clone().any(|key| key.parent == target.schema.id) {
            let message = "REPLACE INTO a table that foreign keys refer to is not supported";
            return Err(Diagnostic::new("0A000", message, span)
                .help("it deletes the row that is there: write DELETE and INSERT, or ON DUPLICATE KEY UPDATE"));
        }
        let set = target
            .schema
            .columns
            .iter()
            .map(|c| format!("\"{0}\" = excluded.\"{0}\"", c.name));
        // The columns of the key stay as they are.
        let set: Vec<String> = set
            .filter(|set| !key.split(", ").any(|k| set.starts_with(k)))
            .collect();
        if set.is_empty() {
            writer.write(" ON CONFLICT DO NOTHING", last);
        } else {
            let set = set.join(", ");
            writer.write(&format!(" ON CONFLICT ({key}) DO UPDATE SET {set}"), last);
        }
    } else if ignores {
        writer.write(" ON CONFLICT DO NOTHING", last);
    }
    // From positions in this text to positions in the file.
    let end = places.last().copied().unwrap_or_default();
    let of_file = |at: &u32| places.get(*at as usize).copied().unwrap_or(end);
    let mut out = writer.out;
    out.places = out.places.iter().map(of_file).chain([end]).collect();
    Ok(Some(out))
}

/// The position of ON DUPLICATE KEY UPDATE.
fn duplicate(all: &[Token<'_>]) -> Option<usize> {
    let words = ["on", "duplicate", "key", "update"];
    (0..all.len()).find(|at| begin(&all[*at..], &words))
}

/// Translates a form that only MySQL has, if one comes next; returns its number of tokens.
fn only_mysqls(rest: &[Token<'_>], writer: &mut Writer<'_>) -> usize {
    let at = rest[0].start;
    if begin(rest, &["lock", "in", "share", "mode"]) {
        writer.write("FOR SHARE ", at);
        return 4;
    }
    if rest[0].is("ifnull") && rest.get(1).is_some_and(|t| t.is_sign('(')) {
        writer.write("coalesce", at);
        return 1;
    }
    if rest[0].is("limit") {
        let first = amount(&rest[1..]);
        let comma = rest.get(1 + first).is_some_and(|t| t.is_sign(','));
        let second = amount(rest.get(2 + first..).unwrap_or_default());
        if first > 0 && comma && second > 0 {
            writer.write("LIMIT ", at);
            writer.copy(&rest[2 + first..2 + first + second]);
            writer.write("OFFSET ", at);
            writer.copy(&rest[1..=first]);
            return 2 + first + second;
        }
    }
    0
}

/// The number of tokens of a number or a placeholder.
fn amount(rest: &[Token<'_>]) -> usize {
    let word = |at: usize| matches!(rest.get(at).map(|t| t.part), Some(Part::Word(_)));
    match rest.first() {
        Some(token) if token.is_sign('$') && word(1) => 2,
        Some(_) if word(0) => 1,
        _ => 0,
    }
}

/// The table and the columns of an INSERT.
struct Target<'c> {
    schema: &'c TableSchema,
    defaults: &'c [ColumnDefault],
    /// The columns in its list; all columns if it has none.
    columns: Vec<String>,
}

fn target<'c>(
    all: &[Token<'_>],
    catalog: &'c Catalog,
    span: Span,
) -> Result<Target<'c>, Diagnostic> {
    let wrong = || Diagnostic::new("42P01", "unknown table in this INSERT", span);
    let into = all.iter().position(|t| t.is("into")).ok_or_else(wrong)?;
    let name = all.get(into + 1).and_then(Token::name).ok_or_else(wrong)?;
    let at = catalog
        .tables
        .iter()
        .position(|t| t.name == name)
        .ok_or_else(wrong)?;
    let schema = &catalog.schema.tables[at];
    let mut columns: Vec<String> = schema.columns.iter().map(|c| c.name.clone()).collect();
    if all.get(into + 2).is_some_and(|t| t.is_sign('('))
        && let Some(close) = closing(all, into + 2)
    {
        let named = all[into + 3..close].iter().filter_map(Token::name);
        columns = named.collect();
    }
    Ok(Target {
        schema,
        defaults: &catalog.tables[at].defaults,
        columns,
    })
}

impl Target<'_> {
    /// The key on which a row may conflict: the only one without a generated column.
    fn key(&self, span: Span) -> Result<String, Diagnostic> {
        let unique = self.schema.indexes.iter().filter(|index| index.unique);
        let keys = unique
            .map(|index| &index.columns)
            .chain([&self.schema.primary_key]);
        let taken = |column: &ColumnIndex| {
            let name = &self.schema.columns[column.index()].name;
            let generated = matches!(
                self.defaults[column.index()],
                ColumnDefault::Generated { .. }
            );
            self.columns.contains(name) || !generated
        };
        let keys: Vec<&Vec<ColumnIndex>> = keys
            .filter(|key| !key.is_empty() && key.iter().all(taken))
            .collect();
        let [key] = keys.as_slice() else {
            let message = format!(
                "{} has {} unique keys that a row may be there with",
                self.schema.name,
                keys.len()
            );
            return Err(Diagnostic::new("0A000", message, span)
                .help("more than one key may conflict: write UPDATE and INSERT instead"));
        };
        let names = key
            .iter()
            .map(|c| format!("\"{}\"", self.schema.columns[c.index()].name));
        Ok(names.collect::<Vec<_>>().join(", "))
    }

    /// Writes assignments, with plain column names qualified: they mean the existing row.
    fn assignments(&self, all: &[Token<'_>], writer: &mut Writer<'_>) {
        let mut at = 0;
        let mut assigned = true;
        let mut depth = 0_usize;
        while at < all.len() {
            let token = &all[at];
            let next = |sign: char| all.get(at + 1).is_some_and(|t| t.is_sign(sign));
            let behind = at > 0 && all[at - 1].is_sign('.');
            let name = token.name();
            let column = name.filter(|name| self.schema.columns.iter().any(|c| c.name == *name));
            if token.is("values")
                && next('(')
                && let Some(close) = closing(all, at + 1)
            {
                writer.write("excluded.", token.start);
                writer.copy(&all[at + 2..close]);
                // The text after the bracket is copied with the next token.
                at = close + 1;
                continue;
            }
            match column {
                Some(column) if !assigned && !behind && !next('.') && !next('(') => {
                    writer.write(
                        &format!("\"{}\".\"{column}\" ", self.schema.name),
                        token.start,
                    );
                }
                _ => writer.copy_one(all, at),
            }
            if token.is_sign('(') {
                depth += 1;
            } else if token.is_sign(')') {
                depth = depth.saturating_sub(1);
            } else if token.is_sign('=') && depth == 0 {
                assigned = false;
            } else if token.is_sign(',') && depth == 0 {
                assigned = true;
            }
            at += 1;
        }
    }
}
