//! Files that a command reads. `-` is standard input, and a byte-order mark at the beginning, as some
//! editors write it, is no part of the text.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file, or standard input, behind its byte-order mark.
///
/// # Errors
/// When it cannot be read: told with its path.
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

/// The whole text of one.
///
/// # Errors
/// When it cannot be read, or is no UTF-8: told with its path.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    open(path)?
        .read_to_string(&mut text)
        .map_err(|error| cannot_read(path, &error))?;
    Ok(text)
}

/// What a report calls it.
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
