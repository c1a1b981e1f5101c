//! Every model at a size that a test can afford; `docs/models.md` has the larger ones.

use anabranch_models::explore::Limits;
use anabranch_models::model::{Model, Report, Size};

fn run(name: &str, size: Size) -> Report {
    let model = Model::named(name).expect("a model's name");
    let report = model.run(size, Limits::default()).expect("a small size");
    println!("{name} {size:?}: {:?}", report.visited);
    report
}

/// Nothing is wrong in any of at least so many states.
#[track_caller]
fn holds(name: &str, size: Size, states_min: u64) {
    let report = run(name, size);
    if let Some((_, story)) = report.found {
        panic!("{name} {size:?}:\n{story}");
    }
    assert!(report.visited.complete);
    // A cluster in which hardly anything happens shows nothing.
    assert!(
        report.visited.states >= states_min,
        "{name} {size:?}: {:?}",
        report.visited
    );
}

/// Something is wrong, and this is the shortest way to it.
#[track_caller]
fn finds(name: &str, size: Size, steps: usize, what: &str) {
    let (found, story) = run(name, size).found.expect("it is wrong on purpose");
    println!("{story}");
    assert!(found.what.contains(what), "{}", found.what);
    assert_eq!(found.actions.len(), steps, "{story}");
}

/// Two of each, which the tests vary.
const TWO: Size = Size::TWO;

/// One reader, and everybody asks one partition after the other.
const ONE_BY_ONE: Size = Size {
    readers: 1,
    one_by_one: true,
    ..TWO
};

#[test]
fn ramp_shows_all_of_a_transaction_or_nothing() {
    holds("ramp", TWO, 5_000);
}

#[test]
fn ramp_shows_all_of_a_transaction_to_readers_that_ask_one_partition_after_the_other() {
    holds("ramp", ONE_BY_ONE, 500);
}

/// Who is answered early may not find at another node what it wrote; nobody finds half of it.
#[test]
fn one_phase_writes_show_all_of_a_transaction_or_nothing() {
    holds("ramp-one-phase", TWO, 5_000);
    let size = Size {
        writers: 1,
        apart: true,
        crashes: 1,
        ..TWO
    };
    holds("ramp-one-phase", size, 1_000);
}

/// Whoever sees a reply sees what it answers (ramp.txt §6.3), in every order of all messages; plain RAMP
/// permits the other thing.
#[test]
fn causal_ramp_shows_what_a_reply_answers() {
    for name in ["causal", "causal-small"] {
        let one = Size { readers: 1, ..TWO };
        holds(name, one, 1_000);
        holds(name, ONE_BY_ONE, 1_000);
        let apart = Size {
            apart: true,
            ..ONE_BY_ONE
        };
        holds(name, apart, 1_000);
    }
    let returns = Size {
        readers: 1,
        returns: 1,
        ..TWO
    };
    holds("causal", returns, 10_000);
    finds("ramp-replies", ONE_BY_ONE, 13, "quotes a comment");
}

/// Evidence and superseded versions go, readers in progress do not.
#[test]
fn ramp_shows_all_of_a_transaction_while_it_is_being_forgotten() {
    for (readers, jumps) in [(1, 3), (2, 1)] {
        let size = Size {
            writers: 1,
            readers,
            one_by_one: true,
            jumps,
            ..TWO
        };
        holds("ramp", size, 10_000);
    }
}

/// A coordinator of a writer stops for ever; what it had sent arrives or does not. The others are
/// not kept waiting.
#[test]
fn ramp_blocks_nobody_when_a_coordinator_stops() {
    let size = Size {
        writers: 1,
        apart: true,
        crashes: 1,
        ..TWO
    };
    holds("ramp", size, 2_000);
    let size = Size {
        readers: 0,
        apart: true,
        crashes: 1,
        ..TWO
    };
    holds("ramp", size, 500);
}

/// The same of the others.
const INEXACT: [&str; 2] = ["ramp-small", "ramp-hybrid"];

#[test]
fn small_and_hybrid_show_all_of_a_transaction_or_nothing() {
    for name in INEXACT {
        holds(name, TWO, 5_000);
        let size = Size {
            readers: 1,
            one_by_one: true,
            ..TWO
        };
        holds(name, size, 500);
    }
}

#[test]
fn small_and_hybrid_show_all_of_a_transaction_while_it_is_being_forgotten() {
    for name in INEXACT {
        let size = Size {
            writers: 1,
            readers: 1,
            one_by_one: true,
            jumps: 3,
            ..TWO
        };
        holds(name, size, 10_000);
    }
}

/// A coordinator of a writer stops for ever, between any two of its messages.
#[test]
fn small_and_hybrid_block_nobody_when_a_coordinator_stops() {
    for name in INEXACT {
        let size = Size {
            writers: 1,
            apart: true,
            crashes: 1,
            ..TWO
        };
        holds(name, size, 2_000);
    }
}

#[test]
fn small_and_hybrid_show_all_of_a_transaction_when_a_node_comes_back() {
    for name in INEXACT {
        let size = Size {
            readers: 1,
            returns: 1,
            ..TWO
        };
        holds(name, size, 5_000);
    }
}

