//! The values that a row can reach when row programs run on it in any order.
//!
//! Increments that are prepared concurrently are each checked on the current row. Together they may leave the domain
//! of a type: three times a billion does not fit an `integer`. So before an increment is promised beside others, the
//! row's columns are followed as intervals through all of them, and every expression must stay in its domain for all
//! values in between. That is exact for columns that are only incremented (`stock - $1`), and an over-approximation
//! for all else; a program that cannot be followed is not allowed.
//!
//! Not covered: the length of a text, beyond the limit of its type. Texts that a client can send do not reach a row of
//! 1 GiB.

use std::sync::Arc;

use anabranch_types::{ColumnIndex, DataType, Decimal, Row, RowLayout, Value};
use smallvec::SmallVec;

use super::{Program, reads_row};
use crate::expression::{Domain, EvaluationContext, Expression, Frame, Function, Operator};

/// The maximum of programs that are followed if their order matters: the work is quadratic in their number.
const PROGRAMS_MAX: usize = 32;

/// The values that an expression can have.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Interval {
    /// NULL, and nothing else.
    Null,
    /// Any value that is not a number, and so cannot leave a number's domain.
    Other,
    /// NULL, or a number from `low` to `high` with no more digits after the point than both have.
    Number { low: Decimal, high: Decimal },
    /// NULL, or a finite number from the first to the second.
    Float(f64, f64),
}

impl Interval {
    fn of(value: &Value) -> Option<Interval> {
        Some(match value {
            Value::Null => Interval::Null,
            Value::Int(int) => Interval::of_decimal(Decimal::from_i64(*int)),
            Value::Numeric(decimal) => Interval::of_decimal(*decimal),
            Value::Float(float) if float.is_finite() => Interval::Float(*float, *float),
            Value::Float(_) | Value::Pending(_) => return None,
            _ => Interval::Other,
        })
    }

    fn of_decimal(decimal: Decimal) -> Interval {
        Interval::Number {
            low: decimal,
            high: decimal,
        }
    }

    /// The values of either, and those between.
    fn hull(self, other: Interval) -> Option<Interval> {
        Some(match (self, other) {
            (Interval::Null, known) | (known, Interval::Null) => known,
            (Interval::Other, Interval::Other) => Interval::Other,
            (Interval::Float(a, b), Interval::Float(c, d)) => Interval::Float(a.min(c), b.max(d)),
            (Interval::Number { low: a, high: b }, Interval::Number { low: c, high: d }) => {
                let scale = i32::from(a.scale().max(c.scale()));
                Interval::Number {
                    low: a.min(c).round(scale).ok()?,
                    high: b.max(d).round(scale).ok()?,
                }
            }
            _ => return None,
        })
    }
}

/// A program and its arguments.
pub(crate) type Run<'r> = (Arc<Program>, &'r [Value]);

/// The columns that programs have changed, as intervals; the others are as in the row.
#[derive(Clone)]
struct Columns<'r> {
    row: &'r Row,
    layout: &'r RowLayout,
    changed: SmallVec<[(ColumnIndex, Interval); 4]>,
}

impl Columns<'_> {
    fn get(&self, column: ColumnIndex) -> Option<Interval> {
        let changed = self.changed.iter().find(|(at, _)| *at == column);
        match changed {
            Some((_, interval)) => Some(*interval),
            None => Interval::of(&self.row.get(self.layout, column)),
        }
    }

    fn set(&mut self, column: ColumnIndex, interval: Interval) {
        match self.changed.iter_mut().find(|(at, _)| *at == column) {
            Some((_, held)) => *held = interval,
            None => self.changed.push((column, interval)),
        }
    }
}

/// Whether any subset of these programs, each with its arguments, can run on the row in any order without a failure.
/// `false` if that cannot be decided.
pub(crate) fn are_compatible(row: &Row, runs: &[Run<'_>]) -> bool {
    let Some(layout) = runs.first().map(|(program, _)| &program.schema.layout) else {
        return true;
    };
    // The common case: even after all of them, each fits once more.
    let after_all = widened(row, layout, runs);
    let ample = after_all.is_some_and(|all| runs.iter().all(|run| succeeds(&all, run).is_some()));
    let after_others = |at: usize| {
        let mut others = runs.to_vec();
        let run = others.remove(at);
        widened(row, layout, &others).is_some_and(|others| succeeds(&others, &run).is_some())
    };
    ample || (runs.len() <= PROGRAMS_MAX && (0..runs.len()).all(after_others))
}

/// The values that the row can reach when some of the programs have run, in any order. `None` as for [`Follower`].
fn widened<'r>(row: &'r Row, layout: &'r RowLayout, runs: &[Run<'_>]) -> Option<Columns<'r>> {
    let mut columns = Columns {
        row,
        layout,
        changed: SmallVec::new(),
    };
    let only_moves = runs.iter().all(|(program, _)| program.only_moves);
    let exact = widen(&mut columns, runs)?;
    if !(only_moves && exact) {
        if runs.len() > PROGRAMS_MAX {
            return None;
        }
        for _ in 1..runs.len() {
            widen(&mut columns, runs)?;
        }
    }
    Some(columns)
}

