//! Parses SET, RESET and SHOW.
//!
//! The special forms become settings by name, as in PostgreSQL: `SET TIME ZONE` sets `timezone`, `SET NAMES` sets
//! `client_encoding`. Which settings there are, and which values they take, is the session's part.

use sqlparser::tokenizer::Token as Kind;

use super::transaction;
use crate::{
    client::statement::{ClientStatementKind, SetValue},
    deferred::ConstraintSelection,
    diagnostic::Diagnostic,
    parse::{
        cursor::{Cursor, Parsed},
        keyword::is_reserved,
    },
};

/// What follows SET.
pub(super) fn set(cursor: &mut Cursor<'_>) -> Parsed<ClientStatementKind> {
    if cursor.eat_words(&["session", "characteristics"]) {
        cursor.expect_words(&["as", "transaction"])?;
        let modes = transaction::modes(cursor, true)?;
        return Ok(ClientStatementKind::SetTransaction {
            session: true,
            modes,
        });
    }
    let mut local = false;
    // `SET session TO …` sets a setting called "session".
    let scoped = cursor.peek_at(1).is_some_and(|next| {
        next.kind != Kind::Eq && next.kind != Kind::Period && !next.is_word("to")
    });
    if scoped && !cursor.at_words(&["session", "authorization"]) {
        local = cursor.eat_word("local");
        if !local {
            cursor.eat_word("session");
        }
    }
    if cursor.at_words(&["transaction", "snapshot"]) {
        let span = cursor.take(2).whole_span();
        cursor.string()?;
        return Ok(ClientStatementKind::Unsupported(
            Diagnostic::unsupported("SET TRANSACTION SNAPSHOT", span)
                .help("a transaction reads its own snapshot"),
        ));
    }
    if cursor.eat_word("transaction") {
        let modes = transaction::modes(cursor, true)?;
        return Ok(ClientStatementKind::SetTransaction {
            session: false,
            modes,
        });
    }
    let (name, value) = assignment(cursor)?;
    Ok(ClientStatementKind::Set { local, name, value })
}

/// What follows SET CONSTRAINTS.
pub(super) fn constraints(cursor: &mut Cursor<'_>) -> Parsed<ClientStatementKind> {
    let selection = match cursor.eat_word("all") {
        true => ConstraintSelection::All,
        false => {
            let mut names = vec![cursor.schema_name("ALL or a constraint name")?.text];
            while cursor.eat(&Kind::Comma) {
                names.push(cursor.schema_name("a constraint name")?.text);
            }
            ConstraintSelection::Named(names)
        }
    };
    let deferred = cursor.eat_word("deferred");
    if !deferred && !cursor.eat_word("immediate") {
        return Err(cursor.expected("DEFERRED or IMMEDIATE"));
    }
    Ok(ClientStatementKind::SetConstraints {
        selection,
        deferred,
    })
}

fn assignment(cursor: &mut Cursor<'_>) -> Parsed<(String, SetValue)> {
    if cursor.eat_words(&["time", "zone"]) {
        return Ok(("timezone".into(), zone(cursor)?));
    }
    if cursor.eat_word("names") {
        let value = match cursor.peek() {
            None => SetValue::Default,
            Some(_) if cursor.eat_word("default") => SetValue::Default,
            Some(_) => SetValue::Values(vec![cursor.string()?.0]),
        };
        return Ok(("client_encoding".into(), value));
    }
    if cursor.eat_words(&["session", "authorization"]) {
        return Ok(("session_authorization".into(), one_or_default(cursor)?));
    }
    if cursor.eat_words(&["xml", "option"]) {
        return Ok(("xmloption".into(), one_or_default(cursor)?));
    }
    let next_is_value = cursor
        .peek_at(1)
        .is_some_and(|next| !matches!(next.kind, Kind::Eq | Kind::Period) && !next.is_word("to"));
    if next_is_value && cursor.eat_word("role") {
        return Ok(("role".into(), one_or_default(cursor)?));
    }
    if next_is_value && cursor.eat_word("schema") {
        let value = cursor.string()?.0;
        return Ok(("search_path".into(), SetValue::Values(vec![value])));
    }
    let name = setting(cursor)?;
    if cursor.at_words(&["from", "current"]) {
        let span = cursor.take(2).whole_span();
        return Err(Diagnostic::unsupported("SET … FROM CURRENT", span)
            .help("name the value that the setting is to have"));
    }
    if !cursor.eat(&Kind::Eq) && !cursor.eat_word("to") {
        return Err(cursor.expected("TO or \"=\""));
    }
    if cursor.eat_word("default") {
        return Ok((name, SetValue::Default));
    }
    let mut values = vec![value(cursor)?];
    while cursor.eat(&Kind::Comma) {
        values.push(value(cursor)?);
    }
    Ok((name, SetValue::Values(values)))
}

