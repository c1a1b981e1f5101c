//! A group of sites in one thread: an orderer at each, an application that keeps what it is delivered, a log, and a
//! network that loses, duplicates and reorders; with the checks of what every orderer promises.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anabranch_protocol::TimerId;
use anabranch_protocol::order::{
    BatchId, ClassSide, ConflictClass, OrderOutbox, Orderer, Payload, SiteId,
};
use anabranch_types::Ticks;

use crate::support::random::Random;

/// A payload: its number, and the keys that it reads or writes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Operation {
    /// Unique in a run.
    pub(crate) number: u64,
    /// Keys, and whether each is written.
    pub(crate) keys: Vec<(u8, bool)>,
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.number)?;
        for (key, writes) in &self.keys {
            write!(f, " {}{key}", if *writes { "w" } else { "r" })?;
        }
        Ok(())
    }
}

impl Payload for Operation {
    fn conflicts_with(&self, other: &Operation) -> bool {
        self.keys.iter().any(|(key, writes)| {
            let mut others = other.keys.iter();
            others.any(|(other, other_writes)| key == other && (*writes || *other_writes))
        })
    }

    fn classes(&self, sink: &mut dyn FnMut(ConflictClass)) {
        for (key, writes) in &self.keys {
            let side = if *writes {
                ClassSide::Both
            } else {
                ClassSide::Left
            };
            let number = u64::from(*key);
            sink(ConflictClass {
                number,
                side,
                is_exact: key % 2 == 0,
            });
        }
    }
}

/// What an application keeps of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The batch.
    pub(crate) id: BatchId,
    /// Its position.
    pub(crate) position: u64,
    /// The dependencies.
    pub(crate) dependencies: BTreeSet<BatchId>,
    /// The operations.
    pub(crate) operations: Vec<Operation>,
}

/// What a site's log has.
#[derive(Clone)]
enum Logged<R> {
    Record(R),
    /// The application's state, in a checkpoint or of a state transfer.
    Application(Vec<Applied>),
}

/// What is sent from site to site.
pub(crate) enum Packet<O: Orderer> {
    /// A message of the orderer.
    Message(O::Message),
    /// A state transfer.
    Transfer(Box<(O::Transfer, Vec<Applied>)>),
}

impl<O: Orderer> Clone for Packet<O> {
    fn clone(&self) -> Self {
        match self {
            Packet::Message(message) => Packet::Message(message.clone()),
            Packet::Transfer(transfer) => Packet::Transfer(transfer.clone()),
        }
    }
}

/// A site.
pub(crate) struct Member<O: Orderer> {
    /// `None` while it is down.
    pub(crate) orderer: Option<O>,
    /// What the application has been delivered.
    pub(crate) applied: Vec<Applied>,
    log: Vec<Logged<O::Record>>,
    timers: Vec<(Ticks, TimerId)>,
    /// Operations broadcast by this incarnation that validity promises.
    promised: BTreeSet<u64>,
}

/// A group of sites.
pub(crate) struct Group<O: Orderer> {
    /// Makes a site anew.
    factory: Box<dyn Fn(SiteId) -> O>,
    /// The sites.
    pub(crate) members: Vec<Member<O>>,
    /// Packets under way.
    pub(crate) network: Vec<(SiteId, SiteId, Packet<O>)>,
    /// The time.
    pub(crate) now: Ticks,
    broadcast: BTreeMap<u64, Operation>,
    /// Batches that all sites have delivered, in the order in which that was seen.
    everywhere: BTreeSet<BatchId>,
    /// What all sites had delivered when a batch was first delivered anywhere.
    everywhere_before: BTreeMap<BatchId, BTreeSet<BatchId>>,
    next_number: u64,
    /// Whether sites discard what not all have delivered: it precedes later batches without being named by them.
    pub(crate) discards: bool,
    /// Whether sites forget what all have delivered by now, also before they deliver what follows it.
    pub(crate) forgets: bool,
}

impl<O: Orderer> Group<O> {
    /// A group of sites made by `factory`.
    pub(crate) fn new(sites: u8, factory: impl Fn(SiteId) -> O + 'static) -> Group<O> {
        let members = (0..sites).map(|site| Member {
            orderer: Some(factory(SiteId(site))),
            applied: Vec::new(),
            log: Vec::new(),
            timers: Vec::new(),
            promised: BTreeSet::new(),
        });
        Group {
            members: members.collect(),
            factory: Box::new(factory),
            network: Vec::new(),
            now: Ticks::from_millis(1),
            broadcast: BTreeMap::new(),
            everywhere: BTreeSet::new(),
            everywhere_before: BTreeMap::new(),
            next_number: 1,
            discards: false,
            forgets: false,
        }
    }

