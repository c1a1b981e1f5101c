//! Builds tables, with their constraints and indexes, from declarations.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anabranch_types::{
    ColumnIndex, ColumnSchema, DataType, IndexId, IndexSchema, RowLayout, TableId, TableSchema,
};

use super::{
    Catalog, Check, ColumnDefault, ForeignKey, IndexDefinition, IndexPart, ReferentialAction,
    Table,
    names::{choose_name, index_columns_name, join_columns, only_column},
};
use crate::{
    diagnostic::Diagnostic,
    parse::{
        cursor::Name,
        declaration::{
            ColumnDeclaration, ConstraintDeclaration, ConstraintKind, IndexDeclaration, IndexKey,
            TableDeclaration,
        },
    },
    source::Span,
};

/// PostgreSQL's limits.
const COLUMNS_MAX: usize = 1_600;
const KEY_COLUMNS_MAX: usize = 32;

/// The names of tables, views and indexes, which are all different.
#[derive(Debug, Default)]
pub(super) struct Relations(BTreeSet<String>);

impl Relations {
    /// Takes a name; notes an error and returns false if it is taken.
    pub(super) fn claim(&mut self, name: &Name, errors: &mut Vec<Diagnostic>) -> bool {
        let free = self.0.insert(name.text.clone());
        if !free {
            let message = format!("relation \"{}\" already exists", name.text);
            errors.push(Diagnostic::new("42P07", message, name.span));
        }
        free
    }
}

/// Tables while they are built.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) drafts: Vec<Draft>,
    by_name: BTreeMap<String, usize>,
    relations: Relations,
}

/// One table while it is built.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) schema: TableSchema,
    pub(super) table: Table,
    constraint_names: BTreeSet<String>,
    /// Constraints that wait for all tables.
    pub(super) pending: Vec<ConstraintDeclaration>,
    primary_key_span: Option<Span>,
    /// Dropped columns.
    pub(super) dropped: BTreeSet<String>,
}

impl Tables {
    /// A table with its columns; its constraints wait for [`Tables::resolve`].
    pub(super) fn declare(&mut self, declared: TableDeclaration, errors: &mut Vec<Diagnostic>) {
        let TableDeclaration {
            name,
            if_not_exists,
            columns,
            constraints,
            span,
        } = declared;
        if if_not_exists && self.by_name.contains_key(&name.text) {
            return;
        }
        let Ok(number) = u16::try_from(self.drafts.len()) else {
            errors.push(Diagnostic::new("54000", "too many tables", name.span));
            return;
        };
        if columns.len() > COLUMNS_MAX {
            errors.push(too_many_columns(&name));
            return;
        }
        if !self.relations.claim(&name, errors) {
            return;
        }
        let id = TableId(number);
        let schema = TableSchema {
            id,
            name: name.text.clone(),
            columns: Vec::new(),
            primary_key: Vec::new(),
            indexes: Vec::new(),
            layout: RowLayout::default(),
        };
        let table = Table {
            id,
            name: name.text.clone(),
            span,
            defaults: Vec::new(),
            checks: Vec::new(),
            primary_key_name: None,
            unique_constraints: Vec::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
        };
        let mut draft = Draft {
            schema,
            table,
            constraint_names: BTreeSet::new(),
            pending: constraints,
            primary_key_span: None,
            dropped: BTreeSet::new(),
        };
        for column in columns {
            draft.add_column(column, errors);
        }
        self.by_name.insert(name.text, self.drafts.len());
        self.drafts.push(draft);
    }

    /// Applies `DROP TABLE`; returns whether the table exists.
    pub(super) fn drop(&mut self, name: &Name) -> bool {
        let Some(number) = self.by_name.remove(&name.text) else {
            return false;
        };
        self.drafts.remove(number);
        self.relations.0.remove(&name.text);
        for (number, draft) in self.drafts.iter_mut().enumerate() {
            // There were more of them before.
            let id = TableId(u16::try_from(number).unwrap_or(u16::MAX));
            (draft.schema.id, draft.table.id) = (id, id);
            self.by_name.insert(draft.schema.name.clone(), number);
        }
        true
    }

    /// Takes the name of a relation that is no table.
    pub(super) fn claim(&mut self, name: &Name, errors: &mut Vec<Diagnostic>) {
        self.relations.claim(name, errors);
    }

