//! Conditions on one row: CHECK constraints, and assertions that are equivalent to one.

use anabranch_types::{ColumnIndex, TableId, TableSchema};
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, UnaryOperator,
};

/// One conjunct of a condition on a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Atom {
    /// The column is above, or not below, a constant.
    Lower(ColumnIndex),
    /// The column is below, or not above, a constant.
    Upper(ColumnIndex),
    /// The column is, or is not, one of some values; or another test of this column alone.
    Value(ColumnIndex),
    /// A test of several columns together; of no column, if it is constant or not recognised.
    Several(Vec<ColumnIndex>),
}

impl Atom {
    /// The columns that it tests.
    pub(crate) fn columns(&self) -> &[ColumnIndex] {
        match self {
            Atom::Lower(c) | Atom::Upper(c) | Atom::Value(c) => std::slice::from_ref(c),
            Atom::Several(columns) => columns,
        }
    }
}

/// Resolves a condition's names to columns of one table.
pub(crate) struct RowScope<'a> {
    /// The table.
    pub(crate) table: &'a TableSchema,
}

impl RowScope<'_> {
    /// The column that the last of these identifiers names.
    pub(crate) fn column(&self, name: &[Ident]) -> Option<ColumnIndex> {
        let name = fold(name.last()?);
        let columns = self.table.visible_columns();
        let position = columns.iter().position(|c| c.name == name)?;
        Some(ColumnIndex(u16::try_from(position).ok()?))
    }

    /// The table's id.
    pub(crate) fn id(&self) -> TableId {
        self.table.id
    }
}

/// An identifier as PostgreSQL folds it.
pub(super) fn fold(ident: &Ident) -> String {
    if ident.quote_style.is_some() {
        ident.value.clone()
    } else {
        ident.value.to_lowercase()
    }
}

/// The atoms of a condition that each row must satisfy.
pub(crate) fn read_check(scope: &RowScope<'_>, expression: &Expr) -> Vec<Atom> {
    let mut atoms = Vec::new();
    conjuncts(scope, expression, false, &mut atoms);
    atoms
}

/// Adds the atoms of `expression`, or of its negation.
pub(super) fn conjuncts(
    scope: &RowScope<'_>,
    expression: &Expr,
    negated: bool,
    atoms: &mut Vec<Atom>,
) {
    match expression {
        Expr::Nested(inner) => conjuncts(scope, inner, negated, atoms),
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => conjuncts(scope, expr, !negated, atoms),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } if !negated => {
            conjuncts(scope, left, false, atoms);
            conjuncts(scope, right, false, atoms);
        }
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Or,
            right,
        } if negated => {
            conjuncts(scope, left, true, atoms);
            conjuncts(scope, right, true, atoms);
        }
        Expr::Between {
            expr,
            negated: not,
            low,
            high,
        } if *not == negated => match simple_column(scope, expr) {
            Some(c) if is_constant(low) && is_constant(high) => {
                atoms.extend([Atom::Lower(c), Atom::Upper(c)]);
            }
            _ => atoms.push(opaque(scope, expression)),
        },
        Expr::BinaryOp { left, op, right } => {
            atoms.push(
                comparison(scope, left, op, right, negated)
                    .unwrap_or_else(|| opaque(scope, expression)),
            );
        }
        _ => atoms.push(opaque(scope, expression)),
    }
}

fn comparison(
    scope: &RowScope<'_>,
    left: &Expr,
    op: &BinaryOperator,
    right: &Expr,
    negated: bool,
) -> Option<Atom> {
    let (column, turned) = match (simple_column(scope, left), simple_column(scope, right)) {
        (Some(c), None) if is_constant(right) => (c, false),
        (None, Some(c)) if is_constant(left) => (c, true),
        _ => return None,
    };
    let lower = match op {
        BinaryOperator::Gt | BinaryOperator::GtEq => true,
        BinaryOperator::Lt | BinaryOperator::LtEq => false,
        _ => return Some(Atom::Value(column)),
    };
    Some(if (lower != turned) != negated {
        Atom::Lower(column)
    } else {
        Atom::Upper(column)
    })
}

/// Makes a test that is not examined: of one column, or of several together.
fn opaque(scope: &RowScope<'_>, expression: &Expr) -> Atom {
    match columns_named(scope, expression, true).as_deref() {
        Some([column]) => Atom::Value(*column),
        Some(columns) => Atom::Several(columns.to_vec()),
        None => Atom::Several(
            (0..scope.table.columns.len())
                .map(|i| ColumnIndex(i as u16))
                .collect(),
        ),
    }
}

/// The columns that an expression depends on, ascending; `None` if a part of it is not recognised, so that it may
/// depend on any, or if it calls a function: its result may depend on the time.
pub(crate) fn columns_of(scope: &RowScope<'_>, expression: &Expr) -> Option<Vec<ColumnIndex>> {
    columns_named(scope, expression, false)
}

