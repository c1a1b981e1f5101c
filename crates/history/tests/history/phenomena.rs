//! Each phenomenon with a history that shows it, and a similar one that does not.
//!
//! Transactions are written as operations: `w x` assigns, `inc x` increments, `app x` applies a deferred effect, `ins
//! t:5` and `del t:5` insert and delete a row, `r x` reads the initial version, `r x 1` T1's, `r x 1.2` the second
//! that T1 wrote; `s t 3 7 5:1` scans positions 3 to 7 of the space t and finds 5 in T1's version. The part before a
//! bar is the session, the time of the invocation and that of the completion.

use anabranch_history::{Model, Phenomenon};

fn read(item: &str, of: &str) -> String {
    let version = match of.split_once('.') {
        _ if of.is_empty() => String::new(),
        None => format!(",\"version\":\"T{of}\""),
        Some((of, ordinal)) => format!(",\"version\":\"T{of}\",\"ordinal\":{ordinal}"),
    };
    format!("{{\"read\":\"{item}\"{version}}}")
}

fn operation(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let write = |item, kind| format!("{{\"write\":\"{item}\",\"kind\":\"{kind}\"}}");
    match words[..] {
        ["w", item] => write(item, "assign"),
        ["inc", item] => write(item, "increment"),
        ["app", item] => write(item, "apply"),
        ["ins", item] => write(item, "insert"),
        ["del", item] => write(item, "delete"),
        ["r", item] => read(item, ""),
        ["r", item, of] => read(item, of),
        ["s", space, lower, upper, ref found @ ..] => {
            let found = found.iter().map(|found| {
                let (position, of) = found.split_once(':').unwrap_or((found, ""));
                read(&format!("{space}:{position}"), of)
            });
            let found: Vec<String> = found.collect();
            format!(
                "{{\"scan\":\"{space}\",\"lower\":\"{lower}\",\"upper\":\"{upper}\",\"found\":[{}]}}",
                found.join(",")
            )
        }
        _ => panic!("{text}"),
    }
}

fn transaction(number: usize, text: &str) -> String {
    let (client, operations) = text.split_once('|').unwrap_or(("", text));
    let client: Vec<&str> = client.split_whitespace().collect();
    let (outcome, client) = match client[..] {
        ["aborted", ref rest @ ..] => ("{\"aborted\":\"conflict\"}", rest.to_vec()),
        ref rest => ("\"committed\"", rest.to_vec()),
    };
    let session = client
        .first()
        .map(|name| format!("\"session\":\"{name}\","));
    let times = match client[..] {
        [_, from, to] => format!("\"invoked\":{from},\"completed\":{to},"),
        _ => String::new(),
    };
    let operations: Vec<String> = operations.split(';').map(operation).collect();
    format!(
        "{{\"transaction\":\"T{number}\",{}{times}\"outcome\":{outcome},\"operations\":[{}]}}\n",
        session.unwrap_or_default(),
        operations.join(",")
    )
}

/// What a model finds in these transactions, with these orders of versions.
fn found(model: Model, transactions: &[&str], orders: &[(&str, &str)]) -> Vec<Phenomenon> {
    let each = (1..).zip(transactions);
    let transactions: Vec<String> = each.map(|(number, of)| transaction(number, of)).collect();
    crate::support::found(&crate::support::history(&transactions, orders), model)
}

#[test]
fn g0_needs_two_orders_that_differ() {
    let writers = ["w x; w y", "w x; w y"];
    let crossed = found(
        Model::ReadCommitted,
        &writers,
        &[("x", "1 2"), ("y", "2 1")],
    );
    assert_eq!(crossed, [Phenomenon::G0]);
    assert_eq!(
        found(
            Model::ReadCommitted,
            &writers,
            &[("x", "1 2"), ("y", "1 2")]
        ),
        []
    );
    // Increments have no order among themselves.
    let counters = ["inc x; inc y", "inc x; inc y"];
    let orders = [("x", "1 2"), ("y", "2 1")];
    assert_eq!(found(Model::ReadCommitted, &counters, &orders), []);
    assert_eq!(found(Model::Serializable, &counters, &orders), []);
    // Deferred effects have one where all has to agree, and none where visibility is asked.
    let deferred = ["app x; app y", "app x; app y"];
    assert_eq!(found(Model::ReadCommitted, &deferred, &orders), []);
    assert_eq!(
        found(Model::Serializable, &deferred, &orders),
        [Phenomenon::G0]
    );
}

