//! Incremental reading: types that are added later have the same summaries as if all files were read at once.

use std::collections::BTreeSet;
use std::path::Path;

use anabranch_sql::script::{Script, read};
use anabranch_sql::summary::TransactionSummary;
use anabranch_sql::{SourceFile, render};

fn all(files: &[SourceFile]) -> Script {
    read(files.to_vec()).unwrap_or_else(|found| panic!("{}", render(&found, files)))
}

/// A summary with its statements numbered from 0, and without places.
fn plain(summary: &TransactionSummary) -> String {
    let mut shown = format!("{summary:?}");
    for (number, statement) in summary.statements.iter().enumerate() {
        let (id, plain) = (format!("{:?}", statement.id), format!("#{number}"));
        shown = shown.replace(&id, &plain);
    }
    let mut parts = shown.split("Span {");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain += part.split_once('}').map_or(part, |(_, rest)| rest);
    }
    plain
}

fn by_name(script: &Script) -> Vec<String> {
    let mut shown: Vec<String> = script.summaries.iter().map(plain).collect();
    shown.sort_unstable();
    shown
}

fn skipped(script: &Script) -> Vec<String> {
    let all = script.skipped.iter();
    let mut shown: Vec<String> = all
        .map(|left| format!("{}: {}", left.diagnostic.message, left.meaning))
        .collect();
    shown.sort_unstable();
    shown
}

/// No two statements have the same number.
fn assert_numbered_once(script: &Script) {
    let statements = script.summaries.iter().flat_map(|of| &of.statements);
    let mut seen = BTreeSet::new();
    assert!(statements.into_iter().all(|of| seen.insert(of.id)));
}

fn assert_same_as_at_once(name: &str, before: &[SourceFile], pieces: &[SourceFile]) {
    let mut script = all(before);
    let there = script.summaries.len();
    let mut joined = 0;
    for piece in pieces {
        let names = script.add_file(piece.clone());
        let files = script.application.catalog().files.clone();
        joined += names
            .unwrap_or_else(|found| panic!("{name}: {}", render(&found, &files)))
            .len();
    }
    let whole = [before, pieces].concat();
    let whole = all(&whole);
    assert!(joined > 0, "{name}");
    assert_eq!(there + joined, whole.summaries.len(), "{name}");
    for (joined, read) in by_name(&script).iter().zip(by_name(&whole)) {
        assert_eq!(*joined, read, "{name}");
    }
    assert_eq!(skipped(&script), skipped(&whole), "{name}");
    assert_eq!(script.has_clients, whole.has_clients, "{name}");
    let names = |script: &Script| -> Vec<String> {
        let summaries = script.application.summaries().iter();
        summaries.map(|of| of.name.clone()).collect()
    };
    // Analysed types are in the order of the application.
    let known = names(&script);
    let first: Vec<String> = script.summaries[..known.len()]
        .iter()
        .map(|of| of.name.clone())
        .collect();
    assert_eq!(known, first, "{name}");
    assert_numbered_once(&script);
}

#[test]
fn procedures_of_the_examples_are_added() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for example in std::fs::read_dir(folder).expect("there are examples") {
        let example = example.expect("it can be listed").path();
        let file = |name: &str| {
            let text = std::fs::read_to_string(example.join(name)).ok()?;
            Some(SourceFile::new(name, text))
        };
        let (Some(schema), Some(procedures)) = (file("schema.sql"), file("procedures.sql")) else {
            continue;
        };
        let before: Vec<SourceFile> = [Some(schema), file("assertions.sql")]
            .into_iter()
            .flatten()
            .collect();
        let name = example.display().to_string();
        assert_same_as_at_once(&name, &before, &[procedures]);
        seen += 1;
    }
    assert!(seen > 15, "{seen}");
}

/// The declarations of a text, and its named queries one by one.
fn cut(text: &str) -> (SourceFile, Vec<SourceFile>) {
    let mut parts = text.split("-- name:");
    let schema = parts.next().expect("there is one");
    let pieces = parts
        .enumerate()
        .map(|(at, part)| SourceFile::new(format!("{at}.sql"), format!("-- name:{part}")));
    (SourceFile::new("schema.sql", schema), pieces.collect())
}

#[test]
fn queries_are_added_one_by_one() {
    // With generated columns, timestamp triggers, enumerations, opaque types, and SQL that cannot be analysed.
    let shop = include_str!("postgres/shop.sql");
    let (queries, rest) = shop.split_once("CREATE DOMAIN").expect("it is there");
    let (schema, mut pieces) = cut(queries);
    let (altered, routine) = rest.split_once("CREATE FUNCTION").expect("it is there");
    let (routine, _) = routine.split_once("-- migrate:down").expect("it is there");
    let schema = SourceFile::new(
        "schema.sql",
        format!("{}CREATE DOMAIN{altered}", schema.text),
    );
    pieces.push(SourceFile::new(
        "routine.sql",
        format!("CREATE FUNCTION{routine}"),
    ));
    assert!(pieces.len() > 15);
    assert_same_as_at_once("shop", &[schema], &pieces);
    let (_, pieces) = cut(include_str!("mysql/queries.sql"));
    let schema = SourceFile::new("dump.sql", include_str!("mysql/dump.sql"));
    assert!(pieces.len() > 3);
    assert_same_as_at_once("mysql", &[schema], &pieces);
}

