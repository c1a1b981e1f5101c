//! Transaction blocks: BEGIN … COMMIT, savepoints, and what PostgreSQL runs as one transaction without BEGIN: the
//! statements of one text, and those of a pipeline up to its Sync.
//!
//! A session has a block from its begin on; its node has one from the first statement that touches a table
//! (`docs/protocols/interactive.md`). So a block goes to the node that has the rows of its first statement.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_engine::undeclared::{BlockStatement, StatementEntry};
use anabranch_engine::{
    BlockId, BlockOptions, Call, Outcome, SavepointId, StatementCode, StatementWork, Step,
    StepAction, TransactionClient, Work,
};
use anabranch_protocol::belt::Hop;
use anabranch_sql::client::{IsolationLevel, TransactionModes, TransactionStatement};
use anabranch_sql::deferred::{ConstraintSelection, ConstraintTiming};
use anabranch_types::{NodeId, PartitionId, Value};
use anabranch_wire::{ErrorFields, TransactionStatus};

use super::notify::{PendingMark, PendingNotifications};
use super::run::{Destination, Run};
use super::{Awaited, Scope, Session, State};
use crate::frontend::{Changed, NodeRequest};
use crate::service::changes::OpenPart;
use crate::service::environment::now_micros;
use crate::service::errors::{error, of_call, of_effect};
use crate::service::options::Guarantee;
use crate::service::prepared::Prepared;
use crate::service::settings::{Settings, TransactionSettings};

/// A session's open transaction.
pub(super) struct Block {
    id: BlockId,
    /// The node that has it, once a statement has been sent there.
    node: Option<NodeId>,
    /// Whether BEGIN began it.
    is_explicit: bool,
    /// `now()`.
    timestamp: i64,
    modes: TransactionModes,
    /// Whether a statement has failed: only the end of the block, or of a part of it, is accepted.
    has_failed: bool,
    /// Whether its node has forgotten it: it cannot go back to a savepoint.
    is_over: bool,
    /// Whether a statement has been run, so that its modes cannot be changed.
    has_run: bool,
    savepoints: Vec<Savepoint>,
    next_savepoint: u64,
    /// The settings when it began.
    settings: Settings,
    /// What SET LOCAL has replaced.
    locals: BTreeMap<String, String>,
    /// What SET CONSTRAINTS has said.
    timing: Option<Arc<ConstraintTiming>>,
    /// The statements that it has run, each once. Under a plan they are its transaction type.
    statements: Vec<Arc<Prepared>>,
    /// The number of the one of them that has not come to the node yet, and whether the block had written before it.
    unsent: Option<(u64, bool)>,
    wrote: bool,
    /// The plan entry of these statements, if one of them writes.
    entry: Option<Arc<StatementEntry>>,
    /// Whether it has changed the schema, and runs alone.
    is_exclusive: bool,
    /// The tables whose rows can be put back as they were after its last change of the schema.
    kept: Vec<String>,
    /// What it does about notifications when it commits.
    pub(super) notifications: PendingNotifications,
}

impl Block {
    /// Whether its node has something of it.
    pub(super) fn is_at_node(&self) -> bool {
        self.node.is_some()
    }
}

/// How long the client of a transaction that has changed the schema may be idle in it.
pub(super) const EXCLUSIVE_IDLE: Duration = Duration::from_secs(30);

/// A place in a block to go back to.
struct Savepoint {
    name: String,
    id: SavepointId,
    settings: Settings,
    locals: BTreeMap<String, String>,
    timing: Option<Arc<ConstraintTiming>>,
    /// The number of the transaction's advisory locks before it.
    locks: usize,
    notifications: PendingMark,
    /// The number of the last cursor before it.
    cursor: u64,
    /// Whether the schema has changed since.
    is_before_change: bool,
}

/// A call that ends a block, or sets or goes back to a savepoint.
pub(super) struct Control {
    kind: ControlKind,
    /// Where the answer goes; `None` at the end of an implicit block, which has none of its own.
    destination: Option<Destination>,
    tag: &'static str,
    /// Whether another block begins, with the same modes.
    chain: bool,
}

