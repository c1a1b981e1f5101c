//! Reading a log's files, for recovery and for verification. Nothing is changed here.

use serde::de::DeserializeOwned;

use super::LogError;
use super::frame::{self, Found, Frame, HEADER};
use crate::media::Media;

/// An incomplete end of the last segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The segment.
    pub file: String,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The result of reading the segments of a log.
pub(super) struct Segments {
    /// The last segment and its first position.
    pub(super) last: (String, u64),
    /// The end of the log.
    pub(super) end: u64,
    /// The number of records from the checkpoint on.
    pub(super) records: u64,
    pub(super) torn: Option<TornTail>,
    /// Whether the last segment has more bytes than the log: a torn tail, or room that was made ahead.
    pub(super) has_tail: bool,
}

/// The newest checkpoint and its position; `None` if the log is new.
pub(super) fn newest_checkpoint(
    media: &mut impl Media,
    files: &[String],
) -> Result<Option<(String, u64)>, LogError> {
    if let Some(newest) = numbered(files, "checkpoint-").pop() {
        return Ok(Some(newest));
    }
    let segments = numbered(files, "log-");
    if let Some((first, at)) = segments.first()
        && !(segments.len() == 1 && *at == 0 && media.read(first, 0, 1)?.is_empty())
    {
        let what = format!("there is {first} and no checkpoint before it");
        return Err(LogError::Gap { what });
    }
    // A crash during the first checkpoint leaves an empty first segment: the log is new.
    Ok(None)
}

/// Passes the records of a checkpoint to `replay`; returns their number, and the checkpoint's size in bytes.
pub(super) fn checkpoint<R: DeserializeOwned>(
    media: &mut impl Media,
    file: &str,
    at: u64,
    replay: &mut dyn FnMut(R) -> Result<(), String>,
) -> Result<(u64, u64), LogError> {
    let (mut offset, mut records) = (0, 0);
    loop {
        let header = media.read(file, offset, HEADER)?;
        let length = frame::length(&header).unwrap_or(0);
        let bytes = media.read(file, offset, HEADER + length)?;
        match frame::find(&bytes, offset) {
            Found::Whole { durable, .. } if durable != at => {
                return Err(damaged(file, offset, "it belongs to another checkpoint"));
            }
            Found::Whole {
                frame: Frame::Records([]),
                ..
            } => {
                return Ok((records, offset + bytes.len() as u64));
            }
            Found::Whole {
                frame: Frame::Records(payload),
                ..
            } => {
                records += replay_all(file, offset, payload, replay)?;
            }
            Found::Whole { .. } => {
                return Err(damaged(file, offset, "a checkpoint has no markers"));
            }
            Found::Broken(what) => return Err(damaged(file, offset, what)),
        }
        offset += bytes.len() as u64;
    }
}

/// A frame of the log.
pub(super) struct FoundFrame<'b> {
    /// The segment, and the frame's offset in it in bytes.
    file: &'b str,
    offset: u64,
    /// Its position in the log.
    pub(super) position: u64,
    pub(super) frame: Frame<'b>,
}

/// Replays the records of a frame; returns their number.
pub(super) fn replay_frame<R: DeserializeOwned>(
    found: &FoundFrame<'_>,
    replay: &mut dyn FnMut(R) -> Result<(), String>,
) -> Result<u64, LogError> {
    match found.frame {
        Frame::Records(payload) => replay_all(found.file, found.offset, payload, replay),
        Frame::Marker(_) => Ok(0),
    }
}

/// Reads the segments that a checkpoint at position `at` needs, and passes the frames from there on to `take`, which
/// returns how many records it has replayed.
pub(super) fn segments(
    media: &mut impl Media,
    segments: Vec<(String, u64)>,
    at: u64,
    take: &mut dyn FnMut(&FoundFrame<'_>) -> Result<u64, LogError>,
) -> Result<Segments, LogError> {
    let first = segments.iter().rposition(|(_, start)| *start <= at);
    let Some(first) = first else {
        let what = format!("no segment continues the checkpoint at {at:#x}");
        return Err(LogError::Gap { what });
    };
    let count = segments.len();
    let mut read = Segments {
        end: segments[first].1,
        last: segments[first].clone(),
        records: 0,
        torn: None,
        has_tail: false,
    };
    for (number, (file, start)) in segments.into_iter().enumerate().skip(first) {
        if start != read.end {
            let what = format!("{file} does not begin at the end of the segment before it");
            return Err(LogError::Gap { what });
        }
        let is_last = number + 1 == count;
        let bytes = media.read(&file, 0, usize::MAX)?;
        let mut offset = 0;
        while offset < bytes.len() {
            let position = start + offset as u64;
            match frame::find(&bytes[offset..], position) {
                Found::Whole { frame, .. } => {
                    if position >= at {
                        read.records += take(&FoundFrame {
                            file: &file,
                            offset: offset as u64,
                            position,
                            frame,
                        })?;
                    }
                    offset += frame.bytes();
                }
                Found::Broken(what) => {
                    // A checkpoint is adopted only once the log below it is durable.
                    let is_torn = is_last
                        && position >= at
                        && !frame::was_durable(&bytes[offset..], position);
                    if !is_torn {
                        return Err(damaged(&file, offset as u64, what));
                    }
                    read.has_tail = true;
                    // Zeros are room that was made ahead.
                    let rest = &bytes[offset..];
                    read.torn = rest
                        .iter()
                        .rposition(|byte| *byte != 0)
                        .map(|last| TornTail {
                            file: file.clone(),
                            offset: offset as u64,
                            bytes: last as u64 + 1,
                        });
                    break;
                }
            }
        }
        read.end = start + offset as u64;
        if is_last && read.end < at {
            return Err(damaged(
                &file,
                offset as u64,
                "it ends below the checkpoint",
            ));
        }
        read.last = (file, start);
    }
    Ok(read)
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
        replay(record).map_err(|reason| LogError::Unreplayable {
            reason: format!("{file}, in the frame at byte {offset}: {reason}"),
        })?;
        payload = rest;
        records += 1;
    }
    Ok(records)
}

/// The files named by this prefix and a position, in order of position.
pub(super) fn numbered(files: &[String], prefix: &str) -> Vec<(String, u64)> {
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
