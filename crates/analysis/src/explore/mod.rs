//! Explores small states: what breaks where replicas diverge, and whether plans are safe.
//!
//! Invariant confluence (coordination-avoidance.txt, Definition 6) says that two states that were reached
//! independently from one valid ancestor merge into a valid one. This module tries that: a few rows, a few calls on
//! each of two replicas, merged by the plan's merge policies. The calls run the compiled procedures that the engine
//! runs, and the same SQL evaluates the invariants, so that nothing here depends on the rules.
//!
//! * [`Explorer::attack`] keeps the plan's guards: calls that hold the same guard do not run concurrently, and only
//!   the assertions that the plan checks are evaluated before a call commits. Whatever breaks then is a hole in the
//!   plan, and so in a rule. Tests do this to thousands of applications.
//! * [`Explorer::counterexamples`] removes the guards, and looks for the smallest counterexample of each verdict
//!   that is not `yes`.
//! * [`Explorer::purpose`] removes one guard of one type, and looks for what breaks then.
//!
//! If random search finds no counterexample for a verdict in [`Explorer::counterexamples`], and the solver has an
//! invalid merge, the search goes on among calls from the solver's model.
//!
//! Limits: it samples, so that a search without a result proves nothing; a replica sees a whole state, never a part
//! of one; and isolation is tested by outcomes alone (two calls that lead to a state that neither order of them
//! leads to; if the plan does not order the two for it, in a column that both write).

mod arguments;
mod call;
mod case;
mod committed;
mod concrete;
mod constants;
mod counterexample;
mod failure;
mod generate;
mod guards;
mod merge;
mod minimal;
mod ordering;
mod row_locks;
mod serial;
mod sessions;
mod state;
mod statement;
mod validity;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_sql::Application;
use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::ClientTransaction;
use anabranch_sql::summary::{ColumnWrite, Role, StatementId, WriteClass};
use anabranch_types::{
    ColumnIndex, ColumnSet, Effect, EffectError, ProgramId, RowPrograms, Schema, TableId,
    TableSchema,
};

use crate::assertion::read_assertion;
use crate::footprint::Footprint;
use crate::invariant::{self, Declared, not_null_name};
use crate::plan::{Confluence, Invariant, InvariantKind, MergePolicy, Plan, draws_numbers};
use crate::proof::{Check, invalid_merges};
use call::Call;
use case::{Case, Lost, MergedCase, Outcome, are_ordered};
use generate::{Generator, Source};
use state::{Log, LoggedEffect, State};

pub(crate) use generate::quoted;

pub use committed::{Committed, MergedRows, StoredRow};
pub use counterexample::{Counterexample, ReplicaCall};
pub use failure::{FailureKind, IsolationFailure, SerialOrder};
pub use guards::Purpose;
pub use sessions::{FinalQuery, ReadCommitted, SessionStep, TwoSessions};

/// The most cases tried for one application: with many verdicts, each gets fewer.
const CASES_MAX: usize = 50_000;

/// The fewest cases that a verdict gets; if that is too much for all verdicts, some get none.
const CASES_MIN: u32 = 50;

/// If nothing is found for isolation, one in so many as before is tried with more effort each.
const THOROUGH_SHARE: u32 = 4;

/// How many cases are tried for one that shows in rows what another shows in answers alone.
const ROWS_CASES_MAX: u32 = 200;

/// The most types that are called beside the type under test.
const OTHERS_MAX: usize = 16;

/// How much a search tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Cases tried for each verdict.
    pub cases: u32,
    /// The most calls before replicas diverge.
    pub before_max: u32,
    /// The most calls on each replica.
    pub calls_max: u32,
}

impl Effort {
    /// The effort for the purpose of a guard: there are fewer guards than verdicts, and a reduced plan leaves less
    /// to find.
    pub const FOR_GUARDS: Effort = Effort {
        cases: 6_000,
        before_max: 2,
        calls_max: 2,
    };
}

impl Default for Effort {
    fn default() -> Effort {
        Effort {
            cases: 2_000,
            before_max: 1,
            calls_max: 2,
        }
    }
}

