//! Turns SQL files into a planned application.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch_analysis::{Guarantee, Plan, Topology};
use anabranch_engine::PlannedApplication;
use anabranch_sql::application::Application;
use anabranch_sql::diagnostic::{self, Diagnostic};
use anabranch_sql::script::{ClientTransaction, Script};
use anabranch_sql::source::SourceFile;

/// Why files do not give an application.
#[derive(Debug)]
#[non_exhaustive]
pub enum ApplicationError {
    /// A file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// A file is not UTF-8.
    NotText {
        /// The file.
        path: PathBuf,
        /// The first byte that is not.
        offset: usize,
    },
    /// A file is longer than is permitted.
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        bytes: u64,
        /// The longest that is permitted, in bytes.
        bytes_max: u64,
    },
    /// A folder holds no `.sql` file.
    NoFiles(PathBuf),
    /// The SQL is wrong or not supported: rendered diagnostics, with file, line and caret.
    Diagnostics(String),
}

impl std::fmt::Display for ApplicationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ApplicationError::Unreadable { path, error } => {
                write!(f, "error: cannot read {}: {error}", path.display())
            }
            ApplicationError::NotText { path, offset } => write!(
                f,
                "error: {} is not UTF-8 text: the byte at offset {offset} does not fit",
                path.display()
            ),
            ApplicationError::TooLong {
                path,
                bytes,
                bytes_max,
            } => write!(
                f,
                "error: {} is {} MB long: up to {} MB of SQL in one file are read; split it, leave out \
                 what only loads rows, or let analyze and replay read more (--file-mb-max)",
                path.display(),
                bytes.div_ceil(1_000_000),
                bytes_max / 1_000_000
            ),
            ApplicationError::NoFiles(path) => {
                write!(f, "error: there is no .sql file in {}", path.display())
            }
            ApplicationError::Diagnostics(text) => f.write_str(text.trim_end()),
        }
    }
}

impl std::error::Error for ApplicationError {}

/// The default of the longest file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 16_000_000;

/// Reads files, and the `.sql` files of folders: `schema.sql` first, then the others by name.
///
/// # Errors
/// When one cannot be read, is not text, or is longer than [`FILE_BYTES_MAX`].
pub fn read_sources(paths: &[PathBuf]) -> Result<Vec<SourceFile>, ApplicationError> {
    read_sources_up_to(paths, FILE_BYTES_MAX)
}

/// Like [`read_sources`], with a limit of `bytes_max` bytes for each file.
///
/// # Errors
/// When one cannot be read, is not text, or is longer.
pub fn read_sources_up_to(
    paths: &[PathBuf],
    bytes_max: u64,
) -> Result<Vec<SourceFile>, ApplicationError> {
    let mut files = Vec::new();
    let mut read: BTreeSet<PathBuf> = BTreeSet::new();
    // A file that is given twice, or by itself and in a folder, is read once.
    let mut is_new = |path: &Path| match path.canonicalize() {
        Ok(whole) => read.insert(whole),
        Err(_) => true,
    };
    for path in paths {
        if path.is_dir() {
            let mut inside = sql_files(path)?;
            if inside.is_empty() {
                return Err(ApplicationError::NoFiles(path.clone()));
            }
            inside.sort_by_cached_key(|file| reading_order(file));
            inside.retain(|file| is_new(file));
            for file in inside {
                files.push(read_source(&file, bytes_max)?);
            }
        } else if is_new(path) {
            files.push(read_source(path, bytes_max)?);
        }
    }
    Ok(files)
}

/// The sort key by which files of one folder are read: `schema.sql` first, then by name. Numbers in names compare as
/// numbers, so that migrations are in order (`2_users.sql` before `10_posts.sql`).
pub fn reading_order(file: &Path) -> impl Ord + use<> {
    let parts = file.iter().map(|part| pieces(&part.to_string_lossy()));
    (
        file.file_name() != Some("schema.sql".as_ref()),
        parts.collect::<Vec<_>>(),
        file.to_owned(),
    )
}

/// A part of a file name, as it is ordered.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    /// The number of digits, and the digits, without leading zeros.
    Number(usize, String),
    Text(String),
}

fn pieces(name: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let is_number = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_number);
        let (piece, behind) = rest.split_at(end.unwrap_or(rest.len()));
        let digits = piece.trim_start_matches('0');
        found.push(match is_number {
            true => Piece::Number(digits.len(), digits.to_owned()),
            false => Piece::Text(piece.to_owned()),
        });
        rest = behind;
    }
    found
}

