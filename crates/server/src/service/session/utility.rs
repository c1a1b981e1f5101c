//! Statements that concern the session alone: settings, prepared statements, transaction control.

use std::path::PathBuf;
use std::sync::Arc;

use anabranch_sql::Message;
use anabranch_sql::catalog::RaiseLevel;
use anabranch_sql::client::{ClientStatementKind, DiscardKind, SetValue, TransactionModes};
use anabranch_types::Value;
use anabranch_wire::{ErrorFields, Severity};

use super::notify::ListenChange;
use super::run::{Destination, Run};
use super::{Scope, Session, State};
use crate::backup::BackupError;
use crate::frontend::{JobDone, Note};
use crate::service::environment::now_micros;
use crate::service::errors::{error, error_with_hint, of_diagnostic, of_diagnostics, of_effect};
use crate::service::prepared::{Columns, Prepared, PreparedKind, Tag, utility_columns};
use crate::service::settings::Reported;

/// The settings whose values are lists.
const LISTS: [&str; 4] = [
    "datestyle",
    "search_path",
    "temp_tablespaces",
    "local_preload_libraries",
];

impl Session {
    /// The columns of a prepared statement's result, if it returns rows.
    pub(super) fn columns_of(&self, prepared: &Prepared) -> Option<Columns> {
        match &prepared.kind {
            PreparedKind::Utility(statement) => match &**statement {
                ClientStatementKind::Execute { name, .. } => {
                    self.statements.get(name).ok()?.columns().cloned()
                }
                ClientStatementKind::Fetch {
                    name, moves: false, ..
                } => self.cursor_columns(name),
                _ => prepared.columns().cloned(),
            },
            _ => prepared.columns().cloned(),
        }
    }

    /// Runs a statement that concerns the session alone, or the prepared statement that it names.
    pub(super) fn utility(
        &mut self,
        statement: &ClientStatementKind,
        run: Run,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        if let ClientStatementKind::Backup { folder } = statement {
            self.check_outside_block("BACKUP")?;
            return self.back_up(folder, run, scope);
        }
        let destination = &run.destination;
        let tag = match statement {
            ClientStatementKind::Set { local, name, value } => {
                self.set(*local, name, value)?;
                "SET"
            }
            ClientStatementKind::SetTransaction { session, modes } => {
                self.set_transaction(*session, *modes)?;
                "SET"
            }
            ClientStatementKind::SetConstraints {
                selection,
                deferred,
            } => return self.set_constraints(selection, *deferred, destination, scope),
            ClientStatementKind::Reset(Some(name)) => {
                let change = self.settings.reset(name)?;
                self.report(change);
                "RESET"
            }
            ClientStatementKind::Reset(None) => {
                self.reset_all();
                "RESET"
            }
            ClientStatementKind::ResetSystem(name) => {
                let name = name.clone();
                return self.reset_system(name.as_deref(), run, scope);
            }
            ClientStatementKind::Show(name) => return self.show(name.as_deref(), destination),
            ClientStatementKind::Discard(kind) => {
                if *kind == DiscardKind::All {
                    self.check_outside_block("DISCARD ALL")?;
                    self.cursors.clear();
                    self.release_session_locks();
                    self.unlisten_all();
                    self.reset_all();
                    self.statements.clear();
                }
                if matches!(kind, DiscardKind::All | DiscardKind::Sequences) {
                    self.sequences.discard();
                }
                kind.tag()
            }
            ClientStatementKind::Prepare {
                name,
                parameter_types,
                statement,
            } => {
                self.statements.check_free(name)?;
                let prepared =
                    self.prepare_runnable(statement, parameter_types, &run.prepared.text)?;
                self.statements.insert(name, prepared)?;
                "PREPARE"
            }
            ClientStatementKind::Execute { name, arguments } => {
                let prepared = self.named(name)?;
                let types = prepared.parameter_types();
                if arguments.len() != types.len() {
                    let message =
                        format!("wrong number of parameters for prepared statement \"{name}\"");
                    let mut fields = error("42601", message);
                    fields.detail = Some(format!(
                        "Expected {} parameters but got {}.",
                        types.len(),
                        arguments.len()
                    ));
                    return Err(fields);
                }
                let application = &self.environment.planned.application;
                let text = Arc::clone(&run.prepared.text);
                let (list, wanted) = application
                    .execute_arguments(name, arguments, types)
                    .map_err(|problems| of_diagnostics(&problems, 0, &text))?;
                let now = now_micros();
                let values = self.session_values(&wanted, &[], &text, now)?;
                let parameters = self.evaluate(&list, &values, now)?;
                let run = Run {
                    prepared,
                    parameters,
                    ..run
                };
                return self.run(run, scope);
            }
            ClientStatementKind::Deallocate(Some(name)) => {
                self.statements.get(name)?;
                self.statements.remove(name);
                "DEALLOCATE"
            }
            ClientStatementKind::Deallocate(None) => {
                self.statements.clear();
                "DEALLOCATE ALL"
            }
            ClientStatementKind::Change(statement) => {
                return self.change_schema(Arc::new((**statement).clone()), run, scope);
            }
            ClientStatementKind::Transaction(statement) => {
                return self.transaction(statement, destination, scope);
            }
            ClientStatementKind::DeclareCursor(declaration) => {
                return self.declare_cursor(declaration, run, scope);
            }
            ClientStatementKind::Fetch {
                direction,
                name,
                moves,
            } => return self.fetch(name, *direction, *moves, destination),
            ClientStatementKind::CloseCursor(name) => {
                self.close_cursor(name.as_deref())?;
                "CLOSE CURSOR"
            }
            ClientStatementKind::Listen(channel) => {
                self.change_channels(ListenChange::Listen(channel.clone()), scope)?;
                "LISTEN"
            }
            ClientStatementKind::Unlisten(channel) => {
                let one = channel.clone().map(ListenChange::Unlisten);
                self.change_channels(one.unwrap_or(ListenChange::UnlistenAll), scope)?;
                "UNLISTEN"
            }
            ClientStatementKind::Notify { channel, payload } => {
                self.add_notification(channel, payload, scope)?;
                "NOTIFY"
            }
            ClientStatementKind::Maintenance { tag } => {
                if *tag == "VACUUM" {
                    self.check_outside_block(tag)?;
                }
                tag
            }
            ClientStatementKind::Unsupported(problem) => {
                return Err(of_diagnostic(problem, 0, &run.prepared.text));
            }
            _ => {
                let message = "this statement is not supported";
                return Err(error("0A000", message));
            }
        };
        self.complete_without_rows(destination, tag);
        Ok(())
    }

