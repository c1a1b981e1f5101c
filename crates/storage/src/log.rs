//! Records made durable in order, checkpoints, and recovery.
//!
//! A log is one file after the other (*segments*), each a sequence of *frames*: all records of one
//! batch, with a length, a checksum and the frame's position among all bytes ever logged. A
//! checkpoint is a file of frames too: records that rebuild what the log up to its position had
//! built. Recovery reads the newest whole checkpoint and the log from its position on, and hands
//! the records to whoever made them, in order.
//!
//! * **Group commit.** [`Log::append`] writes and does not wait. What was appended up to
//!   [`Log::end`] is durable when a sync that began after that has ended: [`Log::begin_sync`] and
//!   [`Log::end_sync`], apart so that a simulated sync takes simulated time.
//! * **Torn tails.** What was appended and not synced may be found whole, in part, with holes, or
//!   not at all. The log is cut at the first frame that is not whole: nobody had been told anything
//!   that depends on it.
//! * **Damage.** A frame that is not whole where everything had been synced is not a torn tail.
//!   Each frame says how far the log was durable when it was written, so one whole frame after the
//!   hole that says so tells the two apart, and recovery ends with [`LogError::Damaged`]. (In the
//!   frames of the last batch synced before a crash the two cannot be told apart by anybody.)
//! * **Checkpoints.** A checkpoint is written beside the log, synced, and renamed; only then are
//!   the segments below its position removed. A crash at any point leaves the older checkpoint with
//!   its log, or the newer one with its; in the first one, a log that is new.
//!
//! Names: `log-P` is the segment that begins at position `P`, `checkpoint-P` the checkpoint of
//! everything below `P`, both in hexadecimal; `checkpoint.partial` is on its way.
//!
//! An error of the disk is final ([`LogError::Stopped`]): the node stops.

mod frame;

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use self::frame::{Found, HEADER};
use crate::media::{Media, MediaError};

/// A place in the log: how many bytes have been logged before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition(pub u64);

/// How a log behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// After how many bytes a new segment begins.
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
    /// The disk has failed.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// An earlier error has left the disk in an unknown state.
    #[error("the log has stopped after an error: {reason}")]
    Stopped {
        /// That error.
        reason: String,
    },
    /// Something that was durable is not what it was.
    #[error("{file} is damaged at byte {offset}: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A segment, or the checkpoint that the log goes on from, is not there.
    #[error("the log has a gap: {what}")]
    Gap {
        /// What is missing.
        what: String,
    },
    /// A record is too long to be logged, or cannot be.
    #[error("a record cannot be logged: {reason}")]
    Unloggable {
        /// Why.
        reason: String,
    },
    /// Whoever made a record cannot do anything with it.
    #[error("a record cannot be replayed: {reason}")]
    Unreplayable {
        /// Why.
        reason: String,
    },
}

/// What opening a log has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Nothing has ever been logged here: the first thing to write is a checkpoint.
    pub is_new: bool,
    /// Records of the checkpoint.
    pub checkpointed: u64,
    /// Records of the log after it.
    pub logged: u64,
    /// How many bytes of a torn tail were cut off.
    pub cut: u64,
}

/// Takes the records of a checkpoint.
pub type Sink<'s, R> = dyn FnMut(R) + 's;

/// A node's log. See the module.
#[derive(Clone, Debug)]
pub struct Log<D> {
    media: D,
    options: LogOptions,
    /// The segment that grows, and the position at which it begins; none in a new log.
    segment: Option<(String, u64)>,
    end: LogPosition,
    durable: LogPosition,
    /// The position of the newest checkpoint.
    checkpoint: LogPosition,
    /// The position of a checkpoint that is written and not adopted.
    prepared: Option<LogPosition>,
    buffer: Vec<u8>,
    stopped: Option<String>,
}

/// Where a checkpoint goes until it is whole.
const PARTIAL: &str = "checkpoint.partial";

/// A checkpoint's frame is closed when it has grown to this.
const CHECKPOINT_FRAME: usize = 1 << 20;

