//! Row programs: what an UPDATE does to a row, evaluated by the row's owner at commit.
//!
//! Each UPDATE has an assigning program, with the new values that the statement computed for its arguments. One that
//! can be deferred has a second program, which computes them from the row as it is at commit (bumper.txt's delayed
//! actions; see [`crate::summary::StatementSummary::deferral`]).

pub(crate) mod check;
mod interval;
pub mod merging;

use std::{
    borrow::Cow,
    sync::{Arc, PoisonError, RwLock},
};

use anabranch_types::{
    Applied, ColumnIndex, ColumnSet, DataType, EffectError, Merging, ProgramId, Row, RowPrograms,
    StoredInt, TableId, TableSchema, TimeZone, Value, text::format_value,
};
use smallvec::SmallVec;

use crate::{
    diagnostic::Diagnostic,
    expression::{
        Domain, EvaluationContext, Expression, Failure, Frame, Function, Operator, Source, failure,
        integer::{Integers, Shapes},
        registers::{REGISTERS, Register, RowCells},
    },
};
use check::Check;
use merging::{ColumnPolicy, Policies};

/// All programs of an application, by [`ProgramId`]: those of its procedures, then those of
/// statements compiled later.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    fixed: Vec<Arc<Program>>,
    /// The merge policies of the fixed ones. Later ones have to agree with them.
    policies: Policies,
    later: RwLock<Vec<Arc<Program>>>,
}

/// One program. Its expressions are over the row (source 1) and its arguments (variables).
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) assignments: Vec<(ColumnIndex, Expression)>,
    /// The RETURNING list, over the new row.
    pub(crate) outputs: Vec<Expression>,
    /// The CHECKs that bear on what is changed.
    checks: Vec<Check>,
    /// Columns with a new value that does not depend on the row.
    assigned: ColumnSet,
    may_violate: bool,
    /// Whether it may fail on some rows, but for CHECKs and numbers beyond their domain.
    pub(crate) may_fail: bool,
    /// Whether its UPDATE also has a deferred program. This one then runs only if that cannot be left to the row's
    /// owner, and does not count for merge policies.
    pub(crate) stands_in: bool,
    /// Whether each column is assigned or incremented by a value that does not depend on the row.
    pub(crate) only_moves: bool,
    /// The assignments compiled for integers, if all are of integers.
    integers: Option<IntegerAssignments>,
}

/// Integers assigned to columns.
#[derive(Debug)]
struct IntegerAssignments {
    values: Integers,
    /// Each column, where rows have it, and the register with its value.
    columns: Vec<(ColumnIndex, StoredInt, Register)>,
}

impl Programs {
    /// Adds a program.
    pub(crate) fn add(&self, program: Program) -> Result<ProgramId, Diagnostic> {
        let mut later = self.later.write().unwrap_or_else(PoisonError::into_inner);
        let id = u16::try_from(self.fixed.len() + later.len()).map_err(|_| Diagnostic {
            code: "54000",
            message: "an application has at most 65,536 row programs".into(),
            span: None,
            detail: None,
            help: None,
        })?;
        later.push(Arc::new(program));
        Ok(ProgramId(id))
    }

    /// The programs added so far, found from now on without a lock.
    pub(crate) fn fixed(self) -> Programs {
        let mut fixed = self.fixed;
        fixed.extend(
            self.later
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner),
        );
        Programs {
            policies: Policies::agreed(fixed.iter().map(|program| &**program)),
            fixed,
            later: RwLock::default(),
        }
    }

    /// A copy to which more programs can be added, before it is [`Programs::fixed`] again.
    pub(crate) fn extended(&self) -> Programs {
        let later = self.later.read().unwrap_or_else(PoisonError::into_inner);
        Programs {
            fixed: self.fixed.iter().chain(later.iter()).cloned().collect(),
            ..Programs::default()
        }
    }

    /// The merge policy of a column, if all programs agree on one.
    pub(crate) fn policy(&self, table: TableId, column: ColumnIndex) -> Option<ColumnPolicy> {
        self.policies.of(table, column)
    }

    fn with<R>(&self, program: ProgramId, run: impl FnOnce(&Arc<Program>) -> R) -> R {
        if let Some(program) = self.fixed.get(program.index()) {
            return run(program);
        }
        let place = program.index() - self.fixed.len();
        let program = self.later.read().unwrap_or_else(PoisonError::into_inner)[place].clone();
        run(&program)
    }
}

