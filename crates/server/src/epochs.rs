//! The epochs of a cluster in one process: one number that all nodes read.
//!
//! Where output does not wait for logs, a node's log is divided into epochs. A node reads the number after it has taken
//! the inputs of a turn and before it sends the turn's output. So what depends on output of an epoch is in that epoch or
//! a later one, whether it came as a message, as an outcome or by a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anabranch_types::NodeId;

/// The open epoch, and what of the logs is durable.
#[derive(Debug)]
pub(crate) struct Epochs {
    current: AtomicU64,
    /// Whether the open epoch should end.
    is_used: AtomicBool,
    /// The epoch up to whose end each node's log is durable.
    durable: Box<[AtomicU64]>,
}

impl Epochs {
    pub(crate) fn new(nodes: usize) -> Epochs {
        Epochs {
            current: AtomicU64::new(0),
            is_used: AtomicBool::new(false),
            durable: (0..nodes).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The open epoch. 0 before the first.
    pub(crate) fn current(&self) -> u64 {
        self.current.load(Ordering::SeqCst)
    }

    /// Opens this epoch, unless a later one is open.
    pub(crate) fn raise(&self, epoch: u64) {
        self.current.fetch_max(epoch, Ordering::SeqCst);
    }

    /// Opens the next epoch and returns it.
    pub(crate) fn advance(&self) -> u64 {
        self.current.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// A node has records in the open epoch.
    pub(crate) fn note_used(&self) {
        self.is_used.store(true, Ordering::SeqCst);
    }

    /// A node's log is durable up to the end of this epoch.
    pub(crate) fn set_durable(&self, node: NodeId, epoch: u64) {
        self.durable[node.index()].store(epoch, Ordering::SeqCst);
    }

    /// The epoch up to whose end all logs are durable.
    pub(crate) fn durable_everywhere(&self) -> u64 {
        let all = self.durable.iter();
        let all = all.map(|epoch| epoch.load(Ordering::SeqCst));
        all.min().unwrap_or(0)
    }
}

/// A thread that opens an epoch whenever a time has passed and the open one is used; it ends with this.
#[derive(Debug)]
pub(crate) struct EpochTicker {
    _running: Sender<()>,
}

impl EpochTicker {
    /// Starts the thread. `wake` wakes all nodes, so that idle ones end the epoch as well.
    pub(crate) fn start(
        epochs: Arc<Epochs>,
        every: Duration,
        wake: impl Fn() + Send + 'static,
    ) -> std::io::Result<EpochTicker> {
        let (running, ended) = channel();
        std::thread::Builder::new()
            .name("epochs".to_owned())
            .spawn(move || {
                while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                    if epochs.is_used.swap(false, Ordering::SeqCst) {
                        epochs.advance();
                        wake();
                    }
                }
            })?;
        Ok(EpochTicker { _running: running })
    }
}
