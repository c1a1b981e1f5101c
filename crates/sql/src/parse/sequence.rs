//! Parses sequences: `CREATE SEQUENCE`, the options of a sequence or an identity, and `nextval` in a default.

use anabranch_types::DataType;
use sqlparser::{ast, tokenizer::Token as Kind};

use super::{
    cursor::{Cursor, Name, Parsed},
    declaration::{Declaration, SequenceDeclaration, SequenceSettings},
    lexer::Token,
    type_lookup::looked_up,
};
use crate::{
    diagnostic::Diagnostic,
    sequence::{SequenceOptions, bounds},
    source::Span,
};

impl SequenceSettings {
    /// The options of a new sequence, or of one that had the options `old`. As PostgreSQL does it (`init_params`).
    ///
    /// # Errors
    /// A SQLSTATE and a message.
    pub(crate) fn options(
        &self,
        old: Option<&SequenceOptions>,
    ) -> Result<SequenceOptions, (&'static str, String)> {
        const INVALID: &str = "22023";
        let data_type = match (&self.data_type, old) {
            (Some(DataType::Int2 | DataType::Int4 | DataType::Int8), _) => {
                self.data_type.clone().unwrap_or(DataType::Int8)
            }
            (Some(_), _) => {
                let message = "sequence type must be smallint, integer, or bigint";
                return Err((INVALID, message.into()));
            }
            (None, Some(old)) => old.data_type.clone(),
            (None, None) => DataType::Int8,
        };
        // Limits that were those of the old type become those of the new one.
        let retyped = old.filter(|old| old.data_type != data_type);
        let resets = |limit: fn(&SequenceOptions) -> i64, of: fn((i64, i64)) -> i64| {
            retyped.is_some_and(|old| limit(old) == of(bounds(&old.data_type)))
        };
        let increment = self.increment.or(old.map(|old| old.increment)).unwrap_or(1);
        if increment == 0 {
            return Err((INVALID, "INCREMENT must not be zero".into()));
        }
        let (least, greatest) = bounds(&data_type);
        let maximum = match (self.maximum, old) {
            (Some(Some(maximum)), _) => maximum,
            (None, Some(old)) if !resets(|of| of.maximum, |of| of.1) => old.maximum,
            _ if increment > 0 => greatest,
            _ => -1,
        };
        let minimum = match (self.minimum, old) {
            (Some(Some(minimum)), _) => minimum,
            (None, Some(old)) if !resets(|of| of.minimum, |of| of.0) => old.minimum,
            _ if increment > 0 => 1,
            _ => least,
        };
        for (word, limit) in [("MAXVALUE", maximum), ("MINVALUE", minimum)] {
            if !(least..=greatest).contains(&limit) {
                let message =
                    format!("{word} ({limit}) is out of range for sequence data type {data_type}");
                return Err((INVALID, message));
            }
        }
        if minimum >= maximum {
            let message = format!("MINVALUE ({minimum}) must be less than MAXVALUE ({maximum})");
            return Err((INVALID, message));
        }
        let first = if increment > 0 { minimum } else { maximum };
        let start = self.start.or(old.map(|old| old.start)).unwrap_or(first);
        let restart = self.restart.flatten();
        for (word, value) in [("START", Some(start)), ("RESTART", restart)] {
            let Some(value) = value else {
                continue;
            };
            if value < minimum {
                let message =
                    format!("{word} value ({value}) cannot be less than MINVALUE ({minimum})");
                return Err((INVALID, message));
            }
            if value > maximum {
                let message =
                    format!("{word} value ({value}) cannot be greater than MAXVALUE ({maximum})");
                return Err((INVALID, message));
            }
        }
        let cache = self.cache.or(old.map(|old| old.cache)).unwrap_or(1);
        if cache <= 0 {
            let message = format!("CACHE ({cache}) must be greater than zero");
            return Err((INVALID, message));
        }
        Ok(SequenceOptions {
            data_type,
            increment,
            minimum,
            maximum,
            start,
            cache,
            cycles: self
                .cycles
                .or(old.map(|old| old.cycles))
                .unwrap_or_default(),
        })
    }
}

/// `CREATE SEQUENCE`, from after these two words.
pub(crate) fn create_sequence(cursor: &mut Cursor<'_>) -> Parsed<SequenceDeclaration> {
    let if_not_exists = cursor.eat_words(&["if", "not", "exists"]);
    let name = cursor.schema_name("a sequence name")?;
    let settings = settings(cursor, false)?;
    Ok(SequenceDeclaration {
        name,
        if_not_exists,
        settings,
    })
}

