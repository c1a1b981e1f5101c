//! Dates, timestamps, and the supported part of intervals.
//!
//! Days and microseconds count from 2000-01-01, as PostgreSQL's do; the calendar is the proleptic Gregorian one. The
//! session's time zone is always UTC.

use super::{Failure, failure};

/// Microseconds in a day.
pub(crate) const DAY: i64 = 86_400_000_000;
const HOUR: i64 = 3_600_000_000;
const MINUTE: i64 = 60_000_000;
const SECOND: i64 = 1_000_000;
/// Days from 1970-01-01 to 2000-01-01.
const EPOCH_DAYS: i64 = 10_957;

/// A constant interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) months: i32,
    pub(crate) days: i32,
    pub(crate) micros: i64,
}

/// A field of a date or timestamp, for `extract`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Epoch,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Week,
    Quarter,
    Decade,
    Century,
    Millennium,
}

impl Field {
    /// The field with this name in lower case.
    pub(crate) fn named(name: &str) -> Option<Field> {
        Some(match name.trim_end_matches('s') {
            "year" => Field::Year,
            "month" => Field::Month,
            "day" => Field::Day,
            "hour" => Field::Hour,
            "minute" => Field::Minute,
            "second" => Field::Second,
            "millisecond" => Field::Millisecond,
            "microsecond" => Field::Microsecond,
            "epoch" => Field::Epoch,
            "dow" => Field::DayOfWeek,
            "isodow" => Field::IsoDayOfWeek,
            "doy" => Field::DayOfYear,
            "week" => Field::Week,
            "quarter" => Field::Quarter,
            "decade" => Field::Decade,
            "century" => Field::Century,
            "millennium" => Field::Millennium,
            _ => return None,
        })
    }

    /// The field of a timestamp, in units of `10^-scale`: an exact decimal.
    pub(crate) fn extract(self, micros: i64) -> (i64, u16) {
        let days = micros.div_euclid(DAY);
        let time = micros.rem_euclid(DAY);
        let (year, month, day) = civil(days);
        let year_of_era = |unit: i64| {
            if year > 0 {
                (year + unit - 1) / unit
            } else {
                -((-year) / unit + 1)
            }
        };
        match self {
            Field::Year => (if year > 0 { year } else { year - 1 }, 0),
            Field::Month => (i64::from(month), 0),
            Field::Day => (i64::from(day), 0),
            Field::Hour => (time / HOUR, 0),
            Field::Minute => (time % HOUR / MINUTE, 0),
            Field::Second => (time % MINUTE, 6),
            Field::Millisecond => (time % MINUTE, 3),
            Field::Microsecond => (time % MINUTE, 0),
            Field::Epoch => (micros + EPOCH_DAYS * DAY, 6),
            Field::DayOfWeek => ((days + 6).rem_euclid(7), 0),
            Field::IsoDayOfWeek => ((days + 5).rem_euclid(7) + 1, 0),
            Field::DayOfYear => (days - days_of(year, 1, 1) + 1, 0),
            Field::Week => (iso_week(days), 0),
            Field::Quarter => (i64::from((month - 1) / 3 + 1), 0),
            Field::Decade => (year.div_euclid(10), 0),
            Field::Century => (year_of_era(100), 0),
            Field::Millennium => (year_of_era(1000), 0),
        }
    }

    /// The timestamp cut down to this field; `None` where `date_trunc` has no such field.
    pub(crate) fn truncate(self, micros: i64) -> Option<i64> {
        let days = micros.div_euclid(DAY);
        let (year, month, _) = civil(days);
        let down = |unit: i64| micros - micros.rem_euclid(unit);
        Some(match self {
            Field::Microsecond => micros,
            Field::Millisecond => down(1_000),
            Field::Second => down(SECOND),
            Field::Minute => down(MINUTE),
            Field::Hour => down(HOUR),
            Field::Day => days * DAY,
            Field::Week => (days - (days + 5).rem_euclid(7)) * DAY,
            Field::Month => days_of(year, month, 1) * DAY,
            Field::Quarter => days_of(year, (month - 1) / 3 * 3 + 1, 1) * DAY,
            Field::Year => days_of(year, 1, 1) * DAY,
            _ => return None,
        })
    }
}

fn iso_week(days: i64) -> i64 {
    let thursday = days - (days + 5).rem_euclid(7) + 3;
    let (year, _, _) = civil(thursday);
    (thursday - days_of(year, 1, 1)) / 7 + 1
}

/// Days since 2000-01-01 of a day of the civil calendar.
pub(crate) fn days_of(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468 - EPOCH_DAYS
}

