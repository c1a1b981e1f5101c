//! A small cluster as a value: its nodes, the messages in flight, and its clients.
//!
//! The nodes are the protocols' own state machines, driven through [`Protocol::step`]. Links are reliable
//! and keep the order of messages, as the contract requires. A crashed node takes no more steps, and its
//! messages in flight are lost. A node that *restarts* crashes and comes back with its durable state in one
//! step, since the length of an outage is not observable. Each peer learns of the restart at its own time;
//! messages that it sends to the node before that are lost.

use std::collections::VecDeque;
use std::rc::Rc;

use anabranch_protocol::{Age, Durable, Input, Outbox, Protocol, Request, TimerId};
use anabranch_storage::Store;
use anabranch_types::{NodeId, Ticks};

use crate::client::{Client, Phase, Script};
use crate::digest;

/// A protocol's node in a model: a value with a `Debug` that shows everything on which its next step depends.
pub trait Subject: Protocol + Clone + std::fmt::Debug {
    /// Whether the node has no state of any transaction left.
    fn is_idle(&self) -> bool;

    /// The store of its partition.
    fn store(&self) -> &Store;

    /// The number of transactions that are in doubt here.
    fn prepared(&self) -> usize {
        0
    }

    /// Describes a message.
    fn describe(message: &Self::Message) -> String;

    /// The node after a restart from its durable state. `empty` is the node in its initial state, without items. `None`
    /// if the protocol writes no log records.
    fn restart(&self, empty: &Self, now: Ticks, out: &mut Outbox<Self::Message>) -> Option<Self> {
        let _ = (empty, now, out);
        None
    }
}

/// [`Subject::restart`] of a protocol that writes log records. The node replays a checkpoint, which is equivalent to
/// its log, so that states need no log.
///
/// # Panics
/// If the protocol writes no log records, or cannot replay them.
pub fn restarted<P: Durable + Clone>(
    dying: &P,
    empty: &P,
    now: Ticks,
    out: &mut Outbox<P::Message>,
) -> P {
    let mut back = empty.clone();
    back.keep_records()
        .expect("the protocol writes log records");
    dying.checkpoint(&mut |record| {
        back.replay(record).expect("a checkpoint can be replayed");
    });
    back.recover(now, out);
    back
}

/// The clients' scripts, and the faults that may occur.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The node and the script of each client.
    pub scripts: Vec<(NodeId, Script)>,
    /// Whether scripts declare their accesses first.
    pub declares: bool,
    /// How many of the clients, the first ones, declare nothing and wait by age; each is older than the next.
    pub by_age: usize,
    /// Whether a client may pause between an answer and its next request.
    pub pauses: bool,
    /// The nodes that may crash, and the number of crashes.
    pub crashing: (Vec<NodeId>, u32),
    /// The nodes that may restart, and the total number of restarts.
    pub restarting: (Vec<NodeId>, u32),
    /// The number of jumps of time, and their length.
    pub jumps: (u32, Ticks),
    /// How often time advances by as much when nothing is left but timers.
    pub timer_waits: u32,
}

/// An action: a step from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The oldest message of a link arrives.
    Deliver {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
    },
    /// A client sends its next request.
    Request(usize),
    /// A timer fires.
    Timer(NodeId),
    /// A node stops for ever, and its messages in flight are lost. (Messages that arrive after the crash might as well
    /// have arrived before.)
    Crash(NodeId),
    /// A node crashes and restarts.
    Restart(NodeId),
    /// Time jumps.
    Jump,
    /// Time advances, since only timers are left.
    WaitForTimer,
}

/// The most nodes, and the most clients.
pub const NODES_MAX: usize = 6;

impl Action {
    /// The action's number among all actions of a state, below 64.
    pub fn number(self) -> u32 {
        match self {
            Action::Deliver { from, to } => (from.index() * NODES_MAX + to.index()) as u32,
            Action::Request(client) => 36 + client as u32,
            Action::Timer(node) => 44 + node.index() as u32,
            Action::Crash(node) => 50 + node.index() as u32,
            Action::Restart(node) => 56 + node.index() as u32,
            Action::Jump => 62,
            Action::WaitForTimer => 63,
        }
    }
}

/// A message in flight; `None` is the notice that its sender has restarted.
#[derive(Debug)]
struct Sent<M> {
    message: Option<M>,
    digest: u128,
}

/// A node, its timers, and the digest of both.
#[derive(Clone, Debug)]
struct Node<P> {
    protocol: P,
    timers: Vec<(Ticks, TimerId)>,
    digest: u128,
}