#[test]
fn g1a_is_a_read_of_an_aborted_version() {
    let model = Model::ReadCommitted;
    assert_eq!(
        found(model, &["aborted | w x", "r x 1"], &[]),
        [Phenomenon::G1a]
    );
    assert_eq!(found(model, &["aborted | w x", "r x"], &[]), []);
    assert_eq!(found(model, &["aborted | w x", "aborted | r x 1"], &[]), []);
}

#[test]
fn g1b_is_a_read_of_an_intermediate_version() {
    let model = Model::ReadCommitted;
    assert_eq!(
        found(model, &["w x; w x", "r x 1.1"], &[]),
        [Phenomenon::G1b]
    );
    assert_eq!(found(model, &["w x; w x", "r x 1.2"], &[]), []);
    assert_eq!(found(model, &["w x; w x", "r x 1"], &[]), []);
}

#[test]
fn g1c_is_a_circle_of_reads_and_writes() {
    let model = Model::ReadCommitted;
    assert_eq!(
        found(model, &["w x; r y 2", "w y; r x 1"], &[]),
        [Phenomenon::G1c]
    );
    assert_eq!(found(model, &["w x; r y 2", "w y; r x"], &[]), []);
    let mixed = ["w x", "r y 3; w x", "w y; r x 2"];
    assert_eq!(found(model, &mixed, &[("x", "1 2")]), [Phenomenon::G1c]);
}

#[test]
fn fractured_reads_and_otv_differ_in_what_came_first() {
    let model = Model::ReadAtomic;
    let fractured = found(model, &["w x; w y", "r x; r y 1"], &[]);
    assert_eq!(fractured, [Phenomenon::FracturedReads]);
    let vanished = found(model, &["w x; w y", "r x 1; r y"], &[]);
    assert_eq!(vanished, [Phenomenon::ObservedTransactionVanishes]);
    for whole in ["r x 1; r y 1", "r x; r y", "r x 1"] {
        assert_eq!(found(model, &["w x; w y", whole], &[]), []);
    }
    // A later version is none that was missed.
    let later = ["w x; w y", "w y", "r x 1; r y 2"];
    assert_eq!(found(model, &later, &[("y", "1 2")]), []);
}

/// A counter shows all transactions that incremented it, not only the last writer (a trap for RAMP's comparison of
/// timestamps).
#[test]
fn counters_show_all_transactions_that_incremented_them() {
    let model = Model::ReadAtomic;
    for kind in ["inc", "app"] {
        let writers = [format!("{kind} n; w x"), format!("{kind} n")];
        let judge = |reader: &str| {
            let transactions = [writers[0].as_str(), &writers[1], reader];
            found(model, &transactions, &[("n", "1 2")])
        };
        assert_eq!(judge("r x; r n 2"), [Phenomenon::FracturedReads], "{kind}");
        assert_eq!(judge("r x 1; r n 2"), [], "{kind}");
        assert_eq!(judge("r x; r n"), [], "{kind}");
        assert_eq!(
            judge("r x 1; r n"),
            [Phenomenon::ObservedTransactionVanishes],
            "{kind}"
        );
    }
    // An assignment replaces what was there.
    let replaced = ["inc n; w x", "w n", "r x; r n 2"];
    assert_eq!(found(model, &replaced, &[("n", "1 2")]), []);
}

/// With many writers, the common writers of two items are looked up instead of visited.
#[test]
fn long_counters_read_in_pairs_are_compared_by_common_writers() {
    let count = 40;
    let both: Vec<usize> = vec![5, 20];
    let mut transactions: Vec<String> = (1..=count)
        .map(|number| match both.contains(&number) {
            true => "inc n; inc m".to_owned(),
            false => "inc n".to_owned(),
        })
        .collect();
    let order: Vec<String> = (1..=count).map(|number| number.to_string()).collect();
    let mut judge = |reader: String, both: &str| {
        let orders = [("n", order.join(" ")), ("m", both.to_owned())];
        transactions.push(reader);
        let texts: Vec<&str> = transactions.iter().map(String::as_str).collect();
        let orders: Vec<(&str, &str)> = orders.iter().map(|(i, o)| (*i, o.as_str())).collect();
        let found = found(Model::ReadAtomic, &texts, &orders);
        transactions.pop();
        found
    };
    assert_eq!(judge(format!("r n {count}; r m 20"), "5 20"), []);
    let vanished = [Phenomenon::ObservedTransactionVanishes];
    assert_eq!(judge(format!("r n {count}; r m 5"), "5 20"), vanished);
    assert_eq!(judge(format!("r n {count}; r m"), "5 20"), vanished);
    assert_eq!(judge("r n 19; r m 5".to_owned(), "5 20"), []);
    assert_eq!(judge("r n 4; r m".to_owned(), "5 20"), []);
    assert_eq!(judge("r m 20; r n 19".to_owned(), "5 20"), vanished);
    // The one that came later in the first came earlier in the second.
    assert_eq!(judge(format!("r n {count}; r m 20"), "20 5"), vanished);
    assert_eq!(judge(format!("r n {count}; r m 5"), "20 5"), []);
}

