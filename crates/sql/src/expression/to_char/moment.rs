//! Moments by a template: `to_char(now(), 'YYYY-MM-DD HH24:MI:SS')`.

use anabranch_types::calendar::{MICROS_PER_DAY, civil_from_days};
use anabranch_types::{TimeZone, calendar::days_from_civil};

use super::{Failure, Part, ordinal, parts, unsupported};

/// A moment: microseconds since 2000-01-01 in local time, and seconds east of Greenwich where it has a time zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    local: i64,
    offset: Option<i32>,
}

impl Moment {
    /// A `timestamp`.
    pub(crate) fn local(micros: i64) -> Moment {
        Moment {
            local: micros,
            offset: None,
        }
    }

    /// A `timestamptz` in a time zone; `None` if it is out of range there.
    pub(crate) fn zoned(micros: i64, zone: &TimeZone) -> Option<Moment> {
        Some(Moment {
            local: zone.to_local(micros)?,
            offset: Some(zone.offset_at(micros)),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// AM or PM, with points.
    Meridiem {
        points: bool,
    },
    /// AD or BC, with points.
    Era {
        points: bool,
    },
    Hour12,
    Hour24,
    Minute,
    Second,
    SecondOfDay,
    /// So many digits of a fraction of a second.
    Fraction(u32),
    Year {
        digits: u32,
        iso: bool,
    },
    YearWithComma,
    Century,
    Quarter,
    Month,
    MonthName {
        short: bool,
    },
    MonthRoman,
    WeekOfMonth,
    Week,
    IsoWeek,
    DayOfYear,
    IsoDayOfYear,
    Day,
    DayOfWeek,
    IsoDayOfWeek,
    DayName {
        short: bool,
    },
    Julian,
    OffsetHour,
    OffsetMinute,
    Offset,
    /// FX: it means something for input alone.
    Ignored,
}

/// How letters are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Capital,
    Lower,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keyword {
    pub(super) field: Field,
    /// As the lists have it.
    pub(super) name: &'static str,
    pub(super) case: Case,
    /// FM: without blanks and zeros in front.
    pub(super) fills: bool,
    /// TH: with the ending of an ordinal number.
    pub(super) ordinal: Option<Case>,
}

/// Upper case, where it is not said otherwise; lower case is known for each. Longer names come first.
const FIELDS: &[(&str, Field)] = &[
    ("A.D.", Field::Era { points: true }),
    ("A.M.", Field::Meridiem { points: true }),
    ("AD", Field::Era { points: false }),
    ("AM", Field::Meridiem { points: false }),
    ("B.C.", Field::Era { points: true }),
    ("BC", Field::Era { points: false }),
    ("CC", Field::Century),
    ("DAY", Field::DayName { short: false }),
    ("DDD", Field::DayOfYear),
    ("DD", Field::Day),
    ("DY", Field::DayName { short: true }),
    ("D", Field::DayOfWeek),
    ("FF1", Field::Fraction(1)),
    ("FF2", Field::Fraction(2)),
    ("FF3", Field::Fraction(3)),
    ("FF4", Field::Fraction(4)),
    ("FF5", Field::Fraction(5)),
    ("FF6", Field::Fraction(6)),
    ("FX", Field::Ignored),
    ("HH24", Field::Hour24),
    ("HH12", Field::Hour12),
    ("HH", Field::Hour12),
    ("IDDD", Field::IsoDayOfYear),
    ("ID", Field::IsoDayOfWeek),
    ("IW", Field::IsoWeek),
    (
        "IYYY",
        Field::Year {
            digits: 4,
            iso: true,
        },
    ),
    (
        "IYY",
        Field::Year {
            digits: 3,
            iso: true,
        },
    ),
    (
        "IY",
        Field::Year {
            digits: 2,
            iso: true,
        },
    ),
    (
        "I",
        Field::Year {
            digits: 1,
            iso: true,
        },
    ),
    ("J", Field::Julian),
    ("MI", Field::Minute),
    ("MM", Field::Month),
    ("MONTH", Field::MonthName { short: false }),
    ("MON", Field::MonthName { short: true }),
    ("MS", Field::Fraction(3)),
    ("OF", Field::Offset),
    ("P.M.", Field::Meridiem { points: true }),
    ("PM", Field::Meridiem { points: false }),
    ("Q", Field::Quarter),
    ("RM", Field::MonthRoman),
    ("SSSSS", Field::SecondOfDay),
    ("SSSS", Field::SecondOfDay),
    ("SS", Field::Second),
    ("TZH", Field::OffsetHour),
    ("TZM", Field::OffsetMinute),
    ("US", Field::Fraction(6)),
    ("WW", Field::Week),
    ("W", Field::WeekOfMonth),
    ("Y,YYY", Field::YearWithComma),
    (
        "YYYY",
        Field::Year {
            digits: 4,
            iso: false,
        },
    ),
    (
        "YYY",
        Field::Year {
            digits: 3,
            iso: false,
        },
    ),
    (
        "YY",
        Field::Year {
            digits: 2,
            iso: false,
        },
    ),
    (
        "Y",
        Field::Year {
            digits: 1,
            iso: false,
        },
    ),
];

/// Names whose first letter alone may be upper case.
const CAPITALS: &[(&str, Field)] = &[
    ("Day", Field::DayName { short: false }),
    ("Dy", Field::DayName { short: true }),
    ("Month", Field::MonthName { short: false }),
    ("Mon", Field::MonthName { short: true }),
];

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const ROMAN: [&str; 12] = [
    "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII",
];

/// A keyword at the beginning of a template, with what stands before and behind it, and the rest.
pub(super) fn keyword(template: &str) -> Result<Option<(Keyword, &str)>, Failure> {
    let mut rest = template;
    let mut fills = false;
    if let Some(left) = rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
        (rest, fills) = (left, true);
    } else if rest.starts_with("TM") || rest.starts_with("tm") {
        return Err(unsupported("TM"));
    }
    let of = |name: &'static str, field, case, left| Some((name, field, case, left));
    let capital = CAPITALS
        .iter()
        .find_map(|(name, field)| of(name, *field, Case::Capital, rest.strip_prefix(name)?));
    let found = capital.or_else(|| {
        FIELDS.iter().find_map(|(name, field)| {
            if let Some(left) = rest.strip_prefix(name) {
                return of(name, *field, Case::Upper, left);
            }
            let lower = name.to_ascii_lowercase();
            of(
                name,
                *field,
                Case::Lower,
                rest.strip_prefix(lower.as_str())?,
            )
        })
    });
    let Some((name, field, case, left)) = found else {
        if rest.starts_with("TZ") || rest.starts_with("tz") {
            return Err(unsupported("TZ"));
        }
        // A prefix with nothing behind it is copied by neither.
        return Ok(None);
    };
    let (ordinal, left) = if let Some(left) = left.strip_prefix("TH") {
        (Some(Case::Upper), left)
    } else if let Some(left) = left.strip_prefix("th") {
        (Some(Case::Lower), left)
    } else {
        let none = left.strip_prefix("SP").or_else(|| left.strip_prefix("sp"));
        (None, none.unwrap_or(left))
    };
    let keyword = Keyword {
        field,
        name,
        case,
        fills,
        ordinal,
    };
    Ok(Some((keyword, left)))
}

/// A moment by a template.
///
/// # Errors
/// When the template has what is not supported.
pub(crate) fn of_moment(moment: Moment, template: &str) -> Result<String, Failure> {
    let parts = parts(template, keyword)?;
    let broken = Broken::of(moment);
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Copied(c) | Part::Quoted(c) => out.push(c),
            Part::Keyword(keyword) => broken.write(keyword, &mut out),
        }
    }
    Ok(out)
}

