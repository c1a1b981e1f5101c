//! Applies a change to rows and schema, and takes it back.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use anabranch_analysis::report::names::class_name;
use anabranch_engine::schema_change::{TableSource, Unchanged, Undo, change_stores, each_row};
use anabranch_engine::sequence::ChangeSequences;
use anabranch_engine::undeclared::{AcceptedShape, UndeclaredTypes};
use anabranch_engine::{
    BlockOptions, CallError, DetachedBlock, PlannedApplication, Step, StepAction, Work,
};
use anabranch_sql::change::{
    MappingContext, Notice, SchemaChange, TableChange, TableRows, Verification,
};
use anabranch_sql::client::{self, ClientStatementKind, ClientWork};
use anabranch_sql::transaction::Sequences;
use anabranch_storage::Store;
use anabranch_types::{EffectError, Key, NodeId, Placement, Row, TableId, TimeZone};

use super::plan::plan_accepting;
use super::{Changer, Refused, UndoStep};
use crate::cluster::Frontends;
use crate::service::changes::{ChangeWork, OpenPart};
use crate::service::environment::{BlockEntries, Environment, StatementCache, now_micros};
use crate::service::errors::{error, of_call, of_effect};
use crate::service::folder::{self, RowsBefore};
use crate::service::nodes::{self, Keeping, NodesLeft, Past};
use crate::service::options::Guarantee;

impl Changer {
    /// Changes rows and schema, and starts nodes under it, for the transaction alone. After an error everything is as it
    /// was, except that what the transaction had run before is committed at these nodes.
    pub(super) fn apply(
        &mut self,
        work: &ChangeWork,
        change: Option<SchemaChange>,
        (detached, notices): (Option<DetachedBlock>, &mut Vec<Notice>),
    ) -> Result<(), Refused> {
        if let Some(part) = work.part {
            self.commit_part(part, detached)?;
        }
        let before = Arc::clone(&self.exclusive()?.environment);
        let NodesLeft {
            stores,
            past,
            frontends,
        } = self.stop_nodes()?;
        let Some(change) = change else {
            return self.start_own(&before, stores, past, frontends);
        };
        let SchemaChange {
            application,
            tables,
            verifications,
            sequences,
            ..
        } = change;
        let after = match application {
            None => Arc::clone(&before),
            Some(application) => {
                let replicated = replicated_tables(&before.planned);
                let partitions = stores.len() as u16;
                let accepted: Vec<AcceptedShape> = before.planned.accepted().cloned().collect();
                let (planned, lost) = plan_accepting(
                    application,
                    (partitions, self.environment.guarantee),
                    RowsBefore {
                        replicated: Some(&replicated),
                        placements: None,
                    },
                    &accepted,
                );
                notices.extend(lost.iter().map(forgotten));
                notices.extend(moved(&before.planned, &planned));
                self.environment_of(planned)
            }
        };
        let mut next = past.clone();
        next.numbers = past.numbers.moved(&sequences);
        let changed = self.change_rows(&tables, (&before, stores), &after, &mut next);
        let (stores, undo) = match changed {
            Ok(changed) => changed,
            Err(unchanged) => {
                self.start_own(&before, unchanged.stores, past, frontends)?;
                return Err(of_effect(&unchanged.error).into());
            }
        };
        let exclusive = self.exclusive()?;
        let step = UndoStep::Schema {
            undo: Box::new(undo),
            environment: before,
            past,
            sequences,
        };
        exclusive.undo.push(step);
        exclusive.environment = Arc::clone(&after);
        self.start_own(&after, stores, next, frontends)?;
        for verification in &verifications {
            if let Err(refused) = self.verify(&after, verification) {
                self.undo_last()?;
                return Err(refused);
            }
        }
        Ok(())
    }

