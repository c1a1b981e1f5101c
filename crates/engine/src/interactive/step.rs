//! Runs one step of a block, after a replay if the attempt before was lost.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use anabranch_sql::application::ResultSet;
use anabranch_sql::deferred::ConstraintSelection;
use anabranch_sql::transaction::TransactionError;
use anabranch_types::{EffectError, TimeZone, Value};

use super::log::{BlockLog, Digest, LoggedStatement, LoggedStep};
use super::sequences::{CallSequences, Draw};
use super::{Block, OpenTransaction, TransactionSlot};
use crate::application::PlannedApplication;
use crate::call::CallError;
use crate::code::StatementCode;
use crate::limits::is_larger;
use crate::step::{SavepointId, StatementWork, StepAction};
use crate::transaction::NodeTransaction;

/// What the steps of one attempt share.
pub(crate) struct BlockContext {
    planned: Arc<PlannedApplication>,
    log: Rc<RefCell<BlockLog>>,
    sequences: Rc<CallSequences>,
    needs_entry: bool,
    result_bytes_max: u64,
}

impl BlockContext {
    pub(crate) fn new(
        block: &Block,
        planned: Arc<PlannedApplication>,
        needs_entry: bool,
        result_bytes_max: u64,
    ) -> BlockContext {
        BlockContext {
            planned,
            log: Rc::clone(&block.log),
            sequences: block.sequences(),
            needs_entry,
            result_bytes_max,
        }
    }
}

/// Runs a step. `slot` has the attempt's transaction; if it is empty, `begin` makes one in which the log is run again.
/// Afterwards the slot is empty if the attempt is lost.
///
/// The result of a statement that fails, after which the block can go on, is its error; the slot is full then.
///
/// # Errors
/// [`TransactionError::Retry`]: the attempt is lost. [`TransactionError::Failed`] with an empty slot: the block ends.
pub(crate) async fn run(
    context: BlockContext,
    slot: TransactionSlot,
    begin: impl FnOnce() -> NodeTransaction,
    action: StepAction,
    arguments: Arc<[Value]>,
    time_zone: TimeZone,
) -> Result<ResultSet, TransactionError> {
    let mut open = match slot.0.take() {
        Some(open) => open,
        None => {
            let mut open = Box::new(OpenTransaction::new(begin()));
            context.replay(&mut open).await?;
            open
        }
    };
    let told = match action {
        StepAction::Statement(work) => {
            let place = context.log.borrow().len();
            let told = context
                .statement(&mut open, place, &work, &arguments, &time_zone, None)
                .await?;
            let statement = LoggedStatement {
                work,
                arguments,
                time_zone,
                draws: context.sequences.end_step(),
                digest: Digest::of(&told),
            };
            context.log_step(LoggedStep::Statement(statement), &open);
            told
        }
        StepAction::Savepoint(id) => {
            open.set_savepoint(id);
            context.log_step(LoggedStep::Savepoint(id), &open);
            Ok(ResultSet::default())
        }
        StepAction::RollbackTo(id) => {
            let told = open.roll_back_to(id);
            if told.is_ok() {
                context.log_step(LoggedStep::RollbackTo(id), &open);
            }
            told.map(|()| ResultSet::default())
        }
        // The node sends the effects. Its transaction is not needed again, unless another attempt makes one.
        StepAction::Commit => {
            open.transaction
                .check_deferred(&ConstraintSelection::All)
                .await?;
            open.transaction.check_statement().await?;
            open.transaction.check_local().await?;
            return Ok(ResultSet::default());
        }
        StepAction::CommitInHold(hold) => {
            open.transaction
                .check_deferred(&ConstraintSelection::All)
                .await?;
            open.transaction.check_statement().await?;
            // Behind everything that the transaction waits for but its commit.
            open.transaction.seal(hold).await?;
            return Ok(ResultSet::default());
        }
        StepAction::Rollback => Ok(ResultSet::default()),
    };
    slot.0.set(Some(open));
    told.map_err(TransactionError::Failed)
}

impl BlockContext {
    fn log_step(&self, step: LoggedStep, open: &OpenTransaction) {
        let effects = open.transaction.position().effects();
        self.log.borrow_mut().push(step, effects);
    }