/// Whether a program succeeds for all values of the columns; `None` if that cannot be decided.
fn succeeds(columns: &Columns<'_>, (program, arguments): &Run<'_>) -> Option<()> {
    let mut follower = Follower::new(columns, arguments);
    let mut after = columns.clone();
    for (column, expression) in &program.assignments {
        after.set(*column, follower.follow(expression)?);
    }
    let mut follower = Follower::new(&after, arguments);
    for output in &program.outputs {
        follower.follow(output)?;
    }
    Some(())
}

/// Adds what the programs make of the columns, each program once: first those values that do not
/// depend on the row, so that moves start from them too. Returns whether nothing has been rounded.
fn widen(columns: &mut Columns<'_>, runs: &[Run<'_>]) -> Option<bool> {
    let mut exact = true;
    for dependent in [false, true] {
        for (program, arguments) in runs {
            for (column, expression) in &program.assignments {
                if reads_row(expression) != dependent {
                    continue;
                }
                let mut follower = Follower::new(columns, arguments);
                let after = follower.follow(expression)?;
                exact &= !follower.rounded;
                let hull = columns.get(*column)?.hull(after)?;
                columns.set(*column, hull);
            }
        }
    }
    Some(exact)
}

/// Evaluates expressions over intervals. `None`: some value may fail, or that cannot be decided.
struct Follower<'f> {
    columns: &'f Columns<'f>,
    arguments: &'f [Value],
    /// Whether digits have been rounded away.
    rounded: bool,
}

impl<'f> Follower<'f> {
    fn new(columns: &'f Columns<'f>, arguments: &'f [Value]) -> Follower<'f> {
        Follower {
            columns,
            arguments,
            rounded: false,
        }
    }

    fn follow(&mut self, expression: &Expression) -> Option<Interval> {
        match expression {
            Expression::Constant(value) => Interval::of(value),
            Expression::Variable(argument) => Interval::of(&self.arguments[*argument]),
            Expression::Column { column, .. } => self.columns.get(ColumnIndex(*column as u16)),
            Expression::Arithmetic {
                operator,
                domain,
                left,
                right,
            } => {
                let (left, right) = (self.follow(left)?, self.follow(right)?);
                compute(*operator, *domain, left, right)
            }
            Expression::Negate { domain, operand } => {
                let zero = match domain {
                    Domain::Real | Domain::Double => Interval::Float(0.0, 0.0),
                    _ => Interval::of_decimal(Decimal::ZERO),
                };
                let operand = self.follow(operand)?;
                compute(Operator::Subtract, *domain, zero, operand)
            }
            Expression::Cast {
                operand, from, to, ..
            } => {
                let operand = self.follow(operand)?;
                self.cast(operand, from, to)
            }
            Expression::Case { branches, .. } => {
                for (condition, _) in branches {
                    self.follow(condition)?;
                }
                self.hull(expression.results())
            }
            Expression::Switch {
                operand, branches, ..
            } => {
                self.follow(operand)?;
                for (value, _) in branches {
                    self.follow(value)?;
                }
                self.hull(expression.results())
            }
            Expression::Coalesce(list)
            | Expression::Call {
                function: Function::Greatest | Function::Least,
                arguments: list,
            } => self.hull(list.iter()),
            Expression::NullIf(left, right) => {
                self.follow(right)?;
                self.follow(left)
            }
            Expression::Not(_)
            | Expression::And(_)
            | Expression::Or(_)
            | Expression::IsNull { .. }
            | Expression::IsBool { .. }
            | Expression::Compare { .. }
            | Expression::Distinct { .. }
            | Expression::InList { .. }
            | Expression::Quantified { .. }
            | Expression::Concat(..)
            | Expression::Call {
                function:
                    Function::Left
                    | Function::Right
                    | Function::Upper
                    | Function::Lower
                    | Function::Concat(_)
                    | Function::ConcatWith(_)
                    | Function::Replace
                    | Function::TrimBoth
                    | Function::TrimLeft
                    | Function::TrimRight,
                ..
            } => {
                let mut known = true;
                expression.each_child(|child| known = known && self.follow(child).is_some());
                known.then_some(Interval::Other)
            }
            other if !reads_row(other) => {
                let context = EvaluationContext::default();
                let frame = Frame::of_rows(self.arguments, &[], &context);
                Interval::of(&other.evaluate(&frame).ok()?)
            }
            _ => None,
        }
    }

    fn hull<'e>(&mut self, results: impl Iterator<Item = &'e Expression>) -> Option<Interval> {
        let mut hull = Interval::Null;
        for result in results {
            hull = hull.hull(self.follow(result)?)?;
        }
        Some(hull)
    }

