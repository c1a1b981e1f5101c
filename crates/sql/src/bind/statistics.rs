//! Binds aggregates over the distribution of numbers, and those WITHIN GROUP.

use anabranch_types::DataType;
use sqlparser::ast::{self, Expr};

use super::{
    Bind, Binder, Bound, NO_FUNCTION,
    aggregate::{Aggregate, AggregateFunction, Regression, Statistic},
    convert::{Context, unbounded},
};
use crate::expression::Expression;

/// The names of the aggregates here.
const NAMES: [(&str, AggregateFunction); 24] = {
    use AggregateFunction as F;
    const fn statistic(is_sample: bool, is_root: bool) -> AggregateFunction {
        F::Statistic(Statistic { is_sample, is_root })
    }
    [
        ("stddev_samp", statistic(true, true)),
        ("stddev", statistic(true, true)),
        ("stddev_pop", statistic(false, true)),
        ("var_samp", statistic(true, false)),
        ("variance", statistic(true, false)),
        ("var_pop", statistic(false, false)),
        ("bit_and", F::BitAnd),
        ("bit_or", F::BitOr),
        ("bit_xor", F::BitXor),
        ("corr", F::Regression(Regression::Corr)),
        ("covar_pop", F::Regression(Regression::CovarPop)),
        ("covar_samp", F::Regression(Regression::CovarSamp)),
        ("regr_slope", F::Regression(Regression::Slope)),
        ("regr_intercept", F::Regression(Regression::Intercept)),
        ("regr_r2", F::Regression(Regression::R2)),
        ("regr_avgx", F::Regression(Regression::AverageX)),
        ("regr_avgy", F::Regression(Regression::AverageY)),
        ("regr_sxx", F::Regression(Regression::SumXx)),
        ("regr_syy", F::Regression(Regression::SumYy)),
        ("regr_sxy", F::Regression(Regression::SumXy)),
        ("regr_count", F::Regression(Regression::Count)),
        (
            "percentile_cont",
            F::Percentile {
                is_continuous: true,
            },
        ),
        (
            "percentile_disc",
            F::Percentile {
                is_continuous: false,
            },
        ),
        ("mode", F::Mode),
    ]
};

impl AggregateFunction {
    /// The aggregate of this module with this name.
    pub(super) fn statistical(name: &str) -> Option<AggregateFunction> {
        let found = NAMES.iter().find(|(of, _)| *of == name);
        found.map(|(_, function)| *function)
    }

    /// The name of an aggregate of this module.
    pub(super) fn statistical_name(self) -> &'static str {
        let found = NAMES.iter().find(|(_, function)| *function == self);
        found.map_or("", |(name, _)| name)
    }

    /// Whether it is one of this module.
    pub(crate) fn is_statistical(self) -> bool {
        matches!(
            self,
            AggregateFunction::Statistic(_)
                | AggregateFunction::BitAnd
                | AggregateFunction::BitOr
                | AggregateFunction::BitXor
                | AggregateFunction::Regression(_)
                | AggregateFunction::Percentile { .. }
                | AggregateFunction::Mode
        )
    }

    /// Whether its values are sorted: WITHIN GROUP (ORDER BY …).
    pub(crate) fn is_ordered_set(self) -> bool {
        matches!(
            self,
            AggregateFunction::Percentile { .. } | AggregateFunction::Mode
        )
    }
}

