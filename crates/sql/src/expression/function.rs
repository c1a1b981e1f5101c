//! The built-in functions.

use anabranch_types::{
    DataType, Decimal, TimeZone, Value,
    calendar::{MICROS_PER_DAY, days_from_civil, is_timestamp},
    text::write_value,
};
use compact_str::CompactString;

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Failure, arithmetic,
    arithmetic::decimal_failure,
    array::{self, ArrayFunction},
    budget::within_value,
    cast::is_zoned,
    datetime::{self, Field, Interval},
    encoding::{self, Encoding},
    failure, json,
    json::JsonFunction,
    mathematics::{self, Mathematics},
    md5, pattern, quote,
    regex::{Pattern, Searcher},
    regexp::{self, Regexp},
    to_char::{self, Digits, Moment},
};
use crate::system::{System, lookup::SystemFunction, names::quoted};

/// A function with its name and argument types settled. Unless noted otherwise, a function gives NULL if an argument is
/// NULL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Function {
    Abs,
    Sign,
    Round,
    Trunc,
    Ceil,
    Floor,
    Sqrt,
    Exp,
    Ln,
    Power,
    Length,
    OctetLength,
    BitLength,
    Substring,
    Left,
    Right,
    Upper,
    Lower,
    Initcap,
    TrimBoth,
    TrimLeft,
    TrimRight,
    Position,
    Replace,
    Translate,
    LeftPad,
    RightPad,
    Repeat,
    Reverse,
    SplitPart,
    StartsWith,
    Ascii,
    Chr,
    /// NULL arguments are passed over; the types are those of the arguments.
    Concat(Vec<DataType>),
    /// The same with a separator first.
    ConcatWith(Vec<DataType>),
    /// NULL arguments are passed over.
    Greatest,
    /// NULL arguments are passed over.
    Least,
    Cardinality,
    ArrayLength,
    /// The last subscript of an array whose first is `lower`.
    ArrayUpper {
        lower: i64,
    },
    /// The first subscript, if there is one.
    ArrayLower {
        lower: i64,
    },
    ArrayPosition {
        lower: i64,
    },
    /// Without the elements that are not distinct from a value, which may be NULL.
    ArrayRemove,
    /// The elements, of this type, with a separator between them and a text in place of NULLs.
    ArrayToString(DataType),
    QuoteIdentifier,
    QuoteLiteral,
    SizePretty,
    /// Whether a text has a match of a regular expression.
    Matches(Pattern),
    /// A function over the system catalogs.
    System(SystemFunction, Arc<System>),
    /// NULL elements and arrays count.
    ArrayAppend,
    ArrayConcat,
    /// Whether the first array has each element of the second; NULL is no element's equal.
    ArrayContains,
    /// Whether two arrays have an element in common; NULL is no element's equal.
    ArrayOverlaps,
    /// A text cut at a separator (NULL: into its characters); parts that are the third argument are NULL.
    StringToArray,
    /// An integer in base 16; a negative one of 32 or 64 bits as its two's complement.
    ToHex {
        is_long: bool,
    },
    Extract(Field, Clock),
    DateTrunc(Field, Clock),
    /// The same, of a unit that the first argument names.
    DateTruncBy(Clock),
    AddInterval(Interval, /* negative */ bool, Clock),
    /// `timestamp::date`-like functions over now() are casts; this is `make_date(y, m, d)`.
    MakeDate,
    /// A moment at the wall clock of a time zone, named by the second argument: `timestamptz AT TIME ZONE zone`.
    LocalTime,
    /// The moment at which a time zone's wall clock shows this: `timestamp AT TIME ZONE zone`.
    MomentOfLocalTime,
    /// A moment by a template.
    ToCharMoment(Clock),
    /// A number by a template.
    ToCharNumber,
    Md5,
    /// A number from 0 to below 1, made of a number that no other call gets.
    Random,
    /// NULL is `NULL`.
    QuoteNullable,
    /// `format()`: NULL arguments count; the types are those of the arguments behind the template.
    Format(Vec<DataType>),
    /// A function over JSON.
    Json(JsonFunction),
    /// Whether a text matches one of the patterns in an array, or all of them.
    MatchesAny {
        of: Matching,
        negated: bool,
        all: bool,
    },
    /// A function over a regular expression.
    Regexp(Regexp),
    /// The regular expression of a pattern of SIMILAR TO, with its escape.
    OfSimilar(Option<char>),
    Mathematics(Mathematics),
    Encoding(Encoding),
    /// A text with a part replaced by another, from a place and over so many characters.
    Overlay,
    /// NULL elements and arguments count.
    Array(ArrayFunction),
    /// How many arguments are NULL, or are not.
    CountNulls {
        nulls: bool,
    },
    /// A number of seconds since 1970.
    OfEpoch,
    /// A moment from a text by a template.
    ByTemplate(Clock),
    /// Year, month, day, hour, minute and seconds.
    MakeTimestamp(Clock),
    /// An opaque expression, by its text: any value, which depends on the arguments. It is never evaluated.
    Unknown(Box<str>),
}

