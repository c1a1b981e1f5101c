//! Sums that must agree: materialized views, and bounds on sums and counts (Table 2, rows 10 and 17; Table 3's MV).
//!
//! A clause says that for each group some columns and aggregates add up to a constant. If every change adds an
//! amount (to a counter, or by inserting a row), then the amounts of each side cancel out, and so do those of both
//! sides together: the clause survives merging. That fails if a value is overwritten (one side's amounts are lost),
//! and if two transactions can move one row into or out of a sum concurrently (it moves once, and what goes with it
//! is added twice). Any guard that orders the moves of one row repairs the latter.
//!
//! That a type keeps the equation when it runs alone is shown ([`super::maintained`]) or checked before it commits. If
//! it visibly does not, because it changes one side only or amounts that differ, the verdict is unknown
//! (`mv-unmaintained`): coordination does not help.

use anabranch_sql::summary::{Role, Term, WriteClass};
use anabranch_types::{ColumnIndex, TableId};

use super::contribution::{Contribution, Kind, contributions, in_different_groups};
use super::maintained::keeps_sum;
use super::{Context, Finding, Need, worst};
use crate::assertion::{Aggregate, Clause, Links, Part, Source, TableColumn};
use crate::footprint::{Action, Footprint};
use crate::plan::Confluence;
use crate::sign::Sign;

/// A sum that must stay constant.
pub(crate) fn judge_balance(
    context: &Context<'_>,
    clause: &Clause,
    parts: &[Part],
) -> Vec<Finding> {
    let footprint = context.footprint;
    let all: Vec<Vec<Contribution<'_>>> = (0..footprint.types.len())
        .map(|owner| contributions(footprint, owner, clause, parts))
        .collect();
    let balance = Balance::new(footprint, clause, parts, &all);
    if let [
        Part {
            source:
                Source::Aggregate {
                    function: Aggregate::Count,
                    ..
                },
            ..
        },
    ] = parts
    {
        return balance.judge_size();
    }
    let touching = balance.touching.iter();
    let mut findings: Vec<Finding> = touching.map(|owner| balance.judge(*owner)).collect();
    findings.extend(decided_at_commit(footprint, &all, parts, |owner| {
        Finding::unknown(owner, "mv-unmaintained", DECIDED_AT_COMMIT)
    }));
    let mut findings = worst(findings);
    for finding in &mut findings {
        let mine = &all[finding.owner];
        finding.breaks_alone = !keeps_sum(footprint, clause, parts, finding.owner, mine);
    }
    // A type that is ordered on the group is ordered against one that is ordered on a row only if the latter names
    // the group, too.
    let by_group = |f: &Finding| f.confluent != Confluence::Yes && f.unless_ordered.is_empty();
    if findings.iter().any(by_group) {
        for finding in findings.iter_mut().filter(|f| !f.unless_ordered.is_empty()) {
            finding.needs.extend(balance.group_needs(finding.owner));
        }
    }
    worst(findings)
}

/// A sum that must stay constant, with the contributions of all types.
struct Balance<'a> {
    footprint: &'a Footprint<'a>,
    clause: &'a Clause,
    parts: &'a [Part],
    all: &'a [Vec<Contribution<'a>>],
    /// The types that contribute.
    touching: Vec<usize>,
    /// The types that overwrite a side.
    overwriting: Vec<usize>,
    /// The types that found a group.
    founding: Vec<usize>,
    /// The contributions that move rows.
    moving: Vec<&'a Contribution<'a>>,
    /// The contributions to existing rows of an aggregate.
    existing: Vec<&'a Contribution<'a>>,
}

