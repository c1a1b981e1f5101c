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
//! 4. between batches, [`DurableNode::checkpoint_slice`] with a size that takes no longer than the node may stop,
//!    and when [`DurableNode::begin_checkpoint_sync`] returns a number of bytes, a sync of the checkpoint and
//!    [`DurableNode::end_checkpoint_sync`]. [`DurableNode::checkpoint_if_due`] does all of that at once.
//!
//! A disk error is final: drop the node, as if it had crashed. On a full disk the node goes on; see [`room`].

pub mod epochs;
pub mod room;

use std::fmt;

use anabranch_protocol::link::Incarnation;
use anabranch_protocol::{Durable, NoRecords, Record};
use anabranch_storage::log::Sink;
use anabranch_storage::media::MediaError;
use anabranch_storage::{Log, LogError, LogOptions, LogPosition, Media, Opened, Store, Verified};
use anabranch_types::Ticks;

use self::epochs::EpochState;
use crate::admission::Admission;
use crate::checkpoint::{CheckpointProgress, RunningCheckpoint};
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
    /// A checkpoint is due after this many bytes of log, or as many as the last checkpoint has, if those are more.
    pub checkpoint_bytes: u64,
    /// A checkpoint is synced after this many bytes of it, so that no sync is long.
    pub checkpoint_unsynced_max: u64,
    /// When output may leave.
    pub output: OutputRule,
    /// The incarnation of a node whose log is new: not the first if the node continues one with another log.
    pub incarnation: Incarnation,
}

/// When a node's output may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputRule {
    /// When the records before it are durable.
    Durable,
    /// At once. After a crash the logs of all nodes are cut at the end of one [epoch](epochs). A new log begins with
    /// this one.
    Epochs {
        /// The first epoch of a new log.
        first: u64,
    },
}

impl Default for DurableOptions {
    /// A checkpoint after 256 MiB of log, synced every 8 MiB.
    fn default() -> Self {
        DurableOptions {
            log: LogOptions::default(),
            checkpoint_bytes: 256 << 20,
            checkpoint_unsynced_max: 8 << 20,
            output: OutputRule::Durable,
            incarnation: Incarnation::FIRST,
        }
    }
}

/// The size of a slice where the whole checkpoint is written at once.
const SLICE_BYTES: usize = 1 << 20;

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
    /// Checkpoints adopted.
    pub checkpoints: u64,
    /// Slices of checkpoints written.
    pub checkpoint_slices: u64,
    /// The log since the last checkpoint, in bytes: what a recovery would replay now.
    pub replay_bytes: u64,
}

/// A node with its log. See the module.
pub struct DurableNode<P: Durable, D> {
    node: Node<P>,
    log: Log<D>,
    options: DurableOptions,
    incarnation: Incarnation,
    /// The logged bounds of sequences.
    numbers: SequenceStarts,
    opened: Opened,
    /// The output of the current batch.
    out: NodeOutbox<P::Message>,
    /// Output that waits for the log to be durable up to a position.
    held: HeldOutput<LogPosition, P::Message>,
    /// The end of the last frame with a forced record.
    forced: LogPosition,
    syncing: bool,
    /// The checkpoint under way, if any.
    checkpoint: Option<RunningCheckpoint>,
    syncing_checkpoint: bool,
    /// Records that the disk has had no room for, and whether one of them is forced. The output of their batches is
    /// still in `out`.
    unlogged: Vec<NodeRecord>,
    unlogged_is_forced: bool,
    /// What is admitted for reasons other than the disk.
    other_admission: Admission,
    epochs: EpochState,
    /// Whether a checkpoint is due, however short the log is.
    wants_checkpoint: bool,
    /// Where the log ended when the disk had no room for a checkpoint.
    abandoned_at: Option<LogPosition>,
    /// How often room was looked for since then.
    looks: u32,
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
        let incarnation = match opened.is_new {
            true => options.incarnation,
            false => Incarnation(incarnation).next(),
        };
        let node = node(made, incarnation).with_sequence_starts(&numbers);
        if opened.is_new {
            for (sequence, bound) in node.passed_bounds() {
                numbers.include_point(sequence, bound);
            }
            write_checkpoint(&mut log, incarnation, &numbers, node.protocol())?;
            if let OutputRule::Epochs { first } = options.output {
                log.append_epoch(first)?;
                log.end_sync(log.begin_sync())?;
            }
        } else {
            log.append(&[NodeRecord::Incarnation(incarnation.0)])?;
            let until = log.begin_sync();
            log.end_sync(until)?;
        }
        let mut opened_node = DurableNode {
            node,
            numbers,
            forced: log.durable(),
            epochs: EpochState::new(log.epoch()),
            log,
            options,
            incarnation,
            opened,
            out: NodeOutbox::default(),
            held: HeldOutput::default(),
            syncing: false,
            checkpoint: None,
            syncing_checkpoint: false,
            unlogged: Vec::new(),
            unlogged_is_forced: false,
            other_admission: Admission::All,
            wants_checkpoint: false,
            abandoned_at: None,
            looks: 0,
            counters: DurableCounters::default(),
        };
        opened_node.admit();
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
        DurableCounters {
            replay_bytes: self.log.since_checkpoint(),
            ..self.counters
        }
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
    pub fn into_node(mut self) -> Node<P> {
        if let Some(running) = &mut self.checkpoint {
            running.end(self.node.protocol_mut());
        }
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
        !self.held.is_empty() || (!self.unlogged.is_empty() && self.out.has_output())
    }

