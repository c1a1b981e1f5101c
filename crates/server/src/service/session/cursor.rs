//! Cursors of SQL: DECLARE, FETCH, MOVE and CLOSE.
//!
//! DECLARE runs the query to its end and keeps the rows: a cursor sees what was there when it was declared, as
//! PostgreSQL's do. It belongs to its block; one WITH HOLD belongs to the connection once its block has committed.

use std::sync::Arc;

use anabranch_sql::client::{CursorColumn, CursorDeclaration, FetchDirection};
use anabranch_types::Value;
use anabranch_wire::ErrorFields;

use super::run::{Destination, Run};
use super::{Scope, Session};
use crate::service::environment::now_micros;
use crate::service::errors::{error, error_with_hint};
use crate::service::prepared::{Columns, Tag};

/// An open cursor.
pub(super) struct SqlCursor {
    name: String,
    /// Its number in its block, from 1, so that ROLLBACK TO closes those declared since.
    number: u64,
    columns: Columns,
    rows: Vec<Vec<Value>>,
    /// The current row, from 1; 0 is before the first, one more than there are rows is behind the last.
    position: usize,
    scroll: Option<bool>,
    /// Whether it was declared WITH HOLD.
    holds: bool,
    /// The whole statement.
    statement: Arc<str>,
    /// When it was declared, in microseconds since 2000-01-01.
    declared: i64,
}

/// The number of a cursor that belongs to the connection.
const HELD: u64 = 0;

impl Session {
    /// Runs the query of a DECLARE; its rows come to [`Session::open_cursor`].
    pub(super) fn declare_cursor(
        &mut self,
        declaration: &CursorDeclaration,
        run: Run,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        if self.block.is_none() && !declaration.holds {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(error("25P01", message));
        }
        if declaration.binary {
            return Err(error_with_hint(
                "0A000",
                "BINARY cursors are not supported",
                "Use the extended protocol, which gives each column in the format that it is asked for.",
            ));
        }
        if self
            .cursors
            .iter()
            .any(|cursor| cursor.name == declaration.name)
        {
            let message = format!("cursor \"{}\" already exists", declaration.name);
            return Err(error("42P03", message));
        }
        let max = self.environment.options.portals_max;
        if self.cursors.len() >= max {
            let message = format!("a connection has at most {max} cursors");
            return Err(error("54000", message));
        }
        let prepared = self.prepare_runnable(&declaration.query, &[], &run.prepared.text)?;
        if !prepared.parameter_types().is_empty() {
            return Err(error("42P02", "there is no parameter $1"));
        }
        if prepared.changes_data() {
            let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
            return Err(error("0A000", message));
        }
        let destination = Destination::Cursor {
            name: declaration.name.clone(),
            options: (declaration.scroll, declaration.holds),
            statement: Arc::clone(&run.prepared.text),
            answer: Box::new(run.destination),
        };
        let run = Run {
            prepared,
            parameters: Vec::new(),
            destination,
            explain: None,
        };
        self.run(run, scope)
    }

    /// Keeps the rows of a cursor's query.
    pub(super) fn open_cursor(
        &mut self,
        (name, statement): (String, Arc<str>),
        (scroll, holds): (Option<bool>, bool),
        columns: Columns,
        rows: Vec<Vec<Value>>,
    ) {
        self.next_cursor += 1;
        let number = match self.block {
            Some(_) => self.next_cursor,
            None => HELD,
        };
        self.cursors.push(SqlCursor {
            name,
            number,
            columns,
            rows,
            position: 0,
            scroll,
            holds,
            statement,
            declared: now_micros(),
        });
    }

    /// A column of `pg_cursors`.
    pub(super) fn cursors_column(&self, column: CursorColumn) -> Value {
        let values = self.cursors.iter().map(|cursor| match column {
            CursorColumn::Name => Value::text(&cursor.name),
            CursorColumn::Statement => Value::text(&*cursor.statement),
            CursorColumn::IsHoldable => Value::Bool(cursor.holds),
            CursorColumn::IsBinary => Value::Bool(false),
            CursorColumn::IsScrollable => Value::Bool(cursor.scroll != Some(false)),
            CursorColumn::CreationTime => Value::Timestamp(cursor.declared),
        });
        Value::Array(values.collect())
    }

