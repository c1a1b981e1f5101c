//! Parses the names of types.

use std::sync::Arc;

use anabranch_types::{DataType, EnumType, NumericBounds, ObjectKind, decimal::DIGITS_MAX};
use sqlparser::{ast, tokenizer::Token as Kind};

use super::{
    cursor::{Cursor, Parsed},
    keyword::is_reserved,
    lexer::{Places, Text, lex},
    type_lookup::{OTHERS, looked_up, named, unknown},
};
use crate::{
    diagnostic::Diagnostic,
    source::{SourceFile, Span},
};

/// A declared type; `serial` and its kin are a type and a default. A name of none of PostgreSQL's own types stands for an
/// enumeration, which is still to be looked up: see [`looked_up`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Declared {
    pub(crate) data_type: DataType,
    pub(crate) serial: bool,
    pub(crate) span: Span,
}

/// The type that a cast names, for the analyser: it has no `json` and `jsonb`, whose values it does not know. `types` are
/// the enumerations that there are.
///
/// # Errors
/// With PostgreSQL's words for a type that does not exist or that is not supported.
pub fn resolve_data_type(
    data_type: &ast::DataType,
    types: &[Arc<EnumType>],
) -> Result<DataType, Diagnostic> {
    resolved(data_type, types, |cursor| {
        let found = declared_without_serial(cursor)?;
        let element = found.data_type.element().unwrap_or(&found.data_type);
        match element.is_json() {
            true => Err(Diagnostic::unsupported(
                format!("type \"{element}\""),
                found.span,
            )),
            false => Ok(found.data_type),
        }
    })
}

/// The type that a cast in a statement names, also one of the system catalogs.
///
/// # Errors
/// As [`resolve_data_type`].
pub(crate) fn resolve_statement_type(
    data_type: &ast::DataType,
    types: &[Arc<EnumType>],
) -> Result<DataType, Diagnostic> {
    resolved(data_type, types, of_statement)
}

fn resolved(
    data_type: &ast::DataType,
    types: &[Arc<EnumType>],
    parse: impl FnOnce(&mut Cursor<'_>) -> Parsed<DataType>,
) -> Result<DataType, Diagnostic> {
    // The places are those of the type's text alone: the caller knows the right ones.
    let parse = |cursor: &mut Cursor<'_>| {
        let start = cursor.span();
        let found = parse(cursor)?;
        looked_up(found, types, cursor.since(start))
    };
    of_text(&data_type.to_string(), parse).map_err(|error| Diagnostic {
        span: None,
        ..error
    })
}

/// The type that a cast in a statement names, for its name alone: an enumeration is not looked up.
pub(crate) fn cast_type(data_type: &ast::DataType) -> Option<DataType> {
    of_text(&data_type.to_string(), of_statement).ok()
}

/// A type that a statement may name: also one of the system catalogs, which no table has a column of.
fn of_statement(cursor: &mut Cursor<'_>) -> Parsed<DataType> {
    let qualified = cursor.at_words(&["pg_catalog"])
        && cursor.peek_at(1).is_some_and(|t| t.kind == Kind::Period);
    let at = if qualified { 2 } else { 0 };
    let found = match cursor.peek_at(at).map(|token| &token.kind) {
        Some(Kind::Word(word)) => catalog_type(&word.value, word.quote_style.is_some()),
        _ => None,
    };
    let Some(mut data_type) = found else {
        return serialless(cursor);
    };
    cursor.take(at + 1);
    if cursor.eat(&Kind::LBracket) {
        cursor.expect(&Kind::RBracket)?;
        data_type = DataType::Array(Box::new(data_type));
    }
    Ok(data_type)
}

/// A type of the system catalogs.
fn catalog_type(name: &str, quoted: bool) -> Option<DataType> {
    Some(match name {
        "oid" => DataType::Oid,
        "name" => DataType::Name,
        "char" if quoted => DataType::SingleByte,
        "int2vector" => DataType::Int2Vector,
        "oidvector" => DataType::OidVector,
        "regclass" => DataType::OidAlias(ObjectKind::Relation),
        "regtype" => DataType::OidAlias(ObjectKind::Type),
        "regproc" => DataType::OidAlias(ObjectKind::Procedure),
        "regprocedure" => DataType::OidAlias(ObjectKind::Signature),
        "regnamespace" => DataType::OidAlias(ObjectKind::Schema),
        "regrole" => DataType::OidAlias(ObjectKind::Role),
        _ => return None,
    })
}

