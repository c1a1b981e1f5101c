//! Orderers, explored exhaustively: a few sites broadcast conflicting payloads; messages arrive in any order or never,
//! sites crash for ever or restart from their records, and any site may recover any batch at any time.
//!
//! A message that never arrives is lost: every state in which it is still under way is visited. The search is depth
//! first, without a limit on the order of messages, and recognises states by digests as [`explore`](crate::explore)
//! does. From every state without messages it lets time pass, and checks that all sites that are up come to deliver the
//! same.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use anabranch_protocol::TimerId;
use anabranch_protocol::order::epaxos::{self, EpaxosSite};
use anabranch_protocol::order::pob::{self, PobSite};
use anabranch_protocol::order::{BatchId, ConflictClass, Orderer, OutboxOf, Payload, SiteId};
use anabranch_types::Ticks;
use rustc_hash::FxHashSet;

use crate::explore::{Found, Limits, Visited};

/// A payload that conflicts with all others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write;

impl Payload for Write {
    fn conflicts_with(&self, _: &Write) -> bool {
        true
    }

    fn classes(&self, sink: &mut dyn FnMut(ConflictClass)) {
        sink(ConflictClass::of(0));
    }
}

/// What a message is to its receiver.
pub enum Part<'a, D> {
    /// A request about a batch: without effect once both sites know the decision.
    Request(BatchId),
    /// The decision of a batch.
    Decision(BatchId, &'a D),
    /// An answer: without effect unless the receiver awaits it.
    Answer,
    /// It is about no batch.
    Other,
}

/// An orderer that can be explored: each batch is decided by itself.
pub trait Explored: Orderer<Payload = Write, Message: Hash> + Clone + Hash {
    /// What is decided of a batch.
    type Decision: fmt::Debug;

    /// The batches that are known, neither decided nor pruned.
    fn undecided(&self) -> Vec<BatchId>;

    /// The batches that are known and not pruned.
    fn known(&self) -> Vec<BatchId>;

    /// The decision of a batch that is not pruned.
    fn decision(&self, id: BatchId) -> Option<&Self::Decision>;

    /// Whether the leader of a batch waits for a fast decision that it may give up.
    fn waits_for_fast(&self, id: BatchId) -> bool;

    /// Gives that up.
    fn decide_classic(&mut self, id: BatchId, out: &mut OutboxOf<Self>);

    /// Begins a recovery.
    fn recover_batch(&mut self, id: BatchId, out: &mut OutboxOf<Self>);

    /// Whether an answer has an effect.
    fn awaits(&self, answer: &Self::Message) -> bool;

    /// What a message is.
    fn part(message: &Self::Message) -> Part<'_, Self::Decision>;

    /// Checks two decisions of one batch.
    ///
    /// # Errors
    /// The invariant that they violate.
    fn check_same(one: &Self::Decision, other: &Self::Decision) -> Result<(), &'static str>;

    /// Checks the decisions of two batches, in one order of the two.
    ///
    /// # Errors
    /// The violation.
    fn check_pair(
        one: (BatchId, &Self::Decision),
        other: (BatchId, &Self::Decision),
    ) -> Result<(), String>;
}

impl Explored for PobSite<Write> {
    type Decision = pob::entry::Decision;

    fn undecided(&self) -> Vec<BatchId> {
        self.undecided().collect()
    }

    fn known(&self) -> Vec<BatchId> {
        self.known().collect()
    }

    fn decision(&self, id: BatchId) -> Option<&Self::Decision> {
        self.decision(id)
    }

    fn waits_for_fast(&self, id: BatchId) -> bool {
        self.waits_for_fast(id)
    }

    fn decide_classic(&mut self, id: BatchId, out: &mut OutboxOf<Self>) {
        self.decide_classic(Ticks(0), id, out);
    }

    fn recover_batch(&mut self, id: BatchId, out: &mut OutboxOf<Self>) {
        self.recover_batch(Ticks(0), id, out);
    }

    fn awaits(&self, answer: &Self::Message) -> bool {
        self.awaits(answer)
    }

