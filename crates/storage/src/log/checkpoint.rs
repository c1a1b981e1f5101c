//! Checkpoints: written in slices beside the log, and adopted when they are durable.
//!
//! A checkpoint at position *P* has the records that rebuild the state after the log's first *P* bytes. It may be
//! written while the log goes on, and it may have read what later steps have done (for example, what they know of a
//! row's writers). So it is adopted only when the log is durable up to its end at the last slice. Whatever a slice
//! depends on is then either in the checkpoint or in the log that is replayed after it.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::frame::{self, HEADER};
use super::{Log, LogError, LogPosition, read};
use crate::media::{Media, MediaError};

/// A function that takes the records of a checkpoint.
pub type Sink<'s, R> = dyn FnMut(R) + 's;

/// The file of an incomplete checkpoint.
pub(super) const PARTIAL: &str = "checkpoint.partial";

/// The size of a checkpoint's frame in bytes after which a new one begins, unless slices are smaller.
const CHECKPOINT_FRAME: usize = 1 << 20;

/// A checkpoint that is not adopted yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartialCheckpoint {
    at: LogPosition,
    /// How many bytes of it are written, and how many of them are durable.
    written: u64,
    durable: u64,
    /// The end of the log when its last slice was written.
    log_end: LogPosition,
    is_complete: bool,
}

