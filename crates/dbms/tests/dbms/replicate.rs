//! What a global operation changes on one PostgreSQL server is, byte for byte, what the other servers have after they have applied it: for
//! everything that makes the same statements give different rows on different servers.

use anabranch_dbms::postgres::capture::ReplicatedTable;
use anabranch_dbms::postgres::catalog;
use anabranch_dbms::postgres::install::{self, Part};
use anabranch_dbms::postgres::{Server, Settings, explain};
use postgres::Client;

/// Three databases of one PostgreSQL server, each with the belt installed.
struct Ring {
    _server: Server,
    clients: Vec<Client>,
    appliers: Vec<Client>,
    hop: i64,
}

/// How a test declares a table: its name, and whether it is whole.
type Declared<'a> = (&'a str, bool);

impl Ring {
    fn start(schema: &str, tables: &[Declared<'_>]) -> Ring {
        Ring::start_for(schema, tables, None)
    }

    /// A ring with a role for the middleware and one for applications.
    fn start_for(schema: &str, tables: &[Declared<'_>], roles: Option<(&str, &str)>) -> Ring {
        let server = Server::start(Settings::default()).unwrap_or_else(|error| panic!("{error}"));
        let mut first = server.connect().unwrap_or_else(|error| panic!("{error}"));
        if let Some((middleware, application)) = roles {
            let created = format!(
                "CREATE ROLE {middleware}; CREATE ROLE {application}; \
                 GRANT SET ON PARAMETER session_replication_role TO {middleware}"
            );
            run(&mut first, &created);
        }
        let (mut clients, mut appliers) = (Vec::new(), Vec::new());
        for place in 0..3_u16 {
            let name = format!("site{place}");
            run(&mut first, &format!("CREATE DATABASE {name}"));
            let mut client = server
                .connect_to(&name)
                .unwrap_or_else(|error| panic!("{error}"));
            run(&mut client, schema);
            let known = catalog::tables(&mut client).unwrap_or_else(|e| panic!("{}", explain(&e)));
            let replicated = tables.iter().zip(1..).map(|((name, is_whole), number)| {
                let table = known.iter().find(|t| t.name == *name);
                ReplicatedTable {
                    number,
                    table: table.unwrap_or_else(|| panic!("no table {name}")).clone(),
                    is_whole: *is_whole,
                }
            });
            let part = Part {
                ring: "test".to_owned(),
                name,
                place,
                servers: 3,
                slots: 4,
                owners: anabranch_dbms::slots::initial(4, 3),
                tables: replicated.collect(),
                sequences: catalog::sequences(&mut client).unwrap_or_default(),
                middleware: roles.map(|(middleware, _)| middleware.to_owned()),
                applications: roles
                    .iter()
                    .map(|(_, application)| (*application).to_owned())
                    .collect(),
                digest: String::new(),
                types: Vec::new(),
            };
            run(&mut client, &format!("BEGIN;\n{}\nCOMMIT", part.script()));
            let mut applier = server
                .connect_to(&part.name)
                .unwrap_or_else(|error| panic!("{error}"));
            run(
                &mut applier,
                "SET session_replication_role = replica; SET default_transaction_isolation = serializable",
            );
            run(&mut client, "SELECT anabranch.prepare()");
            clients.push(client);
            appliers.push(applier);
        }
        Ring {
            _server: server,
            clients,
            appliers,
            hop: 0,
        }
    }

    /// Runs statements as one global operation of a server, under a hop of its own, and has the others apply it.
    fn global(&mut self, place: usize, statements: &str) {
        self.attempt(place, statements)
            .unwrap_or_else(|error| panic!("{statements}: {error}"));
    }

    fn attempt(&mut self, place: usize, statements: &str) -> Result<(), String> {
        self.hop += 1;
        let hop = self.hop;
        run(
            &mut self.appliers[place],
            &format!("UPDATE anabranch.hold SET received = {hop}, passed = 0"),
        );
        let client = &mut self.clients[place];
        let operation = format!(
            "BEGIN ISOLATION LEVEL SERIALIZABLE; LOCK TABLE anabranch.fence IN ROW SHARE MODE; \
             SELECT anabranch.enter({hop}); {statements}; SET CONSTRAINTS ALL IMMEDIATE; SELECT anabranch.seal(); COMMIT"
        );
        if let Err(error) = client.batch_execute(&operation) {
            run(client, "ROLLBACK");
            return Err(explain(&error));
        }
        let rows = self.appliers[place].query(
            "SELECT c.relation, c.kind, c.columns::text, c.image FROM anabranch.outbox o, \
             LATERAL unnest(o.relations, o.kinds, o.columns, o.images) AS c(relation, kind, columns, image) WHERE o.hop = $1",
            &[&hop],
        );
        let rows = rows.unwrap_or_else(|error| panic!("{}", explain(&error)));
        let relations: Vec<i16> = rows.iter().map(|row| row.get(0)).collect();
        let kinds: Vec<i8> = rows.iter().map(|row| row.get(1)).collect();
        let columns: Vec<Option<String>> = rows.iter().map(|row| row.get(2)).collect();
        let images: Vec<Option<String>> = rows.iter().map(|row| row.get(3)).collect();
        for other in (0..3).filter(|other| *other != place) {
            self.appliers[other]
                .execute(
                    "SELECT anabranch.apply($1, $2, ($3::text[])::varbit[], $4)",
                    &[&relations, &kinds, &columns, &images],
                )
                .map_err(|error| explain(&error))?;
        }
        Ok(())
    }

    /// Runs statements as one local operation of a server.
    fn local(&mut self, place: usize, statements: &str) -> Result<(), String> {
        let client = &mut self.clients[place];
        let operation = format!(
            "BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL anabranch.hop = 'local'; {statements}; COMMIT"
        );
        client.batch_execute(&operation).map_err(|error| {
            let text = explain(&error);
            run(client, "ROLLBACK");
            text
        })
    }

    /// The rows of a query on a server, as text.
    fn rows(&mut self, place: usize, query: &str) -> Vec<String> {
        let client = &mut self.clients[place];
        let rows = client.query(&format!("SELECT q::text FROM ({query}) q ORDER BY 1"), &[]);
        let rows = rows.unwrap_or_else(|error| panic!("{query}: {}", explain(&error)));
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Compares a table's rows on all servers, in the text form that tells every two values apart.
    fn equal(&mut self, table: &str) -> Vec<String> {
        let bytes = format!("SELECT t::text AS shown FROM {table} t");
        let first = self.rows(0, &bytes);
        for place in 1..3 {
            assert_eq!(
                first,
                self.rows(place, &bytes),
                "{table} on servers 0 and {place}"
            );
        }
        self.rows(0, &format!("SELECT * FROM {table}"))
    }
}

fn run(client: &mut Client, statements: &str) {
    if let Err(error) = client.batch_execute(statements) {
        panic!("{}\n{statements}", explain(&error));
    }
}

#[test]
fn values_that_each_server_would_compute_differently_are_equal_everywhere() {
    let schema = "CREATE TABLE stamp (id int PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(), began timestamptz, \
        chance float8, made uuid DEFAULT gen_random_uuid(), number bigint GENERATED BY DEFAULT AS IDENTITY, \
        twice float8 GENERATED ALWAYS AS (chance * 2) STORED); \
        CREATE TABLE queue (id int PRIMARY KEY, taken boolean NOT NULL DEFAULT false); \
        INSERT INTO queue SELECT i FROM generate_series(1, 50) i";
    let mut ring = Ring::start(schema, &[("stamp", true), ("queue", true)]);
    for place in 0..3 {
        ring.global(
            place,
            &format!(
                "INSERT INTO stamp (id, began, chance) VALUES ({place}, now(), random()), ({place} + 10, now(), random() * 1e-300)"
            ),
        );
        ring.global(
            place,
            "UPDATE queue SET taken = true WHERE id IN (SELECT id FROM queue WHERE NOT taken ORDER BY random() LIMIT 5)",
        );
    }
    ring.global(
        1,
        "UPDATE stamp SET at = clock_timestamp(), chance = random() WHERE id < 2",
    );
    let stamps = ring.equal("stamp");
    assert_eq!(stamps.len(), 6);
    let queue = ring.equal("queue");
    assert_eq!(queue.iter().filter(|row| row.contains(",t")).count(), 15);
    // The numbers of a server have its residue.
    let numbers = ring.rows(2, "SELECT number % 4 FROM stamp WHERE id % 10 = 2");
    assert_eq!(numbers, ["(2)", "(2)"]);
}

#[test]
fn all_kinds_of_values_arrive_as_they_were() {
    let schema = "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN small AS int CHECK (value < 1000); \
        CREATE TYPE pair AS (a int, b text); CREATE TABLE gone (id int PRIMARY KEY, lost text, v_numeric numeric, v_real real, \
        v_interval interval, v_json json, v_jsonb jsonb, v_mood mood, v_small small, v_pair pair, v_ints int[], \
        v_texts text[], v_bytes bytea, v_char char(5), v_range int4range, v_time timetz, v_inet inet, v_bits varbit, \
        v_money money, v_date date, \"odd \"\"name\" text); ALTER TABLE gone DROP COLUMN lost";
    let mut ring = Ring::start(schema, &[("gone", true)]);
    ring.global(
        0,
        "SET LOCAL extra_float_digits = -10; SET LOCAL IntervalStyle = sql_standard; SET LOCAL DateStyle = 'SQL, DMY'; \
         INSERT INTO gone VALUES (1, 1.50, 0.1, '1 day -03:04', '{ \"a\" : 1,  \"a\": 2}', '{\"b\": 1.00}', 'ok', 7, '(1,\"a,\"\"b\")', \
         '[2:3]={4,5}', '{NULL,\"NULL\",\"\"}', '\\x00ff', 'ab', '[1,5)', '10:00+02', '10.0.0.1/8', B'0101', '1.25', '2020-02-03', E'a\\nb\\\\c')",
    );
    ring.global(0, "INSERT INTO gone (id, v_real, v_numeric) VALUES (2, 'NaN', 'Infinity'), (3, '-0', '-0.00')");
    ring.equal("gone");
    // Values that `=` takes for equal.
    ring.global(
        1,
        "UPDATE gone SET v_numeric = 1.500, v_json = '{\"a\":1}' WHERE id = 1",
    );
    ring.global(1, "UPDATE gone SET v_real = 0 WHERE id = 3");
    ring.global(
        2,
        "UPDATE gone SET v_texts = NULL, \"odd \"\"name\" = '' WHERE id = 1",
    );
    let rows = ring.equal("gone");
    assert!(rows[0].contains("1.500"), "{rows:?}");
}

#[test]
fn what_reads_rows_of_one_server_alone_gives_all_the_same() {
    // An order takes the quantity from a cart that only its server has.
    let schema = "CREATE TABLE cart (id int PRIMARY KEY, quantity int NOT NULL); \
        CREATE TABLE item (id int PRIMARY KEY, stock int NOT NULL); INSERT INTO item VALUES (1, 100)";
    let mut ring = Ring::start(schema, &[("item", true)]);
    ring.local(1, "INSERT INTO cart VALUES (5, 7)")
        .expect("a local operation");
    ring.global(
        1,
        "UPDATE item SET stock = stock - (SELECT quantity FROM cart WHERE id = 5) WHERE id = 1",
    );
    assert_eq!(ring.equal("item"), ["(1,93)"]);
}

#[test]
fn triggers_cascades_and_rows_that_change_twice() {
    let schema = "CREATE TABLE parent (id int PRIMARY KEY, note text); \
        CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE); \
        CREATE TABLE audit (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text); \
        CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        IF NEW.note NOT LIKE '%!' THEN UPDATE parent SET note = note || '!' WHERE id = NEW.id; \
        INSERT INTO audit (what) VALUES (NEW.note); END IF; RETURN NULL; END $$; \
        CREATE TRIGGER again AFTER INSERT OR UPDATE ON parent FOR EACH ROW EXECUTE FUNCTION again(); \
        CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        UPDATE parent SET note = note || ' late!' WHERE id = NEW.id AND note NOT LIKE '%late!'; RETURN NULL; END $$; \
        CREATE CONSTRAINT TRIGGER late AFTER INSERT ON parent DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()";
    let mut ring = Ring::start(
        schema,
        &[("parent", true), ("child", true), ("audit", true)],
    );
    ring.global(0, "INSERT INTO parent VALUES (1, 'a'), (2, 'b'), (3, 'c'); INSERT INTO child VALUES (10, 1), (20, 2), (21, 2)");
    assert_eq!(ring.equal("parent")[0], "(1,\"a! late!\")");
    assert_eq!(ring.equal("audit").len(), 3);
    // Keys that move into each other's places.
    ring.global(1, "UPDATE parent SET id = -1 WHERE id = 1; UPDATE parent SET id = 1 WHERE id = 2; UPDATE parent SET id = 2 WHERE id = -1");
    assert_eq!(ring.equal("child"), ["(10,2)", "(20,1)", "(21,1)"]);
    ring.global(2, "DELETE FROM parent WHERE id = 1; INSERT INTO parent VALUES (1, 'again'); UPDATE parent SET note = 'x!' WHERE id = 2");
    ring.equal("parent");
    assert_eq!(ring.equal("child"), ["(10,2)"]);
    // A row that comes and goes leaves nothing.
    ring.global(0, "INSERT INTO child VALUES (99, 2); DELETE FROM child WHERE id = 99; DELETE FROM child WHERE id = 10; INSERT INTO child VALUES (10, 3)");
    assert_eq!(ring.equal("child"), ["(10,3)"]);
    ring.global(
        0,
        "INSERT INTO child VALUES (11, 2); TRUNCATE child; INSERT INTO child VALUES (12, 2)",
    );
    assert_eq!(ring.equal("child"), ["(12,2)"]);
    assert_eq!(ring.equal("parent").len(), 3);
}

#[test]
fn unique_values_that_rows_exchange() {
    let schema = "CREATE TABLE seat (id int PRIMARY KEY, place int UNIQUE, guest text); \
        INSERT INTO seat VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')";
    let mut ring = Ring::start(schema, &[("seat", true)]);
    ring.global(0, "UPDATE seat SET place = 0 WHERE id = 1; UPDATE seat SET place = 1 WHERE id = 2; UPDATE seat SET place = 2 WHERE id = 1");
    assert_eq!(ring.equal("seat"), ["(1,2,a)", "(2,1,b)", "(3,3,c)"]);
    ring.global(0, "DELETE FROM seat WHERE id = 3; INSERT INTO seat VALUES (4, 3, 'd'); UPDATE seat SET place = 9 WHERE id = 4; INSERT INTO seat VALUES (5, 3, 'e')");
    ring.equal("seat");
}

#[test]
fn columns_that_another_server_owns_stay() {
    let schema = "CREATE TABLE account (id int PRIMARY KEY, total int NOT NULL, theme text NOT NULL); \
        INSERT INTO account VALUES (1, 0, 'plain'), (2, 0, 'plain')";
    let mut ring = Ring::start(schema, &[("account", false)]);
    ring.local(2, "UPDATE account SET theme = 'dark' WHERE id = 1")
        .expect("local");
    ring.global(0, "UPDATE account SET total = 10 WHERE id = 1");
    assert_eq!(ring.rows(2, "TABLE account")[0], "(1,10,dark)");
    assert_eq!(ring.rows(1, "TABLE account")[0], "(1,10,plain)");
    // A row that only one server has.
    ring.local(2, "INSERT INTO account VALUES (3, 1, 'mine')")
        .expect("local");
    ring.global(2, "UPDATE account SET total = 2 WHERE id = 3");
    assert_eq!(ring.rows(2, "TABLE account")[2], "(3,2,mine)");
    assert_eq!(ring.rows(1, "TABLE account").len(), 2);
}

#[test]
fn two_blind_writers_of_one_key_end_equal() {
    let schema = "CREATE TABLE last (id int PRIMARY KEY, who text)";
    let mut ring = Ring::start(schema, &[("last", true)]);
    for place in 0..3 {
        ring.global(
            place,
            &format!("INSERT INTO last VALUES (1, 'server {place}') ON CONFLICT (id) DO UPDATE SET who = excluded.who"),
        );
    }
    assert_eq!(ring.equal("last"), ["(1,\"server 2\")"]);
}

#[test]
fn writes_that_no_other_server_would_learn_of_are_refused() {
    let schema =
        "CREATE TABLE item (id int PRIMARY KEY, stock int); CREATE TABLE cart (id int PRIMARY KEY)";
    let mut ring = Ring::start(schema, &[("item", true)]);
    let direct = ring.clients[0].batch_execute("INSERT INTO item VALUES (1, 1)");
    let text = explain(&direct.expect_err("refused"));
    assert!(
        text.contains("rows of \"item\" are on several servers"),
        "{text}"
    );
    let text = ring
        .local(0, "INSERT INTO item VALUES (1, 1)")
        .expect_err("refused");
    assert!(text.contains("a local operation writes \"item\""), "{text}");
    ring.local(0, "INSERT INTO cart VALUES (1)")
        .expect("cart is not replicated");
    let text = ring
        .attempt(0, "SELECT anabranch.seal(); INSERT INTO item VALUES (1, 1)")
        .expect_err("refused");
    assert!(text.contains("after the end of the operation"), "{text}");
    assert!(ring.equal("item").is_empty());
    // Servers that differ are told, and nothing is applied.
    ring.global(0, "INSERT INTO item VALUES (1, 1)");
    run(&mut ring.appliers[2], "DELETE FROM item");
    let text = ring
        .attempt(0, "UPDATE item SET stock = 2")
        .expect_err("refused");
    assert!(text.contains("the servers differ"), "{text}");
}

#[test]
fn an_operation_of_a_hop_that_is_over_does_not_commit() {
    let schema = "CREATE TABLE item (id int PRIMARY KEY)";
    let mut ring = Ring::start(schema, &[("item", true)]);
    ring.global(0, "INSERT INTO item VALUES (1)");
    run(
        &mut ring.clients[0],
        "UPDATE anabranch.hold SET passed = received",
    );
    let text = ring.clients[0]
        .batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE; LOCK TABLE anabranch.fence IN ROW SHARE MODE; SELECT anabranch.enter(1)")
        .map_err(|error| explain(&error))
        .expect_err("refused");
    assert!(text.contains("hop 1 is not held here"), "{text}");
}

#[test]
fn removal_leaves_the_database_as_it_was() {
    let schema = "CREATE TABLE item (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)";
    let mut ring = Ring::start(schema, &[("item", true)]);
    ring.global(1, "INSERT INTO item DEFAULT VALUES");
    let client = &mut ring.clients[1];
    let sequences = catalog::sequences(client).expect("read");
    let last = sequences
        .into_iter()
        .map(|s| {
            let last = s.last.unwrap_or(0);
            (s, last)
        })
        .collect::<Vec<_>>();
    run(client, &install::removal(&last));
    assert!(!install::is_installed(client).expect("read"));
    run(
        client,
        "INSERT INTO item DEFAULT VALUES; INSERT INTO item DEFAULT VALUES",
    );
    assert_eq!(ring.rows(1, "TABLE item"), ["(1)", "(2)", "(3)"]);
}

#[test]
fn a_role_with_no_more_than_it_needs_runs_and_applies() {
    // The application's role may change rows of its tables, and nothing else; the belt's tables belong to another one.
    let schema = "CREATE TABLE item (id int PRIMARY KEY, stock int); CREATE TABLE seat (id int PRIMARY KEY, place int UNIQUE); \
        GRANT SELECT, INSERT, UPDATE, DELETE ON item, seat TO shop";
    let tables = [("item", true), ("seat", true)];
    let mut ring = Ring::start_for(schema, &tables, Some(("belt", "shop")));
    for client in &mut ring.clients {
        run(
            client,
            "DISCARD TEMP; SET SESSION AUTHORIZATION shop; SELECT anabranch.prepare()",
        );
    }
    for applier in &mut ring.appliers {
        run(
            applier,
            "SET session_replication_role = replica; SET SESSION AUTHORIZATION belt",
        );
    }
    ring.global(
        0,
        "INSERT INTO item VALUES (1, 10); INSERT INTO seat VALUES (1, 1), (2, 2)",
    );
    ring.global(1, "UPDATE item SET stock = 9; UPDATE seat SET place = 3 WHERE id = 1; UPDATE seat SET place = 1 WHERE id = 2");
    ring.global(
        2,
        "UPDATE seat SET place = 2 WHERE id = 1; DELETE FROM item",
    );
    assert_eq!(ring.equal("seat"), ["(1,2)", "(2,1)"]);
    assert!(ring.equal("item").is_empty());
    for statement in [
        "DROP TRIGGER anabranch_update ON item",
        "TRUNCATE item",
        "SELECT anabranch.net_1()",
        "UPDATE anabranch.hold SET passed = 9",
        "SELECT anabranch.apply('{}', '{}', '{}', '{}')",
    ] {
        let refused = ring.clients[0]
            .batch_execute(statement)
            .map_err(|error| explain(&error));
        assert!(
            refused.is_err_and(|text| text.contains("42501")),
            "{statement}"
        );
    }
}

/// The triggers run under the search path of the writer: operators of others there are not theirs. And they leave the
/// settings as they were.
#[test]
fn operators_and_settings_of_the_writer_are_not_the_triggers() {
    let mut ring = Ring::start(
        "CREATE TABLE t (id int PRIMARY KEY, name text, at timestamp, of regclass); CREATE SCHEMA other; \
         CREATE FUNCTION other.always(text, text) RETURNS bool LANGUAGE sql AS 'SELECT true'; \
         CREATE OPERATOR other.= (LEFTARG = text, RIGHTARG = text, FUNCTION = other.always); \
         CREATE OPERATOR other.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = other.always)",
        &[("t", true)],
    );
    ring.global(
        0,
        "SET LOCAL search_path = other, public, pg_catalog; SET LOCAL DateStyle = 'German, DMY'; \
         INSERT INTO t VALUES (1, 'a', '2020-02-03', 'public.t'), (2, 'b', NULL, NULL); \
         UPDATE t SET name = 'c' WHERE id OPERATOR(pg_catalog.=) 1; DELETE FROM t WHERE id OPERATOR(pg_catalog.=) 2; \
         DO $$ BEGIN IF current_setting('search_path') OPERATOR(pg_catalog.<>) 'other, public, pg_catalog' \
         OR current_setting('DateStyle') OPERATOR(pg_catalog.<>) 'German, DMY' THEN RAISE 'a setting has changed'; END IF; END $$",
    );
    let rows = ring.equal("t");
    assert_eq!(rows.len(), 1, "{rows:?}");
}

/// What an operation has captured is deleted with it. Its room is given back before the next one.
#[test]
fn the_table_of_changes_does_not_grow() {
    let mut ring = Ring::start("CREATE TABLE t (id int PRIMARY KEY, n int)", &[("t", true)]);
    let size = "DO $$ BEGIN IF pg_relation_size('pg_temp.anabranch_changes') > 1100000 THEN \
        RAISE 'the table of changes has % bytes', pg_relation_size('pg_temp.anabranch_changes'); END IF; END $$";
    ring.global(
        0,
        "INSERT INTO t SELECT i, 0 FROM generate_series(1, 50000) i",
    );
    for round in 1..40 {
        ring.global(
            0,
            &format!("{size}; UPDATE t SET n = {round} WHERE id <= 1000"),
        );
    }
    ring.equal("t");
}

/// What captures changes runs with the rights of the role that has installed it, and must not run another role's code.
#[test]
fn a_table_of_changes_of_another_role_is_refused() {
    let mut ring = Ring::start_for(
        "CREATE TABLE t (id int PRIMARY KEY, n int)",
        &[("t", true)],
        Some(("belt", "shop")),
    );
    let client = &mut ring.clients[0];
    run(client, "GRANT ALL ON t TO shop; DISCARD TEMP");
    run(client, "SET SESSION AUTHORIZATION shop");
    run(
        client,
        "CREATE TEMP TABLE anabranch_changes (relation smallint, kind \"char\", columns varbit, key text, image text)",
    );
    run(client, "SET anabranch.hop = '1'");
    for statement in [
        "SELECT anabranch.prepare()",
        "INSERT INTO t VALUES (1, 1)",
        "SELECT anabranch.seal()",
    ] {
        let error = client.batch_execute(statement).expect_err(statement);
        let code = error.code().map_or("", |code| code.code());
        assert_eq!(code, "42501", "{statement}: {}", explain(&error));
    }
    // PostgreSQL computes what a view has of constants while it plans a statement, with the rights of the function.
    run(
        client,
        "DROP TABLE pg_temp.anabranch_changes; \
         CREATE FUNCTION pg_temp.constant() RETURNS smallint IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'run as %', current_user; END $$; \
         CREATE TEMP VIEW anabranch_changes AS SELECT pg_temp.constant() AS relation, 'U'::\"char\" AS kind, \
         NULL::varbit AS columns, 'k'::text AS key, NULL::text AS image",
    );
    let statements = [
        "SELECT anabranch.prepare()",
        "SELECT anabranch.seal()",
        "INSERT INTO t VALUES (1, 1)",
    ];
    for statement in statements {
        let error = client.batch_execute(statement).expect_err(statement);
        let code = error.code().map_or("", |code| code.code());
        assert_eq!(code, "42501", "{statement}: {}", explain(&error));
    }
}
