//! Single statements over a store in memory: the results are PostgreSQL's.

use anabranch_sql::{TransactionError, testing::ready};
use anabranch_types::Value;

use crate::support::Database;

const SCHEMA: &str = "
CREATE TABLE team (
    id integer PRIMARY KEY,
    name varchar(10) NOT NULL UNIQUE,
    code char(4)
);
CREATE TABLE player (
    team_id integer NOT NULL REFERENCES team (id) ON DELETE CASCADE ON UPDATE CASCADE,
    number integer NOT NULL,
    name text NOT NULL,
    salary numeric(8, 2) CHECK (salary >= 0),
    captain_of integer REFERENCES team (id) ON DELETE SET NULL,
    born date DEFAULT '2000-01-01',
    PRIMARY KEY (team_id, number)
);
CREATE INDEX player_by_salary ON player (team_id, salary);
CREATE TABLE log (at timestamp, what text, n bigint);
CREATE VIEW paid AS SELECT team_id, sum(salary) AS total FROM player GROUP BY team_id;
";

const DATA: &[&str] = &[
    "INSERT INTO team VALUES (1, 'red', 'R'), (2, 'blue', 'BLUE'), (3, 'empty', NULL)",
    "INSERT INTO player (team_id, number, name, salary, captain_of) VALUES
        (1, 1, 'ann', 100.50, 1), (1, 2, 'bob', 80, NULL), (1, 3, 'cyd', NULL, NULL),
        (2, 1, 'dan', 90.25, 2), (2, 2, 'eve', 80, NULL)",
];

fn filled() -> Database {
    Database::with(SCHEMA, DATA)
}

#[test]
fn expressions_give_what_postgresql_gives() {
    let mut database = filled();
    let cases = [
        ("1 + 2 * 3", "7"),
        ("7 / 2", "3"),
        ("-7 / 2", "-3"),
        ("-7 % 3", "-1"),
        ("7.0 / 2", "3.5000000000000000"),
        ("1.10 + 2", "3.10"),
        ("2.50 * 2.0", "5.000"),
        ("1 / 3.0", "0.33333333333333333333"),
        ("2 ^ 10", "1024"),
        ("1e2", "100"),
        ("0.1::float8 + 0.2", "0.30000000000000004"),
        ("'a' || 1 || 'b'", "a1b"),
        ("'x' || NULL", "-"),
        ("NULL = NULL", "-"),
        ("NULL AND false", "f"),
        ("NULL OR true", "t"),
        ("NOT NULL::boolean", "-"),
        ("1 IS DISTINCT FROM NULL", "t"),
        ("1 IN (2, NULL)", "-"),
        ("1 NOT IN (1, NULL)", "f"),
        ("2 BETWEEN 1 AND 3", "t"),
        ("'abc' LIKE 'a%'", "t"),
        ("CASE 2 WHEN 1 THEN 'one' WHEN 2 THEN 'two' END", "two"),
        ("CASE WHEN false THEN 1 END", "-"),
        ("coalesce(NULL, 2, 3)", "2"),
        ("nullif(1, 1)", "-"),
        ("nullif(-3, 1.5::float8) - 2.5", "-5.5"),
        ("nullif(NULL, 7) + 1", "-"),
        ("greatest(1, NULL, 3.5)", "3.5"),
        ("round(2.5)", "3"),
        ("round(2.5::float8)", "2"),
        ("round(-1.255, 2)", "-1.26"),
        ("trunc(-1.5)", "-1"),
        ("ceil(1.2)", "2"),
        ("floor(-1.2)", "-2"),
        ("abs(-3)", "3"),
        ("mod(7, 4)", "3"),
        ("'12'::integer + 1", "13"),
        ("1.5::integer", "2"),
        ("2.5::float8::integer", "2"),
        ("true::text", "true"),
        ("'abcdef'::varchar(3)", "abc"),
        ("'ab'::char(4) || 'c'", "abc"),
        ("'ab'::char(4)", "ab  "),
        ("'a' = 'a '::char(3)", "t"),
        ("upper('abc') || lower('DEF')", "ABCdef"),
        ("substring('abcdef' from 2 for 3)", "bcd"),
        ("trim(both 'x' from 'xxaxx')", "a"),
        ("position('c' in 'abc')", "3"),
        ("length('häh')", "3"),
        ("date '2024-02-28' + 2", "2024-03-01"),
        ("date '2024-03-01' - date '2024-02-01'", "29"),
        (
            "timestamp '2024-01-31 10:00' + interval '1 month'",
            "2024-02-29 10:00:00",
        ),
        ("extract(year from timestamp '2024-05-06')", "2024"),
        ("extract(epoch from timestamp '1970-01-02')", "86400.000000"),
        ("ARRAY[1, 2, 3]", "{1,2,3}"),
        ("(ARRAY[1, 2, 3])[2]", "2"),
        ("cardinality(ARRAY[1, 2])", "2"),
        ("2 = ANY (ARRAY[1, 2])", "t"),
        ("2 > ALL (ARRAY[1, NULL])", "-"),
        ("(1, 2) = (1, 2)", "t"),
        ("(SELECT 5)", "5"),
        ("EXISTS (SELECT 1 WHERE false)", "f"),
        ("ARRAY(SELECT g FROM generate_series(1, 3) g)", "{1,2,3}"),
        ("'\\xDEAD'::bytea", "\\xdead"),
        ("concat('a', NULL, 1, true)", "a1t"),
        ("-2147483648", "-2147483648"),
        ("9223372036854775807", "9223372036854775807"),
    ];
    for (expression, expected) in cases {
        database.check(&format!("SELECT {expression}"), expected);
    }
}

