//! The functions over regular expressions: `regexp_replace` and its kin.

use std::sync::Arc;

use anabranch_types::Value;

use super::{
    Expression, Failure,
    budget::within_value,
    failure,
    regex::{Match, Searcher},
};

/// The number of the match to replace where none is given: the first, or all if the flags say so. No integer of SQL is it.
pub(crate) const NUMBER_BY_FLAGS: i64 = i64::MIN;

/// What a function does with the matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegexpKind {
    /// Replacement, start, and the number of the one match to replace (0: all, NUMBER_BY_FLAGS: as the flags say).
    Replace,
    /// The groups of the first match.
    Match,
    /// The groups of each match that the flags ask for, as an array of arrays.
    Matches,
    /// The text between the matches.
    Split { name: &'static str },
    /// How many there are from a start.
    Count,
    /// Whether there is one.
    Like,
    /// The first group of the first match, or the whole match.
    Substring,
    /// Start, the number of the match, the group.
    Substr,
    /// Start, the number of the match, whether the place behind it is asked for, the group.
    Instr,
}

impl RegexpKind {
    fn name(self) -> &'static str {
        match self {
            RegexpKind::Replace => "regexp_replace",
            RegexpKind::Match => "regexp_match",
            RegexpKind::Matches => "regexp_matches",
            RegexpKind::Split { name } => name,
            RegexpKind::Count => "regexp_count",
            RegexpKind::Like => "regexp_like",
            RegexpKind::Substring => "substring",
            RegexpKind::Substr => "regexp_substr",
            RegexpKind::Instr => "regexp_instr",
        }
    }
}

/// A function over a text, a pattern, flags and what its kind says; the pattern is compiled beforehand if it and the
/// flags are constants.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Regexp {
    pub(crate) kind: RegexpKind,
    compiled: Option<(Arc<Searcher>, bool)>,
}

impl Regexp {
    /// The function, for these expressions of its pattern and flags.
    ///
    /// # Errors
    /// `0A000` if they are constants with what is not supported.
    pub(crate) fn new(
        kind: RegexpKind,
        pattern: &Expression,
        flags: &Expression,
    ) -> Result<Regexp, Failure> {
        let compiled = match (pattern, flags) {
            (
                Expression::Constant(Value::Text(pattern)),
                Expression::Constant(Value::Text(flags)),
            ) => {
                match compiled(kind, pattern, flags) {
                    Ok((searcher, is_global)) => Some((Arc::new(searcher), is_global)),
                    Err(error) if error.code == "0A000" => return Err(error),
                    // As in PostgreSQL, it fails where it is evaluated.
                    Err(_) => None,
                }
            }
            _ => None,
        };
        Ok(Regexp { kind, compiled })
    }
}

/// A pattern with its flags, and whether they ask for all matches.
fn compiled(kind: RegexpKind, pattern: &str, flags: &str) -> Result<(Searcher, bool), Failure> {
    let (mut is_insensitive, mut is_global) = (false, false);
    for flag in flags.chars() {
        match flag {
            'g' => is_global = true,
            'i' => is_insensitive = true,
            'c' => is_insensitive = false,
            's' => {}
            'b' | 'e' | 'm' | 'n' | 'p' | 'q' | 't' | 'w' | 'x' => {
                let message =
                    format!("the flag \"{flag}\" of a regular expression is not supported");
                return Err(failure("0A000", message));
            }
            other => {
                let message = format!("invalid regular expression option: \"{other}\"");
                return Err(failure("22023", message));
            }
        }
    }
    let knows_global = matches!(kind, RegexpKind::Replace | RegexpKind::Matches);
    if is_global && !knows_global {
        let name = kind.name();
        let message = format!("{name}() does not support the \"global\" option");
        return Err(failure("22023", message));
    }
    Ok((Searcher::new(pattern, is_insensitive)?, is_global))
}

/// Whether an argument is in its range.
fn checked(name: &str, value: i64, least: i64) -> Result<i64, Failure> {
    match value >= least {
        true => Ok(value),
        false => {
            let message = format!("invalid value for parameter \"{name}\": {value}");
            Err(failure("22023", message))
        }
    }
}

/// The byte at which a character begins; `None` behind the end.
fn byte_of(text: &str, place: i64) -> Option<usize> {
    let before = usize::try_from(place - 1).ok()?;
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    ends.into_iter().nth(before)
}

