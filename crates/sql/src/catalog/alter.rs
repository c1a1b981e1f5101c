//! ALTER TABLE: changes to declared tables, as migrations make them.

use std::collections::BTreeSet;

use sqlparser::ast::Expr;

use super::{
    ColumnDefault,
    names::{choose_name, join_columns, only_column},
    tables::{Draft, Tables, check_generated},
};
use crate::{
    diagnostic::Diagnostic,
    parse::{
        cursor::Name,
        declaration::{
            AlterAction, AlterDeclaration, ColumnAlteration, ConstraintKind, IndexDeclaration,
            IndexKey,
        },
    },
};

impl Tables {
    /// An `ALTER TABLE`.
    pub(super) fn alter(
        &mut self,
        alter: AlterDeclaration,
        broken: &BTreeSet<String>,
        errors: &mut Vec<Diagnostic>,
    ) {
        let draft = match self.find(&alter.table, broken) {
            Ok(Some(number)) => &mut self.drafts[number],
            Ok(None) => return,
            Err(error) => {
                errors.push(error);
                return;
            }
        };
        for action in alter.actions {
            if let Err(error) = draft.alter(action, errors) {
                errors.push(error);
            }
        }
    }
}

impl Draft {
    /// Whether an index is of a dropped column, so that its statement is void.
    pub(super) fn has_dropped(&self, index: &IndexDeclaration) -> bool {
        let is_there = |name: &str| self.schema.columns.iter().any(|c| c.name == name);
        let mut dropped = self.dropped.iter().filter(|name| !is_there(name));
        dropped.any(|name| {
            let names = |expression: &Expr| {
                let text = expression.to_string();
                let is_part = |c: char| c.is_alphanumeric() || c == '_';
                let mut words = text.split(|c| !is_part(c));
                words.any(|word| word.eq_ignore_ascii_case(name))
            };
            let mut parts = index.parts.iter();
            parts.any(|part| match part {
                IndexKey::Column(column) => column.text == *name,
                IndexKey::Expression(expression, ..) => names(expression),
            }) || index
                .predicate
                .iter()
                .any(|(condition, _)| names(condition))
        })
    }

    fn alter(
        &mut self,
        action: AlterAction,
        errors: &mut Vec<Diagnostic>,
    ) -> Result<(), Diagnostic> {
        match action {
            AlterAction::Constrain(constraint) => self.pending.push(constraint),
            AlterAction::AddColumn {
                column,
                constraints,
                if_not_exists,
            } => {
                let mut there = self.schema.columns.iter();
                if if_not_exists && there.any(|c| c.name == column.name.text) {
                    return Ok(());
                }
                self.add_column(column, errors);
                self.pending.extend(constraints);
            }
            AlterAction::DropColumn { column, if_exists } => {
                let index = match self.column(&column, None) {
                    Ok(index) => index.index(),
                    Err(_) if if_exists => return Ok(()),
                    Err(error) => return Err(error),
                };
                self.schema.columns.remove(index);
                self.table.defaults.remove(index);
                self.pending.retain(|of| !is_about(&of.kind, &column.text));
                self.dropped.insert(column.text);
            }
            AlterAction::DropConstraint { name, if_exists } => {
                let found = self.names().iter().position(|of| *of == name.text);
                match found {
                    Some(at) => {
                        self.pending.remove(at);
                    }
                    None if if_exists => {}
                    None => {
                        let message = format!(
                            "constraint \"{}\" of relation \"{}\" does not exist",
                            name.text, self.schema.name
                        );
                        return Err(Diagnostic::new("42704", message, name.span));
                    }
                }
            }
            AlterAction::AlterColumn(alteration) => self.alter_column(alteration)?,
        }
        Ok(())
    }

    fn alter_column(&mut self, alteration: ColumnAlteration) -> Result<(), Diagnostic> {
        let index = self.column(&alteration.column, None)?.index();
        if let Some(declared) = alteration.data_type {
            check_generated(
                &self.table.defaults[index],
                &declared.data_type,
                declared.span,
            )?;
            self.schema.columns[index].data_type = declared.data_type;
        }
        let is_computed = matches!(self.table.defaults[index], ColumnDefault::Computed(..));
        let said = |what: &str| {
            let name = &alteration.column;
            let message = format!(
                "column \"{}\" of relation \"{}\" is {what}",
                name.text, self.schema.name
            );
            (message, name.span)
        };
        if let Some(dropped) = alteration.expression_dropped {
            if !is_computed && !dropped.if_exists {
                let (message, span) = said("not a stored generated column");
                return Err(Diagnostic::new("55000", message, span));
            }
            if is_computed {
                self.table.defaults[index] = ColumnDefault::Null;
            }
        }
        if let Some(default) = alteration.default {
            if is_computed {
                let (message, span) = said("a generated column");
                return Err(Diagnostic::new("42601", message, span));
            }
            let data_type = &self.schema.columns[index].data_type;
            check_generated(&default, data_type, alteration.column.span)?;
            self.table.defaults[index] = default;
        }
        if let Some(not_null) = alteration.not_null {
            self.schema.columns[index].nullable = !not_null;
        }
        Ok(())
    }

    /// The names of the constraints: their own, or those that PostgreSQL gives them in their order.
    fn names(&self) -> Vec<String> {
        let own: Vec<&str> = self
            .schema
            .columns
            .iter()
            .map(|c| c.name.as_str())
            .collect();
        let joined = |columns: &[Name]| join_columns(columns.iter().map(|c| c.text.as_str()));
        let mut names: Vec<String> = Vec::new();
        for constraint in &self.pending {
            let (columns, label) = match &constraint.kind {
                ConstraintKind::PrimaryKey(_) => (String::new(), "pkey"),
                ConstraintKind::Unique(columns) => (joined(columns), "key"),
                ConstraintKind::Check { words, .. } => {
                    (only_column(&own, words).unwrap_or("").to_owned(), "check")
                }
                ConstraintKind::ForeignKey { columns, .. } => (joined(columns), "fkey"),
            };
            let is_taken = |name: &str| names.iter().any(|taken| taken == name);
            names.push(match &constraint.name {
                Some(name) => name.text.clone(),
                None => choose_name(&self.schema.name, &columns, label, is_taken),
            });
        }
        names
    }
}

/// Whether a constraint is dropped with a column of its table.
fn is_about(kind: &ConstraintKind, column: &str) -> bool {
    match kind {
        ConstraintKind::PrimaryKey(columns)
        | ConstraintKind::Unique(columns)
        | ConstraintKind::ForeignKey { columns, .. } => columns.iter().any(|c| c.text == column),
        ConstraintKind::Check { words, .. } => words.iter().any(|word| word == column),
    }
}
