//! Reads at an owner (ramp.txt, Algorithm 1, GET).

use anabranch_storage::CommitSequence;
use anabranch_types::{Activity, Fetched, Read};
use smallvec::SmallVec;

use crate::ramp::core::context::Context;
use crate::ramp::core::extension::StableVector;
use crate::ramp::core::message::{
    Decision, Freshness, Got, ReadMetadata, ReadPoint, Refusal, SiblingMetadata,
};
use crate::ramp::core::metadata::{Metadata, ReadSet, read_tag};
use crate::ramp::core::participant::Participant;

impl Participant {
    /// Answers reads from one snapshot. It includes what is required as far as `at` permits; what it lacks of that
    /// goes with the rows, and so does the sibling metadata of the transactions over several partitions that wrote
    /// what was read, unless the reader knows them to be stable.
    pub(crate) fn get<'r>(
        &mut self,
        context: &mut Context,
        at: ReadPoint,
        reads: impl ExactSizeIterator<Item = &'r Read> + Clone,
        required: &[Decision],
        known: &StableVector,
        freshness: Option<&Freshness>,
    ) -> Result<Got, Refusal> {
        if reads.len() > 0 && self.has_forgotten(known, &context.stability) {
            return Err(Refusal::forgotten(context.stability.known()));
        }
        if let Metadata::Hybrid(_) = self.metadata
            && !required.is_empty()
        {
            self.count_false_positives(context, reads.clone(), required);
        }
        let mut metadata = ReadMetadata {
            unchanged_until: freshness.map_or(CommitSequence::LOADED, |fresh| fresh.sequence),
            not_prepared: self.not_prepared(context, required),
            ..ReadMetadata::default()
        };
        let missing = &mut metadata.missing;
        let snapshot = match at {
            ReadPoint::Revalidate(snapshot) => {
                if self.is_fresh(snapshot, freshness) == Ok(true)
                    && self.is_complete(context, snapshot, reads.clone(), required, missing)
                {
                    return Ok(Got {
                        snapshot,
                        fetched: Vec::new(),
                        metadata: metadata.some(),
                    });
                }
                missing.clear();
                self.include_all(context, required)?
            }
            ReadPoint::Newest => self.include_all(context, required)?,
            ReadPoint::Fixed(snapshot) => {
                for decision in required {
                    missing.extend(self.look_back(context, snapshot, *decision)?);
                }
                if !self.is_fresh(snapshot, freshness)? {
                    return Err(Refusal::Fractured);
                }
                snapshot
            }
        };
        if snapshot < self.store.last() {
            self.retain_history(context.now, reads.clone());
        }
        let (fetched, siblings) = self.fetch(context, snapshot, reads, known)?;
        metadata.siblings = siblings;
        Ok(Got {
            snapshot,
            fetched,
            metadata: metadata.some(),
        })
    }

    /// The rows of a snapshot, and the sibling metadata of their writers that the reader needs.
    fn fetch<'r>(
        &mut self,
        context: &Context,
        snapshot: CommitSequence,
        reads: impl ExactSizeIterator<Item = &'r Read> + Clone,
        known: &StableVector,
    ) -> Result<(Vec<Fetched>, Vec<SiblingMetadata>), Refusal> {
        let since = self.first_unknown(known);
        let since = since.filter(|first| *first <= snapshot);
        let mut fetched = Vec::with_capacity(reads.len());
        let mut touched: SmallVec<[usize; 8]> = SmallVec::new();
        let (asked, at) = (reads.clone(), Some(snapshot));
        let found = context.probe.within(Activity::Storage, || {
            (self.store).fetch_all(asked, at, since, &mut fetched, &mut touched)
        });
        found.map_err(|_| Refusal::BelowFloor)?;
        if touched.is_empty() {
            return Ok((fetched, Vec::new()));
        }
        let mut read_set: ReadSet = SmallVec::new();
        let mut touched = touched.into_iter().peekable();
        for (at, read) in reads.enumerate() {
            if touched.next_if_eq(&at).is_some() {
                read_set.push(read_tag(read));
            }
        }
        let siblings = self.sibling_metadata(&read_set, snapshot, known);
        Ok((fetched, siblings))
    }

    /// A snapshot of now, with all that is required.
    fn include_all(
        &mut self,
        context: &mut Context,
        required: &[Decision],
    ) -> Result<CommitSequence, Refusal> {
        for decision in required {
            self.include(context, None, *decision)?;
        }
        Ok(self.store.last())
    }

    /// Installs a transaction that has committed elsewhere, if it is prepared here (ramp.txt §4.8, faster commit
    /// detection). Refuses if the snapshot `at` lacks it. One that is unknown has written nothing here, if metadata
    /// leave that open.
    pub(crate) fn include(
        &mut self,
        context: &mut Context,
        at: Option<CommitSequence>,
        decision: Decision,
    ) -> Result<(), Refusal> {
        let latest = if let Some(recent) = self.recent.get(&decision.commit) {
            recent.sequence
        } else if self.install_if_prepared(context, decision) {
            self.store.last()
        } else if context.stability.is_settled(decision.commit) {
            self.settled
        } else if !self.metadata.is_exact() {
            return Ok(());
        } else if self.is_replica {
            // An older snapshot can never include it; a new one may, at another replica.
            return Err(match at {
                Some(_) => Refusal::Fractured,
                None => Refusal::NotHere,
            });
        } else {
            self.break_invariant(format!(
                "RAMP-I1: {decision:?} is committed, and unknown here"
            ));
            return Err(Refusal::BelowFloor);
        };
        match at {
            Some(snapshot) if latest > snapshot => Err(Refusal::Fractured),
            _ => Ok(()),
        }
    }

    /// Installs a transaction that has committed elsewhere, if it is prepared here.
    pub(crate) fn install_if_prepared(
        &mut self,
        context: &mut Context,
        decision: Decision,
    ) -> bool {
        let is_prepared = self.prepared.contains_key(&decision.prepared);
        // An error is recorded as a broken invariant: this answer has no room for it.
        if is_prepared
            && let Ok(slots) = self.install_prepared(context, decision)
            && let Some(recent) = self.recent.get_mut(&decision.commit)
        {
            recent.slots = slots;
        }
        is_prepared
    }
}
