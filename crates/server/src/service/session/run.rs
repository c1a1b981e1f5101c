//! Runs statements: makes the call, takes the outcome, begins to send the rows.

use std::sync::Arc;
use std::time::Instant;

use anabranch_engine::undeclared::{
    AcceptedShape, AcceptedStatement, Refusal, StatementEntry, UndeclaredTypes,
};
use anabranch_engine::{Call, CallError, Outcome, Work};
use anabranch_sql::application::ResultSet;
use anabranch_sql::client::{ClientWork, ExplainOptions, SessionValue};
use anabranch_types::{NodeId, PartitionId, Value};
use anabranch_wire::{ErrorFields, Format, Formats, format};

use super::answer::{Sending, column_formats, fields};
use super::{Awaited, Scope, Session, State};
use crate::frontend::{JobDone, Note};
use crate::service::environment::now_micros;
use crate::service::errors::{error, of_call, of_effect, of_refusal};
use crate::service::prepared::{Columns, Prepared, PreparedKind, RunPlan, Tag, explain_columns};

/// A statement that is run.
pub(crate) struct Run {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) parameters: Vec<Value>,
    pub(crate) destination: Destination,
    /// For EXPLAIN ANALYZE: what is told instead of the rows.
    pub(crate) explain: Option<ExplainOptions>,
}

/// Where the rows go.
#[derive(Clone)]
pub(crate) enum Destination {
    /// To a simple query: described first, in text.
    Simple,
    /// To an Execute.
    Portal {
        name: String,
        formats: Formats,
        rows_left: Option<u32>,
    },
    /// To the client of a COPY.
    Copy {
        /// The COPY.
        prepared: Arc<Prepared>,
        portal: Option<String>,
    },
    /// Nowhere: it writes a part of a COPY's rows ([`super::copy`]).
    CopyPart,
    /// To a cursor that is being declared.
    Cursor {
        name: String,
        /// Whether it was declared SCROLL (`true`) or NO SCROLL, and whether WITH HOLD.
        options: (Option<bool>, bool),
        /// The whole statement.
        statement: Arc<str>,
        /// Where the answer to DECLARE goes.
        answer: Box<Destination>,
    },
}

impl Session {
    /// Runs a statement. It may be under way when this returns.
    pub(super) fn run(
        &mut self,
        mut run: Run,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        if !run.prepared.ends_transaction() {
            self.check_not_failed()?;
        }
        if run.prepared.is_executed() && !Session::only_looks(&run) {
            match self.admit(run, scope) {
                Some(admitted) => run = admitted,
                None => return Ok(()),
            }
        }
        // Only now: the schema stays as it is while the session has a permit.
        run.prepared = self.current(&run.prepared)?;
        let prepared = Arc::clone(&run.prepared);
        match &prepared.kind {
            PreparedKind::Empty => {
                self.wire.empty_query();
                self.end_run(&run.destination);
                Ok(())
            }
            PreparedKind::Utility(statement) => self.utility(statement, run, scope),
            PreparedKind::Explain { options, plan } if options.analyze => {
                run.explain = Some(*options);
                self.run_plan(run, plan, scope)
            }
            PreparedKind::Explain { options, plan } => {
                if options.coordination && self.needs_entry(plan) && plan.entry.get().is_none() {
                    return self.work_out_entry(run, plan, scope);
                }
                let rows = self.explain(options, plan)?;
                self.answer(&run.destination, explain_columns(), rows, Tag::explain())
            }
            PreparedKind::Copy(copy) => self.copy(copy, run, scope),
            PreparedKind::Run(plan) => self.run_plan(run, plan, scope),
        }
    }

