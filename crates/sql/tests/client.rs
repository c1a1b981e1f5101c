//! What clients' texts mean: `client/*.txt` have texts (lines that begin with `> `) and below each what it parses and
//! compiles to. A line `types: …` names the parameter types. `UPDATE_CLIENT=1` rewrites what is expected.

use std::{env, fmt::Write, fs, path::Path, sync::Arc};

use anabranch_sql::{
    Application, Diagnostic, SourceFile,
    client::{ClientPlan, ClientStatementKind, ClientWork, parse},
    load, render,
};
use anabranch_types::DataType;

const SCHEMA: &str = include_str!("client/schema.sql");

fn application() -> Application {
    let files = vec![SourceFile::new("schema.sql", SCHEMA)];
    load(files.clone())
        .and_then(Application::compile)
        .unwrap_or_else(|problems| panic!("{}", render(&problems, &files)))
}

#[test]
fn texts_have_their_meaning() {
    let application = application();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".txt"))
        .collect();
    names.sort();
    assert!(names.len() >= 4, "{names:?}");
    let mut different = Vec::new();
    for name in names {
        let path = folder.join(&name);
        let golden = fs::read_to_string(&path).unwrap();
        let shown = rewritten(&application, &golden);
        if env::var_os("UPDATE_CLIENT").is_some() {
            fs::write(&path, &shown).unwrap();
        } else {
            different.extend(difference(&name, &golden, &shown));
        }
    }
    assert!(
        different.is_empty(),
        "{}\nUPDATE_CLIENT=1 accepts what is shown now",
        different.join("\n")
    );
}

/// The file with what its texts mean now.
fn rewritten(application: &Application, golden: &str) -> String {
    let mut out = String::new();
    for block in golden.split("\n\n") {
        let mut text: Vec<&str> = Vec::new();
        let mut types = "";
        for line in block.trim_end().lines() {
            if let Some(line) = line.strip_prefix("> ").or(line.strip_prefix('>')) {
                text.push(line);
            } else if let Some(named) = line.strip_prefix("types: ") {
                types = named;
            } else if line.starts_with('#') {
                let _ = writeln!(out, "{line}");
            }
        }
        if !text.is_empty() {
            for line in &text {
                let _ = writeln!(out, "> {line}");
            }
            if !types.is_empty() {
                let _ = writeln!(out, "types: {types}");
            }
            out.push_str(&meaning(application, &text.join("\n"), &named_types(types)));
        }
        out.push('\n');
    }
    format!("{}\n", out.trim_end())
}

fn named_types(text: &str) -> Vec<Option<DataType>> {
    let names = text.split(", ").filter(|name| !name.is_empty());
    let named = names.map(|name| {
        let text = format!("PREPARE p ({name}) AS SELECT 1");
        match parse(&text).unwrap().remove(0).kind {
            ClientStatementKind::Prepare {
                mut parameter_types,
                ..
            } => parameter_types.remove(0),
            other => panic!("{other:?}"),
        }
    });
    named.collect()
}

/// What a text means, a line or more a statement.
fn meaning(application: &Application, text: &str, types: &[Option<DataType>]) -> String {
    let statements = match parse(text) {
        Ok(statements) => statements,
        Err(problem) => return refusal(&problem, text, "refused"),
    };
    if statements.is_empty() {
        return "empty\n".into();
    }
    let mut out = String::new();
    for statement in statements {
        assert!(text[statement.start..].starts_with(&*statement.text));
        let compiled = |runnable: &anabranch_sql::client::Runnable, types: &[_]| {
            let own = &text[runnable.start()..];
            assert!(own.starts_with(&**runnable.text()));
            match application.client_statement(runnable, types) {
                Ok(plan) => planned(application, &plan),
                Err(problems) => refusal(&problems[0], runnable.text(), "error"),
            }
        };
        match &statement.kind {
            ClientStatementKind::Run(runnable) => out.push_str(&compiled(runnable, types)),
            ClientStatementKind::Explain { options, statement } => {
                let _ = writeln!(out, "explain {options:?}");
                out.push_str(&compiled(statement, types));
            }
            ClientStatementKind::Prepare {
                name,
                parameter_types,
                statement,
            } => {
                let _ = writeln!(out, "prepare {name} {parameter_types:?}");
                out.push_str(&compiled(statement, parameter_types));
            }
            ClientStatementKind::Execute { name, arguments } => {
                let _ = writeln!(out, "execute {name} with {} arguments", arguments.len());
            }
            ClientStatementKind::Unsupported(problem) => {
                out.push_str(&refusal(problem, &statement.text, "unsupported"));
            }
            other => {
                let _ = writeln!(out, "{other:?}");
            }
        }
    }
    out
}

fn planned(application: &Application, plan: &ClientPlan) -> String {
    let mut out = plan.tag.complete(2);
    if plan.writes {
        out.push_str(", writes");
    }
    match &plan.work {
        ClientWork::Statement(_) => {}
        ClientWork::Constant(_) => out.push_str(", constant"),
        ClientWork::Call {
            procedure,
            arguments,
            shape,
        } => {
            let name = application.procedures[*procedure].name();
            let types: Vec<String> = arguments.types().iter().map(ToString::to_string).collect();
            let _ = write!(out, ", {name}({}) {shape:?}", types.join(", "));
        }
        other => panic!("{other:?}"),
    }
    out.push('\n');
    if let Some(columns) = &plan.columns {
        let columns: Arc<[(String, DataType)]> = columns.clone();
        let shown: Vec<String> = columns
            .iter()
            .map(|(name, of)| format!("{name} {of}"))
            .collect();
        let _ = writeln!(out, "  columns: {}", shown.join(", "));
    }
    if !plan.parameters.is_empty() {
        let shown: Vec<String> = plan.parameters.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "  parameters: {}", shown.join(", "));
    }
    if !plan.session_values.is_empty() {
        let shown: Vec<String> = plan
            .session_values
            .iter()
            .map(ToString::to_string)
            .collect();
        let _ = writeln!(out, "  session: {}", shown.join(", "));
    }
    out
}

/// A refusal with its position in characters, as PostgreSQL counts, and what stands there.
fn refusal(problem: &Diagnostic, text: &str, what: &str) -> String {
    let mut out = format!("{what} {}: {}\n", problem.code, problem.message);
    match problem.span {
        Some(span) => {
            let start = (span.start as usize).min(text.len());
            let position = text[..start].chars().count() + 1;
            let at: String = text[start..]
                .lines()
                .next()
                .unwrap_or("")
                .chars()
                .take(12)
                .collect();
            let _ = writeln!(out, "  at {position}: {at}");
        }
        None => out.push_str("  nowhere\n"),
    }
    if let Some(help) = &problem.help {
        let _ = writeln!(out, "  hint: {help}");
    }
    out
}

fn difference(name: &str, golden: &str, shown: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (
        golden.split("\n\n").collect(),
        shown.split("\n\n").collect(),
    );
    let pairs = old
        .iter()
        .zip(&new)
        .filter(|(old, new)| old.trim() != new.trim());
    let mut found: Vec<String> = pairs
        .map(|(old, new)| format!("{name}:\n-----\n{old}\n+++++\n{new}"))
        .collect();
    if old.len() != new.len() {
        found.push(format!("{name} has another number of blocks"));
    }
    found
}

#[test]
fn plans_can_be_shared_by_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<ClientPlan>();
    is_shared::<anabranch_sql::client::ClientStatement>();
}
