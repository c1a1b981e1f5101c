//! Evaluates compiled expressions.

use std::cmp::Ordering;

use anabranch_types::random::{INCREMENT, mix};
use anabranch_types::{DataType, Decimal, Value, ValueRef};

use super::{
    EvaluationContext, Expression, Failure, Frame, Relation, arithmetic, bounds,
    budget::within_value, cast, failure, function, pattern, sequence,
};

impl Expression {
    /// The value as an operand: a reference, if it needs no computing. A computed value that is not small is put into
    /// `held`.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    #[inline]
    pub(crate) fn operand<'v>(
        &'v self,
        frame: &Frame<'v>,
        held: &'v mut Value,
    ) -> Result<ValueRef<'v>, Failure> {
        match self {
            Expression::Constant(value) => Ok(value.borrowed()),
            Expression::Variable(slot) => Ok(frame.variables[*slot].borrowed()),
            Expression::Column {
                depth: 0,
                source,
                column,
            } => Ok(frame.operand(*source, *column, held)),
            _ => self.computed(frame, held),
        }
    }

    fn computed<'v>(
        &'v self,
        frame: &Frame<'v>,
        held: &'v mut Value,
    ) -> Result<ValueRef<'v>, Failure> {
        match self {
            Expression::Arithmetic {
                operator,
                domain,
                left,
                right,
            } => {
                let (mut a, mut b) = (Value::Null, Value::Null);
                let left = left.operand(frame, &mut a)?;
                let right = right.operand(frame, &mut b)?;
                match (left, right) {
                    (ValueRef::Int(left), ValueRef::Int(right)) => {
                        arithmetic::integers(*operator, *domain, left, right).map(ValueRef::Int)
                    }
                    (ValueRef::Numeric(left), ValueRef::Numeric(right)) => {
                        arithmetic::decimals(*operator, *domain, left, right).map(ValueRef::Numeric)
                    }
                    (ValueRef::Null, _) | (_, ValueRef::Null) => Ok(ValueRef::Null),
                    (left, right) => {
                        let (left, right) = (left.to_value(), right.to_value());
                        *held = arithmetic::compute(*operator, *domain, &left, &right)?;
                        Ok(held.borrowed())
                    }
                }
            }
            Expression::Case {
                branches,
                otherwise,
            } => {
                for (condition, result) in branches {
                    if condition.test(frame)? == Some(true) {
                        return result.operand(frame, held);
                    }
                }
                otherwise.operand(frame, held)
            }
            Expression::Switch {
                operand,
                branches,
                otherwise,
            } => chosen(operand, branches, otherwise, frame)?.operand(frame, held),
            Expression::Cast {
                operand,
                from,
                to,
                explicit,
            } => {
                let mut own = Value::Null;
                match (operand.operand(frame, &mut own)?, to) {
                    (ValueRef::Null, _) => Ok(ValueRef::Null),
                    (ValueRef::Int(int), DataType::Int2 | DataType::Int4 | DataType::Int8) => {
                        bounds::bound_int(int, to).map(ValueRef::Int)
                    }
                    (ValueRef::Int(int), DataType::Numeric(_)) => {
                        bounds::bound_decimal(Decimal::from_i64(int), to).map(ValueRef::Numeric)
                    }
                    (ValueRef::Numeric(decimal), DataType::Numeric(_)) => {
                        bounds::bound_decimal(decimal, to).map(ValueRef::Numeric)
                    }
                    (value, to) => {
                        *held =
                            cast::cast(value.to_value(), from, to, *explicit, &frame.context.zone)?;
                        Ok(held.borrowed())
                    }
                }
            }
            Expression::Compare { .. }
            | Expression::And(_)
            | Expression::Or(_)
            | Expression::Not(_)
            | Expression::IsNull { .. }
            | Expression::IsBool { .. }
            | Expression::Quantified { .. }
            | Expression::InList { .. } => {
                Ok(self.test(frame)?.map_or(ValueRef::Null, ValueRef::Bool))
            }
            _ => {
                *held = self.evaluate(frame)?;
                Ok(held.borrowed())
            }
        }
    }

    /// The expression's value over a tuple.
    ///
    /// # Errors
    /// The errors that PostgreSQL raises: a division by zero, an overflow.
    pub(crate) fn evaluate(&self, frame: &Frame<'_>) -> Result<Value, Failure> {
        match self {
            Expression::Constant(value) => Ok(value.clone()),
            Expression::Variable(slot) => Ok(frame.variables[*slot].clone()),
            Expression::Column {
                depth,
                source,
                column,
            } => Ok(frame.column(*depth, *source, *column)),
            Expression::Arithmetic { .. } => {
                let mut held = Value::Null;
                Ok(self.computed(frame, &mut held)?.to_value())
            }
            Expression::Negate { domain, operand } => {
                arithmetic::negate(*domain, operand.evaluate(frame)?)
            }
            Expression::Concat(left, right) => {
                let left = left.evaluate(frame)?;
                frame.context.budget.make(&left)?;
                concat(left, right.evaluate(frame)?)
            }
            Expression::Case {
                branches,
                otherwise,
            } => {
                for (condition, result) in branches {
                    if condition.test(frame)? == Some(true) {
                        return result.evaluate(frame);
                    }
                }
                otherwise.evaluate(frame)
            }
            Expression::Switch {
                operand,
                branches,
                otherwise,
            } => chosen(operand, branches, otherwise, frame)?.evaluate(frame),
            Expression::Coalesce(list) => {
                for expression in list {
                    let value = expression.evaluate(frame)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Value::Null)
            }
            Expression::NullIf(left, right) => {
                let left = left.evaluate(frame)?;
                let equal = left.compare(&right.evaluate(frame)?) == Some(Ordering::Equal);
                Ok(if equal { Value::Null } else { left })
            }
            Expression::Cast {
                operand,
                from,
                to,
                explicit,
            } => {
                let zone = &frame.context.zone;
                cast::cast(operand.evaluate(frame)?, from, to, *explicit, zone)
            }
            Expression::Call {
                function,
                arguments,
            } => {
                let mut values: smallvec::SmallVec<[Value; 3]> = smallvec::SmallVec::new();
                let budget = &frame.context.budget;
                for argument in arguments {
                    let value = argument.evaluate(frame)?;
                    budget.make(&value)?;
                    values.push(value);
                }
                let value = function::call(function, &values, &frame.context.zone)?;
                budget.make(&value)?;
                Ok(value)
            }
            Expression::Array(list) => {
                let mut values = Vec::with_capacity(list.len());
                for element in list {
                    let value = element.evaluate(frame)?;
                    frame.context.budget.make(&value)?;
                    values.push(value);
                }
                Ok(Value::Array(values.into()))
            }
            Expression::Subscript(array, index) => {
                Ok(match (array.evaluate(frame)?, index.evaluate(frame)?) {
                    (Value::Array(list), Value::Int(index)) => index
                        .checked_sub(1)
                        .and_then(|i| usize::try_from(i).ok())
                        .and_then(|i| list.get(i).cloned())
                        .unwrap_or(Value::Null),
                    _ => Value::Null,
                })
            }
            Expression::Now => Ok(Value::Timestamp(frame.context.timestamp)),
            Expression::Unique => frame.context.unique().map(uuid),
            Expression::Next(of) => sequence::next(of, frame.context).map(Value::Int),
            Expression::OfSequence {
                function,
                target,
                arguments,
            } => sequence::call(function, target, arguments, frame),
            _ => Ok(self.test(frame)?.map_or(Value::Null, Value::Bool)),
        }
    }

    /// The expression's truth: `None` for NULL. For boolean expressions.
    pub(crate) fn test(&self, frame: &Frame<'_>) -> Result<Option<bool>, Failure> {
        match self {
            Expression::Compare {
                relation,
                left,
                right,
            } => {
                let (mut a, mut b) = (Value::Null, Value::Null);
                let left = left.operand(frame, &mut a)?;
                let right = right.operand(frame, &mut b)?;
                Ok(left.compare(right).map(|ordering| relation.holds(ordering)))
            }
            Expression::And(list) => conjunction(list, frame, true),
            Expression::Or(list) => conjunction(list, frame, false),
            Expression::Not(operand) => Ok(operand.test(frame)?.map(|truth| !truth)),
            Expression::IsNull { operand, negated } => {
                let mut held = Value::Null;
                let operand = operand.operand(frame, &mut held)?;
                Ok(Some(operand.is_null() != *negated))
            }
            Expression::IsBool {
                operand,
                expected,
                negated,
            } => Ok(Some((operand.test(frame)? == Some(*expected)) != *negated)),
            Expression::Distinct {
                left,
                right,
                negated,
            } => {
                let left = left.evaluate(frame)?;
                let equal = left.total_cmp(&right.evaluate(frame)?).is_eq();
                Ok(Some(equal == *negated))
            }
            Expression::InList {
                operand,
                list,
                negated,
            } => {
                let mut held = Value::Null;
                let operand = operand.operand(frame, &mut held)?;
                let mut unknown = operand.is_null();
                for element in list {
                    let mut held = Value::Null;
                    match operand.compare(element.operand(frame, &mut held)?) {
                        Some(Ordering::Equal) => return Ok(Some(!negated)),
                        Some(_) => {}
                        None => unknown = true,
                    }
                }
                Ok(if unknown { None } else { Some(*negated) })
            }
            Expression::Quantified {
                relation,
                left,
                array,
                all,
            } => {
                let (mut a, mut b) = (Value::Null, Value::Null);
                let left = left.operand(frame, &mut a)?;
                let array = array.operand(frame, &mut b)?;
                Ok(match array {
                    ValueRef::Other(Value::Array(list)) => {
                        frame.context.budget.spend_elements(list.len());
                        quantified(*relation, left, list, *all)
                    }
                    _ => None,
                })
            }
            Expression::Like {
                operand,
                pattern,
                escape,
                insensitive,
                negated,
            } => {
                let (operand, pattern) = (operand.evaluate(frame)?, pattern.evaluate(frame)?);
                match (&operand, &pattern) {
                    (Value::Text(text), Value::Text(pattern)) => {
                        let found = pattern::like(text, pattern, *escape, *insensitive)?;
                        Ok(Some(found != *negated))
                    }
                    _ => Ok(None),
                }
            }
            other => {
                let mut held = Value::Null;
                match other.operand(frame, &mut held)? {
                    ValueRef::Bool(truth) => Ok(Some(truth)),
                    ValueRef::Null => Ok(None),
                    value => Err(failure("XX000", format!("{value:?} is not a boolean"))),
                }
            }
        }
    }
}