/// A moment in its fields.
struct Broken {
    /// Days since 2000-01-01.
    days: i64,
    /// Astronomical: 0 is 1 BC.
    year: i64,
    month: usize,
    day: i64,
    /// 0 is Sunday.
    day_of_week: usize,
    day_of_year: i64,
    iso_year: i64,
    iso_week: i64,
    /// Microseconds since midnight.
    time: i64,
    offset: Option<i32>,
}

impl Broken {
    fn of(moment: Moment) -> Broken {
        let days = moment.local.div_euclid(MICROS_PER_DAY);
        let civil = |days: i64| civil_from_days(i32::try_from(days).unwrap_or_default());
        let first = |year: i64| i64::from(days_from_civil(year, 1, 1).unwrap_or_default());
        let (year, month, day) = civil(days);
        // 2000-01-01 was a Saturday. The week's Thursday decides its year.
        let thursday = days - (days + 5).rem_euclid(7) + 3;
        let (iso_year, ..) = civil(thursday);
        Broken {
            days,
            year,
            month: month as usize,
            day: day.into(),
            day_of_week: (days + 6).rem_euclid(7) as usize,
            day_of_year: days - first(year) + 1,
            iso_year,
            iso_week: (thursday - first(iso_year)) / 7 + 1,
            time: moment.local.rem_euclid(MICROS_PER_DAY),
            offset: moment.offset,
        }
    }

