//! Dates and timestamps in PostgreSQL's ISO forms.
//!
//! Written as with `DateStyle = ISO`. Read are the forms of ISO 8601 and SQL: `2024-02-29`, `20240229`,
//! `2024-02-29 12:30[:00[.5]]`, with `T` for the blank, a time zone after it and `BC` at the end. The order of day and
//! month in other forms depends on `DateStyle`; they are refused. So are `infinity`, which a value cannot hold, and
//! `now`, `today` and their kin, which would make a constant depend on the time of its reading.

use super::{TextSink, push_digits};
use crate::calendar::{
    MICROS_PER_DAY, MICROS_PER_SECOND, civil_from_days, days_from_civil, is_date, is_timestamp,
};
use crate::zone::{self, TimeZone};
use crate::{DataType, EffectError};

/// Writes `2026-11-21`, with ` BC` after it for years before 1.
pub fn write_date(out: &mut impl TextSink, days: i32) {
    let era = write_day(out, days);
    out.push_str(era);
}

/// Writes `2026-11-21 09:30:00.25`: fractional seconds without trailing zeros.
pub fn write_timestamp(out: &mut impl TextSink, micros: i64) {
    let era = write_time(out, micros);
    out.push_str(era);
}

/// Writes `2026-11-21 09:30:00.25+01`: local time and its offset from UTC.
pub fn write_timestamptz(out: &mut impl TextSink, micros: i64, zone: &TimeZone) {
    let offset = zone.offset_at(micros);
    let local = micros.saturating_add(i64::from(offset) * MICROS_PER_SECOND);
    let era = write_time(out, local);
    let size = offset.unsigned_abs();
    out.push_str(if offset < 0 { "-" } else { "+" });
    push_digits(out, u64::from(size / 3_600), 2);
    if !size.is_multiple_of(3_600) {
        out.push_str(":");
        push_digits(out, u64::from(size / 60 % 60), 2);
    }
    if !size.is_multiple_of(60) {
        out.push_str(":");
        push_digits(out, u64::from(size % 60), 2);
    }
    out.push_str(era);
}

/// Writes year, month and day; gives what has to follow.
fn write_day(out: &mut impl TextSink, days: i32) -> &'static str {
    let (year, month, day) = civil_from_days(days);
    let (year, era) = if year > 0 {
        (year, "")
    } else {
        (1 - year, " BC")
    };
    push_digits(out, year.unsigned_abs(), 4);
    out.push_str("-");
    push_digits(out, u64::from(month), 2);
    out.push_str("-");
    push_digits(out, u64::from(day), 2);
    era
}

/// Writes a day and its time; gives what has to follow.
fn write_time(out: &mut impl TextSink, micros: i64) -> &'static str {
    let era = write_day(out, day_of(micros));
    let of_day = micros.rem_euclid(MICROS_PER_DAY).unsigned_abs();
    let (seconds, fraction) = (of_day / 1_000_000, of_day % 1_000_000);
    for (before, field) in [
        (" ", seconds / 3_600),
        (":", seconds / 60 % 60),
        (":", seconds % 60),
    ] {
        out.push_str(before);
        push_digits(out, field, 2);
    }
    if fraction != 0 {
        out.push_str(".");
        let (mut fraction, mut digits) = (fraction, 6);
        while fraction % 10 == 0 {
            fraction /= 10;
            digits -= 1;
        }
        push_digits(out, fraction, digits);
    }
    era
}

/// Parses a `date`. The time of day and the time zone after it, if any, are checked and passed over.
///
/// # Errors
/// With PostgreSQL's SQLSTATE and message: `22007` for bad syntax, `22008` out of range.
pub fn parse_date(text: &str) -> Result<i32, EffectError> {
    let Fields { days, .. } = Fields::parse(text, &DataType::Date)?;
    if is_date(days) {
        Ok(days)
    } else {
        Err(out_of_range("date", text))
    }
}

/// Parses a `timestamp`. A time zone after it is checked and passed over, as in PostgreSQL.
///
/// # Errors
/// As [`parse_date`].
pub fn parse_timestamp(text: &str) -> Result<i64, EffectError> {
    Fields::parse(text, &DataType::Timestamp)?.local(text, "timestamp")
}

/// Parses a `timestamptz`: in its own time zone, or in `zone` if it has none.
///
/// # Errors
/// As [`parse_date`].
pub fn parse_timestamptz(text: &str, zone: &TimeZone) -> Result<i64, EffectError> {
    let fields = Fields::parse(text, &DataType::TimestampTz)?;
    let local = fields.local_unchecked();
    let micros = local.and_then(|local| match &fields.zone {
        None => zone.to_utc(local),
        Some(Zone::Offset(seconds)) => local.checked_sub(i64::from(*seconds) * MICROS_PER_SECOND),
        Some(Zone::Named(zone)) => zone.to_utc(local),
    });
    micros
        .filter(|micros| is_timestamp(*micros))
        .ok_or_else(|| out_of_range("timestamp", text))
}

