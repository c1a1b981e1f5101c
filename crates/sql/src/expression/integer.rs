//! Integer expressions, compiled a second time for 64-bit registers.
//!
//! Most of what a transaction computes is integers, and decimals that fit one: a `numeric(p, s)` times 10^s.
//! [`Integer`] has the position and kind of each operand, and is computed in registers ([`super::registers`]), for one
//! row or for sixteen at once. It is never the only way to evaluate an expression. Every exceptional case (a NULL, an
//! overflow, a value out of its type's range, a decimal with more digits than expected, a pending value) gives `None`,
//! and then [`Expression::evaluate`] gives the value or the error. So errors, and their order, are not decided here.

use anabranch_types::{DataType, NumericBounds, TableSchema, Value};

use super::{
    Domain, Expression, Operator, Relation,
    frame::column_index,
    registers::{
        Cells, Code, Column, LANES, Lanes, Operand, Operation, POWERS, Register, Registers, scaled,
    },
};

/// An expression with an integer's value: a number times 10^scale, for the scale that it was
/// compiled for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Integer(Code);

impl Integer {
    /// The value; `None` if it takes the full evaluation.
    #[inline]
    pub(crate) fn value<C: Cells>(&self, cells: &C) -> Option<i64> {
        self.0.value(cells)
    }

    /// The values for some rows; `None` if one of them takes the full evaluation.
    #[inline]
    pub(crate) fn column<L: Lanes>(&self, lanes: &L, column: &mut Column) -> Option<()> {
        self.0.column(lanes, column)
    }
}

/// A condition on integers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Truth(Code);

impl Truth {
    /// Whether it is true; `None` if it takes the full evaluation.
    #[inline]
    pub(crate) fn holds<C: Cells>(&self, cells: &C) -> Option<bool> {
        self.0.value(cells).map(|truth| truth == 1)
    }

    /// Whether it is true of all of some rows; `None` if it takes the full evaluation.
    #[inline]
    pub(crate) fn holds_of_all<L: Lanes>(&self, lanes: &L) -> Option<bool> {
        let mut column = [0; LANES];
        self.0.column(lanes, &mut column)?;
        Some(column.iter().all(|truth| *truth == 1))
    }
}

/// Several integers for columns of one row, computed together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Integers(Code);

impl Integers {
    /// Puts each into its register; `None` if they take the full evaluation.
    #[inline]
    pub(crate) fn values<C: Cells>(&self, cells: &C, registers: &mut Registers) -> Option<()> {
        self.0.run(cells, registers)
    }
}