/// Explores an application under its plan.
pub struct Explorer<'a> {
    world: World<'a>,
}

impl<'a> Explorer<'a> {
    /// An explorer for this plan of this application.
    pub fn new(application: &'a Application, plan: &'a Plan) -> Explorer<'a> {
        Explorer {
            world: World::new(application, plan, &[]),
        }
    }

    /// The same, where clients run these transactions of their own ([`anabranch_sql::script::Script::clients`]): they
    /// see the result of each statement.
    #[must_use]
    pub fn with_clients(self, clients: &'a [ClientTransaction]) -> Explorer<'a> {
        Explorer {
            world: World::new(self.world.application, self.world.plan, clients),
        }
    }

    /// Looks for a case in which an invariant breaks although every guard of the plan is kept, and minimises it.
    /// The same seed examines the same cases.
    pub fn attack(&self, seed: u64, effort: Effort) -> Option<Counterexample> {
        let all_types: Vec<usize> = (0..self.world.application.procedures.len()).collect();
        let source = Source::new(&self.world, seed);
        let mut generator = Generator::new(&source, &all_types);
        for _ in 0..effort.cases {
            let Some(tried) = generator.case(&all_types, true, effort) else {
                continue;
            };
            let (calls, logs): (Vec<&Call>, Vec<&Log>) =
                tried.calls.iter().map(|(call, log)| (call, log)).unzip();
            if are_ordered(&self.world, &calls, &logs) {
                continue;
            }
            let Some(met) = MergedCase::new(&self.world, tried.ancestor.clone(), &logs, true)
            else {
                continue;
            };
            if met.violated(&self.world).is_empty() {
                continue;
            }
            let case = tried.case(&self.world);
            if let Outcome::Broken(violated) = case.run(&self.world, true)
                && let Some(invariant) = violated.first()
            {
                let still = |case: &Case| case.breaks(&self.world, invariant, true);
                let case = minimal::minimal(&self.world, &case, true, still);
                return counterexample::counterexample(&self.world, &case, invariant, true);
            }
        }
        None
    }

    /// The counterexamples that [`Explorer::search`] finds.
    pub fn counterexamples(&self, seed: u64, effort: Effort) -> Vec<Counterexample> {
        self.search(seed, effort).found
    }

    /// The smallest case found in which a transaction type (an index into the plan's entries) breaks an invariant (an
    /// index into the plan's) without guards, together with the types that the verdict names.
    pub fn counterexample(
        &self,
        owner: usize,
        invariant: usize,
        seed: u64,
        effort: Effort,
    ) -> Option<Counterexample> {
        let plan = self.world.plan;
        let named = &plan.entries[owner].verdict(invariant)?.because;
        let procedures = self.world.application.procedures.len();
        let entries = plan.entries.iter().take(procedures);
        let mut types: Vec<usize> = (0..procedures)
            .zip(entries)
            .filter(|(at, entry)| *at != owner && named.contains(&entry.name))
            .map(|(at, _)| at)
            .collect();
        types.truncate(OTHERS_MAX);
        types.insert(0, owner);
        let sources = self.sources(seed);
        let invariant = &plan.invariants[invariant];
        self.found(&sources, effort, invariant, owner, &types).ok()
    }

    /// The sources of cases: a quick one, and a thorough one.
    fn sources(&self, seed: u64) -> [Source<'_>; 2] {
        let source = || Source::new(&self.world, seed);
        [source(), source().thorough()]
    }

    /// The smallest case found in which a type, with others, breaks an invariant. For isolation a second search
    /// makes calls that use many keys, and rows that others make.
    fn found(
        &self,
        [quick, thorough]: &[Source<'_>; 2],
        effort: Effort,
        invariant: &Invariant,
        owner: usize,
        types: &[usize],
    ) -> Result<Counterexample, Miss> {
        let generator = Generator::new(quick, types);
        let miss = match self.breaks(generator, effort, invariant, owner, types) {
            Ok(found) => return Ok(found),
            Err(miss) => miss,
        };
        let Some(table) = self.world.isolated_table(&invariant.name) else {
            return Err(miss);
        };
        if !miss.others.is_empty() {
            return Err(miss);
        }
        let makers = self.world.inserters(table);
        let generator = Generator::new(thorough, types).after(types, makers);
        let effort = Effort {
            cases: effort.cases / THOROUGH_SHARE,
            before_max: 2,
            ..effort
        };
        let again = self.breaks(generator, effort, invariant, owner, types);
        again.map_err(|again| miss.and(again))
    }

    /// For each invariant that some transaction type does not keep without coordination, and each
    /// such type, the smallest case found in which it breaks without guards. In order of invariants,
    /// then of types; one case that shows several types is listed once.
    pub fn search(&self, seed: u64, effort: Effort) -> Search {
        let plan = self.world.plan;
        // Types that were not analysed cannot be called.
        let procedures = self.world.application.procedures.len();
        let mut asked: Vec<(usize, usize)> = Vec::new();
        for (owner, entry) in plan.entries.iter().enumerate().take(procedures) {
            let needing = entry.verdicts.iter();
            let needing = needing.filter(|verdict| verdict.confluent != Confluence::Yes);
            asked.extend(needing.map(|verdict| (verdict.invariant, owner)));
        }
        asked.sort_unstable();
        asked.dedup();
        let mut search = Search {
            asked: asked.len(),
            searched: asked.len(),
            cases: effort.cases,
            ..Search::default()
        };
        let affordable = CASES_MAX / CASES_MIN as usize;
        if asked.len() > affordable {
            // Each invariant gets a first turn before any gets a second.
            let mut turns: BTreeMap<usize, usize> = BTreeMap::new();
            let mut ranked: Vec<(usize, (usize, usize))> = asked
                .iter()
                .map(|one| {
                    let turn = turns.entry(one.0).or_default();
                    *turn += 1;
                    (*turn, *one)
                })
                .collect();
            ranked.sort_unstable();
            ranked.truncate(affordable);
            asked = ranked.into_iter().map(|(_, one)| one).collect();
            asked.sort_unstable();
            search.searched = asked.len();
            let looked_at: BTreeSet<usize> =
                asked.iter().map(|(invariant, _)| *invariant).collect();
            let left = turns
                .into_keys()
                .filter(|invariant| !looked_at.contains(invariant));
            search.unsearched = left.map(|i| plan.invariants[i].name.clone()).collect();
        }
        let share = u32::try_from(CASES_MAX / asked.len().max(1)).unwrap_or(u32::MAX);
        search.cases = effort.cases.min(share);
        let effort = Effort {
            cases: search.cases,
            ..effort
        };
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, entry) in plan.entries.iter().enumerate().take(procedures) {
            places.entry(&entry.name).or_insert(at);
        }
        let sources = self.sources(seed);
        let footprint = Footprint::new(self.world.catalog(), self.world.application.summaries());
        let declared = invariant::collect(&footprint);
        let mut shown: BTreeSet<(usize, usize)> = BTreeSet::new();
        let mut misses: BTreeMap<(usize, usize), NotShownReason> = BTreeMap::new();
        for (index, owner) in asked {
            let Some(verdict) = plan.entries[owner].verdict(index) else {
                continue;
            };
            if shown.contains(&(index, owner)) {
                continue;
            }
            let others = verdict.because.iter();
            let mut types: Vec<usize> = others
                .filter_map(|n| places.get(n.as_str()).copied())
                .collect();
            types.retain(|of| *of != owner);
            types.truncate(OTHERS_MAX);
            types.insert(0, owner);
            let invariant = &plan.invariants[index];
            let found = self
                .found(&sources, effort, invariant, owner, &types)
                .or_else(|miss| {
                    let solved = self.solved(&sources[0], &footprint, &declared, index, owner);
                    if solved == Some(None) && !search.unconfirmed.contains(&invariant.name) {
                        search.unconfirmed.push(invariant.name.clone());
                    }
                    solved.flatten().ok_or(miss)
                });
            match found {
                Ok(found) => {
                    shown.extend(found.calls.iter().map(|call| (index, call.procedure)));
                    search.found.push(found);
                }
                Err(miss) => {
                    misses.insert((index, owner), miss.reason());
                }
            }
        }
        search.not_shown = self.not_shown(&shown, &mut misses);
        let found = search.found.iter().map(|found| &found.invariant);
        let found: BTreeSet<&String> = found.collect();
        search.unconfirmed.retain(|name| !found.contains(name));
        search
    }

    /// The verdicts that are not `yes` and that no counterexample shows, in order of invariants, then of types.
    fn not_shown(
        &self,
        shown: &BTreeSet<(usize, usize)>,
        misses: &mut BTreeMap<(usize, usize), NotShownReason>,
    ) -> Vec<NotShown> {
        let plan = self.world.plan;
        let mut needing: Vec<(usize, usize)> = Vec::new();
        for (owner, entry) in plan.entries.iter().enumerate() {
            let verdicts = entry.verdicts.iter();
            let verdicts = verdicts.filter(|verdict| verdict.confluent != Confluence::Yes);
            needing.extend(verdicts.map(|verdict| (verdict.invariant, owner)));
        }
        needing.sort_unstable();
        needing.retain(|one| !shown.contains(one));
        let reason = |(index, owner): &(usize, usize)| {
            let entry = &plan.entries[*owner];
            let reason = match (misses.remove(&(*index, *owner)), &entry.unknown) {
                (Some(reason), _) => reason,
                (None, Some(why)) => NotShownReason::NotAnalysed(why.clone()),
                (None, None) => NotShownReason::Limit,
            };
            NotShown {
                invariant: plan.invariants[*index].name.clone(),
                transaction: entry.name.clone(),
                reason,
            }
        };
        needing.iter().map(reason).collect()
    }

    /// The smallest case in which a type breaks an invariant, from the solver's invalid merges; `None` if it has
    /// none, or is not asked.
    fn solved<'f>(
        &self,
        source: &Source<'_>,
        footprint: &'f Footprint<'f>,
        declared: &'f [Declared],
        index: usize,
        owner: usize,
    ) -> Option<Option<Counterexample>> {
        let world = &self.world;
        let declared = declared.get(index)?;
        let name = &world.plan.invariants[index].name;
        if declared.invariant.name != *name {
            return None;
        }
        let check = Check::of(&declared.content)?;
        let numbers = concrete::numbers(world, check.table);
        let mut found = None;
        let has_one = invalid_merges(footprint, &check, owner, &numbers, |merge| {
            let mut types: Vec<usize> = merge.calls.iter().map(|call| call.owner).collect();
            types.sort_unstable();
            types.dedup();
            if types
                .iter()
                .any(|of| *of >= world.application.procedures.len())
            {
                return false;
            }
            let mut generator = Generator::new(source, &types);
            found = (0..concrete::CASES_MAX).find_map(|_| {
                let case = generator.made(merge);
                if !case.breaks(world, name, false) {
                    return None;
                }
                let least =
                    minimal::minimal(world, &case, false, |case| case.breaks(world, name, false));
                let shows = least.involves(owner).then_some(least)?;
                counterexample::counterexample(world, &shows, name, false)
            });
            found.is_some()
        });
        has_one.then_some(found)
    }

    /// The smallest case found in which a type, with others, breaks an invariant; or why there is none.
    fn breaks(
        &self,
        mut generator: Generator<'_>,
        effort: Effort,
        invariant: &Invariant,
        owner: usize,
        types: &[usize],
    ) -> Result<Counterexample, Miss> {
        let world = &self.world;
        let name = &invariant.name;
        let isolates = invariant.kind == InvariantKind::NoLostUpdate;
        // Isolation is about one call on each side.
        let effort = match isolates {
            true => Effort {
                calls_max: 1,
                ..effort
            },
            false => effort,
        };
        let mut tried_pairs = 0;
        let mut others: BTreeMap<String, u32> = BTreeMap::new();
        // Answers alone are a weaker example than rows: a few more cases are tried for rows.
        let mut by_answers: Option<Case> = None;
        let mut patience = ROWS_CASES_MAX;
        for _ in 0..effort.cases {
            if by_answers.is_some() {
                patience -= 1;
                if patience == 0 {
                    break;
                }
            }
            let Some(tried) = generator.case(types, false, effort) else {
                continue;
            };
            let (calls, logs): (Vec<&Call>, Vec<&Log>) =
                tried.calls.iter().map(|(call, log)| (call, log)).unzip();
            if !calls.iter().any(|call| call.procedure == owner) {
                continue;
            }
            tried_pairs += 1;
            let Some(met) = MergedCase::new(world, tried.ancestor.clone(), &logs, false) else {
                continue;
            };
            let broken = match isolates {
                true => met.loses(world, name, &calls),
                false => match met.shows(world, name, &calls) {
                    true => Some(Lost::Rows),
                    false => None,
                },
            };
            let by_rows = match broken {
                Some(Lost::Rows) => true,
                Some(Lost::Answers) if by_answers.is_none() => false,
                Some(Lost::Violates(other)) => {
                    *others.entry(other).or_default() += 1;
                    continue;
                }
                _ => continue,
            };
            let case = tried.case(world).with_ancestor_rows(world, false);
            let Some(case) = case.filter(|case| case.breaks(world, name, false)) else {
                continue;
            };
            if !by_rows {
                by_answers = Some(case);
                continue;
            }
            if let Some(found) = self.least(&case, name, owner) {
                return Ok(found);
            }
        }
        let by_answers = by_answers.and_then(|case| self.least(&case, name, owner));
        by_answers.ok_or(Miss {
            cases: effort.cases,
            pairs: tried_pairs,
            others,
        })
    }

    /// The smallest case that breaks an invariant, from one that does; `None` if it does without the type `owner`.
    fn least(&self, case: &Case, name: &str, owner: usize) -> Option<Counterexample> {
        let world = &self.world;
        let is_by_rows = case.loses(world, name) == Lost::Rows;
        let least = minimal::minimal(world, case, false, |case| match is_by_rows {
            true => case.loses(world, name) == Lost::Rows,
            false => case.breaks(world, name, false),
        });
        match least.involves(owner) {
            true => counterexample::counterexample(world, &least, name, false),
            false => None,
        }
    }
}

