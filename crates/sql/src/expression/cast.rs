//! Casts between types, and the changes that a column's type makes to a stored value.

use anabranch_types::{
    DataType, Decimal, Jsonb, TimeZone, Value,
    calendar::{MICROS_PER_DAY, is_timestamp},
    json::Kind,
    text::{format_value, moment, parse_value},
};
use compact_str::CompactString;

use super::{
    Failure,
    arithmetic::{Domain, decimal_failure, in_range},
    bounds::{bound_numeric, bound_text, integer_domain},
    failure,
};

/// A value of one type as a value of another. The binder has checked that the cast exists;
/// `explicit` casts cut what is too long for a text type, others refuse it. Casts between `timestamptz` and other types
/// take place in `zone` (see [`reads_zone`]).
///
/// # Errors
/// When the value has no counterpart in the type: out of range, too long, not a number.
pub(crate) fn cast(
    value: Value,
    from: &DataType,
    to: &DataType,
    explicit: bool,
    zone: &TimeZone,
) -> Result<Value, Failure> {
    // First what is frequent, without comparing the types.
    if let (Value::Int(i), Some(domain)) = (&value, integer_domain(to)) {
        return in_range(domain, Some(*i)).map(Value::Int);
    }
    if value.is_null() || from == to {
        return Ok(value);
    }
    match (value, to) {
        (Value::Int(i), DataType::Numeric(_)) => bound_numeric(Decimal::from_i64(i), to),
        (Value::Int(i), DataType::Double) => Ok(Value::Float(i as f64)),
        (Value::Int(i), DataType::Real) => Ok(Value::Float(f64::from(i as f32))),
        (Value::Int(i), DataType::Bool) => Ok(Value::Bool(i != 0)),
        (Value::Int(i), to) if to.is_oid() => match u32::try_from(i) {
            Ok(_) => Ok(Value::Int(i)),
            Err(_) => Err(failure("22003", "OID out of range")),
        },
        (Value::Bool(b), DataType::Int2 | DataType::Int4 | DataType::Int8) => {
            Ok(Value::Int(i64::from(b)))
        }
        (Value::Numeric(d), DataType::Numeric(_)) => bound_numeric(d, to),
        (Value::Numeric(d), DataType::Int2 | DataType::Int4 | DataType::Int8) => {
            let rounded = d.round(0).map_err(decimal_failure)?;
            in_range(
                Domain::of(to).expect("an integer type has a domain"),
                rounded.to_i64(),
            )
            .map(Value::Int)
        }
        (Value::Numeric(d), DataType::Double) => Ok(Value::Float(d.to_f64())),
        (Value::Numeric(d), DataType::Real) => single(d.to_f64()),
        (Value::Float(f), DataType::Int2 | DataType::Int4 | DataType::Int8) => {
            let rounded = f.round_ties_even();
            let fits =
                (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded);
            let int = fits.then_some(rounded as i64);
            in_range(Domain::of(to).expect("an integer type has a domain"), int).map(Value::Int)
        }
        (Value::Float(f), DataType::Numeric(_)) => {
            let decimal = match from {
                DataType::Real => Decimal::from_f32(f as f32),
                _ => Decimal::from_f64(f),
            };
            bound_numeric(decimal.map_err(decimal_failure)?, to)
        }
        (Value::Float(f), DataType::Real) => single(f),
        (Value::Float(f), DataType::Double) => Ok(Value::Float(f)),
        (Value::Timestamp(t), DataType::Timestamp | DataType::TimestampTz | DataType::Date) => {
            let (zoned, to_zoned) = (is_zoned(from), is_zoned(to));
            let moment = match (zoned, to_zoned) {
                (true, false) => zone.to_local(t),
                (false, true) => zone.to_utc(t),
                _ => Some(t),
            };
            let moment = moment
                .filter(|t| is_timestamp(*t))
                .ok_or_else(out_of_range)?;
            Ok(match to {
                DataType::Date => Value::Date(moment::day_of(moment)),
                _ => Value::Timestamp(moment),
            })
        }
        (Value::Date(d), DataType::Timestamp | DataType::TimestampTz) => {
            let midnight = i64::from(d)
                .checked_mul(MICROS_PER_DAY)
                .filter(|t| is_timestamp(*t));
            let moment = match is_zoned(to) {
                true => midnight.and_then(|midnight| zone.to_utc(midnight)),
                false => midnight,
            };
            moment
                .filter(|t| is_timestamp(*t))
                .map(Value::Timestamp)
                .ok_or_else(|| failure("22008", "date out of range for timestamp"))
        }
        (Value::Array(list), DataType::Array(target)) => {
            let Some(source) = from.element() else {
                return Err(failure("XX000", "an array has an array's type"));
            };
            let elements = list
                .iter()
                .map(|v| cast(v.clone(), source, target, explicit, zone));
            Ok(Value::Array(
                elements.collect::<Result<Vec<_>, _>>()?.into(),
            ))
        }
        (Value::Text(text), to) if to.is_text() => bound_text(Value::Text(text), to, explicit),
        (Value::Jsonb(json), DataType::Json) => Ok(Value::text(json.as_str())),
        (Value::Jsonb(json), to) if to.is_numeric() || *to == DataType::Bool => of_jsonb(&json, to),
        (Value::Text(text), to) => parse_value(&text, to, zone).map_err(Box::new),
        // A pending value is only ever widened: the binder's analysis saw to it.
        (Value::Pending(pending), _) => Ok(Value::Pending(pending)),
        (value, to) if to.is_text() => {
            // A boolean's cast to text is spelt out, unlike its output.
            let text = match &value {
                Value::Bool(truth) => {
                    CompactString::const_new(if *truth { "true" } else { "false" })
                }
                value => CompactString::from(format_value(value, from, zone)),
            };
            bound_text(Value::Text(text), to, explicit)
        }
        (_, to) => Err(failure("42846", format!("cannot cast type {from} to {to}"))),
    }
}

