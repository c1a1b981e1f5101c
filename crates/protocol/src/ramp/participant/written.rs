//! What a participant writes down, and how it is rebuilt from that.

use anabranch_storage::LoggedChange;
use anabranch_types::{Ticks, Timestamp};

use super::aside::AsideBy;
use super::shown::{Shown, ShownBy};
use super::{Context, Kept, Participant, Prepared, Promise, Recent, Repeat};
use crate::ramp::holds::Wanted;
use crate::ramp::message::{Required, Slots};
use crate::ramp::record::{KnownRecord, PreparedRecord, RampRecord, RecentRecord};
use crate::ramp::siblings::Trace;
use crate::{Record, ReplayError, TransactionId};

/// Writes a yes down; returns what a checkpoint will have to say of it.
pub(super) fn write_prepared(
    context: &mut Context,
    promise: Promise,
    prepared: &Prepared,
    wanted: &Wanted,
) -> Option<Box<Kept>> {
    let journal = context.journal.as_mut()?;
    let kept = Kept {
        promise,
        wanted: wanted.clone(),
    };
    let record = kept.record(prepared);
    journal.write(Record::Ramp(RampRecord::Prepared(Box::new(record))));
    Some(Box::new(kept))
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
            past: prepared.past.clone(),
            held: self.wanted.clone(),
            place: prepared.place,
        }
    }
}

impl Participant {
    /// Remembers a commit for whoever asks again, and writes down what it came to.
    pub(super) fn write_committed(
        &mut self,
        context: &mut Context,
        decided: Required,
        several: bool,
        slots: &Slots,
    ) {
        if !several {
            self.repeat(decided, Slots::new());
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

    fn repeat(&mut self, Required { prepared, commit }: Required, slots: Slots) {
        self.repeats.insert(commit, Repeat { prepared, slots });
    }

    /// What is prepared, by name.
    pub(in crate::ramp) fn all_prepared(&self) -> Vec<(TransactionId, Timestamp)> {
        // tidy: order-free because it is sorted below
        let all = self.prepared.iter();
        let all = all.map(|(name, prepared)| (prepared.transaction, *name));
        let mut all: Vec<(TransactionId, Timestamp)> = all.collect();
        all.sort_unstable_by_key(|(_, name)| *name);
        all
    }

    // Replay

    pub(in crate::ramp) fn replay_prepared(&mut self, record: PreparedRecord) {
        let PreparedRecord {
            transaction,
            prepared,
            participants,
            vote,
            after,
            effects,
            siblings,
            past,
            held,
            place,
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
                transaction,
                participants,
                place,
                since: Ticks::default(),
                asked: 0,
                effects,
                rehearsed: None,
                siblings,
                past,
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
        // What was kept because this may have come between.
        self.hold_back();
        self.store.drop_superseded();
        Ok(ended)
    }

    pub(in crate::ramp) fn replay_committed(
        &mut self,
        decided: Required,
        changes: Option<Vec<LoggedChange>>,
        slots: Slots,
    ) -> Result<(), ReplayError> {
        let ended = self.end_prepared(decided.prepared)?;
        let several = ended.siblings.is_some() && changes.is_some();
        let trace = ended
            .siblings
            .map(|siblings| Trace::new(siblings, ended.past, &ended.effects));
        let place = ended.place.unwrap_or(decided.commit);
        self.replay_shown(decided.commit, place, changes, trace);
        if !several {
            self.repeat(decided, slots);
        } else if let Some(recent) = self.recent.get_mut(&decided.commit) {
            recent.slots = slots;
        }
        Ok(())
    }

    /// A commit shows its part here, at its place among the writers of a register.
    pub(in crate::ramp) fn replay_shown(
        &mut self,
        commit: Timestamp,
        place: Timestamp,
        changes: Option<Vec<LoggedChange>>,
        trace: Option<Trace>,
    ) {
        let Some(changes) = changes else { return };
        let late = self.hold_back();
        let sequence = self.store.redo(place, changes, late);
        if let Some(trace) = trace {
            self.remember(sequence, commit, trace, &[]);
        }
    }

    pub(in crate::ramp) fn replay_known(&mut self, known: &KnownRecord) {
        self.settled = known.settled_here;
        self.prepared_max.clone_from(&known.prepared_max);
        for shown in &known.recent {
            self.remember(shown.sequence, shown.commit, shown.trace.clone(), &[]);
            if let Some(recent) = self.recent.get_mut(&shown.commit) {
                recent.slots.clone_from(&shown.slots);
            }
        }
        for (decided, slots) in &known.repeats {
            self.repeat(*decided, slots.clone());
        }
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
        let aside = self.aside.iter().flat_map(AsideBy::left_out);
        let all = self.shown.iter().flat_map(ShownBy::all).chain(aside);
        let recent = all.map(|shown| RecentRecord {
            sequence: shown.sequence,
            commit: shown.commit,
            trace: shown.trace.clone(),
            slots: slots(shown),
        });
        known.recent = recent.collect();
        known.recent.sort_unstable_by_key(|recent| recent.sequence);
        let repeats = self.repeats.iter();
        let repeat = |(commit, repeat): (&Timestamp, &Repeat)| {
            let (prepared, commit) = (repeat.prepared, *commit);
            (Required { prepared, commit }, repeat.slots.clone())
        };
        known.repeats = repeats.map(repeat).collect();
    }

    /// A record for each prepared transaction, in the order of votes.
    pub(in crate::ramp) fn checkpoint_prepared(&self) -> Vec<PreparedRecord> {
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
