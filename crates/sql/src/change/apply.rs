//! Applies a statement to the declarations.
//!
//! Here is tested what PostgreSQL tests by names: what must exist, what must not, what others depend on. Whether the
//! declarations are right beyond that is tested when the new text is loaded and compiled (see [`super`]).

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ChangeSettings,
    declared::{Declared, DeclaredText, Relation},
    dependents::Drops,
    error::{Change, ChangeError, Notice},
    statement::{ChangeKind, ChangeStatement, ObjectKind},
};
use crate::{catalog::Catalog, parse::cursor::Name, source::SourceFile};

/// A change under way.
#[derive(Debug)]
pub(super) struct Changer<'c> {
    /// The catalog before the change.
    pub(super) catalog: &'c Catalog,
    pub(super) settings: ChangeSettings,
    /// The statement's text.
    pub(super) file: SourceFile,
    /// The declarations, which the statement changes.
    pub(super) declared: Declared,
    pub(super) notices: Vec<Notice>,
    /// What the statement drops, and what depends on it.
    pub(super) drops: Drops,
    /// What the statement creates or alters: problems of these are the statement's own.
    pub(super) concerned: BTreeSet<ObjectName>,
    /// Tables that lose their rows.
    pub(super) truncated: BTreeSet<String>,
    /// Sequences that begin again, by their names, each with the number with which it does.
    pub(super) restarts: BTreeMap<String, i64>,
    /// Renamed columns, by their old names.
    pub(super) columns: Vec<RenamedColumn>,
    /// What the statement renames, in messages' words.
    pub(super) renamed: Option<String>,
    /// The columns of the views before the change.
    pub(super) view_columns: BTreeMap<String, Vec<String>>,
    /// Views whose texts follow a rename.
    pub(super) followed: BTreeSet<String>,
}

/// An object that a statement creates or alters, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ObjectName {
    Type(String),
    Table(String),
    Sequence(String),
    View(String),
    Assertion(String),
    Routine(String),
    /// By its table and its name.
    Trigger(String, String),
}

/// A column that is renamed.
#[derive(Clone, Debug)]
pub(super) struct RenamedColumn {
    pub(super) table: String,
    pub(super) column: String,
}

