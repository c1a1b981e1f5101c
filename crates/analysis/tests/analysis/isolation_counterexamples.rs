//! Counterexamples of isolation: for made-up applications, an independent model of the same transactions finds that
//! no serial order of the two calls has their outcome; and each kind of failure is explained in words.

use std::collections::BTreeMap;
use std::fmt::Write;

use anabranch_analysis::explore::{
    Counterexample, Effort, Explorer, FailureKind, NotShownReason, ReadCommitted, Search,
};
use anabranch_analysis::plan::{Confluence, Plan};
use anabranch_analysis::{Guarantee, Topology, analyze};
use anabranch_sql::SourceFile;
use anabranch_sql::script::{
    self, ClientParameter, ClientStatement, ClientTransaction, Script, Step,
};
use anabranch_types::Value;

use crate::soundness::Random;

/// Rows of `t` and `q`, by key.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rows {
    /// `n` and `m`.
    t: BTreeMap<i64, [Option<i64>; 2]>,
    /// `k`.
    q: BTreeMap<i64, i64>,
}

const TABLES: &str = "CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL, m integer);
CREATE TABLE q (id integer PRIMARY KEY, k integer NOT NULL REFERENCES t (id));
";

impl Rows {
    /// Those of a counterexample, in order of tables.
    fn of(shown: &Counterexample) -> Rows {
        let mut rows = Rows::default();
        let int = |value: &Value| match value {
            Value::Int(n) => Some(*n),
            _ => None,
        };
        for (table, values) in &shown.rows {
            match (table.0, values.as_slice()) {
                (0, [id, n, m]) => {
                    let id = int(id).expect("a key");
                    assert!(rows.t.insert(id, [int(n), int(m)]).is_none(), "{shown:#?}");
                }
                (1, [id, k]) => {
                    let (id, k) = (int(id).expect("a key"), int(k).expect("not null"));
                    assert!(rows.q.insert(id, k).is_none(), "{shown:#?}");
                }
                other => panic!("{other:?}"),
            }
        }
        rows
    }

    /// As a counterexample writes them.
    fn inserts(&self) -> Vec<String> {
        let t = self.t.iter().map(|(id, [n, m])| {
            let n = n.expect("not null");
            match m {
                Some(m) => format!("INSERT INTO t (id, n, m) VALUES ({id}, {n}, {m});"),
                None => format!("INSERT INTO t (id, n) VALUES ({id}, {n});"),
            }
        });
        let q = self.q.iter();
        let q = q.map(|(id, k)| format!("INSERT INTO q (id, k) VALUES ({id}, {k});"));
        t.chain(q).collect()
    }

    fn is_valid(&self) -> bool {
        let refers = |k: &i64| self.t.contains_key(k);
        self.q.values().all(refers) && self.t.values().all(|[n, _]| n.is_some())
    }
}

/// A write.
#[derive(Clone, Copy, Debug)]
enum RowWrite {
    /// A column of a row of `t`, and its value.
    Set(i64, usize, Option<i64>),
    /// The same by an amount.
    Add(i64, usize, i64),
    Insert(i64, i64),
    Delete(i64),
}

/// What a call does: its writes, and what it tells its client; `None` if it is refused.
type Done = Option<(Vec<RowWrite>, Vec<Option<i64>>)>;

/// A transaction type twice: as SQL, and to run.
struct Template {
    sql: fn(constant: i64) -> String,
    run: fn(rows: &Rows, constant: i64, arguments: &[Option<i64>]) -> Done,
}

/// `n` of a row; `None` if it is not there.
fn n(rows: &Rows, id: Option<i64>) -> Option<i64> {
    rows.t.get(&id?).and_then(|row| row[0])
}

/// Sets `n` of a row if it is there; `None` if the value is NULL, which no row may have.
fn set_n(rows: &Rows, id: Option<i64>, value: Option<i64>) -> Option<Vec<RowWrite>> {
    let Some(id) = id.filter(|id| rows.t.contains_key(id)) else {
        return Some(Vec::new());
    };
    Some(vec![RowWrite::Set(id, 0, Some(value?))])
}

fn plpgsql(name: &str, parameters: &str, declared: &str, body: &str) -> String {
    format!(
        "CREATE PROCEDURE {name}({parameters}) LANGUAGE plpgsql AS $$ DECLARE {declared} BEGIN {body} END $$;\n"
    )
}

