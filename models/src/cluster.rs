//! A small cluster as a value: its nodes, what is under way between them, and its clients.
//!
//! The nodes are the protocols' own state machines, driven through [`Protocol::step`] alone. Links
//! are reliable and keep the order of their messages, as the contract assumes. A crashed node
//! takes no more steps, and what it had sent and had not arrived is lost. A node that *returns* has died and come
//! back with what it had made durable, in one step: nobody can tell for how long it was gone. Its
//! peers hear of it each in its own time, and what they say until then is lost.

use std::collections::VecDeque;
use std::rc::Rc;

use anabranch_protocol::{Durable, Input, Outbox, Protocol, Request, TimerId};
use anabranch_storage::Store;
use anabranch_types::{NodeId, Ticks};

use crate::client::{Client, Phase, Script};
use crate::digest;

/// A protocol's node, as models want it: a value, and one whose `Debug` shows everything that its
/// next step depends on.
pub trait Subject: Protocol + Clone + std::fmt::Debug {
    /// Whether nothing of any transaction is left here.
    fn is_idle(&self) -> bool;

    /// The partition's items.
    fn store(&self) -> &Store;

    /// How many transactions it has prepared whose end it does not know.
    fn prepared(&self) -> usize {
        0
    }

    /// A message in a few words.
    fn words(message: &Self::Message) -> String;

    /// The same node, back with what it had made durable; `empty` is one of the same cluster that
    /// has seen nothing. None where nothing is.
    fn come_back(&self, empty: &Self, now: Ticks, out: &mut Outbox<Self::Message>) -> Option<Self> {
        let _ = (empty, now, out);
        None
    }
}

/// [`Subject::come_back`] of a protocol that keeps records. A checkpoint says the same as the log,
/// so that states need not carry one.
///
/// # Panics
/// When the protocol keeps no records, or cannot replay them.
pub fn recovered<P: Durable + Clone>(
    dying: &P,
    empty: &P,
    now: Ticks,
    out: &mut Outbox<P::Message>,
) -> P {
    let mut back = empty.clone();
    back.keep_records().expect("the protocol keeps records");
    dying.checkpoint(&mut |record| {
        back.replay(record).expect("a checkpoint can be replayed");
    });
    back.recover(now, out);
    back
}

/// Who runs what, and what may go wrong.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Each client's node and script.
    pub scripts: Vec<(NodeId, Script)>,
    /// Whether scripts declare their reads first.
    pub declares: bool,
    /// Whether a client may pause between an answer and its next request.
    pub pauses: bool,
    /// The nodes that may crash, and how many of them.
    pub crashing: (Vec<NodeId>, u32),
    /// The nodes that may return, and how often in all.
    pub returning: (Vec<NodeId>, u32),
    /// How often time may jump, and how far.
    pub jumps: (u32, Ticks),
    /// How often time goes on by as much because nothing else is left to do but to wait for timers.
    pub lulls: u32,
}

/// One thing that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The oldest message of a link arrives.
    Deliver {
        /// From here
        from: NodeId,
        /// to here.
        to: NodeId,
    },
    /// A client asks for the next thing.
    Ask(usize),
    /// A timer that has run out fires.
    Fire(NodeId),
    /// A node takes no more steps, and what it has sent and has not arrived never does. (What arrives
    /// after its end might as well have arrived before.)
    Crash(NodeId),
    /// A node dies and comes back.
    Return(NodeId),
    /// Time jumps.
    Jump,
    /// Time goes on, since all wait for it.
    Lull,
}

/// The most nodes, and the most clients.
pub const NODES_MAX: usize = 6;

impl Action {
    /// Its number among all actions of a state, below 64.
    pub fn number(self) -> u32 {
        match self {
            Action::Deliver { from, to } => (from.index() * NODES_MAX + to.index()) as u32,
            Action::Ask(client) => 36 + client as u32,
            Action::Fire(node) => 44 + node.index() as u32,
            Action::Crash(node) => 50 + node.index() as u32,
            Action::Return(node) => 56 + node.index() as u32,
            Action::Jump => 62,
            Action::Lull => 63,
        }
    }
}

