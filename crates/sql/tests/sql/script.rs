//! Scripts of clients: named queries, groups, transactions and loose statements; and what is skipped of them.

use std::collections::BTreeSet;

use anabranch_sql::script::{Script, forget_order, invariants, read};
use anabranch_sql::summary::{Comparison, ResultUse, Role, Term};
use anabranch_sql::{SourceFile, render};

const SCHEMA: &str = "CREATE TABLE author (id bigint PRIMARY KEY, name text NOT NULL, n integer);
CREATE TABLE book (id bigint PRIMARY KEY, writer bigint NOT NULL REFERENCES author (id), left_n integer);
";

fn script(texts: &[&str]) -> Script {
    let mut files = vec![SourceFile::new("schema.sql", SCHEMA)];
    for (at, text) in texts.iter().enumerate() {
        files.push(SourceFile::new(format!("q{at}.sql"), *text));
    }
    read(files.clone()).unwrap_or_else(|found| panic!("{}", render(&found, &files)))
}

fn names(script: &Script) -> Vec<&str> {
    script.summaries.iter().map(|s| s.name.as_str()).collect()
}

fn parameters<'s>(script: &'s Script, name: &str) -> Vec<(&'s str, String)> {
    let summary = script
        .summaries
        .iter()
        .find(|s| s.name == name)
        .expect("it is there");
    let of = |(name, of): &'s (String, anabranch_types::DataType)| (name.as_str(), of.to_string());
    summary.parameters.iter().map(of).collect()
}

