//! The rules that decide confluence: one file for each family of coordination-avoidance.txt's Table 2.
//!
//! Each rule has a stable code, its source, the sentence that proves it and a remedy ([`RULES`], also in
//! docs/analysis.md). A family examines one invariant and *all* transaction types (trap: one new type can make all
//! others non-confluent). For each type that can affect the invariant it decides whether the invariant holds, by
//! which rule, because of which types, and what would have to be ordered. It reasons about the effect of each
//! statement on the merged state, so about any number of calls on either side, never about single pairs of calls.

mod catalogue;
mod contribution;
pub(crate) mod existence;
pub(crate) mod foreign_key;
pub(crate) mod isolation;
pub(crate) mod maintained;
pub(crate) mod row;
pub(crate) mod sequence;
pub(crate) mod unique;
pub(crate) mod view;

pub use catalogue::{RULES, Rule, rule};

use anabranch_sql::summary::{Role, StatementId, Term};
use anabranch_types::{ColumnIndex, TableId};

use crate::assertion::{Clause, Formula, Shape};
use crate::footprint::{Action, Footprint};
use crate::invariant::{Content, Declared};
use crate::merge::MergeModel;
use crate::plan::{Confluence, GuardKeeping};

/// The result of one family of rules for one transaction type and one invariant.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// The type.
    pub(crate) owner: usize,
    /// Whether the invariant holds without coordination.
    pub(crate) confluent: Confluence,
    /// The code of the rule that decided.
    pub(crate) rule: &'static str,
    /// Why, for people.
    pub(crate) explanation: String,
    /// The types that decide it together with this one.
    pub(crate) because: Vec<usize>,
    /// What has to be ordered. For a `Yes`, what it relies on: another finding requires the same.
    pub(crate) needs: Vec<Need>,
    /// Pairs of actions (type, index): if guards that other findings need order every pair, the invariant holds
    /// after all and `needs` are void.
    pub(crate) unless_ordered: Vec<(ActionRef, ActionRef)>,
    /// Whether a transaction of the type that runs alone may break the invariant, if that is an assertion: it may,
    /// unless its statements show that it cannot.
    pub(crate) breaks_alone: bool,
}

/// An action, by its type and its index in the type.
pub(crate) type ActionRef = (usize, usize);

impl Finding {
    /// The invariant holds.
    pub(crate) fn yes(owner: usize, rule: &'static str, explanation: impl Into<String>) -> Finding {
        Finding::new(owner, Confluence::Yes, rule, explanation)
    }

    /// The invariant needs coordination.
    pub(crate) fn no(owner: usize, rule: &'static str, explanation: impl Into<String>) -> Finding {
        Finding::new(owner, Confluence::No, rule, explanation)
    }

    /// No rule decides.
    pub(crate) fn unknown(
        owner: usize,
        rule: &'static str,
        explanation: impl Into<String>,
    ) -> Finding {
        Finding::new(owner, Confluence::Unknown, rule, explanation)
    }

    fn new(
        owner: usize,
        confluent: Confluence,
        rule: &'static str,
        explanation: impl Into<String>,
    ) -> Finding {
        debug_assert!(
            catalogue::rule(rule).is_some(),
            "rule {rule} is not in the catalogue"
        );
        Finding {
            owner,
            confluent,
            rule,
            explanation: explanation.into(),
            because: Vec::new(),
            needs: Vec::new(),
            unless_ordered: Vec::new(),
            breaks_alone: true,
        }
    }

    /// Sets the types that decide it.
    pub(crate) fn because(mut self, mut types: Vec<usize>) -> Finding {
        types.sort_unstable();
        types.dedup();
        self.because = types;
        self
    }

    /// Records that the statements of the type keep the invariant when it runs alone, whatever they read.
    pub(crate) fn kept_alone(mut self) -> Finding {
        self.breaks_alone = false;
        self
    }

    /// Sets what has to be ordered.
    pub(crate) fn needing(mut self, needs: Vec<Need>) -> Finding {
        self.needs = needs;
        self
    }
}

