//! Expressions whose values are integers of 64 bits, compiled once more.
//!
//! Most of what a transaction computes is integers, and decimals that fit one: a `numeric(p, s)`
//! times 10^s. [`Integer`] knows where each operand lies and what it is, so a step of it is a few
//! instructions, and a value travels in a register. It is never the only way to evaluate an
//! expression: whatever is out of the ordinary (a NULL, an overflow, a value out of its type's
//! range, a decimal with more digits than expected, a value known only at commit) gives `None`,
//! and then [`Expression::evaluate`] says what the value is or which error there is. So nothing
//! here decides about an error, or which of two comes first.

use std::cmp::Ordering;

use anabranch_types::{DataType, NumericBounds, Row, StoredInt, TableSchema, Value};

use super::{Domain, Expression, Operator, Relation, frame::column_index};

/// Powers of ten that an `i64` holds.
const POWERS: [i64; 19] = {
    let mut powers = [1i64; 19];
    let mut power = 1;
    while power < 19 {
        powers[power] = powers[power - 1] * 10;
        power += 1;
    }
    powers
};

/// What an expression's operands lie in: a tuple of a query, or a row and arguments.
pub(crate) trait Cells {
    /// A parameter or variable.
    fn variable(&self, slot: usize) -> &Value;
    /// The row that a source of table rows has here.
    fn row(&self, source: usize) -> Option<&Row>;
    /// A column of a source that has values.
    fn cell(&self, source: usize, column: usize) -> Option<Cell<'_>>;
}

/// What a source that has values has in a column.
#[derive(Clone, Copy)]
pub(crate) enum Cell<'c> {
    Int(i64),
    Value(&'c Value),
}

/// The one row that a row program or a CHECK looks at, and arguments.
#[derive(Clone, Copy)]
pub(crate) struct RowCells<'r> {
    pub(crate) row: &'r Row,
    pub(crate) arguments: &'r [Value],
}

impl Cells for RowCells<'_> {
    #[inline]
    fn variable(&self, slot: usize) -> &Value {
        &self.arguments[slot]
    }

    #[inline]
    fn row(&self, _: usize) -> Option<&Row> {
        Some(self.row)
    }

    #[inline]
    fn cell(&self, _: usize, _: usize) -> Option<Cell<'_>> {
        None
    }
}

/// An expression with an integer's value: a number times 10^scale, for the scale that it was
/// compiled for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Integer {
    Constant(i64),
    /// A variable, as an integer or a decimal with at most `scale` digits after the point.
    Variable {
        slot: usize,
        scale: u16,
    },
    /// A column of a table.
    Stored {
        source: usize,
        at: StoredInt,
    },
    /// A column of another source.
    Cell {
        source: usize,
        column: usize,
        scale: u16,
    },
    Add(Box<(Integer, Integer)>),
    Subtract(Box<(Integer, Integer)>),
    Multiply(Box<(Integer, Integer)>),
    /// The value times a constant.
    Times(Box<Integer>, i64),
    /// The value, if it is neither below the one nor above the other.
    Within(Box<Integer>, i64, i64),
    /// CASE: the first whose condition is true, or the second.
    Choice(Box<(Truth, Integer, Integer)>),
}

/// A condition on integers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Truth {
    Compare(Relation, Box<(Integer, Integer)>),
    And(Vec<Truth>),
    Or(Vec<Truth>),
    Not(Box<Truth>),
    /// IN a list.
    OneOf(Integer, Vec<Integer>),
}

impl Integer {
    /// The value; `None` where it has to be found out in another way.
    #[inline]
    pub(crate) fn value<C: Cells>(&self, cells: &C) -> Option<i64> {
        match self {
            Integer::Constant(int) => Some(*int),
            Integer::Variable { slot, scale } => scaled(cells.variable(*slot), *scale),
            Integer::Stored { source, at } => cells.row(*source)?.stored(*at),
            Integer::Cell {
                source,
                column,
                scale,
            } => match cells.cell(*source, *column)? {
                Cell::Int(int) if *scale == 0 => Some(int),
                Cell::Int(int) => raised(int, *scale),
                Cell::Value(value) => scaled(value, *scale),
            },
            _ => self.computed(cells),
        }
    }

