//! Shapes of statements: a statement without its values, so that the statement in an application's source and the one that
//! a driver sends can be compared.
//!
//! In a shape
//!
//! * keywords and names are folded; white space and comments are left out;
//! * a constant or a parameter is a *slot*, also with a sign, a cast, or the name of its type before it, as drivers write
//!   values into texts: `-5`, `'2024-01-01'::date`, `DATE '2024-01-01'`, `ARRAY[1, 2]`;
//! * `IN (…)` has one slot for all values of its list, and VALUES one for each column, for all rows.

use anabranch_sql::parse::resolve_data_type;
use anabranch_types::{DataType, Value};
use sqlparser::ast;

use super::operand::{Arguments, Operand};
use super::words::{Lexeme, closing};
use crate::lex::TokenKind;

/// A statement as shape and values.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// The shape: equal for statements that differ in values alone.
    pub(super) key: String,
    /// The values in its slots.
    pub(super) slots: Vec<Slot>,
}

/// The values in one place of a shape.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    /// One; as many as the list of IN has; or one for each row of VALUES.
    pub(super) values: Vec<Written>,
    /// Whether it is the list of IN.
    pub(super) is_list: bool,
}

/// A value as a statement has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Written {
    pub(super) kind: WrittenKind,
    /// The type that a cast gives it.
    cast: Option<ast::DataType>,
    /// The number, if it is an integer without a cast: most keys are.
    number: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum WrittenKind {
    /// A constant, as it is written.
    Constant(String),
    /// A parameter, from 0.
    Parameter(usize),
    /// A list of constants in `ARRAY[…]`, as it is written.
    Array(String),
}

/// Marks a slot in a key. No token has this character.
const SLOT: char = '\u{1}';

impl Shape {
    /// The shape of a statement with these tokens.
    pub(super) fn of(statement: &str, of: &[Lexeme]) -> Shape {
        let mut parts: Vec<Part> = Vec::new();
        let mut at = 0;
        while at < of.len() {
            let (part, next) = value(statement, of, at)
                .map(|(written, next)| {
                    (
                        Part::Slot(Slot {
                            values: vec![written],
                            is_list: false,
                        }),
                        next,
                    )
                })
                .unwrap_or_else(|| (Part::Token(token(&of[at])), at + 1));
            parts.push(part);
            at = next;
        }
        let parts = rows(lists(parts));
        let mut shape = Shape {
            key: String::new(),
            slots: Vec::new(),
        };
        for part in parts {
            match part {
                Part::Token(text) => shape.key.push_str(&text),
                Part::Slot(slot) => {
                    shape.key.push(SLOT);
                    shape.key.push(if slot.is_list { '*' } else { '?' });
                    shape.slots.push(slot);
                }
            }
            shape.key.push(' ');
        }
        shape
    }
}

#[derive(Debug)]
enum Part {
    Token(String),
    Slot(Slot),
}

impl Part {
    fn is(&self, text: &str) -> bool {
        matches!(self, Part::Token(token) if token == text)
    }
}

/// A token in a key. A quoted name is the same as the name without quotes, if that is a name at all.
fn token(of: &Lexeme) -> String {
    const OTHERWISE: [&str; 14] = [
        "user",
        "current_user",
        "session_user",
        "current_role",
        "current_date",
        "current_time",
        "current_timestamp",
        "localtime",
        "localtimestamp",
        "null",
        "true",
        "false",
        "default",
        "array",
    ];
    let is_plain = |text: &str| {
        !text.starts_with(|c: char| c.is_ascii_digit())
            && text
                .chars()
                .all(|c| c.is_lowercase() || c.is_ascii_digit() || c == '_')
            && !OTHERWISE.contains(&text)
    };
    match of.kind {
        TokenKind::QuotedWord if !is_plain(&of.text) => format!("\"{}\"", of.text),
        _ => of.text.clone(),
    }
}

