//! Values: what a column of a row, a parameter or an expression holds.

use std::cmp::Ordering;
use std::sync::Arc;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::{Decimal, Jsonb, SlotId};

/// One value. Its exact type ([`crate::DataType`]) is known statically wherever it is used: the
/// three integer types share [`Value::Int`], the three text types and `json` [`Value::Text`] (without
/// `char(n)`'s padding), the two floating ones [`Value::Float`] and the two timestamps
/// [`Value::Timestamp`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// SQL's NULL.
    Null,
    /// `boolean`
    Bool(bool),
    /// `smallint`, `integer` or `bigint`
    Int(i64),
    /// `real` (already rounded to 32 bits) or `double precision`
    Float(f64),
    /// `numeric`
    Numeric(Decimal),
    /// `text`, `varchar` or `char`; up to 24 bytes stay inline
    Text(CompactString),
    /// `bytea`
    Bytes(Arc<[u8]>),
    /// `uuid`, big-endian
    Uuid([u8; 16]),
    /// `timestamp` or `timestamptz`: microseconds since 2000-01-01 00:00:00, as PostgreSQL counts
    Timestamp(i64),
    /// `date`: days since 2000-01-01, as PostgreSQL counts
    Date(i32),
    /// A one-dimensional array
    Array(Arc<[Value]>),
    /// A value that a deferred effect of this same transaction produces at commit. It may be
    /// copied, shifted by a constant, stored in a row inserted by the same transaction on the same
    /// partition, and returned to the client; it can be nothing else (`sql` proves that before a
    /// procedure is run with deferral).
    Pending(Pending),
    /// `jsonb`
    Jsonb(Jsonb),
}

/// See [`Value::Pending`]: the slot's integer value plus `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Where the transaction will find the value at commit.
    pub slot: SlotId,
    /// Added to it.
    pub offset: i64,
}

impl Value {
    /// True for SQL's NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// A text value.
    pub fn text(text: impl AsRef<str>) -> Value {
        Value::Text(CompactString::new(text.as_ref()))
    }

    /// Compares two values of one type (two numbers of any kind, too) as SQL's operators do:
    /// `None` when either is NULL. `NaN` equals itself and is above every other number; text is in
    /// the order of the "C" collation; arrays compare element by element, NULLs last.
    ///
    /// # Panics
    /// When the values are of types that SQL does not compare, or pending.
    #[inline]
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        if self.is_null() || other.is_null() {
            None
        } else {
            Some(self.total_cmp(other))
        }
    }

    /// The order that sorting and grouping use: as [`Value::compare`], with NULLs equal to each
    /// other and last.
    ///
    /// # Panics
    /// As [`Value::compare`].
    #[inline]
    pub fn total_cmp(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Int(left), Value::Int(right)) => left.cmp(right),
            (Value::Text(left), Value::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
            (Value::Numeric(left), Value::Numeric(right)) => left.cmp(right),
            (Value::Null, Value::Null) => Ordering::Equal,
            (Value::Null, _) => Ordering::Greater,
            (_, Value::Null) => Ordering::Less,
            (Value::Float(left), Value::Float(right)) => compare_floats(*left, *right),
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (Value::Timestamp(left), Value::Timestamp(right)) => left.cmp(right),
            (Value::Date(left), Value::Date(right)) => left.cmp(right),
            (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
            (Value::Uuid(left), Value::Uuid(right)) => left.cmp(right),
            (Value::Jsonb(left), Value::Jsonb(right)) => left.cmp(right),
            (Value::Array(left), Value::Array(right)) => {
                let mut pairs = left.iter().zip(right.iter());
                let unequal = pairs.find_map(|(left, right)| match left.total_cmp(right) {
                    Ordering::Equal => None,
                    unequal => Some(unequal),
                });
                unequal.unwrap_or(left.len().cmp(&right.len()))
            }
            (Value::Int(left), Value::Numeric(right)) => Decimal::from_i64(*left).cmp(right),
            (Value::Numeric(left), Value::Int(right)) => left.cmp(&Decimal::from_i64(*right)),
            (Value::Int(left), Value::Float(right)) => compare_floats(*left as f64, *right),
            (Value::Float(left), Value::Int(right)) => compare_floats(*left, *right as f64),
            (Value::Numeric(left), Value::Float(right)) => compare_floats(left.to_f64(), *right),
            (Value::Float(left), Value::Numeric(right)) => compare_floats(*left, right.to_f64()),
            _ => panic!("{self:?} and {other:?} cannot be compared"),
        }
    }

    /// About how many bytes the value takes in memory, what it points to included.
    pub fn approximate_bytes(&self) -> usize {
        let beyond = match self {
            Value::Text(text) if text.is_heap_allocated() => text.capacity(),
            Value::Bytes(bytes) => bytes.len() + 16,
            Value::Jsonb(json) => json.heap_bytes(),
            Value::Array(values) => 16 + values.iter().map(Value::approximate_bytes).sum::<usize>(),
            _ => 0,
        };
        size_of::<Value>() + beyond
    }
}

