//! The log: appending, group commit, checkpoints, recovery.
//!
//! A log is a series of files (*segments*), each a sequence of *frames*. A frame holds all records of
//! one batch, with a length, a checksum and the frame's position among all bytes ever logged. A
//! checkpoint is a file of frames too: its records rebuild the state at its position. Recovery reads
//! the newest complete checkpoint and the log from its position on, and replays the records in order.
//!
//! * **Group commit.** [`Log::append`] writes and does not wait. The log up to [`Log::end`] is durable
//!   when a sync that began after the append has ended. [`Log::begin_sync`] and [`Log::end_sync`] are
//!   separate, so that a simulated sync takes simulated time.
//! * **Torn tails.** After a crash, unsynced frames may be complete, incomplete, with holes, or missing.
//!   Recovery cuts the log at the first incomplete frame: no output that depends on it has left.
//! * **Room ahead.** The last segment may have zeros behind its end ([`Media::make_room_ahead`]), so that a sync need not
//!   record a new length. They are cut off before the next segment begins, and when the log is opened.
//! * **Damage.** An incomplete frame among synced ones is not a torn tail. Each frame records up to where
//!   the log was durable when it was written. If a complete frame after the hole shows that the hole was
//!   durable, recovery ends with [`LogError::Damaged`]. (In the frames of the last batch synced before a
//!   crash the two cases are indistinguishable.)
//! * **Checkpoints.** A checkpoint is written beside the log in slices, while the log goes on. It is synced,
//!   and the log up to where its last slice was written; then it is renamed, and only then are the segments
//!   below its position removed. A crash at any point leaves the older checkpoint with its log, or the newer
//!   one with its log. A crash during the first checkpoint leaves a new log.
//!
//! File names: `log-P` is the segment that begins at position `P`, `checkpoint-P` the checkpoint at
//! position `P`, both in hexadecimal; `checkpoint.partial` is an incomplete checkpoint.
//!
//! A disk error is final ([`LogError::Stopped`]): the node stops. The exception is a full disk. An append that does not
//! fit leaves nothing behind, and may be repeated; a checkpoint that does not fit is abandoned. A file of zeros, the
//! [reserve](LogOptions::reserve_bytes), keeps room for what has to be logged after the disk is full.

mod checkpoint;
pub mod epoch;
mod frame;
mod read;
mod reserve;
mod verify;

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

pub use self::checkpoint::Sink;
use self::checkpoint::{PARTIAL, PartialCheckpoint};
use self::frame::Frame;
pub use self::read::TornTail;
use self::read::numbered;
use self::reserve::Reserve;
pub use self::reserve::Room;
pub use self::verify::{Verified, verify};
use crate::media::{Media, MediaError};

/// A position in the log: the number of bytes logged before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition(pub u64);

/// Options of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The size of a segment in bytes after which a new one begins.
    pub segment_bytes: u64,
    /// The size in bytes of a file that is given up when the disk is full, so that what has begun can end. 0: none.
    pub reserve_bytes: u64,
    /// The room in bytes that is made ahead of the log's end ([`Media::make_room_ahead`]). 0: none.
    pub ahead_bytes: u64,
}

impl Default for LogOptions {
    /// Segments of 64 MiB, no reserve, no room ahead.
    fn default() -> Self {
        LogOptions {
            segment_bytes: 64 << 20,
            reserve_bytes: 0,
            ahead_bytes: 0,
        }
    }
}

/// Why a log cannot be opened or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The disk failed.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// An earlier error left the disk in an unknown state.
    #[error("the log has stopped after an error: {reason}")]
    Stopped {
        /// The earlier error.
        reason: String,
    },
    /// Durable bytes have changed.
    #[error("{file} is damaged at byte {offset}: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// The offset in the file, in bytes.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A segment is missing, or the checkpoint that the log continues.
    #[error("the log has a gap: {what}")]
    Gap {
        /// What is missing.
        what: String,
    },
    /// A record cannot be logged, for example because it is too long.
    #[error("a record cannot be logged: {reason}")]
    Unloggable {
        /// Why.
        reason: String,
    },
    /// The node cannot replay a record.
    #[error("a record cannot be replayed: {reason}")]
    Unreplayable {
        /// Why.
        reason: String,
    },
}

impl LogError {
    /// Whether the disk is full: the log goes on when there is room.
    pub fn is_full(&self) -> bool {
        matches!(self, LogError::Media(MediaError::Full { .. }))
    }
}

/// The result of opening a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Whether the log is new: then the first write has to be a checkpoint.
    pub is_new: bool,
    /// The number of records in the checkpoint.
    pub checkpointed: u64,
    /// The number of records in the log after it.
    pub logged: u64,
    /// The length of the torn tail that was cut off, in bytes.
    pub cut: u64,
}

