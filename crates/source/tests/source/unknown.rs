//! SQL that is unknown in whole or in part: the analysis must never assume less than it may do.

use anabranch_sql::SourceFile;
use anabranch_sql::script::Script;
use anabranch_sql::summary::Role;

use crate::support::{analysed_files, told};

const SCHEMA: &str = "CREATE TABLE a (id bigint PRIMARY KEY, n bigint NOT NULL, name text);
CREATE TABLE b (id bigint PRIMARY KEY, n bigint NOT NULL);
";

fn analysed(text: &str) -> (String, Script) {
    let sql = vec![SourceFile::new("schema.sql", SCHEMA)];
    let (program, script) = analysed_files(sql, vec![SourceFile::new("f.py", text)]);
    (told(&program), script)
}

/// Whether the transaction of this name may write anything.
fn writes(script: &Script, name: &str) -> bool {
    let summaries = &script.summaries;
    let of_it = summaries.iter().filter(|summary| summary.name == name);
    let catalog = script.application.catalog();
    let statements = of_it.flat_map(|s| s.possible_statements(catalog));
    let mut accesses = statements.flat_map(|s| s.accesses);
    accesses.any(|access| access.role != Role::Read)
}

#[test]
fn a_recursive_function_that_runs_nothing_is_no_transaction() {
    let (found, _) = analysed(
        r#"
def depth(tree, options):
    kind = options.get("kind")
    return max(depth(child, options) for child in tree.children) + 1

def even(n, rows):
    return n == 0 or odd(n - 1, rows.get(n))

def odd(n, rows):
    return n != 0 and even(n - 1, rows.get(n))
"#,
    );
    assert_eq!(found, "");
}