/// A state of the whole cluster. Cheap to clone: states share the nodes in which they agree.
#[derive(Debug)]
pub struct State<P: Protocol> {
    /// `None` for a crashed node.
    nodes: Vec<Option<Rc<Node<P>>>>,
    /// By source and target.
    links: Vec<VecDeque<Rc<Sent<P::Message>>>>,
    clients: Vec<Rc<(Client, u128)>>,
    now: Ticks,
    jumps: u32,
    timer_waits: u32,
    crashes: u32,
    restarts: u32,
    /// By node: its initial state, without items.
    empty: Rc<[P]>,
}

impl<P: Protocol> Clone for State<P> {
    fn clone(&self) -> Self {
        State {
            nodes: self.nodes.clone(),
            links: self.links.clone(),
            clients: self.clients.clone(),
            empty: Rc::clone(&self.empty),
            ..*self
        }
    }
}

impl<P: Subject> State<P> {
    /// The cluster before the first request. `empty` has the same nodes without items, for restarts.
    ///
    /// # Panics
    /// If there are more nodes or clients than actions have numbers for.
    pub fn new(nodes: Vec<P>, empty: Vec<P>, scenario: &Scenario) -> State<P> {
        assert!(nodes.len() <= NODES_MAX && scenario.scripts.len() <= 8);
        let node = |protocol| {
            let mut node = Node {
                protocol,
                timers: Vec::new(),
                digest: 0,
            };
            node.digest = node.digest();
            Some(Rc::new(node))
        };
        let client = |(number, (node, _)): (usize, &(NodeId, Script))| {
            let client = Client::new(*node, number);
            let digest = digest::of(&client);
            Rc::new((client, digest))
        };
        State {
            links: (0..NODES_MAX * NODES_MAX)
                .map(|_| VecDeque::new())
                .collect(),
            nodes: nodes.into_iter().map(node).collect(),
            clients: scenario.scripts.iter().enumerate().map(client).collect(),
            now: Ticks(0),
            jumps: 0,
            timer_waits: 0,
            crashes: 0,
            restarts: 0,
            empty: empty.into(),
        }
    }

