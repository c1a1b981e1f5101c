//! Keys as bytes in the order of the values that they encode.
//!
//! A key is the concatenation of its columns' encodings, each of which compares bytewise as its
//! values do and none of which is a proper prefix of another of the same type. So keys compare
//! with `memcmp`, and a prefix of the columns is a prefix of the bytes.
//!
//! | type | encoding |
//! |---|---|
//! | integers, `date`, timestamps | big-endian in the declared width, sign bit flipped |
//! | `boolean` | one byte |
//! | `numeric(p, s)`, p at most 18 | the value times 10^s as an integer of 4 (p at most 9) or 8 bytes |
//! | other `numeric` | sign, decimal exponent, digit pairs; the scale is not kept |
//! | `real`, `double precision` | IEEE bits made monotonic; `-0` is `0`, `NaN` is last |
//! | `text`, `varchar`, `char`, `bytea` | `00` becomes `00 FF`, then `00 00` ends it |
//! | `uuid` | its 16 bytes |
//!
//! Text is in the order of the "C" collation: by bytes, that is by code points. A nullable column
//! has a byte before its value, `00` for a value and `01` for NULL, so that NULLs come last, as
//! PostgreSQL's default ascending order has them. Arrays cannot be in a key.

mod bytes;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Bound;

use bytes::KeyBytes;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{DataType, Decimal, Timestamp, Value};

const VALUE_MARKER: u8 = 0;
const NULL_MARKER: u8 = 1;

/// An encoded key (or a prefix of one). Up to 22 bytes stay inline.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(KeyBytes);

impl Default for Key {
    #[inline]
    fn default() -> Key {
        Key(KeyBytes::EMPTY)
    }
}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// A value has no encoding in a column of this type: out of its range, or with more fractional
/// digits than the column keeps. No stored key equals it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value is not one that the key column's type can hold")]
pub struct Unrepresentable;

impl Key {
    /// The empty prefix, which every key starts with.
    #[inline]
    pub fn empty() -> Key {
        Key::default()
    }