    fn part(message: &Self::Message) -> Part<'_, Self::Decision> {
        use pob::message::Message;
        match message {
            Message::Propose { id, .. }
            | Message::Accept { id, .. }
            | Message::Prepare { id, .. } => Part::Request(*id),
            Message::Stable { id, decision, .. } => Part::Decision(*id, decision),
            Message::Report { .. } | Message::Fetch { .. } | Message::Cut { .. } => Part::Other,
            _ => Part::Answer,
        }
    }

    fn check_same(one: &Self::Decision, other: &Self::Decision) -> Result<(), &'static str> {
        match one.agrees_with(other) {
            true => Ok(()),
            false => Err("POB-I2"),
        }
    }

    /// POB-I4: if the first is ordered before the second, the second depends on it.
    fn check_pair(
        (batch, decision): (BatchId, &Self::Decision),
        (other, later): (BatchId, &Self::Decision),
    ) -> Result<(), String> {
        let (Some(slot), Some(later)) = (decision.slot(), later.slot()) else {
            return Ok(());
        };
        let precedes = (slot.position, batch) < (later.position, other);
        if precedes && !later.dependencies.ids.contains(&batch) {
            return Err(format!(
                "POB-I4: {other} at {} does not depend on {batch} at {}",
                later.position, slot.position
            ));
        }
        Ok(())
    }
}

impl Explored for EpaxosSite<Write> {
    type Decision = epaxos::entry::Decision;

    fn undecided(&self) -> Vec<BatchId> {
        self.undecided().collect()
    }

    fn known(&self) -> Vec<BatchId> {
        self.known().collect()
    }

    fn decision(&self, id: BatchId) -> Option<&Self::Decision> {
        self.decision(id)
    }

    fn waits_for_fast(&self, id: BatchId) -> bool {
        self.waits_for_fast(id)
    }

    fn decide_classic(&mut self, id: BatchId, out: &mut OutboxOf<Self>) {
        self.decide_classic(Ticks(0), id, out);
    }

    fn recover_batch(&mut self, id: BatchId, out: &mut OutboxOf<Self>) {
        self.recover_batch(Ticks(0), id, out);
    }

    fn awaits(&self, answer: &Self::Message) -> bool {
        self.awaits(answer)
    }

    fn part(message: &Self::Message) -> Part<'_, Self::Decision> {
        use epaxos::message::Message;
        match message {
            Message::PreAccept { id, .. }
            | Message::Accept { id, .. }
            | Message::Prepare { id, .. }
            | Message::Validate { id, .. }
            | Message::Waiting { id, .. } => Part::Request(*id),
            Message::Commit { id, decision, .. } => Part::Decision(*id, decision),
            Message::Report { .. } | Message::Fetch { .. } => Part::Other,
            _ => Part::Answer,
        }
    }

    fn check_same(one: &Self::Decision, other: &Self::Decision) -> Result<(), &'static str> {
        match one == other {
            true => Ok(()),
            false => Err("EP-I2"),
        }
    }

    /// EP-I4: one of the two depends on the other.
    fn check_pair(
        (batch, decision): (BatchId, &Self::Decision),
        (other, others): (BatchId, &Self::Decision),
    ) -> Result<(), String> {
        let (Some(own), Some(others)) = (decision.dependencies(), others.dependencies()) else {
            return Ok(());
        };
        if !own.contains(&other) && !others.contains(&batch) {
            return Err(format!(
                "EP-I4: neither {batch} nor {other} depends on the other"
            ));
        }
        Ok(())
    }
}

/// What may happen.
pub struct OrderScenario<S> {
    /// The number of sites.
    pub sites: u8,
    /// Makes a site.
    pub make: Box<dyn Fn(SiteId) -> S>,
    /// The site of each payload.
    pub payloads: Vec<SiteId>,
    /// How many sites may crash for ever.
    pub crashes: u32,
    /// How often a site may crash and restart.
    pub restarts: u32,
    /// How often a site may recover a batch.
    pub recoveries: u32,
}

/// A message under way.
struct Sent<S: Orderer> {
    from: SiteId,
    to: SiteId,
    message: Rc<S::Message>,
    digest: u128,
}

impl<S: Orderer> Clone for Sent<S> {
    fn clone(&self) -> Self {
        Sent {
            message: Rc::clone(&self.message),
            ..*self
        }
    }
}

