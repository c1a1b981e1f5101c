//! Two replicas that have diverged, and the row that they merge into, as formulas.
//!
//! A row of the ancestor, of each of two replicas and of their merge is a cell for each column. The way a column is
//! written relates the four cells:
//!
//! * no type updates it: the four are equal;
//! * every update adds to it: each replica's cell is the ancestor's plus what was added there, and the merged cell
//!   is the ancestor's plus what both have added. Each statement adds any number of times: a constant so many
//!   times, or values of a parameter with the sum's sign. What one statement adds to two columns is one number, if
//!   nothing is rounded;
//! * every update assigns it: each replica has the ancestor's value or one that was assigned there, and the merge
//!   has the value of one of the replicas; if only one has assigned, of that one. Columns that the same statements
//!   assign come from the same replica, and from the same statement;
//! * otherwise it may be anything.
//!
//! So the formulas allow every state that two replicas reach by any number of calls, and also every state that one
//! more call beside any others reaches: nothing depends on the order of calls, or on where they ran. The omissions
//! (conditions of statements, how often one runs relative to another, the ranges of types) only allow more, never
//! less.

use std::collections::BTreeMap;

use anabranch_sql::summary::{Role, StatementSummary, Term, WriteClass};
use anabranch_types::{ColumnIndex, DataType, TableId, TableSchema, Value};

use super::NotProved;
use super::condition::{Cell, Cells, Kind, Reader, kind, number};
use crate::footprint::{Action, Footprint};
use crate::sign::Sign;
use crate::solve::{Formula, Linear, Problem, Rational, Relation, Sort};
use crate::term::surely_equal;

/// The four rows.
pub(super) struct Rows {
    pub(super) ancestor: Cells,
    pub(super) replicas: [Cells; 2],
    pub(super) merged: Cells,
    /// What each replica may have done.
    pub(super) steps: Vec<Step>,
}

/// What a statement may have done on one of the replicas.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The left replica, or the right one.
    pub(super) side: usize,
    /// The index of the update.
    pub(super) update: usize,
    /// What it has done.
    pub(super) effect: StatementEffect,
}

/// What a statement may have done, in the problem's variables.
#[derive(Clone, Debug)]
pub(super) enum StatementEffect {
    /// It has run so many times, adding constants.
    Ran(Linear),
    /// The sum of what it has added to a column, before negation.
    Added { column: ColumnIndex, sum: Linear },
    /// Whether it was the last to assign these columns.
    Assigned {
        columns: Vec<ColumnIndex>,
        last: Formula,
    },
    /// It may have computed the column.
    Computed(ColumnIndex),
}

/// How a column is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteKind {
    /// Not at all.
    Kept,
    /// By adding to it.
    Added,
    /// By assigning it.
    Assigned,
    /// In another way, or in several.
    Computed,
}

/// Returns how these updates write a column.
pub(super) fn write_kind(
    table: &TableSchema,
    updates: &[&Action],
    column: ColumnIndex,
) -> WriteKind {
    let classes: Vec<&WriteClass> = updates
        .iter()
        .filter_map(|a| a.write(column).map(|w| &w.class))
        .collect();
    let number = matches!(
        kind(&table.columns[column.index()].data_type),
        Kind::Number { .. }
    );
    if classes.is_empty() {
        WriteKind::Kept
    } else if classes.iter().all(|c| matches!(c, WriteClass::Add { .. })) && number {
        WriteKind::Added
    } else if classes.iter().all(|c| matches!(c, WriteClass::Assign(_))) {
        WriteKind::Assigned
    } else {
        WriteKind::Computed
    }
}

/// Builds the rows.
pub(super) struct Merge<'a, 'r> {
    footprint: &'a Footprint<'a>,
    table: &'a TableSchema,
    /// What updates the columns.
    updates: Vec<&'a Action>,
    /// Which of them each replica runs.
    runs: [Vec<bool>; 2],
    problem: &'r mut Problem,
    reader: &'r mut Reader<'a>,
}

