//! Steps of blocks: a client's own transactions (`docs/protocols/interactive.md`).

use std::rc::Rc;
use std::sync::Arc;

use anabranch_protocol::{Age, Input, Protocol, Request, TransactionId};
use anabranch_sql::application::ResultSet;
use anabranch_types::{EffectError, Ticks};

use super::{Attempt, AttemptStage, Next, Node, NodeOutbox, OpenCall};
use crate::application::PlannedApplication;
use crate::call::{CallError, Cost, Outcome, Work};
use crate::interactive::{self, Block, BlockAttempt, BlockContext, DetachedBlock, TransactionSlot};
use crate::record::AttemptOutcome;
use crate::step::{BlockId, Step, StepAction};
use crate::transaction::{AttemptIdentity, Mailbox, NodeTransaction};

impl Attempt {
    /// Whether it runs a step, and its transaction can go on after it.
    pub(super) fn is_step_with_transaction(&self) -> bool {
        self.block
            .as_ref()
            .is_some_and(|(_, slot)| slot.is_filled())
    }
}

impl<P: Protocol> Node<P> {
    /// Whether this is the application, with its plan, that the node runs.
    pub fn runs(&self, planned: &PlannedApplication) -> bool {
        std::ptr::eq(&*self.planned, planned)
    }

    /// The number of open blocks.
    pub fn open_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Checks INT-I1 and INT-I2 of every open block, and SEQ-I1 of every sequence.
    ///
    /// # Errors
    /// The invariant's name, and what contradicts it.
    pub fn check_blocks(&self) -> Result<(), String> {
        self.sequences.check_invariants()?;
        // tidy: order-free because at most one finding is of interest
        self.blocks.values().try_for_each(Block::check_invariants)
    }

    /// Takes a block out of the node, with its log, if it is [suspended](crate::NodeInput::Suspend). Its next step at
    /// another node, or at this one, runs the log again.
    pub fn take_block(&mut self, id: BlockId) -> Option<DetachedBlock> {
        let block = self.blocks.get(&id)?;
        if block.step.is_some() || block.attempt.is_some() {
            return None;
        }
        let block = self.blocks.remove(&id)?;
        Some(DetachedBlock::of(id, &block))
    }

    /// Ends the attempt of a block at rest.
    pub(super) fn suspend(&mut self, now: Ticks, id: BlockId, out: &mut NodeOutbox<P::Message>) {
        let at_rest = self
            .blocks
            .get_mut(&id)
            .filter(|block| block.step.is_none());
        let Some(attempt) = at_rest.and_then(|block| block.attempt.take()) else {
            return;
        };
        self.abort(now, attempt.transaction);
        if let Some(mut record) = attempt.record {
            let reason = EffectError::new("40001", "suspended");
            record.ended = Some(now);
            record.outcome =
                AttemptOutcome::Aborted(anabranch_protocol::AbortReason::Failed(reason));
            out.attempts.push(*record);
        }
    }

    /// Takes in a block that was taken out of a node.
    pub fn put_block(&mut self, detached: DetachedBlock) {
        let (id, block) = detached.attach(Rc::clone(&self.sequences));
        self.blocks.insert(id, block);
    }

    /// Starts a step, in the block's attempt or in a new one.
    pub(super) fn start_step(
        &mut self,
        now: Ticks,
        mut open: OpenCall,
        step: Step,
        out: &mut NodeOutbox<P::Message>,
    ) {
        let is_known = self.blocks.contains_key(&step.block);
        match step.action {
            StepAction::Rollback => return self.roll_back(now, &open, step.block, out),
            // It has run nothing here.
            StepAction::Commit | StepAction::CommitInHold(_) if !is_known => {
                let nothing = Ok(ResultSet::default());
                return out
                    .outcomes
                    .push(open.outcome(now, nothing, Cost::default()));
            }
            _ => {}
        }
        let next = TransactionId {
            node: self.id,
            sequence: self.next_sequence + 1,
        };
        let first = Age {
            began: now,
            transaction: next,
        };
        let sequences = &self.sequences;
        let block = self.blocks.entry(step.block).or_insert_with(|| {
            Block::new(first, open.timestamp, step.options, Rc::clone(sequences))
        });
        if block.step.is_some_and(|call| call != open.call.id) {
            let message = "another statement of this transaction is under way";
            let refused = Err(CallError::Failed(EffectError::new("XX000", message)));
            return out
                .outcomes
                .push(open.outcome(now, refused, Cost::default()));
        }
        if block.attempt.is_none() && !block.can_replay() {
            let failed = Err(CallError::Failed(interactive::log_too_large(block)));
            self.blocks.remove(&step.block);
            return out
                .outcomes
                .push(open.outcome(now, failed, Cost::default()));
        }
        block.step = Some(open.call.id);
        open.timestamp = block.timestamp;
        let (age, held) = (block.age, block.attempt.take());
        let is_new = held.is_none();
        block.attempts += u32::from(is_new);
        let mut held = held.unwrap_or_else(|| BlockAttempt {
            transaction: next,
            mailbox: Mailbox::new(self.options.limits),
            slot: TransactionSlot::default(),
            record: self
                .options
                .records
                .then(|| super::record(now, &open, next)),
        });
        if let Some(record) = &mut held.record {
            record.call = open.call.id;
        }
        let identity = AttemptIdentity {
            home: self.home,
            unique: u64::from(self.id.0) << 48 | age.transaction.sequence,
            timestamp: block.timestamp,
            time_zone: open.call.time_zone.clone(),
            deferral: false,
        };
        let (planned, mailbox) = (Arc::clone(&self.planned), Rc::clone(&held.mailbox));
        let (sequences, locks) = (block.sequences(), self.options.declares);
        sequences.enter(open.call.id, open.call.sequences.clone());
        let belt = self.belt.clone();
        let begin = move || {
            let mut transaction = NodeTransaction::new(planned, identity, mailbox, sequences);
            transaction.set_belt(belt);
            transaction.interactive(locks)
        };
        let context = BlockContext::new(
            block,
            Arc::clone(&self.planned),
            self.options.needs_entries,
            self.options.limits.result_bytes_max,
        );
        let call = &open.call;
        let running = Box::pin(interactive::run(
            context,
            held.slot.clone(),
            begin,
            step.action,
            Arc::clone(&call.arguments),
            call.time_zone.clone(),
        ));
        if is_new {
            self.next_sequence = next.sequence;
            if !open.call.session.is_empty() {
                self.request(now, next, Request::Follow(open.call.session.clone()));
            }
            self.request(now, next, Request::WaitByAge(age));
        }
        let attempt = Attempt {
            open,
            cost: Cost::default(),
            transaction: held.transaction,
            mailbox: held.mailbox,
            stage: AttemptStage::Running(running),
            record: held.record,
            block: Some((step.block, held.slot)),
            waits: 0,
        };
        self.drive(now, attempt, Next::Poll, out);
    }