const SCHEMA: &str = "CREATE TABLE t (id bigint PRIMARY KEY, n bigint NOT NULL CHECK (n >= 0), d jsonb);
CREATE TABLE u (id bigint PRIMARY KEY, n bigint NOT NULL);
CREATE FUNCTION bump(p bigint) RETURNS void LANGUAGE sql AS $$ UPDATE t SET n = n + 1 WHERE id = p $$;
CREATE TRIGGER odd BEFORE DELETE ON t FOR EACH ROW EXECUTE FUNCTION undeclared();
-- name: Odd :exec
UPDATE t SET n = missing() WHERE id IN (SELECT strange FROM t);
";

fn script() -> Script {
    all(&[SourceFile::new("a.sql", SCHEMA)])
}

#[test]
fn an_added_procedure_calls_earlier_and_added_ones() {
    let mut script = script();
    let first = "CREATE FUNCTION twice(p bigint) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM bump(p); PERFORM bump(p); END $$;";
    let second = "CREATE FUNCTION thrice(p bigint) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM bump(p); PERFORM twice(p); END $$;";
    assert_eq!(
        script
            .add_file(SourceFile::new("b.sql", first))
            .expect("it is right"),
        ["twice"]
    );
    assert_eq!(
        script
            .add_file(SourceFile::new("c.sql", second))
            .expect("it is right"),
        ["thrice"]
    );
    let find = |name: &str| script.summaries.iter().find(|of| of.name == name);
    let twice = find("twice").expect("it joined");
    let thrice = find("thrice").expect("it joined");
    assert!(thrice.statements.len() > twice.statements.len());
    assert_eq!(script.summaries.last().expect("there are some").name, "Odd");
    assert_numbered_once(&script);
}

#[test]
fn earlier_declarations_apply_to_added_types() {
    let mut script = script();
    let text = "-- name: Remove :exec\nDELETE FROM t WHERE id = $1;\n-- name: Bump :exec\nUPDATE u SET n = n + $2 WHERE id = $1;";
    let names = script
        .add_file(SourceFile::new("b.sql", text))
        .expect("it is right");
    assert_eq!(names, ["Remove", "Bump"]);
    let unknown = |name: &str| {
        let found = script.summaries.iter().find(|of| of.name == name);
        found.expect("it joined").unknown.is_some()
    };
    // The trigger was not analysed.
    assert!(unknown("Remove"));
    assert!(!unknown("Bump"));
}

#[test]
fn names_that_are_taken_get_a_number() {
    let mut script = script();
    let text = "-- name: Odd :exec\nUPDATE t SET n = 1 WHERE id = $1;\n-- name: bump :exec\nSELECT n FROM t WHERE id = $1;";
    let names = script
        .add_file(SourceFile::new("b.sql", text))
        .expect("it is right");
    assert_eq!(names, ["Odd_2", "bump_query"]);
}

#[test]
fn a_file_that_changes_declarations_is_refused_without_effect() {
    for (text, expected) in [
        ("CREATE TABLE v (id bigint PRIMARY KEY);", "something other"),
        ("ALTER TABLE t ADD CHECK (n < 10);", "something other"),
        ("CREATE TYPE mood AS ENUM ('a');", "something other"),
        (
            "CREATE TRIGGER more BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f();",
            "something other",
        ),
        (
            "CREATE ASSERTION a CHECK (NOT EXISTS (SELECT * FROM t WHERE n = 5));",
            "something other",
        ),
        ("DROP TABLE t;", "something other"),
        (
            "CREATE OR REPLACE FUNCTION bump(p bigint) RETURNS void LANGUAGE sql AS $$ SELECT 1 $$;",
            "exists already",
        ),
        (
            "CREATE FUNCTION Odd() RETURNS void LANGUAGE sql AS $$ SELECT 1 $$; DROP TABLE t;",
            "something other",
        ),
    ] {
        let mut script = script();
        let before = by_name(&script);
        let told = skipped(&script);
        let text = format!("-- name: Fine :exec\nUPDATE t SET n = 2 WHERE id = $1;\n\n{text}");
        let found = script
            .add_file(SourceFile::new("b.sql", text.as_str()))
            .expect_err(&text);
        assert!(
            found[0].message.contains(expected),
            "{text}: {}",
            found[0].message
        );
        assert_eq!(found[0].code, "55000");
        assert_eq!(by_name(&script), before);
        assert_eq!(skipped(&script), told);
        assert_eq!(script.application.catalog().files.len(), 1);
        let names = script.add_file(SourceFile::new(
            "b.sql",
            "-- name: Fine :exec\nUPDATE t SET n = 2 WHERE id = $1;",
        ));
        assert_eq!(names.expect("it is right"), ["Fine"], "{text}");
    }
}
