//! The belt's own tables in a server's database, and what each database transaction does with them.
//!
//! This is the definition that a database keeps: an in-memory database calls these functions, PostgreSQL runs SQL that
//! does the same. Each function is one database transaction, together with what it says beside: the rows of the
//! application that change with it. It takes place as a whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::token::{Epoch, Hop, Payload, Positions, Sequence, ServerId, Token, Update};

/// Why a database transaction of the belt is refused. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refused {
    /// The hop has been received before, or a later one.
    OldHop(Hop),
    /// The token is of another epoch than the database, or a later epoch has been promised.
    OtherEpoch(Epoch),
    /// The hold is not open.
    NotOpen(Hop),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::OldHop(hop) => write!(f, "hop {} has been received before", hop.0),
            Refused::OtherEpoch(epoch) => {
                write!(
                    f,
                    "this server does not take part in epoch {}",
                    epoch.number
                )
            }
            Refused::NotOpen(hold) => write!(f, "hold {} is not open", hold.0),
        }
    }
}

impl std::error::Error for Refused {}

/// The belt's tables in the database of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rows<U> {
    /// The server.
    pub server: ServerId,
    /// The epoch that the server takes part in.
    pub epoch: Epoch,
    /// It takes part in no epoch before this one. After `epoch` while a removal is under way.
    pub promised: Epoch,
    /// The servers of the epoch, in the order of the ring.
    pub members: Vec<ServerId>,
    /// The last hop received.
    pub received: Hop,
    /// The last hop passed. Below `received` while the hold is open.
    pub passed: Hop,
    /// While the hold is open: the token as received. Afterwards: the token as passed, until the next is received.
    pub token: Token<U>,
    /// By origin: the highest update applied; for the server itself, the highest one of its own.
    pub applied: Positions,
    /// The server's own updates that not all servers are known to have applied.
    pub outbox: BTreeMap<Sequence, Update<U>>,
    /// The highest number drawn.
    pub drawn: Sequence,
}

/// The durable state that a restarted server goes on from, and that a removal collects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Standing<U> {
    /// See [`Rows::epoch`].
    pub epoch: Epoch,
    /// See [`Rows::promised`].
    pub promised: Epoch,
    /// See [`Rows::members`].
    pub members: Vec<ServerId>,
    /// See [`Rows::received`].
    pub received: Hop,
    /// See [`Rows::passed`].
    pub passed: Hop,
    /// See [`Rows::token`].
    pub token: Token<U>,
    /// See [`Rows::applied`].
    pub applied: Positions,
    /// The updates of [`Rows::outbox`].
    pub outbox: Vec<Update<U>>,
}

impl<U: Payload> Rows<U> {
    /// The tables of a new ring. The first member has hold 1 open; no update exists.
    pub fn new(server: ServerId, members: Vec<ServerId>) -> Rows<U> {
        let is_first = members.first() == Some(&server);
        let received = Hop(u64::from(is_first));
        Rows {
            server,
            epoch: Epoch::default(),
            promised: Epoch::default(),
            members,
            received,
            passed: Hop(0),
            token: Token {
                epoch: Epoch::default(),
                hop: received,
                updates: Vec::new(),
                applied: BTreeMap::new(),
                wishes: BTreeSet::new(),
            },
            applied: Positions::new(),
            outbox: BTreeMap::new(),
            drawn: Sequence(0),
        }
    }

    /// Whether this hold is open: operations of it may commit.
    pub fn is_open(&self, hold: Hop) -> bool {
        self.received == hold && self.passed < hold && self.promised == self.epoch
    }

    /// Draws a number. Not transactional: a number is never drawn again.
    pub fn draw(&mut self) -> Sequence {
        self.drawn = Sequence(self.drawn.0 + 1);
        self.drawn
    }

    /// The part of a global operation's own transaction: its update enters the outbox. Beside it: the operation's
    /// changes.
    ///
    /// # Errors
    /// When the hold has been passed: then the operation must not commit.
    pub fn commit_operation(
        &mut self,
        hold: Hop,
        sequence: Sequence,
        payload: U,
    ) -> Result<(), Refused> {
        if !self.is_open(hold) {
            return Err(Refused::NotOpen(hold));
        }
        let update = Update {
            origin: self.server,
            hop: hold,
            sequence,
            payload,
        };
        self.outbox.insert(sequence, update);
        let own = self.applied.entry(self.server).or_default();
        *own = sequence.max(*own);
        Ok(())
    }

