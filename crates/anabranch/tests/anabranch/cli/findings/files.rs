//! SQL files of clients: the transactions in them, and what is skipped.

use serde_json::Value;

use crate::cli::{anabranch, refused, refused_in_one_line, scratch, text};

const SCHEMA: &str = "CREATE TABLE accounts (id bigserial PRIMARY KEY, owner text NOT NULL,
    balance bigint NOT NULL CHECK (balance >= 0));
CREATE TABLE shops (id bigserial PRIMARY KEY, place geometry(Point, 4326)) INHERITS (accounts);
";

const QUERIES: &str = "-- name: CreateAccount :one
INSERT INTO accounts (owner, balance) VALUES ($1, 0) RETURNING *;

-- name: AddMoney :exec
UPDATE accounts SET balance = balance - sqlc.arg(amount) WHERE id = @id;

-- transfer money
BEGIN;
UPDATE accounts SET balance = balance - ? WHERE id = ?;
UPDATE accounts SET balance = balance + ? WHERE id = ?;
COMMIT;

-- name: ShopsNear :many
SELECT * FROM shops WHERE place && ST_MakeEnvelope($1, $2, $3, $4);
";

#[test]
fn files_of_clients_are_read_and_skipped_pieces_reported() {
    let folder = scratch("files-of-findings");
    let schema = scratch("files-schema").join("schema.sql");
    let rules = scratch("files-rules").join("rules.sql");
    std::fs::write(folder.join("query.sql"), QUERIES).unwrap();
    std::fs::write(&schema, SCHEMA).unwrap();
    std::fs::write(
        &rules,
        "-- owners have names\nSELECT * FROM accounts WHERE owner = '';\n",
    )
    .unwrap();
    let asked = [
        "analyze",
        text(&folder),
        "--schema",
        text(&schema),
        "--invariants",
        text(&rules),
    ];
    let ran = anabranch(&asked);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{}", ran.out);
    for told in [
        "○ CreateAccount",
        "◐ AddMoney",
        "CALL \"AddMoney\"(\"@amount\" => ",
        "routed by @id",
        "● transfer_money",
        "○ ShopsNear",
        "owners_have_names",
        "Skipped",
        "schema.sql:3:",
        "shops and its constraints have no verdicts",
        "query.sql:14:",
        "the analysis assumes that ShopsNear may read all of the tables that it names",
    ] {
        assert!(ran.out.contains(told), "{told}: {}", ran.out);
    }
    let json = anabranch(&[&asked[..], &["--format", "json"]].concat());
    let json: Value = serde_json::from_str(&json.out).expect("it is JSON");
    let left = json["skipped"].as_array().expect("a list");
    let of: Vec<&Value> = left.iter().map(|l| &l["transaction"]).collect();
    assert_eq!(of, [&Value::Null, &Value::from("ShopsNear")]);
    let unknown = json["transactions"].as_array().expect("a list");
    let unknown = unknown.iter().filter(|t| t.get("not_analysed").is_some());
    assert_eq!(
        unknown.map(|t| &t["name"]).collect::<Vec<_>>(),
        ["ShopsNear"]
    );
    // Every format reports it.
    let sarif = anabranch(&[&asked[..], &["--format", "sarif"]].concat());
    assert_eq!(sarif.err, "");
    let log: Value = serde_json::from_str(&sarif.out).expect("it is JSON");
    let notes = &log["runs"][0]["invocations"][0]["toolExecutionNotifications"];
    let notes = notes.as_array().expect("notifications");
    assert_eq!(notes.len(), 2, "{notes:#?}");
    let place = &notes[0]["locations"][0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], 3, "{notes:#?}");
    let uri = place["artifactLocation"]["uri"].as_str().expect("a path");
    assert!(uri.ends_with("schema.sql"), "{uri}");
    let said = notes[0]["message"]["text"].as_str().expect("a text");
    assert!(
        said.contains("shops and its constraints have no verdicts"),
        "{said}"
    );
    let github = anabranch(&[&asked[..], &["--format", "github"]].concat()).out;
    let told = github.lines().filter(|line| line.contains("title=skipped"));
    let told: Vec<&str> = told.collect();
    assert!(
        told.len() == 2 && told[0].contains("schema.sql,line=3,col="),
        "{github}"
    );
    let page = anabranch(&[&asked[..], &["--format", "html"]].concat()).out;
    for told in ["<h2>Skipped</h2>", "ShopsNear may read"] {
        assert!(page.contains(told), "{told}");
    }
}

