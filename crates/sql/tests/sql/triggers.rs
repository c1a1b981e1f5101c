//! Row triggers BEFORE INSERT and UPDATE that assign columns of NEW.
//!
//! `changes/triggers.sql` has what they do and what DDL does with them, with PostgreSQL 15's answers.

use anabranch_sql::{
    Application, SourceFile,
    client::{ClientStatementKind, parse},
    load,
    summary::{Deferral, Term, WriteClass},
    testing::ready,
};
use anabranch_types::Value;

use crate::support::Database;

fn compiled(text: &str) -> Application {
    let catalog = load(vec![SourceFile::new("a.sql", text)]).unwrap_or_else(|p| panic!("{p:?}"));
    Application::compile(catalog).unwrap_or_else(|p| panic!("{p:?}"))
}

/// Why a change of the schema is refused: SQLSTATE, message and hint.
fn refusal(application: &Application, text: &str) -> Option<(String, String, bool)> {
    let statements = match parse(text) {
        Ok(statements) => statements,
        Err(problem) => {
            return Some((problem.code.into(), problem.message, problem.help.is_some()));
        }
    };
    match &statements[0].kind {
        ClientStatementKind::Change(change) => {
            let error = application.change(change).err()?.error;
            let fields = error.fields.as_deref();
            let has_hint = fields.is_some_and(|fields| fields.hint.is_some());
            Some((error.code.into(), error.message.to_string(), has_hint))
        }
        ClientStatementKind::Unsupported(problem) => Some((
            problem.code.into(),
            problem.message.clone(),
            problem.help.is_some(),
        )),
        other => panic!("{text}: {other:?}"),
    }
}

const SCHEMA: &str = "
    CREATE SEQUENCE s;
    CREATE TABLE t (
        id integer PRIMARY KEY, n integer, last integer, note text,
        g integer GENERATED ALWAYS AS (last + 1) STORED
    );
    CREATE FUNCTION fine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.last := 1; RETURN NEW; END';";

#[test]
fn what_a_trigger_does_beside_assigning_is_refused() {
    let application = compiled(SCHEMA);
    for declaration in [
        "AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION fine()",
        "AFTER UPDATE OF n ON t FOR EACH STATEMENT EXECUTE FUNCTION fine()",
        "INSTEAD OF INSERT ON t FOR EACH ROW EXECUTE FUNCTION fine()",
        "BEFORE DELETE ON t FOR EACH ROW EXECUTE FUNCTION fine()",
        "BEFORE INSERT OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION fine()",
        "BEFORE TRUNCATE ON t EXECUTE FUNCTION fine()",
        "BEFORE INSERT ON t EXECUTE FUNCTION fine()",
        "BEFORE INSERT ON t FOR STATEMENT EXECUTE FUNCTION fine()",
        "BEFORE INSERT ON t REFERENCING NEW TABLE AS x FOR EACH ROW EXECUTE FUNCTION fine()",
        "BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fine('a')",
        "BEFORE INSERT ON t DEFERRABLE FOR EACH ROW EXECUTE FUNCTION fine()",
        "BEFORE UPDATE ON t FOR EACH ROW WHEN (random() < 0.5) EXECUTE FUNCTION fine()",
    ] {
        let text = format!("CREATE TRIGGER x {declaration}");
        let (code, message, has_hint) = refusal(&application, &text).expect(declaration);
        assert_eq!((&*code, has_hint), ("0A000", true), "{text}: {message}");
    }
    let text = "CREATE CONSTRAINT TRIGGER x AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION fine()";
    assert_eq!(refusal(&application, text).expect(text).0, "0A000");
    for text in [
        "ALTER TABLE t DISABLE TRIGGER ALL",
        "ALTER TABLE t ENABLE TRIGGER x",
        "ALTER TRIGGER x ON t DEPENDS ON EXTENSION e",
    ] {
        assert_eq!(
            refusal(&application, text).expect(text).0,
            "0A000",
            "{text}"
        );
    }
    for body in [
        "BEGIN RETURN NULL; END",
        "BEGIN RETURN OLD; END",
        "BEGIN NEW.n := 1; END",
        "BEGIN IF NEW.n > 1 THEN RETURN NEW; END IF; END",
        "BEGIN RAISE EXCEPTION 'no'; RETURN NEW; END",
        "BEGIN UPDATE t SET n = 1; RETURN NEW; END",
        "BEGIN PERFORM 1; RETURN NEW; END",
        "BEGIN SELECT 1 INTO NEW.n; RETURN NEW; END",
        "BEGIN NEW := OLD; RETURN NEW; END",
        "BEGIN OLD.n := 1; RETURN NEW; END",
        "BEGIN FOR i IN 1..2 LOOP NEW.n := 1; END LOOP; RETURN NEW; END",
        "BEGIN CASE NEW.n WHEN 1 THEN NEW.n := 2; ELSE NULL; END CASE; RETURN NEW; END",
        "BEGIN EXECUTE 'x'; RETURN NEW; END",
        "BEGIN NEW.n := 1; RETURN NEW; EXCEPTION WHEN others THEN RETURN NEW; END",
        "DECLARE x integer := 1; BEGIN NEW.n := x; RETURN NEW; END",
    ] {
        let text = format!("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$");
        let (code, message, has_hint) = refusal(&application, &text).expect(body);
        assert_eq!((&*code, has_hint), ("0A000", true), "{body}: {message}");
    }
}

