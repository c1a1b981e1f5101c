//! FOREIGN KEY (Table 2, rows 6 to 8).
//!
//! A reference dangles only if its parent is deleted. So references may be inserted freely while no type deletes
//! parents (or changes their keys). A cascade helps only if merging cascades, too: the deletion does not see a
//! child that is inserted concurrently (trap: the child must go, or the parent return, in every read). See
//! [`crate::merge::MergeModel`].

use anabranch_sql::catalog::{ForeignKey, ReferentialAction};
use anabranch_sql::summary::{Role, Term, WriteClass};
use anabranch_types::{ColumnIndex, TableId, Value};

use super::row::several;
use super::{Context, Finding, Need, worst};
use crate::footprint::{Action, Footprint};

/// A foreign key of `child`.
pub(crate) fn judge(context: &Context<'_>, child: TableId, key: &ForeignKey) -> Vec<Finding> {
    let footprint = context.footprint;
    let makers = references(footprint, child, &key.columns);
    let enders = endings(footprint, key.parent, &key.parent_columns);
    let mut findings = judge_reference(context, child, key, &makers, &enders);
    if key.columns.len() > 1 {
        // Merging columns of two valid references need not give a valid one.
        findings.extend(several(context, child, &key.columns));
    }
    worst(findings)
}

/// Actions that make a row of `table` refer to something by `columns`.
fn references<'f>(
    footprint: &'f Footprint<'_>,
    table: TableId,
    columns: &[ColumnIndex],
) -> Vec<&'f Action> {
    footprint
        .on_table(table)
        .filter(|a| {
            let writes = |c: &ColumnIndex| {
                a.write(*c)
                    .is_some_and(|w| w.class != WriteClass::Assign(Term::Constant(Value::Null)))
            };
            match a.access.role {
                // A reference with a NULL among its columns refers to nothing.
                Role::Insert => columns.iter().all(writes),
                Role::Update => columns.iter().any(writes),
                Role::Read | Role::Delete => false,
            }
        })
        .collect()
}

/// Actions after which a row of `table` is no longer found by `columns`.
fn endings<'f>(
    footprint: &'f Footprint<'_>,
    table: TableId,
    columns: &[ColumnIndex],
) -> Vec<&'f Action> {
    footprint
        .on_table(table)
        .filter(|a| match a.access.role {
            Role::Delete => true,
            Role::Update => columns.iter().any(|c| a.write(*c).is_some()),
            Role::Read | Role::Insert => false,
        })
        .collect()
}

fn owners(actions: &[&Action]) -> Vec<usize> {
    actions.iter().map(|a| a.owner).collect()
}

fn judge_reference(
    context: &Context<'_>,
    child: TableId,
    key: &ForeignKey,
    makers: &[&Action],
    enders: &[&Action],
) -> Vec<Finding> {
    let footprint = context.footprint;
    let parent = &footprint.table(key.parent).name;
    let cascading = key.on_delete == ReferentialAction::Cascade
        && enders.iter().all(|a| a.access.role == Role::Delete);
    let mut findings = Vec::new();
    for action in makers {
        findings.push(if enders.is_empty() {
            Finding::yes(
                action.owner,
                "fk-insert",
                format!(
                    "no transaction type deletes from {parent}, so that a row that was read stays"
                ),
            )
        } else if cascading && context.merge.cascades {
            cascade(action.owner).because(owners(enders))
        } else {
            Finding::no(
                action.owner,
                if cascading { "fk-cascade" } else { "fk-delete" },
                format!(
                    "a concurrent transaction may delete the row of {parent} that it refers to"
                ),
            )
            .because(owners(enders))
            .needing(vec![parent_need(key, action).reading(action)])
        });
    }
    for action in enders {
        findings.push(if makers.is_empty() {
            Finding::yes(
                action.owner,
                "fk-unopposed",
                format!(
                    "no transaction type makes rows of {} refer to it",
                    footprint.table(child).name
                ),
            )
        } else if cascading && context.merge.cascades {
            cascade(action.owner).because(owners(makers))
        } else {
            Finding::no(
                action.owner,
                if cascading { "fk-cascade" } else { "fk-delete" },
                format!(
                    "a concurrent transaction may make a row of {} refer to the row that it deletes",
                    footprint.table(child).name
                ),
            )
            .because(owners(makers))
            .needing(vec![
                Need::keyed(action, &key.parent_columns).reading(action),
            ])
        });
    }
    worst(findings)
}

fn cascade(owner: usize) -> Finding {
    Finding::yes(
        owner,
        "fk-cascade",
        "the merge also deletes the rows that refer to a deleted row",
    )
}

/// The parent row, with the key that the referring type knows.
fn parent_need(key: &ForeignKey, maker: &Action) -> Need {
    let mut need = Need::keyed(maker, &[]);
    need.table = key.parent;
    need.writes.clear();
    need.key = key
        .columns
        .iter()
        .zip(&key.parent_columns)
        .filter_map(|(column, of_parent)| {
            let term = match &maker.write(*column)?.class {
                WriteClass::Assign(term) => term.clone(),
                // The reference of the row, as far as the condition fixes it.
                _ if maker.carried => maker.fixed(*column)?.clone(),
                _ => return None,
            };
            Some((*of_parent, term))
        })
        .collect();
    need
}
