//! Causal consistency (ramp.txt §6.3), at the coordinator: what a client has seen, and what a committing transaction
//! depends on.

pub mod context;
mod participant;

use std::sync::Arc;

use anabranch_types::{EffectError, NodeId, PartitionId, Timestamp};

use crate::ramp::causal::context::{CausalContext, Dependency};
use crate::ramp::collection::stable_vector::StableVector;
use crate::ramp::core::context::Context;
use crate::ramp::core::coordinator::attempt::{Attempt, Part, View};
use crate::ramp::core::coordinator::observed::Observed;
use crate::ramp::core::message::{Freshness, Message, Refusal, SiblingMetadata, Stamped, Work};
use crate::ramp::node::RampNode;
use crate::ramp::timer::AWAIT;
use crate::{AbortReason, Outbox, Session, TransactionId};

impl RampNode {
    /// The transaction depends on all that its client has seen. What of that is prepared here is installed at once:
    /// it has committed, or the client could not have seen it.
    pub(crate) fn follow(&mut self, transaction: TransactionId, session: &Session) {
        let Some(causal_context) = session.token::<CausalContext>() else {
            return;
        };
        if !self.options.causal {
            return;
        }
        let mut attempt = self.take_or_begin(transaction);
        let known = self.context.stability.known().clone();
        attempt.observed.follow(causal_context, &known);
        attempt.began = Some((self.context.now, known));
        self.participant
            .install_dependencies(&mut self.context, causal_context);
        self.keep_idle(transaction, attempt);
    }

    /// Sets the timer if own transactions wait for dependencies whose coordinators were not asked.
    pub(crate) fn schedule_await(&mut self, out: &mut Outbox<Stamped>) {
        if self.awaiting.is_none() {
            self.awaiting = self.context.stability.waiting();
            if self.awaiting.is_some() {
                let due = self.context.now + self.options.await_after;
                out.timers.push((due, AWAIT));
            }
        }
    }

    /// Asks the coordinators of dependencies that own transactions have waited for too long. Most messages carry
    /// watermarks; but a node that has no part in another one's transactions, and gets no message from one that has,
    /// would never learn theirs. Then the metadata of all its later transactions would be kept.
    pub(crate) fn await_stable(&mut self, out: &mut Outbox<Stamped>) {
        let oldest = self.awaiting.take();
        if oldest.is_some() && oldest == self.context.stability.waiting() {
            for commit in self.context.stability.take_unasked() {
                self.send(commit.node(), Message::Await { commit }, out);
            }
        }
    }

    /// Another node waits for a transaction of this one.
    pub(crate) fn handle_await(
        &mut self,
        from: NodeId,
        commit: Timestamp,
        out: &mut Outbox<Stamped>,
    ) {
        let own = self.owner(self.partition);
        if commit.node() == own && self.context.stability.awaited(from, commit) {
            self.send(from, Message::Stable, out);
        }
    }

    /// What a transaction that commits now depends on; none where nothing is causal, or it has seen nothing. This
    /// node's clock goes above all of it (CAUSAL-I5).
    ///
    /// # Errors
    /// The transaction depends on more than may be named, or the clock would have to go too far ahead.
    pub(crate) fn admit_dependencies(
        &mut self,
        attempt: &Attempt,
        works: &[(PartitionId, Work)],
    ) -> Result<Option<Arc<CausalContext>>, AbortReason> {
        let Some(causal_context) = self.causal_context(attempt) else {
            return Ok(None);
        };
        let dependencies = causal_context.dependencies.len();
        if !works.is_empty() && dependencies > self.options.dependencies_max as usize {
            return Err(AbortReason::Conflict);
        }
        let advanced = causal_context.advance_clock(&mut self.context);
        advanced.map_err(AbortReason::Failed)?;
        Ok(Some(causal_context))
    }

    /// Whether what was read of the own partition in a fixed snapshot is unchanged up to the sequence that is
    /// asked for; if so the attempt knows.
    pub(crate) fn verify_freshness(
        &mut self,
        attempt: &mut Attempt,
        partition: PartitionId,
        freshness: &Freshness,
    ) -> Result<(), Refusal> {
        let view = attempt.view_mut(partition).expect("it is fixed");
        if !self.participant.is_unchanged(view.snapshot, freshness)? {
            return Err(Refusal::Fractured);
        }
        view.includes.unchanged_until = freshness.sequence;
        let mut parts = attempt.batch.parts.iter_mut();
        if let Some(part) = parts.find(|part| part.partition == partition) {
            part.includes.unchanged_until = freshness.sequence;
        }
        Ok(())
    }

