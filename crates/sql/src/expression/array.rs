//! Functions over the elements of arrays.

use anabranch_types::Value;

use super::{Failure, budget::within_value};

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