/// Where the search behind a match begins; `None` at the end of the text.
fn behind(text: &str, (start, end): (usize, usize)) -> Option<usize> {
    match start == end {
        false => Some(end),
        true => text[end..].chars().next().map(|c| end + c.len_utf8()),
    }
}

fn whole(found: &Match) -> (usize, usize) {
    found[0].expect("the whole match is there")
}

/// The value of a function for arguments that are not NULL.
pub(crate) fn call(regexp: &Regexp, arguments: &[Value]) -> Result<Value, Failure> {
    let [
        Value::Text(text),
        Value::Text(pattern),
        Value::Text(flags),
        rest @ ..,
    ] = arguments
    else {
        return Err(failure("XX000", "a function over texts has others"));
    };
    let fresh;
    let (searcher, is_global) = match &regexp.compiled {
        Some((searcher, is_global)) => (&**searcher, *is_global),
        None => {
            let (searcher, is_global) = compiled(regexp.kind, pattern, flags)?;
            fresh = searcher;
            (&fresh, is_global)
        }
    };
    match (regexp.kind, rest) {
        (RegexpKind::Like, []) => Ok(Value::Bool(searcher.is_match(text))),
        (RegexpKind::Match, []) => Ok(match searcher.find(text, 0, &mut 0)? {
            Some(found) => groups(text, &found),
            None => Value::Null,
        }),
        (RegexpKind::Matches, []) => {
            let mut rows = Vec::new();
            each_match(searcher, text, 0, |found| {
                rows.push(groups(text, found));
                is_global
            })?;
            Ok(Value::Array(rows.into()))
        }
        (RegexpKind::Substring, []) => Ok(match searcher.find(text, 0, &mut 0)? {
            Some(found) => part(text, found[usize::from(searcher.groups > 0)]),
            None => Value::Null,
        }),
        (RegexpKind::Split { .. }, []) => split(searcher, text),
        (RegexpKind::Count, [Value::Int(start)]) => {
            let start = checked("start", *start, 1)?;
            let mut count = 0;
            if let Some(from) = byte_of(text, start) {
                each_match(searcher, text, from, |_| {
                    count += 1;
                    true
                })?;
            }
            Ok(Value::Int(count))
        }
        (RegexpKind::Replace, [Value::Text(with), Value::Int(start), Value::Int(number)]) => {
            let start = checked("start", *start, 1)?;
            let number = match *number {
                NUMBER_BY_FLAGS if is_global => 0,
                NUMBER_BY_FLAGS => 1,
                number => number,
            };
            replace(searcher, text, with, start, number)
        }
        (RegexpKind::Substr, [Value::Int(start), Value::Int(number), Value::Int(group)]) => {
            let found = numbered(searcher, text, *start, *number, *group, "subexpr")?;
            Ok(found.map_or(Value::Null, |found| part(text, Some(found))))
        }
        (
            RegexpKind::Instr,
            [
                Value::Int(start),
                Value::Int(number),
                Value::Int(end),
                Value::Int(group),
            ],
        ) => {
            checked("start", *start, 1)?;
            checked("n", *number, 1)?;
            if !matches!(end, 0 | 1) {
                checked("endoption", *end, i64::MAX)?;
            }
            let found = numbered(searcher, text, *start, *number, *group, "subexpr")?;
            let at = found.map(|(from, to)| if *end == 1 { to } else { from });
            let place = at.map_or(0, |at| text[..at].chars().count() as i64 + 1);
            Ok(Value::Int(place))
        }
        _ => Err(failure("XX000", "a function over texts has others")),
    }
}

/// Calls `visit` with each match, until it returns false.
fn each_match(
    searcher: &Searcher,
    text: &str,
    from: usize,
    mut visit: impl FnMut(&Match) -> bool,
) -> Result<(), Failure> {
    let mut from = Some(from);
    let mut steps = 0;
    while let Some(at) = from {
        let Some(found) = searcher.find(text, at, &mut steps)? else {
            return Ok(());
        };
        if !visit(&found) {
            return Ok(());
        }
        from = behind(text, whole(&found));
    }
    Ok(())
}

fn part(text: &str, range: Option<(usize, usize)>) -> Value {
    range.map_or(Value::Null, |(start, end)| Value::text(&text[start..end]))
}