/// How a text is matched with a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matching {
    Like {
        escape: Option<char>,
        insensitive: bool,
    },
    Regexp {
        insensitive: bool,
    },
}

/// The calendar that a function over a moment counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The moment is a `timestamp` or `date`, or the time zone does not matter.
    AsGiven,
    /// The moment is a `timestamptz`: in the session's time zone.
    Zoned,
}

impl Clock {
    /// The clock for a moment of a type.
    pub(crate) fn of(data_type: Option<&DataType>) -> Clock {
        match data_type {
            Some(DataType::TimestampTz) => Clock::Zoned,
            _ => Clock::AsGiven,
        }
    }
}

impl Function {
    /// Whether its value depends on the session's time zone, its arguments apart.
    pub(crate) fn reads_zone(&self) -> bool {
        match self {
            Function::Extract(_, clock)
            | Function::DateTrunc(_, clock)
            | Function::DateTruncBy(clock)
            | Function::AddInterval(_, _, clock)
            | Function::ToCharMoment(clock)
            | Function::ByTemplate(clock)
            | Function::MakeTimestamp(clock) => *clock == Clock::Zoned,
            Function::Concat(types) | Function::ConcatWith(types) | Function::Format(types) => {
                types.iter().any(is_zoned)
            }
            Function::Json(function) => function.reads_zone(),
            _ => false,
        }
    }

    /// Whether its value depends on settings in PostgreSQL, its arguments and the time zone apart.
    pub(crate) fn reads_settings(&self) -> bool {
        match self {
            Function::Concat(_)
            | Function::ConcatWith(_)
            | Function::Format(_)
            | Function::ArrayToString(_)
            | Function::ToCharMoment(_)
            | Function::ToCharNumber
            | Function::ByTemplate(_)
            | Function::Random
            | Function::System(..) => true,
            Function::Json(function) => function.reads_settings(),
            _ => false,
        }
    }
}

