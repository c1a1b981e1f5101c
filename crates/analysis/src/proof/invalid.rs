//! Invalid merges that the solver has found, converted to a row and calls that can be run.
//!
//! A model of the question has the row before replicas diverge, what each of them adds and assigns, and a merged
//! row that violates the constraint. The question omits much ([`super::merge`]), so a model is no counterexample.
//! Here it becomes a row and calls; [`crate::explore`] runs them and sees whether the constraint breaks. Since
//! nothing is proved here, a model may have to satisfy more than the question: that numbers fit into their types,
//! or that they exceed some number that the procedures compare with.
//!
//! *Why each statement runs at most once on a replica.* Take a smallest set of calls that merge into an invalid
//! state. Without the last one on the left, and without the last one on the right, they merge into a valid state:
//! let replicas diverge there, and each of them has one call to run.

use anabranch_sql::summary::{Comparison, Term, WriteClass};
use anabranch_types::{ColumnIndex, DataType, Decimal, TableId, Value};

use super::condition::{Cell, Cells, Kind, kind};
use super::merge::{StatementEffect, Step};
use super::{Check, NotProved, Proof, Question};
use crate::footprint::{Action, Footprint};
use crate::solve::{Answer, Assigned, Formula, Linear, Rational, Relation, Solver, Sort};

/// The most constants of the procedures' text that models are asked to exceed.
const NUMBERS_MAX: usize = 6;

/// A row, and calls that may merge into an invalid one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InvalidMerge {
    /// The row's table.
    pub(crate) table: TableId,
    /// Its values before replicas diverge, in the columns that the question uses.
    pub(crate) row: Vec<(ColumnIndex, Value)>,
    /// The calls.
    pub(crate) calls: Vec<ModelCall>,
    /// Whole numbers of the model, for values of which nothing is known.
    pub(crate) numbers: Vec<i64>,
}

/// A call, as far as the model determines it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelCall {
    /// Whether the left replica runs it.
    pub(crate) on_left: bool,
    /// Its type.
    pub(crate) owner: usize,
    /// Its parameters, by index, with their values.
    pub(crate) arguments: Vec<(usize, Value)>,
    /// The parameters that equal the row's value in a column.
    pub(crate) of_row: Vec<(ColumnIndex, usize)>,
    /// Values that it writes or adds to columns without a known parameter.
    pub(crate) written: Vec<Value>,
    /// Whether it is only a guess that the model's call runs.
    pub(crate) guessed: bool,
}

/// Further requirements on a model.
#[derive(Clone, Copy, Debug)]
struct ModelRequirement {
    /// Whether fractions are whole numbers.
    whole: bool,
    /// Whether a parameter that is added in two places is one number there.
    tied: bool,
    /// Which numbers exceed a bound.
    exceeding: Option<(Numbers, i64)>,
}

/// Which numbers of a model exceed a bound, or stay below it.
#[derive(Clone, Copy, Debug)]
enum Numbers {
    /// Every amount that is added, if any.
    Added,
    /// The numbers of the row before replicas diverge.
    Ancestor,
    /// The numbers of the replicas.
    Replicas,
    /// The numbers of the replicas are at most the bound.
    ReplicasAtMost,
}

/// Finds invalid merges in which a type runs beside others, until `enough` accepts one. Returns whether there are
/// any, as far as the solver knows.
pub(crate) fn invalid_merges<'a>(
    footprint: &'a Footprint<'a>,
    check: &Check<'a>,
    owner: usize,
    numbers: &[i64],
    mut enough: impl FnMut(&InvalidMerge) -> bool,
) -> bool {
    let solver = Solver::default();
    let Ok(proof) = Proof::new(footprint, &solver, check) else {
        return false;
    };
    // Without a call on the right, the merged row is the left one, which is valid; unless a column is computed, of
    // which the question says nothing.
    let is_owner = |of: usize| of == owner;
    if !matches!(proof.refute(&is_owner), Ok(Answer::Satisfiable(_))) {
        return false;
    }
    let mut found: Vec<InvalidMerge> = Vec::new();
    for wanted in model_requirements(numbers) {
        let Ok(Some(merge)) = proof.invalid_merge(&is_owner, wanted) else {
            continue;
        };
        if found.contains(&merge) {
            continue;
        }
        if enough(&merge) {
            break;
        }
        found.push(merge);
    }
    true
}