/// The groups of a match, or the whole of a pattern without any.
fn groups(text: &str, found: &Match) -> Value {
    let ranges = match found.len() {
        1 => &found[..],
        _ => &found[1..],
    };
    Value::Array(ranges.iter().map(|range| part(text, *range)).collect())
}

/// The text between the matches. Empty matches at an end, or directly behind another match, do not count.
fn split(searcher: &Searcher, text: &str) -> Result<Value, Failure> {
    let mut parts = Vec::new();
    let (mut begin, mut last_end) = (0, 0);
    each_match(searcher, text, 0, |found| {
        let (start, end) = whole(found);
        if start < text.len() && end > last_end {
            parts.push(Value::text(&text[begin..start]));
            begin = end;
        }
        last_end = end;
        true
    })?;
    parts.push(Value::text(&text[begin..]));
    within_value(parts.len() * size_of::<Value>())?;
    Ok(Value::Array(parts.into()))
}

/// A match by its number, from a start; its group 0 is the whole.
fn numbered(
    searcher: &Searcher,
    text: &str,
    start: i64,
    number: i64,
    group: i64,
    name: &str,
) -> Result<Option<(usize, usize)>, Failure> {
    checked("start", start, 1)?;
    checked("n", number, 1)?;
    checked(name, group, 0)?;
    let Some(from) = byte_of(text, start) else {
        return Ok(None);
    };
    let (mut left, mut result) = (number, None);
    each_match(searcher, text, from, |found| {
        left -= 1;
        if left == 0 {
            let group = usize::try_from(group).unwrap_or(usize::MAX);
            result = found.get(group).copied().flatten();
        }
        left > 0
    })?;
    Ok(result)
}

fn replace(
    searcher: &Searcher,
    text: &str,
    with: &str,
    start: i64,
    number: i64,
) -> Result<Value, Failure> {
    let number = checked("n", number, 0)?;
    let Some(from) = byte_of(text, start) else {
        return Ok(Value::text(text));
    };
    let (mut out, mut copied, mut count) = (String::new(), 0, 0);
    let mut too_large = Ok(());
    each_match(searcher, text, from, |found| {
        count += 1;
        if number > 0 && count < number {
            return true;
        }
        let (start, end) = whole(found);
        out.push_str(&text[copied..start]);
        push_replacement(&mut out, with, text, found);
        copied = end;
        too_large = within_value(out.len());
        number == 0 && too_large.is_ok()
    })?;
    too_large?;
    out.push_str(&text[copied..]);
    within_value(out.len())?;
    Ok(Value::Text(out.into()))
}

/// A replacement, in which `\1` stands for a group, `\&` for the match, and `\\` for a backslash.
fn push_replacement(out: &mut String, with: &str, text: &str, found: &Match) {
    let mut rest = with.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let mut ahead = rest.clone();
        let group = match ahead.next() {
            Some('&') => Some(0),
            Some('\\') => {
                out.push('\\');
                rest = ahead;
                continue;
            }
            Some(digit @ '1'..='9') => digit.to_digit(10).map(|digit| digit as usize),
            _ => None,
        };
        match group {
            Some(group) => {
                rest = ahead;
                if let Some((start, end)) = found.get(group).copied().flatten() {
                    out.push_str(&text[start..end]);
                }
            }
            None => out.push('\\'),
        }
    }
}

/// The regular expression of a pattern of SIMILAR TO, as PostgreSQL translates it.
pub(crate) fn of_similar(pattern: &str, escape: Option<char>) -> Result<String, Failure> {
    let mut out = String::from("^(?:");
    let mut is_in_brackets = false;
    let mut is_escaped = false;
    for c in pattern.chars() {
        if is_escaped {
            if c == '"' {
                let message = "a part of a pattern between escaped double quotes is not supported";
                return Err(failure("0A000", message));
            }
            // As in PostgreSQL, a letter behind the escape is an escape of regular expressions.
            out.push('\\');
            out.push(c);
            is_escaped = false;
        } else if escape == Some(c) {
            is_escaped = true;
        } else if is_in_brackets {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
            is_in_brackets = c != ']';
        } else {
            match c {
                '[' => {
                    out.push('[');
                    is_in_brackets = true;
                }
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '(' => out.push_str("(?:"),
                '\\' | '.' | '^' | '$' => {
                    out.push('\\');
                    out.push(c);
                }
                c => out.push(c),
            }
        }
    }
    out.push_str(")$");
    Ok(out)
}
