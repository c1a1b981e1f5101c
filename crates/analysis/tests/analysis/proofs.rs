//! What the solver proves of CHECK constraints, and what it must not: each verdict beside the exploration.

use anabranch_analysis::explore::{Effort, Explorer};
use anabranch_analysis::plan::{Confluence, Plan};
use anabranch_analysis::solve::Solver;
use anabranch_analysis::{Options, analyze_with};
use anabranch_sql::{Application, SourceFile};

use crate::solver::z3;

/// An application of one table with one relevant CHECK, and which of its types need no order for it.
struct Case {
    /// A title.
    name: &'static str,
    /// The columns behind `id integer PRIMARY KEY`, with the constraint `it`.
    columns: &'static str,
    /// The types: name, parameters behind `p_id`, and statements.
    types: &'static [(&'static str, &'static str, &'static str)],
    /// The types that need no order for `it`, and whether the solver says so.
    free: &'static [&'static str],
    proved: bool,
}

const CASES: &[Case] = &[
    Case {
        name: "two counters that shrink below a bound of their sum",
        columns: "a integer NOT NULL, b integer NOT NULL, CONSTRAINT it CHECK (a + b <= 10)",
        types: &[
            ("use_a", "", "UPDATE t SET a = a - 1 WHERE id = p_id;"),
            ("use_b", "", "UPDATE t SET b = b - 2 WHERE id = p_id;"),
        ],
        free: &["use_a", "use_b"],
        proved: true,
    },
    Case {
        name: "a range whose ends move apart",
        columns: "lo integer NOT NULL, hi integer NOT NULL, CONSTRAINT it CHECK (lo <= hi)",
        types: &[
            (
                "lower",
                "p_n integer",
                "IF p_n < 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET lo = lo - p_n WHERE id = p_id;",
            ),
            (
                "raise_it",
                "p_n integer",
                "IF p_n < 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET hi = hi + p_n WHERE id = p_id;",
            ),
        ],
        free: &["lower", "raise_it"],
        proved: true,
    },
    Case {
        name: "a range whose ends move by amounts of unknown sign",
        columns: "lo integer NOT NULL, hi integer NOT NULL, CONSTRAINT it CHECK (lo <= hi)",
        types: &[
            (
                "lower",
                "p_n integer",
                "UPDATE t SET lo = lo - p_n WHERE id = p_id;",
            ),
            (
                "raise_it",
                "p_n integer",
                "UPDATE t SET hi = hi + p_n WHERE id = p_id;",
            ),
        ],
        free: &[],
        proved: false,
    },
    Case {
        name: "what is moved from one column to the other",
        columns: "a integer NOT NULL, b integer NOT NULL, CONSTRAINT it CHECK (a + b = 3)",
        types: &[(
            "shift",
            "p_n integer",
            "UPDATE t SET a = a - p_n, b = b + p_n WHERE id = p_id;",
        )],
        free: &["shift"],
        proved: true,
    },
    Case {
        name: "what is moved is rounded on its way",
        columns: "a numeric(10,0) NOT NULL, b numeric(10,1) NOT NULL, CONSTRAINT it CHECK (a + b <= 3)",
        types: &[(
            "shift",
            "p_n numeric",
            "UPDATE t SET a = a - p_n, b = b + p_n WHERE id = p_id;",
        )],
        free: &[],
        proved: false,
    },
    Case {
        name: "steps of two to one of the other",
        columns: "a integer NOT NULL, b integer NOT NULL, CONSTRAINT it CHECK (a <= 2 * b)",
        types: &[(
            "step",
            "",
            "UPDATE t SET a = a + 2, b = b + 1 WHERE id = p_id;",
        )],
        free: &["step"],
        proved: true,
    },
    Case {
        name: "steps of three to one of the other",
        columns: "a integer NOT NULL, b integer NOT NULL, CONSTRAINT it CHECK (a <= 2 * b + 4)",
        types: &[(
            "step",
            "",
            "UPDATE t SET a = a + 3, b = b + 1 WHERE id = p_id;",
        )],
        free: &[],
        proved: false,
    },
    Case {
        name: "shipped once paid, and nothing takes a payment back",
        columns: "status text NOT NULL, paid boolean NOT NULL, CONSTRAINT it CHECK (status <> 'shipped' OR paid)",
        types: &[
            ("pay", "", "UPDATE t SET paid = true WHERE id = p_id;"),
            (
                "ship",
                "",
                "UPDATE t SET status = 'shipped' WHERE id = p_id;",
            ),
            (
                "recall",
                "",
                "UPDATE t SET status = 'recalled' WHERE id = p_id;",
            ),
        ],
        free: &["pay", "ship", "recall"],
        proved: true,
    },
    Case {
        name: "shipped once paid, and a payment may be taken back",
        columns: "status text NOT NULL, paid boolean NOT NULL, CONSTRAINT it CHECK (status <> 'shipped' OR paid)",
        types: &[
            ("pay", "", "UPDATE t SET paid = true WHERE id = p_id;"),
            ("refund", "", "UPDATE t SET paid = false WHERE id = p_id;"),
            (
                "ship",
                "",
                "UPDATE t SET status = 'shipped' WHERE id = p_id;",
            ),
            (
                "recall",
                "",
                "UPDATE t SET status = 'recalled' WHERE id = p_id;",
            ),
        ],
        free: &["pay", "recall"],
        proved: true,
    },
    Case {
        name: "a date that is set once something is closed",
        columns: "state text NOT NULL, closed_at timestamp, CONSTRAINT it CHECK ((state = 'closed') = (closed_at IS NOT NULL))",
        types: &[
            (
                "close",
                "",
                "UPDATE t SET state = 'closed', closed_at = now() WHERE id = p_id;",
            ),
            (
                "reopen",
                "",
                "UPDATE t SET state = 'open', closed_at = NULL WHERE id = p_id;",
            ),
        ],
        free: &["close", "reopen"],
        proved: false, // By a rule: they are assigned together.
    },
    Case {
        name: "assigned together, and one of them apart without harm",
        columns: "state text NOT NULL, note text, CONSTRAINT it CHECK (state <> 'closed' OR note IS NOT NULL)",
        types: &[
            (
                "close",
                "p_note text",
                "UPDATE t SET state = 'closed', note = 'closed' WHERE id = p_id;",
            ),
            ("reopen", "", "UPDATE t SET state = 'open' WHERE id = p_id;"),
        ],
        free: &["close", "reopen"],
        proved: true,
    },
    Case {
        name: "assigned together, and one of them apart as a parameter says",
        columns: "state text NOT NULL, note text, CONSTRAINT it CHECK (state <> 'closed' OR note IS NOT NULL)",
        types: &[
            (
                "close",
                "p_note text",
                "UPDATE t SET state = 'closed', note = 'closed' WHERE id = p_id;",
            ),
            (
                "annotate",
                "p_note text",
                "UPDATE t SET note = p_note WHERE id = p_id;",
            ),
        ],
        free: &[],
        proved: false,
    },
    Case {
        name: "none, or at least five",
        columns: "n integer NOT NULL, CONSTRAINT it CHECK (n = 0 OR n >= 2)",
        types: &[(
            "more",
            "p_n integer",
            "IF p_n < 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET n = n + p_n WHERE id = p_id;",
        )],
        free: &["more"],
        proved: true,
    },
    Case {
        name: "anything but three",
        columns: "n integer NOT NULL, CONSTRAINT it CHECK (n <> 3)",
        types: &[(
            "more",
            "p_n integer",
            "IF p_n < 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET n = n + p_n WHERE id = p_id;",
        )],
        free: &[],
        proved: false,
    },
    Case {
        name: "only even steps away from an odd number",
        columns: "n integer NOT NULL, m integer NOT NULL, CONSTRAINT it CHECK (n + m <> 5 OR n = m)",
        types: &[(
            "more",
            "",
            "UPDATE t SET n = n + 1, m = m + 1 WHERE id = p_id;",
        )],
        free: &[],
        proved: false,
    },
    Case {
        name: "a sum that shrinks freely where what grows is ordered",
        columns: "a integer NOT NULL, b integer NOT NULL, CONSTRAINT it CHECK (a + b <= 4)",
        types: &[
            ("fill_a", "", "UPDATE t SET a = a + 1 WHERE id = p_id;"),
            ("fill_b", "", "UPDATE t SET b = b + 1 WHERE id = p_id;"),
            ("drain_a", "", "UPDATE t SET a = a - 1 WHERE id = p_id;"),
            ("drain_b", "", "UPDATE t SET b = b - 1 WHERE id = p_id;"),
        ],
        free: &["drain_a", "drain_b"],
        proved: true,
    },
    Case {
        name: "NULL passes, and adding NULL makes it so",
        columns: "a integer, b integer, CONSTRAINT it CHECK (a + b <= 4)",
        types: &[
            (
                "use_a",
                "p_n integer",
                "IF p_n < 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET a = a - p_n WHERE id = p_id;",
            ),
            ("use_b", "", "UPDATE t SET b = b - 1 WHERE id = p_id;"),
        ],
        free: &["use_a", "use_b"],
        proved: true,
    },
    Case {
        name: "one of the two is there, and each may go",
        columns: "a integer, b integer, CONSTRAINT it CHECK (a IS NOT NULL OR b IS NOT NULL)",
        types: &[
            (
                "use_a",
                "p_n integer",
                "UPDATE t SET a = a + p_n WHERE id = p_id;",
            ),
            (
                "use_b",
                "p_n integer",
                "UPDATE t SET b = b + p_n WHERE id = p_id;",
            ),
        ],
        free: &[],
        proved: false,
    },
    Case {
        name: "a test that is not looked into, of what is assigned together with more",
        columns: "a text, b text, n integer NOT NULL, CONSTRAINT it CHECK (a LIKE b OR n < 0)",
        types: &[
            (
                "set_both",
                "p_a text, p_b text",
                "UPDATE t SET a = p_a, b = p_b WHERE id = p_id;",
            ),
            ("lower", "", "UPDATE t SET n = n - 1 WHERE id = p_id;"),
        ],
        free: &["set_both", "lower"],
        proved: true,
    },
    Case {
        name: "a test that is not looked into, of what is assigned apart",
        columns: "a text, b text, n integer NOT NULL, CONSTRAINT it CHECK (a LIKE b OR n < 0)",
        types: &[
            ("set_a", "p_a text", "UPDATE t SET a = p_a WHERE id = p_id;"),
            ("set_b", "p_b text", "UPDATE t SET b = p_b WHERE id = p_id;"),
        ],
        free: &[],
        proved: false,
    },
    Case {
        name: "division is not followed",
        columns: "a integer NOT NULL, b integer NOT NULL, CONSTRAINT it CHECK (a / 2 + b <= 10)",
        types: &[
            ("use_a", "", "UPDATE t SET a = a - 1 WHERE id = p_id;"),
            ("use_b", "", "UPDATE t SET b = b - 2 WHERE id = p_id;"),
        ],
        free: &[],
        proved: false,
    },
    Case {
        name: "what the row's owner computes may be anything",
        columns: "a integer NOT NULL, b integer NOT NULL, CONSTRAINT it CHECK (a + b <= 10)",
        types: &[
            (
                "halve",
                "",
                "UPDATE t SET a = greatest(a, b) WHERE id = p_id;",
            ),
            ("use_b", "", "UPDATE t SET b = b - 2 WHERE id = p_id;"),
        ],
        free: &[],
        proved: false,
    },
    Case {
        name: "a flag that is raised with an amount, and both only ever grow",
        columns: "n numeric NOT NULL, big boolean NOT NULL, CONSTRAINT it CHECK (NOT big OR n > 2.5)",
        types: &[
            ("more", "", "UPDATE t SET n = n + 1.5 WHERE id = p_id;"),
            ("mark", "", "UPDATE t SET big = true WHERE id = p_id;"),
        ],
        free: &["more", "mark"],
        proved: true,
    },
];