/// A function may be declared before its tables, so what it names is looked up when a trigger is declared.
#[test]
fn a_trigger_whose_function_does_not_fit_its_table_is_refused() {
    for (body, code, words) in [
        (
            "NEW.nothing := 1;",
            "42703",
            "record \"new\" has no field \"nothing\"",
        ),
        (
            "NEW.n := NEW.nothing;",
            "42703",
            "record \"new\" has no field \"nothing\"",
        ),
        (
            "NEW.n := OLD.nothing;",
            "42703",
            "record \"old\" has no field \"nothing\"",
        ),
        ("NEW.n := last;", "42703", "column \"last\" does not exist"),
        (
            "NEW.n := t.n;",
            "42P01",
            "missing FROM-clause entry for table \"t\"",
        ),
        ("NEW.g := 1;", "0A000", "generated column"),
        ("NEW.n := nextval('s');", "0A000", "another value each time"),
        (
            "NEW.note := random()::text;",
            "0A000",
            "another value each time",
        ),
        ("NEW.n := (SELECT max(n) FROM t);", "0A000", "a subquery"),
        (
            "IF EXISTS (SELECT 1) THEN NEW.n := 1; END IF;",
            "0A000",
            "a subquery",
        ),
        ("NEW.note := clock_timestamp();", "0A000", "clock_timestamp"),
        (
            "NEW.n := now();",
            "0A000",
            "to column \"n\" of type integer",
        ),
        (
            "NEW.n := NEW.n / 0; NEW.n := 1;",
            "0A000",
            "does not use it",
        ),
        (
            "IF NEW.n / 0 > 1 THEN NULL; END IF;",
            "0A000",
            "does not use it",
        ),
        (
            "NEW.n := other();",
            "42883",
            "function other() does not exist",
        ),
        (
            "IF NEW.n THEN NEW.n := 1; END IF;",
            "42804",
            "must be type boolean",
        ),
    ] {
        let schema = format!(
            "{SCHEMA} CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NEW; END $$;"
        );
        let application = compiled(&schema);
        for event in ["INSERT", "UPDATE", "INSERT OR UPDATE"] {
            let text =
                format!("CREATE TRIGGER x BEFORE {event} ON t FOR EACH ROW EXECUTE FUNCTION f()");
            let (found, message, _) = refusal(&application, &text).expect(body);
            assert_eq!(found, code, "{body}: {message}");
            assert!(message.contains(words), "{body}: {message}");
        }
    }
    // The trigger would not compile any more.
    let application = compiled(&format!(
        "{SCHEMA} CREATE TRIGGER x BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION fine();"
    ));
    for (text, code) in [
        ("ALTER TABLE t RENAME last TO first", "0A000"),
        ("ALTER TABLE t DROP COLUMN last", "2BP01"),
        ("ALTER TABLE t ALTER last TYPE boolean USING true", "0A000"),
        (
            "CREATE OR REPLACE FUNCTION fine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.x := 1; RETURN NEW; END'",
            "0A000",
        ),
        (
            "CREATE OR REPLACE FUNCTION fine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
            "42P13",
        ),
    ] {
        assert_eq!(refusal(&application, text).expect(text).0, code, "{text}");
    }
}