    /// The table with this name; `None` if its declaration could not be read.
    pub(super) fn find(
        &self,
        name: &Name,
        broken: &BTreeSet<String>,
    ) -> Result<Option<usize>, Diagnostic> {
        match self.by_name.get(&name.text) {
            Some(number) => Ok(Some(*number)),
            None if broken.contains(&name.text) => Ok(None),
            None => {
                let message = format!("relation \"{}\" does not exist", name.text);
                let error = Diagnostic::new("42P01", message, name.span);
                Err(
                    match closest(&name.text, self.by_name.keys().map(String::as_str)) {
                        Some(close) => error.help(format!("there is a table \"{close}\"")),
                        None => error.help("declare it with CREATE TABLE in one of the files"),
                    },
                )
            }
        }
    }

    /// Keys, then checks and indexes, then foreign keys, which need the others' keys.
    pub(super) fn resolve(
        &mut self,
        indexes: Vec<IndexDeclaration>,
        broken: &BTreeSet<String>,
        errors: &mut Vec<Diagnostic>,
    ) {
        let mut foreign_keys = Vec::new();
        for (number, draft) in self.drafts.iter_mut().enumerate() {
            let relations = &mut self.relations;
            let mut pending = std::mem::take(&mut draft.pending);
            // The primary key's index is made before others, wherever it is declared.
            pending.sort_by_key(|constraint| match constraint.kind {
                ConstraintKind::PrimaryKey(_) => 0,
                ConstraintKind::Unique(_) => 1,
                ConstraintKind::Check { .. } => 2,
                ConstraintKind::ForeignKey { .. } => 3,
            });
            for constraint in pending {
                if let ConstraintKind::ForeignKey { .. } = constraint.kind {
                    foreign_keys.push((number, constraint));
                } else if let Err(error) = draft.constrain(constraint, relations) {
                    errors.push(error);
                }
            }
        }
        for index in indexes {
            if let Err(error) = self.index(index, broken) {
                errors.push(error);
            }
        }
        for (number, constraint) in foreign_keys {
            if let Err(error) = self.foreign_key(number, constraint, broken) {
                errors.push(error);
            }
        }
    }

    fn index(
        &mut self,
        declared: IndexDeclaration,
        broken: &BTreeSet<String>,
    ) -> Result<(), Diagnostic> {
        let Some(number) = self.find(&declared.table, broken)? else {
            return Ok(());
        };
        let draft = &mut self.drafts[number];
        if draft.has_dropped(&declared) {
            return Ok(());
        }
        let mut parts = Vec::new();
        for part in &declared.parts {
            parts.push(match part {
                IndexKey::Column(name) => {
                    let columns = draft.key_columns(std::slice::from_ref(name), None)?;
                    IndexPart::Column(columns[0])
                }
                IndexKey::Expression(expression, span, _) => {
                    IndexPart::Expression(expression.clone(), *span)
                }
            });
        }
        if parts.len() > KEY_COLUMNS_MAX {
            let message = format!("cannot use more than {KEY_COLUMNS_MAX} columns in an index");
            return Err(Diagnostic::new("54011", message, declared.span));
        }
        let name = match &declared.name {
            Some(name) if declared.if_not_exists && self.relations.0.contains(&name.text) => {
                return Ok(());
            }
            Some(name) => {
                let mut errors = Vec::new();
                if !self.relations.claim(name, &mut errors) {
                    return Err(errors.remove(0));
                }
                name.text.clone()
            }
            None => {
                let joined = index_columns_name(&declared.parts);
                let name = choose_name(&draft.schema.name, &joined, "idx", |name| {
                    self.relations.0.contains(name)
                });
                self.relations.0.insert(name.clone());
                name
            }
        };
        let definition = IndexDefinition {
            parts,
            predicate: declared.predicate,
        };
        let columns = draft.index_columns(&definition, declared.span);
        draft.push_index(name, columns, definition, declared.unique, declared.span)
    }

