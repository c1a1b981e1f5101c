//! Isolation beside invariants: no update may be lost, and what a transaction checked must still hold.
//!
//! Table 2 does not cover a register that is written from its own old value, yet last-writer-wins would lose one of
//! two such updates; nor a transaction that reads a row, decides, and changes what it has read (trap: isolation is
//! required besides invariants). So each table that some type changes has an invariant of this kind:
//!
//! * amounts added to a counter commute; of values that do not depend on data the last one may win; the row's owner
//!   applies a function of the row itself once, in the order of commits: none of these needs a guard;
//! * a value computed from data that was read, where some type changes what was read, needs one (`lost-update`);
//! * so does a change to what the same type has read and uses (`read-check-write`), for the type itself and for
//!   every other type that changes it. Taking the least number and deleting its row is such a check; appending
//!   greater ones does not disturb it (`append-behind`).
//!
//! Reads that only go to the client, and decisions about data that the transaction does not change, are not
//! guarded: an application that relies on them declares the invariant, or uses serializability.

use anabranch_sql::summary::{Deferral, ResultUse, Role, StatementId, Term, WriteClass};
use anabranch_types::{ColumnIndex, TableId};

use super::unique::counter_of;
use super::{Context, Finding, Need, worst};
use crate::footprint::{Action, Footprint};

/// A part of a table that types can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Aspect {
    /// Which rows come into existence.
    Rows,
    /// Which rows cease to exist.
    Gone,
    /// The value of a column.
    Column(ColumnIndex),
}

/// Which rows there are.
const EXISTENCE: [Aspect; 2] = [Aspect::Rows, Aspect::Gone];

/// A type's check: it changes what it has read.
struct Check<'f> {
    owner: usize,
    reads: Vec<&'f Action>,
    aspects: Vec<Aspect>,
}

/// Isolation on one table.
pub(crate) fn judge(context: &Context<'_>, table: TableId) -> Vec<Finding> {
    let footprint = context.footprint;
    let checks: Vec<Check<'_>> = (0..footprint.types.len())
        .filter_map(|owner| check(footprint, owner, table))
        .collect();
    let mut findings = Vec::new();
    for action in footprint.on_table(table).filter(|a| a.is_write()) {
        let mut changed = changed(action);
        if footprint.may_replace(action) {
            // A call that has read the row under this key changes another one.
            changed.extend(columns_of(footprint, table));
        }
        let against: Vec<&Check<'_>> = checks
            .iter()
            .filter(|c| {
                // A DELETE removes the values that the transaction has read.
                let own = c.owner == action.owner && action.access.role == Role::Delete;
                own || c.aspects.iter().any(|aspect| changed.contains(aspect))
            })
            .collect();
        let harmless =
            !against.is_empty() && against.iter().all(|c| appends_behind(footprint, action, c));
        findings.push(if against.is_empty() {
            unchecked(footprint, action)
        } else if harmless {
            Finding::yes(
                action.owner,
                "append-behind",
                "it appends numbers greater than the least one, and only the least one is checked",
            )
            .because(against.iter().map(|c| c.owner).collect())
        } else {
            guarded(footprint, action, &against)
        });
    }
    let mut findings = worst(findings);
    use_common_keys(footprint, table, &mut findings);
    findings
}

/// Keys the guards by columns that all ordered types know: those of the primary key if they know it whole, else
/// also columns that no type changes. Two types that access one row have the same values there.
fn use_common_keys(footprint: &Footprint<'_>, table: TableId, findings: &mut [Finding]) {
    let needs = || findings.iter().flat_map(|f| &f.needs);
    let known = |c: &ColumnIndex| needs().all(|n| n.key.iter().any(|(k, _)| k == c));
    let primary = &footprint.table(table).primary_key;
    let named: Vec<ColumnIndex> = match !primary.is_empty() && primary.iter().all(known) {
        true => primary.clone(),
        false => identifying_columns(footprint, table)
            .into_iter()
            .filter(known)
            .collect(),
    };
    for need in findings.iter_mut().flat_map(|f| &mut f.needs) {
        need.key.retain(|(column, _)| named.contains(column));
    }
}

