//! Tests of the drawn operations, their frequencies, and refused parameters.

use std::collections::BTreeMap;

use super::*;

const PLACE: ClientPlacement = ClientPlacement {
    client: 3,
    node: 0,
    nodes: 8,
};

fn parameters(change: impl FnOnce(&mut Parameters)) -> Parameters {
    let mut parameters = Parameters {
        items: 8_000,
        ..Parameters::RAMP
    };
    change(&mut parameters);
    parameters
}

fn calls(parameters: Parameters, count: usize) -> Vec<Operation> {
    let workload = Ycsb::with(parameters).expect("they make sense");
    let mut caller = workload.calls(1, PLACE);
    (0..count).map(|_| caller.next()).collect()
}

fn keys(operation: &Operation) -> Vec<i64> {
    let Value::Array(keys) = &operation.arguments[0] else {
        panic!("a transaction begins with its items")
    };
    let number = |key: &Value| match key {
        Value::Int(key) => *key,
        other => panic!("an item has a number, not {other:?}"),
    };
    keys.iter().map(number).collect()
}

#[test]
fn a_transaction_takes_distinct_items_by_zipfs_law_and_a_twentieth_writes() {
    let calls = calls(parameters(|_| ()), 20_000);
    let (mut writes, mut drawn) = (0, BTreeMap::new());
    for call in &calls {
        writes += u32::from(call.procedure == PUT_ALL);
        let keys = keys(call);
        assert_eq!(keys.len(), 4);
        for key in keys {
            *drawn.entry(key).or_insert(0) += 1;
        }
        let distinct: std::collections::BTreeSet<i64> = self::keys(call).into_iter().collect();
        assert_eq!(distinct.len(), 4, "{call:?}");
    }
    assert!((900..1_100).contains(&writes), "{writes}");
    // A tenth of all that is drawn, but no transaction takes it twice.
    let hottest = scattered(0, 8_000) as i64;
    assert!(
        (6_000..9_000).contains(&drawn[&hottest]),
        "{}",
        drawn[&hottest]
    );
    let most = drawn.iter().max_by_key(|(_, times)| **times);
    assert_eq!(most.map(|(key, _)| *key), Some(hottest));
    assert!(drawn.keys().all(|key| (0..8_000).contains(key)));
}

#[test]
fn length_reads_and_value_are_as_asked_for() {
    let asked = parameters(|p| {
        p.form = Form::Transactions {
            length: 7,
            reads_percent: 0.0,
        };
        p.value_bytes = 30;
        p.distribution = Distribution::Uniform;
    });
    let calls = calls(asked, 2_000);
    let mut drawn = BTreeMap::new();
    for call in &calls {
        assert_eq!(call.procedure, PUT_ALL);
        assert!(matches!(&call.arguments[1], Value::Text(text) if text.len() == 30));
        for key in keys(call) {
            *drawn.entry(key).or_insert(0) += 1;
        }
    }
    // 14,000 draws of 8,000: none often.
    assert!(drawn.values().all(|times| *times < 20));
    assert!(drawn.len() > 6_000);
}

#[test]
fn letters_have_their_shares() {
    let share = |letter: Letter| {
        let asked = parameters(|p| {
            p.form = Form::Letter(letter);
            p.distribution = letter.distribution();
        });
        let mut counts = [0; 6];
        for call in calls(asked, 10_000) {
            counts[call.procedure] += 1;
        }
        counts.map(|count: i32| (count + 50) / 100)
    };
    let close = |found: [i32; 6], right: [i32; 6]| {
        let near = found.iter().zip(&right).all(|(a, b)| (a - b).abs() <= 2);
        assert!(near, "{found:?}, not {right:?}");
    };
    close(share(Letter::A), [0, 0, 50, 50, 0, 0]);
    close(share(Letter::B), [0, 0, 95, 5, 0, 0]);
    assert_eq!(share(Letter::C), [0, 0, 100, 0, 0, 0]);
    close(share(Letter::D), [0, 0, 95, 0, 0, 5]);
    close(share(Letter::E), [0, 0, 0, 0, 95, 5]);
    close(share(Letter::F), [0, 0, 50, 0, 0, 50]);
}