/// The type in a text, if it is supported; enumerations are not.
pub(crate) fn resolve_written_type(text: &str) -> Option<DataType> {
    let found = of_text(text, declared).ok()?;
    looked_up(found.data_type, &[], found.span).ok()
}

/// Whether a name is that of one of PostgreSQL's own types.
pub(crate) fn is_builtin(name: &str) -> bool {
    let is_type = |name: &str| resolve_written_type(name).is_some();
    OTHERS.contains(&name) || catalog_type(name, true).is_some() || is_type(name)
}

/// Parses a text that consists of a type.
fn of_text<T>(text: &str, parse: impl FnOnce(&mut Cursor<'_>) -> Parsed<T>) -> Parsed<T> {
    let file = SourceFile::new("", text);
    let (tokens, error) = lex(Text {
        file: 0,
        text,
        places: Places::From(0),
    });
    let end = Span {
        file: 0,
        start: 0,
        end: 0,
    };
    let mut cursor = Cursor::new(&file, &tokens, end);
    error.map_or(Ok(()), Err)?;
    let found = parse(&mut cursor)?;
    cursor.finish("the end of the type")?;
    Ok(found)
}

/// A type at the cursor.
pub(crate) fn declared(cursor: &mut Cursor<'_>) -> Parsed<Declared> {
    let start = cursor.span();
    let (mut data_type, serial) = scalar(cursor)?;
    let mut dimensions = 0;
    if cursor.eat_word("array") {
        dimensions += 1;
        if cursor.eat(&Kind::LBracket) {
            cursor.integer()?;
            cursor.expect(&Kind::RBracket)?;
        }
    }
    while cursor.eat(&Kind::LBracket) {
        if !cursor.at(&Kind::RBracket) {
            cursor.integer()?;
        }
        cursor.expect(&Kind::RBracket)?;
        dimensions += 1;
    }
    let span = cursor.since(start);
    match dimensions {
        0 => {}
        1 if !serial => data_type = DataType::Array(Box::new(data_type)),
        1 => {
            return Err(Diagnostic::new(
                "0A000",
                "array of serial is not implemented",
                span,
            ));
        }
        _ => {
            // PostgreSQL takes any number of brackets for the same type.
            return Err(
                Diagnostic::unsupported("an array of more than one dimension", span)
                    .help("pass one array a column"),
            );
        }
    }
    Ok(Declared {
        data_type,
        serial,
        span,
    })
}

/// A type that is not `serial` or its kin, which are for columns.
pub(crate) fn serialless(cursor: &mut Cursor<'_>) -> Parsed<DataType> {
    declared_without_serial(cursor).map(|declared| declared.data_type)
}

fn declared_without_serial(cursor: &mut Cursor<'_>) -> Parsed<Declared> {
    let declared = declared(cursor)?;
    if declared.serial {
        let message = "type \"serial\" does not exist outside of CREATE TABLE";
        return Err(Diagnostic::new("42704", message, declared.span)
            .help(format!("write {}", declared.data_type)));
    }
    Ok(declared)
}

fn scalar(cursor: &mut Cursor<'_>) -> Parsed<(DataType, bool)> {
    if cursor.at_words(&["pg_catalog"]) && cursor.peek_at(1).is_some_and(|t| t.kind == Kind::Period)
    {
        cursor.take(2);
    } else if let Some(found) = qualified(cursor)? {
        return Ok((found, false));
    }
    let Some(token) = cursor.peek() else {
        return Err(cursor.expected("a type"));
    };
    let Kind::Word(word) = &token.kind else {
        return Err(cursor.expected("a type"));
    };
    let name = word.value.clone();
    let start = token.span;
    cursor.next();
    let plain = |data_type| Ok((data_type, false));
    match name.as_str() {
        "boolean" | "bool" => plain(DataType::Bool),
        "smallint" | "int2" => plain(DataType::Int2),
        "integer" | "int" | "int4" => plain(DataType::Int4),
        "bigint" | "int8" => plain(DataType::Int8),
        "smallserial" | "serial2" => Ok((DataType::Int2, true)),
        "serial" | "serial4" => Ok((DataType::Int4, true)),
        "bigserial" | "serial8" => Ok((DataType::Int8, true)),
        "numeric" | "decimal" | "dec" => plain(numeric(cursor)?),
        "real" | "float4" => plain(DataType::Real),
        "float8" => plain(DataType::Double),
        "double" => {
            cursor.expect_words(&["precision"])?;
            plain(DataType::Double)
        }
        "float" => plain(float(cursor)?),
        "text" => plain(DataType::Text),
        "varchar" => plain(DataType::Varchar(length(cursor)?)),
        "character" | "char" | "national" | "nchar" => {
            if name == "national" && !cursor.eat_word("character") {
                cursor.expect_words(&["char"])?;
            }
            if cursor.eat_word("varying") {
                plain(DataType::Varchar(length(cursor)?))
            } else {
                plain(DataType::Char(length(cursor)?.unwrap_or(1)))
            }
        }
        "bpchar" => plain(length(cursor)?.map_or(DataType::BPCHAR, DataType::Char)),
        "bytea" => plain(DataType::Bytea),
        "uuid" => plain(DataType::Uuid),
        "json" => plain(DataType::Json),
        "jsonb" => plain(DataType::Jsonb),
        "date" => plain(DataType::Date),
        "timestamp" | "timestamptz" => plain(timestamp(cursor, &name, start)?),
        // No type of ours has a bound in parentheses.
        _ if OTHERS.contains(&name.as_str())
            || cursor.at(&Kind::LParen)
            || (word.quote_style.is_none() && is_reserved(&name)) =>
        {
            Err(unknown(&name, start))
        }
        _ => plain(named(&name)),
    }
}

/// A name that a schema qualifies, which is an enumeration's.
fn qualified(cursor: &mut Cursor<'_>) -> Parsed<Option<DataType>> {
    let is_qualified = cursor.peek_at(1).is_some_and(|t| t.kind == Kind::Period);
    if !is_qualified || !matches!(cursor.peek().map(|t| &t.kind), Some(Kind::Word(_))) {
        return Ok(None);
    }
    let name = cursor.schema_name("a type")?;
    Ok(Some(named(&name.text)))
}

/// The digits that PostgreSQL allows a declared `numeric`.
const PRECISION_MAX: u32 = 1_000;
/// The characters that PostgreSQL allows a declared `varchar` or `char`.
const LENGTH_MAX: u32 = 10_485_760;

fn numeric(cursor: &mut Cursor<'_>) -> Parsed<DataType> {
    if !cursor.eat(&Kind::LParen) {
        return Ok(DataType::Numeric(None));
    }
    let (precision, span) = cursor.integer()?;
    if precision == 0 || precision > PRECISION_MAX {
        let message = format!("NUMERIC precision {precision} must be between 1 and 1000");
        return Err(Diagnostic::new("22023", message, span));
    }
    if precision > DIGITS_MAX {
        return Err(
            Diagnostic::unsupported(format!("a numeric of {precision} digits"), span)
                .help(format!("at most {DIGITS_MAX} digits are held")),
        );
    }
    let mut scale = 0;
    if cursor.eat(&Kind::Comma) {
        let start = cursor.span();
        if cursor.eat(&Kind::Minus) {
            return Err(Diagnostic::unsupported(
                "a numeric of negative scale",
                start,
            ));
        }
        let (number, span) = cursor.integer()?;
        if number > precision {
            return Err(
                Diagnostic::unsupported("a numeric scale above the precision", span)
                    .help(format!("write numeric({number},{number}) and a CHECK")),
            );
        }
        scale = number;
    }
    cursor.expect(&Kind::RParen)?;
    // Both are at most 1000.
    let bounds = NumericBounds {
        precision: precision as u16,
        scale: scale as u16,
    };
    Ok(DataType::Numeric(Some(bounds)))
}

fn float(cursor: &mut Cursor<'_>) -> Parsed<DataType> {
    if !cursor.eat(&Kind::LParen) {
        return Ok(DataType::Double);
    }
    let (bits, span) = cursor.integer()?;
    cursor.expect(&Kind::RParen)?;
    match bits {
        1..=24 => Ok(DataType::Real),
        25..=53 => Ok(DataType::Double),
        _ => Err(Diagnostic::new(
            "22023",
            "precision for type float must be 1 to 53 bits",
            span,
        )),
    }
}

fn length(cursor: &mut Cursor<'_>) -> Parsed<Option<u32>> {
    if !cursor.eat(&Kind::LParen) {
        return Ok(None);
    }
    let (length, span) = cursor.integer()?;
    cursor.expect(&Kind::RParen)?;
    if length == 0 || length > LENGTH_MAX {
        let message = format!("length of a character type must be between 1 and {LENGTH_MAX}");
        return Err(Diagnostic::new("22023", message, span));
    }
    Ok(Some(length))
}

fn timestamp(cursor: &mut Cursor<'_>, name: &str, start: Span) -> Parsed<DataType> {
    if cursor.eat(&Kind::LParen) {
        let (digits, _) = cursor.integer()?;
        cursor.expect(&Kind::RParen)?;
        if digits != 6 {
            let span = cursor.since(start);
            return Err(
                Diagnostic::unsupported("a timestamp of less than microseconds", span)
                    .help("leave the precision out"),
            );
        }
    }
    if name == "timestamptz" || cursor.eat_words(&["with", "time", "zone"]) {
        return Ok(DataType::TimestampTz);
    }
    cursor.eat_words(&["without", "time", "zone"]);
    Ok(DataType::Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Declared, Diagnostic> {
        let file = SourceFile::new("a.sql", text);
        let (tokens, _) = lex(Text {
            file: 0,
            text,
            places: Places::From(0),
        });
        let mut cursor = Cursor::new(
            &file,
            &tokens,
            Span {
                file: 0,
                start: 0,
                end: 0,
            },
        );
        let declared = declared(&mut cursor)?;
        cursor.finish("the end")?;
        looked_up(declared.data_type.clone(), &[], declared.span)?;
        Ok(declared)
    }

    #[test]
    fn every_alias_means_its_type() {
        for (text, shown) in [
            ("INT", "integer"),
            ("int8", "bigint"),
            ("decimal(12, 2)", "numeric(12,2)"),
            ("numeric(5)", "numeric(5,0)"),
            ("character varying(16)", "character varying(16)"),
            ("character varying", "character varying"),
            ("char", "character(1)"),
            ("character(2)", "character(2)"),
            ("float", "double precision"),
            ("float(24)", "real"),
            ("double precision", "double precision"),
            ("timestamp", "timestamp without time zone"),
            ("timestamp(6) with time zone", "timestamp with time zone"),
            ("timestamptz", "timestamp with time zone"),
            ("integer[]", "integer[]"),
            ("text ARRAY[3]", "text[]"),
            ("bigserial", "bigint"),
            ("pg_catalog.int4", "integer"),
        ] {
            assert_eq!(parse(text).unwrap().data_type.to_string(), shown, "{text}");
        }
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for (text, code) in [
            ("integr", "42704"),
            ("inet", "0A000"),
            ("numeric(0)", "22023"),
            ("numeric(2,3)", "0A000"),
            ("varchar(0)", "22023"),
            ("int[][]", "0A000"),
            ("timestamp(3)", "0A000"),
            ("double", "42601"),
        ] {
            assert_eq!(parse(text).unwrap_err().code, code, "{text}");
        }
    }

    #[test]
    fn casts_resolve_to_the_same_types() {
        let sql = "SELECT CAST(a AS numeric(4,2)), a::bigint, a::varchar(3), a::timestamptz, \
                   a::double precision, a::int[]";
        let file = SourceFile::new("a.sql", sql);
        let (tokens, _) = lex(Text {
            file: 0,
            text: sql,
            places: Places::From(0),
        });
        let cursor = Cursor::new(
            &file,
            &tokens,
            Span {
                file: 0,
                start: 0,
                end: 0,
            },
        );
        let ast::SetExpr::Select(select) = *cursor.query().unwrap().body else {
            panic!()
        };
        let shown: Vec<String> = select
            .projection
            .iter()
            .map(|item| match item {
                ast::SelectItem::UnnamedExpr(ast::Expr::Cast { data_type, .. }) => {
                    resolve_data_type(data_type, &[]).unwrap().to_string()
                }
                other => panic!("{other}"),
            })
            .collect();
        assert_eq!(
            shown,
            [
                "numeric(4,2)",
                "bigint",
                "character varying(3)",
                "timestamp with time zone",
                "double precision",
                "integer[]"
            ]
        );
    }
}