/// The names of the replicas.
const SIDES: [&str; 2] = ["on the left", "on the right"];

impl<'a, 'r> Merge<'a, 'r> {
    /// For rows of this table, where the left replica runs every update and the right one only those of the types
    /// that `free` admits.
    pub(super) fn new(
        footprint: &'a Footprint<'a>,
        table: TableId,
        updates: &[&'a Action],
        free: &dyn Fn(usize) -> bool,
        problem: &'r mut Problem,
        reader: &'r mut Reader<'a>,
    ) -> Merge<'a, 'r> {
        Merge {
            footprint,
            table: footprint.table(table),
            runs: [
                vec![true; updates.len()],
                updates.iter().map(|a| free(a.owner)).collect(),
            ],
            updates: updates.to_vec(),
            problem,
            reader,
        }
    }

    /// The rows, restricted to these columns.
    pub(super) fn rows(mut self, columns: &[ColumnIndex]) -> Result<Rows, NotProved> {
        let mut rows = Rows {
            ancestor: Cells::new(),
            replicas: [Cells::new(), Cells::new()],
            merged: Cells::new(),
            steps: Vec::new(),
        };
        let mut groups: BTreeMap<Vec<usize>, Vec<ColumnIndex>> = BTreeMap::new();
        let mut added = Vec::new();
        for column in columns {
            let before = self.cell(*column, "before")?;
            match write_kind(self.table, &self.updates, *column) {
                WriteKind::Kept => {
                    for row in rows.replicas.iter_mut().chain([&mut rows.merged]) {
                        row.insert(*column, before.clone());
                    }
                }
                WriteKind::Added => added.push(*column),
                WriteKind::Assigned => {
                    let writers = (0..self.updates.len())
                        .filter(|update| self.updates[*update].write(*column).is_some());
                    groups.entry(writers.collect()).or_default().push(*column);
                }
                WriteKind::Computed => {
                    for (side, name) in SIDES.iter().enumerate() {
                        let cell = self.cell(*column, name)?;
                        rows.replicas[side].insert(*column, cell);
                        let writers = (0..self.updates.len()).filter(|update| {
                            self.runs[side][*update]
                                && self.updates[*update].write(*column).is_some()
                        });
                        rows.steps.extend(writers.map(|update| Step {
                            side,
                            update,
                            effect: StatementEffect::Computed(*column),
                        }));
                    }
                    let cell = self.cell(*column, "merged")?;
                    rows.merged.insert(*column, cell);
                }
            }
            rows.ancestor.insert(*column, before);
        }
        self.add(&added, &mut rows)?;
        for (writers, columns) in groups {
            self.assign(&writers, &columns, &mut rows)?;
        }
        Ok(rows)
    }

    fn data_type(&self, column: ColumnIndex) -> &'a DataType {
        &self.table.columns[column.index()].data_type
    }

    /// A cell of which only the type is known.
    fn cell(&mut self, column: ColumnIndex, name: &str) -> Result<Cell, NotProved> {
        let declared = &self.table.columns[column.index()];
        let name = format!("{} {name}", declared.name);
        let kind = kind(&declared.data_type);
        let sort = match kind {
            Kind::Number { whole: false } => Sort::Fraction,
            _ => Sort::Whole,
        };
        let null = match declared.nullable {
            true => self.problem.flag(format!("{name} is NULL")),
            false => Formula::Constant(false),
        };
        let value = Linear::variable(self.problem.variable(name, sort));
        if kind == Kind::Flag {
            let [none, one] = [Rational::ZERO, Rational::ONE].map(Linear::constant);
            let from = Formula::compare(&none, Relation::AtMost, &value)?;
            let to = Formula::compare(&value, Relation::AtMost, &one)?;
            self.problem.assert(Formula::all([from, to]));
        }
        Ok(Cell { value, null })
    }

