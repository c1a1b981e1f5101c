//! The order of an enumeration's values: that of its labels.
//!
//! Values are texts, which have an order of their own. So whatever compares values by their order gets the place of the
//! label instead, as an integer, and no order of an index can be taken for that of the values. Equality needs none of
//! this.

use std::sync::Arc;

use anabranch_types::{DataType, EnumType, Value};
use sqlparser::ast::Spanned;

use super::{Bind, Binder, Bound};
use crate::expression::{Expression, Function, array::ArrayFunction};

/// The enumeration of a type, if it is one.
pub(super) fn of(data_type: Option<&DataType>) -> Option<Arc<EnumType>> {
    data_type.and_then(DataType::as_enum).cloned()
}

/// The place of a label among those of its type; NULL for NULL.
pub(super) fn place(label: Expression, of: &EnumType) -> Expression {
    let pairs = of.labels.iter().enumerate();
    let pairs = pairs.map(|(place, label)| (Value::text(label), Value::Int(place as i64)));
    mapped(label, pairs)
}

/// The label at a place: the inverse of [`place`].
pub(super) fn label(place: Expression, of: &EnumType) -> Expression {
    let pairs = of.labels.iter().enumerate();
    let pairs = pairs.map(|(place, label)| (Value::Int(place as i64), Value::text(label)));
    mapped(place, pairs)
}

fn mapped(operand: Expression, pairs: impl Iterator<Item = (Value, Value)>) -> Expression {
    let constants = pairs
        .map(|(from, to)| (Expression::Constant(from), Expression::Constant(to)))
        .collect();
    let mapped = Expression::Switch {
        operand: Box::new(operand),
        branches: constants,
        otherwise: Box::new(Expression::NULL),
    };
    mapped.folded()
}

impl Binder<'_> {
    /// A key of ORDER BY: what the values are ordered by.
    pub(super) fn order_key(
        &self,
        key: Expression,
        data_type: &DataType,
        syntax: &impl Spanned,
    ) -> Bind<Expression> {
        self.check_order(data_type, syntax)?;
        Ok(match data_type.as_enum() {
            Some(of) => place(key, of),
            None => key,
        })
    }

    /// `enum_first`, `enum_last` and `enum_range`: of the type of their arguments, whose values count for the range of
    /// two alone.
    pub(super) fn enum_function(
        &mut self,
        name: &str,
        bounds: &[Bound],
        syntax: &impl Spanned,
    ) -> Bind<Option<Bound>> {
        let types = bounds
            .iter()
            .filter_map(|bound| of(bound.data_type.as_ref()));
        let types: Vec<Arc<EnumType>> = types.collect();
        let Some(of) = types.first() else {
            return Ok(None);
        };
        let labels = || of.labels.iter().map(Value::text);
        let scalar = DataType::Enum(Arc::clone(of));
        let array = DataType::Array(Box::new(scalar.clone()));
        let constant = |value: Option<Value>| Expression::Constant(value.unwrap_or(Value::Null));
        Ok(Some(match (name, bounds) {
            ("enum_first", [_]) => Bound::new(constant(labels().next()), scalar),
            ("enum_last", [_]) => Bound::new(constant(labels().next_back()), scalar),
            ("enum_range", [_]) => {
                Bound::new(constant(Some(Value::Array(labels().collect()))), array)
            }
            ("enum_range", [from, to]) => {
                let mut ends = Vec::new();
                let count = Value::Int(of.labels.len() as i64);
                for (end, open) in [(from, Value::Int(1)), (to, count)] {
                    let end = self.coerce(
                        end.clone(),
                        &scalar,
                        super::convert::Context::Implicit,
                        syntax,
                    )?;
                    let pairs = of.labels.iter().enumerate();
                    let pairs =
                        pairs.map(|(at, label)| (Value::text(label), Value::Int(at as i64 + 1)));
                    let end = mapped(end, pairs);
                    let end = Expression::Coalesce(vec![end, Expression::Constant(open)]);
                    ends.push(end.folded());
                }
                let mut arguments = vec![constant(Some(Value::Array(labels().collect())))];
                arguments.extend(ends);
                Self::call(Function::Array(ArrayFunction::Slice), arguments, array)
            }
            _ => return Ok(None),
        }))
    }
}
