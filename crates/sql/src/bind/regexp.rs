//! Binds functions over regular expressions, and SIMILAR TO.

use anabranch_types::{DataType, Value};
use sqlparser::ast::{Expr, Spanned};

use super::{Bind, Binder, Bound, NO_FUNCTION, convert::Context, convert::exists};
use crate::{
    diagnostic::Diagnostic,
    expression::{
        Expression, Function,
        regexp::{NUMBER_BY_FLAGS, Regexp, RegexpKind},
    },
    plan::TableFunction,
};

/// A function of FROM, its arguments, and the names and types of its columns.
type Rows = (TableFunction, Vec<Expression>, Vec<(String, DataType)>);

/// The functions that are bound here, for some types of arguments.
pub(super) const SUPPORTED: &[&str] = &[
    "regexp_count",
    "regexp_instr",
    "regexp_like",
    "regexp_match",
    "regexp_replace",
    "regexp_split_to_array",
    "regexp_substr",
];

fn texts() -> DataType {
    DataType::Array(Box::new(DataType::Text))
}

fn text(text: &str) -> Expression {
    Expression::Constant(Value::text(text))
}

fn int(int: i64) -> Expression {
    Expression::Constant(Value::Int(int))
}

impl Binder<'_> {
    /// The arguments as these types, if each fits: `t` is text, `i` an integer, `d` a double, `n` a numeric, `b` bytes;
    /// what stands behind `?` may be left out.
    pub(super) fn fitting(
        &mut self,
        bounds: &[Bound],
        signature: &str,
        syntax: &impl Spanned,
    ) -> Bind<Option<Vec<Expression>>> {
        let (needed, more) = signature.split_once('?').unwrap_or((signature, ""));
        if !(needed.len()..=needed.len() + more.len()).contains(&bounds.len()) {
            return Ok(None);
        }
        let types = needed.bytes().chain(more.bytes()).map(|kind| match kind {
            b'i' => DataType::Int4,
            b'l' => DataType::Int8,
            b'd' => DataType::Double,
            b'n' => DataType::Numeric(None),
            b'b' => DataType::Bytea,
            _ => DataType::Text,
        });
        let types: Vec<DataType> = types.take(bounds.len()).collect();
        let fits = |(bound, to): (&Bound, &DataType)| {
            let from = bound.data_type.as_ref();
            from.is_none_or(|from| exists(from, to, Context::Implicit))
        };
        if !bounds.iter().zip(&types).all(fits) {
            return Ok(None);
        }
        let pairs = bounds.iter().zip(&types);
        let coerced =
            pairs.map(|(bound, to)| self.coerce(bound.clone(), to, Context::Implicit, syntax));
        coerced.collect::<Bind<Vec<_>>>().map(Some)
    }

    /// Functions over regular expressions.
    pub(super) fn regexp_function(
        &mut self,
        name: &str,
        bounds: &[Bound],
        syntax: &impl Spanned,
    ) -> Bind<Option<Bound>> {
        let is_integer = |place: usize| {
            let data_type = bounds.get(place).and_then(|bound| bound.data_type.as_ref());
            data_type.is_some_and(DataType::is_integer)
        };
        let (kind, signature, data_type) = match name {
            "regexp_replace" if is_integer(3) => (RegexpKind::Replace, "ttti?it", DataType::Text),
            "regexp_replace" => (RegexpKind::Replace, "ttt?t", DataType::Text),
            "regexp_match" => (RegexpKind::Match, "tt?t", texts()),
            "regexp_like" => (RegexpKind::Like, "ttt", DataType::Bool),
            "regexp_count" => (RegexpKind::Count, "tt?it", DataType::Int4),
            "regexp_substr" => (RegexpKind::Substr, "tt?iiti", DataType::Text),
            "regexp_instr" => (RegexpKind::Instr, "tt?iiiti", DataType::Int4),
            "regexp_split_to_array" => (
                RegexpKind::Split {
                    name: "regexp_split_to_array",
                },
                "tt?t",
                texts(),
            ),
            "substring" => (RegexpKind::Substring, "tt", DataType::Text),
            _ => return Ok(None),
        };
        // An integer is a place.
        if name == "substring" && is_integer(1) {
            return Ok(None);
        }
        let Some(arguments) = self.fitting(bounds, signature, syntax)? else {
            return Ok(None);
        };
        let call = self.regexp_call(
            kind,
            arguments,
            data_type,
            (&bounds[1], is_integer(3)),
            syntax,
        )?;
        Ok(Some(call))
    }

    /// A function over a text and a pattern, with its other arguments in PostgreSQL's order. What stands behind a
    /// replacement is a place to start at, or the flags.
    fn regexp_call(
        &mut self,
        kind: RegexpKind,
        arguments: Vec<Expression>,
        data_type: DataType,
        (pattern, has_start): (&Bound, bool),
        syntax: &impl Spanned,
    ) -> Bind<Bound> {
        let mut given = arguments.into_iter();
        let mut next = |default: Expression| given.next().unwrap_or(default);
        let (operand, regexp) = (next(Expression::NULL), next(Expression::NULL));
        let (flags, rest) = match kind {
            RegexpKind::Replace => {
                let with = next(Expression::NULL);
                match has_start {
                    true => {
                        let (start, number) = (next(int(1)), next(int(NUMBER_BY_FLAGS)));
                        (next(text("")), vec![with, start, number])
                    }
                    false => (next(text("")), vec![with, int(1), int(NUMBER_BY_FLAGS)]),
                }
            }
            RegexpKind::Count => {
                let start = next(int(1));
                (next(text("")), vec![start])
            }
            RegexpKind::Substr => {
                let (start, number) = (next(int(1)), next(int(1)));
                (next(text("")), vec![start, number, next(int(0))])
            }
            RegexpKind::Instr => {
                let (start, number, end) = (next(int(1)), next(int(1)), next(int(0)));
                (next(text("")), vec![start, number, end, next(int(0))])
            }
            _ => (next(text("")), Vec::new()),
        };
        let place = pattern.place.unwrap_or_else(|| self.place_of(syntax));
        let function = Regexp::new(kind, &regexp, &flags)
            .map_err(|error| Diagnostic::new(error.code, error.message, place))?;
        let mut arguments = vec![operand, regexp, flags];
        arguments.extend(rest);
        Ok(Self::call(Function::Regexp(function), arguments, data_type))
    }

    /// Functions over regular expressions that return rows.
    pub(super) fn regexp_rows(
        &mut self,
        name: &str,
        arguments: &[&Expr],
        syntax: &impl Spanned,
    ) -> Bind<Option<Rows>> {
        let (kind, data_type) = match name {
            "regexp_matches" => (RegexpKind::Matches, texts()),
            "regexp_split_to_table" => {
                let name = "regexp_split_to_table";
                (RegexpKind::Split { name }, DataType::Text)
            }
            _ => return Ok(None),
        };
        self.scope().clause = "functions in FROM";
        let mut bounds = Vec::new();
        for argument in arguments {
            bounds.push(self.expression(argument)?);
        }
        let Some(fitting) = self.fitting(&bounds, "tt?t", syntax)? else {
            let shown = |bound: &Bound| {
                let data_type = bound.data_type.as_ref();
                data_type.map_or("unknown".to_owned(), ToString::to_string)
            };
            let types: Vec<String> = bounds.iter().map(shown).collect();
            let message = format!("function {name}({}) does not exist", types.join(", "));
            return Err(self.error("42883", message, syntax).help(NO_FUNCTION));
        };
        let rows = DataType::Array(Box::new(data_type.clone()));
        let call = self.regexp_call(kind, fitting, rows, (&bounds[1], false), syntax)?;
        let columns = vec![(name.to_owned(), data_type)];
        Ok(Some((
            TableFunction::Unnest,
            vec![call.expression],
            columns,
        )))
    }

    /// `operand SIMILAR TO pattern`.
    pub(super) fn similar(
        &mut self,
        operand: &Expr,
        pattern: &Expr,
        escape: Option<&Expr>,
        negated: bool,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let escape = self.escape(escape, syntax)?;
        let (operand, pattern) = (self.expression(operand)?, self.expression(pattern)?);
        let place = pattern.place.unwrap_or_else(|| self.place_of(syntax));
        for side in [&operand, &pattern] {
            if side.data_type.as_ref().is_some_and(|t| !t.is_text()) {
                return Err(self.no_operator(&operand, "~", &pattern, syntax));
            }
        }
        let pattern = self.as_text(pattern, syntax)?;
        let translated = Self::call(Function::OfSimilar(escape), vec![pattern], DataType::Text);
        let translated = Bound {
            place: Some(place),
            ..translated
        };
        self.matches(operand, translated, (false, negated), syntax)
    }
}
