//! Where a value comes from, as the analyser wants to know it, before variables are resolved.

use anabranch_types::Value;

use super::{Binder, scope::Scope};
use crate::expression::{Expression, Operator, frame::column_index};

/// A [`crate::summary::Term`] that may still name variables of the procedure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RawTerm {
    Constant(Value),
    /// A variable, shifted.
    Variable {
        slot: usize,
        offset: i64,
    },
    /// An element of the array in a variable.
    Element {
        slot: usize,
    },
    /// A column of one of this statement's accesses, shifted.
    Column {
        access: usize,
        column: anabranch_types::ColumnIndex,
        offset: i64,
    },
    Aggregate {
        function: &'static str,
        access: Option<usize>,
        column: Option<anabranch_types::ColumnIndex>,
        offset: i64,
    },
    Generated,
    Now,
    /// Computed from these variables and constants.
    Of(Vec<usize>),
    Unknown,
}

impl RawTerm {
    /// The same shifted by a constant.
    fn shifted(self, by: i64) -> RawTerm {
        match self {
            RawTerm::Variable { slot, offset } => RawTerm::Variable {
                slot,
                offset: offset.saturating_add(by),
            },
            RawTerm::Column {
                access,
                column,
                offset,
            } => RawTerm::Column {
                access,
                column,
                offset: offset.saturating_add(by),
            },
            RawTerm::Aggregate {
                function,
                access,
                column,
                offset,
            } => RawTerm::Aggregate {
                function,
                access,
                column,
                offset: offset.saturating_add(by),
            },
            RawTerm::Element { slot } => RawTerm::Of(vec![slot]),
            RawTerm::Of(slots) => RawTerm::Of(slots),
            RawTerm::Constant(_) | RawTerm::Now => RawTerm::Of(Vec::new()),
            RawTerm::Generated | RawTerm::Unknown => RawTerm::Unknown,
        }
    }

    /// The variables, if it is computed from variables and constants alone.
    fn pure(&self) -> Option<Vec<usize>> {
        match self {
            RawTerm::Constant(_) | RawTerm::Now => Some(Vec::new()),
            RawTerm::Variable { slot, .. } | RawTerm::Element { slot } => Some(vec![*slot]),
            RawTerm::Of(slots) => Some(slots.clone()),
            _ => None,
        }
    }
}

impl Binder<'_> {
    /// Where an expression's value comes from. The scopes it was bound in are still there.
    pub(crate) fn term(&self, expression: &Expression) -> RawTerm {
        match expression {
            Expression::Constant(value) => RawTerm::Constant(value.clone()),
            Expression::Variable(slot) => RawTerm::Variable {
                slot: *slot,
                offset: 0,
            },
            Expression::Now => RawTerm::Now,
            Expression::Unique | Expression::Next(_) => RawTerm::Generated,
            Expression::Column {
                depth,
                source,
                column,
            } => {
                let scope = self
                    .scopes
                    .len()
                    .checked_sub(depth + 1)
                    .map(|i| &self.scopes[i]);
                scope.map_or(RawTerm::Unknown, |scope| {
                    self.column_term(scope, *source, *column)
                })
            }
            Expression::Arithmetic {
                operator,
                left,
                right,
                ..
            } => match (operator, &**left, &**right) {
                (Operator::Add, e, Expression::Constant(Value::Int(by)))
                | (Operator::Add, Expression::Constant(Value::Int(by)), e) => {
                    self.term(e).shifted(*by)
                }
                (Operator::Subtract, e, Expression::Constant(Value::Int(by))) => {
                    self.term(e).shifted(by.saturating_neg())
                }
                _ => self.computed(expression),
            },
            _ => self.computed(expression),
        }
    }

    fn computed(&self, expression: &Expression) -> RawTerm {
        let mut slots = Vec::new();
        let mut pure = true;
        expression.each_child(|child| match self.term(child).pure() {
            Some(more) => slots.extend(more),
            None => pure = false,
        });
        slots.sort_unstable();
        slots.dedup();
        if pure {
            RawTerm::Of(slots)
        } else {
            RawTerm::Unknown
        }
    }

    fn column_term(&self, scope: &Scope, source: usize, column: usize) -> RawTerm {
        if Some(source) == scope.aggregate_source {
            let aggregate = &scope.aggregates[column];
            let argument = aggregate
                .arguments
                .first()
                .map(|argument| self.term(argument));
            let (access, of) = match (argument, &aggregate.filter) {
                (
                    Some(RawTerm::Column {
                        access,
                        column,
                        offset: 0,
                    }),
                    None,
                ) => (Some(access), Some(column)),
                (None, None) => {
                    let mut accesses = scope.sources.iter().filter_map(|source| source.access);
                    (accesses.next().filter(|_| accesses.next().is_none()), None)
                }
                _ => return RawTerm::Unknown,
            };
            if aggregate.distinct && aggregate.function.name() != "count" {
                return RawTerm::Unknown;
            }
            let function = aggregate.function.name();
            return RawTerm::Aggregate {
                function,
                access,
                column: of,
                offset: 0,
            };
        }
        let Some(found) = scope.sources.get(source.wrapping_sub(1)) else {
            return RawTerm::Unknown;
        };
        match (found.access, &found.elements) {
            (Some(access), _) => RawTerm::Column {
                access,
                column: column_index(column),
                offset: 0,
            },
            (None, Some(arguments)) => match arguments.get(column) {
                Some(Expression::Variable(slot)) => RawTerm::Element { slot: *slot },
                Some(argument) => match self.term(argument).pure() {
                    Some(slots) => RawTerm::Of(slots),
                    None => RawTerm::Unknown,
                },
                // WITH ORDINALITY: the place depends on how long the arrays are.
                None => {
                    let pure = arguments.iter().map(|argument| self.term(argument).pure());
                    match pure.collect::<Option<Vec<_>>>() {
                        Some(slots) => RawTerm::Of(slots.concat()),
                        None => RawTerm::Unknown,
                    }
                }
            },
            _ => RawTerm::Unknown,
        }
    }
}
