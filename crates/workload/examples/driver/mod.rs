//! Drives nodes in one thread, with a batch of open calls at each.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use anabranch_analysis::{Guarantee, Topology, analyze};
use anabranch_engine::{Call, CallError, Node, NodeInput, NodeOutbox, PlannedApplication};
use anabranch_protocol::{Durable, Protocol};
use anabranch_sql::application::Application;
use anabranch_sql::catalog::load;
use anabranch_sql::source::SourceFile;
use anabranch_types::{NodeId, Ticks};

/// The virtual time between two calls, about the duration of one.
const STEP: Ticks = Ticks(20_000);

/// The number of open calls at each node.
const BATCH: usize = 32;

/// An application from the names and texts of its files, planned for this many partitions.
pub(crate) fn planned(files: &[(&str, &str)], partitions: u16) -> Arc<PlannedApplication> {
    let files = files.iter();
    let files = files.map(|(name, text)| SourceFile::new(*name, *text));
    let catalog = load(files.collect()).expect("the files load");
    let application = Application::compile(catalog).expect("and compile");
    let plan = analyze(
        application.catalog(),
        application.summaries(),
        Topology::Partitioned,
        Guarantee::Invariants,
    );
    PlannedApplication::new(application, plan, partitions)
}

/// The nodes with their inputs and outputs.
pub(crate) struct Driver<P: Protocol> {
    pub(crate) nodes: Vec<Node<P>>,
    out: NodeOutbox<P::Message>,
    /// By node: the messages sent to it, in order.
    inboxes: Vec<VecDeque<(NodeId, P::Message)>>,
    now: Ticks,
    pub(crate) committed: u64,
    pub(crate) rolled_back: u64,
    pub(crate) messages: u64,
}

impl<P: Durable> Driver<P> {
    pub(crate) fn new(nodes: Vec<Node<P>>) -> Driver<P> {
        Driver {
            out: NodeOutbox::default(),
            inboxes: nodes.iter().map(|_| VecDeque::new()).collect(),
            nodes,
            now: Ticks(0),
            committed: 0,
            rolled_back: 0,
            messages: 0,
        }
    }

    /// Steps a node, and passes its messages on.
    fn step(&mut self, at: usize, input: NodeInput<P::Message>) {
        self.nodes[at].step(self.now, input, &mut self.out);
        let from = NodeId(at as u16);
        for (to, message) in self.out.messages.drain(..) {
            self.messages += 1;
            self.inboxes[to.index()].push_back((from, message));
        }
        for outcome in self.out.outcomes.drain(..) {
            match outcome.result {
                Ok(rows) => {
                    std::hint::black_box(rows);
                    self.committed += 1;
                }
                // New-Order's unused item (2.4.1.5); Payment's last name without a customer.
                Err(CallError::Failed(_)) => self.rolled_back += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Makes a batch of calls and delivers messages until nothing is under way.
    fn make(&mut self, batch: &mut VecDeque<(usize, Call)>) {
        for (at, call) in batch.drain(..) {
            self.now = Ticks(self.now.0 + STEP.0);
            self.step(at, NodeInput::Call(call));
        }
        loop {
            for at in 0..self.nodes.len() {
                for _ in 0..self.inboxes[at].len() {
                    let next = self.inboxes[at].pop_front();
                    let (from, message) = next.expect("it was counted");
                    self.step(at, NodeInput::Message { from, message });
                }
            }
            let busy = self.inboxes.iter().any(|inbox| !inbox.is_empty());
            if busy {
                continue;
            }
            if self.nodes.iter().all(|node| node.calls() == 0) {
                break;
            }
            // The remaining calls wait for a timer, such as a retry.
            let next = self.nodes.iter().filter_map(Node::next_alarm).min();
            self.now = self.now.max(next.expect("some node has a timer"));
            self.ring();
        }
        self.ring();
    }

    fn ring(&mut self) {
        for at in 0..self.nodes.len() {
            if self.nodes[at]
                .next_alarm()
                .is_some_and(|due| due <= self.now)
            {
                self.step(at, NodeInput::Tick);
            }
        }
    }
}

/// The measured code, in one function so that tools find it by name.
#[inline(never)]
pub(crate) fn run_calls<P: Durable>(driver: &mut Driver<P>, mut calls: VecDeque<(usize, Call)>) {
    let mut batch = VecDeque::new();
    while !calls.is_empty() {
        let count = (BATCH * driver.nodes.len()).min(calls.len());
        batch.extend(calls.drain(..count));
        driver.make(&mut batch);
    }
}

/// Processor seconds if the system provides them, otherwise elapsed seconds.
pub(crate) fn seconds(since: &Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanos = told.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    nanos.map_or_else(|| since.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}