/// Ordered types without a counterexample: two are safe although nothing proves it, and the exploration makes no
/// calls with fractions that are rounded.
const NOT_SHOWN: &[&str] = &[
    "what the row's owner computes may be anything",
    "division is not followed",
    "what is moved is rounded on its way",
];

fn application(case: &Case) -> Application {
    let table = format!(
        "CREATE TABLE t (id integer PRIMARY KEY, {});\n",
        case.columns
    );
    with_types(table, case)
}

/// The same with an assertion in the place of the constraint.
fn asserted(case: &Case) -> Application {
    let declared = format!(
        "CREATE TABLE t (id integer PRIMARY KEY, {});\n",
        case.columns
    );
    with_types(
        as_assertion(&declared, |check| format!("NOT ({check})")),
        case,
    )
}

/// The table `t` without its constraint `it`, and an assertion of that name that forbids rows instead, made from
/// the CHECK.
pub(crate) fn as_assertion(text: &str, forbidden: impl Fn(&str) -> String) -> String {
    let (before, rest) = text.split_once(", CONSTRAINT it CHECK (").unwrap();
    let (check, after) = rest.split_once("));\n").unwrap();
    let wrong = forbidden(check);
    format!(
        "{before});\nCREATE ASSERTION it CHECK (NOT EXISTS (SELECT 1 FROM t AS x WHERE {wrong}));\n{after}"
    )
}

