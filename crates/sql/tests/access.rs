//! Every access path gives the rows that a scan with a filter gives.

use anabranch_sql::{
    Application, SourceFile, load,
    testing::{Store, ready},
};
use anabranch_types::Value;
use proptest::prelude::*;

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
