//! Binds aggregates.

use anabranch_types::DataType;
use sqlparser::ast::{self, Expr};

use super::{
    Bind, Binder, Bound, NO_FUNCTION,
    convert::{Context, unbounded},
    enumeration,
    json::Item,
};
use crate::{
    expression::{Expression, Function, JsonFunction, integer::Integer},
    plan::integers::Summand,
};

/// An aggregate's result. One of an enumeration is computed over the places of labels.
pub(super) fn result(value: Expression, data_type: DataType) -> Bound {
    let value = match data_type.as_enum() {
        Some(of) => enumeration::label(value, of),
        None => value,
    };
    Bound::new(value, data_type)
}

/// An aggregate in a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    pub(crate) function: AggregateFunction,
    /// Empty for `count(*)`; `string_agg` has two.
    pub(crate) arguments: Vec<Expression>,
    pub(crate) distinct: bool,
    pub(crate) filter: Option<Expression>,
    /// ORDER BY within the aggregate: expression, descending, NULLs first.
    pub(crate) order: Vec<(Expression, bool, bool)>,
    /// The kind of a sum or average.
    pub(crate) input: Option<DataType>,
    /// The argument once more, where it is an integer; settled when the plan is.
    pub(crate) summand: Option<Summand>,
    /// The one key of an ascending ORDER BY once more, where it is an integer; settled when the
    /// plan is.
    pub(crate) ascending: Option<Integer>,
}

/// A variance, or its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statistic {
    pub(crate) is_sample: bool,
    pub(crate) is_root: bool,
}

/// An aggregate of pairs: the dependent variable and the independent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Regression {
    Corr,
    CovarPop,
    CovarSamp,
    Slope,
    Intercept,
    R2,
    AverageX,
    AverageY,
    SumXx,
    SumYy,
    SumXy,
    Count,
}

/// The aggregate functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateFunction {
    Count,
    Sum,
    Average,
    Min,
    Max,
    BoolAnd,
    BoolOr,
    ArrayAgg,
    StringAgg,
    Statistic(Statistic),
    BitAnd,
    BitOr,
    BitXor,
    /// Of the independent variable, then the dependent one.
    Regression(Regression),
    /// `percentile_cont` or `percentile_disc`, of the values and the fraction.
    Percentile {
        is_continuous: bool,
    },
    Mode,
    /// `json_agg`, or `jsonb_agg` if `binary`; `lines` if each element has a line.
    JsonAgg {
        binary: bool,
        lines: bool,
    },
    /// `json_object_agg`, or `jsonb_object_agg` if `binary`.
    JsonObjectAgg {
        binary: bool,
    },
}

impl AggregateFunction {
    /// The aggregate with this name in lower case.
    pub(crate) fn named(name: &str) -> Option<AggregateFunction> {
        Some(match name {
            "count" => AggregateFunction::Count,
            "sum" => AggregateFunction::Sum,
            "avg" => AggregateFunction::Average,
            "min" => AggregateFunction::Min,
            "max" => AggregateFunction::Max,
            "bool_and" | "every" => AggregateFunction::BoolAnd,
            "bool_or" => AggregateFunction::BoolOr,
            "array_agg" => AggregateFunction::ArrayAgg,
            "string_agg" => AggregateFunction::StringAgg,
            "json_agg" | "jsonb_agg" => AggregateFunction::JsonAgg {
                binary: name == "jsonb_agg",
                lines: false,
            },
            "json_object_agg" | "jsonb_object_agg" => AggregateFunction::JsonObjectAgg {
                binary: name == "jsonb_object_agg",
            },
            _ => return AggregateFunction::statistical(name),
        })
    }

    /// Its name in lower case.
    pub(crate) fn name(self) -> &'static str {
        match self {
            AggregateFunction::Count => "count",
            AggregateFunction::Sum => "sum",
            AggregateFunction::Average => "avg",
            AggregateFunction::Min => "min",
            AggregateFunction::Max => "max",
            AggregateFunction::BoolAnd => "bool_and",
            AggregateFunction::BoolOr => "bool_or",
            AggregateFunction::ArrayAgg => "array_agg",
            AggregateFunction::StringAgg => "string_agg",
            AggregateFunction::JsonAgg { binary: false, .. } => "json_agg",
            AggregateFunction::JsonAgg { binary: true, .. } => "jsonb_agg",
            AggregateFunction::JsonObjectAgg { binary: false } => "json_object_agg",
            AggregateFunction::JsonObjectAgg { binary: true } => "jsonb_object_agg",
            other => other.statistical_name(),
        }
    }

    /// Whether it makes JSON.
    pub(crate) fn is_json(self) -> bool {
        matches!(
            self,
            AggregateFunction::JsonAgg { .. } | AggregateFunction::JsonObjectAgg { .. }
        )
    }
}