/// What a statement gives is evaluated once, and the value that a trigger assigns wins.
#[test]
fn what_a_trigger_reads_is_evaluated_once() {
    let schema = "
        CREATE SEQUENCE s;
        CREATE TABLE t (
            id integer PRIMARY KEY, a integer DEFAULT nextval('s'), b integer, c integer,
            d integer GENERATED ALWAYS AS (b - c) STORED
        );
        CREATE FUNCTION spread() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN NEW.b := NEW.a; NEW.c := NEW.a; NEW.a := 0; RETURN NEW; END';
        CREATE TRIGGER spread BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION spread();
        CREATE TABLE u (id integer, b integer);
        CREATE FUNCTION fixed() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.b := 1; RETURN NEW; END';
        CREATE TRIGGER fixed BEFORE INSERT ON u FOR EACH ROW EXECUTE FUNCTION fixed();";
    let mut database = Database::with(schema, &["INSERT INTO t (id) VALUES (1), (2)"]);
    let wrong = "SELECT id FROM t WHERE a <> 0 OR b <> c OR d <> 0";
    for (statement, answer) in [
        ("SELECT count(DISTINCT b) FROM t", "2"),
        (
            "UPDATE t SET a = nextval('s'), b = 5 RETURNING a, b, c",
            "0|3|3;0|4|4",
        ),
        (
            "INSERT INTO t (id, a) VALUES (3, nextval('s')) RETURNING b, c",
            "5|5",
        ),
        (
            "INSERT INTO t (id, a) VALUES (3, nextval('s')) ON CONFLICT (id) DO UPDATE SET a = excluded.b + nextval('s') RETURNING a, b",
            "0|13",
        ),
        (
            "UPDATE t SET a = o.b + 100 FROM t AS o WHERE o.id = t.id AND t.id = 1 RETURNING t.b",
            "103",
        ),
        (
            "UPDATE t SET (a, b) = (1, 2) WHERE id = 2 RETURNING a, b",
            "0|1",
        ),
    ] {
        database.check(statement, answer);
        database.check(wrong, "");
    }
    // What is overwritten may fail.
    database.refuse(
        "INSERT INTO u (id, b) SELECT id, 1 / (id - id) FROM t",
        "22012",
    );
    database.refuse("UPDATE t SET b = 1 / (id - id)", "22012");
    database.refuse(
        "INSERT INTO t (id, b) SELECT id + 10, 1 / (id - id) FROM t",
        "22012",
    );
}

