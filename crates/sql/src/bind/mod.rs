//! Binding: from `sqlparser`'s syntax trees to plans, with names resolved, types settled and casts inserted.
//!
//! Types follow PostgreSQL's rules for operators, CASE, UNION and assignment (chapter 10 of its manual), for the types
//! of the dialect. A construct without a rule here is refused with its place.

pub(crate) mod aggregate;
mod array;
pub(crate) mod computed;
mod condition;
pub(crate) mod convert;
mod enumeration;
pub(crate) mod expression;
pub(crate) mod from;
pub(crate) mod full_join;
pub(crate) mod function;
mod grouping_sets;
mod indexed;
pub(crate) mod insert;
pub(crate) mod json;
mod locking;
mod mathematics;
pub(crate) mod merge;
pub(crate) mod modify;
pub(crate) mod opaque;
pub(crate) mod operator;
mod outer_join;
pub(crate) mod query;
mod recursive;
mod regexp;
mod scalar_function;
pub(crate) mod scope;
mod sequence;
pub(crate) mod statistics;
mod substitution;
pub(crate) mod system;
mod template;
pub(crate) mod term;
pub(crate) mod trigger;
mod using;
pub(crate) mod values;
pub(crate) mod window;
pub(crate) mod with;

pub(crate) use crate::parse::output::fold;

use std::cell::Cell;

use anabranch_types::{ColumnIndex, DataType, TableId};
use sqlparser::ast::{self, Spanned};

use crate::{
    catalog::Catalog,
    diagnostic::Diagnostic,
    expression::Expression,
    plan::OutputColumn,
    session_value::SessionValue,
    source::Span,
    summary::{Comparison, Role},
};
use scope::Scope;
use term::RawTerm;

/// PostgreSQL's hint where no function fits the arguments.
pub(crate) const NO_FUNCTION: &str = "No function matches the given name and argument types. \
                                      You might need to add explicit type casts.";

/// A result of binding.
pub(crate) type Bind<T> = Result<T, Diagnostic>;

/// An expression with its type; `None` while it is a literal or parameter of unknown type.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) expression: Expression,
    pub(crate) data_type: Option<DataType>,
    /// The place of a literal that gets its type later, and may not be of it.
    pub(crate) place: Option<Span>,
}

impl Bound {
    /// An expression of a known type.
    pub(crate) fn new(expression: Expression, data_type: DataType) -> Bound {
        Bound {
            expression,
            data_type: Some(data_type),
            place: None,
        }
    }

    /// An expression whose type follows from its use.
    pub(crate) fn untyped(expression: Expression) -> Bound {
        Bound {
            expression,
            data_type: None,
            place: None,
        }
    }

    /// A boolean expression.
    pub(crate) fn boolean(expression: Expression) -> Bound {
        Bound::new(expression, DataType::Bool)
    }
}

/// The lookup of names that are not columns: a procedure's variables and parameters.
pub(crate) trait Variables {
    /// The variable with this name: its slot and type.
    fn named(&self, qualifier: Option<&str>, name: &str) -> Option<(usize, DataType)>;
    /// `$n`, counted from 1, with its type; `None` for a type that follows from its use.
    fn numbered(&self, number: usize) -> Option<(usize, Option<DataType>)>;
    /// Whether a name that is both a column's and a variable's means the column (LANGUAGE SQL)
    /// rather than being refused as ambiguous (PL/pgSQL).
    fn column_wins(&self) -> bool {
        false
    }
    /// Whether a statement, or a part of one, is bound, and no constraint.
    fn is_of_statement(&self) -> bool {
        false
    }
    /// Whether a client's statement is bound, which has a connection.
    fn is_of_client(&self) -> bool {
        false
    }
    /// The variable that holds a value of the connection, if a client's statement is bound.
    fn session_value(&self, _: SessionValue) -> Option<usize> {
        None
    }
    /// `left IS DISTINCT FROM right` column by column, if both are rows of a trigger as a whole.
    fn distinct_records(&self, _left: &ast::Expr, _right: &ast::Expr) -> Option<ast::Expr> {
        None
    }
    /// What to do instead of a call of a procedure where none can be.
    fn call_advice(&self) -> &'static str {
        "assign what it returns to a variable, and use that"
    }
}

