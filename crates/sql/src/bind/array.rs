//! Binds functions and operators over arrays.

use anabranch_types::{DataType, Value};
use sqlparser::ast::{BinaryOperator, Expr};

use super::{
    Bind, Binder, Bound,
    convert::{Context, unbounded},
};
use crate::expression::{Expression, Function, array::ArrayFunction};

impl Binder<'_> {
    /// `ARRAY[…]::element[]`: the cast is that of each element, so that parameters among them have its type.
    pub(super) fn array_as(
        &mut self,
        elements: &[Expr],
        element: &DataType,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let mut cast = Vec::new();
        for value in elements {
            let bound = self.expression(value)?;
            if let Some(DataType::Array(_)) = bound.data_type {
                return Err(self.unsupported("an array of more than one dimension", syntax));
            }
            cast.push(self.coerce(bound, element, Context::Explicit, value)?);
        }
        let data_type = DataType::Array(Box::new(element.clone()));
        Ok(Bound::new(Expression::Array(cast).folded(), data_type))
    }

    /// Functions over arrays.
    pub(super) fn array_function(
        &mut self,
        name: &str,
        bounds: &[Bound],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        let is_array = |bound: &Bound| {
            let element = bound.data_type.as_ref().and_then(DataType::element);
            element.is_some()
        };
        let bound = match (name, bounds) {
            ("cardinality", [array @ Bound { expression, .. }]) if is_array(array) => Self::call(
                Function::Cardinality,
                vec![expression.clone()],
                DataType::Int4,
            ),
            ("array_upper" | "array_lower", [array, dimension])
                if array
                    .data_type
                    .as_ref()
                    .and_then(DataType::element)
                    .is_some() =>
            {
                let lower = super::from::lower_bound(array.data_type.as_ref());
                let dimension = self.coerce(
                    dimension.clone(),
                    &DataType::Int4,
                    Context::Implicit,
                    syntax,
                )?;
                let arguments = vec![array.expression.clone(), dimension];
                let function = match name {
                    "array_upper" => Function::ArrayUpper { lower },
                    _ => Function::ArrayLower { lower },
                };
                Self::call(function, arguments, DataType::Int4)
            }
            ("array_to_string", [array, separator, rest @ ..])
                if rest.len() < 2
                    && array
                        .data_type
                        .as_ref()
                        .and_then(DataType::element)
                        .is_some() =>
            {
                let element = array
                    .data_type
                    .as_ref()
                    .and_then(DataType::element)
                    .cloned();
                let mut arguments = vec![array.expression.clone()];
                for text in std::iter::once(separator).chain(rest) {
                    arguments.push(self.coerce(
                        text.clone(),
                        &DataType::Text,
                        Context::Implicit,
                        syntax,
                    )?);
                }
                let element = element.expect("it has just been there");
                Self::call(Function::ArrayToString(element), arguments, DataType::Text)
            }
            ("array_remove", [array, element]) => {
                let Some(DataType::Array(inner)) = &array.data_type else {
                    return Ok(None);
                };
                let element = self.coerce(element.clone(), inner, Context::Implicit, syntax)?;
                let arguments = vec![array.expression.clone(), element];
                let data_type = DataType::Array(inner.clone());
                Self::call(Function::ArrayRemove, arguments, data_type)
            }
            ("array_length", [array @ Bound { expression, .. }, dimension]) if is_array(array) => {
                let dimension = self.coerce(
                    dimension.clone(),
                    &DataType::Int4,
                    Context::Implicit,
                    syntax,
                )?;
                let arguments = vec![expression.clone(), dimension];
                Self::call(Function::ArrayLength, arguments, DataType::Int4)
            }
            ("array_append", [array, element]) => {
                let Some(DataType::Array(inner)) = &array.data_type else {
                    return Ok(None);
                };
                let element = self.coerce(element.clone(), inner, Context::Implicit, syntax)?;
                let arguments = vec![array.expression.clone(), element];
                Self::call(
                    Function::ArrayAppend,
                    arguments,
                    DataType::Array(inner.clone()),
                )
            }
            ("array_position", [array, element]) => {
                let Some(inner) = array.data_type.as_ref().and_then(DataType::element) else {
                    return Ok(None);
                };
                let element = self.coerce(element.clone(), inner, Context::Implicit, syntax)?;
                let lower = super::from::lower_bound(array.data_type.as_ref());
                let arguments = vec![array.expression.clone(), element];
                Self::call(Function::ArrayPosition { lower }, arguments, DataType::Int4)
            }
            (
                "array_positions" | "array_replace" | "trim_array" | "array_ndims" | "array_dims",
                [array, rest @ ..],
            ) => return self.element_function(name, array, rest, syntax),
            ("array_fill", [value, lengths @ ..]) if matches!(lengths.len(), 1 | 2) => {
                let Some(inner) = value.data_type.clone() else {
                    let message =
                        "could not determine polymorphic type because input has type unknown";
                    return Err(self.error("42804", message, syntax));
                };
                if is_array(value) {
                    return Err(self.unsupported("array_fill of arrays", syntax));
                }
                let mut arguments = vec![value.expression.clone()];
                let ints = DataType::Array(Box::new(DataType::Int4));
                for bound in lengths {
                    arguments.push(self.coerce(bound.clone(), &ints, Context::Implicit, syntax)?);
                }
                let data_type = DataType::Array(Box::new(unbounded(&inner)));
                Self::call(Function::Array(ArrayFunction::Fill), arguments, data_type)
            }
            ("array_cat", [left, right]) if is_array(left) || is_array(right) => {
                let other = |of: &Bound| of.data_type.is_none() || is_array(of);
                if !other(left) || !other(right) {
                    return Ok(None);
                }
                self.concatenation(left.clone(), right.clone(), syntax)?
            }
            ("array_prepend", [element, array]) => {
                let Some(DataType::Array(inner)) = &array.data_type else {
                    return Ok(None);
                };
                self.prepended(element.clone(), array.clone(), inner, syntax)?
            }
            ("string_to_array", [text, rest @ ..]) if matches!(rest.len(), 1 | 2) => {
                let mut arguments = Vec::new();
                for bound in std::iter::once(text).chain(rest) {
                    if bound.data_type.as_ref().is_some_and(|t| !t.is_text()) {
                        return Ok(None);
                    }
                    arguments.push(self.as_text(bound.clone(), syntax)?);
                }
                let data_type = DataType::Array(Box::new(DataType::Text));
                Self::call(Function::StringToArray, arguments, data_type)
            }
            _ => return Ok(None),
        };
        Ok(Some(bound))
    }

    /// Functions over an array and values of its elements' type. Their subscripts begin at 1.
    fn element_function(
        &mut self,
        name: &str,
        array: &Bound,
        rest: &[Bound],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        let Some(DataType::Array(inner)) = &array.data_type else {
            return Ok(None);
        };
        let (function, count, to, data_type) = match name {
            "array_positions" => (
                ArrayFunction::Positions,
                1,
                &**inner,
                DataType::Array(Box::new(DataType::Int4)),
            ),
            "array_replace" => (
                ArrayFunction::Replace,
                2,
                &**inner,
                DataType::Array(inner.clone()),
            ),
            "trim_array" => (
                ArrayFunction::Trim,
                1,
                &DataType::Int4,
                DataType::Array(inner.clone()),
            ),
            "array_ndims" => (ArrayFunction::Dimensions, 0, &**inner, DataType::Int4),
            _ => (ArrayFunction::Bounds, 0, &**inner, DataType::Text),
        };
        if rest.len() != count {
            return Ok(None);
        }
        let mut arguments = vec![array.expression.clone()];
        for bound in rest {
            arguments.push(self.coerce(bound.clone(), to, Context::Implicit, syntax)?);
        }
        Ok(Some(Self::call(
            Function::Array(function),
            arguments,
            data_type,
        )))
    }

    /// `array[from:to]`.
    pub(super) fn slice(
        &mut self,
        array: Bound,
        from: Option<&Expr>,
        to: Option<&Expr>,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let Some(data_type @ DataType::Array(_)) = array.data_type else {
            return Err(self.unsupported("a slice of this type", syntax));
        };
        let mut arguments = vec![array.expression];
        for (bound, default) in [(from, 1), (to, i64::from(i32::MAX))] {
            arguments.push(match bound {
                Some(bound) => self.expression_as(bound, &DataType::Int4, Context::Assignment)?,
                None => Expression::Constant(Value::Int(default)),
            });
        }
        Ok(Self::call(
            Function::Array(ArrayFunction::Slice),
            arguments,
            data_type,
        ))
    }

    /// An array with an element before its own.
    pub(super) fn prepended(
        &mut self,
        element: Bound,
        array: Bound,
        inner: &DataType,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let element = self.coerce(element, inner, Context::Implicit, syntax)?;
        let first = Expression::Array(vec![element]).folded();
        let data_type = DataType::Array(Box::new(inner.clone()));
        let arguments = vec![first, array.expression];
        Ok(Self::call(Function::ArrayConcat, arguments, data_type))
    }

    /// `@>`, `<@` and `&&` of arrays.
    pub(super) fn array_operator(
        &mut self,
        left: Bound,
        operator: &BinaryOperator,
        right: Bound,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let element = |of: &Bound| match &of.data_type {
            Some(DataType::Array(inner)) => Some(unbounded(inner)),
            _ => None,
        };
        let common = match (element(&left), element(&right)) {
            (Some(a), Some(b)) if a == b => a,
            (Some(a), None) if right.data_type.is_none() => a,
            (None, Some(b)) if left.data_type.is_none() => b,
            _ => {
                let symbol = operator.to_string();
                return Err(self.no_operator(&left, &symbol, &right, syntax));
            }
        };
        let data_type = DataType::Array(Box::new(common));
        let left = self.coerce(left, &data_type, Context::Implicit, syntax)?;
        let right = self.coerce(right, &data_type, Context::Implicit, syntax)?;
        let (function, arguments) = match operator {
            BinaryOperator::AtArrow => (Function::ArrayContains, vec![left, right]),
            BinaryOperator::ArrowAt => (Function::ArrayContains, vec![right, left]),
            _ => (Function::ArrayOverlaps, vec![left, right]),
        };
        Ok(Self::call(function, arguments, DataType::Bool))
    }
}
