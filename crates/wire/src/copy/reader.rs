//! Reads the data of a COPY.

use anabranch_types::{DataType, TimeZone, Value};

use super::{
    CopyError, CopyFormat, CopyHeader, CopyOptions, bad_format, binary, csv,
    lines::{Cut, Fields, LineEnd},
    shown, text,
};
use crate::format::{decode_text, text_of};

/// Reads the data of a COPY, in pieces of any size.
#[derive(Debug)]
pub struct CopyReader {
    options: CopyOptions,
    columns: Vec<(String, DataType)>,
    zone: TimeZone,
    /// Data that has no whole line or row yet.
    rest: Vec<u8>,
    line_end: Option<LineEnd>,
    /// The number of the line or row that is read, from 1.
    line: u64,
    /// How long `rest` has to be before it is looked at again: so a long line is not searched for each piece of it.
    due: usize,
    header_is_due: bool,
    binary: binary::Progress,
    /// Whether the end marker has come. What comes behind it is not read.
    ended: bool,
}

impl CopyReader {
    /// A reader of rows with these columns. A `timestamptz` without a time zone is taken in `zone`.
    pub fn new(
        options: CopyOptions,
        columns: Vec<(String, DataType)>,
        zone: TimeZone,
    ) -> CopyReader {
        CopyReader {
            header_is_due: options.header != CopyHeader::Absent,
            options,
            columns,
            zone,
            rest: Vec::new(),
            due: 0,
            line_end: None,
            line: 0,
            binary: binary::Progress::Signature,
            ended: false,
        }
    }

    /// Takes a piece of the data; `row` gets each row that is complete.
    ///
    /// # Errors
    /// What is wrong with the data, and where.
    pub fn read(&mut self, data: &[u8], row: &mut impl FnMut(Vec<Value>)) -> Result<(), CopyError> {
        if self.ended && self.options.format == CopyFormat::Binary && !data.is_empty() {
            return Err(CopyError {
                error: bad_format("received copy data after EOF marker"),
                place: format!("line {}", self.line + 1),
            });
        }
        if self.ended {
            return Ok(());
        }
        self.rest.extend_from_slice(data);
        if self.rest.len() < self.due {
            return Ok(());
        }
        let mut rest = std::mem::take(&mut self.rest);
        let read = self.read_all(&mut rest, false, row);
        self.due = 2 * rest.len();
        self.rest = rest;
        read
    }

    /// The bytes that are held because a line or row of them is not complete.
    pub fn buffered(&self) -> usize {
        self.rest.len()
    }

    /// Takes the end of the data.
    ///
    /// # Errors
    /// As [`CopyReader::read`]: the last row may be incomplete.
    pub fn finish(&mut self, row: &mut impl FnMut(Vec<Value>)) -> Result<(), CopyError> {
        let mut rest = std::mem::take(&mut self.rest);
        if self.ended {
            return Ok(());
        }
        self.read_all(&mut rest, true, row)
    }

    fn read_all(
        &mut self,
        data: &mut Vec<u8>,
        is_end: bool,
        row: &mut impl FnMut(Vec<Value>),
    ) -> Result<(), CopyError> {
        let mut from = 0;
        let result = match self.options.format {
            CopyFormat::Binary => self.read_binary(data, &mut from, is_end, row),
            _ => self.read_lines(data, &mut from, is_end, row),
        };
        data.drain(..from.min(data.len()));
        result
    }

    fn read_binary(
        &mut self,
        data: &[u8],
        from: &mut usize,
        is_end: bool,
        row: &mut impl FnMut(Vec<Value>),
    ) -> Result<(), CopyError> {
        loop {
            let mut next = *from;
            let step = binary::step(&mut self.binary, data, &mut next, &self.columns);
            let at = |line: u64, column: Option<&str>| match column {
                Some(column) => format!("line {line}, column {column}"),
                None => format!("line {line}"),
            };
            match step {
                Ok(binary::Step::Incomplete) if is_end && self.binary == binary::Progress::Rows => {
                    // As in PostgreSQL, the trailer may be missing between two rows.
                    if *from == data.len() {
                        return Ok(());
                    }
                    let error = bad_format("unexpected EOF in COPY data");
                    let place = at(self.line + 1, None);
                    return Err(CopyError { error, place });
                }
                Ok(binary::Step::Incomplete) if is_end => {
                    let error = bad_format("COPY file signature not recognized");
                    let place = at(1, None);
                    return Err(CopyError { error, place });
                }
                Ok(binary::Step::Incomplete) => return Ok(()),
                Ok(binary::Step::Header) => *from = next,
                Ok(binary::Step::Row(values)) => {
                    *from = next;
                    self.line += 1;
                    row(values);
                }
                Ok(binary::Step::End) => {
                    *from = next;
                    self.ended = true;
                    if next < data.len() {
                        let error = bad_format("received copy data after EOF marker");
                        let place = at(self.line + 1, None);
                        return Err(CopyError { error, place });
                    }
                    return Ok(());
                }
                Err((error, column)) => {
                    let column = column.map(|column| self.columns[column].0.as_str());
                    let place = at(self.line + 1, column);
                    return Err(CopyError { error, place });
                }
            }
        }
    }

