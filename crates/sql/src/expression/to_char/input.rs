//! `to_date()` and `to_timestamp()`: a moment from a text, by a template. Follows `DCH_from_char` of `formatting.c`.

use anabranch_types::calendar::{
    MICROS_PER_DAY, MICROS_PER_SECOND, days_from_civil, days_in_month,
};

use super::{
    Failure, Part, failure,
    moment::{Case, DAYS, Field, JULIAN_OF_EPOCH, Keyword, MONTHS, keyword},
    parts,
};

/// The fields that a text has.
#[derive(Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    julian: Option<i64>,
    hour: Option<i64>,
    is_twelve_hours: bool,
    is_afternoon: bool,
    is_before_christ: bool,
    minute: Option<i64>,
    second: Option<i64>,
    second_of_day: Option<i64>,
    milliseconds: Option<i64>,
    microseconds: Option<i64>,
}

/// A character that separates fields.
fn is_separator(c: char) -> bool {
    c.is_ascii_punctuation()
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

/// The text that is left.
struct Source<'t> {
    rest: &'t str,
}

impl Source<'_> {
    /// Skips blanks, and says how many there were.
    fn skip_blanks(&mut self) -> i64 {
        let left = self.rest.trim_start_matches(is_blank);
        let count = self.rest.len() - left.len();
        self.rest = left;
        count as i64
    }

    fn skip(&mut self, c: char) {
        self.rest = &self.rest[c.len_utf8()..];
    }

    /// An integer of so many characters, or of as many as there are; with the number of characters.
    fn integer(
        &mut self,
        name: &str,
        length: usize,
        is_free: bool,
    ) -> Result<(i64, usize), Failure> {
        self.skip_blanks();
        let head: &str = match is_free {
            true => self.rest,
            false => {
                let end = self.rest.char_indices().nth(length);
                &self.rest[..end.map_or(self.rest.len(), |(at, _)| at)]
            }
        };
        let copied = head.chars().take(length).collect::<String>();
        if !is_free && head.len() < length {
            let message = format!("source string too short for \"{name}\" formatting field");
            return Err(failure("22007", message));
        }
        // As `strtol`: blanks, a sign, digits.
        let trimmed = head.trim_start_matches(is_blank);
        let unsigned = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
        let count = unsigned.bytes().take_while(u8::is_ascii_digit).count();
        let used = match count {
            0 => 0,
            count => head.len() - unsigned.len() + count,
        };
        if used == 0 || (!is_free && used < length) {
            let message = format!("invalid value \"{copied}\" for \"{name}\"");
            return Err(failure("22007", message));
        }
        let number = head[..used].trim_start_matches(is_blank).parse::<i32>();
        let number = number.map_err(|_| {
            let message = format!("value for \"{name}\" in source string is out of range");
            failure("22008", message)
        })?;
        self.rest = &self.rest[used..];
        Ok((number.into(), used))
    }

    /// One of these names, in any case; its place in the list.
    fn name(&mut self, of: &str, names: &[&str]) -> Result<usize, Failure> {
        let found = names.iter().position(|name| {
            let head = self.rest.get(..name.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(name))
        });
        let Some(place) = found else {
            let end = self.rest.find(is_blank).unwrap_or(self.rest.len());
            let shown = &self.rest[..end];
            let message = format!("invalid value \"{shown}\" for \"{of}\"");
            return Err(failure("22007", message));
        };
        self.rest = &self.rest[names[place].len()..];
        Ok(place)
    }
}

/// Sets a field, which may come twice if it says the same.
fn set(field: &mut Option<i64>, value: i64, name: &str) -> Result<(), Failure> {
    match field {
        // A field of 0 is as one that is not there.
        Some(other) if *other != 0 && *other != value => {
            let message = format!("conflicting values for \"{name}\" field in formatting string");
            Err(failure("22007", message))
        }
        _ => {
            *field = Some(value);
            Ok(())
        }
    }
}

fn unsupported(what: &str) -> Failure {
    let message = format!("{what} in a template of to_date or to_timestamp is not supported");
    failure("0A000", message)
}

/// A year of fewer than four digits is one near 2020.
fn near_2020(year: i64) -> i64 {
    match year {
        ..70 => year + 2_000,
        70..100 => year + 1_900,
        100..520 => year + 2_000,
        520..1_000 => year + 1_000,
        _ => year,
    }
}

/// The name of a field in messages: as it is written.
fn name_of(keyword: Keyword) -> String {
    match keyword.case {
        Case::Lower => keyword.name.to_lowercase(),
        _ => keyword.name.to_owned(),
    }
}

