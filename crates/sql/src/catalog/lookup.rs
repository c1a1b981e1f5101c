//! Lookup in the catalog by name.

use std::sync::Arc;

use anabranch_types::{ColumnIndex, DataType, SequenceId, TableId, TableSchema};

use super::{
    Assertion, Catalog, Check, ColumnDefault, Procedure, Sequence, Table, Trigger, TriggerFunction,
    View,
    names::{implied_sequence, implied_sequences},
};
use crate::{
    diagnostic::Diagnostic,
    parse::{sequence::is_nextval, type_lookup::looked_up},
    sequence::{ResolvedSequence, SequenceOptions},
    source::Span,
};

impl Catalog {
    /// The table with this name (folded as the catalog keeps it: lower case unless quoted).
    pub fn table_by_name(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The schema of the table with this name.
    pub fn table_schema(&self, name: &str) -> Option<&Arc<TableSchema>> {
        self.schema.tables.iter().find(|table| table.name == name)
    }

    /// The table with this number.
    ///
    /// # Panics
    /// When no such table exists: ids come from the catalog alone.
    pub fn table(&self, id: TableId) -> &Table {
        &self.tables[id.index()]
    }

    /// The procedure or function with this name.
    pub fn procedure_by_name(&self, name: &str) -> Option<&Arc<Procedure>> {
        self.procedures
            .iter()
            .find(|procedure| procedure.name == name)
    }

    /// The trigger function with this name.
    pub fn trigger_function(&self, name: &str) -> Option<&TriggerFunction> {
        self.trigger_functions.iter().find(|of| of.name == name)
    }

    /// The triggers of a table, in the order in which they fire.
    pub fn triggers_of(&self, table: TableId) -> Vec<&Trigger> {
        let own = self.triggers.iter().filter(|of| of.table == table);
        let mut own: Vec<&Trigger> = own.collect();
        own.sort_by(|a, b| a.name.cmp(&b.name));
        own
    }

    /// The view with this name.
    pub fn view_by_name(&self, name: &str) -> Option<&View> {
        self.views.iter().find(|view| view.name == name)
    }

    /// The assertion with this name.
    pub fn assertion_by_name(&self, name: &str) -> Option<&Assertion> {
        self.assertions
            .iter()
            .find(|assertion| assertion.name == name)
    }

    /// The CHECK of a table with this name.
    pub fn check_by_name(&self, table: TableId, name: &str) -> Option<&Check> {
        self.table(table)
            .checks
            .iter()
            .find(|check| check.name == name)
    }

    /// All sequences: those of columns in the order of their tables, then those of CREATE SEQUENCE.
    pub fn all_sequences(&self) -> impl Iterator<Item = ResolvedSequence> + '_ {
        let of_columns = self.implied_sequences().into_iter();
        let of_columns = of_columns.map(|(table, column, name)| ResolvedSequence {
            id: SequenceId::Column(table, column),
            name: name.into(),
            options: self.implied_options(table, column),
        });
        of_columns.chain(self.named_sequences())
    }

    /// The names of the sequences that serial and identity columns imply, in the order of their tables.
    fn implied_sequences(&self) -> Vec<(TableId, ColumnIndex, String)> {
        let generated: Vec<(TableId, ColumnIndex)> = self
            .tables
            .iter()
            .flat_map(|table| {
                let columns = (0..).map(ColumnIndex).zip(&table.defaults);
                let generated =
                    columns.filter(|(_, of)| matches!(of, ColumnDefault::Generated { .. }));
                generated.map(|(column, _)| (table.id, column))
            })
            .collect();
        let named = generated.iter().map(|(table, column)| {
            let schema = self.schema.table(*table);
            (&*schema.name, &*schema.columns[column.index()].name)
        });
        let names = implied_sequences(named, |name| {
            self.table_by_name(name).is_some() || self.sequences.iter().any(|of| of.name == name)
        });
        let pairs = generated.into_iter().zip(names);
        pairs
            .map(|((table, column), name)| (table, column, name))
            .collect()
    }