/// No variables, for constraints and defaults.
pub(crate) struct NoVariables;

/// No variables, for a view, which is no constraint.
pub(crate) struct ViewVariables;

impl Variables for ViewVariables {
    fn named(&self, _: Option<&str>, _: &str) -> Option<(usize, DataType)> {
        None
    }
    fn numbered(&self, _: usize) -> Option<(usize, Option<DataType>)> {
        None
    }
    fn is_of_statement(&self) -> bool {
        true
    }
}

impl Variables for NoVariables {
    fn named(&self, _: Option<&str>, _: &str) -> Option<(usize, DataType)> {
        None
    }
    fn numbered(&self, _: usize) -> Option<(usize, Option<DataType>)> {
        None
    }
}

/// The access of one mention of a table, for the statement's summary.
#[derive(Clone, Debug)]
pub(crate) struct RawAccess {
    pub(crate) table: TableId,
    pub(crate) role: Role,
    pub(crate) columns_read: Vec<ColumnIndex>,
    pub(crate) columns_returned: Vec<ColumnIndex>,
    pub(crate) writes: Vec<(ColumnIndex, RawWrite)>,
    pub(crate) conditions: Vec<(ColumnIndex, Comparison, RawTerm)>,
    pub(crate) has_other_conditions: bool,
    /// Columns that are compared with the elements of a variable's array.
    pub(crate) listed: Vec<(ColumnIndex, usize)>,
    /// Whether it is an INSERT that draws each row's primary key from the sequence of its column.
    pub(crate) draws_key: bool,
    pub(crate) span: Span,
}

impl RawAccess {
    /// Notes that a column is read.
    pub(crate) fn reads(&mut self, column: ColumnIndex) {
        if !self.columns_read.contains(&column) {
            self.columns_read.push(column);
        }
    }
}

/// How a column is written, before variables are resolved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RawWrite {
    Assign(RawTerm),
    Add {
        term: RawTerm,
        negated: bool,
        /// The values of which one is NULL if the amount is; `None` if that is not known.
        null_by: Option<Vec<RawTerm>>,
    },
    /// A function of the row and of these variables.
    FromRow {
        slots: Vec<usize>,
        /// The columns that decide whether it is NULL.
        null_by: Vec<ColumnIndex>,
    },
    FromData,
}

/// A common table expression in sight.
#[derive(Clone, Debug)]
pub(crate) struct VisibleCte {
    pub(crate) name: String,
    pub(crate) rows: CteReference,
    pub(crate) columns: Vec<OutputColumn>,
}

/// What a mention of a common table expression means.
#[derive(Clone, Debug)]
pub(crate) enum CteReference {
    /// The rows of the one with this number.
    Number(usize),
    /// It must not be mentioned here: SQLSTATE and message.
    Refused(&'static str, String),
}

/// Binds one statement.
pub(crate) struct Binder<'b> {
    pub(crate) catalog: &'b Catalog,
    pub(crate) variables: &'b dyn Variables,
    /// The types of `$n` that are known so far.
    pub(crate) parameters: Vec<Option<DataType>>,
    /// The queries around the current place, outermost first.
    pub(crate) scopes: Vec<Scope>,
    /// Tables mentioned so far.
    pub(crate) accesses: Vec<RawAccess>,
    /// Common table expressions in sight.
    pub(crate) ctes: Vec<VisibleCte>,
    /// The number of common table expressions in the statement.
    pub(crate) cte_count: usize,
    /// The statement's place, for syntax without one.
    pub(crate) place: Span,
    /// Views being expanded, to find one that contains itself.
    pub(crate) views: Vec<String>,
    /// Views expanded so far.
    pub(crate) views_expanded: u32,
    /// The columns that the outermost query's output is inserted into.
    pub(crate) targets: Option<(TableId, Vec<ColumnIndex>)>,
    /// The types of the variables that RETURNING goes into; empty where it goes elsewhere.
    pub(crate) into_types: Vec<DataType>,
    /// The role of reads of base tables.
    pub(crate) for_write: Cell<bool>,
    /// The locking clause of the query at hand, if it has NOWAIT or SKIP LOCKED.
    pub(crate) unwaiting: Option<locking::UnwaitingLock>,
    /// The number of opaque expressions so far.
    pub(crate) opaque_count: u32,
    /// Whether a value may be given for a column that is GENERATED ALWAYS.
    pub(crate) overrides_identity: bool,
    /// Within a scalar subquery: whether a part of it is refused only when it is evaluated. See
    /// [`Binder::refuse_outer_reference`].
    pub(crate) refused_later: Option<bool>,
    /// Whether it binds for the system catalogs, which are not there yet: the types count, and no value.
    pub(crate) describes: bool,
    /// Whether what it binds is part of the schema: a CHECK, a DEFAULT, an assertion. See [`Binder::is_stored`].
    pub(crate) stored: bool,
}

