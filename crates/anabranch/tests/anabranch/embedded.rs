//! `anabranch serve --belt-embedded`: a ring of databases of our own in one process.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anabranch_dbms::postgres::explain;
use postgres::{Client, NoTls, SimpleQueryMessage};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A ring under way, and the ports of its middlewares.
struct Ring {
    child: Child,
    ports: Vec<u16>,
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Errors: it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ring {
    /// A ring of three with TPC-W's shop.
    fn start(test: &str) -> Ring {
        let load = std::env::temp_dir().join(format!(
            "anabranch-embedded-{}-{test}.sql",
            std::process::id()
        ));
        std::fs::write(&load, rows_of_a_shop()).expect("it is written");
        let child = Command::new(env!("CARGO_BIN_EXE_anabranch"))
            .args(["serve", "--belt-embedded", "3", "--listen", "127.0.0.1:0"])
            .arg("--load")
            .arg(&load)
            .arg("examples/tpcw")
            .current_dir(root())
            .stdout(Stdio::piped())
            .spawn();
        let mut ring = Ring {
            child: child.expect("the program runs"),
            ports: Vec::new(),
        };
        let out = ring.child.stdout.take().expect("it is piped");
        for line in BufReader::new(out).lines() {
            let line = line.expect("it prints text");
            let words: Vec<&str> = line.split_whitespace().collect();
            if let Some(at) = words.iter().position(|word| *word == "-p") {
                ring.ports.push(words[at + 1].parse().expect("a port"));
            }
            if ring.ports.len() == 3 {
                std::fs::remove_file(&load).expect("it was read");
                return ring;
            }
        }
        panic!("it has ended before it served")
    }

    fn connect(&self, site: usize) -> Client {
        let address = format!(
            "host=127.0.0.1 port={} user=shop dbname=anabranch",
            self.ports[site]
        );
        Client::connect(&address, NoTls).unwrap_or_else(|error| panic!("{}", explain(&error)))
    }

    /// What a query of rows that all servers have gives at each site, as soon as it is the same at all.
    fn everywhere(&self, query: &str) -> Vec<String> {
        let mut clients: Vec<Client> = (0..3).map(|site| self.connect(site)).collect();
        let begun = Instant::now();
        loop {
            let found: Vec<Vec<String>> = clients
                .iter_mut()
                .map(|client| rows(client, query))
                .collect();
            if found.iter().all(|rows| *rows == found[0]) {
                return found[0].clone();
            }
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "{query}: {found:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn run(client: &mut Client, statements: &str) {
    if let Err(error) = client.batch_execute(statements) {
        panic!("{}\n{statements}", explain(&error));
    }
}

/// The rows of a query, each with its values behind each other.
fn rows(client: &mut Client, query: &str) -> Vec<String> {
    let messages = client.simple_query(query);
    let messages = messages.unwrap_or_else(|error| panic!("{}\n{query}", explain(&error)));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let values: Vec<&str> = (0..row.len())
                .map(|at| row.get(at).unwrap_or("NULL"))
                .collect();
            Some(values.join("|"))
        }
        _ => None,
    });
    rows.collect()
}

fn number(client: &mut Client, call: &str) -> i64 {
    let rows = rows(client, call);
    rows.first()
        .and_then(|row| row.parse().ok())
        .expect("a number")
}

/// What a shop begins with.
fn rows_of_a_shop() -> String {
    let mut text = "INSERT INTO country VALUES (1, 'country 1', 1, 'dollar'), (2, 'country 2', 1, 'dollar');\n\
                    INSERT INTO author VALUES (1, 'a', 'b', 'c', '1970-01-01', 'd');\n"
        .to_owned();
    for item in 1..=10 {
        text.push_str(&format!(
            "INSERT INTO item VALUES ({item}, 'title', 1, '2020-01-01', 'p', 'ARTS', 'd', 1, 2, 3, 4, 5, 't', 'i', 10.00, 9.00, \
             '2020-01-01', 100, 'isbn', 100, 'HARDBACK', '1x1x1');\n"
        ));
    }
    text
}

/// Whether an error says that the transaction may be run again.
fn is_conflict(error: &postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code() == "40001")
}

