//! `anabranch bench` on the embedded cluster.

use serde_json::Value;

use super::{anabranch, conforms, refused, refused_in_one_line, scratch, text};

#[test]
fn bench_runs_tpcc_and_writes_what_its_schema_says() {
    let file = scratch("bench").join("runs.json");
    let ran = anabranch(&[
        "bench",
        "tpcc",
        "--protocol",
        "ramp-fast,locking",
        "--warehouses",
        "1",
        "--partitions",
        "1",
        "--clients",
        "4",
        "--seconds",
        "0.5",
        "--warmup-seconds",
        "0",
        "--json",
        text(&file),
    ]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("12/12"), "{}", ran.out);
    let written = std::fs::read_to_string(&file).expect("the file is written");
    let outcome: Value = serde_json::from_str(&written).expect("it is JSON");
    let schema: Value = serde_json::from_str(include_str!(
        "../../../../../../docs/schemas/bench.schema.json"
    ))
    .expect("the schema is JSON");
    conforms(&outcome, &schema, &schema, "outcome");
    let runs = outcome["runs"].as_array().expect("runs");
    let protocols: Vec<&Value> = runs.iter().map(|run| &run["protocol"]).collect();
    assert_eq!(protocols, ["ramp-fast", "locking"]);
    for run in runs {
        assert!(run["new_orders_per_s"].as_f64() > Some(0.0), "{run}");
        let conditions = run["conditions"].as_object().expect("conditions");
        for number in 1..=12 {
            assert_eq!(
                conditions.get(&number.to_string()),
                Some(&Value::Bool(true))
            );
        }
        assert_eq!(conditions.len(), 12);
    }
}

#[test]
fn bench_runs_ycsb_and_writes_what_its_schema_says() {
    let file = scratch("bench-ycsb").join("runs.json");
    let short = [
        "--seconds",
        "0.2",
        "--warmup-seconds",
        "0",
        "--clients",
        "8",
    ];
    let bench = [&["bench", "ycsb", "--items", "1000"], &short[..]].concat();
    let transactions = [
        "--protocol",
        "ramp-fast,nwnr",
        "--length",
        "3",
        "--reads",
        "50",
    ];
    for (more, protocols) in [
        (&transactions[..], vec!["ramp-fast", "nwnr"]),
        (&["--workload", "d"], vec!["ramp-fast"]),
        (&["--workload", "e"], vec!["ramp-fast"]),
        (&["--workload", "f"], vec!["ramp-fast"]),
    ] {
        let ran = anabranch(&[&bench[..], more, &["--json", text(&file)]].concat());
        assert_eq!(ran.code, 0, "{more:?}: {}{}", ran.out, ran.err);
        assert!(
            ran.out.contains("operations/s") && ran.out.contains("1/1"),
            "{}",
            ran.out
        );
        let written = std::fs::read_to_string(&file).expect("the file is written");
        let outcome: Value = serde_json::from_str(&written).expect("it is JSON");
        let schema: Value = serde_json::from_str(include_str!(
            "../../../../../../docs/schemas/bench.schema.json"
        ))
        .expect("the schema is JSON");
        conforms(&outcome, &schema, &schema, "outcome");
        let runs = outcome["runs"].as_array().expect("runs");
        let ran: Vec<&Value> = runs.iter().map(|run| &run["protocol"]).collect();
        assert_eq!(ran, protocols);
        for run in runs {
            assert!(run["operations_per_s"].as_f64() > Some(0.0), "{run}");
            assert_eq!(run["conditions"]["answers"], Value::Bool(true));
        }
    }
    for (option, value) in [
        ("--items", "3"),
        ("--length", "0"),
        ("--reads", "101"),
        ("--zipfian-constant", "1"),
        ("--partitions", "0"),
    ] {
        refused_in_one_line(&["bench", "ycsb", option, value], &[option]);
    }
    refused(
        &["bench", "ycsb", "--workload", "a", "--length", "3"],
        &["--length"],
    );
}

#[test]
fn bench_records_a_history_that_check_judges() {
    let file = scratch("bench-history").join("run.jsonl");
    let bench = ["bench", "tpcc", "--history", text(&file), "--protocol"];
    let both = [&bench[..], &["ramp-fast,locking"]].concat();
    refused_in_one_line(&both, &["--history", "one protocol"]);
    let short = [
        "locking",
        "--warehouses",
        "1",
        "--clients",
        "8",
        "--seconds",
        "0.2",
        "--warmup-seconds",
        "0.1",
    ];
    let ran = anabranch(&[&bench[..], &short].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let ran = anabranch(&["check", text(&file)]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("strict-serializable  satisfied"),
        "{}",
        ran.out
    );
}

#[test]
fn bench_pgbench_measures_both_servers_and_writes_what_its_schema_says() {
    let folder = scratch("bench-pgbench");
    let file = folder.join("runs.json");
    let script = folder.join("script.sql");
    let own = "\\set aid random(1, 100000 * :scale)\nBEGIN;\nUPDATE pgbench_accounts SET abalance = 1 WHERE aid = :aid;\nEND;\n";
    std::fs::write(&script, own).expect("it can be written");
    for script in ["tpcb", "select", text(&script)] {
        let ran = anabranch(&[
            "bench",
            "pgbench",
            "--script",
            script,
            "--versus",
            "postgres",
            "--scale",
            "1",
            "--clients",
            "2",
            "--seconds",
            "1",
            "--repeat",
            "1",
            "--json",
            text(&file),
        ]);
        assert_eq!(ran.code, 0, "{script}: {}{}", ran.out, ran.err);
        let written = std::fs::read_to_string(&file).expect("the file is written");
        let outcome: Value = serde_json::from_str(&written).expect("it is JSON");
        let schema: Value = serde_json::from_str(include_str!(
            "../../../../../../docs/schemas/pgbench.schema.json"
        ))
        .expect("the schema is JSON");
        conforms(&outcome, &schema, &schema, "outcome");
        let servers = outcome["servers"].as_array().expect("servers");
        assert_eq!(servers.len(), 2, "{servers:?}");
        for server in servers {
            assert!(
                server["transactions_per_s"].as_f64() > Some(0.0),
                "{server}"
            );
        }
        assert!(servers[0]["ratio"].as_f64() > Some(0.0), "{}", servers[0]);
    }
}

#[test]
fn bench_pgbench_refuses_what_it_cannot_run() {
    for (option, value) in [
        ("--script", "nothing"),
        ("--clients", "0"),
        ("--scale", "0"),
    ] {
        refused(&["bench", "pgbench", option, value], &[option]);
    }
}