/// `ALTER SEQUENCE name OWNED BY table.column`, if the statement is one.
pub(crate) fn owner(cursor: &Cursor<'_>) -> Parsed<Option<Declaration>> {
    let mut at = *cursor;
    if !at.eat_words(&["alter", "sequence"]) {
        return Ok(None);
    }
    let name = at.schema_name("a sequence name")?;
    if !at.eat_words(&["owned", "by"]) {
        return Ok(None);
    }
    let mut names = vec![at.name("a table name")?];
    while at.eat(&Kind::Period) {
        names.push(at.name("a column name")?);
    }
    let column = names.pop();
    Ok(match (names.pop(), column) {
        (Some(table), Some(column)) => Some(Declaration::SequenceOwner([
            name.text,
            table.text,
            column.text,
        ])),
        _ => None,
    })
}

/// The rest of a statement as options of a sequence. `alters`: whether the statement may RESTART.
pub(crate) fn settings(cursor: &mut Cursor<'_>, alters: bool) -> Parsed<SequenceSettings> {
    let mut settings = SequenceSettings::default();
    while !cursor.is_done() {
        let start = cursor.span();
        let once = |is_new: bool| match is_new {
            true => Ok(()),
            false => Err(redundant(start)),
        };
        if cursor.eat_word("start") {
            cursor.eat_word("with");
            once(settings.start.is_none())?;
            settings.start = Some(signed(cursor)?);
        } else if cursor.eat_word("increment") {
            cursor.eat_word("by");
            once(settings.increment.is_none())?;
            settings.increment = Some(signed(cursor)?);
        } else if cursor.eat_word("cache") {
            once(settings.cache.is_none())?;
            settings.cache = Some(signed(cursor)?);
        } else if cursor.eat_word("minvalue") {
            once(settings.minimum.is_none())?;
            settings.minimum = Some(Some(signed(cursor)?));
        } else if cursor.eat_word("maxvalue") {
            once(settings.maximum.is_none())?;
            settings.maximum = Some(Some(signed(cursor)?));
        } else if cursor.eat_words(&["no", "minvalue"]) {
            once(settings.minimum.is_none())?;
            settings.minimum = Some(None);
        } else if cursor.eat_words(&["no", "maxvalue"]) {
            once(settings.maximum.is_none())?;
            settings.maximum = Some(None);
        } else if cursor.eat_words(&["no", "cycle"]) {
            once(settings.cycles.is_none())?;
            settings.cycles = Some(false);
        } else if cursor.eat_word("cycle") {
            once(settings.cycles.is_none())?;
            settings.cycles = Some(true);
        } else if cursor.eat_word("as") {
            once(settings.data_type.is_none())?;
            let start = cursor.span();
            let named = super::data_type::serialless(cursor)?;
            settings.data_type = Some(looked_up(named, &[], cursor.since(start))?);
        } else if cursor.eat_words(&["owned", "by"]) {
            once(settings.owner.is_none())?;
            settings.owner = Some(owning_column(cursor)?);
        } else if alters && cursor.eat_word("restart") {
            cursor.eat_word("with");
            once(settings.restart.is_none())?;
            let is_number = cursor.at(&Kind::Minus)
                || matches!(
                    cursor.peek(),
                    Some(Token {
                        kind: Kind::Number(..),
                        ..
                    })
                );
            settings.restart = Some(match is_number {
                true => Some(signed(cursor)?),
                false => None,
            });
        } else {
            return Err(cursor.syntax_error());
        }
    }
    Ok(settings)
}

/// The options of an identity column, if they are the defaults: an identity has no others here.
pub(crate) fn identity_options(mut cursor: Cursor<'_>, of: Option<&DataType>) -> Parsed<()> {
    let start = cursor.span();
    if cursor.eat_words(&["sequence", "name"]) {
        cursor.schema_name("a sequence name")?;
    }
    let mut named = settings(&mut cursor, false)?;
    if let Some(DataType::Int2 | DataType::Int4 | DataType::Int8) = of {
        named.data_type = named.data_type.or(of.cloned());
    }
    let mut options = match named.options(None) {
        Ok(options) => options,
        Err((code, message)) => return Err(Diagnostic::new(code, message, start)),
    };
    options.cache = 1;
    let usual = SequenceOptions::of_type(&options.data_type);
    if options == usual {
        return Ok(());
    }
    Err(
        Diagnostic::unsupported("this option of an identity", start).help(
            "leave it out, or give the column DEFAULT nextval(…) of a sequence with these options",
        ),
    )
}