/// A value where it lies: in a [`Value`] or in the bytes of a row. What is small is held itself,
/// a text is pointed to, and anything else is pointed to as a whole.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'v> {
    /// [`Value::Null`]
    Null,
    /// [`Value::Bool`]
    Bool(bool),
    /// [`Value::Int`]
    Int(i64),
    /// [`Value::Numeric`]
    Numeric(Decimal),
    /// [`Value::Text`]
    Text(&'v str),
    /// [`Value::Timestamp`]
    Timestamp(i64),
    /// A value of none of the kinds above.
    Other(&'v Value),
}

impl Value {
    /// The value, borrowed.
    #[inline]
    pub fn borrowed(&self) -> ValueRef<'_> {
        match self {
            Value::Null => ValueRef::Null,
            Value::Bool(bool) => ValueRef::Bool(*bool),
            Value::Int(int) => ValueRef::Int(*int),
            Value::Numeric(decimal) => ValueRef::Numeric(*decimal),
            Value::Text(text) => ValueRef::Text(text),
            Value::Timestamp(micros) => ValueRef::Timestamp(*micros),
            other => ValueRef::Other(other),
        }
    }
}

impl ValueRef<'_> {
    /// True for SQL's NULL.
    #[inline]
    pub fn is_null(self) -> bool {
        matches!(self, ValueRef::Null)
    }

    /// The value, owned.
    #[inline]
    pub fn to_value(self) -> Value {
        match self {
            ValueRef::Null => Value::Null,
            ValueRef::Bool(bool) => Value::Bool(bool),
            ValueRef::Int(int) => Value::Int(int),
            ValueRef::Numeric(decimal) => Value::Numeric(decimal),
            ValueRef::Text(text) => Value::Text(CompactString::new(text)),
            ValueRef::Timestamp(micros) => Value::Timestamp(micros),
            ValueRef::Other(value) => value.clone(),
        }
    }

    /// As [`Value::compare`].
    ///
    /// # Panics
    /// As [`Value::compare`].
    #[inline]
    pub fn compare(self, other: ValueRef<'_>) -> Option<Ordering> {
        match (self, other) {
            (ValueRef::Int(left), ValueRef::Int(right)) => Some(left.cmp(&right)),
            (ValueRef::Text(left), ValueRef::Text(right)) => {
                Some(left.as_bytes().cmp(right.as_bytes()))
            }
            (ValueRef::Numeric(left), ValueRef::Numeric(right)) => Some(left.cmp(&right)),
            (ValueRef::Null, _) | (_, ValueRef::Null) => None,
            (left, right) => left.to_value().compare(&right.to_value()),
        }
    }
}

/// PostgreSQL's order of floats: `-0` equals `0`, `NaN` equals `NaN` and is above everything.
fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right)
        .unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}
