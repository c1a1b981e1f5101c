//! Time zones that are written out: a number of hours, or POSIX rules.

use std::fmt::Write;

use super::{Rules, TimeZone};

/// The rules of summer time where a POSIX zone gives none: those of the USA, as PostgreSQL has them.
const DEFAULT_RULES: &str = ",M3.2.0,M11.1.0";

/// Hours east of Greenwich as seconds. `None` if the text is not a number, `Some(None)` if it is out of range.
pub(super) fn hours(text: &str) -> Option<Option<i32>> {
    let number = text.trim_start();
    let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    // C's strtod, which PostgreSQL uses, knows hexadecimal. No zone is written so.
    if digits.starts_with("0x") || digits.starts_with("0X") {
        return Some(None);
    }
    let seconds = number.parse::<f64>().ok()? * 3_600.0;
    Some((seconds.abs() < 1e9).then_some(seconds as i32))
}

/// A zone of POSIX's form: `NAME offset [NAME [offset] [,rules]]`, where offsets count west of Greenwich.
pub(super) fn parse(text: &str) -> Option<TimeZone> {
    // PostgreSQL keeps the name in upper case.
    let name = text.to_ascii_uppercase();
    let (_, rest) = split_name(&name)?;
    let (west, rest) = offset(rest)?;
    if rest.is_empty() {
        return Some(TimeZone::new(name.clone(), Rules::Fixed(-west)));
    }
    let (summer, after) = split_name(rest)?;
    if summer.is_empty() {
        return None;
    }
    let (summer_west, rules) = match after.as_bytes().first() {
        None | Some(b',') => (west - 3_600, after),
        _ => offset(after)?,
    };
    let rules = if rules.is_empty() {
        DEFAULT_RULES
    } else {
        rules
    };
    // The names do not matter, and the library wants at least three letters.
    let mut rule = String::new();
    for (name, west) in [("<STD>", west), ("<DST>", summer_west)] {
        let sign = if west < 0 { "-" } else { "" };
        let west = west.abs();
        let _ = write!(
            rule,
            "{name}{sign}{}:{:02}:{:02}",
            west / 3_600,
            west / 60 % 60,
            west % 60
        );
    }
    rule.push_str(rules);
    let rules = jiff::tz::TimeZone::posix(&rule).ok()?;
    Some(TimeZone::new(name.clone(), Rules::Changing(rules)))
}

/// A zone's abbreviation and what follows it: all up to a number, or anything between `<` and `>`. PostgreSQL takes
/// the first one without a letter, too.
fn split_name(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split_once('>');
    }
    let end = text
        .find(|c: char| c.is_ascii_digit() || matches!(c, ',' | '+' | '-'))
        .unwrap_or(text.len());
    Some(text.split_at(end))
}

/// `[+-]hh[:mm[:ss]]` as seconds, and what follows it. Up to a week, as PostgreSQL allows.
fn offset(text: &str) -> Option<(i32, &str)> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != ':')
        .unwrap_or(unsigned.len());
    let (digits, rest) = unsigned.split_at(end);
    let mut seconds = 0;
    for (place, field) in digits.split(':').enumerate() {
        let (unit, limit) = *[(3_600, 167), (60, 59), (1, 60)].get(place)?;
        let plain = !field.is_empty() && field.len() <= 3;
        let number: i32 = field.parse().ok().filter(|_| plain)?;
        if number > limit {
            return None;
        }
        seconds += number * unit;
    }
    Some((sign * seconds, rest))
}