#[test]
fn the_latest_are_read_most_and_no_two_clients_insert_the_same() {
    let asked = parameters(|p| {
        p.form = Form::Letter(Letter::D);
        p.distribution = Distribution::Latest;
    });
    let mut inserted = Vec::new();
    let (mut newest, mut reads) = (0, 0);
    for call in calls(asked, 10_000) {
        let Value::Int(key) = call.arguments[0] else {
            panic!("a single operation begins with its item")
        };
        if call.procedure == INSERT {
            inserted.push(key);
        } else {
            reads += 1;
            newest += u32::from(inserted.last().is_some_and(|last| *last == key));
            assert!(inserted.contains(&key) || (0..8_000).contains(&key));
        }
    }
    // A tenth, as of every first rank of so many.
    assert!(
        (reads / 14..reads / 7).contains(&newest),
        "{newest} of {reads}"
    );
    let other = ClientPlacement { client: 4, ..PLACE };
    let workload = Ycsb::with(asked).expect("they make sense");
    let mut caller = workload.calls(1, other);
    let others = (0..10_000).map(|_| caller.next());
    let theirs = others.filter(|call| call.procedure == INSERT);
    let first = inserted.first().copied().map(Value::Int);
    assert!(
        theirs
            .into_iter()
            .all(|call| Some(&call.arguments[0]) != first.as_ref())
    );
}

#[test]
fn senseless_parameters_are_refused_by_name() {
    let refused = |change: fn(&mut Parameters)| {
        let error = Ycsb::with(parameters(change)).expect_err("it makes no sense");
        error.to_string()
    };
    assert_eq!(Ycsb::with(parameters(|_| ())).map(|_| ()), Ok(()));
    let form = |length, reads_percent| Form::Transactions {
        length,
        reads_percent,
    };
    assert_eq!(
        refused(|p| p.items = 7),
        "items has to be between 8 and 1099511627776, twice as many as a transaction's operations at least"
    );
    assert!(refused(|p| p.items = u64::MAX).starts_with("items"));
    assert!(refused(|p| p.zipfian_constant = 1.0).starts_with("zipfian-constant"));
    assert!(refused(|p| p.zipfian_constant = f64::NAN).starts_with("zipfian-constant"));
    assert!(refused(|p| p.value_bytes = usize::MAX).starts_with("value-bytes"));
    for (form, name) in [
        (form(0, 95.0), "length"),
        (form(LENGTH_MAX + 1, 95.0), "length"),
        (form(4, 101.0), "reads"),
        (form(4, f64::NAN), "reads"),
    ] {
        let asked = parameters(|p| p.form = form);
        assert_eq!(Ycsb::with(asked).expect_err("it makes no sense").name, name);
    }
}

#[test]
fn answers_that_cannot_be_are_found() {
    let workload = Ycsb::new(1);
    let row = || vec![Value::Int(1), Value::Text("a".into())];
    let keys = Value::Array([Value::Int(1), Value::Int(2)].into());
    let get = operation(GET_ALL, [keys]);
    assert_eq!(workload.judge(&get, &[row(), row()]), Ok(()));
    assert!(workload.judge(&get, &[row()]).is_err());
    let read = |key| operation(READ, [Value::Int(key)]);
    assert!(workload.judge(&read(5), &[]).is_err());
    assert_eq!(workload.judge(&read(5), &[row()]), Ok(()));
    assert_eq!(workload.judge(&read(5_000), &[]), Ok(()));
    assert!(workload.judge(&read(5), &[row(), row()]).is_err());
    let scan = operation(SCAN, [Value::Int(1), Value::Int(2)]);
    assert_eq!(workload.judge(&scan, &[row()]), Ok(()));
    assert!(workload.judge(&scan, &[]).is_err());
    assert!(workload.judge(&scan, &[row(), row(), row()]).is_err());
}

/// Coordination is needed exactly for the operations in the additional files.
#[test]
fn only_inserts_and_what_is_read_to_be_changed_has_guards() {
    use anabranch_analysis::{Guarantee, Topology, analyze};
    use anabranch_sql::application::Application;
    use anabranch_sql::source::SourceFile;
    let guarded = |form| {
        let workload = Ycsb::with(parameters(|p| p.form = form)).expect("they make sense");
        let files = workload.files().iter();
        let files = files.map(|(name, text)| SourceFile::new(*name, *text));
        let catalog = anabranch_sql::catalog::load(files.collect()).expect("it loads");
        let application = Application::compile(catalog).expect("it compiles");
        let names: Vec<&str> = application.procedures.iter().map(|p| p.name()).collect();
        assert_eq!(names, workload.procedures());
        let (catalog, types) = (application.catalog(), application.summaries());
        let plan = analyze(catalog, types, Topology::Partitioned, Guarantee::Invariants);
        let entries = plan.entries.iter().filter(|entry| !entry.guards.is_empty());
        entries
            .map(|entry| entry.name.clone())
            .collect::<Vec<String>>()
    };
    assert_eq!(guarded(Form::RAMP), [""; 0]);
    assert_eq!(guarded(Form::Letter(Letter::A)), [""; 0]);
    assert_eq!(guarded(Form::Letter(Letter::E)), ["insert_item"]);
    let of_f = guarded(Form::Letter(Letter::F));
    assert!(of_f.contains(&"update_item".to_owned()), "{of_f:?}");
}
