//! A client of the embedded cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_engine::{Call, CallId, ExecutionPlan, Outcome, Work};
use anabranch_protocol::{Protocol, Session};
use anabranch_types::{NodeId, Value};

use crate::health::Health;
use crate::inbox::Inbox;
use crate::thread::{CLIENT_BITS, Envelope};

/// Submits calls and takes their outcomes, many at a time. Used by one thread.
pub struct Client<P: Protocol> {
    number: u32,
    inboxes: Arc<[Inbox<Envelope<P>>]>,
    outcomes: Arc<Inbox<Outcome>>,
    health: Arc<Health>,
    calls_max: usize,
    in_flight: usize,
    next: u64,
    outgoing: Vec<Vec<Call>>,
}

/// Why a call was not submitted, or its outcome cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubmitError {
    /// The client has the most calls in flight that it may have: take outcomes first.
    TooManyCalls {
        /// The limit.
        calls_max: usize,
    },
    /// A node's thread has stopped or panicked; the cluster serves no more calls.
    ClusterFailed(String),
}

impl std::fmt::Display for SubmitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SubmitError::TooManyCalls { calls_max } => write!(
                f,
                "this client has {calls_max} calls in flight, the most it may have: take outcomes \
                 before submitting more"
            ),
            SubmitError::ClusterFailed(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for SubmitError {}

impl<P: Protocol> Client<P> {
    pub(crate) fn new(
        number: u32,
        inboxes: Arc<[Inbox<Envelope<P>>]>,
        outcomes: Arc<Inbox<Outcome>>,
        health: Arc<Health>,
        calls_max: usize,
    ) -> Client<P> {
        let outgoing = inboxes.iter().map(|_| Vec::new()).collect();
        Client {
            number,
            inboxes,
            outcomes,
            health,
            calls_max,
            in_flight: 0,
            next: 0,
            outgoing,
        }
    }

    /// The number of submitted calls whose outcome has not been taken.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Queues a call for `node`; [`Client::flush`] sends it.
    ///
    /// # Errors
    /// When the client has too many calls in flight.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn submit(
        &mut self,
        node: NodeId,
        procedure: usize,
        arguments: Arc<[Value]>,
    ) -> Result<CallId, SubmitError> {
        self.submit_after(node, procedure, arguments, Session::default())
    }

    /// Queues a call that reads at least what `session`, that of an earlier [`Outcome`], has seen.
    ///
    /// # Errors
    /// When the client has too many calls in flight.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn submit_after(
        &mut self,
        node: NodeId,
        procedure: usize,
        arguments: Arc<[Value]>,
        session: Session,
    ) -> Result<CallId, SubmitError> {
        if self.in_flight >= self.calls_max {
            return Err(SubmitError::TooManyCalls {
                calls_max: self.calls_max,
            });
        }
        Ok(self.begin(node, |id| {
            Call::new(id, Work::Procedure(procedure), arguments).with_session(session)
        }))
    }

    /// Queues a call of any work.
    pub(crate) fn begin(&mut self, node: NodeId, make: impl FnOnce(CallId) -> Call) -> CallId {
        self.in_flight += 1;
        self.next += 1;
        let id = CallId(u64::from(self.number) << (64 - CLIENT_BITS) | self.next);
        self.outgoing[node.index()].push(make(id));
        id
    }

    /// Queues a call for the node to which its plan entry's routing parameter or array leads. Calls that
    /// any node may run, and calls of which several nodes own as much, go to these nodes in turn.
    ///
    /// `plan` has to be the one that the cluster's nodes consult, and node `n` has to own partition
    /// `n`.
    ///
    /// # Errors
    /// When the client has too many calls in flight.
    pub fn submit_home(
        &mut self,
        plan: &ExecutionPlan,
        procedure: usize,
        arguments: Arc<[Value]>,
    ) -> Result<CallId, SubmitError> {
        self.submit_home_after(plan, procedure, arguments, Session::default())
    }

    /// Like [`Client::submit_home`], for a call that reads at least what `session` has seen.
    ///
    /// # Errors
    /// When the client has too many calls in flight.
    pub fn submit_home_after(
        &mut self,
        plan: &ExecutionPlan,
        procedure: usize,
        arguments: Arc<[Value]>,
        session: Session,
    ) -> Result<CallId, SubmitError> {
        let node = match plan.home(procedure, &arguments, self.next) {
            Some(partition) => NodeId(partition.0),
            None => NodeId((self.next % self.inboxes.len() as u64) as u16),
        };
        self.submit_after(node, procedure, arguments, session)
    }

    /// Sends all queued calls.
    pub fn flush(&mut self) {
        for (node, calls) in self.outgoing.iter_mut().enumerate() {
            if !calls.is_empty() {
                let calls = std::mem::take(calls);
                self.inboxes[node].put(Envelope::Calls {
                    client: self.number,
                    calls,
                });
            }
        }
    }

    /// Moves all outcomes that have arrived into `taken`, which has to be empty. Waits for the first of
    /// them, at most until `until`.
    ///
    /// # Errors
    /// When a node's thread has panicked.
    pub fn take(&mut self, until: Instant, taken: &mut Vec<Outcome>) -> Result<(), SubmitError> {
        self.flush();
        loop {
            // Short waits, so that the failure of the cluster is noticed.
            let next = (Instant::now() + Duration::from_millis(100)).min(until);
            self.outcomes.wait(Some(next), taken);
            self.in_flight -= taken.len();
            if !taken.is_empty() {
                return Ok(());
            }
            if let Some(reason) = self.health.failure() {
                return Err(SubmitError::ClusterFailed(reason.to_owned()));
            }
            if Instant::now() >= until {
                return Ok(());
            }
        }
    }

    /// Makes one call and waits for its outcome. Not to be mixed with calls in flight.
    ///
    /// # Errors
    /// When a node's thread has panicked.
    ///
    /// # Panics
    /// When calls are in flight, or there is no such node.
    pub fn call(
        &mut self,
        node: NodeId,
        procedure: usize,
        arguments: Arc<[Value]>,
    ) -> Result<Outcome, SubmitError> {
        assert_eq!(
            self.in_flight, 0,
            "one call at a time, or many with submit and take"
        );
        self.submit(node, procedure, arguments)?;
        let mut taken = Vec::with_capacity(1);
        while taken.is_empty() {
            self.take(Instant::now() + Duration::from_secs(3600), &mut taken)?;
        }
        Ok(taken.remove(0))
    }
}
