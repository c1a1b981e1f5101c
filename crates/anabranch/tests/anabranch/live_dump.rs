//! `anabranch dump`: what it writes is loaded by an unmodified PostgreSQL, and has the same rows there.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anabranch_dbms::postgres::{Server, Settings};
use postgres::{Client, NoTls, SimpleQueryMessage};

const APPLICATION: &str = r#"
CREATE SEQUENCE tickets START WITH 1000;
CREATE TABLE parents ("Id" serial PRIMARY KEY, name text UNIQUE, "a ""b""" numeric(10, 2));
CREATE TABLE children (
    id bigint DEFAULT nextval('tickets') PRIMARY KEY,
    parent integer NOT NULL REFERENCES parents ("Id") ON DELETE CASCADE,
    at timestamptz, day date, bytes bytea, flags boolean[], names text[], uid uuid, ratio double precision,
    CHECK (parent > 0));
CREATE INDEX children_parent ON children (parent);
CREATE TABLE notes (body text);
CREATE TABLE numbered (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body varchar(20));
CREATE VIEW named AS SELECT name FROM parents;
CREATE VIEW later AS SELECT name FROM parents WHERE name IS NOT NULL;
CREATE OR REPLACE VIEW named AS SELECT p.name FROM parents AS p LEFT JOIN later AS l ON l.name = p.name;
CREATE TABLE c (b_c serial PRIMARY KEY, body text);
CREATE TABLE c_b (c serial PRIMARY KEY, body text);
CREATE ASSERTION few CHECK ((SELECT count(*) FROM notes) < 100);
CREATE FUNCTION add_note(p text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO notes VALUES (p); END $$;
"#;

const ROWS: &str = r#"
INSERT INTO parents (name, "a ""b""") VALUES ('one', 1.50), (NULL, NULL), (E'tab\tback\\slash\nline', -2);
INSERT INTO children (parent, at, day, bytes, flags, names, uid, ratio)
    VALUES (1, '2024-02-29 12:00:00.123456+02', '0001-01-01', '\x00ff5c', '{t,NULL,f}', '{"a b",NULL,"\\"}',
            'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'NaN'), (3, NULL, NULL, NULL, NULL, NULL, NULL, 0.1);
INSERT INTO notes VALUES ('\.'), ('once'), ('once'), ('');
INSERT INTO numbered (body) VALUES ('first'), ('second');
INSERT INTO c (body) VALUES ('a'), ('b');
INSERT INTO c_b (body) VALUES ('a'), ('b'), ('c');
"#;

/// Queries whose rows are the same in the database and where its dump is loaded.
const QUERIES: &[&str] = &[
    r#"SELECT * FROM parents ORDER BY "Id""#,
    "SELECT * FROM children ORDER BY id",
    "SELECT * FROM notes ORDER BY body",
    "SELECT * FROM numbered ORDER BY id",
    "SELECT * FROM named ORDER BY name",
];

/// What is run behind the load: numbers go on, and constraints hold.
const GOES_ON: &[(&str, Option<&str>)] = &[
    ("INSERT INTO parents (name) VALUES ('later')", None),
    ("INSERT INTO children (parent) VALUES (2)", None),
    ("INSERT INTO numbered (body) VALUES ('third')", None),
    ("INSERT INTO c (body) VALUES ('c')", None),
    ("INSERT INTO c_b (body) VALUES ('d')", None),
    ("INSERT INTO children (parent) VALUES (77)", Some("23503")),
    ("INSERT INTO parents (name) VALUES ('one')", Some("23505")),
    ("SELECT add_note('by the function')", None),
];

/// A server of ours.
struct Ours {
    child: Child,
    port: u16,
}

impl Ours {
    fn start(folder: &Path, guarantee: &str) -> Ours {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = socket.local_addr().expect("it is bound").port();
        drop(socket);
        let child = Command::new(env!("CARGO_BIN_EXE_anabranch"))
            .arg("serve")
            .arg("--data")
            .arg(folder.join("data"))
            .args(["--partitions", "2", "--guarantee", guarantee])
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .stdout(Stdio::null())
            .spawn()
            .expect("the command starts");
        Ours { child, port }
    }

    fn connect(&self) -> Client {
        let settings = format!(
            "host=127.0.0.1 port={} user=test dbname=anabranch",
            self.port
        );
        for _ in 0..600 {
            if let Ok(client) = Client::connect(&settings, NoTls) {
                return client;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("no server on port {}", self.port);
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn dump(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .arg("dump")
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn succeeded(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout.clone()).expect("it is UTF-8")
}

fn rows(client: &mut Client, query: &str) -> Vec<Vec<Option<String>>> {
    let answer = client.simple_query(query);
    let answer = answer.unwrap_or_else(|error| panic!("{query}: {error}"));
    let rows = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(
            (0..row.len())
                .map(|at| row.get(at).map(str::to_owned))
                .collect(),
        ),
        _ => None,
    });
    rows.collect()
}

/// Runs a dump as psql does: statements as they come, rows as COPY's data.
fn load(client: &mut Client, text: &str) {
    let mut statements = String::new();
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        if !line.starts_with("COPY ") {
            statements.push_str(line);
            continue;
        }
        let run = client.batch_execute(&statements);
        run.unwrap_or_else(|error| panic!("{error:?}: {statements}"));
        statements.clear();
        let mut rows = client.copy_in(line.trim_end()).expect("COPY begins");
        for row in lines.by_ref().take_while(|row| *row != "\\.\n") {
            std::io::Write::write_all(&mut rows, row.as_bytes()).expect("rows are taken");
        }
        rows.finish().expect("the rows fit");
    }
    let run = client.batch_execute(&statements);
    run.unwrap_or_else(|error| panic!("{error:?}: {statements}"));
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("live-dump")
        .join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a scratch folder can be made");
    folder
}

#[test]
fn postgresql_loads_a_dump_of_a_running_server_and_of_a_folder() {
    let postgres = Server::start(Settings::default()).unwrap_or_else(|error| panic!("{error}"));
    for guarantee in ["serializable", "invariants"] {
        let folder = folder(guarantee);
        let server = Ours::start(&folder, guarantee);
        let address = format!("127.0.0.1:{}", server.port);
        let mut client = server.connect();
        client.batch_execute(APPLICATION).expect("it is declared");
        client.batch_execute(ROWS).expect("rows go in");
        client
            .batch_execute("SET TimeZone = 'UTC'")
            .expect("it is set");
        let text = succeeded(&dump(&["--connect", &address]));
        let expected: Vec<_> = QUERIES
            .iter()
            .map(|query| rows(&mut client, query))
            .collect();

        let mut own = postgres.connect().unwrap_or_else(|error| panic!("{error}"));
        let name = format!("dumped_{guarantee}");
        own.batch_execute(&format!("CREATE DATABASE {name}"))
            .expect("a database can be made");
        let mut loaded = postgres
            .connect_to(&name)
            .unwrap_or_else(|error| panic!("{error}"));
        load(&mut loaded, &text);
        for (query, expected) in QUERIES.iter().zip(&expected) {
            assert_eq!(rows(&mut loaded, query), *expected, "{query}");
        }
        for (statement, code) in GOES_ON {
            let run = loaded.batch_execute(statement);
            let failed = run
                .err()
                .map(|error| error.code().map(|c| c.code().to_owned()));
            assert_eq!(
                failed.map(Option::unwrap_or_default).as_deref(),
                *code,
                "{statement}"
            );
        }

        // The folder of a server that was killed gives the same, once no server uses it.
        let data = folder.join("data");
        let data = data.to_str().expect("it is text");
        let used = dump(&[data]);
        assert_eq!(used.status.code(), Some(2), "a server uses it");
        drop(client);
        drop(server);
        let file = folder.join("dump.sql");
        let to = file.to_str().expect("it is text");
        succeeded(&dump(&[data, "--to", to]));
        let of_folder = std::fs::read_to_string(&file).expect("it was written");
        let without_numbers = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.contains("setval("));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(without_numbers(&of_folder), without_numbers(&text));
        let schema = succeeded(&dump(&[data, "--schema-only"]));
        assert!(
            !schema.contains("\nCOPY ") && schema.contains("CREATE TABLE"),
            "{schema}"
        );
    }
}