    /// Closes the cursors of a block that ends. Those WITH HOLD stay if it has `committed`.
    pub(super) fn close_cursors_of_block(&mut self, committed: bool) {
        self.cursors
            .retain(|cursor| cursor.number == HELD || committed && cursor.holds);
        for cursor in &mut self.cursors {
            cursor.number = HELD;
        }
    }

    /// The columns of an open cursor.
    pub(super) fn cursor_columns(&self, name: &str) -> Option<Columns> {
        let cursor = self.cursors.iter().find(|cursor| cursor.name == name)?;
        Some(cursor.columns.clone())
    }

    /// FETCH, or MOVE.
    pub(super) fn fetch(
        &mut self,
        name: &str,
        direction: FetchDirection,
        moves: bool,
        destination: &Destination,
    ) -> Result<(), Box<ErrorFields>> {
        let Some(cursor) = self.cursors.iter_mut().find(|cursor| cursor.name == name) else {
            return Err(unknown(name));
        };
        if cursor.scroll == Some(false) && direction.may_go_back() {
            return Err(error_with_hint(
                "55000",
                "cursor can only scan forward",
                "Declare it with SCROLL option to enable backward scan.",
            ));
        }
        let rows = cursor.fetch(direction);
        if moves {
            let tag = format!("MOVE {}", rows.len());
            self.complete_without_rows(destination, &tag);
            return Ok(());
        }
        let columns = cursor.columns.clone();
        self.answer(destination, columns, rows, Tag::Rows("FETCH"))
    }

    /// CLOSE; `None` is ALL.
    pub(super) fn close_cursor(&mut self, name: Option<&str>) -> Result<(), Box<ErrorFields>> {
        match name {
            None => self.cursors.clear(),
            Some(name) => {
                let place = self.cursors.iter().position(|cursor| cursor.name == name);
                self.cursors.remove(place.ok_or_else(|| unknown(name))?);
            }
        }
        Ok(())
    }

    /// Closes the cursors that were declared after the one with this number.
    pub(super) fn close_cursors_after(&mut self, number: u64) {
        self.cursors.retain(|cursor| cursor.number <= number);
    }
}

impl SqlCursor {
    fn fetch(&mut self, direction: FetchDirection) -> Vec<Vec<Value>> {
        let end = self.rows.len() + 1;
        match direction {
            FetchDirection::Forward(None) => self.forward(end),
            FetchDirection::Forward(Some(0)) | FetchDirection::Relative(0) => self.current(),
            FetchDirection::Forward(Some(count)) if count > 0 => self.forward(places(count)),
            FetchDirection::Forward(Some(count)) => self.backward(places(count)),
            FetchDirection::BackwardAll => self.backward(end),
            FetchDirection::Absolute(number) => {
                let place = match number {
                    0.. => places(number).min(end),
                    _ => end.saturating_sub(places(number)),
                };
                self.position = place;
                self.current()
            }
            FetchDirection::Relative(count) => {
                self.position = match count {
                    0.. => self.position.saturating_add(places(count)).min(end),
                    _ => self.position.saturating_sub(places(count)),
                };
                self.current()
            }
        }
    }

    fn current(&self) -> Vec<Vec<Value>> {
        let row = self
            .position
            .checked_sub(1)
            .and_then(|place| self.rows.get(place));
        row.cloned().into_iter().collect()
    }

    fn forward(&mut self, count: usize) -> Vec<Vec<Value>> {
        let first = self.position.min(self.rows.len());
        let last = first.saturating_add(count).min(self.rows.len());
        // One that finds no more rows stands behind the last.
        self.position = match last - first < count {
            true => self.rows.len() + 1,
            false => last,
        };
        self.rows[first..last].to_vec()
    }

    fn backward(&mut self, count: usize) -> Vec<Vec<Value>> {
        let end = self.position.saturating_sub(1).min(self.rows.len());
        let first = end.saturating_sub(count);
        self.position = match end - first < count {
            true => 0,
            false => first + 1,
        };
        self.rows[first..end].iter().rev().cloned().collect()
    }
}

fn places(count: i64) -> usize {
    usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX)
}

fn unknown(name: &str) -> Box<ErrorFields> {
    error("34000", format!("cursor \"{name}\" does not exist"))
}
