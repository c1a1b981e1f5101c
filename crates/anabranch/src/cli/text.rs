//! Text files that a command reads. `-` is standard input. A byte-order mark at the beginning is skipped.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Opens a file, or standard input, and skips a byte-order mark.
///
/// # Errors
/// When it cannot be read. The message names the path.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>, String> {
    open_file(path).map_err(|error| cannot_read(path, &error))
}

fn open_file(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut input: Box<dyn BufRead> = match is_standard_input(path) {
        true => Box::new(BufReader::new(io::stdin())),
        false => Box::new(BufReader::with_capacity(1 << 16, File::open(path)?)),
    };
    if input.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
        input.consume(BYTE_ORDER_MARK.len());
    }
    Ok(input)
}

/// Reads the whole text of a file, or of standard input.
///
/// # Errors
/// When it cannot be read, or is not UTF-8. The message names the path.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    open(path)?
        .read_to_string(&mut text)
        .map_err(|error| cannot_read(path, &error))?;
    Ok(text)
}

/// The path's name in reports.
pub(crate) fn name(path: &Path) -> String {
    match is_standard_input(path) {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

fn cannot_read(path: &Path, error: &io::Error) -> String {
    format!("error: cannot read {}: {error}", name(path))
}
