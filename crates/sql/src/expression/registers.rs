//! The register machine behind [`super::integer`].
//!
//! An expression is walked once, when it is compiled, and leaves a list of operations. Each puts its result into a
//! register of its own, and no operation occurs twice. There are no jumps: all branches of a CASE are computed and one
//! is selected, which is correct since exceptional cases give no value anyway. So the same operations run on one row,
//! or on [`LANES`] rows at a time, with a column of values in each register. An operation then determines the position
//! and the kind of its operand once for all rows. Conditions are 1 or 0.

use anabranch_types::{Row, StoredInt, Value};
use smallvec::SmallVec;

use super::Relation;

/// The number of rows that are computed together.
pub(crate) const LANES: usize = 16;

/// A value for each of some rows; those beyond the last are ignored.
pub(crate) type Column = [i64; LANES];

/// The number of registers. An expression that needs more is not compiled.
pub(crate) const REGISTERS: usize = 32;

/// A register's number: that of the operation with its result in it.
pub(crate) type Register = u8;

/// The position of an integer. A decimal is an integer times 10^scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operand {
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
}

/// The operation that fills a register.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operation {
    Load(Operand),
    Add(Register, Register),
    Subtract(Register, Register),
    Multiply(Register, Register),
    /// The register, if it is neither below the one nor above the other.
    Within(Register, i64, i64),
    /// Whether the registers stand in a relation.
    Test(Relation, Register, Register),
    Not(Register),
    And(Register, Register),
    Or(Register, Register),
    /// The second where the first is true, else the third.
    Select(Register, Register, Register),
}

/// The operands of one row.
pub(crate) trait Cells {
    /// The operand; `None` where it is NULL, or no integer.
    fn load(&self, operand: &Operand) -> Option<i64>;
}

/// The operands of at most [`LANES`] rows.
pub(crate) trait Lanes {
    /// Puts the operands there; `None` where one of them is NULL, or no integer.
    fn load(&self, operand: &Operand, column: &mut Column) -> Option<()>;
}

/// Operations, and what they leave.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Code(Vec<Operation>);

/// All registers.
pub(crate) type Registers = [i64; REGISTERS];

impl Code {
    /// The register that an operation fills; `None` where there is none left.
    pub(crate) fn push(&mut self, operation: Operation) -> Option<Register> {
        let there = self.0.iter().position(|other| *other == operation);
        let register = there.unwrap_or(self.0.len());
        if register >= REGISTERS {
            return None;
        }
        if there.is_none() {
            self.0.push(operation);
        }
        Some(register as Register)
    }

    /// The number of operations.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes the last operation if it only checks these bounds, and returns the register with the value; for a
    /// caller that checks the bounds itself.
    pub(crate) fn unbound(&mut self, bounds: (i64, i64)) -> Option<Register> {
        match self.0.last() {
            Some(Operation::Within(of, least, greatest)) if (*least, *greatest) == bounds => {
                let of = *of;
                self.0.pop();
                Some(of)
            }
            _ => None,
        }
    }

    /// Drops the operations after a register, which it does not need.
    pub(crate) fn ending_with(mut self, register: Register) -> Code {
        self.0.truncate(usize::from(register) + 1);
        self
    }

    /// The last register for one row; `None` if it takes the full evaluation.
    #[inline]
    pub(crate) fn value<C: Cells>(&self, cells: &C) -> Option<i64> {
        match &self.0[..] {
            [Operation::Load(operand)] => cells.load(operand),
            operations => {
                let mut registers = [0; REGISTERS];
                self.run(cells, &mut registers)?;
                Some(registers[operations.len() - 1])
            }
        }
    }

    /// Fills the registers for one row; `None` if it takes the full evaluation.
    pub(crate) fn run<C: Cells>(&self, cells: &C, registers: &mut Registers) -> Option<()> {
        for (place, operation) in self.0.iter().enumerate() {
            // Always in range; the remainder lets the compiler see it.
            let of = |register: &Register| registers[usize::from(*register) % REGISTERS];
            let value = match operation {
                Operation::Load(operand) => cells.load(operand)?,
                Operation::Add(a, b) => of(a).checked_add(of(b))?,
                Operation::Subtract(a, b) => of(a).checked_sub(of(b))?,
                Operation::Multiply(a, b) => of(a).checked_mul(of(b))?,
                Operation::Within(a, least, greatest) => {
                    let value = of(a);
                    if value < *least || value > *greatest {
                        return None;
                    }
                    value
                }
                Operation::Test(relation, a, b) => i64::from(relation.holds(of(a).cmp(&of(b)))),
                Operation::Not(a) => 1 - of(a),
                Operation::And(a, b) => of(a) & of(b),
                Operation::Or(a, b) => of(a) | of(b),
                Operation::Select(condition, a, b) if of(condition) == 1 => of(a),
                Operation::Select(_, _, b) => of(b),
            };
            registers[place % REGISTERS] = value;
        }
        Some(())
    }

