//! Orderers, explored exhaustively: a few sites broadcast conflicting payloads; messages arrive in any order or never,
//! sites crash for ever or restart from their records, and any site may recover any batch at any time.
//!
//! A message that never arrives is lost: every state in which it is still under way is visited. The search is depth
//! first, without a limit on the order of messages, and recognises states by digests as [`explore`](crate::explore)
//! does. From every state without messages it lets time pass, and checks that all sites that are up come to deliver the
//! same.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use anabranch_protocol::TimerId;
use anabranch_protocol::order::pob::entry::{Decision, Slot};
use anabranch_protocol::order::pob::{self, PobOptions, PobSite};
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

type Site = PobSite<Write>;
type Message = pob::message::Message<Write>;

/// What may happen.
#[derive(Clone, Debug)]
pub struct OrderScenario {
    /// Makes the options of a site.
    pub options: PobOptions,
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
#[derive(Clone)]
struct Sent {
    from: SiteId,
    to: SiteId,
    message: Rc<Message>,
    digest: u128,
}

/// A site, or `None` after its crash; and its digest.
#[derive(Clone)]
struct Member {
    site: Option<Rc<Site>>,
    digest: u128,
}

/// A group as a value.
#[derive(Clone)]
struct State {
    members: Vec<Member>,
    /// Sorted by digest: a multiset.
    network: Vec<Sent>,
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

impl State {
    fn first(scenario: &OrderScenario) -> State {
        let member = |site: u8| member(Some(scenario.site(SiteId(site))));
        State {
            members: (0..scenario.options.sites).map(member).collect(),
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
    fn up(&self) -> impl Iterator<Item = (SiteId, &Rc<Site>)> {
        let members = (0..).map(SiteId).zip(&self.members);
        members.filter_map(|(id, member)| Some((id, member.site.as_ref()?)))
    }

    fn actions(&self, scenario: &OrderScenario) -> Vec<Action> {
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

    fn after(&self, action: Action, scenario: &OrderScenario) -> Result<State, String> {
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
                let message = Message::clone(&message);
                state.step(to, |site, out| site.receive(Ticks(0), from, message, out))?;
            }
            Action::DecideClassic(site, batch) => state.step(site, |site, out| {
                site.decide_classic(Ticks(0), batch, out);
            })?,
            Action::Recover(site, batch) => {
                state.recoveries -= 1;
                state.step(site, |site, out| site.recover_batch(Ticks(0), batch, out))?;
            }
            Action::Crash(site) => {
                state.crashes -= 1;
                state.members[site.index()] = member(None);
                state.network.retain(|sent| sent.to != site);
            }
            Action::Restart(id) => {
                state.restarts -= 1;
                let before = state.members[id.index()].site.take().expect("it is up");
                let mut site = scenario.site(id);
                let mut out = OutboxOf::<Site>::default();
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
        call: impl FnOnce(&mut Site, &mut OutboxOf<Site>),
    ) -> Result<(), String> {
        let site = self.members[id.index()].site.as_ref().expect("it is up");
        let mut site = Site::clone(site);
        let mut out = OutboxOf::<Site>::default();
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

    /// Drops messages that have no effect, whenever they arrive: it is the same whether they are lost. Checks POB-I2
    /// of the decisions among them, whose senders may be down.
    fn drop_spent(&mut self) -> Result<(), String> {
        for sent in &self.network {
            if let (Message::Stable { id, decision, .. }, Some(site)) =
                (&*sent.message, &self.members[sent.to.index()].site)
                && let Some(own) = site.decision(*id)
                && !own.agrees_with(decision)
            {
                return Err(format!(
                    "POB-I2: {id} is {own:?} at {} and {decision:?} at {}",
                    sent.to, sent.from
                ));
            }
        }
        let members = &self.members;
        let is_stable = |site: SiteId, id: BatchId| {
            let site = members[site.index()].site.as_ref();
            site.is_none_or(|site| site.decision(id).is_some())
        };
        self.network.retain(|sent| {
            let Some(site) = &members[sent.to.index()].site else {
                return false;
            };
            let Some(id) = sent.message.id() else {
                return true;
            };
            match &*sent.message {
                // Both know the decision.
                Message::Propose { .. } | Message::Accept { .. } | Message::Prepare { .. } => {
                    !(is_stable(sent.to, id) && is_stable(sent.from, id))
                }
                Message::Stable { .. } => !is_stable(sent.to, id),
                answer => site.awaits(answer),
            }
        });
        Ok(())
    }

    /// Checks POB-I2 and POB-I4 between all sites.
    fn check(&self) -> Result<(), String> {
        let mut decided: Vec<(SiteId, BatchId, &Decision)> = Vec::new();
        for (id, site) in self.up() {
            for batch in batches(site) {
                if let Some(decision) = site.decision(batch) {
                    decided.push((id, batch, decision));
                }
            }
        }
        for (site, batch, decision) in &decided {
            for (other_site, other, other_decision) in &decided {
                if batch == other {
                    if !decision.agrees_with(other_decision) {
                        return Err(format!(
                            "POB-I2: {batch} is {decision:?} at {site} and {other_decision:?} at {other_site}"
                        ));
                    }
                } else if let (Decision::Deliver(slot), Decision::Deliver(later)) =
                    (decision, other_decision)
                {
                    check_dependency(*batch, slot, *other, later)?;
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
                let message = Message::clone(&sent.message);
                state.step(sent.to, |site, out| {
                    site.receive(now, sent.from, message, out)
                })?;
            }
            state.check()?;
            let sites: Vec<SiteId> = state.up().map(|(id, _)| id).collect();
            let all_at_rest = state
                .up()
                .all(|(_, site)| site.undecided().next().is_none());
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
        Err("POB-I6: the group does not come to rest".to_owned())
    }
}

/// POB-I4 for one pair: if the first is ordered before the second, the second depends on it.
fn check_dependency(
    batch: BatchId,
    slot: &Slot,
    other: BatchId,
    later: &Slot,
) -> Result<(), String> {
    let precedes = (slot.position, batch) < (later.position, other);
    if precedes && !later.dependencies.ids.contains(&batch) {
        return Err(format!(
            "POB-I4: {other} at {} does not depend on {batch} at {}",
            later.position, slot.position
        ));
    }
    Ok(())
}

/// The batches that a site knows.
fn batches(site: &Site) -> BTreeSet<BatchId> {
    site.known().collect()
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

fn member(site: Option<Site>) -> Member {
    let digest = site.as_ref().map_or(0, digest);
    Member {
        site: site.map(Rc::new),
        digest,
    }
}

impl OrderScenario {
    fn site(&self, site: SiteId) -> Site {
        let options = PobOptions {
            site,
            ..self.options
        };
        Site::new(options).expect("a supported size")
    }
}

impl fmt::Display for OrderScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "payloads of")?;
        self.payloads
            .iter()
            .try_for_each(|site| write!(f, " {site}"))
    }
}

/// Visits every state of a scenario. Returns the size of the search, and the first violation.
pub fn explore_order(scenario: &OrderScenario, limits: Limits) -> (Visited, Option<Found>) {
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

fn describe(state: &State, action: Action, scenario: &OrderScenario) -> String {
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
