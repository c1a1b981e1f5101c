//! Cooperative termination (ramp.txt §4.6): what becomes of a transaction whose coordinator stays away.
//!
//! A participant that has prepared a transaction and hears no more of it asks the coordinator and the
//! other participants. One that shows it says so, and it is committed. One that has not prepared it
//! promises never to, and it is forgotten. If all that can be asked have prepared it and wait, so does
//! this one: the coordinator's own partition may show it, and whoever asks that partition may have
//! seen it. Nobody waits for any of this: readers and writers go their way beside what is prepared.
//! The page `docs/protocols/ramp.md` says why this is right, and what it does not do.

use anabranch_types::{NodeId, Ticks, Timestamp};

use super::RampNode;
use super::attempt::{Deciding, Phase};
use super::message::{Message, Required, Stamped};
use super::participant::{Overdue, Standing};
use crate::{Outbox, TimerId, TransactionId};

/// The timer that looks for what has been prepared for too long.
pub(super) const TERMINATE: TimerId = TimerId(1);

/// So often in `terminate_after` it looks at most.
const LOOKS: u64 = 16;

/// What [`super::RampOptions::unsent_commits`] counts in.
pub(super) const MILLION: u32 = 1_000_000;

impl RampNode {
    /// Sets the timer if something is prepared here.
    pub(super) fn terminate_later(&mut self, out: &mut Outbox<Stamped>) {
        if let Some(after) = self.options.terminate_after {
            self.terminate_at(self.context.now + after, out);
        }
    }

    fn terminate_at(&mut self, due: Ticks, out: &mut Outbox<Stamped>) {
        let waits = self.participant.prepared() > 0
            || !self.unsent.is_empty()
            || self.has_refused_intents();
        if waits && !self.terminating {
            self.terminating = true;
            out.timers.push((due, TERMINATE));
        }
    }

    /// Asks about everything that has been prepared for too long. What is asked about does not come all at
    /// once: nobody else would be served meanwhile.
    pub(super) fn terminate(&mut self, out: &mut Outbox<Stamped>) {
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
        if now >= self.offer_again {
            self.offer_again = now + after;
            self.offer_what_was_refused(out);
        }
        while self.unsent.front().is_some_and(|(due, _)| *due <= now) {
            let (_, transaction) = self.unsent.pop_front().expect("it has a front");
            // Readers may have had it shown everywhere, so that nobody has asked.
            self.commit_again(transaction, None, out);
        }
        self.terminate_at(next.max(now + Ticks(after.0 / LOOKS)), out);
    }

    pub(super) fn inquire(
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
    pub(super) fn handle_inquire(
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
                Some(Phase::Intending(_)) => self.show_at(transaction, from, out),
                Some(Phase::Committing(_)) => self.commit_again(transaction, Some(from), out),
                // Nothing is known of it: it was not decided.
                _ => self.send(from, Message::Abort { prepared }, out),
            };
        }
        if self
            .misnamed(transaction.node, transaction, prepared)
            .is_some()
        {
            return; // Nobody can have prepared that; to promise it would shut out all that comes.
        }
        if self.options.binds() {
            // Nobody promises never to prepare what a client may have been told of.
            if let Some(decided) = self.participant.shown_in_all(prepared) {
                let commit = Message::Commit {
                    transaction,
                    decided,
                };
                self.send(from, commit, out);
            }
            return;
        }
        match self.participant.standing(&mut self.context, prepared) {
            Standing::Shown(decided) => {
                let commit = Message::Commit {
                    transaction,
                    decided,
                };
                self.send(from, commit, out);
            }
            Standing::Never => self.send(from, Message::Abort { prepared }, out),
            Standing::Prepared => {}
        }
    }

    /// Commit: from the coordinator, or from another participant that was asked.
    pub(super) fn handle_commit(
        &mut self,
        from: NodeId,
        transaction: TransactionId,
        decided: Required,
        out: &mut Outbox<Stamped>,
    ) {
        let coordinator = transaction.node;
        if from != coordinator && !self.participant.is_prepared(decided.prepared) {
            return; // It is shown by now, and perhaps forgotten.
        }
        let slots = self.participant.commit(&mut self.context, decided);
        let sequence = self.participant.store.last();
        self.context.stability.reached(self.partition, sequence);
        let slots = slots.map_err(Box::new);
        let committed = Message::Committed { transaction, slots };
        self.send(coordinator, committed, out);
    }

    /// Whether nobody is to be told of this decision: see [`super::RampOptions::unsent_commits`].
    pub(super) fn leaves_unsent(&mut self, deciding: &Deciding) -> bool {
        if deciding.has_outputs || self.options.unsent_commits == 0 {
            return false;
        }
        self.unsent_share += self.options.unsent_commits;
        let leaves = self.unsent_share >= MILLION;
        if leaves {
            self.unsent_share -= MILLION;
        }
        leaves
    }

    /// Answers the client of a transaction that is decided, and tells no participant.
    pub(super) fn leave_unsent(
        &mut self,
        transaction: TransactionId,
        deciding: &mut Deciding,
        out: &mut Outbox<Stamped>,
    ) {
        let after = self.options.terminate_after.unwrap_or_default();
        let due = self.context.now + after + after + after;
        self.unsent.push_back((due, transaction));
        self.answer_early(transaction, deciding, out);
        self.terminate_later(out);
    }
}