#[test]
fn an_application_shops_at_three_databases_of_ours() {
    let ring = Ring::start("shops");
    let items = ring.everywhere("SELECT i_id, i_stock FROM item ORDER BY i_id");
    assert_eq!(items.len(), 10);
    const ORDERS: i64 = 12;
    let carts: Vec<Vec<i64>> = std::thread::scope(|scope| {
        let shoppers: Vec<_> = (0..3)
            .map(|site| {
                let ring = &ring;
                scope.spawn(move || {
                    let mut client = ring.connect(site);
                    let mut carts = Vec::new();
                    for order in 0..ORDERS {
                        let customer = number(
                            &mut client,
                            "SELECT create_new_customer('f', 'l', 's', 's', 'c', 's', 'z', 'country 1', 'p', 'e', '1970-01-01', \
                             'd', 5.0, '2026-01-01', '2026-01-01')",
                        );
                        let cart = number(&mut client, "SELECT create_empty_cart('2026-01-01')");
                        let item = 1 + order % 3;
                        run(
                            &mut client,
                            &format!("CALL do_cart({cart}, {item}, '{{}}', '{{}}', 5, '2026-01-01')"),
                        );
                        let confirmed = number(
                            &mut client,
                            &format!(
                                "SELECT do_buy_confirm({cart}, {customer}, 'VISA', '1', 'n', '2030-01-01', 'a', 'AIR', \
                                 '2026-01-01', '2026-01-02')"
                            ),
                        );
                        assert!(confirmed > 0);
                        carts.push(cart);
                    }
                    carts
                })
            })
            .collect();
        let shoppers = shoppers.into_iter();
        shoppers
            .map(|shopper| shopper.join().expect("it shops"))
            .collect()
    });
    // A cart's number tells the site that made it, and its operations run there.
    for (site, carts) in carts.iter().enumerate() {
        for cart in carts {
            assert_eq!(cart.rem_euclid(16), site as i64, "{cart}");
            let mut other = ring.connect((site + 1) % 3);
            let explained = rows(
                &mut other,
                &format!(
                    "EXPLAIN COORDINATION CALL do_cart({cart}, 3, '{{}}', '{{}}', 5, '2026-01-01')"
                ),
            );
            assert!(
                explained.contains(&format!("server: site{}", site + 1)),
                "{explained:?}"
            );
        }
    }
    // What all servers have is the same on all.
    for (table, key) in [
        ("item", "i_id"),
        ("customer", "c_id"),
        ("orders", "o_id"),
        ("order_line", "ol_o_id, ol_id"),
        ("cc_xacts", "cx_o_id"),
        ("address", "addr_id"),
    ] {
        let mut client = ring.connect(0);
        if client
            .simple_query(&format!("SELECT * FROM {table} ORDER BY {key}"))
            .is_err()
        {
            // Its rows are on several servers.
            continue;
        }
        ring.everywhere(&format!("SELECT * FROM {table} ORDER BY {key}"));
    }
    let stock = ring.everywhere("SELECT i_id, i_stock FROM item WHERE i_id <= 3 ORDER BY i_id");
    // Each of three items was ordered 12 times; stock below 10 is filled up by 21.
    assert_eq!(stock, ["1|88", "2|88", "3|88"]);
}