/// A site, or `None` after its crash; and its digest.
#[derive(Clone)]
struct Member<S> {
    site: Option<Rc<S>>,
    digest: u128,
}

/// A group as a value.
#[derive(Clone)]
struct State<S: Orderer> {
    members: Vec<Member<S>>,
    /// Sorted by digest: a multiset.
    network: Vec<Sent<S>>,
    /// The payloads that are still to be broadcast.
    left: Vec<bool>,
    crashes: u32,
    restarts: u32,
    recoveries: u32,
}

/// A step from one state to another.
#[derive(Clone, Copy, Debug)]
enum Action {
    Broadcast(usize),
    Deliver(usize),
    /// A leader gives up waiting for a fast decision.
    DecideClassic(SiteId, BatchId),
    Recover(SiteId, BatchId),
    Crash(SiteId),
    Restart(SiteId),
}

impl<S: Explored> State<S> {
    fn first(scenario: &OrderScenario<S>) -> State<S> {
        let member = |site: u8| member(Some((scenario.make)(SiteId(site))));
        State {
            members: (0..scenario.sites).map(member).collect(),
            network: Vec::new(),
            left: vec![true; scenario.payloads.len()],
            crashes: scenario.crashes,
            restarts: scenario.restarts,
            recoveries: scenario.recoveries,
        }
    }

    fn digest(&self) -> u128 {
        let members = self.members.iter().map(|member| member.digest);
        let network = self.network.iter().map(|sent| sent.digest);
        let digests: Vec<u128> = members.chain(network).collect();
        let budgets = [self.crashes, self.restarts, self.recoveries];
        digest(&(digests, &self.left, budgets))
    }

    /// The sites that are up.
    fn up(&self) -> impl Iterator<Item = (SiteId, &Rc<S>)> {
        let members = (0..).map(SiteId).zip(&self.members);
        members.filter_map(|(id, member)| Some((id, member.site.as_ref()?)))
    }

    fn actions(&self, scenario: &OrderScenario<S>) -> Vec<Action> {
        let mut actions = Vec::new();
        for (number, site) in scenario.payloads.iter().enumerate() {
            if self.left[number] && self.members[site.index()].site.is_some() {
                actions.push(Action::Broadcast(number));
            }
        }
        for (index, sent) in self.network.iter().enumerate() {
            let is_repeated = index > 0 && self.network[index - 1].digest == sent.digest;
            if !is_repeated {
                actions.push(Action::Deliver(index));
            }
        }
        for (id, site) in self.up() {
            for batch in site.undecided() {
                if site.waits_for_fast(batch) {
                    actions.push(Action::DecideClassic(id, batch));
                }
                if self.recoveries > 0 {
                    actions.push(Action::Recover(id, batch));
                }
            }
            if self.crashes > 0 {
                actions.push(Action::Crash(id));
            }
            if self.restarts > 0 {
                actions.push(Action::Restart(id));
            }
        }
        actions
    }

    fn after(&self, action: Action, scenario: &OrderScenario<S>) -> Result<State<S>, String> {
        let mut state = self.clone();
        match action {
            Action::Broadcast(number) => {
                state.left[number] = false;
                state.step(scenario.payloads[number], |site, out| {
                    site.broadcast(Ticks(0), Write, out);
                })?;
            }
            Action::Deliver(index) => {
                let Sent {
                    from, to, message, ..
                } = state.network.remove(index);
                let message = S::Message::clone(&message);
                state.step(to, |site, out| site.receive(Ticks(0), from, message, out))?;
            }
            Action::DecideClassic(site, batch) => state.step(site, |site, out| {
                site.decide_classic(batch, out);
            })?,
            Action::Recover(site, batch) => {
                state.recoveries -= 1;
                state.step(site, |site, out| site.recover_batch(batch, out))?;
            }
            Action::Crash(site) => {
                state.crashes -= 1;
                state.members[site.index()] = member(None);
                state.network.retain(|sent| sent.to != site);
            }
            Action::Restart(id) => {
                state.restarts -= 1;
                let before = state.members[id.index()].site.take().expect("it is up");
                let mut site = (scenario.make)(id);
                let mut out = OutboxOf::<S>::default();
                let mut failed = None;
                before.checkpoint(&mut |record| {
                    if let Err(error) = site.replay(record, &mut out) {
                        failed = Some(error);
                    }
                });
                if let Some(error) = failed {
                    return Err(format!("{id}: {error}"));
                }
                state.members[id.index()] = member(Some(site));
                state.step(id, |site, out| site.recover(Ticks(0), out))?;
            }
        }
        Ok(state)
    }

