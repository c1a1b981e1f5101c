//! Statements that are no transaction type.

use super::*;
use Class::{Global, Local, Nothing};

fn key(number: u16) -> Option<u16> {
    Some(number % 16 % 3)
}

#[test]
fn what_touches_no_rows_is_nothing() {
    let tpcw = example("tpcw");
    for text in [
        "SELECT 1",
        "SELECT now(), current_setting('TimeZone')",
        "SELECT version()",
        "SELECT nextval('orders_o_id_seq')",
        "VALUES (1, 2)",
        "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public'",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM anabranch.applied",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "SELECT * FROM generate_series(1, 3) AS s (a)",
        "SELECT 'FROM item'",
    ] {
        assert_eq!(route(&tpcw, text), (Nothing, None), "{text}");
    }
}

#[test]
fn reads_of_what_all_servers_have_run_anywhere() {
    let tpcw = example("tpcw");
    for text in [
        "SELECT * FROM country",
        "SELECT * FROM item WHERE i_id = 5",
        "SELECT count(*) FROM orders o JOIN order_line l ON l.ol_o_id = o.o_id",
        "TABLE author",
        "SELECT (SELECT max(o_id) FROM orders)",
    ] {
        assert_eq!(route(&tpcw, text), (Local, None), "{text}");
    }
    // Rows that are locked are going to be written.
    let locked = "SELECT * FROM item WHERE i_id = 5 FOR UPDATE";
    assert_eq!(route(&tpcw, locked), (Global, None));
}

#[test]
fn rows_of_one_server_are_read_there() {
    let tpcw = example("tpcw");
    for text in [
        "SELECT * FROM shopping_cart WHERE sc_id = 17",
        "SELECT sc_time FROM public.shopping_cart AS c WHERE c.sc_id = '17' AND sc_time < now()",
        "SELECT * FROM shopping_cart c, item WHERE (\"c\".\"sc_id\" = 17 AND i_id = 1) LIMIT 1",
    ] {
        assert_eq!(route(&tpcw, text), (Local, key(17)), "{text}");
    }
    for text in [
        "SELECT * FROM shopping_cart",
        "SELECT count(*) FROM shopping_cart",
        "SELECT * FROM shopping_cart WHERE sc_id = 17 OR true",
        "SELECT * FROM shopping_cart WHERE sc_time < now() OR true AND sc_id = 17",
        "SELECT * FROM shopping_cart WHERE CASE WHEN true AND sc_id = 17 AND true THEN true ELSE true END",
        "SELECT * FROM shopping_cart WHERE NOT sc_id = 17",
        "SELECT * FROM shopping_cart WHERE sc_id > 17",
        "SELECT * FROM shopping_cart WHERE sc_id = 16 + 1",
        "SELECT * FROM shopping_cart WHERE CASE WHEN sc_id = 17 THEN true END",
        "SELECT * FROM shopping_cart WHERE sc_time BETWEEN now() AND sc_id = 17",
        "SELECT * FROM shopping_cart WHERE sc_id = 17 UNION SELECT * FROM shopping_cart",
        "SELECT * FROM shopping_cart a, shopping_cart b WHERE a.sc_id = 17",
        "SELECT * FROM item WHERE i_id IN (SELECT 1 FROM shopping_cart WHERE sc_id = 17)",
        "SELECT * FROM (SELECT * FROM shopping_cart) c WHERE sc_id = 17",
        "SELECT sc_time FROM item LEFT JOIN shopping_cart ON sc_id = 17",
        "WITH x AS (SELECT * FROM shopping_cart) SELECT * FROM x WHERE sc_id = 17",
    ] {
        let message = refused(&tpcw, text);
        assert!(
            message.contains("shopping_cart has rows on several servers"),
            "{text}: {message}"
        );
    }
    // Also of a table that global operations write, too.
    let lines = "SELECT * FROM shopping_cart_line WHERE scl_sc_id = 17";
    assert_eq!(route(&tpcw, lines), (Local, key(17)));
    let two = refused(
        &tpcw,
        "SELECT * FROM shopping_cart WHERE sc_id = 1 AND sc_id = (SELECT sc_id FROM shopping_cart WHERE sc_id = 2)",
    );
    assert!(two.contains("shopping_cart"), "{two}");
}

#[test]
fn a_key_is_read_from_parameters() {
    let tpcw = example("tpcw");
    let statement = "SELECT * FROM shopping_cart WHERE sc_id = $1";
    let formats = Formats::All(Format::Binary);
    let values = [Some(Bytes::from_static(&[0, 0, 0, 18]))];
    let arguments = Arguments {
        types: &[23],
        formats: &formats,
        values: &values,
    };
    let route = alone(&tpcw, statement, &arguments).unwrap();
    assert_eq!((route.class, route.server.map(|s| s.0)), (Local, key(18)));
    assert!(alone(&tpcw, statement, &Arguments::NONE).is_err());
}

