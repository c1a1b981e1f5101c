//! The analysis's result.

pub(crate) mod partitioning;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anabranch_sql::summary::{
    Deferral, ResultUse, StatementId, StatementSummary, Term, TransactionSummary,
};
use anabranch_types::{ColumnIndex, Placement, TableId};

use partitioning::Partitioning;

/// What the analysis found for an application, under one topology.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One entry a transaction type, in order of declaration.
    pub entries: Vec<PlanEntry>,
    /// Where each table's rows live, indexed by table.
    pub placements: Vec<Placement>,
    /// The reason for each placement, indexed by table.
    pub placement_reasons: Vec<String>,
    /// How concurrent writes to each written column are merged.
    pub columns: Vec<ColumnMerge>,
    /// Every invariant that the analysis considered, in a fixed order.
    pub invariants: Vec<Invariant>,
    /// How operations are partitioned, where everything is ordered (serializability).
    pub partitioning: Option<Partitioning>,
}

impl Plan {
    /// Whether any transaction type has to be ordered against others.
    pub fn needs_coordination(&self) -> bool {
        self.entries
            .iter()
            .any(|e| e.class != CoordinationClass::Free)
    }

    /// A transaction type that takes guards, if any does.
    pub fn guarded(&self) -> Option<&PlanEntry> {
        let takes = |e: &&PlanEntry| !e.guarded_reads.is_empty() || !e.guarded_writes.is_empty();
        self.entries.iter().find(takes)
    }

    /// The entry of the transaction type with this name.
    pub fn entry(&self, name: &str) -> Option<&PlanEntry> {
        self.entries.iter().find(|e| e.name == name)
    }

    /// The same plan without coordination: no type is ordered against another, and no owner draws numbers at
    /// commit. Assertions that a transaction could violate alone are still evaluated, where it runs.
    #[must_use]
    pub fn without_guards(&self, summaries: &[TransactionSummary]) -> Plan {
        let mut plan = self.clone();
        for entry in &mut plan.entries {
            let summary = summaries.iter().find(|summary| summary.name == entry.name);
            entry.class = CoordinationClass::Free;
            entry.guards.clear();
            entry.guarded_reads.clear();
            entry.guarded_writes.clear();
            entry
                .checks
                .iter_mut()
                .for_each(|check| check.guarded = false);
            entry.deferred.retain(|id| {
                let statements = summary.into_iter().flat_map(|summary| &summary.statements);
                let mut of_it = statements.filter(|statement| statement.id == *id);
                !of_it.any(draws_numbers)
            });
        }
        plan
    }

    /// The same plan without one guard of one type: what was read for it alone is not validated, what was written
    /// for it alone is not a write intent, and no owner draws numbers for it.
    ///
    /// # Panics
    /// When there is no such guard.
    #[must_use]
    pub fn without_guard(
        &self,
        summaries: &[TransactionSummary],
        entry: usize,
        guard: usize,
    ) -> Plan {
        let mut plan = self.clone();
        let entry_at = entry;
        let entry = &mut plan.entries[entry_at];
        let taken = entry.guards.remove(guard);
        let left = &entry.guards;
        let reads = |id: &StatementId| left.iter().any(|guard| guard.reads.contains(id));
        let writes = |id: &StatementId| left.iter().any(|guard| guard.writes.contains(id));
        entry.guarded_reads.retain(reads);
        entry.guarded_writes.retain(writes);
        let needed = |invariant| {
            left.iter()
                .any(|guard| guard.invariants.contains(&invariant))
        };
        for check in &mut entry.checks {
            check.guarded &=
                needed(check.invariant) || !taken.invariants.contains(&check.invariant);
        }
        if taken.keeping == GuardKeeping::AtCommit {
            let statements = &summaries[entry_at].statements;
            let numbers = |id| {
                let mut of_it = statements.iter().filter(|statement| statement.id == id);
                of_it.any(|statement| {
                    draws_numbers(statement)
                        && statement.accesses.iter().any(|a| a.table == taken.table)
                })
            };
            entry.deferred.retain(|id| !numbers(*id));
        }
        plan
    }

    /// An identifier of a type's guard that stays the same while the type is ordered on this item: the type's name,
    /// the item and the columns of the key; for several such guards also a number.
    ///
    /// # Panics
    /// When there is no such guard.
    pub fn guard_id(&self, entry: usize, guard: usize) -> String {
        let entry = &self.entries[entry];
        let named = |guard: &Guard| {
            let columns: Vec<&str> = guard.key.iter().map(|key| key.name.as_str()).collect();
            match columns.is_empty() {
                true => format!("{}/{}", entry.name, guard.item),
                false => format!("{}/{}:{}", entry.name, guard.item, columns.join(",")),
            }
        };
        let name = named(&entry.guards[guard]);
        let before = entry.guards[..guard].iter();
        match before.filter(|other| named(other) == name).count() {
            0 => name,
            alike => format!("{name}#{}", alike + 1),
        }
    }

