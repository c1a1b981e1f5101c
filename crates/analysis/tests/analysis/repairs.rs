//! Repairs: what is offered, that analysing the changed files gives the promised plan, and that only what the diff
//! shows is changed.

mod checks;
mod combinations;
mod shares;

use anabranch_analysis::Plan;
use anabranch_analysis::repair::{Repair, Repairs, Subject, propose};
use anabranch_analysis::report::json::{self, Sections};
use anabranch_analysis::report::repairs::{BestRepairs, render};
use anabranch_analysis::report::text;
use anabranch_analysis::{Guarantee, Options, analyze_with};
use anabranch_sql::SourceFile;
use anabranch_sql::script::{self, Script};
use anabranch_sql::testing::{Store, ready};
use anabranch_types::{Decimal, Value};

use crate::counterexamples::EXAMPLES;
use crate::schema::check;
use crate::support::example_files;

/// An account from and to which programs move amounts in their usual way: read, compute, write.
const BANK: &str = "CREATE TABLE account (
    id integer PRIMARY KEY,
    owner integer NOT NULL,
    balance numeric(12, 2) NOT NULL
);

CREATE PROCEDURE deposit(p_id integer, p_amount numeric)
LANGUAGE plpgsql AS $$
DECLARE
    had  numeric;
    left_over numeric;
BEGIN
    SELECT balance INTO had FROM account WHERE id = p_id;
    left_over := had - 1;
    -- A fee of one.
    UPDATE account SET balance = left_over + p_amount WHERE id = p_id;
END;
$$;

CREATE PROCEDURE interest(p_id integer)
LANGUAGE plpgsql AS $$
DECLARE
    row record;
BEGIN
    SELECT * INTO STRICT row FROM account WHERE id = p_id;
    IF row.owner > 0 THEN
        UPDATE account SET balance = row.balance * 2 WHERE id = p_id;
    END IF;
END;
$$;
";

/// Orders as in TPC-C, whose numbers the program takes; and keys as programs make them.
const ORDERS: &str = "CREATE TABLE district (
    w_id integer NOT NULL,
    d_id integer NOT NULL,
    tax numeric(4, 4) NOT NULL,
    next_o_id integer NOT NULL,
    PRIMARY KEY (w_id, d_id)
);
CREATE TABLE orders (
    w_id integer NOT NULL,
    d_id integer NOT NULL,
    o_id integer NOT NULL,
    tax numeric(4, 4) NOT NULL,
    PRIMARY KEY (w_id, d_id, o_id)
);
CREATE TABLE history (
    h_id integer NOT NULL,
    amount numeric(6, 2) NOT NULL,
    PRIMARY KEY (h_id)
);

CREATE PROCEDURE new_order(p_w_id integer, p_d_id integer)
LANGUAGE plpgsql AS $$
DECLARE
    rate numeric;
    number integer;
BEGIN
    SELECT tax, next_o_id INTO rate, number FROM district WHERE w_id = p_w_id AND d_id = p_d_id;
    INSERT INTO orders (w_id, d_id, o_id, tax) VALUES (p_w_id, p_d_id, number, rate);
    UPDATE district SET next_o_id = number + 1 WHERE w_id = p_w_id AND d_id = p_d_id;
END;
$$;

CREATE PROCEDURE pay(p_amount numeric)
LANGUAGE plpgsql AS $$
DECLARE
    number integer;
BEGIN
    SELECT coalesce(max(h_id), 0) + 1 INTO number FROM history;
    INSERT INTO history (h_id, amount) VALUES (number, p_amount);
END;
$$;
";

fn read(files: Vec<SourceFile>) -> Result<Script, String> {
    let kept = files.clone();
    let read = script::read(files).map_err(|found| anabranch_sql::render(&found, &kept))?;
    match read.skipped.first() {
        None => Ok(read),
        Some(left) => Err(left.diagnostic.message.clone()),
    }
}

/// Repairs of an application, whose files may all be changed.
fn repairs(files: &[SourceFile], guarantee: Guarantee) -> Repairs {
    let script = read(files.to_vec()).unwrap_or_else(|error| panic!("{error}"));
    repairs_of(&script, files.len(), guarantee).1
}

