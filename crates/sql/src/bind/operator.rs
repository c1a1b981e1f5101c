//! Binds operators, by the types of their operands.

use anabranch_types::{DataType, Value};
use sqlparser::ast::{self, BinaryOperator, Spanned, UnaryOperator};

use super::{
    Bind, Binder, Bound,
    convert::{Context, exists, unbounded, wider},
};
use crate::{
    diagnostic::Diagnostic,
    expression::{
        Domain, Expression, Function, Operator, Relation, function::Clock, regex::Pattern,
    },
    source::Span,
};

/// The comparison that an operator is, if it is one.
pub(crate) fn relation(operator: &BinaryOperator) -> Option<Relation> {
    Some(match operator {
        BinaryOperator::Eq => Relation::Equal,
        BinaryOperator::NotEq => Relation::NotEqual,
        BinaryOperator::Lt => Relation::Less,
        BinaryOperator::LtEq => Relation::LessOrEqual,
        BinaryOperator::Gt => Relation::Greater,
        BinaryOperator::GtEq => Relation::GreaterOrEqual,
        _ => return None,
    })
}

/// The operator that `OPERATOR(schema.name)` names, if it is one of `pg_catalog`.
fn qualified(operator: &BinaryOperator) -> Option<BinaryOperator> {
    let BinaryOperator::PGCustomBinaryOperator(parts) = operator else {
        return None;
    };
    let name = match parts.as_slice() {
        [name] => name,
        [schema, name] if schema.eq_ignore_ascii_case("pg_catalog") => name,
        _ => return None,
    };
    Some(match name.as_str() {
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "%" => BinaryOperator::Modulo,
        "||" => BinaryOperator::StringConcat,
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        _ => return None,
    })
}

/// Whether an operator matches a regular expression: whether case does not matter, and whether it is negated.
pub(super) fn regular_expression(operator: &BinaryOperator) -> Option<(bool, bool)> {
    Some(match operator {
        BinaryOperator::PGRegexMatch => (false, false),
        BinaryOperator::PGRegexIMatch => (true, false),
        BinaryOperator::PGRegexNotMatch => (false, true),
        BinaryOperator::PGRegexNotIMatch => (true, true),
        _ => return None,
    })
}

/// The same for the operators of LIKE and ILIKE.
pub(super) fn like_operator(operator: &BinaryOperator) -> Option<(bool, bool)> {
    Some(match operator {
        BinaryOperator::PGLikeMatch => (false, false),
        BinaryOperator::PGILikeMatch => (true, false),
        BinaryOperator::PGNotLikeMatch => (false, true),
        BinaryOperator::PGNotILikeMatch => (true, true),
        _ => return None,
    })
}

fn arithmetic(operator: &BinaryOperator) -> Option<Operator> {
    Some(match operator {
        BinaryOperator::Plus => Operator::Add,
        BinaryOperator::Minus => Operator::Subtract,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::Modulo => Operator::Modulo,
        BinaryOperator::PGExp => Operator::Power,
        BinaryOperator::BitwiseAnd => Operator::BitAnd,
        BinaryOperator::BitwiseOr => Operator::BitOr,
        BinaryOperator::PGBitwiseXor => Operator::BitXor,
        BinaryOperator::PGBitwiseShiftLeft => Operator::ShiftLeft,
        BinaryOperator::PGBitwiseShiftRight => Operator::ShiftRight,
        _ => return None,
    })
}

fn is_array(bound: &Bound) -> bool {
    matches!(bound.data_type, Some(DataType::Array(_)))
}

fn type_name(bound: &Bound) -> String {
    bound
        .data_type
        .as_ref()
        .map_or("unknown".into(), |t| unbounded(t).to_string())
}