/// A whole number with its sign.
fn signed(cursor: &mut Cursor<'_>) -> Parsed<i64> {
    let start = cursor.span();
    let is_negative = cursor.eat(&Kind::Minus);
    if !is_negative {
        cursor.eat(&Kind::Plus);
    }
    let Some(Token {
        kind: Kind::Number(digits, _),
        ..
    }) = cursor.peek()
    else {
        return Err(cursor.expected("a whole number"));
    };
    let digits = match is_negative {
        true => format!("-{digits}"),
        false => digits.clone(),
    };
    cursor.next();
    digits.parse().map_err(|_| {
        let message = format!("value \"{digits}\" is out of range for type bigint");
        Diagnostic::new("22003", message, cursor.since(start))
    })
}

fn redundant(place: Span) -> Diagnostic {
    Diagnostic::new("42601", "conflicting or redundant options", place)
}

/// `table.column`, or NONE: what OWNED BY names.
pub(crate) fn owning_column(cursor: &mut Cursor<'_>) -> Parsed<Option<(Name, Name)>> {
    if cursor.eat_word("none") {
        return Ok(None);
    }
    let start = cursor.span();
    let mut names = vec![cursor.name("a table name")?];
    while cursor.eat(&Kind::Period) {
        names.push(cursor.name("a column name")?);
    }
    let column = names.pop();
    match (names.pop(), column) {
        (Some(table), Some(column)) => Ok(Some((table, column))),
        _ => Err(Diagnostic::new("42601", "invalid OWNED BY option", start)
            .help("Specify OWNED BY table.column or OWNED BY NONE.")),
    }
}

/// Whether an expression takes the next number of a sequence.
pub(crate) fn is_nextval(expression: &ast::Expr) -> bool {
    match expression {
        ast::Expr::Function(function) => {
            let name = function.name.to_string();
            name == "nextval" || name == "pg_catalog.nextval"
        }
        _ => false,
    }
}

/// The sequence whose next number an expression takes, if that is all that it does: `nextval('name'::regclass)`.
pub(crate) fn nextval_of(expression: &ast::Expr) -> Option<String> {
    let ast::Expr::Function(function) = expression else {
        return None;
    };
    if !is_nextval(expression) {
        return None;
    }
    let ast::FunctionArguments::List(list) = &function.args else {
        return None;
    };
    match list.args.as_slice() {
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument))] => {
            sequence_named(argument)
        }
        _ => None,
    }
}

/// The sequence that an argument names by a literal: `'name'`, `'public.name'::regclass`.
pub(crate) fn sequence_named(argument: &ast::Expr) -> Option<String> {
    match argument {
        ast::Expr::Nested(inner) => sequence_named(inner),
        ast::Expr::Cast {
            expr, data_type, ..
        } => {
            let to = data_type.to_string().to_lowercase();
            let to = to.strip_prefix("pg_catalog.").unwrap_or(&to);
            match to {
                "regclass" | "text" => sequence_named(expr),
                _ => None,
            }
        }
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => relation_name(text),
            _ => None,
        },
        _ => None,
    }
}

/// The name of a relation of the schema `public`, as the text of a `regclass` has it.
pub(crate) fn relation_name(text: &str) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, behind) = match rest.strip_prefix('"') {
            Some(inner) => {
                let mut part = String::new();
                let mut left = inner;
                loop {
                    let (before, behind) = left.split_once('"')?;
                    part.push_str(before);
                    match behind.strip_prefix('"') {
                        Some(more) => {
                            part.push('"');
                            left = more;
                        }
                        None => break (part, behind),
                    }
                }
            }
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                (rest[..end].trim().to_lowercase(), &rest[end..])
            }
        };
        parts.push(part);
        match behind.trim().strip_prefix('.') {
            Some(more) => rest = more,
            None if behind.trim().is_empty() => break,
            None => return None,
        }
    }
    match parts.as_slice() {
        [name] => Some(name.clone()),
        [schema, name] if schema == "public" => Some(name.clone()),
        _ => None,
    }
}