fn with_types(mut text: String, case: &Case) -> Application {
    for (name, parameters, body) in case.types {
        let comma = if parameters.is_empty() { "" } else { ", " };
        text += &format!(
            "CREATE PROCEDURE {name}(p_id integer{comma}{parameters}) LANGUAGE plpgsql AS $$ BEGIN {body} END $$;\n"
        );
    }
    compiled(&text)
}

pub(crate) fn compiled(text: &str) -> Application {
    let file = SourceFile {
        name: "it.sql".into(),
        text: text.into(),
    };
    let files = vec![file];
    let catalog = anabranch_sql::load(files.clone())
        .unwrap_or_else(|found| panic!("{}", anabranch_sql::render(&found, &files)));
    Application::compile(catalog)
        .unwrap_or_else(|found| panic!("{}", anabranch_sql::render(&found, &files)))
}

pub(crate) fn plan(application: &Application, solver: Solver) -> Plan {
    let options = Options {
        solver,
        ..Options::default()
    };
    analyze_with(application.catalog(), application.summaries(), &options)
}

/// Which types need no order for `it`, and whether the solver has said so of any.
fn verdicts(plan: &Plan) -> (Vec<&str>, bool) {
    let it = plan.invariants.iter().position(|i| i.name == "it").unwrap();
    let verdict = |name: &str| {
        plan.entry(name)
            .and_then(|entry| entry.verdict(it))
            .unwrap()
    };
    let names = plan.entries.iter().map(|entry| entry.name.as_str());
    let free: Vec<&str> = names
        .filter(|name| verdict(name).confluent == Confluence::Yes)
        .collect();
    let proved = free.iter().any(|name| verdict(name).rule == "solver");
    (free, proved)
}