    /// Has a helper thread copy the data into a folder.
    fn back_up(
        &mut self,
        folder: &str,
        run: Run,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let Some(post) = scope.post.map(Arc::clone) else {
            return Err(error("57P03", "the server is starting up"));
        };
        let Some(backups) = self.environment.shared.backups() else {
            return Err(error_with_hint(
                "55000",
                "data in memory cannot be backed up",
                "Start the server with --data.",
            ));
        };
        // The nodes go on until it is done.
        let Some(permit) = self.environment.shared.gate.enter(scope.node, false) else {
            let message = "the schema is being changed: run BACKUP again when that is done";
            return Err(error("55006", message));
        };
        let folder = PathBuf::from(folder);
        let (node, connection, place) = (scope.node, scope.connection, scope.place);
        let work = move || {
            let code = |error: &BackupError| match error {
                BackupError::Busy => "55006",
                BackupError::Folder(_) => "22023",
                BackupError::Failed(_) => "58030",
            };
            let done = backups.back_up(&folder);
            drop(permit);
            let result = match done {
                Ok(()) => Ok(JobDone::Completed("BACKUP")),
                Err(failure) => Err(error(code(&failure), failure.to_string())),
            };
            let note = Note::Done {
                connection,
                place,
                result,
            };
            post.post(node, note);
        };
        // It takes long: not on the thread that analyses statements.
        let spawned = std::thread::Builder::new()
            .name("backup".to_owned())
            .spawn(work);
        spawned.map_err(|failure| error("53000", format!("cannot start a thread: {failure}")))?;
        self.backs_up = true;
        self.state = State::Working { run: Box::new(run) };
        Ok(())
    }

    fn set(&mut self, local: bool, name: &str, value: &SetValue) -> Result<(), Box<ErrorFields>> {
        if local && !self.in_explicit_block() {
            self.warn("25P01", "SET LOCAL can only be used in transaction blocks");
            return Ok(());
        }
        match local {
            true => self.note_local(name),
            false => self.note_set(name),
        }
        let change = match value {
            SetValue::Default => self.settings.reset(name)?,
            SetValue::Values(values) => {
                let is_list = LISTS.iter().any(|list| list.eq_ignore_ascii_case(name));
                match values.as_slice() {
                    [value] => self.settings.set(name, value)?,
                    values if is_list => self.settings.set(name, &values.join(", "))?,
                    _ => {
                        let message = format!("SET {name} takes only one argument");
                        return Err(error("22023", message));
                    }
                }
            }
        };
        self.report(change);
        if name.eq_ignore_ascii_case("anabranch.accept_plan")
            && self.settings.is_on("anabranch.accept_plan")
        {
            self.note_without_plan("The setting has no effect here.");
        }
        Ok(())
    }

