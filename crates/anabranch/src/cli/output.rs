//! Standard output, and the files that a command writes.
//!
//! `print!` panics if it cannot write. Here that is an error like others ([`say`]): a closed pipe ends the command
//! silently, as with other tools; a full disk is reported. A file that is written after minutes of work is opened
//! before the work, to find errors early ([`check_writable`]).

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// The exit code that a shell shows for a tool that SIGPIPE ended: 128 and the signal's number.
pub(crate) const CLOSED_PIPE: u8 = 141;

/// Standard output cannot be written.
#[derive(Debug)]
pub(crate) struct OutputError(io::Error);

impl OutputError {
    /// Whether the reader has closed the pipe, which is not an error of the user.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

impl std::fmt::Display for OutputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "error: cannot write to standard output: {}", self.0)
    }
}

impl std::error::Error for OutputError {}

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> OutputError {
        OutputError(error)
    }
}

/// Writes to standard output, and flushes it.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn write(text: std::fmt::Arguments<'_>) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    out.write_fmt(text)
        .and_then(|()| out.flush())
        .map_err(OutputError)
}

/// `print!` with an error in place of a panic.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::cli::output::write(format_args!($($text)*))
    };
}
pub(crate) use say;

/// Writes a line to standard error. If that cannot be written, the exit code is all there is.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes a file.
///
/// # Errors
/// When it cannot be written. The message names the path.
pub(crate) fn write_file(path: &Path, text: impl AsRef<[u8]>) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| cannot_write(path, &error))
}

/// The message for a file that cannot be written.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("error: cannot write {}: {error}", path.display())
}

/// Checks, before the work that fills them, that the files that options name can be written, are distinct, and are not
/// inputs.
///
/// # Errors
/// When a file cannot be written, two options name the same file, or an option names an input.
pub(crate) fn check_outputs(
    files: &[(&str, Option<&Path>)],
    inputs: &[&Path],
) -> Result<(), String> {
    let named = || {
        files
            .iter()
            .filter_map(|(option, path)| Some((option, (*path)?)))
    };
    for (option, path) in named() {
        if inputs.iter().any(|input| is_same(input, path)) {
            return Err(format!(
                "error: {option} would overwrite the input {}: name another file",
                path.display()
            ));
        }
    }
    for (at, (option, path)) in named().enumerate() {
        if let Some((earlier, _)) = named().take(at).find(|(_, other)| is_same(other, path)) {
            return Err(format!(
                "error: {earlier} and {option} name the same file {}: name another one",
                path.display()
            ));
        }
        check_writable(Some(path))?;
    }
    Ok(())
}

/// Whether two paths name one file. Files that do not exist yet are compared by folder and name. Devices are never the
/// same file: they take the output of both options.
fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        path.canonicalize()
            .ok()
            .or_else(|| Some(folder.join(path.file_name()?)))
    };
    let is_device = |path: &Path| path.metadata().is_ok_and(|found| !found.is_file());
    !is_device(one) && (one == other || whole(one).is_some_and(|path| whole(other) == Some(path)))
}

/// Checks that a file can be written, before the work that fills it. An existing file stays unchanged; a missing one
/// stays missing. Pipes and devices are not opened, since their other end could notice.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn check_writable(path: Option<&Path>) -> Result<(), String> {
    let Some(path) = path else {
        return Ok(());
    };
    if path == Path::new("-") {
        return Err(
            "error: cannot write to `-`: standard output has the report (/dev/stdout writes to it as well; \
             ./- is a file of that name)"
                .to_owned(),
        );
    }
    let found = std::fs::metadata(path);
    if found
        .as_ref()
        .is_ok_and(|found| !found.is_file() && !found.is_dir())
    {
        return Ok(());
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| cannot_write(path, &error))?;
    if found.is_err() {
        std::fs::remove_file(path).map_err(|error| cannot_write(path, &error))?;
    }
    Ok(())
}

/// Checks that a file may be replaced: it is missing, empty, or `is_own` accepts its text.
///
/// # Errors
/// When it holds something else. `otherwise` completes "file … exists and".
pub(crate) fn check_replaceable(
    path: &Path,
    otherwise: &str,
    is_own: impl FnOnce(&str) -> bool,
) -> Result<(), String> {
    if !path.is_file() {
        return Ok(()); // A pipe or a device has no contents to lose.
    }
    match std::fs::read_to_string(path) {
        Ok(text) if text.is_empty() || is_own(&text) => Ok(()),
        _ => Err(format!(
            "error: {} exists and {otherwise}: name another file, so that it is not overwritten",
            path.display()
        )),
    }
}
