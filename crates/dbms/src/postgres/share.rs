//! A server joins a ring, or leaves it, with its share of the rows.
//!
//! Keys belong to slots, and slots to servers ([`crate::slots`]). A server that joins gets the rows that all servers
//! have, and takes over some slots with the rows of their keys. One that leaves gives its slots, with their rows, to the others.
//!
//! In one transaction on each server, all of them under the locks that keep out operations and writes, each new owner takes
//! over its rows and begins the new epoch; each old one deletes the rows that it has given up, and begins it. New owners commit
//! first, old ones after them, a server that leaves last. So a row is deleted when its new owner has it durably.
//!
//! A process may end at any point. Before the first COMMIT of the new epoch the old ring goes on as it was. After it, what
//! each server's database says of its ring ([`membership`]) tells how far the change is, and a repetition ends it: old owners
//! that have not begun the new epoch still have their rows, and new ones take them over again. What holds is numbered in
//! `docs/protocols/belt.md`: BELT-I16 to I19.

use std::collections::BTreeMap;

use anabranch_protocol::belt::{Epoch, Hop, Rows, ServerId, Token};

use super::closed::{Closed, Site, error_of, reopen};
use super::install::{Part, owners_text};
use super::relocate::{
    Membership, Open, Owner, Plan, SharedTable, Way, add_inserted, apply_all, compare_whole,
    give_up, last_numbers, lock_all, membership, removal_of, settled_rows, take_over,
};
use super::ring::Payloads;
use super::{copy, literal};
use crate::belt::Changes;
use crate::slots;

/// How often operations that are on their way may be found, before something must still run.
pub(super) const ROUNDS_MAX: usize = 5;

/// Which server joins or leaves. Its number among the sites comes with it.
#[derive(Clone, Copy, Debug)]
pub enum Change<'p> {
    /// The last site joins.
    Join {
        /// The ring as the others have it.
        ring: &'p str,
        /// What is installed on it. Owners of keys, and numbers of sequences, are those that are found.
        part: &'p Part,
    },
    /// This one leaves.
    Leave(usize),
}

/// Numbers of rows by the places that they were on and are on.
pub type Moved = BTreeMap<(u16, u16), u64>;

/// What has moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// How many operations a server applied that it had not received, all servers together.
    pub applied: usize,
    /// The tables of which all rows were copied to the server that has joined, with their numbers of rows.
    pub copied: Vec<(String, u64)>,
    /// For each shared table its name, and the numbers of rows that moved.
    pub tables: Vec<(String, Moved)>,
    /// The slots that moved, with the places that they belonged to and belong to.
    pub slots: Vec<(u16, u16, u16)>,
    /// What deserves to be known.
    pub remarks: Vec<String>,
}

/// The servers and their slots before and after.
struct Lists {
    old: Membership,
    new: Membership,
}

impl Lists {
    /// The slots that move.
    fn slots(&self) -> Vec<(u16, u16, u16)> {
        let owners = self.old.owners.iter().zip(&self.new.owners).zip(0..);
        let moved = owners.filter(|((old, new), _)| old != new);
        moved.map(|((old, new), slot)| (slot, *old, *new)).collect()
    }

    fn gains(&self, place: u16) -> bool {
        self.slots().iter().any(|(_, _, to)| *to == place)
    }

    fn loses(&self, place: u16) -> bool {
        self.slots().iter().any(|(_, from, _)| *from == place)
    }
}