    fn run_plan(
        &mut self,
        mut run: Run,
        planned: &RunPlan,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let plan = &planned.plan;
        if plan.writes && self.is_read_only() {
            let message = format!(
                "cannot execute {} in a read-only transaction",
                planned.tag_name()
            );
            return Err(error("25006", message));
        }
        if plan.writes && planned.touches_tables() && self.is_to_be_alone() {
            if self.block.is_none() {
                self.begin_implicit(scope);
            }
            return self.request_alone(run, scope);
        }
        let is_of_transaction = planned.touches_tables() || plan.session_values.iter().any(locks);
        let notifies = plan.session_values.iter().any(notifies);
        let begins = notifies || (is_of_transaction && !self.is_alone(&run.destination));
        if self.block.is_none() && begins {
            self.begin_implicit(scope);
        }
        if notifies {
            self.begin_notifying();
        }
        if !plan.session_values.is_empty() {
            let now = self.transaction_time();
            let (wanted, text) = (&plan.session_values, Arc::clone(&run.prepared.text));
            match self.session_values_or_wait(wanted, &run.parameters, &text, (now, scope))? {
                Some(hidden) => run.parameters.extend(hidden),
                None => {
                    self.state = State::Working { run: Box::new(run) };
                    return Ok(());
                }
            }
        }
        self.deadline = self.statement_deadline(scope.now);
        self.run_bound(run, planned, scope)
    }

    /// Runs a statement whose parameters are complete.
    fn run_bound(
        &mut self,
        run: Run,
        planned: &RunPlan,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let plan = &planned.plan;
        let now = self.transaction_time();
        match &plan.work {
            ClientWork::Constant(constant) => {
                let context = self.context(now);
                let result = constant
                    .evaluate(&run.parameters, &context)
                    .map_err(|failure| of_effect(&failure))?;
                let Some(result) = result else {
                    if self.permit.is_none() {
                        return self.admit_long_look(run, scope);
                    }
                    // It computes for long: as a call, it lets others have their turn, and can be cancelled.
                    let work = Work::statement(Arc::clone(constant.statement()));
                    let arguments: Arc<[Value]> = run.parameters.as_slice().into();
                    return self.call(run, scope.node, work, arguments, now, scope);
                };
                if let Some(options) = &run.explain {
                    let rows = self.explain_analyzed(options, planned, result.count, None);
                    return self.answer(&run.destination, explain_columns(), rows, Tag::explain());
                }
                self.finish(&run, planned, result)
            }
            ClientWork::Call {
                procedure,
                arguments,
                ..
            } => {
                let arguments: Arc<[Value]> =
                    self.evaluate(arguments, &run.parameters, now)?.into();
                let execution = &self.environment.planned.execution;
                let turn = self.environment.next_turn();
                let home = execution.home(*procedure, &arguments, turn);
                if self.block.is_some() {
                    return self.run_in_block(run, planned, (arguments, home), scope);
                }
                let node = home.map_or(scope.node, |partition| NodeId(partition.0));
                let work = Work::Procedure(*procedure);
                self.call(run, node, work, arguments, now, scope)
            }
            ClientWork::Statement(statement) if self.block.is_some() => {
                let arguments: Arc<[Value]> = run.parameters.as_slice().into();
                let home = self
                    .environment
                    .planned
                    .statement_home(statement, &arguments);
                self.run_in_block(run, planned, (arguments, home), scope)
            }
            ClientWork::Statement(_) => match planned.entry.get() {
                None if self.needs_entry(planned) => self.work_out_entry(run, planned, scope),
                entry => {
                    let entry = entry.cloned();
                    self.call_statement(run, entry, scope)
                }
            },
            other => Err(error("0A000", format!("{other:?} is not supported"))),
        }
    }

    /// Goes on with a statement that looks at what is open, and computes for long: nodes end only when that has ended, so it
    /// waits for the gate, as what reads rows does.
    fn admit_long_look(
        &mut self,
        mut run: Run,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        // It runs from its beginning then, and takes the connection's values again.
        run.parameters
            .truncate(run.prepared.parameter_types().len());
        self.notify_again(&run);
        match self.admit(run, scope) {
            Some(run) => self.run(run, scope),
            None => Ok(()),
        }
    }

