//! Statements that change the schema, and what every transaction waits for while another changes it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_engine::undeclared::AcceptedShape;
use anabranch_sql::change::{ChangeSettings, ChangeStatement, Notice};
use anabranch_wire::{ErrorFields, Request, Severity};

use super::block::Control;
use super::run::Run;
use super::{Batch, Scope, Session, State};
use crate::frontend::{Changed, ConnectionId};
use crate::service::changes::{ChangeRequest, ChangeWork, ClientState, PlanChange};
use crate::service::environment::Environment;
use crate::service::errors::{error, error_with_hint};

/// What waits while another transaction changes the schema.
pub(super) enum Waiting {
    Statement(Run),
    Request(Request),
}

/// A statement for which the plan changes.
pub(super) struct Accepting {
    /// How often it was asked for: again if others have changed the plan meanwhile.
    rounds: u8,
    /// When the statement is cancelled, however often it begins anew.
    deadline: Option<Instant>,
}

/// How often a statement asks for a change of the plan.
const ACCEPT_ROUNDS_MAX: u8 = 3;

/// The most bytes of the texts of an accepted transaction: they are kept in memory, in the data folder and in backups.
const SHAPE_BYTES_MAX: usize = 64 << 10;

/// The end of a transaction that has changed the schema.
pub(super) struct Finishing {
    /// What is answered then, if anything is.
    pub(super) control: Option<Box<Control>>,
    /// Whether to commit, if the request has not been sent.
    unsent: Option<bool>,
}

impl Finishing {
    /// Whether the request to commit is under way.
    pub(super) fn commits(&self) -> bool {
        self.control.is_some() && self.unsent.is_none()
    }
}

impl Session {
    /// Has the schema changed.
    pub(super) fn change_schema(
        &mut self,
        statement: Arc<ChangeStatement>,
        run: Run,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let tag = statement.tag();
        if self.is_read_only() {
            let message = format!("cannot execute {tag} in a read-only transaction");
            return Err(error("25006", message));
        }
        if self.block.is_none() && !self.is_alone(&run.destination) {
            self.begin_implicit(scope);
        }
        self.request_work(Some(statement), None, run, scope)
    }

    /// Has the plan of all become one that knows this shape. Then the statement goes on.
    pub(super) fn accept_plan(
        &mut self,
        shape: AcceptedShape,
        mut run: Run,
        scope: &Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let texts = shape.statements.iter().map(|of| of.text.len());
        if texts.sum::<usize>() > SHAPE_BYTES_MAX {
            let message = format!(
                "a plan does not accept a transaction whose statements have more than {SHAPE_BYTES_MAX} bytes"
            );
            let hint = "Send long values as parameters, or declare the transaction as a procedure.";
            return Err(error_with_hint("54000", message, hint));
        }
        let deadline = self.deadline;
        let accepting = self.accepting.get_or_insert(Accepting {
            rounds: 0,
            deadline,
        });
        accepting.rounds += 1;
        if accepting.rounds > ACCEPT_ROUNDS_MAX {
            let message = "the plan has no room for the statement, although it was accepted";
            return Err(error("XX000", message));
        }
        // It runs from its beginning then, and takes the connection's values again.
        let given = run.prepared.parameter_types().len();
        run.parameters.truncate(given);
        self.notify_again(&run);
        if self.open_part().is_none() {
            // Nothing of it is at a node: others that change something need not wait for it.
            self.permit = None;
        }
        self.request_work(None, Some(PlanChange::Accept(shape)), run, scope)
    }

    /// ALTER SYSTEM RESET: has the plan of all become the one without what clients have accepted.
    pub(super) fn reset_system(
        &mut self,
        name: Option<&str>,
        run: Run,
        scope: &Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        self.check_outside_block("ALTER SYSTEM")?;
        if let Some(name) = name
            && !name.eq_ignore_ascii_case("anabranch.accept_plan")
        {
            self.settings.get(name)?;
            let message = format!("parameter \"{name}\" cannot be changed for all connections");
            let hint = "ALTER SYSTEM RESET anabranch.accept_plan takes back which plans were accepted. Set other \
                        parameters by SET, or by options of the connection.";
            return Err(error_with_hint("0A000", message, hint));
        }
        self.note_without_plan("There is nothing to take back.");
        self.request_work(None, Some(PlanChange::Forget), run, scope)
    }

    /// Has the session become alone, in the block that is open. Then the statement goes on.
    pub(super) fn request_alone(
        &mut self,
        run: Run,
        scope: &Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        if self.open_part().is_none() {
            // Nothing of it is at a node: others that want to be alone need not wait for it.
            self.permit = None;
        }
        self.request_work(None, None, run, scope)
    }

