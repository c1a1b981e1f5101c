//! A data folder: a folder for each node, a file that names the cluster it belongs to, and one that says how the logs
//! were written.
//!
//! When the schema has changed, all but the first file is written anew beside what is there, as the next *generation*, in
//! a folder of its own; then the file that names the cluster is replaced by one that names the generation. So a crash
//! leaves the one or the other as a whole.
//!
//! Nodes' folders that were made together have the same [`identity`], so that one of another database, or an older copy of
//! one, is refused.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anabranch_storage::log::epoch;
use anabranch_storage::media::MediaError;
use anabranch_types::NodeId;

use crate::files::FileDisk;
use crate::identity::{self, Identity};

/// The file that describes the cluster to which the folder belongs.
pub(crate) const CLUSTER: &str = "cluster";

/// The same file until every node has its first checkpoint; until then the rest of the folder may be
/// removed.
const PARTIAL: &str = "cluster.partial";

/// The folder of the application's SQL files.
pub(crate) const APPLICATION: &str = "application";

/// The file with the durability under which the nodes' logs were written last.
pub(crate) const DURABILITY: &str = "durability";

/// When records are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before any output that depends on them leaves.
    Sync,
    /// When so much time has passed at most: a crash may lose that much. What is left of the nodes' logs fits together.
    Batch(Duration),
    /// When the operating system does it. After a crash of the process the logs are cut as under [`Durability::Batch`].
    Never,
}

impl Durability {
    /// The time between two epochs where records are not synced.
    const UNSYNCED_EPOCH: Duration = Duration::from_millis(10);

    /// Its name on the command line and in a data folder.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Batch(_) => "batch",
            Durability::Never => "none",
        }
    }

    /// How long an epoch is, if logs have epochs.
    pub(crate) fn epoch(self) -> Option<Duration> {
        match self {
            Durability::Sync => None,
            Durability::Batch(every) => Some(every),
            Durability::Never => Some(Durability::UNSYNCED_EPOCH),
        }
    }
}

/// A data folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFolder {
    path: PathBuf,
    is_new: bool,
    /// The generation: 0 lies in the folder itself.
    generation: u64,
}

/// The folder of a generation, within the data folder.
pub(crate) fn generation_folder(path: &Path, generation: u64) -> PathBuf {
    match generation {
        0 => path.to_owned(),
        number => path.join(format!("{GENERATION}{number}")),
    }
}

/// How the names of generations' folders begin.
const GENERATION: &str = "generation-";

/// Why a data folder cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataError {
    /// It holds another cluster's data.
    OtherCluster {
        /// The folder.
        path: PathBuf,
        /// The description that it holds.
        found: String,
        /// The description of the cluster that opens it.
        expected: String,
    },
    /// It holds files, but no description of a cluster.
    Foreign {
        /// The folder.
        path: PathBuf,
        /// One of the files.
        file: String,
    },
    /// The operating system refuses.
    Refused {
        /// The folder.
        path: PathBuf,
        /// Its error message.
        reason: String,
    },
}

impl std::fmt::Display for DataError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DataError::OtherCluster {
                path,
                found,
                expected,
            } => write!(
                f,
                "{} holds the data of another cluster: {found}, not {expected}",
                path.display()
            ),
            DataError::Foreign { path, file } => write!(
                f,
                "{} holds {file} but no file \"{CLUSTER}\" that describes a cluster: \
                 name an empty or a new folder",
                path.display()
            ),
            DataError::Refused { path, reason } => {
                write!(f, "cannot use {}: {reason}", path.display())
            }
        }
    }
}

impl std::error::Error for DataError {}

/// Why a generation was not made to count.
#[derive(Debug)]
pub(crate) struct NotAdopted {
    pub(crate) error: DataError,
    /// The generation, which does not count, to be discarded. Nothing if it may count already: what is on disk then is known
    /// to the next start alone.
    pub(crate) rejected: Option<DataFolder>,
}

