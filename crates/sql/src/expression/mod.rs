//! Compiled expressions: names resolved, types settled, ready to evaluate.
//!
//! The binder inserts every cast, so evaluation never looks at a type: two operands of an operator hold the same kind
//! of [`Value`]. Three-valued logic uses NULL among the values. Evaluation never waits: the executor computes a
//! subquery first, as a column like any other (see `execute`), so evaluation is an ordinary function of a `Frame`.

pub(crate) mod arithmetic;
pub(crate) mod array;
pub(crate) mod bounds;
pub(crate) mod budget;
pub(crate) mod cast;
pub(crate) mod compare;
pub(crate) mod datetime;
pub(crate) mod encoding;
pub(crate) mod evaluate;
pub(crate) mod frame;
pub(crate) mod function;
pub(crate) mod integer;
pub(crate) mod json;
pub(crate) mod mathematics;
mod md5;
pub(crate) mod pattern;
mod quote;
pub(crate) mod regex;
pub(crate) mod regexp;
pub(crate) mod registers;
pub(crate) mod sequence;
pub mod text;
mod to_char;
pub(crate) mod wide;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use anabranch_types::{DataType, EffectError, TimeZone, Value};

use crate::{sequence::ResolvedSequence, transaction::Sequences};

pub(crate) use arithmetic::{Domain, Operator};
pub(crate) use budget::Budget;
pub(crate) use compare::Relation;
pub(crate) use frame::{Batch, Frame, NONE, Source};
pub(crate) use function::Function;
pub(crate) use json::JsonFunction;
pub(crate) use sequence::{SequenceFunction, SequenceTarget};

/// Why an expression has no value. Boxed: a result stays as small as a value.
pub(crate) type Failure = Box<EffectError>;

/// A failure with a SQLSTATE and a message.
pub(crate) fn failure(code: &'static str, message: impl Into<String>) -> Failure {
    Box::new(EffectError::new(code, message))
}

/// The values that expressions take from their transaction, fixed or drawn before they run.
#[derive(Debug, Default)]
pub(crate) struct EvaluationContext {
    /// `now()`: microseconds since 2000-01-01.
    pub(crate) timestamp: i64,
    /// The session's time zone.
    pub(crate) zone: TimeZone,
    /// Numbers drawn for [`Expression::Unique`]: the executor draws as many as output and assignments need.
    pub(crate) uniques: RefCell<Vec<u128>>,
    /// A number drawn for this statement, and how many were made of it: for conditions and wherever else it is not known
    /// before how often they are evaluated. None if no transaction runs the statement.
    pub(crate) reserve: Cell<Option<(u128, u32)>>,
    /// The sequences for [`Expression::Next`], if a transaction runs it.
    pub(crate) sequences: Option<Rc<dyn Sequences>>,
    /// The statement's work and memory.
    pub(crate) budget: Budget,
}

/// What marks the numbers that are made of a reserve: those that transactions draw are lower in their second half.
const OF_RESERVE: u128 = 1 << 63;

impl EvaluationContext {
    /// The next number for [`Expression::Unique`], which no other evaluation gets.
    ///
    /// # Errors
    /// When no transaction runs the expression, or its reserve is used up.
    fn unique(&self) -> Result<u128, Failure> {
        if let Some(number) = self.uniques.borrow_mut().pop() {
            return Ok(number);
        }
        let refused = || failure("0A000", "a value cannot be drawn here");
        let (drawn, made) = self.reserve.get().ok_or_else(refused)?;
        let next = made.checked_add(1).ok_or_else(refused)?;
        self.reserve.set(Some((drawn, next)));
        // A transaction's numbers are in the second half of it; less than 2^31 of them are drawn as reserves.
        let (transaction, number) = (drawn >> 64 << 64, drawn & 0x7FFF_FFFF);
        Ok(transaction | OF_RESERVE | number << 32 | u128::from(made))
    }
}