/// PostgreSQL's answers.
#[test]
fn rows_arrays_and_texts_are_compared_and_cut() {
    let mut database = filled();
    let cases = [
        ("(1, 2) < (1, 3)", "t"),
        ("(1, 2) <= (1, 1)", "f"),
        ("(2, NULL) > (1, 1)", "t"),
        ("(1, NULL) > (1, 1)", "-"),
        ("(NULL, 1) < (1, 2)", "-"),
        ("(1, 2, 3) >= (1, 2, 4)", "f"),
        ("1 ISNULL", "f"),
        ("1 + NULL ISNULL", "t"),
        ("bit_length('aä')", "24"),
        ("bit_length('\\x00'::bytea)", "8"),
        ("translate('12345', '143', 'ax')", "a2x5"),
        ("translate('äbä', 'ää', 'xy')", "xbx"),
        ("to_hex(-1)", "ffffffff"),
        ("to_hex(-1::bigint)", "ffffffffffffffff"),
        ("string_to_array('a,b,', ',')", "{a,b,\"\"}"),
        ("string_to_array('', ',')", "{}"),
        ("string_to_array('abc', NULL)", "{a,b,c}"),
        ("string_to_array('abc', '')", "{abc}"),
        ("string_to_array('a,,b', ',', '')", "{a,NULL,b}"),
        ("string_to_array(NULL, ',')", "-"),
        ("date_part('year', DATE '2024-01-31')", "2024"),
        (
            "date_part('epoch', TIMESTAMP '2024-01-31 00:00:00.5')",
            "1706659200.5",
        ),
        ("array_cat(ARRAY[1], ARRAY[2])", "{1,2}"),
        ("array_cat(NULL, ARRAY[2])", "{2}"),
        ("array_prepend(NULL, ARRAY[1])", "{NULL,1}"),
        ("0 || ARRAY[1]", "{0,1}"),
        ("ARRAY[1] || '{2}'", "{1,2}"),
        ("NULL || ARRAY[1]", "{1}"),
        ("ARRAY[1, 2] @> ARRAY[1]", "t"),
        ("ARRAY[1, 2] <@ ARRAY[1]", "f"),
        ("ARRAY[1, 2] && ARRAY[2, 3]", "t"),
        ("ARRAY[1] @> '{}'", "t"),
        ("ARRAY[1, NULL] @> ARRAY[NULL]::int[]", "f"),
        ("ARRAY[1.0] @> ARRAY[1.00]", "t"),
        ("ARRAY[1, NULL] && ARRAY[NULL, 2]", "f"),
        ("sign('NaN'::float8)", "0"),
        ("'\\x01'::bytea || 'ab'", "\\x016162"),
        ("'ab'::text || '\\x01'::bytea", "ab\\x01"),
        ("pi()", "3.141592653589793"),
        (
            "(SELECT avg(x) FROM (VALUES (1.5::real), (0.005), (1)) AS v (x))",
            "0.8349999999627471",
        ),
        ("(SELECT 7 FETCH FIRST ROW ONLY)", "7"),
        (
            "ARRAY(SELECT generate_series(1, 99)) @> ARRAY(SELECT generate_series(40, 99))",
            "t",
        ),
        (
            "ARRAY(SELECT generate_series(1, 99)) && ARRAY(SELECT generate_series(100, 199))",
            "f",
        ),
    ];
    for (expression, expected) in cases {
        database.check(&format!("SELECT {expression}"), expected);
    }
}

