//! Functions over the elements of arrays.

use anabranch_types::Value;

use super::{Failure, budget::within_value, failure};

/// The most comparisons that are made without sorting first.
const COMPARISONS_MAX: usize = 1_000;

/// Elements to look for. NULL equals nothing.
struct Elements<'v> {
    list: Vec<&'v Value>,
    is_sorted: bool,
}

impl<'v> Elements<'v> {
    /// These, of which so many are looked for.
    fn new(list: &'v [Value], searches: usize) -> Elements<'v> {
        let mut list: Vec<&Value> = list.iter().filter(|v| !v.is_null()).collect();
        let is_sorted = list.len().saturating_mul(searches) > COMPARISONS_MAX;
        if is_sorted {
            list.sort_unstable_by(|a, b| a.total_cmp(b));
        }
        Elements { list, is_sorted }
    }

    fn has(&self, value: &Value) -> bool {
        match self.is_sorted {
            true => self.list.binary_search_by(|a| a.total_cmp(value)).is_ok(),
            false => self.list.iter().any(|a| a.total_cmp(value).is_eq()),
        }
    }
}

/// Whether each element of `part` is in `whole`.
pub(super) fn contains(whole: &[Value], part: &[Value]) -> bool {
    let whole = Elements::new(whole, part.len());
    part.iter().all(|value| whole.has(value))
}

/// Whether an element of one is in the other.
pub(super) fn overlaps(left: &[Value], right: &[Value]) -> bool {
    let left = Elements::new(left, right.len());
    right.iter().any(|value| left.has(value))
}

/// `string_to_array`: the text, the separator, and the text that stands for NULL.
pub(super) fn of_string(arguments: &[Value]) -> Result<Value, Failure> {
    let Value::Text(text) = &arguments[0] else {
        return Ok(Value::Null);
    };
    let parts: Vec<&str> = match &arguments[1] {
        _ if text.is_empty() => Vec::new(),
        Value::Text(separator) if separator.is_empty() => vec![text],
        Value::Text(separator) => text.split(separator.as_str()).collect(),
        _ => {
            let ends = text
                .char_indices()
                .map(|(at, c)| &text[at..at + c.len_utf8()]);
            ends.collect()
        }
    };
    within_value(parts.len() * size_of::<Value>())?;
    let null = match arguments.get(2) {
        Some(Value::Text(null)) => Some(null.as_str()),
        _ => None,
    };
    let value = |part: &str| match null {
        Some(null) if null == part => Value::Null,
        _ => Value::text(part),
    };
    Ok(Value::Array(parts.into_iter().map(value).collect()))
}

/// A function over an array whose subscripts begin at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrayFunction {
    /// The places of the elements that are not distinct from a value.
    Positions,
    /// With another value in place of the elements that are not distinct from one.
    Replace,
    /// A value so many times.
    Fill,
    /// Without so many elements at the end.
    Trim,
    /// `1`, if there is an element.
    Dimensions,
    /// `[1:n]`, if there is an element.
    Bounds,
    /// The elements from one place to another.
    Slice,
}

/// The value of a function; NULL elements are values to it.
pub(super) fn call(function: ArrayFunction, arguments: &[Value]) -> Result<Value, Failure> {
    if let (ArrayFunction::Fill, [value, lengths, lower @ ..]) = (function, arguments) {
        return filled(value, lengths, lower);
    }
    let Some((Value::Array(list), rest)) = arguments.split_first() else {
        return Ok(Value::Null);
    };
    Ok(match (function, rest) {
        (ArrayFunction::Positions, [element]) => {
            let places = (1..).zip(list.iter());
            let found = places.filter(|(_, value)| value.total_cmp(element).is_eq());
            Value::Array(found.map(|(place, _)| Value::Int(place)).collect())
        }
        (ArrayFunction::Replace, [from, to]) => {
            let replaced = list
                .iter()
                .map(|value| match value.total_cmp(from).is_eq() {
                    true => to.clone(),
                    false => value.clone(),
                });
            Value::Array(replaced.collect())
        }
        (ArrayFunction::Trim, [Value::Int(count)]) => {
            let kept = usize::try_from(*count).ok();
            let kept = kept.and_then(|count| list.len().checked_sub(count));
            let Some(kept) = kept else {
                let most = list.len();
                let message = format!("number of elements to trim must be between 0 and {most}");
                return Err(failure("2202E", message));
            };
            Value::Array(list[..kept].into())
        }
        (ArrayFunction::Dimensions, []) if !list.is_empty() => Value::Int(1),
        (ArrayFunction::Bounds, []) if !list.is_empty() => {
            Value::text(format!("[1:{}]", list.len()))
        }
        (ArrayFunction::Slice, [Value::Int(from), Value::Int(to)]) => {
            let first = usize::try_from(*from - 1).unwrap_or(0);
            let last = usize::try_from(*to).unwrap_or(0).min(list.len());
            Value::Array(list.get(first..last).unwrap_or_default().into())
        }
        _ => Value::Null,
    })
}

fn filled(value: &Value, lengths: &Value, lower: &[Value]) -> Result<Value, Failure> {
    let is_null = |of: &Value| matches!(of, Value::Null);
    if is_null(lengths) || lower.iter().any(is_null) {
        let message = "dimension array or low bound array cannot be null";
        return Err(failure("22004", message));
    }
    let Value::Array(lengths) = lengths else {
        return Ok(Value::Null);
    };
    if lengths.iter().any(is_null) {
        return Err(failure("22004", "dimension values cannot be null"));
    }
    if let [Value::Array(bounds)] = lower {
        if bounds.len() != lengths.len() {
            return Err(failure("2202E", "wrong number of array subscripts"));
        }
        if bounds.iter().any(|bound| *bound != Value::Int(1)) {
            let message = "an array whose subscripts do not begin at 1 is not supported";
            return Err(failure("0A000", message));
        }
    }
    match &lengths[..] {
        [] => Ok(Value::Array(Vec::new().into())),
        [Value::Int(length)] => {
            let Ok(length) = usize::try_from(*length) else {
                let message = format!("invalid array length: {length}");
                return Err(failure("22023", message));
            };
            within_value(super::budget::bytes(value).saturating_mul(length))?;
            Ok(Value::Array(vec![value.clone(); length].into()))
        }
        _ => {
            let message = "an array of more than one dimension is not supported";
            Err(failure("0A000", message))
        }
    }
}
