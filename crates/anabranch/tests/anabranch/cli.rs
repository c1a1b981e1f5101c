//! The command line: output, errors and exit codes.

mod bench;
mod findings;
mod replay;
mod simulation;
mod skipped;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// The command in the project's folder, where `examples/` is.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    command.args(arguments).current_dir(folder);
    command
}

/// Runs the command.
fn anabranch(arguments: &[&str]) -> Ran {
    ran(&mut command(arguments))
}

/// Runs the command in another folder.
fn anabranch_in(folder: &Path, arguments: &[&str]) -> Ran {
    ran(command(arguments).current_dir(folder))
}

fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("the command starts");
    Ran {
        code: output.status.code().expect("it is not killed"),
        out: String::from_utf8(output.stdout).expect("it prints text"),
        err: String::from_utf8(output.stderr).expect("it prints text"),
    }
}

/// Asserts a refusal: exit code 2, nothing on standard output, one diagnostic on standard error.
#[track_caller]
fn refused(arguments: &[&str], because: &[&str]) {
    let ran = anabranch(arguments);
    assert_eq!(ran.code, 2, "{arguments:?}: {}{}", ran.out, ran.err);
    assert_eq!(ran.out, "", "{arguments:?}");
    for words in because {
        assert!(
            ran.err.contains(words),
            "{arguments:?} should say {words:?}: {}",
            ran.err
        );
    }
}

/// Asserts a refusal in a single line.
#[track_caller]
fn refused_in_one_line(arguments: &[&str], because: &[&str]) {
    refused(arguments, because);
    let err = anabranch(arguments).err;
    assert_eq!(err.lines().count(), 1, "{arguments:?}: {err}");
    assert!(err.starts_with("error: "), "{err}");
}

#[test]
fn protocols_without_log_records_refuse_a_data_folder() {
    let folder = scratch("data-refused");
    let bench = ["bench", "tpcc", "--data", text(&folder), "--protocol"];
    let arguments = [&bench[..], &["nwnr"]].concat();
    refused_in_one_line(&arguments, &["--data", "nwnr", "keeps no records"]);
    let twice = [&bench[..], &["ramp-fast", "--repeat", "2"]].concat();
    refused_in_one_line(&twice, &["--data", "one protocol"]);
}

#[test]
fn protocols_without_guards_refuse_a_plan_with_guards() {
    let bench = ["bench", "tpcc", "--protocol", "e-pci"];
    let bank = ["sim", "bank", "--protocol", "e-pci"];
    for arguments in [&bench[..], &bank[..]] {
        refused(arguments, &["e-pci", "no guards", "another protocol"]);
    }
}

#[test]
fn options_of_ramp_are_refused_for_other_protocols() {
    for option in ["--causal", "--one-phase"] {
        let sim = ["sim", "register", "--protocol", "locking", option];
        refused_in_one_line(
            &sim,
            &[option, "locking is not a RAMP protocol", "ramp-small"],
        );
        let bench = ["bench", "ycsb", "--protocol", "locking,nwnr", option];
        refused_in_one_line(&bench, &[option, "no RAMP is among"]);
    }
}

#[test]
fn negative_numbers_are_refused_as_values() {
    refused(
        &["sim", "register", "--seed", "-1"],
        &["'-1' for '--seed <S>'"],
    );
    refused_in_one_line(
        &["bench", "tpcc", "--delay-ms", "-1"],
        &["--delay-ms", "0 or more"],
    );
    refused(
        &["bench", "check", "--transactions", "0"],
        &["0 is not in 1.."],
    );
}

#[test]
fn a_file_that_is_named_twice_is_read_once() {
    let once = anabranch(&["analyze", "examples/payroll"]);
    let twice = ["analyze", "examples/payroll", "examples/payroll/schema.sql"];
    let twice = anabranch(&twice);
    // The printed command names the files as they were typed.
    let named = "examples/payroll examples/payroll/schema.sql";
    assert!(twice.out.contains(named), "{}", twice.out);
    let as_once = twice.out.replace(named, "examples/payroll");
    assert_eq!(
        (once.code, &once.out),
        (twice.code, &as_once),
        "{}",
        twice.err
    );
}

#[test]
fn explain_needs_a_procedure_of_a_file() {
    let file = "examples/payroll/schema.sql";
    refused_in_one_line(
        &["explain", file],
        &["name a procedure of", file, "PROCEDURE"],
    );
}

