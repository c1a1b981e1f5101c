//! Binds UPDATE and DELETE, and decides whether an UPDATE can be deferred.

use std::sync::OnceLock;

use anabranch_types::{ColumnIndex, DataType, TableId};
use sqlparser::ast::{self, AssignmentTarget, Expr, TableFactor};

use super::{
    Bind, Binder, Bound, RawWrite,
    convert::Context,
    fold,
    from::{FromList, SourceKind, bit, mask, split},
    operator::peeled,
    scope::{Scope, ScopeColumn, ScopeSource},
    substitution::cannot_fail,
    term::{Nullness, RawTerm},
};
use crate::{
    bind::computed::Computed,
    constraint::{Constraints, TableConstraints},
    diagnostic::Diagnostic,
    expression::{Expression, Operator, Relation, frame::column_index, integer::Shapes},
    plan::{
        Argument, DeferredUpdate, Finish, KeyPart, OutputColumn,
        join::{self, Arrangement},
        statement::{Delete, Statement, StatementKind, Update},
    },
    program::{Program, Programs},
    summary::Role,
};

/// RETURNING, bound: expressions, columns and where they come from.
pub(crate) type Returning = (Option<Vec<Expression>>, Vec<OutputColumn>, Vec<RawTerm>);

/// The columns that a SET names, with their new values.
pub(crate) type Assignments = Vec<(ColumnIndex, Expression)>;

/// Shared by the statements of an application while they are compiled.
pub(crate) struct Shared<'c> {
    pub(crate) constraints: &'c Constraints,
    pub(crate) programs: &'c Programs,
}

