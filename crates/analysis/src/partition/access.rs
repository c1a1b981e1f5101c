//! Read sets and write sets: which columns of which rows a type may read and write, in any execution.
//!
//! A statement's summary lists its own accesses; the footprint adds the actions of foreign keys. This module adds
//! the database's own reads: of unique keys, of rows that foreign keys refer to or are referred to by, of columns
//! that a CHECK compares with written ones, and of the tables of assertions that are evaluated before the
//! transaction commits.

use anabranch_sql::catalog::{ForeignKey, ReferentialAction};
use anabranch_sql::summary::{Comparison, Role, StatementId, Term, WriteClass};
use anabranch_types::{ColumnIndex, TableId, Value};

use super::condition::Demand;
use crate::assertion::Atom;
use crate::footprint::{Action, Footprint};
use crate::guard::KeyedGuard;
use crate::invariant::{Content, Declared};

/// The part of its rows that an access concerns.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AccessedPart {
    /// Columns of rows, whether rows exist, or both.
    Row {
        columns: Vec<ColumnIndex>,
        rows: bool,
    },
    /// A guard, by its item's name.
    Guard(String),
}

/// An entry of a read set or of a write set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Access {
    pub(super) owner: usize,
    /// The statement that stores generated values, if any.
    pub(super) statement: Option<StatementId>,
    /// The statement and its access that find the row, if conditions on its own columns find it.
    pub(super) found_by: Option<(StatementId, usize)>,
    pub(super) table: TableId,
    pub(super) writes: bool,
    /// Whether it inserts rows: two inserts meet on keys alone, which both look up.
    pub(super) inserts: bool,
    pub(super) part: AccessedPart,
    pub(super) demands: Vec<Demand>,
}

/// Everything that every type reads and writes. `evaluated` lists per type the invariants that it evaluates before
/// it commits.
pub(crate) fn all(
    footprint: &Footprint<'_>,
    declared: &[Declared],
    evaluated: &[Vec<usize>],
) -> Vec<Access> {
    let mut found = Vec::new();
    for action in footprint.actions() {
        let mut of_action = Collector {
            footprint,
            action,
            found: Vec::new(),
        };
        match action.access.role {
            Role::Read => of_action.read(),
            Role::Insert => of_action.insert(),
            Role::Update => of_action.update(declared),
            Role::Delete => of_action.delete(),
        }
        found.append(&mut of_action.found);
    }
    for (owner, invariants) in evaluated.iter().enumerate() {
        for invariant in invariants {
            let Content::Assertion(formula) = &declared[*invariant].content else {
                continue;
            };
            let tables = formula.clauses.iter().flat_map(|c| &c.tables);
            found.extend(tables.map(|table| Access {
                owner,
                statement: None,
                found_by: None,
                table: *table,
                writes: false,
                inserts: false,
                part: AccessedPart::Row {
                    columns: columns(footprint, *table),
                    rows: true,
                },
                demands: Vec::new(),
            }));
        }
    }
    // Many statements of a type access the same in the same way.
    let mut once: Vec<Access> = Vec::new();
    let mut first = 0;
    for access in found {
        if once.get(first).is_some_and(|a| a.owner != access.owner) {
            first = once.len();
        }
        if !once[first..].contains(&access) {
            once.push(access);
        }
    }
    once
}

/// The guards of types as accesses that conflict if their names are equal.
pub(crate) fn guards(held: &[Vec<KeyedGuard>]) -> Vec<Access> {
    let of = |(owner, held): (usize, &Vec<KeyedGuard>)| {
        let access = |held: &KeyedGuard| Access {
            owner,
            statement: None,
            found_by: None,
            table: held.guard.table,
            writes: true,
            inserts: false,
            part: AccessedPart::Guard(held.guard.item.clone()),
            demands: held
                .guard
                .key
                .iter()
                .zip(&held.terms)
                .map(|(key, term)| Demand {
                    column: key.column,
                    comparison: None,
                    term: term.clone(),
                })
                .collect(),
        };
        held.iter().map(access).collect::<Vec<_>>()
    };
    held.iter().enumerate().flat_map(of).collect()
}