    /// Tells the client that there is no plan, where its statement is about one.
    pub(super) fn note_without_plan(&mut self, detail: &str) {
        if self.environment.undeclared.is_none() {
            self.notify(&Notice {
                code: "00000",
                message: "this server has no plan: it runs every transaction as serializable"
                    .to_owned(),
                detail: Some(detail.to_owned()),
            });
        }
    }

    /// When the statement that begins now is cancelled. One for which the plan has changed began before.
    pub(super) fn statement_deadline(&self, now: Instant) -> Option<Instant> {
        match &self.accepting {
            Some(accepting) => accepting.deadline,
            None => self.settings.statement_timeout().map(|after| now + after),
        }
    }

    fn request_work(
        &mut self,
        statement: Option<Arc<ChangeStatement>>,
        plan: Option<PlanChange>,
        run: Run,
        scope: &Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        if self.environment.ring.is_some() {
            let message =
                "a database that is in a ring runs no TRUNCATE, and its schema is not changed";
            let hint = "DELETE takes rows away. For another schema, start the ring with the application's new files.";
            return Err(error_with_hint("0A000", message, hint));
        }
        let client_state = Arc::<ClientState>::default();
        let work = ChangeWork {
            client: scope.id(),
            statement,
            plan,
            version: self.environment.version,
            settings: ChangeSettings {
                check_function_bodies: self.settings.is_on("check_function_bodies"),
            },
            whole: Arc::clone(&run.prepared.text),
            start: 0,
            part: self.open_part(),
            is_alone: self.block.is_none(),
            has_permit: self.permit.is_some(),
            client_state: Arc::clone(&client_state),
            until: self.lock_timeout().map(|after| scope.now + after),
        };
        self.request_change(ChangeRequest::Change(Box::new(work)))?;
        self.change = Some(client_state);
        self.deadline = self.statement_deadline(scope.now);
        self.state = State::Working { run: Box::new(run) };
        Ok(())
    }

    pub(super) fn lock_timeout(&self) -> Option<Duration> {
        let limit = self.settings.lock_timeout();
        limit.map(|ticks| Duration::from_nanos(ticks.0))
    }

    fn request_change(&self, request: ChangeRequest) -> Result<(), Box<ErrorFields>> {
        let shared = &self.environment.shared;
        match shared.changes.push(&shared.gate, request) {
            true => Ok(()),
            false => Err(error("57P03", "the server is shutting down")),
        }
    }

    /// Takes what the changer has done with a statement.
    pub(super) fn changed(
        &mut self,
        run: &Run,
        changed: Changed,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        self.change = None;
        for notice in &changed.notices {
            self.notify(notice);
        }
        self.note_change(&changed, scope);
        match changed.refused {
            None => {
                self.complete_without_rows(&run.destination, tag_of(run));
                Ok(())
            }
            // It was cancelled for a reason of its own.
            Some(fields) if fields.code == "57014" => Err(self.cancelled.take().unwrap_or(fields)),
            Some(fields) => Err(fields),
        }
    }

    /// Has the changer keep the rows of a table as they are, so that they can be put back; then the statement goes on.
    pub(super) fn keep_rows_of(
        &mut self,
        table: &str,
        run: Run,
        scope: &Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        self.request_change(ChangeRequest::Keep {
            client: scope.id(),
            // What the block has written elsewhere is committed together with the first rows.
            table: (!self.has_written()).then(|| table.to_owned()),
        })?;
        self.note_kept(table);
        self.change = Some(Arc::default());
        self.state = State::Working { run: Box::new(run) };
        Ok(())
    }

    /// Goes on with a statement that waited to be alone or for another plan, or with a COPY that waited for rows to be kept.
    pub(super) fn admitted_alone(
        &mut self,
        run: Run,
        changed: Changed,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        self.change = None;
        for notice in &changed.notices {
            self.notify(notice);
        }
        if changed.is_exclusive && !self.is_exclusive() {
            self.note_change(&changed, scope);
        }
        if !self.is_exclusive() {
            self.adopt_common();
        }
        match changed.refused {
            None if self.copying.is_some() && run.parameters.is_empty() => {
                self.go_on_copying();
                Ok(())
            }
            None => match self.cancelled.take() {
                Some(fields) => Err(fields),
                None => self.run(run, scope),
            },
            Some(fields) if fields.code == "57014" => Err(self.cancelled.take().unwrap_or(fields)),
            Some(fields) => Err(fields),
        }
    }

    /// Has the transaction end that has changed the schema. What comes next waits for the answer.
    pub(super) fn finish_change(&mut self, commits: bool, control: Option<Box<Control>>) {
        self.finishing = Some(Finishing {
            control,
            unsent: Some(commits),
        });
    }

