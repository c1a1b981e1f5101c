//! COPY from and to the client.
//!
//! What comes in is collected, and written by one statement when the client has sent everything: a COPY is one
//! transaction. So it holds no more than a statement may hold.
//!
//! In a transaction that runs alone ([`crate::service::exclusive`]) no other session sees anything, and the changer can put rows
//! back. There the rows are written and committed in parts, so that a COPY of any size fits. A large one that is a
//! transaction by itself becomes one that runs alone.

use std::sync::Arc;

use anabranch_types::Value;
use anabranch_wire::copy::{CopyError, CopyReader};
use anabranch_wire::{ErrorFields, Request};

use super::block::EXCLUSIVE_IDLE;
use super::run::{Destination, Run};
use super::{Scope, Session, State};
use crate::service::copy_form::format_of;
use crate::service::errors::{error, error_with_hint, of_effect};
use crate::service::prepared::{CopyRun, Prepared, PreparedKind};

/// How many bytes of rows are written together where they are written in parts.
const PART_BYTES: usize = 4 << 20;

/// A COPY of more than this part of what a statement may hold runs alone, if it is a transaction by itself. What has come by
/// then is written by one statement, which holds it several times.
const ALONE_SHARE: usize = 8;

/// A COPY whose data is coming in.
pub(crate) struct CopyIn {
    /// The COPY.
    prepared: Arc<Prepared>,
    reader: CopyReader,
    /// What has come, by column.
    columns: Vec<Vec<Value>>,
    /// About how many bytes these hold.
    bytes: usize,
    destination: Destination,
}

impl CopyIn {
    /// The COPY's text.
    pub(super) fn text(&self) -> Arc<str> {
        Arc::clone(&self.prepared.text)
    }
}

impl Session {
    /// Runs a COPY: asks for the data, or runs the statement that reads it.
    pub(super) fn copy(
        &mut self,
        copy: &CopyRun,
        run: Run,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let portal = match &run.destination {
            Destination::Portal { name, .. } => Some(name.clone()),
            _ => None,
        };
        if !copy.is_from {
            let out = Run {
                prepared: Arc::clone(&copy.statement),
                parameters: Vec::new(),
                destination: Destination::Copy {
                    prepared: run.prepared,
                    portal,
                },
                explain: None,
            };
            return self.run(out, scope);
        }
        self.deadline = self
            .settings
            .statement_timeout()
            .map(|after| scope.now + after);
        self.wire
            .copy_in(format_of(&copy.options), copy.columns.len());
        self.flushes = true;
        let zone = self.settings.zone().clone();
        self.state = State::CopyingIn(Box::new(CopyIn {
            reader: CopyReader::new(copy.options.clone(), copy.columns.to_vec(), zone),
            columns: vec![Vec::new(); copy.columns.len()],
            bytes: 0,
            destination: run.destination,
            prepared: run.prepared,
        }));
        Ok(())
    }

    /// Takes what has come of a COPY's data. Returns whether the session can go on.
    pub(super) fn copy_more(&mut self, scope: &mut Scope<'_>) -> bool {
        let Some(request) = self.wire.next_request() else {
            return false;
        };
        let done = match request {
            Request::CopyData(data) => self.copy_data(Some(&data)),
            Request::CopyDone => self.copy_data(None).and_then(|()| self.copied_in(scope)),
            Request::CopyFail { message } => {
                let message = format!("COPY from stdin failed: {message}");
                Err(error("57014", message))
            }
            other => {
                let message = format!("unexpected message {} during COPY", other.name());
                Err(error("08P01", message))
            }
        };
        let done = done.and_then(|()| self.copy_part(scope));
        if let Err(fields) = done {
            self.fail(&fields);
        }
        true
    }