/// A compiled expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    /// A constant.
    Constant(Value),
    /// A parameter or variable of the procedure, `$n` of a statement, an argument of a row program.
    Variable(usize),
    /// A column of a source of this query (depth 0) or of one around it.
    Column {
        /// The number of queries outwards.
        depth: usize,
        /// The source of that query; the first is 1.
        source: usize,
        /// The column of the source.
        column: usize,
    },
    /// NOT.
    Not(Box<Expression>),
    /// AND of all.
    And(Vec<Expression>),
    /// OR of all.
    Or(Vec<Expression>),
    /// IS NULL, or IS NOT NULL if negated.
    IsNull {
        operand: Box<Expression>,
        negated: bool,
    },
    /// IS TRUE, IS FALSE; or their negations.
    IsBool {
        operand: Box<Expression>,
        expected: bool,
        negated: bool,
    },
    /// A comparison of two values of one kind.
    Compare {
        relation: Relation,
        left: Box<Expression>,
        right: Box<Expression>,
    },
    /// IS DISTINCT FROM, or IS NOT DISTINCT FROM if negated.
    Distinct {
        left: Box<Expression>,
        right: Box<Expression>,
        negated: bool,
    },
    /// Arithmetic on two numbers of one domain.
    Arithmetic {
        operator: Operator,
        domain: Domain,
        left: Box<Expression>,
        right: Box<Expression>,
    },
    /// Unary minus.
    Negate {
        domain: Domain,
        operand: Box<Expression>,
    },
    /// `||` on two texts.
    Concat(Box<Expression>, Box<Expression>),
    /// CASE: conditions and their results in order, then ELSE.
    Case {
        branches: Vec<(Expression, Expression)>,
        otherwise: Box<Expression>,
    },
    /// CASE operand WHEN constant …: the operand is evaluated once.
    Switch {
        operand: Box<Expression>,
        branches: Vec<(Expression, Expression)>,
        otherwise: Box<Expression>,
    },
    /// COALESCE.
    Coalesce(Vec<Expression>),
    /// NULLIF.
    NullIf(Box<Expression>, Box<Expression>),
    /// IN (list), or NOT IN.
    InList {
        operand: Box<Expression>,
        list: Vec<Expression>,
        negated: bool,
    },
    /// `left op ANY (array)`, or ALL.
    Quantified {
        relation: Relation,
        left: Box<Expression>,
        array: Box<Expression>,
        all: bool,
    },
    /// LIKE and ILIKE.
    Like {
        operand: Box<Expression>,
        pattern: Box<Expression>,
        escape: Option<char>,
        insensitive: bool,
        negated: bool,
    },
    /// A cast that may change or refuse the value.
    Cast {
        operand: Box<Expression>,
        from: DataType,
        to: DataType,
        explicit: bool,
    },
    /// A function.
    Call {
        function: Function,
        arguments: Vec<Expression>,
    },
    /// ARRAY[…].
    Array(Vec<Expression>),
    /// `array[index]`.
    Subscript(Box<Expression>, Box<Expression>),
    /// `now()`.
    Now,
    /// A number that no other call gets, as a uuid.
    Unique,
    /// The next number of a sequence.
    Next(Arc<ResolvedSequence>),
    /// Another function of a sequence.
    OfSequence {
        function: SequenceFunction,
        target: SequenceTarget,
        arguments: Vec<Expression>,
    },
}

impl Expression {
    /// NULL.
    pub(crate) const NULL: Expression = Expression::Constant(Value::Null);

