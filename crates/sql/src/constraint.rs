//! The compiled constraints of each table: CHECKs and foreign keys.

use std::sync::Arc;

use anabranch_types::{
    ColumnIndex, ColumnSet, IndexId, ProgramId, Schema, StoredInt, TableId, TableSchema,
    key::int_width,
};

use crate::{
    bind::{
        Binder, NoVariables, computed::Computed, convert::Context, modify::changed_columns,
        scope::Scope, trigger::RowTriggers,
    },
    catalog::{Catalog, ColumnDefault, Deferrability, ReferentialAction},
    diagnostic::Diagnostic,
    expression::{Expression, integer::Shapes},
    program::{Program, Programs, check::Check},
    source::Span,
};

/// The constraints of all tables.
#[derive(Debug, Default)]
pub(crate) struct Constraints {
    /// By [`TableId`].
    pub(crate) tables: Vec<TableConstraints>,
}

/// The constraints of one table, and those of others that point to it.
#[derive(Debug, Default)]
pub(crate) struct TableConstraints {
    pub(crate) checks: Vec<Check>,
    /// The generated columns.
    pub(crate) computed: Vec<Computed>,
    pub(crate) triggers: RowTriggers,
    pub(crate) parents: Vec<ParentReference>,
    pub(crate) children: Vec<ChildReference>,
}

/// A foreign key, seen from the child.
#[derive(Debug)]
pub(crate) struct ParentReference {
    pub(crate) name: String,
    pub(crate) deferrability: Deferrability,
    pub(crate) columns: Vec<ColumnIndex>,
    pub(crate) parent: Arc<TableSchema>,
    /// The parent's key by which it is looked up: its primary key, or a unique index.
    pub(crate) index: Option<IndexId>,
    /// For each column of that key, which of `columns` it equals.
    pub(crate) order: Vec<usize>,
    /// Where all columns are integers: for each column of that key, where the child's rows have
    /// it, and the bytes that it takes in the key.
    pub(crate) integers: Option<Vec<(StoredInt, usize)>>,
}

impl ParentReference {
    fn new(
        (name, deferrability): (String, Deferrability),
        columns: Vec<ColumnIndex>,
        child: &TableSchema,
        parent: Arc<TableSchema>,
        (index, order): (Option<IndexId>, Vec<usize>),
    ) -> ParentReference {
        let place = |(column, place): (&ColumnIndex, &usize)| {
            let own = columns[*place];
            let described = &parent.columns[column.index()];
            let integers = described.data_type.is_integer()
                && !described.nullable
                && child.columns[own.index()].data_type.is_integer();
            let at = child.layout.stored_int(own)?;
            integers.then(|| (at, int_width(&described.data_type)))
        };
        let key = parent.key_columns(index).iter().zip(&order);
        let integers = key.map(place).collect();
        ParentReference {
            name,
            deferrability,
            columns,
            parent,
            index,
            order,
            integers,
        }
    }
}

/// A foreign key, seen from the parent.
#[derive(Debug)]
pub(crate) struct ChildReference {
    pub(crate) name: String,
    pub(crate) deferrability: Deferrability,
    /// The foreign key's place among those of the child.
    pub(crate) number: usize,
    pub(crate) child: Arc<TableSchema>,
    pub(crate) columns: Vec<ColumnIndex>,
    pub(crate) parent_columns: Vec<ColumnIndex>,
    pub(crate) on_delete: ReferentialAction,
    pub(crate) on_update: ReferentialAction,
    /// The child's index with a prefix that finds its rows; without one, all rows are read.
    pub(crate) path: Option<ChildPath>,
    /// The child's generated columns that are computed from its columns, and what its triggers assign.
    pub(crate) computed: Vec<Computed>,
    /// Sets the child's columns, and then the others that are computed: the arguments are their new values.
    pub(crate) set: ProgramId,
    /// The values for SET DEFAULT.
    pub(crate) defaults: Vec<Expression>,
}

/// How a parent's children are found.
#[derive(Debug)]
pub(crate) struct ChildPath {
    pub(crate) index: Option<IndexId>,
    /// For each column of the prefix, which of the foreign key's columns it is.
    pub(crate) order: Vec<usize>,
}

