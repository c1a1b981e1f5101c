//! Rows that exist whenever, or exactly when, something else holds (Table 3's FK), and rows that must exist (Table
//! 2, rows 15 and 16, and the payroll example of §4.1).

use anabranch_sql::summary::{Comparison, Condition, Role, Term, WriteClass};
use anabranch_types::{ColumnIndex, TableId, Value};

use super::contribution::in_different_groups;
use super::{Context, Finding, Need, worst};
use crate::assertion::{Clause, Facet, Filter, Region};
use crate::footprint::{Action, Footprint};
use crate::term::surely_equal;

/// How an action changes a side of an equivalence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SideChange {
    /// The row that carries the side is new.
    New,
    /// The direction that can be taken once: a NULL is filled, a row is deleted.
    OneWay,
    /// The other direction, or an unknown one.
    Other,
}

/// For each group all of these hold, or none does.
pub(crate) fn judge_iff(context: &Context<'_>, clause: &Clause, facets: &[Facet]) -> Vec<Finding> {
    let footprint = context.footprint;
    let mut turns: Vec<Vec<(usize, &Action, SideChange)>> = vec![Vec::new(); footprint.types.len()];
    for action in footprint.actions().filter(|a| a.is_write()) {
        for (place, facet) in facets.iter().enumerate() {
            let Some(mut turn) = side_change(footprint, clause, action, facet) else {
                continue;
            };
            if let Facet::Null((_, column)) = facet
                && turn == SideChange::OneWay
                && footprint.may_assign_null(action, *column)
                && !is_refused_with_null(footprint, clause, action, facets)
            {
                turn = SideChange::Other;
            }
            turns[action.owner].push((place, action, turn));
        }
    }
    let tables: Vec<TableId> = {
        let mut tables: Vec<_> = facets.iter().map(Facet::table).collect();
        tables.sort_unstable();
        tables.dedup();
        tables
    };
    for mine in &mut turns {
        settle_new_rows(footprint, clause, mine, &tables);
    }
    let touching: Vec<usize> = (0..turns.len()).filter(|t| !turns[*t].is_empty()).collect();
    let goes_back = turns
        .iter()
        .flatten()
        .any(|(_, _, t)| *t == SideChange::Other);
    let changes = turns
        .iter()
        .flatten()
        .any(|(_, a, _)| a.access.role != Role::Insert);
    // If rows are only ever inserted, they meet the rows that they refer to; rows that refer to nothing may come
    // from both replicas.
    let refers = |a: TableId, b: TableId| refers(footprint, clause, a, b);
    let met = tables.iter().enumerate().all(|(i, a)| {
        let mut before = tables[..i].iter();
        before.all(|b| refers(*a, *b) || refers(*b, *a))
    });
    let mut findings = Vec::new();
    for owner in &touching {
        let mine = &turns[*owner];
        let needs = || -> Vec<Need> {
            mine.iter()
                .map(|(_, a, _)| Need::of_group(clause, tables[0], a))
                .collect()
        };
        findings.push(if let Some(why) = one_sided(clause, mine) {
            Finding::unknown(*owner, "iff-unmaintained", why)
                .because(vec![*owner])
                .needing(needs())
        } else if goes_back && (changes || !met) {
            Finding::no(*owner, "iff-two-way", "one transaction may turn one side back while another turns the other side forth")
                .because(touching.clone())
                .needing(needs())
        } else {
            Finding::yes(
                *owner,
                "iff-one-way",
                "both sides start equal, turn in one transaction, and never turn back: the merge keeps them equal",
            )
            .because(touching.clone())
        });
    }
    worst(findings)
}

