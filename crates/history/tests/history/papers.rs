//! ramp.txt's Histories 1 to 8, each checked against the models that it illustrates.

use anabranch_history::{History, Model, Phenomenon, Rsiw};

use crate::support::found;

/// A history of transactions given as operations: `w x` writes, `r x` reads the initial version,
/// `r x 1` reads T1's. Version orders are given apart.
fn history(transactions: &[&str], orders: &[(&str, &str)]) -> History {
    let transaction = |(number, operations): (usize, &&str)| {
        let operations: Vec<String> = operations
            .split(';')
            .map(|operation| {
                let words: Vec<&str> = operation.split_whitespace().collect();
                match words[..] {
                    ["w", item] => format!("{{\"write\":\"{item}\"}}"),
                    ["r", item] => format!("{{\"read\":\"{item}\"}}"),
                    ["r", item, of] => format!("{{\"read\":\"{item}\",\"version\":\"T{of}\"}}"),
                    _ => panic!("{operation}"),
                }
            })
            .collect();
        format!(
            "{{\"transaction\":\"T{number}\",\"outcome\":\"committed\",\"operations\":[{}]}}\n",
            operations.join(",")
        )
    };
    let transactions: Vec<String> = (1..).zip(transactions).map(transaction).collect();
    crate::support::history(&transactions, orders)
}

#[test]
fn history_1_is_read_committed_and_not_read_atomic() {
    let history = history(
        &[
            "w x; w y",
            "r x; r y",
            "r x 1; r y 1",
            "r x; r y 1",
            "r x 1; r y",
        ],
        &[],
    );
    assert_eq!(found(&history, Model::ReadCommitted), []);
    assert_eq!(
        found(&history, Model::ReadAtomic),
        [
            Phenomenon::FracturedReads,
            Phenomenon::ObservedTransactionVanishes
        ]
    );
}

#[test]
fn history_2_loses_an_update_under_read_atomic() {
    let history = history(&["r x; w x", "r x; w x"], &[("x", "1 2")]);
    assert_eq!(found(&history, Model::ReadAtomic), []);
    assert_eq!(found(&history, Model::Snapshot), [Phenomenon::LostUpdate]);
}

#[test]
fn history_3_skews_writes_under_snapshots() {
    let history = history(&["r y; w x", "r x; w y"], &[]);
    assert_eq!(found(&history, Model::ReadAtomic), []);
    assert_eq!(found(&history, Model::Snapshot), []);
    assert_eq!(
        found(&history, Model::Serializable),
        [Phenomenon::WriteSkew]
    );
    assert_eq!(
        found(&history, Model::UpdateSerializable),
        [Phenomenon::WriteSkew]
    );
}

#[test]
fn history_4_misses_a_dependency_under_read_atomic() {
    let history = history(&["w x; w y", "r y 1; w z", "r x; r z 2"], &[]);
    assert_eq!(found(&history, Model::ReadAtomic), []);
    assert_eq!(
        found(&history, Model::Causal),
        [Phenomenon::MissingDependency]
    );
    assert_eq!(found(&history, Model::Snapshot), [Phenomenon::GSingle]);
}

#[test]
fn histories_5_6_and_8_are_serializable() {
    let histories = [
        history(&["w x; w y", "r x 1; r y 1", "r x 1; r z"], &[]),
        history(&["w x; w y", "w u; w z", "r x 1; r z 2"], &[]),
        history(
            &["w x; w y", "w x; w y", "r x 1; r y 1", "r y 2"],
            &[("x", "1 2"), ("y", "1 2")],
        ),
    ];
    for history in &histories {
        for model in Model::ALL {
            if !model.is_of_sessions() && model != Model::StrictSerializable {
                assert_eq!(found(history, model), [], "{model}");
            }
        }
    }
}

#[test]
fn history_7_is_read_atomic_and_a_long_fork() {
    let history = history(&["w x; w y", "w u; w z", "r x 1; r z", "r x; r z 2"], &[]);
    assert_eq!(found(&history, Model::ReadAtomic), []);
    assert_eq!(found(&history, Model::Causal), []);
    assert_eq!(found(&history, Model::UpdateSerializable), []);
    assert_eq!(found(&history, Model::Snapshot), [Phenomenon::LongFork]);
    assert_eq!(found(&history, Model::Serializable), [Phenomenon::LongFork]);
}

