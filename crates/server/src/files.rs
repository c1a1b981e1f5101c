//! A folder of files as a log's disk.
//!
//! [`Media`] is implemented with `fsync`: of a file for its bytes, of its folder for its name. Files
//! that are appended to stay open. A lock admits one process to a folder at a time; the operating system
//! releases it however the process ends.
//!
//! An error of the operating system is passed on with its message, and stops the node.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anabranch_storage::media::{Media, MediaError};

use crate::removal::{Reader, Remover};

/// The file whose lock keeps other processes out.
const LOCK: &str = "lock";

/// How often a lock is tried again, and the pause before each.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// An open file of a folder, to be synced by another thread.
#[derive(Debug)]
pub(crate) struct FileHandle {
    name: String,
    file: Arc<File>,
}

impl FileHandle {
    /// Makes the file's bytes durable. Its name is durable already.
    pub(crate) fn sync(&self) -> Result<(), MediaError> {
        let synced = self.file.sync_data();
        synced.map_err(|error| failed("sync", &self.name, &error))
    }
}

/// A folder of files that implements [`Media`].
#[derive(Debug)]
pub struct FileDisk {
    folder: PathBuf,
    /// Files that were appended to.
    open: BTreeMap<String, OpenFile>,
    /// Whether names have changed since the folder was synced.
    names_changed: bool,
    remover: Remover,
    _lock: File,
}

/// An open file that is appended to.
#[derive(Debug)]
struct OpenFile {
    file: Arc<File>,
    /// Where the next bytes go.
    end: u64,
    /// Up to where the file has room: zeros behind its end.
    room: u64,
    /// How much room is made at a time.
    step: u64,
}

impl OpenFile {
    /// Appends bytes, and makes room ahead of them if there is none left.
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let end = self.end + bytes.len() as u64;
        if self.step > 0 && end > self.room {
            // Written rather than allocated: then syncs of what comes there change nothing but the bytes.
            let zeros = vec![0; usize::try_from(end - self.end + self.step).unwrap_or(0)];
            match self.file.write_all_at(&zeros, self.end) {
                Ok(()) => self.room = self.end + zeros.len() as u64,
                // Room ahead is for speed alone: on a full disk the bytes may still fit.
                Err(_) => {
                    self.file.set_len(self.end)?;
                    self.room = self.end;
                }
            }
        }
        self.file.write_all_at(bytes, self.end)?;
        self.end = end;
        self.room = self.room.max(end);
        Ok(())
    }

    fn cut(&mut self, length: u64) -> std::io::Result<()> {
        self.file.set_len(length)?;
        self.end = length;
        self.room = length;
        Ok(())
    }
}

impl Drop for OpenFile {
    /// Gives up the room. What is left after a crash, the next start cuts off.
    fn drop(&mut self) {
        if self.room > self.end {
            let _ = self.file.set_len(self.end);
        }
    }
}