fn side_change(
    footprint: &Footprint<'_>,
    clause: &Clause,
    action: &Action,
    facet: &Facet,
) -> Option<SideChange> {
    if action.access.table != facet.table() {
        return None;
    }
    let regroups = |c: &ColumnIndex| action.write(*c).is_some();
    let links = clause.links.columns_of(action.access.table);
    if action.access.role == Role::Update && links.iter().any(regroups) {
        // The column changes with its new group, whatever is written to it.
        return Some(SideChange::Other);
    }
    if let Facet::Null((_, column)) | Facet::True((_, column)) = facet
        && footprint.feeds(action, *column)
    {
        return Some(SideChange::Other);
    }
    match (facet, action.access.role) {
        (_, Role::Read) => None,
        (_, Role::Insert) => Some(SideChange::New),
        // Deleting one of several rows leaves the others: it does not change the side, and deleting the last one
        // does.
        (Facet::Row(_), Role::Delete) => Some(match takes_all(footprint, clause, action) {
            true => SideChange::OneWay,
            false => SideChange::Other,
        }),
        // The row that carries the column is deleted, and the condition with it.
        (Facet::Null(_) | Facet::True(_), Role::Delete) => Some(SideChange::Other),
        (Facet::Row(_), Role::Update) => None,
        (Facet::Null((_, column)), Role::Update) => Some(match &action.write(*column)?.class {
            WriteClass::Assign(Term::Constant(Value::Null)) => SideChange::Other,
            WriteClass::Assign(
                Term::Constant(_)
                | Term::Parameter(_)
                | Term::Element(_)
                | Term::Now
                | Term::Generated
                | Term::Negated(_)
                | Term::Pure
                | Term::Incremented { .. },
            ) => SideChange::OneWay,
            _ => SideChange::Other,
        }),
        // While the column is NULL its group is not compared, and the other side turns alone.
        (Facet::True((table, column)), Role::Update) => Some(match &action.write(*column)?.class {
            _ if footprint.table(*table).columns[column.index()].nullable => SideChange::Other,
            WriteClass::Assign(Term::Constant(Value::Bool(true))) => SideChange::OneWay,
            _ => SideChange::Other,
        }),
    }
}

/// Whether a call that assigns NULL to a side surely leaves the sides different, and is refused: it has deleted
/// the rows of another side of the group.
fn is_refused_with_null(
    footprint: &Footprint<'_>,
    clause: &Clause,
    update: &Action,
    facets: &[Facet],
) -> bool {
    let Some(assigns) = footprint.statement(update.owner, update.statement) else {
        return false;
    };
    let deletes = footprint.types[update.owner].actions.iter().filter(|a| {
        let of = |facet: &Facet| matches!(facet, Facet::Row(_)) && facet.table() == a.access.table;
        a.access.role == Role::Delete && !a.cascaded && facets.iter().any(of)
    });
    let runs = |delete: &Action| {
        let before = delete.statement < update.statement;
        let statement = footprint.statement(delete.owner, delete.statement);
        before && statement.is_some_and(|s| assigns.path.starts_with(&s.path))
    };
    deletes
        .filter(|delete| same_group(clause, delete, update))
        .any(|delete| runs(delete) && takes_group(clause, delete))
}

/// Whether a DELETE takes all rows of a group: there is only one, or its condition is the group alone.
fn takes_all(footprint: &Footprint<'_>, clause: &Clause, delete: &Action) -> bool {
    let table = footprint.table(delete.access.table);
    let linked = clause.links.columns_of(table.id);
    let tells = |key: &[ColumnIndex]| !key.is_empty() && key.iter().all(|c| linked.contains(c));
    let one =
        tells(&table.primary_key) || table.indexes.iter().any(|i| i.unique && tells(&i.columns));
    one || takes_group(clause, delete)
}

/// Whether a DELETE's condition is the group alone.
fn takes_group(clause: &Clause, delete: &Action) -> bool {
    let linked = clause.links.columns_of(delete.access.table);
    let of_group = |c: &Condition| linked.contains(&c.column) && c.comparison == Comparison::Equal;
    linked.iter().all(|c| delete.fixed(*c).is_some())
        && delete.access.conditions.iter().all(of_group)
        && !delete.access.has_other_conditions
}

/// Whether rows of `a` refer to rows of `b`, by a foreign key on the columns that link the clause's tables.
fn refers(footprint: &Footprint<'_>, clause: &Clause, a: TableId, b: TableId) -> bool {
    let keys = &footprint.catalog.tables[a.index()].foreign_keys;
    keys.iter().any(|key| {
        let columns = key.columns.iter().zip(&key.parent_columns);
        let mut linked = columns.map(|(c, p)| clause.links.are_equal((a, *c), (b, *p)));
        key.parent == b && linked.all(|is| is)
    })
}

