//! Checks of a bound at the beginning of a procedure: `IF balance < p_amount THEN RAISE EXCEPTION …`.
//!
//! Another transaction that moves the column away from the bound does not change what such a call does. Only values are
//! taken that the call uses for such comparisons alone, and comparisons with what is known before the call reads.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_types::{ColumnIndex, DataType};

use super::absence::{is_lookup, leaves};
use super::analyze::assigned_by;
use super::{Code, CompiledProcedure, Computed, Outcome};
use crate::{
    bind::term::RawTerm,
    expression::{Expression, Operator, Relation},
    plan::{statement::StatementKind, walk},
    summary::Comparison,
};

/// The checks of a procedure, by the sites of its statements.
#[derive(Default)]
pub(super) struct Bounds {
    /// Queries and UPDATEs that find a row in each call that writes anything.
    pub(super) present: BTreeSet<usize>,
    /// Columns of the row that a query finds, with a comparison that holds, or is NULL, in each call that writes
    /// anything.
    pub(super) compared: BTreeMap<usize, Vec<(ColumnIndex, Comparison)>>,
}

/// Finds the checks of a procedure, if no other procedure calls it.
pub(super) fn bounds(procedure: &CompiledProcedure) -> Bounds {
    let mut found = Bounds::default();
    found.present.extend(only_update(procedure));
    let reader = Reader::new(procedure);
    // The variables that hold a column's value, and the comparisons of each that were recognised.
    let mut held: BTreeMap<usize, (usize, ColumnIndex)> = BTreeMap::new();
    let mut checks: BTreeMap<usize, Vec<Comparison>> = BTreeMap::new();
    // The statement whose result FOUND tells.
    let mut last = None;
    // Whether variables take more than constants from it.
    let mut is_told = false;
    for code in &procedure.body {
        match code {
            Code::Sql { site, into, .. } => {
                let statement = &procedure.statements[*site].statement;
                let is_query = matches!(statement.kind, StatementKind::Query(_));
                if !is_query {
                    let next = procedure
                        .body
                        .iter()
                        .skip_while(|c| !std::ptr::eq(*c, code));
                    if reader.is_update(*site)
                        && let Some(code) = next.into_iter().nth(1)
                        && reader.leaves_if_not_found(code)
                    {
                        found.present.insert(*site);
                    }
                    break;
                }
                last = is_lookup(statement).then_some(*site);
                let constant = |term: &RawTerm| matches!(term, RawTerm::Constant(_));
                is_told = !into
                    .iter()
                    .zip(&statement.terms)
                    .all(|(_, term)| constant(term));
                for (receiver, term) in into.iter().zip(&statement.terms) {
                    if let (
                        Some(site),
                        RawTerm::Column {
                            access: 0,
                            column,
                            offset: 0,
                        },
                    ) = (last, term)
                        && receiver.cast.is_none()
                    {
                        held.insert(receiver.slot, (site, *column));
                    }
                }
            }
            Code::If {
                branches,
                otherwise,
            } => {
                let ([(condition, body)], []) = (branches.as_slice(), otherwise.as_slice()) else {
                    break;
                };
                if !leaves(body) {
                    break;
                }
                if reader.leaves_if_not_found(code) {
                    // What else it has found may be used.
                    found.present.extend(last.filter(|_| !is_told));
                    continue;
                }
                match condition {
                    Computed::Pure(condition) => {
                        for (slot, comparison) in reader.refused(condition) {
                            checks.entry(slot).or_default().push(comparison);
                        }
                    }
                    Computed::Query { .. } => last = None,
                }
            }
            _ => break,
        }
    }
    for (slot, comparisons) in checks {
        let Some((site, column)) = held.get(&slot) else {
            continue;
        };
        if reader.uses(slot) == comparisons.len() && reader.is_assigned_once(slot) {
            let of_site = found.compared.entry(*site).or_default();
            of_site.extend(comparisons.into_iter().map(|c| (*column, c)));
        }
    }
    found
}

/// The UPDATE that is all that a procedure writes.
fn only_update(procedure: &CompiledProcedure) -> Option<usize> {
    let writes = |site: &usize| {
        !matches!(
            procedure.statements[*site].statement.kind,
            StatementKind::Query(_)
        )
    };
    let mut sites = (0..procedure.statements.len()).filter(writes);
    let (Some(site), None) = (sites.next(), sites.next()) else {
        return None;
    };
    let statement = &procedure.statements[site];
    let is_update = matches!(statement.statement.kind, StatementKind::Update(_));
    (is_update && !statement.in_loop && procedure.called_statements == 0).then_some(site)
}

struct Reader<'p> {
    procedure: &'p CompiledProcedure,
    /// The variables that some statement of the body assigns.
    assigned: BTreeSet<usize>,
}

