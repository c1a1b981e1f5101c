//! The belt's state machine over three PostgreSQL databases: messages are lost, doubled and late, and connections end before
//! any statement of the belt's transactions. At the end all servers have the same rows, and each operation once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use anabranch_dbms::belt::{Changes, Database, Trouble};
use anabranch_dbms::postgres::install::Part;
use anabranch_dbms::postgres::ring::{self, PostgresDatabase};
use anabranch_dbms::postgres::{Server, Settings, explain};
use anabranch_protocol::belt::{
    BeltOptions, BeltServer, Hop, Input, Message, Outbox, Reply, Request, ServerId, Timer,
};
use anabranch_types::Ticks;
use postgres::Client;

const SCHEMA: &str = "CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL CHECK (balance >= 0)); \
    INSERT INTO account SELECT i, 100 FROM generate_series(0, 9) i; \
    CREATE TABLE done (operation bigint PRIMARY KEY, seen bigint NOT NULL); \
    CREATE TABLE moment (at timestamptz PRIMARY KEY, n int NOT NULL); INSERT INTO moment VALUES ('2026-01-01 00:00:00Z', 0); \
    CREATE TABLE seat (id int PRIMARY KEY, guest text UNIQUE); INSERT INTO seat VALUES (1, 'ada'), (2, 'bob'), (3, NULL); \
    CREATE TABLE mine (id int PRIMARY KEY, n int NOT NULL); INSERT INTO mine VALUES (1, 0)";

const SERVERS: u16 = 3;

fn run(client: &mut Client, statements: &str) {
    if let Err(error) = client.batch_execute(statements) {
        panic!("{}\n{statements}", explain(&error));
    }
}

fn database(place: u16) -> String {
    format!("site{place}")
}