#[test]
fn write_cycles_and_circular_reads_are_not_read_committed() {
    let crossed = history(&["w x; w y", "w x; w y"], &[("x", "1 2"), ("y", "2 1")]);
    assert_eq!(found(&crossed, Model::ReadCommitted), [Phenomenon::G0]);
    let circular = history(&["w x; r y 2", "w y; r x 1"], &[]);
    assert!(found(&circular, Model::ReadCommitted).contains(&Phenomenon::G1c));
}

#[test]
fn two_versions_of_one_item_are_named() {
    let history = history(&["w x", "w x", "r x 1; r x 2"], &[("x", "1 2")]);
    assert_eq!(found(&history, Model::ReadCommitted), []);
    assert_eq!(
        found(&history, Model::ReadAtomic),
        [Phenomenon::ItemManyPreceders]
    );
}

#[test]
fn a_version_that_no_transaction_wrote_is_refused_with_its_line() {
    let text = "{\"anabranch_history\":1}\n\
        {\"transaction\":\"T1\",\"outcome\":\"committed\",\"operations\":[{\"write\":\"y\"}]}\n\
        {\"transaction\":\"T2\",\"outcome\":\"committed\",\"operations\":[{\"read\":\"x\",\"version\":\"T1\"}]}\n\
        {\"end\":{\"transactions\":2}}\n";
    let error = History::read(text.as_bytes()).unwrap_err();
    assert_eq!(error.line, 3);
    assert!(
        error.to_string().contains("no transaction wrote"),
        "{error}"
    );
}

/// The paper's statements on its histories: which readers read a subset of the items written together.
#[test]
fn histories_5_to_8_have_the_read_subset_property_or_not() {
    let subset = |transactions: &[&str], orders: &[(&str, &str)]| {
        let history = history(transactions, orders);
        let found = Rsiw::of(&history);
        assert_eq!(found.read_write, 0);
        assert_eq!(found.write_only + found.read_only, transactions.len());
        (found.subset, found.holds(), found.read_only, history)
    };
    let five = ["w x; w y", "r x 1; r y 1", "r x 1; r z"];
    let (having, holds, readers, _) = subset(&five, &[]);
    assert_eq!(
        (having, holds, readers),
        (1, false, 2),
        "T3 reads z beside x"
    );

    let six = ["w x; w y", "w u; w z", "r x 1; r z 2"];
    let (having, holds, _, history_6) = subset(&six, &[]);
    assert_eq!((having, holds), (0, false));
    assert_eq!(
        found(&history_6, Model::Serializable),
        [],
        "sufficient, not necessary"
    );

    let seven = ["w x; w y", "w u; w z", "r x 1; r z", "r x; r z 2"];
    let (having, holds, _, history_7) = subset(&seven, &[]);
    assert_eq!((having, holds), (0, false));
    assert_eq!(found(&history_7, Model::ReadAtomic), []);
    assert_ne!(found(&history_7, Model::Serializable), []);

    let eight = ["w x; w y", "w x; w y", "r x 1; r y 1", "r y 2"];
    let (having, holds, _, history_8) = subset(&eight, &[("x", "1 2"), ("y", "1 2")]);
    assert_eq!((having, holds), (2, true));
    assert_eq!(found(&history_8, Model::Serializable), []);
}

/// The property does not apply to transactions that read and write, and says nothing of isolation.
#[test]
fn the_read_subset_property_is_of_what_transactions_do() {
    let mixed = history(&["w x; w y", "r x 1; w x"], &[("x", "1 2")]);
    assert_eq!(Rsiw::of(&mixed).read_write, 1);
    assert!(!Rsiw::of(&mixed).holds());
    let fractured = history(&["w x; w y", "r x 1; r y"], &[]);
    assert!(Rsiw::of(&fractured).holds());
    assert_ne!(found(&fractured, Model::ReadAtomic), []);
}
