//! What a participant writes down, and how it is rebuilt from that.

use std::sync::Arc;

use anabranch_storage::{ChangeImage, SlotValues};
use anabranch_types::{Activity, Effect, NodeId, Timestamp};

use super::{Context, Kept, Participant, Prepared, Promise, Recent, Shown};
use crate::ramp::holds::Wanted;
use crate::ramp::message::{Required, Slots};
use crate::ramp::record::{KnownRecord, PreparedRecord, RampRecord, RecentRecord};
use crate::ramp::siblings::{Siblings, Trace};
use crate::{Record, ReplayError};

impl Participant {
    /// Writes a yes down; returns what a checkpoint will have to say of it.
    pub(super) fn write_prepared(
        &self,
        context: &mut Context,
        promise: Promise,
        effects: &[Effect],
        siblings: &Option<Arc<Siblings>>,
        wanted: &Wanted,
    ) -> Option<Box<Kept>> {
        let journal = context.journal.as_mut()?;
        journal.write(Record::Ramp(RampRecord::Prepared(Box::new(
            PreparedRecord {
                prepared: promise.prepared,
                vote: promise.vote,
                after: promise.after,
                effects: effects.to_vec(),
                siblings: siblings.clone(),
                held: wanted.clone(),
            },
        ))));
        let wanted = wanted.clone();
        Some(Box::new(Kept { promise, wanted }))
    }

    /// Writes down that what was prepared is committed, and what it came to; remembers it for a
    /// Commit that comes again.
    pub(super) fn write_committed(
        &mut self,
        context: &mut Context,
        decided: Required,
        several: bool,
        slots: &Slots,
    ) {
        let Some(journal) = &mut context.journal else {
            return;
        };
        let changes = journal.take_changes();
        let slots = slots.clone();
        if !several {
            self.repeats.insert(decided.commit, Slots::new());
        }
        journal.write(Record::Ramp(RampRecord::Committed {
            decided,
            changes,
            slots,
        }));
    }

    /// [`Participant::install`], with a note of what it comes to.
    pub(super) fn install_noted(
        &mut self,
        context: &mut Context,
        timestamp: Timestamp,
        effects: Vec<Effect>,
    ) -> Result<(anabranch_storage::CommitSequence, Slots), anabranch_storage::ApplyError> {
        let budget = effects.len() + 1;
        let mut slots = SlotValues::default();
        let stage = || {
            self.store
                .stage(timestamp, effects, &mut slots, &*self.programs)
        };
        let staged = context.probe.within(Activity::Storage, stage)?;
        if let Some(journal) = &mut context.journal {
            journal.note(&staged);
        }
        self.forget_past(context);
        let sequence = context.probe.within(Activity::Storage, || {
            let sequence = self.store.install(context.now, timestamp, staged);
            self.store.collect(context.now, budget);
            sequence
        });
        Ok((sequence, slots.into_vec()))
    }

    /// The names of what is prepared for transactions of one coordinator, or of all.
    pub(in crate::ramp) fn prepared_for(&self, node: Option<NodeId>) -> Vec<Timestamp> {
        // tidy: order-free because it is sorted below
        let names = self.prepared.keys().copied();
        let mut names: Vec<Timestamp> = names
            .filter(|prepared| node.is_none_or(|node| prepared.node() == node))
            .collect();
        names.sort_unstable();
        names
    }

    // Replay

    pub(in crate::ramp) fn replay_alone(
        &mut self,
        timestamp: Timestamp,
        changes: Vec<ChangeImage>,
    ) {
        self.store.redo(timestamp, changes);
    }

    pub(in crate::ramp) fn replay_prepared(&mut self, record: PreparedRecord) {
        let PreparedRecord {
            prepared,
            vote,
            after,
            effects,
            siblings,
            held,
        } = record;
        let promise = Promise {
            prepared,
            vote,
            after,
        };
        let highest = &mut self.prepared_max[prepared.node().index()];
        *highest = prepared.max(*highest);
        let wanted = held.clone();
        let held = self.holds.take(prepared, held);
        self.votes.push_back(promise);
        self.prepared.insert(
            prepared,
            Prepared {
                effects,
                rehearsed: None,
                siblings,
                held,
                kept: Some(Box::new(Kept { promise, wanted })),
            },
        );
    }

