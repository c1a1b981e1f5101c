//! Advisory locks: locks on numbers that clients choose, held by connections, whatever the schema is.
//!
//! All connections share one table. A request that conflicts waits in a queue, in the order of arrival, and its session
//! is sent a note when it is granted. A request that would close a circle of waits is refused at once (`40P01`).
//!
//! A connection that waits here holds nothing else that another connection could wait for: its session gives up the
//! locks of its open transaction first ([`super::session`]). So circles lie within this table, with one exception: a
//! connection may change the schema, which waits for every open transaction. The changer looks for that circle itself
//! ([`AdvisoryLocks::is_waited_for_inside`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::frontend::ConnectionId;

/// What is locked. Locks of one key and of two keys are different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LockKey {
    One(i64),
    Two(i32, i32),
}

impl std::fmt::Display for LockKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LockKey::One(key) => write!(f, "{key}"),
            LockKey::Two(first, second) => write!(f, "({first}, {second})"),
        }
    }
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    Shared,
    Exclusive,
}

impl LockMode {
    fn conflicts(self, other: LockMode) -> bool {
        self == LockMode::Exclusive || other == LockMode::Exclusive
    }

    /// As PostgreSQL calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LockMode::Shared => "ShareLock",
            LockMode::Exclusive => "ExclusiveLock",
        }
    }
}

/// A connection, as owner of locks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) connection: ConnectionId,
    /// Its number for clients.
    pub(crate) process: i32,
}

impl Owner {
    fn id(&self) -> OwnerId {
        id_of(self.connection)
    }
}

type OwnerId = (u16, u64);

fn id_of(connection: ConnectionId) -> OwnerId {
    (connection.node.0, connection.connection)
}

/// What a request has come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Granted,
    /// It waits in the queue.
    Waits,
    /// It conflicts, and was not to wait.
    Refused,
    /// It would close a circle of waits: a line for each wait in it.
    Deadlock(String),
}

/// The advisory locks of a server.
#[derive(Default)]
pub(crate) struct AdvisoryLocks(Mutex<Table>);

#[derive(Default)]
struct Table {
    locks: BTreeMap<LockKey, Lock>,
    /// The key that each connection that waits waits for.
    waits: BTreeMap<OwnerId, LockKey>,
}

#[derive(Default)]
struct Lock {
    holders: Vec<Holder>,
    queue: VecDeque<Waiter>,
}

struct Holder {
    owner: Owner,
    mode: LockMode,
    /// How often it was granted and not released.
    count: u32,
}

struct Waiter {
    owner: Owner,
    mode: LockMode,
    /// Whether its transaction is open at a node, so that a change of the schema waits for it.
    is_inside: bool,
}

impl Lock {
    /// Those for whom an owner with this mode waits: holders, and what came before it in the queue.
    fn blockers(&self, owner: OwnerId, mode: LockMode) -> Vec<&Owner> {
        let holders = self.holders.iter();
        let holders = holders.map(|holder| (&holder.owner, holder.mode));
        let before = self.queue.iter().take_while(|of| of.owner.id() != owner);
        let before = before.map(|waiter| (&waiter.owner, waiter.mode));
        let all = holders.chain(before);
        all.filter(|(of, held)| of.id() != owner && held.conflicts(mode))
            .map(|(of, _)| of)
            .collect()
    }

    /// Whether a new request is granted at once. One that has the lock in some mode overtakes the queue.
    fn admits(&self, owner: OwnerId, mode: LockMode) -> bool {
        let is_held = self.holders.iter().any(|of| of.owner.id() == owner);
        let mut others = self.holders.iter().filter(|of| of.owner.id() != owner);
        let is_free = !others.any(|of| of.mode.conflicts(mode));
        is_free && (is_held || !self.queue.iter().any(|of| of.mode.conflicts(mode)))
    }