    /// The key with these bytes.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Key {
        Key(KeyBytes::from(bytes))
    }

    /// The hidden key of a row in a table without a primary key: the inserting transaction, and
    /// the row's number within it.
    pub fn hidden(timestamp: Timestamp, row_number: u64) -> Key {
        let mut key = Key::empty();
        key.0.push_array(timestamp.to_bits().to_be_bytes());
        key.0.push_array(row_number.to_be_bytes());
        key
    }

    /// The encoded bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// The first 16 bytes as a big-endian number, zeros after the end: where two keys' heads
    /// differ, they order the keys.
    #[inline]
    pub fn head(&self) -> u128 {
        self.0.head()
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for the empty prefix.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// Whether this key begins with all of `prefix`'s bytes.
    #[inline]
    pub fn starts_with(&self, prefix: &Key) -> bool {
        self.as_bytes().starts_with(prefix.as_bytes())
    }

    /// Empties the key, keeping its memory, to build the next one.
    pub fn clear(&mut self) {
        self.0.truncate(0);
    }

    /// Shortens the key to its first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Appends encoded bytes: the columns of another key, or a suffix.
    #[inline]
    pub fn push_bytes(&mut self, encoded: &[u8]) {
        self.0.extend(encoded);
    }

    /// Appends one column's value.
    ///
    /// [`Value::Pending`] is encoded as the integer 0, to be patched at commit.
    ///
    /// # Panics
    /// When the value has not been coerced to `data_type` (wrong variant, out of range, too many
    /// fractional digits), is NULL in a column that is not nullable, or is an array.
    #[inline]
    pub fn push_value(&mut self, data_type: &DataType, nullable: bool, value: &Value) {
        if self.try_push_value(data_type, nullable, value).is_err() {
            panic!("{value:?} is not coerced to {data_type} before it is put into a key");
        }
    }

    /// Appends one column's value, which may lie outside the column's type (a constant that a
    /// query compares with). On an error the key is as it was.
    ///
    /// # Errors
    /// When no value of the column's type equals this one.
    ///
    /// # Panics
    /// When the value is of another kind than `data_type`, or is NULL in a column that is not
    /// nullable, or is an array.
    #[inline]
    pub fn try_push_value(
        &mut self,
        data_type: &DataType,
        nullable: bool,
        value: &Value,
    ) -> Result<(), Unrepresentable> {
        if let (Value::Int(int), true, false) = (value, data_type.is_integer(), nullable) {
            return self.push_int(int_width(data_type), *int);
        }
        if nullable {
            if value.is_null() {
                self.0.push_array([NULL_MARKER]);
                return Ok(());
            }
            self.0.push_array([VALUE_MARKER]);
        }
        let pushed = self.push_not_null(data_type, value);
        if pushed.is_err() && nullable {
            self.0.truncate(self.0.len() - 1);
        }
        pushed
    }

    fn push_not_null(
        &mut self,
        data_type: &DataType,
        value: &Value,
    ) -> Result<(), Unrepresentable> {
        match (data_type, value) {
            (DataType::Int2 | DataType::Int4 | DataType::Int8, Value::Int(int)) => {
                self.push_int(int_width(data_type), *int)?;
            }
            (DataType::Int2 | DataType::Int4 | DataType::Int8, Value::Pending(_)) => {
                self.push_int(int_width(data_type), 0)?;
            }
            (
                DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Enum(_),
                Value::Text(text),
            ) => self.push_escaped(text.as_bytes()),
            (DataType::Bool, Value::Bool(bool)) => self.0.push_array([u8::from(*bool)]),
            (DataType::Date, Value::Date(days)) => self.push_int(4, i64::from(*days))?,
            (DataType::Timestamp | DataType::TimestampTz, Value::Timestamp(micros)) => {
                self.push_int(8, *micros)?;
            }
            (DataType::Numeric(_), Value::Numeric(decimal)) => {
                self.push_decimal(data_type, *decimal)?;
            }
            (DataType::Real, Value::Float(float)) => {
                let single = *float as f32;
                if f64::from(single) != *float && !float.is_nan() {
                    return Err(Unrepresentable);
                }
                let bits = if single == 0.0 { 0 } else { single.to_bits() };
                let bits = if single.is_nan() {
                    f32::NAN.to_bits()
                } else {
                    bits
                };
                let mask = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
                self.push_bytes(&(bits ^ mask).to_be_bytes());
            }
            (DataType::Double, Value::Float(float)) => {
                let bits = if *float == 0.0 { 0 } else { float.to_bits() };
                let bits = if float.is_nan() {
                    f64::NAN.to_bits()
                } else {
                    bits
                };
                let mask = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
                self.push_bytes(&(bits ^ mask).to_be_bytes());
            }
            (DataType::Bytea, Value::Bytes(bytes)) => self.push_escaped(bytes),
            (DataType::Uuid, Value::Uuid(uuid)) => self.push_bytes(uuid),
            _ => panic!("{value:?} cannot be put into a key column of type {data_type}"),
        }
        Ok(())
    }

    /// Appends an integer of `width` bytes (1, 2, 4 or 8), of a column that is not nullable.
    ///
    /// # Errors
    /// When the integer needs more bytes.
    #[inline]
    pub fn push_int(&mut self, width: usize, int: i64) -> Result<(), Unrepresentable> {
        // The common widths: of a constant length each, so that none is a call.
        match width {
            4 => {
                let int = i32::try_from(int).map_err(|_| Unrepresentable)?;
                self.0.push_array((int as u32 ^ 1 << 31).to_be_bytes());
            }
            8 => self.0.push_array(encode_int(int, 8).to_be_bytes()),
            _ if int_fits(width, int) => {
                self.0
                    .extend(&encode_int(int, width).to_be_bytes()[8 - width..]);
            }
            _ => return Err(Unrepresentable),
        }
        Ok(())
    }

    /// Overwrites the integer of `width` bytes that begins at byte `offset`.
    ///
    /// # Errors
    /// When the integer needs more bytes.
    ///
    /// # Panics
    /// When the key is shorter.
    pub fn patch_int(
        &mut self,
        offset: usize,
        width: usize,
        int: i64,
    ) -> Result<(), Unrepresentable> {
        if !int_fits(width, int) {
            return Err(Unrepresentable);
        }
        let encoded = encode_int(int, width).to_be_bytes();
        self.0.as_mut_slice()[offset..offset + width].copy_from_slice(&encoded[8 - width..]);
        Ok(())
    }

    fn push_escaped(&mut self, bytes: &[u8]) {
        if bytes.contains(&0) {
            for byte in bytes {
                self.0.push_array([*byte]);
                if *byte == 0 {
                    self.0.push_array([0xFF]);
                }
            }
        } else {
            self.0.extend(bytes);
        }
        self.0.push_array([0, 0]);
    }

    fn push_decimal(
        &mut self,
        data_type: &DataType,
        decimal: Decimal,
    ) -> Result<(), Unrepresentable> {
        if let Some((width, scale)) = data_type.scaled_width() {
            let scaled = decimal.to_scaled(scale).ok_or(Unrepresentable)?;
            return self.push_int(width, scaled);
        }
        self.push_general_decimal(decimal);
        Ok(())
    }

    /// `0.d1d2d3… × 10^exponent` with `d1` not 0: sign, exponent, digit pairs, terminator.
    fn push_general_decimal(&mut self, decimal: Decimal) {
        const ZERO: u8 = 0x80;
        let mantissa = decimal.mantissa();
        if mantissa == 0 {
            self.0.push_array([ZERO]);
            return;
        }
        let negative = mantissa < 0;
        let digits = mantissa.unsigned_abs().to_string();
        let exponent = digits.len() as i32 - i32::from(decimal.scale());
        self.0.push_array([if negative {
            GENERAL_NEGATIVE
        } else {
            GENERAL_POSITIVE
        }]);
        let begin = self.0.len();
        self.0
            .push_array(((exponent + GENERAL_BIAS) as u16).to_be_bytes());
        let digits = digits.trim_end_matches('0').as_bytes();
        for pair in digits.chunks(2) {
            let tens = pair[0] - b'0';
            let ones = pair.get(1).map_or(0, |digit| digit - b'0');
            self.0.push_array([tens * 10 + ones + 1]);
        }
        self.0.push_array([0]);
        if negative {
            self.0.as_mut_slice()[begin..]
                .iter_mut()
                .for_each(|byte| *byte = !*byte);
        }
    }

    /// The smallest byte string above every key that starts with this one; `None` when there is
    /// none (the key is empty or all `FF`).
    pub fn successor(&self) -> Option<Key> {
        let bytes = self.as_bytes();
        let last = bytes.iter().rposition(|byte| *byte != 0xFF)?;
        let mut successor = Key::from_bytes(&bytes[..last]);
        successor.0.push_array([bytes[last] + 1]);
        Some(successor)
    }
}

