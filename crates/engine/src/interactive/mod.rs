//! Interactive transactions: a client's own BEGIN … COMMIT. `docs/protocols/interactive.md` has the algorithm and the
//! invariants INT-I1 to INT-I8.
//!
//! A [`Block`] is one open transaction. Its client sends [steps](crate::Step), one call each. A block has a log of its steps and
//! an attempt. When the attempt is lost (a conflict, a wound, a cancel), the next step runs the log again in a new one
//! and compares what the client was told; [`step`] has both.

mod log;
mod sequences;
mod step;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use anabranch_protocol::{Age, TransactionId};

use crate::call::CallId;
use crate::record::AttemptRecord;
use crate::sequence::NodeSequences;
use crate::step::{BlockId, BlockOptions, SavepointId};
use crate::transaction::{Mailbox, NodeTransaction};
use log::{BlockLog, LoggedStep};
pub(crate) use sequences::CallSequences;
pub(crate) use step::{BlockContext, log_too_large, run};

/// A client's open transaction at its node.
pub(crate) struct Block {
    /// The age of its first attempt, which all have.
    pub(crate) age: Age,
    /// The value of `now()`.
    pub(crate) timestamp: i64,
    log: Rc<RefCell<BlockLog>>,
    sequences: Rc<CallSequences>,
    /// The attempt, while no step is under way. `None` if it was lost, or none has begun.
    pub(crate) attempt: Option<BlockAttempt>,
    /// The step under way (INT-I1).
    pub(crate) step: Option<CallId>,
    /// The attempts so far.
    pub(crate) attempts: u32,
}

/// An attempt between two steps.
pub(crate) struct BlockAttempt {
    pub(crate) transaction: TransactionId,
    pub(crate) mailbox: Rc<RefCell<Mailbox>>,
    pub(crate) slot: TransactionSlot,
    pub(crate) record: Option<Box<AttemptRecord>>,
}

/// Where an attempt's transaction is while no step runs. A step takes it, and puts it back unless the attempt is lost.
#[derive(Clone, Default)]
pub(crate) struct TransactionSlot(Rc<Cell<Option<Box<OpenTransaction>>>>);

/// An attempt's transaction, with the savepoints in it.
pub(crate) struct OpenTransaction {
    transaction: NodeTransaction,
    savepoints: Vec<(SavepointId, crate::transaction::Position)>,
}

impl TransactionSlot {
    /// Whether the attempt can go on.
    pub(crate) fn is_filled(&self) -> bool {
        let held = self.0.take();
        let is_filled = held.is_some();
        self.0.set(held);
        is_filled
    }
}

/// A block without an attempt, between two nodes. See [`crate::Node::take_block`].
pub struct DetachedBlock {
    id: BlockId,
    age: Age,
    timestamp: i64,
    bytes_max: u64,
    attempts: u32,
    /// The steps, unless the log was too large to be kept.
    steps: Option<Vec<Arc<LoggedStep>>>,
}

impl std::fmt::Debug for DetachedBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DetachedBlock")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl DetachedBlock {
    pub(crate) fn of(id: BlockId, block: &Block) -> DetachedBlock {
        let log = block.log.borrow();
        DetachedBlock {
            id,
            age: block.age,
            timestamp: block.timestamp,
            bytes_max: log.bytes_max(),
            attempts: block.attempts,
            steps: log.is_complete().then(|| log.steps().to_vec()),
        }
    }

    pub(crate) fn attach(self, sequences: Rc<NodeSequences>) -> (BlockId, Block) {
        let log = match self.steps {
            Some(steps) => BlockLog::of_steps(steps, self.bytes_max),
            None => BlockLog::lost(self.bytes_max),
        };
        let block = Block {
            age: self.age,
            timestamp: self.timestamp,
            sequences: Rc::new(CallSequences::new(sequences)),
            log: Rc::new(RefCell::new(log)),
            attempt: None,
            step: None,
            attempts: self.attempts,
        };
        (self.id, block)
    }
}

impl Block {
    pub(crate) fn new(
        age: Age,
        timestamp: i64,
        options: BlockOptions,
        sequences: Rc<NodeSequences>,
    ) -> Block {
        Block {
            age,
            timestamp,
            sequences: Rc::new(CallSequences::new(sequences)),
            log: Rc::new(RefCell::new(BlockLog::new(options.log_bytes_max))),
            attempt: None,
            step: None,
            attempts: 0,
        }
    }

    /// The block's sequences.
    pub(crate) fn sequences(&self) -> Rc<CallSequences> {
        Rc::clone(&self.sequences)
    }

    /// Whether a new attempt can run the block again.
    pub(crate) fn can_replay(&self) -> bool {
        self.log.borrow().is_complete()
    }

    /// Checks INT-I1 and INT-I2.
    ///
    /// # Errors
    /// The invariant's name, and what contradicts it.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let Some(attempt) = &self.attempt else {
            return Ok(());
        };
        if self.step.is_some() {
            return Err(format!(
                "INT-I1: {:?} is idle while a step is under way",
                attempt.transaction
            ));
        }
        let (held, logged) = (
            attempt.mailbox.borrow().writes.len(),
            self.log.borrow().effects(),
        );
        if held != logged {
            return Err(format!(
                "INT-I2: {:?} has {held} effects, and its log {logged}",
                attempt.transaction
            ));
        }
        Ok(())
    }
}