    fn read_lines(
        &mut self,
        data: &[u8],
        from: &mut usize,
        is_end: bool,
        row: &mut impl FnMut(Vec<Value>),
    ) -> Result<(), CopyError> {
        while !self.ended && *from < data.len() {
            let rest = &data[*from..];
            let is_csv = self.options.format == CopyFormat::Csv;
            let cut = match is_csv {
                true => csv::cut(rest, &self.options, &mut self.line_end, is_end),
                false => text::cut(rest, &mut self.line_end, is_end),
            };
            let place = |line: &[u8]| format!("line {}: \"{}\"", self.line + 1, shown(line));
            let (end, next) = match cut {
                Ok(Cut::Line { end, next }) => (end, next),
                Ok(Cut::Incomplete) => return Ok(()),
                Err(error) => {
                    let place = place(rest);
                    return Err(CopyError { error, place });
                }
            };
            let line = &rest[..end];
            *from += next;
            if line == b"\\." {
                self.ended = true;
                return Ok(());
            }
            self.line += 1;
            let fields = match is_csv {
                true => csv::fields(line, &self.options),
                false => text::fields(line, &self.options),
            };
            if std::mem::take(&mut self.header_is_due) {
                if self.options.header == CopyHeader::Match {
                    self.check_header(&fields, line)?;
                }
                continue;
            }
            row(self.values(fields, line)?);
        }
        Ok(())
    }

    fn on_line(&self, error: anabranch_types::EffectError, line: &[u8]) -> CopyError {
        CopyError {
            error,
            place: format!("line {}: \"{}\"", self.line, shown(line)),
        }
    }

    fn values(&self, fields: Fields, line: &[u8]) -> Result<Vec<Value>, CopyError> {
        if fields.len() > self.columns.len() {
            let error = bad_format("extra data after last expected column");
            return Err(self.on_line(error, line));
        }
        if let Some((missing, _)) = self.columns.get(fields.len()) {
            let error = bad_format(format!("missing data for column \"{missing}\""));
            return Err(self.on_line(error, line));
        }
        let mut values = Vec::with_capacity(fields.len());
        for (field, (name, data_type)) in fields.into_iter().zip(&self.columns) {
            let Some(bytes) = field else {
                values.push(Value::Null);
                continue;
            };
            let value = decode_text(&bytes, data_type, &self.zone).map_err(|error| CopyError {
                error,
                place: format!("line {}, column {name}: \"{}\"", self.line, shown(&bytes)),
            })?;
            values.push(value);
        }
        Ok(values)
    }

    fn check_header(&self, fields: &Fields, line: &[u8]) -> Result<(), CopyError> {
        if fields.len() != self.columns.len() {
            let error = bad_format(format!(
                "wrong number of fields in header line: got {}, expected {}",
                fields.len(),
                self.columns.len()
            ));
            return Err(self.on_line(error, line));
        }
        for (at, (field, (name, _))) in fields.iter().zip(&self.columns).enumerate() {
            let number = at + 1;
            let error = match field.as_deref().map(text_of) {
                Some(Ok(text)) if text == name => continue,
                Some(Ok(text)) => bad_format(format!(
                    "column name mismatch in header line field {number}: got \"{text}\", expected \"{name}\""
                )),
                Some(Err(error)) => error,
                None => bad_format(format!(
                    "column name mismatch in header line field {number}: got null value (\"{}\"), expected \"{name}\"",
                    self.options.null
                )),
            };
            return Err(self.on_line(error, line));
        }
        Ok(())
    }
}
