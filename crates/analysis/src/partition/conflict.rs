//! Conflict detection: Algorithm 1, lines 1 to 10.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_types::{ColumnIndex, TableId};

use super::access::{Access, AccessedPart};
use super::condition::{Caller, Condition, Side};
use super::{Clause, Conflict, ConflictKind, Key};
use crate::footprint::Footprint;

/// The conflicts of an application.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conflicts {
    /// In order of types; [`Conflict::is_kept`] is not set yet.
    pub(crate) pairs: Vec<Conflict>,
    /// Types with pairs that were not examined.
    pub(crate) unexamined: BTreeSet<usize>,
}

/// The clauses of each pair of types, while they are collected.
type Gathered = BTreeMap<(usize, usize), Vec<Clause>>;

/// Examines all pairs of accesses to one table of which one writes, tables with few pairs first, until
/// `conditions_max` conditions have been examined.
pub(crate) fn detect(
    footprint: &Footprint<'_>,
    accesses: &[Access],
    conditions_max: usize,
) -> Conflicts {
    let mut of_tables: BTreeMap<TableId, Vec<&Access>> = BTreeMap::new();
    for access in accesses {
        of_tables.entry(access.table).or_default().push(access);
    }
    let mut tables: Vec<(usize, Vec<&Access>)> = of_tables
        .into_values()
        .map(|accesses| {
            let written = accesses.iter().filter(|a| a.writes).count();
            (written.saturating_mul(accesses.len()), accesses)
        })
        .collect();
    tables.sort_by_key(|(pairs, _)| *pairs);
    let mut left = conditions_max;
    let mut gathered = Gathered::new();
    let mut conflicts = Conflicts::default();
    for (pairs, accesses) in tables {
        match left.checked_sub(pairs) {
            Some(less) => {
                left = less;
                meet(footprint, &accesses, &mut gathered);
            }
            None => conflicts
                .unexamined
                .extend(accesses.iter().map(|access| access.owner)),
        }
    }
    conflicts.pairs = gathered
        .into_iter()
        .map(|(types, clauses)| Conflict {
            types,
            clauses,
            is_kept: false,
        })
        .collect();
    conflicts
}

fn meet(footprint: &Footprint<'_>, accesses: &[&Access], gathered: &mut Gathered) {
    let (writing, reading): (Vec<&Access>, Vec<&Access>) =
        accesses.iter().copied().partition(|a| a.writes);
    for (place, one) in writing.iter().enumerate() {
        for other in &writing[place..] {
            add_clause(footprint, one, other, gathered);
        }
        for other in &reading {
            add_clause(footprint, one, other, gathered);
        }
    }
}

/// Adds the clause of two accesses, if two calls may meet by them.
fn add_clause(footprint: &Footprint<'_>, one: &Access, other: &Access, gathered: &mut Gathered) {
    let (one, other) = match one.owner <= other.owner {
        true => (one, other),
        false => (other, one),
    };
    if one.inserts && other.inserts {
        return;
    }
    let Some(columns) = common(&one.part, &other.part) else {
        return;
    };
    let Some(equal) = equal(footprint, one, other) else {
        return;
    };
    let kind = match (&one.part, one.writes, other.writes) {
        (AccessedPart::Guard(_), ..) => ConflictKind::Guard,
        (_, true, true) => ConflictKind::BothWrite,
        (_, true, false) => ConflictKind::IsReadBy,
        _ => ConflictKind::ReadsFrom,
    };
    let clauses = gathered.entry((one.owner, other.owner)).or_default();
    let table = one.table;
    note(clauses, kind, table, &columns, &equal);
    if one.owner == other.owner {
        // Of two calls of one type either may be the first.
        let kind = match kind {
            ConflictKind::IsReadBy => ConflictKind::ReadsFrom,
            ConflictKind::ReadsFrom => ConflictKind::IsReadBy,
            both => both,
        };
        let mut turned: Vec<_> = equal.iter().map(|(a, b)| (*b, *a)).collect();
        turned.sort_unstable();
        note(clauses, kind, table, &columns, &turned);
    }
}

fn note(
    clauses: &mut Vec<Clause>,
    kind: ConflictKind,
    table: TableId,
    columns: &[ColumnIndex],
    equal: &[(Key, Key)],
) {
    let known = clauses
        .iter_mut()
        .find(|c| c.kind == kind && c.table == table && c.equal == equal);
    match known {
        Some(clause) => {
            clause.columns.extend(columns);
            clause.columns.sort_unstable();
            clause.columns.dedup();
        }
        None => clauses.push(Clause {
            kind,
            table,
            columns: columns.to_vec(),
            equal: equal.to_vec(),
        }),
    }
}

/// The columns that both accesses concern, empty if they concern which rows exist; `None` if they have nothing in
/// common.
fn common(one: &AccessedPart, other: &AccessedPart) -> Option<Vec<ColumnIndex>> {
    match (one, other) {
        (AccessedPart::Guard(one), AccessedPart::Guard(other)) => (one == other).then(Vec::new),
        (
            AccessedPart::Row {
                columns: a,
                rows: of_a,
            },
            AccessedPart::Row {
                columns: b,
                rows: of_b,
            },
        ) => {
            if *of_a && *of_b {
                return Some(Vec::new());
            }
            let common: Vec<ColumnIndex> = a.iter().copied().filter(|c| b.contains(c)).collect();
            (!common.is_empty()).then_some(common)
        }
        _ => None,
    }
}

/// The keys that are equal whenever two calls meet by these accesses; `None` if they cannot meet.
fn equal(footprint: &Footprint<'_>, one: &Access, other: &Access) -> Option<Vec<(Key, Key)>> {
    let mut condition = Condition::default();
    for (side, access) in [(Side::One, one), (Side::Other, other)] {
        let caller = Caller {
            footprint,
            side,
            owner: access.owner,
            table: access.table,
            statement: access.statement,
            found_by: access.found_by,
            is_name: matches!(access.part, AccessedPart::Guard(_)),
        };
        for demand in &access.demands {
            condition.demand(caller, demand);
        }
    }
    condition.is_satisfiable().then(|| condition.equal_keys())
}
