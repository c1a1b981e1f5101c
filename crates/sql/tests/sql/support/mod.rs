//! An application over a store in memory, and what its statements answer, as text.

use anabranch_sql::{
    Application, SourceFile, TransactionError,
    expression::text::format_text,
    load,
    testing::{Store, ready},
};
use anabranch_types::Value;

/// An application, and its rows.
pub(crate) struct Database {
    pub(crate) application: Application,
    pub(crate) store: Store,
}

impl Database {
    /// With what these statements insert.
    pub(crate) fn with(schema: &str, data: &[&str]) -> Database {
        let files = vec![SourceFile::new("schema.sql", schema)];
        let catalog = match load(files.clone()) {
            Ok(catalog) => catalog,
            Err(problems) => panic!("{}", anabranch_sql::render(&problems, &files)),
        };
        let application = match Application::compile(catalog) {
            Ok(application) => application,
            Err(problems) => panic!("{}", anabranch_sql::render(&problems, &files)),
        };
        let store = Store::new(&application);
        let mut database = Database { application, store };
        for statement in data {
            database.run(statement).unwrap();
        }
        database
    }

    /// A statement's answer, or the error's code and message.
    pub(crate) fn run(&mut self, text: &str) -> Result<String, String> {
        self.run_with(text, &[])
    }

    /// Rows joined by `;`, columns by `|`, NULL as `-`; without columns the count of rows.
    pub(crate) fn run_with(&mut self, text: &str, parameters: &[Value]) -> Result<String, String> {
        let statement = self
            .application
            .statement(text)
            .map_err(|p| p[0].code.to_string() + " " + &p[0].message)?;
        let mut transaction = self.store.begin();
        match ready(statement.execute(&mut transaction, parameters)) {
            Ok(result) if result.columns.is_empty() => Ok(format!("#{}", result.count)),
            Ok(result) => {
                let shown = |row: &Vec<Value>| {
                    let cells =
                        row.iter()
                            .zip(result.columns.iter())
                            .map(|(value, (_, data_type))| {
                                if value.is_null() {
                                    "-".into()
                                } else {
                                    format_text(value, data_type)
                                }
                            });
                    cells.collect::<Vec<String>>().join("|")
                };
                Ok(result.rows.iter().map(shown).collect::<Vec<_>>().join(";"))
            }
            Err(error) => {
                transaction.rollback();
                match error {
                    TransactionError::Failed(error) => {
                        Err(format!("{} {}", error.code, error.message))
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// A statement's answer is this.
    #[track_caller]
    pub(crate) fn check(&mut self, text: &str, expected: &str) {
        assert_eq!(self.run(text).as_deref(), Ok(expected), "{text}");
    }

    /// Statements have these answers: each statement behind `> ` and the answer in the next line, with line ends as
    /// `\n`, or `error` and the code.
    #[track_caller]
    pub(crate) fn check_all(&mut self, answers: &str, least: usize) {
        let mut wrong = Vec::new();
        let mut asked = 0;
        let mut lines = answers.lines();
        while let Some(line) = lines.next() {
            let statement = line.strip_prefix("> ").expect("a statement");
            let expected = lines.next().expect("an answer");
            let answer = match self.run(statement) {
                Ok(answer) => answer.replace('\n', "\\n"),
                Err(error) => format!("error {error}"),
            };
            let is_same = match expected.starts_with("error ") {
                true => answer.starts_with(expected),
                false => answer == expected,
            };
            if !is_same {
                wrong.push(format!(
                    "{statement}\n  PostgreSQL: {expected}\n  here:       {answer}"
                ));
            }
            asked += 1;
        }
        assert!(asked >= least, "only {asked} statements");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// A statement is refused with this code.
    #[track_caller]
    pub(crate) fn refuse(&mut self, text: &str, code: &str) {
        let error = self.run(text).expect_err(text);
        assert!(error.starts_with(code), "{text}: {error}");
    }
}
