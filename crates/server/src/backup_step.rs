//! What a node does for a backup of its cluster: see [`crate::backup`].

use std::fs::File;
use std::sync::mpsc::SyncSender;

use crate::removal::Reader;

/// What a node is asked to do for a backup.
pub(crate) enum BackupStep {
    /// Adopt no checkpoint until the files are handed over or the backup is given up.
    Hold(SyncSender<()>),
    /// Hand over the files, once the open epoch has begun in the log.
    Take(SyncSender<Result<Vec<BackupFile>, String>>),
    /// Adopt checkpoints again.
    Release,
}

/// A file of a node's log.
#[derive(Debug)]
pub(crate) struct BackupFile {
    pub name: String,
    /// The bytes that belong to the backup.
    pub length: u64,
    pub file: File,
    /// Keeps its bytes if the file is removed meanwhile.
    pub reader: Reader,
}
