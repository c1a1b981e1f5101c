//! The Conveyor Belt, explored exhaustively: a small ring over databases in memory. Messages arrive in any order or
//! never, databases abort, and a middleware crashes between any two steps and returns, while the transactions that it
//! had under way go on or end. A server may be removed for good.
//!
//! A message that never arrives is lost: every state in which it is still under way is visited. The search is depth
//! first, as that of [orderers](mod@crate::order). From every state it lets time pass, and checks that the ring comes to
//! rest with equal databases.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use anabranch_protocol::belt::{
    BeltOptions, BeltServer, Hop, Input, Message, Outbox, Payload, Request, Rows, Sequence,
    ServerId, Timer,
};
use anabranch_types::Ticks;
use rustc_hash::FxHashSet;

use crate::explore::{Found, Limits, Visited};

/// The after-image of the one row: the operations that have appended to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Image(Vec<u8>);

impl Payload for Image {
    fn bytes(&self) -> usize {
        1
    }
}

type Machine = BeltServer<Image, u8>;

/// What may happen.
#[derive(Clone, Debug)]
pub struct BeltScenario {
    /// The number of servers.
    pub servers: u16,
    /// The server of each operation.
    pub operations: Vec<ServerId>,
    /// How often a middleware may crash and return.
    pub restarts: u32,
    /// How often a database may abort the transaction that receives or passes a token.
    pub aborts: u32,
    /// How often a message may be sent again before time passes.
    pub resends: u32,
    /// Whether the last server may be lost, and removed by the first.
    pub removes: bool,
}

/// The state machine of a server, its database, and what is between them.
#[derive(Clone, Hash)]
struct Member {
    machine: Machine,
    rows: Rows<Image>,
    row: Vec<u8>,
    /// The operations that run, with their holds, and whether the middleware has crashed since.
    running: BTreeMap<u8, (Hop, bool)>,
    requests: VecDeque<Request<Image, u8>>,
}

/// A message under way, with its receiver.
type Sent = Rc<(ServerId, Message<Image>)>;

#[derive(Clone)]
struct State {
    /// `None` once lost; and the digest.
    members: Vec<(Option<Rc<Member>>, u128)>,
    /// Sorted by digest, each once: a repeated message is acknowledged again.
    network: Vec<(u128, ServerId, Sent)>,
    left: Vec<bool>,
    /// The operations that have committed.
    committed: BTreeSet<u8>,
    restarts: u32,
    aborts: u32,
    resends: u32,
    is_removing: bool,
}

/// A step from one state to another.
#[derive(Clone, Copy, Debug)]
enum Action {
    Submit(usize),
    Deliver(usize),
    Drop(usize),
    /// The database runs the next request.
    Request(ServerId),
    Abort(ServerId),
    /// An operation's transaction commits, or fails.
    Finish(ServerId, u8, bool),
    Restart(ServerId),
    Resend(ServerId),
    /// The last server is lost for good, and the first is told to remove it.
    Remove,
}

impl State {
    fn first(scenario: &BeltScenario) -> State {
        let ids: Vec<ServerId> = (0..scenario.servers).map(ServerId).collect();
        let mut state = State {
            members: Vec::new(),
            network: Vec::new(),
            left: vec![true; scenario.operations.len()],
            committed: BTreeSet::new(),
            restarts: scenario.restarts,
            aborts: scenario.aborts,
            resends: scenario.resends,
            is_removing: false,
        };
        for id in &ids {
            let rows = Rows::new(*id, ids.clone());
            let machine = Machine::new(*id, BeltOptions::default(), ids.clone());
            let member = Member {
                machine,
                rows,
                row: Vec::new(),
                running: BTreeMap::new(),
                requests: VecDeque::new(),
            };
            state.members.push((None, 0));
            state.set(*id, member);
        }
        state
    }

    fn set(&mut self, id: ServerId, member: Member) {
        let digest = digest(&member);
        self.members[usize::from(id.0)] = (Some(Rc::new(member)), digest);
    }

    fn member(&self, id: ServerId) -> Option<&Rc<Member>> {
        self.members[usize::from(id.0)].0.as_ref()
    }

    fn up(&self) -> impl Iterator<Item = (ServerId, &Rc<Member>)> {
        let members = (0..).map(ServerId).zip(&self.members);
        members.filter_map(|(id, (member, _))| Some((id, member.as_ref()?)))
    }

