//! WITH before statements that change data, and with such statements in it.
//!
//! `changes/with.sql` has what they do, with PostgreSQL 15's answers.

use anabranch_sql::summary::{ResultUse, Role, StatementSummary, TableAccess, Term, WriteClass};
use anabranch_sql::{Application, SourceFile, load, render};

use crate::support::Database;

const SCHEMA: &str = "
CREATE TABLE team (id bigint PRIMARY KEY, name text NOT NULL, n integer NOT NULL);
CREATE TABLE player (id bigint PRIMARY KEY, team bigint NOT NULL REFERENCES team, goals integer NOT NULL);
CREATE TABLE past (id bigint PRIMARY KEY, goals integer NOT NULL);
";

const DATA: &[&str] = &[
    "INSERT INTO team VALUES (1, 'red', 0), (2, 'blue', 10), (3, 'none', 5)",
    "INSERT INTO player VALUES (1, 1, 3), (2, 1, 4), (3, 2, 1)",
];

#[test]
fn a_statement_reads_its_common_table_expressions() {
    for (statement, table, expected) in [
        (
            "WITH scored AS (SELECT team, sum(goals) AS goals FROM player GROUP BY team)
             UPDATE team SET n = team.n + scored.goals FROM scored WHERE scored.team = team.id RETURNING id",
            "SELECT id, n FROM team ORDER BY id",
            "1|7;2|11;3|5",
        ),
        (
            "WITH used (id) AS (SELECT team FROM player), twice AS (SELECT id FROM used)
             DELETE FROM team WHERE NOT EXISTS (SELECT 1 FROM twice WHERE twice.id = team.id)",
            "SELECT id FROM team ORDER BY id",
            "1;2",
        ),
        (
            "WITH best AS (SELECT id, goals FROM player WHERE goals > 2)
             INSERT INTO past SELECT id, goals FROM best",
            "SELECT id, goals FROM past ORDER BY id",
            "1|3;2|4",
        ),
    ] {
        let mut database = Database::with(SCHEMA, DATA);
        database.run(statement).expect(statement);
        database.check(table, expected);
    }
}

fn compiled(body: &str) -> Result<Application, String> {
    let text = format!(
        "{SCHEMA}CREATE FUNCTION p(p_id bigint, p_n integer) RETURNS void LANGUAGE plpgsql AS $$ BEGIN {body}; END; $$;"
    );
    let files = vec![SourceFile::new("with.sql", text)];
    let application = load(files.clone()).and_then(Application::compile);
    application.map_err(|problems| render(&problems, &files))
}

fn statements(body: &str) -> Vec<StatementSummary> {
    let application = compiled(body).unwrap_or_else(|shown| panic!("{shown}"));
    application.summaries()[0].statements.clone()
}

/// The accessed tables, by number, and the roles.
fn done(statement: &StatementSummary) -> Vec<(u16, Role)> {
    let all = statement.accesses.iter();
    all.map(|access| (access.table.0, access.role)).collect()
}

fn on(statement: &StatementSummary, table: u16, role: Role) -> &TableAccess {
    let mut all = statement.accesses.iter();
    all.find(|access| access.table.0 == table && access.role == role)
        .expect("it is there")
}

const TEAM: u16 = 0;
const PLAYER: u16 = 1;
const PAST: u16 = 2;

#[test]
fn a_data_modifying_cte_is_a_statement_of_its_own() {
    let [statement] = &*statements(
        "WITH gone AS (DELETE FROM player WHERE id = p_id RETURNING id, team, goals),
              kept AS (INSERT INTO past SELECT id, goals FROM gone RETURNING id)
         UPDATE team SET n = n - gone.goals FROM gone, kept WHERE team.id = gone.team",
    ) else {
        panic!("it is one statement");
    };
    assert_eq!(
        done(statement),
        [
            (PLAYER, Role::Delete),
            (PAST, Role::Insert),
            (TEAM, Role::Update)
        ]
    );
    // Its result is used, even if that of the last statement is not.
    assert_eq!(statement.result, ResultUse::Used);
    assert!(statement.may_skip_rows && !statement.inserts_one);
    let gone = on(statement, PLAYER, Role::Delete);
    assert!(gone.conditions.iter().any(|c| c.term == Term::Parameter(0)));
    let changed = on(statement, TEAM, Role::Update);
    let [write] = &*changed.writes else {
        panic!("one column is written");
    };
    let WriteClass::Add { term, negated } = &write.class else {
        panic!("{:?}", write.class);
    };
    assert_eq!((term, *negated), (&Term::Unknown, true));
    assert!(changed.conditions.iter().all(|c| c.term == Term::Unknown));
}

#[test]
fn a_query_over_a_data_modifying_cte_is_a_change() {
    let [_, statement] = &*statements(
        "PERFORM 1 FROM team; WITH goals AS (SELECT id FROM team WHERE name = 'red'),
              moved AS (UPDATE player SET goals = goals + p_n FROM goals WHERE team = goals.id RETURNING goals.id)
         SELECT count(*) INTO p_n FROM moved JOIN team USING (id)",
    ) else {
        panic!("they are two statements");
    };
    assert_eq!(
        done(statement),
        [
            (PLAYER, Role::Update),
            (TEAM, Role::Read),
            (TEAM, Role::Read)
        ]
    );
    let read = statement.accesses.iter().filter(|a| a.role == Role::Read);
    let conditions: Vec<usize> = read.map(|access| access.conditions.len()).collect();
    assert!(conditions.contains(&1), "{conditions:?}");
}

#[test]
fn terms_name_the_table_that_they_come_from() {
    let [statement] = &*statements(
        "WITH one AS (INSERT INTO past VALUES (p_id, p_n))
         UPDATE player SET goals = team.n FROM team WHERE team.id = player.team AND player.id = p_id",
    ) else {
        panic!("it is one statement");
    };
    let changed = on(statement, PLAYER, Role::Update);
    let WriteClass::Assign(Term::Column { access, .. }) = &changed.writes[0].class else {
        panic!("{:?}", changed.writes);
    };
    assert_eq!(statement.accesses[*access].table.0, TEAM);
}

#[test]
fn unsupported_forms_are_refused() {
    for (body, expected) in [
        (
            "WITH RECURSIVE r AS (DELETE FROM past RETURNING id AS n) UPDATE team SET n = r.n FROM r",
            "RECURSIVE",
        ),
        (
            "WITH a (x, y) AS (DELETE FROM past RETURNING id) SELECT x INTO p_id FROM a",
            "has 1 columns available but 2",
        ),
        (
            "WITH a AS (WITH b AS (SELECT 1 AS n) DELETE FROM past USING b RETURNING b.n) SELECT n INTO p_n FROM a",
            "a WITH in a WITH",
        ),
        (
            "WITH a AS (DELETE FROM past) SELECT id INTO p_id FROM a",
            "id",
        ),
    ] {
        let shown = compiled(body).expect_err(body);
        assert!(shown.contains(expected), "{body}: {shown}");
    }
}