    /// The last register for some rows; `None` if one of them takes the full evaluation.
    #[inline]
    pub(crate) fn column<L: Lanes>(&self, lanes: &L, column: &mut Column) -> Option<()> {
        match &self.0[..] {
            [Operation::Load(operand)] => lanes.load(operand, column),
            operations => run_lanes(operations, lanes, column),
        }
    }
}

fn run_lanes<L: Lanes>(operations: &[Operation], lanes: &L, result: &mut Column) -> Option<()> {
    let (last, before) = operations.split_last()?;
    let mut columns: SmallVec<[Column; 12]> = SmallVec::new();
    for operation in before {
        let mut column = [0; LANES];
        operate(operation, &columns, lanes, &mut column)?;
        columns.push(column);
    }
    operate(last, &columns, lanes, result)
}

#[inline]
fn operate<L: Lanes>(
    operation: &Operation,
    columns: &[Column],
    lanes: &L,
    result: &mut Column,
) -> Option<()> {
    let of = |register: &Register| &columns[usize::from(*register)];
    let mut is_out = false;
    match operation {
        Operation::Load(operand) => return lanes.load(operand, result),
        Operation::Add(a, b) => each(result, of(a), of(b), |a, b| {
            let (sum, overflows) = a.overflowing_add(b);
            is_out |= overflows;
            sum
        }),
        Operation::Subtract(a, b) => each(result, of(a), of(b), |a, b| {
            let (difference, overflows) = a.overflowing_sub(b);
            is_out |= overflows;
            difference
        }),
        Operation::Multiply(a, b) => each(result, of(a), of(b), |a, b| {
            let (product, overflows) = a.overflowing_mul(b);
            is_out |= overflows;
            product
        }),
        Operation::Within(a, least, greatest) => each(result, of(a), of(a), |a, _| {
            is_out |= a < *least || a > *greatest;
            a
        }),
        Operation::Test(relation, a, b) => each(result, of(a), of(b), |a, b| {
            i64::from(relation.holds(a.cmp(&b)))
        }),
        Operation::Not(a) => each(result, of(a), of(a), |a, _| 1 - a),
        Operation::And(a, b) => each(result, of(a), of(b), |a, b| a & b),
        Operation::Or(a, b) => each(result, of(a), of(b), |a, b| a | b),
        Operation::Select(condition, a, b) => {
            *result = *of(b);
            for (lane, truth) in of(condition).iter().enumerate() {
                if *truth == 1 {
                    result[lane] = of(a)[lane];
                }
            }
        }
    }
    (!is_out).then_some(())
}

#[inline]
fn each(result: &mut Column, a: &Column, b: &Column, mut operation: impl FnMut(i64, i64) -> i64) {
    for lane in 0..LANES {
        result[lane] = operation(a[lane], b[lane]);
    }
}

/// The one row that a row program or a CHECK looks at, and arguments.
#[derive(Clone, Copy)]
pub(crate) struct RowCells<'r> {
    pub(crate) row: &'r Row,
    pub(crate) arguments: &'r [Value],
}

impl Cells for RowCells<'_> {
    #[inline]
    fn load(&self, operand: &Operand) -> Option<i64> {
        match operand {
            Operand::Constant(int) => Some(*int),
            Operand::Variable { slot, scale } => scaled(&self.arguments[*slot], *scale),
            Operand::Stored { at, .. } => self.row.stored(*at),
            Operand::Cell { .. } => None,
        }
    }
}

/// Rows of one table, at most [`LANES`] of them.
#[derive(Clone, Copy)]
pub(crate) struct RowLanes<'r>(pub(crate) &'r [Row]);

impl Lanes for RowLanes<'_> {
    fn load(&self, operand: &Operand, column: &mut Column) -> Option<()> {
        match operand {
            Operand::Constant(int) => {
                *column = [*int; LANES];
                Some(())
            }
            Operand::Stored { at, .. } => {
                for (lane, row) in column.iter_mut().zip(self.0) {
                    *lane = row.stored(*at)?;
                }
                pad(column, self.0.len());
                Some(())
            }
            Operand::Variable { .. } | Operand::Cell { .. } => None,
        }
    }
}

/// Repeats the first value beyond the last, so that ignored lanes do not fail.
#[inline]
pub(crate) fn pad(column: &mut Column, count: usize) {
    let first = column[0];
    if let Some(beyond) = column.get_mut(count..) {
        beyond.fill(first);
    }
}

/// Powers of ten that an `i64` holds.
pub(crate) const POWERS: [i64; 19] = {
    let mut powers = [1i64; 19];
    let mut power = 1;
    while power < 19 {
        powers[power] = powers[power - 1] * 10;
        power += 1;
    }
    powers
};

/// A number times 10^scale.
#[inline]
pub(crate) fn scaled(value: &Value, scale: u16) -> Option<i64> {
    match value {
        Value::Int(int) => raised(*int, scale),
        Value::Numeric(decimal) => decimal.to_scaled(scale),
        _ => None,
    }
}

/// An integer times 10^scale.
#[inline]
pub(crate) fn raised(int: i64, scale: u16) -> Option<i64> {
    match scale {
        0 => Some(int),
        scale => int.checked_mul(*POWERS.get(usize::from(scale))?),
    }
}
