//! Functions that are called repeatedly: a summary is reused only where the result is the same; changes in loops are
//! found after any number of iterations.

use std::time::Instant;

use anabranch_sql::SourceFile;

use crate::support::{analysed_files, told};

const SCHEMA: &str = "CREATE TABLE a (id bigint PRIMARY KEY, n bigint NOT NULL, name text);
CREATE TABLE b (id bigint PRIMARY KEY, n bigint NOT NULL);
";

/// The transaction of one function, as text.
fn of(file: &str, text: &str, function: &str) -> String {
    let schema = vec![SourceFile::new("schema.sql", SCHEMA)];
    let (program, _) = analysed_files(schema, vec![SourceFile::new(file, text)]);
    let all = told(&program);
    let mut lines = all.lines().skip_while(|line| *line != function);
    let first = lines.next();
    let rest = lines.take_while(|line| line.starts_with(' '));
    first.into_iter().chain(rest).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn is(found: &str, expected: &str) {
    assert_eq!(found.trim_end(), expected.trim_end(), "\n{found}");
}

/// A function creates a new value in each call, and passes its argument on unchanged.
#[test]
fn values_of_two_calls_are_two() {
    let text = r#"
def _fresh(x):
    return x * 3 + 1

def _same(x):
    return x

def f(conn, p, q):
    one = _fresh(p)
    two = _fresh(q)
    conn.execute("UPDATE a SET n = %s WHERE id = %s", (one, two))
    conn.execute("UPDATE b SET n = %s WHERE id = %s", (_same(p), _same(q)))
    conn.execute("UPDATE b SET n = %s WHERE id = %s", (_same(q), one))
"#;
    is(
        &of("f.py", text, "f"),
        "f
  UPDATE a SET n = <:one> WHERE id = <:two>
  UPDATE b SET n = <:p> WHERE id = <:q>
  UPDATE b SET n = <:q> WHERE id = <:one>",
    );
}

/// Two values created by one function are distinct, even with the same name.
#[test]
fn what_a_function_makes_twice_is_two_parameters() {
    let text = r#"
def _fresh(x):
    return x * 3 + 1

def f(conn, p, q):
    conn.execute("UPDATE a SET n = %s WHERE id = %s", (_fresh(p), _fresh(q)))
"#;
    let schema = vec![SourceFile::new("schema.sql", SCHEMA)];
    let (program, _) = analysed_files(schema, vec![SourceFile::new("f.py", text)]);
    let client = program.clients.iter().find(|client| client.name == "f");
    assert_eq!(client.expect("it is there").parameters.len(), 2);
}

/// One text argument selects another text.
#[test]
fn what_a_text_chooses_is_chosen_each_time() {
    let text = r#"
def _query(kind):
    return {"del": "DELETE FROM b WHERE id = %s"}[kind]

def f(conn, p):
    conn.execute("DELETE FROM a WHERE id = %s", (_query("none"),))
    conn.execute(_query("del"), (p,))
"#;
    let found = of("f.py", text, "f");
    assert!(found.contains("DELETE FROM b WHERE id = <:p>"), "{found}");
}

/// An error in a text is reported where the text is written, whichever function passes it on.
#[test]
fn a_text_stands_where_it_was_written() {
    let text = r#"
def _same(x):
    return x

def f(conn):
    conn.execute("DELETE FROM " + _same("nowhere"))

def g(conn):
    conn.execute("DELETE FROM " + _same("nowhere"))
"#;
    let schema = vec![SourceFile::new("schema.sql", SCHEMA)];
    let (_, script) = analysed_files(schema, vec![SourceFile::new("f.py", text)]);
    let lines = script.skipped.iter().map(|left| {
        let span = left.diagnostic.span.expect("it has a place");
        let file = &script.application.catalog().files[usize::from(span.file)];
        file.line_column(span.start).0
    });
    assert_eq!(lines.collect::<Vec<_>>(), [6, 9]);
}

/// Different text arguments give different results.
#[test]
fn texts_that_are_handed_over_are_other_texts() {
    let text = r#"
def _table(kind):
    return "b" if kind is None else kind

def _where(kind):
    return " WHERE id = %s"

def f(conn, p):
    conn.execute("DELETE FROM " + _table("a") + _where("a"), (p,))
    conn.execute("DELETE FROM " + _table("b") + _where("b"), (p,))
"#;
    let found = of("f.py", text, "f");
    assert!(found.contains("DELETE FROM a WHERE id = <:p>"), "{found}");
    assert!(found.contains("DELETE FROM b WHERE id = <:p>"), "{found}");
}

/// The result of a nested function depends on its surroundings.
#[test]
fn what_stands_around_a_function_counts_each_time() {
    let text = r#"
function f(db, id) {
  let table = id;
  function named() { return "DELETE FROM " + table + " WHERE id = $1"; }
  named();
  named();
  table = "a";
  db.query(named(), [id]);
  table = "b";
  db.query(named(), [id]);
}
"#;
    let found = of("f.js", text, "f");
    assert!(found.contains("DELETE FROM a WHERE id = <:id>"), "{found}");
    assert!(found.contains("DELETE FROM b WHERE id = <:id>"), "{found}");
}

/// The result also depends on the surroundings of a function that it calls.
#[test]
fn what_stands_around_a_function_that_it_calls_counts_too() {
    let text = r#"
function f(db, id) {
  let table = "a";
  function inner() { return "DELETE FROM " + table + " WHERE id = $1"; }
  function outer(x) { return inner(); }
  db.query(outer(id), [id]);
  table = "b";
  db.query(outer(id), [id]);
}
"#;
    is(
        &of("f.js", text, "f"),
        "f\n  DELETE FROM a WHERE id = <:id>\n  DELETE FROM b WHERE id = <:id>",
    );
}

/// Writes to outer variables are repeated on each call.
#[test]
fn a_cached_call_repeats_its_outer_writes() {
    let text = r#"
function f(db, id, x) {
  let sql = "DELETE FROM a WHERE id = $1";
  function turned(y) { sql = "DELETE FROM b WHERE id = $1"; return y; }
  turned(x);
  sql = "UPDATE a SET n = 0 WHERE id = $1";
  turned(x);
  db.query(sql, [id]);
}
"#;
    is(
        &of("f.js", text, "f"),
        "f\n  DELETE FROM b WHERE id = <:id>",
    );
}

/// The same for variables that were unknown before.
#[test]
fn a_cached_call_makes_the_same_variables_known() {
    let text = r#"
function f(db, id, x) {
  let sql = id;
  function turned(y) { sql = "DELETE FROM b WHERE id = $1"; return y; }
  turned(x);
  sql = id;
  turned(x);
  db.query(sql, [id]);
}
"#;
    is(
        &of("f.js", text, "f"),
        "f\n  DELETE FROM b WHERE id = <:id>",
    );
}

/// An object's fields are written by its own and inherited methods.
#[test]
fn what_a_method_of_another_class_writes_may_be_what_there_is() {
    let text = r#"
class Base:
    def turned(self, x):
        self.sql = "DELETE FROM b WHERE id = %s"
        return x

class Own(Base):
    def f(self, conn, id, x):
        self.turned(x)
        self.sql = "DELETE FROM a WHERE id = %s"
        self.turned(x)
        conn.execute(self.sql, (id,))
"#;
    let found = of("f.py", text, "Own.f");
    assert!(found.contains("DELETE FROM a WHERE"), "{found}");
    assert!(found.contains("DELETE FROM b WHERE"), "{found}");
}

/// An object's fields stay known within its own methods.
#[test]
fn fields_are_known_to_methods() {
    let text = r#"
class Own:
    def f(self, conn, id):
        self.sql = "DELETE FROM a WHERE id = %s"
        self._run(conn, id)
        self.sql = "DELETE FROM b WHERE id = %s"
        self._run(conn, id)
        self._run(conn, self._plain(id))

    def _plain(self, id):
        return self.sql and id

    def _run(self, conn, id):
        conn.execute(self.sql, (id,))
"#;
    is(
        &of("f.py", text, "Own.f"),
        "Own.f
  DELETE FROM a WHERE id = <:id>
  DELETE FROM b WHERE id = <:id>
  DELETE FROM b WHERE id = <self.sql and id>",
    );
}

/// Fields written by a method that is not followed become unknown.
#[test]
fn what_methods_write_that_are_not_followed_is_not_known() {
    let text = r#"
class First:
    def turned(self, x):
        self._again(x)

    def _again(self, x):
        self.sql = "DELETE FROM b WHERE id = %s"

class Second:
    def turned(self, x):
        return x

class Own(Library):
    def f(self, conn, id, x):
        self.sql = "DELETE FROM a WHERE id = %s"
        self.kept = "DELETE FROM a WHERE id = %s"
        self.turned(x)
        conn.execute(self.kept, (id,))
        conn.execute(self.sql, (id,))
"#;
    let found = of("f.py", text, "Own.f");
    assert!(found.contains("DELETE FROM a WHERE id = <:id>"), "{found}");
    assert!(found.contains("! "), "{found}");
}

/// The value in the third iteration counts, though the first leaves the variable unchanged.
#[test]
fn the_third_iteration_is_not_missed() {
    let text = r#"
def f(conn, ids):
    one = "DELETE FROM a"
    two = one
    three = "DELETE FROM b"
    for id in ids:
        conn.execute(one)
        one = two
        two = three
"#;
    let found = of("f.py", text, "f");
    assert!(found.contains("! "), "it runs what is not known:\n{found}");
}

/// A variable that no iteration writes keeps its value.
#[test]
fn what_a_loop_leaves_alone_is_known_in_it() {
    let text = r#"
def f(conn, ids, rows):
    sql = "DELETE FROM a WHERE id = %s"
    for id in ids:
        for row in rows:
            if row:
                other = id
            conn.execute(sql, (id,))
"#;
    let found = of("f.py", text, "f");
    assert!(found.contains("DELETE FROM a WHERE id = <~:id>"), "{found}");
    assert!(!found.contains("! "), "{found}");
}

/// A recursive call around a cached function is followed the next time.
#[test]
fn a_recursive_result_is_not_reused_outside() {
    let text = r#"
def _outer(x):
    if x:
        return _inner(x)
    return " WHERE id = %s"

def _inner(x):
    return _outer(x)

def f(conn, p):
    _outer(p)
    conn.execute("DELETE FROM a" + _inner(p), (p,))
"#;
    let found = of("f.py", text, "f");
    // Within `_outer`, `_inner` is not followed; here it may be.
    assert!(found.contains("DELETE FROM a"), "{found}");
}

/// Thousands of mutually recursive functions that run nothing are walked quickly.
#[test]
fn many_that_call_each_other_are_followed_once() {
    let mut text = String::from("function g0(x) { return x + 1; }\n");
    for n in 1..40 {
        let before = n - 1;
        text += &format!(
            "function g{n}(x) {{ let y = g{before}(x); for (const i of y) {{ y = g{before}(y); }} \
             return g{before}(y); }}\n"
        );
    }
    text += "function f(db, x) { db.query('UPDATE a SET n = $1 WHERE id = $2', [g11(x), x]); }\n";
    let started = Instant::now();
    let found = of("f.js", &text, "f");
    is(&found, "f\n  UPDATE a SET n = <x + 1> WHERE id = <:x>");
    // 3^11 calls, and twice as many for each loop, would take minutes.
    assert!(started.elapsed().as_secs() < 20);
}
