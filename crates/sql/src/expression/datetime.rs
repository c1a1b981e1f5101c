//! Dates, timestamps, and the supported part of intervals.
//!
//! Days and microseconds count from 2000-01-01, as PostgreSQL's do; the calendar is the proleptic Gregorian one.
//! What depends on a time zone takes it as a parameter.

use anabranch_types::{
    TimeZone,
    calendar::{
        MICROS_PER_DAY as DAY, civil_from_days, days_from_civil, days_in_month, is_timestamp,
    },
    text::moment::time_of_day,
};

use super::{Failure, failure};

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

    /// A `timestamptz` cut down to this field in a time zone; `None` where `date_trunc` has no such field.
    pub(crate) fn truncate_zoned(self, micros: i64, zone: &TimeZone) -> Option<i64> {
        let local = zone.to_local(micros)?;
        let cut = self.truncate(local)?;
        match self {
            // The offset stays, so that a repeated hour keeps its place.
            Field::Microsecond
            | Field::Millisecond
            | Field::Second
            | Field::Minute
            | Field::Hour => Some(micros - (local - cut)),
            _ => zone.to_utc(cut),
        }
    }
}

fn iso_week(days: i64) -> i64 {
    let thursday = days - (days + 5).rem_euclid(7) + 3;
    let (year, _, _) = civil(thursday);
    (thursday - days_of(year, 1, 1)) / 7 + 1
}

/// Days since 2000-01-01 of a day that the calendar has.
fn days_of(year: i64, month: u32, day: u32) -> i64 {
    days_from_civil(year, month, day).map_or(0, i64::from)
}

/// Year, month and day of a number of days since 2000-01-01.
fn civil(days: i64) -> (i64, u32, u32) {
    // 64 bits of microseconds are less than 32 bits of days.
    civil_from_days(days as i32)
}

/// The error of a moment beyond those that PostgreSQL has.
pub(super) fn out_of_range() -> Failure {
    failure("22008", "timestamp out of range")
}

/// A moment plus an interval: months first (the day clipped to the month), then days, then time. Months and days are
/// those of the local calendar, so that the time of day stays; the time is added as it passes.
pub(crate) fn add(
    micros: i64,
    interval: Interval,
    negative: bool,
    zone: &TimeZone,
) -> Result<i64, Failure> {
    let sign = if negative { -1 } else { 1 };
    let local = |micros: i64| zone.to_local(micros).ok_or_else(out_of_range);
    let moment = |days: i64, time: i64| {
        let local = days
            .checked_mul(DAY)
            .and_then(|start| start.checked_add(time));
        local
            .and_then(|local| zone.to_utc(local))
            .ok_or_else(out_of_range)
    };
    let mut micros = micros;
    if interval.months != 0 {
        let from = local(micros)?;
        let (year, month, day) = civil(from.div_euclid(DAY));
        let months = year * 12 + i64::from(month) - 1 + sign * i64::from(interval.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
        let day = day.min(days_in_month(year, month));
        let days = days_from_civil(year, month, day).ok_or_else(out_of_range)?;
        micros = moment(days.into(), from.rem_euclid(DAY))?;
    }
    if interval.days != 0 {
        let from = local(micros)?;
        let days = from.div_euclid(DAY) + sign * i64::from(interval.days);
        micros = moment(days, from.rem_euclid(DAY))?;
    }
    micros
        .checked_add(sign * interval.micros)
        .filter(|micros| is_timestamp(*micros))
        .ok_or_else(out_of_range)
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
            let micros = time_of_day(clock)??;
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

/// The moment so many seconds after 1970 began.
pub(crate) fn of_epoch(seconds: f64) -> Result<i64, Failure> {
    if seconds.is_nan() {
        return Err(failure("22008", "timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        return Err(failure("0A000", "an infinite timestamp is not supported"));
    }
    let micros = (seconds - (EPOCH_DAYS * 86_400) as f64) * SECOND as f64;
    let micros = micros.round_ties_even();
    let is_in_range = micros.abs() < i64::MAX as f64 && is_timestamp(micros as i64);
    match is_in_range {
        true => Ok(micros as i64),
        false => {
            let message = format!("timestamp out of range: \"{seconds}\"");
            Err(failure("22008", message))
        }
    }
}

/// A local moment of a year, month and day, an hour and minute, and seconds.
pub(crate) fn made(
    [year, month, day]: [i64; 3],
    [hour, minute]: [i64; 2],
    second: f64,
) -> Result<i64, Failure> {
    // A negative year is one before Christ.
    let astronomical = if year < 0 { year + 1 } else { year };
    let part = |part: i64| u32::try_from(part).ok();
    let days = match (part(month), part(day)) {
        (Some(month), Some(day)) if year != 0 => days_from_civil(astronomical, month, day),
        _ => None,
    };
    let Some(days) = days else {
        let text = format!("{year}-{month:02}-{day:02}");
        let message = format!("date field value out of range: {text}");
        return Err(failure("22008", message));
    };
    let micros = (second * SECOND as f64).round_ties_even();
    let is_time = (0..60).contains(&minute)
        && (0.0..=60.0 * SECOND as f64).contains(&micros)
        && ((0..24).contains(&hour) || (hour == 24 && minute == 0 && micros == 0.0));
    if !is_time {
        let message = format!("time field value out of range: {hour}:{minute:02}:{second:02}");
        return Err(failure("22008", message));
    }
    let time = hour * HOUR + minute * MINUTE + micros as i64;
    i64::from(days)
        .checked_mul(DAY)
        .and_then(|micros| micros.checked_add(time))
        .filter(|micros| is_timestamp(*micros))
        .ok_or_else(out_of_range)
}

#[cfg(test)]
mod tests {
    use anabranch_types::text::moment::parse_timestamp;

    use super::*;

    #[test]
    fn fields_are_those_of_postgresql() {
        let t = parse_timestamp("2024-03-09 13:14:15.5").unwrap();
        let field = |name: &str| Field::named(name).unwrap().extract(t);
        assert_eq!(field("year"), (2024, 0));
        assert_eq!(field("dow"), (6, 0));
        assert_eq!(field("doy"), (69, 0));
        assert_eq!(field("week"), (10, 0));
        assert_eq!(field("second"), (15_500_000, 6));
        assert_eq!(field("epoch"), (1_709_990_055_500_000, 6));
        let interval = parse_interval("1 month -3 days 01:00").unwrap();
        let plus = add(t, interval, false, &TimeZone::UTC).unwrap();
        assert_eq!(parse_timestamp("2024-04-06 14:14:15.5"), Ok(plus));
    }
}