/// The requirements that models are asked for, one after the other: those that are easiest to run first.
fn model_requirements(numbers: &[i64]) -> Vec<ModelRequirement> {
    let easy = ModelRequirement {
        whole: true,
        tied: true,
        exceeding: None,
    };
    let untied = ModelRequirement {
        whole: false,
        tied: false,
        exceeding: None,
    };
    let mut model_requirements = vec![easy, untied];
    for number in numbers.iter().take(NUMBERS_MAX) {
        let exceeding = [
            Numbers::Added,
            Numbers::Ancestor,
            Numbers::Replicas,
            Numbers::ReplicasAtMost,
        ];
        model_requirements.extend(exceeding.map(|of| ModelRequirement {
            exceeding: Some((of, *number)),
            ..easy
        }));
    }
    model_requirements
}

impl<'a> Proof<'a, '_> {
    /// Asks for an invalid merge that meets these requirements.
    fn invalid_merge(
        &self,
        free: &dyn Fn(usize) -> bool,
        wanted: ModelRequirement,
    ) -> Result<Option<InvalidMerge>, NotProved> {
        let mut question = self.question(free)?;
        self.ask_for(&mut question, wanted)?;
        match self.solver.decide(&question.problem) {
            Answer::Satisfiable(Some(model)) => Ok(Some(self.read_model(&question, &model)?)),
            _ => Ok(None),
        }
    }

    fn data_type(&self, column: ColumnIndex) -> &'a DataType {
        &self.footprint.table(self.table).columns[column.index()].data_type
    }

    // --- Further requirements ----------------------------------------------------------------

    fn ask_for(
        &self,
        question: &mut Question<'_>,
        wanted: ModelRequirement,
    ) -> Result<(), NotProved> {
        let rows = &question.rows;
        let [left, right] = &rows.replicas;
        let mut numbers: Vec<(ColumnIndex, Linear)> = Vec::new();
        for row in [&rows.ancestor, left, right, &rows.merged] {
            numbers.extend(
                row.iter()
                    .map(|(column, cell)| (*column, cell.value.clone())),
            );
        }
        let mut asked = Vec::new();
        // The sum that a parameter has added on a side, by type and parameter.
        let mut sums: Vec<(usize, usize, &Term, Linear)> = Vec::new();
        for step in &rows.steps {
            let action = self.updates[step.update];
            match &step.effect {
                StatementEffect::Ran(times) => {
                    let once = Linear::constant(Rational::ONE);
                    asked.push(Formula::compare(times, Relation::AtMost, &once)?);
                }
                StatementEffect::Added { column, sum } => {
                    numbers.push((*column, sum.clone()));
                    let Some(WriteClass::Add { term, .. }) =
                        action.write(*column).map(|w| &w.class)
                    else {
                        continue;
                    };
                    let other = sums.iter().find(|(side, owner, of, _)| {
                        (*side, *owner) == (step.side, action.owner) && *of == term
                    });
                    match other {
                        Some((.., other)) if wanted.tied => asked.push(Formula::equal(sum, other)?),
                        _ => sums.push((step.side, action.owner, term, sum.clone())),
                    }
                }
                StatementEffect::Assigned { last, .. } => {
                    let runs = rows
                        .steps
                        .iter()
                        .filter(|other| (other.side, other.update) == (step.side, step.update));
                    for run in runs {
                        if let StatementEffect::Ran(times) = &run.effect {
                            let one = Linear::constant(Rational::ONE);
                            let some = Formula::compare(&one, Relation::AtMost, times)?;
                            asked.push(last.clone().implies(some));
                        }
                    }
                }
                StatementEffect::Computed(_) => {}
            }
        }
        if let Some((which, number)) = wanted.exceeding {
            asked.extend(self.exceeding(question, which, number)?);
        }
        for (column, value) in numbers {
            let data_type = self.data_type(column);
            if let Some(most) = most(data_type) {
                for one in [value.clone(), value.times(Rational::whole(-1))?] {
                    let most = Linear::constant(Rational::whole(most));
                    asked.push(Formula::compare(&one, Relation::AtMost, &most)?);
                }
            }
            if wanted.whole && kind(data_type) == (Kind::Number { whole: false }) {
                let whole = question.problem.variable("a whole number", Sort::Whole);
                asked.push(Formula::equal(&value, &Linear::variable(whole))?);
            }
        }
        for formula in asked {
            question.problem.assert(formula);
        }
        Ok(())
    }

    fn exceeding(
        &self,
        question: &Question<'_>,
        which: Numbers,
        number: i64,
    ) -> Result<Vec<Formula>, NotProved> {
        let limit = Linear::constant(Rational::whole(i128::from(number)));
        let rows = &question.rows;
        let mut asked = Vec::new();
        if let Numbers::Added = which {
            for step in &rows.steps {
                let StatementEffect::Added { sum, .. } = &step.effect else {
                    continue;
                };
                let negated = sum.times(Rational::whole(-1))?;
                asked.push(Formula::any([
                    Formula::equal(sum, &Linear::constant(Rational::ZERO))?,
                    Formula::compare(&limit, Relation::AtMost, sum)?,
                    Formula::compare(&limit, Relation::AtMost, &negated)?,
                ]));
            }
            return Ok(asked);
        }
        let [left, right] = &rows.replicas;
        let those: &[&Cells] = match which {
            Numbers::Ancestor => &[&rows.ancestor],
            _ => &[left, right],
        };
        for (column, cell) in those.iter().copied().flatten() {
            if !matches!(kind(self.data_type(*column)), Kind::Number { .. }) {
                continue;
            }
            let bound = match which {
                Numbers::ReplicasAtMost => Formula::compare(&cell.value, Relation::AtMost, &limit)?,
                _ => Formula::compare(&limit, Relation::AtMost, &cell.value)?,
            };
            asked.push(Formula::any([cell.null.clone(), bound]));
        }
        Ok(asked)
    }

    // --- Reading a model ---------------------------------------------------------------------

    fn read_model(
        &self,
        question: &Question<'_>,
        model: &[Assigned],
    ) -> Result<InvalidMerge, NotProved> {
        let rows = &question.rows;
        let mut row = Vec::new();
        for (column, cell) in &rows.ancestor {
            let value = value_of(question, model, cell, self.data_type(*column))?;
            row.extend(value.map(|value| (*column, value)));
        }
        let mut numbers: Vec<i64> = Vec::new();
        for assigned in model {
            if let Assigned::Number(number) = assigned
                && number.is_whole()
                && let Ok(number) = i64::try_from(number.numerator())
                && !numbers.contains(&number)
            {
                numbers.push(number);
            }
        }
        let mut calls = Vec::new();
        for side in 0..rows.replicas.len() {
            let mut owners: Vec<usize> = self.updates.iter().map(|a| a.owner).collect();
            owners.dedup();
            for owner in owners {
                let steps = rows.steps.iter();
                let steps: Vec<&Step> = steps
                    .filter(|s| s.side == side && self.updates[s.update].owner == owner)
                    .collect();
                calls.extend(self.call(question, model, &steps)?);
            }
        }
        Ok(InvalidMerge {
            table: self.table,
            row,
            calls,
            numbers,
        })
    }

    /// The call of one type on one replica, if there is one.
    fn call(
        &self,
        question: &Question<'_>,
        model: &[Assigned],
        steps: &[&Step],
    ) -> Result<Option<ModelCall>, NotProved> {
        let before = &question.rows.ancestor;
        let (mut surely, mut perhaps) = (false, false);
        let mut arguments: Vec<(usize, Value)> = Vec::new();
        let mut of_row: Vec<(ColumnIndex, usize)> = Vec::new();
        let mut written: Vec<Value> = Vec::new();
        for step in steps {
            let action = self.updates[step.update];
            let after = &question.rows.replicas[step.side];
            let mut values: Vec<(ColumnIndex, Cell)> = Vec::new();
            let runs = match &step.effect {
                StatementEffect::Ran(times) => {
                    times.value(model)?.is_some_and(Rational::is_positive)
                }
                StatementEffect::Added { column, sum } => {
                    let cell = Cell {
                        value: sum.clone(),
                        null: Formula::Constant(false),
                    };
                    values.push((*column, cell));
                    sum.value(model)?.is_some_and(|sum| !sum.is_zero())
                }
                StatementEffect::Assigned { columns, last } => {
                    values.extend(
                        columns
                            .iter()
                            .map(|column| (*column, after[column].clone())),
                    );
                    last.is_true(model)?
                }
                StatementEffect::Computed(column) => {
                    values.push((*column, computed(action, *column, before, after)?));
                    !before[column].equals(&after[column])?.is_true(model)?
                }
            };
            if !runs {
                continue;
            }
            match step.effect {
                StatementEffect::Computed(_) => perhaps = true,
                _ => surely = true,
            }
            of_row.extend(places(action));
            for (column, cell) in values {
                let parameter = self.parameter(action, column);
                let data_type = parameter.map_or(self.data_type(column), |(_, of)| of);
                let Some(value) = value_of(question, model, &cell, data_type)? else {
                    continue;
                };
                match parameter {
                    Some((p, _)) => {
                        arguments.retain(|(of, _)| *of != p);
                        arguments.push((p, value));
                    }
                    None => written.push(value),
                }
            }
        }
        Ok(steps
            .first()
            .filter(|_| surely || perhaps)
            .map(|step| ModelCall {
                on_left: step.side == 0,
                owner: self.updates[step.update].owner,
                arguments,
                of_row,
                written,
                guessed: !surely,
            }))
    }

    /// The parameter that is written to a column, or added to it.
    fn parameter(&self, action: &Action, column: ColumnIndex) -> Option<(usize, &'a DataType)> {
        let (WriteClass::Assign(term) | WriteClass::Add { term, .. }) =
            &action.write(column)?.class
        else {
            return None;
        };
        let (Term::Parameter(p) | Term::Element(p)) = term else {
            return None;
        };
        let summary = self.footprint.types[action.owner].summary;
        let (_, data_type) = summary.parameters.get(*p)?;
        Some((*p, data_type))
    }
}

