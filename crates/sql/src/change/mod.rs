//! A schema that changes: DDL and TRUNCATE of clients.
//!
//! 1. `parse` makes a [`ChangeStatement`] of a client's text.
//! 2. [`Application::change`] applies it to the declarations of the application (`declared`): what must exist, what
//!    must not, what depends on what, in PostgreSQL's words.
//! 3. The declarations are printed as SQL (`print`), loaded and compiled like an application's files. So the text of
//!    the new application is all that a restart needs, and no statement makes a schema that files cannot declare. A
//!    view, routine or assertion that does not compile any more depends on what the statement has dropped.
//! 4. The result says how the rows of each table change ([`RowMapping`]), which rows have to be tested
//!    ([`RowVerifier`], [`Verification`]), and what the client is told.
//!
//! Nothing is changed in place: the old application stays as it is, so that a rollback has nothing to undo.

mod alter;
mod apply;
mod declared;
mod dependents;
mod dropping;
mod enumeration;
mod error;
mod mapping;
pub(crate) mod parse;
mod print;
mod rename;
mod sequence;
mod statement;
mod table;
mod trigger;
mod unresolved;
mod verification;

use std::collections::{BTreeMap, BTreeSet};

use anabranch_types::{ColumnIndex, DataType, TableId};
use rustc_hash::FxHashSet;

use crate::{
    application::Application,
    bind::{Binder, ViewVariables},
    catalog::{Catalog, View, load},
    diagnostic::Diagnostic,
    source::SourceFile,
    system::names::quoted,
};
use apply::{Changer, ObjectName, RenamedColumn};
use declared::{ColumnValues, Declared, Test};
use dependents::Dropped;
use error::Change;
use print::{Printed, PrintedObject, print, print_around_rows};
use rename::mentions;
use unresolved::{BodyForm, is_missing};
use verification::{Broken, UniqueKey};

pub use error::{ChangeError, Notice};
pub use mapping::{MappingContext, RowMapping};
pub use sequence::SequenceMove;
pub use statement::ChangeStatement;
pub use verification::{RowVerifier, Verification};

/// The name of the file that a changed application consists of.
pub const SCHEMA_FILE: &str = "schema.sql";

/// The result of a statement that changes the schema: what has to be done to existing rows, and the application
/// afterwards.
#[derive(Debug)]
pub struct SchemaChange {
    /// The application after the change. Its catalog's only file, [`SCHEMA_FILE`], loads to the same catalog. `None`
    /// if the declarations stay as they are: TRUNCATE, `IF EXISTS` without an object, what has no effect here.
    pub application: Option<Application>,
    /// What happens to the rows of each table of the new schema, by its [`TableId`]. Tables of the old schema that no
    /// entry names are dropped.
    pub tables: Vec<TableChange>,
    /// What existing rows must pass besides: no query may return a row, over the new schema and the new rows.
    pub verifications: Vec<Verification>,
    /// What the client is told beside success.
    pub notices: Vec<Notice>,
    /// The command tag.
    pub tag: &'static str,
    /// The sequences that were there before the change, with the points at which they go on. Others begin anew.
    pub sequences: Vec<SequenceMove>,
}

/// What happens to one table.
#[derive(Debug)]
pub struct TableChange {
    /// The table before the change; `None` if it is new.
    pub from: Option<TableId>,
    /// For each column, the column before the change, whose sequence goes on; `None` if it is new.
    pub columns: Vec<Option<ColumnIndex>>,
    /// What happens to its rows.
    pub rows: TableRows,
    /// A test of each row that is there after the change, if one is due.
    pub verifier: Option<RowVerifier>,
    /// Whether it has other secondary indexes than before, so that their entries have to be made anew.
    pub reindexed: bool,
}

/// What happens to a table's rows.
#[derive(Debug)]
pub enum TableRows {
    /// They stay, keys and bytes.
    Same,
    /// Each becomes another row.
    Mapped(RowMapping),
    /// They are removed: TRUNCATE.
    Removed,
}

/// Settings of a session that a change depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeSettings {
    /// `check_function_bodies`: whether the body of a function in LANGUAGE SQL may name only what exists. `pg_dump`
    /// turns it off.
    pub check_function_bodies: bool,
}