/// An item that a transaction type must be ordered on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Need {
    /// The table.
    pub(crate) table: TableId,
    /// The column, if the item is one column.
    pub(crate) column: Option<ColumnIndex>,
    /// The columns that identify the item, with their values if they are known.
    pub(crate) key: Vec<(ColumnIndex, Term)>,
    /// How the guard is kept.
    pub(crate) keeping: GuardKeeping,
    /// Statements whose reads are validated.
    pub(crate) reads: Vec<StatementId>,
    /// Statements whose writes become write intents.
    pub(crate) writes: Vec<StatementId>,
}

impl Need {
    /// The row that an action accesses, or as much of its key as is fixed.
    pub(crate) fn row(footprint: &Footprint<'_>, action: &Action) -> Need {
        let key = footprint.table(action.access.table).primary_key.clone();
        Need::keyed(action, &key)
    }

    /// The rows that an action accesses, identified by those of `columns` that it fixes.
    pub(crate) fn keyed(action: &Action, columns: &[ColumnIndex]) -> Need {
        let key = columns
            .iter()
            .filter_map(|c| Some((*c, action.fixed(*c)?.clone())))
            .collect();
        let statement = vec![action.statement];
        let (reads, writes) = if action.is_write() {
            (Vec::new(), statement)
        } else {
            (statement, Vec::new())
        };
        Need {
            table: action.access.table,
            column: None,
            key,
            keeping: GuardKeeping::Validated,
            reads,
            writes,
        }
    }

    /// The group of a clause that an action accesses. All types that are ordered because of the clause name the
    /// same table, `named`, by its linked columns whose values the action fixes.
    pub(crate) fn of_group(clause: &Clause, named: TableId, action: &Action) -> Need {
        let mut need = Need::keyed(action, &[]).reading(action);
        need.table = named;
        let mut columns: Vec<(ColumnIndex, Term)> = Vec::new();
        for class in clause.links.classes() {
            let of_named = class.iter().find(|c| c.0 == named);
            let of_action = class
                .iter()
                .filter(|c| c.0 == action.access.table)
                .find(|c| {
                    // A column that the action changes does not identify one group.
                    action.access.role == Role::Insert || action.write(c.1).is_none()
                });
            if let (Some((_, column)), Some((_, known))) = (of_named, of_action)
                && let Some(term) = action.fixed(*known)
            {
                columns.push((*column, term.clone()));
            }
        }
        columns.sort_by_key(|(c, _)| *c);
        columns.dedup_by_key(|(c, _)| *c);
        need.key = columns;
        need
    }

    /// Restricts the item to one column.
    pub(crate) fn of(mut self, column: ColumnIndex) -> Need {
        self.column = Some(column);
        self
    }

    /// Adds the statement's reads to those that are validated.
    pub(crate) fn reading(mut self, action: &Action) -> Need {
        if !self.reads.contains(&action.statement) {
            self.reads.push(action.statement);
        }
        self
    }
}

/// What rules need besides the invariant.
pub(crate) struct Context<'a> {
    /// The accesses of all types.
    pub(crate) footprint: &'a Footprint<'a>,
    /// What merging does.
    pub(crate) merge: MergeModel,
    /// Counters that a declared invariant puts a guard on.
    pub(crate) sequenced: Vec<(TableId, ColumnIndex)>,
}

/// Applies the rules to one invariant: one finding for each type that can affect it, in order of types.
pub(crate) fn judge(context: &Context<'_>, declared: &Declared) -> Vec<Finding> {
    match &declared.content {
        Content::NotNull { table, columns } => row::judge_not_null(context, *table, columns),
        Content::Row { table, atoms, .. } => row::judge(context, *table, atoms),
        Content::Unique { table, columns } => unique::judge(context, *table, columns),
        Content::ForeignKey { table, key } => foreign_key::judge(context, *table, key),
        Content::Index { table, columns } => row::judge_index(context, *table, columns),
        Content::Isolation { table } => isolation::judge(context, *table),
        Content::Assertion(formula) => judge_formula(context, formula),
    }
}

