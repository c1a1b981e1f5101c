//! Verification of a log: reads everything that a recovery would read, and changes nothing.

use serde::de::DeserializeOwned;

use super::LogError;
use super::checkpoint::PARTIAL;
use super::read::{self, TornTail, numbered};
use crate::media::Media;

/// A log without damage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Whether the log is new: it has no checkpoint and no records.
    pub is_new: bool,
    /// The number of records in the newest checkpoint.
    pub checkpointed: u64,
    /// The number of records in the log after it.
    pub logged: u64,
    /// The bytes read.
    pub bytes: u64,
    /// An incomplete end of the log. A crash leaves one, and recovery cuts it off: no output that depends on it has
    /// left. Where no crash has been, the last synced frames are damaged; the two look the same.
    pub torn: Option<TornTail>,
    /// Files that a recovery does not read: an incomplete checkpoint, and what the newest checkpoint has replaced.
    pub unused: Vec<String>,
}

/// Reads the log on a disk and passes its records to `check`, in order: first the checkpoint's, then the log's.
///
/// # Errors
/// The first damage, with its file and the offset of the damaged frame, or that the disk fails, or an error of
/// `check`. What it does not report, recovery replays.
pub fn verify<R: DeserializeOwned>(
    media: &mut impl Media,
    check: &mut dyn FnMut(R) -> Result<(), String>,
) -> Result<Verified, LogError> {
    let files = media.files()?;
    let mut verified = Verified::default();
    let mut used: Vec<String> = Vec::new();
    match read::newest_checkpoint(media, &files)? {
        // A crash during the first checkpoint leaves an empty segment.
        None => verified.is_new = true,
        Some((checkpoint, at)) => {
            (verified.checkpointed, verified.bytes) =
                read::checkpoint(media, &checkpoint, at, check)?;
            let segments = numbered(&files, "log-");
            let read = read::segments(media, segments.clone(), at, &mut |found| {
                read::replay_frame(found, check)
            })?;
            let first = segments.iter().rposition(|(_, start)| *start <= at);
            let first = first.unwrap_or(0);
            verified.bytes += read.end - segments[first].1;
            verified.logged = read.records;
            verified.torn = read.torn;
            used.push(checkpoint);
            used.extend(segments.into_iter().skip(first).map(|(file, _)| file));
        }
    }
    let is_ours = |file: &&String| {
        **file == PARTIAL || file.starts_with("log-") || file.starts_with("checkpoint-")
    };
    let unused = files.iter().filter(is_ours);
    let unused = unused.filter(|file| !used.contains(file)).cloned();
    verified.unused = unused.collect();
    Ok(verified)
}