impl<'a> Balance<'a> {
    fn new(
        footprint: &'a Footprint<'a>,
        clause: &'a Clause,
        parts: &'a [Part],
        all: &'a [Vec<Contribution<'a>>],
    ) -> Balance<'a> {
        let with = |test: &dyn Fn(&Contribution<'_>) -> bool| -> Vec<usize> {
            (0..all.len())
                .filter(|t| all[*t].iter().any(test))
                .collect()
        };
        let each = || all.iter().flatten();
        let adds_to_existing =
            |c: &Contribution<'_>| matches!(c.kind, Kind::Adds { existing: true, .. });
        Balance {
            footprint,
            clause,
            parts,
            all,
            touching: with(&|_| true),
            overwriting: with(&|c| c.kind == Kind::Overwrites),
            founding: with(&|c| c.kind == Kind::Founds),
            moving: each().filter(|c| c.kind == Kind::Moves).collect(),
            existing: each()
                .filter(|c| adds_to_existing(c) && !is_column(parts, c))
                .collect(),
        }
    }

    /// The findings if the sum counts rows: their number is fixed.
    fn judge_size(&self) -> Vec<Finding> {
        let finding = |owner: &usize| {
            Finding::no(
                *owner,
                "size-mutation",
                "the number of rows is fixed, and it changes which rows there are",
            )
            .because(self.touching.clone())
            .needing(needs_of(self.footprint, &self.all[*owner]))
        };
        self.touching.iter().map(finding).collect()
    }

    /// The finding for a type that contributes.
    fn judge(&self, owner: usize) -> Finding {
        let own = self.own_finding(owner);
        if !self.overwriting.is_empty() {
            Finding::no(owner, "mv-overwrite", self.overwritten(owner))
                .because(self.opponents(&self.overwriting, &own))
                .needing(self.group_needs(owner))
        } else if !self.founding.is_empty() {
            Finding::no(
                owner,
                "mv-founding",
                "a group's row may be inserted where rows of the group exist already: its total misses rows inserted concurrently",
            )
            .because(self.opponents(&self.founding, &own))
            .needing(self.group_needs(owner))
        } else {
            own
        }
    }

    /// How a type takes part in overwriting a side.
    fn overwritten(&self, owner: usize) -> String {
        let overwrites = |c: &&Contribution<'_>| c.kind == Kind::Overwrites;
        let mut overwriting = self.all[owner].iter().filter(overwrites);
        let added = overwriting.find_map(|c| {
            let mut writes = c.action.access.writes.iter();
            let nulls = |column: &ColumnIndex| self.footprint.may_add_null(c.action, *column);
            let column = writes.find(|write| nulls(&write.column))?.column;
            Some(self.footprint.column_name(c.action.access.table, column))
        });
        match added {
            Some(column) => format!(
                "it may add NULL to {column}: the row then leaves the sum, with what concurrent transactions have added to it"
            ),
            None => "it overwrites a side of the equation: a concurrent increment is lost".into(),
        }
    }

    /// The finding if no type overwrites a side or founds a group.
    fn own_finding(&self, owner: usize) -> Finding {
        let mine = &self.all[owner];
        let moved = || moved_rows(self.footprint, owner, mine, &self.moving, &self.existing);
        if let Some(why) = unmaintained(mine, self.parts, &self.clause.links) {
            Finding::unknown(owner, "mv-unmaintained", why)
                .because(vec![owner])
                .needing(self.group_needs(owner))
        } else if mine.iter().any(|c| is_decided_at_commit(c, self.parts)) {
            Finding::unknown(
                owner,
                "mv-unmaintained",
                "an amount is deferred to commit, and may then differ from the one that was checked",
            )
            .because(self.touching.clone())
            .needing(self.group_needs(owner))
        } else if let Some(mut others) = regrouping_types(self.all, mine) {
            // Two calls may also move one row concurrently.
            others.extend(moved().because);
            Finding::no(
                owner,
                "mv-transition",
                "a change to a joined row moves rows into or out of the sum, while concurrent transactions insert rows",
            )
            .because(others)
            .needing(self.group_needs(owner))
        } else {
            moved()
        }
    }

    /// The types that break the sum for all, and those that the type of `own` is ordered against for its own sake.
    fn opponents(&self, breaking: &[usize], own: &Finding) -> Vec<usize> {
        if breaking.contains(&own.owner) {
            return self.touching.clone();
        }
        let mut opponents = breaking.to_vec();
        match own.confluent {
            Confluence::Yes => {}
            Confluence::No => opponents.extend(&own.because),
            Confluence::Unknown => opponents.clone_from(&self.touching),
        }
        opponents.sort_unstable();
        opponents.dedup();
        opponents
    }

    /// The groups that a type contributes to.
    fn group_needs(&self, owner: usize) -> Vec<Need> {
        let table = group_table(self.parts);
        self.all[owner]
            .iter()
            .map(|c| Need::of_group(self.clause, table, c.action))
            .collect()
    }
}

/// Why types that increment such an amount are ordered.
const DECIDED_AT_COMMIT: &str = "it increments a number that is an amount and is deferred to commit: it may differ from the number that was checked";