    /// Whether the statement that runs now is a transaction of its own, so far as is known. One that is not may turn out
    /// to be.
    pub(super) fn is_alone(&self, destination: &Destination) -> bool {
        match destination {
            Destination::Simple | Destination::Copy { portal: None, .. } => !self.more_to_come(),
            Destination::Portal { .. } | Destination::Copy { .. } => self.wire.is_sync_next(),
            Destination::Cursor { .. } | Destination::CopyPart => false,
        }
    }

    /// Runs a statement in the open block, after its analysis if the block needs one.
    fn run_in_block(
        &mut self,
        run: Run,
        planned: &RunPlan,
        (arguments, home): (Arc<[Value]>, Option<PartitionId>),
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let Some(code) = planned.code() else {
            return Err(error(
                "XX000",
                "a statement without a table has come to a block",
            ));
        };
        match self.block_entry(&run.prepared, planned.plan.writes) {
            Ok(entry) => {
                self.step_statement(run, code, entry, (arguments, home), scope);
                Ok(())
            }
            Err(statements) => {
                let shape = self.shape_to_accept(&run);
                self.analyse(run, shape, scope, move |undeclared| {
                    undeclared.admit_block(&statements)
                })
            }
        }
    }

    /// Goes on with a statement whose analysis is done.
    pub(super) fn analysed(
        &mut self,
        run: Run,
        entry: Arc<StatementEntry>,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        // What a plain EXPLAIN explains does not run, and is no part of a block.
        if self.block.is_none() || !run.prepared.is_executed() {
            return self.call_statement(run, Some(entry), scope);
        }
        self.take_block_entry(&entry);
        let prepared = Arc::clone(&run.prepared);
        match prepared.run_plan() {
            Some(planned) => self.run_bound(run, planned, scope),
            None => Err(error("XX000", "a statement without a plan was analysed")),
        }
    }

    /// Whether the next statement that writes has to wait until its transaction is alone.
    fn is_to_be_alone(&self) -> bool {
        self.settings.is_on("anabranch.alone") && !self.is_exclusive()
    }

    /// Whether a statement runs under an entry of its own: it writes, and there is a plan.
    fn needs_entry(&self, planned: &RunPlan) -> bool {
        let is_statement = matches!(planned.plan.work, ClientWork::Statement(_));
        is_statement && planned.plan.writes && self.environment.undeclared.is_some()
    }

    /// Has a helper thread analyse a statement that writes, as one more transaction type.
    fn work_out_entry(
        &mut self,
        run: Run,
        planned: &RunPlan,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let ClientWork::Statement(statement) = &planned.plan.work else {
            return Err(error("XX000", "a call was analysed as a statement"));
        };
        let (text, statement) = (Arc::clone(&run.prepared.text), Arc::clone(statement));
        let shape = self.shape_to_accept(&run);
        self.analyse(run, shape, scope, move |undeclared| {
            undeclared.admit(&text, &statement)
        })
    }

    /// What the client accepts if the plan has no room for the transaction with the statement that runs now. Nothing
    /// unless it has said so, and nothing where the statement is only explained, or a part of a COPY.
    fn shape_to_accept(&self, run: &Run) -> Option<AcceptedShape> {
        let is_run =
            run.prepared.is_executed() && !matches!(run.destination, Destination::CopyPart);
        if !is_run || !self.settings.is_on("anabranch.accept_plan") {
            return None;
        }
        let mut of_block = self.block_statements().into_iter().flatten();
        if run.prepared.is_of_copy() || of_block.any(|prepared| prepared.is_of_copy()) {
            return None;
        }
        // As the data folder has them, so that a restart compiles the same. Of one that it cannot have, the use tells the type.
        let kept = |data_type: &_| format::data_type_of(format::oid_of(data_type)).unwrap_or(None);
        let statement = |prepared: &Arc<Prepared>| AcceptedStatement {
            text: Arc::clone(&prepared.text),
            parameters: prepared.parameter_types().iter().map(kept).collect(),
        };
        Some(match self.block_statements() {
            Some(statements) => AcceptedShape {
                statements: statements.iter().map(statement).collect(),
                is_block: true,
            },
            None => AcceptedShape {
                statements: vec![statement(&run.prepared)],
                is_block: false,
            },
        })
    }