    fn digest(&self) -> u128 {
        let members: Vec<u128> = self.members.iter().map(|(_, digest)| *digest).collect();
        let network: Vec<u128> = self.network.iter().map(|(digest, ..)| *digest).collect();
        let budgets = (self.restarts, self.aborts, self.resends, self.is_removing);
        digest(&(members, network, &self.left, &self.committed, budgets))
    }

    fn actions(&self, scenario: &BeltScenario) -> Vec<Action> {
        let mut actions = Vec::new();
        for (number, server) in scenario.operations.iter().enumerate() {
            if self.left[number] && self.member(*server).is_some() {
                actions.push(Action::Submit(number));
            }
        }
        for place in 0..self.network.len() {
            actions.push(Action::Deliver(place));
            if self.resends > 0 {
                actions.push(Action::Drop(place));
            }
        }
        for (id, member) in self.up() {
            if let Some(next) = member.requests.front() {
                actions.push(Action::Request(id));
                let may_abort = matches!(next, Request::Receive(_) | Request::Pass { .. });
                if self.aborts > 0 && may_abort {
                    actions.push(Action::Abort(id));
                }
            }
            for (operation, (_, is_left_behind)) in &member.running {
                actions.push(Action::Finish(id, *operation, true));
                if *is_left_behind {
                    actions.push(Action::Finish(id, *operation, false));
                }
            }
            if self.restarts > 0 {
                actions.push(Action::Restart(id));
            }
            if self.resends > 0 {
                actions.push(Action::Resend(id));
            }
        }
        if scenario.removes && !self.is_removing {
            actions.push(Action::Remove);
        }
        actions
    }

    fn after(&self, action: Action, scenario: &BeltScenario) -> Result<State, String> {
        let mut state = self.clone();
        match action {
            Action::Submit(number) => {
                state.left[number] = false;
                let input = Input::Operation {
                    operation: number as u8,
                    deadline: Ticks(u64::MAX),
                };
                state.step(scenario.operations[number], input)?;
            }
            Action::Deliver(place) => {
                let (_, from, sent) = state.network.remove(place);
                let (to, message) = (*sent).clone();
                state.step(to, Input::Message { from, message })?;
            }
            Action::Drop(place) => {
                state.network.remove(place);
                state.resends -= 1;
            }
            Action::Request(id) => state.request(id, false)?,
            Action::Abort(id) => {
                state.aborts -= 1;
                state.request(id, true)?;
            }
            Action::Finish(id, operation, commits) => state.finish(id, operation, commits)?,
            Action::Restart(id) => {
                state.restarts -= 1;
                state.restart(id)?;
            }
            Action::Resend(id) => {
                state.resends -= 1;
                state.step(id, Input::Timer(Timer::Resend))?;
            }
            Action::Remove => {
                let last = ServerId(scenario.servers - 1);
                state.is_removing = true;
                state.members[usize::from(last.0)] = (None, 0);
                state.network.retain(|(_, _, sent)| sent.0 != last);
                state.step(ServerId(0), Input::Remove(last))?;
            }
        }
        Ok(state)
    }

    /// Steps a server's state machine, and takes its output.
    fn step(&mut self, id: ServerId, input: Input<Image, u8>) -> Result<(), String> {
        let Some(member) = self.member(id) else {
            return Ok(());
        };
        let mut member = Member::clone(member);
        let mut out = Outbox::default();
        member.machine.step(Ticks(0), input, &mut out);
        member.machine.check_invariants()?;
        self.take(id, &mut member, out);
        self.set(id, member);
        Ok(())
    }

    fn take(&mut self, id: ServerId, member: &mut Member, out: Outbox<Image, u8>) {
        member.requests.extend(out.requests);
        for (to, message) in out.messages {
            if self.member(to).is_none() {
                continue;
            }
            let digest = digest(&(id, to, &message));
            let place = self.network.partition_point(|sent| sent.0 < digest);
            if self.network.get(place).is_none_or(|sent| sent.0 != digest) {
                self.network
                    .insert(place, (digest, id, Rc::new((to, message))));
            }
        }
    }