/// What a search without a result has tried.
struct Miss {
    cases: u32,
    /// Cases in which all calls succeeded where they ran.
    pairs: u32,
    /// The other invariants that broke instead, for which the plan orders the calls, and in how many cases.
    others: BTreeMap<String, u32>,
}

/// A verdict that is not `yes` and has no counterexample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotShown {
    /// The invariant.
    pub invariant: String,
    /// The transaction type.
    pub transaction: String,
    /// Why there is none.
    pub reason: NotShownReason,
}

/// Why a verdict has no counterexample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotShownReason {
    /// The type was not analysed, for this reason: it cannot be called.
    NotAnalysed(String),
    /// The limits ended the search before this verdict.
    Limit,
    /// In none of this many cases did all calls succeed: no valid rows were found, or the calls are refused or write
    /// nothing on them.
    NoCalls(u32),
    /// Calls that fail to be isolated were found, but each of them also breaks this invariant, for which they are
    /// ordered.
    OtherInvariant(String),
    /// Nothing broke.
    NothingBroke {
        /// Cases tried.
        cases: u32,
        /// Those in which all calls succeeded.
        ran: u32,
    },
}

impl std::fmt::Display for NotShownReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotShownReason::NotAnalysed(why) => {
                write!(f, "it was not analysed, so it cannot be called: {why}")
            }
            NotShownReason::Limit => f.write_str("not searched, to bound the time"),
            NotShownReason::NoCalls(cases) => write!(
                f,
                "in none of {cases} cases did the calls succeed: no valid rows were found, or the calls are refused \
                 or write nothing on them"
            ),
            NotShownReason::OtherInvariant(name) => write!(
                f,
                "what was found breaks {name} as well, for which the calls are ordered"
            ),
            NotShownReason::NothingBroke { cases, ran } => write!(
                f,
                "the calls ran in {ran} of {cases} cases, and nothing broke"
            ),
        }
    }
}

