//! Findings, as SARIF, as GitHub annotations, and compared with a baseline.

mod files;
mod programs;

use std::path::Path;

use serde_json::Value;

use crate::cli::{anabranch, anabranch_in, refused, refused_in_one_line, scratch, shown, text};

const SQL: &str = "CREATE TABLE seats (flight integer NOT NULL, seat integer NOT NULL,
                    PRIMARY KEY (flight, seat));
CREATE TABLE flights (id integer PRIMARY KEY, taken integer NOT NULL);

-- Seats are chosen.
CREATE PROCEDURE reserve(p_flight integer, p_seat integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO seats (flight, seat) VALUES (p_flight, p_seat);
END;

CREATE PROCEDURE count_one(p_flight integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE flights SET taken = taken + 1 WHERE id = p_flight;
END;
";

/// Another type that chooses keys.
const MORE: &str = "CREATE PROCEDURE swap(p_flight integer, p_to integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO seats (flight, seat) VALUES (p_flight, p_to);
END;
";

fn application(name: &str, sql: &str) -> std::path::PathBuf {
    let file = scratch(name).join("flights.sql");
    std::fs::write(&file, sql).expect("a scratch file can be written");
    file
}

/// A path with `..` is reported relative to the folder if it is inside, and as the absolute path elsewhere: no
/// `..` may be under the source root.
#[test]
fn paths_with_parent_folders_are_reported_without_them() {
    let file = application("climbing", SQL);
    let folder = file.parent().expect("it lies in a folder");
    let beside = folder.join("beside");
    std::fs::create_dir_all(&beside).expect("a scratch folder can be made");
    let place = |here: &Path, path: &str| {
        let ran = crate::cli::anabranch_in(here, &["analyze", path, "--format", "sarif"]);
        assert_eq!((ran.code, ran.err.as_str()), (1, ""));
        let log: Value = serde_json::from_str(&ran.out).expect("it is JSON");
        let result = &log["runs"][0]["results"][0];
        result["locations"][0]["physicalLocation"]["artifactLocation"].clone()
    };
    let inside = place(folder, "beside/../flights.sql");
    assert_eq!(inside["uri"], "flights.sql");
    assert_eq!(inside["uriBaseId"], "%SRCROOT%");
    let outside = place(&beside, "../flights.sql");
    let uri = outside["uri"].as_str().expect("a path");
    assert!(
        uri.starts_with("file:///") && uri.ends_with("/flights.sql"),
        "{uri}"
    );
    assert!(
        !uri.contains("..") && outside.get("uriBaseId").is_none(),
        "{outside}"
    );
}

#[test]
fn sarif_names_rule_place_and_fingerprint() {
    let ran = anabranch(&["analyze", "examples/tpcc", "--format", "sarif"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let log: Value = serde_json::from_str(&ran.out).expect("it is JSON");
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let results = run["results"].as_array().expect("results");
    let mut fingerprints: Vec<&str> = Vec::new();
    for result in results {
        let rule = result["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(rules[rule]["id"], result["ruleId"]);
        let place = &result["locations"][0]["physicalLocation"];
        let path = place["artifactLocation"]["uri"].as_str().expect("a path");
        let named = result["locations"][0]["logicalLocations"][0]["name"].as_str();
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(path);
        let source = std::fs::read_to_string(source).expect("the path is relative to the folder");
        let line = place["region"]["startLine"].as_u64().expect("a line") as usize;
        let declared = source.lines().nth(line - 1).expect("the line is there");
        assert!(declared.contains(named.expect("a name")), "{declared}");
        let print = &result["partialFingerprints"]["transactionInvariantRule/v1"];
        fingerprints.push(print.as_str().expect("a fingerprint"));
        assert!(
            result["message"]["text"]
                .as_str()
                .is_some_and(|t| !t.is_empty())
        );
        assert!(result.get("baselineState").is_none());
    }
    assert!(
        fingerprints.contains(&"new_order/condition_2/sequential-insert"),
        "{fingerprints:?}"
    );
    let count = fingerprints.len();
    fingerprints.sort_unstable();
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), count, "each has one of its own");
}

#[test]
fn github_shows_findings_beside_their_lines() {
    let file = application("github", SQL);
    let ran = anabranch(&["analyze", text(&file), "--format", "github"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let lines: Vec<&str> = ran.out.lines().collect();
    let [line] = lines[..] else {
        panic!("one finding, one line: {}", ran.out);
    };
    let place = format!("::warning file={},line=6,col=", shown(&file));
    assert!(line.starts_with(&place), "{line}");
    let title =
        "title=unique%3A the key is chosen [unique-chosen]::reserve needs coordination for ";
    assert!(line.contains(title), "{line}");
}

#[test]
fn findings_of_a_baseline_are_not_new() {
    let file = application("baseline", SQL);
    let baseline = file.with_file_name("anabranch.json");
    let (sql, known) = (text(&file), text(&baseline));
    let wrote = anabranch(&["analyze", sql, "--write-baseline", known]);
    assert_eq!((wrote.code, wrote.err.as_str()), (0, ""), "{}", wrote.out);
    let written: Value =
        serde_json::from_str(&std::fs::read_to_string(&baseline).unwrap()).expect("it is JSON");
    let expected = serde_json::json!({"version": 1, "findings": [
        {"transaction": "reserve", "invariant": "seats_pkey", "rule": "unique-chosen"},
    ]});
    assert_eq!(written, expected);

    // Lines may move.
    std::fs::write(&file, format!("-- Flights.\n\n{SQL}")).unwrap();
    let again = anabranch(&["analyze", sql, "--baseline", known]);
    assert_eq!(again.code, 0, "{}", again.out);
    assert!(
        again.out.contains("nothing new needs coordination"),
        "{}",
        again.out
    );

    std::fs::write(&file, format!("{SQL}{MORE}")).unwrap();
    let more = anabranch(&["analyze", sql, "--baseline", known]);
    assert_eq!(more.code, 1, "{}", more.out);
    let new = "  new   swap needs coordination for seats_pkey";
    assert!(more.out.contains(new), "{}", more.out);
    assert!(!more.out.contains("  new   reserve"), "{}", more.out);
    let log = anabranch(&["analyze", sql, "--baseline", known, "--format", "sarif"]);
    assert_eq!(log.code, 1);
    let log: Value = serde_json::from_str(&log.out).expect("it is JSON");
    let states: Vec<(&Value, &Value)> = log["runs"][0]["results"]
        .as_array()
        .expect("results")
        .iter()
        .map(|r| {
            (
                &r["locations"][0]["logicalLocations"][0]["name"],
                &r["baselineState"],
            )
        })
        .collect();
    assert!(states.contains(&(&Value::from("reserve"), &Value::from("unchanged"))));
    assert!(states.contains(&(&Value::from("swap"), &Value::from("new"))));
    let lines = anabranch(&["analyze", sql, "--baseline", known, "--format", "github"]).out;
    assert!(
        lines.contains("::notice ") && lines.contains("::warning "),
        "{lines}"
    );

    let json = anabranch(&["analyze", sql, "--baseline", known, "--format", "json"]);
    assert_eq!(json.code, 1);
    let json: Value = serde_json::from_str(&json.out).expect("it is JSON");
    let against = &json["against_baseline"];
    let new = against["new"].as_array().expect("a list");
    let found = |of: &str| new.iter().filter(|f| f["transaction"] == of).count();
    assert_eq!(
        (found("swap") > 0, found("reserve")),
        (true, 0),
        "{against}"
    );
    assert_eq!(new[0]["line"], 13);
    assert_eq!(against["gone"], serde_json::json!([]));

    // A finding that is gone is reported, and is not new.
    let free = SQL.replace(
        "INSERT INTO seats (flight, seat) VALUES (p_flight, p_seat);",
        "",
    );
    std::fs::write(&file, free).unwrap();
    let gone = anabranch(&["analyze", sql, "--baseline", known]);
    assert_eq!(gone.code, 0, "{}", gone.out);
    let told = "  gone  reserve/seats_pkey/unique-chosen: not found any more";
    assert!(gone.out.contains(told), "{}", gone.out);
    let json = anabranch(&["analyze", sql, "--baseline", known, "--format", "json"]).out;
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    let expected = serde_json::json!({"new": [], "gone": [
        {"transaction": "reserve", "invariant": "seats_pkey", "rule": "unique-chosen"},
    ], "new_skipped": []});
    assert_eq!(json["against_baseline"], expected);
    let plain = anabranch(&["analyze", sql, "--format", "json"]).out;
    assert!(!plain.contains("against_baseline"), "{plain}");
}

#[test]
fn serializability_is_a_finding_of_its_own() {
    let file = application("serializable", SQL);
    let asked = ["analyze", text(&file), "--guarantee", "serializable"];
    let ran = anabranch(&[&asked[..], &["--format", "github"]].concat());
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    // In addition to the findings for invariants.
    assert_eq!(ran.out.lines().count(), 3, "{}", ran.out);
    assert!(
        ran.out
            .contains("reserve needs coordination for seats_pkey"),
        "{}",
        ran.out
    );
    for name in ["reserve", "count_one"] {
        let told = format!("{name} needs coordination for serializability");
        assert!(ran.out.contains(&told), "{}", ran.out);
    }
    let page = |more: &[&str]| {
        anabranch(&[&["analyze", text(&file), "--format", "html"], more].concat()).out
    };
    let whole = page(&asked[2..]);
    assert!(
        whole.contains("Everything is ordered") && !whole.contains("do not wait for each other")
    );
    assert!(!page(&[]).contains("Everything is ordered"));
}

#[test]
fn files_that_are_not_baselines_are_refused() {
    let file = application("no-baseline", SQL);
    let other = file.with_file_name("other.json");
    let analyze = ["analyze", text(&file), "--baseline", text(&other)];
    refused_in_one_line(&analyze, &["cannot read", "other.json"]);
    for (held, because) in [
        ("{}", "not a baseline of anabranch"),
        ("seats", "not a baseline of anabranch"),
        (
            "{\"version\": 7, \"findings\": []}",
            "the baseline has version 7",
        ),
        (
            "{\"version\": 1, \"findings\": [{\"rule\": \"x\"}]}",
            "not a baseline of anabranch",
        ),
    ] {
        std::fs::write(&other, held).unwrap();
        refused_in_one_line(&analyze, &[because, "other.json"]);
    }
    let both = [&analyze[..], &["--write-baseline", "x.json"]].concat();
    refused(&both, &["cannot be used with"]);
    // A file that is not a baseline is not overwritten: it may be the input.
    for held in [&file, &other] {
        let before = std::fs::read_to_string(held).unwrap();
        let over = ["analyze", text(&file), "--write-baseline", text(held)];
        refused_in_one_line(&over, &["is not a baseline", "name another file"]);
        assert_eq!(std::fs::read_to_string(held).unwrap(), before);
    }
    let nowhere = file.with_file_name("nowhere").join("x.json");
    let write = ["analyze", text(&file), "--write-baseline", text(&nowhere)];
    refused_in_one_line(&write, &["cannot write"]);
}

#[test]
fn a_rule_is_explained_by_its_code() {
    let ran = anabranch(&["explain", "sequential-insert"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for words in [
        "consecutive ids: insert",
        "needs coordination",
        "Two replicas that append",
        "what to do",
        "Table 2, row 5",
    ] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    refused_in_one_line(
        &["explain", "sequential"],
        &["no rule or repair is called", "FILES"],
    );
}

/// Repairs are searched with --repairs, and reported as text, JSON and HTML.
#[test]
fn repairs_are_reported_on_request() {
    let of = |more: &[&str]| {
        let ran = anabranch(&[&["analyze", "examples/payroll"], more].concat());
        assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{more:?}");
        ran.out
    };
    let without = of(&["--no-counterexamples"]);
    let with = of(&["--no-counterexamples", "--repairs"]);
    let told = with
        .strip_prefix(&without)
        .expect("repairs come behind the plan");
    for words in [
        "mark rows of departments as deleted instead of deleting them [repair-mark-deleted]",
        "2 free, 3 local, 3 global → 3 free, 3 local, 2 global",
        "+ ○ close_department free",
        "     +    UPDATE departments SET deleted = true WHERE id = p_department_id;",
        "[repair-escrow]; the result may differ",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let json = |more: &[&str]| -> Value {
        let out = of(&[&["--no-counterexamples", "--format", "json"], more].concat());
        serde_json::from_str(&out).expect("it is JSON")
    };
    assert!(json(&[]).get("repairs").is_none());
    assert_eq!(json(&["--repairs=0"])["repairs"], serde_json::json!([]));
    let read = json(&["--repairs"]);
    let repair = &read["repairs"][0];
    assert_eq!(repair["kind"], "repair-mark-deleted");
    assert_eq!(repair["plan"]["after"]["free"], 3);
    let page = of(&["--no-counterexamples", "--format", "html", "--repairs"]);
    assert_eq!(page.matches("<article class=\"repair\">").count(), 1);
    assert!(page.contains("<span class=\"come\">+    UPDATE departments SET deleted = true"));
    let explained = anabranch(&["explain", "repair-mark-deleted"]);
    assert!(
        explained.out.contains("gives up    Marked rows stay"),
        "{}",
        explained.out
    );
}

/// The repair's diff, applied to the files, gives the plan that it reports. Files of invariants, which a repair
/// may not change, are read again as well.
#[test]
fn a_repair_can_be_applied() {
    let folder = scratch("repairs-made");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/payroll");
    for file in ["schema.sql", "procedures.sql", "assertions.sql"] {
        std::fs::copy(examples.join(file), folder.join(file)).unwrap();
    }
    let files = [
        "analyze",
        "schema.sql",
        "procedures.sql",
        "--invariants",
        "assertions.sql",
    ];
    let report = |more: &[&str]| -> Value {
        let ran = anabranch_in(&folder, &[&files[..], &["--format", "json"], more].concat());
        serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err))
    };
    let told = report(&["--repairs=1"]);
    let diff = told["repairs"][0]["diff"].as_str().expect("a diff");
    let changes: Vec<&str> = diff.lines().filter(|l| l.starts_with(['-', '+'])).collect();
    for file in ["schema.sql", "procedures.sql"] {
        let mut text = std::fs::read_to_string(folder.join(file)).unwrap();
        for pair in changes.windows(2) {
            // An added line replaces a removed one, or follows the last column of the table.
            match (pair[0].strip_prefix('-'), pair[1].strip_prefix('+')) {
                (Some(old), Some(new)) if text.contains(old) => text = text.replace(old, new),
                _ => {}
            }
        }
        let mark = changes
            .iter()
            .find(|l| l.contains("deleted boolean"))
            .expect("the mark");
        let last = "    total_salary numeric(14, 2) NOT NULL DEFAULT 0,\n";
        text = text.replace(last, &format!("{last}{}\n", &mark[1..]));
        std::fs::write(folder.join(file), text).unwrap();
    }
    let after = report(&[]);
    let classes = |class: &str| {
        let types = after["transactions"].as_array().expect("types").iter();
        types.filter(|of| of["class"] == class).count()
    };
    let said = &told["repairs"][0]["plan"]["after"];
    for class in ["free", "local", "global"] {
        assert_eq!(said[class], classes(class), "{class}: {diff}");
    }
}

/// The page has the types, edges and counterexamples of the JSON report.
#[test]
fn a_page_shows_types_edges_and_counterexamples() {
    let ran = anabranch(&["analyze", "examples/payroll", "--format", "html"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let page = &ran.out;
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for nothing_beside in ["<script", "<link", "http-equiv", "src=", "@import"] {
        assert!(!page.contains(nothing_beside), "{nothing_beside}");
    }
    let plan = anabranch(&["analyze", "examples/payroll", "--format", "json"]);
    let plan: Value = serde_json::from_str(&plan.out).expect("it is JSON");
    for (at, transaction) in plan["transactions"]
        .as_array()
        .expect("types")
        .iter()
        .enumerate()
    {
        let name = transaction["name"].as_str().expect("a name");
        assert!(page.contains(&format!("id=\"type-{at}\"")), "{name}");
        assert!(
            page.contains(&format!(">{name}</text>")),
            "{name} is in the graph"
        );
        let needing = transaction["verdicts"].as_array().expect("verdicts").iter();
        for verdict in needing.filter(|verdict| verdict["confluent"] != "yes") {
            let (invariant, rule) = (&verdict["invariant"], &verdict["rule"]);
            let [invariant, rule] = [invariant, rule].map(|text| text.as_str().expect("a text"));
            assert!(
                page.contains(&format!("{invariant} <span class=\"soft\">[")),
                "{invariant}"
            );
            assert!(page.contains(rule), "{rule}");
        }
    }
    let examples = plan["counterexamples"].as_array().expect("some").len();
    assert!(examples > 0 && page.matches("class=\"steps\"").count() == examples);
}

#[test]
fn names_in_a_page_are_no_markup() {
    let sql = "CREATE TABLE t (\"a<b\" integer PRIMARY KEY, b text CHECK (b <> '<&\"'));
CREATE PROCEDURE \"p<i>\"(k integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO t (\"a<b\", b) VALUES (k, '<script>');
END;
";
    let file = application("page-names", sql);
    let file = text(&file);
    let known = scratch("page-names-known").join("known.json");
    assert_eq!(
        anabranch(&["analyze", file, "--write-baseline", text(&known)]).code,
        0
    );
    let page = anabranch(&[
        "analyze",
        file,
        "--format",
        "html",
        "--baseline",
        text(&known),
    ]);
    assert_eq!(page.code, 0, "{}", page.err);
    for raw in ["a<b", "p<i>", "<script>"] {
        assert!(!page.out.contains(raw), "{raw}");
    }
    for said in [
        "p&lt;i&gt; with itself",
        "&lt;script&gt;",
        "Nothing new needs coordination",
    ] {
        assert!(page.out.contains(said), "{said}: {}", page.out);
    }
}
