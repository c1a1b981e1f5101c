//! Parses `RAISE`.

use sqlparser::{ast, tokenizer::Token as Kind};

use super::Body;
use crate::{
    catalog::{RaiseField, RaiseLevel, Statement},
    diagnostic::Diagnostic,
    parse::cursor::{Name, Parsed},
    source::Span,
};

/// Names of conditions that procedures raise (PostgreSQL's manual, appendix A).
const CONDITIONS: [(&str, &str); 34] = [
    ("assert_failure", "P0004"),
    ("check_violation", "23514"),
    ("data_exception", "22000"),
    ("datetime_field_overflow", "22008"),
    ("division_by_zero", "22012"),
    ("exclusion_violation", "23P01"),
    ("feature_not_supported", "0A000"),
    ("foreign_key_violation", "23503"),
    ("insufficient_privilege", "42501"),
    ("insufficient_resources", "53000"),
    ("integrity_constraint_violation", "23000"),
    ("internal_error", "XX000"),
    ("invalid_authorization_specification", "28000"),
    ("invalid_datetime_format", "22007"),
    ("invalid_parameter_value", "22023"),
    ("invalid_text_representation", "22P02"),
    ("invalid_transaction_state", "25000"),
    ("lock_not_available", "55P03"),
    ("no_data", "02000"),
    ("no_data_found", "P0002"),
    ("not_null_violation", "23502"),
    ("null_value_not_allowed", "22004"),
    ("numeric_value_out_of_range", "22003"),
    ("object_in_use", "55006"),
    ("object_not_in_prerequisite_state", "55000"),
    ("operator_intervention", "57000"),
    ("plpgsql_error", "P0000"),
    ("raise_exception", "P0001"),
    ("restrict_violation", "23001"),
    ("string_data_right_truncation", "22001"),
    ("too_many_rows", "P0003"),
    ("triggered_action_exception", "09000"),
    ("unique_violation", "23505"),
    ("with_check_option_violation", "44000"),
];

/// The levels.
const LEVELS: [(&str, RaiseLevel); 6] = [
    ("debug", RaiseLevel::Debug),
    ("log", RaiseLevel::Log),
    ("info", RaiseLevel::Info),
    ("notice", RaiseLevel::Notice),
    ("warning", RaiseLevel::Warning),
    ("exception", RaiseLevel::Exception),
];

struct Raise {
    level: RaiseLevel,
    format: Option<String>,
    arguments: Vec<ast::Expr>,
    code: Option<String>,
    fields: Vec<(RaiseField, ast::Expr)>,
}

/// The names of options that set a field of the error.
const FIELDS: [(&str, RaiseField); 7] = [
    ("detail", RaiseField::Detail),
    ("hint", RaiseField::Hint),
    ("schema", RaiseField::Schema),
    ("table", RaiseField::Table),
    ("column", RaiseField::Column),
    ("datatype", RaiseField::DataType),
    ("constraint", RaiseField::Constraint),
];

impl Body<'_, '_> {
    pub(super) fn raise(&mut self) -> Parsed<Statement> {
        let start = self.cursor.expect_words(&["raise"])?;
        let mut raise = Raise {
            level: RaiseLevel::Exception,
            format: None,
            arguments: Vec::new(),
            code: None,
            fields: Vec::new(),
        };
        for (word, level) in LEVELS {
            if self.cursor.eat_word(word) {
                raise.level = level;
                break;
            }
        }
        if self.cursor.at(&Kind::SemiColon) {
            let message = "RAISE without a message";
            return Err(Diagnostic::unsupported(message, start)
                .help("write RAISE EXCEPTION 'what is wrong'"));
        }
        if let Ok((format, span)) = self.cursor.string() {
            self.arguments(&mut raise, &format, span)?;
            raise.format = Some(format);
        } else if self.cursor.eat_word("sqlstate") {
            let (code, span) = self.cursor.string()?;
            raise.code = Some(check_code(&code, span)?);
        } else if !self.cursor.at_word("using") {
            let name = self.cursor.name("a message or a condition")?;
            raise.code = Some(condition(&name.text, name.span)?);
        }
        if self.cursor.eat_word("using") {
            self.options(&mut raise)?;
        }
        let format = match (raise.format, &raise.code) {
            (Some(format), _) => format,
            // PostgreSQL shows the condition's name or SQLSTATE in place of a message.
            (None, Some(code)) => {
                let named = CONDITIONS.iter().find(|(_, known)| known == code);
                named.map_or(code.clone(), |(name, _)| (*name).to_owned())
            }
            (None, None) => return Err(self.cursor.expected("USING MESSAGE = '…'")),
        };
        Ok(Statement::Raise {
            level: raise.level,
            format,
            arguments: raise.arguments,
            code: raise.code,
            fields: raise.fields,
        })
    }