impl Control {
    /// Whether it commits the block.
    pub(super) fn commits(&self) -> bool {
        matches!(self.kind, ControlKind::Commit)
    }
}

enum ControlKind {
    Commit,
    Savepoint(Box<Savepoint>),
    /// To the savepoint at this place.
    RollbackTo(usize),
    /// Deferred checks have been run.
    Constraints,
    /// A part of a COPY is to last as long as the transaction's changes.
    CopyPart,
}

impl Session {
    /// Whether a block is open that BEGIN began.
    pub(super) fn in_explicit_block(&self) -> bool {
        self.block.as_ref().is_some_and(|block| block.is_explicit)
    }

    /// Whether a block is open that has no BEGIN.
    pub(super) fn in_implicit_block(&self) -> bool {
        self.block.as_ref().is_some_and(|block| !block.is_explicit)
    }

    /// What the client is told of the transaction.
    pub(super) fn transaction_status(&self) -> TransactionStatus {
        match &self.block {
            Some(block) if block.has_failed => TransactionStatus::Failed,
            Some(block) if block.is_explicit => TransactionStatus::Open,
            _ => TransactionStatus::Idle,
        }
    }

    /// `now()` of the statement that runs next.
    pub(super) fn transaction_time(&self) -> i64 {
        self.block
            .as_ref()
            .map_or_else(now_micros, |block| block.timestamp)
    }

    /// Refuses what cannot be run in a block that has failed.
    pub(super) fn check_not_failed(&self) -> Result<(), Box<ErrorFields>> {
        match &self.block {
            Some(block) if block.has_failed => Err(error(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
            )),
            _ => Ok(()),
        }
    }

    /// Refuses what must not be run in a block.
    pub(super) fn check_outside_block(&self, what: &str) -> Result<(), Box<ErrorFields>> {
        match self.block {
            Some(_) => Err(error(
                "25001",
                format!("{what} cannot run inside a transaction block"),
            )),
            None => Ok(()),
        }
    }

    /// Whether statements that write are refused.
    pub(super) fn is_read_only(&self) -> bool {
        let of_block = self.block.as_ref().and_then(|block| block.modes.read_only);
        of_block.unwrap_or_else(|| self.settings.is_on("default_transaction_read_only"))
    }

    /// Begins a block that has no BEGIN.
    pub(super) fn begin_implicit(&mut self, scope: &mut Scope<'_>) {
        self.begin(false, TransactionModes::default(), scope);
    }

    fn begin(&mut self, is_explicit: bool, modes: TransactionModes, scope: &mut Scope<'_>) {
        let settings = self.settings.clone();
        self.block = Some(Box::new(Block {
            id: BlockId(scope.next_id()),
            node: None,
            is_explicit,
            timestamp: now_micros(),
            modes,
            has_failed: false,
            is_over: false,
            has_run: false,
            savepoints: Vec::new(),
            next_savepoint: SavepointId::START.0,
            settings,
            locals: BTreeMap::new(),
            timing: None,
            statements: Vec::new(),
            unsent: None,
            wrote: false,
            entry: None,
            is_exclusive: false,
            kept: Vec::new(),
            notifications: PendingNotifications::default(),
        }));
        self.show_modes();
    }

    /// Lets SHOW give the modes of the block.
    fn show_modes(&mut self) {
        let shown = self.block.as_ref().map(|block| {
            let level = self.isolation(block.modes);
            TransactionSettings {
                isolation: match self.environment.guarantee {
                    Guarantee::Serializable => IsolationLevel::Serializable.name(),
                    Guarantee::Invariants => level.name(),
                },
                read_only: self.is_read_only(),
                deferrable: block.modes.deferrable,
            }
        });
        self.settings.set_transaction(shown);
    }

    /// The isolation level that a block with these modes has been asked for.
    fn isolation(&self, modes: TransactionModes) -> IsolationLevel {
        modes.isolation.unwrap_or_else(|| {
            let name = self.settings.get("default_transaction_isolation");
            name.ok()
                .and_then(|name| IsolationLevel::named(&name))
                .unwrap_or(IsolationLevel::ReadCommitted)
        })
    }

