//! Binds FROM: tables, views, derived tables, table functions, and joins.

use std::sync::Arc;

use anabranch_types::{ColumnIndex, DataType, ObjectKind, TableId, Value};
use sqlparser::ast::{self, Expr, JoinConstraint, JoinOperator, TableFactor};

use super::{
    Bind, Binder, CteReference, RawAccess,
    convert::Context,
    fold,
    scope::{ScopeColumn, ScopeSource},
    using::Sides,
};
use crate::{
    diagnostic::Diagnostic,
    expression::{Domain, Expression, Function, Operator, Relation},
    plan::{OutputColumn, Query, TableFunction, WhenLocked},
    summary::Role,
};

/// The SQLSTATE of a statement that is too complex.
pub(crate) const TOO_COMPLEX: &str = "54001";

/// A FROM list, bound.
#[derive(Debug, Default)]
pub(crate) struct FromList {
    pub(crate) sources: Vec<PlanSource>,
    /// The conditions on joined tuples: the ON clauses of inner joins.
    pub(crate) conjuncts: Vec<Expression>,
    /// Its FULL JOINs, with what is before each.
    pub(crate) full_joins: Vec<FullJoin>,
}

/// What FROM has up to a FULL JOIN.
#[derive(Debug)]
pub(crate) struct FullJoin {
    /// The sources of its left side, behind those of the FULL JOIN before.
    pub(crate) sources: Vec<PlanSource>,
    /// The conditions of inner joins between them.
    pub(crate) conjuncts: Vec<Expression>,
    /// Its right side.
    pub(crate) right: PlanSource,
    /// Its condition.
    pub(crate) on: Vec<Expression>,
}

/// One source, before the planner orders them.
#[derive(Debug)]
pub(crate) struct PlanSource {
    /// Its number in the query, from 1.
    pub(crate) number: usize,
    pub(crate) kind: SourceKind,
    /// For the inner side of an outer join: its ON clause, and the sources that are joined before it.
    pub(crate) left: Option<(Vec<Expression>, u64)>,
    /// The sources that it refers to.
    pub(crate) depends: u64,
    /// The statement writes its rows.
    pub(crate) target: bool,
    /// What a locking clause says of it.
    pub(crate) when_locked: WhenLocked,
}

/// The kind of a source.
#[derive(Debug)]
pub(crate) enum SourceKind {
    Table(TableId),
    Function {
        function: TableFunction,
        arguments: Vec<Expression>,
        ordinality: bool,
    },
    Rows(Vec<Vec<Expression>>),
    Query(Query),
    Cte {
        number: usize,
        width: usize,
    },
    /// Values, `width` to a row.
    Constant {
        values: Arc<Vec<Value>>,
        width: usize,
    },
}

impl SourceKind {
    /// A copy of a pure source.
    ///
    /// # Panics
    /// When the source is not pure.
    pub(crate) fn copied(&self) -> SourceKind {
        match self {
            SourceKind::Function {
                function,
                arguments,
                ordinality,
            } => SourceKind::Function {
                function: *function,
                arguments: arguments.clone(),
                ordinality: *ordinality,
            },
            SourceKind::Rows(rows) => SourceKind::Rows(rows.clone()),
            other => panic!("{other:?} is not pure"),
        }
    }
}

/// The bit of a source.
pub(crate) fn bit(source: usize) -> u64 {
    1 << source.min(63)
}

/// The sources of this query that an expression refers to.
pub(crate) fn mask(expression: &Expression) -> u64 {
    let mut mask = 0;
    expression.each_column(&mut |source, _| mask |= bit(source));
    mask
}

/// Splits a condition into its conjuncts.
pub(crate) fn split(condition: Expression, into: &mut Vec<Expression>) {
    match condition {
        Expression::And(list) => list.into_iter().for_each(|part| split(part, into)),
        other => into.push(other),
    }
}

