//! What each action of a transaction type does to the parts of a sum.

use anabranch_sql::summary::{Role, Term, WriteClass};
use anabranch_types::{ColumnIndex, TableId, Value};

use super::ActionRef;
use crate::assertion::{Aggregate, Clause, Filter, Links, Part, Region, Source, TableColumn, Test};
use crate::footprint::{Action, Footprint};
use crate::term::surely_differ;

/// What one action does to one part of a sum.
#[derive(Clone, Debug)]
pub(crate) struct Contribution<'f> {
    pub(crate) part: usize,
    pub(crate) action: &'f Action,
    pub(crate) place: ActionRef,
    pub(crate) kind: Kind,
}

/// The kind of a contribution.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// It adds an amount: by a new row, or (`existing`) to an existing row. The amount is `Some` if it is known and
    /// one row is accessed.
    Adds {
        amount: Option<(f64, Term)>,
        existing: bool,
    },
    /// It moves existing rows into the sum or out of it.
    Moves,
    /// It inserts the group's own row, while the group may already have rows.
    Founds,
    /// It inserts a group's row before the group can have any rows.
    Opens,
    /// It replaces a value.
    Overwrites,
}

/// All contributions of `owner` to the parts.
pub(crate) fn contributions<'f>(
    footprint: &'f Footprint<'_>,
    owner: usize,
    clause: &Clause,
    parts: &[Part],
) -> Vec<Contribution<'f>> {
    let mut found = Vec::new();
    let links = &clause.links;
    let beside = clause.beside();
    for (index, action) in footprint.types[owner].actions.iter().enumerate() {
        if !action.is_write() {
            continue;
        }
        let groups = Groups { parts, links };
        if beside.contains(&action.access.table)
            && let Some(kind) = groups.on_beside(footprint, action)
        {
            found.push(Contribution {
                part: 0,
                action,
                place: (owner, index),
                kind,
            });
        }
        for (part, Part { factor, source, .. }) in parts.iter().enumerate() {
            let kind = match source {
                Source::Column(column) => on_column(footprint, action, *column, *factor, &groups),
                Source::Aggregate {
                    function,
                    columns,
                    plain,
                    region,
                } => on_aggregate(
                    footprint,
                    action,
                    &Summed {
                        function: *function,
                        columns,
                        plain: *plain,
                        region,
                        links,
                    },
                    *factor,
                ),
            };
            if let Some(kind) = kind {
                found.push(Contribution {
                    part,
                    action,
                    place: (owner, index),
                    kind,
                });
            }
        }
    }
    found
}

/// Whether the statement accesses at most one row.
fn touches_one_row(footprint: &Footprint<'_>, action: &Action) -> bool {
    let elementwise = action.access.writes.iter().any(|w| {
        matches!(
            &w.class,
            WriteClass::Assign(Term::Element(_))
                | WriteClass::Add {
                    term: Term::Element(_),
                    ..
                }
        )
    });
    let statement = footprint.types[action.owner]
        .summary
        .statements
        .iter()
        .find(|s| s.id == action.statement);
    let alone = statement.is_some_and(|s| s.accesses.len() == 1);
    let keyed = || {
        let key = &footprint.table(action.access.table).primary_key;
        !key.is_empty()
            && key.iter().all(|c| {
                action
                    .fixed(*c)
                    .is_some_and(|t| !matches!(t, Term::Element(_)))
            })
    };
    !action.in_loop
        && !elementwise
        && match action.access.role {
            Role::Insert => alone,
            _ => keyed(),
        }
}

fn amount(
    footprint: &Footprint<'_>,
    action: &Action,
    factor: f64,
    term: &Term,
) -> Option<(f64, Term)> {
    touches_one_row(footprint, action).then(|| match term {
        Term::Constant(Value::Int(n)) => (factor * *n as f64, Term::Constant(Value::Int(1))),
        Term::Constant(Value::Numeric(n)) => (factor * n.to_f64(), Term::Constant(Value::Int(1))),
        Term::Constant(Value::Null) => (0.0, Term::Constant(Value::Int(1))),
        Term::Negated(parameter) => (-factor, Term::Parameter(*parameter)),
        _ => (factor, term.clone()),
    })
}

