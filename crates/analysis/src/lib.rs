//! Catalog in, plan out: which transaction types need coordination, on what, and why.
//!
//! The analysis follows "Coordination Avoidance in Database Systems" (§4 to §6), with routing after "operation
//! partitioning" §3.1. [`analyze`] runs these steps:
//!
//! 1. `footprint`: what each transaction type does to each table, from the statements' summaries; adds cascades and
//!    follows terms back to parameters (`term`).
//! 2. `invariant`: every declared or asserted invariant; `assertion` recognises conditions by their shape.
//! 3. [`rule`]: for each invariant, one family of the paper's Table 2 decides for each type whether the invariant
//!    is confluent, by which rule, because of which types, and what would have to be ordered otherwise. Analysis is
//!    closed-world: a rule looks at all types together. CHECK constraints that no rule decides go to a solver
//!    ([`solve`]), which looks for an invalid merge (`proof`).
//! 4. `conflict`: drops requirements for pairs that guards order already.
//! 5. `guard`: turns requirements into the guards of each type, and `redundant` drops redundant ones. [`partition`]
//!    chooses the parameters by which types are routed; `placement` and `routing` place tables so that guards fall
//!    on one partition where a parameter allows it; `merge` chooses how each column is merged.
//! 6. `rsiw`: finds read-only types whose reads are serializable under RAMP although nothing orders them.
//! 7. [`repair`]: proposes changes of the application under which less is ordered, each analysed like this again.
//! 8. [`report`]: the plan as text for people and as JSON for programs.
//!
//! *Serializable* is not another analysis: it is the largest set of guards (everything read or written), sent
//! through the same steps 5 and 6. Its conflicts are those of "operation partitioning", and its plan also has the
//! paper's classes ([`Partitioning`]).
//!
//! Assumptions: summaries count every statement of every branch. A transaction that commits leaves a state that
//! satisfies the invariants where it ran: constraints are checked where rows are written; assertions are evaluated
//! before it commits, unless its statements are shown to keep them, or its author declares so. An invariant that no
//! rule decides is unknown, which counts as needing coordination.

mod assertion;
mod conflict;
pub mod explore;
mod footprint;
mod guard;
mod invariant;
mod merge;
mod nullability;
pub mod partition;
mod placement;
pub mod plan;
mod proof;
mod redundant;
pub mod repair;
pub mod report;
mod routing;
mod rsiw;
pub mod rule;
mod sign;
pub mod solve;
mod term;
mod unanalysed;

pub use partition::Partitioning;
pub use placement::open_placements;
pub use plan::Plan;

use std::collections::BTreeMap;

use anabranch_sql::catalog::Catalog;
use anabranch_sql::summary::{Role, StatementId, TransactionSummary};
use anabranch_types::{ColumnIndex, Placement, TableId};

use conflict::{EstablishedOrder, Requirement};
use footprint::Footprint;
use guard::KeyedGuard;
use invariant::{Content, Declared};
use merge::MergeModel;
use placement::{Layout, LayoutOptions};
use plan::{AssertionCheck, Confluence, CoordinationClass, PlanEntry, ReadSubset, Verdict};
use rule::{Context, Finding, Need};
use solve::Solver;

/// Where copies of the data are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// Each item has one owner.
    #[default]
    Partitioned,
}

/// What the plan guarantees to transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guarantee {
    /// No declared invariant is violated and no update is lost.
    #[default]
    Invariants,
    /// Beyond that, transactions are serializable.
    Serializable,
}

/// Limits of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most choices of routing parameters that are compared one by one ([`partition`]).
    pub choices_max: usize,
    /// The most pairs of accesses whose conditions are examined for conflicts. Types with pairs beyond it count as
    /// conflicting.
    pub conditions_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            choices_max: 20_000,
            conditions_max: 1_000_000,
        }
    }
}

