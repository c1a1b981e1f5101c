//! Turns requirements into the guards of each type.
//!
//! Types that are ordered for the same invariant on the same item must name it alike, so the guard's key has only
//! the columns that all of them know: fewer columns make a coarser guard, never a hole. Requirements of one type on
//! the same item by the same key, for several invariants, become one guard.

use anabranch_sql::summary::Term;
use anabranch_types::ColumnIndex;

use crate::conflict::{CommonKeys, Requirement};
use crate::footprint::Footprint;
use crate::plan::{Guard, GuardKeeping, GuardKey};
use crate::rule::Need;
use crate::term::describe;

/// A guard of one type, with the terms of its key.
#[derive(Clone, Debug)]
pub(crate) struct KeyedGuard {
    /// The guard as it is in the plan.
    pub(crate) guard: Guard,
    /// The values of its key, in order.
    pub(crate) terms: Vec<Term>,
}

/// The guards of every type.
pub(crate) fn guards(footprint: &Footprint<'_>, required: &[Requirement]) -> Vec<Vec<KeyedGuard>> {
    let mut held: Vec<Vec<KeyedGuard>> = vec![Vec::new(); footprint.types.len()];
    let keys = CommonKeys::new(required);
    for want in required {
        let need = &want.need;
        let key = keys.of(want);
        let terms: Vec<Term> = key
            .iter()
            .filter_map(|k| {
                need.key
                    .iter()
                    .find(|(c, _)| c == k)
                    .map(|(_, t)| t.clone())
            })
            .collect();
        let same = held[want.owner].iter_mut().find(|h| {
            h.guard.table == need.table
                && h.item() == need.column.map(|c| footprint.column_name(need.table, c))
                && h.guard.key.iter().map(|k| k.column).eq(key.iter().copied())
                && h.terms == terms
        });
        match same {
            Some(guard) => guard.absorb(want.invariant, need),
            None => {
                let mut guard = KeyedGuard::new(footprint, want.owner, need, &key, terms);
                guard.absorb(want.invariant, need);
                held[want.owner].push(guard);
            }
        }
    }
    for guards in &mut held {
        join_rows(guards);
    }
    held
}

/// Merges guards on columns into a guard on their row that is kept in the same way.
fn join_rows(guards: &mut Vec<KeyedGuard>) {
    let covers = |row: &KeyedGuard, column: &KeyedGuard| {
        row.item().is_none()
            && column.item().is_some()
            && row.guard.table == column.guard.table
            && row.terms == column.terms
            && row.guard.key.len() == column.guard.key.len()
            && row.guard.keeping == GuardKeeping::Validated
            && column.guard.keeping == GuardKeeping::Validated
    };
    let (mut kept, mut covered) = (Vec::new(), Vec::new());
    for guard in guards.iter() {
        let list = if guards.iter().any(|row| covers(row, guard)) {
            &mut covered
        } else {
            &mut kept
        };
        list.push(guard.clone());
    }
    for column in covered {
        for row in kept.iter_mut().filter(|row| covers(row, &column)) {
            row.take_needs_of(&column);
        }
    }
    *guards = kept;
}

impl KeyedGuard {
    fn new(
        footprint: &Footprint<'_>,
        owner: usize,
        need: &Need,
        key: &[ColumnIndex],
        terms: Vec<Term>,
    ) -> KeyedGuard {
        let table = footprint.table(need.table);
        let item = match need.column {
            Some(column) => footprint.column_name(need.table, column),
            None => table.name.clone(),
        };
        let key = key
            .iter()
            .zip(&terms)
            .map(|(column, term)| GuardKey {
                column: *column,
                name: table.columns[column.index()].name.clone(),
                from: describe(footprint, owner, term),
                term: term.clone(),
            })
            .collect();
        let guard = Guard {
            item,
            table: need.table,
            key,
            invariants: Vec::new(),
            keeping: need.keeping,
            reads: Vec::new(),
            writes: Vec::new(),
        };
        KeyedGuard { guard, terms }
    }

    /// The item's name, if it is a column.
    fn item(&self) -> Option<String> {
        self.guard
            .item
            .contains('.')
            .then(|| self.guard.item.clone())
    }

    /// Adds the invariants and statements of another guard.
    pub(crate) fn take_needs_of(&mut self, other: &KeyedGuard) {
        let (mine, theirs) = (&mut self.guard, &other.guard);
        mine.invariants.extend(&theirs.invariants);
        mine.invariants.sort_unstable();
        mine.invariants.dedup();
        for (list, more) in [
            (&mut mine.reads, &theirs.reads),
            (&mut mine.writes, &theirs.writes),
        ] {
            list.extend(more);
            list.sort_unstable();
            list.dedup();
        }
    }

    fn absorb(&mut self, invariant: Option<usize>, need: &Need) {
        if let Some(invariant) = invariant
            && !self.guard.invariants.contains(&invariant)
        {
            self.guard.invariants.push(invariant);
            self.guard.invariants.sort_unstable();
        }
        if need.keeping == GuardKeeping::Validated {
            self.guard.keeping = GuardKeeping::Validated;
        }
        for (list, more) in [
            (&mut self.guard.reads, &need.reads),
            (&mut self.guard.writes, &need.writes),
        ] {
            list.extend(more);
            list.sort_unstable();
            list.dedup();
        }
    }
}
