//! Names in a procedure: parameters, variables, records, FOUND.

use anabranch_types::DataType;

use super::FOUND;
use crate::bind::Variables;

/// A name and its meaning.
#[derive(Clone, Debug)]
enum Meaning {
    Scalar { slot: usize, constant: bool },
    Record(Record),
}

#[derive(Clone, Debug)]
struct Record {
    /// Its fields, once something has been selected into it or assigned to one of them.
    fields: Option<Vec<(String, usize)>>,
    /// The columns of the row that it is declared to be.
    row: Option<Vec<(String, DataType)>>,
}

/// The names in scope at a place of a body.
#[derive(Debug, Default)]
pub(super) struct Names {
    procedure: String,
    names: Vec<(String, Meaning)>,
    /// The name of each slot.
    pub(super) slot_names: Vec<String>,
    /// The type of each slot.
    pub(super) types: Vec<DataType>,
    /// The slots of `$1`, `$2`, …
    positional: Vec<usize>,
    pub(super) column_wins: bool,
    /// Whether they are for a constraint, and not for a routine.
    pub(super) of_schema: bool,
}

/// The target of an assignment or INTO.
pub(super) enum Target {
    Scalar(usize),
    Constant,
    Record,
    /// A field that a record does not have.
    NoField,
    /// A field of a record without fields.
    Unassigned,
    Unknown,
}

impl Names {
    /// The initial names of a procedure: FOUND.
    pub(super) fn new(procedure: &str) -> Names {
        Names {
            procedure: procedure.to_string(),
            ..Names::default()
        }
    }

    /// A new slot.
    fn slot(&mut self, name: &str, data_type: DataType) -> usize {
        self.slot_names.push(name.to_string());
        self.types.push(data_type);
        self.types.len() - 1
    }

    /// Declares a variable.
    pub(super) fn declare(&mut self, name: &str, data_type: DataType, constant: bool) -> usize {
        let slot = self.slot(name, data_type);
        self.names
            .push((name.to_string(), Meaning::Scalar { slot, constant }));
        slot
    }

    /// Declares a parameter, which `$n` names too.
    pub(super) fn declare_parameter(&mut self, name: &str, data_type: DataType) -> usize {
        let slot = self.declare(name, data_type, false);
        self.positional.push(slot);
        slot
    }

    /// Declares a record; with the columns of the row that it is.
    pub(super) fn declare_record(&mut self, name: &str, row: Option<Vec<(String, DataType)>>) {
        let record = Record { fields: None, row };
        self.names.push((name.to_string(), Meaning::Record(record)));
    }

    /// Gives the record of this field the columns that it is declared to have, if it has none yet.
    pub(super) fn shape_row(&mut self, field: &str) {
        let Some((name, _)) = field.split_once('.') else {
            return;
        };
        let found = self.names.iter().rev().find(|(known, _)| known == name);
        if let Some((_, Meaning::Record(record))) = found
            && record.fields.is_none()
            && let Some(row) = record.row.clone()
        {
            self.shape(name, &row);
        }
    }

    /// Opens a scope, to be closed with [`Names::leave`].
    pub(super) fn enter(&self) -> usize {
        self.names.len()
    }

    /// Forgets the names declared since.
    pub(super) fn leave(&mut self, mark: usize) {
        self.names.truncate(mark);
    }

    /// The target of this name.
    pub(super) fn target(&self, name: &str) -> Target {
        let (qualifier, name) = match name.split_once('.') {
            Some((qualifier, name)) => (Some(qualifier), name),
            None => (None, name),
        };
        if qualifier.is_some() {
            return match self.find(qualifier, name) {
                Some(slot) => Target::Scalar(slot),
                None => {
                    let mut names = self.names.iter().rev();
                    match names.find(|(known, _)| Some(known.as_str()) == qualifier) {
                        Some((_, Meaning::Record(record))) if record.fields.is_some() => {
                            Target::NoField
                        }
                        Some((_, Meaning::Record(_))) => Target::Unassigned,
                        _ => Target::Unknown,
                    }
                }
            };
        }
        match self.names.iter().rev().find(|(known, _)| known == name) {
            Some((_, Meaning::Scalar { constant: true, .. })) => Target::Constant,
            Some((_, Meaning::Scalar { slot, .. })) => Target::Scalar(*slot),
            Some((_, Meaning::Record(_))) => Target::Record,
            None => Target::Unknown,
        }
    }

    /// Gives a record its fields: its slots, or `None` when it has other fields already.
    pub(super) fn shape(
        &mut self,
        name: &str,
        columns: &[(String, DataType)],
    ) -> Option<Vec<usize>> {
        let place = self.names.iter().rposition(|(known, _)| known == name)?;
        if let Meaning::Record(Record {
            fields: Some(fields),
            ..
        }) = &self.names[place].1
        {
            let same = fields.len() == columns.len()
                && fields
                    .iter()
                    .zip(columns)
                    .all(|((field, slot), (column, data_type))| {
                        field == column && self.types[*slot] == *data_type
                    });
            return same.then(|| fields.iter().map(|(_, slot)| *slot).collect());
        }
        let fields: Vec<(String, usize)> = columns
            .iter()
            .map(|(column, data_type)| (column.clone(), self.slot(column, data_type.clone())))
            .collect();
        let slots = fields.iter().map(|(_, slot)| *slot).collect();
        if let Meaning::Record(record) = &mut self.names[place].1 {
            record.fields = Some(fields);
        }
        Some(slots)
    }

    fn find(&self, qualifier: Option<&str>, name: &str) -> Option<usize> {
        for (known, meaning) in self.names.iter().rev() {
            match (meaning, qualifier) {
                (Meaning::Scalar { slot, .. }, None) if known == name => return Some(*slot),
                (Meaning::Scalar { slot, .. }, Some(qualifier))
                    if known == name && qualifier == self.procedure && known != FOUND =>
                {
                    return Some(*slot);
                }
                (
                    Meaning::Record(Record {
                        fields: Some(fields),
                        ..
                    }),
                    Some(qualifier),
                ) if known == qualifier => {
                    return fields
                        .iter()
                        .find(|(field, _)| field == name)
                        .map(|(_, slot)| *slot);
                }
                _ => {}
            }
        }
        None
    }
}

impl Variables for Names {
    fn named(&self, qualifier: Option<&str>, name: &str) -> Option<(usize, DataType)> {
        let slot = self.find(qualifier, name)?;
        Some((slot, self.types[slot].clone()))
    }

    fn numbered(&self, number: usize) -> Option<(usize, Option<DataType>)> {
        let slot = *self.positional.get(number - 1)?;
        Some((slot, Some(self.types[slot].clone())))
    }

    fn column_wins(&self) -> bool {
        self.column_wins
    }

    fn is_of_statement(&self) -> bool {
        !self.of_schema
    }
}

/// `$1`, `$2`, … of a client's statement; their types follow from their use.
#[derive(Debug)]
pub(crate) struct Placeholders;

impl Variables for Placeholders {
    fn named(&self, _: Option<&str>, _: &str) -> Option<(usize, DataType)> {
        None
    }

    fn numbered(&self, number: usize) -> Option<(usize, Option<DataType>)> {
        Some((number - 1, None))
    }

    fn is_of_statement(&self) -> bool {
        true
    }
}
