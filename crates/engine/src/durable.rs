//! A node with its log: output commit, group commit, checkpoints, recovery.
//!
//! A [`DurableNode`] drives a [`Node`] whose protocol keeps records. What a batch of steps has said
//! is withheld until the batch's forced records are durable (`docs/protocols/durability.md`);
//! meanwhile the node goes on, so one sync makes many batches durable. The simulator and the
//! embedded cluster drive it alike:
//!
//! 1. [`DurableNode::open`] makes a new node, or one that comes back;
//! 2. any number of [`DurableNode::step`]s, then [`DurableNode::flush`];
//! 3. when [`DurableNode::begin_sync`] says that something waits: sync, and
//!    [`DurableNode::end_sync`]; what has become free comes out;
//! 4. between batches, [`DurableNode::checkpoint_if_due`].
//!
//! An error of the disk is final: the node has to be dropped, as if it had crashed.

use std::fmt;

use anabranch_protocol::link::Incarnation;
use anabranch_protocol::{Durable, NoRecords, Record};
use anabranch_storage::log::Sink;
use anabranch_storage::{Log, LogError, LogOptions, LogPosition, Media, Opened};
use anabranch_types::{ColumnIndex, TableId, Ticks};
use serde::{Deserialize, Serialize};

use crate::image::{self, Image};
use crate::node::{Node, NodeInput, NodeOutbox};
use crate::sequence::SequenceStarts;
use crate::withheld::Withheld;

/// What a node's log holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NodeRecord {
    /// The node's life begins.
    Life(u64),
    /// What its protocol has done.
    Protocol(Record),
    /// Numbers of an identity column may have been drawn up to here.
    Numbers(TableId, ColumnIndex, i64),
}

/// How a durable node behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableOptions {
    /// Its log.
    pub log: LogOptions,
    /// After how many bytes of log a checkpoint is due.
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

/// Why a node cannot be made durable, or cannot come back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurableError {
    /// Its protocol keeps no records.
    NoRecords(NoRecords),
    /// Its log or disk has failed.
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

/// How a node begins its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// For the first time: its store is to hold what was loaded.
    New,
    /// Again: its store is to be empty, and is filled from the log.
    Recovered,
}

/// What a durable node has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurableCounters {
    /// Records written, checkpoints' not among them.
    pub records: u64,
    /// Syncs that have ended.
    pub syncs: u64,
    /// Checkpoints.
    pub checkpoints: u64,
}

/// A node with its log. See the module.
pub struct DurableNode<P: Durable, D> {
    node: Node<P>,
    log: Log<D>,
    options: DurableOptions,
    life: Incarnation,
    /// What was written down of identity columns.
    numbers: SequenceStarts,
    opened: Opened,
    /// Of the current batch.
    out: NodeOutbox<P::Message>,
    /// What waits for the log: up to where it has to be durable.
    withheld: Withheld<LogPosition, P::Message>,
    /// The end of the last frame with a forced record.
    forced: LogPosition,
    syncing: bool,
    counters: DurableCounters,
}