impl<'c> Changer<'c> {
    pub(super) fn new(
        catalog: &'c Catalog,
        statement: &ChangeStatement,
        declared: Declared,
        settings: ChangeSettings,
    ) -> Changer<'c> {
        Changer {
            catalog,
            settings,
            file: SourceFile::new("statement", statement.text.clone()),
            declared,
            notices: Vec::new(),
            drops: Drops::default(),
            concerned: BTreeSet::new(),
            truncated: BTreeSet::new(),
            restarts: BTreeMap::new(),
            columns: Vec::new(),
            renamed: None,
            view_columns: BTreeMap::new(),
            followed: BTreeSet::new(),
        }
    }

    /// Applies the statement.
    pub(super) fn apply(&mut self, kind: &ChangeKind) -> Change<()> {
        match kind {
            ChangeKind::CreateTable(table) => self.create_table(table),
            ChangeKind::CreateIndex(index) => self.create_index(index),
            ChangeKind::CreateSequence(declaration) => self.create_sequence(declaration),
            ChangeKind::CreateType(declaration) => self.create_type(declaration),
            ChangeKind::AddLabel(added) => self.add_label(added),
            ChangeKind::AcceptedOfType(name) => self.check_type_exists(name),
            ChangeKind::Drop {
                object: ObjectKind::Type,
                names,
                if_exists,
                cascade,
            } => self.drop_types(names, *if_exists, *cascade),
            ChangeKind::AlterSequence {
                name,
                if_exists,
                settings,
            } => self.alter_sequence(name, *if_exists, settings),
            ChangeKind::CreateView { name, or_replace } => self.create_view(name, *or_replace),
            ChangeKind::CreateAssertion(name) => self.create_assertion(name),
            ChangeKind::CreateRoutine {
                name,
                kind,
                or_replace,
            } => self.create_routine(name, *kind, *or_replace),
            ChangeKind::CreateTrigger(declaration) => self.create_trigger(declaration),
            ChangeKind::DropTrigger {
                name,
                table,
                if_exists,
            } => self.drop_trigger(name, table, *if_exists),
            ChangeKind::RenameTrigger { name, table, to } => self.rename_trigger(name, table, to),
            ChangeKind::AcceptedOfTrigger { name, table } => {
                self.trigger_named(name, table).map(|_| ())
            }
            ChangeKind::Drop {
                object,
                names,
                if_exists,
                cascade,
            } => self.drop(*object, names, *if_exists, *cascade),
            ChangeKind::DropRoutine {
                object,
                routines,
                if_exists,
                cascade,
            } => self.drop_routines(*object, routines, *if_exists, *cascade),
            ChangeKind::AlterTable {
                object,
                name,
                if_exists,
                actions,
            } => self.alter(*object, name, *if_exists, actions),
            ChangeKind::Truncate {
                names,
                restart,
                cascade,
            } => self.truncate(names, *restart, *cascade),
            ChangeKind::Accepted { relations } => {
                for name in relations {
                    if self.declared.relation(&name.text).is_none() {
                        return Err(no_relation(name));
                    }
                }
                Ok(())
            }
            ChangeKind::Existing {
                if_not_exists,
                what,
                code,
            } => {
                let message = format!("{what} already exists");
                if !if_not_exists {
                    return Err(ChangeError::new(code, message));
                }
                self.skip(code, message);
                Ok(())
            }
        }
    }

    /// Tells the client that there was nothing to do.
    pub(super) fn skip(&mut self, code: &'static str, message: impl AsRef<str>) {
        let message = format!("{}, skipping", message.as_ref());
        self.notices.push(Notice::new(code, message));
    }

    /// Whether a name is free for a new relation; a notice says so if it is not and the statement permits that.
    pub(super) fn is_free(&mut self, name: &Name, if_not_exists: bool) -> Change<bool> {
        if self.declared.relation(&name.text).is_none() {
            self.check_no_type(name)?;
            return Ok(true);
        }
        let message = format!("relation \"{}\" already exists", name.text);
        if if_not_exists {
            self.skip("42P07", message);
            return Ok(false);
        }
        Err(ChangeError::new("42P07", message))
    }

    fn create_view(&mut self, name: &Name, or_replace: bool) -> Change<()> {
        let view = DeclaredText {
            name: name.text.clone(),
            text: self.file.text.to_string(),
        };
        self.concerned.insert(ObjectName::View(name.text.clone()));
        self.check_no_type(name)?;
        match self.declared.relation(&name.text) {
            None => self.declared.views.push(view),
            Some(Relation::View(number)) if or_replace => self.declared.views[number] = view,
            Some(_) if or_replace => {
                let message = format!("\"{}\" is not a view", name.text);
                return Err(ChangeError::new("42809", message));
            }
            Some(_) => {
                let message = format!("relation \"{}\" already exists", name.text);
                return Err(ChangeError::new("42P07", message));
            }
        }
        Ok(())
    }

    fn create_assertion(&mut self, name: &Name) -> Change<()> {
        let mut there = self.declared.assertions.iter();
        if there.any(|assertion| assertion.name == name.text) {
            let message = format!("assertion \"{}\" already exists", name.text);
            return Err(ChangeError::new("42710", message));
        }
        self.concerned
            .insert(ObjectName::Assertion(name.text.clone()));
        self.declared.assertions.push(DeclaredText {
            name: name.text.clone(),
            text: self.file.text.to_string(),
        });
        Ok(())
    }
}

/// The error for a relation that does not exist.
pub(super) fn no_relation(name: &Name) -> ChangeError {
    let message = format!("relation \"{}\" does not exist", name.text);
    ChangeError::new("42P01", message)
}
