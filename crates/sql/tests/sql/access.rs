//! Every access path gives the rows that a scan with a filter gives.

use anabranch_sql::{
    Application, SourceFile, load,
    testing::{Store, ready},
};
use anabranch_types::{Read, Value};
use proptest::prelude::*;

use crate::support::Database;

const SCHEMA: &str = "
CREATE TABLE t (id integer PRIMARY KEY, i smallint, n numeric(6, 2), f double precision, s text);
CREATE INDEX t_i ON t (i);
CREATE INDEX t_n ON t (n, id);
CREATE INDEX t_f ON t (f);
CREATE INDEX t_s ON t (s);
";

fn run(application: &Application, store: &mut Store, text: &str) -> Vec<Vec<Value>> {
    let statement = application
        .statement(text)
        .unwrap_or_else(|p| panic!("{text}: {p:?}"));
    let mut transaction = store.begin();
    ready(statement.execute(&mut transaction, &[]))
        .unwrap_or_else(|e| panic!("{text}: {e:?}"))
        .rows
}

fn literal() -> impl Strategy<Value = String> {
    prop_oneof![
        (-4i32..5).prop_map(|i| i.to_string()),
        (-400i32..500).prop_map(|i| format!("{}.{:02}", i / 100, (i % 100).abs())),
        (-4000i32..5000).prop_map(|i| format!("{}.{:03}", i / 1000, (i % 1000).abs())),
        Just("100000".to_string()),
        Just("-100000".to_string()),
        Just("NULL".to_string()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn an_index_finds_what_a_scan_finds(
        rows in prop::collection::vec((prop::option::of(-4i32..5), prop::option::of(-40i32..50)), 1..12),
        column in prop::sample::select(vec!["i", "n", "f"]),
        first in prop::sample::select(vec!["=", "<", "<=", ">", ">="]),
        second in prop::sample::select(vec!["<", "<=", ">", ">=", "<>"]),
        low in literal(),
        high in literal(),
        limit in prop::option::of(0u32..4),
        descending in any::<bool>(),
    ) {
        let catalog = load(vec![SourceFile::new("t.sql", SCHEMA)]).unwrap();
        let application = Application::compile(catalog).unwrap();
        let mut store = Store::new(&application);
        for (id, (i, n)) in rows.iter().enumerate() {
            let show = |v: &Option<i32>, scale: f64| v.map_or("NULL".into(), |v| format!("{}", f64::from(v) / scale));
            let (i, n) = (show(i, 1.0), show(n, 10.0));
            run(&application, &mut store, &format!("INSERT INTO t VALUES ({id}, {i}, {n}, {n}, '{id}')"));
        }
        let order = if descending { "DESC" } else { "ASC" };
        let tail = limit.map_or(String::new(), |limit| format!("LIMIT {limit}"));
        // The addition hides the column from the planner.
        let query = |c: &str| format!(
            "SELECT id, {column} FROM t WHERE {c} {first} {low} AND {c} {second} {high} ORDER BY {column} {order}, id {order} {tail}"
        );
        let by_index = run(&application, &mut store, &query(column));
        let by_scan = run(&application, &mut store, &query(&format!("({column} + 0)")));
        prop_assert_eq!(by_index, by_scan, "{}", query(column));
    }
}

/// A list of rows: values from few, so that rows repeat, some NULL, some with decimals.
fn listed_rows() -> impl Strategy<Value = Vec<(String, String)>> {
    let value = prop_oneof![
        6 => (0i32..4).prop_map(|value| value.to_string()),
        1 => (0i32..4).prop_map(|value| format!("{value}.0")),
        1 => Just("1.5".to_owned()),
        1 => Just("NULL".to_owned()),
    ];
    prop::collection::vec((value.clone(), value), 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn a_listed_row_is_found_once(
        listed in listed_rows(),
        form in 0..6,
        first in any::<bool>(),
    ) {
        const KEYS: &str = "
CREATE TABLE k (a integer, b integer, c integer, PRIMARY KEY (a, b, c));
CREATE INDEX k_b ON k (b);
";
        let catalog = load(vec![SourceFile::new("k.sql", KEYS)]).unwrap();
        let application = Application::compile(catalog).unwrap();
        let mut store = Store::new(&application);
        for number in 0..32 {
            let (a, b, c) = (number / 8, number / 2 % 4, number % 2);
            run(&application, &mut store, &format!("INSERT INTO k VALUES ({a}, {b}, {c})"));
        }
        let rows: Vec<String> = listed.iter().map(|(a, b)| format!("({a}, {b})")).collect();
        let lists = [&listed.iter().map(|(a, _)| a.as_str()).collect::<Vec<_>>().join(", ")];
        let disjunction = |a: &str, b: &str| {
            let rows = listed.iter().map(|(x, y)| format!("{a} = {x} AND {y} = {b}"));
            rows.collect::<Vec<_>>().join(" OR ")
        };
        // The addition hides a column from the planner.
        let (condition, hidden) = match form {
            0 => (format!("(a, b) IN ({})", rows.join(", ")), disjunction("(a + 0)", "(b + 0)")),
            1 => (format!("({})", disjunction("a", "b")), disjunction("(a + 0)", "(b + 0)")),
            2 => (format!("(b, a) IN ({})", rows.join(", ")), disjunction("(b + 0)", "(a + 0)")),
            // Not a list of rows.
            3 => {
                let either = |a: &str, b: &str| {
                    let rows = listed.iter().map(|(x, y)| format!("{a} = {x} OR {y} = {b}"));
                    rows.collect::<Vec<_>>().join(" OR ")
                };
                (either("a", "b"), either("(a + 0)", "(b + 0)"))
            }
            4 => (format!("a IN ({})", lists[0]), format!("(a + 0) IN ({})", lists[0])),
            _ => (format!("(b, c) IN ({})", rows.join(", ")), disjunction("(b + 0)", "(c + 0)")),
        };
        let also = if first { "AND c = 1" } else { "" };
        let query = |condition: &str| format!("SELECT a, b, c FROM k WHERE ({condition}) {also} ORDER BY a, b, c");
        let by_key = run(&application, &mut store, &query(&condition));
        let by_scan = run(&application, &mut store, &query(&hidden));
        prop_assert_eq!(&by_key, &by_scan, "{}", query(&condition));
        run(&application, &mut store, &format!("DELETE FROM k WHERE ({condition}) {also}"));
        let left = run(&application, &mut store, "SELECT a FROM k");
        prop_assert_eq!(left.len(), 32 - by_scan.len(), "{}", condition);
    }
}

/// Where all tuples have one range, it is read once, and they find their rows through a hash table.
#[test]
fn one_range_of_all_tuples_is_read_once() {
    const TABLES: &str = "
CREATE TABLE buyer (shop integer, id integer, zone integer, PRIMARY KEY (shop, id));
CREATE TABLE payment (id integer PRIMARY KEY, shop integer NOT NULL, buyer integer, zone integer, amount numeric(6, 2));
CREATE INDEX payment_shop ON payment (shop);
";
    let catalog = load(vec![SourceFile::new("t.sql", TABLES)]).unwrap();
    let application = Application::compile(catalog).unwrap();
    let mut store = Store::new(&application);
    for number in 0..30 {
        let (shop, id) = (number / 15, number % 15);
        let zone = if number % 7 == 0 {
            "NULL".into()
        } else {
            format!("{}", number % 3)
        };
        run(
            &application,
            &mut store,
            &format!("INSERT INTO buyer VALUES ({shop}, {id}, {zone})"),
        );
    }
    for number in 0..200 {
        let (shop, buyer) = (number % 2, number % 17);
        let zone = if number % 5 == 0 {
            "NULL".into()
        } else {
            format!("{}", number % 3)
        };
        let insert =
            format!("INSERT INTO payment VALUES ({number}, {shop}, {buyer}, {zone}, {number}.25)");
        run(&application, &mut store, &insert);
    }
    // The addition hides the column from the planner: then the whole table is read.
    for (query, condition) in [
        (
            "SELECT b.id, (SELECT sum(amount) FROM payment AS p WHERE {} AND p.buyer = b.id AND p.zone = b.zone) FROM buyer AS b WHERE b.shop = 1",
            "p.shop = 1",
        ),
        (
            "SELECT b.id, p.id FROM buyer AS b JOIN payment AS p ON {} AND p.buyer = b.id WHERE b.shop = 1",
            "p.shop = 1",
        ),
        (
            "SELECT b.id, p.id FROM buyer AS b LEFT JOIN payment AS p ON {} AND p.buyer = b.id AND p.zone = b.zone WHERE b.shop = 0",
            "p.shop = 1",
        ),
        (
            "SELECT b.id FROM buyer AS b WHERE b.shop = 0 AND NOT EXISTS (SELECT 1 FROM payment AS p WHERE {} AND p.zone = b.zone AND p.amount < 40)",
            "p.shop = b.shop",
        ),
    ] {
        let query = format!("{query} ORDER BY 1");
        let by_range = query.replace("{}", condition);
        let by_scan = query.replace("{}", &condition.replace("p.shop", "p.shop + 0"));
        let statement = application.statement(&by_range).unwrap();
        let mut transaction = store.begin();
        transaction.record = true;
        let mut found = ready(statement.execute(&mut transaction, &[]))
            .unwrap()
            .rows;
        let reads = |index: bool| {
            let all = transaction.reads.iter().flat_map(|(.., reads)| reads);
            all.filter(
                |read| matches!(read, Read::Range { index: of, .. } if of.is_some() == index),
            )
            .count()
        };
        assert_eq!(reads(true), 1, "{by_range}");
        let mut expected = run(&application, &mut store, &by_scan);
        let order = |rows: &mut Vec<Vec<Value>>| rows.sort_by_key(|row| format!("{row:?}"));
        order(&mut found);
        order(&mut expected);
        assert!(!expected.is_empty());
        assert_eq!(found, expected, "{by_range}");
    }
}

/// A column of the enclosing query beside the row's own, and a condition that keeps another one from failing.
#[test]
fn conditions_of_a_shared_range_see_what_they_name() {
    const TABLES: &str = "
CREATE TABLE u (id integer PRIMARY KEY, x integer);
CREATE TABLE t (id integer PRIMARY KEY, shop integer, b integer, kind text, txt text);
CREATE INDEX t_shop ON t (shop);
";
    let catalog = load(vec![SourceFile::new("t.sql", TABLES)]).unwrap();
    let application = Application::compile(catalog).unwrap();
    let mut store = Store::new(&application);
    for id in 0..4 {
        run(
            &application,
            &mut store,
            &format!("INSERT INTO u VALUES ({id}, {id})"),
        );
    }
    for id in 0..40 {
        let (kind, text) = if id % 10 == 9 {
            ("w", "abc".into())
        } else {
            ("n", format!("{}", id % 4))
        };
        let row = format!(
            "INSERT INTO t VALUES ({id}, 1, {}, '{kind}', '{text}')",
            id % 6
        );
        run(&application, &mut store, &row);
    }
    for condition in ["t.shop = 1 AND", ""] {
        let query = format!(
            "SELECT u.id, (SELECT count(*) FROM t WHERE {condition} t.b + u.x = 5) FROM u ORDER BY u.id"
        );
        let counts = run(&application, &mut store, &query);
        // b is 5, 4, 3, 2, of the residues 0 to 5 of 40 rows.
        let expected: Vec<Vec<Value>> = [6, 6, 7, 7]
            .iter()
            .zip(0..)
            .map(|(count, id)| vec![Value::Int(id), Value::Int(*count)])
            .collect();
        assert_eq!(counts, expected, "{query}");
    }
    let query =
        "SELECT count(*) FROM u LEFT JOIN t ON t.shop = 1 AND t.kind = 'n' AND t.txt::int = u.x";
    assert_eq!(run(&application, &mut store, query), [[Value::Int(36)]]);
}

/// Each row is compared with a value of its own: none of them is looked up.
#[test]
fn a_value_that_each_row_draws_is_no_key() {
    let mut database = Database::with(
        "CREATE SEQUENCE s; CREATE TABLE r (id integer PRIMARY KEY, n integer UNIQUE);",
        &["INSERT INTO r SELECT i, i * 10 FROM generate_series(1, 4) AS i"],
    );
    database.check(
        "SELECT n FROM r WHERE id = nextval('s') ORDER BY n",
        "10;20;30;40",
    );
    database.check("SELECT n FROM r WHERE id = nextval('s') OR false", "");
    database.check("DELETE FROM r WHERE n = 10 * (nextval('s') - 8)", "#4");
}
