//! docs/sql.md is true: its table of differences, and its list of functions.

use std::collections::BTreeSet;

use anabranch_sql::{
    Application, Diagnostic, SourceFile,
    catalog::builtins,
    client::{ClientStatementKind, parse},
    load, render,
};

const PAGE: &str = include_str!("../../../../docs/sql.md");

/// The part of the page under this heading.
fn section(heading: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(heading).expect("the heading");
    rest.split_once("\n## ")
        .map_or(rest, |(section, _)| section)
}

fn application(schema: &str) -> Application {
    let files = vec![SourceFile::new("schema.sql", schema)];
    load(files.clone())
        .and_then(Application::compile)
        .unwrap_or_else(|problems| panic!("{}", render(&problems, &files)))
}

/// Why a statement is refused, if it is: SQLSTATE and message.
fn refusal(application: &Application, text: &str) -> Option<(String, String)> {
    let told = |problem: &Diagnostic| (problem.code.to_owned(), problem.message.clone());
    let statements = match parse(text) {
        Ok(statements) => statements,
        Err(problem) => return Some(told(&problem)),
    };
    match &statements[0].kind {
        ClientStatementKind::Run(runnable) => {
            let compiled = application.client_statement(runnable, &[]);
            compiled.err().map(|problems| told(&problems[0]))
        }
        ClientStatementKind::Change(change) => {
            let changed = application.change(change);
            let told = changed.err().map(|refused| refused.error);
            told.map(|error| (error.code.to_owned(), error.message.to_string()))
        }
        ClientStatementKind::Unsupported(problem) => Some(told(problem)),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn what_the_page_says_is_refused_is() {
    let page = section("## Differences");
    let schema: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("    CREATE"))
        .collect();
    let application = application(&schema.join("\n"));
    let mut wrong = Vec::new();
    let mut rows = 0;
    for line in page.lines() {
        let cells = line
            .strip_prefix("| `")
            .and_then(|line| line.split_once("` | `"));
        let Some((statement, rest)) = cells else {
            continue;
        };
        let Some((code, _)) = rest.split_once('`').filter(|(code, _)| code.len() == 5) else {
            continue;
        };
        rows += 1;
        let found = refusal(&application, &statement.replace("\\|", "|"));
        if found.as_ref().is_none_or(|(found, _)| found != code) {
            wrong.push(format!("{statement}: {code}, not {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows > 100, "{rows} rows");
}

/// Arguments of every kind.
const ARGUMENTS: [&str; 10] = [
    "1",
    "'a'",
    "2.5",
    "2.5::float8",
    "now()",
    "DATE '2024-01-31'",
    "ARRAY[1]",
    "true",
    "'\\x00'::bytea",
    "'items'",
];

/// Lists of more arguments, and of documents.
const LONG: [&str; 10] = [
    "'{}'",
    "'{}', 'a'",
    "'{}', '{a}', '1'",
    "'a', 1, 1",
    "'a', 'b', 'c'",
    "'a', 'b', 1",
    "'a', 'b', true",
    "1, 1, 1",
    "ARRAY[1], 1, 2",
    "'a', 'b', 'c', 'd'",
];

/// Arguments of functions that return rows.
const ROWS: [&str; 8] = [
    "'[]'",
    "'{}'",
    "1",
    "1, 2",
    "'a', ','",
    "ARRAY[1]",
    "ARRAY[1], 1",
    "'items'",
];

/// Whether this name compiles: by itself, or called in a select list or in FROM with any of these arguments.
fn is_called(application: &Application, name: &str) -> bool {
    let compiles = |text: String| refusal(application, &text).is_none();
    if compiles(format!("SELECT {name}")) {
        return true;
    }
    let mut lists = vec![String::new()];
    for first in ARGUMENTS {
        lists.push(first.to_owned());
        let seconds = ["1", "'a'", "ARRAY[1]", "now()", "2.5::float8"];
        lists.extend(seconds.map(|second| format!("{first}, {second}")));
    }
    lists.extend(LONG.map(str::to_owned));
    let is_value = |list: &String| compiles(format!("SELECT {name}({list})"));
    let returns_rows = |list: &&str| compiles(format!("SELECT * FROM {name}({list})"));
    lists.iter().any(is_value) || ROWS.iter().any(returns_rows)
}

/// The functions that the page lists.
fn listed() -> BTreeSet<&'static str> {
    let functions = section("## Functions and operators");
    let (functions, _) = functions
        .split_once("| group | operators |")
        .expect("the table of operators");
    let quoted = functions.split('`').skip(1).step_by(2);
    quoted
        .filter(|text| {
            text.bytes()
                .all(|b| b == b'_' || b.is_ascii_lowercase() || b.is_ascii_digit())
        })
        .collect()
}

/// The calls of what is syntax of its own.
const SPECIAL: [(&str, &str); 29] = [
    ("enum_first", "SELECT enum_first(NULL::mood)"),
    ("enum_last", "SELECT enum_last(NULL::mood)"),
    ("enum_range", "SELECT enum_range(NULL::mood)"),
    ("row_to_json", "SELECT row_to_json(items) FROM items"),
    ("date_part", "SELECT date_part('year', now())"),
    ("date_trunc", "SELECT date_trunc('year', now())"),
    ("extract", "SELECT extract(year FROM now())"),
    ("position", "SELECT position('a' IN 'b')"),
    ("row_number", "SELECT row_number() OVER (ORDER BY 1)"),
    ("rank", "SELECT rank() OVER (ORDER BY 1)"),
    ("dense_rank", "SELECT dense_rank() OVER (ORDER BY 1)"),
    ("percent_rank", "SELECT percent_rank() OVER (ORDER BY 1)"),
    ("cume_dist", "SELECT cume_dist() OVER (ORDER BY 1)"),
    ("ntile", "SELECT ntile(2) OVER (ORDER BY 1)"),
    ("lag", "SELECT lag(1) OVER (ORDER BY 1)"),
    ("lead", "SELECT lead(1, 2, 3) OVER (ORDER BY 1)"),
    ("first_value", "SELECT first_value(1) OVER (ORDER BY 1)"),
    ("last_value", "SELECT last_value(1) OVER (ORDER BY 1)"),
    ("nth_value", "SELECT nth_value(1, 2) OVER (ORDER BY 1)"),
    ("currval", "SELECT currval('numbers')"),
    ("nextval", "SELECT nextval('numbers')"),
    ("setval", "SELECT setval('numbers', 1)"),
    ("timezone", "SELECT timezone('UTC', now())"),
    ("make_timestamp", "SELECT make_timestamp(1, 1, 1, 1, 1, 1)"),
    (
        "make_timestamptz",
        "SELECT make_timestamptz(1, 1, 1, 1, 1, 1)",
    ),
    (
        "mode",
        "SELECT mode() WITHIN GROUP (ORDER BY id) FROM items",
    ),
    (
        "percentile_cont",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM items",
    ),
    (
        "percentile_disc",
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY id) FROM items",
    ),
    ("width_bucket", "SELECT width_bucket(1, 1, 2, 3)"),
];

/// Words before a bracket that call no function: `SELECT NOT (true)`.
const SYNTAX: [&str; 6] = ["not", "distinct", "all", "exists", "array", "row"];

#[test]
fn the_page_lists_the_functions_that_there_are() {
    let application = application(
        "CREATE TABLE items (id integer PRIMARY KEY, name text); CREATE SEQUENCE numbers; CREATE TYPE mood AS ENUM ();",
    );
    let listed = listed();
    assert!(listed.len() > 150, "{} functions", listed.len());
    let mut wrong = Vec::new();
    for name in &listed {
        let special = SPECIAL.iter().find(|(of, _)| of == name);
        let is_there = match special {
            Some((_, call)) => refusal(&application, call).is_none(),
            None => is_called(&application, name),
        };
        if !is_there {
            wrong.push(format!("{name} is listed, and refused"));
        }
    }
    let plain = |name: &&str| name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
    let others: BTreeSet<&str> = builtins().filter(plain).collect();
    for name in others {
        let is_known = listed.contains(name) || SYNTAX.contains(&name);
        if !is_known && is_called(&application, name) {
            wrong.push(format!("{name} is there, and not listed"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