/// Options of an analysis.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where copies of the data are.
    pub topology: Topology,
    /// What the plan guarantees to transactions.
    pub guarantee: Guarantee,
    /// How often each type is called, relative to the others, by name. Types without an entry weigh 1.
    pub weights: BTreeMap<String, u64>,
    /// How much work the analysis may do.
    pub limits: Limits,
    /// Decides invariants that no rule decides.
    pub solver: Solver,
    /// Where the rows live already, indexed by table. `None`: the analysis chooses. A table whose types no longer
    /// allow its placement gets another one.
    pub placements: Option<Vec<Placement>>,
    /// Whether keys place the tables that have one, also where the types draw all of them from sequences: if clients may give
    /// keys, or set sequences back, by statements that are not analysed; or if there is only one partition.
    pub places_by_keys: bool,
    /// The number of sites for which the operation partitioning estimates the share of local calls.
    pub sites: Option<u32>,
    /// Whether operation partitioning may leave rows on one server alone.
    pub writes: partition::Writes,
}

/// The largest weight of a type.
pub const WEIGHT_MAX: u64 = 1_000_000_000;

/// Analyses an application: returns the plan under which its transaction types keep the guarantee.
///
/// Never fails: what was not analysed is ordered.
pub fn analyze(
    catalog: &Catalog,
    summaries: &[TransactionSummary],
    topology: Topology,
    guarantee: Guarantee,
) -> Plan {
    let options = Options {
        topology,
        guarantee,
        ..Options::default()
    };
    analyze_with(catalog, summaries, &options)
}

/// Analyses an application with weights, limits, a solver and a number of sites.
pub fn analyze_with(
    catalog: &Catalog,
    summaries: &[TransactionSummary],
    options: &Options,
) -> Plan {
    let serializable = options.guarantee == Guarantee::Serializable;
    let seen = unanalysed::with_representative(catalog, summaries);
    let footprint = Footprint::new(catalog, &seen);
    let declared = invariant::collect(&footprint);
    let findings = judge_all(&footprint, &declared, &options.solver);
    let mut needs = match serializable {
        true => every_access(&footprint),
        false => Vec::new(),
    };
    // Under serializability, too: some invariants are evaluated on more than the rows that statements name.
    needs.extend(requirements(&findings, |_| true));
    let mut held = guard::guards(&footprint, &needs);
    let weights = weights(summaries, options);
    let checked = checked_assertions(&footprint, &declared, &findings, serializable);
    let accesses = match serializable {
        false => partition::access::guards(&held),
        true => {
            let of_type = |(checks, _): &(Vec<AssertionCheck>, _)| -> Vec<usize> {
                checks.iter().map(|c| c.invariant).collect()
            };
            let evaluated: Vec<Vec<usize>> = checked.iter().map(of_type).collect();
            partition::access::all(&footprint, &declared, &evaluated)
        }
    };
    let limits = options.limits;
    let conflicts = partition::conflict::detect(&footprint, &accesses, limits.conditions_max);
    let layout = placement::lay_out(
        &footprint,
        &held,
        &conflicts.pairs,
        &weights,
        &LayoutOptions {
            choices_max: limits.choices_max,
            given: options.placements.as_deref(),
            by_other_columns: !serializable && !options.places_by_keys,
            class: &|layout, owner, guards| {
                let (checks, _) = &checked[owner];
                class(
                    (&footprint, &declared, layout),
                    owner,
                    guards,
                    checks,
                    serializable,
                )
            },
        },
    );
    let partitioning = serializable.then(|| {
        let chosen = partition::ChosenParameters {
            parameters: layout.parameters.clone(),
            weights: &weights,
            cost: layout.cost,
            is_exhaustive: layout.is_exhaustive,
            sites: options.sites,
            writes: options.writes,
        };
        partition::classify(&footprint, &accesses, conflicts, chosen)
    });
    if !serializable {
        redundant::remove_redundant(&mut held, |owner, guards| layout.class(owner, guards));
    }
    let results = Results {
        footprint: &footprint,
        declared: &declared,
        findings: &findings,
        layout: &layout,
        serializable,
    };
    let subsets = rsiw::read_subsets(&footprint);
    let entries = checked
        .into_iter()
        .zip(subsets)
        .enumerate()
        .map(|(owner, (checked, subset))| results.entry(owner, &held[owner], checked, subset))
        .collect();
    Plan {
        entries,
        columns: merge::policies(
            &footprint,
            options.topology,
            &computed_columns(&footprint, &findings, &declared),
        ),
        placements: layout.placements,
        placement_reasons: layout.reasons,
        invariants: declared.into_iter().map(|d| d.invariant).collect(),
        partitioning,
    }
}

