//! Values that statements compare and pass: constants, and parameters as a client binds them.

use anabranch_sql::SourceFile;
use anabranch_sql::parse::{parse_statements, resolve_data_type};
use anabranch_types::text::{depends_on_zone, format_value, parse_value};
use anabranch_types::{DataType, TimeZone, Value};
use anabranch_wire::format::{data_type_of, decode, text_of};
use anabranch_wire::{Format, Formats};
use bytes::Bytes;
use sqlparser::ast::{self, Expr, UnaryOperator};

/// The parameters of a statement, as `Parse` and `Bind` have them; empty for a statement without parameters.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// The OIDs of the types that `Parse` names; 0 or nothing for a parameter whose type the server infers.
    pub types: &'a [u32],
    /// The formats of the values.
    pub formats: &'a Formats,
    /// The values; `None` is NULL.
    pub values: &'a [Option<Bytes>],
}

impl Arguments<'static> {
    /// No parameters.
    pub const NONE: Arguments<'static> = Arguments {
        types: &[],
        formats: &Formats::All(Format::Text),
        values: &[],
    };
}

/// What a statement has in the place of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    /// A constant.
    Constant(Value),
    /// A parameter, from 0, with the type that a cast gives it.
    Parameter {
        index: usize,
        cast: Option<DataType>,
    },
    /// Anything else: its value is not known before it is evaluated.
    Expression,
}

impl Operand {
    /// What an expression is where a value of the type is wanted.
    pub(super) fn of(expression: &Expr, wanted: &DataType) -> Operand {
        match expression {
            Expr::Nested(inner) => Operand::of(inner, wanted),
            Expr::UnaryOp {
                op: UnaryOperator::Plus,
                expr,
            } if is_number(expr) => Operand::of(expr, wanted),
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } => match &**expr {
                Expr::Value(ast::ValueWithSpan {
                    value: ast::Value::Number(text, false),
                    ..
                }) => constant(number(&format!("-{text}"), wanted)),
                _ => Operand::Expression,
            },
            Expr::Value(value) => Operand::of_value(&value.value, wanted),
            Expr::TypedString(typed) if !typed.uses_odbc_syntax => {
                let Some(of) = cast_type(&typed.data_type) else {
                    return Operand::Expression;
                };
                let text = string(&typed.value.value);
                constant(
                    text.and_then(|text| parsed(text, &of))
                        .and_then(|value| converted(value, &of, wanted)),
                )
            }
            Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => {
                let Some(of) = cast_type(data_type) else {
                    return Operand::Expression;
                };
                match Operand::of(expr, &of) {
                    Operand::Constant(value) => constant(converted(value, &of, wanted)),
                    Operand::Parameter { index, cast: None } => Operand::Parameter {
                        index,
                        cast: Some(of),
                    },
                    _ => Operand::Expression,
                }
            }
            Expr::Array(array) => {
                let Some(element) = wanted.element() else {
                    return Operand::Expression;
                };
                let elements =
                    array
                        .elem
                        .iter()
                        .map(|expression| match Operand::of(expression, element) {
                            Operand::Constant(value) => Some(value),
                            _ => None,
                        });
                let elements: Option<Vec<Value>> = elements.collect();
                constant(elements.map(|elements| Value::Array(elements.into())))
            }
            _ => Operand::Expression,
        }
    }

    /// What a piece of a statement is where a value of the type is wanted.
    pub(super) fn parse(text: &str, wanted: &DataType) -> Operand {
        let file = SourceFile::new("value", format!("SELECT {text}"));
        let Ok(statements) = parse_statements(&file, 0) else {
            return Operand::Expression;
        };
        let [(ast::Statement::Query(query), _)] = statements.as_slice() else {
            return Operand::Expression;
        };
        let ast::SetExpr::Select(select) = &*query.body else {
            return Operand::Expression;
        };
        match select.projection.as_slice() {
            [ast::SelectItem::UnnamedExpr(value)] if select.from.is_empty() => {
                Operand::of(value, wanted)
            }
            _ => Operand::Expression,
        }
    }

    /// What a literal or a placeholder is where a value of the type is wanted.
    pub(super) fn of_value(value: &ast::Value, wanted: &DataType) -> Operand {
        match value {
            ast::Value::Null => Operand::Constant(Value::Null),
            ast::Value::Boolean(truth) => {
                constant(converted(Value::Bool(*truth), &DataType::Bool, wanted))
            }
            ast::Value::Number(text, false) => constant(number(text, wanted)),
            ast::Value::Placeholder(name) => placeholder(name),
            value => constant(string(value).and_then(|text| parsed(text, wanted))),
        }
    }

    /// Its value where a value of the type is wanted, with these parameters. `None` if it is not known here.
    pub(super) fn value(&self, wanted: &DataType, arguments: &Arguments<'_>) -> Option<Value> {
        match self {
            Operand::Constant(value) => Some(value.clone()),
            Operand::Parameter { index, cast: None } => bound(arguments, *index, wanted),
            Operand::Parameter {
                index,
                cast: Some(cast),
            } => converted(bound(arguments, *index, cast)?, cast, wanted),
            Operand::Expression => None,
        }
    }
}