/// The analyser sees what triggers assign as if the statement assigned it, and a deferred UPDATE computes it where the row
/// is.
#[test]
fn a_deferred_update_fires_triggers_at_commit() {
    let schema = "
        CREATE TABLE t (id integer PRIMARY KEY, n integer, last integer, at timestamptz, k integer);
        CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN NEW.last := OLD.n; NEW.at := now(); RETURN NEW; END';
        CREATE TRIGGER remember BEFORE INSERT OR UPDATE OF n ON t FOR EACH ROW EXECUTE FUNCTION remember();
        CREATE FUNCTION grow(i integer, by integer) RETURNS void LANGUAGE sql BEGIN ATOMIC
            UPDATE t SET n = n + by WHERE id = i; END;
        CREATE FUNCTION put(i integer, to_last integer) RETURNS void LANGUAGE sql BEGIN ATOMIC
            UPDATE t SET n = 7, last = to_last WHERE id = i; END;
        CREATE FUNCTION keep(i integer) RETURNS void LANGUAGE sql BEGIN ATOMIC
            UPDATE t SET k = 1 WHERE id = i; END;
        CREATE FUNCTION divide(i integer) RETURNS void LANGUAGE sql BEGIN ATOMIC
            UPDATE t SET n = 1, last = 1 / k WHERE id = i; END;
        CREATE FUNCTION add(i integer, p integer) RETURNS void LANGUAGE sql BEGIN ATOMIC
            INSERT INTO t (id, n, last) VALUES (i, p, p); END;";
    let rows = ["INSERT INTO t (id, n, k) VALUES (1, 10, 0), (2, 20, 0)"];
    let mut database = Database::with(schema, &rows);
    let application = compiled(schema);
    let of = |name: &str| {
        let found = application.summaries().iter().find(|s| s.name == name);
        found.expect("it is declared").statements[0].clone()
    };
    let written = |name: &str| -> Vec<(usize, WriteClass)> {
        let mut writes: Vec<(usize, WriteClass)> = of(name).accesses[0]
            .writes
            .iter()
            .map(|w| (w.column.index(), w.class.clone()))
            .collect();
        writes.sort_by_key(|(column, _)| *column);
        writes
    };
    let grown = WriteClass::Add {
        term: Term::Parameter(1),
        negated: false,
    };
    let now = WriteClass::Assign(Term::Now);
    assert_eq!(
        written("grow"),
        [(1, grown), (2, WriteClass::FromRow), (3, now.clone())]
    );
    assert!(of("grow").accesses[0].columns_read.iter().any(|c| c.0 == 1));
    let put = written("put");
    assert_eq!(put[1..], [(2, WriteClass::FromRow), (3, now)]);
    assert_eq!(written("keep").len(), 1);
    assert_eq!(
        written("add")[2],
        (2, WriteClass::Assign(Term::Constant(Value::Null)))
    );
    for name in ["grow", "put", "keep"] {
        assert_eq!(of(name).deferral, Deferral::Unread, "{name}");
    }
    // The owner of the row would not notice that it fails.
    assert_eq!(of("divide").deferral, Deferral::None);
    for (name, arguments) in [
        ("grow", &[1, 5][..]),
        ("put", &[2, 8]),
        ("keep", &[2]),
        ("add", &[3, 6]),
    ] {
        let procedure = application.find(name).expect("it is declared").clone();
        let arguments: Vec<Value> = arguments.iter().map(|i| Value::Int(*i)).collect();
        let mut transaction = database.store.begin();
        transaction.defer = true;
        ready(procedure.call(&mut transaction, &arguments)).expect(name);
    }
    database.check(
        "SELECT id, n, last, at IS NULL, k FROM t ORDER BY id",
        "1|15|10|f|0;2|7|20|f|1;3|6|-|f|-",
    );
}

