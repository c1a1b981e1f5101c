//! Runs client procedures against a cluster under a seeded schedule.
//!
//! Each turn draws one event at random: a message is delivered, a client takes its reply and sends its next
//! request, or time advances. Each seed also draws the speeds of links and clients, so that whole transactions on
//! other links overtake some messages.

use std::collections::VecDeque;

use anabranch_protocol::{
    AbortReason, Age, PartitionRead, Protocol, Reply, Request, TransactionId,
};
use anabranch_types::{Fetched, NodeId, SlotId, Ticks, Timestamp, Value};

use super::cluster::Cluster;
use super::random::Random;

/// A transaction's logic, as a function from the answers so far to the next request. So it can be retried from
/// the start after an abort.
pub trait Procedure {
    /// The accesses to declare first, if the protocol uses declarations.
    fn declare(&self) -> Vec<PartitionRead> {
        Vec::new()
    }

    /// The next request, given the answer to each batch of reads of this attempt so far.
    fn next(&self, answers: &[Vec<Fetched>]) -> Request;
}

impl<P: Procedure + ?Sized> Procedure for Box<P> {
    fn declare(&self) -> Vec<PartitionRead> {
        (**self).declare()
    }

    fn next(&self, answers: &[Vec<Fetched>]) -> Request {
        (**self).next(answers)
    }
}

/// The run of one procedure.
pub struct Run<J = Box<dyn Procedure>> {
    /// The last attempt's id.
    pub transaction: TransactionId,
    /// The turn in which its last attempt started, and in which it ended.
    pub turns: (u64, u64),
    /// The answers of the last attempt.
    pub answers: Vec<Vec<Fetched>>,
    /// The aborts of the earlier attempts.
    pub retries: Vec<AbortReason>,
    /// How the last attempt ended.
    pub outcome: Outcome,
    /// The procedure.
    pub procedure: J,
}

/// The final outcome of a procedure.
pub enum Outcome {
    /// Committed, with its timestamp and the values of its deferred effects.
    Committed(Timestamp, Vec<(SlotId, Value)>),
    /// Aborted, without a retry.
    Aborted(AbortReason),
    /// The procedure ended without a commit.
    GaveUp,
}

impl<J> Run<J> {
    /// Whether it committed.
    pub fn committed(&self) -> bool {
        matches!(self.outcome, Outcome::Committed(..))
    }
}

/// Procedures that one client runs, one after the other.
pub struct Client<J = Box<dyn Procedure>> {
    /// The node that the client is connected to.
    pub node: NodeId,
    /// Its procedures.
    pub procedures: VecDeque<J>,
}

/// Options of a schedule.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Whether procedures declare their reads first.
    pub declare: bool,
    /// Which share of the procedures, in percent, waits by age and declares nothing.
    pub by_age: u64,
    /// The most by which time advances in a turn.
    pub ticks_max: Ticks,
    /// A run that needs more turns than this is reported as stuck.
    pub turns_max: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            declare: false,
            by_age: 0,
            ticks_max: Ticks::from_micros(50),
            turns_max: 1_000_000,
        }
    }
}

struct Active {
    transaction: TransactionId,
    since: u64,
    declared: bool,
    answers: Vec<Vec<Fetched>>,
}

struct Session<J> {
    node: NodeId,
    waiting: VecDeque<J>,
    active: Option<Active>,
    retries: Vec<AbortReason>,
    /// Whether the procedure at the front waits by age, and its age once it has begun.
    waits_by_age: Option<bool>,
    age: Option<Age>,
    rest_until: u64,
    weight: u64,
}

/// Runs every client's procedures and returns their runs, in order of their ends.
///
/// # Panics
/// When the cluster is stuck (no message is under way and a client waits), or does not finish in time.
pub fn run<P: Protocol, J: Procedure>(
    cluster: &mut Cluster<P>,
    clients: Vec<Client<J>>,
    pace: Pace,
    random: &mut Random,
) -> Vec<Run<J>> {
    run_with_restarts(cluster, clients, pace, random, |_, _| None)
}

