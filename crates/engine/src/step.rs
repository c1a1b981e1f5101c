//! Steps of clients' own transactions, as their calls carry them.

use std::sync::Arc;

use anabranch_protocol::belt::Hop;
use anabranch_sql::deferred::ConstraintTiming;

use crate::code::StatementCode;
use crate::undeclared::StatementEntry;

/// Names a block among those of its node. Chosen by its client's connection, and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u64);

/// Names a savepoint in its block. One that is set again under the same name in SQL has another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SavepointId(pub u64);

impl SavepointId {
    /// The begin of the block, which every block has as a savepoint.
    pub const START: SavepointId = SavepointId(0);
}

/// One step of a block. All steps of a block go to one node, each after the outcome of the one before. The first one
/// that the node sees opens the block.
#[derive(Clone, Debug)]
pub struct Step {
    /// The block.
    pub block: BlockId,
    /// The options of the block; those of its first step count.
    pub options: BlockOptions,
    /// What to do.
    pub action: StepAction,
}

/// Options of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOptions {
    /// Whether COMMIT validates the reads of a block that has written nothing, under a protocol that does not lock them:
    /// REPEATABLE READ and SERIALIZABLE.
    pub validates_reads: bool,
    /// The most bytes of steps that are kept to be run again. Beyond, a conflict ends the block with SQLSTATE `40001`.
    pub log_bytes_max: u64,
}

impl Default for BlockOptions {
    /// No validation of what only reads; 16 MiB.
    fn default() -> BlockOptions {
        BlockOptions {
            validates_reads: false,
            log_bytes_max: 16 << 20,
        }
    }
}

/// What a step does. The call's arguments are those of a statement.
#[derive(Clone, Debug)]
pub enum StepAction {
    /// Runs a statement. Its outcome is the statement's result. One that fails leaves no effect, and the block can go on.
    Statement(StatementWork),
    /// Sets a savepoint.
    Savepoint(SavepointId),
    /// Takes back all effects since a savepoint was set. The savepoint stays, those after it are gone.
    RollbackTo(SavepointId),
    /// Commits. An error ends the block without effects, unless it is in doubt.
    Commit,
    /// Commits as a global operation of the Conveyor Belt under this hold ([`crate::belt`]). An error ends the block as that
    /// of [`StepAction::Commit`] does.
    CommitInHold(Hop),
    /// Ends the block without effects. Cancels a step that is under way, unless it is a COMMIT that the protocol has.
    Rollback,
}

/// A statement of a block.
#[derive(Clone, Debug)]
pub struct StatementWork {
    /// The statement, or the call of a declared procedure.
    pub code: StatementCode,
    /// The plan entry of the block with this statement, as of one statement ([`crate::Work::Statement`]).
    pub entry: Option<Arc<StatementEntry>>,
    /// What the block's SET CONSTRAINTS statements have said before it; `None` if there was none.
    pub timing: Option<Arc<ConstraintTiming>>,
}