impl TableConstraints {
    /// What an INSERT computes: generated columns, and what triggers assign.
    pub(crate) fn on_insert(&self) -> Vec<Computed> {
        Computed::on_insert(&self.computed, &self.triggers)
    }

    /// What an UPDATE computes that assigns these columns, and sets generated ones to DEFAULT.
    pub(crate) fn on_update(
        &self,
        assigned: &[ColumnIndex],
        defaulted: &[ColumnIndex],
    ) -> Vec<Computed> {
        Computed::on_update(&self.computed, &self.triggers, assigned, defaulted)
    }
}

impl Constraints {
    /// Compiles the constraints of a catalog.
    pub(crate) fn compile(
        catalog: &Catalog,
        programs: &Programs,
    ) -> Result<Constraints, Vec<Diagnostic>> {
        let mut constraints = Constraints::default();
        let mut problems = Vec::new();
        for table in &catalog.tables {
            let mut compiled = TableConstraints::default();
            for check in &table.checks {
                match bind_check(catalog, table.id, check) {
                    Ok(check) => compiled.checks.push(check),
                    Err(problem) => problems.push(problem),
                }
            }
            // An INSERT binds them again; this reports their errors early.
            for column in 0..table.defaults.len() {
                let column = ColumnIndex(column as u16);
                problems.extend(default_of(catalog, table.id, column).err());
            }
            match Computed::of(catalog, table.id) {
                Ok(computed) => compiled.computed = computed,
                Err(found) => problems.extend(found),
            }
            match RowTriggers::of(catalog, table.id) {
                Ok(triggers) => compiled.triggers = triggers,
                Err(found) => problems.extend(found),
            }
            constraints.tables.push(compiled);
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        for table in &catalog.tables {
            for (number, key) in table.foreign_keys.iter().enumerate() {
                let child = catalog.schema.tables[table.id.index()].clone();
                let parent = catalog.schema.tables[key.parent.index()].clone();
                let lookup = parent_lookup(&parent, &key.parent_columns).ok_or_else(|| {
                    let message = "there is no unique constraint matching given keys for the referenced table";
                    vec![Diagnostic::new("42830", message, key.span)]
                })?;
                constraints.tables[table.id.index()]
                    .parents
                    .push(ParentReference::new(
                        (key.name.clone(), key.deferrability),
                        key.columns.clone(),
                        &child,
                        parent,
                        lookup,
                    ));
                let defaults = key
                    .columns
                    .iter()
                    .map(|column| default_of(catalog, table.id, *column))
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|problem| vec![problem])?;
                let own = &constraints.tables[table.id.index()];
                let computed = own.on_update(&key.columns, &[]);
                let set = changed_columns(key.columns.iter(), &computed);
                let set = programs
                    .add(Program::assigning(child.clone(), &set, &own.checks))
                    .map_err(|problem| vec![problem])?;
                let path = child_path(&child, &key.columns);
                constraints.tables[key.parent.index()]
                    .children
                    .push(ChildReference {
                        name: key.name.clone(),
                        deferrability: key.deferrability,
                        number,
                        child,
                        columns: key.columns.clone(),
                        parent_columns: key.parent_columns.clone(),
                        on_delete: key.on_delete,
                        on_update: key.on_update,
                        path,
                        computed,
                        set,
                        defaults,
                    });
            }
        }
        Ok(constraints)
    }

    /// The constraints of a table.
    pub(crate) fn of(&self, table: TableId) -> &TableConstraints {
        &self.tables[table.index()]
    }
}

fn bind_check(
    catalog: &Catalog,
    table: TableId,
    check: &crate::catalog::Check,
) -> Result<Check, Diagnostic> {
    let name = catalog.schema.table(table).name.clone();
    bind_named(catalog, (table, name), check)
}

/// Binds what an assertion says of each row of a table, which has this name in it.
///
/// # Errors
/// If it depends on more than the row.
pub(crate) fn bind_row(
    catalog: &Catalog,
    (table, name): (TableId, &str),
    condition: &sqlparser::ast::Expr,
    span: Span,
) -> Result<Check, Diagnostic> {
    let check = crate::catalog::Check {
        name: String::new(),
        expression: condition.clone(),
        span,
    };
    bind_named(catalog, (table, name.to_owned()), &check)
}