impl Default for ChangeSettings {
    fn default() -> ChangeSettings {
        ChangeSettings {
            check_function_bodies: true,
        }
    }
}

impl SchemaChange {
    /// Whether nothing has to be done: the statement may be answered without stopping others.
    pub fn is_nothing(&self) -> bool {
        self.application.is_none()
            && self.verifications.is_empty()
            && !self.sequences.iter().any(SequenceMove::restarts)
            && self.tables.iter().all(TableChange::is_nothing)
    }
}

impl TableChange {
    /// Whether the table stays as it is.
    fn is_nothing(&self) -> bool {
        matches!(self.rows, TableRows::Same)
            && self.from.is_some()
            && self.verifier.is_none()
            && !self.reindexed
    }
}

impl Application {
    /// What a statement changes in this application. Its own tables and rows stay as they are.
    ///
    /// # Errors
    /// Why PostgreSQL refuses the statement, or that it is not supported (`0A000`).
    pub fn change(&self, statement: &ChangeStatement) -> Result<SchemaChange, ChangeError> {
        self.change_with(statement, ChangeSettings::default())
    }

    /// The same, under these settings of the session.
    ///
    /// # Errors
    /// As [`Application::change`].
    pub fn change_with(
        &self,
        statement: &ChangeStatement,
        settings: ChangeSettings,
    ) -> Result<SchemaChange, ChangeError> {
        let before = unresolved::declared(self.catalog());
        let mut changer = Changer::new(self.catalog(), statement, before.clone(), settings);
        changer.view_columns = self
            .catalog()
            .views
            .iter()
            .filter_map(|view| {
                let columns = view_columns(self.catalog(), view)?;
                let names = columns.into_iter().map(|(name, _)| name).collect();
                Some((view.name.clone(), names))
            })
            .collect();
        changer.apply(&statement.kind.looked_up(&self.catalog().types)?)?;
        changer.drop_defaults();
        if changer.declared == before {
            return Ok(self.unchanged(changer, statement.tag));
        }
        let application = self.compiled(&mut changer)?;
        changer.drops.finish(&mut changer.notices)?;
        self.check_views(&application, &changer)?;
        let mut change = SchemaChange {
            application: None,
            tables: Vec::new(),
            verifications: Vec::new(),
            notices: std::mem::take(&mut changer.notices),
            tag: statement.tag,
            sequences: Vec::new(),
        };
        let (old, new) = (self.catalog(), application.catalog());
        let mut rewritten = BTreeSet::new();
        for (number, declared) in changer.declared.tables.iter().enumerate() {
            let to = TableId(number as u16);
            let mut of = TableChange {
                from: declared.from,
                columns: vec![None; new.schema.table(to).columns.len()],
                rows: TableRows::Same,
                verifier: None,
                reindexed: false,
            };
            if let Some(from) = declared.from {
                let columns = declared.columns.iter().map(|column| match &column.values {
                    ColumnValues::Old(old) | ColumnValues::Using(old, _) => Some(*old),
                    ColumnValues::New(_) => None,
                });
                let hidden = std::iter::repeat(None);
                let count = of.columns.len();
                of.columns = columns.chain(hidden).take(count).collect();
                if let Some(mapping) = RowMapping::new(old, new, declared, (from, to))? {
                    of.rows = TableRows::Mapped(mapping);
                    rewritten.insert(to);
                }
                of.verifier = verifier(&application, &changer.declared, number, old);
                of.reindexed = indexes(old, from) != indexes(new, to);
                change
                    .verifications
                    .extend(foreign_keys(new, &changer.declared, number));
            }
            change.tables.push(of);
        }
        let is_new = |name: &str| {
            changer
                .concerned
                .contains(&ObjectName::Assertion(name.to_owned()))
        };
        for (compiled, declared) in application.assertions().iter().zip(&new.assertions) {
            let tables = compiled.tables();
            if is_new(compiled.name()) || tables.iter().any(|table| rewritten.contains(table)) {
                change.verifications.push(assertion(new, declared));
            }
        }
        change.sequences = changer.moves(new);
        change.application = Some(application);
        Ok(change)
    }

    /// The application as SQL, in an order in which PostgreSQL loads it too, assertions apart.
    pub fn declarations(&self) -> String {
        print(&unresolved::declared(self.catalog())).text
    }

