//! A ring over tiny databases: each row is the list of the operations that have appended to it, so that a lost,
//! repeated or misordered update shows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_protocol::belt::{
    Acknowledge, BeltOptions, BeltServer, Hop, Input, Message, Outbox, Payload, Reply, Request,
    Rows, Sequence, ServerId, Timer,
};
use anabranch_types::{SplitMix64, Ticks};

/// The number of rows.
const ROWS: u64 = 2;

/// How long an operation may wait.
const DEADLINE: Ticks = Ticks::from_millis(900);

/// A row's after-image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Image {
    row: u64,
    list: Vec<u32>,
}

impl Payload for Image {
    fn bytes(&self) -> usize {
        self.list.len()
    }
}

type Machine = BeltServer<Image, u32>;

/// A transaction of an operation.
#[derive(Clone, Debug)]
struct Running {
    hold: Hop,
    row: u64,
    drawn: Option<Sequence>,
    /// The after-image as of its draw: the row is locked from then on.
    image: Vec<u32>,
    /// The middleware's incarnation that runs it.
    incarnation: u32,
}

struct Member {
    machine: Option<Machine>,
    incarnation: u32,
    rows: Rows<Image>,
    data: BTreeMap<u64, Vec<u32>>,
    running: BTreeMap<u32, Running>,
    requests: VecDeque<Request<Image, u32>>,
    timers: BTreeSet<(Ticks, Timer)>,
    /// The database is gone.
    is_lost: bool,
}

/// What may happen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Storm {
    pub(crate) steps: u32,
    pub(crate) removes: bool,
}