/// Findings for types that change a column of which a call checks an amount that the row's owner decides at commit:
/// the amount is the checked one only if they are ordered on that row.
fn decided_at_commit(
    footprint: &Footprint<'_>,
    all: &[Vec<Contribution<'_>>],
    parts: &[Part],
    finding: impl Fn(usize) -> Finding,
) -> Vec<Finding> {
    let mut counted: Vec<(TableId, ColumnIndex)> = Vec::new();
    let late = all
        .iter()
        .flatten()
        .filter(|c| is_decided_at_commit(c, parts));
    let amounts = late.flat_map(|c| c.action.access.writes.iter().map(move |write| (c, write)));
    for (contribution, write) in amounts {
        if let WriteClass::Assign(term) | WriteClass::Add { term, .. } = &write.class
            && let Term::Incremented {
                statement, column, ..
            } = term
            && let Some((counter, _)) =
                footprint.increment(contribution.action.owner, *statement, *column)
        {
            counted.push((counter.access.table, *column));
        }
    }
    if counted.is_empty() {
        return Vec::new();
    }
    let changes = |a: &&Action| {
        let mut counted = counted.iter();
        a.access.role == Role::Update
            && counted.any(|(table, column)| a.access.table == *table && a.write(*column).is_some())
    };
    let actions: Vec<&Action> = footprint.actions().filter(changes).collect();
    let owners: Vec<usize> = actions.iter().map(|a| a.owner).collect();
    let needs = |a: &&Action| {
        let need = Need::row(footprint, a);
        finding(a.owner).because(owners.clone()).needing(vec![need])
    };
    actions.iter().map(needs).collect()
}

/// Whether an amount is the result of an UPDATE of the same call, which the row's owner decides.
fn is_decided_at_commit(contribution: &Contribution<'_>, parts: &[Part]) -> bool {
    let is_summed = |column: ColumnIndex| {
        let of = (contribution.action.access.table, column);
        match &parts[contribution.part].source {
            Source::Column(column) => *column == of,
            Source::Aggregate { columns, .. } => columns.contains(&of),
        }
    };
    contribution.action.access.writes.iter().any(|write| {
        let term = match &write.class {
            WriteClass::Assign(term) | WriteClass::Add { term, .. } => Some(term),
            WriteClass::FromRow | WriteClass::FromData => None,
        };
        is_summed(write.column) && matches!(term, Some(Term::Incremented { .. }))
    })
}

/// The table that names a group: that of the group's own row, or the summed one.
pub(crate) fn group_table(parts: &[Part]) -> TableId {
    let columns = parts.iter().filter_map(|p| match &p.source {
        Source::Column((table, _)) => Some(*table),
        Source::Aggregate { .. } => None,
    });
    let regions = parts.iter().filter_map(|p| match &p.source {
        Source::Aggregate { region, .. } => region.tables.first().copied(),
        Source::Column(_) => None,
    });
    columns.chain(regions).next().unwrap_or(TableId(0))
}

/// The types that move rows of one of these parts by changing a joined table, if this type accesses the part by
/// another table; `None` if there are none. The two never access one row, so no guard on a row orders them.
fn regrouping_types(
    all: &[Vec<Contribution<'_>>],
    mine: &[Contribution<'_>],
) -> Option<Vec<usize>> {
    let mut others = Vec::new();
    for contribution in mine {
        for other in all.iter().flatten() {
            let apart = other.part == contribution.part
                && other.action.access.table != contribution.action.access.table;
            let moves = |c: &Contribution<'_>| c.kind == Kind::Moves;
            // Rows that do not refer to each other may come from both replicas, and meet only in the merge.
            let comes = |c: &Contribution<'_>| c.action.access.role == Role::Insert;
            let meet = comes(other) && comes(contribution);
            if apart && (moves(other) || moves(contribution) || meet) {
                others.push(other.place.0);
            }
        }
    }
    (!others.is_empty()).then_some(others)
}

fn is_column(parts: &[Part], contribution: &Contribution<'_>) -> bool {
    matches!(parts[contribution.part].source, Source::Column(_))
}

/// The finding for a type that adds, and perhaps moves rows.
fn moved_rows(
    footprint: &Footprint<'_>,
    owner: usize,
    mine: &[Contribution<'_>],
    moving: &[&Contribution<'_>],
    existing: &[&Contribution<'_>],
) -> Finding {
    let mut pairs = Vec::new();
    let mut opponents = Vec::new();
    let mut disputed = Vec::new();
    for contribution in mine {
        let others: Vec<&&Contribution<'_>> = match contribution.kind {
            Kind::Moves => moving.iter().chain(existing).collect(),
            Kind::Adds { existing: true, .. } => moving.iter().collect(),
            _ => continue,
        };
        let table = contribution.action.access.table;
        let before = pairs.len();
        for other in others
            .into_iter()
            .filter(|o| o.action.access.table == table)
        {
            pairs.push((contribution.place, other.place));
            opponents.push(other.place.0);
        }
        if pairs.len() > before {
            disputed.push(contribution.clone());
        }
    }
    if pairs.is_empty() {
        return Finding::yes(
            owner,
            "mv-update",
            "each transaction adds to both sides; the amounts are increments, so the merge keeps all of them",
        );
    }
    let mut finding = Finding::no(
        owner,
        "mv-transition",
        "two concurrent transactions may move the same row into or out of the sum: it moves once, but its amount is added twice",
    )
    .because(opponents)
    .needing(needs_of(footprint, &disputed));
    finding.unless_ordered = pairs;
    finding
}

fn needs_of(footprint: &Footprint<'_>, contributions: &[Contribution<'_>]) -> Vec<Need> {
    contributions
        .iter()
        .map(|c| Need::row(footprint, c.action).reading(c.action))
        .collect()
}

/// Why the type visibly does not keep the equation when it runs alone; `None` if it may.
fn unmaintained(mine: &[Contribution<'_>], parts: &[Part], links: &Links) -> Option<String> {
    let opens = |c: &Contribution<'_>| c.kind == Kind::Opens;
    if mine.iter().all(opens) || cancels_in_each_group(mine, links) {
        return None;
    }
    for (i, a) in mine.iter().enumerate() {
        for b in &mine[..i] {
            if a.part != b.part && in_different_groups(a.action, b.action, links) {
                return Some(
                    "it changes different groups: it breaks the equation even when it runs alone"
                        .into(),
                );
            }
        }
    }
    let (totals, exact) = totals(mine.iter());
    let transparent = |t: &Term| matches!(t, Term::Constant(_) | Term::Parameter(_));
    if exact && totals.iter().all(|(factor, _)| *factor == 0.0) {
        return None;
    }
    if exact && totals.iter().all(|(_, t)| transparent(t)) {
        return Some(
            "it adds different amounts to the sides: it breaks the equation even when it runs alone".into(),
        );
    }
    let mut touched: Vec<usize> = mine.iter().map(|c| c.part).collect();
    touched.sort_unstable();
    touched.dedup();
    (touched.len() < 2 && parts.len() > 1).then(|| {
        "it changes one side of the equation only: it breaks it even when it runs alone".into()
    })
}

/// Whether the amounts cancel out in each group that is changed, as in a transfer between groups: then it does not
/// matter whether two of the groups are the same.
fn cancels_in_each_group(mine: &[Contribution<'_>], links: &Links) -> bool {
    let group = |c: &Contribution<'_>| -> Option<Vec<Term>> {
        let of_class = |class: &Vec<TableColumn>| {
            let columns = class.iter().filter(|of| of.0 == c.action.access.table);
            let mut terms = columns.map(|of| c.action.fixed(of.1));
            terms.next().flatten().cloned()
        };
        links.classes().iter().map(of_class).collect()
    };
    let Some(groups) = mine.iter().map(group).collect::<Option<Vec<_>>>() else {
        return false;
    };
    !groups.is_empty()
        && groups.iter().all(|of| {
            let same = mine.iter().zip(&groups).filter(|(_, g)| *g == of);
            let (totals, exact) = totals(same.map(|(c, _)| c));
            let known = |term: &Term| matches!(term, Term::Constant(_) | Term::Parameter(_));
            exact && of.iter().all(known) && totals.iter().all(|(factor, _)| *factor == 0.0)
        })
}

/// The sums of contributions, by term; and whether they contribute nothing else.
fn totals<'c>(
    contributions: impl Iterator<Item = &'c Contribution<'c>>,
) -> (Vec<(f64, &'c Term)>, bool) {
    let mut totals: Vec<(f64, &Term)> = Vec::new();
    let mut exact = true;
    for contribution in contributions {
        match &contribution.kind {
            Kind::Adds {
                amount: Some((factor, term)),
                ..
            } => match totals.iter_mut().find(|(_, t)| *t == term) {
                Some((total, _)) => *total += factor,
                None => totals.push((*factor, term)),
            },
            _ => exact = false,
        }
    }
    (totals, exact)
}

/// A sum that must stay at most, or at least, a constant.
pub(crate) fn judge_bound(
    context: &Context<'_>,
    clause: &Clause,
    parts: &[Part],
    upper: bool,
) -> Vec<Finding> {
    let footprint = context.footprint;
    let dangerous = if upper {
        Sign::Positive
    } else {
        Sign::Negative
    };
    let (safe, unsafe_) = if upper {
        ("lt-decrement", "lt-increment")
    } else {
        ("gt-increment", "gt-decrement")
    };
    let all: Vec<Vec<Contribution<'_>>> = (0..footprint.types.len())
        .map(|owner| contributions(footprint, owner, clause, parts))
        .collect();
    // Whether a part may lose all its rows, so that the clause requires nothing of it meanwhile.
    let may_be_empty = |part: usize| {
        let is_nullable = match &parts[part].source {
            Source::Aggregate { columns, .. } => columns
                .iter()
                .any(|(table, column)| footprint.table(*table).columns[column.index()].nullable),
            Source::Column(_) => false,
        };
        let mut others = all.iter().flatten();
        parts[part].null_of_nothing
            && others.any(|c| {
                // A number that becomes NULL counts like a deleted row.
                let voids = is_nullable && c.action.access.role == Role::Update;
                c.part == part && (c.kind == Kind::Moves || voids)
            })
    };
    let mut findings = Vec::new();
    for (owner, mine) in all.iter().enumerate() {
        for c in mine {
            let is_first = c.action.access.role == Role::Insert && may_be_empty(c.part);
            let sign = match &c.kind {
                Kind::Adds { .. } => direction(footprint, c, &parts[c.part]),
                Kind::Moves if c.action.access.role == Role::Delete => {
                    counted(&parts[c.part]).turned()
                }
                Kind::Moves | Kind::Overwrites | Kind::Founds | Kind::Opens => Sign::Either,
            };
            findings.push(if c.kind == Kind::Opens {
                Finding::yes(owner, safe, "it inserts a new group, which no transaction can have added rows to")
            } else if is_first && sign != dangerous {
                Finding::no(owner, unsafe_, "an empty group has no bound: if concurrent transactions remove all other rows, the inserted row has to satisfy the bound by itself")
                    .needing(vec![Need::of_group(clause, group_table(parts), c.action)])
            } else if sign != Sign::Either && sign != dangerous {
                let finding = Finding::yes(owner, safe, "it only moves the sum away from its bound");
                // An inserted row may be the first of its group: then a sum that was NULL gets a value, and that
                // may be beyond the bound. A count is never NULL.
                match c.action.access.role {
                    Role::Insert if counted(&parts[c.part]) == Sign::Either => finding,
                    _ => finding.kept_alone(),
                }
            } else {
                Finding::no(owner, unsafe_, "it may move the sum towards its bound: two changes that each respect the bound may break it together")
                    .needing(vec![Need::of_group(clause, group_table(parts), c.action)])
            });
        }
    }
    findings.extend(decided_at_commit(footprint, &all, parts, |owner| {
        Finding::no(owner, unsafe_, DECIDED_AT_COMMIT)
    }));
    let mut findings = worst(findings);
    let opposed: Vec<usize> = findings
        .iter()
        .filter(|f| f.confluent != Confluence::Yes)
        .map(|f| f.owner)
        .collect();
    for finding in findings
        .iter_mut()
        .filter(|f| f.confluent != Confluence::Yes)
    {
        finding.because.clone_from(&opposed);
    }
    findings
}

/// The sign of one more row in a part that counts rows.
fn counted(part: &Part) -> Sign {
    match part.source {
        Source::Aggregate {
            function: Aggregate::Count,
            ..
        } if part.factor >= 0.0 => Sign::Positive,
        Source::Aggregate {
            function: Aggregate::Count,
            ..
        } => Sign::Negative,
        _ => Sign::Either,
    }
}

fn direction(footprint: &Footprint<'_>, c: &Contribution<'_>, part: &Part) -> Sign {
    let counted = counted(part);
    if counted != Sign::Either {
        return counted;
    }
    let column = match &part.source {
        Source::Column((_, column)) => *column,
        Source::Aggregate {
            columns,
            plain: true,
            ..
        } if columns.len() == 1 && columns[0].0 == c.action.access.table => columns[0].1,
        // The columns of an action on a joined table do not determine its effect on the sum.
        Source::Aggregate { .. } => return Sign::Either,
    };
    let sign = match c.action.write(column).map(|w| &w.class) {
        // The sum becomes NULL with the amount.
        Some(WriteClass::Add { .. }) if footprint.may_add_null(c.action, column) => Sign::Either,
        Some(WriteClass::Add { term, negated }) => {
            footprint.sign(c.action.owner, term).turned_if(*negated)
        }
        Some(WriteClass::Assign(term)) => footprint.sign(c.action.owner, term),
        _ => Sign::Either,
    };
    sign.turned_if(part.factor < 0.0)
}
