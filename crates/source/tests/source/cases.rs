//! Hard cases, one each: branches and loops, bindings, composed texts, early exits, unknown values, broken source.

use anabranch_sql::SourceFile;
use anabranch_sql::summary::{Role, Term, WriteClass};

use crate::support::{analysed_files, told};

const SCHEMA: &str = "CREATE TABLE a (id bigint PRIMARY KEY, n bigint NOT NULL, name text);
CREATE TABLE b (id bigint PRIMARY KEY, n bigint NOT NULL);
CREATE TABLE c (id bigint PRIMARY KEY);
";

fn of(name: &str, text: &str) -> String {
    of_all(&[(name, text)])
}

fn of_all(files: &[(&str, &str)]) -> String {
    let (program, _) = analysed(files);
    told(&program)
}

fn analysed(files: &[(&str, &str)]) -> (anabranch_source::Program, anabranch_sql::script::Script) {
    let programs = files
        .iter()
        .map(|(name, text)| SourceFile::new(*name, *text));
    analysed_files(
        vec![SourceFile::new("schema.sql", SCHEMA)],
        programs.collect(),
    )
}

#[track_caller]
fn is(found: &str, expected: &str) {
    assert_eq!(found.trim_end(), expected.trim_end(), "\n{found}");
}

#[test]
fn both_branches_count_and_neither_is_sure() {
    let found = of(
        "f.py",
        r#"
def f(conn, x, y):
    if x > 1:
        conn.execute("UPDATE a SET n = n + ? WHERE id = ?", (y, x))
    elif x < 0:
        conn.execute("DELETE FROM a WHERE id = ?", (x,))
    else:
        conn.execute("UPDATE b SET n = n + ? WHERE id = ?", (y, x))
    conn.execute("DELETE FROM c WHERE id = ?", (x,))
"#,
    );
    is(
        &found,
        "f
  ?
    UPDATE a SET n = n + <:y> WHERE id = <:x>
  ?
    ?
      DELETE FROM a WHERE id = <:x>
    ?
      UPDATE b SET n = n + <:y> WHERE id = <:x>
  DELETE FROM c WHERE id = <:x>",
    );
}

#[test]
fn statements_after_an_exit_may_not_run() {
    let found = of(
        "f.js",
        r#"
async function f(db, id) {
  await db.query("UPDATE a SET n = n - 1 WHERE id = $1", [id]);
  if (id > 5) return;
  await db.query("UPDATE b SET n = n + 1 WHERE id = $1", [id]);
}
async function g(db, id) {
  await db.query("UPDATE a SET n = n - 1 WHERE id = $1", [id]);
  if (id > 5) throw new Error("no");
  await db.query("UPDATE b SET n = n + 1 WHERE id = $1", [id]);
}
async function h(db, id) {
  try {
    await db.query("UPDATE a SET n = n - 1 WHERE id = $1", [id]);
    await db.query("UPDATE b SET n = n + 1 WHERE id = $1", [id]);
  } catch (e) {
    console.log("SELECT of nothing FROM nowhere", e);
  }
}
"#,
    );
    is(
        &found,
        "f
  UPDATE a SET n = n - 1 WHERE id = <:id>
  ?
    UPDATE b SET n = n + 1 WHERE id = <:id>
g
  UPDATE a SET n = n - 1 WHERE id = <:id>
  UPDATE b SET n = n + 1 WHERE id = <:id>
h
  ?
    UPDATE a SET n = n - 1 WHERE id = <:id>
    ?
      UPDATE b SET n = n + 1 WHERE id = <:id>",
    );
}

#[test]
fn a_variable_is_one_value_until_it_is_given_another() {
    let found = of(
        "F.java",
        r#"
class F {
    void f(Connection conn, long id, long n) throws SQLException {
        PreparedStatement ps = conn.prepareStatement("UPDATE a SET n = n - ? WHERE id = ?");
        ps.setLong(2, id);
        ps.setLong(1, n);
        ps.executeUpdate();
        n = n * 2;
        ps.setLong(1, n);
        ps.executeUpdate();
        for (int i = 0; i < 3; i++) {
            id = id + 1;
            ps.setLong(2, id);
            ps.executeUpdate();
        }
        if (n > 7) {
            ps.setLong(1, 7);
        }
        ps.executeUpdate();
    }
}
"#,
    );
    // After the loop, and where a branch has bound another value, it is a third value.
    is(
        &found,
        "F.f
  UPDATE a SET n = n - <:n> WHERE id = <:id>
  UPDATE a SET n = n - <:n (2)> WHERE id = <:id>
  *
    UPDATE a SET n = n - <~?1> WHERE id = <~?2>
  UPDATE a SET n = n - <~?1 (2)> WHERE id = <~?2 (2)>",
    );
}

