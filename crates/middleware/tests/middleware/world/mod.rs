//! A ring of middlewares, for tests and benchmarks.

// Each of them uses a part.
#![allow(dead_code, missing_docs)]

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use anabranch_analysis::{Guarantee, Options, analyze_with};
use anabranch_dbms::Servers;
use anabranch_dbms::belt::Trouble;
use anabranch_dbms::postgres::install::Part;
use anabranch_dbms::postgres::ring::{PostgresDatabase, blockers};
use anabranch_dbms::postgres::{Address, Server, Settings, explain};
use anabranch_middleware::peers::Membership;
use anabranch_middleware::recognise::Recogniser;
use anabranch_middleware::{Ring, RingOptions, Service, ServiceOptions, Site};
use anabranch_protocol::belt::ServerId;
use anabranch_sql::SourceFile;
use anabranch_sql::script::read;
use postgres::{Client, NoTls};

/// The tables that each database begins with.
const SCHEMA: &str = "CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL CHECK (balance >= 0)); \
    INSERT INTO account SELECT i, 100 FROM generate_series(0, 9) i; \
    CREATE TABLE entry (id bigserial PRIMARY KEY, account int NOT NULL, amount int NOT NULL); \
    CREATE TABLE cart (id int PRIMARY KEY, items int NOT NULL); \
    INSERT INTO cart SELECT i, 0 FROM generate_series(0, 99) i;";

/// The application's operations. Carts are of one server each, and are ordered by global operations.
const OPERATIONS: &str = "
    CREATE FUNCTION add_item(p_cart int, p_n int) RETURNS int LANGUAGE plpgsql AS $$
    DECLARE n int;
    BEGIN
        UPDATE cart SET items = items + p_n WHERE id = p_cart RETURNING items INTO n;
        RETURN n;
    END $$;
    CREATE FUNCTION items(p_cart int) RETURNS int LANGUAGE SQL STABLE
    BEGIN ATOMIC SELECT items FROM cart WHERE id = p_cart; END;
    CREATE FUNCTION zone_at(p_cart int) RETURNS text LANGUAGE plpgsql STABLE AS $$
    DECLARE n int;
    BEGIN
        SELECT items INTO n FROM cart WHERE id = p_cart;
        RETURN current_setting('TimeZone');
    END $$;
    CREATE PROCEDURE pay(p_cart int, p_account int, p_n int) LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE cart SET items = 0 WHERE id = p_cart;
        UPDATE account SET balance = balance - p_n WHERE id = p_account;
        INSERT INTO entry (account, amount) VALUES (p_account, -p_n);
    END $$;
    CREATE FUNCTION balance_of(p_account int) RETURNS int LANGUAGE SQL STABLE
    BEGIN ATOMIC SELECT balance FROM account WHERE id = p_account; END;
";

/// Runs statements that cannot fail.
pub(crate) fn run(client: &mut Client, statements: &str) {
    if let Err(error) = client.batch_execute(statements) {
        panic!("{}\n{statements}", explain(&error));
    }
}

/// A PostgreSQL server with a database for each server of a ring, and the middlewares.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) services: Vec<Service>,
    pub(crate) addresses: Vec<SocketAddr>,
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    (listener, address)
}

impl World {
    /// A ring of so many servers.
    pub(crate) fn new(servers_count: u16) -> World {
        let server = Server::start(Settings {
            has_port: true,
            connections_max: 200,
            ..Settings::default()
        });
        let server = server.unwrap_or_else(|error| panic!("{error}"));
        let mut first = server.connect().unwrap_or_else(|error| panic!("{error}"));
        let (mut rings, mut clients, mut text) = (Vec::new(), Vec::new(), "slots = 4\n".to_owned());
        for place in 0..servers_count {
            let name = format!("site{place}");
            run(&mut first, &format!("CREATE DATABASE {name}"));
            let mut client = server.connect_to(&name).unwrap_or_else(|e| panic!("{e}"));
            run(&mut client, SCHEMA);
            run(&mut client, OPERATIONS);
            let part = Part::of_database(
                &mut client,
                ("test", &name),
                (place, servers_count),
                4,
                |table| (table != "cart").then_some(true),
            );
            let part = part.unwrap_or_else(|error| panic!("{}", explain(&error)));
            run(&mut client, &format!("BEGIN;\n{}\nCOMMIT", part.script()));
            let (ring, listen) = (listener(), listener());
            text.push_str(&format!(
                "[[server]]\nname = \"site{place}\"\ndatabase = \"{}\"\nlisten = \"{}\"\nring = \"{}\"\n",
                format_args!("postgresql://anabranch@127.0.0.1:{}/{name}", server.port()),
                listen.1,
                ring.1
            ));
            rings.push(ring);
            clients.push(listen);
        }
        let servers = Servers::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let members: Vec<SocketAddr> = rings.iter().map(|(_, address)| *address).collect();
        let addresses = clients.iter().map(|(_, address)| *address).collect();
        let mut services = Vec::new();
        for (place, ((ring, _), (listen, _))) in rings.into_iter().zip(clients).enumerate() {
            services.push(start(
                &server,
                &servers,
                place as u16,
                &members,
                ring,
                listen,
            ));
        }
        World {
            server,
            services,
            addresses,
        }
    }