/// Whether the change has come to its end on all servers, but for their being [closed](super::closed::close).
///
/// # Errors
/// When a database does not say.
pub fn is_done(sites: &mut [Site<'_>], change: Change<'_>) -> Result<bool, String> {
    let leaving_place = match change {
        Change::Leave(leaving) => sites[leaving].place,
        Change::Join { .. } => u16::MAX,
    };
    let mut known: Option<Membership> = None;
    for (number, site) in sites.iter_mut().enumerate() {
        let state = membership(site.client).map_err(error_of(site.name))?;
        // If they differ, another change has not come to its end.
        if let Some(state) = &state
            && known.get_or_insert_with(|| state.clone()) != state
        {
            return Ok(false);
        }
        let is_done = match (change, state) {
            (Change::Join { part, .. }, Some(state)) => {
                state.ring == part.ring && state.members.contains(&part.place)
            }
            (Change::Join { .. }, None) => false,
            (Change::Leave(leaving), state) if leaving == number => state.is_none(),
            (Change::Leave(_), Some(state)) => !state.members.contains(&leaving_place),
            (Change::Leave(_), None) => false,
        };
        if !is_done {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether some server has begun the new ring. If none has, the ring is as it was.
///
/// # Errors
/// When a database does not say.
pub fn has_begun(sites: &mut [Site<'_>], change: Change<'_>) -> Result<bool, String> {
    let mut states = Vec::new();
    for site in sites.iter_mut() {
        states.push(membership(site.client).map_err(error_of(site.name))?);
    }
    let mut states = states.iter().zip(sites.iter().map(|site| site.place));
    Ok(match change {
        Change::Join { part, .. } => states.any(|(state, place)| match state {
            Some(state) => state.members.contains(&part.place),
            None => place != part.place,
        }),
        Change::Leave(leaving) => {
            let leaves = sites[leaving].place;
            states.any(|(state, _)| {
                !state
                    .as_ref()
                    .is_some_and(|state| state.members.contains(&leaves))
            })
        }
    })
}

/// Has a server join, or leave. All sites that have the belt are [closed](super::closed::close), and they are all that are members of
/// the ring, and the one that joins, in the order of their places. Afterwards they are open. `before` is called before each
/// statement.
///
/// # Errors
/// When the servers are not what the plan says, a lock is not had within 10 s, or a database refuses a statement or is
/// lost: the change can then be repeated.
pub fn share(
    sites: &mut [Site<'_>],
    change: Change<'_>,
    plan: &Plan<'_>,
    closed: &Closed,
    before: &mut dyn FnMut(&str),
) -> Result<Shared, String> {
    let mut applied = 0;
    for _ in 0..ROUNDS_MAX {
        let mut round = Round::begin(sites, change, plan, before)?;
        let found = round.receive(before)?;
        applied += found;
        if found > 0 {
            // Durable on all servers, before any begins an epoch that does not know of these operations.
            round.keep_positions(before)?;
            continue;
        }
        let mut shared = round.run(plan, change, closed, before)?;
        shared.applied = applied;
        reopen(sites, before)?;
        return Ok(shared);
    }
    Err(
        "error: global operations still commit, although no middleware was found: look for connections to the servers, and end \
         them"
            .to_owned(),
    )
}

/// The transactions of a change.
struct Round<'c> {
    open: Vec<Open<'c>>,
    /// By server what its database says of the ring.
    states: Vec<Option<Membership>>,
    lists: Lists,
    /// The belt's tables of the servers that have the belt, as they were and as they are to be.
    found: Vec<Rows<Changes>>,
    rows: Vec<Rows<Changes>>,
}

impl<'c> Round<'c> {
    /// Locks all servers, and finds what each has of the change.
    fn begin(
        sites: &'c mut [Site<'_>],
        change: Change<'_>,
        plan: &Plan<'_>,
        before: &mut dyn FnMut(&str),
    ) -> Result<Round<'c>, String> {
        let mut open = lock_all(sites, &plan.lock(), before)?;
        let mut states = Vec::new();
        for one in &mut open {
            before("membership");
            let state = membership(&mut one.work.transaction);
            states.push(state.map_err(error_of(one.name))?);
        }
        let lists = lists(&open, &states, change)?;
        check_sites(&open, &states, &lists, change)?;
        let mut found = Vec::new();
        for (one, state) in open.iter_mut().zip(&states) {
            let Some(state) = state else {
                continue;
            };
            let rows = settled_rows(one, before)?;
            if *state != lists.old && *state != lists.new {
                return Err(one.of("its ring has other servers, or other keys belong to them, than in the databases of the others"));
            }
            found.push(rows);
        }
        Ok(Round {
            open,
            states,
            lists,
            rows: found.clone(),
            found,
        })
    }

    /// The number of servers that have the belt: all but the one that joins, which is the last.
    fn installed(&self) -> usize {
        self.found.len()
    }

    fn is_old(&self, number: usize) -> bool {
        self.states[number].as_ref() == Some(&self.lists.old)
    }

    /// BELT-I13: each server applies what others have done. Returns how many operations were new.
    fn receive(&mut self, before: &mut dyn FnMut(&str)) -> Result<usize, String> {
        let installed = self.installed();
        let counts = apply_all(&mut self.open[..installed], &mut self.rows, before)?;
        Ok(counts.iter().sum())
    }

    /// Makes what was received durable, one server after the other. The ring is as before: a token that brings an operation
    /// again changes nothing.
    fn keep_positions(self, before: &mut dyn FnMut(&str)) -> Result<(), String> {
        commit_received(self.open, &self.found, &self.rows, before)
    }

    /// Everything from the comparison to the last COMMIT.
    fn run(
        mut self,
        plan: &Plan<'_>,
        change: Change<'_>,
        closed: &Closed,
        before: &mut dyn FnMut(&str),
    ) -> Result<Shared, String> {
        let installed = self.installed();
        let mut shared = Shared {
            slots: self.lists.slots(),
            ..Shared::default()
        };
        compare_whole(&mut self.open[..installed], &plan.whole, before)?;
        let last = last_numbers(&mut self.open[..installed], 0, before)?;
        let is_fresh = self.open.len() > installed;
        if is_fresh {
            self.copy_all(plan, &mut shared, before)?;
        }
        for (number, table) in plan.shared.iter().enumerate() {
            let moved = match table.owner {
                Owner::ByColumn(column) => self.move_rows(plan, number, table, column, before)?,
                Owner::Inserted => self.add_rows(table, change, before)?,
            };
            shared.tables.push((table.table.title(), moved));
        }
        let epoch = self.epoch();
        let hop = self
            .rows
            .iter()
            .map(|rows| rows.received.max(rows.token.hop));
        let hop = hop.max().unwrap_or_default().next();
        for number in 0..installed {
            let place = self.open[number].place;
            if self.is_old(number) && self.lists.new.members.contains(&place) {
                let (found, rows) = (self.found[number].clone(), self.rows[number].clone());
                begin_epoch(
                    &mut self.open[number],
                    &self.lists.new,
                    found,
                    rows,
                    epoch,
                    hop,
                    before,
                )?;
            }
        }
        if let Change::Leave(leaving) = change {
            before("remove");
            let one = &mut self.open[leaving];
            let script = removal_of(one, &last)?;
            one.run(&script)?;
        }
        if let (true, Change::Join { part, .. }) = (is_fresh, change) {
            let mut part = part.clone();
            part.owners.clone_from(&self.lists.new.owners);
            for sequence in &mut part.sequences {
                let highest = last.get(&sequence.path()).map(|(_, number)| *number);
                sequence.last = highest.filter(|number| *number > 0);
            }
            let applied = self.rows.iter().flat_map(|rows| &rows.applied);
            let mut positions = BTreeMap::new();
            for (origin, at) in applied {
                let highest = positions.entry(*origin).or_insert(*at);
                *highest = (*at).max(*highest);
            }
            let one = &mut self.open[installed];
            before("install");
            one.run(
                "SET LOCAL session_replication_role = origin; SET LOCAL search_path TO DEFAULT",
            )?;
            one.run(&part.script())?;
            before("close");
            one.run(&closed.script())?;
            let found = one.work.rows(Payloads::None);
            let found = found.map_err(|trouble| one.of(trouble))?;
            let mut rows = found.clone();
            rows.applied = positions;
            begin_epoch(one, &self.lists.new, found, rows, epoch, hop, before)?;
        }
        self.commit(before)?;
        Ok(shared)
    }

    /// Gives the server that joins, which is empty, all rows of the tables that all servers have.
    fn copy_all(
        &mut self,
        plan: &Plan<'_>,
        shared: &mut Shared,
        before: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        let mut to = self.open.pop().ok_or("error: no server joins")?;
        let with_all = plan.shared.iter().filter(|table| table.has_all_rows);
        let copied = plan.whole.iter().chain(&plan.others);
        let copied: Vec<_> = copied.chain(with_all.map(|of| &of.table)).collect();
        for table in copied
            .iter()
            .copied()
            .chain(plan.shared.iter().map(|of| &of.table))
        {
            before("look");
            let is_empty = to.work.transaction.query_one(
                &format!("SELECT NOT EXISTS (SELECT FROM ONLY {})", table.path()),
                &[],
            );
            if !is_empty.map_err(error_of(to.name))?.get::<_, bool>(0) {
                return Err(to.of(format!(
                    "{} has rows: a server that joins is empty, and gets the rows of the others; TRUNCATE its tables, if \
                     their rows may be lost",
                    table.title()
                )));
            }
        }
        for table in &plan.others {
            let mut digests = Vec::new();
            for one in &mut self.open {
                before("digest");
                let digest = copy::digest(&mut one.work.transaction, table);
                digests.push(digest.map_err(|error| one.of(error))?);
            }
            if digests.iter().any(|digest| *digest != digests[0]) {
                shared.remarks.push(format!(
                    "{} is no part of the ring, and its rows on the servers differ: {} has got those of {}",
                    table.title(),
                    to.name,
                    self.open[0].name
                ));
            }
        }
        let from = &mut self.open[0];
        for table in copied {
            before("copy");
            let rows = copy::copy_all(&mut from.work.transaction, &mut to.work.transaction, table);
            let rows = rows.map_err(|error| {
                format!(
                    "error: {} cannot be copied from {} to {}: {error}",
                    table.title(),
                    from.name,
                    to.name
                )
            })?;
            shared.copied.push((table.title(), rows));
        }
        self.open.push(to);
        Ok(())
    }

    /// Has new owners take over their rows of a table, and old ones delete them. Returns the numbers of rows by the places that
    /// they were on and are on.
    fn move_rows(
        &mut self,
        plan: &Plan<'_>,
        number: usize,
        table: &SharedTable,
        column: usize,
        before: &mut dyn FnMut(&str),
    ) -> Result<Moved, String> {
        let lists = &self.lists;
        let way_of = |key: Option<&str>| -> Result<Way, String> {
            let slot = usize::from((plan.slot_of)(number, key)?);
            let owners = lists.old.owners.get(slot).zip(lists.new.owners.get(slot));
            let (from, to) = owners.ok_or("its key has a slot that the ring has not")?;
            Ok(Way {
                from: *from,
                to: *to,
            })
        };
        let key = (&table.table, column);
        let mut moved = BTreeMap::new();
        // An old owner that has begun the new epoch has given its rows up already.
        let old: Vec<bool> = (0..self.open.len()).map(|at| self.is_old(at)).collect();
        for at in 0..self.open.len() {
            let place = self.open[at].place;
            if !lists.gains(place) {
                continue;
            }
            assert!(
                !lists.loses(place),
                "a server takes over slots or gives them up"
            );
            let (left, rest) = self.open.split_at_mut(at);
            let Some((to, right)) = rest.split_first_mut() else {
                continue;
            };
            let (old_left, old_right) = (&old[..at], &old[at + 1..]);
            let sources = left.iter_mut().zip(old_left);
            let sources = sources.chain(right.iter_mut().zip(old_right));
            let sources = sources.filter(|(one, is_old)| **is_old && lists.loses(one.place));
            let mut sources: Vec<&mut Open<'_>> = sources.map(|(one, _)| one).collect();
            let places: Vec<u16> = sources.iter().map(|source| source.place).collect();
            let rows = take_over(to, &mut sources, key, &way_of, before)?;
            for (from, count) in rows {
                if places.contains(&from) {
                    moved.insert((from, place), count);
                }
            }
        }
        for (one, is_old) in self.open.iter_mut().zip(old) {
            let stays = lists.new.members.contains(&one.place);
            if is_old && stays && lists.loses(one.place) && !table.has_all_rows {
                give_up(one, key, &way_of, before)?;
            }
        }
        Ok(moved)
    }

    /// Has the first server that stays get the rows that the one that leaves has inserted into a table whose rows never change.
    /// One that joins begins without such rows.
    fn add_rows(
        &mut self,
        table: &SharedTable,
        change: Change<'_>,
        before: &mut dyn FnMut(&str),
    ) -> Result<Moved, String> {
        let Change::Leave(leaving) = change else {
            return Ok(BTreeMap::new());
        };
        let mut from = self.open.remove(leaving);
        let to = &mut self.open[0];
        let rows = add_inserted(to, &mut [&mut from], &table.table, before)?;
        let (place, here) = (from.place, to.place);
        self.open.insert(leaving, from);
        let added = rows.get(&place).copied().unwrap_or(0);
        Ok(BTreeMap::from([((place, here), added)]))
    }

    /// The new epoch: the one that some servers have begun, or a new one.
    fn epoch(&self) -> Epoch {
        let begun = (0..self.installed()).find(|number| !self.is_old(*number));
        if let Some(number) = begun {
            return self.rows[number].epoch;
        }
        let promised = self.rows.iter().map(|rows| rows.promised.number).max();
        Epoch {
            number: promised.unwrap_or(0) + 1,
            server: ServerId(self.lists.new.members[0]),
        }
    }

    /// Commits on new owners, then on old ones, at last on a server that leaves.
    fn commit(mut self, before: &mut dyn FnMut(&str)) -> Result<(), String> {
        let lists = &self.lists;
        let rank = |one: &Open<'_>| match (
            lists.new.members.contains(&one.place),
            lists.gains(one.place),
        ) {
            (true, true) => 0,
            (true, false) => 1,
            (false, _) => 2,
        };
        self.open.sort_by_key(rank);
        for one in self.open {
            before("commit");
            commit(one)?;
        }
        Ok(())
    }
}

/// Makes durable what servers have received, one after the other. `found` and `now` have their rows before it and after it.
pub(super) fn commit_received(
    open: Vec<Open<'_>>,
    found: &[Rows<Changes>],
    now: &[Rows<Changes>],
    before: &mut dyn FnMut(&str),
) -> Result<(), String> {
    for (mut one, (found, now)) in open.into_iter().zip(found.iter().zip(now)) {
        before("positions");
        let written = one.work.write(found, now);
        written.map_err(|trouble| one.of(trouble))?;
        before("commit received");
        commit(one)?;
    }
    Ok(())
}

pub(super) fn commit(one: Open<'_>) -> Result<(), String> {
    let name = one.name;
    let done = one.work.transaction.commit();
    done.map_err(error_of(name))
}

/// BELT-I18 rests on it: the servers that take part are the members and the one that joins, and if it has taken over rows, its
/// database is still the one that has.
fn check_sites(
    open: &[Open<'_>],
    states: &[Option<Membership>],
    lists: &Lists,
    change: Change<'_>,
) -> Result<(), String> {
    let mut expected = lists.old.members.clone();
    if let Change::Join { part, .. } = change {
        expected.push(part.place);
        let mut sites = open.iter().zip(states);
        let joins = sites.find(|(one, _)| one.place == part.place);
        let is_empty = joins.filter(|(_, state)| state.is_none());
        let has_begun = states.contains(&Some(lists.new.clone()));
        if let (Some((one, _)), true) = (is_empty, has_begun) {
            return Err(one.of(
                "another database of this server has taken over rows already, which the others have no more: give its address in the \
                 file of servers",
            ));
        }
    }
    let mut places: Vec<u16> = open.iter().map(|one| one.place).collect();
    places.sort_unstable();
    expected.sort_unstable();
    expected.dedup();
    match places == expected {
        true => Ok(()),
        false => Err(format!(
            "error: the members of the ring are the servers {expected:?} of the file now, counted from 0, and this command found \
             {places:?}: another command has changed the ring; repeat this one"
        )),
    }
}

/// The servers and their slots before and after, from what the databases say.
fn lists(
    open: &[Open<'_>],
    states: &[Option<Membership>],
    change: Change<'_>,
) -> Result<Lists, String> {
    match change {
        Change::Join { ring, part } => {
            let old = states.iter().flatten().find(|state| state.ring == ring);
            let old = old.ok_or_else(|| {
                format!(
                    "error: no server has the belt of the ring {ring}, which {} is to join",
                    part.name
                )
            })?;
            let missing = old.owners.iter().find(|owner| !old.members.contains(owner));
            if let Some(place) = missing {
                let lost = ring.split(',').nth(usize::from(*place)).unwrap_or_default();
                return Err(format!(
                    "error: the keys of {lost}, which was removed as lost, belong to no server: gather all rows on one server \
                     (anabranch belt remove --gather NAME --without {lost}), and install a ring of the servers that are wanted"
                ));
            }
            let mut new = old.clone();
            new.ring.clone_from(&part.ring);
            new.owners = slots::joined(&old.owners, &old.members, part.place);
            new.members.push(part.place);
            Ok(Lists {
                old: old.clone(),
                new,
            })
        }
        Change::Leave(leaving) => {
            let one = &open[leaving];
            let old = states[leaving].as_ref();
            let old = old.ok_or_else(|| {
                one.of("the belt is not installed there, so that it is not known which rows are its own")
            })?;
            let mut new = old.clone();
            new.members.retain(|place| *place != one.place);
            if new.members.is_empty() || new.members.len() == old.members.len() {
                return Err(one.of(match new.members.is_empty() {
                    true => "it is the last server of the ring: anabranch belt remove",
                    false => "it is no member of the ring",
                }));
            }
            new.owners = slots::left(&old.owners, &new.members, one.place);
            Ok(Lists {
                old: old.clone(),
                new,
            })
        }
    }
}

/// Has a server take part in the new epoch. All updates are applied on all servers: outboxes are emptied (BELT-I6), and the first
/// member gets a token without any.
pub(super) fn begin_epoch(
    one: &mut Open<'_>,
    list: &Membership,
    found: Rows<Changes>,
    mut rows: Rows<Changes>,
    epoch: Epoch,
    hop: Hop,
    before: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let members: Vec<ServerId> = list.members.iter().map(|place| ServerId(*place)).collect();
    assert!(rows.promise(epoch), "the epoch is above all others");
    assert!(rows.install(epoch, members), "the epoch is promised");
    rows.outbox.clear();
    if list.members.first() == Some(&one.place) {
        let token = Token {
            epoch,
            hop,
            ..Token::default()
        };
        let received = rows.receive(token);
        assert!(
            received.is_ok(),
            "the hop is above all others: {received:?}"
        );
    }
    if let Err(error) = rows.check_invariants() {
        panic!("{error}");
    }
    before("epoch");
    let written = one.work.write(&found, &rows);
    written.map_err(|trouble| one.of(trouble))?;
    before("server");
    one.run(&format!(
        "ALTER TABLE anabranch.server ADD COLUMN IF NOT EXISTS owners smallint[]; \
         UPDATE anabranch.server SET ring = {}, servers = {}, owners = {}",
        literal(&list.ring),
        list.ring.split(',').count(),
        literal(&owners_text(&list.owners))
    ))
}
