//! PRIMARY KEY and UNIQUE (Table 2, rows 3 to 5).
//!
//! What matters is the source of a key. A generated value cannot be chosen twice. A key that has the number just
//! taken from a counter, beside the counter's own key, is as unique as the number. A key that has the key of a row
//! that the same call inserts is as unique as that one. Every other key is chosen, and two replicas may choose the
//! same. All types that insert into a table must use the same source: otherwise the choice of one may equal the
//! other's.

use anabranch_sql::summary::{Deferral, ResultUse, Role, Term, WriteClass};
use anabranch_types::{ColumnIndex, TableId};

use super::{Context, Finding, Need};
use crate::footprint::{Action, Footprint};
use crate::plan::GuardKeeping;
use crate::term::surely_equal;

/// The source of the keys of inserted rows.
#[derive(Clone, Debug, PartialEq)]
enum Origin {
    Generated(ColumnIndex),
    Counter {
        table: TableId,
        column: ColumnIndex,
        into: ColumnIndex,
        beside: Vec<ColumnIndex>,
    },
    Parent(TableId),
    Chosen,
}

/// A number taken from a counter and used in an inserted row.
pub(crate) struct CounterUse<'f> {
    /// The UPDATE that takes it.
    pub(crate) action: &'f Action,
    /// The counter.
    pub(crate) column: ColumnIndex,
    /// The column of the inserted row that gets the number.
    pub(crate) into: ColumnIndex,
    /// The columns of the inserted row that hold the counter's key, in that key's order.
    pub(crate) beside: Vec<ColumnIndex>,
}

impl CounterUse<'_> {
    /// The counter as an item to be ordered on: decided by its owner at commit if the statement can be deferred.
    pub(crate) fn need(&self, footprint: &Footprint<'_>) -> Need {
        let mut need = Need::row(footprint, self.action).of(self.column);
        if self.action.deferral == Deferral::Unread && self.action.result == ResultUse::Carried {
            need.keeping = GuardKeeping::AtCommit;
            need.writes.clear();
        } else {
            need = need.reading(self.action);
        }
        need
    }
}

/// The counter that numbers the rows that `insert` inserts, judging by `columns` of them.
pub(crate) fn counter_of<'f>(
    footprint: &'f Footprint<'_>,
    insert: &Action,
    columns: &[ColumnIndex],
) -> Option<CounterUse<'f>> {
    columns.iter().find_map(|into| {
        let Term::Incremented {
            statement, column, ..
        } = insert.fixed(*into)?
        else {
            return None;
        };
        let (action, step) = footprint.increment(insert.owner, *statement, *column)?;
        if step == 0 || !counts_one_way(footprint, action.access.table, *column, step) {
            return None;
        }
        let beside = footprint
            .table(action.access.table)
            .primary_key
            .iter()
            .map(|key| {
                let of_counter = action.fixed(*key)?;
                columns.iter().copied().find(|c| {
                    insert
                        .fixed(*c)
                        .is_some_and(|t| surely_equal(t, of_counter))
                })
            })
            .collect::<Option<Vec<_>>>()?;
        Some(CounterUse {
            action,
            column: *column,
            into: *into,
            beside,
        })
    })
}

/// Whether every update of the column moves it in the direction of `step`.
fn counts_one_way(
    footprint: &Footprint<'_>,
    table: TableId,
    column: ColumnIndex,
    step: i64,
) -> bool {
    footprint
        .on_table(table)
        .filter(|a| a.access.role == Role::Update)
        .all(|a| {
            a.write(column).is_none()
                || footprint
                    .increment(a.owner, a.statement, column)
                    .is_some_and(|(_, by)| by != 0 && (by > 0) == (step > 0))
        })
}

