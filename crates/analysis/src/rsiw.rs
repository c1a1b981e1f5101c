//! Read-subset-items-written (ramp.txt, §3.4): read-only types that are serializable under RAMP although nothing
//! orders them.
//!
//! Theorem 3.29 is about histories of transactions that only read or only write. A reader has the property if the
//! writer of each version that it reads has written everything that it reads. This module decides both from the
//! statements, before anything runs, and only where they are certain:
//!
//! * A type *only writes* if it finds rows by their key alone and replaces every column of them that any type
//!   changes by values that it has not read. An updated row must exist for good or never (no type inserts into its
//!   table or deletes from it), and an inserted row never changes: else a writer may omit a row that another has
//!   written.
//! * A type reads a subset if it finds each row by its key, from parameters and constants; and wherever a statement
//!   of a writer may access one of these rows, the writer's parameters imply that the same call writes all the
//!   others.
//! * The theorem requires it of all transactions: so the module examines every type that shares a table with the
//!   reader, directly or through other types.
//!
//! It does not handle arrays of keys, ranges, or rows that are found by values read.

use std::collections::BTreeMap;

use anabranch_sql::summary::{ResultUse, Role, Term, WriteClass};
use anabranch_types::{ColumnIndex, TableId};

use crate::footprint::{Action, Footprint};
use crate::partition::condition::Kind;
use crate::plan::ReadSubset;

/// For each type, the read subset that it has, if any.
pub(crate) fn read_subsets(footprint: &Footprint<'_>) -> Vec<Option<ReadSubset>> {
    let count = footprint.types.len();
    let writes_only: Vec<bool> = (0..count).map(|t| writes_only(footprint, t)).collect();
    let reads_subset: Vec<bool> = (0..count)
        .map(|t| reads_subset(footprint, t, &writes_only))
        .collect();
    let subset_of = |reader: usize| {
        if !reads_subset[reader] || touched(footprint, reader).is_empty() {
            return None;
        }
        let mut met = met_by(footprint, reader).into_iter();
        let beside = met.find(|other| !writes_only[*other] && !reads_subset[*other]);
        Some(match beside {
            None => ReadSubset::Serializable,
            Some(other) => ReadSubset::Beside(footprint.type_name(other).to_owned()),
        })
    };
    (0..count).map(subset_of).collect()
}

/// The tables of a type that some type writes.
fn touched(footprint: &Footprint<'_>, owner: usize) -> Vec<TableId> {
    let actions = footprint.types[owner].actions.iter();
    let tables = actions.map(|action| action.access.table);
    let mut written: Vec<TableId> = tables
        .filter(|table| footprint.facts(*table).is_written())
        .collect();
    written.sort_unstable();
    written.dedup();
    written
}

/// The types that share a table with this type, directly or through other types.
fn met_by(footprint: &Footprint<'_>, reader: usize) -> Vec<usize> {
    let mut tables = touched(footprint, reader);
    let mut met = vec![reader];
    loop {
        let shares = |other: &usize| {
            let own = touched(footprint, *other);
            !met.contains(other) && own.iter().any(|table| tables.contains(table))
        };
        let Some(next) = (0..footprint.types.len()).find(shares) else {
            return met;
        };
        met.push(next);
        tables.extend(touched(footprint, next));
    }
}

/// Whether a type certainly writes and does not read.
fn writes_only(footprint: &Footprint<'_>, owner: usize) -> bool {
    let mut actions = footprint.types[owner].actions.iter();
    actions.all(|action| {
        let facts = footprint.facts(action.access.table);
        !facts.is_written() || replaces(footprint, action)
    })
}

/// Whether an action on a table that is written replaces whole rows, independent of their old values.
///
/// Each action is examined by itself, and [`read_subsets`] requires the result of all actions on a table: an INSERT
/// beside an UPDATE is refused here, and so is a DELETE, so that updated rows exist for good or never.
fn replaces(footprint: &Footprint<'_>, action: &Action) -> bool {
    let access = &action.access;
    let (table, facts) = (footprint.table(access.table), footprint.facts(access.table));
    let is_key = |column| table.primary_key.contains(column);
    let parents = &footprint.catalog.tables[access.table.index()].foreign_keys;
    let looks_up = parents
        .iter()
        .any(|key| footprint.facts(key.parent).is_written());
    if action.cascaded || looks_up || action.result != ResultUse::Unused {
        return false;
    }
    let pure = access.writes.iter().all(|write| match &write.class {
        WriteClass::Assign(term) => is_known(term),
        _ => false,
    });
    match access.role {
        Role::Read | Role::Delete => false,
        Role::Insert => {
            let statement = footprint.statement(action.owner, action.statement);
            let always = statement.is_some_and(|statement| !statement.may_skip_rows);
            let stays = facts.updaters.iter().all(Vec::is_empty);
            pure && always && stays
        }
        Role::Update => {
            let by_key = !access.has_other_conditions
                && access.columns_read.iter().all(is_key)
                && access
                    .conditions
                    .iter()
                    .all(|c| is_key(&c.column) && is_known(&c.term));
            let mut changed = (0..).map(ColumnIndex).zip(&facts.updaters);
            let whole = changed.all(|(column, by)| by.is_empty() || action.write(column).is_some());
            pure && by_key && whole
        }
    }
}