fn constant(value: Option<Value>) -> Operand {
    value.map_or(Operand::Expression, Operand::Constant)
}

fn placeholder(name: &str) -> Operand {
    let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
    match number.and_then(|number| number.checked_sub(1)) {
        Some(index) => Operand::Parameter { index, cast: None },
        None => Operand::Expression,
    }
}

fn is_number(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(value) if matches!(value.value, ast::Value::Number(..)))
}

/// The text of a string literal.
pub(super) fn string(value: &ast::Value) -> Option<&str> {
    match value {
        ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => Some(text),
        ast::Value::DollarQuotedString(quoted) => Some(&quoted.value),
        _ => None,
    }
}

/// The value of a string literal as a type; `None` also if it depends on the session's time zone.
fn parsed(text: &str, of: &DataType) -> Option<Value> {
    if depends_on_zone(text, of) {
        return None;
    }
    parse_value(text, of, &TimeZone::default()).ok()
}

/// The value of a number literal where a type is wanted.
fn number(text: &str, wanted: &DataType) -> Option<Value> {
    match wanted {
        _ if !wanted.is_numeric() => None,
        DataType::Real | DataType::Double => parsed(text, wanted),
        _ => match text.parse() {
            Ok(number) => Some(Value::Int(number)),
            // A fraction is no value of an integer type, and a cast would round it.
            Err(_) if wanted.is_integer() => None,
            Err(_) => parsed(text, &DataType::Numeric(None)),
        },
    }
}

/// The type that a cast names, if values can be cast to it here. A bound (`numeric(5, 2)`, `varchar(3)`) changes values,
/// and is not followed.
fn cast_type(data_type: &ast::DataType) -> Option<DataType> {
    match resolve_data_type(data_type, &[]).ok()? {
        DataType::Numeric(Some(_)) | DataType::Varchar(Some(_)) | DataType::Char(_) => None,
        other => Some(other),
    }
}

/// The value of a parameter, of the type that the client has named or else of the type that the server infers.
fn bound(arguments: &Arguments<'_>, index: usize, inferred: &DataType) -> Option<Value> {
    let bytes = arguments.values.get(index)?;
    let format = match arguments.formats {
        Formats::All(format) => *format,
        Formats::Each(formats) => *formats.get(index)?,
    };
    let oid = arguments.types.get(index).copied().unwrap_or(0);
    let named = data_type_of(oid).ok()?;
    let of = named.as_ref().unwrap_or(inferred);
    if format == Format::Text
        && let Some(bytes) = bytes
        && depends_on_zone(text_of(bytes).ok()?, of)
    {
        return None;
    }
    let value = decode(bytes.as_deref(), of, format, &TimeZone::default()).ok()?;
    match named {
        Some(named) => converted(value, &named, inferred),
        None => Some(value),
    }
}