/// The shapes of a query's sources, to compile an expression.
#[derive(Debug, Default)]
pub(crate) struct Shapes<'s> {
    /// The table of each source, if it is one.
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

    /// Compiles an expression, with its values as a column of this type stores them.
    pub(crate) fn stored(&self, expression: &Expression, to: &DataType) -> Option<Integer> {
        let mut code = Code::default();
        let register = self.column(expression, to, &mut code)?;
        Some(Integer(code.ending_with(register)))
    }

    /// As [`Shapes::stored`], beside others: the register that it will be in.
    pub(crate) fn stored_among(
        &self,
        others: &mut Integers,
        expression: &Expression,
        to: &DataType,
    ) -> Option<Register> {
        self.column(expression, to, &mut others.0)
    }

    fn column(&self, expression: &Expression, to: &DataType, code: &mut Code) -> Option<Register> {
        let scale = if to.is_integer() {
            0
        } else {
            to.scaled_width()?.1
        };
        let before = code.len();
        // A variable by itself may be of any kind.
        let register = self.register(expression, scale, code)?;
        // The range of the column is checked when the integer is stored.
        let unbound = match int_range(Domain::of(to)) {
            // Its own last operation: nothing else needs it.
            Some(bounds) if usize::from(register) >= before => code.unbound(bounds),
            _ => None,
        };
        Some(unbound.unwrap_or(register))
    }

    /// Compiles an expression that certainly has an integer type, and no other number's; `None` for a column or a
    /// variable by itself, which is as fast without.
    pub(crate) fn typed(&self, expression: &Expression) -> Option<Integer> {
        let is_integer = computes_integer(expression);
        is_integer.then(|| self.compile(expression, 0)).flatten()
    }

    /// An expression's scale, if it is a number with the same scale for all its values; 0 for integers.
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
            Expression::Case { .. } | Expression::Switch { .. } => {
                let mut scales = expression.results().map(|result| self.scale(result));
                let scale = scales.next()??;
                scales.all(|other| other == Some(scale)).then_some(scale)
            }
            _ => None,
        }
    }

    /// Compiles an expression, its values times 10^scale; `None` if this module does not support it. For an expression
    /// that is not a number, the result never has a value, or is `None`.
    pub(crate) fn compile(&self, expression: &Expression, scale: u16) -> Option<Integer> {
        let mut code = Code::default();
        let register = self.register(expression, scale, &mut code)?;
        Some(Integer(code.ending_with(register)))
    }

    /// The register that an expression's value will be in.
    fn register(&self, expression: &Expression, scale: u16, code: &mut Code) -> Option<Register> {
        match expression {
            Expression::Constant(value) => {
                code.push(Operation::Load(Operand::Constant(scaled(value, scale)?)))
            }
            Expression::Variable(slot) => {
                let slot = *slot;
                code.push(Operation::Load(Operand::Variable { slot, scale }))
            }
            Expression::Column {
                depth: 0,
                source,
                column,
            } => {
                let (source, column) = (*source, *column);
                let Some(schema) = self.table(source) else {
                    let cell = Operand::Cell {
                        source,
                        column,
                        scale,
                    };
                    return code.push(Operation::Load(cell));
                };
                let at = schema.layout.stored_int(column_index(column))?;
                let own = self.scale(expression)?;
                let stored = code.push(Operation::Load(Operand::Stored { source, at }))?;
                times(stored, scale.checked_sub(own)?, code)
            }
            Expression::Arithmetic {
                operator,
                domain,
                left,
                right,
            } => {
                // Integers are computed as such: their range is that of the result.
                let own = own_scale(*domain, scale);
                let of_left = match operator {
                    Operator::Multiply if own > 0 => match (self.scale(left), self.scale(right)) {
                        (Some(of_left), _) => of_left,
                        (None, Some(of_right)) => own.checked_sub(of_right)?,
                        (None, None) => return None,
                    },
                    _ => own,
                };
                let of_right = match operator {
                    Operator::Multiply => own.checked_sub(of_left)?,
                    _ => own,
                };
                let left = self.register(left, of_left, code)?;
                let right = self.register(right, of_right, code)?;
                let result = code.push(match operator {
                    Operator::Add => Operation::Add(left, right),
                    Operator::Subtract => Operation::Subtract(left, right),
                    Operator::Multiply => Operation::Multiply(left, right),
                    _ => return None,
                })?;
                bounded(result, *domain, scale, code)
            }
            Expression::Negate { domain, operand } => {
                let zero = code.push(Operation::Load(Operand::Constant(0)))?;
                let operand = self.register(operand, own_scale(*domain, scale), code)?;
                let result = code.push(Operation::Subtract(zero, operand))?;
                bounded(result, *domain, scale, code)
            }
            Expression::Cast {
                operand, from, to, ..
            } => self.cast(operand, from, to, scale, code),
            Expression::Case {
                branches,
                otherwise,
            } => {
                let mut result = self.register(otherwise, scale, code)?;
                for (condition, then) in branches.iter().rev() {
                    let condition = self.condition(condition, code)?;
                    let then = self.register(then, scale, code)?;
                    result = code.push(Operation::Select(condition, then, result))?;
                }
                Some(result)
            }
            Expression::Switch {
                operand,
                branches,
                otherwise,
            } => {
                let mut result = self.register(otherwise, scale, code)?;
                for (value, then) in branches.iter().rev() {
                    let condition = self.comparison(Relation::Equal, operand, value, code)?;
                    let then = self.register(then, scale, code)?;
                    result = code.push(Operation::Select(condition, then, result))?;
                }
                Some(result)
            }
            _ => None,
        }
    }

    fn comparison(
        &self,
        relation: Relation,
        left: &Expression,
        right: &Expression,
        code: &mut Code,
    ) -> Option<Register> {
        let scale = match (self.scale(left), self.scale(right)) {
            (Some(left), Some(right)) => left.max(right),
            // If neither has a scale, both are integers, or one has no value here.
            (known, None) | (None, known) => known.unwrap_or(0),
        };
        let left = self.register(left, scale, code)?;
        let right = self.register(right, scale, code)?;
        code.push(Operation::Test(relation, left, right))
    }

    fn cast(
        &self,
        operand: &Expression,
        from: &DataType,
        to: &DataType,
        scale: u16,
        code: &mut Code,
    ) -> Option<Register> {
        let number = |t: &DataType| t.is_integer() || matches!(t, DataType::Numeric(_));
        if !number(from) {
            return None;
        }
        match to {
            DataType::Int2 | DataType::Int4 | DataType::Int8 if from.is_integer() => {
                let operand = self.register(operand, 0, code)?;
                bounded(operand, Domain::of(to)?, scale, code)
            }
            DataType::Numeric(None) => self.register(operand, scale, code),
            DataType::Numeric(Some(NumericBounds {
                precision,
                scale: own,
            })) if *precision <= 18 => {
                // With more digits than the type has there is no such integer, and then it is
                // rounded elsewhere.
                let greatest = POWERS[usize::from(*precision)] - 1;
                let operand = self.register(operand, *own, code)?;
                let within = code.push(Operation::Within(operand, -greatest, greatest))?;
                times(within, scale.checked_sub(*own)?, code)
            }
            _ => None,
        }
    }

    /// A condition on integers; `None` for any other.
    pub(crate) fn truth(&self, expression: &Expression) -> Option<Truth> {
        let mut code = Code::default();
        let register = self.condition(expression, &mut code)?;
        Some(Truth(code.ending_with(register)))
    }

    /// All of the conditions, joined two by two.
    fn joined(
        &self,
        parts: &[Expression],
        join: fn(Register, Register) -> Operation,
        code: &mut Code,
    ) -> Option<Register> {
        let (first, rest) = parts.split_first()?;
        let mut joined = self.condition(first, code)?;
        for part in rest {
            let part = self.condition(part, code)?;
            joined = code.push(join(joined, part))?;
        }
        Some(joined)
    }

    fn condition(&self, expression: &Expression, code: &mut Code) -> Option<Register> {
        match expression {
            Expression::And(parts) => self.joined(parts, Operation::And, code),
            Expression::Or(parts) => self.joined(parts, Operation::Or, code),
            Expression::Not(part) => {
                let part = self.condition(part, code)?;
                code.push(Operation::Not(part))
            }
            Expression::Compare {
                relation,
                left,
                right,
            } => self.comparison(*relation, left, right, code),
            Expression::InList {
                operand,
                list,
                negated: false,
            } => {
                let scale = self.scale(operand)?;
                let operand = self.register(operand, scale, code)?;
                let mut any = None;
                for element in list {
                    let element = self.register(element, scale, code)?;
                    let equal = code.push(Operation::Test(Relation::Equal, operand, element))?;
                    any = Some(match any {
                        Some(before) => code.push(Operation::Or(before, equal))?,
                        None => equal,
                    });
                }
                any
            }
            _ => None,
        }
    }
}