/// Whether a value is known before anything is read.
fn is_known(term: &Term) -> bool {
    matches!(
        term,
        Term::Constant(_)
            | Term::Parameter(_)
            | Term::Element(_)
            | Term::Generated
            | Term::Now
            | Term::Negated(_)
            | Term::Pure
    )
}

/// Whether a type certainly reads a subset of what each of its writers writes.
fn reads_subset(footprint: &Footprint<'_>, reader: usize, writes_only: &[bool]) -> bool {
    let actions = &footprint.types[reader].actions;
    let written = |action: &&Action| footprint.facts(action.access.table).is_written();
    let reads: Vec<&Action> = actions.iter().filter(written).collect();
    reads.iter().all(|read| {
        let mut writers = footprint
            .on_table(read.access.table)
            .filter(|action| action.is_write());
        read.access.role == Role::Read
            && key_of(footprint, read).is_some()
            && writers
                .all(|write| writes_only[write.owner] && covers(footprint, write, read, &reads))
    })
}

/// The key of the one row that an action finds, if it consists of parameters and constants.
fn key_of<'a>(footprint: &Footprint<'_>, action: &'a Action) -> Option<Vec<&'a Term>> {
    let table = footprint.table(action.access.table);
    let term = |column: &ColumnIndex| {
        let term = action.fixed(*column)?;
        let is_told = matches!(term, Term::Parameter(_) | Term::Constant(_));
        let kind = Kind::of(&table.columns[column.index()].data_type);
        (is_told && kind.is_some_and(Kind::is_exact)).then_some(term)
    };
    let found: Option<Vec<&Term>> = table.primary_key.iter().map(term).collect();
    found.filter(|key| !key.is_empty())
}

/// Whether a call that writes this row of the reader's writes all rows of the reader.
fn covers(footprint: &Footprint<'_>, write: &Action, read: &Action, reads: &[&Action]) -> bool {
    let keys = (key_of(footprint, write), key_of(footprint, read));
    let (Some(of_write), Some(of_read)) = keys else {
        return false;
    };
    // The writer's parameters if the two access one row, as terms of the reader.
    let mut parameters: BTreeMap<usize, &Term> = BTreeMap::new();
    for (of_write, of_read) in of_write.into_iter().zip(of_read) {
        match (of_write, of_read) {
            (Term::Parameter(parameter), term) => {
                let bound = parameters.entry(*parameter).or_insert(term);
                if *bound != term {
                    return false;
                }
            }
            (Term::Constant(a), Term::Constant(b)) if a != b => return true, // They never meet.
            (constant, term) if constant != term => return false,
            _ => {}
        }
    }
    let writer = &footprint.types[write.owner];
    let is_row = |other: &Action, key: &[&Term]| {
        let same = |(term, wanted): (&Term, &&Term)| match term {
            Term::Parameter(parameter) => parameters.get(parameter) == Some(wanted),
            constant => constant == *wanted,
        };
        key_of(footprint, other).is_some_and(|own| own.into_iter().zip(key).all(same))
    };
    reads.iter().all(|wanted| {
        let Some(key) = key_of(footprint, wanted) else {
            return false;
        };
        writer.actions.iter().any(|other| {
            let together = other.statement == write.statement || always_runs(footprint, other);
            other.is_write()
                && other.access.table == wanted.access.table
                && together
                && is_row(other, &key)
        })
    })
}

/// Whether each committed call has run this action.
fn always_runs(footprint: &Footprint<'_>, action: &Action) -> bool {
    let statement = footprint.statement(action.owner, action.statement);
    !footprint.types[action.owner].summary.may_end_early
        && statement.is_some_and(|statement| statement.path.is_empty())
}