impl FileDisk {
    /// Opens and locks a folder; creates it if there is none.
    ///
    /// # Errors
    /// When the operating system refuses, or another process has locked the folder.
    pub fn open(folder: &Path) -> Result<FileDisk, MediaError> {
        let failed = |error: std::io::Error| failed("open", &folder.display().to_string(), &error);
        std::fs::create_dir_all(folder).map_err(failed)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join(LOCK))
            .map_err(failed)?;
        let mut locked = lock.try_lock();
        // A process that has just ended, or a program that this process is starting, may have the lock for a moment.
        for _ in 0..LOCK_ATTEMPTS {
            if !matches!(locked, Err(TryLockError::WouldBlock)) {
                break;
            }
            thread::sleep(LOCK_PAUSE);
            locked = lock.try_lock();
        }
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(MediaError::Failed {
                    operation: "lock",
                    file: folder.display().to_string(),
                    reason: "another process has locked it".to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut disk = FileDisk {
            folder: folder.to_owned(),
            open: BTreeMap::new(),
            names_changed: true,
            remover: Remover::default(),
            _lock: lock,
        };
        disk.sync_names()?;
        if let Some(above) = folder.parent().filter(|above| above.is_dir()) {
            File::open(above)
                .and_then(|f| f.sync_all())
                .map_err(failed)?;
        }
        Ok(disk)
    }

    /// A file to be synced by another thread.
    ///
    /// # Errors
    /// When the operating system refuses to open it.
    pub(crate) fn handle(&mut self, file: &str) -> Result<FileHandle, MediaError> {
        Ok(FileHandle {
            name: file.to_owned(),
            file: Arc::clone(&self.writable(file)?.file),
        })
    }

    /// A file to be read by another thread. As long as it has the reader, files that are removed meanwhile keep their bytes
    /// for it.
    ///
    /// # Errors
    /// When the operating system refuses to open it.
    pub(crate) fn open_to_read(&self, file: &str) -> Result<(File, Reader), MediaError> {
        let opened = File::open(self.path(file));
        let opened = opened.map_err(|error| failed("read", file, &error))?;
        Ok((opened, self.remover.reader()))
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    fn sync_names(&mut self) -> Result<(), MediaError> {
        if std::mem::take(&mut self.names_changed) {
            let folder = File::open(&self.folder);
            let synced = folder.and_then(|folder| folder.sync_all());
            synced.map_err(|error| failed("sync", &self.folder.display().to_string(), &error))?;
        }
        Ok(())
    }

    /// The open file of this name.
    fn writable(&mut self, file: &str) -> Result<&mut OpenFile, MediaError> {
        if !self.open.contains_key(file) {
            let failed = |error: std::io::Error| failed("open", file, &error);
            let opened = OpenOptions::new().write(true).open(self.path(file));
            let opened = opened.map_err(failed)?;
            let end = opened.metadata().map_err(failed)?.len();
            let opened = OpenFile {
                file: Arc::new(opened),
                end,
                room: end,
                step: 0,
            };
            self.open.insert(file.to_owned(), opened);
        }
        self.open.get_mut(file).ok_or_else(|| MediaError::Missing {
            file: file.to_owned(),
        })
    }
}

impl Media for FileDisk {
    fn files(&mut self) -> Result<Vec<String>, MediaError> {
        let failed = |error: std::io::Error| failed("list", "the folder", &error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            names.extend(name.into_string().ok().filter(|name| name != LOCK));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn read(&mut self, file: &str, offset: u64, length: usize) -> Result<Vec<u8>, MediaError> {
        let failed = |error: std::io::Error| failed("read", file, &error);
        let mut opened = File::open(self.path(file)).map_err(failed)?;
        opened.seek(SeekFrom::Start(offset)).map_err(failed)?;
        let mut bytes = Vec::new();
        let mut part = opened.take(length as u64);
        part.read_to_end(&mut bytes).map_err(failed)?;
        Ok(bytes)
    }

    fn create(&mut self, file: &str) -> Result<(), MediaError> {
        self.open.remove(file);
        let created = File::create(self.path(file));
        drop(created.map_err(|error| failed("create", file, &error))?);
        self.names_changed = true;
        self.writable(file).map(|_| ())
    }

    fn append(&mut self, file: &str, bytes: &[u8]) -> Result<(), MediaError> {
        let written = self.writable(file)?.append(bytes);
        written.map_err(|error| failed("write to", file, &error))
    }

    fn make_room_ahead(&mut self, file: &str, bytes: u64) -> Result<(), MediaError> {
        self.writable(file)?.step = bytes;
        Ok(())
    }

    fn sync(&mut self, file: &str) -> Result<(), MediaError> {
        let synced = self.writable(file)?.file.sync_data();
        synced.map_err(|error| failed("sync", file, &error))?;
        self.sync_names()
    }

    fn cut(&mut self, file: &str, length: u64) -> Result<(), MediaError> {
        let cut = self.writable(file)?.cut(length);
        cut.map_err(|error| failed("shorten", file, &error))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), MediaError> {
        self.open.remove(from);
        self.open.remove(to);
        let renamed = std::fs::rename(self.path(from), self.path(to));
        renamed.map_err(|error| failed("rename", from, &error))?;
        self.names_changed = true;
        self.sync_names()
    }

    fn remove(&mut self, file: &str) -> Result<(), MediaError> {
        self.open.remove(file);
        let path = self.path(file);
        let removed = self.remover.remove(&path);
        removed.map_err(|error| failed("remove", file, &error))?;
        self.names_changed = true;
        Ok(())
    }
}

fn failed(operation: &'static str, file: &str, error: &std::io::Error) -> MediaError {
    let file = file.to_owned();
    match error.kind() {
        ErrorKind::NotFound => MediaError::Missing { file },
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => MediaError::Full { file },
        _ => MediaError::Failed {
            operation,
            file,
            reason: error.to_string(),
        },
    }
}
