//! Results as clients see them: descriptions of columns, rows, tags.

use anabranch_types::{DataType, Value};
use anabranch_wire::copy::{CopyOptions, CopyWriter};
use anabranch_wire::format;
use anabranch_wire::{ErrorFields, Field, Format, Formats};
use bytes::BytesMut;

use super::{Session, State};
use crate::service::copy_form::format_of;
use crate::service::errors::{error, of_effect};
use crate::service::prepared::{Columns, Tag};

/// A result, and how far it has been sent.
pub(crate) struct Sending {
    pub(crate) columns: Columns,
    pub(crate) rows: std::vec::IntoIter<Vec<Value>>,
    /// The format of each column.
    pub(crate) formats: Vec<Format>,
    /// What the client is told at the end.
    pub(crate) tag: Tag,
    /// The number of rows sent since the last Execute.
    pub(crate) sent: u64,
    /// How many more rows are sent before the portal is suspended; `None` for all.
    pub(crate) rows_left: Option<u32>,
    /// The portal that keeps what is not sent; `None` for a simple query.
    pub(crate) portal: Option<String>,
    /// What makes the data of a COPY; `None` where rows are sent.
    pub(crate) copy: Option<Box<CopyWriter>>,
}

/// The description of a result's columns.
pub(crate) fn fields(columns: &[(String, DataType)], formats: &[Format]) -> Vec<Field> {
    let described = columns
        .iter()
        .zip(formats)
        .map(|((name, data_type), format)| Field {
            name: name.clone(),
            type_oid: format::oid_of(data_type),
            type_length: format::type_length_of(data_type),
            type_modifier: format::type_modifier_of(data_type),
            format: *format,
        });
    described.collect()
}

/// The format of each of `count` columns, as a client has asked for them.
///
/// # Errors
/// 08P01 if it has asked for another number of columns.
pub(crate) fn column_formats(
    asked: &Formats,
    count: usize,
) -> Result<Vec<Format>, Box<ErrorFields>> {
    asked.for_columns(count).map_err(|given| {
        let message =
            format!("bind message has {given} result formats but query has {count} columns");
        error("08P01", message)
    })
}

impl Session {
    /// Sends rows until all are sent or much waits to be sent. Returns whether the session can go on.
    pub(super) fn send_rows(&mut self) -> bool {
        let State::Sending(sending) = &mut self.state else {
            return true;
        };
        let max = self.environment.options.output_bytes_max;
        let zone = self.settings.zone();
        loop {
            // As in PostgreSQL: also where no row is left, which only the next Execute finds out.
            if sending.rows_left == Some(0) {
                return self.suspend();
            }
            if self.wire.output().len() >= max {
                return false;
            }
            let Some(row) = sending.rows.next() else {
                break;
            };
            sending.sent += 1;
            if let Some(left) = &mut sending.rows_left {
                *left -= 1;
            }
            if let Some(writer) = &mut sending.copy {
                let values = row.iter().zip(sending.columns.iter().map(|(_, of)| of));
                let sent = self.wire.copy_data(|out| writer.row(values, zone, out));
                if let Err(failure) = sent {
                    let fields = of_effect(&failure);
                    self.fail(&fields);
                    return true;
                }
                continue;
            }
            let mut writer = self.wire.data_row(row.len());
            let mut failed = None;
            let columns = row.iter().zip(sending.columns.iter()).zip(&sending.formats);
            for ((value, (_, data_type)), format) in columns {
                let buffer = writer.buffer();
                failed = failed.or(format::encode(value, data_type, *format, zone, buffer).err());
            }
            match failed {
                None => writer.finish(),
                Some(failure) => {
                    writer.discard();
                    let fields = of_effect(&failure);
                    self.fail(&fields);
                    return true;
                }
            }
        }
        let State::Sending(mut sending) = std::mem::replace(&mut self.state, State::Idle) else {
            return true;
        };
        if let Some(writer) = &mut sending.copy {
            self.send_copy(|out| writer.end(out));
            self.wire.copy_done();
        }
        self.wire.command_complete(&sending.tag.text(sending.sent));
        self.end_statement();
        if let Some(portal) = &sending.portal {
            self.portal_done(portal);
        }
        true
    }

    /// Tells the client that the data of a COPY follows, and sends what stands before its rows.
    pub(super) fn begin_copy_out(
        &mut self,
        options: &CopyOptions,
        columns: &Columns,
    ) -> CopyWriter {
        self.wire.copy_out(format_of(options), columns.len());
        let mut writer = CopyWriter::new(options.clone());
        let names = columns.iter().map(|(name, _)| name.as_str());
        self.send_copy(|out| writer.begin(names, out));
        writer
    }

    /// Sends what `write` appends as data of a COPY, if it appends anything.
    fn send_copy(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let nothing = self.wire.copy_data(|out| {
            let before = out.len();
            write(out);
            if out.len() > before { Ok(()) } else { Err(()) }
        });
        // Nothing was appended, and nothing is sent.
        let _ = nothing;
    }

    /// Keeps the rows that are not sent in their portal.
    fn suspend(&mut self) -> bool {
        if let State::Sending(sending) = std::mem::replace(&mut self.state, State::Idle) {
            self.wire.portal_suspended();
            self.end_statement();
            self.keep_rows(*sending);
        }
        true
    }
}
