//! Termination at a participant (ramp.txt §4.6): which prepared transactions are overdue, and what this owner answers
//! other participants about theirs.

use anabranch_types::{NodeId, Ticks, Timestamp};

use crate::ramp::collection::installed_exceptions::ExceptionsBy;
use crate::ramp::core::context::Context;
use crate::ramp::core::message::{Decision, Participants};
use crate::ramp::core::participant::Participant;
use crate::ramp::recovery::record::RampRecord;
use crate::{Record, TransactionId};

/// A prepared transaction whose outcome has not arrived in time.
#[derive(Clone, Debug)]
pub(crate) struct Overdue {
    pub(crate) transaction: TransactionId,
    pub(crate) prepared: Timestamp,
    pub(crate) participants: Participants,
}

/// What an owner knows of a transaction that another participant has prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocalStatus {
    /// It is installed here.
    Installed(Decision),
    /// It has prepared it, too, and waits.
    Prepared,
    /// It is not prepared here and never will be; or it has been forgotten since it was installed everywhere, and
    /// then no participant can be waiting for it.
    Never,
}

impl Participant {
    /// What has been prepared for so long that the others should be asked, in the order of votes; and when the next
    /// is due, no later than `after` from now. The time doubles with each question: a node that was away would find
    /// all of them when it returns.
    pub(crate) fn overdue(&mut self, now: Ticks, after: Ticks) -> (Vec<Overdue>, Ticks) {
        let mut overdue = Vec::new();
        let mut next = now + after;
        for promise in &self.votes {
            let Some(prepared) = self.prepared.get_mut(&promise.prepared) else {
                continue;
            };
            let patience = after.0.saturating_mul(1 << prepared.asked.min(32));
            let due = prepared.since + Ticks(patience);
            if now < due {
                next = next.min(due);
                if prepared.asked == 0 {
                    break; // Those that follow have been prepared since.
                }
                continue;
            }
            prepared.asked += 1;
            prepared.since = now;
            overdue.push(Overdue {
                transaction: prepared.transaction,
                prepared: promise.prepared,
                participants: prepared.participants.clone(),
            });
        }
        (overdue, next)
    }

    /// What a node that has come back has to be asked about: what it has coordinated and is prepared
    /// here, and what it takes part in and has been asked about before.
    pub(crate) fn unanswered_by(
        &self,
        node: NodeId,
    ) -> impl Iterator<Item = (TransactionId, Timestamp)> + '_ {
        let all = self.all_prepared().into_iter();
        all.filter(move |(transaction, name)| {
            let prepared = &self.prepared[name];
            let asked = prepared.asked > 0 && prepared.participants.contains(&node);
            asked || transaction.node == node
        })
    }

    /// Answers what has become here of a transaction that another participant has prepared. If it is unknown here,
    /// this owner promises never to prepare it: it will refuse everything of the same coordinator up to this name. So
    /// the promise takes no memory, and need never be forgotten.
    pub(crate) fn local_status(
        &mut self,
        context: &mut Context,
        prepared: Timestamp,
    ) -> LocalStatus {
        if self.prepared.contains_key(&prepared) {
            return LocalStatus::Prepared;
        }
        if let Some(decided) = self.installed_as(prepared) {
            return LocalStatus::Installed(decided);
        }
        let highest = &mut self.prepared_max[prepared.node().index()];
        if *highest < prepared {
            *highest = prepared;
            if let Some(journal) = &mut context.journal {
                journal.write(Record::Ramp(RampRecord::Promised { prepared }));
            }
        }
        LocalStatus::Never
    }

    /// The decision under which a transaction of this name is installed here, if it is not forgotten. Asked seldom,
    /// so it is searched for.
    fn installed_as(&self, prepared: Timestamp) -> Option<Decision> {
        let installed = self
            .installed
            .iter()
            .flat_map(|installed| installed.all().iter().rev());
        let exceptions_by = self.exceptions_by.iter().flat_map(ExceptionsBy::excepted);
        let installed = installed
            .chain(exceptions_by)
            .find(|installed| installed.trace.siblings.timestamp == prepared);
        let mut commit_replies = self.commit_replies.iter();
        let commit = installed.map(|installed| installed.commit).or_else(|| {
            let commit_reply =
                commit_replies.find(|(_, commit_reply)| commit_reply.prepared == prepared);
            commit_reply.map(|(commit, _)| *commit)
        })?;
        Some(Decision { prepared, commit })
    }

    /// A promise was written down.
    pub(crate) fn replay_promised(&mut self, prepared: Timestamp) {
        let highest = &mut self.prepared_max[prepared.node().index()];
        *highest = prepared.max(*highest);
    }
}