    /// Has a helper thread find an entry for a statement, which goes on afterwards ([`Session::analysed`]). `shape`: what
    /// the client accepts if there is none.
    fn analyse(
        &mut self,
        run: Run,
        shape: Option<AcceptedShape>,
        scope: &mut Scope<'_>,
        admit: impl FnOnce(&UndeclaredTypes) -> Result<Arc<StatementEntry>, Box<Refusal>>
        + Send
        + 'static,
    ) -> Result<(), Box<ErrorFields>> {
        let Some(post) = scope.post else {
            return Err(error("57P03", "the server is starting up"));
        };
        let post = Arc::clone(post);
        let environment = Arc::clone(&self.environment);
        let (node, connection, place) = (scope.node, scope.connection, scope.place);
        let job = Box::new(move || {
            let Some(undeclared) = &environment.undeclared else {
                return;
            };
            let result = match (admit(undeclared), shape) {
                (Ok(entry), _) => Ok(JobDone::Analysed(entry)),
                (Err(refusal), Some(shape)) if refusal.can_be_accepted => {
                    Ok(JobDone::Acceptable(Box::new(shape)))
                }
                (Err(refusal), _) => Err(of_refusal(&refusal)),
            };
            let note = Note::Done {
                connection,
                place,
                result,
            };
            post.post(node, note);
        });
        if !self.environment.shared.jobs.push(job) {
            return Err(error(
                "58000",
                "the thread that analyses statements has ended",
            ));
        }
        self.state = State::Working { run: Box::new(run) };
        Ok(())
    }

    /// Makes the call of a statement, with its entry if it needs one.
    pub(super) fn call_statement(
        &mut self,
        run: Run,
        entry: Option<Arc<StatementEntry>>,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let prepared = Arc::clone(&run.prepared);
        let Some(planned) = prepared.run_plan() else {
            return Err(error("XX000", "a statement without a plan was run"));
        };
        let ClientWork::Statement(statement) = &planned.plan.work else {
            return Err(error("XX000", "a call was run as a statement"));
        };
        if let Some(entry) = &entry {
            // Another connection may have been first, with the same entry.
            let _ = planned.entry.set(Arc::clone(entry));
        }
        if let PreparedKind::Explain { options, .. } = &prepared.kind
            && !options.analyze
        {
            let rows = self.explain(options, planned)?;
            return self.answer(&run.destination, explain_columns(), rows, Tag::explain());
        }
        let arguments: Arc<[Value]> = run.parameters.as_slice().into();
        let work = Work::Statement {
            statement: Arc::clone(statement),
            entry,
        };
        let planned = &self.environment.planned;
        let home = planned.statement_home(statement, &arguments);
        let node = home.map_or(scope.node, |partition| NodeId(partition.0));
        self.call(run, node, work, arguments, now_micros(), scope)
    }

    fn call(
        &mut self,
        run: Run,
        node: NodeId,
        work: Work,
        arguments: Arc<[Value]>,
        now: i64,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let zone = self.settings.zone().clone();
        let lock_timeout = self.settings.lock_timeout();
        let sequences = Arc::clone(&self.sequences);
        let call = scope.call(node, |id| {
            Call::new(id, work, arguments)
                .with_timestamp(now)
                .with_time_zone(zone)
                .with_sequences(sequences)
                .with_lock_timeout(lock_timeout)
        });
        let awaited = Awaited::Statement(Box::new(run));
        self.state = State::Calling { call, awaited };
        Ok(())
    }