const GENERAL_NEGATIVE: u8 = 0x40;
const GENERAL_POSITIVE: u8 = 0xC0;
const GENERAL_BIAS: i32 = 0x8000;

/// The width of an integer type in a key, in bytes.
#[inline]
pub fn int_width(data_type: &DataType) -> usize {
    match data_type {
        DataType::Int2 => 2,
        DataType::Int4 => 4,
        _ => 8,
    }
}

#[inline]
fn int_fits(width: usize, int: i64) -> bool {
    width == 8 || {
        let limit = 1i64 << (8 * width - 1);
        (-limit..limit).contains(&int)
    }
}

/// The low `width` bytes, with the sign bit of that width flipped.
#[inline]
fn encode_int(int: i64, width: usize) -> u64 {
    int as u64 ^ 1 << (8 * width - 1)
}

/// Hexadecimal, for messages without a schema.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// How many bytes a column of this type takes in every key; `None` when that depends on the value.
pub fn key_width(data_type: &DataType, nullable: bool) -> Option<usize> {
    if nullable {
        return None;
    }
    match data_type {
        DataType::Bool => Some(1),
        DataType::Int2 => Some(2),
        DataType::Int4 | DataType::Date | DataType::Real => Some(4),
        DataType::Int8 | DataType::Timestamp | DataType::TimestampTz | DataType::Double => Some(8),
        DataType::Uuid => Some(16),
        DataType::Numeric(_) => data_type.scaled_width().map(|(width, _)| width),
        _ => None,
    }
}

/// Reads the columns of a key one after the other.
#[derive(Clone, Debug)]
pub struct KeyReader<'k> {
    bytes: &'k [u8],
    position: usize,
}