#[test]
fn errors_have_postgresqls_codes() {
    let mut database = filled();
    let cases = [
        ("SELECT 1 / 0", "22012"),
        ("SELECT 2147483647 + 1", "22003"),
        ("SELECT 9223372036854775807 + 1", "22003"),
        ("SELECT 'x'::integer", "22P02"),
        ("SELECT 100000.5::numeric(4, 1)", "22003"),
        ("SELECT nothing", "42703"),
        ("SELECT x.id FROM team", "42P01"),
        ("SELECT * FROM nowhere", "42P01"),
        ("SELECT id FROM team, player p, team t2", "42702"),
        ("SELECT 1 + true", "42883"),
        ("SELECT team_id, name FROM player GROUP BY team_id", "42803"),
        ("SELECT id FROM team WHERE count(*) > 1", "42803"),
        ("SELECT (SELECT id FROM team)", "21000"),
        ("SELECT (SELECT id, name FROM team)", "42601"),
        ("SELECT rank() FROM team", "42809"),
        ("SELECT nosuch(1)", "42883"),
        ("SELECT * FROM team FULL JOIN player USING (id)", "0A000"),
        ("SELECT 1 UNION SELECT 'a'", "42804"),
        ("SELECT id FROM team UNION SELECT name FROM team", "42804"),
        ("SELECT id FROM team ORDER BY 2", "42P10"),
        ("INSERT INTO team VALUES (4, 'toolonganame', NULL)", "22001"),
        ("INSERT INTO team VALUES (4, NULL, NULL)", "23502"),
        ("INSERT INTO team VALUES (1, 'new', NULL)", "23505"),
        ("INSERT INTO team VALUES (5, 'red', NULL)", "23505"),
        ("INSERT INTO player VALUES (9, 1, 'zoe')", "23503"),
        ("INSERT INTO player VALUES (1, 9, 'zoe', -1)", "23514"),
        (
            "UPDATE player SET salary = -salary WHERE number = 1",
            "23514",
        ),
        (
            "UPDATE player SET captain_of = 77 WHERE number = 1",
            "23503",
        ),
        ("UPDATE team SET id = 'x'", "22P02"),
        ("INSERT INTO team (id, id) VALUES (1, 1)", "42701"),
        ("INSERT INTO team (id) VALUES (1, 2)", "42601"),
        ("DELETE FROM team LIMIT 1", "0A000"),
    ];
    for (text, code) in cases {
        database.refuse(text, code);
    }
}

