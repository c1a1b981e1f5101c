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
//! * **Damage.** An incomplete frame among synced ones is not a torn tail. Each frame records up to where
//!   the log was durable when it was written. If a complete frame after the hole shows that the hole was
//!   durable, recovery ends with [`LogError::Damaged`]. (In the frames of the last batch synced before a
//!   crash the two cases are indistinguishable.)
//! * **Checkpoints.** A checkpoint is written beside the log, synced, and renamed; only then are the
//!   segments below its position removed. A crash at any point leaves the older checkpoint with its log,
//!   or the newer one with its log. A crash during the first checkpoint leaves a new log.
//!
//! File names: `log-P` is the segment that begins at position `P`, `checkpoint-P` the checkpoint at
//! position `P`, both in hexadecimal; `checkpoint.partial` is an incomplete checkpoint.
//!
//! A disk error is final ([`LogError::Stopped`]): the node stops.

mod frame;

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use self::frame::{Found, HEADER};
use crate::media::{Media, MediaError};

/// A position in the log: the number of bytes logged before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition(pub u64);

/// Options of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The size of a segment in bytes after which a new one begins.
    pub segment_bytes: u64,
}

impl Default for LogOptions {
    /// 64 MiB.
    fn default() -> Self {
        LogOptions {
            segment_bytes: 64 << 20,
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

/// A function that takes the records of a checkpoint.
pub type Sink<'s, R> = dyn FnMut(R) + 's;

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
    /// The position of a prepared checkpoint that is not adopted.
    prepared: Option<LogPosition>,
    buffer: Vec<u8>,
    stopped: Option<String>,
}

/// The file of an incomplete checkpoint.
const PARTIAL: &str = "checkpoint.partial";

/// The size of a checkpoint's frame in bytes after which a new one begins.
const CHECKPOINT_FRAME: usize = 1 << 20;

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
            prepared: None,
            buffer: Vec::new(),
            stopped: None,
        };
        let mut opened = Opened::default();
        let files = log.media.files()?;
        if files.iter().any(|file| file == PARTIAL) {
            log.media.remove(PARTIAL)?;
        }
        let segments = numbered(&files, "log-");
        let Some((checkpoint, at)) = numbered(&files, "checkpoint-").pop() else {
            if let Some((first, at)) = segments.first()
                && !(segments.len() == 1 && *at == 0 && log.media.read(first, 0, 1)?.is_empty())
            {
                let what = format!("there is {first} and no checkpoint before it");
                return Err(LogError::Gap { what });
            }
            // A crash during the first checkpoint leaves an empty first segment: the log is new.
            opened.is_new = true;
            return Ok((log, opened));
        };
        opened.checkpointed = log.read_checkpoint(&checkpoint, at, replay)?;
        log.checkpoint = LogPosition(at);
        log.read_segments(segments, at, replay, &mut opened)?;
        log.remove_older(&files)?;
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

    /// The number of bytes logged since the newest checkpoint.
    pub fn since_checkpoint(&self) -> u64 {
        self.end.0 - self.checkpoint.0
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
    /// When the disk fails; the log then stops.
    ///
    /// # Panics
    /// When a new log has no checkpoint yet.
    pub fn append<R: Serialize>(&mut self, records: &[R]) -> Result<(), LogError> {
        self.running()?;
        let Some((segment, start)) = &self.segment else {
            panic!("a log begins with a checkpoint");
        };
        if records.is_empty() {
            return Ok(());
        }
        let (segment, start) = (segment.clone(), *start);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        frame::begin(&mut buffer);
        for record in records {
            frame::put(&mut buffer, record)?;
        }
        frame::end(&mut buffer, self.end.0, self.durable.0);
        let written = self.media.append(&segment, &buffer);
        let length = buffer.len() as u64;
        self.buffer = buffer;
        self.stop_on(written)?;
        self.end.0 += length;
        if self.end.0 - start >= self.options.segment_bytes {
            let until = self.begin_sync();
            self.end_sync(until)?;
            self.begin_segment()?;
        }
        Ok(())
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
        let segment = self.segment.as_ref().map(|(segment, _)| segment.clone());
        let segment = segment.expect("what was appended was appended to a segment");
        let synced = self.media.sync(&segment);
        self.stop_on(synced)?;
        self.durable = until;
        Ok(())
    }

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
        if self.segment.is_some() {
            let until = self.begin_sync();
            self.end_sync(until)?;
        }
        if self
            .segment
            .as_ref()
            .is_none_or(|(_, start)| *start < self.end.0)
        {
            self.begin_segment()?;
        }
        let written = self.write_checkpoint(write);
        self.prepared = Some(self.end);
        self.stop_on(written)
    }

    /// Makes the prepared checkpoint the newest one, and removes the log below it.
    ///
    /// # Errors
    /// When the disk fails; the log then stops.
    ///
    /// # Panics
    /// When none was prepared.
    pub fn adopt_checkpoint(&mut self) -> Result<(), LogError> {
        self.running()?;
        let prepared = self.prepared.take();
        let at = prepared.expect("a checkpoint is prepared before it is adopted");
        let adopted = self.rename_checkpoint(at);
        self.stop_on(adopted)
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
        self.read_checkpoint(&checkpoint_name(at), at, take)
            .map(|_| ())
    }