/// A node's log. See the module.
#[derive(Clone, Debug)]
pub struct Log<D> {
    media: D,
    options: LogOptions,
    /// The last segment and its first position; `None` in a new log.
    segment: Option<(String, u64)>,
    end: LogPosition,
    durable: LogPosition,
    /// The position of the newest checkpoint.
    checkpoint: LogPosition,
    /// The size of the newest checkpoint in bytes.
    checkpoint_bytes: u64,
    /// A checkpoint that is not adopted yet.
    partial: Option<PartialCheckpoint>,
    buffer: Vec<u8>,
    reserve: Reserve,
    /// The last marker since the checkpoint.
    epoch: Option<u64>,
    stopped: Option<String>,
}

impl<D: Media> Log<D> {
    /// Opens the log on a disk and passes every record to `replay`, in order: first the checkpoint's, then
    /// the log's. An error of `replay` ends it.
    ///
    /// # Errors
    /// When the disk fails, its files are damaged, or `replay` fails.
    pub fn open<R: DeserializeOwned>(
        media: D,
        options: LogOptions,
        replay: &mut dyn FnMut(R) -> Result<(), String>,
    ) -> Result<(Log<D>, Opened), LogError> {
        let mut log = Log {
            media,
            options,
            segment: None,
            end: LogPosition(0),
            durable: LogPosition(0),
            checkpoint: LogPosition(0),
            checkpoint_bytes: 0,
            partial: None,
            buffer: Vec::new(),
            reserve: Reserve::default(),
            epoch: None,
            stopped: None,
        };
        let mut opened = Opened::default();
        let files = log.media.files()?;
        if files.iter().any(|file| file == PARTIAL) {
            log.media.remove(PARTIAL)?;
        }
        let Some((checkpoint, at)) = read::newest_checkpoint(&mut log.media, &files)? else {
            opened.is_new = true;
            log.refill_reserve()?;
            return Ok((log, opened));
        };
        let media = &mut log.media;
        (opened.checkpointed, log.checkpoint_bytes) =
            read::checkpoint(media, &checkpoint, at, replay)?;
        log.checkpoint = LogPosition(at);
        let mut epoch = None;
        let read = read::segments(media, numbered(&files, "log-"), at, &mut |found| {
            if let Frame::Marker(number) = found.frame {
                epoch = Some(number);
            }
            read::replay_frame(found, replay)
        })?;
        log.epoch = epoch;
        opened.logged = read.records;
        opened.cut = read.torn.as_ref().map_or(0, |torn| torn.bytes);
        if read.has_tail {
            log.media.cut(&read.last.0, read.end - read.last.1)?;
        }
        // Complete frames that were found need not have been synced before.
        log.media.sync(&read.last.0)?;
        log.media
            .make_room_ahead(&read.last.0, options.ahead_bytes)?;
        log.segment = Some(read.last);
        log.end = LogPosition(read.end);
        log.durable = log.end;
        log.remove_older(&files)?;
        log.refill_reserve()?;
        Ok((log, opened))
    }

    /// The end of the log.
    pub fn end(&self) -> LogPosition {
        self.end
    }

    /// The position up to which the log is durable.
    pub fn durable(&self) -> LogPosition {
        self.durable
    }

    /// The number of bytes logged since the newest checkpoint: what a recovery would replay.
    pub fn since_checkpoint(&self) -> u64 {
        self.end.0 - self.checkpoint.0
    }

    /// The position of the newest checkpoint.
    pub fn checkpoint_at(&self) -> LogPosition {
        self.checkpoint
    }