const TEMPLATES: [Template; 8] = [
    Template {
        sql: |c| {
            let body = format!(
                "SELECT n INTO STRICT v FROM t WHERE id = p; UPDATE t SET n = v + {c} WHERE id = p;"
            );
            plpgsql("bump", "p integer", "v integer;", &body)
        },
        run: |rows, c, a| {
            Some((
                vec![RowWrite::Set(a[0]?, 0, Some(n(rows, a[0])? + c))],
                vec![],
            ))
        },
    },
    Template {
        sql: |c| {
            let body = format!(
                "SELECT n INTO STRICT v FROM t WHERE id = p; IF v < x + {c} THEN RAISE EXCEPTION 'too little'; END IF; \
                 UPDATE t SET n = n - x WHERE id = p;"
            );
            plpgsql("spend", "p integer, x integer", "v integer;", &body)
        },
        run: |rows, c, a| {
            let has = n(rows, a[0])?;
            let add = RowWrite::Add(a[0]?, 0, -a[1]?);
            (has >= a[1]? + c).then(|| (vec![add], vec![]))
        },
    },
    Template {
        sql: |c| {
            let body = format!(
                "SELECT m INTO STRICT v FROM t WHERE id = p; IF v IS NOT NULL THEN RETURN; END IF; \
                 UPDATE t SET m = x + {c} WHERE id = p;"
            );
            plpgsql("claim", "p integer, x integer", "v integer;", &body)
        },
        run: |rows, c, a| {
            let row = rows.t.get(&a[0]?)?;
            let writes = match row[1] {
                None => vec![RowWrite::Set(a[0]?, 1, a[1].map(|x| x + c))],
                Some(_) => Vec::new(),
            };
            Some((writes, vec![]))
        },
    },
    Template {
        sql: |c| {
            let body = format!("UPDATE t SET n = x * {c} WHERE id = p;");
            plpgsql("put", "p integer, x integer", "", &body)
        },
        run: |rows, c, a| {
            let set = set_n(rows, a[0], a[1].map(|x| x * c));
            Some((set?, vec![]))
        },
    },
    Template {
        sql: |c| {
            let body = format!(
                "SELECT count(*) INTO v FROM q WHERE k = p; IF v >= {c} THEN RAISE EXCEPTION 'full'; END IF; \
                 INSERT INTO q (id, k) VALUES (i, p);"
            );
            plpgsql("reserve", "p integer, i integer", "v bigint;", &body)
        },
        run: |rows, c, a| {
            let (p, i) = (a[0]?, a[1]?);
            let count = rows.q.values().filter(|k| **k == p).count() as i64;
            let fits = rows.t.contains_key(&p) && !rows.q.contains_key(&i);
            (count < c && fits).then(|| (vec![RowWrite::Insert(i, p)], vec![]))
        },
    },
    Template {
        sql: |_| {
            let body = "SELECT min(id) INTO v FROM q WHERE k = p; DELETE FROM q WHERE id = v; \
                        UPDATE t SET n = n + 1 WHERE id = p;";
            plpgsql("take", "p integer", "v integer;", body)
        },
        run: |rows, _, a| {
            let first = rows.q.iter().find(|(_, k)| Some(**k) == a[0]);
            let first = first.map(|(id, _)| RowWrite::Delete(*id));
            let mut writes: Vec<RowWrite> = first.into_iter().collect();
            let there = a[0].filter(|p| rows.t.contains_key(p));
            writes.extend(there.map(|p| RowWrite::Add(p, 0, 1)));
            Some((writes, vec![]))
        },
    },
    // Two rows: each call checks both and changes its own.
    Template {
        sql: |c| {
            let body = format!(
                "SELECT n INTO STRICT v FROM t WHERE id = p; SELECT n INTO STRICT w FROM t WHERE id = o; \
                 IF v + w < {c} THEN RAISE EXCEPTION 'too little'; END IF; UPDATE t SET n = v - 1 WHERE id = p;"
            );
            plpgsql(
                "of_both",
                "p integer, o integer",
                "v integer; w integer;",
                &body,
            )
        },
        run: |rows, c, a| {
            let (has, other) = (n(rows, a[0])?, n(rows, a[1])?);
            let set = RowWrite::Set(a[0]?, 0, Some(has - 1));
            (has + other >= c).then(|| (vec![set], vec![]))
        },
    },
    // A client that reads, computes, and writes: the analyser sees what it reads and what it writes.
    Template {
        sql: |_| {
            "-- read_and_set\nBEGIN;\nSELECT n FROM t WHERE id = :p;\nUPDATE t SET n = :x WHERE id = :p;\nCOMMIT;\n"
                .to_owned()
        },
        run: |rows, _, a| {
            let there = n(rows, a[0]).map(Some);
            Some((set_n(rows, a[0], a[1])?, there.into_iter().collect()))
        },
    },
];

