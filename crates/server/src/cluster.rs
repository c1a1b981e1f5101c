//! The embedded cluster: one thread for each node, queues between them, and an injected delay if set.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anabranch_engine::{BlockId, DetachedBlock, DurableError, DurableNode, HandedOver, Node};
use anabranch_protocol::{Durable, Protocol};
use anabranch_types::{ActivityProbe, NodeId, Ticks};

use crate::backup::{Backups, ClusterBackups};
use crate::client::Client;
use crate::epochs::{EpochTicker, Epochs};
use crate::files::FileDisk;
use crate::frontend::{Frontend, Note, Post};
use crate::health::{Health, Watch};
use crate::inbox::Inbox;
use crate::on_disk::OnDisk;
use crate::open_transactions::{Look, LookAtNodes};
use crate::options::ClusterOptions;
use crate::profile::Profiler;
use crate::room::RoomGauge;
use crate::thread::{
    CLIENT_BITS, Clock, Driven, Ended, EndedAttempt, Envelope, NodeThread, Report, Shared,
};

/// The stack of threads that parse, analyse and run statements, which walk expressions as deep as the parser lets them
/// be. The memory is taken when it is used.
pub(crate) const STACK_BYTES: usize = 64 << 20;

/// The inboxes of all nodes.
type Inboxes<P> = Arc<[Inbox<Envelope<P>>]>;

/// A running cluster. If it is dropped without [`Cluster::stop`], its threads end with the process.
pub struct Cluster<P: Protocol> {
    inboxes: Arc<[Inbox<Envelope<P>>]>,
    threads: Vec<JoinHandle<Option<Ended<P>>>>,
    clock: Clock,
    probes: Vec<ActivityProbe>,
    options: ClusterOptions,
    clients: AtomicU32,
    health: Arc<Health>,
    room: Arc<RoomGauge>,
    epochs: Arc<Epochs>,
    /// What wakes the polls of the threads' connections.
    wakers: Vec<Arc<mio::Waker>>,
    _ticker: Option<EpochTicker>,
}

/// What [`Cluster::stop`] returns.
pub struct Stopped<P> {
    /// The nodes' protocols, with their stores, in order.
    pub protocols: Vec<P>,
    /// The attempts of each node, if it records them ([`anabranch_engine::NodeOptions::records`]).
    /// None is open: a cluster stops when no call is in flight.
    pub attempts: Vec<Vec<EndedAttempt>>,
}