    fn cast(&mut self, operand: Interval, from: &DataType, to: &DataType) -> Option<Interval> {
        match (operand, to) {
            (Interval::Null, _) => Some(Interval::Null),
            (Interval::Number { low, high }, DataType::Int2 | DataType::Int4 | DataType::Int8) => {
                self.rounded |= low.scale() > 0;
                let bounds = Interval::Number {
                    low: low.round(0).ok()?,
                    high: high.round(0).ok()?,
                };
                in_domain(Domain::of(to)?, bounds)
            }
            (Interval::Number { .. }, DataType::Numeric(None)) => Some(operand),
            (Interval::Number { low, high }, DataType::Numeric(Some(bounds))) => {
                self.rounded |= low.scale() > bounds.scale;
                Some(Interval::Number {
                    low: low.rescale(*bounds).ok()?,
                    high: high.rescale(*bounds).ok()?,
                })
            }
            (Interval::Number { low, high }, DataType::Double) => {
                Some(Interval::Float(low.to_f64(), high.to_f64()))
            }
            (Interval::Float(..), DataType::Double) => Some(operand),
            (Interval::Number { .. } | Interval::Other, to) if to.is_text() => {
                // Only casts that cut, and those to texts of any length, are beyond doubt.
                let any_length = matches!(to, DataType::Text | DataType::Varchar(None));
                (any_length || from.is_text()).then_some(Interval::Other)
            }
            _ => None,
        }
    }
}

/// An interval that lies in an integer type's domain, or is of another type.
fn in_domain(domain: Domain, interval: Interval) -> Option<Interval> {
    let Interval::Number { low, high } = interval else {
        return Some(interval);
    };
    let limits = match domain {
        Domain::Int2 => i64::from(i16::MIN)..=i64::from(i16::MAX),
        Domain::Int4 => i64::from(i32::MIN)..=i64::from(i32::MAX),
        Domain::Int8 => i64::MIN..=i64::MAX,
        _ => return Some(interval),
    };
    let fits = |bound: Decimal| bound.to_i64().is_some_and(|int| limits.contains(&int));
    (fits(low) && fits(high)).then_some(interval)
}

