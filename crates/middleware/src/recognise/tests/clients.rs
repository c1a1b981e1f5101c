//! Transactions that programs and SQL files run, statement by statement.

use anabranch_sql::script::read_with;

use super::*;
use Class::{Global, Local, Open};

const SCHEMA: &str = "
    CREATE TABLE cart (id bigint PRIMARY KEY, total bigint NOT NULL);
    CREATE TABLE line (cart_id bigint, sku bigint, quantity bigint NOT NULL, PRIMARY KEY (cart_id, sku));
    CREATE TABLE product (sku bigint PRIMARY KEY, stock bigint NOT NULL, kind bigint NOT NULL);
    CREATE TABLE country (id bigint PRIMARY KEY, name text NOT NULL);
";

const FILE: &str = "
    -- name: ReadCart
    SELECT total FROM cart WHERE id = $1;

    -- name: ReadStock
    SELECT stock FROM product WHERE sku = $1;

    -- Add to a cart
    BEGIN;
    SELECT total FROM cart WHERE id = :cart;
    INSERT INTO line (cart_id, sku, quantity) VALUES (:cart, :sku, :quantity);
    UPDATE cart SET total = total + :quantity WHERE id = :cart;
    COMMIT;

    -- Buy a cart
    BEGIN;
    SELECT total FROM cart WHERE id = :cart;
    UPDATE product SET stock = stock - 1 WHERE sku = :sku;
    DELETE FROM line WHERE cart_id = :cart;
    COMMIT;

    -- Restock kind one
    BEGIN;
    UPDATE product SET stock = stock + :n WHERE kind = 1;
    COMMIT;
";

fn shop() -> Recogniser {
    recogniser_of(
        &script(&[("schema.sql", SCHEMA), ("shop.sql", FILE)]),
        "global",
    )
}

type RouteSummary = (Class, Option<u16>, Option<String>);

fn shown(route: Route) -> RouteSummary {
    (
        route.class,
        route.server.map(|server| server.0),
        route.operation.map(|name| name.to_string()),
    )
}

/// What the operation is after each statement, and at its end.
fn run(
    recogniser: &Recogniser,
    texts: &[&str],
) -> Result<(Vec<RouteSummary>, RouteSummary), Refusal> {
    let mut operation = Operation::default();
    let mut after = Vec::new();
    for text in texts {
        let statement = recogniser.read(text);
        after.push(shown(recogniser.advance(
            &mut operation,
            &statement,
            &Arguments::NONE,
        )?));
    }
    Ok((after, shown(recogniser.finish(&operation)?)))
}

fn named(class: Class, server: u16, name: &str) -> RouteSummary {
    (class, Some(server), Some(name.to_owned()))
}

const READ: &str = "SELECT total FROM cart WHERE id = 17";

/// The first statement is that of three types, of which one is global. Their server is the same.
#[test]
fn nothing_is_decided_before_all_candidates_agree() {
    let shop = shop();
    let (after, end) = run(&shop, &[READ]).unwrap();
    assert_eq!(after, [(Open, Some(1), None)]);
    assert_eq!(end, named(Local, 1, "ReadCart"));
    let insert = "insert into line (cart_id, sku, quantity) values (17, 3, 2)";
    let update = "UPDATE cart SET total = total + 2 WHERE id = 17";
    let (after, end) = run(&shop, &[READ, insert, update]).unwrap();
    let added = named(Local, 1, "add_to_a_cart");
    assert_eq!(after, [(Open, Some(1), None), added.clone(), added.clone()]);
    assert_eq!(end, added);
    let take = "UPDATE product SET stock = stock - 1 WHERE sku = 5";
    let (after, end) = run(&shop, &[READ, take, "DELETE FROM line WHERE cart_id = 17"]).unwrap();
    let bought = named(Global, 1, "buy_a_cart");
    assert_eq!(
        after,
        [(Open, Some(1), None), bought.clone(), bought.clone()]
    );
    assert_eq!(end, bought);
}

/// It has read the cart and taken from the stock: as a mere reader it would be local.
#[test]
fn a_longer_type_that_ends_early_is_not_its_prefix() {
    let shop = shop();
    let take = "UPDATE product SET stock = stock - 1 WHERE sku = 5";
    let (_, end) = run(&shop, &[READ, take]).unwrap();
    assert_eq!(end, named(Global, 1, "buy_a_cart"));
}

