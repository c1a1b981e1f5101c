//! An application's source on the command line: which files of a folder are read, and which are skipped.
//!
//! A folder with source files of a known language is searched recursively, also for SQL files. Folders of
//! dependencies (`node_modules`, `vendor`), of build outputs, and hidden ones are ignored. A link to a folder is
//! followed once. A source file that cannot be read as text is skipped, with a note; so are source files in languages
//! that are not read, with one note for each language.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anabranch_bench::application::reading_order;
use anabranch_source::{Language, is_unread_test, mentions_database, script_language, unread};
use anabranch_sql::SourceFile;
use anabranch_sql::diagnostic::Diagnostic;
use anabranch_sql::script::{Skipped, UnreadFiles};

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

/// Of a file that counts by its text, this many bytes are looked at.
const LOOKED_AT_BYTES: u64 = 1_000_000;

/// A note names at most this many files; reports for programs list all.
const NAMED_MAX: usize = 5;

/// The files that the paths on the command line name.
#[derive(Default)]
pub(super) struct Found {
    /// SQL files, and folders without source files.
    pub(super) sql: Vec<PathBuf>,
    pub(super) programs: Vec<SourceFile>,
    pub(super) skipped: Vec<Skipped>,
    /// Source files that are not read, by language.
    unread: BTreeMap<&'static str, Vec<String>>,
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
            let unread = inside.take_unread(path);
            unread
                .files
                .iter()
                .for_each(|(language, file)| found.add_unread(language, file));
            if inside.programs.is_empty() && unread.files.is_empty() {
                found.skipped.extend(note_on_tests(&unread.tests));
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
            let tests: Vec<PathBuf> = tests.into_iter().chain(unread.tests).collect();
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
        } else if let Some(language) = unread_language(path, true) {
            found.add_unread(language, path);
        } else {
            found.sql.push(path.clone());
        }
    }
    let unread = std::mem::take(&mut found.unread);
    found.skipped.extend(
        unread
            .into_iter()
            .map(|(language, files)| note_on_unread(language, files)),
    );
    Ok(found)
}

/// The language of a source file that is not read. A file that is `named` counts whatever its text is.
fn unread_language(path: &Path, named: bool) -> Option<&'static str> {
    let name = path.to_str()?;
    if let Some(of) = unread(name) {
        let counts = named || !of.by_text || mentions_database(&beginning(path, LOOKED_AT_BYTES));
        return counts.then_some(of.language);
    }
    // A script without an extension names its interpreter.
    if path.extension().is_some() || !beginning(path, 2).starts_with("#!") {
        return None;
    }
    let text = beginning(path, LOOKED_AT_BYTES);
    let language = script_language(&text)?;
    (named || mentions_database(&text)).then_some(language)
}

/// The text at a file's beginning; empty if it cannot be read.
fn beginning(path: &Path, bytes_max: u64) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = fs::File::open(path) {
        // A file that cannot be read to this length is judged by what was read.
        let _ = file.take(bytes_max).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The note on source files of a language that is not read.
fn note_on_unread(language: &'static str, files: Vec<String>) -> Skipped {
    let (first, number) = (&files[..files.len().min(NAMED_MAX)], files.len());
    let named = first.join(", ");
    let message = match number {
        1 => format!("1 {language} file is not read: {named}"),
        _ if number <= NAMED_MAX => format!("{number} {language} files are not read: {named}"),
        _ => format!(
            "{number} {language} files are not read: {named}, and {} more",
            number - NAMED_MAX
        ),
    };
    let diagnostic = Diagnostic {
        code: "0A000",
        message,
        span: None,
        detail: None,
        help: None,
    };
    let meaning = match number {
        1 => {
            "its transactions have no verdict, and no verdict on others considers them; give their SQL as a file, \
              or analyze the database that it uses"
        }
        _ => {
            "their transactions have no verdict, and no verdict on others considers them; give their SQL as a file, \
              or analyze the database that they use"
        }
    };
    Skipped {
        unread: Some(UnreadFiles {
            language: language.to_owned(),
            files,
        }),
        ..Skipped::new(diagnostic, meaning)
    }
}

/// The note on test files, whose SQL is not part of the application's transactions.
fn note_on_tests(tests: &[PathBuf]) -> Option<Skipped> {
    let first = tests.first()?;
    let first = first.strip_prefix(".").unwrap_or(first).display();
    let message = match tests.len() {
        1 => format!("{first} is a test file"),
        more => format!("{more} files are test files, beginning with {first}"),
    };
    Some(Skipped::new(
        Diagnostic {
            code: "01000",
            message,
            span: None,
            detail: None,
            help: None,
        },
        "the SQL that they run is not considered; a file that is named is read",
    ))
}

fn is_source(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| Language::of(name).is_some() && !name.ends_with(".min.js"))
}

impl Found {
    fn add_unread(&mut self, language: &'static str, path: &Path) {
        let shown = path.strip_prefix(".").unwrap_or(path).display().to_string();
        let files = self.unread.entry(language).or_default();
        if !files.contains(&shown) {
            files.push(shown);
        }
    }

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
            Err(why) => self.skipped.push(Skipped::new(
                Diagnostic {
                    code: "22021",
                    message: format!("{}: {why}", shown.display()),
                    span: None,
                    detail: None,
                    help: None,
                },
                "the SQL that it runs is not considered",
            )),
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
    /// Source files that are not read, each with its language.
    unread: Vec<(&'static str, PathBuf)>,
    folders: BTreeSet<PathBuf>,
    limits: Limits,
}

/// Source files of a folder that are not read.
struct UnreadInside {
    /// The files, each with its language.
    files: Vec<(&'static str, PathBuf)>,
    tests: Vec<PathBuf>,
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
    /// Takes the source files that are not read out, as tests and others. Folders above `folder` do not make a file a
    /// test.
    fn take_unread(&mut self, folder: &Path) -> UnreadInside {
        let is_test = |path: &Path| {
            let within = path.strip_prefix(folder).unwrap_or(path);
            is_unread_test(&within.to_string_lossy())
        };
        let all = std::mem::take(&mut self.unread).into_iter();
        let (tests, files): (Vec<_>, Vec<_>) = all.partition(|(_, path)| is_test(path));
        UnreadInside {
            files,
            tests: tests.into_iter().map(|(_, path)| path).collect(),
        }
    }

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
                } else if let Some(language) = unread_language(&path, false) {
                    self.unread.push((language, path));
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
