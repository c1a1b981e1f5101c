//! Casts: which exist, and which are implicit.

use anabranch_types::{
    DataType, TimeZone, Value,
    text::{depends_on_zone, parse_value},
};
use sqlparser::ast::{self, Spanned};

use super::{Bind, Binder, Bound};
use crate::{
    catalog::plain_type,
    diagnostic::Diagnostic,
    expression::{Expression, bounds::bound_text},
    source::Span,
};

/// The context of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Context {
    /// An operator or function wants another type.
    Implicit,
    /// A value is stored in a column or variable.
    Assignment,
    /// The user wrote a cast.
    Explicit,
}

/// A type without its bounds.
pub(crate) fn unbounded(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Numeric(_) => DataType::Numeric(None),
        DataType::Varchar(_) => DataType::Varchar(None),
        other => other.clone(),
    }
}

/// The type of a parameter that is used as this type: PostgreSQL's parameters have no bounds, nor have the elements of
/// arrays.
fn of_parameter(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Char(_) => DataType::BPCHAR,
        DataType::Array(element) => DataType::Array(Box::new(of_parameter(element))),
        other => unbounded(other),
    }
}

fn number_rank(data_type: &DataType) -> Option<u8> {
    Some(match data_type {
        DataType::Int2 => 0,
        DataType::Int4 => 1,
        DataType::Int8 => 2,
        DataType::Numeric(_) => 3,
        DataType::Real => 4,
        DataType::Double => 5,
        _ => return None,
    })
}

/// The order in which types of moments convert to each other implicitly.
fn moment_rank(data_type: &DataType) -> Option<u8> {
    Some(match data_type {
        DataType::Date => 0,
        DataType::Timestamp => 1,
        DataType::TimestampTz => 2,
        _ => return None,
    })
}

/// Whether the cast exists in this context.
pub(crate) fn exists(from: &DataType, to: &DataType, context: Context) -> bool {
    if let (Some(from), Some(to)) = (number_rank(from), number_rank(to)) {
        return from <= to || context >= Context::Assignment;
    }
    if let (Some(from), Some(to)) = (moment_rank(from), moment_rank(to)) {
        return from <= to || context >= Context::Assignment;
    }
    match (from, to) {
        (from, to) if from == to => true,
        (from, to) if from.is_text() && to.is_text() => true,
        (DataType::Array(from), DataType::Array(to)) => exists(from, to, context),
        (DataType::Int2Vector | DataType::OidVector, DataType::Array(to)) => {
            from.element() == Some(&**to)
        }
        (from, to) if from.is_oid() && to.is_oid() => true,
        (DataType::Int2 | DataType::Int4 | DataType::Int8, to) if to.is_oid() => true,
        (from, DataType::Int8) if from.is_oid() => true,
        (from, DataType::Int4) if from.is_oid() => context >= Context::Assignment,
        (DataType::Json, DataType::Jsonb) | (DataType::Jsonb, DataType::Json) => {
            context >= Context::Assignment
        }
        (DataType::Jsonb, to) if to.is_numeric() || *to == DataType::Bool => {
            context == Context::Explicit
        }
        (_, to) if to.is_text() => context >= Context::Assignment,
        (from, _) if from.is_text() => context == Context::Explicit,
        (DataType::Bool, DataType::Int4) | (DataType::Int4, DataType::Bool) => {
            context == Context::Explicit
        }
        _ => false,
    }
}

/// Whether the cast leaves every value as it is, and its order. A label has another order as text.
pub(crate) fn is_nothing(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (from, to) if from == to => true,
        (DataType::Int2, DataType::Int4 | DataType::Int8) | (DataType::Int4, DataType::Int8) => {
            true
        }
        (DataType::Numeric(_), DataType::Numeric(None)) => true,
        (DataType::Real, DataType::Double) => true,
        (from, DataType::Text | DataType::Varchar(None)) => from.is_text(),
        (DataType::Int2Vector | DataType::OidVector, DataType::Array(_)) => true,
        (from, DataType::Int8) if from.is_oid() => true,
        (from, to) if from.is_oid() && to.is_oid() => true,
        (DataType::Varchar(Some(a)), DataType::Varchar(Some(b))) => a <= b,
        (DataType::Char(a), DataType::Varchar(Some(b)) | DataType::Char(b)) => a <= b,
        (DataType::Array(from), DataType::Array(to)) => is_nothing(from, to),
        _ => false,
    }
}

