//! Binds WITH, before statements that change data and with such statements in it.
//!
//! A query in a WITH is bound and runs as a query. A statement that changes data in a WITH becomes a part of a compound
//! statement (see [`crate::execute::compound`]), and a statement of its own for the analyser; its RETURNING gives rows of
//! opaque values to the statements after it.

use std::{collections::BTreeSet, sync::OnceLock};

use anabranch_types::ColumnIndex;
use sqlparser::ast::{self, SetExpr};

use super::{
    Bind, Binder, CteReference, RawAccess, RawWrite, VisibleCte, fold,
    modify::{Shared, changed_columns},
    term::RawTerm,
};
use crate::{
    diagnostic::Diagnostic,
    plan::{
        Query,
        statement::{CompoundKind, CompoundStatement, Statement, StatementKind},
    },
    source::Span,
};

/// What [`Binder::refuse_outer_reference`] refuses.
pub(super) const OUTER_REFERENCE: &str = "a common table expression that refers to an outer query";

/// Whether a query changes data: after its WITH, or in one.
pub(crate) fn changes_data(query: &ast::Query) -> bool {
    let in_with = query.with.iter().flat_map(|with| &with.cte_tables);
    changing(&query.body).is_some() || in_with.into_iter().any(|cte| changes_data(&cte.query))
}

/// A statement that changes data, as a query has it.
fn changing(body: &SetExpr) -> Option<&ast::Statement> {
    match body {
        SetExpr::Insert(statement)
        | SetExpr::Update(statement)
        | SetExpr::Delete(statement)
        | SetExpr::Merge(statement) => Some(statement),
        _ => None,
    }
}

impl Binder<'_> {
    /// The common table expressions of a query.
    pub(super) fn with(&mut self, with: &ast::With) -> Bind<Vec<(usize, Query)>> {
        self.refuse_repeated_names(with)?;
        if with.recursive {
            return self.with_recursive(with);
        }
        let mut ctes = Vec::new();
        for cte in &with.cte_tables {
            ctes.push(self.reading(with, cte)?);
        }
        Ok(ctes)
    }

    fn refuse_repeated_names(&self, with: &ast::With) -> Bind<()> {
        let mut names = BTreeSet::new();
        for cte in &with.cte_tables {
            let name = fold(&cte.alias.name);
            if names.contains(&name) {
                let message = format!("WITH query name \"{name}\" specified more than once");
                return Err(self.error("42712", message, &cte.alias));
            }
            names.insert(name);
        }
        Ok(())
    }

    /// A common table expression that is a query.
    pub(super) fn reading(&mut self, with: &ast::With, cte: &ast::Cte) -> Bind<(usize, Query)> {
        if changes_data(&cte.query) {
            let message =
                "WITH clause containing a data-modifying statement must be at the top level";
            return Err(self.error("0A000", message, &cte.alias));
        }
        let query = self.query(&cte.query)?;
        if query.correlated {
            self.refuse_outer_reference(with)?;
        }
        let number = self.visible(with, cte, query.columns.clone())?;
        Ok((number, query))
    }

    /// Refuses a common table expression that refers to an outer query. In a scalar subquery the refusal is that of the
    /// subquery's value: drivers ask the catalogs for the base types of domains so, in a branch of a CASE that no type
    /// takes.
    pub(super) fn refuse_outer_reference(&mut self, with: &ast::With) -> Bind<()> {
        match &mut self.refused_later {
            Some(refused) => *refused = true,
            None => return Err(self.unsupported(OUTER_REFERENCE, with)),
        }
        Ok(())
    }

    /// Names a common table expression, and returns its number.
    pub(super) fn visible(
        &mut self,
        with: &ast::With,
        cte: &ast::Cte,
        mut columns: Vec<super::OutputColumn>,
    ) -> Bind<usize> {
        if cte.alias.columns.len() > columns.len() {
            let message = format!(
                "WITH query \"{}\" has {} columns available but {} columns specified",
                fold(&cte.alias.name),
                columns.len(),
                cte.alias.columns.len()
            );
            return Err(self.error("42P10", message, with));
        }
        for (column, alias) in columns.iter_mut().zip(&cte.alias.columns) {
            column.0 = fold(&alias.name);
        }
        let number = self.cte_count;
        self.cte_count += 1;
        self.ctes.push(VisibleCte {
            name: fold(&cte.alias.name),
            rows: CteReference::Number(number),
            columns,
        });
        Ok(number)
    }

    /// A query that [`changes_data`].
    pub(crate) fn changing(&mut self, query: &ast::Query, shared: &Shared<'_>) -> Bind<Statement> {
        let mut ctes = Vec::new();
        let mut parts = Vec::new();
        let mut numbers = Vec::new();
        if let Some(with) = &query.with {
            self.refuse_repeated_names(with)?;
            let into_types = std::mem::take(&mut self.into_types);
            let is_reading = |cte: &ast::Cte| changing(&cte.query.body).is_none();
            if with.recursive {
                if !with.cte_tables.iter().all(is_reading) {
                    let construct = "WITH RECURSIVE with a statement that changes data";
                    return Err(self.unsupported(construct, with));
                }
                ctes = self.with_recursive(with)?;
            }
            let tables = with.cte_tables.iter().filter(|_| !with.recursive);
            for cte in tables {
                let Some(statement) = changing(&cte.query.body) else {
                    ctes.push(self.reading(with, cte)?);
                    continue;
                };
                if cte.query.with.is_some() {
                    return Err(self.unsupported("a WITH in a WITH that changes data", with));
                }
                let part = self.apart(statement, shared)?;
                if matches!(part.kind, StatementKind::Compound(_)) {
                    return Err(self.unsupported("a MERGE in a WITH", with));
                }
                numbers.push(self.visible(with, cte, part.columns.clone())?);
                if part.columns.is_empty()
                    && let Some(visible) = self.ctes.last_mut()
                {
                    let message = format!(
                        "WITH query \"{}\" does not have a RETURNING clause",
                        visible.name
                    );
                    visible.rows = CteReference::Refused("0A000", message);
                }
                parts.push(part);
            }
            self.into_types = into_types;
        }
        let mut last = match changing(&query.body) {
            Some(statement) => self.apart(statement, shared)?,
            None => {
                let mut rest = query.clone();
                rest.with = None;
                let bound = self.query(&rest)?;
                Statement::query(bound, std::mem::take(&mut self.accesses), self.place)
            }
        };
        // The accesses of the queries.
        let behind = last.accesses.len();
        let read = std::mem::take(&mut self.accesses).into_iter();
        last.accesses
            .extend(read.map(|access| shifted(access, behind)));
        match &mut last.kind {
            StatementKind::Query(query) => {
                query.ctes.splice(0..0, ctes);
            }
            _ => last.ctes = ctes,
        }
        if parts.is_empty() {
            return Ok(last);
        }
        if matches!(last.kind, StatementKind::Compound(_)) {
            let construct = "a MERGE behind a WITH that changes data";
            return Err(Diagnostic::unsupported(construct, self.place));
        }
        parts.push(last);
        if let Some(table) = conflicting_beside_a_change(&parts) {
            let construct = format!(
                "ON CONFLICT of \"{table}\" beside a part of the WITH that inserts into it, deletes from it or changes the key"
            );
            let help = "write them as statements of their own, in a transaction";
            return Err(Diagnostic::unsupported(construct, self.place).help(help));
        }
        let kind = CompoundKind::With { numbers };
        Ok(several(kind, parts, self.place))
    }

    /// Binds a statement that changes data, in a binder of its own.
    fn apart(&mut self, statement: &ast::Statement, shared: &Shared<'_>) -> Bind<Statement> {
        let accesses = std::mem::take(&mut self.accesses);
        let bound = match statement {
            ast::Statement::Insert(insert) => self.insert(insert, shared),
            ast::Statement::Update(update) => self.update(update, shared),
            ast::Statement::Delete(delete) => self.delete(delete),
            ast::Statement::Merge(merge) => self.merge(merge, shared),
            other => Err(self.unsupported("this statement in a WITH", other)),
        };
        self.accesses = accesses;
        self.scopes.clear();
        bound
    }
}

