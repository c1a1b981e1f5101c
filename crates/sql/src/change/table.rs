//! CREATE TABLE, CREATE INDEX and TRUNCATE.

use super::{
    SCHEMA_FILE,
    apply::{Changer, ObjectName, no_relation},
    declared::{
        ColumnValues, Declared, DeclaredCheck, DeclaredColumn, DeclaredDefault, DeclaredForeignKey,
        DeclaredIndex, DeclaredKey, DeclaredPart, DeclaredTable, Relation, Test, check_condition,
        one_line,
    },
    error::{Change, ChangeError, Notice},
    mapping,
    print::print,
};
use anabranch_types::{DataType, TableId};

use crate::{
    bind::computed::{Computed, bound_part, bound_predicate},
    bind::convert::{Context, exists},
    catalog::{
        load,
        names::{choose_name, index_columns_name, join_columns, only_column},
        plain_type,
        tables::family,
    },
    parse::{
        cursor::Name,
        declaration::{
            ColumnDeclaration, ConstraintDeclaration, ConstraintKind, IndexDeclaration, IndexKey,
            TableDeclaration,
        },
    },
    source::{SourceFile, Span},
};

impl Changer<'_> {
    pub(super) fn create_table(&mut self, declaration: &TableDeclaration) -> Change<()> {
        let name = &declaration.name;
        if declaration.if_not_exists && !self.is_free(name, true)? {
            return Ok(());
        }
        check_keys(declaration)?;
        check_columns(declaration)?;
        self.is_free(name, false)?;
        self.concerned.insert(ObjectName::Table(name.text.clone()));
        let table = self.declared.tables.len();
        self.declared.tables.push(DeclaredTable {
            from: None,
            name: name.text.clone(),
            columns: Vec::new(),
            primary_key: None,
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            indexes: Vec::new(),
        });
        for column in &declaration.columns {
            self.push_column(table, column)?;
        }
        self.check_generated(table)?;
        self.constrain_all(table, &declaration.constraints, Test::Passed)
    }

    /// Adds a column behind the others.
    pub(super) fn push_column(&mut self, table: usize, column: &ColumnDeclaration) -> Change<()> {
        let default = DeclaredDefault::of(&column.default, |_| &self.file);
        self.check_default(&column.name.text, &column.declared.data_type, &default)?;
        let table = &mut self.declared.tables[table];
        table.columns.push(DeclaredColumn {
            name: column.name.text.clone(),
            data_type: column.declared.data_type.clone(),
            not_null: column.not_null,
            default: default.clone(),
            values: ColumnValues::New(default),
        });
        Ok(())
    }

    /// Whether a table can have its generated columns. PostgreSQL says so before it looks at constraints.
    pub(super) fn check_generated(&self, table: usize) -> Change<()> {
        let own = &self.declared.tables[table];
        let is_generated =
            |column: &&DeclaredColumn| matches!(column.default, DeclaredDefault::Computed(_));
        if !own.columns.iter().any(|column| is_generated(&column)) {
            return Ok(());
        }
        let mut alone = DeclaredTable {
            primary_key: None,
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            indexes: Vec::new(),
            ..own.clone()
        };
        for column in &mut alone.columns {
            if !is_generated(&&*column) {
                column.default = DeclaredDefault::Null;
            }
        }
        let declared = Declared {
            types: self.declared.types.clone(),
            tables: vec![alone],
            ..Declared::default()
        };
        let of_text = |problems: Vec<crate::Diagnostic>| match problems.first() {
            Some(problem) => ChangeError::of_text(problem),
            None => ChangeError::new("XX000", "the changed schema cannot be read"),
        };
        let text = print(&declared).text;
        let catalog = load(vec![SourceFile::new(SCHEMA_FILE, text)]).map_err(of_text)?;
        let computed = Computed::of(&catalog, TableId(0));
        computed.map(|_| ()).map_err(of_text)
    }

    /// Whether an index can have its expressions and its condition.
    fn check_parts(&self, table: usize, declaration: &IndexDeclaration) -> Change<()> {
        let Some(table) = self.declared.tables[table].from else {
            return Ok(());
        };
        let refused = |problem: crate::Diagnostic| match problem.code {
            // PostgreSQL tells no place.
            "42P17" => ChangeError::of_text(&problem),
            _ => ChangeError::from(problem),
        };
        if let Some((condition, span)) = &declaration.predicate {
            bound_predicate(self.catalog, table, condition, *span).map_err(refused)?;
        }
        for part in &declaration.parts {
            if let IndexKey::Expression(expression, span, _) = part {
                bound_part(self.catalog, table, expression, *span).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// The DEFAULT of a column is of its type, or becomes so by a cast of assignment.
    pub(super) fn check_default(
        &self,
        column: &str,
        data_type: &DataType,
        default: &DeclaredDefault,
    ) -> Change<()> {
        let DeclaredDefault::Expression(text) = default else {
            return Ok(());
        };
        let (_, from) = mapping::bound(self.catalog, None, text, None)
            .map_err(|problem| ChangeError::of_text(&problem))?;
        match from {
            Some(from) if !exists(&from, data_type, Context::Assignment) => {
                let message = format!(
                    "column \"{column}\" is of type {} but default expression is of type {}",
                    plain_type(data_type),
                    plain_type(&from)
                );
                Err(ChangeError::new("42804", message)
                    .hint("You will need to rewrite or cast the expression."))
            }
            _ => Ok(()),
        }
    }

    /// Adds constraints in the order in which PostgreSQL makes them: keys, then checks, then foreign keys.
    pub(super) fn constrain_all(
        &mut self,
        table: usize,
        constraints: &[ConstraintDeclaration],
        test: Test,
    ) -> Change<()> {
        let rank = |constraint: &&ConstraintDeclaration| match constraint.kind {
            ConstraintKind::PrimaryKey(_) => 0,
            ConstraintKind::Unique(_) => 1,
            ConstraintKind::Check { .. } => 2,
            ConstraintKind::ForeignKey { .. } => 3,
        };
        let mut sorted: Vec<&ConstraintDeclaration> = constraints.iter().collect();
        sorted.sort_by_key(rank);
        for constraint in sorted {
            self.constrain(table, constraint, test)?;
        }
        Ok(())
    }

    /// Adds a constraint. Existing rows are tested as `test` says.
    pub(super) fn constrain(
        &mut self,
        table: usize,
        constraint: &ConstraintDeclaration,
        test: Test,
    ) -> Change<()> {
        let given = constraint.name.as_ref();
        match &constraint.kind {
            ConstraintKind::PrimaryKey(columns) => {
                let columns = self.key_columns(table, columns, true)?;
                if self.declared.tables[table].primary_key.is_some() {
                    let name = &self.declared.tables[table].name;
                    let message =
                        format!("multiple primary keys for table \"{name}\" are not allowed");
                    return Err(ChangeError::new("42P16", message));
                }
                let name = self.constraint_name(table, given, "", "pkey", true)?;
                let table = &mut self.declared.tables[table];
                for column in &mut table.columns {
                    column.not_null |= columns.contains(&column.name);
                }
                table.primary_key = Some(DeclaredKey { name, columns });
            }
            ConstraintKind::Unique(columns) => {
                let columns = self.key_columns(table, columns, false)?;
                let joined = join_columns(columns.iter().map(String::as_str));
                let own = &self.declared.tables[table];
                let is_key = own
                    .primary_key
                    .as_ref()
                    .is_some_and(|key| key.columns == columns);
                let is_new = own.from.is_none();
                let mut indexes = own.indexes.iter();
                if given.is_none()
                    && is_new
                    && (is_key
                        || indexes.any(|index| {
                            index.unique && index.columns().as_ref() == Some(&columns)
                        }))
                {
                    // As in PostgreSQL, a key that CREATE TABLE declares twice is one.
                    return Ok(());
                }
                let name = self.constraint_name(table, given, &joined, "key", true)?;
                self.declared.tables[table].indexes.push(DeclaredIndex {
                    name,
                    parts: columns.into_iter().map(DeclaredPart::Column).collect(),
                    predicate: None,
                    unique: true,
                    is_constraint: true,
                    test,
                });
            }
            ConstraintKind::Check { words, .. } => {
                let own = &self.declared.tables[table];
                let columns: Vec<&str> = own.columns.iter().map(|c| c.name.as_str()).collect();
                let column = only_column(&columns, words).unwrap_or("").to_owned();
                let name = self.constraint_name(table, given, &column, "check", false)?;
                let condition = check_condition(&self.file, constraint.span);
                self.declared.tables[table].checks.push(DeclaredCheck {
                    name,
                    condition,
                    test,
                });
            }
            ConstraintKind::ForeignKey {
                columns,
                parent,
                parent_columns,
                on_delete,
                on_update,
                deferrability,
            } => {
                if let Some(name) = given {
                    self.constraint_name(table, Some(name), "", "", false)?;
                }
                self.referenced_table(parent)?;
                let columns = self.foreign_columns(table, columns)?;
                let (parent, parent_columns) =
                    self.referenced(parent, parent_columns, columns.len())?;
                self.check_types(table, given, (&columns, &parent, &parent_columns))?;
                let joined = join_columns(columns.iter().map(String::as_str));
                let name = self.constraint_name(table, given, &joined, "fkey", false)?;
                let foreign_key = DeclaredForeignKey {
                    name,
                    columns,
                    parent,
                    parent_columns,
                    on_delete: *on_delete,
                    on_update: *on_update,
                    deferrability: *deferrability,
                    test,
                };
                self.declared.tables[table].foreign_keys.push(foreign_key);
            }
        }
        Ok(())
    }

    /// The columns of a key.
    fn key_columns(&self, table: usize, names: &[Name], is_primary: bool) -> Change<Vec<String>> {
        let own = &self.declared.tables[table];
        for name in names {
            if own.column(&name.text).is_none() {
                // PostgreSQL makes the columns of a new primary key NOT NULL first.
                let message = match is_primary && own.from.is_some() {
                    true => format!(
                        "column \"{}\" of relation \"{}\" does not exist",
                        name.text, own.name
                    ),
                    false => format!("column \"{}\" named in key does not exist", name.text),
                };
                return Err(ChangeError::new("42703", message));
            }
        }
        check_repeated(names, is_primary)?;
        Ok(names.iter().map(|name| name.text.clone()).collect())
    }

    /// The referencing columns of a foreign key.
    fn foreign_columns(&self, table: usize, names: &[Name]) -> Change<Vec<String>> {
        let own = &self.declared.tables[table];
        for name in names {
            if own.column(&name.text).is_none() {
                return Err(no_foreign_column(name));
            }
        }
        Ok(names.iter().map(|name| name.text.clone()).collect())
    }

    /// The referenced table of a foreign key.
    fn referenced_table(&self, parent: &Name) -> Change<usize> {
        match self.declared.relation(&parent.text) {
            Some(Relation::Table(number)) => Ok(number),
            Some(_) => {
                let message = format!("referenced relation \"{}\" is not a table", parent.text);
                Err(ChangeError::new("42809", message))
            }
            None => Err(no_relation(parent)),
        }
    }

    /// Whether a foreign key's columns compare with those that it refers to.
    fn check_types(
        &self,
        table: usize,
        given: Option<&Name>,
        (columns, parent, parent_columns): (&[String], &str, &[String]),
    ) -> Change<()> {
        let own = &self.declared.tables[table];
        let Some(parent) = self.declared.table(parent) else {
            return Ok(());
        };
        let parent = &self.declared.tables[parent];
        for (column, of) in columns.iter().zip(parent_columns) {
            let (Some(child), Some(referenced)) = (own.column(column), parent.column(of)) else {
                continue;
            };
            let child = &own.columns[child].data_type;
            let referenced = &parent.columns[referenced].data_type;
            if family(child) == family(referenced) {
                continue;
            }
            let (from, to) = (plain_type(child), plain_type(referenced));
            if exists(child, referenced, Context::Implicit) {
                let construct =
                    format!("a foreign key of type {from} that refers to one of type {to}");
                return Err(ChangeError::unsupported(construct).hint("give both the same type"));
            }
            let joined = join_columns(columns.iter().map(String::as_str));
            let name = self.constraint_name(table, given, &joined, "fkey", false)?;
            let message = format!("foreign key constraint \"{name}\" cannot be implemented");
            return Err(ChangeError::new("42804", message).detail(format!(
                "Key columns \"{column}\" and \"{of}\" are of incompatible types: {from} and {to}."
            )));
        }
        Ok(())
    }

    /// The referenced table of a foreign key, and its columns: those named, or the primary key.
    fn referenced(
        &self,
        parent: &Name,
        names: &[Name],
        count: usize,
    ) -> Change<(String, Vec<String>)> {
        let table = &self.declared.tables[self.referenced_table(parent)?];
        let columns = if names.is_empty() {
            match &table.primary_key {
                Some(key) => key.columns.clone(),
                None => {
                    let message = format!(
                        "there is no primary key for referenced table \"{}\"",
                        parent.text
                    );
                    return Err(ChangeError::new("42704", message));
                }
            }
        } else {
            if let Some(name) = names.iter().find(|name| table.column(&name.text).is_none()) {
                return Err(no_foreign_column(name));
            }
            names.iter().map(|name| name.text.clone()).collect()
        };
        if columns.len() != count {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(ChangeError::new("42830", message));
        }
        if table.key_of(&columns).is_none() {
            let message = format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                parent.text
            );
            return Err(ChangeError::new("42830", message));
        }
        Ok((parent.text.clone(), columns))
    }

    /// The given name of a constraint, or PostgreSQL's default one. A key's is also its index's.
    pub(super) fn constraint_name(
        &self,
        table: usize,
        given: Option<&Name>,
        columns: &str,
        label: &str,
        is_index: bool,
    ) -> Change<String> {
        let own = &self.declared.tables[table];
        let is_relation = |name: &str| is_index && self.declared.relation(name).is_some();
        match given {
            Some(name) if is_relation(&name.text) => {
                let message = format!("relation \"{}\" already exists", name.text);
                Err(ChangeError::new("42P07", message))
            }
            Some(name) if own.has_constraint(&name.text) => {
                let message = format!(
                    "constraint \"{}\" for relation \"{}\" already exists",
                    name.text, own.name
                );
                Err(ChangeError::new("42710", message))
            }
            Some(name) => Ok(name.text.clone()),
            None => Ok(choose_name(&own.name, columns, label, |name| {
                own.has_constraint(name) || is_relation(name)
            })),
        }
    }

    pub(super) fn create_index(&mut self, declaration: &IndexDeclaration) -> Change<()> {
        let on = &declaration.table;
        let table = match self.declared.relation(&on.text) {
            Some(Relation::Table(number)) => number,
            Some(Relation::View(_)) => {
                let message = format!("cannot create index on relation \"{}\"", on.text);
                return Err(ChangeError::new("42809", message)
                    .detail("This operation is not supported for views."));
            }
            Some(_) => {
                let message = format!("cannot create index on relation \"{}\"", on.text);
                return Err(ChangeError::new("42809", message));
            }
            None => return Err(no_relation(on)),
        };
        self.check_parts(table, declaration)?;
        let own = &self.declared.tables[table];
        for part in &declaration.parts {
            let IndexKey::Column(column) = part else {
                continue;
            };
            if own.column(&column.text).is_none() {
                let message = format!("column \"{}\" does not exist", column.text);
                return Err(ChangeError::new("42703", message));
            }
        }
        if let Some(name) = &declaration.name
            && !self.is_free(name, declaration.if_not_exists)?
        {
            return Ok(());
        }
        let own = &self.declared.tables[table];
        let text = |span: &Span| one_line(self.file.slice(*span));
        let parts = declaration.parts.iter().map(|part| match part {
            IndexKey::Column(name) => DeclaredPart::Column(name.text.clone()),
            IndexKey::Expression(_, span, _) => {
                DeclaredPart::Expression(format!("({})", text(span)))
            }
        });
        let parts: Vec<DeclaredPart> = parts.collect();
        let predicate = declaration.predicate.as_ref().map(|(_, span)| text(span));
        let name = match &declaration.name {
            Some(name) => name.text.clone(),
            None => {
                let joined = index_columns_name(&declaration.parts);
                choose_name(&own.name, &joined, "idx", |name| {
                    self.declared.relation(name).is_some()
                })
            }
        };
        let table = &mut self.declared.tables[table];
        self.concerned.insert(ObjectName::Table(table.name.clone()));
        table.indexes.push(DeclaredIndex {
            name,
            parts,
            predicate,
            unique: declaration.unique,
            is_constraint: false,
            test: Test::Due,
        });
        Ok(())
    }

    pub(super) fn truncate(&mut self, names: &[Name], restart: bool, cascade: bool) -> Change<()> {
        for name in names {
            match self.declared.relation(&name.text) {
                Some(Relation::Table(_)) => self.truncated.insert(name.text.clone()),
                Some(_) => {
                    let message = format!("\"{}\" is not a table", name.text);
                    return Err(ChangeError::new("42809", message));
                }
                None => return Err(no_relation(name)),
            };
        }
        loop {
            let mut more = None;
            for table in &self.declared.tables {
                let mut keys = table.foreign_keys.iter();
                let reference = keys.find(|key| self.truncated.contains(&key.parent));
                if let (Some(key), false) = (reference, self.truncated.contains(&table.name)) {
                    more = Some((table.name.clone(), key.parent.clone()));
                    break;
                }
            }
            let Some((child, parent)) = more else {
                break;
            };
            if !cascade {
                let message = "cannot truncate a table referenced in a foreign key constraint";
                return Err(ChangeError::new("0A000", message)
                    .detail(format!("Table \"{child}\" references \"{parent}\"."))
                    .hint(format!(
                        "Truncate table \"{child}\" at the same time, or use TRUNCATE ... CASCADE."
                    )));
            }
            let message = format!("truncate cascades to table \"{child}\"");
            self.notices.push(Notice::new("00000", message));
            self.truncated.insert(child);
        }
        if restart {
            for table in self.truncated.clone() {
                for name in self.sequences_of_table(&table) {
                    let mut named = self.declared.sequences.iter();
                    let named = named.find(|of| of.name == name);
                    let start = named.map_or(1, |of| of.options.start);
                    self.restarts.insert(name, start);
                }
            }
        }
        Ok(())
    }
}

/// What PostgreSQL tests of a CREATE TABLE's keys before all else.
fn check_keys(declaration: &TableDeclaration) -> Change<()> {
    let mut has_primary_key = false;
    for constraint in &declaration.constraints {
        let is_primary = matches!(constraint.kind, ConstraintKind::PrimaryKey(_));
        if is_primary && has_primary_key {
            let message = format!(
                "multiple primary keys for table \"{}\" are not allowed",
                declaration.name.text
            );
            return Err(ChangeError::new("42P16", message));
        }
        has_primary_key |= is_primary;
    }
    for constraint in &declaration.constraints {
        let is_primary = matches!(constraint.kind, ConstraintKind::PrimaryKey(_));
        let (ConstraintKind::PrimaryKey(names) | ConstraintKind::Unique(names)) = &constraint.kind
        else {
            continue;
        };
        for name in names {
            let mut columns = declaration.columns.iter();
            if !columns.any(|column| column.name.text == name.text) {
                let message = format!("column \"{}\" named in key does not exist", name.text);
                return Err(ChangeError::new("42703", message));
            }
        }
        check_repeated(names, is_primary)?;
    }
    Ok(())
}

/// A key names each column once.
fn check_repeated(names: &[Name], is_primary: bool) -> Change<()> {
    for (at, name) in names.iter().enumerate() {
        if names[..at].iter().any(|other| other.text == name.text) {
            let kind = if is_primary { "primary key" } else { "unique" };
            let message = format!(
                "column \"{}\" appears twice in {kind} constraint",
                name.text
            );
            return Err(ChangeError::new("42701", message));
        }
    }
    Ok(())
}

/// The columns of a CREATE TABLE have different names.
fn check_columns(declaration: &TableDeclaration) -> Change<()> {
    for (at, column) in declaration.columns.iter().enumerate() {
        let mut before = declaration.columns[..at].iter();
        if before.any(|other| other.name.text == column.name.text) {
            let message = format!("column \"{}\" specified more than once", column.name.text);
            return Err(ChangeError::new("42701", message));
        }
    }
    Ok(())
}

/// The error for a column of a foreign key.
fn no_foreign_column(name: &Name) -> ChangeError {
    let message = format!(
        "column \"{}\" referenced in foreign key constraint does not exist",
        name.text
    );
    ChangeError::new("42703", message)
}
