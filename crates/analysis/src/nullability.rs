//! Which values are known not to be NULL.
//!
//! Adding NULL to a column makes it NULL: that is no increment but an assignment, and a sum leaves the row out. So
//! rules ask whether an amount may be NULL. A parameter may be, unless every call that commits has another value in it:
//! because the procedure refuses NULL (`IF p_amount IS NULL THEN RAISE EXCEPTION …` before anything can return), or
//! because the call inserts a row with it in a NOT NULL column whenever it runs the statement. A condition of the
//! statement itself, such as `WHERE id = p`, finds no row for NULL.
//!
//! A variable that a query has filled is NULL if the query found no row, so nothing is known of it.

use anabranch_sql::catalog::Catalog;
use anabranch_sql::summary::{
    Comparison, Role, StatementSummary, TableAccess, Term, TransactionSummary, WriteClass,
};
use anabranch_types::Value;
use sqlparser::ast::Expr;

use crate::sign::{parameter_named, refusals};

/// The parameters that no committed call has NULL in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nullability {
    refused: Vec<Vec<bool>>,
}

impl Nullability {
    /// Collects the parameters that procedures refuse if they are NULL.
    pub(crate) fn new(catalog: &Catalog, summaries: &[TransactionSummary]) -> Nullability {
        let of_type = |summary: &TransactionSummary| {
            let mut refused = vec![false; summary.parameters.len()];
            for condition in refusals(catalog, summary) {
                if let Expr::IsNull(of) = condition
                    && let Some(parameter) = parameter_named(of, summary)
                {
                    refused[parameter] = true;
                }
            }
            refused
        };
        Nullability {
            refused: summaries.iter().map(of_type).collect(),
        }
    }

    /// Whether a value is known not to be NULL in each call of the type with number `owner` in which the statement
    /// changes a row by this access. Terms are as in the summary, not followed to what they equal.
    pub(crate) fn never_null(
        &self,
        catalog: &Catalog,
        (owner, summary): (usize, &TransactionSummary),
        statement: &StatementSummary,
        access: &TableAccess,
        term: &Term,
    ) -> bool {
        match term {
            Term::Constant(value) => *value != Value::Null,
            Term::Generated | Term::Now => true,
            Term::Parameter(parameter) | Term::Negated(parameter) => {
                let refused = self.refused[owner].get(*parameter).copied();
                refused.unwrap_or(false)
                    || is_compared(access, *parameter)
                    || is_stored(catalog, summary, statement, *parameter)
            }
            _ => false,
        }
    }
}

/// Whether a condition on the row compares a column with the parameter: it is not true if that is NULL.
fn is_compared(access: &TableAccess, parameter: usize) -> bool {
    access.conditions.iter().any(|condition| {
        let nulls = matches!(
            condition.comparison,
            Comparison::IsNull | Comparison::IsNotNull
        );
        !nulls && matches!(condition.term, Term::Parameter(p) | Term::Negated(p) if p == parameter)
    })
}

/// Whether a call that runs the statement to its end also inserts a row with the parameter in a NOT NULL column.
fn is_stored(
    catalog: &Catalog,
    summary: &TransactionSummary,
    statement: &StatementSummary,
    parameter: usize,
) -> bool {
    let stores = |access: &TableAccess| {
        let columns = &catalog.schema.table(access.table).columns;
        access.role == Role::Insert
            && access.writes.iter().any(|write| {
                matches!(
                    write.class,
                    WriteClass::Assign(Term::Parameter(p) | Term::Negated(p)) if p == parameter
                ) && columns
                    .get(write.column.index())
                    .is_some_and(|c| !c.nullable)
            })
    };
    !summary.may_end_early
        && summary.statements.iter().any(|insert| {
            insert.inserts_one
                && !insert.in_loop
                && statement.path.starts_with(&insert.path)
                && insert.accesses.iter().any(stores)
        })
}
