//! The embedded cluster: one thread a node, queues between them, an injected delay if wanted.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anabranch_engine::{DurableError, DurableNode, Node};
use anabranch_protocol::{Durable, Protocol};
use anabranch_types::{ActivityProbe, NodeId, Ticks};

use crate::client::Client;
use crate::files::FileDisk;
use crate::inbox::Inbox;
use crate::profile::Profiler;
use crate::thread::{
    CLIENT_BITS, Clock, Driven, Ended, EndedAttempt, Envelope, NodeThread, Report,
};

/// Settings of an embedded cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterOptions {
    /// How long a message travels from one node to another, beside what the machine takes. Calls
    /// and their outcomes travel without delay: a client stands beside its node.
    pub delay: Duration,
    /// The most calls that one client may have under way.
    pub calls_max: usize,
    /// The most calls that a node begins before it sends what they ask of others and looks for
    /// messages; after messages have come it is one. Few calls a turn keep few open at a time.
    ///
    /// `None` stands for 8 where nodes keep no log. Where they do, it stands for all that have come:
    /// each turn ends with a sync, which costs more than any number of open calls.
    pub calls_a_turn_max: Option<NonZeroUsize>,
    /// For so many outcomes clients are woken while calls wait: each of them may have to wait for a
    /// processor that a node is at. Once no call waits, for any.
    pub outcomes_at_once: usize,
    /// Whether nodes say what they are at, for [`Cluster::profile`].
    pub profiled: bool,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        ClusterOptions {
            delay: Duration::ZERO,
            calls_max: 4_096,
            calls_a_turn_max: None,
            outcomes_at_once: 32,
            profiled: false,
        }
    }
}

/// A running cluster. Dropped without [`Cluster::stop`], its threads end with the process.
pub struct Cluster<P: Protocol> {
    inboxes: Arc<[Inbox<Envelope<P>>]>,
    threads: Vec<JoinHandle<Option<Ended<P>>>>,
    clock: Clock,
    probes: Vec<ActivityProbe>,
    options: ClusterOptions,
    clients: AtomicU32,
    health: Arc<Health>,
}

/// Whether all threads are alive.
#[derive(Debug, Default)]
pub(crate) struct Health {
    failed: AtomicBool,
    reason: OnceLock<String>,
}

impl Health {
    pub(crate) fn failure(&self) -> Option<&str> {
        if self.failed.load(Ordering::Acquire) {
            Some(
                self.reason
                    .get()
                    .map_or("a node's thread has panicked", String::as_str),
            )
        } else {
            None
        }
    }
}

/// Raises the alarm if the thread that holds it panics.
struct Watch {
    health: Arc<Health>,
    id: NodeId,
}

impl Watch {
    /// The node has to stop.
    fn fail(&self, reason: &str) {
        let reason = format!("node {} has stopped: {reason}", self.id);
        let _ = self.health.reason.set(reason);
        self.health.failed.store(true, Ordering::Release);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self
                .health
                .reason
                .set(format!("the thread of node {} has panicked", self.id));
            self.health.failed.store(true, Ordering::Release);
        }
    }
}

/// What is left of a cluster that was stopped.
pub struct Stopped<P> {
    /// The nodes' protocols, with their stores, in order.
    pub protocols: Vec<P>,
    /// What each node has told of its attempts, if it was made to record them
    /// ([`anabranch_engine::NodeOptions::records`]).
    /// None is open, since a cluster stops when no call is under way.
    pub attempts: Vec<Vec<EndedAttempt>>,
}

/// Why a cluster did not start, or did not stop cleanly.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClusterError {
    /// The operating system gave no thread.
    Thread(std::io::Error),
    /// A node's thread panicked; its message stands on standard error.
    Failed(String),
    /// A node cannot be made durable, or cannot come back.
    Durable {
        /// Which.
        node: NodeId,
        /// Why.
        error: DurableError,
    },
}

impl std::fmt::Display for ClusterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClusterError::Thread(error) => write!(f, "cannot start a node's thread: {error}"),
            ClusterError::Failed(reason) => f.write_str(reason),
            ClusterError::Durable { node, error } => write!(f, "node {node}: {error}"),
        }
    }
}

