//! DROP, and what depends on what is dropped.
//!
//! A foreign key depends on the table and the key that it refers to; that is tested here. That a view, a routine or an
//! assertion depends on something shows when it no longer compiles (see [`super`]): in difference to PostgreSQL, that
//! holds for routines whose body is a string, too.

use super::{
    apply::{Changer, ObjectName},
    declared::{DeclaredRoutine, DeclaredTable, Relation},
    dependents::Dropped,
    error::{Change, ChangeError},
    statement::{ObjectKind, RoutineName, RoutineObject},
};
use crate::{
    catalog::{RoutineKind, plain_type},
    parse::cursor::Name,
};

impl Changer<'_> {
    pub(super) fn drop(
        &mut self,
        object: ObjectKind,
        names: &[Name],
        if_exists: bool,
        cascade: bool,
    ) -> Change<()> {
        self.drops.cascade = cascade;
        let mut found: Vec<Name> = Vec::new();
        for name in names {
            if object == ObjectKind::Assertion {
                let mut there = self.declared.assertions.iter();
                if there.any(|of| of.name == name.text) {
                    found.push(name.clone());
                    continue;
                }
            }
            match self.declared.relation(&name.text) {
                Some(relation) if is_kind(relation, object) => found.push(name.clone()),
                Some(relation) if object != ObjectKind::Assertion => {
                    let (right, article) = kind_word(relation);
                    let (_, wanted) = object_words(object);
                    let message = format!("\"{}\" is not {wanted}", name.text);
                    return Err(ChangeError::new("42809", message)
                        .hint(format!("Use DROP {right} to remove {article}.")));
                }
                _ => {
                    let (word, _) = object_words(object);
                    let message = format!("{word} \"{}\" does not exist", name.text);
                    let code = match object {
                        ObjectKind::Index | ObjectKind::Assertion => "42704",
                        _ => "42P01",
                    };
                    if !if_exists {
                        return Err(ChangeError::new(code, message));
                    }
                    self.skip("00000", message);
                }
            }
        }
        for name in &found {
            let (word, _) = object_words(object);
            let dropped = Dropped::new(format!("{word} {}", name.text), &name.text);
            self.drops.targets.push(dropped);
        }
        for name in &found {
            self.drop_one(object, &name.text)?;
        }
        if object == ObjectKind::Table {
            let names: Vec<String> = found.into_iter().map(|name| name.text).collect();
            self.drop_references(|key_parent| names.iter().any(|name| name == key_parent));
        }
        Ok(())
    }

    fn drop_one(&mut self, object: ObjectKind, name: &str) -> Change<()> {
        if object == ObjectKind::Assertion {
            self.declared.assertions.retain(|of| of.name != name);
            self.declared.forget_kept(name);
            return Ok(());
        }
        // A name that stands twice in the list.
        let Some(relation) = self.declared.relation(name) else {
            return Ok(());
        };
        match relation {
            Relation::Table(number) => {
                self.declared.tables.remove(number);
                let is_owner = |of: &(String, String)| of.0 == name;
                let sequences = &mut self.declared.sequences;
                sequences.retain(|of| !of.owner.as_ref().is_some_and(is_owner));
                self.declared.triggers.retain(|of| of.table != name);
            }
            Relation::View(number) => {
                self.declared.views.remove(number);
            }
            Relation::Sequence(number) => {
                self.declared.sequences.remove(number);
            }
            Relation::SerialSequence(table, column) => self.drop_column_sequence(table, column)?,
            Relation::PrimaryKey(table) => return Err(self.index_of_constraint(table, name)),
            Relation::Index(table, index) => {
                if self.declared.tables[table].indexes[index].is_constraint {
                    return Err(self.index_of_constraint(table, name));
                }
                let own = self.declared.tables[table].name.clone();
                self.drop_key_references(&own, name);
                let table = &mut self.declared.tables[table];
                table.indexes.remove(index);
                self.concerned.insert(ObjectName::Table(own));
            }
        }
        Ok(())
    }

    fn index_of_constraint(&self, table: usize, name: &str) -> ChangeError {
        let table = &self.declared.tables[table].name;
        let message = format!(
            "cannot drop index {name} because constraint {name} on table {table} requires it"
        );
        ChangeError::new("2BP01", message).hint(format!(
            "You can drop constraint {name} on table {table} instead."
        ))
    }

    /// Drops the foreign keys that refer to dropped tables.
    fn drop_references(&mut self, is_dropped: impl Fn(&str) -> bool) {
        let mut dependents = Vec::new();
        for table in &mut self.declared.tables {
            let name = table.name.clone();
            table.foreign_keys.retain(|key| {
                let goes = is_dropped(&key.parent);
                if goes {
                    let described = format!("constraint {} on table {name}", key.name);
                    let on = format!("table {}", key.parent);
                    dependents.push((Dropped::new(described, &key.name), on));
                }
                !goes
            });
        }
        self.drops.dependents.extend(dependents);
    }

    /// Drops the foreign keys that refer to a key of a table; the key is still declared.
    pub(super) fn drop_key_references(&mut self, parent: &str, key: &str) {
        let on = format!("index {key}");
        self.drop_references_to(parent, &on, |parent, columns| {
            parent.key_of(columns) == Some(key)
        });
    }

    /// Drops the foreign keys that refer to a column of a table.
    pub(super) fn drop_column_references(&mut self, parent: &str, column: &str) {
        let on = format!("column {column} of table {parent}");
        let is_dropped =
            |_: &DeclaredTable, columns: &[String]| columns.iter().any(|of| of == column);
        self.drop_references_to(parent, &on, is_dropped);
    }

    fn drop_references_to(
        &mut self,
        parent: &str,
        on: &str,
        is_dropped: impl Fn(&DeclaredTable, &[String]) -> bool,
    ) {
        let Some(number) = self.declared.table(parent) else {
            return;
        };
        let declared = self.declared.tables[number].clone();
        let mut dependents = Vec::new();
        for table in &mut self.declared.tables {
            let name = table.name.clone();
            table.foreign_keys.retain(|key| {
                let goes = key.parent == parent && is_dropped(&declared, &key.parent_columns);
                if goes {
                    let described = format!("constraint {} on table {name}", key.name);
                    dependents.push((Dropped::new(described, &key.name), on.to_owned()));
                }
                !goes
            });
        }
        self.drops.dependents.extend(dependents);
    }

    pub(super) fn create_routine(
        &mut self,
        name: &Name,
        kind: RoutineKind,
        or_replace: bool,
    ) -> Change<()> {
        let mut unresolved = self.declared.unresolved.iter();
        if let Some(old) = unresolved.position(|of| of.name == name.text) {
            if !or_replace {
                let message = format!(
                    "function \"{}\" already exists with same argument types",
                    name.text
                );
                return Err(ChangeError::new("42723", message));
            }
            self.declared.unresolved.remove(old);
        }
        let mut there = self.declared.routines.iter();
        let old = there.position(|of| of.name == name.text);
        let routine = DeclaredRoutine {
            name: name.text.clone(),
            kind,
            arguments: Vec::new(),
            text: self.file.text.to_string(),
            keeps: Vec::new(),
        };
        match old {
            None => self.declared.routines.push(routine),
            Some(old) if or_replace => {
                let replaced = &mut self.declared.routines[old];
                if replaced.kind != kind {
                    let is = match replaced.kind {
                        RoutineKind::Function => "function",
                        RoutineKind::Procedure => "procedure",
                    };
                    return Err(ChangeError::new("42809", "cannot change routine kind")
                        .detail(format!("\"{}\" is a {is}.", name.text)));
                }
                if replaced.is_trigger() != routine.is_trigger() {
                    let message = "cannot change return type of existing function";
                    let hint = format!("Use DROP FUNCTION {}() first.", name.text);
                    return Err(ChangeError::new("42P13", message).hint(hint));
                }
                let keeps = std::mem::take(&mut replaced.keeps);
                *replaced = DeclaredRoutine { keeps, ..routine };
            }
            // The parameters decide whether PostgreSQL would take it; loading compares them.
            Some(_) => self.declared.routines.push(routine),
        }
        self.concerned
            .insert(ObjectName::Routine(name.text.clone()));
        Ok(())
    }

    pub(super) fn drop_routines(
        &mut self,
        object: RoutineObject,
        routines: &[RoutineName],
        if_exists: bool,
        cascade: bool,
    ) -> Change<()> {
        self.drops.cascade = cascade;
        for wanted in routines {
            let mut there = self.declared.routines.iter();
            let name = &wanted.name.text;
            let found = there.position(|of| {
                let mut arguments = wanted.arguments.iter();
                of.name == *name && arguments.all(|given| of.takes(given))
            });
            let word = match object {
                RoutineObject::Function => "function",
                RoutineObject::Procedure => "procedure",
                RoutineObject::Routine => "routine",
            };
            let shown = match &wanted.arguments {
                Some(types) => {
                    let types: Vec<String> = types.iter().map(plain_type).collect();
                    format!("{name}({})", types.join(","))
                }
                None => format!("{name}()"),
            };
            let mut unresolved = self.declared.unresolved.iter();
            let is_unresolved = unresolved.any(|of| of.name == *name);
            let Some(found) = found else {
                if is_unresolved {
                    self.declared.unresolved.retain(|of| of.name != *name);
                    continue;
                }
                let code = "42883";
                if if_exists {
                    self.skip("00000", format!("{word} {shown} does not exist"));
                    continue;
                }
                let message = match wanted.arguments {
                    Some(_) => format!("{word} {shown} does not exist"),
                    None => format!("could not find a {word} named \"{name}\""),
                };
                return Err(ChangeError::new(code, message));
            };
            let routine = &self.declared.routines[found];
            let is_wanted = match object {
                RoutineObject::Routine => true,
                RoutineObject::Function => routine.kind == RoutineKind::Function,
                RoutineObject::Procedure => routine.kind == RoutineKind::Procedure,
            };
            if !is_wanted {
                let message = format!("{} is not a {word}", routine.signature());
                return Err(ChangeError::new("42809", message));
            }
            let described = routine.described();
            self.drops.targets.push(Dropped::new(described, name));
            self.declared.routines.remove(found);
        }
        Ok(())
    }
}