    /// What the attempt depends on if it commits now; `None` if it has seen nothing.
    fn causal_context(&self, attempt: &Attempt) -> Option<Arc<CausalContext>> {
        let frontier = self.context.stability.frontier()?;
        attempt.began.as_ref()?;
        let mut covered = attempt.observed.covered.clone();
        // What is known to be stable needs no name.
        covered.merge(&frontier.covered);
        for view in &attempt.views {
            // Nor is what committed in one step.
            covered.raise(view.partition, view.snapshot);
        }
        let dependencies = attempt
            .observed
            .dependencies(&frontier.known)
            .into_boxed_slice();
        Some(Arc::new(CausalContext {
            covered,
            dependencies,
        }))
    }

    /// What a client has seen once its transaction with this context has committed; `own` is that transaction, if it
    /// is not installed everywhere yet.
    pub(crate) fn session(
        &self,
        causal_context: Option<&CausalContext>,
        own: Option<Dependency>,
    ) -> Session {
        let Some(frontier) = self.context.stability.frontier() else {
            return Session::default();
        };
        // Each acknowledgement of the commit has brought the sequence at which it was installed.
        let mut covered = frontier.covered.clone();
        let mut dependencies: Vec<Dependency> = Vec::new();
        if let Some(causal_context) = causal_context {
            covered.merge(&causal_context.covered);
            let unknown = causal_context.dependencies.iter();
            let unknown = unknown.filter(|dependency| !frontier.known.includes(dependency.commit));
            dependencies.extend(unknown.cloned());
        }
        dependencies.extend(own);
        let dependencies = dependencies.into_boxed_slice();
        Session::of(Arc::new(CausalContext {
            covered,
            dependencies,
        }))
    }
}

impl CausalContext {
    /// Advances this node's clock, so that a dependent transaction gets a timestamp above all named dependencies
    /// (CAUSAL-I5).
    ///
    /// # Errors
    /// The clock would have to follow one that is too far ahead.
    pub(crate) fn advance_clock(&self, context: &mut Context) -> Result<(), EffectError> {
        let Some(newest) = self.newest() else {
            return Ok(());
        };
        match context.refuses_clock(newest, newest.node()) {
            Some(error) => Err(error),
            None => {
                context.clock.observe(newest);
                Ok(())
            }
        }
    }
}

impl Observed {
    /// Adds the dependencies of something that was seen, except those that were stable before the attempt began: each
    /// of its snapshots includes them.
    pub(crate) fn follow(&mut self, causal_context: &CausalContext, known: &StableVector) {
        self.covered.merge(&causal_context.covered);
        for dependency in &*causal_context.dependencies {
            if !known.includes(dependency.commit) {
                self.require(SiblingMetadata {
                    commit: dependency.commit,
                    siblings: Arc::clone(&dependency.siblings),
                    causal_context: None,
                    alone: false,
                });
            }
        }
    }

    /// The dependencies that have to be named where this is known to be stable; by commit timestamp.
    pub(crate) fn dependencies(&self, known: &StableVector) -> Vec<Dependency> {
        let unknown = self.siblings.iter();
        let unknown = unknown.filter(|seen| !known.includes(seen.commit));
        let dependencies = unknown.map(|seen| Dependency {
            commit: seen.commit,
            siblings: Arc::clone(&seen.siblings),
        });
        let mut dependencies: Vec<Dependency> = dependencies.collect();
        dependencies.sort_unstable_by_key(|dependency| dependency.commit);
        dependencies
    }
}

/// What has to be asked of a partition's snapshot that is not known to be as new as the dependencies of what was
/// observed; `None` if it is.
pub(crate) fn freshness(
    attempt: &Attempt,
    partition: PartitionId,
    part: Option<&Part>,
    view: Option<&View>,
) -> Option<Freshness> {
    if attempt.observed.covered.is_empty() {
        return None;
    }
    let sequence = attempt.observed.covered.of(partition);
    let part = part.filter(|part| part.got.is_some() || part.fixed.is_some());
    let fixed = |part: &Part| part.fixed.unwrap_or_default();
    let new = part.map(|part| part.includes.unchanged_until.max(fixed(part)));
    let old = view.map(|view| view.includes.unchanged_until.max(view.snapshot));
    let mut both = [new, old].into_iter().flatten();
    if both.all(|unchanged_until| unchanged_until >= sequence) {
        return None;
    }
    let new = part.map(|part| part.read_set(&attempt.batch.reads));
    let old = view.map(|view| view.reads.read_set());
    let read = [new, old].into_iter().flatten().flatten().copied();
    Some(Freshness {
        sequence,
        read: read.collect(),
    })
}