#[test]
fn queries_join_group_and_order() {
    let mut database = filled();
    let cases = [
        (
            "SELECT name FROM player WHERE team_id = 1 ORDER BY number DESC",
            "cyd;bob;ann",
        ),
        (
            "SELECT p.name, t.name FROM player p JOIN team t ON t.id = p.team_id WHERE salary = 80 ORDER BY 1",
            "bob|red;eve|blue",
        ),
        (
            "SELECT t.name, p.name FROM team t LEFT JOIN player p ON p.team_id = t.id AND p.salary > 85 ORDER BY t.id",
            "red|ann;blue|dan;empty|-",
        ),
        (
            "SELECT t.name FROM player p RIGHT JOIN team t ON p.team_id = t.id WHERE p.name IS NULL",
            "empty",
        ),
        (
            "SELECT team_id, count(*), sum(salary), avg(salary), min(name) FROM player GROUP BY team_id ORDER BY team_id",
            "1|3|180.50|90.2500000000000000|ann;2|2|170.25|85.1250000000000000|dan",
        ),
        (
            "SELECT team_id FROM player GROUP BY team_id HAVING count(salary) = 2 AND sum(salary) > 175",
            "1",
        ),
        (
            "SELECT count(*), sum(salary), max(id) FROM player, team WHERE false",
            "0|-|-",
        ),
        (
            "SELECT count(DISTINCT salary), count(*) FILTER (WHERE number = 1) FROM player",
            "3|2",
        ),
        (
            "SELECT string_agg(name, ',' ORDER BY name DESC), array_agg(number ORDER BY name) FROM player",
            "eve,dan,cyd,bob,ann|{1,2,3,1,2}",
        ),
        (
            "SELECT DISTINCT salary FROM player ORDER BY salary",
            "80.00;90.25;100.50;-",
        ),
        (
            "SELECT DISTINCT ON (team_id) team_id, name FROM player ORDER BY team_id, salary DESC NULLS LAST",
            "1|ann;2|dan",
        ),
        (
            "SELECT salary FROM player ORDER BY salary DESC LIMIT 2",
            "-;100.50",
        ),
        (
            "SELECT number FROM player WHERE team_id = 1 ORDER BY number LIMIT 1 OFFSET 1",
            "2",
        ),
        (
            "SELECT max(number), min(number) FROM player WHERE team_id = 1",
            "3|1",
        ),
        ("SELECT max(number) FROM player WHERE team_id = 1", "3"),
        ("SELECT max(number) FROM player WHERE team_id = 7", "-"),
        (
            "SELECT name FROM team t WHERE NOT EXISTS (SELECT 1 FROM player p WHERE p.team_id = t.id)",
            "empty",
        ),
        (
            "SELECT name, (SELECT count(*) FROM player p WHERE p.team_id = t.id) FROM team t ORDER BY id",
            "red|3;blue|2;empty|0",
        ),
        (
            "SELECT name FROM player WHERE (team_id, number) IN (SELECT team_id, max(number) FROM player GROUP BY team_id) ORDER BY 1",
            "cyd;eve",
        ),
        (
            "SELECT id FROM team WHERE id NOT IN (SELECT captain_of FROM player)",
            "",
        ),
        (
            "SELECT id FROM team WHERE id IN (3, 1, 1) ORDER BY id",
            "1;3",
        ),
        (
            "SELECT id FROM team WHERE id = ANY (ARRAY[2, 3, 2]) ORDER BY id DESC",
            "3;2",
        ),
        ("SELECT total FROM paid WHERE team_id = 2", "170.25"),
        (
            "WITH x AS (SELECT team_id, max(salary) AS top FROM player GROUP BY team_id) SELECT name, top FROM x JOIN team ON id = team_id ORDER BY 2",
            "blue|90.25;red|100.50",
        ),
        ("SELECT 1 UNION SELECT 2 UNION SELECT 1 ORDER BY 1", "1;2"),
        ("SELECT 1 UNION ALL SELECT 1.5", "1;1.5"),
        ("SELECT id FROM team EXCEPT SELECT team_id FROM player", "3"),
        (
            "SELECT number FROM player WHERE team_id = 1 INTERSECT ALL SELECT number FROM player WHERE team_id = 2 ORDER BY 1",
            "1;2",
        ),
        (
            "SELECT a + b FROM (VALUES (1, 2), (3, 4)) AS v (a, b)",
            "3;7",
        ),
        ("VALUES (1, 'a'), (2, NULL)", "1|a;2|-"),
        (
            "SELECT n, x FROM unnest(ARRAY['a', 'b']) WITH ORDINALITY AS u (x, n)",
            "1|a;2|b",
        ),
        (
            "SELECT t.id, x.m FROM team t, LATERAL (SELECT max(number) AS m FROM player WHERE team_id = t.id) x ORDER BY 1",
            "1|3;2|2;3|-",
        ),
        ("SELECT code FROM team WHERE code = 'R'", "R   "),
        (
            "SELECT born FROM player WHERE team_id = 1 AND number = 1",
            "2000-01-01",
        ),
        (
            "SELECT name FROM player WHERE team_id = 1 AND number > 1 AND number <= 3 ORDER BY number",
            "bob;cyd",
        ),
        (
            "SELECT name FROM player WHERE team_id = 1 AND number > 1.5 ORDER BY number",
            "bob;cyd",
        ),
        (
            "SELECT name FROM player WHERE team_id = 1 AND salary < 100.505 ORDER BY salary",
            "bob;ann",
        ),
        (
            "SELECT team_id % 2 AS odd, count(*) FROM player GROUP BY odd ORDER BY odd",
            "0|2;1|3",
        ),
        (
            "SELECT count(*) FROM player a JOIN player b USING (number)",
            "9",
        ),
        ("SELECT g FROM generate_series(1, 10, 4) g", "1;5;9"),
    ];
    for (text, expected) in cases {
        database.check(text, expected);
    }
}

