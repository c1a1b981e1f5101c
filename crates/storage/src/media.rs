//! The log's disk: a few files that grow at their ends.
//!
//! The [`Log`](crate::log::Log) uses a disk only through [`Media`], which has the operations of every
//! file system and no more. So a simulated disk can fail in all ways that a real one may:
//!
//! * Appended bytes may be lost, in whole or in part and in any order, until they are synced.
//! * A created file may be missing after a crash until it is synced; a removed one may be back.
//! * A rename is atomic, and durable when it returns. Synced bytes of the file stay synced.
//!
//! [`memory`] is the simulated disk. The disk of real files is in `server`, the only crate that may
//! access the machine. An error is final, and the log stops: after a failed sync the disk's contents are
//! unknown, and another sync cannot tell.

pub mod memory;

use thiserror::Error;

/// An error of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The disk is full.
    #[error("no space is left on the disk for {file}")]
    Full {
        /// The file that was to grow.
        file: String,
    },
    /// The file does not exist.
    #[error("there is no file {file}")]
    Missing {
        /// The file.
        file: String,
    },
    /// The disk or the operating system failed.
    #[error("cannot {operation} {file}: {reason}")]
    Failed {
        /// The operation, as a verb.
        operation: &'static str,
        /// The file.
        file: String,
        /// The reason, as far as known.
        reason: String,
    },
}

/// A disk, or one folder of it. Files are named in ASCII, without separators.
pub trait Media {
    /// The names of all files, sorted.
    ///
    /// # Errors
    /// When the disk fails.
    fn files(&mut self) -> Result<Vec<String>, MediaError>;

    /// Reads up to `length` bytes of a file from `offset` on; fewer at its end.
    ///
    /// # Errors
    /// When the disk fails, or the file does not exist.
    fn read(&mut self, file: &str, offset: u64, length: usize) -> Result<Vec<u8>, MediaError>;

    /// Creates an empty file, in place of an existing one.
    ///
    /// # Errors
    /// When the disk fails.
    fn create(&mut self, file: &str) -> Result<(), MediaError>;

    /// Appends bytes to a file.
    ///
    /// # Errors
    /// When the disk fails or is full, or the file does not exist; a part of the bytes may be appended.
    fn append(&mut self, file: &str, bytes: &[u8]) -> Result<(), MediaError>;

    /// From now on, makes room for so many bytes ahead of what is appended to the file, so that its syncs need not record
    /// that it has grown. After a crash the room is there as zeros behind what was appended; [`Media::cut`] gives it up. A
    /// disk may do nothing.
    ///
    /// # Errors
    /// When the disk fails, or the file does not exist.
    fn make_room_ahead(&mut self, file: &str, bytes: u64) -> Result<(), MediaError>;

    /// Makes a file durable, including its name.
    ///
    /// # Errors
    /// When the disk fails, or the file does not exist; what is durable is then unknown.
    fn sync(&mut self, file: &str) -> Result<(), MediaError>;

    /// Truncates a file, and gives up the room behind it; durable when it is synced.
    ///
    /// # Errors
    /// When the disk fails, or the file does not exist.
    fn cut(&mut self, file: &str, length: u64) -> Result<(), MediaError>;

    /// Renames a file, in place of an existing one; durable when it returns.
    ///
    /// # Errors
    /// When the disk fails, or the file does not exist.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), MediaError>;

    /// Removes a file.
    ///
    /// # Errors
    /// When the disk fails, or the file does not exist.
    fn remove(&mut self, file: &str) -> Result<(), MediaError>;
}
