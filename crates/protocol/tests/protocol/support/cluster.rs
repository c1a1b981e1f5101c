//! A cluster of protocol nodes whose every message is delivered by hand or by a seeded schedule.
//!
//! Links are reliable and keep the order of messages from one node to another, as the contract
//! assumes; between links any interleaving and any delay is possible. Each node's invariants are
//! checked after each of its steps.
//!
//! Nodes that keep records may crash and restart ([`Cluster::restart`]). A peer learns of it before the first
//! message of the new incarnation; messages that it sent until then are lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_protocol::{
    Counters, Durable, Input, Outbox, Protocol, Record, Reply, Request, TimerId, TransactionId,
};
use anabranch_types::{NodeId, Ticks};

use super::describe;

/// The nodes, the messages under way between them, and their replies.
pub struct Cluster<P: Protocol> {
    /// The nodes; `nodes[n.index()]` is node `n`.
    pub nodes: Vec<P>,
    /// The time; it never goes backwards.
    pub now: Ticks,
    /// By node: how far its clock is ahead of that time.
    pub skew: Vec<Ticks>,
    links: BTreeMap<(NodeId, NodeId), VecDeque<P::Message>>,
    /// The restarted nodes, each with the peers that have not learned of it.
    unheard: BTreeSet<(NodeId, NodeId)>,
    /// By node: its log.
    pub logs: Vec<Vec<Record>>,
    timers: BTreeSet<(Ticks, NodeId, TimerId)>,
    replies: BTreeMap<TransactionId, Reply>,
    sequences: Vec<u64>,
    outbox: Outbox<P::Message>,
    transcript: Option<Vec<String>>,
    /// The text of each message; `None` for all details.
    describe: Option<fn(&P::Message) -> String>,
    node_names: Vec<String>,
    names: BTreeMap<TransactionId, String>,
}

impl<P: Protocol> Cluster<P> {
    /// A cluster of these nodes at time 0, without messages under way.
    pub fn new(nodes: Vec<P>) -> Cluster<P> {
        Cluster {
            sequences: vec![0; nodes.len()],
            skew: vec![Ticks(0); nodes.len()],
            logs: vec![Vec::new(); nodes.len()],
            nodes,
            now: Ticks(0),
            links: BTreeMap::new(),
            unheard: BTreeSet::new(),
            timers: BTreeSet::new(),
            replies: BTreeMap::new(),
            outbox: Outbox::default(),
            transcript: None,
            describe: None,
            node_names: Vec::new(),
            names: BTreeMap::new(),
        }
    }

    /// Starts a transcript of every request, delivery and reply, one line each.
    pub fn record(&mut self) {
        self.transcript = Some(Vec::new());
    }

    /// As [`Cluster::record`], with these names for nodes and these words for messages.
    pub fn record_as(&mut self, node_names: &[&str], describe: fn(&P::Message) -> String) {
        self.record();
        self.node_names = node_names.iter().map(ToString::to_string).collect();
        self.describe = Some(describe);
    }

    fn node_name(&self, node: NodeId) -> String {
        self.node_names
            .get(node.index())
            .cloned()
            .unwrap_or_else(|| node.to_string())
    }

    /// Adds a line of explanation to the transcript.
    pub fn note(&mut self, line: &str) {
        if let Some(transcript) = &mut self.transcript {
            transcript.push(line.to_string());
        }
    }

    /// The transcript since [`Cluster::record`], a line break after each line.
    pub fn transcript(&self) -> String {
        self.transcript
            .iter()
            .flatten()
            .map(|line| format!("{line}\n"))
            .collect()
    }

    /// A fresh transaction that `node` coordinates.
    pub fn begin(&mut self, node: NodeId) -> TransactionId {
        let sequence = self.sequences[node.index()];
        self.sequences[node.index()] += 1;
        TransactionId { node, sequence }
    }

    /// A fresh transaction with a name for the transcript.
    pub fn begin_named(&mut self, node: NodeId, name: &str) -> TransactionId {
        let transaction = self.begin(node);
        self.names.insert(transaction, name.to_string());
        transaction
    }