/// Checkpoints.
impl<D: Media> Log<D> {
    /// Writes a checkpoint: `write` passes the records that rebuild the current state. Afterwards the
    /// checkpoint is durable, and the log below it is removed.
    ///
    /// # Errors
    /// When the disk fails; the log then stops.
    pub fn checkpoint<R: Serialize>(
        &mut self,
        write: &mut dyn FnMut(&mut Sink<'_, R>),
    ) -> Result<(), LogError> {
        self.prepare_checkpoint(write)?;
        self.adopt_checkpoint()
    }

    /// Writes a checkpoint that takes effect when it is [adopted](Log::adopt_checkpoint). Afterwards the
    /// whole log is durable. An earlier checkpoint that was prepared and not adopted is replaced.
    ///
    /// # Errors
    /// When the disk fails; the log then stops.
    pub fn prepare_checkpoint<R: Serialize>(
        &mut self,
        write: &mut dyn FnMut(&mut Sink<'_, R>),
    ) -> Result<(), LogError> {
        self.running()?;
        self.end_segment()?;
        if self
            .segment
            .as_ref()
            .is_none_or(|(_, start)| *start < self.end.0)
        {
            self.begin_segment()?;
        }
        self.begin_checkpoint()?;
        let (mut buffer, mut written) = (Vec::new(), Ok(()));
        frame::begin(&mut buffer);
        write(&mut |record| {
            if written.is_ok() {
                written = frame::put(&mut buffer, &record);
            }
            if written.is_ok() && buffer.len() >= CHECKPOINT_FRAME {
                written = self.put_frame(&mut buffer);
            }
        });
        self.stop_on(written)?;
        if buffer.len() > HEADER {
            self.put_frame(&mut buffer)?;
        }
        self.complete_checkpoint()?;
        self.end_checkpoint_sync(self.unsynced_checkpoint())
    }

    /// Begins a checkpoint of the current state, at the end of the log. Its records follow by
    /// [`Log::extend_checkpoint`], and the log may go on meanwhile. An earlier one that was not adopted is replaced.
    ///
    /// # Errors
    /// When the disk fails; the log then stops. When the disk is full, the log goes on without a checkpoint.
    pub fn begin_checkpoint(&mut self) -> Result<(), LogError> {
        self.running()?;
        let created = self.media.create(PARTIAL);
        if matches!(created, Err(MediaError::Full { .. })) {
            return created.map_err(LogError::from);
        }
        self.stop_on(created)?;
        self.partial = Some(PartialCheckpoint {
            at: self.end,
            written: 0,
            durable: 0,
            log_end: self.end,
            is_complete: false,
        });
        Ok(())
    }

    /// Adds records to the checkpoint that was begun, as one frame.
    ///
    /// # Errors
    /// When the disk fails; the log then stops. When the disk is full, the checkpoint has to be
    /// [abandoned](Log::abandon_checkpoint), and the log goes on.
    ///
    /// # Panics
    /// When no checkpoint was begun.
    pub fn extend_checkpoint<R: Serialize>(&mut self, records: &[R]) -> Result<(), LogError> {
        if records.is_empty() {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        frame::begin(&mut buffer);
        let put = records
            .iter()
            .try_for_each(|record| frame::put(&mut buffer, record));
        self.stop_on(put)?;
        self.put_frame(&mut buffer)?;
        self.buffer = buffer;
        Ok(())
    }

    /// Ends the checkpoint's records. It can be adopted once it and the log are durable.
    ///
    /// # Errors
    /// As [`Log::extend_checkpoint`].
    ///
    /// # Panics
    /// When no checkpoint was begun.
    pub fn complete_checkpoint(&mut self) -> Result<(), LogError> {
        // An empty frame marks a complete checkpoint.
        let mut buffer = Vec::new();
        frame::begin(&mut buffer);
        self.put_frame(&mut buffer)?;
        if let Some(partial) = &mut self.partial {
            partial.is_complete = true;
        }
        Ok(())
    }

    /// Removes the checkpoint under way, if there is one: the older one stays.
    ///
    /// # Errors
    /// When the disk fails; the log then stops.
    pub fn abandon_checkpoint(&mut self) -> Result<(), LogError> {
        self.running()?;
        if self.partial.take().is_none() {
            return Ok(());
        }
        let removed = self.media.remove(PARTIAL);
        self.stop_on(removed)
    }

    /// The bytes of the checkpoint under way that are not durable.
    pub fn unsynced_checkpoint(&self) -> u64 {
        let partial = self.partial.as_ref();
        partial.map_or(0, |partial| partial.written - partial.durable)
    }

    /// Syncs the checkpoint under way; the first `bytes` of the unsynced ones are durable then, which were written
    /// before the sync began.
    ///
    /// # Errors
    /// When the disk fails; the log then stops.
    pub fn end_checkpoint_sync(&mut self, bytes: u64) -> Result<(), LogError> {
        self.running()?;
        if self.partial.is_none() {
            return Ok(()); // It has been abandoned.
        }
        let synced = self.media.sync(PARTIAL);
        self.note_checkpoint_synced(bytes, synced)
    }

    /// The file that a sync of the checkpoint under way has to sync.
    pub fn checkpoint_sync_file(&self) -> &'static str {
        PARTIAL
    }

    /// Ends a sync as [`Log::end_checkpoint_sync`], which the driver has done itself.
    ///
    /// # Errors
    /// When the sync has failed; the log then stops.
    pub fn note_checkpoint_synced(
        &mut self,
        bytes: u64,
        synced: Result<(), MediaError>,
    ) -> Result<(), LogError> {
        self.running()?;
        self.stop_on(synced)?;
        if let Some(partial) = &mut self.partial {
            partial.durable += bytes;
        }
        Ok(())
    }

    /// The position up to which the log has to be durable before the checkpoint under way can be adopted; `None` while
    /// records are missing.
    pub fn completed_checkpoint(&self) -> Option<LogPosition> {
        let partial = self.partial.filter(|partial| partial.is_complete)?;
        Some(partial.log_end)
    }

    /// Whether the checkpoint under way can be adopted: it is complete and durable, and the log is durable up to where
    /// it ended when the last slice was written.
    pub fn is_checkpoint_durable(&self) -> bool {
        let durable = self.durable;
        self.unsynced_checkpoint() == 0
            && self
                .completed_checkpoint()
                .is_some_and(|until| until <= durable)
    }

    /// Makes the checkpoint under way the newest one, and removes the log below it.
    ///
    /// # Errors
    /// When the disk fails; the log then stops.
    ///
    /// # Panics
    /// When it [is not durable](Log::is_checkpoint_durable).
    pub fn adopt_checkpoint(&mut self) -> Result<(), LogError> {
        self.running()?;
        assert!(
            self.is_checkpoint_durable(),
            "a checkpoint is durable before it is adopted"
        );
        let Some(partial) = self.partial.take() else {
            return Ok(());
        };
        let renamed = self.media.rename(PARTIAL, &checkpoint_name(partial.at.0));
        self.stop_on(renamed)?;
        self.checkpoint = partial.at;
        self.checkpoint_bytes = partial.written;
        let files = self.media.files();
        let removed = files
            .map_err(LogError::from)
            .and_then(|files| self.remove_older(&files));
        self.stop_on(removed)
    }

    /// The size of the newest checkpoint in bytes.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_bytes
    }

    /// Reads the records of the newest checkpoint again.
    ///
    /// # Errors
    /// When the disk fails, the checkpoint is damaged, or `take` fails.
    pub fn read_newest_checkpoint<R: DeserializeOwned>(
        &mut self,
        take: &mut dyn FnMut(R) -> Result<(), String>,
    ) -> Result<(), LogError> {
        let at = self.checkpoint.0;
        read::checkpoint(&mut self.media, &checkpoint_name(at), at, take).map(|_| ())
    }

    /// Fills in the header of a checkpoint's frame, writes it, and begins the next one.
    fn put_frame(&mut self, buffer: &mut Vec<u8>) -> Result<(), LogError> {
        self.running()?;
        let partial = self.partial.as_mut();
        let partial = partial.expect("a checkpoint is begun before it is written");
        assert!(
            !partial.is_complete,
            "nothing follows a complete checkpoint"
        );
        frame::end(buffer, partial.written, partial.at.0);
        partial.written += buffer.len() as u64;
        partial.log_end = self.end;
        let written = self.media.append(PARTIAL, buffer);
        buffer.clear();
        frame::begin(buffer);
        if matches!(written, Err(MediaError::Full { .. })) {
            return written.map_err(LogError::from);
        }
        self.stop_on(written)
    }
}

pub(super) fn checkpoint_name(at: u64) -> String {
    format!("checkpoint-{at:016x}")
}
