//! A simulated disk. It outlives its node; a crash loses or tears bytes that were not synced.
//!
//! The driver injects the faults, so that a seed gives the same run. [`MemoryDisk::crash`] loses or
//! tears unsynced bytes, with random numbers of the caller; [`DiskFaults`] makes reads and syncs fail,
//! and the disk full. The driver also decides how long a sync takes. [`MemoryDisk::damage`] flips bits.
//! [`DiskFaults::sync_lies`] is a planted bug: no log survives a disk that reports a sync that it did
//! not do, and a durability checker has to detect it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Media, MediaError};

/// The size of a sector, which a disk persists atomically; sectors may be persisted in any order.
const SECTOR: usize = 512;

/// The faults of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFaults {
    /// The disk's capacity in bytes.
    pub capacity: Option<u64>,
    /// Every read fails.
    pub reads_fail: bool,
    /// Every sync fails; a part of the unsynced bytes may be durable.
    pub syncs_fail: bool,
    /// A sync does nothing and reports success.
    pub sync_lies: bool,
}

/// Counters of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Appends.
    pub appends: u64,
    /// Bytes appended.
    pub bytes: u64,
    /// Successful syncs.
    pub syncs: u64,
}

/// A disk in memory. See the module.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    files: BTreeMap<String, File>,
    /// Removed files, which may be back after a crash.
    removed: BTreeMap<String, File>,
    faults: DiskFaults,
    counters: DiskCounters,
}

#[derive(Clone, Debug, Default)]
struct File {
    bytes: Vec<u8>,
    /// How many bytes certainly survive a crash.
    durable: usize,
    /// Bytes cut off the durable part, which may be back after a crash.
    cut: Vec<u8>,
    /// Whether the file certainly survives a crash.
    is_durable: bool,
    /// How much room is made ahead at a time, and up to where there is room: a crash leaves it as zeros.
    step: usize,
    room: usize,
}

impl MemoryDisk {
    /// An empty disk without faults.
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    /// Its faults.
    pub fn faults(&self) -> DiskFaults {
        self.faults
    }

    /// Sets its faults.
    pub fn set_faults(&mut self, faults: DiskFaults) {
        self.faults = faults;
    }

    /// Its counters.
    pub fn counters(&self) -> DiskCounters {
        self.counters
    }

    /// The number of bytes that it holds.
    pub fn used(&self) -> u64 {
        self.files
            .values()
            .map(|file| file.bytes.len() as u64)
            .sum()
    }

    /// Simulates a power loss. `draw(n)` returns a random number below `n`. Of a file's unsynced bytes,
    /// none remain, or a prefix, or some sectors with zeros between them, or all.
    pub fn crash(&mut self, draw: &mut dyn FnMut(u64) -> u64) {
        for (name, file) in std::mem::take(&mut self.removed) {
            if !self.files.contains_key(&name) && file.is_durable && draw(2) == 0 {
                self.files.insert(name, file);
            }
        }
        let mut gone = BTreeSet::new();
        for (name, file) in &mut self.files {
            if !file.is_durable && draw(2) == 0 {
                gone.insert(name.clone());
                continue;
            }
            file.tear(draw);
        }
        self.files.retain(|name, _| !gone.contains(name));
    }

    /// Flips one bit of a file's byte. Returns false if the file has no such byte.
    pub fn damage(&mut self, file: &str, offset: u64) -> bool {
        let found = self.files.get_mut(file);
        let byte = found.and_then(|file| file.bytes.get_mut(offset as usize));
        byte.map(|byte| *byte ^= 0x10).is_some()
    }

    fn file(&mut self, name: &str) -> Result<&mut File, MediaError> {
        self.files.get_mut(name).ok_or_else(|| MediaError::Missing {
            file: name.to_string(),
        })
    }
}