/// The value that begins at a place, and the place behind it.
pub(super) fn value(statement: &str, of: &[Lexeme], at: usize) -> Option<(Written, usize)> {
    const TYPES: [&str; 5] = ["date", "timestamp", "timestamptz", "time", "interval"];
    let first = &of[at];
    let before = at.checked_sub(1).map(|before| &of[before]);
    let after = |keywords: &[&str]| before.is_some_and(|before| before.is_any(keywords));
    let text = |from: usize, to: usize| statement[of[from].start..of[to].end].to_owned();
    let next_is = |kind: TokenKind| of.get(at + 1).is_some_and(|next| next.kind == kind);
    let (kind, mut cast, mut next) = match first.kind {
        TokenKind::Parameter => {
            let number: usize = first.text.get(1..)?.parse().ok()?;
            (WrittenKind::Parameter(number.checked_sub(1)?), None, at + 1)
        }
        TokenKind::Number | TokenKind::Text => (WrittenKind::Constant(text(at, at)), None, at + 1),
        // A sign belongs to the number, unless it subtracts it from something.
        TokenKind::Symbol if first.is_symbol('-') && next_is(TokenKind::Number) => {
            let subtracts = before.is_some_and(|before| {
                matches!(
                    before.kind,
                    TokenKind::QuotedWord
                        | TokenKind::Number
                        | TokenKind::Text
                        | TokenKind::Parameter
                ) || before.kind == TokenKind::Word && !precedes_values(before)
                    || before.is_symbol(')')
                    || before.is_symbol(']')
            });
            if subtracts {
                return None;
            }
            (WrittenKind::Constant(text(at, at + 1)), None, at + 2)
        }
        TokenKind::Word if first.is_any(&["true", "false", "null"]) && !after(&["is", "not"]) => {
            (WrittenKind::Constant(text(at, at)), None, at + 1)
        }
        TokenKind::Word if first.is_any(&TYPES) && next_is(TokenKind::Text) => {
            let cast = data_type(&first.text)?;
            (
                WrittenKind::Constant(text(at + 1, at + 1)),
                Some(cast),
                at + 2,
            )
        }
        TokenKind::Word
            if first.is("array") && of.get(at + 1).is_some_and(|next| next.is_symbol('[')) =>
        {
            let end = closing(of, at + 1);
            let inside = of.get(at + 2..end)?;
            let are_values = inside.iter().all(|token| {
                matches!(token.kind, TokenKind::Number | TokenKind::Text)
                    || token.is_symbol(',')
                    || token.is_symbol('-')
                    || token.is_any(&["true", "false", "null"])
            });
            if !are_values || end >= of.len() {
                return None;
            }
            (WrittenKind::Array(text(at, end)), None, end + 1)
        }
        _ => return None,
    };
    while let Some((named, behind)) = cast_at(statement, of, next) {
        // Two casts, one after the other: only the value itself is compared.
        cast = match cast {
            None => Some(named),
            Some(_) => return None,
        };
        next = behind;
    }
    let number = match &kind {
        WrittenKind::Constant(text) if cast.is_none() => text.parse().ok(),
        _ => None,
    };
    Some((Written { kind, cast, number }, next))
}

/// The type of a cast `::type` at a place, and the place behind it.
fn cast_at(statement: &str, of: &[Lexeme], at: usize) -> Option<(ast::DataType, usize)> {
    let colon = |at: usize| of.get(at).is_some_and(|token| token.is_symbol(':'));
    if !colon(at) || !colon(at + 1) {
        return None;
    }
    let first = at + 2;
    let name = of.get(first).filter(|token| token.is_name())?;
    let is = |at: usize, keywords: &[&str]| of.get(at).is_some_and(|token| token.is_any(keywords));
    let mut next = first + 1;
    if name.is("double") && is(next, &["precision"])
        || name.is("character") && is(next, &["varying"])
    {
        next += 1;
    }
    if of.get(next).is_some_and(|token| token.is_symbol('(')) {
        next = closing(of, next) + 1;
    }
    if name.is_any(&["timestamp", "time"])
        && is(next, &["with", "without"])
        && is(next + 1, &["time"])
    {
        next += 3;
    }
    if of.get(next).is_some_and(|token| token.is_symbol('[')) {
        next = closing(of, next) + 1;
    }
    let last = of.get(next.checked_sub(1)?)?;
    let named = data_type(&statement[of[first].start..last.end])?;
    Some((named, next))
}

/// A type as the parser has it.
fn data_type(text: &str) -> Option<ast::DataType> {
    let dialect = sqlparser::dialect::PostgreSqlDialect {};
    let parser = sqlparser::parser::Parser::new(&dialect);
    parser.try_with_sql(text).ok()?.parse_data_type().ok()
}

/// Whether a value, and not an operator, follows a keyword.
fn precedes_values(keyword: &Lexeme) -> bool {
    const KEYWORDS: [&str; 24] = [
        "values",
        "limit",
        "offset",
        "like",
        "ilike",
        "in",
        "and",
        "or",
        "not",
        "between",
        "set",
        "where",
        "select",
        "then",
        "else",
        "when",
        "case",
        "returning",
        "any",
        "all",
        "on",
        "having",
        "is",
        "by",
    ];
    keyword.is_any(&KEYWORDS)
}