    /// The application as SQL for PostgreSQL, in two parts: rows are loaded between them. The first has sequences and
    /// tables with their keys and checks; the second indexes, foreign keys, views and routines, and assertions as
    /// comments.
    pub fn declarations_around_rows(&self) -> [String; 2] {
        print_around_rows(&unresolved::declared(self.catalog()))
    }

    /// A change of rows alone, or of nothing.
    fn unchanged(&self, mut changer: Changer<'_>, tag: &'static str) -> SchemaChange {
        let catalog = self.catalog();
        let mut change = SchemaChange {
            application: None,
            tables: Vec::new(),
            verifications: Vec::new(),
            notices: std::mem::take(&mut changer.notices),
            tag,
            sequences: changer.moves(catalog),
        };
        let mut removed = BTreeSet::new();
        for table in &catalog.tables {
            let columns = 0..table.defaults.len();
            let columns: Vec<_> = columns.map(|at| ColumnIndex(at as u16)).collect();
            let is_truncated = changer.truncated.contains(&table.name);
            if is_truncated {
                removed.insert(table.id);
            }
            change.tables.push(TableChange {
                from: Some(table.id),
                columns: columns.into_iter().map(Some).collect(),
                rows: match is_truncated {
                    true => TableRows::Removed,
                    false => TableRows::Same,
                },
                verifier: None,
                reindexed: false,
            });
        }
        for (compiled, declared) in self.assertions().iter().zip(&catalog.assertions) {
            if compiled
                .tables()
                .iter()
                .any(|table| removed.contains(table))
            {
                change.verifications.push(assertion(catalog, declared));
            }
        }
        change
    }

    /// Compiles the changed declarations. Objects that do not compile without what was dropped go with it; routines
    /// that were unresolved are tried again.
    fn compiled(&self, changer: &mut Changer<'_>) -> Change<Application> {
        let application = loop {
            let printed = print(&changer.declared);
            match self.compile_text(&printed.text) {
                Ok(application) => break application,
                Err(problems) => give_up(changer, &printed, &problems)?,
            }
        };
        let resolved = changer.declared.routines.len();
        let mut tried = changer.declared.clone();
        tried.routines.append(&mut tried.unresolved);
        while tried.routines.len() > resolved {
            let printed = print(&tried);
            let problems = match self.compile_text(&printed.text) {
                Ok(application) => {
                    changer.declared = tried;
                    return Ok(application);
                }
                Err(problems) => problems,
            };
            let broken: BTreeSet<usize> = problems
                .iter()
                .filter_map(|problem| match printed.object_of(problem)? {
                    PrintedObject::Routine(at) if at >= resolved => Some(at),
                    _ => None,
                })
                .collect();
            if broken.is_empty() {
                break;
            }
            for at in broken.into_iter().rev() {
                let routine = tried.routines.remove(at);
                tried.unresolved.insert(0, routine);
            }
        }
        Ok(application)
    }

    fn compile_text(&self, text: &str) -> Result<Application, Vec<Diagnostic>> {
        let mut catalog = load(vec![SourceFile::new(SCHEMA_FILE, text)])?;
        catalog.limits = self.catalog().limits;
        Application::compile(catalog)
    }

    /// Refuses a change of what views return, or the rename of a column that they name.
    fn check_views(&self, after: &Application, changer: &Changer<'_>) -> Change<()> {
        for view in &self.catalog().views {
            let Some(new) = after.catalog().view_by_name(&view.name) else {
                continue;
            };
            let own = ObjectName::View(view.name.clone());
            if changer.concerned.contains(&own) {
                let columns = |catalog, view| view_columns(catalog, view).unwrap_or_default();
                let before = columns(self.catalog(), view);
                check_replaced(&before, &columns(after.catalog(), new))?;
                continue;
            }
            let text = after.catalog().files[usize::from(new.span.file)].slice(new.span);
            for RenamedColumn { table, column } in &changer.columns {
                let follows = changer.followed.contains(&view.name);
                if follows || !(mentions(text, table) && mentions(text, column)) {
                    continue;
                }
                let message = format!(
                    "cannot rename column \"{column}\" of table \"{table}\" because other objects name it"
                );
                return Err(
                    ChangeError::new("0A000", message).detail(format!("view {}", view.name))
                );
            }
            let columns = view_columns(self.catalog(), view);
            if columns != view_columns(after.catalog(), new) {
                let message = format!(
                    "cannot make this change because view \"{}\" would have other columns",
                    view.name
                );
                return Err(ChangeError::new("0A000", message).hint(
                    "name the columns of the view instead of *, or drop it and create it again",
                ));
            }
        }
        Ok(())
    }
}

