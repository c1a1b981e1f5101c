//! Statements of clients that write, under a plan: transaction types that are not declared.
//!
//! A plan is made for a closed world: it knows every transaction type. A client's statement is one more. When its shape
//! is first seen, [`UndeclaredTypes::admit`] analyses the application together with it and with all undeclared types
//! that run already. The stores rely on the plan, and calls of declared types run while this happens, so:
//!
//! 1. **An undeclared type has the greatest entry.** It validates everything that it reads, protects everything that it
//!    writes, defers nothing, and evaluates each assertion that it could violate alone on rows that it validates.
//!    Whatever a later analysis requires of it, it does already. So its entry never changes.
//! 2. **The entries of declared types stand.** If the analysis requires more of one than it does (a guard, a check, a
//!    row read before it is written), or another placement of a table, the statement is refused ([`Refusal`]).
//!
//! By 1 and 2 every transaction that runs does at least what the plan of all types together requires of it.
//!
//! From an undeclared statement's vote to its commit, a range that it has read excludes every write of a row in it,
//! also an unguarded insert of a declared type. Two undeclared statements are always ordered: all their reads and
//! writes are guarded.
//!
//! Nothing is forgotten: a client may hold an entry for ever, and each admission relies on all before it. Constants
//! are left out of shapes where that admits the statement, so that clients that write values into their texts do not
//! use up the [`TYPES_MAX`] types.
//!
//! A client may accept what 2 requires of declared types: then all nodes change to that plan ([`acceptance`]).
//!
//! A statement that only reads needs no entry: it sees all of a transaction's effects or none, and no invariant
//! depends on it.

pub mod acceptance;
mod block;
mod entry;
mod refusal;
mod shape;

pub use acceptance::Acceptance;
pub use entry::StatementEntry;
pub use refusal::Refusal;

pub use crate::accepted::{AcceptedShape, AcceptedStatement};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_analysis::explore::{Counterexample, Effort, Explorer};
use anabranch_analysis::plan::{Confluence, PlanEntry};
use anabranch_analysis::{Guarantee, Options, Plan, analyze_with};
use anabranch_sql::source::SourceFile;
use anabranch_sql::summary::TransactionSummary;
use anabranch_sql::{Application, CompiledStatement};
use anabranch_types::{Placement, TableId};

use crate::application::{Check, PlannedApplication, tables_losing_rows};
use crate::code::StatementCode;

/// The most undeclared types that are kept.
pub const TYPES_MAX: usize = 1_000;

/// The most refusals that are remembered, so that a statement that is sent again is not analysed again.
const REFUSALS_MAX: usize = 1_000;

/// How much the search for a refusal's counterexample tries.
const EFFORT: Effort = Effort {
    cases: 400,
    before_max: 1,
    calls_max: 2,
};

/// A statement of a block: its text, and what runs for it.
pub type BlockStatement = (Arc<str>, StatementCode);

/// The undeclared transaction types of a cluster. Shared by all its threads.
pub struct UndeclaredTypes {
    planned: Arc<PlannedApplication>,
    options: Options,
    known: Mutex<Known>,
}

#[derive(Clone, Default)]
struct Known {
    /// The admitted types, in the order of admission.
    types: Vec<TransactionSummary>,
    /// Their entries, by shape.
    entries: BTreeMap<String, Arc<StatementEntry>>,
    /// What was refused, by shape.
    refusals: BTreeMap<String, Refusal>,
    /// The entries of blocks, by the shapes of their statements.
    blocks: Vec<(BTreeSet<String>, Arc<StatementEntry>)>,
}

impl UndeclaredTypes {
    /// The undeclared types that the plan knows, which are those that clients have accepted. `options` are those of the
    /// analysis that made the plan.
    pub fn new(planned: Arc<PlannedApplication>, options: Options) -> UndeclaredTypes {
        let router = &planned.execution.router;
        let tables = planned.schema().tables.iter();
        let placements: Vec<Placement> = tables
            .map(|table| router.placement(table.id).clone())
            .collect();
        let options = Options {
            guarantee: Guarantee::Invariants,
            placements: Some(placements),
            places_by_keys: false,
            ..options
        };
        let known = Mutex::new(Known::of_plan(&planned));
        UndeclaredTypes {
            planned,
            options,
            known,
        }
    }