    /// Calls a site, and puts its messages under way.
    fn step(
        &mut self,
        id: SiteId,
        call: impl FnOnce(&mut S, &mut OutboxOf<S>),
    ) -> Result<(), String> {
        let site = self.members[id.index()].site.as_ref().expect("it is up");
        let mut site = S::clone(site);
        let mut out = OutboxOf::<S>::default();
        call(&mut site, &mut out);
        site.check_invariants()
            .map_err(|violation| format!("{id}: {violation}"))?;
        self.members[id.index()] = member(Some(site));
        for (to, message) in out.messages {
            if self.members[to.index()].site.is_none() {
                continue;
            }
            let digest = digest(&(id, to, &message));
            let at = self.network.partition_point(|sent| sent.digest < digest);
            let sent = Sent {
                from: id,
                to,
                message: Rc::new(message),
                digest,
            };
            self.network.insert(at, sent);
        }
        self.drop_spent()
    }

    /// Drops messages that have no effect, whenever they arrive: it is the same whether they are lost. Checks agreement
    /// of the decisions among them, whose senders may be down.
    fn drop_spent(&mut self) -> Result<(), String> {
        for sent in &self.network {
            if let (Part::Decision(id, decision), Some(site)) =
                (S::part(&sent.message), &self.members[sent.to.index()].site)
                && let Some(own) = site.decision(id)
            {
                S::check_same(own, decision).map_err(|invariant| {
                    format!(
                        "{invariant}: {id} is {own:?} at {} and {decision:?} at {}",
                        sent.to, sent.from
                    )
                })?;
            }
        }
        let members = &self.members;
        let is_decided = |site: SiteId, id: BatchId| {
            let site = members[site.index()].site.as_ref();
            site.is_none_or(|site| site.decision(id).is_some())
        };
        self.network.retain(|sent| {
            let Some(site) = &members[sent.to.index()].site else {
                return false;
            };
            match S::part(&sent.message) {
                Part::Request(id) => !(is_decided(sent.to, id) && is_decided(sent.from, id)),
                Part::Decision(id, _) => !is_decided(sent.to, id),
                Part::Answer => site.awaits(&sent.message),
                Part::Other => true,
            }
        });
        Ok(())
    }

    /// Checks the decisions of all sites.
    fn check(&self) -> Result<(), String> {
        let mut decided: Vec<(SiteId, BatchId, &S::Decision)> = Vec::new();
        for (id, site) in self.up() {
            for batch in site.known() {
                if let Some(decision) = site.decision(batch) {
                    decided.push((id, batch, decision));
                }
            }
        }
        for (site, batch, decision) in &decided {
            for (other_site, other, other_decision) in &decided {
                if batch == other {
                    S::check_same(decision, other_decision).map_err(|invariant| {
                        format!(
                            "{invariant}: {batch} is {decision:?} at {site} and {other_decision:?} at {other_site}"
                        )
                    })?;
                } else {
                    S::check_pair((*batch, decision), (*other, other_decision))?;
                }
            }
        }
        Ok(())
    }

    /// Lets time pass until the group is at rest, and checks that all sites that are up have delivered the same.
    fn check_end(&self) -> Result<(), String> {
        let mut state = self.clone();
        let mut now = Ticks(0);
        for _ in 0..200 {
            while let Some(sent) = state.network.first().cloned() {
                state.network.remove(0);
                let message = S::Message::clone(&sent.message);
                state.step(sent.to, |site, out| {
                    site.receive(now, sent.from, message, out)
                })?;
            }
            state.check()?;
            let sites: Vec<SiteId> = state.up().map(|(id, _)| id).collect();
            let all_at_rest = state.up().all(|(_, site)| site.undecided().is_empty());
            let delivered: Vec<_> = state.up().map(|(_, site)| site.delivered()).collect();
            if all_at_rest && delivered.windows(2).all(|pair| pair[0] == pair[1]) {
                return Ok(());
            }
            now = Ticks(now.0 + Ticks::from_millis(500).0);
            for id in sites {
                for timer in [TimerId(0), TimerId(2)] {
                    state.step(id, |site, out| site.expire(now, timer, out))?;
                }
            }
        }
        Err("the group does not come to rest".to_owned())
    }
}

