//! Names of a query's output columns.

use anabranch_types::DataType;
use sqlparser::ast::{self, Expr, SelectItem, SetExpr};

/// An identifier in lower case unless quoted.
pub(crate) fn fold(ident: &ast::Ident) -> String {
    match ident.quote_style {
        None => ident.value.to_lowercase(),
        Some(_) => ident.value.clone(),
    }
}

/// A name that an expression has, or takes from a part of it.
struct Named {
    text: String,
    /// Whether a cast around the expression gives it another one: it is that of a cast, or `case`.
    is_weak: bool,
}

/// The name that PostgreSQL gives an output without an alias.
pub(crate) fn output_name(expression: &Expr) -> String {
    named(expression).map_or("?column?".into(), |name| name.text)
}

fn named(expression: &Expr) -> Option<Named> {
    let strong = |text: String| {
        Some(Named {
            text,
            is_weak: false,
        })
    };
    let weak = |text: String| {
        Some(Named {
            text,
            is_weak: true,
        })
    };
    let of_type = |data_type: &ast::DataType| {
        let resolved = super::cast_type(data_type)?;
        weak(cast_name(&resolved))
    };
    match expression {
        Expr::Identifier(name) => strong(fold(name)),
        Expr::CompoundIdentifier(parts) => strong(parts.last().map_or(String::new(), fold)),
        Expr::Nested(inner) => named(inner),
        Expr::Function(function) => {
            let last = function.name.0.last().and_then(|part| part.as_ident());
            strong(fold(last?))
        }
        Expr::Cast {
            expr, data_type, ..
        } => named(expr)
            .filter(|name| !name.is_weak)
            .or_else(|| of_type(data_type)),
        Expr::TypedString(typed) => of_type(&typed.data_type),
        Expr::Case { else_result, .. } => {
            let other = else_result.as_deref().and_then(named);
            other
                .filter(|name| !name.is_weak)
                .or_else(|| weak("case".into()))
        }
        Expr::Exists { .. } => strong("exists".into()),
        Expr::Subquery(query) => match &*query.body {
            SetExpr::Select(select) => match select.projection.first() {
                // The name of its column, whatever that comes from.
                Some(SelectItem::UnnamedExpr(expression)) => strong(output_name(expression)),
                Some(SelectItem::ExprWithAlias { alias, .. }) => strong(fold(alias)),
                _ => None,
            },
            _ => None,
        },
        Expr::Array(_) => strong("array".into()),
        Expr::AtTimeZone { .. } => strong("timezone".into()),
        Expr::Extract { .. } => strong("extract".into()),
        Expr::Ceil { .. } => strong("ceil".into()),
        Expr::Floor { .. } => strong("floor".into()),
        Expr::Position { .. } => strong("position".into()),
        Expr::Overlay { .. } => strong("overlay".into()),
        Expr::Substring {
            shorthand: true, ..
        } => strong("substr".into()),
        Expr::Substring { .. } => strong("substring".into()),
        Expr::Trim { trim_where, .. } => strong(
            match trim_where {
                Some(ast::TrimWhereField::Leading) => "ltrim",
                Some(ast::TrimWhereField::Trailing) => "rtrim",
                _ => "btrim",
            }
            .into(),
        ),
        Expr::CompoundFieldAccess { root, .. } => named(root),
        Expr::Value(value) if matches!(value.value, ast::Value::Boolean(_)) => weak("bool".into()),
        _ => None,
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
        DataType::Enum(of) => return of.name.clone(),
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
