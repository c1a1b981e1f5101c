//! Scripts of two sessions, as `replay --write-sessions` writes them, run by an unmodified PostgreSQL in READ
//! COMMITTED: what a script says that PostgreSQL shows, waits for or refuses is what happens.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use anabranch_dbms::postgres::{Server, Settings};
use postgres::{Client, SimpleQueryMessage};

/// How long a statement that waits is given to end all the same.
const WAITS: Duration = Duration::from_millis(400);

/// How long any other statement may take.
const LONGEST: Duration = Duration::from_secs(30);

/// A step of a script.
#[derive(Clone, Debug, Default)]
struct ScriptStep {
    /// 0 for the setup and the checks.
    session: usize,
    waits: bool,
    is_refused: bool,
    sql: String,
    returns: Option<String>,
    seen: Option<String>,
    in_order: BTreeMap<usize, String>,
}

/// A counterexample in a script.
#[derive(Clone, Debug, Default)]
struct Part {
    id: String,
    verdict: String,
    steps: Vec<ScriptStep>,
}

/// The parts of a script.
fn parts(script: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for line in script.lines() {
        if let Some(id) = line.strip_prefix("-- == ") {
            if id != "end" {
                parts.push(Part {
                    id: id.to_owned(),
                    ..Part::default()
                });
            }
            continue;
        }
        let Some(part) = parts.last_mut() else {
            continue;
        };
        if let Some(rest) = line.strip_prefix("-- PostgreSQL: ") {
            part.verdict = rest.split(':').next().unwrap_or_default().to_owned();
        } else if line == "-- setup" || line == "-- check" {
            part.steps.push(ScriptStep::default());
        } else if let Some(rest) = line.strip_prefix("-- step ") {
            let session = rest.split("session ").nth(1).expect("it names the session");
            part.steps.push(ScriptStep {
                session: session[..1].parse().expect("1 or 2"),
                waits: rest.contains("(it waits"),
                is_refused: rest.contains("(it is refused)"),
                ..ScriptStep::default()
            });
        } else if let Some(step) = part.steps.last_mut() {
            if let Some(rows) = line.strip_prefix("--   returns: ") {
                step.returns = Some(rows.to_owned());
            } else if let Some(rows) = line.strip_prefix("--   seen: ") {
                step.seen = Some(rows.to_owned());
            } else if let Some(rest) = line.strip_prefix("--   with session ") {
                let (session, rows) = rest.split_once(" first: ").expect("an order");
                let session = session.parse().expect("1 or 2");
                step.in_order.insert(session, rows.to_owned());
            } else if !line.starts_with("--") && !line.trim().is_empty() {
                step.sql += line;
                step.sql.push('\n');
            }
        }
    }
    parts
}

/// The rows of a statement as scripts write them, sorted; or the SQLSTATE of its error.
fn rows(result: Result<Vec<SimpleQueryMessage>, postgres::Error>) -> Result<Vec<String>, String> {
    let messages = result.map_err(|error| {
        let code = error.code().map(|code| code.code().to_owned());
        code.unwrap_or_else(|| error.to_string())
    })?;
    let mut found = Vec::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            let values = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned());
            found.push(format!("({})", values.collect::<Vec<_>>().join(", ")));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The rows that a script lists, sorted.
fn listed(text: &str) -> Vec<String> {
    if text == "no row" {
        return Vec::new();
    }
    let inner = text.trim_start_matches('(').trim_end_matches(')');
    let mut rows: Vec<String> = inner.split(") (").map(|row| format!("({row})")).collect();
    rows.sort_unstable();
    rows
}

type Answer = Result<Vec<String>, String>;

/// A session: statements go in, results come out.
struct Session {
    statements: mpsc::Sender<String>,
    results: mpsc::Receiver<Answer>,
}

impl Session {
    fn new(mut client: Client) -> Session {
        let (statements, asked) = mpsc::channel::<String>();
        let (answer, results) = mpsc::channel();
        std::thread::spawn(move || {
            for sql in asked {
                if answer.send(rows(client.simple_query(&sql))).is_err() {
                    return;
                }
            }
        });
        Session {
            statements,
            results,
        }
    }
}

/// What a part did.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Whether some rows or some results are those of no serial order.
    orders_left: Vec<usize>,
}

