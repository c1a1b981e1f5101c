//! Invariants of single rows: NOT NULL, CHECK, secondary indexes (Table 2, rows 1, 2, 9 and 11 to 14).
//!
//! Each row of a replica was checked there, and merging takes whole values of columns: so any test of one column
//! that is only ever assigned survives. It is different if values add up (counters), and if several columns, merged
//! one by one, must fit together.

use anabranch_sql::summary::{Role, WriteClass};
use anabranch_types::{ColumnIndex, TableId};

use super::{Context, Finding, Need, worst};
use crate::assertion::Atom;
use crate::footprint::{Action, Footprint};
use crate::plan::Confluence;
use crate::sign::Sign;

/// NOT NULL.
pub(crate) fn judge_not_null(
    context: &Context<'_>,
    table: TableId,
    columns: &[ColumnIndex],
) -> Vec<Finding> {
    let footprint = context.footprint;
    let mut findings: Vec<Finding> = writers_of(footprint, table, columns)
        .into_iter()
        .map(|owner| {
            Finding::yes(
                owner,
                "eq-any",
                "each row is checked where it is written, and the merge makes no new value",
            )
        })
        .collect();
    for column in columns {
        // Columns that no type updates are decided once and for all.
        let moving = |c: &ColumnIndex| footprint.may_change(table, *c);
        let computes = |a: &Action| {
            a.write(*column)
                .is_some_and(|w| w.null_by.iter().any(moving))
        };
        let computed: Vec<&Action> = footprint.on_table(table).filter(|a| computes(a)).collect();
        let owners: Vec<usize> = computed.iter().map(|a| a.owner).collect();
        for action in &computed {
            let name = footprint.column_name(table, *column);
            let why = format!(
                "{name} is computed from the row, which a concurrent transaction may have changed, so it may become NULL"
            );
            findings.push(
                Finding::unknown(action.owner, "null-computed", why)
                    .because(owners.clone())
                    .needing(vec![Need::row(footprint, action).of(*column)]),
            );
        }
        for action in footprint.on_table(table).filter(|a| {
            let changes = match a.access.role {
                Role::Update => a.write(*column).is_some(),
                // The row then is another one.
                Role::Insert => footprint.may_replace(a),
                Role::Read | Role::Delete => false,
            };
            !computed.is_empty() && !computes(a) && (changes || footprint.feeds(a, *column))
        }) {
            findings.push(
                Finding::unknown(
                    action.owner,
                    "null-computed",
                    "it changes values from which other transactions compute a column that must not be NULL",
                )
                .because(owners.clone())
                .needing(vec![Need::row(footprint, action).of(*column)]),
            );
        }
    }
    worst(findings)
}

/// A secondary index.
pub(crate) fn judge_index(
    context: &Context<'_>,
    table: TableId,
    columns: &[ColumnIndex],
) -> Vec<Finding> {
    writers_of(context.footprint, table, columns)
        .into_iter()
        .map(|owner| {
            Finding::yes(
                owner,
                "index-update",
                "index entries are stored with their rows and change with them",
            )
        })
        .collect()
}

/// The types that insert rows or update one of `columns`.
fn writers_of(footprint: &Footprint<'_>, table: TableId, columns: &[ColumnIndex]) -> Vec<usize> {
    (0..footprint.types.len())
        .filter(|owner| {
            footprint.on(*owner, table).any(|a| match a.access.role {
                Role::Insert => true,
                Role::Update => columns.iter().any(|c| a.write(*c).is_some()),
                Role::Read | Role::Delete => false,
            })
        })
        .collect()
}

/// A condition on each row, given by its conjuncts.
pub(crate) fn judge(context: &Context<'_>, table: TableId, atoms: &[Atom]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for atom in atoms {
        findings.extend(match atom {
            Atom::Lower(column) => bound(context, table, *column, Sign::Negative),
            Atom::Upper(column) => bound(context, table, *column, Sign::Positive),
            Atom::Value(column) => value(context, table, *column),
            Atom::Several(columns) => several(context, table, columns),
        });
    }
    worst(findings)
}

/// The codes for moving away from a bound and towards it; a bound that increments endanger is an upper one.
fn codes(dangerous: Sign) -> (&'static str, &'static str) {
    match dangerous {
        Sign::Negative => ("gt-increment", "gt-decrement"),
        _ => ("lt-decrement", "lt-increment"),
    }
}