#[test]
fn imp_and_pmp_are_two_versions_of_one_item() {
    let model = Model::ReadAtomic;
    assert_eq!(
        found(model, &["w x", "r x; r x 1"], &[]),
        [Phenomenon::ItemManyPreceders]
    );
    assert_eq!(found(model, &["w x", "r x 1; r x 1"], &[]), []);
    // A transaction that only reads loses no update.
    let serial = found(Model::Serializable, &["w x", "r x; r x 1"], &[]);
    assert!(!serial.contains(&Phenomenon::LostUpdate), "{serial:?}");
    let rows = "w t:5";
    let ranges = "s t 3 7 5; s t 4 6 5:1";
    assert_eq!(
        found(model, &[rows, ranges], &[]),
        [Phenomenon::PredicateManyPreceders]
    );
    assert_eq!(found(model, &[rows, "s t 3 7 5:1; s t 4 6 5:1"], &[]), []);
    // A range and a read.
    let both = [rows, "s t 3 7 5:1; r t:5"];
    assert_eq!(
        found(model, &both, &[]),
        [Phenomenon::PredicateManyPreceders]
    );
    // A row that came, or went, between.
    let came = ["ins t:5; w x", "r x 1; s t 3 7"];
    assert_eq!(
        found(model, &came, &[]),
        [Phenomenon::PredicateManyPreceders]
    );
    assert_eq!(found(model, &["ins t:5; w x", "r x 1; s t 6 7"], &[]), []);
    assert_eq!(
        found(model, &["ins t:5; w x", "r x 1; s t 3 7 5:1"], &[]),
        []
    );
    let went = ["ins t:5", "del t:5; w x", "r x 2; s t 3 7 5:1"];
    let went = found(model, &went, &[("t:5", "1 2")]);
    assert_eq!(went, [Phenomenon::ObservedTransactionVanishes]);
}

#[test]
fn lost_updates_violate_snapshot_isolation() {
    let lost = ["r x; w x", "r x; w x"];
    assert_eq!(
        found(Model::Snapshot, &lost, &[("x", "1 2")]),
        [Phenomenon::LostUpdate]
    );
    assert_eq!(found(Model::ReadAtomic, &lost, &[("x", "1 2")]), []);
    let kept = ["r x; w x", "r x 1; w x"];
    assert_eq!(found(Model::Snapshot, &kept, &[("x", "1 2")]), []);
    // Increments without a read lose nothing.
    assert_eq!(
        found(Model::Snapshot, &["inc x", "inc x"], &[("x", "1 2")]),
        []
    );
}

#[test]
fn write_skew_is_what_snapshots_permit() {
    let skewed = ["r y; w x", "r x; w y"];
    for (model, expected) in [
        (Model::Snapshot, vec![]),
        (Model::UpdateSerializable, vec![Phenomenon::WriteSkew]),
        (Model::Serializable, vec![Phenomenon::WriteSkew]),
    ] {
        assert_eq!(found(model, &skewed, &[]), expected, "{model}");
    }
    assert_eq!(
        found(Model::Serializable, &["r y; w x", "r x 1; w y"], &[]),
        []
    );
}

#[test]
fn g_single_is_a_view_of_two_times() {
    let skewed = ["w x; w y", "r y 1; w z", "r x; r z 2"];
    for model in [
        Model::Snapshot,
        Model::UpdateSerializable,
        Model::Serializable,
    ] {
        assert_eq!(found(model, &skewed, &[]), [Phenomenon::GSingle], "{model}");
    }
    let whole = ["w x; w y", "r y 1; w z", "r x 1; r z 2"];
    assert_eq!(found(Model::Serializable, &whole, &[]), []);
}

#[test]
fn g2_is_a_longer_skew() {
    let three = ["r x; w y", "r y; w z", "r z; w x"];
    assert_eq!(found(Model::Serializable, &three, &[]), [Phenomenon::G2]);
    assert_eq!(found(Model::Snapshot, &three, &[]), []);
    assert_eq!(
        found(
            Model::Serializable,
            &["r x; w y", "r y; w z", "r z 2; w x"],
            &[]
        ),
        []
    );
    // Two ranges that each lack the row that the other transaction inserts.
    let phantoms = ["s t 3 7; ins t:5", "s t 3 7; ins t:6"];
    assert_eq!(
        found(Model::Serializable, &phantoms, &[]),
        [Phenomenon::WriteSkew]
    );
    assert_eq!(
        found(
            Model::Serializable,
            &["s t 3 7; ins t:5", "s t 3 7 5:1; ins t:6"],
            &[]
        ),
        []
    );
}