/// The same, with the plan. The first `own` files may be changed.
fn repairs_of(script: &Script, own: usize, guarantee: Guarantee) -> (Plan, Repairs) {
    let options = Options {
        guarantee,
        ..Options::default()
    };
    let catalog = script.application.catalog();
    let plan = analyze_with(catalog, &script.summaries, &options);
    let rest = catalog.files[own..].to_vec();
    let found = propose(Subject {
        catalog,
        summaries: &script.summaries,
        plan: &plan,
        options: &options,
        files: own,
        read: &|changed| read([changed, rest.clone()].concat()),
    });
    (plan, found)
}

fn of(sql: &str) -> Repairs {
    repairs(&[SourceFile::new("app.sql", sql)], Guarantee::Invariants)
}

#[track_caller]
fn offered<'r>(found: &'r Repairs, kind: &str) -> &'r Repair {
    let mut offered = found
        .offered
        .iter()
        .filter(|repair| repair.kind.code == kind);
    let first = offered.next();
    first.unwrap_or_else(|| panic!("no {kind} in {}", shown(found)))
}

fn shown(repairs: &Repairs) -> String {
    render(BestRepairs {
        repairs,
        shown_max: usize::MAX,
    })
}

/// Compares with a golden file; `UPDATE_REPAIRS=1` rewrites it.
#[track_caller]
fn golden(name: &str, found: &Repairs) {
    let path = format!(
        "{}/tests/analysis/repairs/{name}.txt",
        env!("CARGO_MANIFEST_DIR")
    );
    if std::env::var_os("UPDATE_REPAIRS").is_some() {
        std::fs::write(&path, shown(found)).expect("the file can be written");
    }
    let before = std::fs::read_to_string(&path).expect("the file is there");
    assert_eq!(shown(found), before);
}

/// Applies a diff to the files, by its text alone.
fn patched(files: &[SourceFile], diff: &str) -> Vec<SourceFile> {
    let mut changed = files.to_vec();
    let mut lines = diff.lines().peekable();
    while let Some(header) = lines.next() {
        let name = header.strip_prefix("--- ").expect("a file");
        assert_eq!(lines.next(), Some(format!("+++ {name}").as_str()));
        let file = changed.iter_mut().find(|file| file.name == name);
        let file = file.expect("a file that there is");
        let old: Vec<&str> = file.text.split_inclusive('\n').collect();
        let (mut new, mut done) = (String::new(), 0);
        while let Some(hunk) = lines.next_if(|line| line.starts_with("@@")) {
            let place = hunk.trim_start_matches("@@ -").split([',', ' ']).next();
            let start: usize = place.and_then(|p| p.parse().ok()).expect("a place");
            new.extend(old[done..start - 1].iter().copied());
            done = start - 1;
            while let Some(line) = lines.next_if(|l| !l.starts_with("@@") && !l.starts_with("---"))
            {
                let (sign, text) = line.split_at(1);
                if sign != "+" {
                    assert_eq!(old[done].trim_end_matches('\n'), text, "{hunk}");
                    done += 1;
                }
                if sign != "-" {
                    new.push_str(text);
                    new.push('\n');
                }
            }
        }
        new.extend(old[done..].iter().copied());
        file.text = new.into();
    }
    changed
}

/// The report's text on the transactions of the files' plan, by class.
fn analysed(files: Vec<SourceFile>, options: &Options) -> String {
    let script = read(files).unwrap_or_else(|error| panic!("{error}"));
    let catalog = script.application.catalog();
    let plan = analyze_with(catalog, &script.summaries, options);
    text::render(&plan, catalog, &script.summaries)
}