/// Whether the value of this text as a `timestamptz` depends on the session's time zone: it names none.
pub fn depends_on_zone(text: &str) -> bool {
    Fields::parse(text, &DataType::TimestampTz).is_ok_and(|fields| fields.zone.is_none())
}

/// What a text says of a moment.
struct Fields {
    days: i32,
    /// Microseconds; `None` if the text has no time of day.
    of_day: Option<i64>,
    zone: Option<Zone>,
}

/// A time zone in a text.
enum Zone {
    /// Seconds east of Greenwich.
    Offset(i32),
    Named(TimeZone),
}

impl Fields {
    fn parse(text: &str, data_type: &DataType) -> Result<Fields, EffectError> {
        let invalid = || {
            let message = format!("invalid input syntax for type {data_type}: \"{text}\"");
            EffectError::new(
                "22007",
                message.replace("timestamp without time zone", "timestamp"),
            )
        };
        let field_out_of_range = || {
            let message = format!("date/time field value out of range: \"{text}\"");
            EffectError::new("22008", message)
        };
        let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        if is_special(trimmed) {
            let message = format!(
                "\"{trimmed}\" is not supported in type {data_type}; write a date, or use now()"
            );
            return Err(EffectError::new("0A000", message));
        }
        let (trimmed, bc) = without_era(trimmed);
        let end = trimmed
            .find(|c: char| !c.is_ascii_digit() && c != '-')
            .unwrap_or(trimmed.len());
        let (date, rest) = trimmed.split_at(end);
        // The hyphen of an offset straight after a date without hyphens is none of the date's.
        let Some((year, month, day)) = split_date(date) else {
            // As PostgreSQL, which looks at a time of day before it misses the date.
            let end = trimmed
                .find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.'))
                .unwrap_or(trimmed.len());
            return Err(match time_of_day(&trimmed[..end]) {
                Some(None) => field_out_of_range(),
                _ => invalid(),
            });
        };
        let rest = match rest.as_bytes().first() {
            None => "",
            Some(b'T' | b't') if rest.len() > 1 => &rest[1..],
            Some(b' ') => rest.trim_start(),
            Some(_) => return Err(invalid()),
        };
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.'))
            .unwrap_or(rest.len());
        let (time, zone) = rest.split_at(end);
        let of_day = if time.is_empty() {
            None
        } else {
            let of_day = time_of_day(time).ok_or_else(invalid)?;
            Some(of_day.ok_or_else(field_out_of_range)?)
        };
        let zone = match zone.trim() {
            "" => None,
            zone => Some(parse_zone(zone, text, &invalid)?),
        };
        if year == 0 || year > 5_874_897 {
            return Err(field_out_of_range());
        }
        let year = if bc { 1 - year } else { year };
        let days = days_from_civil(year, month, day).ok_or_else(field_out_of_range)?;
        Ok(Fields { days, of_day, zone })
    }

    fn local_unchecked(&self) -> Option<i64> {
        i64::from(self.days)
            .checked_mul(MICROS_PER_DAY)?
            .checked_add(self.of_day.unwrap_or(0))
    }

    fn local(&self, text: &str, type_name: &str) -> Result<i64, EffectError> {
        self.local_unchecked()
            .filter(|micros| is_timestamp(*micros))
            .ok_or_else(|| out_of_range(type_name, text))
    }
}

fn out_of_range(type_name: &str, text: &str) -> EffectError {
    EffectError::new("22008", format!("{type_name} out of range: \"{text}\""))
}

/// The words that PostgreSQL reads as a moment.
fn is_special(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    [
        "infinity",
        "now",
        "today",
        "tomorrow",
        "yesterday",
        "epoch",
        "allballs",
    ]
    .iter()
    .any(|word| unsigned.eq_ignore_ascii_case(word))
}

fn without_era(text: &str) -> (&str, bool) {
    let Some(at) = text.len().checked_sub(3) else {
        return (text, false);
    };
    match text.get(at..) {
        Some(era) if era.eq_ignore_ascii_case(" bc") => (text[..at].trim_end(), true),
        Some(era) if era.eq_ignore_ascii_case(" ad") => (text[..at].trim_end(), false),
        _ => (text, false),
    }
}