    /// Changes the rows, and tests those that have to be tested. Numbers that they draw are counted in `past`.
    fn change_rows(
        &self,
        tables: &[TableChange],
        (before, stores): (&Environment, Vec<Store>),
        after: &Environment,
        past: &mut Past,
    ) -> Result<(Vec<Store>, Undo), Box<Unchanged>> {
        let sequences = Rc::new(ChangeSequences::new(past.numbers.clone()));
        let unique = unique_numbers(past);
        let maps: Vec<Option<Map>> = tables
            .iter()
            .map(|table| {
                let TableRows::Mapped(mapping) = &table.rows else {
                    return None;
                };
                let (mapping, sequences, unique) =
                    (mapping.clone(), Rc::clone(&sequences), Rc::clone(&unique));
                let map: Map = Box::new(move |key, row| {
                    let mut draw = || unique();
                    let mut context = MappingContext {
                        timestamp: now_micros(),
                        zone: TimeZone::UTC,
                        sequences: Rc::clone(&sequences) as Rc<dyn Sequences>,
                        unique: &mut draw,
                    };
                    mapping.apply(key, row, &mut context)
                });
                Some(map)
            })
            .collect();
        let mut sources = Vec::with_capacity(tables.len());
        for (table, map) in tables.iter().zip(&maps) {
            sources.push(match (table.from, &table.rows, map) {
                (None, _, _) | (_, TableRows::Removed, _) => TableSource::Empty,
                (Some(from), _, Some(map)) => TableSource::Mapped(from, &**map),
                (Some(from), _, None) => TableSource::Kept(from),
            });
        }
        let changed = change_stores(stores, &before.planned, &after.planned, &sources)?;
        let tested = (0..).map(TableId).zip(tables).try_for_each(|(id, table)| {
            let Some(mut verifier) = table.verifier.clone() else {
                return Ok(());
            };
            each_row(&changed.stores, &after.planned, id, |row| {
                verifier.check(row)
            })
        });
        match tested {
            Ok(()) => {
                past.numbers = sequences.numbers();
                Ok((changed.stores, changed.undo))
            }
            Err(error) => Err(Box::new(Unchanged {
                stores: changed.undo.undo(changed.stores),
                error,
            })),
        }
    }

    /// Commits what the transaction has run since the last change, at nodes without logs.
    fn commit_part(
        &mut self,
        part: OpenPart,
        detached: Option<DetachedBlock>,
    ) -> Result<(), Refused> {
        let environment = Arc::clone(&self.exclusive()?.environment);
        let has_nodes = self.exclusive()?.has_nodes;
        let detached = match detached {
            Some(detached) => Some(detached),
            None => self
                .slot
                .with(|nodes| nodes.take_block(part.node, part.block))?,
        };
        let Some(detached) = detached else {
            return Err(error("XX000", "a transaction was lost").into());
        };
        if part.wrote || !has_nodes {
            let left = self.stop_nodes()?;
            if part.wrote {
                let rows = UndoStep::Rows(left.stores.clone());
                self.exclusive()?.undo.push(rows);
            }
            self.start_own(&environment, left.stores, left.past, left.frontends)?;
        }
        self.slot
            .with(|nodes| nodes.put_block(part.node, detached))?;
        let step = Step {
            block: part.block,
            options: BlockOptions::default(),
            action: StepAction::Commit,
        };
        let outcome = self
            .slot
            .with(|nodes| nodes.call(part.node, Work::Step(step), [].into()))?;
        outcome
            .result
            .map(drop)
            .map_err(|failure| of_call(&failure).into())
    }

    /// Keeps rows as they are now: of this table, or all.
    pub(super) fn keep_rows(&mut self, table: Option<&str>) -> Result<(), Refused> {
        let exclusive = self.exclusive()?;
        let schema = exclusive.environment.planned.schema();
        let named = |name: &str| schema.tables.iter().find(|of| of.name == name);
        let kept = match table.and_then(named).map(|of| of.id) {
            Some(table) => UndoStep::Table(table, self.slot.with(|nodes| nodes.table_rows(table))?),
            None => UndoStep::Rows(self.slot.with(|nodes| nodes.rows())?),
        };
        self.exclusive()?.undo.push(kept);
        Ok(())
    }