    /// The sites.
    pub(crate) fn sites(&self) -> impl Iterator<Item = SiteId> + use<O> {
        (0..self.members.len() as u8).map(SiteId)
    }

    /// Whether a site is up.
    pub(crate) fn is_up(&self, site: SiteId) -> bool {
        self.members[site.index()].orderer.is_some()
    }

    /// A site that is up.
    pub(crate) fn at(&self, site: SiteId) -> &O {
        let member = &self.members[site.index()];
        member.orderer.as_ref().expect("the site is up")
    }

    /// Calls a site that is up, and takes its output.
    pub(crate) fn step<T>(
        &mut self,
        site: SiteId,
        call: impl FnOnce(&mut O, Ticks, &mut OrderOutbox<O::Payload, O::Message, O::Record>) -> T,
    ) -> T
    where
        O: Orderer<Payload = Operation>,
    {
        self.step_from(site, None, call)
    }

    fn step_from<T>(
        &mut self,
        site: SiteId,
        replaced: Option<Vec<Applied>>,
        call: impl FnOnce(&mut O, Ticks, &mut OrderOutbox<O::Payload, O::Message, O::Record>) -> T,
    ) -> T
    where
        O: Orderer<Payload = Operation>,
    {
        let now = self.now;
        let member = &mut self.members[site.index()];
        let orderer = member.orderer.as_mut().expect("the site is up");
        let mut out = OrderOutbox::default();
        let result = call(orderer, now, &mut out);
        if let Err(violation) = orderer.check_invariants() {
            panic!("{site}: {violation}");
        }
        if let Some(state) = replaced {
            member.log.push(Logged::Application(state.clone()));
            member.applied = state;
            let ids: Vec<BatchId> = member.applied.iter().map(|it| it.id).collect();
            ids.into_iter().for_each(|id| self.note_everywhere(id));
        }
        let member = &mut self.members[site.index()];
        let orderer = member.orderer.as_ref().expect("the site is up");
        let records = out.records.into_iter().map(Logged::Record);
        member.log.extend(records);
        member.timers.append(&mut out.timers);
        for to in out.transfers {
            let transfer = orderer.transfer();
            let packet = Packet::Transfer(Box::new((transfer, member.applied.clone())));
            self.network.push((site, to, packet));
        }
        for (to, message) in out.messages {
            self.network.push((site, to, Packet::Message(message)));
        }
        for delivery in out.deliveries {
            let applied = Applied {
                id: delivery.id,
                position: delivery.position,
                dependencies: delivery.dependencies.into_iter().collect(),
                operations: delivery.batch.payloads().to_vec(),
            };
            let everywhere = &self.everywhere;
            self.everywhere_before
                .entry(applied.id)
                .or_insert_with(|| everywhere.clone());
            let member = &mut self.members[site.index()];
            for operation in &applied.operations {
                member.promised.remove(&operation.number);
            }
            member.applied.push(applied);
            self.check_last(site);
        }
        result
    }

    /// Broadcasts an operation with these keys at a site. Returns its number.
    pub(crate) fn broadcast(&mut self, site: SiteId, keys: Vec<(u8, bool)>) -> u64
    where
        O: Orderer<Payload = Operation>,
    {
        let number = self.next_number;
        self.next_number += 1;
        let operation = Operation { number, keys };
        self.broadcast.insert(number, operation.clone());
        self.members[site.index()].promised.insert(number);
        self.step(site, |orderer, now, out| {
            orderer.broadcast(now, operation, out);
        });
        number
    }

    /// Delivers the packet at this index of the network.
    pub(crate) fn deliver(&mut self, index: usize)
    where
        O: Orderer<Payload = Operation>,
    {
        let (from, to, packet) = self.network.swap_remove(index);
        if !self.is_up(to) {
            return;
        }
        match packet {
            Packet::Message(message) => self.step(to, |orderer, now, out| {
                orderer.receive(now, from, message, out);
            }),
            Packet::Transfer(transfer) => {
                let (state, applied) = *transfer;
                // The orderer says whether the state is of use before the application takes it.
                let member = &self.members[to.index()];
                let delivered = member.orderer.as_ref().expect("up").delivered().clone();
                let mut out = OrderOutbox::default();
                let member = &mut self.members[to.index()];
                let orderer = member.orderer.as_mut().expect("up");
                if orderer.install(self.now, state, &mut out) {
                    assert!(orderer.delivered().covers(&delivered));
                    member.promised.clear();
                    self.step_from(to, Some(applied), |_, _, outbox| *outbox = out);
                } else {
                    assert!(out.records.is_empty() && out.deliveries.is_empty());
                }
            }
        }
    }