    fn implied_options(&self, table: TableId, column: ColumnIndex) -> SequenceOptions {
        SequenceOptions::of_type(&self.schema.table(table).columns[column.index()].data_type)
    }

    /// The sequences of CREATE SEQUENCE.
    pub fn named_sequences(&self) -> impl Iterator<Item = ResolvedSequence> + '_ {
        let named = (0..).zip(&self.sequences);
        named.map(|(number, sequence)| ResolvedSequence {
            id: SequenceId::Named(number),
            name: sequence.name.as_str().into(),
            options: sequence.options.clone(),
        })
    }

    /// The sequence with this name.
    pub fn sequence_by_name(&self, name: &str) -> Option<ResolvedSequence> {
        self.all_sequences().find(|of| &*of.name == name)
    }

    /// The sequence that a column implies, if it is a serial or identity column.
    pub fn sequence_of_column(
        &self,
        table: TableId,
        column: ColumnIndex,
    ) -> Option<ResolvedSequence> {
        let default = &self.table(table).defaults[column.index()];
        if !matches!(default, ColumnDefault::Generated { .. }) {
            return None;
        }
        let mut implied = self.implied_sequences().into_iter();
        let (_, _, name) = implied.find(|(of, at, _)| (*of, *at) == (table, column))?;
        Some(ResolvedSequence {
            id: SequenceId::Column(table, column),
            name: name.into(),
            options: self.implied_options(table, column),
        })
    }

    /// Whether a sequence is the one that its owner, a serial column, implies.
    pub(super) fn implies(&self, sequence: &Sequence) -> bool {
        let Some((table, column)) = &sequence.owner else {
            return false;
        };
        if sequence.name != implied_sequence(table, column) {
            return false;
        }
        let Some(table) = self.table_by_name(table) else {
            return false;
        };
        let column = self.column_by_name(table.id, column);
        let default = column.map(|column| &table.defaults[column.index()]);
        matches!(default, Some(ColumnDefault::Generated { .. }))
    }

    /// The column of a table with this name.
    pub fn column_by_name(&self, table: TableId, name: &str) -> Option<ColumnIndex> {
        let columns = self.schema.table(table).visible_columns();
        let position = columns.iter().position(|column| column.name == name)?;
        u16::try_from(position).ok().map(ColumnIndex)
    }
}

impl ColumnDefault {
    /// Whether it is the next number of a sequence: that of a serial or identity column, or another one by `nextval`.
    pub fn draws_number(&self) -> bool {
        match self {
            ColumnDefault::Generated { .. } => true,
            ColumnDefault::Expression(expression, _) => is_nextval(expression),
            ColumnDefault::Null | ColumnDefault::Computed(..) => false,
        }
    }
}

/// A type in PostgreSQL's words, for messages to people: `character varying(16)`.
pub fn describe(data_type: &DataType) -> String {
    data_type.to_string()
}

impl Catalog {
    /// The enumeration with this number in `pg_type`, or the type of its arrays.
    pub fn type_with_oid(&self, oid: u32) -> Option<DataType> {
        self.types.iter().find_map(|of| {
            let scalar = DataType::Enum(Arc::clone(of));
            match oid {
                oid if oid == of.oid => Some(scalar),
                oid if oid == of.array_oid() => Some(DataType::Array(Box::new(scalar))),
                _ => None,
            }
        })
    }

    /// A type that a client's statement names, with its enumeration looked up.
    ///
    /// # Errors
    /// `42704` if there is none with its name.
    pub fn looked_up_type(&self, data_type: &DataType) -> Result<DataType, Diagnostic> {
        let place = Span {
            file: 0,
            start: 0,
            end: 0,
        };
        looked_up(data_type.clone(), &self.types, place).map_err(|error| Diagnostic {
            span: None,
            ..error
        })
    }
}

/// A type without its bounds, which PostgreSQL forgets of parameters and leaves out of messages.
pub(crate) fn plain_type(data_type: &DataType) -> String {
    let text = data_type.to_string();
    match text.split_once('(') {
        Some((name, rest)) => {
            let behind = rest.split_once(')').map_or("", |(_, behind)| behind);
            format!("{name}{behind}")
        }
        None => text,
    }
}