fn sql_files(folder: &Path) -> Result<Vec<PathBuf>, ApplicationError> {
    let unreadable = |error| ApplicationError::Unreadable {
        path: folder.to_owned(),
        error,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension() == Some("sql".as_ref()) && path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

fn read_source(path: &Path, bytes_max: u64) -> Result<SourceFile, ApplicationError> {
    let unreadable = |error| ApplicationError::Unreadable {
        path: path.to_owned(),
        error,
    };
    let described = std::fs::metadata(path).map_err(unreadable)?;
    if described.len() > bytes_max {
        return Err(ApplicationError::TooLong {
            path: path.to_owned(),
            bytes: described.len(),
            bytes_max,
        });
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|error| ApplicationError::NotText {
        path: path.to_owned(),
        offset: error.utf8_error().valid_up_to(),
    })?;
    Ok(SourceFile {
        name: path.display().to_string(),
        text: text.into(),
    })
}

/// Parses, binds and compiles files.
///
/// # Errors
/// Rendered diagnostics.
pub fn compile(files: Vec<SourceFile>) -> Result<Application, ApplicationError> {
    let failed = rendering(&files);
    let catalog = anabranch_sql::catalog::load(files).map_err(&failed)?;
    Application::compile(catalog).map_err(&failed)
}

/// Renders diagnostics of these files as an error.
#[must_use]
pub fn refused(files: &[SourceFile], problems: Vec<Diagnostic>) -> ApplicationError {
    rendering(files)(problems)
}

/// Reads files as applications keep them. Statements that are not supported are skipped and reported.
///
/// # Errors
/// Rendered diagnostics, when every statement is skipped.
pub fn read_script(files: Vec<SourceFile>) -> Result<Script, ApplicationError> {
    read_script_with(files, Vec::new(), Vec::new())
}

/// Like [`read_script`], with the SQL that programs run; see [`anabranch_sql::script::read_with`].
///
/// # Errors
/// As for [`read_script`].
pub fn read_script_with(
    files: Vec<SourceFile>,
    programs: Vec<SourceFile>,
    clients: Vec<ClientTransaction>,
) -> Result<Script, ApplicationError> {
    let all: Vec<SourceFile> = files.iter().chain(&programs).cloned().collect();
    let failed = rendering(&all);
    anabranch_sql::script::read_with(files, programs, clients).map_err(failed)
}

/// Makes an error of diagnostics in these files.
fn rendering(files: &[SourceFile]) -> impl Fn(Vec<Diagnostic>) -> ApplicationError + use<> {
    let kept = files.to_vec();
    move |mut found: Vec<Diagnostic>| {
        if let [_] = &kept[..] {
            suggest_more_files(&mut found);
        }
        ApplicationError::Diagnostics(diagnostic::render(&found, &kept))
    }
}

/// Adds a hint, once, if a single file uses a relation that it does not declare: another file may declare it.
fn suggest_more_files(found: &mut [Diagnostic]) {
    let missing = |d: &&mut Diagnostic| d.code == "42P01" && d.message.starts_with("relation ");
    if let Some(diagnostic) = found.iter_mut().find(missing) {
        diagnostic.help.get_or_insert_with(|| {
            "where another file declares it, give that file, too, or the folder of both".to_owned()
        });
    }
}

/// Analyses a compiled application for a partitioned cluster.
pub fn analyze(application: &Application, guarantee: Guarantee) -> Plan {
    anabranch_analysis::analyze(
        application.catalog(),
        application.summaries(),
        Topology::Partitioned,
        guarantee,
    )
}

/// Compiles and analyses files for a cluster of `partitions`.
///
/// # Errors
/// Rendered diagnostics.
pub fn plan(
    files: Vec<SourceFile>,
    partitions: u16,
) -> Result<Arc<PlannedApplication>, ApplicationError> {
    let application = compile(files)?;
    let plan = analyze(&application, Guarantee::Invariants);
    Ok(PlannedApplication::new(application, plan, partitions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_in_the_order_of_their_numbers() {
        let mut files: Vec<&str> = vec![
            "db/10_last.sql",
            "db/2_more.sql",
            "db/queries.sql",
            "db/schema.sql",
            "db/002_and_more.sql",
            "db/20240102030405_late.sql",
            "a/z.sql",
        ];
        files.sort_by_cached_key(|file| reading_order(Path::new(file)));
        assert_eq!(
            files,
            [
                "db/schema.sql",
                "a/z.sql",
                "db/002_and_more.sql",
                "db/2_more.sql",
                "db/10_last.sql",
                "db/20240102030405_late.sql",
                "db/queries.sql",
            ]
        );
    }
}