    fn computed<C: Cells>(&self, cells: &C) -> Option<i64> {
        match self {
            Integer::Add(pair) => pair.0.value(cells)?.checked_add(pair.1.value(cells)?),
            Integer::Subtract(pair) => pair.0.value(cells)?.checked_sub(pair.1.value(cells)?),
            Integer::Multiply(pair) => pair.0.value(cells)?.checked_mul(pair.1.value(cells)?),
            Integer::Times(operand, factor) => operand.value(cells)?.checked_mul(*factor),
            Integer::Within(operand, least, greatest) => operand
                .value(cells)
                .filter(|int| least <= int && int <= greatest),
            Integer::Choice(parts) => {
                let (condition, result, otherwise) = &**parts;
                if condition.holds(cells)? {
                    result.value(cells)
                } else {
                    otherwise.value(cells)
                }
            }
            leaf => leaf.value(cells),
        }
    }
}

impl Truth {
    /// Whether it is true; `None` where that has to be found out in another way.
    pub(crate) fn holds<C: Cells>(&self, cells: &C) -> Option<bool> {
        match self {
            Truth::Compare(relation, pair) => {
                let (left, right) = (pair.0.value(cells)?, pair.1.value(cells)?);
                Some(relation.holds(left.cmp(&right)))
            }
            Truth::And(list) => {
                for part in list {
                    if !part.holds(cells)? {
                        return Some(false);
                    }
                }
                Some(true)
            }
            Truth::Or(list) => {
                for part in list {
                    if part.holds(cells)? {
                        return Some(true);
                    }
                }
                Some(false)
            }
            Truth::Not(part) => part.holds(cells).map(|truth| !truth),
            Truth::OneOf(operand, list) => {
                let operand = operand.value(cells)?;
                for element in list {
                    if element.value(cells)?.cmp(&operand) == Ordering::Equal {
                        return Some(true);
                    }
                }
                Some(false)
            }
        }
    }
}

/// A number times 10^scale.
#[inline]
fn scaled(value: &Value, scale: u16) -> Option<i64> {
    match value {
        Value::Int(int) if scale == 0 => Some(*int),
        Value::Int(int) => raised(*int, scale),
        Value::Numeric(decimal) => decimal.to_scaled(scale),
        _ => None,
    }
}

/// An integer times 10^scale.
fn raised(int: i64, scale: u16) -> Option<i64> {
    int.checked_mul(*POWERS.get(usize::from(scale))?)
}

/// What is known of a query's sources when an expression is compiled.
#[derive(Debug, Default)]
pub(crate) struct Shapes<'s> {
    /// By source: the table whose rows it has, if it has a table's.
    pub(crate) tables: Vec<Option<&'s TableSchema>>,
}

