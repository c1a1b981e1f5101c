//! The row locks of PostgreSQL, as far as two calls can meet at them.
//!
//! A change of a row locks it, a query with `FOR UPDATE` or one of its weaker forms locks the rows that it returns,
//! and a row that refers to another one locks that other one against deletion (PostgreSQL's manual, *Row-Level
//! Locks*). A lock is held until its transaction ends. What the model cannot say is a [`Wait`] that is not certain.

use anabranch_sql::deferred::Deferrability;
use anabranch_sql::summary::{Comparison, Role, StatementId, StatementSummary};
use anabranch_types::{ColumnIndex, Effect, Key, Row, TableId};

use super::World;
use super::call::Call;
use super::state::{Log, LoggedEffect, State, key_of};

/// The strength of a row lock, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RowLock {
    /// Of a row that another one refers to.
    KeyShare,
    /// `FOR SHARE`.
    Share,
    /// Of an UPDATE that changes no key.
    NoKeyUpdate,
    /// Of a DELETE, and of an UPDATE that changes a key.
    Update,
}

impl RowLock {
    /// Whether two transactions cannot have these locks on one row.
    fn conflicts(self, other: RowLock) -> bool {
        let weaker = self.min(other);
        let stronger = self.max(other);
        match weaker {
            RowLock::KeyShare => stronger == RowLock::Update,
            RowLock::Share => stronger >= RowLock::NoKeyUpdate,
            RowLock::NoKeyUpdate | RowLock::Update => true,
        }
    }
}

/// A lock that a call takes.
#[derive(Clone, Debug)]
struct Taken {
    table: TableId,
    key: Key,
    lock: RowLock,
    /// How many statements of the call had ended before.
    at: usize,
    statement: StatementId,
    /// Whether it is taken once the statement has done its work, for a row that refers to this one.
    is_reference: bool,
    /// `None`: it is certain. Otherwise, why it is not.
    doubt: Option<&'static str>,
}

/// Where a call waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wait {
    /// How many of its statements have ended before.
    pub(super) ended: usize,
    /// Whether the statement has done its work and waits to check a foreign key: it is not run again afterwards.
    pub(super) is_reference: bool,
    /// The statement.
    pub(super) statement: StatementId,
    /// `None`: it waits. Otherwise, why that is not certain.
    pub(super) doubt: Option<&'static str>,
}

const CONDITIONS: &str =
    "which rows a query locks is known only of queries for one row by its whole key";
const CLAUSES: &str = "NOWAIT, SKIP LOCKED, OF or a condition decides whether a query waits, and the model does not \
                       follow them";
const CONDITION_BEFORE: &str =
    "a condition is evaluated before the statement that waits, and the model takes both for one";
const REPLACED: &str = "the row that a statement waits for is deleted, and PostgreSQL does not look at the one in its place";
const CONFLICT: &str =
    "ON CONFLICT meets a row that the other call changes, which the model does not follow";
const DEFERRED: &str = "a foreign key that is checked at COMMIT locks a row only then";

/// The lock of a query's text: its strength, and whether the clause says more.
fn clause(text: &str) -> Option<(RowLock, bool)> {
    let words: Vec<String> = without_quoted(text)
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let mut found: Option<(RowLock, bool)> = None;
    for (place, word) in words.iter().enumerate() {
        if word != "for" {
            continue;
        }
        let behind: Vec<&str> = words[place + 1..].iter().map(String::as_str).collect();
        let (lock, rest) = match behind.as_slice() {
            ["update", rest @ ..] => (RowLock::Update, rest),
            ["no", "key", "update", rest @ ..] => (RowLock::NoKeyUpdate, rest),
            ["share", rest @ ..] => (RowLock::Share, rest),
            ["key", "share", rest @ ..] => (RowLock::KeyShare, rest),
            _ => continue,
        };
        // A span may cover statements of a procedure behind a condition.
        let is_behind = words[..place]
            .iter()
            .any(|word| word == "then" || word == "loop");
        let says_more =
            matches!(rest, ["of" | "nowait" | "skip", ..]) || found.is_some() || is_behind;
        found = Some((lock, says_more));
    }
    found
}

/// The text without comments, string constants and quoted names.
fn without_quoted(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let end = match rest {
            _ if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            _ if next == '\'' || next == '"' => {
                rest[1..].find(next).map_or(rest.len(), |at| at + 2)
            }
            _ => {
                kept.push(next);
                rest = &rest[next.len_utf8()..];
                continue;
            }
        };
        kept.push(' ');
        rest = &rest[end..];
    }
    kept
}

/// Whether a query locks the rows that it finds.
pub(super) fn locks(text: &str) -> bool {
    clause(text).is_some()
}