/// The names of [`TEMPLATES`].
const NAMES: [&str; 8] = [
    "bump",
    "spend",
    "claim",
    "put",
    "reserve",
    "take",
    "of_both",
    "read_and_set",
];

/// Applies writes. With `adds`, amounts are added; otherwise the value is the one that the call computed on `found`.
fn apply(rows: &mut Rows, writes: &[RowWrite], found: &Rows, adds: bool) {
    for write in writes {
        match *write {
            RowWrite::Set(id, column, value) => {
                if let Some(row) = rows.t.get_mut(&id) {
                    row[column] = value;
                }
            }
            RowWrite::Add(id, column, by) => {
                let before = match adds {
                    true => rows.t.get(&id).and_then(|row| row[column]),
                    false => found.t.get(&id).and_then(|row| row[column]),
                };
                if let (Some(row), Some(before)) = (rows.t.get_mut(&id), before) {
                    row[column] = Some(before + by);
                }
            }
            RowWrite::Insert(id, k) => drop(rows.q.insert(id, k)),
            RowWrite::Delete(id) => drop(rows.q.remove(&id)),
        }
    }
}

/// A made-up application: the templates in it, with their constants.
fn made_up(seed: u64) -> (String, BTreeMap<&'static str, (usize, i64)>) {
    let mut random = Random::new(seed);
    let mut types = BTreeMap::new();
    for _ in 0..1 + random.below(3) {
        let of = random.below(TEMPLATES.len() as u64) as usize;
        types.insert(NAMES[of], (of, 1 + random.below(3) as i64));
    }
    let mut sql = TABLES.to_owned();
    for (of, constant) in types.values() {
        sql += &(TEMPLATES[*of].sql)(*constant);
    }
    (sql, types)
}

fn read(sql: &str) -> (Script, Plan) {
    let script = script::read(vec![SourceFile::new("app.sql", sql)]);
    let script = script.unwrap_or_else(|found| panic!("{sql}: {found:?}"));
    assert!(script.skipped.is_empty(), "{sql}: {:?}", script.skipped);
    planned(script)
}

fn planned(script: Script) -> (Script, Plan) {
    let plan = analyze(
        script.application.catalog(),
        &script.summaries,
        Topology::Partitioned,
        Guarantee::Invariants,
    );
    (script, plan)
}

fn search(script: &Script, plan: &Plan, effort: Effort) -> Search {
    let explorer = Explorer::new(&script.application, plan);
    explorer.with_clients(&script.clients).search(1, effort)
}