    fn write(&self, keyword: Keyword, out: &mut String) {
        let Keyword {
            field,
            case,
            fills,
            ordinal: ending,
            ..
        } = keyword;
        let number = |number: i64, width: usize| match fills {
            true => number.to_string(),
            false => format!("{number:0width$}"),
        };
        let hour = self.time / 3_600_000_000;
        let of_era = |year: i64| if year <= 0 { 1 - year } else { year };
        let text = match field {
            Field::Meridiem { points } => {
                let name = match (hour >= 12, points) {
                    (true, true) => "P.M.",
                    (true, false) => "PM",
                    (false, true) => "A.M.",
                    (false, false) => "AM",
                };
                return out.push_str(&cased(name, case));
            }
            Field::Era { points } => {
                let name = match (self.year <= 0, points) {
                    (true, true) => "B.C.",
                    (true, false) => "BC",
                    (false, true) => "A.D.",
                    (false, false) => "AD",
                };
                return out.push_str(&cased(name, case));
            }
            Field::MonthName { short } => return name(MONTHS[self.month - 1], short, keyword, out),
            Field::DayName { short } => return name(DAYS[self.day_of_week], short, keyword, out),
            Field::MonthRoman => {
                let roman = cased(ROMAN[self.month - 1], case);
                match fills {
                    true => out.push_str(&roman),
                    false => out.push_str(&format!("{roman:<4}")),
                }
                return;
            }
            Field::OffsetHour | Field::OffsetMinute | Field::Offset => {
                return self.write_offset(field, fills, out);
            }
            Field::Ignored => return,
            Field::Hour12 => number(if hour % 12 == 0 { 12 } else { hour % 12 }, 2),
            Field::Hour24 => number(hour, 2),
            Field::Minute => number(self.time / 60_000_000 % 60, 2),
            Field::Second => number(self.time / 1_000_000 % 60, 2),
            Field::SecondOfDay => (self.time / 1_000_000).to_string(),
            Field::Fraction(digits) => {
                let fraction = self.time % 1_000_000 / 10i64.pow(6 - digits);
                format!("{fraction:0width$}", width = digits as usize)
            }
            Field::Year { digits, iso } => {
                let year = of_era(if iso { self.iso_year } else { self.year });
                match digits {
                    4 => number(year, 4),
                    digits => number(year % 10i64.pow(digits), digits as usize),
                }
            }
            Field::YearWithComma => {
                let year = of_era(self.year);
                format!("{},{:03}", year / 1_000, year % 1_000)
            }
            Field::Century => {
                let century = match self.year > 0 {
                    true => (self.year - 1) / 100 + 1,
                    false => self.year / 100 - 1,
                };
                match century {
                    0..=99 => number(century, 2),
                    -99..=-1 => number(century, 3),
                    century => century.to_string(),
                }
            }
            Field::Quarter => ((self.month - 1) / 3 + 1).to_string(),
            Field::Month => number(self.month as i64, 2),
            Field::WeekOfMonth => ((self.day - 1) / 7 + 1).to_string(),
            Field::Week => number((self.day_of_year - 1) / 7 + 1, 2),
            Field::IsoWeek => number(self.iso_week, 2),
            Field::DayOfYear => number(self.day_of_year, 3),
            Field::IsoDayOfYear => {
                let monday_first = (self.day_of_week + 6) % 7;
                number((self.iso_week - 1) * 7 + monday_first as i64 + 1, 3)
            }
            Field::Day => number(self.day, 2),
            Field::DayOfWeek => (self.day_of_week + 1).to_string(),
            Field::IsoDayOfWeek => ((self.day_of_week + 6) % 7 + 1).to_string(),
            Field::Julian => (self.days + JULIAN_OF_EPOCH).to_string(),
        };
        out.push_str(&text);
        if let Some(case) = ending {
            out.push_str(&cased(ordinal(&text), case));
        }
    }