impl World<'_> {
    /// The summary of a statement of a call.
    pub(super) fn summary_of(
        &self,
        procedure: usize,
        statement: StatementId,
    ) -> Option<&StatementSummary> {
        let summary = &self.application.summaries()[procedure];
        summary.statements.iter().find(|s| s.id == statement)
    }

    /// Whether a statement touches one row, which its whole key finds: the model then knows what PostgreSQL does with
    /// it after a wait.
    pub(super) fn finds_one_row(&self, procedure: usize, statement: StatementId) -> bool {
        let Some(summary) = self.summary_of(procedure, statement) else {
            return false;
        };
        let [access] = summary.accesses.as_slice() else {
            return false;
        };
        let key = &self.schema().table(access.table).primary_key;
        let fixed = |column: &ColumnIndex| {
            let mut conditions = access.conditions.iter();
            conditions.any(|c| c.column == *column && c.comparison == Comparison::Equal)
        };
        access.role == Role::Insert || !key.is_empty() && key.iter().all(fixed)
    }

    /// Where the second of two calls on one snapshot has to wait for the first.
    pub(super) fn waits(
        &self,
        [one, two]: [&Call; 2],
        [after_one, after_two]: [&State; 2],
        [first, second]: [&Log; 2],
    ) -> Option<Wait> {
        let held = self.taken(one, after_one, first);
        let mut waiting: Vec<Wait> = Vec::new();
        for own in self.taken(two, after_two, second) {
            let met = held.iter().filter(|other| {
                (other.table, &other.key) == (own.table, &own.key) && other.lock.conflicts(own.lock)
            });
            // One certain lock is enough to wait for.
            let doubt = met.map(|other| own.doubt.or(other.doubt)).min();
            let is_replaced = || {
                let mut effects = first.effects.iter();
                effects.any(|done| {
                    matches!(done.effect, Effect::Delete { .. })
                        && (done.effect.table(), done.effect.key()) == (own.table, &own.key)
                }) && after_one.of_table(own.table).contains_key(&own.key)
            };
            let doubt = doubt.map(|doubt| doubt.or_else(|| is_replaced().then_some(REPLACED)));
            waiting.extend(doubt.map(|doubt| Wait {
                ended: own.at,
                is_reference: own.is_reference,
                statement: own.statement,
                doubt,
            }));
        }
        for done in &second.effects {
            let table = done.effect.table();
            if let (Effect::Insert { .. }, Some(row)) = (&done.effect, &done.after)
                && self.is_taken(first, table, row)
            {
                waiting.push(Wait {
                    ended: done.at,
                    is_reference: false,
                    statement: done.statement,
                    doubt: None,
                });
            }
        }
        // An INSERT that has inserted nothing has met a row: of those, no effect tells.
        for (at, result) in second.results.iter().enumerate() {
            let summary = self.summary_of(two.procedure, result.statement);
            let accesses = summary.map_or(&[][..], |summary| &summary.accesses);
            let mut inserts = accesses.iter().filter(|access| access.role == Role::Insert);
            let meets = inserts.any(|access| {
                let mut effects = first.effects.iter().map(|done| &done.effect);
                effects.any(|effect| {
                    effect.table() == access.table && !matches!(effect, Effect::Insert { .. })
                })
            });
            if result.count == 0 && meets {
                waiting.push(Wait {
                    ended: at,
                    is_reference: false,
                    statement: result.statement,
                    doubt: Some(CONFLICT),
                });
            }
        }
        let mut wait = waiting.into_iter().min()?;
        // What a condition has read before is not read again.
        let mut seen = second.seen.iter();
        if seen.any(|seen| seen.at == wait.ended && seen.statement != wait.statement) {
            wait.doubt = wait.doubt.or(Some(CONDITION_BEFORE));
        }
        Some(wait)
    }

    /// The locks that a call takes.
    fn taken(&self, call: &Call, after: &State, log: &Log) -> Vec<Taken> {
        let mut taken = Vec::new();
        for seen in &log.seen {
            let Some((lock, says_more)) = self.clause_of(call.procedure, seen.statement) else {
                continue;
            };
            let result = log.results.get(seen.at);
            let result = result.filter(|result| result.statement == seen.statement);
            let is_known = self.finds_one_row(call.procedure, seen.statement);
            // A row that a further condition leaves out is not locked.
            if is_known && result.is_some_and(|result| result.count == 0) {
                continue;
            }
            let doubt = match (says_more, is_known && result.is_some()) {
                (true, _) => Some(CLAUSES),
                (false, true) => None,
                (false, false) => Some(CONDITIONS),
            };
            let table = self.schema().table(seen.table);
            let keys = seen.rows.iter().filter_map(|row| key_of(table, row));
            taken.extend(keys.map(|key| Taken {
                table: seen.table,
                key,
                lock,
                at: seen.at,
                statement: seen.statement,
                is_reference: false,
                doubt,
            }));
        }
        for done in &log.effects {
            let lock = match &done.effect {
                Effect::Insert { .. } => None,
                Effect::Update { .. } if !self.changes_key(done) => Some(RowLock::NoKeyUpdate),
                _ => Some(RowLock::Update),
            };
            taken.extend(lock.map(|lock| Taken {
                table: done.effect.table(),
                key: done.effect.key().clone(),
                lock,
                at: done.at,
                statement: done.statement,
                is_reference: false,
                doubt: None,
            }));
            self.references(done, after, &mut taken);
        }
        taken
    }

    /// The locking clause of a statement of a call.
    fn clause_of(&self, procedure: usize, statement: StatementId) -> Option<(RowLock, bool)> {
        let summary = self.summary_of(procedure, statement)?;
        let span = summary.span;
        if let Some(client) = self.client_of.get(&procedure) {
            let statements = client.statements();
            let mut covering = statements.iter().filter(|written| written.covers(span));
            return covering.find_map(|written| clause(&written.text));
        }
        let file = self.catalog().files.get(usize::from(span.file))?;
        let own = file.text.get(span.start as usize..span.end as usize)?;
        // A statement's span may end before its last clause.
        let behind = file.text.get(span.end as usize..)?;
        let behind = behind.split(';').next().unwrap_or_default();
        let word = behind.split_whitespace().next().unwrap_or_default();
        let is_clause = ["for", "of", "nowait", "skip"]
            .iter()
            .any(|first| word.eq_ignore_ascii_case(first));
        match is_clause {
            true => clause(&format!("{own}{behind}")),
            false => clause(own),
        }
    }

    /// Whether an UPDATE changes a column that a foreign key can refer to.
    fn changes_key(&self, done: &LoggedEffect) -> bool {
        let (Some(before), Some(after)) = (&done.before, &done.after) else {
            return true;
        };
        let table = self.schema().table(done.effect.table());
        let unique = table.indexes.iter().filter(|index| index.unique);
        let keys = unique.map(|index| &index.columns);
        let mut columns = keys.chain([&table.primary_key]).flatten();
        columns
            .any(|column| before.get(&table.layout, *column) != after.get(&table.layout, *column))
    }

    /// The locks on the rows that a new row, or a change of its foreign keys, refers to.
    fn references(&self, done: &LoggedEffect, after: &State, taken: &mut Vec<Taken>) {
        let Some(row) = &done.after else {
            return;
        };
        let child = self.schema().table(done.effect.table());
        for reference in &self.catalog().table(child.id).foreign_keys {
            let value = |row: &Row, column: &ColumnIndex| row.get(&child.layout, *column);
            let refers = |row: &Row| -> Vec<_> {
                reference
                    .columns
                    .iter()
                    .map(|column| value(row, column))
                    .collect()
            };
            let wanted = refers(row);
            let is_null = reference
                .columns
                .iter()
                .any(|c| row.is_null(&child.layout, *c));
            if is_null
                || done
                    .before
                    .as_ref()
                    .is_some_and(|before| refers(before) == wanted)
            {
                continue;
            }
            let parent = self.schema().table(reference.parent);
            for found in after.of_table(parent.id).values() {
                let columns = reference.parent_columns.iter();
                let there: Vec<_> = columns.map(|c| found.get(&parent.layout, *c)).collect();
                let Some(key) = key_of(parent, found).filter(|_| there == wanted) else {
                    continue;
                };
                taken.push(Taken {
                    table: parent.id,
                    key,
                    lock: RowLock::KeyShare,
                    at: done.at,
                    statement: done.statement,
                    is_reference: true,
                    doubt: (reference.deferrability != Deferrability::NotDeferrable)
                        .then_some(DEFERRED),
                });
            }
        }
    }

    /// Whether a row has a key that a row of this call has got.
    fn is_taken(&self, first: &Log, table: TableId, row: &Row) -> bool {
        let table = self.schema().table(table);
        let value = |row: &Row, c: &ColumnIndex| row.get(&table.layout, *c);
        let unique = table.indexes.iter().filter(|index| index.unique);
        let keys: Vec<&Vec<ColumnIndex>> = unique
            .map(|index| &index.columns)
            .chain([&table.primary_key])
            .filter(|columns| !columns.is_empty())
            .filter(|columns| !columns.iter().any(|c| row.is_null(&table.layout, *c)))
            .collect();
        let mut effects = first.effects.iter();
        effects.any(|done| {
            let Some(other) = done
                .after
                .as_ref()
                .filter(|_| done.effect.table() == table.id)
            else {
                return false;
            };
            keys.iter().any(|columns| {
                let has = |other: &Row| columns.iter().all(|c| value(other, c) == value(row, c));
                has(other) && !done.before.as_ref().is_some_and(has)
            })
        })
    }
}