/// Runs a part in a database, and checks each of its statements about PostgreSQL.
fn run(part: &Part, mut connect: impl FnMut() -> Client) -> Seen {
    let told = format!("{}: {part:#?}", part.id);
    let is_certain = part.verdict != "not decided";
    let mut own = connect();
    let sessions = [0, 1].map(|_| Session::new(connect()));
    let mut orders_left = vec![1, 2];
    let mut pending: Option<&ScriptStep> = None;
    let check = |step: &ScriptStep, answer: &Answer, orders: &mut Vec<usize>| {
        if !is_certain {
            return;
        }
        assert_eq!(
            answer.is_err(),
            step.is_refused,
            "{step:?} {answer:?}: {told}"
        );
        let Ok(rows) = answer else {
            return;
        };
        let expected = step.returns.as_ref().or(step.seen.as_ref());
        if let Some(expected) = expected.filter(|text| !text.contains('…')) {
            assert_eq!(*rows, listed(expected), "{step:?}: {told}");
        }
        for (session, there) in &step.in_order {
            if listed(there) != *rows {
                orders.retain(|order| order != session);
            }
        }
    };
    for step in &part.steps {
        let Some(place) = step.session.checked_sub(1) else {
            let answer = rows(own.simple_query(&step.sql));
            assert!(answer.is_ok(), "{step:?} {answer:?}: {told}");
            if step.sql.trim_start().starts_with("SELECT") {
                check(step, &answer, &mut orders_left);
            }
            continue;
        };
        let session = &sessions[place];
        // An uncertain script may wait where it does not say so.
        session.statements.send(step.sql.clone()).expect("it runs");
        if step.waits {
            let early = session.results.recv_timeout(WAITS);
            match early {
                Err(_) => pending = Some(step),
                Ok(answer) => {
                    assert!(
                        !is_certain,
                        "{step:?} did not wait but gave {answer:?}: {told}"
                    );
                }
            }
            continue;
        }
        let answer = session.results.recv_timeout(LONGEST);
        let answer = answer.unwrap_or_else(|_| panic!("{step:?} waits: {told}"));
        check(step, &answer, &mut orders_left);
        if place == 0
            && let Some(waiting) = pending.take_if(|_| step.sql.trim() == "COMMIT;")
        {
            let answer = sessions[1].results.recv_timeout(LONGEST);
            let answer = answer.expect("it ends when session 1 commits");
            check(waiting, &answer, &mut orders_left);
        }
    }
    assert!(pending.is_none(), "{told}");
    Seen { orders_left }
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("live-sessions")
        .join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a scratch folder can be made");
    folder
}

