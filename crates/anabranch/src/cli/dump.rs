//! `anabranch dump`: a database as SQL that PostgreSQL loads.
//!
//! The rows are those of one moment: of a backup that the running server makes, or of a folder that no server uses. A
//! server in this process serves a copy of it, and each table is copied out of that.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use anabranch_bench::application;
use anabranch_bench::fill::each_partition;
use anabranch_dbms::postgres::{literal, quoted};
use anabranch_server::backup;
use anabranch_server::service::folder;
use anabranch_server::service::{DATABASE, Served, Service, ServiceOptions};
use anabranch_sql::catalog::{Catalog, ColumnDefault};
use anabranch_storage::StoreSettings;
use anabranch_types::ColumnIndex;
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
    let work = Work::make(&work)?;
    let copy = work.0.join("data");
    progress::steps("dump", |step| {
        step("copying the data");
        match &arguments.folder {
            None => super::backup::ask(arguments.connect, &copy)?,
            Some(folder) => {
                folder::verify(folder).map_err(|error| format!("error: {error}"))?;
                backup::make_new(&copy).map_err(|reason| format!("error: --work: {reason}"))?;
                backup::restore(folder, &copy)
                    .map_err(|error| format!("error: cannot write {}: {error}", copy.display()))?;
            }
        }
        match &arguments.to {
            None => dump(&copy, arguments.schema_only, &mut io::stdout().lock(), step),
            Some(to) => {
                let failed = |error: io::Error| format!("error: {}: {error}", to.display());
                let is_special = std::fs::metadata(to).is_ok_and(|of| !of.is_file());
                if is_special {
                    let mut file = OpenOptions::new().write(true).open(to).map_err(failed)?;
                    return dump(&copy, arguments.schema_only, &mut file, step);
                }
                // A file that is there is whole.
                let to = std::fs::canonicalize(to).unwrap_or_else(|_| to.clone());
                let partial = Partial::beside(&to);
                let mut file = File::create(&partial.0).map_err(failed)?;
                dump(&copy, arguments.schema_only, &mut file, step)?;
                file.sync_all().map_err(failed)?;
                std::fs::rename(&partial.0, &to).map_err(failed)?;
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

/// A new folder, which goes when this value does. Only this user can read it.
struct Work(PathBuf);

impl Work {
    fn make(beneath: &Path) -> Result<Work, String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_nanos());
        let path = beneath.join(format!("anabranch-dump-{}-{now}", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(&path)
            .map_err(|error| format!("error: --work: {}: {error}", path.display()))?;
        Ok(Work(path))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Nothing relies on its absence.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file that is being written, and goes with this value unless it has its name by then.
struct Partial(PathBuf);

impl Partial {
    fn beside(path: &Path) -> Partial {
        let mut name = path.to_owned().into_os_string();
        name.push(".partial");
        Partial(name.into())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
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
    let planned = serve::planned(application, (held.partitions, held.guarantee), Some(&held));
    let mut out = BufWriter::new(out);
    if schema_only {
        let catalog = planned.application.catalog();
        return write(catalog, &declarations, None, &mut out, step);
    }
    let data = serve::open(folder, &planned, held.guarantee, &held.files, Some(&held))?;
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
            // A database that loads the text computes the generated columns.
            let defaults = &catalog.table(table.id).defaults;
            let given = table.columns.iter().zip(defaults);
            let columns: Vec<String> = given
                .filter(|(_, of)| !matches!(of, ColumnDefault::Computed(..)))
                .map(|(column, _)| quoted(&column.name))
                .collect();
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
        let of_columns = catalog.schema.tables.iter().flat_map(|table| {
            let columns = (0..).map(ColumnIndex).zip(&table.columns);
            columns.filter_map(move |(number, column)| {
                let sequence = catalog.sequence_of_column(table.id, number)?;
                // PostgreSQL chooses the name anew.
                let named = [quoted(&table.name), column.name.clone()].map(|name| literal(&name));
                let target = format!("pg_get_serial_sequence({}, {})", named[0], named[1]);
                Some((sequence, target))
            })
        });
        let named = catalog.named_sequences().map(|sequence| {
            let target = literal(&quoted(&sequence.name));
            (sequence, target)
        });
        for (sequence, target) in of_columns.chain(named) {
            let name = quoted(&sequence.name);
            let asked =
                client.simple_query(&format!("SELECT last_value, is_called FROM {name}"))?;
            for message in asked {
                if let SimpleQueryMessage::Row(row) = message {
                    let (last, is_called) = (row.get(0), row.get(1) == Some("t"));
                    let last = last.ok_or("error: a sequence has no value")?;
                    writeln!(
                        out,
                        "SELECT pg_catalog.setval({target}, {last}, {is_called});"
                    )?;
                }
            }
        }
    }
    write!(out, "\n{}\nCOMMIT;\n", declarations.after)?;
    out.flush()?;
    Ok(())
}
