//! Epochs of a durable node whose output does not wait for its log.
//!
//! All nodes' logs are divided into epochs. The driver opens a new one at a node ([`DurableNode::open_epoch`]) no later
//! than at the end of the batch whose input depends on output of that epoch, from whichever node. After a crash, every
//! log is cut at the end of the last epoch that all logs have as a whole
//! ([`cut_after_epoch`](anabranch_storage::log::epoch::cut_after_epoch)). `docs/protocols/durability.md` says why what is
//! left fits together.

use std::collections::VecDeque;

use anabranch_protocol::Durable;
use anabranch_storage::{LogError, LogPosition, Media};

use super::{DurableNode, OutputRule};

/// What a node knows of epochs.
#[derive(Debug, Default)]
pub(super) struct EpochState {
    /// The epoch to be open at the end of the next batch.
    wanted: u64,
    /// The epoch of the log's last marker.
    logged: u64,
    /// The ends of markers that are not durable, with their epochs.
    markers: VecDeque<(LogPosition, u64)>,
    /// The log up to the end of this epoch is durable here, and everywhere.
    durable_here: u64,
    durable_everywhere: u64,
    /// Whether the open epoch has records.
    pub(super) is_used: bool,
    /// The epoch that was open when the last slice of the checkpoint under way was written.
    checkpoint: Option<u64>,
    /// Whether no checkpoint may be adopted for the moment.
    is_held: bool,
}

impl EpochState {
    /// The state of a node whose log has this last marker, which is durable.
    pub(super) fn new(last: Option<u64>) -> EpochState {
        let last = last.unwrap_or(0);
        EpochState {
            wanted: last,
            logged: last,
            durable_here: last.saturating_sub(1),
            // A node's incarnation is logged when it starts.
            is_used: true,
            ..EpochState::default()
        }
    }

    pub(super) fn is_marker_due(&self) -> bool {
        self.wanted > self.logged
    }

    /// The log is durable up to here.
    pub(super) fn note_durable(&mut self, until: LogPosition) {
        while let Some((end, epoch)) = self.markers.front()
            && *end <= until
        {
            self.durable_here = epoch - 1;
            self.markers.pop_front();
        }
    }

    /// A slice of the checkpoint was written.
    pub(super) fn note_slice(&mut self) {
        self.checkpoint = Some(self.logged);
    }

    /// Whether no cut can be below what the checkpoint under way holds.
    pub(super) fn can_adopt(&self, rule: OutputRule) -> bool {
        let is_beyond_cuts = match rule {
            OutputRule::Durable => true,
            OutputRule::Epochs { .. } => self
                .checkpoint
                .is_none_or(|epoch| epoch <= self.durable_everywhere),
        };
        is_beyond_cuts && !self.is_held
    }
}

impl<P: Durable, D: Media> DurableNode<P, D> {
    /// Opens an epoch: the records of the batch that ends with the next flush, and later ones, belong to it. Ignored if
    /// it, or a later one, is open.
    pub fn open_epoch(&mut self, epoch: u64) {
        self.epochs.wanted = self.epochs.wanted.max(epoch);
    }

    /// Whether no checkpoint is adopted from now on: for the moment in which a backup takes its files.
    pub fn hold_checkpoints(&mut self, is_held: bool) {
        self.epochs.is_held = is_held;
    }

    /// The files of the log with their lengths: see [`anabranch_storage::Log::kept_files`].
    ///
    /// # Errors
    /// When the disk fails.
    pub fn log_files(&mut self) -> Result<Vec<(String, u64)>, LogError> {
        self.log.kept_files()
    }

    /// Whether the open epoch should end soon: it has records, or a checkpoint waits for its end.
    pub fn wants_epoch(&self) -> bool {
        self.epochs.is_used
            || (self.checkpoint.is_some() && !self.epochs.can_adopt(self.options.output))
    }

    /// The epoch that the log's last marker has opened.
    pub fn epoch(&self) -> u64 {
        self.epochs.logged
    }

    /// The log up to the end of this epoch is durable.
    pub fn durable_epoch(&self) -> u64 {
        self.epochs.durable_here
    }

    /// The logs of all nodes up to the end of this epoch are durable: checkpoints of it may be adopted.
    pub fn note_durable_everywhere(&mut self, epoch: u64) {
        self.epochs.durable_everywhere = epoch;
    }

    /// Appends the marker of the epoch to be open, if it is not there.
    pub(super) fn append_marker(&mut self) -> Result<(), LogError> {
        if !self.epochs.is_marker_due() {
            return Ok(());
        }
        let epoch = self.epochs.wanted;
        self.log.append_epoch(epoch)?;
        self.epochs.logged = epoch;
        self.epochs.is_used = false;
        self.epochs.markers.push_back((self.log.end(), epoch));
        // The marker is worth a sync: with it an epoch ends.
        self.forced = self.log.end();
        Ok(())
    }
}