/// Whether what stands behind a field begins with no digit.
fn is_before_separator(keyword: Keyword, next: Option<&Part<Keyword>>) -> bool {
    if keyword.ordinal.is_some() {
        return true;
    }
    match next {
        None => true,
        Some(Part::Keyword(next)) => !matches!(
            next.field,
            Field::Hour12
                | Field::Hour24
                | Field::Minute
                | Field::Second
                | Field::SecondOfDay
                | Field::Fraction(_)
                | Field::Year { .. }
                | Field::YearWithComma
                | Field::Century
                | Field::Quarter
                | Field::Month
                | Field::WeekOfMonth
                | Field::Week
                | Field::IsoWeek
                | Field::DayOfYear
                | Field::IsoDayOfYear
                | Field::Day
                | Field::DayOfWeek
                | Field::IsoDayOfWeek
                | Field::Julian
        ),
        Some(Part::Copied(c) | Part::Quoted(c)) => !c.is_ascii_digit(),
    }
}

/// The moment that a text has by a template: microseconds since 2000-01-01 in local time.
///
/// # Errors
/// When the text does not fit; `0A000` when the template has what is not supported.
pub(crate) fn moment_of(text: &str, template: &str) -> Result<i64, Failure> {
    let parts = parts(template, keyword)?;
    let mut source = Source { rest: text };
    let mut fields = Fields::default();
    let is_julian = |part: &Part<Keyword>| matches!(part, Part::Keyword(keyword) if keyword.field == Field::Julian);
    if parts.len() > 1 && parts.iter().any(is_julian) {
        return Err(unsupported("J beside other fields"));
    }
    let mut extra = 0;
    for (place, part) in parts.iter().enumerate() {
        let plain = match part {
            Part::Keyword(_) => None,
            Part::Copied(c) => Some((*c, is_blank(*c) || is_separator(*c))),
            Part::Quoted(c) => Some((*c, false)),
        };
        if source.rest.is_empty() {
            // A template is refused for what it has, whatever the text.
            if let Part::Keyword(keyword) = part {
                check(*keyword)?;
            }
            continue;
        }
        if plain.is_none() || place == 0 {
            extra += source.skip_blanks();
        }
        match (part, plain) {
            (_, Some((_, true))) => {
                extra -= 1;
                if let Some(c) = source.rest.chars().next()
                    && (is_blank(c) || is_separator(c))
                {
                    source.skip(c);
                    extra += 1;
                }
            }
            (_, Some(_)) => match source.rest.chars().next() {
                _ if extra > 0 => extra -= 1,
                Some(c) => source.skip(c),
                None => {}
            },
            (Part::Keyword(keyword), None) => {
                check(*keyword)?;
                let is_free = keyword.fills || is_before_separator(*keyword, parts.get(place + 1));
                read(*keyword, is_free, &mut source, &mut fields)?;
                extra = source.skip_blanks();
            }
            _ => {}
        }
    }
    fields.moment(text)
}

/// Refuses fields that are not read.
fn check(keyword: Keyword) -> Result<(), Failure> {
    let is_read = matches!(
        keyword.field,
        Field::Meridiem { .. }
            | Field::Era { .. }
            | Field::Hour12
            | Field::Hour24
            | Field::Minute
            | Field::Second
            | Field::SecondOfDay
            | Field::Fraction(3 | 6)
            | Field::Year { iso: false, .. }
            | Field::Month
            | Field::MonthName { .. }
            | Field::DayOfYear
            | Field::Day
            | Field::DayName { .. }
            | Field::Julian
    );
    match is_read {
        true => Ok(()),
        false => Err(unsupported(&name_of(keyword))),
    }
}