/// Puts the values of `IN (…)` into one slot.
fn lists(parts: Vec<Part>) -> Vec<Part> {
    let mut found: Vec<Part> = Vec::with_capacity(parts.len());
    let mut parts = parts.into_iter().peekable();
    while let Some(part) = parts.next() {
        let begins = part.is("(") && found.last().is_some_and(|before| before.is("in"));
        found.push(part);
        if !begins {
            continue;
        }
        let first = found.len();
        while parts
            .peek()
            .is_some_and(|part| part.is(",") || matches!(part, Part::Slot(_)))
        {
            found.extend(parts.next());
        }
        let is_list = parts.peek().is_some_and(|part| part.is(")")) && found.len() > first;
        if is_list {
            let mut list = Slot {
                values: Vec::new(),
                is_list: true,
            };
            for part in found.drain(first..) {
                if let Part::Slot(slot) = part {
                    list.values.extend(slot.values);
                }
            }
            found.push(Part::Slot(list));
        }
    }
    found
}

/// Puts rows of VALUES that are alike into the slots of the first.
fn rows(parts: Vec<Part>) -> Vec<Part> {
    let Some(values) = parts.iter().position(|part| part.is("values")) else {
        return parts;
    };
    let mut found: Vec<Part> = Vec::new();
    let mut parts = parts.into_iter();
    found.extend(parts.by_ref().take(values + 1));
    let rest: Vec<Part> = parts.collect();
    // The ends of rows, as far as rows follow one another.
    let mut ends = Vec::new();
    let mut depth = 0_usize;
    for (at, part) in rest.iter().enumerate() {
        if depth == 0 && !part.is("(") && !part.is(",") {
            break;
        }
        depth += usize::from(part.is("("));
        if part.is(")") {
            depth -= 1;
            if depth == 0 {
                ends.push(at);
            }
        }
    }
    let Some(first) = ends.first().copied() else {
        found.extend(rest);
        return found;
    };
    let row = |end: usize| end - first..=end;
    let alike = |one: &Part, other: &Part| match (one, other) {
        (Part::Token(one), Part::Token(other)) => one == other,
        (Part::Slot(one), Part::Slot(other)) => one.is_list == other.is_list,
        _ => false,
    };
    // All rows have the form of the first, with a comma between.
    let same = ends.iter().enumerate().all(|(number, end)| {
        let start = number * (first + 2);
        *end == start + first
            && rest[row(*end)]
                .iter()
                .zip(&rest[..=first])
                .all(|(one, other)| alike(one, other))
    });
    if !same {
        found.extend(rest);
        return found;
    }
    let last = ends.last().copied().unwrap_or(first);
    let mut rest = rest.into_iter().enumerate();
    let mut begin: Vec<Part> = rest
        .by_ref()
        .take(first + 1)
        .map(|(_, part)| part)
        .collect();
    for (at, part) in rest.by_ref().take(last - first) {
        let place = at % (first + 2);
        if let (Part::Slot(slot), Some(Part::Slot(of_first))) = (part, begin.get_mut(place)) {
            of_first.values.extend(slot.values);
        }
    }
    found.extend(begin);
    found.extend(rest.map(|(_, part)| part));
    found
}

impl Written {
    /// Its value where a value of the type is wanted, with these parameters. `None` if it is not known here.
    pub(super) fn value(&self, wanted: &DataType, arguments: &Arguments<'_>) -> Option<Value> {
        match self.number {
            Some(number) if wanted.is_integer() => Some(Value::Int(number)),
            _ => self.operand(wanted).value(wanted, arguments),
        }
    }

    pub(super) fn operand(&self, wanted: &DataType) -> Operand {
        let cast = match &self.cast {
            None => None,
            Some(cast) => match resolve_data_type(cast, &[]) {
                Ok(cast) => Some(cast),
                Err(_) => return Operand::Expression,
            },
        };
        match &self.kind {
            WrittenKind::Parameter(index) => match cast {
                // A bound of the type changes values.
                Some(
                    DataType::Numeric(Some(_)) | DataType::Varchar(Some(_)) | DataType::Char(_),
                ) => Operand::Expression,
                cast => Operand::Parameter {
                    index: *index,
                    cast,
                },
            },
            // Without the parser, for speed.
            WrittenKind::Constant(text) if self.cast.is_none() && is_simple(text) => {
                let value = match text
                    .strip_prefix('\'')
                    .and_then(|text| text.strip_suffix('\''))
                {
                    Some(inside) => ast::Value::SingleQuotedString(inside.replace("''", "'")),
                    None => ast::Value::Number(text.clone(), false),
                };
                Operand::of_value(&value, wanted)
            }
            WrittenKind::Constant(text) | WrittenKind::Array(text) => {
                let text = match &self.cast {
                    None => text.clone(),
                    Some(cast) => format!("CAST({text} AS {cast})"),
                };
                Operand::parse(&text, wanted)
            }
        }
    }