impl Binder<'_> {
    /// The expression as a value of another type.
    pub(crate) fn coerce(
        &mut self,
        bound: Bound,
        to: &DataType,
        context: Context,
        syntax: &impl Spanned,
    ) -> Bind<Expression> {
        if let Some(done) = self.coerce_name(&bound, to, context, syntax)? {
            return Ok(done);
        }
        let Some(from) = &bound.data_type else {
            let place = bound.place.unwrap_or_else(|| self.place_of(syntax));
            return self.settle(bound.expression, to, context, place);
        };
        if !exists(from, to, context) {
            return Err(match context {
                Context::Explicit => {
                    let (from, to) = (plain_type(from), plain_type(to));
                    self.error("42846", format!("cannot cast type {from} to {to}"), syntax)
                }
                _ => {
                    let message = format!("expression is of type {from}, but {to} is needed");
                    self.error("42804", message, syntax)
                        .help("You will need to cast it.")
                }
            });
        }
        if let (DataType::Char(_), DataType::Bytea) = (from, to) {
            return Err(self
                .unsupported("a cast of char(n), whose padding counts, to bytea", syntax)
                .help("Cast it to text first."));
        }
        if is_nothing(from, to) {
            return Ok(bound.expression);
        }
        Ok(Expression::Cast {
            operand: Box::new(bound.expression),
            from: from.clone(),
            to: to.clone(),
            explicit: context == Context::Explicit,
        }
        .folded())
    }

    /// Gives a literal or parameter of unknown type its type.
    fn settle(
        &mut self,
        expression: Expression,
        to: &DataType,
        context: Context,
        place: Span,
    ) -> Bind<Expression> {
        match expression {
            Expression::Constant(Value::Text(text)) => {
                let unparsed = text.clone();
                let parsed = if to.is_text() {
                    let bound = match (context, to) {
                        // Compared with a char(n): its length does not matter, its blanks do not.
                        (Context::Implicit, DataType::Char(_)) => &DataType::Char(u32::MAX),
                        (Context::Implicit, _) => &DataType::Text,
                        _ => to,
                    };
                    bound_text(Value::Text(text), bound, context == Context::Explicit)
                } else {
                    parse_value(&text, to, &TimeZone::UTC).map_err(Box::new)
                };
                match parsed {
                    // Its moment depends on the session that runs it, not on the one that binds it.
                    Ok(_) if depends_on_zone(&unparsed, to) && !self.is_stored() => {
                        Ok(Expression::Cast {
                            operand: Box::new(Expression::Constant(Value::Text(unparsed))),
                            from: DataType::Text,
                            to: to.clone(),
                            explicit: context == Context::Explicit,
                        })
                    }
                    Ok(value) => Ok(Expression::Constant(value)),
                    Err(failure) => Err(Diagnostic::new(failure.code, failure.message, place)),
                }
            }
            Expression::Variable(slot) if self.parameters.len() > slot => {
                let wanted = of_parameter(to);
                let to = match (context, to) {
                    // Compared: a longer text is another one, and no error.
                    (Context::Implicit, DataType::Char(_) | DataType::Array(_)) => &wanted,
                    _ => to,
                };
                let known = self.parameters[slot]
                    .get_or_insert_with(|| wanted.clone())
                    .clone();
                if !exists(&known, to, context) {
                    let message = format!("inconsistent types deduced for parameter ${}", slot + 1);
                    return Err(Diagnostic::new("42P08", message, place)
                        .help(format!("{known} versus {to}; cast it at each use")));
                }
                let bound = Bound::new(Expression::Variable(slot), known);
                // Its place counts: the parameter has no other.
                let here = ast::Ident::with_span(place.location(), "");
                self.coerce(bound, to, context, &ast::Expr::Identifier(here))
            }
            other => Ok(other),
        }
    }

    /// The expression with a type of its own: text if none is known.
    pub(crate) fn settled(
        &mut self,
        bound: Bound,
        syntax: &impl Spanned,
    ) -> Bind<(Expression, DataType)> {
        match &bound.data_type {
            Some(data_type) => {
                let data_type = data_type.clone();
                Ok((bound.expression, data_type))
            }
            None => {
                let expression = self.coerce(bound, &DataType::Text, Context::Implicit, syntax)?;
                Ok((expression, DataType::Text))
            }
        }
    }

    /// The type that all of these become in a CASE, COALESCE, UNION, VALUES, IN, GREATEST.
    pub(crate) fn common_type(
        &self,
        bounds: &[&Bound],
        construct: &str,
        syntax: &impl Spanned,
    ) -> Bind<DataType> {
        let mut common: Option<DataType> = None;
        for bound in bounds {
            let Some(next) = &bound.data_type else {
                continue;
            };
            common = Some(match common {
                None => next.clone(),
                Some(common) => wider(&common, next).ok_or_else(|| {
                    let message =
                        format!("{construct} types {common} and {next} cannot be matched");
                    self.error("42804", message, syntax)
                })?,
            });
        }
        let common = common.unwrap_or(DataType::Text);
        if let DataType::Char(length) = common {
            self.check_blank_padding(bounds, length, construct, syntax)?;
        }
        Ok(common)
    }

    /// PostgreSQL pads each `char(n)` to its own length and forgets the length where several meet;
    /// here the length belongs to the type, so they must agree.
    fn check_blank_padding(
        &self,
        bounds: &[&Bound],
        length: u32,
        construct: &str,
        syntax: &impl Spanned,
    ) -> Bind<()> {
        let agrees = |bound: &&Bound| match (&bound.data_type, &bound.expression) {
            (Some(DataType::Char(own)), _) => *own == length,
            (Some(_), _) => false,
            (None, Expression::Constant(Value::Text(text))) => {
                text.chars().count() == length as usize
            }
            (None, _) => true,
        };
        if bounds.iter().all(agrees) {
            return Ok(());
        }
        let what = format!("{construct} of character({length}) and another length");
        Err(self
            .unsupported(&what, syntax)
            .help("Cast each to text or to one length."))
    }

    /// All of these as values of their common type.
    pub(crate) fn unify(
        &mut self,
        bounds: Vec<Bound>,
        construct: &str,
        syntax: &impl Spanned,
    ) -> Bind<(Vec<Expression>, DataType)> {
        let common = self.common_type(&bounds.iter().collect::<Vec<_>>(), construct, syntax)?;
        let expressions = bounds
            .into_iter()
            .map(|bound| self.coerce(bound, &common, Context::Implicit, syntax))
            .collect::<Bind<_>>()?;
        Ok((expressions, common))
    }
}

/// The type that both convert to implicitly; the first if either would do.
pub(crate) fn wider(a: &DataType, b: &DataType) -> Option<DataType> {
    if a == b {
        return Some(a.clone());
    }
    match (a, b) {
        (DataType::Numeric(_), DataType::Numeric(_)) => Some(DataType::Numeric(None)),
        (DataType::Varchar(_), DataType::Varchar(_)) => Some(DataType::Varchar(None)),
        (a, b) if a.is_text() && b.is_text() => match (a, b) {
            (DataType::Text | DataType::Name | DataType::SingleByte, _)
            | (_, DataType::Text | DataType::Name | DataType::SingleByte) => Some(DataType::Text),
            _ => Some(unbounded(a)),
        },
        (DataType::Array(a), DataType::Array(b)) => Some(DataType::Array(Box::new(wider(a, b)?))),
        (a, b) if exists(a, b, Context::Implicit) => Some(unbounded(b)),
        (a, b) if exists(b, a, Context::Implicit) => Some(unbounded(a)),
        _ => None,
    }
}
