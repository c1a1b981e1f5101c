//! Backups of a running cluster: the files of each node's log up to a common point, copied while everything runs.
//!
//! 1. Every node is told to adopt no checkpoint for a moment, so that no checkpoint holds what comes after the point.
//! 2. The next epoch is opened: the point. Each node appends its marker at the end of a turn, as described in
//!    `docs/protocols/durability.md`.
//! 3. Each node then hands over its newest checkpoint and its log as open files, with their lengths, and may adopt
//!    checkpoints again. Files that it removes later can still be read.
//! 4. This thread copies them, and marks the copy as written with epochs. So its first start cuts all logs at the point.
//!
//! The nodes go on all the time; what they do for a backup takes no longer than to open some files.

use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use anabranch_protocol::Protocol;
use anabranch_types::NodeId;

use crate::backup_step::{BackupFile, BackupStep};
use crate::data::{APPLICATION, CLUSTER, DURABILITY};
use crate::description;
use crate::epochs::Epochs;
use crate::identity::{self, Identity};
use crate::inbox::Inbox;
use crate::thread::Envelope;

/// How long a node may take for its part. It takes a turn.
const NODE_TIMEOUT: Duration = Duration::from_secs(30);

/// Why there is no backup.
#[derive(Debug)]
pub(crate) enum BackupError {
    /// Another one is under way.
    Busy,
    /// The folder is not new, or not named by a whole path.
    Folder(String),
    /// The disk or a node failed.
    Failed(String),
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupError::Busy => f.write_str("another backup is under way: wait for its end"),
            BackupError::Folder(reason) | BackupError::Failed(reason) => f.write_str(reason),
        }
    }
}

/// Makes backups of a cluster.
pub(crate) trait Backups: Send + Sync {
    /// Writes a backup into a new folder. Takes as long as the copying; not for a node's thread.
    fn back_up(&self, to: &Path) -> Result<(), BackupError>;
}

/// Makes backups of a cluster whose nodes keep their logs in a data folder.
pub(crate) struct ClusterBackups<P: Protocol> {
    inboxes: Arc<[Inbox<Envelope<P>>]>,
    epochs: Arc<Epochs>,
    data: PathBuf,
    running: Mutex<()>,
}

impl<P: Protocol> ClusterBackups<P> {
    pub(crate) fn new(
        inboxes: Arc<[Inbox<Envelope<P>>]>,
        epochs: Arc<Epochs>,
        data: PathBuf,
    ) -> ClusterBackups<P> {
        ClusterBackups {
            inboxes,
            epochs,
            data,
            running: Mutex::new(()),
        }
    }

    /// Sends a step to all nodes and waits for all answers.
    fn all<T>(&self, step: impl Fn(SyncSender<T>) -> BackupStep) -> Result<Vec<T>, BackupError> {
        let request = |inbox: &Inbox<Envelope<P>>| -> Receiver<T> {
            let (sender, receiver) = sync_channel(1);
            inbox.put(Envelope::Backup(step(sender)));
            receiver
        };
        let receivers: Vec<Receiver<T>> = self.inboxes.iter().map(request).collect();
        let answers = receivers.iter().enumerate().map(|(node, receiver)| {
            receiver.recv_timeout(NODE_TIMEOUT).map_err(|_| {
                BackupError::Failed(format!(
                    "node {node} has not answered: its disk is full, or it has no log"
                ))
            })
        });
        answers.collect()
    }

    /// Opens the files of all nodes up to a common point.
    fn take(&self) -> Result<Vec<Vec<BackupFile>>, BackupError> {
        self.all(BackupStep::Hold)?;
        // No node has a checkpoint of what follows, and each appends its marker before it hands over its files.
        self.epochs.advance();
        let files = self.all(BackupStep::Take)?;
        let files: Result<Vec<Vec<BackupFile>>, String> = files.into_iter().collect();
        files.map_err(BackupError::Failed)
    }
}