/// Year, month and day of a number of days since 2000-01-01.
pub(crate) fn civil(days: i64) -> (i64, u32, u32) {
    let z = days + EPOCH_DAYS + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// The number of days in a month.
fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// A timestamp plus an interval: months first (the day clipped to the month), then days, then time.
pub(crate) fn add(micros: i64, interval: Interval, negative: bool) -> Result<i64, Failure> {
    let sign = if negative { -1 } else { 1 };
    let out_of_range = || failure("22008", "timestamp out of range");
    let mut days = micros.div_euclid(DAY);
    let time = micros.rem_euclid(DAY);
    if interval.months != 0 {
        let (year, month, day) = civil(days);
        let months = year * 12 + i64::from(month) - 1 + sign * i64::from(interval.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
        days = days_of(year, month, day.min(days_in_month(year, month)));
    }
    days += sign * i64::from(interval.days);
    days.checked_mul(DAY)
        .and_then(|start| start.checked_add(time))
        .and_then(|start| start.checked_add(sign * interval.micros))
        .ok_or_else(out_of_range)
}

/// Writes a date.
pub(crate) fn format_date(out: &mut String, days: i64) {
    use std::fmt::Write;
    let (year, month, day) = civil(days);
    let (shown, era) = if year > 0 {
        (year, "")
    } else {
        (1 - year, " BC")
    };
    write!(out, "{shown:04}-{month:02}-{day:02}{era}").expect("a String takes everything");
}

/// Writes a timestamp.
pub(crate) fn format_timestamp(out: &mut String, micros: i64, zone: bool) {
    use std::fmt::Write;
    let days = micros.div_euclid(DAY);
    let time = micros.rem_euclid(DAY);
    let (year, month, day) = civil(days);
    let (shown, era) = if year > 0 {
        (year, "")
    } else {
        (1 - year, " BC")
    };
    let (hour, minute, second) = (time / HOUR, time % HOUR / MINUTE, time % MINUTE / SECOND);
    write!(
        out,
        "{shown:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
    )
    .expect("a String takes everything");
    let fraction = time % SECOND;
    if fraction != 0 {
        let digits = format!("{fraction:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
    if zone {
        out.push_str("+00");
    }
    out.push_str(era);
}

/// Parses ISO 8601 dates and timestamps: `2024-02-29`, `2024-02-29 12:30:00.5`, with `T` and a
/// numeric zone allowed. Microseconds since 2000-01-01; the zone's offset is taken into account
/// when `zoned`, and passed over otherwise, as PostgreSQL does.
pub(crate) fn parse_timestamp(text: &str, zoned: bool, type_name: &str) -> Result<i64, Failure> {
    let invalid = || {
        failure(
            "22007",
            format!("invalid input syntax for type {type_name}: \"{text}\""),
        )
    };
    let out_of_range = || {
        failure(
            "22008",
            format!("date/time field value out of range: \"{text}\""),
        )
    };
    let trimmed = text.trim();
    if matches!(parse_clock(trimmed, false), Some(None)) {
        // No date, and no time of day either.
        return Err(out_of_range());
    }
    let (date, time) = match trimmed.find(['T', ' ', 't']) {
        Some(at) => (&trimmed[..at], trimmed[at + 1..].trim()),
        None => (trimmed, ""),
    };
    let mut fields = date.split('-');
    let mut number = |digits_min: usize| -> Result<i64, Failure> {
        let field = fields.next().ok_or_else(invalid)?;
        let plain = field.len() >= digits_min && field.bytes().all(|b| b.is_ascii_digit());
        if plain {
            field.parse().map_err(|_| invalid())
        } else {
            Err(invalid())
        }
    };
    let (year, month, day) = (number(4)?, number(1)?, number(1)?);
    if fields.next().is_some() {
        return Err(invalid());
    }
    let valid = (1..=294_276).contains(&year)
        && (1..=12).contains(&month)
        && day >= 1
        && day <= i64::from(days_in_month(year, month as u32));
    if !valid {
        return Err(out_of_range());
    }
    let days = days_of(year, month as u32, day as u32);
    let clock = parse_clock(time, zoned).ok_or_else(invalid)?;
    let clock = clock.ok_or_else(out_of_range)?;
    days.checked_mul(DAY)
        .and_then(|start| start.checked_add(clock))
        .ok_or_else(out_of_range)
}

/// Parses `12:30[:00[.5]][zone]`: `None` for bad syntax, `Some(None)` for a field out of range.
fn parse_clock(text: &str, zoned: bool) -> Option<Option<i64>> {
    if text.is_empty() {
        return Some(Some(0));
    }
    let end = text.find(['+', '-', 'Z', 'z']).unwrap_or(text.len());
    let (clock, zone) = (text[..end].trim_end(), &text[end..]);
    let mut fields = clock.split(':');
    let hour: i64 = digits(fields.next()?)?;
    let minute: i64 = digits(fields.next()?)?;
    let micros = match fields.next() {
        None => 0,
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
            let whole = digits(whole)?;
            if whole > 60 {
                return Some(None);
            }
            whole * SECOND + parse_fraction(fraction)?
        }
    };
    if fields.next().is_some() {
        return None;
    }
    if hour > 24 || minute > 59 {
        return Some(None);
    }
    let offset = if zoned { parse_zone(zone)? } else { 0 };
    Some(Some(hour * HOUR + minute * MINUTE + micros - offset))
}

fn digits(text: &str) -> Option<i64> {
    let plain = !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// The digits after a second's point as microseconds, rounded.
fn parse_fraction(text: &str) -> Option<i64> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut micros = 0;
    for place in 0..6 {
        micros = micros * 10 + i64::from(text.as_bytes().get(place).map_or(0, |b| b - b'0'));
    }
    let round_up = text.as_bytes().get(6).is_some_and(|digit| *digit >= b'5');
    Some(micros + i64::from(round_up))
}

/// `+02`, `-05:30`, `Z` or nothing, as microseconds east of Greenwich.
fn parse_zone(zone: &str) -> Option<i64> {
    let (sign, rest) = match zone.as_bytes().first() {
        None | Some(b'Z' | b'z') => return Some(0),
        Some(b'-') => (-1, &zone[1..]),
        _ => (1, &zone[1..]),
    };
    let (hours, minutes) = match rest.split_once(':') {
        Some((hours, minutes)) => (digits(hours)?, digits(minutes)?),
        None if rest.len() == 4 => (digits(&rest[..2])?, digits(&rest[2..])?),
        None => (digits(rest)?, 0),
    };
    Some(sign * (hours * HOUR + minutes * MINUTE))
}

/// Parses the intervals that people write in SQL: `1 day`, `3 months 2 hours`, `01:30:00`,
/// `-5 minutes`.
pub(crate) fn parse_interval(text: &str) -> Option<Interval> {
    let mut interval = Interval {
        months: 0,
        days: 0,
        micros: 0,
    };
    let mut words = text.split_whitespace().peekable();
    words.peek()?;
    while let Some(word) = words.next() {
        if word.contains(':') {
            let (negative, clock) = match word.strip_prefix('-') {
                Some(clock) => (true, clock),
                None => (false, word),
            };
            let micros = parse_clock(clock, false)??;
            interval.micros += if negative { -micros } else { micros };
            continue;
        }
        let split = word
            .find(|c: char| c.is_ascii_alphabetic())
            .unwrap_or(word.len());
        let (number, attached) = word.split_at(split);
        let amount: i64 = number.parse().ok()?;
        let unit = if attached.is_empty() {
            words.next()?
        } else {
            attached
        };
        let unit = unit.to_ascii_lowercase();
        let small = i32::try_from(amount).ok()?;
        match unit.strip_suffix('s').unwrap_or(&unit) {
            "year" | "yr" | "y" => {
                interval.months = small.checked_mul(12)?.checked_add(interval.months)?
            }
            "month" | "mon" => interval.months = interval.months.checked_add(small)?,
            "week" | "w" => interval.days = small.checked_mul(7)?.checked_add(interval.days)?,
            "day" | "d" => interval.days = interval.days.checked_add(small)?,
            "hour" | "hr" | "h" => interval.micros += amount.checked_mul(HOUR)?,
            "minute" | "min" => interval.micros += amount.checked_mul(MINUTE)?,
            "second" | "sec" => interval.micros += amount.checked_mul(SECOND)?,
            "millisecond" => interval.micros += amount.checked_mul(1_000)?,
            "microsecond" => interval.micros += amount,
            _ => return None,
        }
    }
    Some(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_civil_dates_are_inverse() {
        for days in (-800_000..800_000).step_by(37) {
            let (year, month, day) = civil(days);
            assert_eq!(days_of(year, month, day), days);
        }
        assert_eq!(days_of(2000, 1, 1), 0);
        assert_eq!(civil(59), (2000, 2, 29));
    }

    #[test]
    fn fields_are_those_of_postgresql() {
        let t = parse_timestamp("2024-03-09 13:14:15.5", false, "timestamp").unwrap();
        let field = |name: &str| Field::named(name).unwrap().extract(t);
        assert_eq!(field("year"), (2024, 0));
        assert_eq!(field("dow"), (6, 0));
        assert_eq!(field("doy"), (69, 0));
        assert_eq!(field("week"), (10, 0));
        assert_eq!(field("second"), (15_500_000, 6));
        assert_eq!(field("epoch"), (1_709_990_055_500_000, 6));
        let plus = add(t, parse_interval("1 month -3 days 01:00").unwrap(), false).unwrap();
        let mut text = String::new();
        format_timestamp(&mut text, plus, false);
        assert_eq!(text, "2024-04-06 14:14:15.5");
    }

    #[test]
    fn impossible_dates_are_refused() {
        for text in ["2023-02-29", "2024-13-01", "2024-00-10"] {
            assert_eq!(
                parse_timestamp(text, false, "date").unwrap_err().code,
                "22008"
            );
        }
        for text in ["yesterday", "2024-01", "2024-01-01 25", ""] {
            assert_eq!(
                parse_timestamp(text, false, "date").unwrap_err().code,
                "22007"
            );
        }
    }
}