#[test]
fn parameters_take_the_types_of_their_use() {
    let mut database = filled();
    let text = "SELECT name FROM player WHERE team_id = $1 AND salary > $2";
    let parameters = [Value::Int(1), Value::Int(90)];
    assert_eq!(database.run_with(text, &parameters).as_deref(), Ok("ann"));
    let statement = database
        .application
        .statement("SELECT id FROM team WHERE name = $2 AND id = ANY ($1)")
        .unwrap();
    let types: Vec<String> = statement
        .parameters()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(types, ["integer[]", "text"]);
}

#[test]
fn rows_are_changed_and_returned() {
    let mut database = filled();
    database.check("UPDATE player SET salary = salary + 1, name = name || '!' WHERE team_id = 2 RETURNING name, salary", "dan!|91.25;eve!|81.00");
    database.check(
        "UPDATE player p SET name = t.name FROM team t WHERE t.id = p.team_id AND number = 1",
        "#2",
    );
    database.check("SELECT name FROM player WHERE number = 1", "red;blue");
    database.check("UPDATE player SET (number, salary) = (salary, number) WHERE team_id = 2 AND number = 2 RETURNING number, salary", "81|2.00");
    database.check(
        "INSERT INTO team VALUES (1, 'x', NULL) ON CONFLICT DO NOTHING",
        "#0",
    );
    database.check("INSERT INTO team VALUES (1, 'x', 'C'), (7, 'seven', NULL) ON CONFLICT (id) DO UPDATE SET code = excluded.code || team.id RETURNING id, code", "1|C1  ;7|-");
    database.check("DELETE FROM player USING team WHERE team.id = player.team_id AND team.name = 'red' AND number > 1 RETURNING number", "2;3");
    database.check("INSERT INTO log SELECT '2024-01-01', name, length(name) FROM team WHERE id < 3 RETURNING what, n", "red|3;blue|4");
    database.check("INSERT INTO log DEFAULT VALUES", "#1");
    database.check("SELECT count(*), count(n) FROM log", "3|2");
}

#[test]
fn rows_inserted_together_are_held_to_the_rules_one_by_one() {
    let mut database = filled();
    let refused = [
        ("1, n, 'p', s", "ARRAY[20, 21], ARRAY[1.5, -1]", "23514"),
        ("1, n, s, 1", "ARRAY[20, 21], ARRAY['a', NULL]", "23502"),
        ("t, n, 'p', 1", "ARRAY[20, 21], ARRAY[1, 9]", "23503"),
        (
            "1, n + 2147483647, 'p', 1",
            "ARRAY[0, 1], ARRAY[1, 1]",
            "22003",
        ),
        (
            "1, n, 'p', s * 1000000",
            "ARRAY[20, 21], ARRAY[0.5, 1]",
            "22003",
        ),
        ("1, n / s, 'p', 1", "ARRAY[20, 21], ARRAY[1, 0]", "22012"),
    ];
    for (row, arrays, code) in refused {
        let name = if row.starts_with('t') { "t" } else { "s" };
        let text = format!(
            "INSERT INTO player (team_id, number, name, salary)
             SELECT {row} FROM unnest({arrays}) AS l (n, {name})"
        );
        let answer = database.run(&text);
        assert_eq!(
            answer.as_ref().map_err(|error| &error[..5]),
            Err(code),
            "{text}: {answer:?}"
        );
    }
    database.check("SELECT count(*) FROM player", "5");
    database.check(
        "INSERT INTO player (team_id, number, name, salary, captain_of)
         SELECT 3, n, team.name, s, c
         FROM unnest(ARRAY[20, 21, 22], ARRAY[1.005, 2.5, NULL], ARRAY[2, NULL, 2]) AS l (n, s, c)
         JOIN team ON id = n - 19",
        "#3",
    );
    database.check(
        "SELECT number, name, salary, captain_of, born FROM player WHERE team_id = 3",
        "20|red|1.01|2|2000-01-01;21|blue|2.50|-|2000-01-01;22|empty|-|2|2000-01-01",
    );
}

