//! Ids without gaps, and stored extremes (Table 2, row 5; Table 3's sequential ids).
//!
//! A clause with a greatest or least value says that ids are consecutive. Two replicas that append would take the
//! same next id, so appending is ordered. If the id is the number that the same call has just taken from a counter,
//! only the counter is ordered, and its owner may draw the number at commit (coordination-avoidance.txt §6.1).
//! Taking ids away at the low end commutes with appending at the high end, but not with itself: two calls would
//! take the same id.

use anabranch_sql::summary::{Role, Term, WriteClass};
use anabranch_types::{ColumnIndex, TableId};

use super::contribution::Groups;
use super::unique::counter_of;
use super::view::group_table;
use super::{Context, Finding, Need, worst};
use crate::assertion::{Aggregate, Clause, Part, Source, TableColumn};
use crate::footprint::{Action, Footprint};

/// The columns and tables of a clause about extremes.
struct Sequence {
    /// The columns whose extremes it names: the ids.
    ids: Vec<TableColumn>,
    /// Tables whose rows it counts or sums, too.
    counted: Vec<TableId>,
    /// Plain columns: counters, or stored extremes.
    stored: Vec<TableColumn>,
    /// Columns that filter its rows.
    filters: Vec<TableColumn>,
}

impl Sequence {
    fn new(parts: &[Part]) -> Sequence {
        let mut sequence = Sequence {
            ids: Vec::new(),
            counted: Vec::new(),
            stored: Vec::new(),
            filters: Vec::new(),
        };
        for Part { source, .. } in parts {
            if let Source::Aggregate { region, .. } = source {
                let filters = region.filters.iter();
                sequence.filters.extend(filters.map(|f| f.column));
            }
            match source {
                Source::Column(column) => sequence.stored.push(*column),
                Source::Aggregate {
                    function: Aggregate::Max | Aggregate::Min,
                    columns,
                    ..
                } => sequence.ids.extend(columns),
                Source::Aggregate { region, .. } => sequence.counted.extend(&region.tables),
            }
        }
        sequence
    }

    /// The id column of a table; `None` for a table that is only counted, or not named.
    fn id_of(&self, table: TableId) -> Option<ColumnIndex> {
        self.ids.iter().find(|c| c.0 == table).map(|c| c.1)
    }

    fn names(&self, table: TableId) -> bool {
        self.id_of(table).is_some() || self.counted.contains(&table)
    }
}

/// The counters that a clause about extremes puts a guard on: those that number its rows.
pub(crate) fn counters(footprint: &Footprint<'_>, parts: &[Part]) -> Vec<TableColumn> {
    let sequence = Sequence::new(parts);
    let mut counters = Vec::new();
    for action in footprint
        .actions()
        .filter(|a| a.access.role == Role::Insert)
    {
        if sequence.id_of(action.access.table).is_some()
            && let Some(counter) = numbered(footprint, &sequence, action)
        {
            counters.push((counter.action.access.table, counter.column));
        }
    }
    counters.sort_unstable();
    counters.dedup();
    counters
}

/// The counter that numbers the rows of a table; of a table that is only counted, any column's.
fn numbered<'f>(
    footprint: &'f Footprint<'_>,
    sequence: &Sequence,
    insert: &Action,
) -> Option<super::unique::CounterUse<'f>> {
    let id = sequence.id_of(insert.access.table);
    let mut columns: Vec<ColumnIndex> = insert.access.writes.iter().map(|w| w.column).collect();
    columns.sort_by_key(|c| Some(*c) != id);
    counter_of(footprint, insert, &columns).filter(|c| id.is_none_or(|id| c.into == id))
}

