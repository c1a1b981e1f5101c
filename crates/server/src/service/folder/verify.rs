//! Verification of a data folder: reads everything that a start would read, and changes nothing.

use std::fmt;
use std::path::{Path, PathBuf};

use anabranch_engine::durable;
use anabranch_storage::media::MediaError;
use anabranch_storage::{LogError, Verified};
use anabranch_types::NodeId;

use super::{ACCEPTED, ACCEPTED_KEY, FILES, FolderError, held};
use crate::checksum::checksum;
use crate::data::{APPLICATION, CLUSTER, DURABILITY, generation_folder};
use crate::description::{described, generation_of, number_of_partitions};
use crate::files::FileDisk;
use crate::identity::{self, Identity};

/// A folder without damage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedFolder {
    /// What was found of each node.
    pub nodes: Vec<Verified>,
    /// The bytes read.
    pub bytes: u64,
}

/// Why a folder is not without damage.
#[derive(Debug)]
#[non_exhaustive]
pub enum VerifyError {
    /// A file is damaged.
    Damaged {
        /// The file, or the folder that lacks one.
        path: PathBuf,
        /// Where in the file, as near as its checksums tell: what they cover begins here.
        byte: u64,
        /// What is wrong.
        what: String,
    },
    /// It holds no database, another version's, or it cannot be read.
    Unreadable(String),
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifyError::Damaged { path, byte, what } => {
                write!(f, "{} is damaged at byte {byte}: {what}", path.display())
            }
            VerifyError::Unreadable(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for VerifyError {}

/// Reads all of a data folder or backup: the description, the application, and each node's checkpoint and log.
///
/// # Errors
/// The first damage, or that the folder cannot be read; then also when a server uses it.
pub fn verify(folder: &Path) -> Result<VerifiedFolder, VerifyError> {
    let mut verified = VerifiedFolder::default();
    let damaged = |path: &Path, byte: usize, what: &str| VerifyError::Damaged {
        path: path.to_owned(),
        byte: byte as u64,
        what: what.to_owned(),
    };
    let path = folder.join(CLUSTER);
    let text = read(&path)?;
    verified.bytes += text.len() as u64;
    let text = std::str::from_utf8(&text)
        .map_err(|error| damaged(&path, error.valid_up_to(), "it is not UTF-8"))?;
    let described = described(text).map_err(|what| damaged(&path, 0, what))?;
    let inner = generation_folder(folder, generation_of(&described));
    let checksums: Vec<Option<&str>> = match described["files"].as_array() {
        Some(files) => files.iter().map(|file| file.as_str()).collect(),
        None => Vec::new(),
    };
    for (number, expected) in checksums.iter().enumerate() {
        let path = inner.join(APPLICATION).join(format!("{number}.sql"));
        let text = read(&path)?;
        verified.bytes += text.len() as u64;
        if Some(&*checksum(&text)) != *expected {
            let what = format!("the checksum of its {} bytes is wrong", text.len());
            return Err(damaged(&path, 0, &what));
        }
    }
    let path = inner.join(APPLICATION).join(FILES);
    let names = read(&path)?;
    verified.bytes += names.len() as u64;
    let names: Vec<String> =
        serde_json::from_slice(&names).map_err(|error| damaged(&path, 0, &error.to_string()))?;
    if names.len() != checksums.len() {
        let what = format!("it names {} files of {}", names.len(), checksums.len());
        return Err(damaged(&path, 0, &what));
    }
    if let Some(expected) = described.get(ACCEPTED_KEY) {
        let path = inner.join(APPLICATION).join(ACCEPTED);
        let text = read(&path)?;
        verified.bytes += text.len() as u64;
        if Some(&*checksum(&text)) != expected.as_str() {
            let what = format!("the checksum of its {} bytes is wrong", text.len());
            return Err(damaged(&path, 0, &what));
        }
    }
    let path = inner.join(DURABILITY);
    let text = read(&path)?;
    verified.bytes += text.len() as u64;
    if !["sync\n", "batch\n", "none\n"]
        .iter()
        .any(|word| word.as_bytes() == text)
    {
        return Err(damaged(&path, 0, "it says none of sync, batch and none"));
    }
    // The rest of what a start would refuse.
    held(folder).map_err(|error| match error {
        FolderError::Damaged { path, reason } => damaged(&path, 0, &reason),
        other => VerifyError::Unreadable(other.to_string()),
    })?;
    let partitions = number_of_partitions(&described).ok_or_else(|| {
        damaged(
            &folder.join(CLUSTER),
            0,
            "its number of partitions is missing",
        )
    })?;
    let identity = Identity::read(&inner);
    let identity = identity.map_err(|what| damaged(&inner.join(identity::FILE), 0, &what))?;
    for node in (0..partitions).map(NodeId) {
        let found = verify_node(&inner, node, identity)?;
        verified.bytes += found.bytes;
        verified.nodes.push(found);
    }
    Ok(verified)
}

fn verify_node(
    folder: &Path,
    node: NodeId,
    identity: Option<Identity>,
) -> Result<Verified, VerifyError> {
    let path = folder.join(format!("node-{}", node.0));
    let missing = |what: &str| VerifyError::Damaged {
        path: path.clone(),
        byte: 0,
        what: what.to_owned(),
    };
    if !path.is_dir() {
        return Err(missing("the folder is missing"));
    }
    let unreadable = |error: &dyn fmt::Display| {
        VerifyError::Unreadable(format!("cannot read {}: {error}", path.display()))
    };
    let mut disk = FileDisk::open(&path).map_err(|error| unreadable(&error))?;
    identity::check_node(identity, &path, node).map_err(|what| VerifyError::Damaged {
        path: path.join(identity::FILE),
        byte: 0,
        what,
    })?;
    match durable::verify(&mut disk) {
        Ok(verified) if verified.is_new => Err(missing("its checkpoint is missing")),
        Ok(verified) => Ok(verified),
        Err(LogError::Damaged { file, offset, what }) => Err(VerifyError::Damaged {
            path: path.join(file),
            byte: offset,
            what,
        }),
        Err(LogError::Gap { what }) => Err(missing(&what)),
        Err(LogError::Media(MediaError::Missing { file })) => {
            Err(missing(&format!("{file} is missing")))
        }
        Err(error) => Err(unreadable(&error)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, VerifyError> {
    std::fs::read(path).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound if path.ends_with(CLUSTER) => {
                ": the folder holds no complete database"
            }
            _ => "",
        };
        VerifyError::Unreadable(format!("cannot read {}: {error}{hint}", path.display()))
    })
}