/// Three databases with the belt installed.
fn start() -> Server {
    let server = Server::start(Settings::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut first = connect(&server, "postgres");
    for place in 0..SERVERS {
        let name = database(place);
        run(&mut first, &format!("CREATE DATABASE {name}"));
        let mut client = connect(&server, &name);
        run(&mut client, SCHEMA);
        let part = Part::of_database(&mut client, ("test", &name), (place, SERVERS), 4, |table| {
            (table != "mine").then_some(true)
        });
        let part = part.unwrap_or_else(|error| panic!("{}", explain(&error)));
        run(&mut client, &format!("BEGIN;\n{}\nCOMMIT", part.script()));
    }
    server
}

fn connect(server: &Server, name: &str) -> Client {
    server
        .connect_to(name)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Ends a connection before one of its next statements.
struct Killer {
    admin: Client,
    /// By server: the backend of its connection, and the number of statements until it is ended.
    victims: BTreeMap<u16, (i32, u32)>,
}

impl Killer {
    fn before_statement(&mut self, place: u16) {
        if let Some((backend, left)) = self.victims.get_mut(&place) {
            if *left == 0 {
                let ended = self
                    .admin
                    .execute("SELECT pg_terminate_backend($1, 10000)", &[&*backend]);
                assert!(ended.is_ok(), "{ended:?}");
            }
            *left = left.wrapping_sub(1);
        }
    }
}

struct Site {
    belt: BeltServer<Changes, u64>,
    database: PostgresDatabase,
    operations: Client,
}

/// The servers, the network between them, and the clients.
struct World {
    server: Server,
    killer: Arc<Mutex<Killer>>,
    random: fastrand::Rng,
    now: Ticks,
    sites: Vec<Site>,
    messages: VecDeque<(ServerId, ServerId, Message<Changes>)>,
    timers: Vec<(Ticks, u16, Timer)>,
    /// Operations that have not been seen to commit, by the server that they are submitted at.
    open: BTreeMap<u64, u16>,
    kills: u32,
    faults: bool,
}

impl World {
    fn new(seed: u64) -> World {
        let server = start();
        let killer = Killer {
            admin: connect(&server, "postgres"),
            victims: BTreeMap::new(),
        };
        let mut world = World {
            killer: Arc::new(Mutex::new(killer)),
            random: fastrand::Rng::with_seed(seed),
            now: Ticks::default(),
            sites: Vec::new(),
            messages: VecDeque::new(),
            timers: Vec::new(),
            open: BTreeMap::new(),
            kills: 0,
            faults: true,
            server,
        };
        for place in 0..SERVERS {
            let mut out = Outbox::default();
            let site = world.site(place, &mut out);
            world.sites.push(site);
            world.take(place, out);
        }
        world
    }

    /// A server's middleware, from the state in its database.
    fn site(&mut self, place: u16, out: &mut Outbox<Changes, u64>) -> Site {
        loop {
            let mut client = connect(&self.server, &database(place));
            let backend: i32 = client
                .query_one("SELECT pg_backend_pid()", &[])
                .expect("it answers")
                .get(0);
            let killer = Arc::clone(&self.killer);
            if self.faults {
                let left = self.random.u32(2..60);
                let mut killer = killer.lock().expect("not poisoned");
                killer.victims.insert(place, (backend, left));
            } else {
                killer.lock().expect("not poisoned").victims.remove(&place);
            }
            let database_of = PostgresDatabase::new(client).expect("its settings are made");
            let mut database_of = database_of
                .with_probe(move |_| killer.lock().expect("not poisoned").before_statement(place));
            let standing = match database_of.standing() {
                Ok(standing) => standing,
                Err(Trouble::Lost(_)) => continue,
                Err(error) => panic!("{error}"),
            };
            let mut operations = connect(&self.server, &database(place));
            run(&mut operations, ring::PREPARE);
            let options = BeltOptions::default();
            let belt = BeltServer::recover(self.now, ServerId(place), options, standing, out);
            return Site {
                belt,
                database: database_of,
                operations,
            };
        }
    }

    fn step(&mut self, place: u16, input: Input<Changes, u64>) {
        let mut out = Outbox::default();
        let site = &mut self.sites[usize::from(place)];
        site.belt.step(self.now, input, &mut out);
        let checked = site.belt.check_invariants();
        assert_eq!(checked, Ok(()));
        self.take(place, out);
    }

    /// Does what an outbox asks for.
    fn take(&mut self, place: u16, out: Outbox<Changes, u64>) {
        for (to, message) in out.messages {
            if self.faults && self.random.u32(0..10) == 0 {
                continue;
            }
            self.messages
                .push_back((ServerId(place), to, message.clone()));
            if self.faults && self.random.u32(0..10) == 0 {
                self.messages.push_back((ServerId(place), to, message));
            }
        }
        self.timers
            .extend(out.timers.into_iter().map(|(at, timer)| (at, place, timer)));
        for reply in out.replies {
            match reply {
                Reply::Answer(operation) => {
                    self.open.remove(&operation);
                }
                other => panic!("{other:?}"),
            }
        }
        for request in out.requests {
            let input = match request {
                Request::Run { operation, hold } => {
                    let committed = self.operate(place, operation, hold);
                    Ok(Input::Ended {
                        operation,
                        committed,
                    })
                }
                Request::Receive(token) => {
                    let received = self.sites[usize::from(place)].database.receive(&token);
                    received.map(Input::Received)
                }
                Request::Pass { hold, wishes } => {
                    let passed = self.sites[usize::from(place)].database.pass(hold, &wishes);
                    passed.map(Input::Passed)
                }
                other => panic!("{other:?}"),
            };
            match input {
                Ok(input) => self.step(place, input),
                Err(Trouble::Lost(_)) => {
                    self.restart(place);
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The middleware of a server ends, and another one begins.
    fn restart(&mut self, place: u16) {
        self.kills += 1;
        self.timers.retain(|(_, of, _)| *of != place);
        let mut out = Outbox::default();
        let site = self.site(place, &mut out);
        self.sites[usize::from(place)] = site;
        self.take(place, out);
        // Clients whose operation was not answered ask whether it is there, and submit it again if not.
        let open: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, of)| **of == place)
            .map(|(operation, _)| *operation)
            .collect();
        for operation in open {
            self.submit(place, operation);
        }
    }

    fn submit(&mut self, place: u16, operation: u64) {
        self.open.insert(operation, place);
        let deadline = self.now + Ticks::from_millis(1 << 40);
        self.step(
            place,
            Input::Operation {
                operation,
                deadline,
            },
        );
    }

    /// Runs an operation: moves money, and notes what its server alone has. Returns whether it has committed a change.
    fn operate(&mut self, place: u16, operation: u64, hold: Hop) -> bool {
        let (from, to) = (operation % 10, (operation / 10) % 10);
        let statements = format!(
            "{}; UPDATE mine SET n = n + 1; UPDATE account SET balance = balance - 1 WHERE id = {from}; \
             UPDATE account SET balance = balance + 1 WHERE id = {to}; \
             INSERT INTO done SELECT {operation}, n FROM mine; {}; COMMIT",
            ring::begin(hold),
            ring::END
        );
        let client = &mut self.sites[usize::from(place)].operations;
        match client.batch_execute(&statements) {
            Ok(()) => true,
            Err(error) => {
                run(client, "ROLLBACK");
                let state = error.code().map(|code| code.code().to_owned());
                // An earlier attempt had committed.
                assert_eq!(state.as_deref(), Some("23505"), "{}", explain(&error));
                false
            }
        }
    }

    /// Lets one thing happen.
    fn turn(&mut self) {
        let is_late = |at: Ticks, now: Ticks| at <= now;
        if let Some(place) = self
            .timers
            .iter()
            .position(|(at, ..)| is_late(*at, self.now))
        {
            let (_, of, timer) = self.timers.swap_remove(place);
            return self.step(of, Input::Timer(timer));
        }
        if !self.messages.is_empty() {
            let at = match self.faults {
                true => self.random.usize(0..self.messages.len().min(3)),
                false => 0,
            };
            if let Some((from, to, message)) = self.messages.remove(at) {
                return self.step(to.0, Input::Message { from, message });
            }
        }
        self.now = self.now + Ticks::from_millis(50);
    }

    fn table(&mut self, place: u16, table: &str) -> Vec<String> {
        let client = &mut self.sites[usize::from(place)].operations;
        let rows = client.query(&format!("SELECT t::text FROM {table} t ORDER BY 1"), &[]);
        let rows = rows.unwrap_or_else(|error| panic!("{}", explain(&error)));
        rows.iter().map(|row| row.get(0)).collect()
    }
}

#[test]
fn nothing_is_lost_doubled_or_out_of_order_whatever_ends_before_which_statement() {
    let mut world = World::new(7);
    let count: u64 = 120;
    let mut next = 0;
    for turn in 0..20_000 {
        if next < count && turn % 5 == 0 {
            let place = world.random.u16(0..SERVERS);
            // Each operation has its own accounts, and a number of its own.
            let operation = next * 100 + world.random.u64(0..100);
            world.submit(place, operation);
            next += 1;
        }
        if next == count {
            world.faults = false;
        }
        world.turn();
        let is_done = world.open.is_empty() && world.messages.is_empty();
        if next == count && is_done && world.sites.iter().all(|site| site.belt.is_at_rest()) {
            break;
        }
    }
    assert!(world.open.is_empty(), "{:?}", world.open);
    for table in ["account", "done"] {
        let first = world.table(0, table);
        for place in 1..SERVERS {
            assert_eq!(
                first,
                world.table(place, table),
                "{table} on servers 0 and {place}"
            );
        }
    }
    assert_eq!(world.table(0, "done").len() as u64, count);
    let sum: i64 = world.sites[1]
        .operations
        .query_one("SELECT sum(balance) FROM account", &[])
        .expect("it answers")
        .get(0);
    assert_eq!(sum, 1_000);
    // What local data the operations saw was that of their own server: each of its numbers once.
    let mut own = 0;
    for place in 0..SERVERS {
        let mine = world.table(place, "mine");
        let n: u64 = mine[0]
            .trim_matches(['(', ')'])
            .split(',')
            .nth(1)
            .expect("n")
            .parse()
            .expect("a number");
        own += n;
    }
    assert_eq!(own, count);
    assert!(world.kills >= 5, "{} middlewares ended", world.kills);
}

/// Runs a statement as an operation of hold 1, again until it commits. Returns how often it was aborted.
fn commit(client: &mut Client, statements: &str) -> u32 {
    let operation = format!(
        "{}; {statements}; {}; COMMIT",
        ring::begin(Hop(1)),
        ring::END
    );
    for aborts in 0..1_000 {
        let Err(error) = client.batch_execute(&operation) else {
            return aborts;
        };
        let state = error.code().map(|code| code.code().to_owned());
        assert!(
            matches!(state.as_deref(), Some("40001" | "40P01")),
            "{}",
            explain(&error)
        );
        run(client, "ROLLBACK");
    }
    panic!("aborted a thousand times");
}

/// Runs operations of hold 1 of the first server on four connections at the same time. Returns how often they were
/// aborted.
fn run_at_once(
    server: &Server,
    statements: impl Fn(u64, &mut fastrand::Rng) -> String + Sync,
) -> u32 {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let statements = &statements;
                scope.spawn(move || {
                    let mut client = connect(server, &database(0));
                    run(&mut client, ring::PREPARE);
                    // A deadlock costs this long.
                    run(
                        &mut client,
                        "SET enable_seqscan = off; SET deadlock_timeout = '10ms'",
                    );
                    let mut random = fastrand::Rng::with_seed(thread);
                    let one = |_| commit(&mut client, &statements(thread, &mut random));
                    (0..12).map(one).sum::<u32>()
                })
            })
            .collect();
        let aborts = threads.into_iter().map(|thread| thread.join());
        aborts.map(|aborts| aborts.expect("no panic")).sum()
    })
}

