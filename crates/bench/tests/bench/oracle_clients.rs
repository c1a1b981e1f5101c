//! Statements as clients send them, described by PostgreSQL and by us: the same types of parameters, the same columns,
//! the same rows; or the same SQLSTATE at the same place.
//!
//! `clients/statements.txt` has a statement a line. `refused CODE` before it says that we refuse what PostgreSQL
//! accepts, `words` that both refuse it with the same SQLSTATE and other words or at another place, and `differs` that
//! the answer is another one. Each mark has to be true, so that the list of differences is exact.

use std::fmt::Write;

use anabranch_sql::client::{
    ClientContext, ClientPlan, ClientStatementKind, ClientWork, Runnable, SessionValue, parse,
};
use anabranch_sql::source::SourceFile;
use anabranch_sql::testing::{Store, ready};
use anabranch_sql::{Application, TransactionError, load};
use anabranch_types::{DataType, Value};
use postgres::types::{Kind, Type};

use crate::oracle::{Postgres, show, text_rows};

const SCHEMA: &str = include_str!("../../../sql/tests/sql/client/schema.sql");
const STATEMENTS: &str = include_str!("clients/statements.txt");

/// What a database says of a statement.
#[derive(PartialEq)]
struct Description {
    text: String,
    /// The SQLSTATE, if it is refused.
    code: Option<String>,
}

#[test]
fn statements_are_described_as_by_postgresql() {
    let mut theirs = Postgres::start();
    theirs
        .client
        .batch_execute(SCHEMA)
        .expect("the schema is PostgreSQL's");
    let mut ours = Ours::new();
    let (mut same, mut refused, mut differs) = (0, 0, 0);
    let mut wrong = Vec::new();
    for line in STATEMENTS.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (mark, statement) = match line.split_once(" | ") {
            Some((mark, statement))
                if mark == "differs" || mark == "words" || mark.starts_with("refused ") =>
            {
                (mark, statement)
            }
            _ => ("", line),
        };
        let (a, b) = (theirs_of(&mut theirs, statement), ours.describe(statement));
        let code = mark.strip_prefix("refused ");
        let as_marked = match (code, mark) {
            (Some(code), _) => a.code.as_deref() != Some(code) && b.code.as_deref() == Some(code),
            (None, "words") => a != b && a.code.is_some() && a.code == b.code,
            (None, "differs") => a != b && (a.code.is_none() || a.code != b.code),
            _ => a == b,
        };
        match (code.is_some(), mark) {
            (true, _) => refused += 1,
            (false, "") => same += 1,
            _ => differs += 1,
        }
        if !as_marked {
            let expected = if mark.is_empty() { "the same" } else { mark };
            wrong.push(format!(
                "{statement}\n  expected: {expected}\n  PostgreSQL:\n{}  ours:\n{}",
                a.text, b.text
            ));
        }
    }
    println!("{same} alike, {refused} refused, {differs} that differ");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(same > 200 && same > 2 * (refused + differs));
}

/// PostgreSQL's description, and its rows where there are no parameters.
fn theirs_of(theirs: &mut Postgres, statement: &str) -> Description {
    let refusal = |error: &postgres::Error| {
        let known = error
            .as_db_error()
            .unwrap_or_else(|| panic!("{statement}: {error}"));
        let place = match known.position() {
            Some(postgres::error::ErrorPosition::Original(position)) => position.to_string(),
            _ => "-".into(),
        };
        let mut text = format!(
            "    {} at {place}: {}\n",
            known.code().code(),
            known.message()
        );
        if known.code().code() == "42809" || known.code().code() == "42883" {
            let _ = writeln!(text, "    hint: {}", known.hint().unwrap_or("-"));
        }
        Description {
            text,
            code: Some(known.code().code().to_owned()),
        }
    };
    let prepared = match theirs.client.prepare(statement) {
        Ok(prepared) => prepared,
        Err(error) => return refusal(&error),
    };
    let mut text = String::new();
    for column in prepared.columns() {
        let _ = writeln!(text, "    {} {}", column.name(), name_of(column.type_()));
    }
    for parameter in prepared.params() {
        let _ = writeln!(text, "    takes {}", name_of(parameter));
    }
    if prepared.params().is_empty() {
        let mut transaction = theirs.client.transaction().expect("a transaction begins");
        let result = transaction.simple_query(statement);
        match result {
            Ok(messages) => {
                for message in messages {
                    if let postgres::SimpleQueryMessage::Row(row) = message {
                        let cells = (0..row.len()).map(|at| row.get(at).map(str::to_owned));
                        let _ = writeln!(text, "    = {}", show(&cells.collect()));
                    }
                }
            }
            Err(error) => return refusal(&error),
        }
        transaction.rollback().expect("a transaction ends");
    }
    Description { text, code: None }
}

