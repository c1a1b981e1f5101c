//! Writes the backend's messages.

use bytes::{BufMut, BytesMut};

use crate::error_fields::ErrorFields;
use crate::format::Format;

/// A column in a RowDescription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type's OID.
    pub type_oid: u32,
    /// The size of its values; negative if they differ.
    pub type_length: i16,
    /// Its type's modifier, such as the length of a `varchar(n)`; -1 without.
    pub type_modifier: i32,
    /// The format of its values.
    pub format: Format,
}

/// Writes a message: its type, its length, and what `body` writes.
pub(crate) fn message(out: &mut BytesMut, kind: u8, body: impl FnOnce(&mut BytesMut)) {
    out.put_u8(kind);
    let start = out.len();
    out.put_u32(0);
    body(out);
    end(out, start);
}

/// Sets the length of a message whose length stands at `start`.
fn end(out: &mut BytesMut, start: usize) {
    // Results are limited far below that.
    let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Writes a text and the NUL that ends it. A NUL in the text would end it early, and what follows would be read as
/// something else: it is left out.
pub(crate) fn text(out: &mut BytesMut, text: &str) {
    for part in text.as_bytes().split(|byte| *byte == 0) {
        out.put_slice(part);
    }
    out.put_u8(0);
}

/// Writes a count, which has 16 bits.
fn count(out: &mut BytesMut, count: usize) {
    out.put_u16(u16::try_from(count).unwrap_or(u16::MAX));
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
        oids.iter().for_each(|oid| out.put_u32(*oid));
    });
}

/// Writes an ErrorResponse (`E`) or a NoticeResponse (`N`).
pub(crate) fn fields(out: &mut BytesMut, kind: u8, fields: &ErrorFields) {
    message(out, kind, |out| {
        let mut field = |name: u8, value: &str| {
            out.put_u8(name);
            text(out, value);
        };
        field(b'S', fields.severity.name());
        field(b'V', fields.severity.name());
        field(b'C', fields.code);
        field(b'M', &fields.message);
        let optional = [
            (b'D', fields.detail.as_deref()),
            (b'H', fields.hint.as_deref()),
            (b's', fields.schema.as_deref()),
            (b't', fields.table.as_deref()),
            (b'c', fields.column.as_deref()),
            (b'd', fields.data_type.as_deref()),
            (b'n', fields.constraint.as_deref()),
            (b'R', fields.routine),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                field(name, value);
            }
        }
        if let Some(position) = fields.position {
            field(b'P', &position.to_string());
        }
        out.put_u8(0);
    });
}

/// Writes one DataRow: a value for each column, in order, then [`DataRow::finish`].
#[must_use = "a row that is not finished has no length"]
pub struct DataRow<'o> {
    out: &'o mut BytesMut,
    /// Where the message begins.
    start: usize,
}

impl<'o> DataRow<'o> {
    pub(crate) fn new(out: &'o mut BytesMut, columns: usize) -> DataRow<'o> {
        let start = out.len();
        out.put_u8(b'D');
        out.put_u32(0);
        count(out, columns);
        DataRow { out, start }
    }

    /// The buffer, to append the next column to: its length, or -1 for NULL, and its bytes.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.out
    }

    /// Ends the row.
    pub fn finish(self) {
        end(self.out, self.start + 1);
    }

    /// Takes the row back: one of its values cannot be written.
    pub fn discard(self) {
        self.out.truncate(self.start);
    }
}
