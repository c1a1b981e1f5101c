//! Which conflicting actions are ordered already by guards that other invariants need.
//!
//! An invariant that fails only where two transactions access the same row holds after all if both have a guard,
//! and accessing the same row implies having the same guard. That is so if each column of the guard's key has the
//! value that fixes a column of the row, for both.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use anabranch_types::{ColumnIndex, TableId};

use crate::assertion::Links;
use crate::footprint::{Action, Footprint};
use crate::plan::GuardKeeping;
use crate::rule::{ActionRef, Need};
use crate::term::surely_equal;

/// A requirement: what one type must be ordered on, and for which invariant.
#[derive(Clone, Debug)]
pub(crate) struct Requirement {
    /// The type.
    pub(crate) owner: usize,
    /// The invariant; `None` where everything is ordered (serializability).
    pub(crate) invariant: Option<usize>,
    /// What it must be ordered on.
    pub(crate) need: Need,
}

/// The guards that stand whatever becomes of the rest.
pub(crate) struct EstablishedOrder<'a> {
    footprint: &'a Footprint<'a>,
    needs: Vec<Requirement>,
    links: Links,
}

impl<'a> EstablishedOrder<'a> {
    /// The order that `needs` establish.
    pub(crate) fn new(
        footprint: &'a Footprint<'a>,
        needs: Vec<Requirement>,
    ) -> EstablishedOrder<'a> {
        let mut links = Links::default();
        for (child, table) in footprint.catalog.tables.iter().enumerate() {
            let child = footprint.catalog.schema.tables[child].id;
            for key in &table.foreign_keys {
                for (c, p) in key.columns.iter().zip(&key.parent_columns) {
                    links.join((child, *c), (key.parent, *p));
                }
            }
        }
        EstablishedOrder {
            footprint,
            needs,
            links,
        }
    }

    /// Whether every pair is ordered wherever both access one row.
    pub(crate) fn covers(&self, pairs: &[(ActionRef, ActionRef)]) -> bool {
        pairs
            .iter()
            .all(|(a, b)| self.covers_pair(self.action(*a), self.action(*b)))
    }

    fn action(&self, (owner, place): ActionRef) -> &Action {
        &self.footprint.types[owner].actions[place]
    }

    fn of(&self, owner: usize) -> impl Iterator<Item = &Requirement> {
        let validated = |w: &Requirement| w.need.keeping == GuardKeeping::Validated;
        self.needs
            .iter()
            .filter(move |w| w.owner == owner && validated(w))
    }

    fn covers_pair(&self, a: &Action, b: &Action) -> bool {
        if a.access.table != b.access.table {
            return false;
        }
        self.of(a.owner).any(|of_a| {
            self.of(b.owner).any(|of_b| {
                let (n, m) = (&of_a.need, &of_b.need);
                of_a.invariant == of_b.invariant
                    && n.table == m.table
                    && n.column == m.column
                    && shared_key(n, m)
                        .into_iter()
                        .all(|k| self.implied(a, b, n, m, k))
            })
        })
    }

    /// Whether accessing one row implies the same value of the guard's column `k`.
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
        // A term that cannot be told from others (a loop's variable) is taken to be the same where a foreign key
        // equates the columns.
        surely_equal(of_row, of_guard)
            || (of_row == of_guard
                && self
                    .links
                    .are_equal((action.access.table, c), (need.table, k)))
    }
}

/// The key columns that two guards of one item share: only these distinguish them.
fn shared_key(n: &Need, m: &Need) -> Vec<ColumnIndex> {
    n.key
        .iter()
        .map(|(c, _)| *c)
        .filter(|c| m.key.iter().any(|(d, _)| d == c))
        .collect()
}

/// What a guard protects: an invariant, and an item (a table, or a column of it).
type Item = (Option<usize>, TableId, Option<ColumnIndex>);

/// The keys of all guards: for each item, the key columns that every type knows.
pub(crate) struct CommonKeys {
    known_to_all: HashMap<Item, BTreeSet<ColumnIndex>>,
}

impl CommonKeys {
    /// Computes the keys of the guards that all these requirements need.
    pub(crate) fn new(all: &[Requirement]) -> CommonKeys {
        let mut known_to_all: HashMap<Item, BTreeSet<ColumnIndex>> = HashMap::new();
        for required in all {
            let known = required.need.key.iter().map(|(column, _)| *column);
            match known_to_all.entry(item(required)) {
                Entry::Vacant(new) => {
                    new.insert(known.collect());
                }
                Entry::Occupied(mut common) if !common.get().is_empty() => {
                    let known: BTreeSet<ColumnIndex> = known.collect();
                    common.get_mut().retain(|column| known.contains(column));
                }
                Entry::Occupied(_) => {}
            }
        }
        CommonKeys { known_to_all }
    }

    /// The key columns that all types ordered for one invariant on one item know: the guard's key. Where everything
    /// is ordered for itself, the columns that `required` knows.
    pub(crate) fn of(&self, required: &Requirement) -> Vec<ColumnIndex> {
        let own = required.need.key.iter().map(|(column, _)| *column);
        match (required.invariant, self.known_to_all.get(&item(required))) {
            (Some(_), Some(common)) => own.filter(|column| common.contains(column)).collect(),
            _ => own.collect(),
        }
    }
}

fn item(required: &Requirement) -> Item {
    (
        required.invariant,
        required.need.table,
        required.need.column,
    )
}