    /// The files that a recovery would read now, each with the bytes of it that belong to the log: the newest
    /// checkpoint and the segments since.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn kept_files(&mut self) -> Result<Vec<(String, u64)>, LogError> {
        let files = self.media.files()?;
        let segments = numbered(&files, "log-");
        let at = self.checkpoint.0;
        let first = segments.iter().rposition(|(_, start)| *start <= at);
        let needed = &segments[first.unwrap_or(0)..];
        let ends = needed.iter().skip(1).map(|(_, start)| *start);
        let ends = ends.chain([self.end.0]);
        let mut kept = vec![(checkpoint::checkpoint_name(at), self.checkpoint_bytes)];
        kept.extend(
            needed
                .iter()
                .zip(ends)
                .map(|((file, start), end)| (file.clone(), end - start)),
        );
        Ok(kept)
    }

    /// The disk.
    pub fn media(&self) -> &D {
        &self.media
    }

    /// The disk, for injecting faults.
    pub fn media_mut(&mut self) -> &mut D {
        &mut self.media
    }

    /// The disk without the log: what a crash leaves of a node.
    pub fn into_media(self) -> D {
        self.media
    }

    /// Appends records as one frame. They are durable after the next sync.
    ///
    /// # Errors
    /// When the disk fails; the log then stops. When the disk is full ([`LogError::is_full`]) and the reserve is used
    /// up, nothing of the frame stays: the log goes on, and the records may be appended later.
    ///
    /// # Panics
    /// When a new log has no checkpoint yet.
    pub fn append<R: Serialize>(&mut self, records: &[R]) -> Result<(), LogError> {
        self.running()?;
        if records.is_empty() {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        frame::begin(&mut buffer);
        for record in records {
            frame::put(&mut buffer, record)?;
        }
        frame::end(&mut buffer, self.end.0, self.durable.0);
        let appended = self.append_frame(&buffer);
        self.buffer = buffer;
        appended
    }

    /// Appends a frame.
    fn append_frame(&mut self, frame: &[u8]) -> Result<(), LogError> {
        let Some((segment, start)) = &self.segment else {
            panic!("a log begins with a checkpoint");
        };
        let (segment, start) = (segment.clone(), *start);
        let mut written = self.append_whole(&segment, frame, self.end.0 - start);
        if matches!(&written, Err(error) if error.is_full()) && self.give_up_reserve()? {
            written = self.append_whole(&segment, frame, self.end.0 - start);
        }
        written?;
        self.end.0 += frame.len() as u64;
        if self.end.0 - start >= self.options.segment_bytes {
            self.rotate()?;
        }
        Ok(())
    }

    /// Appends bytes to a segment of this length, or nothing if the disk is full.
    fn append_whole(&mut self, segment: &str, bytes: &[u8], length: u64) -> Result<(), LogError> {
        let written = self.media.append(segment, bytes);
        if matches!(written, Err(MediaError::Full { .. })) {
            let cut = self.media.cut(segment, length);
            self.stop_on(cut)?;
            return written.map_err(LogError::from);
        }
        self.stop_on(written)
    }

    /// Syncs the segment and begins a new one. On a full disk the log goes on in the old one.
    ///
    /// # Errors
    /// When the disk fails; the log then stops.
    pub fn rotate(&mut self) -> Result<(), LogError> {
        self.running()?;
        self.end_segment()?;
        match self.begin_segment() {
            Err(error) if error.is_full() => Ok(()),
            begun => begun,
        }
    }

    /// Makes the last segment durable, without zeros behind its end: a segment that is followed by another has none.
    fn end_segment(&mut self) -> Result<(), LogError> {
        let Some((segment, start)) = self.segment.clone() else {
            return Ok(());
        };
        let until = self.begin_sync();
        let mut synced = self.media.cut(&segment, until.0 - start);
        if synced.is_ok() {
            synced = self.media.sync(&segment);
        }
        self.note_synced(until, synced)
    }

    /// The position up to which a sync that begins now makes the log durable.
    pub fn begin_sync(&self) -> LogPosition {
        self.end
    }

    /// Ends a sync that began at `until`: syncs the disk.
    ///
    /// # Errors
    /// When the disk fails; the log then stops, and what is durable is unknown.
    pub fn end_sync(&mut self, until: LogPosition) -> Result<(), LogError> {
        self.running()?;
        if until <= self.durable {
            return Ok(()); // A new segment has synced the one before it.
        }
        let segment = self.sync_file().map(str::to_owned);
        let segment = segment.expect("what was appended was appended to a segment");
        let synced = self.media.sync(&segment);
        self.note_synced(until, synced)
    }

    /// The file that a sync of the log has to sync: the last segment. Those before it are durable.
    pub fn sync_file(&self) -> Option<&str> {
        self.segment.as_ref().map(|(segment, _)| &**segment)
    }

    /// Ends a sync that began at `until` and that the driver has done itself, of [`Log::sync_file`] as it was then.
    ///
    /// # Errors
    /// When the sync has failed; the log then stops, and what is durable is unknown.
    pub fn note_synced(
        &mut self,
        until: LogPosition,
        synced: Result<(), MediaError>,
    ) -> Result<(), LogError> {
        self.running()?;
        self.stop_on(synced)?;
        self.durable = self.durable.max(until);
        Ok(())
    }

    /// Removes the checkpoints and segments that the newest checkpoint replaces.
    fn remove_older(&mut self, files: &[String]) -> Result<(), LogError> {
        let at = self.checkpoint.0;
        for (checkpoint, of) in numbered(files, "checkpoint-") {
            if of < at {
                self.media.remove(&checkpoint)?;
            }
        }
        let segments = numbered(files, "log-");
        for (number, (segment, _)) in segments.iter().enumerate() {
            // A segment ends where the next one begins.
            if segments
                .get(number + 1)
                .is_some_and(|(_, next)| *next <= at)
            {
                self.media.remove(segment)?;
            }
        }
        Ok(())
    }

    fn begin_segment(&mut self) -> Result<(), LogError> {
        let name = format!("log-{:016x}", self.end.0);
        let created = self.media.create(&name);
        if matches!(created, Err(MediaError::Full { .. })) {
            return created.map_err(LogError::from);
        }
        self.stop_on(created)?;
        let synced = self.media.sync(&name);
        self.stop_on(synced)?;
        let ahead = self.media.make_room_ahead(&name, self.options.ahead_bytes);
        self.stop_on(ahead)?;
        self.segment = Some((name, self.end.0));
        Ok(())
    }

    fn running(&self) -> Result<(), LogError> {
        match &self.stopped {
            None => Ok(()),
            Some(reason) => Err(LogError::Stopped {
                reason: reason.clone(),
            }),
        }
    }

    fn stop_on<E: fmt::Display + Into<LogError>>(
        &mut self,
        done: Result<(), E>,
    ) -> Result<(), LogError> {
        done.map_err(|error| {
            self.stopped = Some(error.to_string());
            error.into()
        })
    }
}
