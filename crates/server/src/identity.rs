//! Which folders of nodes belong together.
//!
//! When the folders of a database's nodes are made (a new data folder, a generation of it, a backup, a restored copy), a
//! number is drawn. It stands in a file beside them, and in each of them, there with the node's own number. So the folder of
//! another node, of another database, or of a copy that has gone on by itself is refused: its log is whole, but its rows and the
//! others' do not fit together.
//!
//! Folders that were made by versions without this file have none, and are not held against each other.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use anabranch_types::NodeId;

use crate::checksum::checksum;

/// The name of the file.
pub(crate) const FILE: &str = "identity";

/// The number of folders that were made together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64);

impl Identity {
    /// One that no other folders have.
    ///
    /// # Errors
    /// When the operating system gives no random bytes.
    pub(crate) fn new() -> std::io::Result<Identity> {
        let mut bytes = [0; 8];
        let filled = getrandom::fill(&mut bytes);
        filled.map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Identity(u64::from_le_bytes(bytes)))
    }

    /// The text for the folder of a node, or for the one that they lie in.
    fn text(self, node: Option<NodeId>) -> String {
        let of_node = node.map_or(String::new(), |node| format!(" node {}", node.0));
        let text = format!("{:016x}{of_node}", self.0);
        format!("{text} {}\n", checksum(text.as_bytes()))
    }

    /// Writes it, durably, beside the folders of nodes.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(crate) fn write(self, folder: &Path) -> std::io::Result<()> {
        write(folder, &self.text(None))
    }

    /// Writes it, durably, into the folder of a node.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(crate) fn write_of_node(self, folder: &Path, node: NodeId) -> std::io::Result<()> {
        write(folder, &self.text(Some(node)))
    }

    /// That of the folders of nodes in this folder; `None` if they have none.
    ///
    /// # Errors
    /// When the file cannot be read, or is damaged.
    pub(crate) fn read(folder: &Path) -> Result<Option<Identity>, String> {
        match read(folder)? {
            Some((_, Some(_))) => Err(format!("its file \"{FILE}\" is that of one node")),
            found => Ok(found.map(|(identity, _)| identity)),
        }
    }
}

/// Refuses the folder of a node that does not belong to those with this identity.
///
/// # Errors
/// What is wrong, and what to do.
pub(crate) fn check_node(
    expected: Option<Identity>,
    folder: &Path,
    node: NodeId,
) -> Result<(), String> {
    let found = read(folder)?;
    match (expected, found) {
        (None, None) => Ok(()),
        (Some(expected), Some((found, Some(of)))) if found == expected && of == node => Ok(()),
        (Some(expected), Some((found, Some(of)))) if found == expected => Err(format!(
            "it is the folder of node {}: give each folder the name that it had",
            of.0
        )),
        _ => Err(
            "it is the folder of another database, or of another copy of this one: put back the one that was here, or \
             restore the whole from a backup"
                .to_owned(),
        ),
    }
}

/// The identity in a folder, and the node whose folder it is, if it is one's.
fn read(folder: &Path) -> Result<Option<(Identity, Option<NodeId>)>, String> {
    let bytes = match std::fs::read(folder.join(FILE)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("its file \"{FILE}\" cannot be read: {error}")),
    };
    let parsed = || {
        let text = std::str::from_utf8(&bytes).ok()?;
        let mut words = text.split_ascii_whitespace();
        let identity = Identity(u64::from_str_radix(words.next()?, 16).ok()?);
        let node = match words.next()? {
            "node" => Some(NodeId(words.next()?.parse().ok()?)),
            _ => None,
        };
        // Nothing but what was written reads as itself.
        (identity.text(node) == text).then_some((identity, node))
    };
    match parsed() {
        Some(found) => Ok(Some(found)),
        None => Err(format!("its file \"{FILE}\" is damaged")),
    }
}

fn write(folder: &Path, text: &str) -> std::io::Result<()> {
    let mut file = File::create(folder.join(FILE))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    File::open(folder)?.sync_all()
}
