//! `anabranch replay`: runs of counterexamples and guards, and the test file for `psql`.

use serde_json::Value;

use crate::cli::{anabranch, conforms, refused_in_one_line, scratch, text};

#[test]
fn printed_replay_commands_run() {
    let report = anabranch(&["analyze", "examples/payroll", "--format", "json"]);
    let report: Value = serde_json::from_str(&report.out).expect("it is JSON");
    let shown = report["counterexamples"].as_array().expect("a list");
    let printed = anabranch(&["analyze", "examples/payroll"]).out;
    let mut isolation = 0;
    for one in shown {
        let (id, command) = (&one["id"], &one["replay"]);
        let [id, command] = [id, command].map(|text| text.as_str().expect("a text"));
        assert!(
            printed.contains(&format!("  replay     {command}\n")),
            "{command}"
        );
        isolation += usize::from(id.starts_with("isolation("));
        // Through a shell, since IDs with parentheses are quoted.
        let ran = anabranch_by_shell(command);
        assert_eq!(ran.0, 0, "{command}: {}", ran.1);
        for words in [
            id.split('/').next().expect("an invariant"),
            "without    broken: two replicas ran the calls",
            "with plan  held in 32 interleavings",
            "1 counterexample: 1 broke without coordination, 1 held with the plan.",
        ] {
            assert!(ran.1.contains(words), "{words}: {}", ran.1);
        }
    }
    assert!(shown.len() > 4 && isolation > 0, "{shown:#?}");
}

fn anabranch_by_shell(command: &str) -> (i32, String) {
    let program = env!("CARGO_BIN_EXE_anabranch");
    let command = command.replacen("anabranch", &format!("'{program}'"), 1);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let ran = std::process::Command::new("sh")
        .args(["-c", &command])
        .current_dir(folder)
        .output()
        .expect("there is a shell");
    let said = String::from_utf8([ran.stdout, ran.stderr].concat());
    (
        ran.status.code().expect("it is not killed"),
        said.expect("it prints text"),
    )
}

#[test]
fn json_conforms_to_its_schema() {
    let arguments = [
        "replay",
        "examples/smallbank",
        "--format",
        "json",
        "--interleavings",
        "8",
    ];
    let ran = anabranch(&arguments);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert_eq!(anabranch(&arguments).out, ran.out, "the same again");
    let value: Value = serde_json::from_str(&ran.out).expect("it is JSON");
    let schema: Value = serde_json::from_str(include_str!(
        "../../../../../../docs/schemas/replay.schema.json"
    ))
    .expect("the schema is JSON");
    conforms(&value, &schema, &schema, "replay");
    assert_eq!(value["interleavings"], 8);
    let all = value["counterexamples"].as_array().expect("a list");
    assert!(!all.is_empty());
    for one in all {
        assert_eq!(one["as_predicted"], true, "{one}");
        assert_eq!(one["without"]["broken"], true, "{one}");
        assert_eq!(one["with"]["held"], true, "{one}");
    }
}

#[test]
fn an_application_that_is_free_has_nothing_to_run() {
    let ran = anabranch(&["replay", "examples/twitter"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.out, "Found no counterexample to run.\n");
}

#[test]
fn unknown_ids_are_refused_with_the_known_ones() {
    let unknown = [
        "replay",
        "examples/payroll",
        "--counterexample",
        "payroll/none",
    ];
    refused_in_one_line(
        &unknown,
        &[
            "\"payroll/none\" does not exist",
            "somebody_is_employed/dismiss",
        ],
    );
    refused_in_one_line(
        &["replay", "examples/twitter", "--counterexample", "x/y"],
        &["known are: none"],
    );
}

#[test]
fn a_test_is_written_and_other_files_are_kept() {
    let file = scratch("replay-test").join("sessions.sql");
    let write = [
        "replay",
        "examples/payroll",
        "--interleavings",
        "1",
        "--write-test",
        text(&file),
    ];
    for _ in 0..2 {
        let ran = anabranch(&write);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    let written = std::fs::read_to_string(&file).expect("it was written");
    for words in [
        "\n--     anabranch replay examples/payroll\n",
        "-- somebody_is_employed/dismiss\n",
        "-- Session 1:\nSAVEPOINT before;\nCALL dismiss(",
        "-- Session 1:\nCALL hire_as(",
        "SELECT 'somebody_is_employed' AS violated WHERE NOT (EXISTS (SELECT * FROM employees));",
        "SELECT id, count(*) FROM employees WHERE id IS NOT NULL GROUP BY id HAVING count(*) > 1;",
        "SELECT * FROM employees WHERE NOT (salary >= 0);",
        "AND NOT EXISTS (SELECT 1 FROM departments AS parent WHERE parent.id = child.department_id);",
        "ROLLBACK;",
    ] {
        assert!(written.contains(words), "{words}: {written}");
    }
    assert_eq!(
        written.matches("\nBEGIN;\n").count(),
        written.matches("\nROLLBACK;\n").count()
    );
    std::fs::write(&file, "SELECT 1;\n").expect("it can be written");
    refused_in_one_line(
        &write,
        &["was not written by anabranch replay", "name another file"],
    );
    assert_eq!(
        std::fs::read_to_string(&file).ok().as_deref(),
        Some("SELECT 1;\n")
    );
}

/// Two guards of one type; the search cannot decide whether the other guard orders the same calls.
const NOT_TOLD: &str = "
    CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), a integer UNIQUE, b integer UNIQUE);
    CREATE PROCEDURE put(p integer, q integer) LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO t (a, b) VALUES (p, q * q - q); END $$;