#[test]
fn texts_are_put_together_in_every_way() {
    let found = of_all(&[
        (
            "q.go",
            r#"
package q
import "fmt"
const table = "a"
const byID = ` WHERE id = ` + "$1"
func f(db *sql.DB, id int) { db.Exec(fmt.Sprintf("UPDATE %s SET n = %d%s", table, 7, byID), id) }
"#,
        ),
        (
            "q.php",
            r#"<?php
function f($pdo, $id) {
    $sql = "DELETE FROM a";
    $sql .= ' WHERE id = :id';
    $pdo->prepare($sql)->execute(['id' => $id]);
    $st = $pdo->prepare(<<<SQL
        UPDATE b SET n = 1
        WHERE id = ?
        SQL);
    $st->execute([$id]);
}
"#,
        ),
        (
            "q.ts",
            r#"
const T = "c";
export const f = async (sql: Sql, id: number, name: string) => {
  await sql`UPDATE a SET name = ${name} WHERE id = ${id}`;
  await sql.unsafe(["DELETE", "FROM", T, "WHERE", "id = $1"].join(" "), [id]);
};
"#,
        ),
    ]);
    is(
        &found,
        "f
  UPDATE a SET n = <7> WHERE id = <:id>
f
  DELETE FROM a WHERE id = <:id>
  UPDATE b SET n = 1 WHERE id = <:id>
f
  UPDATE a SET name = <:name> WHERE id = <:id>
  DELETE FROM c WHERE id = <:id>",
    );
}

