//! Prints declarations as SQL, with the names of all constraints and indexes. [`crate::load`] reads the text back to
//! the same declarations, and PostgreSQL loads it, assertions apart.

use std::ops::Range;

use anabranch_types::DataType;

use super::{
    declared::{
        Declared, DeclaredColumn, DeclaredDefault, DeclaredForeignKey, DeclaredPart, DeclaredTable,
        DeclaredText, DeclaredTrigger,
    },
    unresolved,
};
use crate::{
    catalog::ReferentialAction, diagnostic::Diagnostic, sequence::SequenceOptions,
    system::names::quoted,
};

/// The text of all declarations, and where each object stands in it.
#[derive(Debug, Default)]
pub(super) struct Printed {
    pub(super) text: String,
    pub(super) objects: Vec<(Range<usize>, PrintedObject)>,
}

/// An object of a printed text, by its place in the declarations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PrintedObject {
    Type(usize),
    Table(usize),
    Sequence(usize),
    View(usize),
    Assertion(usize),
    Routine(usize),
    Trigger(usize),
}

impl Printed {
    fn object(&mut self, object: PrintedObject, print: impl FnOnce(&mut String)) {
        let start = self.text.len();
        print(&mut self.text);
        self.text.push_str(";\n");
        self.objects.push((start..self.text.len(), object));
    }

    /// The object that has a problem.
    pub(super) fn object_of(&self, problem: &Diagnostic) -> Option<PrintedObject> {
        let place = problem.span?.start as usize;
        let found = self
            .objects
            .iter()
            .find(|(range, _)| range.contains(&place));
        found.map(|(_, object)| *object)
    }
}

/// Prints declarations in an order in which PostgreSQL loads them: types, sequences, tables, their indexes, foreign keys,
/// views, assertions, routines, triggers.
pub(super) fn print(declared: &Declared) -> Printed {
    let mut printed = Printed::default();
    tables(declared, &mut printed);
    indexes(declared, &mut printed);
    references(declared, &mut printed);
    views(declared, &mut printed);
    for (number, assertion) in declared.assertions.iter().enumerate() {
        printed.object(PrintedObject::Assertion(number), |text| {
            text.push_str(&assertion.text);
        });
    }
    routines(declared, &mut printed);
    for routine in &declared.unresolved {
        printed.text.push('\n');
        unresolved::print(routine, &mut printed.text);
    }
    triggers(declared, &mut printed);
    printed
}

/// Prints declarations for PostgreSQL alone, in two parts: rows are loaded between them. Assertions, which PostgreSQL
/// does not have, are comments.
pub(super) fn print_around_rows(declared: &Declared) -> [String; 2] {
    let mut before = Printed::default();
    tables(declared, &mut before);
    let mut after = Printed::default();
    indexes(declared, &mut after);
    references(declared, &mut after);
    let in_order = Declared {
        views: by_use(&declared.views),
        ..Declared::default()
    };
    views(&in_order, &mut after);
    for assertion in &declared.assertions {
        after.text.push_str("-- PostgreSQL has no assertions:\n");
        for line in assertion.text.split(['\n', '\r']) {
            after.text.push_str(&format!("--   {line}\n"));
        }
    }
    routines(declared, &mut after);
    for routine in &declared.unresolved {
        after.text.push_str(&routine.text);
        after.text.push_str(";\n");
    }
    triggers(declared, &mut after);
    [before.text, after.text]
}

/// The views, each behind those that its text may name: a view that was replaced may name later ones.
fn by_use(views: &[DeclaredText]) -> Vec<DeclaredText> {
    let mut left: Vec<&DeclaredText> = views.iter().collect();
    let mut sorted = Vec::new();
    while !left.is_empty() {
        let names = |view: &DeclaredText, other: &DeclaredText| {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let is_word = other.name.chars().all(is_part);
            let mut words = view.text.split(|c: char| !is_part(c));
            view.name != other.name
                && match is_word {
                    true => words.any(|word| word.eq_ignore_ascii_case(&other.name)),
                    false => view.text.contains(&other.name),
                }
        };
        let is_free = |view: &&DeclaredText| !left.iter().any(|other| names(view, other));
        // Texts may name each other by accident, views do not.
        let next = left.iter().position(is_free).unwrap_or(0);
        sorted.push(left.remove(next).clone());
    }
    sorted
}

