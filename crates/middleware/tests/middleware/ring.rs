//! Three middlewares over three PostgreSQL databases, with real connections between them: operations from several threads, lost
//! database connections, a middleware that ends and begins again, a server that is removed.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anabranch_dbms::belt::Trouble;
use anabranch_dbms::postgres::install::Part;
use anabranch_dbms::postgres::ring::{self, PostgresDatabase};
use anabranch_dbms::postgres::{Server, Settings, explain};
use anabranch_middleware::peers::Membership;
use anabranch_middleware::{Ring, RingOptions};
use anabranch_protocol::belt::ServerId;
use postgres::{Client, NoTls};

const SCHEMA: &str = "CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL); \
    INSERT INTO account SELECT i, 100 FROM generate_series(0, 9) i; \
    CREATE TABLE done (operation bigint PRIMARY KEY)";

const SERVERS: u16 = 3;

fn run(client: &mut Client, statements: &str) {
    if let Err(error) = client.batch_execute(statements) {
        panic!("{}\n{statements}", explain(&error));
    }
}

fn name(place: u16) -> String {
    format!("site{place}")
}

struct World {
    server: Server,
    addresses: BTreeMap<u16, SocketAddr>,
    listeners: BTreeMap<u16, TcpListener>,
}

impl World {
    fn new() -> World {
        let server = Server::start(Settings::default()).unwrap_or_else(|error| panic!("{error}"));
        let mut first = server.connect().unwrap_or_else(|error| panic!("{error}"));
        let (mut addresses, mut listeners) = (BTreeMap::new(), BTreeMap::new());
        for place in 0..SERVERS {
            run(&mut first, &format!("CREATE DATABASE {}", name(place)));
            let mut client = server
                .connect_to(&name(place))
                .unwrap_or_else(|error| panic!("{error}"));
            run(&mut client, SCHEMA);
            let part = Part::of_database(
                &mut client,
                ("test", &name(place)),
                (place, SERVERS),
                4,
                |_| Some(true),
            );
            let part = part.unwrap_or_else(|error| panic!("{}", explain(&error)));
            run(&mut client, &format!("BEGIN;\n{}\nCOMMIT", part.script()));
            let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
            addresses.insert(place, listener.local_addr().expect("it has an address"));
            listeners.insert(place, listener);
        }
        World {
            server,
            addresses,
            listeners,
        }
    }