impl Binder<'_> {
    /// Makes a table's row source 1 of the innermost scope, without it being read.
    pub(crate) fn row_source(&mut self, table: TableId, access: Option<usize>) {
        let schema = self.catalog.schema.table(table);
        let name = schema.name.clone();
        self.row_source_named(table, name, access);
    }

    /// The same under another name.
    pub(crate) fn row_source_named(&mut self, table: TableId, name: String, access: Option<usize>) {
        let schema = self.catalog.schema.table(table);
        let columns = schema
            .visible_columns()
            .iter()
            .map(|column| ScopeColumn {
                name: column.name.clone(),
                data_type: column.data_type.clone(),
                merged: false,
            })
            .collect();
        self.scope().sources.push(ScopeSource {
            name,
            columns,
            access,
            table: Some(table),
            elements: None,
            hidden: false,
            nullable: false,
        });
    }

    /// RETURNING.
    pub(crate) fn returning(&mut self, items: Option<&Vec<ast::SelectItem>>) -> Bind<Returning> {
        let Some(items) = items else {
            return Ok((None, Vec::new(), Vec::new()));
        };
        self.scope().clause = "RETURNING";
        let before = self.scope().subqueries.len();
        let mut bound = self.output_list(items)?;
        // Values that are returned INTO variables are cast to their types here: a pending value cannot be cast
        // afterwards.
        for ((_, expression, data_type), to) in bound.iter_mut().zip(self.into_types.clone()) {
            let output = Bound::new(expression.clone(), data_type.clone());
            let place = ast::ObjectName(Vec::new());
            *expression = self.coerce(output, &to, Context::Assignment, &place)?;
            *data_type = to;
        }
        if self.scope().subqueries.len() > before {
            let place = self.place;
            return Err(Diagnostic::unsupported("a subquery in RETURNING", place));
        }
        let terms = bound
            .iter()
            .map(|(_, expression, _)| self.term(expression))
            .collect();
        let columns = bound
            .iter()
            .map(|(name, _, data_type)| (name.clone(), data_type.clone()))
            .collect();
        let expressions = bound
            .into_iter()
            .map(|(_, expression, _)| expression)
            .collect();
        Ok((Some(expressions), columns, terms))
    }

    /// UPDATE.
    pub(crate) fn update(&mut self, update: &ast::Update, context: &Shared<'_>) -> Bind<Statement> {
        if update.or.is_some()
            || update.output.is_some()
            || update.limit.is_some()
            || !update.order_by.is_empty()
        {
            return Err(self.unsupported("this clause of UPDATE", &update.table.relation));
        }
        self.scopes.push(Scope {
            clause: "UPDATE",
            ..Scope::default()
        });
        let mut list = FromList::default();
        let table = self.target(&update.table, Role::Update, &mut list)?;
        match &update.from {
            None => {}
            Some(ast::UpdateTableFromKind::AfterSet(items)) => {
                self.source_list(items, &mut list)?
            }
            Some(_) => return Err(self.unsupported("FROM before SET", &update.table.relation)),
        }
        self.where_clause(update.selection.as_ref(), &mut list)?;
        self.scope().clause = "UPDATE";
        let own = context.constraints.of(table);
        let (assignments, computed) = self.assignments(table, &update.assignments, own)?;
        let assigned = changed_columns(assignments.iter().map(|(column, _)| column), &computed);
        // What is computed as if it were assigned, for what looks at the statement before it runs.
        let (overwritten, mut all): (Assignments, Assignments) = assignments
            .iter()
            .cloned()
            .partition(|(column, _)| is_overwritten(*column, &computed));
        for of in &computed {
            let value = of.assigned(&assignments);
            if of.is_by_trigger() {
                value.each_column(&mut |source, column| {
                    if source == 1 {
                        self.accesses[0].reads(column_index(column));
                    }
                });
            }
            all.push((of.column, value));
        }
        let writes = all
            .iter()
            .map(|(column, e)| (*column, self.write_class(table, *column, e)))
            .collect();
        self.accesses[0].writes = writes;
        let (returning, columns, terms) = self.returning(update.returning.as_ref())?;
        let mut returned = Vec::new();
        for expression in returning.iter().flatten() {
            expression.each_column(&mut |source, column| {
                if source == 1 && !returned.contains(&column_index(column)) {
                    returned.push(column_index(column));
                }
            });
        }
        let returns_old = !returned.iter().any(|column| assigned.contains(column));
        self.accesses[0].columns_returned = returned;
        let schema = crate::constraint::schema_of(&self.catalog.schema, table);
        let checks = &own.checks;
        let moves = assigned
            .iter()
            .any(|column| schema.primary_key.contains(column));
        // The owner of a row would not notice that a value fails which is not left.
        let deferred = match overwritten.iter().all(|(_, value)| cannot_fail(value)) {
            true => self.deferred(table, &list, &all, returning.as_deref(), context)?,
            false => None,
        };
        let mut assigning = Program::assigning(schema.clone(), &assigned, checks);
        assigning.stands_in = deferred.is_some();
        let program = context.programs.add(assigning)?;
        let uniques = assignments.iter().map(|(_, e)| e.uniques()).sum();
        let (steps, stride) = self.target_steps(list);
        let place = self.place;
        let update = Update {
            schema,
            stride,
            steps,
            assignments,
            computed,
            uniques,
            program,
            moves,
            returning,
            returns_old,
            deferred,
        };
        Ok(Statement {
            kind: StatementKind::Update(Box::new(update)),
            ctes: Vec::new(),
            columns,
            accesses: std::mem::take(&mut self.accesses),
            terms,
            span: place,
            draws: OnceLock::new(),
        })
    }

    /// DELETE.
    pub(crate) fn delete(&mut self, delete: &ast::Delete) -> Bind<Statement> {
        let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) =
            &delete.from;
        let place = self.place;
        let refused = !delete.tables.is_empty()
            || delete.output.is_some()
            || delete.limit.is_some()
            || !delete.order_by.is_empty();
        let ([target], false) = (from.as_slice(), refused) else {
            return Err(Diagnostic::unsupported("this form of DELETE", place));
        };
        self.scopes.push(Scope {
            clause: "DELETE",
            ..Scope::default()
        });
        let mut list = FromList::default();
        let table = self.target(target, Role::Delete, &mut list)?;
        if let Some(using) = &delete.using {
            self.source_list(using, &mut list)?;
        }
        self.where_clause(delete.selection.as_ref(), &mut list)?;
        let (returning, columns, terms) = self.returning(delete.returning.as_ref())?;
        let schema = crate::constraint::schema_of(&self.catalog.schema, table);
        let (steps, stride) = self.target_steps(list);
        let delete = Delete {
            schema,
            stride,
            steps,
            returning,
        };
        Ok(Statement {
            kind: StatementKind::Delete(Box::new(delete)),
            ctes: Vec::new(),
            columns,
            accesses: std::mem::take(&mut self.accesses),
            terms,
            span: place,
            draws: OnceLock::new(),
        })
    }

    /// The table that a statement changes, as source 1.
    fn target(
        &mut self,
        item: &ast::TableWithJoins,
        role: Role,
        list: &mut FromList,
    ) -> Bind<TableId> {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = &item.relation
        else {
            return Err(self.unsupported("this target", &item.relation));
        };
        if !item.joins.is_empty() {
            return Err(self.unsupported("a join as a target", &item.relation));
        }
        let text = self.simple_name(name)?;
        if self.catalog.views.iter().any(|view| view.name == text) {
            return Err(self.unsupported("changing a view", name));
        }
        let table = self.table_named(name)?;
        let shown = alias.as_ref().map_or(text, |alias| fold(&alias.name));
        self.add_table(table, shown, None, role, &item.relation, list)?;
        list.sources[0].target = true;
        Ok(table)
    }

    fn where_clause(&mut self, condition: Option<&Expr>, list: &mut FromList) -> Bind<()> {
        let Some(condition) = condition else {
            return Ok(());
        };
        self.scope().clause = "WHERE";
        let mut conjuncts = Vec::new();
        split(self.condition(condition)?, &mut conjuncts);
        self.use_indexes(&mut conjuncts, list);
        self.note_conditions(&conjuncts, None);
        list.conjuncts.extend(conjuncts);
        Ok(())
    }

    /// The pipeline that finds the target's rows.
    fn target_steps(&mut self, mut list: FromList) -> (Vec<crate::plan::Step>, usize) {
        let mut scope = self.scopes.pop().expect("it was pushed");
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
            windows: None,
            full_joins: list.full_joins,
            schema: &self.catalog.schema,
            sources: list.sources,
            conjuncts: list.conjuncts,
            subqueries: std::mem::take(&mut scope.subqueries),
            grouping: None,
            aggregates: Vec::new(),
            aggregate_source: None,
            single: true,
            for_write: false,
        };
        (
            join::arrange(arrangement, &[], &mut Finish::default()),
            stride,
        )
    }

    /// SET's columns and their new values, in the columns' types; and what is computed with them: generated columns that
    /// change or that are set to DEFAULT, and what triggers assign.
    pub(crate) fn assignments(
        &mut self,
        table: TableId,
        list: &[ast::Assignment],
        constraints: &TableConstraints,
    ) -> Bind<(Assignments, Vec<Computed>)> {
        let mut assignments: Vec<(ColumnIndex, Expression)> = Vec::new();
        let mut defaulted: Vec<ColumnIndex> = Vec::new();
        for assignment in list {
            // As many subqueries as columns.
            let parted: Vec<Expr>;
            let pairs: Vec<(&ast::ObjectName, &Expr)> =
                match (&assignment.target, peeled(&assignment.value)) {
                    (AssignmentTarget::ColumnName(name), _) => vec![(name, &assignment.value)],
                    (AssignmentTarget::Tuple(names), Expr::Tuple(values))
                        if names.len() == values.len() =>
                    {
                        names.iter().zip(values).collect()
                    }
                    (AssignmentTarget::Tuple(names), value) if names.len() == 1 => {
                        vec![(&names[0], value)]
                    }
                    (AssignmentTarget::Tuple(names), Expr::Subquery(query)) => {
                        parted = self.parted(query, names.len())?;
                        names.iter().zip(&parted).collect()
                    }
                    (AssignmentTarget::Tuple(_), value) => {
                        return Err(self.unsupported("this assignment of several columns", value));
                    }
                };
            for (name, value) in pairs {
                let column = self.target_column(table, name)?;
                let mut before = assignments.iter().map(|(other, _)| other);
                if before.any(|other| *other == column) || defaulted.contains(&column) {
                    let message = format!("multiple assignments to same column \"{name}\"");
                    return Err(self.error("42601", message, name));
                }
                if constraints.computed.iter().any(|of| of.column == column) {
                    if !is_default(value) {
                        let name = &self.catalog.schema.table(table).columns[column.index()].name;
                        let message = format!("column \"{name}\" can only be updated to DEFAULT");
                        return Err(Diagnostic::new("428C9", message, self.place)
                            .detail(format!("Column \"{name}\" is a generated column.")));
                    }
                    defaulted.push(column);
                    continue;
                }
                let expression = self.assigned_value(table, column, value)?;
                assignments.push((column, expression));
            }
        }
        let assigned: Vec<ColumnIndex> = assignments.iter().map(|(column, _)| *column).collect();
        let computed = constraints.on_update(&assigned, &defaulted);
        Ok((assignments, computed))
    }

    /// A subquery of several columns as one for each of them, which takes its column of the whole. Each finds the same
    /// row, as a statement sees the rows as they were when it began; what is drawn anew each time is refused.
    fn parted(&self, query: &ast::Query, columns: usize) -> Bind<Vec<Expr>> {
        let refuse = || {
            self.unsupported("such a subquery for several columns", query)
                .help("write a subquery for each column")
        };
        let ast::SetExpr::Select(select) = &*query.body else {
            return Err(refuse());
        };
        let is_value = |item: &ast::SelectItem| {
            matches!(
                item,
                ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. }
            )
        };
        let text = query.to_string().to_lowercase();
        let is_drawn = ["nextval", "random", "uuid", "setval"];
        let is_plain = query.locks.is_empty()
            && query.limit_clause.is_none()
            && query.fetch.is_none()
            && select.projection.iter().all(is_value)
            && !is_drawn.iter().any(|name| text.contains(name));
        if !is_plain {
            return Err(refuse());
        }
        if select.projection.len() != columns {
            let message = "number of columns does not match number of values";
            return Err(self.error("42601", message, query));
        }
        // No statement can write these names without quotes.
        let named = |place: usize| ast::Ident::with_quote('"', format!("Column{place}"));
        let whole = ast::TableWithJoins {
            relation: TableFactor::Derived {
                lateral: false,
                subquery: Box::new(query.clone()),
                alias: Some(ast::TableAlias {
                    explicit: true,
                    name: ast::Ident::with_quote('"', "Row"),
                    columns: (0..columns)
                        .map(|place| ast::TableAliasColumnDef {
                            name: named(place),
                            data_type: None,
                        })
                        .collect(),
                    at: None,
                }),
                sample: None,
            },
            joins: Vec::new(),
        };
        let part = |place: usize| {
            let mut part = select.clone();
            part.distinct = None;
            part.projection = vec![ast::SelectItem::UnnamedExpr(Expr::Identifier(named(place)))];
            part.from = vec![whole.clone()];
            part.selection = None;
            part.group_by = ast::GroupByExpr::Expressions(Vec::new(), Vec::new());
            part.having = None;
            part.named_window = Vec::new();
            Expr::Subquery(Box::new(ast::Query {
                with: None,
                body: Box::new(ast::SetExpr::Select(part)),
                order_by: None,
                ..query.clone()
            }))
        };
        Ok((0..columns).map(part).collect())
    }

    /// A column of the changed table by its name.
    pub(crate) fn target_column(
        &self,
        table: TableId,
        name: &ast::ObjectName,
    ) -> Bind<ColumnIndex> {
        let schema = self.catalog.schema.table(table);
        let last = name
            .0
            .last()
            .and_then(|part| part.as_ident())
            .map(fold)
            .unwrap_or_default();
        if name.0.len() > 1 {
            return Err(self.unsupported("a qualified column here", name));
        }
        let mut columns = schema.visible_columns().iter();
        match columns.position(|column| column.name == last) {
            Some(column) => Ok(column_index(column)),
            None => {
                let message = format!(
                    "column \"{last}\" of relation \"{}\" does not exist",
                    schema.name
                );
                Err(self.error("42703", message, name))
            }
        }
    }

    /// A value for a column; DEFAULT stands for the column's default.
    pub(crate) fn assigned_value(
        &mut self,
        table: TableId,
        column: ColumnIndex,
        value: &Expr,
    ) -> Bind<Expression> {
        if is_default(value) {
            return crate::constraint::default_of(self.catalog, table, column);
        }
        let described = &self.catalog.schema.table(table).columns[column.index()];
        let (name, data_type) = (described.name.clone(), described.data_type.clone());
        let bound = self.expression(value)?;
        if let Some(from) = &bound.data_type
            && !super::convert::exists(from, &data_type, Context::Assignment)
        {
            let message = format!(
                "column \"{name}\" is of type {data_type} but expression is of type {from}"
            );
            return Err(self
                .error("42804", message, value)
                .help("You will need to rewrite or cast the expression."));
        }
        self.coerce(bound, &data_type, Context::Assignment, value)
    }

    /// How an assignment writes its column.
    fn write_class(
        &self,
        table: TableId,
        column: ColumnIndex,
        expression: &Expression,
    ) -> RawWrite {
        if mask(expression) & bit(1) == 0 {
            return RawWrite::Assign(self.term(expression));
        }
        let columns = &self.catalog.schema.table(table).columns;
        let mut core = expression;
        while let Expression::Cast { operand, .. } = core {
            core = operand;
        }
        if let Expression::Arithmetic {
            operator,
            left,
            right,
            ..
        } = core
        {
            let own = |e: &Expression| {
                let mut e = e;
                while let Expression::Cast { operand, .. } = e {
                    e = operand;
                }
                matches!(e, Expression::Column { depth: 0, source: 1, column: c } if *c == column.index())
            };
            let free = |e: &Expression| mask(e) & bit(1) == 0;
            let negated = *operator == Operator::Subtract;
            if matches!(operator, Operator::Add | Operator::Subtract) && own(left) && free(right) {
                return RawWrite::Add {
                    term: self.term(right),
                    negated,
                    null_by: self.null_by(right, columns),
                };
            }
            if *operator == Operator::Add && own(right) && free(left) {
                return RawWrite::Add {
                    term: self.term(left),
                    negated: false,
                    null_by: self.null_by(left, columns),
                };
            }
        }
        // An opaque value may come from any data.
        let mut other_data = expression.is_unknown();
        let mut slots = Vec::new();
        expression.any(&mut |e| {
            match e {
                Expression::Column {
                    depth: 0,
                    source: 1,
                    ..
                } => {}
                Expression::Column { .. } => match self.term(e) {
                    RawTerm::Element { slot } => slots.push(slot),
                    RawTerm::Of(more) => slots.extend(more),
                    _ => other_data = true,
                },
                Expression::Variable(slot) => slots.push(*slot),
                _ => {}
            }
            false
        });
        if other_data {
            RawWrite::FromData
        } else {
            RawWrite::FromRow {
                slots,
                null_by: Nullness::of(expression, columns)
                    .columns
                    .into_iter()
                    .map(column_index)
                    .collect(),
            }
        }
    }

    /// The deferred form of an UPDATE, if it has one.
    fn deferred(
        &self,
        table: TableId,
        list: &FromList,
        assignments: &[(ColumnIndex, Expression)],
        returning: Option<&[Expression]>,
        context: &Shared<'_>,
    ) -> Bind<Option<DeferredUpdate>> {
        let scope = self.scopes.last().expect("an UPDATE has a scope");
        let schema = crate::constraint::schema_of(&self.catalog.schema, table);
        let pure = list.sources[1..].iter().all(|source| {
            let function = matches!(
                source.kind,
                SourceKind::Function { .. } | SourceKind::Rows(_)
            );
            function && source.left.is_none() && source.depends & bit(1) == 0
        });
        if !scope.subqueries.is_empty() || !pure || schema.primary_key.is_empty() {
            return Ok(None);
        }
        let (on_target, on_others): (Vec<&Expression>, Vec<&Expression>) = list
            .conjuncts
            .iter()
            .partition(|conjunct| mask(conjunct) & bit(1) != 0);
        let Some(key) = full_key(&schema, &on_target) else {
            return Ok(None);
        };
        let own = |e: &Expression| e.is_volatile() || e.is_unknown();
        let volatile = assignments.iter().any(|(_, e)| own(e))
            || returning.unwrap_or(&[]).iter().any(own)
            || list.conjuncts.iter().any(Expression::is_unknown);
        if volatile || !free_columns(&schema, assignments, context.constraints) {
            return Ok(None);
        }
        let mut hoist = Hoist {
            arguments: Vec::new(),
        };
        let program_assignments: Vec<_> = assignments
            .iter()
            .map(|(column, e)| (*column, hoist.convert(e)))
            .collect();
        let outputs: Vec<_> = returning
            .unwrap_or(&[])
            .iter()
            .map(|e| hoist.convert(e))
            .collect();
        // The owner of the row has no session. What cannot be computed before it runs is left to the statement.
        let programmed = program_assignments.iter().map(|(_, e)| e).chain(&outputs);
        if programmed.into_iter().any(Expression::depends_on_zone) {
            return Ok(None);
        }
        let output_count = outputs.len() as u16;
        let checks = &context.constraints.of(table).checks;
        let program = Program::new(schema, program_assignments, outputs, checks);
        let may_fail = program.may_fail;
        let program = context.programs.add(program)?;
        let sources = list.sources[1..]
            .iter()
            .map(|source| super::from::PlanSource {
                number: source.number,
                kind: source.kind.copied(),
                left: None,
                depends: source.depends,
                target: false,
                when_locked: source.when_locked,
            })
            .collect();
        let conjuncts = on_others.into_iter().cloned().collect();
        let steps = join::pure_steps(sources, conjuncts, &self.catalog.schema);
        Ok(Some(DeferredUpdate {
            stride: scope.sources.len() + 1,
            steps,
            key,
            program,
            arguments: hoist.arguments.into_iter().map(argument).collect(),
            outputs: output_count,
            may_fail,
        }))
    }
}

