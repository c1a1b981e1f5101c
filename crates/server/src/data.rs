//! A data folder: one folder a node, and what cluster it belongs to.

use std::path::{Path, PathBuf};

use anabranch_storage::media::MediaError;
use anabranch_types::NodeId;

use crate::files::FileDisk;

/// The file that says what cluster the folder belongs to.
const CLUSTER: &str = "cluster";

/// A data folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFolder {
    path: PathBuf,
    is_new: bool,
}

/// Why a data folder cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataError {
    /// It holds another cluster's data.
    Other {
        /// The folder.
        path: PathBuf,
        /// What it holds.
        holds: String,
        /// What was asked for.
        wanted: String,
    },
    /// The operating system refuses.
    Refused {
        /// The folder.
        path: PathBuf,
        /// Its words.
        reason: String,
    },
}

impl std::fmt::Display for DataError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DataError::Other {
                path,
                holds,
                wanted,
            } => write!(
                f,
                "{} holds the data of another cluster: {holds}, not {wanted}",
                path.display()
            ),
            DataError::Refused { path, reason } => {
                write!(f, "cannot use {}: {reason}", path.display())
            }
        }
    }
}

impl std::error::Error for DataError {}

impl DataFolder {
    /// Opens a folder for the cluster that `description`, one line, describes: what must be the
    /// same when it is opened again.
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
            Ok(holds) if holds.trim_end() == description => false,
            Ok(holds) => {
                return Err(DataError::Other {
                    path: path.to_owned(),
                    holds: holds.trim_end().to_owned(),
                    wanted: description.to_owned(),
                });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => return Err(refused(error)),
        };
        let path = path.to_owned();
        Ok(DataFolder { path, is_new })
    }

    /// Whether no cluster has been here, or none that came so far as to hold all its data.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Every node has its first checkpoint: from now on the folder holds this cluster's data.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn claim(&self, description: &str) -> Result<(), DataError> {
        let write = || {
            let partial = self.path.join("cluster.partial");
            std::fs::write(&partial, format!("{description}\n"))?;
            std::fs::File::open(&partial)?.sync_all()?;
            std::fs::rename(&partial, self.path.join(CLUSTER))?;
            std::fs::File::open(&self.path)?.sync_all()
        };
        write().map_err(|error| DataError::Refused {
            path: self.path.clone(),
            reason: error.to_string(),
        })
    }

    /// A node's part. In a new folder, what an earlier start has left unfinished is removed.
    ///
    /// # Errors
    /// When the operating system refuses, or another process has it.
    pub fn disk(&self, node: NodeId) -> Result<FileDisk, MediaError> {
        use anabranch_storage::media::Media;
        let mut disk = FileDisk::open(&self.path.join(format!("node-{}", node.0)))?;
        if self.is_new {
            for file in disk.files()? {
                disk.remove(&file)?;
            }
        }
        Ok(disk)
    }
}