/// The finding is reported even if its case cannot be written.
#[test]
fn a_failing_run_is_a_finding_even_if_its_case_cannot_be_written() {
    let folder = scratch("no-case");
    std::fs::create_dir(folder.join("failing-case.jsonl")).unwrap();
    let ran = command(&["sim", "register", "--protocol", "nwnr", "--seeds", "0..20"])
        .current_dir(&folder)
        .output()
        .expect("the command starts");
    let out = String::from_utf8(ran.stdout).expect("it prints text");
    assert_eq!(ran.status.code(), Some(1), "{out}");
    assert!(
        out.contains("not written") && out.contains("--case"),
        "{out}"
    );
}

/// The records of one protocol cannot be read by another.
#[test]
fn a_data_folder_of_another_protocol_is_refused() {
    let folder = scratch("data-foreign");
    let content = "tpcc under ramp-fast, 2 partitions, 2 warehouses, schema 0";
    std::fs::write(folder.join("cluster"), format!("{content}\n")).unwrap();
    for protocol in ["locking", "locking-short"] {
        let arguments = [
            "bench",
            "tpcc",
            "--data",
            text(&folder),
            "--protocol",
            protocol,
        ];
        let because = [
            content,
            "another cluster",
            &format!("tpcc under {protocol},"),
        ];
        refused(&arguments, &because);
    }
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        1,
        "nothing was written"
    );
}

/// A folder of the test's own, empty.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a scratch folder can be made");
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().expect("scratch paths are text")
}

/// A path as `analyze` names it: from the project's folder, if it lies in it, as it does where the build
/// folder is in its usual place.
fn shown(path: &Path) -> &str {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = folder.canonicalize().expect("the project has a folder");
    text(path.strip_prefix(folder).unwrap_or(path))
}

#[test]
fn every_command_has_help() {
    let whole = anabranch(&["--help"]);
    assert_eq!(whole.code, 0);
    for name in ["demo", "analyze", "bench", "explain", "Exit codes: 0"] {
        assert!(whole.out.contains(name), "{}", whole.out);
    }
    let each: [(&[&str], &[&str]); 5] = [
        (&["demo", "--help"], &["--delay-ms", "--warehouses"]),
        (&["analyze", "--help"], &["--format", "--guarantee"]),
        (&["bench", "--help"], &["tpcc"]),
        (
            &["bench", "tpcc", "--help"],
            &[
                "--protocol",
                "--partitions",
                "--warehouses",
                "--clients",
                "--seconds",
                "--remote-percent",
                "--delay-ms",
                "--versus",
                "--json",
            ],
        ),
        (&["explain", "--help"], &["PROCEDURE"]),
    ];
    for (arguments, says) in each {
        let ran = anabranch(arguments);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
        assert!(ran.out.contains("Usage: anabranch"), "{}", ran.out);
        for words in says {
            assert!(ran.out.contains(words), "{arguments:?}: {}", ran.out);
        }
    }
}

#[test]
fn misuse_of_the_command_line_ends_with_2() {
    for arguments in [
        &[][..],
        &["nosuch"],
        &["analyze"],
        &["bench"],
        &["explain", "examples/tpcc"],
        &["demo", "--warehouses", "many"],
        &["bench", "tpcc", "--protocol", "nosuch"],
    ] {
        let ran = anabranch(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}{}", ran.out, ran.err);
        assert_eq!(ran.out, "", "{arguments:?}");
        assert_ne!(ran.err, "", "{arguments:?}");
    }
}

