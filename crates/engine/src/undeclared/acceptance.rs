//! Undeclared types that clients have accepted: the plan is one for the declared types and for these.
//!
//! A statement is refused if a declared type would have to do more beside it ([`super`]). Its client may accept that. Then
//! its *shape* (one statement, or the set of a block's statements) is one more type of the plan, as if it were declared,
//! and the plan's entries of the declared types are those that the analysis finds for all of them together. Undeclared types
//! that were admitted before are analysed with it, and stay admitted: they have the greatest entry.
//!
//! A plan replaces another one only while no transaction runs: that is the server's task.
//!
//! An [`AcceptedShape`] is kept as texts. So it can be compiled again after a restart or a change of the schema, and is
//! lost if its texts mean nothing any more.
//!
//! Placements stand: a shape for which rows would have to move is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use anabranch_analysis::plan::PlanEntry;
use anabranch_analysis::report::names::class_name;
use anabranch_analysis::{Options, Plan, analyze_with};
use anabranch_sql::Application;
use anabranch_sql::client::{self, ClientStatementKind, ClientWork};
use anabranch_sql::summary::TransactionSummary;

use super::{
    Known, Objection, Refusal, TYPES_MAX, UndeclaredTypes, block, changed, entry, shape, unique,
};
use crate::accepted::{AcceptedShape, AcceptedStatement, AcceptedType};
use crate::application::PlannedApplication;

/// The title of a shape has at most this many characters.
const TITLE_MAX: usize = 200;

/// A plan that knows one more shape.
pub struct Acceptance {
    /// The application with that plan.
    pub planned: Arc<PlannedApplication>,
    /// The undeclared types that are admitted under it: those before, and the shape.
    pub types: UndeclaredTypes,
    /// How the plan differs from the one before, a line each.
    pub differences: Vec<String>,
    /// The number of undeclared types before.
    types_before: usize,
}

impl AcceptedShape {
    /// Its statements' texts, on one line, cut.
    pub fn title(&self) -> String {
        let texts = self.statements.iter().map(|of| shape::title(&of.text));
        shape::cut(&texts.collect::<Vec<_>>().join("; "), TITLE_MAX)
    }

    /// Compiles it. What differs from it in constants alone belongs to the type.
    fn compiled(&self, application: &Application) -> Result<AcceptedType, String> {
        let mut parts = Vec::with_capacity(self.statements.len());
        for statement in &self.statements {
            if let Some(part) = statement.summary(application)? {
                parts.push(shape::without_constants(&part));
            }
        }
        let summary = match (&parts[..], self.is_block) {
            ([], _) => return Err("none of its statements reads or writes a table".to_owned()),
            (parts, true) => block::merge(parts),
            ([only], false) => only.clone(),
            _ => return Err("it has several statements".to_owned()),
        };
        Ok(AcceptedType {
            shape: self.clone(),
            summary,
            parts: parts.iter().map(shape::shape).collect(),
        })
    }
}

impl AcceptedStatement {
    /// What it does, if it does something to a table.
    fn summary(&self, application: &Application) -> Result<Option<TransactionSummary>, String> {
        let mut parsed = client::parse(&self.text).map_err(|problem| problem.message)?;
        let runnable = match (parsed.pop().map(|it| it.kind), parsed.is_empty()) {
            (Some(ClientStatementKind::Run(runnable)), true) => runnable,
            (Some(ClientStatementKind::Explain { statement, .. }), true) => statement,
            _ => return Err("it is not one statement over rows".to_owned()),
        };
        let compiled = application
            .client_statement(&runnable, &self.parameters)
            .map_err(|problems| {
                let first = problems.first();
                first.map_or(String::new(), |problem| problem.message.clone())
            })?;
        Ok(match compiled.work {
            ClientWork::Statement(statement) => Some(statement.summary(&shape::title(&self.text))),
            ClientWork::Call { procedure, .. } => Some(application.summaries()[procedure].clone()),
            _ => None,
        })
    }
}

impl PlannedApplication {
    /// The shapes that clients have accepted, in the order in which they did.
    pub fn accepted(&self) -> impl Iterator<Item = &AcceptedShape> {
        self.accepted.iter().map(|accepted| &accepted.shape)
    }