    /// Delivers the first message from one site to another whose `Debug` begins so.
    pub(crate) fn pass(&mut self, from: u8, to: u8, begins: &str)
    where
        O: Orderer<Payload = Operation>,
    {
        let is_it = |packet: &(SiteId, SiteId, Packet<O>)| {
            let (packet_from, packet_to, packet) = packet;
            (*packet_from, *packet_to) == (SiteId(from), SiteId(to))
                && match packet {
                    Packet::Message(message) => format!("{message:?}").starts_with(begins),
                    Packet::Transfer(_) => false,
                }
        };
        let found = self.network.iter().position(is_it);
        let index = found.unwrap_or_else(|| panic!("no message {begins} from s{from} to s{to}"));
        // Keeps the order of the others.
        let packet = self.network.remove(index);
        self.network.push(packet);
        self.deliver(self.network.len() - 1);
    }

    /// Delivers messages in order until none is under way.
    pub(crate) fn pass_all(&mut self)
    where
        O: Orderer<Payload = Operation>,
    {
        while !self.network.is_empty() {
            let packet = self.network.remove(0);
            self.network.push(packet);
            self.deliver(self.network.len() - 1);
        }
    }

    /// Delivers what is under way, but nothing to this site. What is sent to it is lost.
    pub(crate) fn pass_all_but(&mut self, lost: u8)
    where
        O: Orderer<Payload = Operation>,
    {
        loop {
            self.network.retain(|(_, to, _)| *to != SiteId(lost));
            if self.network.is_empty() {
                return;
            }
            let packet = self.network.remove(0);
            self.network.push(packet);
            self.deliver(self.network.len() - 1);
        }
    }

    /// Fires the timers of a site that are due.
    pub(crate) fn fire(&mut self, site: SiteId)
    where
        O: Orderer<Payload = Operation>,
    {
        let now = self.now;
        let member = &mut self.members[site.index()];
        if member.orderer.is_none() {
            return;
        }
        let (due, later) = std::mem::take(&mut member.timers)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        member.timers = later;
        let due: Vec<(Ticks, TimerId)> = due;
        for (_, timer) in due {
            self.step(site, |orderer, now, out| orderer.expire(now, timer, out));
        }
    }

    /// Stops a site. Of what it has sent, `kept` percent still arrive.
    pub(crate) fn crash(&mut self, site: SiteId, random: &mut Random, kept: u64) {
        let member = &mut self.members[site.index()];
        member.orderer = None;
        member.timers.clear();
        member.promised.clear();
        self.network
            .retain(|(from, to, _)| *to != site && (*from != site || random.percent(kept)));
    }

    /// Starts a site again from its log, in place of which it may write a checkpoint.
    pub(crate) fn restart(&mut self, site: SiteId, compacts: bool)
    where
        O: Orderer<Payload = Operation>,
    {
        let mut orderer = (self.factory)(site);
        let member = &mut self.members[site.index()];
        let before = std::mem::take(&mut member.applied);
        let mut applied: Vec<Applied> = Vec::new();
        for logged in &member.log {
            match logged {
                Logged::Application(state) => applied.clone_from(state),
                Logged::Record(record) => {
                    let mut out = OrderOutbox::default();
                    orderer
                        .replay(record.clone(), &mut out)
                        .unwrap_or_else(|error| panic!("{site}: {error}"));
                    assert!(out.messages.is_empty() && out.records.is_empty());
                    applied.extend(out.deliveries.into_iter().map(|delivery| Applied {
                        id: delivery.id,
                        position: delivery.position,
                        dependencies: delivery.dependencies.into_iter().collect(),
                        operations: delivery.batch.payloads().to_vec(),
                    }));
                }
            }
        }
        let order = |applied: &[Applied]| -> Vec<(BatchId, u64)> {
            applied.iter().map(|it| (it.id, it.position)).collect()
        };
        assert_eq!(order(&applied), order(&before), "{site} after its restart");
        member.applied = before;
        if compacts {
            let mut log = vec![Logged::Application(member.applied.clone())];
            orderer.checkpoint(&mut |record| log.push(Logged::Record(record)));
            member.log = log;
        }
        member.orderer = Some(orderer);
        self.step(site, |orderer, now, out| orderer.recover(now, out));
    }

