//! Traversal of the syntax tree.

use crate::syntax::{Argument, Expression, ExpressionKind, Statement, StatementKind};

/// Visits every expression and subexpression in statements; `within` includes nested functions and classes.
pub(crate) fn expressions<'p>(
    statements: &'p [Statement],
    within: bool,
    found: &mut dyn FnMut(&'p Expression),
) {
    for statement in statements {
        match &statement.kind {
            StatementKind::Expression(value) => expression(value, within, found),
            StatementKind::If {
                condition,
                then,
                otherwise,
            } => {
                expression(condition, within, found);
                expressions(then, within, found);
                expressions(otherwise, within, found);
            }
            StatementKind::Cases { value, cases, .. } => {
                value.iter().for_each(|v| expression(v, within, found));
                cases
                    .iter()
                    .for_each(|case| expressions(case, within, found));
            }
            StatementKind::Loop { before, body } => {
                before.iter().for_each(|v| expression(v, within, found));
                expressions(body, within, found);
            }
            StatementKind::Try {
                body,
                handlers,
                finally,
            } => {
                expressions(body, within, found);
                handlers.iter().for_each(|h| expressions(h, within, found));
                expressions(finally, within, found);
            }
            StatementKind::Return(value) | StatementKind::Throw(value) => {
                value.iter().for_each(|v| expression(v, within, found));
            }
            StatementKind::Block(inner) | StatementKind::Other(inner) => {
                expressions(inner, within, found);
            }
            StatementKind::Class { body: inner, .. } if within => {
                expressions(inner, within, found);
            }
            StatementKind::Function(function) if within => {
                expressions(&function.body, within, found);
            }
            StatementKind::Class { .. }
            | StatementKind::Function(_)
            | StatementKind::Leave
            | StatementKind::Broken => {}
        }
    }
}

/// Visits an expression and its subexpressions.
pub(crate) fn expression<'p>(
    value: &'p Expression,
    within: bool,
    found: &mut dyn FnMut(&'p Expression),
) {
    found(value);
    if let ExpressionKind::Lambda(function) = &value.kind
        && within
    {
        expressions(&function.body, within, found);
    }
    for part in parts(value) {
        expression(part, within, found);
    }
}

/// The direct subexpressions, without the bodies of functions.
pub(crate) fn parts(value: &Expression) -> Vec<&Expression> {
    match &value.kind {
        ExpressionKind::Text(_)
        | ExpressionKind::Number(_)
        | ExpressionKind::Null
        | ExpressionKind::Name(_)
        | ExpressionKind::Lambda(_)
        | ExpressionKind::Broken => Vec::new(),
        ExpressionKind::Member(of, _)
        | ExpressionKind::Not(of)
        | ExpressionKind::Reference(of)
        | ExpressionKind::Cast { value: of, .. } => vec![of],
        ExpressionKind::Index(of, at) => vec![of, at],
        ExpressionKind::Call { callee, arguments } => {
            let values = arguments.iter().map(|Argument { value, .. }| value);
            std::iter::once(&**callee).chain(values).collect()
        }
        ExpressionKind::Join { parts, .. }
        | ExpressionKind::List(parts)
        | ExpressionKind::Other(parts) => parts.iter().collect(),
        ExpressionKind::Binary { left, right, .. } => vec![left, right],
        ExpressionKind::Conditional { condition, yes, no } => vec![condition, yes, no],
        ExpressionKind::Map(pairs) => pairs.iter().map(|(_, value)| value).collect(),
        ExpressionKind::Assign { target, value, .. } => vec![target, value],
    }
}
