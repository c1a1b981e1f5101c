//! `analyze` over a live PostgreSQL: the report equals that of the files that made the database, nothing is changed or
//! skipped silently, and no password is printed.

use std::path::Path;
use std::process::Command;

use anabranch_dbms::postgres::{Server, Settings};
use serde_json::Value;

struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn anabranch(arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = command
        .args(arguments)
        .current_dir(folder)
        .env_remove("PGPASSWORD")
        .env_remove("PGSSLMODE")
        .output()
        .expect("the command starts");
    Ran {
        code: output.status.code().expect("it is not killed"),
        out: String::from_utf8(output.stdout).expect("it prints text"),
        err: String::from_utf8(output.stderr).expect("it prints text"),
    }
}

fn server(settings: Settings) -> Server {
    Server::start(settings).unwrap_or_else(|error| panic!("{error}"))
}

/// A database that the files of an example made.
fn filled(server: &Server, name: &str, files: &[&str]) -> String {
    let mut client = server.connect().unwrap_or_else(|error| panic!("{error}"));
    let created = client.batch_execute(&format!("CREATE DATABASE {name}"));
    created.expect("a database can be made");
    let mut client = server
        .connect_to(name)
        .unwrap_or_else(|error| panic!("{error}"));
    for file in files {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(file);
        let text = std::fs::read_to_string(path).expect("examples can be read");
        client.batch_execute(&text).expect("PostgreSQL takes them");
    }
    server.address(name)
}

/// A copy of a file without what its comments tell the analyser: a database keeps no comments above routines.
fn undirected(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(file);
    let text = std::fs::read_to_string(path).expect("examples can be read");
    let kept = text
        .lines()
        .filter(|line| !line.starts_with("-- anabranch: "));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("undirected");
    std::fs::create_dir_all(&folder).expect("a scratch folder can be made");
    let copy = folder.join(file.replace('/', "-"));
    std::fs::write(&copy, kept.collect::<Vec<_>>().join("\n")).expect("it can be written");
    copy.to_str().expect("it is text").to_owned()
}

fn json(arguments: &[&str]) -> Value {
    let begun = ["analyze", "--format", "json", "--no-counterexamples"];
    let all = [&begun[..], arguments].concat();
    let ran = anabranch(&all);
    assert!(ran.code < 2, "{arguments:?}: {}", ran.err);
    serde_json::from_str(&ran.out).expect("it prints JSON")
}

/// The verdicts of each transaction type and each invariant, in the order of their names.
fn verdicts(report: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for transaction in report["transactions"].as_array().expect("there are some") {
        let text = |key: &str| transaction[key].to_string();
        found.push(format!(
            "{} {} {}",
            text("name"),
            text("class"),
            text("routing")
        ));
        for verdict in transaction["verdicts"].as_array().expect("there are some") {
            found.push(format!(
                "{} {} {} {}",
                text("name"),
                verdict["invariant"],
                verdict["confluent"],
                verdict["rule"]
            ));
        }
    }
    found.sort();
    found
}

#[test]
fn a_database_is_judged_as_the_files_that_made_it() {
    let server = server(Settings::default());
    let cases: [(&str, &[&str]); 3] = [
        (
            "payroll",
            &["--invariants", "examples/payroll/assertions.sql"],
        ),
        ("tpcc", &["--invariants", "examples/tpcc/assertions.sql"]),
        ("smallbank", &[]),
    ];
    for (name, more) in cases {
        let files = ["schema.sql", "procedures.sql"].map(|file| format!("examples/{name}/{file}"));
        let files = files.each_ref().map(String::as_str);
        let address = filled(&server, name, &files);
        let plain = files.map(undirected);
        let plain = plain.each_ref().map(String::as_str);
        let of_files = json(&[&plain[..], more].concat());
        let live = json(&[&[address.as_str()][..], more].concat());
        assert_eq!(verdicts(&live), verdicts(&of_files), "{name}");
        // The only note is that pg_stat_statements is missing.
        let skipped = live["skipped"].as_array().expect("it is told");
        assert_eq!(skipped.len(), 1, "{name}: {skipped:#?}");
        assert!(
            skipped[0]["message"]
                .to_string()
                .contains("pg_stat_statements")
        );
    }
}

