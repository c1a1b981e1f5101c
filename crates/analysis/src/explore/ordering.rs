//! Which items calls name: whether a plan orders two of them.
//!
//! Two calls are ordered if both hold a guard on one item for one invariant, by keys that may be equal. Parameters
//! and constants are known before a call runs. Values that it reads are known once it has run: the log has the rows
//! that each statement read and wrote. A key that the log does not determine may have any value, so that a guard
//! that would order two calls is never taken for one that does not.

use std::cmp::Ordering;

use anabranch_sql::summary::{StatementId, Term};
use anabranch_types::{ColumnIndex, Effect, Row, TableId, Value};

use super::World;
use super::call::LoggedCall;
use super::state::Log;
use crate::plan::{Guard, GuardKeeping, GuardKey};

impl World<'_> {
    /// Whether the plan orders two calls: both hold a guard on one item, for one invariant, by keys that are equal
    /// or not known.
    pub(super) fn orders(&self, a: LoggedCall<'_>, b: LoggedCall<'_>) -> bool {
        let guards = |ran: LoggedCall<'_>| {
            let entry = &self.plan.entries[ran.call.procedure];
            entry
                .guards
                .iter()
                .filter(|g| g.keeping == GuardKeeping::Validated)
        };
        guards(a).any(|x| {
            guards(b).any(|y| {
                // A guard on a row covers those on its columns.
                let whole = |g: &Guard| !g.item.contains('.');
                (x.item == y.item || x.table == y.table && (whole(x) || whole(y)))
                    && (x.invariants.iter().any(|i| y.invariants.contains(i))
                        || x.invariants.is_empty() && y.invariants.is_empty())
                    && self.may_meet((x, a), (y, b))
            })
        })
    }

    fn may_meet(&self, (x, a): (&Guard, LoggedCall<'_>), (y, b): (&Guard, LoggedCall<'_>)) -> bool {
        x.key.iter().all(|kx| {
            let Some(ky) = y.key.iter().find(|k| k.column == kx.column) else {
                return true;
            };
            match (self.known(x, kx, a), self.known(y, ky, b)) {
                (Some(these), Some(those)) => these.iter().any(|v| {
                    // NULL names an item, too: the group of rows without a value.
                    let none = |w: &Value| *v == Value::Null && *w == Value::Null;
                    let equal = |w: &&Value| v.compare(w) == Some(Ordering::Equal) || none(w);
                    those.iter().any(|w| equal(&w))
                }),
                _ => true,
            }
        })
    }

    /// All values that a column of a guard's key may have in a call; `None` if they are not known.
    fn known(&self, guard: &Guard, key: &GuardKey, ran: LoggedCall<'_>) -> Option<Vec<Value>> {
        let argument = |p: &usize| ran.call.arguments.get(*p);
        match &key.term {
            Term::Constant(value) => Some(vec![value.clone()]),
            Term::Parameter(p) => Some(vec![argument(p)?.clone()]),
            Term::Element(p) => match argument(p)? {
                Value::Array(values) => Some(values.to_vec()),
                _ => None,
            },
            Term::Column {
                statement,
                access,
                column,
            } => {
                let summary = &self.application.summaries()[ran.call.procedure];
                let of = summary.statements.iter().find(|s| s.id == *statement)?;
                let table = of.accesses.get(*access)?.table;
                self.met(ran.log?, *statement, table, *column)
            }
            Term::Generated => self.generated(ran.log?, guard.table, key.column),
            _ => None,
        }
    }

    /// The values of a column in all rows of a table that a statement read or wrote. `None` if there are none: the
    /// statement may not have run.
    fn met(
        &self,
        log: &Log,
        statement: StatementId,
        table: TableId,
        column: ColumnIndex,
    ) -> Option<Vec<Value>> {
        let seen = log.seen.iter();
        let seen = seen.filter(|seen| (seen.statement, seen.table) == (statement, table));
        let mut rows: Vec<&Row> = seen.flat_map(|seen| &seen.rows).collect();
        for done in log
            .effects
            .iter()
            .filter(|done| done.statement == statement)
        {
            if done.effect.table() == table {
                rows.extend(done.before.iter().chain(&done.after));
            }
        }
        let layout = &self.schema().table(table).layout;
        let values: Vec<Value> = rows.iter().map(|row| row.get(layout, column)).collect();
        (!values.is_empty()).then_some(values)
    }

    /// The values of a column in all rows that a call has inserted into a table. `None` if there are none, or if an
    /// owner draws a number at commit.
    fn generated(&self, log: &Log, table: TableId, column: ColumnIndex) -> Option<Vec<Value>> {
        let layout = &self.schema().table(table).layout;
        let mut values = Vec::new();
        for done in &log.effects {
            if let Effect::Insert { patches, .. } = &done.effect
                && done.effect.table() == table
            {
                if !patches.is_empty() {
                    return None;
                }
                values.push(done.after.as_ref()?.get(layout, column));
            }
        }
        (!values.is_empty()).then_some(values)
    }
}
