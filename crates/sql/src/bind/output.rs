//! Names of a query's output columns.

use anabranch_types::DataType;
use sqlparser::ast::{self, Expr, SelectItem, SetExpr};

use super::fold;

/// The name that PostgreSQL gives an output without an alias.
pub(crate) fn output_name(expression: &Expr) -> String {
    match expression {
        Expr::Identifier(name) => fold(name),
        Expr::CompoundIdentifier(parts) => parts.last().map_or(String::new(), fold),
        Expr::Nested(inner) => output_name(inner),
        Expr::Function(function) => {
            let last = function.name.0.last().and_then(|part| part.as_ident());
            last.map_or("?column?".into(), fold)
        }
        Expr::Cast {
            expr, data_type, ..
        } => match output_name(uncast(expr)).as_str() {
            "?column?" => crate::parse::resolve_statement_type(data_type)
                .map_or("?column?".into(), |t| cast_name(&t)),
            name => name.to_string(),
        },
        Expr::TypedString(typed) => crate::parse::resolve_statement_type(&typed.data_type)
            .map_or("?column?".into(), |t| cast_name(&t)),
        Expr::Case { else_result, .. } => match else_result.as_deref().map(output_name) {
            Some(name) if name != "?column?" => name,
            _ => "case".into(),
        },
        Expr::Exists { .. } => "exists".into(),
        Expr::Subquery(query) => match &*query.body {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::UnnamedExpr(expression)) => output_name(expression),
                Some(SelectItem::ExprWithAlias { alias, .. }) => fold(alias),
                _ => "?column?".into(),
            },
            _ => "?column?".into(),
        },
        Expr::Array(_) => "array".into(),
        Expr::AtTimeZone { .. } => "timezone".into(),
        Expr::Extract { .. } => "extract".into(),
        Expr::Ceil { .. } => "ceil".into(),
        Expr::Floor { .. } => "floor".into(),
        Expr::Position { .. } => "position".into(),
        Expr::Overlay { .. } => "overlay".into(),
        Expr::Substring {
            shorthand: true, ..
        } => "substr".into(),
        Expr::Substring { .. } => "substring".into(),
        Expr::Trim {
            trim_where: Some(ast::TrimWhereField::Leading),
            ..
        } => "ltrim".into(),
        Expr::Trim {
            trim_where: Some(ast::TrimWhereField::Trailing),
            ..
        } => "rtrim".into(),
        Expr::Trim { .. } => "btrim".into(),
        Expr::CompoundFieldAccess { root, .. } => output_name(root),
        Expr::Value(value) if matches!(value.value, ast::Value::Boolean(_)) => "bool".into(),
        _ => "?column?".into(),
    }
}

/// The expression inside casts: a cast gives way to one around it.
fn uncast(expression: &Expr) -> &Expr {
    match expression {
        Expr::Cast { expr, .. } => uncast(expr),
        Expr::Nested(inner) => uncast(inner),
        other => other,
    }
}

/// A type's internal name, which a cast of a nameless expression takes.
fn cast_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Bool => "bool",
        DataType::Int2 => "int2",
        DataType::Int4 => "int4",
        DataType::Int8 => "int8",
        DataType::Numeric(_) => "numeric",
        DataType::Real => "float4",
        DataType::Double => "float8",
        DataType::Text => "text",
        DataType::Varchar(_) => "varchar",
        DataType::Char(_) => "bpchar",
        DataType::Bytea => "bytea",
        DataType::Uuid => "uuid",
        DataType::Timestamp => "timestamp",
        DataType::TimestampTz => "timestamptz",
        DataType::Date => "date",
        DataType::Json => "json",
        DataType::Jsonb => "jsonb",
        DataType::Array(element) => return cast_name(element),
        DataType::Name => "name",
        DataType::SingleByte => "char",
        DataType::Oid | DataType::OidAlias(_) | DataType::Int2Vector | DataType::OidVector => {
            return data_type.to_string();
        }
        _ => "?column?",
    }
    .to_string()
}