    /// Ends a batch: logs its records, and releases output that does not have to wait. On a full disk records and
    /// output wait for the next flush.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn flush(&mut self, out: &mut NodeOutbox<P::Message>) -> Result<(), LogError> {
        let written = state::take_records(&self.node, &mut self.numbers, &mut self.out);
        if let Some((records, forced)) = written {
            self.counters.records += records.len() as u64;
            self.unlogged.extend(records);
            self.unlogged_is_forced |= forced;
        }
        if !self.unlogged.is_empty() || self.epochs.is_marker_due() {
            // The records of a batch are in the epoch that is open when it ends: its output is.
            match self
                .append_marker()
                .and_then(|()| self.log.append(&self.unlogged))
            {
                Ok(()) => {}
                Err(error) if error.is_full() => {
                    self.release(out);
                    self.admit();
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            self.epochs.is_used |= !self.unlogged.is_empty();
            self.unlogged.clear();
            if std::mem::take(&mut self.unlogged_is_forced) && self.holds_until_durable() {
                self.forced = self.log.end();
            }
            self.admit();
        }
        if self.holds_until_durable() && self.forced > self.log.durable() {
            let waits = P::waits_for_log;
            self.held.push_waiting(self.forced, &mut self.out, waits);
        } else {
            self.release(out);
        }
        out.messages.append(&mut self.out.messages);
        out.outcomes.append(&mut self.out.outcomes);
        out.attempts.append(&mut self.out.attempts);
        Ok(())
    }

    /// Begins a sync and returns the position that it makes durable. `None` while another is under way,
    /// or if nothing waits.
    pub fn begin_sync(&mut self) -> Option<LogPosition> {
        // A complete checkpoint waits for the log, whether that is forced or not.
        let awaited = self.log.completed_checkpoint().max(Some(self.forced));
        if self.syncing || awaited <= Some(self.log.durable()) {
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

    /// The file that a sync which begins now has to sync, for a driver that does it itself.
    pub fn sync_file(&self) -> Option<&str> {
        self.log.sync_file()
    }

    /// Ends a sync as [`DurableNode::end_sync`], which the driver has done itself.
    ///
    /// # Errors
    /// When the sync has failed.
    pub fn synced(
        &mut self,
        until: LogPosition,
        result: Result<(), MediaError>,
        out: &mut NodeOutbox<P::Message>,
    ) -> Result<(), LogError> {
        self.syncing = false;
        self.log.note_synced(until, result)?;
        self.counters.syncs += 1;
        self.release(out);
        Ok(())
    }

    fn holds_until_durable(&self) -> bool {
        self.options.output == OutputRule::Durable
    }

    fn release(&mut self, out: &mut NodeOutbox<P::Message>) {
        let durable = self.log.durable();
        self.epochs.note_durable(durable);
        self.held.release(|until| *until <= durable, out);
    }

    /// Continues the checkpoint under way, or begins one that is due, and writes about `bytes` of it. Call it after
    /// a flush. The work is bounded by `bytes`, except where a checkpoint begins: then the protocol's open
    /// transactions are copied.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn checkpoint_slice(&mut self, bytes: usize) -> Result<CheckpointProgress, LogError> {
        let protocol = self.node.protocol_mut();
        let Some(running) = &mut self.checkpoint else {
            let mut after = self
                .options
                .checkpoint_bytes
                .max(self.log.checkpoint_bytes());
            if let Some(at) = self.abandoned_at {
                after = after.max(at.0 - self.log.checkpoint_at().0 + after / 8);
            }
            let is_due = self.wants_checkpoint || self.log.since_checkpoint() >= after;
            // The log lacks what waits for room. A sync that has begun would be taken for one of the new checkpoint.
            if !is_due || !self.unlogged.is_empty() || self.syncing_checkpoint {
                return Ok(CheckpointProgress::NotDue);
            }
            debug_assert!(self.out.records.is_empty(), "a checkpoint follows a flush");
            match self.log.begin_checkpoint() {
                Err(error) if error.is_full() => {
                    self.abandon_checkpoint()?;
                    return Ok(CheckpointProgress::Abandoned);
                }
                begun => begun?,
            }
            let running = RunningCheckpoint::begin(self.incarnation, &self.numbers, protocol);
            self.checkpoint = Some(running);
            return Ok(CheckpointProgress::Written);
        };
        if self.log.is_checkpoint_durable() {
            if !self.epochs.can_adopt(self.options.output) {
                return Ok(CheckpointProgress::Waits);
            }
            self.log.adopt_checkpoint()?;
            self.checkpoint = None;
            self.wants_checkpoint = false;
            self.abandoned_at = None;
            self.counters.checkpoints += 1;
            return Ok(CheckpointProgress::Adopted);
        }
        let is_complete = self.log.completed_checkpoint().is_some();
        if is_complete || self.log.unsynced_checkpoint() >= self.options.checkpoint_unsynced_max {
            return Ok(CheckpointProgress::Waits);
        }
        let written = match running.next_slice(protocol, bytes) {
            Some(records) => self.log.extend_checkpoint(&records),
            None => self.log.complete_checkpoint(),
        };
        match written {
            Err(error) if error.is_full() => {
                self.abandon_checkpoint()?;
                return Ok(CheckpointProgress::Abandoned);
            }
            written => written?,
        }
        self.epochs.note_slice();
        self.counters.checkpoint_slices += 1;
        Ok(CheckpointProgress::Written)
    }

    /// Whether a checkpoint is under way.
    pub fn is_writing_checkpoint(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// Reads the items of the newest checkpoint into an empty store, to check them.
    ///
    /// # Errors
    /// When the disk fails, or the checkpoint is damaged.
    pub fn read_checkpoint(&mut self, mut empty: Store) -> Result<Store, LogError> {
        self.log.read_newest_checkpoint(&mut |record| {
            match record {
                NodeRecord::Protocol(Record::Items { table, items }) => empty.import(table, items),
                NodeRecord::Protocol(Record::Store { last }) => empty.finish_import(last),
                _ => {}
            }
            Ok(())
        })?;
        Ok(empty)
    }

    /// Begins a sync of the checkpoint under way and returns how many bytes it makes durable. `None` while another is
    /// under way, or if more of the checkpoint can be written before.
    pub fn begin_checkpoint_sync(&mut self) -> Option<u64> {
        let unsynced = self.log.unsynced_checkpoint();
        let is_complete = self.log.completed_checkpoint().is_some();
        let is_due = unsynced >= self.options.checkpoint_unsynced_max || is_complete;
        if self.syncing_checkpoint || unsynced == 0 || !is_due {
            return None;
        }
        self.syncing_checkpoint = true;
        Some(unsynced)
    }

    /// Ends a sync of the checkpoint under way.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn end_checkpoint_sync(&mut self, bytes: u64) -> Result<(), LogError> {
        self.syncing_checkpoint = false;
        self.log.end_checkpoint_sync(bytes)
    }

    /// The file that a sync of the checkpoint has to sync, for a driver that does it itself.
    pub fn checkpoint_sync_file(&self) -> &'static str {
        self.log.checkpoint_sync_file()
    }

    /// Ends a sync as [`DurableNode::end_checkpoint_sync`], which the driver has done itself.
    ///
    /// # Errors
    /// When the sync has failed.
    pub fn checkpoint_synced(
        &mut self,
        bytes: u64,
        result: Result<(), MediaError>,
    ) -> Result<(), LogError> {
        self.syncing_checkpoint = false;
        self.log.note_checkpoint_synced(bytes, result)
    }

    /// Writes a checkpoint if one is due, all at once, or what is left of the one under way; call it after a flush.
    /// Returns whether there was one: then no output waits any more.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn checkpoint_if_due(
        &mut self,
        out: &mut NodeOutbox<P::Message>,
    ) -> Result<bool, LogError> {
        loop {
            match self.checkpoint_slice(SLICE_BYTES)? {
                CheckpointProgress::NotDue | CheckpointProgress::Abandoned => return Ok(false),
                CheckpointProgress::Written => {}
                CheckpointProgress::Waits if self.log.is_checkpoint_durable() => {
                    return Ok(false); // It waits for the end of its epoch.
                }
                CheckpointProgress::Waits => {
                    self.log
                        .end_checkpoint_sync(self.log.unsynced_checkpoint())?;
                    self.log.end_sync(self.log.begin_sync())?;
                    self.release(out);
                }
                CheckpointProgress::Adopted => return Ok(true),
            }
        }
    }
}

/// Reads everything on a durable node's disk that its recovery would read, decodes every record, and changes nothing.
///
/// # Errors
/// The first damage, with its file and the offset of the damaged frame, or that the disk fails.
pub fn verify(media: &mut impl Media) -> Result<Verified, LogError> {
    anabranch_storage::verify(media, &mut |_: NodeRecord| Ok(()))
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