#[test]
fn writes_of_captured_tables_are_global() {
    let tpcw = example("tpcw");
    for text in [
        "UPDATE item SET i_cost = 1 WHERE i_id = 5",
        "INSERT INTO address (addr_street1, addr_street2, addr_city, addr_state, addr_zip, addr_co_id) VALUES ('a', 'b', 'c', 'd', 'e', 1)",
        "DELETE FROM cc_xacts",
        "INSERT INTO cc_xacts VALUES (1) ON CONFLICT DO NOTHING",
        "EXPLAIN ANALYZE UPDATE item SET i_cost = 1",
        "EXPLAIN (ANALYZE, VERBOSE) DELETE FROM cc_xacts",
        "WITH x AS (UPDATE item SET i_cost = 1 RETURNING i_id) SELECT * FROM x",
        "UPDATE item SET (i_cost, i_srp) = (1, 2) FROM author WHERE a_id = i_a_id",
    ] {
        assert_eq!(route(&tpcw, text), (Global, None), "{text}");
    }
}

#[test]
fn writes_that_other_servers_would_not_learn_of_are_refused() {
    let tpcw = example("tpcw");
    for (text, words) in [
        (
            "INSERT INTO country VALUES (1, 'a', 1, 'b')",
            "written by no transaction type",
        ),
        (
            "UPDATE author SET a_bio = ''",
            "written by no transaction type",
        ),
        ("DELETE FROM shopping_cart", "has rows on several servers"),
        (
            "UPDATE shopping_cart SET sc_time = now()",
            "has rows on several servers",
        ),
        (
            "INSERT INTO shopping_cart SELECT 1, now()",
            "this INSERT does not say on which",
        ),
        ("TRUNCATE item CASCADE", "CASCADE"),
        ("SELECT * INTO x FROM item", "SELECT INTO"),
        ("INSERT INTO other VALUES (1)", "declare no table other"),
        ("SELECT * FROM other", "declare no table other"),
        (
            "SELECT unheard_of(1)",
            "nothing is known of the function unheard_of",
        ),
        (
            "CALL unheard_of(1)",
            "nothing is known of the function unheard_of",
        ),
        (
            "SELECT query_to_xml('SELECT 1', true, true, '')",
            "nothing is known of the function",
        ),
        (
            "SELECT pg_advisory_lock(1)",
            "nothing is known of the function pg_advisory_lock",
        ),
        (
            "SELECT 1 FROM item WHERE i_id = (SELECT count(*) FROM get_cart(1))",
            "calls get_cart beside",
        ),
        ("SELECT get_cart(1), get_cart(2)", "calls get_cart beside"),
        ("UPDATE pg_class SET relname = 'x'", "not the application's"),
        ("SELECT 'a", "does not end"),
        ("SELECT * FROM U&\"item\"", "names without U&"),
        ("ANALYZE x UPDATE item SET i_cost = 1", "could not be read"),
    ] {
        let refusal = alone(&tpcw, text, &Arguments::NONE).expect_err(text);
        let whole = format!("{} {}", refusal.message, refusal.hint);
        assert!(whole.contains(words), "{text}: {whole}");
    }
}

#[test]
fn rows_of_one_server_are_written_there_with_the_token() {
    let tpcw = example("tpcw");
    for (text, server) in [
        (
            "UPDATE shopping_cart SET sc_time = now() WHERE sc_id = 18",
            key(18),
        ),
        (
            "INSERT INTO shopping_cart (sc_time, sc_id) VALUES (now(), 19)",
            key(19),
        ),
        (
            "INSERT INTO shopping_cart VALUES (20, now()), (36, now())",
            key(20),
        ),
        // The server that runs it generates the key.
        (
            "INSERT INTO shopping_cart (sc_time) VALUES (now()) RETURNING sc_id",
            None,
        ),
        (
            "INSERT INTO shopping_cart (sc_id, sc_time) VALUES (DEFAULT, now())",
            None,
        ),
    ] {
        assert_eq!(route(&tpcw, text), (Global, server), "{text}");
    }
    let two = refused(
        &tpcw,
        "INSERT INTO shopping_cart VALUES (1, now()), (2, now())",
    );
    assert!(two.contains("two servers, b and c"), "{two}");
}

