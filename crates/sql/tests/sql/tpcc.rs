//! TPC-C's five procedures over a store in memory: their results, their effects, and their summaries.

use anabranch_sql::{
    Application, SourceFile, TransactionError, load,
    summary::{Deferral, ResultUse, Term, WriteClass},
    testing::{Store, ready},
};
use anabranch_types::{Decimal, Value};

fn application() -> Application {
    let file = |name: &str| {
        let path = format!("{}/../../examples/tpcc/{name}", env!("CARGO_MANIFEST_DIR"));
        SourceFile::new(name, std::fs::read_to_string(path).unwrap())
    };
    let files = vec![
        file("schema.sql"),
        file("assertions.sql"),
        file("procedures.sql"),
    ];
    let catalog = match load(files.clone()) {
        Ok(catalog) => catalog,
        Err(problems) => panic!("{}", anabranch_sql::render(&problems, &files)),
    };
    match Application::compile(catalog) {
        Ok(application) => application,
        Err(problems) => panic!("{}", anabranch_sql::render(&problems, &files)),
    }
}

fn run(store: &mut Store, application: &Application, text: &str) -> Vec<Vec<Value>> {
    let statement = match application.statement(text) {
        Ok(statement) => statement,
        Err(problems) => panic!("{text}: {problems:?}"),
    };
    let mut transaction = store.begin();
    match ready(statement.execute(&mut transaction, &[])) {
        Ok(result) => result.rows,
        Err(error) => panic!("{text}: {error:?}"),
    }
}

const DISTRICTS: i64 = 2;
const CUSTOMERS: i64 = 10;
const ITEMS: i64 = 50;

fn loaded(application: &Application) -> Store {
    let mut store = Store::new(application);
    let store_ref = &mut store;
    let mut go = |text: String| run(store_ref, application, &text);
    go(format!(
        "INSERT INTO warehouse SELECT w, 'name', 's1', 's2', 'city', 'ST', '123456789', 0.1, {} FROM generate_series(1, 2) w",
        DISTRICTS * CUSTOMERS * 10
    ));
    go(format!(
        "INSERT INTO district SELECT w, d, 'dist', 's1', 's2', 'city', 'ST', '123456789', 0.05, {}, {} FROM generate_series(1, 2) w, generate_series(1, {DISTRICTS}) d",
        CUSTOMERS * 10,
        CUSTOMERS + 1
    ));
    go(format!(
        "INSERT INTO customer SELECT w, d, c, 'first' || c, 'OE', CASE c % 3 WHEN 0 THEN 'BAR' ELSE 'OUGHT' END, 's1', 's2', 'city', 'ST', '123456789', '0123456789012345', '2024-01-01 00:00:00', CASE WHEN c % 4 = 0 THEN 'BC' ELSE 'GC' END, 50000, 0.25, -10, 10, 1, 0, 'data' FROM generate_series(1, 2) w, generate_series(1, {DISTRICTS}) d, generate_series(1, {CUSTOMERS}) c"
    ));
    go(format!(
        "INSERT INTO history SELECT w, d, c, w, d, '2024-01-01', 10, 'hist' FROM generate_series(1, 2) w, generate_series(1, {DISTRICTS}) d, generate_series(1, {CUSTOMERS}) c"
    ));
    go(format!(
        "INSERT INTO item SELECT i, 1, 'item' || i, 1 + i * 0.5, 'data' FROM generate_series(1, {ITEMS}) i"
    ));
    go(format!(
        "INSERT INTO stock SELECT w, i, 50, 'd01', 'd02', 'd03', 'd04', 'd05', 'd06', 'd07', 'd08', 'd09', 'd10', 0, 0, 0, 'data' FROM generate_series(1, 2) w, generate_series(1, {ITEMS}) i"
    ));
    go(format!(
        "INSERT INTO orders SELECT w, d, o, o, '2024-01-01', NULL, 5, 1 FROM generate_series(1, 2) w, generate_series(1, {DISTRICTS}) d, generate_series(1, {CUSTOMERS}) o"
    ));
    go("INSERT INTO new_order SELECT o_w_id, o_d_id, o_id FROM orders".into());
    go("INSERT INTO order_line SELECT o_w_id, o_d_id, o_id, l, l, o_w_id, NULL, 5, 2.50, 'd01' FROM orders, generate_series(1, 5) l".into());
    store
}

