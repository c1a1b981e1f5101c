//! Which conflicting actions are ordered already by guards that other invariants ask for.
//!
//! An invariant that fails only where two transactions meet on the same row holds after all if
//! both have a guard, and meeting on the row implies having the same one. That is so if each column
//! of the guard's key has the value that fixes a column of the row, for both.

use anabranch_types::{ColumnIndex, TableId};

use crate::assertion::Links;
use crate::footprint::{Action, Footprint};
use crate::plan::GuardKeeping;
use crate::rule::{ActionRef, Need};
use crate::term::surely_equal;

/// The guards that stand whatever becomes of the rest, with their types.
pub(crate) struct Ordering<'a> {
    footprint: &'a Footprint<'a>,
    needs: Vec<(usize, Need)>,
    links: Links,
}

impl<'a> Ordering<'a> {
    /// An order by `needs`, each with its type.
    pub(crate) fn new(footprint: &'a Footprint<'a>, needs: Vec<(usize, Need)>) -> Ordering<'a> {
        let mut links = Links::default();
        for (child, table) in footprint.catalog.tables.iter().enumerate() {
            let child = footprint.catalog.schema.tables[child].id;
            for key in &table.foreign_keys {
                for (c, p) in key.columns.iter().zip(&key.parent_columns) {
                    links.join((child, *c), (key.parent, *p));
                }
            }
        }
        Ordering {
            footprint,
            needs,
            links,
        }
    }

    /// Whether every pair is ordered wherever it meets on a row.
    pub(crate) fn covers(&self, pairs: &[(ActionRef, ActionRef)]) -> bool {
        pairs
            .iter()
            .all(|(a, b)| self.covers_pair(self.action(*a), self.action(*b)))
    }

    fn action(&self, (owner, place): ActionRef) -> &Action {
        &self.footprint.types[owner].actions[place]
    }

    fn of(&self, owner: usize) -> impl Iterator<Item = &Need> {
        let validated = |n: &Need| n.keeping == GuardKeeping::Validated;
        self.needs
            .iter()
            .filter(move |(o, n)| *o == owner && validated(n))
            .map(|(_, n)| n)
    }

    fn covers_pair(&self, a: &Action, b: &Action) -> bool {
        if a.access.table != b.access.table {
            return false;
        }
        self.of(a.owner).any(|n| {
            self.of(b.owner).any(|m| {
                n.table == m.table
                    && n.column == m.column
                    && shared_key(n, m)
                        .into_iter()
                        .all(|k| self.implied(a, b, n, m, k))
            })
        })
    }

    /// Whether meeting on a row implies the same value of the guard's column `k`.
    fn implied(&self, a: &Action, b: &Action, n: &Need, m: &Need, k: ColumnIndex) -> bool {
        let columns = self.footprint.table(a.access.table).columns.len();
        (0..columns)
            .map(|c| ColumnIndex(c as u16))
            .any(|c| self.holds(a, c, n, k) && self.holds(b, c, m, k))
    }

    /// Whether the action's row has the guard's value in column `c`.
    fn holds(&self, action: &Action, c: ColumnIndex, need: &Need, k: ColumnIndex) -> bool {
        let Some((_, of_guard)) = need.key.iter().find(|(column, _)| *column == k) else {
            return false;
        };
        let Some(of_row) = action.fixed(c) else {
            return false;
        };
        // A term that is not told apart from others (a loop's variable) is taken to be the same
        // where a foreign key says that the columns mean the same.
        surely_equal(of_row, of_guard)
            || (of_row == of_guard
                && self
                    .links
                    .are_equal((action.access.table, c), (need.table, k)))
    }
}

/// The key columns that two guards of one item share: by these alone they can be told apart.
fn shared_key(n: &Need, m: &Need) -> Vec<ColumnIndex> {
    n.key
        .iter()
        .map(|(c, _)| *c)
        .filter(|c| m.key.iter().any(|(d, _)| d == c))
        .collect()
}

/// For each item (table and column), the key columns that all of its holders fix: the guard's key.
pub(crate) fn common_key(
    needs: &[(usize, usize, Need)],
    table: TableId,
    column: Option<ColumnIndex>,
) -> Vec<ColumnIndex> {
    let mut of_item = needs
        .iter()
        .map(|(_, _, n)| n)
        .filter(|n| n.table == table && n.column == column);
    let Some(first) = of_item.next() else {
        return Vec::new();
    };
    let mut key: Vec<ColumnIndex> = first.key.iter().map(|(c, _)| *c).collect();
    for need in of_item {
        key.retain(|c| need.key.iter().any(|(d, _)| d == c));
    }
    key
}