    pub(in crate::ramp) fn replay_aborted(
        &mut self,
        prepared: Timestamp,
    ) -> Result<(), ReplayError> {
        self.end_prepared(prepared).map(|_| ())
    }

    fn end_prepared(&mut self, prepared: Timestamp) -> Result<Prepared, ReplayError> {
        let Some(ended) = self.prepared.remove(&prepared) else {
            return Err(ReplayError(format!(
                "{prepared} ends, and was not prepared"
            )));
        };
        self.holds.release(prepared, &ended.held);
        Ok(ended)
    }

    pub(in crate::ramp) fn replay_committed(
        &mut self,
        decided: Required,
        changes: Option<Vec<ChangeImage>>,
        slots: Slots,
    ) -> Result<(), ReplayError> {
        let ended = self.end_prepared(decided.prepared)?;
        let several = ended.siblings.is_some() && changes.is_some();
        let trace = ended
            .siblings
            .map(|siblings| Trace::new(siblings, &ended.effects));
        self.replay_shown(decided.commit, changes, trace);
        if !several {
            self.repeats.insert(decided.commit, slots);
        } else if let Some(recent) = self.recent.get_mut(&decided.commit) {
            recent.slots = slots;
        }
        Ok(())
    }

    /// A commit over several partitions shows its part here.
    pub(in crate::ramp) fn replay_shown(
        &mut self,
        commit: Timestamp,
        changes: Option<Vec<ChangeImage>>,
        trace: Option<Trace>,
    ) {
        let Some(changes) = changes else { return };
        let sequence = self.store.redo(commit, changes);
        if let Some(trace) = trace {
            self.remember(sequence, commit, trace);
        }
    }

    pub(in crate::ramp) fn replay_known(&mut self, known: &KnownRecord) {
        self.settled = known.settled_here;
        self.prepared_max.clone_from(&known.prepared_max);
        for shown in &known.recent {
            self.remember(shown.sequence, shown.commit, shown.trace.clone());
            if let Some(recent) = self.recent.get_mut(&shown.commit) {
                recent.slots.clone_from(&shown.slots);
            }
        }
        self.repeats.extend(known.repeats.iter().cloned());
    }

    // Checkpoints

    /// What is known of committed transactions; the rest of the record is the coordinator's.
    pub(in crate::ramp) fn checkpoint_known(&self, known: &mut KnownRecord) {
        known.settled_here = self.settled;
        known.prepared_max.clone_from(&self.prepared_max);
        let slots = |shown: &Shown| match self.recent.get(&shown.commit) {
            Some(Recent { slots, .. }) => slots.clone(),
            None => Slots::new(),
        };
        let all = self.shown.iter().flatten();
        let recent = all.map(|shown| RecentRecord {
            sequence: shown.sequence,
            commit: shown.commit,
            trace: shown.trace.clone(),
            slots: slots(shown),
        });
        known.recent = recent.collect();
        known.recent.sort_unstable_by_key(|recent| recent.sequence);
        let repeats = self.repeats.iter();
        known.repeats = repeats.map(|(at, slots)| (*at, slots.clone())).collect();
    }

    /// A record for each prepared transaction, in the order of votes.
    pub(in crate::ramp) fn checkpoint_prepared(&self) -> Vec<PreparedRecord> {
        let record = |name: &Timestamp| {
            let prepared = self.prepared.get(name)?;
            let kept = prepared.kept.as_ref()?;
            Some(PreparedRecord {
                prepared: *name,
                vote: kept.promise.vote,
                after: kept.promise.after,
                effects: prepared.effects.clone(),
                siblings: prepared.siblings.clone(),
                held: kept.wanted.clone(),
            })
        };
        let names = self.prepared_for(None);
        let mut records: Vec<PreparedRecord> = names.iter().filter_map(record).collect();
        records.sort_unstable_by_key(|record| record.vote);
        records
    }
}