/// The value of a function for arguments of the right kinds.
pub(crate) fn call(
    function: &Function,
    arguments: &[Value],
    zone: &TimeZone,
) -> Result<Value, Failure> {
    match function {
        Function::Unknown(text) => {
            let message = format!("{text} is not supported");
            return Err(super::failure("0A000", message));
        }
        Function::Json(function) => return json::call(function, arguments, zone),
        Function::Concat(types) => return concat(arguments, types, None, zone),
        Function::DateTruncBy(clock) => {
            let [Value::Text(unit), Value::Timestamp(micros)] = arguments else {
                return Ok(Value::Null);
            };
            let Some(field) = Field::named(&unit.to_lowercase()) else {
                let kind = match clock {
                    Clock::AsGiven => "without",
                    Clock::Zoned => "with",
                };
                let message =
                    format!("unit \"{unit}\" not recognized for type timestamp {kind} time zone");
                return Err(super::failure("22023", message));
            };
            return of_timestamp(&Function::DateTrunc(field, *clock), *micros, zone);
        }
        Function::ConcatWith(types) => {
            let Value::Text(separator) = &arguments[0] else {
                return Ok(Value::Null);
            };
            return concat(&arguments[1..], &types[1..], Some(separator), zone);
        }
        Function::Format(types) => {
            let Value::Text(template) = &arguments[0] else {
                return Ok(Value::Null);
            };
            let text = quote::formatted(template, &arguments[1..], types, zone)?;
            return Ok(Value::Text(text.into()));
        }
        Function::QuoteNullable if arguments[0].is_null() => return Ok(Value::text("NULL")),
        Function::Greatest | Function::Least => return Ok(extreme(function, arguments)),
        Function::ArrayAppend => {
            let mut list = match &arguments[0] {
                Value::Array(list) => list.to_vec(),
                _ => Vec::new(),
            };
            list.push(arguments[1].clone());
            return Ok(Value::Array(list.into()));
        }
        Function::ArrayConcat => {
            return Ok(match (&arguments[0], &arguments[1]) {
                (Value::Array(a), Value::Array(b)) => {
                    Value::Array([&a[..], &b[..]].concat().into())
                }
                (Value::Null, other) | (other, _) => other.clone(),
            });
        }
        Function::System(function, system) => {
            return system.call(*function, arguments).map_err(Box::new);
        }
        Function::ArrayRemove => {
            let Value::Array(list) = &arguments[0] else {
                return Ok(Value::Null);
            };
            let kept = list.iter().filter(|v| !v.total_cmp(&arguments[1]).is_eq());
            return Ok(Value::Array(kept.cloned().collect()));
        }
        Function::StringToArray => return array::of_string(arguments),
        Function::Array(function) => return array::call(*function, arguments),
        Function::MatchesAny { of, negated, all } => {
            return matches_any(*of, *negated, *all, arguments);
        }
        Function::CountNulls { nulls } => {
            let count = arguments.iter().filter(|value| value.is_null() == *nulls);
            return Ok(Value::Int(count.count() as i64));
        }
        Function::ArrayToString(element) => {
            return array_to_string(arguments, element, zone);
        }
        Function::ArrayPosition { lower } => {
            let Value::Array(list) = &arguments[0] else {
                return Ok(Value::Null);
            };
            let place = list.iter().position(|v| v.total_cmp(&arguments[1]).is_eq());
            return Ok(place.map_or(Value::Null, |p| Value::Int(p as i64 + lower)));
        }
        _ => {}
    }
    if arguments.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    match (function, arguments) {
        (Function::Regexp(function), _) => return regexp::call(function, arguments),
        (Function::Mathematics(function), _) => return mathematics::call(*function, arguments),
        (Function::Encoding(function), _) => return encoding::call(*function, arguments),
        (Function::ByTemplate(clock), [Value::Text(text), Value::Text(template)]) => {
            return in_clock(to_char::moment_of(text, template)?, *clock, zone);
        }
        (
            Function::MakeTimestamp(clock),
            [
                Value::Int(year),
                Value::Int(month),
                Value::Int(day),
                Value::Int(hour),
                Value::Int(minute),
                Value::Float(second),
            ],
        ) => {
            let date = [*year, *month, *day];
            return in_clock(
                datetime::made(date, [*hour, *minute], *second)?,
                *clock,
                zone,
            );
        }
        _ => {}
    }
    match arguments {
        [value, Value::Text(template)]
            if matches!(function, Function::ToCharMoment(_) | Function::ToCharNumber) =>
        {
            by_template(function, value, template, zone)
        }
        [Value::Timestamp(micros), Value::Text(name)] => in_zone(function, *micros, name),
        [Value::Uuid(bytes)] if *function == Function::Random => Ok(random(bytes)),
        [Value::Text(text), rest @ ..] => of_text(function, text, rest),
        [Value::Int(i), rest @ ..] => of_int(function, *i, rest),
        [Value::Numeric(d), rest @ ..] => of_numeric(function, *d, rest),
        [Value::Float(f), rest @ ..] => of_float(function, *f, rest),
        [Value::Timestamp(t)] => of_timestamp(function, *t, zone),
        [Value::Date(d)] => of_timestamp(function, i64::from(*d) * MICROS_PER_DAY, zone),
        [Value::Array(list), rest @ ..] => of_array(function, list, rest),
        [Value::Bytes(bytes), ..] => match function {
            Function::Md5 => Ok(Value::text(md5::hexadecimal(bytes))),
            Function::Length | Function::OctetLength => Ok(Value::Int(bytes.len() as i64)),
            Function::BitLength => Ok(Value::Int(bytes.len() as i64 * 8)),
            _ => Err(undefined(function, arguments)),
        },
        _ => Err(undefined(function, arguments)),
    }
}