    /// Gives a request to the transaction's coordinator.
    pub fn request(&mut self, transaction: TransactionId, request: Request) {
        if self.transcript.is_some() {
            let name = self.name(transaction);
            let at = self.node_name(transaction.node);
            self.note(&match self.describe {
                Some(_) => format!("{at}: {name} requests: {}", describe::request(&request)),
                None => format!("{name} at {at}: {request:?}"),
            });
        }
        self.step(
            transaction.node,
            Input::Request {
                transaction,
                request,
            },
        );
    }

    /// Takes the transaction's reply, if it has one.
    pub fn take_reply(&mut self, transaction: TransactionId) -> Option<Reply> {
        self.replies.remove(&transaction)
    }

    /// Whether the transaction has a reply that was not taken.
    pub fn has_reply(&self, transaction: TransactionId) -> bool {
        self.replies.contains_key(&transaction)
    }

    /// Whether the transaction has a reply that was not taken, and that ends it.
    pub fn has_outcome(&self, transaction: TransactionId) -> bool {
        let reply = self.replies.get(&transaction);
        reply.is_some_and(|reply| matches!(reply, Reply::Committed { .. } | Reply::Aborted(_)))
    }

    /// Gives a request, delivers all messages until none is under way, and takes the reply.
    pub fn ask(&mut self, transaction: TransactionId, request: Request) -> Reply {
        self.request(transaction, request);
        self.deliver_all();
        self.take_reply(transaction)
            .expect("a quiet cluster has answered every request")
    }

    /// How many messages are under way on a link.
    pub fn under_way(&self, from: NodeId, to: NodeId) -> usize {
        self.links.get(&(from, to)).map_or(0, VecDeque::len)
    }

    /// The oldest message of a link.
    pub fn peek(&self, from: NodeId, to: NodeId) -> Option<P::Message> {
        self.links.get(&(from, to))?.front().cloned()
    }

    /// Delivers a message that no node has sent.
    pub fn inject(&mut self, from: NodeId, to: NodeId, message: P::Message) {
        self.step(to, Input::Message { from, message });
    }

    /// The links that have messages under way, in order.
    pub fn busy_links(&self) -> Vec<(NodeId, NodeId)> {
        let unheard = |(from, to): &(NodeId, NodeId)| self.unheard.contains(&(*to, *from));
        let busy = self.links.iter().filter(|(_, queue)| !queue.is_empty());
        let busy = busy.map(|(&link, _)| link).filter(|link| !unheard(link));
        let mut busy: Vec<(NodeId, NodeId)> = busy.chain(self.unheard.clone()).collect();
        busy.sort_unstable();
        busy.dedup();
        busy
    }

    /// Delivers the oldest message of a link, or the restart of its source.
    ///
    /// # Panics
    /// When the link is empty.
    pub fn deliver(&mut self, from: NodeId, to: NodeId) {
        if self.unheard.remove(&(from, to)) {
            // Messages sent until now went to the former incarnation.
            self.links.remove(&(to, from));
            return self.step(to, Input::Restarted { node: from });
        }
        let message = self
            .links
            .get_mut(&(from, to))
            .and_then(VecDeque::pop_front)
            .unwrap_or_else(|| panic!("nothing is under way from {from} to {to}"));
        if self.transcript.is_some() {
            let (source, target) = (self.node_name(from), self.node_name(to));
            let words = match self.describe {
                Some(describe) => describe(&message),
                None => format!("{message:?}"),
            };
            self.note(&format!("{source} -> {target}: {words}"));
        }
        self.step(to, Input::Message { from, message });
    }

    /// Loses the messages of a link.
    pub fn lose(&mut self, from: NodeId, to: NodeId) {
        self.links.remove(&(from, to));
    }

    /// Delivers messages, link after link, until none is under way.
    pub fn deliver_all(&mut self) {
        while let Some(&(from, to)) = self.busy_links().first() {
            self.deliver(from, to);
        }
    }

    /// Advances the time and runs the timers that are due, in order.
    pub fn advance(&mut self, ticks: Ticks) {
        let until = self.now + ticks;
        while let Some(&(at, node, timer)) = self.timers.first() {
            if at > until {
                break;
            }
            self.timers.pop_first();
            self.now = self.now.max(at);
            self.step(node, Input::Timer(timer));
        }
        self.now = until;
    }

    /// When the next timer is due, if one is set.
    pub fn next_timer(&self) -> Option<Ticks> {
        self.timers.first().map(|&(at, _, _)| at)
    }