/// The parts of an equation, and the links that form its groups.
pub(crate) struct Groups<'a> {
    pub(crate) parts: &'a [Part],
    pub(crate) links: &'a Links,
}

impl Groups<'_> {
    /// The effect on the groups of an action on a table that only determines which groups exist.
    pub(crate) fn on_beside(&self, footprint: &Footprint<'_>, action: &Action) -> Option<Kind> {
        let regroups = |c: &ColumnIndex| action.write(*c).is_some();
        match action.access.role {
            Role::Insert if self.may_be_there(footprint, action) => Some(Kind::Founds),
            Role::Insert => Some(Kind::Opens),
            // Which rows the update adds, and which columns determine that, is not followed.
            Role::Update => {
                let linked = self.links.columns_of(action.access.table);
                (linked.is_empty() || linked.iter().any(regroups)).then_some(Kind::Overwrites)
            }
            Role::Read | Role::Delete => None,
        }
    }

    /// Whether an inserted row of a group may meet rows that are in the group already. Not if they must refer to
    /// the row, or if its key is new.
    pub(crate) fn may_be_there(&self, footprint: &Footprint<'_>, founding: &Action) -> bool {
        let table = founding.access.table;
        let linked = self.links.columns_of(table);
        let fresh = |c: &ColumnIndex| matches!(founding.fixed(*c), Some(Term::Generated));
        if linked.iter().any(fresh) {
            return false;
        }
        let mut regions = self.parts.iter().filter_map(|p| match &p.source {
            Source::Aggregate { region, .. } => Some(region),
            Source::Column(_) => None,
        });
        let refers = |of: TableId| {
            let keys = &footprint.catalog.tables[of.index()].foreign_keys;
            keys.iter().any(|key| {
                key.parent == table
                    && key.parent_columns.iter().all(|p| linked.contains(p))
                    && key
                        .columns
                        .iter()
                        .zip(&key.parent_columns)
                        .all(|(c, p)| self.links.are_equal((of, *c), (table, *p)))
            })
        };
        regions.any(|region| !region.tables.iter().any(|t| *t == table || refers(*t)))
    }
}

fn on_column(
    footprint: &Footprint<'_>,
    action: &Action,
    (table, column): TableColumn,
    factor: f64,
    groups: &Groups<'_>,
) -> Option<Kind> {
    if action.access.table != table {
        return None;
    }
    let regroups = |c: &ColumnIndex| action.write(*c).is_some();
    match action.access.role {
        Role::Insert if groups.may_be_there(footprint, action) => Some(Kind::Founds),
        Role::Update if groups.links.columns_of(table).iter().any(regroups) => {
            Some(Kind::Overwrites)
        }
        // The equation concerns existing rows: a deleted row takes its equation along.
        Role::Read | Role::Delete => None,
        Role::Insert => Some(match action.write(column).map(|w| &w.class) {
            Some(WriteClass::Assign(term)) => Kind::Adds {
                amount: amount(footprint, action, factor, term),
                existing: false,
            },
            _ => Kind::Adds {
                amount: None,
                existing: false,
            },
        }),
        Role::Update if footprint.feeds(action, column) => Some(Kind::Overwrites),
        Role::Update => Some(added(footprint, action, column, factor)?),
    }
}

/// The effect of an UPDATE on a summed column.
fn added(
    footprint: &Footprint<'_>,
    action: &Action,
    column: ColumnIndex,
    factor: f64,
) -> Option<Kind> {
    Some(match &action.write(column)?.class {
        WriteClass::Add { term, negated } => {
            let factor = if *negated { -factor } else { factor };
            Kind::Adds {
                amount: amount(footprint, action, factor, term),
                existing: true,
            }
        }
        WriteClass::Assign(_) | WriteClass::FromRow | WriteClass::FromData => Kind::Overwrites,
    })
}

struct Summed<'a> {
    function: Aggregate,
    columns: &'a [TableColumn],
    plain: bool,
    region: &'a Region,
    links: &'a Links,
}