/// `to_char`. A template without anything gives NULL, as in PostgreSQL.
fn by_template(
    function: &Function,
    value: &Value,
    template: &str,
    zone: &TimeZone,
) -> Result<Value, Failure> {
    let number = |digits| match template {
        "" => Ok(String::new()),
        template => to_char::of_number(digits, template),
    };
    let text = match (function, value) {
        (Function::ToCharMoment(_), _) if template.is_empty() => return Ok(Value::Null),
        (Function::ToCharMoment(clock), Value::Timestamp(micros)) => {
            let moment = match clock {
                Clock::AsGiven => Some(Moment::local(*micros)),
                Clock::Zoned => Moment::zoned(*micros, zone),
            };
            to_char::of_moment(moment.ok_or_else(datetime::out_of_range)?, template)?
        }
        (_, Value::Int(int)) => number(Digits::Int(*int))?,
        (_, Value::Numeric(decimal)) => number(Digits::Numeric(*decimal))?,
        (_, Value::Float(float)) => number(Digits::Double(*float))?,
        _ => return Err(undefined(function, std::slice::from_ref(value))),
    };
    within_value(text.len())?;
    Ok(Value::Text(text.into()))
}

/// A moment at a time zone's wall clock, or the other way round.
fn in_zone(function: &Function, micros: i64, name: &str) -> Result<Value, Failure> {
    let zone = TimeZone::of_conversion(name.trim())
        .map_err(|_| failure("22023", format!("time zone \"{name}\" not recognized")))?;
    let found = match function {
        Function::LocalTime => zone.to_local(micros),
        Function::MomentOfLocalTime => zone.to_utc(micros),
        _ => return Err(undefined(function, &[])),
    };
    found
        .map(Value::Timestamp)
        .ok_or_else(datetime::out_of_range)
}

/// The moment at which a clock shows this.
fn in_clock(local: i64, clock: Clock, zone: &TimeZone) -> Result<Value, Failure> {
    let micros = match clock {
        Clock::AsGiven => Some(local),
        Clock::Zoned => zone.to_utc(local),
    };
    let micros = micros.filter(|micros| is_timestamp(*micros));
    micros
        .map(Value::Timestamp)
        .ok_or_else(datetime::out_of_range)
}

/// A number from 0 to below 1 of the random bits of a UUID: its last seven bytes have nothing else.
fn random(uuid: &[u8; 16]) -> Value {
    let mut bits = [0; 8];
    bits[1..].copy_from_slice(&uuid[9..]);
    Value::Float((u64::from_be_bytes(bits) >> 3) as f64 / (1u64 << 53) as f64)
}

#[cold]
fn undefined(function: &Function, arguments: &[Value]) -> Failure {
    failure(
        "XX000",
        format!("{function:?} is not defined on {arguments:?}"),
    )
}

fn concat(
    arguments: &[Value],
    types: &[DataType],
    separator: Option<&str>,
    zone: &TimeZone,
) -> Result<Value, Failure> {
    let mut out = String::new();
    let mut first = true;
    for (value, data_type) in arguments
        .iter()
        .zip(types)
        .filter(|(value, _)| !value.is_null())
    {
        if let (false, Some(separator)) = (first, separator) {
            out.push_str(separator);
        }
        write_value(&mut out, value, data_type, zone);
        within_value(out.len())?;
        first = false;
    }
    Ok(Value::Text(out.into()))
}

/// Three-valued, as the disjunction or conjunction of the single matches is.
fn matches_any(
    of: Matching,
    negated: bool,
    all: bool,
    arguments: &[Value],
) -> Result<Value, Failure> {
    let [text, Value::Array(patterns)] = arguments else {
        return Ok(Value::Null);
    };
    let mut is_unknown = false;
    for pattern in patterns.iter() {
        let (Value::Text(text), Value::Text(pattern)) = (text, pattern) else {
            is_unknown = true;
            continue;
        };
        let is_match = match of {
            Matching::Like {
                escape,
                insensitive,
            } => pattern::like(text, pattern, escape, insensitive)?,
            Matching::Regexp { insensitive } => Searcher::new(pattern, insensitive)?.is_match(text),
        };
        if (is_match != negated) != all {
            return Ok(Value::Bool(!all));
        }
    }
    Ok(if is_unknown {
        Value::Null
    } else {
        Value::Bool(all)
    })
}

fn array_to_string(
    arguments: &[Value],
    element: &DataType,
    zone: &TimeZone,
) -> Result<Value, Failure> {
    let (Value::Array(list), Value::Text(separator)) = (&arguments[0], &arguments[1]) else {
        return Ok(Value::Null);
    };
    let null = match arguments.get(2) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    };
    let mut out = String::new();
    let mut first = true;
    for value in list.iter() {
        if value.is_null() && null.is_none() {
            continue;
        }
        if !first {
            out.push_str(separator);
        }
        first = false;
        match null {
            Some(text) if value.is_null() => out.push_str(text),
            _ => write_value(&mut out, value, element, zone),
        }
        within_value(out.len())?;
    }
    Ok(Value::Text(out.into()))
}