    fn write_checkpoint<R: Serialize>(
        &mut self,
        write: &mut dyn FnMut(&mut Sink<'_, R>),
    ) -> Result<(), LogError> {
        self.media.create(PARTIAL)?;
        let (media, at) = (&mut self.media, self.end.0);
        let (mut buffer, mut offset, mut written) = (Vec::new(), 0, Ok(()));
        frame::begin(&mut buffer);
        let mut flush = |buffer: &mut Vec<u8>| -> Result<(), LogError> {
            frame::end(buffer, offset, at);
            media.append(PARTIAL, buffer)?;
            offset += buffer.len() as u64;
            buffer.clear();
            frame::begin(buffer);
            Ok(())
        };
        write(&mut |record| {
            if written.is_ok() {
                written = frame::put(&mut buffer, &record);
            }
            if written.is_ok() && buffer.len() >= CHECKPOINT_FRAME {
                written = flush(&mut buffer);
            }
        });
        written?;
        if buffer.len() > HEADER {
            flush(&mut buffer)?;
        }
        // An empty frame marks a complete checkpoint.
        flush(&mut buffer)?;
        self.media.sync(PARTIAL)?;
        Ok(())
    }

    fn rename_checkpoint(&mut self, at: LogPosition) -> Result<(), LogError> {
        self.media.rename(PARTIAL, &checkpoint_name(at.0))?;
        self.checkpoint = at;
        let files = self.media.files()?;
        self.remove_older(&files)
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
        self.stop_on(created)?;
        let synced = self.media.sync(&name);
        self.stop_on(synced)?;
        self.segment = Some((name, self.end.0));
        Ok(())
    }

    fn read_checkpoint<R: DeserializeOwned>(
        &mut self,
        file: &str,
        at: u64,
        replay: &mut dyn FnMut(R) -> Result<(), String>,
    ) -> Result<u64, LogError> {
        let (mut offset, mut records) = (0, 0);
        loop {
            let header = self.media.read(file, offset, HEADER)?;
            let length = frame::length(&header).unwrap_or(0);
            let bytes = self.media.read(file, offset, HEADER + length)?;
            match frame::find(&bytes, offset) {
                Found::Whole { durable, .. } if durable != at => {
                    return Err(damaged(file, offset, "it belongs to another checkpoint"));
                }
                Found::Whole { payload: [], .. } => return Ok(records),
                Found::Whole { payload, .. } => {
                    records += replay_all(file, offset, payload, replay)?;
                }
                Found::Broken(what) => return Err(damaged(file, offset, what)),
            }
            offset += bytes.len() as u64;
        }
    }

    /// Reads the segments from position `at` on; the last one's torn tail is cut off.
    fn read_segments<R: DeserializeOwned>(
        &mut self,
        segments: Vec<(String, u64)>,
        at: u64,
        replay: &mut dyn FnMut(R) -> Result<(), String>,
        opened: &mut Opened,
    ) -> Result<(), LogError> {
        let first = segments.iter().rposition(|(_, start)| *start <= at);
        let Some(first) = first else {
            let what = format!("no segment continues the checkpoint at {at:#x}");
            return Err(LogError::Gap { what });
        };
        self.end = LogPosition(segments[first].1);
        let count = segments.len();
        for (number, (file, start)) in segments.into_iter().enumerate().skip(first) {
            if start != self.end.0 {
                let what = format!("{file} does not begin at the end of the segment before it");
                return Err(LogError::Gap { what });
            }
            let bytes = self.media.read(&file, 0, usize::MAX)?;
            let mut offset = 0;
            while offset < bytes.len() {
                match frame::find(&bytes[offset..], start + offset as u64) {
                    Found::Whole { payload, .. } => {
                        if start + offset as u64 >= at {
                            opened.logged += replay_all(&file, offset as u64, payload, replay)?;
                        }
                        offset += HEADER + payload.len();
                    }
                    Found::Broken(what) => {
                        let position = start + offset as u64;
                        let is_last = number + 1 == count;
                        if !is_last || frame::was_durable(&bytes[offset..], position) {
                            return Err(damaged(&file, offset as u64, what));
                        }
                        opened.cut = (bytes.len() - offset) as u64;
                        self.media.cut(&file, offset as u64)?;
                        break;
                    }
                }
            }
            self.end = LogPosition(start + offset as u64);
            self.segment = Some((file, start));
        }
        // Complete frames that were found need not have been synced before.
        if let Some((file, _)) = &self.segment {
            self.media.sync(file)?;
        }
        self.durable = self.end;
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

/// Replays every record of a frame.
fn replay_all<R: DeserializeOwned>(
    file: &str,
    offset: u64,
    mut payload: &[u8],
    replay: &mut dyn FnMut(R) -> Result<(), String>,
) -> Result<u64, LogError> {
    let mut records = 0;
    while !payload.is_empty() {
        let (record, rest) = postcard::take_from_bytes(payload).map_err(|error| {
            damaged(
                file,
                offset,
                &format!("a record cannot be decoded: {error}"),
            )
        })?;
        replay(record).map_err(|reason| LogError::Unreplayable { reason })?;
        payload = rest;
        records += 1;
    }
    Ok(records)
}

fn checkpoint_name(at: u64) -> String {
    format!("checkpoint-{at:016x}")
}

/// The files named by this prefix and a position, in order of position.
fn numbered(files: &[String], prefix: &str) -> Vec<(String, u64)> {
    let mut found: Vec<(String, u64)> = files
        .iter()
        .filter_map(|file| {
            let digits = file.strip_prefix(prefix)?;
            let number = u64::from_str_radix(digits, 16).ok()?;
            (digits.len() == 16).then(|| (file.clone(), number))
        })
        .collect();
    found.sort_by_key(|(_, number)| *number);
    found
}

fn damaged(file: &str, offset: u64, what: &str) -> LogError {
    LogError::Damaged {
        file: file.to_string(),
        offset,
        what: what.to_string(),
    }
}
