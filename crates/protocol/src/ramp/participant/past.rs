//! What an owner does for causal RAMP (ramp.txt §6.3): it shows what a transaction follows before it
//! installs that, and says whether something that was read has changed up to a sequence.

use std::sync::Arc;

use anabranch_storage::CommitSequence;
use anabranch_types::{Effect, Timestamp};

use super::{Context, Participant};
use crate::ramp::attempt::touches;
use crate::ramp::message::{Refusal, UpTo};
use crate::ramp::past::Past;
use crate::ramp::siblings::{Trace, tags};

impl Participant {
    /// Shows what is prepared here of what a transaction or a client follows: somebody has seen it, so it
    /// has committed. By commit timestamp, so that what these follow comes first.
    pub(in crate::ramp) fn show_past(&mut self, context: &mut Context, past: &Past) {
        if let Some(newest) = past.newest() {
            context.follow_clock(newest);
        }
        for named in &*past.named {
            if self.prepared.is_empty() {
                return;
            }
            self.show_if_prepared(context, named.required());
        }
    }

    /// Whether nothing of what was read in a snapshot has been written by what was installed after it, up
    /// to a sequence.
    pub(in crate::ramp) fn is_unchanged(
        &mut self,
        snapshot: CommitSequence,
        up_to: &UpTo,
    ) -> Result<bool, Refusal> {
        if up_to.sequence <= snapshot {
            return Ok(true);
        }
        if up_to.sequence > self.store.last() {
            self.break_invariant(format!(
                "CAUSAL-I1: {} is followed, and was not installed here",
                up_to.sequence
            ));
        }
        if self.settled > snapshot {
            return Err(Refusal::BelowFloor);
        }
        let written = self.shown.iter().any(|shown| {
            let shown = shown.all();
            let after = shown.partition_point(|shown| shown.sequence <= snapshot);
            let between = shown.range(after..);
            let mut between = between.take_while(|shown| shown.sequence <= up_to.sequence);
            between.any(|shown| touches(shown.trace.written(self.partition), &up_to.read))
        });
        Ok(!written)
    }

    /// Whether a snapshot is as good for somebody as one of what he asks for.
    pub(super) fn is_as_good(
        &mut self,
        snapshot: CommitSequence,
        up_to: Option<&UpTo>,
    ) -> Result<bool, Refusal> {
        up_to.map_or(Ok(true), |up_to| self.is_unchanged(snapshot, up_to))
    }

    /// What is to be kept of a transaction that is alone here; nothing where nobody follows anything.
    pub(super) fn trace_alone(
        &self,
        timestamp: Timestamp,
        past: Option<Arc<Past>>,
        effects: &[Effect],
    ) -> Option<Trace> {
        let written = self.causal.then(|| (self.partition, tags(effects)))?;
        let siblings = self.metadata.of(timestamp, std::iter::once(written));
        Some(Trace::new(Arc::new(siblings), past, effects))
    }

    /// A transaction that is alone here has been installed.
    pub(super) fn show_alone(
        &mut self,
        context: &mut Context,
        sequence: CommitSequence,
        timestamp: Timestamp,
        trace: Trace,
    ) {
        let past = trace.past.clone();
        self.remember(sequence, timestamp, trace, &[]);
        context.stability.reached(self.partition, sequence);
        context.stability.decided_alone(timestamp, past);
    }
}