/// A number of bytes for people, as `pg_size_pretty` rounds it.
fn size_pretty(bytes: i64) -> String {
    /// Below ten of a unit, the smaller one says more.
    const LIMIT: i64 = 10 * 1024;
    if bytes.unsigned_abs() < LIMIT.unsigned_abs() {
        return format!("{bytes} bytes");
    }
    // Twice the size, so that the last halving can round.
    let mut twice = bytes >> 9;
    let half = |twice: i64| (twice + i64::from(twice >= 0)) / 2;
    for unit in ["kB", "MB", "GB", "TB"] {
        if twice.unsigned_abs() < (2 * LIMIT - 1).unsigned_abs() {
            return format!("{} {unit}", half(twice));
        }
        twice /= 1024;
    }
    format!("{} PB", half(twice))
}

fn extreme(function: &Function, arguments: &[Value]) -> Value {
    let present = arguments.iter().filter(|value| !value.is_null());
    let found = match function {
        Function::Greatest => present.reduce(|a, b| if b.total_cmp(a).is_gt() { b } else { a }),
        _ => present.reduce(|a, b| if b.total_cmp(a).is_lt() { b } else { a }),
    };
    found.cloned().unwrap_or(Value::Null)
}

fn of_int(function: &Function, i: i64, rest: &[Value]) -> Result<Value, Failure> {
    match (function, rest) {
        // These operate in the argument's own width; the binder adds the range check.
        (Function::Abs, []) => i
            .checked_abs()
            .map(Value::Int)
            .ok_or_else(|| failure("22003", "bigint out of range")),
        (Function::Sign, []) => Ok(Value::Int(i.signum())),
        (Function::SizePretty, []) => Ok(Value::text(size_pretty(i))),
        (Function::ToHex { is_long: true }, []) => Ok(Value::text(format!("{i:x}"))),
        (Function::ToHex { is_long: false }, []) => Ok(Value::text(format!("{:x}", i as i32))),
        (Function::Chr, []) if i == 0 => Err(failure("54000", "null character not permitted")),
        (Function::Chr, []) => {
            let character = u32::try_from(i)
                .ok()
                .filter(|code| *code != 0)
                .and_then(char::from_u32);
            let character = character.ok_or_else(|| {
                failure(
                    "54000",
                    format!("requested character not valid for encoding: {i}"),
                )
            })?;
            Ok(Value::text(character.to_string()))
        }
        (Function::MakeDate, [Value::Int(month), Value::Int(day)]) => make_date(i, *month, *day),
        _ => Err(undefined(function, rest)),
    }
}

fn of_numeric(function: &Function, d: Decimal, rest: &[Value]) -> Result<Value, Failure> {
    let places = match rest {
        [Value::Int(places)] => i32::try_from(*places).unwrap_or(i32::MAX),
        _ => 0,
    };
    match function {
        Function::Abs => Ok(d.abs()),
        Function::Sign => Ok(Decimal::from_i64(i64::from(d.signum()))),
        Function::Round => d.round(places),
        Function::Trunc => d.trunc(places),
        Function::Ceil => Ok(d.ceil()),
        Function::Floor => Ok(d.floor()),
        _ => return Err(undefined(function, rest)),
    }
    .map(Value::Numeric)
    .map_err(decimal_failure)
}

fn of_float(function: &Function, f: f64, rest: &[Value]) -> Result<Value, Failure> {
    let result = match (function, rest) {
        (Function::Abs, []) => f.abs(),
        (Function::Sign, []) if f == 0.0 || f.is_nan() => 0.0,
        (Function::Sign, []) => f.signum(),
        (Function::Round, []) => f.round_ties_even(),
        (Function::Trunc, []) => f.trunc(),
        (Function::Ceil, []) => f.ceil(),
        (Function::Floor, []) => f.floor(),
        (Function::Sqrt, []) if f < 0.0 => {
            return Err(failure(
                "2201F",
                "cannot take square root of a negative number",
            ));
        }
        (Function::Sqrt, []) => f.sqrt(),
        (Function::Exp, []) => f.exp(),
        (Function::Ln, []) if f == 0.0 => {
            return Err(failure("2201E", "cannot take logarithm of zero"));
        }
        (Function::Ln, []) if f < 0.0 => {
            return Err(failure(
                "2201E",
                "cannot take logarithm of a negative number",
            ));
        }
        (Function::Ln, []) => f.ln(),
        (Function::OfEpoch, []) => return datetime::of_epoch(f).map(Value::Timestamp),
        (Function::Power, [Value::Float(exponent)]) => arithmetic::power(f, *exponent)?,
        _ => return Err(undefined(function, rest)),
    };
    if result.is_infinite() && f.is_finite() {
        return Err(failure("22003", "value out of range: overflow"));
    }
    Ok(Value::Float(result))
}

