//! COPY: what a client copies, and the statement that reads or writes its rows.
//!
//! COPY FROM is an INSERT of the elements of one array a column, COPY TO is a SELECT: both run as any other statement,
//! in one transaction and within its limits. The form of the data is the connection's matter.

use std::sync::Arc;

use anabranch_types::DataType;

use super::{
    command::CommandTag,
    copy_syntax::{CopySource, CopyStatement},
    parse::parse,
    plan::ClientPlan,
    statement::ClientStatementKind,
};
use crate::{
    application::Application, catalog::ColumnDefault, diagnostic::Diagnostic, source::Span,
};

/// A COPY, compiled. It belongs to the application that compiled it.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    /// The statement that runs. For COPY FROM, its parameters are one array a column.
    pub plan: ClientPlan,
    /// Its text.
    pub text: Arc<str>,
    /// Names and types of the columns that are copied, in order.
    pub columns: Arc<[(String, DataType)]>,
    /// The name of the table, for messages; empty for a query.
    pub table: String,
}

impl Application {
    /// Compiles a COPY.
    ///
    /// # Errors
    /// Its problems. Their places are relative to the statement's own text.
    pub fn copy(&self, copy: &CopyStatement) -> Result<CopyPlan, Vec<Diagnostic>> {
        match &copy.source {
            CopySource::Query(text) => {
                let moved = |problem: Diagnostic| Diagnostic {
                    span: problem.span.map(|span| Span {
                        start: span.start + copy.span.start,
                        end: span.end + copy.span.start,
                        ..span
                    }),
                    ..problem
                };
                let plan = self.copied(text, &[], false);
                let plan = plan.map_err(|list| list.into_iter().map(moved).collect::<Vec<_>>())?;
                let Some(columns) = plan.columns.clone() else {
                    let message = "COPY query must return rows";
                    return Err(vec![
                        Diagnostic::new("0A000", message, copy.span)
                            .help("write COPY (SELECT …) TO STDOUT"),
                    ]);
                };
                Ok(CopyPlan {
                    plan,
                    text: text.as_str().into(),
                    columns,
                    table: String::new(),
                })
            }
            CopySource::Table { name, columns } => self.copy_of_table(copy, name, columns),
        }
    }

    fn copy_of_table(
        &self,
        copy: &CopyStatement,
        name: &str,
        named: &[String],
    ) -> Result<CopyPlan, Vec<Diagnostic>> {
        // As in PostgreSQL, these have no place.
        let refused = |code, message: String| Diagnostic {
            code,
            message,
            span: None,
            detail: None,
            help: None,
        };
        let catalog = self.catalog();
        if catalog.view_by_name(name).is_some() {
            return Err(vec![match copy.is_from {
                true => refused("42809", format!("cannot copy to view \"{name}\"")),
                false => refused("42809", format!("cannot copy from view \"{name}\""))
                    .help("Try the COPY (SELECT ...) TO variant."),
            }]);
        }
        let Some(table) = catalog.table_by_name(name) else {
            return Err(vec![refused(
                "42P01",
                format!("relation \"{name}\" does not exist"),
            )]);
        };
        let schema = catalog.schema.table(table.id);
        let mut columns: Vec<(String, DataType)> = Vec::new();
        let columns_there = schema.visible_columns().iter();
        let all: Vec<String> = columns_there.map(|of| of.name.clone()).collect();
        let is_generated =
            |place: usize| matches!(table.defaults[place], ColumnDefault::Computed(..));
        let implied = (0..all.len()).filter(|place| !is_generated(*place));
        let implied: Vec<String> = implied.map(|place| all[place].clone()).collect();
        for wanted in if named.is_empty() { &implied } else { named } {
            let Some(place) = all.iter().position(|of| of == wanted) else {
                let message = format!("column \"{wanted}\" of relation \"{name}\" does not exist");
                return Err(vec![refused("42703", message)]);
            };
            if is_generated(place) {
                let message = format!("column \"{wanted}\" is a generated column");
                let error = refused("42P10", message);
                return Err(vec![
                    error.detail("Generated columns cannot be used in COPY."),
                ]);
            }
            if columns.iter().any(|(of, _)| of == wanted) {
                let message = format!("column \"{wanted}\" specified more than once");
                return Err(vec![refused("42701", message)]);
            }
            columns.push((wanted.clone(), schema.columns[place].data_type.clone()));
        }
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let list: Vec<String> = columns.iter().map(|(name, _)| quoted(name)).collect();
        let list = list.join(", ");
        let from = format!("public.{}", quoted(name));
        let (text, types) = match copy.is_from {
            false => (format!("SELECT {list} FROM {from}"), Vec::new()),
            true => {
                let numbers: Vec<String> = (1..=columns.len()).map(|n| format!("${n}")).collect();
                let numbers = numbers.join(", ");
                let array =
                    |(_, of): &(String, DataType)| Some(DataType::Array(Box::new(of.clone())));
                (
                    format!(
                        "INSERT INTO {from} ({list}) SELECT * FROM unnest({numbers}) AS r ({list})"
                    ),
                    columns.iter().map(array).collect(),
                )
            }
        };
        let placed = |problem: Diagnostic| Diagnostic {
            span: None,
            ..problem
        };
        let plan = self.copied(&text, &types, copy.is_from);
        let plan = plan.map_err(|list| list.into_iter().map(placed).collect::<Vec<_>>())?;
        Ok(CopyPlan {
            plan,
            text: text.into(),
            columns: columns.into(),
            table: name.to_owned(),
        })
    }

    /// Compiles the statement of a COPY. COPY FROM gives values also for columns that are GENERATED ALWAYS.
    fn copied(
        &self,
        text: &str,
        types: &[Option<DataType>],
        overrides_identity: bool,
    ) -> Result<ClientPlan, Vec<Diagnostic>> {
        let mut statements = parse(text).map_err(|problem| vec![problem])?;
        let kind = statements.pop().map(|statement| statement.kind);
        let (Some(ClientStatementKind::Run(runnable)), true) = (kind, statements.is_empty()) else {
            let message = "COPY copies the rows of one SELECT, VALUES, TABLE or WITH";
            return Err(vec![Diagnostic {
                code: "42601",
                message: message.into(),
                span: None,
                detail: None,
                help: None,
            }]);
        };
        let plan = self.compiled_for_client(&runnable, types, overrides_identity)?;
        Ok(ClientPlan {
            tag: CommandTag::Copy,
            ..plan
        })
    }
}
