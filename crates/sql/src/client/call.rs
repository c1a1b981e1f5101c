//! Calls of declared procedures: `CALL p(…)`, `SELECT p(…)`, `SELECT … FROM p(…)`.
//!
//! A call runs under its procedure's plan entry, so it must be the whole statement. As in PostgreSQL, CALL calls what
//! CREATE PROCEDURE has created, and SELECT what CREATE FUNCTION has.

use std::sync::Arc;

use anabranch_types::{DataType, Value};
use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, SelectItem, SetExpr, TableFactor};

use crate::{
    application::{Application, ResultSet},
    argument::ArgumentList,
    bind::{
        Bind, Binder, Bound,
        convert::{Context, exists, unbounded},
        fold,
        scope::Scope,
    },
    catalog::{Catalog, ParameterMode, Procedure, RoutineKind},
    diagnostic::Diagnostic,
    plan::OutputColumn,
};

/// What a client sees of a procedure's result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallShape {
    /// No rows: CALL of a procedure without output parameters.
    Nothing,
    /// The rows as they are.
    Rows,
    /// One row with an empty text: SELECT of a function that returns void.
    Void,
    /// These columns of each row, in this order.
    Columns(Vec<usize>),
    /// Each row as one composite value: an array of the row's, of type [`DataType::Record`].
    Record,
}

impl CallShape {
    /// The result that the client sees, with the plan's columns. Pending values are to be resolved before.
    pub fn of(&self, result: ResultSet, columns: Option<&Arc<[(String, DataType)]>>) -> ResultSet {
        let columns = columns.cloned().unwrap_or_else(|| Arc::new([]));
        let rows: Vec<Vec<Value>> = match self {
            CallShape::Nothing => Vec::new(),
            CallShape::Rows => result.rows,
            CallShape::Void => vec![vec![Value::text("")]],
            CallShape::Columns(chosen) => {
                let row = |row: Vec<Value>| chosen.iter().map(|at| row[*at].clone()).collect();
                result.rows.into_iter().map(row).collect()
            }
            CallShape::Record => {
                let row = |row: Vec<Value>| vec![Value::Array(row.into())];
                result.rows.into_iter().map(row).collect()
            }
        };
        ResultSet {
            columns,
            count: rows.len() as u64,
            rows,
            messages: result.messages,
        }
    }
}

/// A statement that is one call.
pub(super) struct Call<'s> {
    /// Its place in the catalog; `None` if none has the name.
    procedure: Option<usize>,
    name: &'s ast::ObjectName,
    arguments: &'s [FunctionArg],
    form: Form<'s>,
}

/// The form of a call.
enum Form<'s> {
    /// `CALL p(…)`
    Call,
    /// `SELECT p(…) [AS alias]`
    Scalar { alias: Option<&'s ast::Ident> },
    /// `SELECT … FROM p(…) [AS alias]`
    From {
        alias: Option<&'s ast::TableAlias>,
        projection: &'s [SelectItem],
    },
}

/// A call with its arguments bound.
pub(super) struct BoundCall {
    pub(super) procedure: usize,
    pub(super) arguments: ArgumentList,
    pub(super) shape: CallShape,
    pub(super) columns: Option<Arc<[(String, DataType)]>>,
}

