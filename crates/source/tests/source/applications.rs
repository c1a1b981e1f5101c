//! Small applications in each language and the transactions extracted from them. Each folder of `applications` has
//! its source, its tables and `expected.txt`. There, `?` marks a branch, `*` a loop, `!` an unknown part, and `~` a
//! rule inferred from a check in the code. In statements, `<:name>` is a bound value and `<~:name>` a value known
//! only during the transaction.

use std::path::Path;

use anabranch_source::Program;
use anabranch_sql::SourceFile;
use anabranch_sql::script::Script;

use crate::support::{analysed_files, told};

/// The files of one of `tests/source/applications`, SQL and others, by name.
fn application(name: &str) -> (Vec<SourceFile>, Vec<SourceFile>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/source/applications")
        .join(name);
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .expect("the application is there")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    paths.sort();
    let mut files: (Vec<SourceFile>, Vec<SourceFile>) = Default::default();
    for path in paths {
        let file = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name");
        let text = std::fs::read_to_string(&path).expect("it is text");
        let file = SourceFile::new(file, text);
        match path.extension() == Some("sql".as_ref()) {
            true => files.0.push(file),
            false => files.1.push(file),
        }
    }
    files
}

/// The program, and the script that the analyser gets.
fn analysed(name: &str) -> (Program, Script) {
    let (sql, programs) = application(name);
    analysed_files(sql, programs)
}

/// The expected transactions, written by hand.
fn expected(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/source/applications");
    std::fs::read_to_string(folder.join(name).join("expected.txt")).unwrap_or_default()
}

#[track_caller]
fn is_as_expected(name: &str) {
    let (program, script) = analysed(name);
    let found = told(&program);
    assert_eq!(found, expected(name), "{name}:\n{found}");
    assert!(program.broken.is_empty(), "{:?}", program.broken);
    // The analyser skips exactly what is not known.
    for left in &script.skipped {
        let name = left
            .transaction
            .as_deref()
            .expect("it belongs to a transaction");
        let client = program.clients.iter().find(|c| c.name == name);
        let unresolved = client.is_some_and(|c| !c.unresolved.is_empty());
        assert!(unresolved, "{name}: {}", left.diagnostic.message);
        let summary = script.summaries.iter().find(|s| s.name == name);
        assert!(summary.is_some_and(|s| s.unknown.is_some()), "{name}");
    }
    assert_eq!(script.summaries.len(), program.clients.len());
}

#[test]
fn jdbc_in_java() {
    is_as_expected("bank-java");
}

#[test]
fn psycopg_and_sqlalchemy_in_python() {
    is_as_expected("shop-python");
}

#[test]
fn database_sql_in_go() {
    is_as_expected("stock-go");
}

#[test]
fn node_postgres_and_knex_in_javascript_and_typescript() {
    is_as_expected("orders-node");
}

#[test]
fn pdo_and_mysqli_in_php() {
    is_as_expected("library-php");
}
