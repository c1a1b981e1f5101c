//! Syntax that is written here and filled in: templates of statements and expressions.

use sqlparser::{
    ast::{self, Expr},
    dialect::PostgreSqlDialect,
    parser::Parser,
};

/// A statement template.
pub(super) fn statement(template: &str) -> ast::Statement {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, template);
    parsed
        .ok()
        .and_then(|mut list| list.pop())
        .expect("templates can be parsed")
}

/// The template of a SELECT.
pub(super) fn select(template: &str) -> Option<Box<ast::Select>> {
    match statement(template) {
        ast::Statement::Query(query) => match *query.body {
            ast::SetExpr::Select(select) => Some(select),
            _ => None,
        },
        _ => None,
    }
}

/// An expression into which others were written as text; `None` if it cannot be parsed.
pub(super) fn expression(text: &str) -> Option<Expr> {
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text);
    parser.ok()?.parse_expr().ok()
}
