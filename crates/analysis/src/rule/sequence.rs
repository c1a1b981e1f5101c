//! Ids without gaps, and remembered extremes (Table 2, row 5; Table 3's sequential ids).
//!
//! A clause with a greatest or least value says that ids follow one another. Two replicas that
//! append would take the same next id, so appending is ordered; where the id is the number that the
//! same call has just taken from a counter, the counter alone is ordered, and its owner may decide
//! the number at commit (coordination-avoidance.txt §6.1). Taking ids away at the low end commutes
//! with appending at the high end, but not with itself: two would take the same.

use anabranch_sql::summary::{Role, Term, WriteClass};
use anabranch_types::{ColumnIndex, TableId};

use super::unique::counter_of;
use super::{Context, Finding, Need, worst};
use crate::assertion::{Aggregate, Clause, Part, Source, TableColumn};
use crate::footprint::{Action, Footprint};

/// What a clause about extremes names.
struct Sequence {
    /// The columns whose extremes it names: the ids.
    ids: Vec<TableColumn>,
    /// Tables whose rows it counts or sums beside.
    counted: Vec<TableId>,
    /// Plain columns: counters, or remembered extremes.
    remembered: Vec<TableColumn>,
}

impl Sequence {
    fn new(parts: &[Part]) -> Sequence {
        let mut sequence = Sequence {
            ids: Vec::new(),
            counted: Vec::new(),
            remembered: Vec::new(),
        };
        for Part { source, .. } in parts {
            match source {
                Source::Column(column) => sequence.remembered.push(*column),
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

    /// The id column of a table; none for a table that is only counted, or not named.
    fn id_of(&self, table: TableId) -> Option<ColumnIndex> {
        self.ids.iter().find(|c| c.0 == table).map(|c| c.1)
    }

    fn names(&self, table: TableId) -> bool {
        self.id_of(table).is_some() || self.counted.contains(&table)
    }
}

/// The counters that a clause about extremes puts under a guard: those that number its rows.
pub(crate) fn counters(footprint: &Footprint<'_>, parts: &[Part]) -> Vec<TableColumn> {
    let sequence = Sequence::new(parts);
    let mut counters = Vec::new();
    for action in footprint
        .actions()
        .filter(|a| a.access.role == Role::Insert)
    {
        if sequence.id_of(action.access.table).is_some()
            && let Some(counter) = numbered(footprint, action)
        {
            counters.push((counter.action.access.table, counter.column));
        }
    }
    counters.sort_unstable();
    counters.dedup();
    counters
}

fn numbered<'f>(
    footprint: &'f Footprint<'_>,
    insert: &Action,
) -> Option<super::unique::CounterUse<'f>> {
    let columns: Vec<ColumnIndex> = insert.access.writes.iter().map(|w| w.column).collect();
    counter_of(footprint, insert, &columns)
}

/// A clause with a greatest or least value among its parts.
pub(crate) fn judge(context: &Context<'_>, clause: &Clause, parts: &[Part]) -> Vec<Finding> {
    let footprint = context.footprint;
    let sequence = Sequence::new(parts);
    let mut roles = Roles::default();
    for action in footprint.actions().filter(|a| a.is_write()) {
        let table = action.access.table;
        match action.access.role {
            Role::Insert if sequence.names(table) => roles.inserts.push(action),
            Role::Delete if sequence.names(table) => roles.deletes.push(action),
            Role::Update => {
                let changes = |c: &TableColumn| c.0 == table && action.write(c.1).is_some();
                if sequence.ids.iter().any(changes)
                    || clause
                        .links
                        .columns_of(table)
                        .iter()
                        .any(|c| changes(&(table, *c)))
                {
                    roles.renumbers.push(action);
                } else if sequence.remembered.iter().any(changes) {
                    roles.counts.push(action);
                }
            }
            _ => {}
        }
    }
    let mut findings = Vec::new();
    for action in &roles.inserts {
        findings.push(appended(footprint, clause, &sequence, &roles, action));
    }
    for action in &roles.deletes {
        let loose = roles.loose(footprint, &sequence);
        let need = group_need(footprint, clause, &sequence, action, loose);
        let opponents = if roles.loose(footprint, &sequence) {
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
                "ids are taken away in their order: two at once would take the same",
            )
            .because(because)
            .needing(vec![need]),
        );
    }
    for action in &roles.renumbers {
        findings.push(
            Finding::no(
                action.owner,
                "sequential-change",
                "it changes ids that must follow one another",
            )
            .because(roles.all())
            .needing(vec![Need::keyed(action, &[]).reading(action)]),
        );
    }
    for action in &roles.counts {
        findings.extend(counted(footprint, &sequence, &roles, action));
    }
    worst(findings)
}

