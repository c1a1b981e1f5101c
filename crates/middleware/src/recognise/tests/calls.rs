//! Statements that are one call.

use super::*;
use Class::{Global, Local};

/// The server of an integer among three.
fn by(key: u16) -> Option<u16> {
    Some(key % 16 % 3)
}

#[test]
fn calls_are_found_in_every_form() {
    let tpcw = example("tpcw");
    for text in [
        "SELECT * FROM get_name(17)",
        "SELECT get_name(17)",
        "select GET_NAME('17')",
        "SELECT \"get_name\"(17::bigint);",
        "SELECT public.get_name(CAST('17' AS bigint))",
        "SELECT fname, n.lname FROM get_name(17) AS n",
        "SELECT fname AS f FROM public.get_name(p_c_id => 17) n WHERE lname <> '' ORDER BY 1 LIMIT 5",
        "SELECT count(*) FROM get_name(p_c_id := 17)",
        "/* a */ SELECT * FROM get_name(17) -- b",
    ] {
        assert_eq!(route(&tpcw, text), (Local, by(17)), "{text}");
    }
    let cart = "CALL do_cart(18, 1, '{}', ARRAY[1,2], 3, '2024-01-01'::timestamp)";
    assert_eq!(route(&tpcw, cart), (Local, by(18)));
    let named = "CALL do_cart(p_now => now(), p_i_id => 1, p_i_ids => '{}', p_quantities => '{}', \
                 p_some_i_id => NULL, p_sc_id => 18)";
    assert_eq!(route(&tpcw, named), (Local, by(18)));
    // No parameter routes it: any server runs it at once.
    let empty = alone(
        &tpcw,
        "SELECT create_empty_cart('2024-01-01')",
        &Arguments::NONE,
    )
    .unwrap();
    assert_eq!((empty.class, empty.server), (Local, None));
    assert_eq!(empty.operation.as_deref(), Some("create_empty_cart"));
    assert_eq!(
        empty.why.to_string(),
        "create_empty_cart is local, on any server"
    );
}

/// A global operation reads rows of its cart, which one server has.
#[test]
fn a_global_operation_runs_where_its_first_parameter_is_routed() {
    let tpcw = example("tpcw");
    let buy = |cart: &str| {
        format!(
            "SELECT do_buy_confirm({cart}, 5, 'VISA', '1', 'n', '2030-01-01', 'a', 'AIR', now()::timestamp, \
             now()::timestamp)"
        )
    };
    assert_eq!(route(&tpcw, &buy("19")), (Global, by(19)));
    let message = refused(&tpcw, &buy("19 + 1"));
    assert!(
        message.contains("the value of p_sc_id is not known"),
        "{message}"
    );
    // All servers have its rows.
    let admin = "CALL admin_update(1 + 1, 1.0, 'i', 't', '2024-01-01')";
    assert_eq!(route(&tpcw, admin), (Global, None));
    assert_eq!(route(&tpcw, "SELECT * FROM get_book(1 + 1)"), (Local, None));
}

#[test]
fn a_local_operation_whose_key_is_not_known_is_refused() {
    let tpcw = example("tpcw");
    for text in [
        "SELECT * FROM get_cart(1 + 1)",
        "SELECT * FROM get_cart(length('a'))",
        "SELECT * FROM get_cart($1)",
        "SELECT * FROM get_cart('x')",
    ] {
        let message = refused(&tpcw, text);
        assert!(
            message.contains("the value of p_sc_id"),
            "{text}: {message}"
        );
    }
}

#[test]
fn what_is_more_than_a_call_is_none() {
    let tpcw = example("tpcw");
    for text in [
        "SELECT * FROM get_cart(1), get_cart(2)",
        "SELECT get_cart(1), get_cart(1)",
        "SELECT get_cart(1) FROM item",
        "SELECT * FROM get_cart(1) WHERE EXISTS (SELECT FROM item)",
        "SELECT * FROM get_cart(1) c JOIN item ON true",
        "SELECT * FROM get_cart((SELECT max(sc_id) FROM shopping_cart))",
        "WITH x AS (DELETE FROM item RETURNING i_id) SELECT get_cart(1)",
        "SELECT get_cart(1) FROM generate_series(1, 3)",
        "SELECT (get_cart(1)).*",
        "SELECT get_cart(unknown_function())",
        "SELECT other_schema.get_cart_of(1)",
        "SELECT pg_advisory_lock(1), get_cart(1)",
        "SELECT get_cart()",
        "SELECT get_cart(1, 2, 3)",
        "SELECT get_cart(p_other => 1)",
        "INSERT INTO item SELECT * FROM get_cart(1)",
        "SELECT 1 UNION SELECT get_cart(1)",
        "SELECT get_cart(1) INTO x",
        "SELECT get_cart(1",
    ] {
        let statement = tpcw.read(text);
        assert!(
            matches!(statement.0.kind, StatementKind::Other(_)),
            "{text}: {statement:?}"
        );
    }
}