/// Types, sequences, and tables with their keys and checks.
fn tables(declared: &Declared, printed: &mut Printed) {
    for (number, declared) in declared.types.iter().enumerate() {
        let labels: Vec<String> = declared.labels.iter().map(|label| literal(label)).collect();
        let (name, labels) = (quoted(&declared.name), labels.join(", "));
        printed.object(PrintedObject::Type(number), |text| {
            text.push_str(&format!("CREATE TYPE {name} AS ENUM ({labels})"));
        });
    }
    for (number, sequence) in declared.sequences.iter().enumerate() {
        printed.object(PrintedObject::Sequence(number), |text| {
            text.push_str("CREATE SEQUENCE ");
            text.push_str(&quoted(&sequence.name));
            text.push_str(&options(&sequence.options));
        });
    }
    for (number, table) in declared.tables.iter().enumerate() {
        printed.object(PrintedObject::Table(number), |text| {
            create_table(table, text);
        });
    }
    for (number, table) in declared.tables.iter().enumerate() {
        for column in table
            .columns
            .iter()
            .filter(|column| is_nullable_serial(column))
        {
            let (on, name) = (quoted(&table.name), quoted(&column.name));
            printed.object(PrintedObject::Table(number), |text| {
                text.push_str(&format!(
                    "ALTER TABLE {on} ALTER COLUMN {name} DROP NOT NULL"
                ));
            });
        }
    }
}

fn indexes(declared: &Declared, printed: &mut Printed) {
    for (number, table) in declared.tables.iter().enumerate() {
        for index in table.indexes.iter().filter(|index| !index.is_constraint) {
            let unique = if index.unique { "UNIQUE " } else { "" };
            let (name, on) = (quoted(&index.name), quoted(&table.name));
            let parts = index.parts.iter().map(|part| match part {
                DeclaredPart::Column(name) => quoted(name),
                DeclaredPart::Expression(expression) => expression.clone(),
            });
            let parts = parts.collect::<Vec<_>>().join(", ");
            let predicate = match &index.predicate {
                Some(condition) => format!(" WHERE {condition}"),
                None => String::new(),
            };
            printed.object(PrintedObject::Table(number), |text| {
                text.push_str(&format!(
                    "CREATE {unique}INDEX {name} ON {on} ({parts}){predicate}"
                ));
            });
        }
    }
}

/// Foreign keys, and the columns that own sequences.
fn references(declared: &Declared, printed: &mut Printed) {
    for (number, table) in declared.tables.iter().enumerate() {
        for key in &table.foreign_keys {
            let on = quoted(&table.name);
            printed.object(PrintedObject::Table(number), |text| {
                text.push_str(&format!("ALTER TABLE {on} ADD {}", foreign_key(key)));
            });
        }
    }
    for (number, sequence) in declared.sequences.iter().enumerate() {
        if let Some((table, column)) = &sequence.owner {
            let (name, table, column) = (quoted(&sequence.name), quoted(table), quoted(column));
            printed.object(PrintedObject::Sequence(number), |text| {
                text.push_str(&format!("ALTER SEQUENCE {name} OWNED BY {table}.{column}"));
            });
        }
    }
}

fn views(declared: &Declared, printed: &mut Printed) {
    for (number, view) in declared.views.iter().enumerate() {
        printed.object(PrintedObject::View(number), |text| {
            text.push_str(&view.text)
        });
    }
}

fn routines(declared: &Declared, printed: &mut Printed) {
    for (number, routine) in declared.routines.iter().enumerate() {
        printed.object(PrintedObject::Routine(number), |text| {
            if !routine.keeps.is_empty() {
                text.push_str(&format!(
                    "-- anabranch: keeps {}\n",
                    routine.keeps.join(", ")
                ));
            }
            text.push_str(&routine.text);
        });
    }
}

fn triggers(declared: &Declared, printed: &mut Printed) {
    for (number, declared) in declared.triggers.iter().enumerate() {
        printed.object(PrintedObject::Trigger(number), |text| {
            text.push_str(&trigger(declared));
        });
    }
}

/// CREATE TRIGGER.
pub(super) fn trigger(of: &DeclaredTrigger) -> String {
    let mut events = Vec::new();
    if of.on_insert {
        events.push("INSERT".to_owned());
    }
    if of.on_update {
        let columns: Vec<String> = of.columns.iter().map(|name| quoted(name)).collect();
        events.push(match columns.is_empty() {
            true => "UPDATE".to_owned(),
            false => format!("UPDATE OF {}", columns.join(", ")),
        });
    }
    let condition = match &of.condition {
        Some(condition) => format!(" WHEN ({condition})"),
        None => String::new(),
    };
    format!(
        "CREATE TRIGGER {} BEFORE {} ON {} FOR EACH ROW{condition} EXECUTE FUNCTION {}()",
        quoted(&of.name),
        events.join(" OR "),
        quoted(&of.table),
        quoted(&of.function),
    )
}