#[test]
fn a_long_fork_divides_snapshots_from_update_serializability() {
    let fork = ["w x", "w y", "r x 1; r y", "r x; r y 2"];
    assert_eq!(found(Model::Snapshot, &fork, &[]), [Phenomenon::LongFork]);
    assert_eq!(
        found(Model::Serializable, &fork, &[]),
        [Phenomenon::LongFork]
    );
    assert_eq!(found(Model::UpdateSerializable, &fork, &[]), []);
    let agreed = ["w x", "w y", "r x 1; r y", "r x 1; r y 2"];
    assert_eq!(found(Model::Snapshot, &agreed, &[]), []);
}

/// The writers are serializable, and a reader saw a state that no order of them produces.
#[test]
fn g_update_is_a_cycle_of_one_reader_with_writers() {
    let model = Model::UpdateSerializable;
    let torn = ["r y; w x", "w y", "r y 2; r x"];
    assert_eq!(found(model, &torn, &[]), [Phenomenon::GUpdate]);
    assert_eq!(found(model, &["r y; w x", "w y", "r y 2; r x 1"], &[]), []);
    assert_eq!(found(model, &["r y; w x", "w y", "r y; r x 1"], &[]), []);
    // The same with other transactions on the reader's path or beside it.
    let far = [
        "r y; w x",
        "w a",
        "r a 2; w y",
        "r y 3; w b",
        "w c",
        "r b 4; r c 5; r x",
    ];
    assert_eq!(found(model, &far, &[]), [Phenomenon::GUpdate]);
    let near = [
        "r y; w x",
        "w a",
        "r a 2; w y",
        "r y 3; w b",
        "w c",
        "r b 4; r c 5; r x 1",
    ];
    assert_eq!(found(model, &near, &[]), []);
    // Writers that do not agree are found without a reader, and a single antidependency has its
    // own name.
    assert_eq!(
        found(model, &["r y; w x", "r x; w y"], &[]),
        [Phenomenon::WriteSkew]
    );
    let single = ["w x; w z", "r z 1; w y", "r y 2; r x"];
    assert_eq!(found(model, &single, &[]), [Phenomenon::GSingle]);
}

#[test]
fn real_time_closes_a_cycle() {
    let stale = ["a 1 2 | w x", "b 3 4 | r x"];
    assert_eq!(
        found(Model::StrictSerializable, &stale, &[]),
        [Phenomenon::RealTime]
    );
    assert_eq!(found(Model::Serializable, &stale, &[]), []);
    // Calls that overlap may come in either order; so may those that touch.
    assert_eq!(
        found(
            Model::StrictSerializable,
            &["a 1 3 | w x", "b 2 4 | r x"],
            &[]
        ),
        []
    );
    assert_eq!(
        found(
            Model::StrictSerializable,
            &["a 1 3 | w x", "b 3 4 | r x"],
            &[]
        ),
        []
    );
    let later = ["a 1 2 | w x", "b 3 4 | w x"];
    assert_eq!(
        found(Model::StrictSerializable, &later, &[("x", "1 2")]),
        []
    );
    let turned = found(Model::StrictSerializable, &later, &[("x", "2 1")]);
    assert_eq!(turned, [Phenomenon::RealTime]);
}

#[test]
fn causes_come_before_their_effects() {
    let model = Model::Causal;
    let missed = ["w x", "r x 1; w y", "r y 2; r x"];
    assert_eq!(found(model, &missed, &[]), [Phenomenon::MissingDependency]);
    assert_eq!(found(Model::ReadAtomic, &missed, &[]), []);
    assert_eq!(
        found(model, &["w x", "r x 1; w y", "r y 2; r x 1"], &[]),
        []
    );
    // A session's earlier transactions are dependencies, too.
    let session = ["a | w x", "a | w y", "b | r y 2; r x"];
    assert_eq!(found(model, &session, &[]), [Phenomenon::MissingDependency]);
    assert_eq!(
        found(model, &["a | w x", "c | w y", "b | r y 2; r x"], &[]),
        []
    );
    // An effect before its cause: a read of a later write of the same session.
    let circle = ["a | r x 2", "a | w x"];
    assert_eq!(found(model, &circle, &[]), [Phenomenon::CausalCycle]);
    assert_eq!(found(model, &["a | r x", "a | w x"], &[]), []);
}

