//! Equality and order of values, as in PostgreSQL.

use std::cmp::Ordering;

use anabranch_types::Value;
use smallvec::SmallVec;

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Relation {
    /// Whether it compares by the order of values, rather than for equality.
    pub(crate) fn is_order(self) -> bool {
        !matches!(self, Relation::Equal | Relation::NotEqual)
    }

    /// Whether an ordering satisfies it.
    #[inline]
    pub(crate) fn holds(self, ordering: Ordering) -> bool {
        match self {
            Relation::Equal => ordering.is_eq(),
            Relation::NotEqual => ordering.is_ne(),
            Relation::Less => ordering.is_lt(),
            Relation::LessOrEqual => ordering.is_le(),
            Relation::Greater => ordering.is_gt(),
            Relation::GreaterOrEqual => ordering.is_ge(),
        }
    }

    /// The relation with its operands exchanged.
    pub(crate) fn mirrored(self) -> Relation {
        match self {
            Relation::Less => Relation::Greater,
            Relation::LessOrEqual => Relation::GreaterOrEqual,
            Relation::Greater => Relation::Less,
            Relation::GreaterOrEqual => Relation::LessOrEqual,
            other => other,
        }
    }

    /// The operator as SQL writes it.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Relation::Equal => "=",
            Relation::NotEqual => "<>",
            Relation::Less => "<",
            Relation::LessOrEqual => "<=",
            Relation::Greater => ">",
            Relation::GreaterOrEqual => ">=",
        }
    }
}

/// Bytes that are equal exactly when the values are (NULLs equal to each other): the key of a hash
/// table over values that SQL compares without a cast.
pub(crate) type Fingerprint = SmallVec<[u8; 32]>;

/// Appends a value to a fingerprint.
pub(crate) fn push_fingerprint(out: &mut Fingerprint, value: &Value) {
    match value {
        Value::Null => out.push(0),
        Value::Bool(b) => out.extend_from_slice(&[1, u8::from(*b)]),
        Value::Int(i) => {
            out.push(2);
            out.extend_from_slice(&i.to_le_bytes());
        }
        Value::Float(f) => {
            let f = if *f == 0.0 { 0.0 } else { *f };
            let bits = if f.is_nan() {
                f64::NAN.to_bits()
            } else {
                f.to_bits()
            };
            out.push(3);
            out.extend_from_slice(&bits.to_le_bytes());
        }
        Value::Numeric(d) => {
            let d = d.normalized();
            // A whole number has the bytes of the equal integer: the two may be compared.
            match i64::try_from(d.mantissa()) {
                Ok(whole) if d.scale() == 0 => push_fingerprint(out, &Value::Int(whole)),
                _ => {
                    out.push(4);
                    out.extend_from_slice(&d.mantissa().to_le_bytes());
                    out.extend_from_slice(&d.scale().to_le_bytes());
                }
            }
        }
        Value::Text(t) => {
            out.push(5);
            push_bytes(out, t.as_bytes());
        }
        Value::Bytes(b) => {
            out.push(6);
            push_bytes(out, b);
        }
        Value::Uuid(u) => {
            out.push(7);
            out.extend_from_slice(u);
        }
        Value::Timestamp(t) => {
            out.push(8);
            out.extend_from_slice(&t.to_le_bytes());
        }
        Value::Date(d) => {
            out.push(9);
            out.extend_from_slice(&d.to_le_bytes());
        }
        Value::Array(list) => {
            out.push(10);
            out.extend_from_slice(&(list.len() as u32).to_le_bytes());
            for value in list.iter() {
                push_fingerprint(out, value);
            }
        }
        Value::Pending(pending) => {
            out.push(11);
            out.extend_from_slice(&pending.slot.0.to_le_bytes());
            out.extend_from_slice(&pending.offset.to_le_bytes());
        }
        Value::Jsonb(json) => {
            out.push(12);
            push_bytes(out, json.canonical().as_bytes());
        }
    }
}

fn push_bytes(out: &mut Fingerprint, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}