impl File {
    /// Reduces the file to what a crash leaves.
    fn tear(&mut self, draw: &mut dyn FnMut(u64) -> u64) {
        let kept = self.durable;
        let unsynced = self.bytes.len() - kept;
        if !self.cut.is_empty() && draw(2) == 0 {
            self.bytes.truncate(kept);
            self.bytes.append(&mut self.cut);
        } else if unsynced > 0 {
            match draw(4) {
                0 => self.bytes.truncate(kept),
                1 => self
                    .bytes
                    .truncate(kept + draw(unsynced as u64 + 1) as usize),
                2 => {
                    for from in (kept / SECTOR * SECTOR..self.bytes.len()).step_by(SECTOR) {
                        let until = (from + SECTOR).min(self.bytes.len());
                        if draw(2) == 0 {
                            self.bytes[from.max(kept)..until].fill(0);
                        }
                    }
                }
                _ => {}
            }
        }
        self.cut.clear();
        if self.bytes.len() < self.room {
            self.bytes.resize(self.room, 0);
        }
        self.step = 0;
        self.durable = self.bytes.len();
        self.is_durable = true;
    }
}

impl Media for MemoryDisk {
    fn files(&mut self) -> Result<Vec<String>, MediaError> {
        Ok(self.files.keys().cloned().collect())
    }

    fn read(&mut self, file: &str, offset: u64, length: usize) -> Result<Vec<u8>, MediaError> {
        if self.faults.reads_fail {
            return Err(failed("read", file));
        }
        let bytes = &self.file(file)?.bytes;
        let from = bytes.len().min(offset as usize);
        let until = bytes.len().min(from.saturating_add(length));
        Ok(bytes[from..until].to_vec())
    }

    fn create(&mut self, file: &str) -> Result<(), MediaError> {
        self.files.insert(file.to_string(), File::default());
        Ok(())
    }

    fn append(&mut self, file: &str, bytes: &[u8]) -> Result<(), MediaError> {
        let room = self
            .faults
            .capacity
            .map(|all| all.saturating_sub(self.used()));
        let fits = room.map_or(bytes.len(), |room| bytes.len().min(room as usize));
        let found = self.file(file)?;
        found.bytes.extend_from_slice(&bytes[..fits]);
        if found.step > 0 && found.bytes.len() > found.room {
            found.room = found.bytes.len() + found.step;
        }
        self.counters.appends += 1;
        self.counters.bytes += fits as u64;
        if fits < bytes.len() {
            let file = file.to_string();
            return Err(MediaError::Full { file });
        }
        Ok(())
    }

    fn make_room_ahead(&mut self, file: &str, bytes: u64) -> Result<(), MediaError> {
        self.file(file)?.step = bytes as usize;
        Ok(())
    }

    fn sync(&mut self, file: &str) -> Result<(), MediaError> {
        let faults = self.faults;
        let found = self.file(file)?;
        if faults.syncs_fail {
            return Err(failed("sync", file));
        }
        if !faults.sync_lies {
            found.durable = found.bytes.len();
            found.cut.clear();
            found.is_durable = true;
        }
        self.counters.syncs += 1;
        Ok(())
    }

    fn cut(&mut self, file: &str, length: u64) -> Result<(), MediaError> {
        let file = self.file(file)?;
        let length = file.bytes.len().min(length as usize);
        if length < file.durable {
            let mut cut = file.bytes[length..file.durable].to_vec();
            cut.append(&mut file.cut);
            file.cut = cut;
            file.durable = length;
        }
        file.bytes.truncate(length);
        file.room = length;
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), MediaError> {
        let mut file = self.files.remove(from).ok_or_else(|| MediaError::Missing {
            file: from.to_string(),
        })?;
        file.is_durable = true;
        self.files.insert(to.to_string(), file);
        Ok(())
    }

    fn remove(&mut self, file: &str) -> Result<(), MediaError> {
        let removed = self.files.remove(file).ok_or_else(|| MediaError::Missing {
            file: file.to_string(),
        })?;
        self.removed.insert(file.to_string(), removed);
        Ok(())
    }
}

fn failed(operation: &'static str, file: &str) -> MediaError {
    MediaError::Failed {
        operation,
        file: file.to_string(),
        reason: "input/output error".to_string(),
    }
}
