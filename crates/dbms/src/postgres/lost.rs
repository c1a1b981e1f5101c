//! A server is lost for good while it joins a ring or leaves it: the others end the change without it.
//!
//! The ring is [closed](super::closed), so what the databases say does not change meanwhile. Each server has either the list of
//! servers with the lost one or the list without it (BELT-I17). All of them begin a new epoch with the list without it:
//! the old one, if the server was joining, and the new one, if it was leaving. A row is lost if its key has another owner in the
//! two lists, and the owner in the list without the lost server has begun the other one: then it has deleted the row, or
//! has not taken it over.

use anabranch_protocol::belt::{Epoch, Hop, Rows, ServerId};

use super::closed::{Site, error_of, reopen};
use super::relocate::{Membership, Open, apply_all, lock_all, membership};
use super::ring::Payloads;
use super::share::{ROUNDS_MAX, begin_epoch, commit, commit_received};
use crate::belt::Changes;

/// A slot, and the place of the server that it belongs to now.
pub type LostSlot = (u16, u16);

/// How a change ended without the server that joined or left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// No server had begun another list than the rest: the ring is as it was, and open. If the lost server is a member, it
    /// can be removed as from any ring.
    AsItWas {
        /// Whether the lost server is a member.
        is_member: bool,
    },
    /// The servers had two lists, and have the one without the lost server now.
    Without {
        /// The slots whose rows only the lost server had.
        lost: Vec<LostSlot>,
    },
}

/// Ends a change of a ring whose server `lost`, a place, is lost for good. The sites are all other servers that have the belt, and are
/// [closed](super::closed::close). Afterwards they are open. `before` is called before each statement; `tell` with the slots
/// whose rows are lost, before anything is durable.
///
/// # Errors
/// When a lock is not had within 10 s, a database refuses a statement or is lost, or the databases differ in more than
/// the lost server: it can then be repeated.
pub fn end_without(
    sites: &mut [Site<'_>],
    lost: u16,
    before: &mut dyn FnMut(&str),
    tell: &mut dyn FnMut(&[LostSlot]),
) -> Result<Ended, String> {
    for _ in 0..ROUNDS_MAX {
        let mut round = Round::begin(sites, before)?;
        let Some(lists) = round.lists(lost)? else {
            let is_member = round.states[0].members.contains(&lost);
            drop(round);
            reopen(sites, before)?;
            return Ok(Ended::AsItWas { is_member });
        };
        let found = round.receive(before)?;
        if found > 0 {
            continue;
        }
        let slots = round.lost(&lists);
        tell(&slots);
        round.run(&lists, before)?;
        reopen(sites, before)?;
        return Ok(Ended::Without { lost: slots });
    }
    Err(
        "error: global operations still commit, although no middleware was found: look for connections to the servers, and end \
         them"
            .to_owned(),
    )
}

/// The two lists of servers.
struct Lists {
    with: Membership,
    without: Membership,
}

/// A transaction on each server.
struct Round<'c> {
    open: Vec<Open<'c>>,
    states: Vec<Membership>,
    /// The belt's tables.
    rows: Vec<Rows<Changes>>,
}

impl<'c> Round<'c> {
    fn begin(sites: &'c mut [Site<'_>], before: &mut dyn FnMut(&str)) -> Result<Round<'c>, String> {
        let mut open = lock_all(sites, "", before)?;
        let mut states = Vec::new();
        let mut rows = Vec::new();
        for one in &mut open {
            before("membership");
            let state = membership(&mut one.work.transaction).map_err(error_of(one.name))?;
            states.push(state.ok_or_else(|| one.of("the belt is not installed there"))?);
            before("rows");
            let read = one.work.rows(Payloads::All);
            rows.push(read.map_err(|trouble| one.of(trouble))?);
        }
        match open.is_empty() {
            true => Err("error: the belt is installed on no other server".to_owned()),
            false => Ok(Round { open, states, rows }),
        }
    }

    /// The lists with the server and without it; nothing if all servers have one list.
    fn lists(&self, lost: u16) -> Result<Option<Lists>, String> {
        let find = |is_with: bool| {
            let mut states = self.states.iter();
            states.find(|state| state.members.contains(&lost) == is_with)
        };
        let (Some(with), Some(without)) = (find(true), find(false)) else {
            return match self
                .states
                .iter()
                .position(|state| *state != self.states[0])
            {
                None => Ok(None),
                Some(at) => Err(self.differs(at)),
            };
        };
        for (at, state) in self.states.iter().enumerate() {
            if state != with && state != without {
                return Err(self.differs(at));
            }
        }
        let mut others: Vec<u16> = self.open.iter().map(|one| one.place).collect();
        others.sort_unstable();
        let mut members = without.members.clone();
        members.sort_unstable();
        if others != members {
            return Err(format!(
                "error: the members of the ring without the lost server are the servers {members:?} of the file, counted from 0, \
                 and {others:?} were reached: all of them have to be"
            ));
        }
        Ok(Some(Lists {
            with: with.clone(),
            without: without.clone(),
        }))
    }

    fn differs(&self, at: usize) -> String {
        self.open[at].of(
            "its ring has other servers, or other keys belong to them, than in the databases of the others",
        )
    }

    /// BELT-I13: each server applies what the others have done. What is new is made durable. Returns how many operations were.
    fn receive(&mut self, before: &mut dyn FnMut(&str)) -> Result<usize, String> {
        let found = self.rows.clone();
        let counts = apply_all(&mut self.open, &mut self.rows, before)?;
        let new = counts.iter().sum();
        if new > 0 {
            commit_received(std::mem::take(&mut self.open), &found, &self.rows, before)?;
        }
        Ok(new)
    }

    /// The slots whose rows only the lost server had, with their owners.
    fn lost(&self, lists: &Lists) -> Vec<LostSlot> {
        let owners = lists.with.owners.iter().zip(&lists.without.owners);
        let moved = (0..)
            .zip(owners)
            .filter(|(_, (with, without))| with != without);
        let moved = moved.map(|(slot, (_, owner))| (slot, *owner));
        let has_none = |place: u16| {
            let mut servers = self.open.iter().zip(&self.states);
            servers.any(|(one, state)| one.place == place && *state == lists.with)
        };
        moved.filter(|(_, owner)| has_none(*owner)).collect()
    }

    fn run(self, lists: &Lists, before: &mut dyn FnMut(&str)) -> Result<(), String> {
        let promised = self.rows.iter().map(|rows| rows.promised.number).max();
        let epoch = Epoch {
            number: promised.unwrap_or(0) + 1,
            server: ServerId(lists.without.members[0]),
        };
        let hops = self.rows.iter();
        let hop: Option<Hop> = hops.map(|rows| rows.received.max(rows.token.hop)).max();
        let hop = hop.unwrap_or_default().next();
        let mut open = self.open;
        for (one, found) in open.iter_mut().zip(self.rows) {
            let rows = found.clone();
            begin_epoch(one, &lists.without, found, rows, epoch, hop, before)?;
        }
        for one in open {
            before("commit");
            commit(one)?;
        }
        Ok(())
    }
}