/// Passes hold 1 on, has the others receive it, and compares all rows.
fn pass_on(server: &Server) -> usize {
    let open = |place: u16| {
        PostgresDatabase::new(connect(server, &database(place))).unwrap_or_else(|e| panic!("{e}"))
    };
    let passed = open(0).pass(Hop(1), &std::collections::BTreeSet::new());
    let token = passed.unwrap_or_else(|error| panic!("{error}"));
    let token = token.unwrap_or_else(|refused| panic!("{refused}"));
    for place in 1..SERVERS {
        let received = open(place).receive(&token);
        assert_eq!(received.unwrap_or_else(|error| panic!("{error}")), Ok(()));
    }
    let rows = |place: u16, table: &str| -> Vec<String> {
        let mut client = connect(server, &database(place));
        let rows = client.query(&format!("SELECT t::text FROM {table} t ORDER BY 1"), &[]);
        let rows = rows.unwrap_or_else(|error| panic!("{}", explain(&error)));
        rows.iter().map(|row| row.get(0)).collect()
    };
    for table in ["account", "done", "moment", "seat"] {
        for place in 1..SERVERS {
            assert_eq!(
                rows(0, table),
                rows(place, table),
                "{table} on servers 0 and {place}"
            );
        }
    }
    token.updates.len()
}