/// Every offered repair of every example, and of the applications here, is what its diff says, and has the plan
/// that it promises: the report of the changed files has each type with the promised class, routing and guards.
#[test]
fn an_offered_plan_is_the_analysis_of_the_changed_files() {
    let mut applications: Vec<(String, Vec<SourceFile>)> = EXAMPLES
        .iter()
        .chain(&["tpcc", "tpcw", "rubis"])
        .map(|name| ((*name).to_owned(), example_files(name)))
        .collect();
    for (name, sql) in [
        ("bank here", BANK),
        ("orders here", ORDERS),
        ("stock here", checks::STOCK),
        ("cart here", shares::CART),
    ] {
        applications.push((name.to_owned(), vec![SourceFile::new("app.sql", sql)]));
    }
    let mut seen = std::collections::BTreeMap::new();
    for (name, files) in &applications {
        for repair in repairs(files, Guarantee::Invariants).offered {
            *seen.entry(repair.kind.code).or_insert(0) += 1;
            let changed = patched(files, &repair.diff);
            for (file, told) in changed.iter().zip(&repair.files) {
                assert_eq!(
                    file.text, told.text,
                    "{name}: {}: {}",
                    repair.title, repair.diff
                );
            }
            let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let report = flat(&analysed(changed, &repair.options));
            let before = flat(&analysed(files.clone(), &repair.options));
            assert_ne!(report, before, "{name}: {}", repair.title);
            let after = repair.change.after;
            let summary = format!(
                "{} free, {} local, {} global",
                after.free, after.local, after.global
            );
            assert!(
                report.contains(&summary),
                "{name}: {}: {summary}: {report}",
                repair.title
            );
            assert!(!repair.change.types.is_empty(), "{name}: {}", repair.title);
            for of in &repair.change.types {
                let routed = match (of.after.routing.as_slice(), &of.after.routing_array) {
                    ([], None) => "any node".to_owned(),
                    ([], Some(array)) => format!("routed by most of {array}"),
                    (names, _) => format!("routed by {}", names.join(", ")),
                };
                let class = format!("{:?}", of.after.class).to_lowercase();
                let line = format!("{} {class} {routed}", of.name);
                assert!(report.contains(&line), "{name}: {line}: {report}");
                for guard in &of.after.guards {
                    let line = format!("coordinates on {guard}");
                    assert!(report.contains(&flat(&line)), "{name}: {line}: {report}");
                }
            }
        }
    }
    // Each kind that SQL allows was offered.
    let kinds: Vec<&str> = seen.keys().copied().collect();
    assert_eq!(
        kinds,
        [
            "repair-check-in-update",
            "repair-combination",
            "repair-escrow",
            "repair-generated-key",
            "repair-increment",
            "repair-mark-deleted",
            "repair-routing-parameter",
            "repair-take-number",
        ],
        "{seen:?}"
    );
}

#[test]
fn a_value_computed_from_a_read_becomes_a_function_of_the_row() {
    let found = of(BANK);
    golden("bank", &found);
    let repair = offered(&found, "repair-increment");
    assert_eq!(repair.change.after.free, 2, "{}", shown(&found));
}

#[test]
fn numbers_are_taken_at_commit_and_keys_generated() {
    let found = of(ORDERS);
    golden("orders", &found);
    offered(&found, "repair-take-number");
    offered(&found, "repair-generated-key");
}

#[test]
fn payroll_can_mark_departments_as_closed() {
    let found = repairs(&example_files("payroll"), Guarantee::Invariants);
    golden("payroll", &found);
    let repair = offered(&found, "repair-mark-deleted");
    let close = repair
        .change
        .types
        .iter()
        .find(|t| t.name == "close_department");
    let class = close.map(|of| format!("{:?}", of.after.class));
    assert_eq!(class.as_deref(), Some("Free"), "{}", shown(&found));
}

#[test]
fn small_banks_callers_can_pass_the_customers() {
    let found = repairs(&example_files("smallbank"), Guarantee::Invariants);
    let repair = offered(&found, "repair-routing-parameter");
    let of = &repair.change.types[0];
    assert_eq!(of.after.routing, ["p_customer_id"], "{}", shown(&found));
    assert_eq!(
        format!("{:?}", of.after.class),
        "Local",
        "{}",
        shown(&found)
    );
}

#[test]
fn a_serializable_application_can_use_the_weaker_guarantee() {
    let found = repairs(&example_files("tatp"), Guarantee::Serializable);
    let repair = offered(&found, "repair-guarantee");
    assert_eq!(repair.diff, "");
    assert_eq!(repair.options.guarantee, Guarantee::Invariants);
    assert_eq!(repair.change.after.free, 6, "{}", shown(&found));
}

/// The contents of some tables after these calls, one after another, on these rows.
fn left_by(
    files: Vec<SourceFile>,
    rows: &[&str],
    calls: &[(&str, &[Value])],
    tables: &[&str],
) -> Vec<Vec<Vec<Value>>> {
    let application = read(files)
        .unwrap_or_else(|error| panic!("{error}"))
        .application;
    let mut store = Store::new(&application);
    for row in rows {
        let insert = application.statement(row).expect("it compiles");
        ready(insert.execute(&mut store.begin(), &[])).expect("it is inserted");
    }
    for (name, arguments) in calls {
        let mut transaction = store.begin();
        let procedure = application.find(name).expect("it is declared");
        if ready(procedure.call(&mut transaction, arguments)).is_err() {
            transaction.rollback();
        }
    }
    tables.iter().map(|table| store.rows(table)).collect()
}