fn origin(footprint: &Footprint<'_>, insert: &Action, columns: &[ColumnIndex]) -> Origin {
    if let Some(generated) = columns
        .iter()
        .find(|c| matches!(insert.fixed(**c), Some(Term::Generated)))
    {
        return Origin::Generated(*generated);
    }
    if let Some(counter) = counter_of(footprint, insert, columns) {
        return Origin::Counter {
            table: counter.action.access.table,
            column: counter.column,
            into: counter.into,
            beside: counter.beside,
        };
    }
    parent_of(footprint, insert, columns).map_or(Origin::Chosen, Origin::Parent)
}

/// A table of which the same type inserts a row whose key these rows copy.
fn parent_of(
    footprint: &Footprint<'_>,
    insert: &Action,
    columns: &[ColumnIndex],
) -> Option<TableId> {
    let keys = &footprint.catalog.tables[insert.access.table.index()].foreign_keys;
    // Any call can copy the key of an existing parent.
    let surely_new = |parent: &Action| {
        let of = |action: &Action| footprint.statement(action.owner, action.statement);
        match (of(parent), of(insert)) {
            (Some(p), Some(i)) => !p.may_skip_rows && p.id < i.id && i.path.starts_with(&p.path),
            _ => false,
        }
    };
    keys.iter()
        .filter(|key| key.parent != insert.access.table)
        .filter(|key| key.columns.iter().all(|c| columns.contains(c)))
        .find(|key| {
            footprint.on(insert.owner, key.parent).any(|parent| {
                parent.access.role == Role::Insert
                    && surely_new(parent)
                    && key.columns.iter().zip(&key.parent_columns).all(|(c, p)| {
                        match (insert.fixed(*c), parent.fixed(*p)) {
                            (Some(a), _) if returns(parent, *p, a) => true,
                            (Some(a), Some(b)) => surely_equal(a, b),
                            _ => false,
                        }
                    })
            })
        })
        .map(|key| key.parent)
}

/// Whether a value is the result of an INSERT's RETURNING of a column of the row that it inserts.
fn returns(insert: &Action, column: ColumnIndex, term: &Term) -> bool {
    matches!(term, Term::Column { statement, access, column: of }
        if (*statement, *access, *of) == (insert.statement, insert.place, column))
}

/// A primary key or unique index over `columns`.
pub(crate) fn judge(
    context: &Context<'_>,
    table: TableId,
    columns: &[ColumnIndex],
) -> Vec<Finding> {
    let footprint = context.footprint;
    let inserts: Vec<&Action> = footprint
        .on_table(table)
        .filter(|a| a.access.role == Role::Insert)
        .collect();
    let rekeys: Vec<&Action> = footprint
        .on_table(table)
        .filter(|a| a.access.role == Role::Update && columns.iter().any(|c| a.write(*c).is_some()))
        .filter(|a| {
            columns.iter().filter_map(|c| a.write(*c)).any(|w| {
                w.class != WriteClass::Assign(Term::Constant(anabranch_types::Value::Null))
            })
        })
        .collect();
    let origins: Vec<Origin> = inserts
        .iter()
        .map(|a| origin(footprint, a, columns))
        .collect();
    let agreed = rekeys.is_empty() && origins.windows(2).all(|w| w[0] == w[1]);
    let mut owners: Vec<usize> = inserts.iter().chain(&rekeys).map(|a| a.owner).collect();
    owners.sort_unstable();
    owners.dedup();
    let mut findings = Vec::new();
    for (insert, origin) in inserts.iter().zip(&origins) {
        findings.push(if agreed {
            accept(context, insert, columns, origin, &owners)
        } else {
            chosen(insert, columns, &owners, mixed(origin))
        });
    }
    for action in rekeys {
        let need = rekeyed(footprint, action, columns);
        findings.push(
            Finding::no(
                action.owner,
                "unique-chosen",
                "it changes the key to a chosen value",
            )
            .because(owners.clone())
            .needing(vec![need]),
        );
    }
    for owner in &footprint.facts(table).deleters {
        findings.push(Finding::yes(
            *owner,
            "unique-delete",
            "removing rows makes no duplicate",
        ));
    }
    super::worst(findings)
}