#[test]
fn parameters_are_read_in_both_formats() {
    let tpcw = example("tpcw");
    let key = |types: &[u32], format: Format, bytes: &'static [u8]| {
        let formats = Formats::All(format);
        let values = [Some(Bytes::from_static(bytes))];
        let arguments = Arguments {
            types,
            formats: &formats,
            values: &values,
        };
        alone(&tpcw, "SELECT * FROM get_cart($1)", &arguments)
            .map(|route| route.server.map(|s| s.0))
    };
    assert_eq!(key(&[], Format::Text, b"20"), Ok(by(20)));
    assert_eq!(
        key(&[20], Format::Binary, &[0, 0, 0, 0, 0, 0, 0, 20]),
        Ok(by(20))
    );
    assert_eq!(
        key(&[], Format::Binary, &[0, 0, 0, 0, 0, 0, 0, 20]),
        Ok(by(20))
    );
    assert_eq!(key(&[21], Format::Binary, &[0, 20]), Ok(by(20)));
    // "5555" as a binary int4 is 0x35353535.
    assert_eq!(key(&[23], Format::Text, b"5555"), Ok(by(5_555 % 16)));
    assert_eq!(
        key(&[23], Format::Binary, b"5555"),
        Ok(by(0x3535_3535_u32 as u16 % 16))
    );
    assert!(key(&[20], Format::Binary, &[0, 20]).is_err());
}

#[test]
fn local_or_global_depends_on_all_parameters() {
    let rubis = example("rubis");
    let bid = |user: u16, item: u16| {
        let text = format!("CALL store_bid({user}, {item}, 1, 2.5, 3, now()::timestamp)");
        route(&rubis, &text)
    };
    assert_eq!(bid(3, 6), (Local, Some(0)));
    assert_eq!(
        bid(3, 19),
        (Local, Some(0)),
        "19 has the residue 3 modulo 16"
    );
    assert_eq!(bid(1, 3), (Global, Some(1)));
    assert_eq!(bid(3, 1), (Global, Some(0)));
    // With one of them unknown it is global, at the server of the first.
    let text = "CALL store_bid(1, 2 + 1, 1, 2.5, 3, now()::timestamp)";
    assert_eq!(route(&rubis, text), (Global, Some(1)));
    let message = refused(
        &rubis,
        "CALL store_bid(1 + 1, 2, 1, 2.5, 3, now()::timestamp)",
    );
    assert!(message.contains("p_user"), "{message}");
}

#[test]
fn defaults_are_arguments() {
    let script = script(&[(
        "shop.sql",
        "CREATE TABLE t (a bigint, b bigint, n bigint NOT NULL, PRIMARY KEY (a, b));
         CREATE FUNCTION add(p_b bigint, p_a bigint DEFAULT 4) RETURNS void LANGUAGE SQL AS $$
             UPDATE t SET n = n + 1 WHERE a = p_a AND b = p_b $$;
         CREATE FUNCTION total(p_a bigint) RETURNS bigint LANGUAGE SQL AS $$
             SELECT sum(n) FROM t WHERE a = p_a $$;",
    )]);
    let shop = recogniser_of(&script, "global");
    assert_eq!(route(&shop, "SELECT add(1)"), (Local, by(4)));
    assert_eq!(route(&shop, "SELECT add(1, 5)"), (Local, by(5)));
    assert_eq!(
        route(&shop, "SELECT add(p_a => 6, p_b => 1)"),
        (Local, by(6))
    );
}