/// A guess of the parameter from which a replica has computed a column.
fn computed(
    action: &Action,
    column: ColumnIndex,
    before: &Cells,
    after: &Cells,
) -> Result<Cell, NotProved> {
    let mut cell = after[&column].clone();
    if let Some(WriteClass::Add { negated, .. }) = action.write(column).map(|w| &w.class) {
        let (new, old) = (&cell.value, &before[&column].value);
        cell.value = match negated {
            true => old.minus(new)?,
            false => new.minus(old)?,
        };
    }
    Ok(cell)
}

/// The parameters that equal the row's value in a column.
fn places(action: &Action) -> impl Iterator<Item = (ColumnIndex, usize)> + '_ {
    let equal = |c: &&anabranch_sql::summary::Condition| c.comparison == Comparison::Equal;
    let conditions = action.access.conditions.iter().filter(equal);
    conditions.filter_map(|condition| match condition.term {
        Term::Parameter(p) | Term::Element(p) => Some((condition.column, p)),
        _ => None,
    })
}

/// The largest value of a number type, if there is one.
fn most(data_type: &DataType) -> Option<i128> {
    match data_type {
        DataType::Int2 => Some(i128::from(i16::MAX)),
        DataType::Int4 => Some(i128::from(i32::MAX)),
        DataType::Int8 => Some(i128::from(i64::MAX)),
        DataType::Numeric(Some(bounds)) => {
            let digits = u32::from(bounds.precision.saturating_sub(bounds.scale));
            Some(10_i128.checked_pow(digits)? - 1)
        }
        _ => None,
    }
}

