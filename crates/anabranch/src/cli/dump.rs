//! `anabranch dump`: a database as SQL that PostgreSQL loads.
//!
//! The rows are those of one moment: of a backup that the running server makes, or of a folder that no server uses. A
//! server in this process serves a copy of it, and each table is copied out of that.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anabranch_bench::application;
use anabranch_bench::fill::each_partition;
use anabranch_dbms::postgres::quoted;
use anabranch_server::backup;
use anabranch_server::service::folder;
use anabranch_server::service::{DATABASE, Served, Service, ServiceOptions, plan_application};
use anabranch_sql::catalog::Catalog;
use anabranch_storage::StoreSettings;
use clap::Args;
use postgres::{Client, NoTls, SimpleQueryMessage};

use super::output::{check_writable, say};
use super::{Verdict, progress, serve};

/// Writes a database as SQL that PostgreSQL loads: tables, rows, indexes, foreign keys, views, routines. Assertions,
/// which PostgreSQL does not have, are comments. Load it with `psql -v ON_ERROR_STOP=1 -f FILE`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DumpArguments {
    /// A backup, or a data folder that no server uses. Without one, a running server is dumped, as of one moment, while
    /// everything runs
    folder: Option<PathBuf>,
    /// Where the running server listens, on this machine
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:5433",
        conflicts_with = "folder"
    )]
    connect: SocketAddr,
    /// The file to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// No rows, and no values of sequences
    #[arg(long)]
    schema_only: bool,
    /// Where a copy of the data is kept meanwhile [default: the system's folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    work: Option<PathBuf>,
}

/// The SQL, without rows, around them.
struct Declarations {
    before: String,
    after: String,
}

pub(crate) fn run(arguments: &DumpArguments) -> Result<Verdict, Box<dyn Error>> {
    check_writable(arguments.to.as_deref())?;
    let work = match &arguments.work {
        Some(work) => std::path::absolute(work)?,
        None => std::env::temp_dir(),
    };
    let copy = Copy(work.join(format!("anabranch-dump-{}", std::process::id())));
    progress::steps("dump", |step| {
        step("copying the data");
        match &arguments.folder {
            None => super::backup::ask(arguments.connect, &copy.0)?,
            Some(folder) => {
                folder::verify(folder).map_err(|error| format!("error: {error}"))?;
                backup::make_new(&copy.0).map_err(|reason| format!("error: --work: {reason}"))?;
                backup::restore(folder, &copy.0).map_err(|error| {
                    format!("error: cannot write {}: {error}", copy.0.display())
                })?;
            }
        }
        match &arguments.to {
            None => dump(
                &copy.0,
                arguments.schema_only,
                &mut io::stdout().lock(),
                step,
            ),
            Some(to) => {
                // A file that is there is whole.
                let mut partial = to.clone().into_os_string();
                partial.push(".partial");
                let failed = |error: io::Error| format!("error: {}: {error}", to.display());
                let mut file = File::create(&partial).map_err(failed)?;
                dump(&copy.0, arguments.schema_only, &mut file, step)?;
                file.sync_all().map_err(failed)?;
                std::fs::rename(&partial, to).map_err(failed)?;
                Ok(())
            }
        }
    })?;
    if let Some(to) = &arguments.to {
        say!(
            "{}: load it with psql -v ON_ERROR_STOP=1 -f\n",
            to.display()
        )?;
    }
    Ok(Verdict::Fine)
}

/// A folder that goes when this value does.
struct Copy(PathBuf);