/// The chosen result of a CASE over an operand.
#[inline]
pub(crate) fn chosen<'e>(
    operand: &Expression,
    branches: &'e [(Expression, Expression)],
    otherwise: &'e Expression,
    frame: &Frame<'_>,
) -> Result<&'e Expression, Failure> {
    let mut held = Value::Null;
    let operand = operand.operand(frame, &mut held)?;
    for (value, result) in branches {
        let mut held = Value::Null;
        if operand.compare(value.operand(frame, &mut held)?) == Some(Ordering::Equal) {
            return Ok(result);
        }
    }
    Ok(otherwise)
}

/// AND (`neutral` true) or OR (`neutral` false) of a list.
fn conjunction(
    list: &[Expression],
    frame: &Frame<'_>,
    neutral: bool,
) -> Result<Option<bool>, Failure> {
    let mut unknown = false;
    for expression in list {
        match expression.test(frame)? {
            Some(truth) if truth != neutral => return Ok(Some(truth)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { None } else { Some(neutral) })
}

/// `left relation ANY (array)`, or ALL.
fn quantified(relation: Relation, left: ValueRef<'_>, list: &[Value], all: bool) -> Option<bool> {
    let mut unknown = false;
    for element in list {
        match left
            .compare(element.borrowed())
            .map(|ordering| relation.holds(ordering))
        {
            Some(truth) if truth != all => return Some(truth),
            Some(_) => {}
            None => unknown = true,
        }
    }
    if unknown { None } else { Some(all) }
}

/// `||` of two texts.
fn concat(left: Value, right: Value) -> Result<Value, Failure> {
    match (left, right) {
        (Value::Text(mut a), Value::Text(b)) => {
            within_value(a.len() + b.len())?;
            a.push_str(&b);
            Ok(Value::Text(a))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            within_value(a.len() + b.len())?;
            Ok(Value::Bytes([&a[..], &b[..]].concat().into()))
        }
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (a, b) => Err(failure("XX000", format!("{a:?} || {b:?} is not defined"))),
    }
}

/// A number that no other call gets, as a version-4-shaped uuid.
fn uuid(number: u128) -> Value {
    // Mix so that uuids of neighbouring rows do not look alike; the mixing is a bijection of each
    // half, and 6 bits are given up to the version and variant that the format prescribes.
    let high = (number >> 64) as u64;
    let low = number as u64;
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&mix(high.rotate_left(32) ^ mix(low)).to_be_bytes());
    bytes[8..].copy_from_slice(&mix(low ^ high.wrapping_mul(INCREMENT)).to_be_bytes());
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Value::Uuid(bytes)
}

/// The value of an expression of constants.
pub(crate) fn evaluate_constant(expression: &Expression) -> Result<Value, Failure> {
    evaluate_over(expression, &[], &EvaluationContext::default())
}

/// The value of an expression of variables and constants.
pub(crate) fn evaluate_over(
    expression: &Expression,
    variables: &[Value],
    context: &EvaluationContext,
) -> Result<Value, Failure> {
    match expression {
        Expression::Constant(value) => Ok(value.clone()),
        Expression::Variable(slot) => Ok(variables[*slot].clone()),
        _ => {
            // It has no column, so it needs no source.
            expression.evaluate(&Frame::of_rows(variables, &[], context))
        }
    }
}
