//! From what has to be ordered to the guards of each type.
//!
//! Needs for the same item are one guard. Types that share an item must name it alike, so its key
//! is what all of them know of it: fewer columns make a coarser guard, never a hole.

use anabranch_sql::summary::{StatementId, Term};
use anabranch_types::{ColumnIndex, TableId};

use crate::conflict::common_key;
use crate::footprint::Footprint;
use crate::plan::{Guard, GuardKeeping, GuardKey};
use crate::rule::Need;
use crate::term::describe;

/// A guard of one type, with what the plan does not show.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// It as the plan shows it.
    pub(crate) guard: Guard,
    /// The values of its key, in order.
    pub(crate) terms: Vec<Term>,
    /// Statements whose reads are validated for it.
    pub(crate) reads: Vec<StatementId>,
    /// Statements whose writes are held for it.
    pub(crate) writes: Vec<StatementId>,
}

/// The guards of every type. `needs` are (type, invariant, what has to be ordered).
pub(crate) fn guards(footprint: &Footprint<'_>, needs: &[(usize, usize, Need)]) -> Vec<Vec<Held>> {
    let mut held: Vec<Vec<Held>> = vec![Vec::new(); footprint.types.len()];
    let mut items: Vec<(TableId, Option<ColumnIndex>)> = Vec::new();
    for (_, _, need) in needs {
        if !items.contains(&(need.table, need.column)) {
            items.push((need.table, need.column));
        }
    }
    let keys: Vec<Vec<ColumnIndex>> = items
        .iter()
        .map(|(table, column)| common_key(needs, *table, *column))
        .collect();
    for (owner, invariant, need) in needs {
        let item = items
            .iter()
            .position(|i| *i == (need.table, need.column))
            .unwrap_or_default();
        let terms: Vec<Term> = keys[item]
            .iter()
            .filter_map(|k| {
                need.key
                    .iter()
                    .find(|(c, _)| c == k)
                    .map(|(_, t)| t.clone())
            })
            .collect();
        let same = held[*owner].iter_mut().find(|h| {
            h.guard.table == need.table
                && h.item() == need.column.map(|c| footprint.column_name(need.table, c))
                && h.terms == terms
        });
        match same {
            Some(guard) => guard.absorb(*invariant, need),
            None => {
                let mut guard = Held::new(footprint, *owner, need, &keys[item], terms);
                guard.absorb(*invariant, need);
                held[*owner].push(guard);
            }
        }
    }
    held
}

impl Held {
    fn new(
        footprint: &Footprint<'_>,
        owner: usize,
        need: &Need,
        key: &[ColumnIndex],
        terms: Vec<Term>,
    ) -> Held {
        let table = footprint.table(need.table);
        let item = match need.column {
            Some(column) => footprint.column_name(need.table, column),
            None => table.name.clone(),
        };
        let summary = footprint.types[owner].summary;
        let key = key
            .iter()
            .zip(&terms)
            .map(|(column, term)| GuardKey {
                column: *column,
                name: table.columns[column.index()].name.clone(),
                from: describe(summary, term),
            })
            .collect();
        let guard = Guard {
            item,
            table: need.table,
            key,
            invariants: Vec::new(),
            keeping: need.keeping,
        };
        Held {
            guard,
            terms,
            reads: Vec::new(),
            writes: Vec::new(),
        }
    }

    /// The item's name if it is a column.
    fn item(&self) -> Option<String> {
        self.guard
            .item
            .contains('.')
            .then(|| self.guard.item.clone())
    }

    fn absorb(&mut self, invariant: usize, need: &Need) {
        if !self.guard.invariants.contains(&invariant) {
            self.guard.invariants.push(invariant);
            self.guard.invariants.sort_unstable();
        }
        if need.keeping == GuardKeeping::Validated {
            self.guard.keeping = GuardKeeping::Validated;
        }
        for (list, more) in [
            (&mut self.reads, &need.reads),
            (&mut self.writes, &need.writes),
        ] {
            list.extend(more);
            list.sort_unstable();
            list.dedup();
        }
    }
}