    /// Calls `visit` with each direct operand.
    pub(crate) fn each_child<'e>(&'e self, mut visit: impl FnMut(&'e Expression)) {
        match self {
            Expression::Constant(_)
            | Expression::Variable(_)
            | Expression::Column { .. }
            | Expression::Now
            | Expression::Unique
            | Expression::Next(_) => {}
            Expression::Not(e)
            | Expression::IsNull { operand: e, .. }
            | Expression::IsBool { operand: e, .. }
            | Expression::Negate { operand: e, .. }
            | Expression::Cast { operand: e, .. } => visit(e),
            Expression::And(list)
            | Expression::Or(list)
            | Expression::Coalesce(list)
            | Expression::Array(list)
            | Expression::OfSequence {
                arguments: list, ..
            }
            | Expression::Call {
                arguments: list, ..
            } => list.iter().for_each(visit),
            Expression::Compare { left, right, .. }
            | Expression::Distinct { left, right, .. }
            | Expression::Arithmetic { left, right, .. }
            | Expression::Concat(left, right)
            | Expression::NullIf(left, right)
            | Expression::Subscript(left, right)
            | Expression::Quantified {
                left, array: right, ..
            }
            | Expression::Like {
                operand: left,
                pattern: right,
                ..
            } => {
                visit(left);
                visit(right);
            }
            Expression::Case {
                branches,
                otherwise,
            } => {
                for (condition, result) in branches {
                    visit(condition);
                    visit(result);
                }
                visit(otherwise);
            }
            Expression::Switch {
                operand,
                branches,
                otherwise,
            } => {
                visit(operand);
                for (value, result) in branches {
                    visit(value);
                    visit(result);
                }
                visit(otherwise);
            }
            Expression::InList { operand, list, .. } => {
                visit(operand);
                list.iter().for_each(visit);
            }
        }
    }

    /// Calls `visit` with each direct operand, to change it.
    pub(crate) fn each_child_mut(&mut self, mut visit: impl FnMut(&mut Expression)) {
        match self {
            Expression::Constant(_)
            | Expression::Variable(_)
            | Expression::Column { .. }
            | Expression::Now
            | Expression::Unique
            | Expression::Next(_) => {}
            Expression::Not(e)
            | Expression::IsNull { operand: e, .. }
            | Expression::IsBool { operand: e, .. }
            | Expression::Negate { operand: e, .. }
            | Expression::Cast { operand: e, .. } => visit(e),
            Expression::And(list)
            | Expression::Or(list)
            | Expression::Coalesce(list)
            | Expression::Array(list)
            | Expression::OfSequence {
                arguments: list, ..
            }
            | Expression::Call {
                arguments: list, ..
            } => list.iter_mut().for_each(visit),
            Expression::Compare { left, right, .. }
            | Expression::Distinct { left, right, .. }
            | Expression::Arithmetic { left, right, .. }
            | Expression::Concat(left, right)
            | Expression::NullIf(left, right)
            | Expression::Subscript(left, right)
            | Expression::Quantified {
                left, array: right, ..
            }
            | Expression::Like {
                operand: left,
                pattern: right,
                ..
            } => {
                visit(left);
                visit(right);
            }
            Expression::Case {
                branches,
                otherwise,
            } => {
                for (condition, result) in branches {
                    visit(condition);
                    visit(result);
                }
                visit(otherwise);
            }
            Expression::Switch {
                operand,
                branches,
                otherwise,
            } => {
                visit(operand);
                for (value, result) in branches {
                    visit(value);
                    visit(result);
                }
                visit(otherwise);
            }
            Expression::InList { operand, list, .. } => {
                visit(operand);
                list.iter_mut().for_each(visit);
            }
        }
    }

    /// The results of a CASE of either form, ELSE last. Any other expression has none.
    pub(crate) fn results(&self) -> impl Iterator<Item = &Expression> {
        let (branches, otherwise) = match self {
            Expression::Case {
                branches,
                otherwise,
            }
            | Expression::Switch {
                branches,
                otherwise,
                ..
            } => (&branches[..], Some(&**otherwise)),
            _ => (&[][..], None),
        };
        branches.iter().map(|(_, result)| result).chain(otherwise)
    }

    /// Whether `test` holds for this expression or any part of it.
    pub(crate) fn any(&self, test: &mut impl FnMut(&Expression) -> bool) -> bool {
        if test(self) {
            return true;
        }
        let mut found = false;
        self.each_child(|child| found = found || child.any(test));
        found
    }