#[test]
fn queries_have_names_as_in_sqlc() {
    let script = script(&["-- name: GetAuthor :one
SELECT * FROM author WHERE id = $1 LIMIT 1;

-- name: Rename :exec
UPDATE author SET name = sqlc.arg(new_name), n = coalesce(sqlc.narg('n'), n) WHERE id = @id;
/* name: Drop :execrows */
DELETE FROM author WHERE id = $1;
"]);
    assert_eq!(names(&script), ["GetAuthor", "Rename", "Drop"]);
    assert!(script.skipped.is_empty(), "{:?}", script.skipped);
    assert_eq!(parameters(&script, "GetAuthor"), [("$1", "bigint".into())]);
    let expected = [
        ("@new_name", "text".into()),
        ("@n", "integer".into()),
        ("@id", "bigint".into()),
    ];
    assert_eq!(parameters(&script, "Rename"), expected);
}

#[test]
fn groups_and_labels_are_transactions() {
    let script = script(&["move {
  UPDATE author SET n = n - :k WHERE id = :a;
  UPDATE author SET n = n + :k WHERE id = :b;
}
selectAll:
SELECT * FROM author;
BEGIN;
SELECT n FROM author WHERE id = $1;
UPDATE author SET n = $2 WHERE id = $1;
COMMIT;

-- Take a book out
START TRANSACTION;
SAVEPOINT s;
UPDATE book SET left_n = left_n - 1 WHERE id = ?;
UPDATE author SET n = n + 1 WHERE id = ?;
END;
BEGIN; DELETE FROM book; ROLLBACK;
DELETE FROM author WHERE name=:name AND id::text <> '?';
"]);
    let found = [
        "move",
        "selectAll",
        "q0.sql:7",
        "take_a_book_out",
        "q0.sql:19",
    ];
    assert_eq!(names(&script), found);
    assert!(script.skipped.is_empty(), "{:?}", script.skipped);
    let of = |name: &str| {
        parameters(&script, name)
            .iter()
            .map(|p| p.0.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("move"), [":k", ":a", ":b"]);
    // Positions count within one statement.
    assert_eq!(of("q0.sql:7"), ["$1 of 1", "$2 of 2", "$1 of 2"]);
    assert_eq!(of("take_a_book_out"), ["?1", "?2"]);
    assert_eq!(of("q0.sql:19"), [":name"]);
    // The client sees the result of each statement.
    let used = |name: &str| {
        let summary = script
            .summaries
            .iter()
            .find(|s| s.name == name)
            .expect("it is there");
        summary
            .statements
            .iter()
            .all(|s| s.result == ResultUse::Used)
    };
    assert!(used("q0.sql:7") && used("take_a_book_out") && !used("q0.sql:19"));
}

#[test]
fn unparsed_statements_may_do_anything_to_what_they_name() {
    let script = script(&["-- name: Upsert :exec
INSERT INTO book SET id = $1, writer = $2;
-- name: Peek :one
SELECT upper(name) FROM author TABLESAMPLE SYSTEM (10);
-- name: Wipe :exec
TRUNCATE book CASCADE;
-- name: Fine :exec
DELETE FROM book WHERE id = $1;
-- name: Broken :exec
UPDATE author SET name = 'it''s WHERE id = $1;
"]);
    assert_eq!(names(&script), ["Fine", "Upsert", "Peek", "Wipe", "Broken"]);
    let reach = |name: &str| {
        let summary = script
            .summaries
            .iter()
            .find(|s| s.name == name)
            .expect("it is there");
        assert_eq!(summary.unknown.is_some(), name != "Fine", "{name}");
        let all_done = summary.possible_statements(script.application.catalog());
        let accesses = all_done.iter().flat_map(|s| &s.accesses);
        let mut tables: Vec<(u16, Role)> = accesses.map(|a| (a.table.0, a.role)).collect();
        tables.sort_by_key(|(table, role)| (*table, *role as u8));
        tables
    };
    let any =
        |table| [Role::Read, Role::Insert, Role::Update, Role::Delete].map(|role| (table, role));
    assert_eq!(reach("Upsert"), [(1, Role::Read), (1, Role::Insert)]);
    assert_eq!(reach("Peek"), [(0, Role::Read)]);
    assert_eq!(reach("Wipe"), [any(0), any(1)].concat());
    assert_eq!(reach("Broken"), any(0));
    let told: Vec<_> = script
        .skipped
        .iter()
        .map(|l| l.transaction.as_deref())
        .collect();
    assert_eq!(
        told,
        [Some("Upsert"), Some("Peek"), Some("Wipe"), Some("Broken")]
    );
    let wipe = script.skipped[2].diagnostic.span.expect("it has a place");
    let file = &script.application.catalog().files[usize::from(wipe.file)];
    assert_eq!(file.line_column(wipe.start), (6, 1));
}

#[test]
fn skipped_declarations_make_their_users_unknown() {
    let script = script(&["CREATE TABLE shop (id bigint PRIMARY KEY) INHERITS (author);
CREATE TABLE shelf (id bigint PRIMARY KEY, shop bigint REFERENCES shop (id));
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE book SET left_n = 0; RETURN NEW; END $$;
CREATE TRIGGER touched AFTER UPDATE ON author FOR EACH ROW EXECUTE FUNCTION touch();
DELETE FROM shelf WHERE id = $1;
UPDATE author SET n = 0 WHERE id = $1;
DELETE FROM book WHERE id = $1;
"]);
    let messages: Vec<&str> = script.skipped.iter().map(|l| l.meaning.as_str()).collect();
    assert_eq!(messages.len(), 4, "{:#?}", script.skipped);
    assert!(
        messages[0].starts_with("shop and its constraints"),
        "{messages:?}"
    );
    assert!(
        messages[1].starts_with("transactions that write shelf (id, shop)"),
        "{messages:?}"
    );
    assert!(
        messages[3].contains("transactions which write author"),
        "{messages:?}"
    );
    // A trigger makes the transactions that fire it unknown, and no others.
    let unknown = |s: &&anabranch_sql::summary::TransactionSummary| s.unknown.is_some();
    let unknown: Vec<&str> = script
        .summaries
        .iter()
        .filter(unknown)
        .map(|s| s.name.as_str())
        .collect();
    assert_eq!(unknown, ["q0.sql:6"]);
    let fired = &script.summaries[1];
    let deletes = |table: u16| {
        let all_done = fired.possible_statements(script.application.catalog());
        let mut accesses = all_done.iter().flat_map(|s| &s.accesses);
        accesses.any(|a| a.table.0 == table && a.role == Role::Delete)
    };
    assert!(deletes(0) && deletes(1));
}

/// A rule makes the transactions that write its table unknown; a rule ON SELECT, all transactions.
#[test]
fn a_rule_makes_writers_of_its_table_unknown() {
    let unknown = |event: &str| {
        let text = format!(
            "CREATE OR REPLACE RULE also AS ON {event} TO public.author WHERE NEW.n > 1 DO ALSO DELETE FROM book;\n\
             -- name: Add :exec\nINSERT INTO author (id, name) VALUES ($1, $2);\n\
             -- name: Drop :exec\nDELETE FROM book WHERE id = $1;\n"
        );
        let script = script(&[&text]);
        let all = script.summaries.iter().filter(|s| s.unknown.is_some());
        all.map(|s| s.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(unknown("INSERT"), ["Add"]);
    assert_eq!(unknown("SELECT"), ["Add", "Drop"]);
}

/// A named statement is a transaction, whatever its first word is.
#[test]
fn a_named_statement_is_a_transaction_type_or_is_reported() {
    let script = script(&["-- name: Again :one
SELECT setval('author_id_seq', $1);
-- name: Load :copyfrom
COPY author FROM STDIN;
-- name: Explain :exec
EXPLAIN ANALYZE DELETE FROM book;
-- name: Keep :exec
CREATE TABLE kept AS SELECT * FROM author;
-- name: Fresh :exec
CREATE TABLE fresh (id bigint PRIMARY KEY);
"]);
    let all: Vec<(&str, bool)> = script
        .summaries
        .iter()
        .map(|s| (s.name.as_str(), s.unknown.is_some()))
        .collect();
    assert_eq!(
        all,
        [
            ("Again", true),
            ("Load", true),
            ("Explain", true),
            ("Keep", true)
        ]
    );
}

/// Several triggers may each do anything to every table: that is said once.
#[test]
fn effects_of_triggers_are_added_once() {
    let reached = |triggers: usize, function: &str| {
        let trigger = |name: usize| {
            format!(
                "CREATE TRIGGER t{name} AFTER INSERT ON author FOR EACH ROW EXECUTE FUNCTION {function}();\n"
            )
        };
        let triggers: String = (0..triggers).map(trigger).collect();
        let text = format!(
            "CREATE FUNCTION own() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM author; RETURN NEW; END $$;\n\
             {triggers}\n-- name: Add :exec\nINSERT INTO author (id, name) VALUES ($1, $2);\n"
        );
        let script = script(&[&text]);
        let mut summaries = script.summaries.iter();
        let add = summaries.find(|s| s.name == "Add").expect("it is there");
        let all_done = add.possible_statements(script.application.catalog());
        let accesses = all_done.iter().flat_map(|s| &s.accesses);
        let deleted = accesses.filter(|a| a.role == Role::Delete).map(|a| a.table);
        let deleted: BTreeSet<_> = deleted.collect();
        (all_done.len(), deleted.len(), add.unknown.is_some())
    };
    assert_eq!(reached(0, "own"), (1, 0, false));
    for times in [1, 20] {
        assert_eq!(reached(times, "elsewhere"), (2, 2, true), "everything");
        assert_eq!(reached(times, "own"), (2, 1, true), "one table");
    }
}

#[test]
fn policies_and_bodies_in_other_languages_may_do_anything() {
    let script = script(&["CREATE POLICY mine ON author USING (name = current_user);
CREATE FUNCTION raw(a integer) RETURNS integer LANGUAGE c AS 'lib', 'raw';
SELECT n FROM author WHERE id = $1;
SELECT left_n FROM book WHERE id = $1;
"]);
    let of = |name: &str| {
        let found = script.summaries.iter().find(|s| s.name == name);
        let summary = found.expect("it is there");
        let all_done = summary.possible_statements(script.application.catalog());
        let accesses = all_done.iter().flat_map(|s| &s.accesses);
        let deleted = accesses
            .filter(|a| a.role == Role::Delete)
            .map(|a| a.table.0);
        (
            summary.unknown.is_some(),
            deleted.collect::<BTreeSet<u16>>(),
        )
    };
    assert_eq!(of("q0.sql:3"), (true, [0, 1].into()));
    assert_eq!(of("q0.sql:4"), (false, [].into()));
    assert_eq!(of("raw"), (true, [0, 1].into()));
}

#[test]
fn conditions_under_another_order_are_dropped() {
    let mut script = script(&["SELECT n FROM author WHERE name < 'm' AND name <> 'a' AND n < 3;"]);
    let columns = [("author".to_owned(), "name".to_owned())].into();
    forget_order(&mut script, &columns);
    let access = &script.summaries[0].statements[0].accesses[0];
    let told: Vec<_> = access
        .conditions
        .iter()
        .map(|c| (c.column.0, c.comparison))
        .collect();
    assert_eq!(told, [(1, Comparison::NotEqual), (2, Comparison::Less)]);
    assert!(access.has_other_conditions);
}

#[test]
fn rows_of_a_dump_are_no_transactions() {
    let script = script(&["-- PostgreSQL database dump
INSERT INTO author VALUES (1, 'a; b', 2);
INSERT INTO author VALUES (2, 'b', 2);
"]);
    assert!(script.summaries.is_empty());
    let told = &script.skipped[0].diagnostic.message;
    assert!(told.starts_with("2 INSERTs are part of a dump"), "{told}");
}

#[test]
fn a_foreign_key_that_cannot_be_read_may_still_delete() {
    let script = script(&["CREATE TABLE tag (id bigint PRIMARY KEY);
ALTER TABLE book ADD CONSTRAINT of_tag FOREIGN KEY (nosuch) REFERENCES tag (id) ON DELETE CASCADE;
DELETE FROM tag WHERE id = $1;
UPDATE author SET n = 0 WHERE id = $1;
"]);
    assert_eq!(script.skipped.len(), 1, "{:?}", script.skipped);
    let unknown = script.summaries.iter().map(|s| s.unknown.is_some());
    assert_eq!(unknown.collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_file_without_anything_readable_is_an_error() {
    let files = vec![SourceFile::new(
        "a.sql",
        "CREATE TABLE t (id bigint PRIMARY KEY, x integer) INHERITS (u);",
    )];
    assert_eq!(read(files).unwrap_err()[0].code, "0A000");
}

#[test]
fn queries_that_must_return_no_row_are_assertions() {
    let file = SourceFile::new(
        "rules.sql",
        "-- no negative
SELECT * FROM book WHERE left_n < 0;
CREATE ASSERTION an_author CHECK (EXISTS (SELECT * FROM author));

SELECT * FROM author WHERE name = '';
",
    );
    let mut files = vec![SourceFile::new("schema.sql", SCHEMA)];
    files.push(invariants(&file));
    let script = read(files).expect("it can be read");
    let names: Vec<&str> = script
        .application
        .assertions()
        .iter()
        .map(|a| a.name())
        .collect();
    assert_eq!(names, ["no_negative", "an_author", "rules.sql:5"]);
}

#[test]
fn a_position_does_not_name_a_value() {
    // Each statement of a client's transaction has its own `$1`.
    let script = script(&["BEGIN;
UPDATE author SET n = n - $1 WHERE id = $2;
UPDATE author SET n = n + $1 WHERE id = $2;
COMMIT;"]);
    let terms: Vec<Term> = script.summaries[0]
        .statements
        .iter()
        .flat_map(|s| {
            s.accesses
                .iter()
                .flat_map(|a| a.conditions.iter().map(|c| c.term.clone()))
        })
        .collect();
    assert_eq!(terms, [Term::Parameter(1), Term::Parameter(3)]);
}

/// A skipped constraint counts: transactions that write its table may violate it.
#[test]
fn writers_under_a_skipped_constraint_are_unknown() {
    let statements = "-- name: Author :exec
UPDATE author SET n = $1 WHERE id = $2;
-- name: Rename :exec
UPDATE author SET name = $1 WHERE id = $2;
-- name: Book :exec
UPDATE book SET left_n = $1 WHERE id = $2;
-- name: Unwrite :exec
DELETE FROM book WHERE id = $1;
-- name: Look :many
SELECT author.n, left_n FROM author JOIN book ON writer = author.id;
";
    for (declaration, skipped, unknown) in [
        (
            "CREATE UNIQUE INDEX ON author (soundex(name));",
            1,
            &["Rename"][..],
        ),
        (
            "ALTER TABLE author ADD CHECK (n @> author);",
            1,
            &["Author", "Rename"],
        ),
        (
            "ALTER TABLE book ADD FOREIGN KEY (left_n) REFERENCES author (n);",
            1,
            &["Author", "Rename", "Book"],
        ),
        (
            "CREATE UNIQUE INDEX some ON public.book USING hash (left_n) WHERE left_n > 0;",
            1,
            &["Book"],
        ),
        ("CREATE INDEX low ON author (lower(name));", 1, &[]),
        (
            "ALTER TABLE ONLY book ADD CONSTRAINT e EXCLUDE USING btree (left_n WITH =);",
            1,
            &["Book"],
        ),
        ("ALTER TABLE author ADD CHECK (n @> 3);", 1, &["Author"]),
        ("ALTER TABLE author OWNER TO app;", 0, &[]),
        (
            "CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1 FROM author, book WHERE n @> left_n));",
            1,
            &["Author", "Rename", "Book", "Unwrite"],
        ),
    ] {
        let script = script(&[declaration, statements]);
        assert_eq!(
            script.skipped.len(),
            skipped,
            "{declaration}: {:?}",
            script.skipped
        );
        let all = script.summaries.iter();
        let found = all.filter(|s| s.unknown.is_some()).map(|s| s.name.as_str());
        assert_eq!(found.collect::<Vec<_>>(), unknown, "{declaration}");
        if let Some(left) = script.skipped.first() {
            let is_told = left.meaning.contains("are unknown: they may violate it");
            assert_eq!(is_told, !unknown.is_empty(), "{}", left.meaning);
        }
    }
}

/// The first words of a statement that cannot be analysed show which table it writes, and how.
#[test]
fn an_unparsed_update_inserts_and_deletes_nothing() {
    let script = script(&["-- name: Take :one
UPDATE ONLY public.book SET left_n = 1, (writer) = (SELECT max(id) FROM author) WHERE id = (SELECT id FROM book FOR UPDATE SKIP LOCKED);
-- name: Whole :exec
UPDATE book b SET nosuch = 1;
-- name: Add :exec
INSERT INTO book SELECT * FROM author TABLESAMPLE SYSTEM (1);
-- name: Upsert :exec
INSERT INTO book SELECT * FROM author TABLESAMPLE SYSTEM (1) ON CONFLICT (id) DO UPDATE SET left_n = 0;
-- name: With :exec
WITH RECURSIVE a AS (DELETE FROM author RETURNING id) UPDATE book SET left_n = 1;
"]);
    let reach = |name: &str| {
        let mut all = script.summaries.iter();
        let summary = all.find(|s| s.name == name).expect("it is there");
        assert!(summary.unknown.is_some(), "{name}");
        let all_done = summary.possible_statements(script.application.catalog());
        let accesses = all_done.iter().flat_map(|s| &s.accesses);
        let written = accesses.filter(|a| a.role != Role::Read);
        let of = |a: &anabranch_sql::summary::TableAccess| {
            let columns: Vec<usize> = a.writes.iter().map(|w| w.column.index()).collect();
            (a.table.0, a.role, columns)
        };
        written.map(of).collect::<Vec<_>>()
    };
    let all = || vec![0, 1, 2];
    assert_eq!(reach("Take"), [(1, Role::Update, vec![2, 1])]);
    assert_eq!(reach("Whole"), [(1, Role::Update, all())]);
    assert_eq!(reach("Add"), [(1, Role::Insert, all())]);
    let upsert = [(1, Role::Insert, all()), (1, Role::Update, all())];
    assert_eq!(reach("Upsert"), upsert);
    assert_eq!(reach("With").len(), 6);
}

/// Clients call routines, by CALL or by a query that does nothing else: they have the effects of these.
#[test]
fn clients_call_routines() {
    let script = script(&[
        "CREATE TABLE t (id bigint PRIMARY KEY, n integer NOT NULL);
CREATE FUNCTION take(p bigint, x integer DEFAULT 1) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN UPDATE t SET n = n - x WHERE id = p; RETURN 1; END $$;
CREATE FUNCTION all_of(p bigint) RETURNS TABLE (a bigint) LANGUAGE plpgsql AS $$
BEGIN RETURN QUERY SELECT id FROM t WHERE id = p; END $$;
CREATE PROCEDURE put(p bigint) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET n = n + 1 WHERE id = p; END $$;
-- name: Select :one
SELECT take($1, $2) AS taken;
-- name: From :one
SELECT * FROM take($1::bigint);
-- name: Call :exec
CALL put($1);
-- name: Reads :many
SELECT a FROM all_of($1) AS x;
-- name: Missing :exec
CALL missing($1);
-- name: Within :exec
SELECT n FROM t WHERE id = take($1);
",
    ]);
    let unknown = script.summaries.iter().filter(|s| s.unknown.is_some());
    let unknown: Vec<&str> = unknown.map(|s| s.name.as_str()).collect();
    assert_eq!(unknown, ["Missing", "Within"]);
    for (name, role) in [
        ("Select", Role::Update),
        ("From", Role::Update),
        ("Call", Role::Update),
        ("Reads", Role::Read),
    ] {
        let summary = script.summaries.iter().find(|s| s.name == name);
        let access = &summary.expect(name).statements[0].accesses[0];
        assert_eq!(access.role, role, "{name}");
        let term = &access.conditions[0].term;
        assert_eq!(*term, Term::Parameter(0), "{name}");
    }
    assert_eq!(parameters(&script, "Select")[0].1, "bigint");
}