    /// The statement that controls transactions. Returns whether it has been answered; otherwise its call is under way.
    pub(super) fn transaction(
        &mut self,
        statement: &TransactionStatement,
        destination: &Destination,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        match statement {
            TransactionStatement::Begin { modes, .. } => {
                match &mut self.block {
                    Some(block) if block.is_explicit => {
                        self.check_not_failed()?;
                        self.warn("25001", "there is already a transaction in progress");
                    }
                    // As in PostgreSQL: what ran before BEGIN in the same text belongs to the block.
                    Some(block) => {
                        block.is_explicit = true;
                        block.modes = *modes;
                    }
                    None => self.begin(true, *modes, scope),
                }
                self.show_modes();
            }
            TransactionStatement::Commit { chain } => {
                self.check_chain(*chain, "COMMIT AND CHAIN")?;
                if !self.in_explicit_block() {
                    self.warn("25P01", "there is no transaction in progress");
                }
                if self.block.as_ref().is_some_and(|block| block.has_failed) {
                    self.roll_back(*chain, scope);
                    self.complete_without_rows(destination, "ROLLBACK");
                    return Ok(());
                }
                self.commit(Some(destination.clone()), statement.tag(), *chain, scope);
                return Ok(());
            }
            TransactionStatement::Rollback { chain } => {
                self.check_chain(*chain, "ROLLBACK AND CHAIN")?;
                if !self.in_explicit_block() {
                    self.warn("25P01", "there is no transaction in progress");
                }
                self.roll_back(*chain, scope);
            }
            TransactionStatement::Savepoint(name) => {
                self.check_explicit("SAVEPOINT")?;
                self.check_not_failed()?;
                return self.savepoint(name, destination, scope);
            }
            TransactionStatement::Release(name) => {
                self.check_explicit("RELEASE SAVEPOINT")?;
                self.check_not_failed()?;
                let place = self.savepoint_place(name)?;
                if let Some(block) = &mut self.block {
                    block.savepoints.truncate(place);
                }
            }
            TransactionStatement::RollbackTo(name) => {
                self.check_explicit("ROLLBACK TO SAVEPOINT")?;
                let place = self.savepoint_place(name)?;
                return self.roll_back_to(place, destination, scope);
            }
            other => {
                let message = format!("{} is not supported", other.tag());
                return Err(error("0A000", message));
            }
        }
        self.complete_without_rows(destination, statement.tag());
        Ok(())
    }

    fn check_chain(&self, chain: bool, name: &str) -> Result<(), Box<ErrorFields>> {
        match chain {
            true => self.check_explicit(name),
            false => Ok(()),
        }
    }

    fn check_explicit(&self, name: &str) -> Result<(), Box<ErrorFields>> {
        match self.in_explicit_block() {
            true => Ok(()),
            false => Err(error(
                "25P01",
                format!("{name} can only be used in transaction blocks"),
            )),
        }
    }

    fn savepoint_place(&self, name: &str) -> Result<usize, Box<ErrorFields>> {
        let savepoints = self.block.iter().flat_map(|block| &block.savepoints);
        let named = savepoints.enumerate().filter(|(_, of)| of.name == name);
        match named.last() {
            Some((place, _)) => Ok(place),
            None => Err(error(
                "3B001",
                format!("savepoint \"{name}\" does not exist"),
            )),
        }
    }

