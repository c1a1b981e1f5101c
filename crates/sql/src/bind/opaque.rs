//! Opaque expressions: any value, which depends on the columns in them.
//!
//! To analyse the SQL of other applications, it is not necessary to know what `data ->> 'x'` or `to_char(at, 'YYYY')`
//! gives: the columns that it reads are enough, as long as nothing follows from its value. So such an expression has
//! no type, its term is unknown, and nothing evaluates it. Constraints (a CHECK, an assertion) are never bound so:
//! that would drop them.

use sqlparser::{
    ast::{self, Expr},
    dialect::PostgreSqlDialect,
    parser::Parser,
};

use super::{Bind, Binder, Bound};
use crate::{
    diagnostic::Diagnostic,
    expression::{Expression, Function},
};

/// The maximum of opaque expressions in one statement: the parts of each are bound once more.
const OPAQUE_MAX: u32 = 1_000;

/// Aggregate functions.
const AGGREGATES: [&str; 18] = [
    "array_agg",
    "string_agg",
    "json_agg",
    "jsonb_agg",
    "json_object_agg",
    "jsonb_object_agg",
    "xmlagg",
    "bool_and",
    "bool_or",
    "every",
    "bit_and",
    "bit_or",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "variance",
    "var_pop",
    "var_samp",
];

/// JSON functions that give rows with columns other than one of the function's name.
const OBJECTS: [&str; 4] = [
    "json_each",
    "jsonb_each",
    "json_each_text",
    "jsonb_each_text",
];
const ELEMENTS: [&str; 4] = [
    "json_array_elements",
    "jsonb_array_elements",
    "json_array_elements_text",
    "jsonb_array_elements_text",
];

/// The rows of an opaque function in FROM, as a query of opaque values.
pub(super) struct OpaqueRows {
    pub(super) query: ast::Query,
    /// Their alias, if the query gives none.
    pub(super) alias: ast::TableAlias,
}