impl Shapes<'_> {
    /// The one source of a row program or a CHECK.
    pub(crate) fn row(schema: &TableSchema) -> Shapes<'_> {
        Shapes {
            tables: vec![None, Some(schema)],
        }
    }

    fn table(&self, source: usize) -> Option<&TableSchema> {
        self.tables.get(source).copied().flatten()
    }

    /// An expression whose values go into a column of this type, as the column stores them.
    pub(crate) fn stored(&self, expression: &Expression, to: &DataType) -> Option<Integer> {
        let scale = if to.is_integer() {
            0
        } else {
            to.scaled_width()?.1
        };
        // A variable by itself may be of any kind.
        self.compile(expression, scale)
    }

    /// An expression's scale, where it is a number whose scale is the same for all its values; 0
    /// for integers.
    pub(crate) fn scale(&self, expression: &Expression) -> Option<u16> {
        match expression {
            Expression::Constant(Value::Int(_)) => Some(0),
            Expression::Constant(Value::Numeric(decimal)) => Some(decimal.scale()),
            Expression::Column {
                depth: 0,
                source,
                column,
            } => {
                let described = &self.table(*source)?.columns[*column];
                match described.data_type.scaled_width() {
                    Some((_, scale)) => Some(scale),
                    None => described.data_type.is_integer().then_some(0),
                }
            }
            Expression::Arithmetic {
                operator,
                domain,
                left,
                right,
            } => match (domain, operator) {
                (Domain::Int2 | Domain::Int4 | Domain::Int8, _) => Some(0),
                (Domain::Numeric, Operator::Add | Operator::Subtract) => {
                    Some(self.scale(left)?.max(self.scale(right)?))
                }
                (Domain::Numeric, Operator::Multiply) => {
                    self.scale(left)?.checked_add(self.scale(right)?)
                }
                _ => None,
            },
            Expression::Cast {
                operand, from, to, ..
            } => match to {
                _ if to.is_integer() => Some(0),
                DataType::Numeric(Some(bounds)) => Some(bounds.scale),
                DataType::Numeric(None) if from.is_integer() => Some(0),
                DataType::Numeric(None) => self.scale(operand),
                _ => None,
            },
            Expression::Negate { operand, .. } => self.scale(operand),
            Expression::Case {
                branches,
                otherwise,
            }
            | Expression::Switch {
                branches,
                otherwise,
                ..
            } => {
                let scale = self.scale(otherwise)?;
                let same =
                    |(_, result): &(Expression, Expression)| self.scale(result) == Some(scale);
                branches.iter().all(same).then_some(scale)
            }
            _ => None,
        }
    }

    /// An expression, its values times 10^scale; `None` if it is not among those that this module
    /// knows. An expression that is not a number gives one that never has a value, or none.
    pub(crate) fn compile(&self, expression: &Expression, scale: u16) -> Option<Integer> {
        let boxed = |left, right| Box::new((left, right));
        Some(match expression {
            Expression::Constant(value) => Integer::Constant(scaled(value, scale)?),
            Expression::Variable(slot) => Integer::Variable { slot: *slot, scale },
            Expression::Column {
                depth: 0,
                source,
                column,
            } => match self.table(*source) {
                Some(schema) => {
                    let at = schema.layout.stored_int(column_index(*column))?;
                    let own = self.scale(expression)?;
                    let stored = Integer::Stored {
                        source: *source,
                        at,
                    };
                    times(stored, scale.checked_sub(own)?)?
                }
                None => Integer::Cell {
                    source: *source,
                    column: *column,
                    scale,
                },
            },
            Expression::Arithmetic {
                operator,
                domain,
                left,
                right,
            } => {
                let range = int_range(*domain);
                // Integers are computed as such: their range is that of the result.
                let own = if range.is_some() { 0 } else { scale };
                let result = match operator {
                    Operator::Add => {
                        Integer::Add(boxed(self.compile(left, own)?, self.compile(right, own)?))
                    }
                    Operator::Subtract => {
                        let (left, right) = (self.compile(left, own)?, self.compile(right, own)?);
                        Integer::Subtract(boxed(left, right))
                    }
                    Operator::Multiply => {
                        let of_left = match (self.scale(left), self.scale(right)) {
                            _ if own == 0 => 0,
                            (Some(of_left), _) => of_left,
                            (None, Some(of_right)) => own.checked_sub(of_right)?,
                            (None, None) => return None,
                        };
                        let left = self.compile(left, of_left)?;
                        let right = self.compile(right, own.checked_sub(of_left)?)?;
                        Integer::Multiply(boxed(left, right))
                    }
                    _ => return None,
                };
                match (domain, range) {
                    (_, Some((least, greatest))) => {
                        times(Integer::Within(Box::new(result), least, greatest), scale)?
                    }
                    (Domain::Numeric, None) => result,
                    _ => return None,
                }
            }
            Expression::Negate { domain, operand } => {
                let range = int_range(*domain);
                let own = if range.is_some() { 0 } else { scale };
                let zero = Integer::Constant(0);
                let result = Integer::Subtract(boxed(zero, self.compile(operand, own)?));
                match (domain, range) {
                    (_, Some((least, greatest))) => {
                        times(Integer::Within(Box::new(result), least, greatest), scale)?
                    }
                    (Domain::Numeric, None) => result,
                    _ => return None,
                }
            }
            Expression::Cast {
                operand, from, to, ..
            } => self.cast(operand, from, to, scale)?,
            Expression::Case {
                branches,
                otherwise,
            } => {
                let mut result = self.compile(otherwise, scale)?;
                for (condition, then) in branches.iter().rev() {
                    let parts = (self.truth(condition)?, self.compile(then, scale)?, result);
                    result = Integer::Choice(Box::new(parts));
                }
                result
            }
            Expression::Switch {
                operand,
                branches,
                otherwise,
            } => {
                let mut result = self.compile(otherwise, scale)?;
                for (value, then) in branches.iter().rev() {
                    let condition = self.comparison(Relation::Equal, operand, value)?;
                    let parts = (condition, self.compile(then, scale)?, result);
                    result = Integer::Choice(Box::new(parts));
                }
                result
            }
            _ => return None,
        })
    }

    fn comparison(
        &self,
        relation: Relation,
        left: &Expression,
        right: &Expression,
    ) -> Option<Truth> {
        let scale = match (self.scale(left), self.scale(right)) {
            (Some(left), Some(right)) => left.max(right),
            (known, None) | (None, known) => known?,
        };
        let pair = (self.compile(left, scale)?, self.compile(right, scale)?);
        Some(Truth::Compare(relation, Box::new(pair)))
    }

    fn cast(
        &self,
        operand: &Expression,
        from: &DataType,
        to: &DataType,
        scale: u16,
    ) -> Option<Integer> {
        let number = |t: &DataType| t.is_integer() || matches!(t, DataType::Numeric(_));
        if !number(from) {
            return None;
        }
        match to {
            DataType::Int2 | DataType::Int4 | DataType::Int8 if from.is_integer() => {
                let (least, greatest) = int_range(Domain::of(to)?)?;
                let operand = Box::new(self.compile(operand, 0)?);
                times(Integer::Within(operand, least, greatest), scale)
            }
            DataType::Numeric(None) => self.compile(operand, scale),
            DataType::Numeric(Some(NumericBounds {
                precision,
                scale: own,
            })) if *precision <= 18 => {
                // With more digits than the type has there is no such integer, and then it is
                // rounded elsewhere.
                let operand = Box::new(self.compile(operand, *own)?);
                let greatest = POWERS[usize::from(*precision)] - 1;
                times(
                    Integer::Within(operand, -greatest, greatest),
                    scale.checked_sub(*own)?,
                )
            }
            _ => None,
        }
    }

    /// A condition on integers; `None` for any other.
    pub(crate) fn truth(&self, expression: &Expression) -> Option<Truth> {
        let list = |list: &[Expression]| -> Option<Vec<Truth>> {
            list.iter().map(|part| self.truth(part)).collect()
        };
        Some(match expression {
            Expression::And(parts) => Truth::And(list(parts)?),
            Expression::Or(parts) => Truth::Or(list(parts)?),
            Expression::Not(part) => Truth::Not(Box::new(self.truth(part)?)),
            Expression::Compare {
                relation,
                left,
                right,
            } => self.comparison(*relation, left, right)?,
            Expression::InList {
                operand,
                list,
                negated: false,
            } => {
                let scale = self.scale(operand)?;
                let list = list.iter().map(|element| self.compile(element, scale));
                Truth::OneOf(self.compile(operand, scale)?, list.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

/// The value times a power of ten.
fn times(value: Integer, power: u16) -> Option<Integer> {
    Some(match power {
        0 => value,
        power => Integer::Times(Box::new(value), *POWERS.get(usize::from(power))?),
    })
}

/// The least and the greatest integer of a domain of integers.
fn int_range(domain: Domain) -> Option<(i64, i64)> {
    match domain {
        Domain::Int2 => Some((i64::from(i16::MIN), i64::from(i16::MAX))),
        Domain::Int4 => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
        Domain::Int8 => Some((i64::MIN, i64::MAX)),
        _ => None,
    }
}