    fn grant(&mut self, owner: Owner, mode: LockMode) {
        let mut holders = self.holders.iter_mut();
        match holders.find(|of| of.owner.id() == owner.id() && of.mode == mode) {
            Some(holder) => holder.count += 1,
            None => self.holders.push(Holder {
                owner,
                mode,
                count: 1,
            }),
        }
    }

    /// Grants what waits, in order, as far as it does not conflict.
    fn advance(&mut self) -> Vec<ConnectionId> {
        let mut granted = Vec::new();
        while let Some(first) = self.queue.front() {
            let (owner, mode) = (first.owner, first.mode);
            let mut others = self.holders.iter().filter(|of| of.owner.id() != owner.id());
            if others.any(|of| of.mode.conflicts(mode)) {
                break;
            }
            self.queue.pop_front();
            self.grant(owner, mode);
            granted.push(owner.connection);
        }
        granted
    }
}

impl Table {
    /// The circle that a wait of this owner closes, as PostgreSQL's detail has it.
    fn circle(&self, owner: Owner, key: LockKey, mode: LockMode) -> Option<String> {
        // Depth first; each path is a list of waits that lead from the owner on.
        let mut seen = BTreeSet::new();
        let line = |of: &Owner, mode: LockMode, key: LockKey, by: &Owner| {
            format!(
                "Process {} waits for {} on advisory lock {key}; blocked by process {}.",
                of.process,
                mode.name(),
                by.process
            )
        };
        let mut paths: Vec<(Owner, LockKey, LockMode, Vec<String>)> =
            vec![(owner, key, mode, Vec::new())];
        while let Some((of, key, mode, path)) = paths.pop() {
            let Some(lock) = self.locks.get(&key) else {
                continue;
            };
            for by in lock.blockers(of.id(), mode) {
                let mut path = path.clone();
                path.push(line(&of, mode, key, by));
                if by.id() == owner.id() {
                    return Some(path.join("\n"));
                }
                if !seen.insert(by.id()) {
                    continue;
                }
                let Some(next) = self.waits.get(&by.id()) else {
                    continue;
                };
                let queue = self.locks.get(next).into_iter().flat_map(|of| &of.queue);
                let mut queue = queue.filter(|waiter| waiter.owner.id() == by.id());
                if let Some(waiter) = queue.next() {
                    paths.push((waiter.owner, *next, waiter.mode, path));
                }
            }
        }
        None
    }

    fn advance(&mut self, key: LockKey) -> Vec<ConnectionId> {
        let Some(lock) = self.locks.get_mut(&key) else {
            return Vec::new();
        };
        let granted = lock.advance();
        if lock.holders.is_empty() && lock.queue.is_empty() {
            self.locks.remove(&key);
        }
        for connection in &granted {
            self.waits.remove(&id_of(*connection));
        }
        granted
    }
}

impl AdvisoryLocks {
    fn lock(&self) -> MutexGuard<'_, Table> {
        // Each change of the table is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a lock if nothing conflicts. Otherwise the request waits, if `waits`. `is_inside`: whether its transaction is
    /// open at a node.
    pub(crate) fn request(
        &self,
        owner: Owner,
        key: LockKey,
        mode: LockMode,
        (waits, is_inside): (bool, bool),
    ) -> Request {
        let mut table = self.lock();
        let lock = table.locks.entry(key).or_default();
        if lock.admits(owner.id(), mode) {
            lock.grant(owner, mode);
            return Request::Granted;
        }
        if !waits {
            return Request::Refused;
        }
        if let Some(circle) = table.circle(owner, key, mode) {
            return Request::Deadlock(circle);
        }
        let waiter = Waiter {
            owner,
            mode,
            is_inside,
        };
        table.locks.entry(key).or_default().queue.push_back(waiter);
        table.waits.insert(owner.id(), key);
        Request::Waits
    }

