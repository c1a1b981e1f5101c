//! Invalid merges that the solver has found, run: counterexamples far from random values.

use anabranch_analysis::explore::{Effort, Explorer, Search};
use anabranch_analysis::report;
use anabranch_analysis::solve::Solver;

use crate::proofs::{compiled, plan};

/// No random cases, so that every counterexample comes from the solver.
const SOLVER_ALONE: Effort = Effort {
    cases: 0,
    before_max: 0,
    calls_max: 1,
};

/// Tables, a constraint `it`, types, and those of them that have a counterexample.
struct Case {
    name: &'static str,
    tables: &'static str,
    /// Name, parameters, and statements.
    types: &'static [(&'static str, &'static str, &'static str)],
    shown: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        name: "a sum with a large bound",
        tables: "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL, CONSTRAINT it CHECK (a + b <= 1000000));",
        types: &[
            ("add_a", "p_id integer, p_n integer", "UPDATE t SET a = a + p_n WHERE id = p_id;"),
            ("add_b", "p_id integer, p_n integer", "UPDATE t SET b = b + p_n WHERE id = p_id;"),
        ],
        shown: &["add_a", "add_b"],
    },
    Case {
        name: "amounts that a procedure wants to be large",
        tables: "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL, CONSTRAINT it CHECK (a + b <= 1000000));",
        types: &[
            (
                "add_a",
                "p_id integer, p_n integer",
                "IF p_n < 50000 THEN RAISE EXCEPTION 'too little'; END IF; UPDATE t SET a = a + p_n WHERE id = p_id;",
            ),
            (
                "add_b",
                "p_id integer, p_n integer",
                "IF p_n < 50000 THEN RAISE EXCEPTION 'too little'; END IF; UPDATE t SET b = b + p_n WHERE id = p_id;",
            ),
        ],
        shown: &["add_a", "add_b"],
    },
    Case {
        name: "constants that are added, and a row that has to be large already",
        tables: "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL, CONSTRAINT it CHECK (a + b BETWEEN 70000 AND 90000));",
        types: &[
            ("step_a", "p_id integer", "UPDATE t SET a = a + 3 WHERE id = p_id;"),
            ("step_b", "p_id integer", "UPDATE t SET b = b + 5 WHERE id = p_id;"),
        ],
        shown: &["step_a", "step_b"],
    },
    Case {
        name: "a row that refers to others, and what its writers read",
        tables: "CREATE TABLE shop (id integer PRIMARY KEY, open boolean NOT NULL);
            CREATE TABLE t (shop integer NOT NULL REFERENCES shop (id), id integer NOT NULL, a integer NOT NULL, b integer NOT NULL,
                PRIMARY KEY (shop, id), CONSTRAINT it CHECK (a - b >= -400000 AND a >= 250000 AND b >= 650000));",
        types: &[
            (
                "take_a",
                "p_shop integer, p_id integer, p_n integer",
                "PERFORM 1 FROM shop WHERE id = p_shop; IF NOT FOUND THEN RAISE EXCEPTION 'no shop'; END IF; UPDATE t SET a = a - p_n WHERE shop = p_shop AND id = p_id;",
            ),
            (
                "add_b",
                "p_shop integer, p_id integer, p_n integer",
                "UPDATE t SET b = b + p_n WHERE shop = p_shop AND id = p_id;",
            ),
        ],
        shown: &["take_a", "add_b"],
    },
    Case {
        name: "texts that are assigned",
        tables: "CREATE TABLE t (id integer PRIMARY KEY, status text NOT NULL, paid boolean NOT NULL,
            CONSTRAINT it CHECK (status <> 'handed over to the carrier' OR paid));",
        types: &[
            ("move_on", "p_id integer, p_status text", "UPDATE t SET status = p_status WHERE id = p_id;"),
            ("pay", "p_id integer, p_paid boolean", "UPDATE t SET paid = p_paid WHERE id = p_id;"),
        ],
        shown: &["move_on", "pay"],
    },
    Case {
        name: "dates",
        tables: "CREATE TABLE t (id integer PRIMARY KEY, first date NOT NULL, last date NOT NULL, n integer NOT NULL,
            CONSTRAINT it CHECK (first <= last OR n > 123456));",
        types: &[
            ("begin_it", "p_id integer, p_day date", "UPDATE t SET first = p_day WHERE id = p_id;"),
            ("end_it", "p_id integer, p_day date", "UPDATE t SET last = p_day WHERE id = p_id;"),
        ],
        shown: &["begin_it", "end_it"],
    },
    Case {
        name: "fractions, and columns that may be NULL",
        tables: "CREATE TABLE t (id integer PRIMARY KEY, a numeric(12,2), b numeric(12,2), CONSTRAINT it CHECK (a + b <= 99999.50));",
        types: &[
            ("add_a", "p_id integer, p_n numeric", "UPDATE t SET a = a + p_n WHERE id = p_id;"),
            ("set_b", "p_id integer, p_n numeric", "UPDATE t SET b = p_n WHERE id = p_id;"),
        ],
        shown: &["add_a", "set_b"],
    },
    Case {
        name: "one column, of which a rule says that it breaks",
        tables: "CREATE TABLE t (id integer PRIMARY KEY, a bigint NOT NULL, CONSTRAINT it CHECK (a <= 10000000000));",
        types: &[("add_a", "p_id integer, p_n bigint", "UPDATE t SET a = a + p_n WHERE id = p_id;")],
        shown: &["add_a"],
    },
    Case {
        name: "an assertion that is a CHECK by another name",
        tables: "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL);
            CREATE ASSERTION it CHECK (NOT EXISTS (SELECT * FROM t WHERE a > 40000 AND b > 40000));",
        types: &[
            (
                "set_a",
                "p_id integer, p_n integer",
                "UPDATE t SET a = p_n WHERE id = p_id;",
            ),
            (
                "set_b",
                "p_id integer, p_n integer",
                "UPDATE t SET b = p_n WHERE id = p_id;",
            ),
        ],
        shown: &["set_a", "set_b"],
    },
    Case {
        name: "rows of arrays",
        tables: "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL, CONSTRAINT it CHECK (a <= b + 70000));",
        types: &[(
            "add_all",
            "p_ids integer[], p_ns integer[]",
            "UPDATE t SET a = a + n FROM unnest(p_ids, p_ns) AS x(i, n) WHERE id = i;",
        )],
        shown: &["add_all"],
    },
];