impl<D: Media> Log<D> {
    /// Opens the log on a disk and hands every record, in order, to `replay`: first the
    /// checkpoint's, then the log's. What `replay` refuses ends it.
    ///
    /// # Errors
    /// When the disk fails, or what is on it is damaged.
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
                let what = format!("there is {first}, and no checkpoint that it goes on from");
                return Err(LogError::Gap { what });
            }
            // An empty first segment is what a crash in the first checkpoint leaves: nothing was ever logged.
            opened.is_new = true;
            return Ok((log, opened));
        };
        opened.checkpointed = log.read_checkpoint(&checkpoint, at, replay)?;
        log.checkpoint = LogPosition(at);
        log.read_segments(segments, at, replay, &mut opened)?;
        log.remove_older(&files)?;
        Ok((log, opened))
    }

    /// Everything appended so far ends here.
    pub fn end(&self) -> LogPosition {
        self.end
    }

    /// Everything up to here is durable.
    pub fn durable(&self) -> LogPosition {
        self.durable
    }

    /// How many bytes have been logged since the newest checkpoint.
    pub fn since_checkpoint(&self) -> u64 {
        self.end.0 - self.checkpoint.0
    }

    /// The disk.
    pub fn media(&self) -> &D {
        &self.media
    }

    /// The disk, to order its faults.
    pub fn media_mut(&mut self) -> &mut D {
        &mut self.media
    }

    /// Gives up the log for its disk: what a crash leaves of a node.
    pub fn into_media(self) -> D {
        self.media
    }

    /// Writes records, as one frame, at the end of the log. They are durable when a sync says so.
    ///
    /// # Errors
    /// When the disk fails; the log has then stopped.
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

    /// What a sync that begins now will have made durable when it ends.
    pub fn begin_sync(&self) -> LogPosition {
        self.end
    }

    /// A sync that began at `until` ends: the disk is asked, and what it says holds.
    ///
    /// # Errors
    /// When the disk fails; the log has then stopped, and what is durable is unknown.
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

    /// Writes a checkpoint: `write` hands over the records that rebuild everything built so far.
    /// When it returns, the checkpoint is durable, and what the log has below it is gone.
    ///
    /// # Errors
    /// When the disk fails; the log has then stopped.
    pub fn checkpoint<R: Serialize>(
        &mut self,
        write: &mut dyn FnMut(&mut Sink<'_, R>),
    ) -> Result<(), LogError> {
        self.prepare_checkpoint(write)?;
        self.adopt_checkpoint()
    }

    /// Writes a checkpoint that counts when it is [adopted](Log::adopt_checkpoint), and until then is
    /// as good as none. Everything appended so far is durable when it returns. One that was prepared
    /// before and not adopted is gone.
    ///
    /// # Errors
    /// When the disk fails; the log has then stopped.
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

    /// The checkpoint that was prepared stands from now on for what the log has below it.
    ///
    /// # Errors
    /// When the disk fails; the log has then stopped.
    ///
    /// # Panics
    /// When none was prepared.
    pub fn adopt_checkpoint(&mut self) -> Result<(), LogError> {
        self.running()?;
        let prepared = self.prepared.take();
        let at = prepared.expect("a checkpoint is adopted after it was prepared");
        let adopted = self.rename_checkpoint(at);
        self.stop_on(adopted)
    }

    /// Hands over the records of the newest checkpoint again.
    ///
    /// # Errors
    /// When the disk fails, the checkpoint is damaged, or `take` refuses a record.
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
        // An empty frame says that nothing is missing.
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

    /// Removes the checkpoints and segments that the newest checkpoint makes superfluous.
    fn remove_older(&mut self, files: &[String]) -> Result<(), LogError> {
        let at = self.checkpoint.0;
        for (checkpoint, of) in numbered(files, "checkpoint-") {
            if of < at {
                self.media.remove(&checkpoint)?;
            }
        }
        let segments = numbered(files, "log-");
        for (number, (segment, _)) in segments.iter().enumerate() {
            // It ends where the next one begins.
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
            let what = format!("no segment holds what came after the checkpoint at {at:#x}");
            return Err(LogError::Gap { what });
        };
        self.end = LogPosition(segments[first].1);
        let count = segments.len();
        for (number, (file, start)) in segments.into_iter().enumerate().skip(first) {
            if start != self.end.0 {
                let what = format!("{file} does not begin where the segment before it ends");
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
        // What was found whole need not have been synced: it is from now on.
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

/// Hands over every record of a frame.
fn replay_all<R: DeserializeOwned>(
    file: &str,
    offset: u64,
    mut payload: &[u8],
    replay: &mut dyn FnMut(R) -> Result<(), String>,
) -> Result<u64, LogError> {
    let mut records = 0;
    while !payload.is_empty() {
        let (record, rest) = postcard::take_from_bytes(payload)
            .map_err(|error| damaged(file, offset, &format!("a record is not one: {error}")))?;
        replay(record).map_err(|reason| LogError::Unreplayable { reason })?;
        payload = rest;
        records += 1;
    }
    Ok(records)
}

fn checkpoint_name(at: u64) -> String {
    format!("checkpoint-{at:016x}")
}

/// The files with this prefix and a position, in order of position.
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
