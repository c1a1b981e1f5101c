//! Existing rows after a change: each old row gives one new row.

use std::{cell::Cell, fmt, rc::Rc, sync::Arc};

use anabranch_types::{
    ColumnIndex, DataType, EffectError, Key, Row, TableId, TableSchema, TimeZone, Value,
};

use super::{
    declared::{ColumnValues, DeclaredDefault, DeclaredTable},
    error::{Change, ChangeError},
};
use crate::{
    bind::computed::Computed,
    bind::{
        Bind, Binder, NoVariables,
        convert::{Context, exists},
        scope::Scope,
    },
    catalog::{Catalog, plain_type},
    constraint::default_of,
    expression::{Budget, EvaluationContext, Expression, Frame, Source},
    parse::{
        cursor::Cursor,
        lexer::{Places, Text, lex},
    },
    source::{SourceFile, Span},
    system::names::quoted,
    transaction::Sequences,
};

/// How the rows of a table change: columns kept, dropped, added and converted, and the key that they are stored by.
#[derive(Clone, Debug)]
pub struct RowMapping {
    old: Arc<TableSchema>,
    new: Arc<TableSchema>,
    values: Vec<NewValue>,
    /// The numbers that the expressions of one row draw.
    uniques: usize,
}

/// The source of a new column's values.
#[derive(Clone, Debug)]
enum NewValue {
    /// An old column's value as it is.
    Kept(ColumnIndex),
    /// An expression over the old row.
    Computed(Expression),
    /// An expression over the other columns of the new row: a new generated column.
    Generated(Expression),
}

/// What the expressions of a mapping take from the transaction that changes the schema.
pub struct MappingContext<'c> {
    /// `now()`: microseconds since 2000-01-01 00:00:00 UTC.
    pub timestamp: i64,
    /// The session's time zone.
    pub zone: TimeZone,
    /// The sequences of identity and serial columns, by the tables and columns of the new schema.
    pub sequences: Rc<dyn Sequences>,
    /// Draws a number that no other call in the cluster gets, as [`crate::Transaction::unique`].
    pub unique: &'c mut dyn FnMut() -> u128,
}

impl fmt::Debug for MappingContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappingContext")
            .field("timestamp", &self.timestamp)
            .field("zone", &self.zone)
            .finish_non_exhaustive()
    }
}

impl RowMapping {
    /// The mapping of a table's rows; `None` if they stay as they are.
    pub(super) fn new(
        old: &Catalog,
        new: &Catalog,
        declared: &DeclaredTable,
        (from, to): (TableId, TableId),
    ) -> Change<Option<RowMapping>> {
        let (before, after) = (old.schema.table(from), new.schema.table(to));
        let computed = Computed::of(new, to).map_err(|found| ChangeError::of_text(&found[0]))?;
        let generated = |place: ColumnIndex| {
            let found = computed.iter().find(|of| of.column == place);
            found.map_or(Expression::NULL, |of| of.expression.clone())
        };
        let mut values = Vec::new();
        let mut is_same =
            before.columns.len() == after.columns.len() && before.primary_key == after.primary_key;
        for (place, column) in declared.columns.iter().enumerate() {
            let place = ColumnIndex(place as u16);
            let described = &after.columns[place.index()];
            let (value, stays) = match &column.values {
                ColumnValues::Old(old_place) => {
                    let was = &before.columns[old_place.index()];
                    let stays = *old_place == place && was.nullable == described.nullable;
                    if was.data_type == described.data_type {
                        (NewValue::Kept(*old_place), stays)
                    } else if matches!(column.default, DeclaredDefault::Computed(_)) {
                        // PostgreSQL casts the old value, which then need not fit the expression.
                        (NewValue::Generated(generated(place)), false)
                    } else {
                        let to = (column.name.as_str(), &described.data_type);
                        let expression = conversion(old, (from, *old_place), None, to)?;
                        (NewValue::Computed(expression), false)
                    }
                }
                ColumnValues::Using(old_place, text) => {
                    let to = (column.name.as_str(), &described.data_type);
                    let expression = conversion(old, (from, *old_place), Some(text), to)?;
                    (NewValue::Computed(expression), false)
                }
                ColumnValues::New(DeclaredDefault::Expression(text)) => {
                    let expression = bound(new, None, text, Some(&described.data_type))
                        .map_err(|problem| ChangeError::of_text(&problem))?;
                    (NewValue::Computed(expression.0), false)
                }
                ColumnValues::New(DeclaredDefault::Generated { .. }) => {
                    let expression = default_of(new, to, place)
                        .map_err(|problem| ChangeError::of_text(&problem))?;
                    (NewValue::Computed(expression), false)
                }
                ColumnValues::New(DeclaredDefault::Computed(_)) => {
                    (NewValue::Generated(generated(place)), false)
                }
                ColumnValues::New(DeclaredDefault::Null) => {
                    (NewValue::Computed(Expression::NULL), false)
                }
            };
            is_same &= stays;
            values.push(value);
        }
        is_same &= hidden(old, from) == hidden(new, to);
        if is_same {
            return Ok(None);
        }
        let is_hidden = |of: &&Computed| after.columns[of.column.index()].is_hidden;
        let hidden = computed.iter().filter(is_hidden);
        values.extend(hidden.map(|of| NewValue::Generated(of.expression.clone())));
        let uniques = values.iter().map(|value| match value {
            NewValue::Kept(_) | NewValue::Generated(_) => 0,
            NewValue::Computed(expression) => expression.uniques(),
        });
        Ok(Some(RowMapping {
            old: old.schema.tables[from.index()].clone(),
            new: new.schema.tables[to.index()].clone(),
            uniques: uniques.sum(),
            values,
        }))
    }

