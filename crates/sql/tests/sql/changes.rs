//! A schema that changes while it has rows: what clients are told, what becomes of the rows, and that the text of the
//! new schema is all that a restart needs.

mod database;
mod generator;

use std::{fs, path::Path};

use anabranch_sql::{
    Application, SourceFile,
    client::{self, ClientStatementKind},
    load,
};
use database::{Database, check_restart, compiled, parsed};
use generator::Generator;

/// Statements and their answers, as a file has them: a statement up to `;` at the end of a line, the answer behind it,
/// then an empty line.
#[track_caller]
fn check_script(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql/changes");
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
fn sequences_of_columns_have_names_of_their_own() {
    check_script("sequences.sql");
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
fn generated_columns_change_with_what_they_read() {
    check_script("generated.sql");
}

/// With PostgreSQL 15's answers.
#[test]
fn triggers_fire_and_change() {
    check_script("triggers.sql");
}

/// With PostgreSQL 15's answers.
#[test]
fn statements_that_change_data_in_a_with_run() {
    check_script("with.sql");
}

/// With PostgreSQL 15's answers.
#[test]
fn merge_runs() {
    check_script("merge.sql");
}

/// With PostgreSQL 15's answers.
#[test]
fn functions_of_one_value_stand_in_from() {
    check_script("values_in_from.sql");
}

/// With PostgreSQL 15's answers.
#[test]
fn outer_joins_have_subqueries_in_their_conditions() {
    check_script("outer_joins.sql");
}

#[test]
fn indexes_of_expressions_and_of_some_rows_change() {
    check_script("indexes.sql");
}

#[test]
fn types_are_created_and_dropped() {
    check_script("enums.sql");
}

#[test]
fn what_depends_on_something_goes_with_it() {
    check_script("dependents.sql");
}

/// The statements of a script as psql sends them: without its own commands and the data of COPY.
fn statements(script: &str) -> Vec<String> {
    let mut text = String::new();
    let mut is_data = false;
    for line in script.lines() {
        if is_data {
            is_data = line != "\\.";
        } else if !line.starts_with('\\') {
            text.push_str(line);
            text.push('\n');
            is_data = line.starts_with("COPY ") && line.ends_with("FROM stdin;");
        }
    }
    let parsed = client::parse(&text).unwrap_or_else(|problem| panic!("{problem:?}"));
    parsed.iter().map(|one| one.text.to_string()).collect()
}

/// Applies the changes of a script; the other statements are those that start with these words.
#[track_caller]
fn replay(name: &str, others: &[&str]) -> Database {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql/changes");
    let script = fs::read_to_string(folder.join(name)).unwrap();
    let mut database = Database::new("");
    let mut count = 0;
    for text in statements(&script) {
        match parsed(&text) {
            ClientStatementKind::Change(statement) => {
                let answer = database.change_unchecked(&statement);
                let tag = answer
                    .lines()
                    .last()
                    .unwrap()
                    .trim_end_matches(" (nothing)");
                assert_eq!(tag, statement.tag(), "{text}: {answer}");
                count += 1;
            }
            _ => {
                let is_other = others.iter().any(|words| text.starts_with(words));
                assert!(is_other, "{text}");
            }
        }
    }
    assert!(count > 5, "{count} changes");
    database
}

#[test]
fn pgbench_makes_its_tables() {
    let others = ["insert", "copy", "begin", "commit", "vacuum"];
    let mut database = replay("pgbench.sql", &others);
    let text = database.application.declarations();
    for part in [
        "CONSTRAINT pgbench_accounts_pkey PRIMARY KEY (aid)",
        "FOREIGN KEY (aid) REFERENCES pgbench_accounts (aid)",
        "filler character(88)",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    database.run("INSERT INTO pgbench_branches VALUES (1, 0)");
    let answer = database.run("INSERT INTO pgbench_branches VALUES (1, 0)");
    assert!(answer.starts_with("23505"), "{answer}");
}

const OF_PG_DUMP: [&str; 3] = ["SET ", "SELECT pg_catalog.", "COPY "];

#[test]
fn a_dump_of_tpcc_gives_the_same_schema() {
    let database = replay("tpcc_dump.sql", &OF_PG_DUMP);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tpcc");
    let file = |name: &str| SourceFile::new(name, fs::read_to_string(folder.join(name)).unwrap());
    let names = ["assertions.sql", "procedures.sql", "schema.sql"];
    let original = compiled(names.map(file).to_vec());
    let objects = |application: &Application| {
        let catalog = application.catalog();
        let mut objects: Vec<String> = Vec::new();
        for (table, schema) in catalog.tables.iter().zip(&catalog.schema.tables) {
            let mut indexes: Vec<String> = schema
                .indexes
                .iter()
                .map(|of| format!("{} {:?}", of.name, of.columns))
                .collect();
            indexes.sort();
            let mut keys: Vec<String> = table
                .foreign_keys
                .iter()
                .map(|key| format!("{} {:?}", key.name, key.columns))
                .collect();
            keys.sort();
            let mut checks: Vec<&str> = table.checks.iter().map(|check| &*check.name).collect();
            checks.sort_unstable();
            objects.push(format!(
                "{} {:?} {:?} {:?} {indexes:?} {keys:?} {checks:?}",
                table.name, schema.columns, schema.primary_key, table.primary_key_name
            ));
        }
        objects.extend(application.procedures.iter().map(|of| of.name().to_owned()));
        objects.sort();
        objects
    };
    let pairs = objects(&database.application)
        .into_iter()
        .zip(objects(&original));
    for (loaded, original) in pairs {
        assert_eq!(loaded, original);
    }
    let count = |application: &Application| objects(application).len();
    assert_eq!(count(&database.application), count(&original));
}

#[test]
fn a_dump_has_sequences_views_and_functions_before_their_tables() {
    let mut database = replay("dump.sql", &OF_PG_DUMP);
    let names: Vec<&str> = database
        .application
        .procedures
        .iter()
        .map(|of| of.name())
        .collect();
    assert_eq!(names, ["twice", "add_order", "pay"]);
    let text = database.application.declarations();
    for part in [
        "id serial NOT NULL",
        "id bigint GENERATED BY DEFAULT AS IDENTITY NOT NULL",
        "\"Mixed Case\" text DEFAULT 'it''s'::text",
        "CREATE SEQUENCE loose",
        "ON DELETE CASCADE",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("customers_id_seq"), "{text}");
    assert_eq!(
        database.run("INSERT INTO customers (name) VALUES ('a')"),
        "#1"
    );
    assert_eq!(
        database.run("SELECT id, \"Mixed Case\", score FROM customers"),
        "1|it's|0.00"
    );
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
        "CREATE TRIGGER x AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "CREATE TABLE t (a inet)",
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

/// After each random change the text of the schema is all that a restart needs, which the database checks itself. What
/// PostgreSQL answers to the same statements is compared in `anabranch-bench`.
#[test]
fn random_changes_leave_a_text_that_loads_to_the_same_schema() {
    let (mut succeeded, mut sent) = (0, 0);
    for seed in 0..30 {
        let mut database = Database::new("");
        let mut generator = Generator::new(seed);
        for _ in 0..100 {
            let statement = generator.statement(&database.application);
            sent += 1;
            if database.answer(&statement).is_ok() {
                succeeded += 1;
            }
        }
    }
    assert!(succeeded * 3 > sent, "{succeeded} of {sent}");
}