/// Who does what to a sequence.
#[derive(Default)]
struct Roles<'f> {
    inserts: Vec<&'f Action>,
    deletes: Vec<&'f Action>,
    renumbers: Vec<&'f Action>,
    counts: Vec<&'f Action>,
}

impl Roles<'_> {
    fn all(&self) -> Vec<usize> {
        let lists = [&self.inserts, &self.deletes, &self.renumbers, &self.counts];
        lists.iter().flat_map(|l| owners(l)).collect()
    }

    /// Whether something takes ids elsewhere than at the low end, or inserts them elsewhere than
    /// at the high end: then both must be ordered with each other.
    fn loose(&self, footprint: &Footprint<'_>, sequence: &Sequence) -> bool {
        !self.renumbers.is_empty()
            || self.deletes.iter().any(|a| {
                let id = sequence.id_of(a.access.table);
                !id.is_some_and(|id| takes_lowest(a, id))
            })
            || self
                .inserts
                .iter()
                .any(|a| numbered(footprint, a).is_none())
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
    clause: &Clause,
    sequence: &Sequence,
    roles: &Roles<'_>,
    action: &Action,
) -> Finding {
    let counter = numbered(footprint, action);
    let mut needs = Vec::new();
    let explanation = match &counter {
        Some(counter) => {
            needs.push(counter.need(footprint));
            format!(
                "the next id is taken from {}: two replicas would take the same",
                footprint.column_name(counter.action.access.table, counter.column)
            )
        }
        None => "ids must follow one another, and two replicas do not see each other's last".into(),
    };
    if counter.is_none() || roles.loose(footprint, sequence) {
        needs.push(group_need(footprint, clause, sequence, action, true));
    }
    let rule = if counter.is_some() || sequence.remembered.is_empty() {
        "sequential-insert"
    } else {
        "extremum-insert"
    };
    let mut because = owners(&roles.inserts);
    if roles.loose(footprint, sequence) {
        because.extend(roles.all());
    }
    Finding::no(action.owner, rule, explanation)
        .because(because)
        .needing(needs)
}

/// The rows of one group: the columns that tell groups apart, without the id. What the type reads
/// of the table is validated with them if `loose`: otherwise the row with the least id stays the one
/// with the least while it is there, and holding it is enough.
fn group_need(
    footprint: &Footprint<'_>,
    clause: &Clause,
    sequence: &Sequence,
    action: &Action,
    loose: bool,
) -> Need {
    let table = action.access.table;
    let id = sequence.id_of(table);
    let mut columns = clause.links.columns_of(table);
    columns.retain(|c| Some(*c) != id);
    let mut need = Need::keyed(action, &columns).reading(action);
    for other in footprint.on(action.owner, table) {
        if loose && other.access.role == Role::Read && !need.reads.contains(&other.statement) {
            need.reads.push(other.statement);
        }
    }
    need.reads.sort_unstable();
    need
}

/// A type that changes the counter, or the remembered extremum.
fn counted(
    footprint: &Footprint<'_>,
    sequence: &Sequence,
    roles: &Roles<'_>,
    action: &Action,
) -> Option<Finding> {
    let numbers = roles.inserts.iter().any(|insert| {
        insert.owner == action.owner
            && numbered(footprint, insert).is_some_and(|c| c.action.statement == action.statement)
    });
    if numbers {
        // The insertion that takes the number speaks for it.
        return None;
    }
    let column = sequence
        .remembered
        .iter()
        .find(|c| action.write(c.1).is_some())
        .map(|c| c.1)?;
    let counts = matches!(
        action.write(column).map(|w| &w.class),
        Some(WriteClass::Add { .. })
    );
    let explanation = if counts {
        "it takes a number without a row that has it: the sequence would have a gap"
    } else {
        "it overwrites what is remembered of the sequence"
    };
    Some(
        Finding::no(action.owner, "extremum-update", explanation)
            .because(roles.all())
            .needing(vec![
                Need::row(footprint, action).of(column).reading(action),
            ]),
    )
}