#[test]
fn proved_types_are_safe_and_others_break() {
    let effort = Effort {
        cases: 4_000,
        before_max: 1,
        calls_max: 3,
    };
    let mut wrong = Vec::new();
    for case in CASES {
        let application = application(case);
        let plan = plan(&application, Solver::default());
        let found = verdicts(&plan);
        if found != (case.free.to_vec(), case.proved) {
            wrong.push(format!("{}: {found:?}", case.name));
        }
        let explorer = Explorer::new(&application, &plan);
        if let Some(broken) = explorer.attack(7, effort) {
            wrong.push(format!("{}: the plan is broken: {broken:#?}", case.name));
        }
        let found = explorer.counterexamples(7, effort);
        let shown = found.iter().any(|found| found.invariant == "it");
        let free = case.free.len() == case.types.len();
        let expected = !free && !NOT_SHOWN.contains(&case.name);
        if shown != expected {
            wrong.push(format!("{}: a counterexample is shown: {shown}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// For assertions a rule may decide as much as the solver: the test compares which types are free, and explores the
/// plan.
#[test]
fn assertions_are_proved_like_checks() {
    let effort = Effort {
        cases: 4_000,
        before_max: 1,
        calls_max: 3,
    };
    let mut wrong = Vec::new();
    let mut proved = 0;
    for case in CASES {
        let application = asserted(case);
        let plan = plan(&application, Solver::default());
        let (free, by_solver) = verdicts(&plan);
        proved += usize::from(by_solver);
        if free != case.free {
            wrong.push(format!("{}: {free:?}", case.name));
        }
        let explorer = Explorer::new(&application, &plan);
        if let Some(broken) = explorer.attack(7, effort) {
            wrong.push(format!("{}: the plan is broken: {broken:#?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(proved, CASES.iter().filter(|case| case.proved).count());
}

/// NOT EXISTS forbids rows for which the condition is true: NULL passes, however it is written.
#[test]
fn an_assertion_forbids_what_is_true() {
    let types = "CREATE PROCEDURE forget(p_id integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET a = NULL WHERE id = p_id; END $$;
        CREATE PROCEDURE mark(p_id integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = true WHERE id = p_id; END $$;";
    // If `a` is NULL, `a = 1` is not true, and `a IS NULL` is.
    for (wrong, free) in [
        ("a = 1 AND b", true),
        ("a IS NULL AND b", false),
        ("NOT (a <> 1) AND b", true),
        ("(a = 1) IS NOT FALSE AND b", false),
    ] {
        let text = format!(
            "CREATE TABLE t (id integer PRIMARY KEY, a integer, b boolean NOT NULL);
             CREATE ASSERTION it CHECK (NOT EXISTS (SELECT * FROM t WHERE {wrong}));\n{types}"
        );
        let application = compiled(&text);
        let plan = plan(&application, Solver::default());
        assert_eq!(verdicts(&plan).0.len() == 2, free, "{wrong}");
        // A free type that may break it alone still has it evaluated.
        let mark = plan.entry("mark").unwrap();
        assert_eq!(mark.checks.len(), 1, "{wrong}");
        assert_eq!(mark.checks[0].guarded, !free, "{wrong}");
        let found = Explorer::new(&application, &plan).counterexamples(7, Effort::default());
        let shown = found.iter().any(|found| found.invariant == "it");
        assert_eq!(shown, !free, "{wrong}");
    }
}

/// A query that looks like a condition on each row but says more, or less, is left to the rules; of several clauses
/// each counts. Each assertion has the types that are proved to need no order.
#[test]
fn conditions_not_on_each_row_are_not_proved() {
    let mut wrong = Vec::new();
    for (assertion, proved) in [
        (
            "NOT EXISTS (SELECT 1 FROM t WHERE a > 5 AND b > 5)",
            "use_a use_b",
        ),
        (
            "NOT EXISTS (SELECT count(*) FROM t WHERE a > 5 AND b > 5)",
            "",
        ),
        (
            "NOT EXISTS (SELECT 1 FROM t WHERE a > 5 AND b > 5 GROUP BY a)",
            "",
        ),
        ("NOT EXISTS (SELECT 1 FROM t, u WHERE a > 5 AND b > 5)", ""),
        ("NOT EXISTS (SELECT 1 FROM v WHERE a > 5 AND b > 5)", ""),
        (
            "NOT EXISTS (SELECT 1 FROM t WHERE a > 5 AND b > (SELECT max(c) FROM u))",
            "",
        ),
        (
            "NOT EXISTS (SELECT 1 FROM t WHERE a > 5 AND b > 5) AND NOT EXISTS (SELECT 1 FROM t WHERE a > b)",
            "use_a",
        ),
        (
            "NOT EXISTS (SELECT 1 FROM t WHERE a > b) AND NOT EXISTS (SELECT 1 FROM t WHERE a > 5 AND b > 5)",
            "use_a",
        ),
        (
            "NOT EXISTS (SELECT 1 FROM t WHERE a > 5 AND b > 5) AND NOT EXISTS (SELECT 1 FROM t WHERE a > 7 AND b > 3)",
            "use_a use_b",
        ),
        (
            "NOT EXISTS (SELECT 1 FROM t WHERE a > 5 AND b > 5) AND NOT EXISTS (SELECT 1 FROM u WHERE c > 5)",
            "",
        ),
        (
            "NOT (EXISTS (SELECT 1 FROM t WHERE a > 5 AND b > 5) AND EXISTS (SELECT 1 FROM t WHERE a > 7 AND b > 3))",
            "",
        ),
        ("EXISTS (SELECT 1 FROM t WHERE a > 5 AND b > 5)", ""),
    ] {
        let text = format!(
            "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL);
             CREATE TABLE u (id integer PRIMARY KEY, c integer NOT NULL);
             CREATE VIEW v AS SELECT id, -a AS a, b FROM t;
             CREATE ASSERTION it CHECK ({assertion});
             CREATE PROCEDURE use_a(p_id integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET a = a - 1 WHERE id = p_id; END $$;
             CREATE PROCEDURE use_b(p_id integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = b - 1 WHERE id = p_id; END $$;"
        );
        let plan = plan(&compiled(&text), Solver::default());
        let it = plan.invariants.iter().position(|i| i.name == "it").unwrap();
        let by_solver = plan.entries.iter().filter(|entry| {
            let verdict = entry.verdict(it);
            verdict.is_some_and(|verdict| verdict.rule == "solver")
        });
        let by_solver: Vec<&str> = by_solver.map(|entry| entry.name.as_str()).collect();
        if by_solver.join(" ") != proved {
            wrong.push(format!("{assertion}: {by_solver:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn z3_proves_the_same() {
    let Some(z3) = z3() else { return };
    for case in CASES {
        let of_assertion = plan(&asserted(case), z3.clone());
        assert_eq!(verdicts(&of_assertion).0, case.free, "{}", case.name);
        let application = application(case);
        let by_z3 = plan(&application, z3.clone());
        assert_eq!(
            verdicts(&by_z3),
            (case.free.to_vec(), case.proved),
            "{}",
            case.name
        );
    }
}

#[test]
fn a_proof_is_reported_briefly() {
    let told = |name: &str, of: &str| {
        let case = CASES.iter().find(|case| case.name == name).unwrap();
        let plan = plan(&application(case), Solver::default());
        let it = plan.invariants.iter().position(|i| i.name == "it").unwrap();
        plan.entry(of)
            .unwrap()
            .verdict(it)
            .unwrap()
            .explanation
            .clone()
    };
    assert_eq!(
        told(
            "two counters that shrink below a bound of their sum",
            "use_a"
        ),
        "proved for all states: no merge of valid rows violates it (a only shrinks, b only shrinks)"
    );
    assert_eq!(
        told(
            "shipped once paid, and nothing takes a payment back",
            "ship"
        ),
        "proved for all states: no merge of valid rows violates it (status becomes 'shipped' or 'recalled', paid becomes true)"
    );
    assert_eq!(
        told(
            "a sum that shrinks freely where what grows is ordered",
            "drain_a"
        ),
        "proved for all states, where the others are ordered: no merge of valid rows violates it (a is added to, b is added to)"
    );
}

#[test]
fn reinserted_rows_are_not_proved() {
    let text = "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL, CONSTRAINT it CHECK (a + b <= 10));
        CREATE PROCEDURE put(p_id integer, p_a integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t (id, a, b) VALUES (p_id, p_a, 0); END $$;
        CREATE PROCEDURE use_a(p_id integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET a = a - 1 WHERE id = p_id; END $$;
        CREATE PROCEDURE take(p_id integer) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM t WHERE id = p_id; END $$;";
    let application = compiled(text);
    let plan = plan(&application, Solver::default());
    let it = plan.invariants.iter().position(|i| i.name == "it").unwrap();
    let verdict = plan.entry("use_a").unwrap().verdict(it).unwrap();
    assert_eq!(verdict.confluent, Confluence::No);
    assert!(
        verdict
            .explanation
            .ends_with("(rows may be deleted and inserted again under the same key)"),
        "{}",
        verdict.explanation
    );
}