/// All clauses of a formula must hold: each type gets its worst finding, with the needs of all.
fn judge_formula(context: &Context<'_>, formula: &Formula) -> Vec<Finding> {
    let mut findings = Vec::new();
    for clause in &formula.clauses {
        if let Shape::Iff(_) | Shape::Inclusion { .. } = clause.shape
            && clause
                .beside()
                .iter()
                .any(|t| context.footprint.facts(*t).is_written())
        {
            let reason = "rows of another table select which rows it compares";
            findings.extend(judge_unrecognised(context, formula, &clause.tables, reason));
            continue;
        }
        findings.extend(match &clause.shape {
            Shape::Balance(parts) => view::judge_balance(context, clause, parts),
            Shape::Bound { parts, upper } => view::judge_bound(context, clause, parts, *upper),
            Shape::Extremum(parts) => sequence::judge(context, clause, parts),
            Shape::Iff(facets) => existence::judge_iff(context, clause, facets),
            Shape::Inclusion {
                child,
                filters,
                parent,
            } => existence::judge_inclusion(context, clause, *child, filters, parent),
            Shape::Row { table, atoms } => row::judge(context, *table, atoms),
            Shape::AtLeastOne { region, certain } => {
                existence::judge_at_least_one(context, region, *certain)
            }
            Shape::Unrecognised(reason) => {
                judge_unrecognised(context, formula, &clause.tables, reason)
            }
        });
    }
    worst(findings)
}

/// Merges the findings of each type into the worst.
pub(crate) fn worst(findings: Vec<Finding>) -> Vec<Finding> {
    let severity = |f: &Finding| match f.confluent {
        Confluence::Yes => 0,
        Confluence::Unknown => 1,
        Confluence::No => 2,
    };
    let mut merged: Vec<Finding> = Vec::new();
    for finding in findings {
        let Some(seen) = merged.iter_mut().find(|f| f.owner == finding.owner) else {
            merged.push(finding);
            continue;
        };
        let mut needs = std::mem::take(&mut seen.needs);
        needs.extend(finding.needs.iter().cloned());
        let mut because = std::mem::take(&mut seen.because);
        because.extend(&finding.because);
        // A finding that other guards may void must not void one that stands without it.
        let both = |f: &Finding| f.confluent == Confluence::Yes || !f.unless_ordered.is_empty();
        let voidable = both(seen) && both(&finding);
        let breaks_alone = seen.breaks_alone || finding.breaks_alone;
        let mut pairs = std::mem::take(&mut seen.unless_ordered);
        pairs.extend(finding.unless_ordered.iter().copied());
        if severity(&finding) > severity(seen) {
            *seen = finding;
        }
        seen.needs = needs;
        seen.breaks_alone = breaks_alone;
        seen.unless_ordered = if voidable { pairs } else { Vec::new() };
        seen.because = Vec::new();
        *seen = seen.clone().because(because);
    }
    merged.sort_by_key(|f| f.owner);
    merged
}

/// Orders every access to the tables, as far as the formula may read what it writes, on whole tables.
fn judge_unrecognised(
    context: &Context<'_>,
    formula: &Formula,
    tables: &[TableId],
    reason: &str,
) -> Vec<Finding> {
    let footprint = context.footprint;
    let is_seen = |action: &Action| {
        let schema = &footprint.catalog.schema;
        let columns = &schema.table(action.access.table).columns;
        let mut writes = action.access.writes.iter();
        action.access.role != Role::Update
            || writes.any(|write| formula.may_look_at(&columns[write.column.index()].name))
    };
    let written = |t: &&TableId| footprint.facts(**t).is_written();
    let Some(named) = tables.iter().find(written).copied() else {
        return Vec::new();
    };
    let writers: Vec<usize> = (0..footprint.types.len())
        .filter(|t| {
            footprint.types[*t]
                .actions
                .iter()
                .any(|a| a.is_write() && tables.contains(&a.access.table) && is_seen(a))
        })
        .collect();
    writers
        .iter()
        .map(|owner| {
            let needs = footprint.types[*owner]
                .actions
                .iter()
                .filter(|a| {
                    tables.contains(&a.access.table) && footprint.facts(a.access.table).is_written()
                })
                .map(|a| {
                    // All accesses name the same table.
                    let mut need = Need::keyed(a, &[]).reading(a);
                    need.table = named;
                    need
                })
                .collect();
            let explanation = format!(
                "no rule recognises the invariant ({reason}), so every access to its tables is ordered"
            );
            Finding::unknown(*owner, "unrecognised", explanation)
                .because(writers.clone())
                .needing(needs)
        })
        .collect()
}