    fn savepoint(
        &mut self,
        name: &str,
        destination: &Destination,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let settings = self.settings.clone();
        let Some(block) = &mut self.block else {
            return Ok(());
        };
        let is_begun = block.node.is_some();
        if is_begun {
            block.next_savepoint += 1;
        }
        let id = SavepointId(block.next_savepoint);
        let savepoint = Savepoint {
            name: name.to_owned(),
            id,
            settings,
            locals: block.locals.clone(),
            timing: block.timing.clone(),
            locks: self.locks.of_transaction(),
            notifications: block.notifications.mark(),
            cursor: self.next_cursor,
            is_before_change: false,
        };
        if !is_begun {
            // Nothing has run: it is the begin of the block at whichever node it comes to.
            block.savepoints.push(savepoint);
            self.complete_without_rows(destination, "SAVEPOINT");
            return Ok(());
        }
        let control = Control {
            kind: ControlKind::Savepoint(Box::new(savepoint)),
            destination: Some(destination.clone()),
            tag: "SAVEPOINT",
            chain: false,
        };
        self.control(StepAction::Savepoint(id), control, scope);
        Ok(())
    }

    fn roll_back_to(
        &mut self,
        place: usize,
        destination: &Destination,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let Some(block) = &mut self.block else {
            return Ok(());
        };
        if block.is_over {
            return Err(error(
                "40001",
                "the transaction conflicts with another one and cannot go back to a savepoint: roll it back and run \
                 it again",
            ));
        }
        if block.savepoints[place].is_before_change {
            return Err(error(
                "0A000",
                "ROLLBACK TO a savepoint from before a change of the schema, or from before the transaction ran alone, is not supported: roll the transaction back",
            ));
        }
        let id = block.savepoints[place].id;
        let control = Control {
            kind: ControlKind::RollbackTo(place),
            destination: Some(destination.clone()),
            tag: "ROLLBACK",
            chain: false,
        };
        if block.node.is_none() {
            self.rolled_back_to(place);
            self.complete_without_rows(destination, "ROLLBACK");
            return Ok(());
        }
        self.control(StepAction::RollbackTo(id), control, scope);
        Ok(())
    }

    fn rolled_back_to(&mut self, place: usize) {
        if let Some(block) = &mut self.block {
            block.savepoints.truncate(place + 1);
            block.has_failed = false;
            let savepoint = &block.savepoints[place];
            block.locals.clone_from(&savepoint.locals);
            block.timing.clone_from(&savepoint.timing);
            let (settings, cursor) = (savepoint.settings.clone(), savepoint.cursor);
            let locks = savepoint.locks;
            block.notifications.go_back(savepoint.notifications);
            self.release_locks_after(locks);
            self.restore(settings);
            self.close_cursors_after(cursor);
        }
    }

    /// Commits what is open, if anything is.
    pub(super) fn commit(
        &mut self,
        destination: Option<Destination>,
        tag: &'static str,
        chain: bool,
        scope: &mut Scope<'_>,
    ) {
        let control = Control {
            kind: ControlKind::Commit,
            destination,
            tag,
            chain,
        };
        if self
            .block
            .as_ref()
            .is_some_and(|block| block.node.is_some())
        {
            self.control(self.commit_action(), control, scope);
        } else {
            self.committed(control, scope);
        }
    }

    /// How the block commits: under the hold that the setting `anabranch.hop` names, if it names one.
    fn commit_action(&self) -> StepAction {
        let hop = self.settings.get("anabranch.hop").ok();
        match hop.and_then(|hop| hop.parse().ok()) {
            None | Some(0) => StepAction::Commit,
            Some(hop) => StepAction::CommitInHold(Hop(hop)),
        }
    }

    /// Notes that the block is committed at its node. One that has changed the schema has to be made durable.
    fn committed(&mut self, control: Control, scope: &mut Scope<'_>) {
        match &mut self.block {
            Some(block) if block.is_exclusive => {
                block.node = None;
                self.finish_change(true, Some(Box::new(control)));
            }
            _ => self.end_committed(control, scope),
        }
    }

    fn end_committed(&mut self, control: Control, scope: &mut Scope<'_>) {
        if let Some(mut block) = self.block.take() {
            self.publish(std::mem::take(&mut block.notifications));
            self.release_locks_after(0);
            self.settings.set_transaction(None);
            // What was set in the block stays; what was set for it alone goes.
            for (name, value) in &block.locals {
                if let Ok(change) = self.settings.set(name, value) {
                    self.report(change);
                }
            }
            self.close_all(true);
            if control.chain {
                self.begin(true, block.modes, scope);
            }
        }
        if let Some(destination) = &control.destination {
            self.complete_without_rows(destination, control.tag);
        } else {
            self.end_statement();
        }
    }

