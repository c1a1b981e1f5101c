//! Dates, timestamps, UUIDs and bytes as text, in PostgreSQL's ISO forms.
//!
//! The calendar is the proleptic Gregorian one, as in PostgreSQL; years before 1 are written with
//! ` BC`. Day 0 and microsecond 0 are 2000-01-01 00:00:00. The session time zone is UTC.

use std::fmt::Write;

use crate::Value;

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
/// Days from 0000-03-01 to 2000-01-01.
const EPOCH_DAYS: i64 = 730_425;
/// PostgreSQL's range of dates in a timestamp, of which this is the part kept: years -4713 to
/// 294276.
const YEAR_MAX: i64 = 294_276;

/// A date's year (0 is 1 BC), month and day.
pub fn civil_from_days(days: i32) -> (i64, u32, u32) {
    let days = i64::from(days) + EPOCH_DAYS;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u32, day as u32)
}

/// The date of a year (0 is 1 BC), month and day; `None` where the calendar has no such day.
pub fn days_from_civil(year: i64, month: u32, day: u32) -> Option<i32> {
    if !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let month_from_march = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    i32::try_from(era * 146_097 + day_of_era - EPOCH_DAYS).ok()
}

fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// `2026-11-21`, with ` BC` after it for years before 1.
pub fn format_date(days: i32) -> String {
    let (year, month, day) = civil_from_days(days);
    let shown = if year > 0 { year } else { 1 - year };
    format!(
        "{shown:04}-{month:02}-{day:02}{}",
        if year > 0 { "" } else { " BC" }
    )
}

/// `2026-11-21 09:30:00.25`: fractional seconds without trailing zeros.
pub fn format_timestamp(micros: i64) -> String {
    with_time(micros, "")
}

/// `2026-11-21 09:30:00.25+00`, in UTC.
pub fn format_timestamptz(micros: i64) -> String {
    with_time(micros, "+00")
}

