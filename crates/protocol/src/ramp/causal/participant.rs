//! Causal RAMP at an owner (ramp.txt §6.3): it installs a transaction's dependencies before the transaction itself,
//! and checks whether something that was read has changed up to a sequence.

use std::sync::Arc;

use anabranch_storage::CommitSequence;
use anabranch_types::{Effect, Timestamp};

use crate::ramp::causal::context::CausalContext;
use crate::ramp::core::context::Context;
use crate::ramp::core::message::{Freshness, Refusal};
use crate::ramp::core::metadata::{tags, touches};
use crate::ramp::core::participant::Participant;
use crate::ramp::core::trace::Trace;

impl Participant {
    /// Installs those dependencies of a transaction or a client that are prepared here: they were seen elsewhere, so
    /// they have committed. In order of commit timestamps, so that their own dependencies come first.
    pub(crate) fn install_dependencies(
        &mut self,
        context: &mut Context,
        causal_context: &CausalContext,
    ) {
        if let Some(newest) = causal_context.newest() {
            context.follow_clock(newest);
        }
        for dependency in &*causal_context.dependencies {
            if self.prepared.is_empty() {
                return;
            }
            self.install_if_prepared(context, dependency.decision());
        }
    }

    /// Whether nothing of what was read in a snapshot has been written by what was installed after it, up
    /// to a sequence.
    pub(crate) fn is_unchanged(
        &mut self,
        snapshot: CommitSequence,
        freshness: &Freshness,
    ) -> Result<bool, Refusal> {
        if freshness.sequence <= snapshot {
            return Ok(true);
        }
        if freshness.sequence > self.store.last() {
            self.break_invariant(format!(
                "CAUSAL-I1: {} is followed, and was not installed here",
                freshness.sequence
            ));
        }
        if self.settled > snapshot {
            return Err(Refusal::BelowFloor);
        }
        let written = self.installed.iter().any(|installed| {
            let installed = installed.all();
            let after = installed.partition_point(|installed| installed.sequence <= snapshot);
            let between = installed.range(after..);
            let mut between =
                between.take_while(|installed| installed.sequence <= freshness.sequence);
            between
                .any(|installed| touches(installed.trace.written(self.partition), &freshness.read))
        });
        Ok(!written)
    }

    /// Whether a snapshot is as new for this reader as the sequence that it asks for.
    pub(crate) fn is_fresh(
        &mut self,
        snapshot: CommitSequence,
        freshness: Option<&Freshness>,
    ) -> Result<bool, Refusal> {
        freshness.map_or(Ok(true), |freshness| self.is_unchanged(snapshot, freshness))
    }

    /// What to keep of a transaction without other participants; none where transactions have no dependencies.
    pub(crate) fn trace_alone(
        &self,
        timestamp: Timestamp,
        causal_context: Option<Arc<CausalContext>>,
        effects: &[Effect],
    ) -> Option<Trace> {
        let written = self.causal.then(|| (self.partition, tags(effects)))?;
        let siblings = self.metadata.of(timestamp, std::iter::once(written));
        Some(Trace::new(Arc::new(siblings), causal_context, effects))
    }

    /// A transaction that is alone here has been installed.
    pub(crate) fn remember_alone(
        &mut self,
        context: &mut Context,
        sequence: CommitSequence,
        timestamp: Timestamp,
        trace: Trace,
    ) {
        let causal_context = trace.causal_context.clone();
        self.remember(sequence, timestamp, trace, &[]);
        context.stability.reached(self.partition, sequence);
        context.stability.decided_alone(timestamp, causal_context);
    }
}
