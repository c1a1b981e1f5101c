//! Binds INSERT.

use std::sync::OnceLock;

use anabranch_types::{ColumnIndex, IndexId, IndexSchema, SequenceId, TableId, TableSchema};
use sqlparser::ast;

use super::{
    Bind, Binder, Bound, RawAccess, RawWrite,
    convert::Context,
    fold,
    from::split,
    modify::{Shared, changed_columns},
    scope::Scope,
    substitution::{cannot_fail, replaced},
    term::RawTerm,
};
use crate::{
    bind::computed::{Computed, IndexedPart},
    catalog::ColumnDefault,
    constraint::{default_of, schema_of},
    expression::Expression,
    parse::{OVERRIDES, conflict_parts},
    plan::{
        Body, Distinct, Finish, Join, Query, Select, Step,
        rows::RowPlan,
        statement::{Conflict, ConflictUpdate, Insert, Statement, StatementKind},
    },
    program::Program,
    summary::Comparison,
    summary::Role,
};

impl Binder<'_> {
    /// INSERT.
    pub(crate) fn insert(&mut self, insert: &ast::Insert, context: &Shared<'_>) -> Bind<Statement> {
        let ast::TableObject::TableName(name) = &insert.table else {
            return Err(crate::Diagnostic::unsupported(
                "this target of INSERT",
                self.place,
            ));
        };
        let refused = insert.or.is_some()
            || insert.overwrite
            || !insert.assignments.is_empty()
            || insert.partitioned.is_some() && conflict_parts(insert).is_none()
            || insert.replace_into
            || insert.insert_alias.is_some();
        if refused {
            return Err(self.unsupported("this form of INSERT", name));
        }
        let text = self.simple_name(name)?;
        if self.catalog.views.iter().any(|view| view.name == text) {
            return Err(self.unsupported("changing a view", name));
        }
        let table = self.table_named(name)?;
        let schema = schema_of(&self.catalog.schema, table);
        let span = self.place_of(name);
        self.accesses.push(RawAccess {
            table,
            role: Role::Insert,
            columns_returned: Vec::new(),
            columns_read: Vec::new(),
            writes: Vec::new(),
            conditions: Vec::new(),
            has_other_conditions: false,
            listed: Vec::new(),
            draws_key: false,
            span,
        });
        let mut columns = Vec::new();
        for column in &insert.columns {
            let column_index = self.target_column(table, column)?;
            if columns.contains(&column_index) {
                let message = format!("column \"{column}\" specified more than once");
                return Err(self.error("42701", message, column));
            }
            columns.push(column_index);
        }
        let overrides = self.overrides_identity;
        self.overrides_identity |= insert.priority == Some(OVERRIDES);
        let query = self.insert_source(insert, table, &mut columns);
        self.overrides_identity = overrides;
        let query = query?;
        let (query, terms) = self.whole_rows(query, table, &columns)?;
        let computed = context.constraints.of(table).on_insert();
        let is_key = |of: &Computed| schema.primary_key.contains(&of.column);
        self.accesses[0].draws_key = draws_key(&schema, &query) && !computed.iter().any(is_key);
        let (query, terms) = with_computed(query, terms, &computed);
        self.accesses[0].writes = terms
            .into_iter()
            .enumerate()
            .map(|(column, term)| {
                (
                    crate::expression::frame::column_index(column),
                    RawWrite::Assign(term),
                )
            })
            .collect();
        let shown = match &insert.table_alias {
            Some(alias) => fold(&alias.alias),
            None => schema.name.clone(),
        };
        let conflict = match &insert.on {
            None => None,
            Some(ast::OnInsert::OnConflict(on)) => {
                let parts = conflict_parts(insert);
                Some(self.conflict(on, parts, table, &shown, context)?)
            }
            Some(_) => return Err(self.unsupported("ON DUPLICATE KEY UPDATE", name)),
        };
        self.scopes.push(Scope {
            clause: "RETURNING",
            ..Scope::default()
        });
        self.row_source_named(table, shown, Some(0));
        let returning = self.returning(insert.returning.as_ref());
        self.scopes.pop();
        let (returning, columns, terms) = returning?;
        let straight = conflict.is_none() && returning.is_none();
        let rows = straight.then(|| RowPlan::of(&schema, &query)).flatten();
        let plan = Insert {
            schema,
            query,
            rows,
            conflict,
            returning,
        };
        Ok(Statement {
            kind: StatementKind::Insert(Box::new(plan)),
            ctes: Vec::new(),
            columns,
            accesses: std::mem::take(&mut self.accesses),
            terms,
            span: self.place,
            draws: OnceLock::new(),
        })
    }

    /// The rows to be inserted, in the order of the named columns. If none are named, `columns` is set to the first
    /// ones of the table.
    fn insert_source(
        &mut self,
        insert: &ast::Insert,
        table: TableId,
        columns: &mut Vec<ColumnIndex>,
    ) -> Bind<Option<Query>> {
        let Some(source) = &insert.source else {
            return Ok(None);
        };
        let visible = self.catalog.schema.table(table).visible_columns();
        let all: Vec<ColumnIndex> = (0..visible.len())
            .map(crate::expression::frame::column_index)
            .collect();
        let named = !columns.is_empty();
        if !named {
            columns.clone_from(&all);
        }
        self.targets = Some((table, columns.clone()));
        let query = self.query(source);
        self.targets = None;
        let query = query?;
        let given = query.columns.len();
        if given > columns.len() || (named && given < columns.len()) {
            let message = if given > columns.len() {
                "INSERT has more expressions than target columns"
            } else {
                "INSERT has more target columns than expressions"
            };
            return Err(crate::Diagnostic::new("42601", message, self.place));
        }
        columns.truncate(given);
        // The rows of VALUES may say DEFAULT.
        if !matches!(*source.body, ast::SetExpr::Values(_)) {
            for column in columns.iter() {
                self.check_given(table, *column)?;
            }
        }
        Ok(Some(query))
    }

    /// Refuses a value, other than DEFAULT, for a column that takes none.
    pub(super) fn check_given(&self, table: TableId, column: ColumnIndex) -> Bind<()> {
        let name = &self.catalog.schema.table(table).columns[column.index()].name;
        let refused = |detail: String| {
            let message = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
            crate::Diagnostic::new("428C9", message, self.place).detail(detail)
        };
        match &self.catalog.table(table).defaults[column.index()] {
            ColumnDefault::Computed(..) => {
                Err(refused(format!("Column \"{name}\" is a generated column.")))
            }
            ColumnDefault::Generated { always: true, .. } if !self.overrides_identity => {
                Err(refused(format!(
                    "Column \"{name}\" is an identity column defined as GENERATED ALWAYS."
                ))
                .help("Use OVERRIDING SYSTEM VALUE to override."))
            }
            _ => Ok(()),
        }
    }

    /// The source's rows widened to whole rows of the table, and where each column comes from.
    fn whole_rows(
        &mut self,
        query: Option<Query>,
        table: TableId,
        columns: &[ColumnIndex],
    ) -> Bind<(Query, Vec<RawTerm>)> {
        let schema = schema_of(&self.catalog.schema, table);
        let mut row = Vec::new();
        let mut terms = Vec::new();
        for (place, described) in schema.columns.iter().enumerate() {
            let column = crate::expression::frame::column_index(place);
            let given = columns.iter().position(|c| *c == column);
            let (Some(given), Some(query)) = (given, &query) else {
                let default = default_of(self.catalog, table, column)?;
                terms.push(self.term(&default));
                row.push(default);
                continue;
            };
            let from = query.columns[given].1.clone();
            let bound = Bound::new(
                Expression::Column {
                    depth: 0,
                    source: 1,
                    column: given,
                },
                from.clone(),
            );
            if !super::convert::exists(&from, &described.data_type, Context::Assignment) {
                let message = format!(
                    "column \"{}\" is of type {} but expression is of type {from}",
                    described.name, described.data_type
                );
                return Err(crate::Diagnostic::new("42804", message, self.place)
                    .help("You will need to rewrite or cast the expression."));
            }
            let place = ast::ObjectName(Vec::new());
            row.push(self.coerce(bound, &described.data_type, Context::Assignment, &place)?);
            terms.push(query.terms[given].clone());
        }
        let columns: Vec<_> = schema
            .columns
            .iter()
            .map(|c| (c.name.clone(), c.data_type.clone()))
            .collect();
        let uniques = row.iter().map(Expression::uniques).sum::<usize>();
        let finish = Finish {
            visible: columns.len(),
            ..Finish::default()
        };
        let query = match query {
            None => {
                let select = Select {
                    stride: 1,
                    steps: Vec::new(),
                    projection: row,
                    finish,
                    uniques,
                };
                let body = Body::Select(Box::new(select));
                Query {
                    ctes: Vec::new(),
                    body,
                    columns,
                    correlated: false,
                    terms: terms.clone(),
                }
            }
            Some(query) => widened(query, row, columns, finish, uniques, &terms),
        };
        Ok((query, terms))
    }

    fn conflict(
        &mut self,
        on: &ast::OnConflict,
        parts: Option<(&[ast::Expr], Option<&ast::Expr>)>,
        table: TableId,
        shown: &str,
        context: &Shared<'_>,
    ) -> Bind<Conflict> {
        let schema = schema_of(&self.catalog.schema, table);
        let unique = || schema.indexes.iter().filter(|index| index.unique);
        let arbiters = match &on.conflict_target {
            None => {
                let primary = (!schema.primary_key.is_empty()).then_some(None);
                primary
                    .into_iter()
                    .chain(unique().map(|index| Some(index.id)))
                    .collect()
            }
            Some(ast::ConflictTarget::Columns(_)) if let Some((parts, condition)) = parts => {
                vec![self.inferred(table, parts, condition)?]
            }
            Some(ast::ConflictTarget::Columns(names)) => {
                let mut wanted = Vec::new();
                for name in names {
                    wanted.push(
                        self.target_column(table, &ast::ObjectName::from(vec![name.clone()]))?,
                    );
                }
                let same = |columns: &[ColumnIndex]| {
                    columns.len() == wanted.len() && columns.iter().all(|c| wanted.contains(c))
                };
                if same(&schema.primary_key) {
                    vec![None]
                } else {
                    let declared = &self.catalog.table(table).indexes;
                    let is_it = |index: &&IndexSchema| {
                        declared[index.id.index()].is_plain() && same(&index.columns)
                    };
                    match unique().find(is_it) {
                        Some(index) => vec![Some(index.id)],
                        None => return Err(self.no_arbiter()),
                    }
                }
            }
            Some(ast::ConflictTarget::OnConstraint(name)) => {
                let text = self.simple_name(name)?;
                let primary = self.catalog.tables[table.index()]
                    .primary_key_name
                    .as_deref();
                match unique().find(|index| index.name == text) {
                    _ if primary == Some(text.as_str()) => vec![None],
                    Some(index) => vec![Some(index.id)],
                    None => {
                        let message = format!(
                            "constraint \"{text}\" for table \"{}\" does not exist",
                            schema.name
                        );
                        return Err(self.error("42704", message, name));
                    }
                }
            }
        };
        let update = match &on.action {
            ast::OnConflictAction::DoNothing => None,
            ast::OnConflictAction::DoUpdate(update) => {
                if on.conflict_target.is_none() {
                    let message =
                        "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                    return Err(crate::Diagnostic::new("42601", message, self.place));
                }
                let update = self.conflict_update(update, table, shown, context)?;
                self.tell_conflicting(&schema, &arbiters);
                Some(update)
            }
        };
        Ok(Conflict { arbiters, update })
    }

    fn no_arbiter(&self) -> crate::Diagnostic {
        let message =
            "there is no unique or exclusion constraint matching the ON CONFLICT specification";
        crate::Diagnostic::new("42P10", message, self.place)
    }

    /// The unique key of these columns and expressions: the primary key, an index of all rows, or one whose condition the
    /// given one has all parts of.
    fn inferred(
        &mut self,
        table: TableId,
        parts: &[ast::Expr],
        condition: Option<&ast::Expr>,
    ) -> Bind<Option<IndexId>> {
        self.scopes.push(Scope {
            clause: "ON CONFLICT",
            ..Scope::default()
        });
        self.row_source(table, None);
        let bound = self.inferring(parts, condition);
        let scope = self.scopes.pop().expect("it was pushed");
        let (wanted, given) = bound?;
        if !scope.subqueries.is_empty() {
            let construct = "a subquery in ON CONFLICT";
            return Err(crate::Diagnostic::unsupported(construct, self.place));
        }
        let schema = schema_of(&self.catalog.schema, table);
        let column = |column: &ColumnIndex| Expression::Column {
            depth: 0,
            source: 1,
            column: column.index(),
        };
        let has =
            |list: &[Expression], part: &Expression| list.iter().any(|of| of.is_identical(part));
        let is_key = |key: &[Expression]| {
            !key.is_empty()
                && key.iter().all(|part| has(&wanted, part))
                && wanted.iter().all(|part| has(key, part))
        };
        let primary: Vec<Expression> = schema.primary_key.iter().map(column).collect();
        if is_key(&primary) {
            return Ok(None);
        }
        let of_expressions = IndexedPart::of(self.catalog, table);
        let fits = |index: &&IndexSchema| {
            if self.catalog.table(table).indexes[index.id.index()].is_plain() {
                return is_key(&index.columns.iter().map(column).collect::<Vec<_>>());
            }
            let own = || of_expressions.iter().filter(|part| part.index == index.id);
            let key: Vec<Expression> = own().map(|part| part.expression.clone()).collect();
            let mut predicate = own().flat_map(|part| &part.predicate);
            key.len() == index.columns.len() && is_key(&key) && predicate.all(|of| has(&given, of))
        };
        let unique = schema.indexes.iter().filter(|index| index.unique);
        // One of all rows has every conflict of a partial one.
        let is_partial = |index: &&IndexSchema| {
            let definition = &self.catalog.table(table).indexes[index.id.index()];
            definition.predicate.is_some()
        };
        let found = unique.filter(fits).min_by_key(is_partial);
        found
            .map(|index| Some(index.id))
            .ok_or_else(|| self.no_arbiter())
    }

    fn inferring(
        &mut self,
        parts: &[ast::Expr],
        condition: Option<&ast::Expr>,
    ) -> Bind<(Vec<Expression>, Vec<Expression>)> {
        let mut wanted = Vec::new();
        for part in parts {
            let bound = self.expression(part)?;
            wanted.push(self.settled(bound, part)?.0);
        }
        let mut given = Vec::new();
        if let Some(condition) = condition {
            split(self.condition(condition)?, &mut given);
        }
        Ok((wanted, given))
    }

    /// The overwritten row has the key that was to be inserted: as far as it is known, it becomes a condition of the
    /// update, the last access.
    fn tell_conflicting(&mut self, schema: &TableSchema, arbiters: &[Option<IndexId>]) {
        let [arbiter] = arbiters else { return };
        let key = match arbiter {
            None => &schema.primary_key,
            Some(index) => &schema.indexes[index.index()].columns,
        };
        let inserted = self.accesses[0].writes.iter();
        let told = inserted.filter_map(|(column, write)| match write {
            RawWrite::Assign(
                term @ (RawTerm::Constant(_) | RawTerm::Variable { .. } | RawTerm::Element { .. }),
            ) if key.contains(column) => Some((*column, Comparison::Equal, term.clone())),
            _ => None,
        });
        let told: Vec<_> = told.collect();
        if let Some(update) = self.accesses.last_mut() {
            update.conditions.extend(told);
        }
    }

    fn conflict_update(
        &mut self,
        update: &ast::DoUpdate,
        table: TableId,
        shown: &str,
        context: &Shared<'_>,
    ) -> Bind<ConflictUpdate> {
        let schema = schema_of(&self.catalog.schema, table);
        self.scopes.push(Scope {
            clause: "ON CONFLICT",
            ..Scope::default()
        });
        self.row_source_named(table, shown.to_string(), Some(0));
        self.row_source_named(table, "excluded".into(), None);
        let constraints = context.constraints.of(table);
        let (assignments, computed) = self.assignments(table, &update.assignments, constraints)?;
        let condition = update
            .selection
            .as_ref()
            .map(|c| self.condition(c))
            .transpose()?;
        let scope = self.scopes.pop().expect("it was pushed");
        if !scope.subqueries.is_empty() {
            return Err(crate::Diagnostic::unsupported(
                "a subquery in ON CONFLICT",
                self.place,
            ));
        }
        let assigned = changed_columns(assignments.iter().map(|(column, _)| column), &computed);
        if assigned
            .iter()
            .any(|column| schema.primary_key.contains(column))
        {
            return Err(crate::Diagnostic::unsupported(
                "ON CONFLICT updating the primary key",
                self.place,
            ));
        }
        // The existing row is read and overwritten: the analyser sees an update beside the insert.
        let writes = assigned
            .iter()
            .map(|column| (*column, RawWrite::FromData))
            .collect();
        let span = self.accesses[0].span;
        self.accesses.push(RawAccess {
            table,
            role: Role::Update,
            columns_returned: Vec::new(),
            columns_read: (0..schema.columns.len())
                .map(crate::expression::frame::column_index)
                .collect(),
            writes,
            conditions: Vec::new(),
            has_other_conditions: true,
            listed: Vec::new(),
            draws_key: false,
            span,
        });
        let program =
            context
                .programs
                .add(Program::assigning(schema, &assigned, &constraints.checks))?;
        Ok(ConflictUpdate {
            assignments,
            computed,
            condition,
            program,
        })
    }
}