/// The table into which one part inserts unless there is a conflict, while another may add or remove what it would
/// conflict with: that is not there yet when conflicts are looked for.
fn conflicting_beside_a_change(parts: &[Statement]) -> Option<&str> {
    parts.iter().enumerate().find_map(|(place, part)| {
        let StatementKind::Insert(insert) = &part.kind else {
            return None;
        };
        let conflict = insert.conflict.as_ref()?;
        let table = &insert.schema;
        let is_arbiter = |column: &ColumnIndex| {
            let mut arbiters = conflict.arbiters.iter();
            arbiters.any(|arbiter| table.key_columns(*arbiter).contains(column))
        };
        let disturbs = |other: &Statement| match &other.kind {
            StatementKind::Insert(other) => other.schema.id == table.id,
            StatementKind::Delete(other) => other.schema.id == table.id,
            StatementKind::Update(other) => {
                let named = other.assignments.iter().map(|(column, _)| column);
                let changed = changed_columns(named, &other.computed);
                other.schema.id == table.id && changed.iter().any(is_arbiter)
            }
            StatementKind::Query(_) | StatementKind::Compound(_) => false,
        };
        let mut others = parts.iter().enumerate();
        others
            .any(|(other, of)| other != place && disturbs(of))
            .then_some(table.name.as_str())
    })
}

/// A compound statement, with the result of the last part.
pub(super) fn several(kind: CompoundKind, mut parts: Vec<Statement>, place: Span) -> Statement {
    let mut accesses: Vec<RawAccess> = Vec::new();
    let (mut columns, mut terms) = (Vec::new(), Vec::new());
    for part in &mut parts {
        let first = accesses.len();
        let moved = part.accesses.drain(..);
        accesses.extend(moved.map(|access| shifted(access, first)));
        columns = part.columns.clone();
        terms = std::mem::take(&mut part.terms);
        terms.iter_mut().for_each(|term| shift(term, first));
    }
    Statement {
        kind: StatementKind::Compound(CompoundStatement { kind, parts }),
        ctes: Vec::new(),
        columns,
        accesses,
        terms,
        span: place,
        draws: OnceLock::new(),
    }
}

/// An access of a part as one of the whole statement, after `first` others.
fn shifted(mut access: RawAccess, first: usize) -> RawAccess {
    for (_, _, term) in &mut access.conditions {
        shift(term, first);
    }
    for (_, write) in &mut access.writes {
        match write {
            RawWrite::Assign(term) => shift(term, first),
            RawWrite::Add { term, null_by, .. } => {
                let null_by = null_by.iter_mut().flatten();
                null_by.chain([term]).for_each(|term| shift(term, first));
            }
            RawWrite::FromRow { .. } | RawWrite::FromData => {}
        }
    }
    access
}

fn shift(term: &mut RawTerm, first: usize) {
    match term {
        RawTerm::Column { access, .. }
        | RawTerm::Aggregate {
            access: Some(access),
            ..
        } => *access += first,
        _ => {}
    }
}
