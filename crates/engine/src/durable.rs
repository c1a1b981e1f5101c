//! A node with its log: output commit, group commit, checkpoints, recovery.
//!
//! A [`DurableNode`] drives a [`Node`] whose protocol keeps records. The output of a batch of steps is
//! held until the batch's forced records are durable (`docs/protocols/durability.md`). The node goes
//! on meanwhile, so one sync makes many batches durable. The simulator and the embedded cluster drive
//! it alike:
//!
//! 1. [`DurableNode::open`] makes a new node, or recovers one from its log;
//! 2. any number of [`DurableNode::step`]s, then [`DurableNode::flush`];
//! 3. when [`DurableNode::begin_sync`] returns a position: sync, then [`DurableNode::end_sync`], which
//!    releases the output that waited for it;
//! 4. between batches, [`DurableNode::checkpoint_if_due`].
//!
//! A disk error is final: drop the node, as if it had crashed.

use std::fmt;

use anabranch_protocol::link::Incarnation;
use anabranch_protocol::{Durable, NoRecords};
use anabranch_storage::log::Sink;
use anabranch_storage::{Log, LogError, LogOptions, LogPosition, Media, Opened};
use anabranch_types::Ticks;

use crate::log_record::NodeRecord;
use crate::node::{Node, NodeInput, NodeOutbox};
use crate::output_commit::HeldOutput;
use crate::sequence::SequenceStarts;
use crate::state::{self, NodeState};

/// Options of a durable node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableOptions {
    /// Options of its log.
    pub log: LogOptions,
    /// A checkpoint is due after this many bytes of log.
    pub checkpoint_bytes: u64,
}

impl Default for DurableOptions {
    /// A checkpoint after 256 MiB of log.
    fn default() -> Self {
        DurableOptions {
            log: LogOptions::default(),
            checkpoint_bytes: 256 << 20,
        }
    }
}

/// Why a node cannot be made durable or recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurableError {
    /// Its protocol keeps no records.
    NoRecords(NoRecords),
    /// Its log or disk failed.
    Log(LogError),
}

impl fmt::Display for DurableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DurableError::NoRecords(error) => error.fmt(f),
            DurableError::Log(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DurableError {}

impl From<LogError> for DurableError {
    fn from(error: LogError) -> Self {
        DurableError::Log(error)
    }
}

/// Whether a node starts with loaded rows or recovers from its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStart {
    /// A first start: the store has to hold the loaded rows.
    New,
    /// A recovery: the store has to be empty, and is filled from the log.
    Recovered,
}

/// Counters of a durable node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurableCounters {
    /// Records logged, without those of checkpoints.
    pub records: u64,
    /// Syncs completed.
    pub syncs: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
}

/// A node with its log. See the module.
pub struct DurableNode<P: Durable, D> {
    node: Node<P>,
    log: Log<D>,
    options: DurableOptions,
    incarnation: Incarnation,
    /// The logged bounds of identity columns.
    numbers: SequenceStarts,
    opened: Opened,
    /// The output of the current batch.
    out: NodeOutbox<P::Message>,
    /// Output that waits for the log to be durable up to a position.
    held: HeldOutput<LogPosition, P::Message>,
    /// The end of the last frame with a forced record.
    forced: LogPosition,
    syncing: bool,
    counters: DurableCounters,
}

impl<P: Durable, D: Media> DurableNode<P, D> {
    /// Opens the log on a disk. `protocol` makes the node's protocol, `node` the node over it in this
    /// incarnation. Call [`DurableNode::flush`] next: a recovered protocol may have output already.
    ///
    /// # Errors
    /// When the protocol keeps no records, the disk fails, or its files are damaged.
    pub fn open(
        media: D,
        options: DurableOptions,
        now: Ticks,
        mut protocol: impl FnMut(NodeStart) -> P,
        node: impl FnOnce(P, Incarnation) -> Node<P>,
    ) -> Result<DurableNode<P, D>, DurableError> {
        let mut recovered: Option<NodeState<P>> = None;
        let mut refused = None;
        let (mut log, opened) = Log::open(media, options.log, &mut |record| {
            let state = match &mut recovered {
                Some(state) => state,
                none => match NodeState::new(protocol(NodeStart::Recovered)) {
                    Ok(state) => none.insert(state),
                    Err(error) => {
                        refused = Some(error);
                        return Err(error.to_string());
                    }
                },
            };
            state.replay(record)
        })
        .map_err(|error| refused.map_or(DurableError::Log(error), DurableError::NoRecords))?;
        let recovered = match recovered {
            Some(recovered) => recovered,
            None => NodeState::new(protocol(NodeStart::New)).map_err(DurableError::NoRecords)?,
        };
        let NodeState {
            protocol: made,
            mut numbers,
            incarnation,
        } = recovered;
        let incarnation = Incarnation(incarnation).next();
        let node = node(made, incarnation).with_sequence_starts(&numbers);
        if opened.is_new {
            for (table, column, bound) in node.passed_bounds() {
                numbers.include(table, column, bound);
            }
            write_checkpoint(&mut log, incarnation, &numbers, node.protocol())?;
        } else {
            log.append(&[NodeRecord::Incarnation(incarnation.0)])?;
            let until = log.begin_sync();
            log.end_sync(until)?;
        }
        let mut opened_node = DurableNode {
            node,
            numbers,
            forced: log.durable(),
            log,
            options,
            incarnation,
            opened,
            out: NodeOutbox::default(),
            held: HeldOutput::default(),
            syncing: false,
            counters: DurableCounters::default(),
        };
        if !opened.is_new {
            opened_node.node.recover(now, &mut opened_node.out);
        }
        Ok(opened_node)
    }