fn compute(
    operator: Operator,
    domain: Domain,
    left: Interval,
    right: Interval,
) -> Option<Interval> {
    match (left, right) {
        (Interval::Null, _) | (_, Interval::Null) => Some(Interval::Null),
        (Interval::Number { low: a, high: b }, Interval::Number { low: c, high: d }) => {
            let (low, high) = match operator {
                Operator::Add => (a.try_add(c).ok()?, b.try_add(d).ok()?),
                Operator::Subtract => (a.try_sub(d).ok()?, b.try_sub(c).ok()?),
                Operator::Multiply => {
                    let mut corners = [(a, c), (a, d), (b, c), (b, d)].map(|(x, y)| x.try_mul(y));
                    corners.sort_by_key(|corner| corner.ok());
                    (corners[0].ok()?, corners[3].ok()?)
                }
                _ => return None,
            };
            in_domain(domain, Interval::Number { low, high })
        }
        (Interval::Float(a, b), Interval::Float(c, d)) => {
            let (low, high) = match operator {
                Operator::Add => (a + c, b + d),
                Operator::Subtract => (a - d, b - c),
                _ => return None,
            };
            let (low, high) = match domain {
                Domain::Real => (f64::from(low as f32), f64::from(high as f32)),
                _ => (low, high),
            };
            (low.is_finite() && high.is_finite()).then_some(Interval::Float(low, high))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anabranch_types::{ColumnSet, Effect, RowPrograms};

    use super::*;
    use crate::{
        Application, SourceFile, load,
        testing::{Store, ready},
    };

    /// What is done to a row of `t(id int primary key, small smallint, count int, money numeric(4,
    /// 1), wide double precision)`, and what each of its arguments may be.
    const CHANGES: [(&str, &str, [i64; 4]); 10] = [
        ("smallint", "small = small + x", [1, -1, 15_000, -20_000]),
        ("smallint", "small = x", [0, 32_767, -32_768, 7]),
        (
            "integer",
            "count = count - x",
            [1, -1, 1_500_000_000, -1_500_000_000],
        ),
        ("integer", "count = count * x", [1, 2, -3, 50_000]),
        (
            "integer",
            "count = count + x - x",
            [1, 1_500_000_000, -1_500_000_000, 0],
        ),
        (
            "smallint",
            "small = CASE WHEN small >= x THEN small - x ELSE small + 91 - x END",
            [1, 10, 16_000, -16_000],
        ),
        ("numeric", "money = money + x", [1, 400, -400, 999]),
        ("numeric", "money = money + x * 0.05", [1, 9, -9, 0]),
        ("integer", "count = count + small * x", [1, 100_000, -3, 0]),
        ("double precision", "wide = wide + x", [1, -1, 0, 2]),
    ];

    fn application() -> Application {
        let mut text = "CREATE TABLE t (id int PRIMARY KEY, small smallint NOT NULL, \
             count integer NOT NULL, money numeric(4, 1) NOT NULL, \
             wide double precision NOT NULL);\n"
            .to_string();
        for (at, (of, set, _)) in CHANGES.iter().enumerate() {
            text += &format!(
                "CREATE PROCEDURE p{at}(x {of}) LANGUAGE SQL \
                 BEGIN ATOMIC UPDATE t SET {set} WHERE id = 1; END;\n"
            );
        }
        text += "CREATE PROCEDURE fill(a smallint, b integer, c numeric, d double precision) \
             LANGUAGE SQL BEGIN ATOMIC INSERT INTO t VALUES (1, a, b, c, d); END;\n";
        let file = SourceFile::new("test.sql", text);
        Application::compile(load(vec![file]).expect("it loads")).expect("it compiles")
    }

    /// Every order of every subset, by brute force.
    fn any_order_fits(
        programs: &dyn RowPrograms,
        row: &Row,
        runs: &[(anabranch_types::ProgramId, &[Value])],
    ) -> bool {
        (0..runs.len()).all(|first| {
            let (program, arguments) = runs[first];
            let Ok(applied) = programs.apply(program, row, arguments, ColumnSet::EMPTY) else {
                return false;
            };
            let mut rest = runs.to_vec();
            rest.remove(first);
            any_order_fits(programs, &applied.row, &rest)
        })
    }

    fn next(state: &mut u64) -> usize {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (*state >> 33) as usize
    }

    /// Programs that fit together fit in every order; increments are judged exactly, but for the last step.
    #[test]
    fn what_fits_together_fits_in_every_order() {
        let application = application();
        let programs = application.programs();
        let mut state = 7;
        let (mut fitted, mut refused, mut needlessly) = (0, 0, 0);
        for _ in 0..6_000 {
            let mut store = Store::new(&application);
            let mut pick = |list: &[i64]| list[next(&mut state) % list.len()];
            let start = [
                Value::Int(pick(&[0, 5, 32_000, -32_000])),
                Value::Int(pick(&[0, 3, 1_000_000_000, -2_000_000_000])),
                Value::Numeric(Decimal::from_scaled(pick(&[0, 5, 9_000, -9_990]), 1)),
                Value::Float(pick(&[0, 1]) as f64),
            ];
            let mut call = |name: &str, arguments: &[Value]| {
                let mut transaction = store.begin();
                transaction.defer = true;
                transaction.record = true;
                let procedure = application.find(name).expect("it is declared");
                // One that fails on the row as it is has written its effect before.
                let _ = ready(procedure.call(&mut transaction, arguments));
                std::mem::take(&mut transaction.effects)
            };
            let inserted = call("fill", &start);
            let Some(Effect::Insert { row, .. }) = inserted.into_iter().next() else {
                panic!("a row is inserted");
            };
            let mut effects = Vec::new();
            for _ in 0..1 + next(&mut state) % 4 {
                let at = next(&mut state) % CHANGES.len();
                let (of, _, amounts) = CHANGES[at];
                let amount = amounts[next(&mut state) % 4];
                let argument = match of {
                    "numeric" => Value::Numeric(Decimal::from_i64(amount)),
                    "double precision" => Value::Float(amount as f64 * 8e307),
                    _ => Value::Int(amount),
                };
                effects.extend(call(&format!("p{at}"), &[argument]));
            }
            let runs: Vec<_> = effects
                .iter()
                .filter_map(|effect| match effect {
                    Effect::Update {
                        program, arguments, ..
                    } => Some((*program, &**arguments)),
                    _ => None,
                })
                .collect();
            let fits = programs.are_compatible(&row, &runs);
            let truly = any_order_fits(&*programs, &row, &runs);
            assert!(
                !fits || truly,
                "{start:?}: {runs:?} does not fit in some order"
            );
            match fits {
                true => fitted += 1,
                false => refused += 1,
            }
            needlessly += usize::from(truly && !fits);
        }
        assert!(fitted > 1_000 && refused > 1_000, "{fitted} and {refused}");
        assert!(needlessly * 4 < fitted, "{needlessly} of {fitted}");
    }
}