    fn foreign_key(
        &mut self,
        number: usize,
        constraint: ConstraintDeclaration,
        broken: &BTreeSet<String>,
    ) -> Result<(), Diagnostic> {
        let ConstraintDeclaration { name, kind, span } = constraint;
        let ConstraintKind::ForeignKey {
            columns,
            parent,
            parent_columns,
            on_delete,
            on_update,
            deferrability,
        } = kind
        else {
            return Ok(());
        };
        let Some(parent_number) = self.find(&parent, broken)? else {
            return Ok(());
        };
        let own = self.drafts[number].key_columns(&columns, Some("foreign key constraint"))?;
        let draft = &self.drafts[number];
        let is_computed = |column: &ColumnIndex| {
            matches!(
                draft.table.defaults[column.index()],
                ColumnDefault::Computed(..)
            )
        };
        if own.iter().any(is_computed) {
            use ReferentialAction::{Cascade, SetDefault, SetNull};
            let refused = match (on_update, on_delete) {
                (Cascade | SetNull | SetDefault, _) => Some("UPDATE"),
                (_, SetNull | SetDefault) => Some("DELETE"),
                _ => None,
            };
            if let Some(event) = refused {
                let message = format!(
                    "invalid ON {event} action for foreign key constraint containing generated column"
                );
                return Err(Diagnostic::new("42601", message, span));
            }
        }
        let referenced = self.drafts[parent_number].referenced(&parent_columns, &parent, span)?;
        if own.len() != referenced.len() {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(Diagnostic::new("42830", message, span));
        }
        let mut pairs: Vec<(ColumnIndex, ColumnIndex)> = own.into_iter().zip(referenced).collect();
        let parent_schema = &self.drafts[parent_number].schema;
        let Some(key) = matching_key(parent_schema, &pairs) else {
            let message = format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                parent.text
            );
            return Err(Diagnostic::new("42830", message, span).help(format!(
                "declare these columns of \"{}\" as PRIMARY KEY or UNIQUE",
                parent.text
            )));
        };
        // In the order of the key that will be looked up.
        pairs.sort_by_key(|(_, parent)| key.iter().position(|column| column == parent));
        let draft = &self.drafts[number];
        for (child, parent_column) in &pairs {
            let child = &draft.schema.columns[child.index()];
            let parent_column = &parent_schema.columns[parent_column.index()];
            if family(&child.data_type) != family(&parent_column.data_type) {
                return Err(incompatible(child, parent_column, name.as_ref(), span));
            }
        }
        let joined = join_columns(columns.iter().map(|column| column.text.as_str()));
        let draft = &mut self.drafts[number];
        let name = draft.constraint_name(name.as_ref(), &joined, "fkey", None)?;
        draft.table.foreign_keys.push(ForeignKey {
            name,
            columns: pairs.iter().map(|(child, _)| *child).collect(),
            parent: TableId(parent_number as u16),
            parent_columns: pairs.iter().map(|(_, parent)| *parent).collect(),
            on_delete,
            on_update,
            deferrability,
            span,
        });
        Ok(())
    }

    /// Moves the tables to the catalog.
    pub(super) fn finish(self, catalog: &mut Catalog) -> Relations {
        for draft in self.drafts {
            let mut schema = draft.schema;
            let columns = schema
                .columns
                .iter()
                .map(|column| (&column.data_type, column.nullable));
            schema.layout = RowLayout::new(columns);
            catalog.schema.tables.push(Arc::new(schema));
            catalog.tables.push(draft.table);
        }
        self.relations
    }
}

impl Draft {
    /// Adds a column after the others.
    pub(super) fn add_column(&mut self, column: ColumnDeclaration, errors: &mut Vec<Diagnostic>) {
        let mut there = self.schema.columns.iter();
        if there.any(|c| c.name == column.name.text) {
            let message = format!("column \"{}\" specified more than once", column.name.text);
            errors.push(Diagnostic::new("42701", message, column.name.span));
            return;
        }
        if self.schema.columns.len() == COLUMNS_MAX {
            errors.push(too_many_columns(&column.name));
            return;
        }
        let declared = &column.declared;
        if let Err(error) = check_generated(&column.default, &declared.data_type, declared.span) {
            errors.push(error);
        }
        self.schema.columns.push(ColumnSchema {
            name: column.name.text,
            data_type: column.declared.data_type,
            nullable: !column.not_null,
            is_hidden: false,
        });
        self.table.defaults.push(column.default);
    }