fn of_timestamp(function: &Function, micros: i64, zone: &TimeZone) -> Result<Value, Failure> {
    match function {
        Function::Extract(field, clock) => {
            let moment = match clock {
                Clock::AsGiven => Some(micros),
                Clock::Zoned => zone.to_local(micros),
            };
            let moment = moment.ok_or_else(datetime::out_of_range)?;
            let (scaled, scale) = field.extract(moment);
            Ok(Value::Numeric(Decimal::from_scaled(scaled, scale)))
        }
        Function::DateTrunc(field, clock) => match clock {
            Clock::AsGiven => field.truncate(micros),
            Clock::Zoned => field.truncate_zoned(micros, zone),
        }
        .map(Value::Timestamp)
        .ok_or_else(|| failure("0A000", "this unit is not supported by date_trunc")),
        Function::AddInterval(interval, negative, clock) => {
            let zone = match clock {
                Clock::AsGiven => &TimeZone::UTC,
                Clock::Zoned => zone,
            };
            datetime::add(micros, *interval, *negative, zone).map(Value::Timestamp)
        }
        _ => Err(undefined(function, &[])),
    }
}

fn make_date(year: i64, month: i64, day: i64) -> Result<Value, Failure> {
    let part = |part: i64| u32::try_from(part).ok();
    let found = match (year, part(month), part(day)) {
        (1..=5_874_897, Some(month), Some(day)) => days_from_civil(year, month, day),
        _ => None,
    };
    found.map(Value::Date).ok_or_else(|| {
        let text = format!("{year}-{month:02}-{day:02}");
        failure("22008", format!("date field value out of range: {text}"))
    })
}

fn of_array(function: &Function, list: &[Value], rest: &[Value]) -> Result<Value, Failure> {
    match (function, rest) {
        (Function::Cardinality, []) => Ok(Value::Int(list.len() as i64)),
        (Function::ArrayLength, [Value::Int(1)]) if !list.is_empty() => {
            Ok(Value::Int(list.len() as i64))
        }
        (Function::ArrayUpper { lower }, [Value::Int(1)]) if !list.is_empty() => {
            Ok(Value::Int(list.len() as i64 + lower - 1))
        }
        (Function::ArrayLower { lower }, [Value::Int(1)]) if !list.is_empty() => {
            Ok(Value::Int(*lower))
        }
        (
            Function::ArrayLength | Function::ArrayUpper { .. } | Function::ArrayLower { .. },
            [_],
        ) => Ok(Value::Null),
        (Function::ArrayContains, [Value::Array(part)]) => {
            Ok(Value::Bool(array::contains(list, part)))
        }
        (Function::ArrayOverlaps, [Value::Array(other)]) => {
            Ok(Value::Bool(array::overlaps(list, other)))
        }
        _ => Err(undefined(function, rest)),
    }
}