/// The weight of each type.
fn weights(summaries: &[TransactionSummary], options: &Options) -> Vec<u64> {
    let weight = |summary: &TransactionSummary| {
        let weight = options.weights.get(&summary.name).copied();
        weight.unwrap_or(1).min(WEIGHT_MAX)
    };
    summaries.iter().map(weight).collect()
}

/// Runs the rules and the solver on each invariant, and drops what other guards order already.
fn judge_all<'a>(
    footprint: &'a Footprint<'a>,
    declared: &'a [Declared],
    solver: &Solver,
) -> Vec<Vec<Finding>> {
    let context = Context {
        footprint,
        merge: MergeModel::default(),
        sequenced: sequenced(footprint, declared),
    };
    let mut findings: Vec<Vec<Finding>> =
        declared.iter().map(|d| rule::judge(&context, d)).collect();
    for (found, declared) in findings.iter_mut().zip(declared) {
        if let Some(check) = proof::Check::of(&declared.content) {
            *found = proof::judge(footprint, solver, &check, std::mem::take(found));
        }
    }
    let standing: Vec<Requirement> = requirements(&findings, |f| f.unless_ordered.is_empty());
    let ordering = EstablishedOrder::new(footprint, standing);
    for finding in findings
        .iter_mut()
        .flatten()
        .filter(|f| !f.unless_ordered.is_empty())
    {
        if ordering.covers(&finding.unless_ordered) {
            let because = finding.because.clone();
            let breaks_alone = finding.breaks_alone;
            *finding = Finding::yes(
                finding.owner,
                "mv-update",
                "amounts are added, and each row is moved into the sum once: another guard already orders the calls that move the same row",
            )
            .because(because);
            finding.breaks_alone = breaks_alone;
        }
    }
    findings
}

/// The counters whose numbers some assertion requires to be without gaps.
fn sequenced(footprint: &Footprint<'_>, declared: &[Declared]) -> Vec<(TableId, ColumnIndex)> {
    declared
        .iter()
        .filter_map(|d| match &d.content {
            Content::Assertion(formula) => Some(formula),
            _ => None,
        })
        .flat_map(|formula| &formula.clauses)
        .flat_map(|clause| match &clause.shape {
            assertion::Shape::Extremum(parts) => rule::sequence::counters(footprint, parts),
            _ => Vec::new(),
        })
        .collect()
}

/// The requirements of those findings that pass a test.
fn requirements(findings: &[Vec<Finding>], test: fn(&Finding) -> bool) -> Vec<Requirement> {
    let mut required = Vec::new();
    for (invariant, of_invariant) in findings.iter().enumerate() {
        for finding in of_invariant.iter().filter(|f| test(f)) {
            required.extend(finding.needs.iter().map(|need| Requirement {
                owner: finding.owner,
                invariant: Some(invariant),
                need: need.clone(),
            }));
        }
    }
    required
}

/// A requirement for each row that is read or written and that some type writes.
fn every_access(footprint: &Footprint<'_>) -> Vec<Requirement> {
    footprint
        .actions()
        .filter(|a| footprint.facts(a.access.table).is_written())
        .map(|a| Requirement {
            owner: a.owner,
            invariant: None,
            need: Need::row(footprint, a).reading(a),
        })
        .collect()
}