fn ints(list: &[i64]) -> Value {
    Value::Array(list.iter().map(|i| Value::Int(*i)).collect())
}

fn decimal(text: &str) -> Value {
    Value::Numeric(Decimal::parse(text).unwrap())
}

fn call(
    store: &mut Store,
    application: &Application,
    name: &str,
    arguments: &[Value],
    defer: bool,
) -> Result<Vec<Vec<Value>>, TransactionError> {
    let mut transaction = store.begin();
    transaction.defer = defer;
    match ready(
        application
            .find(name)
            .unwrap()
            .call(&mut transaction, arguments),
    ) {
        Ok(mut result) => {
            result.resolve(transaction.slots_so_far());
            Ok(result.rows)
        }
        Err(error) => {
            transaction.rollback();
            Err(error)
        }
    }
}

fn new_order(items: &[i64]) -> Vec<Value> {
    let quantities: Vec<i64> = items.iter().map(|i| i % 10 + 1).collect();
    let supply = vec![1; items.len()];
    vec![
        Value::Int(1),
        Value::Int(2),
        Value::Int(3),
        Value::Timestamp(1_000_000),
        ints(items),
        ints(&supply),
        ints(&quantities),
    ]
}

fn payment(customer: Value, last: Value) -> Vec<Value> {
    vec![
        Value::Int(1),
        Value::Int(1),
        Value::Int(2),
        Value::Int(2),
        customer,
        last,
        decimal("12.34"),
        Value::Timestamp(5),
    ]
}

fn mix(application: &Application, defer: bool) -> (Store, Vec<Vec<Vec<Value>>>) {
    let mut store = loaded(application);
    let mut results = Vec::new();
    let mut go = |name: &str, arguments: &[Value]| {
        results.push(call(&mut store, application, name, arguments, defer).unwrap());
    };
    go("new_order", &new_order(&[1, 5, 7, 20, 50]));
    go("new_order", &new_order(&[2, 3, 4, 5, 6, 7]));
    go("payment", &payment(Value::Int(4), Value::Null));
    go("payment", &payment(Value::Null, Value::text("BAR")));
    go(
        "order_status",
        &[Value::Int(1), Value::Int(2), Value::Int(3), Value::Null],
    );
    go(
        "delivery",
        &[Value::Int(1), Value::Int(7), Value::Timestamp(9)],
    );
    go(
        "delivery",
        &[Value::Int(1), Value::Int(8), Value::Timestamp(10)],
    );
    go(
        "stock_level",
        &[Value::Int(1), Value::Int(2), Value::Int(50)],
    );
    (store, results)
}

#[test]
fn the_five_procedures_give_the_same_with_and_without_deferral() {
    let application = application();
    let (plain, plain_results) = mix(&application, false);
    let (deferred, deferred_results) = mix(&application, true);
    assert_eq!(plain_results, deferred_results);
    for table in &application.schema().tables {
        assert_eq!(
            plain.rows(&table.name),
            deferred.rows(&table.name),
            "{}",
            table.name
        );
    }
    let first = &plain_results[0][0];
    assert_eq!(first[0], Value::Int(11));
    // (1.5*2 + 3.5*6 + 4.5*8 + 11*1 + 26*1) * 0.75 * 1.15
    assert_eq!(first[1], decimal("83.66250000"));
    assert_eq!(first[4], decimal("0.25"));
    assert_eq!(first[6], Value::text("GC"));
    let by_number = &plain_results[2][0];
    assert_eq!(by_number[12], Value::Int(4));
    assert_eq!(by_number[26], decimal("-22.34"));
    assert_eq!(by_number[27], Value::text("4 2 2 1 1 12.34|data"));
    // Customers 3, 6 and 9 are BARs: the second of three.
    assert_eq!(plain_results[3][0][12], Value::Int(6));
    let status = &plain_results[4];
    assert_eq!(status.len(), 6);
    assert_eq!(status[0][5], Value::Int(12));
    assert_eq!(plain_results[5], vec![vec![Value::Int(2)]]);
    assert_eq!(plain_results[7], vec![vec![Value::Int(9)]]);
}

