//! Binds VALUES, as a query and as the rows of an INSERT.

use anabranch_types::DataType;
use sqlparser::ast;

use super::{
    Bind, Binder, Bound, convert::Context, modify::is_default, query::Tail, scope::Scope,
    term::RawTerm,
};
use crate::{
    expression::Expression,
    plan::{Body, OutputColumn, Query, Select, Step},
};

impl Binder<'_> {
    /// VALUES as a query of its own.
    pub(super) fn values(&mut self, values: &ast::Values, tail: Tail<'_>) -> Bind<Query> {
        let targets = self.targets.take();
        self.scopes.push(Scope {
            clause: "VALUES",
            ..Scope::default()
        });
        let (rows, types) = match targets {
            Some((table, columns)) => self.target_rows(values, table, &columns)?,
            None => self.values_rows(values)?,
        };
        let columns: Vec<OutputColumn> = types
            .into_iter()
            .enumerate()
            .map(|(place, data_type)| (format!("column{}", place + 1), data_type))
            .collect();
        let projection: Vec<Expression> = (0..columns.len())
            .map(|column| Expression::Column {
                depth: 0,
                source: 1,
                column,
            })
            .collect();
        let terms = match rows.as_slice() {
            [row] => row.iter().map(|e| self.term(e)).collect(),
            _ => (0..columns.len())
                .map(|column| {
                    let mut terms = rows.iter().map(|row| self.term(&row[column]));
                    match terms.all(|term| matches!(term, RawTerm::Generated)) {
                        true => RawTerm::Generated,
                        false => RawTerm::Unknown,
                    }
                })
                .collect(),
        };
        let mut scope = self.scopes.pop().expect("it was pushed");
        if !scope.subqueries.is_empty() {
            // Subqueries are numbered from 1, as no source was there; the rows come behind them.
            let last = scope.extra_sources;
            let place = last + 1;
            let mut steps: Vec<Step> = scope
                .subqueries
                .drain(..)
                .map(|subquery| Step::Subquery {
                    source: subquery.source,
                    subquery: Box::new(subquery),
                })
                .collect();
            steps.push(Step::Rows {
                source: place,
                rows,
                join: crate::plan::Join::default(),
            });
            let projection = (0..columns.len())
                .map(|column| Expression::Column {
                    depth: 0,
                    source: place,
                    column,
                })
                .collect();
            return self.values_query(
                steps,
                place + 1,
                projection,
                columns,
                terms,
                scope.escapes > 0,
                tail,
            );
        }
        if rows.len() == 1 && scope.escapes == 0 {
            let row = rows.into_iter().next().unwrap_or_default();
            return self.values_query(Vec::new(), 1, row, columns, terms, false, tail);
        }
        let steps = vec![Step::Rows {
            source: 1,
            rows,
            join: crate::plan::Join::default(),
        }];
        self.values_query(
            steps,
            2,
            projection,
            columns,
            terms,
            scope.escapes > 0,
            tail,
        )
    }

    #[allow(clippy::too_many_arguments)]
    fn values_query(
        &mut self,
        steps: Vec<Step>,
        stride: usize,
        projection: Vec<Expression>,
        columns: Vec<OutputColumn>,
        terms: Vec<RawTerm>,
        correlated: bool,
        tail: Tail<'_>,
    ) -> Bind<Query> {
        let place = ast::ObjectName(Vec::new());
        let finish = self.finish_over(&columns, tail, &place)?;
        let uniques = projection.iter().map(Expression::uniques).sum();
        let select = Select {
            stride,
            steps,
            projection,
            finish,
            uniques,
        };
        Ok(Query {
            ctes: Vec::new(),
            body: Body::Select(Box::new(select)),
            columns,
            correlated,
            terms,
        })
    }

    /// VALUES of an INSERT: each value in its column's type, DEFAULT allowed.
    fn target_rows(
        &mut self,
        values: &ast::Values,
        table: anabranch_types::TableId,
        columns: &[anabranch_types::ColumnIndex],
    ) -> Bind<(Vec<Vec<Expression>>, Vec<DataType>)> {
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let mut rows = Vec::new();
        for row in &values.rows {
            if row.content.len() != width {
                return Err(self.error(
                    "42601",
                    "VALUES lists must all be the same length",
                    values,
                ));
            }
            if width > columns.len() {
                let message = "INSERT has more expressions than target columns";
                return Err(self.error("42601", message, &row.content[columns.len()]));
            }
            let mut expressions = Vec::new();
            for (value, column) in row.content.iter().zip(columns) {
                if !is_default(value) {
                    self.check_given(table, *column)?;
                }
                expressions.push(self.assigned_value(table, *column, value)?);
            }
            rows.push(expressions);
        }
        let types = columns[..width]
            .iter()
            .map(|c| super::modify::column_type(self, table, *c))
            .collect();
        Ok((rows, types))
    }

    fn values_rows(&mut self, values: &ast::Values) -> Bind<(Vec<Vec<Expression>>, Vec<DataType>)> {
        let mut rows: Vec<Vec<Bound>> = Vec::new();
        for row in &values.rows {
            let mut bounds = Vec::new();
            for expression in &row.content {
                bounds.push(self.expression(expression)?);
            }
            if rows
                .first()
                .is_some_and(|first| first.len() != bounds.len())
            {
                return Err(self.error(
                    "42601",
                    "VALUES lists must all be the same length",
                    values,
                ));
            }
            rows.push(bounds);
        }
        let width = rows.first().map_or(0, Vec::len);
        let mut types = Vec::new();
        for column in 0..width {
            let bounds: Vec<&Bound> = rows.iter().map(|row| &row[column]).collect();
            types.push(self.common_type(&bounds, "VALUES", values)?);
        }
        let mut out = Vec::new();
        for row in rows {
            let mut expressions = Vec::new();
            for (bound, data_type) in row.into_iter().zip(&types) {
                expressions.push(self.coerce(bound, data_type, Context::Implicit, values)?);
            }
            out.push(expressions);
        }
        Ok((out, types))
    }
}