impl Binder<'_> {
    /// The types of an aggregate of one or two numbers: its arguments, its result, and what it is computed in.
    pub(super) fn statistical_types(
        &mut self,
        function: AggregateFunction,
        bounds: Vec<Bound>,
        syntax: &Expr,
    ) -> Bind<(Vec<Expression>, DataType, Option<DataType>)> {
        use AggregateFunction as F;
        let numeric = DataType::Numeric(None);
        match (function, &bounds[..]) {
            (F::Statistic(_), [bound]) => {
                let (argument, input) = self.settled(bound.clone(), syntax)?;
                let result = match &input {
                    DataType::Real | DataType::Double => DataType::Double,
                    known if known.is_numeric() => numeric,
                    _ => return Err(self.no_aggregate(function, &bounds, syntax)),
                };
                Ok((vec![argument], result, Some(input)))
            }
            (F::BitAnd | F::BitOr | F::BitXor, [bound])
                if bound.data_type.as_ref().is_some_and(DataType::is_integer) =>
            {
                let (argument, input) = self.settled(bound.clone(), syntax)?;
                Ok((vec![argument], input.clone(), Some(input)))
            }
            (F::Regression(regression), [_, _]) => {
                let Some(mut arguments) = self.fitting(&bounds, "dd", syntax)? else {
                    return Err(self.no_aggregate(function, &bounds, syntax));
                };
                arguments.reverse();
                let result = match regression {
                    Regression::Count => DataType::Int8,
                    _ => DataType::Double,
                };
                Ok((arguments, result, Some(DataType::Double)))
            }
            _ => Err(self.no_aggregate(function, &bounds, syntax)),
        }
    }

    fn no_aggregate(
        &self,
        function: AggregateFunction,
        bounds: &[Bound],
        syntax: &Expr,
    ) -> crate::diagnostic::Diagnostic {
        let shown = |bound: &Bound| match &bound.data_type {
            Some(known) => unbounded(known).to_string(),
            None => "unknown".to_owned(),
        };
        let types: Vec<String> = bounds.iter().map(shown).collect();
        // As it is called: an aggregate may have two names.
        let called = match syntax {
            Expr::Function(called) => called.name.0.last().and_then(|part| part.as_ident()),
            _ => None,
        };
        let name = called.map_or(function.name().to_owned(), super::fold);
        let types = types.join(", ");
        let message = format!("function {name}({types}) does not exist");
        self.error("42883", message, syntax).help(NO_FUNCTION)
    }

    /// `percentile_cont(fraction) WITHIN GROUP (ORDER BY value)` and its kin.
    pub(super) fn ordered_set(
        &mut self,
        function: AggregateFunction,
        call: &ast::Function,
        direct: &[ast::FunctionArg],
        filter: Option<Expression>,
        syntax: &Expr,
    ) -> Bind<(Aggregate, DataType)> {
        let mut bounds = Vec::new();
        for argument in direct {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)) = argument else {
                return Err(self.unsupported("this argument", syntax));
            };
            bounds.push(self.expression(argument)?);
        }
        let [key] = &call.within_group[..] else {
            if call.within_group.is_empty() {
                return Err(self.no_aggregate(function, &bounds, syntax));
            }
            return Err(self.unsupported("WITHIN GROUP of several keys", syntax));
        };
        let value = self.expression(&key.expr)?;
        let (value, data_type) = match function {
            AggregateFunction::Percentile {
                is_continuous: true,
            } => {
                let fits = value.data_type.as_ref().is_none_or(DataType::is_numeric);
                if !fits {
                    bounds.push(value);
                    return Err(self.no_aggregate(function, &bounds, syntax));
                }
                let value = self.coerce(value, &DataType::Double, Context::Implicit, &key.expr)?;
                (value, DataType::Double)
            }
            _ => self.settled(value, &key.expr)?,
        };
        let value = self.order_key(value, &data_type, &key.expr)?;
        let (descending, nulls_first) = self.direction(&key.options, &key.expr)?;
        let mut arguments = vec![value.clone()];
        let mut result = match &data_type {
            DataType::Char(_) => DataType::BPCHAR,
            other => unbounded(other),
        };
        match (function, &bounds[..]) {
            (AggregateFunction::Mode, []) => {}
            (AggregateFunction::Percentile { .. }, [fraction]) => {
                let is_list = matches!(fraction.data_type, Some(DataType::Array(_)));
                let to = match is_list {
                    true => DataType::Array(Box::new(DataType::Double)),
                    false => DataType::Double,
                };
                if is_list && data_type.as_enum().is_some() {
                    let construct = format!("several fractions of {data_type}");
                    return Err(self.unsupported(&construct, syntax));
                }
                if is_list {
                    result = DataType::Array(Box::new(result));
                }
                let fraction = self.coerce(fraction.clone(), &to, Context::Implicit, syntax)?;
                let is_of_row = |e: &Expression| matches!(e, Expression::Column { .. });
                if fraction.any(&mut |e| is_of_row(e)) {
                    return Err(
                        self.unsupported("a fraction that is computed from columns", syntax)
                    );
                }
                arguments.push(fraction);
            }
            _ => return Err(self.no_aggregate(function, &bounds, syntax)),
        }
        let aggregate = Aggregate {
            function,
            arguments,
            distinct: false,
            filter,
            order: vec![(value, descending, nulls_first)],
            input: Some(match data_type {
                DataType::Enum(_) => DataType::Int4,
                other => other,
            }),
            summand: None,
            ascending: None,
        };
        Ok((aggregate, result))
    }
}