impl Binder<'_> {
    pub(super) fn no_operator(
        &self,
        left: &Bound,
        symbol: &str,
        right: &Bound,
        syntax: &impl Spanned,
    ) -> Diagnostic {
        let (left, right) = (type_name(left), type_name(right));
        let message = format!("operator does not exist: {left} {symbol} {right}");
        self.error("42883", message, syntax)
            .help("No operator matches the given name and argument types. You might need to add explicit type casts.")
    }

    /// `left operator right`.
    pub(crate) fn binary(
        &mut self,
        left: &ast::Expr,
        operator: &BinaryOperator,
        right: &ast::Expr,
        syntax: &ast::Expr,
    ) -> Bind<Bound> {
        self.bound_binary(left, operator, right, syntax)
            .map_err(|error| self.at_operator(error, left, operator, right, syntax))
    }

    /// Moves the error of an operator that does not exist to the operator, where PostgreSQL has it. The parser keeps no
    /// place of operators: it follows from those of plain operands.
    fn at_operator(
        &self,
        error: Diagnostic,
        left: &ast::Expr,
        operator: &BinaryOperator,
        right: &ast::Expr,
        syntax: &ast::Expr,
    ) -> Diagnostic {
        let is_plain = |operand: &ast::Expr| {
            matches!(
                operand,
                ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) | ast::Expr::Value(_)
            )
        };
        let is_own = error.code == "42883"
            && error.message.starts_with("operator does not exist")
            && error.span == Some(self.place_of(syntax));
        if !is_own || !is_plain(left) || !is_plain(right) {
            return error;
        }
        let (before, behind) = (self.place_of(left), self.place_of(right));
        let gap = behind.start.saturating_sub(before.end);
        let length = operator.to_string().len() as u32;
        let start = before.end + u32::from(gap > length);
        Diagnostic {
            span: Some(Span {
                start,
                end: start + length,
                ..before
            }),
            ..error
        }
    }

    fn bound_binary(
        &mut self,
        left: &ast::Expr,
        operator: &BinaryOperator,
        right: &ast::Expr,
        syntax: &ast::Expr,
    ) -> Bind<Bound> {
        match operator {
            BinaryOperator::And | BinaryOperator::Or => {
                let (mut list, is_and) = (Vec::new(), matches!(operator, BinaryOperator::And));
                for side in [left, right] {
                    match (self.condition(side)?, is_and) {
                        (Expression::And(more), true) | (Expression::Or(more), false) => {
                            list.extend(more);
                        }
                        (other, _) => list.push(other),
                    }
                }
                let joined = if is_and {
                    Expression::And(list)
                } else {
                    Expression::Or(list)
                };
                return Ok(Bound::boolean(joined.folded()));
            }
            _ => {}
        }
        if let Some(operator) = qualified(operator) {
            return self.binary(left, &operator, right, syntax);
        }
        if let Some((insensitive, negated)) = regular_expression(operator) {
            let (left, right) = (self.expression(left)?, self.expression(right)?);
            return self.matches(left, right, (insensitive, negated), syntax);
        }
        if let Some((insensitive, negated)) = like_operator(operator) {
            let (left, right) = (self.expression(left)?, self.expression(right)?);
            return self.like_bound(left, right, Some('\\'), insensitive, negated, syntax);
        }
        if let Some(relation) = relation(operator) {
            return self.comparison(left, relation, right, syntax);
        }
        if let Some(interval) = self.interval_arithmetic(left, operator, right, syntax)? {
            return Ok(interval);
        }
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        if let Some(bound) = self.json_operator(&left, operator, &right, syntax)? {
            return Ok(bound);
        }
        if let Some(operator) = arithmetic(operator) {
            return self.arithmetic(left, operator, right, syntax);
        }
        match operator {
            BinaryOperator::StringConcat => self.concatenation(left, right, syntax),
            BinaryOperator::PGLikeMatch | BinaryOperator::PGNotLikeMatch => {
                let negated = matches!(operator, BinaryOperator::PGNotLikeMatch);
                self.like_bound(left, right, Some('\\'), false, negated, syntax)
            }
            BinaryOperator::PGILikeMatch | BinaryOperator::PGNotILikeMatch => {
                let negated = matches!(operator, BinaryOperator::PGNotILikeMatch);
                self.like_bound(left, right, Some('\\'), true, negated, syntax)
            }
            BinaryOperator::AtArrow | BinaryOperator::ArrowAt | BinaryOperator::PGOverlap
                if is_array(&left) || is_array(&right) =>
            {
                self.array_operator(left, operator, right, syntax)
            }
            other => Err(self.unsupported(&format!("operator {other}"), syntax)),
        }
    }

    /// A comparison of two values, or of two rows.
    fn comparison(
        &mut self,
        left: &ast::Expr,
        relation: Relation,
        right: &ast::Expr,
        syntax: &ast::Expr,
    ) -> Bind<Bound> {
        if let (ast::Expr::Tuple(left), ast::Expr::Tuple(right)) = (peeled(left), peeled(right)) {
            if left.len() != right.len() {
                return Err(self.error(
                    "42601",
                    "unequal number of entries in row expressions",
                    syntax,
                ));
            }
            if !matches!(relation, Relation::Equal | Relation::NotEqual) {
                return self.row_order(left, relation, right, syntax);
            }
            let equal = left
                .iter()
                .zip(right)
                .map(|(l, r)| Ok(self.comparison(l, Relation::Equal, r, syntax)?.expression))
                .collect::<Bind<Vec<_>>>()?;
            let equal = Expression::And(equal);
            return Ok(Bound::boolean(match relation {
                Relation::Equal => equal,
                _ => Expression::Not(Box::new(equal)),
            }));
        }
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        let compared = self.compare(left, relation, right, syntax)?;
        Ok(Bound::boolean(compared.folded()))
    }

    /// `(a, b) > (c, d)`: the first pair that differs decides. It is `a >= c AND (a > c OR a = c AND b > d)`, so that a key
    /// that begins with `a` bounds the rows to be read.
    fn row_order(
        &mut self,
        left: &[ast::Expr],
        relation: Relation,
        right: &[ast::Expr],
        syntax: &ast::Expr,
    ) -> Bind<Bound> {
        let (strict, weak) = match relation {
            Relation::Less | Relation::LessOrEqual => (Relation::Less, Relation::LessOrEqual),
            _ => (Relation::Greater, Relation::GreaterOrEqual),
        };
        let mut pairs = Vec::new();
        for (l, r) in left.iter().zip(right) {
            pairs.push((self.expression(l)?, self.expression(r)?));
        }
        // Each operand but the last is evaluated several times.
        let is_drawn =
            |(l, r): &(Bound, Bound)| l.expression.is_volatile() || r.expression.is_volatile();
        if pairs.iter().any(is_drawn) {
            return Err(self.unsupported("a volatile function in an ordering of rows", syntax));
        }
        let Some((l, r)) = pairs.pop() else {
            return Err(self.error("0A000", "cannot compare rows of zero length", syntax));
        };
        let mut decided = self.compare(l, relation, r, syntax)?;
        while let Some((l, r)) = pairs.pop() {
            let differs = self.compare(l.clone(), strict, r.clone(), syntax)?;
            let equals = self.compare(l.clone(), Relation::Equal, r.clone(), syntax)?;
            let bounded = self.compare(l, weak, r, syntax)?;
            let behind = Expression::And(vec![equals, decided]);
            decided = Expression::And(vec![bounded, Expression::Or(vec![differs, behind])]);
        }
        Ok(Bound::boolean(decided.folded()))
    }

    /// `left relation right`, with both brought to one kind of value.
    pub(crate) fn compare(
        &mut self,
        left: Bound,
        relation: Relation,
        right: Bound,
        syntax: &impl Spanned,
    ) -> Bind<Expression> {
        let types = [&left.data_type, &right.data_type];
        let known = types.into_iter().flatten().next().cloned();
        let (mut left, mut right) = self.comparable(left, relation.symbol(), right, syntax)?;
        if let (true, Some(known)) = (relation.is_order(), known) {
            if known.element().and_then(DataType::as_enum).is_some() {
                self.check_order(&known, syntax)?;
            }
            if let Some(of) = known.as_enum() {
                left = super::enumeration::place(left, of);
                right = super::enumeration::place(right, of);
            }
        }
        Ok(Expression::Compare {
            relation,
            left: Box::new(left),
            right: Box::new(right),
        })
    }

    /// Brings two expressions to types that can be compared with each other.
    pub(crate) fn comparable(
        &mut self,
        left: Bound,
        symbol: &str,
        right: Bound,
        syntax: &impl Spanned,
    ) -> Bind<(Expression, Expression)> {
        let common = match (&left.data_type, &right.data_type) {
            (None, None) => DataType::Text,
            (Some(known), None) | (None, Some(known)) => known.clone(),
            // Exact numbers of different kinds compare as they are; with floats, as floats.
            (Some(a), Some(b)) if a.is_numeric() && b.is_numeric() => {
                let float = |t: &DataType| matches!(t, DataType::Real | DataType::Double);
                if float(a) != float(b) {
                    let left = self.coerce(left, &DataType::Double, Context::Implicit, syntax)?;
                    let right = self.coerce(right, &DataType::Double, Context::Implicit, syntax)?;
                    return Ok((left, right));
                }
                return Ok((left.expression, right.expression));
            }
            // OIDs compare with each other and with integers as numbers.
            (Some(a), Some(b))
                if (a.is_oid() || b.is_oid())
                    && (a.is_oid() || a.is_integer())
                    && (b.is_oid() || b.is_integer()) =>
            {
                return Ok((left.expression, right.expression));
            }
            (Some(a), Some(b)) => {
                wider(a, b).ok_or_else(|| self.no_operator(&left, symbol, &right, syntax))?
            }
        };
        let common = match common {
            DataType::Json => return Err(self.no_operator(&left, symbol, &right, syntax)),
            DataType::Char(_) if left.data_type.is_some() && right.data_type.is_some() => {
                DataType::Text
            }
            DataType::Varchar(_) => DataType::Text,
            DataType::Numeric(_) => DataType::Numeric(None),
            other => other,
        };
        let left = self.coerce(left, &common, Context::Implicit, syntax)?;
        let right = self.coerce(right, &common, Context::Implicit, syntax)?;
        Ok((left, right))
    }

    /// `left operator right` on numbers and dates.
    pub(crate) fn arithmetic(
        &mut self,
        left: Bound,
        operator: Operator,
        right: Bound,
        syntax: &ast::Expr,
    ) -> Bind<Bound> {
        let symbol = operator.symbol();
        if let Some(bound) = self.date_arithmetic(&left, operator, &right, syntax)? {
            return Ok(bound);
        }
        let common = match (&left.data_type, &right.data_type) {
            (None, None) => {
                let message = format!("operator is not unique: unknown {symbol} unknown");
                return Err(self.error("42725", message, syntax));
            }
            (Some(known), None) | (None, Some(known)) if known.is_numeric() => unbounded(known),
            (Some(a), Some(b)) if a.is_numeric() && b.is_numeric() => match (a, b) {
                (DataType::Real, DataType::Real) => DataType::Real,
                (DataType::Real | DataType::Double, _) | (_, DataType::Real | DataType::Double) => {
                    DataType::Double
                }
                (a, b) => wider(a, b).expect("exact numbers have a common type"),
            },
            _ => return Err(self.no_operator(&left, symbol, &right, syntax)),
        };
        let common = unbounded(&common);
        let domain = match (operator, &common) {
            (Operator::Power, DataType::Numeric(_)) => {
                let power = self.mathematical_function("power", &[left, right], syntax)?;
                return Ok(power.expect("two numbers have a power"));
            }
            (Operator::Power, _) => Domain::Double,
            (Operator::Modulo, DataType::Real | DataType::Double) => {
                return Err(self.no_operator(&left, symbol, &right, syntax));
            }
            (
                Operator::BitAnd
                | Operator::BitOr
                | Operator::BitXor
                | Operator::ShiftLeft
                | Operator::ShiftRight,
                other,
            ) if !other.is_integer() => {
                return Err(self.no_operator(&left, symbol, &right, syntax));
            }
            (_, common) => Domain::of(common).expect("a number's type has a domain"),
        };
        let common = if operator == Operator::Power {
            DataType::Double
        } else {
            common
        };
        let left = self.coerce(left, &common, Context::Implicit, syntax)?;
        let right = self.coerce(right, &common, Context::Implicit, syntax)?;
        let (left, right) = (Box::new(left), Box::new(right));
        let expression = Expression::Arithmetic {
            operator,
            domain,
            left,
            right,
        };
        Ok(Bound::new(expression.folded(), common))
    }

    fn date_arithmetic(
        &mut self,
        left: &Bound,
        operator: Operator,
        right: &Bound,
        syntax: &ast::Expr,
    ) -> Bind<Option<Bound>> {
        let is_date = |b: &Bound| b.data_type == Some(DataType::Date);
        let is_int = |b: &Bound| matches!(b.data_type, Some(DataType::Int2 | DataType::Int4));
        let is_moment = |b: &Bound| {
            matches!(
                b.data_type,
                Some(DataType::Date | DataType::Timestamp | DataType::TimestampTz)
            )
        };
        let result = match operator {
            Operator::Add if is_date(left) && is_int(right) => DataType::Date,
            Operator::Add if is_int(left) && is_date(right) => DataType::Date,
            Operator::Subtract if is_date(left) && is_int(right) => DataType::Date,
            Operator::Subtract if is_date(left) && is_date(right) => DataType::Int4,
            Operator::Subtract if is_moment(left) && is_moment(right) => {
                let construct = "a difference of timestamps (type interval)";
                return Err(self
                    .unsupported(construct, syntax)
                    .help("Take extract(epoch from …) of both and subtract."));
            }
            _ => return Ok(None),
        };
        let expression = Expression::Arithmetic {
            operator,
            domain: Domain::Date,
            left: Box::new(left.expression.clone()),
            right: Box::new(right.expression.clone()),
        };
        Ok(Some(Bound::new(expression.folded(), result)))
    }

    /// `timestamp ± INTERVAL 'constant'`.
    fn interval_arithmetic(
        &mut self,
        left: &ast::Expr,
        operator: &BinaryOperator,
        right: &ast::Expr,
        syntax: &ast::Expr,
    ) -> Bind<Option<Bound>> {
        let negative = match operator {
            BinaryOperator::Plus => false,
            BinaryOperator::Minus => true,
            _ => return Ok(None),
        };
        let (moment, interval) = match (self.interval(left)?, self.interval(right)?) {
            (None, Some(interval)) => (left, interval),
            (Some(interval), None) if !negative => (right, interval),
            (None, None) => return Ok(None),
            _ => return Err(self.unsupported("type interval here", syntax)),
        };
        let moment = self.expression(moment)?;
        let result = match &moment.data_type {
            Some(DataType::TimestampTz) => DataType::TimestampTz,
            Some(DataType::Date | DataType::Timestamp) => DataType::Timestamp,
            _ => return Err(self.unsupported("arithmetic with an interval here", syntax)),
        };
        let function = Function::AddInterval(interval, negative, Clock::of(Some(&result)));
        let expression = Expression::Call {
            function,
            arguments: vec![moment.expression],
        };
        Ok(Some(Bound::new(expression.folded(), result)))
    }

    /// `||`.
    pub(super) fn concatenation(
        &mut self,
        left: Bound,
        right: Bound,
        syntax: &ast::Expr,
    ) -> Bind<Bound> {
        match (&left.data_type, &right.data_type) {
            (Some(DataType::Array(a)), Some(DataType::Array(b))) if a == b => {
                let data_type = DataType::Array(a.clone());
                let arguments = vec![left.expression, right.expression];
                let call = Expression::Call {
                    function: Function::ArrayConcat,
                    arguments,
                };
                return Ok(Bound::new(call.folded(), data_type));
            }
            (Some(DataType::Array(a)), Some(b)) if exists(b, a, Context::Implicit) => {
                let element = (**a).clone();
                let data_type = DataType::Array(a.clone());
                let right = self.coerce(right, &element, Context::Implicit, syntax)?;
                let arguments = vec![left.expression, right];
                let call = Expression::Call {
                    function: Function::ArrayAppend,
                    arguments,
                };
                return Ok(Bound::new(call.folded(), data_type));
            }
            (Some(from), Some(DataType::Array(inner)))
                if exists(from, inner, Context::Implicit) =>
            {
                let inner = (**inner).clone();
                return self.prepended(left, right, &inner, syntax);
            }
            // As in PostgreSQL, a literal without a type is an array, too.
            (Some(known @ DataType::Array(_)), None) | (None, Some(known @ DataType::Array(_))) => {
                let data_type = known.clone();
                let left = self.coerce(left, &data_type, Context::Implicit, syntax)?;
                let right = self.coerce(right, &data_type, Context::Implicit, syntax)?;
                return Ok(Self::call(
                    Function::ArrayConcat,
                    vec![left, right],
                    data_type,
                ));
            }
            (Some(DataType::Bytea), Some(DataType::Bytea)) => {
                let joined =
                    Expression::Concat(Box::new(left.expression), Box::new(right.expression));
                return Ok(Bound::new(joined.folded(), DataType::Bytea));
            }
            (Some(DataType::Bytea), None) | (None, Some(DataType::Bytea)) => {
                let left = self.coerce(left, &DataType::Bytea, Context::Implicit, syntax)?;
                let right = self.coerce(right, &DataType::Bytea, Context::Implicit, syntax)?;
                let joined = Expression::Concat(Box::new(left), Box::new(right));
                return Ok(Bound::new(joined.folded(), DataType::Bytea));
            }
            (Some(a), Some(b)) if !a.is_text() && !b.is_text() => {
                return Err(self.no_operator(&left, "||", &right, syntax));
            }
            (Some(DataType::Array(_)), _) | (_, Some(DataType::Array(_))) => {
                return Err(self.unsupported("|| of an array and this", syntax));
            }
            _ => {}
        }
        let left = self.as_text(left, syntax)?;
        let right = self.as_text(right, syntax)?;
        let joined = Expression::Concat(Box::new(left), Box::new(right));
        Ok(Bound::new(joined.folded(), DataType::Text))
    }

    /// The expression cast to text, as `||` does with either side.
    pub(crate) fn as_text(&mut self, bound: Bound, syntax: &impl Spanned) -> Bind<Expression> {
        self.coerce(bound, &DataType::Text, Context::Explicit, syntax)
    }

    /// LIKE and ILIKE.
    pub(crate) fn like_bound(
        &mut self,
        operand: Bound,
        pattern: Bound,
        escape: Option<char>,
        insensitive: bool,
        negated: bool,
        syntax: &ast::Expr,
    ) -> Bind<Bound> {
        for side in [&operand, &pattern] {
            if side.data_type.as_ref().is_some_and(|t| !t.is_text()) {
                return Err(self.no_operator(&operand, "~~", &pattern, syntax));
            }
        }
        if let Some(DataType::Char(_)) = operand.data_type {
            return Err(self
                .unsupported("LIKE on char(n), whose padding counts", syntax)
                .help("Cast the column to text."));
        }
        let operand = Box::new(self.as_text(operand, syntax)?);
        let pattern = Box::new(self.as_text(pattern, syntax)?);
        let like = Expression::Like {
            operand,
            pattern,
            escape,
            insensitive,
            negated,
        };
        Ok(Bound::boolean(like.folded()))
    }

    /// `~`, `~*`, `!~` and `!~*`.
    pub(crate) fn matches(
        &mut self,
        operand: Bound,
        pattern: Bound,
        (insensitive, negated): (bool, bool),
        syntax: &ast::Expr,
    ) -> Bind<Bound> {
        for side in [&operand, &pattern] {
            if side.data_type.as_ref().is_some_and(|t| !t.is_text()) {
                let symbol = format!(
                    "{}~{}",
                    if negated { "!" } else { "" },
                    if insensitive { "*" } else { "" }
                );
                return Err(self.no_operator(&operand, &symbol, &pattern, syntax));
            }
        }
        let place = pattern.place.unwrap_or_else(|| self.place_of(syntax));
        let operand = self.as_text(operand, syntax)?;
        let pattern = self.as_text(pattern, syntax)?;
        let compiled = Pattern::new(&pattern, insensitive)
            .map_err(|error| Diagnostic::new(error.code, error.message, place))?;
        let function = Function::Matches(compiled);
        let call = Self::call(function, vec![operand, pattern], DataType::Bool);
        Ok(match negated {
            true => Bound::boolean(Expression::Not(Box::new(call.expression)).folded()),
            false => call,
        })
    }

    /// Unary operators.
    pub(crate) fn unary(
        &mut self,
        operator: &UnaryOperator,
        operand: &ast::Expr,
        syntax: &ast::Expr,
    ) -> Bind<Bound> {
        match operator {
            UnaryOperator::Not => {
                let operand = self.condition(operand)?;
                Ok(Bound::boolean(Expression::Not(Box::new(operand)).folded()))
            }
            UnaryOperator::Plus => self.expression(operand),
            UnaryOperator::Minus => {
                // The most negative integers are written as the negation of a number too large.
                if let ast::Expr::Value(value) = operand
                    && let ast::Value::Number(digits, _) = &value.value
                {
                    return self.number(&format!("-{digits}"), syntax);
                }
                let operand = self.expression(operand)?;
                let Some(domain) = operand.data_type.as_ref().and_then(Domain::of) else {
                    let message = format!("operator does not exist: - {}", type_name(&operand));
                    return Err(self.error("42883", message, syntax));
                };
                let data_type = unbounded(operand.data_type.as_ref().expect("it has a domain"));
                let negated = Expression::Negate {
                    domain,
                    operand: Box::new(operand.expression),
                };
                Ok(Bound::new(negated.folded(), data_type))
            }
            UnaryOperator::BitwiseNot
            | UnaryOperator::PGSquareRoot
            | UnaryOperator::PGCubeRoot
            | UnaryOperator::PGAbs => {
                let operand = self.expression(operand)?;
                self.prefix_operator(&operator.to_string(), operand, syntax)
            }
            other => Err(self.unsupported(&format!("operator {other}"), syntax)),
        }
    }

    /// A numeric literal: integer, bigint or numeric, whichever holds it first.
    pub(crate) fn number(&mut self, digits: &str, syntax: &ast::Expr) -> Bind<Bound> {
        if let Ok(int) = digits.parse::<i64>() {
            let small = i32::try_from(int).is_ok();
            let data_type = if small {
                DataType::Int4
            } else {
                DataType::Int8
            };
            return Ok(Bound::new(Expression::Constant(Value::Int(int)), data_type));
        }
        match anabranch_types::Decimal::parse(digits) {
            Ok(decimal) => Ok(Bound::new(
                Expression::Constant(Value::Numeric(decimal)),
                DataType::Numeric(None),
            )),
            Err(error) => Err(self.error("22003", error.to_string(), syntax)),
        }
    }
}

/// The expression inside parentheses.
pub(crate) fn peeled(expression: &ast::Expr) -> &ast::Expr {
    match expression {
        ast::Expr::Nested(inner) => peeled(inner),
        other => other,
    }
}