#[test]
fn operations_that_run_at_once_are_applied_in_the_order_of_their_conflicts() {
    let server = start();
    let aborts = run_at_once(&server, |thread, random| {
        let number = random.u32(1..1_000_000);
        format!(
            "INSERT INTO done VALUES ({number}{thread}, {thread}); \
             UPDATE account SET balance = {number} WHERE id = {}; UPDATE account SET balance = balance + {number} WHERE id = {}",
            random.u32(0..3),
            random.u32(0..3)
        )
    });
    assert!(aborts > 0, "they were not at the same time");
    assert_eq!(pass_on(&server), 48);
}

/// They are applied in as few calls as may be: none of these may be with the one before.
#[test]
fn operations_that_depend_on_the_one_before_are_applied_behind_it() {
    let server = start();
    let mut client = connect(&server, &database(0));
    run(&mut client, ring::PREPARE);
    for statements in [
        "SET LOCAL TimeZone = 'UTC'; UPDATE moment SET n = n + 1",
        "SET LOCAL TimeZone = 'Asia/Tokyo'; UPDATE moment SET n = n + 1",
        "UPDATE seat SET guest = NULL WHERE id = 1",
        "UPDATE seat SET guest = 'ada' WHERE id = 2",
        "UPDATE seat SET guest = 'bob' WHERE id = 3",
        "DELETE FROM seat WHERE id = 3",
        "INSERT INTO seat VALUES (3, 'cleo'), (4, 'bob')",
        "UPDATE seat SET guest = 'dan' WHERE id = 4",
        "INSERT INTO done VALUES (1, 1)",
        "TRUNCATE done",
        "INSERT INTO done VALUES (1, 2)",
    ] {
        assert_eq!(commit(&mut client, statements), 0);
    }
    assert_eq!(pass_on(&server), 11);
}