#[test]
fn a_recursive_function_that_runs_sql_is_not_known() {
    let (found, _) = analysed(
        r#"
def touch(conn, id):
    conn.execute("UPDATE a SET n = n + 1 WHERE id = ?", (id,))
    touch(conn, id // 2)

def climb(conn, id):
    lift(conn, id)
    climb(conn, id // 2)

def lift(conn, id):
    conn.execute("UPDATE b SET n = n + 1 WHERE id = ?", (id,))
"#,
    );
    assert!(found.contains("! touch() calls itself"), "{found}");
    assert!(found.contains("! climb() calls itself"), "{found}");
}

#[test]
fn calls_beyond_the_depth_limit_are_reported() {
    let mut text = String::new();
    for level in 0..20 {
        text.push_str(&format!(
            "def _f{level}(conn):\n    _f{}(conn)\n",
            level + 1
        ));
    }
    text.push_str("def _f20(conn):\n    conn.execute(\"DELETE FROM a\")\n");
    text.push_str("def start(conn):\n    _f0(conn)\n");
    let (found, _) = analysed(&text);
    let start = found.split("start\n").nth(1).unwrap_or_default();
    assert!(start.contains("goes too deep to follow"), "{found}");
}

#[test]
fn text_after_a_hole_counts() {
    let (_, script) = analysed(
        r#"
def only_reads(cur, where):
    cur.execute("SELECT n FROM a WHERE " + where)

def goes_on(cur, id):
    cur.execute("SELECT n FROM a WHERE name = " + id + "; DELETE FROM a")

def another_behind(cur, rest):
    cur.execute("SELECT n FROM a; " + rest)

def calls_by_name(cur, name, id):
    cur.execute("SELECT " + name + "(%s)", (id,))

def calls_a_stranger(cur, table):
    cur.execute("SELECT take(n) FROM " + table)

def one_of_two(cur, other):
    sql = "SELECT n"
    if other:
        sql = other.make()
    cur.execute(sql)

def by_its_name(cur, id):
    cur.callproc("take", (id,))
"#,
    );
    assert!(!writes(&script, "only_reads"));
    for name in [
        "goes_on",
        "another_behind",
        "calls_by_name",
        "calls_a_stranger",
        "one_of_two",
        "by_its_name",
    ] {
        assert!(writes(&script, name), "{name}");
    }
}

#[test]
fn several_statements_in_one_text_are_not_what_the_first_is() {
    let (_, script) = analysed(
        r#"
def whole(cur):
    cur.execute("BEGIN; UPDATE a SET n = n - 1; COMMIT")

def declares(cur):
    cur.execute("CREATE TABLE IF NOT EXISTS z (n int); DELETE FROM a")

def begins(cur, rest):
    cur.execute("BEGIN; " + rest)

def either(cur, x):
    sql = "COMMIT"
    if x:
        sql = "DELETE FROM a"
    cur.execute(sql)
"#,
    );
    for name in ["whole", "declares", "begins", "either"] {
        assert!(writes(&script, name), "{name}");
    }
}

#[test]
fn values_that_grow_with_each_line_are_given_up() {
    let mut text =
        String::from("def f(cur, x):\n    a = cur.fetchone()\n    b = [x]\n    c = {}\n");
    for _ in 0..60 {
        text.push_str("    a = (a, a, x.go(a))\n    b = [b, b]\n    c = {'l': c, 'r': c}\n");
        text.push_str("    x = a if b else c\n");
    }
    text.push_str("    cur.execute(\"DELETE FROM a WHERE id = %s\", (x,))\n");
    let (found, script) = analysed(&text);
    assert!(writes(&script, "f"), "{found}");
}

#[test]
fn a_name_of_too_many_texts_stands_for_any() {
    let mut text = String::new();
    for number in 0..40 {
        text.push_str(&format!("Q = \"SELECT n FROM a WHERE id = {number}\"\n"));
    }
    text.push_str("Q = \"DELETE FROM a\"\n");
    text.push_str("def f(cur):\n    cur.execute(Q)\n");
    let (found, script) = analysed(&text);
    assert!(writes(&script, "f"), "{found}");
}

#[test]
fn a_name_that_a_function_gives_another_text_stands_for_either() {
    let (_, script) = analysed(
        r#"
QUERY = "SELECT n FROM a"

def choose():
    global QUERY
    QUERY = "DELETE FROM a"

def by_name(cur):
    cur.execute(QUERY)

class Store:
    query = "SELECT n FROM a"
    other = "SELECT n FROM b"

    def set_query(self, query):
        self.query = query

    def by_field(self, cur):
        cur.execute(self.query)

    def by_other(self, cur):
        cur.execute(self.other)

def patch():
    Store.other = "UPDATE b SET n = 0"

LONG = "SELECT n"
LONG += " FROM a"

def by_parts(cur):
    cur.execute(LONG)

SAME = "SELECT n FROM b"

def beside(cur):
    SAME = "DELETE FROM b"
    cur.execute(SAME)

def by_same(cur):
    cur.execute(SAME)
"#,
    );
    for name in ["by_name", "Store.by_field", "Store.by_other", "beside"] {
        assert!(writes(&script, name), "{name}");
    }
    for name in ["by_parts", "by_same"] {
        assert!(!writes(&script, name), "{name}");
        let summary = script.summaries.iter().find(|s| s.name == name);
        assert!(summary.is_some_and(|s| s.unknown.is_none()), "{name}");
    }
}

#[test]
fn a_variable_of_the_function_s_own_is_not_the_file_s() {
    let sql = vec![SourceFile::new("schema.sql", SCHEMA)];
    let text = r#"
let query = "SELECT n FROM a";
function choose(x) { if (x) { query = "DELETE FROM a"; } }
async function by_name(db) { await db.query(query); }
const same = "SELECT n FROM b";
async function beside(db) { const same = "DELETE FROM b"; await db.query(same); }
async function by_same(db) { await db.query(same); }
"#;
    let (_, script) = analysed_files(sql, vec![SourceFile::new("f.js", text)]);
    assert!(writes(&script, "by_name"));
    assert!(writes(&script, "beside"));
    assert!(!writes(&script, "by_same"));
}