    /// Ends what is open without effects.
    pub(super) fn roll_back(&mut self, chain: bool, scope: &mut Scope<'_>) {
        if let Some(mut block) = self.block.take() {
            self.forget_at_node(&mut block);
            self.release_locks_after(0);
            if block.is_exclusive {
                self.finish_change(false, None);
            }
            let modes = block.modes;
            self.settings.set_transaction(None);
            self.restore(block.settings);
            self.close_all(false);
            if chain {
                self.begin(true, modes, scope);
            }
        }
    }

    /// Has the node of a block end it without effects. The request leaves with the next turn.
    fn forget_at_node(&mut self, block: &mut Block) {
        if let Some(node) = block.node.take() {
            self.rolled_back.push((node, block.id));
        }
    }

    /// Sends what is to be rolled back.
    pub(super) fn send_rollbacks(&mut self, scope: &mut Scope<'_>) {
        for (node, block) in std::mem::take(&mut self.rolled_back) {
            let step = Step {
                block,
                options: BlockOptions::default(),
                action: StepAction::Rollback,
            };
            let call = scope.unanswered_call(|id| Call::new(id, Work::Step(step), []));
            scope.requests.push((node, NodeRequest::Call(call)));
        }
    }

    /// Whether the block has changed the schema, so that the session runs alone.
    pub(super) fn is_exclusive(&self) -> bool {
        self.block.as_ref().is_some_and(|block| block.is_exclusive)
    }

    /// What the block has run at its node.
    pub(super) fn open_part(&self) -> Option<OpenPart> {
        let block = self.block.as_ref()?;
        Some(OpenPart {
            node: block.node?,
            block: block.id,
            wrote: block.wrote,
        })
    }

    /// Notes that the schema was changed, or was to be: what the block had run is committed at its node, or lost.
    pub(super) fn note_change(&mut self, changed: &Changed, scope: &mut Scope<'_>) {
        let Some(block) = &mut self.block else {
            return;
        };
        block.is_exclusive = changed.is_exclusive;
        if changed.keeps_part {
            return;
        }
        // What it had run is lost.
        block.is_over |= !changed.is_exclusive && changed.refused.is_some();
        block.kept.clear();
        self.begin_part(scope);
    }

    /// Goes on with a new block at a node: what it has run so far is committed there.
    fn begin_part(&mut self, scope: &mut Scope<'_>) {
        let Some(block) = &mut self.block else {
            return;
        };
        block.node = None;
        block.id = BlockId(scope.next_id());
        block.statements.clear();
        block.unsent = None;
        block.entry = None;
        block.wrote = false;
        block.next_savepoint = SavepointId::START.0;
        for savepoint in &mut block.savepoints {
            savepoint.is_before_change = true;
        }
    }

    /// Whether the block has something at its node that is written.
    pub(super) fn has_written(&self) -> bool {
        self.block
            .as_ref()
            .is_some_and(|block| block.wrote && block.node.is_some())
    }

    /// Whether the rows of a table can be put back as they were after the last change of the schema.
    pub(super) fn keeps_rows_of(&self, table: &str) -> bool {
        let block = self.block.as_ref();
        block.is_some_and(|block| block.kept.iter().any(|kept| kept == table))
    }

    /// Notes that they can.
    pub(super) fn note_kept(&mut self, table: &str) {
        if let Some(block) = &mut self.block {
            block.kept.push(table.to_owned());
        }
    }

    /// Commits what a part of a COPY has written, among the transaction's own.
    pub(super) fn commit_copied(&mut self, scope: &mut Scope<'_>) {
        let control = Control {
            kind: ControlKind::CopyPart,
            destination: None,
            tag: "COPY",
            chain: false,
        };
        self.control(StepAction::Commit, control, scope);
    }