impl Program {
    /// Sets columns to its arguments.
    pub(crate) fn assigning(
        schema: Arc<TableSchema>,
        columns: &[ColumnIndex],
        checks: &[Check],
    ) -> Program {
        let assignments = columns
            .iter()
            .enumerate()
            .map(|(argument, column)| (*column, Expression::Variable(argument)))
            .collect();
        Program::new(schema, assignments, Vec::new(), checks)
    }

    /// Sets columns to what expressions give, and returns others.
    pub(crate) fn new(
        schema: Arc<TableSchema>,
        assignments: Vec<(ColumnIndex, Expression)>,
        outputs: Vec<Expression>,
        checks: &[Check],
    ) -> Program {
        let mut changed = ColumnSet::EMPTY;
        let mut assigned = ColumnSet::EMPTY;
        for (column, expression) in &assignments {
            changed = changed.with(*column);
            if !reads_row(expression) {
                assigned = assigned.with(*column);
            }
        }
        let checks: Vec<Check> = checks
            .iter()
            .filter(|check| check.columns.intersects(changed))
            .cloned()
            .collect();
        let depends = |check: &Check| check.columns.0 & !assigned.0 != 0;
        let risky = |(column, expression): &(ColumnIndex, Expression)| {
            let described = &schema.columns[column.index()];
            reads_row(expression)
                && !is_safe(
                    expression,
                    &schema,
                    &described.data_type,
                    *column,
                    described.nullable,
                )
        };
        let is_risky = assignments.iter().any(risky);
        let may_violate = checks.iter().any(depends) || is_risky;
        let may_fail = is_risky
            || outputs
                .iter()
                .any(|output| !is_safe_output(output, &schema));
        let only_moves = assignments
            .iter()
            .all(|(column, expression)| !reads_row(expression) || is_move(expression, *column));
        Program {
            integers: IntegerAssignments::compile(&schema, &assignments),
            schema,
            assignments,
            outputs,
            checks,
            assigned,
            may_violate,
            may_fail,
            stands_in: false,
            only_moves,
        }
    }

    /// Whether a CHECK or the statement reads the new row.
    pub(crate) fn is_looked_at(&self) -> bool {
        !self.checks.is_empty() || !self.outputs.is_empty()
    }

    fn apply(&self, row: &Row, arguments: &[Value], skip: ColumnSet) -> Result<Applied, Failure> {
        if let Some(integers) = &self.integers
            && let Some(row) = integers.assign(row, arguments, skip)
        {
            return self.checked(row, arguments);
        }
        let context = EvaluationContext::default();
        let layout = &self.schema.layout;
        let sources = [Source::Empty, Source::Row { layout, row }];
        let frame = Frame::of_rows(arguments, &sources, &context);
        let mut changes: SmallVec<[(ColumnIndex, Value); 4]> = SmallVec::new();
        for (column, expression) in &self.assignments {
            if skip.contains(*column) {
                continue;
            }
            let mut held = Value::Null;
            let value = expression.operand(&frame, &mut held)?.to_value();
            changes.push((*column, value));
        }
        for (column, value) in &changes {
            if value.is_null() && !self.schema.columns[column.index()].nullable {
                let values = changed_values(&self.schema, row, &changes);
                return Err(not_null(&self.schema, *column, values, &TimeZone::UTC));
            }
        }
        let new = row
            .with(layout, &changes)
            .map_err(|error| failure("54000", error.to_string()))?;
        self.checked(new, arguments)
    }