    /// Writes what has come so far, if it is much and may be written in parts.
    fn copy_part(&mut self, scope: &mut Scope<'_>) -> Result<(), Box<ErrorFields>> {
        let (is_alone, has_block) = (self.is_exclusive(), self.block.is_some());
        let alone_bytes = self.environment.options.statement_bytes_max / ALONE_SHARE;
        let State::CopyingIn(copying) = &mut self.state else {
            return Ok(());
        };
        if is_alone {
            self.deadline = Some(scope.now + EXCLUSIVE_IDLE);
        }
        let is_due = match (is_alone, has_block) {
            (true, _) => copying.bytes >= alone_bytes.min(PART_BYTES),
            (false, false) => copying.bytes >= alone_bytes,
            // What its transaction has done so far is not taken apart.
            (false, true) => false,
        };
        if !is_due {
            return Ok(());
        }
        let prepared = Arc::clone(&copying.prepared);
        if !is_alone {
            let waiting = Run {
                prepared,
                parameters: Vec::new(),
                destination: Destination::CopyPart,
                explain: None,
            };
            self.suspend_copying();
            self.begin_implicit(scope);
            return self.request_alone(waiting, scope);
        }
        let Some(copy) = prepared.copy() else {
            return Err(error("XX000", "data came for what is no COPY"));
        };
        let columns = copying.columns.iter_mut();
        let arrays = columns.map(|column| Value::Array(std::mem::take(column).into()));
        let run = Run {
            prepared: Arc::clone(&copy.statement),
            parameters: arrays.collect(),
            destination: Destination::CopyPart,
            explain: None,
        };
        copying.bytes = 0;
        self.suspend_copying();
        match self.keeps_rows_of(&copy.table) {
            true => self.run(run, scope),
            false => self.keep_rows_of(&copy.table, run, scope),
        }
    }

    /// Lets the data wait.
    fn suspend_copying(&mut self) {
        if let State::CopyingIn(copying) = std::mem::replace(&mut self.state, State::Idle) {
            self.copying = Some(copying);
        }
    }

    /// Notes that a part is written. It is committed next.
    pub(super) fn part_copied(&mut self, count: u64) {
        self.copied += count;
        self.state = State::Idle;
    }

    /// Goes on with the data when a part is committed.
    pub(super) fn go_on_copying(&mut self) {
        if let Some(copying) = self.copying.take() {
            self.state = State::CopyingIn(copying);
        }
    }

    /// Takes a piece of the data, or its end.
    fn copy_data(&mut self, data: Option<&[u8]>) -> Result<(), Box<ErrorFields>> {
        let State::CopyingIn(copying) = &mut self.state else {
            return Ok(());
        };
        let CopyIn {
            reader,
            columns,
            bytes,
            prepared,
            ..
        } = &mut **copying;
        let mut row = |values: Vec<Value>| {
            for (column, value) in columns.iter_mut().zip(values) {
                *bytes += value.approximate_bytes();
                column.push(value);
            }
        };
        let read = match data {
            Some(data) => reader.read(data, &mut row),
            None => reader.finish(&mut row),
        };
        let copy = prepared.copy();
        let table = copy.map_or("", |copy| copy.table.as_str());
        read.map_err(|wrong| of_copy(&wrong, table))?;
        let max = self.environment.options.statement_bytes_max;
        if bytes.saturating_add(reader.buffered()) > max {
            let message = format!(
                "a COPY is one transaction, which holds at most {} MiB",
                max >> 20
            );
            let hint = "Copy the data in several parts, or start the server with a higher --statement-mib-max.";
            return Err(error_with_hint("53200", message, hint));
        }
        Ok(())
    }

    /// Writes the rows that have come.
    fn copied_in(&mut self, scope: &mut Scope<'_>) -> Result<(), Box<ErrorFields>> {
        let State::CopyingIn(copying) = std::mem::replace(&mut self.state, State::Idle) else {
            return Ok(());
        };
        let CopyIn {
            prepared,
            columns,
            destination,
            ..
        } = *copying;
        let Some(copy) = prepared.copy() else {
            return Err(error("XX000", "data came for what is no COPY"));
        };
        let arrays = columns
            .into_iter()
            .map(|column| Value::Array(column.into()));
        let run = Run {
            prepared: Arc::clone(&copy.statement),
            parameters: arrays.collect(),
            destination,
            explain: None,
        };
        self.run(run, scope)
    }
}

impl Prepared {
    /// What it copies, if it is a COPY.
    pub(super) fn copy(&self) -> Option<&CopyRun> {
        match &self.kind {
            PreparedKind::Copy(copy) => Some(copy),
            _ => None,
        }
    }
}

/// The error of data that cannot be read.
fn of_copy(wrong: &CopyError, table: &str) -> Box<ErrorFields> {
    let mut fields = of_effect(&wrong.error);
    fields.context = Some(format!("COPY {table}, {}", wrong.place));
    fields
}
