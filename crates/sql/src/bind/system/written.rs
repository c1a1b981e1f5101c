//! Expressions of the schema as PostgreSQL's `pg_get_expr` and `pg_get_constraintdef` write them: each literal with its
//! type, each conversion as a cast.
//!
//! The types come from binding each part. What has no rule here is written as it was parsed.

use anabranch_types::{DataType, Value};
use sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator};

use crate::{
    bind::{Binder, convert::unbounded, fold, operator::peeled},
    expression::{Expression, text::format_text},
    parse::{resolve_statement_type, sequence::sequence_named},
    system::{names::quoted, objects::Written},
};

/// How tightly a text holds together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// A name, a literal, a call, or anything in parentheses.
    Atom,
    /// An operator with its operands.
    Operator,
    /// A comparison with the elements of an array.
    Quantified,
    And,
    Or,
}

/// A text and how tightly it holds together.
struct Part {
    text: String,
    level: Level,
}

impl Part {
    fn atom(text: impl Into<String>) -> Part {
        Part {
            text: text.into(),
            level: Level::Atom,
        }
    }

    /// Its text as an operand.
    fn operand(self) -> String {
        match self.level {
            Level::Atom => self.text,
            _ => format!("({})", self.text),
        }
    }
}

/// Writes expressions that a binder has the names for.
pub(super) struct Writer<'w, 'b> {
    binder: &'w mut Binder<'b>,
    pretty: bool,
    /// Whether columns are written with the names of their rows.
    qualified: bool,
}

impl<'w, 'b> Writer<'w, 'b> {
    pub(super) fn new(binder: &'w mut Binder<'b>) -> Writer<'w, 'b> {
        Writer {
            binder,
            pretty: false,
            qualified: false,
        }
    }

    /// Of the condition of a trigger, which names the rows of its columns.
    pub(super) fn of_trigger(binder: &'w mut Binder<'b>) -> Writer<'w, 'b> {
        Writer {
            qualified: true,
            ..Writer::new(binder)
        }
    }

    /// A condition.
    pub(super) fn stored(&mut self, expression: &Expr) -> Written {
        self.both(|writer| writer.part(expression, None).text)
    }