#[test]
fn a_parameter_has_one_value_throughout() {
    let shop = shop();
    // Another cart than the one that was read, on the same server and on another.
    let insert =
        |cart: u16| format!("INSERT INTO line (cart_id, sku, quantity) VALUES ({cart}, 3, 2)");
    let (after, end) = run(&shop, &[READ, &insert(17)]).unwrap();
    assert_eq!(after[1].2.as_deref(), Some("add_to_a_cart"));
    assert_eq!(end.2.as_deref(), Some("add_to_a_cart"));
    let (after, end) = run(&shop, &[READ, &insert(33)]).unwrap();
    assert_eq!(after[1], (Global, Some(1), None), "no transaction type");
    assert_eq!(end, (Global, Some(1), None));
    let refusal = run(&shop, &[READ, &insert(18)]).expect_err("two servers");
    assert!(
        refusal.message.contains("two servers, b and c"),
        "{refusal}"
    );
}

#[test]
fn constants_of_the_source_are_part_of_a_type() {
    let shop = shop();
    let (_, end) = run(
        &shop,
        &["UPDATE product SET stock = stock + 7 WHERE kind = 1"],
    )
    .unwrap();
    assert_eq!(end.2.as_deref(), Some("restock_kind_one"));
    let (_, end) = run(
        &shop,
        &["UPDATE product SET stock = stock + 7 WHERE kind = 2"],
    )
    .unwrap();
    assert_eq!(end, (Global, None, None), "no type changes other kinds");
}

/// What touches no rows, or rows that nothing writes, may stand anywhere.
#[test]
fn statements_may_stand_beside_a_type() {
    let shop = shop();
    let insert = "INSERT INTO line (cart_id, sku, quantity) VALUES (17, 3, 2)";
    let country = "SELECT name FROM country WHERE id = 1";
    let (after, end) = run(
        &shop,
        &["SELECT 1", country, READ, "SELECT now()", country, insert],
    )
    .unwrap();
    assert_eq!(after[0], (Class::Nothing, None, None));
    assert_eq!(after[1], (Local, None, None));
    assert_eq!(after[2], (Open, Some(1), None));
    assert_eq!(after[5], named(Local, 1, "add_to_a_cart"));
    assert_eq!(end, named(Local, 1, "add_to_a_cart"));
    let (_, end) = run(&shop, &["SELECT 1", country]).unwrap();
    assert_eq!(end, (Local, None, None));
}

/// The statements taken for themselves, with what was known of the keys.
#[test]
fn what_is_no_type_is_the_sum_of_its_statements() {
    let shop = shop();
    let stock = "SELECT stock FROM product WHERE sku = 4";
    let (after, end) = run(&shop, &[READ, stock]).unwrap();
    assert_eq!(after[1], (Local, Some(1), None));
    assert_eq!(end, (Local, Some(1), None));
    let take = "UPDATE product SET stock = 0 WHERE sku = 4";
    let (after, _) = run(&shop, &[READ, stock, take]).unwrap();
    assert_eq!(after[2], (Global, Some(1), None));
    let refusal = run(&shop, &[READ, "DELETE FROM line"]).expect_err("rows of all servers");
    assert!(
        refusal.message.contains("line has rows on several servers"),
        "{refusal}"
    );
    // An operation that is refused is as before.
    let mut operation = Operation::default();
    for text in [
        READ,
        "DELETE FROM line",
        "INSERT INTO line (cart_id, sku, quantity) VALUES (17, 3, 2)",
    ] {
        let _ = shop.advance(&mut operation, &shop.read(text), &Arguments::NONE);
    }
    assert_eq!(
        shown(shop.finish(&operation).unwrap()),
        named(Local, 1, "add_to_a_cart")
    );
}

#[test]
fn parameters_bind_keys() {
    let shop = shop();
    let statement = shop.read("SELECT total FROM cart WHERE id = $1");
    let formats = Formats::All(Format::Binary);
    let values = [Some(Bytes::from_static(&[0, 0, 0, 18]))];
    let arguments = Arguments {
        types: &[23],
        formats: &formats,
        values: &values,
    };
    let mut operation = Operation::default();
    let route = shop
        .advance(&mut operation, &statement, &arguments)
        .unwrap();
    assert_eq!(shown(route), (Open, Some(2), None));
    let mut operation = Operation::default();
    let refusal = shop.advance(&mut operation, &statement, &Arguments::NONE);
    let open = refusal.map(shown);
    assert_eq!(open, Ok((Open, None, None)), "the server is not known");
    let refusal = shop.finish(&operation).expect_err("which cart");
    assert!(refusal.message.contains("one server"), "{refusal}");
}

#[test]
fn a_comment_names_the_type() {
    let shop = shop();
    let (after, end) = run(&shop, &[&format!("/*action='buy_a_cart'*/ {READ}")]).unwrap();
    assert_eq!(after, [named(Global, 1, "buy_a_cart")]);
    assert_eq!(end, named(Global, 1, "buy_a_cart"));
    let (after, _) = run(
        &shop,
        &[&format!("{READ} /*controller='x',action='ReadCart'*/")],
    )
    .unwrap();
    assert_eq!(after, [named(Local, 1, "ReadCart")]);
    let (after, _) = run(&shop, &[&format!("/*action='unheard_of'*/ {READ}")]).unwrap();
    assert_eq!(after, [(Open, Some(1), None)]);
}

