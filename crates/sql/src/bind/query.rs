//! Binds queries: SELECT, VALUES, set operations, common table expressions.

use std::sync::LazyLock;

use anabranch_types::DataType;
use sqlparser::ast::{self, Expr, SelectItem, SetExpr, Spanned};

use super::{
    Bind, Binder, Bound,
    convert::Context,
    fold,
    from::{FromList, split},
    scope::{Scope, ScopeSource},
    term::RawTerm,
    window::WindowPlace,
};
use crate::{
    diagnostic::Diagnostic,
    expression::Expression,
    plan::{
        Body, Distinct, Finish, Order, OutputColumn, Query, Select, SetOperation, SetOperator,
        join::{self, Arrangement},
    },
    source::Span,
};

/// ORDER BY, LIMIT and OFFSET of a query.
#[derive(Clone, Copy)]
pub(super) struct Tail<'q> {
    order: &'q [ast::OrderByExpr],
    limit: Option<&'q Expr>,
    offset: Option<&'q Expr>,
}

impl Tail<'_> {
    /// None of them.
    pub(super) const NONE: Tail<'static> = Tail {
        order: &[],
        limit: None,
        offset: None,
    };
}

/// An output column while it is bound.
struct Output {
    name: String,
    bound: Bound,
}

impl Binder<'_> {
    /// A query without outer references: of a view, an assertion, a statement.
    pub(crate) fn closed_query(&mut self, query: &ast::Query) -> Bind<Query> {
        let scopes = std::mem::take(&mut self.scopes);
        let ctes = std::mem::take(&mut self.ctes);
        // A view in an assertion must not have opaque expressions either.
        let none: &dyn super::Variables = match self.variables.is_of_statement() {
            true => &super::ViewVariables,
            false => &super::NoVariables,
        };
        let variables = std::mem::replace(&mut self.variables, none);
        let bound = self.query(query);
        self.variables = variables;
        self.scopes = scopes;
        self.ctes = ctes;
        bound
    }

    /// A subquery in an expression.
    pub(crate) fn subquery(&mut self, query: &ast::Query) -> Bind<Query> {
        self.query(query)
    }

    /// A query.
    pub(crate) fn query(&mut self, query: &ast::Query) -> Bind<Query> {
        let refused = query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty();
        if refused {
            return Err(self.unsupported("this clause of a query", query));
        }
        let visible = self.ctes.len();
        let ctes = match &query.with {
            None => Vec::new(),
            Some(with) => self.with(with)?,
        };
        let locked = self.for_write.get();
        let unwaiting = self.unwaiting_lock(query)?;
        let is_update = |lock: &ast::LockClause| matches!(lock.lock_type, ast::LockType::Update);
        if query.locks.first().is_some_and(is_update) {
            self.for_write.set(true);
        }
        let outer = std::mem::replace(&mut self.unwaiting, unwaiting);
        let bound = tail(query, self).and_then(|tail| self.body(&query.body, tail));
        self.unwaiting = outer;
        self.for_write.set(locked);
        self.ctes.truncate(visible);
        let mut bound = bound?;
        bound.ctes.splice(0..0, ctes);
        Ok(bound)
    }

    /// The body of a query, with what follows it.
    pub(super) fn body(&mut self, body: &SetExpr, tail: Tail<'_>) -> Bind<Query> {
        match body {
            SetExpr::Select(select) => match self.grouping_sets(select)? {
                Some(sets) => self.body(&sets, tail),
                None => self.select(select, tail),
            },
            SetExpr::Values(values) => self.values(values, tail),
            SetExpr::Query(inner) => {
                let query = self.query(inner)?;
                if tail.order.is_empty() && tail.limit.is_none() && tail.offset.is_none() {
                    return Ok(query);
                }
                self.wrapped(query, tail, &**inner)
            }
            SetExpr::SetOperation {
                op,
                set_quantifier,
                left,
                right,
            } => self.set_operation(*op, *set_quantifier, left, right, tail, body),
            other => Err(self.unsupported("this kind of query", other)),
        }
    }

    /// ORDER BY and LIMIT around a query in parentheses.
    fn wrapped(&mut self, query: Query, tail: Tail<'_>, syntax: &impl Spanned) -> Bind<Query> {
        let finish = self.finish_over(&query.columns, tail, syntax)?;
        let columns = query.columns.clone();
        let terms = query.terms.clone();
        let correlated = query.correlated;
        let empty = query.without_rows();
        let operation = SetOperation {
            operator: SetOperator::Union,
            all: true,
            left: query,
            right: empty,
            finish,
        };
        let body = Body::SetOperation(Box::new(operation));
        Ok(Query {
            ctes: Vec::new(),
            body,
            columns,
            correlated,
            terms,
        })
    }

    fn set_operation(
        &mut self,
        operator: ast::SetOperator,
        quantifier: ast::SetQuantifier,
        left: &SetExpr,
        right: &SetExpr,
        tail: Tail<'_>,
        syntax: &SetExpr,
    ) -> Bind<Query> {
        let operator = match operator {
            ast::SetOperator::Union => SetOperator::Union,
            ast::SetOperator::Intersect => SetOperator::Intersect,
            ast::SetOperator::Except => SetOperator::Except,
            ast::SetOperator::Minus => return Err(self.unsupported("MINUS", syntax)),
        };
        let all = match quantifier {
            ast::SetQuantifier::All => true,
            ast::SetQuantifier::None | ast::SetQuantifier::Distinct => false,
            _ => return Err(self.unsupported("BY NAME", syntax)),
        };
        let (mut left, mut right) = (self.body(left, Tail::NONE)?, self.body(right, Tail::NONE)?);
        if left.columns.len() != right.columns.len() {
            let message = "each set operation query must have the same number of columns";
            return Err(self.error("42601", message, syntax));
        }
        for place in 0..left.columns.len() {
            let (a, b) = (
                left.columns[place].1.clone(),
                right.columns[place].1.clone(),
            );
            let probes = [probe(&left, place, &a), probe(&right, place, &b)];
            let common = self.common_type(&[&probes[0], &probes[1]], "UNION", syntax)?;
            for (query, from) in [(&mut left, a), (&mut right, b)] {
                if !super::convert::is_nothing(&from, &common) {
                    cast_column(query, place, &from, &common, false);
                }
                query.columns[place].1 = common.clone();
            }
            if !all {
                self.check_equality(&common, syntax)?;
            }
        }
        let columns = left.columns.clone();
        let correlated = left.correlated || right.correlated;
        if correlated && (left.skips_locked() || right.skips_locked()) {
            return Err(self
                .unsupported(
                    "SKIP LOCKED beside a query that refers to an outer one",
                    syntax,
                )
                .help("lock the rows in a WITH, and name it here"));
        }
        let finish = self.finish_over(&columns, tail, syntax)?;
        let terms = columns.iter().map(|_| RawTerm::Unknown).collect();
        let operation = SetOperation {
            operator,
            all,
            left,
            right,
            finish,
        };
        let body = Body::SetOperation(Box::new(operation));
        Ok(Query {
            ctes: Vec::new(),
            body,
            columns,
            correlated,
            terms,
        })
    }

    /// The tail of a query over its output columns alone.
    pub(super) fn finish_over(
        &mut self,
        columns: &[OutputColumn],
        tail: Tail<'_>,
        syntax: &impl Spanned,
    ) -> Bind<Finish> {
        let mut order = Vec::new();
        for key in tail.order {
            let column = match &key.expr {
                Expr::Identifier(name) => columns.iter().position(|c| c.0 == fold(name)),
                other => ordinal(other).filter(|place| *place < columns.len()),
            };
            let Some(column) = column else {
                return Err(self.unsupported(
                    "ORDER BY of a set operation otherwise than by an output column",
                    syntax,
                ));
            };
            self.check_order(&columns[column].1, &key.expr)?;
            let (descending, nulls_first) = self.direction(&key.options, &key.expr)?;
            order.push(Order {
                labels: super::enumeration::of(Some(&columns[column].1)),
                column,
                descending,
                nulls_first,
            });
        }
        let (limit, offset) = self.limits(tail)?;
        Ok(Finish {
            visible: columns.len(),
            distinct: Distinct::None,
            order,
            limit,
            offset,
        })
    }

    fn limits(&mut self, tail: Tail<'_>) -> Bind<(Option<Expression>, Option<Expression>)> {
        let scopes = std::mem::take(&mut self.scopes);
        let mut bind = |limit: Option<&Expr>| -> Bind<Option<Expression>> {
            let Some(limit) = limit else { return Ok(None) };
            // It has no columns, and is evaluated before any row.
            self.scopes.push(Scope {
                clause: "LIMIT",
                ..Scope::default()
            });
            let expression = self.expression_as(limit, &DataType::Int8, Context::Assignment);
            let scope = self.scopes.pop();
            let expression = expression?;
            if scope.is_some_and(|scope| !scope.subqueries.is_empty()) {
                return Err(self.unsupported("a subquery in LIMIT or OFFSET", limit));
            }
            Ok((expression != Expression::NULL).then_some(expression))
        };
        let limits = bind(tail.limit).and_then(|limit| Ok((limit, bind(tail.offset)?)));
        self.scopes = scopes;
        limits
    }

    /// ASC, DESC, NULLS FIRST and LAST.
    pub(crate) fn direction(
        &self,
        options: &ast::OrderByOptions,
        syntax: &impl Spanned,
    ) -> Bind<(bool, bool)> {
        let descending = match &options.sort {
            None | Some(ast::OrderBySort::Asc) => false,
            Some(ast::OrderBySort::Desc) => true,
            Some(_) => return Err(self.unsupported("ORDER BY … USING", syntax)),
        };
        Ok((descending, options.nulls_first.unwrap_or(descending)))
    }

    fn select(&mut self, select: &ast::Select, tail: Tail<'_>) -> Bind<Query> {
        self.refuse_select_clauses(select)?;
        let unwaiting = self.unwaiting.take();
        let for_write = self.for_write.get();
        if unwaiting.is_some() {
            // Its clause is about the tables of its FROM alone, not about those of subqueries.
            self.for_write.set(false);
        }
        let is_nested = !self.scopes.is_empty();
        let moved = match self.catalog.opaque {
            None => super::system::moved(select, is_nested),
            Some(_) => None,
        };
        let select = moved.as_ref().unwrap_or(select);
        let targets = self.targets.take();
        self.scopes.push(Scope {
            clause: "FROM",
            ..Scope::default()
        });
        let mut list = FromList::default();
        self.source_list(&select.from, &mut list)?;
        if let Some(condition) = &select.selection {
            self.scope().clause = "WHERE";
            let mut conjuncts = Vec::new();
            split(self.condition(condition)?, &mut conjuncts);
            self.use_indexes(&mut conjuncts, &list);
            self.note_conditions(&conjuncts, None);
            list.conjuncts.extend(conjuncts);
        }
        self.scope().aggregates_allowed = true;
        self.named_windows(select)?;
        self.scope().window_place = WindowPlace::Allowed;
        let mut outputs = self.outputs(&select.projection)?;
        self.scope().window_place = WindowPlace::Forbidden;
        self.scope().aggregates_allowed = false;
        self.scope().clause = "GROUP BY";
        let keys = self.group_keys(&select.group_by, &outputs, select)?;
        self.scope().aggregates_allowed = true;
        self.scope().clause = "HAVING";
        let having = select
            .having
            .as_ref()
            .map(|having| self.condition(having))
            .transpose()?;
        self.scope().window_place = WindowPlace::Allowed;
        let visible = outputs.len();
        let mut finish = Finish {
            visible,
            ..Finish::default()
        };
        self.distinct(select, &mut outputs, &mut finish)?;
        self.order_keys(tail.order, &mut outputs, &mut finish)?;
        if finish.distinct == Distinct::All && outputs.len() > visible {
            let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
            return Err(self.error("42P10", message, select));
        }
        (finish.limit, finish.offset) = self.limits(tail)?;
        let mut columns = Vec::new();
        let mut projection = Vec::new();
        for (place, output) in outputs.into_iter().enumerate() {
            let target = targets
                .as_ref()
                .and_then(|(table, columns)| Some((*table, *columns.get(place)?)));
            let (expression, data_type) = match target {
                Some((table, column)) if output.bound.data_type.is_none() && place < visible => {
                    let data_type = super::modify::column_type(self, table, column);
                    (
                        self.coerce(output.bound, &data_type, Context::Assignment, select)?,
                        data_type,
                    )
                }
                _ => self.settled(output.bound, select)?,
            };
            projection.push(expression);
            if place < visible {
                columns.push((output.name, data_type));
            }
        }
        let grouped = !keys.is_empty() || having.is_some() || !self.scope().aggregates.is_empty();
        if moved.is_some() && self.scope().windows.is_some() {
            // PostgreSQL computes the window functions first.
            let construct = "a window function beside a function that returns rows";
            return Err(self.unsupported(construct, select));
        }
        if grouped {
            self.check_grouping(&keys, &projection, having.as_ref(), select)?;
        }
        let terms = projection[..visible].iter().map(|e| self.term(e)).collect();
        let grouping = grouped.then_some((keys, having));
        self.for_write.set(for_write);
        if let Some(lock) = unwaiting {
            let is_plain =
                grouping.is_none() && finish.distinct == Distinct::None && moved.is_none();
            self.lock_sources(&lock, &mut list, is_plain)?;
        }
        self.finish_select(list, grouping, projection, finish, columns, terms)
    }

    /// Puts a bound SELECT's parts in their order of execution.
    fn finish_select(
        &mut self,
        mut list: FromList,
        grouping: Option<(Vec<Expression>, Option<Expression>)>,
        projection: Vec<Expression>,
        mut finish: Finish,
        columns: Vec<OutputColumn>,
        terms: Vec<RawTerm>,
    ) -> Bind<Query> {
        let mut scope = self.scopes.pop().expect("it was pushed");
        let correlated = scope.escapes > 0;
        if correlated && !list.full_joins.is_empty() {
            let construct = "a FULL JOIN in a query that refers to an outer one";
            return Err(Diagnostic::unsupported(construct, self.place));
        }
        if grouping.is_some() && scope.aggregate_source.is_none() {
            scope.aggregate_source = Some(scope.allocate_source());
        }
        join::look_up_lists(
            &self.catalog.schema,
            &mut list.sources,
            &mut list.conjuncts,
            || scope.allocate_source(),
        );
        join::look_up_locked(
            &mut list.sources,
            &mut list.conjuncts,
            &mut scope.subqueries,
        );
        let stride = scope.sources.len() + scope.extra_sources + 1;
        let arrangement = Arrangement {
            schema: &self.catalog.schema,
            full_joins: list.full_joins,
            sources: list.sources,
            conjuncts: list.conjuncts,
            subqueries: std::mem::take(&mut scope.subqueries),
            windows: scope.windows.take(),
            grouping,
            aggregates: std::mem::take(&mut scope.aggregates),
            aggregate_source: scope.aggregate_source,
            single: !correlated,
            for_write: self.for_write.get(),
        };
        let steps = join::arrange(arrangement, &projection, &mut finish);
        let uniques = projection.iter().map(Expression::uniques).sum();
        let select = Select {
            stride,
            steps,
            projection,
            finish,
            uniques,
        };
        let body = Body::Select(Box::new(select));
        Ok(Query {
            ctes: Vec::new(),
            body,
            columns,
            correlated,
            terms,
        })
    }

    fn refuse_select_clauses(&self, select: &ast::Select) -> Bind<()> {
        let refused = [
            (select.top.is_some(), "TOP"),
            (select.into.is_some(), "SELECT INTO a table"),
            (!select.lateral_views.is_empty(), "LATERAL VIEW"),
            (select.prewhere.is_some(), "PREWHERE"),
            (!select.connect_by.is_empty(), "CONNECT BY"),
            (
                !select.cluster_by.is_empty() || !select.distribute_by.is_empty(),
                "CLUSTER BY",
            ),
            (!select.sort_by.is_empty(), "SORT BY"),
            (select.qualify.is_some(), "QUALIFY"),
            (select.exclude.is_some(), "EXCLUDE"),
        ];
        match refused.iter().find(|(present, _)| *present) {
            Some((_, construct)) => Err(self.unsupported(construct, select)),
            None => Ok(()),
        }
    }

    /// A RETURNING list: names, expressions, types.
    pub(crate) fn output_list(
        &mut self,
        items: &[SelectItem],
    ) -> Bind<Vec<(String, Expression, DataType)>> {
        let mut list = Vec::new();
        for output in self.outputs(items)? {
            let place = ast::ObjectName(Vec::new());
            let (expression, data_type) = self.settled(output.bound, &place)?;
            list.push((output.name, expression, data_type));
        }
        Ok(list)
    }

    fn outputs(&mut self, items: &[SelectItem]) -> Bind<Vec<Output>> {
        let mut outputs = Vec::new();
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expression) => {
                    let bound = self.expression(expression)?;
                    outputs.push(Output {
                        name: crate::parse::output::output_name(expression),
                        bound,
                    });
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    if alias.quote_style == Some('\'') {
                        let message = format!("syntax error at or near \"{alias}\"");
                        let place = Span::of(alias.span).unwrap_or(self.place);
                        return Err(Diagnostic::new("42601", message, place));
                    }
                    let bound = self.expression(expr)?;
                    outputs.push(Output {
                        name: fold(alias),
                        bound,
                    });
                }
                SelectItem::Wildcard(options) if plain(options) => {
                    if self.scope().sources.is_empty() {
                        return Err(self.error(
                            "42601",
                            "SELECT * with no tables specified is not valid",
                            item,
                        ));
                    }
                    self.star(None, &mut outputs);
                }
                SelectItem::QualifiedWildcard(
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                    options,
                ) if plain(options) => {
                    let name_text = self.simple_name(name)?;
                    if !self
                        .scope()
                        .sources
                        .iter()
                        .any(|source| source.name == name_text)
                    {
                        let message =
                            format!("missing FROM-clause entry for table \"{name_text}\"");
                        return Err(self.error("42P01", message, name));
                    }
                    self.star(Some(&name_text), &mut outputs);
                }
                other => return Err(self.unsupported("this item of a select list", other)),
            }
        }
        Ok(outputs)
    }

    fn star(&mut self, only: Option<&str>, outputs: &mut Vec<Output>) {
        let scope = self.scope();
        let places = match only {
            None => scope.shown(1..=scope.sources.len()),
            Some(only) => {
                let mut sources = scope.sources.iter().enumerate();
                let named = sources.find(|(_, of)| !of.hidden && of.name == only);
                let columns = |(at, of): (usize, &ScopeSource)| {
                    let places = (0..of.columns.len()).map(move |column| (at + 1, column));
                    places.collect()
                };
                named.map_or(Vec::new(), columns)
            }
        };
        let found: Vec<_> = places
            .into_iter()
            .map(|(source, column)| {
                let of = &scope.sources[source - 1].columns[column];
                (source, column, of.name.clone(), of.data_type.clone())
            })
            .collect();
        for (source, column, name, data_type) in found {
            self.note_reference(0, source, column);
            let bound = Bound::new(
                Expression::Column {
                    depth: 0,
                    source,
                    column,
                },
                data_type,
            );
            outputs.push(Output { name, bound });
        }
    }

    fn group_keys(
        &mut self,
        group_by: &ast::GroupByExpr,
        outputs: &[Output],
        select: &ast::Select,
    ) -> Bind<Vec<Expression>> {
        let ast::GroupByExpr::Expressions(list, modifiers) = group_by else {
            return Err(self.unsupported("GROUP BY ALL", select));
        };
        if !modifiers.is_empty() {
            return Err(self.unsupported("this GROUP BY", select));
        }
        let mut keys = Vec::new();
        for item in list {
            if let Some(place) = ordinal(item) {
                let Some(output) = outputs.get(place) else {
                    let message = format!("GROUP BY position {} is not in select list", place + 1);
                    return Err(self.error("42P10", message, item));
                };
                let bound = output.bound.clone();
                keys.push(self.group_key(bound, item)?);
                continue;
            }
            if let Expr::Identifier(name) = item {
                let name = fold(name);
                let is_column = self.column(None, &name, item)?.is_some();
                let output = outputs.iter().find(|output| output.name == name);
                if let (false, Some(output)) = (is_column, output) {
                    let bound = output.bound.clone();
                    keys.push(self.group_key(bound, item)?);
                    continue;
                }
            }
            if matches!(
                item,
                Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_)
            ) {
                return Err(self.unsupported("GROUPING SETS", item));
            }
            let bound = self.expression(item)?;
            keys.push(self.group_key(bound, item)?);
        }
        Ok(keys)
    }

    fn group_key(&mut self, bound: Bound, syntax: &Expr) -> Bind<Expression> {
        let (expression, data_type) = self.settled(bound, syntax)?;
        self.check_equality(&data_type, syntax)?;
        // It may be an output.
        let scope = self.scope();
        let windows = scope.windows.as_ref().map(|windows| windows.source);
        let aggregates = scope.aggregate_source;
        let mut refused = None;
        expression.each_column(&mut |source, _| {
            if Some(source) == windows {
                refused = Some(("42P20", "window functions are not allowed in GROUP BY"));
            } else if Some(source) == aggregates {
                refused = Some(("42803", "aggregate functions are not allowed in GROUP BY"));
            }
        });
        match refused {
            Some((code, message)) => Err(self.error(code, message, syntax)),
            None => Ok(expression),
        }
    }

    fn distinct(
        &mut self,
        select: &ast::Select,
        outputs: &mut Vec<Output>,
        finish: &mut Finish,
    ) -> Bind<()> {
        match &select.distinct {
            None | Some(ast::Distinct::All) => {}
            Some(ast::Distinct::Distinct) => {
                for output in &outputs[..finish.visible] {
                    if let Some(data_type) = &output.bound.data_type {
                        self.check_equality(data_type, select)?;
                    }
                }
                finish.distinct = Distinct::All;
            }
            Some(ast::Distinct::On(list)) => {
                let mut columns = Vec::new();
                for item in list {
                    let place = self.output_place(item, outputs, finish.visible)?;
                    if let Some(data_type) = &outputs[place].bound.data_type {
                        self.check_equality(data_type, item)?;
                    }
                    columns.push(place);
                }
                finish.distinct = Distinct::On(columns);
            }
        }
        Ok(())
    }

    fn order_keys(
        &mut self,
        keys: &[ast::OrderByExpr],
        outputs: &mut Vec<Output>,
        finish: &mut Finish,
    ) -> Bind<()> {
        for key in keys {
            let column = self.output_place(&key.expr, outputs, finish.visible)?;
            if let Some(data_type) = &outputs[column].bound.data_type {
                self.check_order(data_type, &key.expr)?;
            }
            let (descending, nulls_first) = self.direction(&key.options, &key.expr)?;
            finish.order.push(Order {
                labels: super::enumeration::of(outputs[column].bound.data_type.as_ref()),
                column,
                descending,
                nulls_first,
            });
        }
        if let Distinct::On(columns) = &finish.distinct {
            let leading = finish.order.iter().take(columns.len());
            if !finish.order.is_empty() && !leading.clone().all(|key| columns.contains(&key.column))
            {
                let message =
                    "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
                return Err(crate::diagnostic::Diagnostic::new(
                    "42P10", message, self.place,
                ));
            }
        }
        Ok(())
    }

    /// The output column of an item of ORDER BY; a hidden one is added if there is none.
    fn output_place(
        &mut self,
        item: &Expr,
        outputs: &mut Vec<Output>,
        visible: usize,
    ) -> Bind<usize> {
        if let Some(place) = ordinal(item) {
            if place >= visible {
                let message = format!("ORDER BY position {} is not in select list", place + 1);
                return Err(self.error("42P10", message, item));
            }
            return Ok(place);
        }
        if let Expr::Identifier(name) = item {
            let name = fold(name);
            if let Some(place) = outputs[..visible]
                .iter()
                .position(|output| output.name == name)
            {
                return Ok(place);
            }
        }
        let bound = self.expression(item)?;
        let (expression, data_type) = self.settled(bound, item)?;
        let same = outputs
            .iter()
            .position(|output| output.bound.expression == expression);
        Ok(same.unwrap_or_else(|| {
            outputs.push(Output {
                name: String::new(),
                bound: Bound::new(expression, data_type),
            });
            outputs.len() - 1
        }))
    }

    /// Every column outside an aggregate must be a group key or depend on one.
    fn check_grouping(
        &mut self,
        keys: &[Expression],
        projection: &[Expression],
        having: Option<&Expression>,
        select: &ast::Select,
    ) -> Bind<()> {
        let scope = self.scopes.last().expect("a SELECT has a scope");
        let sources = scope.sources.len();
        let key_of = |source: usize, column: usize| {
            keys.iter().any(|key| matches!(key, Expression::Column { depth: 0, source: s, column: c } if *s == source && *c == column))
        };
        let depends = |source: usize| {
            let table = scope
                .sources
                .get(source - 1)
                .and_then(|source| source.table);
            table.is_some_and(|table| {
                let key = &self.catalog.schema.table(table).primary_key;
                !key.is_empty() && key.iter().all(|column| key_of(source, column.index()))
            })
        };
        let mut stray = None;
        let mut check = |source: usize, column: usize| {
            if source <= sources && !key_of(source, column) && !depends(source) {
                stray.get_or_insert((source, column));
            }
        };
        for expression in projection.iter().chain(having) {
            outside_keys(expression, keys, &mut check);
        }
        if let Some(windows) = &scope.windows {
            windows.each_expression(&mut |expression| outside_keys(expression, keys, &mut check));
        }
        for subquery in scope.subqueries.iter().filter(|subquery| subquery.grouped) {
            subquery
                .references
                .iter()
                .for_each(|(source, column)| check(*source, *column));
        }
        let Some((source, column)) = stray else {
            return Ok(());
        };
        let source = &scope.sources[source - 1];
        let message = format!(
            "column \"{}.{}\" must appear in the GROUP BY clause or be used in an aggregate function",
            source.name, source.columns[column].name
        );
        Err(self.error("42803", message, select))
    }
}

