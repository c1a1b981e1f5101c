//! Time zones: the offset from UTC at a moment, and the moment that a local time names.
//!
//! The IANA database is part of the build ([`jiff`]), so the same names are known on every node and no file is read.
//! Names are those that PostgreSQL's `SET TIME ZONE` accepts: IANA names in any case, hours east of Greenwich (`2`,
//! `-5.5`), and POSIX rules (`AAA3BBB`, `<+03>-3`), whose offsets count west. Abbreviations without an offset, such as `PST`, are no time zones
//! there and here. `posix/…` and `right/…`, which depend on the installed files, are not known.

mod posix;

use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZoneDatabase};

use crate::EffectError;
use crate::calendar::{self, MICROS_PER_SECOND, SECONDS_PER_DAY};

/// Seconds from 1970-01-01 to 2000-01-01.
const EPOCH_SECONDS: i64 = 946_684_800;
/// The calendar, days of the week included, repeats after 400 years.
const CYCLE_SECONDS: i64 = 146_097 * SECONDS_PER_DAY;
/// 9000-01-01 in seconds since 2000-01-01. Rules no longer change then, and [`jiff`] ends with the year 9999.
const YEAR_9000: i64 = 220_898_707_200;

/// A time zone. Cheap to clone. Equal zones have the same name.
#[derive(Clone, Default)]
pub struct TimeZone(Option<Arc<Zone>>);

/// A zone other than `UTC`.
struct Zone {
    /// As `SHOW TimeZone` prints it.
    name: CompactString,
    rules: Rules,
}

enum Rules {
    /// Always this many seconds east of Greenwich.
    Fixed(i32),
    /// As the database or a POSIX rule says.
    Changing(jiff::tz::TimeZone),
}

impl TimeZone {
    /// UTC.
    pub const UTC: TimeZone = TimeZone(None);

