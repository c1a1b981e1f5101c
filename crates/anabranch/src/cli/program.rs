//! An application's source on the command line: which files of a folder are read, and which are skipped.
//!
//! A folder with source files of a known language is searched recursively, also for SQL files. Folders of
//! dependencies (`node_modules`, `vendor`), of build outputs, and hidden ones are ignored. A link to a folder is
//! followed once. A source file that cannot be read as text is skipped, with a note.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anabranch_bench::application::reading_order;
use anabranch_source::Language;
use anabranch_sql::SourceFile;
use anabranch_sql::diagnostic::Diagnostic;
use anabranch_sql::script::Skipped;

/// Folders that do not hold an application's own source.
const IGNORED: [&str; 12] = [
    "node_modules",
    "bower_components",
    "vendor",
    "third_party",
    "site-packages",
    "__pycache__",
    "venv",
    "target",
    "build",
    "dist",
    "out",
    "coverage",
];

/// Folders nested deeper than this are ignored.
const DEPTH_MAX: usize = 64;

/// The files that the paths on the command line name.
#[derive(Default)]
pub(super) struct Found {
    /// SQL files, and folders without source files.
    pub(super) sql: Vec<PathBuf>,
    pub(super) programs: Vec<SourceFile>,
    pub(super) skipped: Vec<Skipped>,
}

/// The limits on files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The longest file, in bytes.
    pub(super) bytes_max: u64,
    /// The most source files.
    pub(super) files_max: usize,
}

/// Finds the files that the paths name.
///
/// # Errors
/// When a folder cannot be listed, or has too many files, or a named file cannot be read.
pub(super) fn find(paths: &[PathBuf], limits: Limits) -> Result<Found, String> {
    let mut found = Found::default();
    let mut read = BTreeSet::new();
    for path in paths {
        if path.is_dir() {
            let mut inside = Inside {
                limits,
                ..Inside::default()
            };
            inside.walk(path, 0)?;
            if inside.programs.is_empty() {
                // A folder of SQL files only; the SQL reader lists it.
                found.sql.push(path.clone());
                continue;
            }
            inside.sql.sort_by_cached_key(|file| reading_order(file));
            found.sql.append(&mut inside.sql);
            let (tests, programs): (Vec<PathBuf>, Vec<PathBuf>) = inside
                .programs
                .into_iter()
                .partition(|file| Language::is_test(&file.to_string_lossy()));
            // Test files are read if there is nothing else.
            let (tests, programs) = match programs.is_empty() {
                true => (Vec::new(), tests),
                false => (tests, programs),
            };
            found.skipped.extend(note_on_tests(&tests));
            for file in programs {
                found.program(&file, limits, &mut read)?;
            }
        } else if is_source(path) {
            let before = found.skipped.len();
            found.program(path, limits, &mut read)?;
            // An unreadable file in a folder is skipped with a note; an unreadable file that is named is an error.
            if let Some(skipped) = found.skipped.get(before) {
                let why = &skipped.diagnostic.message;
                return Err(format!("error: cannot read {why}"));
            }
        } else {
            found.sql.push(path.clone());
        }
    }
    Ok(found)
}

/// The note on test files, whose SQL is not part of the application's transactions.
fn note_on_tests(tests: &[PathBuf]) -> Option<Skipped> {
    let first = tests.first()?;
    let first = first.strip_prefix(".").unwrap_or(first).display();
    let message = match tests.len() {
        1 => format!("{first} is a test file"),
        more => format!("{more} files are test files, beginning with {first}"),
    };
    Some(Skipped {
        diagnostic: Diagnostic {
            code: "01000",
            message,
            span: None,
            help: None,
        },
        meaning: "the SQL that they run is not considered; a file that is named is read".to_owned(),
        transaction: None,
    })
}

fn is_source(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| Language::of(name).is_some() && !name.ends_with(".min.js"))
}

impl Found {
    fn program(
        &mut self,
        path: &Path,
        limits: Limits,
        read: &mut BTreeSet<PathBuf>,
    ) -> Result<(), String> {
        // A file that is named twice is read once.
        if let Ok(whole) = path.canonicalize()
            && !read.insert(whole)
        {
            return Ok(());
        }
        if self.programs.len() >= limits.files_max {
            return Err(format!(
                "error: more than {} source files; analyze a part of them, or raise the limit with \
                 --source-files-max",
                limits.files_max
            ));
        }
        let shown = path.strip_prefix(".").unwrap_or(path);
        match text(path, limits.bytes_max) {
            Ok(text) => {
                let file = SourceFile::new(shown.display().to_string(), text);
                self.programs.push(file);
            }
            Err(why) => self.skipped.push(Skipped {
                diagnostic: Diagnostic {
                    code: "22021",
                    message: format!("{}: {why}", shown.display()),
                    span: None,
                    help: None,
                },
                meaning: "the SQL that it runs is not considered".to_owned(),
                transaction: None,
            }),
        }
        Ok(())
    }
}

fn text(path: &Path, bytes_max: u64) -> Result<String, String> {
    let described = fs::metadata(path).map_err(|error| error.to_string())?;
    if described.len() > bytes_max {
        return Err(format!(
            "it has {} MB, more than the limit of {} MB; raise it with --file-mb-max",
            described.len().div_ceil(1_000_000),
            bytes_max / 1_000_000
        ));
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    if bytes.contains(&0) {
        return Err("it is binary".to_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        format!("it is not UTF-8 text: the byte at offset {offset} is invalid")
    })
}

#[derive(Default)]
struct Inside {
    sql: Vec<PathBuf>,
    programs: Vec<PathBuf>,
    folders: BTreeSet<PathBuf>,
    limits: Limits,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes_max: u64::MAX,
            files_max: usize::MAX,
        }
    }
}

impl Inside {
    fn walk(&mut self, folder: &Path, depth: usize) -> Result<(), String> {
        let cannot =
            |error: std::io::Error| format!("error: cannot read {}: {error}", folder.display());
        let whole = folder.canonicalize().map_err(cannot)?;
        if depth > DEPTH_MAX || !self.folders.insert(whole) {
            return Ok(());
        }
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(cannot)? {
            paths.push(entry.map_err(cannot)?.path());
        }
        paths.sort_by_cached_key(|path| reading_order(path));
        for path in paths {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if path.is_dir() {
                let ignored = name.starts_with('.') || IGNORED.contains(&name);
                if !ignored {
                    self.walk(&path, depth + 1)?;
                }
            } else if path.is_file() {
                if is_source(&path) {
                    self.programs.push(path);
                } else if name.ends_with(".sql") && !name.ends_with(".down.sql") {
                    self.sql.push(path);
                }
            }
            if self.programs.len().max(self.sql.len()) > self.limits.files_max {
                return Err(format!(
                    "error: {} has more than {} files; analyze a part of it, or raise the limit with \
                     --source-files-max",
                    folder.display(),
                    self.limits.files_max
                ));
            }
        }
        Ok(())
    }
}