impl std::error::Error for ClusterError {}

impl<P: Protocol + Send + 'static> Cluster<P> {
    /// Starts one thread for each of `makers`, which make the nodes inside their threads (a node
    /// cannot move between threads once it runs procedures).
    ///
    /// # Errors
    /// When the operating system gives no thread; those already started are ended.
    pub fn start<F>(makers: Vec<F>, options: ClusterOptions) -> Result<Cluster<P>, ClusterError>
    where
        F: FnOnce() -> Node<P> + Send + 'static,
        P::Message: 'static,
    {
        Cluster::start_driven(makers, options)
    }

    /// The same for nodes with logs, which may be given the time; returns when each has come
    /// back, or is there for the first time. An error of a log stops its node and the cluster with
    /// it ([`SubmitError::ClusterFailed`](crate::SubmitError)).
    ///
    /// # Errors
    /// When a node cannot be made durable or cannot come back, or the operating system gives no
    /// thread.
    pub fn start_durable<F>(
        makers: Vec<F>,
        options: ClusterOptions,
    ) -> Result<Cluster<P>, ClusterError>
    where
        P: Durable,
        F: FnOnce(Ticks) -> Result<DurableNode<P, FileDisk>, DurableError> + Send + 'static,
        P::Message: 'static,
    {
        let (results, opened) = std::sync::mpsc::channel();
        let count = makers.len();
        let makers = (0u16..).map(NodeId).zip(makers).map(|(id, make)| {
            let results = results.clone();
            move || {
                let made = make(Ticks(0));
                // Whoever started it waits for this.
                let _ = results.send((id, made.as_ref().err().cloned()));
                made.ok()
            }
        });
        let cluster = Cluster::start_optional(makers.collect(), options)?;
        drop(results);
        for _ in 0..count {
            match opened.recv() {
                Ok((_, None)) => {}
                Ok((node, Some(error))) => return Err(ClusterError::Durable { node, error }),
                Err(_) => {
                    let reason = cluster
                        .health
                        .failure()
                        .unwrap_or("a node's thread has ended");
                    return Err(ClusterError::Failed(reason.to_owned()));
                }
            }
        }
        Ok(cluster)
    }

    fn start_driven<N, F>(
        makers: Vec<F>,
        options: ClusterOptions,
    ) -> Result<Cluster<P>, ClusterError>
    where
        N: Driven<P>,
        F: FnOnce() -> N + Send + 'static,
        P::Message: 'static,
    {
        let makers = makers.into_iter().map(|make| move || Some(make()));
        Cluster::start_optional(makers.collect(), options)
    }

    fn start_optional<N, F>(
        makers: Vec<F>,
        options: ClusterOptions,
    ) -> Result<Cluster<P>, ClusterError>
    where
        N: Driven<P>,
        F: FnOnce() -> Option<N> + Send + 'static,
        P::Message: 'static,
    {
        let inboxes: Arc<[Inbox<Envelope<P>>]> = makers.iter().map(|_| Inbox::default()).collect();
        let clock = Clock {
            start: Instant::now(),
        };
        let health = Arc::new(Health::default());
        let mut threads = Vec::with_capacity(makers.len());
        let probe = |profiled: bool| match profiled {
            true => ActivityProbe::enabled(),
            false => ActivityProbe::default(),
        };
        let probes: Vec<ActivityProbe> = makers.iter().map(|_| probe(options.profiled)).collect();
        for (number, make) in makers.into_iter().enumerate() {
            let id = NodeId(number as u16);
            let shared = Arc::clone(&inboxes);
            let probe = probes[number].clone();
            let watch = Watch {
                health: Arc::clone(&health),
                id,
            };
            let spawned = std::thread::Builder::new()
                .name(format!("node {id}"))
                .spawn(move || {
                    let watch = watch;
                    let ended = NodeThread::new(id, make()?, shared, clock, &options, probe).run();
                    ended.map_err(|error| watch.fail(&error.to_string())).ok()
                });
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    for inbox in inboxes.iter() {
                        inbox.put(Envelope::Halt);
                    }
                    return Err(ClusterError::Thread(error));
                }
            }
        }
        Ok(Cluster {
            inboxes,
            threads,
            clock,
            probes,
            options,
            clients: AtomicU32::new(0),
            health,
        })
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u16 {
        self.inboxes.len() as u16
    }

    /// The clock by which nodes, and records of attempts, tell the time.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// A new client. Give each thread that makes calls its own.
    ///
    /// # Panics
    /// After a million clients.
    pub fn client(&self) -> Client<P> {
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        assert!(
            number < 1 << CLIENT_BITS,
            "a cluster has at most {} clients",
            1 << CLIENT_BITS
        );
        let outcomes = Arc::new(Inbox::default());
        for inbox in self.inboxes.iter() {
            inbox.put(Envelope::Client {
                client: number,
                outcomes: Arc::clone(&outcomes),
            });
        }
        Client::new(
            number,
            Arc::clone(&self.inboxes),
            outcomes,
            Arc::clone(&self.health),
            self.options.calls_max,
        )
    }

    /// Has each node look at itself between two steps, and gathers what it says.
    ///
    /// # Errors
    /// When a node's thread has panicked.
    pub fn inspect<T, F>(&self, look: F) -> Result<Vec<T>, ClusterError>
    where
        T: Send + 'static,
        F: Fn(&Node<P>) -> T + Clone + Send + 'static,
    {
        self.ask(|answer| {
            let look = look.clone();
            Envelope::Inspect(Box::new(move |node: &mut Node<P>| {
                // Whoever asked may have gone.
                let _ = answer.send(look(node));
            }))
        })
    }

    /// Takes a sample of what each node is at every so often, until the profiler is stopped. All
    /// samples are of an idle node unless the cluster was started as
    /// [`profiled`](ClusterOptions::profiled).
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn profile(&self, every: Duration) -> Result<Profiler, ClusterError> {
        Profiler::start(self.probes.clone(), every).map_err(ClusterError::Thread)
    }

    fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(std::sync::mpsc::SyncSender<T>) -> Envelope<P>,
    ) -> Result<Vec<T>, ClusterError> {
        self.inboxes
            .iter()
            .map(|inbox| {
                let (answer, answers) = sync_channel(1);
                inbox.put(question(answer));
                loop {
                    if let Ok(answer) = answers.recv_timeout(Duration::from_millis(100)) {
                        return Ok(answer);
                    }
                    if let Some(reason) = self.health.failure() {
                        return Err(ClusterError::Failed(reason.to_owned()));
                    }
                }
            })
            .collect()
    }

    /// Waits until no call is under way and no message travels, then ends the threads. Clients that
    /// go on submitting keep it waiting.
    ///
    /// # Errors
    /// When a node's thread has panicked.
    pub fn stop(self) -> Result<Stopped<P>, ClusterError> {
        let mut before = None;
        loop {
            let reports: Vec<Report> = self.ask(Envelope::Report)?;
            let sum = reports.iter().fold(Report::default(), |sum, one| Report {
                calls: sum.calls + one.calls,
                sent: sum.sent + one.sent,
                received: sum.received + one.received,
            });
            // Twice the same, so that nothing was sent while the nodes were asked one by one.
            if sum.calls == 0 && sum.sent == sum.received && before == Some(sum) {
                break;
            }
            before = Some(sum);
            std::thread::sleep(Duration::from_millis(1));
        }
        for inbox in self.inboxes.iter() {
            inbox.put(Envelope::Halt);
        }
        let mut left = Stopped {
            protocols: Vec::with_capacity(self.threads.len()),
            attempts: Vec::with_capacity(self.threads.len()),
        };
        for thread in self.threads {
            let ended = thread
                .join()
                .map_err(|_| ClusterError::Failed("a node's thread has panicked".to_owned()))?;
            let stopped = "a node has stopped".to_owned();
            let ended = ended.ok_or(ClusterError::Failed(stopped))?;
            left.protocols.push(ended.protocol);
            left.attempts.push(ended.attempts);
        }
        Ok(left)
    }
}
