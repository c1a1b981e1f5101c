//! A schema that changes while it has rows: what clients are told, what becomes of the rows, and that the text of the
//! new schema is all that a restart needs.

use std::{fs, path::Path};

use anabranch_sql::{
    Application, SourceFile, TransactionError,
    change::{ChangeStatement, Notice},
    client::{self, ClientStatementKind},
    expression::text::format_text,
    load, render,
    testing::{Store, ready},
};

/// A server of one connection, without transactions around DDL.
struct Database {
    application: Application,
    store: Store,
}

fn compiled(files: Vec<SourceFile>) -> Application {
    let catalog = load(files.clone()).unwrap_or_else(|found| panic!("{}", render(&found, &files)));
    Application::compile(catalog).unwrap_or_else(|found| panic!("{}", render(&found, &files)))
}

fn parsed(text: &str) -> ClientStatementKind {
    match client::parse(text) {
        Ok(mut statements) => statements.remove(0).kind,
        Err(problem) => ClientStatementKind::Unsupported(problem),
    }
}

impl Database {
    fn new(schema: &str) -> Database {
        let application = compiled(vec![SourceFile::new("a.sql", schema)]);
        let store = Store::new(&application);
        Database { application, store }
    }

    /// The answer to a statement: notices and the tag, rows, or the error.
    fn run(&mut self, text: &str) -> String {
        match parsed(text) {
            ClientStatementKind::Change(statement) => self.change(&statement),
            ClientStatementKind::Unsupported(problem) => {
                format!("{} {}", problem.code, problem.message)
            }
            _ => self.execute(text),
        }
    }

    fn change(&mut self, statement: &ChangeStatement) -> String {
        let mut change = match self.application.change(statement) {
            Ok(change) => change,
            Err(refusal) => return shown(&refusal.error),
        };
        let store = match self.store.changed(&self.application, &mut change) {
            Ok(store) => store,
            Err(error) => return shown(&error),
        };
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
        answer
    }

    fn execute(&mut self, text: &str) -> String {
        let statement = match self.application.statement(text) {
            Ok(statement) => statement,
            Err(problems) => return format!("{} {}", problems[0].code, problems[0].message),
        };
        let mut transaction = self.store.begin();
        let result = match ready(statement.execute(&mut transaction, &[])) {
            Ok(result) => result,
            Err(TransactionError::Failed(error)) => {
                transaction.rollback();
                return shown(&error);
            }
            Err(other) => panic!("{other:?}"),
        };
        if result.columns.is_empty() {
            return format!("#{}", result.count);
        }
        let row = |row: &Vec<anabranch_types::Value>| {
            let cells = row.iter().zip(result.columns.iter());
            let cells = cells.map(|(value, (_, data_type))| match value.is_null() {
                true => "-".to_owned(),
                false => format_text(value, data_type),
            });
            cells.collect::<Vec<_>>().join("|")
        };
        result.rows.iter().map(row).collect::<Vec<_>>().join("; ")
    }
}

fn shown(error: &anabranch_types::EffectError) -> String {
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
fn check_restart(application: &Application) {
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

/// Statements and their answers, as a file has them: a statement up to `;` at the end of a line, the answer behind it,
/// then an empty line.
#[track_caller]
fn check_script(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/changes");
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let mut database = Database::new("");
    let mut answered = String::new();
    for part in text.split("\n\n") {
        let Some((statement, _)) = part.split_once(";\n") else {
            answered.push_str(part);
            answered.push_str("\n\n");
            continue;
        };
        let sent: String = statement
            .lines()
            .filter(|line| !line.starts_with("--"))
            .collect::<Vec<_>>()
            .join("\n");
        let answer = database.run(&sent);
        answered.push_str(&format!("{statement};\n{answer}\n\n"));
    }
    let answered = answered.trim_end().to_owned() + "\n";
    if answered == text {
        return;
    }
    if std::env::var_os("UPDATE_CHANGES").is_some() {
        fs::write(folder.join(name), &answered).unwrap();
        return;
    }
    let pairs = answered.split("\n\n").zip(text.split("\n\n"));
    let other: Vec<String> = pairs
        .filter(|(answer, expected)| answer != expected)
        .map(|(answer, expected)| format!("{answer}\nexpected:\n{expected}"))
        .collect();
    panic!(
        "{name}:\n{}\nUPDATE_CHANGES=1 accepts what is answered now",
        other.join("\n\n")
    );
}

#[test]
fn tables_are_created_and_dropped() {
    check_script("tables.sql");
}

#[test]
fn columns_and_constraints_change() {
    check_script("columns.sql");
}

#[test]
fn what_depends_on_something_goes_with_it() {
    check_script("dependents.sql");
}

#[test]
fn every_example_prints_as_text_that_loads_to_the_same() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let mut names: Vec<_> = match fs::read_dir(entry.unwrap().path()) {
            Ok(folder) => folder.map(|entry| entry.unwrap().path()).collect(),
            Err(_) => continue,
        };
        names.retain(|name| name.extension().is_some_and(|extension| extension == "sql"));
        names.sort();
        let file = |name: &std::path::PathBuf| {
            SourceFile::new(
                name.display().to_string(),
                fs::read_to_string(name).unwrap(),
            )
        };
        let files: Vec<SourceFile> = names.iter().map(file).collect();
        let Ok(catalog) = load(files) else {
            continue;
        };
        let Ok(application) = Application::compile(catalog) else {
            continue;
        };
        if !application.catalog().tables.is_empty() {
            check_restart(&application);
            count += 1;
        }
    }
    assert!(count >= 10, "{count} examples were printed");
}

#[test]
fn a_change_is_recognised_and_others_are_refused() {
    for text in [
        "CREATE TABLE t (a int)",
        "TRUNCATE t",
        "COMMENT ON TABLE t IS 'x'",
    ] {
        assert!(
            matches!(parsed(text), ClientStatementKind::Change(_)),
            "{text}"
        );
    }
    for text in [
        "CREATE TRIGGER x",
        "CREATE TABLE t (a json)",
        "DROP ROLE x",
        "ALTER SYSTEM SET x = 1",
    ] {
        match parsed(text) {
            ClientStatementKind::Unsupported(problem) => {
                assert_eq!(problem.code, "0A000", "{text}")
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}