#[test]
fn unique_keys_are_checked_on_one_server_alone() {
    let script = script(&[(
        "shop.sql",
        "CREATE TABLE t (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, a bigint NOT NULL, b bigint, n bigint);
         CREATE TABLE u (a bigint, b bigint, n bigint NOT NULL, PRIMARY KEY (a, b));
         CREATE PROCEDURE add_t(p_a bigint, p_n bigint) LANGUAGE SQL AS $$ INSERT INTO t (a, n) VALUES (p_a, p_n) $$;
         CREATE FUNCTION get_t(p_a bigint) RETURNS bigint LANGUAGE SQL AS $$ SELECT sum(n) FROM t WHERE a = p_a $$;
         CREATE PROCEDURE add_u(p_a bigint, p_b bigint) LANGUAGE SQL AS $$ INSERT INTO u VALUES (p_a, p_b, 0) $$;
         CREATE FUNCTION get_u(p_a bigint) RETURNS bigint LANGUAGE SQL AS $$ SELECT sum(n) FROM u WHERE a = p_a $$;",
    )]);
    let shop = recogniser_of(&script, "global");
    assert_eq!(route(&shop, "CALL add_t(18, 1)"), (Local, key(18)));
    assert_eq!(
        route(&shop, "INSERT INTO t (a, n) VALUES (18, 1)"),
        (Global, key(18))
    );
    let upsert = "INSERT INTO u VALUES (19, 2, 0) ON CONFLICT (a, b) DO UPDATE SET n = u.n + 1";
    assert_eq!(route(&shop, upsert), (Global, key(19)));
    let moved = refused(&shop, "UPDATE u SET b = 3 WHERE b = 2");
    assert!(moved.contains("u has rows on several servers"), "{moved}");
    assert_eq!(
        route(&shop, "UPDATE u SET b = 3 WHERE a = 20"),
        (Global, key(20))
    );
    // Another server may generate this number.
    for text in [
        "INSERT INTO t (id, a) VALUES (7, 18)",
        "INSERT INTO t VALUES (7, 18)",
    ] {
        let message = refused(&shop, text);
        assert!(
            message.contains("only that server's rows can be checked"),
            "{message}"
        );
    }
    let message = refused(&shop, "UPDATE t SET id = 5 WHERE a = 18");
    assert!(
        message.contains("only that server's rows can be checked"),
        "{message}"
    );
}

/// Bids are stored by operations that are local if user and item have one server, and then on that server alone.
#[test]
fn what_local_or_global_operations_write_is_not_on_every_server() {
    let rubis = example("rubis");
    let message = refused(&rubis, "SELECT * FROM bids");
    assert!(
        message.contains("bids has rows on several servers"),
        "{message}"
    );
    let of_user = "SELECT * FROM bids WHERE user_id = 18";
    assert_eq!(route(&rubis, of_user), (Local, key(18)));
}

#[test]
fn unknown_statements_may_be_refused_altogether() {
    let files = [(
        "shop.sql",
        "CREATE TABLE t (a bigint PRIMARY KEY, n bigint NOT NULL);
         CREATE FUNCTION get(p_a bigint) RETURNS bigint LANGUAGE SQL AS $$ SELECT n FROM t WHERE a = p_a $$;",
    )];
    let shop = recogniser_of(&script(&files), "refuse");
    assert_eq!(route(&shop, "SELECT 1"), (Nothing, None));
    assert_eq!(route(&shop, "SELECT get(1)").0, Local);
    let message = refused(&shop, "SELECT * FROM t");
    assert!(message.contains("unknown = \"refuse\""), "{message}");
    // Where no server has rows of its own, a function of which nothing is known is global.
    let shop = recogniser_of(&script(&files), "global");
    assert_eq!(route(&shop, "SELECT unheard_of(1)"), (Global, None));
}

#[test]
fn views_are_read_as_their_queries() {
    let script = script(&[(
        "shop.sql",
        "CREATE TABLE t (a bigint PRIMARY KEY, n bigint NOT NULL);
         CREATE TABLE u (a bigint PRIMARY KEY, n bigint NOT NULL);
         CREATE VIEW v AS SELECT a, n FROM t;
         CREATE VIEW w AS SELECT a, n FROM u;
         CREATE PROCEDURE step(p_a bigint) LANGUAGE SQL AS $$ UPDATE t SET n = n + 1 WHERE a = p_a $$;
         CREATE FUNCTION all_of_u() RETURNS bigint LANGUAGE SQL AS $$ SELECT sum(n) FROM u $$;
         CREATE PROCEDURE set_u(p_a bigint, p_n bigint) LANGUAGE SQL AS $$ UPDATE u SET n = p_n WHERE a = p_a $$;",
    )]);
    let shop = recogniser_of(&script, "global");
    assert_eq!(route(&shop, "SELECT * FROM w"), (Local, None));
    let message = refused(&shop, "SELECT * FROM v");
    assert!(
        message.contains("t has rows on several servers"),
        "{message}"
    );
    let message = refused(&shop, "UPDATE w SET n = 1");
    assert!(message.contains("w is a view"), "{message}");
}