    /// The digest of the state.
    pub fn digest(&self) -> u128 {
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|node| node.as_ref().map_or(1, |node| node.digest));
        let links = self.links.iter().flat_map(|link| {
            let sent = link.iter().map(|sent| sent.digest);
            sent.chain([link.len() as u128])
        });
        let clients = self.clients.iter().map(|client| client.1);
        let rest = [self.jumps, self.timer_waits, self.crashes, self.restarts];
        let rest = rest.map(u128::from).into_iter().chain([self.now.0.into()]);
        digest::of_all(nodes.chain(links).chain(clients).chain(rest))
    }

    /// The clients.
    pub fn clients(&self) -> impl ExactSizeIterator<Item = &Client> {
        self.clients.iter().map(|client| &client.0)
    }

    /// The node, unless it has crashed.
    pub fn node(&self, node: NodeId) -> Option<&P> {
        self.nodes[node.index()].as_ref().map(|node| &node.protocol)
    }

    /// The nodes that have not crashed.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &P)> {
        (0u16..)
            .map(NodeId)
            .zip(&self.nodes)
            .filter_map(|(id, node)| Some((id, &node.as_ref()?.protocol)))
    }

    /// Whether some node has crashed.
    pub fn has_crashed(&self) -> bool {
        self.crashes > 0
    }

    /// All possible actions.
    pub fn actions(&self, scenario: &Scenario) -> Vec<Action> {
        let mut actions = self.progress(scenario);
        if self.jumps < scenario.jumps.0 {
            actions.push(Action::Jump);
        }
        if self.crashes < scenario.crashing.1 {
            let alive = |node: &&NodeId| self.nodes[node.index()].is_some();
            let nodes = scenario.crashing.0.iter().filter(alive);
            actions.extend(nodes.map(|node| Action::Crash(*node)));
        }
        if self.restarts < scenario.restarting.1 {
            let nodes = scenario.restarting.0.iter();
            actions.extend(nodes.map(|node| Action::Restart(*node)));
        }
        actions
    }

    /// Whether a node has not yet learned that another has restarted.
    fn has_unseen_restart(&self, node: NodeId, of: NodeId) -> bool {
        let link = &self.links[of.index() * NODES_MAX + node.index()];
        link.iter().any(|sent| sent.message.is_none())
    }

    /// The actions that make progress: all but jumps, crashes and restarts.
    pub fn progress(&self, scenario: &Scenario) -> Vec<Action> {
        let mut actions = Vec::new();
        for (at, link) in self.links.iter().enumerate() {
            let [from, to] = [at / NODES_MAX, at % NODES_MAX].map(|node| NodeId(node as u16));
            if !link.is_empty() {
                actions.push(Action::Deliver { from, to });
            }
        }
        for (number, client) in self.clients().enumerate() {
            let ready = match client.phase {
                Phase::NotStarted => true,
                Phase::Answered => scenario.pauses,
                _ => false,
            };
            if ready && self.nodes[client.transaction.node.index()].is_some() {
                actions.push(Action::Request(number));
            }
        }
        for (id, node) in (0u16..).map(NodeId).zip(&self.nodes) {
            let due = |node: &Rc<Node<P>>| node.timers.iter().any(|(at, _)| *at <= self.now);
            if node.as_ref().is_some_and(due) {
                actions.push(Action::Timer(id));
            }
        }
        let waits = |node: &Rc<Node<P>>| !node.timers.is_empty();
        if actions.is_empty()
            && self.timer_waits < scenario.timer_waits
            && self.nodes.iter().flatten().any(waits)
        {
            actions.push(Action::WaitForTimer);
        }
        actions
    }

    /// The nodes that an action concerns, one bit each. Two actions without a common node lead to the same state in
    /// either order.
    ///
    /// A step changes its node, and appends messages to links to which no other node appends. Removing the first
    /// message of a link does not change where the next one is appended. The acknowledged commits of a client that
    /// begins depend on the nodes of all writers.
    pub fn concerns(&self, action: Action, scenario: &Scenario) -> u32 {
        let bit = |node: NodeId| 1 << node.index();
        match action {
            Action::Deliver { to, .. } => bit(to),
            Action::Request(number) => {
                let client = &self.clients[number].0;
                let own = bit(client.transaction.node);
                if client.phase != Phase::NotStarted {
                    return own;
                }
                let writers = scenario
                    .scripts
                    .iter()
                    .filter(|(_, script)| script.writes());
                writers.fold(own, |all, (node, _)| all | bit(*node))
            }
            Action::Timer(node) => bit(node),
            // They remove messages in flight from and to all nodes.
            Action::Crash(_) | Action::Restart(_) => u32::MAX,
            Action::Jump | Action::WaitForTimer => u32::MAX,
        }
    }

    /// The state after an action.
    ///
    /// # Errors
    /// A violated invariant of a node, or an answer without a request.
    pub fn after(&self, action: Action, scenario: &Scenario) -> Result<State<P>, String> {
        let mut next = self.clone();
        match action {
            Action::Deliver { from, to } => {
                let link = &mut next.links[from.index() * NODES_MAX + to.index()];
                let sent = link.pop_front().expect("the link has a message");
                let input = match sent.message.clone() {
                    Some(message) => Input::Message { from, message },
                    None => Input::Restarted { node: from },
                };
                next.step(to, input, scenario)?;
            }
            Action::Request(number) => next.request(number, scenario)?,
            Action::Timer(node) => {
                let now = next.now;
                let timers = &mut next.node_mut(node).timers;
                let first = timers.iter().enumerate().filter(|(_, (at, _))| *at <= now);
                let (first, _) = first.min_by_key(|(_, timer)| **timer).expect("one is due");
                let (_, timer) = timers.remove(first);
                next.step(node, Input::Timer(timer), scenario)?;
            }
            Action::Crash(node) => {
                next.crashes += 1;
                next.nodes[node.index()] = None;
                for other in 0..NODES_MAX {
                    next.links[other * NODES_MAX + node.index()].clear();
                    next.links[node.index() * NODES_MAX + other].clear();
                }
            }
            Action::Restart(node) => next.restart(node)?,
            Action::Jump => {
                next.jumps += 1;
                next.now = next.now + scenario.jumps.1;
            }
            Action::WaitForTimer => {
                next.timer_waits += 1;
                next.now = next.now + scenario.jumps.1;
            }
        }
        Ok(next)
    }

    /// Crashes and restarts a node. Its clients' outcomes are unknown.
    fn restart(&mut self, id: NodeId) -> Result<(), String> {
        self.restarts += 1;
        let mut out = Outbox::default();
        let (now, empty) = (self.now, Rc::clone(&self.empty));
        let node = self.node_mut(id);
        let back = node
            .protocol
            .restart(&empty[id.index()], now, &mut out)
            .ok_or_else(|| format!("{id} writes no log records"))?;
        node.protocol = back;
        node.timers = std::mem::take(&mut out.timers);
        node.timers.sort_unstable();
        node.digest = node.digest();
        let checked = node.protocol.check_invariants();
        checked.map_err(|broken| format!("{id} after its restart: {broken}"))?;
        for other in (0..self.nodes.len()).filter(|other| *other != id.index()) {
            self.links[other * NODES_MAX + id.index()].clear();
            let digest = digest::of(&"Restarted");
            let news = Sent {
                message: None,
                digest,
            };
            let link = &mut self.links[id.index() * NODES_MAX + other];
            link.clear();
            link.push_back(Rc::new(news));
        }
        self.send(id, std::mem::take(&mut out.messages));
        for number in 0..self.clients.len() {
            let client = &self.clients[number].0;
            if client.transaction.node == id && client.is_under_way() {
                self.change(number, |client| {
                    client.phase = Phase::Lost;
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Appends messages to their links. A message to a crashed node is lost, and a message to a restarted node before
    /// the sender has learned of the restart.
    fn send(&mut self, from: NodeId, messages: Vec<(NodeId, P::Message)>) {
        for (to, message) in messages {
            if self.nodes[to.index()].is_some() && !self.has_unseen_restart(from, to) {
                let digest = digest::of(&message);
                let message = Some(message);
                let link = &mut self.links[from.index() * NODES_MAX + to.index()];
                link.push_back(Rc::new(Sent { message, digest }));
            }
        }
    }

    fn node_mut(&mut self, node: NodeId) -> &mut Node<P> {
        let node = self.nodes[node.index()].as_mut();
        Rc::make_mut(node.expect("a crashed node takes no step"))
    }

    fn change(
        &mut self,
        number: usize,
        change: impl FnOnce(&mut Client) -> Result<(), String>,
    ) -> Result<(), String> {
        let client = Rc::make_mut(&mut self.clients[number]);
        change(&mut client.0)?;
        client.1 = digest::of(&client.0);
        Ok(())
    }

    fn request(&mut self, number: usize, scenario: &Scenario) -> Result<(), String> {
        let (_, script) = &scenario.scripts[number];
        let client = &self.clients[number].0;
        let begins = client.phase == Phase::NotStarted;
        let by_age = number < scenario.by_age;
        let request = match begins && scenario.declares && !by_age {
            true => Request::Declare(script.declare()),
            false => script.next(&client.answers),
        };
        let committed =
            |(bit, client): (usize, &Client)| u32::from(client.phase == Phase::Committed) << bit;
        let acknowledged = self.clients().enumerate().map(committed).sum();
        let gives_up = matches!(request, Request::Abort);
        let transaction = client.transaction;
        self.change(number, |client| {
            if begins {
                client.acknowledged = acknowledged;
            }
            client.phase = match gives_up {
                true => Phase::GaveUp,
                false => Phase::Waiting,
            };
            Ok(())
        })?;
        if begins && by_age {
            let began = Ticks(number as u64);
            let age = Age { began, transaction };
            let input = Input::Request {
                transaction,
                request: Request::WaitByAge(age),
            };
            self.step(transaction.node, input, scenario)?;
        }
        let input = Input::Request {
            transaction,
            request,
        };
        self.step(transaction.node, input, scenario)
    }

    fn step(
        &mut self,
        id: NodeId,
        input: Input<P::Message>,
        scenario: &Scenario,
    ) -> Result<(), String> {
        let mut out = Outbox::default();
        let now = self.now;
        let node = self.node_mut(id);
        node.protocol.step(now, input, &mut out);
        node.timers.append(&mut out.timers);
        node.timers.sort_unstable();
        node.digest = node.digest();
        let checked = node.protocol.check_invariants();
        checked.map_err(|broken| format!("{id}: {broken}"))?;
        self.send(id, out.messages);
        for (transaction, reply) in out.replies {
            let mut clients = self.clients();
            let number = clients.position(|client| client.transaction == transaction);
            let number = number.ok_or_else(|| format!("{transaction:?} belongs to no client"))?;
            drop(clients);
            self.change(number, |client| client.take(reply))?;
            if self.clients[number].0.phase == Phase::Answered && !scenario.pauses {
                self.request(number, scenario)?;
            }
        }
        Ok(())
    }

    /// Describes an action in this state.
    pub fn describe(&self, action: Action, scenario: &Scenario) -> String {
        match action {
            Action::Deliver { from, to } => {
                let link = &self.links[from.index() * NODES_MAX + to.index()];
                match &link[0].message {
                    Some(message) => format!("{from} -> {to}: {}", P::describe(message)),
                    None => format!("{to} learns that {from} has restarted"),
                }
            }
            Action::Request(number) => {
                let (node, script) = &scenario.scripts[number];
                match self.clients[number].0.phase {
                    Phase::NotStarted => format!("client {number} begins at {node}: {script:?}"),
                    _ => format!("client {number} at {node} sends its next request"),
                }
            }
            Action::Timer(node) => format!("{node}: a timer fires"),
            Action::Crash(node) => format!("{node} crashes"),
            Action::Restart(node) => format!("{node} crashes and restarts"),
            Action::Jump | Action::WaitForTimer => {
                format!("{} us pass", scenario.jumps.1.as_micros())
            }
        }
    }
}

impl<P: Subject> Node<P> {
    fn digest(&self) -> u128 {
        digest::of_all([digest::of(&self.protocol), digest::of(&self.timers)])
    }
}