fn with_time(micros: i64, zone: &str) -> String {
    let days = micros.div_euclid(MICROS_PER_DAY);
    let of_day = micros.rem_euclid(MICROS_PER_DAY);
    let date = format_date(days as i32);
    let (date, era) = date
        .strip_suffix(" BC")
        .map_or((&*date, ""), |date| (date, " BC"));
    let seconds = of_day / MICROS_PER_SECOND;
    let mut text = format!(
        "{date} {:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    );
    let fraction = of_day % MICROS_PER_SECOND;
    if fraction != 0 {
        let digits = format!("{fraction:06}");
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
    text + zone + era
}

/// Parses `YYYY-MM-DD`, with ` BC` after it for years before 1. `None` for anything else.
pub fn parse_date(text: &str) -> Option<i32> {
    let (date, bc) = without_era(text.trim());
    date_part(date, bc)
}

/// Parses `YYYY-MM-DD[( |T)HH:MM[:SS[.ffffff]]]`; a time zone after it is passed over, as
/// PostgreSQL does for `timestamp`. `None` for anything else.
pub fn parse_timestamp(text: &str) -> Option<i64> {
    parse_with_zone(text).map(|(micros, _)| micros)
}

/// Parses what [`parse_timestamp`] does and takes the time zone (`Z`, `UTC`, `+HH`, `+HHMM`,
/// `+HH:MM`) into account; UTC where there is none.
pub fn parse_timestamptz(text: &str) -> Option<i64> {
    let (micros, zone_seconds) = parse_with_zone(text)?;
    micros.checked_sub(zone_seconds * MICROS_PER_SECOND)
}

fn parse_with_zone(text: &str) -> Option<(i64, i64)> {
    let (text, bc) = without_era(text.trim());
    let (date, rest) = match text.find([' ', 'T', 't']) {
        Some(at) => (&text[..at], text[at + 1..].trim_start()),
        None => (text, ""),
    };
    let days = i64::from(date_part(date, bc)?);
    let zone_at = rest.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.');
    let (time, zone) = rest.split_at(zone_at.unwrap_or(rest.len()));
    let of_day = if time.is_empty() { 0 } else { time_part(time)? };
    let micros = days.checked_mul(MICROS_PER_DAY)?.checked_add(of_day)?;
    Some((micros, zone_part(zone.trim())?))
}

fn without_era(text: &str) -> (&str, bool) {
    let bc = text.len() > 3
        && text
            .get(text.len() - 3..)
            .is_some_and(|e| e.eq_ignore_ascii_case(" bc"));
    if bc {
        (text[..text.len() - 3].trim_end(), true)
    } else {
        (text, false)
    }
}

fn date_part(text: &str, bc: bool) -> Option<i32> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() < 4 {
        return None;
    }
    let year: i64 = number(year, 6)?.into();
    if year == 0 || year > YEAR_MAX || bc && year > 4_713 {
        return None;
    }
    days_from_civil(
        if bc { 1 - year } else { year },
        number(month, 2)?,
        number(day, 2)?,
    )
}

fn time_part(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.split(':');
    let hour: i64 = number(parts.next()?, 2)?.into();
    let minute: i64 = number(parts.next()?, 2)?.into();
    let second: i64 = parts
        .next()
        .map_or(Some(0), |second| number(second, 2))?
        .into();
    let whole_day =
        hour == 24 && minute == 0 && second == 0 && fraction.trim_matches('0').is_empty();
    if parts.next().is_some() || hour > 23 && !whole_day || minute > 59 || second > 60 {
        return None;
    }
    let mut micros = 0;
    if !fraction.is_empty() {
        if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let padded = format!("{fraction:0<7}");
        // Rounded to microseconds by the seventh digit.
        micros = (padded[..7].parse::<i64>().ok()? + 5) / 10;
    }
    Some(((hour * 60 + minute) * 60 + second) * MICROS_PER_SECOND + micros)
}

/// A time zone's offset from UTC in seconds.
fn zone_part(text: &str) -> Option<i64> {
    if ["", "z", "utc", "gmt"]
        .iter()
        .any(|zone| text.eq_ignore_ascii_case(zone))
    {
        return Some(0);
    }
    let sign = match text.as_bytes()[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = &text[1..];
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 && digits.is_ascii() => digits.split_at(2),
        None => (digits, "0"),
    };
    let (hours, minutes) = (i64::from(number(hours, 2)?), i64::from(number(minutes, 2)?));
    (hours <= 15 && minutes <= 59).then_some(sign * (hours * 60 + minutes) * 60)
}

fn number(text: &str, digits_max: usize) -> Option<u32> {
    let plain = !text.is_empty()
        && text.len() <= digits_max
        && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// `a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11`
pub fn format_uuid(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Parses PostgreSQL's forms: hexadecimal of either case, a hyphen after any group of four digits
/// or none, braces around it or none. `None` for anything else.
pub fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.trim();
    let inner = match text.strip_prefix('{') {
        Some(inner) => inner.strip_suffix('}')?,
        None => text,
    };
    let mut uuid = [0; 16];
    let mut digits = 0;
    let mut hyphen_allowed = false;
    for c in inner.chars() {
        if c == '-' && hyphen_allowed && digits < 32 {
            hyphen_allowed = false;
            continue;
        }
        let digit = c.to_digit(16)? as u8;
        *uuid.get_mut(digits / 2)? |= digit << if digits % 2 == 0 { 4 } else { 0 };
        digits += 1;
        hyphen_allowed = digits % 4 == 0;
    }
    (digits == 32).then_some(uuid)
}

/// `\x` and hexadecimal.
pub fn format_bytea(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Parses PostgreSQL's two input forms: `\x` and hexadecimal (blanks between bytes), or text with
/// `\\` and `\ooo` escapes. `None` for anything else.
pub fn parse_bytea(text: &str) -> Option<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(hexadecimal) => parse_hexadecimal(hexadecimal),
        None => parse_escaped(text.as_bytes()),
    }
}

fn parse_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c.is_ascii_whitespace() {
            continue;
        }
        let high = c.to_digit(16)?;
        let low = rest.next()?.to_digit(16)?;
        bytes.push((high * 16 + low) as u8);
    }
    Some(bytes)
}

fn parse_escaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match (text[at], text.get(at + 1..at + 4)) {
            (b'\\', _) if text.get(at + 1) == Some(&b'\\') => {
                bytes.push(b'\\');
                at += 2;
            }
            (b'\\', Some(&[high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7'])) => {
                bytes.push((high - b'0') * 64 + (middle - b'0') * 8 + (low - b'0'));
                at += 4;
            }
            (b'\\', _) => return None,
            (byte, _) => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    Some(bytes)
}

/// A value for a message to people; the exact text of a type is the `sql` crate's.
pub fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(true) => "t".to_owned(),
        Value::Bool(false) => "f".to_owned(),
        Value::Int(int) => int.to_string(),
        Value::Float(float) => float.to_string(),
        Value::Numeric(decimal) => decimal.to_string(),
        Value::Text(text) => text.to_string(),
        Value::Bytes(bytes) => format_bytea(bytes),
        Value::Uuid(uuid) => format_uuid(uuid),
        Value::Timestamp(micros) => format_timestamp(*micros),
        Value::Date(days) => format_date(*days),
        Value::Array(values) => {
            let parts: Vec<String> = values.iter().map(describe).collect();
            format!("{{{}}}", parts.join(","))
        }
        Value::Pending(pending) => format!("{} + {}", pending.slot, pending.offset),
    }
}
