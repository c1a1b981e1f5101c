//! Writes the data of a COPY.

use anabranch_types::{DataType, EffectError, TimeZone, Value, text::write_value};
use bytes::{BufMut, BytesMut};

use super::{CopyFormat, CopyHeader, CopyOptions, binary::SIGNATURE};
use crate::format::{Format, encode};

/// Writes the data of a COPY.
#[derive(Debug)]
pub struct CopyWriter {
    options: CopyOptions,
    /// The text of the value at hand.
    text: String,
    /// Binary data's signature is not written yet: it stands in one message with the first row, or with the end if there
    /// is none. Drivers take a message for a row.
    is_signature_due: bool,
}

impl CopyWriter {
    /// A writer with these options.
    pub fn new(options: CopyOptions) -> CopyWriter {
        CopyWriter {
            options,
            text: String::new(),
            is_signature_due: false,
        }
    }

    /// Appends what stands before the rows; of binary data, the next call appends it.
    pub fn begin<'n>(&mut self, names: impl Iterator<Item = &'n str>, out: &mut BytesMut) {
        if self.options.format == CopyFormat::Binary {
            self.is_signature_due = true;
            return;
        }
        if self.options.header == CopyHeader::Absent {
            return;
        }
        for (column, name) in names.enumerate() {
            if column > 0 {
                out.put_u8(self.options.delimiter);
            }
            self.text.clear();
            self.text.push_str(name);
            match self.options.format {
                CopyFormat::Csv => self.write_csv(out, false),
                _ => self.write_text(out),
            }
        }
        out.put_u8(b'\n');
    }

    /// Appends a row.
    ///
    /// # Errors
    /// If a value has no binary form.
    pub fn row<'v>(
        &mut self,
        values: impl ExactSizeIterator<Item = (&'v Value, &'v DataType)>,
        zone: &TimeZone,
        out: &mut BytesMut,
    ) -> Result<(), EffectError> {
        let count = values.len();
        if self.options.format == CopyFormat::Binary {
            self.sign(out);
            // The connection refuses more columns than a message can say.
            out.put_u16(u16::try_from(count).unwrap_or(u16::MAX));
            for (value, data_type) in values {
                encode(value, data_type, Format::Binary, zone, out)?;
            }
            return Ok(());
        }
        for (column, (value, data_type)) in values.enumerate() {
            if column > 0 {
                out.put_u8(self.options.delimiter);
            }
            if value.is_null() {
                out.put_slice(self.options.null.as_bytes());
                continue;
            }
            self.text.clear();
            write_value(&mut self.text, value, data_type, zone);
            match self.options.format {
                CopyFormat::Csv => {
                    let is_alone = count == 1 && self.text == "\\.";
                    let is_forced = self.options.force_quote.contains(&column);
                    self.write_csv(out, is_alone || is_forced);
                }
                _ => self.write_text(out),
            }
        }
        out.put_u8(b'\n');
        Ok(())
    }

    /// Appends what stands behind the rows.
    pub fn end(&mut self, out: &mut BytesMut) {
        if self.options.format == CopyFormat::Binary {
            self.sign(out);
            out.put_i16(-1);
        }
    }

    /// Appends binary data's signature if it is due.
    fn sign(&mut self, out: &mut BytesMut) {
        if std::mem::take(&mut self.is_signature_due) {
            out.put_slice(SIGNATURE);
            // No flags, no extension.
            out.put_u64(0);
        }
    }

    fn write_text(&self, out: &mut BytesMut) {
        for byte in self.text.bytes() {
            let letter = match byte {
                8 => b'b',
                12 => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                11 => b'v',
                b'\\' => b'\\',
                byte if byte == self.options.delimiter => byte,
                byte => {
                    out.put_u8(byte);
                    continue;
                }
            };
            out.put_u8(b'\\');
            out.put_u8(letter);
        }
    }

    fn write_csv(&self, out: &mut BytesMut, is_forced: bool) {
        let CopyOptions {
            delimiter,
            quote,
            escape,
            ..
        } = self.options;
        let special =
            |byte: u8| byte == delimiter || byte == quote || matches!(byte, b'\n' | b'\r');
        let needs = is_forced || self.text == self.options.null || self.text.bytes().any(special);
        if !needs {
            out.put_slice(self.text.as_bytes());
            return;
        }
        out.put_u8(quote);
        for byte in self.text.bytes() {
            if byte == quote || byte == escape {
                out.put_u8(escape);
            }
            out.put_u8(byte);
        }
        out.put_u8(quote);
    }
}