/// The columns that an expression names; with `functions`, also those in arguments of functions.
fn columns_named(
    scope: &RowScope<'_>,
    expression: &Expr,
    functions: bool,
) -> Option<Vec<ColumnIndex>> {
    let mut columns = Vec::new();
    let understood = gather(scope, expression, &mut columns, functions);
    columns.sort_unstable();
    columns.dedup();
    understood.then_some(columns)
}

/// The column, if the expression is a column and nothing else.
pub(crate) fn simple_column(scope: &RowScope<'_>, expression: &Expr) -> Option<ColumnIndex> {
    match expression {
        Expr::Nested(inner) => simple_column(scope, inner),
        Expr::Cast { expr, .. } => simple_column(scope, expr),
        Expr::Identifier(ident) => scope.column(std::slice::from_ref(ident)),
        Expr::CompoundIdentifier(idents) => scope.column(idents),
        _ => None,
    }
}

/// Whether an expression is a literal, perhaps signed or cast.
pub(super) fn is_constant(expression: &Expr) -> bool {
    match expression {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::Nested(e) | Expr::Cast { expr: e, .. } | Expr::UnaryOp { expr: e, .. } => {
            is_constant(e)
        }
        _ => false,
    }
}

/// Collects the columns that an expression names; returns false if a part is not recognised, so that it may depend
/// on more.
fn gather(
    scope: &RowScope<'_>,
    expression: &Expr,
    columns: &mut Vec<ColumnIndex>,
    functions: bool,
) -> bool {
    match expression {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
            let column = simple_column(scope, expression);
            columns.extend(column);
            column.is_some()
        }
        Expr::Nested(e)
        | Expr::IsNull(e)
        | Expr::IsNotNull(e)
        | Expr::IsTrue(e)
        | Expr::IsNotTrue(e)
        | Expr::IsFalse(e)
        | Expr::IsNotFalse(e)
        | Expr::Cast { expr: e, .. }
        | Expr::Collate { expr: e, .. }
        | Expr::UnaryOp { expr: e, .. } => gather(scope, e, columns, functions),
        Expr::BinaryOp { left, right, .. }
        | Expr::IsDistinctFrom(left, right)
        | Expr::IsNotDistinctFrom(left, right)
        | Expr::Like {
            expr: left,
            pattern: right,
            ..
        }
        | Expr::ILike {
            expr: left,
            pattern: right,
            ..
        }
        | Expr::AnyOp { left, right, .. }
        | Expr::AllOp { left, right, .. } => {
            gather(scope, left, columns, functions) & gather(scope, right, columns, functions)
        }
        Expr::Between {
            expr, low, high, ..
        } => {
            gather(scope, expr, columns, functions)
                & gather(scope, low, columns, functions)
                & gather(scope, high, columns, functions)
        }
        // A function's result depends on its arguments, whatever it computes.
        Expr::Function(function) => {
            let plain = functions
                && function.filter.is_none()
                && function.over.is_none()
                && function.within_group.is_empty()
                && matches!(function.parameters, FunctionArguments::None);
            let arguments = match &function.args {
                FunctionArguments::None => &[],
                FunctionArguments::List(list) if list.clauses.is_empty() => list.args.as_slice(),
                FunctionArguments::List(_) | FunctionArguments::Subquery(_) => return false,
            };
            arguments
                .iter()
                .fold(plain, |known, argument| match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(e))
                    | FunctionArg::Named {
                        arg: FunctionArgExpr::Expr(e),
                        ..
                    } => gather(scope, e, columns, functions) & known,
                    _ => false,
                })
        }
        Expr::Case {
            operand,
            conditions,
            else_result,
            ..
        } => {
            let parts = conditions.iter().flat_map(|of| [&of.condition, &of.result]);
            let others = operand.iter().chain(else_result).map(|e| &**e);
            parts.chain(others).fold(true, |known, e| {
                gather(scope, e, columns, functions) & known
            })
        }
        Expr::Substring {
            expr,
            substring_from,
            substring_for,
            ..
        } => {
            let bounds = substring_from.iter().chain(substring_for).map(|e| &**e);
            bounds.fold(gather(scope, expr, columns, functions), |known, e| {
                gather(scope, e, columns, functions) & known
            })
        }
        Expr::Trim {
            expr,
            trim_what,
            trim_characters,
            ..
        } => {
            let what = trim_what.iter().map(|e| &**e);
            let what = what.chain(trim_characters.iter().flatten());
            what.fold(gather(scope, expr, columns, functions), |known, e| {
                gather(scope, e, columns, functions) & known
            })
        }
        Expr::SimilarTo {
            expr: left,
            pattern: right,
            ..
        }
        | Expr::Position {
            expr: left,
            r#in: right,
        } => gather(scope, left, columns, functions) & gather(scope, right, columns, functions),
        Expr::Extract { expr, .. } | Expr::Ceil { expr, .. } | Expr::Floor { expr, .. } => {
            gather(scope, expr, columns, functions)
        }
        Expr::InList { expr, list, .. } => list
            .iter()
            .fold(gather(scope, expr, columns, functions), |known, e| {
                gather(scope, e, columns, functions) & known
            }),
        _ => false,
    }
}
