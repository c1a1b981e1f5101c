//! Procedures that call procedures: the analyser and the protocol see the effects of the called ones, which run.

use anabranch_sql::{
    Application, SourceFile, load, render,
    summary::{Deferral, ResultUse, Role, StatementSummary, Term, WriteClass},
    testing::{Store, ready},
};
use anabranch_types::{Read, Value};

const SCHEMA: &str = "
CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL);

CREATE FUNCTION take(p_id integer, p_n integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    left_over integer;
BEGIN
    UPDATE t SET n = n - p_n WHERE id = p_id RETURNING n INTO left_over;
    RETURN left_over;
END;
$$;

CREATE FUNCTION put(p_id integer, p_n integer) RETURNS void
LANGUAGE SQL BEGIN ATOMIC
    UPDATE t SET n = n + p_n WHERE id = p_id;
END;

CREATE FUNCTION move(p_from integer, p_to integer, p_n integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    left_over integer;
BEGIN
    left_over := take(p_from, p_n);
    PERFORM put(p_to, p_n);
    INSERT INTO t VALUES (100 + p_to, left_over);
END;
$$;

CREATE PROCEDURE move_all(p_from integer[], p_to integer)
LANGUAGE plpgsql AS $$
DECLARE
    one integer;
BEGIN
    FOREACH one IN ARRAY p_from LOOP
        PERFORM move(one, p_to + one, 1);
    END LOOP;
END;
$$;
";

fn compiled(text: &str) -> Result<Application, String> {
    let files = vec![SourceFile::new("calls.sql", text)];
    let application = load(files.clone()).and_then(Application::compile);
    application.map_err(|problems| render(&problems, &files))
}

fn statements<'a>(application: &'a Application, name: &str) -> &'a [StatementSummary] {
    let found = application.summaries().iter().find(|s| s.name == name);
    &found.expect("it is declared").statements
}

/// The term that a statement's first access finds its row by, and how it writes `n`.
fn shape(statement: &StatementSummary) -> (Role, Option<Term>, Option<WriteClass>) {
    let access = &statement.accesses[0];
    let key = access.conditions.first().map(|c| c.term.clone());
    let write = access.writes.iter().find(|w| w.column.index() == 1);
    (access.role, key, write.map(|w| w.class.clone()))
}

#[test]
fn the_effects_of_a_called_procedure_are_its_callers() {
    let application = compiled(SCHEMA).unwrap();
    let add = |parameter, negated| WriteClass::Add {
        term: Term::Parameter(parameter),
        negated,
    };
    let by = |parameter| Some(Term::Parameter(parameter));
    let moved = statements(&application, "move");
    let shapes: Vec<_> = moved.iter().map(shape).collect();
    assert_eq!(
        shapes,
        [
            (Role::Insert, None, Some(WriteClass::Assign(Term::Unknown))),
            (Role::Update, by(0), Some(add(2, true))),
            (Role::Update, by(1), Some(add(2, false))),
        ]
    );
    assert_eq!(moved[1].result, ResultUse::Used, "the caller decides by it");
    assert!(
        moved
            .iter()
            .all(|s| s.deferral == Deferral::None && !s.in_loop)
    );
    let all = statements(&application, "move_all");
    let shapes: Vec<_> = all.iter().map(shape).collect();
    let added = |negated| {
        let term = Term::Constant(Value::Int(1));
        Some(WriteClass::Add { term, negated })
    };
    assert_eq!(
        shapes[1..],
        [
            (Role::Update, Some(Term::Element(0)), added(true)),
            (Role::Update, Some(Term::Pure), added(false)),
        ]
    );
    assert!(all.iter().all(|s| s.in_loop), "{all:?}");
    // Called alone, they are unchanged.
    assert!(statements(&application, "take")[0].deferral == Deferral::Unread);
    assert!(statements(&application, "put")[0].deferral == Deferral::Unread);
    // The statements of each call have numbers of their own.
    let mut numbers: Vec<u32> = application
        .summaries()
        .iter()
        .flat_map(|transaction| &transaction.statements)
        .map(|statement| statement.id.0)
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..8).collect::<Vec<u32>>());
}

