//! `anabranch verify-data`: reads all of a data folder or backup, and names the first damage.

use std::error::Error;
use std::path::PathBuf;

use anabranch_server::service::folder::{self, VerifyError};
use clap::Args;

use super::Verdict;
use super::output::{complain, say};

/// Reads all of a data folder or backup that no server uses, and names the first damage by file and byte. Exit codes: 0
/// whole; 1 damaged; 2 not readable, or in use.
#[derive(Clone, Debug, Args)]
pub(crate) struct VerifyDataArguments {
    /// The folder
    folder: PathBuf,
}

pub(crate) fn run(arguments: &VerifyDataArguments) -> Result<Verdict, Box<dyn Error>> {
    let folder = &arguments.folder;
    let verified = match folder::verify(folder) {
        Ok(verified) => verified,
        Err(damage @ VerifyError::Damaged { .. }) => {
            complain(&format!(
                "{damage}\n\nRestore the folder from a backup. A server that is started on damaged files ends with \
                 this error, or has lost what they held."
            ));
            return Ok(Verdict::Finding);
        }
        Err(other) => return Err(format!("error: {other}").into()),
    };
    for (number, node) in verified.nodes.iter().enumerate() {
        say!(
            "node {number}: {} records in the checkpoint, {} in the log after it\n",
            node.checkpointed,
            node.logged
        )?;
        if let Some(torn) = &node.torn {
            say!(
                "  the log ends within a batch, at byte {} of node-{number}/{}: its last {} bytes are dropped by the \
                 next start. A crash leaves such an end, and nothing acknowledged is in it, unless the disk has lost \
                 the batch that was synced last\n",
                torn.offset,
                torn.file,
                torn.bytes
            )?;
        }
        for file in &node.unused {
            say!("  not needed: node-{number}/{file}\n")?;
        }
    }
    say!(
        "{}: {} bytes read, no damage\n",
        folder.display(),
        verified.bytes
    )?;
    Ok(Verdict::Fine)
}