fn read(
    keyword: Keyword,
    is_free: bool,
    source: &mut Source<'_>,
    fields: &mut Fields,
) -> Result<(), Failure> {
    let field = keyword.field;
    let name = &*name_of(keyword);
    let short = |names: &[&'static str]| names.iter().map(|name| &name[..3]).collect::<Vec<_>>();
    match field {
        Field::Meridiem { points } => {
            let names = match points {
                true => ["a.m.", "p.m."],
                false => ["am", "pm"],
            };
            fields.is_afternoon = source.name(name, &names)? == 1;
            fields.is_twelve_hours = true;
            return Ok(());
        }
        Field::Era { points } => {
            let names = match points {
                true => ["a.d.", "b.c."],
                false => ["ad", "bc"],
            };
            fields.is_before_christ = source.name(name, &names)? == 1;
            return Ok(());
        }
        Field::MonthName { short: true } => {
            let month = source.name(name, &short(&MONTHS))? as i64 + 1;
            return set(&mut fields.month, month, name);
        }
        Field::MonthName { short: false } => {
            let month = source.name(name, &MONTHS)? as i64 + 1;
            return set(&mut fields.month, month, name);
        }
        // The day of the week says nothing.
        Field::DayName { short: true } => return source.name(name, &short(&DAYS)).map(|_| ()),
        Field::DayName { short: false } => return source.name(name, &DAYS).map(|_| ()),
        _ => {}
    }
    let length = match field {
        Field::Year { digits, .. } => digits as usize,
        Field::Fraction(digits) => digits as usize,
        Field::Hour12 | Field::Hour24 => 2,
        _ => keyword.name.len(),
    };
    let (number, used) = source.integer(name, length, is_free)?;
    if number < 0 {
        return Err(unsupported("a negative number for a field"));
    }
    if fields.year.is_some() && matches!(field, Field::Year { .. }) {
        return Err(unsupported("a second year"));
    }
    let (to, number) = match field {
        Field::Year { digits, .. } => {
            let is_short = digits < 4 && used < 4;
            let year = if is_short { near_2020(number) } else { number };
            (&mut fields.year, year)
        }
        Field::Hour12 => {
            fields.is_twelve_hours = true;
            (&mut fields.hour, number)
        }
        Field::Hour24 => (&mut fields.hour, number),
        Field::Minute => (&mut fields.minute, number),
        Field::Second => (&mut fields.second, number),
        Field::SecondOfDay => (&mut fields.second_of_day, number),
        Field::Fraction(digits) => {
            // 25 is 25 hundredths.
            let missing = (digits as usize).saturating_sub(used) as u32;
            let number = number * 10i64.pow(missing);
            match digits {
                3 => (&mut fields.milliseconds, number),
                _ => (&mut fields.microseconds, number),
            }
        }
        Field::Month => (&mut fields.month, number),
        Field::DayOfYear => (&mut fields.day_of_year, number),
        Field::Julian => (&mut fields.julian, number),
        _ => (&mut fields.day, number),
    };
    set(to, number, name)?;
    if keyword.ordinal.is_some() {
        let mut letters = source.rest.char_indices();
        letters.nth(1);
        let end = letters.next().map_or(source.rest.len(), |(at, _)| at);
        source.rest = &source.rest[end..];
    }
    Ok(())
}

impl Fields {
    fn moment(&self, text: &str) -> Result<i64, Failure> {
        let out_of_range = || {
            let message = format!("date/time field value out of range: \"{text}\"");
            failure("22008", message)
        };
        let mut hour = self.hour.unwrap_or(0);
        let mut minute = self.minute.unwrap_or(0);
        let mut second = self.second.unwrap_or(0);
        if let Some(of_day) = self.second_of_day {
            hour = of_day / 3_600;
            minute = of_day / 60 % 60;
            second = of_day % 60;
            let has_others = self.hour.is_some() || self.minute.is_some() || self.second.is_some();
            if has_others || self.is_twelve_hours {
                return Err(unsupported("SSSS beside hours, minutes or seconds"));
            }
        } else if self.is_twelve_hours {
            if !(1..=12).contains(&hour) {
                let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                return Err(failure("22007", message));
            }
            hour = hour % 12 + if self.is_afternoon { 12 } else { 0 };
        }
        let days = match self.julian {
            Some(julian) => i32::try_from(julian - JULIAN_OF_EPOCH).map_err(|_| out_of_range())?,
            None => self.days().ok_or_else(out_of_range)??,
        };
        let fraction = self.milliseconds.unwrap_or(0) * 1_000 + self.microseconds.unwrap_or(0);
        let is_time = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..1_000_000).contains(&fraction);
        if !is_time {
            return Err(out_of_range());
        }
        let seconds = (hour * 60 + minute) * 60 + second;
        i64::from(days)
            .checked_mul(MICROS_PER_DAY)
            .and_then(|micros| micros.checked_add(seconds * MICROS_PER_SECOND + fraction))
            .ok_or_else(out_of_range)
    }

    /// The day; `None` if there is no such day.
    fn days(&self) -> Option<Result<i32, Failure>> {
        let year = match self.year {
            // As if it were not there.
            None | Some(0) => 0,
            Some(year) if self.is_before_christ => 1 - year,
            Some(year) => year,
        };
        let mut month = self.month.unwrap_or(0);
        let mut day = self.day.unwrap_or(0);
        if (month <= 1 || day <= 1)
            && let Some(of_year) = self.day_of_year.filter(|day| *day != 0)
        {
            if matches!(self.year, None | Some(0)) {
                let message = "cannot calculate day of year without year information";
                return Some(Err(failure("22007", message)));
            }
            // As PostgreSQL, a month or day that is there stays.
            if month > 0 || day > 0 {
                return Some(Err(unsupported("DDD beside MM or DD")));
            }
            let last = i64::from(days_from_civil(year, 12, 31)?);
            let first = i64::from(days_from_civil(year, 1, 1)?);
            let found = first + of_year - 1;
            return (first..=last)
                .contains(&found)
                .then_some(Ok(i32::try_from(found).ok()?));
        }
        // A field of 0 is as one that is not there.
        if month == 0 {
            month = 1;
        }
        if day == 0 {
            day = 1;
        }
        let month = u32::try_from(month).ok().filter(|month| *month <= 12)?;
        let day = u32::try_from(day).ok()?;
        if day > days_in_month(year, month) {
            return None;
        }
        days_from_civil(year, month, day).map(Ok)
    }
}