/// Checks a counterexample by the independent model, and returns the kind of its failure.
fn checked(
    shown: &Counterexample,
    plan: &Plan,
    types: &BTreeMap<&str, (usize, i64)>,
) -> FailureKind {
    let start = Rows::of(shown);
    assert!(start.is_valid(), "the start is not valid: {shown:#?}");
    let run = |rows: &Rows, place: usize| -> Done {
        let call = &shown.calls[place];
        let (of, constant) = types[plan.entries[call.procedure].name.as_str()];
        let int = |value: &Value| match value {
            Value::Int(n) => Some(*n),
            _ => None,
        };
        let arguments: Vec<Option<i64>> = call.arguments.iter().map(int).collect();
        (TEMPLATES[of].run)(rows, constant, &arguments)
    };
    let failure = shown.isolation.as_ref().expect("isolation is explained");
    let mut orders = Vec::new();
    for (first, told) in [0, 1].into_iter().zip(&failure.serial) {
        let (mut rows, mut answers) = (start.clone(), [None, None]);
        let (writes, answer) = run(&rows, first).expect("it runs alone");
        apply(&mut rows, &writes, &start, true);
        answers[first] = Some(answer);
        let between = rows.clone();
        let second = run(&rows, 1 - first);
        assert_eq!(second.is_none(), told.is_second_refused, "{shown:#?}");
        if let Some((writes, answer)) = second {
            apply(&mut rows, &writes, &between, true);
            answers[1 - first] = Some(answer);
        }
        assert_eq!(rows.inserts(), told.rows, "order {first}: {shown:#?}");
        orders.push((rows.inserts(), answers));
    }
    let done = [0, 1].map(|place| run(&start, place).expect("it runs alone"));
    let answers = [0, 1].map(|place| Some(done[place].1.clone()));
    // Amounts are merged by the policy of their column, which is the analyser's.
    let merged = [true, false].map(|adds| {
        let mut rows = start.clone();
        for (writes, _) in &done {
            apply(&mut rows, writes, &start, adds);
        }
        rows.inserts()
    });
    assert!(merged.contains(&shown.merged), "{merged:?}: {shown:#?}");
    for order in &orders {
        assert_ne!(
            *order,
            (shown.merged.clone(), answers.clone()),
            "a serial order has this outcome: {shown:#?}"
        );
    }
    failure.kind
}

#[test]
fn no_serial_order_has_the_outcome_of_a_counterexample() {
    let effort = Effort {
        cases: 300,
        ..Effort::default()
    };
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    let mut missing = String::new();
    for seed in 0..150 {
        let (sql, types) = made_up(seed);
        let (script, plan) = read(&sql);
        let search = search(&script, &plan, effort);
        for shown in &search.found {
            if shown.isolation.is_some() {
                let kind = checked(shown, &plan, &types);
                *kinds.entry(kind.name()).or_default() += 1;
            }
        }
        for one in &search.not_shown {
            let _ = writeln!(
                missing,
                "{seed}: {} of {}: {}",
                one.invariant, one.transaction, one.reason
            );
        }
    }
    for kind in ["lost-update", "double-claim", "write-skew"] {
        assert!(
            kinds.get(kind).is_some_and(|count| *count > 5),
            "{kinds:?}\n{missing}"
        );
    }
    let missing = missing.lines().count();
    assert!(missing < 60, "{missing} verdicts without a counterexample");
}

/// The counterexample of an invariant.
fn shown(sql: &str, invariant: &str) -> Counterexample {
    let (script, plan) = read(sql);
    let search = search(&script, &plan, Effort::default());
    let mut found = search.found.iter().filter(|one| one.invariant == invariant);
    let found = found.next().cloned();
    found.unwrap_or_else(|| panic!("{:#?}", search.not_shown))
}

const COUPON: &str = "CREATE TABLE coupon (id integer PRIMARY KEY, uses integer NOT NULL);
CREATE PROCEDURE redeem(p integer) LANGUAGE plpgsql AS $$ DECLARE n integer; BEGIN
    SELECT uses INTO STRICT n FROM coupon WHERE id = p;
    UPDATE coupon SET uses = n + 1 WHERE id = p;
END $$;";

#[test]
fn the_lost_change_is_named_with_its_values() {
    let shown = shown(COUPON, "isolation(coupon)");
    let failure = shown.isolation.expect("it is explained");
    assert_eq!(failure.kind, FailureKind::LostUpdate);
    assert_eq!(
        failure.explanation,
        "one of the two changes of coupon.uses (id = 1) is lost: after both it is 1, in either serial order 2"
    );
    assert_eq!(failure.sessions.verdict, ReadCommitted::Permitted);
    let steps: Vec<(usize, &str, bool)> = failure
        .sessions
        .steps
        .iter()
        .map(|s| (s.session, s.sql.as_str(), s.waits))
        .collect();
    assert_eq!(
        steps,
        [
            (1, "BEGIN ISOLATION LEVEL READ COMMITTED;", false),
            (1, "CALL redeem(p => 1);", false),
            (2, "BEGIN ISOLATION LEVEL READ COMMITTED;", false),
            (2, "CALL redeem(p => 1);", true),
            (1, "COMMIT;", false),
            (2, "COMMIT;", false),
        ]
    );
    let [query] = failure.sessions.queries.as_slice() else {
        panic!("{:?}", failure.sessions.queries)
    };
    assert_eq!(query.seen, ["(1, 1)"]);
    assert_eq!(query.in_order, [["(1, 2)"], ["(1, 2)"]]);
}