    fn arguments(&mut self, raise: &mut Raise, format: &str, span: Span) -> Parsed<()> {
        while self.cursor.eat(&Kind::Comma) {
            raise.arguments.push(self.argument()?);
        }
        let wanted = format.replace("%%", "").matches('%').count();
        if wanted != raise.arguments.len() {
            let message = match wanted > raise.arguments.len() {
                true => "too few parameters specified for RAISE",
                false => "too many parameters specified for RAISE",
            };
            self.note(Diagnostic::new("42601", message, span).help(format!(
                "the message has {wanted} % and {} follow it; a % itself is written %%",
                raise.arguments.len()
            )));
        }
        Ok(())
    }

    /// An expression up to a comma, USING or the semicolon.
    fn argument(&mut self) -> Parsed<ast::Expr> {
        let inside = self
            .cursor
            .take_until(|at| at.at(&Kind::Comma) || at.at(&Kind::SemiColon) || at.at_word("using"));
        if inside.is_done() {
            return Err(inside.expected("an expression"));
        }
        let parsed = inside.expression();
        Ok(self
            .or_noted(parsed)?
            .unwrap_or(ast::Expr::value(ast::Value::Null)))
    }

    fn options(&mut self, raise: &mut Raise) -> Parsed<()> {
        loop {
            // Some names of options are reserved elsewhere.
            let (field, option) = self.option()?;
            if !self.cursor.eat(&Kind::Eq) && !self.cursor.eat(&Kind::Assignment) {
                return Err(self.cursor.expected("\"=\""));
            }
            if let Some(field) = field {
                if raise.fields.iter().any(|(known, _)| *known == field) {
                    let message = format!("RAISE option already specified: {}", option.text);
                    return Err(Diagnostic::new("42601", message, option.span));
                }
                let value = self.argument()?;
                raise.fields.push((field, value));
                if !self.cursor.eat(&Kind::Comma) {
                    return Ok(());
                }
                continue;
            }
            match option.text.as_str() {
                "errcode" => raise.code = Some(self.code()?),
                "message" => {
                    if raise.format.is_some() {
                        let message = "RAISE option already specified: MESSAGE";
                        return Err(Diagnostic::new("42601", message, option.span));
                    }
                    raise.format = Some("%".to_owned());
                    raise.arguments = vec![self.argument()?];
                }
                _ => {
                    return Err(Diagnostic::new(
                        "42601",
                        "unrecognized RAISE option",
                        option.span,
                    ));
                }
            }
            if !self.cursor.eat(&Kind::Comma) {
                return Ok(());
            }
        }
    }

    /// The name of an option, and the field that it sets.
    fn option(&mut self) -> Parsed<(Option<RaiseField>, Name)> {
        let span = self.cursor.span();
        for (word, field) in FIELDS {
            if self.cursor.eat_word(word) {
                let text = word.to_uppercase();
                return Ok((Some(field), Name { text, span }));
            }
        }
        let name = self.cursor.name("an option of RAISE")?;
        Ok((None, name))
    }

    fn code(&mut self) -> Parsed<String> {
        let Ok((code, span)) = self.cursor.string() else {
            return Err(
                Diagnostic::unsupported("a computed ERRCODE", self.cursor.span())
                    .help("write it as a string"),
            );
        };
        match check_code(&code, span) {
            Ok(code) => Ok(code),
            Err(_) => condition(&code, span),
        }
    }
}

fn check_code(code: &str, span: Span) -> Parsed<String> {
    let valid = code.len() == 5
        && code
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    match valid {
        true => Ok(code.to_owned()),
        false => Err(Diagnostic::new("42601", "invalid SQLSTATE code", span)
            .help("five digits or upper-case letters")),
    }
}

fn condition(name: &str, span: Span) -> Parsed<String> {
    match CONDITIONS.iter().find(|(known, _)| *known == name) {
        Some((_, code)) => Ok((*code).to_owned()),
        None => {
            let message = format!("unrecognized exception condition \"{name}\"");
            Err(Diagnostic::new("42704", message, span)
                .help("give its SQLSTATE of five characters instead"))
        }
    }
}
