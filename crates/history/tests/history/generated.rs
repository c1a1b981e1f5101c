//! A long valid history satisfies every model; damaged in one place, it does not.

use anabranch_history::generate::Generator;
use anabranch_history::record::{Operation, Outcome, Transaction, VersionName};
use anabranch_history::{History, HistoryBuilder, HistoryError, Model, Phenomenon};

const LENGTH: u64 = 3_000;

fn generated(seed: u64) -> Vec<Transaction> {
    Generator::new(seed, LENGTH).collect()
}

fn build(transactions: &[Transaction]) -> Result<History, HistoryError> {
    let mut builder = HistoryBuilder::new(Generator::header(0));
    for (line, transaction) in (2..).zip(transactions) {
        builder.add(line, transaction.clone())?;
    }
    builder.finish()
}

fn found(transactions: &[Transaction], model: Model) -> Vec<Phenomenon> {
    let history = build(transactions).unwrap_or_else(|error| panic!("{error}"));
    crate::support::found(&history, model)
}

/// The first transaction from the middle on that has such an operation.
fn pick(
    transactions: &mut [Transaction],
    is_it: impl Fn(&Operation) -> bool,
) -> (&mut Transaction, usize) {
    let middle = transactions.len() / 2;
    let found = transactions[middle..].iter_mut().find_map(|transaction| {
        let at = transaction.operations.iter().position(&is_it)?;
        Some((transaction, at))
    });
    found.expect("there is one")
}

#[test]
fn what_is_generated_satisfies_every_model() {
    for seed in 0..3 {
        let transactions = generated(seed);
        assert_eq!(transactions.len() as u64, LENGTH);
        assert_ne!(transactions[0].id, transactions[1].id);
        for model in Model::ALL {
            assert_eq!(found(&transactions, model), [], "{seed} {model}");
        }
    }
    let ordered = |transaction: &Transaction| transaction.id[1..].parse::<u64>().unwrap();
    assert!(!generated(1).is_sorted_by_key(ordered), "answers overtake");
}

#[test]
fn a_read_of_an_older_version_is_noticed() {
    let mut transactions = generated(1);
    let known = |op: &Operation| matches!(op, Operation::Read(read) if read.version.is_some());
    let (transaction, at) = pick(&mut transactions, known);
    let Operation::Read(read) = &mut transaction.operations[at] else {
        unreachable!("it was picked")
    };
    read.version = None;
    assert_eq!(
        found(&transactions, Model::ReadCommitted),
        [Phenomenon::WrongVersion]
    );
    // Without the sequence of the read, only the order of other transactions shows the anomaly.
    let Operation::Read(read) = &mut pick_again(&mut transactions) else {
        unreachable!("it was picked")
    };
    read.at = None;
    let wrong = found(&transactions, Model::StrictSerializable);
    assert!(
        !wrong.is_empty() && !wrong.contains(&Phenomenon::WrongVersion),
        "{wrong:?}"
    );
}

/// The read that was turned into one of the initial version.
fn pick_again(transactions: &mut [Transaction]) -> &mut Operation {
    let changed = |op: &Operation| matches!(op, Operation::Read(read) if read.version.is_none());
    let original = generated(1);
    let middle = transactions.len() / 2;
    let differs = |(now, before): (&Transaction, &Transaction)| now != before;
    let place = transactions.iter().zip(&original).position(differs);
    let place = place.expect("one was changed");
    assert!(place >= middle);
    let operations = &mut transactions[place].operations;
    let at = operations.iter().zip(&original[place].operations);
    let at = at
        .into_iter()
        .position(|(now, before)| now != before && changed(now));
    &mut operations[at.expect("one was changed")]
}

#[test]
fn a_row_that_a_range_lacks_is_noticed() {
    let mut transactions = generated(2);
    let full = |op: &Operation| matches!(op, Operation::Scan(scan) if scan.found.iter().any(|read| read.version.is_some()));
    let (transaction, at) = pick(&mut transactions, full);
    let Operation::Scan(scan) = &mut transaction.operations[at] else {
        unreachable!("it was picked")
    };
    scan.found.retain(|read| read.version.is_none());
    assert_eq!(
        found(&transactions, Model::ReadCommitted),
        [Phenomenon::WrongVersion]
    );
}

#[test]
fn what_was_aborted_and_what_was_lost_is_noticed() {
    let mut transactions = generated(3);
    let read = |op: &Operation| matches!(op, Operation::Read(read) if read.version.is_some());
    let (transaction, at) = pick(&mut transactions, read);
    let Operation::Read(read) = &transaction.operations[at] else {
        unreachable!("it was picked")
    };
    let writer = read.version.clone().expect("it was picked").writer;
    let place = transactions
        .iter()
        .position(|of| of.id == writer)
        .expect("it is there");
    transactions[place].outcome = Outcome::Aborted("conflict".into());
    assert!(found(&transactions, Model::ReadCommitted).contains(&Phenomenon::G1a));
    // If its effects still counted, the history would be unchanged.
    transactions[place].outcome = Outcome::Unknown;
    assert_eq!(found(&transactions, Model::StrictSerializable), []);
    transactions[place].outcome = Outcome::Committed;
    for operation in &mut transactions[place].operations {
        if let Operation::Write(write) = operation {
            write.at = None;
        }
    }
    assert!(found(&transactions, Model::ReadCommitted).contains(&Phenomenon::LostWrite));
}

#[test]
fn a_version_without_a_writer_is_refused_with_its_line() {
    let mut transactions = generated(4);
    let (transaction, at) = pick(&mut transactions, |op| matches!(op, Operation::Read(_)));
    let id = transaction.id.clone();
    let Operation::Read(read) = &mut transaction.operations[at] else {
        unreachable!("it was picked")
    };
    read.version = Some(VersionName::of("T1000000"));
    let line = transactions
        .iter()
        .position(|of| of.id == id)
        .expect("it is there")
        + 2;
    let error = build(&transactions).expect_err("no transaction wrote it");
    assert_eq!(error.line, line as u64);
}