    /// Tests the CHECKs on a new row, and computes the outputs.
    fn checked(&self, new: Row, arguments: &[Value]) -> Result<Applied, Failure> {
        let layout = &self.schema.layout;
        let mut outputs = SmallVec::new();
        if !self.checks.is_empty() || !self.outputs.is_empty() {
            let context = EvaluationContext::default();
            let sources = [Source::Empty, Source::Row { layout, row: &new }];
            let frame = Frame::of_rows(arguments, &sources, &context);
            for check in &self.checks {
                if check.test(&frame, &new)? == Some(false) {
                    let values = row_values(&self.schema, &new);
                    return Err(violated(&self.schema, &check.name, values, &TimeZone::UTC));
                }
            }
            for output in &self.outputs {
                outputs.push(output.evaluate(&frame)?);
            }
        }
        Ok(Applied { row: new, outputs })
    }
}

impl IntegerAssignments {
    /// `None` if some column is no integer, or some value is not compiled to one.
    fn compile(
        schema: &TableSchema,
        assignments: &[(ColumnIndex, Expression)],
    ) -> Option<IntegerAssignments> {
        let shapes = Shapes::row(schema);
        let mut values = Integers::default();
        let mut columns = Vec::with_capacity(assignments.len());
        for (column, value) in assignments {
            let at = schema.layout.stored_int(*column)?;
            let to = &schema.columns[column.index()].data_type;
            columns.push((*column, at, shapes.stored_among(&mut values, value, to)?));
        }
        Some(IntegerAssignments { values, columns })
    }

    /// The row with the integers assigned; `None` if it takes the full evaluation.
    fn assign(&self, row: &Row, arguments: &[Value], skip: ColumnSet) -> Option<Row> {
        let mut registers = [0; REGISTERS];
        let cells = RowCells { row, arguments };
        self.values.values(&cells, &mut registers)?;
        let mut changes: SmallVec<[(StoredInt, i64); 8]> = SmallVec::new();
        for (column, at, register) in &self.columns {
            if skip.is_empty() || !skip.contains(*column) {
                changes.push((*at, registers[usize::from(*register)]));
            }
        }
        row.with_stored(&changes)
    }
}

impl RowPrograms for Programs {
    fn apply(
        &self,
        program: ProgramId,
        row: &Row,
        arguments: &[Value],
        skip: ColumnSet,
    ) -> Result<Applied, EffectError> {
        self.with(program, |p| {
            p.apply(row, arguments, skip).map_err(|failure| *failure)
        })
    }

    fn assigned(&self, program: ProgramId) -> ColumnSet {
        self.with(program, |p| p.assigned)
    }

    fn changed(&self, program: ProgramId) -> ColumnSet {
        self.with(program, |p| {
            let columns = p.assignments.iter().map(|(column, _)| *column);
            columns.fold(ColumnSet::EMPTY, ColumnSet::with)
        })
    }

    fn replaces(&self, program: ProgramId) -> Option<ColumnSet> {
        self.with(program, |p| {
            let columns = p.assignments.iter().map(|(column, _)| *column);
            let is_told = |column: ColumnIndex| {
                column.0 + 1 < ColumnSet::EXACT_MAX && p.assigned.contains(column)
            };
            let replaces = p.outputs.is_empty() && columns.into_iter().all(is_told);
            replaces.then_some(p.assigned)
        })
    }

    fn may_violate(&self, program: ProgramId) -> bool {
        self.with(program, |p| p.may_violate)
    }

    fn merging(&self, program: ProgramId) -> Option<Merging> {
        self.with(program, |program| self.policies.merging(program))
    }

    fn are_compatible(&self, row: &Row, programs: &[(ProgramId, &[Value])]) -> bool {
        let runs = programs.iter().map(|(program, arguments)| {
            let program = self.with(*program, Arc::clone);
            (program, *arguments)
        });
        interval::are_compatible(row, &runs.collect::<Vec<_>>())
    }
}

