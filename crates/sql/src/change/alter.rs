//! ALTER TABLE, and RENAME of other relations.

use std::collections::BTreeMap;

use super::{
    apply::{Changer, ObjectName, RenamedColumn},
    declared::{
        ColumnValues, DeclaredDefault, DeclaredForeignKey, DeclaredPart, DeclaredTable,
        DeclaredText, Relation, Test,
    },
    dependents::Dropped,
    dropping::object_words,
    error::{Change, ChangeError, Notice},
    mapping,
    rename::{self, mentions, names_column},
    statement::{Action, ObjectKind},
};
use crate::{
    bind::convert::{Context, exists},
    catalog::{ColumnDefault, Deferrability, plain_type},
    parse::{
        cursor::Name,
        data_type::Declared,
        declaration::{ConstraintDeclaration, ConstraintKind},
    },
    source::Span,
};

impl Changer<'_> {
    pub(super) fn alter(
        &mut self,
        object: ObjectKind,
        name: &Name,
        if_exists: bool,
        actions: &[Action],
    ) -> Change<()> {
        let Some(relation) = self.declared.relation(&name.text) else {
            let message = format!("relation \"{}\" does not exist", name.text);
            if if_exists {
                self.skip("42P01", message);
                return Ok(());
            }
            return Err(ChangeError::new("42P01", message));
        };
        if let [Action::RenameRelation(to)] = actions {
            return self.rename_relation(object, relation, name, to);
        }
        let only_accepted = actions
            .iter()
            .all(|action| matches!(action, Action::Accepted { column: None }));
        let table = match relation {
            _ if only_accepted => return Ok(()),
            Relation::Table(number) => number,
            Relation::View(_) => {
                return Err(ChangeError::unsupported("ALTER TABLE on a view")
                    .hint("use CREATE OR REPLACE VIEW"));
            }
            _ => {
                let message = format!("\"{}\" is not a table", name.text);
                return Err(ChangeError::new("42809", message));
            }
        };
        self.concerned.insert(ObjectName::Table(name.text.clone()));
        // PostgreSQL's passes: what goes, then types, then what comes, whatever the order of the actions is.
        let mut sorted: Vec<&Action> = actions.iter().collect();
        sorted.sort_by_key(|action| match action {
            Action::DropColumn { .. }
            | Action::DropConstraint { .. }
            | Action::SetNotNull {
                not_null: false, ..
            }
            | Action::DropExpression { .. }
            | Action::SetDefault {
                default: ColumnDefault::Null,
                ..
            } => 0,
            Action::SetType { .. } => 1,
            Action::AddColumn { .. } => 2,
            Action::SetNotNull { .. } | Action::AddIdentity { .. } => 3,
            Action::AddUsingIndex { .. } => 4,
            Action::SetDefault { .. } => 5,
            _ => 6,
        });
        let mut constraints = Vec::new();
        let (last, first): (Vec<&Action>, Vec<&Action>) = sorted
            .into_iter()
            .partition(|action| matches!(action, Action::ValidateConstraint(_)));
        for action in first {
            self.act(table, action, &mut constraints)?;
        }
        constraints.sort_by_key(|(constraint, _)| match constraint.kind {
            ConstraintKind::PrimaryKey(_) | ConstraintKind::Unique(_) => 0,
            ConstraintKind::Check { .. } | ConstraintKind::ForeignKey { .. } => 1,
        });
        for (constraint, test) in constraints {
            self.constrain(table, constraint, test)?;
        }
        for action in last {
            self.act(table, action, &mut Vec::new())?;
        }
        Ok(())
    }

    /// One action; the constraints that it adds come after all actions.
    fn act<'a>(
        &mut self,
        table: usize,
        action: &'a Action,
        constraints: &mut Vec<(&'a ConstraintDeclaration, Test)>,
    ) -> Change<()> {
        match action {
            Action::AddConstraint {
                constraint,
                not_valid,
            } => {
                let test = if *not_valid {
                    Test::NotValid
                } else {
                    Test::Due
                };
                constraints.push((constraint, test));
                Ok(())
            }
            Action::AddUsingIndex {
                name,
                primary,
                index,
            } => self.add_using_index(table, name.as_ref(), *primary, index),
            Action::AddColumn {
                column,
                constraints: own_constraints,
                if_not_exists,
            } => {
                let own = &self.declared.tables[table];
                if own.column(&column.name.text).is_some() {
                    let message = format!(
                        "column \"{}\" of relation \"{}\" already exists",
                        column.name.text, own.name
                    );
                    if *if_not_exists {
                        self.skip("42701", message);
                        return Ok(());
                    }
                    return Err(ChangeError::new("42701", message));
                }
                self.push_column(table, column)?;
                self.check_generated(table)?;
                constraints.extend(own_constraints.iter().map(|of| (of, Test::Due)));
                Ok(())
            }
            Action::DropColumn {
                column,
                if_exists,
                cascade,
            } => self.drop_column(table, column, *if_exists, *cascade),
            Action::DropConstraint {
                name,
                if_exists,
                cascade,
            } => self.drop_constraint(table, name, *if_exists, *cascade),
            Action::ValidateConstraint(name) => self.validate(table, name),
            Action::AlterConstraint {
                name,
                deferrability,
            } => self.alter_constraint(table, name, *deferrability),
            Action::SetType {
                column,
                declared,
                using,
            } => {
                let using = using.as_ref().map(|(_, span)| *span);
                self.set_type(table, column, declared, using)
            }
            Action::SetDefault { column, default } => self.set_default(table, column, default),
            Action::SetNotNull { column, not_null } => self.set_not_null(table, column, *not_null),
            Action::AddIdentity { column, always } => self.add_identity(table, column, *always),
            Action::SetGenerated { column, always } => {
                let number = self.column(table, column)?;
                self.identity(table, number)?;
                let (always, serial) = (*always, false);
                self.declared.tables[table].columns[number].default =
                    DeclaredDefault::Generated { always, serial };
                Ok(())
            }
            Action::DropIdentity { column, if_exists } => {
                let number = self.column(table, column)?;
                match self.identity(table, number) {
                    Ok(()) => {
                        let own = &mut self.declared.tables[table].columns[number];
                        own.default = DeclaredDefault::Null;
                        Ok(())
                    }
                    Err(error) if *if_exists => {
                        self.skip("00000", error.error.message);
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            Action::DropExpression { column, if_exists } => {
                self.drop_expression(table, column, *if_exists)
            }
            Action::RenameColumn { column, to } => self.rename_column(table, column, to),
            Action::RenameConstraint { name, to } => self.rename_constraint(table, name, to),
            Action::Accepted { column } => match column {
                Some(column) => self.column(table, column).map(|_| ()),
                None => Ok(()),
            },
            Action::RenameRelation(to) => Err(ChangeError::new(
                "42601",
                "RENAME cannot stand beside other actions",
            )
            .at(to.span)),
        }
    }

    /// Changes when a foreign key is checked.
    fn alter_constraint(
        &mut self,
        table: usize,
        name: &Name,
        deferrability: Deferrability,
    ) -> Change<()> {
        let own = &mut self.declared.tables[table];
        let named = |key: &&mut DeclaredForeignKey| key.name == name.text;
        if let Some(key) = own.foreign_keys.iter_mut().find(named) {
            key.deferrability = deferrability;
            return Ok(());
        }
        let (relation, constraint) = (&own.name, &name.text);
        Err(match own.has_constraint(constraint) {
            true => {
                let message = format!(
                    "constraint \"{constraint}\" of relation \"{relation}\" is not a foreign key constraint"
                );
                ChangeError::new("42809", message)
            }
            false => {
                let message = format!(
                    "constraint \"{constraint}\" of relation \"{relation}\" does not exist"
                );
                ChangeError::new("42704", message)
            }
        })
    }

    /// The column with this name.
    fn column(&self, table: usize, name: &Name) -> Change<usize> {
        let own = &self.declared.tables[table];
        own.column(&name.text).ok_or_else(|| {
            let message = format!(
                "column \"{}\" of relation \"{}\" does not exist",
                name.text, own.name
            );
            ChangeError::new("42703", message)
        })
    }

    fn add_using_index(
        &mut self,
        table: usize,
        name: Option<&Name>,
        primary: bool,
        index: &Name,
    ) -> Change<()> {
        let own = &self.declared.tables[table];
        let Some(number) = own.indexes.iter().position(|of| of.name == index.text) else {
            return Err(match self.declared.relation(&index.text) {
                Some(Relation::Index(..) | Relation::PrimaryKey(_)) => {
                    let message = format!(
                        "index \"{}\" does not belong to table \"{}\"",
                        index.text, own.name
                    );
                    ChangeError::new("55000", message)
                }
                _ => ChangeError::new("42704", format!("index \"{}\" does not exist", index.text)),
            });
        };
        let found = &own.indexes[number];
        if found.is_constraint {
            let message = format!(
                "index \"{}\" is already associated with a constraint",
                index.text
            );
            return Err(ChangeError::new("55000", message));
        }
        let of_expressions = found
            .parts
            .iter()
            .any(|part| matches!(part, DeclaredPart::Expression(_)));
        let unfit = match (of_expressions, &found.predicate) {
            (true, _) if found.unique => Some("contains expressions"),
            (_, Some(_)) if found.unique => Some("is a partial index"),
            _ => None,
        };
        if let Some(unfit) = unfit {
            let message = match unfit {
                "is a partial index" => format!("\"{}\" {unfit}", index.text),
                _ => format!("index \"{}\" {unfit}", index.text),
            };
            return Err(ChangeError::new("42809", message)
                .detail("Cannot create a primary key or unique constraint using such an index."));
        }
        if !found.unique {
            let message = format!("\"{}\" is not a unique index", index.text);
            return Err(ChangeError::new("42809", message)
                .detail("Cannot create a primary key or unique constraint using such an index."));
        }
        if primary && own.primary_key.is_some() {
            let message = format!(
                "multiple primary keys for table \"{}\" are not allowed",
                own.name
            );
            return Err(ChangeError::new("42P16", message));
        }
        if let Some(name) = name
            && name.text != index.text
        {
            self.constraint_name(table, Some(name), "", "", true)?;
            let message = format!(
                "ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{}\" to \"{}\"",
                index.text, name.text
            );
            self.notices.push(Notice::new("00000", message));
        }
        let name = name.map_or(&index.text, |name| &name.text).clone();
        let own = &mut self.declared.tables[table];
        if primary {
            let columns = own.indexes.remove(number).columns().unwrap_or_default();
            for column in &mut own.columns {
                column.not_null |= columns.contains(&column.name);
            }
            own.primary_key = Some(super::declared::DeclaredKey { name, columns });
        } else {
            let index = &mut own.indexes[number];
            (index.name, index.is_constraint) = (name, true);
        }
        Ok(())
    }

    fn drop_column(
        &mut self,
        table: usize,
        column: &Name,
        if_exists: bool,
        cascade: bool,
    ) -> Change<()> {
        match self.column(table, column) {
            Ok(_) => {}
            Err(error) if if_exists => {
                self.skip("00000", error.error.message);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let own = &self.declared.tables[table];
        let column_of =
            |name: &str| Dropped::new(format!("column {name} of table {}", own.name), name);
        let target = column_of(&column.text);
        let computed: Vec<(Dropped, String)> = own
            .computed_from(&column.text)
            .map(|of| (column_of(&of.name), target.described.clone()))
            .collect();
        self.drops.cascade |= cascade;
        self.drops.targets.push(target);
        self.remove_column(table, &column.text);
        for (of, on) in computed {
            if let [name] = &of.names[..] {
                self.remove_column(table, name);
            }
            self.drops.dependents.push((of, on));
        }
        Ok(())
    }

    /// Removes a column with its keys, constraints and sequences, and with the foreign keys that refer to it.
    fn remove_column(&mut self, table: usize, name: &String) {
        let own = self.declared.tables[table].name.clone();
        let is_self = |key: &super::declared::DeclaredForeignKey| key.columns.contains(name);
        self.declared.tables[table]
            .foreign_keys
            .retain(|key| !is_self(key));
        self.drop_column_references(&own, name);
        let table = &mut self.declared.tables[table];
        table.columns.retain(|column| column.name != *name);
        if let Some(key) = &table.primary_key
            && key.columns.contains(name)
        {
            table.primary_key = None;
        }
        table.indexes.retain(|index| !index.names(name));
        table
            .checks
            .retain(|check| !names_column(&check.condition, name));
        let is_owner = |of: &(String, String)| of.0 == own && of.1 == *name;
        let sequences = &mut self.declared.sequences;
        sequences.retain(|of| !of.owner.as_ref().is_some_and(is_owner));
    }

    /// Makes a generated column an ordinary one, with the values that it has.
    fn drop_expression(&mut self, table: usize, name: &Name, if_exists: bool) -> Change<()> {
        let number = self.column(table, name)?;
        let own = &mut self.declared.tables[table];
        let column = &mut own.columns[number];
        if let DeclaredDefault::Computed(_) = column.default {
            column.default = DeclaredDefault::Null;
            return Ok(());
        }
        let message = format!(
            "column \"{}\" of relation \"{}\" is not a stored generated column",
            name.text, own.name
        );
        if if_exists {
            self.skip("00000", message);
            return Ok(());
        }
        Err(ChangeError::new("55000", message))
    }

    fn drop_constraint(
        &mut self,
        table: usize,
        name: &Name,
        if_exists: bool,
        cascade: bool,
    ) -> Change<()> {
        let own = &self.declared.tables[table];
        let table_name = own.name.clone();
        if !own.has_constraint(&name.text) {
            let message = no_constraint(own, name);
            if if_exists {
                self.skip("00000", message);
                return Ok(());
            }
            return Err(ChangeError::new("42704", message));
        }
        self.drops.cascade |= cascade;
        let described = format!("constraint {} on table {table_name}", name.text);
        let dropped = Dropped::new(described, &name.text);
        self.drops.targets.push(dropped);
        self.drop_key_references(&table_name, &name.text);
        let own = &mut self.declared.tables[table];
        if own
            .primary_key
            .as_ref()
            .is_some_and(|key| key.name == name.text)
        {
            own.primary_key = None;
        } else {
            own.indexes
                .retain(|index| !index.is_constraint || index.name != name.text);
            own.checks.retain(|check| check.name != name.text);
            own.foreign_keys.retain(|key| key.name != name.text);
        }
        Ok(())
    }

    fn validate(&mut self, table: usize, name: &Name) -> Change<()> {
        let own = &mut self.declared.tables[table];
        if let Some(check) = own.checks.iter_mut().find(|of| of.name == name.text) {
            check.test = Test::Due;
            return Ok(());
        }
        if let Some(key) = own.foreign_keys.iter_mut().find(|of| of.name == name.text) {
            key.test = Test::Due;
            return Ok(());
        }
        if own.has_constraint(&name.text) {
            let message = format!(
                "constraint \"{}\" of relation \"{}\" is not a foreign key or check constraint",
                name.text, own.name
            );
            return Err(ChangeError::new("42809", message));
        }
        Err(ChangeError::new("42704", no_constraint(own, name)))
    }

    fn set_type(
        &mut self,
        table: usize,
        name: &Name,
        declared: &Declared,
        using: Option<Span>,
    ) -> Change<()> {
        let text = using.map(|span| self.file.slice(span).to_owned());
        let from = self.declared.tables[table].from;
        if let (Some(text), Some(from)) = (&text, from) {
            // PostgreSQL reads the expression before it looks for the column.
            mapping::bound(self.catalog, Some(from), text, None)
                .map_err(|problem| ChangeError::of_text(&problem))?;
        }
        let number = self.column(table, name)?;
        if declared.serial {
            let word = self.file.slice(declared.span).to_lowercase();
            let message = format!("type \"{word}\" does not exist");
            return Err(ChangeError::new("42704", message).at(declared.span));
        }
        let column = &self.declared.tables[table].columns[number];
        let twice = || {
            let message = format!("cannot alter type of column \"{}\" twice", name.text);
            ChangeError::new("0A000", message)
        };
        // The last USING counts.
        let (ColumnValues::Old(old) | ColumnValues::Using(old, _)) = column.values else {
            return Err(twice());
        };
        if let Some(from) = from
            && self.catalog.schema.table(from).columns[old.index()].data_type != column.data_type
        {
            return Err(twice());
        }
        let is_computed = matches!(column.default, DeclaredDefault::Computed(_));
        if is_computed && text.is_some() {
            let message = "cannot specify USING when altering type of generated column";
            let detail = format!("Column \"{}\" is a generated column.", name.text);
            return Err(ChangeError::new("42611", message).detail(detail));
        }
        if let Some(from) = from {
            let to = (name.text.as_str(), &declared.data_type);
            let converted = mapping::conversion(self.catalog, (from, old), text.as_deref(), to);
            converted.map_err(|mut error| {
                // It cannot have USING.
                if is_computed {
                    error.error.fields_mut().hint = None;
                }
                error
            })?;
        }
        let default_type = match &column.default {
            DeclaredDefault::Expression(text) => {
                // What fitted it to the column is taken off. A literal without a type has got the column's.
                let own = mapping::bound(self.catalog, None, text, None);
                let own = own.ok().and_then(|(_, data_type)| data_type);
                Some(own.unwrap_or_else(|| column.data_type.clone()))
            }
            _ => None,
        };
        if let Some(of) = default_type
            && !exists(&of, &declared.data_type, Context::Assignment)
        {
            let message = format!(
                "default for column \"{}\" cannot be cast automatically to type {}",
                name.text,
                plain_type(&declared.data_type)
            );
            return Err(ChangeError::new("42804", message));
        }
        if let Some(of) = self.declared.tables[table].computed_from(&name.text).next() {
            let message = "cannot alter type of a column used by a generated column";
            return Err(ChangeError::new("0A000", message).detail(format!(
                "Column \"{}\" is used by generated column \"{}\".",
                name.text, of.name
            )));
        }
        self.check_unused_by_views(table, &name.text)?;
        self.check_unused_by_triggers(table, &name.text)?;
        let own = &mut self.declared.tables[table];
        let column = &mut own.columns[number];
        if column.data_type == declared.data_type && text.is_none() {
            return Ok(());
        }
        column.data_type = declared.data_type.clone();
        column.values = match text {
            Some(text) => ColumnValues::Using(old, text),
            None => ColumnValues::Old(old),
        };
        for check in &mut own.checks {
            if names_column(&check.condition, &name.text) {
                check.test = Test::Due;
            }
        }
        for index in &mut own.indexes {
            if index.names(&name.text) {
                index.test = Test::Due;
            }
        }
        let own_name = own.name.clone();
        for table in &mut self.declared.tables {
            let is_own = table.name == own_name;
            for key in &mut table.foreign_keys {
                if is_own && key.columns.contains(&name.text)
                    || key.parent == own_name && key.parent_columns.contains(&name.text)
                {
                    key.test = Test::Due;
                }
            }
        }
        Ok(())
    }

    /// Refuses a change of a column's type while a view names it.
    fn check_unused_by_views(&self, table: usize, column: &str) -> Change<()> {
        let table = &self.declared.tables[table].name;
        let mut views = self.declared.views.iter();
        match views.find(|view| mentions(&view.text, table) && mentions(&view.text, column)) {
            None => Ok(()),
            Some(view) => {
                let message = "cannot alter type of a column used by a view or rule";
                Err(ChangeError::new("0A000", message).detail(format!(
                    "rule _RETURN on view {} depends on column \"{column}\"",
                    view.name
                )))
            }
        }
    }

    fn set_default(&mut self, table: usize, name: &Name, default: &ColumnDefault) -> Change<()> {
        let number = self.column(table, name)?;
        let own = &self.declared.tables[table];
        let column = &own.columns[number];
        if let DeclaredDefault::Generated { serial: false, .. } = column.default {
            let message = format!(
                "column \"{}\" of relation \"{}\" is an identity column",
                name.text, own.name
            );
            let error = ChangeError::new("42601", message);
            return Err(match default {
                ColumnDefault::Null => {
                    error.hint("Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.")
                }
                _ => error,
            });
        }
        if let DeclaredDefault::Computed(_) = column.default {
            let message = format!(
                "column \"{}\" of relation \"{}\" is a generated column",
                name.text, own.name
            );
            let error = ChangeError::new("42601", message);
            return Err(match default {
                ColumnDefault::Null => {
                    error.hint("Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead.")
                }
                _ => error,
            });
        }
        let default = DeclaredDefault::of(default, |_| &self.file);
        self.check_default(&name.text, &column.data_type, &default)?;
        if let DeclaredDefault::Generated { .. } = column.default {
            // As in PostgreSQL, the column owns its sequence still.
            self.declare_sequence(table, number);
        }
        self.declared.tables[table].columns[number].default = default;
        Ok(())
    }

    fn set_not_null(&mut self, table: usize, name: &Name, not_null: bool) -> Change<()> {
        let number = self.column(table, name)?;
        let own = &mut self.declared.tables[table];
        if !not_null {
            if let DeclaredDefault::Generated { serial: false, .. } = own.columns[number].default {
                let message = format!(
                    "column \"{}\" of relation \"{}\" is an identity column",
                    name.text, own.name
                );
                return Err(ChangeError::new("42601", message));
            }
            let key = own.primary_key.as_ref();
            if key.is_some_and(|key| key.columns.contains(&name.text)) {
                let message = format!("column \"{}\" is in a primary key", name.text);
                return Err(ChangeError::new("42P16", message));
            }
        }
        own.columns[number].not_null = not_null;
        Ok(())
    }

    fn add_identity(&mut self, table: usize, name: &Name, always: bool) -> Change<()> {
        let number = self.column(table, name)?;
        let own = &mut self.declared.tables[table];
        let (column, table) = (&mut own.columns[number], &own.name);
        let refuse = |what: &str| {
            let message = format!("column \"{}\" of relation \"{table}\" {what}", name.text);
            Err(ChangeError::new("55000", message))
        };
        if !column.not_null {
            return refuse("must be declared NOT NULL before identity can be added");
        }
        match column.default {
            DeclaredDefault::Null => {}
            DeclaredDefault::Generated { serial: false, .. } => {
                return refuse("is already an identity column");
            }
            _ => return refuse("already has a default value"),
        }
        let serial = false;
        column.default = DeclaredDefault::Generated { always, serial };
        Ok(())
    }

    /// Whether a column is an identity column; the error if it is not.
    fn identity(&self, table: usize, column: usize) -> Change<()> {
        let own = &self.declared.tables[table];
        let column = &own.columns[column];
        if let DeclaredDefault::Generated { serial: false, .. } = column.default {
            return Ok(());
        }
        let message = format!(
            "column \"{}\" of relation \"{}\" is not an identity column",
            column.name, own.name
        );
        Err(ChangeError::new("55000", message))
    }

    fn rename_relation(
        &mut self,
        object: ObjectKind,
        relation: Relation,
        name: &Name,
        to: &Name,
    ) -> Change<()> {
        let fits = match object {
            // As in PostgreSQL, ALTER TABLE renames any relation.
            ObjectKind::Table => true,
            ObjectKind::View => matches!(relation, Relation::View(_)),
            ObjectKind::Index => matches!(relation, Relation::Index(..) | Relation::PrimaryKey(_)),
            _ => matches!(
                relation,
                Relation::Sequence(_) | Relation::SerialSequence(..)
            ),
        };
        if !fits {
            let (_, wanted) = object_words(object);
            let message = format!("\"{}\" is not {wanted}", name.text);
            return Err(ChangeError::new("42809", message));
        }
        self.is_free(to, false)?;
        match relation {
            Relation::Table(number) => {
                let before = self.declared.implied_sequences();
                self.declared.tables[number].name.clone_from(&to.text);
                self.rename_in_defaults(&before);
                for expression in self.declared.tables[number].row_expressions() {
                    *expression = rename::qualifiers(expression, &name.text, &to.text);
                }
                for table in &mut self.declared.tables {
                    for key in &mut table.foreign_keys {
                        if key.parent == name.text {
                            key.parent.clone_from(&to.text);
                        }
                    }
                }
                for sequence in &mut self.declared.sequences {
                    if let Some((table, _)) = &mut sequence.owner
                        && *table == name.text
                    {
                        table.clone_from(&to.text);
                    }
                }
                for trigger in &mut self.declared.triggers {
                    if trigger.table == name.text {
                        trigger.table.clone_from(&to.text);
                    }
                }
                self.concerned.insert(ObjectName::Table(to.text.clone()));
                self.follow_in_views(&to.text, &name.text, (&name.text, &to.text));
            }
            Relation::View(number) => {
                let view = &mut self.declared.views[number];
                view.text = rename::created(&view.text, &to.text);
                view.name.clone_from(&to.text);
                self.concerned.insert(ObjectName::View(to.text.clone()));
            }
            Relation::Sequence(number) => {
                self.declared.sequences[number].name.clone_from(&to.text);
                self.rename_sequences(&[(&name.text, &to.text)]);
            }
            Relation::SerialSequence(table, column) => {
                let default = &self.declared.tables[table].columns[column].default;
                if let DeclaredDefault::Generated { serial: false, .. } = default {
                    return Err(ChangeError::unsupported(
                        "RENAME of the sequence of an identity column",
                    )
                    .hint("the sequence has the name of its table and column"));
                }
                let number = self.declare_sequence(table, column);
                self.declared.sequences[number].name.clone_from(&to.text);
                self.rename_sequences(&[(&name.text, &to.text)]);
            }
            Relation::PrimaryKey(number) => {
                if let Some(key) = &mut self.declared.tables[number].primary_key {
                    key.name.clone_from(&to.text);
                }
            }
            Relation::Index(number, index) => {
                let index = &mut self.declared.tables[number].indexes[index];
                index.name.clone_from(&to.text);
            }
        }
        self.renamed = Some(format!("{} \"{}\"", rename::kind(relation), name.text));
        Ok(())
    }

    /// Lets the defaults that name a sequence of a column name it by its new name. `before` has the names that they know.
    fn rename_in_defaults(&mut self, before: &BTreeMap<(usize, usize), String>) {
        let now = self.declared.implied_sequences();
        let renamed = before.iter().filter_map(|(place, from)| {
            let to = now.get(place)?;
            (from != to).then_some((from, to))
        });
        self.rename_sequences(&renamed.collect::<Vec<_>>());
    }

    /// Lets the defaults that name a sequence name it by its new name: pairs of before and after.
    fn rename_sequences(&mut self, renamed: &[(&String, &String)]) {
        let columns = self.declared.tables.iter_mut();
        for column in columns.flat_map(|table| &mut table.columns) {
            if let DeclaredDefault::Expression(text) = &mut column.default {
                for (from, to) in renamed {
                    *text = rename::sequence(text, from, to);
                }
            }
        }
    }

    fn rename_column(&mut self, table: usize, name: &Name, to: &Name) -> Change<()> {
        let sequences = self.declared.implied_sequences();
        let own = &mut self.declared.tables[table];
        let own_name = own.name.clone();
        let Some(number) = own.column(&name.text) else {
            let message = format!("column \"{}\" does not exist", name.text);
            return Err(ChangeError::new("42703", message));
        };
        if own.column(&to.text).is_some() {
            let message = format!(
                "column \"{}\" of relation \"{own_name}\" already exists",
                to.text
            );
            return Err(ChangeError::new("42701", message));
        }
        own.columns[number].name.clone_from(&to.text);
        let follow = |names: &mut Vec<String>| {
            for of in names.iter_mut().filter(|of| **of == name.text) {
                of.clone_from(&to.text);
            }
        };
        if let Some(key) = &mut own.primary_key {
            follow(&mut key.columns);
        }
        for part in own.indexes.iter_mut().flat_map(|index| &mut index.parts) {
            match part {
                DeclaredPart::Column(of) if *of == name.text => of.clone_from(&to.text),
                _ => {}
            }
        }
        for expression in own.row_expressions() {
            *expression = rename::columns(expression, &name.text, &to.text);
        }
        for table in &mut self.declared.tables {
            let is_own = table.name == own_name;
            for key in &mut table.foreign_keys {
                if is_own {
                    follow(&mut key.columns);
                }
                if key.parent == own_name {
                    follow(&mut key.parent_columns);
                }
            }
        }
        for sequence in &mut self.declared.sequences {
            if let Some((table, column)) = &mut sequence.owner
                && (&*table, &*column) == (&own_name, &name.text)
            {
                column.clone_from(&to.text);
            }
        }
        self.rename_in_triggers(&own_name, name, to);
        self.rename_in_defaults(&sequences);
        self.columns.push(RenamedColumn {
            table: own_name.clone(),
            column: name.text.clone(),
        });
        self.follow_in_views(&own_name, &own_name, (&name.text, &to.text));
        self.renamed = Some(format!("column \"{}\" of table \"{own_name}\"", name.text));
        Ok(())
    }

    /// Renames a table, or a column of it, in the views that name the table, if the name can mean nothing else in them.
    /// Other views do not compile any more, which refuses the change. `table` is the table's name now, `named` the one
    /// that views know.
    fn follow_in_views(&mut self, table: &str, named: &str, (from, to): (&str, &str)) {
        let declared = &self.declared;
        let is_either = |column: &String| column == from || column == to;
        // Relations in which the name means something else.
        let mut others: Vec<&str> = Vec::new();
        for other in &declared.tables {
            let is_renamed_column = other.name == table && table == named;
            let mut columns = other.columns.iter().map(|column| &column.name);
            if !is_renamed_column && columns.any(is_either) {
                others.push(if other.name == table {
                    named
                } else {
                    &other.name
                });
            }
        }
        for view in &declared.views {
            if let Some(columns) = self.view_columns.get(&view.name)
                && columns.iter().any(is_either)
            {
                others.push(&view.name);
            }
        }
        let follows = |view: &DeclaredText| {
            mentions(&view.text, named)
                && !others
                    .iter()
                    .any(|other| *other != view.name && mentions(&view.text, other))
        };
        let following: Vec<usize> = (0..declared.views.len())
            .filter(|at| follows(&declared.views[*at]))
            .collect();
        for at in following {
            let view = &mut self.declared.views[at];
            let renamed = rename::in_query(&view.text, from, to);
            if renamed == view.text {
                continue;
            }
            view.text = match self.view_columns.get(&view.name) {
                Some(columns) => rename::with_columns(&renamed, columns),
                None => renamed,
            };
            self.followed.insert(view.name.clone());
        }
    }

    fn rename_constraint(&mut self, table: usize, name: &Name, to: &Name) -> Change<()> {
        let own = &self.declared.tables[table];
        if !own.has_constraint(&name.text) {
            let message = format!(
                "constraint \"{}\" for table \"{}\" does not exist",
                name.text, own.name
            );
            return Err(ChangeError::new("42704", message));
        }
        let is_index = matches!(
            self.declared.relation(&name.text),
            Some(Relation::PrimaryKey(number) | Relation::Index(number, _)) if number == table
        );
        self.constraint_name(table, Some(to), "", "", is_index)?;
        let own = &mut self.declared.tables[table];
        if let Some(key) = &mut own.primary_key
            && key.name == name.text
        {
            key.name.clone_from(&to.text);
        }
        let indexes = own.indexes.iter_mut().map(|index| &mut index.name);
        let checks = own.checks.iter_mut().map(|check| &mut check.name);
        let keys = own.foreign_keys.iter_mut().map(|key| &mut key.name);
        let mut all = indexes.chain(checks).chain(keys);
        if let Some(found) = all.find(|of| **of == name.text) {
            found.clone_from(&to.text);
        }
        Ok(())
    }
}

fn no_constraint(table: &DeclaredTable, name: &Name) -> String {
    format!(
        "constraint \"{}\" of relation \"{}\" does not exist",
        name.text, table.name
    )
}