#[test]
fn a_text_that_grows_in_a_loop_is_not_known() {
    let (program, script) = analysed(&[(
        "f.py",
        r#"
def f(conn, ids):
    sql = "UPDATE a SET n = 0 WHERE id = 0"
    for i in ids:
        sql += " OR id = " + i
    conn.execute(sql)
"#,
    )]);
    is(
        &told(&program),
        "f
  ?
    UPDATE a SET n = 0 WHERE id = 0
  ! part of this SQL is not known: `sql`",
    );
    let summary = &script.summaries[0];
    assert!(summary.unknown.is_some());
    let writes = |role: Role| {
        let all = summary.possible_statements(script.application.catalog());
        let all = all.iter().flat_map(|s| &s.accesses);
        all.filter(|a| a.role == role)
            .map(|a| a.table.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(script.skipped.len(), 1);
    assert_eq!(writes(Role::Delete), [0, 1, 2], "it may be anything");
}

#[test]
fn what_a_cut_text_writes_is_known_by_its_beginning() {
    let (_, script) = analysed(&[(
        "f.js",
        r#"
function f(db, where) { db.query("DELETE FROM b WHERE " + where); }
function g(db, where) { db.query("SELECT n FROM b WHERE " + where); }
function h(db, where) { db.query("DELETE FROM b" + where); }
function k(db, id) { db.query("DELETE FROM c WHERE id = $1", [id]); }
"#,
    )]);
    let deleted = |name: &str| {
        let summary = script
            .summaries
            .iter()
            .find(|s| s.name == name)
            .expect("it is there");
        let all = summary.possible_statements(script.application.catalog());
        let all = all.iter().flat_map(|s| &s.accesses);
        all.filter(|a| a.role == Role::Delete)
            .map(|a| a.table.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(deleted("f"), [1]);
    assert_eq!(deleted("g"), [0_u16; 0]);
    assert_eq!(deleted("h"), [0, 1, 2], "its table may be `b_old`");
}

#[test]
fn what_is_known_in_the_course_alone_is_no_parameter() {
    let (_, script) = analysed(&[(
        "f.py",
        r#"
def f(conn, id):
    row = conn.execute("SELECT n FROM a WHERE id = ?", (id,)).fetchone()
    m = row[0] + 1
    conn.execute("UPDATE a SET n = ? WHERE id = ?", (m, id))
    conn.execute("UPDATE b SET n = n + ? WHERE id = ?", (m, m))
"#,
    )]);
    let summary = &script.summaries[0];
    let update = &summary.statements[1].accesses[0];
    assert_eq!(update.writes[0].class, WriteClass::Assign(Term::Unknown));
    assert_eq!(update.conditions[0].term, Term::Parameter(0));
    let other = &summary.statements[2].accesses[0];
    assert_eq!(other.conditions[0].term, Term::Unknown);
    assert!(matches!(
        &other.writes[0].class,
        WriteClass::Add {
            term: Term::Unknown,
            ..
        }
    ));
}

#[test]
fn a_helper_that_runs_what_it_is_given_is_known_by_its_callers() {
    let helper = "
async function run(sql, values) { return pool.query(sql, values); }
async function f(id) { await run('DELETE FROM a WHERE id = $1', [id]); }
";
    is(
        &of("f.js", helper),
        "f
  DELETE FROM a WHERE id = <:id>",
    );
    let unsure = format!("{helper}\nasync function g(req) {{ await run(req.body, []); }}\n");
    let found = of("f.js", &unsure);
    assert!(
        found.contains("g\n  ! the SQL that pool.query() runs is not known"),
        "{found}"
    );
}

#[test]
fn a_prepared_statement_runs_where_it_is_executed() {
    let found = of(
        "f.py",
        "def f(queue):\n    queue.later = text('DELETE FROM a WHERE id = 1')\n",
    );
    is(
        &found,
        "f
  DELETE FROM a WHERE id = 1",
    );
}

#[test]
fn sql_without_a_call_site_is_reported() {
    let found = of(
        "f.py",
        "QUERIES = {'x': 'DELETE FROM a'}\n\ndef f(db, name):\n    db.execute(QUERIES[name])\n",
    );
    assert!(
        found.contains("! no call site found for this SQL"),
        "{found}"
    );
    assert!(
        found.contains("f\n  ! the SQL that db.execute() runs is not known"),
        "{found}"
    );
}

#[test]
fn orm_writes_are_reported() {
    let found = of(
        "F.java",
        "class F { void f(EntityManager em, A a) { em.persist(a); em.createQuery(\"DELETE FROM Alpha x\").executeUpdate(); } }",
    );
    is(
        &found,
        "F.f
  ! em.persist() has a library generate the SQL, so it is not in the source
  ! createQuery() is written in the mapper's query language, not in SQL",
    );
}

#[test]
fn callbacks_run_in_the_transaction_that_they_are_handed_to() {
    let found = of(
        "f.ts",
        r#"
export async function f(knex: Knex, ids: number[], n: number) {
  await knex.transaction(async (trx) => {
    await trx.raw("UPDATE a SET n = n - ? WHERE id = 1", [n]);
    await Promise.all(ids.map((id) => trx.raw("UPDATE b SET n = n + ? WHERE id = ?", [n, id])));
  });
}
"#,
    );
    is(
        &found,
        "f
  UPDATE a SET n = n - <:n> WHERE id = 1
  *
    UPDATE b SET n = n + <:n> WHERE id = <~:id>",
    );
}

#[test]
fn a_helper_with_a_connection_of_its_own_is_a_transaction_of_its_own() {
    let found = of(
        "F.java",
        r#"
class F {
    void f(long id) throws SQLException {
        try (Connection c = ds.getConnection()) {
            c.prepareStatement("DELETE FROM a WHERE id = 1").executeUpdate();
            audit(id);
            step(c, id);
        }
    }
    private void audit(long id) throws SQLException {
        try (Connection c = ds.getConnection()) {
            c.prepareStatement("DELETE FROM b WHERE id = 2").executeUpdate();
        }
    }
    private void step(Connection c, long id) throws SQLException {
        PreparedStatement ps = c.prepareStatement("DELETE FROM c WHERE id = ?");
        ps.setLong(1, id);
        ps.execute();
    }
}
"#,
    );
    is(
        &found,
        "F.f
  DELETE FROM a WHERE id = 1
  DELETE FROM c WHERE id = <:id>
F.audit
  DELETE FROM b WHERE id = 2",
    );
}

#[test]
fn tables_that_a_program_makes_are_declared() {
    let program = r#"
import sqlite3
conn = sqlite3.connect("x.db")
conn.execute("CREATE TABLE note (id integer PRIMARY KEY, body text)")

def add(body):
    conn.execute("INSERT INTO note (body, id) VALUES (?, ?)", (body, 1))
"#;
    let (found, script) = analysed(&[("notes.py", program)]);
    is(
        &told(&found),
        "add
  INSERT INTO note (body, id) VALUES (<:body>, <1>)",
    );
    assert!(script.skipped.is_empty(), "{:?}", script.skipped);
    assert!(
        script
            .application
            .catalog()
            .tables
            .iter()
            .any(|t| t.name == "note")
    );
}

#[test]
fn broken_source_is_unknown_where_it_may_run_something() {
    let broken = "class F {\n  void f(Connection c) throws SQLException {\n    c.prepareStatement(\"DELETE FROM a\").execute();\n    if (x { c.createStatement(\n  }\n  int g() { return 1; }\n}\n";
    let (program, script) = analysed(&[("F.java", broken)]);
    let unresolved = program.clients.iter().flat_map(|c| &c.unresolved);
    let told: Vec<&str> = unresolved.map(|u| u.reason.as_str()).collect();
    assert!(
        told.iter().any(|reason| reason.contains("broken")),
        "{told:?}"
    );
    assert!(script.summaries.iter().any(|s| s.unknown.is_some()));
    // Broken source that runs nothing is reported and makes nothing unknown.
    let (program, _) = analysed(&[("f.py", "def f(:\n    return ((1\n")]);
    assert!(program.clients.is_empty(), "{:?}", program.clients);
    assert!(!program.broken.is_empty());
}

#[test]
fn deep_nesting_and_long_texts_do_no_harm() {
    let deep = format!(
        "x = {}1{}\nconn.execute('DELETE FROM a')\n",
        "(".repeat(20_000),
        ")".repeat(20_000)
    );
    let chain = format!(
        "function f(db) {{ db.query({}''); }}",
        "'DELETE FROM a WHERE id = 1' + ".repeat(20_000)
    );
    let ifs = format!(
        "def f(conn, x):\n{}",
        (0..300)
            .map(|n| format!("{}if x:\n", " ".repeat(n + 4)))
            .collect::<String>()
            + &format!("{}conn.execute('DELETE FROM a')\n", " ".repeat(400))
    );
    let calls = format!(
        "<?php\nfunction f($db) {{ $db{}; $db->query('DELETE FROM a'); }}\n",
        "->x()".repeat(20_000)
    );
    let many = format!(
        "def f(conn, a):\n    s = 'SELECT n FROM a WHERE 1 = 1'\n{}    conn.execute(s)\n",
        "    if a:\n        s += ' OR n = 1'\n".repeat(200)
    );
    let fork = format!("def f(conn, a):\n{}", "    if a: conn.execute('DELETE FROM a')\n    for i in a:\n     for j in a:\n      for k in a:\n       for l in a:\n        for m in a: conn.execute('DELETE FROM b')\n".repeat(20));
    let recursive = "function f(db, n) { db.query('DELETE FROM a'); if (n) g(db, n); }\nfunction g(db, n) { db.query('DELETE FROM b'); f(db, n); }\n";
    for (name, text) in [
        ("d.py", deep.as_str()),
        ("c.js", &chain),
        ("i.py", &ifs),
        ("c.php", &calls),
        ("m.py", &many),
        ("k.py", &fork),
        ("r.js", recursive),
    ] {
        let (program, script) = analysed(&[(name, text)]);
        assert!(!program.clients.is_empty(), "{name}");
        // Something writes, so the result must not be empty.
        let catalog = script.application.catalog();
        let all = script.summaries.iter();
        let mut accesses = all
            .flat_map(|s| s.possible_statements(catalog))
            .flat_map(|s| s.accesses);
        assert!(
            name == "m.py" || accesses.any(|a| a.role == Role::Delete),
            "{name}"
        );
    }
}

#[test]
fn a_recursive_call_is_not_known() {
    let (_, script) = analysed(&[(
        "f.js",
        r#"
function f(db, n) { db.query("DELETE FROM a WHERE id = $1", [n]); if (n > 0) f(db, n - 1); }
"#,
    )]);
    let reason = script.summaries[0].unknown.as_deref().unwrap_or_default();
    assert!(reason.contains("calls itself"), "{reason}");
}

#[test]
fn texts_that_are_no_known_sql_are_reported() {
    let found = of(
        "f.py",
        "def f(conn, cache):\n    conn.execute('TRUNCATE a')\n    cache.get('a')\n",
    );
    is(
        &found,
        "f
  ! the SQL that conn.execute() runs is not known",
    );
}

#[test]
fn a_method_of_the_same_name_is_another() {
    let found = of(
        "F.java",
        r#"
class F {
    void f(Set<Long> seen, Connection conn, long id) {
        seen.remove(id);
        conn.prepareStatement("DELETE FROM a WHERE id = 1").execute();
    }
    private void remove(long id) { db.update("DELETE FROM b WHERE id = ?", id); }
    void execute() { db.update("DELETE FROM c"); }
}
"#,
    );
    is(
        &found,
        "F.f
  DELETE FROM a WHERE id = 1
F.remove
  DELETE FROM b WHERE id = <:id>
F.execute
  DELETE FROM c",
    );
}

#[test]
fn a_class_is_not_bound() {
    let found = of(
        "F.java",
        "class F { int f(JdbcTemplate jdbc, int id) { return jdbc.queryForObject(\"SELECT n FROM a WHERE id = ?\", Integer.class, id); } }",
    );
    is(&found, "F.f\n  SELECT n FROM a WHERE id = <:id>");
}

/// Functions of Go's standard library are not the program's functions of the same name; a variable's method may be.
#[test]
fn gos_own_library_is_not_the_program() {
    let found = of_all(&[
        (
            "f.go",
            r#"
package f

import (
	"flag"
	"os"
)

func Parse(db *sql.DB) {
	flag.Parse()
	db.Exec("UPDATE a SET n = 1")
}

func Rename(tx *sql.Tx) {
	tx.Exec("DELETE FROM a")
}

func Move(tx *sql.Tx) {
	tx.Exec("SELECT n FROM a")
	os.Rename("x", "y")
}

"#,
        ),
        (
            "g.go",
            r#"
package f

import "os"

func Shadowed(tx *sql.Tx, os Files) {
	tx.Exec("SELECT n FROM b")
	os.Rename(tx)
}
"#,
        ),
        (
            "h.go",
            r#"
package f

import "os"

func Given(tx *sql.Tx) {
	os := files()
	tx.Exec("SELECT n FROM c")
	os.Rename(tx)
}
"#,
        ),
    ]);
    is(
        &found,
        "Parse
  UPDATE a SET n = 1
Rename
  DELETE FROM a
Move
  SELECT n FROM a
Shadowed
  SELECT n FROM b
  DELETE FROM a
Given
  SELECT n FROM c
  DELETE FROM a",
    );
}

/// JDBC's braces, and calls of stored routines.
#[test]
fn programs_call_routines() {
    let schema = format!(
        "{SCHEMA}CREATE FUNCTION take(p bigint) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN UPDATE a SET n = n - 1 WHERE id = p; RETURN 1; END $$;"
    );
    let program = r#"
class A {
  void braces(Connection c, int id) throws SQLException {
    CallableStatement s = c.prepareCall("{call take(?)}"); s.setInt(1, id); s.execute(); }
  void result(Connection c, int id) throws SQLException {
    CallableStatement s = c.prepareCall("{? = call take(?)}");
    s.registerOutParameter(1, Types.INTEGER); s.setInt(2, id); s.execute(); }
  void selected(Connection c, int id) throws SQLException {
    PreparedStatement s = c.prepareStatement("SELECT take(?)"); s.setInt(1, id); s.executeQuery(); }
}
"#;
    let (_, script) = analysed_files(
        vec![SourceFile::new("schema.sql", schema)],
        vec![SourceFile::new("A.java", program)],
    );
    for name in ["A.braces", "A.result", "A.selected"] {
        let summary = script.summaries.iter().find(|s| s.name == name);
        let summary = summary.unwrap_or_else(|| panic!("{name}"));
        assert_eq!(summary.unknown, None, "{name}");
        let access = &summary.statements[0].accesses[0];
        assert_eq!(access.role, Role::Update, "{name}");
        let Term::Parameter(place) = access.conditions[0].term else {
            panic!("{access:?}")
        };
        assert_eq!(summary.parameters[place].0, ":id", "{name}");
    }
}