/// Removes the objects that have these problems from the declarations, if the statement drops something that they
/// depend on, or if they are routines that may wait for what they name.
fn give_up(changer: &mut Changer<'_>, printed: &Printed, problems: &[Diagnostic]) -> Change<()> {
    let mut broken: BTreeMap<PrintedObject, &Diagnostic> = BTreeMap::new();
    for problem in problems {
        match printed.object_of(problem) {
            Some(object) if !changer.concerns(object) || changer.may_wait(object, problem) => {
                broken.entry(object).or_insert(problem);
            }
            _ => return Err(ChangeError::of_text(problem)),
        };
    }
    if broken.is_empty() {
        let message = "the changed schema cannot be read";
        return Err(ChangeError::new("XX000", message));
    }
    let is_waiting =
        |(object, problem): (&PrintedObject, &&Diagnostic)| changer.may_wait(*object, problem);
    if changer.drops.targets.is_empty() && !broken.iter().all(is_waiting) {
        let message = match &changer.renamed {
            Some(renamed) => format!("cannot rename {renamed} because other objects name it"),
            None => "cannot make this change because other objects do not compile with it".into(),
        };
        let reasons = broken
            .iter()
            .map(|(object, problem)| format!("{}: {}", changer.describe(*object), problem.message));
        let reasons: Vec<String> = reasons.collect();
        return Err(ChangeError::new("0A000", message)
            .detail(reasons.join("\n"))
            .hint("drop these objects, make the change, and create them again"));
    }
    let mut waiting = BTreeSet::new();
    for (object, problem) in &broken {
        if changer.may_wait(*object, problem) {
            waiting.insert(*object);
            if !changer.concerns(*object) {
                let message = format!(
                    "{} cannot be called any more: {}",
                    changer.describe(*object),
                    problem.message
                );
                changer.notices.push(Notice::new("00000", message));
            }
        } else {
            changer.note_dependent(*object);
        }
    }
    // From the last, so that the places of the others stay.
    for object in broken.into_keys().rev() {
        changer.remove(object, waiting.contains(&object));
    }
    Ok(())
}