    /// Takes the end of a transaction that has changed the schema.
    pub(super) fn finished_change(
        &mut self,
        control: Option<Box<Control>>,
        refused: Option<Box<ErrorFields>>,
        scope: &mut Scope<'_>,
    ) {
        if let Some(block) = &mut self.block {
            block.is_exclusive = false;
        }
        match (control, refused) {
            (Some(control), None) => self.end_committed(*control, scope),
            (_, Some(fields)) => {
                self.roll_back(false, scope);
                self.fail(&fields);
            }
            (None, None) => {}
        }
    }

    /// Lets the block fail with a statement: an implicit one ends.
    pub(super) fn fail_block(&mut self, code: &str) {
        let Some(block) = &mut self.block else {
            return;
        };
        if block.is_explicit {
            // As in PostgreSQL: what failed gives up its locks at once, not when the client rolls back.
            let locks = block.savepoints.last().map_or(0, |of| of.locks);
            block.has_failed = true;
            if let Some((id, had_written)) = block.unsent.take() {
                // It was refused before it ran: what follows a ROLLBACK TO is not judged with it.
                block.statements.retain(|of| of.id != id);
                block.wrote = had_written;
                block.entry = None;
            }
            // The node forgets a block that it cannot run again.
            block.is_over |= code == "40001" || code == "08007" || block.savepoints.is_empty();
            if block.is_over
                && let Some(mut block) = self.block.take()
            {
                self.forget_at_node(&mut block);
                self.block = Some(block);
            }
            self.release_locks_after(locks);
        } else if let Some(mut block) = self.block.take() {
            self.forget_at_node(&mut block);
            self.release_locks_after(0);
            if block.is_exclusive {
                self.finish_change(false, None);
            }
            self.settings.set_transaction(None);
            self.restore(block.settings);
            self.close_all(false);
        }
    }

    /// Closes what belongs to a block that ends.
    fn close_all(&mut self, committed: bool) {
        self.portals.clear();
        self.close_cursors_of_block(committed);
    }

    /// Ends the block of a connection that ends.
    pub(super) fn abandon_block(&mut self) {
        if let Some(mut block) = self.block.take() {
            self.forget_at_node(&mut block);
        }
    }

    /// Goes back to earlier settings, and tells the client what it wants to know.
    fn restore(&mut self, settings: Settings) {
        let before = std::mem::replace(&mut self.settings, settings);
        self.show_modes();
        for change in self.settings.reported_changes(&before) {
            self.report(Some(change));
        }
    }

    /// SET LOCAL: notes what a setting goes back to.
    pub(super) fn note_local(&mut self, name: &str) {
        if let (Some(block), Ok(value)) = (&mut self.block, self.settings.get(name)) {
            block
                .locals
                .entry(name.to_ascii_lowercase())
                .or_insert(value);
        }
    }

    /// SET in a block: it is not undone by COMMIT.
    pub(super) fn note_set(&mut self, name: &str) {
        if let Some(block) = &mut self.block {
            block.locals.remove(&name.to_ascii_lowercase());
        }
    }

    /// SET TRANSACTION.
    pub(super) fn set_block_modes(
        &mut self,
        modes: TransactionModes,
    ) -> Result<(), Box<ErrorFields>> {
        let Some(block) = &mut self.block else {
            return Ok(());
        };
        if block.has_run && modes.isolation.is_some() {
            let message = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
            return Err(error("25001", message));
        }
        if block.has_run && block.modes.read_only == Some(true) && modes.read_only == Some(false) {
            let message = "transaction read-write mode must be set before any query";
            return Err(error("25001", message));
        }
        block.modes = TransactionModes {
            isolation: modes.isolation.or(block.modes.isolation),
            read_only: modes.read_only.or(block.modes.read_only),
            deferrable: modes.deferrable.or(block.modes.deferrable),
        };
        self.show_modes();
        Ok(())
    }

