//! MERGE: the analyser sees its clauses as statements.
//!
//! `changes/merge.sql` has what it does, with PostgreSQL 15's answers.

use anabranch_sql::summary::{Role, StatementSummary, TableAccess};
use anabranch_sql::{Application, SourceFile, load, render, script::read};

const SCHEMA: &str = "
CREATE TABLE stock (id bigint PRIMARY KEY, n integer NOT NULL CHECK (n >= 0), place text, kept boolean);
CREATE TABLE delivery (id bigint PRIMARY KEY, item bigint NOT NULL, n integer NOT NULL, of text);
";

fn compiled(text: &str) -> Result<Application, String> {
    let files = vec![SourceFile::new("merge.sql", format!("{SCHEMA}{text}"))];
    let application = load(files.clone()).and_then(Application::compile);
    application.map_err(|problems| render(&problems, &files))
}

/// The statements of a procedure with these parameters and this body.
fn statements(body: &str) -> Vec<StatementSummary> {
    let text = format!(
        "CREATE PROCEDURE p(p_item bigint, p_n integer, p_of text) LANGUAGE SQL BEGIN ATOMIC {body}; END;"
    );
    let application = compiled(&text).unwrap_or_else(|shown| panic!("{shown}"));
    application.summaries()[0].statements.clone()
}

/// Accesses, without the numbers of statements and accesses.
fn shown(access: &TableAccess) -> String {
    let mut columns = access.columns_read.clone();
    columns.sort_unstable();
    let text = format!(
        "{:?} {:?} reads {columns:?} writes {:?} where {:?} {}",
        access.table, access.role, access.writes, access.conditions, access.has_other_conditions
    );
    // The number of an access depends on those before it.
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("statement: StatementId(") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find("column").unwrap_or(rest.len());
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

#[track_caller]
fn same(merge: &str, apart: &[&str]) {
    let merged = statements(merge);
    assert_eq!(merged.len(), 1, "{merge}");
    let of_merge: Vec<String> = merged[0].accesses.iter().map(shown).collect();
    let apart = apart.iter().flat_map(|body| statements(body));
    let of_apart: Vec<String> = apart.flat_map(|s| s.accesses).map(|a| shown(&a)).collect();
    assert_eq!(of_merge, of_apart, "{merge}");
    assert!(merged[0].may_skip_rows && !merged[0].inserts_one);
}

#[test]
fn every_clause_is_a_statement() {
    same(
        "MERGE INTO stock AS s USING (SELECT p_item AS item, p_n AS n) AS d ON s.id = d.item
         WHEN MATCHED THEN UPDATE SET n = s.n + d.n
         WHEN NOT MATCHED THEN INSERT (id, n, place) VALUES (d.item, d.n, DEFAULT)",
        &[
            "UPDATE stock AS s SET n = s.n + d.n FROM (SELECT p_item AS item, p_n AS n) AS d WHERE s.id = d.item",
            "INSERT INTO stock (id, n) SELECT d.item, d.n FROM (SELECT p_item AS item, p_n AS n) AS d
             WHERE NOT EXISTS (SELECT 1 FROM stock AS s WHERE s.id = d.item)",
        ],
    );
    same(
        "MERGE INTO stock USING delivery AS d ON stock.id = d.item
         WHEN MATCHED AND stock.n + d.n <= 0 THEN DELETE
         WHEN MATCHED AND stock.kept THEN DO NOTHING
         WHEN MATCHED THEN UPDATE SET n = stock.n + d.n, place = p_of
         WHEN NOT MATCHED AND d.of = p_of THEN INSERT VALUES (d.item, d.n, d.of, false)",
        &[
            "DELETE FROM stock USING delivery AS d WHERE (stock.id = d.item) AND (stock.n + d.n <= 0)",
            "UPDATE stock SET n = stock.n + d.n, place = p_of FROM delivery AS d WHERE stock.id = d.item
             AND (stock.n + d.n <= 0) IS NOT TRUE AND stock.kept IS NOT TRUE",
            "INSERT INTO stock SELECT d.item, d.n, d.of, false FROM delivery AS d
             WHERE NOT EXISTS (SELECT 1 FROM stock WHERE stock.id = d.item) AND d.of = p_of",
        ],
    );
    same(
        "MERGE INTO stock USING delivery AS d ON stock.id = d.item
         WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = 0",
        &[
            "UPDATE stock SET n = 0 WHERE NOT EXISTS (SELECT 1 FROM delivery AS d WHERE stock.id = d.item)",
        ],
    );
}

#[test]
fn conditions_of_clauses_are_read() {
    let merged = statements(
        "MERGE INTO stock USING delivery AS d ON stock.id = d.item WHEN MATCHED AND stock.kept THEN DO NOTHING
         WHEN MATCHED THEN DELETE",
    );
    let target = &merged[0].accesses[0];
    assert_eq!(target.role, Role::Delete);
    let read: Vec<u16> = target.columns_read.iter().map(|c| c.0).collect();
    assert!(read.contains(&0) && read.contains(&3), "{read:?}");
}

#[test]
fn unsupported_forms_are_refused_or_skipped() {
    for body in [
        "MERGE INTO stock USING delivery AS d ON stock.id = d.item WHEN MATCHED THEN DELETE RETURNING d.n",
        "MERGE INTO stock USING delivery AS d ON stock.id = d.item WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE",
    ] {
        let text = format!("CREATE PROCEDURE p() LANGUAGE SQL BEGIN ATOMIC {body}; END;");
        assert!(compiled(&text).is_err(), "{body}");
        let files = vec![
            SourceFile::new("a.sql", SCHEMA),
            SourceFile::new("b.sql", format!("{body};")),
        ];
        let script = read(files).expect("the tables are there");
        let summary = &script.summaries[0];
        assert!(summary.unknown.is_some(), "{body}");
        let all_done = summary.possible_statements(script.application.catalog());
        let mut accesses = all_done.iter().flat_map(|s| &s.accesses);
        assert!(accesses.any(|a| a.role == Role::Delete), "{body}");
    }
}