/// The script of an application.
fn script(folder: &Path, paths: &[&str]) -> Vec<Part> {
    let file = folder.join("sessions.sql");
    let output = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .arg("replay")
        .args(paths)
        .args(["--interleavings", "1", "--write-sessions"])
        .arg(&file)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .expect("the command starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let code = output.status.code();
    assert!(
        code == Some(0),
        "{paths:?}: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    parts(&std::fs::read_to_string(&file).expect("it was written"))
}

/// An application as people write them.
struct Case {
    name: &'static str,
    schema: &'static str,
    file: (&'static str, &'static str),
    /// The verdict on each counterexample of isolation, in order.
    verdicts: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        name: "request",
        schema: "CREATE TABLE purse (id bigint PRIMARY KEY, cents bigint NOT NULL);
CREATE TABLE request (token text NOT NULL, reply text NOT NULL);",
        file: (
            "pay.py",
            "def pay(conn, token, purse, cents):
    with conn.transaction():
        seen = conn.execute(\"SELECT reply FROM request WHERE token = %s\", (token,)).fetchone()
        if seen:
            return seen[0]
        conn.execute(\"UPDATE purse SET cents = cents - %s WHERE id = %s\", (cents, purse))
        conn.execute(\"INSERT INTO request (token, reply) VALUES (%s, %s)\", (token, \"paid\"))
        return \"paid\"
",
        ),
        verdicts: &["permitted"],
    },
    Case {
        name: "overlap",
        schema: "CREATE TABLE boat (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE rental (id bigserial PRIMARY KEY, boat_id int NOT NULL REFERENCES boat(id), from_at timestamptz NOT NULL, to_at timestamptz NOT NULL, CHECK (from_at < to_at));",
        file: (
            "rent.js",
            "const { Pool } = require('pg');
const pool = new Pool();
async function rent(boat, from, to) {
  const c = await pool.connect();
  try {
    await c.query('BEGIN');
    const clash = await c.query('SELECT 1 FROM rental WHERE boat_id = $1 AND from_at < $3 AND to_at > $2 LIMIT 1', [boat, from, to]);
    if (clash.rows.length > 0) throw new Error('taken');
    await c.query('INSERT INTO rental (boat_id, from_at, to_at) VALUES ($1, $2, $3)', [boat, from, to]);
    await c.query('COMMIT');
  } catch (e) { await c.query('ROLLBACK'); throw e; } finally { c.release(); }
}
module.exports = { rent };
",
        ),
        verdicts: &["permitted"],
    },
    Case {
        name: "coupon",
        schema: "CREATE TABLE coupon (id integer PRIMARY KEY, uses integer NOT NULL);",
        file: (
            "redeem.sql",
            "CREATE PROCEDURE redeem(p integer) LANGUAGE plpgsql AS $$ DECLARE n integer; BEGIN
    SELECT uses INTO STRICT n FROM coupon WHERE id = p;
    UPDATE coupon SET uses = n + 1 WHERE id = p;
END $$;",
        ),
        verdicts: &["permitted"],
    },
    Case {
        name: "locked",
        schema: "CREATE TABLE coupon (id integer PRIMARY KEY, uses integer NOT NULL);",
        file: (
            "redeem.sql",
            "CREATE PROCEDURE redeem(p integer) LANGUAGE plpgsql AS $$ DECLARE n integer; BEGIN
    SELECT uses INTO STRICT n FROM coupon WHERE id = p FOR UPDATE;
    UPDATE coupon SET uses = n + 1 WHERE id = p;
END $$;",
        ),
        verdicts: &["prevented"],
    },
    Case {
        name: "claim",
        schema: "CREATE TABLE job (id integer PRIMARY KEY, owner integer);",
        file: (
            "claim.sql",
            "CREATE FUNCTION claim(p integer, w integer) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    UPDATE job SET owner = w WHERE id = p AND owner IS NULL;
    RETURN FOUND;
END $$;",
        ),
        verdicts: &["prevented"],
    },
    Case {
        name: "shared",
        schema: "CREATE TABLE coupon (id integer PRIMARY KEY, uses integer NOT NULL);",
        file: (
            "redeem.sql",
            "CREATE PROCEDURE redeem(p integer) LANGUAGE plpgsql AS $$ DECLARE n integer; BEGIN
    SELECT uses INTO STRICT n FROM coupon WHERE id = p FOR SHARE;
    UPDATE coupon SET uses = n + 1 WHERE id = p;
END $$;",
        ),
        verdicts: &["prevented"],
    },
    Case {
        name: "key_share",
        schema: "CREATE TABLE coupon (id integer PRIMARY KEY, uses integer NOT NULL);",
        file: (
            "redeem.sql",
            "CREATE PROCEDURE redeem(p integer) LANGUAGE plpgsql AS $$ DECLARE n integer; BEGIN
    SELECT uses INTO STRICT n FROM coupon WHERE id = p FOR KEY SHARE;
    UPDATE coupon SET uses = n + 1 WHERE id = p;
END $$;",
        ),
        verdicts: &["permitted"],
    },
    // Neither a comment, nor a constant, nor the next statement locks what a query reads.
    Case {
        name: "unlocked",
        schema: "CREATE TABLE coupon (id integer PRIMARY KEY, uses integer NOT NULL);",
        file: (
            "redeem.sql",
            "CREATE PROCEDURE redeem(p integer) LANGUAGE plpgsql AS $$ DECLARE n integer; BEGIN
    SELECT uses INTO STRICT n FROM coupon WHERE id = p -- not for update
        AND 'for update' <> '';
    UPDATE coupon SET uses = n + 1 WHERE id = p;
END $$;",
        ),
        verdicts: &["permitted"],
    },
    Case {
        name: "locked_too_late",
        schema: "CREATE TABLE coupon (id integer PRIMARY KEY, uses integer NOT NULL);",
        file: (
            "redeem.sql",
            "CREATE PROCEDURE redeem(p integer) LANGUAGE plpgsql AS $$ BEGIN
    IF (SELECT uses FROM coupon WHERE id = p) < 1 THEN
        PERFORM 1 FROM coupon WHERE id = p FOR UPDATE;
        UPDATE coupon SET uses = uses + 1 WHERE id = p;
    END IF;
END $$;",
        ),
        verdicts: &["not decided"],
    },
    Case {
        name: "skip_locked",
        schema: "CREATE TABLE coupon (id integer PRIMARY KEY, uses integer NOT NULL);",
        file: (
            "redeem.sql",
            "CREATE PROCEDURE redeem(p integer) LANGUAGE plpgsql AS $$ DECLARE n integer; BEGIN
    SELECT uses INTO n FROM coupon WHERE id = p FOR UPDATE SKIP LOCKED;
    IF FOUND THEN UPDATE coupon SET uses = n + 1 WHERE id = p; END IF;
END $$;",
        ),
        verdicts: &["not decided"],
    },
    // The row that a new one refers to is locked: `FOR UPDATE` of it waits, an UPDATE of it does not.
    Case {
        name: "referred",
        schema: "CREATE TABLE event (id integer PRIMARY KEY, seats integer NOT NULL);
CREATE TABLE booking (id bigint PRIMARY KEY, event_id integer NOT NULL REFERENCES event (id));",
        file: (
            "book.sql",
            "CREATE PROCEDURE book(b bigint, e integer) LANGUAGE plpgsql AS $$ DECLARE n bigint; most integer; BEGIN
    SELECT seats INTO STRICT most FROM event WHERE id = e FOR UPDATE;
    SELECT count(*) INTO n FROM booking WHERE event_id = e;
    IF n >= most THEN RAISE EXCEPTION 'full'; END IF;
    INSERT INTO booking (id, event_id) VALUES (b, e);
END $$;",
        ),
        verdicts: &["prevented"],
    },
    Case {
        name: "numbered",
        schema: "CREATE SEQUENCE ticket_numbers;
CREATE TABLE event (id integer PRIMARY KEY, seats integer NOT NULL);
CREATE TABLE ticket (id bigint PRIMARY KEY DEFAULT nextval('ticket_numbers'), event_id integer NOT NULL REFERENCES event (id));",
        file: (
            "sell.sql",
            "CREATE PROCEDURE sell(e integer) LANGUAGE plpgsql AS $$ DECLARE n bigint; most integer; BEGIN
    SELECT seats INTO STRICT most FROM event WHERE id = e;
    SELECT count(*) INTO n FROM ticket WHERE event_id = e;
    IF n >= most THEN RAISE EXCEPTION 'full'; END IF;
    INSERT INTO ticket (event_id) VALUES (e);
END $$;",
        ),
        verdicts: &["permitted"],
    },
    Case {
        name: "on_call",
        schema: "CREATE TABLE doctor (id integer PRIMARY KEY, shift integer NOT NULL, on_call boolean NOT NULL);",
        file: (
            "leave.sql",
            "CREATE PROCEDURE leave(p integer, s integer) LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN
    SELECT count(*) INTO n FROM doctor WHERE shift = s AND on_call;
    IF n < 2 THEN RAISE EXCEPTION 'the last one'; END IF;
    UPDATE doctor SET on_call = false WHERE id = p AND shift = s;
END $$;",
        ),
        verdicts: &["permitted"],
    },
];

#[test]
fn sessions_do_on_postgresql_what_their_script_says() {
    let server = Server::start(Settings::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut databases = 0;
    let mut verdicts: BTreeMap<String, u32> = BTreeMap::new();
    let mut run_all = |parts: &[Part], schema: &[String]| {
        for part in parts {
            databases += 1;
            let name = format!("sessions_{databases}");
            let mut client = server.connect().unwrap_or_else(|error| panic!("{error}"));
            let created = client.batch_execute(&format!("CREATE DATABASE {name}"));
            created.expect("a database can be made");
            let connect = || {
                let client = server.connect_to(&name);
                let mut client = client.unwrap_or_else(|error| panic!("{error}"));
                // Scripts write times in UTC.
                let set = client.batch_execute("SET timezone TO 'UTC'");
                set.expect("a setting can be changed");
                client
            };
            for text in schema {
                connect().batch_execute(text).expect("PostgreSQL takes it");
            }
            let seen = run(part, connect);
            match part.verdict.as_str() {
                "permitted" => assert!(
                    seen.orders_left.is_empty(),
                    "an order shows this: {part:#?}"
                ),
                "prevented" => assert!(
                    !seen.orders_left.is_empty(),
                    "no order shows this: {part:#?}"
                ),
                other => assert_eq!(other, "not decided"),
            }
            *verdicts.entry(part.verdict.clone()).or_default() += 1;
        }
    };
    for case in CASES {
        let folder = folder(case.name);
        let (file, text) = case.file;
        std::fs::write(folder.join("schema.sql"), case.schema).expect("it can be written");
        std::fs::write(folder.join(file), text).expect("it can be written");
        let path = folder.to_str().expect("it is text");
        let parts = script(&folder, &[path]);
        let told: Vec<&str> = parts.iter().map(|part| part.verdict.as_str()).collect();
        assert_eq!(told, case.verdicts, "{}: {parts:#?}", case.name);
        let mut schema = vec![case.schema.to_owned()];
        if file.ends_with(".sql") {
            schema.push(text.to_owned());
        }
        run_all(&parts, &schema);
    }
    for example in ["smallbank", "payroll"] {
        let folder = folder(example);
        let path = format!("examples/{example}");
        let files = ["schema.sql", "procedures.sql"].map(|file| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            std::fs::read_to_string(root.join(&path).join(file)).expect("examples can be read")
        });
        let parts = script(&folder, &[&path]);
        assert!(!parts.is_empty(), "{example}");
        run_all(&parts, &files);
    }
    for verdict in ["permitted", "prevented"] {
        assert!(
            verdicts.get(verdict).is_some_and(|n| *n > 1),
            "{verdicts:?}"
        );
    }
}