#[test]
fn analyze_finds_the_guard_of_new_order() {
    let ran = anabranch(&["analyze", "examples/tpcc"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{}", ran.out);
    let new_order = ran.out.lines().position(|line| line.contains("new_order"));
    let new_order = new_order.expect("new_order is reported");
    let guard = ran.out.lines().nth(new_order + 1).unwrap_or_default();
    assert!(
        guard.contains("coordinates on") && guard.contains("district.d_next_o_id"),
        "{guard}"
    );
}

#[test]
fn analyze_ends_with_0_where_nothing_needs_coordination() {
    let file = scratch("free").join("visits.sql");
    let sql = "CREATE TABLE visits (page integer PRIMARY KEY, times bigint NOT NULL);
CREATE PROCEDURE visit(p_page integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE visits SET times = times + 1 WHERE page = p_page;
END;
";
    std::fs::write(&file, sql).unwrap();
    let ran = anabranch(&["analyze", text(&file)]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let ran = anabranch(&["analyze", "--guarantee", "serializable", text(&file)]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{}", ran.out);
}

#[test]
fn analyze_prints_json_with_its_published_names() {
    let ran = anabranch(&["analyze", "--format", "json", "examples/tpcc"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let plan: Value = serde_json::from_str(&ran.out).expect("it is JSON");
    assert_eq!(plan["version"], 1);
    let transactions = plan["transactions"].as_array().expect("transactions");
    let names: Vec<&str> = transactions
        .iter()
        .map(|t| t["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(
        names,
        [
            "new_order",
            "payment",
            "order_status",
            "delivery",
            "stock_level"
        ]
    );
    for transaction in transactions {
        let class = transaction["class"].as_str().expect("a class");
        assert!(["free", "local", "global"].contains(&class), "{class}");
        assert_eq!(transaction["routing"], serde_json::json!(["p_w_id"]));
        assert!(transaction["protocol"].is_string());
        assert!(transaction["deferred"].is_array());
        for verdict in transaction["verdicts"].as_array().expect("verdicts") {
            let confluent = verdict["confluent"].as_str().expect("a verdict");
            assert!(["yes", "no", "unknown"].contains(&confluent));
            assert!(verdict["invariant"].is_string() && verdict["rule"].is_string());
            assert!(verdict["because"].is_array());
        }
    }
    let guard = &transactions[0]["guards"][0];
    assert_eq!(guard["item"], "district.d_next_o_id", "{guard}");
    assert!(guard["key"].is_array() && guard["invariants"].is_array());
    let columns = plan["columns"].as_array().expect("columns");
    assert!(columns.iter().any(|column| {
        column["table"] == "stock" && column["column"] == "s_ytd" && column["merge"].is_string()
    }));
}

#[test]
fn an_error_in_a_file_is_shown_at_its_place() {
    let file = scratch("mistake").join("schema.sql");
    std::fs::write(
        &file,
        "CREATE TABLE t (\n    a integer,\n    b nosuchtype\n);\n",
    )
    .unwrap();
    let place = format!("{}:3:7", shown(&file));
    let caret = "  |       ^^^^^^^^^^";
    let says = ["nosuchtype", place.as_str(), caret];
    refused(&["analyze", text(&file)], &says);
    refused(&["explain", text(&file), "p"], &says);
    let folder = file.parent().expect("it is in a folder");
    refused(&["bench", "tpcc", "--files", text(folder)], &says);
}

/// One diagnostic, with its place and what is wrong there underlined, and nothing done.
#[test]
fn each_kind_of_bad_input_has_one_error_at_its_place() {
    let table = "CREATE TABLE t (a integer PRIMARY KEY, b text NOT NULL);";
    let atomic = |body: &str| {
        format!("{table}\nCREATE PROCEDURE p(x integer) LANGUAGE SQL BEGIN ATOMIC\n{body}\nEND;\n")
    };
    let block = |body: &str| {
        format!(
            "{table}\nCREATE PROCEDURE p(x integer) LANGUAGE plpgsql AS $$ BEGIN\n{body}\nEND $$;\n"
        )
    };
    let cases = [
        (
            "malformed",
            27,
            format!("{table}\n\nCREATE TABLE u (a integer b text);\n"),
        ),
        ("unknown-table", 8, atomic("UPDATE nosuch SET a = 1;")),
        (
            "unknown-column",
            14,
            atomic("UPDATE t SET nosuch = 1 WHERE a = x;"),
        ),
        (
            "type-error",
            20,
            atomic("UPDATE t SET a = a + b WHERE a = x;"),
        ),
        ("wrong-argument-count", 8, atomic("SELECT abs(x, x);")),
        ("unsupported", 1, block("EXECUTE 'SELECT 1';")),
    ];
    let folder = scratch("bad-input");
    for (name, column, sql) in cases {
        let file = folder.join(format!("{name}.sql"));
        std::fs::write(&file, sql).unwrap();
        let place = format!("{}:3:{column}\n", shown(&file));
        // The carets begin below the first column of the error.
        let caret = format!("\n  | {}^", " ".repeat(column - 1));
        for arguments in [
            &["analyze", "--strict", text(&file)][..],
            &["explain", text(&file), "p"],
        ] {
            refused(arguments, &[&place, &caret]);
            let err = anabranch(arguments).err;
            let errors = err.lines().filter(|line| line.starts_with("error"));
            assert_eq!(errors.count(), 1, "{name}: {err}");
        }
    }
}

#[test]
fn a_missing_table_has_a_hint_to_name_more_files() {
    let folder = scratch("apart");
    let (tables, procedures) = (folder.join("schema.sql"), folder.join("procedures.sql"));
    std::fs::write(&tables, "CREATE TABLE t (a integer PRIMARY KEY);\n").unwrap();
    let body = |name: &str| {
        format!(
            "CREATE FUNCTION {name}() RETURNS SETOF integer LANGUAGE SQL BEGIN ATOMIC\n\
             SELECT a FROM t;\nEND;\n"
        )
    };
    std::fs::write(&procedures, body("p") + &body("q")).unwrap();
    let hint = "= help: where another file declares it, give that file, too, or the folder";
    for arguments in [
        &["explain", text(&procedures), "p"][..],
        &["analyze", text(&procedures)],
    ] {
        refused(arguments, &["relation \"t\" does not exist", hint]);
        let err = anabranch(arguments).err;
        assert_eq!(err.matches("= help").count(), 1, "once for all: {err}");
    }
    for arguments in [
        &["explain", text(&tables), text(&procedures), "p"][..],
        &["explain", text(&folder), "p"],
    ] {
        let ran = anabranch(arguments);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
        assert!(ran.out.contains("Full Scan on t"), "{}", ran.out);
    }
    // With a file of tables, a missing table is an error of another kind.
    std::fs::write(&tables, "CREATE TABLE u (a integer PRIMARY KEY);\n").unwrap();
    let both = ["explain", text(&tables), text(&procedures), "p"];
    refused(&both, &["relation \"t\" does not exist"]);
    assert!(!anabranch(&both).err.contains("= help"));
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = scratch("files");
    let missing = folder.join("missing.sql");
    refused_in_one_line(
        &["analyze", text(&missing)],
        &["missing.sql", "cannot read"],
    );
    refused_in_one_line(&["analyze", text(&folder)], &["no .sql file"]);
    // A source file that is named must be readable, whatever else there is to analyse.
    let schema = folder.join("schema.sql");
    std::fs::write(&schema, "CREATE TABLE t (a integer PRIMARY KEY);\n").unwrap();
    let program = folder.join("missing.ts");
    for command in ["analyze", "replay"] {
        let given = [command, text(&program), "--schema", text(&schema)];
        refused_in_one_line(&given, &["missing.ts", "cannot read"]);
    }
    let binary = folder.join("binary.sql");
    std::fs::write(&binary, b"-- \xff\n").unwrap();
    refused_in_one_line(
        &["analyze", text(&binary)],
        &["binary.sql", "not UTF-8", "offset 3"],
    );
}

#[test]
fn impossible_experiments_are_refused_before_they_begin() {
    let tpcc = |option, value| ["bench", "tpcc", option, value];
    refused_in_one_line(
        &tpcc("--partitions", "0"),
        &["--partitions", "between 1 and", "not 0"],
    );
    refused_in_one_line(&tpcc("--warehouses", "0"), &["--warehouses"]);
    refused_in_one_line(
        &tpcc("--warehouses", "1000000"),
        &["--warehouses", "GiB", "at most"],
    );
    refused_in_one_line(
        &tpcc("--remote-percent", "101"),
        &["--remote-percent", "101"],
    );
    refused_in_one_line(&tpcc("--clients", "0"), &["--clients"]);
    refused_in_one_line(&tpcc("--seconds", "0"), &["--seconds"]);
    refused_in_one_line(&tpcc("--seconds", "NaN"), &["--seconds"]);
    refused_in_one_line(&tpcc("--repeat", "0"), &["--repeat"]);
    refused_in_one_line(
        &["bench", "tpcc", "--delay-ms=-1"],
        &["--delay-ms", "0 or more, not -1"],
    );
}

/// The exit code that a shell shows for a tool that SIGPIPE ended.
const CLOSED_PIPE: i32 = 141;

/// Runs the command with this standard output. Returns its exit code and its standard error.
fn said_into(out: impl Into<Stdio>, arguments: &[&str]) -> (i32, String) {
    let output = command(arguments)
        .stdout(out)
        .stderr(Stdio::piped())
        .output()
        .expect("the command starts");
    let err = String::from_utf8(output.stderr).expect("it prints text");
    (output.status.code().expect("it is not killed"), err)
}

#[test]
fn a_closed_pipe_ends_the_command_silently() {
    let sim = ["sim", "register", "--faults", "none"];
    for arguments in [&["analyze", "examples/tpcc"][..], &sim, &["--help"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let ended = said_into(writer, arguments);
        assert_eq!(ended, (CLOSED_PIPE, String::new()), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    for arguments in [&["analyze", "examples/tpcc"][..], &["--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let (code, err) = said_into(full.expect("Linux has one"), arguments);
        assert_eq!(code, 2, "{arguments:?}: {err}");
        assert!(
            err.starts_with("error: cannot write to standard output"),
            "{err}"
        );
    }
}

#[test]
fn files_that_cannot_be_written_are_refused_before_the_work() {
    let folder = scratch("unwritable");
    let nowhere = folder.join("nosuch/file");
    let history = folder.join("history.jsonl");
    std::fs::write(&history, HISTORY_4).expect("the file can be written");
    // Each of these would take too long if it began.
    let sim = ["sim", "register", "--transactions", "100000000"];
    let cases: [(&[&str], &str); 8] = [
        (&["bench", "tpcc", "--seconds", "100000"], "--json"),
        (
            &["bench", "check", "--transactions", "100000000000"],
            "--history",
        ),
        (&["calibrate"], "--out"),
        (&sim, "--history"),
        (&sim, "--diagram"),
        (&sim, "--case"),
        (&sim, "--json"),
        (&["check", text(&history)], "--svg"),
    ];
    for (command, option) in cases {
        for path in [&nowhere, &folder] {
            let arguments = [command, &[option, text(path)]].concat();
            refused_in_one_line(&arguments, &["cannot write", text(path)]);
        }
    }
    // The check leaves files as they were.
    let kept = folder.join("kept.svg");
    std::fs::write(&kept, "kept").expect("the file can be written");
    for picture in [&kept, &folder.join("new.svg")] {
        let ran = anabranch(&["check", text(&history), "--svg", text(picture)]);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    assert_eq!(std::fs::read_to_string(&kept).expect("it is there"), "kept");
    assert!(!folder.join("new.svg").exists());
}

#[test]
fn files_without_transactions_are_refused() {
    let file = scratch("empty").join("empty.sql");
    std::fs::write(&file, "-- nothing yet\n").expect("the file can be written");
    refused_in_one_line(
        &["analyze", text(&file)],
        &["found no SQL to analyse in", "empty.sql"],
    );
    std::fs::write(&file, "CREATE TABLE t (a integer PRIMARY KEY);\n").expect("written");
    let ran = anabranch(&["analyze", text(&file)]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.err.contains("found no SQL to analyse"), "{}", ran.err);
    assert!(ran.err.contains("1 table, no procedures"), "{}", ran.err);
    assert!(ran.out.contains("Found no SQL to analyse"), "{}", ran.out);
}

#[test]
fn sim_replay_excludes_other_options() {
    let file = scratch("replay").join("case.jsonl");
    for option in ["--seed", "--nodes", "--clients", "--transactions"] {
        refused(
            &["sim", "--replay", text(&file), option, "1"],
            &["--replay", option, "cannot be used with"],
        );
    }
    for (option, value) in [
        ("--protocol", "nwnr"),
        ("--faults", "storm"),
        ("--net", "lan"),
    ] {
        refused(
            &["sim", "--replay", text(&file), option, value],
            &["--replay", option, "cannot be used with"],
        );
    }
}

#[test]
fn names_are_folded_and_counts_have_singulars() {
    let folded = anabranch(&["explain", "examples/tpcc", "NEW_Order"]);
    let plain = anabranch(&["explain", "examples/tpcc", "new_order"]);
    assert_eq!((folded.code, &folded.out), (0, &plain.out));
    let one = ["--nodes", "1", "--clients", "1", "--faults", "none"];
    let ran = anabranch(&[&["sim", "register"][..], &one].concat());
    assert!(ran.out.contains("1 node (lan), 1 client,"), "{}", ran.out);
}

#[test]
fn explain_shows_plans_and_deferrable_updates() {
    let ran = anabranch(&["explain", "examples/tpcc", "new_order"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for words in [
        "Update on district (can be deferred)",
        "Update on stock (can be deferred)",
        "Key Lookup on customer",
    ] {
        assert!(ran.out.contains(words), "{}", ran.out);
    }
    refused_in_one_line(
        &["explain", "examples/tpcc", "nosuch"],
        &[
            "\"nosuch\"",
            "delivery, new_order, order_status, payment, stock_level",
        ],
    );
}

/// ramp.txt's History (4), as another program might write it.
const HISTORY_4: &str = include_str!("../../../../examples/histories/ramp-history-4.jsonl");

#[test]
fn check_judges_a_history_and_draws_what_it_finds() {
    let folder = scratch("check");
    let (file, picture) = (folder.join("history.jsonl"), folder.join("anomaly.svg"));
    std::fs::write(&file, HISTORY_4).expect("the file can be written");
    let promised = anabranch(&["check", text(&file), "--svg", text(&picture)]);
    assert_eq!(promised.code, 0, "{}{}", promised.out, promised.err);
    assert!(promised.out.contains("satisfied"), "{}", promised.out);
    assert!(!picture.exists(), "there is nothing to draw");
    let models = ["--model", "read-atomic,causal"];
    let asked = [
        &["check", text(&file), "--svg", text(&picture)][..],
        &models,
    ]
    .concat();
    let violated = anabranch(&asked);
    assert_eq!(violated.code, 1, "{}{}", violated.out, violated.err);
    for words in [
        "missing dependency",
        "T3 —rw→ T1: T3 read x in its initial version, which T1 overwrote",
    ] {
        assert!(violated.out.contains(words), "{}", violated.out);
    }
    let drawn = std::fs::read_to_string(&picture).expect("the picture is written");
    for words in [
        "<svg",
        ">T1<",
        ">T2<",
        ">T3<",
        ">r z of T2<",
        "3. <tspan",
        ">rw</tspan> x",
    ] {
        assert!(drawn.contains(words), "{words}: {drawn}");
    }
    let json = anabranch(&[&["check", text(&file), "--json"][..], &models].concat());
    assert_eq!(json.code, 1, "{}", json.err);
    let value: Value = serde_json::from_str(&json.out).expect("it is JSON");
    let schema: Value =
        serde_json::from_str(include_str!("../../../../docs/schemas/check.schema.json"))
            .expect("the schema is JSON");
    conforms(&value, &schema, &schema, "verdicts");
    assert_eq!(value["verdicts"][1]["phenomena"]["missing dependency"], 1);
}

/// The commands of `examples/histories/README.md`.
#[test]
fn histories_written_by_hand_are_judged() {
    let history_4 = "examples/histories/ramp-history-4.jsonl";
    let ran = anabranch(&["check", history_4]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let ran = anabranch(&["check", history_4, "--model", "causal,serializable"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    for words in ["missing dependency", "G-single"] {
        assert!(ran.out.contains(words), "{}", ran.out);
    }
    let jepsen = "examples/histories/jepsen-g-single.edn";
    let ran = anabranch(&["check", jepsen, "--model", "read-atomic,serializable"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    for words in ["read-atomic          satisfied", "G-single"] {
        assert!(ran.out.contains(words), "{}", ran.out);
    }
}

#[test]
fn check_gives_no_verdict_on_a_history_that_cannot_be_judged() {
    let folder = scratch("check-refused");
    let file = folder.join("history.jsonl");
    let cases = [
        (
            HISTORY_4.replace("{\"end\":{\"transactions\":3}}\n", ""),
            "line 5: the history is truncated",
        ),
        (
            HISTORY_4.replace("history\":1", "history\":2"),
            "line 1: the history has format 2",
        ),
        (
            HISTORY_4.replace("\"write\":\"z\"", "\"write\":\"u\""),
            "line 4: the history contradicts itself: T3 read z",
        ),
        (
            HISTORY_4.replace("\"read\":\"x\"", "\"raed\":\"x\""),
            "line 4: not valid",
        ),
        (
            "{:type :ok, :value [[:r 1 [7]]]}".to_owned(),
            "line 1: the history contradicts itself",
        ),
        (String::new(), "empty"),
    ];
    for (history, words) in &cases {
        std::fs::write(&file, history).expect("the file can be written");
        refused_in_one_line(&["check", text(&file), "--model", "causal"], &[words]);
    }
    std::fs::write(&file, HISTORY_4).expect("the file can be written");
    refused_in_one_line(
        &["check", text(&file), "--model", "sessions"],
        &["history has no sessions"],
    );
    std::fs::write(
        &file,
        HISTORY_4.replace(",\"models\":[\"read-atomic\"]", ""),
    )
    .expect("written");
    refused_in_one_line(
        &["check", text(&file)],
        &["promises no model", "strict-serializable"],
    );
    refused_in_one_line(&["check", "nosuch.jsonl"], &["cannot read nosuch.jsonl"]);
}

#[test]
fn bench_check_judges_what_it_generates() {
    let ran = anabranch(&["bench", "check", "--transactions", "5000"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(ran.out.matches("satisfied").count(), 12, "{}", ran.out);
}

#[test]
fn check_reads_what_jepsen_writes() {
    let file = scratch("check-jepsen").join("history.edn");
    std::fs::write(
        &file,
        "{:type :invoke, :f :txn, :value [[:append 3 1] [:r 3 nil]], :process 0, :index 0, :time 1}\n\
         {:type :ok, :f :txn, :value [[:append 3 1] [:r 3 [1]]], :process 0, :index 1, :time 2}\n",
    )
    .expect("the file can be written");
    let ran = anabranch(&[
        "check",
        text(&file),
        "--model",
        "strict-serializable,sessions",
    ]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(ran.out.matches("satisfied").count(), 2, "{}", ran.out);
}

/// Whether `value` has what `schema` asks for: as much of JSON Schema as the project's use.
fn conforms(value: &Value, schema: &Value, root: &Value, place: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root
            .pointer(&reference[1..])
            .expect("references lead somewhere");
        return conforms(value, target, root, place);
    }
    if !schema["const"].is_null() {
        assert_eq!(*value, schema["const"], "{place}");
    }
    if let Some(known) = schema["enum"].as_array() {
        assert!(known.contains(value), "{place}: {value}");
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let is = |name: &&str| match *name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "null" => value.is_null(),
        other => panic!("{place}: the schema has a type {other}"),
    };
    assert!(types.is_empty() || types.iter().any(is), "{place}: {value}");
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().expect("names are text");
        assert!(value.get(name).is_some(), "{place} lacks {name}");
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        match &schema["properties"][name] {
            Value::Null if schema["additionalProperties"].is_object() => {
                conforms(inner, &schema["additionalProperties"], root, &place);
            }
            Value::Null => {}
            known => conforms(inner, known, root, &place),
        }
    }
    if schema["items"].is_object() {
        for inner in value.as_array().into_iter().flatten() {
            conforms(inner, &schema["items"], root, place);
        }
    }
}

/// The figure that needs no simulated cluster; the others' numbers are `bench`'s own tests.
#[test]
fn reproduce_writes_a_page_charts_and_what_its_schema_says() {
    let folder = scratch("reproduce");
    let asked = ["reproduce", "coordination-avoidance", "--quick"];
    let ran = anabranch(&[&asked[..], &["--figure", "2", "--out", text(&folder)]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for words in [
        "C-2PC, 8 servers of one datacenter",
        "321 /s",
        "calibration of",
        "1 of 1 targets met",
    ] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    let written = std::fs::read_to_string(folder.join("report.json")).expect("it is written");
    let report: Value = serde_json::from_str(&written).expect("it is JSON");
    let schema: Value = serde_json::from_str(include_str!(
        "../../../../docs/schemas/reproduce.schema.json"
    ))
    .expect("the schema is JSON");
    conforms(&report, &schema, &schema, "report");
    let page = std::fs::read_to_string(folder.join("index.html")).expect("it is written");
    assert!(page.contains("<svg") && !page.contains("src=") && !page.contains("href="));
    for chart in ["figure-2a", "figure-2b"] {
        for form in ["svg", "png"] {
            assert!(
                folder.join(format!("{chart}.{form}")).exists(),
                "{chart}.{form}"
            );
        }
    }
    let nothing = folder.join("nothing.json");
    let lacking = [&asked[..], &["--calibration", text(&nothing)]].concat();
    refused_in_one_line(&lacking, &["nothing.json"]);
    std::fs::write(&nothing, "{}").expect("the file can be written");
    refused_in_one_line(&lacking, &["is not a calibration of version 1"]);
}

/// The figure of ALVIN's paper that simulates no load, and a load; the others' numbers are `bench`'s own tests.
#[test]
fn figures_and_loads_of_sites_are_as_their_schemas_say() {
    let folder = scratch("sites");
    let conforms_to = |file: &str, schema: &str| {
        let written = std::fs::read_to_string(folder.join(file)).expect("it is written");
        let value: Value = serde_json::from_str(&written).expect("it is JSON");
        let schema: Value = serde_json::from_str(schema).expect("the schema is JSON");
        conforms(&value, &schema, &schema, file);
        value
    };
    let asked = ["reproduce", "alvin", "--quick", "--figure"];
    let figure = ["certification", "--out", text(&folder)];
    let ran = anabranch(&[&asked[..], &figure].concat());
    // Exit code 1: a development build misses the target, which the text says.
    assert_eq!(ran.code == 1, ran.out.contains("MISSED"), "{}", ran.out);
    let schema = include_str!("../../../../docs/schemas/reproduce.schema.json");
    conforms_to("report.json", schema);
    refused_in_one_line(&[&asked[..], &["4"]].concat(), &["it has 1a, 1b, 2a"]);
    let file = folder.join("sites.json");
    let load = "bench sites bank --nodes 3 --clients 4 --seconds 1 --warmup-seconds 0.5 --json";
    let load: Vec<&str> = load.split(' ').chain([text(&file)]).collect();
    let ran = anabranch(&[&load[..], &["--batch-window", "20"]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let schema = include_str!("../../../../docs/schemas/sites.schema.json");
    let runs = &conforms_to("sites.json", schema)["runs"];
    assert_eq!(runs.as_array().map(Vec::len), Some(3));
    assert_eq!(runs[0]["batch_window_ms"], 20.0);
}

/// Runs `sim` with `--json`: its exit code, what it prints, and the file, which is as its schema says.
fn simulated(name: &str, arguments: &[&str]) -> (i32, String, Value) {
    let folder = scratch(name);
    let (file, case) = (folder.join("sum.json"), folder.join("case.jsonl"));
    let written = ["--json", text(&file), "--case", text(&case)];
    let ran = anabranch(&[&["sim"][..], arguments, &written].concat());
    assert_eq!(ran.err, "", "{arguments:?}");
    let sum = std::fs::read_to_string(&file).expect("it is written");
    let sum: Value = serde_json::from_str(&sum).expect("it is JSON");
    let schema: Value =
        serde_json::from_str(include_str!("../../../../docs/schemas/sim.schema.json"))
            .expect("the schema is JSON");
    conforms(&sum, &schema, &schema, "sum");
    (ran.code, ran.out, sum)
}

#[test]
fn the_json_report_of_sim_agrees_with_its_text_and_its_schema() {
    let number = |sum: &Value| sum.as_u64().expect("a count").to_string();
    let storm = ["counter", "--faults", "storm", "--transactions", "60"];
    let one = [&storm[..], &["--seed", "7"]].concat();
    let (code, out, sum) = simulated("sim-one", &one);
    assert_eq!((code, &sum["verdict"]), (0, &Value::from("fine")), "{out}");
    // A line that goes on from the one before it is indented as far as its value.
    let whole = out.replace(&format!("\n{}", " ".repeat(16)), " ");
    let told = |name: &str| {
        let mut lines = whole.lines().filter_map(|line| line.trim().split_once(' '));
        let found = lines.find(|(first, _)| *first == name);
        found.expect("it is told").1.trim().replace(',', "")
    };
    assert_eq!(told("trace"), sum["trace"]);
    let committed = format!("{} committed", number(&sum["transactions"]));
    assert_eq!(told("transactions"), committed);
    let sent = format!(
        "{} in {} packets; {} resent",
        number(&sum["messages"]["sent"]),
        number(&sum["messages"]["packets"]),
        number(&sum["messages"]["resent"])
    );
    assert_eq!(told("messages"), sent);
    for name in ["faults", "aborts", "sometimes"] {
        let counts = sum[name].as_object().expect("counts").iter();
        let each: Vec<String> = counts
            .map(|(what, count)| format!("{}: {}", what.replace(',', ""), number(count)))
            .collect();
        let each = match each.is_empty() {
            true => "none".to_owned(),
            false => each.join("; "),
        };
        assert_eq!(told(name), each);
    }
    for (what, count) in sum["checks"].as_object().expect("counts") {
        let each = format!("{}: {}", what.replace(',', ""), number(count));
        assert!(told("checked").contains(&each), "{each}");
    }
    assert_eq!(
        sum["parameters"]["seeds"],
        serde_json::json!({ "from": 7, "to": 8 })
    );
    assert_eq!(sum["calibration"], Value::Null);
    let commit = sum["commit"].as_str().expect("a commit");
    assert!(commit == "unknown" || commit.len() == 12, "{commit}");
    let (_, _, again) = simulated("sim-again", &one);
    assert_eq!(sum, again);

    let many = [&storm[..], &["--seeds", "7..9"]].concat();
    let (code, _, sums) = simulated("sim-many", &many);
    let (_, _, other) = simulated("sim-other", &[&storm[..], &["--seed", "8"]].concat());
    assert_eq!(
        (code, &sums["runs"], &sums["trace"]),
        (0, &Value::from(2), &Value::Null)
    );
    for count in ["transactions", "events", "simulated_us", "weak_runs"] {
        let both = [&sum, &other].map(|sum| sum[count].as_u64().expect("a count"));
        assert_eq!(sums[count], both[0] + both[1], "{count}");
    }

    // Without concurrency control a reader sees half of a group.
    let wrong = [
        "register",
        "--protocol",
        "nwnr",
        "--faults",
        "none",
        "--seeds",
        "1..4",
    ];
    let (code, out, sum) = simulated("sim-wrong", &wrong);
    assert_eq!(
        (code, &sum["verdict"]),
        (1, &Value::from("violated")),
        "{out}"
    );
    let failure = &sum["failures"][0];
    let found = failure["found"][0].as_str().expect("it is told");
    assert!(out.contains(found), "{found}: {out}");
    let seed = format!("seed {}", number(&failure["seed"]));
    assert!(out.contains(&seed), "{seed}: {out}");
}