/// A text as a constant of SQL, whose backslashes stand for themselves.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The options of a sequence that are not the defaults.
fn options(of: &SequenceOptions) -> String {
    let mut text = String::new();
    let usual = SequenceOptions::of_type(&of.data_type);
    if of.data_type != DataType::Int8 {
        text.push_str(&format!(" AS {}", of.data_type));
    }
    if of.increment != 1 {
        text.push_str(&format!(" INCREMENT BY {}", of.increment));
    }
    // The defaults depend on each other, and on the direction.
    if (of.minimum, of.maximum, of.start) != (usual.minimum, usual.maximum, usual.start)
        || of.increment < 0
    {
        text.push_str(&format!(
            " MINVALUE {} MAXVALUE {} START WITH {}",
            of.minimum, of.maximum, of.start
        ));
    }
    if of.cache != 1 {
        text.push_str(&format!(" CACHE {}", of.cache));
    }
    if of.cycles {
        text.push_str(" CYCLE");
    }
    text
}

/// CREATE TABLE, with its keys and checks.
fn create_table(table: &DeclaredTable, text: &mut String) {
    let mut parts: Vec<String> = table.columns.iter().map(column).collect();
    if let Some(key) = &table.primary_key {
        let (name, columns) = (quoted(&key.name), list(&key.columns));
        parts.push(format!("CONSTRAINT {name} PRIMARY KEY {columns}"));
    }
    for index in table.indexes.iter().filter(|index| index.is_constraint) {
        let columns = list(&index.columns().unwrap_or_default());
        let name = quoted(&index.name);
        parts.push(format!("CONSTRAINT {name} UNIQUE {columns}"));
    }
    for check in &table.checks {
        let (name, condition) = (quoted(&check.name), &check.condition);
        parts.push(format!("CONSTRAINT {name} CHECK ({condition})"));
    }
    text.push_str(&format!("CREATE TABLE {} (", quoted(&table.name)));
    for (number, part) in parts.iter().enumerate() {
        text.push_str(if number > 0 { ",\n    " } else { "\n    " });
        text.push_str(part);
    }
    text.push_str(if parts.is_empty() { ")" } else { "\n)" });
}

/// Whether it is a serial column that NOT NULL was dropped of: `serial` implies it.
fn is_nullable_serial(column: &DeclaredColumn) -> bool {
    !column.not_null
        && matches!(
            column.default,
            DeclaredDefault::Generated { serial: true, .. }
        )
}

fn column(column: &DeclaredColumn) -> String {
    let mut text = quoted(&column.name) + " ";
    let not_null = if column.not_null { " NOT NULL" } else { "" };
    let data_type = &column.data_type;
    match &column.default {
        DeclaredDefault::Generated { serial: true, .. } => {
            text.push_str(match data_type {
                DataType::Int2 => "smallserial",
                DataType::Int4 => "serial",
                _ => "bigserial",
            });
            text.push_str(not_null);
        }
        DeclaredDefault::Null => text.push_str(&format!("{data_type}{not_null}")),
        DeclaredDefault::Expression(expression) => {
            text.push_str(&format!("{data_type} DEFAULT {expression}{not_null}"));
        }
        DeclaredDefault::Generated { always, .. } => {
            let when = if *always { "ALWAYS" } else { "BY DEFAULT" };
            text.push_str(&format!(
                "{data_type} GENERATED {when} AS IDENTITY{not_null}"
            ));
        }
        DeclaredDefault::Computed(expression) => {
            text.push_str(&format!(
                "{data_type} GENERATED ALWAYS AS ({expression}) STORED{not_null}"
            ));
        }
    }
    text
}

fn foreign_key(key: &DeclaredForeignKey) -> String {
    let action = |event: &str, action: ReferentialAction| match action {
        ReferentialAction::NoAction => String::new(),
        ReferentialAction::Restrict => format!(" ON {event} RESTRICT"),
        ReferentialAction::Cascade => format!(" ON {event} CASCADE"),
        ReferentialAction::SetNull => format!(" ON {event} SET NULL"),
        ReferentialAction::SetDefault => format!(" ON {event} SET DEFAULT"),
    };
    format!(
        "CONSTRAINT {} FOREIGN KEY {} REFERENCES {} {}{}{}{}",
        quoted(&key.name),
        list(&key.columns),
        quoted(&key.parent),
        list(&key.parent_columns),
        action("UPDATE", key.on_update),
        action("DELETE", key.on_delete),
        key.deferrability.sql(),
    )
}

/// Names in parentheses.
pub(super) fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    format!("({})", names.join(", "))
}