";

#[test]
fn every_guard_of_bank_is_needed() {
    let arguments = [
        "replay",
        "examples/bank",
        "--guards",
        "--interleavings",
        "8",
    ];
    let ran = anabranch(&arguments);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    for words in [
        "  needed     without it ",
        "  without    broken: two replicas ran the calls",
        "  with plan  held in 8 interleavings",
        " needed (broke without, held with the plan), 0 not shown.",
    ] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    assert_eq!(anabranch(&arguments).out, ran.out, "the same again");
}

#[test]
fn guards_that_are_not_shown_have_a_reason() {
    let file = scratch("replay-guards").join("told.sql");
    std::fs::write(&file, NOT_TOLD).expect("it can be written");
    let replay = ["replay", text(&file), "--guards", "--interleavings", "2"];
    let ran = anabranch(&replay);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{}", ran.out);
    for words in [
        "put: t, one for each (a = p); held from prepare to commit\n  guard      put/t:a\n",
        "  not shown  other guards order, or may order, all calls that were tried and that it orders\n",
        "  guard      put/t:b\n",
        "2 guards: 1 needed (broke without, held with the plan), 1 not shown.\n",
    ] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    let json = anabranch(&[&replay[..], &["--format", "json"]].concat());
    assert_eq!(json.code, 1);
    let value: Value = serde_json::from_str(&json.out).expect("it is JSON");
    let schema: Value = serde_json::from_str(include_str!(
        "../../../../../../docs/schemas/replay.schema.json"
    ))
    .expect("the schema is JSON");
    conforms(&value, &schema, &schema, "replay --guards");
    let [first, second] = &value["guards"].as_array().expect("a list")[..] else {
        panic!("{value:#}");
    };
    assert_eq!(first["needed"], false);
    assert_eq!(first["case"], Value::Null);
    assert_eq!(first["not_shown"]["reason"], "orders-nothing-alone");
    assert_eq!(second["needed"], true);
    assert_eq!(second["not_shown"], Value::Null);
    let case = &second["case"];
    conforms(case, &schema["$defs"]["counterexample"], &schema, "case");
    assert_eq!(case["invariant"], "t_b_key");
    // One guard, and an unknown one.
    let alone = [&replay[..2], &["--guard", "put/t:b"]].concat();
    let ran = anabranch(&alone);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.out
            .ends_with("1 guard: 1 needed (broke without, held with the plan), 0 not shown.\n")
    );
    refused_in_one_line(
        &["replay", text(&file), "--guard", "put/t:c"],
        &["--guard: \"put/t:c\" does not exist", "put/t:a, put/t:b"],
    );
}

/// A type that is not analysed has guards, but cannot be called. The guards of other types are shown.
#[test]
fn guards_of_types_that_are_not_analysed_are_listed() {
    let file = scratch("replay-unknown").join("unknown.sql");
    let sql = "CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL CHECK (n >= 0));
         CREATE TABLE aside (id integer PRIMARY KEY);
         CREATE PROCEDURE take(p_id integer) LANGUAGE plpgsql AS $$
         BEGIN UPDATE t SET n = n - 1 WHERE id = p_id; END $$;
         CREATE PROCEDURE odd(p_id integer) LANGUAGE plpgsql AS $$
         BEGIN LOCK TABLE t; UPDATE t SET n = n - 1 WHERE id = p_id; END $$;";
    std::fs::write(&file, sql).expect("it can be written");
    let ran = anabranch(&["replay", text(&file), "--guards"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    for words in [
        "  needed     without it t_n_check breaks: take\n",
        "  not shown  the transaction type was not analysed, so it cannot be called\n",
    ] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    refused_in_one_line(
        &[
            "replay",
            "examples/bank",
            "--guards",
            "--guarantee",
            "serializable",
        ],
        &["with --guarantee serializable everything is ordered"],
    );
}

#[test]
fn free_applications_have_no_guards() {
    let ran = anabranch(&["replay", "examples/twitter", "--guards"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        ran.out,
        "The plan has no guards: no transaction type needs coordination.\n"
    );
}