#[test]
fn errors_in_declarations_are_skipped_or_refused_with_strict() {
    let file = scratch("leave-out").join("application.sql");
    let wrong = "CREATE PROCEDURE wipe() LANGUAGE SQL BEGIN ATOMIC DELETE FROM accounts WHERE nosuch = 1; END;\n";
    let sql = SCHEMA.replace("place geometry(Point, 4326)", "place text") + wrong;
    std::fs::write(&file, sql).unwrap();
    refused(
        &["analyze", "--strict", text(&file)],
        &["column \"nosuch\" does not exist"],
    );
    let ran = anabranch(&["analyze", text(&file)]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{}", ran.out);
    for told in [
        "Not analysed\n",
        "column \"nosuch\" does not exist (1)\n      wipe\n",
        "Skipped",
    ] {
        assert!(ran.out.contains(told), "{told}: {}", ran.out);
    }
}

#[test]
fn binary_long_and_empty_files_are_refused() {
    let file = scratch("no-files").join("query.sql");
    let analyze = ["analyze", text(&file)];
    std::fs::write(&file, b"SELECT '\xff';").unwrap();
    refused_in_one_line(&analyze, &["query.sql", "is not UTF-8 text", "offset 8"]);
    std::fs::write(&file, "-- nothing\n").unwrap();
    refused_in_one_line(&analyze, &["found no SQL to analyse"]);
    let long = std::fs::File::create(&file).unwrap();
    long.set_len(50_000_000).unwrap();
    refused_in_one_line(
        &analyze,
        &["query.sql", "50 MB", "up to 16 MB", "--file-mb-max"],
    );
    // The limit is a setting.
    std::fs::write(&file, " ".repeat(17_000_000)).unwrap();
    let more = [&analyze[..], &["--file-mb-max", "17"]].concat();
    refused_in_one_line(&more, &["found no SQL to analyse"]);
    let less = [&analyze[..], &["--file-mb-max", "16"]].concat();
    refused_in_one_line(&less, &["17 MB", "up to 16 MB"]);
    refused(
        &[&analyze[..], &["--file-mb-max", "0"]].concat(),
        &["--file-mb-max"],
    );
}

#[test]
fn throughput_on_several_servers_is_estimated() {
    let mut asked = vec!["analyze", "examples/tpcw", "--sites", "3"];
    refused_in_one_line(&asked, &["--sites", "--guarantee serializable"]);
    asked.extend(["--guarantee", "serializable", "--no-counterexamples"]);
    let ran = anabranch(&asked);
    assert!(ran.out.contains("On 3 servers"), "{}", ran.out);
    asked.extend(["--format", "json"]);
    let read: Value = serde_json::from_str(&anabranch(&asked).out).expect("it is JSON");
    let sites = &read["partitioning"]["sites"];
    assert_eq!(
        (&sites["count"], &sites["local_share"]),
        (&3.into(), &0.75.into())
    );
    refused(&["analyze", "examples/tpcw", "--sites", "0"], &["--sites"]);
}

#[test]
fn weights_are_read_from_a_file_and_checked() {
    let folder = scratch("weights");
    let file = folder.join("mix.json");
    let asked = |format: &'static str| {
        let mut asked = vec!["analyze", "examples/tpcw", "--guarantee", "serializable"];
        asked.extend(["--no-counterexamples", "--format", format]);
        asked.extend(["--weights", text(&file)]);
        asked
    };
    std::fs::write(&file, r#"{"get_cart": 20, "do_buy_confirm": 3}"#).unwrap();
    let ran = anabranch(&asked("json"));
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let read: Value = serde_json::from_str(&ran.out).expect("it is JSON");
    let types = read["partitioning"]["types"].as_array().expect("types");
    for (name, weight) in [("get_cart", 20), ("do_buy_confirm", 3), ("get_name", 1)] {
        let of = types.iter().find(|t| t["transaction"] == name);
        assert_eq!(of.expect(name)["weight"], weight, "{name}");
    }
    let ran = anabranch(&asked("text"));
    assert!(ran.out.contains("By weight: "), "{}", ran.out);
    assert!(ran.out.contains("Operation partitioning"), "{}", ran.out);
    for (weights, said) in [
        (r#"{"refund": 1}"#, "no transaction type is called refund"),
        (
            r#"{"get_cart": "often"}"#,
            "the weight of get_cart is \"often\"",
        ),
        ("[", "not a JSON object"),
    ] {
        std::fs::write(&file, weights).unwrap();
        refused_in_one_line(&asked("text"), &[text(&file), said]);
    }
    let missing = folder.join("missing.json");
    let asked = ["analyze", "examples/tpcw", "--weights", text(&missing)];
    refused_in_one_line(&asked, &["missing.json"]);
    let asked = ["analyze", "examples/tpcw", "--choices-max", "many"];
    refused(&asked, &["a whole number"]);
}
