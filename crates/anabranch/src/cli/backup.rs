//! `anabranch backup` and `anabranch restore`: copies of a server's data, and servers from copies.

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anabranch_server::backup;
use anabranch_server::service::folder::{self, VerifyError};
use clap::Args;
use postgres::{Client, NoTls};

use super::Verdict;
use super::output::{complain, say};

/// Copies the data of a running server on this machine into a folder, as of one moment, while everything runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct BackupArguments {
    /// The folder to make: new or empty. The server writes it
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// Where the server listens
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5433")]
    connect: SocketAddr,
}

/// Makes a data folder of a backup, or of another data folder that no server uses. Reads all of it first. Exit codes: 0
/// restored; 1 the backup is damaged; 2 not readable, or the folder not new.
#[derive(Clone, Debug, Args)]
pub(crate) struct RestoreArguments {
    /// The backup
    backup: PathBuf,
    /// The folder to make: new or empty
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
}

pub(crate) fn back_up(arguments: &BackupArguments) -> Result<Verdict, Box<dyn Error>> {
    let address = arguments.connect;
    let to = std::path::absolute(&arguments.to)?;
    ask(address, &to)?;
    say!(
        "{}: a backup of the server on {address}. Serve it with --data, or restore it to another folder\n",
        to.display()
    )?;
    Ok(Verdict::Fine)
}

/// Has the server on this address write a backup into a folder.
pub(super) fn ask(address: SocketAddr, to: &Path) -> Result<(), Box<dyn Error>> {
    let settings = format!(
        "host={} port={} user=backup dbname=anabranch connect_timeout=10",
        address.ip(),
        address.port()
    );
    let mut client = Client::connect(&settings, NoTls)
        .map_err(|error| format!("error: no server answers on {address}: {error}"))?;
    let statement = format!("BACKUP TO {}", literal(to)?);
    client.batch_execute(&statement).map_err(|error| {
        let reason = error.as_db_error().map(|error| error.message().to_owned());
        format!("error: {}", reason.unwrap_or_else(|| error.to_string()))
    })?;
    Ok(())
}

/// A path as a string constant.
fn literal(path: &Path) -> Result<String, Box<dyn Error>> {
    let text = path.to_str().ok_or_else(|| {
        format!(
            "error: {}: the path is not UTF-8, which the server needs",
            path.display()
        )
    })?;
    Ok(format!("'{}'", text.replace('\'', "''")))
}

pub(crate) fn restore(arguments: &RestoreArguments) -> Result<Verdict, Box<dyn Error>> {
    let (from, to) = (&arguments.backup, std::path::absolute(&arguments.to)?);
    let verified = match folder::verify(from) {
        Ok(verified) => verified,
        Err(damage @ VerifyError::Damaged { .. }) => {
            complain(&format!(
                "{damage}\n\nNothing was restored: use another backup."
            ));
            return Ok(Verdict::Finding);
        }
        Err(other) => return Err(format!("error: {other}").into()),
    };
    backup::make_new(&to).map_err(|reason| format!("error: --to: {reason}"))?;
    backup::restore(from, &to)
        .map_err(|error| format!("error: cannot write {}: {error}", to.display()))?;
    say!(
        "{}: restored, {} bytes. Serve it with --data\n",
        to.display(),
        verified.bytes
    )?;
    Ok(Verdict::Fine)
}