    /// Runs a statement, the block's step number `place`, and checks its effects. One that fails leaves none.
    async fn statement(
        &self,
        open: &mut OpenTransaction,
        place: usize,
        work: &StatementWork,
        arguments: &Arc<[Value]>,
        time_zone: &TimeZone,
        draws: Option<&[Draw]>,
    ) -> Result<Result<ResultSet, EffectError>, TransactionError> {
        self.sequences.begin_step(draws);
        let transaction = &mut open.transaction;
        transaction.begin_step(place, time_zone.clone());
        transaction.enter_step(work.entry.clone(), self.needs_entry);
        transaction.set_timing(work.timing.clone());
        let position = transaction.position();
        match self.execute(transaction, work, arguments).await {
            Ok(result) => Ok(Ok(result)),
            Err(TransactionError::Failed(error)) => {
                transaction.roll_back_to(position);
                Ok(Err(error))
            }
            Err(lost) => Err(lost),
        }
    }

    async fn execute(
        &self,
        transaction: &mut NodeTransaction,
        work: &StatementWork,
        arguments: &Arc<[Value]>,
    ) -> Result<ResultSet, TransactionError> {
        let from = transaction.position().effects();
        let result = match &work.code {
            StatementCode::Statement(statement) => statement.execute(transaction, arguments).await,
            StatementCode::Procedure(number) => {
                let procedure = &self.planned.application.procedures[*number];
                procedure.call(transaction, arguments).await
            }
            StatementCode::CheckConstraints(selection) => transaction
                .check_deferred(selection)
                .await
                .map(|()| ResultSet::default()),
        }?;
        transaction.verify_writes(from).await?;
        if is_larger(&result, self.result_bytes_max) {
            let bytes_max = self.result_bytes_max;
            let error = CallError::ResultTooLarge { bytes_max };
            let error = EffectError::new(error.code(), error.to_string());
            return Err(TransactionError::Failed(error));
        }
        Ok(result)
    }

    /// Runs the log again, and compares what each statement says with what the client was told (INT-I3).
    async fn replay(&self, open: &mut OpenTransaction) -> Result<(), TransactionError> {
        let mut place = 0;
        loop {
            let step = self.log.borrow().get(place);
            let Some(step) = step else {
                return Ok(());
            };
            match &*step {
                LoggedStep::Statement(logged) => {
                    let LoggedStatement {
                        work,
                        arguments,
                        time_zone,
                        draws,
                        digest,
                    } = logged;
                    let told = self
                        .statement(open, place, work, arguments, time_zone, Some(draws))
                        .await?;
                    if Digest::of(&told) != *digest {
                        return Err(TransactionError::Failed(differs()));
                    }
                }
                LoggedStep::Savepoint(id) => open.set_savepoint(*id),
                LoggedStep::RollbackTo(id) => {
                    open.roll_back_to(*id).map_err(TransactionError::Failed)?;
                }
            }
            place += 1;
        }
    }
}

impl OpenTransaction {
    fn new(transaction: NodeTransaction) -> OpenTransaction {
        let start = (SavepointId::START, transaction.position());
        OpenTransaction {
            transaction,
            savepoints: vec![start],
        }
    }

    fn set_savepoint(&mut self, id: SavepointId) {
        self.savepoints.push((id, self.transaction.position()));
    }

    fn roll_back_to(&mut self, id: SavepointId) -> Result<(), EffectError> {
        let Some(place) = self.savepoints.iter().position(|(of, _)| *of == id) else {
            return Err(EffectError::new("3B001", "savepoint does not exist"));
        };
        self.transaction.roll_back_to(self.savepoints[place].1);
        self.savepoints.truncate(place + 1);
        Ok(())
    }
}

fn differs() -> EffectError {
    let message =
        "could not serialize access: a concurrent transaction has changed what this one has read";
    let mut error = EffectError::new("40001", message);
    error = error.with_detail(
        "The statements were run again, and at least one had another result than the client was told.",
    );
    error.with_hint("Run the transaction again.")
}

/// The block's statements cannot be run again.
pub(crate) fn log_too_large(block: &Block) -> EffectError {
    let bytes_max = block.log.borrow().bytes_max();
    let message = "could not serialize access: another transaction conflicts with this one";
    let detail = format!(
        "The statements are run again where they are kept, and those of this transaction have more than {bytes_max} bytes."
    );
    EffectError::new("40001", message)
        .with_detail(detail)
        .with_hint("Run the transaction again.")
}
