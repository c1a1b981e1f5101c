//! `set_config(name, value, is_local)` as an output of a SELECT without FROM.
//!
//! It changes the connection, so it runs once an execution, in order, and before the statement: its value is one of
//! the plan's session values. At any other place it would run as often as there are rows, which is refused where the
//! function is bound.

use anabranch_types::DataType;
use sqlparser::ast::{self, Expr, SelectItem, SetExpr};

use super::variables::ClientVariables;
use crate::{
    argument::ArgumentList,
    bind::{Bind, Binder, convert::Context, scope::Scope},
    session_value::SessionValue,
};

/// The statement with parameters in the place of its `set_config(…)`; `None` if it has none.
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
        let Some(function) = called(item).cloned() else {
            continue;
        };
        let arguments = arguments(&function, binder)?;
        let number = variables.further(SessionValue::SetConfig(arguments));
        let value = ast::Value::Placeholder(format!("${number}"));
        let expr = Expr::Value(value.with_empty_span());
        *item =
            match std::mem::replace(item, SelectItem::UnnamedExpr(Expr::value(ast::Value::Null))) {
                SelectItem::ExprWithAlias { alias, .. } => {
                    SelectItem::ExprWithAlias { expr, alias }
                }
                _ => SelectItem::ExprWithAlias {
                    expr,
                    alias: ast::Ident::new("set_config"),
                },
            };
    }
    Ok(Some(ast::Statement::Query(changed)))
}

/// The call of `set_config` with three arguments that an item of a select list is.
fn called(item: &SelectItem) -> Option<&ast::Function> {
    let (SelectItem::UnnamedExpr(Expr::Function(function))
    | SelectItem::ExprWithAlias {
        expr: Expr::Function(function),
        ..
    }) = item
    else {
        return None;
    };
    let last = function.name.0.last()?.as_ident()?;
    let ast::FunctionArguments::List(list) = &function.args else {
        return None;
    };
    (crate::bind::fold(last) == "set_config" && list.args.len() == 3).then_some(function)
}

fn arguments(function: &ast::Function, binder: &mut Binder<'_>) -> Bind<ArgumentList> {
    const TYPES: [DataType; 3] = [DataType::Text, DataType::Text, DataType::Bool];
    let syntax = binder.plain_arguments(&function.args, &function.name)?;
    let mut compiled = Vec::new();
    for (argument, to) in syntax.into_iter().zip(TYPES) {
        binder.scopes.push(Scope {
            clause: "set_config()",
            ..Scope::default()
        });
        let bound = binder.expression_as(argument, &to, Context::Implicit);
        let scope = binder.scopes.pop();
        let expression = bound?;
        if scope.is_some_and(|scope| !scope.subqueries.is_empty()) {
            return Err(binder.unsupported("a subquery as an argument of set_config()", argument));
        }
        compiled.push((expression, to));
    }
    Ok(ArgumentList::new(compiled))
}
