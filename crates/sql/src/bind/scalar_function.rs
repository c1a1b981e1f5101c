//! Functions that give one value, in FROM.

use sqlparser::ast::{self, Expr, TableFactor};

use super::{Bind, Binder, from::FromList, template};

impl Binder<'_> {
    /// A function that gives one value: `SELECT * FROM current_schema()` is `SELECT * FROM (SELECT current_schema()) AS …`.
    pub(super) fn scalar_function(
        &mut self,
        name: &ast::ObjectName,
        shown: &str,
        arguments: &[&Expr],
        alias: Option<&ast::TableAlias>,
        factor: &TableFactor,
        list: &mut FromList,
    ) -> Bind<()> {
        let (call, query) = one_value(name, shown, arguments, alias)
            .ok_or_else(|| self.unsupported(&format!("function {shown} in FROM"), factor))?;
        // Aggregates are not allowed here, which the query would not know.
        self.scope().clause = "functions in FROM";
        let (opaque, subqueries) = (self.opaque_count, self.scope().subqueries.len());
        self.expression(&call)?;
        if self.opaque_count > opaque {
            // Of a function that the analyser does not know, it does not know the number of rows either.
            self.opaque_count = opaque;
            return Err(self.unsupported(&format!("function {shown} in FROM"), factor));
        }
        if self.scope().subqueries.len() > subqueries {
            let construct = format!("a subquery as an argument of {shown} in FROM");
            return Err(self.unsupported(&construct, factor));
        }
        let own = ast::TableAlias {
            explicit: false,
            name: ast::Ident::with_quote('"', shown),
            columns: Vec::new(),
            at: None,
        };
        self.derived(true, &query, Some(alias.unwrap_or(&own)), factor, list)
    }
}

/// A call, and the query of its value alone: the column has the name of the alias, or of the function.
fn one_value(
    name: &ast::ObjectName,
    shown: &str,
    arguments: &[&Expr],
    alias: Option<&ast::TableAlias>,
) -> Option<(Expr, ast::Query)> {
    let ast::Statement::Query(mut query) = template::statement("SELECT f() AS c") else {
        return None;
    };
    let ast::SetExpr::Select(select) = &mut *query.body else {
        return None;
    };
    let Some(ast::SelectItem::ExprWithAlias {
        expr,
        alias: column,
    }) = select.projection.first_mut()
    else {
        return None;
    };
    let Expr::Function(function) = expr else {
        return None;
    };
    function.name = name.clone();
    if let ast::FunctionArguments::List(list) = &mut function.args {
        let given = arguments.iter().map(|argument| (*argument).clone());
        let given =
            given.map(|argument| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)));
        list.args = given.collect();
    }
    *column = match alias {
        Some(alias) => alias.name.clone(),
        None => ast::Ident::with_quote('"', shown),
    };
    Some((expr.clone(), *query))
}
