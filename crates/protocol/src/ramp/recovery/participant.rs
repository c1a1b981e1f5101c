//! What a participant writes down, and how it is rebuilt from that.

use anabranch_storage::LoggedChange;
use anabranch_types::{Ticks, Timestamp};

use crate::ramp::collection::installed_exceptions::ExceptionsBy;
use crate::ramp::core::context::Context;
use crate::ramp::core::message::Decision;
use crate::ramp::core::participant::installed::{Installed, InstalledBy};
use crate::ramp::core::participant::intents::RequestedIntents;
use crate::ramp::core::participant::{CommitReply, Kept, Participant, Prepared, Promise, Recent};
use crate::ramp::core::trace::Trace;
use crate::ramp::recovery::record::{PreparedRecord, RampRecord, RecentRecord, StabilityRecord};
use crate::{Record, ReplayError, Slots, TransactionId};

impl Prepared {
    /// Writes a vote for yes to the log; returns what a checkpoint will write of it.
    pub(crate) fn record_vote(
        &self,
        context: &mut Context,
        promise: Promise,
        requested: &RequestedIntents,
    ) -> Option<Box<Kept>> {
        let journal = context.journal.as_mut()?;
        let kept = Kept {
            promise,
            requested: requested.clone(),
        };
        let record = kept.record(self);
        journal.write(Record::Ramp(RampRecord::Prepared(Box::new(record))));
        Some(Box::new(kept))
    }
}

impl Kept {
    /// What is durable of a yes.
    fn record(&self, prepared: &Prepared) -> PreparedRecord {
        PreparedRecord {
            transaction: prepared.transaction,
            prepared: self.promise.prepared,
            participants: prepared.participants.clone(),
            vote: self.promise.vote,
            after: self.promise.after,
            effects: prepared.effects.clone(),
            siblings: prepared.siblings.clone(),
            causal_context: prepared.causal_context.clone(),
            intents: self.requested.clone(),
            origin_commit: prepared.origin_commit,
        }
    }
}

impl Participant {
    /// Remembers a commit in case it is asked for again, and writes its result to the log.
    pub(crate) fn record_committed(
        &mut self,
        context: &mut Context,
        decided: Decision,
        several: bool,
        slots: &Slots,
    ) {
        if !several {
            self.commit_reply(decided, Slots::new());
        }
        let Some(journal) = &mut context.journal else {
            return;
        };
        let changes = journal.take_changes();
        let slots = slots.clone();
        journal.write(Record::Ramp(RampRecord::Committed {
            decided,
            changes,
            slots,
        }));
    }

    pub(crate) fn commit_reply(&mut self, Decision { prepared, commit }: Decision, slots: Slots) {
        self.commit_replies
            .insert(commit, CommitReply { prepared, slots });
    }

    /// What is prepared, by name.
    pub(crate) fn all_prepared(&self) -> Vec<(TransactionId, Timestamp)> {
        // tidy: order-free because it is sorted below
        let all = self.prepared.iter();
        let all = all.map(|(name, prepared)| (prepared.transaction, *name));
        let mut all: Vec<(TransactionId, Timestamp)> = all.collect();
        all.sort_unstable_by_key(|(_, name)| *name);
        all
    }

    // Replay

    pub(crate) fn replay_prepared(&mut self, record: PreparedRecord) {
        let PreparedRecord {
            transaction,
            prepared,
            participants,
            vote,
            after,
            effects,
            siblings,
            causal_context,
            intents,
            origin_commit,
        } = record;
        let promise = Promise {
            prepared,
            vote,
            after,
        };
        let highest = &mut self.prepared_max[prepared.node().index()];
        *highest = prepared.max(*highest);
        let requested = intents.clone();
        let intents = self.intents.take(prepared, intents);
        self.votes.push_back(promise);
        self.prepared.insert(
            prepared,
            Prepared {
                transaction,
                participants,
                origin_commit,
                since: Ticks::default(),
                asked: 0,
                effects,
                prestaged: None,
                siblings,
                causal_context,
                intents,
                kept: Some(Box::new(Kept { promise, requested })),
            },
        );
    }

    pub(crate) fn replay_aborted(&mut self, prepared: Timestamp) -> Result<(), ReplayError> {
        self.end_prepared(prepared).map(|_| ())
    }

