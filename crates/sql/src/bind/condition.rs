//! Binds tests: IN of a list, BETWEEN, LIKE, and operators of patterns with ANY and ALL.

use anabranch_types::DataType;
use sqlparser::ast::{self, BinaryOperator, Expr};

use super::{
    Bind, Binder, Bound,
    convert::{Context, wider},
    operator::{like_operator, peeled, regular_expression},
};
use crate::expression::{Expression, Function, Relation, function::Matching};

/// Whether an operator matches patterns, and whether it is negated.
pub(super) fn matching(operator: &BinaryOperator) -> Option<(Matching, bool)> {
    let like = like_operator(operator).map(|(insensitive, negated)| {
        let escape = Some('\\');
        (
            Matching::Like {
                escape,
                insensitive,
            },
            negated,
        )
    });
    like.or_else(|| {
        let (insensitive, negated) = regular_expression(operator)?;
        Some((Matching::Regexp { insensitive }, negated))
    })
}

/// Whether one of these is of an enumeration.
fn types_have_enum(bounds: &[&Bound]) -> bool {
    let mut types = bounds.iter().filter_map(|bound| bound.data_type.as_ref());
    types.any(|of| of.as_enum().is_some())
}

impl Binder<'_> {
    pub(super) fn in_list(
        &mut self,
        operand: &Expr,
        list: &[Expr],
        negated: bool,
        syntax: &Expr,
    ) -> Bind<Bound> {
        if let Expr::Tuple(_) = peeled(operand) {
            let mut equal = Vec::new();
            for element in list {
                equal.push(
                    self.binary(operand, &ast::BinaryOperator::Eq, element, syntax)?
                        .expression,
                );
            }
            // A single row compares like a key that is written out.
            let any = match equal.len() {
                1 => equal.remove(0),
                _ => Expression::Or(equal),
            };
            let test = if negated {
                Expression::Not(Box::new(any))
            } else {
                any
            };
            return Ok(Bound::boolean(test));
        }
        let operand_bound = self.expression(operand)?;
        let mut bounds = vec![operand_bound];
        for element in list {
            bounds.push(self.expression(element)?);
        }
        let exact = |t: &DataType| t.is_integer() || matches!(t, DataType::Numeric(_));
        let all_numbers = bounds
            .iter()
            .all(|b| b.data_type.as_ref().is_some_and(exact));
        let mut expressions = if all_numbers {
            bounds.into_iter().map(|bound| bound.expression).collect()
        } else {
            let common = self.common_for_comparison(&bounds, syntax)?;
            let mut expressions = Vec::new();
            for bound in bounds {
                expressions.push(self.coerce(bound, &common, Context::Implicit, syntax)?);
            }
            expressions
        };
        let operand = Box::new(expressions.remove(0));
        let test = Expression::InList {
            operand,
            list: expressions,
            negated,
        };
        Ok(Bound::boolean(test.folded()))
    }

    /// The type in which all of these can be compared.
    fn common_for_comparison(&self, bounds: &[Bound], syntax: &Expr) -> Bind<DataType> {
        let known: Vec<&DataType> = bounds.iter().filter_map(|b| b.data_type.as_ref()).collect();
        if let Some(first @ DataType::Char(_)) = known.first()
            && known.iter().all(|t| t == first)
        {
            return Ok((*first).clone());
        }
        if !known.is_empty() && known.iter().all(|t| t.is_text()) {
            return Ok(DataType::Text);
        }
        let mut types = bounds.iter().filter(|bound| bound.data_type.is_some());
        if let Some(first) = types.next()
            && let Some(other) = types.find(|other| {
                let pair = (&first.data_type, &other.data_type);
                matches!(pair, (Some(a), Some(b)) if wider(a, b).is_none())
            })
            && types_have_enum(&[first, other])
        {
            return Err(self.no_operator(first, "=", other, syntax));
        }
        let common = self.common_type(&bounds.iter().collect::<Vec<_>>(), "IN", syntax)?;
        self.check_equality(&common, syntax)?;
        Ok(common)
    }

    pub(super) fn between(
        &mut self,
        operand: &Expr,
        negated: bool,
        low: &Expr,
        high: &Expr,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let operand = self.expression(operand)?;
        let (low, high) = (self.expression(low)?, self.expression(high)?);
        let above = self.compare(operand.clone(), Relation::GreaterOrEqual, low, syntax)?;
        let below = self.compare(operand, Relation::LessOrEqual, high, syntax)?;
        let within = Expression::And(vec![above, below]);
        let test = if negated {
            Expression::Not(Box::new(within))
        } else {
            within
        };
        Ok(Bound::boolean(test.folded()))
    }

    pub(super) fn like(
        &mut self,
        operand: &Expr,
        pattern: &Expr,
        escape: Option<&Expr>,
        insensitive: bool,
        negated: bool,
        syntax: &Expr,
    ) -> Bind<Bound> {
        // `LIKE ALL (array)` is parsed as a call of a function.
        if let (Expr::Function(function), None) = (pattern, escape)
            && let [ast::ObjectNamePart::Identifier(name)] = &function.name.0[..]
            && name.quote_style.is_none()
            && name.value == "all"
            && let [patterns] = &self.plain_arguments(&function.args, syntax)?[..]
        {
            let escape = Some('\\');
            let of = Matching::Like {
                escape,
                insensitive,
            };
            return self.matches_any(operand, patterns, of, negated, true, syntax);
        }
        let escape = self.escape(escape, syntax)?;
        let (operand, pattern) = (self.expression(operand)?, self.expression(pattern)?);
        self.like_bound(operand, pattern, escape, insensitive, negated, syntax)
    }

    /// The character of an ESCAPE, a backslash without one.
    pub(super) fn escape(&self, escape: Option<&Expr>, syntax: &Expr) -> Bind<Option<char>> {
        match escape {
            None => Ok(Some('\\')),
            Some(Expr::Value(value)) => match &value.value {
                ast::Value::SingleQuotedString(text) if text.chars().count() <= 1 => {
                    Ok(text.chars().next())
                }
                _ => Err(self.error("22025", "invalid escape string", syntax)),
            },
            Some(other) => Err(self.unsupported("a computed ESCAPE", other)),
        }
    }

    /// `operand LIKE ANY (array)`.
    pub(super) fn like_any(
        &mut self,
        operand: &Expr,
        patterns: &Expr,
        (insensitive, negated): (bool, bool),
        syntax: &Expr,
    ) -> Bind<Bound> {
        let escape = Some('\\');
        let of = Matching::Like {
            escape,
            insensitive,
        };
        self.matches_any(operand, patterns, of, negated, false, syntax)
    }

    /// An operator of patterns with ANY or ALL of an array.
    pub(super) fn matches_any(
        &mut self,
        operand: &Expr,
        patterns: &Expr,
        of: Matching,
        negated: bool,
        all: bool,
        syntax: &Expr,
    ) -> Bind<Bound> {
        if let Expr::Subquery(_) = peeled(patterns) {
            let construct = "an operator of patterns with ANY or ALL of a query";
            return Err(self.unsupported(construct, syntax));
        }
        let (operand, patterns_bound) = (self.expression(operand)?, self.expression(patterns)?);
        let texts = DataType::Array(Box::new(DataType::Text));
        match &patterns_bound.data_type {
            None => {}
            Some(DataType::Array(element)) if element.is_text() => {}
            Some(DataType::Array(_)) => {
                let construct = "patterns that are no text";
                return Err(self.unsupported(construct, syntax));
            }
            Some(_) => {
                let message = "op ANY/ALL (array) requires array on right side";
                return Err(self.error("42809", message, patterns));
            }
        }
        match &operand.data_type {
            None => {}
            Some(DataType::Char(_)) => {
                let construct = "patterns for char(n), whose padding counts";
                return Err(self.unsupported(construct, syntax));
            }
            Some(known) if known.is_text() => {}
            Some(_) => {
                let construct = "patterns for what is no text";
                return Err(self.unsupported(construct, syntax));
            }
        }
        let operand = self.as_text(operand, syntax)?;
        let patterns = self.coerce(patterns_bound, &texts, Context::Implicit, patterns)?;
        let function = Function::MatchesAny { of, negated, all };
        Ok(Self::call(
            function,
            vec![operand, patterns],
            DataType::Bool,
        ))
    }
}