    /// Whether it has an opaque part.
    pub(crate) fn is_unknown(&self) -> bool {
        self.any(&mut |e| {
            let function = match e {
                Expression::Call { function, .. } => Some(function),
                _ => None,
            };
            matches!(function, Some(Function::Unknown(_)))
        })
    }

    /// The columns of this query's own sources (depth 0) in it: calls `visit` with source, column.
    pub(crate) fn each_column(&self, visit: &mut impl FnMut(usize, usize)) {
        if let Expression::Column {
            depth: 0,
            source,
            column,
        } = self
        {
            visit(*source, *column);
        }
        self.each_child(|child| child.each_column(visit));
    }

    /// The number of [`Expression::Unique`] in it.
    pub(crate) fn uniques(&self) -> usize {
        let mut count = usize::from(matches!(self, Expression::Unique));
        self.each_child(|child| count += child.uniques());
        count
    }

    /// Whether both are written alike. Constants that are equal may differ, and then their results: `1.0` and `1.00` as texts.
    pub(crate) fn is_identical(&self, other: &Expression) -> bool {
        // What `Debug` shows of a constant is all of it.
        self == other && format!("{self:?}") == format!("{other:?}")
    }

    /// Whether each evaluation may give another value.
    pub(crate) fn is_volatile(&self) -> bool {
        self.any(&mut |e| matches!(e, Expression::Unique) || e.uses_sequence())
    }

    /// Whether the expression itself, apart from its operands, draws from a sequence or reads or sets one.
    pub(crate) fn uses_sequence(&self) -> bool {
        matches!(self, Expression::Next(_) | Expression::OfSequence { .. })
    }

    /// Whether it is the transaction's time, as `timestamptz` or as `timestamp` in some time zone.
    pub(crate) fn is_now(&self) -> bool {
        match self {
            Expression::Now => true,
            Expression::Cast {
                operand,
                to: DataType::Timestamp,
                ..
            } => matches!(**operand, Expression::Now),
            Expression::Call {
                function: Function::LocalTime,
                arguments,
            } => matches!(&arguments[..], [Expression::Now, Expression::Constant(_)]),
            _ => false,
        }
    }

    /// Whether its value depends on the session's time zone.
    pub(crate) fn depends_on_zone(&self) -> bool {
        self.any(&mut Expression::reads_zone)
    }

    /// Whether the expression itself, apart from its operands, depends on the session's time zone.
    pub(crate) fn reads_zone(&self) -> bool {
        match self {
            Expression::Cast { from, to, .. } => cast::reads_zone(from, to),
            Expression::Call { function, .. } => function.reads_zone(),
            _ => false,
        }
    }

    /// Whether its value depends on its columns alone, as PostgreSQL has it: what depends on settings is not immutable,
    /// also where they have one value here.
    pub(crate) fn is_immutable(&self) -> bool {
        !self.any(&mut |e| match e {
            Expression::Now
            | Expression::Unique
            | Expression::Next(_)
            | Expression::OfSequence { .. } => true,
            Expression::Cast { from, to, .. } => e.reads_zone() || cast::reads_settings(from, to),
            Expression::Call { function, .. } => e.reads_zone() || function.reads_settings(),
            _ => false,
        })
    }

    /// Whether its value is always the same.
    pub(crate) fn is_constant(&self) -> bool {
        !self.any(&mut |e| {
            matches!(
                e,
                Expression::Variable(_)
                    | Expression::Column { .. }
                    | Expression::Now
                    | Expression::Unique
                    | Expression::Next(_)
                    | Expression::OfSequence { .. }
            ) || e.reads_zone()
        })
    }

    /// The expression with its constant parts evaluated, except parts that fail: they fail if they are evaluated.
    pub(crate) fn folded(self) -> Expression {
        if matches!(self, Expression::Constant(_)) || !self.is_constant() {
            return self;
        }
        match evaluate::evaluate_constant(&self) {
            Ok(value) => Expression::Constant(value),
            Err(_) => self,
        }
    }
}