impl Default for Storm {
    fn default() -> Storm {
        Storm {
            steps: 500,
            removes: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Committed,
    Failed,
}

/// A message under way: sender, receiver and content.
pub(crate) type Sent = (ServerId, ServerId, Message<Image>);

pub(crate) struct Ring {
    options: BeltOptions,
    members: Vec<Member>,
    network: Vec<Sent>,
    random: SplitMix64,
    now: Ticks,
    operations: BTreeMap<u32, (u16, State)>,
    answered: BTreeSet<u32>,
    expired: BTreeSet<u32>,
    removed: BTreeMap<u16, Sequence>,
    /// Removals that were given up: where, and of which server.
    repeat: Vec<(u16, u16)>,
    /// The places of committed operations at their origin.
    places: BTreeMap<u32, (u16, Sequence)>,
    pub(crate) sent: u64,
}

impl Ring {
    pub(crate) fn new(seed: u64, servers: u16, options: BeltOptions) -> Ring {
        let ids: Vec<ServerId> = (0..servers).map(ServerId).collect();
        let members = ids.iter().map(|id| Member {
            machine: None,
            incarnation: 0,
            rows: Rows::new(*id, ids.clone()),
            data: BTreeMap::new(),
            running: BTreeMap::new(),
            requests: VecDeque::new(),
            timers: BTreeSet::new(),
            is_lost: false,
        });
        let mut ring = Ring {
            options,
            members: members.collect(),
            network: Vec::new(),
            random: SplitMix64::stream(seed, "belt", 0),
            now: Ticks(0),
            operations: BTreeMap::new(),
            answered: BTreeSet::new(),
            expired: BTreeSet::new(),
            removed: BTreeMap::new(),
            repeat: Vec::new(),
            places: BTreeMap::new(),
            sent: 0,
        };
        for server in 0..servers {
            ring.restart(server);
        }
        ring
    }

    fn up(&self) -> Vec<u16> {
        let up = (0..)
            .zip(&self.members)
            .filter(|(_, m)| m.machine.is_some());
        up.map(|(server, _)| server).collect()
    }

    fn with(
        &mut self,
        server: u16,
        act: impl FnOnce(&mut Machine, Ticks, &mut Outbox<Image, u32>),
    ) {
        let member = &mut self.members[usize::from(server)];
        let Some(machine) = &mut member.machine else {
            return;
        };
        let mut out = Outbox::default();
        act(machine, self.now, &mut out);
        machine
            .check_invariants()
            .expect("the state machine's invariants hold");
        self.take(server, out);
    }

    fn take(&mut self, server: u16, out: Outbox<Image, u32>) {
        let member = &mut self.members[usize::from(server)];
        member.requests.extend(out.requests);
        member.timers.extend(out.timers);
        for (to, message) in out.messages {
            self.sent += 1;
            self.network.push((ServerId(server), to, message));
        }
        for reply in out.replies {
            match reply {
                Reply::Answer(operation) => {
                    self.answered.insert(operation);
                }
                Reply::Expired(operation) => {
                    self.expired.insert(operation);
                }
                Reply::Removed { server, through } => {
                    self.removed.insert(server.0, through);
                }
                Reply::NotRemoved(removed) => {
                    self.repeat.push((server, removed.0));
                }
            }
        }
    }

    fn input(&mut self, server: u16, input: Input<Image, u32>) {
        self.with(server, |machine, now, out| machine.step(now, input, out));
    }

    pub(crate) fn submit(&mut self, server: u16) -> u32 {
        let operation = self.operations.len() as u32;
        self.operations.insert(operation, (server, State::Waiting));
        let deadline = self.now + DEADLINE;
        self.input(
            server,
            Input::Operation {
                operation,
                deadline,
            },
        );
        operation
    }

    /// The middleware crashes. Its database goes on, with the transactions that were under way.
    pub(crate) fn crash(&mut self, server: u16) {
        let member = &mut self.members[usize::from(server)];
        member.machine = None;
        member.requests.clear();
        member.timers.clear();
    }

    /// The server is gone for good, database and all.
    pub(crate) fn lose(&mut self, server: u16) {
        self.crash(server);
        let member = &mut self.members[usize::from(server)];
        member.is_lost = true;
        member.running.clear();
    }

    pub(crate) fn restart(&mut self, server: u16) {
        let (now, options) = (self.now, self.options);
        let member = &mut self.members[usize::from(server)];
        if member.machine.is_some() || member.is_lost {
            return;
        }
        member.incarnation += 1;
        let mut out = Outbox::default();
        let standing = member.rows.standing();
        let id = member.rows.server;
        member.machine = Some(Machine::recover(now, id, options, standing, &mut out));
        self.take(server, out);
    }

    /// Takes the messages of a server that are under way out of the network.
    pub(crate) fn delay(&mut self, server: u16) -> Vec<Sent> {
        let is_delayed = |sent: &mut Sent| sent.0.0 == server;
        self.network.extract_if(.., is_delayed).collect()
    }

    /// Delayed messages arrive.
    pub(crate) fn arrive(&mut self, delayed: Vec<Sent>) {
        self.network.extend(delayed);
    }

    pub(crate) fn remove(&mut self, at: u16, server: u16) {
        self.input(at, Input::Remove(ServerId(server)));
    }

    /// Runs the next request of a server in its database; `aborts`: the database aborts it.
    fn request(&mut self, server: u16, aborts: bool) {
        let member = &mut self.members[usize::from(server)];
        let Some(request) = member.requests.pop_front() else {
            return;
        };
        let answer = match request {
            Request::Receive(_) if aborts => Input::ReceiveAborted,
            Request::Pass { .. } if aborts => Input::PassAborted,
            Request::Receive(token) => {
                let result = member.rows.receive(token);
                let result = result.map(|updates| {
                    for update in updates {
                        let Image { row, list } = update.payload;
                        member.data.insert(row, list);
                    }
                });
                Input::Received(result)
            }
            Request::Run { operation, hold } => {
                let running = Running {
                    hold,
                    row: u64::from(operation) % ROWS,
                    drawn: None,
                    image: Vec::new(),
                    incarnation: member.incarnation,
                };
                member.running.insert(operation, running);
                return;
            }
            Request::Cancel(operation) => {
                if member.running.contains_key(&operation) {
                    self.finish(server, operation, false);
                }
                return;
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
        };
        let checked = member.rows.check_invariants();
        checked.expect("the database's invariants hold");
        self.input(server, answer);
    }

    pub(crate) fn run_requests(&mut self, server: u16) {
        while !self.members[usize::from(server)].requests.is_empty() {
            self.request(server, false);
        }
    }

    /// An operation draws its number: its row is locked from here to its end.
    pub(crate) fn draw(&mut self, server: u16, operation: u32) -> bool {
        let member = &mut self.members[usize::from(server)];
        let Some(running) = member.running.get(&operation) else {
            return false;
        };
        let row = running.row;
        let mut others = member.running.values();
        if others.any(|other| other.row == row && other.drawn.is_some()) {
            return false;
        }
        let drawn = member.rows.draw();
        let mut image = member.data.get(&row).cloned().unwrap_or_default();
        image.push(operation);
        let running = member.running.get_mut(&operation).expect("it runs");
        (running.drawn, running.image) = (Some(drawn), image);
        true
    }

    /// An operation's transaction ends; returns whether it has committed.
    pub(crate) fn finish(&mut self, server: u16, operation: u32, commits: bool) -> bool {
        if commits {
            self.draw(server, operation);
        }
        let member = &mut self.members[usize::from(server)];
        let Some(running) = member.running.get(&operation).cloned() else {
            return false;
        };
        let sequence = match (running.drawn, commits) {
            (None, true) => return false,
            (drawn, _) => drawn,
        };
        member.running.remove(&operation);
        let image = Image {
            row: running.row,
            list: running.image.clone(),
        };
        let committed = commits
            && sequence.is_some_and(|sequence| {
                let done = member.rows.commit_operation(running.hold, sequence, image);
                done.is_ok()
            });
        let state = &mut self
            .operations
            .get_mut(&operation)
            .expect("it was submitted")
            .1;
        *state = State::Failed;
        if committed {
            *state = State::Committed;
            member.data.insert(running.row, running.image);
            let sequence = sequence.expect("it has drawn");
            self.places.insert(operation, (server, sequence));
        }
        if running.incarnation == member.incarnation {
            self.input(
                server,
                Input::Ended {
                    operation,
                    committed,
                },
            );
        }
        committed
    }

    fn deliver(&mut self, place: usize) {
        let (from, to, message) = self.network.swap_remove(place);
        self.input(to.0, Input::Message { from, message });
    }

    fn fire(&mut self, server: u16) {
        let due = |ring: &Ring| {
            let first = ring.members[usize::from(server)].timers.first().copied();
            first.filter(|(at, _)| *at <= ring.now)
        };
        while let Some((_, timer)) = due(self) {
            self.members[usize::from(server)].timers.pop_first();
            self.input(server, Input::Timer(timer));
        }
    }

    pub(crate) fn storm(&mut self, storm: Storm) {
        let servers = self.members.len() as u64;
        let mut lost = None;
        for step in 0..storm.steps {
            let server = self.random.below(servers) as u16;
            match self.random.below(20) {
                0 => {
                    self.submit_if_up(server);
                }
                1 if self.random.below(4) == 0 => self.crash(server),
                2 | 3 => self.restart(server),
                4..=6 => {
                    let aborts = self.random_is(8);
                    self.request(server, aborts);
                }
                7..=8 => {
                    let running = self.members[usize::from(server)].running.keys();
                    let running: Vec<u32> = running.copied().collect();
                    if !running.is_empty() {
                        let pick = self.random.below(running.len() as u64) as usize;
                        if self.random_is(3) {
                            self.draw(server, running[pick]);
                        } else {
                            let commits = !self.random_is(6);
                            self.finish(server, running[pick], commits);
                        }
                    }
                }
                9 => self.pass_time(20),
                _ if !self.network.is_empty() => {
                    let place = self.random.below(self.network.len() as u64) as usize;
                    match self.random.below(10) {
                        0 => {
                            self.network.swap_remove(place);
                        }
                        1 => {
                            let copy = self.network[place].clone();
                            self.network.push(copy);
                            self.deliver(place);
                        }
                        _ => self.deliver(place),
                    }
                }
                _ => {}
            }
            if storm.removes && step > storm.steps / 2 {
                let gone = *lost.get_or_insert_with(|| {
                    self.lose(server);
                    server
                });
                if self.random_is(40) && server != gone {
                    self.remove(server, gone);
                }
            }
        }
        if let Some(gone) = lost {
            let servers = (0..servers as u16).filter(|server| *server != gone);
            for server in servers.clone() {
                self.restart(server);
            }
            self.pass_time(10);
            let first = servers.min().expect("another server");
            self.remove(first, gone);
        }
    }

    fn submit_if_up(&mut self, server: u16) {
        if self.members[usize::from(server)].machine.is_some() {
            self.submit(server);
        }
    }

    fn random_is(&mut self, one_in: u64) -> bool {
        self.random.below(one_in) == 0
    }

    /// Time passes, in milliseconds; timers fire, and nothing else happens.
    pub(crate) fn pass_time(&mut self, millis: u64) {
        let until = self.now + Ticks::from_millis(millis);
        loop {
            let due = self
                .members
                .iter()
                .filter_map(|member| member.timers.first());
            match due.map(|(at, _)| *at).min() {
                Some(at) if at <= until => self.now = self.now.max(at),
                _ => break,
            }
            for server in 0..self.members.len() as u16 {
                self.fire(server);
            }
        }
        self.now = until;
    }

    /// Everything that can happen at a server without messages.
    pub(crate) fn settle(&mut self, server: u16) {
        self.run_requests(server);
        let running = self.members[usize::from(server)].running.keys();
        for operation in running.copied().collect::<Vec<_>>() {
            self.finish(server, operation, true);
        }
    }

    /// All servers but lost ones return; messages arrive, and operations end.
    pub(crate) fn heal(&mut self) {
        self.heal_with();
    }

    /// Messages arrive and databases answer. No operation ends, and no time passes.
    pub(crate) fn heal_without_operations(&mut self) {
        while !self.network.is_empty() || self.members.iter().any(|it| !it.requests.is_empty()) {
            while !self.network.is_empty() {
                self.deliver(0);
            }
            for server in 0..self.members.len() as u16 {
                self.run_requests(server);
            }
        }
    }

    fn heal_with(&mut self) {
        for server in 0..self.members.len() as u16 {
            self.restart(server);
        }
        for _ in 0..200 {
            for _ in 0..50 {
                while !self.network.is_empty() {
                    self.deliver(0);
                }
                for server in 0..self.members.len() as u16 {
                    self.settle(server);
                }
                if self.network.is_empty() && self.is_at_rest() {
                    match self.stands_still() {
                        // A coordinator has crashed on the way: the operator repeats the removal.
                        Some((at, removed)) => self.remove(at, removed),
                        None => return,
                    }
                }
            }
            self.pass_time(250);
            // One operator repeats what was given up.
            let repeat = std::mem::take(&mut self.repeat);
            if let Some((at, removed)) = repeat.into_iter().min() {
                self.remove(at, removed);
            }
        }
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        let machines = self
            .members
            .iter()
            .filter_map(|member| member.machine.as_ref());
        machines.clone().all(Machine::is_at_rest)
    }

    /// If the ring stands still because a removal has not come to its end: a server that can repeat it, and the lost
    /// server.
    fn stands_still(&self) -> Option<(u16, u16)> {
        let lost = self.members.iter().position(|member| member.is_lost)?;
        let rows = self.members.iter().filter(|member| !member.is_lost);
        let is_open = |member: &Member| member.rows.is_open(member.rows.received);
        match rows.clone().any(is_open) {
            true => None,
            false => Some((*self.up().first()?, lost as u16)),
        }
    }

    /// The server with the open hold.
    pub(crate) fn holder(&self) -> u16 {
        let holds = |member: &Member| member.machine.as_ref().is_some_and(Machine::is_holding);
        let found = self.members.iter().position(holds);
        found.expect("a server holds the token") as u16
    }

    pub(crate) fn answered(&self) -> usize {
        self.answered.len()
    }

    pub(crate) fn expired(&self) -> usize {
        self.expired.len()
    }

    pub(crate) fn received(&self, server: ServerId) -> Hop {
        self.members[usize::from(server.0)].rows.received
    }

    pub(crate) fn removed_through(&self, server: u16) -> Option<Sequence> {
        self.removed.get(&server).copied()
    }

    /// The number of databases, but lost ones, with an operation's effect.
    pub(crate) fn copies(&self, operation: u32) -> usize {
        let members = self.members.iter().filter(|member| !member.is_lost);
        let has = |member: &&Member| member.data.values().any(|list| list.contains(&operation));
        members.filter(has).count()
    }

    /// What has to hold when the ring has come to rest.
    pub(crate) fn check_at_rest(&self) -> Result<(), String> {
        if !self.is_at_rest() {
            return Err(format!(
                "the ring does not come to rest: {:?}",
                self.up()
                    .iter()
                    .map(|up| &self.members[usize::from(*up)].machine)
                    .collect::<Vec<_>>()
            ));
        }
        let members: Vec<&Member> = self.members.iter().filter(|m| !m.is_lost).collect();
        let holders = members.iter().filter(|member| {
            let machine = member.machine.as_ref();
            machine.is_some_and(Machine::is_holding)
        });
        if holders.count() != 1 {
            return Err("BELT-I1: not exactly one hold is open".to_owned());
        }
        for member in &members {
            if member.data != members[0].data {
                return Err(format!(
                    "BELT-I3: {:?} at {}, {:?} at {}",
                    member.data, member.rows.server, members[0].data, members[0].rows.server
                ));
            }
            let left = member.rows.outbox.len() + member.rows.token.updates.len();
            if left > 0 && members.len() > 1 && self.is_at_rest() {
                let token = &member.rows.token;
                if member.rows.received > member.rows.passed && !token.updates.is_empty() {
                    return Err("BELT-I6: a parked token carries updates".to_owned());
                }
            }
        }
        let lists = members[0].data.values().flatten();
        let mut seen = BTreeSet::new();
        for operation in lists {
            if !seen.insert(*operation) {
                return Err(format!(
                    "BELT-I4: operation {operation} has taken place twice"
                ));
            }
        }
        for (operation, (server, state)) in &self.operations {
            let is_there = seen.contains(operation);
            if self.expired.contains(operation) && is_there {
                return Err(format!("BELT-I9: expired operation {operation} has run"));
            }
            let is_lost = self.members[usize::from(*server)].is_lost;
            match state {
                State::Committed if !is_there && !is_lost => {
                    return Err(format!(
                        "BELT-I2: operation {operation} of s{server} is lost"
                    ));
                }
                State::Committed if !is_there => self.check_lost(*operation)?,
                State::Committed => {}
                State::Waiting | State::Failed if is_there => {
                    return Err(format!(
                        "operation {operation} of s{server} has not committed"
                    ));
                }
                State::Waiting | State::Failed => {}
            }
        }
        Ok(())
    }

    /// A lost update lies beyond what the removal has reported, and was not promised to survive.
    fn check_lost(&self, operation: u32) -> Result<(), String> {
        let (server, sequence) = self.places[&operation];
        let through = self.removed.get(&server);
        if through.is_none_or(|through| sequence <= *through) {
            return Err(format!(
                "BELT-I7: operation {operation} ({sequence:?} of s{server}) is lost, and the removal reports {through:?}"
            ));
        }
        let is_next = self.options.acknowledge == Acknowledge::Next;
        if is_next && self.members.len() > 1 && self.answered.contains(&operation) {
            return Err(format!("BELT-I8: answered operation {operation} is lost"));
        }
        Ok(())
    }
}