    /// The new key and the new row of an old row.
    ///
    /// # Errors
    /// What a DEFAULT or a USING raises; `23502` for NULL in a column that is NOT NULL now; `54000` for a row that is
    /// too long.
    pub fn apply(
        &self,
        key: &Key,
        row: &Row,
        context: &mut MappingContext<'_>,
    ) -> Result<(Key, Row), EffectError> {
        let uniques: Vec<u128> = (0..self.uniques).map(|_| (context.unique)()).collect();
        let evaluation = EvaluationContext {
            timestamp: context.timestamp,
            zone: context.zone.clone(),
            uniques: uniques.into(),
            reserve: Cell::default(),
            sequences: Some(context.sequences.clone()),
            budget: Budget::default(),
        };
        let layout = &self.old.layout;
        let sources = [Source::Empty, Source::Row { layout, row }];
        let frame = Frame::of_rows(&[], &sources, &evaluation);
        let mut values = Vec::with_capacity(self.values.len());
        for value in &self.values {
            values.push(match value {
                NewValue::Kept(old) => row.get(layout, *old),
                NewValue::Computed(expression) => {
                    expression.evaluate(&frame).map_err(|failure| *failure)?
                }
                NewValue::Generated(_) => Value::Null,
            });
        }
        let values = self.generated(values, &evaluation)?;
        for (value, column) in values.iter().zip(&self.new.columns) {
            if value.is_null() && !column.nullable {
                let message = format!(
                    "column \"{}\" of relation \"{}\" contains null values",
                    column.name, self.new.name
                );
                return Err(EffectError::new("23502", message)
                    .of_table(self.new.name.clone())
                    .of_column(column.name.clone()));
            }
        }
        let new = self
            .new
            .layout
            .encode(&values)
            .map_err(|error| EffectError::new("54000", error.to_string()))?;
        Ok((self.key(key, &values, context), new))
    }

    /// The values of a new row, with those of its new generated columns.
    fn generated(
        &self,
        values: Vec<Value>,
        evaluation: &EvaluationContext,
    ) -> Result<Vec<Value>, EffectError> {
        let is_generated = |of: &NewValue| matches!(of, NewValue::Generated(_));
        if !self.values.iter().any(is_generated) {
            return Ok(values);
        }
        let mut all = values.clone();
        let width = values.len();
        let sources = [Source::Empty, Source::Values { width, values }];
        let frame = Frame::of_rows(&[], &sources, evaluation);
        for (value, of) in all.iter_mut().zip(&self.values) {
            if let NewValue::Generated(expression) = of {
                *value = expression.evaluate(&frame).map_err(|failure| *failure)?;
            }
        }
        Ok(all)
    }