    /// The same application with a plan that knows these shapes, too; and the shapes that it has no room for, each with
    /// the reason. `options` are those of the analysis that made the plan.
    #[must_use]
    pub fn accepting(
        self: &Arc<PlannedApplication>,
        shapes: &[AcceptedShape],
        options: &Options,
    ) -> (Arc<PlannedApplication>, Vec<(AcceptedShape, String)>) {
        let mut lost = Vec::new();
        let mut compiled = Vec::new();
        for shape in shapes {
            match shape.compiled(&self.application) {
                Ok(found) => compiled.push(found),
                Err(reason) => lost.push((shape.clone(), reason)),
            }
        }
        if compiled.is_empty() {
            return (Arc::clone(self), lost);
        }
        let types = UndeclaredTypes::new(Arc::clone(self), options.clone());
        let known = types.lock().clone();
        if let Ok(all) = types.accept_types(&known, compiled.clone()) {
            return (all.planned, lost);
        }
        // One by one: most of them have room.
        let mut planned = Arc::clone(self);
        let mut types = types;
        for accepted in compiled {
            let known = types.lock().clone();
            let shape = accepted.shape.clone();
            match types.accept_types(&known, vec![accepted]) {
                Ok(next) => (planned, types) = (next.planned, next.types),
                Err(refusal) => lost.push((shape, refusal.message)),
            }
        }
        (planned, lost)
    }

    /// The same application with the plan that knows no shape that a client has accepted. `options` are those of the
    /// analysis that made the plan.
    #[must_use]
    pub fn accepting_none(&self, options: &Options) -> Arc<PlannedApplication> {
        let application = &self.application;
        let tables = self.schema().tables.iter();
        let router = &self.execution.router;
        let placements: Vec<_> = tables.map(|t| router.placement(t.id).clone()).collect();
        let options = Options {
            placements: Some(placements.clone()),
            ..options.clone()
        };
        let mut plan = analyze_with(application.catalog(), application.summaries(), &options);
        // Rows stay where they are.
        plan.placements = placements;
        PlannedApplication::new(Arc::clone(application), plan, router.partitions())
    }

    /// How this plan differs for declared types from one before, a line each.
    #[must_use]
    pub fn differences(&self, before: &PlannedApplication) -> Vec<String> {
        let declared = self.application.summaries().len();
        let entries = before.plan.entries.iter().zip(&self.plan.entries);
        let pairs = entries.take(declared);
        pairs
            .filter_map(|(old, new)| difference((&before.plan, old), (&self.plan, new)))
            .collect()
    }
}

impl Known {
    /// What a plan knows from its beginning.
    pub(super) fn of_plan(planned: &PlannedApplication) -> Known {
        let mut known = Known {
            types: planned.undeclared.clone(),
            ..Known::default()
        };
        let types = planned.types();
        for accepted in &planned.accepted {
            known.add_entry(planned, &types, accepted);
        }
        known
    }

    fn add_entry(
        &mut self,
        planned: &PlannedApplication,
        types: &[TransactionSummary],
        accepted: &AcceptedType,
    ) {
        let own = types
            .iter()
            .position(|of| of.name == accepted.summary.name)
            .expect("an accepted type is one of the plan's");
        let entry = Arc::new(entry(&planned.application, &planned.plan, (types, own)));
        match accepted.shape.is_block {
            true => self.blocks.push((accepted.parts.clone(), entry)),
            false => {
                let parts = accepted.parts.iter().cloned();
                self.entries
                    .extend(parts.map(|part| (part, Arc::clone(&entry))));
            }
        }
    }

    fn has(&self, accepted: &AcceptedType) -> bool {
        match accepted.shape.is_block {
            true => {
                let mut blocks = self.blocks.iter();
                blocks.any(|(of, _)| of.is_superset(&accepted.parts))
            }
            false => accepted
                .parts
                .iter()
                .all(|part| self.entries.contains_key(part)),
        }
    }
}