impl Binder<'_> {
    /// A call of an aggregate: a column of the aggregates' source.
    pub(crate) fn aggregate(
        &mut self,
        function: AggregateFunction,
        call: &ast::Function,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let name = function.name();
        let depth_message = match self.scopes.last() {
            Some(scope) if scope.in_filter => {
                Some("aggregate functions are not allowed in FILTER".to_string())
            }
            Some(scope) if scope.in_aggregate => {
                Some("aggregate function calls cannot be nested".to_string())
            }
            Some(scope) if scope.aggregates_allowed => None,
            Some(scope) => Some(format!(
                "aggregate functions are not allowed in {}",
                scope.clause
            )),
            None => Some("aggregate functions are not allowed here".to_string()),
        };
        if let Some(message) = depth_message {
            return Err(self.error("42803", message, syntax));
        }
        self.scope().in_aggregate = true;
        let bound = self.aggregate_arguments(function, call, syntax);
        self.scope().in_aggregate = false;
        let (aggregate, data_type) = bound?;
        let local =
            |e: &Expression| e.any(&mut |e| matches!(e, Expression::Column { depth: 0, .. }));
        let outer =
            |e: &Expression| e.any(&mut |e| matches!(e, Expression::Column { depth: 1.., .. }));
        if aggregate.arguments.iter().any(outer) && !aggregate.arguments.iter().any(local) {
            let construct = format!("{name} over columns of an outer query alone");
            return Err(self.unsupported(&construct, syntax));
        }
        let scope = self.scope();
        let source = match scope.aggregate_source {
            Some(source) => source,
            None => {
                let source = scope.allocate_source();
                scope.aggregate_source = Some(source);
                source
            }
        };
        let same = scope
            .aggregates
            .iter()
            .position(|other| *other == aggregate);
        let column = same.unwrap_or_else(|| {
            scope.aggregates.push(aggregate);
            scope.aggregates.len() - 1
        });
        let value = Expression::Column {
            depth: 0,
            source,
            column,
        };
        Ok(result(value, data_type))
    }

    /// An aggregate's arguments, FILTER and ORDER BY, and the type of its result.
    pub(super) fn aggregate_arguments(
        &mut self,
        function: AggregateFunction,
        call: &ast::Function,
        syntax: &Expr,
    ) -> Bind<(Aggregate, DataType)> {
        let ast::FunctionArguments::List(list) = &call.args else {
            return Err(self.unsupported("this argument list", syntax));
        };
        let distinct = matches!(
            list.duplicate_treatment,
            Some(ast::DuplicateTreatment::Distinct)
        );
        let mut order = Vec::new();
        for clause in &list.clauses {
            let ast::FunctionArgumentClause::OrderBy(keys) = clause else {
                return Err(self.unsupported("this clause in an aggregate", syntax));
            };
            for key in keys {
                let bound = self.expression(&key.expr)?;
                let (expression, data_type) = self.settled(bound, &key.expr)?;
                let expression = self.order_key(expression, &data_type, &key.expr)?;
                let (descending, nulls_first) = self.direction(&key.options, &key.expr)?;
                order.push((expression, descending, nulls_first));
            }
        }
        self.scope().in_filter = true;
        let filter = call.filter.as_ref().map(|filter| self.condition(filter));
        self.scope().in_filter = false;
        let filter = filter.transpose()?;
        if function.is_ordered_set() {
            if distinct || !order.is_empty() {
                let construct = "DISTINCT or ORDER BY beside WITHIN GROUP";
                return Err(self.unsupported(construct, syntax));
            }
            return self.ordered_set(function, call, &list.args, filter, syntax);
        }
        if !call.within_group.is_empty() {
            let message = format!(
                "function {} with these arguments does not exist",
                function.name()
            );
            return Err(self.error("42883", message, syntax).help(NO_FUNCTION));
        }
        if function.is_json() {
            let made = self.json_aggregate(function, list, distinct, &mut order, syntax)?;
            let (function, arguments, result) = made;
            let aggregate = Aggregate {
                function,
                arguments,
                distinct,
                filter,
                order,
                input: None,
                summand: None,
                ascending: None,
            };
            return Ok((aggregate, result));
        }
        let mut star = false;
        let mut bounds = Vec::new();
        for argument in &list.args {
            match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expression)) => {
                    bounds.push(self.expression(expression)?);
                }
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard) => star = true,
                _ => return Err(self.unsupported("this argument", syntax)),
            }
        }
        if distinct && matches!(function, AggregateFunction::Regression(_)) {
            return Err(self.unsupported("an aggregate of DISTINCT pairs", syntax));
        }
        let types = bounds.iter().map(|bound| bound.data_type.clone());
        let types: Vec<Option<DataType>> = types.collect();
        let (arguments, result, input) = self.aggregate_types(function, bounds, star, syntax)?;
        if let (true, Some(input)) = (distinct, &input) {
            self.check_equality(input, syntax)?;
        }
        let keys = arguments.iter().zip(&types);
        let keys = keys.map(|(argument, of)| match enumeration::of(of.as_ref()) {
            // `min` and `max` have the place already.
            Some(of) if function == AggregateFunction::ArrayAgg => {
                enumeration::place(argument.clone(), &of)
            }
            _ => argument.clone(),
        });
        let keys: Vec<Expression> = keys.collect();
        // The elements are in their order, which is not that of their texts.
        if distinct && order.is_empty() && keys != arguments {
            order.push((keys[0].clone(), false, false));
        }
        if distinct && !order.is_empty() && order.iter().any(|(e, ..)| !keys.contains(e)) {
            let message =
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
            return Err(self.error("42P10", message, syntax));
        }
        let aggregate = Aggregate {
            function,
            arguments,
            distinct,
            filter,
            order,
            input,
            summand: None,
            ascending: None,
        };
        Ok((aggregate, result))
    }

    fn aggregate_types(
        &mut self,
        function: AggregateFunction,
        mut bounds: Vec<Bound>,
        star: bool,
        syntax: &Expr,
    ) -> Bind<(Vec<Expression>, DataType, Option<DataType>)> {
        use AggregateFunction as F;
        if function == F::Count && star && bounds.is_empty() {
            return Ok((Vec::new(), DataType::Int8, None));
        }
        if function.is_statistical() && !star {
            return self.statistical_types(function, bounds, syntax);
        }
        let wanted = if function == F::StringAgg { 2 } else { 1 };
        if star || bounds.len() != wanted {
            let message = format!(
                "function {} with these arguments does not exist",
                function.name()
            );
            return Err(self.error("42883", message, syntax));
        }
        let separator = (wanted == 2).then(|| bounds.remove(1));
        let (argument, input) = self.settled(bounds.remove(0), syntax)?;
        if let (F::Min | F::Max, Some(of)) = (function, input.as_enum()) {
            let place = enumeration::place(argument, of);
            return Ok((vec![place], input, Some(DataType::Int4)));
        }
        let element = input.element().and_then(DataType::as_enum);
        if matches!(function, F::Min | F::Max) && element.is_some() {
            self.check_order(&input, syntax)?;
        }
        let result = match (function, &input) {
            (F::Count, _) => DataType::Int8,
            (F::Sum, DataType::Int2 | DataType::Int4) => DataType::Int8,
            (F::Sum | F::Average, DataType::Int8 | DataType::Numeric(_)) => DataType::Numeric(None),
            (F::Average, DataType::Int2 | DataType::Int4) => DataType::Numeric(None),
            (F::Sum, DataType::Real) => DataType::Real,
            (F::Sum | F::Average, DataType::Real | DataType::Double) => DataType::Double,
            (
                F::Min | F::Max,
                DataType::Bool
                | DataType::Uuid
                | DataType::Bytea
                | DataType::Json
                | DataType::Jsonb,
            ) => {
                let message = format!("function {}({input}) does not exist", function.name());
                return Err(self.error("42883", message, syntax).help(NO_FUNCTION));
            }
            (F::Min | F::Max, DataType::Varchar(_)) => DataType::Text,
            (F::Min | F::Max, other) => unbounded(other),
            (F::BoolAnd | F::BoolOr, DataType::Bool) => DataType::Bool,
            (F::ArrayAgg, DataType::Array(_)) => {
                return Err(self.unsupported("array_agg of arrays", syntax));
            }
            (F::ArrayAgg, other) => DataType::Array(Box::new(other.clone())),
            (F::StringAgg, other) if other.is_text() => DataType::Text,
            (function, other) => {
                let (name, other) = (function.name(), unbounded(other));
                let message = format!("function {name}({other}) does not exist");
                return Err(self.error("42883", message, syntax).help(NO_FUNCTION));
            }
        };
        let mut arguments = vec![argument];
        if let Some(separator) = separator {
            arguments.push(self.coerce(separator, &DataType::Text, Context::Implicit, syntax)?);
        }
        Ok((arguments, result, Some(input)))
    }

    /// The arguments of an aggregate that makes JSON: each value as JSON, a key as text.
    fn json_aggregate(
        &mut self,
        function: AggregateFunction,
        list: &ast::FunctionArgumentList,
        distinct: bool,
        order: &mut Vec<(Expression, bool, bool)>,
        syntax: &Expr,
    ) -> Bind<(AggregateFunction, Vec<Expression>, DataType)> {
        let mut items = Vec::new();
        for argument in &list.args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)) = argument else {
                return Err(self.unsupported("this argument", syntax));
            };
            items.push(self.json_item(argument)?);
        }
        let of_json = |function, expression| Expression::Call {
            function: Function::Json(function),
            arguments: vec![expression],
        };
        let (arguments, function, binary) = match (function, &mut items[..]) {
            (AggregateFunction::JsonAgg { binary, .. }, [item]) => {
                let is_array = item.data_type.element().is_some();
                let lines = item.is_row || is_array;
                if distinct {
                    self.order_distinct(item, order, syntax)?;
                }
                let function = JsonFunction::Item(item.data_type.clone());
                let value = of_json(function, item.expression.clone());
                let function = AggregateFunction::JsonAgg { binary, lines };
                (vec![value], function, binary)
            }
            (AggregateFunction::JsonObjectAgg { binary }, [key, value]) if !distinct => {
                self.check_key_type(&key.data_type, syntax)?;
                let name = JsonFunction::Key(key.data_type.clone());
                let item = JsonFunction::Item(value.data_type.clone());
                let arguments = vec![
                    of_json(name, key.expression.clone()),
                    of_json(item, value.expression.clone()),
                ];
                (arguments, function, binary)
            }
            (AggregateFunction::JsonObjectAgg { .. }, [_, _]) => {
                let construct = format!("{}(DISTINCT …)", function.name());
                return Err(self.unsupported(&construct, syntax));
            }
            _ => {
                let name = function.name();
                let message = format!("function {name} with these arguments does not exist");
                return Err(self.error("42883", message, syntax).help(NO_FUNCTION));
            }
        };
        let result = match binary {
            true => DataType::Jsonb,
            false => DataType::Json,
        };
        Ok((function, arguments, result))
    }

    /// Orders the elements of a DISTINCT aggregate by their own order. They are compared as JSON, so equal values have
    /// to be equal there.
    fn order_distinct(
        &mut self,
        item: &Item,
        order: &mut Vec<(Expression, bool, bool)>,
        syntax: &Expr,
    ) -> Bind<()> {
        let is_told_apart = item.data_type.is_integer()
            || matches!(
                item.data_type,
                DataType::Bool
                    | DataType::Text
                    | DataType::Varchar(_)
                    | DataType::Uuid
                    | DataType::Timestamp
                    | DataType::TimestampTz
                    | DataType::Date
            );
        if !is_told_apart {
            self.check_equality(&item.data_type, syntax)?;
            let construct = format!(
                "DISTINCT {} in an aggregate that makes JSON",
                item.data_type
            );
            return Err(self.unsupported(&construct, syntax));
        }
        if order.is_empty() {
            order.push((item.expression.clone(), false, false));
        } else if order.iter().any(|(key, ..)| *key != item.expression) {
            let message =
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
            return Err(self.error("42P10", message, syntax));
        }
        Ok(())
    }
}
