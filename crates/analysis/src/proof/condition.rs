//! CHECK conditions as formulas over the cells of a row.
//!
//! SQL's conditions are true, false or NULL; so each becomes two formulas: one for true, and one for false. A CHECK
//! is violated where it is false.
//!
//! Interpreted are: `and`, `or`, `not`, comparisons of sums of numbers, equality of texts, comparisons of dates and
//! times of one type, flags, IN, BETWEEN, IS NULL and its kin. Any other condition on columns alone is an opaque
//! test: it gives the same result for two rows that agree on its columns, and nothing else is known of it.

use std::collections::BTreeMap;

use anabranch_types::{ColumnIndex, DataType, Decimal, TableSchema};
use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value as Literal};

use super::NotProved;
use crate::assertion::{RowScope, columns_of, simple_column};
use crate::solve::{Formula, Linear, Problem, Rational, Relation};

/// The value of a column in one of the rows.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// A number, or a code for another value: equal values have equal codes.
    pub(super) value: Linear,
    /// Whether the cell is NULL; then the value means nothing.
    pub(super) null: Formula,
}

impl Cell {
    /// Both are NULL, or neither is and they are equal.
    pub(super) fn equals(&self, other: &Cell) -> Result<Formula, NotProved> {
        let values = Formula::equal(&self.value, &other.value)?;
        let both = Formula::all([self.null.clone(), other.null.clone()]);
        let neither = [&self.null, &other.null].map(|null| null.clone().negated());
        Ok(Formula::any([
            both,
            Formula::all(neither.into_iter().chain([values])),
        ]))
    }
}

/// The cells of a row that a question uses.
pub(super) type Cells = BTreeMap<ColumnIndex, Cell>;

/// How the solver represents values of a type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// Numbers; whole ones or fractions.
    Number { whole: bool },
    /// Texts: only whether they are equal.
    Text,
    /// False is 0 and true is 1.
    Flag,
    /// Points in time of one type, in their order.
    Time(DataType),
    /// Values that are only equal or not.
    Other,
}

/// Returns how the solver represents values of a type.
pub(super) fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Int2 | DataType::Int4 | DataType::Int8 => Kind::Number { whole: true },
        DataType::Numeric(_) => Kind::Number { whole: false },
        DataType::Text | DataType::Varchar(_) | DataType::Enum(_) => Kind::Text,
        DataType::Bool => Kind::Flag,
        DataType::Timestamp | DataType::TimestampTz | DataType::Date => {
            Kind::Time(data_type.clone())
        }
        _ => Kind::Other,
    }
}

/// Where a condition is true, and where it is false. Elsewhere it is NULL.
#[derive(Clone, Debug)]
pub(super) struct Truth {
    pub(super) holds: Formula,
    pub(super) fails: Formula,
}

impl Truth {
    fn known(truth: Formula) -> Truth {
        Truth {
            fails: truth.clone().negated(),
            holds: truth,
        }
    }

    fn negated(self) -> Truth {
        Truth {
            holds: self.fails,
            fails: self.holds,
        }
    }

    fn all(parts: Vec<Truth>) -> Truth {
        let (holds, fails): (Vec<Formula>, Vec<Formula>) = parts
            .into_iter()
            .map(|part| (part.holds, part.fails))
            .unzip();
        Truth {
            holds: Formula::all(holds),
            fails: Formula::any(fails),
        }
    }

    fn any(parts: Vec<Truth>) -> Truth {
        Truth::all(parts.into_iter().map(Truth::negated).collect()).negated()
    }

    fn equals(self, other: Truth) -> Truth {
        Truth::any(vec![
            Truth::all(vec![self.clone(), other.clone()]),
            Truth::all(vec![self.negated(), other.negated()]),
        ])
    }
}

/// A value that is computed from a row.
struct Scalar {
    kind: Kind,
    cell: Cell,
}

/// An opaque test, with each row that it was applied to.
struct Test {
    columns: Vec<ColumnIndex>,
    rows: Vec<(Cells, Truth)>,
}