/// As [`run`]. Before each turn `restart` may restart a node, which it returns: attempts there that have not ended are
/// aborted.
///
/// # Panics
/// As [`run`].
pub fn run_with_restarts<P: Protocol, J: Procedure>(
    cluster: &mut Cluster<P>,
    clients: Vec<Client<J>>,
    pace: Pace,
    random: &mut Random,
    mut restart: impl FnMut(&mut Cluster<P>, &mut Random) -> Option<NodeId>,
) -> Vec<Run<J>> {
    let speeds = [1, 1, 4, 16];
    let nodes = cluster.nodes.len();
    let link_speeds: Vec<u64> = (0..nodes * nodes)
        .map(|_| speeds[random.below(4) as usize])
        .collect();
    let mut sessions: Vec<Session<J>> = clients
        .into_iter()
        .map(|client| Session {
            node: client.node,
            waiting: client.procedures,
            active: None,
            retries: Vec::new(),
            waits_by_age: None,
            age: None,
            rest_until: 0,
            weight: speeds[random.below(4) as usize],
        })
        .collect();
    let mut runs = Vec::new();
    let mut turn = 0;
    loop {
        turn += 1;
        assert!(turn < pace.turns_max, "not finished after {turn} turns");
        if let Some(node) = restart(cluster, random) {
            for session in sessions.iter_mut().filter(|session| session.node == node) {
                let Some(active) = &session.active else {
                    continue;
                };
                if !cluster.has_outcome(active.transaction) {
                    cluster.take_reply(active.transaction);
                    session.retry(AbortReason::Restarted, turn, random);
                }
            }
        }
        let links = cluster.busy_links();
        let mut weights: Vec<u64> = links
            .iter()
            .map(|(from, to)| link_speeds[from.index() * nodes + to.index()])
            .collect();
        weights.extend(sessions.iter().map(|session| {
            let ready = match &session.active {
                Some(active) => cluster.has_reply(active.transaction),
                None => !session.waiting.is_empty() && session.rest_until <= turn,
            };
            if ready { session.weight } else { 0 }
        }));
        cluster.advance(Ticks(random.below(pace.ticks_max.0 + 1)));
        if weights.iter().all(|&weight| weight == 0) {
            let finished = sessions
                .iter()
                .all(|s| s.active.is_none() && s.waiting.is_empty());
            if finished {
                return runs;
            }
            if sessions
                .iter()
                .any(|s| s.active.is_none() && s.rest_until > turn)
            {
                continue;
            }
            let next = cluster
                .next_timer()
                .expect("a client waits, yet nothing is under way");
            cluster.advance(next.since(cluster.now));
            continue;
        }
        let chosen = random.weighted(&weights);
        if let Some(&(from, to)) = links.get(chosen) {
            cluster.deliver(from, to);
        } else {
            let session = &mut sessions[chosen - links.len()];
            runs.extend(session.resume(cluster, pace, turn, random));
        }
    }
}

impl<J: Procedure> Session<J> {
    /// Takes the reply, if one is awaited, and sends the next request.
    fn resume<P: Protocol>(
        &mut self,
        cluster: &mut Cluster<P>,
        pace: Pace,
        turn: u64,
        random: &mut Random,
    ) -> Option<Run<J>> {
        let procedure = self.waiting.front().expect("a session with work to do");
        let Some(active) = &mut self.active else {
            let transaction = cluster.begin(self.node);
            let by_age = pace.by_age > 0
                && *self
                    .waits_by_age
                    .get_or_insert_with(|| random.percent(pace.by_age));
            let declared = pace.declare && !by_age;
            self.active = Some(Active {
                transaction,
                since: turn,
                declared,
                answers: Vec::new(),
            });
            if by_age {
                let began = cluster.now;
                let age = *self.age.get_or_insert(Age { began, transaction });
                cluster.request(transaction, Request::WaitByAge(age));
            }
            let request = match declared {
                true => Request::Declare(procedure.declare()),
                false => procedure.next(&[]),
            };
            return self.ask(cluster, request, turn);
        };
        let reply = cluster
            .take_reply(active.transaction)
            .expect("chosen because it has one");
        match reply {
            Reply::Declared => assert!(
                active.declared,
                "a reply to a declaration that was not sent"
            ),
            Reply::Fetched(rows) => active.answers.push(rows),
            Reply::Aborted(reason) if reason.is_retryable() => {
                self.retry(reason, turn, random);
                return None;
            }
            Reply::Aborted(reason) => {
                return Some(self.end(Outcome::Aborted(reason), turn));
            }
            Reply::Committed {
                timestamp, slots, ..
            } => {
                return Some(self.end(Outcome::Committed(timestamp, slots), turn));
            }
            other => panic!("an unknown reply {other:?}"),
        }
        let request = procedure.next(&active.answers);
        self.ask(cluster, request, turn)
    }

    /// The attempt was aborted: another one begins after a backoff.
    fn retry(&mut self, reason: AbortReason, turn: u64, random: &mut Random) {
        self.retries.push(reason);
        self.active = None;
        self.rest_until = turn + random.below(4 << self.retries.len().min(8));
    }

    fn ask<P: Protocol>(
        &mut self,
        cluster: &mut Cluster<P>,
        request: Request,
        turn: u64,
    ) -> Option<Run<J>> {
        let transaction = self.active.as_ref().expect("set before asking").transaction;
        let gives_up = matches!(request, Request::Abort);
        cluster.request(transaction, request);
        gives_up.then(|| self.end(Outcome::GaveUp, turn))
    }

    fn end(&mut self, outcome: Outcome, turn: u64) -> Run<J> {
        let active = self.active.take().expect("only what is active ends");
        (self.waits_by_age, self.age) = (None, None);
        Run {
            transaction: active.transaction,
            turns: (active.since, turn),
            answers: active.answers,
            retries: std::mem::take(&mut self.retries),
            outcome,
            procedure: self
                .waiting
                .pop_front()
                .expect("what is active is at the front"),
        }
    }
}