impl Drop for Copy {
    fn drop(&mut self) {
        // Nothing relies on its absence.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes the database that a folder holds. Changes the folder, as a start of a server does.
fn dump(
    folder: &Path,
    schema_only: bool,
    out: &mut dyn Write,
    step: &mut dyn FnMut(&str),
) -> Result<(), Box<dyn Error>> {
    step("loading the data");
    let held = folder::held(folder).map_err(|error| format!("error: {error}"))?;
    let held = held.ok_or("error: the folder holds no database")?;
    let application = application::compile(held.files.clone())?;
    let [before, after] = application.declarations_around_rows();
    let declarations = Declarations { before, after };
    let planned = plan_application(application, held.partitions, Some(&held.replicated));
    let mut out = BufWriter::new(out);
    if schema_only {
        return Ok(write(
            planned.application.catalog(),
            &declarations,
            None,
            &mut out,
            step,
        )?);
    }
    let data = serve::open(
        folder,
        &planned,
        held.guarantee,
        &held.files,
        held.generation,
    )?;
    let loaded = Arc::new(AtomicU64::new(0));
    let served = Served {
        planned: Arc::clone(&planned),
        guarantee: held.guarantee,
        analysis: anabranch_analysis::Options::default(),
        stores: each_partition(&planned, StoreSettings::default(), &loaded, |_, _| Ok(()))?,
        data: Some(data),
    };
    // A table is one result, whatever its size.
    let options = ServiceOptions {
        result_bytes_max: usize::MAX,
        statement_bytes_max: usize::MAX,
        ..ServiceOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)))
    };
    let service = Service::start(served, options).map_err(|error| format!("error: {error}"))?;
    let address = service.address();
    let settings = format!(
        "host={} port={} user=dump dbname={DATABASE}",
        address.ip(),
        address.port()
    );
    let mut client = Client::connect(&settings, NoTls)?;
    write(
        planned.application.catalog(),
        &declarations,
        Some(&mut client),
        &mut out,
        step,
    )?;
    drop(client);
    service.stop().map_err(|error| format!("error: {error}"))?;
    Ok(())
}

/// Writes everything in one transaction, so that a text that ends early leaves nothing.
fn write(
    catalog: &Catalog,
    declarations: &Declarations,
    rows: Option<&mut Client>,
    out: &mut impl Write,
    step: &mut dyn FnMut(&str),
) -> Result<(), Box<dyn Error>> {
    let version = env!("CARGO_PKG_VERSION");
    write!(
        out,
        "-- Written by anabranch {version}: load it into an empty database with psql -v ON_ERROR_STOP=1 -f\n\n\
         SET client_encoding = 'UTF8';\n\
         SET standard_conforming_strings = on;\n\
         SET TimeZone = 'UTC';\n\
         SET check_function_bodies = off;\n\n\
         BEGIN;\n\n{}",
        declarations.before
    )?;
    if let Some(client) = rows {
        client.batch_execute("SET TimeZone = 'UTC'; SET statement_timeout = 0")?;
        for table in &catalog.schema.tables {
            step(&table.name);
            let columns: Vec<String> = table.columns.iter().map(|c| quoted(&c.name)).collect();
            let listed = match columns.is_empty() {
                true => String::new(),
                false => format!(" ({})", columns.join(", ")),
            };
            let name = quoted(&table.name);
            writeln!(out, "\nCOPY {name}{listed} FROM stdin;")?;
            let mut copied = client.copy_out(&format!("COPY {name}{listed} TO STDOUT"))?;
            io::copy(&mut copied, out)?;
            drop(copied);
            out.write_all(b"\\.\n")?;
        }
        out.write_all(b"\n")?;
        for sequence in catalog.all_sequences() {
            let name = quoted(&sequence.name);
            let asked =
                client.simple_query(&format!("SELECT last_value, is_called FROM {name}"))?;
            for message in asked {
                if let SimpleQueryMessage::Row(row) = message {
                    let (last, is_called) = (row.get(0), row.get(1) == Some("t"));
                    let last = last.ok_or("error: a sequence has no value")?;
                    let name = name.replace('\'', "''");
                    writeln!(
                        out,
                        "SELECT pg_catalog.setval('{name}', {last}, {is_called});"
                    )?;
                }
            }
        }
    }
    write!(out, "\n{}\nCOMMIT;\n", declarations.after)?;
    out.flush()?;
    Ok(())
}