fn of_text(function: &Function, text: &CompactString, rest: &[Value]) -> Result<Value, Failure> {
    let plain = |text: &str| Ok(Value::text(text));
    match (function, rest) {
        (Function::Length, []) => Ok(Value::Int(text.chars().count() as i64)),
        (Function::OctetLength, []) => Ok(Value::Int(text.len() as i64)),
        (Function::BitLength, []) => Ok(Value::Int(text.len() as i64 * 8)),
        (Function::Translate, [Value::Text(from), Value::Text(to)]) => translate(text, from, to),
        (Function::Substring, [Value::Int(from)]) => plain(substring(text, *from, None)?),
        (Function::Substring, [Value::Int(from), Value::Int(count)]) => {
            plain(substring(text, *from, Some(*count))?)
        }
        (Function::OfSimilar(escape), []) => plain(&regexp::of_similar(text, *escape)?),
        (Function::Overlay, [Value::Text(with), Value::Int(from), rest @ ..]) => {
            let count = match rest {
                [Value::Int(count)] => *count,
                _ => with.chars().count() as i64,
            };
            overlay(text, with, *from, count)
        }
        (Function::Left, [Value::Int(count)]) => plain(&text[..edge(text, *count)]),
        (Function::Right, [Value::Int(count)]) => {
            plain(&text[edge(text, count.checked_neg().unwrap_or(i64::MAX)).min(text.len())..])
                .map(|value| if *count == 0 { empty_text() } else { value })
        }
        (Function::Matches(compiled), [Value::Text(pattern)]) => {
            compiled.matches(text, pattern).map(Value::Bool)
        }
        (Function::QuoteIdentifier, []) => plain(&quoted(text)),
        (Function::QuoteLiteral, []) => plain(&quote::literal(text)),
        (Function::Upper, []) => plain(&text.chars().map(upper).collect::<String>()),
        (Function::Lower, []) => plain(&text.chars().map(lower).collect::<String>()),
        (Function::Initcap, []) => plain(&initcap(text)),
        (Function::TrimBoth, _) => plain(text.trim_matches(characters(rest).as_slice())),
        (Function::TrimLeft, _) => plain(text.trim_start_matches(characters(rest).as_slice())),
        (Function::TrimRight, _) => plain(text.trim_end_matches(characters(rest).as_slice())),
        (Function::Position, [Value::Text(part)]) => {
            Ok(Value::Int(match text.find(part.as_str()) {
                Some(at) => text[..at].chars().count() as i64 + 1,
                None => 0,
            }))
        }
        (Function::Replace, [Value::Text(from), Value::Text(to)]) => plain(&if from.is_empty() {
            text.to_string()
        } else {
            let found = text.matches(from.as_str()).count();
            let longer = to.len().saturating_sub(from.len());
            within_value(text.len() + found.saturating_mul(longer))?;
            text.replace(from.as_str(), to)
        }),
        (Function::LeftPad | Function::RightPad, [Value::Int(length), fill @ ..]) => {
            let fill = match fill {
                [Value::Text(fill)] => fill.as_str(),
                _ => " ",
            };
            pad(text, *length, fill, matches!(function, Function::LeftPad))
        }
        (Function::Repeat, [Value::Int(count)]) => {
            let count = usize::try_from(*count).unwrap_or(0);
            within_value(text.len().saturating_mul(count))?;
            plain(&text.repeat(count))
        }
        (Function::Reverse, []) => plain(&text.chars().rev().collect::<String>()),
        (Function::StartsWith, [Value::Text(prefix)]) => {
            Ok(Value::Bool(text.starts_with(prefix.as_str())))
        }
        (Function::SplitPart, [Value::Text(separator), Value::Int(place)]) => {
            split_part(text, separator, *place)
        }
        (Function::Md5, []) => Ok(Value::text(md5::hexadecimal(text.as_bytes()))),
        (Function::QuoteNullable, []) => plain(&quote::literal(text)),
        (Function::Ascii, []) => Ok(Value::Int(text.chars().next().map_or(0, |c| c as i64))),
        _ => Err(undefined(function, rest)),
    }
}

/// The byte after the first `count` characters; for a negative count, all but the last `-count`.
fn edge(text: &str, count: i64) -> usize {
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    match usize::try_from(count) {
        Ok(count) => at(count),
        Err(_) => {
            let dropped = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
            at(text.chars().count().saturating_sub(dropped))
        }
    }
}

fn substring(text: &str, from: i64, count: Option<i64>) -> Result<&str, Failure> {
    let end = match count {
        Some(count) if count < 0 => {
            return Err(failure("22011", "negative substring length not allowed"));
        }
        Some(count) => from.saturating_add(count),
        None => i64::MAX,
    };
    let first = usize::try_from(from.max(1) - 1).unwrap_or(usize::MAX);
    let last = usize::try_from(end.max(1) - 1).unwrap_or(usize::MAX);
    if last <= first {
        return Ok("");
    }
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    Ok(&text[at(first)..at(last)])
}

fn overlay(text: &str, with: &str, from: i64, count: i64) -> Result<Value, Failure> {
    if from <= 0 {
        return Err(failure("22011", "negative substring length not allowed"));
    }
    let end = i32::try_from(from + count).map_err(|_| failure("22003", "integer out of range"))?;
    let (before, behind) = (
        substring(text, 1, Some(from - 1))?,
        substring(text, end.into(), None)?,
    );
    within_value(before.len() + with.len() + behind.len())?;
    Ok(Value::text([before, with, behind].concat()))
}