/// Called one after another, the changed procedures do what the original ones did: also if a row does not exist.
#[test]
fn run_serially_a_repaired_application_gives_the_same_rows() {
    let int = |n: i64| Value::Int(n);
    let rows = [
        "INSERT INTO account VALUES (1, 7, 10.50)",
        "INSERT INTO account VALUES (2, 0, 3)",
        "INSERT INTO account VALUES (3, 4, -8)",
    ];
    let amount = |text: &str| Value::Numeric(Decimal::parse(text).expect("a number"));
    let (five, less) = (amount("5.25"), amount("-2"));
    let calls: Vec<(&str, Vec<Value>)> = (1..=4)
        .flat_map(|id| {
            [
                ("deposit", vec![int(id), five.clone()]),
                ("interest", vec![int(id)]),
                ("deposit", vec![int(id), less.clone()]),
            ]
        })
        .collect();
    let calls: Vec<(&str, &[Value])> = calls.iter().map(|(n, a)| (*n, a.as_slice())).collect();
    let found = of(BANK);
    let before = vec![SourceFile::new("app.sql", BANK)];
    let changed = offered(&found, "repair-increment").files.clone();
    let left = |files| left_by(files, &rows, &calls, &["account"]);
    let was = left(before);
    assert_eq!(left(changed), was);
    assert_ne!(was[0][0][2], amount("10.50"), "they do something");

    let rows = [
        "INSERT INTO district VALUES (1, 1, 0.1, 3001)",
        "INSERT INTO district VALUES (1, 2, 0.2, 7)",
    ];
    let of_district = |d: i64| ("new_order", vec![int(1), int(d)]);
    // There is no third district.
    let calls: Vec<(&str, Vec<Value>)> = [1, 2, 1, 3, 1].map(of_district).to_vec();
    let calls: Vec<(&str, &[Value])> = calls.iter().map(|(n, a)| (*n, a.as_slice())).collect();
    let found = of(ORDERS);
    let before = vec![SourceFile::new("app.sql", ORDERS)];
    let changed = offered(&found, "repair-take-number").files.clone();
    let left = |files| left_by(files, &rows, &calls, &["district", "orders"]);
    let was = left(before);
    assert_eq!(left(changed), was);
    assert_eq!(was[1].len(), 4, "{was:?}");
}

/// With an additional condition on the passed value, a read finds the same row as without it, and no other.
#[test]
fn a_wrong_value_finds_nothing() {
    let files = example_files("smallbank");
    let found = repairs(&files, Guarantee::Invariants);
    let mut routed = found
        .offered
        .iter()
        .filter(|of| of.steps.is_empty() && of.diff.contains("transact_savings("));
    let changed = routed
        .next()
        .expect("it is among those that are offered")
        .files
        .clone();
    let rows = [
        "INSERT INTO account VALUES ('a', 1), ('b', 2)",
        "INSERT INTO savings VALUES (1, 10), (2, 20)",
    ];
    let arguments = |more: &[i64]| {
        let mut arguments = vec![
            Value::Text("a".into()),
            Value::Numeric(Decimal::parse("5").expect("a number")),
        ];
        arguments.extend(more.iter().map(|n| Value::Int(*n)));
        arguments
    };
    let left = |files: &[SourceFile], arguments: &[Value]| {
        let calls = [("transact_savings", arguments)];
        left_by(files.to_vec(), &rows, &calls, &["savings"])
    };
    let was = left(&files, &arguments(&[]));
    assert_eq!(left(&changed, &arguments(&[1])), was);
    let nothing = left_by(files.clone(), &rows, &[], &["savings"]);
    assert_ne!(was, nothing);
    assert_eq!(left(&changed, &arguments(&[2])), nothing);
}

/// A change that would alter a transaction that runs alone is no repair.
#[test]
fn a_change_that_is_not_equivalent_is_not_offered() {
    for (what, from, to) in [
        // Another statement may have changed the row in between.
        (
            "written between",
            "    left_over := had - 1;",
            "    UPDATE account SET balance = 0 WHERE id = p_id;\n    left_over := had - 1;",
        ),
        // Another row is read.
        (
            "another row",
            "INTO had FROM account WHERE id = p_id",
            "INTO had FROM account WHERE id = p_id + 1",
        ),
        // The variable has more than one value.
        (
            "set twice",
            "    left_over := had - 1;",
            "    left_over := had - 1;\n    IF p_amount > 5 THEN had := 7; left_over := had; END IF;",
        ),
        // It is added more than once.
        (
            "in a loop",
            "    UPDATE account SET balance = left_over + p_amount WHERE id = p_id;",
            "    FOR i IN 1..2 LOOP UPDATE account SET balance = left_over + p_amount WHERE id = p_id; END LOOP;",
        ),
    ] {
        let sql = BANK.replacen(from, to, 1);
        assert_ne!(sql, BANK, "{what}");
        for repair in &of(&sql).offered {
            let places: Vec<u32> = repair.places.iter().map(|(_, line)| *line).collect();
            assert!(
                places.iter().all(|line| *line > 20),
                "{what}: {places:?}: {}",
                repair.diff
            );
        }
    }
}

