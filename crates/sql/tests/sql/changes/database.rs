//! A database in memory whose schema changes, for tests of this crate and for comparison with PostgreSQL.

// Each test uses its part of it.
#![allow(dead_code)]

use anabranch_sql::{
    Application, SourceFile, TransactionError,
    change::{ChangeSettings, ChangeStatement, Notice},
    client::{self, ClientStatementKind},
    expression::text::format_text,
    load, render,
    testing::{Store, ready},
};
use anabranch_types::EffectError;

/// A server of one connection, without transactions around DDL.
pub(crate) struct Database {
    pub(crate) application: Application,
    store: Store,
}

pub(crate) fn compiled(files: Vec<SourceFile>) -> Application {
    let catalog = load(files.clone()).unwrap_or_else(|found| panic!("{}", render(&found, &files)));
    Application::compile(catalog).unwrap_or_else(|found| panic!("{}", render(&found, &files)))
}

pub(crate) fn parsed(text: &str) -> ClientStatementKind {
    match client::parse(text) {
        Ok(mut statements) => statements.remove(0).kind,
        Err(problem) => ClientStatementKind::Unsupported(problem),
    }
}

impl Database {
    pub(crate) fn new(schema: &str) -> Database {
        let application = compiled(vec![SourceFile::new("a.sql", schema)]);
        let store = Store::new(&application);
        Database { application, store }
    }

    /// The answer to a statement: notices and the tag, rows, or the error.
    pub(crate) fn run(&mut self, text: &str) -> String {
        self.answer(text).unwrap_or_else(|error| shown(&error))
    }

    /// The same, with the error as it is.
    pub(crate) fn answer(&mut self, text: &str) -> Result<String, EffectError> {
        match parsed(text) {
            ClientStatementKind::Change(statement) => {
                self.change_with(&statement, ChangeSettings::default())
            }
            ClientStatementKind::Unsupported(problem) => {
                Err(EffectError::new(problem.code, problem.message))
            }
            _ => self.execute(text),
        }
    }

    /// Under `SET check_function_bodies = false`.
    pub(crate) fn change_unchecked(&mut self, statement: &ChangeStatement) -> String {
        let settings = ChangeSettings {
            check_function_bodies: false,
        };
        let answer = self.change_with(statement, settings);
        answer.unwrap_or_else(|error| shown(&error))
    }

    fn change_with(
        &mut self,
        statement: &ChangeStatement,
        settings: ChangeSettings,
    ) -> Result<String, EffectError> {
        let changed = self.application.change_with(statement, settings);
        let mut change = changed.map_err(|refusal| *refusal.error)?;
        let store = self.store.changed(&self.application, &mut change)?;
        let mut answer = String::new();
        for Notice {
            message, detail, ..
        } in &change.notices
        {
            answer.push_str(&format!("NOTICE {message}"));
            if let Some(detail) = detail {
                answer.push_str(&format!(" ({})", detail.replace('\n', "; ")));
            }
            answer.push('\n');
        }
        answer.push_str(change.tag);
        if change.is_nothing() {
            answer.push_str(" (nothing)");
        }
        self.store = store;
        if let Some(application) = change.application {
            check_restart(&application);
            self.application = application;
        }
        Ok(answer)
    }

    fn execute(&mut self, text: &str) -> Result<String, EffectError> {
        let statement = self.application.statement(text).map_err(|problems| {
            let error = EffectError::new(problems[0].code, &*problems[0].message);
            match &problems[0].detail {
                Some(detail) => error.with_detail(detail.clone()),
                None => error,
            }
        })?;
        let mut transaction = self.store.begin();
        let result = match ready(statement.execute(&mut transaction, &[])) {
            Ok(result) => result,
            Err(TransactionError::Failed(error)) => {
                transaction.rollback();
                return Err(error);
            }
            Err(other) => panic!("{other:?}"),
        };
        if result.columns.is_empty() {
            return Ok(format!("#{}", result.count));
        }
        let row = |row: &Vec<anabranch_types::Value>| {
            let cells = row.iter().zip(result.columns.iter());
            let cells = cells.map(|(value, (_, data_type))| match value.is_null() {
                true => "-".to_owned(),
                false => format_text(value, data_type),
            });
            cells.collect::<Vec<_>>().join("|")
        };
        Ok(result.rows.iter().map(row).collect::<Vec<_>>().join("; "))
    }
}

fn shown(error: &EffectError) -> String {
    let mut answer = format!("{} {}", error.code, error.message);
    if let Some(fields) = &error.fields {
        for more in [&fields.detail, &fields.hint].into_iter().flatten() {
            answer.push_str(&format!(" ({})", more.replace('\n', "; ")));
        }
    }
    answer
}

/// The text of an application loads to the same application, and prints the same text.
#[track_caller]
pub(crate) fn check_restart(application: &Application) {
    let text = application.declarations();
    let files = vec![SourceFile::new("schema.sql", text.as_str())];
    let again = compiled(files);
    assert_eq!(again.declarations(), text);
    let schema = |of: &Application| format!("{:#?}", of.schema());
    assert_eq!(schema(&again), schema(application), "{text}");
    let names = |of: &Application| {
        let mut names = Vec::new();
        for table in &of.catalog().tables {
            names.push(format!("{:?}", table.primary_key_name));
            names.push(format!("{:?}", table.unique_constraints));
            names.extend(
                table
                    .checks
                    .iter()
                    .map(|of| format!("{} {}", of.name, of.expression)),
            );
            for key in &table.foreign_keys {
                names.push(format!(
                    "{} {:?} {:?} {:?} {:?} {:?}",
                    key.name,
                    key.columns,
                    key.parent,
                    key.parent_columns,
                    key.on_delete,
                    key.on_update
                ));
            }
        }
        for routine in &of.catalog().procedures {
            names.push(format!("{} {:?}", routine.name, routine.keeps));
        }
        names
    };
    assert_eq!(names(&again), names(application), "{text}");
}