/// Whether each of these whole rows draws its primary key from the sequence of the one column that is the key.
fn draws_key(schema: &TableSchema, query: &Query) -> bool {
    let ([key], Body::Select(select)) = (&schema.primary_key[..], &query.body) else {
        return false;
    };
    let own = SequenceId::Column(schema.id, *key);
    let drawn = select.projection.get(key.index());
    matches!(drawn, Some(Expression::Next(sequence)) if sequence.id == own)
}

/// A query that gives whole rows of a table; a plain SELECT computes them directly.
fn widened(
    mut query: Query,
    row: Vec<Expression>,
    columns: Vec<(String, anabranch_types::DataType)>,
    finish: Finish,
    uniques: usize,
    terms: &[RawTerm],
) -> Query {
    if let Body::Select(select) = &mut query.body {
        // What a row draws is drawn for those alone that SKIP LOCKED has locked.
        let plain = select.finish.distinct == Distinct::None
            && select.skipping().is_none()
            && select.finish.order.is_empty()
            && select.projection.len() == select.finish.visible;
        if plain {
            let given = std::mem::take(&mut select.projection);
            select.projection = row.into_iter().map(|e| substituted(e, &given)).collect();
            select.uniques = select.projection.iter().map(Expression::uniques).sum();
            select.finish.visible = finish.visible;
            query.columns = columns;
            query.terms = terms.to_vec();
            return query;
        }
    }
    computed_from(query, row, columns, finish, uniques, terms)
}

