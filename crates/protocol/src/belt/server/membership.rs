//! The removal of a server that will not return: a new epoch, which all other servers install.
//!
//! 1. *Promise.* The server at which the operator acts asks all others but the removed one to take part in no earlier
//!    epoch. Each answers with its durable state. From then on no token is received and no hold is open in the ring.
//! 2. *Install.* When all have answered, it asks each of them to take part in the new epoch.
//! 3. *Begin.* When all have done that, it receives a token that it makes itself: every update that any of them has in
//!    its outbox or its last token, in order, at a hop above all others.
//!
//! If it crashes on the way, the ring stands still until the operator repeats the removal, at any server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anabranch_types::Ticks;

use super::{BeltServer, Outbox, Phase, Reply, Request};
use crate::belt::message::Message;
use crate::belt::rows::Standing;
use crate::belt::token::{Epoch, Hop, Payload, Sequence, ServerId, Token, Update};

/// A removal that this server coordinates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Removal<U> {
    removed: ServerId,
    epoch: Epoch,
    members: Vec<ServerId>,
    /// What the members have promised with.
    standings: BTreeMap<ServerId, Standing<U>>,
    /// The members that take part in the epoch.
    installed: BTreeSet<ServerId>,
}

impl<U: Payload> Removal<U> {
    fn has_all_promises(&self) -> bool {
        self.standings.len() == self.members.len()
    }

    /// The members whose answer is awaited: their promise, or that they take part in the epoch.
    pub(super) fn unanswered(&self) -> Vec<ServerId> {
        let has_answered = |member: &ServerId| match self.has_all_promises() {
            true => self.installed.contains(member),
            false => self.standings.contains_key(member),
        };
        let members = self.members.iter();
        members.filter(|one| !has_answered(one)).copied().collect()
    }

    /// The first token of the epoch.
    fn token(&self) -> Token<U> {
        let mut updates: BTreeMap<(Hop, Sequence), Update<U>> = BTreeMap::new();
        for standing in self.standings.values() {
            for update in standing.token.updates.iter().chain(&standing.outbox) {
                updates.insert(update.place(), update.clone());
            }
        }
        let hops = self.standings.values();
        let last = hops.map(|standing| standing.received.max(standing.token.hop));
        let applied = self.standings.iter();
        Token {
            epoch: self.epoch,
            hop: last.max().unwrap_or_default().next(),
            updates: updates.into_values().collect(),
            applied: applied
                .map(|(member, standing)| (*member, standing.applied.clone()))
                .collect(),
            wishes: BTreeSet::new(),
        }
    }

    /// The last update of the removed server that a member has.
    fn through(&self) -> Sequence {
        let applied = self.standings.values();
        let applied = applied.filter_map(|standing| standing.applied.get(&self.removed).copied());
        let token = self.token();
        let carried = token.updates.iter();
        let carried = carried.filter(|update| update.origin == self.removed);
        applied
            .chain(carried.map(|update| update.sequence))
            .max()
            .unwrap_or_default()
    }
}

impl<U: Payload, O: Ord + Clone + fmt::Debug> BeltServer<U, O> {
    pub(super) fn remove(&mut self, now: Ticks, removed: ServerId, out: &mut Outbox<U, O>) {
        let members = self.members.iter().copied().filter(|one| *one != removed);
        let members: Vec<ServerId> = members.collect();
        // A server that is no member any more may be removed again: an earlier removal may not have come to its end.
        if removed == self.id || !members.contains(&self.id) {
            return out.replies.push(Reply::NotRemoved(removed));
        }
        let epoch = Epoch {
            number: self.highest_epoch.max(self.promised.number) + 1,
            server: self.id,
        };
        self.removal = Some(Removal {
            removed,
            epoch,
            members,
            standings: BTreeMap::new(),
            installed: BTreeSet::new(),
        });
        out.requests.push(Request::Promise(epoch));
        self.send_membership_again(out);
        self.set_resend(now, out);
    }

    /// Asks the members that have not answered.
    pub(super) fn send_membership_again(&self, out: &mut Outbox<U, O>) {
        let Some(removal) = &self.removal else {
            return;
        };
        let epoch = removal.epoch;
        for member in removal.members.iter().filter(|one| **one != self.id) {
            if !removal.has_all_promises() {
                if !removal.standings.contains_key(member) {
                    out.messages.push((*member, Message::Promise { epoch }));
                }
            } else if !removal.installed.contains(member) {
                let members = removal.members.clone();
                out.messages
                    .push((*member, Message::Install { epoch, members }));
            }
        }
    }