/// The columns that can identify rows: those of the primary key, and those that no type changes.
fn identifying_columns(footprint: &Footprint<'_>, table: TableId) -> Vec<ColumnIndex> {
    let schema = footprint.table(table);
    let mut columns = schema.primary_key.clone();
    let others = (0..schema.columns.len()).map(|c| ColumnIndex(c as u16));
    let others = others.filter(|c| !footprint.may_change(table, *c));
    columns.extend(others.filter(|c| !schema.primary_key.contains(c)));
    columns
}

/// The aspects that a write changes.
fn changed(action: &Action) -> Vec<Aspect> {
    match action.access.role {
        Role::Read => Vec::new(),
        Role::Insert => vec![Aspect::Rows],
        Role::Delete => vec![Aspect::Gone],
        Role::Update => action
            .access
            .writes
            .iter()
            .map(|w| Aspect::Column(w.column))
            .collect(),
    }
}

/// The values of all columns of a table.
fn columns_of(footprint: &Footprint<'_>, table: TableId) -> impl Iterator<Item = Aspect> {
    let columns = 0..footprint.table(table).columns.len();
    columns.map(|c| Aspect::Column(ColumnIndex(c as u16)))
}

/// What `owner` reads of the table, uses, and changes itself; `None` if there is nothing.
fn check<'f>(footprint: &'f Footprint<'_>, owner: usize, table: TableId) -> Option<Check<'f>> {
    let mine: Vec<&Action> = footprint.on(owner, table).collect();
    let written = |with_cascades: bool| -> Vec<Aspect> {
        let writes = mine.iter().filter(|a| with_cascades || !a.cascaded);
        writes
            .flat_map(|a| {
                let mut aspects = changed(a);
                // A deleted row takes all its values along. Who reads those of a row that a cascade takes reads its
                // existence, too.
                if a.access.role == Role::Delete && !a.cascaded {
                    aspects.extend(columns_of(footprint, table));
                }
                aspects
            })
            .collect()
    };
    // A cascade changes what statements have read; but it follows from a statement that finds its own rows, and what a
    // cascade looks for is decided there.
    let (direct, all) = (written(false), written(true));
    let mut reads = Vec::new();
    let mut aspects = Vec::new();
    for action in &mine {
        let written = if action.cascaded { &direct } else { &all };
        let mut seen = relied_on(footprint, action);
        seen.retain(|aspect| match aspect {
            Aspect::Rows | Aspect::Gone => EXISTENCE.iter().any(|of| written.contains(of)),
            Aspect::Column(_) => written.contains(aspect),
        });
        if !seen.is_empty() {
            reads.push(*action);
            aspects.extend(seen);
        }
    }
    aspects.sort_unstable();
    aspects.dedup();
    (!reads.is_empty()).then_some(Check {
        owner,
        reads,
        aspects,
    })
}