/// The new key of the rows whose key an UPDATE changes, as far as it is known. Columns that no type changes have
/// the value of its condition. One changed column gets the assigned value; of several, each might come from another
/// UPDATE. If a row's primary key may change, too, two UPDATEs make two rows of one, and then all are ordered.
fn rekeyed(footprint: &Footprint<'_>, action: &Action, columns: &[ColumnIndex]) -> Need {
    let is_settled = |column: ColumnIndex| !footprint.may_change(action.access.table, column);
    let changing = columns.iter().filter(|c| !is_settled(**c)).count();
    let new_value = |column: ColumnIndex| -> Option<&Term> {
        if is_settled(column) {
            return action.fixed(column);
        }
        match &action.write(column)?.class {
            WriteClass::Assign(term) if changing == 1 => Some(term),
            _ => None,
        }
    };
    let mut need = Need::keyed(action, &[]).reading(action);
    let mut primary = footprint.table(action.access.table).primary_key.iter();
    if !primary.all(|c| is_settled(*c)) {
        return need;
    }
    let key = columns
        .iter()
        .filter_map(|c| Some((*c, new_value(*c)?.clone())));
    need.key = key.collect();
    need
}

fn mixed(origin: &Origin) -> &'static str {
    match origin {
        Origin::Chosen => "the key is chosen by the caller: two replicas may choose the same",
        _ => {
            "its keys are generated, but other transaction types insert chosen keys into the same table"
        }
    }
}

fn chosen(insert: &Action, columns: &[ColumnIndex], owners: &[usize], why: &str) -> Finding {
    let highest = columns.iter().find_map(|c| match insert.fixed(*c) {
        Some(Term::Aggregate {
            function,
            statement,
            ..
        }) if function == "max" || function == "count" => Some((*c, *statement)),
        _ => None,
    });
    let mut need = Need::keyed(insert, columns);
    match highest {
        // The number is known only when the highest one is read: the rest of the key identifies the item.
        Some((column, statement)) => {
            need.key.retain(|(c, _)| *c != column);
            need.reads.push(statement);
            Finding::no(
                insert.owner,
                "sequential-insert",
                "the key is the highest one plus one: two replicas read the same highest key",
            )
        }
        None => Finding::no(insert.owner, "unique-chosen", why),
    }
    .because(owners.to_vec())
    .needing(vec![need])
}

/// The finding if all types that insert take keys from the same source.
fn accept(
    context: &Context<'_>,
    insert: &Action,
    columns: &[ColumnIndex],
    origin: &Origin,
    owners: &[usize],
) -> Finding {
    let footprint = context.footprint;
    match origin {
        Origin::Generated(column) => Finding::yes(
            insert.owner,
            "unique-generated",
            format!(
                "{} is generated, from the replica's own part of the name space",
                footprint.column_name(insert.access.table, *column)
            ),
        ),
        Origin::Parent(parent) => Finding::yes(
            insert.owner,
            "unique-derived",
            format!(
                "the key holds the key of the row of {} that the same call inserts",
                footprint.table(*parent).name
            ),
        )
        .because(owners.to_vec()),
        Origin::Counter { table, column, .. } => {
            let counter = footprint.column_name(*table, *column);
            let needs = counter_of(footprint, insert, columns)
                .map(|c| c.need(footprint))
                .into_iter()
                .collect();
            let finding = if context.sequenced.contains(&(*table, *column)) {
                Finding::yes(
                    insert.owner,
                    "unique-sequential",
                    format!(
                        "the key holds the number taken from {counter}, whose guard gives each number once"
                    ),
                )
            } else {
                Finding::no(
                    insert.owner,
                    "sequential-insert",
                    format!(
                        "the key is the next number of {counter}: two replicas would take the same number"
                    ),
                )
            };
            finding.because(owners.to_vec()).needing(needs)
        }
        Origin::Chosen => chosen(insert, columns, owners, mixed(origin)),
    }
}