fn bound(
    context: &Context<'_>,
    table: TableId,
    column: ColumnIndex,
    dangerous: Sign,
) -> Vec<Finding> {
    let footprint = context.footprint;
    let mut findings = Vec::new();
    let mut assigners = Vec::new();
    let (safe, unsafe_) = codes(dangerous);
    for action in footprint.on_table(table) {
        if action.access.role == Role::Insert {
            findings.push(Finding::yes(
                action.owner,
                "threshold-assign",
                "a new row is checked where it is inserted",
            ));
            if footprint.may_replace(action) {
                assigners.push(action);
            }
        }
        if action.access.role != Role::Update {
            continue;
        }
        if footprint.feeds(action, column) {
            assigners.push(action);
        }
        let Some(write) = action.write(column) else {
            continue;
        };
        let name = footprint.column_name(table, column);
        findings.push(match &write.class {
            WriteClass::Assign(_) | WriteClass::FromData => {
                assigners.push(action);
                Finding::yes(action.owner, "threshold-assign", format!("{name} is assigned a value that is checked where it is written"))
            }
            WriteClass::Add { term, negated } => {
                match footprint.sign(action.owner, term).turned_if(*negated) {
                    sign if sign != Sign::Either && sign != dangerous => Finding::yes(
                        action.owner,
                        safe,
                        format!("{name} only moves away from its bound, and so does the sum of all such changes"),
                    )
                    .kept_alone(),
                    sign => Finding::no(
                        action.owner,
                        unsafe_,
                        format!(
                            "{name} {}: two changes that each respect the bound may break it together",
                            if sign == Sign::Either {
                                "changes by an amount of unknown sign, perhaps towards its bound"
                            } else {
                                "moves towards its bound"
                            }
                        ),
                    )
                    .needing(vec![Need::row(footprint, action).of(column)]),
                }
            }
            WriteClass::FromRow => Finding::unknown(
                action.owner,
                "bound-computed",
                format!("{name} is computed from the row in a way that the analyser does not follow"),
            )
            .needing(vec![Need::row(footprint, action).of(column)]),
        });
    }
    oppose(context, findings, &assigners, column, unsafe_)
}

/// If some type must be ordered because of a bound, an assignment that may come between its check and its commit
/// must be ordered, too.
fn oppose(
    context: &Context<'_>,
    mut findings: Vec<Finding>,
    assigners: &[&Action],
    column: ColumnIndex,
    rule: &'static str,
) -> Vec<Finding> {
    let guarded: Vec<usize> = findings
        .iter()
        .filter(|f| f.confluent != Confluence::Yes)
        .map(|f| f.owner)
        .collect();
    if guarded.is_empty() {
        return findings;
    }
    for finding in findings
        .iter_mut()
        .filter(|f| f.confluent != Confluence::Yes)
    {
        *finding = finding.clone().because(guarded.clone());
    }
    for action in assigners {
        findings.push(
            Finding::no(
                action.owner,
                rule,
                "it changes the column, or what it is computed from, while other transactions check a change to it",
            )
            .because(guarded.clone())
            .needing(vec![Need::row(context.footprint, action).of(column)]),
        );
    }
    findings
}

fn value(context: &Context<'_>, table: TableId, column: ColumnIndex) -> Vec<Finding> {
    let footprint = context.footprint;
    let name = footprint.column_name(table, column);
    let mut findings = Vec::new();
    let mut assigners = Vec::new();
    for action in footprint.on_table(table) {
        match action.access.role {
            Role::Insert => {
                findings.push(Finding::yes(
                    action.owner,
                    "eq-any",
                    "a new row is checked where it is inserted",
                ));
                if footprint.may_replace(action) {
                    assigners.push(action);
                }
            }
            Role::Update => {
                if footprint.feeds(action, column) {
                    assigners.push(action);
                }
                let Some(write) = action.write(column) else {
                    continue;
                };
                findings.push(match write.class {
                    WriteClass::Assign(_) | WriteClass::FromData => {
                        assigners.push(action);
                        Finding::yes(action.owner, "eq-any", format!("{name} is assigned values that are checked where they are written"))
                    }
                    WriteClass::Add { .. } | WriteClass::FromRow => Finding::no(
                        action.owner,
                        "eq-counter",
                        format!("concurrent changes to {name} may add up to a value that no transaction has checked"),
                    )
                    .needing(vec![Need::row(footprint, action).of(column)]),
                });
            }
            Role::Read | Role::Delete => {}
        }
    }
    oppose(context, findings, &assigners, column, "eq-counter")
}

/// Columns that must fit together.
pub(super) fn several(
    context: &Context<'_>,
    table: TableId,
    columns: &[ColumnIndex],
) -> Vec<Finding> {
    let footprint = context.footprint;
    let touches = |a: &&Action| match a.access.role {
        Role::Update => columns
            .iter()
            .any(|c| a.write(*c).is_some() || footprint.feeds(a, *c)),
        Role::Insert => footprint.may_replace(a),
        Role::Read | Role::Delete => false,
    };
    let updates: Vec<&Action> = footprint.on_table(table).filter(touches).collect();
    // Columns that no type updates stay as they were checked, so only the others need to be ordered. In a row that
    // is inserted again they may differ.
    let moving: Vec<ColumnIndex> = columns
        .iter()
        .copied()
        .filter(|c| footprint.may_change(table, *c))
        .collect();
    let together = updates.iter().all(|a| {
        moving.iter().all(|c| {
            matches!(
                a.write(*c).map(|w| &w.class),
                Some(WriteClass::Assign(_) | WriteClass::FromData)
            )
        })
    });
    let owners: Vec<usize> = updates.iter().map(|a| a.owner).collect();
    let mut findings: Vec<Finding> = footprint
        .facts(table)
        .inserters
        .iter()
        .map(|owner| {
            Finding::yes(
                *owner,
                "eq-any",
                "a new row is checked where it is inserted",
            )
        })
        .collect();
    for action in updates {
        findings.push(if together {
            Finding::yes(
                action.owner,
                "row-together",
                "every type that assigns one of the columns assigns all of them, so the merge takes them from one transaction",
            )
        } else {
            Finding::no(
                action.owner,
                "row-mixed",
                "columns that the invariant relates are written separately, and merged separately",
            )
            .because(owners.clone())
            .needing(vec![Need::row(footprint, action).reading(action)])
        });
    }
    findings
}