/// Whether an expression over a row is a column's old value plus an increment that does not depend on the row; the
/// choice among several increments may depend on it.
fn is_move(expression: &Expression, target: ColumnIndex) -> bool {
    let moved = |e: &Expression| is_move(e, target);
    match expression {
        Expression::Column { column, .. } => *column == target.index(),
        Expression::Arithmetic {
            operator,
            domain: Domain::Int2 | Domain::Int4 | Domain::Int8 | Domain::Numeric,
            left,
            right,
        } => match operator {
            Operator::Add if reads_row(left) => moved(left) && !reads_row(right),
            Operator::Add => moved(right),
            Operator::Subtract => moved(left) && !reads_row(right),
            _ => false,
        },
        Expression::Case { .. } | Expression::Switch { .. } => expression.results().all(moved),
        Expression::Cast { operand, to, .. } => {
            let exact = matches!(
                to,
                DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Numeric(_)
            );
            exact && moved(operand)
        }
        _ => false,
    }
}

/// Whether an expression over a row and arguments depends on the row.
pub(crate) fn reads_row(expression: &Expression) -> bool {
    expression.any(&mut |e| matches!(e, Expression::Column { .. }))
}

/// NULL in a column that is NOT NULL, in a row with these values.
#[cold]
pub(crate) fn not_null<'v>(
    schema: &TableSchema,
    column: ColumnIndex,
    values: impl Iterator<Item = Cow<'v, Value>>,
    zone: &TimeZone,
) -> Failure {
    let name = &schema.columns[column.index()].name;
    let message = format!(
        "null value in column \"{name}\" of relation \"{}\" violates not-null constraint",
        schema.name
    );
    let error = EffectError::new("23502", message)
        .of_table(schema.name.clone())
        .of_column(name.clone())
        .with_detail(failing_row(schema, values, zone));
    Box::new(error)
}

/// A CHECK that is false, of a row with these values.
#[cold]
pub(crate) fn violated<'v>(
    schema: &TableSchema,
    check: &str,
    values: impl Iterator<Item = Cow<'v, Value>>,
    zone: &TimeZone,
) -> Failure {
    let message = format!(
        "new row for relation \"{}\" violates check constraint \"{check}\"",
        schema.name
    );
    let error = EffectError::new("23514", message)
        .of_table(schema.name.clone())
        .of_constraint(check)
        .with_detail(failing_row(schema, values, zone));
    Box::new(error)
}

/// The values of a row, each in its column's type.
pub(crate) fn row_values<'v>(
    schema: &'v TableSchema,
    row: &'v Row,
) -> impl Iterator<Item = Cow<'v, Value>> {
    let columns = 0..schema.columns.len() as u16;
    columns.map(|column| Cow::Owned(row.get(&schema.layout, ColumnIndex(column))))
}

/// The values of a row after some changes.
pub(crate) fn changed_values<'v>(
    schema: &'v TableSchema,
    row: &'v Row,
    changes: &'v [(ColumnIndex, Value)],
) -> impl Iterator<Item = Cow<'v, Value>> {
    let before = row_values(schema, row).enumerate();
    before.map(|(at, value)| {
        let change = changes.iter().find(|(column, _)| column.index() == at);
        change.map_or(value, |(_, value)| Cow::Borrowed(value))
    })
}

/// The longest value in the detail of an error, in bytes; PostgreSQL cuts there as well.
const SHOWN_BYTES_MAX: usize = 64;