    /// The node.
    pub fn node(&self) -> &Node<P> {
        &self.node
    }

    /// The node, for its driver between two steps.
    pub fn node_mut(&mut self) -> &mut Node<P> {
        &mut self.node
    }

    /// The node's incarnation.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// What opening the log found.
    pub fn opened(&self) -> Opened {
        self.opened
    }

    /// Its counters.
    pub fn counters(&self) -> DurableCounters {
        self.counters
    }

    /// Its disk, for injecting faults.
    pub fn media_mut(&mut self) -> &mut D {
        self.log.media_mut()
    }

    /// The disk alone: what a crash leaves.
    pub fn into_media(self) -> D {
        self.log.into_media()
    }

    /// The node, without its log.
    pub fn into_node(self) -> Node<P> {
        self.node
    }

    /// Takes one input. Its output comes out of [`DurableNode::flush`] or later.
    pub fn step(&mut self, now: Ticks, input: NodeInput<P::Message>) {
        if let NodeInput::Restarted { node } = &input {
            // Held messages are addressed to the former incarnation.
            self.held.forget(*node);
            self.out.messages.retain(|(to, _)| to != node);
        }
        self.node.step(now, input, &mut self.out);
    }

    /// Whether output waits for the log.
    pub fn holds_output(&self) -> bool {
        !self.held.is_empty()
    }

    /// Ends a batch: logs its records, and releases output that does not have to wait.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn flush(&mut self, out: &mut NodeOutbox<P::Message>) -> Result<(), LogError> {
        let written = state::take_records(&self.node, &mut self.numbers, &mut self.out);
        if let Some((records, forced)) = written {
            self.counters.records += records.len() as u64;
            self.log.append(&records)?;
            if forced {
                self.forced = self.log.end();
            }
        }
        if self.forced > self.log.durable() {
            self.held.push(self.forced, &mut self.out);
            return Ok(());
        }
        self.release(out);
        out.messages.append(&mut self.out.messages);
        out.outcomes.append(&mut self.out.outcomes);
        out.attempts.append(&mut self.out.attempts);
        Ok(())
    }

    /// Begins a sync and returns the position that it makes durable. `None` while another is under way,
    /// or if nothing waits.
    pub fn begin_sync(&mut self) -> Option<LogPosition> {
        if self.syncing || self.forced <= self.log.durable() {
            return None;
        }
        self.syncing = true;
        Some(self.log.begin_sync())
    }

    /// Ends a sync and releases the output that waited for it.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn end_sync(
        &mut self,
        until: LogPosition,
        out: &mut NodeOutbox<P::Message>,
    ) -> Result<(), LogError> {
        self.syncing = false;
        self.log.end_sync(until)?;
        self.counters.syncs += 1;
        self.release(out);
        Ok(())
    }

    fn release(&mut self, out: &mut NodeOutbox<P::Message>) {
        let durable = self.log.durable();
        self.held.release(|until| *until <= durable, out);
    }

    /// Writes a checkpoint if one is due; call it after a flush. Returns whether it wrote one: then no
    /// output waits any more.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn checkpoint_if_due(
        &mut self,
        out: &mut NodeOutbox<P::Message>,
    ) -> Result<bool, LogError> {
        if self.log.since_checkpoint() < self.options.checkpoint_bytes {
            return Ok(false);
        }
        debug_assert!(self.out.records.is_empty(), "a checkpoint follows a flush");
        write_checkpoint(
            &mut self.log,
            self.incarnation,
            &self.numbers,
            self.node.protocol(),
        )?;
        self.counters.checkpoints += 1;
        self.release(out);
        Ok(true)
    }
}

fn write_checkpoint<P: Durable, D: Media>(
    log: &mut Log<D>,
    incarnation: Incarnation,
    numbers: &SequenceStarts,
    protocol: &P,
) -> Result<(), LogError> {
    log.checkpoint(&mut |sink: &mut Sink<'_, NodeRecord>| {
        state::write_checkpoint(incarnation, numbers, protocol, sink);
    })
}