    /// An expression of a type: a literal of unknown type takes it.
    pub(super) fn stored_as(&mut self, expression: &Expr, data_type: &DataType) -> Written {
        let wanted = unbounded(data_type);
        self.both(|writer| match peeled(expression) {
            // The sign is part of a number that is stored.
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } if matches!(peeled(expr), Expr::Value(_)) => writer.negative(expr),
            other => {
                let part = writer.part(other, Some(&wanted));
                let own = writer.type_of(other);
                match own.is_some_and(|own| needs_cast(&own, &wanted)) {
                    // The conversion is not written, and keeps its parentheses.
                    true => part.operand(),
                    false => part.text,
                }
            }
        })
    }

    fn both(&mut self, mut write: impl FnMut(&mut Self) -> String) -> Written {
        self.pretty = false;
        let full = write(self);
        self.pretty = true;
        let pretty = write(self);
        Written { full, pretty }
    }

    /// The type of a part; `None` for a literal of unknown type, or where it does not bind.
    fn type_of(&mut self, expression: &Expr) -> Option<DataType> {
        self.binder.expression(expression).ok()?.data_type
    }

    fn is_enum(&mut self, expression: &Expr) -> bool {
        let of = self.type_of(expression);
        of.is_some_and(|of| of.as_enum().is_some())
    }

    /// An operator with its operands, in parentheses unless they can be left out.
    fn composed(&self, text: String, level: Level) -> Part {
        match self.pretty {
            true => Part { text, level },
            false => Part::atom(format!("({text})")),
        }
    }

    fn cast(&self, part: Part, to: &DataType) -> Part {
        let to = type_word(to);
        match (self.pretty, part.level) {
            (true, Level::Atom) => Part::atom(format!("{}::{to}", part.text)),
            _ => Part::atom(format!("({})::{to}", part.text)),
        }
    }

    fn negative(&mut self, number: &Expr) -> String {
        let to = self.type_of(number).unwrap_or(DataType::Int4);
        format!("'-{number}'::{}", type_word(&to))
    }

    fn part(&mut self, expression: &Expr, wanted: Option<&DataType>) -> Part {
        match expression {
            Expr::Nested(inner) => self.part(inner, wanted),
            Expr::Identifier(name) if self.type_of(expression).is_some() => {
                match name.quote_style.is_none() && is_bare_function(&name.value) {
                    true => Part::atom(name.value.to_uppercase()),
                    false => Part::atom(quoted(&fold(name))),
                }
            }
            Expr::CompoundIdentifier(parts) if self.qualified => {
                let parts: Vec<String> = parts.iter().map(|name| quoted(&fold(name))).collect();
                Part::atom(parts.join("."))
            }
            Expr::QualifiedWildcard(name, _) => Part::atom(name.to_string().to_lowercase() + ".*"),
            Expr::IsDistinctFrom(left, right) => self.distinct(left, "IS DISTINCT FROM", right),
            Expr::IsNotDistinctFrom(left, right) => {
                // PostgreSQL keeps it as a negation.
                let test = self.distinct(left, "IS DISTINCT FROM", right).text;
                self.composed(format!("NOT {test}"), Level::Operator)
            }
            Expr::CompoundIdentifier(parts) => Part::atom(
                parts
                    .last()
                    .map_or(String::new(), |name| quoted(&fold(name))),
            ),
            Expr::Value(value) => self.literal(&value.value, expression, wanted),
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } => {
                let operand = self.part(expr, None).operand();
                self.composed(format!("NOT {operand}"), Level::Operator)
            }
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } => match peeled(expr) {
                number @ Expr::Value(_) => Part::atom(self.negative(number)),
                _ => {
                    let operand = self.part(expr, None).operand();
                    self.composed(format!("- {operand}"), Level::Operator)
                }
            },
            Expr::IsNull(operand) => self.test(operand, "IS NULL"),
            Expr::IsNotNull(operand) => self.test(operand, "IS NOT NULL"),
            Expr::IsTrue(operand) => self.test(operand, "IS TRUE"),
            Expr::IsNotTrue(operand) => self.test(operand, "IS NOT TRUE"),
            Expr::IsFalse(operand) => self.test(operand, "IS FALSE"),
            Expr::IsNotFalse(operand) => self.test(operand, "IS NOT FALSE"),
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => self.between(expr, *negated, low, high),
            Expr::InList {
                expr,
                list,
                negated,
            } => self.in_list(expr, list, *negated),
            // As `pg_dump` writes IN, which is stored alike.
            Expr::AnyOp {
                left,
                compare_op: BinaryOperator::Eq,
                right,
                ..
            } if self.is_enum(left)
                && let Expr::Array(array) = peeled(right) =>
            {
                self.in_list(left, &array.elem, false)
            }
            Expr::Like {
                expr,
                pattern,
                negated,
                escape_char: None,
                any: false,
            } => self.compared(expr, if *negated { "!~~" } else { "~~" }, pattern),
            Expr::ILike {
                expr,
                pattern,
                negated,
                escape_char: None,
                any: false,
            } => self.compared(expr, if *negated { "!~~*" } else { "~~*" }, pattern),
            Expr::Cast {
                expr,
                data_type,
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                ..
            } => match resolve_statement_type(data_type, &self.binder.catalog.types) {
                Ok(to) if self.type_of(expr).is_none() => {
                    let literal = self.part(expr, Some(&unbounded(&to)));
                    match matches!(to, DataType::Varchar(Some(_)) | DataType::Char(_)) {
                        true => self.cast(literal, &to),
                        false => literal,
                    }
                }
                Ok(to) if self.type_of(expr).as_ref() == Some(&to) => self.part(expr, None),
                Ok(to) => {
                    let operand = self.part(expr, None);
                    self.cast(operand, &to)
                }
                Err(_) => Part::atom(expression.to_string()),
            },
            Expr::Case {
                operand: None,
                conditions,
                else_result,
                ..
            } => self.case(conditions, else_result.as_deref(), wanted),
            Expr::Function(function) => self.function(function, expression, wanted),
            other => Part::atom(other.to_string()),
        }
    }

    fn literal(
        &mut self,
        value: &ast::Value,
        expression: &Expr,
        wanted: Option<&DataType>,
    ) -> Part {
        let text = match value {
            ast::Value::Number(digits, _) => return Part::atom(digits.clone()),
            ast::Value::Boolean(truth) => return Part::atom(truth.to_string()),
            ast::Value::Null => "NULL".to_owned(),
            _ => {
                // As the type writes it: '2020-01-01 00:00:00'.
                let to = wanted.cloned().unwrap_or(DataType::Text);
                let place = crate::bind::convert::Context::Explicit;
                let bound = self.binder.expression_as(expression, &to, place);
                let text = match bound {
                    Ok(Expression::Constant(value @ Value::Text(_))) => {
                        format_text(&value, &DataType::Text)
                    }
                    Ok(Expression::Constant(value)) => format_text(&value, &to),
                    _ => return Part::atom(expression.to_string()),
                };
                format!("'{}'", text.replace('\'', "''"))
            }
        };
        let to = wanted.map_or_else(|| "text".to_owned(), type_word);
        Part::atom(format!("{text}::{to}"))
    }

    fn test(&mut self, operand: &Expr, test: &str) -> Part {
        let operand = self.part(operand, None).operand();
        self.composed(format!("{operand} {test}"), Level::Operator)
    }

    fn binary(&mut self, left: &Expr, operator: &BinaryOperator, right: &Expr) -> Part {
        let (word, level) = match operator {
            BinaryOperator::And => ("AND", Level::And),
            BinaryOperator::Or => ("OR", Level::Or),
            BinaryOperator::StringConcat => {
                let left = self.part(left, Some(&DataType::Text)).operand();
                let right = self.part(right, Some(&DataType::Text)).operand();
                return self.composed(format!("{left} || {right}"), Level::Operator);
            }
            other => return self.compared(left, &other.to_string(), right),
        };
        // A longer AND or OR is one list.
        let mut operands = Vec::new();
        flatten(left, operator, &mut operands);
        flatten(right, operator, &mut operands);
        let mut texts = Vec::new();
        for operand in operands {
            let part = self.part(operand, None);
            texts.push(match (part.level, level) {
                (Level::Or, Level::And) | (Level::Quantified, _) => format!("({})", part.text),
                _ => part.text,
            });
        }
        self.composed(texts.join(&format!(" {word} ")), level)
    }

    /// An operator over two operands that are brought to a common type.
    fn compared(&mut self, left: &Expr, operator: &str, right: &Expr) -> Part {
        let operator = if operator == "!=" { "<>" } else { operator };
        let (l, r) = self.sides(left, right);
        self.composed(format!("{l} {operator} {r}"), Level::Operator)
    }

    /// A comparison of two values, or of two rows as a whole.
    fn distinct(&mut self, left: &Expr, test: &str, right: &Expr) -> Part {
        let is_row = |of: &Expr| matches!(peeled(of), Expr::QualifiedWildcard(..));
        if !is_row(left) || !is_row(right) {
            return self.compared(left, test, right);
        }
        let (left, right) = (self.part(left, None).text, self.part(right, None).text);
        self.composed(format!("{left} {test} {right}"), Level::Operator)
    }

    /// Two operands, each with the cast that the operator's types need.
    fn sides(&mut self, left: &Expr, right: &Expr) -> (String, String) {
        let (l, r) = (self.type_of(left), self.type_of(right));
        let common = common(l.as_ref(), r.as_ref());
        let side = |writer: &mut Self, expression: &Expr, own: Option<DataType>| {
            let part = writer.part(expression, common.as_ref());
            let part = match (own, &common) {
                (Some(own), Some(common)) if needs_cast(&own, common) => writer.cast(part, common),
                _ => part,
            };
            part.operand()
        };
        let left = side(self, left, l);
        (left, side(self, right, r))
    }

    fn between(&mut self, operand: &Expr, negated: bool, low: &Expr, high: &Expr) -> Part {
        let (first, second, word, level) = match negated {
            false => (">=", "<=", "AND", Level::And),
            true => ("<", ">", "OR", Level::Or),
        };
        let low = self.compared(operand, first, low).text;
        let high = self.compared(operand, second, high).text;
        self.composed(format!("{low} {word} {high}"), level)
    }

    fn in_list(&mut self, operand: &Expr, list: &[Expr], negated: bool) -> Part {
        let own = self.type_of(operand);
        let mut types = list.iter().map(|element| self.type_of(element));
        let common = types.try_fold(own.clone(), |common, next| {
            Some(self::common(common.as_ref(), next.as_ref()))
        });
        let common = common.flatten().unwrap_or(DataType::Text);
        let element_type = match &own {
            Some(own) if own.is_text() => unbounded(own),
            _ => common.clone(),
        };
        let mut elements = Vec::new();
        for element in list {
            let own = self.type_of(element);
            let part = self.part(element, Some(&element_type));
            let part = match own {
                Some(own) if needs_cast(&own, &element_type) => self.cast(part, &element_type),
                _ => part,
            };
            elements.push(part.text);
        }
        let mut array = Part::atom(format!("ARRAY[{}]", elements.join(", ")));
        let mut side = self.part(operand, None);
        if own.is_some_and(|own| needs_cast(&own, &common)) {
            side = self.cast(side, &common);
            if element_type != common {
                array = self.cast(array, &DataType::Array(Box::new(common)));
            }
        }
        let word = if negated { "<> ALL" } else { "= ANY" };
        let side = side.operand();
        self.composed(format!("{side} {word} ({})", array.text), Level::Quantified)
    }

    fn case(
        &mut self,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&Expr>,
        wanted: Option<&DataType>,
    ) -> Part {
        let mut text = "\nCASE".to_owned();
        for when in conditions {
            let condition = self.part(&when.condition, None).text;
            let result = self.part(&when.result, wanted).text;
            text.push_str(&format!("\n    WHEN {condition} THEN {result}"));
        }
        let otherwise = match otherwise {
            Some(otherwise) => self.part(otherwise, wanted).text,
            None => match wanted {
                Some(wanted) => format!("NULL::{}", type_word(wanted)),
                None => "NULL::text".to_owned(),
            },
        };
        text.push_str(&format!("\n    ELSE {otherwise}\nEND"));
        Part::atom(text)
    }

    fn function(
        &mut self,
        function: &ast::Function,
        syntax: &Expr,
        wanted: Option<&DataType>,
    ) -> Part {
        let ast::FunctionArguments::List(list) = &function.args else {
            return Part::atom(syntax.to_string().to_uppercase());
        };
        let name = function.name.0.last().and_then(|part| part.as_ident());
        let name = name.map_or(String::new(), fold);
        let is_syntax = matches!(name.as_str(), "coalesce" | "greatest" | "least" | "nullif");
        let mut known = None;
        let mut arguments = Vec::new();
        for argument in &list.args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)) = argument else {
                return Part::atom(syntax.to_string());
            };
            known = known.or_else(|| self.type_of(argument));
            arguments.push(argument);
        }
        let of_literals = match is_syntax {
            true => known.or(wanted.cloned()),
            false => Some(DataType::Text),
        };
        let mut texts = Vec::new();
        let of_sequence = matches!(name.as_str(), "nextval" | "currval" | "setval");
        for (place, argument) in arguments.into_iter().enumerate() {
            if let (true, 0, Some(sequence)) = (of_sequence, place, sequence_named(argument)) {
                let literal = quoted(&sequence).replace('\'', "''");
                texts.push(format!("'{literal}'::regclass"));
                continue;
            }
            let own = self.type_of(argument);
            let part = self.part(argument, of_literals.as_ref());
            texts.push(match own {
                // Functions of text take text.
                Some(DataType::Varchar(_) | DataType::Char(_)) if !is_syntax => {
                    self.cast(part, &DataType::Text).text
                }
                _ => part.text,
            });
        }
        let name = if is_syntax {
            name.to_uppercase()
        } else {
            quoted(&name)
        };
        Part::atom(format!("{name}({})", texts.join(", ")))
    }
}