    /// The coordination graph: its edges, by their ends.
    pub fn edges(&self) -> Vec<Edge> {
        let mut found: BTreeMap<(usize, usize), Edge> = BTreeMap::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, entry) in self.entries.iter().enumerate() {
            places.entry(&entry.name).or_insert(at);
        }
        for (at, entry) in self.entries.iter().enumerate() {
            let needing = entry.verdicts.iter();
            for verdict in needing.filter(|verdict| verdict.confluent != Confluence::Yes) {
                let place = |name: &String| places.get(name.as_str()).copied();
                let mut others: Vec<usize> = verdict.because.iter().filter_map(place).collect();
                if others.is_empty() {
                    // The type breaks it by itself.
                    others.push(at);
                }
                for other in others {
                    let ends = (at.min(other), at.max(other));
                    let edge = found.entry(ends).or_insert_with(|| Edge {
                        ends,
                        invariants: BTreeMap::new(),
                    });
                    let rules = edge.invariants.entry(verdict.invariant).or_default();
                    rules.insert(verdict.rule);
                }
            }
        }
        found.into_values().collect()
    }
}

/// Whether the result of a deferred UPDATE is known only at commit: a number that the row's owner draws.
pub(crate) fn draws_numbers(statement: &StatementSummary) -> bool {
    statement.result != ResultUse::Unused && statement.deferral != Deferral::AfterReading
}

/// An edge of the coordination graph: two transaction types that have to be ordered against each other, or calls of
/// one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Indexes into [`Plan::entries`], the lower first.
    pub ends: (usize, usize),
    /// The invariants that need the edge (indexes into [`Plan::invariants`]), each with the rules that say so.
    pub invariants: BTreeMap<usize, BTreeSet<&'static str>>,
}

impl PlanEntry {
    /// The verdict on the invariant with this index, if the transaction type can affect it.
    pub fn verdict(&self, invariant: usize) -> Option<&Verdict> {
        self.verdicts.iter().find(|v| v.invariant == invariant)
    }
}

/// The plan of one transaction type.
#[derive(Clone, Debug)]
pub struct PlanEntry {
    /// The procedure's name.
    pub name: String,
    /// Whether, and how far, it must coordinate.
    pub class: CoordinationClass,
    /// Input parameters (indexes) that choose the partition on which the transaction's guards fall, or, without
    /// guards, most of its accesses. If empty, [`PlanEntry::routing_array`] chooses.
    pub routing: Vec<usize>,
    /// Without such a parameter: the array parameter (its index) by whose elements most rows are found. The
    /// transaction belongs on the partition that has most of them. `None` beside an empty [`PlanEntry::routing`]:
    /// any node may run it.
    pub routing_array: Option<usize>,
    /// The table whose rows the routing parameter, or array, finds: the transaction belongs on the partition of its
    /// rows whose placing column has the parameter's value. `None` without one.
    pub routed_to: Option<TableId>,
    /// The items on which it must be ordered against others.
    pub guards: Vec<Guard>,
    /// UPDATE statements that are deferred: the owner of the row evaluates them at commit.
    pub deferred: Vec<StatementId>,
    /// Statements whose reads are guards: they are validated (or locked) until commit.
    pub guarded_reads: Vec<StatementId>,
    /// Statements whose writes are guards: no other transaction may have a write intent on the row between this
    /// one's prepare and commit.
    pub guarded_writes: Vec<StatementId>,
    /// Assertions that it could break even if no other transaction runs: they are evaluated before it commits.
    pub checks: Vec<AssertionCheck>,
    /// Assertions that its author declares it keeps when it runs alone (`-- anabranch: keeps NAME`), so that they
    /// are not evaluated: indexes into [`Plan::invariants`].
    pub declared_by_author: Vec<usize>,
    /// The cheapest sufficient protocol: its name on the command line.
    pub protocol: &'static str,
    /// One verdict for each invariant that the transaction type can affect.
    pub verdicts: Vec<Verdict>,
    /// Whether every read and write is a guard (no plan, or `--guarantee serializable`).
    pub serializable: bool,
    /// Why it was not analysed, if so: it counts as doing the most that it may do.
    pub unknown: Option<String>,
    /// Whether it may do anything to every table, since it was not analysed. Then it counts as breaking every
    /// invariant, and has neither guards nor verdicts. Verdicts of other types name the first such type for all.
    pub may_change_any_table: bool,
    /// Whether no statement writes.
    pub read_only: bool,
    /// Whether its reads are a subset of what each writer writes together, if that is certain.
    pub read_subset: Option<ReadSubset>,
}

/// The read-subset-items-written property (ramp.txt, Definition 3.28): the writer of each version
/// that a transaction of the type reads has written everything that the transaction reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadSubset {
    /// Each type that shares tables with it, directly or through others, has the property or only writes:
    /// serializable under RAMP (Theorem 3.29).
    Serializable,
    /// This type, which shares tables or writers with it, does not have the property.
    Beside(String),
}

