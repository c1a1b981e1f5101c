//! Enumerations: CREATE TYPE, ALTER TYPE … ADD VALUE, DROP TYPE, and the types that a statement names.
//!
//! A label that is added changes no row: rows hold the labels themselves.

use std::sync::Arc;

use anabranch_types::{DataType, EnumType};

use super::{
    apply::{Changer, ObjectName},
    declared::DeclaredType,
    dependents::Dropped,
    error::{Change, ChangeError},
    statement::{Action, ChangeKind},
};
use crate::{
    catalog::{Procedure, Returns, plain_type},
    parse::{
        cursor::Name,
        data_type::{Declared, is_builtin},
        enumeration::{EnumDeclaration, LabelAddition, LabelProblem},
        resolve_written_type,
        type_lookup::looked_up,
    },
};

impl ChangeKind {
    /// The statement with the types that it names, among these. They are looked up when it runs, since a statement before
    /// it in a client's text may have created them.
    pub(super) fn looked_up(&self, types: &[Arc<EnumType>]) -> Change<ChangeKind> {
        let mut kind = self.clone();
        let find = |declared: &mut Declared| -> Change<()> {
            let named = declared.data_type.clone();
            declared.data_type = looked_up(named, types, declared.span)?;
            Ok(())
        };
        match &mut kind {
            ChangeKind::CreateTable(table) => {
                for column in &mut table.columns {
                    find(&mut column.declared)?;
                }
            }
            ChangeKind::AlterTable { actions, .. } => {
                for action in actions {
                    match action {
                        Action::AddColumn { column, .. } => find(&mut column.declared)?,
                        Action::SetType { declared, .. } => find(declared)?,
                        _ => {}
                    }
                }
            }
            ChangeKind::DropRoutine {
                routines,
                if_exists,
                ..
            } => {
                for routine in routines {
                    for argument in routine.arguments.iter_mut().flatten() {
                        match looked_up(argument.clone(), types, routine.name.span) {
                            Ok(found) => *argument = found,
                            // No routine has a parameter of it.
                            Err(_) if *if_exists => {}
                            Err(error) => {
                                let error = ChangeError::from(error);
                                return Err(ChangeError {
                                    span: None,
                                    ..error
                                });
                            }
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(kind)
    }
}

impl Changer<'_> {
    pub(super) fn create_type(&mut self, declaration: &EnumDeclaration) -> Change<()> {
        let EnumDeclaration { name, .. } = declaration;
        if self.type_named(&name.text).is_some() || self.has_row_type(&name.text) {
            let message = format!("type \"{}\" already exists", name.text);
            return Err(ChangeError::new("42710", message));
        }
        declaration.check().map_err(of_labels)?;
        self.concerned.insert(ObjectName::Type(name.text.clone()));
        self.declared.types.push(DeclaredType {
            name: name.text.clone(),
            labels: declaration.texts(),
        });
        Ok(())
    }

    pub(super) fn add_label(&mut self, added: &LabelAddition) -> Change<()> {
        self.check_type_exists(&added.name)?;
        let name = &added.name.text;
        let Some(number) = self.type_named(name) else {
            let shown = resolve_written_type(name).map_or(name.clone(), |of| of.to_string());
            return Err(ChangeError::new("42809", format!("{shown} is not an enum")));
        };
        let labels = &mut self.declared.types[number].labels;
        if !added.apply(labels).map_err(of_labels)? {
            let message = format!("enum label \"{}\" already exists", added.label.text);
            self.skip("42710", message);
            return Ok(());
        }
        self.concerned.insert(ObjectName::Type(name.clone()));
        Ok(())
    }

    pub(super) fn drop_types(
        &mut self,
        names: &[Name],
        if_exists: bool,
        cascade: bool,
    ) -> Change<()> {
        self.drops.cascades_from_type = cascade;
        let mut found = Vec::new();
        for name in names {
            if self.type_named(&name.text).is_some() {
                found.push(&name.text);
            } else if self.has_row_type(&name.text) {
                let kind = match self.declared.table(&name.text) {
                    Some(_) => "table",
                    None => "view",
                };
                let name = &name.text;
                let message = format!("cannot drop type {name} because {kind} {name} requires it");
                return Err(ChangeError::new("2BP01", message)
                    .hint(format!("You can drop {kind} {name} instead.")));
            } else if let Some(builtin) = resolve_written_type(&name.text) {
                let message = format!(
                    "cannot drop type {builtin} because it is required by the database system"
                );
                return Err(ChangeError::new("2BP01", message));
            } else {
                let message = format!("type \"{}\" does not exist", name.text);
                if !if_exists {
                    return Err(ChangeError::new("42704", message));
                }
                self.skip("00000", message);
            }
        }
        for name in found {
            self.drops
                .targets
                .push(Dropped::new(format!("type {name}"), name));
            self.note_users(name);
            self.declared.types.retain(|of| of.name != *name);
        }
        // Nothing is compiled without the type then.
        let mut notices = Vec::new();
        self.drops.finish(&mut notices)
    }

    /// Notes the columns and the routines whose types name an enumeration. What else names it no longer compiles.
    fn note_users(&mut self, name: &str) {
        let on = format!("type {name}");
        for table in &self.declared.tables {
            for column in &table.columns {
                if is_of(&column.data_type, name) {
                    let described = format!("column {} of table {}", column.name, table.name);
                    let dropped = Dropped::new(described, &column.name);
                    self.drops.dependents.push((dropped, on.clone()));
                }
            }
        }
        for routine in &self.catalog.procedures {
            if has_in_signature(routine, name) {
                let inputs = routine.input_types();
                let inputs: Vec<String> = inputs.iter().map(plain_type).collect();
                let described = format!("function {}({})", routine.name, inputs.join(","));
                let dropped = Dropped::new(described, &routine.name);
                self.drops.dependents.push((dropped, on.clone()));
            }
        }
    }

    /// Checks that a statement about a type names one.
    pub(super) fn check_type_exists(&self, name: &Name) -> Change<()> {
        if self.type_named(&name.text).is_some()
            || self.has_row_type(&name.text)
            || is_builtin(&name.text)
        {
            return Ok(());
        }
        let message = format!("type \"{}\" does not exist", name.text);
        Err(ChangeError::new("42704", message))
    }

    /// Checks that a new relation does not have the name of an enumeration.
    pub(super) fn check_no_type(&self, name: &Name) -> Change<()> {
        if self.type_named(&name.text).is_none() {
            return Ok(());
        }
        let message = format!("type \"{}\" already exists", name.text);
        Err(ChangeError::new("42710", message).hint(
            "A relation has an associated type of the same name, so you must use a name that doesn't conflict with any existing type.",
        ))
    }

    fn type_named(&self, name: &str) -> Option<usize> {
        self.declared.types.iter().position(|of| of.name == name)
    }

    /// Whether a relation has this name whose rows are a type in PostgreSQL.
    fn has_row_type(&self, name: &str) -> bool {
        use super::declared::Relation;
        matches!(
            self.declared.relation(name),
            Some(
                Relation::Table(_)
                    | Relation::View(_)
                    | Relation::Sequence(_)
                    | Relation::SerialSequence(..)
            )
        )
    }
}

fn has_in_signature(routine: &Procedure, name: &str) -> bool {
    let mut parameters = routine.parameters.iter();
    let returned = match &routine.returns {
        Returns::Parameters => false,
        Returns::Scalar(data_type) => is_of(data_type, name),
        Returns::Table(columns) => columns.iter().any(|(_, of)| is_of(of, name)),
    };
    returned || parameters.any(|of| is_of(&of.data_type, name))
}

/// Whether a type is this enumeration, or its arrays'.
fn is_of(data_type: &DataType, name: &str) -> bool {
    let scalar = data_type.element().unwrap_or(data_type);
    scalar.as_enum().is_some_and(|of| of.name == name)
}

fn of_labels(problem: LabelProblem) -> ChangeError {
    let error = ChangeError::new(problem.code, problem.message);
    match problem.detail {
        Some(detail) => error.detail(detail),
        None => error,
    }
}