    /// A primary key, a unique constraint or a check.
    fn constrain(
        &mut self,
        constraint: ConstraintDeclaration,
        relations: &mut Relations,
    ) -> Result<(), Diagnostic> {
        let ConstraintDeclaration { name, kind, span } = constraint;
        match kind {
            ConstraintKind::PrimaryKey(columns) => {
                let columns = self.key_columns(&columns, Some("primary key constraint"))?;
                if self.primary_key_span.is_some() {
                    let table = &self.schema.name;
                    let message =
                        format!("multiple primary keys for table \"{table}\" are not allowed");
                    return Err(Diagnostic::new("42P16", message, span)
                        .help("keep one; declare the other UNIQUE"));
                }
                self.primary_key_span = Some(span);
                let name = self.constraint_name(name.as_ref(), "", "pkey", Some(relations))?;
                self.table.primary_key_name = Some(name);
                for column in &columns {
                    self.schema.columns[column.index()].nullable = false;
                }
                self.schema.primary_key = columns;
                Ok(())
            }
            ConstraintKind::Unique(columns) => {
                let joined = join_columns(columns.iter().map(|column| column.text.as_str()));
                let columns = self.key_columns(&columns, Some("unique constraint"))?;
                let repeats = columns == self.schema.primary_key
                    || self
                        .schema
                        .indexes
                        .iter()
                        .any(|i| i.unique && i.columns == columns);
                if name.is_none() && repeats {
                    // As in PostgreSQL, a key that is declared twice is one.
                    return Ok(());
                }
                let name = self.constraint_name(name.as_ref(), &joined, "key", Some(relations))?;
                let definition = IndexDefinition::plain(&columns);
                self.push_index(name, columns, definition, true, span)?;
                let made = self.schema.indexes.last().map(|index| index.id);
                self.table.unique_constraints.extend(made);
                Ok(())
            }
            ConstraintKind::Check { expression, words } => {
                let columns: Vec<&str> = self
                    .schema
                    .columns
                    .iter()
                    .map(|column| column.name.as_str())
                    .collect();
                let column = only_column(&columns, &words).unwrap_or("").to_owned();
                let name = self.constraint_name(name.as_ref(), &column, "check", None)?;
                self.table.checks.push(Check {
                    name,
                    expression,
                    span,
                });
                Ok(())
            }
            ConstraintKind::ForeignKey { .. } => Ok(()),
        }
    }

    /// The given name, or PostgreSQL's default one. A key's is also its index's, and so must be
    /// free among the relations.
    fn constraint_name(
        &mut self,
        given: Option<&Name>,
        columns: &str,
        label: &str,
        mut relations: Option<&mut Relations>,
    ) -> Result<String, Diagnostic> {
        let name = match given {
            Some(name) if self.constraint_names.contains(&name.text) => {
                let message = format!(
                    "constraint \"{}\" for relation \"{}\" already exists",
                    name.text, self.schema.name
                );
                return Err(Diagnostic::new("42710", message, name.span));
            }
            Some(name) => {
                if relations
                    .as_ref()
                    .is_some_and(|relations| relations.0.contains(&name.text))
                {
                    let message = format!("relation \"{}\" already exists", name.text);
                    return Err(Diagnostic::new("42P07", message, name.span));
                }
                name.text.clone()
            }
            None => choose_name(&self.schema.name, columns, label, |name| {
                self.constraint_names.contains(name)
                    || relations
                        .as_ref()
                        .is_some_and(|relations| relations.0.contains(name))
            }),
        };
        if let Some(relations) = relations.as_mut() {
            relations.0.insert(name.clone());
        }
        self.constraint_names.insert(name.clone());
        Ok(name)
    }

    /// Columns by name. A constraint (`what`) may name each once.
    fn key_columns(
        &self,
        names: &[Name],
        what: Option<&str>,
    ) -> Result<Vec<ColumnIndex>, Diagnostic> {
        let mut columns = Vec::new();
        for name in names {
            let column = self.column(name, what)?;
            if let (Some(what), true) = (what, columns.contains(&column)) {
                let message = format!("column \"{}\" appears twice in {what}", name.text);
                return Err(Diagnostic::new("42701", message, name.span));
            }
            let data_type = &self.schema.columns[column.index()].data_type;
            let refused = match data_type {
                DataType::Array(_) => {
                    Some(("an array type", "store the elements as rows of a table"))
                }
                DataType::Json | DataType::Jsonb => Some((
                    "a JSON type",
                    "store what identifies a row in a column of its own",
                )),
                _ => None,
            };
            if let Some((kind, help)) = refused {
                let message = format!("column \"{}\" of {kind} in a key or index", name.text);
                return Err(Diagnostic::unsupported(&message, name.span).help(help));
            }
            columns.push(column);
        }
        if let Some(name) = names.get(KEY_COLUMNS_MAX) {
            let message = format!("cannot have more than {KEY_COLUMNS_MAX} columns in a key");
            return Err(Diagnostic::new("54011", message, name.span));
        }
        Ok(columns)
    }