    fn restart(&mut self, id: ServerId) -> Result<(), String> {
        let member = self.member(id).expect("it is up");
        let mut member = Member::clone(member);
        member.requests.clear();
        for (_, is_left_behind) in member.running.values_mut() {
            *is_left_behind = true;
        }
        let mut out = Outbox::default();
        let (options, standing) = (BeltOptions::default(), member.rows.standing());
        member.machine = Machine::recover(Ticks(0), id, options, standing, &mut out);
        member.machine.check_invariants()?;
        self.take(id, &mut member, out);
        self.set(id, member);
        Ok(())
    }

    /// The database of a server runs its next request.
    fn request(&mut self, id: ServerId, aborts: bool) -> Result<(), String> {
        let mut member = Member::clone(self.member(id).expect("it is up"));
        let Some(request) = member.requests.pop_front() else {
            return Ok(());
        };
        let answer = match request {
            Request::Receive(_) if aborts => Input::ReceiveAborted,
            Request::Pass { .. } if aborts => Input::PassAborted,
            Request::Receive(token) => {
                let received = member.rows.receive(token);
                Input::Received(received.map(|updates| {
                    for update in updates {
                        member.row = update.payload.0;
                    }
                }))
            }
            Request::Run { operation, hold } => {
                member.running.insert(operation, (hold, false));
                self.set(id, member);
                return Ok(());
            }
            Request::Pass { hold, wishes } => {
                Input::Passed(member.rows.pass(hold, wishes).cloned())
            }
            Request::Promise(epoch) => {
                let promised = member.rows.promise(epoch);
                let standing = promised.then(|| Box::new(member.rows.standing()));
                Input::Promised { epoch, standing }
            }
            Request::Install(epoch, members) => Input::Installed {
                epoch,
                done: member.rows.install(epoch, members.clone()),
                members,
            },
            other => return Err(format!("{id}: an unexpected request {other:?}")),
        };
        member.rows.check_invariants()?;
        self.set(id, member);
        self.step(id, answer)
    }

    /// An operation's transaction ends.
    fn finish(&mut self, id: ServerId, operation: u8, commits: bool) -> Result<(), String> {
        let mut member = Member::clone(self.member(id).expect("it is up"));
        let Some((hold, is_left_behind)) = member.running.remove(&operation) else {
            return Ok(());
        };
        let mut row = member.row.clone();
        row.push(operation);
        let mut committed = false;
        if commits {
            let sequence = member.rows.draw();
            let image = Image(row.clone());
            let result = member.rows.commit_operation(hold, sequence, image);
            committed = result.is_ok();
        }
        if committed {
            member.row = row;
            self.committed.insert(operation);
        }
        self.set(id, member);
        match is_left_behind {
            true => Ok(()),
            false => self.step(
                id,
                Input::Ended {
                    operation,
                    committed,
                },
            ),
        }
    }

    /// Checks what has to hold in every state, between all servers.
    fn check(&self) -> Result<(), String> {
        let open = self
            .up()
            .filter(|(_, it)| it.rows.is_open(it.rows.received));
        let open: Vec<(ServerId, &Rc<Member>)> = open.collect();
        if open.len() > 1 {
            return Err("BELT-I1: two holds are open".to_owned());
        }
        for (id, holder) in &open {
            for (other, member) in self.up().filter(|(other, _)| other != id) {
                let own = member.rows.applied.get(&other).copied().unwrap_or_default();
                let there = holder.rows.applied.get(&other).copied().unwrap_or_default();
                if there < own {
                    return Err(format!(
                        "BELT-I5: {id} holds {:?}, and lacks {own:?} of {other}",
                        holder.rows.received
                    ));
                }
            }
        }
        for (id, member) in self.up() {
            for (other, second) in self.up() {
                let (short, long) = match member.row.len() <= second.row.len() {
                    true => (&member.row, &second.row),
                    false => (&second.row, &member.row),
                };
                if !long.starts_with(short) {
                    return Err(format!(
                        "BELT-I3: {:?} at {id}, {:?} at {other}",
                        member.row, second.row
                    ));
                }
            }
            let own = member.rows.applied.get(&id).copied().unwrap_or_default();
            let lowest = self.up().map(|(_, other)| {
                let there = other.rows.applied.get(&id).copied();
                there.unwrap_or_default()
            });
            let lowest: Sequence = lowest.min().unwrap_or_default();
            let retained = member.rows.outbox.keys().next().copied();
            if lowest < own && retained.is_none() {
                return Err(format!(
                    "BELT-I6: {id} has pruned an update that some server lacks"
                ));
            }
            let mut seen = BTreeSet::new();
            if !member.row.iter().all(|operation| seen.insert(*operation)) {
                return Err(format!("BELT-I4: {:?} at {id}", member.row));
            }
        }
        Ok(())
    }