/// Cooperative termination: a coordinator that owns nothing crashes at any moment, with whatever it had
/// sent and had not arrived, and for ever; the participants come to agree. And nothing that readers see
/// is torn while they do, whenever they ask.
#[test]
fn participants_agree_when_their_coordinator_is_gone() {
    for name in ["ramp", "ramp-small", "ramp-hybrid"] {
        let size = Size {
            writers: 1,
            readers: 1,
            apart: true,
            crashes: 1,
            terminates: true,
            ..TWO
        };
        holds(name, size, 1_000);
        let asks_early = Size {
            readers: 0,
            jumps: 1,
            ..size
        };
        holds(name, asks_early, 1_000);
    }
}

/// The same where the coordinator dies and comes back, and where participants do.
#[test]
fn participants_agree_when_nodes_come_back() {
    for (returns, jumps) in [(1, 1), (2, 0)] {
        let size = Size {
            writers: 1,
            readers: 0,
            apart: true,
            terminates: true,
            returns,
            jumps,
            ..TWO
        };
        holds("ramp", size, 500);
    }
}

#[test]
fn ramp_keeps_what_guards_protect() {
    let size = Size { writers: 3, ..TWO };
    holds("ramp-guards", size, 500);
}

#[test]
fn locking_is_serializable() {
    holds("locking", TWO, 5_000);
}

#[test]
fn locking_is_serializable_where_locks_are_asked_for_one_by_one() {
    holds("locking", ONE_BY_ONE, 500);
    holds("locking-undeclared", ONE_BY_ONE, 500);
}

/// A node dies at any moment and comes back with what was durable; its peers hear of it each in its
/// own time.
#[test]
fn ramp_shows_all_of_a_transaction_when_a_node_comes_back() {
    holds("ramp", Size { returns: 1, ..TWO }, 20_000);
}

#[test]
fn locking_is_serializable_when_a_node_comes_back() {
    holds("locking", Size { returns: 1, ..TWO }, 20_000);
    let size = Size {
        returns: 1,
        ..ONE_BY_ONE
    };
    holds("locking-undeclared", size, 5_000);
}

/// Commit checks race commits in every order (trap 8 of E-PCI).
#[test]
fn e_pci_shows_all_of_a_transaction_or_nothing() {
    holds("e-pci", TWO, 5_000);
    holds("e-pci", ONE_BY_ONE, 1_500);
    let size = Size {
        apart: true,
        readers: 1,
        ..TWO
    };
    holds("e-pci", size, 5_000);
}

/// With two partitions whoever has met a writer has its `Commit` on the same link: it takes a third one,
/// so that there is something to check.
#[test]
fn e_pci_asks_where_a_commit_has_not_arrived() {
    let size = Size {
        partitions: 3,
        writers: 1,
        ..TWO
    };
    holds("e-pci", size, 1_000);
}

/// The self-tests: what is wrong is found, in the fewest steps.
#[test]
fn what_is_wrong_on_purpose_is_found() {
    finds("nwnr", TWO, 5, "fractured");
    finds("ramp-deaf", TWO, 7, "fractured");
    let size = Size {
        writers: 1,
        ..ONE_BY_ONE
    };
    finds("locking-short", size, 11, "no serial order");
    finds("lwnr", size, 11, "no serial order");
}

/// Leaving out orders spares steps, and no state.
#[test]
fn reduction_loses_no_state() {
    let size = Size {
        jumps: 1,
        ..ONE_BY_ONE
    };
    for (name, size) in [("ramp", size), ("locking", TWO)] {
        let model = Model::named(name).expect("a model's name");
        let [reduced, every] = [true, false].map(|reduce| {
            let limits = Limits {
                reduce,
                ..Limits::default()
            };
            model.run(size, limits).expect("a small size").visited
        });
        assert_eq!(reduced.states, every.states, "{name}");
        assert_eq!(reduced.ends, every.ends, "{name}");
        assert!(reduced.steps < every.steps, "{name}: {reduced:?} {every:?}");
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let model = Model::named("ramp").expect("a model's name");
    let size = Size {
        writers: 5,
        readers: 4,
        ..TWO
    };
    assert!(model.run(size, Limits::default()).is_err());
}

/// Three copies of two partitions, one of which may crash or come back. There are millions of states, which
/// docs/models.md has the commands for: here the first of them are looked at, an end among them.
#[test]
fn quorums_show_all_of_a_transaction_or_nothing() {
    let limits = Limits {
        states_max: 30_000,
        ..Limits::default()
    };
    let model = Model::named("ramp-quorum").expect("a model's name");
    for (readers, crashes, returns) in [(1, 0, 0), (1, 1, 0), (0, 0, 1)] {
        let size = Size {
            writers: 1,
            readers,
            crashes,
            returns,
            ..TWO
        };
        let report = model.run(size, limits).expect("a small size");
        println!("ramp-quorum {size:?}: {:?}", report.visited);
        if let Some((_, story)) = report.found {
            panic!("{size:?}:\n{story}");
        }
        assert!(report.visited.ends > 0, "{size:?}: {:?}", report.visited);
    }
}
