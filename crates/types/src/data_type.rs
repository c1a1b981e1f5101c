//! PostgreSQL's data types, as far as the dialect has them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

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
    /// `char(n)`: blank-padded to `n` characters; held without the padding. [`DataType::BPCHAR`] has no length
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
    /// `json`: a text that is valid JSON, kept as it was written. It has neither equality nor order
    Json,
    /// `jsonb`: JSON in normal form
    Jsonb,
    /// A type of `CREATE TYPE … AS ENUM`. Its values are the labels, as [`Value::Text`](crate::Value::Text). Their order
    /// is that of the labels, not of the text: see [`EnumType`]
    Enum(Arc<EnumType>),
    /// A one-dimensional array, as parameters have it
    Array(Box<DataType>),
    /// `oid`, 32 bits without a sign: the number of an object of the system catalogs. This type and those below are
    /// for statements over the system catalogs; no table has a column of them.
    Oid,
    /// `name`: at most 63 bytes of text, an identifier
    Name,
    /// `"char"`: one byte of text, an abbreviation
    SingleByte,
    /// `regclass` and its kin: an OID that is written as the object's name
    OidAlias(ObjectKind),
    /// `int2vector`: an array whose subscripts begin at 0
    Int2Vector,
    /// `oidvector`: an array whose subscripts begin at 0
    OidVector,
    /// `record`: a row of columns of these types as one value, which is a [`Value::Array`](crate::Value::Array). Only
    /// results have it
    Record(Arc<[DataType]>),
    /// `void`: what a function without a result returns, an empty text. Only results have it
    Void,
}

/// A type of `CREATE TYPE … AS ENUM`.
///
/// Values are stored and compared for equality as texts. Text has another order than the labels, so whatever depends on
/// the order of values goes by [`EnumType::place`].
///
/// Two of them are equal if they have one name: a schema has one type of a name, and a label that is added later leaves
/// the values as they are.
#[derive(Clone, Debug)]
pub struct EnumType {
    /// Its number in `pg_type`; 0 while the name is not yet looked up.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// Its name as SQL writes it, in quotes if need be.
    pub written: String,
    /// Its labels, in the order of the values.
    pub labels: Vec<String>,
}

impl EnumType {
    /// The number of the type of its arrays in `pg_type`.
    pub fn array_oid(&self) -> u32 {
        self.oid + 1
    }

    /// The number of a label in `pg_enum`, by its place.
    pub fn label_oid(&self, place: usize) -> u32 {
        self.oid + 2 + place as u32
    }

    /// The place of a label among the labels, from 0.
    pub fn place(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|of| of == label)
    }
}

impl PartialEq for EnumType {
    fn eq(&self, other: &EnumType) -> bool {
        self.name == other.name
    }
}

impl Eq for EnumType {}

impl Hash for EnumType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The kind of object that an [`DataType::OidAlias`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// `regclass`: a table, index, view or sequence
    Relation,
    /// `regtype`: a type
    Type,
    /// `regproc`: a function or procedure by its name alone
    Procedure,
    /// `regprocedure`: a function or procedure with its argument types
    Signature,
    /// `regnamespace`: a schema
    Schema,
    /// `regrole`: a role
    Role,
}

impl ObjectKind {
    /// The name of the type.
    pub fn type_name(self) -> &'static str {
        match self {
            ObjectKind::Relation => "regclass",
            ObjectKind::Type => "regtype",
            ObjectKind::Procedure => "regproc",
            ObjectKind::Signature => "regprocedure",
            ObjectKind::Schema => "regnamespace",
            ObjectKind::Role => "regrole",
        }
    }
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
    /// `bpchar`: `char` without a length, which a cast may name and no column has. Blanks at the end do not count.
    pub const BPCHAR: DataType = DataType::Char(u32::MAX);

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

    /// True for every type that holds text: `text`, `varchar`, `char`, `name`, `"char"`.
    pub fn is_text(&self) -> bool {
        matches!(
            self,
            DataType::Text
                | DataType::Varchar(_)
                | DataType::Char(_)
                | DataType::Name
                | DataType::SingleByte
        )
    }

    /// The enumeration, if it is one. No function of text takes its values without a cast.
    pub fn as_enum(&self) -> Option<&Arc<EnumType>> {
        match self {
            DataType::Enum(of) => Some(of),
            _ => None,
        }
    }

    /// True for `json` and `jsonb`.
    pub fn is_json(&self) -> bool {
        matches!(self, DataType::Json | DataType::Jsonb)
    }

    /// True for `oid` and the types that are written as an object's name.
    pub fn is_oid(&self) -> bool {
        matches!(self, DataType::Oid | DataType::OidAlias(_))
    }

    /// The type of the elements of an array or vector.
    pub fn element(&self) -> Option<&DataType> {
        match self {
            DataType::Array(element) => Some(element),
            DataType::Int2Vector => Some(&DataType::Int2),
            DataType::OidVector => Some(&DataType::Oid),
            _ => None,
        }
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
            &DataType::BPCHAR => f.write_str("bpchar"),
            DataType::Char(n) => write!(f, "character({n})"),
            DataType::Bytea => f.write_str("bytea"),
            DataType::Uuid => f.write_str("uuid"),
            DataType::Timestamp => f.write_str("timestamp without time zone"),
            DataType::TimestampTz => f.write_str("timestamp with time zone"),
            DataType::Date => f.write_str("date"),
            DataType::Json => f.write_str("json"),
            DataType::Jsonb => f.write_str("jsonb"),
            DataType::Enum(of) => f.write_str(&of.written),
            DataType::Array(element) => write!(f, "{element}[]"),
            DataType::Oid => f.write_str("oid"),
            DataType::Name => f.write_str("name"),
            DataType::SingleByte => f.write_str("\"char\""),
            DataType::OidAlias(kind) => f.write_str(kind.type_name()),
            DataType::Int2Vector => f.write_str("int2vector"),
            DataType::OidVector => f.write_str("oidvector"),
            DataType::Record(_) => f.write_str("record"),
            DataType::Void => f.write_str("void"),
        }
    }
}