#[test]
fn the_conditions_hold_and_a_planted_error_is_found() {
    let application = application();
    let (mut store, _) = mix(&application, true);
    assert_eq!(application.assertions().len(), 12);
    let mut transaction = store.begin();
    for assertion in application.assertions() {
        let holds = ready(assertion.holds(&mut transaction)).unwrap();
        assert!(holds, "{}", assertion.name());
    }
    run(
        &mut store,
        &application,
        "UPDATE district SET d_ytd = d_ytd + 1 WHERE d_w_id = 1 AND d_id = 1",
    );
    run(
        &mut store,
        &application,
        "UPDATE orders SET o_ol_cnt = 6 WHERE o_w_id = 2 AND o_d_id = 1 AND o_id = 1",
    );
    let mut transaction = store.begin();
    let broken: Vec<&str> = application
        .assertions()
        .iter()
        .filter(|assertion| !ready(assertion.holds(&mut transaction)).unwrap())
        .map(|assertion| assertion.name())
        .collect();
    assert_eq!(
        broken,
        ["condition_1", "condition_4", "condition_6", "condition_9"]
    );
}

#[test]
fn an_unknown_item_rolls_back() {
    let application = application();
    let mut store = loaded(&application);
    let before = store.rows("district");
    let error = call(
        &mut store,
        &application,
        "new_order",
        &new_order(&[1, 2, 3, 4, 99]),
        true,
    );
    match error {
        Err(TransactionError::Failed(error)) => {
            assert_eq!(error.code, "TPCC1");
            assert_eq!(error.message, "Item number is not valid");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(store.rows("district"), before);
}

#[test]
fn the_summaries_have_deferrals_and_terms() {
    let application = application();
    let schema = application.schema();
    let table = |name: &str| schema.tables.iter().find(|t| t.name == name).unwrap().id;
    let mut deferrable = Vec::new();
    for summary in application.summaries() {
        for statement in summary
            .statements
            .iter()
            .filter(|s| s.deferral == Deferral::Unread)
        {
            let name = &schema.table(statement.accesses[0].table).name;
            deferrable.push((summary.name.as_str(), name.as_str(), statement.result));
        }
    }
    assert_eq!(
        deferrable,
        [
            ("new_order", "district", ResultUse::Carried),
            ("new_order", "stock", ResultUse::Unused),
            ("payment", "warehouse", ResultUse::Unused),
            ("payment", "district", ResultUse::Unused),
            ("payment", "customer", ResultUse::Carried),
            ("delivery", "customer", ResultUse::Unused),
        ]
    );
    let new_order = &application.summaries()[0];
    let orders = new_order
        .statements
        .iter()
        .flat_map(|s| &s.accesses)
        .find(|a| a.table == table("orders"))
        .unwrap();
    assert_eq!(
        orders.writes[0].class,
        WriteClass::Assign(Term::Parameter(0))
    );
    assert!(
        matches!(
            &orders.writes[2].class,
            WriteClass::Assign(Term::Incremented { offset: -1, .. })
        ),
        "{:?}",
        orders.writes[2]
    );
    let stock = new_order
        .statements
        .iter()
        .flat_map(|s| &s.accesses)
        .find(|a| a.table == table("stock") && !a.writes.is_empty())
        .unwrap();
    assert_eq!(stock.conditions[0].term, Term::Element(5));
    assert_eq!(stock.writes[0].class, WriteClass::FromRow);
    assert!(matches!(
        &stock.writes[1].class,
        WriteClass::Add {
            term: Term::Element(6),
            negated: false
        }
    ));
    let delivery = application
        .summaries()
        .iter()
        .find(|s| s.name == "delivery")
        .unwrap();
    let delete = &delivery.statements[1].accesses[0];
    assert!(delivery.statements[1].in_loop);
    assert!(
        matches!(&delete.conditions[2].term, Term::Aggregate { function, offset: 0, .. } if function == "min")
    );
}