/// What the client computes is not seen: only what it reads shows that the first change is lost.
#[test]
fn a_client_that_computes_loses_an_update_by_what_it_has_read() {
    let sql = "CREATE TABLE coupon (id integer PRIMARY KEY, uses integer NOT NULL);
-- redeem
BEGIN;
SELECT uses FROM coupon WHERE id = :p;
UPDATE coupon SET uses = :x WHERE id = :p;
COMMIT;";
    let failure = shown(sql, "isolation(coupon)")
        .isolation
        .expect("it is explained");
    assert_eq!(failure.kind, FailureKind::LostUpdate);
    assert!(
        failure
            .explanation
            .contains("has read what was there before that change"),
        "{}",
        failure.explanation
    );
    assert_eq!(failure.sessions.verdict, ReadCommitted::Permitted);
    let steps = &failure.sessions.steps;
    let commit = steps
        .iter()
        .position(|s| s.sql == "COMMIT;")
        .expect("session 1 commits");
    let read = steps
        .iter()
        .position(|s| s.session == 2 && s.sql.starts_with("SELECT"))
        .expect("session 2 reads");
    assert!(
        read < commit,
        "session 2 reads before session 1 commits: {steps:#?}"
    );
    let order = steps[read].in_order[0]
        .as_ref()
        .expect("it runs in this order");
    assert_ne!(Some(order), steps[read].returns.as_ref(), "{steps:#?}");
}

/// Rows that the calls only read satisfy their constraints, too: a smaller number would be easier to read.
#[test]
fn the_initial_rows_are_valid() {
    let sql = "CREATE TABLE cap (id integer PRIMARY KEY, most integer NOT NULL CHECK (most >= 1));
CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL);
CREATE PROCEDURE bump(p integer) LANGUAGE plpgsql AS $$ DECLARE m integer; v integer; BEGIN
    SELECT most INTO STRICT m FROM cap WHERE id = p;
    SELECT n INTO STRICT v FROM t WHERE id = p;
    UPDATE t SET n = v + 1 WHERE id = p;
END $$;";
    let shown = shown(sql, "isolation(t)");
    let mut caps = shown.rows.iter().filter(|(table, _)| table.0 == 0);
    let most = caps.next().map(|(_, values)| values[1].clone());
    assert_eq!(most, Some(Value::Int(1)), "{:?}", shown.initial);
}

/// The row lock of an UPDATE that compares and sets is honoured: PostgreSQL looks at the row again.
#[test]
fn a_row_lock_that_prevents_it_is_told() {
    let sql = "CREATE TABLE job (id integer PRIMARY KEY, owner integer);
CREATE FUNCTION claim(p integer, w integer) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    UPDATE job SET owner = w WHERE id = p AND owner IS NULL;
    RETURN FOUND;
END $$;";
    let failure = shown(sql, "isolation(job)")
        .isolation
        .expect("it is explained");
    assert_eq!(
        failure.kind,
        FailureKind::DoubleClaim,
        "{}",
        failure.explanation
    );
    let verdict = &failure.sessions.verdict;
    assert!(
        matches!(verdict, ReadCommitted::Prevented(_)),
        "{verdict:?}"
    );
}

/// A program's transaction: statements with placeholders over the whole of it.
fn client(texts: &[(&str, bool)], parameters: &[&str]) -> (SourceFile, ClientTransaction) {
    let text = texts
        .iter()
        .map(|(text, _)| *text)
        .collect::<Vec<_>>()
        .join("\n");
    let mut at = 0;
    let mut steps = Vec::new();
    for (text, finds_none) in texts {
        let end = at + text.len() as u32;
        steps.push(Step::Run(ClientStatement {
            text: (*text).to_owned(),
            places: (at..=end).collect(),
            file: 1,
            finds_none: *finds_none,
        }));
        at = end + 1;
    }
    let parameters = parameters.iter().map(|name| ClientParameter {
        name: (*name).to_owned(),
        varies: false,
    });
    let client = ClientTransaction {
        name: "pay".to_owned(),
        file: 1,
        range: 0..text.len(),
        parameters: parameters.collect(),
        steps,
        unresolved: Vec::new(),
        probable: Vec::new(),
    };
    (SourceFile::new("pay.py", text), client)
}

