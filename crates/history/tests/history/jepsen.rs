//! Jepsen histories in their own format, without named versions or version orders.

use anabranch_history::{History, HistoryError, Model, Phenomenon, check};

/// The names of what a model finds in a history.
fn found(text: &str, model: Model) -> Vec<Phenomenon> {
    let history = History::read(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    crate::support::found(&history, model)
}

/// Committed transactions of one process each, without invocations.
fn bare(transactions: &[&str]) -> String {
    let lines = transactions.iter().enumerate();
    let lines: Vec<String> = lines
        .map(|(process, value)| format!("{{:type :ok, :process {process}, :value {value}}}\n"))
        .collect();
    lines.concat()
}

fn refused(text: &str) -> HistoryError {
    History::read(text.as_bytes()).expect_err("there is no verdict on this")
}

const VALID: &str = include_str!("jepsen/list-append-valid.edn");

#[test]
fn valid_histories_satisfy_every_model() {
    for model in Model::ALL {
        assert_eq!(found(VALID, model), [], "{model}");
    }
    let registers = include_str!("jepsen/rw-register-valid.edn");
    for model in Model::ALL
        .into_iter()
        .filter(|model| !model.is_of_sessions())
    {
        assert_eq!(found(registers, model), [], "{model}");
    }
}

/// A transaction with an unknown outcome counts as committed if its write was read.
#[test]
fn an_unknown_outcome_counts_where_it_was_read() {
    for (kind, seen) in [("append", "[1]"), ("w", "1")] {
        let text = format!(
            "{{:type :info, :process 0, :value [[:{kind} 1 1] [:{kind} 2 1]]}}\n\
             {{:type :ok, :process 1, :value [[:r 2 nil] [:r 1 {seen}]]}}\n"
        );
        assert_eq!(
            found(&text, Model::ReadAtomic),
            [Phenomenon::FracturedReads]
        );
        let unread = text.replace(&format!("[:r 1 {seen}]"), "[:r 1 nil]");
        assert_eq!(found(&unread, Model::ReadAtomic), []);
    }
}

#[test]
fn lists_appended_in_two_orders_are_g0() {
    let text = include_str!("jepsen/list-append-g0.edn");
    assert_eq!(found(text, Model::ReadCommitted), [Phenomenon::G0]);
}

#[test]
fn transactions_that_read_each_other_are_g1c() {
    for text in [
        include_str!("jepsen/list-append-g1c.edn"),
        include_str!("jepsen/rw-register-g1c.edn"),
    ] {
        assert_eq!(found(text, Model::ReadCommitted), [Phenomenon::G1c]);
    }
}

#[test]
fn a_missed_dependency_is_g_single() {
    for text in [
        include_str!("../../../../examples/histories/jepsen-g-single.edn"),
        include_str!("jepsen/rw-register-g-single.edn"),
    ] {
        assert_eq!(found(text, Model::ReadAtomic), []);
        assert_eq!(found(text, Model::Causal), [Phenomenon::MissingDependency]);
        assert_eq!(found(text, Model::Snapshot), [Phenomenon::GSingle]);
        assert_eq!(found(text, Model::Serializable), [Phenomenon::GSingle]);
    }
}

#[test]
fn aborted_and_intermediate_reads_are_named() {
    let aborted = "{:type :fail, :process 0, :value [[:append 1 1]]}\n\
                   {:type :ok, :process 1, :value [[:r 1 [1]]]}\n";
    assert_eq!(found(aborted, Model::ReadCommitted), [Phenomenon::G1a]);
    let within = "{:type :fail, :process 0, :value [[:append 1 1]]}\n\
                  {:type :ok, :process 1, :value [[:append 1 2]]}\n\
                  {:type :ok, :process 2, :value [[:r 1 [1 2]]]}\n";
    assert_eq!(found(within, Model::ReadCommitted), [Phenomenon::G1a]);
    let intermediate = bare(&["[[:append 1 1] [:append 1 2]]", "[[:r 1 [1]]]"]);
    assert_eq!(
        found(&intermediate, Model::ReadCommitted),
        [Phenomenon::G1b]
    );
    let whole = bare(&["[[:append 1 1] [:append 1 2]]", "[[:r 1 [1 2]]]"]);
    assert_eq!(found(&whole, Model::ReadCommitted), []);
    let registers = bare(&["[[:w 1 1] [:w 1 2]]", "[[:r 1 1]]"]);
    assert_eq!(found(&registers, Model::ReadCommitted), [Phenomenon::G1b]);
}

#[test]
fn an_append_between_two_of_another_transaction_is_g0() {
    let text = bare(&[
        "[[:append 1 1] [:append 1 3]]",
        "[[:append 1 2]]",
        "[[:r 1 [1 2 3]]]",
    ]);
    assert_eq!(found(&text, Model::ReadCommitted), [Phenomenon::G0]);
}

#[test]
fn a_list_shows_all_transactions_that_appended_to_it() {
    // The reader's version is the second writer's; the first one's other append is missed.
    let text = bare(&[
        "[[:append 1 1] [:append 2 1]]",
        "[[:append 1 2]]",
        "[[:r 2 nil] [:r 1 [1 2]]]",
    ]);
    assert_eq!(
        found(&text, Model::ReadAtomic),
        [Phenomenon::FracturedReads]
    );
    let later = text.replace("[:r 2 nil] [:r 1 [1 2]]", "[:r 1 [1 2]] [:r 2 nil]");
    assert_eq!(
        found(&later, Model::ReadAtomic),
        [Phenomenon::ObservedTransactionVanishes]
    );
    let whole = text.replace("[:r 2 nil]", "[:r 2 [1]]");
    assert_eq!(found(&whole, Model::ReadAtomic), []);
}

#[test]
fn what_no_order_explains_is_named() {
    let forked = bare(&[
        "[[:append 1 1]]",
        "[[:append 1 2]]",
        "[[:r 1 [1 2]]]",
        "[[:r 1 [2]]]",
    ]);
    assert_eq!(
        found(&forked, Model::ReadCommitted),
        [Phenomenon::IncompatibleOrder]
    );
    let twice = bare(&["[[:append 1 1]]", "[[:r 1 [1 1]]]"]);
    assert_eq!(
        found(&twice, Model::ReadCommitted),
        [Phenomenon::DuplicateElements]
    );
    let own = bare(&["[[:append 1 1] [:r 1 nil]]"]);
    assert_eq!(found(&own, Model::ReadCommitted), []);
    assert_eq!(found(&own, Model::ReadAtomic), [Phenomenon::Internal]);
    let own = bare(&["[[:w 1 1] [:r 1 nil]]"]);
    assert_eq!(found(&own, Model::ReadAtomic), [Phenomenon::Internal]);
}

#[test]
fn lost_updates_and_write_skew_are_found_in_both() {
    let lost = [
        bare(&[
            "[[:r 1 nil] [:append 1 1]]",
            "[[:r 1 nil] [:append 1 2]]",
            "[[:r 1 [1 2]]]",
        ]),
        bare(&["[[:r 1 nil] [:w 1 1]]", "[[:r 1 nil] [:w 1 2]]"]),
    ];
    for text in &lost {
        assert_eq!(found(text, Model::ReadAtomic), []);
        assert_eq!(found(text, Model::Snapshot), [Phenomenon::LostUpdate]);
    }
    let skewed = [
        bare(&["[[:r 1 nil] [:append 2 1]]", "[[:r 2 nil] [:append 1 1]]"]),
        bare(&["[[:r 1 nil] [:w 2 1]]", "[[:r 2 nil] [:w 1 1]]"]),
    ];
    for text in &skewed {
        assert_eq!(found(text, Model::Snapshot), []);
        assert_eq!(found(text, Model::Serializable), [Phenomenon::WriteSkew]);
    }
}

/// Many updates from one state: every pair is a lost update, and the graph stays small.
#[test]
fn many_lost_updates_of_one_register_are_one_knot() {
    let transactions: Vec<String> = (0..400)
        .map(|number| format!("[[:r 1 nil] [:w 1 {number}]]"))
        .collect();
    let texts: Vec<&str> = transactions.iter().map(String::as_str).collect();
    assert_eq!(
        found(&bare(&texts), Model::Snapshot),
        [Phenomenon::LostUpdate]
    );
    let readers = ["[[:r 1 nil]]"; 400];
    let writers: Vec<String> = (0..400)
        .map(|number| format!("[[:w 1 {number}]]"))
        .collect();
    let mut texts: Vec<&str> = readers.to_vec();
    texts.extend(writers.iter().map(String::as_str));
    assert_eq!(found(&bare(&texts), Model::Serializable), []);
}

#[test]
fn registers_in_no_known_order_are_given_the_benefit_of_the_doubt() {
    // The two writers of 1 are unordered; one order explains the reads, and the other would not.
    let text = bare(&["[[:w 1 1] [:w 2 1]]", "[[:w 1 2]]", "[[:r 1 2] [:r 2 1]]"]);
    assert_eq!(found(&text, Model::Serializable), []);
    let fractured = bare(&["[[:w 1 1] [:w 2 1]]", "[[:r 1 nil] [:r 2 1]]"]);
    assert_eq!(
        found(&fractured, Model::ReadAtomic),
        [Phenomenon::FracturedReads]
    );
    let two = bare(&["[[:w 1 1]]", "[[:w 1 2]]", "[[:r 1 1] [:r 1 2]]"]);
    assert_eq!(
        found(&two, Model::ReadAtomic),
        [Phenomenon::ItemManyPreceders]
    );
    let history = History::read(two.as_bytes()).expect("it is valid");
    let refusal = check(&history, Model::Sessions).expect_err("sessions need the order");
    assert!(
        refusal.to_string().contains("do not tell the order"),
        "{refusal}"
    );
}

#[test]
fn real_time_is_the_order_of_invocations_and_completions() {
    let stale = "{:type :invoke, :f :txn, :value [[:append 1 1]], :process 0}\n\
                 {:type :ok, :f :txn, :value [[:append 1 1]], :process 0}\n\
                 {:type :invoke, :f :txn, :value [[:r 1 nil]], :process 1}\n\
                 {:type :ok, :f :txn, :value [[:r 1 nil]], :process 1}\n";
    assert_eq!(found(stale, Model::Serializable), []);
    assert_eq!(
        found(stale, Model::StrictSerializable),
        [Phenomenon::RealTime]
    );
    // Within one process it also violates the session guarantee.
    let same = stale.replace(":process 1", ":process 0");
    assert_eq!(
        found(&same, Model::Sessions),
        [Phenomenon::MissingYourWrites]
    );
    let bare = bare(&["[[:append 1 1]]", "[[:r 1 nil]]"]);
    let history = History::read(bare.as_bytes()).expect("it is valid");
    assert!(check(&history, Model::StrictSerializable).is_err());
}

#[test]
fn the_explanation_uses_the_notation_of_the_history() {
    let text = include_str!("jepsen/list-append-g0.edn");
    let history = History::read(text.as_bytes()).expect("it is valid");
    let verdict = check(&history, Model::ReadCommitted).expect("it can be judged");
    let words = verdict.anomalies[0].to_text();
    for expected in [
        "T2 (line 4): append :x 1; append :y 1",
        "T2 —ww→ T3: T3 wrote key x after T2",
        "T3 —ww→ T2: T2 wrote key y after T3",
    ] {
        assert!(words.contains(expected), "{words}");
    }
}

#[test]
fn what_contradicts_itself_is_refused_with_its_line() {
    let cases = [
        (
            bare(&["[[:append 1 1]]", "[[:r 1 [1 2]]]"]),
            2,
            "which no transaction appended",
        ),
        (
            bare(&["[[:w 1 1]]", "[[:r 1 2]]"]),
            2,
            "which no transaction wrote",
        ),
        (
            bare(&["[[:append 1 1]]", "[[:append 1 1]]"]),
            2,
            "not unique",
        ),
        (bare(&["[[:w 1 1]]", "[[:w 1 1]]"]), 2, "not unique"),
        (
            bare(&["[[:w 1 1]]", "[[:append 2 1]]"]),
            2,
            "one of the two",
        ),
        (
            bare(&["[[:w 1 1]]", "[[:r 1 [1]]]"]),
            2,
            "reads no register",
        ),
        (bare(&["[[:append 1 1]]", "[[:r 1 1]]"]), 2, "reads no list"),
        (bare(&["[[:cas 1 1]]"]), 1, "a step is"),
        (bare(&["nil"]), 1, "is a vector"),
        ("{:type :ko, :value []}".into(), 1, ":type"),
        ("{:type :ok, :value [[:w 1 1]]} 7".into(), 1, "is a map"),
        ("{:type :ok, :value".into(), 1, "truncated"),
        ("{:type :ok, :value}".into(), 1, "without a value"),
        ("[{:type :ok, :value [[:w 1 1]]}".into(), 1, "truncated"),
        ("{:type :ok, :value []} ]".into(), 1, "nothing has opened"),
        ("#".repeat(100) + "{", 1, "truncated"),
        ("[".repeat(100_000), 1, "too deeply"),
    ];
    for (text, line, words) in cases {
        let error = refused(&text);
        assert_eq!(error.line, line, "{text}: {error}");
        assert!(error.to_string().contains(words), "{text}: {error}");
    }
    let invocation = "{:type :invoke, :process 0, :value [[:w 1 1]]}\n";
    let error = refused(&format!("{invocation}{invocation}"));
    assert!(error.to_string().contains("under way"), "{error}");
    let completion = "{:type :ok, :process 1, :value [[:w 1 2]]}\n";
    let error = refused(&format!("{invocation}{completion}"));
    assert_eq!(error.line, 2);
    assert!(error.to_string().contains("has not invoked"), "{error}");
    let other = "{:type :ok, :process 0, :value [[:w 1 2]]}\n";
    let error = refused(&format!("{invocation}{other}"));
    assert_eq!(error.line, 2);
    assert!(
        error.to_string().contains("completes with [:w 1 2]"),
        "{error}"
    );
}

/// A file cut within a value is refused. Cut between values, it lacks completions, which may come late or never;
/// completions without invocations are refused.
#[test]
fn a_file_cut_within_a_line_is_refused() {
    for (length, _) in VALID.char_indices().skip(2) {
        if !VALID[..length].trim_end().ends_with('}') {
            let error = refused(&VALID[..length]);
            assert!(
                error.to_string().contains("truncated"),
                "cut at {length}: {error}"
            );
        }
    }
}
