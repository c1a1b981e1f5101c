//! Standard output, and the files that a command is asked to write.
//!
//! `print!` panics where nothing can be written. Here that is an error like others ([`say`]): a pipe
//! that its reader has closed ends the command without a word, as other tools end; a full disk is
//! told. A file that is to be written after minutes of work is tried before ([`check_writable`]).

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// What a shell shows for a tool that a closed pipe has ended: 128 and the number of SIGPIPE.
pub(crate) const CLOSED_PIPE: u8 = 141;

/// Standard output does not take what a command says.
#[derive(Debug)]
pub(crate) struct OutputError(io::Error);

impl OutputError {
    /// Whether nobody reads it any more, which is no mistake of anybody's.
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

/// Writes to standard output, and waits until it is written.
///
/// # Errors
/// When it cannot be.
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

/// Writes a file.
///
/// # Errors
/// When it cannot be written: told with its path.
pub(crate) fn write_file(path: &Path, text: impl AsRef<[u8]>) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| cannot_write(path, &error))
}

/// What is said of a file that cannot be written.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("error: cannot write {}: {error}", path.display())
}

/// Whether the files that options name can be written, each option's its own and none of those that
/// are read, before the work that fills them.
///
/// # Errors
/// When one cannot be written, two are one, or one is read.
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
                "error: {option} would write over {}, which is read: name another file",
                path.display()
            ));
        }
    }
    for (at, (option, path)) in named().enumerate() {
        if let Some((earlier, _)) = named().take(at).find(|(_, other)| is_same(other, path)) {
            return Err(format!(
                "error: {earlier} and {option} both write {}: name another file for one of them",
                path.display()
            ));
        }
        check_writable(Some(path))?;
    }
    Ok(())
}

/// Whether two paths are one file, as far as that can be told of files that are not there yet.
/// Devices take what comes from both.
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

/// Whether a file can be written, before the work that fills it. What is in it stays; where there is
/// none, none is left. Pipes and devices are not opened: that alone may be noticed at their other end.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn check_writable(path: Option<&Path>) -> Result<(), String> {
    let Some(path) = path else {
        return Ok(());
    };
    if path == Path::new("-") {
        return Err(
            "error: `-` is no file to write: standard output has the report (/dev/stdout writes among it, \
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
