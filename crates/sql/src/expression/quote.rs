//! `format()`, and texts as literals of SQL.

use anabranch_types::{DataType, TimeZone, Value, text::format_value};

use super::{Failure, budget::within_value, failure};
use crate::system::names::quoted;

/// A text as a literal: `quote_literal`.
pub(super) fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

/// What stands at a place of `format()`.
struct Specifier {
    /// The argument, counted from 1; the next one if none is named.
    argument: Option<usize>,
    left: bool,
    width: Width,
    kind: char,
}

enum Width {
    Fixed(i64),
    /// That of an argument, counted from 1; of the next one if none is named.
    Of(Option<usize>),
}

fn wrong(message: impl Into<String>) -> Failure {
    let mut failure = failure("22023", message);
    let fields = failure.fields.get_or_insert_default();
    fields.hint = Some("For a single \"%\" use \"%%\".".into());
    failure
}

fn too_few() -> Failure {
    failure("22023", "too few arguments for format()")
}

/// `format(template, …)`; `types` are those of the arguments behind the template.
pub(super) fn formatted(
    template: &str,
    arguments: &[Value],
    types: &[DataType],
    zone: &TimeZone,
) -> Result<String, Failure> {
    let mut out = String::new();
    let mut rest = template;
    // The argument that comes next, counted from 1.
    let mut next = 1;
    let argument = |named: Option<usize>, next: &mut usize| {
        let number = named.unwrap_or(*next);
        *next = number + 1;
        let place = number.checked_sub(1).ok_or_else(too_few)?;
        arguments
            .get(place)
            .zip(types.get(place))
            .ok_or_else(too_few)
    };
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(left) = rest.strip_prefix('%') {
            out.push('%');
            rest = left;
            continue;
        }
        let specifier = specifier(&mut rest)?;
        if !matches!(specifier.kind, 's' | 'I' | 'L') {
            let kind = specifier.kind;
            return Err(wrong(format!(
                "unrecognized format() type specifier \"{kind}\""
            )));
        }
        let width = match specifier.width {
            Width::Fixed(width) => width,
            Width::Of(named) => match argument(named, &mut next)? {
                (Value::Null, _) => 0,
                (Value::Int(width), _) => *width,
                (value, data_type) => {
                    let text = format_value(value, data_type, zone);
                    let message = format!("invalid input syntax for type integer: \"{text}\"");
                    text.trim().parse().map_err(|_| failure("22P02", message))?
                }
            },
        };
        let (value, data_type) = argument(specifier.argument, &mut next)?;
        let text = || format_value(value, data_type, zone);
        let text = match (specifier.kind, value.is_null()) {
            ('s', _) => text(),
            ('L', true) => "NULL".to_owned(),
            ('L', false) => literal(&text()),
            (_, true) => {
                let message = "null values cannot be formatted as an SQL identifier";
                return Err(failure("22004", message));
            }
            (_, false) => quoted(&text()),
        };
        let length = usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX);
        within_value(out.len().saturating_add(length))?;
        let missing = " ".repeat(length.saturating_sub(text.chars().count()));
        match specifier.left || width < 0 {
            true => out.extend([text, missing]),
            false => out.extend([missing, text]),
        }
        within_value(out.len())?;
    }
    out.push_str(rest);
    Ok(out)
}

/// Takes what follows a `%`: `[n$][-][width]type`.
fn specifier(rest: &mut &str) -> Result<Specifier, Failure> {
    let unterminated = || wrong("unterminated format() type specifier");
    let zero = || {
        failure(
            "22023",
            "format specifies argument 0, but arguments are numbered from 1",
        )
    };
    let mut found = Specifier {
        argument: None,
        left: false,
        width: Width::Fixed(0),
        kind: 's',
    };
    let mut width = number(rest)?;
    if let (Some(place), Some(left)) = (width, rest.strip_prefix('$')) {
        if place == 0 {
            return Err(zero());
        }
        found.argument = Some(place);
        *rest = left;
        width = None;
    }
    if width.is_none() {
        while let Some(left) = rest.strip_prefix('-') {
            found.left = true;
            *rest = left;
        }
        if let Some(left) = rest.strip_prefix('*') {
            *rest = left;
            let place = number(rest)?;
            if let Some(place) = place {
                if place == 0 {
                    return Err(zero());
                }
                let message = "width argument position must be ended by \"$\"";
                let left = rest.strip_prefix('$');
                *rest = left.ok_or_else(|| failure("22023", message))?;
            }
            found.width = Width::Of(place);
        } else {
            width = number(rest)?;
        }
    }
    if let Some(width) = width {
        found.width = Width::Fixed(width as i64);
    }
    let mut characters = rest.chars();
    found.kind = characters.next().ok_or_else(unterminated)?;
    *rest = characters.as_str();
    Ok(found)
}

/// Takes a number, if one comes next.
fn number(rest: &mut &str) -> Result<Option<usize>, Failure> {
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    if end == 0 {
        return Ok(None);
    }
    let number: Option<i32> = rest[..end].parse().ok();
    let number = number.ok_or_else(|| failure("22003", "number is out of range"))?;
    *rest = &rest[end..];
    Ok(usize::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled_as_in_postgresql() {
        let arguments = [
            Value::text("it's"),
            Value::Int(-5),
            Value::Null,
            Value::text("Order"),
            Value::text("a\\b"),
        ];
        let types = [
            DataType::Text,
            DataType::Int4,
            DataType::Text,
            DataType::Text,
            DataType::Text,
        ];
        let format = |template: &str| formatted(template, &arguments, &types, &TimeZone::UTC);
        for (template, expected) in [
            ("", ""),
            ("%s %s|%s|", "it's -5||"),
            ("%L %s %L %I %L", "'it''s' -5 NULL \"Order\" E'a\\\\b'"),
            ("%4$I %1$s %s 100%%", "\"Order\" it's -5 100%"),
            ("|%6s|%-6s|", "|  it's|-5    |"),
            ("|%2$-8s|%1$8s|", "|-5      |    it's|"),
            ("|%1$*2$s|", "|it's |"),
        ] {
            assert_eq!(format(template).expect(template), expected, "{template}");
        }
        for (template, code) in [
            ("%s%s%s%s%s%s", "22023"),
            ("%", "22023"),
            ("%d", "22023"),
            ("%0$s", "22023"),
            ("%3$I", "22004"),
            ("%9999999999s", "22003"),
        ] {
            assert_eq!(
                format(template).expect_err(template).code,
                code,
                "{template}"
            );
        }
    }
}