#[test]
fn a_transaction_by_hand_is_one_operation_and_runs_again() {
    let ring = Ring::start("by-hand");
    ring.everywhere("SELECT count(*) FROM item");
    let mut clients: Vec<Client> = (0..3).map(|site| ring.connect(site)).collect();
    // It reads, then writes what all servers have: so it is global, and was begun as local.
    run(&mut clients[1], "BEGIN");
    assert_eq!(
        rows(&mut clients[1], "SELECT i_stock FROM item WHERE i_id = 5"),
        ["100"]
    );
    run(
        &mut clients[1],
        "UPDATE item SET i_stock = 42 WHERE i_id = 5",
    );
    // Another site has not seen it.
    assert_eq!(
        rows(&mut clients[2], "SELECT i_stock FROM item WHERE i_id = 5"),
        ["100"]
    );
    run(&mut clients[1], "COMMIT");
    assert_eq!(
        ring.everywhere("SELECT i_stock FROM item WHERE i_id = 5"),
        ["42"]
    );
    // What its client has seen stays: a number, and the time.
    let address = "INSERT INTO address (addr_street1, addr_street2, addr_city, addr_state, addr_zip, addr_co_id) \
                   VALUES ('s', 's', 'c', 's', 'z', 1) RETURNING addr_id";
    run(&mut clients[2], "BEGIN");
    let now = rows(&mut clients[2], "SELECT now()");
    let number_of = number(&mut clients[2], address);
    assert_eq!(number_of.rem_euclid(16), 2);
    run(&mut clients[2], "COMMIT");
    assert_ne!(rows(&mut clients[2], "SELECT now()"), now);
    assert_eq!(
        ring.everywhere("SELECT addr_id FROM address"),
        [number_of.to_string()]
    );
    // Two sites read one row and write what they have seen plus 1: one of them fails.
    for round in 0..5 {
        let before = number(&mut clients[0], "SELECT i_stock FROM item WHERE i_id = 6");
        for client in &mut clients[..2] {
            run(client, "BEGIN");
            assert_eq!(
                number(client, "SELECT i_stock FROM item WHERE i_id = 6"),
                before
            );
            run(
                client,
                &format!("UPDATE item SET i_stock = {} WHERE i_id = 6", before + 1),
            );
        }
        let ended: Vec<bool> = clients[..2]
            .iter_mut()
            .map(|client| match client.batch_execute("COMMIT") {
                Ok(()) => true,
                Err(error) if is_conflict(&error) => false,
                Err(error) => panic!("{}", explain(&error)),
            })
            .collect();
        assert_eq!(ended, [true, false], "round {round}");
        let now = ring.everywhere("SELECT i_stock FROM item WHERE i_id = 6");
        assert_eq!(now, [(before + 1).to_string()]);
    }
}

/// A transaction at a site, by an index, in the way of what another site does, is no reason for the ring to stand still.
#[test]
fn an_open_transaction_does_not_stop_the_ring() {
    let ring = Ring::start("open");
    let mut client = ring.connect(0);
    let customer = number(
        &mut client,
        "SELECT create_new_customer('f', 'l', 's', 's', 'c', 's', 'z', 'country 1', 'p', 'e', '1970-01-01', \
         'd', 5.0, '2026-01-01', '2026-01-01')",
    );
    ring.everywhere("SELECT c_id FROM customer");
    let read = format!("SELECT count(*) FROM orders WHERE o_c_id = {customer}");
    let mut open = ring.connect(1);
    run(&mut open, "BEGIN");
    assert_eq!(rows(&mut open, &read), ["0"]);
    for order in 1..=2 {
        let cart = number(&mut client, "SELECT create_empty_cart('2026-01-01')");
        run(
            &mut client,
            &format!("CALL do_cart({cart}, 1, '{{}}', '{{}}', 5, '2026-01-01')"),
        );
        let confirm = format!(
            "SELECT do_buy_confirm({cart}, {customer}, 'VISA', '1', 'n', '2030-01-01', 'a', 'AIR', \
             '2026-01-01', '2026-01-02')"
        );
        assert!(number(&mut client, &confirm) > 0);
        // It gives up if the second site's database does not take it in.
        assert_eq!(ring.everywhere(&read), [order.to_string()]);
    }
}

#[test]
fn increments_of_all_sites_add_up() {
    let ring = Ring::start("adds");
    ring.everywhere("SELECT count(*) FROM item");
    let added: Vec<i64> = std::thread::scope(|scope| {
        let adders: Vec<_> = (0..6)
            .map(|number| {
                let ring = &ring;
                scope.spawn(move || {
                    let mut client = ring.connect(number % 3);
                    let mut added = 0;
                    for step in 0..10 {
                        let item = 1 + (number + step) % 2;
                        run(&mut client, "BEGIN");
                        let done = client
                            .batch_execute(&format!(
                                "UPDATE item SET i_stock = i_stock + 1 WHERE i_id = {item}"
                            ))
                            .and_then(|()| client.batch_execute("COMMIT"));
                        match done {
                            Ok(()) => added += 1,
                            Err(error) if is_conflict(&error) => {
                                // After a failed COMMIT there is nothing to roll back.
                                let _ = client.batch_execute("ROLLBACK");
                            }
                            Err(error) => panic!("{}", explain(&error)),
                        }
                    }
                    added
                })
            })
            .collect();
        let adders = adders.into_iter();
        adders.map(|adder| adder.join().expect("it adds")).collect()
    });
    let stock = ring.everywhere("SELECT sum(i_stock) FROM item WHERE i_id <= 2");
    let total: i64 = added.iter().sum();
    assert!(total > 0);
    assert_eq!(stock, [(200 + total).to_string()]);
}