    /// The offset from Greenwich. A moment without a time zone has none, and is taken as at Greenwich.
    fn write_offset(&self, field: Field, fills: bool, out: &mut String) {
        let offset = self.offset.unwrap_or(0);
        let sign = if offset < 0 { '-' } else { '+' };
        let (hours, minutes) = (offset.abs() / 3_600, offset.abs() / 60 % 60);
        let text = match field {
            Field::OffsetHour => format!("{sign}{hours:02}"),
            Field::OffsetMinute => format!("{minutes:02}"),
            _ => {
                let hours = match fills {
                    true => format!("{sign}{hours}"),
                    false => format!("{sign}{hours:02}"),
                };
                match minutes {
                    0 => hours,
                    minutes => format!("{hours}:{minutes:02}"),
                }
            }
        };
        out.push_str(&text);
    }
}

/// The Julian day of 2000-01-01.
pub(super) const JULIAN_OF_EPOCH: i64 = 2_451_545;

fn name(name: &str, short: bool, keyword: Keyword, out: &mut String) {
    let text = cased(if short { &name[..3] } else { name }, keyword.case);
    match short || keyword.fills {
        true => out.push_str(&text),
        false => out.push_str(&format!("{text:<9}")),
    }
}

fn cased(text: &str, case: Case) -> String {
    match case {
        Case::Upper => text.to_uppercase(),
        Case::Capital => text.to_owned(),
        Case::Lower => text.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PostgreSQL 15 answers.
    #[test]
    fn moments_are_written_as_in_postgresql() {
        // 2024-02-29 13:04:05.0607 and, at its end, the last day of a year.
        let leap = Moment::local(762_527_045_060_700);
        for (template, expected) in [
            ("YYYY-MM-DD HH24:MI:SS", "2024-02-29 13:04:05"),
            ("YYYY-MM-DD\"T\"HH24:MI:SS.MS", "2024-02-29T13:04:05.060"),
            ("US FF1 FF6 SSSS", "060700 0 060700 47045"),
            ("HH12:MI am P.M.", "01:04 pm P.M."),
            ("Day, DD Month YYYY", "Thursday , 29 February  2024"),
            ("FMDay, FMDD FMMonth YYYY", "Thursday, 29 February 2024"),
            ("Dy DY dy Mon MON mon", "Thu THU thu Feb FEB feb"),
            (
                "DDD IDDD D ID W WW IW Q CC J",
                "060 060 5 4 5 09 09 1 21 2460370",
            ),
            ("Y,YYY YYY YY Y IYYY", "2,024 024 24 4 2024"),
            ("FMDDth DDTH", "29th 29TH"),
            ("RM rm FMRM|", "II   ii   II|"),
            ("AD b.c.", "AD a.d."),
            ("at HH24", "at 13"),
        ] {
            let found = of_moment(leap, template).expect(template);
            assert_eq!(found, expected, "{template}");
        }
        let berlin = TimeZone::named("Europe/Berlin").expect("it is known");
        let summer = Moment::zoned(773_150_400_000_000, &berlin).expect("in range");
        let text = of_moment(summer, "YYYY-MM-DD HH24:MI OF TZH:TZM").expect("it is written");
        assert_eq!(text, "2024-07-01 14:00 +02 +02:00");
        assert_eq!(of_moment(leap, "TZ").expect_err("not known").code, "0A000");
    }
}