#[test]
fn statements_within_a_call_have_their_own_numbers() {
    let application = compiled(SCHEMA).unwrap();
    let mut store = Store::new(&application);
    let rows = application.statement("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30), (4, 40)");
    ready(rows.unwrap().execute(&mut store.begin(), &[])).unwrap();
    for (name, arguments) in [
        ("move", vec![Value::Int(1), Value::Int(2), Value::Int(4)]),
        (
            "move_all",
            vec![
                Value::Array([Value::Int(1), Value::Int(2)].into_iter().collect()),
                Value::Int(2),
            ],
        ),
    ] {
        let procedure = application.find(name).unwrap().clone();
        let declared: Vec<_> = procedure.declared_reads(&arguments);
        let mut transaction = store.begin();
        (transaction.defer, transaction.record) = (true, true);
        ready(procedure.call(&mut transaction, &arguments)).unwrap();
        let known: Vec<_> = statements(&application, name)
            .iter()
            .map(|s| s.id)
            .collect();
        for (statement, for_write, reads) in &transaction.reads {
            assert!(known.contains(statement), "{name}: {statement:?}");
            for read in reads.iter().filter(|r| matches!(r, Read::Point { .. })) {
                let told = declared.iter().any(|(s, w, r)| {
                    s == statement && w == for_write && format!("{r:?}") == format!("{read:?}")
                });
                assert!(!for_write || told, "{name}: {read:?} is not declared");
            }
        }
        assert!(declared.iter().filter(|(_, w, _)| *w).count() >= 2);
    }
    let row = |id, n| vec![Value::Int(id), Value::Int(n)];
    let mut all = store.rows("t");
    all.sort_by_key(|row| match row[0] {
        Value::Int(id) => id,
        _ => 0,
    });
    // 1 and 2 each give one more, to 3 and 4.
    assert_eq!(
        all,
        [
            row(1, 5),
            row(2, 23),
            row(3, 31),
            row(4, 41),
            row(102, 6),
            row(103, 5),
            row(104, 23)
        ]
    );
}

#[test]
fn a_procedure_calls_those_declared_before_it() {
    let bodies = [
        (
            "itself",
            "CREATE FUNCTION f(p integer) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM f(p - 1); END; $$;",
        ),
        (
            "a later one",
            "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM g(); END; $$;
             CREATE FUNCTION g() RETURNS void LANGUAGE plpgsql AS $$ BEGIN NULL; END; $$;",
        ),
    ];
    for (what, text) in bodies {
        let shown = compiled(text).expect_err(what);
        let construct = "a call of a procedure that is declared later, or of itself, is not";
        assert!(shown.contains(construct), "{what}: {shown}");
        assert!(shown.contains("calls.sql:1:"), "{what}: {shown}");
    }
}

#[test]
fn calls_that_double_at_each_level_are_refused() {
    let mut text = "CREATE TABLE t (id integer PRIMARY KEY);
        CREATE FUNCTION f0() RETURNS void LANGUAGE SQL BEGIN ATOMIC DELETE FROM t; END;"
        .to_owned();
    for level in 1..=40 {
        let below = level - 1;
        text += &format!(
            "CREATE FUNCTION f{level}() RETURNS void LANGUAGE plpgsql AS $$ \
             BEGIN PERFORM f{below}(); PERFORM f{below}(); END; $$;"
        );
    }
    let shown = compiled(&text).expect_err("too many");
    assert!(shown.contains("have more than 2000 statements"), "{shown}");
}