    /// Lets time pass until the ring is at rest, and checks that all databases agree.
    fn check_end(&self) -> Result<(), String> {
        let mut state = self.clone();
        for round in 0..40 {
            loop {
                let before = state.digest();
                while let Some((_, from, sent)) = state.network.first().cloned() {
                    state.network.remove(0);
                    let (to, message) = (*sent).clone();
                    state.step(to, Input::Message { from, message })?;
                }
                let ids: Vec<ServerId> = state.up().map(|(id, _)| id).collect();
                for id in ids {
                    while state.member(id).is_some_and(|it| !it.requests.is_empty()) {
                        state.request(id, false)?;
                    }
                    let running = state.member(id).map(|it| it.running.clone());
                    for operation in running.into_iter().flatten().map(|(name, _)| name) {
                        state.finish(id, operation, true)?;
                    }
                }
                state.check()?;
                if state.digest() == before {
                    break;
                }
            }
            let ids: Vec<ServerId> = state.up().map(|(id, _)| id).collect();
            let all_at_rest = state.up().all(|(_, it)| it.machine.is_at_rest());
            let first = state.up().next().map(|(_, it)| it.row.clone());
            let are_equal = state.up().all(|(_, it)| Some(&it.row) == first.as_ref());
            let is_open = |(_, it): (ServerId, &Rc<Member>)| it.rows.is_open(it.rows.received);
            let stands_still = !state.up().any(is_open);
            if all_at_rest && are_equal && !stands_still {
                return state.check_rest();
            }
            if state.is_removing && round % 8 == 7 {
                // The coordinator may have crashed on the way: the operator repeats the removal.
                let last = ServerId(state.members.len() as u16 - 1);
                state.step(ServerId(0), Input::Remove(last))?;
            }
            for id in ids {
                state.step(id, Input::Timer(Timer::Resend))?;
            }
        }
        Err("BELT-I10: the ring does not come to rest with equal databases".to_owned())
    }

    fn check_rest(&self) -> Result<(), String> {
        let holders = self.up().filter(|(_, it)| it.machine.is_holding()).count();
        if holders != 1 {
            return Err(format!("BELT-I1: {holders} servers hold the token at rest"));
        }
        let lost = self.members.iter().any(|(member, _)| member.is_none());
        let first = self.up().next();
        let row = first.map_or(&[][..], |(_, it)| &it.row);
        match self.committed.iter().find(|it| !row.contains(it)) {
            Some(operation) if !lost => Err(format!("BELT-I2: {operation} is lost")),
            _ => Ok(()),
        }
    }
}

/// A digest of 128 bits.
fn digest(value: &impl Hash) -> u128 {
    let half = |half: u8| {
        let mut hasher = DefaultHasher::new();
        half.hash(&mut hasher);
        value.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

impl fmt::Display for BeltScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} servers, operations of", self.servers)?;
        let mut servers = self.operations.iter();
        servers.try_for_each(|server| write!(f, " {server}"))
    }
}

/// Visits every state of a scenario. Returns the size of the search, and the first violation.
pub fn explore_belt(scenario: &BeltScenario, limits: Limits) -> (Visited, Option<Found>) {
    let mut visited = Visited::default();
    let mut seen: FxHashSet<u128> = FxHashSet::default();
    let first = State::first(scenario);
    seen.insert(first.digest());
    visited.states = 1;
    let actions = first.actions(scenario);
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
        let words = || describe(state, action);
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

fn describe(state: &State, action: Action) -> String {
    match action {
        Action::Deliver(place) | Action::Drop(place) => {
            let (_, from, sent) = &state.network[place];
            let lost = if matches!(action, Action::Drop(_)) {
                " (lost)"
            } else {
                ""
            };
            format!("{from} -> {}{lost}: {:?}", sent.0, sent.1)
        }
        Action::Request(id) | Action::Abort(id) => {
            let next = state.member(id).and_then(|it| it.requests.front());
            format!("{action:?}: {next:?}")
        }
        other => format!("{other:?}"),
    }
}
