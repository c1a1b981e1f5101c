//! Arguments of calls: expressions over the client's parameters, the connection's values and `now()`.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use anabranch_types::{DataType, EffectError, TimeZone, Value};
use sqlparser::ast;

use crate::{
    expression::{Budget, EvaluationContext, Expression, evaluate::evaluate_over, failure},
    source::Span,
};

/// Arguments as they are written, with their places.
#[derive(Clone, Debug)]
pub struct ArgumentSyntax(Arc<[(ast::Expr, Span)]>);

impl ArgumentSyntax {
    pub(crate) fn new(arguments: Vec<(ast::Expr, Span)>) -> ArgumentSyntax {
        ArgumentSyntax(arguments.into())
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(ast::Expr, Span)> {
        self.0.iter()
    }
}

/// The values that expressions outside of a transaction take.
#[derive(Clone, Debug, Default)]
pub struct ClientContext {
    timestamp: i64,
    zone: TimeZone,
    uniques: Vec<u128>,
}

impl ClientContext {
    /// A context in which `now()` is this: microseconds since 2000-01-01 00:00:00 UTC. The time zone is UTC.
    pub fn at(timestamp: i64) -> ClientContext {
        ClientContext {
            timestamp,
            ..ClientContext::default()
        }
    }

    /// The same in a session with this time zone.
    #[must_use]
    pub fn with_time_zone(self, zone: TimeZone) -> ClientContext {
        ClientContext { zone, ..self }
    }

    /// The same with numbers that no other caller gets, for `gen_random_uuid()`.
    #[must_use]
    pub fn with_uniques(self, uniques: Vec<u128>) -> ClientContext {
        ClientContext { uniques, ..self }
    }

    /// The value of `now()`.
    pub(crate) fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// The session's time zone.
    pub(crate) fn time_zone(&self) -> &TimeZone {
        &self.zone
    }
}

/// Compiled arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentList {
    pub(crate) expressions: Arc<[Expression]>,
    pub(crate) types: Arc<[DataType]>,
}

impl ArgumentList {
    /// Arguments with the types that the expressions have.
    pub(crate) fn new(arguments: Vec<(Expression, DataType)>) -> ArgumentList {
        let (expressions, types): (Vec<_>, Vec<_>) = arguments.into_iter().unzip();
        ArgumentList {
            expressions: expressions.into(),
            types: types.into(),
        }
    }

    /// The types of the values, in order.
    pub fn types(&self) -> &[DataType] {
        &self.types
    }

    /// The number of unique numbers that one evaluation draws ([`ClientContext::with_uniques`]).
    pub fn uniques(&self) -> usize {
        self.expressions.iter().map(Expression::uniques).sum()
    }

    /// Evaluates them. `parameters` are the client's, and behind them the plan's session values, in order.
    ///
    /// # Errors
    /// Errors that the expressions raise; `08P01` if parameters are missing.
    pub fn evaluate(
        &self,
        parameters: &[Value],
        context: &ClientContext,
    ) -> Result<Vec<Value>, EffectError> {
        let missing = |expression: &Expression| {
            expression
                .any(&mut |e| matches!(e, Expression::Variable(slot) if *slot >= parameters.len()))
        };
        if self.expressions.iter().any(missing) {
            return Err(*failure("08P01", "parameters are missing"));
        }
        if context.uniques.len() < self.uniques() {
            return Err(*failure("XX000", "unique numbers are missing"));
        }
        let context = EvaluationContext {
            timestamp: context.timestamp,
            zone: context.zone.clone(),
            uniques: RefCell::new(context.uniques.clone()),
            reserve: Cell::default(),
            sequences: None,
            budget: Budget::default(),
        };
        self.expressions
            .iter()
            .map(|expression| {
                evaluate_over(expression, parameters, &context).map_err(|error| *error)
            })
            .collect()
    }
}