/// The damaged statement in which a value without any token was found.
#[test]
fn a_missing_value_is_no_key() {
    let tpcw = example("tpcw");
    for text in [
        "INSERT INTO shopping_cart (sc_time, sc_id) VALUES (now,)",
        "INSERT INTO shopping_cart (sc_time, sc_id) VALUES (",
        "SELECT * FROM shopping_cart WHERE sc_id =",
        "SELECT * FROM shopping_cart WHERE sc_id = ORDER BY 1",
    ] {
        let message = refused(&tpcw, text);
        assert!(message.contains("on several servers"), "{text}: {message}");
    }
}

/// Statements with tokens missing, doubled or exchanged: whatever a client sends is answered.
#[test]
fn damaged_statements_are_read() {
    const STATEMENTS: [&str; 10] = [
        "SELECT sc_time FROM public.shopping_cart AS c WHERE c.sc_id = '17' AND (sc_time < now() OR true) ORDER BY 1",
        "INSERT INTO shopping_cart (sc_time, sc_id) VALUES (now(), -19), (DEFAULT, $1::bigint) ON CONFLICT (sc_id) DO UPDATE SET sc_time = now()",
        "UPDATE item SET (i_cost, i_srp) = (1, 2), i_stock = 3 FROM author WHERE a_id = i_a_id AND i_id IN (1, 2)",
        "WITH x (a) AS MATERIALIZED (DELETE FROM cc_xacts USING item i WHERE true RETURNING cx_o_id) SELECT x.* FROM x",
        "MERGE INTO item USING (SELECT 1 AS a) s ON i_id = a WHEN MATCHED THEN UPDATE SET i_cost = 1 WHEN NOT MATCHED THEN INSERT VALUES (1)",
        "CALL do_cart(18, 1, '{}', ARRAY[1, 2], 3, '2024-01-01'::timestamp with time zone)",
        "SELECT fname AS f FROM public.get_name(p_c_id => 17) n WHERE lname BETWEEN 'a' AND $2 LIMIT 5",
        "EXPLAIN (ANALYZE, VERBOSE) DELETE FROM cc_xacts",
        "TRUNCATE TABLE item, ONLY orders RESTART IDENTITY",
        "SELECT extract(year FROM DATE '2024-01-01'), (ARRAY[1, 2])[1], a::numeric(3, 1)[] FROM generate_series(1, 2) AS s (a) FOR UPDATE",
    ];
    let tpcw = example("tpcw");
    let mut random = fastrand::Rng::with_seed(1);
    let mut answered = 0;
    for round in 0..4_000 {
        let statement = STATEMENTS[round % STATEMENTS.len()];
        let tokens = crate::lex::tokens(statement).unwrap();
        let mut words: Vec<&str> = tokens.iter().map(|token| token.text(statement)).collect();
        for _ in 0..random.usize(0..4) {
            let (one, other) = (random.usize(0..words.len()), random.usize(0..words.len()));
            match random.u8(0..4) {
                0 => words.swap(one, other),
                1 => words[one] = words[other],
                2 if words.len() > 1 => drop(words.remove(one)),
                _ => words.truncate(one.max(1)),
            }
        }
        let damaged = words.join(" ");
        answered += usize::from(alone(&tpcw, &damaged, &Arguments::NONE).is_ok());
    }
    assert!(answered > 100 && answered < 3_900, "{answered}");
}

/// A statement as deep as its text is long does not end the process.
#[test]
fn a_statement_of_many_operators_is_refused() {
    let tpcw = example("tpcw");
    for (begin, piece) in [
        ("now()", " AT TIME ZONE 'UTC'"),
        ("'a'", " LIKE 'a'"),
        ("'a'", " COLLATE \"C\""),
        ("1", " BETWEEN 1 AND 2"),
        ("a", " OPERATOR(pg_catalog.+) a"),
        ("1", " = ANY (ARRAY[1])"),
        ("'a'", " SIMILAR TO 'a'"),
        ("'a'", "::text"),
    ] {
        let text = format!("SELECT {begin}{}", piece.repeat(50_000));
        let read = tpcw.read(&text);
        let mut operation = Operation::default();
        // Whatever it is taken for: it was read.
        let _ = tpcw.advance(&mut operation, &read, &Arguments::NONE);
    }
}