/// The columns that an UPDATE changes, in the order of the arguments of its program: those that it assigns, then those
/// that are computed beside them.
pub(crate) fn changed_columns<'c>(
    assigned: impl Iterator<Item = &'c ColumnIndex>,
    computed: &[Computed],
) -> Vec<ColumnIndex> {
    let mut changed: Vec<ColumnIndex> = assigned.copied().collect();
    for of in computed {
        if !changed.contains(&of.column) {
            changed.push(of.column);
        }
    }
    changed
}

/// Whether a value that an UPDATE assigns is not left, since a trigger assigns another one.
fn is_overwritten(column: ColumnIndex, computed: &[Computed]) -> bool {
    computed.iter().any(|of| of.column == column)
}

/// The full primary key, each column equal to a value that does not depend on the row, if the row has no other
/// condition.
fn full_key(
    schema: &anabranch_types::TableSchema,
    conjuncts: &[&Expression],
) -> Option<Vec<KeyPart>> {
    if conjuncts.len() != schema.primary_key.len() {
        return None;
    }
    let value_of = |column: ColumnIndex| {
        conjuncts.iter().find_map(|conjunct| {
            let Expression::Compare { relation: Relation::Equal, left, right } = conjunct else {
                return None;
            };
            let is = |e: &Expression| {
                matches!(e, Expression::Column { depth: 0, source: 1, column: c } if *c == column.index())
            };
            match (is(left), is(right)) {
                (true, false) if mask(right) & bit(1) == 0 => Some((**right).clone()),
                (false, true) if mask(left) & bit(1) == 0 => Some((**left).clone()),
                _ => None,
            }
        })
    };
    schema
        .primary_key
        .iter()
        .map(|column| {
            let described = &schema.columns[column.index()];
            let mut part = KeyPart {
                column: *column,
                data_type: described.data_type.clone(),
                nullable: described.nullable,
                value: value_of(*column)?,
                integer: None,
            };
            // It depends on no table.
            part.settle(&Shapes::default());
            Some(part)
        })
        .collect()
}