    /// SET CONSTRAINTS. What waits of constraints that are checked at each statement from now on is checked at once.
    pub(super) fn set_constraints(
        &mut self,
        selection: &ConstraintSelection,
        deferred: bool,
        destination: &Destination,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        const TAG: &str = "SET CONSTRAINTS";
        if self.block.is_none() && !self.is_alone(destination) {
            self.begin_implicit(scope);
        }
        let Some(block) = &self.block else {
            self.warn(
                "25P01",
                "SET CONSTRAINTS can only be used in transaction blocks",
            );
            self.check_constraint_names(selection, deferred)?;
            self.complete_without_rows(destination, TAG);
            return Ok(());
        };
        let is_at_node = block.is_at_node();
        self.check_constraint_names(selection, deferred)?;
        let mut timing = None;
        if let Some(block) = &mut self.block {
            let held = block.timing.get_or_insert_default();
            Arc::make_mut(held).set(selection, deferred);
            timing.clone_from(&block.timing);
        }
        if deferred || !is_at_node {
            self.complete_without_rows(destination, TAG);
            return Ok(());
        }
        let control = Control {
            kind: ControlKind::Constraints,
            destination: Some(destination.clone()),
            tag: TAG,
            chain: false,
        };
        let action = StepAction::Statement(StatementWork {
            code: StatementCode::CheckConstraints(Arc::new(selection.clone())),
            entry: None,
            timing,
        });
        self.control(action, control, scope);
        Ok(())
    }

    fn check_constraint_names(
        &self,
        selection: &ConstraintSelection,
        deferred: bool,
    ) -> Result<(), Box<ErrorFields>> {
        let ConstraintSelection::Named(names) = selection else {
            return Ok(());
        };
        let application = &self.environment.planned.application;
        let checked = application.set_constraints(names, deferred);
        checked.map_err(|failure| of_effect(&failure))
    }

    /// When a client that leaves its block open is told to go.
    pub(super) fn idle_deadline(&self, now: Instant) -> Option<Instant> {
        let limit = self.settings.idle_in_transaction_timeout();
        let limit: Option<Duration> = match self.is_exclusive() {
            // No other session can do anything.
            true => Some(limit.map_or(EXCLUSIVE_IDLE, |limit| limit.min(EXCLUSIVE_IDLE))),
            false => limit.filter(|_| self.in_explicit_block()),
        };
        limit.map(|after| now + after)
    }

    /// The entry that the block needs for this statement: `Ok(None)` if it needs none, `Err` with its statements if
    /// they have to be analysed first.
    pub(super) fn block_entry(
        &mut self,
        prepared: &Arc<Prepared>,
        writes: bool,
    ) -> Result<Option<Arc<StatementEntry>>, Vec<BlockStatement>> {
        let Some(block) = &mut self.block else {
            return Ok(None);
        };
        let had_written = block.wrote;
        block.wrote |= writes;
        if !block.statements.iter().any(|of| of.id == prepared.id) {
            let place = block.statements.partition_point(|of| of.id < prepared.id);
            block.statements.insert(place, Arc::clone(prepared));
            block.unsent = Some((prepared.id, had_written));
            block.entry = None;
        }
        if !block.wrote {
            return Ok(None);
        }
        if block.is_exclusive {
            // No other transaction runs beside it, whose plan entry could be too little for that.
            return Ok(Some(Arc::new(StatementEntry::alone())));
        }
        if self.environment.undeclared.is_none() {
            return Ok(None);
        }
        if block.entry.is_none() {
            block.entry = self.environment.block_entries.get(&block.statements);
        }
        match &block.entry {
            Some(entry) => Ok(Some(Arc::clone(entry))),
            None => Err(block
                .statements
                .iter()
                .filter_map(|of| Some((Arc::clone(&of.text), of.run_plan()?.code()?)))
                .collect()),
        }
    }

    /// The open block, if there is one: where it is, and since when.
    pub(super) fn described_block(&self) -> Option<(Option<(NodeId, TransactionClient)>, i64)> {
        let block = self.block.as_ref()?;
        let client = TransactionClient::Block(block.id);
        Some((block.node.map(|node| (node, client)), block.timestamp))
    }