fn searched(tables: &str, types: &[(&str, &str, &str)], effort: Effort) -> (Search, String) {
    let mut text = tables.to_owned();
    for (name, parameters, body) in types {
        text += &format!(
            "\nCREATE PROCEDURE {name}({parameters}) LANGUAGE plpgsql AS $$ BEGIN {body} END $$;"
        );
    }
    let application = compiled(&text);
    let plan = plan(&application, Solver::default());
    let search = Explorer::new(&application, &plan).search(1, effort);
    let told = report::counterexample::render(&plan, &search, &|shown| shown.id());
    (search, told)
}

/// The types of the counterexamples of `it`.
fn shown(search: &Search) -> Vec<&str> {
    let found = search.found.iter().filter(|found| found.invariant == "it");
    let mut types: Vec<&str> = found
        .flat_map(|found| found.transactions.iter().map(String::as_str))
        .collect();
    types.sort_unstable();
    types.dedup();
    types
}

#[test]
fn invalid_merges_become_calls() {
    let mut wrong = Vec::new();
    for case in CASES {
        let (search, told) = searched(case.tables, case.types, SOLVER_ALONE);
        let mut expected = case.shown.to_vec();
        expected.sort_unstable();
        if shown(&search) != expected || search.unconfirmed.iter().any(|name| name == "it") {
            wrong.push(format!("{}:\n{told}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The solver ignores the conditions of statements: no calls make its merge.
#[test]
fn an_invalid_merge_without_calls_is_reported_as_unconfirmed() {
    let tables = "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL,
        CONSTRAINT it CHECK (a >= 0 AND a + b <= 1000));";
    let types = [
        (
            "add_a",
            "p_id integer",
            "UPDATE t SET a = a + 1 WHERE id = p_id AND a < 0;",
        ),
        (
            "take_b",
            "p_id integer",
            "UPDATE t SET b = b - 1 WHERE id = p_id;",
        ),
    ];
    let (search, told) = searched(tables, &types, Effort::default());
    assert_eq!(shown(&search), [""; 0], "{told}");
    assert_eq!(search.unconfirmed, ["it"]);
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "The solver found an invalid merge, but the search found no calls that produce it, for: it.";
    assert!(told.contains(said), "{told}");
}