impl UndeclaredTypes {
    /// The plan for all types that are known and one more. `None` if that runs already. Takes as long as an admission;
    /// nothing changes.
    ///
    /// # Errors
    /// When the statements cannot be compiled, or there is no such plan with the rows where they are.
    pub fn accept(&self, shape: &AcceptedShape) -> Result<Option<Acceptance>, Box<Refusal>> {
        let accepted = shape
            .compiled(&self.planned.application)
            .map_err(|reason| Box::new(Refusal::not_analysed(&reason)))?;
        // Others may be admitted meanwhile.
        let known = self.lock().clone();
        if known.has(&accepted) {
            return Ok(None);
        }
        self.accept_types(&known, vec![accepted]).map(Some)
    }

    /// Whether a plan was made with all that is known.
    pub fn is_current(&self, acceptance: &Acceptance) -> bool {
        self.len() == acceptance.types_before
    }

    fn accept_types(
        &self,
        known: &Known,
        new: Vec<AcceptedType>,
    ) -> Result<Acceptance, Box<Refusal>> {
        if known.types.len() + new.len() > TYPES_MAX {
            return Err(Box::new(Refusal::too_many(TYPES_MAX)));
        }
        let application = &self.planned.application;
        let declared = application.summaries().len();
        let mut types = application.summaries().to_vec();
        types.extend(known.types.iter().cloned());
        let mut accepted = self.planned.accepted.clone();
        for mut next in new {
            if next.summary.unknown.is_some() || next.summary.may_change_any_table {
                let reason = next.summary.unknown.as_deref();
                let reason = reason.unwrap_or("it may change any table");
                return Err(Box::new(Refusal::not_analysed(reason)));
            }
            next.summary.name = unique(&next.summary.name, &types);
            types.push(next.summary.clone());
            accepted.push(next);
        }
        let mut plan = analyze_with(application.catalog(), &types, &self.options);
        self.object_to_placements(&plan)
            .map_err(|objection: Objection| Box::new(self.plain_refusal(&objection)))?;
        // A table that no known type writes stays where it is.
        plan.placements = self.options.placements.clone().unwrap_or_default();
        let undeclared = types.split_off(declared);
        let planned = PlannedApplication::with_undeclared(
            Arc::clone(application),
            plan,
            self.planned.execution.router.partitions(),
            (undeclared.clone(), accepted),
        );
        let mut next = Known {
            types: undeclared,
            // What was refused may have room under this plan.
            refusals: BTreeMap::new(),
            ..known.clone()
        };
        let types = planned.types();
        for accepted in &planned.accepted[self.planned.accepted.len()..] {
            next.add_entry(&planned, &types, accepted);
        }
        Ok(Acceptance {
            differences: planned.differences(&self.planned),
            types: UndeclaredTypes {
                planned: Arc::clone(&planned),
                options: self.options.clone(),
                known: Mutex::new(next),
            },
            planned,
            types_before: known.types.len(),
        })
    }
}

/// How a type's entry differs from the one before, on one line.
fn difference(before: (&Plan, &PlanEntry), now: (&Plan, &PlanEntry)) -> Option<String> {
    let (old, new) = (before.1, now.1);
    let does_more = changed(before, now).is_some();
    if !does_more && old.class == new.class && old.guards.len() == new.guards.len() {
        return None;
    }
    let mut line = format!("\"{}\"", new.name);
    match old.class == new.class {
        true => line.push_str(&format!(" stays {}", class_name(new.class))),
        false => line.push_str(&format!(
            " is {} now, and was {}",
            class_name(new.class),
            class_name(old.class)
        )),
    }
    let known: BTreeSet<String> = old.guards.iter().map(ToString::to_string).collect();
    for guard in &new.guards {
        let text = guard.to_string();
        if !known.contains(&text) {
            let names = guard.invariants.iter();
            let names: Vec<&str> = names
                .map(|invariant| &*now.0.invariants[*invariant].name)
                .collect();
            line.push_str(&format!("; ordered on {text} (for {})", names.join(", ")));
        }
    }
    let kept: BTreeSet<String> = new.guards.iter().map(ToString::to_string).collect();
    for gone in known.difference(&kept) {
        line.push_str(&format!("; no longer ordered on {gone}"));
    }
    Some(line)
}