#[test]
fn a_statement_declares_the_reads_that_its_parameters_determine() {
    let application = compiled(SCHEMA).unwrap();
    for (text, parameters, expected) in [
        (
            "SELECT * FROM t WHERE id = $1",
            vec![Value::Int(7)],
            "1 for reading",
        ),
        (
            "UPDATE t SET n = $2 WHERE id = $1 + 1",
            vec![Value::Int(7), Value::Int(1)],
            "1 for writing",
        ),
        (
            "SELECT * FROM t WHERE id = ANY ($1)",
            vec![Value::Array([Value::Int(1), Value::Int(2)].into())],
            "2 for reading",
        ),
        (
            "SELECT * FROM t WHERE n = (SELECT max(n) FROM t WHERE id = $1)",
            vec![Value::Int(1)],
            "2 for reading",
        ),
        ("SELECT 1", vec![], "none"),
        ("SELECT * FROM t WHERE id = $1", vec![], "none"),
    ] {
        let statement = application.statement(text).unwrap();
        let reads = statement.declared_reads(&parameters);
        let writes = reads.iter().any(|(_, for_write, _)| *for_write);
        let found = match (reads.len(), writes) {
            (0, _) => "none".to_owned(),
            (count, true) => format!("{count} for writing"),
            (count, false) => format!("{count} for reading"),
        };
        assert_eq!(found, expected, "{text}: {reads:?}");
        assert!(reads.iter().all(|(id, _, _)| *id == statement.id()));
    }
}

#[test]
fn a_function_is_not_called_within_a_statement() {
    for body in [
        "SELECT take(id, 1) INTO x FROM t;",
        "SELECT count(*) INTO x FROM t WHERE n > take(id, 1);",
        "WHILE take(1, 2) > 3 LOOP x := 1; END LOOP;",
        "x := (SELECT take(1, 2));",
        "INSERT INTO t VALUES (1, take(1, 2));",
    ] {
        let text = format!(
            "{SCHEMA} CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ \
             DECLARE x integer; BEGIN {body} END; $$;"
        );
        let shown = compiled(&text).expect_err(body);
        assert!(shown.contains("take"), "{body}: {shown}");
    }
}

/// A procedure in an expression is called before the rest of the expression is evaluated, each time.
#[test]
fn expressions_call_procedures() {
    let application = compiled(&format!(
        "{SCHEMA}
CREATE FUNCTION twice(p_a integer, p_b integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE x integer := 0;
BEGIN
    FOR i IN 1..2 LOOP
        x := x + -take(p_a, i) * 2 + abs(x)::integer + take(p_b, 1);
    END LOOP;
    IF take(p_a, 0) < 5 THEN
        PERFORM put(p_b, 100);
    END IF;
    RETURN (take(p_b, 0)) + 1000 * x;
END; $$;"
    ))
    .unwrap();
    let mut store = Store::new(&application);
    let rows = application.statement("INSERT INTO t VALUES (1, 10), (2, 20)");
    ready(rows.unwrap().execute(&mut store.begin(), &[])).unwrap();
    let procedure = application.find("twice").unwrap().clone();
    let mut transaction = store.begin();
    let found = ready(procedure.call(&mut transaction, &[Value::Int(1), Value::Int(2)])).unwrap();
    // 0 - 9 * 2 + 0 + 19 = 1, and 1 - 7 * 2 + 1 + 18 = 6.
    assert_eq!(
        format!("{found:?}").matches("Int(6018)").count(),
        1,
        "{found:?}"
    );
    let (role, _, _) = shape(&statements(&application, "twice")[0]);
    assert_eq!(role, Role::Update);
}

/// A call that may not be evaluated, or may change rows that the rest reads, is refused.
#[test]
fn expressions_call_procedures_where_the_order_does_not_matter() {
    for value in [
        "take(1, 1) + (SELECT n FROM t WHERE id = 1)",
        "CASE WHEN p > 1 THEN take(1, 1) ELSE 2 END",
        "coalesce(p, take(1, 1))",
    ] {
        let shown = compiled(&format!(
            "{SCHEMA} CREATE FUNCTION f(p integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RETURN {value}; END; $$;"
        ))
        .expect_err(value);
        let told = "a call of take() here is not supported";
        assert!(shown.contains(told), "{value}: {shown}");
    }
    let shown = compiled(&format!(
        "{SCHEMA} CREATE FUNCTION f(p integer) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN \
         IF p > 3 THEN RETURN 1; ELSIF take(1, 1) > 2 THEN RETURN 2; END IF; RETURN 3; END; $$;"
    ));
    assert!(shown.is_err());
}