#[test]
fn foreign_keys_act() {
    let mut database = filled();
    database.check("UPDATE player SET captain_of = NULL", "#5");
    database.check("UPDATE team SET id = 20 WHERE id = 2", "#1");
    database.check(
        "SELECT team_id, number FROM player WHERE team_id > 2",
        "20|1;20|2",
    );
    database.check("UPDATE player SET captain_of = 1 WHERE number = 3", "#1");
    database.refuse("UPDATE team SET id = 30 WHERE id = 1", "23503");
    let mut database = filled();
    database.check(
        "UPDATE player SET captain_of = 2 WHERE team_id = 1 AND number = 2",
        "#1",
    );
    database.check("DELETE FROM team WHERE id = 2", "#1");
    database.check(
        "SELECT number, captain_of FROM player ORDER BY number",
        "1|1;2|-;3|-",
    );
    database.check(
        "INSERT INTO player VALUES (1, 10, 'x', NULL, NULL, DEFAULT)",
        "#1",
    );
}

#[test]
fn procedures_follow_their_control_flow() {
    let schema = format!(
        "{SCHEMA}
CREATE FUNCTION fizz(p_n integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    line text := '';
    i integer := 0;
BEGIN
    WHILE i < p_n LOOP
        i := i + 1;
        CONTINUE WHEN i = 4;
        EXIT WHEN i > 16;
        IF i % 15 = 0 THEN line := line || 'fizzbuzz ';
        ELSIF i % 3 = 0 THEN line := line || 'fizz ';
        ELSIF i % 5 = 0 THEN line := line || 'buzz ';
        ELSE line := line || i || ' ';
        END IF;
    END LOOP;
    RETURN trim(line);
END $$;
CREATE FUNCTION names(p_team integer) RETURNS TABLE (position_of integer, who text) LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT number, name FROM player WHERE team_id = p_team ORDER BY number LOOP
        position_of := r.number * 10;
        who := upper(r.name);
        RETURN NEXT;
    END LOOP;
    RETURN QUERY SELECT 0, 'end'::text;
END $$;
CREATE FUNCTION give_raise(p_team integer, p_by numeric) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    touched integer;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM team WHERE id = p_team) THEN
        RAISE EXCEPTION 'no team % for %%', p_team USING ERRCODE = 'T0001';
    END IF;
    UPDATE player SET salary = salary + p_by WHERE team_id = p_team AND salary IS NOT NULL;
    GET DIAGNOSTICS touched = ROW_COUNT;
    INSERT INTO log VALUES (NULL, 'raised', touched);
END $$;
CREATE PROCEDURE raise_both(p_by numeric) LANGUAGE plpgsql AS $$
DECLARE
    t integer;
BEGIN
    FOREACH t IN ARRAY ARRAY[1, 2] LOOP
        PERFORM give_raise(t, p_by);
    END LOOP;
END $$;
CREATE FUNCTION total(p_team integer) RETURNS numeric LANGUAGE SQL
BEGIN ATOMIC
    SELECT sum(salary) FROM player WHERE team_id = p_team;
END;
"
    );
    let mut database = Database::with(&schema, DATA);
    let mut call = |name: &str, arguments: &[Value]| {
        let procedure = database.application.find(name).unwrap().clone();
        let mut transaction = database.store.begin();
        let result = ready(procedure.call(&mut transaction, arguments));
        if result.is_err() {
            transaction.rollback();
        }
        result.map(|result| result.rows)
    };
    let fizz = call("fizz", &[Value::Int(40)]).unwrap();
    let line = "1 2 fizz buzz fizz 7 8 fizz buzz 11 fizz 13 14 fizzbuzz 16";
    assert_eq!(fizz, [[Value::text(line)]]);
    let names = call("names", &[Value::Int(2)]).unwrap();
    let row = |n: i64, who: &str| vec![Value::Int(n), Value::text(who)];
    assert_eq!(names, [row(10, "DAN"), row(20, "EVE"), row(0, "end")]);
    match call("give_raise", &[Value::Int(9), Value::Int(1)]) {
        Err(TransactionError::Failed(error)) => {
            assert_eq!(
                (error.code, error.message.as_str()),
                ("T0001", "no team 9 for %")
            );
        }
        other => panic!("{other:?}"),
    }
    call("raise_both", &[Value::Int(1)]).unwrap();
    assert_eq!(
        call("total", &[Value::Int(1)]).unwrap()[0][0],
        Value::Numeric("182.50".parse().unwrap())
    );
    match call("total", &[Value::text("x")]) {
        Err(TransactionError::Failed(error)) => assert_eq!(error.code, "42883"),
        other => panic!("{other:?}"),
    }
    database.check("SELECT what, n FROM log", "raised|2;raised|2");
}
