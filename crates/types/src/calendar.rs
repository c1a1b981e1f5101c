//! The proleptic Gregorian calendar, counted from 2000-01-01.

/// Microseconds in a second.
pub const MICROS_PER_SECOND: i64 = 1_000_000;
/// Seconds in a day.
pub const SECONDS_PER_DAY: i64 = 86_400;
/// Microseconds in a day.
pub const MICROS_PER_DAY: i64 = SECONDS_PER_DAY * MICROS_PER_SECOND;
/// Days from 0000-03-01 to 2000-01-01.
const EPOCH_DAYS: i64 = 730_425;

/// The first day that PostgreSQL's types have: 4714-11-24 BC.
pub const DATE_MIN: i32 = -2_451_545;
/// The last day of a `date`: 5874897-12-31.
pub const DATE_MAX: i32 = 2_145_031_948;
/// The first microsecond of a `timestamp`: 4714-11-24 00:00:00 BC.
pub const TIMESTAMP_MIN: i64 = DATE_MIN as i64 * MICROS_PER_DAY;
/// The last microsecond of a `timestamp`: the last of the year 294276.
pub const TIMESTAMP_MAX: i64 = 9_223_371_331_199_999_999;

/// A day's year (0 is 1 BC), month and day of the month.
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

/// The day of a year (0 is 1 BC), month and day; `None` where the calendar has no such day, and beyond 32 bits.
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
    let days = era.checked_mul(146_097)? + day_of_era - EPOCH_DAYS;
    i32::try_from(days).ok()
}

/// The number of days in a month.
pub fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Whether a `timestamp` or `timestamptz` can be so many microseconds from 2000-01-01.
#[inline]
pub fn is_timestamp(micros: i64) -> bool {
    (TIMESTAMP_MIN..=TIMESTAMP_MAX).contains(&micros)
}

/// Whether a `date` can be so many days from 2000-01-01.
#[inline]
pub fn is_date(days: i32) -> bool {
    (DATE_MIN..=DATE_MAX).contains(&days)
}
