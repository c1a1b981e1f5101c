//! Encodes the messages of a server, straight into the output. No NUL leaves inside of text, and no message is longer
//! than clients accept.

use bytes::{BufMut, BytesMut};

use crate::{TEXT_BYTES_MAX, error_fields::ErrorFields, format::Format};

/// A column in a RowDescription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type's OID: [`crate::format::oid_of`].
    pub type_oid: u32,
    /// The size of its values; negative if they differ: [`crate::format::type_length_of`].
    pub type_length: i16,
    /// Its type's modifier, such as the length of a `varchar(n)`; -1 without: [`crate::format::type_modifier_of`].
    pub type_modifier: i32,
    /// The format of its values. The description of a prepared statement says text.
    pub format: Format,
}

/// Appends a message: its letter, its length and what `write` appends.
pub(crate) fn message(out: &mut BytesMut, letter: u8, write: impl FnOnce(&mut BytesMut)) {
    let start = begin(out, letter);
    write(out);
    end(out, start);
}

/// The same; nothing is appended if `write` fails.
pub(crate) fn fallible_message<E>(
    out: &mut BytesMut,
    letter: u8,
    write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<(), E> {
    let start = begin(out, letter);
    match write(out) {
        Ok(()) => {
            end(out, start);
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

/// CopyInResponse or CopyOutResponse: each column has the format of the whole.
pub(crate) fn copy_response(out: &mut BytesMut, letter: u8, format: Format, columns: usize) {
    message(out, letter, |out| {
        out.put_u8(u8::from(format == Format::Binary));
        count(out, columns);
        for _ in 0..columns {
            out.put_i16(format.code());
        }
    });
}

/// Appends a message's letter and room for its length. Returns where the message starts.
fn begin(out: &mut BytesMut, letter: u8) -> usize {
    let start = out.len();
    out.put_slice(&[letter, 0, 0, 0, 0]);
    start
}

/// Sets the length of the message that starts there and ends here.
fn end(out: &mut BytesMut, start: usize) {
    let length = u32::try_from(out.len() - start - 1).expect("results are limited to far less");
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
}

/// Appends text and the NUL that ends it: the text up to its first NUL, behind which a client would read something
/// else, and no more than clients take.
pub(crate) fn text(out: &mut BytesMut, text: &str) {
    let text = match text.bytes().position(|byte| byte == 0) {
        Some(end) => &text[..end],
        None => text,
    };
    if text.len() <= TEXT_BYTES_MAX {
        out.put_slice(text.as_bytes());
    } else {
        let end = (0..=TEXT_BYTES_MAX)
            .rev()
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or_default();
        out.put_slice(&text.as_bytes()[..end]);
        out.put_slice("…".as_bytes());
    }
    out.put_u8(0);
}

/// A count, which has 16 bits.
fn count(out: &mut BytesMut, count: usize) {
    out.put_u16(u16::try_from(count).expect("the connection refuses more"));
}

pub(crate) fn authentication_ok(out: &mut BytesMut) {
    message(out, b'R', |out| out.put_u32(0));
}

pub(crate) fn parameter_status(out: &mut BytesMut, name: &str, value: &str) {
    message(out, b'S', |out| {
        text(out, name);
        text(out, value);
    });
}

pub(crate) fn notification(out: &mut BytesMut, process: i32, channel: &str, payload: &str) {
    message(out, b'A', |out| {
        out.put_i32(process);
        text(out, channel);
        text(out, payload);
    });
}

pub(crate) fn backend_key_data(out: &mut BytesMut, process: i32, secret: &[u8]) {
    message(out, b'K', |out| {
        out.put_i32(process);
        out.put_slice(secret);
    });
}

/// The version is sent as a start-up packet has it, with the major version: the documentation says that it is the minor
/// version alone, but that is neither what PostgreSQL sends nor what libpq accepts.
pub(crate) fn negotiate_protocol_version(
    out: &mut BytesMut,
    minor: u16,
    unknown_options: &[String],
) {
    message(out, b'v', |out| {
        out.put_u16(3);
        out.put_u16(minor);
        out.put_u32(unknown_options.len() as u32);
        for option in unknown_options {
            text(out, option);
        }
    });
}

pub(crate) fn row_description(out: &mut BytesMut, fields: &[Field]) {
    message(out, b'T', |out| {
        count(out, fields.len());
        for field in fields {
            text(out, &field.name);
            // No table and no column of one.
            out.put_u32(0);
            out.put_i16(0);
            out.put_u32(field.type_oid);
            out.put_i16(field.type_length);
            out.put_i32(field.type_modifier);
            out.put_i16(field.format.code());
        }
    });
}

pub(crate) fn parameter_description(out: &mut BytesMut, oids: &[u32]) {
    message(out, b't', |out| {
        count(out, oids.len());
        for oid in oids {
            out.put_u32(*oid);
        }
    });
}

/// Appends an ErrorResponse (`E`) or a NoticeResponse (`N`).
pub(crate) fn fields(out: &mut BytesMut, letter: u8, fields: &ErrorFields) {
    message(out, letter, |out| {
        let mut field = |letter: u8, value: &str| {
            out.put_u8(letter);
            text(out, value);
        };
        field(b'S', fields.severity.name());
        field(b'V', fields.severity.name());
        field(b'C', fields.code);
        field(b'M', &fields.message);
        let position = fields.position.map(|position| position.to_string());
        let optional = [
            (b'D', fields.detail.as_deref()),
            (b'H', fields.hint.as_deref()),
            (b'W', fields.context.as_deref()),
            (b'P', position.as_deref()),
            (b's', fields.schema.as_deref()),
            (b't', fields.table.as_deref()),
            (b'c', fields.column.as_deref()),
            (b'd', fields.data_type.as_deref()),
            (b'n', fields.constraint.as_deref()),
            (b'R', fields.routine),
        ];
        for (letter, value) in optional {
            if let Some(value) = value {
                field(letter, value);
            }
        }
        out.put_u8(0);
    });
}

/// Appends an error as clients of protocol 1 and 2 read it: a letter and text.
pub(crate) fn error_of_protocol_2(out: &mut BytesMut, fields: &ErrorFields) {
    out.put_u8(b'E');
    let line = format!("{}:  {}\n", fields.severity.name(), fields.message);
    text(out, &line);
}

/// Writes one DataRow: a value for each column, in order, then [`DataRow::finish`]. A row that is dropped before leaves
/// nothing in the output.
#[derive(Debug)]
#[must_use = "a row that is not finished is not sent"]
pub struct DataRow<'o> {
    out: &'o mut BytesMut,
    /// Where the message begins.
    start: usize,
    /// Whether it is complete, and stays in the output.
    is_finished: bool,
    /// Whether the connection closes: nothing is sent then.
    is_closing: bool,
}

impl<'o> DataRow<'o> {
    pub(crate) fn new(out: &'o mut BytesMut, columns: u16, is_closing: bool) -> DataRow<'o> {
        let start = begin(out, b'D');
        out.put_u16(columns);
        DataRow {
            out,
            start,
            is_finished: false,
            is_closing,
        }
    }

    /// The buffer, to append the next column to: its length, or -1 for NULL, and its bytes, as
    /// [`crate::format::encode`] does.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.out
    }

    /// Ends the row.
    pub fn finish(mut self) {
        end(self.out, self.start);
        self.is_finished = !self.is_closing;
    }

    /// Takes the row back: one of its values cannot be written.
    pub fn discard(self) {}
}

impl Drop for DataRow<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.out.truncate(self.start);
        }
    }
}