/// The call of a declared procedure that a statement is; `None` if it is another statement.
///
/// # Errors
/// If it is a CALL of something else.
pub(super) fn find<'s>(syntax: &'s ast::Statement, binder: &Binder<'_>) -> Bind<Option<Call<'s>>> {
    let catalog = binder.catalog;
    match syntax {
        ast::Statement::Call(function) => called_by_name(function, binder).map(Some),
        ast::Statement::Query(query) => {
            let plain = query.with.is_none()
                && query.order_by.is_none()
                && query.limit_clause.is_none()
                && query.fetch.is_none()
                && query.locks.is_empty();
            let SetExpr::Select(select) = &*query.body else {
                return Ok(None);
            };
            match call_in(select, catalog) {
                Some(call) if plain && is_plain(select) => Ok(Some(call)),
                Some(call) => Err(around(&call, binder)),
                None => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// The refusal of clauses around a call.
fn around(call: &Call<'_>, binder: &Binder<'_>) -> Diagnostic {
    let construct = format!("a query over the result of {}()", call.name);
    binder
        .unsupported(&construct, call.name)
        .help(format!("call it by itself: SELECT * FROM {}(…)", call.name))
}

fn called_by_name<'s>(function: &'s ast::Function, binder: &Binder<'_>) -> Bind<Call<'s>> {
    let name = binder.simple_name(&function.name)?;
    let arguments: &[FunctionArg] = match &function.args {
        ast::FunctionArguments::List(list) => &list.args,
        // PostgreSQL requires the brackets.
        _ => {
            return Err(binder.error(
                "42601",
                "CALL needs arguments in parentheses",
                &function.name,
            ));
        }
    };
    Ok(Call {
        procedure: named(binder.catalog, &name),
        name: &function.name,
        arguments,
        form: Form::Call,
    })
}

fn named(catalog: &Catalog, name: &str) -> Option<usize> {
    catalog.procedures.iter().position(|of| of.name == name)
}

fn declared(name: &ast::ObjectName, catalog: &Catalog) -> Option<usize> {
    let parts: Vec<String> = name
        .0
        .iter()
        .filter_map(|p| p.as_ident())
        .map(fold)
        .collect();
    match parts.as_slice() {
        [name] => named(catalog, name),
        [schema, name] if schema == "public" => named(catalog, name),
        _ => None,
    }
}

/// The call that a SELECT consists of, whatever clauses are around it.
fn call_in<'s>(select: &'s ast::Select, catalog: &Catalog) -> Option<Call<'s>> {
    match select.from.as_slice() {
        [] => {
            let [item] = select.projection.as_slice() else {
                return None;
            };
            let (expression, alias) = match item {
                SelectItem::UnnamedExpr(expression) => (expression, None),
                SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
                _ => return None,
            };
            let Expr::Function(function) = expression else {
                return None;
            };
            let ast::FunctionArguments::List(list) = &function.args else {
                return None;
            };
            let plain = function.over.is_none()
                && function.filter.is_none()
                && function.within_group.is_empty()
                && list.duplicate_treatment.is_none()
                && list.clauses.is_empty();
            let procedure = declared(&function.name, catalog).filter(|_| plain)?;
            Some(Call {
                procedure: Some(procedure),
                name: &function.name,
                arguments: &list.args,
                form: Form::Scalar { alias },
            })
        }
        [item] if item.joins.is_empty() => {
            let (name, arguments, alias) = match &item.relation {
                TableFactor::Table {
                    name,
                    alias,
                    args: Some(arguments),
                    with_ordinality: false,
                    ..
                } => (name, arguments.args.as_slice(), alias.as_ref()),
                TableFactor::Function {
                    lateral: _,
                    name,
                    args,
                    with_ordinality: false,
                    alias,
                } => (name, args.as_slice(), alias.as_ref()),
                _ => return None,
            };
            Some(Call {
                procedure: Some(declared(name, catalog)?),
                name,
                arguments,
                form: Form::From {
                    alias,
                    projection: &select.projection,
                },
            })
        }
        _ => None,
    }
}

/// Whether a SELECT has no clause that would change a call's rows.
fn is_plain(select: &ast::Select) -> bool {
    let ungrouped = match &select.group_by {
        ast::GroupByExpr::Expressions(list, more) => list.is_empty() && more.is_empty(),
        ast::GroupByExpr::All(_) => false,
    };
    ungrouped
        && select.distinct.is_none()
        && select.into.is_none()
        && select.selection.is_none()
        && select.having.is_none()
        && select.named_window.is_empty()
}

impl Call<'_> {
    /// Whether it is CALL.
    pub(super) fn is_statement(&self) -> bool {
        matches!(self.form, Form::Call)
    }

    /// Binds its arguments and its output.
    pub(super) fn bind(
        &self,
        application: &Application,
        binder: &mut Binder<'_>,
    ) -> Bind<BoundCall> {
        let catalog = binder.catalog;
        let bounds = self.bound_arguments(binder)?;
        let types: Vec<String> = bounds.iter().map(type_name).collect();
        let types = types.join(", ");
        let called = match self.is_statement() {
            true => RoutineKind::Procedure,
            false => RoutineKind::Function,
        };
        let Some(number) = self.procedure else {
            let name = binder.simple_name(self.name)?;
            return Err(missing(binder, self.name, &name, called, &types));
        };
        let procedure = &catalog.procedures[number];
        let compiled = &application.procedures[number];
        let given = self
            .assigned(procedure, &bounds)
            .ok_or_else(|| missing(binder, self.name, &procedure.name, called, &types))?;
        if procedure.kind != called {
            return Err(self.wrong_kind(procedure, &types, binder));
        }
        let mut arguments = Vec::new();
        let inputs = procedure
            .parameters
            .iter()
            .zip(given)
            .filter(|(parameter, _)| parameter.mode != ParameterMode::Out);
        for (place, (parameter, bound)) in inputs.enumerate() {
            let to = &parameter.data_type;
            let expression = match bound {
                Some(argument) => {
                    let (_, bound, syntax) = &bounds[argument];
                    let fits = |from: &DataType| exists(from, to, Context::Implicit);
                    if !bound.data_type.as_ref().is_none_or(fits) {
                        return Err(missing(binder, self.name, &procedure.name, called, &types));
                    }
                    binder.coerce(bound.clone(), to, Context::Implicit, *syntax)?
                }
                None => match &compiled.defaults[place] {
                    Some(default) => default.clone(),
                    None => {
                        return Err(missing(binder, self.name, &procedure.name, called, &types));
                    }
                },
            };
            arguments.push((expression, to.clone()));
        }
        let (shape, columns) = self.output(compiled.columns(), procedure, binder)?;
        Ok(BoundCall {
            procedure: number,
            arguments: ArgumentList::new(arguments),
            shape,
            columns,
        })
    }

    /// Each argument: its name, its expression, its syntax.
    fn bound_arguments(
        &self,
        binder: &mut Binder<'_>,
    ) -> Bind<Vec<(Option<String>, Bound, &Expr)>> {
        let mut bounds: Vec<(Option<String>, Bound, &Expr)> = Vec::new();
        for argument in self.arguments {
            let (name, value) = match argument {
                FunctionArg::Unnamed(value) => (None, value),
                FunctionArg::Named {
                    name,
                    arg,
                    operator:
                        ast::FunctionArgOperator::RightArrow | ast::FunctionArgOperator::Assignment,
                } => (Some(fold(name)), arg),
                FunctionArg::ExprNamed {
                    name: Expr::Identifier(name),
                    arg,
                    operator:
                        ast::FunctionArgOperator::RightArrow | ast::FunctionArgOperator::Assignment,
                } => (Some(fold(name)), arg),
                _ => return Err(binder.unsupported("this argument", self.name)),
            };
            let FunctionArgExpr::Expr(syntax) = value else {
                return Err(binder.unsupported("* as an argument", self.name));
            };
            if name.is_none() && bounds.last().is_some_and(|(name, ..)| name.is_some()) {
                let message = "positional argument cannot follow named argument";
                return Err(binder.error("42601", message, syntax));
            }
            if let Some(name) = &name
                && bounds
                    .iter()
                    .any(|(other, ..)| other.as_ref() == Some(name))
            {
                let message = format!("argument name \"{name}\" used more than once");
                return Err(binder.error("42601", message, syntax));
            }
            binder.scopes.push(Scope {
                clause: "arguments of a call",
                ..Scope::default()
            });
            let bound = binder.expression(syntax);
            let scope = binder.scopes.pop();
            let bound = bound?;
            // As in PostgreSQL: a parameter of type void stands for an OUT parameter, and is no argument.
            if bound.data_type == Some(DataType::Void) {
                continue;
            }
            if scope.is_some_and(|scope| !scope.subqueries.is_empty()) {
                return Err(binder
                    .unsupported("a subquery as an argument of a call", syntax)
                    .help("run the query first, and give its result as a parameter"));
            }
            bounds.push((name, bound, syntax));
        }
        Ok(bounds)
    }

    /// For each parameter, the argument that is its own; `None` if the arguments fit no parameters.
    fn assigned(
        &self,
        procedure: &Procedure,
        bounds: &[(Option<String>, Bound, &Expr)],
    ) -> Option<Vec<Option<usize>>> {
        // As in PostgreSQL, CALL has an argument for an OUT parameter, too, and SELECT has none.
        let takes = |mode: ParameterMode| self.is_statement() || mode != ParameterMode::Out;
        let mut given: Vec<Option<usize>> = vec![None; procedure.parameters.len()];
        let mut positions = (0..given.len()).filter(|at| takes(procedure.parameters[*at].mode));
        for (number, (name, ..)) in bounds.iter().enumerate() {
            let place = match name {
                None => positions.next()?,
                Some(name) => procedure
                    .parameters
                    .iter()
                    .position(|of| of.name == *name && takes(of.mode))?,
            };
            if given[place].replace(number).is_some() {
                return None;
            }
        }
        let complete = procedure
            .parameters
            .iter()
            .zip(&given)
            .all(|(of, given)| given.is_some() || of.default.is_some() || !takes(of.mode));
        complete.then_some(given)
    }

    fn wrong_kind(&self, procedure: &Procedure, types: &str, binder: &Binder<'_>) -> Diagnostic {
        let signature = format!("{}({types})", procedure.name);
        match procedure.kind {
            RoutineKind::Function => binder
                .error(
                    "42809",
                    format!("{signature} is not a procedure"),
                    self.name,
                )
                .help("To call a function, use SELECT."),
            RoutineKind::Procedure => binder
                .error("42809", format!("{signature} is a procedure"), self.name)
                .help("To call a procedure, use CALL."),
        }
    }

    /// What the client sees of the result, and its columns.
    fn output(
        &self,
        columns: &Arc<[OutputColumn]>,
        procedure: &Procedure,
        binder: &Binder<'_>,
    ) -> Bind<(CallShape, Option<Arc<[OutputColumn]>>)> {
        match &self.form {
            Form::Call if columns.is_empty() => Ok((CallShape::Nothing, None)),
            Form::Call => Ok((CallShape::Rows, Some(columns.clone()))),
            Form::Scalar { alias } => {
                let name = alias.map_or_else(|| procedure.name.clone(), fold);
                let (shape, data_type) = match &**columns {
                    [] => (CallShape::Void, DataType::Void),
                    [(_, data_type)] => (CallShape::Rows, data_type.clone()),
                    several => {
                        let types = several.iter().map(|(_, data_type)| data_type.clone());
                        (CallShape::Record, DataType::Record(types.collect()))
                    }
                };
                Ok((shape, Some(Arc::new([(name, data_type)]))))
            }
            Form::From { alias, projection } => {
                self.selected(columns, procedure, *alias, projection, binder)
            }
        }
    }

    /// The columns of `SELECT … FROM p(…)`.
    fn selected(
        &self,
        columns: &Arc<[OutputColumn]>,
        procedure: &Procedure,
        alias: Option<&ast::TableAlias>,
        projection: &[SelectItem],
        binder: &Binder<'_>,
    ) -> Bind<(CallShape, Option<Arc<[OutputColumn]>>)> {
        let table = alias.map_or_else(|| procedure.name.clone(), |alias| fold(&alias.name));
        let is_void = columns.is_empty();
        let mut source: Vec<OutputColumn> = match is_void {
            true => vec![(table.clone(), DataType::Void)],
            false => columns.to_vec(),
        };
        // A value that has no name of its own has the alias's.
        if let ([only], crate::catalog::Returns::Scalar(_)) = (&mut source[..], &procedure.returns)
        {
            only.0.clone_from(&table);
        }
        if let Some(alias) = alias {
            if alias.columns.len() > source.len() {
                let message = format!(
                    "table \"{table}\" has {} columns available but {} columns specified",
                    source.len(),
                    alias.columns.len()
                );
                return Err(binder.error("42P10", message, self.name));
            }
            for (column, renamed) in source.iter_mut().zip(&alias.columns) {
                if renamed.data_type.is_some() {
                    let message =
                        "a column definition list is redundant for a function with OUT parameters";
                    return Err(binder.error("42601", message, self.name));
                }
                column.0 = fold(&renamed.name);
            }
        }
        let mut chosen: Vec<(usize, String)> = Vec::new();
        let all = || {
            source
                .iter()
                .enumerate()
                .map(|(at, (name, _))| (at, name.clone()))
        };
        for item in projection {
            match item {
                SelectItem::Wildcard(options) if is_bare(options) => chosen.extend(all()),
                SelectItem::QualifiedWildcard(
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                    options,
                ) if is_bare(options) && binder.simple_name(name)? == table => chosen.extend(all()),
                SelectItem::UnnamedExpr(expression) => {
                    let at = self.column(expression, &table, &source, binder)?;
                    chosen.push((at, source[at].0.clone()));
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    let at = self.column(expr, &table, &source, binder)?;
                    chosen.push((at, fold(alias)));
                }
                _ => return Err(around(self, binder)),
            }
        }
        let names = chosen
            .iter()
            .map(|(at, name)| (name.clone(), source[*at].1.clone()));
        let names: Arc<[OutputColumn]> = names.collect();
        let places: Vec<usize> = chosen.into_iter().map(|(at, _)| at).collect();
        let shape = if is_void && places == [0] {
            CallShape::Void
        } else if is_void {
            return Err(around(self, binder));
        } else if places.iter().copied().eq(0..columns.len()) {
            CallShape::Rows
        } else {
            CallShape::Columns(places)
        };
        Ok((shape, Some(names)))
    }

    /// The column of the result that an expression names.
    fn column(
        &self,
        expression: &Expr,
        table: &str,
        source: &[OutputColumn],
        binder: &Binder<'_>,
    ) -> Bind<usize> {
        let (qualifier, name) = match expression {
            Expr::Identifier(name) => (None, name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] => (Some(qualifier), name),
                _ => return Err(around(self, binder)),
            },
            _ => return Err(around(self, binder)),
        };
        let text = fold(name);
        if let Some(qualifier) = qualifier
            && fold(qualifier) != table
        {
            let message = format!(
                "missing FROM-clause entry for table \"{}\"",
                fold(qualifier)
            );
            return Err(binder.error("42P01", message, expression));
        }
        let mut found = source
            .iter()
            .enumerate()
            .filter(|(_, (name, _))| *name == text);
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(at),
            (Some(_), Some(_)) => {
                let message = format!("column reference \"{text}\" is ambiguous");
                Err(binder.error("42702", message, expression))
            }
            (None, _) => {
                let message = match qualifier {
                    Some(qualifier) => {
                        format!("column {}.{text} does not exist", fold(qualifier))
                    }
                    None => format!("column \"{text}\" does not exist"),
                };
                Err(binder.error("42703", message, expression))
            }
        }
    }
}