/// The value of a cell in a model, as a value of a type; for an array, its only element. `None` if the model does
/// not determine it.
fn value_of(
    question: &Question<'_>,
    model: &[Assigned],
    cell: &Cell,
    data_type: &DataType,
) -> Result<Option<Value>, NotProved> {
    if let DataType::Array(of) = data_type {
        let value = value_of(question, model, cell, of)?;
        return Ok(value.map(|value| Value::Array(vec![value].into())));
    }
    if cell.null.is_true(model)? {
        return Ok(Some(Value::Null));
    }
    let Some(of) = cell.value.value(model)? else {
        return Ok(None);
    };
    Ok(match kind(data_type) {
        Kind::Text => Some(Value::text(question.reader.text_of(of))),
        _ => number(of, data_type),
    })
}

/// Converts a number to a value of a type.
fn number(of: Rational, data_type: &DataType) -> Option<Value> {
    let whole = of.is_whole().then(|| of.numerator());
    Some(match data_type {
        DataType::Int2 | DataType::Int4 | DataType::Int8 => Value::Int(whole?.try_into().ok()?),
        DataType::Bool => Value::Bool(whole? == 1),
        DataType::Timestamp | DataType::TimestampTz => Value::Timestamp(whole?.try_into().ok()?),
        DataType::Date => Value::Date(whole?.try_into().ok()?),
        DataType::Numeric(bounds) => {
            let scale = bounds.map_or(10, |bounds| bounds.scale);
            let factor = Rational::whole(10_i128.checked_pow(u32::from(scale))?);
            let scaled = of.times(factor).ok()?;
            let scaled = scaled.is_whole().then(|| scaled.numerator())?;
            Value::Numeric(Decimal::from_parts(scaled, scale).ok()?)
        }
        _ => return None,
    })
}
