//! Relations over the rows of others: partitions, tables that inherit, materialized views.

use anabranch_sql::script::{Script, read};
use anabranch_sql::summary::{Role, TransactionSummary};
use anabranch_sql::{SourceFile, render};

fn script(text: &str) -> Script {
    let files = vec![SourceFile::new("a.sql", text)];
    read(files.clone()).unwrap_or_else(|found| panic!("{}", render(&found, &files)))
}

fn find<'s>(script: &'s Script, name: &str) -> &'s TransactionSummary {
    let mut all = script.summaries.iter();
    all.find(|s| s.name == name).expect("it is there")
}

/// The accesses of a type, and whether all of it was analysed.
fn done(script: &Script, name: &str) -> (Vec<(String, Role)>, bool) {
    let summary = find(script, name);
    let all_done = summary.possible_statements(script.application.catalog());
    let accesses = all_done.iter().flat_map(|s| &s.accesses);
    let tables = &script.application.catalog().schema.tables;
    let mut done: Vec<(String, Role)> = accesses
        .map(|a| (tables[a.table.index()].name.clone(), a.role))
        .collect();
    done.sort_by_key(|(table, role)| (table.clone(), *role as u8));
    done.dedup();
    (done, summary.unknown.is_none())
}

fn tables(script: &Script) -> Vec<&str> {
    let tables = script.application.catalog().schema.tables.iter();
    tables.map(|table| table.name.as_str()).collect()
}

fn meanings(script: &Script) -> Vec<&str> {
    let skipped = script.skipped.iter();
    skipped.map(|left| left.meaning.as_str()).collect()
}

const READ: [(&str, Role); 1] = [("m", Role::Read)];

fn of(expected: &[(&str, Role)]) -> Vec<(String, Role)> {
    let expected = expected.iter();
    expected
        .map(|(table, role)| ((*table).to_owned(), *role))
        .collect()
}

#[test]
fn a_partition_is_a_view_of_the_table() {
    let script = script(
        "CREATE TABLE m (id bigint, at timestamp NOT NULL, v int CHECK (v >= 0), PRIMARY KEY (id, at)) PARTITION BY RANGE (at) WITH (fillfactor = 70);
CREATE TABLE m_1 PARTITION OF m FOR VALUES FROM ('2024-01-01') TO ('2025-01-01') PARTITION BY HASH (id);
CREATE TABLE IF NOT EXISTS public.m_1_a PARTITION OF m_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE m_x PARTITION OF m DEFAULT;
CREATE INDEX ON m_x (v);
-- name: Read :many
SELECT a.v FROM m_1_a a JOIN m_x USING (id);
-- name: Write :exec
INSERT INTO m_x (id, at, v) VALUES ($1, now(), $2);
-- name: Add :exec
INSERT INTO m (id, at, v) VALUES ($1, now(), $2);
",
    );
    assert_eq!(tables(&script), ["m"]);
    assert_eq!(done(&script, "Read"), (of(&READ), true));
    assert_eq!(done(&script, "Add"), (of(&[("m", Role::Insert)]), true));
    // A write to a partition writes no table that does not exist.
    let (written, understood) = done(&script, "Write");
    assert!(
        !understood && written.contains(&("m".to_owned(), Role::Insert)),
        "{written:?}"
    );
    assert_eq!(
        meanings(&script),
        ["the analysis assumes that Write may do anything to the tables that it names"]
    );
}

/// Partitions in a dump.
const DUMP: &str = "
CREATE TABLE public.m (id bigint NOT NULL, at timestamp NOT NULL, v integer, CONSTRAINT positive CHECK ((v >= 0))) PARTITION BY RANGE (at);
CREATE TABLE public.m_1 (id bigint NOT NULL, at timestamp NOT NULL, v integer, CONSTRAINT positive CHECK ((v >= 0)));
ALTER TABLE ONLY public.m ATTACH PARTITION public.m_1 FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
ALTER TABLE ONLY public.m ADD CONSTRAINT m_pkey PRIMARY KEY (id, at);
ALTER TABLE ONLY public.m_1 ADD CONSTRAINT m_1_pkey PRIMARY KEY (id, at);
ALTER TABLE public.m_1 OWNER TO app;
CREATE INDEX m_1_v ON public.m_1 USING btree (v);
ALTER INDEX public.m_pkey ATTACH PARTITION public.m_1_pkey;
";