fn columns(footprint: &Footprint<'_>, table: TableId) -> Vec<ColumnIndex> {
    let count = footprint.table(table).columns.len();
    (0..count).map(|c| ColumnIndex(c as u16)).collect()
}

/// Collects the accesses of one action.
struct Collector<'a> {
    footprint: &'a Footprint<'a>,
    action: &'a Action,
    found: Vec<Access>,
}

impl Collector<'_> {
    /// Adds an access to rows that satisfy these demands.
    fn push(&mut self, table: TableId, writes: bool, part: AccessedPart, demands: Vec<Demand>) {
        let generates = demands.iter().any(|d| d.term == Term::Generated);
        self.found.push(Access {
            owner: self.action.owner,
            statement: generates.then_some(self.action.statement),
            found_by: None,
            table,
            writes,
            inserts: writes && self.action.access.role == Role::Insert,
            part,
            demands,
        });
    }

    /// Adds an access to the rows that the statement finds.
    fn push_found(&mut self, writes: bool, part: AccessedPart) {
        let (statement, place) = (self.action.statement, self.action.place);
        let demands = self.found_by();
        // A row may be compared with a column of its own.
        let own = demands.iter().any(|demand| {
            matches!(demand.term, Term::Column { statement: s, access: a, .. }
                if s == statement && a == place)
        });
        self.push(self.action.access.table, writes, part, demands);
        if let Some(access) = self.found.last_mut() {
            access.found_by = (own && !self.action.cascaded).then_some((statement, place));
        }
    }

    /// The demands of the WHERE clause.
    fn found_by(&self) -> Vec<Demand> {
        let conditions = self.action.access.conditions.iter();
        let demand = |c: &anabranch_sql::summary::Condition| Demand {
            column: c.column,
            comparison: Some(c.comparison),
            term: c.term.clone(),
        };
        conditions.map(demand).collect()
    }

    /// Columns that are read to find the rows, and those read for other uses.
    fn columns_read(&self) -> Vec<ColumnIndex> {
        let access = &self.action.access;
        let mut columns = access.columns_read.clone();
        columns.extend(&access.columns_returned);
        columns.extend(access.conditions.iter().map(|c| c.column));
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    fn read(&mut self) {
        let part = AccessedPart::Row {
            columns: self.columns_read(),
            rows: true,
        };
        self.push_found(false, part);
    }

    fn insert(&mut self) {
        let table = self.action.access.table;
        let all = columns(self.footprint, table);
        let demands = all.iter().filter_map(|c| self.stored(*c)).collect();
        let part = AccessedPart::Row {
            columns: all.clone(),
            rows: true,
        };
        self.push(table, true, part, demands);
        self.keys(&all);
        self.parents(&all);
    }

    fn update(&mut self, declared: &[Declared]) {
        self.read();
        let table = self.action.access.table;
        let written: Vec<ColumnIndex> =
            self.action.access.writes.iter().map(|w| w.column).collect();
        let part = AccessedPart::Row {
            columns: written.clone(),
            rows: false,
        };
        self.push_found(true, part);
        let compared = compared_with(declared, table, &written);
        if !compared.is_empty() {
            let part = AccessedPart::Row {
                columns: compared,
                rows: false,
            };
            self.push_found(false, part);
        }
        self.keys(&written);
        self.parents(&written);
        self.children(Some(&written));
    }

    fn delete(&mut self) {
        self.read();
        let table = self.action.access.table;
        let part = AccessedPart::Row {
            columns: columns(self.footprint, table),
            rows: true,
        };
        self.push_found(true, part);
        self.children(None);
    }

    /// The value of a column after the write, if it is known.
    fn stored(&self, column: ColumnIndex) -> Option<Demand> {
        match self.action.write(column) {
            Some(write) => match &write.class {
                WriteClass::Assign(term) => Some(Demand {
                    column,
                    comparison: None,
                    term: term.clone(),
                }),
                _ => None,
            },
            None => Some(Demand {
                column,
                comparison: Some(Comparison::Equal),
                term: self.action.fixed(column)?.clone(),
            }),
        }
    }

    /// Looks up each key that is written: another row may have it.
    fn keys(&mut self, written: &[ColumnIndex]) {
        let table = self.action.access.table;
        let schema = self.footprint.table(table);
        let unique = schema.indexes.iter().filter(|i| i.unique);
        let keys = [&schema.primary_key]
            .into_iter()
            .chain(unique.map(|i| &i.columns))
            .filter(|key| key.iter().any(|c| written.contains(c)));
        for key in keys.cloned().collect::<Vec<_>>() {
            let demands = key.iter().filter_map(|c| self.stored(*c)).collect();
            let part = AccessedPart::Row {
                columns: key,
                rows: true,
            };
            self.push(table, false, part, demands);
        }
    }

    /// Reads the rows that written columns refer to.
    fn parents(&mut self, written: &[ColumnIndex]) {
        let table = self.action.access.table;
        let footprint = self.footprint;
        let keys = footprint.catalog.tables[table.index()].foreign_keys.iter();
        for key in keys.filter(|key| key.columns.iter().any(|c| written.contains(c))) {
            let stored: Vec<Option<Demand>> = key.columns.iter().map(|c| self.stored(*c)).collect();
            let is_null = |d: &Option<Demand>| {
                let null = |d: &Demand| d.term == Term::Constant(Value::Null);
                d.as_ref().is_some_and(null)
            };
            if stored.iter().any(is_null) {
                continue; // It refers to nothing.
            }
            let demands = stored.into_iter().zip(&key.parent_columns);
            let demands = demands.filter_map(|(demand, column)| {
                let term = demand?.term;
                let has_term = term != Term::Generated; // Its own column says which one.
                has_term.then_some(Demand {
                    column: *column,
                    comparison: Some(Comparison::Equal),
                    term,
                })
            });
            let part = AccessedPart::Row {
                columns: key.parent_columns.clone(),
                rows: true,
            };
            let demands = demands.collect();
            self.push(key.parent, false, part, demands);
        }
    }

    /// Reads the rows that refer to deleted rows, or to written keys. A change by a foreign key's action is an
    /// action of its own.
    fn children(&mut self, written: Option<&[ColumnIndex]>) {
        let table = self.action.access.table;
        let footprint = self.footprint;
        let refuses = |key: &ForeignKey| {
            let action = match written {
                None => key.on_delete,
                Some(_) => key.on_update,
            };
            matches!(
                action,
                ReferentialAction::NoAction | ReferentialAction::Restrict
            )
        };
        let touches = |key: &ForeignKey| {
            let changed = |c: &ColumnIndex| written.is_none_or(|w| w.contains(c));
            key.parent == table && key.parent_columns.iter().any(changed)
        };
        for child in &footprint.catalog.tables {
            let keys = child.foreign_keys.iter();
            for key in keys.filter(|key| refuses(key) && touches(key)) {
                let columns = key.columns.iter().zip(&key.parent_columns);
                let demands = columns.filter_map(|(column, of_parent)| {
                    Some(Demand {
                        column: *column,
                        comparison: Some(Comparison::Equal),
                        term: self.action.fixed(*of_parent)?.clone(),
                    })
                });
                let demands = demands.collect();
                let part = AccessedPart::Row {
                    columns: key.columns.clone(),
                    rows: true,
                };
                self.push(child.id, false, part, demands);
            }
        }
    }
}

/// The columns that CHECK conditions of the table compare with written ones.
fn compared_with(
    declared: &[Declared],
    table: TableId,
    written: &[ColumnIndex],
) -> Vec<ColumnIndex> {
    let atoms = declared.iter().filter_map(|d| match &d.content {
        Content::Row {
            table: of, atoms, ..
        } if *of == table => Some(atoms),
        _ => None,
    });
    let mut columns: Vec<ColumnIndex> = Vec::new();
    for atom in atoms.flatten() {
        if let Atom::Several(several) = atom
            && several.iter().any(|c| written.contains(c))
        {
            columns.extend(several);
        }
    }
    columns.sort_unstable();
    columns.dedup();
    columns
}