    pub(super) fn take_promise(&mut self, from: ServerId, epoch: Epoch, out: &mut Outbox<U, O>) {
        self.highest_epoch = self.highest_epoch.max(epoch.number);
        if epoch < self.promised {
            let promised = self.promised;
            out.messages
                .push((from, Message::Refuse { epoch, promised }));
        } else if epoch > self.epoch {
            out.requests.push(Request::Promise(epoch));
        }
    }

    /// The database has promised: this server sends what it has.
    pub(super) fn take_promised(
        &mut self,
        now: Ticks,
        epoch: Epoch,
        standing: Option<Box<Standing<U>>>,
        out: &mut Outbox<U, O>,
    ) {
        let Some(standing) = standing else {
            return self.give_up_removal(epoch, out);
        };
        if epoch < self.promised || epoch <= self.epoch {
            return;
        }
        self.promised = epoch;
        self.stand_still();
        self.received = standing.received;
        if epoch.server == self.id {
            return self.collect(now, self.id, epoch, *standing, out);
        }
        self.give_up_other_removals(epoch, out);
        out.messages
            .push((epoch.server, Message::Promised { epoch, standing }));
    }

    /// Leaves the epoch's holds. Operations that run end as their transactions do: the promise refuses their COMMIT.
    fn stand_still(&mut self) {
        self.phase = Phase::Away;
    }

    pub(super) fn give_up_removal(&mut self, epoch: Epoch, out: &mut Outbox<U, O>) {
        if let Some(removal) = self.removal.take_if(|removal| removal.epoch == epoch) {
            out.replies.push(Reply::NotRemoved(removal.removed));
        }
    }

    fn give_up_other_removals(&mut self, epoch: Epoch, out: &mut Outbox<U, O>) {
        if let Some(removal) = self.removal.take_if(|removal| removal.epoch < epoch) {
            out.replies.push(Reply::NotRemoved(removal.removed));
        }
    }

    /// A member has promised.
    pub(super) fn collect(
        &mut self,
        now: Ticks,
        from: ServerId,
        epoch: Epoch,
        standing: Standing<U>,
        out: &mut Outbox<U, O>,
    ) {
        let Some(removal) = &mut self.removal else {
            return;
        };
        if removal.epoch != epoch || !removal.members.contains(&from) {
            return;
        }
        removal.standings.insert(from, standing);
        if removal.has_all_promises() {
            let members = removal.members.clone();
            out.requests.push(Request::Install(epoch, members));
            self.send_membership_again(out);
            self.set_resend(now, out);
        }
    }

    /// The database takes part in an epoch.
    pub(super) fn take_installed(
        &mut self,
        now: Ticks,
        epoch: Epoch,
        members: Vec<ServerId>,
        done: bool,
        out: &mut Outbox<U, O>,
    ) {
        if !done {
            return self.give_up_removal(epoch, out);
        }
        if epoch > self.epoch {
            self.epoch = epoch;
            self.promised = epoch;
            self.members = members;
            self.wishes.retain(|server| self.members.contains(server));
            self.stand_still();
            if self.is_alone() {
                let answered = self.unanswered.drain(..).map(Reply::Answer);
                out.replies.extend(answered);
            }
        }
        if epoch != self.epoch {
            return;
        }
        if epoch.server == self.id {
            return self.count_installed(now, self.id, epoch, out);
        }
        out.messages
            .push((epoch.server, Message::Installed { epoch }));
        if self.is_waiting() {
            self.set_resend(now, out);
        }
    }

    /// A member takes part in the new epoch. When all do, this server makes its token.
    pub(super) fn count_installed(
        &mut self,
        _now: Ticks,
        from: ServerId,
        epoch: Epoch,
        out: &mut Outbox<U, O>,
    ) {
        let Some(removal) = &mut self.removal else {
            return;
        };
        if removal.epoch != epoch {
            return;
        }
        removal.installed.insert(from);
        if removal.installed.len() < removal.members.len() {
            return;
        }
        let token = removal.token();
        out.replies.push(Reply::Removed {
            server: removal.removed,
            through: removal.through(),
        });
        self.removal = None;
        out.requests.push(Request::Receive(token.clone()));
        self.phase = Phase::Receiving {
            from: self.id,
            token,
        };
    }
}
