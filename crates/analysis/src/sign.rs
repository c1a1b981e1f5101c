//! What is known of the sign of an amount.
//!
//! Whether an increment moves towards a bound depends on its sign. A constant has one. A column whose CHECK keeps
//! it at or above zero has one in every committed state. A parameter has one if the procedure refuses other values:
//! `IF p_amount <= 0 THEN RAISE EXCEPTION …` before anything can return. Otherwise both signs are possible.

use anabranch_sql::catalog::{Catalog, Procedure, RaiseLevel, Statement};
use anabranch_sql::summary::{Term, TransactionSummary};
use anabranch_types::{TableSchema, Value};
use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value as Literal};

use crate::assertion::RowScope;

/// The sign of a number, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Zero or more.
    Positive,
    /// Zero or less.
    Negative,
    /// Not known.
    Either,
}

impl Sign {
    /// The sign of the negated number.
    pub(crate) fn turned(self) -> Sign {
        match self {
            Sign::Positive => Sign::Negative,
            Sign::Negative => Sign::Positive,
            Sign::Either => Sign::Either,
        }
    }

    /// The sign of the number, negated if `negated`.
    pub(crate) fn turned_if(self, negated: bool) -> Sign {
        if negated { self.turned() } else { self }
    }

    /// The sign of a constant.
    pub(crate) fn of_value(value: &Value) -> Sign {
        let negative = match value {
            Value::Int(n) => *n < 0,
            Value::Float(x) if x.is_nan() => return Sign::Either,
            Value::Float(x) => *x < 0.0,
            Value::Numeric(d) => d.is_negative(),
            _ => return Sign::Either,
        };
        if negative {
            Sign::Negative
        } else {
            Sign::Positive
        }
    }
}

/// The signs of a type's parameters and of every table's columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signs {
    columns: Vec<Vec<Sign>>,
    parameters: Vec<Vec<Sign>>,
}

impl Signs {
    /// Collects the signs that the declarations imply.
    pub(crate) fn new(catalog: &Catalog, summaries: &[TransactionSummary]) -> Signs {
        let columns = catalog
            .schema
            .tables
            .iter()
            .zip(&catalog.tables)
            .map(|(table, declared)| {
                let mut signs = vec![Sign::Either; table.columns.len()];
                for check in &declared.checks {
                    bounded(table, &check.expression, &mut signs);
                }
                signs
            })
            .collect();
        let parameters = summaries
            .iter()
            .map(|summary| {
                let mut signs = vec![Sign::Either; summary.parameters.len()];
                for condition in refusals(catalog, summary) {
                    refused(condition, summary, &mut signs);
                }
                signs
            })
            .collect();
        Signs {
            columns,
            parameters,
        }
    }

    /// The sign of a term of the type with number `owner`.
    pub(crate) fn of(&self, owner: usize, summary: &TransactionSummary, term: &Term) -> Sign {
        match term {
            Term::Constant(value) => Sign::of_value(value),
            Term::Parameter(p) => self.parameters[owner]
                .get(*p)
                .copied()
                .unwrap_or(Sign::Either),
            Term::Negated(p) => self.of(owner, summary, &Term::Parameter(*p)).turned(),
            Term::Column {
                statement,
                access,
                column,
            } => summary
                .statements
                .iter()
                .find(|s| s.id == *statement)
                .and_then(|s| s.accesses.get(*access))
                .and_then(|a| {
                    self.columns
                        .get(a.table.index())?
                        .get(column.index())
                        .copied()
                })
                .unwrap_or(Sign::Either),
            _ => Sign::Either,
        }
    }
}

/// Records the columns that a CHECK keeps on one side of zero.
fn bounded(table: &TableSchema, check: &Expr, signs: &mut [Sign]) {
    let scope = RowScope { table };
    let column = |e: &Expr| match e {
        Expr::Identifier(name) => scope.column(std::slice::from_ref(name)),
        Expr::CompoundIdentifier(path) => scope.column(path),
        _ => None,
    };
    match check {
        Expr::Nested(inner) => bounded(table, inner, signs),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            bounded(table, left, signs);
            bounded(table, right, signs);
        }
        Expr::Between {
            expr,
            negated: false,
            low,
            high,
        } => {
            if let Some(c) = column(expr) {
                note(&mut signs[c.index()], low, &BinaryOperator::GtEq);
                note(&mut signs[c.index()], high, &BinaryOperator::LtEq);
            }
        }
        Expr::BinaryOp { left, op, right } => {
            if let Some(c) = column(left) {
                note(&mut signs[c.index()], right, op);
            } else if let Some(c) = column(right) {
                note(&mut signs[c.index()], left, &turned(op));
            }
        }
        _ => {}
    }
}