    /// What a connection waits for, and the numbers of the connections that it waits for, if it waits.
    pub(crate) fn wait_of(&self, connection: ConnectionId) -> Option<(LockKey, Vec<i32>)> {
        let table = self.lock();
        let id = id_of(connection);
        let key = *table.waits.get(&id)?;
        let lock = table.locks.get(&key)?;
        let mode = lock.queue.iter().find(|of| of.owner.id() == id)?.mode;
        let blockers = lock.blockers(id, mode).into_iter();
        let mut processes: Vec<i32> = blockers.map(|owner| owner.process).collect();
        // One may hold the lock in one mode and wait for the other.
        let mut seen = BTreeSet::new();
        processes.retain(|process| seen.insert(*process));
        Some((key, processes))
    }

    /// Gives up a wait. Returns whether it waited still, and the connections whose requests are granted by that.
    pub(crate) fn give_up(&self, connection: ConnectionId) -> (bool, Vec<ConnectionId>) {
        let mut table = self.lock();
        let Some(key) = table.waits.remove(&id_of(connection)) else {
            return (false, Vec::new());
        };
        if let Some(lock) = table.locks.get_mut(&key) {
            lock.queue.retain(|of| of.owner.id() != id_of(connection));
        }
        (true, table.advance(key))
    }

    /// Releases a lock once. Returns the connections whose requests are granted by that.
    pub(crate) fn release(
        &self,
        connection: ConnectionId,
        key: LockKey,
        mode: LockMode,
    ) -> Vec<ConnectionId> {
        let mut table = self.lock();
        let Some(lock) = table.locks.get_mut(&key) else {
            return Vec::new();
        };
        let is_own = |of: &Holder| of.owner.id() == id_of(connection) && of.mode == mode;
        let Some(place) = lock.holders.iter().position(is_own) else {
            return Vec::new();
        };
        lock.holders[place].count -= 1;
        if lock.holders[place].count > 0 {
            return Vec::new();
        }
        lock.holders.swap_remove(place);
        table.advance(key)
    }