    /// Checks what a delivery adds to: integrity, P1, P2 and positions.
    fn check_last(&mut self, site: SiteId) {
        let applied = &self.members[site.index()].applied;
        let (last, earlier) = applied.split_last().expect("a delivery");
        for operation in &last.operations {
            assert_eq!(self.broadcast.get(&operation.number), Some(operation));
        }
        let everywhere = &self.everywhere_before[&last.id];
        for other in earlier {
            assert_ne!(other.id, last.id, "{site} has delivered {} twice", last.id);
            assert_ne!(
                other.position, last.position,
                "{} and {} have one position",
                other.id, last.id
            );
            let mut pairs = other.operations.iter();
            let conflicts = pairs.any(|operation| {
                let mut others = last.operations.iter();
                assert!(
                    !last.operations.contains(operation),
                    "{site} has delivered {operation:?} twice"
                );
                others.any(|other| other.conflicts_with(operation))
            });
            assert!(
                !conflicts || other.position < last.position,
                "{site} has delivered {} at {} before {} at {}",
                other.id,
                other.position,
                last.id,
                last.position
            );
            assert!(
                !other.dependencies.contains(&last.id),
                "P2: {} precedes {} and depends on it",
                other.id,
                last.id
            );
            assert!(
                !conflicts
                    || last.dependencies.contains(&other.id)
                    || everywhere.contains(&other.id)
                    || (self.forgets && self.everywhere.contains(&other.id))
                    || self.discards,
                "P2: {} follows {} at {site} and does not depend on it",
                last.id,
                other.id
            );
        }
        // P1: whatever conflicts with it and precedes it at another site precedes it here.
        let here: BTreeSet<BatchId> = applied.iter().map(|applied| applied.id).collect();
        for (number, member) in self.members.iter().enumerate() {
            let Some(at) = member.applied.iter().position(|it| it.id == last.id) else {
                continue;
            };
            let there = member.applied[at].position;
            assert_eq!(there, last.position, "{} at s{number} and {site}", last.id);
            for other in &member.applied[..at] {
                let conflicts = other
                    .operations
                    .iter()
                    .any(|one| last.operations.iter().any(|two| one.conflicts_with(two)));
                assert!(
                    !conflicts || here.contains(&other.id),
                    "P1: s{number} delivers {} before {}, and {site} does not",
                    other.id,
                    last.id
                );
            }
        }
        let id = last.id;
        self.note_everywhere(id);
    }

    /// Keeps a batch that all sites have delivered.
    fn note_everywhere(&mut self, id: BatchId) {
        let has = |member: &Member<O>| member.applied.iter().any(|it| it.id == id);
        if self.members.iter().all(has) {
            self.everywhere.insert(id);
        }
    }

    /// Checks that all sites that are up have delivered the same, and all that validity promises.
    pub(crate) fn check_end(&self, context: &str) {
        let mut sets = BTreeMap::new();
        for (number, member) in self.members.iter().enumerate() {
            if member.orderer.is_none() {
                continue;
            }
            let set: BTreeSet<BatchId> = member.applied.iter().map(|it| it.id).collect();
            sets.insert(number, set);
            assert!(
                member.promised.is_empty(),
                "{context}: validity: s{number} has not delivered {:?}",
                member.promised
            );
        }
        let mut all = sets.iter();
        let (first, expected) = all.next().expect("a site is up");
        for (number, set) in all {
            assert_eq!(
                set, expected,
                "{context}: agreement of s{number} and s{first}"
            );
        }
    }

    /// Whether no site that is up has delivered less than another, or waits for what validity promises.
    pub(crate) fn is_quiet(&self) -> bool {
        let up: Vec<&Member<O>> = self
            .members
            .iter()
            .filter(|member| member.orderer.is_some())
            .collect();
        let delivered = |member: &&Member<O>| {
            let orderer = member.orderer.as_ref().expect("up");
            orderer.delivered().clone()
        };
        let first = delivered(&up[0]);
        up.iter()
            .all(|member| member.promised.is_empty() && delivered(member) == first)
    }

    /// What each site waits for.
    pub(crate) fn describe(&self) -> String
    where
        O: fmt::Debug,
    {
        let mut text = String::new();
        for (number, member) in self.members.iter().enumerate() {
            let orderer = &member.orderer;
            let promised = &member.promised;
            text += &format!("\ns{number}: promised {promised:?}, {orderer:?}");
        }
        text
    }
}