    /// The statements that the open block has run or runs, each once.
    pub(super) fn block_statements(&self) -> Option<&[Arc<Prepared>]> {
        self.block.as_ref().map(|block| &*block.statements)
    }

    /// Takes the entry that the analysis has found for the block's statements.
    pub(super) fn take_block_entry(&mut self, entry: &Arc<StatementEntry>) {
        if let Some(block) = &mut self.block {
            block.entry = Some(Arc::clone(entry));
            self.environment
                .block_entries
                .insert(&block.statements, entry);
        }
    }

    /// Sends a statement to the block's node. `home`: the partition of its rows, where a block that has no node begins.
    pub(super) fn step_statement(
        &mut self,
        run: Run,
        code: StatementCode,
        entry: Option<Arc<StatementEntry>>,
        (arguments, home): (Arc<[Value]>, Option<PartitionId>),
        scope: &mut Scope<'_>,
    ) {
        let mut timing = None;
        if let Some(block) = &mut self.block {
            let here = scope.node;
            block
                .node
                .get_or_insert_with(|| home.map_or(here, |partition| NodeId(partition.0)));
            block.has_run = true;
            block.unsent = None;
            timing.clone_from(&block.timing);
        }
        let action = StepAction::Statement(StatementWork {
            code,
            entry,
            timing,
        });
        self.step(action, arguments, Awaited::Statement(Box::new(run)), scope);
    }

    fn control(&mut self, action: StepAction, control: Control, scope: &mut Scope<'_>) {
        let limit = self.settings.statement_timeout();
        self.deadline = limit.map(|after| scope.now + after);
        self.step(
            action,
            [].into(),
            Awaited::Control(Box::new(control)),
            scope,
        );
    }

    fn step(
        &mut self,
        action: StepAction,
        arguments: Arc<[Value]>,
        awaited: Awaited,
        scope: &mut Scope<'_>,
    ) {
        let Some(block) = &self.block else {
            return;
        };
        let level = self.isolation(block.modes);
        let options = BlockOptions {
            validates_reads: matches!(
                level,
                IsolationLevel::RepeatableRead | IsolationLevel::Serializable
            ),
            log_bytes_max: self.environment.options.transaction_log_bytes_max,
        };
        let step = Step {
            block: block.id,
            options,
            action,
        };
        let (timestamp, zone) = (block.timestamp, self.settings.zone().clone());
        let lock_timeout = self.settings.lock_timeout();
        let sequences = Arc::clone(&self.sequences);
        let call = scope.call(block.node.unwrap_or(scope.node), |id| {
            Call::new(id, Work::Step(step), arguments)
                .with_timestamp(timestamp)
                .with_time_zone(zone)
                .with_sequences(sequences)
                .with_lock_timeout(lock_timeout)
        });
        self.state = State::Calling { call, awaited };
    }

    /// Takes the outcome of a call that controls the block.
    pub(super) fn controlled(
        &mut self,
        control: Control,
        outcome: Outcome,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        if let Err(failure) = &outcome.result {
            let fields = self.cancelled.take().unwrap_or_else(|| of_call(failure));
            if let ControlKind::Commit = control.kind {
                self.roll_back(false, scope);
            }
            return Err(fields);
        }
        match control.kind {
            ControlKind::Commit => self.committed(control, scope),
            ControlKind::Savepoint(savepoint) => {
                if let Some(block) = &mut self.block {
                    block.savepoints.push(*savepoint);
                }
                self.answer_control(control.destination.as_ref(), control.tag);
            }
            ControlKind::RollbackTo(place) => {
                self.rolled_back_to(place);
                self.answer_control(control.destination.as_ref(), control.tag);
            }
            ControlKind::Constraints => {
                self.answer_control(control.destination.as_ref(), control.tag);
            }
            ControlKind::CopyPart => {
                self.begin_part(scope);
                self.go_on_copying();
            }
        }
        Ok(())
    }

    fn answer_control(&mut self, destination: Option<&Destination>, tag: &str) {
        match destination {
            Some(destination) => self.complete_without_rows(destination, tag),
            None => self.end_statement(),
        }
    }
}