impl<P> Backups for ClusterBackups<P>
where
    P: Protocol + Send,
{
    fn back_up(&self, to: &Path) -> Result<(), BackupError> {
        let _running = match self.running.try_lock() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(BackupError::Busy),
        };
        make_new(to).map_err(BackupError::Folder)?;
        let taken = self.take();
        for inbox in self.inboxes.iter() {
            inbox.put(Envelope::Backup(BackupStep::Release));
        }
        let failed = |error: std::io::Error| {
            BackupError::Failed(format!(
                "cannot write the backup to {}: {error}",
                to.display()
            ))
        };
        let taken = taken?;
        let identity = Identity::new().map_err(failed)?;
        identity.write(to).map_err(failed)?;
        for (node, files) in (0..).map(NodeId).zip(taken) {
            let folder = to.join(format!("node-{}", node.0));
            std::fs::create_dir(&folder).map_err(failed)?;
            identity.write_of_node(&folder, node).map_err(failed)?;
            for BackupFile {
                name,
                length,
                file,
                reader,
            } in files
            {
                copy(file.take(length), &folder.join(name), length).map_err(failed)?;
                drop(reader);
            }
            sync(&folder).map_err(failed)?;
        }
        copy_description(&self.data, to).map_err(failed)
    }
}

/// Makes a new folder, or takes an empty one.
///
/// # Errors
/// When the path is relative, or the folder holds something, with what to do.
pub fn make_new(folder: &Path) -> Result<(), String> {
    if !folder.is_absolute() {
        return Err(format!(
            "{} is relative: name the folder by a path from the root",
            folder.display()
        ));
    }
    let failed = |error: std::io::Error| format!("cannot use {}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    match std::fs::read_dir(folder).map_err(failed)?.next() {
        None => Ok(()),
        Some(_) => Err(format!(
            "{} holds files already: name a new or an empty folder",
            folder.display()
        )),
    }
}

/// Copies what a data folder has beside its logs, the file that makes it one last.
fn copy_description(folder: &Path, to: &Path) -> std::io::Result<()> {
    let (from, description) = description::flattened(folder)?;
    std::fs::create_dir(to.join(APPLICATION))?;
    for entry in std::fs::read_dir(from.join(APPLICATION))? {
        let name = entry?.file_name();
        copy_file(
            &from.join(APPLICATION).join(&name),
            &to.join(APPLICATION).join(&name),
        )?;
    }
    sync(&to.join(APPLICATION))?;
    // Its logs go on behind the common point: the first start cuts them there.
    copy(&b"batch\n"[..], &to.join(DURABILITY), 6)?;
    sync(to)?;
    write_description(&description, to)
}

/// Writes the file that makes a folder a database.
fn write_description(description: &str, to: &Path) -> std::io::Result<()> {
    let text = format!("{description}\n");
    copy(text.as_bytes(), &to.join(CLUSTER), text.len() as u64)?;
    sync(to)
}

/// Copies a data folder or backup into a new folder. The caller has verified it.
///
/// # Errors
/// When the operating system refuses.
pub fn restore(from: &Path, to: &Path) -> std::io::Result<()> {
    let (from, description) = description::flattened(from)?;
    // The copy goes on by itself: its folders do not fit those of the other any more.
    let identity = Identity::new()?;
    identity.write(to)?;
    for entry in std::fs::read_dir(&from)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_string_lossy();
        let node = number.strip_prefix("node-");
        let node = node.and_then(|number| number.parse().ok()).map(NodeId);
        if (node.is_none() && name != APPLICATION) || !entry.file_type()?.is_dir() {
            continue;
        }
        std::fs::create_dir(to.join(&name))?;
        for file in std::fs::read_dir(entry.path())? {
            let file = file?;
            // What a start makes anew, and what this copy has of its own.
            let own = ["reserve", "lock", identity::FILE];
            if !own.iter().any(|own| file.file_name() == *own) {
                copy_file(&file.path(), &to.join(&name).join(file.file_name()))?;
            }
        }
        if let Some(node) = node {
            identity.write_of_node(&to.join(&name), node)?;
        }
        sync(&to.join(&name))?;
    }
    copy_file(&from.join(DURABILITY), &to.join(DURABILITY))?;
    sync(to)?;
    write_description(&description, to)
}

fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let file = File::open(from)?;
    let length = file.metadata()?.len();
    copy(file, to, length)
}

/// Copies all of `from`, which has this length, into a new file, durably.
fn copy(mut from: impl Read, to: &Path, length: u64) -> std::io::Result<()> {
    let mut file = File::create(to)?;
    let copied = std::io::copy(&mut from, &mut file)?;
    if copied != length {
        let message = format!("{} bytes are missing of {}", length - copied, to.display());
        return Err(std::io::Error::other(message));
    }
    file.flush()?;
    file.sync_all()
}

fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}