/// Whether none of the assigned columns is part of a key or of a foreign key on either side.
fn free_columns(
    schema: &anabranch_types::TableSchema,
    assignments: &[(ColumnIndex, Expression)],
    constraints: &Constraints,
) -> bool {
    let own = constraints.of(schema.id);
    assignments.iter().all(|(column, _)| {
        !schema.primary_key.contains(column)
            && !schema
                .indexes
                .iter()
                .any(|index| index.unique && index.columns.contains(column))
            && !own
                .parents
                .iter()
                .any(|parent| parent.columns.contains(column))
            && !own
                .children
                .iter()
                .any(|child| child.parent_columns.contains(column))
    })
}

/// An argument of a deferred UPDATE, which depends on no table.
fn argument(value: Expression) -> Argument {
    Argument {
        integer: Shapes::default().typed(&value),
        value,
    }
}

/// Moves the parts of a program that do not depend on the row into its arguments.
struct Hoist {
    arguments: Vec<Expression>,
}

impl Hoist {
    fn convert(&mut self, expression: &Expression) -> Expression {
        match expression {
            Expression::Constant(_) => expression.clone(),
            Expression::Column {
                depth: 0,
                source: 1,
                ..
            } => expression.clone(),
            e if mask(e) & bit(1) == 0 && cannot_fail(e) => self.argument(e),
            other => {
                let mut copy = other.clone();
                copy.each_child_mut(|child| *child = self.convert(child));
                copy
            }
        }
    }

    fn argument(&mut self, expression: &Expression) -> Expression {
        let place = self.arguments.iter().position(|other| other == expression);
        Expression::Variable(place.unwrap_or_else(|| {
            self.arguments.push(expression.clone());
            self.arguments.len() - 1
        }))
    }
}

/// DEFAULT in the place of a value.
pub(crate) fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(name) if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

/// The type of an assignment's target, for messages.
pub(crate) fn column_type(binder: &Binder<'_>, table: TableId, column: ColumnIndex) -> DataType {
    binder.catalog.schema.table(table).columns[column.index()]
        .data_type
        .clone()
}