    fn key(&self, old: &Key, values: &[Value], context: &mut MappingContext<'_>) -> Key {
        let columns = &self.new.primary_key;
        if !columns.is_empty() {
            return key_of(&self.new, columns, values);
        }
        if self.old.primary_key.is_empty() {
            return old.clone();
        }
        Key::from_bytes(&(context.unique)().to_be_bytes())
    }
}

/// The values of a table's hidden columns, in order.
fn hidden(catalog: &Catalog, table: TableId) -> Vec<Expression> {
    let columns = &catalog.schema.table(table).columns;
    // What does not bind is reported when the application is compiled.
    let computed = Computed::of(catalog, table).unwrap_or_default();
    let hidden = computed
        .into_iter()
        .filter(|of| columns[of.column.index()].is_hidden);
    hidden.map(|of| of.expression).collect()
}

/// The key that some columns of a row make.
pub(super) fn key_of(schema: &TableSchema, columns: &[ColumnIndex], values: &[Value]) -> Key {
    let mut key = Key::empty();
    for column in columns {
        let described = &schema.columns[column.index()];
        let value = &values[column.index()];
        key.push_value(&described.data_type, described.nullable, value);
    }
    key
}

/// The values of an old column as values of its new type: by a cast of assignment, or of the expression of USING.
pub(super) fn conversion(
    catalog: &Catalog,
    (table, column): (TableId, ColumnIndex),
    using: Option<&str>,
    (name, to): (&str, &DataType),
) -> Change<Expression> {
    let described = &catalog.schema.table(table).columns[column.index()];
    let own = quoted(&described.name);
    let text = using.unwrap_or(&own);
    let of_text = |problem| ChangeError::of_text(&problem);
    let (_, from) = bound(catalog, Some(table), text, None).map_err(of_text)?;
    if let Some(from) = from
        && !exists(&from, to, Context::Assignment)
    {
        return Err(match using {
            None => {
                let message = format!(
                    "column \"{name}\" cannot be cast automatically to type {}",
                    plain_type(to)
                );
                let hint = format!(
                    "You might need to specify \"USING {}::{to}\".",
                    quoted(name)
                );
                ChangeError::new("42804", message).hint(hint)
            }
            Some(_) => {
                let message = format!(
                    "result of USING clause for column \"{name}\" cannot be cast automatically to type {}",
                    plain_type(to)
                );
                ChangeError::new("42804", message).hint("You might need to add an explicit cast.")
            }
        });
    }
    let (expression, _) = bound(catalog, Some(table), text, Some(to)).map_err(of_text)?;
    Ok(expression)
}

/// An expression over a table's row, or over none; coerced by assignment if a type is given.
pub(super) fn bound(
    catalog: &Catalog,
    table: Option<TableId>,
    text: &str,
    to: Option<&DataType>,
) -> Bind<(Expression, Option<DataType>)> {
    let file = SourceFile::new("expression", text);
    let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let span = |start| Span {
        file: u16::MAX,
        start,
        end,
    };
    let (tokens, error) = lex(Text {
        file: u16::MAX,
        text,
        places: Places::From(0),
    });
    error.map_or(Ok(()), Err)?;
    let syntax = Cursor::new(&file, &tokens, span(end)).expression()?;
    let mut binder = Binder::new(catalog, &NoVariables, span(0));
    binder.stored = table.is_none();
    binder.scopes.push(Scope {
        clause: match table {
            Some(_) => "transform expressions",
            None => "DEFAULT expressions",
        },
        ..Scope::default()
    });
    if let Some(table) = table {
        binder.row_source(table, None);
    }
    let bound = binder.expression(&syntax)?;
    if !binder.scope().subqueries.is_empty() {
        let message = match table {
            Some(_) => "cannot use subquery in transform expression",
            None => "cannot use subquery in DEFAULT expression",
        };
        return Err(crate::Diagnostic::new("0A000", message, span(0)));
    }
    let data_type = bound.data_type.clone();
    let expression = match to {
        Some(to) => binder.coerce(bound, to, Context::Assignment, &syntax)?,
        None => bound.expression,
    };
    Ok((expression, data_type))
}