fn on_aggregate(
    footprint: &Footprint<'_>,
    action: &Action,
    sum: &Summed<'_>,
    factor: f64,
) -> Option<Kind> {
    let table = action.access.table;
    let joined = sum.region.tables.contains(&table);
    let filtered = sum.region.filters.iter().any(|f| f.column.0 == table);
    if !joined && !filtered {
        return None;
    }
    match action.access.role {
        Role::Read => None,
        Role::Delete => Some(Kind::Moves),
        Role::Insert if joined => inserted(footprint, action, sum, factor),
        Role::Insert => None,
        Role::Update => {
            let moves = action.access.writes.iter().any(|w| {
                let column = (table, w.column);
                sum.region.filters.iter().any(|f| f.column == column)
                    || sum.links.classes().iter().any(|c| c.contains(&column))
            });
            let feeds_filter =
                |f: &Filter| f.column.0 == table && footprint.feeds(action, f.column.1);
            let moves = moves || sum.region.filters.iter().any(feeds_filter);
            let changed = sum
                .columns
                .iter()
                .find(|c| c.0 == table && action.write(c.1).is_some());
            let feeds = |c: &&TableColumn| c.0 == table && footprint.feeds(action, c.1);
            match changed {
                _ if moves => Some(Kind::Moves),
                _ if sum.columns.iter().any(|c| feeds(&c)) => Some(Kind::Overwrites),
                None => None,
                // A row that becomes NULL leaves the sum with all that was added to it.
                Some(column) if footprint.may_add_null(action, column.1) => Some(Kind::Overwrites),
                Some(column) if sum.function == Aggregate::Sum && sum.plain => {
                    added(footprint, action, column.1, factor)
                }
                Some(_) => Some(Kind::Overwrites),
            }
        }
    }
}

fn inserted(
    footprint: &Footprint<'_>,
    action: &Action,
    sum: &Summed<'_>,
    factor: f64,
) -> Option<Kind> {
    let table = action.access.table;
    if sum
        .region
        .filters
        .iter()
        .any(|f| f.column.0 == table && surely_fails(action, f))
    {
        return None;
    }
    // A joined table to which the summed one refers adds no rows that existed before it.
    let referred = sum.region.tables.iter().any(|main| {
        *main != table
            && footprint.catalog.tables[main.index()]
                .foreign_keys
                .iter()
                .any(|key| {
                    key.parent == table
                        && key
                            .columns
                            .iter()
                            .zip(&key.parent_columns)
                            .all(|(c, p)| sum.links.are_equal((*main, *c), (table, *p)))
                })
    });
    if referred {
        return None;
    }
    let amount = match (sum.function, sum.columns) {
        (Aggregate::Count, _) => amount(footprint, action, factor, &Term::Constant(Value::Int(1))),
        (Aggregate::Sum, [(owner, column)]) if sum.plain && *owner == table => {
            match action.write(*column).map(|w| &w.class) {
                Some(WriteClass::Assign(term)) => amount(footprint, action, factor, term),
                _ => None,
            }
        }
        _ => None,
    };
    Some(Kind::Adds {
        amount,
        existing: false,
    })
}

/// Whether a row that `action` inserts surely fails a filter.
fn surely_fails(action: &Action, filter: &Filter) -> bool {
    let constant = match action.write(filter.column.1).map(|w| &w.class) {
        Some(WriteClass::Assign(Term::Constant(value))) => Some(value),
        Some(_) => None,
        // Summaries list all columns of an INSERT, so this does not occur.
        None => None,
    };
    match (&filter.test, constant) {
        (Test::NotNull, Some(Value::Null)) | (Test::Equals(_), Some(Value::Null)) => true,
        (Test::Null, Some(value)) => *value != Value::Null,
        (Test::Equals(wanted), Some(value)) => same_kind(wanted, value) && wanted != value,
        _ => false,
    }
}

fn same_kind(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// Whether two actions of one call surely concern different groups.
pub(crate) fn in_different_groups(a: &Action, b: &Action, links: &Links) -> bool {
    links.classes().iter().any(|class| {
        let of = |action: &Action| {
            class
                .iter()
                .filter(|c| c.0 == action.access.table)
                .find_map(|c| action.fixed(c.1).cloned())
        };
        matches!((of(a), of(b)), (Some(x), Some(y)) if surely_differ(&x, &y))
    })
}