    /// The time zone that PostgreSQL's `AT TIME ZONE` makes of a text: as [`TimeZone::named`], but a number of hours without
    /// minutes counts west, as in POSIX.
    ///
    /// # Errors
    /// As [`TimeZone::named`].
    pub fn of_conversion(text: &str) -> Result<TimeZone, EffectError> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_whole {
            return TimeZone::named(text);
        }
        match text.strip_prefix('-') {
            Some(east) => TimeZone::named(east),
            None => TimeZone::named(&format!("-{digits}")),
        }
    }

    /// The time zone that PostgreSQL's `SET TIME ZONE` makes of a text.
    ///
    /// # Errors
    /// `22023` for an unknown name or an offset out of range, `0A000` for an interval.
    pub fn named(text: &str) -> Result<TimeZone, EffectError> {
        let refused = |code, reason: &str| {
            let message = format!("invalid value for parameter \"TimeZone\": \"{text}\"{reason}");
            Err(EffectError::new(code, message))
        };
        if text
            .get(..8)
            .is_some_and(|word| word.eq_ignore_ascii_case("interval"))
        {
            return refused(
                "0A000",
                "; an interval is not supported, write the offset as a number of hours",
            );
        }
        if let Some(seconds) = posix::hours(text) {
            return match seconds.and_then(TimeZone::fixed) {
                Some(zone) => Ok(zone),
                None => refused("22023", ": UTC timezone offset is out of range"),
            };
        }
        let found = match text.strip_prefix(':') {
            Some(name) => TimeZone::of_database(name),
            None => TimeZone::of_database(text).or_else(|| posix::parse(text)),
        };
        match found {
            // PostgreSQL takes seconds at its epoch for leap seconds.
            Some(zone) if zone.offset_at(0) % 60 == 0 => Ok(zone),
            _ => refused("22023", ""),
        }
    }

    /// The zone that is always this many seconds east of Greenwich, named as PostgreSQL names it: `<+02>-02`. `None`
    /// from a week on.
    pub fn fixed(seconds_east: i32) -> Option<TimeZone> {
        if seconds_east.abs() >= 7 * SECONDS_PER_DAY as i32 {
            return None;
        }
        let size = seconds_east.unsigned_abs();
        let (hours, minutes, seconds) = (size / 3_600, size / 60 % 60, size % 60);
        let digits = match (minutes, seconds) {
            (0, 0) => format!("{hours:02}"),
            (_, 0) => format!("{hours:02}:{minutes:02}"),
            _ => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        };
        let name = match seconds_east < 0 {
            true => format!("<-{digits}>+{digits}"),
            false => format!("<+{digits}>-{digits}"),
        };
        Some(TimeZone::new(name, Rules::Fixed(seconds_east)))
    }

    /// The zone with this name in the IANA database, in any case.
    pub fn of_database(name: &str) -> Option<TimeZone> {
        // jiff's name for a zone that is not known, with the rules of UTC.
        if name.eq_ignore_ascii_case("Etc/Unknown") {
            return None;
        }
        if name.eq_ignore_ascii_case("UTC") {
            return Some(TimeZone::UTC);
        }
        let found = TimeZoneDatabase::bundled().get(name).ok()?;
        let name = found.iana_name()?.to_owned();
        let rules = match found.to_fixed_offset() {
            Ok(offset) => Rules::Fixed(offset.seconds()),
            Err(_) => Rules::Changing(found),
        };
        Some(TimeZone::new(name, rules))
    }

    fn new(name: impl Into<CompactString>, rules: Rules) -> TimeZone {
        let name = name.into();
        TimeZone(Some(Arc::new(Zone { name, rules })))
    }

    /// The name that `SHOW TimeZone` prints.
    pub fn name(&self) -> &str {
        self.0.as_ref().map_or("UTC", |zone| &zone.name)
    }

    /// Whether it is the zone `UTC`.
    #[inline]
    pub fn is_utc(&self) -> bool {
        self.0.is_none()
    }

    /// The offset at a moment: seconds east of Greenwich. `micros` counts from 2000-01-01 00:00:00 UTC.
    pub fn offset_at(&self, micros: i64) -> i32 {
        match self.0.as_deref().map(|zone| &zone.rules) {
            None => 0,
            Some(Rules::Fixed(seconds)) => *seconds,
            Some(Rules::Changing(rules)) => {
                let seconds = micros.div_euclid(MICROS_PER_SECOND);
                let known = within_calendar(seconds) + EPOCH_SECONDS;
                jiff::Timestamp::from_second(known)
                    .map_or(0, |moment| rules.to_offset(moment).seconds())
            }
        }
    }

    /// The local time at a moment, both in microseconds since 2000-01-01 00:00:00. `None` if it is out of range.
    #[inline]
    pub fn to_local(&self, micros: i64) -> Option<i64> {
        if self.is_utc() {
            return Some(micros);
        }
        micros.checked_add(i64::from(self.offset_at(micros)) * MICROS_PER_SECOND)
    }

    /// The moment of a local time, both in microseconds since 2000-01-01 00:00:00. `None` if it is out of range.
    ///
    /// A local time that a change to summer time leaves out is taken by the offset before the change. One that a
    /// change back repeats is the second: PostgreSQL's choices (`DetermineTimeZoneOffset`).
    #[inline]
    pub fn to_utc(&self, local: i64) -> Option<i64> {
        if self.is_utc() {
            return Some(local);
        }
        local.checked_sub(i64::from(self.local_offset(local)) * MICROS_PER_SECOND)
    }

    /// The offset in force at a local time: seconds east of Greenwich.
    fn local_offset(&self, local: i64) -> i32 {
        let rules = match self.0.as_deref().map(|zone| &zone.rules) {
            None => return 0,
            Some(Rules::Fixed(seconds)) => return *seconds,
            Some(Rules::Changing(rules)) => rules,
        };
        let seconds = within_calendar(local.div_euclid(MICROS_PER_SECOND));
        let days = seconds.div_euclid(SECONDS_PER_DAY) as i32;
        let time = seconds.rem_euclid(SECONDS_PER_DAY) as i32;
        let (year, month, day) = calendar::civil_from_days(days);
        let moment = DateTime::new(
            year as i16,
            month as i8,
            day as i8,
            (time / 3_600) as i8,
            (time / 60 % 60) as i8,
            (time % 60) as i8,
            0,
        );
        let Ok(moment) = moment else {
            return 0;
        };
        match rules.to_ambiguous_timestamp(moment).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
            AmbiguousOffset::Gap { before, .. } => before.seconds(),
            AmbiguousOffset::Fold { after, .. } => after.seconds(),
        }
    }
}

/// Seconds since 2000-01-01, moved by whole cycles of the calendar to before the year 9400.
fn within_calendar(seconds: i64) -> i64 {
    if seconds < YEAR_9000 {
        seconds
    } else {
        YEAR_9000 + (seconds - YEAR_9000).rem_euclid(CYCLE_SECONDS)
    }
}

impl PartialEq for TimeZone {
    fn eq(&self, other: &TimeZone) -> bool {
        self.name() == other.name()
    }
}

impl Eq for TimeZone {}

impl fmt::Display for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimeZone({})", self.name())
    }
}
