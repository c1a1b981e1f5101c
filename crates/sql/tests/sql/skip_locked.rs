//! NOWAIT and SKIP LOCKED: what they compile to, and where they are refused.

use anabranch_sql::{
    Application, SourceFile,
    client::{ClientStatementKind, parse},
    load,
};

const SCHEMA: &str = "
CREATE TABLE jobs (id integer PRIMARY KEY, state text NOT NULL, parent integer REFERENCES jobs);
CREATE INDEX jobs_by_state ON jobs (state);
CREATE TABLE queues (name text PRIMARY KEY);
CREATE VIEW queued AS SELECT id FROM jobs WHERE state = 'queued';
CREATE FUNCTION take() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    job integer;
BEGIN
    SELECT id INTO job FROM jobs WHERE state = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;
    RETURN job;
END $$;
";

fn application() -> Application {
    let catalog = load(vec![SourceFile::new("jobs.sql", SCHEMA)]).unwrap();
    Application::compile(catalog).unwrap()
}

/// The plan of a client's statement, or why it is refused: SQLSTATE and message.
fn explain(application: &Application, text: &str) -> Result<String, (String, String)> {
    let statements = parse(text).unwrap_or_else(|problem| panic!("{text}: {problem:?}"));
    let ClientStatementKind::Run(runnable) = &statements[0].kind else {
        panic!("{text} is no statement that runs");
    };
    match application.client_statement(runnable, &[]) {
        Ok(plan) => Ok(plan.explain(application)),
        Err(problems) => Err((problems[0].code.to_owned(), problems[0].message.clone())),
    }
}

#[test]
fn a_read_says_that_it_does_not_wait() {
    let application = application();
    let take =
        "SELECT id FROM jobs WHERE state = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
    let cases = [
        (
            take.to_owned(),
            "on jobs using jobs_by_state for update skip locked",
        ),
        (
            take.replace(
                "LIMIT 1 FOR UPDATE SKIP LOCKED",
                "FOR UPDATE SKIP LOCKED LIMIT 1",
            ),
            "for update skip locked",
        ),
        (
            take.replace("UPDATE", "NO KEY UPDATE"),
            "for update skip locked",
        ),
        (take.replace("UPDATE", "KEY SHARE"), "for share skip locked"),
        (
            take.replace("UPDATE", "UPDATE OF jobs"),
            "for update skip locked",
        ),
        (take.replace("SKIP LOCKED", "NOWAIT"), "for update nowait"),
        (
            format!("UPDATE jobs SET state = 'running' WHERE id = ({take}) RETURNING id"),
            "for update skip locked",
        ),
        (
            format!("DELETE FROM jobs WHERE id IN ({take})"),
            "for update skip locked",
        ),
        (
            format!(
                "WITH job AS ({take}) UPDATE jobs SET state = 'running' FROM job WHERE jobs.id = job.id"
            ),
            "for update skip locked",
        ),
        (
            format!("UPDATE jobs SET state = 'running' FROM ({take}) AS j WHERE jobs.id = j.id"),
            "for update skip locked",
        ),
        (
            format!("DELETE FROM jobs USING ({take}) AS j WHERE jobs.id = j.id RETURNING jobs.id"),
            "for update skip locked",
        ),
        (
            format!("UPDATE jobs SET state = 'running' WHERE id = ANY (ARRAY({take}))"),
            "for update skip locked",
        ),
        (
            format!(
                "UPDATE jobs SET state = 'running' WHERE (id, state) IN ({})",
                take.replace("SELECT id", "SELECT id, state")
            ),
            "for update skip locked",
        ),
        (
            "SELECT id FROM jobs WHERE state = ANY ('{a,b}') FOR UPDATE NOWAIT".to_owned(),
            "for update nowait",
        ),
    ];
    for (text, expected) in cases {
        let plan = explain(&application, &text).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        assert!(plan.contains(expected), "{text}\n{plan}");
        // The rows that the statement changes are found by their keys: a scan would wait for all rows.
        assert_eq!(plan.matches("Full Scan").count(), 0, "{text}\n{plan}");
    }
    let procedure = application.procedures[0].explain();
    assert!(procedure.contains("for update skip locked"), "{procedure}");
}

/// A locking clause with OF is about the tables that it names; a subquery in WHERE is not locked by it.
#[test]
fn other_tables_wait() {
    let application = application();
    let text = "SELECT j.id FROM jobs j JOIN queues q ON q.name = j.state WHERE j.id = 1 FOR UPDATE OF j NOWAIT";
    let plan = explain(&application, text).unwrap();
    assert_eq!(plan.matches("nowait").count(), 1, "{plan}");
    let text =
        "SELECT id FROM jobs WHERE state IN (SELECT name FROM queues) FOR UPDATE SKIP LOCKED";
    let plan = explain(&application, text).unwrap();
    assert_eq!(plan.matches("for update").count(), 1, "{plan}");
}

#[test]
fn what_is_not_one_table_is_refused() {
    let application = application();
    let refused = [
        "SELECT j.id FROM jobs j JOIN queues q ON q.name = j.state FOR UPDATE OF j SKIP LOCKED",
        "SELECT DISTINCT state FROM jobs FOR UPDATE SKIP LOCKED",
        "SELECT state FROM jobs GROUP BY state FOR UPDATE SKIP LOCKED",
        "SELECT count(*) FROM jobs FOR UPDATE SKIP LOCKED",
        "SELECT count(*) FROM jobs FOR UPDATE NOWAIT",
        "SELECT rank() OVER (ORDER BY id) FROM jobs FOR UPDATE SKIP LOCKED",
        "SELECT unnest(ARRAY[1, 2]) FROM jobs FOR UPDATE SKIP LOCKED",
        "SELECT id FROM jobs UNION SELECT id FROM jobs FOR UPDATE SKIP LOCKED",
        "SELECT id FROM queued FOR UPDATE SKIP LOCKED",
        "SELECT id FROM (SELECT id FROM jobs) AS j FOR UPDATE SKIP LOCKED",
        "WITH j AS (SELECT id FROM jobs) SELECT id FROM j FOR UPDATE SKIP LOCKED",
        "VALUES (1) FOR UPDATE SKIP LOCKED",
        "SELECT EXISTS ((SELECT 1 FROM jobs FOR UPDATE SKIP LOCKED) UNION ALL SELECT 1 WHERE q.name = 'a') FROM queues q",
        "SELECT u.id FROM queues q, LATERAL ((SELECT id FROM jobs FOR UPDATE SKIP LOCKED) UNION ALL SELECT length(q.name)) u (id)",
        "SELECT ARRAY((SELECT id FROM jobs FOR UPDATE SKIP LOCKED) UNION (SELECT 1 UNION SELECT length(q.name))) FROM queues q",
        "SELECT (SELECT k.id FROM jobs k WHERE k.parent = j.id LIMIT 1 FOR UPDATE SKIP LOCKED) FROM jobs j",
        "SELECT j.id FROM jobs j, queues q FOR UPDATE OF j NOWAIT FOR SHARE OF q",
    ];
    for text in refused {
        let (code, message) = explain(&application, text).expect_err(text);
        assert!(code == "0A000", "{text}: {code} {message}");
    }
    let text = "SELECT id FROM jobs FOR UPDATE OF other SKIP LOCKED";
    let (code, message) = explain(&application, text).expect_err(text);
    assert_eq!(code, "42P01", "{message}");
}