impl Binder<'_> {
    /// The rows of a function in FROM that cannot be bound because of `error`, as opaque values where that is allowed.
    pub(super) fn opaque_rows(
        &self,
        name: &ast::ObjectName,
        arguments: &[&Expr],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        error: Diagnostic,
    ) -> Bind<OpaqueRows> {
        let called = self.simple_name(name).map_err(|_| error.clone())?;
        let opaque = self.catalog.opaque.as_ref();
        let opaque = opaque.filter(|_| self.variables.is_of_statement());
        if opaque.is_none_or(|opaque| opaque.may_have_effects(&called)) {
            return Err(error);
        }
        let own = ast::Ident::new(called.as_str());
        let shown = alias.map_or(&own, |alias| &alias.name);
        let mut columns: Vec<ast::Ident> = match called.as_str() {
            of if OBJECTS.contains(&of) => ["key", "value"].map(ast::Ident::new).to_vec(),
            of if ELEMENTS.contains(&of) => vec![ast::Ident::new("value")],
            // Its columns are those of a type or table.
            of if of.contains("populate_record") => return Err(error),
            _ => vec![shown.clone()],
        };
        if ordinality {
            columns.push(ast::Ident::new("ordinality"));
        }
        let mut types = vec![None; columns.len()];
        for (place, aliased) in alias.iter().flat_map(|alias| &alias.columns).enumerate() {
            match columns.get_mut(place) {
                Some(column) => column.clone_from(&aliased.name),
                None => {
                    columns.push(aliased.name.clone());
                    types.push(None);
                }
            }
            types[place].clone_from(&aliased.data_type);
        }
        let Some(ast::Statement::Query(mut query)) = written("SELECT unknown() AS value") else {
            return Err(error);
        };
        let ast::SetExpr::Select(select) = &mut *query.body else {
            return Err(error);
        };
        let Some(ast::SelectItem::ExprWithAlias {
            expr: Expr::Function(mut call),
            ..
        }) = select.projection.pop()
        else {
            return Err(error);
        };
        call.name = name.clone();
        if let ast::FunctionArguments::List(list) = &mut call.args {
            let arguments = arguments.iter().map(|argument| {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr((*argument).clone()))
            });
            list.args = arguments.collect();
        }
        for (alias, data_type) in columns.into_iter().zip(types) {
            let call = Expr::Function(call.clone());
            let known = data_type
                .filter(|of| crate::parse::resolve_data_type(of, &self.catalog.types).is_ok());
            let expr = match known {
                None => call,
                Some(data_type) => Expr::Cast {
                    kind: ast::CastKind::Cast,
                    expr: Box::new(call),
                    data_type,
                    format: None,
                },
            };
            let item = ast::SelectItem::ExprWithAlias { expr, alias };
            select.projection.push(item);
        }
        Ok(OpaqueRows {
            query: *query,
            alias: ast::TableAlias {
                explicit: true,
                name: own,
                columns: Vec::new(),
                at: None,
            },
        })
    }

    /// All columns of the source that an expression names alone, as in `to_jsonb(t)`.
    fn whole_row(&self, syntax: &Expr) -> Option<Vec<Expr>> {
        let Expr::Identifier(name) = syntax else {
            return None;
        };
        let of = super::fold(name);
        let sources = self.scopes.iter().rev().flat_map(|scope| &scope.sources);
        let mut named = sources.filter(|source| source.name == of && !source.hidden);
        let columns = named.next()?.columns.iter();
        let column = |column: &super::scope::ScopeColumn| {
            let quoted = |text: &str| ast::Ident::with_quote('"', text);
            Expr::CompoundIdentifier(vec![quoted(&of), quoted(&column.name)])
        };
        Some(columns.map(column).collect())
    }

    /// Binds an expression as opaque after `error`, where that is allowed.
    pub(super) fn opaque_expression(&mut self, syntax: &Expr, error: Diagnostic) -> Bind<Bound> {
        // No such operator, function, type or cast; or no value of the type.
        const PASSED: [&str; 9] = [
            "42883", "0A000", "42846", "42804", "42704", "22P02", "42725", "42809", "42P08",
        ];
        let opaque = self.catalog.opaque.as_ref();
        let opaque = opaque.filter(|_| self.variables.is_of_statement());
        let row = self.whole_row(syntax);
        let is_passed = PASSED.contains(&error.code) || row.is_some();
        let Some(opaque) = opaque.filter(|_| is_passed) else {
            return Err(error);
        };
        let has_effects = called(syntax).is_some_and(|name| opaque.may_have_effects(&name));
        let parts = row.or_else(|| parts(syntax));
        let Some(parts) = parts.filter(|_| !has_effects && self.opaque_count < OPAQUE_MAX) else {
            return Err(error);
        };
        self.opaque_count += 1;
        let mut arguments = Vec::new();
        for part in parts {
            arguments.push(self.expression(&part)?.expression);
        }
        if let Some(opaque) = &self.catalog.opaque {
            opaque.note(error);
        }
        let function = Function::Unknown(syntax.to_string().into());
        Ok(Bound::untyped(Expression::Call {
            function,
            arguments,
        }))
    }
}

fn written(text: &str) -> Option<ast::Statement> {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, text);
    parsed.ok()?.pop()
}

/// The function that an expression calls.
fn called(syntax: &Expr) -> Option<String> {
    match syntax {
        Expr::Function(function) => {
            let last = function.name.0.last()?.as_ident()?;
            Some(super::fold(last))
        }
        _ => None,
    }
}