    fn set_transaction(
        &mut self,
        session: bool,
        modes: TransactionModes,
    ) -> Result<(), Box<ErrorFields>> {
        if !session && self.in_explicit_block() {
            return self.set_block_modes(modes);
        }
        if !session {
            let message = "SET TRANSACTION can only be used in transaction blocks";
            self.warn("25P01", message);
            return Ok(());
        }
        let on_off = |on: bool| if on { "on" } else { "off" };
        let values = [
            (
                "default_transaction_isolation",
                modes.isolation.map(|level| level.name()),
            ),
            ("default_transaction_read_only", modes.read_only.map(on_off)),
            (
                "default_transaction_deferrable",
                modes.deferrable.map(on_off),
            ),
        ];
        for (name, value) in values {
            if let Some(value) = value {
                let change = self.settings.set(name, value)?;
                self.report(change);
            }
        }
        Ok(())
    }

    /// Tells the client of a setting's change, if it wants to know.
    pub(super) fn report(&mut self, change: Reported) {
        if let Some((name, value)) = change {
            self.wire.parameter_status(name, &value);
        }
    }

    fn reset_all(&mut self) {
        for (name, value) in self.settings.reset_all() {
            self.wire.parameter_status(name, &value);
        }
    }

    fn show(
        &mut self,
        name: Option<&str>,
        destination: &Destination,
    ) -> Result<(), Box<ErrorFields>> {
        let tag = Tag::Text("SHOW".to_owned());
        let columns = utility_columns(&ClientStatementKind::Show(name.map(str::to_owned)));
        let columns = columns.unwrap_or_else(|| [].into());
        let rows = match name {
            Some(name) => vec![vec![Value::text(self.settings.get(name)?)]],
            None => {
                let all = self.settings.all();
                let row = |(name, value): &(String, String)| {
                    vec![Value::text(name), Value::text(value), Value::text("")]
                };
                all.iter().map(row).collect()
            }
        };
        self.answer(destination, columns, rows, tag)
    }

    /// Warns the client, unless it does not want to know.
    pub(super) fn warn(&mut self, code: &'static str, message: &str) {
        self.tell(Severity::Warning, error(code, message));
    }

    /// Sends a notice of this severity, unless the client does not want to know.
    pub(super) fn tell(&mut self, severity: Severity, mut fields: Box<ErrorFields>) {
        let least = self.settings.get("client_min_messages");
        let least = least.map_or(RANK_OF_NOTICE, |least| rank(&least));
        let is_wanted = match severity {
            Severity::Error | Severity::Fatal | Severity::Info => true,
            Severity::Debug => least <= rank("debug1"),
            Severity::Log => least <= rank("log"),
            Severity::Notice => least <= RANK_OF_NOTICE,
            Severity::Warning => least <= rank("warning"),
        };
        if is_wanted {
            fields.severity = severity;
            self.wire.notice(&fields);
        }
    }

    /// Sends what procedures have said by RAISE.
    pub(super) fn tell_messages(&mut self, messages: &[Message]) {
        for message in messages {
            let severity = match message.level {
                RaiseLevel::Debug => Severity::Debug,
                RaiseLevel::Log => Severity::Log,
                RaiseLevel::Info => Severity::Info,
                RaiseLevel::Notice => Severity::Notice,
                RaiseLevel::Warning | RaiseLevel::Exception => Severity::Warning,
            };
            self.tell(severity, of_effect(&message.content));
        }
    }
}

/// The rank of notices among the values of `client_min_messages`.
const RANK_OF_NOTICE: u8 = 7;

/// The rank of a value of `client_min_messages`: what ranks below it is not sent.
fn rank(level: &str) -> u8 {
    match level {
        "debug5" => 0,
        "debug4" => 1,
        "debug3" => 2,
        "debug2" | "debug" => 3,
        "debug1" => 4,
        "log" => 5,
        "info" => 6,
        "notice" => RANK_OF_NOTICE,
        "warning" => 8,
        _ => 9,
    }
}
