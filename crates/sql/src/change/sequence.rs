//! Sequences: CREATE, ALTER, what depends on them, and where each goes on.
//!
//! A serial or identity column implies a sequence. It is declared as one of its own once it differs from what the column
//! implies: by its name, its owner or its options. Loading takes it for the column's again when it does not.

use std::collections::BTreeSet;

use anabranch_types::{SequenceId, SequencePoint};

use super::{
    apply::{Changer, ObjectName, no_relation},
    declared::{ColumnValues, DeclaredDefault, DeclaredSequence, Relation},
    dependents::Dropped,
    error::{Change, ChangeError},
    rename::sequences_in,
};
use crate::{
    catalog::Catalog,
    parse::{
        cursor::Name,
        declaration::{SequenceDeclaration, SequenceSettings},
    },
    sequence::{ResolvedSequence, SequenceOptions},
    system::names::quoted,
};

/// A sequence that goes on after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceMove {
    /// Its number before the change.
    pub from: SequenceId,
    /// Its number afterwards.
    pub to: SequenceId,
    /// Its options before the change, and afterwards.
    options: [SequenceOptions; 2],
    /// The number with which it begins again, if it does.
    restart: Option<i64>,
}

impl SequenceMove {
    /// The point at which it goes on, after a point before the change; `None` stands for no number yet.
    pub fn point(&self, before: Option<SequencePoint>) -> Option<SequencePoint> {
        let [old, new] = &self.options;
        let point = before.unwrap_or(SequencePoint::first(old.start));
        match self.restart {
            Some(base) => Some(SequencePoint {
                epoch: point.epoch + 1,
                drawn: 0,
                base,
            }),
            None if old == new => before,
            None => Some(old.moved(point)),
        }
    }

    /// Whether it goes on just as it was, so that a rollback of the change keeps what was drawn since.
    pub fn is_plain(&self) -> bool {
        self.restart.is_none() && self.options[0] == self.options[1]
    }

    /// Whether it begins again.
    pub fn restarts(&self) -> bool {
        self.restart.is_some()
    }
}