    /// Evaluates what existing rows have to pass.
    fn verify(
        &mut self,
        environment: &Environment,
        verification: &Verification,
    ) -> Result<(), Refused> {
        let application = &environment.planned.application;
        let internal = |what: &dyn std::fmt::Display| -> Refused {
            let message = format!("cannot verify existing rows: {what}");
            error("XX000", message).into()
        };
        let mut parsed =
            client::parse(&verification.query).map_err(|problem| internal(&problem.message))?;
        let Some(ClientStatementKind::Run(runnable)) = parsed.pop().map(|it| it.kind) else {
            return Err(internal(&"no statement"));
        };
        let compiled = application
            .client_statement(&runnable, &[])
            .map_err(|problems| internal(&problems[0].message))?;
        let ClientWork::Statement(statement) = compiled.work else {
            return Err(internal(&"no rows are read"));
        };
        let work = Work::Statement {
            statement,
            entry: None,
        };
        let outcome = self
            .slot
            .with(|nodes| nodes.call(NodeId(0), work, [].into()))?;
        match outcome.result {
            Ok(result) => match result.rows.first() {
                None => Ok(()),
                Some(row) => Err(of_effect(&verification.error(row)).into()),
            },
            Err(CallError::Failed(failure)) => Err(of_effect(&failure).into()),
            Err(failure) => Err(of_call(&failure).into()),
        }
    }

    /// Takes back the last step.
    pub(super) fn undo_last(&mut self) -> Result<(), Refused> {
        let Some(step) = self.exclusive()?.undo.pop() else {
            return Ok(());
        };
        let left = self.stop_nodes()?;
        let (environment, stores, past) = self.undone(step, left.stores, left.past)?;
        self.exclusive()?.environment = Arc::clone(&environment);
        self.start_own(&environment, stores, past, left.frontends)
    }

    /// The state before a step. Time and transactions go on.
    pub(super) fn undone(
        &mut self,
        step: UndoStep,
        stores: Vec<Store>,
        past: Past,
    ) -> Result<(Arc<Environment>, Vec<Store>, Past), Refused> {
        match step {
            UndoStep::Rows(rows) => {
                let environment = Arc::clone(&self.exclusive()?.environment);
                Ok((environment, rows, past))
            }
            UndoStep::Table(table, parts) => {
                let environment = Arc::clone(&self.exclusive()?.environment);
                let mut stores = stores;
                for (store, part) in stores.iter_mut().zip(parts) {
                    store.attach(table, part);
                    store.finish_attaching();
                }
                Ok((environment, stores, past))
            }
            UndoStep::Schema {
                undo,
                environment,
                past: before,
                sequences,
            } => {
                let past = Past {
                    numbers: past.numbers.taken_back(&sequences, &before.numbers),
                    ..past
                };
                Ok((environment, undo.undo(stores), past))
            }
        }
    }

    /// Ends the nodes, with nothing under way.
    pub(super) fn stop_nodes(&mut self) -> Result<NodesLeft, Refused> {
        self.shared.post.disconnect();
        self.shared.set_backups(None);
        self.memory = None;
        let Some(nodes) = self.slot.take() else {
            return Err(Refused::fatal(&"no nodes run"));
        };
        nodes.stop().map_err(|failure| Refused::fatal(&failure))
    }

    /// Starts nodes without logs for the transaction alone.
    fn start_own(
        &mut self,
        environment: &Arc<Environment>,
        stores: Vec<Store>,
        past: Past,
        frontends: Frontends,
    ) -> Result<(), Refused> {
        let exclusive = self.exclusive()?;
        exclusive.has_nodes = true;
        let client = exclusive.client;
        self.shared
            .set_exclusive(Some((client, Arc::clone(environment))));
        let started = nodes::start(environment, stores, &Keeping::Memory, Some(past));
        let started = started.map_err(|failure| Refused::fatal(&failure))?;
        self.run_nodes(started, frontends)
    }