#[test]
fn unsupported_objects_of_a_database_are_reported_and_make_nothing_safe() {
    let server = server(Settings::default());
    let address = filled(&server, "odd", &[]);
    let mut client = server.connect_to("odd").expect("it lets in");
    client
        .batch_execute(
            "CREATE TYPE mood AS ENUM ('sad', 'glad', 'angry');
             CREATE DOMAIN amount AS integer DEFAULT 0 CHECK (VALUE >= 0) NOT NULL;
             CREATE TABLE t (id bigserial PRIMARY KEY, m mood NOT NULL DEFAULT 'sad', n amount, \"Odd\" text);
             CREATE TABLE logged (id bigint PRIMARY KEY, n integer);
             CREATE TABLE log (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n integer);
             CREATE TABLE booking (room integer, during int4range, EXCLUDE USING gist (during WITH &&));
             CREATE TABLE slot (a integer, b integer, PRIMARY KEY (a), EXCLUDE USING btree (b WITH =));
             CREATE TABLE own (id bigint PRIMARY KEY, who text);
             ALTER TABLE own ENABLE ROW LEVEL SECURITY;
             CREATE POLICY mine ON own USING (who = current_user);
             CREATE SEQUENCE round CYCLE;
             CREATE TABLE rounds (id bigint PRIMARY KEY DEFAULT nextval('round'));
             CREATE TABLE measured (id bigint, at date NOT NULL, v integer CHECK (v >= 0), PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
             CREATE INDEX ON measured (v);
             CREATE TABLE measured_1 PARTITION OF measured FOR VALUES FROM ('2024-01-01') TO ('2025-01-01') PARTITION BY HASH (id);
             CREATE TABLE measured_1_1 PARTITION OF measured_1 FOR VALUES WITH (MODULUS 1, REMAINDER 0);
             CREATE PROCEDURE measure(p_id bigint, p_v integer) LANGUAGE sql
             BEGIN ATOMIC INSERT INTO measured VALUES (p_id, current_date, p_v); END;
             CREATE VIEW glad AS SELECT id, n FROM t WHERE m = 'glad'::mood;
             CREATE MATERIALIZED VIEW many AS SELECT count(*) AS c FROM t;
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO log (n) VALUES (NEW.n); RETURN NEW; END $$;
             CREATE TRIGGER noted AFTER UPDATE ON logged FOR EACH ROW EXECUTE FUNCTION note();
             CREATE PROCEDURE feel(p_id bigint, p_m mood) LANGUAGE sql
             BEGIN ATOMIC UPDATE t SET m = p_m WHERE id = p_id; END;
             CREATE PROCEDURE set_logged(p_id bigint) LANGUAGE sql
             BEGIN ATOMIC UPDATE logged SET n = 1 WHERE id = p_id; END;
             CREATE PROCEDURE mine_is(p_id bigint) LANGUAGE sql BEGIN ATOMIC SELECT who FROM own WHERE id = p_id; END;
             CREATE PROCEDURE free_slot(p_a integer) LANGUAGE sql BEGIN ATOMIC INSERT INTO slot VALUES (p_a, p_a); END;
             CREATE FUNCTION raw(integer) RETURNS integer LANGUAGE internal AS 'int4abs';
             CREATE AGGREGATE total(integer) (sfunc = int4pl, stype = integer);
             CREATE SCHEMA other; CREATE TABLE other.t (id integer);",
        )
        .expect("PostgreSQL takes it");
    let report = json(&[&address]);
    let told: Vec<String> = report["skipped"]
        .as_array()
        .expect("it is told")
        .iter()
        .map(|left| {
            format!(
                "{}: {} So {}",
                left["file"], left["message"], left["meaning"]
            )
        })
        .collect();
    let told = told.join("\n");
    for words in [
        "constraint booking_during_excl of public.booking",
        "constraint slot_b_excl of public.slot",
        "table public.rounds",
        "policy mine",
        "trigger noted",
        "routine public.raw(integer)",
        "schema \\\"other\\\" is not read, with 1 tables",
        "1 aggregates",
    ] {
        assert!(told.contains(words), "{words}:\n{told}");
    }
    for words in [
        "table public.t\"",
        "view public.glad",
        "view public.many",
        "feel",
        "measure",
    ] {
        assert!(!told.contains(words), "{words}:\n{told}");
    }
    let class = |name: &str| {
        let transactions = report["transactions"].as_array().expect("there are some");
        let found = transactions.iter().find(|t| t["name"] == name);
        found.unwrap_or_else(|| panic!("{name}"))["class"].clone()
    };
    // It is analysed, beside others that may change any table.
    assert_ne!(class("feel"), "global");
    // A trigger, a policy, and a body that is not SQL.
    for name in ["set_logged", "mine_is", "raw"] {
        assert_eq!(class(name), "global", "{name}");
    }
    let invariants = report["invariants"].to_string();
    for words in ["\"sad\"", "'sad', 'glad', 'angry'", "n >= 0"] {
        let words = words.trim_matches('"');
        assert!(invariants.contains(words), "{words}: {invariants}");
    }
}

#[test]
fn statements_of_clients_are_transaction_types_weighted_by_calls() {
    let server = server(Settings {
        preloaded: "pg_stat_statements",
        ..Settings::default()
    });
    let address = filled(
        &server,
        "shop",
        &[
            "examples/payroll/schema.sql",
            "examples/payroll/procedures.sql",
        ],
    );
    let mut client = server.connect_to("shop").expect("it lets in");
    let run = |client: &mut postgres::Client, text: &str| {
        client
            .batch_execute(text)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    };
    run(&mut client, "CREATE EXTENSION pg_stat_statements");
    for n in 0..7 {
        run(
            &mut client,
            &format!("UPDATE employees SET salary = salary + {n} WHERE last_name = 'n{n}'"),
        );
    }
    run(
        &mut client,
        "-- name: ListAll :many\nSELECT id FROM employees ORDER BY id",
    );
    run(
        &mut client,
        "SELECT last_name FROM employees WHERE salary IN (1, 2, 3)",
    );
    for _ in 0..3 {
        run(&mut client, "SELECT open_department('x')");
        run(&mut client, "DELETE FROM departments");
    }
    run(&mut client, "SELECT relname FROM pg_class LIMIT 1");
    run(&mut client, "TRUNCATE employees");
    run(&mut client, "SET search_path = public");
    let report = json(&[&address, "--guarantee", "serializable"]);
    let names: Vec<&str> = report["transactions"]
        .as_array()
        .expect("there are some")
        .iter()
        .filter_map(|t| t["name"].as_str())
        .collect();
    for name in [
        "update_employees",
        "ListAll",
        "select_employees",
        "delete_departments",
        "truncate_employees",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("pg_")), "{names:?}");
    let weight = |name: &str| {
        let operations = report["partitioning"]["types"].as_array();
        let operations = operations.unwrap_or_else(|| panic!("{}", report["partitioning"]));
        let found = operations.iter().find(|o| o["transaction"] == name);
        found.unwrap_or_else(|| panic!("{name}"))["weight"].as_u64()
    };
    assert_eq!(weight("update_employees"), Some(7));
    assert_eq!(weight("open_department"), Some(3));
    assert_eq!(weight("ListAll"), Some(1));
    let told = report["skipped"].to_string();
    for words in [
        "which statements run in one transaction",
        "are utility statements",
        "system's catalogs",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    // The reader could not write.
    let begun = "SELECT count(*) FROM pg_stat_statements WHERE query ILIKE $1";
    for text in [
        "START TRANSACTION%REPEATABLE READ%READ ONLY%",
        "SET default_transaction_read_only%",
    ] {
        let count = client.query_one(begun, &[&text]).expect("it answers");
        assert_eq!(count.get::<_, i64>(0), 1, "{text}");
    }
    // The same weights from an exported file.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live-postgres");
    std::fs::create_dir_all(&folder).expect("a scratch folder can be made");
    let (queries, calls) = (folder.join("queries.sql"), folder.join("calls.csv"));
    std::fs::write(
        &queries,
        "-- name: Raise :exec\nUPDATE employees SET salary = salary + $1 WHERE last_name = $2;\n",
    )
    .expect("it can be written");
    let rows = client
        .query("SELECT query, calls FROM pg_stat_statements", &[])
        .expect("it answers");
    let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let rows = rows
        .iter()
        .map(|row| format!("{},{}\n", quote(row.get(0)), row.get::<_, i64>(1)));
    std::fs::write(&calls, format!("query,calls\n{}", rows.collect::<String>()))
        .expect("it can be written");
    let path = |path: &Path| path.to_str().expect("it is text").to_owned();
    let report = json(&[
        "examples/payroll/schema.sql",
        "examples/payroll/procedures.sql",
        &path(&queries),
        "--invariants",
        "examples/payroll/assertions.sql",
        "--guarantee",
        "serializable",
        "--weights",
        &path(&calls),
    ]);
    let operations = report["partitioning"]["types"]
        .as_array()
        .expect("it is there");
    let weight = |name: &str| {
        operations
            .iter()
            .find(|o| o["transaction"] == name)
            .expect("it is there")["weight"]
            .as_u64()
    };
    assert_eq!(
        (weight("Raise"), weight("open_department")),
        (Some(7), Some(3))
    );
}

#[test]
fn nothing_is_written_and_no_password_is_shown() {
    let server = server(Settings::default());
    let address = filled(
        &server,
        "kept",
        &[
            "examples/payroll/schema.sql",
            "examples/payroll/procedures.sql",
        ],
    );
    let mut client = server.connect_to("kept").expect("it lets in");
    // The reader must not run code of the database.
    client
        .batch_execute(
            "CREATE TABLE ran (n integer);
             CREATE FUNCTION spy() RETURNS boolean LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO ran VALUES (1); RETURN true; END $$;
             CREATE TABLE trap (id integer PRIMARY KEY, CHECK (spy()));
             CREATE FUNCTION public.quote_ident(name) RETURNS text LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO ran VALUES (2); RETURN 'x'; END $$;",
        )
        .expect("PostgreSQL takes it");
    let with_password = address.replace("anabranch@", "anabranch:sesame@");
    let ran = anabranch(&["analyze", &with_password]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(!ran.out.contains("sesame"), "{}", ran.out);
    assert!(
        ran.out.contains("anabranch replay ") && ran.out.contains("postgresql://anabranch@%2F"),
        "{}",
        ran.out
    );
    let count = client
        .query_one("SELECT count(*) FROM ran", &[])
        .expect("it answers");
    assert_eq!(count.get::<_, i64>(0), 0);

    let nowhere = with_password.replace("/kept", "/nowhere");
    let demanding = format!("{with_password}?sslmode=verify-full");
    let cases: [(&str, &[&str]); 4] = [
        (&nowhere, &["3D000", "psql -l"]),
        (&demanding, &["verify-full", "sslrootcert"]),
        (
            "postgresql://u:sesame@127.0.0.1:1/d",
            &["cannot connect", "check that the server runs"],
        ),
        (
            "postgresql://u:sesame@h:x/d",
            &["postgresql://user@host:port/database"],
        ),
    ];
    for (address, words) in cases {
        let ran = anabranch(&["analyze", address]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert!(!ran.err.contains("sesame"), "{}", ran.err);
        for word in words {
            assert!(ran.err.contains(word), "{word}: {}", ran.err);
        }
    }
}
