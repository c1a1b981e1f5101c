//! Where a log's bytes go: a few files that grow at their ends.
//!
//! The [`Log`](crate::log::Log) knows no disk. It asks a [`Media`] for what every file system has,
//! and no more, so that a simulated disk can do to it whatever a real one may:
//!
//! * What is appended may be lost, in whole or in part and in any order, until it is synced.
//! * A file that was created may be gone until it is synced; one that was removed may be back.
//! * A rename has happened wholly or not at all, and has happened for good when it returns. What
//!   was synced of the file before stays synced.
//!
//! [`memory`] is the simulated disk; the disk of real files is in `server`, which alone may touch
//! the machine. An error is final: whoever meets one stops (what a failed sync has left on the disk
//! is unknown, and syncing again says nothing about it).

pub mod memory;

use thiserror::Error;

/// What a disk may refuse.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MediaError {
    /// There is no room.
    #[error("no space is left on the disk for {file}")]
    Full {
        /// The file that was to grow.
        file: String,
    },
    /// There is no such file.
    #[error("there is no file {file}")]
    Missing {
        /// The file.
        file: String,
    },
    /// The disk, or the operating system, has failed.
    #[error("cannot {operation} {file}: {reason}")]
    Failed {
        /// What was tried, as a verb.
        operation: &'static str,
        /// With which file.
        file: String,
        /// What is known of the reason.
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

    /// Up to `length` bytes of a file from `offset` on; fewer where it ends before that.
    ///
    /// # Errors
    /// When the disk fails, or there is no such file.
    fn read(&mut self, file: &str, offset: u64, length: usize) -> Result<Vec<u8>, MediaError>;

    /// An empty file with this name, whatever was there.
    ///
    /// # Errors
    /// When the disk fails.
    fn create(&mut self, file: &str) -> Result<(), MediaError>;

    /// Adds bytes at the end of a file.
    ///
    /// # Errors
    /// When the disk fails or is full, or there is no such file; some of the bytes may be there.
    fn append(&mut self, file: &str, bytes: &[u8]) -> Result<(), MediaError>;

    /// Makes a file durable as it is, its name included.
    ///
    /// # Errors
    /// When the disk fails, or there is no such file; what is durable is then unknown.
    fn sync(&mut self, file: &str) -> Result<(), MediaError>;

    /// Shortens a file; durable when it is synced.
    ///
    /// # Errors
    /// When the disk fails, or there is no such file.
    fn cut(&mut self, file: &str, length: u64) -> Result<(), MediaError>;

    /// Gives a file another name, in place of what had it; durable when it returns.
    ///
    /// # Errors
    /// When the disk fails, or there is no such file.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), MediaError>;

    /// Removes a file.
    ///
    /// # Errors
    /// When the disk fails, or there is no such file.
    fn remove(&mut self, file: &str) -> Result<(), MediaError>;
}