impl Changer<'_> {
    /// Whether an object is a routine that stays, unresolved, although its body has this problem.
    fn may_wait(&self, object: PrintedObject, problem: &Diagnostic) -> bool {
        let PrintedObject::Routine(at) = object else {
            return false;
        };
        let may = match self.declared.routines[at].body_form() {
            BodyForm::Parsed => false,
            _ if !self.concerns(object) => !self.drops.targets.is_empty(),
            BodyForm::Sql => !self.settings.check_function_bodies,
            BodyForm::Other => true,
        };
        may && is_missing(problem)
    }

    /// Whether the statement itself creates or alters an object.
    fn concerns(&self, object: PrintedObject) -> bool {
        let declared = &self.declared;
        self.concerned.contains(&match object {
            PrintedObject::Type(at) => ObjectName::Type(declared.types[at].name.clone()),
            PrintedObject::Table(at) => ObjectName::Table(declared.tables[at].name.clone()),
            PrintedObject::Sequence(at) => {
                ObjectName::Sequence(declared.sequences[at].name.clone())
            }
            PrintedObject::View(at) => ObjectName::View(declared.views[at].name.clone()),
            PrintedObject::Assertion(at) => {
                ObjectName::Assertion(declared.assertions[at].name.clone())
            }
            PrintedObject::Routine(at) => ObjectName::Routine(declared.routines[at].name.clone()),
            PrintedObject::Trigger(at) => declared.triggers[at].object_name(),
        })
    }

    /// An object in messages' words.
    fn describe(&self, object: PrintedObject) -> String {
        let declared = &self.declared;
        match object {
            PrintedObject::Type(at) => format!("type {}", declared.types[at].name),
            PrintedObject::Table(at) => format!("table {}", declared.tables[at].name),
            PrintedObject::Sequence(at) => format!("sequence {}", declared.sequences[at].name),
            PrintedObject::View(at) => format!("view {}", declared.views[at].name),
            PrintedObject::Assertion(at) => format!("assertion {}", declared.assertions[at].name),
            PrintedObject::Routine(at) => declared.routines[at].described(),
            PrintedObject::Trigger(at) => declared.triggers[at].described(),
        }
    }

    /// Notes that an object depends on what the statement drops.
    fn note_dependent(&mut self, object: PrintedObject) {
        let described = self.describe(object);
        let declared = &self.declared;
        let of_trigger = match object {
            PrintedObject::Trigger(at) => declared.triggers[at].text(&declared.routines),
            _ => String::new(),
        };
        let (name, text) = match object {
            PrintedObject::Type(at) => (&declared.types[at].name, ""),
            // A table depends on another by its foreign keys alone, and those are dropped before.
            PrintedObject::Table(at) => (&declared.tables[at].name, ""),
            PrintedObject::Sequence(at) => (&declared.sequences[at].name, ""),
            PrintedObject::View(at) => (&declared.views[at].name, &*declared.views[at].text),
            PrintedObject::Assertion(at) => {
                let assertion = &declared.assertions[at];
                (&assertion.name, &*assertion.text)
            }
            PrintedObject::Routine(at) => {
                let routine = &declared.routines[at];
                (&routine.name, &*routine.text)
            }
            PrintedObject::Trigger(at) => (&declared.triggers[at].name, &*of_trigger),
        };
        let dependents = self.drops.dependents.iter().map(|(of, _)| of);
        let mut causes = dependents.chain(&self.drops.targets);
        let is_named = |of: &&Dropped| of.names.iter().any(|name| mentions(text, name));
        let cause = causes.find(is_named).or(self.drops.targets.first());
        let on = cause.map_or(String::new(), |of| of.described.clone());
        let dropped = Dropped::new(described, name);
        self.drops.dependents.push((dropped, on));
    }

    /// Removes an object; a routine stays as an unresolved one if it is `waiting`.
    fn remove(&mut self, object: PrintedObject, waiting: bool) {
        let declared = &mut self.declared;
        match object {
            PrintedObject::Type(at) => drop(declared.types.remove(at)),
            PrintedObject::Table(at) => drop(declared.tables.remove(at)),
            PrintedObject::Sequence(at) => drop(declared.sequences.remove(at)),
            PrintedObject::View(at) => drop(declared.views.remove(at)),
            PrintedObject::Assertion(at) => {
                let assertion = declared.assertions.remove(at);
                declared.forget_kept(&assertion.name);
            }
            PrintedObject::Routine(at) => {
                let routine = declared.routines.remove(at);
                if waiting {
                    declared.unresolved.push(routine);
                }
            }
            PrintedObject::Trigger(at) => drop(declared.triggers.remove(at)),
        }
    }
}

/// CREATE OR REPLACE VIEW keeps the columns that are there.
fn check_replaced(before: &[(String, DataType)], after: &[(String, DataType)]) -> Change<()> {
    if after.len() < before.len() {
        let message = "cannot drop columns from view";
        return Err(ChangeError::new("42P16", message));
    }
    for ((was, from), (is, to)) in before.iter().zip(after) {
        if was != is {
            let message = format!("cannot change name of view column \"{was}\" to \"{is}\"");
            return Err(ChangeError::new("42P16", message).hint(
                "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.",
            ));
        }
        if from != to {
            let message =
                format!("cannot change data type of view column \"{was}\" from {from} to {to}");
            return Err(ChangeError::new("42P16", message));
        }
    }
    Ok(())
}

/// The columns that a view returns; `None` if it does not compile.
fn view_columns(catalog: &Catalog, view: &View) -> Option<Vec<(String, DataType)>> {
    let mut binder = Binder::new(catalog, &ViewVariables, view.span);
    let mut columns = binder.closed_query(&view.query).ok()?.columns;
    for (column, name) in columns.iter_mut().zip(&view.columns) {
        column.0.clone_from(name);
    }
    Some(columns)
}

/// The names, columns and uniqueness of a table's secondary indexes, in order.
fn indexes(catalog: &Catalog, table: TableId) -> Vec<(Vec<ColumnIndex>, bool)> {
    let indexes = catalog.schema.table(table).indexes.iter();
    let indexes = indexes.map(|index| (index.columns.clone(), index.unique));
    indexes.collect()
}