impl<'b> Binder<'b> {
    /// A binder for a statement that stands at `place`.
    pub(crate) fn new(
        catalog: &'b Catalog,
        variables: &'b dyn Variables,
        place: Span,
    ) -> Binder<'b> {
        Binder {
            catalog,
            variables,
            parameters: Vec::new(),
            scopes: Vec::new(),
            accesses: Vec::new(),
            ctes: Vec::new(),
            cte_count: 0,
            place,
            views: Vec::new(),
            views_expanded: 0,
            targets: None,
            into_types: Vec::new(),
            for_write: Cell::new(false),
            unwaiting: None,
            opaque_count: 0,
            overrides_identity: false,
            refused_later: None,
            describes: false,
            stored: false,
        }
    }

    /// Whether the syntax at hand is part of the schema, views included. Its literals have one value, whichever session
    /// uses it: a `timestamptz` without a time zone is taken in UTC.
    pub(crate) fn is_stored(&self) -> bool {
        self.stored || !self.views.is_empty()
    }

    /// The place of a piece of syntax, or the statement's where it has none.
    pub(crate) fn place_of(&self, syntax: &impl Spanned) -> Span {
        Span::of(syntax.span()).unwrap_or(self.place)
    }

    /// A diagnostic at a piece of syntax.
    pub(crate) fn error(
        &self,
        code: &'static str,
        message: impl Into<String>,
        syntax: &impl Spanned,
    ) -> Diagnostic {
        Diagnostic::new(code, message, self.place_of(syntax))
    }

    /// A diagnostic for an unsupported construct.
    pub(crate) fn unsupported(&self, construct: &str, syntax: &impl Spanned) -> Diagnostic {
        Diagnostic::unsupported(construct, self.place_of(syntax))
    }

    /// The innermost scope.
    pub(crate) fn scope(&mut self) -> &mut Scope {
        self.scopes
            .last_mut()
            .expect("expressions are bound within a scope")
    }

    /// The table with this name.
    pub(crate) fn table_named(&self, name: &ast::ObjectName) -> Bind<TableId> {
        let text = self.simple_name(name)?;
        match self.catalog.tables.iter().find(|table| table.name == text) {
            Some(table) => Ok(table.id),
            None => {
                let message = format!("relation \"{text}\" does not exist");
                Err(self.error("42P01", message, name))
            }
        }
    }

    /// The name of a function, also of one of the schema `information_schema`.
    pub(crate) fn function_name(&self, name: &ast::ObjectName) -> Bind<String> {
        match name.0.as_slice() {
            [schema, function]
                if schema.as_ident().map(fold).as_deref() == Some("information_schema") =>
            {
                let function = function.as_ident().map(fold);
                function.ok_or_else(|| self.unsupported("this name", name))
            }
            _ => self.simple_name(name),
        }
    }

    /// A name of one part (a schema `public` before it is passed over).
    pub(crate) fn simple_name(&self, name: &ast::ObjectName) -> Bind<String> {
        let parts: Vec<String> = name
            .0
            .iter()
            .map(|part| part.as_ident().map(fold))
            .collect::<Option<_>>()
            .ok_or_else(|| self.unsupported("this name", name))?;
        match parts.as_slice() {
            [name] => Ok(name.clone()),
            [schema, name] if schema == "public" || schema == "pg_catalog" => Ok(name.clone()),
            _ => Err(self.unsupported("a qualified name", name)),
        }
    }
}