/// Why a cluster did not start, or did not stop cleanly.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClusterError {
    /// The operating system gave no thread.
    Thread(std::io::Error),
    /// A node's thread panicked; its message is on standard error.
    Failed(String),
    /// A node cannot be made durable, or cannot recover.
    Durable {
        /// The node.
        node: NodeId,
        /// The error of its log.
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
    /// Starts one thread for each of `factories`. Each builds its node inside its thread: a node that
    /// runs procedures cannot move between threads.
    ///
    /// # Errors
    /// When the operating system gives no thread; those already started are ended.
    pub fn start<F>(factories: Vec<F>, options: ClusterOptions) -> Result<Cluster<P>, ClusterError>
    where
        F: FnOnce() -> Node<P> + Send + 'static,
        P::Message: 'static,
    {
        Cluster::start_driven(factories, options)
    }

    /// Starts a cluster of nodes with logs; each factory is given the current time. Returns when every
    /// node has recovered, or is ready for the first time. An error of a log stops its node, and the
    /// cluster with it ([`SubmitError::ClusterFailed`](crate::SubmitError)).
    ///
    /// # Errors
    /// When a node cannot be made durable or cannot recover, or the operating system gives no thread.
    pub fn start_durable<F>(
        factories: Vec<F>,
        options: ClusterOptions,
    ) -> Result<Cluster<P>, ClusterError>
    where
        P: Durable,
        F: FnOnce(Ticks) -> Result<DurableNode<P, FileDisk>, DurableError> + Send + 'static,
        P::Message: 'static,
    {
        let (results, opened) = std::sync::mpsc::channel();
        let count = factories.len();
        let factories = (0u16..).map(NodeId).zip(factories).map(|(id, factory)| {
            let results = results.clone();
            move |_: NodeId, inboxes: &Inboxes<P>, epochs: &Arc<Epochs>| {
                let made = factory(Ticks(0));
                // The receiver is gone if another node has failed before.
                let _ = results.send((id, made.as_ref().err().cloned()));
                let made = made
                    .ok()
                    .map(|node| OnDisk::new(id, node, inboxes, epochs, options.durability));
                made.transpose().map_err(|error| error.to_string())
            }
        });
        let cluster = Cluster::start_optional(factories.collect(), options)?;
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
        factories: Vec<F>,
        options: ClusterOptions,
    ) -> Result<Cluster<P>, ClusterError>
    where
        N: Driven<P>,
        F: FnOnce() -> N + Send + 'static,
        P::Message: 'static,
    {
        let factories = factories
            .into_iter()
            .map(|factory| move |_: NodeId, _: &Inboxes<P>, _: &Arc<Epochs>| Ok(Some(factory())));
        Cluster::start_optional(factories.collect(), options)
    }

    fn start_optional<N, F>(
        factories: Vec<F>,
        options: ClusterOptions,
    ) -> Result<Cluster<P>, ClusterError>
    where
        N: Driven<P>,
        F: FnOnce(NodeId, &Inboxes<P>, &Arc<Epochs>) -> Result<Option<N>, String> + Send + 'static,
        P::Message: 'static,
    {
        let inboxes: Inboxes<P> = factories.iter().map(|_| Inbox::default()).collect();
        let clock = Clock {
            start: Instant::now(),
        };
        let health = Arc::new(Health::default());
        let room = Arc::new(RoomGauge::new(factories.len()));
        let epochs = Arc::new(Epochs::new(factories.len()));
        let mut threads = Vec::with_capacity(factories.len());
        let probe = |profiled: bool| match profiled {
            true => ActivityProbe::enabled(),
            false => ActivityProbe::default(),
        };
        let probes: Vec<ActivityProbe> =
            factories.iter().map(|_| probe(options.profiled)).collect();
        // The connections of each node's thread are a client of every node.
        let clients = AtomicU32::new(factories.len() as u32);
        let ticker = options.durability.epoch().map(|every| {
            let inboxes = Arc::clone(&inboxes);
            EpochTicker::start(Arc::clone(&epochs), every, move || {
                inboxes.iter().for_each(|inbox| inbox.put(Envelope::Wake));
            })
        });
        let ticker = ticker.transpose().map_err(ClusterError::Thread)?;
        for (number, factory) in factories.into_iter().enumerate() {
            let id = NodeId(number as u16);
            let shared = Shared {
                inboxes: Arc::clone(&inboxes),
                clock,
                room: Arc::clone(&room),
            };
            let probe = probes[number].clone();
            let epochs = Arc::clone(&epochs);
            let watch = Watch {
                health: Arc::clone(&health),
                id,
            };
            let spawned = std::thread::Builder::new()
                .name(format!("node {id}"))
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    let watch = watch;
                    let made = factory(id, &shared.inboxes, &epochs);
                    let node = made.map_err(|reason| watch.fail(&reason)).ok()??;
                    let thread = NodeThread::new(id, node, shared, &options, probe);
                    let ended = thread.run();
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
            clients,
            health,
            room,
            epochs,
            wakers: Vec::new(),
            _ticker: ticker,
        })
    }

    /// Gives connections to the nodes' threads, one set each. Once.
    pub(crate) fn own(&mut self, frontends: Frontends) {
        for (inbox, owned) in self.inboxes.iter().zip(frontends) {
            let FrontendOfNode {
                mut frontend,
                waker,
            } = owned;
            frontend.begin();
            self.wakers.push(Arc::clone(&waker));
            inbox.put(Envelope::Own(frontend));
            let wake = Arc::clone(&waker);
            inbox.wake_by(move || {
                // A poll that cannot be woken has been closed.
                let _ = wake.wake();
            });
            // The thread may sleep in the poll already, and what has come in between could not wake it there. A poll that
            // cannot be woken has been closed.
            let _ = waker.wake();
        }
    }

    /// The way to send notes to the connections of the nodes' threads.
    pub(crate) fn post(&self) -> Arc<dyn Post>
    where
        P::Message: 'static,
    {
        Arc::new(Mailboxes(Arc::clone(&self.inboxes)))
    }

    /// Makes backups of it, of nodes with logs in this folder.
    pub(crate) fn backups(&self, data: &Path) -> Arc<dyn Backups>
    where
        P::Message: 'static,
    {
        let (inboxes, epochs) = (Arc::clone(&self.inboxes), Arc::clone(&self.epochs));
        Arc::new(ClusterBackups::new(inboxes, epochs, data.to_owned()))
    }

    /// What its nodes have room for.
    pub(crate) fn room(&self) -> Arc<RoomGauge> {
        Arc::clone(&self.room)
    }

    /// Why the cluster has failed, if it has.
    pub fn failure(&self) -> Option<&str> {
        self.health.failure()
    }

    /// The number of nodes.
    pub fn nodes(&self) -> u16 {
        self.inboxes.len() as u16
    }

    /// The clock of the nodes and of the records of attempts.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Makes a new client. Each thread that makes calls needs its own.
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

    /// Runs `look` at each node between two steps, and collects the results in the nodes' order.
    ///
    /// # Errors
    /// When a node's thread has panicked.
    pub fn inspect<T, F>(&self, look: F) -> Result<Vec<T>, ClusterError>
    where
        T: Send + 'static,
        F: Fn(&Node<P>) -> T + Clone + Send + 'static,
    {
        self.request(|reply| {
            let look = look.clone();
            Envelope::Inspect(Box::new(move |node: &mut Node<P>| {
                // The receiver is gone if another node has failed.
                let _ = reply.send(look(node));
            }))
        })
    }

    /// Samples the activity of each node at this interval, until the profiler is stopped. Every sample
    /// is [`Idle`](anabranch_types::Activity::Idle) unless the cluster was started as
    /// [`profiled`](ClusterOptions::profiled).
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn profile(&self, every: Duration) -> Result<Profiler, ClusterError> {
        Profiler::start(self.probes.clone(), every).map_err(ClusterError::Thread)
    }

    /// Sends a request to each node and waits for all replies.
    fn request<T: Send + 'static>(
        &self,
        request: impl Fn(std::sync::mpsc::SyncSender<T>) -> Envelope<P>,
    ) -> Result<Vec<T>, ClusterError> {
        let nodes = (0..self.inboxes.len() as u16).map(NodeId);
        nodes.map(|node| self.ask(node, &request)).collect()
    }

    /// Sends a request to a node and waits for the reply.
    fn ask<T: Send + 'static>(
        &self,
        node: NodeId,
        request: impl FnOnce(std::sync::mpsc::SyncSender<T>) -> Envelope<P>,
    ) -> Result<T, ClusterError> {
        let (sender, receiver) = sync_channel(1);
        self.inboxes[node.index()].put(request(sender));
        loop {
            if let Ok(reply) = receiver.recv_timeout(Duration::from_millis(100)) {
                return Ok(reply);
            }
            if let Some(reason) = self.health.failure() {
                return Err(ClusterError::Failed(reason.to_owned()));
            }
        }
    }

    /// Asks the nodes what has not ended there, as long as they run.
    pub(crate) fn look(&self) -> Arc<dyn LookAtNodes>
    where
        P::Message: 'static,
    {
        Arc::new(ClusterLook {
            inboxes: Arc::downgrade(&self.inboxes),
        })
    }

    /// Takes a block out of its node, if no step of it is under way.
    pub(crate) fn take_block(
        &self,
        node: NodeId,
        block: BlockId,
    ) -> Result<Option<DetachedBlock>, ClusterError> {
        self.ask(node, |taken| Envelope::TakeBlock { block, taken })
    }

    /// Puts a block into a node.
    pub(crate) fn put_block(&self, node: NodeId, block: DetachedBlock) -> Result<(), ClusterError> {
        self.ask(node, |reply| {
            Envelope::Inspect(Box::new(move |node: &mut Node<P>| {
                node.put_block(block);
                // The receiver is gone if another node has failed.
                let _ = reply.send(());
            }))
        })
    }

    /// Waits until no call and no message is in flight, then ends the threads. A client that goes on
    /// submitting keeps it waiting.
    ///
    /// # Errors
    /// When a node's thread has panicked.
    pub fn stop(self) -> Result<Stopped<P>, ClusterError> {
        let (nodes, _) = self.hand_over()?;
        let mut stopped = Stopped {
            protocols: Vec::with_capacity(nodes.len()),
            attempts: Vec::with_capacity(nodes.len()),
        };
        for (node, attempts) in nodes {
            stopped.protocols.push(node.protocol);
            stopped.attempts.push(attempts);
        }
        Ok(stopped)
    }

    /// As [`Cluster::stop`]: what the nodes leave, and the connections of their threads.
    pub(crate) fn hand_over(self) -> Result<(Vec<LeftNode<P>>, Frontends), ClusterError> {
        let mut before = None;
        loop {
            let reports: Vec<Report> = self.request(Envelope::Report)?;
            let sum = reports.iter().fold(Report::default(), |sum, one| Report {
                calls: sum.calls + one.calls,
                sent: sum.sent + one.sent,
                received: sum.received + one.received,
            });
            // Two equal sums: nothing was sent while the nodes reported one by one.
            if sum.calls == 0 && sum.sent == sum.received && before == Some(sum) {
                break;
            }
            before = Some(sum);
            std::thread::sleep(Duration::from_millis(1));
        }
        for inbox in self.inboxes.iter() {
            inbox.put(Envelope::Halt);
        }
        let mut nodes = Vec::with_capacity(self.threads.len());
        let mut frontends = Vec::with_capacity(self.wakers.len());
        let mut wakers = self.wakers.into_iter();
        for thread in self.threads {
            let ended = thread
                .join()
                .map_err(|_| ClusterError::Failed("a node's thread has panicked".to_owned()))?;
            let stopped = "a node has stopped".to_owned();
            let ended = ended.ok_or(ClusterError::Failed(stopped))?;
            nodes.push((ended.node, ended.attempts));
            if let (Some(frontend), Some(waker)) = (ended.frontend, wakers.next()) {
                frontends.push(FrontendOfNode { frontend, waker });
            }
        }
        Ok((nodes, frontends))
    }
}