    // --- Additions ---------------------------------------------------------------------------

    fn add(&mut self, columns: &[ColumnIndex], rows: &mut Rows) -> Result<(), NotProved> {
        for column in columns {
            let cell = rows.ancestor[column].clone();
            rows.merged.insert(*column, cell);
        }
        for (side, name) in SIDES.iter().enumerate() {
            for column in columns {
                let cell = rows.ancestor[column].clone();
                rows.replicas[side].insert(*column, cell);
            }
            for update in 0..self.updates.len() {
                if self.runs[side][update] {
                    self.add_by(update, columns, side, name, rows)?;
                }
            }
        }
        Ok(())
    }

    /// The sums that one statement has added on one side.
    fn add_by(
        &mut self,
        update: usize,
        columns: &[ColumnIndex],
        side: usize,
        name: &str,
        rows: &mut Rows,
    ) -> Result<(), NotProved> {
        let action = self.updates[update];
        let mut times = None;
        // The sum that was added of one value, if columns store it without rounding.
        let mut sums: Vec<(&Term, Linear)> = Vec::new();
        for column in columns {
            let Some(WriteClass::Add { term, negated }) = action.write(*column).map(|w| &w.class)
            else {
                continue;
            };
            let declared = &self.table.columns[column.index()].name;
            let exact = self.is_exact(action, term, *column);
            let sum = match self.constant(term)? {
                Some(number) if exact => {
                    if times.is_none() {
                        let called = format!("how often statement {update} ran {name}");
                        let variable = Linear::variable(self.problem.variable(called, Sort::Whole));
                        let none = Linear::constant(Rational::ZERO);
                        let some = Formula::compare(&none, Relation::AtMost, &variable)?;
                        self.problem.assert(some);
                        rows.steps.push(Step {
                            side,
                            update,
                            effect: StatementEffect::Ran(variable.clone()),
                        });
                        times = Some(variable);
                    }
                    let Some(times) = &times else { continue };
                    times.times(number)?
                }
                _ => {
                    let known = sums.iter().find(|(of, _)| exact && surely_equal(of, term));
                    match known {
                        Some((_, sum)) => sum.clone(),
                        None => {
                            let sort = match kind(self.data_type(*column)) {
                                Kind::Number { whole: true } => Sort::Whole,
                                _ => Sort::Fraction,
                            };
                            let called =
                                format!("what statement {update} added to {declared} {name}");
                            let sum = Linear::variable(self.problem.variable(called, sort));
                            let sign = self.footprint.sign(action.owner, term);
                            self.demand_sign(&sum, sign)?;
                            if exact {
                                sums.push((term, sum.clone()));
                            }
                            rows.steps.push(Step {
                                side,
                                update,
                                effect: StatementEffect::Added {
                                    column: *column,
                                    sum: sum.clone(),
                                },
                            });
                            sum
                        }
                    }
                }
            };
            let moved = match negated {
                true => sum.times(Rational::whole(-1))?,
                false => sum,
            };
            // Adding NULL makes a column NULL for good.
            let null = match term {
                Term::Constant(value) if *value != Value::Null => Formula::Constant(false),
                _ if !self.table.columns[column.index()].nullable => Formula::Constant(false),
                _ => {
                    let called = format!("statement {update} made {declared} NULL {name}");
                    self.problem.flag(called)
                }
            };
            for row in [&mut rows.replicas[side], &mut rows.merged] {
                if let Some(cell) = row.get_mut(column) {
                    cell.value = cell.value.plus(&moved)?;
                    cell.null = Formula::any([cell.null.clone(), null.clone()]);
                }
            }
        }
        Ok(())
    }

