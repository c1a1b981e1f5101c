//! Timestamp triggers: they set columns of the written row to the current time, and do nothing else.
//!
//! `CREATE TRIGGER … BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f()`, with `NEW.changed_at := now(); RETURN
//! NEW;` for `f`, is the one trigger that most schemas have. Any other trigger may do anything
//! ([`crate::script::unparsed`]).

use crate::script::{
    column_properties::ColumnProperties,
    scan::{Part, starts_among},
    tokens::{Token, begin, name_of, tokens},
};

/// A function that sets columns of the row to the current time.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::script) struct TimestampFunction {
    name: String,
    columns: Vec<String>,
}

/// The timestamp functions among declarations, except those that are declared more than once.
pub(in crate::script) fn all_timestamp_functions<'t>(
    declarations: impl Iterator<Item = &'t str> + Clone,
) -> Vec<TimestampFunction> {
    let mut stamps: Vec<TimestampFunction> = declarations.clone().filter_map(stamp).collect();
    let functions: Vec<String> = declarations.filter_map(function).collect();
    let once = |name: &String| functions.iter().filter(|other| *other == name).count() == 1;
    stamps.retain(|stamp| once(&stamp.name));
    stamps
}

/// The function that a text declares.
fn function(text: &str) -> Option<String> {
    if !starts_among(text, 4, &["function"]) {
        return None;
    }
    let all = tokens(text);
    let at = all.iter().take(4).position(|t| t.is("function"))?;
    let (name, _) = name_of(&all, at + 1)?;
    begin(&all, &["create"]).then_some(name)
}

/// The timestamp function that a text declares.
pub(in crate::script) fn stamp(text: &str) -> Option<TimestampFunction> {
    if !starts_among(text, 4, &["function"]) {
        return None;
    }
    let all = tokens(text);
    let at = all.iter().take(4).position(|t| t.is("function"))?;
    if !begin(&all, &["create"]) {
        return None;
    }
    let (name, next) = name_of(&all, at + 1)?;
    let is_plain = begin_signs(&all[next..], "()")
        && begin(all.get(next + 2..)?, &["returns", "trigger"])
        && all
            .windows(2)
            .any(|two| two[0].is("language") && two[1].is("plpgsql"));
    let mut bodies = all.iter().filter_map(|token| match token.part {
        Part::Quoted(body) if body.starts_with('$') => Some(body),
        _ => None,
    });
    let (Some(body), None) = (bodies.next(), bodies.next()) else {
        return None;
    };
    let mark = body[1..].find('$')? + 2;
    let body = tokens(body.get(mark..body.len() - mark)?);
    let inside = match body.as_slice() {
        [begin, inside @ .., end] if begin.is("begin") && end.is("end") => inside,
        [begin, inside @ .., end, last]
            if begin.is("begin") && end.is("end") && last.is_sign(';') =>
        {
            inside
        }
        _ => return None,
    };
    let mut columns = Vec::new();
    let mut returns = false;
    for statement in inside.split(|token| token.is_sign(';')) {
        if statement.is_empty() {
            continue;
        }
        if begin(statement, &["return", "new"]) && statement.len() == 2 {
            returns = true;
            continue;
        }
        // No statement follows the RETURN.
        if returns {
            return None;
        }
        columns.push(assigned(statement)?);
    }
    (is_plain && returns).then_some(TimestampFunction { name, columns })
}

/// The column of `NEW.column := time`.
fn assigned(statement: &[Token<'_>]) -> Option<String> {
    let [new, dot, column, rest @ ..] = statement else {
        return None;
    };
    if !new.is("new") || !dot.is_sign('.') {
        return None;
    }
    let value = match rest {
        [colon, equals, value @ ..] if colon.is_sign(':') && equals.is_sign('=') => value,
        [equals, value @ ..] if equals.is_sign('=') => value,
        _ => return None,
    };
    (!value.is_empty() && value.iter().all(is_of_time))
        .then(|| column.name())
        .flatten()
}

/// Whether a token may be in an expression for the current time.
fn is_of_time(token: &Token<'_>) -> bool {
    const WORDS: [&str; 11] = [
        "now",
        "clock_timestamp",
        "statement_timestamp",
        "transaction_timestamp",
        "current_timestamp",
        "localtimestamp",
        "current_date",
        "timezone",
        "at",
        "time",
        "zone",
    ];
    match token.part {
        Part::Word(_) => WORDS.iter().any(|word| token.is(word)),
        Part::Quoted(text) => text.starts_with('\''),
        Part::Sign(sign) => "(),".contains(sign),
        Part::Blank(_) => true,
    }
}

fn begin_signs(tokens: &[Token<'_>], signs: &str) -> bool {
    tokens.len() >= signs.len()
        && signs
            .chars()
            .zip(tokens)
            .all(|(sign, token)| token.is_sign(sign))
}

/// Whether a text declares a trigger that only runs one of these functions; its columns go to `properties`.
pub(in crate::script) fn stamps(
    text: &str,
    known: &[TimestampFunction],
    properties: &mut ColumnProperties,
) -> bool {
    told(text, known, properties).is_some()
}

fn told(text: &str, known: &[TimestampFunction], properties: &mut ColumnProperties) -> Option<()> {
    if !starts_among(text, 4, &["trigger"]) {
        return None;
    }
    let all = tokens(text);
    let at = all.iter().take(4).position(|t| t.is("trigger"))?;
    if !begin(&all, &["create"]) || all[..at].iter().any(|t| t.is("constraint")) {
        return None;
    }
    let (_, before) = name_of(&all, at + 1)?;
    let on = all.iter().position(|t| t.is("on"))?;
    if !all.get(before)?.is("before") || on < before {
        return None;
    }
    let events = &all[before + 1..on];
    let has = |word: &str| events.iter().any(|t| t.is(word));
    let (table, next) = name_of(&all, on + 1)?;
    let rest = &all[next..];
    let each_row = rest
        .windows(2)
        .any(|two| two[0].is("each") && two[1].is("row"))
        || rest
            .windows(2)
            .any(|two| two[0].is("for") && two[1].is("row"));
    let run = rest.iter().position(|t| t.is("execute"))?;
    let (function, end) = name_of(rest, run + 2)?;
    let stamp = known.iter().find(|stamp| stamp.name == function)?;
    let plain = begin_signs(&rest[end..], "()") && rest.len() == end + 2;
    let conditional = rest.iter().any(|t| t.is("when"));
    if !each_row || !plain || conditional || has("delete") || has("truncate") {
        return None;
    }
    for column in &stamp.columns {
        let key = (table.clone(), column.clone());
        // With OF, an UPDATE of other columns does not fire it.
        match has("of") {
            true => properties.set_on_update.insert(key.clone()),
            false => has("update") && properties.always_set_on_update.insert(key.clone()),
        };
        if has("insert") {
            properties.set_on_insert.insert(key);
        }
    }
    Some(())
}