const PROGRAM: &str = r#"
import psycopg2

class Shop:
    def __init__(self, conn):
        self.conn = conn

    def fill(self, cart, skus, clear):
        cur = self.conn.cursor()
        if clear:
            cur.execute("DELETE FROM line WHERE cart_id = %s", (cart,))
        for sku in skus:
            cur.execute(
                "INSERT INTO line (cart_id, sku, quantity) VALUES (%s, %s, 1)", (cart, sku))
        cur.execute("UPDATE cart SET total = total + 1 WHERE id = %s", (cart,))
        self.conn.commit()

    def show(self, cart):
        cur = self.conn.cursor()
        cur.execute("SELECT sku, quantity FROM line WHERE cart_id = %s", (cart,))
        lines = cur.fetchall()
        cur.execute("SELECT total FROM cart WHERE id = %s", (cart,))
        self.conn.commit()
        return lines, cur.fetchone()
"#;

fn program() -> Recogniser {
    let programs = vec![SourceFile::new("shop.py", PROGRAM)];
    let found = anabranch_source::read(&programs);
    let sql = vec![SourceFile::new("schema.sql", SCHEMA)];
    let clients = found.clients.into_iter().map(|mut client| {
        client.shift(sql.len());
        client
    });
    let script = read_with(sql.clone(), programs, clients.collect());
    recogniser_of(
        &script.unwrap_or_else(|error| panic!("{error:?}")),
        "refuse",
    )
}

/// As psycopg2 sends it: the values are in the texts.
#[test]
fn branches_and_loops_of_a_program_are_followed() {
    let shop = program();
    let clear = "DELETE FROM line WHERE cart_id = 18";
    let insert =
        |sku: u16| format!("INSERT INTO line (cart_id, sku, quantity) VALUES (18, {sku}, 1)");
    let total = "UPDATE cart SET total = total + 1 WHERE id = 18";
    let fill = Ok(named(Local, 2, "Shop.fill"));
    let end = |texts: &[&str]| run(&shop, texts).map(|(_, end)| end);
    assert_eq!(
        end(&[clear, &insert(1), &insert(2), &insert(3), total]),
        fill
    );
    assert_eq!(end(&[&insert(1), total]), fill);
    assert_eq!(end(&[total]), fill);
    assert_eq!(end(&[clear, total]), fill);
    // It ends early, as after an error that it catches.
    assert_eq!(end(&[clear, &insert(1)]), fill);
    let lines = "SELECT sku, quantity FROM line WHERE cart_id = 18";
    let read = "SELECT total FROM cart WHERE id = 18";
    assert_eq!(end(&[lines, read]), Ok(named(Local, 2, "Shop.show")));
    for unlike in [
        &[total, clear][..],
        &[clear, clear],
        &[clear, lines],
        &[
            &insert(1),
            "UPDATE cart SET total = total + 1 WHERE id = 19",
        ],
        &["INSERT INTO line (cart_id, sku, quantity) VALUES (18, 1, 2)"],
        &["UPDATE cart SET total = total + 1"],
    ] {
        let refusal = end(unlike).expect_err("it is no transaction type");
        assert!(
            refusal.message.contains("unknown = \"refuse\""),
            "{unlike:?}: {refusal}"
        );
    }
}

/// A statement that was read costs less than 3 microseconds, and reading one some 10, on a machine that does nothing else.
#[test]
fn recognising_is_fast() {
    let shop = shop();
    let statement = shop.read(READ);
    let advance = || {
        let mut operation = Operation::default();
        let route = shop.advance(&mut operation, &statement, &Arguments::NONE);
        assert!(route.is_ok() && shop.finish(&operation).is_ok());
    };
    let (advancing, reading) = (fastest(&advance), fastest(&|| drop(shop.read(READ))));
    let tpcw = example("tpcw");
    let call = "CALL do_cart(18, 1, '{}', '{}', 3, '2024-01-01'::timestamp)";
    let calling = fastest(&|| drop(tpcw.read(call)));
    println!("{advancing:?} a statement; {reading:?} to read one; {calling:?} to read a call");
    // The most is far above, for machines that do much else.
    assert!(advancing.as_micros() < 30, "{advancing:?}");
    assert!(
        reading.as_micros() < 150 && calling.as_micros() < 150,
        "{reading:?}, {calling:?}"
    );
}

/// The time of one round in the fastest of some batches.
fn fastest(round: &dyn Fn()) -> std::time::Duration {
    const ROUNDS: u32 = 100;
    let batches = (0..30).map(|_| {
        let begin = std::time::Instant::now();
        (0..ROUNDS).for_each(|_| round());
        begin.elapsed() / ROUNDS
    });
    batches.min().unwrap_or_default()
}