    /// Passes a request to the protocol that it does not answer.
    pub(super) fn request(&mut self, now: Ticks, transaction: TransactionId, request: Request) {
        let request = Input::Request {
            transaction,
            request,
        };
        self.step_protocol(now, request);
    }

    /// Ends a step after which its attempt goes on.
    pub(super) fn stepped(
        &mut self,
        now: Ticks,
        attempt: Attempt,
        result: Result<ResultSet, CallError>,
        out: &mut NodeOutbox<P::Message>,
    ) {
        out.outcomes.push(Outcome {
            provisional: true,
            ..attempt.open.outcome(now, result, attempt.cost)
        });
        let Some((id, slot)) = attempt.block else {
            return;
        };
        if let Some(block) = self.blocks.get_mut(&id) {
            block.step = None;
            block.attempt = Some(BlockAttempt {
                transaction: attempt.transaction,
                mailbox: attempt.mailbox,
                slot,
                record: attempt.record,
            });
        }
    }

    /// Notes that the step of a block was cancelled, and its attempt lost with it. The log is whole.
    pub(super) fn lose_attempt(&mut self, id: BlockId) {
        if let Some(block) = self.blocks.get_mut(&id) {
            block.step = None;
            block.attempt = None;
        }
    }

    /// Ends a block without effects. One whose COMMIT the protocol has ends as that does.
    fn roll_back(
        &mut self,
        now: Ticks,
        open: &OpenCall,
        id: BlockId,
        out: &mut NodeOutbox<P::Message>,
    ) {
        if let Some(step) = self.blocks.get(&id).and_then(|block| block.step) {
            self.cancel(now, step, out);
        }
        if let Some(block) = self.blocks.get_mut(&id)
            && block.step.is_none()
        {
            let attempt = block.attempt.take();
            self.blocks.remove(&id);
            if let Some(attempt) = attempt {
                self.abort(now, attempt.transaction);
                if let Some(mut record) = attempt.record {
                    let message = "rolled back by its client";
                    let reason = EffectError::new("40000", message);
                    record.ended = Some(now);
                    record.outcome =
                        AttemptOutcome::Aborted(anabranch_protocol::AbortReason::Failed(reason));
                    out.attempts.push(*record);
                }
            }
        }
        let done = Ok(ResultSet::default());
        out.outcomes.push(Outcome {
            provisional: true,
            ..open.outcome(now, done, Cost::default())
        });
    }

    /// The step that begins an attempt of a call which was aborted often: it waits by age from now on.
    pub(super) fn wait_by_age(&mut self, now: Ticks, open: &OpenCall, transaction: TransactionId) {
        let first = open.first_attempt.unwrap_or(transaction);
        let age = Age {
            began: open.began,
            transaction: first,
        };
        self.request(now, transaction, Request::WaitByAge(age));
    }

    /// Whether a call's attempts have been aborted so often that the next one waits by age.
    pub(super) fn waits_by_age(open: &OpenCall) -> bool {
        open.attempts > IN_ORDER_ATTEMPTS && !matches!(open.call.work, Work::Step(_))
    }
}

/// A call waits in the lock order for this many attempts. Further ones wait by the age of the first, so that it cannot
/// be refused for ever.
const IN_ORDER_ATTEMPTS: u32 = 8;
