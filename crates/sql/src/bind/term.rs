//! Origins of values for the analyser ([`crate::summary::Term`]), before variables are resolved.

use std::collections::BTreeSet;

use anabranch_types::{ColumnSchema, Value};

use super::{Binder, scope::Scope};
use crate::expression::{Expression, Function, Operator, frame::column_index};

/// A [`crate::summary::Term`] that may still name variables of the procedure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RawTerm {
    Constant(Value),
    /// A variable, shifted.
    Variable {
        slot: usize,
        offset: i64,
    },
    /// Minus a variable.
    Negated {
        slot: usize,
    },
    /// An element of the array in a variable.
    Element {
        slot: usize,
    },
    /// A column of one of this statement's accesses, shifted.
    Column {
        access: usize,
        column: anabranch_types::ColumnIndex,
        offset: i64,
    },
    Aggregate {
        function: &'static str,
        access: Option<usize>,
        column: Option<anabranch_types::ColumnIndex>,
        offset: i64,
    },
    Generated,
    Now,
    /// Computed from these variables and constants.
    Of(Vec<usize>),
    Unknown,
}

impl RawTerm {
    /// The same shifted by a constant.
    fn shifted(self, by: i64) -> RawTerm {
        match self {
            RawTerm::Variable { slot, offset } => RawTerm::Variable {
                slot,
                offset: offset.saturating_add(by),
            },
            RawTerm::Column {
                access,
                column,
                offset,
            } => RawTerm::Column {
                access,
                column,
                offset: offset.saturating_add(by),
            },
            RawTerm::Aggregate {
                function,
                access,
                column,
                offset,
            } => RawTerm::Aggregate {
                function,
                access,
                column,
                offset: offset.saturating_add(by),
            },
            RawTerm::Element { slot } | RawTerm::Negated { slot } => RawTerm::Of(vec![slot]),
            RawTerm::Of(slots) => RawTerm::Of(slots),
            RawTerm::Constant(_) | RawTerm::Now => RawTerm::Of(Vec::new()),
            RawTerm::Generated | RawTerm::Unknown => RawTerm::Unknown,
        }
    }

    /// The origin of an expression over a row whose columns have these origins.
    pub(super) fn of_row(expression: &Expression, columns: &[RawTerm]) -> RawTerm {
        if let Expression::Constant(value) = expression {
            return RawTerm::Constant(value.clone());
        }
        let mut slots = Vec::new();
        let mut is_pure = !expression.is_unknown();
        expression.each_column(&mut |_, column| match columns[column].pure() {
            Some(more) => slots.extend(more),
            None => is_pure = false,
        });
        slots.sort_unstable();
        slots.dedup();
        match is_pure {
            true => RawTerm::Of(slots),
            false => RawTerm::Unknown,
        }
    }

    /// The variables, if it is computed from variables and constants alone.
    fn pure(&self) -> Option<Vec<usize>> {
        match self {
            RawTerm::Constant(_) | RawTerm::Now => Some(Vec::new()),
            RawTerm::Variable { slot, .. }
            | RawTerm::Element { slot }
            | RawTerm::Negated { slot } => Some(vec![*slot]),
            RawTerm::Of(slots) => Some(slots.clone()),
            _ => None,
        }
    }
}

/// The conditions under which an expression over a row is NULL.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Nullness {
    /// It is NULL if one of these is, which do not depend on the row: NULL itself, variables, columns of other sources.
    sources: BTreeSet<(usize, usize)>,
    /// Columns of the row that also decide it.
    pub(super) columns: BTreeSet<usize>,
    /// Whether it may be NULL for other reasons.
    unknown: bool,
}