/// A file has the forms of `pg_dump`, in any order.
#[test]
fn files_declare_them() {
    let application = compiled(
        "CREATE FUNCTION public.touch() RETURNS trigger
             LANGUAGE plpgsql
             AS $$
         BEGIN
             NEW.\"changedAt\" = now();
             RETURN NEW;
         END;
         $$;
         CREATE TRIGGER touch BEFORE INSERT OR UPDATE OF a, b ON public.t FOR EACH ROW WHEN ((new.a > 1)) EXECUTE FUNCTION public.touch();
         CREATE TABLE public.t (a integer, b integer, \"changedAt\" timestamp with time zone);",
    );
    let text = application.declarations();
    assert!(
        text.ends_with(
            "CREATE TRIGGER touch BEFORE INSERT OR UPDATE OF a, b ON t FOR EACH ROW WHEN ((new.a > 1)) EXECUTE FUNCTION touch();\n"
        ),
        "{text}"
    );
    assert_eq!(compiled(&text).declarations(), text);
}

/// What psql asks for `\d t`.
#[test]
fn psql_describes_them() {
    let schema = format!(
        "{SCHEMA} CREATE TRIGGER x BEFORE INSERT OR UPDATE OF n, note ON t FOR EACH ROW \
         WHEN (NEW.n > 1 AND NEW.note <> 'a') EXECUTE FUNCTION fine();"
    );
    let mut database = Database::with(&schema, &[]);
    database.check(
        "SELECT t.tgname, pg_catalog.pg_get_triggerdef(t.oid, true), t.tgenabled, t.tgisinternal,
           CASE WHEN t.tgparentid != 0 THEN
             (SELECT u.tgrelid::pg_catalog.regclass
              FROM pg_catalog.pg_trigger AS u,
                   pg_catalog.pg_partition_ancestors(t.tgrelid) WITH ORDINALITY AS a(relid, depth)
              WHERE u.tgname = t.tgname AND u.tgrelid = a.relid
                    AND u.tgparentid = 0
              ORDER BY a.depth LIMIT 1)
           END AS parent
         FROM pg_catalog.pg_trigger t
         WHERE t.tgrelid = 't'::regclass AND (NOT t.tgisinternal OR (t.tgisinternal AND t.tgenabled = 'D'))
         ORDER BY 1",
        "x|CREATE TRIGGER x BEFORE INSERT OR UPDATE OF n, note ON t FOR EACH ROW \
         WHEN (new.n > 1 AND new.note <> 'a'::text) EXECUTE FUNCTION fine()|O|f|-",
    );
}

/// An UPDATE that names other columns fires fewer of them: these must compose as well, or nothing of them would be done.
#[test]
fn triggers_of_which_some_set_does_not_compose_are_refused() {
    let schema = "
        CREATE TABLE t (id integer PRIMARY KEY, n integer, a integer, c integer, x integer);
        CREATE FUNCTION f1() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.a := 10 / NEW.n; RETURN NEW; END';
        CREATE FUNCTION f2() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.c := NEW.a; RETURN NEW; END';
        CREATE FUNCTION f3() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.a := 0; RETURN NEW; END';
        CREATE TRIGGER t1 BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f1();
        CREATE TRIGGER t2 BEFORE UPDATE OF x ON t FOR EACH ROW EXECUTE FUNCTION f2();";
    let third = "CREATE TRIGGER t3 BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f3()";
    let refused = refusal(&compiled(schema), third).expect(third);
    assert_eq!(refused.0, "0A000", "{refused:?}");
    // With t2 always there, the quotient is used.
    let always = schema.replace("UPDATE OF x", "UPDATE");
    assert_eq!(refusal(&compiled(&always), third), None);
}

/// A trigger that keeps a column as it was moves no row.
#[test]
fn a_kept_key_is_no_changed_key() {
    let schema = "
        CREATE TABLE t (id integer PRIMARY KEY, n integer);
        CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.id := OLD.id; RETURN NEW; END';
        CREATE TRIGGER keep BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION keep();";
    let mut database = Database::with(schema, &["INSERT INTO t VALUES (1, 5)"]);
    for statement in [
        "INSERT INTO t VALUES (1, 6) ON CONFLICT (id) DO UPDATE SET n = excluded.n RETURNING n",
        "UPDATE t SET id = 2, n = n + 1 RETURNING n",
    ] {
        database.check(
            statement,
            if statement.starts_with('I') { "6" } else { "7" },
        );
        database.check("SELECT id FROM t", "1");
    }
}

/// The operands of AND are evaluated from the left, and may fail before one decides.
#[test]
fn what_comes_before_a_constant_operand_may_fail() {
    let schema = "
        CREATE TABLE t (id integer PRIMARY KEY, n integer, a integer);
        CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN IF 1 / NEW.n > 0 AND TG_OP = ''UPDATE'' THEN NEW.a := 1; END IF; RETURN NEW; END';
        CREATE TRIGGER f BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f();";
    let mut database = Database::with(schema, &[]);
    database.refuse("INSERT INTO t VALUES (1, 0)", "22012");
    database.check("INSERT INTO t VALUES (1, 1) RETURNING a", "-");
    database.check("UPDATE t SET n = 1 RETURNING a", "1");
}