impl Binder<'_> {
    /// Binds a FROM list into the innermost scope.
    pub(crate) fn source_list(
        &mut self,
        items: &[ast::TableWithJoins],
        list: &mut FromList,
    ) -> Bind<()> {
        self.scope().is_listing = true;
        for item in items {
            self.join_tree(item, list)?;
        }
        self.scope().is_listing = false;
        if self.scope().sources.len() > 40 {
            let place = self.place;
            let construct = "a query of more than 40 sources";
            return Err(crate::diagnostic::Diagnostic::unsupported(construct, place));
        }
        Ok(())
    }

    fn join_tree(&mut self, item: &ast::TableWithJoins, list: &mut FromList) -> Bind<()> {
        let first = self.scope().sources.len() + 1;
        self.factor(&item.relation, list)?;
        for join in &item.joins {
            let left_end = self.scope().sources.len();
            let lateral = Self::lateral(join);
            let join = lateral.as_ref().unwrap_or(join);
            self.factor(&join.relation, list)?;
            let right = self.scope().sources.len();
            let (constraint, left, is_right) = match &join.join_operator {
                JoinOperator::Join(c) | JoinOperator::Inner(c) | JoinOperator::CrossJoin(c) => {
                    (c, false, false)
                }
                JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => (c, true, false),
                JoinOperator::Right(c) | JoinOperator::RightOuter(c) => (c, true, true),
                JoinOperator::FullOuter(constraint) => {
                    let sides = Sides {
                        left: first..=left_end,
                        right: left_end + 1..=right,
                        is_right: false,
                    };
                    self.full_join(constraint, sides, join, list)?;
                    continue;
                }
                _ => return Err(self.unsupported("this kind of join", &join.relation)),
            };
            let sides = Sides {
                left: first..=left_end,
                right: left_end + 1..=right,
                is_right,
            };
            let mut on = self.join_condition(constraint, sides, join)?;
            if !left {
                self.use_indexes(&mut on, list);
                self.note_conditions(&on, None);
                list.conjuncts.extend(on);
                continue;
            }
            // A subquery in a function's arguments has a number, too, and is no source of the join.
            let joined = list.sources.iter().filter(|it| it.number > left_end);
            if joined.count() != 1 || (is_right && left_end != first) {
                return Err(
                    self.unsupported("an outer join of a join in parentheses", &join.relation)
                );
            }
            let (inner, outer) = if is_right {
                (first, bit(right))
            } else {
                (right, (first..=left_end).map(bit).sum())
            };
            if self.subqueries_refer_to(&on, inner) {
                let construct = "a subquery in the condition of an outer join that refers to the side that may be missing";
                let problem = self.unsupported(construct, &join.relation);
                return Err(
                    problem.help("write LEFT JOIN LATERAL (SELECT … WHERE …) AS name ON true")
                );
            }
            self.note_conditions(&on, Some(inner));
            self.scope().sources[inner - 1].nullable = true;
            let source = list
                .sources
                .iter_mut()
                .find(|source| source.number == inner);
            source.expect("it has just been bound").left = Some((on, outer));
        }
        Ok(())
    }

    /// The condition of a join, in its parts.
    pub(super) fn join_condition(
        &mut self,
        constraint: &JoinConstraint,
        sides: Sides,
        join: &ast::Join,
    ) -> Bind<Vec<Expression>> {
        let mut conjuncts = Vec::new();
        match constraint {
            JoinConstraint::None => {}
            JoinConstraint::On(condition) => {
                self.scope().clause = "JOIN conditions";
                split(self.condition(condition)?, &mut conjuncts);
            }
            JoinConstraint::Natural => {
                let names = self.common_columns(&sides);
                conjuncts = self.join_using(&names, &sides, &join.relation)?;
            }
            JoinConstraint::Using(columns) => {
                let names: Vec<String> = columns
                    .iter()
                    .map(|name| self.simple_name(name))
                    .collect::<Bind<_>>()?;
                conjuncts = match columns.first() {
                    Some(place) => self.join_using(&names, &sides, place)?,
                    None => Vec::new(),
                };
            }
        }
        Ok(conjuncts)
    }

    fn factor(&mut self, factor: &TableFactor, list: &mut FromList) -> Bind<()> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_ordinality: false,
                sample: None,
                ..
            } => self.named_source(name, alias.as_ref(), factor, list),
            TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality,
                ..
            } => {
                let arguments = self.function_arguments(&args.args, factor)?;
                self.table_function(
                    name,
                    &arguments,
                    *with_ordinality,
                    alias.as_ref(),
                    factor,
                    list,
                )
            }
            TableFactor::Function {
                name,
                args,
                with_ordinality,
                alias,
                ..
            } => {
                let arguments = self.function_arguments(args, factor)?;
                self.table_function(
                    name,
                    &arguments,
                    *with_ordinality,
                    alias.as_ref(),
                    factor,
                    list,
                )
            }
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_ordinality,
                ..
            } => {
                let arguments: Vec<&Expr> = array_exprs.iter().collect();
                self.table_function(
                    &ast::ObjectName::from(vec![ast::Ident::new("unnest")]),
                    &arguments,
                    *with_ordinality,
                    alias.as_ref(),
                    factor,
                    list,
                )
            }
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                sample: None,
            } => self.derived(*lateral, subquery, alias.as_ref(), factor, list),
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => self.join_tree(table_with_joins, list),
            other => Err(self.unsupported("this item in FROM", other)),
        }
    }

    fn function_arguments<'e>(
        &self,
        arguments: &'e [ast::FunctionArg],
        factor: &TableFactor,
    ) -> Bind<Vec<&'e Expr>> {
        arguments
            .iter()
            .map(|argument| match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expression)) => Ok(expression),
                _ => Err(self.unsupported("this argument", factor)),
            })
            .collect()
    }

    /// A table, view or common table expression.
    fn named_source(
        &mut self,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
        factor: &TableFactor,
        list: &mut FromList,
    ) -> Bind<()> {
        let is_qualified = name.0.len() > 1;
        if is_qualified && let Some(of) = self.system_relation(name)? {
            return self.add_system_relation(of, alias, factor, list);
        }
        let text = self.simple_name(name)?;
        let shown = alias.map_or(text.clone(), |alias| fold(&alias.name));
        let mut ctes = self.ctes.iter().rev();
        if let Some(cte) = ctes.find(|cte| !is_qualified && cte.name == text) {
            let columns = cte.columns.clone();
            let number = match &cte.rows {
                CteReference::Number(number) => *number,
                CteReference::Refused(code, message) => {
                    return Err(self.error(code, message.clone(), name));
                }
            };
            let kind = SourceKind::Cte {
                number,
                width: columns.len(),
            };
            return self.add_source(shown, columns, alias, kind, factor, list);
        }
        if !is_qualified && let Some(of) = self.system_relation(name)? {
            return self.add_system_relation(of, alias, factor, list);
        }
        if let Some(view) = self.catalog.views.iter().find(|view| view.name == text) {
            if self.views.contains(&text) {
                return Err(self.error(
                    "42P17",
                    format!("infinite recursion detected in view \"{text}\""),
                    name,
                ));
            }
            self.views_expanded += 1;
            let most = self.catalog.limits.views_expanded_max;
            if self.views_expanded > most {
                let message = format!(
                    "the views named here, and those that they are made of, are more than {most}"
                );
                return Err(Diagnostic::new(TOO_COMPLEX, message, self.place)
                    .help("each mention of a view is compiled by itself; name the tables"));
            }
            self.views.push(text);
            let query = self.closed_query(&view.query)?;
            self.views.pop();
            let mut columns = query.columns.clone();
            for (column, name) in columns.iter_mut().zip(&view.columns) {
                column.0.clone_from(name);
            }
            return self.add_source(
                shown,
                columns,
                alias,
                SourceKind::Query(query),
                factor,
                list,
            );
        }
        if self.catalog.opaque.is_none()
            && self.catalog.table_by_name(&text).is_none()
            && let Some(sequence) = self.catalog.sequence_by_name(&text)
        {
            let (columns, row) = Self::sequence_row(sequence);
            let kind = SourceKind::Query(Self::rows_query(vec![row], &columns));
            return self.add_source(shown, columns, alias, kind, factor, list);
        }
        let table = self.table_named(name)?;
        self.add_table(table, shown, alias, Role::Read, factor, list)
    }

    /// Adds a table to the innermost scope.
    pub(crate) fn add_table(
        &mut self,
        table: TableId,
        name: String,
        alias: Option<&ast::TableAlias>,
        role: Role,
        factor: &TableFactor,
        list: &mut FromList,
    ) -> Bind<()> {
        let schema = self.catalog.schema.table(table);
        let columns = schema
            .visible_columns()
            .iter()
            .map(|c| (c.name.clone(), c.data_type.clone()))
            .collect();
        let span = match factor {
            TableFactor::Table { name, .. } => self.place_of(name),
            other => self.place_of(other),
        };
        self.accesses.push(RawAccess {
            table,
            role,
            columns_returned: Vec::new(),
            columns_read: Vec::new(),
            writes: Vec::new(),
            conditions: Vec::new(),
            has_other_conditions: false,
            listed: Vec::new(),
            draws_key: false,
            span,
        });
        let access = self.accesses.len() - 1;
        self.add_source(name, columns, alias, SourceKind::Table(table), factor, list)?;
        let source = self
            .scope()
            .sources
            .last_mut()
            .expect("it has just been added");
        source.access = Some(access);
        source.table = Some(table);
        Ok(())
    }

    pub(crate) fn add_source(
        &mut self,
        name: String,
        columns: Vec<OutputColumn>,
        alias: Option<&ast::TableAlias>,
        kind: SourceKind,
        factor: &TableFactor,
        list: &mut FromList,
    ) -> Bind<()> {
        if self
            .scope()
            .sources
            .iter()
            .any(|source| source.name == name)
        {
            let message = format!("table name \"{name}\" specified more than once");
            return Err(self.error("42712", message, factor));
        }
        let mut columns: Vec<ScopeColumn> = columns
            .into_iter()
            .map(|(name, data_type)| ScopeColumn {
                name,
                data_type,
                merged: false,
            })
            .collect();
        let renamed = alias.map_or(&[][..], |alias| &alias.columns);
        if renamed.len() > columns.len() {
            let message = format!(
                "table \"{name}\" has {} columns available but {} columns specified",
                columns.len(),
                renamed.len()
            );
            return Err(self.error("42P10", message, factor));
        }
        for (column, renamed) in columns.iter_mut().zip(renamed) {
            column.name = fold(&renamed.name);
        }
        let depends = std::mem::take(&mut self.scope().inner_references)
            .into_iter()
            .fold(0, |mask, (source, _)| mask | bit(source));
        let mut elements = None;
        let mut depends = depends;
        if let SourceKind::Function { arguments, .. } = &kind {
            elements = Some(arguments.clone());
            depends = arguments.iter().map(mask).fold(depends, |a, b| a | b);
        }
        let scope = self.scope();
        scope.sources.push(ScopeSource {
            name,
            columns,
            access: None,
            table: None,
            elements,
            hidden: false,
            nullable: false,
        });
        let number = scope.sources.len();
        list.sources.push(PlanSource {
            number,
            kind,
            left: None,
            depends,
            target: false,
            when_locked: WhenLocked::Wait,
        });
        Ok(())
    }

    pub(super) fn derived(
        &mut self,
        lateral: bool,
        subquery: &ast::Query,
        alias: Option<&ast::TableAlias>,
        factor: &TableFactor,
        list: &mut FromList,
    ) -> Bind<()> {
        let Some(alias) = alias else {
            return Err(self.error("42601", "subquery in FROM must have an alias", factor));
        };
        let hidden: Vec<bool> = self
            .scope()
            .sources
            .iter()
            .map(|source| source.hidden)
            .collect();
        if !lateral {
            self.scope()
                .sources
                .iter_mut()
                .for_each(|source| source.hidden = true);
        }
        let query = self.query(subquery);
        for (source, hidden) in self.scope().sources.iter_mut().zip(hidden) {
            source.hidden = hidden;
        }
        let query = query?;
        let columns = query.columns.clone();
        let kind = match trivial_rows(&query) {
            Some(rows) => SourceKind::Rows(rows),
            None => SourceKind::Query(query),
        };
        self.add_source(fold(&alias.name), columns, Some(alias), kind, factor, list)
    }

    fn table_function(
        &mut self,
        name: &ast::ObjectName,
        arguments: &[&Expr],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        factor: &TableFactor,
        list: &mut FromList,
    ) -> Bind<()> {
        let known = self.known_function(name, arguments, ordinality, alias, factor, list);
        let Err(error) = known else {
            return Ok(());
        };
        let rows = self.opaque_rows(name, arguments, ordinality, alias, error)?;
        let alias = alias.cloned().unwrap_or_else(|| rows.alias.clone());
        let alias = ast::TableAlias {
            columns: Vec::new(),
            ..alias
        };
        self.derived(true, &rows.query, Some(&alias), factor, list)
    }

    fn known_function(
        &mut self,
        name: &ast::ObjectName,
        arguments: &[&Expr],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        factor: &TableFactor,
        list: &mut FromList,
    ) -> Bind<()> {
        match self.function_name(name)?.as_str() {
            "pg_partition_ancestors" if arguments.len() == 1 => {
                let relation = DataType::OidAlias(ObjectKind::Relation);
                self.expression_as(arguments[0], &relation, Context::Implicit)?;
                // No table has partitions.
                let none = vec![Expression::Constant(Value::Array([].into()))];
                let columns = vec![("pg_partition_ancestors".to_string(), relation)];
                let function = TableFunction::Unnest;
                self.add_function(function, none, columns, ordinality, alias, factor, list)
            }
            "_pg_expandarray" if arguments.len() == 1 && !ordinality => {
                let bound = self.expression(arguments[0])?;
                let Some(element) = bound.data_type.as_ref().and_then(DataType::element) else {
                    let message = "function _pg_expandarray(…) takes an array";
                    return Err(self.error("42883", message, arguments[0]));
                };
                let columns = vec![("x".to_string(), element.clone())];
                let arguments = vec![bound.expression];
                let function = TableFunction::Unnest;
                self.add_function(function, arguments, columns, true, alias, factor, list)?;
                if let Some(place) = self.scope().sources.last_mut() {
                    place.columns[1].data_type = DataType::Int4;
                }
                Ok(())
            }
            "generate_subscripts" if arguments.len() == 2 => {
                self.subscripts(arguments, ordinality, alias, factor, list)
            }
            "unnest" => self.unnest(arguments, ordinality, alias, factor, list),
            "generate_series" if matches!(arguments.len(), 2 | 3) => {
                self.scope().clause = "functions in FROM";
                let mut bounds = Vec::new();
                for argument in arguments {
                    bounds.push(self.expression(argument)?);
                }
                let data_type = self.common_type(
                    &bounds.iter().collect::<Vec<_>>(),
                    "generate_series",
                    factor,
                )?;
                let data_type = if bounds.iter().all(|b| b.data_type.is_none()) {
                    DataType::Int4
                } else {
                    data_type
                };
                if !data_type.is_integer() {
                    let construct = format!("generate_series of {data_type}");
                    return Err(self.unsupported(&construct, factor));
                }
                let mut expressions = Vec::new();
                for bound in bounds {
                    expressions.push(self.coerce(bound, &data_type, Context::Implicit, factor)?);
                }
                let columns = vec![("generate_series".to_string(), data_type)];
                let function = TableFunction::GenerateSeries;
                self.add_function(
                    function,
                    expressions,
                    columns,
                    ordinality,
                    alias,
                    factor,
                    list,
                )
            }
            other => match self.json_rows(other, arguments, factor)? {
                Some((function, arrays, columns)) => {
                    let named = columns[0].0.clone();
                    let own = ast::TableAlias {
                        explicit: false,
                        name: ast::Ident::with_quote('"', other),
                        columns: Vec::new(),
                        at: None,
                    };
                    let alias = Some(alias.unwrap_or(&own));
                    self.add_function(function, arrays, columns, ordinality, alias, factor, list)?;
                    // The alias names the row, and the column keeps its name.
                    if named == "value"
                        && alias.is_none_or(|alias| alias.columns.is_empty())
                        && let Some(source) = self.scope().sources.last_mut()
                    {
                        source.columns[0].name = named;
                    }
                    Ok(())
                }
                None => match self.regexp_rows(other, arguments, factor)? {
                    Some((function, arrays, columns)) => self
                        .add_function(function, arrays, columns, ordinality, alias, factor, list),
                    None if ordinality => {
                        Err(self.unsupported(&format!("function {other} in FROM"), factor))
                    }
                    None => self.scalar_function(name, other, arguments, alias, factor, list),
                },
            },
        }
    }

    /// `generate_subscripts(array, 1)`: a series over its length.
    fn subscripts(
        &mut self,
        arguments: &[&Expr],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        factor: &TableFactor,
        list: &mut FromList,
    ) -> Bind<()> {
        let array = self.expression(arguments[0])?;
        let dimension = self.expression_as(arguments[1], &DataType::Int4, Context::Implicit)?;
        if array
            .data_type
            .as_ref()
            .and_then(DataType::element)
            .is_none()
        {
            let message = "function generate_subscripts(…) takes an array";
            return Err(self.error("42883", message, arguments[0]));
        }
        let lower = lower_bound(array.data_type.as_ref());
        let length = Expression::Call {
            function: Function::ArrayLength,
            arguments: vec![array.expression, dimension],
        };
        let upper = match lower {
            1 => length,
            _ => Expression::Arithmetic {
                operator: Operator::Subtract,
                domain: Domain::Int4,
                left: Box::new(length),
                right: Box::new(Expression::Constant(Value::Int(1))),
            },
        };
        let bounds = vec![Expression::Constant(Value::Int(lower)), upper];
        let columns = vec![("generate_subscripts".to_string(), DataType::Int4)];
        let function = TableFunction::GenerateSeries;
        self.add_function(function, bounds, columns, ordinality, alias, factor, list)
    }

    fn unnest(
        &mut self,
        arguments: &[&Expr],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        factor: &TableFactor,
        list: &mut FromList,
    ) -> Bind<()> {
        self.scope().clause = "functions in FROM";
        let mut expressions = Vec::new();
        let mut columns = Vec::new();
        for argument in arguments {
            let bound = self.expression(argument)?;
            let Some(element) = bound
                .data_type
                .as_ref()
                .and_then(DataType::element)
                .cloned()
            else {
                let message = "function unnest(…) takes arrays";
                return Err(self.error("42883", message, *argument));
            };
            expressions.push(bound.expression);
            columns.push(("unnest".to_string(), element));
        }
        self.add_function(
            TableFunction::Unnest,
            expressions,
            columns,
            ordinality,
            alias,
            factor,
            list,
        )
    }

    #[allow(clippy::too_many_arguments)]
    fn add_function(
        &mut self,
        function: TableFunction,
        arguments: Vec<Expression>,
        mut columns: Vec<OutputColumn>,
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        factor: &TableFactor,
        list: &mut FromList,
    ) -> Bind<()> {
        let default = columns
            .first()
            .map_or(String::new(), |column| column.0.clone());
        let name = alias.map_or(default, |alias| fold(&alias.name));
        if let ([column], Some(alias)) = (columns.as_mut_slice(), alias) {
            column.0 = fold(&alias.name);
        }
        if ordinality {
            columns.push(("ordinality".to_string(), DataType::Int8));
        }
        let kind = SourceKind::Function {
            function,
            arguments,
            ordinality,
        };
        self.add_source(name, columns, alias, kind, factor, list)
    }

    /// Notes conjuncts as conditions of the tables that they bear on; those of an outer join's ON
    /// clause bear on its inner side alone.
    pub(crate) fn note_conditions(&mut self, conjuncts: &[Expression], only: Option<usize>) {
        for conjunct in conjuncts {
            let mut noted = Vec::new();
            // Opaque values may have an equality of their own.
            if let Expression::Compare {
                relation,
                left,
                right,
            } = conjunct
                && !conjunct.is_unknown()
            {
                noted.extend(self.condition_on(left, *relation, right));
                noted.extend(self.condition_on(right, relation.mirrored(), left));
            }
            if let Expression::IsNull { operand, negated } = conjunct {
                noted.extend(self.null_condition(operand, *negated));
            }
            if let Some((source, column, slot)) = listed(conjunct)
                && only.is_none_or(|only| only == source)
                && let Some(access) = self.scope().sources[source - 1].access
            {
                self.accesses[access].listed.push((column, slot));
            }
            noted.retain(|(source, ..)| only.is_none_or(|only| only == *source));
            let mut told = 0;
            for (source, column, comparison, term) in noted {
                told |= bit(source);
                if let Some(access) = self.scope().sources[source - 1].access {
                    self.accesses[access]
                        .conditions
                        .push((column, comparison, term));
                }
            }
            let mentioned = mask(conjunct) & !told;
            let sources = self.scopes.last().map_or(0, |scope| scope.sources.len());
            for source in (1..=sources).filter(|source| mentioned & bit(*source) != 0) {
                if let Some(access) = self.scope().sources[source - 1].access {
                    self.accesses[access].has_other_conditions = true;
                }
            }
        }
    }

    fn condition_on(
        &self,
        column: &Expression,
        relation: Relation,
        value: &Expression,
    ) -> Option<(
        usize,
        ColumnIndex,
        crate::summary::Comparison,
        super::term::RawTerm,
    )> {
        use crate::summary::Comparison;
        let Expression::Column {
            depth: 0,
            source,
            column,
        } = column
        else {
            return None;
        };
        let scope = self.scopes.last()?;
        scope.sources.get(source - 1)?.access?;
        let comparison = match relation {
            Relation::Equal => Comparison::Equal,
            Relation::NotEqual => Comparison::NotEqual,
            Relation::Less => Comparison::Less,
            Relation::LessOrEqual => Comparison::LessOrEqual,
            Relation::Greater => Comparison::Greater,
            Relation::GreaterOrEqual => Comparison::GreaterOrEqual,
        };
        let column = crate::expression::frame::column_index(*column);
        Some((*source, column, comparison, self.term(value)))
    }

    fn null_condition(
        &self,
        operand: &Expression,
        negated: bool,
    ) -> Option<(
        usize,
        ColumnIndex,
        crate::summary::Comparison,
        super::term::RawTerm,
    )> {
        use crate::summary::Comparison;
        let Expression::Column {
            depth: 0,
            source,
            column,
        } = operand
        else {
            return None;
        };
        self.scopes.last()?.sources.get(source - 1)?.access?;
        let comparison = if negated {
            Comparison::IsNotNull
        } else {
            Comparison::IsNull
        };
        let term = super::term::RawTerm::Constant(anabranch_types::Value::Null);
        Some((
            *source,
            crate::expression::frame::column_index(*column),
            comparison,
            term,
        ))
    }
}