    /// Whether it is this constant of a statement in the application's source.
    pub(super) fn is_constant(&self, constant: &Written, arguments: &Arguments<'_>) -> bool {
        if self == constant {
            return true;
        }
        let (WrittenKind::Constant(text), None) = (&constant.kind, &constant.cast) else {
            return false;
        };
        // As the type of the constant; numbers that are equal may be written in several ways.
        let wanted = match text.chars().next() {
            Some('\'' | 'e' | 'E' | '$') => DataType::Text,
            Some('t' | 'T' | 'f' | 'F') => DataType::Bool,
            _ => DataType::Numeric(None),
        };
        let of = |written: &Written| written.value(&wanted, arguments);
        of(constant).is_some_and(|value| {
            of(self).is_some_and(|other| value.compare(&other) == Some(std::cmp::Ordering::Equal))
        })
    }
}

/// Whether a constant is a number in digits, or a text in quotes alone.
fn is_simple(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    text.starts_with('\'') || !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::super::words::lexemes;
    use super::*;

    fn shape(statement: &str) -> Shape {
        Shape::of(statement, &lexemes(statement).unwrap())
    }

    fn key(statement: &str) -> String {
        shape(statement).key.replace(SLOT, "")
    }

    fn counts(statement: &str) -> Vec<usize> {
        let shape = shape(statement);
        shape.slots.iter().map(|slot| slot.values.len()).collect()
    }

    #[test]
    fn statements_that_differ_in_values_have_one_shape() {
        let one = "SELECT a FROM t WHERE b = $1 AND c = $2";
        for other in [
            "select a\nfrom t where b = 5 and c = 'x'",
            "SELECT a /* z */ FROM t WHERE \"b\" = -5 AND c = E'it''s'",
            "SELECT a FROM t WHERE b = '2024-01-01'::timestamp with time zone AND c = DATE '2024-01-01'",
            "SELECT a FROM t WHERE b = NULL AND c = ARRAY[1, -2]::int[]",
            "SELECT a FROM t WHERE b = $3::bigint AND c = $$x$$ -- end",
        ] {
            assert_eq!(key(one), key(other), "{other}");
        }
        for other in [
            "SELECT a FROM t WHERE b = c AND c = $1",
            "SELECT a FROM t WHERE b = $1 OR c = $2",
            "SELECT a FROM u WHERE b = $1 AND c = $2",
            "SELECT a FROM t WHERE b = $1 + 1 AND c = $2",
            "SELECT a FROM t WHERE b = a - 5 AND c = $2",
            "SELECT a FROM t WHERE b IS NULL AND c = $2",
        ] {
            assert_ne!(key(one), key(other), "{other}");
        }
        assert_eq!(key("SELECT a - $1"), key("SELECT a - 5"));
        assert_ne!(key("SELECT a IS NULL"), key("SELECT a IS NOT NULL"));
    }

    #[test]
    fn lists_and_rows_of_any_length_have_one_shape() {
        assert_eq!(
            key("SELECT 1 WHERE a IN ($1)"),
            key("SELECT 1 WHERE a IN (1, 2, 3)")
        );
        assert_eq!(counts("SELECT 1 WHERE a IN (1, 2, 3) AND b = 4"), [1, 3, 1]);
        let one = "INSERT INTO t (a, b) VALUES ($1, f($2)) RETURNING a";
        let three = "INSERT INTO t (a, b) VALUES (1, f(2)), (3, f(4)), (5, f(6)) RETURNING a";
        assert_eq!(key(one), key(three));
        assert_eq!(counts(three), [3, 3]);
        let unlike = "INSERT INTO t (a, b) VALUES (1, f(2)), (3, 4) RETURNING a";
        assert_ne!(key(one), key(unlike));
    }

    #[test]
    fn constants_of_the_source_are_compared_as_values() {
        let written = |text: &str| {
            let shape = shape(&format!("SELECT {text}"));
            shape.slots[0].values[0].clone()
        };
        let is =
            |one: &str, other: &str| written(one).is_constant(&written(other), &Arguments::NONE);
        assert!(is("5", "5.0") && is("'a'", "E'a'") && is("TRUE", "true") && is("-1", "-1.0"));
        assert!(!is("5", "6") && !is("'a'", "'b'") && !is("5", "'5'") && !is("null", "5"));
        let values = [Some(bytes::Bytes::from_static(b"5"))];
        let arguments = Arguments {
            values: &values,
            ..Arguments::NONE
        };
        assert!(written("$1").is_constant(&written("5"), &arguments));
        assert!(!written("$1").is_constant(&written("6"), &arguments));
    }
}