    fn demand_sign(&mut self, sum: &Linear, sign: Sign) -> Result<(), NotProved> {
        let none = Linear::constant(Rational::ZERO);
        let known = match sign {
            Sign::Positive => Formula::compare(&none, Relation::AtMost, sum)?,
            Sign::Negative => Formula::compare(sum, Relation::AtMost, &none)?,
            Sign::Either => return Ok(()),
        };
        self.problem.assert(known);
        Ok(())
    }

    /// The number that a term is, if it is one.
    fn constant(&self, term: &Term) -> Result<Option<Rational>, NotProved> {
        Ok(match term {
            Term::Constant(Value::Int(n)) => Some(Rational::whole(i128::from(*n))),
            Term::Constant(Value::Numeric(decimal)) => Some(number(*decimal)?),
            _ => None,
        })
    }

    /// Whether a column stores a value without rounding.
    fn is_exact(&self, action: &Action, term: &Term, column: ColumnIndex) -> bool {
        let into = self.data_type(column);
        let (whole, scale) = match into {
            DataType::Int2 | DataType::Int4 | DataType::Int8 => (true, Some(0)),
            DataType::Numeric(bounds) => (false, bounds.map(|bounds| bounds.scale)),
            _ => return false,
        };
        let fits = |data_type: Option<&DataType>| match data_type {
            Some(DataType::Int2 | DataType::Int4 | DataType::Int8) => true,
            Some(DataType::Numeric(_)) => !whole && scale.is_none(),
            _ => false,
        };
        let summary = self.footprint.types[action.owner].summary;
        match term {
            Term::Constant(Value::Int(_)) => true,
            Term::Constant(Value::Numeric(decimal)) => {
                scale.is_none_or(|scale| decimal.normalized().scale() <= scale)
            }
            Term::Parameter(p) => fits(summary.parameters.get(*p).map(|(_, t)| t)),
            Term::Column {
                statement,
                access,
                column,
            } => {
                let read = self.footprint.statement(action.owner, *statement);
                let read = read.and_then(|s: &StatementSummary| s.accesses.get(*access));
                let columns = read.map(|a| &self.footprint.table(a.table).columns);
                fits(
                    columns
                        .and_then(|c| c.get(column.index()))
                        .map(|c| &c.data_type),
                )
            }
            _ => false,
        }
    }

    // --- Assignments -------------------------------------------------------------------------

    /// Relates columns that the same statements assign.
    fn assign(
        &mut self,
        writers: &[usize],
        columns: &[ColumnIndex],
        rows: &mut Rows,
    ) -> Result<(), NotProved> {
        let mut assigned = [Formula::Constant(false), Formula::Constant(false)];
        for (side, name) in SIDES.iter().enumerate() {
            let running: Vec<usize> = writers
                .iter()
                .copied()
                .filter(|update| self.runs[side][*update])
                .collect();
            if running.is_empty() {
                for column in columns {
                    let cell = rows.ancestor[column].clone();
                    rows.replicas[side].insert(*column, cell);
                }
                continue;
            }
            for column in columns {
                let cell = self.cell(*column, name)?;
                rows.replicas[side].insert(*column, cell);
            }
            let mut last = Vec::new();
            for update in running {
                let it = self
                    .problem
                    .flag(format!("statement {update} was last {name}"));
                let what = self.assigned_by(update, columns, &rows.replicas[side])?;
                self.problem.assert(it.clone().implies(what));
                rows.steps.push(Step {
                    side,
                    update,
                    effect: StatementEffect::Assigned {
                        columns: columns.to_vec(),
                        last: it.clone(),
                    },
                });
                last.push(it);
            }
            let unassigned = Formula::any(last.clone()).negated();
            let mut same = Vec::new();
            for column in columns {
                same.push(rows.ancestor[column].equals(&rows.replicas[side][column])?);
            }
            self.problem.assert(unassigned.implies(Formula::all(same)));
            assigned[side] = Formula::any(last);
        }
        if assigned[1] == Formula::Constant(false) {
            for column in columns {
                let cell = rows.replicas[0][column].clone();
                rows.merged.insert(*column, cell);
            }
            return Ok(());
        }
        let left = self
            .problem
            .flag(format!("the left one is later on {columns:?}"));
        let [by_left, by_right] = assigned;
        let only_left = Formula::all([by_left.clone(), by_right.clone().negated()]);
        let only_right = Formula::all([by_right, by_left.negated()]);
        self.problem.assert(only_left.implies(left.clone()));
        self.problem
            .assert(only_right.implies(left.clone().negated()));
        for column in columns {
            let merged = self.cell(*column, "merged")?;
            let from_left = merged.equals(&rows.replicas[0][column])?;
            let from_right = merged.equals(&rows.replicas[1][column])?;
            self.problem.assert(left.clone().implies(from_left));
            self.problem
                .assert(left.clone().negated().implies(from_right));
            rows.merged.insert(*column, merged);
        }
        Ok(())
    }

