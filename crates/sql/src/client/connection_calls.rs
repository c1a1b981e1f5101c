//! `set_config(name, value, is_local)`, and the functions of advisory locks and notifications, as outputs of a SELECT
//! without FROM.
//!
//! They change the connection, or make it wait, so they run once an execution, in order, and before the statement: the
//! value of each is one of the plan's session values. At any other place they would run as often as there are rows,
//! which is refused where the function is bound.

use anabranch_types::DataType;
use sqlparser::ast::{self, Expr, SelectItem, SetExpr};

use super::variables::ClientVariables;
use crate::{
    argument::ArgumentList,
    bind::{Bind, Binder, convert::Context, scope::Scope},
    session_value::{AdvisoryFunction, SessionValue},
};

/// The statement with parameters in the place of these calls; `None` if it has none.
pub(super) fn replaced(
    syntax: &ast::Statement,
    binder: &mut Binder<'_>,
    variables: &ClientVariables<'_>,
) -> Bind<Option<ast::Statement>> {
    let ast::Statement::Query(query) = syntax else {
        return Ok(None);
    };
    let SetExpr::Select(select) = &*query.body else {
        return Ok(None);
    };
    let once = select.from.is_empty() && select.selection.is_none() && query.limit_clause.is_none();
    if !once || !select.projection.iter().any(|item| called(item).is_some()) {
        return Ok(None);
    }
    let mut changed = query.clone();
    let SetExpr::Select(select) = &mut *changed.body else {
        return Ok(None);
    };
    for item in &mut select.projection {
        let Some((called, function)) = called(item).map(|(of, function)| (of, function.clone()))
        else {
            continue;
        };
        let (value, name) = match called {
            Called::SetConfig => {
                const TYPES: [DataType; 3] = [DataType::Text, DataType::Text, DataType::Bool];
                let arguments = arguments(&function, "set_config()", &TYPES, binder)?;
                (SessionValue::SetConfig(arguments), "set_config".to_owned())
            }
            Called::Advisory(of, name) => {
                let types: &[DataType] = match argument_count(&function) {
                    0 => &[],
                    1 => &[DataType::Int8],
                    _ => &[DataType::Int4, DataType::Int4],
                };
                let arguments = arguments(&function, &name, types, binder)?;
                let function = of;
                (
                    SessionValue::Advisory {
                        function,
                        arguments,
                    },
                    name,
                )
            }
            Called::Notify => {
                const TYPES: [DataType; 2] = [DataType::Text, DataType::Text];
                let arguments = arguments(&function, "pg_notify()", &TYPES, binder)?;
                (SessionValue::Notify(arguments), "pg_notify".to_owned())
            }
            Called::ListeningChannels => (
                SessionValue::ListeningChannels,
                "pg_listening_channels".to_owned(),
            ),
        };
        let returns_rows = matches!(value, SessionValue::ListeningChannels);
        let number = variables.further(value);
        let value = ast::Value::Placeholder(format!("${number}"));
        let mut expr = Expr::Value(value.with_empty_span());
        if returns_rows {
            expr = unnested(expr, function);
        }
        *item =
            match std::mem::replace(item, SelectItem::UnnamedExpr(Expr::value(ast::Value::Null))) {
                SelectItem::ExprWithAlias { alias, .. } => {
                    SelectItem::ExprWithAlias { expr, alias }
                }
                _ => SelectItem::ExprWithAlias {
                    expr,
                    alias: ast::Ident::new(name),
                },
            };
    }
    Ok(Some(ast::Statement::Query(changed)))
}

/// A function that is called once an execution.
enum Called {
    SetConfig,
    /// With its name.
    Advisory(AdvisoryFunction, String),
    Notify,
    ListeningChannels,
}

/// The call that an item of a select list is, if it is one of these.
fn called(item: &SelectItem) -> Option<(Called, &ast::Function)> {
    let (SelectItem::UnnamedExpr(Expr::Function(function))
    | SelectItem::ExprWithAlias {
        expr: Expr::Function(function),
        ..
    }) = item
    else {
        return None;
    };
    let name = crate::bind::fold(function.name.0.last()?.as_ident()?);
    let count = argument_count(function);
    if name == "set_config" {
        return (count == 3).then_some((Called::SetConfig, function));
    }
    if name == "pg_notify" {
        return (count == 2).then_some((Called::Notify, function));
    }
    if name == "pg_listening_channels" {
        return (count == 0).then_some((Called::ListeningChannels, function));
    }
    let advisory = AdvisoryFunction::named(&name)?;
    let is_called = match advisory {
        AdvisoryFunction::UnlockAll => count == 0,
        _ => count == 1 || count == 2,
    };
    is_called.then_some((Called::Advisory(advisory, name), function))
}

/// `unnest(array)` in the place of a call.
fn unnested(array: Expr, call: ast::Function) -> Expr {
    let argument = ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(array));
    Expr::Function(ast::Function {
        name: vec![ast::Ident::new("unnest")].into(),
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![argument],
            clauses: Vec::new(),
        }),
        ..call
    })
}

fn argument_count(function: &ast::Function) -> usize {
    match &function.args {
        ast::FunctionArguments::List(list) => list.args.len(),
        _ => 0,
    }
}

fn arguments(
    function: &ast::Function,
    name: &str,
    types: &[DataType],
    binder: &mut Binder<'_>,
) -> Bind<ArgumentList> {
    let syntax = binder.plain_arguments(&function.args, &function.name)?;
    let mut compiled = Vec::new();
    for (argument, to) in syntax.into_iter().zip(types) {
        binder.scopes.push(Scope {
            clause: "arguments of a function that is called once",
            ..Scope::default()
        });
        let bound = binder.expression_as(argument, to, Context::Implicit);
        let scope = binder.scopes.pop();
        let expression = bound?;
        if scope.is_some_and(|scope| !scope.subqueries.is_empty()) {
            let what = format!("a subquery as an argument of {name}");
            return Err(binder.unsupported(&what, argument));
        }
        compiled.push((expression, to.clone()));
    }
    Ok(ArgumentList::new(compiled))
}