    /// The number of undeclared types that are kept.
    pub fn len(&self) -> usize {
        self.lock().types.len()
    }

    /// Whether no undeclared type is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry of a client's statement with this text. Analyses it if its shape is new: that takes 1 ms to 1 s, and
    /// other admissions wait.
    ///
    /// # Errors
    /// When a declared type would need another entry, a table another placement, or [`TYPES_MAX`] is reached.
    pub fn admit(
        &self,
        text: &str,
        statement: &CompiledStatement,
    ) -> Result<Arc<StatementEntry>, Box<Refusal>> {
        let exact = statement.summary(&shape::title(text));
        if exact.only_reads {
            return Ok(Arc::new(StatementEntry::reader()));
        }
        let general = shape::without_constants(&exact);
        let mut known = self.lock();
        let exact_shape = shape::shape(&exact);
        for shape in [&shape::shape(&general), &exact_shape] {
            if let Some(entry) = known.entries.get(shape) {
                return Ok(Arc::clone(entry));
            }
        }
        if let Some(refusal) = known.refusals.get(&exact_shape) {
            return Err(Box::new(refusal.clone()));
        }
        if known.types.len() >= TYPES_MAX {
            return Err(Box::new(Refusal::too_many(TYPES_MAX)));
        }
        let judged = match self.judge(&known.types, &general) {
            Ok(entry) => Ok((general, entry)),
            Err(_) => match self.judge(&known.types, &exact) {
                Ok(entry) => Ok((exact, entry)),
                Err(objection) => Err(objection),
            },
        };
        match judged {
            Ok((summary, entry)) => {
                let entry = Arc::new(entry);
                known
                    .entries
                    .insert(shape::shape(&summary), Arc::clone(&entry));
                let name = unique(&summary.name, &known.types);
                known.types.push(TransactionSummary { name, ..summary });
                Ok(entry)
            }
            Err(objection) => {
                let refusal = self.refusal(&objection, text, statement);
                if known.refusals.len() >= REFUSALS_MAX {
                    known.refusals.clear();
                }
                known.refusals.insert(exact_shape, refusal.clone());
                Err(Box::new(refusal))
            }
        }
    }