/// A number that decides something cannot wait for the commit, and the repair does not claim so; a read of the
/// counter in between prevents the move.
#[test]
fn a_number_that_is_used_is_not_announced_for_commit() {
    let with = |statement: &str| {
        let sql = ORDERS.replacen(
            "    INSERT INTO orders",
            &format!("    {statement}\n    INSERT INTO orders"),
            1,
        );
        let found = of(&sql);
        let told = shown(&found);
        let offered = found
            .offered
            .iter()
            .any(|repair| repair.kind.code == "repair-take-number");
        (offered, told.contains("only after the commit"), told)
    };
    // The guard of the counter stays, and covers that of the rows as before.
    let (offered, at_commit, told) = with("IF number > 3000 THEN RAISE EXCEPTION 'full'; END IF;");
    assert!(!offered && !at_commit, "{told}");
    let (offered, _, told) =
        with("PERFORM tax FROM district WHERE w_id = p_w_id AND d_id = p_d_id;");
    assert!(!offered, "{told}");
}

/// An assertion that counts rows would count marked ones: then no repair marks.
#[test]
fn rows_that_are_counted_are_not_marked() {
    let mut files = example_files("payroll");
    let counting = "\nCREATE ASSERTION few CHECK ((SELECT count(*) FROM departments) <= 9);\n";
    let text = format!("{}{counting}", files[1].text);
    files[1].text = text.into();
    let found = repairs(&files, Guarantee::Invariants);
    let codes: Vec<&str> = found
        .offered
        .iter()
        .map(|repair| repair.kind.code)
        .collect();
    assert!(!codes.contains(&"repair-mark-deleted"), "{}", shown(&found));
}

/// Files that are not the application's own are not changed, though a repair of them would help.
#[test]
fn files_of_others_stay_as_they_are() {
    let tables = ORDERS.find("\nCREATE PROCEDURE").expect("procedures");
    let (schema, procedures) = ORDERS.split_at(tables);
    let files = [
        SourceFile::new("procedures.sql", procedures),
        SourceFile::new("schema.sql", schema),
    ];
    let script = read(files.to_vec()).unwrap_or_else(|error| panic!("{error}"));
    let codes = |own: usize| -> Vec<&str> {
        let (_, found) = repairs_of(&script, own, Guarantee::Invariants);
        let changed = found.offered.iter().all(|of| of.files.len() == own);
        assert!(changed, "{}", shown(&found));
        found.offered.iter().map(|of| of.kind.code).collect()
    };
    assert!(codes(2).contains(&"repair-generated-key"));
    assert_eq!(codes(1), ["repair-take-number"]);
    assert_eq!(codes(0), [""; 0]);
}

#[test]
fn repairs_in_json_follow_the_schema() {
    for guarantee in [Guarantee::Invariants, Guarantee::Serializable] {
        let files = example_files("payroll");
        let script = read(files.clone()).unwrap_or_else(|error| panic!("{error}"));
        let (plan, repairs) = repairs_of(&script, files.len(), guarantee);
        let besides = |shown_max| Sections {
            repairs: Some(BestRepairs {
                repairs: &repairs,
                shown_max,
            }),
            ..Sections::default()
        };
        let catalog = script.application.catalog();
        let report = |shown_max| -> serde_json::Value {
            let text = json::render(&plan, catalog, &script.summaries, besides(shown_max));
            serde_json::from_str(&text).expect("the report is JSON")
        };
        let all = report(usize::MAX);
        assert_eq!(check(&all), Vec::<String>::new());
        let told = |report: &serde_json::Value| report["repairs"].as_array().map(Vec::len);
        assert_eq!(told(&all), Some(repairs.offered.len()));
        assert!(told(&all) > Some(0));
        assert_eq!(told(&report(0)), Some(0));
        assert_eq!(report(0)["repair_search"]["offered"], repairs.offered.len());
    }
}