impl<P: Durable, D: Media> DurableNode<P, D> {
    /// Opens the log on a disk. `protocol` makes the node's protocol, `node` the node over it in
    /// this life; the protocol of a node that comes back says what it has to before anything else:
    /// [`DurableNode::flush`] next.
    ///
    /// # Errors
    /// When the protocol keeps no records, the disk fails, or what is on it is damaged.
    pub fn open(
        media: D,
        options: DurableOptions,
        now: Ticks,
        mut protocol: impl FnMut(Beginning) -> P,
        node: impl FnOnce(P, Incarnation) -> Node<P>,
    ) -> Result<DurableNode<P, D>, DurableError> {
        let mut rebuilt: Option<Image<P>> = None;
        let mut refused = None;
        let (mut log, opened) = Log::open(media, options.log, &mut |record| {
            let image = match &mut rebuilt {
                Some(image) => image,
                none => match Image::new(protocol(Beginning::Recovered)) {
                    Ok(image) => none.insert(image),
                    Err(error) => {
                        refused = Some(error);
                        return Err(error.to_string());
                    }
                },
            };
            image.replay(record)
        })
        .map_err(|error| refused.map_or(DurableError::Log(error), DurableError::NoRecords))?;
        let rebuilt = match rebuilt {
            Some(rebuilt) => rebuilt,
            None => Image::new(protocol(Beginning::New)).map_err(DurableError::NoRecords)?,
        };
        let Image {
            protocol: made,
            mut numbers,
            life,
        } = rebuilt;
        let life = Incarnation(life).next();
        let node = node(made, life).numbering_after(&numbers);
        if opened.is_new {
            for (table, column, bound) in node.passed_bounds() {
                numbers.include(table, column, bound);
            }
            write_checkpoint(&mut log, life, &numbers, node.protocol())?;
        } else {
            log.append(&[NodeRecord::Life(life.0)])?;
            let until = log.begin_sync();
            log.end_sync(until)?;
        }
        let mut opened_node = DurableNode {
            node,
            numbers,
            forced: log.durable(),
            log,
            options,
            life,
            opened,
            out: NodeOutbox::default(),
            withheld: Withheld::default(),
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

    /// The node, for its driver to look at between two steps.
    pub fn node_mut(&mut self) -> &mut Node<P> {
        &mut self.node
    }

    /// Which life this is.
    pub fn life(&self) -> Incarnation {
        self.life
    }

    /// What opening the log has found.
    pub fn opened(&self) -> Opened {
        self.opened
    }

    /// What has been counted.
    pub fn counters(&self) -> DurableCounters {
        self.counters
    }

    /// Its disk, to order its faults.
    pub fn media_mut(&mut self) -> &mut D {
        self.log.media_mut()
    }

    /// What a crash leaves.
    pub fn into_media(self) -> D {
        self.log.into_media()
    }

    /// The node, when it is needed no more.
    pub fn into_node(self) -> Node<P> {
        self.node
    }

    /// Takes one input; what follows from it comes out of [`DurableNode::flush`] or later.
    pub fn step(&mut self, now: Ticks, input: NodeInput<P::Message>) {
        if let NodeInput::Restarted { node } = &input {
            // What waits was meant for the dead.
            self.withheld.forget(*node);
            self.out.messages.retain(|(to, _)| to != node);
        }
        self.node.step(now, input, &mut self.out);
    }

    /// Whether something that the node has said waits for the log.
    pub fn is_withholding(&self) -> bool {
        !self.withheld.is_empty()
    }

    /// Ends a batch: writes its records, and lets out what does not have to wait.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn flush(&mut self, out: &mut NodeOutbox<P::Message>) -> Result<(), LogError> {
        let written = image::take_records(&self.node, &mut self.numbers, &mut self.out);
        if let Some((records, forced)) = written {
            self.counters.records += records.len() as u64;
            self.log.append(&records)?;
            if forced {
                self.forced = self.log.end();
            }
        }
        if self.forced > self.log.durable() {
            self.withheld.push(self.forced, &mut self.out);
            return Ok(());
        }
        self.release(out);
        out.messages.append(&mut self.out.messages);
        out.outcomes.append(&mut self.out.outcomes);
        out.attempts.append(&mut self.out.attempts);
        Ok(())
    }

    /// Whether a sync has to begin: what it will have made durable when it ends. None while
    /// another is under way, or nothing waits.
    pub fn begin_sync(&mut self) -> Option<LogPosition> {
        if self.syncing || self.forced <= self.log.durable() {
            return None;
        }
        self.syncing = true;
        Some(self.log.begin_sync())
    }

    /// A sync ends: what waited for it comes out.
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
        self.withheld.release(|until| *until <= durable, out);
    }

    /// Writes a checkpoint if so much has been logged since the last one. After a flush. True if
    /// there was one; then nothing waits any more, and what has waited comes out.
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
            self.life,
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
    life: Incarnation,
    numbers: &SequenceStarts,
    protocol: &P,
) -> Result<(), LogError> {
    log.checkpoint(&mut |sink: &mut Sink<'_, NodeRecord>| {
        image::write(life, numbers, protocol, sink);
    })
}