/// Visits the columns of an expression that are not within a group key.
fn outside_keys(
    expression: &Expression,
    keys: &[Expression],
    visit: &mut impl FnMut(usize, usize),
) {
    if keys.contains(expression) {
        return;
    }
    if let Expression::Column {
        depth: 0,
        source,
        column,
    } = expression
    {
        visit(*source, *column);
    }
    let mut children = Vec::new();
    expression.each_child(|child| children.push(child));
    for child in children {
        outside_keys(child, keys, visit);
    }
}

/// A stand-in for a query's output column; a literal of unknown type keeps its value.
pub(super) fn probe(query: &Query, place: usize, data_type: &DataType) -> Bound {
    if let Body::Select(select) = &query.body
        && let constant @ Expression::Constant(anabranch_types::Value::Null) =
            &select.projection[place]
    {
        return Bound::untyped(constant.clone());
    }
    Bound::new(Expression::Variable(usize::MAX), data_type.clone())
}

/// Casts an output column of a query.
pub(crate) fn cast_column(
    query: &mut Query,
    place: usize,
    from: &DataType,
    to: &DataType,
    explicit: bool,
) {
    match &mut query.body {
        Body::Select(select) => {
            let operand = Box::new(std::mem::replace(
                &mut select.projection[place],
                Expression::NULL,
            ));
            let cast = Expression::Cast {
                operand,
                from: from.clone(),
                to: to.clone(),
                explicit,
            };
            select.projection[place] = cast.folded();
        }
        Body::SetOperation(operation) => {
            cast_column(&mut operation.left, place, from, to, explicit);
            cast_column(&mut operation.right, place, from, to, explicit);
        }
        Body::Recursive(_) => unreachable!("the rows of a WITH are cast where they are read"),
    }
    query.columns[place].1 = to.clone();
}