/// The aspects that an action reads, the transaction uses, and some type may change.
fn relied_on(footprint: &Footprint<'_>, action: &Action) -> Vec<Aspect> {
    let table = action.access.table;
    let facts = footprint.facts(table);
    let rows_change = !facts.deleters.is_empty() || !facts.inserters.is_empty();
    let moving = |columns: &mut dyn Iterator<Item = ColumnIndex>| -> Vec<Aspect> {
        columns
            .filter(|c| !footprint.is_settled(table, *c))
            .map(Aspect::Column)
            .collect()
    };
    let read = &action.access.columns_read;
    let used = action.result == ResultUse::Used;
    match action.access.role {
        Role::Insert => Vec::new(),
        // A read inside a statement that writes is used for what is written.
        Role::Read if used || action.writing || feeds_a_choice(footprint, action) => {
            let mut seen = moving(&mut read.iter().copied());
            match rows_change {
                // Rows that it has not found may go.
                true if action.finds_none => seen.push(Aspect::Rows),
                true => seen.extend(EXISTENCE),
                false => {}
            }
            seen
        }
        Role::Read => Vec::new(),
        // Two deletions have the same effect as one, unless one uses whether the row existed.
        Role::Delete => {
            let mut seen = moving(&mut action.access.conditions.iter().map(|c| c.column));
            if action.access.has_other_conditions && !action.cascaded {
                seen.extend(moving(&mut read.iter().copied()));
            }
            // The existence of the row decides what becomes of its contents.
            if action.result != ResultUse::Unused {
                seen.extend(moving(&mut read.iter().copied()));
                seen.extend(EXISTENCE);
            }
            seen
        }
        // The row's owner evaluates the UPDATE as a whole. The columns that it returns do not change, and it fails
        // if the row is gone; the existence of a row may decide whether another is inserted.
        Role::Update if footprint.is_deferred(action.deferral, &action.access) => {
            match action.deferral {
                Deferral::AfterReading if rows_change => EXISTENCE.to_vec(),
                _ => Vec::new(),
            }
        }
        Role::Update => {
            let mut seen = moving(&mut action.access.conditions.iter().map(|c| c.column));
            if action.access.has_other_conditions && !action.cascaded {
                seen.extend(moving(&mut read.iter().copied()));
            }
            if action.result != ResultUse::Unused {
                seen.extend(moving(&mut action.access.columns_returned.iter().copied()));
            }
            if used && !facts.deleters.is_empty() {
                seen.extend(EXISTENCE);
            }
            let writes = action.access.writes.iter();
            for write in writes.filter(|w| is_computed(&w.class)) {
                let reads_it = |a: &Action| a.access.columns_read.contains(&write.column);
                if footprint.on(action.owner, table).any(reads_it) {
                    seen.push(Aspect::Column(write.column));
                }
            }
            seen
        }
    }
}

/// Whether a SELECT's result chooses which rows of its own table the type changes.
fn feeds_a_choice(footprint: &Footprint<'_>, select: &Action) -> bool {
    footprint
        .on(select.owner, select.access.table)
        .filter(|a| a.is_write())
        .any(|a| {
            let from_it = |term: &Term| source_of(term) == Some(select.statement);
            a.access.conditions.iter().any(|c| from_it(&c.term))
                || a.access.writes.iter().any(|w| match &w.class {
                    WriteClass::Assign(term) => from_it(term),
                    _ => false,
                })
        })
}

fn source_of(term: &Term) -> Option<StatementId> {
    match term {
        Term::Column { statement, .. } | Term::Aggregate { statement, .. } => Some(*statement),
        _ => None,
    }
}

/// Whether a written value may be computed from what was read: of two such writes one is lost.
pub(crate) fn is_computed(class: &WriteClass) -> bool {
    match class {
        WriteClass::FromData => true,
        WriteClass::Assign(term) => is_data(term),
        WriteClass::Add { .. } | WriteClass::FromRow => false,
    }
}

/// Whether a term may contain data that was read.
fn is_data(term: &Term) -> bool {
    matches!(
        term,
        Term::Column { .. } | Term::Aggregate { .. } | Term::Incremented { .. } | Term::Unknown
    )
}