/// The scale at which a domain's values are computed.
fn own_scale(domain: Domain, scale: u16) -> u16 {
    match int_range(Some(domain)) {
        Some(_) => 0,
        None => scale,
    }
}

/// The value times a power of ten.
fn times(value: Register, power: u16, code: &mut Code) -> Option<Register> {
    if power == 0 {
        return Some(value);
    }
    let factor = Operand::Constant(*POWERS.get(usize::from(power))?);
    let factor = code.push(Operation::Load(factor))?;
    code.push(Operation::Multiply(value, factor))
}

/// The value of a domain of integers, in its range and times 10^scale, or of numerics as it is.
fn bounded(value: Register, domain: Domain, scale: u16, code: &mut Code) -> Option<Register> {
    match (domain, int_range(Some(domain))) {
        // The full range of a register.
        (Domain::Int8, _) => times(value, scale, code),
        (_, Some((least, greatest))) => {
            let within = code.push(Operation::Within(value, least, greatest))?;
            times(within, scale, code)
        }
        (Domain::Numeric, None) => Some(value),
        _ => None,
    }
}

/// Whether an expression that is computed can only have an integer's type.
fn computes_integer(expression: &Expression) -> bool {
    let result =
        |e: &Expression| matches!(e, Expression::Constant(Value::Int(_))) || computes_integer(e);
    match expression {
        Expression::Arithmetic { domain, .. } | Expression::Negate { domain, .. } => {
            int_range(Some(*domain)).is_some()
        }
        Expression::Cast { to, .. } => to.is_integer(),
        Expression::Case { .. } | Expression::Switch { .. } => expression.results().all(result),
        _ => false,
    }
}