/// The first subscript of an array or vector.
pub(crate) fn lower_bound(data_type: Option<&DataType>) -> i64 {
    match data_type {
        Some(DataType::Int2Vector | DataType::OidVector) => 0,
        _ => 1,
    }
}

/// The rows of a derived table that consists of VALUES.
fn trivial_rows(query: &Query) -> Option<Vec<Vec<Expression>>> {
    let crate::plan::Body::Select(select) = &query.body else {
        return None;
    };
    let [crate::plan::Step::Rows { rows, .. }] = select.steps.as_slice() else {
        return None;
    };
    let identity = select.projection.iter().enumerate().all(|(place, expression)| {
        matches!(expression, Expression::Column { depth: 0, source: 1, column } if *column == place)
    });
    let plain = select.finish.limit.is_none() && select.finish.offset.is_none();
    let deep = |e: &Expression| e.any(&mut |e| matches!(e, Expression::Column { .. }));
    let closed = !rows.iter().flatten().any(deep);
    (identity && plain && closed && select.finish.order.is_empty() && query.ctes.is_empty())
        .then(|| rows.clone())
}

/// The source, its column and the variable of `column = ANY (variable)`.
fn listed(conjunct: &Expression) -> Option<(usize, ColumnIndex, usize)> {
    let Expression::Quantified {
        relation: Relation::Equal,
        left,
        array,
        all: false,
    } = conjunct
    else {
        return None;
    };
    match (&**left, &**array) {
        (
            Expression::Column {
                depth: 0,
                source,
                column,
            },
            Expression::Variable(slot),
        ) => Some((
            *source,
            crate::expression::frame::column_index(*column),
            *slot,
        )),
        _ => None,
    }
}
