//! CREATE, DROP and ALTER TRIGGER.
//!
//! A trigger depends on its function, and on the columns of UPDATE OF and WHEN, as in PostgreSQL. In difference to
//! PostgreSQL it depends on the columns that its function names, too: it no longer compiles without them (see [`super`]).

use super::{
    apply::{Changer, ObjectName, no_relation},
    declared::{DeclaredRoutine, DeclaredTrigger, Relation, one_line},
    error::{Change, ChangeError},
    print,
    rename::{self, names_column},
};
use crate::parse::{cursor::Name, trigger::TriggerDeclaration};

impl Changer<'_> {
    pub(super) fn create_trigger(&mut self, declaration: &TriggerDeclaration) -> Change<()> {
        let TriggerDeclaration { name, table, .. } = declaration;
        match self.declared.relation(&table.text) {
            Some(Relation::Table(_)) => {}
            None => return Err(no_relation(table)),
            Some(Relation::View(_)) => {
                let message = format!("\"{}\" is a view", table.text);
                return Err(ChangeError::new("42809", message)
                    .detail("Views cannot have row-level BEFORE or AFTER triggers."));
            }
            Some(Relation::Sequence(_) | Relation::SerialSequence(..)) => {
                let message = format!("relation \"{}\" cannot have triggers", table.text);
                return Err(ChangeError::new("42809", message)
                    .detail("This operation is not supported for sequences."));
            }
            Some(Relation::PrimaryKey(_) | Relation::Index(..)) => {
                let message = format!("\"{}\" is an index", table.text);
                return Err(ChangeError::new("42809", message));
            }
        }
        let condition = declaration.condition.as_ref();
        let trigger = DeclaredTrigger {
            name: name.text.clone(),
            table: table.text.clone(),
            on_insert: declaration.on_insert,
            on_update: declaration.on_update,
            columns: declaration
                .columns
                .iter()
                .map(|of| of.text.clone())
                .collect(),
            condition: condition.map(|(_, span)| one_line(self.file.slice(*span))),
            function: declaration.function.text.clone(),
        };
        self.concerned.insert(trigger.object_name());
        match self.place_of_trigger(name, table) {
            None => self.declared.triggers.push(trigger),
            Some(old) if declaration.or_replace => self.declared.triggers[old] = trigger,
            Some(_) => return Err(already_exists(name, table)),
        }
        Ok(())
    }

    pub(super) fn drop_trigger(
        &mut self,
        name: &Name,
        table: &Name,
        if_exists: bool,
    ) -> Change<()> {
        if if_exists && self.declared.relation(&table.text).is_none() {
            self.skip(
                "00000",
                format!("relation \"{}\" does not exist", table.text),
            );
            return Ok(());
        }
        match self.trigger_named(name, table) {
            Ok(found) => {
                self.declared.triggers.remove(found);
            }
            Err(error) if if_exists && error.error.code == "42704" => {
                let (name, table) = (&name.text, &table.text);
                let message = format!("trigger \"{name}\" for relation \"{table}\" does not exist");
                self.skip("00000", message);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(super) fn rename_trigger(&mut self, name: &Name, table: &Name, to: &Name) -> Change<()> {
        let found = self.trigger_named(name, table)?;
        if self
            .place_of_trigger(to, table)
            .is_some_and(|of| of != found)
        {
            return Err(already_exists(to, table));
        }
        let trigger = &mut self.declared.triggers[found];
        trigger.name.clone_from(&to.text);
        let object = trigger.object_name();
        self.concerned.insert(object);
        Ok(())
    }

    /// The place of a trigger that must exist.
    pub(super) fn trigger_named(&self, name: &Name, table: &Name) -> Change<usize> {
        if self.declared.relation(&table.text).is_none() {
            return Err(no_relation(table));
        }
        self.place_of_trigger(name, table).ok_or_else(|| {
            let message = format!(
                "trigger \"{}\" for table \"{}\" does not exist",
                name.text, table.text
            );
            ChangeError::new("42704", message)
        })
    }

    fn place_of_trigger(&self, name: &Name, table: &Name) -> Option<usize> {
        let mut triggers = self.declared.triggers.iter();
        triggers.position(|of| of.name == name.text && of.table == table.text)
    }

    /// Refuses a change of a column's type while the declaration of a trigger names it.
    pub(super) fn check_unused_by_triggers(&self, table: usize, column: &str) -> Change<()> {
        let table = &self.declared.tables[table].name;
        let mut triggers = self.declared.triggers.iter();
        let Some(trigger) = triggers.find(|of| of.table == *table && of.names(column)) else {
            return Ok(());
        };
        let message = "cannot alter type of a column used in a trigger definition";
        let described = trigger.described();
        Err(ChangeError::new("0A000", message)
            .detail(format!("{described} depends on column \"{column}\"")))
    }

    /// Renames a column in the declarations of the triggers of its table. Their functions stay.
    pub(super) fn rename_in_triggers(&mut self, table: &str, name: &Name, to: &Name) {
        for trigger in &mut self.declared.triggers {
            if trigger.table != table {
                continue;
            }
            for column in &mut trigger.columns {
                if *column == name.text {
                    column.clone_from(&to.text);
                }
            }
            if let Some(condition) = &mut trigger.condition {
                *condition = rename::columns(condition, &name.text, &to.text);
            }
        }
    }
}

impl DeclaredTrigger {
    pub(super) fn object_name(&self) -> ObjectName {
        ObjectName::Trigger(self.table.clone(), self.name.clone())
    }

    /// `trigger t on table items`
    pub(super) fn described(&self) -> String {
        format!("trigger {} on table {}", self.name, self.table)
    }

    /// Its declaration and that of its function, to see what they name.
    pub(super) fn text(&self, routines: &[DeclaredRoutine]) -> String {
        let mut routines = routines.iter();
        let function = routines.find(|of| of.name == self.function);
        let body = function.map_or("", |of| &of.text);
        format!("{} {body}", print::trigger(self))
    }

    /// Whether its declaration names a column.
    fn names(&self, column: &str) -> bool {
        let mut condition = self.condition.iter();
        self.columns.iter().any(|of| of == column) || condition.any(|of| names_column(of, column))
    }
}

fn already_exists(name: &Name, table: &Name) -> ChangeError {
    let message = format!(
        "trigger \"{}\" for relation \"{}\" already exists",
        name.text, table.text
    );
    ChangeError::new("42710", message)
}