fn verdicts_of(footprint: &Footprint<'_>, findings: &[Vec<Finding>], owner: usize) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (invariant, of_invariant) in findings.iter().enumerate() {
        for finding in of_invariant.iter().filter(|f| f.owner == owner) {
            verdicts.push(Verdict {
                invariant,
                confluent: finding.confluent,
                rule: finding.rule,
                explanation: finding.explanation.clone(),
                because: finding
                    .because
                    .iter()
                    .map(|t| footprint.type_name(*t).to_owned())
                    .collect(),
            });
        }
    }
    verdicts
}

/// The results of the analysis's steps, from which the plan's entries are made.
struct Results<'a> {
    footprint: &'a Footprint<'a>,
    declared: &'a [Declared],
    findings: &'a [Vec<Finding>],
    layout: &'a Layout,
    serializable: bool,
}

impl Results<'_> {
    /// The plan's entry of a type.
    fn entry(
        &self,
        owner: usize,
        guards: &[KeyedGuard],
        (checks, declared_by_author): (Vec<AssertionCheck>, Vec<usize>),
        read_subset: Option<ReadSubset>,
    ) -> PlanEntry {
        let (footprint, layout) = (self.footprint, self.layout);
        let of = footprint.types[owner].summary;
        let class = class(
            (footprint, self.declared, layout),
            owner,
            guards,
            &checks,
            self.serializable,
        );
        // A type that may do anything breaks every invariant; the report says so once.
        let (verdicts, held) = match of.may_change_any_table {
            true => (Vec::new(), &[][..]),
            false => (verdicts_of(footprint, self.findings, owner), guards),
        };
        let (routing, array) = (layout.routing[owner], layout.arrays[owner]);
        let list = |pick: fn(&KeyedGuard) -> &Vec<StatementId>| {
            let mut statements: Vec<StatementId> = held.iter().flat_map(pick).copied().collect();
            statements.sort_unstable();
            statements.dedup();
            statements
        };
        PlanEntry {
            name: of.name.clone(),
            class,
            routing: routing.iter().map(|(parameter, _)| *parameter).collect(),
            routing_array: array.map(|(parameter, _)| parameter),
            routed_to: routing.or(array).map(|(_, table)| table),
            guards: held.iter().map(|h| h.guard.clone()).collect(),
            deferred: of
                .statements
                .iter()
                .filter(|s| {
                    let update = s.accesses.iter().find(|a| a.role == Role::Update);
                    update.is_some_and(|access| {
                        footprint.is_deferred(s.deferral, access)
                            && !layout.is_apart(footprint.table(access.table))
                    })
                })
                .map(|s| s.id)
                .collect(),
            guarded_reads: list(|h| &h.guard.reads),
            guarded_writes: list(|h| &h.guard.writes),
            checks,
            declared_by_author,
            unknown: of.unknown.clone(),
            may_change_any_table: of.may_change_any_table,
            protocol: if self.serializable {
                "locking"
            } else {
                "ramp-fast"
            },
            verdicts,
            serializable: self.serializable,
            // Without tables, a type that was not analysed changes none.
            read_only: (of.unknown.is_none() || of.only_reads)
                && !of.may_change_any_table
                && of
                    .statements
                    .iter()
                    .all(|s| s.accesses.iter().all(|a| a.role == Role::Read)),
            read_subset: read_subset.filter(|_| !of.may_change_any_table),
        }
    }
}

