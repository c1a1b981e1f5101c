//! Functions that return rows, in the list of a SELECT: they become a LATERAL item of FROM.
//!
//! PostgreSQL calls several such functions side by side, and so does `unnest` of several arrays: where there are several,
//! each has to be `unnest` or `generate_subscripts`, whose number is then that of the row.

use sqlparser::ast::{
    self, AccessExpr, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident,
    SelectItem, TableAlias, TableFactor, TableWithJoins,
};

use crate::bind::{fold, scope::LIST_FUNCTION, template};

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

/// The column with the number of the row, where there are several functions.
const NUMBER: &str = "number";

/// The functions of a list that return rows.
#[derive(Default)]
struct Series {
    functions: Vec<ast::Function>,
    /// Whether there are several: those that count then do so by the number of the row.
    is_several: bool,
}

/// The SELECT with its functions that return rows in FROM; `None` if it has none, or if they cannot be moved.
pub(crate) fn moved(select: &ast::Select, is_nested: bool) -> Option<ast::Select> {
    let mut found = Series::default();
    let alone = moved_with(select, is_nested, &mut found);
    if found.functions.len() < 2 {
        return alone;
    }
    let mut found = Series {
        functions: Vec::new(),
        is_several: true,
    };
    moved_with(select, is_nested, &mut found)
}

fn moved_with(select: &ast::Select, is_nested: bool, found: &mut Series) -> Option<ast::Select> {
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty())
        || select.having.is_some();
    if is_grouped {
        return None;
    }
    let mut items = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(expression) => {
                let name = crate::parse::output::output_name(expression);
                let changed = replaced(expression, found)?;
                items.push(match changed {
                    Some(Moved::Value(expr)) => SelectItem::ExprWithAlias {
                        expr: *expr,
                        alias: Ident::with_quote('"', name),
                    },
                    Some(Moved::Record) => return None,
                    None => item.clone(),
                });
            }
            SelectItem::ExprWithAlias { expr, alias } => match replaced(expr, found)? {
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
    let (name, columns, arguments) = match found.functions.as_slice() {
        [] => return None,
        [function] => {
            let columns = match called(function)?.as_str() {
                EXPANDED => FIELDS.map(str::to_owned).to_vec(),
                _ => vec![value_of(0)],
            };
            (function.name.clone(), columns, arguments(function)?)
        }
        several => {
            let arrays: Option<Vec<FunctionArg>> = several.iter().map(array_of).collect();
            let mut columns: Vec<String> = (0..several.len()).map(value_of).collect();
            columns.push(NUMBER.into());
            (
                ast::ObjectName::from(vec![Ident::new("unnest")]),
                columns,
                arrays?,
            )
        }
    };
    let with_ordinality = found.functions.len() > 1;
    let columns = columns.iter().map(ast::TableAliasColumnDef::from_name);
    let mut changed = select.clone();
    changed.projection = items;
    changed.from.push(TableWithJoins {
        relation: TableFactor::Function {
            lateral: true,
            name,
            args: arguments,
            with_ordinality,
            alias: Some(TableAlias {
                explicit: true,
                name: Ident::with_quote('"', LIST_FUNCTION),
                columns: columns.collect(),
                at: None,
            }),
        },
        joins: Vec::new(),
    });
    Some(changed)
}

/// The column of the values of a function, by its place among those of the list.
fn value_of(place: usize) -> String {
    match place {
        0 => FIELDS[0].into(),
        place => format!("{}{place}", FIELDS[0]),
    }
}

fn arguments(function: &ast::Function) -> Option<Vec<FunctionArg>> {
    match &function.args {
        FunctionArguments::List(list) => Some(list.args.clone()),
        _ => None,
    }
}

/// The array whose elements a function counts or returns: of `generate_subscripts` none in another dimension than the first.
fn array_of(function: &ast::Function) -> Option<FunctionArg> {
    let given = arguments(function)?;
    match given.as_slice() {
        [array, dimension] if dimension.to_string() != "1" => {
            let text = format!("CASE WHEN {dimension} = 1 THEN {array} END");
            let array = template::expression(&text)?;
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(array)))
        }
        [array, ..] => Some(array.clone()),
        [] => None,
    }
}

/// What stands in place of a function beside others: the value, or the subscript in the row's place.
fn side_by_side(function: &ast::Function, place: usize) -> Option<Expr> {
    let given = arguments(function)?;
    match (called(function)?.as_str(), given.as_slice()) {
        ("unnest", [_]) => Some(column(&value_of(place))),
        (
            "generate_subscripts",
            [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(array)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(dimension)),
            ],
        ) => {
            let row = column(NUMBER);
            let text = format!(
                "CASE WHEN {row} <= array_length({array}, {dimension}) \
                 THEN CAST({row} - 1 AS integer) + array_lower({array}, {dimension}) END"
            );
            Some(Expr::Nested(Box::new(template::expression(&text)?)))
        }
        _ => None,
    }
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

/// The expression with columns in place of the functions. `None` if one of several cannot stand beside others.
#[expect(clippy::option_option, reason = "the outer one is a failure")]
fn replaced(expression: &Expr, found: &mut Series) -> Option<Option<Moved>> {
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
            let same = found.functions.iter().position(|other| other == function);
            let place = same.unwrap_or_else(|| {
                found.functions.push(function.clone());
                found.functions.len() - 1
            });
            Some(Some(match name.as_str() {
                _ if found.is_several => Moved::Value(Box::new(side_by_side(function, place)?)),
                EXPANDED => Moved::Record,
                _ => Moved::Value(Box::new(column(&value_of(place)))),
            }))
        }
        Expr::BinaryOp { left, op, right } => {
            let sides = [left, right].map(|side| replaced(side, found));
            let [left_moved, right_moved] = sides;
            let side = |moved: Option<Moved>, before: &Expr| match moved {
                Some(Moved::Value(inner)) => Some((inner, true)),
                Some(Moved::Record) => None,
                None => Some((Box::new(before.clone()), false)),
            };
            let (left, left_moves) = side(left_moved?, left)?;
            let (right, right_moves) = side(right_moved?, right)?;
            let whole = Expr::BinaryOp {
                left,
                op: op.clone(),
                right,
            };
            Some((left_moves || right_moves).then(|| Moved::Value(Box::new(whole))))
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