#[test]
fn sessions_read_no_older_versions_than_before() {
    let model = Model::Sessions;
    let back = ["a | w x", "b | r x 1", "b | r x"];
    assert_eq!(found(model, &back, &[]), [Phenomenon::NonMonotonicReads]);
    assert_eq!(found(model, &["a | w x", "b | r x", "b | r x 1"], &[]), []);
    // Another session may read older versions.
    assert_eq!(found(model, &["a | w x", "b | r x 1", "c | r x"], &[]), []);
    // The newest of what one transaction saw counts, in whichever order it saw it.
    let mixed = ["a | w x", "a | w x", "b | r x 2; r x", "b | r x 1"];
    let mixed = found(model, &mixed, &[("x", "1 2")]);
    assert_eq!(mixed, [Phenomenon::NonMonotonicReads]);
    // The last read counts across transactions that did not read the item.
    let later = ["a | w x", "a | w x", "b | r x 2", "b | r y", "b | r x 1"];
    assert_eq!(
        found(model, &later, &[("x", "1 2")]),
        [Phenomenon::NonMonotonicReads]
    );
}

#[test]
fn sessions_see_their_own_writes() {
    let model = Model::Sessions;
    assert_eq!(
        found(model, &["a | w x", "a | r x"], &[]),
        [Phenomenon::MissingYourWrites]
    );
    assert_eq!(found(model, &["a | w x", "a | r x 1"], &[]), []);
    // Or what came after them.
    let newer = ["a | w x", "b | w x", "a | r x 2"];
    assert_eq!(found(model, &newer, &[("x", "1 2")]), []);
    let older = found(model, &newer, &[("x", "2 1")]);
    assert_eq!(older, [Phenomenon::MissingYourWrites]);
}

#[test]
fn sessions_write_in_their_order() {
    let model = Model::Sessions;
    let writes = ["a | w x", "a | w x"];
    assert_eq!(found(model, &writes, &[("x", "1 2")]), []);
    assert_eq!(
        found(model, &writes, &[("x", "2 1")]),
        [Phenomenon::NonMonotonicWrites]
    );
    let apart = ["a | w x", "b | w x"];
    assert_eq!(found(model, &apart, &[("x", "2 1")]), []);
    // Writes that commute are unordered.
    assert_eq!(
        found(model, &["a | inc x", "a | inc x"], &[("x", "2 1")]),
        []
    );
    let mixed = ["a | inc x", "a | w x"];
    assert_eq!(
        found(model, &mixed, &[("x", "2 1")]),
        [Phenomenon::NonMonotonicWrites]
    );
}

#[test]
fn sessions_write_after_what_they_read() {
    let model = Model::Sessions;
    let transactions = ["a | w x", "b | r x 1", "b | w x"];
    assert_eq!(found(model, &transactions, &[("x", "1 3")]), []);
    let before = found(model, &transactions, &[("x", "3 1")]);
    assert_eq!(before, [Phenomenon::WritesBeforeReads]);
    // Within one transaction as well.
    let at_once = ["a | w x", "b | r x 1; w x"];
    assert_eq!(
        found(model, &at_once, &[("x", "2 1")]),
        [Phenomenon::WritesBeforeReads]
    );
    assert_eq!(found(model, &at_once, &[("x", "1 2")]), []);
}

/// Each guarantee of a session has a model that forbids what breaks it, and nothing else.
#[test]
fn guarantees_of_sessions_are_told_apart() {
    let cases = [
        (
            Model::MonotonicReads,
            Phenomenon::NonMonotonicReads,
            &["a | w x", "b | r x 1", "b | r x"][..],
            &[][..],
        ),
        (
            Model::MonotonicWrites,
            Phenomenon::NonMonotonicWrites,
            &["a | w x", "a | w x"],
            &[("x", "2 1")],
        ),
        (
            Model::ReadYourWrites,
            Phenomenon::MissingYourWrites,
            &["a | w x", "a | r x"],
            &[],
        ),
        (
            Model::WritesFollowReads,
            Phenomenon::WritesBeforeReads,
            &["a | w x", "b | r x 1", "b | w x"],
            &[("x", "3 1")],
        ),
    ];
    for (own, phenomenon, transactions, orders) in cases {
        for (model, ..) in cases {
            let forbidden: &[Phenomenon] = match model == own {
                true => &[phenomenon],
                false => &[],
            };
            let found = found(model, transactions, orders);
            assert_eq!(found, forbidden, "{phenomenon:?} under {model}");
        }
        assert_eq!(found(Model::Sessions, transactions, orders), [phenomenon]);
    }
}