fn characters(rest: &[Value]) -> Vec<char> {
    match rest {
        [Value::Text(set)] => set.chars().collect(),
        _ => vec![' '],
    }
}

/// A character in upper case. As in PostgreSQL, one that would become several stays: `ß`.
fn upper(c: char) -> char {
    only(c, c.to_uppercase())
}

/// A character in lower case, as [`upper`].
fn lower(c: char) -> char {
    only(c, c.to_lowercase())
}

fn only(c: char, mut changed: impl Iterator<Item = char>) -> char {
    match (changed.next(), changed.next()) {
        (Some(changed), None) => changed,
        _ => c,
    }
}

fn initcap(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.push(lower(c));
        } else {
            out.push(upper(c));
        }
        inside = c.is_alphanumeric();
    }
    out
}

fn pad(text: &str, length: i64, fill: &str, left: bool) -> Result<Value, Failure> {
    let length = usize::try_from(length).unwrap_or(0);
    within_value(length)?;
    let present = text.chars().count();
    if present >= length || fill.is_empty() {
        return Ok(Value::text(&text[..edge(text, length as i64)]));
    }
    // An upper bound: as if the whole filling were of its longest character.
    let widest = fill.chars().map(char::len_utf8).max().unwrap_or(1);
    within_value(text.len() + (length - present).saturating_mul(widest))?;
    let filling: String = fill.chars().cycle().take(length - present).collect();
    Ok(Value::text(if left {
        filling + text
    } else {
        text.to_string() + &filling
    }))
}

fn split_part(text: &str, separator: &str, place: i64) -> Result<Value, Failure> {
    if place == 0 {
        return Err(failure("22023", "field position must not be zero"));
    }
    let parts: Vec<&str> = if separator.is_empty() {
        vec![text]
    } else {
        text.split(separator).collect()
    };
    let index = if place > 0 {
        place - 1
    } else {
        parts.len() as i64 + place
    };
    let part = usize::try_from(index)
        .ok()
        .and_then(|index| parts.get(index));
    Ok(Value::text(part.copied().unwrap_or("")))
}

/// Each character that is in `from` becomes the one at its place in `to`, or goes where `to` is shorter.
fn translate(text: &str, from: &str, to: &str) -> Result<Value, Failure> {
    let mut places = BTreeMap::new();
    let mut to = to.chars();
    for character in from.chars() {
        let replacement = to.next();
        places.entry(character).or_insert(replacement);
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match places.get(&character) {
            None => out.push(character),
            Some(replacement) => out.extend(replacement),
        }
    }
    within_value(out.len())?;
    Ok(Value::Text(out.into()))
}

/// An empty text.
fn empty_text() -> Value {
    Value::Text(CompactString::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(function: Function, arguments: &[Value]) -> String {
        match call(&function, arguments, &TimeZone::UTC).unwrap() {
            Value::Text(text) => text.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn text_functions_count_characters_as_postgresql_does() {
        let t = |s: &str| Value::text(s);
        let i = Value::Int;
        assert_eq!(text(Function::Substring, &[t("abcdef"), i(-1), i(4)]), "ab");
        assert_eq!(text(Function::Substring, &[t("abcdef"), i(3)]), "cdef");
        assert_eq!(text(Function::Left, &[t("häll"), i(2)]), "hä");
        assert_eq!(text(Function::Left, &[t("hall"), i(-1)]), "hal");
        assert_eq!(text(Function::Right, &[t("hall"), i(3)]), "all");
        assert_eq!(text(Function::Right, &[t("hall"), i(-1)]), "all");
        assert_eq!(text(Function::Right, &[t("hall"), i(0)]), "");
        assert_eq!(text(Function::Right, &[t("hall"), i(9)]), "hall");
        assert_eq!(text(Function::LeftPad, &[t("7"), i(3), t("0")]), "007");
        assert_eq!(text(Function::LeftPad, &[t("1234"), i(2)]), "12");
        assert_eq!(text(Function::SplitPart, &[t("a,b,c"), t(","), i(-1)]), "c");
        assert_eq!(text(Function::Initcap, &[t("hELLO wORLD")]), "Hello World");
        assert_eq!(
            call(&Function::Position, &[t("abc"), t("c")], &TimeZone::UTC).unwrap(),
            i(3)
        );
        let error = call(&Function::Substring, &[t("a"), i(1), i(-1)], &TimeZone::UTC).unwrap_err();
        assert_eq!(error.code, "22011");
    }
}