/// A setting's name, which may have parts.
fn setting(cursor: &mut Cursor<'_>) -> Parsed<String> {
    let mut name = cursor.name("the name of a setting")?.text;
    while cursor.eat(&Kind::Period) {
        name.push('.');
        name.push_str(&cursor.name("the name of a setting")?.text);
    }
    Ok(name)
}

/// What follows SHOW and RESET: a setting's name, or ALL.
pub(super) fn setting_or_all(cursor: &mut Cursor<'_>) -> Parsed<Option<String>> {
    const SPECIAL: [(&[&str], &str); 3] = [
        (&["time", "zone"], "timezone"),
        (
            &["transaction", "isolation", "level"],
            "transaction_isolation",
        ),
        (&["session", "authorization"], "session_authorization"),
    ];
    if cursor.eat_word("all") {
        return Ok(None);
    }
    for (words, name) in SPECIAL {
        if cursor.eat_words(words) {
            return Ok(Some(name.into()));
        }
    }
    setting(cursor).map(Some)
}

fn one_or_default(cursor: &mut Cursor<'_>) -> Parsed<SetValue> {
    if cursor.eat_word("default") {
        return Ok(SetValue::Default);
    }
    Ok(SetValue::Values(vec![value(cursor)?]))
}

/// One value: a string, a number with or without a sign, a name.
fn value(cursor: &mut Cursor<'_>) -> Parsed<String> {
    let negative = cursor.eat(&Kind::Minus);
    let signed = negative || cursor.eat(&Kind::Plus);
    let wanted = "a value";
    let found = match cursor.peek().map(|token| &token.kind) {
        Some(Kind::Number(digits, _)) if negative => format!("-{digits}"),
        Some(Kind::Number(digits, _)) => digits.clone(),
        Some(_) if signed => return Err(cursor.expected("a number")),
        Some(Kind::SingleQuotedString(text)) => text.clone(),
        Some(Kind::Word(word)) => {
            let usable = word.quote_style.is_some()
                || !is_reserved(&word.value)
                || ["true", "false", "on"].contains(&word.value.as_str());
            if !usable {
                return Err(cursor.expected(wanted));
            }
            word.value.clone()
        }
        _ => return Err(cursor.expected(wanted)),
    };
    cursor.next();
    Ok(found)
}

/// The value of `SET TIME ZONE`.
fn zone(cursor: &mut Cursor<'_>) -> Parsed<SetValue> {
    if cursor.eat_word("local") || cursor.eat_word("default") {
        return Ok(SetValue::Default);
    }
    if cursor.eat_word("interval") {
        let (text, span) = cursor.string()?;
        if !cursor.is_done() {
            cursor.expect_words(&["hour"])?;
            if cursor.eat_word("to") {
                cursor.expect_words(&["minute"])?;
            }
        }
        let Some(hours) = interval_hours(&text) else {
            return Err(
                Diagnostic::unsupported("this interval as a time zone", span)
                    .help("write it as hours and minutes: INTERVAL '+02:00' HOUR TO MINUTE"),
            );
        };
        return Ok(SetValue::Values(vec![hours]));
    }
    Ok(SetValue::Values(vec![value(cursor)?]))
}

/// `[+-]HH[:MM]` as a decimal number of hours, which the setting takes with the same meaning.
fn interval_hours(text: &str) -> Option<String> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "0"));
    let number = |text: &str, most: u32| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<u32>().ok().filter(|n| plain && *n <= most)?;
        Some(number)
    };
    let (hours, minutes) = (number(hours, 24)?, number(minutes, 59)?);
    if minutes == 0 {
        return Some(format!("{sign}{hours}"));
    }
    let fraction = f64::from(minutes) / 60.0;
    Some(format!("{sign}{}", f64::from(hours) + fraction))
}