impl Miss {
    /// Both of two searches.
    fn and(mut self, other: Miss) -> Miss {
        self.cases += other.cases;
        self.pairs += other.pairs;
        for (name, count) in other.others {
            *self.others.entry(name).or_default() += count;
        }
        self
    }

    fn reason(&self) -> NotShownReason {
        let most = self.others.iter().max_by_key(|(_, count)| **count);
        match (self.pairs, most) {
            (0, _) => NotShownReason::NoCalls(self.cases),
            (_, Some((name, _))) => NotShownReason::OtherInvariant(name.clone()),
            (ran, None) => NotShownReason::NothingBroke {
                cases: self.cases,
                ran,
            },
        }
    }
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// The counterexamples.
    pub found: Vec<Counterexample>,
    /// How many verdicts are not `yes`.
    pub asked: usize,
    /// For how many of them a counterexample was searched.
    pub searched: usize,
    /// The most cases tried for one verdict.
    pub cases: u32,
    /// The invariants for which no search was made.
    pub unsearched: Vec<String>,
    /// The invariants for which the solver has an invalid merge, but no calls were found that lead to it.
    pub unconfirmed: Vec<String>,
    /// The verdicts without a counterexample, each with the reason.
    pub not_shown: Vec<NotShown>,
}

/// The environment that cases run in: application, plan and compiled invariants.
pub(crate) struct World<'a> {
    application: &'a Application,
    plan: &'a Plan,
    programs: Arc<dyn RowPrograms>,
    policies: BTreeMap<(u16, u16), MergePolicy>,
    statements: BTreeMap<StatementId, StatementFacts>,
    /// The coordination graph: two types, the lower first, and the invariant of the edge.
    edges: BTreeSet<(usize, usize, &'a str)>,
    /// The edges for isolation, of any table.
    isolating: BTreeSet<(usize, usize)>,
    /// The tables, parents before children.
    order: Vec<TableId>,
    /// The application's assertions, in order.
    assertions: Vec<KnownAssertion>,
    /// The transactions that clients run.
    clients: &'a [ClientTransaction],
    /// Those of them that can be called, by procedure.
    client_of: BTreeMap<usize, &'a ClientTransaction>,
    /// Queries after which a client writes nothing if they find a row.
    find_none: BTreeSet<StatementId>,
    /// Whether `keeps` directives are ignored: a call that violates an assertion aborts, whether or not the plan
    /// checks for it.
    strict: bool,
}

