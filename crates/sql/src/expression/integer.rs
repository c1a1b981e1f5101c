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

#[cfg(test)]
mod tests {
    //! The twin is [`Expression::evaluate`]: whenever there is an integer, it must be the value.

    use anabranch_types::{ColumnSchema, Decimal, RowLayout, TableId};

    use super::*;
    use crate::expression::{Frame, Source, Surroundings};

    /// splitmix64: a seed gives the same numbers everywhere.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % limit
        }

        fn int(&mut self) -> i64 {
            let edges = [0, 1, -1, 9, 32_767, -32_768, 2_147_483_647, -2_147_483_648];
            match self.below(3) {
                0 => edges[self.below(8) as usize],
                _ => self.below(200) as i64 - 100,
            }
        }

        fn numeric(&mut self) -> Value {
            let (int, scale) = (self.int(), self.below(4) as u16);
            Value::Numeric(Decimal::from_scaled(int, scale))
        }
    }

    fn numeric(precision: u16, scale: u16) -> DataType {
        DataType::Numeric(Some(NumericBounds { precision, scale }))
    }

    /// Columns 0 and 1 are integers, the second of which may be NULL, 2 and 3 decimals.
    fn schema() -> TableSchema {
        let types = [
            (DataType::Int4, false),
            (DataType::Int4, true),
            (numeric(12, 2), false),
            (numeric(16, 3), true),
        ];
        let columns = types.into_iter().map(|(data_type, nullable)| ColumnSchema {
            name: String::new(),
            data_type,
            nullable,
        });
        let columns: Vec<ColumnSchema> = columns.collect();
        TableSchema {
            id: TableId(0),
            name: String::new(),
            layout: RowLayout::new(columns.iter().map(|c| (&c.data_type, c.nullable))),
            columns,
            primary_key: Vec::new(),
            indexes: Vec::new(),
        }
    }

    fn pair(operator: Operator, domain: Domain, left: Expression, right: Expression) -> Expression {
        Expression::Arithmetic {
            operator,
            domain,
            left: Box::new(left),
            right: Box::new(right),
        }
    }

    fn operator(chance: &mut Chance) -> Operator {
        [
            Operator::Add,
            Operator::Subtract,
            Operator::Multiply,
            Operator::Divide,
        ][chance.below(4).min(3 * chance.below(2) + 2) as usize]
    }

    /// An expression of type integer, or of type numeric.
    fn expression(chance: &mut Chance, is_numeric: bool, depth: u64) -> Expression {
        let source = 1;
        if depth == 0 || chance.below(4) == 0 {
            let column = chance.below(2) as usize + if is_numeric { 2 } else { 0 };
            return match chance.below(3) {
                0 if is_numeric => Expression::Constant(chance.numeric()),
                0 => Expression::Constant(Value::Int(chance.int())),
                1 => {
                    Expression::Variable(chance.below(2) as usize + if is_numeric { 2 } else { 0 })
                }
                _ => Expression::Column {
                    depth: 0,
                    source,
                    column,
                },
            };
        }
        let depth = depth - 1;
        match chance.below(5) {
            0 => Expression::Case {
                branches: vec![(
                    condition(chance, depth),
                    expression(chance, is_numeric, depth),
                )],
                otherwise: Box::new(expression(chance, is_numeric, depth)),
            },
            1 if is_numeric => {
                let from_int = chance.below(2) == 0;
                let (precision, scale) = (4 + chance.below(12) as u16, chance.below(4) as u16);
                let from = match from_int {
                    true => DataType::Int4,
                    false => DataType::Numeric(None),
                };
                Expression::Cast {
                    operand: Box::new(expression(chance, !from_int, depth)),
                    from,
                    to: match chance.below(3) {
                        0 => DataType::Numeric(None),
                        _ => numeric(precision, scale),
                    },
                    explicit: false,
                }
            }
            1 => Expression::Cast {
                operand: Box::new(expression(chance, false, depth)),
                from: DataType::Int4,
                to: [DataType::Int2, DataType::Int8][chance.below(2) as usize].clone(),
                explicit: false,
            },
            2 => Expression::Negate {
                domain: if is_numeric {
                    Domain::Numeric
                } else {
                    Domain::Int4
                },
                operand: Box::new(expression(chance, is_numeric, depth)),
            },
            _ => {
                let domain = match chance.below(3) {
                    _ if is_numeric => Domain::Numeric,
                    0 => Domain::Int8,
                    _ => Domain::Int4,
                };
                let (left, right) = (
                    expression(chance, is_numeric, depth),
                    expression(chance, is_numeric, depth),
                );
                pair(operator(chance), domain, left, right)
            }
        }
    }

    fn condition(chance: &mut Chance, depth: u64) -> Expression {
        let is_numeric = chance.below(2) == 0;
        let relations = [Relation::Equal, Relation::Less, Relation::GreaterOrEqual];
        let compare = Expression::Compare {
            relation: relations[chance.below(3) as usize],
            left: Box::new(expression(chance, is_numeric, depth)),
            right: Box::new(expression(chance, is_numeric, depth)),
        };
        if depth == 0 {
            return compare;
        }
        match chance.below(5) {
            0 => Expression::And(vec![compare, condition(chance, depth - 1)]),
            1 => Expression::Or(vec![compare, condition(chance, depth - 1)]),
            2 => Expression::Not(Box::new(compare)),
            3 => Expression::InList {
                operand: Box::new(expression(chance, is_numeric, depth - 1)),
                list: vec![
                    expression(chance, is_numeric, 0),
                    expression(chance, is_numeric, 0),
                ],
                negated: false,
            },
            _ => compare,
        }
    }

    #[test]
    fn an_integer_is_what_the_expression_evaluates_to() {
        let schema = schema();
        let shapes = Shapes::row(&schema);
        let surroundings = Surroundings::default();
        let mut chance = Chance(7);
        let (mut values, mut truths) = (0, 0);
        for round in 0..60_000 {
            let column = |chance: &mut Chance, nullable: bool, scale: Option<u16>| match scale {
                _ if nullable && chance.below(4) == 0 => Value::Null,
                None => Value::Int(chance.int()),
                Some(scale) => Value::Numeric(Decimal::from_scaled(chance.int(), scale)),
            };
            let row = [
                column(&mut chance, false, None),
                column(&mut chance, true, None),
                column(&mut chance, false, Some(2)),
                column(&mut chance, true, Some(3)),
            ];
            let row = schema.layout.encode(&row).expect("it is short");
            let null = chance.below(8) == 0;
            let arguments = [
                Value::Int(chance.int()),
                if null {
                    Value::Null
                } else {
                    Value::Int(chance.int())
                },
                chance.numeric(),
                chance.numeric(),
            ];
            let layout = &schema.layout;
            let sources = [Source::Empty, Source::Row { layout, row: &row }];
            let frame = Frame::of_rows(&arguments, &sources, &surroundings);
            let cells = RowCells {
                row: &row,
                arguments: &arguments,
            };
            let is_numeric = round % 2 == 0;
            let of = expression(&mut chance, is_numeric, 3);
            let scale = if is_numeric {
                chance.below(5) as u16
            } else {
                0
            };
            let fast = shapes.compile(&of, scale).and_then(|e| e.value(&cells));
            if let Some(int) = fast {
                values += 1;
                let expected = match of.evaluate(&frame) {
                    Ok(Value::Int(int)) => Some(int),
                    Ok(Value::Numeric(decimal)) => {
                        if let Some(own) = shapes.scale(&of) {
                            assert_eq!(decimal.scale(), own, "round {round}: {of:?}");
                        }
                        decimal.to_scaled(scale)
                    }
                    other => panic!("round {round}: {of:?} is {other:?}, not {int}"),
                };
                assert_eq!(
                    Some(int),
                    expected,
                    "round {round}: {of:?} at scale {scale}"
                );
            }
            let of = condition(&mut chance, 2);
            if let Some(truth) = shapes.truth(&of).and_then(|e| e.holds(&cells)) {
                truths += 1;
                let expected = of.test(&frame).expect("it does not fail");
                assert_eq!(Some(truth), expected, "round {round}: {of:?}");
            }
        }
        assert!(values > 10_000 && truths > 10_000, "{values}, {truths}");
    }
}