/// Each part of such a transaction could run alone, on the same server.
#[test]
fn several_calls_are_joined() {
    let tpcw = example("tpcw");
    let run = |texts: &[&str]| {
        let mut operation = Operation::default();
        for text in texts {
            tpcw.advance(&mut operation, &tpcw.read(text), &Arguments::NONE)?;
        }
        let route = tpcw.finish(&operation)?;
        Ok::<_, Refusal>((
            route.class,
            route.server.map(|s| s.0),
            route.operation.is_some(),
        ))
    };
    assert_eq!(run(&[]), Ok((Class::Nothing, None, false)));
    let cart = "SELECT * FROM get_cart(1)";
    assert_eq!(run(&[cart]), Ok((Local, by(1), true)));
    assert_eq!(
        run(&[cart, "SELECT * FROM get_cart(17)"]),
        Ok((Local, by(1), false))
    );
    let admin = "CALL admin_update(1, 1.0, 'i', 't', '2024-01-01')";
    assert_eq!(run(&[admin, cart]), Ok((Global, by(1), false)));
    assert_eq!(run(&[cart, admin]), Ok((Global, by(1), false)));
    let refusal = run(&[cart, "SELECT * FROM get_cart(2)"]).expect_err("two servers");
    assert_eq!(refusal.code, "0A000");
    assert!(
        refusal.message.contains("two servers, b and c"),
        "{refusal}"
    );
}

/// A key that a server generates is routed to that server, by the steps that the installation gives its sequences.
#[test]
fn a_generated_key_is_routed_to_the_server_that_generated_it() {
    let tpcw = example("tpcw");
    let servers = servers(3, "global");
    for place in 0..3_u16 {
        for last in [None, Some(0), Some(1_000), Some(1_001), Some(1_023)] {
            let part = Part {
                ring: "abc".to_owned(),
                name: "a".to_owned(),
                place,
                servers: 3,
                slots: servers.slots,
                owners: anabranch_dbms::slots::initial(servers.slots, 3),
                tables: Vec::new(),
                sequences: vec![Sequence {
                    schema: "public".to_owned(),
                    name: "shopping_cart_sc_id_seq".to_owned(),
                    increment: 1,
                    max: i64::MAX,
                    cycles: false,
                    last,
                    owner: None,
                }],
                middleware: None,
                applications: Vec::new(),
                digest: String::new(),
                types: Vec::new(),
            };
            let script = part.script();
            let after = |words: &str| -> i64 {
                let (_, rest) = script.split_once(words).expect("the sequence is altered");
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                digits.parse().expect("a number")
            };
            let (first, step) = (after(" RESTART WITH "), after(" INCREMENT BY "));
            for key in (0..40).map(|n| first + n * step) {
                let text = format!("SELECT * FROM get_cart({key})");
                assert_eq!(route(&tpcw, &text), (Local, Some(place)), "{last:?}");
            }
        }
    }
}

/// Without the parser a call is what it is with it.
#[test]
fn plain_calls_are_read_alike_with_the_parser_and_without() {
    let tpcw = example("tpcw");
    for (text, is_plain) in [
        (
            "CALL do_cart(18, 1, '{}', ARRAY[1, 2], 3, '2024-01-01'::timestamp)",
            true,
        ),
        (
            "CALL do_cart(-18, NULL, NULL, NULL, 3, timestamp '2024-01-01')",
            true,
        ),
        (
            "call public.\"do_cart\" ($1, $2::int, $3, $4, $5, $6)",
            true,
        ),
        ("SELECT * FROM get_name(p_c_id => '17')", true),
        ("SELECT create_empty_cart('2024-01-01');", true),
        ("SELECT get_cart(E'1\\x37')", true),
        (
            "CALL do_cart(18, 1, '{}', '{}', 3, now()::timestamp)",
            false,
        ),
        ("SELECT get_cart(1 + 1)", false),
        ("SELECT get_cart(1) AS c", false),
        ("SELECT get_cart('1' '2')", false),
        ("SELECT get_cart(1, 2)", false),
        ("SELECT get_cart(1,)", false),
        ("SELECT get_cart()", false),
        ("SELECT get_cart(1) + 1", false),
        ("SELECT * FROM get_cart(1), item", false),
        ("SELECT get_cart(p_other => 1)", false),
    ] {
        let words = lexemes(text).expect("it is complete");
        let plain = call::plain_call(text, &words, &tpcw.routines);
        assert_eq!(plain.is_some(), is_plain, "{text}");
        let Some(plain) = plain else { continue };
        let file = SourceFile::new("statement", text);
        let parsed = parse_statements(&file, 0).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        let parsed = call::call(&parsed[0].0, &tpcw.routines).expect(text);
        assert_eq!(plain.place, parsed.place, "{text}");
        assert_eq!(plain.arguments, parsed.arguments, "{text}");
    }
}