/// A digest of 128 bits. Fast, unlike one of the `Debug` output: there are tens of millions of steps.
fn digest(value: &impl Hash) -> u128 {
    let half = |half: u8| {
        let mut hasher = DefaultHasher::new();
        half.hash(&mut hasher);
        value.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

fn member<S: Hash>(site: Option<S>) -> Member<S> {
    let digest = site.as_ref().map_or(0, digest);
    Member {
        site: site.map(Rc::new),
        digest,
    }
}

impl<S> fmt::Display for OrderScenario<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "payloads of")?;
        self.payloads
            .iter()
            .try_for_each(|site| write!(f, " {site}"))
    }
}

/// Visits every state of a scenario. Returns the size of the search, and the first violation.
pub fn explore_order<S: Explored>(
    scenario: &OrderScenario<S>,
    limits: Limits,
) -> (Visited, Option<Found>) {
    let mut visited = Visited::default();
    let mut seen: FxHashSet<u128> = FxHashSet::default();
    let first = State::first(scenario);
    seen.insert(first.digest());
    visited.states = 1;
    let actions = first.actions(scenario);
    // The states on the current path, with the actions that are left to be taken from each.
    let mut frames = vec![(first, actions)];
    let mut path: Vec<String> = Vec::new();
    while let Some((state, left)) = frames.last_mut() {
        let Some(action) = left.pop() else {
            frames.pop();
            path.pop();
            continue;
        };
        if visited.states >= limits.states_max {
            return (visited, None);
        }
        visited.steps += 1;
        let words = || describe(state, action, scenario);
        let judged = state.after(action, scenario).and_then(|next| {
            if !seen.insert(next.digest()) {
                return Ok(None);
            }
            visited.states += 1;
            next.check()?;
            if next.network.is_empty() {
                visited.ends += 1;
                next.check_end()?;
            }
            Ok(Some(next))
        });
        match judged {
            Ok(None) => {}
            Ok(Some(next)) => {
                path.push(words());
                let actions = next.actions(scenario);
                frames.push((next, actions));
                visited.depth = visited.depth.max(path.len() as u64);
            }
            Err(what) => {
                path.push(words());
                let mut story = format!("{scenario}\n");
                for (number, line) in (1..).zip(&path) {
                    story += &format!("{number:>3}. {line}\n");
                }
                story += &format!("     {what}\n");
                let found = Found {
                    what,
                    steps: path.len(),
                    story,
                };
                return (visited, Some(found));
            }
        }
    }
    visited.complete = true;
    (visited, None)
}

fn describe<S: Explored>(state: &State<S>, action: Action, scenario: &OrderScenario<S>) -> String {
    match action {
        Action::Broadcast(number) => format!("{} broadcasts", scenario.payloads[number]),
        Action::Deliver(index) => {
            let sent = &state.network[index];
            format!("{} -> {}: {:?}", sent.from, sent.to, sent.message)
        }
        Action::DecideClassic(site, batch) => format!("{site} gives up a fast {batch}"),
        Action::Recover(site, batch) => format!("{site} recovers {batch}"),
        Action::Crash(site) => format!("{site} crashes"),
        Action::Restart(site) => format!("{site} restarts"),
    }
}

/// The scenarios of `payloads` payloads, by the sites that broadcast them: all ways that are not the same up to the
/// names of sites.
pub fn placements(sites: u8, payloads: usize) -> Vec<Vec<SiteId>> {
    let mut all: Vec<Vec<SiteId>> = vec![Vec::new()];
    for _ in 0..payloads {
        let mut longer = Vec::new();
        for placement in &all {
            let used = placement.iter().map(|site| site.0 + 1).max().unwrap_or(0);
            for site in 0..=used.min(sites - 1) {
                let mut placement = placement.clone();
                placement.push(SiteId(site));
                longer.push(placement);
            }
        }
        all = longer;
    }
    all
}