    /// A client at a middleware.
    pub(crate) fn connect(&self, place: usize) -> Client {
        let address = self.addresses[place];
        let text = format!(
            "host={} port={} user=anabranch dbname=site{place}",
            address.ip(),
            address.port()
        );
        Client::connect(&text, NoTls).unwrap_or_else(|error| panic!("{}", explain(&error)))
    }

    /// What a query gives on one server's database.
    pub(crate) fn rows(&self, place: u16, query: &str) -> Vec<String> {
        let client = self.server.connect_to(&format!("site{place}"));
        let mut client = client.unwrap_or_else(|error| panic!("{error}"));
        let rows = client.query(query, &[]);
        let rows = rows.unwrap_or_else(|error| panic!("{}", explain(&error)));
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Waits until all servers answer a query alike, and as wanted.
    pub(crate) fn all(&self, query: &str, wanted: &[&str]) {
        let begun = Instant::now();
        loop {
            let found: Vec<Vec<String>> = (0..self.services.len() as u16)
                .map(|place| self.rows(place, query))
                .collect();
            if found.iter().all(|rows| rows == wanted) {
                return;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "{query}: {found:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn start(
    server: &Server,
    servers: &Servers,
    place: u16,
    members: &[SocketAddr],
    ring: TcpListener,
    listen: TcpListener,
) -> Service {
    let membership = Membership {
        ring: "test".to_owned(),
        own: ServerId(place),
        others: (0..)
            .zip(members)
            .filter(|(other, _)| *other != place)
            .map(|(other, address)| (ServerId(other), *address))
            .collect(),
    };
    let database = server.address(&format!("site{place}"));
    let reach = database.clone();
    let connector = move || {
        let client =
            Client::connect(&reach, NoTls).map_err(|error| Trouble::Lost(explain(&error)))?;
        PostgresDatabase::new(client)
    };
    let ring = Ring::start(
        &membership,
        ring,
        Box::new(connector),
        RingOptions::default(),
        |trouble| assert!(!matches!(trouble, Trouble::Failed(_)), "{trouble}"),
    );
    let sites: Result<Vec<Site>, String> = servers.server.iter().map(Site::new).collect();
    let home = Address::parse(&servers.server[usize::from(place)].database)
        .and_then(|address| address.endpoint())
        .unwrap_or_else(|error| panic!("{error}"));
    let mut watcher = None;
    Service::start(
        listen,
        home,
        sites.unwrap_or_else(|error| panic!("{error}")),
        ring.expect("threads can begin"),
        recogniser(servers),
        Box::new(move |held: &[i32]| {
            let client = watcher.get_or_insert_with(|| Client::connect(&database, NoTls));
            let found = client
                .as_mut()
                .ok()
                .and_then(|client| blockers(client, held).ok());
            found.unwrap_or_default()
        }),
        ServiceOptions::of(ServerId(place)),
    )
    .expect("threads can begin")
}

fn recogniser(servers: &Servers) -> Recogniser {
    let schema = SCHEMA
        .split(';')
        .filter(|text| text.contains("CREATE TABLE"));
    let files = vec![
        SourceFile::new("schema.sql", schema.collect::<Vec<_>>().join(";")),
        SourceFile::new("operations.sql", OPERATIONS),
    ];
    let script = read(files).unwrap_or_else(|error| panic!("{error:?}"));
    let options = Options {
        guarantee: Guarantee::Serializable,
        ..Options::default()
    };
    let catalog = script.application.catalog();
    let plan = analyze_with(catalog, &script.summaries, &options);
    Recogniser::new(&script, &plan, servers).unwrap_or_else(|error| panic!("{error}"))
}