    /// The sum of all nodes' counters.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for node in &self.nodes {
            sum.add(node.counters());
        }
        sum
    }

    fn name(&self, transaction: TransactionId) -> String {
        self.names
            .get(&transaction)
            .cloned()
            .unwrap_or_else(|| format!("{transaction:?}"))
    }

    fn step(&mut self, node: NodeId, input: Input<P::Message>) {
        let mut outbox = std::mem::take(&mut self.outbox);
        let skew = self.skew[node.index()];
        self.nodes[node.index()].step(self.now + skew, input, &mut outbox);
        self.logs[node.index()].append(&mut outbox.records);
        for (to, message) in outbox.messages.drain(..) {
            assert_ne!(to, node, "a message to the own node never leaves the step");
            self.links.entry((node, to)).or_default().push_back(message);
        }
        for (transaction, reply) in outbox.replies.drain(..) {
            if self.transcript.is_some() {
                let name = self.name(transaction);
                let at = self.node_name(node);
                self.note(&match self.describe {
                    Some(_) => format!("{at}: {name} gets: {}", describe::reply(&reply)),
                    None => format!("{at} => {name}: {reply:?}"),
                });
            }
            assert_eq!(
                transaction.node, node,
                "only its coordinator answers a transaction"
            );
            let earlier = self.replies.insert(transaction, reply);
            assert!(earlier.is_none(), "{transaction:?} is answered twice");
        }
        self.set_timers(node, &mut outbox);
        self.outbox = outbox;
        if let Err(broken) = self.nodes[node.index()].check_invariants() {
            panic!("{node} after a step: {broken}\n{}", self.transcript());
        }
    }

    /// Timers run by the clock of their node.
    fn set_timers(&mut self, node: NodeId, outbox: &mut Outbox<P::Message>) {
        let skew = self.skew[node.index()];
        let timers = outbox.timers.drain(..);
        self.timers
            .extend(timers.map(|(at, timer)| (at.since(skew), node, timer)));
    }
}

impl<P: Durable> Cluster<P> {
    /// Makes the nodes keep a log, which begins with a checkpoint.
    pub fn keep_logs(&mut self) {
        for (node, log) in self.nodes.iter_mut().zip(&mut self.logs) {
            node.keep_records().expect("the protocol keeps records");
            node.checkpoint(&mut |record| log.push(record));
        }
    }

    /// A node that took a former incarnation of another for the newest learns of the current one: its messages
    /// to it so far are lost.
    pub fn mistake_incarnation(&mut self, node: NodeId, of: NodeId) {
        self.unheard.insert((of, node));
    }

    /// A node crashes, and recovers as `fresh` from its log. Records at the log's end that are not forced are
    /// lost.
    pub fn restart(&mut self, node: NodeId, mut fresh: P) {
        let log = &mut self.logs[node.index()];
        while log.pop_if(|record| !record.is_forced()).is_some() {}
        fresh.keep_records().expect("the protocol keeps records");
        for record in &self.logs[node.index()] {
            let replayed = fresh.replay(record.clone());
            replayed.expect("a node can replay what it has written down");
        }
        self.links
            .retain(|(from, to), _| *from != node && *to != node);
        self.timers.retain(|(_, of, _)| *of != node);
        self.unheard.retain(|(_, to)| *to != node);
        let count = self.nodes.len() as u16;
        let others = (0..count).map(NodeId).filter(|other| *other != node);
        self.unheard.extend(others.map(|other| (node, other)));
        // The transactions of each incarnation have distinct names.
        self.sequences[node.index()] += 1_000;
        self.nodes[node.index()] = fresh;
        let mut outbox = std::mem::take(&mut self.outbox);
        let skew = self.skew[node.index()];
        self.nodes[node.index()].recover(self.now + skew, &mut outbox);
        self.logs[node.index()].append(&mut outbox.records);
        for (to, message) in outbox.messages.drain(..) {
            self.links.entry((node, to)).or_default().push_back(message);
        }
        self.set_timers(node, &mut outbox);
        self.outbox = outbox;
        if let Err(broken) = self.nodes[node.index()].check_invariants() {
            panic!("{node} has recovered: {broken}");
        }
    }
}