impl<'p> Reader<'p> {
    fn new(procedure: &'p CompiledProcedure) -> Reader<'p> {
        let mut assigned = BTreeSet::new();
        for code in &procedure.body {
            assigned_by(code, procedure, &mut assigned);
        }
        Reader {
            procedure,
            assigned,
        }
    }

    fn is_update(&self, site: usize) -> bool {
        let statement = &self.procedure.statements[site].statement;
        matches!(statement.kind, StatementKind::Update(_)) && statement.accesses.len() == 1
    }

    /// Whether it is `IF NOT FOUND THEN …` with a branch that ends the call.
    fn leaves_if_not_found(&self, code: &Code) -> bool {
        let Code::If {
            branches,
            otherwise,
        } = code
        else {
            return false;
        };
        let ([(condition, body)], []) = (branches.as_slice(), otherwise.as_slice()) else {
            return false;
        };
        let not_found = matches!(
            condition,
            Computed::Pure(Expression::Not(of))
                if matches!(**of, Expression::Variable(slot) if slot == self.procedure.found)
        );
        not_found && leaves(body)
    }

    /// The comparisons that hold, or are NULL, where a condition does not: one for each alternative that compares a
    /// variable with something known.
    fn refused(&self, condition: &Expression) -> Vec<(usize, Comparison)> {
        match condition {
            Expression::Or(list) => list.iter().flat_map(|e| self.refused(e)).collect(),
            Expression::Compare {
                relation,
                left,
                right,
            } => {
                let (slot, turned) = match (self.grows_with(left), self.grows_with(right)) {
                    (Some(slot), None) if self.is_known(right) => (slot, false),
                    (None, Some(slot)) if self.is_known(left) => (slot, true),
                    _ => return Vec::new(),
                };
                let holds = match (relation, turned) {
                    (Relation::Less, false) | (Relation::Greater, true) => {
                        Comparison::GreaterOrEqual
                    }
                    (Relation::LessOrEqual, false) | (Relation::GreaterOrEqual, true) => {
                        Comparison::Greater
                    }
                    (Relation::Greater, false) | (Relation::Less, true) => Comparison::LessOrEqual,
                    (Relation::GreaterOrEqual, false) | (Relation::LessOrEqual, true) => {
                        Comparison::Less
                    }
                    (Relation::Equal | Relation::NotEqual, _) => return Vec::new(),
                };
                vec![(slot, holds)]
            }
            _ => Vec::new(),
        }
    }

    /// The variable with which a number grows, if it depends on one that the body assigns.
    fn grows_with(&self, expression: &Expression) -> Option<usize> {
        let is_number = |of: &DataType| of.is_integer() || matches!(of, DataType::Numeric(_));
        match expression {
            Expression::Variable(slot) => {
                let is_read = self.assigned.contains(slot);
                (is_read && is_number(&self.procedure.variables[*slot])).then_some(*slot)
            }
            Expression::Cast { operand, to, .. } if is_number(to) => self.grows_with(operand),
            Expression::Arithmetic {
                operator,
                left,
                right,
                ..
            } => match operator {
                Operator::Add | Operator::Subtract if self.is_known(right) => self.grows_with(left),
                Operator::Add if self.is_known(left) => self.grows_with(right),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether an expression depends on constants and on parameters alone that stay as they were given.
    fn is_known(&self, expression: &Expression) -> bool {
        let inputs = self.procedure.parameters.len();
        !expression.any(&mut |e| match e {
            Expression::Variable(slot) => *slot >= inputs || self.assigned.contains(slot),
            Expression::Constant(_)
            | Expression::Arithmetic { .. }
            | Expression::Negate { .. }
            | Expression::Cast { .. } => false,
            _ => true,
        })
    }

    /// Whether one statement alone assigns the variable, and the call does not return it.
    fn is_assigned_once(&self, slot: usize) -> bool {
        let assigns = |code: &&Code| {
            let mut slots = BTreeSet::new();
            assigned_by(code, self.procedure, &mut slots);
            slots.contains(&slot)
        };
        let returned = match &self.procedure.result {
            Outcome::Variables(slots) | Outcome::Rows(slots) => slots.contains(&slot),
            Outcome::Scalar => false,
        };
        self.procedure.body.iter().filter(assigns).count() == 1 && !returned
    }

    /// How often the procedure uses a variable.
    fn uses(&self, slot: usize) -> usize {
        let mut count = 0;
        let mut visit = |root: &Expression| {
            root.any(&mut |e| {
                count += usize::from(matches!(e, Expression::Variable(of) if *of == slot));
                false
            });
        };
        for site in &self.procedure.statements {
            walk::statement(&site.statement, &mut visit);
        }
        each_computed(&self.procedure.body, &mut visit);
        count
    }
}

/// Calls `visit` with the expressions of a body that are no statements.
fn each_computed(body: &[Code], visit: &mut dyn FnMut(&Expression)) {
    let of = |computed: &Computed, visit: &mut dyn FnMut(&Expression)| {
        if let Computed::Pure(expression) = computed {
            visit(expression);
        }
    };
    for code in body {
        match code {
            Code::Sql { .. } | Code::ReturnQuery { .. } | Code::RowCount { .. } => {}
            Code::Assign { value, .. } => of(value, visit),
            Code::AssignElement { index, value, .. } => {
                of(index, visit);
                of(value, visit);
            }
            Code::If {
                branches,
                otherwise,
            } => {
                for (condition, body) in branches {
                    of(condition, visit);
                    each_computed(body, visit);
                }
                each_computed(otherwise, visit);
            }
            Code::ForRange {
                from, to, by, body, ..
            } => {
                [Some(from), Some(to), by.as_ref()]
                    .into_iter()
                    .flatten()
                    .for_each(|e| of(e, visit));
                each_computed(body, visit);
            }
            Code::ForQuery { body, .. } => each_computed(body, visit),
            Code::ForEach { array, body, .. } => {
                of(array, visit);
                each_computed(body, visit);
            }
            Code::While { condition, body } => {
                of(condition, visit);
                each_computed(body, visit);
            }
            Code::Exit(of_it)
            | Code::Continue(of_it)
            | Code::Return(of_it)
            | Code::ReturnNext(of_it) => of_it.iter().for_each(|e| of(e, visit)),
            Code::Raise {
                arguments, fields, ..
            } => {
                arguments.iter().for_each(|(e, _)| of(e, visit));
                fields.iter().for_each(|(_, e, _)| of(e, visit));
            }
            Code::Call { arguments, .. } => arguments.iter().for_each(|e| of(e, visit)),
        }
    }
}