/// An assertion.
#[derive(Clone, Debug)]
struct KnownAssertion {
    /// The tables that it reads.
    tables: Vec<TableId>,
    /// Whether it holds if these are empty.
    holds_empty: bool,
}

/// A statement.
#[derive(Clone, Debug, Default)]
struct StatementFacts {
    deferred: bool,
    /// Whether its result is a number that an owner draws at commit.
    numbers: bool,
    /// The columns that it updates.
    updates: Vec<(TableId, Vec<ColumnIndex>)>,
    /// Those of them that it computes from the row that it reads.
    computed: Vec<(TableId, ColumnIndex)>,
}

impl<'a> World<'a> {
    fn new(
        application: &'a Application,
        plan: &'a Plan,
        clients: &'a [ClientTransaction],
    ) -> World<'a> {
        let mut statements: BTreeMap<StatementId, StatementFacts> = BTreeMap::new();
        for (entry, summary) in plan.entries.iter().zip(application.summaries()) {
            for statement in &summary.statements {
                let site = statements.entry(statement.id).or_default();
                site.deferred = entry.deferred.contains(&statement.id);
                site.numbers = draws_numbers(statement);
                for update in statement.accesses.iter().filter(|a| a.role == Role::Update) {
                    let columns = update.writes.iter().map(|w| w.column);
                    site.updates.push((update.table, columns.collect()));
                    let of_row = |w: &&ColumnWrite| {
                        matches!(w.class, WriteClass::FromRow | WriteClass::Add { .. })
                    };
                    let computed = update.writes.iter().filter(of_row);
                    site.computed
                        .extend(computed.map(|w| (update.table, w.column)));
                }
            }
        }
        let merges = plan.columns.iter();
        let mut edges = BTreeSet::new();
        let mut isolating = BTreeSet::new();
        for edge in plan.edges() {
            let (one, other) = edge.ends;
            let mut kinds = edge.invariants.keys().map(|i| plan.invariants[*i].kind);
            if kinds.any(|kind| kind == InvariantKind::NoLostUpdate) {
                isolating.insert(edge.ends);
            }
            let names = edge
                .invariants
                .keys()
                .map(|i| plan.invariants[*i].name.as_str());
            edges.extend(names.map(|name| (one, other, name)));
        }
        let mut world = World {
            application,
            plan,
            programs: application.programs(),
            policies: merges
                .map(|c| ((c.table.0, c.column.0), c.policy))
                .collect(),
            statements,
            edges,
            isolating,
            order: generate::in_order(application.catalog()),
            assertions: Vec::new(),
            clients,
            client_of: BTreeMap::new(),
            find_none: BTreeSet::new(),
            strict: false,
        };
        world.add_clients();
        let declared = application.catalog().assertions.iter();
        let mut known = Vec::new();
        for (assertion, declared) in application.assertions().iter().zip(declared) {
            let formula = read_assertion(application.catalog(), &declared.expression);
            let clauses = formula.clauses.iter();
            let empty = State::default();
            known.push(KnownAssertion {
                tables: clauses.flat_map(|clause| &clause.tables).copied().collect(),
                holds_empty: validity::holds(application.schema(), assertion, &empty),
            });
        }
        world.assertions = known;
        world
    }

    /// Finds the procedures of the clients' transactions.
    fn add_clients(&mut self) {
        let places: BTreeMap<&str, usize> = (self.application.procedures.iter().enumerate())
            .map(|(place, procedure)| (procedure.name(), place))
            .collect();
        for client in self.clients {
            let Some(place) = places.get(client.name.as_str()).copied() else {
                continue;
            };
            self.client_of.insert(place, client);
            for written in client.statements().iter().filter(|s| s.finds_none) {
                let statements = &self.application.summaries()[place].statements;
                let own = statements.iter().filter(|s| written.covers(s.span));
                let queries = own.filter(|s| s.accesses.iter().all(|a| a.role == Role::Read));
                self.find_none.extend(queries.map(|statement| statement.id));
            }
        }
    }

    /// Whether the plan orders calls of two types for this invariant.
    fn has_edge(&self, one: usize, other: usize, invariant: &str) -> bool {
        let ends = (one.min(other), one.max(other), invariant);
        self.edges.contains(&ends)
    }

    /// Whether the plan orders calls of two types for the sake of isolation.
    fn isolates(&self, one: usize, other: usize) -> bool {
        self.isolating.contains(&(one.min(other), one.max(other)))
    }

    fn schema(&self) -> &'a Schema {
        self.application.schema()
    }

    fn catalog(&self) -> &'a Catalog {
        self.application.catalog()
    }

    /// Whether an UPDATE is deferred to the row's owner. Without the plan's guards no owner draws numbers at
    /// commit.
    fn defers(&self, statement: StatementId, planned: bool) -> bool {
        self.statements
            .get(&statement)
            .is_some_and(|site| site.deferred && (planned || !site.numbers))
    }

    /// Whether a statement computed a column from the row where it ran, so that the value fits that row alone: the
    /// update is not deferred, and a node refuses it once the row has changed.
    fn is_computed_from_found_row(
        &self,
        done: &LoggedEffect,
        table: TableId,
        column: ColumnIndex,
    ) -> bool {
        self.statements
            .get(&done.statement)
            .is_some_and(|site| !site.deferred && site.computed.contains(&(table, column)))
    }

    /// Whether a row's owner computes a column by this program: where the policy says so, and for an update that
    /// computes from the row a column that other types write from data they have read.
    fn is_owned(&self, program: ProgramId, table: TableId, column: ColumnIndex) -> bool {
        match self.policy(table, column) {
            MergePolicy::OwnerOrder => true,
            MergePolicy::Guarded => !self.programs.assigned(program).contains(column),
            MergePolicy::Immutable | MergePolicy::Counter | MergePolicy::LastWriter => false,
        }
    }

    fn policy(&self, table: TableId, column: ColumnIndex) -> MergePolicy {
        self.policies
            .get(&(table.0, column.0))
            .copied()
            .unwrap_or(MergePolicy::LastWriter)
    }

    /// Whether a call aborts that leaves a state that violates this: constraints are checked where rows are
    /// written, assertions if the plan says so.
    fn is_checked(&self, procedure: usize, invariant: &str) -> bool {
        let mut assertions = self.application.assertions().iter();
        let checks = &self.plan.entries[procedure].checks;
        self.strict
            || !assertions.any(|of| of.name() == invariant)
            || checks
                .iter()
                .any(|check| self.plan.invariants[check.invariant].name == invariant)
    }

    /// The columns that an effect has written.
    fn written(&self, done: &LoggedEffect, table: &TableSchema) -> Vec<ColumnIndex> {
        let declared = self
            .statements
            .get(&done.statement)
            .into_iter()
            .flat_map(|site| &site.updates)
            .filter(|(of, _)| *of == table.id)
            .flat_map(|(_, columns)| columns);
        let mut columns: Vec<ColumnIndex> = declared.copied().collect();
        let all = || (0..table.columns.len()).map(|c| ColumnIndex(c as u16));
        if let Effect::Update { program, .. } = &done.effect
            && table.columns.len() <= usize::from(ColumnSet::EXACT_MAX)
        {
            // If its statement is not known, the program says what it assigns.
            let assigned = self.programs.assigned(*program);
            columns.extend(all().filter(|c| assigned.contains(*c)));
        }
        if let (Some(before), Some(after)) = (&done.before, &done.after) {
            // Writes of a foreign key's action are in no statement.
            columns.extend(
                all().filter(|c| before.get(&table.layout, *c) != after.get(&table.layout, *c)),
            );
        }
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    fn primary_key_name(&self, table: TableId) -> String {
        let declared = &self.catalog().tables[table.index()];
        let default = || format!("{}_pkey", self.schema().table(table).name);
        declared.primary_key_name.clone().unwrap_or_else(default)
    }

    /// The types that insert into a table and can be called.
    fn inserters(&self, table: TableId) -> Vec<usize> {
        let summaries = self.application.summaries().iter().enumerate();
        let inserts = summaries.filter(|(_, summary)| {
            let mut accesses = summary.statements.iter().flat_map(|s| &s.accesses);
            accesses.any(|access| access.table == table && access.role == Role::Insert)
        });
        let runs = self.application.procedures.len();
        let owners = inserts.map(|(owner, _)| owner).filter(|of| *of < runs);
        owners.take(OTHERS_MAX).collect()
    }

    /// The table of an invariant of isolation.
    fn isolated_table(&self, invariant: &str) -> Option<TableId> {
        let name = invariant.strip_prefix("isolation(")?.strip_suffix(')')?;
        Some(self.catalog().table_by_name(name)?.id)
    }

    /// Whether a routine is called by SELECT.
    fn is_function(&self, name: &str) -> bool {
        let catalog = self.catalog();
        let declared = catalog.procedures.iter().find(|p| p.name == name);
        let text = declared.and_then(|p| {
            let file = catalog.files.get(usize::from(p.span.file))?;
            file.text.get(p.span.start as usize..p.span.end as usize)
        });
        let mut words = text.unwrap_or_default().split_whitespace();
        words.find_map(|w| match w.to_ascii_lowercase().as_str() {
            "function" => Some(true),
            "procedure" => Some(false),
            _ => None,
        }) == Some(true)
    }

    /// The invariant for which an owner refuses an update; `None` for another error.
    fn refused(&self, table: TableId, error: &EffectError) -> Option<String> {
        match error.code {
            "23502" => Some(not_null_name(&self.schema().table(table).name)),
            _ => error.constraint.clone(),
        }
    }
}