/// The same token twice pays twice: the program returns if it finds the token, and both calls find none.
#[test]
fn a_row_that_both_calls_looked_for_is_claimed_twice() {
    let schema = "CREATE TABLE purse (id bigint PRIMARY KEY, cents bigint NOT NULL);
        CREATE TABLE request (token text NOT NULL, reply text NOT NULL);";
    let statements = [
        ("SELECT reply FROM request WHERE token = $1", true),
        ("UPDATE purse SET cents = cents - $3 WHERE id = $2", false),
        ("INSERT INTO request (token, reply) VALUES ($1, $4)", false),
    ];
    let (program, client) = client(&statements, &["token", "purse", "cents", "reply"]);
    let files = vec![SourceFile::new("schema.sql", schema)];
    let script = script::read_with(files, vec![program], vec![client]).expect("it is read");
    let (script, plan) = planned(script);
    let found = search(&script, &plan, Effort::default()).found;
    let one = found
        .iter()
        .find(|one| one.invariant == "isolation(request)");
    let failure = one
        .and_then(|one| one.isolation.as_deref())
        .expect("there is one");
    assert_eq!(failure.kind, FailureKind::DoubleClaim);
    assert_eq!(
        failure.explanation,
        "both calls insert a row into request; in either serial order the call that runs second finds the row of the \
         first and writes nothing"
    );
    assert_eq!(failure.sessions.verdict, ReadCommitted::Permitted);
    let request = failure
        .sessions
        .queries
        .iter()
        .find(|q| q.sql.ends_with("FROM request;"));
    let request = request.expect("the table is queried");
    assert_eq!(
        (request.seen.len(), request.in_order[0].len()),
        (2, 1),
        "{request:?}"
    );
}

/// Calls that use many keys, on rows that many constraints bind.
#[test]
fn the_examples_that_need_more_effort_are_searched_with_it() {
    for (example, invariant) in [
        ("tpcc", "isolation(new_order)"),
        ("tpcw", "isolation(address)"),
    ] {
        let loaded = crate::support::Application::example(example);
        let plan = loaded.plan();
        let application = anabranch_sql::Application::compile(loaded.catalog).expect("it compiles");
        let explorer = Explorer::new(&application, &plan);
        let place = plan
            .invariants
            .iter()
            .position(|i| i.name == invariant)
            .expect("it is there");
        let owners = 0..plan.entries.len();
        let needs = |owner: &usize| {
            let verdict = plan.entries[*owner].verdict(place);
            verdict.is_some_and(|verdict| verdict.confluent == Confluence::No)
        };
        let owners: Vec<usize> = owners.filter(needs).collect();
        assert!(!owners.is_empty(), "{example}");
        for owner in owners {
            let found = explorer.counterexample(owner, place, 1, Effort::default());
            let found = found.and_then(|found| found.isolation);
            assert!(
                found.is_some(),
                "{example}: {invariant} of {}",
                plan.entries[owner].name
            );
        }
    }
}

/// The reason why a verdict has no counterexample.
#[test]
fn a_verdict_without_a_counterexample_has_a_reason() {
    let none = Effort {
        cases: 0,
        ..Effort::default()
    };
    let (script, plan) = read(COUPON);
    let missed = search(&script, &plan, none).not_shown;
    let [one] = missed.as_slice() else {
        panic!("{missed:#?}")
    };
    assert_eq!(one.reason, NotShownReason::NoCalls(0));
    assert_eq!(
        (one.invariant.as_str(), one.transaction.as_str()),
        ("isolation(coupon)", "redeem")
    );
    let (script, plan) = read(
        "CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL CHECK (n >= 0));
         CREATE PROCEDURE spend(p integer, x integer) LANGUAGE plpgsql AS $$ DECLARE v integer; BEGIN
            SELECT n INTO STRICT v FROM t WHERE id = p; IF v < x THEN RAISE EXCEPTION 'too little'; END IF;
            UPDATE t SET n = n - x WHERE id = p; END $$;",
    );
    let missed = search(&script, &plan, Effort::default()).not_shown;
    for one in &missed {
        assert_eq!(
            one.reason,
            NotShownReason::OtherInvariant("t_n_check".to_owned()),
            "{one:?}"
        );
    }
}