/// Rows are new together only if the type inserts on every side, with keys that are surely the same, and the group
/// cannot have rows before. A row inserted into an existing group changes that side.
fn settle_new_rows(
    footprint: &Footprint<'_>,
    clause: &Clause,
    mine: &mut [(usize, &Action, SideChange)],
    tables: &[TableId],
) {
    let new: Vec<&Action> = mine
        .iter()
        .filter(|(_, _, turn)| *turn == SideChange::New)
        .map(|(_, a, _)| *a)
        .collect();
    let together = tables
        .iter()
        .all(|t| new.iter().any(|a| a.access.table == *t))
        && new.iter().all(|a| {
            new.iter()
                .all(|b| a.access.table == b.access.table || same_group(clause, a, b))
        })
        && (tables.len() < 2 || new.iter().any(|a| founds(footprint, clause, a, tables)));
    if !together {
        for (_, _, turn) in mine
            .iter_mut()
            .filter(|(_, _, turn)| *turn == SideChange::New)
        {
            *turn = SideChange::Other;
        }
    }
}

/// Whether an inserted row is surely the first of its group, in all tables: its group's key is new, or the other
/// rows of the group have to refer to it.
fn founds(footprint: &Footprint<'_>, clause: &Clause, insert: &Action, tables: &[TableId]) -> bool {
    let table = insert.access.table;
    let linked = clause.links.columns_of(table);
    let generated = |c: &ColumnIndex| matches!(insert.fixed(*c), Some(Term::Generated));
    let key = &footprint.table(table).primary_key;
    let one_a_group = !key.is_empty() && key.iter().all(|c| linked.contains(c));
    let others = tables.iter().filter(|other| **other != table);
    linked.iter().any(generated)
        || one_a_group
            && others
                .clone()
                .all(|of| refers(footprint, clause, *of, table))
}

/// Whether two actions of one call surely concern one group.
fn same_group(clause: &Clause, a: &Action, b: &Action) -> bool {
    let linked = |class: &[(TableId, ColumnIndex)], action: &Action| {
        class
            .iter()
            .find(|c| c.0 == action.access.table)
            .map(|c| action.fixed(c.1).cloned())
    };
    clause
        .links
        .classes()
        .iter()
        .all(|class| match (linked(class, a), linked(class, b)) {
            (Some(Some(x)), Some(Some(y))) => surely_equal(&x, &y),
            (Some(None), Some(_)) | (Some(_), Some(None)) => false,
            (None, _) | (_, None) => true,
        })
}

/// Why the type visibly changes one side only; `None` if it may change all.
fn one_sided(clause: &Clause, mine: &[(usize, &Action, SideChange)]) -> Option<&'static str> {
    let turned: Vec<_> = mine
        .iter()
        .filter(|(_, a, _)| a.access.role != Role::Insert)
        .collect();
    for (i, (p, a, _)) in mine.iter().enumerate() {
        if mine[..i]
            .iter()
            .any(|(q, b, _)| p != q && in_different_groups(a, b, &clause.links))
        {
            return Some(
                "it changes different groups: it breaks the equivalence even when it runs alone",
            );
        }
    }
    let first = turned.first()?;
    // A row inserted into an existing group changes its side, too.
    let put =
        |(p, _, turn): &&(usize, &Action, SideChange)| *p != first.0 && *turn == SideChange::Other;
    let one = turned.iter().all(|(p, _, _)| *p == first.0) && !mine.iter().any(|m| put(&m));
    one.then_some("it turns one side only: it breaks the equivalence even when it runs alone")
}

/// For each row of `child` there is a row of `parent`.
pub(crate) fn judge_inclusion(
    context: &Context<'_>,
    clause: &Clause,
    child: TableId,
    demanding: &[Filter],
    parent: &Region,
) -> Vec<Finding> {
    let inclusion = Inclusion::new(context.footprint, clause, child, demanding, parent);
    let requiring = inclusion.requiring.iter();
    let mut findings: Vec<Finding> = requiring.map(|a| inclusion.judge_requiring(a)).collect();
    let is_one = inclusion.is_one_parent();
    let removing = inclusion.removing.iter();
    findings.extend(removing.map(|a| inclusion.judge_removing(a, is_one)));
    worst(findings)
}

