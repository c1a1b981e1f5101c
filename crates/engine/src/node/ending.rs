//! How calls end: cancelled, refused, aborted and tried again, answered.

use std::cmp::Reverse;

use anabranch_protocol::{AbortReason, Protocol, Session};
use anabranch_sql::application::ResultSet;
use anabranch_types::random::mix;
use anabranch_types::{EffectError, Ticks};

use super::{Alarm, AlarmKind, Attempt, AttemptStage, Node, NodeOutbox, OpenCall};
use crate::call::{CallError, CallId, Cost, Outcome, Work};
use crate::interactive;
use crate::record::AttemptOutcome;

impl<P: Protocol> Node<P> {
    /// Handles [`Cancel`](super::NodeInput::Cancel).
    pub(super) fn cancel(&mut self, now: Ticks, call: CallId, out: &mut NodeOutbox<P::Message>) {
        // tidy: order-free because no two open calls have one id.
        let mut waiting = self.waiting.iter_mut();
        if let Some((sequence, attempt)) = waiting.find(|(_, open)| open.open.call.id == call) {
            if let AttemptStage::Committing(_) = attempt.stage {
                attempt.open.cancelled = true;
                return;
            }
            let sequence = *sequence;
            return self.end_early(now, sequence, CallError::Cancelled, out);
        }
        let is_retry = |alarm: &Reverse<Alarm>| match &alarm.0.what {
            AlarmKind::Retry(open) => open.call.id == call,
            AlarmKind::Protocol(_) | AlarmKind::LockTimeout { .. } => false,
        };
        if let Some(Reverse(alarm)) = self.alarms.iter().find(|alarm| is_retry(alarm))
            && let AlarmKind::Retry(open) = &alarm.what
        {
            let cancelled = Err(CallError::Cancelled);
            out.outcomes
                .push(open.outcome(now, cancelled, Cost::default()));
            if let Work::Step(step) = &open.call.work {
                let block = step.block;
                self.blocks
                    .entry(block)
                    .and_modify(|block| block.step = None);
            }
            self.alarms.retain(|alarm| !is_retry(alarm));
        }
    }

    /// Ends a waiting attempt that has not asked to commit, and its call, with this error.
    pub(super) fn end_early(
        &mut self,
        now: Ticks,
        sequence: u64,
        error: CallError,
        out: &mut NodeOutbox<P::Message>,
    ) {
        if let Some(attempt) = self.waiting.remove(&sequence) {
            self.abort(now, attempt.transaction);
            if let Some((block, _)) = &attempt.block {
                self.lose_attempt(*block);
            }
            self.refuse(now, attempt, error, out);
        }
    }

    /// Ends an attempt and its call with an error, after the protocol has forgotten it.
    pub(super) fn refuse(
        &mut self,
        now: Ticks,
        mut attempt: Attempt,
        error: CallError,
        out: &mut NodeOutbox<P::Message>,
    ) {
        if attempt.record.is_some() {
            let reason = AbortReason::Failed(EffectError::new(error.code(), error.to_string()));
            attempt.end(now, AttemptOutcome::Aborted(reason), out);
        }
        let outcome = attempt.open.outcome(now, Err(error), attempt.cost);
        out.outcomes.push(outcome);
    }

    /// Ends an aborted attempt: outputs the call's outcome, or schedules a retry.
    pub(super) fn aborted(
        &mut self,
        now: Ticks,
        mut attempt: Attempt,
        reason: AbortReason,
        out: &mut NodeOutbox<P::Message>,
    ) {
        if attempt.record.is_some() {
            attempt.end(now, AttemptOutcome::Aborted(reason.clone()), out);
        }
        let Attempt {
            mut open,
            cost,
            block,
            ..
        } = attempt;
        let block = block.map(|(block, _)| block);
        let name = reason.name();
        let error = match reason {
            AbortReason::Failed(error) => Some(CallError::Failed(error)),
            AbortReason::InDoubt => Some(CallError::InDoubt),
            reason => {
                open.retries.add(&reason);
                open.deferral &= reason != AbortReason::RowMissing;
                let attempts = open.attempts;
                let replay = block.and_then(|block| self.blocks.get(&block));
                if open.cancelled {
                    Some(CallError::Cancelled)
                } else if let Some(block) = replay.filter(|block| !block.can_replay()) {
                    Some(CallError::Failed(interactive::log_too_large(block)))
                } else {
                    (attempts >= self.options.attempts_max).then_some(CallError::TooManyRetries {
                        attempts,
                        reason: name,
                    })
                }
            }
        };
        if let Some(error) = error {
            // A block's attempt is lost here, and no further one would end otherwise.
            if let Some(block) = block {
                self.blocks.remove(&block);
            }
            out.outcomes.push(open.outcome(now, Err(error), cost));
            return;
        }
        let identity = mix(open.call.id.0 ^ u64::from(self.id.0) << 48);
        let pause = self.options.backoff.wait(identity, open.attempts);
        open.backoff = open.backoff + pause;
        self.set_alarm(now + pause, AlarmKind::Retry(Box::new(open)));
    }
}

impl OpenCall {
    /// The call's outcome at time `now`, in an empty session, after a last attempt that took `last`.
    pub(super) fn outcome(
        &self,
        now: Ticks,
        result: Result<ResultSet, CallError>,
        last: Cost,
    ) -> Outcome {
        let elapsed = now.since(self.began);
        Outcome {
            id: self.call.id,
            result,
            retries: self.retries,
            session: Session::default(),
            cost: Cost {
                attempts: self.attempts,
                elapsed,
                // A cancel shortens the last pause.
                backoff: self.backoff.min(elapsed),
                ..last
            },
            provisional: false,
        }
    }
}
