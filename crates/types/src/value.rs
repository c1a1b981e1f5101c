//! Values: what a column of a row, a parameter or an expression holds.

use std::sync::Arc;

use compact_str::CompactString;

use crate::{Decimal, SlotId};

/// One value. Its exact type ([`crate::DataType`]) is known statically wherever it is used: the
/// three integer types share [`Value::Int`], the three text types [`Value::Text`] (without
/// `char(n)`'s padding), the two floating ones [`Value::Float`] and the two timestamps
/// [`Value::Timestamp`].
#[derive(Clone, Debug, PartialEq)]
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
}

/// See [`Value::Pending`]: the slot's integer value plus `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}