impl<'k> KeyReader<'k> {
    /// A reader at the first column.
    pub fn new(bytes: &'k [u8]) -> KeyReader<'k> {
        KeyReader { bytes, position: 0 }
    }

    /// The offset of the next column's first byte (its marker, if it is nullable).
    pub fn position(&self) -> usize {
        self.position
    }

    /// The next column as an integer: the fast way for a `smallint`, `integer` or `bigint` column
    /// that is not nullable. `None` at the end of the key.
    #[inline]
    pub fn read_int(&mut self, data_type: &DataType) -> Option<i64> {
        self.take_int(int_width(data_type))
    }

    /// The next column's value. `None` when the key ends before it does (a prefix).
    ///
    /// A `numeric` of general encoding comes back with the smallest scale that holds it.
    ///
    /// # Panics
    /// When the bytes were not encoded with this type.
    pub fn read(&mut self, data_type: &DataType, nullable: bool) -> Option<Value> {
        if nullable && self.take(1)?[0] == NULL_MARKER {
            return Some(Value::Null);
        }
        Some(match data_type {
            DataType::Bool => Value::Bool(self.take(1)?[0] != 0),
            DataType::Int2 | DataType::Int4 | DataType::Int8 => {
                Value::Int(self.take_int(int_width(data_type))?)
            }
            DataType::Date => Value::Date(self.take_int(4)? as i32),
            DataType::Timestamp | DataType::TimestampTz => Value::Timestamp(self.take_int(8)?),
            DataType::Numeric(_) => Value::Numeric(match data_type.scaled_width() {
                Some((width, scale)) => Decimal::from_scaled(self.take_int(width)?, scale),
                None => self.read_general_decimal()?,
            }),
            DataType::Real => {
                let bits = u32::from_be_bytes(self.take(4)?.try_into().ok()?);
                let mask = if bits >> 31 == 0 { u32::MAX } else { 1 << 31 };
                Value::Float(f64::from(f32::from_bits(bits ^ mask)))
            }
            DataType::Double => {
                let bits = u64::from_be_bytes(self.take(8)?.try_into().ok()?);
                let mask = if bits >> 63 == 0 { u64::MAX } else { 1 << 63 };
                Value::Float(f64::from_bits(bits ^ mask))
            }
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Enum(_) => {
                let bytes = self.take_escaped()?;
                Value::text(std::str::from_utf8(&bytes).expect("text in a key is UTF-8"))
            }
            DataType::Bytea => Value::Bytes(self.take_escaped()?.as_slice().into()),
            DataType::Uuid => Value::Uuid(self.take(16)?.try_into().ok()?),
            DataType::Array(_)
            | DataType::Json
            | DataType::Jsonb
            | DataType::Oid
            | DataType::Name
            | DataType::SingleByte
            | DataType::OidAlias(_)
            | DataType::Int2Vector
            | DataType::OidVector
            | DataType::Record(_)
            | DataType::Void => panic!("a value of type {data_type} cannot be in a key"),
        })
    }

    /// Passes over the next column. `None` when the key ends before it does.
    pub fn skip(&mut self, data_type: &DataType, nullable: bool) -> Option<()> {
        match key_width(data_type, nullable) {
            Some(width) => self.take(width).map(|_| ()),
            None => self.read(data_type, nullable).map(|_| ()),
        }
    }

    fn take(&mut self, len: usize) -> Option<&'k [u8]> {
        let taken = self.bytes.get(self.position..self.position + len)?;
        self.position += len;
        Some(taken)
    }

    #[inline]
    fn take_int(&mut self, width: usize) -> Option<i64> {
        let bytes = self.take(width)?;
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(bytes);
        let flipped = u64::from_be_bytes(wide) ^ 1 << 63;
        Some((flipped as i64) >> (64 - 8 * width))
    }

    fn take_escaped(&mut self) -> Option<SmallVec<[u8; 64]>> {
        let mut plain = SmallVec::new();
        loop {
            match self.take(1)?[0] {
                0 => match self.take(1)?[0] {
                    0 => return Some(plain),
                    _ => plain.push(0),
                },
                byte => plain.push(byte),
            }
        }
    }

