//! Epochs: where the logs of several nodes can be cut so that what is left of them fits together.
//!
//! A node whose records need not be durable before its output leaves puts a *marker* into its log whenever a new epoch
//! begins. After a crash, all logs are cut at the end of the last epoch that every one of them has as a whole
//! (`docs/protocols/durability.md`). A marker with the number *e* ends the epochs below *e* in its log and begins *e*.

use super::frame::{self, Frame};
use super::read::{self, numbered};
use super::{Log, LogError, LogPosition};
use crate::media::{Media, MediaError};

/// The name of a segment that is being removed.
const REMOVED: &str = "removed";

/// Markers.
impl<D: Media> Log<D> {
    /// Begins an epoch: appends a marker.
    ///
    /// # Errors
    /// As [`Log::append`].
    ///
    /// # Panics
    /// When a new log has no checkpoint yet.
    pub fn append_epoch(&mut self, epoch: u64) -> Result<(), LogError> {
        self.running()?;
        let mut buffer = std::mem::take(&mut self.buffer);
        frame::marker(&mut buffer, epoch, self.end.0, self.durable.0);
        let appended = self.append_frame(&buffer);
        self.buffer = buffer;
        appended?;
        self.epoch = Some(epoch);
        Ok(())
    }

    /// The epoch of the last marker; `None` if the log since its checkpoint has none.
    pub fn epoch(&self) -> Option<u64> {
        self.epoch
    }
}

/// The last marker in the log on a disk. `None` if there is none; the epochs below it are there as a whole.
///
/// # Errors
/// When the disk fails, or its files are damaged.
pub fn last_epoch(media: &mut impl Media) -> Result<Option<u64>, LogError> {
    let mut last = None;
    walk(media, &mut |_, epoch| last = Some(epoch))?;
    Ok(last)
}

/// Cuts the log on a disk at the end of an epoch: what follows the first marker above it is removed. Afterwards the
/// whole log is durable. If it is interrupted, it can be repeated, with the same result.
///
/// # Errors
/// When the disk fails, or its files are damaged.
pub fn cut_after_epoch(media: &mut impl Media, epoch: u64) -> Result<(), LogError> {
    let mut end: Option<LogPosition> = None;
    walk(media, &mut |position, found| {
        if found > epoch && end.is_none() {
            end = Some(LogPosition(position.0 + frame::MARKER_BYTES as u64));
        }
    })?;
    let files = media.files()?;
    let segments = numbered(&files, "log-");
    let Some(LogPosition(end)) = end else {
        // A log that lacks the end of the epoch is whole as it is; what it has may be in the cache only.
        if let Some((last, _)) = segments.last() {
            media.sync(last)?;
        }
        return Ok(());
    };
    // From the last one on, so that a crash in between leaves no gap. A removed file may be back after a crash, and would
    // be behind a gap then; a renamed one is not.
    for (file, start) in segments.iter().rev() {
        if *start >= end {
            media.rename(file, REMOVED)?;
            continue;
        }
        media.cut(file, end - start)?;
        media.sync(file)?;
        break;
    }
    if media.files()?.iter().any(|file| file == REMOVED) {
        media.remove(REMOVED)?;
    }
    Ok(())
}

/// Appends a marker to the log on a disk, durably.
///
/// # Errors
/// When the disk fails or is full, or its files are damaged.
pub fn mark_epoch(media: &mut impl Media, epoch: u64) -> Result<(), LogError> {
    let end = walk(media, &mut |_, _| {})?;
    let files = media.files()?;
    let Some((last, start)) = numbered(&files, "log-").pop() else {
        return Err(LogError::Media(MediaError::Missing {
            file: "log".to_owned(),
        }));
    };
    // A torn tail is in the way.
    media.cut(&last, end - start)?;
    let mut marker = Vec::new();
    frame::marker(&mut marker, epoch, end, end);
    media.append(&last, &marker)?;
    media.sync(&last)?;
    Ok(())
}

/// Passes the markers of a log to `take`, each with its position, and returns the end of the log.
fn walk(media: &mut impl Media, take: &mut dyn FnMut(LogPosition, u64)) -> Result<u64, LogError> {
    let files = media.files()?;
    let Some((_, at)) = read::newest_checkpoint(media, &files)? else {
        return Ok(0);
    };
    let read = read::segments(media, numbered(&files, "log-"), at, &mut |found| {
        if let Frame::Marker(epoch) = found.frame {
            take(LogPosition(found.position), epoch);
        }
        Ok(0)
    })?;
    Ok(read.end)
}