impl Nullness {
    /// Analyses an expression over a row with these columns.
    pub(super) fn of(expression: &Expression, columns: &[ColumnSchema]) -> Nullness {
        let strict = |list: &[&Expression]| {
            let mut all = Nullness::default();
            for e in list {
                all.join(Nullness::of(e, columns));
            }
            all
        };
        let source = |place| Nullness {
            sources: BTreeSet::from([place]),
            ..Nullness::default()
        };
        match expression {
            // NULL itself is a source of its own.
            Expression::Constant(Value::Null) => source((0, 0)),
            Expression::Constant(_) | Expression::Now => Nullness::default(),
            Expression::Variable(slot) => source((0, slot + 1)),
            Expression::Column {
                depth: 0,
                source: 1,
                column,
            } => Nullness {
                columns: match columns.get(*column) {
                    Some(described) if !described.nullable => BTreeSet::new(),
                    _ => BTreeSet::from([*column]),
                },
                ..Nullness::default()
            },
            Expression::Column {
                depth: 0,
                source: of,
                column,
            } => source((*of, *column)),
            Expression::Arithmetic { left, right, .. } | Expression::Concat(left, right) => {
                strict(&[left, right])
            }
            Expression::Negate { operand, .. }
            | Expression::Cast { operand, .. }
            | Expression::Not(operand) => strict(&[operand]),
            Expression::Compare { left, right, .. } => strict(&[left, right]),
            Expression::IsNull { .. } | Expression::IsBool { .. } | Expression::Distinct { .. } => {
                Nullness::default()
            }
            Expression::Call {
                function:
                    Function::Abs
                    | Function::Sign
                    | Function::Round
                    | Function::Trunc
                    | Function::Ceil
                    | Function::Floor
                    | Function::Left
                    | Function::Right
                    | Function::Upper
                    | Function::Lower
                    | Function::Length
                    | Function::Replace
                    | Function::TrimBoth
                    | Function::TrimLeft
                    | Function::TrimRight,
                arguments,
            } => strict(&arguments.iter().collect::<Vec<_>>()),
            Expression::Call {
                function: Function::Concat(_),
                ..
            } => Nullness::default(),
            Expression::Case {
                branches,
                otherwise,
            }
            | Expression::Switch {
                branches,
                otherwise,
                ..
            } => {
                let operand = match expression {
                    Expression::Switch { operand, .. } => Some(&**operand),
                    _ => None,
                };
                Nullness::of_case(operand, branches, otherwise, columns)
            }
            // The first that is not NULL: never NULL if one of them never is.
            Expression::Coalesce(list)
            | Expression::Call {
                function: Function::Greatest | Function::Least,
                arguments: list,
            } if list
                .iter()
                .any(|e| Nullness::of(e, columns) == Nullness::default()) =>
            {
                Nullness::default()
            }
            _ => {
                let mut all = Nullness {
                    unknown: true,
                    ..Nullness::default()
                };
                columns_in(expression, &mut all.columns);
                all
            }
        }
    }

    /// Analyses a CASE.
    fn of_case(
        operand: Option<&Expression>,
        branches: &[(Expression, Expression)],
        otherwise: &Expression,
        columns: &[ColumnSchema],
    ) -> Nullness {
        let mut of_results: Vec<Nullness> = branches
            .iter()
            .map(|(_, e)| Nullness::of(e, columns))
            .collect();
        of_results.push(Nullness::of(otherwise, columns));
        let mut all = Nullness::default();
        let alike = of_results.windows(2).all(|w| w[0] == w[1] && !w[0].unknown);
        of_results.into_iter().for_each(|n| all.join(n));
        if !alike {
            // The choice of the branch decides, too.
            let conditions = branches.iter().map(|(condition, _)| condition);
            for decides in operand.into_iter().chain(conditions) {
                columns_in(decides, &mut all.columns);
            }
        }
        all
    }

    fn join(&mut self, other: Nullness) {
        self.sources.extend(other.sources);
        self.columns.extend(other.columns);
        self.unknown |= other.unknown;
    }
}

/// The columns of the row that an expression names.
fn columns_in(expression: &Expression, columns: &mut BTreeSet<usize>) {
    expression.any(&mut |e| {
        if let Expression::Column {
            depth: 0,
            source: 1,
            column,
        } = e
        {
            columns.insert(*column);
        }
        false
    });
}