impl DeclaredRoutine {
    fn takes(&self, types: &[anabranch_types::DataType]) -> bool {
        self.arguments
            .iter()
            .map(plain_type)
            .eq(types.iter().map(plain_type))
    }

    /// `f(integer,text)`
    pub(super) fn signature(&self) -> String {
        let types: Vec<String> = self.arguments.iter().map(plain_type).collect();
        format!("{}({})", self.name, types.join(","))
    }

    /// `function f(integer,text)`
    pub(super) fn described(&self) -> String {
        let kind = match self.kind {
            RoutineKind::Function => "function",
            RoutineKind::Procedure => "procedure",
        };
        format!("{kind} {}", self.signature())
    }
}

/// Whether a relation is of the kind that a DROP names.
fn is_kind(relation: Relation, object: ObjectKind) -> bool {
    match relation {
        Relation::Table(_) => object == ObjectKind::Table,
        Relation::View(_) => object == ObjectKind::View,
        Relation::Sequence(_) | Relation::SerialSequence(..) => object == ObjectKind::Sequence,
        Relation::PrimaryKey(_) | Relation::Index(..) => object == ObjectKind::Index,
    }
}

/// The word behind DROP for a relation, and the word in a hint.
fn kind_word(relation: Relation) -> (&'static str, &'static str) {
    match relation {
        Relation::Table(_) => ("TABLE", "a table"),
        Relation::View(_) => ("VIEW", "a view"),
        Relation::Sequence(_) | Relation::SerialSequence(..) => ("SEQUENCE", "a sequence"),
        Relation::PrimaryKey(_) | Relation::Index(..) => ("INDEX", "an index"),
    }
}

/// The word for a kind of object, without and with its article.
pub(super) fn object_words(object: ObjectKind) -> (&'static str, &'static str) {
    match object {
        ObjectKind::Table => ("table", "a table"),
        ObjectKind::View => ("view", "a view"),
        ObjectKind::Index => ("index", "an index"),
        ObjectKind::Sequence => ("sequence", "a sequence"),
        ObjectKind::Assertion => ("assertion", "an assertion"),
        ObjectKind::Type => ("type", "a type"),
    }
}