/// A clause that requires a parent row for each child row, with the actions that may break it.
struct Inclusion<'a> {
    footprint: &'a Footprint<'a>,
    clause: &'a Clause,
    /// Which child rows require a parent.
    demanding: &'a [Filter],
    parent: &'a Region,
    /// Actions after which a child row requires a parent.
    requiring: Vec<&'a Action>,
    /// Actions that remove a parent row from its group.
    removing: Vec<&'a Action>,
}

impl<'a> Inclusion<'a> {
    fn new(
        footprint: &'a Footprint<'a>,
        clause: &'a Clause,
        child: TableId,
        demanding: &'a [Filter],
        parent: &'a Region,
    ) -> Inclusion<'a> {
        let refilters = |a: &Action, filters: &[Filter]| {
            filters.iter().any(|f| {
                f.column.0 == a.access.table
                    && (a.write(f.column.1).is_some() || footprint.feeds(a, f.column.1))
            })
        };
        let relinks = |a: &Action, table: TableId| {
            clause
                .links
                .columns_of(table)
                .iter()
                .any(|c| a.write(*c).is_some())
        };
        let requiring = footprint
            .on_table(child)
            .filter(|a| match a.access.role {
                Role::Insert => true,
                Role::Update => relinks(a, child) || refilters(a, demanding),
                Role::Read | Role::Delete => false,
            })
            .collect();
        let removing = parent
            .tables
            .iter()
            .flat_map(|t| footprint.on_table(*t))
            .filter(|a| match a.access.role {
                Role::Delete => true,
                Role::Update => relinks(a, a.access.table) || refilters(a, &parent.filters),
                Role::Read | Role::Insert => false,
            })
            .collect();
        Inclusion {
            footprint,
            clause,
            demanding,
            parent,
            requiring,
            removing,
        }
    }

    /// The finding for an action after which a child row requires a parent.
    fn judge_requiring(&self, action: &Action) -> Finding {
        // The linked columns identify the required row.
        let mut need = self.parent_need(action);
        need.writes.clear();
        if self.may_be_unseen(action, &self.requiring, self.demanding) {
            let mut because = owners(&self.requiring);
            because.extend(owners(&self.removing));
            Finding::unknown(
                action.owner,
                "unrecognised",
                "changes to one row may together make it require a row that neither of them has checked",
            )
            .because(because)
            .needing(vec![need])
        } else if self.removing.is_empty() {
            Finding::yes(
                action.owner,
                "fk-insert",
                "no transaction type removes the rows that it requires",
            )
        } else {
            Finding::no(
                action.owner,
                "fk-delete",
                "a concurrent transaction may remove the row that it requires",
            )
            .because(owners(&self.removing))
            .needing(vec![need])
        }
    }

    /// The finding for an action that removes a parent. If several rows may satisfy the requirement (not `is_one`),
    /// deleting one leaves it to the others.
    fn judge_removing(&self, action: &Action, is_one: bool) -> Finding {
        let opposed = !self.requiring.is_empty();
        if !is_one {
            let mut because = owners(&self.removing);
            because.extend(owners(&self.requiring));
            Finding::no(
                action.owner,
                "nonempty-delete",
                "two replicas may each remove the row that the other relies on",
            )
            .because(because)
            .needing(vec![self.parent_need(action)])
        } else if !opposed && !self.may_be_unseen(action, &self.removing, &self.parent.filters) {
            Finding::yes(
                action.owner,
                "fk-unopposed",
                "no transaction type inserts rows that require it",
            )
        } else {
            Finding::no(
                action.owner,
                "fk-delete",
                "a concurrent transaction may insert a row that requires what it removes",
            )
            .because(match opposed {
                true => owners(&self.requiring),
                false => owners(&self.removing),
            })
            .needing(vec![self.parent_need(action)])
        }
    }

    fn parent_need(&self, action: &Action) -> Need {
        Need::of_group(self.clause, self.parent.tables[0], action)
    }

    /// Whether a unique key identifies the one parent row of a group.
    fn is_one_parent(&self) -> bool {
        let parent = self.footprint.table(self.parent.tables[0]);
        let linked = self.clause.links.columns_of(parent.id);
        let is_linked =
            |key: &[ColumnIndex]| !key.is_empty() && key.iter().all(|c| linked.contains(c));
        self.parent.tables.len() == 1
            && (is_linked(&parent.primary_key)
                || parent
                    .indexes
                    .iter()
                    .any(|i| i.unique && is_linked(&i.columns)))
    }

    /// Whether merging may give a row a combination of column values that no transaction has seen.
    fn may_be_unseen(&self, action: &Action, among: &[&Action], filters: &[Filter]) -> bool {
        let table = action.access.table;
        let updates = |a: &&&Action| a.access.role == Role::Update && a.access.table == table;
        let of_table = filters.iter().filter(|f| f.column.0 == table);
        let mut columns = self.clause.links.columns_of(table);
        columns.extend(of_table.map(|f| f.column.1));
        columns.retain(|c| among.iter().filter(updates).any(|a| a.write(*c).is_some()));
        let assigns = |c: &ColumnIndex| {
            let write = action.write(*c);
            write.is_some_and(|w| matches!(w.class, WriteClass::Assign(_)))
        };
        // Others compute one of them at commit from what this action changes.
        let feeds = |c: &ColumnIndex| self.footprint.feeds(action, *c);
        action.access.role == Role::Update
            && (!columns.iter().all(assigns) || columns.iter().any(feeds))
    }
}