/// Binds a condition on a row of a table that has this name in it.
fn bind_named(
    catalog: &Catalog,
    (table, name): (TableId, String),
    check: &crate::catalog::Check,
) -> Result<Check, Diagnostic> {
    let mut binder = Binder::new(catalog, &NoVariables, check.span);
    binder.stored = true;
    binder.scopes.push(Scope {
        clause: "check constraints",
        ..Scope::default()
    });
    binder.row_source_named(table, name, None);
    let expression = binder.condition(&check.expression)?;
    if !binder.scope().subqueries.is_empty() {
        return Err(Diagnostic::unsupported(
            "a subquery in a check constraint",
            check.span,
        ));
    }
    let mut columns = ColumnSet::EMPTY;
    expression.each_column(&mut |_, column| {
        columns = columns.with(crate::expression::frame::column_index(column));
    });
    let truth = Shapes::row(catalog.schema.table(table)).truth(&expression);
    Ok(Check {
        name: check.name.clone(),
        truth,
        expression,
        columns,
    })
}

/// The expression for a column's default: NULL for a generated column, which is computed when the rest of its row is
/// known.
pub(crate) fn default_of(
    catalog: &Catalog,
    table: TableId,
    column: ColumnIndex,
) -> Result<Expression, Diagnostic> {
    let described = &catalog.schema.table(table).columns[column.index()];
    match &catalog.tables[table.index()].defaults[column.index()] {
        ColumnDefault::Null | ColumnDefault::Computed(..) => Ok(Expression::NULL),
        ColumnDefault::Generated { .. } => {
            let sequence = catalog.sequence_of_column(table, column);
            Ok(sequence.map_or(Expression::NULL, |of| Expression::Next(Arc::new(of))))
        }
        ColumnDefault::Expression(expression, span) => {
            let mut binder = Binder::new(catalog, &NoVariables, *span);
            binder.stored = true;
            binder.scopes.push(Scope {
                clause: "DEFAULT expressions",
                ..Scope::default()
            });
            let bound =
                binder.expression_as(expression, &described.data_type, Context::Assignment)?;
            if !binder.scope().subqueries.is_empty() {
                return Err(Diagnostic::unsupported("a subquery in a default", *span));
            }
            Ok(bound)
        }
    }
}

/// The unique key of a parent that consists of these columns.
fn parent_lookup(
    parent: &TableSchema,
    columns: &[ColumnIndex],
) -> Option<(Option<IndexId>, Vec<usize>)> {
    let order_of = |key: &[ColumnIndex]| -> Option<Vec<usize>> {
        (key.len() == columns.len()).then(|| {
            key.iter()
                .map(|k| columns.iter().position(|c| c == k))
                .collect::<Option<Vec<_>>>()
        })?
    };
    if let Some(order) = order_of(&parent.primary_key) {
        return Some((None, order));
    }
    parent
        .indexes
        .iter()
        .filter(|index| index.unique)
        .find_map(|index| Some((Some(index.id), order_of(&index.columns)?)))
}

/// The key of a child of which most leading columns are the foreign key's.
fn child_path(child: &TableSchema, columns: &[ColumnIndex]) -> Option<ChildPath> {
    let candidates = std::iter::once(None).chain(child.indexes.iter().map(|index| Some(index.id)));
    let path = |index: Option<IndexId>| {
        let key = child.key_columns(index).iter();
        let order = key
            .map_while(|k| columns.iter().position(|c| c == k))
            .collect::<Vec<_>>();
        ChildPath { index, order }
    };
    candidates
        .map(path)
        .filter(|path| !path.order.is_empty())
        .max_by_key(|path| (path.order.len(), path.index.is_none()))
}

/// All tables' schemas, shared.
pub(crate) fn schema_of(schema: &Schema, table: TableId) -> Arc<TableSchema> {
    schema.tables[table.index()].clone()
}
