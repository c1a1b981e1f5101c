//! Predicates on syntax trees that need no scope.

use anabranch_types::Value;
use sqlparser::ast::{
    BinaryOperator, DataType, ExactNumberInfo, Expr, GroupByExpr, ObjectName, Query, Select,
    SelectItem, SetExpr, UnaryOperator, Value as Literal,
};

use super::super::row::fold;
use super::Reason;

pub(super) fn disjuncts<'e>(e: &'e Expr, sides: &mut Vec<Option<&'e Expr>>) {
    match e {
        Expr::Nested(inner) => disjuncts(inner, sides),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Or,
            right,
        } => {
            disjuncts(left, sides);
            disjuncts(right, sides);
        }
        _ => sides.push(Some(e)),
    }
}

pub(super) fn conjuncts_of<'e>(e: &'e Expr, into: &mut Vec<&'e Expr>) {
    match e {
        Expr::Nested(inner) => conjuncts_of(inner, into),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            conjuncts_of(left, into);
            conjuncts_of(right, into);
        }
        _ => into.push(e),
    }
}

pub(super) fn plain_select(query: &Query) -> Result<&Select, Reason> {
    if query.with.is_some() || query.limit_clause.is_some() || query.fetch.is_some() {
        return Err("WITH, LIMIT and FETCH in it are not followed".into());
    }
    match query.body.as_ref() {
        SetExpr::Select(select) => Ok(select),
        SetExpr::Query(inner) => plain_select(inner),
        _ => Err("it has a query that is no plain SELECT".into()),
    }
}

/// Refuses a query that returns a row although it reads none, as an ungrouped count does: EXISTS of it is always
/// true.
pub(super) fn of_rows(select: &Select) -> Result<(), Reason> {
    let grouped =
        !matches!(&select.group_by, GroupByExpr::Expressions(columns, _) if columns.is_empty());
    let computes = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => has_query(e),
        _ => false,
    };
    match !grouped && select.having.is_none() && select.projection.iter().any(computes) {
        true => Err("its query has a row whatever it reads".into()),
        false => Ok(()),
    }
}

pub(super) fn strip(e: &Expr) -> &Expr {
    match e {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => strip(inner),
        _ => e,
    }
}

pub(super) fn has_query(e: &Expr) -> bool {
    match e {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } | Expr::Function(_) => {
            true
        }
        Expr::Nested(e) | Expr::Cast { expr: e, .. } | Expr::UnaryOp { expr: e, .. } => {
            has_query(e)
        }
        Expr::BinaryOp { left, right, .. } => has_query(left) || has_query(right),
        _ => false,
    }
}

pub(super) fn number(e: &Expr) -> Option<f64> {
    match e {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => number(inner),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => number(expr).map(|n| -n),
        Expr::Value(value) => match &value.value {
            Literal::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a cast to this type may change the value of a number.
pub(super) fn rounds(data_type: &DataType) -> bool {
    !matches!(
        data_type,
        DataType::Numeric(ExactNumberInfo::None) | DataType::Decimal(ExactNumberInfo::None)
    )
}

pub(super) fn literal(e: &Expr) -> Option<Value> {
    match e {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => literal(inner),
        Expr::Value(value) => match &value.value {
            Literal::Number(text, _) => text.parse().ok().map(Value::Int),
            Literal::SingleQuotedString(text) => Some(Value::text(text)),
            Literal::Boolean(b) => Some(Value::Bool(*b)),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn last_name(name: &ObjectName) -> String {
    name.0
        .last()
        .and_then(|part| part.as_ident())
        .map(fold)
        .unwrap_or_default()
}

pub(super) fn default_name(e: &Expr) -> String {
    match strip(e) {
        Expr::Identifier(ident) => fold(ident),
        Expr::CompoundIdentifier(path) => path.last().map(fold).unwrap_or_default(),
        Expr::Function(function) => last_name(&function.name),
        _ => String::new(),
    }
}