/// What a query gives, as soon as `is_it` holds of it.
fn until(client: &mut Client, query: &str, is_it: impl Fn(&[String]) -> bool) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let found = rows(client, query);
        if is_it(&found) {
            return found;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{query}: {found:?}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn operators_see_the_ring_what_is_applied_and_the_types() {
    let ring = Ring::start("seen");
    let mut clients: Vec<Client> = (0..3).map(|site| ring.connect(site)).collect();
    let members = "SELECT name, place, is_own, is_member FROM anabranch.ring ORDER BY place";
    assert_eq!(
        rows(&mut clients[1], members),
        ["site1|0|f|t", "site2|1|t|t", "site3|2|f|t"]
    );
    let lag = "SELECT * FROM anabranch.lag ORDER BY name";
    assert_eq!(
        rows(&mut clients[0], lag),
        ["site1|0|0", "site2|0|NULL", "site3|0|NULL"]
    );
    // Two global operations, wherever they run. Every site learns of them.
    for client in 1..=2 {
        let call = format!(
            "SELECT create_new_customer('f{client}', 'l', 's', 's', 'c', 's', 'z', 'country 1', 'p', 'e', '1970-01-01', \
             'd', 5.0, '2026-01-01', '2026-01-01')"
        );
        number(&mut clients[1], &call);
    }
    for client in &mut clients {
        let all = "SELECT sum(applied), count(not_everywhere) FROM anabranch.lag";
        until(client, all, |found| found == ["2|1"]);
    }
    // Joined, with a parameter, in the extended protocol. One site has the token, as soon as the ring rests.
    let joined = "SELECT r.name, l.applied, r.hop, r.has_token FROM anabranch.ring AS r \
                  JOIN anabranch.lag AS l ON l.name = r.name WHERE r.is_own AND r.place = $1";
    let begun = Instant::now();
    loop {
        let (mut tokens, mut own) = (0, 0);
        for (place, client) in (0_i64..).zip(&mut clients) {
            let found = client.query(joined, &[&place]);
            let found = found.unwrap_or_else(|error| panic!("{}", explain(&error)));
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].get::<_, String>(0), format!("site{}", place + 1));
            own += found[0].get::<_, i64>(1);
            assert!(found[0].get::<_, i64>(2) > 0);
            tokens += usize::from(found[0].get::<_, bool>(3));
        }
        assert_eq!(own, 2);
        if tokens == 1 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{tokens} tokens");
        std::thread::sleep(Duration::from_millis(10));
    }
    let types = "SELECT class, parameters FROM anabranch.types WHERE name = 'do_cart'";
    let found = clients[2].query_one(types, &[]);
    let found = found.unwrap_or_else(|error| panic!("{}", explain(&error)));
    assert_eq!(found.get::<_, String>(0), "local");
    assert_eq!(found.get::<_, Vec<String>>(1), ["p_sc_id"]);
    let all = rows(&mut clients[2], "SELECT count(*) FROM anabranch.types");
    assert_eq!(all, ["20"]);
    let explained = rows(
        &mut clients[2],
        "EXPLAIN COORDINATION SELECT * FROM anabranch.ring",
    );
    assert_eq!(explained[0], "reads no rows of the application");
    // Beside rows of the application, in a transaction by hand.
    run(&mut clients[0], "BEGIN");
    let beside = "SELECT i_stock, (SELECT count(*) FROM anabranch.ring WHERE is_member) FROM item WHERE i_id = 1";
    assert_eq!(rows(&mut clients[0], beside), ["100|3"]);
    run(&mut clients[0], "COMMIT");
    for write in [
        "DELETE FROM anabranch.ring",
        "INSERT INTO anabranch.types VALUES ('a', 'local', NULL)",
        "SET anabranch.waits_for = 'nothing'",
    ] {
        assert!(clients[0].batch_execute(write).is_err(), "{write}");
    }
}