/// What a node leaves, and the attempts that it has recorded.
type LeftNode<P> = (HandedOver<P>, Vec<EndedAttempt>);

/// Connections of clients for each node's thread, with what wakes their poll.
pub(crate) type Frontends = Vec<FrontendOfNode>;

/// See [`Frontends`].
pub(crate) struct FrontendOfNode {
    pub(crate) frontend: Box<dyn Frontend>,
    pub(crate) waker: Arc<mio::Waker>,
}

/// The nodes' inboxes, for notes.
struct Mailboxes<P: Protocol>(Arc<[Inbox<Envelope<P>>]>);

impl<P> Post for Mailboxes<P>
where
    P: Protocol + Send,
{
    fn post(&self, node: NodeId, note: Note) {
        self.0[node.index()].put(Envelope::Note(note));
    }
}

/// The nodes' inboxes, for looks at them. It keeps none: what is asked of nodes that have ended is dropped, which ends the
/// wait for the answer.
struct ClusterLook<P: Protocol> {
    inboxes: Weak<[Inbox<Envelope<P>>]>,
}

impl<P> LookAtNodes for ClusterLook<P>
where
    P: Protocol + Send + 'static,
    P::Message: 'static,
{
    fn begin(&self) -> Look {
        let Some(inboxes) = self.inboxes.upgrade() else {
            return Look::at_none();
        };
        let (sender, look) = Look::new(inboxes.len());
        for (id, inbox) in (0..).map(NodeId).zip(inboxes.iter()) {
            let sender = sender.clone();
            inbox.put(Envelope::Inspect(Box::new(move |node: &mut Node<P>| {
                // The receiver is gone if it has waited for too long.
                let _ = sender.send((id, node.open_transactions()));
            })));
        }
        look
    }
}