/// A clause with a greatest or least value among its parts.
pub(crate) fn judge(context: &Context<'_>, clause: &Clause, parts: &[Part]) -> Vec<Finding> {
    let footprint = context.footprint;
    let sequence = Sequence::new(parts);
    let roles = Roles::new(footprint, clause, parts, &sequence);
    let loose = roles.loose(footprint, &sequence);
    // If anything may be inserted or deleted anywhere, all types that access a group name it alike.
    let named = group_table(parts);
    let mut findings = Vec::new();
    for action in &roles.inserts {
        let mut finding = appended(footprint, &sequence, &roles, loose, action);
        if loose {
            finding.needs = vec![loose_need(footprint, clause, named, action)];
        }
        findings.push(finding);
    }
    for action in &roles.deletes {
        let need = if loose {
            loose_need(footprint, clause, named, action)
        } else {
            group_need(clause, &sequence, action)
        };
        let opponents = if loose {
            &roles.inserts
        } else {
            &roles.deletes
        };
        let mut because = owners(&roles.deletes);
        because.extend(owners(opponents));
        findings.push(
            Finding::no(
                action.owner,
                "sequential-delete",
                "ids are removed in their order: two concurrent calls would remove the same id",
            )
            .because(because)
            .needing(vec![need]),
        );
    }
    for action in &roles.founds {
        findings.push(
            Finding::no(
                action.owner,
                "extremum-insert",
                "it inserts a group's row where rows of the group may exist already",
            )
            .because(roles.all())
            .needing(vec![loose_need(footprint, clause, named, action)]),
        );
    }
    for action in &roles.renumbers {
        findings.push(
            Finding::no(
                action.owner,
                "sequential-change",
                "it changes ids that must be consecutive",
            )
            .because(roles.all())
            .needing(vec![loose_need(footprint, clause, named, action)]),
        );
    }
    for action in &roles.counts {
        let mut finding = counted(footprint, &sequence, &roles, action);
        if let (Some(finding), true) = (&mut finding, loose) {
            finding.needs = vec![loose_need(footprint, clause, named, action)];
        }
        findings.extend(finding);
    }
    worst(findings)
}

/// Which types do what to a sequence.
#[derive(Default)]
struct Roles<'f> {
    inserts: Vec<&'f Action>,
    deletes: Vec<&'f Action>,
    renumbers: Vec<&'f Action>,
    counts: Vec<&'f Action>,
    founds: Vec<&'f Action>,
}

impl<'f> Roles<'f> {
    /// Collects the actions that affect a sequence.
    fn new(
        footprint: &'f Footprint<'_>,
        clause: &Clause,
        parts: &[Part],
        sequence: &Sequence,
    ) -> Roles<'f> {
        let mut roles = Roles::default();
        let groups = Groups {
            parts,
            links: &clause.links,
        };
        let beside = clause.beside();
        let is_stored = |table: TableId| sequence.stored.iter().any(|c| c.0 == table);
        for action in footprint.actions().filter(|a| a.is_write()) {
            let table = action.access.table;
            match action.access.role {
                Role::Insert if sequence.names(table) => roles.inserts.push(action),
                // A group's row, inserted while the group may already have rows.
                Role::Insert
                    if (is_stored(table) || beside.contains(&table))
                        && (groups.may_be_there(footprint, action)
                            || clause.constants && beside.contains(&table)) =>
                {
                    roles.founds.push(action);
                }
                Role::Delete if sequence.names(table) => roles.deletes.push(action),
                Role::Update
                    if beside.contains(&table) && groups.on_beside(footprint, action).is_some() =>
                {
                    roles.renumbers.push(action);
                }
                Role::Update => {
                    let changes = |c: &TableColumn| {
                        c.0 == table
                            && (action.write(c.1).is_some() || footprint.feeds(action, c.1))
                    };
                    if sequence.ids.iter().any(changes)
                        || sequence.filters.iter().any(changes)
                        || clause
                            .links
                            .columns_of(table)
                            .iter()
                            .any(|c| changes(&(table, *c)))
                    {
                        roles.renumbers.push(action);
                    } else if sequence.stored.iter().any(changes) {
                        roles.counts.push(action);
                    }
                }
                _ => {}
            }
        }
        roles
    }

    fn all(&self) -> Vec<usize> {
        let lists = [
            &self.inserts,
            &self.deletes,
            &self.renumbers,
            &self.counts,
            &self.founds,
        ];
        lists.iter().flat_map(|l| owners(l)).collect()
    }

    /// Whether some type deletes ids elsewhere than at the low end, or inserts them elsewhere than at the high end:
    /// then both must be ordered with each other.
    fn loose(&self, footprint: &Footprint<'_>, sequence: &Sequence) -> bool {
        !self.renumbers.is_empty()
            || !self.founds.is_empty()
            || self
                .counts
                .iter()
                .any(|a| !self.numbers(footprint, sequence, a))
            || self.deletes.iter().any(|a| {
                let id = sequence.id_of(a.access.table);
                !id.is_some_and(|id| takes_lowest(a, id))
            })
            || self
                .inserts
                .iter()
                .any(|a| numbered(footprint, sequence, a).is_none())
    }

    /// Whether an UPDATE of a counter gives the number of a row that the same type inserts.
    fn numbers(&self, footprint: &Footprint<'_>, sequence: &Sequence, update: &Action) -> bool {
        self.inserts.iter().any(|insert| {
            insert.owner == update.owner
                && numbered(footprint, sequence, insert)
                    .is_some_and(|c| c.action.statement == update.statement)
        })
    }
}