    fn end_prepared(&mut self, prepared: Timestamp) -> Result<Prepared, ReplayError> {
        let Some(ended) = self.prepared.remove(&prepared) else {
            return Err(ReplayError(format!(
                "{prepared} ends, and was not prepared"
            )));
        };
        self.intents.release(prepared, &ended.intents);
        // What was kept because this may have come between.
        self.hold_horizon();
        self.store.drop_superseded();
        Ok(ended)
    }

    pub(crate) fn replay_committed(
        &mut self,
        decided: Decision,
        changes: Option<Vec<LoggedChange>>,
        slots: Slots,
    ) -> Result<(), ReplayError> {
        let ended = self.end_prepared(decided.prepared)?;
        let several = ended.siblings.is_some() && changes.is_some();
        let trace = ended
            .siblings
            .map(|siblings| Trace::new(siblings, ended.causal_context, &ended.effects));
        let origin_commit = ended.origin_commit.unwrap_or(decided.commit);
        self.replay_installed(decided.commit, origin_commit, changes, trace);
        if !several {
            self.commit_reply(decided, slots);
        } else if let Some(recent) = self.recent.get_mut(&decided.commit) {
            recent.slots = slots;
        }
        Ok(())
    }

    /// A commit is installed here again; registers take the timestamp `origin_commit`.
    pub(crate) fn replay_installed(
        &mut self,
        commit: Timestamp,
        origin_commit: Timestamp,
        changes: Option<Vec<LoggedChange>>,
        trace: Option<Trace>,
    ) {
        let Some(changes) = changes else { return };
        let late = self.hold_horizon();
        let sequence = self.store.redo(origin_commit, changes, late);
        if let Some(trace) = trace {
            self.remember(sequence, commit, trace, &[]);
        }
    }

    pub(crate) fn replay_known(&mut self, known: &StabilityRecord) {
        self.settled = known.settled_here;
        self.prepared_max.clone_from(&known.prepared_max);
        for installed in &known.recent {
            self.remember(
                installed.sequence,
                installed.commit,
                installed.trace.clone(),
                &[],
            );
            if let Some(recent) = self.recent.get_mut(&installed.commit) {
                recent.slots.clone_from(&installed.slots);
            }
        }
        for (decided, slots) in &known.commit_replies {
            self.commit_reply(*decided, slots.clone());
        }
    }

    // Checkpoints

    /// What is known of committed transactions; the rest of the record is the coordinator's.
    pub(crate) fn checkpoint_known(&self, known: &mut StabilityRecord) {
        known.settled_here = self.settled;
        known.prepared_max.clone_from(&self.prepared_max);
        let slots = |installed: &Installed| match self.recent.get(&installed.commit) {
            Some(Recent { slots, .. }) => slots.clone(),
            None => Slots::new(),
        };
        let exceptions_by = self.exceptions_by.iter().flat_map(ExceptionsBy::excepted);
        let all = self
            .installed
            .iter()
            .flat_map(InstalledBy::all)
            .chain(exceptions_by);
        let recent = all.map(|installed| RecentRecord {
            sequence: installed.sequence,
            commit: installed.commit,
            trace: installed.trace.clone(),
            slots: slots(installed),
        });
        known.recent = recent.collect();
        known.recent.sort_unstable_by_key(|recent| recent.sequence);
        let commit_replies = self.commit_replies.iter();
        let commit_reply = |(commit, commit_reply): (&Timestamp, &CommitReply)| {
            let (prepared, commit) = (commit_reply.prepared, *commit);
            (Decision { prepared, commit }, commit_reply.slots.clone())
        };
        known.commit_replies = commit_replies.map(commit_reply).collect();
    }

    /// A record for each prepared transaction, in the order of votes.
    pub(crate) fn checkpoint_prepared(&self) -> Vec<PreparedRecord> {
        let record = |(_, name): &(TransactionId, Timestamp)| {
            let prepared = self.prepared.get(name)?;
            Some(prepared.kept.as_ref()?.record(prepared))
        };
        let all = self.all_prepared();
        let mut records: Vec<PreparedRecord> = all.iter().filter_map(record).collect();
        records.sort_unstable_by_key(|record| record.vote);
        records
    }
}