    /// Takes the outcome of a statement's call.
    pub(super) fn called(&mut self, run: Run, outcome: Outcome) -> Result<(), Box<ErrorFields>> {
        let prepared = Arc::clone(&run.prepared);
        let Some(planned) = prepared.run_plan() else {
            return Err(error("XX000", "a statement without a plan was called"));
        };
        if let (Some(options), Ok(result)) = (&run.explain, &outcome.result) {
            let rows = self.explain_analyzed(options, planned, result.count, Some(&outcome));
            return self.answer(&run.destination, explain_columns(), rows, Tag::explain());
        }
        match outcome.result {
            Ok(result) => self.finish(&run, planned, result),
            Err(CallError::Cancelled) => Err(self
                .cancelled
                .take()
                .unwrap_or_else(|| of_call(&CallError::Cancelled))),
            Err(failure) => Err(of_call(&failure)),
        }
    }

    /// Begins to send a statement's rows.
    fn finish(
        &mut self,
        run: &Run,
        planned: &RunPlan,
        result: ResultSet,
    ) -> Result<(), Box<ErrorFields>> {
        self.tell_messages(&result.messages);
        let plan = &planned.plan;
        if let Destination::CopyPart = run.destination {
            self.part_copied(result.count);
            return Ok(());
        }
        let tag = planned.tag(result.count + std::mem::take(&mut self.copied));
        let Some(columns) = &plan.columns else {
            self.wire.command_complete(&tag.text(0));
            self.end_run(&run.destination);
            return Ok(());
        };
        let result = match &plan.work {
            ClientWork::Call { shape, .. } => shape.of(result, Some(columns)),
            _ => result,
        };
        self.answer(&run.destination, Arc::clone(columns), result.rows, tag)
    }

    /// Begins to send rows.
    pub(super) fn answer(
        &mut self,
        destination: &Destination,
        columns: Columns,
        rows: Vec<Vec<Value>>,
        tag: Tag,
    ) -> Result<(), Box<ErrorFields>> {
        let mut copy = None;
        let (formats, rows_left, portal) = match destination {
            Destination::Simple => {
                let formats = vec![Format::Text; columns.len()];
                self.wire.row_description(&fields(&columns, &formats));
                (formats, None, None)
            }
            Destination::Portal {
                name,
                formats,
                rows_left,
            } => (
                column_formats(formats, columns.len())?,
                *rows_left,
                Some(name.clone()),
            ),
            Destination::Copy { prepared, portal } => {
                if let Some(run) = prepared.copy() {
                    copy = Some(Box::new(self.begin_copy_out(&run.options, &columns)));
                }
                (Vec::new(), None, portal.clone())
            }
            Destination::CopyPart => (Vec::new(), None, None),
            Destination::Cursor {
                name,
                options,
                statement,
                answer,
            } => {
                let named = (name.clone(), Arc::clone(statement));
                self.open_cursor(named, *options, columns, rows);
                self.complete_without_rows(answer, "DECLARE CURSOR");
                return Ok(());
            }
        };
        if self.is_exclusive() {
            self.deadline = self.idle_deadline(Instant::now());
        }
        self.state = State::Sending(Box::new(Sending {
            columns,
            rows: rows.into_iter(),
            formats,
            tag,
            sent: 0,
            rows_left,
            portal,
            copy,
        }));
        Ok(())
    }

    /// Answers a statement that returns no rows.
    pub(super) fn complete_without_rows(&mut self, destination: &Destination, tag: &str) {
        self.wire.command_complete(tag);
        self.end_run(destination);
    }

    fn end_run(&mut self, destination: &Destination) {
        self.end_statement();
        let portal = match destination {
            Destination::Simple | Destination::Cursor { .. } | Destination::CopyPart => None,
            Destination::Portal { name, .. } => Some(name),
            Destination::Copy { portal, .. } => portal.as_ref(),
        };
        if let Some(name) = portal {
            self.portal_done(name);
        }
    }
}

/// Whether a value of the connection is an advisory lock of the transaction.
fn locks(value: &SessionValue) -> bool {
    matches!(value, SessionValue::Advisory { function, .. } if function.is_of_transaction())
}

/// Whether a value of the connection is a call of `pg_notify`.
pub(super) fn notifies(value: &SessionValue) -> bool {
    matches!(value, SessionValue::Notify(_))
}