/// Whether a DELETE takes the row with the least id of those that its statement sees.
pub(crate) fn takes_lowest(delete: &Action, id: ColumnIndex) -> bool {
    matches!(
        delete.fixed(id),
        Some(Term::Aggregate { function, column: Some(of), offset: 0, .. })
            if function == "min" && *of == id
    )
}

fn owners(actions: &[&Action]) -> Vec<usize> {
    actions.iter().map(|a| a.owner).collect()
}

fn appended(
    footprint: &Footprint<'_>,
    sequence: &Sequence,
    roles: &Roles<'_>,
    loose: bool,
    action: &Action,
) -> Finding {
    let counter = numbered(footprint, sequence, action);
    let mut needs = Vec::new();
    let explanation = match &counter {
        Some(counter) => {
            needs.push(counter.need(footprint));
            format!(
                "the next id is taken from {}: two replicas would take the same id",
                footprint.column_name(counter.action.access.table, counter.column)
            )
        }
        None => "ids must be consecutive, and two replicas do not see each other's last id".into(),
    };
    let rule = if counter.is_some() || sequence.stored.is_empty() {
        "sequential-insert"
    } else {
        "extremum-insert"
    };
    let mut because = owners(&roles.inserts);
    if loose {
        because.extend(roles.all());
    }
    Finding::no(action.owner, rule, explanation)
        .because(because)
        .needing(needs)
}

/// The rows of one group: the columns that identify groups, without the id. The row with the least id stays the
/// least while it exists, so that a guard on it is enough.
fn group_need(clause: &Clause, sequence: &Sequence, action: &Action) -> Need {
    let table = action.access.table;
    let id = sequence.id_of(table);
    let mut columns = clause.links.columns_of(table);
    columns.retain(|c| Some(*c) != id);
    Need::keyed(action, &columns).reading(action)
}

/// A group in which rows may be inserted or deleted anywhere, with what the type reads of the table.
fn loose_need(footprint: &Footprint<'_>, clause: &Clause, named: TableId, action: &Action) -> Need {
    let mut need = Need::of_group(clause, named, action);
    for other in footprint.on(action.owner, action.access.table) {
        if other.access.role == Role::Read && !need.reads.contains(&other.statement) {
            need.reads.push(other.statement);
        }
    }
    need.reads.sort_unstable();
    need
}

/// The finding for a type that changes the counter, or the stored extremum.
fn counted(
    footprint: &Footprint<'_>,
    sequence: &Sequence,
    roles: &Roles<'_>,
    action: &Action,
) -> Option<Finding> {
    let numbers = roles.numbers(footprint, sequence, action);
    if numbers {
        // The finding of the INSERT that takes the number covers it.
        return None;
    }
    let column = sequence
        .stored
        .iter()
        .find(|c| action.write(c.1).is_some())
        .map(|c| c.1)?;
    let counts = matches!(
        action.write(column).map(|w| &w.class),
        Some(WriteClass::Add { .. })
    );
    let explanation = if counts {
        "it takes a number, but inserts no row with it: the sequence would have a gap"
    } else {
        "it overwrites the stored value of the sequence"
    };
    Some(
        Finding::no(action.owner, "extremum-update", explanation)
            .because(roles.all())
            .needing(vec![
                Need::row(footprint, action).of(column).reading(action),
            ]),
    )
}