    /// An environment under which the schema is this one.
    fn environment_of(&mut self, planned: Arc<PlannedApplication>) -> Arc<Environment> {
        let undeclared = match self.environment.guarantee {
            Guarantee::Serializable => None,
            Guarantee::Invariants => Some(UndeclaredTypes::new(
                Arc::clone(&planned),
                self.analysis.clone(),
            )),
        };
        self.environment_with(planned, undeclared)
    }

    /// The same with these undeclared types.
    pub(super) fn environment_with(
        &mut self,
        planned: Arc<PlannedApplication>,
        undeclared: Option<UndeclaredTypes>,
    ) -> Arc<Environment> {
        self.last_version += 1;
        Arc::new(Environment {
            options: self.environment.options,
            guarantee: self.environment.guarantee,
            version: self.last_version,
            planned,
            undeclared,
            statements: StatementCache::default(),
            block_entries: BlockEntries::default(),
            ring: self.environment.ring.clone(),
            shared: Arc::clone(&self.shared),
        })
    }
}

/// Makes a new row of an old one, with its key.
type Map = Box<dyn Fn(&Key, &Row) -> Result<(Key, Row), EffectError>>;

/// What a client is told of an accepted shape that is none any more.
fn forgotten((shape, reason): &(AcceptedShape, String)) -> Notice {
    Notice {
        code: "00000",
        message: format!("the plan has no room any more for \"{}\"", shape.title()),
        detail: Some(format!("It was accepted, and cannot be now: {reason}.")),
    }
}

/// What a client is told of tables whose rows are at other partitions than their keys say, from now on or no longer.
fn moved(before: &PlannedApplication, now: &PlannedApplication) -> Vec<Notice> {
    let (old, new) = (&before.execution.router, &now.execution.router);
    let mut notices = Vec::new();
    for table in &now.schema().tables {
        let mut known = before.schema().tables.iter();
        let Some(was) = known.find(|was| was.name == table.name) else {
            continue;
        };
        let is_apart = old.is_apart(was.id) && !was.primary_key.is_empty()
            || new.is_apart(table.id) && !table.primary_key.is_empty();
        let place = folder::place_name(table, new.placement(table.id));
        let place_before = folder::place_name(was, old.placement(was.id));
        if !is_apart || place == place_before {
            continue;
        }
        let name = &table.name;
        notices.push(Notice {
            code: "00000",
            message: format!(
                "the rows of table \"{name}\" move: they are placed by {place} now, and were by {place_before}"
            ),
            detail: Some(classes_changed(before, now)),
        });
    }
    notices
}

/// The transaction types that coordinate otherwise than before, a line each.
fn classes_changed(before: &PlannedApplication, now: &PlannedApplication) -> String {
    let changed = now.plan.entries.iter().filter_map(|entry| {
        let was = before.plan.entry(&entry.name)?;
        (was.class != entry.class).then(|| {
            format!(
                "\"{}\" is {} now, and was {}",
                entry.name,
                class_name(entry.class),
                class_name(was.class)
            )
        })
    });
    let lines: Vec<String> = changed.collect();
    match lines.is_empty() {
        true => "All types that were there are coordinated as before.".to_owned(),
        false => lines.join("\n"),
    }
}

/// Numbers that no transaction and no other change draws: those of a transaction of its own of node 0.
fn unique_numbers(past: &mut Past) -> Rc<dyn Fn() -> u128> {
    let high = match past.nodes.first_mut() {
        Some((_, last)) => {
            *last += 1;
            *last
        }
        None => 0,
    };
    let drawn = Cell::new(0u64);
    Rc::new(move || {
        drawn.set(drawn.get() + 1);
        u128::from(high) << 64 | u128::from(drawn.get())
    })
}

/// The names of the tables of which every partition has a copy.
fn replicated_tables(planned: &PlannedApplication) -> BTreeSet<String> {
    let router = &planned.execution.router;
    let tables = planned.schema().tables.iter();
    let replicated = tables.filter(|table| *router.placement(table.id) == Placement::Replicated);
    replicated.map(|table| table.name.clone()).collect()
}