/// A message under way; none is the news that its sender has come back.
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
    /// None for a crashed one.
    nodes: Vec<Option<Rc<Node<P>>>>,
    /// By source and target.
    links: Vec<VecDeque<Rc<Sent<P::Message>>>>,
    clients: Vec<Rc<(Client, u128)>>,
    now: Ticks,
    jumps: u32,
    lulls: u32,
    crashes: u32,
    returns: u32,
    /// By node: one that has seen nothing and holds nothing.
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
    /// The cluster before anybody has asked for anything. `empty` has the same nodes without their
    /// items, if some may return.
    ///
    /// # Panics
    /// When there are more nodes or clients than actions have numbers for.
    pub fn new(nodes: Vec<P>, empty: Vec<P>, setting: &Setting) -> State<P> {
        assert!(nodes.len() <= NODES_MAX && setting.scripts.len() <= 8);
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
            clients: setting.scripts.iter().enumerate().map(client).collect(),
            now: Ticks(0),
            jumps: 0,
            lulls: 0,
            crashes: 0,
            returns: 0,
            empty: empty.into(),
        }
    }

    /// What tells this state from all that go on otherwise.
    pub fn digest(&self) -> u128 {
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|node| node.as_ref().map_or(1, |node| node.digest));
        let links = self.links.iter().flat_map(|link| {
            let sent = link.iter().map(|sent| sent.digest);
            sent.chain([link.len() as u128])
        });
        let clients = self.clients.iter().map(|client| client.1);
        let rest = [self.jumps, self.lulls, self.crashes, self.returns];
        let rest = rest.map(u128::from).into_iter().chain([self.now.0.into()]);
        digest::of_all(nodes.chain(links).chain(clients).chain(rest))
    }

    /// The clients, as far as they have come.
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

    /// Everything that can happen next.
    pub fn actions(&self, setting: &Setting) -> Vec<Action> {
        let mut actions = self.progress(setting);
        if self.jumps < setting.jumps.0 {
            actions.push(Action::Jump);
        }
        if self.crashes < setting.crashing.1 {
            let alive = |node: &&NodeId| self.nodes[node.index()].is_some();
            let nodes = setting.crashing.0.iter().filter(alive);
            actions.extend(nodes.map(|node| Action::Crash(*node)));
        }
        if self.returns < setting.returning.1 {
            let nodes = setting.returning.0.iter();
            actions.extend(nodes.map(|node| Action::Return(*node)));
        }
        actions
    }

    /// Whether a node has not heard yet that another has come back.
    fn is_unaware(&self, node: NodeId, of: NodeId) -> bool {
        let link = &self.links[of.index() * NODES_MAX + node.index()];
        link.iter().any(|sent| sent.message.is_none())
    }

    /// What must happen some time, if nothing else does: all but jumps, crashes and returns.
    pub fn progress(&self, setting: &Setting) -> Vec<Action> {
        let mut actions = Vec::new();
        for (at, link) in self.links.iter().enumerate() {
            let [from, to] = [at / NODES_MAX, at % NODES_MAX].map(|node| NodeId(node as u16));
            if !link.is_empty() {
                actions.push(Action::Deliver { from, to });
            }
        }
        for (number, client) in self.clients().enumerate() {
            let ready = match client.phase {
                Phase::Waiting => true,
                Phase::Thinking => setting.pauses,
                _ => false,
            };
            if ready && self.nodes[client.transaction.node.index()].is_some() {
                actions.push(Action::Ask(number));
            }
        }
        for (id, node) in (0u16..).map(NodeId).zip(&self.nodes) {
            let due = |node: &Rc<Node<P>>| node.timers.iter().any(|(at, _)| *at <= self.now);
            if node.as_ref().is_some_and(due) {
                actions.push(Action::Fire(id));
            }
        }
        let waits = |node: &Rc<Node<P>>| !node.timers.is_empty();
        if actions.is_empty()
            && self.lulls < setting.lulls
            && self.nodes.iter().flatten().any(waits)
        {
            actions.push(Action::Lull);
        }
        actions
    }

    /// The nodes that an action concerns, one bit each: two actions that concern no node in common
    /// come to the same in either order.
    ///
    /// A step changes its node, and puts messages at the ends of links that no other node writes
    /// to; taking the first message of a link does not change where the next one is put. What a
    /// client that begins knows to be acknowledged depends on the nodes of all writers.
    pub fn concerns(&self, action: Action, setting: &Setting) -> u32 {
        let bit = |node: NodeId| 1 << node.index();
        match action {
            Action::Deliver { to, .. } => bit(to),
            Action::Ask(number) => {
                let client = &self.clients[number].0;
                let own = bit(client.transaction.node);
                if client.phase != Phase::Waiting {
                    return own;
                }
                let writers = setting.scripts.iter().filter(|(_, script)| script.writes());
                writers.fold(own, |all, (node, _)| all | bit(*node))
            }
            Action::Fire(node) => bit(node),
            // They take away what is under way from and to everybody.
            Action::Crash(_) | Action::Return(_) => u32::MAX,
            Action::Jump | Action::Lull => u32::MAX,
        }
    }

    /// The state after an action.
    ///
    /// # Errors
    /// A broken invariant of a node, or an answer that nobody asked for.
    pub fn after(&self, action: Action, setting: &Setting) -> Result<State<P>, String> {
        let mut next = self.clone();
        match action {
            Action::Deliver { from, to } => {
                let link = &mut next.links[from.index() * NODES_MAX + to.index()];
                let sent = link.pop_front().expect("the link has a message");
                let input = match sent.message.clone() {
                    Some(message) => Input::Message { from, message },
                    None => Input::Restarted { node: from },
                };
                next.step(to, input, setting)?;
            }
            Action::Ask(number) => next.ask(number, setting)?,
            Action::Fire(node) => {
                let now = next.now;
                let timers = &mut next.node_mut(node).timers;
                let first = timers.iter().enumerate().filter(|(_, (at, _))| *at <= now);
                let (first, _) = first.min_by_key(|(_, timer)| **timer).expect("one is due");
                let (_, timer) = timers.remove(first);
                next.step(node, Input::Timer(timer), setting)?;
            }
            Action::Crash(node) => {
                next.crashes += 1;
                next.nodes[node.index()] = None;
                for other in 0..NODES_MAX {
                    next.links[other * NODES_MAX + node.index()].clear();
                    next.links[node.index() * NODES_MAX + other].clear();
                }
            }
            Action::Return(node) => next.come_back(node)?,
            Action::Jump => {
                next.jumps += 1;
                next.now = next.now + setting.jumps.1;
            }
            Action::Lull => {
                next.lulls += 1;
                next.now = next.now + setting.jumps.1;
            }
        }
        Ok(next)
    }

    /// A node dies and comes back. Those who had asked it never learn what became of it.
    fn come_back(&mut self, id: NodeId) -> Result<(), String> {
        self.returns += 1;
        let mut out = Outbox::default();
        let (now, empty) = (self.now, Rc::clone(&self.empty));
        let node = self.node_mut(id);
        let back = node
            .protocol
            .come_back(&empty[id.index()], now, &mut out)
            .ok_or_else(|| format!("{id} has made nothing durable"))?;
        node.protocol = back;
        node.timers = std::mem::take(&mut out.timers);
        node.timers.sort_unstable();
        node.digest = node.digest();
        let checked = node.protocol.check_invariants();
        checked.map_err(|broken| format!("{id} has come back: {broken}"))?;
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

    /// Puts messages on their links. What is said to the dead by one who has not heard is lost.
    fn send(&mut self, from: NodeId, messages: Vec<(NodeId, P::Message)>) {
        for (to, message) in messages {
            if self.nodes[to.index()].is_some() && !self.is_unaware(from, to) {
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

    fn ask(&mut self, number: usize, setting: &Setting) -> Result<(), String> {
        let (_, script) = &setting.scripts[number];
        let client = &self.clients[number].0;
        let begins = client.phase == Phase::Waiting;
        let request = match begins && setting.declares {
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
                false => Phase::Asking,
            };
            Ok(())
        })?;
        let input = Input::Request {
            transaction,
            request,
        };
        self.step(transaction.node, input, setting)
    }

    fn step(
        &mut self,
        id: NodeId,
        input: Input<P::Message>,
        setting: &Setting,
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
            let number = number.ok_or_else(|| format!("{transaction:?} is nobody's"))?;
            drop(clients);
            self.change(number, |client| client.take(reply))?;
            if self.clients[number].0.phase == Phase::Thinking && !setting.pauses {
                self.ask(number, setting)?;
            }
        }
        Ok(())
    }

    /// An action in words, as it would happen in this state.
    pub fn describe(&self, action: Action, setting: &Setting) -> String {
        match action {
            Action::Deliver { from, to } => {
                let link = &self.links[from.index() * NODES_MAX + to.index()];
                match &link[0].message {
                    Some(message) => format!("{from} -> {to}: {}", P::words(message)),
                    None => format!("{to} hears that {from} has come back"),
                }
            }
            Action::Ask(number) => {
                let (node, script) = &setting.scripts[number];
                match self.clients[number].0.phase {
                    Phase::Waiting => format!("client {number} begins at {node}: {script:?}"),
                    _ => format!("client {number} at {node} asks for the next thing"),
                }
            }
            Action::Fire(node) => format!("{node}: a timer runs out"),
            Action::Crash(node) => format!("{node} crashes"),
            Action::Return(node) => format!("{node} dies and comes back"),
            Action::Jump | Action::Lull => format!("{} us go by", setting.jumps.1.as_micros()),
        }
    }
}

impl<P: Subject> Node<P> {
    fn digest(&self) -> u128 {
        digest::of_all([digest::of(&self.protocol), digest::of(&self.timers)])
    }
}