fn owners(actions: &[&Action]) -> Vec<usize> {
    actions.iter().map(|a| a.owner).collect()
}

/// At least one row of a region exists.
pub(crate) fn judge_at_least_one(
    context: &Context<'_>,
    region: &Region,
    certain: bool,
) -> Vec<Finding> {
    let footprint = context.footprint;
    let takes = |a: &&Action| match a.access.role {
        Role::Delete => region.tables.contains(&a.access.table),
        Role::Update => {
            region.tables.contains(&a.access.table)
                && a.access
                    .writes
                    .iter()
                    .any(|w| region.tables.len() > 1 || filters(region, a, w.column))
                || region
                    .filters
                    .iter()
                    .any(|f| f.column.0 == a.access.table && footprint.feeds(a, f.column.1))
        }
        Role::Read | Role::Insert => false,
    };
    let takers: Vec<&Action> = footprint.actions().filter(takes).collect();
    let owners: Vec<usize> = takers.iter().map(|a| a.owner).collect();
    let mut findings: Vec<Finding> = takers
        .iter()
        .map(|action| {
            if certain {
                Finding::yes(
                    action.owner,
                    "contains-any",
                    "one certain row must exist: no replica can remove it, so neither does the merge",
                )
            } else {
                Finding::no(
                    action.owner,
                    "nonempty-delete",
                    "two replicas may each remove the row that the other relies on",
                )
                .because(owners.clone())
                .needing(vec![group(footprint, region, action)])
            }
        })
        .collect();
    for action in footprint
        .actions()
        .filter(|a| a.access.role == Role::Insert)
    {
        if region.tables.contains(&action.access.table) {
            findings.push(
                Finding::yes(action.owner, "nonempty-insert", "one more row does no harm")
                    .kept_alone(),
            );
        }
    }
    worst(findings)
}

fn filters(region: &Region, action: &Action, column: ColumnIndex) -> bool {
    region
        .filters
        .iter()
        .any(|f| f.column == (action.access.table, column))
}

/// The whole table, with everything that the type reads of it.
fn group(footprint: &Footprint<'_>, region: &Region, action: &Action) -> Need {
    let mut need = Need::keyed(action, &[]).reading(action);
    // All types that delete from the region name the same table.
    need.table = region.tables[0];
    for other in footprint.on(action.owner, action.access.table) {
        if other.access.role == Role::Read && !need.reads.contains(&other.statement) {
            need.reads.push(other.statement);
        }
    }
    need.reads.sort_unstable();
    need
}