/// Translates conditions on rows of one table.
pub(super) struct Reader<'a> {
    scope: RowScope<'a>,
    texts: BTreeMap<String, i128>,
    tests: BTreeMap<String, Test>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(table: &'a TableSchema) -> Reader<'a> {
        Reader {
            scope: RowScope { table },
            texts: BTreeMap::new(),
            tests: BTreeMap::new(),
        }
    }

    /// The number that represents a text.
    pub(super) fn text(&mut self, text: &str) -> Rational {
        let next = self.texts.len() as i128;
        Rational::whole(*self.texts.entry(text.to_owned()).or_insert(next))
    }

    /// The text that a number represents, or a text that no other number does.
    pub(super) fn text_of(&self, code: Rational) -> String {
        let of = |known: &i128| Rational::whole(*known) == code;
        let found = self.texts.iter().find(|(_, known)| of(known));
        match found {
            Some((text, _)) => text.clone(),
            None => {
                let mut text = format!("x{code}");
                while self.texts.contains_key(&text) {
                    text.insert(0, 'x');
                }
                text
            }
        }
    }

    /// The condition, applied to a row.
    pub(super) fn truth(
        &mut self,
        problem: &mut Problem,
        condition: &Expr,
        row: &Cells,
    ) -> Result<Truth, NotProved> {
        let found = match condition {
            Expr::Nested(inner) => return self.truth(problem, inner, row),
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } => return Ok(self.truth(problem, expr, row)?.negated()),
            Expr::BinaryOp { left, op, right } => match op {
                BinaryOperator::And | BinaryOperator::Or => {
                    let parts = vec![
                        self.truth(problem, left, row)?,
                        self.truth(problem, right, row)?,
                    ];
                    return Ok(match op {
                        BinaryOperator::And => Truth::all(parts),
                        _ => Truth::any(parts),
                    });
                }
                _ => self.comparison(problem, left, op, right, row)?,
            },
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => {
                let low = self.comparison(problem, expr, &BinaryOperator::GtEq, low, row)?;
                let high = self.comparison(problem, expr, &BinaryOperator::LtEq, high, row)?;
                match (low, high) {
                    (Some(low), Some(high)) => {
                        Some(turned_if(*negated, Truth::all(vec![low, high])))
                    }
                    _ => None,
                }
            }
            Expr::InList {
                expr,
                list,
                negated,
            } => {
                let mut parts = Some(Vec::new());
                for one in list {
                    let part = self.comparison(problem, expr, &BinaryOperator::Eq, one, row)?;
                    parts = parts.zip(part).map(|(mut parts, part)| {
                        parts.push(part);
                        parts
                    });
                }
                parts.map(|parts| turned_if(*negated, Truth::any(parts)))
            }
            Expr::IsNull(of) => self.is_null(problem, of, row)?,
            Expr::IsNotNull(of) => self.is_null(problem, of, row)?.map(Truth::negated),
            Expr::IsTrue(of) => Some(Truth::known(self.truth(problem, of, row)?.holds)),
            Expr::IsFalse(of) => Some(Truth::known(self.truth(problem, of, row)?.fails)),
            Expr::IsNotTrue(of) => {
                Some(Truth::known(self.truth(problem, of, row)?.holds).negated())
            }
            Expr::IsNotFalse(of) => {
                Some(Truth::known(self.truth(problem, of, row)?.fails).negated())
            }
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.flag(condition, row)?,
            Expr::Value(value) => match value.value {
                Literal::Boolean(truth) => Some(Truth::known(Formula::Constant(truth))),
                Literal::Null => Some(Truth {
                    holds: Formula::Constant(false),
                    fails: Formula::Constant(false),
                }),
                _ => None,
            },
            _ => None,
        };
        match found {
            Some(truth) => Ok(truth),
            None => self.test(problem, condition, row),
        }
    }

    fn comparison(
        &mut self,
        problem: &mut Problem,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        row: &Cells,
    ) -> Result<Option<Truth>, NotProved> {
        let is_equality = matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq);
        if is_equality && self.is_condition(left) && self.is_condition(right) {
            let left = self.truth(problem, left, row)?;
            let equal = left.equals(self.truth(problem, right, row)?);
            return Ok(Some(turned_if(*op == BinaryOperator::NotEq, equal)));
        }
        let (Some(left), Some(right)) = (self.scalar(left, row)?, self.scalar(right, row)?) else {
            return Ok(None);
        };
        let comparable = match (&left.kind, &right.kind) {
            (Kind::Number { .. }, Kind::Number { .. }) => true,
            (Kind::Text, Kind::Text) => is_equality,
            (Kind::Time(one), Kind::Time(other)) => one == other,
            _ => false,
        };
        if !comparable {
            return Ok(None);
        }
        let (less, more) = (&left.cell.value, &right.cell.value);
        let truth = match op {
            BinaryOperator::Eq => Formula::equal(less, more)?,
            BinaryOperator::NotEq => Formula::equal(less, more)?.negated(),
            BinaryOperator::Lt => Formula::compare(less, Relation::Below, more)?,
            BinaryOperator::LtEq => Formula::compare(less, Relation::AtMost, more)?,
            BinaryOperator::Gt => Formula::compare(more, Relation::Below, less)?,
            BinaryOperator::GtEq => Formula::compare(more, Relation::AtMost, less)?,
            _ => return Ok(None),
        };
        let known = [left.cell.null, right.cell.null].map(Formula::negated);
        let known = Formula::all(known);
        Ok(Some(Truth {
            holds: Formula::all([known.clone(), truth.clone()]),
            fails: Formula::all([known, truth.negated()]),
        }))
    }

    /// Whether an expression is surely a condition.
    fn is_condition(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Nested(inner) => self.is_condition(inner),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                let column = simple_column(&self.scope, expression);
                column.is_some_and(|column| self.kind(column) == Kind::Flag)
            }
            Expr::UnaryOp { op, .. } => *op == UnaryOperator::Not,
            Expr::BinaryOp { op, .. } => matches!(
                op,
                BinaryOperator::And
                    | BinaryOperator::Or
                    | BinaryOperator::Eq
                    | BinaryOperator::NotEq
                    | BinaryOperator::Lt
                    | BinaryOperator::LtEq
                    | BinaryOperator::Gt
                    | BinaryOperator::GtEq
            ),
            Expr::Value(value) => matches!(value.value, Literal::Boolean(_)),
            Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::Between { .. }
            | Expr::InList { .. } => true,
            _ => false,
        }
    }

    fn kind(&self, column: ColumnIndex) -> Kind {
        kind(&self.scope.table.columns[column.index()].data_type)
    }

    fn is_null(
        &mut self,
        problem: &mut Problem,
        of: &Expr,
        row: &Cells,
    ) -> Result<Option<Truth>, NotProved> {
        if let Expr::Identifier(_) | Expr::CompoundIdentifier(_) = of
            && let Some(column) = simple_column(&self.scope, of)
        {
            return Ok(Some(Truth::known(cell(row, column)?.null.clone())));
        }
        if self.is_condition(of) {
            let truth = self.truth(problem, of, row)?;
            let null = [truth.holds, truth.fails].map(Formula::negated);
            return Ok(Some(Truth::known(Formula::all(null))));
        }
        let scalar = self.scalar(of, row)?;
        Ok(scalar.map(|scalar| Truth::known(scalar.cell.null)))
    }

    /// A column that is a condition itself.
    fn flag(&mut self, expression: &Expr, row: &Cells) -> Result<Option<Truth>, NotProved> {
        let Some(column) = simple_column(&self.scope, expression) else {
            return Ok(None);
        };
        if self.kind(column) != Kind::Flag {
            return Ok(None);
        }
        let cell = cell(row, column)?;
        let set = |value| Formula::equal(&cell.value, &Linear::constant(value));
        let known = cell.null.clone().negated();
        Ok(Some(Truth {
            holds: Formula::all([known.clone(), set(Rational::ONE)?]),
            fails: Formula::all([known, set(Rational::ZERO)?]),
        }))
    }

    fn scalar(&mut self, expression: &Expr, row: &Cells) -> Result<Option<Scalar>, NotProved> {
        let constant = |kind, number| Scalar {
            kind,
            cell: Cell {
                value: Linear::constant(number),
                null: Formula::Constant(false),
            },
        };
        Ok(match expression {
            Expr::Nested(inner) => self.scalar(inner, row)?,
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                let Some(column) = simple_column(&self.scope, expression) else {
                    return Ok(None);
                };
                let kind = self.kind(column);
                let cell = cell(row, column)?.clone();
                (!matches!(kind, Kind::Flag | Kind::Other)).then_some(Scalar { kind, cell })
            }
            Expr::Value(value) => match &value.value {
                Literal::Number(text, _) => {
                    let decimal = Decimal::parse(text).ok();
                    let number = decimal.map(number).transpose()?;
                    number.map(|n| {
                        constant(
                            Kind::Number {
                                whole: n.is_whole(),
                            },
                            n,
                        )
                    })
                }
                Literal::SingleQuotedString(text) => {
                    let code = self.text(text);
                    Some(constant(Kind::Text, code))
                }
                _ => None,
            },
            Expr::UnaryOp {
                op: op @ (UnaryOperator::Minus | UnaryOperator::Plus),
                expr,
            } => {
                let inner = self.scalar(expr, row)?.filter(is_number);
                match inner {
                    Some(mut inner) if *op == UnaryOperator::Minus => {
                        inner.cell.value = inner.cell.value.times(Rational::whole(-1))?;
                        Some(inner)
                    }
                    inner => inner,
                }
            }
            Expr::BinaryOp { left, op, right } => {
                let left = self.scalar(left, row)?.filter(is_number);
                let right = self.scalar(right, row)?.filter(is_number);
                let (Some(left), Some(right)) = (left, right) else {
                    return Ok(None);
                };
                let (one, other) = (&left.cell.value, &right.cell.value);
                let value = match (op, one.as_number(), other.as_number()) {
                    (BinaryOperator::Plus, ..) => one.plus(other)?,
                    (BinaryOperator::Minus, ..) => one.minus(other)?,
                    (BinaryOperator::Multiply, Some(factor), _) => other.times(factor)?,
                    (BinaryOperator::Multiply, _, Some(factor)) => one.times(factor)?,
                    _ => return Ok(None),
                };
                let null = Formula::any([left.cell.null, right.cell.null]);
                Some(Scalar {
                    kind: Kind::Number { whole: false },
                    cell: Cell { value, null },
                })
            }
            _ => None,
        })
    }

    /// An opaque test.
    fn test(
        &mut self,
        problem: &mut Problem,
        condition: &Expr,
        row: &Cells,
    ) -> Result<Truth, NotProved> {
        let Some(columns) = columns_of(&self.scope, condition) else {
            return Err(NotProved::new(format!("{condition} is not analysed")));
        };
        for column in &columns {
            cell(row, *column)?;
            if self.kind(*column) == (Kind::Number { whole: false }) {
                // 1.0 and 1.00 are equal, but not in every respect.
                return Err(NotProved::new(format!(
                    "{condition} is opaque to the solver"
                )));
            }
        }
        let name = condition.to_string();
        let truth = Truth {
            holds: problem.flag(format!("{name} is true")),
            fails: problem.flag(format!("{name} is false")),
        };
        let both = Formula::all([truth.holds.clone(), truth.fails.clone()]);
        problem.assert(both.negated());
        let test = self.tests.entry(name).or_insert_with(|| Test {
            columns,
            rows: Vec::new(),
        });
        for (other, seen) in &test.rows {
            let mut same = Vec::new();
            for column in &test.columns {
                same.push(cell(row, *column)?.equals(cell(other, *column)?)?);
            }
            let agree = [
                truth.holds.clone().equals(seen.holds.clone()),
                truth.fails.clone().equals(seen.fails.clone()),
            ];
            problem.assert(Formula::all(same).implies(Formula::all(agree)));
        }
        test.rows.push((row.clone(), truth.clone()));
        Ok(truth)
    }
}

fn is_number(scalar: &Scalar) -> bool {
    matches!(scalar.kind, Kind::Number { .. })
}

fn turned_if(negated: bool, truth: Truth) -> Truth {
    if negated { truth.negated() } else { truth }
}

fn cell(row: &Cells, column: ColumnIndex) -> Result<&Cell, NotProved> {
    row.get(&column)
        .ok_or_else(|| NotProved::new("it names a column that was not expected"))
}

/// Converts a decimal number exactly.
pub(super) fn number(decimal: Decimal) -> Result<Rational, NotProved> {
    let mut denominator: i128 = 1;
    for _ in 0..decimal.scale() {
        denominator = denominator
            .checked_mul(10)
            .ok_or_else(|| NotProved::new("a number has too many digits"))?;
    }
    Ok(Rational::new(decimal.mantissa(), denominator)?)
}
