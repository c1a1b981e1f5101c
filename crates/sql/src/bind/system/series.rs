//! Functions that return rows, in the list of a SELECT: each becomes a LATERAL item of FROM.
//!
//! PostgreSQL calls several such functions side by side; here there may be one, called with the same arguments
//! wherever it stands.

use sqlparser::ast::{
    self, AccessExpr, Expr, FunctionArguments, GroupByExpr, Ident, SelectItem, TableAlias,
    TableFactor, TableWithJoins,
};

use crate::bind::{fold, scope::LIST_FUNCTION};

/// The functions that return rows.
const SERIES: [&str; 13] = [
    "unnest",
    "generate_series",
    "generate_subscripts",
    "pg_partition_ancestors",
    "_pg_expandarray",
    "json_array_elements",
    "json_array_elements_text",
    "json_object_keys",
    "jsonb_array_elements",
    "jsonb_array_elements_text",
    "jsonb_object_keys",
    "regexp_matches",
    "regexp_split_to_table",
];

/// The columns of [`EXPANDED`].
const FIELDS: [&str; 2] = ["x", "n"];
const EXPANDED: &str = "_pg_expandarray";

/// The SELECT with its function that returns rows in FROM; `None` if it has none, or if it cannot be moved.
pub(crate) fn moved(select: &ast::Select, is_nested: bool) -> Option<ast::Select> {
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty())
        || select.having.is_some();
    if is_grouped {
        return None;
    }
    let mut found: Option<ast::Function> = None;
    let mut items = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(expression) => {
                let name = crate::parse::output::output_name(expression);
                let changed = replaced(expression, &mut found)?;
                items.push(match changed {
                    Some(Moved::Value(expr)) => SelectItem::ExprWithAlias {
                        expr: *expr,
                        alias: Ident::with_quote('"', name),
                    },
                    Some(Moved::Record) => return None,
                    None => item.clone(),
                });
            }
            SelectItem::ExprWithAlias { expr, alias } => match replaced(expr, &mut found)? {
                Some(Moved::Value(expr)) => items.push(SelectItem::ExprWithAlias {
                    expr: *expr,
                    alias: alias.clone(),
                }),
                // The fields of a record that a query around this one reads.
                Some(Moved::Record) if is_nested => {
                    items.extend(FIELDS.map(|field| SelectItem::ExprWithAlias {
                        expr: column(field),
                        alias: Ident::with_quote('"', field_name(&fold(alias), field)),
                    }))
                }
                Some(Moved::Record) => return None,
                None => items.push(item.clone()),
            },
            other => items.push(other.clone()),
        }
    }
    let function = found?;
    let name = called(&function)?;
    let columns = match name.as_str() {
        EXPANDED => FIELDS.map(ast::TableAliasColumnDef::from_name).to_vec(),
        _ => vec![ast::TableAliasColumnDef::from_name("x")],
    };
    let FunctionArguments::List(list) = function.args else {
        return None;
    };
    let mut changed = select.clone();
    changed.projection = items;
    changed.from.push(TableWithJoins {
        relation: TableFactor::Function {
            lateral: true,
            name: function.name,
            args: list.args,
            with_ordinality: false,
            alias: Some(TableAlias {
                explicit: true,
                name: Ident::with_quote('"', LIST_FUNCTION),
                columns,
                at: None,
            }),
        },
        joins: Vec::new(),
    });
    Some(changed)
}

/// The name under which a field of a record is a column.
pub(crate) fn field_name(record: &str, field: &str) -> String {
    format!("{record}.{field}")
}

enum Moved {
    Value(Box<Expr>),
    Record,
}

fn column(name: &str) -> Expr {
    Expr::CompoundIdentifier(vec![
        Ident::with_quote('"', LIST_FUNCTION),
        Ident::new(name),
    ])
}

fn called(function: &ast::Function) -> Option<String> {
    let name = fold(function.name.0.last()?.as_ident()?);
    SERIES.contains(&name.as_str()).then_some(name)
}

/// The expression with a column in place of the function. `None` if it calls another function that returns rows than
/// the one already found.
#[expect(clippy::option_option, reason = "the outer one is a failure")]
fn replaced(expression: &Expr, found: &mut Option<ast::Function>) -> Option<Option<Moved>> {
    let value = |moved: Option<Moved>, wrap: &dyn Fn(Box<Expr>) -> Expr| match moved {
        Some(Moved::Value(inner)) => Some(Some(Moved::Value(Box::new(wrap(inner))))),
        Some(Moved::Record) => None,
        None => Some(None),
    };
    match expression {
        Expr::Nested(inner) => match replaced(inner, found)? {
            Some(Moved::Value(inner)) => Some(Some(Moved::Value(Box::new(Expr::Nested(inner))))),
            other => Some(other),
        },
        Expr::Function(function) => {
            let Some(name) = called(function) else {
                return Some(None);
            };
            match found {
                Some(other) if other != function => return None,
                _ => *found = Some(function.clone()),
            }
            Some(Some(match name.as_str() {
                EXPANDED => Moved::Record,
                _ => Moved::Value(Box::new(column("x"))),
            }))
        }
        Expr::Cast {
            kind,
            expr,
            data_type,
            format,
        } => {
            let moved = replaced(expr, found)?;
            value(moved, &|expr| Expr::Cast {
                kind: kind.clone(),
                expr,
                data_type: data_type.clone(),
                format: format.clone(),
            })
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            match (replaced(root, found)?, access_chain.as_slice()) {
                (Some(Moved::Record), [AccessExpr::Dot(Expr::Identifier(field))]) => {
                    Some(Some(Moved::Value(Box::new(column(&fold(field))))))
                }
                (Some(_), _) => None,
                (None, _) => Some(None),
            }
        }
        _ => Some(None),
    }
}