/// The detail on a row that breaks a constraint.
fn failing_row<'v>(
    schema: &TableSchema,
    values: impl Iterator<Item = Cow<'v, Value>>,
    zone: &TimeZone,
) -> String {
    let shown = values.zip(schema.visible_columns()).map(|(value, column)| {
        if value.is_null() {
            return "null".to_owned();
        }
        // The row's owner computes it at commit.
        if matches!(*value, Value::Pending(_)) {
            return "\u{2026}".to_owned();
        }
        let mut text = format_value(&value, &column.data_type, zone);
        if text.len() > SHOWN_BYTES_MAX {
            let ends = (0..=SHOWN_BYTES_MAX).rev();
            let end = ends.into_iter().find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or(0));
            text.push_str("...");
        }
        text
    });
    let shown: Vec<String> = shown.collect();
    format!("Failing row contains ({}).", shown.join(", "))
}

/// Whether an expression over a row cannot fail or break its column's type, but for a number
/// beyond its domain, which [`RowPrograms::are_compatible`] rules out.
fn is_safe(
    expression: &Expression,
    schema: &TableSchema,
    to: &DataType,
    target: ColumnIndex,
    nullable: bool,
) -> bool {
    let fails = expression.any(&mut |e| match e {
        Expression::Arithmetic { operator, .. } => !matches!(
            operator,
            Operator::Add | Operator::Subtract | Operator::Multiply
        ),
        Expression::Cast { from, to, .. } => {
            // Numbers to numbers, and anything to a text of any length.
            let number = from.is_numeric() && to.is_numeric();
            !number
                && !matches!(
                    to,
                    DataType::Text | DataType::Varchar(Some(_)) | DataType::Char(_)
                )
        }
        Expression::Call { function, .. } => !matches!(
            function,
            Function::Left
                | Function::Right
                | Function::Upper
                | Function::Lower
                | Function::Concat(_)
                | Function::ConcatWith(_)
                | Function::Length
                | Function::Greatest
                | Function::Least
                | Function::Replace
                | Function::TrimBoth
                | Function::TrimLeft
                | Function::TrimRight
        ),
        _ => false,
    });
    let meets_null = !nullable
        && expression.any(&mut |e| {
            matches!(e, Expression::Column { column, .. } if schema.columns[*column].nullable)
        });
    let fits = match to {
        DataType::Varchar(Some(limit)) | DataType::Char(limit) => {
            fits_in(expression, *limit as usize, schema, target)
        }
        _ => true,
    };
    !fails && !meets_null && fits
}

/// Whether an output over a row cannot fail, but for a number beyond its domain.
fn is_safe_output(output: &Expression, schema: &TableSchema) -> bool {
    // A value that is returned has no column.
    let none = ColumnIndex(u16::MAX);
    let is_cut_off = |e: &Expression| match e {
        Expression::Cast {
            operand,
            to: DataType::Varchar(Some(limit)) | DataType::Char(limit),
            explicit: false,
            ..
        } => !fits_in(operand, *limit as usize, schema, none),
        _ => false,
    };
    !reads_row(output)
        || is_safe(output, schema, &DataType::Text, none, true) && !output.any(&mut { is_cut_off })
}

/// Whether a text expression never has more than `limit` characters.
fn fits_in(
    expression: &Expression,
    limit: usize,
    schema: &TableSchema,
    target: ColumnIndex,
) -> bool {
    let recurse = |e: &Expression| fits_in(e, limit, schema, target);
    match expression {
        Expression::Constant(Value::Text(text)) => text.chars().count() <= limit,
        Expression::Constant(Value::Null) => true,
        Expression::Column { column, .. } => match &schema.columns[*column].data_type {
            DataType::Varchar(Some(n)) | DataType::Char(n) => *n as usize <= limit,
            _ => *column == target.index(),
        },
        Expression::Cast { operand, .. } => recurse(operand),
        Expression::Case { .. } | Expression::Switch { .. } => expression.results().all(recurse),
        Expression::Coalesce(list) => list.iter().all(recurse),
        Expression::Call {
            function: Function::Left,
            arguments,
        } => {
            matches!(&arguments[1], Expression::Constant(Value::Int(n)) if (0..=limit as i64).contains(n))
                || recurse(&arguments[0])
        }
        _ => false,
    }
}