    /// The transaction that receives a token. Beside it: the changes of the returned updates, in this order.
    ///
    /// # Errors
    /// When the token is of another epoch, or its hop is old.
    pub fn receive(&mut self, token: Token<U>) -> Result<Vec<Update<U>>, Refused> {
        if token.epoch != self.epoch || token.epoch != self.promised {
            return Err(Refused::OtherEpoch(token.epoch));
        }
        if token.hop <= self.received {
            return Err(Refused::OldHop(token.hop));
        }
        let mut new = Vec::new();
        for update in &token.updates {
            let position = self.applied.get(&update.origin).copied();
            if update.origin != self.server && position.is_none_or(|at| at < update.sequence) {
                self.applied.insert(update.origin, update.sequence);
                new.push(update.clone());
            }
        }
        self.received = token.hop;
        self.token = token;
        Ok(new)
    }

    /// The transaction that closes a hold. Returns the token to be passed on: the received updates that some server is
    /// not known to have applied, then those of this hold in the order of their numbers.
    ///
    /// # Errors
    /// When the hold is not open.
    pub fn pass(&mut self, hold: Hop, wishes: BTreeSet<ServerId>) -> Result<&Token<U>, Refused> {
        if !self.is_open(hold) {
            return Err(Refused::NotOpen(hold));
        }
        self.passed = hold;
        let (server, members) = (self.server, &self.members);
        let token = &mut self.token;
        token.hop = hold.next();
        token.epoch = self.epoch;
        token.wishes = wishes;
        token.applied.insert(server, self.applied.clone());
        let own = self.outbox.values().filter(|update| update.hop == hold);
        token.updates.extend(own.cloned());
        let mut kept = std::mem::take(&mut token.updates);
        kept.retain(|update| !token.is_applied_by_all(members, update));
        token.updates = kept;
        let token = &self.token;
        self.outbox
            .retain(|_, update| !token.is_applied_by_all(members, update));
        Ok(token)
    }

    /// The transaction that promises an epoch: it closes an open hold, whose token is kept. Returns whether the promise
    /// was made, now or before.
    pub fn promise(&mut self, epoch: Epoch) -> bool {
        self.promised = self.promised.max(epoch);
        self.promised == epoch
    }

    /// The transaction that begins to take part in a promised epoch. Returns whether the server does.
    pub fn install(&mut self, epoch: Epoch, members: Vec<ServerId>) -> bool {
        if self.promised != epoch {
            return false;
        }
        if self.epoch != epoch {
            self.epoch = epoch;
            self.members = members;
            // The hold of the epoch before is closed for ever.
            self.passed = self.received;
        }
        true
    }

    /// The state that a restarted server goes on from.
    pub fn standing(&self) -> Standing<U> {
        Standing {
            epoch: self.epoch,
            promised: self.promised,
            members: self.members.clone(),
            received: self.received,
            passed: self.passed,
            token: self.token.clone(),
            applied: self.applied.clone(),
            outbox: self.outbox.values().cloned().collect(),
        }
    }

    /// Checks the invariants that one database can see.
    ///
    /// # Errors
    /// The invariant and what contradicts it.
    pub fn check_invariants(&self) -> Result<(), String> {
        if self.passed > self.received {
            return Err(format!(
                "BELT-I1: {} has passed {:?} and received {:?}",
                self.server, self.passed, self.received
            ));
        }
        let places: Vec<_> = self.token.updates.iter().map(Update::place).collect();
        if places.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(format!(
                "BELT-I3: the updates at {} are not in order: {places:?}",
                self.server
            ));
        }
        let position = |update: &Update<U>| self.applied.get(&update.origin).copied();
        for update in &self.token.updates {
            if position(update).is_none_or(|at| at < update.sequence) {
                return Err(format!(
                    "BELT-I5: {} has received {update:?} and has not applied it",
                    self.server
                ));
            }
        }
        for update in self.outbox.values() {
            let is_passed = update.hop <= self.passed;
            if is_passed && self.epoch == self.token.epoch && !self.carries(update) {
                return Err(format!(
                    "BELT-I2: {} has passed {:?} without {update:?}",
                    self.server, self.passed
                ));
            }
        }
        Ok(())
    }

    /// Whether the stored token has an update, or a server is known to have removed it from the token.
    fn carries(&self, update: &Update<U>) -> bool {
        let places = self.token.updates.iter();
        self.token.is_applied_by_all(&self.members, update)
            || places
                .map(Update::place)
                .any(|place| place == update.place())
    }
}