    /// The row's values in these columns if a statement was the last to assign them.
    fn assigned_by(
        &mut self,
        update: usize,
        columns: &[ColumnIndex],
        row: &Cells,
    ) -> Result<Formula, NotProved> {
        let action = self.updates[update];
        let mut known = Vec::new();
        let mut seen: Vec<(&Term, &DataType, ColumnIndex)> = Vec::new();
        for column in columns {
            let Some(WriteClass::Assign(term)) = action.write(*column).map(|w| &w.class) else {
                continue;
            };
            let data_type = self.data_type(*column);
            let cell = &row[column];
            let present = cell.null.clone().negated();
            match term {
                Term::Constant(Value::Null) => known.push(cell.null.clone()),
                Term::Constant(value) => {
                    known.push(present);
                    if let Some(code) = self.code(value, action, term, *column)? {
                        known.push(Formula::equal(&cell.value, &Linear::constant(code))?);
                    }
                }
                Term::Now | Term::Generated => known.push(present),
                _ => {
                    let sign = self.footprint.sign(action.owner, term);
                    let none = Linear::constant(Rational::ZERO);
                    let is_number = matches!(kind(data_type), Kind::Number { .. });
                    let bound = match sign {
                        Sign::Positive if is_number => {
                            Formula::compare(&none, Relation::AtMost, &cell.value)?
                        }
                        Sign::Negative if is_number => {
                            Formula::compare(&cell.value, Relation::AtMost, &none)?
                        }
                        _ => Formula::Constant(true),
                    };
                    known.push(Formula::any([cell.null.clone(), bound]));
                    let same = seen
                        .iter()
                        .find(|(of, also, _)| *also == data_type && surely_equal(of, term));
                    match same {
                        Some((.., other)) => known.push(cell.equals(&row[other])?),
                        None => seen.push((term, data_type, *column)),
                    }
                }
            }
        }
        Ok(Formula::all(known))
    }

    /// The number that represents a constant in a column, if known.
    fn code(
        &mut self,
        value: &Value,
        action: &Action,
        term: &Term,
        column: ColumnIndex,
    ) -> Result<Option<Rational>, NotProved> {
        Ok(match (value, kind(self.data_type(column))) {
            (Value::Int(_) | Value::Numeric(_), Kind::Number { .. })
                if self.is_exact(action, term, column) =>
            {
                self.constant(term)?
            }
            (Value::Text(text), Kind::Text) => Some(self.reader.text(text.as_str())),
            (Value::Bool(truth), Kind::Flag) => Some(Rational::whole(i128::from(*truth))),
            _ => None,
        })
    }
}

/// The updates of these columns.
pub(super) fn updates<'a>(
    footprint: &'a Footprint<'a>,
    table: TableId,
    columns: &[ColumnIndex],
) -> Vec<&'a Action> {
    let writes = |a: &&Action| columns.iter().any(|c| a.write(*c).is_some());
    footprint
        .on_table(table)
        .filter(|a| a.access.role == Role::Update)
        .filter(writes)
        .collect()
}