    pub(super) fn column(
        &self,
        name: &Name,
        what: Option<&str>,
    ) -> Result<ColumnIndex, Diagnostic> {
        let position = self
            .schema
            .visible_columns()
            .iter()
            .position(|column| column.name == name.text);
        if let Some(position) = position.and_then(|position| u16::try_from(position).ok()) {
            return Ok(ColumnIndex(position));
        }
        let message = match what {
            Some("foreign key constraint") => format!(
                "column \"{}\" referenced in foreign key constraint does not exist",
                name.text
            ),
            Some(_) => format!("column \"{}\" named in key does not exist", name.text),
            None => format!("column \"{}\" does not exist", name.text),
        };
        let columns = self
            .schema
            .columns
            .iter()
            .map(|column| column.name.as_str());
        let error = Diagnostic::new("42703", message, name.span);
        let table = &self.schema.name;
        Err(match closest(&name.text, columns) {
            Some(close) => error.help(format!("table \"{table}\" has a column \"{close}\"")),
            None => error,
        })
    }

    fn push_index(
        &mut self,
        name: String,
        columns: Vec<ColumnIndex>,
        definition: IndexDefinition,
        unique: bool,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let Ok(number) = u16::try_from(self.schema.indexes.len()) else {
            return Err(Diagnostic::new("54000", "too many indexes", span));
        };
        self.table.indexes.push(definition);
        self.schema.indexes.push(IndexSchema {
            id: IndexId(number),
            name,
            columns,
            unique,
        });
        Ok(())
    }

    /// The columns that a foreign key refers to: those named, or the primary key.
    fn referenced(
        &self,
        names: &[Name],
        parent: &Name,
        span: Span,
    ) -> Result<Vec<ColumnIndex>, Diagnostic> {
        if !names.is_empty() {
            return self.key_columns(names, Some("foreign key constraint"));
        }
        if self.schema.primary_key.is_empty() {
            let message = format!(
                "there is no primary key for referenced table \"{}\"",
                parent.text
            );
            return Err(Diagnostic::new("42704", message, span)
                .help("name the columns: REFERENCES table (column, …)"));
        }
        Ok(self.schema.primary_key.clone())
    }
}

fn too_many_columns(name: &Name) -> Diagnostic {
    let message = format!("tables can have at most {COLUMNS_MAX} columns");
    Diagnostic::new("54011", message, name.span)
}

/// Generated numbers are for integers.
pub(super) fn check_generated(
    default: &ColumnDefault,
    data_type: &DataType,
    span: Span,
) -> Result<(), Diagnostic> {
    if matches!(default, ColumnDefault::Generated { .. }) && !data_type.is_integer() {
        let message = "identity column type must be smallint, integer, or bigint";
        return Err(Diagnostic::new("22023", message, span));
    }
    Ok(())
}

/// The primary key or unique index of the parent that has just these columns.
fn matching_key(
    parent: &TableSchema,
    pairs: &[(ColumnIndex, ColumnIndex)],
) -> Option<Vec<ColumnIndex>> {
    let wanted: BTreeSet<ColumnIndex> = pairs.iter().map(|(_, parent)| *parent).collect();
    let unique = parent
        .indexes
        .iter()
        .filter(|index| index.unique)
        .map(|index| &index.columns);
    std::iter::once(&parent.primary_key)
        .chain(unique)
        .find(|key| {
            key.len() == pairs.len() && key.iter().copied().collect::<BTreeSet<_>>() == wanted
        })
        .cloned()
}

/// Whether values of two types compare with each other in a key.
pub(crate) fn family(data_type: &DataType) -> DataType {
    match data_type {
        _ if data_type.is_integer() => DataType::Int8,
        DataType::Numeric(_) => DataType::Numeric(None),
        DataType::Varchar(_) => DataType::Text,
        DataType::Char(_) => DataType::Char(1),
        other => other.clone(),
    }
}

fn incompatible(
    child: &ColumnSchema,
    parent: &ColumnSchema,
    name: Option<&Name>,
    span: Span,
) -> Diagnostic {
    let message = match name {
        Some(name) => format!(
            "foreign key constraint \"{}\" cannot be implemented",
            name.text
        ),
        None => "foreign key constraint cannot be implemented".to_owned(),
    };
    Diagnostic::new("42804", message, span).help(format!(
        "key columns \"{}\" and \"{}\" are of incompatible types: {} and {}",
        child.name, parent.name, child.data_type, parent.data_type
    ))
}

/// The nearest name within two changed letters, for a suggestion.
fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = if name.chars().count() < 4 { 1 } else { 2 };
    known
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The edit distance of two words: letters to change, add or remove.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
