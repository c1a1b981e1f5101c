//! Queries that find no row in each call that writes: `IF EXISTS (SELECT …) THEN RAISE EXCEPTION …`.
//!
//! A deletion by another transaction does not change what such a call does. Only queries are taken of which a deletion
//! adds no row to the result: of one table, without groups, window functions and subqueries.

use std::collections::BTreeSet;

use super::{Code, CompiledProcedure, Computed};
use crate::{
    catalog::RaiseLevel,
    expression::Expression,
    plan::{
        Body, Query, RowsOf, Select, Step, SubqueryKind,
        statement::{Statement, StatementKind},
    },
};

/// The sites of such queries at the beginning of a procedure, if no other procedure calls it.
pub(super) fn absences(procedure: &CompiledProcedure) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    // The query whose result FOUND tells.
    let mut last = None;
    for code in &procedure.body {
        match code {
            Code::Sql { site, .. } => {
                let statement = &procedure.statements[*site].statement;
                if !matches!(statement.kind, StatementKind::Query(_)) {
                    break;
                }
                last = is_lookup(statement).then_some(*site);
            }
            Code::If {
                branches,
                otherwise,
            } => {
                let ([(condition, body)], []) = (branches.as_slice(), otherwise.as_slice()) else {
                    break;
                };
                if !leaves(body) {
                    break;
                }
                match condition {
                    Computed::Pure(Expression::Variable(slot)) if *slot == procedure.found => {
                        found.extend(last);
                    }
                    Computed::Query { site } => {
                        let statement = &procedure.statements[*site].statement;
                        if tells_existence(statement) {
                            found.insert(*site);
                        }
                        last = None;
                    }
                    Computed::Pure(_) => {}
                }
            }
            _ => break,
        }
    }
    found
}

/// Whether a branch does nothing but fail or return.
pub(super) fn leaves(body: &[Code]) -> bool {
    matches!(
        body,
        [Code::Raise {
            level: RaiseLevel::Exception,
            ..
        } | Code::Return(None)]
    )
}

/// Whether a statement is a query of the rows of one table.
pub(super) fn is_lookup(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Query(query) => {
            statement.ctes.is_empty() && reads_rows(query) && statement.accesses.len() == 1
        }
        _ => false,
    }
}

/// Whether a statement is `SELECT EXISTS (SELECT … FROM t WHERE …)`.
fn tells_existence(statement: &Statement) -> bool {
    let StatementKind::Query(query) = &statement.kind else {
        return false;
    };
    let Some(select) = plain(query) else {
        return false;
    };
    let [Step::Subquery { source, subquery }] = select.steps.as_slice() else {
        return false;
    };
    let [
        Expression::Column {
            depth: 0,
            source: of,
            ..
        },
    ] = select.projection.as_slice()
    else {
        return false;
    };
    of == source
        && statement.ctes.is_empty()
        && statement.accesses.len() == 1
        && matches!(subquery.kind, SubqueryKind::Exists { negated: false })
        && reads_rows(&subquery.query)
}

fn plain(query: &Query) -> Option<&Select> {
    match &query.body {
        Body::Select(select) if query.ctes.is_empty() && select.finish.offset.is_none() => {
            Some(select)
        }
        _ => None,
    }
}

/// Whether each row of the result is a row of one table, and depends on no other row of it.
fn reads_rows(query: &Query) -> bool {
    let is_simple = |step: &Step| match step {
        Step::Filter(_) => true,
        // An outer join may add a row when its other side is deleted.
        Step::Read(read) => !read.join.left,
        Step::Rows { join, .. } => !join.left,
        Step::Query(step) => !step.join.left && matches!(step.rows, RowsOf::Constant { .. }),
        Step::Function(_) | Step::Subquery { .. } | Step::Window(_) | Step::Group { .. } => false,
    };
    let reads = |step: &&Step| matches!(step, Step::Read(_));
    plain(query).is_some_and(|select| {
        select.steps.iter().all(is_simple) && select.steps.iter().filter(reads).count() == 1
    })
}
