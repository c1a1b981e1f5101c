//! Tests of existing rows against what a change declares anew.

use std::sync::Arc;

use anabranch_types::{ColumnIndex, EffectError, Key, Row, TableSchema, TimeZone, Value, text};
use rustc_hash::FxHashSet;

use super::mapping::key_of;
use crate::{
    expression::{EvaluationContext, Frame, Source},
    program::check::Check,
};

/// Tests each row of one table: CHECKs and unique keys that are new, or have another meaning than before.
#[derive(Clone, Debug)]
pub struct RowVerifier {
    pub(super) schema: Arc<TableSchema>,
    pub(super) checks: Vec<Check>,
    pub(super) keys: Vec<UniqueKey>,
}

/// A unique key, and the keys of the rows so far.
#[derive(Clone, Debug)]
pub(super) struct UniqueKey {
    pub(super) name: String,
    pub(super) columns: Vec<ColumnIndex>,
    pub(super) seen: FxHashSet<Key>,
}

impl RowVerifier {
    pub(super) fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.keys.is_empty()
    }

    /// Tests a row as it is after the change. Every row of the table is given to it once, in any order: it remembers
    /// the keys.
    ///
    /// # Errors
    /// `23514` for a CHECK that is false, `23505` for a key that another row has, and what a CHECK raises.
    pub fn check(&mut self, row: &Row) -> Result<(), EffectError> {
        let layout = &self.schema.layout;
        let context = EvaluationContext::default();
        let sources = [Source::Empty, Source::Row { layout, row }];
        let frame = Frame::of_rows(&[], &sources, &context);
        let table = &self.schema.name;
        for check in &self.checks {
            if check.test(&frame, row).map_err(|failure| *failure)? == Some(false) {
                let message = format!(
                    "check constraint \"{}\" of relation \"{table}\" is violated by some row",
                    check.name
                );
                return Err(EffectError::new("23514", message)
                    .of_table(table.clone())
                    .of_constraint(check.name.clone()));
            }
        }
        if self.keys.is_empty() {
            return Ok(());
        }
        let values = row.values(layout);
        for key in &mut self.keys {
            if key.columns.iter().any(|of| values[of.index()].is_null()) {
                continue;
            }
            let encoded = key_of(&self.schema, &key.columns, &values);
            if !key.seen.insert(encoded) {
                let message = format!("could not create unique index \"{}\"", key.name);
                let described = key.columns.iter().map(|column| {
                    let column_schema = &self.schema.columns[column.index()];
                    let value = &values[column.index()];
                    let shown = text::format_value(value, &column_schema.data_type, &TimeZone::UTC);
                    (column_schema.name.clone(), shown)
                });
                let (names, shown): (Vec<String>, Vec<String>) = described.unzip();
                let detail = format!(
                    "Key ({})=({}) is duplicated.",
                    names.join(", "),
                    shown.join(", ")
                );
                return Err(EffectError::new("23505", message)
                    .of_table(table.clone())
                    .of_constraint(key.name.clone())
                    .with_detail(detail));
            }
        }
        Ok(())
    }
}

/// A query over the new schema that returns a row if existing rows break what the change declares: a foreign key, an
/// assertion.
#[derive(Clone, Debug)]
pub struct Verification {
    /// The query: a SELECT without parameters.
    pub query: String,
    pub(super) broken: Broken,
}

/// What a row of the query means.
#[derive(Clone, Debug)]
pub(super) enum Broken {
    ForeignKey {
        name: String,
        child: Arc<TableSchema>,
        columns: Vec<ColumnIndex>,
        parent: String,
    },
    Assertion(String),
}

impl Verification {
    /// The error for the first row of the query.
    pub fn error(&self, row: &[Value]) -> EffectError {
        match &self.broken {
            Broken::ForeignKey {
                name,
                child,
                columns,
                parent,
            } => {
                let table = &child.name;
                let message = format!(
                    "insert or update on table \"{table}\" violates foreign key constraint \"{name}\""
                );
                let described = columns.iter().zip(row).map(|(column, value)| {
                    let column = &child.columns[column.index()];
                    let shown = text::format_value(value, &column.data_type, &TimeZone::UTC);
                    (column.name.clone(), shown)
                });
                let (names, shown): (Vec<String>, Vec<String>) = described.unzip();
                let detail = format!(
                    "Key ({})=({}) is not present in table \"{parent}\".",
                    names.join(", "),
                    shown.join(", ")
                );
                EffectError::new("23503", message)
                    .of_table(table.clone())
                    .of_constraint(name.clone())
                    .with_detail(detail)
            }
            Broken::Assertion(name) => {
                let message = format!("existing rows violate assertion \"{name}\"");
                EffectError::new("23514", message).of_constraint(name.clone())
            }
        }
    }
}
