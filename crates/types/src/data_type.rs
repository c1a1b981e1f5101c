//! PostgreSQL's data types, as far as the dialect has them.

use std::fmt;

/// The declared type of a column, a parameter or an expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DataType {
    /// `boolean`
    Bool,
    /// `smallint`, 16 bits
    Int2,
    /// `integer`, 32 bits
    Int4,
    /// `bigint`, 64 bits
    Int8,
    /// `numeric` without bounds, or `numeric(precision, scale)`
    Numeric(Option<NumericBounds>),
    /// `real`, 32 bits
    Real,
    /// `double precision`, 64 bits
    Double,
    /// `text`
    Text,
    /// `varchar` without a limit, or `varchar(n)`: at most `n` characters
    Varchar(Option<u32>),
    /// `char(n)`: blank-padded to `n` characters; held without the padding
    Char(u32),
    /// `bytea`
    Bytea,
    /// `uuid`
    Uuid,
    /// `timestamp without time zone`, microseconds
    Timestamp,
    /// `timestamp with time zone`, microseconds, UTC inside
    TimestampTz,
    /// `date`
    Date,
    /// A one-dimensional array, as parameters have it
    Array(Box<DataType>),
}

/// The precision (digits in all) and scale (digits after the point) of a `numeric(p, s)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NumericBounds {
    /// Digits in all, at least 1.
    pub precision: u16,
    /// Digits after the point.
    pub scale: u16,
}

impl DataType {
    /// True for `smallint`, `integer` and `bigint`.
    pub fn is_integer(&self) -> bool {
        matches!(self, DataType::Int2 | DataType::Int4 | DataType::Int8)
    }

    /// For a `numeric(p, s)` with p at most 18: the bytes (4 or 8) of the integer that stores it,
    /// and its scale. `None` for every other type.
    #[inline]
    pub fn scaled_width(&self) -> Option<(usize, u16)> {
        match self {
            DataType::Numeric(Some(bounds)) if bounds.precision <= 9 => Some((4, bounds.scale)),
            DataType::Numeric(Some(bounds)) if bounds.precision <= 18 => Some((8, bounds.scale)),
            _ => None,
        }
    }

    /// True for every type that holds a number.
    pub fn is_numeric(&self) -> bool {
        self.is_integer()
            || matches!(
                self,
                DataType::Numeric(_) | DataType::Real | DataType::Double
            )
    }

    /// True for `text`, `varchar` and `char`.
    pub fn is_text(&self) -> bool {
        matches!(
            self,
            DataType::Text | DataType::Varchar(_) | DataType::Char(_)
        )
    }
}

impl fmt::Display for DataType {
    /// The type as PostgreSQL's `format_type` writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Bool => f.write_str("boolean"),
            DataType::Int2 => f.write_str("smallint"),
            DataType::Int4 => f.write_str("integer"),
            DataType::Int8 => f.write_str("bigint"),
            DataType::Numeric(None) => f.write_str("numeric"),
            DataType::Numeric(Some(b)) => write!(f, "numeric({},{})", b.precision, b.scale),
            DataType::Real => f.write_str("real"),
            DataType::Double => f.write_str("double precision"),
            DataType::Text => f.write_str("text"),
            DataType::Varchar(None) => f.write_str("character varying"),
            DataType::Varchar(Some(n)) => write!(f, "character varying({n})"),
            DataType::Char(n) => write!(f, "character({n})"),
            DataType::Bytea => f.write_str("bytea"),
            DataType::Uuid => f.write_str("uuid"),
            DataType::Timestamp => f.write_str("timestamp without time zone"),
            DataType::TimestampTz => f.write_str("timestamp with time zone"),
            DataType::Date => f.write_str("date"),
            DataType::Array(element) => write!(f, "{element}[]"),
        }
    }
}