#[test]
fn a_ring_says_what_it_waits_for() {
    let ring = Ring::start("waits");
    ring.everywhere("SELECT count(*) FROM item");
    let waits = "SELECT coalesce(waits_for, '') FROM anabranch.ring WHERE is_own";
    let mut looking: Vec<Client> = (0..3).map(|site| ring.connect(site)).collect();
    // It ends when it is cancelled.
    let long = "UPDATE item SET i_stock = (SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b) \
                WHERE i_id = 1";
    let mut clients: Vec<Client> = (0..2).map(|site| ring.connect(site)).collect();
    let cancels: Vec<_> = clients.iter().map(Client::cancel_token).collect();
    std::thread::scope(|scope| {
        let mut clients = clients.iter_mut();
        let (first, second) = (clients.next().expect("two"), clients.next().expect("two"));
        let held = scope.spawn(move || first.batch_execute(long));
        until(&mut looking[0], waits, |found| {
            found[0].starts_with("1 operation under hop ")
        });
        let waiting =
            scope.spawn(move || second.batch_execute("UPDATE item SET i_stock = 7 WHERE i_id = 2"));
        until(&mut looking[1], waits, |found| {
            found[0].starts_with("the token, for 1 operation; it comes from site1, for ")
        });
        assert_eq!(rows(&mut looking[2], waits), [""]);
        cancels[0].cancel_query(NoTls).expect("it is cancelled");
        let error = held.join().expect("it runs").expect_err("it was cancelled");
        assert_eq!(error.code().map(|code| code.code()), Some("57014"));
        waiting.join().expect("it runs").expect("its turn comes");
    });
    for client in &mut looking {
        until(client, waits, |found| found == [""]);
    }
}

#[test]
fn what_an_embedded_ring_cannot_do_is_told() {
    let folder = std::env::temp_dir().join(format!("anabranch-embedded-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder is made");
    let file = folder.join("log.sql");
    std::fs::write(
        &file,
        "CREATE TABLE log (line text); CREATE TABLE total (id int PRIMARY KEY, n int NOT NULL); \
         CREATE PROCEDURE note(p_line text) LANGUAGE SQL BEGIN ATOMIC \
         INSERT INTO log VALUES (p_line); UPDATE total SET n = n + 1 WHERE id = 1; END; \
         CREATE FUNCTION lines() RETURNS bigint LANGUAGE SQL BEGIN ATOMIC SELECT count(*) FROM log; END;",
    )
    .expect("it is written");
    let serve = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_anabranch"))
            .args(["serve", "--belt-embedded", "3", "--listen", "127.0.0.1:0"])
            .args(more)
            .current_dir(root())
            .output()
            .expect("the program runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, errors) = serve(&[&file.display().to_string()]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("log has no primary key"), "{errors}");
    // Its numbers would be those of other sites one day.
    let cycle = folder.join("cycle.sql");
    std::fs::write(
        &cycle,
        "CREATE SEQUENCE tickets MAXVALUE 100 CYCLE; CREATE TABLE total (id int PRIMARY KEY, n int NOT NULL); \
         CREATE PROCEDURE note() LANGUAGE SQL BEGIN ATOMIC UPDATE total SET n = n + 1 WHERE id = 1; END;",
    )
    .expect("it is written");
    let (code, errors) = serve(&[&cycle.display().to_string()]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("use NO CYCLE"), "{errors}");
    // Each database makes the address's number itself.
    let load = folder.join("load.sql");
    std::fs::write(
        &load,
        "INSERT INTO country VALUES (1, 'country 1', 1, 'dollar'); \
         INSERT INTO address (addr_street1, addr_street2, addr_city, addr_state, addr_zip, addr_co_id) \
         VALUES ('s', 's', 'c', 's', 'z', 1);",
    )
    .expect("it is written");
    let (code, errors) = serve(&["--load", &load.display().to_string(), "examples/tpcw"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(
        errors.contains("site1 and site2 have other rows of address after it"),
        "{errors}"
    );
    let (code, errors) = serve(&["--data", "/tmp/x", "examples/tpcw"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("cannot be used with"), "{errors}");
    let (code, errors) = serve(&[]);
    assert_eq!(code, Some(2));
    assert!(
        errors.contains("name the files of the application"),
        "{errors}"
    );
    std::fs::remove_dir_all(&folder).expect("it is removed");
}