/// Records what `x op constant` says of the sign of x.
fn note(sign: &mut Sign, constant: &Expr, op: &BinaryOperator) {
    let Some(n) = number(constant) else { return };
    match op {
        BinaryOperator::Gt | BinaryOperator::GtEq | BinaryOperator::Eq if n >= 0.0 => {
            *sign = Sign::Positive;
        }
        BinaryOperator::Lt | BinaryOperator::LtEq | BinaryOperator::Eq if n <= 0.0 => {
            *sign = Sign::Negative;
        }
        _ => {}
    }
}

/// The comparison with its sides exchanged.
fn turned(op: &BinaryOperator) -> BinaryOperator {
    match op {
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        other => other.clone(),
    }
}

/// The comparison that holds where this one does not.
fn negated(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    })
}

fn number(e: &Expr) -> Option<f64> {
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

/// The conditions under which a procedure ends with an error before it can return: each is false or NULL in a call
/// that commits. Alternatives (OR) are listed one by one.
pub(crate) fn refusals<'c>(catalog: &'c Catalog, summary: &TransactionSummary) -> Vec<&'c Expr> {
    let named = |p: &&std::sync::Arc<Procedure>| p.name == summary.name;
    // Of two procedures with one name it is not known which is meant.
    let mut found = catalog.procedures.iter().filter(named);
    let (Some(procedure), None) = (found.next(), found.next()) else {
        return Vec::new();
    };
    let mut conditions = Vec::new();
    let is_parameter = |name: &str| procedure.parameters.iter().any(|of| of.name == name);
    for (statement, _) in &procedure.body.statements {
        // What is refused behind it is another value than the call's.
        if assigned(statement).iter().any(|name| is_parameter(name)) {
            break;
        }
        match statement {
            Statement::If {
                branches,
                otherwise,
            } => {
                let Some((condition, body)) = branches.first() else {
                    break;
                };
                let raises = matches!(
                    body.first(),
                    Some((
                        Statement::Raise {
                            level: RaiseLevel::Exception,
                            ..
                        },
                        _
                    ))
                );
                if raises {
                    alternatives(condition, &mut conditions);
                }
                // A statement in a branch may return.
                if !raises || branches.len() > 1 || !otherwise.is_empty() {
                    break;
                }
            }
            Statement::Sql { .. }
            | Statement::Perform(_)
            | Statement::Assign { .. }
            | Statement::RowCount(_)
            | Statement::Null => {}
            Statement::Raise { level, .. } if *level != RaiseLevel::Exception => {}
            _ => break,
        }
    }
    conditions
}

/// The variables that a statement without a body of its own sets.
fn assigned(statement: &Statement) -> Vec<&str> {
    match statement {
        Statement::Sql { into, .. } => into.iter().map(String::as_str).collect(),
        Statement::Assign { target, .. } => vec![target],
        Statement::RowCount(target) => vec![target],
        _ => Vec::new(),
    }
}

/// If a condition holds the call ends: so each of its alternatives is false or NULL afterwards.
fn alternatives<'c>(condition: &'c Expr, into: &mut Vec<&'c Expr>) {
    match condition {
        Expr::Nested(inner) => alternatives(inner, into),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Or,
            right,
        } => {
            alternatives(left, into);
            alternatives(right, into);
        }
        other => into.push(other),
    }
}

/// The parameter that an expression names.
pub(crate) fn parameter_named(expression: &Expr, summary: &TransactionSummary) -> Option<usize> {
    match expression {
        Expr::Nested(inner) => parameter_named(inner, summary),
        Expr::Identifier(name) => {
            let name = name.value.to_lowercase();
            summary.parameters.iter().position(|(p, _)| *p == name)
        }
        _ => None,
    }
}

/// Records what the refusal of a condition says of the signs of parameters.
fn refused(condition: &Expr, summary: &TransactionSummary, signs: &mut [Sign]) {
    let Expr::BinaryOp { left, op, right } = condition else {
        return;
    };
    let Some(op) = negated(op) else { return };
    if let Some(p) = parameter_named(left, summary) {
        note(&mut signs[p], right, &op);
    } else if let Some(p) = parameter_named(right, summary) {
        note(&mut signs[p], left, &turned(&op));
    }
}