/// The operands of an expression; `None` if they cannot be determined.
fn parts(syntax: &Expr) -> Option<Vec<Expr>> {
    let one = |e: &Expr| Some(vec![e.clone()]);
    let two = |a: &Expr, b: &Expr| Some(vec![a.clone(), b.clone()]);
    match syntax {
        Expr::Function(function) => of_function(function),
        Expr::BinaryOp { left, right, .. }
        | Expr::AnyOp { left, right, .. }
        | Expr::AllOp { left, right, .. }
        | Expr::IsDistinctFrom(left, right)
        | Expr::IsNotDistinctFrom(left, right) => two(left, right),
        Expr::Like { expr, pattern, .. }
        | Expr::ILike { expr, pattern, .. }
        | Expr::SimilarTo { expr, pattern, .. }
        | Expr::RLike { expr, pattern, .. } => two(expr, pattern),
        Expr::Position { expr, r#in } => two(expr, r#in),
        Expr::AtTimeZone {
            timestamp,
            time_zone,
        } => two(timestamp, time_zone),
        Expr::UnaryOp { expr, .. }
        | Expr::Cast { expr, .. }
        | Expr::Extract { expr, .. }
        | Expr::Ceil { expr, .. }
        | Expr::Floor { expr, .. }
        | Expr::Collate { expr, .. } => one(expr),
        Expr::Between {
            expr, low, high, ..
        } => Some(vec![*expr.clone(), *low.clone(), *high.clone()]),
        Expr::InList { expr, list, .. } => {
            Some([std::slice::from_ref(&**expr), list.as_slice()].concat())
        }
        Expr::Array(array) => Some(array.elem.clone()),
        Expr::Tuple(list) => Some(list.clone()),
        Expr::Interval(interval) => one(&interval.value),
        Expr::TypedString(_) | Expr::Value(_) => Some(Vec::new()),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let mut found = vec![*root.clone()];
            for access in access_chain {
                match access {
                    ast::AccessExpr::Subscript(ast::Subscript::Index { index }) => {
                        found.push(index.clone());
                    }
                    ast::AccessExpr::Subscript(ast::Subscript::Slice {
                        lower_bound,
                        upper_bound,
                        stride,
                    }) => {
                        let bounds = [lower_bound, upper_bound, stride];
                        found.extend(bounds.into_iter().flatten().cloned());
                    }
                    ast::AccessExpr::Dot(_) => {}
                }
            }
            Some(found)
        }
        Expr::Case {
            operand,
            conditions,
            else_result,
            ..
        } => {
            let mut found: Vec<Expr> = operand.iter().map(|e| *e.clone()).collect();
            for when in conditions {
                found.extend([when.condition.clone(), when.result.clone()]);
            }
            found.extend(else_result.iter().map(|e| *e.clone()));
            Some(found)
        }
        _ => None,
    }
}

/// The operands of a call; for an aggregate, the count of its arguments.
fn of_function(function: &ast::Function) -> Option<Vec<Expr>> {
    let mut found = Vec::new();
    match &function.args {
        ast::FunctionArguments::None => {}
        ast::FunctionArguments::List(list) => {
            for argument in &list.args {
                let (ast::FunctionArg::Unnamed(of)
                | ast::FunctionArg::Named { arg: of, .. }
                | ast::FunctionArg::ExprNamed { arg: of, .. }) = argument;
                match of {
                    ast::FunctionArgExpr::Expr(e) => found.push(e.clone()),
                    ast::FunctionArgExpr::Wildcard => {}
                    _ => return None,
                }
            }
            for clause in &list.clauses {
                if let ast::FunctionArgumentClause::OrderBy(order) = clause {
                    found.extend(order.iter().map(|by| by.expr.clone()));
                }
            }
        }
        ast::FunctionArguments::Subquery(_) => return None,
    }
    found.extend(function.filter.iter().map(|e| *e.clone()));
    found.extend(function.within_group.iter().map(|by| by.expr.clone()));
    let name = called(&Expr::Function(function.clone()))?;
    match &function.over {
        None if AGGREGATES.contains(&name.as_str()) || !function.within_group.is_empty() => {
            let counted = found.into_iter().map(|of| counted(of, function));
            return Some(counted.collect());
        }
        None => {}
        Some(ast::WindowType::WindowSpec(window)) if window.window_name.is_none() => {
            found.extend(window.partition_by.iter().cloned());
            found.extend(window.order_by.iter().map(|by| by.expr.clone()));
        }
        // Its window is defined elsewhere.
        Some(_) => return None,
    }
    Some(found)
}

/// `count(of)`, in the place of an aggregate.
fn counted(of: Expr, function: &ast::Function) -> Expr {
    let argument = ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(of));
    Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![ast::Ident::new("count")]),
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![argument],
            clauses: Vec::new(),
        }),
        filter: None,
        within_group: Vec::new(),
        null_treatment: None,
        ..function.clone()
    })
}