/// A type's name, where ours have one; several of PostgreSQL's are text to us.
fn name_of(data_type: &Type) -> String {
    match data_type.kind() {
        Kind::Array(element) => return format!("{}[]", name_of(element)),
        Kind::Pseudo if !matches!(data_type.name(), "void" | "record") => return "text".into(),
        _ => {}
    }
    match data_type.name() {
        "name" | "inet" | "unknown" => "text",
        "bool" => "boolean",
        "int2" => "smallint",
        "int4" => "integer",
        "int8" => "bigint",
        "float4" => "real",
        "float8" => "double precision",
        "varchar" => "character varying",
        "bpchar" => "character",
        "timestamp" => "timestamp without time zone",
        "timestamptz" => "timestamp with time zone",
        other => other,
    }
    .to_owned()
}

/// Our side: an application over a store in memory.
struct Ours {
    application: Application,
    store: Store,
}

impl Ours {
    fn new() -> Ours {
        let application = load(vec![SourceFile::new("schema.sql", SCHEMA)])
            .and_then(Application::compile)
            .unwrap_or_else(|problems| panic!("{problems:?}"));
        let store = Store::new(&application);
        Ours { application, store }
    }

    fn describe(&mut self, statement: &str) -> Description {
        let refusal = |problem: &anabranch_sql::Diagnostic| {
            let place = problem.span.map_or("-".to_owned(), |span| {
                let before = &statement[..(span.start as usize).min(statement.len())];
                (before.chars().count() + 1).to_string()
            });
            let mut text = format!("    {} at {place}: {}\n", problem.code, problem.message);
            if problem.code == "42809" || problem.code == "42883" {
                let hint = problem.help.as_deref().unwrap_or("-");
                let _ = writeln!(text, "    hint: {hint}");
            }
            Description {
                text,
                code: Some(problem.code.to_owned()),
            }
        };
        let statements = match parse(statement) {
            Ok(statements) => statements,
            Err(problem) => return refusal(&problem),
        };
        let runnable: &Runnable = match &statements[0].kind {
            ClientStatementKind::Run(runnable) => runnable,
            ClientStatementKind::Unsupported(problem) => return refusal(problem),
            other => panic!("{statement}: {other:?}"),
        };
        let plan = match self.application.client_statement(runnable, &[]) {
            Ok(plan) => plan,
            Err(problems) => return refusal(&problems[0]),
        };
        let mut text = String::new();
        for (name, data_type) in plan.columns.iter().flat_map(|columns| columns.iter()) {
            let _ = writeln!(text, "    {name} {}", plain(data_type));
        }
        for data_type in &plan.parameters {
            let _ = writeln!(text, "    takes {}", plain(data_type));
        }
        if plan.parameters.is_empty() {
            match self.rows(&plan) {
                Ok(rows) => text.push_str(&rows),
                Err(TransactionError::Failed(error)) => {
                    let code = error.code.to_owned();
                    return Description {
                        text: format!("    {code} at -: {}\n", error.message),
                        code: Some(code),
                    };
                }
                Err(error) => panic!("{statement}: {error:?}"),
            }
        }
        Description { text, code: None }
    }

    fn rows(&mut self, plan: &ClientPlan) -> Result<String, TransactionError> {
        let values: Vec<Value> = plan.session_values.iter().map(session_value).collect();
        let result = match &plan.work {
            ClientWork::Constant(constant) => constant
                .evaluate(&values, &ClientContext::at(0))
                .map_err(TransactionError::Failed)?
                .expect("it ends before a pause"),
            ClientWork::Statement(compiled) => {
                let mut transaction = self.store.begin();
                let result = ready(compiled.execute(&mut transaction, &values));
                transaction.rollback();
                result?
            }
            ClientWork::Call {
                procedure,
                arguments,
                shape,
            } => {
                let arguments = arguments
                    .evaluate(&values, &ClientContext::at(0))
                    .map_err(TransactionError::Failed)?;
                let procedure = self.application.procedures[*procedure].clone();
                let mut transaction = self.store.begin();
                let result = ready(procedure.call(&mut transaction, &arguments));
                transaction.rollback();
                shape.of(result?, plan.columns.as_ref())
            }
            other => panic!("{other:?}"),
        };
        let mut text = String::new();
        if plan.columns.is_some() {
            for row in text_rows(&result) {
                let _ = writeln!(text, "    = {}", show(&row));
            }
        }
        Ok(text)
    }
}

/// A type's name without its bounds.
fn plain(data_type: &DataType) -> String {
    match data_type {
        DataType::Array(element) => format!("{}[]", plain(element)),
        DataType::Numeric(_) => "numeric".into(),
        DataType::Varchar(_) => "character varying".into(),
        DataType::Char(_) => "character".into(),
        other => other.to_string(),
    }
}

/// The values of PostgreSQL's connection.
fn session_value(value: &SessionValue) -> Value {
    match value {
        SessionValue::CurrentUser | SessionValue::SessionUser => Value::text("anabranch"),
        SessionValue::Database => Value::text("postgres"),
        SessionValue::CurrentSchema => Value::text("public"),
        SessionValue::CurrentSchemas { implicit: false } => {
            Value::Array(vec![Value::text("public")].into())
        }
        SessionValue::CurrentSchemas { implicit: true } => {
            Value::Array(vec![Value::text("pg_catalog"), Value::text("public")].into())
        }
        SessionValue::Setting { name, .. } if name == "search_path" => {
            Value::text("\"$user\", public")
        }
        _ => Value::Null,
    }
}
