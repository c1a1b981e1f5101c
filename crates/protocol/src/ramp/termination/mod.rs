//! Cooperative termination (ramp.txt §4.6): what becomes of an in-doubt transaction whose coordinator does not
//! answer.
//!
//! A participant that has prepared a transaction and does not learn the outcome asks the coordinator and the other
//! participants. One that has installed it answers Commit. One that has not prepared it promises never to, and
//! answers Abort. If all that answer have prepared it and are in doubt, so is this one: the coordinator's own
//! partition may have installed it, and its readers may have seen it. No transaction waits for any of this: reads and
//! writes go on beside what is prepared. The page `docs/protocols/ramp.md` says why this is right, and what it does
//! not do.

mod participant;

use anabranch_types::{NodeId, Ticks, Timestamp};

use crate::ramp::core::coordinator::attempt::{Deciding, Phase};
use crate::ramp::core::message::{Message, Stamped};
use crate::ramp::node::RampNode;
use crate::ramp::options::MILLION;
use crate::ramp::termination::participant::{LocalStatus, Overdue};
use crate::ramp::timer::TERMINATE;
use crate::{Outbox, TransactionId};

/// So often in `terminate_after` it looks at most.
const LOOKS: u64 = 16;

impl RampNode {
    /// Sets the timer if something is prepared here.
    pub(crate) fn schedule_termination(&mut self, out: &mut Outbox<Stamped>) {
        if let Some(after) = self.options.terminate_after {
            self.terminate_at(self.context.now + after, out);
        }
    }

    fn terminate_at(&mut self, due: Ticks, out: &mut Outbox<Stamped>) {
        let waits = self.participant.prepared() > 0 || !self.lost.is_empty() || self.has_refused();
        if waits && !self.terminating {
            self.terminating = true;
            out.timers.push((due, TERMINATE));
        }
    }

    /// Asks about everything that has been prepared for too long, spread over time so that other work goes on.
    pub(crate) fn terminate(&mut self, out: &mut Outbox<Stamped>) {
        self.terminating = false;
        let Some(after) = self.options.terminate_after else {
            return;
        };
        let now = self.context.now;
        let own = self.owner(self.partition);
        let (all_overdue, next) = self.participant.overdue(now, after);
        for overdue in all_overdue {
            let Overdue {
                transaction,
                prepared,
                participants,
            } = overdue;
            let others = participants.into_iter().filter(|node| *node != own);
            for node in std::iter::once(transaction.node).chain(others) {
                self.inquire(node, transaction, prepared, out);
            }
        }
        if now >= self.prepare_again {
            self.prepare_again = now + after;
            self.resend_refused(out);
        }
        while self.lost.front().is_some_and(|(due, _)| *due <= now) {
            let (_, transaction) = self.lost.pop_front().expect("it has a front");
            // Readers may have had it installed everywhere, so that no participant has asked.
            self.resend_commit(transaction, None, out);
        }
        self.terminate_at(next.max(now + Ticks(after.0 / LOOKS)), out);
    }

    pub(crate) fn inquire(
        &mut self,
        node: NodeId,
        transaction: TransactionId,
        prepared: Timestamp,
        out: &mut Outbox<Stamped>,
    ) {
        if node == self.owner(self.partition) {
            return; // Under Prepare-F a coordinator has prepared its own.
        }
        let inquire = Message::Inquire {
            transaction,
            prepared,
        };
        self.send(node, inquire, out);
    }

    /// A participant asks what has become of what it has prepared.
    pub(crate) fn handle_inquire(
        &mut self,
        from: NodeId,
        transaction: TransactionId,
        prepared: Timestamp,
        out: &mut Outbox<Stamped>,
    ) {
        if transaction.node == self.owner(self.partition) {
            let attempt = self.attempts.get(&transaction);
            return match attempt.map(|attempt| &attempt.phase) {
                Some(Phase::Preparing(_)) => {}
                Some(Phase::Replicating(_)) => self.install_at(transaction, from, out),
                Some(Phase::Committing(_)) => self.resend_commit(transaction, Some(from), out),
                // Nothing is known of it: it was not decided.
                _ => self.send(from, Message::Abort { prepared }, out),
            };
        }
        if self
            .misnamed(transaction.node, transaction, prepared)
            .is_some()
        {
            return; // No participant can have prepared that; the promise would refuse all later names.
        }
        if self.options.prepares_in_all_clusters() {
            // A client may have been answered, so this replica must not promise never to prepare it.
            if let Some(decided) = self.participant.installed_as_replicated(prepared) {
                let commit = Message::Commit {
                    transaction,
                    decided,
                };
                self.send(from, commit, out);
            }
            return;
        }
        match self.participant.local_status(&mut self.context, prepared) {
            LocalStatus::Installed(decided) => {
                let commit = Message::Commit {
                    transaction,
                    decided,
                };
                self.send(from, commit, out);
            }
            LocalStatus::Never => self.send(from, Message::Abort { prepared }, out),
            LocalStatus::Prepared => {}
        }
    }

    /// Whether to send this decision to no participant: see [`crate::ramp::RampOptions::lost_commits`].
    pub(crate) fn loses_commit(&mut self, deciding: &Deciding) -> bool {
        if deciding.has_outputs || self.options.lost_commits == 0 {
            return false;
        }
        self.lost_share += self.options.lost_commits;
        let leaves = self.lost_share >= MILLION;
        if leaves {
            self.lost_share -= MILLION;
        }
        leaves
    }

    /// Answers the client of a transaction that is decided, and sends no Commit.
    pub(crate) fn lose_commit(
        &mut self,
        transaction: TransactionId,
        deciding: &mut Deciding,
        out: &mut Outbox<Stamped>,
    ) {
        let after = self.options.terminate_after.unwrap_or_default();
        let due = self.context.now + after + after + after;
        self.lost.push_back((due, transaction));
        self.answer_early(transaction, deciding, out);
        self.schedule_termination(out);
    }
}