impl Binder<'_> {
    /// The origin of an expression's value. Must be called before its scopes are closed.
    pub(crate) fn term(&self, expression: &Expression) -> RawTerm {
        match expression {
            Expression::Constant(value) => RawTerm::Constant(value.clone()),
            Expression::Variable(slot) => RawTerm::Variable {
                slot: *slot,
                offset: 0,
            },
            now if now.is_now() => RawTerm::Now,
            Expression::Call {
                function: Function::Unknown(_),
                ..
            } => RawTerm::Unknown,
            // The numbers of a sequence that cycles come again.
            Expression::Next(sequence) if sequence.options.cycles => RawTerm::Unknown,
            Expression::Unique | Expression::Next(_) => RawTerm::Generated,
            Expression::Column {
                depth,
                source,
                column,
            } => {
                let scope = self
                    .scopes
                    .len()
                    .checked_sub(depth + 1)
                    .map(|i| &self.scopes[i]);
                scope.map_or(RawTerm::Unknown, |scope| {
                    self.column_term(scope, *source, *column)
                })
            }
            Expression::Negate { operand, .. } => match &**operand {
                Expression::Variable(slot) => RawTerm::Negated { slot: *slot },
                _ => self.computed(expression),
            },
            Expression::Arithmetic {
                operator,
                left,
                right,
                ..
            } => match (operator, &**left, &**right) {
                (
                    Operator::Subtract,
                    Expression::Constant(Value::Int(0)),
                    Expression::Variable(slot),
                ) => RawTerm::Negated { slot: *slot },
                (Operator::Add, e, Expression::Constant(Value::Int(by)))
                | (Operator::Add, Expression::Constant(Value::Int(by)), e) => {
                    self.term(e).shifted(*by)
                }
                (Operator::Subtract, e, Expression::Constant(Value::Int(by))) => {
                    self.term(e).shifted(by.saturating_neg())
                }
                _ => self.computed(expression),
            },
            _ => self.computed(expression),
        }
    }

    /// The values of which one is NULL if an expression is, which does not depend on the row of an UPDATE; `None` if
    /// it may be NULL for other reasons. Must be called before its scopes are closed.
    pub(super) fn null_by(
        &self,
        expression: &Expression,
        columns: &[ColumnSchema],
    ) -> Option<Vec<RawTerm>> {
        let nullness = Nullness::of(expression, columns);
        let of_source = |place: &(usize, usize)| match *place {
            (0, 0) => RawTerm::Constant(Value::Null),
            (0, slot) => RawTerm::Variable {
                slot: slot - 1,
                offset: 0,
            },
            (source, column) => self.term(&Expression::Column {
                depth: 0,
                source,
                column,
            }),
        };
        let is_known = !nullness.unknown && nullness.columns.is_empty();
        is_known.then(|| nullness.sources.iter().map(of_source).collect())
    }

    fn computed(&self, expression: &Expression) -> RawTerm {
        let mut slots = Vec::new();
        let mut pure = true;
        expression.each_child(|child| match self.term(child).pure() {
            Some(more) => slots.extend(more),
            None => pure = false,
        });
        slots.sort_unstable();
        slots.dedup();
        if pure {
            RawTerm::Of(slots)
        } else {
            RawTerm::Unknown
        }
    }

    fn column_term(&self, scope: &Scope, source: usize, column: usize) -> RawTerm {
        if Some(source) == scope.aggregate_source {
            let aggregate = &scope.aggregates[column];
            if aggregate.function.is_statistical() {
                return RawTerm::Unknown;
            }
            let argument = aggregate
                .arguments
                .first()
                .map(|argument| self.term(argument));
            let (access, of) = match (argument, &aggregate.filter) {
                (
                    Some(RawTerm::Column {
                        access,
                        column,
                        offset: 0,
                    }),
                    None,
                ) => (Some(access), Some(column)),
                (None, None) => {
                    let mut accesses = scope.sources.iter().filter_map(|source| source.access);
                    (accesses.next().filter(|_| accesses.next().is_none()), None)
                }
                _ => return RawTerm::Unknown,
            };
            if aggregate.distinct && aggregate.function.name() != "count" {
                return RawTerm::Unknown;
            }
            let function = aggregate.function.name();
            return RawTerm::Aggregate {
                function,
                access,
                column: of,
                offset: 0,
            };
        }
        let Some(found) = scope.sources.get(source.wrapping_sub(1)) else {
            return RawTerm::Unknown;
        };
        match (found.access, &found.elements) {
            (Some(access), _) => RawTerm::Column {
                access,
                column: column_index(column),
                offset: 0,
            },
            (None, Some(arguments)) => match arguments.get(column) {
                Some(Expression::Variable(slot)) => RawTerm::Element { slot: *slot },
                Some(argument) => match self.term(argument).pure() {
                    Some(slots) => RawTerm::Of(slots),
                    None => RawTerm::Unknown,
                },
                // WITH ORDINALITY: the place depends on how long the arrays are.
                None => {
                    let pure = arguments.iter().map(|argument| self.term(argument).pure());
                    match pure.collect::<Option<Vec<_>>>() {
                        Some(slots) => RawTerm::Of(slots.concat()),
                        None => RawTerm::Unknown,
                    }
                }
            },
            _ => RawTerm::Unknown,
        }
    }
}