impl DataFolder {
    /// Opens a folder for a cluster. `description`, one line, lists what must be the same when the
    /// folder is opened again.
    ///
    /// # Errors
    /// When it holds another cluster's data, or the operating system refuses.
    pub fn open(path: &Path, description: &str) -> Result<DataFolder, DataError> {
        let refused = |error: std::io::Error| DataError::Refused {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        std::fs::create_dir_all(path).map_err(refused)?;
        let file = path.join(CLUSTER);
        let is_new = match std::fs::read_to_string(&file) {
            Ok(found) if found.trim_end() == description => false,
            Ok(found) => {
                return Err(DataError::OtherCluster {
                    path: path.to_owned(),
                    found: found.trim_end().to_owned(),
                    expected: description.to_owned(),
                });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => return Err(refused(error)),
        };
        let folder = DataFolder {
            path: path.to_owned(),
            is_new,
            generation: 0,
        };
        if is_new {
            folder.begin(description)?;
        }
        Ok(folder)
    }

    /// Marks a folder that is empty, or left behind by an unfinished start, as about to hold a cluster's
    /// data.
    fn begin(&self, description: &str) -> Result<(), DataError> {
        let refused = |error| self.refused(error);
        let partial = self.path.join(PARTIAL);
        if !partial.exists() {
            let mut entries = std::fs::read_dir(&self.path).map_err(refused)?;
            if let Some(entry) = entries.next() {
                let file = entry.map_err(refused)?.file_name();
                return Err(DataError::Foreign {
                    path: self.path.clone(),
                    file: file.to_string_lossy().into_owned(),
                });
            }
        }
        std::fs::write(&partial, format!("{description}\n")).map_err(refused)?;
        let sync = |path: &Path| std::fs::File::open(path)?.sync_all();
        sync(&partial)
            .and_then(|()| Identity::new()?.write(&self.path))
            .and_then(|()| sync(&self.path))
            .map_err(refused)
    }

    fn refused(&self, error: std::io::Error) -> DataError {
        DataError::Refused {
            path: self.path.clone(),
            reason: error.to_string(),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same folder, in which this generation is the one that counts. What a crash has left of others is removed.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn at_generation(mut self, generation: u64) -> Result<DataFolder, DataError> {
        self.generation = generation;
        if !self.is_new {
            self.remove_others()?;
        }
        Ok(self)
    }

    /// The generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Where the nodes' folders are.
    pub(crate) fn folder(&self) -> PathBuf {
        generation_folder(&self.path, self.generation)
    }

    /// The same folder, once it is [claimed](DataFolder::claim).
    pub(crate) fn claimed(mut self) -> DataFolder {
        self.is_new = false;
        self
    }

    /// Begins the next generation, which does not count yet.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(crate) fn next_generation(&self) -> Result<DataFolder, DataError> {
        let next = DataFolder {
            path: self.path.clone(),
            is_new: true,
            generation: self.generation + 1,
        };
        let folder = next.folder();
        let make = || {
            match std::fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            std::fs::create_dir(&folder)?;
            Identity::new()?.write(&folder)
        };
        make().map_err(|error| self.refused(error))?;
        Ok(next)
    }

    /// Lets this generation count, with this description, and removes the one before. Everything in it is durable.
    ///
    /// # Errors
    /// When the operating system refuses: then the one before counts, or nothing is known of which does ([`NotAdopted`]).
    pub(crate) fn adopt(self, description: &str) -> Result<DataFolder, NotAdopted> {
        self.adopt_with(description, std::fs::File::sync_all)
    }

    /// The same, with this way to make the rename durable.
    fn adopt_with(
        mut self,
        description: &str,
        sync: impl FnOnce(&std::fs::File) -> std::io::Result<()>,
    ) -> Result<DataFolder, NotAdopted> {
        let replace = || {
            std::fs::File::open(self.folder())?.sync_all()?;
            // Opened before the rename, so that only the sync can fail after it.
            let folder = std::fs::File::open(&self.path)?;
            folder.sync_all()?;
            let partial = self.path.join(PARTIAL);
            let mut file = std::fs::File::create(&partial)?;
            file.write_all(format!("{description}\n").as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&partial, self.path.join(CLUSTER))?;
            Ok(folder)
        };
        let folder = match replace() {
            Ok(folder) => folder,
            Err(error) => {
                return Err(NotAdopted {
                    error: self.refused(error),
                    rejected: Some(self),
                });
            }
        };
        if let Err(error) = sync(&folder) {
            // A crash may leave the old description or the new one. So neither generation may go on, and neither may go.
            return Err(NotAdopted {
                error: self.refused(error),
                rejected: None,
            });
        }
        self.is_new = false;
        // What is left of the one before does no harm, and the next start removes it.
        let _ = self.remove_others();
        Ok(self)
    }

    /// Gives up a generation that does not count.
    pub(crate) fn discard(self) {
        // It does no harm, and the next start removes it.
        let _ = std::fs::remove_dir_all(self.folder());
    }

    /// Removes every generation but this one.
    fn remove_others(&self) -> Result<(), DataError> {
        let refused = |error| self.refused(error);
        let own = self.folder();
        for entry in std::fs::read_dir(&self.path).map_err(refused)? {
            let path = entry.map_err(refused)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_of_first = name == APPLICATION
                || name
                    .strip_prefix("node-")
                    .is_some_and(|number| number.parse::<u16>().is_ok());
            let is_other = match name.strip_prefix(GENERATION) {
                Some(number) => number.parse::<u64>().is_ok() && path != own,
                None => is_of_first && self.generation > 0,
            };
            if is_other && path.is_dir() {
                std::fs::remove_dir_all(&path).map_err(refused)?;
            } else if (name == DURABILITY || name == identity::FILE) && self.generation > 0 {
                std::fs::remove_file(&path).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// Whether the folder does not hold a complete cluster yet.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Marks the folder as holding this cluster's data. Called once every node has its first checkpoint;
    /// does nothing if the folder is marked already.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn claim(&self) -> Result<(), DataError> {
        if !self.is_new {
            return Ok(());
        }
        let rename = || {
            std::fs::rename(self.path.join(PARTIAL), self.path.join(CLUSTER))?;
            std::fs::File::open(&self.path)?.sync_all()
        };
        rename().map_err(|error| self.refused(error))
    }

    /// Prepares the nodes' logs for a start under `next`: cuts them at the end of an epoch, if they were written with
    /// epochs, and marks the begin of a new one, if they will be. Returns the first epoch of the start. If it is
    /// interrupted, it can be repeated.
    ///
    /// # Errors
    /// When a log is damaged, or the operating system refuses.
    pub fn prepare_epochs(&self, nodes: u16, next: Durability) -> Result<u64, DataError> {
        let refused = |reason: String| DataError::Refused {
            path: self.path.clone(),
            reason,
        };
        if self.is_new {
            self.write_durability(next)?;
            return Ok(1);
        }
        let was_cut = match &*self.durability()? {
            "sync" => false,
            "batch" | "none" => true,
            other => {
                return Err(refused(format!(
                    "its file \"{DURABILITY}\" says {other:?}, and not sync, batch or none"
                )));
            }
        };
        if !was_cut && next == Durability::Sync {
            return Ok(1);
        }
        let failed = |node: u16, error: &dyn std::fmt::Display| {
            refused(format!("the log of node {node}: {error}"))
        };
        let disks = (0..nodes).map(|node| {
            let disk = self.disk(NodeId(node));
            disk.map_err(|error| failed(node, &error))
        });
        let mut disks = disks.collect::<Result<Vec<FileDisk>, DataError>>()?;
        let mut last: Vec<u64> = Vec::new();
        for (node, disk) in (0..).zip(&mut disks) {
            let found = epoch::last_epoch(disk).map_err(|error| failed(node, &error))?;
            if was_cut && found.is_none() {
                return Err(failed(node, &"it has no epochs"));
            }
            last.push(found.unwrap_or(0));
        }
        if was_cut {
            // The epoch before a log's last marker is the last one that it has as a whole.
            let whole = last.iter().min().map_or(0, |last| last.saturating_sub(1));
            for (node, disk) in (0..).zip(&mut disks) {
                epoch::cut_after_epoch(disk, whole).map_err(|error| failed(node, &error))?;
            }
        }
        let first = last.iter().max().map_or(1, |last| last + 1);
        if next != Durability::Sync {
            for (node, disk) in (0..).zip(&mut disks) {
                epoch::mark_epoch(disk, first).map_err(|error| failed(node, &error))?;
            }
        }
        // Only now: before, the logs have to be cut as the last start has written them.
        self.write_durability(next)?;
        Ok(first)
    }

    /// The name of the durability under which the logs were written last.
    fn durability(&self) -> Result<String, DataError> {
        let text = std::fs::read_to_string(self.folder().join(DURABILITY));
        let text = text.map_err(|error| self.refused(error))?;
        Ok(text.trim_end().to_owned())
    }

    fn write_durability(&self, durability: Durability) -> Result<(), DataError> {
        let write = || {
            let folder = self.folder();
            let partial = folder.join(format!("{DURABILITY}.partial"));
            let mut file = std::fs::File::create(&partial)?;
            file.write_all(format!("{}\n", durability.name()).as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&partial, folder.join(DURABILITY))?;
            std::fs::File::open(&folder)?.sync_all()
        };
        write().map_err(|error| self.refused(error))
    }

    /// Opens a node's folder. In a new data folder, files of an unfinished start are removed.
    ///
    /// # Errors
    /// When the operating system refuses, another process has locked the folder, or a folder that held
    /// a node's data is missing.
    pub fn disk(&self, node: NodeId) -> Result<FileDisk, MediaError> {
        use anabranch_storage::media::Media;
        let path = self.folder().join(format!("node-{}", node.0));
        if !self.is_new && !path.is_dir() {
            return Err(MediaError::Failed {
                operation: "find",
                file: path.display().to_string(),
                reason: "it held a node's data: put it back, or name a new folder".to_owned(),
            });
        }
        let mut disk = FileDisk::open(&path)?;
        let failed = |reason: String| MediaError::Failed {
            operation: "use",
            file: path.display().to_string(),
            reason,
        };
        let identity = Identity::read(&self.folder()).map_err(failed)?;
        if self.is_new {
            for file in disk.files()? {
                disk.remove(&file)?;
            }
            if let Some(identity) = identity {
                let written = identity.write_of_node(&path, node);
                written.map_err(|error| failed(error.to_string()))?;
            }
        } else {
            identity::check_node(identity, &path, node).map_err(failed)?;
        }
        Ok(disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let name = format!("anabranch-data-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&path);
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// A folder that holds a cluster of one node.
    fn claimed(name: &str) -> Scratch {
        let scratch = Scratch::new(name);
        let folder = DataFolder::open(&scratch.0, "a cluster").unwrap();
        assert!(folder.is_new());
        folder.disk(NodeId(0)).unwrap();
        folder.claim().unwrap();
        scratch
    }

    #[test]
    fn a_missing_node_folder_is_not_created_anew() {
        let scratch = claimed("lost");
        let open = || DataFolder::open(&scratch.0, "a cluster").unwrap();
        assert!(!open().is_new());
        open().disk(NodeId(0)).unwrap();
        std::fs::remove_dir_all(scratch.0.join("node-0")).unwrap();
        let error = open().disk(NodeId(0)).unwrap_err().to_string();
        assert!(error.contains("node-0: it held a node's data"), "{error}");
        assert!(!scratch.0.join("node-0").exists());
    }

    #[test]
    fn files_of_unknown_origin_are_left_alone() {
        let scratch = claimed("foreign");
        std::fs::remove_file(scratch.0.join(CLUSTER)).unwrap();
        let error = DataFolder::open(&scratch.0, "a cluster").unwrap_err();
        assert!(matches!(error, DataError::Foreign { .. }), "{error}");
        assert!(scratch.0.join("node-0").exists());
    }

    #[test]
    fn an_interrupted_start_is_begun_again() {
        let scratch = Scratch::new("partial");
        let folder = DataFolder::open(&scratch.0, "a cluster").unwrap();
        folder.disk(NodeId(0)).unwrap();
        assert!(DataFolder::open(&scratch.0, "a cluster").unwrap().is_new());
        let other = claimed("other");
        let error = DataFolder::open(&other.0, "another cluster").unwrap_err();
        assert!(matches!(error, DataError::OtherCluster { .. }), "{error}");
    }

    #[test]
    fn a_generation_that_may_count_is_not_given_back_to_be_discarded() {
        let scratch = claimed("adopt");
        let data = DataFolder::open(&scratch.0, "a cluster").unwrap();
        let written = || std::fs::read_to_string(scratch.0.join(CLUSTER)).unwrap();
        // Before the rename: the one before counts.
        let next = data.next_generation().unwrap();
        let folder = next.folder();
        std::fs::create_dir(scratch.0.join(PARTIAL)).unwrap();
        let error = next.adopt("generation 1").unwrap_err();
        assert_eq!(written(), "a cluster\n");
        error.rejected.expect("it does not count").discard();
        assert!(!folder.exists());
        std::fs::remove_dir(scratch.0.join(PARTIAL)).unwrap();
        // After it: the new one may count.
        let next = data.next_generation().unwrap();
        let error = next
            .adopt_with("generation 1", |_| Err(std::io::Error::other("no sync")))
            .unwrap_err();
        assert!(error.error.to_string().contains("no sync"));
        assert_eq!(written(), "generation 1\n");
        assert!(error.rejected.is_none(), "it may count");
        assert!(folder.is_dir());
    }

    #[test]
    fn a_nodes_folder_of_another_database_is_refused() {
        let (scratch, other) = (claimed("own"), claimed("strange"));
        let open = || DataFolder::open(&scratch.0, "a cluster").unwrap();
        open().disk(NodeId(0)).unwrap();
        let (own, strange) = (scratch.0.join("node-0"), other.0.join("node-0"));
        std::fs::rename(&own, scratch.0.join("kept")).unwrap();
        std::fs::rename(&strange, &own).unwrap();
        let error = open().disk(NodeId(0)).unwrap_err().to_string();
        assert!(error.contains("another database"), "{error}");
        // The folder of another node of the same database is refused, too.
        std::fs::remove_dir_all(&own).unwrap();
        std::fs::rename(scratch.0.join("kept"), scratch.0.join("node-1")).unwrap();
        let error = open().disk(NodeId(1)).unwrap_err().to_string();
        assert!(error.contains("node 0"), "{error}");
        // One that was written before there were identities is refused beside those that have one.
        std::fs::rename(scratch.0.join("node-1"), &own).unwrap();
        open().disk(NodeId(0)).unwrap();
        std::fs::remove_file(own.join(identity::FILE)).unwrap();
        let error = open().disk(NodeId(0)).unwrap_err().to_string();
        assert!(error.contains("another database"), "{error}");
        std::fs::remove_file(scratch.0.join(identity::FILE)).unwrap();
        open().disk(NodeId(0)).unwrap();
    }
}