/// A query that computes whole rows of a table from the rows of another one (source 1).
fn computed_from(
    query: Query,
    row: Vec<Expression>,
    columns: Vec<(String, anabranch_types::DataType)>,
    finish: Finish,
    uniques: usize,
    terms: &[RawTerm],
) -> Query {
    let step = crate::plan::QueryStep {
        source: 1,
        rows: crate::plan::RowsOf::Query(query),
        hash: Vec::new(),
        join: Join::default(),
    };
    let select = Select {
        stride: 2,
        steps: vec![Step::Query(Box::new(step))],
        projection: row,
        finish,
        uniques,
    };
    let body = Body::Select(Box::new(select));
    Query {
        ctes: Vec::new(),
        body,
        columns,
        correlated: false,
        terms: terms.to_vec(),
    }
}

/// Whole rows with their generated columns and what triggers assign, and where each column comes from.
fn with_computed(
    query: Query,
    given: Vec<RawTerm>,
    computed: &[Computed],
) -> (Query, Vec<RawTerm>) {
    if computed.is_empty() {
        return (query, given);
    }
    let mut terms = given.clone();
    let columns = query.columns.clone();
    let mut row: Vec<Expression> = (0..columns.len())
        .map(|column| Expression::Column {
            depth: 0,
            source: 1,
            column,
        })
        .collect();
    for of in computed {
        row[of.column.index()] = of.expression.clone();
        terms[of.column.index()] = RawTerm::of_row(&of.expression, &given);
    }
    let finish = Finish {
        visible: columns.len(),
        ..Finish::default()
    };
    // What draws a number is evaluated once, and the generated columns are computed of its result. What triggers overwrite
    // is evaluated, too: it may draw a number, or fail.
    let is_drawn = |select: &Select| {
        let given = |column: &ColumnIndex| &select.projection[column.index()];
        let mut reads = computed.iter().flat_map(|of| &of.reads);
        let mut overwritten = computed.iter().filter(|of| of.is_by_trigger());
        reads.any(|column| given(column).is_volatile())
            || overwritten
                .any(|of| given(&of.column).is_volatile() || !cannot_fail(given(&of.column)))
    };
    let query = match &query.body {
        Body::Select(select) if is_drawn(select) => {
            computed_from(query, row, columns, finish, 0, &terms)
        }
        _ => widened(query, row, columns, finish, 0, &terms),
    };
    (query, terms)
}

/// An expression over a query's output, over what the output is computed from.
fn substituted(expression: Expression, given: &[Expression]) -> Expression {
    replaced(expression, &|column| Some(given[column.index()].clone()))
}