    fn connect(&self, place: u16) -> Client {
        let client = self.server.connect_to(&name(place));
        client.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The middleware of a server.
    fn middleware(&mut self, place: u16) -> Ring {
        let listener = match self.listeners.remove(&place) {
            Some(listener) => listener,
            None => TcpListener::bind(self.addresses[&place]).expect("its port is free again"),
        };
        let others = self.addresses.iter().filter(|(other, _)| **other != place);
        let membership = Membership {
            ring: "test".to_owned(),
            own: ServerId(place),
            others: others
                .map(|(other, address)| (ServerId(*other), *address))
                .collect(),
        };
        let address = self.server.address(&name(place));
        let connector = move || {
            let client =
                Client::connect(&address, NoTls).map_err(|error| Trouble::Lost(explain(&error)))?;
            PostgresDatabase::new(client)
        };
        let started = Ring::start(
            &membership,
            listener,
            Box::new(connector),
            RingOptions::default(),
            move |trouble| {
                assert!(!matches!(trouble, Trouble::Failed(_)), "{trouble}");
            },
        );
        started.expect("threads can begin")
    }

    fn rows(&self, place: u16, table: &str) -> Vec<String> {
        let mut client = self.connect(place);
        let rows = client.query(&format!("SELECT t::text FROM {table} t ORDER BY 1"), &[]);
        let rows = rows.unwrap_or_else(|error| panic!("{}", explain(&error)));
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Waits until these servers have the same rows.
    fn equal(&self, places: &[u16], operations: usize) {
        let begun = Instant::now();
        loop {
            let all: Vec<_> = places
                .iter()
                .map(|place| (self.rows(*place, "account"), self.rows(*place, "done")))
                .collect();
            if all.windows(2).all(|pair| pair[0] == pair[1]) && all[0].1.len() == operations {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{all:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Runs one operation at a server until it has committed, also if its connection is lost.
fn operate(world: &World, place: u16, middleware: &Ring, number: u64) {
    let (from, to) = (number % 10, number / 10 % 10);
    for _ in 0..1_000 {
        let Ok(turn) = middleware.turn() else {
            continue;
        };
        // The killer may end it while it is made.
        let Ok(mut client) = world.server.connect_to(&name(place)) else {
            turn.end(false);
            continue;
        };
        let prepared = client.batch_execute(ring::PREPARE);
        let statements = format!(
            "{}; UPDATE account SET balance = balance - 1 WHERE id = {from}; \
             UPDATE account SET balance = balance + 1 WHERE id = {to}; INSERT INTO done VALUES ({number}); {}; COMMIT",
            ring::begin(turn.hold()),
            ring::END
        );
        match prepared.and_then(|()| client.batch_execute(&statements)) {
            Ok(()) => return turn.end(true),
            // It had committed before its connection was lost.
            Err(error) if error.code().is_some_and(|code| code.code() == "23505") => {
                return turn.end(false);
            }
            Err(_) => turn.end(true),
        }
    }
    panic!("operation {number} does not come to an end");
}

#[test]
fn operations_of_all_servers_reach_all_through_lost_connections() {
    let mut world = World::new();
    let rings: Vec<Ring> = (0..SERVERS).map(|place| world.middleware(place)).collect();
    let (world, rings) = (&world, &rings);
    let is_over = AtomicBool::new(false);
    let killed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let mut admin = world.server.connect().unwrap_or_else(|error| panic!("{error}"));
            let mut random = fastrand::Rng::with_seed(3);
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(random.u64(200..900)));
                let ended = admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'site%' \
                     ORDER BY random() LIMIT 1",
                    &[],
                );
                killed.fetch_add(ended.expect("it answers"), Ordering::Relaxed);
            }
        });
        let clients: Vec<_> = (0..6_u64)
            .map(|client| {
                scope.spawn(move || {
                    let place = (client % 3) as u16;
                    for step in 0..20 {
                        operate(
                            world,
                            place,
                            &rings[usize::from(place)],
                            client * 1_000 + step * 37,
                        );
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().expect("no panic");
        }
        is_over.store(true, Ordering::Relaxed);
        killer.join().expect("no panic");
    });
    world.equal(&[0, 1, 2], 120);
    assert!(killed.load(Ordering::Relaxed) > 3);
}

#[test]
fn a_middleware_that_ends_holds_up_the_ring_until_it_is_back_and_a_removed_one_does_not() {
    let mut world = World::new();
    let mut rings: Vec<Option<Ring>> = (0..SERVERS).map(|p| Some(world.middleware(p))).collect();
    for place in 0..SERVERS {
        let middleware = rings[usize::from(place)].as_ref().expect("it runs");
        operate(&world, place, middleware, u64::from(place));
    }
    world.equal(&[0, 1, 2], 3);
    rings[1] = None;
    rings[1] = Some(world.middleware(1));
    for place in 0..SERVERS {
        let middleware = rings[usize::from(place)].as_ref().expect("it runs");
        operate(&world, place, middleware, 10 + u64::from(place));
    }
    world.equal(&[0, 1, 2], 6);
    // Server 1 never returns.
    rings[1] = None;
    let first = rings[0].as_ref().expect("it runs");
    assert_eq!(first.remove(ServerId(7)), None);
    assert!(first.remove(ServerId(1)).is_some());
    for place in [0, 2] {
        let middleware = rings[usize::from(place)].as_ref().expect("it runs");
        operate(&world, place, middleware, 20 + u64::from(place));
    }
    world.equal(&[0, 2], 8);
}

#[test]
fn an_operation_that_hangs_is_cancelled_at_its_deadline() {
    let mut world = World::new();
    let options = RingOptions {
        operation_max: Duration::from_secs(8),
        ..RingOptions::default()
    };
    let address = world.server.address(&name(0));
    let listener = world.listeners.remove(&0).expect("it is there");
    let membership = Membership {
        ring: "test".to_owned(),
        own: ServerId(0),
        others: (1..SERVERS)
            .map(|other| (ServerId(other), world.addresses[&other]))
            .collect(),
    };
    let connector = move || {
        let client =
            Client::connect(&address, NoTls).map_err(|error| Trouble::Lost(explain(&error)))?;
        PostgresDatabase::new(client)
    };
    let middleware = Ring::start(&membership, listener, Box::new(connector), options, |_| {});
    let middleware = middleware.expect("threads can begin");
    // It passes the hold that it has found open. The others send the token back.
    let _others: Vec<Ring> = (1..SERVERS).map(|place| world.middleware(place)).collect();
    let turn = middleware.turn().expect("the token is here");
    let mut client = world.connect(0);
    let token = client.cancel_token();
    turn.cancel_by(move || {
        // An error: the operation has ended.
        let _ = token.cancel_query(NoTls);
    });
    let begun = Instant::now();
    let slept = client.batch_execute("SELECT pg_sleep(60)");
    let state = slept
        .expect_err("cancelled")
        .code()
        .map(|code| code.code().to_owned());
    assert_eq!(state.as_deref(), Some("57014"));
    assert!(begun.elapsed() < Duration::from_secs(30));
    turn.end(false);
}