/// `YYYY-M-D` or `YYYYMMDD`, with up to seven digits of the year.
fn split_date(text: &str) -> Option<(i64, u32, u32)> {
    if !text.contains('-') {
        let whole = matches!(text.len(), 8).then_some(text)?;
        return Some((
            number(&whole[..4], 4)?.into(),
            number(&whole[4..6], 2)?,
            number(&whole[6..], 2)?,
        ));
    }
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() < 4 {
        return None;
    }
    Some((number(year, 7)?.into(), number(month, 2)?, number(day, 2)?))
}

/// Parses `HH:MM[:SS[.ffffff]]` and `HHMMSS[.ffffff]`: `None` for bad syntax, `Some(None)` out of range.
pub fn time_of_day(text: &str) -> Option<Option<i64>> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (hour, minute, second) = match whole.split_once(':') {
        None if whole.len() == 6 && whole.is_ascii() => (
            number(&whole[..2], 2)?,
            number(&whole[2..4], 2)?,
            number(&whole[4..], 2)?,
        ),
        None => return None,
        Some((hour, rest)) => match rest.split_once(':') {
            None if text.contains('.') => return None,
            None => (number(hour, 9)?, number(rest, 9)?, 0),
            Some((minute, second)) => (number(hour, 9)?, number(minute, 9)?, number(second, 9)?),
        },
    };
    let fraction = fraction_micros(fraction)?;
    let micros = (i64::from(hour) * 3_600 + i64::from(minute) * 60 + i64::from(second))
        * MICROS_PER_SECOND
        + fraction;
    // A leap second and the end of the day are taken, nothing beyond them.
    let fits = minute <= 59 && second <= 60 && micros <= MICROS_PER_DAY && hour <= 24;
    Some(fits.then_some(micros))
}

/// The digits after a second's point as microseconds: rounded as a float, ties to even, as PostgreSQL does.
fn fraction_micros(text: &str) -> Option<i64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if text.len() <= 6 {
        let digits: i64 = if text.is_empty() {
            0
        } else {
            text.parse().ok()?
        };
        return Some(digits * 10i64.pow(6 - text.len() as u32));
    }
    let fraction: f64 = format!("0.{text}").parse().ok()?;
    Some((fraction * 1e6).round_ties_even() as i64)
}

fn parse_zone(
    text: &str,
    whole: &str,
    invalid: &dyn Fn() -> EffectError,
) -> Result<Zone, EffectError> {
    if let Some(sign) = text.strip_prefix(['+', '-']).map(|_| text.as_bytes()[0]) {
        let size = offset(&text[1..]).ok_or_else(invalid)?;
        let Some(size) = size else {
            let message = format!("time zone displacement out of range: \"{whole}\"");
            return Err(EffectError::new("22009", message));
        };
        return Ok(Zone::Offset(if sign == b'-' { -size } else { size }));
    }
    if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(invalid());
    }
    if ["z", "utc", "gmt", "zulu", "ut"]
        .iter()
        .any(|name| text.eq_ignore_ascii_case(name))
    {
        return Ok(Zone::Offset(0));
    }
    match zone::TimeZone::of_database(text) {
        Some(zone) => Ok(Zone::Named(zone)),
        None if text.contains('/') => {
            let message = format!("time zone \"{}\" not recognized", text.to_ascii_lowercase());
            Err(EffectError::new("22023", message))
        }
        None => Err(invalid()),
    }
}

/// `HH`, `HHMM`, `HH:MM` or `HH:MM:SS` in seconds: `None` for bad syntax, `Some(None)` out of range.
fn offset(text: &str) -> Option<Option<i32>> {
    let (hours, minutes, seconds) = match text.split_once(':') {
        Some((hours, rest)) => {
            let (minutes, seconds) = rest.split_once(':').unwrap_or((rest, "0"));
            (number(hours, 2)?, number(minutes, 2)?, number(seconds, 2)?)
        }
        None => {
            let whole = number(text, 6)?;
            match text.len() {
                0..=2 => (whole, 0, 0),
                _ => (whole / 100, whole % 100, 0),
            }
        }
    };
    let fits = hours <= 15 && minutes <= 59 && seconds <= 59;
    Some(fits.then_some((hours * 3_600 + minutes * 60 + seconds) as i32))
}

fn number(text: &str, digits_max: usize) -> Option<u32> {
    let plain = !text.is_empty()
        && text.len() <= digits_max
        && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// The day of a moment in local time.
#[inline]
pub fn day_of(local: i64) -> i32 {
    // 64 bits of microseconds are less than 32 bits of days.
    local.div_euclid(MICROS_PER_DAY) as i32
}