/// Whether a wildcard stands without EXCEPT and the like.
fn is_bare(options: &ast::WildcardAdditionalOptions) -> bool {
    options.opt_except.is_none()
        && options.opt_exclude.is_none()
        && options.opt_ilike.is_none()
        && options.opt_rename.is_none()
        && options.opt_replace.is_none()
}

/// An argument's type, with the name that it is given by.
fn type_name((name, bound, _): &(Option<String>, Bound, &Expr)) -> String {
    let data_type = bound.data_type.as_ref();
    let data_type = data_type.map_or("unknown".into(), |of| unbounded(of).to_string());
    match name {
        Some(name) => format!("{name} => {data_type}"),
        None => data_type,
    }
}

/// PostgreSQL's error for a routine that does not exist with these arguments.
fn missing(
    binder: &Binder<'_>,
    place: &ast::ObjectName,
    name: &str,
    kind: RoutineKind,
    types: &str,
) -> Diagnostic {
    let (word, title) = match kind {
        RoutineKind::Function => ("function", "No function"),
        RoutineKind::Procedure => ("procedure", "No procedure"),
    };
    let message = format!("{word} {name}({types}) does not exist");
    binder.error("42883", message, place).help(format!(
        "{title} matches the given name and argument types. You might need to add explicit type casts."
    ))
}
