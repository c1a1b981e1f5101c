//! The data of a COPY: rows as bytes, and back, in PostgreSQL's three formats.
//!
//! [`CopyReader`] takes bytes in pieces of any size and gives rows; [`CopyWriter`] makes the bytes of rows. Both are
//! functions of the options, the columns and the session's time zone.

mod binary;
mod csv;
mod lines;
mod reader;
mod text;
mod writer;

use anabranch_types::EffectError;

pub use reader::CopyReader;
pub use writer::CopyWriter;

/// The form of a COPY's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// Lines of fields, with escapes by a backslash.
    Text,
    /// Comma-separated values.
    Csv,
    /// Each value in its type's binary form.
    Binary,
}

/// A first line of column names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyHeader {
    /// There is none.
    Absent,
    /// It is written, and passed over when it is read.
    Present,
    /// It is written, and has to have the columns' names when it is read.
    Match,
}

/// What a COPY's data looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// The format.
    pub format: CopyFormat,
    /// The byte between fields.
    pub delimiter: u8,
    /// The field that stands for NULL.
    pub null: String,
    /// The line of names.
    pub header: CopyHeader,
    /// The byte around a quoted field of CSV.
    pub quote: u8,
    /// The byte before a quote inside a quoted field of CSV.
    pub escape: u8,
    /// Columns whose values are quoted in CSV though they need not be, by place.
    pub force_quote: Vec<usize>,
    /// Columns whose unquoted fields are never NULL in CSV, by place.
    pub force_not_null: Vec<usize>,
    /// Columns whose quoted fields may be NULL in CSV, by place.
    pub force_null: Vec<usize>,
}

impl CopyOptions {
    /// The defaults of a format.
    pub fn of(format: CopyFormat) -> CopyOptions {
        let is_csv = format == CopyFormat::Csv;
        CopyOptions {
            format,
            delimiter: if is_csv { b',' } else { b'\t' },
            null: if is_csv {
                String::new()
            } else {
                "\\N".to_owned()
            },
            header: CopyHeader::Absent,
            quote: b'"',
            escape: b'"',
            force_quote: Vec::new(),
            force_not_null: Vec::new(),
            force_null: Vec::new(),
        }
    }
}

/// Data that is not of the form, or no values of the columns' types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyError {
    /// What is wrong.
    pub error: EffectError,
    /// Where, behind the table's name: `line 3, column id: "x"`.
    pub place: String,
}

/// The SQLSTATE of data that is not of the form.
const BAD_FORMAT: &str = "22P04";

fn bad_format(message: impl Into<String>) -> EffectError {
    EffectError::new(BAD_FORMAT, message)
}

/// A piece of data for a message to people: at most 100 bytes of it.
fn shown(data: &[u8]) -> String {
    const BYTES_MAX: usize = 100;
    let text = String::from_utf8_lossy(data);
    if text.len() <= BYTES_MAX {
        return text.into_owned();
    }
    let end = (0..=BYTES_MAX)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or_default();
    format!("{}...", &text[..end])
}