    /// The entry of a block that has run these statements (in any order, repeated or not), the last one included. A known
    /// block that has them all serves. Otherwise as [`UndeclaredTypes::admit`].
    ///
    /// # Errors
    /// As [`UndeclaredTypes::admit`].
    pub fn admit_block(
        &self,
        statements: &[BlockStatement],
    ) -> Result<Arc<StatementEntry>, Box<Refusal>> {
        let parts = statements.iter().filter_map(|(text, code)| match code {
            StatementCode::Statement(statement) => Some(statement.summary(&shape::title(text))),
            StatementCode::Procedure(number) => {
                Some(self.planned.application.summaries()[*number].clone())
            }
            // What it reads, other statements have written.
            StatementCode::CheckConstraints(_) => None,
        });
        let exact: Vec<TransactionSummary> = parts.collect();
        let general: Vec<TransactionSummary> = exact.iter().map(shape::without_constants).collect();
        let shapes = |parts: &[TransactionSummary]| -> BTreeSet<String> {
            parts.iter().map(shape::shape).collect()
        };
        let mut known = self.lock();
        for wanted in [shapes(&general), shapes(&exact)] {
            let mut blocks = known.blocks.iter();
            if let Some((_, entry)) = blocks.find(|(of, _)| of.is_superset(&wanted)) {
                return Ok(Arc::clone(entry));
            }
        }
        if known.types.len() >= TYPES_MAX {
            return Err(Box::new(Refusal::too_many(TYPES_MAX)));
        }
        let mut objection = None;
        for parts in [&general, &exact] {
            let merged = block::merge(parts);
            match self.judge(&known.types, &merged) {
                Ok(entry) => {
                    let entry = Arc::new(entry);
                    let name = unique(&merged.name, &known.types);
                    known.types.push(TransactionSummary { name, ..merged });
                    known.blocks.push((shapes(parts), Arc::clone(&entry)));
                    return Ok(entry);
                }
                Err(found) => objection = Some(found),
            }
        }
        drop(known);
        // The refusal of one of its statements says more.
        for (text, code) in statements {
            if let StatementCode::Statement(statement) = code {
                self.admit(text, statement)?;
            }
        }
        let refusal = match &objection {
            Some(objection) => self.plain_refusal(objection),
            None => Refusal::too_many(TYPES_MAX),
        };
        Err(Box::new(refusal))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        // Each change of the state is complete before anything can panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Analyses the application with the admitted types and a new one.
    fn judge(
        &self,
        admitted: &[TransactionSummary],
        new: &TransactionSummary,
    ) -> Result<StatementEntry, Objection> {
        let application = &self.planned.application;
        let declared = application.summaries();
        let mut types = declared.to_vec();
        types.extend(admitted.iter().cloned());
        types.push(TransactionSummary {
            name: unique(&new.name, &types),
            ..new.clone()
        });
        let plan = analyze_with(application.catalog(), &types, &self.options);
        self.object(&plan, &types)?;
        let own = types.len() - 1;
        Ok(entry(application, &plan, (&types, own)))
    }

    /// What the plan of all types together requires that does not stand.
    fn object(&self, plan: &Plan, types: &[TransactionSummary]) -> Result<(), Objection> {
        self.object_to_placements(plan)?;
        let declared = self.planned.application.summaries().len();
        let before = &self.planned.plan;
        for (old, new) in before.entries.iter().zip(&plan.entries).take(declared) {
            if let Some(invariant) = changed((before, old), (plan, new)) {
                let verdict = invariant.and_then(|invariant| new.verdict(invariant));
                return Err(Objection::Changed {
                    transaction: old.name.clone(),
                    invariant: invariant.map(|of| plan.invariants[of].name.clone()),
                    explanation: verdict.map(|verdict| verdict.explanation.clone()),
                });
            }
        }
        let loses = tables_losing_rows(&self.planned.application, types);
        for table in &self.planned.schema().tables {
            if self.planned.execution.is_permanent(table.id) && loses[table.id.index()] {
                return Err(Objection::NotPermanent(table.id));
            }
        }
        Ok(())
    }

    /// Objects to a plan under which rows would have to be elsewhere.
    fn object_to_placements(&self, plan: &Plan) -> Result<(), Objection> {
        let given = self.options.placements.as_deref().unwrap_or_default();
        let tables = self.planned.schema().tables.iter();
        for (table, (before, now)) in tables.zip(given.iter().zip(&plan.placements)) {
            match before {
                _ if before == now => {}
                // No known type writes it, and its rows stay where they are.
                Placement::Columns(_) | Placement::Whole if *now == Placement::Replicated => {}
                Placement::Replicated => return Err(Objection::Replicated(table.id)),
                _ => return Err(Objection::Moved(table.id)),
            }
        }
        Ok(())
    }

    /// A refusal without a counterexample.
    fn plain_refusal(&self, objection: &Objection) -> Refusal {
        let name = |table: TableId| self.planned.schema().table(table).name.clone();
        match objection {
            Objection::Replicated(table) => Refusal::replicated(&name(*table)),
            Objection::Moved(table) => Refusal::moved(&name(*table)),
            Objection::NotPermanent(table) => Refusal::not_permanent(&name(*table)),
            Objection::Changed {
                transaction,
                invariant,
                explanation,
            } => Refusal::changed(
                transaction,
                invariant.as_deref(),
                explanation.as_deref(),
                None,
            ),
        }
    }

    fn refusal(&self, objection: &Objection, text: &str, statement: &CompiledStatement) -> Refusal {
        match objection {
            Objection::Changed {
                transaction,
                invariant: Some(invariant),
                explanation,
            } => {
                let found = self.counterexample(invariant, text, statement);
                let found = found.as_ref().map(|(plan, example)| (plan, example));
                Refusal::changed(transaction, Some(invariant), explanation.as_deref(), found)
            }
            other => self.plain_refusal(other),
        }
    }

    /// The smallest case found in which the statement, with declared types, breaks an invariant if nothing is ordered.
    /// The plan is that of the application with the statement as a procedure.
    fn counterexample(
        &self,
        invariant: &str,
        text: &str,
        statement: &CompiledStatement,
    ) -> Option<(Plan, Counterexample)> {
        let catalog = self.planned.application.catalog();
        let mut files = catalog.files.clone();
        files.push(SourceFile::new(
            "statement",
            shape::as_procedure(text, statement.parameters()),
        ));
        let catalog = anabranch_sql::load(files).ok()?;
        let application = Application::compile(catalog).ok()?;
        let summaries = application.summaries();
        let plan = analyze_with(application.catalog(), summaries, &self.options);
        let own = application.procedures.len() - 1;
        let index = plan.invariants.iter().position(|of| of.name == invariant)?;
        let needs = |owner: &usize| {
            let verdict = plan.entries[*owner].verdict(index);
            verdict.is_some_and(|verdict| verdict.confluent != Confluence::Yes)
        };
        let mut owners = [own].into_iter().chain(0..own).filter(needs);
        let found = owners.find_map(|owner| {
            let explorer = Explorer::new(&application, &plan);
            explorer.counterexample(owner, index, 1, EFFORT)
        })?;
        Some((plan, found))
    }
}

/// The entry of an undeclared type that writes: of these types, the one with the index `own` among the plan's.
fn entry(
    application: &Application,
    plan: &Plan,
    (types, own): (&[TransactionSummary], usize),
) -> StatementEntry {
    let assertions = application.assertions();
    let checks = plan.entries[own].checks.iter().filter_map(|check| {
        let name = &plan.invariants[check.invariant].name;
        let assertion = assertions.iter().position(|of| of.name() == name)?;
        Some(Check {
            assertion,
            guarded: true,
        })
    });
    let checks = checks.collect();
    StatementEntry::writer(checks, plan, application.catalog(), (types, own))
}

/// Why the statement cannot run beside the declared types.
enum Objection {
    /// It writes a table of which every partition has a copy.
    Replicated(TableId),
    /// A table's rows would have to move.
    Moved(TableId),
    /// It may remove rows that the plan takes for permanent.
    NotPermanent(TableId),
    /// A declared type would need another entry.
    Changed {
        transaction: String,
        invariant: Option<String>,
        explanation: Option<String>,
    },
}

/// Whether a type's new entry requires what its old one does not do; then the invariant that requires it, if it is
/// known.
fn changed(
    (before, old): (&Plan, &PlanEntry),
    (plan, new): (&Plan, &PlanEntry),
) -> Option<Option<usize>> {
    let guard = new.guards.iter().find(|guard| {
        let reads = |id| !old.guarded_reads.contains(id);
        let writes = |id| !old.guarded_writes.contains(id);
        guard.reads.iter().any(reads) || guard.writes.iter().any(writes)
    });
    if let Some(guard) = guard {
        return Some(guard.invariants.first().copied());
    }
    let is_kept = |list: &[_], of: &[_]| list.iter().all(|id| of.contains(id));
    let does_all = is_kept(&new.guarded_reads, &old.guarded_reads)
        && is_kept(&new.guarded_writes, &old.guarded_writes);
    let name = |plan: &Plan, invariant: usize| plan.invariants[invariant].name.clone();
    let check = new.checks.iter().find(|check| {
        let same = old
            .checks
            .iter()
            .find(|done| name(before, done.invariant) == name(plan, check.invariant));
        same.is_none_or(|done| check.guarded && !done.guarded)
    });
    if let Some(check) = check {
        return Some(Some(check.invariant));
    }
    if !does_all || new.deferred != old.deferred {
        let needing = new.verdicts.iter();
        let mut needing = needing.filter(|verdict| verdict.confluent != Confluence::Yes);
        let is_new = |invariant: usize| {
            let known = before.invariants.iter();
            let mut known = known
                .enumerate()
                .filter(|(_, of)| of.name == plan.invariants[invariant].name);
            let verdict = known.next().and_then(|(index, _)| old.verdict(index));
            verdict.is_none_or(|verdict| verdict.confluent == Confluence::Yes)
        };
        return Some(
            needing
                .find(|verdict| is_new(verdict.invariant))
                .map(|verdict| verdict.invariant),
        );
    }
    None
}

/// The name, with a number if one of these types has it.
fn unique(name: &str, types: &[TransactionSummary]) -> String {
    let is_taken = |name: &str| types.iter().any(|of| of.name == name);
    let numbered = (2..).map(|number| format!("{name} ({number})"));
    let mut names = [name.to_owned()].into_iter().chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or_default()
}