/// A value of one type as a value of another. `None` where PostgreSQL has no such cast, or its result depends on more
/// than the value.
fn converted(value: Value, from: &DataType, to: &DataType) -> Option<Value> {
    if value.is_null() {
        return Some(value);
    }
    match (from, to) {
        _ if from == to => Some(value),
        _ if from.is_text() && to.is_text() => Some(value),
        _ if from.is_text() => match &value {
            Value::Text(text) => parsed(text, to),
            _ => None,
        },
        // 0.1 is another number as `real` than as `double precision` or `numeric`.
        (_, DataType::Real | DataType::Double) if from.is_numeric() => {
            parsed(&format_value(&value, from, &TimeZone::default()), to)
        }
        // Fractions are rounded by a cast to integers.
        _ if from.is_numeric() && to.is_integer() && !from.is_integer() => None,
        _ if from.is_numeric() && to.is_numeric() => Some(value),
        // Constants that were read as what is wanted.
        (DataType::Date, DataType::Timestamp) => Some(value),
        (DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Uuid, _) if to.is_text() => {
            Some(Value::text(format_value(
                &value,
                from,
                &TimeZone::default(),
            )))
        }
        (DataType::Array(one), DataType::Array(other))
            if one.is_integer() && other.is_integer() =>
        {
            Some(value)
        }
        (DataType::Array(one), DataType::Array(other)) if one.is_text() && other.is_text() => {
            Some(value)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(text: &str, wanted: &DataType) -> Operand {
        let file = SourceFile::new("statement", format!("SELECT {text}"));
        let statements = parse_statements(&file, 0).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        let ast::Statement::Query(query) = &statements[0].0 else {
            panic!("{text}");
        };
        let ast::SetExpr::Select(select) = &*query.body else {
            panic!("{text}");
        };
        let ast::SelectItem::UnnamedExpr(expression) = &select.projection[0] else {
            panic!("{text}");
        };
        Operand::of(expression, wanted)
    }

    #[test]
    fn constants_are_read_as_the_wanted_type() {
        let int = |number| Operand::Constant(Value::Int(number));
        let text = |text| Operand::Constant(Value::text(text));
        for (written, wanted, expected) in [
            ("17", DataType::Int8, int(17)),
            ("-17", DataType::Int4, int(-17)),
            ("-9223372036854775808", DataType::Int8, int(i64::MIN)),
            ("'17'", DataType::Int8, int(17)),
            ("'17'::bigint", DataType::Int4, int(17)),
            ("CAST(17 AS integer)", DataType::Int8, int(17)),
            ("(17)", DataType::Int8, int(17)),
            ("'it''s'", DataType::Text, text("it's")),
            ("E'a\\nb'", DataType::Text, text("a\nb")),
            ("$$a'b$$", DataType::Text, text("a'b")),
            ("'x'::varchar", DataType::Text, text("x")),
            ("NULL", DataType::Int8, Operand::Constant(Value::Null)),
            ("TRUE", DataType::Bool, Operand::Constant(Value::Bool(true))),
            (
                "timestamp '2000-01-01 00:00:01'",
                DataType::Timestamp,
                Operand::Constant(Value::Timestamp(1_000_000)),
            ),
            (
                "ARRAY[1, -2]",
                DataType::Array(Box::new(DataType::Int4)),
                Operand::Constant(Value::Array([Value::Int(1), Value::Int(-2)].into())),
            ),
            (
                "'{1,-2}'",
                DataType::Array(Box::new(DataType::Int4)),
                Operand::Constant(Value::Array([Value::Int(1), Value::Int(-2)].into())),
            ),
            (
                "$2",
                DataType::Int8,
                Operand::Parameter {
                    index: 1,
                    cast: None,
                },
            ),
            (
                "$1::int",
                DataType::Int8,
                Operand::Parameter {
                    index: 0,
                    cast: Some(DataType::Int4),
                },
            ),
        ] {
            assert_eq!(operand(written, &wanted), expected, "{written}");
        }
    }

    /// A wrong guess would send an operation to a server that does not have its rows.
    #[test]
    fn what_depends_on_more_than_its_text_is_an_expression() {
        for (written, wanted) in [
            ("1 + 1", DataType::Int8),
            ("now()", DataType::Timestamp),
            ("'abc'::varchar(2)", DataType::Text),
            ("1.5::numeric(3, 0)", DataType::Numeric(None)),
            ("1.5::integer", DataType::Int4),
            ("'2000-01-01 00:00'", DataType::TimestampTz),
            ("'x'", DataType::Int8),
            ("5", DataType::Text),
            ("-$1", DataType::Int8),
            ("x", DataType::Text),
        ] {
            assert_eq!(operand(written, &wanted), Operand::Expression, "{written}");
        }
    }

    fn value(wanted: &DataType, oid: u32, format: Format, bytes: &[u8]) -> Option<Value> {
        let operand = Operand::Parameter {
            index: 0,
            cast: None,
        };
        let arguments = Arguments {
            types: &[oid],
            formats: &Formats::All(format),
            values: &[Some(Bytes::copy_from_slice(bytes))],
        };
        operand.value(wanted, &arguments)
    }

    #[test]
    fn parameters_are_read_in_their_format_and_type() {
        let int = Some(Value::Int(259));
        let (bigint, text) = (DataType::Int8, Format::Text);
        assert_eq!(value(&bigint, 0, text, b"259"), int);
        assert_eq!(
            value(&bigint, 0, Format::Binary, &[0, 0, 0, 0, 0, 0, 1, 3]),
            int
        );
        // As drivers name it: int4, int2, text.
        assert_eq!(value(&bigint, 23, Format::Binary, &[0, 0, 1, 3]), int);
        assert_eq!(value(&bigint, 21, Format::Binary, &[1, 3]), int);
        assert_eq!(value(&bigint, 25, text, b"259"), int);
        // Binary that is not of the type.
        assert_eq!(value(&bigint, 0, Format::Binary, &[0, 0, 1, 3]), None);
        // "1234" is a text of four digits, and an int4 in binary.
        assert_eq!(value(&bigint, 23, text, b"1234"), Some(Value::Int(1_234)));
        assert_eq!(
            value(&bigint, 23, Format::Binary, b"1234"),
            Some(Value::Int(0x3132_3334))
        );
        let none = Arguments {
            values: &[None],
            ..Arguments::NONE
        };
        let operand = Operand::Parameter {
            index: 0,
            cast: None,
        };
        assert_eq!(operand.value(&bigint, &none), Some(Value::Null));
        assert_eq!(operand.value(&bigint, &Arguments::NONE), None);
        let zoned = DataType::TimestampTz;
        assert_eq!(value(&zoned, 0, text, b"2000-01-01 00:00"), None);
        assert_eq!(
            value(&zoned, 0, text, b"2000-01-01 00:00:01Z"),
            Some(Value::Timestamp(1_000_000))
        );
    }
}