#[test]
fn operations_on_different_rows_do_not_abort_each_other() {
    let server = start();
    let aborts = run_at_once(&server, |thread, random| {
        format!(
            "INSERT INTO done VALUES ({}, {thread}); UPDATE account SET balance = balance + 1 WHERE id = {thread}",
            random.u32(0..100_000) * 4 + thread as u32
        )
    });
    assert_eq!(aborts, 0);
    pass_on(&server);
}

#[test]
fn an_operation_of_a_middleware_that_has_ended_does_not_keep_its_hold_open() {
    let server = start();
    let mut forgotten = connect(&server, &database(0));
    run(&mut forgotten, ring::PREPARE);
    run(
        &mut forgotten,
        &format!(
            "{}; UPDATE account SET balance = 0 WHERE id = 1",
            ring::begin(Hop(1))
        ),
    );
    let mut open =
        PostgresDatabase::new(connect(&server, &database(0))).unwrap_or_else(|e| panic!("{e}"));
    let wishes = std::collections::BTreeSet::new();
    let first = open.pass(Hop(1), &wishes);
    assert!(matches!(first, Err(Trouble::Aborted(_))), "{first:?}");
    let token = open
        .pass(Hop(1), &wishes)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(token.map(|token| token.updates.len()), Ok(0));
    assert!(forgotten.batch_execute("COMMIT").is_err());
}

#[test]
fn an_operation_that_waited_for_the_lock_sees_that_its_hold_is_over() {
    let server = start();
    // Something else holds the lock while the operation begins and the hold is closed.
    let mut locked = connect(&server, &database(0));
    run(
        &mut locked,
        "BEGIN; LOCK TABLE anabranch.fence IN EXCLUSIVE MODE",
    );
    std::thread::scope(|scope| {
        let operation = scope.spawn(|| {
            let mut client = connect(&server, &database(0));
            run(&mut client, ring::PREPARE);
            let begun = client.batch_execute(&ring::begin(Hop(1)));
            begun.map_err(|error| explain(&error))
        });
        let waits = "SELECT count(*) FROM pg_locks WHERE relation = 'anabranch.fence'::regclass AND NOT granted";
        let mut watch = connect(&server, &database(0));
        while watch
            .query_one(waits, &[])
            .expect("it answers")
            .get::<_, i64>(0)
            == 0
        {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        run(
            &mut locked,
            "UPDATE anabranch.hold SET passed = received; COMMIT",
        );
        let begun = operation.join().expect("no panic");
        let text = begun.expect_err("refused");
        assert!(text.contains("hop 1 is not held here"), "{text}");
    });
}