    fn read_general_decimal(&mut self) -> Option<Decimal> {
        let sign = self.take(1)?[0];
        let flip = match sign {
            GENERAL_NEGATIVE => 0xFF,
            GENERAL_POSITIVE => 0,
            _ => return Some(Decimal::ZERO),
        };
        let exponent = self.take(2)?;
        let exponent =
            i32::from(u16::from_be_bytes([exponent[0] ^ flip, exponent[1] ^ flip])) - GENERAL_BIAS;
        let mut mantissa = 0i128;
        let mut digits = 0;
        loop {
            let byte = self.take(1)?[0] ^ flip;
            if byte == 0 {
                break;
            }
            mantissa = mantissa * 100 + i128::from(byte - 1);
            digits += 2;
        }
        let mut scale = digits - exponent;
        while scale > 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            scale -= 1;
        }
        while scale < 0 {
            mantissa *= 10;
            scale += 1;
        }
        let mantissa = if flip == 0 { mantissa } else { -mantissa };
        Decimal::from_parts(mantissa, scale as u16).ok()
    }
}

/// A range of keys that share a prefix: the columns that a query fixes, then bounds on the next.
///
/// `lower` and `upper` are suffixes, compared as prefixes: with `upper = Included(s)` every key
/// that starts with `prefix ++ s` is in the range, with `Excluded(s)` none of them is; likewise
/// `lower = Excluded(s)` leaves out every key that starts with `prefix ++ s`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRange {
    /// The prefix of every key in the range.
    pub prefix: Key,
    /// The lower bound on what follows the prefix.
    pub lower: Bound<Key>,
    /// The upper bound on what follows the prefix.
    pub upper: Bound<Key>,
}

impl KeyRange {
    /// Every key that starts with `prefix`; with the empty prefix, every key.
    pub fn prefix_of(prefix: Key) -> KeyRange {
        KeyRange {
            prefix,
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
        }
    }

    /// Whether the key is in the range.
    pub fn contains(&self, key: &Key) -> bool {
        let Some(suffix) = key.as_bytes().strip_prefix(self.prefix.as_bytes()) else {
            return false;
        };
        let cut = |bound: &Key| &suffix[..suffix.len().min(bound.len())];
        let above = match &self.lower {
            Bound::Included(lower) => cut(lower) >= lower.as_bytes(),
            Bound::Excluded(lower) => cut(lower) > lower.as_bytes(),
            Bound::Unbounded => true,
        };
        above
            && match &self.upper {
                Bound::Included(upper) => cut(upper) <= upper.as_bytes(),
                Bound::Excluded(upper) => cut(upper) < upper.as_bytes(),
                Bound::Unbounded => true,
            }
    }

    /// Where to seek: the range holds no key below this one. `None` when it is empty because
    /// nothing is above its lower bound.
    pub fn start(&self) -> Option<Key> {
        match &self.lower {
            Bound::Included(lower) => Some(self.joined(lower)),
            Bound::Excluded(lower) => self.joined(lower).successor(),
            Bound::Unbounded => Some(self.prefix.clone()),
        }
    }

    /// Where to stop: the range holds no key at or above this one. `None` when it goes on to the
    /// last key.
    pub fn end(&self) -> Option<Key> {
        match &self.upper {
            Bound::Included(upper) => self.joined(upper).successor(),
            Bound::Excluded(upper) => Some(self.joined(upper)),
            Bound::Unbounded => self.prefix.successor(),
        }
    }

    /// The longest prefix that the bounds show every key in the range to have: `prefix`, and what
    /// `lower` and `upper` have in common. Routing finds the partition by it.
    pub fn constant_prefix(&self) -> Key {
        let mut constant = self.prefix.clone();
        if let (
            Bound::Included(lower) | Bound::Excluded(lower),
            Bound::Included(upper) | Bound::Excluded(upper),
        ) = (&self.lower, &self.upper)
        {
            let common = lower.as_bytes().iter().zip(upper.as_bytes());
            let len = common.take_while(|(low, high)| low == high).count();
            constant.push_bytes(&lower.as_bytes()[..len]);
        }
        constant
    }

    fn joined(&self, suffix: &Key) -> Key {
        let mut joined = self.prefix.clone();
        joined.push_bytes(suffix.as_bytes());
        joined
    }
}