fn plain(options: &ast::WildcardAdditionalOptions) -> bool {
    options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
}

/// The index that a bare integer in GROUP BY or ORDER BY means.
fn ordinal(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => digits.parse::<usize>().ok()?.checked_sub(1),
            _ => None,
        },
        _ => None,
    }
}

/// ORDER BY, LIMIT, OFFSET and FETCH of a query.
fn tail<'q>(query: &'q ast::Query, binder: &Binder<'_>) -> Bind<Tail<'q>> {
    let order: &[ast::OrderByExpr] = match query.order_by.as_ref().map(|order| &order.kind) {
        None => &[],
        Some(ast::OrderByKind::Expressions(list)) => list,
        Some(ast::OrderByKind::All(_)) => return Err(binder.unsupported("ORDER BY ALL", query)),
    };
    let mut tail = Tail {
        order,
        ..Tail::NONE
    };
    match &query.limit_clause {
        None => {}
        Some(ast::LimitClause::LimitOffset {
            limit,
            offset,
            limit_by,
        }) if limit_by.is_empty() => {
            tail.limit = limit.as_ref();
            tail.offset = offset.as_ref().map(|offset| &offset.value);
        }
        Some(_) => return Err(binder.unsupported("this LIMIT", query)),
    }
    if let Some(fetch) = &query.fetch {
        if fetch.with_ties || fetch.percent {
            return Err(binder.unsupported("FETCH WITH TIES or PERCENT", query));
        }
        // FETCH FIRST ROW ONLY
        static ONE: LazyLock<Expr> =
            LazyLock::new(|| Expr::value(ast::Value::Number("1".into(), false)));
        tail.limit = Some(fetch.quantity.as_ref().unwrap_or(&ONE));
    }
    Ok(tail)
}