/// The least and the greatest integer of a domain of integers.
fn int_range(domain: Option<Domain>) -> Option<(i64, i64)> {
    match domain? {
        Domain::Int2 => Some((i64::from(i16::MIN), i64::from(i16::MAX))),
        Domain::Int4 => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
        Domain::Int8 => Some((i64::MIN, i64::MAX)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    //! The twin is [`Expression::evaluate`]: whenever there is an integer, it must be the value.

    use anabranch_types::{ColumnSchema, Decimal, Row, RowLayout, SplitMix64, TableId};

    use super::*;
    use crate::expression::{
        EvaluationContext, Frame, Source,
        registers::{RowCells, RowLanes},
    };

    struct Chance(SplitMix64);

    impl Chance {
        fn below(&mut self, limit: u64) -> u64 {
            self.0.below(limit)
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
            is_hidden: false,
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
        let context = EvaluationContext::default();
        let mut chance = Chance(SplitMix64::new(7));
        let (mut values, mut truths, mut columns) = (0, 0, 0);
        let mut rows: Vec<Row> = Vec::new();
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
            let frame = Frame::of_rows(&arguments, &sources, &context);
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
            // Rows together: the value of each, or none if one has none.
            rows.insert(0, row.clone());
            rows.truncate(LANES);
            if let Some(integer) = shapes.compile(&of, scale)
                && !of.any(&mut |e| matches!(e, Expression::Variable(_)))
            {
                let alone = |row| {
                    integer.value(&RowCells {
                        row,
                        arguments: &[],
                    })
                };
                let expected: Option<Vec<i64>> = rows.iter().map(alone).collect();
                let mut column = [0; LANES];
                let all = integer.column(&RowLanes(&rows), &mut column);
                columns += usize::from(expected.is_some());
                let found = all.map(|()| &column[..rows.len()]);
                assert_eq!(found, expected.as_deref(), "round {round}: {of:?}");
            }
            let of = condition(&mut chance, 2);
            if let Some(truth) = shapes.truth(&of).and_then(|e| e.holds(&cells)) {
                truths += 1;
                let expected = of.test(&frame).expect("it does not fail");
                assert_eq!(Some(truth), expected, "round {round}: {of:?}");
            }
        }
        assert!(
            values > 10_000 && truths > 10_000 && columns > 1_000,
            "{values}, {truths}, {columns}"
        );
    }
}
