//! Visits every expression of a plan.

use super::{
    Body, FunctionStep, Join, Path, Query, RowsOf, Select, Step, SubqueryKind, TableRead,
    statement::{Statement, StatementKind},
};
use crate::expression::Expression;

/// Calls `visit` with every expression of a statement, nested queries included.
pub(crate) fn statement<'s>(statement: &'s Statement, visit: &mut dyn FnMut(&'s Expression)) {
    statement.ctes.iter().for_each(|(_, cte)| query(cte, visit));
    match &statement.kind {
        StatementKind::Query(of) => query(of, visit),
        StatementKind::Insert(insert) => {
            query(&insert.query, visit);
            if let Some(update) = insert.conflict.as_ref().and_then(|c| c.update.as_ref()) {
                update.assignments.iter().for_each(|(_, e)| visit(e));
                update.condition.iter().for_each(&mut *visit);
            }
            insert.returning.iter().flatten().for_each(visit);
        }
        StatementKind::Update(update) => {
            steps(&update.steps, visit);
            update.assignments.iter().for_each(|(_, e)| visit(e));
            update.returning.iter().flatten().for_each(visit);
        }
        StatementKind::Delete(delete) => {
            steps(&delete.steps, visit);
            delete.returning.iter().flatten().for_each(visit);
        }
        StatementKind::Compound(several) => several
            .parts
            .iter()
            .for_each(|part| self::statement(part, visit)),
    }
}

/// Whether a statement draws numbers ([`Expression::Unique`]) anywhere.
pub(crate) fn draws(statement: &Statement) -> bool {
    *statement.draws.get_or_init(|| {
        let mut draws = false;
        self::statement(statement, &mut |expression| {
            draws |= expression.uniques() > 0
        });
        draws
    })
}

/// Calls `visit` with every expression of a query.
pub(crate) fn query<'s>(of: &'s Query, visit: &mut dyn FnMut(&'s Expression)) {
    of.ctes.iter().for_each(|(_, cte)| query(cte, visit));
    match &of.body {
        Body::Select(of) => {
            select_but_output(of, visit);
            of.projection.iter().for_each(visit);
        }
        Body::SetOperation(operation) => {
            query(&operation.left, visit);
            query(&operation.right, visit);
            operation.finish.limit.iter().for_each(&mut *visit);
            operation.finish.offset.iter().for_each(visit);
        }
        Body::Recursive(recursive) => {
            query(&recursive.base, visit);
            query(&recursive.step, visit);
        }
    }
}

/// Calls `visit` with every expression of a SELECT except its output.
pub(crate) fn select_but_output<'s>(of: &'s Select, visit: &mut dyn FnMut(&'s Expression)) {
    steps(&of.steps, visit);
    of.finish.limit.iter().for_each(&mut *visit);
    of.finish.offset.iter().for_each(visit);
}

/// Calls `visit` with every expression of a pipeline.
pub(crate) fn steps<'s>(list: &'s [Step], visit: &mut dyn FnMut(&'s Expression)) {
    for step in list {
        match step {
            Step::Filter(filters) => filters.iter().for_each(&mut *visit),
            Step::Read(read) => table_read(read, visit),
            Step::Function(function) => {
                let FunctionStep {
                    arguments,
                    join: of,
                    ..
                } = &**function;
                arguments.iter().for_each(&mut *visit);
                join(of, visit);
            }
            Step::Rows { rows, join: of, .. } => {
                rows.iter().flatten().for_each(&mut *visit);
                join(of, visit);
            }
            Step::Query(of) => {
                if let RowsOf::Query(of) = &of.rows {
                    query(of, visit);
                }
                pairs(&of.hash, visit);
                join(&of.join, visit);
            }
            Step::Subquery { subquery, .. } => {
                query(&subquery.query, visit);
                if let SubqueryKind::Quantified { left, .. } = &subquery.kind {
                    left.iter().for_each(&mut *visit);
                }
            }
            Step::Window(windows) => {
                windows.each_expression(visit);
                windows.each_offset(visit);
            }
            Step::Group {
                keys, aggregates, ..
            } => {
                keys.iter().for_each(&mut *visit);
                for aggregate in aggregates {
                    aggregate.arguments.iter().for_each(&mut *visit);
                    aggregate.filter.iter().for_each(&mut *visit);
                    aggregate.order.iter().for_each(|(e, ..)| visit(e));
                }
            }
        }
    }
}

fn table_read<'s>(read: &'s TableRead, visit: &mut dyn FnMut(&'s Expression)) {
    // What the read says of fixed columns is among the path's and the join's conditions.
    match &read.path {
        Path::Point { key } => key.iter().for_each(|part| visit(&part.value)),
        Path::Range(range) => {
            range.prefix.iter().for_each(|part| visit(&part.value));
            let bounds = [&range.lower, &range.upper];
            bounds
                .into_iter()
                .flatten()
                .for_each(|(part, _)| visit(&part.value));
            if let Some((limit, offset)) = &range.limit {
                visit(limit);
                offset.iter().for_each(&mut *visit);
            }
            // Those of its hash are among the join's.
        }
        Path::Scan { hash } => pairs(hash, visit),
    }
    join(&read.join, visit);
}

fn pairs<'s>(hash: &'s [(Expression, Expression)], visit: &mut dyn FnMut(&'s Expression)) {
    for (row, tuple) in hash {
        visit(row);
        visit(tuple);
    }
}

fn join<'s>(of: &'s Join, visit: &mut dyn FnMut(&'s Expression)) {
    of.matches.iter().chain(&of.filters).for_each(visit);
}