const QUERIES: &str = "
-- name: Read :many
SELECT v FROM m_1;
-- name: Add :exec
INSERT INTO m (id, at, v) VALUES ($1, now(), $2);
";

#[test]
fn an_attached_table_is_a_view_of_the_other() {
    let script = script(&format!("{DUMP}{QUERIES}"));
    assert_eq!(tables(&script), ["m"]);
    assert_eq!(meanings(&script), [""; 0]);
    assert_eq!(done(&script, "Read"), (of(&READ), true));
    assert!(done(&script, "Add").1);
}

/// A partition's own constraint makes transactions that write the table unknown.
#[test]
fn constraints_of_a_partition_count() {
    for more in [
        "CREATE UNIQUE INDEX own ON public.m_1 (v);",
        "ALTER TABLE public.m_1 ADD CONSTRAINT own UNIQUE (v);",
        "ALTER TABLE ONLY m_1 ADD CHECK (v < 10);",
        "CREATE TABLE m_2 (id bigint NOT NULL, at timestamp NOT NULL, v integer CHECK (v < 5)); ALTER TABLE m ATTACH PARTITION m_2 DEFAULT;",
        "CREATE TABLE u (id bigint PRIMARY KEY); CREATE TABLE m_2 (id bigint, at timestamp, v integer REFERENCES u); ALTER TABLE m ATTACH PARTITION m_2 DEFAULT;",
    ] {
        let script = script(&format!("{DUMP}{more}{QUERIES}"));
        assert!(!done(&script, "Add").1, "{more}");
        assert!(done(&script, "Read").1, "{more}");
        let told = meanings(&script);
        assert!(
            told.iter().any(|told| told.contains("that write m")),
            "{more}: {told:?}"
        );
    }
}

#[test]
fn a_detached_partition_is_a_table_of_its_own() {
    let script = script(&format!(
        "{DUMP}ALTER TABLE m DETACH PARTITION m_1 CONCURRENTLY;{QUERIES}"
    ));
    assert_eq!(tables(&script), ["m", "m_1"]);
    assert_eq!(done(&script, "Read").0, of(&[("m_1", Role::Read)]));
}

#[test]
fn a_write_to_a_table_that_inherits_is_one_to_its_parents() {
    let script = script(
        "CREATE TABLE base (id bigint PRIMARY KEY, n int CHECK (n > 0));
CREATE TABLE other (id bigint PRIMARY KEY);
CREATE TABLE kid (more text) INHERITS (public.base);
CREATE TABLE grandkid (even_more text) INHERITS (kid);
-- name: Kid :exec
INSERT INTO kid (id, n, more) VALUES ($1, $2, $3);
-- name: Grandkid :exec
DELETE FROM grandkid WHERE id = $1;
-- name: Read :many
SELECT * FROM grandkid;
",
    );
    let any = [Role::Read, Role::Insert, Role::Update, Role::Delete].map(|role| ("base", role));
    assert_eq!(done(&script, "Kid"), (of(&any), false));
    assert_eq!(done(&script, "Grandkid"), (of(&any), false));
    assert_eq!(done(&script, "Read"), (of(&[("base", Role::Read)]), false));
    assert!(find(&script, "Read").only_reads && !find(&script, "Kid").only_reads);
}

#[test]
fn a_materialized_view_is_a_view() {
    let script = script(
        "CREATE TABLE m (id bigint PRIMARY KEY, v int);
CREATE MATERIALIZED VIEW IF NOT EXISTS public.totals (kind, total) AS SELECT v, count(*) FROM m GROUP BY v WITH NO DATA;
CREATE MATERIALIZED VIEW plain AS SELECT id FROM m;
CREATE UNIQUE INDEX ON totals (kind);
CREATE INDEX by_total ON public.totals USING btree (total);
REFRESH MATERIALIZED VIEW CONCURRENTLY public.totals;
-- name: Read :many
SELECT t.total FROM totals t JOIN plain ON plain.id = t.kind;
",
    );
    assert_eq!(meanings(&script), [""; 0]);
    assert_eq!(done(&script, "Read"), (of(&READ), true));
    let columns = &script.application.catalog().views[0].columns;
    assert_eq!(*columns, ["kind", "total"]);
}