/// A `jsonb` as a boolean or number.
fn of_jsonb(json: &Jsonb, to: &DataType) -> Result<Value, Failure> {
    let root = json.root();
    match (&root.kind, to) {
        (Kind::Bool(truth), DataType::Bool) => Ok(Value::Bool(*truth)),
        (Kind::Number, to) if to.is_numeric() => {
            let number = Value::Numeric(Decimal::parse(&root.text).map_err(decimal_failure)?);
            let from = DataType::Numeric(None);
            match to {
                DataType::Numeric(None) => Ok(number),
                to => cast(number, &from, to, true, &TimeZone::UTC),
            }
        }
        _ => {
            let kind = match root.type_name() {
                "number" => "numeric",
                other => other,
            };
            let to = match to {
                DataType::Numeric(_) => "numeric".to_owned(),
                other => other.to_string(),
            };
            let message = format!("cannot cast jsonb {kind} to type {to}");
            Err(failure("22023", message))
        }
    }
}

/// Whether a cast depends on settings in PostgreSQL, the time zone apart: the text of a date, a moment, an enumeration
/// or an array.
pub(crate) fn reads_settings(from: &DataType, to: &DataType) -> bool {
    let is_formatted = |of: &DataType| {
        matches!(
            of,
            DataType::Date
                | DataType::Timestamp
                | DataType::TimestampTz
                | DataType::Enum(_)
                | DataType::Array(_)
        )
    };
    match (from, to) {
        (DataType::Array(from), DataType::Array(to)) => reads_settings(from, to),
        (from, to) => from.is_text() && is_formatted(to) || is_formatted(from) && to.is_text(),
    }
}

/// Whether a cast between these types depends on the session's time zone.
pub(crate) fn reads_zone(from: &DataType, to: &DataType) -> bool {
    is_zoned(from) != is_zoned(to)
}

/// Whether values of the type are moments, written in local time.
pub(crate) fn is_zoned(data_type: &DataType) -> bool {
    match data_type {
        DataType::TimestampTz => true,
        DataType::Array(element) => is_zoned(element),
        _ => false,
    }
}

fn out_of_range() -> Failure {
    failure("22008", "timestamp out of range")
}

fn single(f: f64) -> Result<Value, Failure> {
    let narrow = f as f32;
    if narrow.is_infinite() && f.is_finite() {
        return Err(failure("22003", "value out of range: overflow"));
    }
    if narrow == 0.0 && f != 0.0 {
        return Err(failure("22003", "value out of range: underflow"));
    }
    Ok(Value::Float(f64::from(narrow)))
}