fn is_bare_function(name: &str) -> bool {
    [
        "current_date",
        "current_timestamp",
        "localtimestamp",
        "current_user",
        "session_user",
    ]
    .iter()
    .any(|of| of.eq_ignore_ascii_case(name))
}

fn flatten<'e>(operand: &'e Expr, operator: &BinaryOperator, into: &mut Vec<&'e Expr>) {
    match peeled(operand) {
        Expr::BinaryOp { left, op, right } if op == operator => {
            flatten(left, operator, into);
            flatten(right, operator, into);
        }
        other => into.push(other),
    }
}

/// The type of an operator's operands.
fn common(left: Option<&DataType>, right: Option<&DataType>) -> Option<DataType> {
    match (left, right) {
        (Some(one), None) | (None, Some(one)) => Some(match one {
            DataType::Varchar(_) => DataType::Text,
            other => unbounded(other),
        }),
        (Some(l), Some(r)) if l.is_integer() && r.is_integer() => None,
        (Some(l), Some(r)) if l.is_numeric() && r.is_numeric() => {
            let float = |of: &DataType| matches!(of, DataType::Real | DataType::Double);
            match (l, r) {
                (DataType::Real, DataType::Double) | (DataType::Double, DataType::Real) => None,
                _ if float(l) && l == r => None,
                _ if float(l) || float(r) => Some(DataType::Double),
                _ => Some(DataType::Numeric(None)),
            }
        }
        (Some(l), Some(r)) if l.is_text() && r.is_text() => match (l, r) {
            (DataType::Char(_), DataType::Char(_)) => None,
            _ => Some(DataType::Text),
        },
        _ => None,
    }
}

fn needs_cast(own: &DataType, to: &DataType) -> bool {
    match (own, to) {
        (DataType::Real, DataType::Double) => false,
        _ => {
            unbounded(own) != *to
                && !(matches!(own, DataType::Char(_)) && matches!(to, DataType::Char(_)))
        }
    }
}

/// A type as a cast writes it.
fn type_word(data_type: &DataType) -> String {
    match data_type {
        // A literal's length is its own.
        DataType::Char(_) => "bpchar".to_owned(),
        other => other.to_string(),
    }
}