impl Changer<'_> {
    pub(super) fn create_sequence(&mut self, declaration: &SequenceDeclaration) -> Change<()> {
        let SequenceDeclaration {
            name,
            if_not_exists,
            settings,
        } = declaration;
        if !self.is_free(name, *if_not_exists)? {
            return Ok(());
        }
        let options = settings.options(None).map_err(of_options)?;
        let owner = match &settings.owner {
            Some(owner) => self.sequence_owner(owner.as_ref())?,
            None => None,
        };
        let name = name.text.clone();
        self.concerned.insert(ObjectName::Sequence(name.clone()));
        self.declared.sequences.push(DeclaredSequence {
            from: None,
            name,
            owner,
            options,
        });
        Ok(())
    }

    fn sequence_owner(&self, owner: Option<&(Name, Name)>) -> Change<Option<(String, String)>> {
        let Some((table, column)) = owner else {
            return Ok(None);
        };
        let Some(number) = self.declared.table(&table.text) else {
            return Err(no_relation(table));
        };
        if self.declared.tables[number].column(&column.text).is_none() {
            let message = format!(
                "column \"{}\" of relation \"{}\" does not exist",
                column.text, table.text
            );
            return Err(ChangeError::new("42703", message));
        }
        Ok(Some((table.text.clone(), column.text.clone())))
    }

    pub(super) fn alter_sequence(
        &mut self,
        name: &Name,
        if_exists: bool,
        settings: &SequenceSettings,
    ) -> Change<()> {
        let relation = match self.declared.relation(&name.text) {
            Some(relation @ (Relation::Sequence(_) | Relation::SerialSequence(..))) => relation,
            Some(_) => {
                let message = format!("\"{}\" is not a sequence", name.text);
                return Err(ChangeError::new("42809", message));
            }
            None if if_exists => {
                let message = format!("relation \"{}\" does not exist", name.text);
                self.skip("42P01", message);
                return Ok(());
            }
            None => return Err(no_relation(name)),
        };
        let owner = match &settings.owner {
            Some(owner) => Some(self.sequence_owner(owner.as_ref())?),
            None => None,
        };
        let old = match relation {
            Relation::Sequence(number) => self.declared.sequences[number].options.clone(),
            Relation::SerialSequence(table, column) => {
                let column = &self.declared.tables[table].columns[column];
                SequenceOptions::of_type(&column.data_type)
            }
            _ => return Err(no_relation(name)),
        };
        let options = settings.options(Some(&old)).map_err(of_options)?;
        if let Some(restart) = settings.restart {
            let number = restart.unwrap_or(options.start);
            self.restarts.insert(name.text.clone(), number);
        }
        self.concerned
            .insert(ObjectName::Sequence(name.text.clone()));
        let number = match relation {
            Relation::Sequence(number) => number,
            Relation::SerialSequence(table, column) => {
                let of = &self.declared.tables[table];
                let own = (of.name.clone(), of.columns[column].name.clone());
                let keeps_owner = owner.as_ref().is_none_or(|owner| *owner == Some(own));
                if keeps_owner && options == old {
                    return Ok(());
                }
                if self.is_identity(table, column) {
                    return Err(match keeps_owner {
                        true => ChangeError::unsupported(
                            "another option than RESTART for the sequence of an identity column",
                        ),
                        false => ChangeError::new(
                            "0A000",
                            "cannot change ownership of identity sequence",
                        )
                        .detail(format!(
                            "Sequence \"{}\" is linked to table \"{}\".",
                            name.text, self.declared.tables[table].name
                        )),
                    });
                }
                self.declare_sequence(table, column)
            }
            _ => return Err(no_relation(name)),
        };
        let declared = &mut self.declared.sequences[number];
        declared.options = options;
        if let Some(owner) = owner {
            declared.owner = owner;
        }
        Ok(())
    }

    fn is_identity(&self, table: usize, column: usize) -> bool {
        let default = &self.declared.tables[table].columns[column].default;
        matches!(default, DeclaredDefault::Generated { serial: false, .. })
    }

    /// Declares the sequence that a serial column implies; the column takes its numbers by its DEFAULT.
    pub(super) fn declare_sequence(&mut self, table: usize, column: usize) -> usize {
        let from = self.origin(table, column);
        let name = self.declared.implied_sequence(table, column);
        let of = &mut self.declared.tables[table];
        let owner = (of.name.clone(), of.columns[column].name.clone());
        let column = &mut of.columns[column];
        column.default = DeclaredDefault::Expression(next_of(&name));
        self.declared.sequences.push(DeclaredSequence {
            from,
            name,
            owner: Some(owner),
            options: SequenceOptions::of_type(&column.data_type),
        });
        self.declared.sequences.len() - 1
    }

    /// The sequence that a column implied before the change.
    fn origin(&self, table: usize, column: usize) -> Option<SequenceId> {
        let of = &self.declared.tables[table];
        let (ColumnValues::Old(old) | ColumnValues::Using(old, _)) = &of.columns[column].values
        else {
            return None;
        };
        let before = self.catalog.sequence_of_column(of.from?, *old)?;
        Some(before.id)
    }

    /// Whether DROP SEQUENCE may drop the sequence that a column implies: not that of an identity.
    pub(super) fn drop_column_sequence(&mut self, table: usize, column: usize) -> Change<()> {
        if self.is_identity(table, column) {
            let name = self.declared.implied_sequence(table, column);
            let of = &self.declared.tables[table];
            let (table, column) = (&of.name, &of.columns[column].name);
            let message = format!(
                "cannot drop sequence {name} because column {column} of table {table} requires it"
            );
            let hint = format!("You can drop column {column} of table {table} instead.");
            return Err(ChangeError::new("2BP01", message).hint(hint));
        }
        let number = self.declare_sequence(table, column);
        self.declared.sequences.remove(number);
        Ok(())
    }

    /// Notes the defaults that take numbers of sequences which the statement has dropped, and drops them.
    pub(super) fn drop_defaults(&mut self) {
        let declared = &self.declared;
        let names: BTreeSet<String> = self
            .catalog
            .all_sequences()
            .map(|sequence| sequence.name.to_string())
            .filter(|name| declared.relation(name).is_none())
            .collect();
        if names.is_empty() {
            return;
        }
        for table in &mut self.declared.tables {
            for column in &mut table.columns {
                let DeclaredDefault::Expression(text) = &column.default else {
                    continue;
                };
                let used = sequences_in(text);
                let Some((_, name)) = used.iter().find(|(_, name)| names.contains(name)) else {
                    continue;
                };
                let described = format!(
                    "default value for column {} of table {}",
                    column.name, table.name
                );
                let on = format!("sequence {name}");
                self.drops
                    .dependents
                    .push((Dropped::new(described, &column.name), on));
                column.default = DeclaredDefault::Null;
            }
        }
    }

    /// The sequences of the new catalog that were there before.
    pub(super) fn moves(&self, new: &Catalog) -> Vec<SequenceMove> {
        let moved = new.all_sequences().filter_map(|sequence| {
            let from = self.sequence_before(new, &sequence)?;
            let mut before = self.catalog.all_sequences();
            let before = before.find(|of| of.id == from)?;
            Some(SequenceMove {
                from,
                to: sequence.id,
                restart: self.restarts.get(&*sequence.name).copied(),
                options: [before.options, sequence.options],
            })
        });
        moved.collect()
    }

    fn sequence_before(&self, new: &Catalog, sequence: &ResolvedSequence) -> Option<SequenceId> {
        let mut declared = self.declared.sequences.iter();
        let declared = declared.find(|of| of.name == *sequence.name);
        match (sequence.id, declared) {
            (_, Some(declared)) => declared.from,
            (SequenceId::Named(_), None) => None,
            (SequenceId::Column(table, column), None) => {
                let number = self.declared.table(&new.table(table).name)?;
                self.origin(number, column.index())
            }
        }
    }

    /// The names of the sequences that the columns of a table own.
    pub(super) fn sequences_of_table(&self, name: &str) -> Vec<String> {
        let number = self.declared.table(name);
        let implied = self.declared.implied_sequences().into_iter();
        let implied =
            implied.filter_map(|((table, _), name)| (Some(table) == number).then_some(name));
        let owned = self.declared.sequences.iter().filter_map(|sequence| {
            let owner = sequence.owner.as_ref()?;
            (owner.0 == name).then(|| sequence.name.clone())
        });
        implied.chain(owned).collect()
    }
}

/// The DEFAULT that takes the next number of a sequence.
pub(super) fn next_of(sequence: &str) -> String {
    let name = quoted(sequence).replace('\'', "''");
    format!("nextval('{name}'::regclass)")
}

fn of_options((code, message): (&'static str, String)) -> ChangeError {
    ChangeError::new(code, message)
}
