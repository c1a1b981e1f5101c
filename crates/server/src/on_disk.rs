//! A node with a log in a folder, as its thread drives it.
//!
//! The thread appends the records of each turn and goes on; another thread syncs. One sync makes the records of all
//! turns before it durable. A checkpoint is written a slice a turn.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use anabranch_engine::{
    Admission, CheckpointProgress, DurableNode, HandedOver, Node, NodeInput, NodeOutbox,
};
use anabranch_protocol::Durable;
use anabranch_storage::LogError;
use anabranch_types::{NodeId, Ticks};

use crate::backup_step::{BackupFile, BackupStep};
use crate::data::Durability;
use crate::epochs::Epochs;
use crate::files::FileDisk;
use crate::inbox::Inbox;
use crate::syncer::{SyncTarget, Synced, Syncer};
use crate::thread::{Driven, Envelope};

/// The size of a checkpoint's slice: well below a millisecond.
const SLICE_BYTES: usize = 64 << 10;

/// See the module.
pub(crate) struct OnDisk<P: Durable> {
    node: DurableNode<P, FileDisk>,
    log_syncer: Syncer,
    /// A thread of its own: a checkpoint's syncs are long.
    checkpoint_syncer: Syncer,
    writes_checkpoint: bool,
    id: NodeId,
    epochs: Arc<Epochs>,
    durability: Durability,
    /// Where the files of the log are to be sent, for a backup.
    taking: Option<SyncSender<Result<Vec<BackupFile>, String>>>,
}

impl<P> OnDisk<P>
where
    P: Durable + Send + 'static,
    P::Message: 'static,
{
    /// Starts the threads that sync the node's disk.
    pub(crate) fn new(
        id: NodeId,
        node: DurableNode<P, FileDisk>,
        inboxes: &Arc<[Inbox<Envelope<P>>]>,
        epochs: &Arc<Epochs>,
        durability: Durability,
    ) -> std::io::Result<OnDisk<P>> {
        epochs.raise(node.epoch());
        let start = |what: &str| {
            let inboxes = Arc::clone(inboxes);
            Syncer::start(format!("{what} {id}"), move |synced| {
                inboxes[id.index()].put(Envelope::Synced(synced));
            })
        };
        Ok(OnDisk {
            node,
            log_syncer: start("log")?,
            checkpoint_syncer: start("checkpoint")?,
            writes_checkpoint: false,
            id,
            epochs: Arc::clone(epochs),
            durability,
            taking: None,
        })
    }
}

impl<P: Durable> OnDisk<P> {
    /// Exchanges with the other nodes what is durable, and asks for a new epoch if this one is used.
    fn note_epochs(&mut self) {
        if self.durability == Durability::Sync {
            return;
        }
        self.epochs.set_durable(self.id, self.node.durable_epoch());
        self.node
            .note_durable_everywhere(self.epochs.durable_everywhere());
        if self.node.wants_epoch() {
            self.epochs.note_used();
        }
    }

    /// Hands over the files of the log, if a backup wants them and its epoch has begun in them.
    fn hand_over(&mut self) {
        if self.node.epoch() < self.epochs.current() {
            return; // The disk is full.
        }
        let Some(taking) = self.taking.take() else {
            return;
        };
        let files = self.node.log_files().map_err(|error| error.to_string());
        let opened = files.and_then(|files| {
            let disk = self.node.media_mut();
            let open = |(name, length): (String, u64)| {
                let (file, reader) = disk
                    .open_to_read(&name)
                    .map_err(|error| error.to_string())?;
                Ok(BackupFile {
                    name,
                    length,
                    file,
                    reader,
                })
            };
            files.into_iter().map(open).collect()
        });
        // The receiver is gone if the backup has been given up.
        let _ = taking.send(opened);
        self.node.hold_checkpoints(false);
    }

    /// Goes on as if syncs took no time: the operating system writes when it likes.
    fn pretend_synced(&mut self, out: &mut NodeOutbox<P::Message>) -> Result<(), LogError> {
        if let Some(until) = self.node.begin_sync() {
            self.node.synced(until, Ok(()), out)?;
            self.note_epochs();
        }
        if let Some(bytes) = self.node.begin_checkpoint_sync() {
            self.node.checkpoint_synced(bytes, Ok(()))?;
            self.writes_checkpoint = true;
        }
        Ok(())
    }
}

impl<P: Durable> Driven<P> for OnDisk<P> {
    /// A sync costs more than any number of open calls: all calls that have arrived are begun.
    const CALLS_A_TURN_MAX: Option<NonZeroUsize> = None;

    fn step(&mut self, now: Ticks, input: NodeInput<P::Message>, _: &mut NodeOutbox<P::Message>) {
        self.node.step(now, input);
    }

    fn flush(&mut self, out: &mut NodeOutbox<P::Message>) -> Result<(), LogError> {
        // After the inputs of this turn were taken, and before its output leaves.
        self.node.open_epoch(self.epochs.current());
        self.node.flush(out)?;
        self.note_epochs();
        self.hand_over();
        self.writes_checkpoint = match self.node.checkpoint_slice(SLICE_BYTES)? {
            CheckpointProgress::Written | CheckpointProgress::Adopted => true,
            CheckpointProgress::NotDue
            | CheckpointProgress::Abandoned
            | CheckpointProgress::Waits => false,
        };
        if self.durability == Durability::Never {
            return self.pretend_synced(out);
        }
        if let Some(until) = self.node.begin_sync()
            && let Some(file) = self.node.sync_file().map(str::to_owned)
        {
            let file = self.node.media_mut().handle(&file)?;
            self.log_syncer.sync(SyncTarget::Log(until), file);
        }
        if let Some(bytes) = self.node.begin_checkpoint_sync() {
            let file = self.node.checkpoint_sync_file();
            let file = self.node.media_mut().handle(file)?;
            self.checkpoint_syncer
                .sync(SyncTarget::Checkpoint(bytes), file);
        }
        Ok(())
    }

    fn synced(&mut self, synced: Synced, out: &mut NodeOutbox<P::Message>) -> Result<(), LogError> {
        match synced.target {
            SyncTarget::Log(until) => {
                self.node.synced(until, synced.result, out)?;
                self.note_epochs();
                Ok(())
            }
            SyncTarget::Checkpoint(bytes) => self.node.checkpoint_synced(bytes, synced.result),
        }
    }

    fn node(&mut self) -> &mut Node<P> {
        self.node.node_mut()
    }

    fn admission(&self) -> Admission {
        self.node.admission()
    }

    fn limit_admission(&mut self, admission: Admission) {
        self.node.limit_admission(admission);
    }

    fn make_room(&mut self, out: &mut NodeOutbox<P::Message>) -> Result<(), LogError> {
        self.node.make_room(out)
    }

    fn back_up(&mut self, step: BackupStep) {
        match step {
            BackupStep::Hold(done) => {
                self.node.hold_checkpoints(true);
                // The receiver is gone if the backup has been given up.
                let _ = done.send(());
            }
            BackupStep::Take(files) => self.taking = Some(files),
            BackupStep::Release => {
                self.taking = None;
                self.node.hold_checkpoints(false);
            }
        }
    }

    fn is_busy(&self) -> bool {
        self.writes_checkpoint
    }

    fn holds_output(&self) -> bool {
        self.node.holds_output()
    }

    fn hand_over(self) -> HandedOver<P> {
        self.node.into_node().hand_over()
    }
}