    /// Whether a connection whose transaction is open at a node waits for this one, directly or through others.
    pub(crate) fn is_waited_for_inside(&self, connection: ConnectionId) -> bool {
        let table = self.lock();
        let mut blocked = BTreeSet::from([id_of(connection)]);
        loop {
            let before = blocked.len();
            for lock in table.locks.values() {
                for waiter in &lock.queue {
                    let by = lock.blockers(waiter.owner.id(), waiter.mode);
                    if !by.iter().any(|of| blocked.contains(&of.id())) {
                        continue;
                    }
                    if waiter.is_inside {
                        return true;
                    }
                    blocked.insert(waiter.owner.id());
                }
            }
            if blocked.len() == before {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_types::NodeId;

    use super::*;
    use LockMode::{Exclusive, Shared};

    fn owner(number: u64) -> Owner {
        Owner {
            connection: ConnectionId {
                node: NodeId(0),
                connection: number,
                place: 0,
            },
            process: number as i32,
        }
    }

    const KEY: LockKey = LockKey::One(1);

    fn wait(locks: &AdvisoryLocks, of: u64, key: LockKey, mode: LockMode) -> Request {
        locks.request(owner(of), key, mode, (true, false))
    }

    fn released(locks: &AdvisoryLocks, of: u64, key: LockKey, mode: LockMode) -> Vec<u64> {
        let granted = locks.release(owner(of).connection, key, mode);
        granted.into_iter().map(|of| of.connection).collect()
    }

    #[test]
    fn requests_are_granted_in_order_and_shared_ones_together() {
        let locks = AdvisoryLocks::default();
        assert_eq!(wait(&locks, 1, KEY, Shared), Request::Granted);
        assert_eq!(wait(&locks, 2, KEY, Shared), Request::Granted);
        assert_eq!(wait(&locks, 3, KEY, Exclusive), Request::Waits);
        assert_eq!(wait(&locks, 4, KEY, Shared), Request::Waits, "behind 3");
        assert_eq!(wait(&locks, 5, KEY, Shared), Request::Waits);
        assert_eq!(
            locks.request(owner(6), KEY, Shared, (false, false)),
            Request::Refused
        );
        assert_eq!(wait(&locks, 1, KEY, Shared), Request::Granted, "its own");
        assert!(released(&locks, 1, KEY, Shared).is_empty(), "taken twice");
        assert!(released(&locks, 1, KEY, Shared).is_empty());
        assert_eq!(released(&locks, 2, KEY, Shared), [3]);
        assert_eq!(released(&locks, 3, KEY, Exclusive), [4, 5]);
        assert!(
            released(&locks, 3, KEY, Exclusive).is_empty(),
            "not its own"
        );
        assert_eq!(
            wait(&locks, 7, LockKey::Two(0, 1), Exclusive),
            Request::Granted
        );
    }

    #[test]
    fn one_that_holds_a_lock_and_waits_for_it_blocks_others_once() {
        let locks = AdvisoryLocks::default();
        assert_eq!(wait(&locks, 1, KEY, Shared), Request::Granted);
        assert_eq!(wait(&locks, 3, KEY, Shared), Request::Granted);
        assert_eq!(wait(&locks, 1, KEY, Exclusive), Request::Waits, "for 3");
        assert_eq!(wait(&locks, 4, KEY, Exclusive), Request::Waits);
        let blockers = locks.wait_of(owner(4).connection);
        assert_eq!(blockers, Some((KEY, vec![1, 3])));
    }

    #[test]
    fn a_wait_that_is_given_up_stands_in_no_way() {
        let locks = AdvisoryLocks::default();
        assert_eq!(wait(&locks, 1, KEY, Shared), Request::Granted);
        assert_eq!(wait(&locks, 2, KEY, Exclusive), Request::Waits);
        assert_eq!(wait(&locks, 3, KEY, Shared), Request::Waits);
        let (waited, granted) = locks.give_up(owner(2).connection);
        assert!(waited);
        assert_eq!(granted.len(), 1, "3 shares with 1");
        assert!(!locks.give_up(owner(3).connection).0, "it waits no longer");
    }

    #[test]
    fn a_circle_of_waits_is_refused() {
        let locks = AdvisoryLocks::default();
        let keys = [LockKey::One(1), LockKey::One(2), LockKey::Two(3, 3)];
        for (of, key) in (1..).zip(keys) {
            assert_eq!(wait(&locks, of, key, Exclusive), Request::Granted);
        }
        assert_eq!(wait(&locks, 1, keys[1], Shared), Request::Waits);
        assert_eq!(wait(&locks, 2, keys[2], Exclusive), Request::Waits);
        let Request::Deadlock(detail) = wait(&locks, 3, keys[0], Exclusive) else {
            panic!("no deadlock is found");
        };
        assert_eq!(detail.lines().count(), 3, "{detail}");
        assert!(released(&locks, 3, keys[2], Exclusive) == [2]);
        // Two that share a lock cannot both make it exclusive.
        let locks = AdvisoryLocks::default();
        assert_eq!(wait(&locks, 1, KEY, Shared), Request::Granted);
        assert_eq!(wait(&locks, 2, KEY, Shared), Request::Granted);
        assert_eq!(wait(&locks, 1, KEY, Exclusive), Request::Waits);
        assert!(matches!(
            wait(&locks, 2, KEY, Exclusive),
            Request::Deadlock(_)
        ));
    }

    #[test]
    fn a_change_of_the_schema_finds_those_that_wait_inside_for_its_connection() {
        let locks = AdvisoryLocks::default();
        let other = LockKey::One(2);
        assert_eq!(wait(&locks, 1, KEY, Exclusive), Request::Granted);
        assert_eq!(wait(&locks, 2, other, Exclusive), Request::Granted);
        assert_eq!(wait(&locks, 2, KEY, Exclusive), Request::Waits);
        let changes = owner(1).connection;
        assert!(!locks.is_waited_for_inside(changes), "2 is outside");
        let request = locks.request(owner(3), other, Shared, (true, true));
        assert_eq!(request, Request::Waits);
        assert!(locks.is_waited_for_inside(changes), "3 waits for 2");
        assert!(!locks.is_waited_for_inside(owner(3).connection));
    }
}