    /// Sends the request for it.
    pub(super) fn send_finish(&mut self, scope: &Scope<'_>) {
        let unsent = self.finishing.as_mut().and_then(|it| it.unsent.take());
        let Some(commits) = unsent else {
            return;
        };
        let request = ChangeRequest::Finish {
            client: scope.id(),
            commits,
            is_awaited: true,
        };
        if let Err(fields) = self.request_change(request) {
            self.terminate(fields);
        }
    }

    /// As [`Session::finish_change`], for a connection that ends.
    pub(super) fn give_up_change(&mut self, client: ConnectionId) {
        if let Some(client_state) = self.change.take() {
            client_state.leave();
        }
        // Without a changer the server ends, and with it everything.
        let _ = self.request_change(ChangeRequest::Finish {
            client,
            commits: false,
            is_awaited: false,
        });
    }

    /// Lets the statement pass the gate, or keeps it until that is open.
    pub(super) fn admit(&mut self, run: Run, scope: &Scope<'_>) -> Option<Run> {
        if self.permit.is_some() {
            return Some(run);
        }
        let gate = &self.environment.shared.gate;
        self.permit = gate.enter(scope.node, self.is_exclusive());
        if self.permit.is_some() {
            // The note that the gate is open may be on its way still.
            if !self.is_exclusive() {
                self.adopt_common();
            }
            return Some(run);
        }
        self.wait(Waiting::Statement(run), scope);
        None
    }

    /// As [`Session::admit`], for a request whose meaning depends on the schema.
    pub(super) fn admit_request(&mut self, request: Request, scope: &Scope<'_>) -> Option<Request> {
        let depends = match &request {
            // It shows what others wait for. If it reads rows, too, it waits before it runs.
            Request::Query { text } => !text.contains("anabranch.transactions"),
            Request::Parse { .. } | Request::Bind { .. } | Request::Describe(_) => true,
            _ => false,
        };
        let is_admitted = self.permit.is_some() || self.is_exclusive();
        if !depends || is_admitted || !self.environment.shared.gate.is_closed() {
            return Some(request);
        }
        self.wait(Waiting::Request(request), scope);
        None
    }

    fn wait(&mut self, what: Waiting, scope: &Scope<'_>) {
        let of_lock = self.lock_timeout().map(|after| scope.now + after);
        let limits = [self.statement_deadline(scope.now), of_lock];
        self.deadline = limits.into_iter().flatten().min();
        self.state = State::Waiting(Box::new(what));
    }

    /// Whether `lock_timeout` is what limits the wait for the gate.
    pub(super) fn lock_timeout_is_first(&self) -> bool {
        let limit = self.settings.statement_timeout();
        self.lock_timeout()
            .is_some_and(|of_lock| limit.is_none_or(|of_all| of_lock < of_all))
    }

    /// The gate is open: goes on with what has waited for it.
    pub(crate) fn gate_opened(&mut self, scope: &mut Scope<'_>) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Waiting(waiting) => {
                self.deadline = None;
                match *waiting {
                    Waiting::Statement(run) => {
                        if let Err(fields) = self.run(run, scope) {
                            self.fail(&fields);
                        }
                    }
                    Waiting::Request(request) => self.handle(request, scope),
                }
            }
            other => self.state = other,
        }
    }

    /// Gives up what waits.
    pub(super) fn stop_waiting(&mut self, fields: &ErrorFields) {
        if let State::Waiting(waiting) = &self.state
            && matches!(**waiting, Waiting::Request(Request::Query { .. }))
        {
            // The end of the text is told, too.
            self.batch = Some(Batch {
                text: "".into(),
                items: VecDeque::new(),
            });
        }
        self.fail(fields);
    }

    /// Leaves the gate if nothing of the session is at a node.
    pub(super) fn leave_gate(&mut self) {
        let is_at_node = self.block.as_ref().is_some_and(|block| block.is_at_node());
        let is_busy = matches!(
            self.state,
            State::Calling { .. } | State::Working { .. } | State::CopyingIn(_)
        );
        // What waits for an advisory lock must not keep the gate from closing: the other connection may want that first.
        if !is_at_node && (!is_busy || self.locks.waits()) {
            self.permit = None;
        }
    }

    /// Goes on under the environment of all, if that is another one by now.
    fn adopt_common(&mut self) {
        let shared = &self.environment.shared;
        if shared.version() != self.environment.version
            && let Some(common) = shared.common()
        {
            self.adopt(&common);
        }
    }

    /// Goes on under another environment.
    pub(crate) fn adopt(&mut self, environment: &Arc<Environment>) {
        self.environment = Arc::clone(environment);
    }

    fn notify(&mut self, notice: &Notice) {
        let mut fields = error(notice.code, notice.message.clone());
        fields.detail.clone_from(&notice.detail);
        self.tell(Severity::Notice, fields);
    }
}

fn tag_of(run: &Run) -> &'static str {
    run.prepared.change_tag().unwrap_or("CREATE")
}