/// The tests that each row of a table has to pass anew.
fn verifier(
    application: &Application,
    declared: &Declared,
    number: usize,
    old: &Catalog,
) -> Option<RowVerifier> {
    let table = &declared.tables[number];
    let schema = application.schema().tables[number].clone();
    let compiled = &application.constraints_of(schema.id).checks;
    let due = |name: &str| {
        let mut checks = table.checks.iter();
        checks.any(|check| check.name == name && check.test == Test::Due)
    };
    let checks = compiled.iter().filter(|check| due(&check.name)).cloned();
    let mut keys = Vec::new();
    let mut key = |name: &str, columns: &[ColumnIndex]| {
        keys.push(UniqueKey {
            name: name.to_owned(),
            columns: columns.to_vec(),
            seen: FxHashSet::default(),
        });
    };
    for index in &table.indexes {
        if index.unique
            && index.test == Test::Due
            && let Some(made) = schema.indexes.iter().find(|of| of.name == index.name)
        {
            key(&index.name, &made.columns);
        }
    }
    if let (Some(own), Some(from)) = (&table.primary_key, table.from) {
        // A key over the same columns with the same types holds already.
        let was = old.schema.table(from);
        let columns = schema.primary_key.iter();
        let is_same = |column: &ColumnIndex| match &table.columns[column.index()].values {
            ColumnValues::Old(old) => {
                let types = &schema.columns[column.index()].data_type;
                was.primary_key.contains(old) && was.columns[old.index()].data_type == *types
            }
            _ => false,
        };
        let holds = !was.primary_key.is_empty()
            && was.primary_key.len() == schema.primary_key.len()
            && columns.clone().all(is_same);
        if !holds {
            key(&own.name, &schema.primary_key);
        }
    }
    let verifier = RowVerifier {
        schema,
        checks: checks.collect(),
        keys,
    };
    (!verifier.is_empty()).then_some(verifier)
}

/// Queries for the rows of a table that break a foreign key which has to be tested.
fn foreign_keys(catalog: &Catalog, declared: &Declared, number: usize) -> Vec<Verification> {
    let table = &declared.tables[number];
    let due = table
        .foreign_keys
        .iter()
        .filter(|key| key.test == Test::Due);
    let verification = |key: &declared::DeclaredForeignKey| {
        let compiled = catalog.tables[number]
            .foreign_keys
            .iter()
            .find(|of| of.name == key.name)?;
        let child = catalog.schema.tables[number].clone();
        let parent = catalog.schema.table(compiled.parent);
        let column = |column: &ColumnIndex| quoted(&child.columns[column.index()].name);
        let own: Vec<String> = compiled.columns.iter().map(column).collect();
        let pairs = own.iter().zip(&compiled.parent_columns);
        let joined = pairs.map(|(own, of)| {
            let of = quoted(&parent.columns[of.index()].name);
            format!("parent.{of} = child.{own}")
        });
        let joined: Vec<String> = joined.collect();
        let selected: Vec<String> = own.iter().map(|own| format!("child.{own}")).collect();
        let given: Vec<String> = own
            .iter()
            .map(|own| format!("child.{own} IS NOT NULL"))
            .collect();
        let query = format!(
            "SELECT {} FROM {} AS child WHERE {} AND NOT EXISTS (SELECT 1 FROM {} AS parent WHERE {}) LIMIT 1",
            selected.join(", "),
            quoted(&table.name),
            given.join(" AND "),
            quoted(&key.parent),
            joined.join(" AND "),
        );
        Some(Verification {
            query,
            broken: Broken::ForeignKey {
                name: key.name.clone(),
                columns: compiled.columns.clone(),
                parent: key.parent.clone(),
                child,
            },
        })
    };
    due.filter_map(verification).collect()
}

/// A query that returns a row if an assertion does not hold.
fn assertion(catalog: &Catalog, assertion: &crate::catalog::Assertion) -> Verification {
    let file = &catalog.files[usize::from(assertion.span.file)];
    let condition = declared::check_condition(file, assertion.span);
    Verification {
        query: format!("SELECT 1 WHERE NOT ({condition})"),
        broken: Broken::Assertion(assertion.name.clone()),
    }
}