/// The coordination class of a type.
fn class(
    (footprint, declared, layout): (&Footprint<'_>, &[Declared], &Layout),
    owner: usize,
    guards: &[KeyedGuard],
    checks: &[AssertionCheck],
    serializable: bool,
) -> CoordinationClass {
    let summary = footprint.types[owner].summary;
    // A type that writes nothing keeps all invariants, whatever it reads.
    let harmless = !serializable && summary.only_reads;
    let class = match summary.unknown {
        // A type that was not analysed cannot be called safe, nor local to a partition.
        Some(_) if !harmless => CoordinationClass::Global,
        _ => layout.class(owner, guards),
    };
    class_with_checks(class, checks, declared, &layout.placements)
}

/// For each type, [`assertion_checks`]; none for a type that may do anything.
fn checked_assertions(
    footprint: &Footprint<'_>,
    declared: &[Declared],
    findings: &[Vec<Finding>],
    serializable: bool,
) -> Vec<(Vec<AssertionCheck>, Vec<usize>)> {
    let of_type = |owner: usize| {
        let summary = footprint.types[owner].summary;
        if summary.may_change_any_table {
            return Default::default();
        }
        assertion_checks(summary, declared, findings, owner, serializable)
    };
    (0..footprint.types.len()).map(of_type).collect()
}

/// The assertions that a type could break alone; separately those of them that its author declares it keeps.
fn assertion_checks(
    summary: &TransactionSummary,
    declared: &[Declared],
    findings: &[Vec<Finding>],
    owner: usize,
    serializable: bool,
) -> (Vec<AssertionCheck>, Vec<usize>) {
    let (mut checks, mut declared_by_author) = (Vec::new(), Vec::new());
    for (invariant, (declared, findings)) in declared.iter().zip(findings).enumerate() {
        let Content::Assertion(_) = &declared.content else {
            continue;
        };
        let keeps = summary.keeps.contains(&declared.invariant.name);
        for finding in findings.iter().filter(|f| f.owner == owner) {
            if finding.breaks_alone && keeps {
                declared_by_author.push(invariant);
            } else if finding.breaks_alone {
                checks.push(AssertionCheck {
                    invariant,
                    guarded: serializable || finding.confluent != Confluence::Yes,
                });
            }
        }
    }
    (checks, declared_by_author)
}

/// The class of a type that evaluates assertions before it commits: it is ordered on what it reads for that.
fn class_with_checks(
    class: CoordinationClass,
    checks: &[AssertionCheck],
    declared: &[Declared],
    placements: &[Placement],
) -> CoordinationClass {
    let guarded = checks.iter().filter(|check| check.guarded);
    let tables = guarded.flat_map(|check| match &declared[check.invariant].content {
        // The rows that it changes: what has to be ordered of them are its guards.
        Content::Assertion(formula) if formula.is_checked_by_row => Vec::new(),
        Content::Assertion(formula) => formula.clauses.iter().flat_map(|c| &c.tables).collect(),
        _ => Vec::new(),
    });
    tables.fold(class, |class, table| {
        class.max(match placements[table.index()] {
            Placement::Columns(_) => CoordinationClass::Global,
            Placement::Whole | Placement::Replicated => CoordinationClass::Local,
        })
    })
}

/// The columns that are computed from data that was read, so that their writers are ordered. Columns that the row's
/// owner computes from the row itself are not among them.
fn computed_columns(
    footprint: &Footprint<'_>,
    findings: &[Vec<Finding>],
    declared: &[Declared],
) -> Vec<(TableId, ColumnIndex)> {
    let mut columns = Vec::new();
    for (of_invariant, declared) in findings.iter().zip(declared) {
        let Content::Isolation { table } = declared.content else {
            continue;
        };
        for finding in of_invariant
            .iter()
            .filter(|f| f.confluent != Confluence::Yes)
        {
            let updates = footprint
                .on(finding.owner, table)
                .filter(|a| a.access.role == Role::Update);
            let writes = updates.flat_map(|a| &a.access.writes);
            let computed = writes.filter(|w| rule::isolation::is_computed(&w.class));
            columns.extend(computed.map(|w| (table, w.column)));
        }
    }
    columns
}
