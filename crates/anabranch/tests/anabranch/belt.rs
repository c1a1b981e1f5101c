//! `anabranch belt` against three databases of a PostgreSQL server.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anabranch_dbms::postgres::{Server, Settings};
use postgres::{Client, NoTls};

/// What a run of the program printed, and its exit code.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) errors: String,
}

pub(crate) fn anabranch(arguments: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("the program runs");
    Ran {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn run(client: &mut Client, statements: &str) {
    if let Err(error) = client.batch_execute(statements) {
        panic!(
            "{}\n{statements}",
            anabranch_dbms::postgres::explain(&error)
        );
    }
}

pub(crate) const NAMES: [&str; 3] = ["germany", "japan", "brazil"];

/// A port that nothing listens on.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}

/// Three databases with TPC-W's tables and procedures, and the file that describes them.
fn three(test: &str) -> (Server, Vec<Client>, PathBuf) {
    let server = Server::start(Settings::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut first = server.connect().unwrap_or_else(|error| panic!("{error}"));
    let read = |file: &str| {
        let path = root().join("examples/tpcw").join(file);
        std::fs::read_to_string(path).expect("the example is there")
    };
    let (schema, procedures) = (read("schema.sql"), read("procedures.sql"));
    let mut clients = Vec::new();
    let mut text = String::new();
    for name in NAMES {
        run(&mut first, &format!("CREATE DATABASE {name}"));
        let mut client = server
            .connect_to(name)
            .unwrap_or_else(|error| panic!("{error}"));
        run(&mut client, &schema);
        run(&mut client, &procedures);
        run(
            &mut client,
            "INSERT INTO country SELECT i, 'country ' || i, 1, 'dollar' FROM generate_series(1, 92) i",
        );
        clients.push(client);
        text.push_str(&format!(
            "[[server]]\nname = \"{name}\"\ndatabase = \"{}\"\nlisten = \"127.0.0.1:{}\"\nring = \"127.0.0.1:{}\"\n\n",
            server.address(name),
            free_port(),
            free_port()
        ));
    }
    let file =
        std::env::temp_dir().join(format!("anabranch-belt-{}-{test}.toml", std::process::id()));
    std::fs::write(&file, text).expect("the file is written");
    (server, clients, file)
}

#[test]
fn a_ring_is_checked_installed_and_removed() {
    let (_server, mut clients, file) = three("installed");
    let file = file.display().to_string();
    let checked = anabranch(&["belt", "check", &file, "examples/tpcw"]);
    assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.errors);
    for words in [
        "A ring of 3 servers",
        "PostgreSQL 15",
        "nothing installed",
        "at once, on the server of p_c_id",
        "with the token",
        "of them run at once",
        "no operation writes it   [triggers]",
        "in steps of 16, so that a number tells its server: address_addr_id_seq",
    ] {
        assert!(checked.out.contains(words), "{words}:\n{}", checked.out);
    }

    // Rows that differ are found before anything is installed, and nothing is installed anywhere.
    run(
        &mut clients[1],
        "UPDATE country SET co_name = 'elsewhere' WHERE co_id = 7",
    );
    let installed = anabranch(&["belt", "install", &file, "examples/tpcw"]);
    assert_eq!(installed.code, Some(1));
    let words = "the rows of country on germany and japan differ";
    assert!(installed.out.contains(words), "{}", installed.out);
    run(
        &mut clients[1],
        "UPDATE country SET co_name = 'country 7' WHERE co_id = 7",
    );

    // A schema that differs, too.
    run(&mut clients[2], "ALTER TABLE item ADD COLUMN i_extra int");
    let checked = anabranch(&["belt", "check", &file, "examples/tpcw"]);
    assert_eq!(checked.code, Some(1));
    let words = "the schemas of germany and brazil differ: table item: on germany";
    assert!(checked.out.contains(words), "{}", checked.out);
    run(&mut clients[2], "ALTER TABLE item DROP COLUMN i_extra");

    let installed = anabranch(&["belt", "install", &file, "examples/tpcw"]);
    assert_eq!(
        installed.code,
        Some(0),
        "{}{}",
        installed.out,
        installed.errors
    );
    assert!(
        installed.out.contains("Installed on 3 servers"),
        "{}",
        installed.out
    );
    let again = anabranch(&["belt", "install", &file, "examples/tpcw"]);
    assert_eq!(again.code, Some(1));
    assert!(
        again.out.contains("installed there already"),
        "{}",
        again.out
    );
    let checked = anabranch(&["belt", "check", &file, "examples/tpcw"]);
    assert_eq!(checked.code, Some(0), "{}", checked.out);
    assert!(checked.out.contains("epoch 0, hop 1"), "{}", checked.out);

    // A write past the belt is refused.
    let direct = clients[0].batch_execute("UPDATE country SET co_exchange = 2");
    assert!(direct.is_err());
    // A trigger that was disabled is told.
    run(
        &mut clients[0],
        "ALTER TABLE country DISABLE TRIGGER anabranch_update",
    );
    let checked = anabranch(&["belt", "check", &file, "examples/tpcw"]);
    let words = "germany: the belt's trigger anabranch_update of public.country is disabled";
    assert!(checked.out.contains(words), "{}", checked.out);

    let removed = anabranch(&["belt", "remove", &file]);
    assert_eq!(removed.code, Some(0), "{}{}", removed.out, removed.errors);
    run(&mut clients[0], "UPDATE country SET co_exchange = 2");
    let left: i64 = clients[0]
        .query_one(
            "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'anabranch%'",
            &[],
        )
        .expect("it answers")
        .get(0);
    assert_eq!(left, 0);
}

#[test]
fn what_cannot_be_a_ring_is_refused_with_what_to_do() {
    let (server, mut clients, file) = three("refused");
    let file = file.display().to_string();
    run(
        &mut clients[0],
        "ALTER TABLE order_line DROP CONSTRAINT order_line_pkey",
    );
    let checked = anabranch(&["belt", "check", &file, "examples/tpcw"]);
    assert_eq!(checked.code, Some(1));
    let words = "changes of order_line cannot be captured: it has no key: declare a PRIMARY KEY";
    assert!(checked.out.contains(words), "{}", checked.out);
    // Its numbers would be those of other servers one day.
    let key = "ALTER TABLE order_line ADD PRIMARY KEY (ol_o_id, ol_id)";
    run(&mut clients[0], key);
    run(
        &mut clients[2],
        "CREATE SEQUENCE tickets MAXVALUE 100 CYCLE",
    );
    for command in ["check", "install"] {
        let refused = anabranch(&["belt", command, &file, "examples/tpcw"]);
        assert_eq!(refused.code, Some(1), "{command}: {}", refused.errors);
        let words = "ALTER SEQUENCE \"public\".\"tickets\" NO CYCLE";
        assert!(refused.out.contains(words), "{command}: {}", refused.out);
    }
    run(&mut clients[2], "ALTER SEQUENCE tickets NO CYCLE");
    let checked = anabranch(&["belt", "check", &file, "examples/tpcw"]);
    assert!(!checked.out.contains("NO CYCLE"), "{}", checked.out);
    // Roles that are missing, or lack a right.
    run(&mut clients[0], "CREATE ROLE belt");
    let text = std::fs::read_to_string(&file).expect("it is there");
    let others = format!(
        "applications = [\"shop\"]\n{}",
        text.replace("postgresql://anabranch@", "postgresql://belt@")
            .replace("listen =", "install = \"INSTALL\"\nlisten =")
    );
    let mut installs = NAMES.iter().map(|name| server.address(name));
    let others: Vec<String> = others
        .split("INSTALL")
        .map(|part| format!("{part}{}", installs.next().unwrap_or_default()))
        .collect();
    std::fs::write(&file, others.concat()).expect("the file is written");
    let checked = anabranch(&["belt", "check", &file, "examples/tpcw"]);
    for words in [
        "japan: it has no role shop: CREATE ROLE \"shop\" LOGIN",
        "japan: the role belt may not apply changes of other servers; as superuser: GRANT SET ON PARAMETER",
    ] {
        assert!(
            checked.out.contains(words),
            "{words}:\n{}{}",
            checked.out,
            checked.errors
        );
    }
    std::fs::write(&file, text).expect("the file is written");
    drop(clients);
    drop(server);
    let checked = anabranch(&["belt", "check", &file, "examples/tpcw"]);
    assert_eq!(checked.code, Some(1));
    assert!(
        checked.out.contains("germany: cannot connect to"),
        "{}",
        checked.out
    );
    let missing = anabranch(&["belt", "check", "/nowhere.toml", "examples/tpcw"]);
    assert_eq!(missing.code, Some(2));
    assert!(
        missing.errors.contains("/nowhere.toml"),
        "{}",
        missing.errors
    );
}

/// A middleware, ended with the test.
pub(crate) struct Middleware(Child);

impl Drop for Middleware {
    fn drop(&mut self) {
        // It has ended already if the test has ended it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(file: &str, at: &str) -> Middleware {
    serve_files(file, at, "examples/tpcw")
}

/// The same, for another application.
pub(crate) fn serve_files(file: &str, at: &str, files: &str) -> Middleware {
    let child = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["serve", "--belt", file, "--at", at, files])
        .current_dir(root())
        .stdout(Stdio::null())
        .spawn();
    Middleware(child.expect("the program runs"))
}

/// A client of a middleware, as soon as that accepts one.
fn connect(file: &str, place: usize) -> Client {
    connect_to(file, place, NAMES[place])
}

/// The same, for a database with another name.
pub(crate) fn connect_to(file: &str, place: usize, database: &str) -> Client {
    let text = std::fs::read_to_string(file).expect("it is there");
    let listen = text
        .lines()
        .filter_map(|line| line.strip_prefix("listen = "))
        .nth(place)
        .expect("each server has one");
    let (_, port) = listen
        .trim_matches('"')
        .rsplit_once(':')
        .expect("it has a port");
    let address = format!("host=127.0.0.1 port={port} user=anabranch dbname={database}");
    let begun = Instant::now();
    loop {
        match Client::connect(&address, NoTls) {
            Ok(client) => return client,
            Err(error) if begun.elapsed() > Duration::from_secs(60) => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Calls a function that returns one number.
pub(crate) fn number(client: &mut Client, call: &str) -> i64 {
    let messages = client.simple_query(call);
    let messages = messages
        .unwrap_or_else(|error| panic!("{}\n{call}", anabranch_dbms::postgres::explain(&error)));
    let rows = messages.iter().find_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    rows.and_then(|text| text.parse().ok()).expect("a number")
}

#[test]
fn an_application_shops_at_three_servers() {
    let (_server, mut databases, file) = three("served");
    let file = file.display().to_string();
    for database in &mut databases {
        run(
            database,
            "INSERT INTO author VALUES (1, 'a', 'b', 'c', '1970-01-01', 'd'); \
             INSERT INTO item SELECT i, 'title', 1, '2020-01-01', 'p', 'ARTS', 'd', 1, 2, 3, 4, 5, 't', 'i', 10.00, 9.00, \
             '2020-01-01', 100, 'isbn', 100, 'HARDBACK', '1x1x1' FROM generate_series(1, 10) i",
        );
    }
    let installed = anabranch(&["belt", "install", &file, "examples/tpcw"]);
    assert_eq!(
        installed.code,
        Some(0),
        "{}{}",
        installed.out,
        installed.errors
    );
    // Another application than was installed is not served.
    let other = anabranch(&[
        "serve",
        "--belt",
        &file,
        "--at",
        "japan",
        "examples/counter",
    ]);
    assert_eq!(other.code, Some(2), "{}", other.out);
    assert!(
        other.errors.contains("installed for another application"),
        "{}",
        other.errors
    );
    let mut middlewares: Vec<Middleware> = NAMES.iter().map(|at| serve(&file, at)).collect();
    // An operation may belong to any server: all of them accept connections first.
    let accept = || (0..NAMES.len()).for_each(|place| drop(connect(&file, place)));
    accept();
    let mut orders = Vec::new();
    let shop = |client: &mut Client| {
        let customer = number(
            client,
            "SELECT create_new_customer('f', 'l', 's', 's', 'c', 's', 'z', 'country 1', 'p', 'e', '1970-01-01', 'd', 5.0, \
             '2026-01-01', '2026-01-01')",
        );
        let cart = number(client, "SELECT create_empty_cart('2026-01-01')");
        run(
            client,
            &format!("CALL do_cart({cart}, 3, '{{}}', '{{}}', 5, '2026-01-01')"),
        );
        number(
            client,
            &format!(
                "SELECT do_buy_confirm({cart}, {customer}, 'VISA', '1', 'n', '2030-01-01', 'a', 'AIR', '2026-01-01', \
                 '2026-01-02')"
            ),
        )
    };
    for place in [0, 1, 2, 0, 1, 2] {
        orders.push(shop(&mut connect(&file, place)));
    }
    // One ends at a bad moment, and comes back.
    middlewares.remove(1);
    middlewares.push(serve(&file, "japan"));
    accept();
    for place in [0, 1, 2] {
        orders.push(shop(&mut connect(&file, place)));
    }
    orders.sort_unstable();
    orders.dedup();
    assert_eq!(orders.len(), 9);
    let begun = Instant::now();
    loop {
        let stock: Vec<i32> = databases
            .iter_mut()
            .map(|database| {
                let row = database.query_one("SELECT i_stock FROM item WHERE i_id = 3", &[]);
                row.expect("it answers").get(0)
            })
            .collect();
        if stock == [91, 91, 91] {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{stock:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    // An operator's view.
    let mut client = connect(&file, 2);
    let types: i64 = client
        .query_one("SELECT count(*) FROM anabranch.types", &[])
        .expect("it answers")
        .get(0);
    assert_eq!(types, 20);
    let members: i64 = client
        .query_one("SELECT count(*) FROM anabranch.ring WHERE is_member", &[])
        .expect("it answers")
        .get(0);
    assert_eq!(members, 3);
    // One will never come back.
    middlewares.remove(0);
    let removed = anabranch(&["belt", "remove-server", &file, "germany", "--lost"]);
    assert_eq!(removed.code, Some(0), "{}{}", removed.out, removed.errors);
    shop(&mut connect(&file, 1));
}

/// A ring's life: its rows are gathered on one server, that one's schema is changed, and a ring is installed again with its
/// rows on all.
#[test]
fn a_schema_is_changed_between_two_rings() {
    let (server, mut databases, file) = three("moved");
    let file = file.display().to_string();
    for database in &mut databases {
        run(
            database,
            "INSERT INTO author VALUES (1, 'a', 'b', 'c', '1970-01-01', 'd'); \
             INSERT INTO item SELECT i, 'title', 1, '2020-01-01', 'p', 'ARTS', 'd', 1, 2, 3, 4, 5, 't', 'i', 10.00, 9.00, \
             '2020-01-01', 100, 'isbn', 100, 'HARDBACK', '1x1x1' FROM generate_series(1, 10) i",
        );
    }
    let done = |arguments: &[&str]| {
        let ran = anabranch(arguments);
        assert_eq!(
            ran.code,
            Some(0),
            "{arguments:?}: {}{}",
            ran.out,
            ran.errors
        );
        ran.out
    };
    let gather = [
        "belt",
        "remove",
        &file,
        "examples/tpcw",
        "--gather",
        "japan",
    ];
    let refused = |words: &str| {
        let ran = anabranch(&gather);
        assert_eq!(ran.code, Some(2), "{}{}", ran.out, ran.errors);
        assert!(ran.errors.contains(words), "{words}: {}", ran.errors);
    };
    refused("the belt is installed on no server");
    done(&["belt", "install", &file, "examples/tpcw"]);
    let mut middlewares: Vec<Middleware> = NAMES.iter().map(|at| serve(&file, at)).collect();
    // Carts are where their servers have made them; orders are on all servers.
    let mut carts = Vec::new();
    for place in [0, 1, 2, 0, 1, 2, 2] {
        let mut client = connect(&file, place);
        let cart = number(&mut client, "SELECT create_empty_cart('2026-01-01')");
        run(
            &mut client,
            &format!("CALL do_cart({cart}, 3, '{{}}', '{{}}', 5, '2026-01-01')"),
        );
        carts.push(cart);
    }
    let shop = |client: &mut Client| {
        let customer = number(
            client,
            "SELECT create_new_customer('f', 'l', 's', 's', 'c', 's', 'z', 'country 1', 'p', 'e', '1970-01-01', 'd', 5.0, \
             '2026-01-01', '2026-01-01')",
        );
        let cart = number(client, "SELECT create_empty_cart('2026-01-01')");
        run(
            client,
            &format!("CALL do_cart({cart}, 3, '{{}}', '{{}}', 5, '2026-01-01')"),
        );
        number(
            client,
            &format!(
                "SELECT do_buy_confirm({cart}, {customer}, 'VISA', '1', 'n', '2030-01-01', 'a', 'AIR', '2026-01-01', \
                 '2026-01-02')"
            ),
        )
    };
    let mut orders: Vec<i64> = [0, 1, 2]
        .map(|place| shop(&mut connect(&file, place)))
        .to_vec();
    refused("the middleware of germany runs");
    // Killed, so that the last operations may be on one server alone.
    middlewares.clear();
    let gathered = done(&gather);
    assert!(gathered.contains("Gathered on japan"), "{gathered}");
    assert!(gathered.contains("of brazil"), "{gathered}");
    let mut japan = server
        .connect_to("japan")
        .unwrap_or_else(|error| panic!("{error}"));
    let numbers = |client: &mut Client, query: &str| -> Vec<i64> {
        let rows = client.query(query, &[]);
        let rows =
            rows.unwrap_or_else(|error| panic!("{}", anabranch_dbms::postgres::explain(&error)));
        rows.iter().map(|row| row.get(0)).collect()
    };
    let lines = "SELECT scl_sc_id::bigint FROM shopping_cart_line WHERE scl_i_id = 3 ORDER BY 1";
    carts.sort_unstable();
    assert_eq!(numbers(&mut japan, lines), carts);
    orders.sort_unstable();
    let placed = "SELECT o_id::bigint FROM orders ORDER BY 1";
    assert_eq!(numbers(&mut japan, placed), orders);
    let left: i64 = japan
        .query_one(
            "SELECT count(*) FROM pg_namespace WHERE nspname = 'anabranch'",
            &[],
        )
        .expect("it answers")
        .get(0);
    assert_eq!(left, 0);
    // Another schema, and another server: brazil goes, kenya comes, whose database is empty.
    let mut admin = server.connect().unwrap_or_else(|error| panic!("{error}"));
    run(&mut admin, "CREATE DATABASE kenya");
    let read = |file: &str| {
        let path = root().join("examples/tpcw").join(file);
        std::fs::read_to_string(path).expect("the example is there")
    };
    let open = |name: &str| {
        let client = server.connect_to(name);
        client.unwrap_or_else(|error| panic!("{error}"))
    };
    let mut kenya = open("kenya");
    run(&mut kenya, &read("schema.sql"));
    run(&mut kenya, &read("procedures.sql"));
    let names = ["germany", "japan", "kenya"];
    let text = std::fs::read_to_string(&file).expect("it is there");
    std::fs::write(&file, text.replace("brazil", "kenya")).expect("the file is written");
    for name in names {
        let mut client = open(name);
        run(&mut client, "ALTER TABLE item ADD COLUMN i_extra int");
        if name == "japan" {
            run(&mut client, "UPDATE item SET i_extra = 7");
        }
    }
    let differs = anabranch(&["belt", "install", &file, "examples/tpcw"]);
    assert_eq!(differs.code, Some(1), "{}", differs.out);
    assert!(differs.out.contains("(--from germany)"), "{}", differs.out);
    let mut install = vec!["belt", "install", &file, "examples/tpcw", "--from", "japan"];
    let refused = anabranch(&install);
    assert_eq!(refused.code, Some(1), "{}", refused.out);
    let words = "have them replaced by japan's: --replace germany";
    assert!(refused.out.contains(words), "{}", refused.out);
    install.extend(["--replace", "germany"]);
    let installed = done(&install);
    assert!(
        installed.contains("Copied from japan to the others"),
        "{installed}"
    );
    for name in names {
        let mut client = open(name);
        assert_eq!(numbers(&mut client, lines), carts, "{name}");
        let extra = "SELECT DISTINCT i_extra::bigint FROM item";
        assert_eq!(numbers(&mut client, extra), [7], "{name}");
        // As a gathering that has begun leaves it.
        run(
            &mut client,
            "CREATE TABLE anabranch.closed (target text); INSERT INTO anabranch.closed VALUES ('japan')",
        );
    }
    let closed = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["serve", "--belt", &file, "--at", "japan", "examples/tpcw"])
        .current_dir(root())
        .stderr(Stdio::piped())
        .spawn();
    let mut closed = Middleware(closed.expect("the program runs"));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = closed.0.try_wait().expect("its state is known") {
            break status;
        }
        let elapsed = begun.elapsed();
        assert!(elapsed < Duration::from_secs(20), "it serves a closed ring");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(status.code(), Some(2));
    let errors = closed.0.stderr.take().map(std::io::read_to_string);
    let errors = errors.and_then(Result::ok).unwrap_or_default();
    assert!(
        errors.contains("its rows are gathered on japan"),
        "{errors}"
    );
    for name in names {
        run(&mut open(name), "DROP TABLE anabranch.closed");
    }
    let middlewares: Vec<Middleware> = names.iter().map(|at| serve(&file, at)).collect();
    // An operation may belong to any server: all of them accept connections first.
    let places = names.iter().enumerate();
    let clients: Vec<Client> = places
        .map(|(place, name)| connect_to(&file, place, name))
        .collect();
    for mut client in clients {
        let order = shop(&mut client);
        assert!(!orders.contains(&order), "{order} was given twice");
        orders.push(order);
    }
    drop(middlewares);
    // And one server alone is left, as at the beginning.
    done(&gather);
    orders.sort_unstable();
    assert_eq!(numbers(&mut japan, placed), orders);
}

/// A fourth server joins, whose database is empty, and one of the first three leaves. Carts go where their keys belong, and what
/// every server has is on all of them.
#[test]
fn a_server_joins_a_ring_and_another_one_leaves_it() {
    let (server, mut databases, file) = three("shared");
    let file = file.display().to_string();
    let mut carts: Vec<i64> = Vec::new();
    for database in &mut databases {
        run(
            database,
            "INSERT INTO author VALUES (1, 'a', 'b', 'c', '1970-01-01', 'd'); \
             INSERT INTO item SELECT i, 'title', 1, '2020-01-01', 'p', 'ARTS', 'd', 1, 2, 3, 4, 5, 't', 'i', 10.00, 9.00, \
             '2020-01-01', 100, 'isbn', 100, 'HARDBACK', '1x1x1' FROM generate_series(1, 10) i",
        );
        // The first carts have keys of every slot.
        carts = (0..16)
            .map(|_| number(database, "SELECT create_empty_cart('2026-01-01')"))
            .collect();
    }
    drop(databases);
    let ran = |arguments: &[&str], code: i32| {
        let ran = anabranch(arguments);
        assert_eq!(
            ran.code,
            Some(code),
            "{arguments:?}: {}{}",
            ran.out,
            ran.errors
        );
        ran.out + &ran.errors
    };
    // The middlewares of these servers run; each cart gets an item, by way of one of them. Then all are killed.
    let mut orders: Vec<i64> = Vec::new();
    let mut buy = |names: &[(usize, &str)], item: usize, carts: &mut Vec<i64>| {
        let middlewares: Vec<Middleware> = names.iter().map(|(_, at)| serve(&file, at)).collect();
        let places = names.iter();
        let mut clients: Vec<Client> = places
            .map(|(place, name)| connect_to(&file, *place, name))
            .collect();
        for ((place, name), client) in names.iter().zip(&mut clients) {
            let cart = number(client, "SELECT create_empty_cart('2026-01-01')");
            assert_eq!(cart % 16, *place as i64, "{name}");
            assert!(!carts.contains(&cart), "{cart} was given twice");
            carts.push(cart);
        }
        for (number, cart) in carts.iter().enumerate() {
            let at = number % clients.len();
            run(
                &mut clients[at],
                &format!("CALL do_cart({cart}, {item}, '{{}}', '{{}}', 5, '2026-01-01')"),
            );
        }
        for client in &mut clients {
            let customer = number(
                client,
                "SELECT create_new_customer('f', 'l', 's', 's', 'c', 's', 'z', 'country 1', 'p', 'e', '1970-01-01', 'd', 5.0, \
                 '2026-01-01', '2026-01-01')",
            );
            let cart = number(client, "SELECT create_empty_cart('2026-01-01')");
            run(
                client,
                &format!("CALL do_cart({cart}, 9, '{{}}', '{{}}', 5, '2026-01-01')"),
            );
            let order = number(
                client,
                &format!(
                    "SELECT do_buy_confirm({cart}, {customer}, 'VISA', '1', 'n', '2030-01-01', 'a', 'AIR', '2026-01-01', \
                     '2026-01-02')"
                ),
            );
            assert!(!orders.contains(&order), "{order} was given twice");
            orders.push(order);
        }
        middlewares
    };
    ran(&["belt", "install", &file, "examples/tpcw"], 0);
    let middlewares = buy(
        &[(0, "germany"), (1, "japan"), (2, "brazil")],
        3,
        &mut carts,
    );
    let mut admin = server.connect().unwrap_or_else(|error| panic!("{error}"));
    run(&mut admin, "CREATE DATABASE kenya");
    let text = std::fs::read_to_string(&file).expect("it is there");
    let text = format!(
        "{text}[[server]]\nname = \"kenya\"\ndatabase = \"{}\"\nlisten = \"127.0.0.1:{}\"\nring = \"127.0.0.1:{}\"\n",
        server.address("kenya"),
        free_port(),
        free_port()
    );
    std::fs::write(&file, text).expect("the file is written");
    let add = ["belt", "add-server", &file, "kenya", "examples/tpcw"];
    let refused = ran(&add, 2);
    assert!(
        refused.contains("the middleware of germany runs"),
        "{refused}"
    );
    drop(middlewares);
    let other = ran(&["belt", "add-server", &file, "japan", "examples/tpcw"], 2);
    assert!(other.contains("japan has to be the last"), "{other}");
    let added = ran(&add, 0);
    for words in [
        "kenya joins the ring",
        "all 10 rows copied",
        "4 of 16 slots of keys move: 3 of germany to kenya",
        "kenya is a member of the ring",
    ] {
        assert!(added.contains(words), "{words}: {added}");
    }
    let again = ran(&add, 0);
    assert!(
        again.contains("was a member of the ring already"),
        "{again}"
    );
    let mut kenya = server
        .connect_to("kenya")
        .unwrap_or_else(|error| panic!("{error}"));
    let numbers = |client: &mut Client, query: &str| -> Vec<i64> {
        let rows = client.query(query, &[]);
        let rows =
            rows.unwrap_or_else(|error| panic!("{}", anabranch_dbms::postgres::explain(&error)));
        rows.iter().map(|row| row.get(0)).collect()
    };
    // A quarter of the first carts, and none of those that servers have numbered since.
    let moved = numbers(
        &mut kenya,
        "SELECT sc_id::bigint FROM shopping_cart ORDER BY 1",
    );
    assert_eq!(moved.len(), 4, "{moved:?}");
    assert!(moved.iter().all(|cart| *cart <= 16), "{moved:?}");
    let all = [(0, "germany"), (1, "japan"), (2, "brazil"), (3, "kenya")];
    drop(buy(&all, 4, &mut carts));
    let remove = ["belt", "remove-server", &file, "brazil", "examples/tpcw"];
    let removed = ran(&remove, 0);
    assert!(removed.contains("rows of brazil to kenya"), "{removed}");
    let again = ran(&remove, 0);
    assert!(
        again.contains("was no member of the ring any more"),
        "{again}"
    );
    let gone = ran(
        &["serve", "--belt", &file, "--at", "brazil", "examples/tpcw"],
        2,
    );
    assert!(
        gone.contains("the belt is not installed in its database"),
        "{gone}"
    );
    drop(buy(
        &[(0, "germany"), (1, "japan"), (3, "kenya")],
        5,
        &mut carts,
    ));
    ran(
        &[
            "belt",
            "remove",
            &file,
            "examples/tpcw",
            "--gather",
            "kenya",
        ],
        0,
    );
    // Every cart has what was bought since it was made.
    carts.sort_unstable();
    for (item, at_least) in [(3, 19), (4, 23), (5, 26)] {
        let with = numbers(
            &mut kenya,
            &format!(
                "SELECT scl_sc_id::bigint FROM shopping_cart_line WHERE scl_i_id = {item} ORDER BY 1"
            ),
        );
        assert_eq!(with.len(), at_least, "{item}");
        assert!(with.iter().all(|cart| carts.contains(cart)), "{with:?}");
    }
    orders.sort_unstable();
    let placed = numbers(&mut kenya, "SELECT o_id::bigint FROM orders ORDER BY 1");
    assert_eq!(placed, orders);
}