/// Whether `insert` appends numbers above those of which a check takes the least.
fn appends_behind(footprint: &Footprint<'_>, insert: &Action, check: &Check<'_>) -> bool {
    let of_rows = |aspect: &Aspect| EXISTENCE.contains(aspect);
    if insert.access.role != Role::Insert || !check.aspects.iter().all(of_rows) {
        return false;
    }
    let columns: Vec<ColumnIndex> = insert.access.writes.iter().map(|w| w.column).collect();
    let Some(counter) = counter_of(footprint, insert, &columns) else {
        return false;
    };
    let ascends = footprint
        .increment(insert.owner, counter.action.statement, counter.column)
        .is_some_and(|(_, step)| step > 0);
    // Every read of the check is of the least number, or of its row.
    ascends
        && check.reads.iter().all(|read| match read.access.role {
            Role::Read => footprint.types[check.owner].actions.iter().any(|a| {
                a.access.table == read.access.table
                    && a.access.role == Role::Delete
                    && super::sequence::takes_lowest(a, counter.into)
                    && a.fixed(counter.into).and_then(source_of) == Some(read.statement)
            }),
            Role::Delete => super::sequence::takes_lowest(read, counter.into),
            Role::Insert | Role::Update => false,
        })
}

/// Whether the least number that a check takes stays the least while its row exists, because all inserts append
/// above it. Then a guard on the row is enough: the range in which it is the least need not be validated, and
/// appending types are not disturbed.
fn stays_least(footprint: &Footprint<'_>, check: &Check<'_>, table: TableId) -> bool {
    let inserts = || {
        footprint
            .on_table(table)
            .filter(|a| a.access.role == Role::Insert)
    };
    inserts().next().is_some() && inserts().all(|a| appends_behind(footprint, a, check))
}

/// The finding for a change that no check reads.
fn unchecked(footprint: &Footprint<'_>, action: &Action) -> Finding {
    let owner = action.owner;
    let any = |test: fn(&WriteClass) -> bool| action.access.writes.iter().any(|w| test(&w.class));
    let name = &footprint.table(action.access.table).name;
    match action.access.role {
        Role::Insert => Finding::yes(
            owner,
            "blind-write",
            format!("it inserts into {name} without a read before"),
        ),
        Role::Delete => Finding::yes(
            owner,
            "blind-write",
            format!("it deletes from {name} without using what was there"),
        ),
        _ if any(|c| matches!(c, WriteClass::FromRow)) => Finding::yes(
            owner,
            "owner-order",
            format!(
                "its new values are a function of the row of {name}: the row's one owner applies each update once, in the order of commits"
            ),
        ),
        _ if any(|c| matches!(c, WriteClass::Add { .. })) => Finding::yes(
            owner,
            "commutative-update",
            format!("its increments of {name} add up in any order"),
        ),
        _ => Finding::yes(
            owner,
            "blind-write",
            format!("what it writes to {name} does not depend on what was there"),
        ),
    }
}

/// The finding for a change to what some type checks.
fn guarded(footprint: &Footprint<'_>, action: &Action, against: &[&Check<'_>]) -> Finding {
    let owner = action.owner;
    let name = &footprint.table(action.access.table).name;
    let own = against.iter().find(|c| c.owner == owner);
    let mut writes = action.access.writes.iter();
    let computed = writes.any(|w| is_computed(&w.class));
    let (rule, explanation) = match own {
        Some(_) if computed && action.access.role == Role::Update => (
            "lost-update",
            format!(
                "it writes values to {name} that it computes from what it read there: of two concurrent writes one is lost"
            ),
        ),
        Some(_) => (
            "read-check-write",
            format!(
                "it changes rows of {name} that it read and acts on: two concurrent calls would both act on the same state"
            ),
        ),
        None => (
            "read-check-write",
            format!("it changes rows of {name} that other transactions read, act on and change"),
        ),
    };
    let key = identifying_columns(footprint, action.access.table);
    let mut needs = vec![Need::keyed(action, &key)];
    if let Some(own) = own {
        let settled = stays_least(footprint, own, action.access.table);
        needs.extend(own.reads.iter().map(|a| {
            let mut need = Need::keyed(a, &key).reading(a);
            if settled && a.access.role == Role::Read {
                need.reads.clear();
            }
            need
        }));
    }
    Finding::no(owner, rule, explanation)
        .because(against.iter().map(|c| c.owner).collect())
        .needing(needs)
}