/// An assertion that is evaluated before a transaction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssertionCheck {
    /// The assertion: an index into [`Plan::invariants`].
    pub invariant: usize,
    /// Whether what the evaluation reads is a guard. It need not be where the invariant is confluent.
    pub guarded: bool,
}

/// Whether, and how far, a transaction type must coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoordinationClass {
    /// It has no guards.
    Free,
    /// Its guards fall on one partition.
    Local,
    /// Its guards may fall on several.
    Global,
}

/// A named item on which transactions are ordered.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// The item's name for people, such as `district.d_next_o_id` or `new_order`.
    pub item: String,
    /// The item's table.
    pub table: TableId,
    /// The key columns that distinguish such items, with the source of each value.
    pub key: Vec<GuardKey>,
    /// The invariants that need it (indexes into [`Plan::invariants`]).
    pub invariants: Vec<usize>,
    /// How the guard is kept.
    pub keeping: GuardKeeping,
    /// Statements whose reads are validated for it.
    pub reads: Vec<StatementId>,
    /// Statements whose writes become write intents for it.
    pub writes: Vec<StatementId>,
}

/// Writes the guard on one line, as reports do.
impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key: Vec<String> = self
            .key
            .iter()
            .map(|k| match k.from.as_str() {
                "computed" | "not known" => k.name.clone(),
                from => format!("{} = {from}", k.name),
            })
            .collect();
        let one = if key.is_empty() {
            "one for all rows".to_owned()
        } else {
            format!("one for each ({})", key.join(", "))
        };
        let keeping = match self.keeping {
            GuardKeeping::AtCommit => "deferred to commit, by its owner",
            GuardKeeping::Validated => "held from prepare to commit",
        };
        write!(f, "{}, {one}; {keeping}", self.item)
    }
}

/// One column of a guard's key.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardKey {
    /// The column.
    pub column: ColumnIndex,
    /// Its name.
    pub name: String,
    /// The source of the value, for people: `p_w_id`.
    pub from: String,
    /// The source of the value.
    pub term: Term,
}

/// How a guard is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardKeeping {
    /// Decided by the owner at commit: an increment whose result becomes part of keys (the nested atomic
    /// transaction of coordination-avoidance.txt §6.1). Nothing waits.
    AtCommit,
    /// Validated at prepare and kept until commit.
    Validated,
}

/// How concurrent writes to a column are merged.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnMerge {
    /// The table.
    pub table: TableId,
    /// The column.
    pub column: ColumnIndex,
    /// The policy.
    pub policy: MergePolicy,
    /// Why this policy.
    pub reason: String,
}

/// A merge policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergePolicy {
    /// Written only when the row is inserted.
    Immutable,
    /// Increments add up.
    Counter,
    /// The highest timestamp wins.
    LastWriter,
    /// A function of the row, applied once by its one owner, in the order of commits.
    OwnerOrder,
    /// A register written from data that was read: last writer wins would lose updates, so its writers are guarded.
    Guarded,
}

/// A predicate that every committed state must satisfy.
#[derive(Clone, Debug, PartialEq)]
pub struct Invariant {
    /// Its name: the constraint's or assertion's.
    pub name: String,
    /// Its kind, in the terms of the paper's Tables 2 and 3.
    pub kind: InvariantKind,
    /// A description for people.
    pub description: String,
    /// The condition of an assertion as SQL.
    pub condition: Option<String>,
}

/// Kinds of invariants (coordination-avoidance.txt Tables 2 and 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvariantKind {
    /// A condition on one row that forbids or requires values (NOT NULL, CHECK without an order).
    RowEquality,
    /// A CHECK that bounds a column from below.
    LowerBound,
    /// A CHECK that bounds a column from above.
    UpperBound,
    /// Another CHECK on one row.
    RowCheck,
    /// PRIMARY KEY and UNIQUE.
    Uniqueness,
    /// An index that is not unique.
    SecondaryIndex,
    /// FOREIGN KEY.
    ForeignKey,
    /// Ids without gaps.
    SequentialId,
    /// A column equals an aggregate of other rows.
    MaterializedView,
    /// A row exists iff, or whenever, another does.
    Existence,
    /// At least one row must exist.
    NonEmpty,
    /// The number of rows is fixed.
    Size,
    /// Isolation: updates must not be lost.
    NoLostUpdate,
    /// Not recognised.
    Other,
}

/// The result for one transaction type and one invariant.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The invariant (an index into [`Plan::invariants`]).
    pub invariant: usize,
    /// Whether the invariant holds without coordination.
    pub confluent: Confluence,
    /// The stable code of the rule that decided.
    pub rule: &'static str,
    /// Why, for people.
    pub explanation: String,
    /// Names of the transaction types that decide it together with this one (its opponents, if it is not
    /// confluent).
    pub because: Vec<String>,
}

/// Whether an invariant holds without coordination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confluence {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// No rule decides: counts as no.
    Unknown,
}
